"""Tools and their results, prompts, completion, and what arrives without being asked for."""

from __future__ import annotations

import pickle
from typing import Any, Dict

import pytest

from minimcp.protocol.lifecycle import LOG_LEVELS
from minimcp.types import (
    CHANGES,
    CallToolResult,
    Change,
    Completion,
    GetPromptResult,
    Image,
    LogMessage,
    Message,
    Progress,
    Prompt,
    PromptArgument,
    PromptMessage,
    Text,
    Tool,
    ToolAnnotations,
    covering,
)


@pytest.mark.requirement("TOOL-11", "M:TOOL-16")
def test_the_display_name_is_title_then_annotated_title_then_name() -> None:
    hints = ToolAnnotations(title="hinted")
    tools = [Tool("n", {}, title="T", annotations=hints), Tool("n", {}, annotations=hints), Tool("n", {})]
    assert [tool.display_name for tool in tools] == ["T", "hinted", "n"]


@pytest.mark.requirement("TOOL-13", "TOOL-14", "M:TOOL-15")
@pytest.mark.parametrize(
    ("given", "effective"),
    [
        ({}, (False, True, False, True)),
        ({"read_only_hint": False, "destructive_hint": True}, (False, True, False, True)),
        ({"destructive_hint": False, "idempotent_hint": True}, (False, False, True, True)),
        ({"read_only_hint": True, "destructive_hint": True}, (True, False, True, True)),
        ({"open_world_hint": False}, (False, True, False, False)),
    ],
)
def test_hints_have_defaults(given: Dict[str, Any], effective: Any) -> None:
    hints = ToolAnnotations(**given)
    assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == effective
    assert Tool("n", {}, annotations=hints).hints is hints


@pytest.mark.requirement("SEED-22", "TOOL-03", "M:SCH-8")
def test_a_schema_is_not_translated_and_may_be_empty() -> None:
    tool = Tool.from_wire({"name": "n", "inputSchema": {}})
    assert (tool.hints, tool.annotations) == (ToolAnnotations(), None)
    schema = {"type": "object", "properties": {"snake_case": {"type": "string"}, "camelCase": {}}}
    assert Tool("n", schema).to_wire() == {"name": "n", "inputSchema": schema}


def test_how_a_tool_may_be_run_as_a_task_is_kept_unread() -> None:
    wire = {"name": "n", "inputSchema": {}, "execution": {"taskSupport": "optional"}}
    assert Tool.from_wire(wire).extra == {"execution": {"taskSupport": "optional"}}
    assert Tool.from_wire(wire).to_wire() == wire


@pytest.mark.requirement("TOOL-17")
def test_a_result_always_has_content_and_no_error_unless_it_says_so() -> None:
    assert CallToolResult().to_wire() == {"content": []}
    assert CallToolResult.from_wire({"content": []}).is_error is False
    assert CallToolResult([], is_error=True).to_wire() == {"content": [], "isError": True}
    assert CallToolResult([Text("a"), Image(b"x", "image/png"), Text("b")]).text == "a\nb"
    assert CallToolResult().text == ""


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": 1}])
def test_structured_content_may_be_any_json_value(value: Any) -> None:
    result = CallToolResult([], structured_content=value)
    assert result.structured_content == value and result.has_structured_content
    assert result.to_wire() == {"content": [], "structuredContent": value}
    assert CallToolResult.from_wire(result.to_wire()) == result != CallToolResult([])


def test_no_structured_content_is_not_null() -> None:
    for result in (CallToolResult([]), CallToolResult.from_wire({"content": []})):
        assert result.structured_content is None and not result.has_structured_content
        assert "structuredContent" not in pickle.loads(pickle.dumps(result)).to_wire()
        result.structured_content = None
        assert result.has_structured_content
        assert result.to_wire() == {"content": [], "structuredContent": None}


def test_the_value_is_filled_in_later_and_does_not_travel() -> None:
    result = CallToolResult.from_wire({"content": [], "structuredContent": {"result": 5}})
    assert result.value is None is CallToolResult().value
    result.value = 5
    assert pickle.loads(pickle.dumps(result)).value == 5 and "value" not in result.to_wire()
    assert result == CallToolResult([], structured_content={"result": 5})
    assert CallToolResult.from_wire({"content": [], "value": 1}).extra == {"value": 1}


@pytest.mark.requirement("PRM-03", "SEED-24")
def test_whether_an_argument_is_required_is_always_said() -> None:
    assert PromptArgument("a").to_wire() == {"name": "a", "required": False}
    assert PromptArgument.from_wire({"name": "a"}).required is False
    prompt = Prompt("p", arguments=[PromptArgument("a", required=True)])
    assert prompt.to_wire() == {"name": "p", "arguments": [{"name": "a", "required": True}]}
    assert (prompt.display_name, Prompt("p", title="P").display_name) == ("p", "P")


@pytest.mark.requirement("PRM-05", "PRM-06")
def test_a_message_has_one_block_and_one_of_two_roles() -> None:
    message = PromptMessage("user", "hi")
    assert message.text == "hi" and PromptMessage("user", Image(b"x", "image/png")).text == ""
    assert Message is PromptMessage and message.content == Text("hi")
    wire = {"role": "user", "content": {"type": "text", "text": "hi"}}
    assert message.to_wire() == wire
    assert PromptMessage("assistant", Image(b"x", "image/png")).to_wire()["content"]["type"] == "image"
    for make in (lambda: PromptMessage("system", "hi"), lambda: PromptMessage.from_wire({**wire, "role": "system"})):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="^PromptMessage: role must be one of user, assistant, not 'system'$"):
            make()
    with pytest.raises(ValueError, match="^PromptMessage: content must be an object .*, not an array$"):
        PromptMessage.from_wire({"role": "user", "content": []})
    with pytest.raises(TypeError, match="^PromptMessage: content must be an object .*, not list$"):
        PromptMessage("user", [Text("x")])  # type: ignore[arg-type]
    result = GetPromptResult([message], "greets")
    assert result.to_wire() == {"description": "greets", "messages": [wire]}


@pytest.mark.requirement("COMP-10")
def test_completion_stands_in_a_member_of_the_result() -> None:
    made = Completion(("a", "b"), 2, False)
    assert made.to_wire() == {"completion": {"values": ["a", "b"], "total": 2, "hasMore": False}}
    assert Completion.from_wire({"completion": {"values": []}, "_meta": 5}) == Completion([])
    assert Completion.from_wire(Completion([], meta={"a": 1}).to_wire()).meta == {"a": 1}
    for wire in (None, [], {}, {"completion": []}, {"completion": {}}, {"completion": {"values": [1]}}):
        with pytest.raises(ValueError, match="^Completion: "):
            Completion.from_wire(wire)


@pytest.mark.requirement("LOG-02", "LOG-06")
def test_a_log_message_has_any_data_and_one_of_eight_levels() -> None:
    levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    assert sorted(LOG_LEVELS, key=LOG_LEVELS.__getitem__) == levels == [LogMessage(level, 0).level for level in levels]
    assert LogMessage("warn", 0).level == "warning" and LogMessage.from_wire({"level": "new", "data": 1}).level == "new"
    for data in ("x", {"a": 1}, [1], None, 0, False):
        message = LogMessage("warning", data, "l")
        assert message.to_wire() == {"level": "warning", "logger": "l", "data": data}
        assert LogMessage.from_wire(message.to_wire()) == message
    with pytest.raises(ValueError, match="^LogMessage: data is missing$"):
        LogMessage.from_wire({"level": "info"})
    with pytest.raises(ValueError, match="^LogMessage: level must be one of debug, .*, not 'loud'$"):
        LogMessage("loud", 0)


@pytest.mark.parametrize(("method", "kind"), CHANGES.items())
def test_a_change_is_read_from_its_notification(method: str, kind: str) -> None:
    params = {"_meta": {"a": 1}, **({"uri": "a:b"} if kind == "resource_updated" else {})}
    change = Change.from_notice(method, params)
    assert change == Change(kind, params.get("uri"), meta={"a": 1})  # type: ignore[arg-type]
    assert change.to_wire() == params


def test_what_is_no_change_is_refused() -> None:
    assert Change.from_notice("notifications/tools/list_changed", None) == Change("tools_list_changed")
    with pytest.raises(ValueError, match="^notifications/other tells of no change$"):
        Change.from_notice("notifications/other", {})
    with pytest.raises(ValueError, match="^Change: uri is missing$"):
        Change.from_notice("notifications/resources/updated", {})


def test_the_closest_subscription_covers_a_resource() -> None:
    subscribed = {"a://x/y", "a://x/", "b:"}
    expected = {"a://x/y": "a://x/y", "a://x/y/z": "a://x/y", "a://x/q/r": "a://x/", "a://x": None, "b:c": None}
    assert {uri: covering(subscribed, uri) for uri in expected} == expected
    assert covering({"a:/"}, "a://x/y") == "a:/" and Progress.from_wire({"progress": 1}) == Progress(1)
