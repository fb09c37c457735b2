"""Tools where the interaction tests do not reach: what registration says, and what is told of names and places."""

from __future__ import annotations

import functools
import logging
from typing import Any, List, Literal

import pytest

import minimcp
from minimcp import Audio, CallToolResult, EmbeddedResource, Image, ResourceLink, Text, ToolError
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME
from minimcp.server.executors import Main
from minimcp.server.registered import where
from minimcp.server.tools import RegisteredTool, Results, Tools, blocks_of, error_result, fit, wrapped_schema
from minimcp.types import Annotations, Icon, TextResourceContents, ToolAnnotations, UnknownContent

from ..answering import R1, R3, R4, R5, REVISIONS
from ..support import WAIT, eventually
from .requests import answers, config, exchange, read


def echo(text: str = "") -> str:
    """Echo."""
    return text


def tools(told: Any = lambda: None) -> Tools:
    return Tools(config(), told)


def added(function: Any = echo, **options: Any) -> RegisteredTool:
    made = tools()
    made.add(function, **options)
    return made.get(options.get("name") or function.__name__)


def listed(made: Tools) -> Any:
    return [tool["name"] for tool in read(made.pages.serve(exchange("tools/list")))["tools"]]


def test_where_a_function_stands() -> None:
    assert where(echo).startswith("echo (") and "test_tools.py:" in where(echo)
    assert where(print) == "print" and where(5) == "5"
    assert repr(added()).startswith("<RegisteredTool 'echo' = echo (")

    class Notes:
        def add(self) -> str:
            return ""

    assert "Notes.add (" in where(Notes().add)


@pytest.mark.requirement("TOOL-09", "TOOL-10", "M:TOOL-13")
def test_names_in_other_letters_are_other_names() -> None:
    made = tools()
    for name in ("Foo", "foo", "FOO"):
        made.add(echo, name=name)
        with pytest.raises(ValueError, match=name):
            made.add(echo, name=name)
    assert listed(made) == ["Foo", "foo", "FOO"]


def test_a_change_is_told_and_the_list_is_made_anew() -> None:
    told: List[int] = []
    made = tools(lambda: told.append(1))
    made.add(echo)
    assert listed(made) == ["echo"] and made.get("echo").function is echo
    made.add(echo, replace=True)
    made.remove("echo")
    assert listed(made) == [] and told == [1, 1, 1]
    for gone in (made.get, made.remove):
        with pytest.raises(KeyError):
            gone("echo")


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
        assert made.table.all() == []
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


def test_the_time_in_which_it_waits_to_begin_is_bounded_too() -> None:
    made = tools()
    main = Main()
    made.add(echo, timeout=0.01, executor=main)
    of = config(main=main)
    late, quick = (exchange(params={"name": "echo"}, of=of) for _ in range(2))
    start = made.get("echo").route.start
    assert start is not None
    start(late)
    assert eventually(lambda: answers(late))
    assert answers(late)[0]["result"]["content"][0]["text"] == "echo did not begin within 0.01 s"
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


# ------------------------------------------------------------ results

NEW = {"type": "new_thing", "x": 1}


def result(value: Any, revision: str = R4, **options: Any) -> Any:
    return read(Results(**options).make(value, BY_NAME[revision], config()))


def test_blocks_and_values() -> None:
    text = Text("a")
    assert blocks_of(text) == [text]
    assert blocks_of([text, "b"]) == [text, Text("b")] == blocks_of((text, "b"))
    for value in ([], ["a"], None, "a", [text, 5], {"a": text}):
        assert blocks_of(value) is None, value
    assert blocks_of([], promised=True) == [] == blocks_of(None, promised=True)
    assert blocks_of(["a"], promised=True) == [text]
    assert blocks_of([5], promised=True) is None and blocks_of("a", promised=True) is None


@pytest.mark.requirement("TOOL-39")
def test_each_revision_gets_what_it_knows() -> None:
    hints = Annotations(priority=1)
    blocks = [
        Text("a"), Image(b"i", "image/png"), Audio(b"a", "audio/wav", annotations=hints),
        ResourceLink("file:///x", "x", annotations=hints), UnknownContent(NEW),
    ]
    for revision in REVISIONS:
        kinds = [fit(block, BY_NAME[revision])["type"] for block in blocks]
        audio = "audio" if revision != R1 else "resource"
        link = "resource_link" if revision in (R3, R4, R5) else "text"
        assert kinds == ["text", "image", audio, link, "new_thing"]
    old = [fit(block, BY_NAME[R1]) for block in blocks]
    assert old[2] == {
        "type": "resource", "resource": {"uri": "audio:inline", "mimeType": "audio/wav", "blob": "YQ=="},
        "annotations": {"priority": 1},
    }
    assert old[3] == {"type": "text", "text": "x: file:///x", "annotations": {"priority": 1}} and old[4] == NEW
    inside = fit(EmbeddedResource(TextResourceContents("file:///t", "t")), BY_NAME[R1])
    assert inside["resource"] == {"uri": "file:///t", "text": "t"}


def test_a_schema_that_is_no_objects_is_wrapped() -> None:
    plain = {"type": "object", "properties": {}}
    assert wrapped_schema(plain) == plain and wrapped_schema(plain) is not plain
    assert wrapped_schema({"type": "array", "$defs": {"a": {}}, "definitions": {"b": {}}, "$schema": "s"}) == {
        "type": "object", "properties": {"result": {"type": "array"}}, "required": ["result"],
        "x-minimcp-wrapped": True, "x-fastmcp-wrap-result": True, "$defs": {"a": {}}, "definitions": {"b": {}},
        "$schema": "s",
    }


def test_typed_objects_are_values_too() -> None:
    icon = Icon("https://example.com/i.png", "image/png")
    assert result(icon, R5)["structuredContent"] == icon.to_wire()


def test_a_handwritten_schema_is_checked() -> None:
    options: Any = {"schema": {"type": "object"}, "check": lambda value: None if value == {"a": 1} else "no"}
    assert result({"a": 1}, **options)["structuredContent"] == {"a": 1}
    with pytest.raises(ValueError, match="no"):
        result({"a": 2}, **options)
    with pytest.raises(TypeError, match="annotate"):
        result(Text("a"), **options)
    assert result(CallToolResult([Text("a")]), **options) == {"content": [{"type": "text", "text": "a"}]}


def test_blocks_fit_a_schema_that_takes_any_object() -> None:
    """As ``list[Any]`` makes one: they are sent as blocks, and as values."""
    link = {"type": "resource_link", "uri": "a:b", "name": "b"}
    found = result([ResourceLink("a:b", "b"), "c"], schema={"type": "array"})
    assert found == {"content": [link, {"type": "text", "text": "c"}], "structuredContent": {"result": [link, "c"]}}
    assert result(ResourceLink("a:b", "b"), R5, schema={"type": "object"})["structuredContent"] == link
    assert "structuredContent" not in result([ResourceLink("a:b", "b")], R1, schema={"type": "array"})


def test_text_is_text_unless_it_is_wanted_otherwise() -> None:
    text = {"type": "text", "text": "\u00e9"}
    assert result("\u00e9") == {"content": [text]} == result(["\u00e9"], blocks=True)
    assert result({"a": 1}, structured=False) == {"content": [{"type": "text", "text": '{"a":1}'}]}
    assert result("a", structured=True)["structuredContent"] == {"result": "a"}


def test_failures() -> None:
    failed = {"content": [{"type": "text", "text": "why"}], "isError": True}
    for revision in (R4, R5):
        found = read(error_result("why", BY_NAME[revision], config()))
        assert {key: found[key] for key in failed} == failed and ("resultType" in found) is (revision == R5)
    errors: List[ToolError] = [ToolError("why"), ToolError("", content=[]), ToolError("", content=[5])]

    def fails() -> str:
        """Fail."""
        raise errors[0]

    tool = added(fails)
    assert read(tool.serve(exchange())) == failed
    errors.pop(0)
    assert read(tool.serve(exchange())) == {"content": [], "isError": True}
    errors.pop(0)
    assert "ToolError takes content blocks" in read(tool.serve(exchange()))["content"][0]["text"]
