"""The kinds that choose: `Literal`, `Enum`, `Optional` and `Union`."""

from __future__ import annotations

import threading
from typing import Any, Dict, Hashable, List, Mapping, Optional, Sequence, Tuple

from .equality import frozen
from .kind import JSON_TYPES, NOTHING_TYPE, Kind
from .mismatch import Mismatch, cut, described, listed, nearest

_SCALARS = (str, int, float, bool, NOTHING_TYPE)
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", NOTHING_TYPE: "null"}


def choice(pairs: Sequence[Tuple[Any, Any]], names: Optional[Mapping[str, Any]] = None) -> Kind:
    """One of a few values.

    Args:
        pairs: Each JSON value with the Python value that it stands for.
        names: By what else they may be called in error, and the JSON value that is meant; None has nothing.
    """
    others = {name.lower(): value for name, value in (names or {}).items()}
    sent = [value for value, _ in pairs]
    label = listed([_shown(value) for value in sent])
    label = cut(label if len(sent) == 1 else f"one of {label}", 300)
    incoming = {frozen(value): meant for value, meant in pairs}
    outgoing = {_identity(meant): value for value, meant in pairs}

    def read(value: Any) -> Any:
        if isinstance(value, _SCALARS):
            try:
                return incoming[frozen(value)]
            except KeyError:
                pass
        raise Mismatch(label + (_hint(value, sent, others) if len(sent) > 1 else ""), value)

    def write(value: Any) -> Any:
        try:
            return outgoing[_identity(value)]
        except (KeyError, TypeError):
            return outgoing[_identity(read(value))]  # the bare value of an enum's member

    types = {type(value) for value in sent}
    schema: Dict[str, Any] = {"const": sent[0]} if len(sent) == 1 else {"enum": sent}
    if len(types) == 1:
        schema = {"type": _WORDS[types.copy().pop()], **schema}
    accepts = frozenset(types | ({int, float} if types & {int, float} else set()))
    return Kind(schema, read, write, label, accepts)


def _hint(value: Any, sent: Sequence[Any], others: Mapping[str, Any]) -> str:
    if not isinstance(value, str):
        return ""
    near = nearest(value, (each for each in sent if isinstance(each, str)))
    near = others.get(value.lower()) if near is None else near
    return f" (did you mean {_shown(near)}?)" if near is not None else ""


def _shown(value: Any) -> str:
    return cut(repr(value)) if isinstance(value, str) else described(value).split()[-1]


def _identity(value: Any) -> Hashable:
    return (type(value), value)


def literal(values: Sequence[Any]) -> Kind:
    """``Literal[...]``.

    Raises:
        TypeError: There is no value, or one of them has no JSON form.
    """
    if not values:
        raise TypeError("Literal[()] allows no value at all")
    pairs = [(value.value if _is_enum_member(value) else value, value) for value in values]
    for value, _ in pairs:
        if not isinstance(value, _SCALARS):
            raise TypeError(f"Literal[{value!r}] has no JSON form: use strings, integers, booleans or None")
    return choice(pairs)


def _is_enum_member(value: Any) -> bool:
    from enum import Enum

    return isinstance(value, Enum)


def enumeration(cls: Any) -> Kind:
    """An `Enum` by the values of its members, or by their names where a value has no JSON form.

    Raises:
        TypeError: It has no members.
    """
    members = list(cls.__members__.values())
    if not members:
        raise TypeError(f"the enum {cls.__name__} has no members")
    simple = all(type(member.value) in _SCALARS and member.value == member.value for member in members)
    unique = {id(member): member for member in members}.values()
    names = {name: member.value for name, member in cls.__members__.items()} if simple else None
    return choice([(member.value if simple else member.name, member) for member in unique], names)


class _Outcomes(threading.local):
    """What the ambiguous unions of one value have tried so far, so that nesting does not double the work."""

    tried: Any = None


def union(members: Sequence[Kind]) -> Kind:
    """The first member that fits, members of the value's own JSON type first.

    An error of the only member that takes the value's JSON type is told as it is; otherwise all are named.
    """
    by_type: Dict[type, Tuple[Kind, ...]] = {each: _candidates(each, members) for each in JSON_TYPES}
    exact = frozenset(kind.exact for kind in members if kind.exact not in (None, float))
    by_class = {kind.writes: kind for kind in members if kind.writes is not None}
    label = cut(listed(dict.fromkeys(kind.label for kind in members)), 200)
    outcomes = _Outcomes()

    def read(value: Any) -> Any:
        candidates = by_type.get(type(value), ())
        if len(candidates) == 1:
            return candidates[0].read(value)
        if isinstance(value, (dict, list)) and candidates:
            return remembered(value, candidates)
        return first(value, candidates)

    def first(value: Any, candidates: Sequence[Kind]) -> Any:
        errors = []
        for kind in candidates:
            try:
                return kind.read(value)
            except Mismatch as error:
                errors.append(error)
        raise _summary(label, value, candidates, errors)

    def remembered(value: Any, candidates: Sequence[Kind]) -> Any:
        outermost = outcomes.tried is None
        tried = outcomes.tried = {} if outermost else outcomes.tried
        try:
            if id(value) not in tried:
                try:
                    tried[id(value)] = (first(value, candidates), None)
                except Mismatch as error:
                    tried[id(value)] = (None, str(error))
            found, problem = tried[id(value)]
        finally:
            if outermost:
                outcomes.tried = None
        if problem is not None:
            raise Mismatch(label, value, instead=problem)
        return found

    def write(value: Any) -> Any:
        if type(value) in exact:
            return value
        own = by_class.get(type(value))  # before its base class, which would take it and leave half of it out
        for kind in members if own is None else (own, *members):
            try:
                return kind.write(value)
            except Mismatch:
                pass
        raise Mismatch(label, value)

    return Kind(
        {"anyOf": [kind.schema for kind in members]},
        read,
        write,
        label,
        frozenset().union(*(kind.accepts for kind in members)),
        is_plain=all(kind.is_plain for kind in members),
        hashable=all(kind.hashable for kind in members),
    )


def _candidates(json_type: type, members: Sequence[Kind]) -> Tuple[Kind, ...]:
    """Who may read a value of this type. Only among numbers does the exact type go first: 1 is an int, 1.0 a float.

    Otherwise the order is the author's: ``Union[date, str]`` tries the date first.
    """
    able = [kind for kind in members if json_type in kind.accepts]
    if json_type in (int, float):
        able.sort(key=lambda kind: kind.exact is not json_type)
    return tuple(able)


def _summary(label: str, value: Any, candidates: Sequence[Kind], errors: List[Mismatch]) -> Mismatch:
    """One error for all the members that were tried."""
    if not any(error.path for error in errors):
        hints = [error.expected for error in errors if "did you mean" in error.expected]
        return Mismatch(hints[0] if hints else label, value)
    tries = "; ".join(f"as {cut(kind.label)}: {cut(str(error), 120)}" for kind, error in zip(candidates, errors))
    return Mismatch(label, value, instead=f"fits none of {len(candidates)} forms ({cut(tries, 500)})")
