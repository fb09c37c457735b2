"""`connect_all` and `Group`: servers are opened and closed in parallel, have unique names, and fail
separately."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import CancelToken, Group, Server, connect_all
from minimcp.client import group as group_module

from ..answering import R4, Answering, error, initialized, result, silence
from ..inside import sessions_of
from ..support import WAIT, eventually


def tool(name: str) -> Dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}}


def answering(*names: str, **answers: Any) -> Answering:
    """A server with these tools, each of which answers its own name."""
    called = {"tools/list": result(tools=[tool(name) for name in names]), "tools/call": own_name}
    return Answering(
        {**called, **{name.replace("_", "/"): answer for name, answer in answers.items()}}
    )


def own_name(message: Dict[str, Any]) -> Any:
    return {"result": {"content": [{"type": "text", "text": message["params"]["name"]}]}}


def opened(servers: Dict[str, Any], **keywords: Any) -> Group:
    return connect_all(servers, **{"revision": R4, "timeout": WAIT, **keywords})


def names(group: Group) -> List[str]:
    return [each.name for each in group.list_tools()]


def test_a_handler_receives_the_hosts_name_of_the_connection() -> None:
    bank = Server("bank", version="1")

    @bank.tool
    def ask(ctx: minimcp.Context) -> str:
        ctx.elicit("?", {"name": str})
        return "asked"

    asked: List[Any] = []

    def elicit(request: minimcp.ElicitRequest) -> None:
        asked.append((request.connection, request.server and request.server.name))

    with opened({"mine": bank, "other": bank}, elicit=elicit) as group:
        for name in ("mine__ask", "other__ask"):
            group.call_tool(name)
    with minimcp.connect(bank, elicit=elicit) as client:
        client.call_tool("ask")
    assert asked == [("mine", "bank"), ("other", "bank"), (None, "bank")]


@pytest.mark.requirement("M:TOOL-24")
def test_tools_have_the_names_of_their_servers() -> None:
    plain = Server("plain")

    @plain.tool
    def add(left: int, right: int) -> int:
        """Add."""
        return left + right

    with opened(
        {
            "calc": plain,
            "bare": Answering({"initialize": initialized(x={})}),
            "two words": answering("a", "b"),
        },
        separator=".",
    ) as group:
        listed = group.list_tools()
        assert [each.name for each in listed] == ["calc.add", "two words.a", "two words.b"]
        assert listed[0].description == "Add." and group.errors == {}
        assert group.clients["calc"].list_tools()[0].name == "add"
        assert group.call_tool("calc.add", {"left": 1, "right": 2}).value == 3
        assert group.call_tool("two words.b").text == "b"
        place = group.resolve("two words.a.b")
        assert (place.server, place.client, place.name) == (
            "two words",
            group.clients["two words"],
            "a.b",
        )
        with pytest.raises(minimcp.CapabilityNotSupported):
            group.call_tool("bare.x")
        with pytest.raises(minimcp.ToolError):
            group.call_tool("calc.add", {})
        assert group.call_tool("calc.add", {}, raise_on_error=False, timeout=WAIT).is_error


def test_the_longest_server_counts() -> None:
    servers = {
        "a": answering("b__x", "c"),
        "a__b": answering("x"),
        "dead__a": Answering({"initialize": error(-32603)}),
        "dead": answering("a__x"),
    }
    with opened(servers) as group:
        assert names(group) == ["a__c", "a__b__x"], "none that call_tool would take for another's"
        assert group.resolve("a__b__x").server == "a__b" and group.resolve("a__b_x").server == "a"
        assert group.call_tool("a__b__x").text == "x" and group.call_tool("a__c").text == "c"
        assert servers["a"].pipe.methods().count("tools/call") == 1
        with pytest.raises(
            minimcp.ConnectionFailed, match="'dead__a__x' cannot be called, because 'dead__a' was"
        ) as caught:
            group.call_tool("dead__a__x")
        assert caught.value.__cause__ is group.errors["dead__a"]


def test_the_error_for_an_unknown_name() -> None:
    with opened({"git": answering("log", "status"), "db": answering("query")}) as group:

        def told(name: str) -> str:
            with pytest.raises(minimcp.InvalidParams) as caught:
                group.call_tool(name)
            return str(caught.value)

        ending = " Names in this group have the form server__tool. The servers are git and db"
        assert (
            told("gti__log")
            == "no server of this group has a tool 'gti__log', did you mean git__log?" + ending
        )
        assert told("log") == "no server of this group has a tool 'log'." + ending
        group.list_tools()
        assert (
            told("log")
            == "no server of this group has a tool 'log', did you mean git__log?" + ending
        )
        assert "git__log? Names" in told("git_log") and "db__query? Names" in told("QUERY")
        with pytest.raises(TypeError, match="name must be a str, not the int"):
            group.call_tool(5)  # type: ignore[arg-type]
        assert group.resolve("git__nonsense").name == "nonsense", "the server answers for its tools"
    with opened({}) as nobody:
        assert nobody.list_tools() == [] and "none" in repr(nobody)
        with pytest.raises(minimcp.InvalidParams, match="the group has no servers"):
            nobody.call_tool("a__b")


def failing(tmp_path: Path) -> Dict[str, Any]:
    return {
        "refuses": Answering({"initialize": error(-32603, "not today")}),
        "absent": [str(tmp_path / "none")],
        "unset": {"command": "x", "args": ["${THIS_IS_NOT_SET}"]},
        "remote": {"url": "http://127.0.0.1:1/mcp"},
        "off": {"command": "x", "disabled": True},
    }


@pytest.mark.parametrize("name", ["refuses", "absent", "unset"])
def test_strict_raises_the_first_and_closes_the_rest(name: str, tmp_path: Path) -> None:
    fine, hanging = Answering(), Answering({"initialize": silence})
    wrong = failing(tmp_path)[name]
    with pytest.raises((minimcp.ConnectionFailed, ValueError), match=f"server '{name}'"):
        opened({"fine": fine, "hanging": hanging, name: wrong}, strict=True, connect_timeout=None)
    assert all(each.pipe is None or each.pipe.closed for each in (fine, hanging))


def test_a_mistake_of_the_caller_is_not_a_server_error() -> None:
    fine = Answering()
    with pytest.raises(TypeError, match="stderr does not apply"):
        opened({"fine": fine}, stderr=print)
    with pytest.raises(TypeError, match="not int"):
        opened({"fine": fine, "five": 5})
    assert fine.pipe is None or fine.pipe.closed
    for keywords in ({"separator": ""}, {"separator": 5}, {"revision": "newest"}):
        with pytest.raises(ValueError, match="separator|revision"):
            opened({"fine": Answering()}, **keywords)
    for keywords in ({"cancel": 5}, {"handler": 5}, {"config": {}}, {"env": {}}):
        with pytest.raises(TypeError):
            opened({"fine": Answering()}, **keywords)
    with pytest.raises(FileNotFoundError):
        connect_all("no-such-file.json")


class Counting(Answering):
    """A server that counts how often it is opened."""

    opened = 0

    def open_pipe(self) -> Any:
        self.opened += 1
        return super().open_pipe()


@pytest.mark.parametrize("is_lost", [False, True])
def test_only_the_first_list_waits_for_a_server_that_hangs(is_lost: bool) -> None:
    called = {"tools/list": result(tools=[tool("x")]), "tools/call": own_name}
    hung = Counting({**called, "initialize": initialized() if is_lost else silence})
    servers = {"hung": hung, "fine": answering("y")}
    with opened(servers, restart=True, connect_timeout=0.5) as group:
        if is_lost:
            hung.answers["initialize"] = silence
            hung.pipe.end()
            assert eventually(lambda: sessions_of(group.clients["hung"]).newest.cause is not None)
        for _ in range(3):
            assert names(group) == ["fine__y"] and "within 0.5 s" in str(group.errors["hung"])
            assert hung.opened == 2
        hung.answers["initialize"] = initialized()
        assert names(group) == ["fine__y"] and hung.opened == 2
        time.sleep(0 if is_lost else group_module.RETRY_SECONDS)
        assert group.call_tool("hung__x").text == "x"
        assert names(group) == (["hung__x", "fine__y"] if is_lost else ["fine__y", "hung__x"])
        assert group.errors == {}


def test_a_call_names_what_opens_a_server_again() -> None:
    dead = Counting({"initialize": error(-32603)})
    with opened({"dead": dead}) as group:
        with pytest.raises(
            minimcp.ConnectionFailed, match=r"\(group.reconnect\('dead'\) tries again"
        ):
            group.call_tool("dead__x")
        assert dead.opened == 1


def test_a_server_that_cannot_list_leaves_its_tools_out_until_it_can() -> None:
    lists = [
        error(-32603, "busy"),
        error(-32021, "cannot"),
        silence,
        result(tools=5),
        result(tools=[tool("x")]),
    ]
    with opened({"a": answering(tools_list=lists), "b": answering("y")}) as group:
        for kind in (minimcp.InternalError, minimcp.CapabilityNotSupported):
            assert names(group) == ["b__y"] and isinstance(group.errors["a"], kind)
        sessions_of(group.clients["a"]).timeout = 0.2  # its own: b has time to answer
        assert names(group) == ["b__y"] and isinstance(group.errors["a"], minimcp.RequestTimeout)
        sessions_of(group.clients["a"]).timeout = WAIT
        assert names(group) == ["b__y"] and isinstance(group.errors["a"], minimcp.ProtocolViolation)
        assert names(group) == ["a__x", "b__y"] and group.errors == {}
        with pytest.raises(TypeError, match="timeout"):
            group.list_tools(timeout="1")  # type: ignore[arg-type]


def test_many_calls_to_many_servers() -> None:
    with opened(
        {"a": answering("x"), "b": answering("y", tools_call=error(-32602, "no y"))}
    ) as group:
        texts = [
            each.text for each in group.call_tools([("a__1", None), ("a__2", {}), ("a__3", None)])
        ]
        assert texts == ["1", "2", "3"]
        outcomes = group.call_tools(
            [("b__y", None), ("a__x", None), ("c__z", None)], return_exceptions=True
        )
        assert outcomes[1].text == "x" and isinstance(outcomes[2], minimcp.InvalidParams)
        assert outcomes[0].from_peer and not outcomes[2].from_peer
        with pytest.raises(minimcp.InvalidParams, match="no y"):
            group.call_tools([("a__x", None), ("b__y", None)])
        with pytest.raises(minimcp.InvalidParams, match="has a tool 'c__z'"):
            group.call_tools([("a__x", None), ("c__z", None)])
        assert group.call_tools([]) == []


def test_a_token_ends_the_opening_of_all() -> None:
    token = CancelToken()
    fine = Answering()

    def cancel(message: Dict[str, Any]) -> None:
        assert eventually(lambda: fine.pipe and "notifications/initialized" in fine.pipe.methods())
        token.cancel("enough")

    hanging = Answering({"initialize": cancel})
    with pytest.raises(minimcp.Cancelled, match="enough"):
        opened({"fine": fine, "hanging": hanging}, cancel=token, connect_timeout=None)
    assert fine.pipe.closed and hanging.pipe.closed
    never = Answering()
    with pytest.raises(minimcp.Cancelled):
        opened({"never": never}, cancel=token)
    assert never.pipe is None


def interrupt() -> None:
    """Send a Ctrl-C. A signal just before a wait does not end the wait, so this function ends it,
    too."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def one_is_open_and_one_waits(fine: Answering, hanging: Answering) -> None:
    """Wait until it is so."""
    for server, method in ((fine, "notifications/initialized"), (hanging, "initialize")):
        assert eventually(lambda: server.pipe and method in server.pipe.methods())  # noqa: B023, in this round


def test_ctrl_c_while_servers_are_opened_closes_the_open_ones() -> None:
    fine, hanging = Answering(), Answering({"initialize": silence})

    def strike(message: Dict[str, Any]) -> Any:
        one_is_open_and_one_waits(fine, hanging)
        interrupt()
        return error(-32603)(message)

    with pytest.raises(KeyboardInterrupt):
        opened(
            {"fine": fine, "hanging": hanging, "striking": Answering({"initialize": strike})},
            connect_timeout=None,
        )
    assert fine.pipe.closed and hanging.pipe.closed


def test_ctrl_c_before_the_last_server_starts_closes_the_open_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fine, hanging, last = Answering(), Answering({"initialize": silence}), Answering()
    spawn, calls = group_module.spawn, iter((1, 2, 3))

    def interrupted(pool: Any, work: Any, token: CancelToken) -> Any:
        if next(calls, 4) != 3:
            return spawn(pool, work, token)
        one_is_open_and_one_waits(fine, hanging)
        raise KeyboardInterrupt

    monkeypatch.setattr(group_module, "spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened({"fine": fine, "hanging": hanging, "last": last}, connect_timeout=None)
    assert fine.pipe.closed and hanging.pipe.closed and last.pipe is None
