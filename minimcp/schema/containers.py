"""The kinds made of one other kind, many times: lists, sets, tuples, objects with free keys."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Sequence

from .equality import has_twins
from .kind import Convert, Kind
from .mismatch import Mismatch, cut, listed

_LIST = frozenset({list})
_OBJECT = frozenset({dict})


def convert_each(items: Iterable[Any], convert: Convert) -> List[Any]:
    """`convert` of each item; a Mismatch names the index.

    ``extend`` keeps what it has taken before an error, so that the length of `done` is the index.
    """
    done: List[Any] = []
    try:
        done.extend(map(convert, items))
    except Mismatch as error:
        raise error.inside(len(done)) from None
    return done


def _untouched(item: Kind) -> Callable[[Sequence[Any]], bool]:
    """A quick test whether every value of a list passes as it is; False may mean that it was not worth asking."""
    exact = item.exact
    if exact is None:
        return lambda values: not values
    only = {exact}
    if exact is float:
        from math import isfinite

        return lambda values: set(map(type, values)) <= only and all(map(isfinite, values))
    return lambda values: set(map(type, values)) <= only


def array(item: Kind, make: Callable[[List[Any]], Any] = list, *, unique: bool = False) -> Kind:
    """A list, tuple or set of equal items.

    Args:
        item: What each of them is.
        make: The class of the Python value.
        unique: Whether it is a set: no two items may be equal.
    """
    untouched = _untouched(item)
    read_item, write_item = item.read, item.write
    as_is = make is list
    label = "a list without duplicates" if unique else "a list"
    wanted = f"a {getattr(make, '__name__', 'list')}"

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Mismatch(label, value)
        if unique and has_twins(value):
            raise Mismatch(label, value, instead=f"expected {label}, got the same item twice")
        done = value if untouched(value) else convert_each(value, read_item)
        return done if as_is else make(done)

    def write(value: Any) -> List[Any]:
        if isinstance(value, (str, bytes, bytearray, dict)) or not hasattr(value, "__iter__"):
            raise Mismatch(wanted, value)
        values = value if type(value) is list else list(value)
        done = values if untouched(values) else convert_each(values, write_item)
        if unique and has_twins(done):
            raise Mismatch(label, value, instead=f"expected {label}, but two items are written alike")
        return done

    schema: Dict[str, Any] = {"type": "array", **({"items": item.schema} if item.schema else {})}
    if unique:
        schema["uniqueItems"] = True
    plain = as_is and item.is_plain
    kind = Kind(schema, read, write, label, _LIST, is_plain=plain, hashable=_hashable(make, item))
    return kind.changed(exact_items=item) if as_is and item.exact is not None else kind


def _hashable(make: Any, item: Kind) -> bool:
    return make is frozenset or (make is tuple and item.hashable)


def fixed(items: Sequence[Kind]) -> Kind:
    """A tuple of so many items, each of its own kind."""
    count = len(items)
    label = f"a list of {count} ({listed((kind.label for kind in items), 'and')})" if items else "an empty list"
    readers, writers = [kind.read for kind in items], [kind.write for kind in items]

    def pairwise(values: Sequence[Any], converters: Sequence[Convert]) -> List[Any]:
        done: List[Any] = []
        try:
            for convert, value in zip(converters, values):
                done.append(convert(value))
        except Mismatch as error:
            raise error.inside(len(done)) from None
        return done

    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != count:
            raise Mismatch(label, value)
        return tuple(pairwise(value, readers))

    def write(value: Any) -> List[Any]:
        if not isinstance(value, (tuple, list)) or len(value) != count:
            raise Mismatch(f"a tuple of {count}", value)
        return pairwise(value, writers)

    prefix = {"prefixItems": [kind.schema for kind in items], "minItems": count} if items else {}
    hashable = all(kind.hashable for kind in items)
    return Kind({"type": "array", **prefix, "maxItems": count}, read, write, label, _LIST, hashable=hashable)


INTEGER_KEY = "^(0|-?[1-9][0-9]{0,99})$"


def integer_key() -> Kind:
    """``int`` as the name of an object's member: ``{"7": ...}``."""
    match = re.compile(INTEGER_KEY).search

    def read(value: Any) -> int:
        if isinstance(value, str) and match(value):
            return int(value)
        raise Mismatch("a name that is an integer", value)

    def write(value: Any) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value))
        raise Mismatch("an integer as key", value)

    return Kind({"type": "string", "pattern": INTEGER_KEY}, read, write, "an integer", frozenset({str}))


def mapping(key: Kind, item: Kind) -> Kind:
    """An object with free keys.

    Args:
        key: What the names are; it reads strings.
        item: What the values are.
    """
    read_key, write_key = (None, None) if key.exact is str and key.is_plain else (key.read, key.write)
    free = not item.schema
    schema = {"type": "object", **({} if free else {"additionalProperties": item.schema})}
    names = {word: rule for word, rule in key.schema.items() if (word, rule) != ("type", "string")}
    if names:
        schema["propertyNames"] = names
    untouched = _untouched(item)

    def each(value: Any, convert_key: Any, convert: Convert) -> Any:
        done = {}
        for name, part in value.items():
            try:
                key = convert_key(name) if convert_key else name
            except Mismatch as error:
                raise Mismatch("", value, instead=f"the name {cut(repr(name))}: {error}") from None
            try:
                done[key] = convert(part)
            except Mismatch as error:
                raise error.inside(name if isinstance(name, (str, int)) else str(name)) from None
        return done

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch("an object", value)
        if read_key is None and (free or untouched(list(value.values()))):
            return value
        return each(value, read_key, item.read)

    def write(value: Any) -> Any:
        if not hasattr(value, "items"):
            raise Mismatch("a dict", value)
        return each(value, write_key or key.write, item.write)

    plain = read_key is None and item.is_plain
    return Kind(schema, read, write, "an object", _OBJECT, is_plain=plain, hashable=False)
