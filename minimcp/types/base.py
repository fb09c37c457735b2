"""`Wire`, the base class of all objects of the protocol.

A class declares its members as the fields of a dataclass with their types::

    class Root(Wire):
        uri: str
        name: Optional[str] = None

The constructor, reading, writing, validation, comparison and ``repr()`` follow from the
declaration. This is the only place of the package that translates between ``snake_case`` and
``camelCase``. It does not know which members an older revision has: the layer that sends removes
the others.
"""

from __future__ import annotations

import sys
import typing
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Generic,
    Iterable,
    NamedTuple,
    Optional,
    TypeVar,
    Union,
)

from ..record import (
    MISSING,
    DataclassFields,
    Declared,
    FieldsSignature,
    check_call,
    dataclass_transform,
    declare,
    declared_fields,
)

if TYPE_CHECKING:
    from typing_extensions import Self


Held = TypeVar("Held")
Given = TypeVar("Given")

Json = dict[str, Any]
"""A decoded JSON object."""

MAX_SHOWN_LENGTH = 200
"""Maximum length of one value in a ``repr()``."""

MAX_FAULTS = 20
"""Maximum number of faults of one message that are described, because each becomes a line in the
log."""

_WORDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    type(None): "null",
}


class Absent(Enum):
    """The type of `ABSENT`, its only object, which is false."""

    ABSENT = "ABSENT"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent.ABSENT
"""Means "no such member" where None is a value (JSON null)."""


class Converted(Generic[Held, Given]):
    """The type of a field that holds a `Held` and whose constructor accepts a `Given`, for type
    checkers."""

    if TYPE_CHECKING:

        def __get__(self, owner: object, cls: object = None) -> Held: ...
        def __set__(self, owner: object, value: Given) -> None: ...


Items = Converted[list[Held], Iterable[Held]]
"""A list; the constructor copies any collection."""
OptionalItems = Converted[Optional[list[Held]], Optional[Iterable[Held]]]
Bytes = Converted[bytes, Union[bytes, bytearray, memoryview]]


class Faults:
    """The malformed parts of one message, collected by `Wire.salvage`.

    Args:
        where: The part that is being read, such as ``content[2].annotations``.
        found: The location and the reason of each fault; None means a new list.

    Attributes:
        dropped: The items of the list at `where` that were left out, as they arrived.
    """

    def __init__(self, where: str = "", found: Optional[list[tuple[str, str]]] = None) -> None:
        self.where = where
        self.found: list[tuple[str, str]] = [] if found is None else found
        self.dropped: list[Any] = []

    def at(self, step: Union[str, int]) -> Faults:
        """Return the faults of a member or an item of this part; they share one list."""
        if isinstance(step, int):
            where = f"{self.where}[{step}]"
        else:
            where = f"{self.where}.{step}" if self.where else step
        return Faults(where, self.found)

    def replace(self, since: int, reason: object) -> None:
        """Replace the faults after the first `since` by one fault."""
        del self.found[since:]
        self.add(reason)

    def add(self, reason: object) -> None:
        """Add a fault of this part. Only the first `MAX_FAULTS` are described."""
        if len(self.found) < MAX_FAULTS:
            self.found.append((self.where, str(reason)))
        elif len(self.found) == MAX_FAULTS:
            self.found.append((self.where, f"{reason}; further faults are not listed"))


Salvage = Callable[[Any, Faults], Any]
"""Reads a value as far as possible. Raises ValueError if no part of it can be used."""


class MemberType(NamedTuple):
    """The values that a field may hold. A peer's mistake is a ValueError; an author's wrong type is
    a TypeError.

    Attributes:
        says: A description for messages: "a string".
        wire: The exact JSON types that may arrive (a boolean is not a number).
        python: The types that an author may pass.
        each: The types of the elements of a list; None does not check them.
        read: Converts the received value to the held one; if None, it is unchanged. Raises
            ValueError.
        write: Converts the held value to the sent one; if None, it is unchanged.
        convert: Converts the author's value to the held one; if None, it is unchanged.
        check: Raises ValueError for an invalid value; its first argument, which names the field,
            begins the message.
        strict: Whether `check` also applies to received values, which are otherwise kept.
        salvage: Replaces `read` for a value that is malformed in part; if None, all or nothing is
            read.
    """

    says: str
    wire: tuple[type, ...]
    python: tuple[type, ...]
    each: Optional[tuple[type, ...]] = None
    read: Optional[Callable[[Any], Any]] = None
    write: Optional[Callable[[Any], Any]] = None
    convert: Optional[Callable[[Any], Any]] = None
    check: Optional[Callable[[str, Any], object]] = None
    strict: bool = False
    salvage: Optional[Salvage] = None

    def misfit(self, value: Any) -> Optional[str]:
        """Return the type of a value that an author may not pass, or None. True is not a number."""
        found = type(value).__name__
        if not isinstance(value, self.python):
            return found
        if isinstance(value, bool) and bool not in self.python:
            return found
        items: Any = value
        if self.each:
            for item in items:
                if not isinstance(item, self.each):
                    return f"{found} holding {type(item).__name__}"
        return None


def json_type(value: Any) -> str:
    """Return the JSON type of a decoded value, for messages."""
    return _WORDS.get(type(value), "a number")


def member_name(name: str) -> str:
    """Return the wire name of a Python name: ``mime_type`` is ``mimeType``, ``meta`` is
    ``_meta``."""
    if name == "meta":
        return "_meta"
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


def decode_base64(text: str) -> bytes:
    """Decode Base64 with padding. The alphabet for URLs is accepted too, because servers of 2024
    used it.

    Raises:
        ValueError: The text has invalid characters, both alphabets or wrong padding.
    """
    if "+" not in text and "/" not in text:
        text = text.replace("-", "+").replace("_", "/")
    if len(text) % 4:
        raise ValueError("not standard Base64 with padding")
    import base64  # loaded late: few servers use it

    return base64.b64decode(text, validate=True)


def encode_base64(data: bytes) -> str:
    """Return standard Base64 with padding on one line."""
    import base64

    return base64.b64encode(data).decode("ascii")


def as_list(value: Any) -> Any:
    """Return a new list with an author's items.

    A value that is not a collection of items (str, bytes, a mapping, a `Wire`) is returned
    unchanged. It is then rejected with a message that names the field.
    """
    single = isinstance(value, (str, bytes, dict, Wire)) or not hasattr(value, "__iter__")
    return value if single else list(value)


def strings(value: list[Any]) -> list[str]:
    """Return the list itself.

    Raises:
        ValueError: An item is not a string.
    """
    for item in value:
        if type(item) is not str:
            raise ValueError(f"must contain only strings, not {json_type(item)}")
    return value


def each_readable(read: Salvage) -> Salvage:
    """Return a reader of a list that omits the items that `read` rejects."""

    def salvage(value: Any, faults: Faults) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"must be a list, not {json_type(value)}")
        made = []
        for index, item in enumerate(value):
            part = faults.at(index)
            known = len(faults.found)
            try:
                made.append(read(item, part))
            except ValueError as error:
                part.replace(known, error)
                faults.dropped.append(item)
        return made

    return salvage


def _one_string(value: Any, faults: Faults) -> str:
    if type(value) is not str:
        raise ValueError(f"must be a string, not {json_type(value)}")
    return value


def _as_bytes(data: Any) -> Any:
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: float) -> float:
    """Return a number. Raise ValueError if arithmetic with floats is not possible with it."""
    try:
        float(value)
    except OverflowError:
        raise ValueError("is too large") from None
    return value


_JSON_TYPES = (str, int, float, bool, list, dict, type(None))

MEMBER_TYPES: dict[Any, MemberType] = {
    str: MemberType("a string", (str,), (str,)),
    bool: MemberType("true or false", (bool,), (bool,)),
    float: MemberType("a number", (int, float), (int, float), read=_number),
    int: MemberType("a whole number", (int, float), (int,), read=_whole),
    Union[str, int]: MemberType("a string or a whole number", (str, int), (str, int)),
    bytes: MemberType(
        "base64 text", (str,), (bytes,), None, decode_base64, encode_base64, _as_bytes
    ),
    list[str]: MemberType(
        "a list of strings",
        (list,),
        (list,),
        (str,),
        read=strings,
        convert=as_list,
        salvage=each_readable(_one_string),
    ),
    Json: MemberType("an object", (dict,), (dict,)),
    Any: MemberType("a JSON value", _JSON_TYPES, (*_JSON_TYPES, tuple)),
}
"""The types of members by the annotation of a field. `add_member_type` adds the classes of this
package and unions of them."""


def add_member_type(annotation: Any, read: Callable[[Any], Any], salvage: Salvage) -> None:
    """Add a class, or a union of classes, and a list of such objects to `MEMBER_TYPES`.

    Args:
        annotation: The class or the union.
        read: Makes an object from decoded JSON; raises ValueError.
        salvage: The same for an object that is malformed in part.
    """
    classes = typing.get_args(annotation) or (annotation,)
    names = " or ".join(cls.__name__ for cls in classes)
    MEMBER_TYPES[annotation] = MemberType(
        f"an object ({names})", (dict,), classes, None, read, lambda value: value.to_wire(),
        salvage=salvage,
    )  # fmt: skip
    MEMBER_TYPES[list[annotation]] = MemberType(
        f"a list ({names})", (list,), (list,), classes, convert=as_list,
        read=lambda values: [read(value) for value in values],
        write=lambda values: [each.to_wire() for each in values],
        salvage=each_readable(salvage),
    )  # fmt: skip


def member_type_of(annotation: Any) -> MemberType:
    """Return the values that a field with this annotation may hold. A default shows that the member
    may be absent."""
    if annotation in MEMBER_TYPES:
        return MEMBER_TYPES[annotation]
    origin = typing.get_origin(annotation)
    args = typing.get_args(annotation)
    if origin is typing.Literal:
        return MEMBER_TYPES[str]._replace(check=one_of(args), strict=True)
    if origin is Converted:
        return member_type_of(args[0])
    return member_type_of(Union[tuple(arg for arg in args if arg is not type(None))])


def one_of(words: tuple[str, ...]) -> Callable[[str, Any], None]:
    """Return a check that rejects other words than these, and lists with other words."""

    def check(what: str, value: Any) -> None:
        for each in value if isinstance(value, list) else [value]:
            if each not in words:
                raise ValueError(f"{what} must be one of {', '.join(words)}, not {each!r:.60}")

    return check


def unit(what: str, value: float) -> None:
    """Raise ValueError for a number outside 0 to 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{what} must be between 0 and 1, not {value}")


def member(*, default: Any = MISSING, init: bool = True, **about: Any) -> Any:
    """Declare a field with more information than its type.

    Args:
        default: The value if the member is absent; it is not written. Without a default the member
            is required.
        init: Whether the constructor accepts it. If not, it is not a member.
        about: ``local=True``: it is not a member, so it is not read, written or compared. ``name``:
            the wire name, if it differs. ``required=True``: a peer must send it, although an author
            may omit it. All others are attributes of `MemberType` that differ from those of the
            field's type.
    """
    return declare(default, init=init, **{"local": not init, **about})


class _Prepared:
    """An attribute that `Wire._prepare` sets when it is first read.

    A program uses few of the classes, and preparing all of them would take a fifth of its start. If
    two threads read it at the same time, both prepare the class, with the same result.
    """

    NAMES = ("_defaults", "_required", "_known", "_plan")

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type[Wire]) -> Any:
        owner._prepare()
        return getattr(owner, self.name)


@dataclass_transform(field_specifiers=(member,))
class Wire:
    """An object of the protocol.

    ``extra`` holds members that this library does not know; they are written back unchanged.
    (``resultType`` belongs to the layer above.) Mappings are not copied. Two objects are equal if
    they have the same class and members.

    Objects are mutable and not synchronized: use a lock if several threads change one.
    """

    _tag: ClassVar[Optional[str]] = None
    # The fields, those of base classes first.
    _declared: ClassVar[dict[str, Declared]] = {}
    # A hint for the message about a missing attribute.
    _instead: ClassVar[str] = ""
    # For each field: its name, the member's name, its type, and the default (MISSING: required).
    _plan: ClassVar[tuple[tuple[str, str, MemberType, Any], ...]]
    _known: ClassVar[frozenset[str]]
    # The defaults of the constructor's arguments, by name and in order.
    _defaults: ClassVar[Json]
    _required: ClassVar[frozenset[str]]
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __signature__ = FieldsSignature()

    extra: Json

    def __init_subclass__(cls) -> None:
        own = declared_fields(cls)
        cls._declared = {**cls._declared, **own}
        for name in own.keys() & vars(cls).keys():
            if own[name].about.get("local"):
                setattr(cls, name, own[name].default)  # not a member: `from_wire` does not set it
            else:
                delattr(cls, name)  # it would hide a property of a base class
        cls.__dataclass_fields__ = DataclassFields()  # type: ignore[assignment]
        for name in _Prepared.NAMES:
            setattr(cls, name, _Prepared(name))
        tag = getattr(cls, "type", None)
        cls._tag = tag if isinstance(tag, str) else None
        add_member_type(cls, cls.from_wire, cls.salvage)

    @classmethod
    def _prepare(cls) -> None:
        """Make the plan for the constructor, reading and writing."""
        names = vars(sys.modules[cls.__module__])
        plan = []
        for name, declared in cls._declared.items():
            about = declared.about
            if about.get("local"):
                continue  # not a member
            # Not typing.get_type_hints, which takes ten times as long.
            kind = member_type_of(eval(declared.annotation, names))
            kind = kind._replace(
                **{key: value for key, value in about.items() if key in kind._fields}
            )
            default = MISSING if about.get("required") else declared.default
            plan.append((name, about.get("name", member_name(name)), kind, default))
        cls._defaults = {name: each.default for name, each in cls._declared.items() if each.init}
        cls._required = frozenset(
            name for name, default in cls._defaults.items() if default is MISSING
        )
        cls._known = frozenset(
            ["resultType", *(step[1] for step in plan), *(["type"] if cls._tag else [])]
        )
        cls._plan = tuple(plan)

    def __init__(self, *args: Any, **given: Any) -> None:
        named = dict(zip(self._defaults, args), **given)
        values = {**self._defaults, **named}
        count = len(args) + len(given)
        if (
            len(named) < count
            or len(values) > len(self._defaults)
            or not named.keys() >= self._required
        ):
            check_call(type(self), args, given)
        self.__dict__.update(values)
        self.__post_init__()

    @classmethod
    def from_wire(cls, mapping: Any) -> Self:
        """Read a decoded JSON object. An optional member that is null counts as absent.

        Args:
            mapping: The decoded JSON object.

        Raises:
            ValueError: It is not an object, or a member is missing or has a wrong type; one line
                says which.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"{cls.__name__}: must be an object, not {json_type(mapping)}")
        made = object.__new__(cls)
        values = made.__dict__
        for name, member, kind, default in cls._plan:
            value = mapping.get(member)
            if value is not None or (member in mapping and type(None) in kind.wire):
                if type(value) not in kind.wire:
                    raise ValueError(
                        f"{cls.__name__}: {member} must be {kind.says}, not {json_type(value)}"
                    )
                if kind.read is not None:
                    try:
                        value = kind.read(value)
                    except ValueError as error:
                        raise ValueError(f"{cls.__name__}: {member}: {error}") from None
                if kind.strict and kind.check is not None:
                    kind.check(f"{cls.__name__}: {member}", value)
            elif default is MISSING:
                raise ValueError(f"{cls.__name__}: {member} is missing")
            else:
                value = default
            values[name] = value
        made.extra = {
            member: value for member, value in mapping.items() if member not in cls._known
        }
        return made

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> Self:
        """Read a decoded JSON object that may be malformed in part.

        An optional member that cannot be read counts as absent, and a list is read without its
        malformed items. ``extra`` keeps both as they arrived, and they are not written back.
        ``[]``, which PHP writes for an empty object, is read as an empty object.

        Args:
            mapping: The decoded JSON object.
            faults: Receives the location of each malformed part, and the reason.

        Raises:
            ValueError: It is not an object, or a required member is missing or malformed.
        """
        if mapping == []:
            mapping = {}
        if not isinstance(mapping, dict):
            raise ValueError(f"{cls.__name__}: must be an object, not {json_type(mapping)}")
        made = object.__new__(cls)
        broken: Json = {}
        for name, member, kind, default in cls._plan:
            value = mapping.get(member)
            part = faults.at(member)
            is_there = value is not None or (member in mapping and type(None) in kind.wire)
            try:
                if is_there:
                    made.__dict__[name] = _salvaged(kind, value, part)
                    if part.dropped:
                        broken[member] = part.dropped
                elif default is MISSING:
                    raise ValueError("is missing")
                else:
                    made.__dict__[name] = default
            except ValueError as error:
                if default is MISSING and list not in kind.wire:
                    raise ValueError(f"{cls.__name__}: {member} {error}") from None
                part.add(error)
                made.__dict__[name] = [] if default is MISSING else default
                if is_there:
                    broken[member] = value
        unknown = {name: value for name, value in mapping.items() if name not in cls._known}
        made.extra = {**unknown, **broken}
        return made

    def to_wire(self) -> Json:
        """Return the JSON object without members that are not set. The top level is a new dict."""
        made: Json = {} if self._tag is None else {"type": self._tag}
        values = self.__dict__
        for name, member, kind, default in self._plan:
            value = values[name]
            if value is not default:
                made[member] = value if kind.write is None else kind.write(value)
        if not self.extra:
            return made
        # `extra` has known members only if a peer sent them malformed. They are not written back.
        unknown = {name: value for name, value in self.extra.items() if name not in self._known}
        return {**unknown, **made}

    def __post_init__(self) -> None:
        """Validate the fields. Later assignments are not checked.

        Raises:
            TypeError: A field has a wrong type; one line names it and the expected type.
            ValueError: The protocol does not have the value, or authors may not write a key of
                ``meta``.
        """
        self.extra = {}
        values = self.__dict__
        owner = type(self).__name__
        for name, _, kind, default in self._plan:
            if values[name] is default:
                continue
            if kind.convert is not None:
                values[name] = kind.convert(values[name])
            misfit = kind.misfit(values[name])
            if misfit is not None:
                wanted = "bytes" if bytes in kind.python else kind.says
                raise TypeError(f"{owner}: {name} must be {wanted}, not {misfit}")
            if kind.check is not None:
                kind.check(f"{owner}: {name}", values[name])
        if values.get("meta"):
            from .meta import check_meta

            check_meta(values["meta"], owner)

    if not TYPE_CHECKING:  # a type checker would then accept any attribute

        def __getattr__(self, name: str) -> Any:
            hint = f": {self._instead}" if self._instead and not name.startswith("_") else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wire) or type(other) is not type(self):
            return NotImplemented
        same = all(self.__dict__[name] == other.__dict__[name] for name, *_ in self._plan)
        return same and self.extra == other.extra

    def __repr__(self) -> str:
        values = self.__dict__
        shown = {
            name: values[name] for name, _, _, default in self._plan if values[name] is not default
        }
        if self.extra:
            shown["extra"] = self.extra
        members = ", ".join(f"{name}={_short(value)}" for name, value in shown.items())
        return f"{type(self).__name__}({members})"


def _salvaged(kind: MemberType, value: Any, faults: Faults) -> Any:
    """Return the held value for a received one. Raise ValueError if it cannot be read."""
    if value == [] and kind.wire == (dict,):
        value = {}
    if kind.salvage is not None:
        value = kind.salvage(value, faults)
    elif type(value) not in kind.wire:
        raise ValueError(f"must be {kind.says}, not {json_type(value)}")
    elif kind.read is not None:
        value = kind.read(value)
    if kind.strict and kind.check is not None:
        kind.check("it", value)
    return value


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."
