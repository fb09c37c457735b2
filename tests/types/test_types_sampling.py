"""Sampling, roots and what arrives without being asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minimcp.types import (
    CHANGES,
    LOG_LEVELS,
    LOG_ORDER,
    Change,
    LogMessage,
    ModelHint,
    ModelPreferences,
    Progress,
    Root,
    SampleResult,
    SamplingMessage,
    Text,
    ToolResult,
    ToolUse,
    UnknownContent,
    log_level,
    sampling_content_from_wire,
)

from ..rows import for_each

HI = {"type": "text", "text": "hi"}


@pytest.mark.requirement("META-02")
def test_content_is_always_a_list_here_and_one_block_alone_on_the_wire() -> None:
    for wire in (HI, [HI]):
        message = SamplingMessage.from_wire({"role": "user", "content": wire})
        assert message == SamplingMessage("user", "hi") == SamplingMessage("user", Text("hi"))
        assert message.content == [Text("hi")]
        assert message.to_wire() == {"role": "user", "content": HI}
    several = SamplingMessage("user", [Text("a"), ToolUse("1", "t", {}), Text("b")])
    assert [block["type"] for block in several.to_wire()["content"]] == ["text", "tool_use", "text"]
    assert several.text == "a\nb"
    assert SamplingMessage("user", []).to_wire()["content"] == []


def test_wrong_content_is_refused() -> None:
    for wrong in ({"type": "text"}, b"x", 5, ["x"]):
        with pytest.raises(TypeError, match="^SamplingMessage: content must be content blocks, not "):
            SamplingMessage("user", wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^SamplingMessage: role must be one of"):
        SamplingMessage("system", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^SamplingMessage: content: content block: "):
        SamplingMessage.from_wire({"role": "user", "content": ["x"]})


def test_sampling_blocks() -> None:
    use = sampling_content_from_wire({"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1}})
    assert use == ToolUse("1", "t", {"a": 1})
    assert use.type == "tool_use"
    result = sampling_content_from_wire({"type": "tool_result", "toolUseId": "1", "content": [HI]})
    assert result == ToolResult("1", [Text("hi")])
    assert isinstance(result, ToolResult)
    assert (result.text, result.is_error, result.structured_content) == ("hi", False, None)
    assert ToolResult("1", structured_content=None).to_wire() == {
        "type": "tool_result",
        "toolUseId": "1",
        "content": [],
        "structuredContent": None,
    }
    assert sampling_content_from_wire(HI) == Text("hi")


def test_results_do_not_nest() -> None:
    inner = {"type": "tool_result", "toolUseId": "2", "content": []}
    result = ToolResult.from_wire({"type": "tool_result", "toolUseId": "1", "content": [inner]})
    assert isinstance(result.content[0], UnknownContent)
    assert result.to_wire()["content"] == [inner]


@pytest.mark.requirement("SAMP-05", "SAMP-06", "SEED-13")
@for_each(
    ("reason", "end"),
    [("endTurn", True), ("end_turn", True), ("toolUse", False), ("novel", False), (None, False)],
)
def test_the_stop_reason_is_kept_as_it_came(reason: Any, end: bool) -> None:
    wire = {"role": "assistant", "content": HI, "model": "m", "stopReason": reason}
    result = SampleResult.from_wire(wire)
    assert (result.stop_reason, result.is_end_turn) == (reason, end)
    assert (result.text, result.model, result.content) == ("hi", "m", [Text("hi")])
    assert result == SampleResult("hi", "m", stop_reason=reason)


def test_a_sample_result_needs_a_role_that_exists() -> None:
    with pytest.raises(ValueError, match="^SampleResult: role must be one of"):
        SampleResult("x", role="system")  # type: ignore[arg-type]


@pytest.mark.requirement("SAMP-09")
def test_model_preferences() -> None:
    made = ModelPreferences(["son", ModelHint("opus")], cost_priority=0, speed_priority=1.0)
    assert made.to_wire() == {
        "hints": [{"name": "son"}, {"name": "opus"}],
        "costPriority": 0,
        "speedPriority": 1.0,
    }
    for name in ("cost_priority", "speed_priority", "intelligence_priority"):
        with pytest.raises(ValueError, match=f"^ModelPreferences: {name} must lie between 0 and 1, not at 2$"):
            ModelPreferences(**{name: 2})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^ModelPreferences: hints must be a list"):
        ModelPreferences("son")
    with pytest.raises(TypeError, match="^ModelPreferences: hints must be a list"):
        ModelPreferences([5])  # type: ignore[list-item]


@pytest.mark.requirement("SAMP-10", "SAMP-11", "M:SAM-12")
def test_the_first_hint_that_matches_picks_the_model() -> None:
    models = ["alpha-large", "beta-sonata-2", "gamma"]
    assert ModelPreferences(["none", ModelHint(), "SONATA", "alpha"]).pick(models) == "beta-sonata-2"
    assert ModelPreferences(["delta"]).pick(models) is None
    assert ModelPreferences().pick(models) is None


@pytest.mark.requirement("ROOT-02", "ROOT-03")
def test_roots_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root.from_path(tmp_path / "a b", "work")
    assert root.uri.startswith("file:///")
    assert root.uri.endswith("/a%20b")
    assert (root.path, root.name) == (tmp_path / "a b", "work")
    monkeypatch.chdir(tmp_path)
    assert Root.from_path("x").path == Path.cwd() / "x"
    assert Root("file://localhost/x").path == Path("/x")
    with pytest.raises(ValueError, match="^Root: uri must start with file://"):
        Root("https://example.com")
    with pytest.raises(TypeError, match="^Root: uri must be a string"):
        Root(tmp_path)  # type: ignore[arg-type]


@for_each("uri", ["https://example.com/x", "file://other/x", "file://[x", "x", "file:///a%00b"])
def test_a_root_elsewhere_has_no_path(uri: str) -> None:
    assert Root.from_wire({"uri": uri}).path is None


@pytest.mark.requirement("LOG-02")
def test_levels_are_ordered() -> None:
    assert sorted(LOG_LEVELS, key=LOG_ORDER.__getitem__) == list(LOG_LEVELS)
    assert LOG_ORDER["debug"] < LOG_ORDER["warning"] < LOG_ORDER["emergency"]
    assert [log_level("warn"), log_level("alert")] == ["warning", "alert"]
    for wrong in ("loud", "", None, ["info"]):
        with pytest.raises(ValueError, match="^the level of a log message is one of debug, "):
            log_level(wrong)


@pytest.mark.requirement("LOG-06")
@for_each("data", ["x", {"a": 1}, [1], None, 0, False])
def test_log_data_is_any_json_value(data: Any) -> None:
    message = LogMessage("warning", data, "l")
    assert message.to_wire() == {"level": "warning", "logger": "l", "data": data}
    assert LogMessage.from_wire(message.to_wire()) == message
    with pytest.raises(ValueError, match="^LogMessage: data is missing$"):
        LogMessage.from_wire({"level": "info"})
    assert LogMessage.from_wire({"level": "novel", "data": data}).level == "novel"
    with pytest.raises(ValueError, match="level"):
        LogMessage("loud", data)


def test_progress() -> None:
    made = Progress(1, 2.5, "half", progress_token=7)
    assert made.to_wire() == {"progressToken": 7, "progress": 1, "total": 2.5, "message": "half"}
    assert Progress.from_wire({"progress": 1}) == Progress(1)
    with pytest.raises(TypeError, match="^Progress: progress must be a number, not bool$"):
        Progress(True)
    with pytest.raises(TypeError, match="^Progress: progress_token must be a string or a whole number"):
        Progress(1, progress_token=1.5)  # type: ignore[arg-type]


@for_each(("method", "kind"), CHANGES.items())
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
