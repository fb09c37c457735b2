"""`Wire`, the base of every typed object that goes over the wire.

A class names its members once, in a table ``FIELDS`` of Python name to `Kind`. From that table come reading,
writing, checking, comparing and showing. Here stands the only translation between ``snake_case`` and
``camelCase`` of the package. Which members an older revision does not know is not known here.
"""

from __future__ import annotations

from typing import Any, ClassVar, Iterable, Mapping, Optional, Sequence, TypeVar, cast

from .kinds import Json, Kind, json_type
from .meta import check_meta

W = TypeVar("W", bound="Wire")
T = TypeVar("T")
_Step = tuple[str, str, Kind, tuple[type, ...], Any, Any, Any]

_new = object.__new__

LONGEST_SHOWN = 200
"""Characters of one value in a repr."""


def member_name(name: str) -> str:
    """The wire's name of a Python name: ``mime_type`` is ``mimeType``, ``meta`` is ``_meta``.

    An underscore at the end changes nothing: it marks a slot behind a property.
    """
    if name == "meta":
        return "_meta"
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class Wire:
    """One object of the protocol as Python sees it.

    ``extra`` holds members that this library does not know; they are written back unchanged. Objects are
    plain and changeable: guard one that several threads change. Mappings are kept, not copied.
    """

    FIELDS: ClassVar[Mapping[str, Kind]] = {}
    """Every member: the Python name and what it may hold, in the order of the wire and of the repr."""
    DROPPED: ClassVar[tuple[str, ...]] = ()
    """Members that belong to the layer above: neither read nor kept."""
    LOCAL: ClassVar[tuple[str, ...]] = ()
    """Attributes that do not travel; None in what was read."""

    _tag: ClassVar[Optional[str]] = None
    _plan: ClassVar[tuple[_Step, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()

    __slots__ = ("extra",)
    extra: Json

    def __init_subclass__(cls) -> None:
        """Work out once what reading and writing go through. A class attribute ``type`` is a member too."""
        cls._plan = tuple(
            (name, member_name(name), kind, kind.wire, kind.read, kind.write, kind.blank)
            for name, kind in cls.FIELDS.items()
        )
        tag = getattr(cls, "type", None)
        cls._tag = tag if isinstance(tag, str) else None
        names = [member for _, member, *_ in cls._plan]
        cls._known = frozenset([*names, *cls.DROPPED, *(["type"] if cls._tag else [])])

    @classmethod
    def from_wire(cls: type[W], mapping: Any) -> W:
        """Read a decoded JSON object. An optional member that is null counts as absent.

        Raises:
            ValueError: It is no object, or a member is missing or of a wrong type; one line says which.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"{cls.__name__}: must be an object, not {json_type(mapping)}")
        made = _new(cls)
        for name in cls.LOCAL:
            setattr(made, name, None)
        known = 0 if cls._tag is None else 1
        for name, member, kind, types, read, _, blank in cls._plan:
            value = mapping.get(member)
            if value is not None or (kind.nullable and member in mapping):
                known += 1
                if type(value) not in types:
                    raise ValueError(f"{cls.__name__}: {member} must be {kind.says}, not {json_type(value)}")
                if read is not None:
                    try:
                        value = read(value)
                    except ValueError as error:
                        raise ValueError(f"{cls.__name__}: {member}: {error}") from None
            elif kind.needed:
                raise ValueError(f"{cls.__name__}: {member} is missing")
            else:
                value = blank
            setattr(made, name, value)
        # Counting is quicker than looking at each name, and nearly always there is nothing unknown.
        if known == len(mapping):
            made.extra = {}
        else:
            made.extra = {member: value for member, value in mapping.items() if member not in cls._known}
        return made

    def to_wire(self) -> Json:
        """The JSON object for the wire, without what is not set. The top level is a fresh dict."""
        made: Json = {} if self._tag is None else {"type": self._tag}
        for name, member, _, _, _, write, blank in self._plan:
            value = getattr(self, name)
            if value is not blank:
                made[member] = value if write is None else write(value)
        return {**self.extra, **made} if self.extra else made

    def _start(self) -> None:
        """The end of every ``__init__``: refuse what does not fit before it gets anywhere near the wire.

        Raises:
            TypeError: A member has a wrong type; one line names it and says what is wanted.
            ValueError: A key of ``meta`` is one that authors may not write; what is set later is not looked at.
        """
        self.extra = {}
        for name, kind in self.FIELDS.items():
            value = getattr(self, name)
            misfit = None if value is kind.blank and not kind.needed else kind.misfit(value)
            if misfit:
                wanted = "bytes" if bytes in kind.python else kind.says
                raise TypeError(f"{type(self).__name__}: {name.rstrip('_')} must be {wanted}, not {misfit}")
        meta = getattr(self, "meta", None)
        if meta:
            check_meta(meta, type(self).__name__)

    def _values(self) -> list[Any]:
        return [self.extra, *(getattr(self, name) for name in self.FIELDS)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wire) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __repr__(self) -> str:
        shown = {
            name.rstrip("_"): getattr(self, name)
            for name, kind in self.FIELDS.items()
            if getattr(self, name) is not kind.blank
        }
        if self.extra:
            shown["extra"] = self.extra
        listing = ", ".join(f"{name}={_short(value)}" for name, value in shown.items())
        return f"{type(self).__name__}({listing})"


def listed(value: Iterable[T]) -> list[T]:
    """A list of its own from what an author handed over.

    What is no collection (text, bytes, a mapping, one of our objects) stays as it is: `Wire._start` refuses
    it then, by the name of the member.
    """
    single = isinstance(value, (str, bytes, dict, Wire)) or not hasattr(value, "__iter__")
    return cast("list[T]", value) if single else list(value)


def listed_or_none(value: Optional[Iterable[T]]) -> Optional[list[T]]:
    """The same for a member that may be left out."""
    return None if value is None else listed(value)


def check_unit(owner: str, name: str, value: Optional[float]) -> None:
    """Refuse a priority outside 0 to 1.

    Raises:
        ValueError: It lies outside.
    """
    if value is not None and not 0 <= value <= 1:
        raise ValueError(f"{owner}: {name} must lie between 0 and 1, not at {value}")


def check_word(owner: str, name: str, value: Optional[str], words: Sequence[str]) -> None:
    """Refuse a word that the protocol does not have for this member.

    Raises:
        ValueError: It is none of `words`.
    """
    if value is not None and value not in words:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(words)}, not {value!r}")
