"""C28 to C30 of the fault catalogue: whatever a handler raises or returns is answered, and the worker lives."""

from __future__ import annotations

import pytest

from .conftest import Serve
from .messages import INTERNAL, MODERN, PARAMS, encode, request

RAISED = [
    "SystemExit", "exit", "KeyboardInterrupt", "MemoryError", "RecursionError", "GeneratorExit", "StopIteration",
    "Wordless", "Stray", "OSError", "BrokenPipeError", "ValueError",
]  # fmt: skip

HOPELESS = [
    "nan", "infinity", "bytes", "cycle", "unprintable", "unprintable inside", "set", "complex", "odd keys",
    "generator", "function", "deep", "huge number",
]  # fmt: skip


@pytest.mark.requirement("BASE-21", "TOOL-19", "BASE-08", "M:TOOL-11")
@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_c28_whatever_a_tool_raises_is_an_error_result(shared: Serve, revision: str, kind: str) -> None:
    server = shared(revision)
    for _ in range(3):
        found = server.call("raiser", {"kind": kind})
        assert found["isError"] is True, found
        assert found["content"][0]["text"], found
        assert "Traceback" not in found["content"][0]["text"]
    server.lives()


def test_c28_no_worker_is_lost(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"workers": 2})
    for kind in RAISED * 3:
        assert server.call("raiser", {"kind": kind})["isError"] is True
    server.lives()
    assert server.status("Threads") <= 2 + 8


@pytest.mark.requirement("BASE-07", "M:BASE-7", "M:ERR-6")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_an_error_of_the_authors_own_choice(shared: Serve, revision: str) -> None:
    server = shared(revision)
    reply = server.ask("tools/call", {"name": "raiser", "arguments": {"kind": "Own"}})
    assert reply["error"] == {"code": 1234, "message": "my own", "data": {"x": [1]}}
    assert server.ask("tools/call", {"name": "raiser", "arguments": {"kind": "InvalidParams"}})["error"] == {
        "code": PARAMS,
        "message": "not these",
    }


@pytest.mark.requirement("M:ERR-10")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_masked_errors_say_nothing(serve: Serve, revision: str) -> None:
    server = serve(revision, mask_errors=True)
    found = server.call("raiser", {"kind": "OSError"})
    assert found["isError"] is True
    assert "space" not in found["content"][0]["text"]
    assert "Internal error" in found["content"][0]["text"]
    assert "No space left" in server.stderr()  # for the author


@pytest.mark.requirement("BASE-21", "M:BASE-21")
@pytest.mark.parametrize("kind", HOPELESS)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c29_what_cannot_be_sent_is_an_error(shared: Serve, revision: str, kind: str) -> None:
    server = shared(revision)
    reply = server.ask("tools/call", {"name": "returns", "arguments": {"kind": kind}})
    if "error" in reply:
        assert reply["error"]["code"] == INTERNAL
    elif kind not in ("huge number", "set", "deep", "odd keys", "bytes", "generator"):
        assert reply["result"]["isError"] is True, reply
    server.lives()


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c29_ten_megabytes(shared: Serve, revision: str) -> None:
    server = shared(revision)
    assert len(server.text("returns", {"kind": "large"})) == 10_000_000
    server.lives()


@pytest.mark.requirement("TOOL-17")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c29_nothing_is_something_too(shared: Serve, revision: str) -> None:
    found = shared(revision).call("returns", {"kind": "none"})
    assert isinstance(found["content"], list)
    assert not found.get("isError")


def test_c30_tools_that_never_return(serve: Serve) -> None:
    """The server lives, cancels are taken, and the end of input ends the process at the grace."""
    server = serve("2025-06-18", limits={"drain_grace": 0.1})
    for n in range(5):
        server.begin_call("never", id=n)
    server.lives()
    for n in range(3):
        server.notify("notifications/cancelled", {"requestId": n})
    server.lives()
    server.close_input()
    left = server.rest()
    assert {message["id"] for message in left} <= {3, 4}
    assert server.exit() == 0


def test_c30_tools_that_ignore_their_cancel(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"workers": 8})
    ids = [server.begin_call("hold", {"name": "deaf"}) for _ in range(6)]
    for id in ids:
        server.notify("notifications/cancelled", {"requestId": id})
    server.lives()
    server.text("release", {"name": "deaf"})
    server.lives()


@pytest.mark.requirement("TOOL-18", "TOOL-20", "TOOL-21", "TOOL-22", "M:TOOL-10", "M:TOOL-11")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
def test_arguments_that_do_not_fit(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for arguments in ({"a": "one", "b": 2}, {"a": 1}, {"a": 1, "b": None}, {"a": 1.5, "b": 2}, {"a": True, "b": 1}):
        found = server.call("add", arguments)
        assert found["isError"] is True, (arguments, found)
    assert server.ask("tools/call", {"name": "nobody", "arguments": {}})["error"]["code"] == PARAMS
    for params in ({}, {"name": 1}, {"name": "add", "arguments": []}, {"name": "add", "arguments": "x"}):
        assert server.ask("tools/call", params)["error"]["code"] == PARAMS, params
    server.lives()


@pytest.mark.requirement("TOOL-16")
def test_arguments_may_be_missing(shared: Serve) -> None:
    server = shared("2025-06-18")
    server.send(encode(request("none", "tools/call", {"name": "log_all"})))
    assert server.answer("none")["result"]["content"][0]["text"] == "logged"
    server.aside.clear()
