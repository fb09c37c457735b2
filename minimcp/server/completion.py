"""Handlers whose arguments are text (prompts, resource templates), and the completion of those arguments.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json, Request, to_json
from ..schema.kinds import Kind
from ..schema.mismatch import Mismatch, nearest
from ..schema.signature import read_signature
from ..types import Completion
from .context import Context
from .executors import route_to
from .registered import Registered, ServerConfig, Table, check_required, positions, required, where

MOST_VALUES = 100
"""Suggestions that one answer may hold."""

Given = Union[Sequence[str], Callable[..., Any]]
"""What an author says completes an argument: the values, or a function of the text typed so far."""

Completer = Callable[[str, Mapping[str, str]], Completion]
"""From the text typed so far, and the arguments chosen already, to suggestions that may be sent."""


class TextHandler:
    """A function whose arguments arrive as text: from a URI, or as those of a prompt.

    Args:
        function: What the author wrote.
        owner: What messages call it: "prompt 'briefing'".
        content_types: Classes whose instances it may return as they are.
        requires: Client capabilities that it needs, by dotted name; one may stand alone.
        complete: For arguments, what completes them; None: only what types say.

    Raises:
        TypeError: It cannot be a handler as it is written; the message says what to write instead.
        ValueError: ``complete`` names no argument, or ``requires`` no capability.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        owner: str,
        *,
        content_types: tuple[type, ...],
        requires: Union[str, Sequence[str]] = (),
        complete: Optional[Mapping[str, Given]] = None,
    ) -> None:
        self.function, self.owner = function, owner
        self.signature = read_signature(
            function, context_type=Context, owner=f"{owner}: {where(function)}", content_types=content_types
        )
        self._requires = required(requires, owner)
        self._kinds = {each.name: each.kind for each in self.signature.parameters}
        self.completers = self._read_completers(dict(complete or {}))

    def kind(self, name: str) -> Any:
        """What a text for this argument has to be, as a JSON Schema; None when any text will do."""
        schema = self.signature.input_schema["properties"].get(name, {})
        told = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
        return None if told in ({}, {"type": "string"}) else told

    def arguments(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The keyword arguments that these texts stand for.

        Raises:
            Mismatch: They do not fit; the message names the argument.
        """
        kinds = self._kinds
        values = {name: value_of(text, kinds[name]) if name in kinds else text for name, text in texts.items()}
        return self.signature.read_arguments(values)

    def call(self, context: Context, peer: Peer, arguments: Mapping[str, Any]) -> Any:
        """Call the function; its exceptions pass.

        Raises:
            CapabilityNotSupported: The client lacks a capability that the function needs.
        """
        check_required(peer, self._requires, self.owner)
        keywords = dict(arguments)
        if self.signature.context_parameter is not None:
            keywords[self.signature.context_parameter] = context
        return self.function(**keywords)

    def _read_completers(self, given: dict[str, Given]) -> Mapping[str, Optional[Completer]]:
        """What completes each argument: what was given, or the values that its type names; None where nothing does.

        In the class of the handler's object a completer is a method as the handler is, and is called on that object.
        """
        completers: dict[str, Optional[Completer]] = {}
        for parameter in self.signature.parameters:
            values: Any = given.pop(parameter.name, None)
            if values is None:
                values = choices_of(parameter.kind.schema)
            owner = f"{self.owner}: the completer of {parameter.name!r}"
            completers[parameter.name] = None if values is None else _completer(self._bound(values), owner)
        for name in given:
            near = nearest(str(name), completers)
            hint = f": did you mean {near!r}?" if near else ""
            raise ValueError(f"{self.owner}: complete= speaks of {name!r}, which is no argument of it{hint}")
        return completers

    def _bound(self, given: Any) -> Any:
        """What was given; of the object whose method the handler is, where its class defines it under a name."""
        instance = getattr(self.function, "__self__", None)
        for kind in type(instance).__mro__:
            for name, member in vars(kind).items():
                if member is given and not isinstance(given, (list, tuple)):
                    return getattr(instance, name)
        return given

    def __repr__(self) -> str:
        return f"<TextHandler {self.owner} = {where(self.function)}>"


def value_of(text: str, kind: Kind) -> Json:
    """The JSON value that a text stands for; the text itself when it stands for none that fits.

    A text that fits as it is stays text: "5" for ``Union[int, str]``.
    """
    for value in _readings(text):
        if type(value) in kind.accepts:
            try:
                kind.read(value)
            except Mismatch:
                continue
            return value
    return text


_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None, "": None}


def _readings(text: str) -> Iterator[Json]:
    yield text
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    elif text[0] in "-0123456789[{" and text[-1] in "0123456789]}":  # without the blanks that JSON would allow
        try:
            yield json.loads(text)
        except (ValueError, RecursionError):
            pass


def choices_of(schema: Mapping[str, Any]) -> Optional[list[str]]:
    """All texts that stand for a value of this schema; None when there are too many to name."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return [value if isinstance(value, str) else to_json(value) for value in values if value is not None]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    parts = [choices_of(each) for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    texts = [text for part in parts for text in part or ()]
    return list(dict.fromkeys(texts)) if parts and None not in parts else None


def _completer(given: Any, owner: str) -> Completer:
    if not callable(given):
        if not isinstance(given, (list, tuple)) or not all(isinstance(value, str) for value in given):
            raise TypeError(f"{owner} is a list of strings or a function, not {given!r}")
        values = tuple(given)
        return lambda text, chosen: fit([value for value in values if value.startswith(text)], owner)
    code = None if hasattr(given, "__func__") else getattr(given, "__code__", None)
    if code is not None and code.co_varnames[: code.co_argcount][:1] == ("self",):
        raise TypeError(
            f"{owner}, {where(given)}, begins with self, and no object is known for it: give the method of an "
            "object, or in a class a method of the same class by its name, beside the handler"
        )
    if positions(given, owner, ("value", "arguments"), least=1) == 2:
        return lambda text, chosen: fit(given(text, dict(chosen)), owner)
    return lambda text, chosen: fit(given(text), owner)


def fit(found: Any, owner: str) -> Completion:
    """Suggestions cut to what one answer may hold.

    Raises:
        TypeError: These are none.
    """
    if isinstance(found, Completion):
        values, total, more = found.values[:MOST_VALUES], found.total, found.has_more
        if len(found.values) > MOST_VALUES:
            total, more = len(found.values) if total is None else total, True
    elif isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        raise TypeError(f"{owner} returned {type(found).__name__}: return a list of strings, or a Completion")
    else:
        values = list(islice(found, MOST_VALUES + 1))
        more = len(values) > MOST_VALUES
        total = len(found) if hasattr(found, "__len__") else None if more else len(values)
        values = values[:MOST_VALUES]
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise TypeError(f"{owner} returned a value that is no string but {type(wrong[0]).__name__}")
    made = Completion(values, total, more)
    if isinstance(found, Completion):
        made.meta, made.extra = found.meta, found.extra
    return made


class Completions:
    """Serves `completion/complete`.

    Args:
        config: Of the server.
        prompts: Of the server.
        templates: Of the server.
        find_template: Finds a template by itself or by a URI of its family.
    """

    def __init__(
        self,
        config: ServerConfig,
        prompts: Table[Any],
        templates: Table[Any],
        find_template: Callable[[str], Optional[Registered]],
    ) -> None:
        self._tables = (prompts, templates)
        self._route = route_to(self._serve, config.executor)
        self._find = {"ref/prompt": ("name", prompts.get), "ref/resource": ("uri", find_template)}

    def route(self, request: Request) -> Route:
        """Where a `completion/complete` goes; completers of a mounted server run where that says.

        Raises:
            InvalidParams: It refers to nothing that there is.
        """
        if not any(table.mounts for table in self._tables):
            return self._route
        return route_to(self._serve, self._referred(request.params.get("ref")).executor)

    def _serve(self, exchange: IncomingRequest) -> dict[str, Json]:
        params = exchange.request.params
        owner: Any = self._referred(params.get("ref"))
        argument = _object(params.get("argument"), "argument")
        name, text = _string(argument, "name"), _string(argument, "value")
        completers = owner.handler.completers
        if name not in completers:
            raise InvalidParams(f"Unknown argument: {one_line(name)}")
        context = _object(params.get("context") or {}, "context")
        chosen = _object(context.get("arguments") or {}, "context.arguments")
        for each, value in chosen.items():
            if not isinstance(value, str):
                raise InvalidParams(f"context.arguments: {one_line(each)} is a string")
        completer = completers[name] or _nothing
        found = owner.run(Context(exchange), lambda: completer(text, chosen))
        if any(owner.middleware):
            found = fit(found, f"middleware round completing {name!r}")
        closed: dict[str, Json] = exchange.server.closed(found.to_wire(), exchange.peer.revision)
        return closed

    def _referred(self, given: Json) -> Registered:
        ref = _object(given, "ref")
        kind = ref.get("type")
        member, find = self._find.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
        if member is None or find is None:
            raise InvalidParams(f"the type of ref is one of {', '.join(self._find)}")
        name = _string(ref, member)
        owner = find(name)
        if owner is None:
            raise InvalidParams(f"{kind}: there is no {one_line(name)}")
        return owner


def _nothing(text: str, chosen: Mapping[str, str]) -> Completion:
    return Completion([], 0, False)


def _object(value: Json, name: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise InvalidParams(f"{name} is an object")
    return value


def _string(of: Mapping[str, Json], name: str) -> str:
    value = of.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"{name} is a string")
    return value
