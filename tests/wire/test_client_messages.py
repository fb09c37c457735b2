"""What a client makes of lines that are no answers: rows K02, K03, K04 and K07 of the fault catalogue."""

from __future__ import annotations

from typing import Dict

import pytest

import minimcp

from ..support import WAIT
from .clients import ERAS, Script, lives, make_scripted  # noqa: F401
from .conftest import Talking

NEVER = 60.0
"""Seconds: a timeout that a test must not reach. What is found out at once is found out long before it."""


# ---------------------------------------------------------------- K02: text on stdout


@pytest.mark.requirement("BASE-10", "STDIO-05", "M:STD-3", "BASE-19")
@pytest.mark.parametrize("start", ["banner", "bom"])
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_k02_text_before_the_first_message_is_passed_over(
    scripted: Script, start: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = scripted(start=start)
    with caplog.at_level("DEBUG", logger="minimcp"), server.connect(mode) as client:
        lives(client)
    assert server.messages("answer") == []  # a client that answers garbage can start a storm
    assert any(
        "Welcome" in record.getMessage() or "hello" in record.getMessage() for record in caplog.records
    )


def test_k02_a_command_that_is_no_server_is_told_with_the_line_that_was_no_message(scripted: Script) -> None:
    server = scripted(start="only-banner")
    with pytest.raises(minimcp.ConnectionFailed, match="usage: peer") as caught:
        server.connect("handshake")
    assert caught.value.exit_code == 2


# ---------------------------------------------------------------- K03: ids that are not ours


@pytest.mark.requirement("BASE-05", "BASE-19", "M:BASE-3", "M:BASE-5", "CANC-13")
@pytest.mark.parametrize("mode", ["unknown-ids", "id-types"])
@pytest.mark.parametrize("revision", ERAS)
def test_k03_an_answer_under_another_id_is_never_ours(talking: Talking, mode: str, revision: str) -> None:
    _, client = talking(revision)
    assert client.call_tool(mode, timeout=NEVER).text == "yours"
    lives(client)


@pytest.mark.requirement("BASE-05", "BASE-19")
@pytest.mark.parametrize("revision", ERAS)
def test_k03_a_number_with_a_fraction_is_another_id(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    assert client.call_tool("float-id", {"text": "yours"}, timeout=NEVER).text == "yours"


@pytest.mark.requirement("BASE-19", "CANC-07", "M:CAN-12")
@pytest.mark.parametrize("revision", ERAS)
def test_k03_the_first_answer_counts_and_the_others_are_dropped(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    for _ in range(5):
        assert client.call_tool("dup-reply", timeout=NEVER).text == "first"
    lives(client)


# ---------------------------------------------------------------- K04: answers of the wrong shape

WRONG_ENVELOPES = (
    "error-not-object",
    "error-null",
    "error-without-code",
    "error-code-text",
    "error-without-message",
    "result-null",
    "result-list",
    "result-text",
    "both",
    "neither",
    "no-jsonrpc",
    "jsonrpc-1",
    "duplicate-member",
    "deep-reply",
)

WRONG_CONTENTS = (
    "content-garbage",
    "content-null",
    "content-number",
    "content-untyped",
    "content-textless",
    "content-base64",
    "is-error-text",
)


@pytest.mark.requirement("BASE-06", "BASE-07", "BASE-11", "M:BASE-7")
@pytest.mark.parametrize("revision", ERAS)
def test_k04_an_answer_of_the_wrong_shape_is_a_violation_at_once(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    ends: Dict[str, str] = {}
    for mode in WRONG_ENVELOPES + WRONG_CONTENTS:
        try:
            ends[mode] = repr(client.call_tool(mode, timeout=NEVER))
        except Exception as error:
            ends[mode] = type(error).__name__
    lives(client)
    assert {mode: end for mode, end in ends.items() if end != "ProtocolViolation"} == {}


@pytest.mark.requirement("M:BASE-17", "M:BASE-18")
@pytest.mark.parametrize("mode", ["banana", "task", "number-type"])
def test_k04_a_kind_of_result_that_was_not_asked_for_is_a_violation(talking: Talking, mode: str) -> None:
    _, client = talking("auto")
    with pytest.raises(minimcp.ProtocolViolation, match="result"):
        client.call_tool(mode, timeout=NEVER)
    lives(client)


@pytest.mark.requirement("M:BASE-17", "M:BASE-18")
@pytest.mark.parametrize("mode", ["banana", "task", "input-required"])
def test_k04_so_it_is_for_a_list(scripted: Script, mode: str) -> None:
    server = scripted(list=mode)
    with server.connect() as client, pytest.raises(minimcp.ProtocolViolation):
        client.list_tools(timeout=NEVER)


@pytest.mark.requirement("M:BASE-16")
def test_k04_a_result_without_a_type_is_complete(scripted: Script) -> None:
    server = scripted(list="untyped")
    with server.connect() as client:
        assert client.list_tools() == []
        assert client.call_tool("untyped").text == "complete"


@pytest.mark.requirement("BASE-20", "M:BASE-19")
def test_k04_in_the_older_era_a_type_of_result_means_nothing(talking: Talking) -> None:
    _, client = talking("handshake")
    assert client.call_tool("banana").content == []


@pytest.mark.parametrize("mode", ["no-list", "no-name", "odd-cursor"])
@pytest.mark.parametrize("revision", ERAS)
def test_k04_a_list_of_the_wrong_shape_is_a_violation(scripted: Script, mode: str, revision: str) -> None:
    server = scripted(list=mode)
    with server.connect(revision) as client:
        with pytest.raises(minimcp.ProtocolViolation):
            client.list_tools(timeout=NEVER)
        lives(client)


# ---------------------------------------------------------------- K07: lines that are no messages

LINES = (
    "invalid-utf8",
    "invalid-utf8-reply",
    "deep",
    "deep-object",
    "nan",
    "infinity",
    "huge-int",
    "huge-id",
    "batch",
    "batch-empty",
    "not-json",
    "blank",
    "parse-error",
    "nameless-error",
)


@pytest.mark.requirement("BASE-20", "BASE-19", "BATCH-15", "M:BASE-21", "M:BASE-22", "STDIO-03", "M:STD-15")
@pytest.mark.parametrize("revision", ERAS)
def test_k07_a_line_that_is_no_message_is_dropped_and_the_call_lives(scripted: Script, revision: str) -> None:
    server = scripted()
    ends: Dict[str, str] = {}
    with server.connect(revision) as client:
        for mode in LINES:
            try:
                ends[mode] = client.call_tool(mode, {"text": "fine"}, timeout=WAIT).text
            except Exception as error:
                ends[mode] = f"{type(error).__name__}: {error}"
    assert {mode: end for mode, end in ends.items() if end != "fine"} == {}
    assert server.messages("answer") == []  # it tells the server nothing


@pytest.mark.parametrize("revision", ERAS)
def test_k07_half_a_character_arrives_or_is_a_typed_error(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    try:
        assert client.call_tool("surrogate", timeout=NEVER).text.startswith("half a pair: ")
    except minimcp.ProtocolViolation:
        pass
    lives(client)


@pytest.mark.requirement("STDIO-03", "BASE-13", "M:STD-1", "M:BASE-1")
@pytest.mark.parametrize("revision", ERAS)
def test_k07_only_line_feeds_end_a_line(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    assert client.call_tool("lines").text == "a\nb\r\nc\u2028d\u0085e\rf"
    assert client.call_tool("crlf").text == "crlf"
    odd = "\u0085\u2028\r\n\x00\U0001f600 \u6f22"
    assert client.call_tool("echo", {"text": odd}).text == odd


@pytest.mark.requirement("BATCH-01", "BATCH-09", "BATCH-16")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_k07_where_batches_exist_an_answer_may_come_in_one(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    assert client.call_tool("batch-reply", timeout=NEVER).text == "in a batch"
    lives(client)


@pytest.mark.requirement("BATCH-15")
@pytest.mark.parametrize("revision", ["2025-06-18", *ERAS])
def test_k07_where_they_do_not_it_ends_the_call_as_a_typed_error(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    with pytest.raises((minimcp.ProtocolViolation, minimcp.RequestTimeout)):
        client.call_tool("batch-reply", timeout=0.1)
    lives(client)


# ---------------------------------------------------------------- what a server may not ask


@pytest.mark.requirement("M:BASE-10", "M:STD-5")
def test_in_the_new_era_a_servers_request_is_dropped_without_a_word(scripted: Script) -> None:
    server = scripted()
    with server.connect() as client:
        assert client.call_tool("asks", {"text": "fine"}, timeout=NEVER).text == "fine"
        lives(client)
    assert server.messages("answer") == []


@pytest.mark.requirement("PING-01", "PING-02", "BASE-17", "BASE-18", "BASE-04", "LIFE-16")
def test_in_the_older_era_a_servers_request_is_answered(talking: Talking) -> None:
    server, client = talking("handshake")
    assert client.call_tool("asks", {"text": "fine"}, timeout=NEVER).text == "fine"
    answers = server.heard("answer", 5)
    own = server.messages("tools/call")[0]["id"]
    by_id = {repr(answer["id"]): answer for answer in answers}
    assert by_id[repr(own)]["result"] == {} and by_id["'s'"]["result"] == {}
    assert by_id[repr(2**53)]["error"]["code"] == -32601
    assert by_id["'q'"]["error"]["code"] == -32601
    assert by_id["'b'"]["error"]["code"] in (-32600, -32602)
