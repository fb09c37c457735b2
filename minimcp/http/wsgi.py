"""An HTTP server as an application of PEP 3333, and as a function.

The host pulls the pieces of a body, and a handler pushes them from the depth of its own calls; so
the handler runs on another thread, and `Mailbox` is between the two. That a client is gone is
noticed at the next write. https://peps.python.org/pep-3333/
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextvars import copy_context
from functools import partial
from socketserver import ThreadingMixIn
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

from ..errors import ConnectionLost
from ..log import logger
from .endpoint import Endpoint
from .framing import REASONS
from .headers import HttpRequest, HttpResponse, ResponseWriter

log = logger("minimcp.http")

# What may wait in a mailbox before its writer waits too.
PIECES = 64

# How much of a body is read that is not wanted: many clients send all of it before they look at the
# response, and a proxy that cannot do so answers with status 502 instead.
SKIPPED_BYTES = 16 * 1024 * 1024

_PIECE_BYTES = 64 * 1024


class Mailbox(ResponseWriter, Iterator[bytes]):
    """A response that one thread writes and another one reads; the pieces of its body, as an
    iterator with `close`.

    Args:
        patience: Seconds that `write` waits for the reader before that counts as gone; None waits
            for ever.

    Thread safety: all methods, from any thread.
    """

    def __init__(self, patience: Optional[float]) -> None:
        super().__init__()
        self._patience = patience
        self._response: Optional[HttpResponse] = None
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self._changed = threading.Condition()

    def send(self, status: int, headers: list[tuple[str, str]], body: Any = None) -> None:
        with self._changed:
            self._response = HttpResponse(
                status, [*headers, *self.added], self if body is None else body
            )
            self._changed.notify_all()

    begin = send

    def write(self, data: bytes) -> None:
        with self._changed:
            in_time = self._changed.wait_for(self.has_room, self._patience)
            if in_time and not self.gone:
                self._pieces.append(data)
                self._changed.notify_all()
                return
        self.close()
        raise ConnectionLost("the client has gone")

    def has_room(self) -> bool:
        return self.gone or len(self._pieces) < PIECES

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # ------------------------------------------------------------ the reader

    def response(self) -> HttpResponse:
        """The response, as soon as it has begun; one of status 500 when none has. Blocks: until
        then."""
        with self._changed:
            self._changed.wait_for(lambda: self._response is not None or self._ended)
            return self._response or HttpResponse(500, [])

    def __next__(self) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or self._ended or self.gone)
            if self.gone or not self._pieces:
                raise StopIteration
            self._changed.notify_all()
            return self._pieces.popleft()

    def close(self) -> None:
        """Nobody reads this any more. Idempotent."""
        with self._changed:
            self.gone = True
            self._changed.notify_all()
        self.token.cancel()


def respond(
    server: Endpoint, request: HttpRequest, *, stream: bool, patience: Optional[float]
) -> HttpResponse:
    """Serve one request and return its response.

    Args:
        server: Serves it.
        request: What came.
        stream: Whether the body may be an iterator, which is drained while a handler runs on
            another thread.
        patience: Seconds after which an iterator that nobody drains counts as dropped; None never
            does.
    """
    mailbox = Mailbox(patience)

    def serve() -> None:
        try:
            server.serve(request, mailbox, streams=stream)
        finally:
            mailbox.end()

    context = copy_context()  # of the host's thread, which is not to keep what a handler sets
    if stream and not server.closing:
        server.pool.spawn(partial(context.run, serve))
    else:
        context.run(serve)
    return mailbox.response()


class WsgiApp:
    """A PEP 3333 application. Thread-safe.

    Args:
        server: Serves the requests.
        patience: As for `respond`.
    """

    def __init__(self, server: Endpoint, *, patience: Optional[float]) -> None:
        self._server = server
        self._patience = patience
        self._known_host = False

    def __call__(
        self, environ: Mapping[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if not self._known_host:
            self._known_host = True
            self._look_at_host(environ)
        request = self._request(environ)
        response = respond(self._server, request, stream=True, patience=self._patience)
        body = response.body
        headers = list(response.headers)
        if isinstance(body, bytes):
            request.body.skip()
            if response.status != 204:  # which has no body by itself
                headers.append(("Content-Length", str(len(body))))
        start_response(f"{response.status} {REASONS[response.status]}", headers)
        if environ["REQUEST_METHOD"] == "HEAD":
            return []  # not every host drops a body here, and the next response would begin with it
        return [body] if isinstance(body, bytes) else body

    def _request(self, environ: Mapping[str, Any]) -> HttpRequest:
        headers = {
            name[5:].replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        headers["Content-Type"] = environ.get("CONTENT_TYPE") or ""
        headers["Content-Length"] = environ.get("CONTENT_LENGTH") or ""
        path = self._path(environ)
        query = environ.get("QUERY_STRING", "")
        url = f"{path}?{query}" if query else path
        return HttpRequest(
            environ["REQUEST_METHOD"], url, headers, _Input(environ), environ.get("REMOTE_ADDR")
        )

    def _path(self, environ: Mapping[str, Any]) -> str:
        """Return the path that the endpoint knows, with or without the prefix that the host has cut
        off, and with or without a slash at its end."""
        server = self._server
        info = environ.get("PATH_INFO", "")
        whole: str = environ.get("SCRIPT_NAME", "") + info
        known: list[str] = [server.path]
        if server.bearer is not None:
            known += server.bearer.metadata_paths
        if server.options.health is not None:
            known.append(server.options.health)
        if info == "/":
            whole = whole.removesuffix("/") or "/"  # of a mount
        own = server.path.removesuffix("/")
        for path in (whole, info):
            if path in known:
                return path
            if path.removesuffix("/") == own:
                return server.path
        if info in ("", "/") and whole.endswith(own):
            return server.path  # a mount at the server's own path, in an app that is mounted itself
        return whole.replace("?", "%3F")  # an escaped "?" begins no query

    def _look_at_host(self, environ: Mapping[str, Any]) -> None:
        """Warn if the host serves one request at a time.

        Then no handler can wait for the answer to a question, because another request carries it.
        In stateless revisions no handler waits. Two hosts set ``wsgi.multithread`` to False
        although they serve several requests at a time: gevent, and wsgiref with ThreadingMixIn.
        """
        monkey = sys.modules.get("gevent.monkey")
        is_greenlet = monkey is not None and monkey.is_module_patched("threading")
        run = getattr(threading.current_thread(), "_target", None)
        of_mix_in = getattr(run, "__func__", None) is ThreadingMixIn.process_request_thread
        if environ.get("wsgi.multithread", True) or is_greenlet or of_mix_in:
            return
        way = "give each process threads, as with gunicorn --threads 8"
        if environ.get("wsgi.multiprocess") and self._server.session_store.is_shared:
            log.warning("each process of this WSGI host serves one request at a time: %s", way)
            return
        self._server.cannot_ask = (
            "this WSGI host serves one request at a time, so the answer of the client would wait"
            f" behind the call that asks: {way}"
        )
        log.warning(
            "this WSGI host serves one request at a time (wsgi.multithread is False): handlers that"
            " ask their client in a session get CapabilityNotSupported: %s",
            way,
        )


class _Input:
    """The body of a request as far as the host vouches for it: many block behind its end."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._file = environ.get("wsgi.input")
        length = str(environ.get("CONTENT_LENGTH") or "")
        known = length.isascii() and length.isdigit() and len(length) < 20
        unbounded = not length and environ.get("wsgi.input_terminated")
        self._left = float("inf") if unbounded else int(length) if known else 0

    def read(self, size: int) -> bytes:
        """So many bytes at most; none at the end."""
        wanted = int(min(size, self._left))
        piece: bytes = self._file.read(wanted) if wanted and self._file is not None else b""
        self._left -= len(piece)
        return piece

    def skip(self) -> None:
        """Read what nobody wanted, up to a bound. Never raises."""
        left = SKIPPED_BYTES
        try:
            while left > 0 and (piece := self.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
        except Exception as error:  # whatever a host raises when its client has gone
            log.debug("the rest of a body: %s", error)
