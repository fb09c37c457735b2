"""An HTTP server as an application of PEP 3333, and as a function: its handlers run on threads of their own.

The host's thread drains a mailbox, which the thread of the handler fills: so a client that is gone is noticed at the
next write. One thread would not do: a host pulls the pieces of a body, and a handler pushes them from the depth of its
own calls. The ``write`` that hosts offer for that is for their thread alone, and comments come from another one.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

from ..errors import ConnectionLost
from .common import Headers, HttpRequest, HttpResponse, ResponseWriter
from .endpoint import Endpoint
from .http_response import REASONS

log = logging.getLogger("minimcp.http")

_PIECE_BYTES = 64 * 1024
PIECES = 64
"""What may wait in a mailbox before its writer waits too."""

SKIPPED_BYTES = 16 * 1024 * 1024
"""How much of a body is read that is not wanted: many clients send all of it before they look at the answer, and a
proxy that cannot do so answers with status 502 instead."""


class Recorder(ResponseWriter):
    """Keeps a response that is one body."""

    __slots__ = ("gone", "response")

    def __init__(self) -> None:
        self.gone = False
        self.response: Optional[HttpResponse] = None

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """As `ResponseWriter.send`."""
        self.response = HttpResponse(status, headers, body)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Whoever calls a function is not gone before it returns."""


class Mailbox(ResponseWriter):
    """A response on its way from the thread of a handler to another one. Thread-safe.

    Args:
        patience: Seconds that the writer waits for the other thread before that counts as gone; None waits for ever.
    """

    __slots__ = ("gone", "_patience", "_pieces", "_room", "_callbacks", "_state_lock")

    def __init__(self, patience: Optional[float]) -> None:
        self.gone = False
        self._patience = patience
        self._pieces: SimpleQueue[Union[HttpResponse, bytes, None]] = SimpleQueue()
        self._room = threading.Semaphore(PIECES)
        self._callbacks: list[Callable[[], None]] = []
        self._state_lock = threading.Lock()

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """As `ResponseWriter.send`."""
        self._pieces.put(HttpResponse(status, headers, body))

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """As `ResponseWriter.begin`."""
        self._pieces.put(HttpResponse(status, headers, _Body(self)))

    def write(self, data: bytes) -> None:
        """As `ResponseWriter.write`."""
        if not self.gone and not self._room.acquire(timeout=self._patience):
            self.lose()
        if self.gone:
            raise ConnectionLost("the client has gone")
        self._pieces.put(data)

    def has_room(self) -> bool:
        """As `ResponseWriter.has_room`."""
        found = self._room.acquire(blocking=False)
        if found:
            self._room.release()
        return found or self.gone

    def end(self) -> None:
        """As `ResponseWriter.end`."""
        self._pieces.put(None)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """As `ResponseWriter.on_gone`."""
        with self._state_lock:
            gone = self.gone
            if not gone:
                self._callbacks.append(callback)
        if gone:
            callback()

    def lose(self) -> None:
        """Nobody drains this any more. Idempotent."""
        with self._state_lock:
            self.gone = True
            callbacks, self._callbacks = self._callbacks, []
        self._room.release()  # a writer that waits has to see it
        for callback in callbacks:
            callback()

    def close(self) -> None:
        """The thread of the handler has nothing more to say; without a response that is an error."""
        self._pieces.put(None)

    def take(self) -> Union[HttpResponse, bytes, None]:
        """What comes next; None at the end."""
        piece = self._pieces.get()
        if isinstance(piece, bytes):
            self._room.release()
        return piece


class _Body(Iterator[bytes]):
    """The pieces of a body, as they come."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox: Optional[Mailbox] = mailbox

    def __next__(self) -> bytes:
        piece = None if self._mailbox is None else self._mailbox.take()
        if not isinstance(piece, bytes):
            self._mailbox = None
            raise StopIteration
        return piece

    def close(self) -> None:
        """The response is not wanted any more. Idempotent."""
        mailbox, self._mailbox = self._mailbox, None
        if mailbox is not None:
            mailbox.lose()


def respond(server: Endpoint, request: HttpRequest, *, stream: bool, patience: Optional[float]) -> HttpResponse:
    """Serve one request and return its response.

    Args:
        server: Serves it.
        request: What came.
        stream: Whether the body may be an iterator, which is drained while a handler runs on another thread.
        patience: Seconds after which an iterator that nobody drains counts as dropped; None never does.
    """
    recorder = Recorder()
    if not stream or server.closing:
        server.serve(request, recorder, streams=False)
        return recorder.response or HttpResponse(500, [])
    mailbox = Mailbox(patience)

    def serve() -> None:
        try:
            server.serve(request, mailbox)
        finally:
            mailbox.close()

    try:
        server.workers.spawn(serve)
    except RuntimeError:
        return HttpResponse(503, [("Retry-After", "1")])
    response = mailbox.take()
    return response if isinstance(response, HttpResponse) else HttpResponse(500, [])


class WsgiApp:
    """A PEP 3333 application. Thread-safe.

    Args:
        server: Serves the requests.
        patience: As for `respond`.
    """

    def __init__(self, server: Endpoint, *, patience: Optional[float]) -> None:
        self._server, self._patience = server, patience

    def __call__(self, environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        request = self._request(environ)
        response = respond(self._server, request, stream=True, patience=self._patience)
        body = response.body
        headers = list(response.headers)
        if isinstance(body, bytes):
            request.body.skip()
            headers.append(("Content-Length", str(len(body))))
        start_response(f"{response.status} {REASONS[response.status]}", headers)
        if environ["REQUEST_METHOD"] == "HEAD":
            return []  # not every host drops a body here, and the next response would begin with it
        return [body] if isinstance(body, bytes) else body

    def _request(self, environ: Mapping[str, Any]) -> HttpRequest:
        headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
        headers += [
            (name.replace("_", "-"), environ[name]) for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)
        ]
        path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
        if path != self._server.settings.path:  # mounted below a prefix, which the host has cut off
            path = environ.get("SCRIPT_NAME", "") + path
        body = _Input(environ)
        return HttpRequest(
            environ["REQUEST_METHOD"], f"{path}?{query}" if query else path, Headers(headers), body,
            environ.get("REMOTE_ADDR"),
        )


class _Input:
    """The body of a request as far as the host vouches for it: many block behind its end."""

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._file, length = environ.get("wsgi.input"), str(environ.get("CONTENT_LENGTH") or "")
        self._left: Optional[int] = int(length) if length.isdigit() else 0
        if not length and environ.get("wsgi.input_terminated"):
            self._left = None

    def read(self, size: int) -> bytes:
        """So many bytes at most; none at the end."""
        wanted = size if self._left is None else min(size, self._left)
        piece: bytes = self._file.read(wanted) if wanted and self._file is not None else b""
        if self._left is not None:
            self._left -= len(piece)
        return piece

    def skip(self) -> None:
        """Read what nobody wanted, up to a bound. Never raises."""
        left = SKIPPED_BYTES
        try:
            while left > 0:
                piece = self.read(min(left, _PIECE_BYTES))
                left = left - len(piece) if piece else 0
        except Exception as error:  # whatever a host raises when its client has gone
            log.debug("the rest of a body: %s", error)
