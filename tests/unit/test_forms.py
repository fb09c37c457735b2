"""Forms: the notations of an author, the schema for a client, and the conversion of its answer."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional, Set, Tuple, Union
from uuid import UUID

import pytest

from minimcp.schema.forms import form_of
from minimcp.schema.mismatch import Mismatch


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Number(enum.Enum):
    ONE = 1


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Order:
    """An order.

    Args:
        name: For whom.
    """

    name: str
    size: Size
    maybe: Optional[int]
    count: int = 3
    day: Optional[datetime.date] = None
    extras: List[Literal["milk", "sugar"]] = field(default_factory=list)
    only: Literal["x"] = "x"
    one_of_one: List[Literal["y"]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.name == "nobody":
            raise ValueError("nobody orders nothing")


def schema(required: Tuple[str, ...] = (), **fields: Any) -> Dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


TITLED = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
NAMES = {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}


@pytest.mark.requirement("ELIC-07")
def test_a_class() -> None:
    form = form_of(Order)
    size = {"type": "string", "enum": ["s", "l"]}
    choices = {"type": "array", "items": {"type": "string", "enum": ["milk", "sugar"]}}
    assert form.to_wire() == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "For whom."},
            "size": size,
            "maybe": {"type": "integer"},
            "count": {"type": "integer", "default": 3},
            "day": {"type": "string", "format": "date"},
            "extras": {**choices, "default": []},
            "only": {"type": "string", "enum": ["x"], "default": "x"},
            "one_of_one": {
                "type": "array",
                "items": {"type": "string", "enum": ["y"]},
                "default": [],
            },
        },
        "required": ["name", "size"],
    }
    assert form.has_lists
    assert form.read({"name": "Ada", "size": "s", "more": 1}) == Order("Ada", Size.SMALL, None)
    filled = {"name": "Ada", "size": "l", "maybe": 1, "day": "2026-07-28", "extras": ["milk"]}
    assert form.read(filled) == Order(
        "Ada", Size.LARGE, 1, day=datetime.date(2026, 7, 28), extras=["milk"]
    )
    for wrong, words in (
        ({"name": "Ada"}, "size"),
        ({"name": 1, "size": "s"}, "name"),
        ({"name": "nobody", "size": "s"}, "nobody"),
        ("text", "an object"),
    ):
        with pytest.raises(Mismatch, match=words):
            form.read(wrong)


def test_names_with_types() -> None:
    form = form_of({"age": int, "day": datetime.date, "note": Optional[str]})
    assert form.to_wire() == schema(
        ("age", "day"),
        age={"type": "integer"},
        day={"type": "string", "format": "date"},
        note={"type": "string"},
    )
    assert not form.has_lists
    read = form.read({"age": 3.0, "day": "2026-07-28"})
    assert (
        read == {"age": 3, "day": datetime.date(2026, 7, 28), "note": None}
        and type(read["age"]) is int
    )
    for wrong, words in (
        ({"age": 1}, "day is missing"),
        ({"age": "x", "day": "2026-07-28"}, "age: "),
    ):
        with pytest.raises(Mismatch, match=words):
            form.read(wrong)
    assert (
        form_of({}).to_wire() == {"type": "object", "properties": {}} and form_of({}).read({}) == {}
    )
    for kind in (str, "str"):
        assert form_of({"type": kind}).to_wire() == schema(("type",), type={"type": "string"})


@pytest.mark.requirement("X-03", "X-04")
@pytest.mark.requirement(
    "ELIC-08", "ELIC-09", "ELIC-10", "ELIC-11", "ELIC-12", "ELIC-13", "ELIC-14", "ELIC-15"
)
@pytest.mark.parametrize(
    ("given", "fits", "misfits", "plain"),
    [
        (
            {
                "type": "string",
                "title": "T",
                "description": "D",
                "minLength": 2,
                "maxLength": 3,
                "default": "ab",
            },
            ["abc"],
            ["a", "abcd", 5, None],
            {"default"},
        ),
        ({"type": "string", "pattern": "^x"}, ["xy"], ["y"], {"pattern"}),
        ({"type": "string", "format": "email"}, ["a@b"], ["ab", "a@b@c"], set()),
        ({"type": "string", "format": "uri"}, ["https://x.y/z", "urn:a"], ["x y", "/z"], set()),
        ({"type": "string", "format": "date"}, ["2026-07-28"], ["2026-13-01", "today"], set()),
        (
            {"type": "string", "format": "date-time"},
            ["2026-07-28T01:02:03Z"],
            ["2026-07-28"],
            set(),
        ),
        ({"type": "number", "minimum": 0.5, "maximum": 2}, [1, 1.5], [0, 3, "1", True], set()),
        ({"type": "integer", "minimum": 1, "default": 1}, [1, 2.0], [1.5, 0, True], {"default"}),
        ({"type": "boolean", "default": False}, [True, False], [0, "true"], set()),
        (NAMES, ["a"], ["A", "c"], set()),
        ({"type": "string", "enum": ["a", "b"], "default": "a"}, ["a"], ["c"], {"default"}),
        ({"type": "string", "oneOf": TITLED}, ["a"], ["A"], {"oneOf"}),
        (
            {
                "type": "array",
                "items": {"type": "string", "enum": ["a", "b"]},
                "minItems": 1,
                "maxItems": 1,
                "default": ["a"],
            },
            [["b"]],
            [[], ["a", "b"], ["c"], "a"],
            None,
        ),
        ({"type": "array", "items": {"anyOf": TITLED}}, [["a", "b"], []], [["A"]], None),
    ],
)
def test_fields(given: Dict[str, Any], fits: List[Any], misfits: List[Any], plain: Any) -> None:
    form = form_of(schema(("f",), f=given))
    assert form.to_wire()["properties"]["f"] == given
    for value in fits:
        assert form.read({"f": value}) == {"f": value}
    for value in misfits:
        with pytest.raises(Mismatch, match=r"^f(\[0\])?: "):
            form.read({"f": value})
    if plain is not None:
        older = form.to_wire(full=False)["properties"]["f"]
        assert {word for word in given if word not in older} == plain
        if "oneOf" in given:
            assert older == NAMES


def test_a_schema_that_defines_its_parts() -> None:
    form = form_of(
        {
            **schema(a={"$ref": "#/$defs/Size", "title": "T"}),
            "$defs": {"Size": {"type": "string", "enum": ["s"]}},
        }
    )
    assert form.to_wire()["properties"] == {"a": {"type": "string", "enum": ["s"], "title": "T"}}


@pytest.mark.requirement("ELIC-07", "M:ELI-4")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (5, "not 5"),
        (int, "int is not a class with fields"),
        (dict, "dict is not a class with fields"),
        ({"a": {"type": "string"}}, "a name and a type"),
        ({5: str}, "a name and a type"),
        ({"anyOf": [{"type": "object"}]}, "a name and a type"),
        (
            schema(a={"type": "integer", "multipleOf": 2}),
            "'a': a form's field of the type integer cannot have 'mult",
        ),
        ({"a": bytes}, "bytes"),
        (
            {"a": List[str]},
            "'a': its choices are missing; choices are strings: Literal.* or an Enum with",
        ),
        ({"a": Set[str]}, r"cannot have 'uniqueItems'; .* or list\[...\] of that"),
        ({"a": Number}, "cannot have 'enum'; choices are strings"),
        ({"a": Mixed}, "can only have flat .* fields; choices are strings"),
        (
            {"a": List[Number]},
            r"'a': items.enum\[0\]: expected a string, got the number 1; choices are strings",
        ),
        ({"a": Dict[str, int]}, "can only have flat .* fields$"),
        ({"a": Union[int, str, None]}, "can only have flat"),
        ({"a": UUID}, "format: expected one of 'email', "),
        (schema(a={"type": ["string", "null"]}), "can only have flat"),
        (schema(a={"type": "boolean", "minimum": 1}), "cannot have 'minimum'"),
        (schema(a={"type": "array"}), "its choices are missing"),
        (
            schema(a={"type": "array", "items": {"enum": ["a"], "pattern": "a"}}),
            "items: unknown field 'pattern'",
        ),
        (schema(a={"type": "string", "enum": []}), "enum: expected at least 1 item"),
        (schema(a={"type": "string", "enum": ["a", "a"]}), "enum: .* the same item twice"),
        (schema(a={"type": "string", "oneOf": 5}), "oneOf: expected a list"),
        (schema(a={"type": "string", "oneOf": [{"const": "a"}]}), r"oneOf\[0\].title is missing"),
    ],
)
def test_invalid_forms(given: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        form_of(given)


@pytest.mark.requirement("X-30")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (schema(("b",), a={"type": "boolean"}), "requires 'b'"),
        (schema(a={"type": "string", "enum": ["a"], "oneOf": TITLED}), "list the choices once"),
        (schema(a={"type": "string", "enum": ["a"], "enumNames": []}), "a name for each"),
        (schema(a={"type": "integer", "default": "x"}), "its default does not match"),
        (schema(a={"type": "string", "enum": ["a"], "default": "b"}), "its default does not match"),
        (schema(a={"type": "string", "pattern": "("}), "field 'a'"),
        (schema(a={"type": "string", "enumNames": ["a"]}), "a name for each"),
        (
            {"type": "string"},
            "a flat object with properties: type: expected 'object', got the string 'string'",
        ),
        ({"type": ["object", "null"]}, "type: expected 'object', got a list of 2"),
        ({**schema(a={"type": "boolean"}), "allOf": []}, "unknown field 'allOf'"),
        ({"type": "object", "properties": []}, "properties: expected an object"),
        ({"type": "object", "properties": {"a": []}}, "properties.a: expected an object"),
        ({**schema(a={"type": "boolean"}), "required": "a"}, "required: expected a list"),
        ({**schema(a={"type": "boolean"}), "required": [5]}, r"required\[0\]: expected a string"),
    ],
)
def test_contradictory_forms(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        form_of(given)


@pytest.mark.requirement("ELIC-20", "M:ELI-8")
def test_asking_for_a_secret_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    form_of({"password": str})
    assert "request secrets by URL" in caplog.text
    caplog.clear()
    form_of({"passenger": str, "spin": bool})
    assert caplog.text == ""
