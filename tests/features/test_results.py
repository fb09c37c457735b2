"""From what a tool returned to a result: the parts that the interaction tests do not show."""

from __future__ import annotations

from typing import Any

import pytest
from minimcp.server.results import ResultMaker, blocks_of, error_result, fit, wrapped_schema

from minimcp import Audio, CallToolResult, EmbeddedResource, Image, ResourceLink, Text, ToolError
from minimcp.protocol.versions import BY_NAME
from minimcp.types import Annotations, Icon, UnknownContent

from ..answering import R1, R3, R4, R5, REVISIONS
from .support import facts, read

NEW = {"type": "new_thing", "x": 1}


def maker(schema: Any = None, check: Any = None, structured: Any = None, blocks: bool = False) -> ResultMaker:
    return ResultMaker(facts(), None, schema, check, structured, blocks=blocks)


def test_blocks_and_values() -> None:
    text = Text("a")
    assert blocks_of(text) == [text]
    assert blocks_of([text, "b"]) == [text, Text("b")] == blocks_of((text, "b"))
    for value in ([], ["a"], None, "a", [text, 5], {"a": text}):
        assert blocks_of(value) is None, value
    assert blocks_of([], promised=True) == [] == blocks_of(None, promised=True)
    assert blocks_of(["a"], promised=True) == [text]
    assert blocks_of([5], promised=True) is None and blocks_of("a", promised=True) is None


@pytest.mark.requirement("TOOL-39")
def test_each_revision_gets_what_it_knows() -> None:
    hints = Annotations(priority=1)
    blocks = [
        Text("a"), Image(b"i", "image/png"), Audio(b"a", "audio/wav", annotations=hints),
        ResourceLink("file:///x", "x", annotations=hints), UnknownContent(NEW),
    ]
    for revision in REVISIONS:
        kinds = [fit(block, BY_NAME[revision])["type"] for block in blocks]
        audio = "audio" if revision != R1 else "resource"
        link = "resource_link" if revision in (R3, R4, R5) else "text"
        assert kinds == ["text", "image", audio, link, "new_thing"]
    old = [fit(block, BY_NAME[R1]) for block in blocks]
    assert old[2] == {
        "type": "resource", "resource": {"uri": "audio:inline", "mimeType": "audio/wav", "blob": "YQ=="},
        "annotations": {"priority": 1},
    }
    assert old[3] == {"type": "text", "text": "x: file:///x", "annotations": {"priority": 1}} and old[4] == NEW
    inside = fit(EmbeddedResource(blocks_inside()), BY_NAME[R1])
    assert inside["resource"] == {"uri": "file:///t", "text": "t"}


def blocks_inside() -> Any:
    from minimcp.types import TextResourceContents

    return TextResourceContents("file:///t", "t")


def test_a_schema_that_is_no_objects_is_wrapped() -> None:
    plain = {"type": "object", "properties": {}}
    assert wrapped_schema(plain) == plain and wrapped_schema(plain) is not plain
    assert wrapped_schema({"type": "array", "$defs": {"a": {}}, "definitions": {"b": {}}, "$schema": "s"}) == {
        "type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"],
        "x-minimcp-wrapped": True, "$defs": {"a": {}}, "definitions": {"b": {}}, "$schema": "s",
    }


def test_typed_objects_are_values_too() -> None:
    icon = Icon("https://example.com/i.png", "image/png")
    assert read(maker().make(icon, BY_NAME[R5]))["structuredContent"] == icon.to_wire()


def test_a_handwritten_schema_is_checked() -> None:
    made = maker({"type": "object"}, check=lambda value: None if value == {"a": 1} else "no")
    assert read(made.make({"a": 1}, BY_NAME[R4]))["structuredContent"] == {"a": 1}
    with pytest.raises(ValueError, match="no"):
        made.make({"a": 2}, BY_NAME[R4])
    with pytest.raises(TypeError, match="annotate"):
        made.make(Text("a"), BY_NAME[R4])
    assert read(made.make(CallToolResult([Text("a")]), BY_NAME[R4])) == {"content": [{"type": "text", "text": "a"}]}


def test_text_is_text_unless_it_is_wanted_otherwise() -> None:
    text = {"type": "text", "text": "a"}
    assert read(maker().make("a", BY_NAME[R4])) == {"content": [text]}
    assert read(maker(structured=False).make({"a": 1}, BY_NAME[R4])) == {
        "content": [{"type": "text", "text": '{"a":1}'}]
    }
    assert read(maker(structured=True).make("a", BY_NAME[R4]))["structuredContent"] == {"result": "a"}
    assert read(maker(blocks=True).make(["a"], BY_NAME[R4])) == {"content": [text]}


def test_failures() -> None:
    words = [{"type": "text", "text": "why"}]
    assert read(error_result(facts(), "why", BY_NAME[R4])) == {"content": words, "isError": True}
    assert read(error_result(facts(), "why", BY_NAME[R5]))["resultType"] == "complete"
    made = maker()
    assert read(made.failed(ToolError("why"), BY_NAME[R4])) == read(error_result(facts(), "why", BY_NAME[R4]))
    assert read(made.failed(ToolError("", content=[]), BY_NAME[R4])) == {"content": [], "isError": True}
    with pytest.raises(TypeError, match="ToolError"):
        made.failed(ToolError("", content=[5]), BY_NAME[R4])
