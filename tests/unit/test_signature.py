# ruff: noqa: E501
"""Functions read as tools: schema, arguments, results, docstrings, and what is refused."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Callable,
    Dict,
    Generic,
    List,
    Literal,
    NewType,
    Optional,
    TypeVar,
    Union,
)

import pydantic
import pytest
import typing_extensions as te

from minimcp.schema import Limits, Mismatch, Signature, read_signature
from minimcp.schema.mismatch import NOTHING

from ..rows import for_each

if TYPE_CHECKING:
    from datetime import date as OnlyForTheChecker


T = TypeVar("T")


class Context:
    """Stands for the library's."""


class Derived(Context):
    """A kind of it."""


class Text:
    """Stands for a content class."""


def read(function: Any, **options: Any) -> Signature:
    return read_signature(function, context_type=Context, owner="tool 'f'", **options)


def problem(signature: Signature, arguments: Any) -> str:
    with pytest.raises(Mismatch) as caught:
        signature.read_arguments(arguments)
    return str(caught.value)


def refusal(function: Any) -> str:
    with pytest.raises(TypeError) as caught:
        read(function)
    return str(caught.value)


@pytest.mark.requirement("TOOL-04", "TOOL-06", "M:TOOL-5")
def test_a_function_without_parameters() -> None:
    def f() -> None: ...

    signature = read(f)
    assert signature.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert signature.read_arguments({}) == {}
    assert problem(signature, {"a": 1}) == "unknown field 'a': there are no fields"
    assert problem(signature, []) == "expected an empty object, got an empty list"
    assert signature.output_kind is not None
    assert signature.output_kind.schema == {"type": "null"}


def test_parameters_defaults_and_the_context() -> None:
    def f(city: str, ctx: Context, days: int = 3, *, unit: Optional[str] = None, deep: bool) -> List[int]:
        """Forecast the weather.

        Two paragraphs.

        Args:
            city: Name of the city.
            days (int): How many days
                ahead.

        Returns:
            Numbers.
        """
        return []

    signature = read(f)
    assert signature.context_parameter == "ctx"
    assert signature.description == "Forecast the weather.\n\nTwo paragraphs."
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city."},
            "days": {"type": "integer", "description": "How many days ahead.", "default": 3},
            "unit": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "deep": {"type": "boolean"},
        },
        "required": ["city", "deep"],
        "additionalProperties": False,
    }
    assert [(each.name, each.required) for each in signature.parameters] == [
        ("city", True), ("days", False), ("unit", False), ("deep", True),
    ]
    assert signature.parameters[0].description == "Name of the city."
    assert signature.read_arguments({"city": "Oslo", "deep": True, "days": 2.0}) == {
        "city": "Oslo",
        "deep": True,
        "days": 2,
    }
    assert signature.returns == List[int]


@for_each(
    ("arguments", "message"),
    [
        ({}, "city is missing: expected a string, got nothing"),
        ({"city": 1}, "city: expected a string, got the number 1"),
        ({"town": "Oslo"}, "unknown field 'town': the fields are city, days and tags; missing: city"),
        ({"ctiy": "Oslo"}, "unknown field 'ctiy', did you mean 'city'?"),
        ({"city": "Oslo", "Days": 3}, "unknown field 'Days', did you mean 'days'?"),
        ({"city": "Oslo", "days": "x" * 99}, f"days: expected an integer, got the string '{'x' * 60}...'"),
        ({"city": "Oslo", "tags": ["a", None]}, "tags[1]: expected a string, got null"),
    ],
)
def test_arguments_that_do_not_fit_are_told_in_one_line(arguments: Dict[str, Any], message: str) -> None:
    def f(city: str, days: int = 1, tags: List[str] = []) -> None:  # noqa: B006
        ...

    assert problem(read(f), arguments) == message


class Handler:
    class Inner:
        """A name in the body of the class."""

    @dataclass
    class Item:
        n: int

    def method(self, item: Item, ctx: Optional[Context] = None) -> None: ...

    @classmethod
    def of_class(cls, a: int) -> None: ...

    @staticmethod
    def static(a: int) -> None: ...

    def only_self_positional(self, /, a: int) -> None: ...


def test_methods_of_every_form() -> None:
    handler = Handler()
    signature = read(handler.method)
    assert signature.context_parameter == "ctx"
    assert signature.read_arguments({"item": {"n": 1}}) == {"item": Handler.Item(1)}
    for method in (handler.of_class, handler.static, handler.only_self_positional, Handler.of_class, Handler.static):
        assert [each.name for each in read(method).parameters] == ["a"]


F = TypeVar("F", bound=Callable[..., Any])


def wrapped(function: F) -> F:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any: ...

    return inner  # type: ignore[return-value]


def test_a_wrapped_function_is_read_through_its_wrapper() -> None:
    class Wrapped:
        @wrapped
        def method(self, a: int) -> None: ...

    @wrapped
    @wrapped
    def f(a: int) -> None:
        """Text."""

    assert [each.name for each in read(f).parameters] == ["a"]
    assert read(f).description == "Text."
    assert [each.name for each in read(Wrapped().method).parameters] == ["a"]


def test_a_default_of_none_makes_the_parameter_optional() -> None:
    def f(a: int = None, b: Annotated[int, "text"] = None) -> None:  # type: ignore[assignment]
        ...

    signature = read(f)
    assert signature.read_arguments({"a": None, "b": None}) == {"a": None, "b": None}
    assert signature.input_schema["properties"]["b"]["default"] is None


def test_a_default_without_json_form_is_left_out_of_the_schema() -> None:
    def f(a: int = "x", b: Any = object()) -> None:  # type: ignore[assignment]  # noqa: B008
        ...

    assert read(f).input_schema["properties"] == {"a": {"type": "integer"}, "b": {}}


def test_a_description_in_the_annotation_goes_before_the_docstring() -> None:
    def f(a: Annotated[int, "from the annotation"]) -> None:
        """:param a: from the docstring"""

    assert read(f).parameters[0].description == "from the annotation"


def test_the_context_in_every_spelling() -> None:
    def optional(a: int, c: Optional[Context] = None) -> None: ...
    def bar(a: int, c: "Context | None" = None) -> None: ...  # noqa: UP037
    def first(c: Context, a: int) -> None: ...

    def derived(c: Derived, a: int) -> None: ...

    for function in (optional, bar, first, derived):
        signature = read(function)
        assert signature.context_parameter == "c"
        assert [each.name for each in signature.parameters] == ["a"]


Texts = te.TypeAliasType("Texts", "List[Union[Text, Texts]]")
Noted = NewType("Noted", Text)
Some = TypeVar("Some", bound=Text)
Json = Union[None, str, List["Json"]]


def test_content_classes_are_found_behind_other_names() -> None:
    def noted() -> Annotated[Text, "noted"]: ...  # type: ignore[empty-body]
    def several() -> Optional[List[Annotated[Text, "noted"]]]: ...
    def alias() -> Texts: ...  # type: ignore[empty-body, valid-type]
    def new_type() -> Noted: ...  # type: ignore[empty-body]
    def variable() -> Some: ...  # type: ignore[empty-body, type-var]
    def recursive() -> Json: ...  # type: ignore[empty-body]
    def twice() -> Dict[str, Union[Json, Json2]]: ...  # type: ignore[empty-body, valid-type]

    for function in (noted, several, alias, new_type, variable):
        assert read(function, content_types=(Text,)).output_kind is None
    def words() -> List[Literal["Text"]]: ...  # type: ignore[empty-body]

    for function in (recursive, twice, words):
        assert read(function, content_types=(Text,)).output_kind is not None


Json2 = te.TypeAliasType("Json2", "Union[int, List[Json2], Dict[str, Json2]]")


def test_the_result_of_each_annotation() -> None:
    def none(a: int): ...  # type: ignore[no-untyped-def]
    def text() -> Text: ...  # type: ignore[empty-body]
    def texts() -> List[Union[Text, str]]: ...  # type: ignore[empty-body]
    def maybe() -> "Text | None": ...  # noqa: UP037
    def pair() -> "tuple[Text, ...]": ...  # noqa: UP037
    def number() -> int: ...  # type: ignore[empty-body]
    def noted() -> Annotated[List[int], "numbers"]: ...  # type: ignore[empty-body]

    assert read(none).returns is NOTHING
    for function in (none, text, texts, maybe, pair):
        assert read(function, content_types=(Text,)).output_kind is None
    for function in (number, noted):
        assert read(function, content_types=(Text,)).output_kind is not None
    assert "Text has no JSON form" in refusal(text)


async def coroutine() -> None: ...


async def async_generator() -> Any:
    yield 1


def generator() -> Any:
    yield 1


def stars(a: int, *rest: str) -> None: ...


def double_stars(a: int, *rest: str, **more: str) -> None: ...


def only_double_stars(a: int, **more: str) -> None: ...


def positional(a: int, /) -> None: ...


def bare_context(a: str, ctx) -> None: ...  # type: ignore[no-untyped-def]


def field_as_default(a: str = pydantic.Field("x", description="An a.")) -> None: ...


def bare(a) -> None: ...  # type: ignore[no-untyped-def]


def unresolved(day: OnlyForTheChecker) -> None: ...


def unresolved_result() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821


def binary(data: bytes) -> None: ...


def two_contexts(a: Context, b: Context) -> None: ...


def context_or_number(a: Union[Context, int]) -> None: ...


def number_as_type(a: 3) -> None: ...  # type: ignore[valid-type]


def unclosed(a: Annotated[str, Limits(pattern="(")]) -> None: ...


def unclosed_result() -> List[Annotated[str, Limits(pattern="(")]]: ...  # type: ignore[empty-body]


def broken(a: 1 / 0) -> None: ...  # type: ignore[valid-type]


@dataclass
class Growing(Generic[T]):
    """Each level is another type."""

    more: "Optional[Growing[List[T]]]" = None


def endless(a: Growing[int]) -> None: ...


def ellipsis_result() -> List[Callable[..., int]]: ...  # type: ignore[empty-body]


@for_each(
    ("function", "words"),
    [
        (coroutine, ["tool 'f' is async", "plain def"]),
        (async_generator, ["async generator", "ctx.progress"]),
        (generator, ["is a generator", "return a list"]),
        (stars, ["*rest", "rest: list[str]"]),
        (double_stars, ["*rest"]),
        (only_double_stars, ["**more", "more: dict[str, str]"]),
        (positional, ["positional-only", "'a'", "'/'"]),
        (bare, ["'a' has no annotation", "a: str"]),
        (bare_context, ["'ctx' has no annotation", "ctx: Context"]),
        (field_as_default, ["'a'", "a Field is no default", "a: Annotated[<type>, Field(...)] = <default>"]),
        (unresolved, ["tool 'f'", "'day'", "'OnlyForTheChecker'", "TYPE_CHECKING"]),
        (unresolved_result, ["return type", "'Missing'"]),
        (binary, ["parameter 'data'", "bytes have no JSON form", "base64"]),
        (two_contexts, ["'a' and 'b'", "keep one"]),
        (context_or_number, ["'a'", "Context has no JSON form"]),
        (number_as_type, ["'a'", "3 is not a type"]),
        (broken, ["ZeroDivisionError"]),
        (unclosed, ["parameter 'a'", "the pattern '(' is no regular expression"]),
        (unclosed_result, ["return type", "the pattern '(' is no regular expression"]),
        (endless, ["parameter 'a'", "a new type, without end"]),
        (ellipsis_result, ["return type"]),
        (Handler, ["is a class", "instance"]),
        (Handler.method, ["takes self", "@minimcp.tool", "an object of its class"]),
        (len, ["no Python function"]),
        (wrapped(coroutine), ["is async"]),
    ],
)
def test_what_cannot_be_a_tool_says_what_to_write_instead(function: Any, words: List[str]) -> None:
    message = refusal(function)
    assert [word for word in words if word not in message] == [], message
    assert "tool 'f'" in message


def test_a_name_that_is_not_assigned_yet_is_unresolved() -> None:
    def f(a: Later) -> Any:
        return Later

    assert "'Later'" in refusal(f)

    class Later:
        pass


def test_names_of_the_enclosing_function_are_found_when_it_uses_them() -> None:
    @dataclass
    class Local:
        n: int

    def f(a: Local) -> Any:
        return Local

    assert read(f).read_arguments({"a": {"n": 1}}) == {"a": Local(1)}


def test_arguments_that_nest_too_deep_are_a_mismatch() -> None:
    @dataclass
    class Node:
        next: Optional[Node]

    def f(a: Node) -> Any:
        return Node

    value: Any = None
    for _ in range(sys.getrecursionlimit()):
        value = {"next": value}
    assert problem(read(f), {"a": value}) == "the arguments nest too deep"

    def overflow(arguments: Any) -> Any:
        raise RecursionError

    signature = read(f)
    signature._read = overflow  # once more without a full stack, near which a tracer sees little
    assert problem(signature, {}) == "the arguments nest too deep"
