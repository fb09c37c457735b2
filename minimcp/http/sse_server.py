"""HTTP+SSE, the server's side: an event stream down, and POSTs up. Deprecated since 2025-03-26.

Together the two are one connection like any other, so each client gets a pipe. It lasts as long as its stream.
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import logging
import secrets
import threading
from typing import Any, Callable, Mapping, Optional
from urllib.parse import parse_qs

from ..engine.pool import waiting
from ..engine.transport import Frame, Transport
from ..errors import INTERNAL_ERROR, ConnectionLost
from ..protocol.sse import KEEP_ALIVE, MEDIA_TYPE, format_event
from .headers import HostPolicy, HttpRequest, HttpResponse, ResponseWriter, accepts
from .http_server_settings import HttpSettings, Refusal, body_of, check_type
from .http_server_stream import STREAM_HEADERS

log = logging.getLogger("minimcp.sse")

STREAM_PATH, MESSAGES_PATH = "/sse", "/messages"
_ID = "session_id"
_MOST_WAITING, _MOST_BYTES = 1000, 16 * 1024 * 1024
"""Of messages that wait to be read, in number and together; one of any length always may."""


class SsePipe(Transport):
    """One client's connection: what it posts comes in, events go out.

    Args:
        writer: Of the event stream, which has begun.
        principal: Who opened it; None where nobody is authenticated.
        headers: Of the request that opened the stream.
    """

    def __init__(self, writer: ResponseWriter, principal: Optional[str], headers: Mapping[str, str]) -> None:
        self.name, self.principal, self.headers = "sse", principal, headers
        self._writer = writer
        self._frames: list[Frame] = []
        self._bytes = 0
        self._arrived = threading.Condition(threading.Lock())
        self._write_lock = threading.Lock()
        self._ended = threading.Event()

    def put(self, body: bytes) -> bool:
        """A message was posted; False when so many wait that this one is not taken."""
        with self._arrived:
            if len(self._frames) >= _MOST_WAITING or (self._frames and self._bytes + len(body) > _MOST_BYTES):
                return False
            self._frames.append(body)
            self._bytes += len(body)
            self._arrived.notify()
        return True

    def receive(self) -> list[Frame]:
        """As `Transport.receive`."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._frames or self._ended.is_set())
            frames, self._frames, self._bytes = self._frames, [], 0
        return [] if self._ended.is_set() else frames

    def send(self, data: bytes, seconds: float) -> int:
        """As `Transport.send`; it takes all, but nothing at once: the response to write to may make it wait."""
        if not seconds:
            return 0
        self._write(b"".join(format_event(line, event="message") for line in bytes(data).splitlines()))
        return len(data)

    def _write(self, data: bytes) -> None:
        with self._write_lock:
            if self._ended.is_set():
                raise self.lost("the event stream has ended")
            self._writer.write(data)

    def is_heard(self) -> bool:
        """As `Transport.is_heard`."""
        return not self._ended.is_set()

    def close(self) -> None:
        """As `Transport.close`."""
        with self._arrived:
            self._ended.set()
            self._arrived.notify_all()

    def hold(self, keepalive: Optional[float]) -> None:
        """Keep the stream open until the connection ends, with a comment whenever so many seconds have passed."""
        with waiting():
            while not self._ended.wait(keepalive):
                self._write(KEEP_ALIVE)


class SseServer:
    """Serves clients that know nothing newer. Thread-safe.

    Args:
        connect: Serves a pipe from now on, on threads of its own.
        settings: As of the server at the other path.
    """

    def __init__(self, connect: Callable[[Transport], Any], settings: HttpSettings) -> None:
        self._connect, self._settings = connect, settings
        self._policy = HostPolicy(settings.allowed_hosts, settings.allowed_origins)
        self._pipes: dict[str, SsePipe] = {}
        self._closing = False

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Serve one request on this thread; returns when the response is complete."""
        try:
            try:
                self._serve(request, writer)
            except Refusal as refusal:
                refusal.send(writer)
            except ConnectionLost:
                raise
            except Exception as error:
                log.error("a request failed: %s", error, exc_info=error)
                Refusal(500, "the server failed", code=INTERNAL_ERROR).send(writer)
        except ConnectionLost as error:
            log.debug("%s: %s", request.client, error)

    def check(self, request: HttpRequest) -> Optional[HttpResponse]:
        """The response that refuses a request by its head alone; None when its body is wanted. Never blocks."""
        try:
            self._check(request)
        except Refusal as refusal:
            return refusal.response()
        return None

    def _check(self, request: HttpRequest) -> None:
        refusal = self._policy.refusal(request.headers)
        if refusal is not None:
            raise Refusal(*refusal)
        path = request.path.partition("?")[0]
        verb = {STREAM_PATH: "GET", MESSAGES_PATH: "POST"}.get(path)
        if verb is None:
            raise Refusal(404, f"there is nothing here: the stream is at {STREAM_PATH}", code=None)
        if request.method != verb:
            raise Refusal(405, f"this is served with {verb}", (("Allow", verb),), code=None)
        if self._closing:
            raise Refusal(503, "the server is closing")
        if verb == "POST":
            self._pipe(request)
            check_type(request.headers)

    def _serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self._check(request)
        authenticate = self._settings.authenticate
        principal = None if authenticate is None else authenticate(request)
        if request.method == "GET":
            self._stream(request, writer, principal)
        else:
            self._message(request, writer, principal)

    def _pipe(self, request: HttpRequest) -> SsePipe:
        """The session that a POST names."""
        id = parse_qs(request.path.partition("?")[2]).get(_ID, [""])[0]
        pipe = self._pipes.get(id)
        if pipe is None:
            raise Refusal(404, f"there is no such session, or not any more: a GET of {STREAM_PATH} opens a new one")
        return pipe

    def _stream(self, request: HttpRequest, writer: ResponseWriter, principal: Optional[str]) -> None:
        if not accepts(request.headers, MEDIA_TYPE):
            raise Refusal(406, f"the header Accept names {MEDIA_TYPE}")
        most = self._settings.max_streams
        if most is not None and len(self._pipes) >= most:
            raise Refusal(503, f"no more than {most} streams may be open here (max_streams)")
        id, pipe = secrets.token_urlsafe(32), SsePipe(writer, principal, request.headers)
        self._pipes[id] = pipe
        try:
            if self._closing:
                pipe.close()  # `close` may not have seen it
            writer.begin(200, list(STREAM_HEADERS))
            writer.write(format_event(f"{MESSAGES_PATH}?{_ID}={id}", event="endpoint"))
            writer.on_gone(pipe.close)
            self._connect(pipe)
            pipe.hold(self._settings.keepalive)
        finally:
            del self._pipes[id]
            pipe.close()
            writer.end()

    def _message(self, request: HttpRequest, writer: ResponseWriter, principal: Optional[str]) -> None:
        pipe = self._pipe(request)
        if pipe.principal != principal:
            raise Refusal(404, f"there is no such session, or not any more: a GET of {STREAM_PATH} opens a new one")
        if not pipe.put(body_of(request, self._settings.max_body_bytes)):
            raise Refusal(503, "too many messages of this session wait already")
        writer.send(202, [], b"")

    def close(self) -> None:
        """End all streams, and refuse new ones."""
        self._closing = True
        for pipe in list(self._pipes.values()):
            pipe.close()
