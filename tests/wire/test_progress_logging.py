"""Progress and log notifications as raw bytes, in every revision."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import EVERY, HANDSHAKES, LEVEL_KEY, METHOD, MODERN, PARAMS, modern, request

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def progress(server: RawServer) -> list[dict[str, Any]]:
    """The params of the notifications that came so far, all of them progress."""
    found = server.fence()
    assert all(message["method"] == "notifications/progress" for message in found), found
    return [message["params"] for message in found]


def logged(server: RawServer) -> list[dict[str, Any]]:
    """The params of the notifications that came so far, all of them log lines."""
    found = server.fence()
    assert all(message["method"] == "notifications/message" for message in found), found
    return [message["params"] for message in found]


@pytest.mark.requirement("PROG-01", "PROG-03", "PROG-06", "M:PROG-1", "M:PROG-2", "BASE-09")
@pytest.mark.parametrize("token", ["t", "", 0, 1, -5, 2**53 + 1, "0"])
@pytest.mark.parametrize("revision", EVERY)
def test_the_token_comes_back_as_it_went(shared: Serve, revision: str, token: Any) -> None:
    server = shared(revision)
    assert server.call("count", {"n": 3}, token=token)["content"][0]["text"] == "3"
    found = progress(server)
    assert [(one["progress"], one["total"]) for one in found] == [(1, 3), (2, 3), (3, 3)]
    assert all(type(one["progressToken"]) is type(token) and one["progressToken"] == token for one in found)
    assert [one.get("message") for one in found] == (
        [None] * 3 if revision == "2024-11-05" else ["step 1", "step 2", "step 3"]
    )


@pytest.mark.requirement("PROG-07", "PROG-08", "M:PROG-5")
@pytest.mark.parametrize("revision", EVERY)
def test_without_a_token_there_is_no_progress(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.call("count", {"n": 3})
    assert server.fence() == []


@pytest.mark.requirement("PROG-01", "M:PROG-1")
@pytest.mark.parametrize("token", [True, 1.5, None, [], {}])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_what_is_no_token_gets_no_progress(shared: Serve, revision: str, token: Any) -> None:
    """Refused or ignored; never sent back as a token."""
    server = shared(revision)
    params: dict[str, Any] = {"name": "count", "arguments": {"n": 2}, "_meta": {"progressToken": token}}
    reply = server.ask("tools/call", params)
    assert "result" in reply or reply["error"]["code"] == PARAMS
    assert server.fence() == []


@pytest.mark.requirement("PROG-04", "M:PROG-3")
@pytest.mark.parametrize("revision", EVERY)
def test_progress_only_grows(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.call("report", {"values": [1, 5, 3, 5, 6, 6.5, -1, 7]}, token="t")
    assert [one["progress"] for one in progress(server)] == [1, 5, 6, 6.5, 7]


@pytest.mark.requirement("PROG-05", "PROG-03", "M:PROG-3")
@pytest.mark.parametrize("revision", EVERY)
def test_progress_may_be_a_fraction_and_needs_no_total(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.call("report", {"values": [0, 0.25, 1e300]}, token="t")
    found = progress(server)
    assert [one["progress"] for one in found] == [0, 0.25, 1e300]
    assert all("total" not in one and "message" not in one for one in found)


@pytest.mark.requirement("PROG-04", "PROG-08")
def test_every_report_is_sent_in_order_before_the_answer(shared: Serve) -> None:
    server = shared("2025-06-18")
    id = server.begin_call("count", {"n": 5000}, token="t")
    for n in range(1, 5001):
        assert server.message()["params"]["progress"] == n
    assert server.message()["id"] == id


@pytest.mark.requirement("PROG-11", "M:PROG-4", "M:PROG-2")
@pytest.mark.parametrize("revision", EVERY)
def test_nothing_comes_after_the_answer(shared: Serve, revision: str) -> None:
    server = shared(revision)
    name = "after " + revision
    server.call("report_late", {"name": name}, token="t")
    server.text("release", {"name": name})
    server.text("wait_for", {"name": name, "what": "begin"})
    assert progress(server) == []


@pytest.mark.requirement("PROG-02", "PROG-09", "M:PROG-2")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_calls_at_once_report_under_their_own_tokens(serve: Serve, revision: str) -> None:
    server = serve(revision)
    ids = [server.begin_call("count", {"n": 50}, token=n) for n in range(10)]
    for id in ids:
        server.answer(id)
    found = progress(server)
    for n in range(10):
        assert [one["progress"] for one in found if one["progressToken"] == n] == list(range(1, 51))


@pytest.mark.requirement("PROG-09", "M:PROG-8")
@pytest.mark.parametrize("revision", EVERY)
def test_progress_from_a_client_that_was_asked_nothing_is_dropped(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for params in ({"progressToken": 1, "progress": 1}, {"progress": 1}, {"progressToken": []}, {}):
        server.notify("notifications/progress", params)
    server.lives()


@pytest.mark.requirement("LOG-01", "LOG-02", "LOG-04", "LOG-06", "M:LOG-7")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_session_has_a_level(shared: Serve, revision: str, level: str) -> None:
    server = shared(revision)
    assert server.result("logging/setLevel", {"level": level}) == {}
    server.call("log_all")
    assert [one["level"] for one in logged(server)] == LEVELS[LEVELS.index(level) :]


@pytest.mark.requirement("LOG-01", "M:LOG-4")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_logging_is_declared(serve: Serve, revision: str) -> None:
    server = serve()
    server.write(request("d", "server/discover", modern()))
    assert server.answer("d")["result"]["capabilities"]["logging"] == {}
    assert server.initialize(revision)["capabilities"]["logging"] == {}


@pytest.mark.requirement("LOG-01", "M:LOG-4")
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_logging_switched_off(serve: Serve, revision: str) -> None:
    server = serve(logging=False)
    if revision == MODERN:
        server.revision = MODERN
        assert "logging" not in server.result("server/discover")["capabilities"]
    else:
        assert "logging" not in server.initialize(revision)["capabilities"]
    assert server.ask("logging/setLevel", {"level": "debug"})["error"]["code"] == METHOD
    server.call("log_all")
    assert server.fence() == []


@pytest.mark.requirement("LOG-07", "LOG-03")
@pytest.mark.parametrize("level", ["loud", "", "ERROR", 3, None, [], True])
def test_a_level_that_is_none(shared: Serve, level: Any) -> None:
    server = shared("2025-06-18")
    assert server.ask("logging/setLevel", {"level": level})["error"]["code"] == PARAMS
    assert server.ask("logging/setLevel", {})["error"]["code"] == PARAMS
    assert server.result("logging/setLevel", {"level": "warn"}) == {}  # an alias some clients send
    server.call("log_all")
    assert [one["level"] for one in logged(server)] == LEVELS[3:]


@pytest.mark.requirement("LOG-06")
@pytest.mark.parametrize("data", ["text", "", None, 5, 0.5, True, [1, None], {"a": {"b": []}}, "\u2028\n"])
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_log_data_is_any_json(shared: Serve, revision: str, data: Any) -> None:
    server = shared(revision)
    if revision != MODERN:
        server.result("logging/setLevel", {"level": "debug"})
    for logger in ("", "my.logger"):
        arguments = {"level": "error", "data": data, "logger": logger}
        params: dict[str, Any] = {"name": "log", "arguments": arguments}
        if revision == MODERN:
            params["_meta"] = {LEVEL_KEY: "debug"}
        server.result("tools/call", params)
        (found,) = logged(server)
        assert found["level"] == "error"
        assert found["data"] == data
        assert found.get("logger", "") == logger


@pytest.mark.requirement("M:LOG-1")
def test_a_modern_request_without_a_level_hears_nothing(shared: Serve) -> None:
    server = shared(MODERN)
    server.call("log_all")
    assert server.fence() == []


@pytest.mark.requirement("M:LOG-2", "M:LOG-8", "M:LOG-6")
@pytest.mark.parametrize("level", LEVELS)
def test_a_modern_request_has_a_level_of_its_own(shared: Serve, level: str) -> None:
    server = shared(MODERN)
    server.result("tools/call", {"name": "log_all", "arguments": {}, "_meta": {LEVEL_KEY: level}})
    assert [one["level"] for one in logged(server)] == LEVELS[LEVELS.index(level) :]
    server.call("log_all")
    assert server.fence() == []


@pytest.mark.requirement("M:LOG-3")
@pytest.mark.parametrize("level", ["verbose", "", 3, None, [], True])
def test_a_modern_level_that_is_none(shared: Serve, level: Any) -> None:
    server = shared(MODERN)
    params = {"name": "log_all", "arguments": {}, "_meta": {LEVEL_KEY: level}}
    assert server.ask("tools/call", params)["error"]["code"] == PARAMS
    server.lives()


@pytest.mark.requirement("M:LOG-2", "M:BASE-11", "LOG-11")
def test_levels_of_the_two_eras_do_not_meet(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.result("logging/setLevel", {"level": "emergency"})
    loud = modern({"name": "log_all", "arguments": {}, "_meta": {LEVEL_KEY: "critical"}})
    server.write(request("m", "tools/call", loud))
    server.answer("m")
    assert [one["level"] for one in logged(server)] == LEVELS[5:]
    server.call("log_all")
    assert [one["level"] for one in logged(server)] == LEVELS[7:]


@pytest.mark.requirement("LOG-05")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_before_a_level_is_set_the_server_decides(serve: Serve, revision: str) -> None:
    server = serve(revision)
    server.call("log_all")
    levels = [one["level"] for one in logged(server)]
    assert levels == LEVELS[len(LEVELS) - len(levels) :]
    assert "error" in levels
