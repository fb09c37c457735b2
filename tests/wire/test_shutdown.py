"""The end of a server, and more work than it can do at once: C25, C27 and C31 to C33 of the fault
catalogue."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any, Optional

import pytest

from ..support import ROOT, WAIT
from .conftest import Serve
from .harness import RawServer
from .messages import INTERNAL, MODERN, encode, modern, request

STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def call(id: object, tool: str, **arguments: Any) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


def said(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


def last_words(server: RawServer) -> list[Any]:
    """Return the server's last messages. It exits with 0, and stderr shows no accident."""
    found = server.rest() if not server.ended else []
    assert server.exit() == 0
    log = server.stderr()
    for sign in ("Traceback", "Fatal Python error", "_enter_buffered_busy", "Exception ignored"):
        assert sign not in log, log[-3000:]
    return found


# ---------------------------------------------------------------- C31: the end of the input


@pytest.mark.requirement("STDIO-11")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c31_accepted_requests_are_answered(serve: Serve, revision: str) -> None:
    """Calls, slow ones too, and the end of input in one go."""
    server = serve(revision)
    ids = [server.begin_call("echo", {"text": str(n)}, id=n) for n in range(20)]
    ids += [server.begin_call("deaf_slow", {"seconds": 0.15}, id=n) for n in range(20, 23)]
    server.close_input()
    assert sorted(message["id"] for message in last_words(server)) == ids


# ---------------------------------------------------------------- C32: signals


@pytest.mark.parametrize("number", STOPS)
def test_c32_a_signal_ends_it_and_cancels_handlers(serve: Serve, number: int) -> None:
    server, idle = (
        serve("2025-06-18", limits={"drain_grace": 600}, preset="patient") for _ in range(2)
    )
    server.begin_call("slow", {"seconds": 600}, id=1)
    for each in (server, idle):
        each.lives()
        each.signal(number)
    assert [(message["id"], message["error"]["code"]) for message in last_words(server)] == [
        (1, INTERNAL)
    ]
    assert last_words(idle) == []


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("state", ["deaf handlers", "an output that nobody reads", "no reader"])
def test_a_signal_ends_it_in_every_state(serve: Serve, number: int, state: str) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 600})
    if state == "deaf handlers":
        for id in range(3):
            server.begin_call("deaf_slow", {"seconds": 600}, id=id)
        assert server.fence() == []
    elif state == "no reader":
        server.begin_call("deaf_slow", {"seconds": 600}, id=1)
        assert server.fence() == []
        server.close_output()
    else:
        server.send(b"".join(call(id, "big", size=300_000) for id in range(50)), reading=False)
    server.signal(number)
    # After these 1.2 s the main thread has a moment to return: 1 says that it had not.
    assert server.exit() in (0, 1)


@pytest.mark.requirement("M:SUB-9", "M:SUB-10")
@pytest.mark.parametrize("number", [*STOPS, None])
def test_open_streams_get_their_result_and_are_not_waited_for(
    serve: Serve, number: Optional[int]
) -> None:
    """With a signal and with the end of the input, and a grace that is longer than this test waits."""
    server = serve(MODERN, limits={"drain_grace": 600}, preset="patient")
    ids = ["one", 2, "three"]
    for id in ids:
        wanted = modern({"notifications": {"toolsListChanged": True}})
        server.write(request(id, "subscriptions/listen", wanted))
        assert server.message()["method"] == "notifications/subscriptions/acknowledged"
    if number is None:
        server.close_input()
    else:
        server.signal(number)
    told = last_words(server)
    assert [
        message["id"] if "result" in message else message["params"]["requestId"] for message in told
    ] == ["one", "one", 2, 2, "three", "three"]
    assert {message.get("method", "result") for message in told[::2]} == {"result"}
    assert {message.get("method") for message in told[1::2]} == {"notifications/cancelled"}


# ---------------------------------------------------------------- C33: an output without a reader


@pytest.mark.requirement("LIFE-27", "M:STD-11")
def test_c33_an_output_without_a_reader(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.lives()
    server.close_output()
    server.send(call(1, "echo", text="x"))
    assert last_words(server) == []


# ---------------------------------------------------------------- more work than it can do at once


@pytest.mark.requirement("PING-01", "PING-09", "M:STD-17", "M:BASE-15")
def test_c27_requests_without_a_worker_are_served_while_the_pool_is_full(serve: Serve) -> None:
    """Every worker is busy and more calls wait. Ping, lists, discover, rejections and cancellations
    still work."""
    server = serve("2025-06-18", limits={"workers": 4, "drain_grace": 0.05})
    server.begin_call("hold", {"name": "full"}, id=0)
    assert server.text("add", {"a": 2, "b": 3}) == "5"  # a fast one behind one that is blocked
    for n in range(1, 12):
        server.begin_call("hold", {"name": "full"}, id=n)
    assert server.result("ping") == {} and server.result("tools/list")["tools"]
    server.write(request("d", "server/discover", modern()))
    assert "result" in server.answer("d")
    assert server.error(b"garbage") == -32700
    assert server.ask("no/such/method")["error"]["code"] == -32601
    server.notify("notifications/cancelled", {"requestId": 11})
    assert server.fence() == []
    server.close_input()  # no call of `release` is possible: the grace ends it
    server.rest()
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_writers_never_interleave(serve: Serve) -> None:
    """Every line is looked at: one that held two pieces would not be JSON."""
    server = serve("2025-06-18")
    sizes = [10, 70_000, 200, 5_000, 300_000]
    server.send(b"".join(call(n, "big", size=sizes[n % 5]) for n in range(250)))
    assert [len(said(server.answer(n))) for n in range(250)] == sizes * 50


# ---------------------------------------------------------------- standard streams that are closed


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.DEVNULL])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_a_server_without_some_standard_streams_ends_at_the_end_of_its_input(
    closed: str, stderr: int
) -> None:
    """Files of the library never get the number of a closed stream, and no output goes to another
    stream."""
    code = "import minimcp; s = minimcp.Server('s'); s.add_tool(lambda: 1, name='t'); s.run()"
    call = encode(request(1, "tools/call", modern({"name": "t", "arguments": {}})))
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-S", "-c", code],
        input=call,
        stdout=subprocess.PIPE,
        stderr=stderr,
        timeout=WAIT,
        cwd=ROOT,
    )
    assert done.returncode == 0
    has_answer = "<" not in closed and " >" not in f" {closed}"
    assert (b'"result"' in done.stdout) == has_answer
    assert b"jsonrpc" not in (done.stderr or b"")
