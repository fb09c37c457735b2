"""Completers: their forms, their arguments, and their results."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, Dict, Iterator, List, Literal

import pytest

from minimcp.features.prompts import RegisteredPrompt
from minimcp.server.context import Context
from minimcp.types import Completion

from .requests import config


def of_city(city: str, ctx: Context, tone: Literal["a", "b"] = "a") -> str:
    return city


def completers(**complete: Any) -> Any:
    return method_completers(of_city, complete)


def method_completers(handler: Any, complete: Any) -> Any:
    made = config()
    made.feature("prompts")
    return RegisteredPrompt(made, handler, {"name": "x", "complete": complete}).completers


def completed(completer: Any, text: str = "", **arguments: str) -> Any:
    found = completers(city=completer)["city"](text, arguments)
    return found.values, found.total, found.has_more


class Cities:
    def method(self, value: str) -> List[str]:
        return ["method " + value]

    def __call__(self, value: str, arguments: Dict[str, str]) -> List[str]:
        return ["called " + value, *arguments]

    @classmethod
    def of_class(cls, value: str) -> List[str]:
        return ["class " + value]

    @staticmethod
    def static(value: str) -> List[str]:
        return ["static " + value]


def test_forms_of_a_completer() -> None:
    def one(value: str) -> List[str]:
        return [value]

    def two(value: str, arguments: Dict[str, str]) -> List[str]:
        return [value, *arguments.values()]

    def with_default(value: str, arguments: Any = None) -> List[str]:
        return [value, *arguments]

    def more_defaults(
        value: str = "", arguments: Any = None, other: int = 5, *, last: int = 6
    ) -> List[str]:
        return [value, *arguments, str(other + last)]

    for completer, values in (
        (one, ["x"]),
        (two, ["x", "2"]),
        (with_default, ["x", "one"]),
        (more_defaults, ["x", "one", "11"]),
        (Cities().method, ["method x"]),
        (Cities(), ["called x", "one"]),
        (Cities.of_class, ["class x"]),
        (Cities.static, ["static x"]),
        (lambda value: {"k": 1}.keys(), ["k"]),
        (lambda value: iter("ab"), ["a", "b"]),
        (["x", "xy", "y"], ["x", "xy"]),
        (("x1",), ["x1"]),
        ([], []),
    ):
        assert completed(completer, "x", one="2")[0] == values, completer
    assert completers()["city"] is None and completers()["tone"]("", {}).values == ["a", "b"]
    assert completers(tone=[])["tone"]("", {}).values == [], "what is given comes first"


def test_rejected_completers() -> None:
    async def waits(value: str) -> List[str]:
        return []

    def steps(value: str) -> Iterator[str]:
        yield ""

    def none() -> List[str]:
        return []

    def three(value: str, arguments: Any, other: Any) -> List[str]:
        return []

    def keyword(value: str, *, other: Any) -> List[str]:
        return []

    def many(*values: str) -> List[str]:
        return []

    for completer, words in (
        (waits, "is async"),
        (steps, "is a generator"),
        (none, r"must take \(value\)"),
        (three, r"must take \(value\)"),
        (keyword, r"must take \(value\)"),
        (many, r"takes \*values"),
        (print, "must be a Python function"),
        (partial(three, ""), "must be a Python function"),
        ("Oslo", "list of strings"),
        ([1], "list of strings"),
        ({"a"}, "list of strings"),
        (5, "list of strings"),
        (Cities, "must be a Python function"),
    ):
        with pytest.raises(TypeError, match=words) as caught:
            completers(city=completer)
        assert "prompt 'x': the completer of 'city'" in str(caught.value)
    for name in ("citty", "ctx"):
        with pytest.raises(ValueError, match=f"no argument to complete is called '{name}'"):
            completers(**{name: ["x"]})


@pytest.mark.requirement("COMP-05", "M:CMP-2")
def test_at_most_a_hundred() -> None:
    def numbers(count: int) -> List[str]:
        return [str(number) for number in range(count)]

    hundred = numbers(100)
    for found, total, more in (
        (numbers(100), 100, False),
        (numbers(101), 101, True),
        (numbers(10_000), 10_000, True),
        (iter(hundred), 100, False),
        (map(str, itertools.count()), None, True),
        (Completion(numbers(150)), 150, True),
        (Completion(numbers(150), 999, False), 999, True),
        (Completion(hundred), None, None),
        (Completion(hundred, 100, False), 100, False),
        (tuple(numbers(300)), 300, True),
    ):
        assert completed(lambda value: found) == (hundred, total, more)  # noqa: B023
    many = [f"x{number}" for number in range(300)]
    assert completed(many, "x") == (many[:100], 300, True)
    said = Completion(["a"], 5, meta={"m": 1})
    said.extra = {"e": 2}
    assert completers(city=lambda value: said)["city"]("", {}).to_wire() == {
        "completion": {"values": ["a"], "total": 5, "e": 2},
        "_meta": {"m": 1},
    }


def test_results_that_a_completer_must_not_return() -> None:
    for found in ("Oslo", b"Oslo", None, 5, {"Oslo": 1}, ["Oslo", 5], [None], ["x"] * 50 + [b"y"]):
        with pytest.raises(
            TypeError, match=r"prompt .x.: the completer of .city. (must return|returned)"
        ):
            completed(lambda value: found)  # noqa: B023


class Shelf:
    def __init__(self) -> None:
        self.cities = ["Oslo", "Odda"]

    def complete_city(self, value: str) -> List[str]:
        return [city for city in self.cities if city.startswith(value)]

    def complete_both(self, value: str, arguments: Dict[str, str]) -> List[str]:
        return [*self.cities, *arguments]

    @classmethod
    def of_class(cls, value: str) -> List[str]:
        return [cls.__name__]

    @staticmethod
    def static(value: str) -> List[str]:
        return [value]

    def of(self, city: str) -> str:
        return city


class NewShelf(Shelf):
    def complete_city(self, value: str) -> List[str]:
        return ["new"]


def test_a_method_of_the_handlers_class_is_called_on_the_handlers_object() -> None:
    for name, values in (
        ("complete_city", ["Oslo"]),
        ("complete_both", ["Oslo", "Odda", "tone"]),
        ("of_class", ["Shelf"]),
        ("static", ["Os"]),
    ):
        found = method_completers(Shelf().of, {"city": vars(Shelf)[name]})["city"](
            "Os", {"tone": "a"}
        )
        assert found.values == values, name
    overridden = method_completers(NewShelf().of, {"city": Shelf.complete_city})
    assert overridden["city"]("", {}).values == ["new"]


def test_a_method_without_an_object_is_refused() -> None:
    for handler in (of_city, Cities().method):
        with pytest.raises(
            TypeError, match=r"complete_city \(.*begins with self: pass the method of an object"
        ):
            given = {"city" if handler is of_city else "value": Shelf.complete_city}
            method_completers(handler, given)
