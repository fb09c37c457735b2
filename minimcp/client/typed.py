"""`TypedCalls`: what a client may ask of a server, each method typed and blocking.

Not here: how a call is sent, waited for and given up (see `calls`), and the connection's own life (see `client`).
https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

from .. import types
from ..engine.requests import CancelToken
from ..protocol.messages import Json, to_json
from .arguments import DEFAULT, shown
from .calls import OnProgress
from .tool_calls import ToolCalls, mapping, text, typed_result

T = TypeVar("T")

Scalar = Union[str, float, bool]
"""What stands for an argument that travels as text."""


class TypedCalls(ToolCalls):
    """The specification's requests to a server. Thread-safe.

    Every method takes ``timeout=`` (seconds the server may take in all; None waits for ever) and ``cancel=`` (a token
    that ends the call from another thread), and raises what `Client.request` raises. Lists and reads also take
    ``cache=``: "use" takes what is kept from before as long as the server said that it stays true, "refresh" asks the
    server and keeps its answer, "bypass" asks and keeps nothing.
    """

    # ------------------------------------------------------------ resources

    def list_resources(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None, cache: str = "use"
    ) -> list[types.Resource]:
        """All resources that the server lists, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        return self._all("resources", "resources/list", "resources", types.Resource.from_wire, timeout, cancel, cache)

    def list_resource_templates(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None, cache: str = "use"
    ) -> list[types.ResourceTemplate]:
        """All templates of resources, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        method, read = "resources/templates/list", types.ResourceTemplate.from_wire
        return self._all("resources", method, "resourceTemplates", read, timeout, cancel, cache)

    def read_resource(
        self,
        uri: str,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
        cache: str = "use",
    ) -> types.ReadResourceResult:
        """Read a resource. Arguments and errors as `Client.request`, and:

        Args:
            uri: As the server lists it, or made from a template; it is sent character for character.

        Raises:
            ResourceNotFound: The server has no such resource.
            ResourceAccessDenied: It has, and this client may not read it.
            CapabilityNotSupported: The server declares no resources.
        """
        params = {"uri": text("a URI", uri)}
        calls, deadline = self._begin(timeout, cancel, "resources")
        result = calls.fetch("resources/read", params, deadline, cancel, on_progress, cache=cache)
        return typed_result("resources/read", types.ReadResourceResult.from_wire, result)

    # ------------------------------------------------------------ prompts

    def list_prompts(
        self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None, cache: str = "use"
    ) -> list[types.Prompt]:
        """All prompts of the server, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no prompts.
        """
        return self._all("prompts", "prompts/list", "prompts", types.Prompt.from_wire, timeout, cancel, cache)

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, Scalar]] = None,
        *,
        timeout: Optional[float] = DEFAULT,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> types.GetPromptResult:
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
        params: dict[str, Json] = {"name": text("a prompt's name", name)}
        if arguments is not None:
            params["arguments"] = _texts(name, arguments)
        calls, deadline = self._begin(timeout, cancel, "prompts")
        result = calls.request("prompts/get", params, deadline, cancel, on_progress)
        return typed_result("prompts/get", types.GetPromptResult.from_wire, result)

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
    ) -> types.Completion:
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
            "argument": {"name": text("an argument's name", argument), "value": text("a value", value)},
        }
        chosen = None if arguments is None else _texts(prompt or template or "", arguments)
        calls, deadline = self._begin(timeout, cancel)
        revision = calls.era.revision
        if chosen is not None and revision.completion_context:
            params["context"] = {"arguments": chosen}
        if revision.completions_capability:
            calls.need("completions")
        result = calls.request("completion/complete", params, deadline, cancel)
        return typed_result("completion/complete", types.Completion.from_wire, result)

    # ------------------------------------------------------------ the rest

    def _all(
        self,
        capability: str,
        method: str,
        member: str,
        read: Callable[[Any], T],
        timeout: Optional[float],
        cancel: Optional[CancelToken],
        cache: str,
    ) -> list[T]:
        calls, deadline = self._begin(timeout, cancel, capability)
        return calls.pages(method, member, read, deadline, cancel, cache)

    def ping(self, *, timeout: Optional[float] = DEFAULT, cancel: Optional[CancelToken] = None) -> float:
        """Ask whether the server is there; how many seconds the answer took. Errors as `Client.request`."""
        calls, deadline = self._begin(timeout, cancel)
        began = time.monotonic()
        calls.request("ping" if calls.era.revision.handshake else "server/discover", {}, deadline, cancel)
        return time.monotonic() - began


def _texts(of: str, arguments: Mapping[str, Scalar]) -> dict[str, str]:
    """Arguments as the strings that they are on the wire."""
    for name, value in mapping(of, arguments).items():
        if not isinstance(value, (str, int, float)):
            from ..schema.hints import json_hint

            what = f"the argument {name!r} of {of!r} is a str, a number or a bool, not {shown(value)}"
            raise TypeError(f"{what}: {'write json.dumps(...)' if isinstance(value, (dict, list)) else json_hint(value)}")
    return {name: value if isinstance(value, str) else to_json(value) for name, value in arguments.items()}


def _reference(prompt: Optional[str], template: Optional[str]) -> dict[str, Json]:
    if (prompt is None) == (template is None):
        raise TypeError("say which: prompt=, or template=")
    if prompt is not None:
        return {"type": "ref/prompt", "name": text("prompt", prompt)}
    return {"type": "ref/resource", "uri": text("template", template)}
