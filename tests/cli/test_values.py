"""``key=value`` words, read as a tool's schema asks; and schemas in a few words."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from minimcp.cli import UsageError
from minimcp.cli.terminal import kind, parameters, read_object, read_pairs

ROOT: Dict[str, Any] = {
    "$defs": {
        "Colour": {"enum": ["red", 3, None]},
        "Round": {"$ref": "#/$defs/Round"},
        "Circle": {"anyOf": [{"$ref": "#/$defs/Circle"}]},
        "a/b": {"type": "integer"},
    }
}
ANY_OF = {"anyOf": [{"type": "string"}, {"type": "number"}]}
MAYBE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(("schema", "text", "value"), [
    ({"type": "string"}, "1", "1"), ({"type": "string"}, "a=b", "a=b"), ({"type": "string"}, "", ""),
    ({"type": "integer"}, "-12", -12), ({"type": "number"}, "12", 12), ({"type": "number"}, "1e3", 1000.0),
    ({"type": "boolean"}, "True", True), ({"type": "boolean"}, "no", False), ({"type": "null"}, "null", None),
    ({"type": "object"}, '{"a": [1]}', {"a": [1]}), ({"type": "array"}, "[1, 2]", [1, 2]),
    ({"type": "array", "items": {"type": "integer"}}, "5", [5]),
    ({"type": "array", "items": {"type": "string"}}, "x", ["x"]),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "integer"]}, "7", 7), ({"type": ["string", "integer"]}, "seven", "seven"),
    (ANY_OF, "2.5", 2.5), (ANY_OF, "two", "two"),
    ({"oneOf": [{"$ref": "#/$defs/Colour"}, {"type": "boolean"}]}, "yes", True),
    ({"$ref": "#/$defs/Colour"}, "red", "red"), ({"$ref": "#/$defs/Colour"}, "3", 3),
    ({"$ref": "#/$defs/Colour"}, "null", None), ({"$ref": "#/$defs/a~1b"}, "3", 3),
    ({"const": 5}, "5", 5), ({"type": "strange"}, "5", 5),
    ({}, "5", 5), ({}, "five", "five"), ({}, "NaN", "NaN"), ({}, "[" * 100_000, "[" * 100_000), (True, "[]", []),
    ({"$ref": "#/$defs/Missing/deeper"}, "5", 5), ({"$ref": "#/$defs/Round"}, "5", 5),
    ({"$ref": "https://example.org/schema"}, "5", 5),
    ({"allOf": [{"$ref": "#/$defs/a~1b"}, {"minimum": 1}]}, "3", 3),
    ({"allOf": [{"type": "integer"}], "type": "string"}, "3", "3"),
    ({"anyOf": [{"$ref": "#/$defs/Circle"}]}, "5", 5),
    ({"properties": {"a": {}}}, '{"a": 1}', {"a": 1}), ({"items": {"type": "string"}}, "5", ["5"]),
    ({"oneOf": [{"const": 1}, {"const": "b"}]}, "1", 1),
])
def test_a_value_is_read_by_its_schema(schema: Any, text: str, value: Any) -> None:
    read = read_pairs([f"x={text}"], {**ROOT, "properties": {"x": schema}})
    assert read == {"x": value} and type(read["x"]) is type(value)


@pytest.mark.parametrize(("schema", "words", "said"), [
    ({"type": "integer"}, ["x=1.5"], "x: expected integer, got '1.5'"),
    ({"type": "number"}, ["x=inf"], "x: expected number, got 'inf'"),
    ({"type": "number"}, ["x=much"], "x: expected number, got 'much'"),
    ({"type": "boolean"}, ["x=2"], "x: expected boolean, got '2'"),
    ({"type": "object"}, ["x=[]"], "x: expected object, got '[]'"),
    ({"type": ["integer", "null"]}, ["x=a"], "x: expected integer or null, got 'a'"),
    (MAYBE, ["x=a"], "x: expected integer or null, got 'a'"),
    ({"enum": ["京", 1]}, ["x=b"], "x: expected one of 京, 1, got 'b'"),
    ({"oneOf": [{"const": "a"}, {"const": 1}]}, ["x=b"], "x: expected a or 1, got 'b'"),
    ({"type": "integer"}, ["x=1", "x=2"], "x: expected one value, got '1', '2'"),
    (MAYBE, ["x=1", "x=2"], "x: expected one value, got '1', '2'"),
    ({}, ["x"], "'x' is not key=value"),
    ({}, ["=x"], "'=x' is not key=value"),
])
def test_a_value_that_does_not_fit_is_wrong_usage(schema: Any, words: List[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pairs(words, {"properties": {"x": schema}})
    assert str(caught.value) == said


def test_a_key_that_comes_twice_makes_a_list() -> None:
    schema = {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    assert read_pairs(["x=1", "x=2", "y=a", "y=b"], schema) == {"x": [1, 2], "y": ["a", "b"]}
    maybe = {"properties": {"x": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}}}
    assert read_pairs(["x=1", "x=2"], maybe) == {"x": ["1", "2"]}
    assert read_pairs(["x=1"], {}) == {"x": 1}


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"a": NaN}', "[" * 100_000])
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(UsageError, match="--json: "):
        read_object(text, "--json")


def test_circular_and_odd_schemas_are_shown() -> None:
    root = {"$defs": {"A": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/A"}}]}}}
    assert kind({"$ref": "#/$defs/A"}, root).startswith("integer or array of integer or array of ")
    assert [kind(each) for each in ({"type": "string", "format": ["date"]}, True, {"type": 5}, {"enum": ["京"]})] == [
        "string", "any", "any", 'one of "京"',
    ]


def test_what_objects_hold_is_shown() -> None:
    due = {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}
    where = {"type": "object", "properties": {"room": {"type": "string"}}}
    fields = {"due": due, "done": {"default": False}, "where": where}
    root = {"$defs": {"Todo": {"type": "object", "required": ["due"], "properties": fields}}}
    todos, at = {"type": "array", "items": {"$ref": "#/$defs/Todo"}}, {"type": "string", "format": "date-time"}
    words = "array of object (due: date or null, done: any = false, [where: object])"
    schema = {"properties": {"all": todos, "at": at}, "required": ["at"]}
    assert parameters(schema, root) == f"[all: {words}], at: date and time"
