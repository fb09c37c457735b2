"""`Client`: its facts, its calls where a script shows more than a server could, and its end."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import minimcp
from minimcp.client import client as module, client as tool_calls
from minimcp.protocol.lifecycle import LOG_LEVEL_KEY, VERSION_KEY

from ..answering import R4, R5, Answering, error, result, silence
from ..inside import close_clients_at_exit, session_of
from ..support import WAIT, eventually, run_python

WRAPPED = {
    "type": "object",
    "properties": {"result": {"type": "integer"}},
    "x-minimcp-wrapped": True,
}


def wrapping(*lists: Any) -> Answering:
    """A server whose tools return wrapped values; `lists` are its answers to `tools/list`."""
    schemas = {"mine": WRAPPED, "foreign": {"type": "object"}}
    listed = [
        {"name": name, "inputSchema": {}, "outputSchema": schema}
        for name, schema in schemas.items()
    ]
    return Answering(
        {
            "tools/call": result(content=[], structuredContent={"result": 3}),
            "tools/list": list(lists) or result(tools=listed),
        }
    )


def test_a_wrapped_value_is_unwrapped_even_if_no_caller_listed_the_tools() -> None:
    server = wrapping()
    with minimcp.connect(server, revision=R4, timeout=WAIT) as client:
        assert [client.call_tool(name).value for name in ("mine", "foreign", "mine")] == [
            3,
            {"result": 3},
            3,
        ]
        assert server.pipe.methods().count("tools/list") == 1
        assert (
            client.call_tool("unlisted").value
            == {"result": 3}
            == client.call_tool("unlisted").value
        )
        assert server.pipe.methods().count("tools/list") == 2, (
            "once for each tool that no list knows"
        )
    server = wrapping()
    with minimcp.connect(server, revision=R4, timeout=WAIT) as client:
        assert [each.value for each in client.call_tools([("mine", None), ("foreign", None)])] == [
            3,
            {"result": 3},
        ]
        assert server.pipe.methods().count("tools/list") == 1


@pytest.mark.parametrize("answer", [error(-32603), silence, result(tools=5)])
def test_a_result_is_kept_when_the_tools_cannot_be_listed(
    answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "minimcp.client")
    monkeypatch.setattr(tool_calls, "LOOK_UP_SECONDS", 0.05 if answer is silence else WAIT)
    server = wrapping(answer)
    with minimcp.connect(server, revision=R4) as client:
        for _ in range(2):
            assert client.call_tool("mine", timeout=WAIT).value == {"result": 3}
        assert server.pipe.methods().count("tools/list") == 1
    assert len(caplog.records) == 1 and "mine" in caplog.text


def test_an_invalid_call_fails_before_anything_is_sent() -> None:
    pairs = "call_tools takes pairs of a tool's name and its arguments"
    wrong: Any = [
        (lambda client: client.call_tools(["x"]), f"{pairs}.*not 'x'"),
        (lambda client: client.call_tools("xy"), f"{pairs}.*not 'x'"),
        (lambda client: client.call_tools(["xy"]), f"{pairs}.*not 'xy'"),
        (lambda client: client.call_tools(("t", {})), f"{pairs}.*not 't'"),
        (lambda client: client.call_tools([("t",)]), pairs),
        (lambda client: client.call_tools([("t", {}, 1)]), pairs),
        (lambda client: client.call_tools([5]), f"{pairs}.*not 5"),
        (
            lambda client: client.call_tools([("t", {}), ("t", [1])]),
            "arguments of 't' must be a dict.*not the list",
        ),
        (
            lambda client: client.call_tool("t", [("a", 1)]),
            "'t' must be a dict by parameter name.*not the list",
        ),
        (
            lambda client: client.call_tool("t", "a=1"),
            "arguments of 't' must be a dict.*not the str 'a=1'",
        ),
        (lambda client: client.call_tool(5), "name must be a str, not the int 5"),
        (
            lambda client: client.submit("t"),
            r"submit takes a method.*submit\(client\.call_tool, .*not the str 't'",
        ),
    ]
    server = Answering()
    with minimcp.connect(server, revision=R4) as client:
        for call, text in wrong:
            with pytest.raises(TypeError, match=text):
                call(client)
        assert len(server.pipe.methods()) == 2 and "0 outgoing" in repr(client)


def test_open_clients_are_closed_at_exit() -> None:
    idle, busy = Answering(), Answering({"x": lambda message: None})
    first, second = (minimcp.connect(each, revision=R4) for each in (idle, busy))
    waiting = second.submit(second.request, "x")
    assert eventually(lambda: "x" in busy.pipe.methods())
    close_clients_at_exit()
    assert idle.pipe.closed and not busy.pipe.closed, (
        "a thread that waits would print its loss as it dies"
    )
    second.close()
    assert isinstance(waiting.exception(WAIT), minimcp.ConnectionLost)
    first.close()


LEFT_OPEN = """
import sys, minimcp
server = minimcp.Server("left")
@server.tool
def echo(text: str) -> str:
    "Echo."
    return text
if "serve" in sys.argv:
    server.run()
else:
    client = minimcp.connect([sys.executable, __file__, "serve"])
    print(client.call_tool("echo", {"text": "hello"}).text)
"""


def test_a_program_that_forgets_to_close_ends_quietly(tmp_path: Any) -> None:
    script = tmp_path / "left.py"
    script.write_text(LEFT_OPEN, encoding="utf-8")
    done = run_python(["-W", "error", str(script)], env={"PYTHONPATH": "."})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


@pytest.mark.requirement("SEED-01")
@pytest.mark.parametrize("answer", [result(), error(-32601), result(odd=1), silence])
def test_a_client_sends_shutdown_if_configured(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHUTDOWN_SECONDS", 0.05 if answer is silence else WAIT)
    server = Answering({"shutdown": answer})
    with minimcp.connect(server, revision="handshake", send_shutdown=True) as client:
        client.close()
    assert server.pipe.methods().count("shutdown") == 1, "closing twice says it once"


def test_a_revision_and_a_log_level_that_change_at_once_both_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with minimcp.connect(Answering(modern=True), revision=R5) as client:
        era: Any = session_of(client).era

        class Newest:
            """A revision; while it is written down another thread sets the level."""

            @property
            def name(self) -> str:
                client.set_log_level("error")
                return "2099-01-01"

        monkeypatch.setattr("minimcp.protocol.lifecycle._newest", lambda *_, **__: Newest())
        assert era.adopt(minimcp.UnsupportedRevision("no"))
        assert (era.envelope[VERSION_KEY], era.envelope[LOG_LEVEL_KEY]) == ("2099-01-01", "error")
