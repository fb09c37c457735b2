"""Completion: suggestions while somebody types an argument of a prompt or of a resource template.

Not here: what makes the suggestions (see `completers`).
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from functools import partial
from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, one_line
from ..protocol.messages import Json, Request
from ..protocol.versions import Revision
from ..types import Completion
from .completers import Completers, fit
from .context import Context
from .facts import Facts
from .feature import Destination, Feature
from .middleware import run_through
from .places import route_to
from .prompts import Prompts, RegisteredPrompt
from .resources import Readable, Resources


class _Reference(NamedTuple):
    """A kind of thing whose arguments can be completed."""

    member: str
    """Of the reference, where its name stands."""
    find: Callable[[str], Optional[Union[RegisteredPrompt, Readable]]]


class Completions(Feature):
    """The completions of one server: offered as soon as anything completes.

    Args:
        facts: Of the server.
        prompts: Of the server.
        resources: Of the server.
    """

    kind = "completions"

    def __init__(self, facts: Facts, prompts: Prompts, resources: Resources) -> None:
        self._facts, self._sources = facts, (prompts, resources)
        self._announced = False
        self._usual = route_to(self._serve, facts.place)
        self._references = {
            "ref/prompt": _Reference("name", prompts.named),
            "ref/resource": _Reference("uri", resources.template),
        }

    @property
    def offered(self) -> bool:
        """Whether anything completes."""
        return self._announced or any(source.completes for source in self._sources)

    @offered.setter
    def offered(self, announced: bool) -> None:
        self._announced = announced

    def routes(self) -> Mapping[str, Destination]:
        return {"completion/complete": self._route}

    def declared(self, revision: Revision) -> Optional[Mapping[str, Json]]:
        return {} if revision.completions_capability else None

    def _route(self, request: Request) -> Route:
        """Completers of a mounted server run where that says."""
        if not any(table.mounts for source in self._sources for table in source.tables()):
            return self._usual
        return route_to(self._serve, self._referred(request.params.get("ref")).place)

    def _serve(self, exchange: IncomingRequest) -> dict[str, Json]:
        params = exchange.request.params
        owner = self._referred(params.get("ref"))
        argument = _object(params.get("argument"), "argument")
        name, text = _string(argument, "name"), _string(argument, "value")
        if name not in owner.completers:
            raise InvalidParams(f"Unknown argument: {one_line(name)}")
        call = partial(_complete, owner.completers, name, text, _chosen(params.get("context")))
        if any(owner.layers):
            found = fit(run_through(owner.layers, Context(exchange), call), f"middleware round completing {name!r}")
        else:
            found = call()
        return self._facts.closed(found.to_wire(), exchange.peer.revision)

    def _referred(self, ref: Json) -> Union[RegisteredPrompt, Readable]:
        ref = _object(ref, "ref")
        kind = ref.get("type")
        reference = self._references.get(kind) if isinstance(kind, str) else None
        if reference is None:
            raise InvalidParams(f"the type of ref is one of {', '.join(self._references)}")
        name = _string(ref, reference.member)
        owner = reference.find(name)
        if owner is None:
            raise InvalidParams(f"{kind}: there is no {one_line(name)}")
        return owner


def _complete(completers: Completers, name: str, text: str, chosen: Mapping[str, str]) -> Completion:
    completer = completers[name]
    return Completion([], 0, False) if completer is None else completer(text, chosen)


def _chosen(context: Json) -> Mapping[str, str]:
    """The arguments chosen already."""
    arguments = _object({} if context is None else context, "context").get("arguments")
    chosen = _object({} if arguments is None else arguments, "context.arguments")
    wrong: Sequence[str] = [name for name, value in chosen.items() if not isinstance(value, str)]
    if wrong:
        raise InvalidParams(f"context.arguments: {one_line(wrong[0])} is a string")
    return chosen


def _object(value: Json, name: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise InvalidParams(f"{name} is an object")
    return value


def _string(of: Mapping[str, Json], name: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"{name} is a string")
    return value
