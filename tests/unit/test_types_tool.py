"""Tools and their results, prompts, completion, and what arrives without being asked for."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from minimcp import types as t
from minimcp.protocol.lifecycle import LOG_LEVELS


@pytest.mark.requirement("TOOL-11", "M:TOOL-16")
def test_the_display_name_is_title_then_annotated_title_then_name() -> None:
    hints = t.ToolAnnotations(title="hinted")
    tools = [t.Tool("n", {}, title="T", annotations=hints), t.Tool("n", {}, annotations=hints), t.Tool("n", {})]
    assert [tool.display_name for tool in tools] == ["T", "hinted", "n"]


@pytest.mark.requirement("TOOL-13", "TOOL-14", "M:TOOL-15")
def test_hints_have_defaults() -> None:
    cases: Any = [
        ({}, (False, True, False, True)),
        ({"read_only_hint": False, "destructive_hint": True}, (False, True, False, True)),
        ({"destructive_hint": False, "idempotent_hint": True}, (False, False, True, True)),
        ({"read_only_hint": True, "destructive_hint": True}, (True, False, True, True)),
        ({"open_world_hint": False}, (False, True, False, False)),
    ]
    for given, effective in cases:
        hints = t.Tool("n", {}, annotations=t.ToolAnnotations(**given)).hints
        assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == effective


@pytest.mark.requirement("SEED-22", "TOOL-03", "M:SCH-8")
def test_a_schema_is_not_translated_and_may_be_empty() -> None:
    tool = t.Tool.from_wire({"name": "n", "inputSchema": {}})
    assert (tool.hints, tool.annotations) == (t.ToolAnnotations(), None)
    schema = {"type": "object", "properties": {"snake_case": {"type": "string"}, "camelCase": {}}}
    assert t.Tool("n", schema).to_wire() == {"name": "n", "inputSchema": schema}
    wire = {"name": "n", "inputSchema": {}, "execution": {"taskSupport": "optional"}}
    assert t.Tool.from_wire(wire).extra == {"execution": {"taskSupport": "optional"}}
    assert t.Tool.from_wire(wire).to_wire() == wire


def test_structured_content_may_be_any_json_value_and_none_is_not_null() -> None:
    for value in (None, False, 0, "", [], {}, {"a": 1}):
        result = t.CallToolResult([], structured_content=value)
        assert result.structured_content == value and result.has_structured_content
        assert result.to_wire() == {"content": [], "structuredContent": value}
        assert t.CallToolResult.from_wire(result.to_wire()) == result != t.CallToolResult([])
    for result in (t.CallToolResult([]), t.CallToolResult.from_wire({"content": []})):
        assert result.structured_content is None and not result.has_structured_content
        assert "structuredContent" not in pickle.loads(pickle.dumps(result)).to_wire()
        result.structured_content = None
        assert result.has_structured_content
        assert result.to_wire() == {"content": [], "structuredContent": None}


@pytest.mark.requirement("PRM-03", "SEED-24")
def test_whether_an_argument_is_required_is_always_said() -> None:
    assert t.PromptArgument("a").to_wire() == {"name": "a", "required": False}
    assert t.PromptArgument.from_wire({"name": "a"}).required is False
    prompt = t.Prompt("p", arguments=[t.PromptArgument("a", required=True)])
    assert prompt.to_wire() == {"name": "p", "arguments": [{"name": "a", "required": True}]}
    assert (prompt.display_name, t.Prompt("p", title="P").display_name) == ("p", "P")


@pytest.mark.requirement("PRM-05", "PRM-06")
def test_a_message_has_one_block_and_one_of_two_roles() -> None:
    message = t.PromptMessage("user", "hi")
    assert message.text == "hi" and t.PromptMessage("user", t.Image(b"x", "image/png")).text == ""
    assert t.Message is t.PromptMessage and message.content == t.Text("hi")
    wire = {"role": "user", "content": {"type": "text", "text": "hi"}}
    assert message.to_wire() == wire
    assert t.PromptMessage("assistant", t.Image(b"x", "image/png")).to_wire()["content"]["type"] == "image"
    system: Any = "system"
    for make in (lambda: t.PromptMessage(system, "hi"), lambda: t.PromptMessage.from_wire({**wire, "role": system})):
        with pytest.raises(ValueError, match="^PromptMessage: role must be one of user, assistant, not 'system'$"):
            make()
    with pytest.raises(ValueError, match="^PromptMessage: content must be an object .*, not an array$"):
        t.PromptMessage.from_wire({"role": "user", "content": []})
    with pytest.raises(TypeError, match="^PromptMessage: content must be an object .*, not list$"):
        t.PromptMessage("user", [t.Text("x")])  # type: ignore[arg-type]
    result = t.GetPromptResult([message], "greets")
    assert result.to_wire() == {"description": "greets", "messages": [wire]}


@pytest.mark.requirement("COMP-10")
def test_completion_stands_in_a_member_of_the_result() -> None:
    made = t.Completion(("a", "b"), 2, False)
    assert made.to_wire() == {"completion": {"values": ["a", "b"], "total": 2, "hasMore": False}}
    assert t.Completion.from_wire({"completion": {"values": []}, "_meta": 5}) == t.Completion([])
    assert t.Completion.from_wire(t.Completion([], meta={"a": 1}).to_wire()).meta == {"a": 1}
    for wire in (None, [], {}, {"completion": []}, {"completion": {}}, {"completion": {"values": [1]}}):
        with pytest.raises(ValueError, match="^Completion: "):
            t.Completion.from_wire(wire)


@pytest.mark.requirement("LOG-02", "LOG-06")
def test_a_log_message_has_any_data_and_one_of_eight_levels() -> None:
    levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    assert sorted(LOG_LEVELS, key=LOG_LEVELS.__getitem__) == levels
    assert [t.LogMessage(level, 0).level for level in (*levels, "warn")] == [*levels, "warning"]
    assert t.LogMessage.from_wire({"level": "new", "data": 1}).level == "new"
    for data in ("x", {"a": 1}, [1], None, 0, False):
        message = t.LogMessage("warning", data, "l")
        assert message.to_wire() == {"level": "warning", "logger": "l", "data": data}
        assert t.LogMessage.from_wire(message.to_wire()) == message
    with pytest.raises(ValueError, match="^LogMessage: data is missing$"):
        t.LogMessage.from_wire({"level": "info"})
    with pytest.raises(ValueError, match="^LogMessage: level must be one of debug, .*, not 'loud'$"):
        t.LogMessage("loud", 0)


def test_a_change_is_read_from_its_notification() -> None:
    for method, kind in t.CHANGES.items():
        params: Any = {"_meta": {"a": 1}, **({"uri": "a:b"} if kind == "resource_updated" else {})}
        change = t.Change.from_notice(method, params)
        assert change == t.Change(kind, params.get("uri"), meta={"a": 1}) and change.to_wire() == params
    assert t.Change.from_notice("notifications/tools/list_changed", None) == t.Change("tools_list_changed")
    with pytest.raises(ValueError, match="^notifications/other tells of no change$"):
        t.Change.from_notice("notifications/other", {})
    with pytest.raises(ValueError, match="^Change: uri is missing$"):
        t.Change.from_notice("notifications/resources/updated", {})


def test_the_closest_subscription_covers_a_resource() -> None:
    subscribed = {"a://x/y", "a://x/", "b:"}
    expected = {"a://x/y": "a://x/y", "a://x/y/z": "a://x/y", "a://x/q/r": "a://x/", "a://x": None, "b:c": None}
    assert {uri: t.covering(subscribed, uri) for uri in expected} == expected
    assert t.covering({"a:/"}, "a://x/y") == "a:/" and t.Progress.from_wire({"progress": 1}) == t.Progress(1)
