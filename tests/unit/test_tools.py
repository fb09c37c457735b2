"""Tools beyond the interaction tests: messages of registration, and conversion of values."""

from __future__ import annotations

import logging
from typing import Any, List

import pytest

from minimcp import CallToolResult, ResourceLink, Text, ToolError
from minimcp.protocol.versions import BY_NAME
from minimcp.server.registry import Registry
from minimcp.server.tools import RegisteredTool, blocks_of, error_result

from ..answering import R1, R4, R5
from ..rows import for_each
from ..support import WAIT, eventually
from .requests import answered, answers, config, exchange, read, registry


def echo(text: str = "") -> str:
    """Echo."""
    return text


def added(function: Any = echo, **options: Any) -> RegisteredTool:
    return RegisteredTool(config(), function, options)


def listed(made: Registry) -> Any:
    return [tool["name"] for tool in answered(made, "tools/list")["tools"]]


@pytest.mark.requirement("TOOL-09", "TOOL-10", "M:TOOL-13")
def test_names_in_other_letters_are_other_names_and_lists_are_new_objects() -> None:
    made = registry()
    for name in ("Foo", "foo", "FOO"):
        made.add("tool", echo, {"name": name})
        with pytest.raises(ValueError, match=name):
            made.add("tool", echo, {"name": name})
    assert listed(made) == ["Foo", "foo", "FOO"]
    assert repr(made.tools.items["foo"]).startswith("<RegisteredTool 'foo' = echo (")
    made.remove("tool", "foo")
    assert listed(made) == ["Foo", "FOO"]
    with pytest.raises(KeyError):
        made.remove("tool", "foo")


def nameless() -> Any:
    def inner() -> str:
        return ""

    inner.__name__ = ""
    return inner


@pytest.mark.requirement("TOOL-05", "JSCH-06", "M:SCH-11")
@for_each(
    ("options", "kind", "text"),
    [
        ({"timeout": float("nan")}, ValueError, "timeout"),
        ({"output_schema": {}, "structured": False}, ValueError, "contradict"),
        ({"input_schema": {"type": 5}}, ValueError, "type"),
        ({"output_schema": {"type": "nothing"}}, ValueError, "type"),
        ({"icons": ["https://example.com"]}, TypeError, "icons"),
        ({"scopes": (5,)}, ValueError, "a scope must be a str without spaces or quotes, not 5"),
        (
            {"scopes": ("a b",)},
            ValueError,
            "a scope must be a str without spaces or quotes, not 'a b'",
        ),
        ({"function": nameless()}, TypeError, "name"),
    ],
)
def test_registrations_that_are_rejected(options: Any, kind: Any, text: str) -> None:
    made, given = registry(), dict(options)
    with pytest.raises(kind, match=text):
        made.add("tool", given.pop("function", echo), given)
    assert not made.tools.items


@pytest.mark.requirement("SEED-26", "TOOL-07", "TOOL-08", "M:TOOL-13", "X-13")
def test_registrations_that_log_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def silent() -> str:
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    made = registry()
    made.add("tool", silent, {})
    made.add("tool", echo, {})
    assert caplog.messages == ["tool silent has no description: a model sees only its name"]
    for odd in ("two words", "x" * 46, "a\nb", "é"):
        made.add("tool", echo, {"name": odd})
        assert "use 1 to 45" in caplog.messages[-1] and "\n" not in caplog.messages[-1]
        assert caplog.records[-1].name == "minimcp.hosts"
    for good in ("x" * 45, "a-B_1.c"):
        made.add("tool", echo, {"name": good})
    made.add("tool", silent, {"name": "described", "description": "Described."})
    assert len(caplog.records) == 5


def test_names_that_are_one_to_a_host_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    def bake(größe: int) -> str:
        """Bake."""
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    made = registry()
    for name in ("a.b", "c.d", "e_f"):
        made.add("tool", echo, {"name": name})
    assert not caplog.records
    made.add("tool", echo, {"name": "a_b"})
    assert caplog.messages == ["tool a_b is called 'a_b' by some hosts, as is 'a.b': rename one"]
    made.add("tool", echo, {"name": "a_b", "replace": True})
    made.remove("tool", "c.d")
    made.add("tool", echo, {"name": "c_d"})
    assert len(caplog.records) == 1
    made.add("tool", bake, {})
    assert (
        "has the parameter 'größe', and some hosts drop a tool with such a name"
        in caplog.messages[-1]
    )


def test_a_server_that_has_nothing_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    made = registry()
    made.add("prompt", echo, {})
    made.warn_if_empty()
    assert not caplog.records
    registry().warn_if_empty()
    assert "has no tools, resources or prompts" in caplog.messages[-1]


def test_the_time_in_which_it_waits_to_begin_is_bounded_too() -> None:
    made = registry()
    main = made.feature("executors").main
    made.add("tool", echo, {"timeout": 0.01, "executor": "main"})
    late, quick = (exchange(params={"name": "echo"}, of=made.config) for _ in range(2))
    enqueue = made.tools.items["echo"].route.enqueue
    assert enqueue is not None
    enqueue(late)
    assert eventually(lambda: answers(late))
    assert answers(late)[0]["result"]["content"][0]["text"] == "echo did not begin within 0.01 s"
    assert eventually(lambda: late.token.cancelled and "0 waiting" in repr(main)), (
        "it has left the queue, after its answer"
    )
    assert main.pump() == 0
    made.add("tool", echo, {"timeout": WAIT, "executor": "main", "replace": True})
    quick.route = made.tools.items["echo"].route
    assert quick.route.enqueue is not None
    quick.route.enqueue(quick)
    assert main.pump() == 1 and not quick.token.cancelled


def test_the_context_of_another_copy_of_this_package_is_refused() -> None:
    def ask(ctx: Any) -> str:
        raise NotImplementedError

    for module, words in (
        (
            "lib.wire.server.context",
            "this Context is from lib.wire, but the server is from minimcp: import both from",
        ),
        ("plans.context", "(?!this Context)"),
    ):
        ask.__annotations__["ctx"] = type(
            "Context", (), {"__module__": module, "__init__": lambda self: None}
        )
        with pytest.raises(TypeError, match=f"parameter 'ctx': {words}"):
            added(ask)


# ------------------------------------------------------------ results


def result(value: Any, revision: str = R4, annotation: Any = None, **options: Any) -> Any:
    """Return the sent result of a tool that returns this value, with this annotation and these
    options."""

    def function() -> Any:
        return value

    function.__annotations__ = {} if annotation is None else {"return": annotation}
    return read(
        added(function, **options).handle(exchange(params={"name": "function"}, revision=revision))
    )


def test_blocks_and_values() -> None:
    text = Text("a")
    assert blocks_of(text) == [text]
    assert blocks_of([text, "b"]) == [text, Text("b")] == blocks_of((text, "b"))
    for value in ([], ["a"], None, "a", [1, 5], {"a": text}):
        assert blocks_of(value) is None, value
    assert blocks_of([], promised=True) == [] == blocks_of(None, promised=True)
    assert blocks_of(["a"], promised=True) == [text]
    assert blocks_of([5], promised=True) is None and blocks_of("a", promised=True) is None


LINK, LINK_WIRE = ResourceLink("a:b", "b"), {"type": "resource_link", "uri": "a:b", "name": "b"}


@for_each(
    ("value", "wrapped"), [({"a": 1}, {"a": 1}), ([1], {"result": [1]}), (None, {"result": None})]
)
def test_a_whole_result_fits_its_revision(value: Any, wrapped: Any) -> None:
    whole = CallToolResult([], structured_content=value)
    assert [
        result(whole, revision).get("structuredContent", "none") for revision in (R1, R4, R5)
    ] == ["none", wrapped, value]


def test_a_handwritten_schema_is_checked() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    assert result({"a": 1}, output_schema=schema)["structuredContent"] == {"a": 1}
    for value, words in (
        ({"a": 2}, "returned an invalid value"),
        (Text("a"), "returned an invalid value"),
    ):
        failed = result(value, output_schema=schema)
        assert failed["isError"] and words in failed["content"][0]["text"]
    assert result(CallToolResult([Text("a")]), output_schema=schema) == {
        "content": [{"type": "text", "text": "a"}]
    }


def test_blocks_fit_a_schema_that_takes_any_object() -> None:
    """``list[Any]`` has such a schema: blocks are sent as blocks, and as values."""
    found = result([LINK, "c"], annotation=List[Any])
    content = [LINK_WIRE, {"type": "text", "text": "c"}]
    assert found == {"content": content, "structuredContent": {"result": [LINK_WIRE, "c"]}}
    assert result(LINK, R5, output_schema={"type": "object"})["structuredContent"] == LINK_WIRE
    assert "structuredContent" not in result([LINK], R1, annotation=List[Any])


def test_failures() -> None:
    def fails() -> str:
        raise ToolError("", content=[])

    found = read(added(fails).handle(exchange()))
    assert found["isError"] and found["content"] == []
    for revision in (R4, R5):
        assert ("resultType" in read(error_result("why", BY_NAME[revision], config()))) is (
            revision == R5
        )
