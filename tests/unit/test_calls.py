"""Calls in both eras: their params, their endings, and Ctrl-C."""

from __future__ import annotations

import copy
import threading
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import CancelToken
from minimcp.protocol import lifecycle
from minimcp.protocol.lifecycle import VERSION_KEY

from ..answering import R4, R5, Answering, error, result, silence
from ..inside import connection_of, session_of
from ..support import WAIT, eventually

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def connected(
    answers: Dict[str, Any], revision: str = R4, **options: Any
) -> "tuple[minimcp.Client, Any]":
    server = Answering(answers, modern=revision == R5)
    options.setdefault("timeout", WAIT)
    return minimcp.connect(server, revision=revision, **options), server


def sent(server: Any, method: str) -> List[Any]:
    return [each.get("params") for each in server.pipe.messages if each.get("method") == method]


async def late(report: Any) -> None:
    raise NotImplementedError


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_call_with_a_limit_on_silence_asks_for_progress(revision: str) -> None:
    client, server = connected({"x": result(answer=1)}, revision)
    with client:
        assert client.request("x", {}, idle_timeout=WAIT)["answer"] == 1
        [params] = sent(server, "x")
        assert "progressToken" in params["_meta"]


def test_a_heartbeat_is_sent_while_the_handler_is_silent() -> None:
    server, was_told = minimcp.Server("s"), threading.Event()

    @server.tool(heartbeat=0.05)
    def slow(ctx: minimcp.Context) -> bool:
        """Wait for a heartbeat."""
        return was_told.wait(WAIT)

    with minimcp.connect(server, timeout=WAIT) as client:
        assert client.call_tool("slow", on_progress=lambda _: was_told.set()).value is True


def test_a_capability_without_an_option_of_connect() -> None:
    error = lifecycle.lacks("tasks", "tool 'x'", lifecycle.REVISIONS[-1])
    assert "connect(" not in str(error) and "ctx.client.supports('tasks')" in str(error)


def test_invalid_timeouts_tokens_and_callbacks() -> None:
    client, server = connected({"tools/call": result(content=[])})
    wrong: List[Any] = [
        ({"timeout": "1"}, "timeout must be a number of seconds or None, not the str '1'"),
        ({"timeout": [2]}, "timeout must be a number of seconds or None, not the list"),
        ({"cancel": True}, "cancel must be a CancelToken or None, not the bool True"),
        ({"on_progress": late}, "on_progress is async: write a plain def"),
        (
            {"on_progress": 5},
            "on_progress must be a function that takes a Progress, or None, not the int 5",
        ),
    ]
    with client:
        for keywords, text in wrong:
            with pytest.raises(TypeError) as caught:
                client.call_tool("t", **keywords)
            assert str(caught.value).startswith(text)
        with pytest.raises(TypeError, match="timeout must be a number"):
            client.call_tools([("t", None)], timeout="1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="timeout must be a number"):
            client.list_tools(timeout="1")  # type: ignore[arg-type]
        assert not sent(server, "tools/call") and "0 outgoing" in repr(client)


@pytest.mark.requirement("M:META-1", "M:META-2")
def test_no_call_can_forge_the_envelope_or_the_token() -> None:
    client, server = connected({"x": result()}, R5)
    with client:
        params = {
            "name": "x",
            "_meta": {"own": 1, VERSION_KEY: "forged", "progressToken": "forged"},
        }
        before = copy.deepcopy(params)
        client.request("x", params, on_progress=print)
        (asked,) = (each for each in server.pipe.messages if each["method"] == "x")
        meta = {"own": 1, "progressToken": asked["id"], VERSION_KEY: R5}
        assert asked["params"]["_meta"].items() >= meta.items() and params == before


@pytest.mark.requirement("M:VER-C1", "M:VER-C2")
def test_rejected_calls_of_a_batch_are_sent_again_once() -> None:
    refused = error(-32022, "not that one", {"supported": [R5]})

    def one(text: str) -> Any:
        return result(content=[{"type": "text", "text": text}])

    names = [("a", None), ("b", None), ("c", None)]
    client, server = connected({"tools/call": [one("1"), refused, error(-32602), one("2")]}, R5)
    with client:
        first, second, third = client.call_tools(names, return_exceptions=True)
        assert (first.text, second.text, type(third)) == ("1", "2", minimcp.InvalidParams)
        assert [params["name"] for params in sent(server, "tools/call")] == ["a", "b", "c", "b"]
        server.answers["tools/call"] = server.pipe.answers["tools/call"] = refused
        outcomes = client.call_tools(names, return_exceptions=True)
        assert [type(each) for each in outcomes] == [minimcp.UnsupportedRevision] * 3
        assert len(sent(server, "tools/call")) == 4 + 6


def test_a_timeout_names_the_seconds_the_tool_and_other_output() -> None:
    client, server = connected(
        {"tools/call": silence, "tools/list": [result(tools=[], nextCursor="2"), silence]}
    )
    with client:
        with pytest.raises(
            minimcp.RequestTimeout, match=r"tools/call 'slow': no answer within 0\.01 s$"
        ):
            client.call_tool("slow", timeout=0.01)
        with pytest.raises(minimcp.RequestTimeout, match=r"tools/list: no answer within 0\.05 s$"):
            client.list_tools(timeout=0.05)
        many = client.call_tools([("a", None), ("b", None)], timeout=0.01, return_exceptions=True)
        assert ["'a': no answer" in str(many[0]), "'b': no answer" in str(many[1])] == [True, True]
        server.pipe.give(b"Listening on port 80")
        assert eventually(lambda: connection_of(client).invalid_line_note)
        with pytest.raises(
            minimcp.RequestTimeout,
            match="0.05 s; it wrote a line that is not a message: Listening on",
        ):
            client.call_tool("slow", timeout=0.05)


def test_ctrl_c_ends_the_whole_batch_on_the_wire() -> None:
    client, server = connected({"tools/call": [result(content=[]), silence]})

    class Interrupted(CancelToken):
        """Ctrl-C arrives during the wait for the second call."""

        waits = 0

        def on_cancel(self, callback: Any) -> Any:
            self.waits += 1
            if self.waits == 3:  # once for all of them, once for the first
                raise KeyboardInterrupt
            return super().on_cancel(callback)

    with client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tools([("a", None)] * 4, cancel=Interrupted())
        assert eventually(lambda: len(sent(server, "notifications/cancelled")) == 3)
        assert "0 outgoing" in repr(client)


class Mirror:
    """Knows which arguments travel in headers too as soon as the tools were listed."""

    def usable_tools(self, tools: List[Any], deadline: Any) -> List[Any]:
        return tools


@pytest.mark.parametrize("lists", [result(tools=[TOOL]), error(-32603, "no list")])
def test_many_calls_of_an_unlisted_tool_are_sent_once_more(lists: Any) -> None:
    listed = lists({"id": 1}).get("result") is not None

    def call(message: Any) -> Any:
        known = (
            listed and "tools/list" in server.pipe.methods() or message["params"]["name"] == "plain"
        )
        return (result(content=[]) if known else error(-32020, "a header is missing"))(message)

    client, server = connected({"tools/call": call, "tools/list": lists}, R5)
    with client:
        session_of(client).header_params = Mirror()  # type: ignore[assignment]
        outcomes = client.call_tools(
            [("t", None), ("plain", None), ("t", None)], return_exceptions=True
        )
        assert len(sent(server, "tools/list")) == 1 or not listed, "once for all of them"
    kinds = [minimcp.CallToolResult if listed else minimcp.InternalError] * 3
    kinds[1] = minimcp.CallToolResult
    assert [type(each) for each in outcomes] == kinds
