"""`Kind`: one Python type as JSON; and the kinds of scalars, lists, mappings and records.

A kind is made once, when a function is registered. `annotations` chooses the kind of an annotation.
"""

from __future__ import annotations

import operator
import re
from contextlib import suppress
from functools import lru_cache, partial
from math import isfinite
from typing import (
    Any,
    Callable,
    Collection,
    Iterable,
    NamedTuple,
    Optional,
    Sequence,
    cast,
)

from .mismatch import Mismatch, cut, join_words, unknown_field
from .values import LABELS, NONE_TYPE, TYPE_NAMES, has_twins, hashed_apart

Convert = Callable[[Any], Any]

_LISTS = frozenset({list})
OBJECTS = frozenset({dict})


class Kind(NamedTuple):
    """The JSON form of one Python type. Immutable by convention, thread-safe.

    Args:
        schema: JSON Schema 2020-12 of its values.
        read: Converts decoded JSON to the Python value. Raises `Mismatch` if the schema rejects it.
        write: Converts the Python value for the JSON encoder. Raises `Mismatch` for a value of
            a different type.
        label: The description in messages: "an integer".
        accepts: The types of decoded JSON that may match.
        exact: The types whose instances `read` and `write` return unchanged. ``float`` is used only
            alone and means finite floats.
        exact_items: For a list that stays a list: the types of items that stay unchanged.
        writes: The class whose instances `write` accepts; None if there is not exactly one.
        hashable: Whether its values can be members of a set.
        required: Whether the annotation is ``Required`` or ``NotRequired``; None if neither.
    """

    schema: dict[str, Any]
    read: Convert
    write: Convert
    label: str
    accepts: frozenset[type]
    exact: frozenset[type] = frozenset()
    exact_items: frozenset[type] = frozenset()
    writes: Optional[type] = None
    hashable: bool = True
    required: Optional[bool] = None

    def with_words(self, **words: Any) -> Kind:
        """Return the same kind with additional keywords in its schema, such as a description or a
        default."""
        # Not `_replace`, which takes three times as long.
        return Kind({**self.schema, **words}, *self[1:])


# ------------------------------------------------------------ JSON's own types


# Packages whose values `tables` converts.
_PACKAGES = frozenset({"numpy", "pandas", "sqlite3"})


def _is_foreign(cls: Any) -> bool:
    """Return whether a class is one of NumPy, pandas or `sqlite3`, or a subclass of one."""
    return not _PACKAGES.isdisjoint(base.__module__.partition(".")[0] for base in cls.__mro__)


is_foreign: Callable[[Any], bool] = lru_cache(maxsize=512)(_is_foreign)


def native(value: Any) -> Any:
    """Convert a value of NumPy, pandas or `sqlite3` to plain Python; return others unchanged."""
    if not is_foreign(type(value)):
        return value
    from .tables import plain  # few servers have such values

    return plain(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise Mismatch("a string", value)


def _integer(value: Any) -> int:
    """Convert an integer, 1.0, an IntEnum or an integer of a numeric library; reject True and
    False."""
    if type(value) is int:
        return value
    plain = native(value)
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if not isinstance(plain, bool) and hasattr(plain, "__index__"):
        with suppress(TypeError):  # arrays have the method too
            return int(operator.index(plain))
    raise Mismatch("an integer", value)


def _number(value: Any) -> float:
    """Convert a finite number, or an object with ``__index__`` or ``__float__``.

    An integer that is too large for a float stays an integer.
    """
    plain = native(value)
    if not isinstance(plain, (bool, float)):
        try:
            whole = _integer(plain)
            return float(whole)
        except OverflowError:
            return whole
        except Mismatch:
            pass
        if hasattr(plain, "__float__"):
            with suppress(TypeError, ValueError, OverflowError):
                plain = float(plain)
    if isinstance(plain, float) and isfinite(plain):
        return float(plain)
    raise Mismatch("a number", value)


def _boolean(value: Any) -> bool:
    plain = native(value)
    if isinstance(plain, bool):
        return plain
    raise Mismatch("true or false", value)


def _null(value: Any) -> None:
    if native(value) is not None:  # NumPy's "not a time" becomes None
        raise Mismatch("null", value)


def _scalar(cls: type, convert: Convert, *accepts: type) -> Kind:
    name = TYPE_NAMES[cls]
    return Kind(
        {"type": name},
        convert,
        convert,
        LABELS[name],
        frozenset({cls, *accepts}),
        frozenset({cls}),
        writes=cls,
    )


TEXT = _scalar(str, _text)
NUMBER = _scalar(float, _number, int)
SCALARS: dict[Any, Kind] = {
    str: TEXT,
    float: NUMBER,
    int: _scalar(int, _integer, float),
    bool: _scalar(bool, _boolean),
    NONE_TYPE: _scalar(NONE_TYPE, _null),
}


# ------------------------------------------------------------ classes sent as strings or numbers


def class_of(
    cls: type,
    label: str,
    load: Convert,
    dump: Convert = str,
    sent: frozenset[type] = TEXT.accepts,
    **schema: Any,
) -> Kind:
    """Return the kind of a class whose instances are sent as strings or numbers.

    Args:
        cls: The class.
        label: The description of the sent value in messages.
        load: Makes an instance; raises ValueError for an invalid value.
        dump: Converts an instance to the sent value; raises ValueError for an invalid instance.
        sent: The types of decoded JSON that `load` accepts.
        schema: Keywords of the sent value's schema; the default type is a string.
    """

    def read(value: Any) -> Any:
        try:
            if type(value) in sent:
                return load(value)
        except (ValueError, OverflowError):
            pass
        raise Mismatch(label, value)

    def write(value: Any) -> Any:
        plain = value if isinstance(value, cls) else native(value)
        if not isinstance(plain, cls):
            raise Mismatch(f"a value of type {cls.__name__}", value)
        try:
            return dump(plain)
        except Mismatch:
            raise
        except ValueError:
            raise Mismatch(label, value) from None

    return Kind({"type": "string", **schema}, read, write, label, sent, writes=cls)


def matched(pattern: str, text: str) -> re.Match[str]:
    """Return the match of a whole text; raise ValueError if there is none."""
    found = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError(text)
    return found


_INTEGER_NAME = "^(0|-?[1-9][0-9]{0,99})$"
# An ``int`` as the name of an object's member: ``{"7": ...}``.
INTEGER_NAME = class_of(
    int,
    "a name that is an integer",
    lambda text: int(matched(_INTEGER_NAME, text)[0]),
    lambda value: matched(_INTEGER_NAME, str(int(value)))[0],
    pattern=_INTEGER_NAME,
)


# ------------------------------------------------------------ lists and objects


def _convert_each(
    items: Iterable[Any], convert: Convert, keys: Optional[Iterable[Any]] = None
) -> list[Any]:
    """Return `convert` of each item. A Mismatch gets the key or index of the item."""
    done: list[Any] = []
    try:
        done.extend(map(convert, items))
    except Mismatch as error:  # the failed item's index is the number of converted items
        key = len(done) if keys is None else list(keys)[len(done)]
        raise error.inside(key if isinstance(key, (str, int)) else str(key)) from None
    return done


def _untouched(item: Kind, values: Collection[Any]) -> bool:
    """Return True if all values surely stay unchanged. This is a quick test; False may mean
    unknown."""
    return item.exact.issuperset(map(type, values)) and (
        float not in item.exact or all(map(isfinite, values))
    )


def array(item: Kind, make: Callable[[list[Any]], Any] = list, *, unique: bool = False) -> Kind:
    """Return the kind of a list, tuple or set of equal items.

    Args:
        item: The kind of the items.
        make: The class of the Python value.
        unique: Whether it is a set, in which no two items may be equal.
    """
    label = "a list without duplicates" if unique else "a list"

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch(label, value)
        if unique and has_twins(value):
            raise Mismatch(label, value, instead=f"expected {label}, got the same item twice")
        done = value if _untouched(item, value) else _convert_each(value, item.read)
        return done if make is list else make(hashed_apart(done) if unique else done)

    def write(value: Any) -> list[Any]:
        if isinstance(value, (str, bytes, bytearray, dict)) or not hasattr(value, "__iter__"):
            raise Mismatch(f"a {getattr(make, '__name__', 'list')}", value)
        plain = native(value)
        values = plain if type(plain) is list else list(value)
        done = values if _untouched(item, values) else _convert_each(values, item.write)
        if unique and has_twins(done):
            raise Mismatch(
                label, value, instead=f"expected {label}, but two items have the same JSON form"
            )
        return done

    items = {"items": item.schema} if item.schema else {}
    schema = {"type": "array", **items, **({"uniqueItems": True} if unique else {})}
    hashable = make is frozenset or (make is tuple and item.hashable)
    exact_items = item.exact - {float} if make is list else frozenset()
    return Kind(schema, read, write, label, _LISTS, exact_items=exact_items, hashable=hashable)


def fixed(items: Sequence[Kind]) -> Kind:
    """Return the kind of a tuple with a fixed number of items, each of its own kind."""
    count = len(items)
    label = "an empty list"
    if items:
        label = f"a list of {count} ({join_words((kind.label for kind in items), 'and')})"

    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != count:
            raise Mismatch(label, value)
        return tuple(_convert_each(zip(items, value), lambda pair: pair[0].read(pair[1])))

    def write(value: Any) -> list[Any]:
        if not isinstance(value, (tuple, list)) or len(value) != count:
            raise Mismatch(f"a tuple of {count}", value)
        return _convert_each(zip(items, value), lambda pair: pair[0].write(pair[1]))

    prefix = {"prefixItems": [kind.schema for kind in items], "minItems": count} if items else {}
    schema = {"type": "array", **prefix, "maxItems": count}
    return Kind(schema, read, write, label, _LISTS, hashable=all(kind.hashable for kind in items))


def _write_name(value: Any) -> str:
    plain = native(value)
    if isinstance(plain, int) and not isinstance(plain, bool):
        return str(int(plain))
    return _text(plain)


# The name of a member of any object: a string, or when written also an integer, as in `json.dumps`.
FREE_NAME = TEXT._replace(write=_write_name)


def mapping(key: Kind, item: Kind) -> Kind:
    """Return the kind of an object with free keys.

    Args:
        key: The kind of the names; it reads strings.
        item: The kind of the values.
    """
    schema: dict[str, Any] = {
        "type": "object",
        **({"additionalProperties": item.schema} if item.schema else {}),
    }
    names = {word: rule for word, rule in key.schema.items() if (word, rule) != ("type", "string")}
    if names:
        schema["propertyNames"] = names

    def each(value: Any, convert_key: Convert, convert: Convert) -> Any:
        names = []
        for name in value:
            try:
                names.append(convert_key(name))
            except Mismatch as error:
                raise Mismatch("", value, instead=f"the name {cut(repr(name))}: {error}") from None
        made = dict(zip(hashed_apart(names), _convert_each(value.values(), convert, value)))
        if len(made) < len(value):
            raise Mismatch("", value, instead="two names of the object stand for the same key")
        return made

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch("an object", value)
        if key.exact == {str} and (not item.schema or _untouched(item, value.values())):
            return value
        return each(value, key.read, item.read)

    def write(value: Any) -> Any:
        plain = value if hasattr(value, "items") else native(value)
        if not hasattr(plain, "items"):
            raise Mismatch("a dict", value)
        return each(dict(plain.items()), key.write, item.write)

    return Kind(schema, read, write, "an object", OBJECTS, hashable=False)


# ------------------------------------------------------------ objects with known fields


class Field(NamedTuple):
    """One member of an object, or one argument that a caller may send.

    Args:
        name: Its name in JSON and in the constructor or function.
        required: Whether it must be sent.
        kind: Its kind; the schema has the description and the default.
        attribute: The Python attribute that holds it.
        taken: Whether the constructor takes it.
    """

    name: str
    required: bool
    kind: Kind
    attribute: str = ""
    taken: bool = True

    @property
    def description(self) -> str:
        """The description in the docstring or in `Annotated`; empty if there is none."""
        return str(self.kind.schema.get("description", ""))


def record_schema(fields: Sequence[Field], *, all_required: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of an object with these fields. ``properties`` is present even if
    empty.

    Some clients cannot read the schema of a tool without ``properties``, and others cannot read
    ``additionalProperties``. Other fields are rejected, but the schema does not say so.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: field.kind.schema for field in fields},
    }
    required = [field.name for field in fields if field.required or all_required]
    return {**schema, "required": required} if required else schema


def record_label(fields: Sequence[Field]) -> str:
    """Return the description of an object with these fields in messages."""
    names = [field.name for field in fields]
    return cut(f"an object with {join_words(names, 'and')}", 120) if names else "an empty object"


def record_reader(fields: Sequence[Field], make: Callable[..., Any]) -> Convert:
    """Return a function that converts a JSON object to a Python value.

    Args:
        fields: All fields that the object may have.
        make: Called with the fields that were sent; `dict` permits members of any name.
    """
    label = record_label(fields)
    required = [field.name for field in fields if field.required]
    code = getattr(getattr(make, "__init__", None), "__code__", None)
    by_position = (
        code is not None
        and list(code.co_varnames[1 : code.co_argcount])[: len(required)] == required
    )

    def refused(value: Any, error: Exception) -> Mismatch:
        reason = cut(" ".join(str(error).split()) or type(error).__name__, 200)
        return Mismatch(label, value, instead=f"expected {label} that is valid: {reason}")

    names = {"make": make, "label": label, "refused": refused, "unfit": partial(_unfit, fields)}
    size = str(len(required))
    parts = []
    for field in sorted(fields, key=lambda field: by_position and not field.required):
        part = _converted(field, field.kind.read, f"value[{field.name!r}]", names)
        if not field.required:
            size += f" + ({field.name!r} in value)"
            part = f"**({{{field.name!r}: {part}}} if {field.name!r} in value else {{}})"
        elif make is dict:
            part = f"{field.name!r}: {part}"
        elif not by_position:  # arguments by position are faster
            part = f"{field.name}={part}"
        parts.append(part)
    whole = ", ".join(parts)
    return _compiled(
        _READER, names, whole=f"{{{whole}}}" if make is dict else f"make({whole})", size=size
    )


def record_writer(fields: Sequence[Field], cls: type) -> Convert:
    """Return a function that converts an instance of `cls` to a JSON object. If `cls` is a dict, it
    converts a dict."""
    if issubclass(cls, dict):
        write = record_reader(
            [each._replace(kind=each.kind._replace(read=each.kind.write)) for each in fields], dict
        )
        return lambda value: write(value if type(value) is dict else native(value))
    names = {"cls": cls, "label": f"a {cls.__name__}"}
    parts = [
        (field.name, _converted(field, field.kind.write, f"value.{field.attribute}", names))
        for field in fields
    ]
    return _compiled(_WRITER, names, whole=", ".join(f"{name!r}: {part}" for name, part in parts))


# Both functions are generated, because tools handle many records, and a loop over the fields takes
# three times as long. The source contains the author's own names as literals and nothing else from
# outside. For a class with ``id: int`` and ``at: Place = HERE`` the reader returns::
#
#     make((v if type(v := value['id']) is types4 else converts[(at := 'id')](v)),
#          **({'at': converts[(at := 'at')](value['at'])} if 'at' in value else {}))
_READER = """
def convert(value):
    if type(value) is not dict:
        raise Mismatch(label, value)
    if len(value) != {size}:
        raise unfit(value)
    at = None
    try:
        return {whole}
    except Mismatch as error:
        raise unfit(value) or (error if at is None else error.inside(at)) from None
    except KeyError as error:  # raised by the constructor if no field is missing
        raise unfit(value) or error from None
    except (TypeError, ValueError) as error:  # raised by a constructor that validates
        raise refused(value, error) from error
"""
_WRITER = """
def convert(value):
    if not isinstance(value, cls):
        raise Mismatch(label, value)
    at = None
    try:
        return {{{whole}}}
    except Mismatch as error:
        raise (error if at is None else error.inside(at)) from None
"""


def _converted(field: Field, convert: Convert, part: str, names: dict[str, Any]) -> str:
    """Return the source of a converted field and add the names that it uses. A value that stays
    unchanged needs no call."""
    kind = field.kind
    types = f"types{len(names)}"
    converted = f"converts[(at := {field.name!r})]"
    names.setdefault("converts", {})[field.name] = convert
    exact = kind.exact or kind.exact_items
    if not exact:
        return f"{converted}({part})"
    word, names[types] = ("in", exact) if len(exact) > 1 else ("is", *exact)
    if kind.exact:
        test = f"type(v := {part}) {word} {types}{' and v - v == 0.0' if float in exact else ''}"
    else:
        test = (
            f"type(v := {part}) is list and not [item for item in v if not type(item) {word} "
            f"{types}]"
        )
    return f"(v if {test} else {converted}(v))"


def _compiled(source: str, names: dict[str, Any], **parts: str) -> Convert:
    namespace = {"Mismatch": Mismatch, **names}
    exec(source.format(**parts), namespace)
    return cast(Convert, namespace["convert"])


def _unfit(fields: Sequence[Field], value: dict[str, Any]) -> Optional[Mismatch]:
    """Return what is wrong with an object that lacks a field or has an unknown one, or None."""
    known = [field.name for field in fields]
    unknown = next((name for name in value if name not in known), None)
    lacking = [field for field in fields if field.required and field.name not in value]
    missing = [field.name for field in lacking]
    if unknown is not None:
        return unknown_field(value, unknown, known, missing)
    if missing:
        also = f" (missing too: {cut(join_words(missing[1:], 'and'))})" if missing[1:] else ""
        wanted = lacking[0].kind.label
        return Mismatch(wanted, instead=f"expected {wanted}, got nothing{also}").inside(missing[0])
    return None
