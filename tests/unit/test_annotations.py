# ruff: noqa: E501
"""Cases that the table of types does not contain: rejections at registration, invalid results,
values of unknown types."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import json
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import (
    Any,
    Callable,
    ClassVar,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Literal,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    Union,
)

import jsonschema
import pydantic
import pytest

from minimcp.schema import Kind, Limits, Mismatch, kind_of, write_any
from minimcp.schema.introspection import Scope

from ..interaction.types_table import load
from ..rows import for_each

SPACE = load(as_strings=False)


def kind(text: str, **options: Any) -> Kind:
    return kind_of(text, scope=Scope(SPACE), **options)


def refused(convert: Callable[[Any], Any], value: Any) -> str:
    with pytest.raises(Mismatch) as caught:
        convert(value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@dataclass
class Holder:
    data: bytes


class NoMembers(enum.Enum):
    pass


@for_each(
    ("annotation", "words"),
    [
        (bytes, ["bytes have no JSON form", "Image(data, mime_type)"]),
        (complex, ["complex has no JSON form", "dataclass"]),
        (Holder, ["field 'data' of Holder", "bytes"]),
        (NoMembers, ["NoMembers has no members"]),
        (Set[List[int]], ["a set cannot contain a list", "list[...]"]),
        (Dict[float, int], ["a dict key cannot be a number"]),
        (
            collections.OrderedDict,
            [
                "OrderedDict has no JSON form: write list[...], dict[...] or str, or make it a dataclass"
            ],
        ),
        (3, ["3 is not a type", "write Literal[3]"]),
        ("Colour.RED", ["write Literal[Colour.RED]"]),
        ([], ["write list[...]"]),
        ((int, str), ["write tuple[int, str], or Union[int, str] for one of them"]),
        (Limits(ge=1), ["Bounds(ge=1, ", "is not a type with a JSON form"]),
        (ClassVar[int], ["ClassVar[int] is not a type with a JSON form"]),
        (Iterator[int], ["Iterator has no JSON form: write list[...]"]),
        (Literal[()], ["Literal[] has no JSON form"]),
        ("Literal[b'x']", ["Literal[b'x'] has no JSON form"]),
        ("Annotated[int, Limits(min_length=1)]", ["min_length=1 cannot limit an integer"]),
        ("Annotated[str, Limits(ge=1)]", ["ge=1 cannot limit a string"]),
        ("Annotated[int, Limits(pattern='a')]", ["cannot limit an integer"]),
        (
            "Annotated[dt.date, at.Ge(dt.date(1999, 1, 1))]",
            ["ge=datetime.date(1999, 1, 1) cannot limit a date"],
        ),
        ("Annotated[int, Limits(ge='1')]", ["the value of 'minimum' cannot be '1'"]),
        ("Annotated[int, Limits(le=float('nan'))]", ["not JSON compliant"]),
        ("Annotated[str, Limits(min_length=-1)]", ["the value of 'minLength' cannot be -1"]),
        ("''", ["the annotation '' cannot be resolved: SyntaxError"]),
        ("int[3]", ["'int[3]'", "cannot be resolved"]),
    ],
)
def test_types_without_json_form_say_what_to_write_instead(
    annotation: Any, words: List[str]
) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        kind_of(annotation, scope=Scope(SPACE))
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_names_in_strings() -> None:
    assert kind_of("Optional[int]").read(None) is None, "without a scope those of typing are known"
    with pytest.raises(TypeError, match="cannot be resolved"):
        kind_of("Point")
    for text in ("'Point' | None", "('Point' | None) if 1 + 1 else None"):
        assert kind(text).read({"x": 1, "y": 2}) == SPACE["Point"](1.0, 2.0)


@for_each(
    ("text", "value", "message"),
    [
        ("int", 1.5, "expected an integer, got the number 1.5"),
        ("int", 1 << 2000, None),
        ("float", float("nan"), "expected a number, got nan, which JSON does not have: use None"),
        ("str", b"x", "expected a string, got a value of type bytes"),
        ("List[int]", "12", "expected a list, got the string '12'"),
        ("List[int]", 5, "expected a list, got the number 5"),
        ("List[int]", [1, None], "[1]: expected an integer, got null"),
        ("Tuple[int, str]", (1,), "expected a tuple of 2, got a list of 1"),
        ("Tuple[int, str]", (1, 2), "[1]: expected a string, got the number 2"),
        ("Dict[str, int]", [], "expected a dict, got an empty list"),
        ("Dict[str, int]", {"a": "x"}, "a: expected an integer, got the string 'x'"),
        ("Dict[str, int]", {2: 1}, "the name 2: expected a string, got the number 2"),
        ("Dict[str, int]", {None: 1}, "the name None: expected a string, got null"),
        (
            "Dict[int, int]",
            {"a": 1},
            "the name 'a': expected a value of type int, got the string 'a'",
        ),
        ("Point", {"x": 1, "y": 2}, "expected a Point, got an object with x, y"),
        ("Movie", {"title": 1, "year": 2}, "title: expected a string, got the number 1"),
        ("Movie", {"title": "x"}, "year is missing: expected an integer, got nothing"),
        ("Optional[Point]", 3, "expected an object with x and y or null, got the number 3"),
        ("dt.date", "1999-12-31", "expected a value of type date, got the string '1999-12-31'"),
        (
            "dt.date",
            dt.datetime(1999, 12, 31),
            "expected a value of type date, got a value of type datetime",
        ),
        ("dt.timedelta", 3, "expected a value of type timedelta, got the number 3"),
        ("Decimal", Decimal("nan"), "expected a number, or a string of digits, got the number NaN"),
        ("Colour", "blue", "expected one of 'red' or 'green', got the string 'blue'"),
        ("Colour", [], "expected one of 'red' or 'green', got an empty list"),
        ("Model", {"a": 1}, "expected a Model, got an object with a"),
        ("Annotated[int, Limits(ge=1)]", 0, "expected a number of at least 1, got the number 0"),
        ("Set[Decimal]", {Decimal("1E+2")}, None),
    ],
)
def test_a_result_of_another_type_is_reported(
    text: str, value: Any, message: Optional[str]
) -> None:
    made = kind(text, writing=True)
    if message is None:
        made.write(value)
    else:
        assert refused(made.write, value) == message


@dataclass
class Base:
    a: int


@dataclass
class Derived(Base):
    b: int


def test_a_union_writes_the_value_by_its_own_class() -> None:
    assert kind_of(Union[Base, Derived]).write(Derived(1, 2)) == {"a": 1, "b": 2}
    assert kind_of(Base).write(Derived(1, 2)) == {"a": 1}
    moment = dt.datetime(1999, 12, 31, 12)
    assert kind_of(Union[dt.date, dt.datetime]).write(moment) == "1999-12-31T12:00:00"
    both = kind_of(Union[Path, PurePosixPath])
    assert both.write(PurePosixPath("a")) == "a"
    twins = enum.Enum("twins", {"A": 1})  # type: ignore[misc]
    assert "have the same JSON form" in refused(kind_of(Set[Union[twins, int]]).write, {twins.A, 1})  # type: ignore[valid-type]


def test_ambiguous_unions_do_not_double_their_work_per_level() -> None:
    value: Any = None
    for _ in range(60):
        value = {"child": value, "x": "s"}
    made = kind("Union[Left, Right]")
    found = made.read(value)
    assert type(found).__name__ == "Right"
    innermost = value
    while innermost["child"]:
        innermost = innermost["child"]
    innermost["x"] = None
    assert "child" in refused(made.read, value)


def test_a_value_that_a_constructor_rejects_does_not_fit() -> None:
    even = kind("List[Even]")
    assert even.read([{"number": 2}])
    assert (
        refused(even.read, [{"number": 3}])
        == "[0]: expected an object with number that is valid: 3 is odd"
    )

    @dataclass
    class Silent:
        a: int

        def __post_init__(self) -> None:
            raise KeyError if self.a == 2 else ValueError

    assert refused(kind_of(Silent).read, {"a": 1}).endswith("that is valid: ValueError")
    with pytest.raises(KeyError):
        kind_of(Silent).read({"a": 2})
    assert refused(kind("Picky").read, {"n": 1}) == "n: Value error, odd"
    assert refused(kind("Picky").read, {"n": "1"}) == "n: expected an integer, got the string '1'"
    assert "multi" not in refused(kind("Checked").read, {"a": 1.5})


def test_two_classes_of_one_name_have_two_definitions() -> None:
    def make(type_: Any) -> Any:
        return dataclass(
            type("Same", (), {"__annotations__": {"a": type_}, "__module__": __name__})
        )

    class Item(pydantic.BaseModel):
        x: int

    class Outer(pydantic.BaseModel):
        item: Item

    first, second = make(int), make(str)
    made = kind_of(Tuple[first, second, Outer, Item])  # type: ignore[valid-type]
    assert "$defs" not in made.schema
    value = [{"a": 1}, {"a": "x"}, {"item": {"x": 1}}, {"x": 2}]
    assert jsonschema.Draft202012Validator(made.schema).is_valid(value)
    assert made.read(value) == (first(1), second("x"), Outer(item=Item(x=1)), Item(x=2))


def test_fields_go_by_name_to_a_constructor_of_another_order() -> None:
    @dataclass(init=False)
    class Swapped:
        a: int = 0
        b: int = field()

        def __init__(self, b: int, a: int = 5) -> None:
            self.a, self.b = a, b

    swapped = kind_of(Swapped).read
    assert vars(swapped({"a": 1, "b": 2})) == {"a": 1, "b": 2}
    assert vars(swapped({"b": 2})) == {"a": 5, "b": 2}


class Point3(NamedTuple):
    x: float


class Unknown:
    pass


@for_each(
    ("value", "written"),
    [
        (None, None),
        ("a", "a"),
        (1.5, 1.5),
        ({1}, [1]),
        (PurePosixPath("a"), "a"),
        (Point3(1.0), {"x": 1.0}),
        ([1, (2, {"a": dt.date(1999, 12, 31)})], [1, [2, {"a": "1999-12-31"}]]),
        ({1: Base(1)}, {"1": {"a": 1}}),
        (collections.OrderedDict(a=Decimal("1.0")), {"a": "1.0"}),
        (collections.defaultdict(int, a=1), {"a": 1}),
        (SPACE["Colour"].RED, "red"),
        (SPACE["Level"].HIGH, 2),
        (SPACE["Model"](a=1), {"a": 1, "b": [], "when": None}),
    ],
)
def test_undeclared_values_are_written_by_their_own_type(value: Any, written: Any) -> None:
    assert write_any(value) == written
    assert kind_of(Any).write(value) == written
    json.dumps(written)


def test_values_without_json_form_are_refused() -> None:
    for value, message in (
        (b"x", "bytes have no JSON form: convert them, as in data.hex() or base64"),
        (bytearray(), "bytes have no JSON form: convert them"),
        (object(), "a bare object has no JSON form"),
        ([Unknown()], "[0]: Unknown has no JSON form"),
        (float("inf"), "expected a number, got inf, which JSON does not have: use None"),
        ({True: 1}, "expected a string, got true"),
    ):
        assert message in refused(write_any, value)
    assert [type(kind(name).write(SPACE["Level"].HIGH)) for name in ("int", "float")] == [
        int,
        float,
    ]


def test_numbers_with_one_hash_are_rejected_in_a_set_or_dict() -> None:
    """A set of 20,000 of them takes ten seconds, and one of 200,000 a quarter of an hour."""
    alike = [number * sys.hash_info.modulus for number in range(200)]
    for annotation, value in (
        (Set[int], alike),
        (FrozenSet[int], alike),
        (Dict[int, str], dict.fromkeys(map(str, alike), "x")),
        (Set[Tuple[int, str]], [[number, "x"] for number in alike]),
    ):
        with pytest.raises(Mismatch, match="too many values have the same hash"):
            kind_of(annotation).read(value)
    assert (
        kind_of(Set[int]).read(alike[:100]) == {*alike[:100]}
        and len(kind_of(Set[int]).read([*range(10_000)])) == 10_000
    )
    assert kind_of(Dict[int, str]).read({"1": "x", "2": "y"}) == {1: "x", 2: "y"}


@dataclass
class Inner:
    number: int


@dataclass
class Middle:
    inner: List[Inner]


@dataclass
class Outer:
    middle: Middle
    inner: Optional[Inner] = None


@dataclass
class Leaf:
    next: "Optional[Leaf]" = None


@dataclass
class Branch:
    leaf: Leaf
    branches: "List[Branch]"


def test_remaining_definitions_follow_the_ones_that_they_refer_to() -> None:
    """Clients exist that make their classes of the definitions in this order."""
    assert "$defs" not in kind_of(List[Outer]).schema
    assert [*kind_of(List[Branch]).schema["$defs"]] == ["Leaf", "Branch"]
