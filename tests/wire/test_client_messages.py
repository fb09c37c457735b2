"""A client and invalid lines, responses with a wrong shape, errors, and tools that fail."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import minimcp

from ..rows import for_each
from .clients import ERAS, NEVER, Both, Script, lives
from .conftest import Talking
from .messages import MODERN


def end_of(client: minimcp.Client, tool: str, **arguments: Any) -> str:
    """The text of a result, or the kind of the error."""
    try:
        return client.call_tool(tool, arguments, timeout=NEVER).text
    except Exception as error:
        return type(error).__name__


# ---------------------------------------------------------------- K02: text on stdout


@pytest.mark.requirement("BASE-10", "STDIO-05", "M:STD-3", "BASE-19")
@pytest.mark.parametrize("start", ["banner", "bom"])
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_k02_text_before_the_first_message_is_ignored(
    scripted: Script, start: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = scripted(start=start)
    with caplog.at_level("DEBUG", logger="minimcp"), server.connect(mode) as client:
        lives(client)
    assert server.messages("answer") == []  # a client that answers garbage can start a storm
    assert "Welcome" in caplog.text or "hello" in caplog.text


# ---------------------------------------------------------------- K03, K07: lines that are not our answer

LINES = (
    "invalid-utf8", "deep", "deep-object", "nan", "infinity", "huge-int", "huge-id", "batch",
    "batch-empty", "not-json", "blank", "parse-error", "nameless-error",
)  # fmt: skip


@pytest.mark.requirement(
    "BASE-05", "BASE-19", "BASE-20", "BATCH-15", "M:BASE-3", "M:BASE-5", "M:BASE-21", "M:BASE-22"
)
@pytest.mark.requirement("STDIO-03", "M:STD-15", "CANC-07", "CANC-13", "M:CAN-12")
def test_k07_a_line_that_is_not_our_response_is_dropped_and_the_call_continues(
    talking_both: Both,
) -> None:
    server, client = talking_both
    wanted = {**dict.fromkeys(LINES, "fine"), "unknown-ids": "yours", "id-types": "yours"}
    assert {mode: end_of(client, mode, text="fine") for mode in wanted} == wanted
    assert [end_of(client, "dup-reply") for _ in range(5)] == ["first"] * 5, (
        "the others are dropped"
    )
    assert end_of(client, "surrogate").startswith(("half a pair: ", "ProtocolViolation"))
    assert server.messages("answer") == []  # it sends the server nothing


@pytest.mark.requirement("STDIO-03", "BASE-13", "M:STD-1", "M:BASE-1")
def test_k07_only_line_feeds_end_a_line(talking_both: Both) -> None:
    _, client = talking_both
    assert client.call_tool("lines").text == "a\nb\r\nc\u2028d\u0085e\rf"
    assert client.call_tool("crlf").text == "crlf"
    odd = "\u0085\u2028\r\n\x00\U0001f600 \u6f22"
    assert client.call_tool("echo", {"text": odd}).text == odd
    try:
        client.call_tool("echo", {"text": "\ud800 half"})
    except ValueError:
        pass


@pytest.mark.requirement("BATCH-01", "BATCH-09", "BATCH-15", "BATCH-16")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", *ERAS])
def test_k07_a_response_may_be_in_a_batch_if_the_revision_has_batches(
    talking: Talking, revision: str
) -> None:
    _, client = talking(revision)
    if revision in ("2024-11-05", "2025-03-26"):
        assert client.call_tool("batch-reply", timeout=NEVER).text == "in a batch"
    else:
        with pytest.raises((minimcp.ProtocolViolation, minimcp.RequestTimeout)):
            client.call_tool("batch-reply", timeout=0.1)
    lives(client)


# ---------------------------------------------------------------- K04: answers of the wrong shape

WRONG = (
    "invalid-utf8-reply",
    "error-not-object", "error-null", "error-without-code", "error-code-text", "error-without-message",
    "result-text", "both", "neither", "no-jsonrpc", "jsonrpc-1", "duplicate-member", "deep-reply",
)  # fmt: skip
MALFORMED = (
    "result-null", "result-list",
    "content-garbage", "content-null", "content-number", "content-untyped", "content-textless", "content-base64",
    "is-error-text",
)  # fmt: skip


@pytest.mark.requirement("BASE-06", "BASE-07", "BASE-11", "M:BASE-7")
def test_k04_an_answer_of_the_wrong_shape_is_a_violation_at_once(talking_both: Both) -> None:
    ends = {mode: end_of(talking_both[1], mode) for mode in WRONG}
    assert ends == dict.fromkeys(WRONG, "ProtocolViolation")


def test_k04_an_id_is_the_same_number_however_it_is_written(talking_both: Both) -> None:
    assert end_of(talking_both[1], "float-id") == "not yours"


@pytest.mark.requirement("BASE-07", "TOOL-17")
def test_k04_a_malformed_part_of_a_result_does_not_lose_the_result(talking_both: Both) -> None:
    ends = {mode: end_of(talking_both[1], mode) for mode in MALFORMED}
    assert ends == dict.fromkeys(MALFORMED, "")


@pytest.mark.requirement("M:BASE-16", "M:BASE-17", "M:BASE-18", "BASE-20", "M:BASE-19")
def test_k04_a_kind_of_result_that_was_not_asked_for_is_a_violation(talking: Talking) -> None:
    kinds = ("banana", "task", "number-type")
    assert {end_of(talking(MODERN)[1], mode) for mode in kinds} == {"ProtocolViolation"}
    assert talking(MODERN)[1].call_tool("untyped").text == "complete"
    assert [end_of(talking("handshake")[1], mode) for mode in kinds] == [""] * 3, (
        "where it means nothing"
    )


@pytest.mark.requirement("BASE-10", "M:BASE-8", "CANC-09", "CANC-05", "M:CAN-4")
@pytest.mark.requirement(
    "PING-01", "PING-02", "BASE-17", "BASE-18", "BASE-04", "LIFE-16", "M:BASE-10", "M:STD-5"
)
def test_unsolicited_requests_and_notifications_of_a_server(talking_both: Both) -> None:
    """In the new era, a request is dropped silently; unknown notifications always are."""
    server, client = talking_both
    for tool in ("unknown-notes", "asks"):
        assert client.call_tool(tool, {"text": "fine"}, timeout=NEVER).text == "fine"
    lives(client)
    if client.revision == MODERN:
        assert server.messages("answer") == []
        return
    own = server.messages("tools/call")[1]["id"]
    by_id = {repr(answer["id"]): answer for answer in server.heard("answer", 5)}
    assert by_id[repr(own)]["result"] == {} and by_id["'s'"]["result"] == {}
    assert by_id[repr(2**53)]["error"]["code"] == by_id["'q'"]["error"]["code"] == -32601
    assert by_id["'b'"]["error"]["code"] in (-32600, -32602)


# ---------------------------------------------------------------- errors


@pytest.mark.requirement(
    "BASE-07", "BASE-14", "M:BASE-7", "M:ERR-1", "M:ERR-5", "LIFE-23", "TOOL-24", "M:TOOL-26"
)
@for_each("code, kind", [
    (-32600, minimcp.InvalidRequest), (-32601, minimcp.MethodNotFound), (-32602, minimcp.InvalidParams),
    (-32603, minimcp.InternalError), (-32002, minimcp.ResourceNotFound), (-32021, minimcp.CapabilityNotSupported),
    (-32022, minimcp.UnsupportedRevision), (-32042, minimcp.UrlElicitationRequired),
    *((code, minimcp.RpcError) for code in (-32000, -32099, 7, 0, -1)),
])  # fmt: skip
@for_each("data", [{"why": [1]}, None, 0, "text", [1], False])
def test_an_error_of_the_server_is_raised_as_its_kind(
    talking: Talking, code: int, kind: Any, data: Any
) -> None:
    with pytest.raises(minimcp.RpcError) as caught:
        talking("handshake")[1].call_tool("code", {"code": code, "data": data}, timeout=NEVER)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert type(error) is kind and error.from_peer and "as you wished" in str(error)
        assert (error.code, error.message, error.data) == (code, "as you wished", data)
        assert type(error.data) is type(data)


@pytest.mark.requirement("M:VER-C1", "M:VER-C2", "M:VER-C3")
@pytest.mark.parametrize("again", [False, True])
def test_a_call_refused_by_version_is_tried_once_more(scripted: Script, again: bool) -> None:
    refused: Any = {"error": -32022, "data": {"supported": [MODERN], "requested": MODERN}}
    server = scripted(tool_errors=refused if again else [refused, None])
    with server.connect() as client:
        assert end_of(client, "echo", text="twice") == ("UnsupportedRevision" if again else "twice")
    assert server.methods() == ["server/discover", "tools/call", "tools/call"]


@pytest.mark.requirement("TOOL-23", "M:TOOL-12", "SEED-19")
def test_a_tool_that_fails_raises_with_its_result(talking_both: Both) -> None:
    _, client = talking_both
    with pytest.raises(minimcp.ToolError, match="it") as caught:
        client.call_tool("fails")
    assert (
        not isinstance(caught.value, minimcp.RpcError)
        and end_of(client, "fails-empty") == "ToolError"
    )
    for found in (caught.value.result, client.call_tool("fails", raise_on_error=False)):
        assert found.is_error and "it " in found.text and "broke" in found.text
        assert [block.type for block in found.content] == ["text", "text"]


@pytest.mark.requirement("TOOL-28", "TOOL-38", "M:TOOL-9")
@pytest.mark.parametrize("revision", ["2025-06-18", *ERAS])
def test_structured_content_is_checked_against_the_listed_schema(
    scripted: Script, revision: str
) -> None:
    with scripted(list="schemas").connect(revision) as client:
        unlisted = client.call_tool("structured", {"structuredContent": {"n": "any"}})
        assert unlisted.structured_content == {"n": "any"}
        client.list_tools()
        good = client.call_tool("structured", {"structuredContent": {"n": 1, "more": True}})
        assert good.structured_content == good.value == {"n": 1, "more": True}
        for wrong in ({"n": "1"}, {}, {"n": 1.5}):
            with pytest.raises(minimcp.ProtocolViolation, match="structured"):
                client.call_tool("structured", {"structuredContent": wrong}, timeout=NEVER)
        assert end_of(client, "structured") == "ProtocolViolation"
        assert end_of(client, "fails") == "ToolError"  # a failure needs no structured content


# ---------------------------------------------------------------- messages that are not sent
