"""`connect_all` and `Group`: several servers side by side, with all their tools in one list."""

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
from ..schema.mismatch import keywords_shown, listed, nearest
from ..types import CallToolResult, Tool
from .calls import DEFAULT, Seconds
from .client import Arguments, Client, all_or_first, following, spawn
from .config import Config, read_servers
from .connect import connect, wanted_revisions
from .session import Cancel, OnProgress, check_token, require_type

log = logger("minimcp.client")

T = TypeVar("T")

SERVER_FAILURES = (McpError, OSError, ValueError)
"""What one server of several may fail with. A TypeError is a mistake of the caller, and ends
all."""

GIVE_UP_SECONDS = 5.0
"""How long an interrupted `connect_all` waits for its threads, each of which has been told to
stop."""

MOST_GUESSES = 3
"""Names that a message suggests at most."""


class NamedServer(NamedTuple):
    """Where a tool of a group is."""

    server: str
    client: Client
    name: str
    """What the server itself calls it."""


class Clients(dict[str, Client]):
    """Those that are open, by the name of the server."""

    def __init__(self, clients: Mapping[str, Client], failed: Mapping[str, Exception]) -> None:
        super().__init__(clients)
        self._failed = failed

    def __missing__(self, name: str) -> Client:
        known = f"there is {listed(self, 'and')}" if self else "there is none"
        raise KeyError(
            f"{name} did not start: {self._failed[name]}"
            if name in self._failed
            else f"{name}: {known}"
        )


class Group:
    """Connections to several servers, made by `connect_all`. Thread-safe; a context manager that
    closes them all.

    A tool is called ``server__tool`` here; where several servers' names fit, the longest counts.
    ``clients`` has the client of each server that was opened, by name: use it for everything that
    is not here, and close one early if you like.

    Args:
        clients: By the server's name.
        failed: Why the others could not be opened, by name.
        separator: What stands between a server's name and a tool's.
    """

    def __init__(
        self, clients: Mapping[str, Client], failed: Mapping[str, Exception], *, separator: str
    ) -> None:
        self.clients = Clients(clients, failed)
        self._failed = dict(failed)
        self._unlisted = dict[str, Exception]()
        self._separator = separator
        self._names: list[str] = []

    if not TYPE_CHECKING:  # which would take any attribute then

        def __getattr__(self, name: str) -> Any:
            way = (
                f": each client has it, as in group.clients[NAME].{name}"
                if hasattr(Client, name)
                else ""
            )
            raise AttributeError(f"a Group has no {name!r}{way}")

    @property
    def errors(self) -> dict[str, Exception]:
        """What is wrong now, by server: it did not start, is lost, or could not list its tools when
        last asked."""
        losses = {name: client.loss for name, client in self.clients.items()}
        lost = {name: loss for name, loss in losses.items() if isinstance(loss, Exception)}
        return {**self._failed, **self._unlisted, **lost}

    def list_tools(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> list[Tool]:
        """The tools of all servers, asked side by side; each is a copy that has the name to call it
        by here.

        A server that is lost, or cannot list, leaves its tools out, and `errors` says why. Left out
        is also what `call_tool` would take for the tool of a server with a longer name.

        Args:
            timeout: Seconds for each server; None waits for ever.
            cancel: Ends the call from another thread.

        Raises:
            Cancelled: The token was cancelled.
        """
        found: list[Tool] = []
        unlisted: dict[str, Exception] = {}
        works = {
            name: partial(client.list_tools, timeout=timeout)
            for name, client in self.clients.items()
        }
        for server, outcome in _outcomes(works, cancel).items():
            if isinstance(outcome, Exception):
                if isinstance(outcome, Cancelled) or not isinstance(outcome, McpError):
                    raise outcome
                if (
                    not isinstance(outcome, CapabilityNotSupported) or outcome.from_peer
                ):  # else it has no tools
                    log.warning("the tools of %r are left out: %s", server, outcome)
                    unlisted[server] = outcome
                continue
            for tool in outcome:
                own, tool = tool.name, copy(tool)
                tool.name = f"{server}{self._separator}{own}"
                if self._server_of(tool.name) == server:
                    found.append(tool)
                else:
                    log.warning(
                        "%r of %r is left out: a longer server's name fits as well", own, server
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
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        validate: Optional[bool] = None,
    ) -> CallToolResult:
        """Call a tool by its name in this group. Arguments and errors as `Client.call_tool`, and
        those of `resolve`."""
        _, client, own = self.resolve(name)
        return client.call_tool(
            own,
            arguments,
            timeout=timeout,
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
        cancel: Cancel = None,
        return_exceptions: bool,
        validate: Optional[bool] = None,
    ) -> list[Union[CallToolResult, Exception]]: ...
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: bool = False,
        validate: Optional[bool] = None,
    ) -> Any:
        """Send many calls to their servers at once. As `Client.call_tools`, with the names of this
        group.

        Without ``return_exceptions`` nothing is sent when a name cannot be resolved.
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
        options: Any = {"timeout": timeout, "return_exceptions": True, "validate": validate}
        works = {
            name: partial(self.clients[name].call_tools, [*share.values()], **options)
            for name, share in shares.items()
        }
        for name, answers in _outcomes(works, cancel).items():
            for at, number in enumerate(shares[name]):
                outcomes[number] = answers if isinstance(answers, Exception) else answers[at]
        return all_or_first(outcomes, return_exceptions)

    def resolve(self, name: str) -> NamedServer:
        """Which server a name of this group leads to; whether that has such a tool is not asked.

        Raises:
            InvalidParams: It begins with no server's name; the message suggests what may have been
                meant.
            ConnectionFailed: It leads to a server that could not be opened; the cause says why.
            TypeError: It is no str.
        """
        require_type(name, str, "a tool's name is a str")
        server = self._server_of(name)
        if server is None:
            raise InvalidParams(f"no server of this group has a tool {name!r}{self._hint(name)}")
        if server not in self.clients:
            cause = self._failed[server]
            raise ConnectionFailed(
                f"{name!r} cannot be called, {server!r} was not opened: {cause}"
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
        guess = f", did you mean {listed(near[:MOST_GUESSES])}? Its" if near else ": its"
        known = listed(servers, "and") if servers else "none"
        return f"{guess} names are server{self._separator}tool, its servers {known}"

    def close(self) -> None:
        """Close all connections, side by side, so that it lasts as long as the slowest. Idempotent,
        from any thread."""
        _close_all(self.clients)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<Group of {listed(self.clients, 'and') if self.clients else 'none'}, "
            f"{len(self.errors)} errors>"
        )


def connect_all(
    config: Config, *, separator: str = "__", strict: bool = False, **keywords: Any
) -> Group:
    """Open all servers of a config side by side. Use the group as a context manager.

    Args:
        config: A file such as ``"mcp.json"``, the mapping that it would hold, or a mapping of names
            to whatever `connect` takes.
        separator: What stands between the name of a server and that of its tool.
        strict: True raises the first failure and closes the rest; False puts failures into
            ``errors`` of the group.
        keywords: Those of `connect`, for every server. ``cancel`` ends the opening of all.
            ``connect_timeout`` is for each server; as they are opened side by side, also for all.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds no servers in a form that is known here, or the separator is empty.
        TypeError: An argument cannot be what it is, or does not apply to one of the servers.
        Cancelled: The token was cancelled.
        BaseException: Ctrl-C; as after every other exception, nothing stays open.
    """
    if not separator or not isinstance(separator, str):
        raise ValueError(f"separator is a text that is not empty, not {separator!r}")
    wanted_revisions(
        keywords.get("revision", "auto")
    )  # what is wrong for every server is the caller's mistake
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


keywords_shown(connect_all, connect)


def _side_by_side(
    works: Mapping[str, Callable[..., T]],
    cancel: Cancel,
    begun: dict[Future[T], str],
    ended: Callable[[Future[T]], object] = bool,
) -> None:
    """Run something for each server on a thread of its own, and wait; when that is interrupted, all
    are told to stop.

    No context manager: a signal between its `yield` and the block of its caller would find nobody
    to tell them.

    Args:
        works: By the server's name; each is given ``cancel=``.
        cancel: Ends all of them; None for a token that nobody cancels.
        begun: Gets the future of each and the name of its server, as it begins: Ctrl-C may come
            before the next.
        ended: Called with each future that is done; what it raises is raised here. By default
            nothing is done.

    Raises:
        TypeError: ``cancel`` is no token.
        Cancelled: It is cancelled already.

    Blocks: until all have ended.
    """
    check_token(cancel)
    pool = Pool(None, "minimcp-group")
    try:
        with following(cancel) as token, waiting():
            for name, work in works.items():
                begun[spawn(pool, partial(work, cancel=token), token)] = name
            for future in as_completed(begun):
                ended(future)
    finally:
        pool.close()


def _outcomes(works: Mapping[str, Callable[..., T]], cancel: Cancel) -> dict[str, Any]:
    """What each gives, or the exception that it raises."""
    futures: dict[Future[T], str] = {}
    _side_by_side(works, cancel, futures)
    return {name: future.exception() or future.result() for future, name in futures.items()}


def _close_all(clients: Mapping[str, Client]) -> None:
    """Close side by side; each close has its own bounds, and goes on when this wait is
    interrupted."""
    _side_by_side(
        {name: lambda client=client, **_: client.close() for name, client in clients.items()},
        None,
        {},
    )
