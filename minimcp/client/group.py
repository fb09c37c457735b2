"""`connect_all` and `Group`: connections to several servers, with all their tools in one list."""

from __future__ import annotations

from concurrent.futures import Future, as_completed, wait
from copy import copy
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
    Union,
    overload,
)

from ..engine.limits import check_interval
from ..engine.pool import Pool, waiting
from ..errors import Cancelled, CapabilityNotSupported, ConnectionFailed, InvalidParams, McpError
from ..log import logger
from ..schema.mismatch import listed, nearest
from ..types import CallToolResult, Tool
from .calls import DEFAULT, Seconds
from .client import Arguments, Client, all_or_first, linked_token, spawn
from .config import Config, read_servers
from .connect import connect, wanted_revisions
from .session import Cancel, OnProgress, check_token, require_type

log = logger("minimcp.client")

T = TypeVar("T")

SERVER_FAILURES = (McpError, OSError, ValueError)
"""Exceptions that mean that one server of several failed. A TypeError is a mistake of the caller
and ends all connections."""

GIVE_UP_SECONDS = 5.0
"""How long an interrupted `connect_all` waits for its threads after cancelling them."""

MAX_GUESSES = 3
"""Maximum number of names that a message suggests."""


class NamedServer(NamedTuple):
    """The server of a group that has a tool."""

    server: str
    client: Client
    name: str
    """The server's own name for the tool."""


class Clients(dict[str, Client]):
    """The open clients by the server's name."""

    def __init__(self, clients: Mapping[str, Client], failed: Mapping[str, Exception]) -> None:
        super().__init__(clients)
        self._failed = failed

    def __missing__(self, name: str) -> Client:
        if name in self._failed:
            raise KeyError(f"{name} did not start: {self._failed[name]}")
        known = listed(self, "and") if self else "no server"
        raise KeyError(f"{name}: the group has {known}")


class Group:
    """Connections to several servers, made by `connect_all`. Thread-safe, and a context manager.

    A tool is called ``server__tool`` here. If the name begins with the names of several servers,
    the longest one counts. ``clients`` has the open `Client` of each server by name. Use it for
    everything that a group does not offer; a client may be closed early.

    Args:
        clients: Clients by the server's name.
        failed: Exceptions of the servers that could not be opened, by name.
        separator: Text between a server's name and a tool's name.
    """

    def __init__(
        self, clients: Mapping[str, Client], failed: Mapping[str, Exception], *, separator: str
    ) -> None:
        self.clients = Clients(clients, failed)
        self._failed = dict(failed)
        self._unlisted = dict[str, Exception]()
        self._separator = separator
        self._names: list[str] = []

    if not TYPE_CHECKING:  # a type checker would then accept any attribute

        def __getattr__(self, name: str) -> Any:
            hint = f": write group.clients[NAME].{name}" if hasattr(Client, name) else ""
            raise AttributeError(f"a Group has no {name!r}{hint}")

    @property
    def errors(self) -> dict[str, Exception]:
        """The current failure of each server: it did not start, its connection was lost, or it
        could not list its tools when last asked."""
        losses = {name: client.loss for name, client in self.clients.items()}
        lost = {name: loss for name, loss in losses.items() if isinstance(loss, Exception)}
        return {**self._failed, **self._unlisted, **lost}

    def list_tools(
        self, *, timeout: Seconds = DEFAULT, idle_timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> list[Tool]:
        """Return the tools of all servers, under the names by which this group calls them.

        The servers are asked at the same time. If a server is lost or fails to list its tools, they
        are left out, and `errors` has the reason. A tool is also left out if `call_tool` would look
        for its name on a server with a longer name.

        Args:
            timeout: Seconds for each server; None means no limit.
            idle_timeout: Seconds in which a server is silent; None means no limit.
            cancel: A token that another thread can cancel, or None.

        Raises:
            Cancelled: The token was cancelled.
        """
        found: list[Tool] = []
        unlisted: dict[str, Exception] = {}
        works = {
            name: partial(client.list_tools, timeout=timeout, idle_timeout=idle_timeout)
            for name, client in self.clients.items()
        }
        for server, outcome in _outcomes(works, cancel).items():
            if isinstance(outcome, Exception):
                if isinstance(outcome, Cancelled) or not isinstance(outcome, McpError):
                    raise outcome
                has_no_tools = isinstance(outcome, CapabilityNotSupported) and not outcome.from_peer
                if not has_no_tools:
                    log.warning("the tools of %r are left out: %s", server, outcome)
                    unlisted[server] = outcome
                continue
            for tool in outcome:
                own = tool.name
                tool = copy(tool)
                tool.name = f"{server}{self._separator}{own}"
                if self._server_of(tool.name) == server:
                    found.append(tool)
                else:
                    log.warning(
                        "%r of %r is left out: its name also fits a server with a longer name",
                        own,
                        server,
                    )
        self._names = [tool.name for tool in found]
        self._unlisted = unlisted
        return found

    def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        validate: Optional[bool] = None,
    ) -> CallToolResult:
        """Call a tool by its name in this group.

        Arguments and exceptions are those of `Client.call_tool`, and exceptions of `resolve`.
        """
        _, client, own = self.resolve(name)
        return client.call_tool(
            own,
            arguments,
            timeout=timeout,
            idle_timeout=idle_timeout,
            cancel=cancel,
            on_progress=on_progress,
            raise_on_error=raise_on_error,
            validate=validate,
        )

    @overload
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: Literal[False] = False,
        validate: Optional[bool] = None,
    ) -> list[CallToolResult]: ...
    @overload
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: bool,
        validate: Optional[bool] = None,
    ) -> list[Union[CallToolResult, Exception]]: ...
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: bool = False,
        validate: Optional[bool] = None,
    ) -> Any:
        """Send several calls to their servers at once. As `Client.call_tools`, with names of this
        group.

        Unless ``return_exceptions`` is True, nothing is sent if a name cannot be resolved.
        """
        outcomes: list[Any] = [None] * len(calls)
        shares: dict[str, dict[int, tuple[str, Arguments]]] = {}
        for number, (name, arguments) in enumerate(calls):
            try:
                place = self.resolve(name)
                shares.setdefault(place.server, {})[number] = (place.name, arguments)
            except McpError as error:
                if not return_exceptions:
                    raise
                outcomes[number] = error
        options: Any = {
            "timeout": timeout,
            "idle_timeout": idle_timeout,
            "return_exceptions": True,
            "validate": validate,
        }
        works = {
            name: partial(self.clients[name].call_tools, [*share.values()], **options)
            for name, share in shares.items()
        }
        for name, answers in _outcomes(works, cancel).items():
            for at, number in enumerate(shares[name]):
                outcomes[number] = answers if isinstance(answers, Exception) else answers[at]
        return all_or_first(outcomes, return_exceptions)

    def resolve(self, name: str) -> NamedServer:
        """Return the server that a name of this group refers to. The server is not asked whether it
        has the tool.

        Args:
            name: A name such as "server__tool".

        Raises:
            InvalidParams: The name does not begin with a server's name; the message suggests names.
            ConnectionFailed: The server could not be opened; ``__cause__`` has the reason.
            TypeError: The name is not a str.
        """
        require_type(name, str, "a tool's name must be a str")
        server = self._server_of(name)
        if server is None:
            raise InvalidParams(f"no server of this group has a tool {name!r}{self._hint(name)}")
        if server not in self.clients:
            cause = self._failed[server]
            raise ConnectionFailed(
                f"{name!r} cannot be called, because {server!r} was not opened: {cause}"
            ) from cause
        return NamedServer(server, self.clients[server], name[len(server) + len(self._separator) :])

    def _server_of(self, name: str) -> Optional[str]:
        fitting = [
            each
            for each in (*self.clients, *self._failed)
            if name.startswith(each + self._separator)
        ]
        return max(fitting, key=len, default=None)

    def _hint(self, name: str) -> str:
        servers = [*self.clients, *self._failed]
        near = [
            each for each in self._names if nearest(name, [each]) or name.lower() in each.lower()
        ]
        server, separator, tool = name.partition(self._separator)
        meant = nearest(server, servers)
        if not near and meant is not None:
            near = [f"{meant}{self._separator}{tool}"]
        guess = f", did you mean {listed(near[:MAX_GUESSES])}? Its" if near else ": its"
        known = listed(servers, "and") if servers else "none"
        return f"{guess} names have the form server{self._separator}tool, its servers are {known}"

    def close(self) -> None:
        """Close all connections at the same time. Idempotent and thread-safe.

        Blocks for as long as the slowest `Client.close`.
        """
        _close_all(self.clients)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = listed(self.clients, "and") if self.clients else "none"
        return f"<Group of {names}, {len(self.errors)} errors>"


def connect_all(
    config: Config, *, separator: str = "__", strict: bool = False, **keywords: Any
) -> Group:
    """Open all servers of a config at the same time and return a `Group`, a context manager.
    Raises OSError, ValueError, TypeError or `Cancelled`. After any exception, nothing stays open.

    Args:
        config: A host's file, such as "mcp.json", its content, or a mapping of names to targets.
        separator: The text between a server's name and a tool's name.
        strict: Whether to raise the first failure. If False, ``errors`` of the group has failures.
        keywords: Options of `connect` for every server; ``cancel`` ends the opening of all.
    """
    if not separator or not isinstance(separator, str):
        raise ValueError(f"separator must be a str that is not empty, not {separator!r}")
    # An option that is wrong for every server is a mistake of the caller.
    wanted_revisions(keywords.get("revision", "auto"))
    check_interval("ping_interval", keywords.get("ping_interval"))
    servers = read_servers(config)
    cancel = keywords.pop("cancel", None)
    works = {name: partial(connect, name, config=servers, **keywords) for name in servers.names}
    clients: dict[str, Client] = {}
    failed: dict[str, Exception] = {}
    openings: dict[Future[Client], str] = {}

    def opened(opening: Future[Client]) -> None:
        error = opening.exception()
        if error is None:
            clients[openings[opening]] = opening.result()
        elif strict or isinstance(error, Cancelled) or not isinstance(error, SERVER_FAILURES):
            raise error
        else:
            failed[openings[opening]] = error

    try:
        _side_by_side(works, cancel, openings, opened)
    except BaseException:
        with waiting():
            ended = wait(openings, GIVE_UP_SECONDS).done
        _close_all({openings[each]: each.result() for each in ended if each.exception() is None})
        raise
    return Group(
        {name: clients[name] for name in servers.names if name in clients},
        failed,
        separator=separator,
    )


def _side_by_side(
    works: Mapping[str, Callable[..., T]],
    cancel: Cancel,
    begun: dict[Future[T], str],
    ended: Callable[[Future[T]], object] = bool,
) -> None:
    """Run a function for each server on its own thread, and wait for all of them.

    An interruption cancels all of them. This is not a context manager: if a signal arrived between
    its `yield` and the caller's block, nothing would cancel them.

    Args:
        works: Functions that take ``cancel=``, by the server's name.
        cancel: A token that cancels all of them, or None.
        begun: Receives each future and the name of its server as soon as it starts, because
            KeyboardInterrupt may follow.
        ended: Called with each future that is done; its exceptions are raised. The default does
            nothing.

    Raises:
        TypeError: ``cancel`` is not a token.
        Cancelled: The token was already cancelled.

    Blocks until all of them have ended.
    """
    check_token(cancel)
    pool = Pool(None, "minimcp-group")
    try:
        with linked_token(cancel) as token, waiting():
            for name, work in works.items():
                begun[spawn(pool, partial(work, cancel=token), token)] = name
            for future in as_completed(begun):
                ended(future)
    finally:
        pool.close()


def _outcomes(works: Mapping[str, Callable[..., T]], cancel: Cancel) -> dict[str, Any]:
    """Return the result or the exception of each function."""
    futures: dict[Future[T], str] = {}
    _side_by_side(works, cancel, futures)
    return {name: future.exception() or future.result() for future, name in futures.items()}


def _close_all(clients: Mapping[str, Client]) -> None:
    """Close all clients at the same time. Each close has its own time limits and continues if this
    wait is interrupted."""
    _side_by_side(
        {name: lambda client=client, **_: client.close() for name, client in clients.items()},
        None,
        {},
    )
