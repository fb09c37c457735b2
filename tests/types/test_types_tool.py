"""Tools and their results, prompts, completion."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from minimcp.types import (
    ABSENT,
    CallToolResult,
    Completion,
    GetPromptResult,
    Image,
    Message,
    Prompt,
    PromptArgument,
    PromptMessage,
    Text,
    Tool,
    ToolAnnotations,
    ToolExecution,
)

from ..rows import for_each

SCHEMA: dict[str, Any] = {"type": "object"}


@pytest.mark.requirement("TOOL-11", "M:TOOL-16")
def test_the_display_name_is_title_then_annotated_title_then_name() -> None:
    hints = ToolAnnotations(title="hinted")
    assert Tool("n", SCHEMA, title="T", annotations=hints).display_name == "T"
    assert Tool("n", SCHEMA, annotations=hints).display_name == "hinted"
    assert Tool("n", SCHEMA).display_name == "n"


@pytest.mark.requirement("TOOL-13", "TOOL-14", "M:TOOL-15")
@for_each(
    ("given", "effective"),
    [
        ({}, (False, True, False, True)),
        ({"read_only_hint": False, "destructive_hint": True}, (False, True, False, True)),
        ({"destructive_hint": False, "idempotent_hint": True}, (False, False, True, True)),
        ({"read_only_hint": True, "destructive_hint": True}, (True, False, True, True)),
        ({"open_world_hint": False}, (False, True, False, False)),
    ],
)
def test_hints_have_defaults(given: dict[str, bool], effective: tuple[bool, ...]) -> None:
    hints = ToolAnnotations(**given)  # type: ignore[arg-type]
    assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == effective
    assert Tool("n", SCHEMA, annotations=hints).hints is hints


@pytest.mark.requirement("SEED-22")
def test_a_tool_that_says_nothing_has_the_defaults() -> None:
    tool = Tool.from_wire({"name": "n", "inputSchema": {}})
    assert (tool.hints, tool.annotations) == (ToolAnnotations(), None)
    assert tool.task_support == "forbidden"
    assert Tool("n", SCHEMA, execution=ToolExecution()).task_support == "forbidden"
    assert Tool("n", SCHEMA, execution=ToolExecution("optional")).task_support == "optional"
    with pytest.raises(ValueError, match="^ToolExecution: task_support must be one of"):
        ToolExecution("maybe")


@pytest.mark.requirement("TOOL-03", "M:SCH-8")
def test_a_schema_is_not_translated() -> None:
    schema = {"type": "object", "properties": {"snake_case": {"type": "string"}, "camelCase": {}}}
    tool = Tool("n", schema)
    assert tool.to_wire() == {"name": "n", "inputSchema": schema}
    assert Tool.from_wire(tool.to_wire()) == tool


@pytest.mark.requirement("TOOL-17")
def test_a_result_always_has_content_and_no_error_unless_it_says_so() -> None:
    assert CallToolResult().to_wire() == {"content": []}
    made = CallToolResult.from_wire({"content": []})
    assert made.is_error is False
    assert CallToolResult([], is_error=True).to_wire() == {"content": [], "isError": True}
    with pytest.raises(ValueError, match="^CallToolResult: content is missing$"):
        CallToolResult.from_wire({"structuredContent": {}})


def test_the_text_of_a_result_is_its_text_blocks() -> None:
    result = CallToolResult([Text("a"), Image(b"x", "image/png"), Text("b")])
    assert result.text == "a\nb"
    assert CallToolResult().text == ""


@for_each("value", [None, False, 0, "", [], {}, {"a": 1}])
def test_structured_content_may_be_any_json_value(value: Any) -> None:
    result = CallToolResult([], structured_content=value)
    assert result.structured_content == value
    assert result.has_structured_content
    assert result.to_wire() == {"content": [], "structuredContent": value}
    assert CallToolResult.from_wire(result.to_wire()) == result
    assert result != CallToolResult([])


def test_no_structured_content_is_not_null() -> None:
    for result in (CallToolResult([]), CallToolResult.from_wire({"content": []})):
        assert result.structured_content is None
        assert not result.has_structured_content
        assert result.structured_content_ is ABSENT
        assert "structuredContent" not in pickle.loads(pickle.dumps(result)).to_wire()
    result.structured_content = None
    assert result.has_structured_content
    assert result.to_wire() == {"content": [], "structuredContent": None}


def test_the_value_is_filled_in_later_and_does_not_travel() -> None:
    result = CallToolResult.from_wire({"content": [], "structuredContent": {"result": 5}})
    assert result.value is None is CallToolResult().value
    result.value = 5
    assert pickle.loads(pickle.dumps(result)).value == 5
    assert "value" not in result.to_wire()
    assert CallToolResult.from_wire({"content": [], "value": 1}).extra == {"value": 1}


def test_the_result_type_is_not_an_extra() -> None:
    assert CallToolResult.from_wire({"content": [], "resultType": "complete", "x": 1}).extra == {"x": 1}


@pytest.mark.requirement("PRM-03", "SEED-24")
def test_whether_an_argument_is_required_is_always_said() -> None:
    assert PromptArgument("a").to_wire() == {"name": "a", "required": False}
    assert PromptArgument.from_wire({"name": "a"}).required is False
    assert PromptArgument("a", title="A").display_name == "A"
    assert PromptArgument("a").display_name == "a"
    with pytest.raises(TypeError, match="^PromptArgument: required must be true or false, not int$"):
        PromptArgument("a", required=1)  # type: ignore[arg-type]


def test_a_prompt() -> None:
    prompt = Prompt("p", arguments=[PromptArgument("a", required=True)])
    assert prompt.to_wire() == {"name": "p", "arguments": [{"name": "a", "required": True}]}
    assert (prompt.display_name, Prompt("p", title="P").display_name) == ("p", "P")


@pytest.mark.requirement("PRM-05", "PRM-06")
def test_a_message_has_one_block_and_one_of_two_roles() -> None:
    message = PromptMessage("user", "hi")
    assert message.text == "hi" and PromptMessage("user", Image(b"x", "image/png")).text == ""
    assert Message is PromptMessage
    assert message.content == Text("hi")
    assert message.to_wire() == {"role": "user", "content": {"type": "text", "text": "hi"}}
    assert PromptMessage("assistant", Image(b"x", "image/png")).to_wire()["content"]["type"] == "image"
    with pytest.raises(ValueError, match="^PromptMessage: role must be one of user, assistant, not 'system'$"):
        PromptMessage("system", "hi")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='^PromptMessage: role: must be "user" or "assistant"$'):
        PromptMessage.from_wire({"role": "system", "content": {"type": "text", "text": "x"}})
    with pytest.raises(ValueError, match="^PromptMessage: content must be an object .*, not an array$"):
        PromptMessage.from_wire({"role": "user", "content": []})
    with pytest.raises(TypeError, match="^PromptMessage: content must be an object .*, not list$"):
        PromptMessage("user", [Text("x")])  # type: ignore[arg-type]


def test_what_a_prompt_gives() -> None:
    result = GetPromptResult([PromptMessage("user", "hi")], "greets")
    assert result.to_wire() == {
        "description": "greets",
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    }
    assert GetPromptResult.from_wire({**result.to_wire(), "resultType": "complete"}) == result


@pytest.mark.requirement("COMP-10")
def test_completion_stands_in_a_member_of_the_result() -> None:
    made = Completion(("a", "b"), 2, False)
    assert made.to_wire() == {"completion": {"values": ["a", "b"], "total": 2, "hasMore": False}}
    assert Completion.from_wire({"completion": {"values": []}, "_meta": 5}) == Completion([])
    with_meta = Completion([], meta={"a": 1})
    assert Completion.from_wire(with_meta.to_wire()).meta == {"a": 1}


@for_each(
    "wire", [None, [], {}, {"completion": []}, {"completion": {}}, {"completion": {"values": [1]}}]
)
def test_what_is_no_completion_is_refused(wire: Any) -> None:
    with pytest.raises(ValueError, match="^Completion: "):
        Completion.from_wire(wire)
    with pytest.raises(TypeError, match="^Completion: values must be a list of strings, not str$"):
        Completion("abc")
