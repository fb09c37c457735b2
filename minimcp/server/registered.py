"""What everything that an author registers has in common."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union

from ..protocol.lifecycle import Peer, lacks
from ..protocol.messages import Json
from ..protocol.versions import REVISIONS, Revision
from ..schema.mismatch import nearest
from ..schema.signature import innermost, read_signature, refuse_async_and_stars
from ..types import Annotations, ToolAnnotations
from ..types.meta import check_identifier
from .context import Context
from .texts import value_of


def where(function: Any) -> str:
    """Where a function stands, for messages: its name (a method's with the class of its object), file and line."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    owner = getattr(function, "__self__", None)
    if code is not None and owner is not None and not isinstance(owner, type):
        name = f"{type(owner).__qualname__}.{function.__name__}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else str(name)


def name_of(function: Any, name: Optional[str], kind: str) -> str:
    """The name that was given, or the function's own.

    Raises:
        TypeError: There is none.
        ValueError: It is empty.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{where(function)}: the name of a {kind} is text, not {name!r:.60}")
    if name == "":
        raise ValueError(f"the name of a {kind} is not empty")
    name = getattr(function, "__name__", "") if name is None else name
    if name == "<lambda>":
        raise TypeError(f"a lambda has no name: say name=... of the {kind}")
    if not name:
        raise TypeError(f"a {kind} needs a name: say name=...")
    return name


def check_names(options: Mapping[str, Any], add: Callable[..., Any], owner: str, kind: str) -> None:
    """Refuse an option that there is not.

    Args:
        options: What was given by keyword.
        add: The function that takes them all.
        owner: What messages call that which they are about.
        kind: What it becomes: "tool".

    Raises:
        TypeError: One of them is none; the message says which was probably meant.
    """
    known: Mapping[str, Any] = add.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}=?" if near else f"there is {', '.join(known)}"
            raise TypeError(f"{owner}: a {kind} has no option {name}=: {hint}")


CAPABILITIES = tuple(
    sorted(
        {
            name
            for revision in REVISIONS
            for whole, parts in revision.client_capabilities.items()
            for name in (whole, *(f"{whole}.{part}" for part in parts))
        }
    )
)
"""What a client may declare, in whatever revision, by dotted names."""

OPEN = ("tasks", "experimental")
"""Capabilities whose parts anybody may name, as in ``experimental.x``."""


def required(given: Union[str, Sequence[str]], owner: str) -> tuple[str, ...]:
    """The client capabilities that ``requires=`` names; one may stand alone.

    Raises:
        TypeError: A name is no text.
        ValueError: No client can declare such a thing, or what stands behind ``ext:`` is no identifier of an extension.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"{owner}: requires is the name of a capability, or a list of names, not {given!r:.60}")
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{owner}: requires names capabilities by text, not {name!r:.60}")
        if name.startswith("ext:"):
            check_identifier(name[4:], owner)
        elif name not in CAPABILITIES and (name.partition(".")[0] not in OPEN or "" in name.split(".")):
            near = nearest(name, (*CAPABILITIES, *OPEN))
            hint = f"did you mean {near!r}?" if near else f"there is {', '.join(CAPABILITIES)}, {_OPEN}"
            raise ValueError(f"{owner}: no client declares {name!r}: {hint}")
    return names


_OPEN = ", ".join(f"{name}, {name}.<name>" for name in OPEN) + " and ext:<identifier>"


def positions(function: Any, owner: str, names: Sequence[str], *, least: int) -> int:
    """How many arguments a function takes by position, where some may be left out.

    Args:
        function: What an author gave.
        owner: What messages call it.
        names: What it may be given, in order.
        least: How many of them it must take.

    Raises:
        TypeError: It is async, a generator, no Python function, or takes other arguments.
    """
    plain = function if hasattr(function, "__code__") or hasattr(function, "__func__") else type(function).__call__
    refuse_async_and_stars(plain, owner)
    inner = innermost(plain)
    code = getattr(inner, "__code__", None)
    if code is None:
        raise TypeError(f"{owner} is {function!r}, which is no Python function: write a def that calls it")
    most: int = code.co_argcount - (plain is not function or hasattr(plain, "__func__"))
    needed = most - len(inner.__defaults__ or ())
    keywords = code.co_kwonlyargcount - len(inner.__kwdefaults__ or ())
    if needed > len(names) or most < least or keywords:
        ways = " or ".join(f"({', '.join(names[:count])})" for count in range(least, len(names) + 1))
        raise TypeError(f"{owner}, {where(function)}, takes {ways}")
    return min(most, len(names))


A = TypeVar("A", Annotations, ToolAnnotations)


def annotated(given: Union[A, Mapping[str, Json], None], cls: type[A], example: str, owner: str) -> Optional[A]:
    """Annotations as an author gives them: our own object, or its arguments in a mapping.

    Args:
        given: What stands behind ``annotations=``.
        cls: Of the object.
        example: A mapping that would do.
        owner: What messages call that which is annotated.

    Raises:
        TypeError: It is neither, a name is none, or a value is of another type.
    """
    if given is None or isinstance(given, cls):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"{owner}: annotations is a mapping such as {example}, not {given!r:.60}")
    names = [each.name for each in fields(cls)]
    for name in given:
        if name not in names:
            near = nearest(str(name), names)
            hint = f"did you mean {near!r}?" if near else f"there is {', '.join(names)}"
            raise TypeError(f"{owner}: no annotation is called {name!r}: {hint}")
    return cls(**given)


def only(wire: Mapping[str, Json], members: frozenset[str]) -> dict[str, Json]:
    """An object with the members that a revision knows."""
    return {name: member for name, member in wire.items() if name in members}


def listed_in(wire: Mapping[str, Json], members: frozenset[str], revision: Revision) -> dict[str, Json]:
    """The same for something with annotations, which had fewer members once too."""
    known = only(wire, members)
    if "annotations" in known:
        known["annotations"] = only(known["annotations"], revision.annotation_members)
    return known


class TextHandler:
    """A function whose arguments arrive as text: from a URI, or as those of a prompt.

    Args:
        function: What the author wrote.
        owner: What messages call it: "prompt 'briefing'".
        content_types: Classes whose instances it may return as they are.
        requires: Client capabilities that it needs, by dotted name; one may stand alone.

    Raises:
        TypeError: It cannot be a handler as it is written; the message says what to write instead.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        owner: str,
        *,
        content_types: tuple[type, ...],
        requires: Union[str, Sequence[str]],
    ) -> None:
        self.function, self.owner = function, owner
        self.signature = read_signature(
            function, context_type=Context, owner=f"{owner}: {where(function)}", content_types=content_types
        )
        self._requires = required(requires, owner)
        self._kinds = {each.name: each.kind for each in self.signature.parameters}

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
        for name in self._requires:
            if not peer.supports(name):
                raise lacks(name, self.owner)
        keywords = dict(arguments)
        if self.signature.context_parameter is not None:
            keywords[self.signature.context_parameter] = context
        return self.function(**keywords)

    def __repr__(self) -> str:
        return f"<TextHandler {self.owner} = {where(self.function)}>"
