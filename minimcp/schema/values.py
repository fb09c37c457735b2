"""Decoded JSON values: their types, the names of the types, equality, and copies of schemas."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence

from .mismatch import Mismatch

Schema = dict[str, Any]

NONE_TYPE = type(None)

JSON_TYPES: frozenset[type] = frozenset({str, int, float, bool, NONE_TYPE, list, dict})
"""The Python types of decoded JSON."""

TYPE_NAMES: dict[type, str] = {
    str: "string",
    float: "number",
    int: "integer",
    bool: "boolean",
    NONE_TYPE: "null",
    list: "array",
    dict: "object",
}
"""The JSON Schema name of each type."""

LABELS = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""The description of each JSON Schema type in messages."""


def frozen(value: Any) -> Hashable:
    """Return a hashable object that is equal for equal JSON values only.

    1 and 1.0 are equal; 1 and true are not.
    """
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, (int, float)):
        # Bytes, because a peer can choose numbers that all have the same hash.
        return (f"{int(value):x}" if value % 1 == 0 else repr(value)).encode()
    if isinstance(value, list):
        return (list, *map(frozen, value))
    if isinstance(value, dict):
        return (dict, frozenset((name, frozen(part)) for name, part in value.items()))
    return value  # type: ignore[no-any-return]


def hashed_apart(values: list[Any]) -> list[Any]:
    """Return values for a set or a dict, unless too many of them have the same hash.

    A peer can choose such values, and a set of them takes quadratic time.

    Raises:
        Mismatch: Too many values have the same hash.
    """
    if len(values) - len(set(map(hash, values))) > 100:
        raise Mismatch("", values, instead="too many values have the same hash")
    return values


def has_twins(values: Sequence[Any]) -> bool:
    """Return whether two values of a list are equal, in linear time."""
    return len(set(map(frozen, values))) < len(values)


# Keywords whose value has schemas by name, and keywords whose value has none.
BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
NO_SCHEMAS = ("default", "const", "enum", "examples", "required")


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return a copy of a schema in which `change` was applied to each schema, innermost first."""
    made: Schema = {}
    for word, rule in schema.items():
        if word in BY_NAME and isinstance(rule, dict):
            rule = {name: _part(each, change) for name, each in rule.items()}
        elif word not in NO_SCHEMAS:
            rule = _part(rule, change)
        made[word] = rule
    return change(made)


def _part(rule: Any, change: Callable[[Schema], Schema]) -> Any:
    if isinstance(rule, dict):
        return mapped(rule, change)
    if isinstance(rule, list):
        return [_part(each, change) for each in rule]
    return rule
