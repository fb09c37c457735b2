"""Values that tools return: content blocks in lists, and types of pydantic."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

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
from minimcp.schema import Mismatch, kind_of

from ..answering import R3, R4, R5
from ..rows import for_each


@dataclass
class Reading:
    count: int
    level: float
    valid: bool
    at: Optional[dt.datetime] = None


class Count(int):
    pass


class Name(str):
    pass


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
    values = [Text("a"), 3, None, dt.date(2023, 3, 7), [1.5], Reading(1, 0.5, True), Count(3)]
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
