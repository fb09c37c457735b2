"""Each question by the config of a revision and of a client, and how its answer is read."""

from __future__ import annotations

from typing import Any, List

import pytest

from minimcp import CapabilityNotSupported
from minimcp.features.questions import ClientQuestion, Elicit, ElicitUrl, ListRoots, Sample
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.versions import BY_NAME
from minimcp.types import Answer, Audio, Image, ResourceLink, Root, Text, Tool, ToolUse
from minimcp.types.questions import (
    ModelPreferences,
    SampleResult,
    SamplingMessage,
    ToolChoice,
    ToolResult,
)

from ..answering import R1, R2, R4, R5, REVISIONS

EVERYTHING = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}


def peer(revision: str, capabilities: Any = EVERYTHING) -> Peer:
    return Peer(BY_NAME[revision], capabilities=capabilities)


def by_revision(question: ClientQuestion) -> List[Any]:
    """Return the question to a client of each revision; None if the revision does not have it."""
    found: List[Any] = []
    for revision in REVISIONS:
        try:
            found.append(question.params(peer(revision)))
        except CapabilityNotSupported:
            found.append(None)
    return found


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.requirement(
    "ELIC-05", "M:ELI-3", "ELIC-03", "M:ELI-2", "ROOT-07", "SAMP-29", "M:ROOT-2"
)
def test_each_revision_has_its_shape() -> None:
    form = {"message": "How many?", "requestedSchema": FORM}
    assert by_revision(Elicit("How many?", {"n": int})) == [
        None,
        None,
        form,
        *[{"mode": "form", **form}] * 2,
    ]
    url = {"mode": "url", "message": "Pay", "url": "https://pay.example/1"}
    asked = ElicitUrl("Pay", "https://pay.example/1", elicitation_id="e1")
    assert by_revision(asked) == [None, None, None, {**url, "elicitationId": "e1"}, url]
    assert by_revision(ListRoots()) == [{}] * 5
    said = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 1000,
    }
    assert by_revision(Sample("hi")) == [said] * 5
    for given in (said["messages"], said["messages"][0]):  # type: ignore[index]
        assert by_revision(Sample(given)) == [said] * 5, "a message may be a dict"  # type: ignore[arg-type]


@pytest.mark.requirement("ELIC-23", "M:ELI-9", "ELIC-24")
def test_a_url_of_2025_11_25_has_an_id_of_its_own_each_time() -> None:
    question = ElicitUrl("m", "https://x.y")
    assert len({question.params(peer(R4))["elicitationId"] for _ in range(100)}) == 100


@pytest.mark.requirement("ELIC-23", "M:ELI-9", "M:ELI-13")
@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "https://x\n.y"])
def test_urls_that_must_not_be_opened(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        ElicitUrl("m", url)


@pytest.mark.requirement("ELIC-39", "M:ELI-13")
def test_http_is_for_development(caplog: pytest.LogCaptureFixture) -> None:
    ElicitUrl("m", "http://127.0.0.1:8000/a")
    assert caplog.text == ""
    ElicitUrl("m", "http://x.example/a")
    assert "use https" in caplog.text


PREFERENCES = {"hints": [{"name": "sonnet"}]}


@pytest.mark.requirement("SAMP-02", "SAMP-03", "SAMP-20", "SAMP-09")
def test_every_option_of_a_question_to_a_model() -> None:
    tool = Tool("t", {"type": "object"}, title="T", description="D")
    question = Sample(
        ["hi", SamplingMessage("assistant", "ho")],
        5,
        system="be kind",
        temperature=0.5,
        tools=[tool],
        tool_choice="required",
        stop_sequences=["."],
        model_preferences="sonnet",
        include_context="none",
        metadata={"a": 1},
    )
    assert question.params(peer(R5)) == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "assistant", "content": {"type": "text", "text": "ho"}},
        ],
        "maxTokens": 5,
        "modelPreferences": PREFERENCES,
        "systemPrompt": "be kind",
        "temperature": 0.5,
        "stopSequences": ["."],
        "metadata": {"a": 1},
        "tools": [
            {"name": "t", "title": "T", "description": "D", "inputSchema": {"type": "object"}}
        ],
        "toolChoice": {"mode": "required"},
        "includeContext": "none",
    }
    assert Sample("m", 1).params(peer(R1))["maxTokens"] == 1
    with pytest.raises(ValueError, match="max_tokens must be at least 1"):
        Sample("m", 0)
    chosen = Sample("m", tools=[tool], tool_choice=ToolChoice("none"))
    assert chosen.params(peer(R4))["toolChoice"] == {"mode": "none"}
    assert "toolChoice" not in Sample("m", tools=[tool]).params(peer(R4))
    for given in (["sonnet"], ModelPreferences(["sonnet"])):
        assert (
            Sample("m", model_preferences=given).params(peer(R1))["modelPreferences"] == PREFERENCES
        )


@pytest.mark.requirement("SAMP-04", "M:SAM-4", "SEED-14", "M:DEP-4")
def test_context_is_left_out_where_the_client_does_not_know_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    question = Sample("m", include_context="allServers")
    assert all(params["includeContext"] == "allServers" for params in by_revision(question))
    assert not caplog.records
    plain = [question.params(peer(revision, {"sampling": {}})) for revision in REVISIONS]
    assert [record.getMessage() for record in caplog.records] == [
        "includeContext 'allServers' is omitted: the client does not declare sampling.context"
    ] * 2
    assert ["includeContext" in params for params in plain] == [True, True, True, False, False]
    assert "includeContext" not in Sample("m").params(peer(R4))


@pytest.mark.requirement("SAMP-07", "SAMP-08", "M:SAM-8", "SAMP-21", "SAMP-22")
def test_blocks_by_revision() -> None:
    pair = SamplingMessage("user", [Text("a"), Image(b"b", "image/png")])
    older = [{"role": "user", "content": block.to_wire()} for block in pair.content]
    found = [params["messages"] for params in by_revision(Sample([pair]))]
    assert found == [older] * 3 + [[pair.to_wire()]] * 2
    link = SamplingMessage("user", ResourceLink("a:b", "n"))
    assert by_revision(Sample(link)) == [None] * 5
    audio = SamplingMessage("user", Audio(b"a", "audio/wav"))
    assert [params is None for params in by_revision(Sample(audio))] == [
        True,
        False,
        False,
        False,
        False,
    ]
    talk = [
        "go",
        SamplingMessage("assistant", ToolUse("1", "t", {})),
        SamplingMessage("user", ToolResult("1", [Text("r")])),
    ]
    assert [params is None for params in by_revision(Sample(talk))] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert R2 in BY_NAME


@pytest.mark.requirement("SAMP-24", "M:SAM-6")
def test_invalid_conversations() -> None:
    for messages in ([], [SamplingMessage("assistant", ToolUse("1", "t", {}))]):
        with pytest.raises(ValueError):
            Sample(messages)


@pytest.mark.requirement(
    "ELIC-17", "ELIC-18", "ELIC-19", "ELIC-25", "M:ELI-7", "M:ELI-10", "SAMP-05", "ROOT-02"
)
@pytest.mark.parametrize(
    ("question", "result", "found"),
    [
        (
            Elicit("m", {"n": int}),
            {"action": "accept", "content": {"n": 1}},
            Answer("accept", {"n": 1}),
        ),
        (Elicit("m", {}), {"action": "accept"}, Answer("accept", {})),
        (Elicit("m", {"n": int}), {"action": "decline"}, Answer("decline")),
        (Elicit("m", {"n": int}), {"action": "cancel", "content": {"n": "x"}}, Answer("cancel")),
        (
            ElicitUrl("m", "https://x.y"),
            {"action": "accept", "content": {"n": 1}},
            Answer("accept"),
        ),
        (ElicitUrl("m", "https://x.y"), {"action": "decline"}, Answer("decline")),
        (
            Sample("m"),
            {"role": "assistant", "model": "x", "content": {"type": "text", "text": "t"}},
            SampleResult("t", "x"),
        ),
        (ListRoots(), {"roots": [{"uri": "file:///a", "name": "A"}]}, [Root("file:///a", "A")]),
        (
            ListRoots(),
            {"roots": [{"uri": uri} for uri in ("FILE:///a", "file://host/b", "file:c", "x", "")]},
            [Root("FILE:///a"), Root("file://host/b")],
        ),
        (Elicit("m", {"n": int}), {"action": "accept", "content": {}}, None),
        (Elicit("m", {"n": int}), {"action": "accept", "content": {"n": "x"}}, None),
        (Elicit("m", {"n": int}), {"action": "accept", "content": []}, None),
        (Elicit("m", {}), {"action": "yes"}, None),
        (ElicitUrl("m", "https://x.y"), {"action": []}, None),
        (ElicitUrl("m", "https://x.y"), {}, None),
        (Sample("m"), {"role": "assistant", "model": "x"}, None),
        (ListRoots(), {}, None),
        (ListRoots(), {"roots": [{"name": "A"}, {"uri": "file:///a"}]}, [Root("file:///a")]),
        (ListRoots(), {"roots": "file:///a"}, None),
    ],
)
def test_answers(question: ClientQuestion, result: Any, found: Any) -> None:
    if found is None:
        with pytest.raises(ValueError):
            question.read(result)
    else:
        assert question.read(result) == found
