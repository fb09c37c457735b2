"""Prompts: messages that a user may choose to start a conversation with.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ..engine.incoming import IncomingRequest, Route
from ..errors import InvalidParams
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..schema.mismatch import Mismatch, shown
from ..server.feature import Destination, Feature
from ..server.options import source_location
from ..server.registered import ServerConfig, Table, keep_members
from ..server.tools import CONTENT, fit
from ..text import one_line
from ..types.content import EmbeddedResource, with_type
from ..types.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage
from .completion import COMPLETE, TextHandler

if TYPE_CHECKING:
    from ..server.registry import Registry


RETURN_ADVICE = "return a str, a Message(role, content), or a list of them"


class RegisteredPrompt(TextHandler):
    """One prompt of a server. See `TextHandler` for arguments and exceptions."""

    kind = "prompt"
    returned_as_is = (GetPromptResult, PromptMessage, *CONTENT)
    returned_alone = (GetPromptResult,)

    def __init__(
        self, config: ServerConfig, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> None:
        super().__init__(config, function, options)
        kind = self.signature.output_kind
        if kind is not None and (
            kind.accepts.isdisjoint({str, list}) or kind.writes not in (None, str)
        ):
            raise TypeError(
                f"{source_location(function)}: the return type: a prompt cannot return"
                f" {kind.label}: {RETURN_ADVICE}"
            )
        arguments = [
            PromptArgument(each.name, description=each.description or None, required=each.required)
            for each in self.signature.parameters
        ]
        self.set_definition(Prompt, arguments=arguments)

    def call(self, incoming: IncomingRequest) -> Any:
        """Call the function for a request.

        Raises:
            InvalidParams: An argument is missing, unknown or has a wrong value.
        """
        try:
            arguments = self.arguments_of(incoming.request.params)
        except Mismatch as error:
            raise InvalidParams(f"{one_line(self.key)}: {error}") from None
        return self.invoke(incoming, arguments)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        revision = incoming.peer.revision
        if not isinstance(value, GetPromptResult):
            items = value if isinstance(value, (list, tuple)) else [value]
            for item in items:
                if not isinstance(item, (str, *self.returned_as_is)):
                    raise TypeError(f"{self.key} returned {shown(item)}: {RETURN_ADVICE}")
            messages = [
                item if isinstance(item, PromptMessage) else PromptMessage("user", item)
                for item in items
            ]
            value = GetPromptResult(messages, self.definition.description)
        wire: dict[str, Json] = value.to_wire()
        for message, sent in zip(value.messages, wire["messages"]):
            block = message.content
            if isinstance(block, EmbeddedResource) and block.mime_type is None:
                # Clients need the type of embedded content.
                block = copy(block)
                block.resource = with_type(block.resource)
            sent["content"] = fit(block, revision)
        return incoming.server.finalize_result(wire, revision)

    def to_wire(self, revision: Revision) -> dict[str, Json]:
        """Return the prompt's entry in a list, in the form of a revision."""
        wire = keep_members(self.definition.to_wire(), revision.prompt_members)
        wire["arguments"] = [
            keep_members(each, revision.argument_members) for each in wire["arguments"]
        ]
        return wire


class Prompts(Feature):
    """The prompts of one server, and the methods `prompts/list` and `prompts/get`.

    Args:
        registry: The server's registry.
    """

    capability = "prompts"
    makers = {"prompt": RegisteredPrompt}
    options = {"complete": COMPLETE}

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.table: Table[RegisteredPrompt] = Table("prompt", "prompts", "prompts", has_prefix=True)
        self.tables = (self.table,)

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes of `prompts/list` and `prompts/get`."""
        return {
            "prompts/list": Route(self.table.serve_page, immediate=True),
            "prompts/get": self.table.route,
        }

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare prompts if there are any."""
        if not self._registry.offers("prompts"):
            return {}
        return {"prompts": {"listChanged": True}}
