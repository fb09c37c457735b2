"""`ToolCalls`: listing and calling the tools of a server.

Not here: how a call is sent, waited for and given up (see `calls`).
https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, NoReturn, Optional, Sequence, TypeVar, Union

from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import HeaderMismatch, McpError, ProtocolViolation, ToolError, one_line
from ..protocol.messages import Json
from ..types import CallToolResult, Tool
from .arguments import DEFAULT, shown
from .cacheable import CacheableCalls
from .calls import OnProgress, Result

log = logging.getLogger("minimcp.client")

T = TypeVar("T")

LOOK_UP_SECONDS = 5.0
"""What listing the tools for the schema of one may take: a server that does not answer must not hold up a call."""


class ToolCalls:
    """The requests about tools. Thread-safe."""

    def _begin(
        self, timeout: Optional[float], cancel: Optional[CancelToken], capability: Optional[str] = None
    ) -> tuple[CacheableCalls, Deadline]:
        """Where a call goes, and when it is given up.

        Args:
            timeout: As every method takes it.
            cancel: As every method takes it.
            capability: That the server must declare; None asks for none.

        Raises:
            ConnectionLost: The connection has ended.
            CapabilityNotSupported: The server does not declare this.
            McpError: As `Links.living`.
        """
        raise NotImplementedError

    def list_tools(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None, cache: str = "use"
    ) -> list[Tool]:
        """All tools of the server, page after page. Arguments and errors as `Client.request`.

        Raises:
            CapabilityNotSupported: The server declares no tools.
            ProtocolViolation: A page makes no sense, a cursor comes twice, or there are over 1,000 pages.
        """
        calls, deadline = self._begin(timeout, cancel, "tools")
        return self._listed(calls, deadline, cancel, cache)

    def _listed(
        self, calls: CacheableCalls, deadline: Deadline, cancel: Optional[CancelToken], cache: str = "use"
    ) -> list[Tool]:
        tools = calls.pages("tools/list", "tools", Tool.from_wire, deadline, cancel, cache)
        if calls.mirror is not None and not calls.era.revision.handshake:
            tools = calls.mirror.admitted(tools)
        calls.outputs.remember(tools)
        return tools

    def call_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Json]] = None,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        **misplaced: NoReturn,
    ) -> CallToolResult:
        """Call a tool. Arguments and errors as `Client.request`, and:

        Args:
            name: Of the tool.
            arguments: By parameter; None sends none.
            raise_on_error: False returns a result that says that the tool failed, instead of raising.

        Raises:
            ToolError: The tool failed; ``result`` is what it said.
            InvalidParams: The server has no such tool, or does not take these arguments.
            CapabilityNotSupported: The server declares no tools.

        Where a revision wraps values, the tools are listed once if they have not been: only the schema of a tool tells
        whether its ``{"result": ...}`` is a wrapping, which ``value`` is without.
        """
        if misplaced:
            from ..schema.hints import refuse_as_arguments

            refuse_as_arguments(name, misplaced, ToolCalls.call_tool)
        calls, deadline = self._begin(timeout, cancel, "tools")
        params = _call_params(name, arguments)
        try:
            result = calls.request("tools/call", params, deadline, cancel, on_progress)
        except ToolError as error:  # an old server's own code for it
            if raise_on_error or error.result is None:
                raise
            return error.result  # type: ignore[no-any-return]
        except HeaderMismatch:  # its schema has changed since it was listed, or it never was
            if calls.mirror is None:
                raise
            self._listed(calls, deadline, cancel, "refresh")
            result = calls.request("tools/call", params, deadline, cancel, on_progress)
        return self._tool_result(calls, name, result, deadline, cancel, raise_on_error=raise_on_error)

    def call_tools(
        self,
        calls: Sequence[tuple[str, Optional[Mapping[str, Json]]]],
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        return_exceptions: bool = False,
    ) -> list[Any]:
        """Send many calls at once, from this thread, and return their results in the order of the calls.

        Args:
            calls: Pairs of a tool's name and its arguments.
            timeout: Seconds for all of them together; None waits for ever.
            cancel: Ends all of them.
            return_exceptions: True puts an exception in the place of its result; False raises the first one in order,
                when all calls have ended.

        Raises:
            McpError: As `call_tool`, unless ``return_exceptions``.
        """
        link, deadline = self._begin(timeout, cancel, "tools")
        params = [_call_params(*_pair(call)) for call in calls]
        results = link.at_once("tools/call", params, deadline, cancel)
        pairs = zip(params, results)
        outcomes = [self._outcome(link, each["name"], result, deadline, cancel) for each, result in pairs]
        if not return_exceptions:
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
        return outcomes

    def _outcome(
        self,
        calls: CacheableCalls,
        name: str,
        result: Union[Result, Exception],
        deadline: Deadline,
        cancel: Optional[CancelToken],
    ) -> Union[CallToolResult, Exception]:
        if isinstance(result, Exception):
            return result
        try:
            return self._tool_result(calls, name, result, deadline, cancel)
        except (ToolError, ProtocolViolation) as error:
            return error

    def _tool_result(
        self,
        calls: CacheableCalls,
        name: str,
        result: Result,
        deadline: Deadline,
        cancel: Optional[CancelToken],
        *,
        raise_on_error: bool = True,
    ) -> CallToolResult:
        typed = typed_result("tools/call", CallToolResult.from_wire, result)
        if calls.era.revision.structured == "object" and calls.outputs.needs_list(name, typed):
            self._look_up(calls, name, deadline.within(LOOK_UP_SECONDS), cancel)
        calls.outputs.fill_in(name, typed)
        if typed.is_error and raise_on_error:
            failed = ToolError(typed.text or f"{name} failed", content=typed.content)
            failed.result = typed
            raise failed
        return typed

    def _look_up(
        self, calls: CacheableCalls, name: str, deadline: Deadline, cancel: Optional[CancelToken]
    ) -> None:
        """List the tools for the schema of one whose call has been made: the result is kept whatever comes of this."""
        try:
            self._listed(calls, deadline, cancel)
        except McpError as error:
            log.warning("what %s returned may be wrapped, and its schema cannot be had: %s", one_line(name), error)
        calls.outputs.give_up(name)


def _call_params(name: str, arguments: Optional[Mapping[str, Json]]) -> dict[str, Json]:
    text("a tool's name", name)
    return {"name": name} if arguments is None else {"name": name, "arguments": dict(mapping(name, arguments))}


def _pair(call: Any) -> Any:
    if isinstance(call, (tuple, list)) and len(call) == 2:
        return call
    raise TypeError(
        "call_tools takes pairs of a tool's name and its arguments, "
        f'such as [("forecast", {{"city": "Oslo"}})], not {repr(call):.60}'
    )


def text(what: str, value: Any) -> str:
    """The value, if it is text.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {shown(value)}")
    return value


def mapping(name: str, arguments: Any) -> Any:
    """The arguments of something, if they are a mapping.

    Raises:
        TypeError: They are none.
    """
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        what = f'the arguments of {name!r} are a dict by parameter name, such as {{"city": "Oslo"}}'
        raise TypeError(f"{what}, not {shown(arguments)}")
    return arguments


def typed_result(method: str, read: Callable[[Any], T], result: Mapping[str, Json]) -> T:
    """A result as an object.

    Raises:
        ProtocolViolation: It makes no sense.
    """
    try:
        return read(result)
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None
