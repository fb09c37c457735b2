"""What everything that an author registers has in common. Floor 4."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..eras import Peer
from ..jsonrpc import Json
from ..log import Log, one_line
from ..revisions import Revision
from ..schema.signature import innermost, read_signature, refuse_flags
from ..types import Annotations
from ..types.meta import check_identifier
from .context import Context
from .questions import lacks
from .texts import value_of

log = Log("registered")


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
    """
    name = name or getattr(function, "__name__", "")
    if not isinstance(name, str) or not name:
        raise TypeError(f"a {kind} needs a name: say name=...")
    return name


def required(given: Union[str, Sequence[str]], owner: str) -> tuple[str, ...]:
    """The client capabilities that ``requires=`` names; one may stand alone.

    Raises:
        ValueError: What stands behind ``ext:`` is no identifier of an extension.
    """
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name.startswith("ext:"):
            check_identifier(name[4:], owner)
    return names


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
    refuse_flags(plain, owner)
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


def described(kind: str, name: str, *texts: Optional[str]) -> Optional[str]:
    """The first description that there is; that there is none goes to the log."""
    text = next((text for text in texts if text), None)
    if text is None:
        log.warning("%s %s has no description: a model has only its name to go by", kind, one_line(name))
    return text


def annotated(given: Optional[Union[Annotations, Mapping[str, Json]]]) -> Optional[Annotations]:
    """Annotations as an author gives them: our own object, or its arguments in a mapping."""
    return given if given is None or isinstance(given, Annotations) else Annotations(**given)


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
