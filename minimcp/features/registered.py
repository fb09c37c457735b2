"""What everything that an author registers has in common. Floor 4."""

from __future__ import annotations

from typing import Any, Callable, Generic, Mapping, Optional, Sequence, TypeVar, Union

from ..eras import Peer
from ..jsonrpc import Json
from ..log import Log, one_line
from ..revisions import Revision
from ..schema.signature import read_signature
from ..types import Annotations
from .context import Context
from .questions import lacks
from .texts import value_of

log = Log("registered")

T = TypeVar("T")


def where(function: Any) -> str:
    """Where a function stands, for messages: its name, file and line."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
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


class Table(Generic[T]):
    """Things by name, in the order in which they were registered.

    Thread-safe: each change is one operation on a dict, and readers look at a copy of the values.

    Args:
        kind: What they are, for messages: "prompt".
        place: Tells where one stands.
    """

    def __init__(self, kind: str, place: Callable[[T], str]) -> None:
        self._kind, self._place = kind, place
        self._things: dict[str, T] = {}

    def add(self, name: str, thing: T, *, replace: bool) -> None:
        """Take something in.

        Raises:
            ValueError: The name is taken, and `replace` is false.
        """
        if replace:
            self._things[name] = thing
            return
        taken = self._things.setdefault(name, thing)
        if taken is not thing:
            raise ValueError(
                f"the {self._kind} {name!r} exists: {self._place(taken)}; now {self._place(thing)}. "
                "Give one another name, or say replace=True"
            )

    def remove(self, name: str) -> None:
        """Take something away.

        Raises:
            KeyError: There is none of this name.
        """
        del self._things[name]

    def get(self, name: Any) -> Optional[T]:
        """The one of this name; None when there is none, or this is no name."""
        return self._things.get(name) if type(name) is str else None

    def all(self) -> list[T]:
        """All of them."""
        return list(self._things.values())

    def __contains__(self, name: str) -> bool:
        return name in self._things

    def __len__(self) -> int:
        return len(self._things)


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
        self._requires = (requires,) if isinstance(requires, str) else tuple(requires)
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
