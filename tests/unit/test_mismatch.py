"""The wording: paths, values, suggestions; what JSON does not have, and what to write instead."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
from typing import Any, Dict, List, Optional

import pytest

import minimcp
from minimcp.schema.mismatch import NOTHING, described, explained, nearest, unwritable

from ..rows import for_each
from ..support import WAIT


@for_each(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("x" * 70, f"the string '{'x' * 60}...'"),
        ("a\nb", "the string 'a\\nb'"),
        (1.5, "the number 1.5"),
        (10**5000, "the number (over 300 digits)"),
        ([], "an empty list"),
        ((1, 2), "a list of 2"),
        ({}, "an empty object"),
        ({"a": 1, "b": 2}, "an object with a, b"),
        (NOTHING, "nothing"),
        (b"", "a value of type bytes"),
    ],
)
def test_values_in_words(value: Any, text: str) -> None:
    assert described(value) == text


@for_each(
    ("name", "known", "found"),
    [
        ("Days", ["days"], "days"),
        ("max-days", ["maxDays"], "maxDays"),
        ("ctiy", ["country", "city"], "city"),
        ("daysy", ["days", "daisy"], "days"),
        ("a", ["b"], None),
        ("temperature", ["city"], None),
        ("x" * 100, ["x" * 100], None),
    ],
)
def test_near_misses(name: str, known: List[str], found: Optional[str]) -> None:
    assert nearest(name, known) == found


# ------------------------------------------------------------ what JSON does not have


@dataclasses.dataclass
class Todo:
    title: str


class Color(enum.Enum):
    RED = 1


class Dumped:
    model_dump = None


@pytest.mark.parametrize(
    "value, words",
    [
        (
            datetime.date(2026, 1, 2),
            r"due is a date, datetime.date\(2026, 1, 2\): write .isoformat\(\)",
        ),
        (Color.RED, r"due is a Color, <Color.RED: 1>: pass its .value"),
        (Todo("x"), r"due is a Todo, Todo\(title='x'\): write dataclasses.asdict\(...\)"),
        (Todo, "pass a value, not a class"),
        (Dumped(), r'write .model_dump\(mode="json"\)'),
        ({1, 2}, r"due is a set, \{1, 2\}: write list\(...\)"),
        (b"x", r"write .decode\(\), or base64"),
        (pathlib.PurePosixPath("x"), r"write str\(...\)"),
        (decimal.Decimal("1.5"), r"due is a Decimal, Decimal\('1.5'\): write str\(...\)"),
        (math.inf, "due is a float, inf: JSON has no such number"),
        (1j, "due is a complex, 1j: pass a str, a number, True, False, None, a list or a dict"),
    ],
)
def test_the_error_says_what_to_write_instead(value: Any, words: str) -> None:
    found = unwritable({"fine": [1, 1.5, None, "x", (True,)], "due": value})
    assert found is not None
    with pytest.raises(TypeError, match=words):
        raise TypeError(found)


def test_the_error_names_the_place() -> None:
    day = datetime.date(2026, 1, 2)
    for value, where in (
        ({"todos": [{"due": 1}, {"due": day}]}, "todos[1].due is a date"),
        ([[day]], "[0][0] is a date"),
        (day, "this is a date"),
        ({"a": {day: 1}}, "a key of a is a date"),
        ({day: 1}, "a key of this is a date"),
    ):
        assert str(unwritable(value)).startswith(where), value
    assert unwritable({"a": {1: 2, None: 3, 1.5: 4}}) is None, "JSON writes these keys as text"
    circle: List[Any] = []
    circle.append(circle)
    error = ValueError("in a circle")
    assert explained("tools/call", {"name": "x", "arguments": {"a": circle}}, error) is error


def test_a_call_says_where_and_what() -> None:
    server = minimcp.Server("x")

    @server.tool(name="import")
    def import_(todos: List[Dict[str, str]]) -> int:
        return len(todos)

    wrong: Any = {"todos": [{"due": datetime.date(2026, 1, 2)}]}
    words = r"the arguments of 'import': todos\[0\].due is a date, .*: write .isoformat\(\)"
    with minimcp.connect(server, timeout=WAIT) as client:
        with pytest.raises(TypeError, match=words):
            client.call_tool("import", wrong)
        with pytest.raises(TypeError, match=words):
            client.call_tools([("import", {"todos": []}), ("import", wrong)])
        with pytest.raises(TypeError, match="the params of vendor/x: a is a set, "):
            client.request("vendor/x", {"a": {1}})
        with pytest.raises(
            TypeError, match=r"'tone' of 'review' .* not the date .*: write .isoformat\(\)"
        ):
            client.get_prompt("review", {"tone": wrong["todos"][0]["due"]})
        with pytest.raises(
            TypeError, match=r"'tone' of 'review' .* not the NoneType None: leave it out"
        ):
            client.get_prompt("review", {"tone": None})  # type: ignore[dict-item]
        with pytest.raises(
            TypeError, match=r"'tone' of 'review' .* not the dict .*: write json.dumps\(...\)"
        ):
            client.get_prompt("review", {"tone": {}})  # type: ignore[dict-item]
        assert client.call_tool("import", {"todos": [{}]}).value == 1, "the connection is as it was"


def test_an_unknown_option() -> None:
    def connect(**options: Any) -> None:
        minimcp.connect(minimcp.Server("x"), **options)

    wrong: List[Any] = [
        (
            lambda: connect(elicitation_callback=print),
            r"^connect\(...\) has no option .* did you mean elicit=\?$",
        ),
        (lambda: connect(time_out=5), r"did you mean timeout=\?$"),
        (lambda: connect(args=[]), "pass a list: connect"),
    ]
    for make, words in wrong:
        with pytest.raises(TypeError, match=words):
            make()
    with minimcp.connect(minimcp.Server("x", capabilities=["tools"])) as client:
        call: Any = client.call_tool
        with pytest.raises(
            TypeError,
            match=r"^pass the arguments of a tool as a dict: call_tool\('f', \{'a': 1\}\)$",
        ):
            call("f", a=1)
        with pytest.raises(
            TypeError, match=r"^call_tool\(...\) has no option time_out=: did you mean timeout=\?$"
        ):
            call("f", time_out=1)
        with pytest.raises(TypeError, match=r"did you mean on_progress=\?$"):
            call("f", {}, progress_callback=print)
        with pytest.raises(
            ValueError, match="^timeout must be at least 0 seconds, not -1; None means no limit$"
        ):
            call("f", timeout=-1)
    with pytest.raises(ValueError, match="^connect_timeout must be at least 0 seconds"):
        connect(connect_timeout=-0.5)
