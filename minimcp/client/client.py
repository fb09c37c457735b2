"""`Client`: a connection to one server, with a method for every call that a program can make.

https://modelcontextprotocol.io/specification/2026-07-28/client
https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import atexit
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Optional, TypeVar, Union, overload

from .. import types
from ..engine.cancel import CancelToken
from ..engine.incoming import current_trace_context
from ..engine.pool import Pool, this_thread, waiting
from ..engine.timer import Deadline
from ..errors import HeaderMismatch, InvalidParams, McpError, MethodNotFound, ToolError
from ..log import logger
from ..protocol.lifecycle import INPUT_REQUIRED, LOG_LEVELS
from ..protocol.messages import PARAPHRASE_SHUTDOWN, Json, to_json
from ..schema.mismatch import json_hint, keywords_shown, refuse_as_arguments
from ..text import one_line
from ..types import CallToolResult, Tool
from .calls import DEFAULT, NOT_RUN, Call, Seconds, Sessions
from .host import Era, Rootlike
from .session import Cancel, OnProgress, Outcome, Params, check_token, repr_of, require_type

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from ..extensions.client_events import Occurrences
    from ..extensions.client_skills import Skill
    from ..extensions.client_tasks import Task
    from ..extensions.event_types import EventBatch, EventType, Occurrence
    from .subscriptions import Changes, ClientSubscriptions

    P = ParamSpec("P")

log = logger("minimcp.client")

T = TypeVar("T")
Arguments = Optional[Mapping[str, Json]]

Scalar = Union[str, float, bool]
"""The value of an argument that is sent as a string."""

SHUTDOWN_SECONDS = 2.0
"""How long `Client.close` waits for the response to `shutdown`, if it sends that request."""

LOOK_UP_SECONDS = 5.0
"""Maximum seconds for listing the tools to find the schema of one. A server that does not respond
must not block a call for longer."""

URI = "the URI of a resource must be a str"


class CallFuture(Future):  # type: ignore[type-arg]
    """The future that `Client.submit` returns. `cancel` also cancels a running call on the server.

    Args:
        token: The token that was passed to the call.
    """

    def __init__(self, token: CancelToken) -> None:
        super().__init__()
        self._token = token
        self._begun = False

    def cancel(self) -> bool:
        """Cancel the call and notify the server. Return False if the call has already ended."""
        if not super().cancel():
            return False
        self._token.cancel("the future was cancelled")
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """Return the result of the call, as `concurrent.futures.Future.result` does."""
        with waiting():
            return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Return the exception of the call, as `concurrent.futures.Future.exception` does."""
        with waiting():
            return super().exception(timeout)

    def running(self) -> bool:
        """Return whether the call has started and has not ended."""
        return self._begun and not self.done()

    def run(self, work: Callable[[], Any]) -> None:
        """Run the call on this thread and set the outcome, unless the future was cancelled.

        The base class sees the future as pending until it ends, because a running `Future` cannot
        be cancelled.
        """
        self._begun = True
        try:
            result = work()
        except BaseException as error:
            if self.set_running_or_notify_cancel():
                self.set_exception(error)
        else:
            if self.set_running_or_notify_cancel():
                self.set_result(result)


class Client:
    """A connection to one server, made by `connect`. It is thread-safe and a context manager.

    Every method that sends a request takes ``timeout=`` (seconds for the whole call; None means no
    limit), ``idle_timeout=`` (seconds without a response or progress; None means no limit) and
    ``cancel=`` (a `CancelToken` that another thread can cancel), and raises what
    `request` raises. Methods that list or read also take ``cache=``: "use" returns a cached result
    that the server still allows to be used, "refresh" sends a request and caches the result, and
    "bypass" ignores the cache.

    Args:
        sessions: The current session and its successors.
        send_shutdown: Whether `close` sends a `shutdown` request in revisions with a handshake.
        validate_results: Whether `call_tool` checks structured results by default.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        send_shutdown: bool = False,
        validate_results: bool = True,
    ) -> None:
        if not hasattr(sessions, "host"):
            raise TypeError(
                f"a Client is made by minimcp.connect(...): pass {sessions!r:.60} to connect"
            )
        self._sessions = sessions
        self._host = sessions.host
        self._send_shutdown = send_shutdown
        self._validate_results = validate_results
        _open_clients.add(self)

    # ------------------------------------------------------------ the server

    @property
    def _era(self) -> Era:
        return self._sessions.newest.era

    @property
    def server_info(self) -> Optional[types.Implementation]:
        """The server's description of itself (``name``, ``version``, ...), or None if it sent
        none."""
        return types.Implementation.of_peer(self._era.peer.info)

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """The capabilities that the server declares: ``"tools" in client.capabilities``.

        If the server sends ``[]`` or ``true`` instead of an object, it counts as an empty object.
        Other values are unchanged.
        """
        return self._era.peer.capabilities

    @property
    def instructions(self) -> Optional[str]:
        """The server's instructions for the model, or None if it sent none."""
        return self._era.instructions

    @property
    def revision(self) -> str:
        """The name of the protocol revision in use, such as "2026-07-28"."""
        return self._era.revision.name

    @property
    def stderr_tail(self) -> str:
        """The last lines that the server process wrote to stderr; empty without a process."""
        return getattr(self._sessions.newest.transport, "stderr_tail", "")

    @property
    def loss(self) -> Optional[BaseException]:
        """The exception that ended the connection permanently. It is None while the connection is
        open, and after `close`."""
        sessions = self._sessions
        if sessions.closed or sessions.restarts:
            return None
        return sessions.newest.cause

    # ------------------------------------------------------------ calls

    def _list(
        self,
        method: str,
        member: str,
        read: Callable[[Any], T],
        timeout: Seconds,
        idle_timeout: Seconds,
        cancel: Cancel,
        cache: str,
    ) -> list[T]:
        capability = method.partition("/")[0]
        call = Call(self._sessions, timeout, cancel, capability, idle_timeout)
        return call.pages(method, member, read, cache)

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Json]] = None,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        raw: bool = False,
        cache: str = "use",
    ) -> dict[str, Json]:
        """Call any method and return its result unchanged.

        Args:
            method: A method of the specification or one of the server's own.
            params: The params without what the library adds; None means no params.
            timeout: Seconds for the whole call; None means no limit. Progress does not extend it.
            idle_timeout: Seconds without a response or progress; None means no limit. A limit makes
                the client request progress. Default: that of `connect`. Questions stop both clocks.
            cancel: A token that another thread can cancel, or None.
            on_progress: Function that this thread calls with each `Progress`, in order, before
                `request` returns. None does not request progress.
            raw: Whether to return a result that requests input (``resultType`` is
                "input_required"). Your program then continues with ``inputResponses`` and
                ``requestState`` in the params of another request.
            cache: "use" returns a cached list, read or `server/discover` result that is still
                fresh. "refresh" sends a request and caches the result. "bypass" ignores the cache.
                Requests with ``_meta`` or answers are never cached.

        Raises:
            RpcError: The server returned an error; its subclass depends on the code.
            Refused: The server requested input, and a handler of the host refused or failed.
            RequestTimeout: No response arrived in time; the server was notified.
            Cancelled: The token was cancelled; the server was notified.
            ConnectionLost: The connection has ended or is closed.
            ConnectionFailed: With ``restart=True``, the server could not be started again. The next
                call tries again.
            ProtocolViolation: The response is invalid.
            TypeError: The method is not a str, or the params are not a mapping.
            BaseException: Any exception that ``on_progress`` raises; the server is notified.
        """
        sent = _check_params(method, params)
        return Call(self._sessions, timeout, cancel, None, idle_timeout).fetch(
            method, sent, on_progress, raw=raw, cache=cache
        )

    def notify(self, method: str, params: Optional[Mapping[str, Json]] = None) -> None:
        """Send a notification.

        Args:
            method: A method of the specification or one of the server's own.
            params: The params; None means no params.

        Raises:
            ConnectionLost: The connection has ended.
            TypeError: The method is not a str, or the params are not a mapping.
        """
        sent = _check_params(method, params)
        call = Call(self._sessions, DEFAULT, None)
        call.session.notify(method, sent, call.deadline)

    def ping(
        self, *, timeout: Seconds = DEFAULT, idle_timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> float:
        """Ping the server and return the seconds until it responded. Raises what `request`
        raises."""
        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        began = time.monotonic()
        # Stateless revisions have no ping.
        call.within(None, cancel).request(
            "ping" if call.session.era.revision.handshake else "server/discover", {}
        )
        return time.monotonic() - began

    def set_log_level(
        self,
        level: str,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> None:
        """Request log messages of this level and above. Raises what `request` raises, and:

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or
                "emergency".

        Raises:
            ValueError: The level is not one of these.
            CapabilityNotSupported: The server does not declare logging.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
        call = Call(self._sessions, timeout, cancel, "logging", idle_timeout)
        from . import subscriptions

        subscriptions.of(call.session).set_log_level(level, call.request)
        # The request may have been retried in a newer session.
        subscriptions.of(call.session).log_level = level
        # A session that replaced this one in the meantime does not know of the level.
        call.session.check()

    def set_roots(self, roots: Iterable[Rootlike]) -> None:
        """Replace the roots that were passed to `connect` as ``roots=``, and notify the server.

        Args:
            roots: Paths, ``file://`` URIs or `Root` objects.

        Raises:
            RuntimeError: `connect` was called without ``roots``.
            ConnectionLost: The connection has ended.
        """
        if self._host.roots is None:
            raise RuntimeError(
                "set_roots replaces the roots of connect(..., roots=[...]), which was called "
                "without roots"
            )
        from .questions import as_roots

        self._host.roots = as_roots(roots)
        self.roots_changed()

    def roots_changed(self) -> None:
        """Notify the server that `list_roots` returns new roots.

        In stateless revisions this does nothing, because the server requests the roots in each
        call.

        Raises:
            RuntimeError: `connect` was called without ``roots`` and ``list_roots``.
            ConnectionLost: The connection has ended.
        """
        if "list_roots" not in self._host.functions:
            raise RuntimeError("this client has no roots: pass roots= or list_roots= to connect")
        if self._era.revision.handshake:
            self.notify("notifications/roots/list_changed")

    # ------------------------------------------------------------ tools

    def list_tools(
        self,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        cache: str = "use",
    ) -> list[Tool]:
        """Return all tools of the server, from all pages of the list.

        Args:
            timeout: Seconds for all pages together; None means no limit. Default: that of
                `connect`.
            cancel: A token that another thread can cancel, or None.
            cache: "use" returns cached pages that are still fresh, "refresh" requests and caches
                them, and "bypass" ignores the cache.

        Raises:
            CapabilityNotSupported: The server does not declare tools.
            ProtocolViolation: A page is invalid, a cursor is repeated, or there are over 1,000
                pages.
            McpError: As `request`.

        https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        return self._list_tools(Call(self._sessions, timeout, cancel, "tools", idle_timeout), cache)

    def _list_tools(self, call: Call, cache: str = "use") -> list[Tool]:
        tools = call.pages("tools/list", "tools", Tool.from_wire, cache)
        header_params = call.session.header_params
        if header_params is not None and not call.session.era.revision.handshake:
            tools = header_params.usable_tools(tools, call.deadline)
        call.session.schemas.remember(tools)
        offers = self._host.offers
        if offers is None:
            return tools
        return [tool for tool in tools if offers(tool.name)]

    @keywords_shown
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
        **misplaced: NoReturn,
    ) -> CallToolResult:
        """Call a tool and return its result.

        Args:
            name: The tool's name.
            arguments: Values by parameter name; omitted if None.
            timeout: Seconds for the whole call; None means no limit. Default: that of `connect`.
            idle_timeout: Seconds without progress or a result, as for `request`.
            cancel: A token that another thread can cancel, or None.
            on_progress: Function that this thread calls with each `Progress`, in order, before
                `call_tool` returns. None does not request progress.
            raise_on_error: Whether to raise `ToolError` if the tool failed. If False, return the
                result, whose ``is_error`` is True.
            validate: Whether to check the structured result against the output schema of a listed
                tool. None means ``validate_results`` of `connect`.
            returns: The type of the result's ``value``, such as ``list[Day]``. The value is
                converted by the rules for arguments of a tool. Text is decoded as JSON if there is
                no structured content. If None, the value is not converted.

        Raises:
            ToolError: The tool failed; ``result`` is its result.
            InvalidParams: The server does not have the tool or rejected the arguments.
            CapabilityNotSupported: The server does not declare tools.
            ProtocolViolation: The structured result does not match the output schema or
                ``returns``, or the schema cannot be checked. ``result`` is the result.
            TypeError: ``returns`` has no JSON form.
            McpError: As `request`.

        Some revisions wrap a value as ``{"result": value}``. Only the output schema shows whether a
        value is wrapped, so the tools are listed once if needed.
        https://modelcontextprotocol.io/specification/2026-07-28/server/tools
        """
        if misplaced:
            refuse_as_arguments(name, misplaced, Client.call_tool)
        convert = None
        if returns is not None:
            from .returns import converter  # few programs need it

            convert = converter(returns)
        call = Call(self._sessions, timeout, cancel, "tools", idle_timeout)
        validate = self._validates(validate)
        params = self._call_params(name, arguments, call)
        result = self._carry_out(call, params, None, on_progress, raise_on_error, validate)
        if convert is not None and not result.is_error:
            convert(name, result)
        return result

    def _call_params(
        self, name: str, arguments: Arguments, call: Optional[Call] = None
    ) -> dict[str, Json]:
        """Return the params of a tool call.

        Args:
            name: The tool's name.
            arguments: Values by parameter name, or None.
            call: The call. If its server lists the tool as one that must run as a task, the params
                have a ``task``. None means none.

        Raises:
            InvalidParams: The config does not offer the tool.
        """
        if type(name) is not str:
            require_type(name, str, "a tool's name must be a str")
        offers = self._host.offers
        if offers is not None and not offers(name):
            raise InvalidParams(
                f"Unknown tool: {one_line(name)}: {self._host.connection!r} does not offer it here"
            )
        params: dict[str, Json] = {"name": name}
        if arguments is not None:
            if type(arguments) is not dict:
                arguments = _mapping(name, arguments)
            params["arguments"] = dict(arguments)
        if (
            call is not None
            and call.session.schemas.task_support.get(name) == "required"
            and call.session.era.peer.supports("tasks.requests.tools.call")
        ):
            params["task"] = {}
        return params

    def _validates(self, validate: Optional[bool]) -> bool:
        if validate is None:
            return self._validate_results
        require_type(validate, bool, "validate must be True, False or None")
        return validate

    def _carry_out(
        self,
        call: Call,
        params: Params,
        first: Optional[Outcome],
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        validate: bool = True,
    ) -> CallToolResult:
        """Complete a tool call.

        Args:
            first: The outcome of the first request, or None to send it.
        """
        name = params["name"]

        def send(method: str, params: Params) -> dict[str, Json]:
            nonlocal name
            name = params.get("name")
            return self._send_call(call, method, params, first, on_progress)

        try:
            if call.middleware is None:
                result = self._send_call(call, "tools/call", params, first, on_progress)
            else:
                result = call.around("tools/call", params, send)
        except ToolError as error:  # older servers report a failed tool by an error code
            if raise_on_error or error.result is None:
                raise
            return error.result
        return self._typed(call, str(name), result, raise_on_error, validate)

    def _send_call(
        self,
        call: Call,
        method: str,
        params: Params,
        first: Optional[Outcome],
        on_progress: Optional[OnProgress],
    ) -> dict[str, Json]:
        """Send a tool call, again if necessary, and return its result, also from a task. See
        `_carry_out` for the arguments."""
        try:
            result = call.request(method, params, on_progress, first=first)
        except HeaderMismatch:  # the tool was never listed, or its schema has changed since
            if call.session.header_params is None:
                raise
            self._list_tools(call, "refresh")
            result = call.request(method, params, on_progress)
        except MethodNotFound:  # in revisions with a handshake, a tool may require a task
            if not self._requires_task(call, params["name"]):
                raise
            result = call.request(method, {**params, "task": {}})
        wire = result if result.get("resultType") == "task" else result.get("task")
        if wire is not None and "content" not in result:
            from ..extensions.client_tasks import Task

            task = Task.read(self, wire, params["name"])
            try:
                result = task.drive(call)
            except BaseException:
                task.give_up()
                raise
        return result

    def _requires_task(self, call: Call, name: str) -> bool:
        """Return whether the server lists the tool as one that must run as a task."""
        if not call.session.era.peer.supports("tasks.requests.tools.call"):
            return False
        return any(
            each.name == name and each.task == "required"
            for each in self._list_tools(call, "refresh")
        )

    def _typed(
        self,
        call: Call,
        name: Optional[str],
        result: Params,
        raise_on_error: bool,
        validate: Optional[bool] = None,
    ) -> CallToolResult:
        """Return the result of a tool call as an object. ``name`` is None if the tool is
        unknown."""
        typed = call.read("tools/call", CallToolResult, result)
        schemas = call.session.schemas
        if validate is None:
            validate = self._validate_results
        if typed.is_error:
            if raise_on_error:
                failed = ToolError(typed.text or f"{name} failed", content=typed.content)
                failed.result = typed
                raise failed
        elif name is None:
            schemas.fill_in("", typed, wraps=False)
        elif not schemas.fill_in(
            name,
            typed,
            wraps=call.session.era.revision.structured == "object",
            validate=validate,
        ):
            # The call has succeeded, so its result is returned even if the list fails.
            try:
                self._list_tools(call.within(LOOK_UP_SECONDS, call.cancel))
            except McpError as error:
                log.warning(
                    "the result of %s may be wrapped, but its schema is not available: %s",
                    name,
                    error,
                )
            schemas.fill_in(name, typed, wraps=False, validate=validate)
        return typed

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
        """Send several tool calls at once and return their results in the order of the calls.

        Args:
            calls: Pairs of a tool's name and its arguments.
            timeout: Seconds for all calls together; None means no limit.
            cancel: A token that cancels all calls, or None.
            return_exceptions: Whether the list contains exceptions in place of missing results. If
                False, the first exception in order is raised when all calls have ended.
            validate: As for `call_tool`.

        Raises:
            McpError: As `call_tool`, unless ``return_exceptions`` is True.
            TypeError: An item is not a pair.
        """
        call = Call(self._sessions, timeout, cancel, "tools", idle_timeout)
        pairs: list[Any] = list(calls)
        for each in pairs:
            if not isinstance(each, (tuple, list)) or len(each) != 2:
                raise TypeError(
                    "call_tools takes pairs of a tool's name and its arguments, such as "
                    f'[("forecast", {{"city": "Oslo"}})], not {each!r:.60}'
                )
        validate = self._validates(validate)
        params = [self._call_params(name, arguments, call) for name, arguments in pairs]
        outcomes: list[Optional[Outcome]] = [None] * len(params)
        if call.middleware is None:  # otherwise each call is sent on a thread of its own
            outcomes[:] = call.session.request_all("tools/call", params, call.deadline, cancel)
        if call.session.header_params is not None and any(
            isinstance(outcome, HeaderMismatch) for outcome in outcomes
        ):
            # If this fails, a call that is rejected again lists the tools and raises the error.
            with suppress(McpError):
                self._list_tools(call, "refresh")
            outcomes = [
                None if isinstance(outcome, HeaderMismatch) else outcome for outcome in outcomes
            ]
        with linked_token(cancel) as token:
            results: list[Any] = []
            for one, first in zip(params, outcomes):
                # A deadline of its own: it is paused only while the host answers this call.
                part = call.within(None, token)
                part.middleware = call.middleware
                work = partial(self._carry_out, part, one, first, validate=validate)
                asks = isinstance(first, dict) and first.get("resultType") == INPUT_REQUIRED
                # A call that has to wait runs on its own thread, so that it delays no other.
                if asks or first is None or isinstance(first, NOT_RUN):
                    results.append(spawn(self._host.pool, work, token))
                else:
                    results.append(CallFuture(token))
                    results[-1].run(work)
            results = [future.exception() or future.result() for future in results]
        return all_or_first(results, return_exceptions)

    # ------------------------------------------------------------ tasks

    def start_task(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        ttl: Optional[float] = None,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Task:
        """Call a tool as a task and return without waiting for its end.

        Arguments and exceptions are those of `call_tool`, and:

        Args:
            ttl: Seconds for which the server should keep the task; if None, the server decides. It
                is not sent in stateless revisions, in which the server decides.

        Returns:
            The task. In stateless revisions the server may return the result at once; then the task
            has already ended.

        Raises:
            CapabilityNotSupported: The server does not run tasks, or `connect` was called without
                ``extensions=[Tasks()]``.
            MethodNotFound: The server does not run this tool as a task.

        In revisions with a handshake only a tool that declares it may be called as a task, so the
        tools are listed once if needed.
        https://modelcontextprotocol.io/specification/2026-07-28/extensions/tasks
        """
        from ..extensions.client_tasks import Task, need_tasks

        call = Call(self._sessions, timeout, cancel, "tools", idle_timeout)
        need_tasks(call)
        params = self._call_params(name, arguments)
        if call.session.era.revision.handshake:
            self._need_task_support(call, name)
            asked: dict[str, Json] = {} if ttl is None else {"ttl": round(ttl * 1000)}
            result = call.request("tools/call", {**params, "task": asked})
            return Task.read(self, result.get("task"), name)
        result = call.request("tools/call", params)
        if result.get("resultType") == "task":
            return Task.read(self, result, name)
        return Task(self, "", name, result)

    def _need_task_support(self, call: Call, name: str) -> None:
        """Raise MethodNotFound if the server does not list the tool as one that can run as a
        task."""
        schemas = call.session.schemas
        if name not in schemas.task_support:
            try:
                self._list_tools(call.within(LOOK_UP_SECONDS, call.cancel))
            except McpError as error:  # leave the decision to the server
                log.warning("cannot determine whether %s can run as a task: %s", name, error)
                return
        if schemas.task_support.get(name) is None:
            raise MethodNotFound(
                f"{call.session.name}: the server does not list the tool {name!r:.100} as one "
                "that can run as a task: use call_tool"
            )

    def task(self, id: str) -> Task:
        """Return a task that was started earlier, even by another process. Nothing is sent.

        Args:
            id: The task's id.

        Raises:
            TypeError: The id is not a str.
            ValueError: The id is empty.
        """
        from ..extensions.client_tasks import Task

        if not require_type(id, str, "a task's id must be a str"):
            raise ValueError(
                "a task's id must not be empty: a call whose result arrived at once has no id"
            )
        return Task(self, id)

    def list_tasks(
        self, *, timeout: Seconds = DEFAULT, idle_timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> list[Task]:
        """Return the tasks of this client that the server keeps.

        Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not list tasks. In stateless revisions no server
                does.
        """
        from ..extensions.client_tasks import Task

        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        call.session.need("tasks.list")
        return call.pages("tasks/list", "tasks", partial(Task.read, self), "bypass")

    # ------------------------------------------------------------ resources

    def list_resources(
        self,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        cache: str = "use",
    ) -> list[types.Resource]:
        """Return all resources that the server lists, from all pages of the list.

        Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not declare resources.

        https://modelcontextprotocol.io/specification/2026-07-28/server/resources
        """
        return self._list(
            "resources/list",
            "resources",
            types.Resource.from_wire,
            timeout,
            idle_timeout,
            cancel,
            cache,
        )

    def list_resource_templates(
        self,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        cache: str = "use",
    ) -> list[types.ResourceTemplate]:
        """Return all resource templates that the server lists, from all pages of the list.

        Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not declare resources.
        """
        read = types.ResourceTemplate.from_wire
        return self._list(
            "resources/templates/list",
            "resourceTemplates",
            read,
            timeout,
            idle_timeout,
            cancel,
            cache,
        )

    def read_resource(
        self,
        uri: str,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        cache: str = "use",
    ) -> types.ReadResourceResult:
        """Read a resource.

        Arguments and exceptions are those of `request`, and:

        Args:
            uri: A URI that the server lists or that was made from a template. It is sent unchanged.

        Raises:
            ResourceNotFound: The server does not have the resource.
            ResourceAccessDenied: The client may not read the resource.
            CapabilityNotSupported: The server does not declare resources.

        https://modelcontextprotocol.io/specification/2026-07-28/server/resources
        """
        call = Call(self._sessions, timeout, cancel, "resources", idle_timeout)
        result = call.fetch(
            "resources/read", {"uri": require_type(uri, str, URI)}, on_progress, cache=cache
        )
        return call.read("resources/read", types.ReadResourceResult, result)

    # ------------------------------------------------------------ skills

    def list_skills(
        self, *, timeout: Seconds = DEFAULT, idle_timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> list[Skill]:
        """Return the skills that the server lists, from all pages of the list. It may serve others.

        No file is read. Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not declare skills.
        """
        from ..extensions.client_skills import CAPABILITY, Skill

        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        call.session.need(CAPABILITY)
        return call.pages("skills/list", "skills", partial(Skill, self), "bypass")

    def read_skill(
        self,
        skill: Union[str, Skill],
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Skill:
        """Read the ``SKILL.md`` of a skill and verify its size, digest and front matter.

        Exceptions are those of `request`, and:

        Args:
            skill: A listed `Skill`, so that the user receives what they agreed to; or a URI, listed
                or not. For a URI the server is asked for the current description of the skill.

        Returns:
            The skill, with its ``text``. Its ``read`` method reads the other files.

        Raises:
            SkillError: The content differs from the description.
            InvalidParams: The server does not have a skill with this URI.
            CapabilityNotSupported: The server does not declare skills.
        """
        from ..extensions.client_skills import CAPABILITY, Skill, get_skill

        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        call.session.need(CAPABILITY)
        if not isinstance(skill, Skill):
            uri = require_type(skill, str, "a skill must be a Skill or a URI (a str)")
            skill = get_skill(self, call, uri)
        skill.load(call)
        return skill

    # ------------------------------------------------------------ events

    def list_events(
        self,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        cache: str = "use",
    ) -> list[EventType]:
        """Return the event types that the server lists, from all pages of the list.

        Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not declare events.
        """
        from ..extensions.client_events import list_types

        call = Call(self._sessions, timeout, cancel, idle_timeout=idle_timeout)
        return list_types(call, cache)

    def poll_events(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        cursor: Optional[str] = None,
        max_age: Optional[float] = None,
        max_events: Optional[int] = None,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> EventBatch[Any]:
        """Return the events since a cursor. Save ``batch.cursor`` every time for the next poll.

        Exceptions are those of `request`, and:

        Args:
            name: The event type.
            arguments: The arguments of the subscription; None means no arguments.
            cursor: The position to begin after. None means now: the batch has only a cursor.
            max_age: Maximum age of events in seconds; older ones are left out. None means no limit.
            max_events: Maximum number of events; None means all, from at most 1,000 pages with
                about 16 MB. ``batch.more`` says whether some are left.

        Raises:
            CapabilityNotSupported: The server does not declare events.
            EventError: The server rejected the subscription.
        """
        from ..extensions.client_events import params_of, poll

        call = Call(self._sessions, timeout, cancel, idle_timeout=idle_timeout)
        return poll(call, params_of(name, arguments, cursor, max_age), max_events)

    def events(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        cursor: Optional[str] = None,
        max_age: Optional[float] = None,
        mode: Optional[str] = None,
        on_gap: Optional[Callable[[Optional[str]], Any]] = None,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Occurrences:
        """Subscribe to events: ``with client.events("ticket.updated") as stream: ...``.

        Arguments and exceptions are those of `poll_events`, and:

        Args:
            mode: "push", "poll", or None (push if the server offers it).
            on_gap: Function that is called with the new cursor if events may be lost; None means no
                callback. The next event has ``missed`` set in any case.
            timeout: Seconds until the subscription begins. It may then be silent forever.

        Returns:
            An iterator that blocks, reconnects and drops duplicates, and a context manager.
        """
        from ..extensions.client_events import Occurrences, params_of

        call = Call(self._sessions, timeout, cancel)
        params = params_of(name, arguments, cursor, max_age)
        return Occurrences(self, call, params, mode, on_gap)

    def on_event(
        self,
        name: str,
        function: Callable[[Occurrence], Any],
        arguments: Arguments = None,
        *,
        cursor: Optional[str] = None,
        mode: Optional[str] = None,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Occurrences:
        """Call a function with each event, on the thread of this client's other callbacks.

        Arguments and exceptions are those of `events`. Close the result to end it. An exception of
        the function is logged.
        """
        from ..extensions.client_events import call_for_each

        occurrences = self.events(
            name, arguments, cursor=cursor, mode=mode, timeout=timeout, cancel=cancel
        )
        call_for_each(occurrences, function, self)
        return occurrences

    # ------------------------------------------------------------ prompts

    def list_prompts(
        self,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        cache: str = "use",
    ) -> list[types.Prompt]:
        """Return all prompts of the server, from all pages of the list.

        Arguments and exceptions are those of `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not declare prompts.

        https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
        """
        return self._list(
            "prompts/list", "prompts", types.Prompt.from_wire, timeout, idle_timeout, cancel, cache
        )

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, Scalar]] = None,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
    ) -> types.GetPromptResult:
        """Get the messages of a prompt.

        Arguments and exceptions are those of `request`, and:

        Args:
            name: The prompt's name.
            arguments: Values by name. They are sent as strings: numbers and bools are written as in
                JSON. Omitted if None.

        Raises:
            InvalidParams: The server does not have the prompt or rejected the arguments.
            CapabilityNotSupported: The server does not declare prompts.
            TypeError: An argument is not a str, a number or a bool.

        https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
        """
        params: dict[str, Json] = {"name": require_type(name, str, "a prompt's name must be a str")}
        if arguments is not None:
            params["arguments"] = _texts(name, arguments)
        call = Call(self._sessions, timeout, cancel, "prompts", idle_timeout)
        result = call.request("prompts/get", params, on_progress)
        return call.read("prompts/get", types.GetPromptResult, result)

    # ------------------------------------------------------------ completion

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: Optional[str] = None,
        template: Optional[str] = None,
        arguments: Optional[Mapping[str, Scalar]] = None,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> types.Completion:
        """Return suggestions for an argument of a prompt or a variable of a resource template.

        Exceptions are those of `request`, and:

        Args:
            argument: The name of the argument or variable.
            value: The text typed so far.
            prompt: The name of the prompt. Pass either this or ``template``.
            template: The URI template, as the server lists it.
            arguments: Values that were already chosen, by name; omitted if None. They are not sent
                in revisions that do not have them.

        Raises:
            TypeError: Neither or both of ``prompt`` and ``template`` were passed, or an argument is
                not a str, a number or a bool.
            InvalidParams: The server does not have the prompt, template or argument.
            CapabilityNotSupported: The server does not declare completions.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
        """
        if (prompt is None) == (template is None):
            raise TypeError("complete takes either prompt= or template=")
        if prompt is None:
            ref = {"type": "ref/resource", "uri": template}
        else:
            ref = {"type": "ref/prompt", "name": prompt}
        require_type(prompt or template, str, "prompt or template must be a str")
        require_type(argument, str, "an argument's name must be a str")
        require_type(value, str, "a value must be a str")
        params: dict[str, Json] = {"ref": ref, "argument": {"name": argument, "value": value}}
        chosen = None if arguments is None else _texts(prompt or template or "", arguments)
        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        revision = call.session.era.revision
        if chosen is not None and revision.completion_context:
            params["context"] = {"arguments": chosen}
        if revision.completions_capability:
            call.session.need("completions")
        result = call.request("completion/complete", params)
        return call.read("completion/complete", types.Completion, result)

    # ------------------------------------------------------------ changes

    def _subscriptions(
        self,
        do: Callable[[ClientSubscriptions, Deadline], T],
        timeout: Seconds,
        idle_timeout: Seconds,
        cancel: Cancel,
    ) -> T:
        """Run an operation on the subscriptions, and retry it when `Call.request` would retry a
        request."""
        from . import subscriptions

        call = Call(self._sessions, timeout, cancel, None, idle_timeout)
        refusals: list[type] = []
        call.session.check()
        check_token(cancel)
        while True:
            try:
                return do(subscriptions.of(call.session), call.deadline)
            except NOT_RUN as refusal:
                call.renew(refusal, refusals)

    def subscribe(
        self,
        uri: str,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> None:
        """Call ``on_resource_updated`` from now on when this resource, or one below it, changes.

        Exceptions are those of `request`, and:

        Args:
            uri: The URI of the resource, sent unchanged. If an equivalent URI (RFC 3986, 6.2.2) is
                already subscribed to, nothing changes.

        Raises:
            CapabilityNotSupported: The server does not support subscriptions, or not this one.
            TypeError: ``uri`` is not a str.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
        """
        self._change(uri, True, timeout, idle_timeout, cancel)

    def unsubscribe(
        self,
        uri: str,
        *,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> None:
        """Cancel a subscription. Arguments and exceptions are those of `subscribe`."""
        self._change(uri, False, timeout, idle_timeout, cancel)

    def _change(
        self, uri: str, wanted: bool, timeout: Seconds, idle_timeout: Seconds, cancel: Cancel
    ) -> None:
        require_type(uri, str, URI)

        def send(method: str, params: Params) -> dict[str, Json]:
            self._subscriptions(
                lambda of, deadline: of.change(str(params["uri"]), wanted, deadline, cancel),
                timeout,
                idle_timeout,
                cancel,
            )
            return {}

        method = "resources/subscribe" if wanted else "resources/unsubscribe"
        middleware = self._host.middleware
        run = send if middleware is None else partial(middleware.run, send=send)
        run(method, {"uri": uri})

    def listen(
        self,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: Sequence[str] = (),
        *,
        filters: Optional[Mapping[str, Json]] = None,
        timeout: Seconds = DEFAULT,
        idle_timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Changes:
        """Open a stream of changes: ``for change in client.listen(tools_list_changed=True): ...``.

        Args:
            tools_list_changed: Whether to report changes of the list of tools.
            prompts_list_changed: Whether to report changes of the list of prompts.
            resources_list_changed: Whether to report changes of the list of resources.
            resource_subscriptions: URIs of resources. Changes of resources below them are reported
                too.
            filters: Members that extensions add to the filter, by wire name; None means none. The
                resulting notifications are passed to the `Extension` objects. Not sent in revisions
                with a handshake, in which these notifications arrive without a request.
            timeout: Seconds for the server's acknowledgement; None means no limit. The stream
                itself may then be silent forever.
            cancel: A token that cancels the wait for the acknowledgement, or None.

        Returns:
            An iterator of `Change` (``kind``, ``uri``) and a context manager. ``honored`` is the
            filter that the server agreed to.

        Raises:
            RpcError: The server refused; `MethodNotFound` if it cannot do this at all.
            ConnectionLost: The server ended the stream at once, or the connection has ended.
            TypeError: ``resource_subscriptions`` is not a sequence of str.
            McpError: As `request`.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
        """
        if isinstance(resource_subscriptions, str):
            raise TypeError(
                "resource_subscriptions must be a sequence of URIs: did you mean "
                f"[{resource_subscriptions!r}]?"
            )
        from .subscriptions import Filter

        uris = tuple(require_type(uri, str, URI) for uri in resource_subscriptions)
        wanted = Filter(
            tools_list_changed, prompts_list_changed, resources_list_changed, uris, filters or {}
        )
        return self._subscriptions(
            lambda of, deadline: of.listen(wanted, deadline, cancel), timeout, idle_timeout, cancel
        )

    def submit(self, function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> Future[T]:
        """Run a method of this client on another thread.

        Args:
            function: A method of this client or of its group, or another function that takes
                ``cancel=``. The other arguments are passed to the function. If you pass a token, it
                cancels the call, too; cancelling the future does not cancel your token.

        Returns:
            A `concurrent.futures.Future`. Its ``cancel()`` also cancels a running call on the
            server.

        Raises:
            TypeError: ``function`` is not callable.
        """
        return submit(self._host.pool, function, args, keywords)

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """End the connection. Idempotent and thread-safe.

        Pending calls raise `ConnectionLost`. The server is notified that they are cancelled, if it
        accepts the notification at once. A server process receives the end of its stdin and has 2 s
        to exit. Then it receives SIGTERM, and 2 s later SIGKILL, together with all processes that
        it started. A server with a URL has 2 s to accept the end of the session. Blocks for about 4
        s at most.
        """
        session = self._sessions.newest
        if self._send_shutdown and session.cause is None and session.era.revision.handshake:
            try:
                session.request(PARAPHRASE_SHUTDOWN, {}, Deadline(SHUTDOWN_SECONDS))
            except McpError as error:  # closed even if the server does not know this method
                log.debug("%s: shutdown: %s", session.name, error)
        self._sessions.close()
        self._host.close()

    if not TYPE_CHECKING:

        def __aenter__(self, *_: object) -> None:
            self.close()
            raise TypeError("write with, not async with: all methods of a Client block")

        __aexit__ = __aenter__

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        sessions: Optional[Sessions] = getattr(self, "_sessions", None)
        if sessions is None or sessions.closed or sys.is_finalizing():
            return
        self._host.close()
        if not sessions.newest.wait_until_ended(0):
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        sessions.abandon()  # also stops an attempt to start the next session

    def __repr__(self) -> str:
        return f"<Client {self.revision} on {self._sessions.newest!r}>"


def submit(pool: Pool, function: Callable[..., T], args: Any, keywords: Any) -> Future[T]:
    """Call a function that takes ``cancel=`` on a thread of a pool; see `Client.submit`."""
    if not callable(function):
        raise TypeError(
            "submit takes a method and its arguments, as in "
            f'client.submit(client.call_tool, "name", {{...}}), not {repr_of(function)}'
        )
    given: Any = keywords.get("cancel")
    token = CancelToken()

    def call() -> T:
        with linked_token(given, token):
            keywords["cancel"] = token
            return function(*args, **keywords)

    return spawn(pool, call, token)


def spawn(pool: Pool, work: Callable[[], Any], token: CancelToken) -> CallFuture:
    """Run a function on a new thread, in a copy of this thread's context and with its trace
    context."""
    future = CallFuture(token)
    trace = current_trace_context()
    context = copy_context()

    def run() -> None:
        this_thread.trace_context = trace
        context.run(future.run, work)
        this_thread.trace_context = {}

    pool.spawn(run)
    return future


@contextmanager
def linked_token(cancel: Cancel, token: Optional[CancelToken] = None) -> Iterator[CancelToken]:
    """Provide a token that is cancelled with the caller's token, and when the block ends.

    Args:
        cancel: The caller's token, or None.
        token: The token to provide; if None, a new one is created.
    """
    token = token or CancelToken()
    forget: Callable[[], object] = int
    if cancel is not None:
        forget = cancel.on_cancel(lambda: token.cancel(cancel.reason))
    try:
        yield token
    finally:
        forget()
        token.cancel("the caller gave up")  # also after Ctrl-C


def all_or_first(outcomes: list[Any], return_exceptions: bool) -> list[Any]:
    """Return the outcomes of several calls, or raise the first exception among them."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not (
            return_exceptions and isinstance(outcome, Exception)
        ):
            raise outcome
    return outcomes


def _check_params(method: Any, params: Any) -> Any:
    """Return the params of a message that a program wrote by hand. Raise TypeError if it is
    invalid."""
    require_type(method, str, "a method must be a str")
    if params is None:
        return {}
    return require_type(params, Mapping, f"the params of {method} must be a dict or None")


def _mapping(name: str, arguments: Any) -> Any:
    """Return the arguments of `name`. Raise TypeError if they are not a mapping."""
    rule = f'the arguments of {name!r} must be a dict by parameter name, such as {{"city": "Oslo"}}'
    return require_type(arguments, Mapping, rule)


def _texts(of: str, arguments: Mapping[str, Scalar]) -> dict[str, str]:
    """Return arguments as the strings that are sent."""
    for name, value in _mapping(of, arguments).items():
        if not isinstance(value, (str, int, float)):
            hint = "write json.dumps(...)" if isinstance(value, (dict, list)) else json_hint(value)
            raise TypeError(
                f"the argument {name!r} of {of!r} must be a str, a number or a bool, not "
                f"{repr_of(value)}: {hint}"
            )
    return {
        name: value if isinstance(value, str) else to_json(value)
        for name, value in arguments.items()
    }


_open_clients: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def close_at_exit() -> None:
    """Close all open clients, except those with a pending call: its thread would print the loss as
    a traceback."""
    for client in list(_open_clients):
        session = client._sessions.newest
        # The background stream of changes is a pending request for which no thread waits.
        listens = session.subscriptions is not None and session.subscriptions.background is not None
        if len(session.calls) <= listens:
            client.close()
