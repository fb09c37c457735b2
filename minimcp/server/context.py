"""`Context`: what a handler sees of the request that it serves.

Everything here blocks and may be used by several threads of one handler; nothing is a coroutine.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ..engine.requests import IncomingRequest, current_request
from ..protocol.lifecycle import LOG_LEVELS, Peer
from ..protocol.messages import Id, Json
from ..types import Implementation
from .client_features import ClientFeatures

if TYPE_CHECKING:
    from ..types import ReadResourceResult


class Caller:
    """Who asks, by its own words: trust none of them.

    Args:
        peer: What it said.
    """

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def info(self) -> Optional[Implementation]:
        """How it describes itself; None when it does not."""
        return Implementation.of_peer(self._peer.info)

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """What it declares, as it came."""
        return self._peer.capabilities

    def supports(self, name: str) -> bool:
        """Whether it declares a capability, by its dotted name: ``"elicitation.url"``, ``"ext:com.example/x"``."""
        return self._peer.supports(name)

    def __repr__(self) -> str:
        return f"<Caller {self._peer!r}>"


class Context(ClientFeatures):
    """The request that a handler serves, and the client behind it.

    Args:
        exchange: The request; handlers are given their Context and never make one.
        prefix: What the keys of questions and steps begin with, in a handler that another one calls.
    """

    __slots__ = ()

    def __init__(self, exchange: IncomingRequest, prefix: str = "") -> None:
        self._exchange, self._prefix = exchange, prefix

    # ------------------------------------------------------------ telling

    def progress(self, done: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """Tell the client how far this is. Nothing is sent if it did not ask.

        Args:
            done: How much is done; a report that does not increase is dropped.
            total: How much there is in all; None when that is not known.
            message: A short text for people; None sends none.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
        """
        self._exchange.progress(done, total, message)

    def log(self, level: str, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message to the client, if it wants messages of this level.

        Deprecated by the specification since 2026-07-28, and still served.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
            data: Any JSON value; never a secret.
            logger: The name of what speaks; None sends none.

        Raises:
            ValueError: The level is none of these.
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
        """
        rank = LOG_LEVELS.get(level)
        if rank is None:
            raise ValueError(f"level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
        exchange = self._exchange
        exchange.check()
        wanted = exchange.peer.log_rank
        if wanted is None or rank < wanted or not exchange.server.logging:
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        exchange.send("notifications/message", params)

    def debug(self, data: Json) -> None:
        """`log` at this level."""
        self.log("debug", data)

    def info(self, data: Json) -> None:
        """`log` at this level."""
        self.log("info", data)

    def notice(self, data: Json) -> None:
        """`log` at this level."""
        self.log("notice", data)

    def warning(self, data: Json) -> None:
        """`log` at this level."""
        self.log("warning", data)

    def error(self, data: Json) -> None:
        """`log` at this level."""
        self.log("error", data)

    def critical(self, data: Json) -> None:
        """`log` at this level."""
        self.log("critical", data)

    def alert(self, data: Json) -> None:
        """`log` at this level."""
        self.log("alert", data)

    def emergency(self, data: Json) -> None:
        """`log` at this level."""
        self.log("emergency", data)

    def close_stream(self, retry: float = 1.0) -> bool:
        """Let a client over HTTP go in the middle of a long call: it comes back for what is sent from now on.

        Its connection, and whatever stands between, is free meanwhile. What it missed is kept in the `EventStore`.

        Args:
            retry: Seconds that it shall wait before it comes back.

        Returns:
            False, and nothing was done, where the client could not come back: only 2025-11-25 over HTTP has this.

        Raises:
            Cancelled: The request was cancelled.
        """
        self._exchange.check()
        return self._exchange.sink.release(retry)

    # ------------------------------------------------------------ the server's own

    def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource of this server, as a client would; its function runs on this thread.

        Args:
            uri: Of the resource.

        Raises:
            ResourceNotFound: The server has no such resource.
            Cancelled: The request was cancelled.
            Exception: What the resource's function raises, as it is.
        """
        if not isinstance(uri, str):
            raise TypeError(f"a URI is a str, not {type(uri).__name__}")
        exchange = self._exchange
        exchange.check()
        inner = Context(exchange, self._asker().inner(self._prefix + uri))  # its questions are not this handler's
        result: ReadResourceResult = exchange.server.read_resource(inner, exchange.peer, uri)
        return result

    # ------------------------------------------------------------ being cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the client no longer waits, or the handler's time is over. Look at it in loops."""
        return self._exchange.cancelled

    def check(self) -> None:
        """Return if the request still runs.

        Raises:
            Cancelled: It was cancelled, or its time is over.
        """
        self._exchange.check()

    def sleep(self, seconds: float) -> None:
        """Wait, without keeping a worker from others; wakes when the request is cancelled.

        Raises:
            Cancelled: The request was cancelled.
        """
        self._exchange.sleep(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, on a thread of its own, when the request is cancelled; at once if it is already.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(callback):
            raise TypeError(f"what is called on cancel is a function without arguments, not {callback!r:.60}")
        self._exchange.on_cancel(callback)

    # ------------------------------------------------------------ facts

    @property
    def client(self) -> Caller:
        """Who asks: ``info``, ``capabilities``, ``supports("elicitation.url")``. Its own words: trust none of them."""
        return Caller(self._exchange.peer)

    @property
    def revision(self) -> str:
        """The name of the revision of the protocol that this request is served by."""
        return self._exchange.peer.revision.name

    @property
    def request_id(self) -> Id:
        """The request's id, as the client chose it."""
        return self._exchange.request.id

    @property
    def method(self) -> str:
        """The request's method."""
        return self._exchange.request.method

    @property
    def params(self) -> Mapping[str, Json]:
        """The request's params, as they came."""
        return self._exchange.request.params

    @property
    def meta(self) -> Mapping[str, Json]:
        """The ``_meta`` of the params; empty when there is none."""
        meta = self._exchange.request.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request that it came by, names without regard to case; empty where it was none.

        Over HTTP+SSE those of the request that opened the stream.
        """
        return self._exchange.headers

    @property
    def session(self) -> Optional[dict[str, Any]]:
        """A dict that is kept for the session; None where requests stand alone: keep state under an id of your own."""
        return self._exchange.peer.session

    @property
    def server(self) -> Any:
        """The `Server` that serves."""
        return self._exchange.server.owner

    def __repr__(self) -> str:
        return f"<Context of {self._exchange!r}>"


def current_context() -> Context:
    """The Context of the handler that runs on this thread.

    Raises:
        LookupError: No handler runs on this thread. A thread that a handler starts is handed its ``ctx``.
    """
    exchange = current_request()
    if exchange is None:
        raise LookupError("no handler runs on this thread: hand ctx to the threads that a handler starts")
    return Context(exchange)
