"""`Client`: a connection to one server, its facts, and its end.

Not here: the specification's own requests (see `typed`).
https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import logging
import sys
import warnings
import weakref
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from ..engine.connection import Connection
from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import McpError
from ..protocol.lifecycle import LOG_LEVELS
from ..protocol.messages import Json, Notification, encode
from ..types import Implementation
from .answering import Answerer
from .arguments import DEFAULT, shown
from .cacheable import CacheableCalls
from .calls import OnProgress
from .clock import inherited
from .handlers import Rootlike, Roots
from .link import Links
from .listening import Listening
from .negotiation import Era
from .streams import Changes, Filter
from .tool_calls import text
from .typed import TypedCalls

log = logging.getLogger("minimcp.client")

SHUTDOWN_SECONDS = 2.0
"""How long `Client.close` waits for the answer to a farewell, where it says one."""


class Client(TypedCalls):
    """A connection to one server, made by `connect`. Thread-safe; a context manager that closes it.

    Args:
        links: Its connection, and those that may follow.
        answerer: The host's side.
        send_shutdown: Whether `close` says farewell, where a session is open.
    """

    def __init__(self, links: Links, answerer: Answerer, *, send_shutdown: bool = False) -> None:
        self._links, self._answerer, self._send_shutdown = links, answerer, send_shutdown
        _close_at_exit(self)

    @property
    def _channel(self) -> Connection:
        return self._links.newest.channel

    @property
    def _listening(self) -> Listening:
        return self._links.newest.listening

    @property
    def _era(self) -> Era:
        return self._links.newest.era

    def _begin(
        self, timeout: Optional[float], cancel: Optional[CancelToken], capability: Optional[str] = None
    ) -> tuple[CacheableCalls, Deadline]:
        deadline = self._links.newest.calls.deadline(timeout)
        calls = self._links.living(deadline, cancel).calls
        if capability is not None:
            calls.need(capability)
        return calls, deadline

    # ------------------------------------------------------------ facts

    @property
    def server_info(self) -> Optional[Implementation]:
        """How the server describes itself: ``name``, ``version``, ...; None if it does not."""
        return Implementation.of_peer(self._era.peer.info)

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """What the server declares, as it came: ``"tools" in client.capabilities``."""
        return self._era.peer.capabilities

    @property
    def instructions(self) -> Optional[str]:
        """What the server tells the model about itself; None when it says nothing."""
        return self._era.instructions

    @property
    def revision(self) -> str:
        """The name of the revision of the protocol that is spoken: one of those that `connect` takes."""
        return self._era.revision.name

    @property
    def stderr_tail(self) -> str:
        """The last lines of the server process's stderr; empty when there is no process."""
        return self._links.newest.stderr_tail()

    @property
    def loss(self) -> Optional[BaseException]:
        """What has ended the connection for good; None while it lives, and when `close` has."""
        return None if self._links.closed or self._links.restarts else self._links.newest.cause

    # ------------------------------------------------------------ calls

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Json]] = None,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
        raw: bool = False,
        cache: str = "use",
    ) -> dict[str, Json]:
        """Call any method and return its result as it came.

        Args:
            method: Of the specification, or the server's own.
            params: Without what the library adds; None sends none.
            timeout: Seconds the server may take in all; None waits for ever. Progress does not extend it.
            cancel: Ends the call from another thread; None for a call that nobody cancels.
            on_progress: Called with each `Progress`, in order, by this thread, before this returns; None asks for none.
            raw: True also returns a result that asks for input (``resultType`` is "input_required") as it came, for
                a host that keeps it and goes on later with ``inputResponses`` and ``requestState`` among the params.
            cache: For lists, reads and `server/discover`, which say how long they stay true: "use" takes what is kept,
                "refresh" asks the server and keeps its answer, "bypass" asks and keeps nothing. What has ``_meta`` or
                belongs to a round of questions is never kept.

        Raises:
            RpcError: The server answered an error; its kind depends on the code.
            Refused: The server asked for input, and a handler of the host refused or failed.
            RequestTimeout: No answer came in time; the server was told.
            Cancelled: The token was cancelled; the server was told.
            ConnectionLost: The connection ended, or is closed.
            ConnectionFailed: It had ended, and with ``restart=True`` there came no other; the next call tries again.
            ProtocolViolation: The answer was none.
            TypeError: The method is no text, or the params are no mapping.
            BaseException: Whatever ``on_progress`` raises; the server is told that nobody waits.
        """
        sent = _checked(method, params)
        calls, deadline = self._begin(timeout, cancel)
        return calls.fetch(method, sent, deadline, cancel, on_progress, raw=raw, cache=cache)

    def set_log_level(
        self, level: str, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> None:
        """Have the server send log messages of this level and above. Errors as `Client.request`.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".

        Raises:
            ValueError: The level is none of these.
            CapabilityNotSupported: The server declares no logging.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
        deadline = self._begin(timeout, cancel, "logging")[1]
        self._links.living(deadline, cancel).set_log_level(level, deadline, cancel)

    def set_roots(self, roots: Iterable[Rootlike]) -> None:
        """Replace the roots that ``roots=`` of `connect` gave, and tell a server that keeps them.

        Raises:
            RuntimeError: `connect` was not given ``roots``.
            ConnectionLost: The connection has ended.
        """
        kept = self._answerer.handlers.functions.get("list_roots")
        if not isinstance(kept, Roots):
            raise RuntimeError("set_roots replaces what connect was given as roots=, and there was nothing")
        kept.replace(roots)
        self.roots_changed()

    def roots_changed(self) -> None:
        """Tell the server that `list_roots` has something new; where it asks for them in each call, do nothing.

        Raises:
            RuntimeError: `connect` was given neither ``roots`` nor ``list_roots``.
            ConnectionLost: The connection has ended.
        """
        if "list_roots" not in self._answerer.handlers.functions:
            raise RuntimeError("this client has no roots: give connect roots= or list_roots=")
        if self._era.revision.handshake:
            self.notify("notifications/roots/list_changed")

    def notify(self, method: str, params: Optional[Mapping[str, Json]] = None) -> None:
        """Send a notification.

        Raises:
            ConnectionLost: The connection has ended.
            TypeError: The method is no text, or the params are no mapping.
        """
        sent = dict(_checked(method, params))
        calls, deadline = self._begin(DEFAULT, None)
        calls.channel.send(encode(Notification(method, sent)), deadline)

    # ------------------------------------------------------------ changes

    def _hearing(self, timeout: Optional[float], cancel: Optional[CancelToken]) -> Listening:
        return self._links.living(self._links.newest.calls.deadline(timeout), cancel).listening

    def subscribe(
        self, uri: str, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> None:
        """Have ``on_resource_updated`` called when this resource, or one below it, changes. Errors as `request`.

        Args:
            uri: Of the resource, byte for byte.

        Raises:
            CapabilityNotSupported: The server takes no subscriptions, or not this one.
            TypeError: ``uri`` is no str.
        """
        self._hearing(timeout, cancel).subscribe(uri, timeout, cancel)

    def unsubscribe(
        self, uri: str, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> None:
        """Take a subscription back. Arguments and errors as `subscribe`."""
        self._hearing(timeout, cancel).unsubscribe(uri, timeout, cancel)

    def listen(
        self,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: Sequence[str] = (),
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
    ) -> Changes:
        """Hear of changes in a loop: ``with client.listen(tools_list_changed=True) as changes: ...``.

        Args:
            tools_list_changed: Of the list of tools.
            prompts_list_changed: Of the list of prompts.
            resources_list_changed: Of the list of resources.
            resource_subscriptions: URIs of resources; one that lies below counts too.
            timeout: Seconds until the server must have agreed; a stream itself may be silent for ever.
            cancel: Gives up before that.

        Returns:
            An iterator of `Change` (``kind``, ``uri``), whose ``honored`` says what the server agreed to.

        Raises:
            RpcError: The server refused; `MethodNotFound` when it cannot do this at all.
            ConnectionLost: The server ended the stream at once, or the connection has ended.
            RequestTimeout, Cancelled, ProtocolViolation: As `request`.
            TypeError: ``resource_subscriptions`` is one str, or holds something else.
        """
        if isinstance(resource_subscriptions, str):
            raise TypeError(f"resource_subscriptions is a sequence of URIs: did you mean [{resource_subscriptions!r}]?")
        wanted = Filter(
            tools_list_changed, prompts_list_changed, resources_list_changed, tuple(resource_subscriptions)
        )
        return self._hearing(timeout, cancel).listen(wanted, timeout, cancel)

    def submit(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Run one of this client's calls on a thread of its own.

        Args:
            function: A method of this client that takes ``cancel=``; the other arguments are handed to it. A token
                among them ends the call, and is left alone when only the future is cancelled.

        Returns:
            A `concurrent.futures.Future`, whose ``cancel()`` also ends a running call, on the wire.

        Raises:
            TypeError: The function is none, such as the name of a tool.
        """
        if not callable(function):
            raise TypeError(
                "submit takes a method of this client and then its arguments, as in "
                f'client.submit(client.call_tool, "name", {{...}}), not {shown(function)}'
            )
        from .futures import CallFuture

        token, given = CancelToken(), keywords.get("cancel")
        future = CallFuture(token)
        if given is not None:
            forget = given.on_cancel(lambda: token.cancel(given.reason))
            future.add_done_callback(lambda _: forget())
        work = inherited(lambda: function(*args, **{**keywords, "cancel": token}))
        self._channel.pool.spawn(lambda: future.run(work))
        return future

    def close(self) -> None:
        """End the connection. Idempotent, from any thread.

        Calls that wait raise `ConnectionLost`, and the server is told that nobody wants their answers, if it takes
        that at once. A server process gets the end of its input and 2 s to exit, then SIGTERM and 2 s more, then
        SIGKILL, with all that it has started; so this lasts about 4 s at most. A server with a URL is told that the
        session ends, and gets 2 s to take that.
        """
        if self._send_shutdown and not self._links.closed:
            self._shut_down()
        self._links.close()

    def _shut_down(self) -> None:
        """Send `shutdown`, which is no method of the specification; a server that does not know it is closed anyway."""
        link = self._links.newest
        if not link.era.revision.handshake or link.cause is not None:
            return
        try:
            link.calls.request("shutdown", {}, link.calls.deadline(SHUTDOWN_SECONDS), None)
        except McpError as error:
            log.debug("%s: shutdown: %s", self._channel.name, error)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        links: Optional[Links] = getattr(self, "_links", None)
        if links is not None and not links.closed and not self._channel.ended and not sys.is_finalizing():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            links.abandon()

    def __repr__(self) -> str:
        return f"<Client {self._era.revision.name} on {self._channel!r}>"


def _checked(method: Any, params: Any) -> Mapping[str, Json]:
    """The params of a message that a user writes by hand, if it can be one."""
    text("a method", method)
    if params is not None and not isinstance(params, Mapping):
        raise TypeError(f"the params of {method} are a dict or None, not {shown(params)}")
    return params or {}


_open: weakref.WeakSet[Client] = weakref.WeakSet()


def _close_at_exit(client: Client) -> None:
    """Have a client closed politely when the interpreter ends, if nobody has closed it by then."""
    if not _open:
        import atexit

        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(client)


def _close_all() -> None:
    for client in list(_open):
        waiting = len(client._channel.calls) - client._listening.entries
        if waiting <= 0:  # a thread that waits would print its loss as it dies
            client.close()
