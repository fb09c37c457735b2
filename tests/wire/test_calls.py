"""Calls as raw bytes: progress, log lines, cancellation, and stray output. Tools that do wrong are
for tests.faults."""

from __future__ import annotations

from typing import Any

import pytest

from ..rows import for_each
from .conftest import Serve, every
from .harness import RawServer
from .messages import HANDSHAKES, LEVEL_KEY, METHOD, MODERN, PARAMS, hello

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def told(server: RawServer, kind: str) -> list[dict[str, Any]]:
    """Return the params of the notifications so far, which must all be of this kind."""
    found = server.fence()
    assert all(message["method"] == f"notifications/{kind}" for message in found), found
    return [message["params"] for message in found]


def levels(server: RawServer, **meta: Any) -> list[str]:
    """The levels of the log lines of a call that logs on all."""
    server.result(
        "tools/call", {"name": "log_all", "arguments": {}, **({"_meta": meta} if meta else {})}
    )
    return [one["level"] for one in told(server, "message")]


# ---------------------------------------------------------------- progress


@pytest.mark.requirement("PROG-01", "PROG-03", "PROG-06", "M:PROG-1", "M:PROG-2", "BASE-09")
@every
@for_each("token", ["t", "", 0, 1, -5, 2**53 + 1, "0"])
def test_the_progress_token_is_returned_unchanged(server: RawServer, token: Any) -> None:
    assert server.call("count", {"n": 3}, token=token)["content"][0]["text"] == "3"
    found = told(server, "progress")
    assert [(one["progress"], one["total"]) for one in found] == [(1, 3), (2, 3), (3, 3)]
    assert all(
        type(one["progressToken"]) is type(token) and one["progressToken"] == token for one in found
    )
    named = server.revision != "2024-11-05"
    assert [one.get("message") for one in found] == [
        f"step {n}" if named else None for n in (1, 2, 3)
    ]


@pytest.mark.requirement(
    "PROG-07", "PROG-08", "PROG-09", "M:PROG-5", "M:PROG-8", "PROG-01", "M:PROG-1"
)
@every
def test_an_invalid_token_gets_no_progress(server: RawServer) -> None:
    """Refused or ignored, never sent back; and progress from a client that was asked nothing is
    dropped."""
    server.call("count", {"n": 3})
    for token in (True, 1.5, None, [], {}):
        params = {"name": "count", "arguments": {"n": 2}, "_meta": {"progressToken": token}}
        assert server.ask("tools/call", params).get("error", {}).get("code", PARAMS) == PARAMS
    for given in ({"progressToken": 1, "progress": 1}, {"progress": 1}, {"progressToken": []}, {}):
        server.notify("notifications/progress", given)


# ---------------------------------------------------------------- log lines


@pytest.mark.requirement(
    "LOG-01", "LOG-02", "LOG-04", "LOG-05", "LOG-06", "LOG-03", "LOG-07", "M:LOG-7", "SEED-08"
)
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_session_has_a_level(serve: Serve, revision: str) -> None:
    server = serve()
    assert server.initialize(revision)["capabilities"]["logging"] == {}
    assert levels(server) == LEVELS[1:], "before a level is set the server decides"
    for number, level in enumerate(LEVELS):
        assert server.result("logging/setLevel", {"level": level}) == {}
        assert levels(server) == LEVELS[number:]
    assert server.result("logging/setLevel", {"level": "warn"}) == {}  # an alias some clients send
    for level in ({"level": wrong} for wrong in ("loud", "", "ERROR", 3, None, [], True)):
        assert server.ask("logging/setLevel", level)["error"]["code"] == PARAMS
    assert server.ask("logging/setLevel", {})["error"]["code"] == PARAMS
    assert levels(server) == LEVELS[3:]


@pytest.mark.requirement(
    "M:LOG-1", "M:LOG-2", "M:LOG-3", "M:LOG-6", "M:LOG-8", "M:BASE-11", "LOG-11", "M:LOG-4"
)
def test_a_modern_request_has_a_level_of_its_own(serve: Serve) -> None:
    """A session does not change that, and a request without a level receives no messages."""
    server = serve("2025-06-18")
    server.result("logging/setLevel", {"level": "emergency"})
    server.revision = MODERN
    assert server.result("server/discover")["capabilities"]["logging"] == {}
    for number, level in enumerate(LEVELS):
        assert levels(server, **{LEVEL_KEY: level}) == LEVELS[number:]
        assert levels(server) == []
    assert levels(server, **{LEVEL_KEY: None}) == []
    for wrong in ("verbose", "", 3, [], True):
        params = {"name": "log_all", "arguments": {}, "_meta": {LEVEL_KEY: wrong}}
        assert server.ask("tools/call", params)["error"]["code"] == PARAMS
    server.revision = "2025-06-18"
    assert levels(server) == LEVELS[7:]


@pytest.mark.requirement("LOG-01", "M:LOG-4")
def test_logging_switched_off(serve: Serve) -> None:
    server = serve("2024-11-05", logging=False)
    assert "logging" not in server.result("initialize", hello("2024-11-05"))["capabilities"]
    for revision in ("2024-11-05", MODERN):
        server.revision = revision
        assert server.ask("logging/setLevel", {"level": "debug"})["error"]["code"] == METHOD
        assert levels(server, **{LEVEL_KEY: "debug"}) == []
    assert "logging" not in server.result("server/discover")["capabilities"]


# ---------------------------------------------------------------- C18, C19: cancellation


@pytest.mark.requirement(
    "CANC-04", "CANC-13", "M:STD-7", "M:STD-8", "M:STD-17", "M:CAN-1", "M:CAN-3", "M:CAN-10"
)
@pytest.mark.requirement("PROG-11", "M:CAN-11", "M:PROG-4")
@every
def test_c19_a_cancelled_handler_is_notified_and_sends_no_response(server: RawServer) -> None:
    """Progress before the cancel is sent; after it, progress raises in the handler and no result is
    sent."""
    server.begin_call("watch", {"name": "seen"}, id="cancelled")
    server.text("wait_for", {"name": "seen", "what": "begin"})
    server.notify(
        "notifications/cancelled", {"requestId": "cancelled", "reason": "changed my mind"}
    )
    assert server.text("wait_for", {"name": "seen", "what": "end"}) == "cancelled True"
    assert server.fence() == []
    server.begin_call("report_when_released", {"name": "late"}, id="late", token="t")
    assert server.message()["params"]["progress"] == 1
    server.notify("notifications/cancelled", {"requestId": "late"})
    assert server.fence() == []  # the cancel has been read
    server.text("release", {"name": "late"})
    server.text("wait_for", {"name": "late", "what": "begin"})
    assert server.text("wait_for", {"name": "late", "what": "end"}) == "cancelled"


# ---------------------------------------------------------------- C23: only messages reach the wire

WAYS = ["print", "os.write", "sys.__stdout__", "buffer", "child", "system"]


@pytest.mark.requirement("STDIO-04", "STDIO-06", "M:STD-2", "M:STD-4")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c23_stray_output_goes_to_stderr_and_a_tool_reads_no_input(
    serve: Serve, revision: str
) -> None:
    server = serve(revision)
    for way in WAYS:
        assert server.text("prints", {"kind": way}) == "printed", way
    for id in [server.begin_call("prints", {"kind": "print"}) for _ in range(200)]:
        assert server.answer(id)["result"]["content"][0]["text"] == "printed"
    assert server.text("prints", {"kind": "input"}) == "''"
    server.close_input()
    assert server.rest() == [] and server.exit() == 0
    assert [way for way in WAYS if f"stray {way}" not in server.stderr()] == []
