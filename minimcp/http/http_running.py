"""A server over HTTP that is running: what listens, and what serves behind it."""

from __future__ import annotations

import threading
from typing import Any, Optional

from ..engine.timer import LONGEST_WAIT
from .common import LOOPBACK, HttpRequest, ResponseWriter
from .endpoint import Endpoint
from .http_connection import Timing
from .http_server_settings import HttpSettings
from .serving import HttpServing
from .sse_server import MESSAGES_PATH, STREAM_PATH, SseServer

CUT_SECONDS = 0.3
"""What responses that were told to end get to do so."""


class _Both:
    """The application of one port: the newer transport, the older one, or both.

    Args:
        http: The newer; None when it is not served.
        sse: The older; None when it is not served.
    """

    def __init__(self, http: Optional[Endpoint], sse: Optional[SseServer]) -> None:
        self._http, self._sse = http, sse

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Serve one request; returns when the response is complete."""
        older = request.path.partition("?")[0] in (STREAM_PATH, MESSAGES_PATH)
        server: Any = self._sse if self._http is None or (older and self._sse is not None) else self._http
        server.serve(request, writer)


class RunningHttp:
    """A server that listens until `close`; a context manager. Thread-safe.

    Args:
        http: Serves Streamable HTTP; None when that is not served.
        sse: Serves HTTP+SSE; None when that is not served.
        settings: Of both.
        host: Where to listen.
        port: 0 takes a free one.
        max_connections: At the same time; None means no limit.
        write_timeout: Seconds after which a client that takes nothing is lost; None waits for a day.
        drain_grace: Seconds that running requests get at `close`.

    Raises:
        ValueError: Other machines could reach it there, and nobody said by which names.
        OSError: It cannot listen there.

    ``url`` is where clients connect, ``port`` where it listens.
    """

    def __init__(
        self,
        http: Optional[Endpoint],
        sse: Optional[SseServer],
        settings: HttpSettings,
        *,
        host: str,
        port: int,
        max_connections: Optional[int],
        write_timeout: Optional[float],
        drain_grace: float,
    ) -> None:
        if host not in LOOPBACK and settings.allowed_hosts is None:
            raise ValueError(
                f"other machines reach {host!r}: say by which names in allowed_hosts, as in ['example.com'], "
                "or ['*'] for any"
            )
        self._http, self._sse, self._grace = http, sse, drain_grace
        self._ended = threading.Event()
        self._serving = HttpServing(
            _Both(http, sse),
            host=host,
            port=port,
            path=STREAM_PATH if http is None else settings.path,
            max_connections=max_connections,
            max_body_bytes=settings.max_body_bytes,
            timing=Timing(write=LONGEST_WAIT if write_timeout is None else write_timeout),
            drain_grace=drain_grace,
        )
        self.port, self.url = self._serving.port, self._serving.url

    @property
    def ended(self) -> bool:
        """Whether it is closed."""
        return self._ended.is_set()

    def close(self, grace: Optional[float] = None, reason: Optional[str] = None) -> None:
        """Take no more requests, let running ones end, and let go of everything. Idempotent, from any thread.

        Args:
            grace: Seconds that running requests get; None takes the server's ``drain_grace``.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
        """
        if self._sse is not None:
            self._sse.close()
        if self._http is not None:
            self._http.close(self._grace if grace is None else grace, reason)
        self._serving.close(CUT_SECONDS)
        self._ended.set()

    def renew(self) -> None:
        """This process is a fork of the one that serves: close descriptors, and nothing else."""
        self._serving.close()
        self._ended.set()

    def __enter__(self) -> RunningHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RunningHttp {self.url} {'closed' if self.ended else 'open'}>"
