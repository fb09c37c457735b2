"""The words of JSON Schema that our own closures know, one function per word.

Each takes the word's value, the schema that it stands in, and the function that compiles a subschema; it gives a
check, or None when the word says nothing on its own. A word's value of a wrong form is a TypeError or ValueError.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from . import combining
from .budget import Builder, Compile, Node, Seen
from .equality import frozen, has_twins
from .kind import NOTHING_TYPE
from .mismatch import Mismatch, cut, described, listed, nearest

SAME_IN = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    }
)
"""The dialects in which the words below mean the same, save those of `LATER_ONLY`."""

LATER_ONLY = frozenset({"prefixItems", "$anchor"})

REST = frozenset(
    {
        "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "minContains",
        "maxContains", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "$dynamicRef",
        "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary",
    }
)  # fmt: skip
"""Words that assert something and are left to `jsonschema`. Every other unknown word is an annotation."""

ANNOTATIONS: Dict[str, Any] = {
    "title": str, "description": str, "$comment": str, "deprecated": bool, "readOnly": bool, "writeOnly": bool,
    "examples": list, "format": str, "contentEncoding": str, "contentMediaType": str, "$id": str, "$schema": str,
    "$defs": dict, "definitions": dict, "$anchor": str,
}  # fmt: skip
"""Words that check nothing here, and what their value has to be."""

_TYPES: Dict[str, Tuple[Tuple[type, ...], str]] = {
    "string": ((str,), "a string"),
    "boolean": ((bool,), "true or false"),
    "null": ((NOTHING_TYPE,), "null"),
    "array": ((list,), "a list"),
    "object": ((dict,), "an object"),
    "number": ((int, float), "a number"),
    "integer": ((int,), "an integer"),
}


def _type(names: Union[str, List[str]], schema: Dict[str, Any], compile_: Compile) -> Node:
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted or len(set(wanted)) < len(wanted):
        raise TypeError(names)
    types = frozenset(each for name in wanted for each in _TYPES[name][0])
    whole = "integer" in wanted and "number" not in wanted
    label = listed([_TYPES[name][1] for name in wanted])

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if type(value) in types or (whole and type(value) is float and value.is_integer()):
            return None
        return Mismatch(label, value)

    return check


def _enum(values: List[Any], schema: Dict[str, Any], compile_: Compile) -> Node:
    if not isinstance(values, list):
        raise TypeError(values)
    return _one_of_values(values)


def _const(value: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    return _one_of_values([value])


def _one_of_values(values: List[Any]) -> Node:
    allowed = frozenset(map(frozen, values))
    texts = [value for value in values if isinstance(value, str)]
    shown = [repr(value) if isinstance(value, str) else described(value) for value in values]
    label = cut(("one of " if len(shown) > 1 else "") + listed(shown or ["nothing"]), 300)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        seen.weigh(value)
        if frozen(value) in allowed:
            return None
        seen.spend(len(texts[:100]))
        near = nearest(value, texts) if isinstance(value, str) else None
        return Mismatch(label if near is None else f"{label} (did you mean {near!r}?)", value)

    return check


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _bound(label: str, refused: Callable[[Any, Any], bool]) -> Builder:
    def build(limit: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
        if not _is_number(limit):
            raise TypeError(limit)
        expected = f"a number {label} {limit}"

        def check(value: Any, seen: Seen) -> Optional[Mismatch]:
            return Mismatch(expected, value) if _is_number(value) and refused(value, limit) else None

        return check

    return build


def _multiple_of(step: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    if not _is_number(step) or step <= 0:
        raise TypeError(step)
    from fractions import Fraction  # exact: in floating point 0.3 is no multiple of 0.1

    exact = Fraction(repr(step))

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if not _is_number(value):
            return None
        if isinstance(value, float) and not isfinite(value):
            return Mismatch(f"a multiple of {step}", value)
        number: Any = value
        if isinstance(value, float):
            number = Fraction(repr(value) if isinstance(step, float) else value)
        if number * exact.denominator % exact.numerator == 0:
            return None
        return Mismatch(f"a multiple of {step}", value)

    return check


def _size(types: Any, unit: str, many: bool) -> Builder:
    """The words that bound how long something is, from below or (`many`) from above."""

    def build(limit: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
        if not _is_number(limit) or limit < 0 or limit != int(limit):
            raise TypeError(limit)
        expected = f"at {'most' if many else 'least'} {limit} {unit}{'' if limit == 1 else 's'}"

        def check(value: Any, seen: Seen) -> Optional[Mismatch]:
            if not isinstance(value, types) or (len(value) <= limit if many else len(value) >= limit):
                return None
            return Mismatch("", value, instead=f"expected {expected}, got {len(value)}")

        return check

    return build


def _expression(text: Any) -> re.Pattern[str]:
    if not isinstance(text, str):
        raise TypeError(text)
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"the pattern {text!r:.60} is no regular expression here: {error}") from error


def _pattern(text: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    search = _expression(text).search

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if not isinstance(value, str) or search(value):
            return None
        return Mismatch(f"a string that matches {text}", value)

    return check


def _unique(wanted: Any, schema: Dict[str, Any], compile_: Compile) -> Optional[Node]:
    if not isinstance(wanted, bool):
        raise TypeError(wanted)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, list):
            seen.weigh(value)
        if not isinstance(value, list) or not has_twins(value):
            return None
        return Mismatch("", value, instead="expected a list without duplicates, got the same item twice")

    return check if wanted else None


def _properties(members: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    checks = [(name, compile_(part)) for name, part in members.items()]

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, dict):
            for name, node in checks:
                if name in value:
                    found = node(value[name], seen)
                    if found is not None:
                        return found.inside(name)
        return None

    return check


def _required(names: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(names)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    return Mismatch(_wanted(schema.get("properties", {}).get(name))).inside(name)
        return None

    return check


def _wanted(part: Any) -> str:
    """What a schema asks for, as far as its type says so."""
    named = part.get("type", []) if isinstance(part, dict) else []
    return listed([_TYPES[name][1] for name in ([named] if isinstance(named, str) else named)] or ["a value"])


def _additional_properties(rest: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    node = compile_(rest)
    known = schema.get("properties", {})
    patterns = [_expression(text).search for text in schema.get("patternProperties", {})]

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, dict):
            seen.spend(len(patterns) * len(value))
            for name, part in value.items():
                if name not in known and not any(search(name) for search in patterns):
                    found = _unknown(name, known, others=bool(patterns)) if rest is False else node(part, seen)
                    if found is not None:
                        return found if rest is False else found.inside(name)
        return None

    return check


def _unknown(name: str, known: Dict[str, Any], *, others: bool) -> Mismatch:
    near = nearest(name, known)
    if near is not None:
        hint = f", did you mean {near!r}?"
    else:
        hint = "" if others or not known else f": the fields are {cut(listed(list(known)[:50], 'and'), 200)}"
    return Mismatch("", name, instead=f"unknown field {cut(name)!r}{hint}")


def _pattern_properties(members: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    checks = [(_expression(text).search, compile_(part)) for text, part in members.items()]

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, dict):
            seen.spend(len(checks) * len(value))
            for name, part in value.items():
                for search, node in checks:
                    found = node(part, seen) if search(name) else None
                    if found is not None:
                        return found.inside(name)
        return None

    return check


def _property_names(part: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    node = compile_(part)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, dict):
            for name in value:
                found = node(name, seen)
                if found is not None:
                    return Mismatch("", name, instead=f"the name {cut(name)!r}: {found}")
        return None

    return check


def _items(part: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    if not isinstance(part, (dict, bool)):
        raise TypeError(part)
    node = compile_(part)
    start = len(schema.get("prefixItems", ()))

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, list):
            for index in range(start, len(value)):
                found = node(value[index], seen)
                if found is not None:
                    return found.inside(index)
        return None

    return check


def _prefix_items(parts: Any, schema: Dict[str, Any], compile_: Compile) -> Node:
    nodes = combining.nodes_of(parts, compile_)

    def check(value: Any, seen: Seen) -> Optional[Mismatch]:
        if isinstance(value, list):
            for index, (node, item) in enumerate(zip(nodes, value)):
                found = node(item, seen)
                if found is not None:
                    return found.inside(index)
        return None

    return check


BUILDERS: Dict[str, Builder] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _bound("of at least", lambda value, limit: bool(value < limit)),
    "maximum": _bound("of at most", lambda value, limit: bool(value > limit)),
    "exclusiveMinimum": _bound("above", lambda value, limit: bool(value <= limit)),
    "exclusiveMaximum": _bound("below", lambda value, limit: bool(value >= limit)),
    "multipleOf": _multiple_of,
    "minLength": _size(str, "character", False),
    "maxLength": _size(str, "character", True),
    "pattern": _pattern,
    "minItems": _size(list, "item", False),
    "maxItems": _size(list, "item", True),
    "uniqueItems": _unique,
    "minProperties": _size(dict, "field", False),
    "maxProperties": _size(dict, "field", True),
    "properties": _properties,
    "required": _required,
    "additionalProperties": _additional_properties,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "items": _items,
    "prefixItems": _prefix_items,
    "allOf": combining.all_of,
    "anyOf": combining.any_of,
    "oneOf": combining.one_of,
    "not": combining.not_,
}
"""Word to the function that builds its check."""
