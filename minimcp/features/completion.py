"""Handlers whose arguments are strings, and the completion of these arguments.

The arguments of prompts and the variables of resource templates are strings on the wire.
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
from ..types.prompts import Completion

if TYPE_CHECKING:
    from ..server.registry import Registry

# Maximum number of suggestions in a result.
MAX_VALUES = 100

# The option of handlers whose arguments are strings.
COMPLETE = OptionSpec((Mapping, NONE), 'a mapping such as {"city": ["Oslo"]} or None')

# Returns suggestions for the text typed so far and the arguments chosen already.
Completer = Callable[[str, Mapping[str, str]], Completion]


class TextHandler(RegisteredFunction):
    """A function whose arguments are strings on the wire: a prompt, a resource or a template.

    Raises:
        TypeError, ValueError: See `RegisteredFunction`; or ``complete`` names an unknown argument
            or holds something that is not a completer.
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
        # The completer of each argument; None if it has none.
        self.completers = {
            name: _completer_of(
                function, given.get(name), kind, f"{self.owner}: the completer of {name!r}"
            )
            for name, kind in self._kinds.items()
        }
        self.completes = any(self.completers.values())

    def arguments(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the keyword arguments for strings from the wire.

        Raises:
            Mismatch: A string does not match its parameter; the message names the argument.
        """
        kinds = self._kinds
        values = {
            name: value_of(text, kinds[name]) if name in kinds else text
            for name, text in texts.items()
            if text or not self._may_lack(name)
        }
        return self.signature.completed(self.signature.read_arguments(values))

    def arguments_of(self, params: Mapping[str, Json]) -> dict[str, Any]:
        texts = params.get("arguments") or {}
        if not isinstance(texts, dict):
            raise Mismatch("an object", texts)
        for name, value in texts.items():
            if not isinstance(value, str):
                raise Mismatch("a string", value).inside(name)
        return self.arguments(texts)

    def _may_lack(self, name: str) -> bool:
        """Return whether an empty string means that an argument was not given.

        Hosts send an empty string for each field of a form that the user leaves empty. It counts as
        a value if the argument is required or accepts an empty string.
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
        """Call the function. Its exceptions are not caught.

        Args:
            incoming: The request.
            arguments: The keyword arguments.
            context: The context for the function; if None, one is created.

        Raises:
            CapabilityNotSupported: The client lacks a capability that the function needs.
        """
        self.check_required(incoming)
        if self.signature.context_parameter is not None:
            arguments[self.signature.context_parameter] = context or Context(incoming)
        return self.function(**arguments)


def value_of(text: str, kind: Kind) -> Json:
    """Return the JSON value for a string.

    If the parameter accepts the string itself, it remains a string: "5" for ``Union[int, str]``. If
    no reading is accepted, this returns the last reading of an accepted type, so that the error
    says what is wrong with the value. Without such a reading, it returns the string itself.
    """
    readings: list[Json] = [text]
    if text.lower() in _WORDS:
        readings.append(_WORDS[text.lower()])
    elif text[0] in "-0123456789[{" and text[-1] in "0123456789]}":  # JSON without outer spaces
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
    """Return the completer of an argument; None if it has none.

    That is the given completer, or the values that the argument's type names. A completer that is
    defined in the class of the handler's object is called as a method of that object.
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
            raise TypeError(f"{owner} must be a list of strings or a function, not {complete!r}")
        values = tuple(complete)
        return lambda text, chosen: suggestions(
            [value for value in values if value.startswith(text)], owner
        )
    code = None if hasattr(complete, "__func__") else getattr(complete, "__code__", None)
    if code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",):
        raise TypeError(
            f"{owner}, {source_location(complete)}, begins with self: pass the method of an object"
        )
    if count_positional(complete, owner, ("value", "arguments"), least=1) == 2:
        return lambda text, chosen: suggestions(complete(text, dict(chosen)), owner)
    return lambda text, chosen: suggestions(complete(text), owner)


def choices_of(schema: Mapping[str, Any]) -> Optional[list[str]]:
    """Return all strings for values of a schema; None if they are not limited."""
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
    """Return suggestions, cut to the number that a result may hold.

    Raises:
        TypeError: The completer returned something else.
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
    has_more = len(values) > MAX_VALUES
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise TypeError(f"{owner} must return strings, not {type(wrong[0]).__name__}")
    total: Optional[int] = None
    if hasattr(found, "__len__"):
        total = len(found)
    elif not has_more:
        total = len(values)
    return Completion(values[:MAX_VALUES], total, has_more)


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
        """Return the route of `completion/complete`."""
        return {"completion/complete": self.route}

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare completions, in revisions with this capability."""
        if not revision.completions_capability or not self._registry.offers("completions"):
            return {}
        return {"completions": {}}

    def route(self, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a request. Completers of a mounted server run on its executor.

        Raises:
            InvalidParams: The reference is unknown.
        """
        executor = self._config.executor
        if self._registry.loaded("mounting") is not None:
            executor = self.referred(params).executor
        route = route_to(self._serve, executor)
        if self._registry.loaded("rates") is not None:
            route.gate = self._check_rate
        return route

    def _check_rate(self, incoming: IncomingRequest) -> Route:
        rejection: Optional[Route] = self._registry.feature("rates").check(incoming)
        return incoming.route if rejection is None else rejection

    def _serve(self, incoming: IncomingRequest) -> dict[str, Json]:
        params = incoming.request.params
        owner = self.referred(params, incoming)
        access = self._registry.loaded("access")
        if access is not None:
            access.require(owner, incoming, {"arguments": chosen_arguments(params)})
        argument = _member(params, "argument", dict)
        name = _member(argument, "name", str)
        text = _member(argument, "value", str)
        if name not in owner.completers:
            raise InvalidParams(f"Unknown argument: {one_line(name)}")
        chosen = chosen_arguments(params)
        completer = owner.completers[name] or (lambda text, chosen: Completion([], 0, False))
        found = suggestions(
            owner.run_middleware(Context(incoming), lambda: completer(text, chosen)),
            f"completing {name!r}",
        )
        closed: dict[str, Json] = incoming.server.finalize_result(
            found.to_wire(), incoming.peer.revision
        )
        return closed

    def referred(
        self, params: Mapping[str, Json], incoming: Optional[IncomingRequest] = None
    ) -> TextHandler:
        """Return the prompt or template that a request names.

        Args:
            params: The params of the request.
            incoming: The request, whose caller must be allowed to see it. None means no check of
                visibility.

        Raises:
            InvalidParams: There is none.
        """
        ref = _member(params, "ref", dict)
        kind = ref.get("type")
        owner: Optional[TextHandler] = None
        if kind == "ref/prompt":
            name = _member(ref, "name", str)
            owner = self._registry.feature("prompts").table.items.get(name)
        elif kind == "ref/resource":
            name = _member(ref, "uri", str)
            owner = self._registry.feature("resources").template(name, incoming)
        else:
            raise InvalidParams("the type of ref must be ref/prompt or ref/resource")
        if owner is None or (incoming is not None and owner.is_hidden(incoming)):
            raise InvalidParams(f"Unknown {kind[4:]}: {one_line(name)}")
        return owner


def chosen_arguments(params: Mapping[str, Json]) -> dict[str, str]:
    """Return the arguments that were chosen before a completion.

    Raises:
        InvalidParams: They are not an object of strings.
    """
    context = params.get("context") or {}
    chosen = context.get("arguments") or {} if isinstance(context, dict) else None
    if not isinstance(chosen, dict) or not all(isinstance(each, str) for each in chosen.values()):
        raise InvalidParams("context must be an object, and its arguments an object of strings")
    return chosen


def _member(of: Mapping[str, Json], name: str, kind: type) -> Any:
    value = of.get(name)
    if not isinstance(value, kind):
        raise InvalidParams(f"{name} must be {'an object' if kind is dict else 'a string'}")
    return value
