"""The kinds of `Literal`, of enums and of unions. Imported with the first of them."""

from __future__ import annotations

import threading
from enum import Enum
from math import isfinite
from typing import Any, Mapping, Sequence

from .kinds import NUMBER, SCALARS, Kind, native
from .mismatch import Mismatch, cut, join_words, one_of
from .values import JSON_TYPES, frozen

# ------------------------------------------------------------ choices


def _choice(pairs: Sequence[tuple[Any, Any]], names: Mapping[str, Any]) -> Kind:
    """Return the kind of a choice of values.

    Args:
        pairs: Each JSON value with its Python value.
        names: Strings that a caller might write by mistake, and the intended JSON values.
    """
    sent = [value for value, _ in pairs]
    label = one_of(sent)
    hints = None
    if len(sent) > 1:
        hints = {**{value: value for value in sent if isinstance(value, str)}, **names}
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
            return write(read(native(value)))  # the plain value of an enum's member

    types = frozenset(map(type, sent))
    schema = SCALARS[type(sent[0])].schema if len(types) == 1 else {}
    schema = {**schema, **({"const": sent[0]} if len(sent) == 1 else {"enum": sent})}
    if types & NUMBER.accepts:
        types |= NUMBER.accepts
    return Kind(schema, read, write, label, types)


def literal(values: Sequence[Any]) -> Kind:
    """Return the kind of ``Literal[...]``. Raise TypeError if it is empty or a value has no JSON
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
    """Return the kind of an `Enum`: its members' values, or their names if a value has no JSON
    form.

    Raises:
        TypeError: The enum has no members.
    """
    members = list(cls)
    if not members:
        raise TypeError(f"the enum {cls.__name__} has no members")
    if not all(_is_json(member.value) for member in members):
        return _choice([(member.name, member) for member in members], {})
    names = {name: member.value for name, member in cls.__members__.items()}
    return _choice([(member.value, member) for member in members], names)


# ------------------------------------------------------------ unions


# For each thread that reads a value of a union: ``results``, the results of each union for each
# list and object inside the value. Each union tries its members on everything below, so without
# these results every level of nesting would multiply the work.
_reading = threading.local()


def union(members: Sequence[Kind]) -> Kind:
    """Return the kind of a union. The first member that matches reads a value.

    Among numbers, the member of the value's own type comes first: 1 is an int, 1.0 a float. If only
    one member accepts the value's JSON type, its error is raised unchanged. Otherwise the error
    names all members.
    """
    by_type = {each: [kind for kind in members if each in kind.accepts] for each in JSON_TYPES}
    for number in (int, float):
        by_type[number].sort(key=lambda kind: kind.exact != {number})
    by_class = {kind.writes: kind for kind in members if kind.writes is not None}
    label = cut(join_words(dict.fromkeys(kind.label for kind in members)), 200)
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
                # The value is kept too, so that its id stays unique.
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
        own = by_class.get(type(value))  # before its base class, which would omit fields
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
