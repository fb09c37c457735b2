"""The published schema: references, their size, and objects that are declared closed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Dict, List, Optional, Union

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import Annotated, TypedDict

import minimcp
from minimcp import Server
from minimcp.schema import kind_of
from minimcp.schema.introspection import Scope
from minimcp.schema.published import MAX_INLINED, published
from minimcp.server.tools import wrapped_schema

from ..inside import registry_of


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Closed(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    point: Point
    names: Dict[str, bool] = {}


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    closed: Optional[Closed] = None


class Typed(TypedDict, total=False):
    points: List[Point]


@dataclass
class Node:
    at: Point
    children: "List[Node]" = field(default_factory=list)


@dataclass
class Empty:
    pass


TYPES: List[Any] = [
    Point, Closed, Open, Typed, Node, Empty, List[Point], Dict[str, Point], Union[Point, Closed], Optional[Node],
    Annotated[Point, "Here."], Dict[str, Any], List[Empty],
]  # fmt: skip


def keyword_values(value: Any) -> List[Any]:
    """The values of every ``additionalProperties`` in a schema."""
    if isinstance(value, list):
        return [found for each in value for found in keyword_values(each)]
    if not isinstance(value, dict):
        return []
    own = [value["additionalProperties"]] if "additionalProperties" in value else []
    return own + keyword_values(list(value.values()))


@pytest.mark.requirement("TOOL-06", "M:TOOL-5")
@pytest.mark.parametrize("writing", [False, True])
@pytest.mark.parametrize("annotation", TYPES, ids=str)
def test_only_a_strict_schema_excludes_other_members(annotation: Any, writing: bool) -> None:
    scope = Scope(globals())
    plain = kind_of(annotation, writing=writing, scope=scope).schema
    assert not any(isinstance(each, bool) for each in keyword_values(plain))
    strict = kind_of(annotation, writing=writing, scope=scope, strict=True).schema
    text = json.dumps(strict)
    assert text.count('"properties"') == sum(
        not isinstance(e, dict) for e in keyword_values(strict)
    )
    for each in (plain, strict):
        jsonschema.Draft202012Validator.check_schema(each)


@pytest.mark.requirement("TOOL-05", "TOOL-06")
@pytest.mark.parametrize("strict", [False, True])
def test_a_tool_publishes_the_keyword_only_without_parameters_or_if_strict(strict: bool) -> None:
    server = Server("schemas", strict_schemas=strict)

    def nothing() -> None:
        """Nothing."""

    def node(node: Node, empty: Empty) -> Closed:
        """A node."""
        raise NotImplementedError

    server.add_tool(nothing)
    server.add_tool(node)
    bare, full = (each.definition for each in registry_of(server).tools.items.values())
    assert bare.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    for schema in (full.input_schema, full.output_schema):
        assert (False in keyword_values(schema)) == strict
    given = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"node": {}, "empty": {}},
    }
    server.add_tool(node, name="given", input_schema=given, output_schema=given)
    last = registry_of(server).tools.items["given"].definition
    assert last.input_schema == last.output_schema == given  # which an author wrote


def test_definitions_are_inlined_but_for_recursive_ones() -> None:
    schema = kind_of(Dict[str, Union[Node, Closed]], scope=Scope(globals())).schema
    assert list(schema["$defs"]) == ["Node"]
    assert json.dumps(schema).count('"$ref"') == 2
    point = schema["$defs"]["Node"]["properties"]["at"]
    assert point["properties"]["x"] == {"type": "integer"} and point["description"] == "A place."
    described = kind_of(Annotated[Point, "Here."]).schema
    assert described["description"] == "Here." and described["type"] == "object"
    narrow = published(
        {"items": {"$ref": "#/$defs/a", "maxLength": 9}}, {"a": {"maxLength": 3}}, strict=False
    )
    assert narrow == {"items": {"allOf": [{"maxLength": 3}], "maxLength": 9}}
    data = {"enum": [{"$ref": "#/$defs/a"}], "default": {"$ref": "#/$defs/a"}}
    assert published({"properties": {"$ref": data}}, {"a": {}}, strict=False) == {
        "properties": {"$ref": data}
    }


def test_a_schema_that_would_grow_too_large_keeps_its_definitions() -> None:
    cls: Any = Point
    for number in range(30):
        cls = make_dataclass(f"Level{number}", [("left", cls), ("right", cls)])
    schema = kind_of(List[cls]).schema
    assert len(schema["$defs"]) == 31 and len(json.dumps(schema)) < 10_000
    wide = make_dataclass("Wide", [(f"f{n}", Point) for n in range(MAX_INLINED // 20)])
    assert "$defs" not in kind_of(wide).schema


NAMES = st.sampled_from(["a", "b", "c", "d"])
REFERENCES = st.builds(lambda name: {"$ref": f"#/$defs/{name}"}, NAMES)
PARTS = st.recursive(
    st.sampled_from([{"type": "integer"}, {"type": "string"}, {"type": "null"}, {}]) | REFERENCES,
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(lambda each: {"type": "object", "properties": {"p": each}, "required": ["p"]}, inner),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        st.builds(lambda each: {**each, "maxItems": 1, "description": "d"}, inner),
    ),
    max_leaves=5,
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.integers() | st.just("x"),
    lambda inner: st.lists(inner, max_size=2) | st.builds(lambda each: {"p": each}, inner),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(PARTS, st.tuples(PARTS, PARTS, PARTS, PARTS), st.lists(VALUES, min_size=1, max_size=5))
def test_the_published_schema_takes_the_same_values(root: Any, parts: Any, values: Any) -> None:
    definitions = dict(zip("abcd", parts))
    made = published(root, definitions, strict=False)
    before = jsonschema.Draft202012Validator({**root, "$defs": definitions})
    after = jsonschema.Draft202012Validator(made)
    for value in values:
        try:
            expected = before.is_valid(value)
        except RecursionError:  # a definition that is only itself
            continue
        assert after.is_valid(value) == expected


def test_references_of_a_wrapped_schema_still_lead_to_the_same_places() -> None:
    tree = {
        "type": "array",
        "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/n"}, {"$ref": "#/items/x"}]},
    }
    schema = {**tree, "$defs": {"n": {"type": "null"}}}
    schema["items"]["x"] = {"type": "boolean"}
    check = jsonschema.Draft202012Validator(wrapped_schema(schema)).is_valid
    for fits in ([], [None, [None]], [True]):
        assert check({"result": fits})
    for wrong in (None, [1], [[1]]):
        assert not check({"result": wrong})


@pytest.mark.parametrize("strict", [False, True])
def test_a_wrapping_is_closed_like_every_other_object_of_a_strict_server(strict: bool) -> None:
    server = Server("schemas", strict_schemas=strict)

    def number() -> int:
        """A number."""
        raise NotImplementedError

    server.add_tool(number)
    with minimcp.connect(server, revision="2025-11-25") as client:
        wrapped = client.list_tools()[0].output_schema
    assert wrapped is not None and wrapped.get("additionalProperties", True) is not strict
