"""Values that tools return: numbers of other libraries, and subclasses."""

from __future__ import annotations

import datetime as dt
import enum
import json
import sys
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, Dict, List, Literal, Optional, Tuple, Union

import pytest
from typing_extensions import Annotated

import minimcp
from minimcp import (
    CallToolResult,
    Server,
)
from minimcp.schema import Limits, Mismatch, kind_of, write_any

from ..answering import R5
from ..rows import for_each

if sys.version_info < (3, 15):
    import numpy as np
else:
    np = pytest.importorskip(
        "numpy", reason="needs numpy, which has no release for Python 3.15 yet"
    )


# ------------------------------------------------------------ numbers of other libraries


class Indexed:
    """A number of a numeric library, which is not an int."""

    def __index__(self) -> int:
        return 7


class Floating:
    def __float__(self) -> float:
        return 1.5


class Color(str, enum.Enum):
    RED = "red"


@dataclass
class Reading:
    count: int
    level: float
    valid: bool
    at: Optional[dt.datetime] = None


MOMENT = dt.datetime(2023, 3, 7, 9, 30)
NUMBERS: List[Tuple[Any, Any, Any]] = [
    (int, np.int64(3), 3),
    (int, np.uint8(3), 3),
    (int, np.float32(3.0), 3),
    (int, np.array(3), 3),
    (int, Indexed(), 7),
    (float, np.float16(1.5), 1.5),
    (float, np.float32(1.5), 1.5),
    (float, np.longdouble(1.5), 1.5),
    (float, np.int8(3), 3.0),
    (float, np.array(1.5), 1.5),
    (float, Indexed(), 7.0),
    (float, Floating(), 1.5),
    (float, Decimal("1.5"), 1.5),
    (float, Fraction(3, 2), 1.5),
    (bool, np.bool_(True), True),
    (bool, np.float64(3) > 2, True),
    (str, np.str_("a"), "a"),
    (dt.datetime, np.datetime64("2023-03-07T09:30"), "2023-03-07T09:30:00"),
    (dt.datetime, np.datetime64("2023-03-07T09:30:00.000005123"), "2023-03-07T09:30:00.000005"),
    (dt.date, np.datetime64("2023-03-07"), "2023-03-07"),
    (dt.timedelta, np.timedelta64(1500, "ms"), 1.5),
    (Literal[1, 2], np.int64(2), 2),
    (Union[int, float], np.float32(2.0), 2.0),
    (Union[int, str], np.int16(2), 2),
    (Optional[bool], np.bool_(False), False),
    (List[float], np.array([1.5, 2.5], dtype="float32"), [1.5, 2.5]),
    (List[List[int]], np.array([[1], [2]]), [[1], [2]]),
    (Tuple[bool, ...], tuple(np.array([True, False])), [True, False]),
    (Dict[str, float], {"a": np.float32(0.5)}, {"a": 0.5}),
    (Dict[int, int], {np.int64(1): np.int64(2)}, {"1": 2}),
    (Annotated[float, Limits(ge=1)], np.float32(1.5), 1.5),
    (
        Reading,
        Reading(np.int64(1), np.float32(0.5), np.bool_(True), np.datetime64(MOMENT)),
        {"count": 1, "level": 0.5, "valid": True, "at": "2023-03-07T09:30:00"},
    ),
]


@for_each(("annotation", "value", "written"), NUMBERS)
def test_numbers_of_other_libraries(annotation: Any, value: Any, written: Any) -> None:
    found = kind_of(annotation, writing=True).write(value)
    assert json.dumps(found) == json.dumps(written), found


@for_each(
    ("annotation", "value", "message"),
    [
        (
            float,
            np.float32("nan"),
            "expected a number, got nan, which JSON does not have: use None",
        ),
        (float, float("inf"), "expected a number"),
        (float, np.bool_(True), "expected a number"),
        (float, np.complex64(1), "expected a number"),
        (float, "1.5", "expected a number, got the string '1.5'"),
        (int, np.float32(1.5), "expected an integer, got the number 1.5"),
        (int, np.bool_(True), "expected an integer"),
        (int, Floating(), "expected an integer"),
        (bool, np.int64(1), "expected true or false, got a value of type int64"),
        (bool, 1, "expected true or false, got the number 1"),
        (Dict[str, int], {"1": 1, 1: 2}, "the name 1: expected a string, got the number 1"),
    ],
)
def test_conversions_that_would_change_the_value_are_rejected(
    annotation: Any, value: Any, message: str
) -> None:
    with pytest.raises(Mismatch) as caught:
        kind_of(annotation, writing=True).write(value)
    assert message in str(caught.value)


class Moment(dt.datetime):
    """A subclass, as in pandas and pendulum."""


class Day(dt.date):
    pass


class Count(int):
    pass


class Name(str):
    pass


class Amount(Decimal):
    pass


class Identity(uuid.UUID):
    pass


class Folder(PurePosixPath):
    pass


NO_TIME = type("NoTime", (dt.datetime,), {"__ne__": lambda self, other: True})(2023, 3, 7)
ID = "123e4567-e89b-12d3-a456-426614174000"
UNDECLARED: List[Tuple[Any, Any]] = [
    (np.int64(3), 3),
    (np.float32(1.5), 1.5),
    (np.bool_(True), True),
    (np.str_("a"), "a"),
    (np.datetime64("2023-03-07"), "2023-03-07"),
    (np.datetime64("NaT", "s"), None),
    (Indexed(), 7),
    (Floating(), 1.5),
    (Moment(2023, 3, 7), "2023-03-07T00:00:00"),
    (Day(2023, 3, 7), "2023-03-07"),
    (Count(3), 3),
    (Name("a"), "a"),
    (Amount("1.50"), "1.50"),
    (Identity(ID), ID),
    (Folder("a/b"), "a/b"),
    (Color.RED, "red"),
    (OrderedDict(a=np.int8(1)), {"a": 1}),
]


@for_each(("value", "written"), UNDECLARED)
def test_values_of_undeclared_types(value: Any, written: Any) -> None:
    """By themselves, in a list, a dict and a set, as a key, and where only ``Any`` is declared."""
    for wrap in (
        lambda each: each,
        lambda each: [each],
        lambda each: {"a": (each,)},
    ):
        assert json.dumps(write_any(wrap(value))) == json.dumps(wrap(written))
        annotated = kind_of(Any, writing=True).write(wrap(value))
        assert json.dumps(annotated) == json.dumps(wrap(written))
    result = CallToolResult([], structured_content={"a": value})
    server = Server("values")
    server.add_tool(lambda: result, name="give", description="Give it.")
    server.add_resource(lambda: {"a": value}, "a:b", name="read", description="Read it.")
    with minimcp.connect(server, revision=R5) as client:
        assert client.call_tool("give").structured_content == {"a": written}
        assert json.loads(client.read_resource("a:b").text or "") == {"a": written}


def test_progress_in_numbers_of_other_libraries() -> None:
    server = Server("values")

    @server.tool
    def count(ctx: minimcp.Context) -> None:
        """Count."""
        ctx.progress(np.int64(1), np.int64(3))
        ctx.progress(np.float32(1.5), Decimal(3))

    seen: List[Any] = []
    with minimcp.connect(server) as client:
        client.call_tool("count", on_progress=lambda each: seen.append((each.progress, each.total)))
    assert seen == [(1, 3), (1.5, 3.0)]


def test_keys_of_a_dict() -> None:
    found = write_any({np.int64(1): 1, np.str_("a"): 2, Color.RED: 3})
    assert found == {"1": 1, "a": 2, "red": 3}
    with pytest.raises(Mismatch, match="two names of the object stand for the same key"):
        write_any({1: "a", "1": "b"})


@for_each("value", [NO_TIME, {"at": NO_TIME}])
def test_an_invalid_moment_is_rejected(value: Any) -> None:
    with pytest.raises(Mismatch, match="expected a date and time"):
        write_any(value)
