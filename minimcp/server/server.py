"""`Server`: what an author makes, and how it is served on each connection.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable, Iterable, Mapping, NoReturn, Optional, Sequence, Union

from ..engine.connection import Connection
from ..engine.limits import Limits
from ..engine.pool import Pool, renewed_in_fork
from ..engine.requests import RequestCap, current_request
from ..engine.transport import Transport, tracer
from ..protocol.messages import Json
from ..protocol.options import check_options
from ..protocol.lifecycle import Offer
from ..protocol.versions import choose
from ..types import Icon, Implementation
from ..types.meta import check_extensions
from .facts import Facts
from .places import ExecutorOption, Executors
from .registration import Registration
from .registry import Registry
from .server_options import SERVER_OPTIONS, announced, check_run, check_server, scope, states
from .server_role import ServerRole
from .web import Web, WebOptions


class Server(Registration, Web):
    """A server of the Model Context Protocol. Thread-safe; no connection, so it may be built before a fork.

    Args:
        name: For programs; clients see it.
        handlers: Plain objects whose marked methods are registered, as by `add`.
        version: Of the server, as clients see it.
        title: For people; None sends none.
        description: What it is for; None sends none.
        website_url: Where to read more; None sends none.
        icons: Pictures of it; None sends none.
        instructions: For the client's model: what the server is good for; None sends none.
        capabilities: Kinds that count as registered before anything of them is, as in ``{"tools"}``; a mapping also
            says what else to declare, of them or beside them: ``{"experimental": {"x": {}}}``. None adds none.
        extensions: Extensions to declare, by identifier (``"com.example/x"``), each with an object of settings; None
            declares none.
        revisions: Names of the revisions to speak; None speaks all five.
        strict_version: Refuse an unknown revision at `initialize` instead of offering another.
        strict_arguments: Answer wrong arguments of a tool with -32602 where the revision is older than 2025-11-25.
        accept_batches: Take arrays of messages in every revision, not only where they exist.
        page_size: Items on a page of a list; None puts all on one.
        list_ttl: Seconds that clients may keep lists.
        list_cache_scope: Who may keep them: "private" (one user) or "public".
        mask_errors: Keep the words of unexpected errors in tools from the client; a reference names them in the log.
        logging: Whether handlers may send log messages; False makes ``ctx.log`` do nothing.
        check_replay: For tests: answer what a handler asks by running it again from the top, with a handshake too, and
            fail when it then asks something else.
        state_keys: Secrets of 32 bytes or more, which sign what clients carry between rounds; the first signs, all
            verify. Processes that serve the same clients share them. None makes one up, for this process and its forks.
        state_codec: An object with ``seal(bytes) -> str`` and ``unseal(str) -> bytes`` that replaces the signing; None
            signs.
        executor: Where handlers run: None (the hot lane), "pool" (each on a worker of its own), "main" (where `pump` is
            called), a `Serial`, or a callable that is given a function to run. A tool may say otherwise.
        on_pump_needed: Called on another thread when there is something to pump; None calls nothing.
        sessions: Whether clients over HTTP that shake hands get a session; without, each POST stands alone, and no
            client can be asked that way.
        json_response: Answer every HTTP request with one JSON body; progress is dropped.
        event_store: Keeps events for HTTP clients that lose a stream: an `EventStore`; None makes one with its
            defaults, False keeps none.
        allowed_hosts: Names by which HTTP clients may know the server, as ``"example.com"`` or ``"example.com:8000"``;
            ``"*"`` is any. None takes those that a machine has for itself.
        allowed_origins: Pages that may send HTTP requests beside those of the allowed hosts, as
            ``"https://example.com"``; None names none.
        trace: A text file, or a callable that gets ("-->" or "<--", text) for every message; None for no trace.
        max_message_bytes: The longest message, in bytes; None means no limit, here and below.
        max_depth: How deep arrays and objects of a message may nest.
        max_batch: Messages in one array.
        max_workers: Handlers that run at the same time on one connection, not counting those that wait.
        max_requests: Handlers of one connection that are begun and unfinished.
        max_backlog_bytes: Bytes of answers that a client has not taken, before reading stops.
        max_body_bytes: The longest body of an HTTP request.
        max_sessions: Sessions of HTTP clients that are open at once.
        session_ttl: Seconds after which such a session ends that is not used.
        max_streams: Streams of change notices that are open at once: `subscriptions/listen`, and GET over HTTP.
        max_connections: HTTP connections that are open at once.
        keepalive: Seconds of silence before which an event stream gets a comment.
        write_timeout: Seconds after which a client that takes no byte is lost.
        max_rounds: How often one request may come back for more answers.
        ask_timeout: Seconds that a client gets for an answer, and a state between rounds is good for.
        drain_grace: Seconds that running requests get when a connection ends or the server closes.

    Raises:
        TypeError: The name is no text, or an option is of another type; the message says which, and what it takes.
        ValueError: The name is empty, a revision is unknown, or an option has a value that it cannot have.
    """

    def __init__(
        self,
        name: str,
        *handlers: Any,
        version: str = "0",
        title: Optional[str] = None,
        description: Optional[str] = None,
        website_url: Optional[str] = None,
        icons: Optional[Sequence[Icon]] = None,
        instructions: Optional[str] = None,
        capabilities: Union[Iterable[str], Mapping[str, Json], None] = None,
        extensions: Optional[Mapping[str, Mapping[str, Json]]] = None,
        revisions: Optional[Sequence[str]] = None,
        strict_version: bool = False,
        strict_arguments: bool = False,
        accept_batches: bool = False,
        page_size: Optional[int] = None,
        list_ttl: float = 0,
        list_cache_scope: str = "private",
        mask_errors: bool = False,
        logging: bool = True,
        check_replay: bool = False,
        state_keys: Optional[Sequence[bytes]] = None,
        state_codec: Any = None,
        executor: ExecutorOption = None,
        on_pump_needed: Optional[Callable[[], object]] = None,
        sessions: bool = True,
        json_response: bool = False,
        event_store: Any = None,
        allowed_hosts: Optional[Sequence[str]] = None,
        allowed_origins: Optional[Sequence[str]] = None,
        trace: Any = None,
        max_message_bytes: Optional[int] = 64 * 1024 * 1024,
        max_depth: Optional[int] = 256,
        max_batch: Optional[int] = 100,
        max_workers: Optional[int] = 64,
        max_requests: Optional[int] = 1000,
        max_backlog_bytes: Optional[int] = 64 * 1024 * 1024,
        max_body_bytes: Optional[int] = 4 * 1024 * 1024,
        max_sessions: Optional[int] = 1000,
        session_ttl: Optional[float] = 1800,
        max_streams: Optional[int] = 256,
        max_connections: Optional[int] = 1000,
        keepalive: Optional[float] = 15,
        write_timeout: Optional[float] = 30.0,
        max_rounds: Optional[int] = 8,
        ask_timeout: Optional[float] = 600,
        drain_grace: float = 5.0,
        **misspelt: NoReturn,
    ) -> None:
        check_server(name, misspelt, Server.__init__)
        check_options(SERVER_OPTIONS, locals())
        info = Implementation(
            name, version, title=title, description=description, website_url=website_url, icons=icons
        )
        self.name, self.version = name, version
        self._limits = Limits(
            message_bytes=max_message_bytes, depth=max_depth, batch=max_batch, workers=max_workers,
            requests=max_requests, backlog_bytes=max_backlog_bytes, write_timeout=write_timeout,
            drain_grace=drain_grace,
        )
        self._web = WebOptions(
            sessions=sessions, json_response=json_response, event_store=event_store, allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins, max_body_bytes=max_body_bytes, max_sessions=max_sessions,
            session_ttl=session_ttl, max_streams=max_streams, max_connections=max_connections, keepalive=keepalive,
        )
        self._max_message_bytes, self._trace = max_message_bytes, tracer(trace)
        self._executors = Executors(on_pump_needed)
        facts = Facts(
            info.to_wire(), owner=self, instructions=instructions, logging=logging, mask_errors=mask_errors,
            strict_arguments=strict_arguments, page_size=page_size, list_ttl=list_ttl,
            list_cache_scope=scope(list_cache_scope), place=self._executors.place(executor),
            states=states(name, state_keys, state_codec, ask_timeout),
            check_replay=check_replay, max_rounds=max_rounds,
            ask_timeout=ask_timeout, extensions=check_extensions(extensions),
        )
        offer = Offer(choose(revisions), strict_version=strict_version, accept_batches=accept_batches)
        facts.adopt = self._executors.adopt
        self._registry = Registry(facts, offer, announced(capabilities), max_streams=max_streams)
        self._channels: dict[ServerRole, Connection] = {}
        self._state_lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._pool, self._cap = Pool(max_workers, f"minimcp-{name}"), RequestCap(max_requests)
        self._start_web()
        renewed_in_fork.add(self)
        self.add(*handlers)

    @classmethod
    def of(cls, handlers: Any, *, name: Optional[str] = None, version: Optional[str] = None) -> Server:
        """A server of one plain object, whose marked methods it serves.

        Args:
            handlers: The object.
            name: None takes the name of its class in lower case.
            version: None says "0".

        Raises:
            TypeError, ValueError: As `add`.
        """
        if isinstance(handlers, type):
            raise TypeError(f"{handlers.__name__} is a class: give an instance of it, {handlers.__name__}()")
        return cls(type(handlers).__name__.lower() if name is None else name, handlers, version=version or "0")

    def renew_in_fork(self) -> None:
        """Begin anew in a forked process: its parent's connections and threads are not there, locks may be held."""
        self._state_lock, self._cap = threading.Lock(), RequestCap(self._limits.requests)
        self._channels, self._wakers = {}, []
        self._executors.renew()
        self._registry.subscriptions.renew()
        self._renew_web()

    # ------------------------------------------------------------ serving

    def open_pipe(self) -> Transport:
        """A client's end of a new connection in memory: through the real codec, without a process or a socket."""
        from ..engine.transport import memory_pair

        ours, theirs = memory_pair(self._max_message_bytes)
        self.connect(ours, name=f"{self.name}-memory")
        return theirs

    def connect(self, pipe: Transport, *, name: str = "", on_end: Optional[Callable[[], None]] = None) -> Connection:
        """Serve one more connection, on threads of its own.

        Args:
            pipe: The connection; it is closed when it ends.
            name: For logs and thread names; None takes the pipe's.
            on_end: Called when the connection has ended, on its reader's thread; None calls nothing.
        """

        def ended(role: ServerRole) -> None:
            with self._state_lock:
                self._channels.pop(role, None)
                if not self._channels:
                    self._pool.close()
            if on_end is not None:
                on_end()

        self._executors.open()
        role = ServerRole(self._registry, ended)
        channel = Connection(
            pipe, role, limits=self._limits, pool=self._pool, cap=self._cap, name=name, trace=self._trace
        )
        role.later, role.headers = channel.post, pipe.headers
        role.end = partial(channel.close, self._limits.drain_grace)
        with self._state_lock:
            self._channels[role] = channel
        return channel.open()

    def pump(self, timeout: Optional[float] = 0) -> int:
        """Run what waits for ``executor="main"``, on this thread; returns how many requests that were.

        What comes meanwhile is for the next call. Any thread may pump, and not always the same one.

        Args:
            timeout: Seconds to wait for the first request; None waits until there is one, or until `close`.

        Raises:
            RuntimeError: This thread is pumping already: a handler that is pumped cannot pump.
            KeyboardInterrupt: Ctrl-C struck while a handler ran; its request is answered with an error.
        """
        return self._executors.main.pump(timeout)

    def run(
        self,
        transport: str = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str = "/mcp",
        legacy_sse: bool = False,
    ) -> None:
        """Serve until the input ends, a signal comes or `close` is called; then put everything back as it was.

        In the main thread SIGINT, SIGTERM and SIGHUP end it: running requests are cancelled and get ``drain_grace``
        seconds to end, and a second signal does not wait for them. In any other thread signals are left alone.
        The main thread also pumps; a handler that it runs is struck by a KeyboardInterrupt if it is the last thing that
        keeps the server from ending.

        Args:
            transport: "stdio", "http" (Streamable HTTP, every revision) or "sse" (the HTTP+SSE of 2024-11-05).
            host: Where to listen; one that other machines reach needs ``allowed_hosts``.
            port: 0 takes a free one.
            path: Where "http" answers, exactly.
            legacy_sse: Whether "http" serves HTTP+SSE too, at ``/sse`` and ``/messages`` of the same port.

        Raises:
            ValueError: There is no such transport, or other machines reach the host and ``allowed_hosts`` is not given.
            OSError: It cannot listen there.
        """
        if transport in ("http", "streamable-http", "sse"):
            self._run_http(host, port, path, newer=transport != "sse", older=legacy_sse or transport == "sse")
            return
        if transport != "stdio":
            raise ValueError(f"unknown transport {transport!r}: there are 'stdio', 'http' and 'sse'")
        from .run import serve_stdio

        def connect(streams: Transport, wake: Callable[[], None]) -> Connection:
            wakers.append(wake)
            self._wakers += wakers
            return self.connect(streams, name=self.name, on_end=wake)

        wakers: list[Callable[[], None]] = []
        try:
            serve_stdio(
                connect,
                max_message_bytes=self._max_message_bytes,
                grace=self._limits.drain_grace,
                main=self._executors.main,
            )
        finally:
            self._wakers = [wake for wake in self._wakers if wake not in wakers]

    def close(self) -> None:
        """End every connection: running requests get ``drain_grace`` seconds. `run` returns. Idempotent, any thread.

        Requests that wait for `pump` are not run any more.

        In a handler of this server it returns at once: the handler that runs is among those that get this time.
        """
        self._executors.main.clear("the server is closing")
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()
        with self._state_lock:
            channels = list(self._channels.values())
        exchange = current_request()
        inside = exchange is not None and exchange.server is self._registry.facts
        grace = self._limits.drain_grace
        closing = [partial(channel.close, grace) for channel in channels] + self._closing_web(grace)
        threads = [threading.Thread(target=close, name="minimcp-close", daemon=True) for close in closing]
        for thread in threads:  # all drain at the same time
            thread.start()
        for thread in () if inside else threads:  # the handler that runs here is waited for too
            thread.join()
        self._executors.close()
        if not inside:
            self._pool.close()

    def __repr__(self) -> str:
        return f"<Server {self.name!r} {len(self._registry.tools)} tools, {len(self._channels)} connections>"


def serve(handlers: Any, transport: str = "stdio", **options: Any) -> None:
    """Serve the marked methods of a plain object: ``Server.of(handlers).run(transport, **options)``.

    Raises:
        TypeError, ValueError: As `Server.of` and `Server.run`; or an option is none of theirs.
    """
    check_run(options, handlers, Server)
    Server.of(handlers).run(transport, **options)
