"""An HTTP server as a WSGI application (PEP 3333), and as a function.

The host pulls the pieces of a body from an iterator, but a handler pushes them. Therefore the
handler runs on another thread, and a `Mailbox` connects the two. The server notices only at the
next write that a client has disconnected. https://peps.python.org/pep-3333/
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

# Maximum number of pieces in a mailbox. Then `write` blocks.
MAX_PIECES = 64

# Maximum number of bytes of an unused body that are read. Many clients send the whole body before
# they read the response. A proxy that cannot send it responds with status 502.
MAX_SKIPPED_BYTES = 16 * 1024 * 1024

_PIECE_BYTES = 64 * 1024


class Mailbox(ResponseWriter, Iterator[bytes]):
    """A response that one thread writes and another thread reads. Thread-safe.

    It is an iterator of the pieces of the body, with `close`.

    Args:
        patience: Seconds that `write` waits for the reader before the reader counts as gone; None
            means no limit.
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
        raise ConnectionLost("the client has disconnected")

    def has_room(self) -> bool:
        return self.gone or len(self._pieces) < MAX_PIECES

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # ------------------------------------------------------------ the reader

    def response(self) -> HttpResponse:
        """Wait until the response has begun and return it, or one with status 500 if none has."""
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
        """Stop reading, so that writes fail. Idempotent."""
        with self._changed:
            self.gone = True
            self._changed.notify_all()
        self.token.cancel()


def respond(
    server: Endpoint, request: HttpRequest, *, stream: bool, patience: Optional[float]
) -> HttpResponse:
    """Serve one request and return its response.

    Args:
        server: The endpoint.
        request: The request.
        stream: Whether the body may be an iterator, which the caller reads while a handler runs on
            another thread.
        patience: Seconds after which an iterator that is not read counts as dropped; None means
            never.
    """
    mailbox = Mailbox(patience)

    def serve() -> None:
        try:
            server.serve(request, mailbox, streams=stream)
        finally:
            mailbox.end()

    context = copy_context()  # handlers must not change the context of the host's thread
    if stream and not server.closing:
        server.pool.spawn(partial(context.run, serve))
    else:
        context.run(serve)
    return mailbox.response()


class WsgiApp:
    """A PEP 3333 application. Thread-safe.

    Args:
        server: The endpoint.
        patience: See `respond`.
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
            if response.status != 204:  # a response with 204 has no body
                headers.append(("Content-Length", str(len(body))))
        start_response(f"{response.status} {REASONS[response.status]}", headers)
        if environ["REQUEST_METHOD"] == "HEAD":
            return []  # some hosts would send a body, which clients read as the next response
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
        """Return the path of a request as the endpoint knows it.

        The path of the endpoint may or may not have the prefix at which the host mounts this app,
        and a slash at its end.
        """
        server = self._server
        info = environ.get("PATH_INFO", "")
        whole: str = environ.get("SCRIPT_NAME", "") + info
        known = [server.path, *server.aside_paths()]
        if info == "/":
            whole = whole.removesuffix("/") or "/"  # the root of a mount
        own = server.path.removesuffix("/")
        for path in (whole, info):
            if path in known:
                return path
            if path.removesuffix("/") == own:
                return server.path
        if info in ("", "/") and whole.endswith(own):
            return server.path  # mounted at its own path, in an app that is itself mounted
        return whole.replace("?", "%3F")  # an escaped "?" does not begin a query

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
            "this WSGI host serves one request at a time, so the client's response would wait"
            f" behind the call that needs it: {way}"
        )
        log.warning(
            "this WSGI host serves one request at a time (wsgi.multithread is False): handlers that"
            " ask their client in a session get CapabilityNotSupported: %s",
            way,
        )


class _Input:
    """The body of a request, which is not read beyond its length: many hosts would block there."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._file = environ.get("wsgi.input")
        length = str(environ.get("CONTENT_LENGTH") or "")
        known = length.isascii() and length.isdigit() and len(length) < 20
        unbounded = not length and environ.get("wsgi.input_terminated")
        self._left = float("inf") if unbounded else int(length) if known else 0

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        wanted = int(min(size, self._left))
        piece: bytes = self._file.read(wanted) if wanted and self._file is not None else b""
        self._left -= len(piece)
        return piece

    def skip(self) -> None:
        """Read the rest of the body, up to a limit. Never raises."""
        left = MAX_SKIPPED_BYTES
        try:
            while left > 0 and (piece := self.read(min(left, _PIECE_BYTES))):
                left -= len(piece)
        except Exception as error:  # hosts raise various exceptions if the client has disconnected
            log.debug("the rest of a body could not be read: %s", error)
