"""Validators of pydantic and annotated_types in every position, and ``Field`` as a default."""

from __future__ import annotations

import decimal
import pathlib
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import annotated_types
import pydantic
import pytest
from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WrapValidator
from typing_extensions import Annotated, TypedDict

import minimcp
from minimcp import Server

from ..answering import R5, REVISIONS
from ..inside import registry_of
from ..rows import for_each


def refuse(value: Any) -> Any:
    """A validator that refuses "no"."""
    if value == "no":
        raise ValueError("it says no")
    return value


def wrap(value: Any, handler: Any) -> Any:
    return refuse(handler(value))


def is_not_no(value: Any) -> bool:
    return bool(value != "no")


Guarded = {
    "after": Annotated[str, AfterValidator(refuse)],
    "before": Annotated[str, BeforeValidator(refuse)],
    "plain": Annotated[str, PlainValidator(refuse), pydantic.WithJsonSchema({"type": "string"})],
    "wrap": Annotated[str, WrapValidator(wrap)],
    "two": Annotated[str, AfterValidator(str.strip), AfterValidator(refuse)],
    "in a field": Annotated[str, "Text.", Field(max_length=3), AfterValidator(refuse)],
    "predicate": Annotated[str, annotated_types.Predicate(is_not_no)],
}


def positions(guarded: Any) -> Dict[str, Tuple[Any, Callable[[Any], Any]]]:
    """Return types that contain a type in each possible position, with the function that wraps a
    value for it."""
    made = dataclass(type("Made", (), {"__annotations__": {"at": guarded}, "__module__": __name__}))
    typed = TypedDict("typed", {"at": guarded})  # type: ignore[misc]
    named = NamedTuple("named", [("at", guarded)])  # type: ignore[misc]
    return {
        "alone": (guarded, lambda value: value),
        "optional": (Optional[guarded], lambda value: value),
        "list": (List[guarded], lambda value: [value]),
        "dict": (Dict[str, guarded], lambda value: {"at": value}),
        "tuple": (Tuple[int, guarded], lambda value: [1, value]),
        "dataclass": (made, lambda value: {"at": value}),
        "TypedDict": (typed, lambda value: {"at": value}),
        "NamedTuple": (named, lambda value: {"at": value}),
        "nested": (List[Optional[made]], lambda value: [{"at": value}]),
    }


def served(annotation: Any, default: Any = ...) -> Tuple[Server, List[Any]]:
    """A server whose tool, prompt and template record their arguments."""
    got: List[Any] = []

    def note(value: Any) -> str:
        """Note."""
        got.append(value)
        return ""

    note.__annotations__["value"] = annotation
    if default is not ...:
        note.__defaults__ = (default,)
    server = Server("validators")
    server.add_tool(note)
    return server, got


@pytest.mark.parametrize("position", positions(str))
@pytest.mark.parametrize("guard", Guarded)
def test_a_validator_runs_in_every_position(guard: str, position: str) -> None:
    annotation, sent = positions(Guarded[guard])[position]
    server, got = served(annotation)
    with minimcp.connect(server) as client:
        client.call_tool("note", {"value": sent("yes")})
        with pytest.raises(minimcp.ToolError, match="says no|is_not_no is true|fits none"):
            client.call_tool("note", {"value": sent("no")})
        assert len(got) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_validator_runs_for_prompts_templates_and_results(revision: str) -> None:
    server = Server("validators")

    def ask(value: Annotated[str, AfterValidator(refuse), AfterValidator(str.upper)]) -> str:
        """Ask."""
        return value

    def give(value: str) -> Annotated[str, AfterValidator(refuse), AfterValidator(str.upper)]:
        """Give."""
        return value

    for function in (ask, give):
        function.__annotations__ = {
            name: eval(said, globals()) for name, said in function.__annotations__.items()
        }
    server.add_prompt(ask)
    server.add_resource(ask, "notes://{value}", name="ask")
    server.add_tool(give, structured=True)
    with minimcp.connect(server, revision=revision) as client:
        assert client.get_prompt("ask", {"value": "a"}).messages[0].content.text == "A"
        assert client.read_resource("notes://a").text == "A"
        assert client.call_tool("give", {"value": "a"}).text == "A"
        with pytest.raises(minimcp.InvalidParams, match="it says no"):
            client.get_prompt("ask", {"value": "no"})
        with pytest.raises(minimcp.ResourceNotFound):
            client.read_resource("notes://no")
        with pytest.raises(minimcp.ToolError, match="it says no"):
            client.call_tool("give", {"value": "no"})


@for_each(
    ("annotation", "sent", "got", "wrong"),
    [
        (Annotated[str, AfterValidator(str.upper)], "a", "A", 5),
        (Annotated[List[str], BeforeValidator(lambda v: v.split(",") if isinstance(v, str) else v)], "a,b", ["a", "b"], 5),
        (Annotated[int, PlainValidator(lambda v: int(v) + 1), pydantic.WithJsonSchema({})], "2", 3, "x"),
        (pydantic.FilePath, __file__, pathlib.Path(__file__), "/no/such/file"),
        (pydantic.DirectoryPath, "/", pathlib.Path("/"), __file__),
        (pydantic.Base64Str, "aGk=", "hi", "a"),
        (pydantic.Base64Bytes, "aGk=", b"hi", "a"),
        (pydantic.constr(strip_whitespace=True, to_upper=True), " a ", "A", 5),
        (pydantic.constr(min_length=2), "ab", "ab", "a"),
        (pydantic.condecimal(max_digits=3), "1.5", decimal.Decimal("1.5"), "1.2345"),
        (pydantic.UUID4, "123e4567-e89b-42d3-a456-426614174000", ..., "123e4567-e89b-12d3-a456-426614174000"),
        (pydantic.Json[List[int]], "[1]", [1], "[x]"),
        (pydantic.HttpUrl, "https://example.com/", pydantic.HttpUrl("https://example.com/"), "example"),
        (annotated_types.LowerCase[str], "a", "a", "A"),
        (Annotated[str, annotated_types.Predicate(annotated_types.Not(str.isdigit))], "a", "a", "1"),
        (Annotated[int, annotated_types.Interval(ge=1, le=2)], 1, 1, 3),
        (Annotated[List[int], annotated_types.Len(1, 2)], [1], [1], []),
    ],
)  # fmt: skip
def test_types_of_pydantic_validate_their_values(
    annotation: Any, sent: Any, got: Any, wrong: Any
) -> None:
    server, values = served(annotation)
    with minimcp.connect(server) as client:
        client.call_tool("note", {"value": sent})
        assert got is ... or values == [got]
        with pytest.raises(minimcp.ToolError, match="^value"):
            client.call_tool("note", {"value": wrong})


class Broken:
    """Metadata for pydantic that fails."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        raise RuntimeError("no schema today")


@dataclass
class WithField:
    number: int = Field(3, ge=1)


class NamedField(NamedTuple):
    number: int = Field(3, ge=1)


@for_each(
    ("annotation", "words"),
    [
        (Annotated[str, annotated_types.Timezone(None)], "Timezone"),
        (Annotated[str, Broken()], "no schema today"),
        (Annotated[str, PlainValidator(refuse), minimcp.schema.Limits(max_length=1)], "max_length"),
        (Annotated[int, pydantic.StringConstraints(min_length=1)], "min_length=1 cannot limit"),
        (WithField, "WithField does not support Field"),
        (NamedField, "NamedField does not support Field"),
        (Annotated[str, Field(examples=[float("nan")])], r"examples\[0\]"),
        (Annotated[str, Field(json_schema_extra={"x": {"y": {1}}})], "x.y is a set"),
    ],
)
def test_unsupported_validators_are_rejected_by_parameter_name(annotation: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"parameter 'value': .*{words}"):
        served(annotation)


@for_each("annotation", [Guarded["after"], List[Guarded["before"]], Guarded["predicate"]])  # noqa: F821
def test_an_input_schema_does_not_replace_validators(annotation: Any) -> None:
    server, _ = served(annotation)
    note = registry_of(server).tools.items["note"].function
    with pytest.raises(TypeError, match="the validators of 'value' would not run"):
        server.add_tool(note, name="given", input_schema={})


def odd(value: int) -> int:
    if value % 2 == 0:
        raise ValueError("must be odd")
    return value


@for_each(
    ("annotation", "text", "said"),
    [
        (Annotated[int, Field(ge=1)], "0", "expected a number of at least 1, got the number 0"),
        (Annotated[int, AfterValidator(odd)], "4", "must be odd"),
        (Optional[Annotated[int, Field(ge=1)]], "0", "at least 1"),
        (Annotated[List[int], Field(min_length=2)], "[1]", "at least 2"),
        (Annotated[List[int], Field(min_length=2)], "many", "got the string 'many'"),
        (Annotated[bool, AfterValidator(lambda value: odd(2 - value))], "false", "must be odd"),
        (int, "many", "got the string 'many'"),
    ],
)
def test_the_text_of_a_prompt_is_read_before_it_is_judged(
    annotation: Any, text: str, said: str
) -> None:
    server = Server("prompts")

    def ask(value: Any) -> str:
        """Ask."""
        return str(value)

    ask.__annotations__["value"] = annotation
    server.add_prompt(ask)
    with minimcp.connect(server) as client:
        with pytest.raises(minimcp.InvalidParams) as caught:
            client.get_prompt("ask", {"value": text})
        assert said in str(caught.value)


def test_metadata_of_other_packages_says_nothing() -> None:
    class Option:
        """Metadata of a command-line library."""

        min = 3
        help = "What it is."

    server, _ = served(Annotated[str, Option(), annotated_types.Unit("m"), pydantic.Strict()])
    assert registry_of(server).tools.items["note"].definition.input_schema["properties"][
        "value"
    ] == {"type": "string"}


# ------------------------------------------------------------ Field as a default


@for_each(
    ("annotation", "default", "schema", "got"),
    [
        (str, Field(), {"type": "string"}, None),
        (str, Field(description="d"), {"type": "string", "description": "d"}, None),
        (str, Field(..., min_length=1), {"type": "string", "minLength": 1}, None),
        (int, Field(3), {"type": "integer", "default": 3}, [3]),
        (int, Field(default=3, ge=1, description="d"),
         {"type": "integer", "default": 3, "minimum": 1, "description": "d"}, [3]),
        (Optional[int], Field(None), {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, [None]),
        (int, Field(None), {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, [None]),
        (List[int], Field(default_factory=list), {"type": "array", "items": {"type": "integer"}, "default": []}, [[]]),
        (List[int], Field([1]), {"type": "array", "items": {"type": "integer"}, "default": [1]}, [[1]]),
        (int, Field(default_factory=lambda: 7), {"type": "integer"}, [7]),
        (int, Field(default_factory=lambda data: len(data)), {"type": "integer"}, [0]),
        (Annotated[int, Field(default=3)], ..., {"type": "integer", "default": 3}, [3]),
        (Annotated[int, Field(default=3)], 4, {"type": "integer", "default": 4}, [4]),
        (Annotated[int, Field(default_factory=lambda: 7)], ..., {"type": "integer"}, [7]),
        (str, Field("x", title="T", examples=["y"], deprecated=True, json_schema_extra={"x-a": 1, "enum": ["z"]}),
         {"type": "string", "default": "x", "title": "T", "examples": ["y"], "deprecated": True, "x-a": 1}, ["x"]),
    ],
)  # fmt: skip
def test_a_field_as_a_default(annotation: Any, default: Any, schema: Any, got: Any) -> None:
    server, values = served(annotation, default)
    with minimcp.connect(server, revision=R5) as client:
        shown = client.list_tools()[0].input_schema
        assert shown["properties"]["value"] == schema
        assert ("required" in shown) == (got is None)
        if got is None:
            with pytest.raises(minimcp.ToolError, match="value is missing"):
                client.call_tool("note")
        else:
            client.call_tool("note")
            client.call_tool("note")
            assert values == got * 2
            assert values[0] is not values[1] or not isinstance(values[0], list)


def test_a_field_as_a_default_with_other_schemas_and_texts() -> None:
    server, values = served(int, Field(3))
    note = registry_of(server).tools.items["note"].function
    server.add_tool(note, name="given", input_schema={"properties": {"value": {"type": "integer"}}})
    server.add_prompt(note)
    server.add_resource(note, "notes://all{?value}", name="all")
    with minimcp.connect(server) as client:
        client.call_tool("given")
        client.get_prompt("note")
        client.get_prompt("note", {"value": ""})
        client.read_resource("notes://all")
        client.read_resource("notes://all?value=5")
    assert values == [3, 3, 3, 3, 5]


@pydantic.dataclasses.dataclass
class Model:
    """A dataclass of pydantic, which knows Field."""

    number: int = Field(3, ge=1)
    items: List[int] = field(default_factory=list)

    @pydantic.field_validator("number")
    @classmethod
    def odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("odd numbers only")
        return value


def test_a_dataclass_of_pydantic_is_a_model() -> None:
    server, values = served(Model)
    with minimcp.connect(server) as client:
        client.call_tool("note", {"value": {}})
        assert values == [Model(3, [])]
        for wrong in (2, 0, "x"):
            with pytest.raises(minimcp.ToolError, match="number"):
                client.call_tool("note", {"value": {"number": wrong}})
