"""`Kind`: one Python type as JSON; and the kinds of everything that annotations are made of.

A kind is made once, when a function is registered. `annotations` chooses which one an annotation
has.
"""

from __future__ import annotations

import operator
import re
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from math import isfinite
from typing import (
    Any,
    Callable,
    Collection,
    Iterable,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    cast,
)

from .mismatch import Mismatch, cut, listed, one_of, unknown_field
from .values import JSON_TYPES, LABELS, NONE_TYPE, TYPE_NAMES, frozen, has_twins, hashed_apart

Convert = Callable[[Any], Any]

_LISTS, OBJECTS = frozenset({list}), frozenset({dict})


@dataclass(eq=False, repr=False)
class Kind:
    """How one Python type looks in JSON. Immutable by convention, thread-safe.

    Args:
        schema: JSON Schema 2020-12 of its values.
        read: From decoded JSON to the Python value. Raises `Mismatch` for what the schema refuses.
        write: From the Python value to what the JSON encoder takes. Raises `Mismatch` for another
            type's value.
        label: What messages call it: "an integer".
        accepts: The types of decoded JSON that can fit at all.
        exact: The types whose instances `read` and `write` both return as they are; ``float`` is
            the only one, if it is one, and means the finite ones.
        exact_items: For a list that stays a list, the types of items that all stay as they are.
        writes: The class whose instances `write` takes; None when there is no one class.
        hashable: Whether its values can stand in a set.
        required: Whether ``Required`` or ``NotRequired`` stands round it; None when neither does.
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
        """The same kind whose schema says more: a description, a default."""
        return replace(self, schema={**self.schema, **words})


# ------------------------------------------------------------ JSON's own types


def native(value: Any) -> Any:
    """Return a scalar of NumPy as the Python object that it stands for; any other value as it
    is."""
    generic = getattr(sys.modules.get("numpy"), "generic", None)
    if generic is None or not isinstance(value, generic):
        return value
    plain, kind = value.item(), value.dtype.kind
    if kind == "f" and isinstance(plain, generic):  # a long double
        return float(value)
    if kind in "mM" and isinstance(plain, int):  # of a unit that Python does not have
        plain = value.astype(f"{kind}8[us]").item()
        return str(value) if isinstance(plain, int) else plain
    return plain


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise Mismatch("a string", value)


def _integer(value: Any) -> int:
    """Integers, 1.0 among them; on the way out also an IntEnum's, and those of numeric libraries.
    True is none."""
    plain = native(value)
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    if not isinstance(plain, bool) and hasattr(plain, "__index__"):
        with suppress(TypeError):  # an array has the method too
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
    if native(value) is not None:  # NumPy's "not a time" stands for None
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


# -------------------------------------------------------- classes that travel as strings or numbers


def class_of(
    cls: type,
    label: str,
    load: Convert,
    dump: Convert = str,
    sent: frozenset[type] = TEXT.accepts,
    **schema: Any,
) -> Kind:
    """A class whose instances travel as strings or numbers.

    Args:
        cls: The class.
        label: What messages call what is sent.
        load: Makes an instance; ValueError refuses what was sent.
        dump: The way back; ValueError refuses an instance.
        sent: The types of decoded JSON that `load` takes.
        schema: That of what is sent; without any a string.
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
    """The match of a whole text; ValueError when there is none."""
    found = re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError(text)
    return found


_INTEGER_NAME = "^(0|-?[1-9][0-9]{0,99})$"
# ``int`` as the name of an object's member: ``{"7": ...}``.
INTEGER_NAME = class_of(
    int,
    "a name that is an integer",
    lambda text: int(matched(_INTEGER_NAME, text)[0]),
    lambda value: matched(_INTEGER_NAME, str(int(value)))[0],
    pattern=_INTEGER_NAME,
)


# ------------------------------------------------------------ one value of a few


def _choice(pairs: Sequence[tuple[Any, Any]], names: Mapping[str, Any]) -> Kind:
    """One of a few values.

    Args:
        pairs: Each JSON value with the Python value that it stands for.
        names: What a caller might write instead, and the JSON value that is meant.
    """
    sent = [value for value, _ in pairs]
    label = one_of(sent)
    hints = (
        {**{value: value for value in sent if isinstance(value, str)}, **names}
        if len(sent) > 1
        else None
    )
    incoming = {frozen(value): meant for value, meant in pairs}
    outgoing = {(type(meant), meant): value for value, meant in pairs}

    def read(value: Any) -> Any:
        try:
            return incoming[frozen(value)]
        except KeyError:
            raise Mismatch(label, value, choices=hints) from None

    def write(value: Any) -> Any:
        try:
            return outgoing[type(value), value]
        except (KeyError, TypeError):
            return write(read(native(value)))  # the bare value of an enum's member

    types = frozenset(map(type, sent))
    schema = SCALARS[type(sent[0])].schema if len(types) == 1 else {}
    schema = {**schema, **({"const": sent[0]} if len(sent) == 1 else {"enum": sent})}
    return Kind(
        schema, read, write, label, types | NUMBER.accepts if types & NUMBER.accepts else types
    )


def literal(values: Sequence[Any]) -> Kind:
    """``Literal[...]``. Raises TypeError when there is no value, or one of them has no JSON
    form."""
    pairs = [(value.value if isinstance(value, Enum) else value, value) for value in values]
    if not pairs or not all(isinstance(value, tuple(SCALARS)) for value, _ in pairs):
        raise TypeError(
            f"Literal{list(values)!r} has no JSON form: use strings, integers, booleans or None"
        )
    return _choice(pairs, {})


def _is_json(value: Any) -> bool:
    return type(value) in SCALARS and (type(value) is not float or isfinite(value))


def enumeration(cls: Any) -> Kind:
    """An `Enum` by the values of its members, or by their names where a value has no JSON form.

    Raises:
        TypeError: It has no members.
    """
    members = list(cls)
    if not members:
        raise TypeError(f"the enum {cls.__name__} has no members")
    if not all(_is_json(member.value) for member in members):
        return _choice([(member.name, member) for member in members], {})
    names = {name: member.value for name, member in cls.__members__.items()}
    return _choice([(member.value, member) for member in members], names)


# ------------------------------------------------------------ unions


# Of each thread, while it reads a value that a union takes: ``results``, what each union has made
# of each list and object inside it, all unions together. Each union tries its members on all that
# is below: without this, every level of nesting would multiply the work.
_reading = threading.local()


def union(members: Sequence[Kind]) -> Kind:
    """The first member that fits; among numbers, that of the value's own type goes first: 1 is an
    int, 1.0 a float.

    The error of the only member that takes the value's JSON type is told as it is; otherwise all
    are named.
    """
    by_type = {each: [kind for kind in members if each in kind.accepts] for each in JSON_TYPES}
    for number in (int, float):
        by_type[number].sort(key=lambda kind: kind.exact != {number})
    by_class = {kind.writes: kind for kind in members if kind.writes is not None}
    label = cut(listed(dict.fromkeys(kind.label for kind in members)), 200)
    same = tuple(map(id, members))  # unions of the same members share their results

    def read(value: Any) -> Any:
        candidates = by_type.get(type(value), [])
        if len(candidates) < 2 or not isinstance(value, (dict, list)):
            return first(value, candidates)
        is_outermost = not hasattr(_reading, "results")
        if is_outermost:
            _reading.results = {}
        results = _reading.results
        key = (same, id(value))
        try:
            if key not in results:
                # with the value, so that no other one gets its id meanwhile
                results[key] = value, first(value, candidates)
        except Mismatch as error:
            results[key] = value, Mismatch(label, value, instead=str(error))
        finally:
            if is_outermost:
                del _reading.results
        found = results[key][1]
        if isinstance(found, Mismatch):
            raise Mismatch(label, value, instead=found.instead)
        return found

    def first(value: Any, candidates: Sequence[Kind]) -> Any:
        errors: list[Mismatch] = []
        for kind in candidates:
            try:
                return kind.read(value)
            except Mismatch as error:
                errors.append(error)
        if len(errors) > 1 and any(error.path for error in errors):
            tries = [
                f"as {cut(kind.label)}: {cut(str(error), 120)}"
                for kind, error in zip(candidates, errors)
            ]
            raise Mismatch(
                label,
                value,
                instead=f"fits none of {len(tries)} forms ({cut('; '.join(tries), 500)})",
            )
        hinting = [error for error in errors if len(errors) == 1 or error.hint]
        raise hinting[0] if hinting else Mismatch(label, value)

    def write(value: Any) -> Any:
        value = native(value)
        own = by_class.get(type(value))  # before its base class, which would leave half of it out
        reason = Mismatch(label, value)
        for kind in members if own is None else (own, *members):
            try:
                return kind.write(value)
            except Mismatch as error:
                if kind is own:
                    reason = error
        raise reason

    accepts = frozenset(each for each in by_type if by_type[each])
    exact = frozenset(each for each in accepts - {float} if each in by_type[each][0].exact)
    schema = {"anyOf": [kind.schema for kind in members]}
    return Kind(
        schema, read, write, label, accepts, exact, hashable=all(kind.hashable for kind in members)
    )


# ------------------------------------------------------------ lists and objects


def _convert_each(
    items: Iterable[Any], convert: Convert, keys: Optional[Iterable[Any]] = None
) -> list[Any]:
    """`convert` of each item; a Mismatch names its key, or its index, which is the number of items
    done before."""
    done: list[Any] = []
    try:
        done.extend(map(convert, items))
    except Mismatch as error:
        key = len(done) if keys is None else list(keys)[len(done)]
        raise error.inside(key if isinstance(key, (str, int)) else str(key)) from None
    return done


def _untouched(item: Kind, values: Collection[Any]) -> bool:
    """A quick test whether all values can stay as they are; False may mean that it is not known."""
    return item.exact.issuperset(map(type, values)) and (
        float not in item.exact or all(map(isfinite, values))
    )


def array(item: Kind, make: Callable[[list[Any]], Any] = list, *, unique: bool = False) -> Kind:
    """A list, tuple or set of equal items.

    Args:
        item: What each of them is.
        make: The class of the Python value.
        unique: Whether it is a set: no two items may be equal.
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
        values = value if type(value) is list else list(value)
        done = values if _untouched(item, values) else _convert_each(values, item.write)
        if unique and has_twins(done):
            raise Mismatch(
                label, value, instead=f"expected {label}, but two items are written alike"
            )
        return done

    items = {"items": item.schema} if item.schema else {}
    schema = {"type": "array", **items, **({"uniqueItems": True} if unique else {})}
    hashable = make is frozenset or (make is tuple and item.hashable)
    exact_items = item.exact - {float} if make is list else frozenset()
    return Kind(schema, read, write, label, _LISTS, exact_items=exact_items, hashable=hashable)


def fixed(items: Sequence[Kind]) -> Kind:
    """A tuple of so many items, each of its own kind."""
    count = len(items)
    label = (
        f"a list of {count} ({listed((kind.label for kind in items), 'and')})"
        if items
        else "an empty list"
    )

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


# A name in an object of anything: a string; on the way out an integer too, as the standard library
# has it.
FREE_NAME = replace(TEXT, write=_write_name)


def mapping(key: Kind, item: Kind) -> Kind:
    """An object with free keys.

    Args:
        key: What the names are; it reads strings.
        item: What the values are.
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
        if not hasattr(value, "items"):
            raise Mismatch("a dict", value)
        return each(dict(value.items()), key.write, item.write)

    return Kind(schema, read, write, "an object", OBJECTS, hashable=False)


# ------------------------------------------------------------ objects with known fields


class Field(NamedTuple):
    """One member of an object, or one argument that a caller may send.

    Args:
        name: Its name in JSON, by which the constructor or function takes it as well.
        required: Whether it has to be sent.
        kind: Its type; the schema has the description and the default.
        attribute: The attribute that holds it in Python.
        taken: Whether the constructor takes it.
    """

    name: str
    required: bool
    kind: Kind
    attribute: str = ""
    taken: bool = True

    @property
    def description(self) -> str:
        """What the docstring or `Annotated` says about it; empty when neither does."""
        return str(self.kind.schema.get("description", ""))


def record_schema(fields: Sequence[Field], *, all_required: bool = False) -> dict[str, Any]:
    """The JSON Schema of an object with these fields. ``properties`` is there even without any.

    Clients exist that cannot read the schema of a tool without it, and others that cannot read
    ``additionalProperties``: other fields are rejected, but the schema does not say so.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: field.kind.schema for field in fields},
    }
    required = [field.name for field in fields if field.required or all_required]
    return {**schema, "required": required} if required else schema


def record_label(fields: Sequence[Field]) -> str:
    """What messages call an object of these fields."""
    names = [field.name for field in fields]
    return cut(f"an object with {listed(names, 'and')}", 120) if names else "an empty object"


def record_reader(fields: Sequence[Field], make: Callable[..., Any]) -> Convert:
    """A function from a JSON object to a Python value.

    Args:
        fields: All that the object may have.
        make: Called with those that were sent; `dict` may have members of any name.
    """
    label, required = record_label(fields), [field.name for field in fields if field.required]
    code = getattr(getattr(make, "__init__", None), "__code__", None)
    by_position = (
        code is not None
        and list(code.co_varnames[1 : code.co_argcount])[: len(required)] == required
    )

    def refused(value: Any, error: Exception) -> Mismatch:
        reason = cut(" ".join(str(error).split()) or type(error).__name__, 200)
        return Mismatch(label, value, instead=f"expected {label} that is valid: {reason}")

    names = {"make": make, "label": label, "refused": refused, "unfit": partial(_unfit, fields)}
    size, parts = str(len(required)), []
    for field in sorted(fields, key=lambda field: by_position and not field.required):
        part = _converted(field, field.kind.read, f"value[{field.name!r}]", names)
        if not field.required:
            size += f" + ({field.name!r} in value)"
            part = f"**({{{field.name!r}: {part}}} if {field.name!r} in value else {{}})"
        elif make is dict:
            part = f"{field.name!r}: {part}"
        elif not by_position:  # which takes less time
            part = f"{field.name}={part}"
        parts.append(part)
    whole = ", ".join(parts)
    return _compiled(
        _READER, names, whole=f"{{{whole}}}" if make is dict else f"make({whole})", size=size
    )


def record_writer(fields: Sequence[Field], cls: type) -> Convert:
    """A function from an instance of `cls` (or of a subclass) to a JSON object; from a dict, if
    that is the class."""
    if issubclass(cls, dict):
        return record_reader(
            [each._replace(kind=replace(each.kind, read=each.kind.write)) for each in fields], dict
        )
    names = {"cls": cls, "label": f"a {cls.__name__}"}
    parts = [
        (field.name, _converted(field, field.kind.write, f"value.{field.attribute}", names))
        for field in fields
    ]
    return _compiled(_WRITER, names, whole=", ".join(f"{name!r}: {part}" for name, part in parts))


# Both functions are generated, for tools take and return many records, and a loop over the fields
# takes three times as long. The source has the author's own names, as literals, and nothing else
# from outside. For a class with ``id: int`` and ``at: Place = HERE`` the reader returns::
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
    except KeyError as error:  # of the constructor, if it has all fields
        raise unfit(value) or error from None
    except (TypeError, ValueError) as error:  # of a constructor that checks on its own account
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
    """Source of a converted field, for which names are added. What stays as it is costs no call."""
    kind, types, converted = field.kind, f"types{len(names)}", f"converts[(at := {field.name!r})]"
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
    """What is wrong with an object that lacks a field or has one too many; None for any other."""
    known = [field.name for field in fields]
    unknown = next((name for name in value if name not in known), None)
    lacking = [field for field in fields if field.required and field.name not in value]
    missing = [field.name for field in lacking]
    if unknown is not None:
        return unknown_field(value, unknown, known, missing)
    if missing:
        also = f" (missing too: {cut(listed(missing[1:], 'and'))})" if missing[1:] else ""
        wanted = lacking[0].kind.label
        return Mismatch(wanted, instead=f"expected {wanted}, got nothing{also}").inside(missing[0])
    return None
