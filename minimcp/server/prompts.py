"""Prompts: messages that a user may choose to begin with.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, one_line
from ..protocol.messages import Json, Request
from ..protocol.versions import Revision
from ..schema.mismatch import Mismatch, described
from ..types import EmbeddedResource, GetPromptResult, Icon, Prompt, PromptArgument, PromptMessage
from .completion import Given, TextHandler
from .context import Context
from .input_rounds import serve_rounds
from .registered import Pages, Registered, ServerConfig, Table, check_options, name_of, only
from .resources import with_type
from .tools import CONTENT, fit


@dataclass(eq=False, repr=False)
class RegisteredPrompt(Registered):
    """One prompt of a server."""

    handler: TextHandler

    def listed(self, revision: Revision) -> dict[str, Json]:
        """The prompt as a revision lists it."""
        wire = only(self.shown.to_wire(), revision.prompt_members)
        wire["arguments"] = [only(each, revision.argument_members) for each in wire["arguments"]]
        return wire

    def handle(self, exchange: IncomingRequest) -> Any:
        return serve_rounds(self.serve, exchange)

    def serve(self, exchange: IncomingRequest) -> dict[str, Json]:
        """Call the function, which may raise anything, for a request.

        Raises:
            InvalidParams: An argument is missing, unknown or does not fit.
            CapabilityNotSupported: The client lacks a capability that the function needs.
            TypeError, ValueError: The function returned what is no message.
        """
        result = self.run(Context(exchange), partial(self._call, exchange))
        if not isinstance(result, GetPromptResult):
            items = result if isinstance(result, (list, tuple)) else [result]
            messages = [item if isinstance(item, PromptMessage) else PromptMessage("user", item) for item in items]
            result = GetPromptResult(messages, self.shown.description)
        revision = exchange.peer.revision
        wire: dict[str, Json] = result.to_wire()
        wire["messages"] = [_sent(message, revision) for message in result.messages]
        closed: dict[str, Json] = exchange.server.closed(wire, revision)
        return closed

    def _call(self, exchange: IncomingRequest) -> Any:
        texts = exchange.request.params.get("arguments") or {}
        try:
            for name, value in texts.items():
                if not isinstance(value, str):
                    raise Mismatch("a string", value).inside(name)
            arguments = self.handler.arguments(texts)
        except Mismatch as error:
            raise InvalidParams(f"{one_line(self.shown.name)}: {error}") from None
        return self.handler.call(Context(exchange), exchange.peer, arguments)


def _sent(message: PromptMessage, revision: Revision) -> dict[str, Json]:
    """A message as a revision knows it; what is embedded says its MIME type."""
    wire: dict[str, Json] = message.to_wire()
    block = message.content
    if isinstance(block, EmbeddedResource) and block.mime_type is None:
        block = copy(block)
        block.resource = with_type(block.resource)
    wire["content"] = fit(block, revision)
    return wire


class Prompts:
    """All prompts of one server. Thread-safe.

    Args:
        config: Of the server.
        changed: Told that there are more or fewer of them now, and whether any argument of a new one completes.
    """

    def __init__(self, config: ServerConfig, changed: Callable[[bool], None]) -> None:
        self._config, self._changed = config, changed
        self.table: Table[RegisteredPrompt] = Table("prompt")
        self.pages = Pages("prompts", self.table)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: Optional[str] = None,
        title: Optional[str] = None,
        description: Optional[str] = None,
        icons: Optional[Sequence[Icon]] = None,
        meta: Optional[Mapping[str, Json]] = None,
        complete: Optional[Mapping[str, Given]] = None,
        requires: Union[str, Sequence[str]] = (),
        replace: bool = False,
    ) -> None:
        """Register a function as a prompt. The arguments are those of `Server.prompt`.

        Raises:
            TypeError: The function cannot be one; the message says what to write instead.
            ValueError: The name is taken, or ``complete`` names no argument.
        """
        name = name_of(function, name, "prompt")
        owner = f"prompt {name!r}"
        check_options(locals(), f"{owner}: ")
        content_types = (GetPromptResult, PromptMessage, *CONTENT)
        handler = TextHandler(function, owner, content_types=content_types, requires=requires, complete=complete)
        arguments = [
            PromptArgument(each.name, description=each.description or None, required=each.required)
            for each in handler.signature.parameters
        ]
        shown = Prompt(
            name,
            title=title,
            description=description or handler.signature.description or None,
            arguments=arguments,
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        self.table.add(name, RegisteredPrompt(self._config, function, shown, None, handler), replace=replace)
        self.table.advise(name, shown.description)
        self._changed(any(handler.completers.values()))

    def remove(self, name: str) -> None:
        """Take a prompt away.

        Raises:
            KeyError: There is none of this name.
        """
        self.table.remove(name)
        self._changed(False)

    def route_of_get(self, request: Request) -> Route:
        """Where a `prompts/get` goes.

        Raises:
            InvalidParams: It names no prompt of this server, or its arguments are no object.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments")
        prompt = self.table.get(name)
        if prompt is None:
            raise InvalidParams(self.table.unknown(name) if isinstance(name, str) else "name is a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams(f"arguments is an object, not {described(arguments)}")
        return prompt.route
