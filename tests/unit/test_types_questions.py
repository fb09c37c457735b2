"""Questions of a server to a client: elicitation, sampling, roots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minimcp import types as t
from minimcp.errors import Declined

HI = {"type": "text", "text": "hi"}
SAID = {"role": "user", "content": HI}


def test_an_answer_is_true_if_accepted_and_has_its_content() -> None:
    answer = t.Answer("accept", {"name": "Ada"})
    assert answer and answer.require() == {"name": "Ada"} == answer.content
    assert repr(answer) == "Answer('accept', {'name': 'Ada'})"
    assert (
        answer == t.Answer("accept", {"name": "Ada"}) != t.Answer("accept") and answer != "accept"
    )
    for action, said in (("decline", "declined"), ("cancel", "no choice")):
        other = t.Answer(action)
        assert not other and other.content is None and repr(other) == f"Answer({action!r})"
        with pytest.raises(Declined, match=said):
            other.require()
        with pytest.raises(ValueError, match="content requires"):
            t.Answer(action, {})
    with pytest.raises(ValueError, match="accept, decline, cancel"):
        t.Answer("maybe")


@pytest.mark.requirement("ELIC-06", "ELIC-24")
def test_a_question_to_a_user() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}, "b": {}, "c": True},
    }
    asked = t.ElicitRequest.from_wire({"message": "?", "requestedSchema": schema})
    assert asked == t.ElicitRequest("?", schema) and asked.mode == "form" and asked.schema == schema
    assert asked.defaults == {"a": "x"} and (asked.url, asked.host, asked.looks_odd) == (
        None,
        None,
        False,
    )
    assert asked.to_wire() == {"message": "?", "requestedSchema": schema}
    assert t.ElicitRequest("?").defaults == t.ElicitRequest("?", {"properties": []}).defaults == {}
    wire = {"mode": "url", "message": "?", "url": "https://x.y/", "elicitationId": "\u2603 1"}
    opened = t.ElicitRequest.from_wire(wire)
    assert (opened.schema, opened.elicitation_id, opened.host) == (None, "\u2603 1", "x.y")
    assert opened == t.ElicitRequest("?", mode="url", url="https://x.y/", elicitation_id="\u2603 1")
    assert t.ElicitRequest.from_wire({"mode": "voice", "message": "?"}).mode == "voice"
    with pytest.raises(ValueError, match="mode must be one of form, url"):
        t.ElicitRequest("?", mode="x")  # type: ignore[arg-type]


@pytest.mark.requirement("ELIC-36")
def test_deceptive_hosts_are_recognized() -> None:
    odd = {
        "https://xn--pple-43d.com/": True,
        "https://a.xn--b.c": True,
        "https://\u0430pple.com": True,
    }
    odd["https://Apple.com"] = False
    assert {url: t.ElicitRequest("?", mode="url", url=url).looks_odd for url in odd} == odd
    assert t.ElicitRequest("?", mode="url", url="https://Good.com:1/evil.com").host == "good.com"
    for url in (
        "https://user@Good.com/",
        "https://[x",
        "https://evil.example\\@bank.example/",
        "file://bank.example/",
    ):
        asked = t.ElicitRequest("?", mode="url", url=url)
        assert asked.host is None and asked.looks_odd


@pytest.mark.requirement("SAMP-08", "M:SAM-7", "M:SAM-8")
def test_a_question_to_a_model() -> None:
    messages = [SAID, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}]
    assert t.SampleRequest.from_wire({"messages": messages, "maxTokens": 10}).text == "hi\nho"
    made = t.SampleRequest(
        [t.SamplingMessage("user", "hi")], 5, tools=[], tool_choice=t.ToolChoice()
    )
    assert made.to_wire() == {"messages": [SAID], "maxTokens": 5, "tools": [], "toolChoice": {}}
    assert (
        t.ToolChoice.from_wire({})
        == t.ToolChoice.from_wire({"mode": "auto"})
        == t.ToolChoice("auto")
    )


def test_a_message_may_be_text_or_its_form_on_the_wire() -> None:
    message = t.SamplingMessage("user", "hi")
    assert t.SamplingMessage.of(message) is message and t.SamplingMessage.of(5) == 5
    assert t.SamplingMessage.of("hi") == t.SamplingMessage.of(SAID) == message
    with pytest.raises(
        ValueError, match="^SamplingMessage: content must be content blocks, not a string$"
    ):
        t.SamplingMessage.of({"role": "user", "content": "hi"})


@pytest.mark.requirement("SAMP-05", "SAMP-06", "SEED-13")
def test_the_stop_reason_is_kept_unchanged() -> None:
    for reason in ("endTurn", "end_turn", "toolUse", "novel", None):
        result = t.SampleResult.from_wire(
            {"role": "assistant", "content": HI, "model": "m", "stopReason": reason}
        )
        assert (result.stop_reason, result.is_end_turn) == (
            reason,
            reason in ("endTurn", "end_turn"),
        )
        assert result == t.SampleResult("hi", "m", stop_reason=reason) and result.text == "hi"
    assert t.SampleResult("hi").to_wire() == {
        "content": HI,
        "model": "unknown",
        "role": "assistant",
    }


@pytest.mark.requirement("SAMP-09", "SAMP-10", "SAMP-11", "M:SAM-12")
def test_the_first_hint_that_matches_picks_the_model() -> None:
    models = ["alpha-large", "beta-sonata-2", "gamma"]
    made = t.ModelPreferences(
        ["none", t.ModelHint(), "SONATA", "alpha"], cost_priority=0, speed_priority=1.0
    )
    assert made.to_wire() == {
        "hints": [{"name": "none"}, {}, {"name": "SONATA"}, {"name": "alpha"}], "costPriority": 0, "speedPriority": 1.0,
    }  # fmt: skip
    assert made.pick(models) == "beta-sonata-2"
    assert t.ModelPreferences(["delta"]).pick(models) is None is t.ModelPreferences().pick(models)
    for name in ("cost_priority", "speed_priority", "intelligence_priority"):
        with pytest.raises(
            ValueError, match=f"^ModelPreferences: {name} must be between 0 and 1, not 2$"
        ):
            t.ModelPreferences(**{name: 2})  # type: ignore[arg-type]
    for wrong in ("son", [5]):
        with pytest.raises(TypeError, match="^ModelPreferences: hints must be a list"):
            t.ModelPreferences(wrong)  # type: ignore[arg-type]


@pytest.mark.requirement("SAMP-23", "SAMP-24", "M:SAM-5", "M:SAM-6")
def test_uses_of_tools_and_their_results_belong_together() -> None:
    use, other = t.ToolUse("1", "t", {}), t.ToolUse("2", "t", {})
    first, second, text = t.ToolResult("1"), t.ToolResult("2"), t.Text("x")

    def fault(*messages: Any) -> Any:
        return t.conversation_fault(
            [t.SamplingMessage(role, list(blocks)) for role, *blocks in messages]
        )

    assert fault() is None and fault(("user", text), ("assistant", text)) is None
    assert (
        fault(("assistant", text, use, other), ("user", second, first), ("assistant", text)) is None
    )
    for mixed in (
        (("assistant", use), ("user", first, text)),
        (("assistant", use), ("assistant", first)),
    ):
        assert "contain nothing else" in fault(*mixed)
    for missing in (
        (("assistant", use, other), ("user", first)),
        (("assistant", use), ("user", text)),
        (("user", first),),
        (("assistant", use), ("user", second)),
    ):
        assert "the result of each" in fault(*missing)
    assert "has no result" in fault(("user", text), ("assistant", use))
    assert fault(("user", use)) is None, "only the model uses tools"


@pytest.mark.requirement("ROOT-02", "ROOT-03")
def test_roots_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = t.Root.from_path(tmp_path / "a b", "work")
    assert root.uri.startswith("file:///") and root.uri.endswith("/a%20b")
    assert (root.path, root.name) == (tmp_path / "a b", "work")
    monkeypatch.chdir(tmp_path)
    assert t.Root.from_path("x").path == Path.cwd() / "x" and t.Root(
        "file://localhost/x"
    ).path == Path("/x")
    for elsewhere in ("https://example.com/x", "file://other/x", "file://[x", "x", "file:///a%00b"):
        assert t.Root.from_wire({"uri": elsewhere}).path is None
    with pytest.raises(
        ValueError, match="^Root: uri must start with file://, not 'https://example.com'"
    ):
        t.Root("https://example.com")
    with pytest.raises(TypeError, match="^Root: uri must be a string"):
        t.Root(tmp_path)  # type: ignore[arg-type]
