"""What a server asks a host, as the host's handlers see it."""

from __future__ import annotations

import copy
import threading
from types import SimpleNamespace
from typing import Any, List

import pytest

from minimcp.types import (
    ElicitRequest,
    Implementation,
    ModelPreferences,
    SampleRequest,
    SamplingMessage,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
    conversation_fault,
)

HI = {"role": "user", "content": {"type": "text", "text": "hi"}}


@pytest.mark.requirement("SAMP-08", "M:SAM-7", "M:SAM-8")
def test_a_question_to_a_model() -> None:
    wire = {
        "messages": [HI, {"role": "assistant", "content": [{"type": "text", "text": "ho"}]}],
        "maxTokens": 10,
        "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 1},
        "systemPrompt": "Be brief.",
        "includeContext": "none",
        "temperature": 0.5,
        "stopSequences": ["."],
        "metadata": {"vendor": 1},
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        "toolChoice": {"mode": "required"},
        "task": {"ttl": 1},
    }
    asked = SampleRequest.from_wire(wire)
    assert asked == SampleRequest.from_wire(asked.to_wire()) and asked.text == "hi\nho"
    assert (asked.max_tokens, asked.system_prompt, asked.include_context) == (10, "Be brief.", "none")
    assert (asked.temperature, asked.stop_sequences, asked.metadata) == (0.5, ["."], {"vendor": 1})
    assert asked.model_preferences == ModelPreferences(["small"], cost_priority=1)
    assert asked.tools == [Tool("t", {"type": "object"})] and asked.tool_choice == ToolChoice("required")
    assert asked.extra == {"task": {"ttl": 1}}
    made = SampleRequest([SamplingMessage("user", "hi")], 5, tools=[], tool_choice=ToolChoice())
    assert made.to_wire() == {"messages": [HI], "maxTokens": 5, "tools": [], "toolChoice": {}}
    assert ToolChoice.from_wire({}) == ToolChoice.from_wire({"mode": "auto"}) == ToolChoice("auto")


def test_what_is_no_question_to_a_model() -> None:
    whole = {"messages": [HI], "maxTokens": 10}
    changes: List[Any] = [
        ({"messages": None}, "messages is missing"),
        ({"messages": [5]}, "messages: SamplingMessage: must be an object"),
        ({"maxTokens": None}, "maxTokens is missing"),
        ({"maxTokens": "5"}, "maxTokens must be a whole number"),
        ({"includeContext": "everything"}, "includeContext: must be one of none, thisServer, allServers"),
        ({"toolChoice": {"mode": "maybe"}}, "mode: must be one of auto, required, none"),
    ]
    for change, said in changes:
        with pytest.raises(ValueError, match=said):
            SampleRequest.from_wire({**whole, **change})
    with pytest.raises(ValueError, match="include_context must be one of"):
        SampleRequest([], 1, include_context="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode must be one of"):
        ToolChoice("x")  # type: ignore[arg-type]


@pytest.mark.requirement("ELIC-06", "ELIC-24")
def test_a_question_to_a_user() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {}, "c": True}}
    asked = ElicitRequest.from_wire({"message": "?", "requestedSchema": schema})
    assert asked == ElicitRequest("?", schema) and asked.mode == "form" and asked.schema == schema
    assert asked.defaults == {"a": "x"} and (asked.url, asked.host, asked.looks_odd) == (None, None, False)
    assert asked.to_wire() == {"message": "?", "requestedSchema": schema}
    assert ElicitRequest("?").defaults == ElicitRequest("?", {"properties": []}).defaults == {}
    wire = {"mode": "url", "message": "?", "url": "https://x.y/", "elicitationId": "\u2603 1"}
    opened = ElicitRequest.from_wire(wire)
    assert (opened.schema, opened.elicitation_id, opened.host) == (None, "\u2603 1", "x.y")
    assert opened == ElicitRequest("?", mode="url", url="https://x.y/", elicitation_id="\u2603 1")
    with pytest.raises(ValueError, match="mode must be one of form, url"):
        ElicitRequest("?", mode="x")  # type: ignore[arg-type]
    for wrong in ({}, {"message": 5}, {"message": "?", "requestedSchema": []}):
        with pytest.raises(ValueError, match="^ElicitRequest: "):
            ElicitRequest.from_wire(wrong)


@pytest.mark.requirement("ELIC-36")
def test_hosts_that_may_pretend_are_told_apart() -> None:
    odd = {"https://xn--pple-43d.com/": True, "https://a.xn--b.c": True, "https://\u0430pple.com": True}
    odd["https://Apple.com"] = False
    assert {url: ElicitRequest("?", mode="url", url=url).looks_odd for url in odd} == odd
    assert ElicitRequest("?", mode="url", url="https://user@Good.com:1/evil.com").host == "good.com"
    assert ElicitRequest("?", mode="url", url="https://[x").host is None


def test_whether_somebody_still_waits() -> None:
    asked = ElicitRequest.from_wire({"message": "?"})
    assert not asked.cancelled and not ElicitRequest("?").cancelled
    asked.asked = SimpleNamespace(cancelled=True)
    assert asked.cancelled and asked.server is None
    asked.asked = threading.Lock()  # nobody can copy that
    asked.server = Implementation("s", "1")
    assert copy.deepcopy(asked).server == Implementation("s", "1") and copy.copy(asked).asked is None


@pytest.mark.requirement("M:SAM-5")
def test_uses_of_tools_and_their_results_belong_together() -> None:
    use, other = ToolUse("1", "t", {}), ToolUse("2", "t", {})
    first, second, text = ToolResult("1"), ToolResult("2"), Text("x")

    def fault(*messages: Any) -> Any:
        return conversation_fault([SamplingMessage(role, list(blocks)) for role, *blocks in messages])

    assert fault() is None and fault(("user", text), ("assistant", text)) is None
    assert fault(("assistant", text, use, other), ("user", second, first), ("assistant", text)) is None
    for mixed in ((("assistant", use), ("user", first, text)), (("assistant", use), ("assistant", first))):
        assert "holds nothing else" in fault(*mixed)
    for missing in (
        (("assistant", use, other), ("user", first)),
        (("assistant", use), ("user", text)),
        (("user", first),),
        (("assistant", use), ("user", second)),
    ):
        assert "the result of each" in fault(*missing)
    assert "has no result" in fault(("user", text), ("assistant", use))
    assert fault(("user", use)) is None, "only the model uses tools"
