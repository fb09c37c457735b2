"""What a widely read paraphrase of the specification asks for beside it, as raw bytes against a server process."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .messages import EVERY, HANDSHAKES, METHOD, MODERN, PARAMS, REQUEST, encode, hello, notification, request


@pytest.mark.requirement("SEED-31", "SEED-01", "SEED-30")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_the_whole_flow_in_eleven_steps(serve: Serve, revision: str) -> None:
    server = serve()
    server.write(request(1, "initialize", hello(revision)))  # 1
    opened = server.message()  # 2
    assert (opened["id"], opened["result"]["protocolVersion"]) == (1, revision)
    server.write(notification("notifications/initialized"))  # 3
    server.write(request(2, "tools/list"))  # 4
    listed = server.message()  # 5
    assert listed["id"] == 2 and "echo" in [tool["name"] for tool in listed["result"]["tools"]]
    server.write(request(3, "tools/call", {"name": "echo", "arguments": {"text": "hello"}}))  # 6
    called = server.message()  # 7
    assert (called["id"], called["result"]["content"]) == (3, [{"type": "text", "text": "hello"}])
    server.write(request(4, "shutdown"))  # 8
    assert server.message() == {"jsonrpc": "2.0", "id": 4, "result": {}}  # 9
    assert server.rest() == []  # 10: the server ends its output by itself
    assert server.exit() == 0  # 11


@pytest.mark.requirement("SEED-01")
def test_what_runs_finishes_and_nothing_new_begins(serve: Serve) -> None:
    server = serve("2025-06-18")
    held = server.begin_call("hold", {"name": "a"})
    owed = [server.begin_call("echo", {"text": "x" * 100_000}) for _ in range(20)]
    late = request("late", "tools/call", {"name": "echo"})
    server.write(request("bye", "shutdown"), late, request("again", "shutdown"))
    assert server.answer("bye")["result"] == {}
    for refused in ("late", "again"):
        assert server.answer(refused)["error"]["code"] == REQUEST
    assert {len(server.answer(id)["result"]["content"][0]["text"]) for id in owed} == {100_000}
    assert not server.ended
    server.write(notification("notifications/cancelled", {"requestId": held}))  # notices are still heard
    assert server.rest() == []
    assert server.exit() == 0


@pytest.mark.requirement("SEED-01")
def test_a_handler_that_does_not_finish_gets_the_grace_and_no_more(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.3})
    server.begin_call("never")
    assert server.result("shutdown") == {}
    assert server.rest() == []
    assert server.exit() == 0


@pytest.mark.requirement("SEED-01")
def test_shutdown_in_an_array(serve: Serve) -> None:
    server = serve("2025-03-26")
    server.write([request(1, "ping"), request(2, "shutdown")])
    assert sorted(each["id"] for each in server.message()) == [1, 2]
    assert server.rest() == [] and server.exit() == 0


@pytest.mark.requirement("SEED-01")
def test_there_is_no_shutdown_outside_a_session(serve: Serve) -> None:
    server = serve()
    assert server.ask("shutdown")["error"]["code"] == PARAMS
    server.revision = MODERN
    assert server.ask("shutdown")["error"]["code"] == METHOD
    server.initialize("2025-06-18")
    server.revision = MODERN
    assert server.ask("shutdown")["error"]["code"] == METHOD, "a request that stands alone ends nobody's session"
    server.lives()


PARAPHRASED: list[Any] = [
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 50}},
    {"jsonrpc": "2.0", "id": 2, "method": "ping"},
]


@pytest.mark.requirement("SEED-09", "SEED-10")
@pytest.mark.parametrize("revision", EVERY[:4])
def test_arrays_and_a_notification_that_is_none(serve: Serve, revision: str) -> None:
    """The second member lacks its token: it is dropped, and the others are served."""
    for options in ({}, {"accept_batches": True}):
        server = serve(revision, **options)
        server.write(PARAPHRASED)
        answer = server.message()
        if options or revision in HANDSHAKES[:2]:
            assert sorted(each["id"] for each in answer) == [1, 2] and all("result" in each for each in answer)
        else:
            assert answer["error"]["code"] == REQUEST
        server.lives()


@pytest.mark.requirement("SEED-15")
def test_params_are_an_object_and_ids_are_needed(serve: Serve) -> None:
    server = serve("2025-06-18")
    assert server.error({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, 1) == PARAMS
    server.send(encode({"jsonrpc": "2.0", "method": "tools/list"}))
    server.lives()


@pytest.mark.requirement("SEED-08")
def test_one_alias_of_a_log_level(serve: Serve) -> None:
    server = serve("2025-06-18")
    assert server.result("logging/setLevel", {"level": "warn"}) == {}
    assert server.ask("logging/setLevel", {"level": "loud"})["error"]["code"] == PARAMS
