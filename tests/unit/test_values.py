"""Values that tools return: numbers of other libraries, subclasses, content blocks in lists, types of pydantic."""

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
from typing import Any, Dict, List, Literal, Optional, Sequence, Tuple, Union

import annotated_types as at
import jsonschema
import pydantic
import pytest
from typing_extensions import Annotated

import minimcp
from minimcp import (
    Audio,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    Image,
    Message,
    ResourceLink,
    Server,
    Text,
    TextResourceContents,
)
from minimcp.schema import Limits, Mismatch, kind_of, write_any

from ..answering import R3, R4, R5
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


# ------------------------------------------------------------ content blocks

PICTURE = bytes(range(48))
DATA = Image(PICTURE, "image/png").to_wire()["data"]
BLOCKS = [
    Image(PICTURE, "image/png"),
    Audio(PICTURE, "audio/wav"),
    EmbeddedResource(BlobResourceContents("a:b", PICTURE, mime_type="image/png")),
]
VAGUE: List[Any] = [
    None, list, List[Any], List[object], tuple, Tuple[Any, ...], Sequence, Sequence[Any], Any, object, Optional[Any],
    Optional[list], Union[list, str], Union[list, dict], Union[Any, int],
    List[Union[str, Image, Audio, EmbeddedResource, Dict[str, Any]]],
]  # fmt: skip


def call(returned: Any, annotation: Any, revision: str, **options: Any) -> Dict[str, Any]:
    def give() -> Any:
        """Give it."""
        return returned

    give.__annotations__ = {} if annotation is None else {"return": annotation}
    server = Server("screen")
    server.add_tool(give, **options)
    with minimcp.connect(server, revision=revision) as client:
        schema = client.list_tools()[0].output_schema
        result: Dict[str, Any] = client.request("tools/call", {"name": "give", "arguments": {}})
    if not result.get("isError") and schema is not None and revision != R3:
        jsonschema.validate(result["structuredContent"], schema)
    return result


@pytest.mark.parametrize("revision", [R3, R4, R5])
@for_each("annotation", VAGUE)
@for_each("block", BLOCKS)
def test_a_block_in_a_list_is_sent_once(revision: str, annotation: Any, block: Any) -> None:
    for returned in ([block, "done", {"n": 3}], [block], ["done", block]):
        if annotation in (tuple, Tuple[Any, ...]):
            returned = tuple(returned)  # type: ignore[assignment]
        result = call(returned, annotation, revision)
        assert not result.get("isError"), result
        text = json.dumps(result)
        assert text.count(DATA) == 1
        for item, sent in zip(returned, result["content"]):
            if item is not block:
                expected = (
                    item if isinstance(item, str) else json.dumps(item, separators=(",", ":"))
                )
                assert sent == {"type": "text", "text": expected}
        assert len(result["content"]) == len(returned)


def test_a_single_block_is_sent_once() -> None:
    for annotation in (None, Any, object, dict, Optional[Any], Union[dict, str], Image):
        assert json.dumps(call(BLOCKS[0], annotation, R5)).count(DATA) == 1


def test_other_values_next_to_a_block_keep_their_order_and_form() -> None:
    values = [Text("a"), 3, None, dt.date(2023, 3, 7), [1.5], Reading(1, 0.5, True), np.int8(3)]
    texts = [block["text"] for block in call(values, List[Any], R5)["content"]]
    reading = '{"count":1,"level":0.5,"valid":true,"at":null}'
    assert texts == ["a", "3", "null", '"2023-03-07"', "[1.5]", reading, "3"]


@for_each("returned", [{"shot": BLOCKS[0]}, [[BLOCKS[0]]], [{"shot": BLOCKS[0]}, BLOCKS[0]]])
def test_a_block_inside_a_value_is_rejected_with_a_hint(returned: Any) -> None:
    result = call(returned, None, R5)
    assert result["isError"]
    assert "return it alone, or in a list with other values" in result["content"][0]["text"]


@for_each(
    "annotation",
    [Dict[str, Image], List[List[Image]], List[Dict[str, Image]], List[CallToolResult]],
)
def test_registration_rejects_blocks_where_none_can_be(annotation: Any) -> None:
    def give() -> Any:
        """Give it."""

    give.__annotations__ = {"return": annotation}
    with pytest.raises(TypeError, match="return type: .*(Image|CallToolResult)"):
        Server("screen").add_tool(give)


def test_registration_rejects_results_of_resources_and_prompts_that_cannot_be_sent() -> None:
    def give() -> Any:
        """Give it."""

    server = Server("screen")
    for annotation in (List[bytes], Dict[str, bytes], List[minimcp.ReadResourceResult]):
        give.__annotations__ = {"return": annotation}
        with pytest.raises(TypeError, match="the return type"):
            server.add_resource(give, "a:b")
    for annotation in (int, Dict[str, str], Reading, bool, dt.date, List[minimcp.GetPromptResult]):
        give.__annotations__ = {"return": annotation}
        with pytest.raises(TypeError, match="the return type"):
            server.add_prompt(give)
    sendable = (str, Any, List[str], list, List[Message], Optional[str], Union[str, Message], Name)
    for number, annotation in enumerate(sendable):
        give.__annotations__ = {"return": str if annotation is Name else annotation}
        server.add_prompt(give, name=f"prompt{number}")
    for number, annotation in enumerate((bytes, List[TextResourceContents], int, ResourceLink)):
        give.__annotations__ = {"return": annotation}
        if annotation is not ResourceLink:
            server.add_resource(give, f"a:{number}", name=f"read{number}")


# ------------------------------------------------------------ pydantic


def published(annotation: Any, *, writing: bool = False) -> Any:
    model: Any = pydantic.create_model("M", x=(annotation, ...))
    return kind_of(model, writing=writing).schema["properties"]["x"]


@for_each(
    ("annotation", "words"),
    [
        (dt.datetime, {"type": "string", "description": "ISO 8601 date and time"}),
        (pydantic.NaiveDatetime, {"type": "string", "description": "ISO 8601 date and time"}),
        (pydantic.PastDatetime, {"type": "string", "description": "ISO 8601 date and time"}),
        (pydantic.AwareDatetime, {"type": "string", "format": "date-time"}),
        (dt.time, {"type": "string", "description": "ISO 8601 time"}),
        (dt.timedelta, {"type": "string", "description": "ISO 8601 duration"}),
        (dt.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Annotated[bytes, at.MinLen(2)], {"type": "string", "format": "binary"}),
        (Annotated[float, at.MultipleOf(0.1)], {"type": "number"}),
        (Annotated[float, at.MultipleOf(0.5)], {"type": "number", "multipleOf": 0.5}),
    ],
)
def test_promises_of_pydantic_that_its_values_keep(annotation: Any, words: Any) -> None:
    for writing in (False, True):
        assert published(annotation, writing=writing) == {"title": "X", **words}
    inner = published(Optional[annotation])["anyOf"][0]
    assert inner == words


def test_formats_of_results_that_pydantic_does_not_keep() -> None:
    assert published(pydantic.HttpUrl)["format"] == "uri"
    assert published(pydantic.HttpUrl, writing=True) == {"title": "X", "type": "string"}
    upper = Annotated[str, pydantic.StringConstraints(to_upper=True, pattern="^[a-z]+$")]
    assert "pattern" in published(upper) and "pattern" not in published(upper, writing=True)


class Loose(pydantic.BaseModel):
    count: int


def test_a_model_that_breaks_its_own_schema_is_rejected() -> None:
    write = kind_of(Loose, writing=True).write
    assert write(Loose(count=1)) == {"count": 1}
    with pytest.raises(Mismatch, match="count: expected an integer, got the string 'many'"):
        with pytest.warns(UserWarning, match="serializer"):
            write(Loose.model_construct(count="many"))


class Raw(pydantic.BaseModel):
    data: bytes


def test_bytes_that_are_not_text_are_rejected() -> None:
    with pytest.raises(Mismatch, match="utf-8"):
        kind_of(Raw, writing=True).write(Raw(data=b"\xff"))


# ------------------------------------------------------------ bounds


@for_each("written", ["0.1", 0.1, "0.3", 0.3])
def test_bounds_of_decimals_equal_the_written_ones(written: Any) -> None:
    for bound in (0.1, Decimal("0.1")):
        kind = kind_of(Annotated[Decimal, at.Ge(bound), at.MultipleOf(bound)])
        assert kind.read(written) == Decimal(str(written))
        with pytest.raises(Mismatch):
            kind.read("0.05")
