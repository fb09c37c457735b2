"""Tools where the interaction tests do not reach: what registration says, and what is told of names and places."""

from __future__ import annotations

import functools
import json
import logging
from typing import Any, Literal

import pytest
from minimcp.engine.alarm import Alarm
from minimcp.server.pump import Main

import minimcp
from minimcp.engine.requests import Route
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME
from minimcp.server.registered import where
from minimcp.server.tools import RegisteredTool, Tools
from minimcp.types import Icon, ToolAnnotations

from ..answering import R4, R5
from ..support import WAIT, eventually
from .support import exchange, facts, read


def echo(text: str = "") -> str:
    """Echo."""
    return text


def tools(**options: Any) -> Tools:
    return Tools(facts(**options), Alarm("test"))


def added(function: Any = echo, **options: Any) -> RegisteredTool:
    made = tools()
    made.add(function, **options)
    return made.get(options.get("name") or function.__name__)


def listing(made: Tools) -> Any:
    route = made.routes()["tools/list"]
    assert isinstance(route, Route)
    return route.handle(exchange("tools/list"))


def test_where_a_function_stands() -> None:
    assert where(echo).startswith("echo (") and "test_tools.py:" in where(echo)
    assert where(print) == "print" and where(5) == "5"
    assert repr(added()).startswith("<RegisteredTool 'echo' = echo (")

    class Notes:
        def add(self) -> str:
            return ""

    assert "Notes.add (" in where(Notes().add)


def test_the_table_of_tools() -> None:
    made = tools()
    assert len(made) == 0 and not made.offered
    made.add(echo)
    assert len(made) == 1 and made.offered and made.get("echo").function is echo
    made.remove("echo")
    assert len(made) == 0 and made.offered
    for gone in (made.get, made.remove):
        with pytest.raises(KeyError):
            gone("echo")


@pytest.mark.requirement("TOOL-09", "TOOL-10", "M:TOOL-13")
def test_names_in_other_letters_are_other_names() -> None:
    made = tools()
    for name in ("Foo", "foo", "FOO"):
        made.add(echo, name=name)
        with pytest.raises(ValueError, match=name):
            made.add(echo, name=name)
    assert [tool["name"] for tool in read(listing(made))["tools"]] == ["Foo", "foo", "FOO"]


def test_a_change_is_told_and_the_list_is_made_anew() -> None:
    told = []
    of = facts()
    of.changed = told.append
    made = Tools(of, Alarm("test"))
    for act in (lambda: made.add(echo), lambda: made.add(echo, replace=True), lambda: made.remove("echo")):
        act()
        assert told.pop() == "tools"
        listed = read(listing(made))["tools"]
        assert len(listed) == len(made)


@pytest.mark.requirement("TOOL-05", "JSCH-06", "M:SCH-11")
def test_what_registration_refuses() -> None:
    for options, kind, text in (
        ({"name": 5}, TypeError, "name"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"output_schema": {}, "structured": False}, ValueError, "contradict"),
        ({"input_schema": {"type": 5}}, ValueError, "type"),
        ({"output_schema": {"type": "nothing"}}, ValueError, "type"),
        ({"annotations": {"readOnlyHint": True}}, TypeError, "readOnlyHint"),
        ({"icons": ["https://example.com"]}, TypeError, "icons"),
    ):
        made = tools()
        with pytest.raises(kind, match=text):
            made.add(echo, **options)  # type: ignore[arg-type]
        assert len(made) == 0
    with pytest.raises(TypeError, match="no Python function"):
        tools().add(functools.partial(echo, "x"))
    nameless = Nameless()
    with pytest.raises(TypeError, match="name"):
        tools().add(nameless.call)


class Nameless:
    """Its bound method has no name of its own."""

    @property
    def call(self) -> Any:
        def inner() -> str:
            return ""

        inner.__name__ = ""
        return inner


@pytest.mark.requirement("SEED-26", "TOOL-07", "TOOL-08", "M:TOOL-13", "X-13")
def test_what_registration_warns_of(caplog: pytest.LogCaptureFixture) -> None:
    def silent() -> str:
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    made = tools()
    made.add(silent)
    made.add(echo)
    assert [record.getMessage() for record in caplog.records] == [
        "tool silent has no description: a model has only its name to go by"
    ]
    caplog.clear()
    for odd in ("two words", "x" * 129, "a\nb", "é"):
        made.add(echo, name=odd)
        assert "use 1 to 128" in caplog.records[-1].getMessage() and "\n" not in caplog.records[-1].getMessage()
    made.add(echo, name="x" * 128)
    made.add(echo, name="a-B_1.c")
    assert len(caplog.records) == 4
    made.add(silent, name="described", description="Described.")
    assert len(caplog.records) == 4


@pytest.mark.requirement("SEED-22", "X-14")
def test_what_is_listed() -> None:
    tool = added(
        title="T",
        annotations=ToolAnnotations(title="A", read_only_hint=True),
        icons=[Icon("https://example.com/i")],
        meta={"m": 1},
    )
    assert tool.listed(BY_NAME[R5]) == {
        "name": "echo", "title": "T", "description": "Echo.", "annotations": {"title": "A", "readOnlyHint": True},
        "inputSchema": tool.signature.input_schema, "icons": [{"src": "https://example.com/i"}], "_meta": {"m": 1},
    }
    assert added(input_schema={}).listed(BY_NAME[R4])["inputSchema"] == {"type": "object"}


def test_which_annotations_make_an_output_schema() -> None:
    def text() -> str:
        return ""

    def one_of() -> Literal["a", "b"]:
        return "a"

    def anything() -> Any:
        return 1

    def nothing():  # type: ignore[no-untyped-def]
        return 1

    def number() -> int:
        return 1

    def block() -> minimcp.Text:
        return minimcp.Text("a")

    functions = (text, one_of, anything, nothing, number, block)
    promised = {each.__name__ for each in functions if added(each).shown.output_schema is not None}
    assert promised == {"one_of", "number"}
    assert added(text, structured=True).shown.output_schema == {"type": "string"}
    assert added(number, structured=False).shown.output_schema is None
    assert added(number, output_schema={"type": "number"}).shown.output_schema == {"type": "number"}


def test_a_capability_may_be_named_alone() -> None:
    needy = added(requires="sampling")
    with pytest.raises(minimcp.CapabilityNotSupported):
        needy.serve(exchange(params={"name": "echo"}, revision=R5))
    able = exchange(params={"name": "echo", "arguments": {"text": "hi"}}, revision=R5, capabilities={"sampling": {}})
    assert read(needy.serve(able))["content"][0]["text"] == "hi"


def test_a_call_that_names_nothing() -> None:
    made = tools()
    made.add(echo)
    assert made.route_of_call(Request(1, "tools/call", {"name": "echo"})) is made.get("echo").route
    for params in ({}, {"name": "x"}, {"name": ["echo"]}, {"name": "echo", "arguments": []}):
        with pytest.raises(minimcp.InvalidParams):
            made.route_of_call(Request(1, "tools/call", params))


def test_no_thread_for_the_alarm_ends_in_an_error_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(seconds: float, ring: Any) -> Any:
        raise RuntimeError("can't start new thread")

    made = tools()
    made.add(echo, timeout=5)
    monkeypatch.setattr(made.alarm, "at", full)
    with pytest.raises(RuntimeError):
        made.get("echo").serve(exchange(params={"name": "echo"}))


def test_the_time_in_which_it_waits_to_begin_is_bounded_too() -> None:
    made, main = tools(), Main()
    made.add(echo, timeout=0.01, executor=main)
    late, quick = exchange(params={"name": "echo"}), exchange(params={"name": "echo"})
    outlet: Any = late.outlet
    start = made.get("echo").route.start
    assert start is not None
    start(late)
    assert eventually(lambda: outlet.owed)
    ((_, line),) = outlet.owed
    assert json.loads(line)["result"]["content"][0]["text"] == "echo did not begin within 0.01 s"
    assert eventually(lambda: late.cancelled and "0 waiting" in repr(main)), "it has left the queue, after its answer"
    assert main.pump() == 0
    made.add(echo, timeout=WAIT, executor=main, replace=True)
    quick.route = made.get("echo").route
    assert quick.route.start is not None
    quick.route.start(quick)
    assert main.pump() == 1 and not quick.cancelled


def test_ctrl_c_in_a_tool_is_its_error_and_is_known_to_the_exchange() -> None:
    def struck() -> None:
        """Is struck."""
        raise KeyboardInterrupt

    made = tools()
    made.add(struck)
    call = exchange(params={"name": "struck"})
    assert read(made.get("struck").serve(call))["isError"] and call.interrupted


def test_the_context_of_another_copy_of_this_package_is_refused() -> None:
    def ask(ctx: Any) -> str:
        raise NotImplementedError

    ask.__annotations__["ctx"] = type("Context", (), {"__module__": "lib.wire.server.context"})
    words = r"parameter 'ctx': this Context is from lib.wire, and the server from minimcp: import both from one$"
    with pytest.raises(TypeError, match=words):
        added(ask)
    ask.__annotations__["ctx"] = type("Context", (), {"__module__": "plans.context", "__init__": lambda self: None})
    with pytest.raises(TypeError, match="parameter 'ctx': (?!this Context)"):
        added(ask)
