"""`TypedCalls`: what a client may ask of a server, each method typed and blocking. Floor 6.

Not here: how a call is sent, waited for and given up (see `calls`), and the connection's own life (see `client`).
https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, Union

from .calls import DEFAULT, Calls, OnProgress, Result, shown
from .cancel import CancelToken
from .deadline import Deadline
from .eras import LOG_LEVEL_KEY, LOG_LEVELS, HandshakeEra
from .errors import McpError, ProtocolViolation, ToolError
from .jsonrpc import Json, to_json
from .log import Log, one_line
from .negotiation import Era
from .outputs import OutputChecks
from .types import (
    CallToolResult,
    Completion,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

T = TypeVar("T")

Scalar = Union[str, float, bool]
"""What stands for an argument that travels as text."""

log = Log("client")

LOOK_UP_SECONDS = 5.0
"""What listing the tools for the schema of one may take: a server that does not answer must not hold up a call."""


class TypedCalls:
    """The specification's requests to a server. Thread-safe.

    Every method takes ``timeout=`` (seconds the server may take in all; None waits for ever) and ``cancel=`` (a token
    that ends the call from another thread), and raises what `Client.request` raises.
    """

    _calls: Calls
    _era: Era
    _outputs: OutputChecks

    # ------------------------------------------------------------ tools

    def list_tools(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> list[Tool]:
        """All tools of the server, page after page. Arguments and errors as `Client.request`.

        Raises:
            CapabilityNotSupported: The server declares no tools.
            ProtocolViolation: A page makes no sense, a cursor comes twice, or there are over 1,000 pages.
        """
        self._calls.need("tools")
        return self._listed(self._calls.deadline(timeout), cancel)

    def _listed(self, deadline: Deadline, cancel: Optional[CancelToken]) -> list[Tool]:
        tools = self._calls.pages("tools/list", "tools", Tool.from_wire, deadline, cancel)
        self._outputs.remember(tools)
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
        self._calls.need("tools")
        deadline, params = self._calls.deadline(timeout), _call_params(name, arguments)
        try:
            result = self._calls.request("tools/call", params, deadline, cancel, on_progress)
        except ToolError as error:  # an old server's own code for it
            if raise_on_error or error.result is None:
                raise
            return error.result  # type: ignore[no-any-return]
        return self._tool_result(name, result, deadline, cancel, raise_on_error=raise_on_error)

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
        self._calls.need("tools")
        deadline, params = self._calls.deadline(timeout), [_call_params(*_pair(call)) for call in calls]
        results = self._calls.at_once("tools/call", params, deadline, cancel)
        outcomes = [self._outcome(each["name"], result, deadline, cancel) for each, result in zip(params, results)]
        if not return_exceptions:
            for outcome in outcomes:
                if isinstance(outcome, Exception):
                    raise outcome
        return outcomes

    def _outcome(
        self, name: str, result: Union[Result, Exception], deadline: Deadline, cancel: Optional[CancelToken]
    ) -> Union[CallToolResult, Exception]:
        if isinstance(result, Exception):
            return result
        try:
            return self._tool_result(name, result, deadline, cancel)
        except (ToolError, ProtocolViolation) as error:
            return error

    def _tool_result(
        self,
        name: str,
        result: Result,
        deadline: Deadline,
        cancel: Optional[CancelToken],
        *,
        raise_on_error: bool = True,
    ) -> CallToolResult:
        typed = _typed("tools/call", CallToolResult.from_wire, result)
        if self._era.revision.structured == "object" and self._outputs.needs_list(name, typed):
            self._look_up(name, deadline.within(LOOK_UP_SECONDS), cancel)
        self._outputs.fill_in(name, typed)
        if typed.is_error and raise_on_error:
            failed = ToolError(typed.text or f"{name} failed", content=typed.content)
            failed.result = typed
            raise failed
        return typed

    def _look_up(self, name: str, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        """List the tools for the schema of one whose call has been made: the result is kept whatever comes of this."""
        try:
            self._listed(deadline, cancel)
        except McpError as error:
            log.warning("what %s returned may be wrapped, and its schema cannot be had: %s", one_line(name), error)
        self._outputs.give_up(name)

    # ------------------------------------------------------------ resources

    def list_resources(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> list[Resource]:
        """All resources that the server lists, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        return self._all("resources", "resources/list", "resources", Resource.from_wire, timeout, cancel)

    def list_resource_templates(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> list[ResourceTemplate]:
        """All templates of resources, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        method, read = "resources/templates/list", ResourceTemplate.from_wire
        return self._all("resources", method, "resourceTemplates", read, timeout, cancel)

    def read_resource(
        self,
        uri: str,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> ReadResourceResult:
        """Read a resource. Arguments and errors as `Client.request`, and:

        Args:
            uri: As the server lists it, or made from a template; it is sent character for character.

        Raises:
            ResourceNotFound: The server has no such resource.
            ResourceAccessDenied: It has, and this client may not read it.
            CapabilityNotSupported: The server declares no resources.
        """
        params = {"uri": _text("a URI", uri)}
        self._calls.need("resources")
        result = self._calls.request("resources/read", params, self._calls.deadline(timeout), cancel, on_progress)
        return _typed("resources/read", ReadResourceResult.from_wire, result)

    # ------------------------------------------------------------ prompts

    def list_prompts(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None
    ) -> list[Prompt]:
        """All prompts of the server, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no prompts.
        """
        return self._all("prompts", "prompts/list", "prompts", Prompt.from_wire, timeout, cancel)

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, Scalar]] = None,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> GetPromptResult:
        """Get a prompt's messages. Arguments and errors as `Client.request`, and:

        Args:
            name: Of the prompt.
            arguments: By name. On the wire they are strings: numbers and bools are sent as JSON writes them; None
                sends none.

        Raises:
            InvalidParams: The server has no such prompt, or does not take these arguments.
            CapabilityNotSupported: The server declares no prompts.
            TypeError: An argument is neither text, number nor bool.
        """
        params: dict[str, Json] = {"name": _text("a prompt's name", name)}
        if arguments is not None:
            params["arguments"] = _texts(name, arguments)
        self._calls.need("prompts")
        result = self._calls.request("prompts/get", params, self._calls.deadline(timeout), cancel, on_progress)
        return _typed("prompts/get", GetPromptResult.from_wire, result)

    # ------------------------------------------------------------ completion

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: Optional[str] = None,
        template: Optional[str] = None,
        arguments: Optional[Mapping[str, Scalar]] = None,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
    ) -> Completion:
        """Suggestions for an argument of a prompt, or for a variable of a template. Errors as `Client.request`, and:

        Args:
            argument: Its name.
            value: What is typed so far.
            prompt: The name of the prompt.
            template: The template, as the server lists it. One of the two.
            arguments: Those that are chosen already; a server that does not know of them is told nothing.

        Raises:
            TypeError: Neither a prompt nor a template, or both; or an argument is neither text, number nor bool.
            InvalidParams: The server has no such prompt, template or argument.
            CapabilityNotSupported: The server completes nothing.
        """
        params: dict[str, Json] = {
            "ref": _reference(prompt, template),
            "argument": {"name": _text("an argument's name", argument), "value": _text("a value", value)},
        }
        chosen = None if arguments is None else _texts(prompt or template or "", arguments)
        revision = self._era.revision
        if chosen is not None and revision.completion_context:
            params["context"] = {"arguments": chosen}
        if revision.completions_capability:
            self._calls.need("completions")
        result = self._calls.request("completion/complete", params, self._calls.deadline(timeout), cancel)
        return _typed("completion/complete", Completion.from_wire, result)

    # ------------------------------------------------------------ the rest

    def _all(
        self,
        capability: str,
        method: str,
        member: str,
        read: Callable[[Any], T],
        timeout: Optional[float],
        cancel: Optional[CancelToken],
    ) -> list[T]:
        self._calls.need(capability)
        return self._calls.pages(method, member, read, self._calls.deadline(timeout), cancel)

    def ping(self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None) -> float:
        """Ask whether the server is there; how many seconds the answer took. Errors as `Client.request`."""
        began = time.monotonic()
        method = "ping" if self._era.revision.handshake else "server/discover"
        self._calls.request(method, {}, self._calls.deadline(timeout), cancel)
        return time.monotonic() - began

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
        self._calls.need("logging")
        if isinstance(self._era, HandshakeEra):
            self._calls.request("logging/setLevel", {"level": level}, self._calls.deadline(timeout), cancel)
        else:
            self._era.envelope = {**self._era.envelope, LOG_LEVEL_KEY: level}


def _call_params(name: str, arguments: Optional[Mapping[str, Json]]) -> dict[str, Json]:
    _text("a tool's name", name)
    return {"name": name} if arguments is None else {"name": name, "arguments": dict(_mapping(name, arguments))}


def _mapping(name: str, arguments: Any) -> Any:
    if type(arguments) is not dict and not isinstance(arguments, Mapping):
        what = f'the arguments of {name!r} are a dict by parameter name, such as {{"city": "Oslo"}}'
        raise TypeError(f"{what}, not {shown(arguments)}")
    return arguments


def _pair(call: Any) -> Any:
    if isinstance(call, (tuple, list)) and len(call) == 2:
        return call
    raise TypeError(
        "call_tools takes pairs of a tool's name and its arguments, "
        f'such as [("forecast", {{"city": "Oslo"}})], not {repr(call):.60}'
    )


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is a str, not {shown(value)}")
    return value


def _texts(of: str, arguments: Mapping[str, Scalar]) -> dict[str, str]:
    """Arguments as the strings that they are on the wire."""
    for name, value in _mapping(of, arguments).items():
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"the argument {name!r} of {of!r} is a str, a number or a bool, not {shown(value)}")
    return {name: value if isinstance(value, str) else to_json(value) for name, value in arguments.items()}


def _reference(prompt: Optional[str], template: Optional[str]) -> dict[str, Json]:
    if (prompt is None) == (template is None):
        raise TypeError("say which: prompt=, or template=")
    if prompt is not None:
        return {"type": "ref/prompt", "name": _text("prompt", prompt)}
    return {"type": "ref/resource", "uri": _text("template", template)}


def _typed(method: str, read: Callable[[Any], T], result: Mapping[str, Json]) -> T:
    try:
        return read(result)
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None
