"""The words of JSON Schema that combine subschemas: allOf, anyOf, oneOf, not.

Each counts its steps, for by these words a schema can ask for the same work any number of times.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .budget import Compile, Node, Seen
from .mismatch import Mismatch, cut, listed


def nodes_of(parts: Any, compile_: Compile) -> List[Node]:
    """The checks of some subschemas. Raises TypeError when there is none."""
    if not isinstance(parts, list) or not parts:
        raise TypeError(parts)
    return [compile_(part) for part in parts]


def all_of(parts: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    """Every one fits."""
    nodes = nodes_of(parts, compile_)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        seen.spend(len(nodes))
        return next((found for node in nodes for found in [node(value, seen)] if found is not None), None)

    return check


def any_of(parts: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    """At least one fits."""
    nodes = nodes_of(parts, compile_)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        seen.spend(len(nodes))
        errors = []
        for node in nodes:
            found = node(value, seen)
            if found is None:
                return None
            errors.append(found)
        return _none_fits(value, errors)

    return check


def _none_fits(value: Any, errors: List[Mismatch]) -> Mismatch:
    if any(error.path or error.instead for error in errors):
        tries = "; ".join(dict.fromkeys(cut(str(error), 120) for error in errors))
        return Mismatch("", value, instead=f"fits none of {len(errors)} forms ({cut(tries, 500)})")
    return Mismatch(cut(listed(dict.fromkeys(error.expected for error in errors)), 300), value)


def one_of(parts: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    """Exactly one fits."""
    nodes = nodes_of(parts, compile_)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        seen.spend(len(nodes))
        errors = [found for node in nodes for found in [node(value, seen)] if found is not None]
        fitting = len(nodes) - len(errors)
        if fitting == 1:
            return None
        if not fitting:
            return _none_fits(value, errors)
        return Mismatch("", value, instead=f"fits {fitting} of {len(nodes)} forms, but must fit exactly one")

    return check


def not_(part: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    """It does not fit."""
    node = compile_(part)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        seen.spend(1)
        return Mismatch("something else", value) if node(value, seen) is None else None

    return check
