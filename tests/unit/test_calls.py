"""Calls in the way of their era: what they carry, how they end, and what happens on Ctrl-C."""

from __future__ import annotations

import logging
import threading
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import CancelToken
from minimcp.client import calls as cacheable

from ..answering import R4, R5, Answering, discovered, error, initialized, result, silence
from ..scripted import Task, notice
from ..support import WAIT, eventually

TOOL = {"name": "t", "inputSchema": {"type": "object"}}


def connected(answers: Dict[str, Any], revision: str = R4, **options: Any) -> "tuple[minimcp.Client, Any]":
    server = Answering(answers, modern=revision == R5)
    options.setdefault("timeout", WAIT)
    return minimcp.connect(server, revision=revision, **options), server


def sent(server: Any, method: str) -> List[Any]:
    return [each.get("params") for each in server.pipe.messages if each.get("method") == method]


async def late(report: Any) -> None:
    raise NotImplementedError


def test_a_time_a_token_and_a_callback_that_are_none() -> None:
    client, server = connected({"tools/call": result(content=[])})
    wrong: List[Any] = [
        ({"timeout": "1"}, "timeout is a number of seconds or None, not the str '1'"),
        ({"timeout": [2]}, "timeout is a number of seconds or None, not the list"),
        ({"cancel": True}, "cancel is a CancelToken or None, not the bool True"),
        ({"on_progress": late}, "on_progress is async: write a plain def"),
        ({"on_progress": 5}, "on_progress is a function that takes a Progress, or None, not the int 5"),
    ]
    with client:
        for keywords, text in wrong:
            with pytest.raises(TypeError) as caught:
                client.call_tool("t", **keywords)
            assert str(caught.value).startswith(text)
        with pytest.raises(TypeError, match="timeout is a number"):
            client.call_tools([("t", None)], timeout="1")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="timeout is a number"):
            client.list_tools(timeout="1")  # type: ignore[arg-type]
        assert not sent(server, "tools/call") and "0 outgoing" in repr(client)


@pytest.mark.requirement("M:META-1", "M:META-2")
def test_each_era_dresses_its_calls() -> None:
    for revision in (R4, R5):
        client, server = connected({"x": result(a=1)}, revision)
        with client:
            assert client.request("x", {"p": 1, "_meta": {"mine": 2}}, on_progress=lambda report: None)["a"] == 1
            assert client.request("x") == {"a": 1}
        meta = sent(server, "x")[0]["_meta"]
        assert meta["mine"] == 2 and meta["progressToken"] == server.pipe.messages[-2]["id"]
        assert ("io.modelcontextprotocol/protocolVersion" in meta) == (revision == R5)
        assert "progressToken" not in ((sent(server, "x")[1] or {}).get("_meta") or {})


def test_progress_goes_to_the_caller_and_nonsense_goes_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    client, server = connected({})

    def work(message: Any) -> Any:
        token = message["params"]["_meta"]["progressToken"]
        server.pipe.give(notice("notifications/progress", progressToken=token, progress="x"))
        server.pipe.give(notice("notifications/progress", progressToken=token, progress=1, message="m"))
        return {"result": {}}

    server.answers["work"] = work
    seen: List[Any] = []
    with client:
        client.request("work", on_progress=lambda report: seen.append((report.progress, report.total, report.message)))
    assert seen == [(1, None, "m")] and "a progress notification that is none" in caplog.text


def test_a_revision_that_is_refused_later_is_asked_again_once() -> None:
    refused = error(-32022, "not that one", {"supported": [R5]})
    stranger = error(-32022, data={"supported": []})
    client, server = connected({"x": [refused, result(a=1)], "y": refused, "z": stranger}, R5)
    with client:
        assert client.request("x") == {"a": 1}
        for method in ("y", "z"):
            with pytest.raises(minimcp.UnsupportedRevision):
                client.request(method)
        assert [len(sent(server, method)) for method in "xyz"] == [2, 2, 1]
    client, server = connected({"x": refused})
    with client, pytest.raises(minimcp.UnsupportedRevision):
        client.request("x")
    assert len(sent(server, "x")) == 1


@pytest.mark.requirement("M:VER-C1", "M:VER-C2")
def test_what_is_refused_of_a_batch_is_asked_again_once() -> None:
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


def test_a_timeout_names_the_seconds_the_tool_and_what_came_instead() -> None:
    client, server = connected({"tools/call": silence, "tools/list": [result(tools=[], nextCursor="2"), silence]})
    with client:
        with pytest.raises(minimcp.RequestTimeout, match=r"tools/call 'slow': no answer within 0\.01 s$"):
            client.call_tool("slow", timeout=0.01)
        with pytest.raises(minimcp.RequestTimeout, match=r"tools/list: no answer within 0\.05 s$"):
            client.list_tools(timeout=0.05)
        many = client.call_tools([("a", None), ("b", None)], timeout=0.01, return_exceptions=True)
        assert ["'a': no answer" in str(many[0]), "'b': no answer" in str(many[1])] == [True, True]
        server.pipe.give(b"Listening on port 80")
        assert eventually(lambda: client._sessions.newest.session._connection._odd_line())
        with pytest.raises(minimcp.RequestTimeout, match="0.05 s; it wrote a line that is no message: Listening on"):
            client.call_tool("slow", timeout=0.05)


def test_what_no_answer_comes_for() -> None:
    client, server = connected({"x": silence, "server/discover": [discovered(), silence]}, R5)
    with client:
        with pytest.raises(minimcp.RequestTimeout):
            client.request("x", timeout=0.01)
        assert eventually(lambda: len(sent(server, "notifications/cancelled")) == 1)
        with pytest.raises(minimcp.RequestTimeout):
            client.ping(timeout=0.01)
    assert len(sent(server, "notifications/cancelled")) == 1, "the opening calls are given up without a word"


@pytest.mark.requirement("CANC-01")
def test_a_token_ends_a_call_and_is_let_go() -> None:
    token, begun = CancelToken(), threading.Event()
    client, server = connected({"x": lambda message: begun.set(), "y": result()})
    with client:
        client.request("y", cancel=token)
        assert not token._callbacks, "a token that serves many calls does not keep them"
        task = Task(lambda: client.request("x", cancel=token))
        assert begun.wait(WAIT)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            task.result()
        assert eventually(lambda: len(sent(server, "notifications/cancelled")) == 1)
        with pytest.raises(minimcp.Cancelled, match="before the call"):
            client.request("y", cancel=token)
    assert len(sent(server, "y")) == 1


# ---------------------------------------------------------------- many at once


def test_nothing_is_sent_of_a_batch_that_is_no_json() -> None:
    client, server = connected({})
    with client:
        for bad in ({"x": float("nan")}, {"x": {1}}):
            with pytest.raises((ValueError, TypeError)):
                client.call_tools([("a", None), ("b", bad)])
        assert sent(server, "tools/call") == [] and "0 outgoing" in repr(client)


def test_a_batch_has_one_time_limit_and_one_token() -> None:
    client, server = connected({"tools/call": silence})
    with client:
        outcomes = client.call_tools([("a", None)] * 3, timeout=0.01, return_exceptions=True)
        assert [type(each) for each in outcomes] == [minimcp.RequestTimeout] * 3
        token = CancelToken()
        task = Task(lambda: client.call_tools([("a", None)] * 3, cancel=token, return_exceptions=True))
        assert eventually(lambda: len(sent(server, "tools/call")) == 6)
        token.cancel("enough")
        assert [type(each) for each in task.result()] == [minimcp.Cancelled] * 3
        assert eventually(lambda: len(sent(server, "notifications/cancelled")) == 6)


def test_ctrl_c_ends_the_whole_batch_on_the_wire() -> None:
    client, server = connected({"tools/call": [result(content=[]), silence]})

    class Interrupted(CancelToken):
        """Ctrl-C comes while the second call is waited for."""

        waits = 0

        def on_cancel(self, callback: Any) -> Any:
            self.waits += 1
            if self.waits == 2:
                raise KeyboardInterrupt
            return super().on_cancel(callback)

    with client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tools([("a", None)] * 4, cancel=Interrupted())
        assert eventually(lambda: len(sent(server, "notifications/cancelled")) == 3)
        assert "0 outgoing" in repr(client)


def test_a_batch_of_results_that_are_none() -> None:
    client, _ = connected({"tools/call": [result(content=5), result(content=[], isError=True), error(-32602, "bad")]})
    with client:
        outcomes = client.call_tools([("a", None)] * 3, return_exceptions=True)
    assert [type(each) for each in outcomes] == [minimcp.ProtocolViolation, minimcp.ToolError, minimcp.InvalidParams]


# ---------------------------------------------------------------- lists


@pytest.mark.parametrize(
    "page",
    [
        {},
        {"tools": None},
        {"tools": [{"name": "no schema"}]},
        {"tools": [], "nextCursor": 5},
        {"tools": [], "nextCursor": "always"},
    ],
)
def test_pages_that_make_no_sense(page: Any) -> None:
    client, _ = connected({"tools/list": result(**page)})
    with client, pytest.raises(minimcp.ProtocolViolation, match="tools/list"):
        client.list_tools()


def test_pages_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cacheable, "MOST_PAGES", 5)
    client, server = connected(
        {"tools/list": lambda message: {"result": {"tools": [TOOL], "nextCursor": str(message["id"])}}}
    )
    with client, pytest.raises(minimcp.ProtocolViolation, match="more than 5 pages"):
        client.list_tools()
    cursors = [(params or {}).get("cursor") for params in sent(server, "tools/list")]
    assert len(cursors) == 5 and cursors[0] is None and all(cursors[1:])


# ---------------------------------------------------------------- before a call


def test_what_is_needed() -> None:
    client, server = connected({"initialize": initialized(R4, logging={})})
    with client:
        for ask in (client.list_tools, lambda: client.call_tools([("a", None)]), lambda: client.call_tool("a")):
            with pytest.raises(minimcp.CapabilityNotSupported, match="no tools"):
                ask()
        assert len(server.pipe.methods()) == 2, "nothing was sent"
    with pytest.raises(minimcp.ConnectionLost, match="closed") as first:
        client.list_tools()
    with pytest.raises(minimcp.ConnectionLost) as second:
        client.call_tools([("a", None)])
    assert first.value is not second.value, "each caller gets an exception of its own"


# ---------------------------------------------------------------- tools whose schemas are not known


class Mirror:
    """Knows which arguments travel in headers too as soon as the tools were listed."""

    def admitted(self, tools: List[Any]) -> List[Any]:
        return tools


@pytest.mark.parametrize("lists", [result(tools=[TOOL]), error(-32603, "no list")])
def test_many_calls_of_a_tool_that_nobody_listed_are_made_once_more(lists: Any) -> None:
    def call(message: Any) -> Any:
        known = "tools/list" in server.pipe.methods() or message["params"]["name"] == "plain"
        return (result(content=[]) if known else error(-32020, "a header is missing"))(message)

    client, server = connected({"tools/call": call, "tools/list": lists}, R5)
    with client:
        client._sessions.newest.session.mirror = Mirror()  # type: ignore[assignment]
        outcomes = client.call_tools([("t", None), ("plain", None), ("t", None)], return_exceptions=True)
        assert len(sent(server, "tools/list")) == 1, "once for all of them"
    listed = lists({"id": 1}).get("result") is not None
    kinds = [minimcp.CallToolResult if listed else minimcp.InternalError] * 3
    kinds[1] = minimcp.CallToolResult
    assert [type(each) for each in outcomes] == kinds
