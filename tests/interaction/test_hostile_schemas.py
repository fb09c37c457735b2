# ruff: noqa: E501
"""Schemas of a peer that want to keep us: each is judged, or refused, in bounded time."""

from __future__ import annotations

import functools
import time
from typing import Any, List, Tuple

import pytest
from hypothesis import given, strategies as st

from minimcp.schema.checker import compile_peer_check

from ..drawn import drawn
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


def unfit(*forms: Any) -> Any:
    """Return a schema that accepts every value, but makes the checker describe the errors of these
    forms."""
    return {"anyOf": [{"anyOf": [*forms, {"not": True}]}, True]}


def far(depth: int) -> Tuple[Any, Any]:
    """Return a schema and an invalid value, at a place with this many names."""
    schema, value = {"type": "integer"}, "x"
    for level in range(depth):
        schema, value = {"properties": {f"k{level:059}": schema}}, {f"k{level:059}": value}  # type: ignore[assignment, dict-item]
    return schema, value


FOREIGN = {"if": True}
"""A keyword that our closures leave to jsonschema."""

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
    ("other names times patterns", {"additionalProperties": {}, "patternProperties": {f"^a{n}": True for n in range(3000)}},
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
    ("a list looked through many times", {"allOf": [{"uniqueItems": True}] * 20_000}, list(range(10_000))),
    ("objects compared with each other", {"uniqueItems": True, **FOREIGN}, [{"a": n} for n in range(3000)]),
    ("more parts than the package can read", {**FOREIGN, "properties": {f"a{n}": {"type": "null"} for n in range(6000)}}, {}),
    ("more references than it can follow", {**FOREIGN, "allOf": [{"$ref": f"#a{n}"} for n in range(500)],
                                            "$defs": {f"a{n}": {"$anchor": f"a{n}"} for n in range(500)}}, 1),
    ("numbers that all have one hash times themselves", {"uniqueItems": True}, [n * (2**61 - 1) for n in range(30_000)]),
    ("and among choices times", {"items": {"enum": [n * (2**61 - 1) for n in range(30_000)]}}, [n * (2**61 - 1) for n in range(30_000)]),
    ("long texts shown times items", {"items": unfit({"enum": [f"{n}" * 10_000 for n in range(300)]})}, [1] * 10_000),
    ("a long constant shown times items", {"items": unfit({"const": "x" * 1_000_000})}, [1] * 10_000),
    ("long names shown times forms", {"allOf": [unfit({"additionalProperties": {"type": "string"}})] * 1000}, {"a" * 1_000_000: 1}),
    ("long names known times items", {"items": unfit({"additionalProperties": False, "properties": {f"{n}" * 100_000: 1 > 0 for n in range(30)}})}, [{"a": 1}] * 5000),
    ("near choices times items", {"items": unfit(*[{"properties": {"a": {"enum": [f"{n:060}" for n in range(500)]}}}] * 20)}, [{"a": "1" * 30 + "0" * 30}] * 500),
    ("a far place shown times items", {"$defs": {"far": far(100)[0]}, "items": unfit(*[{"$ref": "#/$defs/far"}] * 20)}, [far(100)[1]] * 200),
    ("patterns that are long to make times", {"allOf": [{"pattern": r"[\0-\uffffa]" * 70 + f"{n}"} for n in range(100)]}, "a"),
    ("and foreign times", {"properties": {f"a{n}": {"pattern": r"[\0-\uffffa]" * 70 + f"{n}"} for n in range(100)}, **FOREIGN}, {"a1": "b"}),
    ("patterns times items", {"items": {"allOf": [{"pattern": f"{n}.*a?a?a?$"} for n in range(100)]}}, ["a" * 1000] * 1000),
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


WORDS = st.sampled_from([
    {"type": "integer"}, {"type": "string"}, True, {"const": "x" * 50_000}, {"const": [[1] * 5000]}, {"enum": [f"{n}" * 1000 for n in range(300)]},
    {"enum": [*range(5000)]}, {"enum": [n * (2**61 - 1) for n in range(2000)]}, {"uniqueItems": True}, {"multipleOf": 10**4000 + 1},
    {"multipleOf": 1e-300}, {"minimum": -(10**4000)}, {"pattern": "a?" * 40}, {"pattern": "(?:a|a)" * 30 + "$"}, {"pattern": ".*.*b"}, {"pattern": "^(a+)+$"},
    {"pattern": r"[\0-\uffff]" * 60}, {"pattern": "(" * 90 + ")" * 90}, {"pattern": "(?:a{1,9}){9}{9}"}, {"minLength": 10**400}, {"required": ["a" * 10_000]},
    {"additionalProperties": False, "properties": {f"{n:060}": True for n in range(500)}}, {"properties": {f"{n}": True for n in range(5000)}},
    {"patternProperties": {"a?" * n + "b": True for n in range(40)}}, {"patternProperties": {f"{n}.*a": {"type": "null"} for n in range(200)}},
    {"propertyNames": {"pattern": ".*a.*b"}}, {"$ref": "#"}, {"$ref": "#/$defs/0"}, {"$ref": "#/$defs/1"}, {"$ref": "#/$defs/0/not"}, FOREIGN,
])  # fmt: skip
COMBINED = st.recursive(WORDS, lambda inner: st.one_of(
    st.builds(lambda word, part: {word: part}, st.sampled_from(["items", "not", "additionalProperties", "propertyNames", "contains", "if"]), inner),
    st.builds(lambda word, parts, times: {word: parts * times}, st.sampled_from(["allOf", "anyOf", "oneOf", "prefixItems"]),
              st.lists(inner, min_size=1, max_size=3), st.sampled_from([1, 2, 50])),
    st.builds(lambda one, depth: functools.reduce(lambda part, _: {"allOf": [part]}, range(depth), one), inner, st.sampled_from([1, 30])),
    st.builds(lambda one: unfit(one, one), inner),
), max_leaves=4)  # fmt: skip
VALUES = [
    "a" * 1000, "a" * 99_999 + "b", "é" * 500, [1] * 20_000, [n * (2**61 - 1) for n in range(20_000)], ["a" * 100] * 2000, {"a" * 30_000: {"b": 1}},
    [{f"{n:060}": n} for n in range(1000)], {f"{n}": "a" * 30 for n in range(5000)}, 10**4200, 1.5, [[[[]]]] * 2000, far(100)[1],
]  # fmt: skip


@pytest.mark.figures
@drawn(150)
@given(COMBINED, st.lists(COMBINED, min_size=2, max_size=2), st.sampled_from(VALUES))
def test_no_combination_of_hostile_words_freezes(
    schema: Any, definitions: List[Any], value: Any
) -> None:
    whole = {"allOf": [schema], "$defs": dict(zip("01", definitions))}
    began = time.process_time()
    judge(whole, value)
    assert time.process_time() - began < 10


def judge(schema: Any, value: Any) -> None:
    try:
        found = str(compile_peer_check(schema, where="x")(value))
    except ValueError as error:
        found = str(error)
    assert len(found) < 1000 and "\n" not in found
