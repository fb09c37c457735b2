"""Prompts: messages that a user may choose to begin with.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Mapping

from ..engine.requests import IncomingRequest
from ..errors import InvalidParams, one_line
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..schema.mismatch import Mismatch, shown
from ..types import EmbeddedResource, GetPromptResult, Prompt, PromptArgument, PromptMessage
from .completion import TextHandler
from .registered import ServerConfig, only
from .resources import with_type
from .tools import CONTENT, fit


class RegisteredPrompt(TextHandler):
    """One prompt of a server. Arguments and errors as `TextHandler`."""

    kind, returned_as_is = "prompt", (GetPromptResult, PromptMessage, *CONTENT)

    def __init__(self, config: ServerConfig, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        super().__init__(config, function, options)
        arguments = [
            PromptArgument(each.name, description=each.description or None, required=each.required)
            for each in self.signature.parameters
        ]
        self.show(Prompt, arguments=arguments)

    def call(self, incoming: IncomingRequest) -> Any:
        """Call the function for a request.

        Raises:
            InvalidParams: An argument is missing, unknown or does not fit.
        """
        texts = incoming.request.params.get("arguments") or {}
        try:
            for name, value in texts.items():
                if not isinstance(value, str):
                    raise Mismatch("a string", value).inside(name)
            arguments = self.arguments(texts)
        except Mismatch as error:
            raise InvalidParams(f"{one_line(self.key)}: {error}") from None
        return self.invoke(incoming, arguments)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        revision = incoming.peer.revision
        if not isinstance(value, GetPromptResult):
            items = value if isinstance(value, (list, tuple)) else [value]
            for item in items:
                if not isinstance(item, (str, *self.returned_as_is)):
                    way = "return a str, a Message(role, content), or a list of them"
                    raise TypeError(f"{self.key} returned {shown(item)}: {way}")
            messages = [item if isinstance(item, PromptMessage) else PromptMessage("user", item) for item in items]
            value = GetPromptResult(messages, self.shown.description)
        wire: dict[str, Json] = value.to_wire()
        for message, sent in zip(value.messages, wire["messages"]):
            block = message.content
            if isinstance(block, EmbeddedResource) and block.mime_type is None:  # what is embedded says its type
                block = copy(block)
                block.resource = with_type(block.resource)
            sent["content"] = fit(block, revision)
        return incoming.server.closed(wire, revision)

    def listed(self, revision: Revision) -> dict[str, Json]:
        """As it stands in a list of a revision."""
        wire = only(self.shown.to_wire(), revision.prompt_members)
        wire["arguments"] = [only(each, revision.argument_members) for each in wire["arguments"]]
        return wire

