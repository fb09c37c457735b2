"""`Web`: how a `Server` is served over HTTP.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence, Union
from urllib.parse import urljoin

from ..engine.limits import Limits
from ..engine.pool import Pool
from ..engine.requests import Line
from ..protocol.options import FLAG, SEVERAL, check_options, count, seconds
from .places import Executors
from .registry import Registry
from .server_role import ServerRole

if TYPE_CHECKING:
    from ..http.endpoint import Endpoint
    from ..http.headers import HttpRequest, HttpResponse
    from ..http.http_server_settings import HttpSettings
    from ..http.http_server_stream import EventStore
    from ..http.server import RunningHttp
    from ..http.wsgi import WsgiApp


def _forget(role: ServerRole) -> None:
    """Nobody keeps a session's role but the session."""


class WebOptions:
    """What a server is told about HTTP. None means no limit.

    Args:
        sessions: Whether clients that shake hands get a session; without, each POST stands alone.
        json_response: Answer every request with one JSON body.
        event_store: Keeps events for clients that lose a stream; None makes one with the defaults, False keeps none.
        allowed_hosts: Names that the server is known by; None takes those a machine has for itself.
        allowed_origins: Other pages that may send requests; None names none.
        max_body_bytes: The longest body of a request.
        max_sessions: Sessions that are open at once.
        session_ttl: Seconds after which a session ends that is not used.
        max_streams: Streams that are open at once and belong to no call.
        max_connections: Connections that are open at once.
        keepalive: Seconds of silence before which a stream gets a comment.

    Raises:
        TypeError, ValueError: An option is of another type, or has a value that it cannot have.
    """

    __slots__ = (
        "sessions", "json_response", "event_store", "allowed_hosts", "allowed_origins", "max_body_bytes",
        "max_sessions", "session_ttl", "max_streams", "max_connections", "keepalive",
    )

    def __init__(
        self,
        *,
        sessions: bool,
        json_response: bool,
        event_store: Union[EventStore, bool, None],
        allowed_hosts: Optional[Sequence[str]],
        allowed_origins: Optional[Sequence[str]],
        max_body_bytes: Optional[int],
        max_sessions: Optional[int],
        session_ttl: Optional[float],
        max_streams: Optional[int],
        max_connections: Optional[int],
        keepalive: Optional[float],
    ) -> None:
        self.sessions, self.json_response, self.event_store = sessions, json_response, event_store
        self.allowed_hosts, self.allowed_origins = allowed_hosts, allowed_origins
        self.max_body_bytes, self.max_sessions, self.session_ttl = max_body_bytes, max_sessions, session_ttl
        self.max_streams, self.max_connections, self.keepalive = max_streams, max_connections, keepalive
        check_options(_OPTIONS, {name: getattr(self, name) for name in self.__slots__})


_OPTIONS = {
    **dict.fromkeys(("sessions", "json_response"), FLAG),
    **dict.fromkeys(("max_body_bytes", "max_sessions", "max_connections"), count(1)),
    **dict.fromkeys(("session_ttl", "keepalive"), seconds(above=True)),
    **dict.fromkeys(("allowed_hosts", "allowed_origins"), SEVERAL),
}


class Web:
    """The part of a `Server` that serves HTTP."""

    _registry: Registry
    _limits: Limits
    _pool: Pool
    _trace: Optional[Callable[[str, bytes], None]]
    _executors: Executors
    _web: WebOptions
    _handlers: dict[str, Endpoint]
    _http_servers: list[Endpoint]
    _running_http: list[RunningHttp]
    _wakers: list[Callable[[], None]]
    name: str
    connect: Any

    def wsgi(
        self,
        path: str = "/mcp",
        *,
        max_streams: Optional[int] = 0,
        allowed_hosts: Optional[Iterable[str]] = None,
        allowed_origins: Optional[Iterable[str]] = None,
    ) -> WsgiApp:
        """This server as an application of PEP 3333, to be mounted anywhere; each call makes one with its own sessions.

        Args:
            path: Where it answers, exactly; below a prefix that it is mounted at, either with it or without.
            max_streams: Streams of notices that may be open at once; each holds a thread of the host. With 0 there are
                none: GET is answered 405 unless it asks for the rest of a call's stream, `subscriptions/listen` with
                an error. None sets no limit.
            allowed_hosts: Names that the server is known by; None takes the server's own option.
            allowed_origins: Other pages that may send requests; None takes the server's own option.

        Raises:
            ValueError: A host or an origin is none.
        """
        from ..http.wsgi import WsgiApp

        settings = self._http_settings(path, max_streams=max_streams)
        if allowed_hosts is not None:
            settings.allowed_hosts = allowed_hosts
        if allowed_origins is not None:
            settings.allowed_origins = allowed_origins
        return WsgiApp(self._http_server(settings), patience=self._limits.write_timeout)

    def handle_http(self, request: HttpRequest, *, stream: bool = False, path: str = "/mcp") -> HttpResponse:
        """Serve one HTTP request that somebody else has received. Any thread.

        Args:
            request: Its body is read only after Host, Origin and size were looked at.
            stream: Whether the body of the response may be an iterator of bytes, whose ``close()`` has to be called.
                Without, it is one body: progress is dropped, and a handler that asks a client which shook hands gets
                `CapabilityNotSupported`.
            path: Where the server answers, exactly.
        """
        from ..http.wsgi import respond

        server = self._handlers.get(path)
        if server is None:
            server = self._handlers.setdefault(path, self._http_server(self._http_settings(path)))
        return respond(server, request, stream=stream, patience=self._limits.write_timeout)

    def start_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/mcp",
        legacy_sse: bool = False,
    ) -> RunningHttp:
        """Serve over HTTP in the background, with the library's own server.

        Args:
            host: The name or address to listen at. One that other machines reach needs ``allowed_hosts``.
            port: 0 takes a free one.
            path: Where it answers, exactly.
            legacy_sse: Serve clients of 2024-11-05 too, at ``/sse`` and ``/messages``.

        Returns:
            What runs: ``url``, ``port``, ``close()``; a context manager.

        Raises:
            ValueError: Other machines reach the host, and ``allowed_hosts`` does not say by which names.
            OSError: It cannot listen there.
        """
        return self._start_http(host, port, path, newer=True, older=legacy_sse)

    def _start_http(self, host: str, port: int, path: str, *, newer: bool, older: bool) -> RunningHttp:
        from ..http.server import RunningHttp
        from ..http.sse_server import SseServer

        settings = self._http_settings(path)
        running = RunningHttp(
            self._http_server(settings) if newer else None,
            SseServer(self.connect, settings) if older else None,
            settings,
            host=host,
            port=port,
            max_connections=self._web.max_connections,
            write_timeout=self._limits.write_timeout,
            drain_grace=self._limits.drain_grace,
        )
        self._running_http = [*(each for each in self._running_http if not each.ended), running]
        return running

    def _http_settings(self, path: str, **changes: Any) -> HttpSettings:
        from ..http.http_server_settings import HttpSettings
        from ..http.http_server_stream import EventStore

        if not path.startswith("/"):
            raise ValueError(f"a path begins with /, unlike {path!r}")
        web = self._web
        options = {name: getattr(web, name) for name in HttpSettings.__slots__ if hasattr(web, name)}
        if isinstance(web.event_store, bool) or web.event_store is None:
            options["event_store"] = None if web.event_store is False else EventStore()
        options.update(changes)
        return HttpSettings(path, **options)

    def _http_server(self, settings: HttpSettings) -> Endpoint:
        """A server with its own sessions; closed and renewed with this one."""
        from ..http.endpoint import Endpoint

        self._executors.open()
        server = Endpoint(
            self._registry, self._session_role, settings, limits=self._limits, pool=self._pool, trace=self._trace
        )
        self._http_servers = [*(each for each in self._http_servers if not each.closing), server]
        return server

    def _run_http(
        self,
        host: str,
        port: int,
        path: str,
        *,
        newer: bool,
        older: bool,
    ) -> None:
        """Serve until a signal comes or `close` is called; stderr says at which URLs."""
        from ..http.sse_server import STREAM_PATH
        from .run import serve_until_told

        def start(wake: Callable[[], None]) -> RunningHttp:
            wakers.append(wake)
            self._wakers += wakers
            running = self._start_http(host, port, path, newer=newer, older=older)
            if sys.stderr is not None:
                print(f"{self.name} serves at {running.url}", file=sys.stderr, flush=True)
                if newer and older:
                    url = urljoin(running.url, STREAM_PATH)
                    print(f"and at {url} for clients that know only HTTP+SSE", file=sys.stderr, flush=True)
            return running

        wakers: list[Callable[[], None]] = []
        try:
            serve_until_told(start, grace=self._limits.drain_grace, main=self._executors.main)
        finally:
            self._wakers = [wake for wake in self._wakers if wake not in wakers]

    # ------------------------------------------------------------ begin and end

    def _start_web(self) -> None:
        self._handlers = {}
        self._http_servers = []
        self._running_http = []

    def _renew_web(self) -> None:
        """Begin anew in a forked process; what listens belongs to the parent."""
        for running in self._running_http:
            running.renew()
        self._running_http = []
        for server in self._http_servers:
            server.renew()

    def _closing_web(self, grace: float) -> list[Callable[[], None]]:
        """What ends all that is served over HTTP."""
        everything: list[Union[RunningHttp, Endpoint]] = [*self._running_http, *self._http_servers]
        return [partial(served.close, grace) for served in everything]

    def _session_role(self, later: Callable[[Line], None], end: Callable[[], None]) -> ServerRole:
        role = ServerRole(self._registry, _forget)
        role.later, role.end = later, end
        return role
