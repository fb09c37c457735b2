"""Prompts: messages that a user may choose to begin with.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, one_line
from ..protocol.messages import Json, Request
from ..protocol.options import FLAG, ICONS, MAPPING, TEXT, check_options
from ..protocol.versions import Revision
from ..schema.mismatch import Mismatch, described
from ..types import EmbeddedResource, GetPromptResult, Icon, Prompt, PromptArgument, PromptMessage
from .carried import carried
from .completers import Completers, Given, read_completers
from .contents import with_type
from .context import Context
from .facts import Facts
from .feature import Destination, Feature
from .middleware import run_through
from .paging import Pages
from .places import route_to
from .registered import TextHandler, name_of, only, where
from .results import CONTENT, fit
from .tables import Registered, Table


class RegisteredPrompt(Registered):
    """One prompt of a server.

    Args:
        facts: Of the server.
        handler: What the author wrote.
        shown: How it is listed.
        completers: By argument.
    """

    def __init__(self, facts: Facts, handler: TextHandler, shown: Prompt, completers: Completers) -> None:
        super().__init__(facts)
        self.handler, self.shown, self.completers = handler, shown, completers

    def listed(self, revision: Revision) -> dict[str, Json]:
        """The prompt as a revision lists it."""
        wire = only(self.shown.to_wire(), revision.prompt_members)
        wire["arguments"] = [only(each, revision.argument_members) for each in wire["arguments"]]
        return wire

    def result(self, exchange: IncomingRequest) -> GetPromptResult:
        """Call the function, which may raise anything, for a request.

        Raises:
            InvalidParams: An argument is missing, unknown or does not fit.
            CapabilityNotSupported: The client lacks a capability that the function needs.
            TypeError, ValueError: The function returned what is no message.
        """
        context, call = Context(exchange), partial(self._call, exchange)
        value = run_through(self.layers, context, call) if any(self.layers) else call()
        if isinstance(value, GetPromptResult):
            return value
        items = value if isinstance(value, (list, tuple)) else [value]
        messages = [item if isinstance(item, PromptMessage) else PromptMessage("user", item) for item in items]
        return GetPromptResult(messages, self.shown.description)

    def _call(self, exchange: IncomingRequest) -> Any:
        try:
            arguments = self.handler.arguments(_texts(exchange.request.params.get("arguments")))
        except Mismatch as error:
            raise InvalidParams(f"{one_line(self.shown.name)}: {error}") from None
        return self.handler.call(Context(exchange), exchange.peer, arguments)

    def __repr__(self) -> str:
        return f"<RegisteredPrompt {self.shown.name!r} = {where(self.handler.function)}>"


def _texts(arguments: Json) -> Mapping[str, str]:
    for name, value in ({} if arguments is None else arguments).items():
        if not isinstance(value, str):
            raise Mismatch("a string", value).inside(name)
    return arguments or {}


def _sent(message: PromptMessage, revision: Revision) -> dict[str, Json]:
    """A message as a revision knows it; what is embedded says its MIME type."""
    wire: dict[str, Json] = message.to_wire()
    block = message.content
    if isinstance(block, EmbeddedResource) and block.mime_type is None:
        block = copy(block)
        block.resource = with_type(block.resource)
    wire["content"] = fit(block, revision)
    return wire


class Prompts(Feature):
    """All prompts of one server. Thread-safe.

    Args:
        facts: Of the server.
    """

    kind = "prompts"

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._prompts: Table[RegisteredPrompt] = Table("prompt", lambda prompt: where(prompt.handler.function))
        self._pages = Pages("prompts", facts.page_size, self._describe)
        self.completes = False

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
        check_options(_OPTIONS, locals(), f"prompt {name!r}: ")
        content_types = (GetPromptResult, PromptMessage, *CONTENT)
        handler = TextHandler(function, f"prompt {name!r}", content_types=content_types, requires=requires)
        shown = Prompt(
            name,
            title=title,
            description=description or handler.signature.description or None,
            arguments=[
                PromptArgument(each.name, description=each.description or None, required=each.required)
                for each in handler.signature.parameters
            ],
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        prompt = RegisteredPrompt(self._facts, handler, shown, read_completers(handler, complete))
        self._prompts.add(name, prompt, replace=replace)
        self._prompts.advise(name, shown.description)
        self.offered, self.completes = True, self.completes or any(prompt.completers.values())
        self._changed()

    def remove(self, name: str) -> None:
        """Take a prompt away.

        Raises:
            KeyError: There is none of this name.
        """
        self._prompts.remove(name)
        self._changed()

    def tables(self) -> Sequence[Table[Any]]:
        return (self._prompts,)

    def follow(self, other: Prompts) -> None:
        super().follow(other)
        self.completes = self.completes or other.completes

    def forget(self) -> None:
        self._pages.forget()

    def _changed(self) -> None:
        self.forget()
        self._facts.changed(self.kind)

    def __len__(self) -> int:
        return len(self._prompts)

    def named(self, name: str) -> Optional[RegisteredPrompt]:
        """The prompt of this name; None when there is none."""
        return self._prompts.get(name)

    # ------------------------------------------------------------ methods

    def routes(self) -> Mapping[str, Destination]:
        listing = Route(partial(self._pages.serve, self._facts), immediate=True)
        return {"prompts/list": listing, "prompts/get": self.route_of_get}

    def declared(self, revision: Revision) -> Mapping[str, Json]:
        return {"listChanged": True}

    def _describe(self, revision: Revision) -> list[dict[str, Json]]:
        return [prompt.listed(revision) for prompt in self._prompts.all()]

    def route_of_get(self, request: Request) -> Route:
        """Where a `prompts/get` goes.

        Raises:
            InvalidParams: It names no prompt of this server, or its arguments are no object.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments")
        prompt = self._prompts.get(name)
        if prompt is None:
            raise InvalidParams(self._prompts.unknown(name) if isinstance(name, str) else "name is a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise InvalidParams(f"arguments is an object, not {described(arguments)}")
        return route_to(carried(partial(self._serve, prompt), self._facts), prompt.place)

    def _serve(self, prompt: RegisteredPrompt, exchange: IncomingRequest) -> dict[str, Json]:
        result = prompt.result(exchange)
        revision = exchange.peer.revision
        wire: dict[str, Json] = result.to_wire()
        wire["messages"] = [_sent(message, revision) for message in result.messages]
        return self._facts.closed(wire, revision)


_OPTIONS = {
    "title": TEXT, "description": TEXT, "icons": ICONS, "meta": MAPPING, "replace": FLAG,
    "complete": MAPPING._replace(what='a mapping such as {"city": ["Oslo"]} or None'),
}  # fmt: skip
