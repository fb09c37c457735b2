"""Tools and their results, prompts, completion, and what arrives without being asked for."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp import types as t
from minimcp.protocol.lifecycle import LOG_LEVELS


@pytest.mark.requirement("TOOL-11", "M:TOOL-16")
def test_the_display_name_is_title_then_annotated_title_then_name() -> None:
    hints = t.ToolAnnotations(title="hinted")
    tools = [
        t.Tool("n", {}, title="T", annotations=hints),
        t.Tool("n", {}, annotations=hints),
        t.Tool("n", {}),
    ]
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


@pytest.mark.requirement("COMP-10")
def test_a_completion_is_a_member_of_the_result() -> None:
    made = t.Completion(("a", "b"), 2, False)
    assert made.to_wire() == {"completion": {"values": ["a", "b"], "total": 2, "hasMore": False}}
    assert t.Completion.from_wire({"completion": {"values": []}, "_meta": 5}) == t.Completion([])
    assert t.Completion.from_wire(t.Completion([], meta={"a": 1}).to_wire()).meta == {"a": 1}
    for wire in (
        None,
        [],
        {},
        {"completion": []},
        {"completion": {}},
        {"completion": {"values": [1]}},
    ):
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
    with pytest.raises(
        ValueError, match="^LogMessage: level must be one of debug, .*, not 'loud'$"
    ):
        t.LogMessage("loud", 0)


def test_a_change_is_read_from_its_notification() -> None:
    for method, kind in t.CHANGES.items():
        params: Any = {"_meta": {"a": 1}, **({"uri": "a:b"} if kind == "resource_updated" else {})}
        change = t.Change.from_notice(method, params)
        assert (
            change == t.Change(kind, params.get("uri"), meta={"a": 1})
            and change.to_wire() == params
        )
    assert t.Change.from_notice("notifications/tools/list_changed", None) == t.Change(
        "tools_list_changed"
    )
    with pytest.raises(ValueError, match="^notifications/other does not report a change$"):
        t.Change.from_notice("notifications/other", {})
    with pytest.raises(ValueError, match="^Change: uri is missing$"):
        t.Change.from_notice("notifications/resources/updated", {})
