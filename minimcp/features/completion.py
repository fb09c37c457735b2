"""Handlers whose arguments are text, and the completion of these arguments.

The arguments of prompts and the variables of resource templates are text.
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional

from ..engine.incoming import IncomingRequest, Route
from ..errors import InvalidParams
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from ..schema.kinds import Kind
from ..schema.mismatch import Mismatch
from ..server.context import Context
from ..server.feature import Destination, Feature, OptionSpec
from ..server.options import NONE, check_names, count_positional, source_location
from ..server.registered import RegisteredFunction, ServerConfig, route_to
from ..text import one_line
from ..types.content import Completion

if TYPE_CHECKING:
    from ..server.registry import Registry

# Suggestions that one answer may hold.
MAX_VALUES = 100

# The option of handlers whose arguments are text.
COMPLETE = OptionSpec((Mapping, NONE), 'a mapping such as {"city": ["Oslo"]} or None')

# From the text typed so far, and the arguments chosen already, to suggestions that may be sent.
Completer = Callable[[str, Mapping[str, str]], Completion]


class TextHandler(RegisteredFunction):
    """A function whose arguments arrive as text: from a URI, or as those of a prompt.

    Raises:
        TypeError, ValueError: As `RegisteredFunction`; or ``complete`` names no argument, or gives
            no completer.
    """

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: Optional[str] = None,
    ) -> None:
        super().__init__(config, function, options, uri)
        self._kinds = {each.name: each.kind for each in self.signature.parameters}
        given = options.get("complete") or {}
        check_names(
            given, self._kinds, f"{self.owner}: no argument to complete is called", error=ValueError
        )
        # What completes each argument; None where nothing does.
        self.completers = {
            name: _completer_of(
                function, given.get(name), kind, f"{self.owner}: the completer of {name!r}"
            )
            for name, kind in self._kinds.items()
        }
        self.completes = any(self.completers.values())

    def arguments(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The keyword arguments that these texts stand for.

        Raises:
            Mismatch: They do not fit; the message names the argument.
        """
        kinds = self._kinds
        values = {
            name: value_of(text, kinds[name]) if name in kinds else text
            for name, text in texts.items()
            if text or not self._may_lack(name)
        }
        return self.signature.completed(self.signature.read_arguments(values))

    def _may_lack(self, name: str) -> bool:
        """Whether an empty text for an argument means that it was not given.

        Hosts send one for each field of a form that the user leaves empty. It counts as a value if
        the argument is required or an empty text is one of its values.
        """
        field = next((each for each in self.signature.parameters if each.name == name), None)
        if field is None or field.required:
            return False
        if str not in field.kind.accepts:
            return True
        try:
            field.kind.read("")
        except Mismatch:
            return True
        return False

    def invoke(
        self,
        incoming: IncomingRequest,
        arguments: dict[str, Any],
        context: Optional[Context] = None,
    ) -> Any:
        """Call the function; its exceptions pass.

        Args:
            incoming: The request.
            arguments: By keyword.
            context: What it is given; None makes one.

        Raises:
            CapabilityNotSupported: The client lacks a capability that the function needs.
        """
        self.check_required(incoming)
        if self.signature.context_parameter is not None:
            arguments[self.signature.context_parameter] = context or Context(incoming)
        return self.function(**arguments)


def value_of(text: str, kind: Kind) -> Json:
    """The JSON value that a text stands for.

    A text that fits as it is stays text: "5" for ``Union[int, str]``. If nothing fits, it is the
    last reading of an accepted type, so that the error says what is wrong with the value; the text
    itself if there is none.
    """
    readings: list[Json] = [text]
    if text.lower() in _WORDS:
        readings.append(_WORDS[text.lower()])
    elif (
        text[0] in "-0123456789[{" and text[-1] in "0123456789]}"
    ):  # without the blanks that JSON would allow
        with suppress(ValueError, RecursionError):
            readings.append(json.loads(text))
    closest: Json = text
    for value in readings:
        if type(value) in kind.accepts:
            closest = value
            with suppress(Mismatch):
                kind.read(value)
                return value
    return closest


_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None, "": None}


# ------------------------------------------------------------ completion


def _completer_of(function: Any, given: Any, kind: Kind, owner: str) -> Optional[Completer]:
    """What completes an argument: what was given, or the values that its type names; None where
    nothing does.

    In the class of the handler's object a completer is a method as the handler is, and is called on
    that object.
    """
    given = choices_of(kind.schema) if given is None else given
    if given is None:
        return None
    instance = getattr(function, "__self__", None)
    names = [
        name
        for kind in type(instance).__mro__
        for name, member in vars(kind).items()
        if member is given
    ]
    complete: Any = getattr(instance, names[0]) if names else given
    if not callable(complete):
        if not isinstance(complete, (list, tuple)) or not all(
            isinstance(value, str) for value in complete
        ):
            raise TypeError(f"{owner} is a list of strings or a function, not {complete!r}")
        values = tuple(complete)
        return lambda text, chosen: suggestions(
            [value for value in values if value.startswith(text)], owner
        )
    code = None if hasattr(complete, "__func__") else getattr(complete, "__code__", None)
    if code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",):
        raise TypeError(
            f"{owner}, {source_location(complete)}, begins with self: give the method of an object"
        )
    if count_positional(complete, owner, ("value", "arguments"), least=1) == 2:
        return lambda text, chosen: suggestions(complete(text, dict(chosen)), owner)
    return lambda text, chosen: suggestions(complete(text), owner)


def choices_of(schema: Mapping[str, Any]) -> Optional[list[str]]:
    """All texts that stand for a value of this schema; None when there are too many to name."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return [
            value if isinstance(value, str) else to_json(value)
            for value in values
            if value is not None
        ]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    parts = [choices_of(each) for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    texts = [text for part in parts for text in part or ()]
    return list(dict.fromkeys(texts)) if parts and None not in parts else None


def suggestions(found: Any, owner: str) -> Completion:
    """Suggestions cut to what one answer may hold.

    Raises:
        TypeError: These are none.
    """
    if isinstance(found, Completion):
        made = copy(found)
        if len(found.values) > MAX_VALUES:
            made.total = len(found.values) if found.total is None else found.total
            made.has_more = True
        made.values = found.values[:MAX_VALUES]
        return made
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        raise TypeError(
            f"{owner} returned {type(found).__name__}: return a list of strings, or a Completion"
        )
    values = list(islice(found, MAX_VALUES + 1))
    more = len(values) > MAX_VALUES
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise TypeError(f"{owner} returned a value that is no string but {type(wrong[0]).__name__}")
    total = len(found) if hasattr(found, "__len__") else None if more else len(values)
    return Completion(values[:MAX_VALUES], total, more)


class Completions(Feature):
    """Serves `completion/complete`.

    Args:
        registry: The server's registry.
    """

    capability = "completions"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._config = registry.config

    def routes(self) -> Mapping[str, Destination]:
        """Return the method."""
        return {"completion/complete": self.route}

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare completions, in the revisions that have a capability for them."""
        if not revision.completions_capability or not self._registry.offers("completions"):
            return {}
        return {"completions": {}}

    def route(self, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a request. The completers of a mounted server run where it says.

        Raises:
            InvalidParams: The request refers to nothing that exists.
        """
        executor = self._config.executor
        if self._registry.loaded("mounting") is not None:
            executor = self._referred(params).executor
        route = route_to(self._serve, executor)
        if self._registry.loaded("rates") is None:
            return route
        return route._replace(gate=self._check_rate)

    def _check_rate(self, incoming: IncomingRequest) -> Route:
        rejection: Optional[Route] = self._registry.feature("rates").check(incoming)
        return incoming.route if rejection is None else rejection

    def _serve(self, incoming: IncomingRequest) -> dict[str, Json]:
        params = incoming.request.params
        owner = self._referred(params)
        argument = _member(params, "argument", dict)
        name = _member(argument, "name", str)
        text = _member(argument, "value", str)
        if name not in owner.completers:
            raise InvalidParams(f"Unknown argument: {one_line(name)}")
        context = params.get("context") or {}
        chosen = context.get("arguments") or {} if isinstance(context, dict) else None
        if not isinstance(chosen, dict) or not all(
            isinstance(each, str) for each in chosen.values()
        ):
            raise InvalidParams("context is an object, and its arguments an object of strings")
        completer = owner.completers[name] or (lambda text, chosen: Completion([], 0, False))
        found = suggestions(
            owner.run(Context(incoming), lambda: completer(text, chosen)), f"completing {name!r}"
        )
        closed: dict[str, Json] = incoming.server.finalize_result(
            found.to_wire(), incoming.peer.revision
        )
        return closed

    def _referred(self, params: Mapping[str, Json]) -> TextHandler:
        ref = _member(params, "ref", dict)
        kind = ref.get("type")
        owner: Optional[TextHandler] = None
        if kind == "ref/prompt":
            name = _member(ref, "name", str)
            owner = self._registry.feature("prompts").table.items.get(name)
        elif kind == "ref/resource":
            name = _member(ref, "uri", str)
            owner = self._registry.feature("resources").template(name)
        else:
            raise InvalidParams("the type of ref is one of ref/prompt, ref/resource")
        if owner is None:
            raise InvalidParams(f"{kind}: there is no {one_line(name)}")
        return owner


def _member(of: Mapping[str, Json], name: str, kind: type) -> Any:
    value = of.get(name)
    if not isinstance(value, kind):
        raise InvalidParams(f"{name} is {'an object' if kind is dict else 'a string'}")
    return value
