# ruff: noqa: E501
"""Schemas of a peer that want to keep us: each is judged, or refused, in bounded time."""

from __future__ import annotations

import functools
import time
from typing import Any, List, Tuple

import pytest

from minimcp.schema.checker import compile_peer_check

from ..rows import for_each


def nested(word: str, depth: int, *, many: bool = False) -> Any:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = {word: [schema] if many else schema}
    return schema


def widened(count: int, **words: Any) -> Any:
    """Definitions of which each asks twice for the next."""
    steps = {f"a{n}": {"not": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2}} for n in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{count}": {}}, **words}


FOREIGN = {"if": True}
"""A word that our closures leave to jsonschema."""

HOSTILE: List[Tuple[str, Any, Any]] = [
    ("a reference to itself", {"$ref": "#"}, 1),
    ("and foreign", {"$ref": "#", **FOREIGN}, 1),
    ("a ring of references", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
    ("and foreign", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, **FOREIGN}, 1),
    ("a dynamic reference to itself", {"$dynamicRef": "#a", "$dynamicAnchor": "a"}, 1),
    ("a recursive one", {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}, 1),
    ("a condition on itself", {"$schema": "http://json-schema.org/draft-07/schema#", "if": {"$ref": "#"}}, 1),
    ("twice itself", {"allOf": [{"$ref": "#"}, {"$ref": "#"}], **FOREIGN}, 1),
    ("unevaluated by itself", {"$ref": "#", "unevaluatedProperties": False}, {"a": 1}),
    ("doubled", {"items": widened(200)["$defs"]["a0"], **widened(200)}, list(range(50))),
    ("doubled and foreign", widened(60, **FOREIGN), [1]),
    *[(f"{word} in {word}", {**nested(word, depth), **words}, 1)
      for word in ("not", "items", "contains", "if", "additionalProperties", "propertyNames", "unevaluatedItems")
      for depth in (50, 120, 250, 5000) for words in ({}, FOREIGN)],
    *[(f"{word} in {word}", {**nested(word, depth, many=True), **words}, 1)
      for word in ("allOf", "anyOf", "oneOf") for depth in (50, 120, 5000) for words in ({}, FOREIGN)],
    ("patterns times names", {"patternProperties": {f"^a{n}": True for n in range(3000)}}, {f"a{n}": 1 for n in range(3000)}),
    ("and foreign", {**FOREIGN, "patternProperties": {f"^a{n}": True for n in range(1500)}}, {f"a{n}": 1 for n in range(3000)}),
    ("names against patterns", {"additionalProperties": {}, "patternProperties": {f"^a{n}": True for n in range(3000)}},
     {f"b{n}": 1 for n in range(3000)}),
    ("choices times items", {"items": {"anyOf": [{"const": n} for n in range(2000)]}}, [1999] * 500),
    ("one choice times items", {"items": {"oneOf": [{"const": n} for n in range(2000)]}}, [1999] * 500),
    ("names times items", {"items": {"properties": {f"a{n}": True for n in range(10_000)}}}, [{} for _ in range(10_000)]),
    ("one list of choices times items", {"items": {"enum": list(range(10_000))}}, [9999] * 10_000),
    ("one list of choices that never fits times items", {"items": {"anyOf": [{"enum": list(range(10_000))}, True]}}, [-1] * 10_000),
    ("unknown words times items", {"items": {f"a{n}": 0 for n in range(10_000)}}, [1] * 10_000),
    ("names that nobody meant times items",
     {"items": {"anyOf": [{"additionalProperties": False, "properties": {f"{n:060}": True for n in range(500)}}, True]}},
     [{"1" * 30 + "0" * 30: 1} for _ in range(1000)]),
    ("one repeated value times forms", {"anyOf": [{"type": "string"}] * 3000, **FOREIGN}, [[1] * 30_000]),
    ("a pattern whose look is long", {"pattern": f"(?#{'[' * 50_000})"}, "a"),
    ("a pattern that is long to make", {"pattern": "(?i)" + "[\\0-\\uffff]" * 3000}, "a"),
    ("a long list compared often", {"allOf": [{"const": [n]} for n in range(20_000)] + [{"not": True}]}, [[1]] * 100),
    ("a list looked through often", {"allOf": [{"uniqueItems": True}] * 20_000}, list(range(10_000))),
    ("objects compared with each other", {"uniqueItems": True, **FOREIGN}, [{"a": n} for n in range(3000)]),
    ("more parts than the package can read", {**FOREIGN, "properties": {f"a{n}": {"type": "null"} for n in range(6000)}}, {}),
    ("more references than it can follow", {**FOREIGN, "allOf": [{"$ref": f"#a{n}"} for n in range(500)],
                                            "$defs": {f"a{n}": {"$anchor": f"a{n}"} for n in range(500)}}, 1),
    ("a number beyond floats", {"multipleOf": 0.5, **FOREIGN}, 10**400),
    ("a step beyond floats", {"multipleOf": 1e-300}, 10**4000),
    ("no number", {"multipleOf": 0.5}, float("inf")),
    ("a length beyond all", {"minLength": float("inf")}, "x"),
    ("a deep value", {"items": {"$ref": "#"}, **FOREIGN}, functools.reduce(lambda inner, _: [inner], range(250), 1)),
    ("a deep constant", {"const": functools.reduce(lambda inner, _: {"a": inner}, range(250), 1), **FOREIGN}, {"a": 1}),
]  # fmt: skip


@pytest.mark.requirement("M:SCH-7")
@for_each(("what", "schema", "value"), HOSTILE)
def test_no_schema_of_a_peer_overflows(what: str, schema: Any, value: Any) -> None:
    if "times" not in what:
        judge(schema, value)


@pytest.mark.figures
@for_each(("what", "schema", "value"), HOSTILE)
def test_no_schema_of_a_peer_freezes(what: str, schema: Any, value: Any) -> None:
    began = time.process_time()
    judge(schema, value)
    assert time.process_time() - began < 10, what


def judge(schema: Any, value: Any) -> None:
    try:
        found = str(compile_peer_check(schema, where="x")(value))
    except ValueError as error:
        found = str(error)
    assert len(found) < 1000 and "\n" not in found
