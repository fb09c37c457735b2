"""`connect_all` and `Group`: connections to several servers, with all their tools in one list."""

from __future__ import annotations

import threading
from concurrent.futures import Future, as_completed, wait
from copy import copy
from functools import partial
from inspect import signature
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
from ..engine.timer import Deadline
from ..errors import (
    Cancelled,
    CapabilityNotSupported,
    ConnectionFailed,
    ConnectionLost,
    InvalidParams,
    McpError,
    RequestTimeout,
)
from ..log import logger
from ..schema.mismatch import join_words, nearest
from ..text import printable
from ..types import CallToolResult, Tool
from .calls import DEFAULT, Seconds
from .client import Arguments, Client, all_or_first, linked_token, spawn, submit
from .config import Config, Servers, read_servers
from .connect import connect, wanted_revisions
from .host import NAMES
from .session import Cancel, OnProgress, check_token, require_type

if TYPE_CHECKING:
    from .client import P

log = logger("minimcp.client")

T = TypeVar("T")

SERVER_FAILURES = (McpError, OSError, ValueError)
"""Exceptions that mean that one server of several failed. A TypeError is a mistake of the caller
and ends all connections."""

GIVE_UP_SECONDS = 5.0
"""How long an interrupted `connect_all` waits for its threads after cancelling them."""

RETRY_SECONDS = 1.0
"""After a failed attempt to open a server again, how long later calls repeat its failure."""

HUNG_SECONDS = 300.0
"""After an attempt to open a server again that timed out, how long lists do not repeat it. Without
this, a server that hangs would delay each list by `connect_timeout`."""

MAX_WARNINGS = 1000
"""Maximum number of warnings that a group logs."""

MAX_GUESSES = 3
"""Maximum number of names that a message suggests."""


class NamedServer(NamedTuple):
    """The server of a group to which a tool's name refers; see `Group.resolve`."""

    server: str
    """The server's name in the config."""
    client: Client
    """The client of that server."""
    name: str
    """The server's own name for the tool."""


class Clients(dict[str, Client]):
    """The open clients by the server's name."""

    def __init__(self, clients: Mapping[str, Client], failed: Mapping[str, Exception]) -> None:
        super().__init__(clients)
        self._failed = failed  # the group changes it

    def __missing__(self, name: str) -> Client:
        if name in self._failed:
            raise KeyError(f"{name} did not start: {self._failed[name]}")
        known = join_words(self, "and") if self else "no server"
        raise KeyError(f"{name}: the group has {known}")


class Group:
    """Connections to several servers, made by `connect_all`. Thread-safe, and a context manager.

    A tool is called ``server__tool`` here. If there are servers ``a`` and ``a__b``, ``a__b__c`` is
    the tool ``c`` of ``a__b``. ``clients`` has the open `Client` of each server by name. Use it for
    everything that a group does not offer. You can close a client before the group.

    Args:
        clients: Clients by the server's name.
        failed: Exceptions of the servers that could not be opened, by name.
        separator: Text between a server's name and a tool's name.
        connect: Opens the server of this name; takes ``cancel=``. None if no server can be opened
            again.
        retry: Whether lists and calls try to open the servers in ``failed`` again.
    """

    def __init__(
        self,
        clients: Mapping[str, Client],
        failed: Mapping[str, Exception],
        *,
        separator: str,
        connect: Optional[Callable[..., Client]] = None,
        retry: bool = False,
    ) -> None:
        self._failed = dict(failed)
        self.clients = Clients(clients, self._failed)
        self._unlisted = dict[str, Exception]()
        self._separator = separator
        self._connect = connect
        self._retry = retry
        # When a server may be opened again.
        self._pauses = dict[str, Deadline]()
        # When lists may wait again for a server that hung.
        self._hung = dict[str, Deadline]()
        self._names: list[str] = []
        # Warnings that were already logged.
        self._warned = set[str]()
        self._pool = Pool(None, "minimcp-group")
        self._lock = threading.Lock()
        self._closed = False

    if not TYPE_CHECKING:  # a type checker would then accept any attribute

        def __getattr__(self, name: str) -> Any:
            hint = f": write group.clients[NAME].{name}" if hasattr(Client, name) else ""
            raise AttributeError(f"a Group has no {name!r}{hint}")

    @property
    def errors(self) -> dict[str, Exception]:
        """The current failure of each server: it did not start, its connection was lost, or it
        could not list its tools when last asked. A failure ends when the server is opened again or
        lists its tools; see `reconnect`."""
        losses = {name: client.loss for name, client in list(self.clients.items())}
        lost = {
            name: self._explained(loss, name)
            for name, loss in losses.items()
            if isinstance(loss, Exception)
        }
        return {**self._failed, **self._unlisted, **lost}

    def reconnect(self, server: str, *, cancel: Cancel = None) -> Client:
        """Connect to a server again if it was not opened, was lost or was closed.

        The options are those of `connect_all`. With ``connect_all(..., restart=True)``, you need
        not call this: listing tools, or calling a tool of such a server, opens it again. If that
        times out, `list_tools` skips this server for five minutes.

        Args:
            server: The server's name in the config.
            cancel: A token that another thread can cancel, or None.

        Returns:
            The client, which ``clients`` has from now on.

        Raises:
            KeyError: The config does not have the server.
            ConnectionLost: The group is closed.
            McpError, OSError, ValueError: As `connect`.
        """
        before = self.clients.get(server)
        if before is not None and _is_open(before):
            return before
        if self._connect is None or (before is None and server not in self._failed):
            return self.clients[server]  # raises KeyError, or returns what was passed
        try:
            opened = self._connect(server, cancel=cancel)
        except Cancelled:
            raise
        except SERVER_FAILURES as error:
            self._failed[server] = error
            raise
        with self._lock:
            current = self.clients.get(server)
            if not self._closed and current is before:
                self.clients[server] = current = opened
                self._failed.pop(server, None)
                self._unlisted.pop(server, None)
        if current is not opened:  # another thread was faster, or the group was closed
            opened.close()
        elif before is not None:
            before.close()
        if self._closed or current is None:
            raise ConnectionLost("the group is closed")
        return current

    def list_tools(
        self, *, timeout: Seconds = DEFAULT, idle_timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> list[Tool]:
        """Return the tools of all servers, under the names by which this group calls them.

        The servers are asked at the same time. If a server is lost or fails to list its tools, its
        tools are left out, and `errors` has the reason. With servers ``a`` and ``a__b``, tool
        ``b__c`` of ``a`` is left out, because ``a__b__c`` is tool ``c`` of ``a__b``.

        Args:
            timeout: Seconds for each server; None means no limit.
            idle_timeout: Maximum seconds in which a server is silent; None means no limit.
            cancel: A token that another thread can cancel, or None.

        Raises:
            Cancelled: The token was cancelled.
        """
        found: list[Tool] = []
        works: dict[str, Callable[..., list[Tool]]] = {
            name: partial(client.list_tools, timeout=timeout, idle_timeout=idle_timeout)
            for name, client in list(self.clients.items())
        }
        if self._retry:
            works.update({name: partial(self._list_again, name, timeout) for name in self._failed})
        for name, pause in list(self._hung.items()):
            if not pause.expired and self._is_down(name):
                works.pop(name, None)
        # A server that is not asked keeps its error.
        unlisted = {name: each for name, each in self._unlisted.items() if name not in works}
        for server, outcome in _outcomes(works, cancel).items():
            if isinstance(outcome, Exception):
                if isinstance(outcome, Cancelled) or not isinstance(outcome, McpError):
                    raise outcome
                is_late = isinstance(outcome.__cause__ or outcome, RequestTimeout)
                if is_late and self._is_down(server):
                    self._hung[server] = Deadline(HUNG_SECONDS)
                has_no_tools = isinstance(outcome, CapabilityNotSupported) and not outcome.from_peer
                if not has_no_tools and server not in self._failed:
                    unlisted[server] = self._explained(outcome, server)
                    self._warn_once(f"the tools of {server!r} are left out: {outcome}")
                continue
            for tool in outcome:
                own = tool.name
                tool = copy(tool)
                tool.name = f"{server}{self._separator}{own}"
                if self._server_of(tool.name) == server:
                    found.append(tool)
                else:
                    fits = "its name also fits a server with a longer name"
                    self._warn_once(f"{own!r} of {server!r} is left out: {fits}")
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
        returns: Any = None,
    ) -> CallToolResult:
        """Call a tool by its name in this group.

        Takes the arguments of `Client.call_tool`, and raises its exceptions and those of `resolve`.
        """
        server, client, own = self.resolve(name, cancel=cancel)
        try:
            return client.call_tool(
                own,
                arguments,
                timeout=timeout,
                idle_timeout=idle_timeout,
                cancel=cancel,
                on_progress=on_progress,
                raise_on_error=raise_on_error,
                validate=validate,
                returns=returns,
            )
        except McpError as error:
            explained = self._explained(error, server, name)
            raise explained.with_traceback(error.__traceback__) from error.__cause__

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
                place = self.resolve(name, cancel=cancel)
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
                outcome = answers if isinstance(answers, Exception) else answers[at]
                if isinstance(outcome, Exception):
                    outcome = self._explained(outcome, name, calls[number][0])
                outcomes[number] = outcome
        return all_or_first(outcomes, return_exceptions)

    def submit(self, function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> Future[T]:
        """Run a method of this group or of one of its clients on another thread. As
        `Client.submit`: ``group.submit(group.call_tool, "server__tool", {...})``."""
        return submit(self._pool, function, args, keywords)

    def resolve(self, name: str, *, cancel: Cancel = None) -> NamedServer:
        """Return the server that a name of this group refers to, as a tuple ``(server, client,
        name)``. The server is not asked whether it has the tool.

        Args:
            name: A name such as "server__tool".
            cancel: A token that another thread can cancel while a server is opened again, or None.

        Raises:
            InvalidParams: The name does not begin with a server's name; the message suggests names.
            ConnectionFailed: The server could not be opened; ``__cause__`` has the reason.
            TypeError: The name is not a str.
        """
        require_type(name, str, "a tool's name must be a str")
        server = self._server_of(name)
        if server is None:
            raise InvalidParams(f"no server of this group has a tool {name!r}{self._hint(name)}")
        client = self.clients.get(server) or self._opened_again(server, name, cancel)
        return NamedServer(server, client, name[len(server) + len(self._separator) :])

    def _opened_again(self, server: str, name: str, cancel: Cancel) -> Client:
        """Return the client of a server that was not opened before. Raise ConnectionFailed."""
        cause = self._failed.get(server)
        pause = self._pauses.get(server)
        if cause is None or (self._retry and (pause is None or pause.expired)):
            try:
                return self.reconnect(server, cancel=cancel)
            except Cancelled:
                raise
            except SERVER_FAILURES as error:
                cause = error
                self._pauses[server] = Deadline(RETRY_SECONDS)
        advice = "" if self._retry else f" (group.reconnect({server!r}) tries again)"
        raise ConnectionFailed(
            f"{name!r} cannot be called, because {server!r} was not opened{advice}: {cause}"
        ) from cause

    def _is_down(self, server: str) -> bool:
        client = self.clients.get(server)
        return client is None or client._sessions.newest.cause is not None

    def _list_again(self, server: str, timeout: Seconds, *, cancel: Cancel) -> list[Tool]:
        client = self._opened_again(server, "", cancel)
        return client.list_tools(timeout=timeout, cancel=cancel)

    def _explained(self, error: Exception, server: str, name: str = "") -> Exception:
        """Return an exception of a server's client with a message that is correct in this group."""
        added = copy(error)
        if isinstance(error, (ConnectionFailed, ConnectionLost, RequestTimeout)):
            added.args = (f"{server}: {error}",)
            return added
        if isinstance(added, InvalidParams) and added.from_peer and name not in self._names:
            near = self._similar(server, name[len(server + self._separator) :])
            if near is not None:
                added.message += f" (in this group: {near})"
                added.args = (added.message,)
                return added
        return error

    def _similar(self, server: str, tool: str) -> Optional[str]:
        """Return the name in this group of a server's tool that has a similar name, or None."""
        prefix = server + self._separator
        own = [each[len(prefix) :] for each in self._names if each.startswith(prefix)]
        near = nearest(tool, own)
        return None if near is None else prefix + near

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(warning)
            log.warning("%s", warning)

    def _server_of(self, name: str) -> Optional[str]:
        fitting = [
            each
            for each in (*self.clients, *self._failed)
            if name.startswith(each + self._separator)
        ]
        return max(fitting, key=len, default=None)

    def _hint(self, name: str) -> str:
        servers = [*self.clients, *self._failed]
        if not servers:
            return ": the group has no servers"
        server, separator, tool = name.partition(self._separator)
        meant = nearest(server, servers) if separator else None
        if meant is not None:
            near = [self._similar(meant, tool) or f"{meant}{separator}{tool}"]
        else:
            near = [
                each
                for each in self._names
                if nearest(name, [each]) or name.lower() in each.lower()
            ]
        guess = f", did you mean {join_words(near[:MAX_GUESSES])}?" if near else "."
        form = f"Names in this group have the form server{self._separator}tool."
        known = f"servers are {join_words(servers, 'and')}"
        if len(servers) == 1:
            known = f"only server is {servers[0]}"
        return f"{guess} {form} The {known}"

    def close(self) -> None:
        """Close all connections at the same time. Idempotent and thread-safe.

        Blocks for as long as the slowest `Client.close`.
        """
        with self._lock:
            self._closed = True
        _close_all(self.clients)
        self._pool.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = join_words(self.clients, "and") if self.clients else "none"
        return f"<Group of {names}, {len(self.errors)} errors>"


def connect_all(
    config: Config,
    *,
    separator: str = "__",
    strict: bool = False,
    tools: Union[Mapping[str, Sequence[str]], Callable[[str, str], bool], None] = None,
    **keywords: Any,
) -> Group:
    """Open all servers of a config at the same time and return a `Group`, a context manager.

    After an exception, nothing stays open. A problem with one server, such as a misspelled member
    of its entry, is not raised. ``errors`` of the group has it.

    Args:
        config: A host's file, such as "mcp.json", its content, or a mapping of names to targets.
        separator: The text between a server's name and a tool's name.
        strict: Whether to raise the first failure of a server.
        tools: The offered tools: a function ``(server, tool) -> bool``, or a mapping from servers
            to lists of tools. Servers that are not in the mapping offer all their tools. A name in
            a list is ignored if its server has no such tool. The rules of the config apply in
            addition; with None, only these rules apply.
        keywords: Options of `connect` for every server. ``cancel`` stops the opening of all
            servers. A callback or middleware with a parameter ``server`` is called with
            ``server=NAME``. Each line of a file or logger (``stderr=``, ``trace=``) begins with
            ``[NAME]``.

    Raises:
        OSError, ValueError: The config as a whole cannot be read.
        TypeError, ValueError: An argument is invalid.
        Cancelled: ``cancel`` was cancelled.
    """
    if not separator or not isinstance(separator, str):
        raise ValueError(f"separator must be a str that is not empty, not {separator!r}")
    # An option that is wrong for every server is a mistake of the caller.
    wanted_revisions(keywords.get("revision", "auto"))
    check_interval("ping_interval", keywords.get("ping_interval"))
    servers = read_servers(config)
    if tools is not None:
        offers = tools if callable(tools) else _offers(tools, servers)
        servers = Servers(servers.where, servers.folder, servers.table, offers)
    cancel = keywords.pop("cancel", None)
    works = {
        name: partial(connect, name, config=servers, **_for_server(name, keywords))
        for name in servers.names
    }
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
        connect=lambda server, cancel: works[server](cancel=cancel),
        retry=keywords.get("restart") is True,
    )


def _offers(tools: Any, servers: Servers) -> Callable[[str, str], bool]:
    """Return the function for a mapping of servers to offered tools."""
    require_type(tools, Mapping, "tools must be a mapping from servers to tools, or a function")
    for server, names in tools.items():
        if server not in servers:
            raise ValueError(
                f"tools has {server!r}: the servers are {join_words(servers.table, 'and')}"
            )
        if isinstance(names, str) or not all(isinstance(each, str) for each in names):
            raise TypeError(f"tools[{server!r}] must be a list of names, not {names!r:.60}")
    offered = {server: frozenset(names) for server, names in tools.items()}
    return lambda server, tool: server not in offered or tool in offered[server]


# ------------------------------------------------------------ callbacks


def _for_server(server: str, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `connect` for one server, with callbacks that get its name."""
    named = dict(keywords)
    for option in named.keys() & {*NAMES, "stderr", "trace"}:
        named[option] = _with_server(named[option], server)
    handlers = named.get("handlers")
    if handlers is not None and not isinstance(handlers, (type, Mapping)):
        named["handlers"] = _Handlers(handlers, server)
    if isinstance(named.get("middleware"), (list, tuple)):
        named["middleware"] = [_with_server(each, server) for each in named["middleware"]]
    stderr: Any = named.get("stderr")
    trace: Any = named.get("trace")
    if hasattr(stderr, "write"):
        named["stderr"] = partial(_write_line, stderr, f"[{server}] ")
    elif hasattr(stderr, "info"):  # a logger
        named["stderr"] = lambda line: stderr.info("[%s] %s", server, printable(line))
    if hasattr(trace, "write"):
        named["trace"] = lambda arrow, line: _write_line(
            trace, f"[{server}] {arrow} ", printable(line)
        )
    return named


def _write_line(file: Any, prefix: str, line: str) -> None:
    """Write a line to a text or binary file that servers share. Thread-safe."""
    written = f"{prefix}{line}\n"
    with _writing:
        file.write(written if hasattr(file, "encoding") else written.encode("utf-8", "replace"))
        getattr(file, "flush", int)()


_writing = threading.Lock()


def _with_server(function: Any, server: str) -> Any:
    """Return a callback that gets ``server=`` if the function has a parameter of that name."""
    try:
        has_parameter = callable(function) and "server" in signature(function).parameters
    except (TypeError, ValueError):  # a function of C code without a signature
        has_parameter = False
    return partial(function, server=server) if has_parameter else function


class _Handlers:
    """An object passed as ``handlers=``, whose methods get ``server=``."""

    def __init__(self, handlers: Any, server: str) -> None:
        self._handlers = handlers
        self._server = server

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._handlers, name)
        return _with_server(found, self._server) if name in NAMES else found

    def __dir__(self) -> list[str]:
        return dir(self._handlers)

    def __repr__(self) -> str:
        return repr(self._handlers)


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


def _is_open(client: Client) -> bool:
    return client.loss is None and not client._sessions.closed


def _close_all(clients: Mapping[str, Client]) -> None:
    """Close all clients at the same time. Each close has its own time limits and continues if this
    wait is interrupted."""
    _side_by_side(
        {name: lambda client=client, **_: client.close() for name, client in clients.items()},
        None,
        {},
    )
