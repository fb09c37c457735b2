# ruff: noqa: E501
"""Functions as tools: schema, arguments, results, docstrings, and rejections."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import (
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

from ..rows import for_each

T = TypeVar("T")


class Context:
    """Stands for the library's."""


class Derived(Context):
    """A kind of it."""


class Text:
    """Stands for a content class."""


def read(function: Any, **options: Any) -> Signature:
    return read_signature(function, context_type=f"{__name__}.Context", owner="tool 'f'", **options)


def problem(signature: Signature, arguments: Any) -> str:
    with pytest.raises(Mismatch) as caught:
        signature.read_arguments(arguments)
    return str(caught.value)


def refusal(function: Any) -> str:
    with pytest.raises(TypeError) as caught:
        read(function)
    return str(caught.value)


def test_parameters_defaults_and_the_context() -> None:
    def f(
        city: str, ctx: Context, days: int = 3, *, unit: Optional[str] = None, deep: bool
    ) -> List[int]:
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
    }
    assert [(each.name, each.required) for each in signature.parameters] == [
        ("city", True),
        ("days", False),
        ("unit", False),
        ("deep", True),
    ]
    assert signature.parameters[0].description == "Name of the city."
    assert signature.read_arguments({"city": "Oslo", "deep": True, "days": 2.0}) == {
        "city": "Oslo",
        "deep": True,
        "days": 2,
    }
    assert signature.returns == List[int]


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


def test_defaults_and_descriptions() -> None:
    def f(n: Annotated[int, "noted"], a: int = None, c: int = "x", d: Any = object()) -> None:  # type: ignore[assignment]  # noqa: B008
        """:param n: from the docstring"""

    signature = read(f)
    maybe = {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert signature.input_schema["properties"]["a"] == maybe, (
        "a default of None makes the parameter optional"
    )
    assert signature.input_schema["properties"]["c"] == {"type": "integer"}, (
        "a default without JSON form is left out"
    )
    assert signature.input_schema["properties"]["d"] == {}
    assert signature.read_arguments({"n": 1, "a": None}) == {"n": 1, "a": None}
    assert signature.parameters[0].description == "noted"


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


@dataclass
class Growing(Generic[T]):
    """Each level is another type."""

    more: "Optional[Growing[List[T]]]" = None


@for_each(
    ("source", "words"),
    [
        (
            "def f(a: int = pydantic.Field(3, max_length=1)) -> None: ...",
            ["parameter 'a'", "max_length=1 cannot limit an integer"],
        ),
        ("def f() -> Missing: ...", ["return type", "'Missing'"]),
        ("def f(a: Union[Context, int]) -> None: ...", ["'a'", "Context has no JSON form"]),
        ("def f(a: 1 / 0) -> None: ...", ["ZeroDivisionError"]),
        (
            "def f(a: Annotated[str, Limits(pattern='(')]) -> None: ...",
            ["parameter 'a'", "the pattern '(' is not a Python regular expression"],
        ),
        (
            "def f() -> List[Annotated[str, Limits(pattern='(')]]: ...",
            ["return type", "the pattern '(' is not a Python regular expression"],
        ),
        ("def f(a: Growing[int]) -> None: ...", ["parameter 'a'", "recursion"]),
        ("def f() -> List[Callable[..., int]]: ...", ["return type"]),
        ("@wrapped\nasync def f() -> None: ...", ["is async"]),
    ],
)
def test_the_error_for_an_invalid_tool_says_what_to_write_instead(
    source: str, words: List[str]
) -> None:
    found: Dict[str, Any] = {}
    exec(source, {**globals(), "pydantic": pydantic, "Limits": Limits}, found)
    message = refusal(found["f"])
    assert [word for word in [*words, "tool 'f'"] if word not in message] == [], message


def test_names_of_the_enclosing_function_are_found_when_it_uses_them() -> None:
    @dataclass
    class Local:
        n: int

    def f(a: Local) -> Any:
        return Local, later

    assert read(f).read_arguments({"a": {"n": 1}}) == {"a": Local(1)}, (
        "though another of them has no value yet"
    )
    later = f


def test_arguments_that_nest_too_deep_are_a_mismatch() -> None:
    @dataclass
    class Node:
        next: Optional[Node]

    def f(a: Node) -> Any:
        return Node

    value: Any = None
    for _ in range(sys.getrecursionlimit()):
        value = {"next": value}
    assert problem(read(f), {"a": value}) == "the arguments are nested too deeply"

    def overflow(arguments: Any) -> Any:
        raise RecursionError

    signature = read(f)
    signature._read = overflow  # once more without a full stack, near which a tracer sees little
    assert problem(signature, {}) == "the arguments are nested too deeply"
