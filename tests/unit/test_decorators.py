"""Plain classes as handlers: marked methods, found on the class."""

from __future__ import annotations

import inspect
import re
from typing import Any, List

import pytest

import minimcp
from minimcp import Apps, Context, Server, Tasks
from minimcp.server.options import COMMON_OPTIONS, MARKS, OPTIONS, has_marks, marked

from ..inside import config_of, feature_of


class Notes:
    def __init__(self) -> None:
        self.notes: List[str] = []

    @property
    def costly(self) -> str:
        raise AssertionError("a property was evaluated")

    @minimcp.tool
    def add(self, text: str) -> int:
        self.notes.append(text)
        return len(self.notes)

    @minimcp.tool(name="wipe", title="Wipe", annotations={"destructive_hint": True})
    def clear(self, ctx: Context) -> None:
        ctx.info("wiped")
        self.notes.clear()

    @minimcp.resource("notes://{number}", mime_type="text/markdown")
    def read(self, number: int) -> str:
        return self.notes[number - 1]

    @minimcp.prompt
    def summary(self, style: str = "short") -> str:
        return f"Sum up in a {style} way: {self.notes}"

    @staticmethod
    @minimcp.tool
    def version() -> str:
        return "7"

    @minimcp.tool
    @classmethod
    def kind(cls) -> str:
        return cls.__name__

    def helper(self) -> None:
        """Not marked."""


class Counted(Notes):
    def add(self, text: str) -> int:
        return 2 * super().add(text)

    clear = None  # type: ignore[assignment]

    @minimcp.tool(name="both")
    @minimcp.resource("counted://both", name="both")
    def both(self) -> str:
        return "both"


def names(server: Server) -> Any:
    with minimcp.connect(server) as client:
        return (
            [tool.name for tool in client.list_tools()],
            [each.uri_template for each in client.list_resource_templates()],
            [each.name for each in client.list_prompts()],
        )


def test_an_object_is_served() -> None:
    server = Server.of(Notes())
    assert (server.name, server.version) == ("notes", "0")
    assert names(server) == (["add", "wipe", "version", "kind"], ["notes://{number}"], ["summary"])
    with minimcp.connect(server) as client:
        assert client.call_tool("add", {"text": "milk"}).value == 1
        read = client.read_resource("notes://1").contents[0]
        assert (read.text, read.mime_type) == ("milk", "text/markdown")
        assert "milk" in client.get_prompt("summary").messages[0].text
        client.call_tool("wipe")
        assert client.call_tool("version").text == "7" and client.call_tool("kind").text == "Notes"
        tool = next(each for each in client.list_tools() if each.name == "wipe")
        assert (
            tool.title == "Wipe"
            and tool.annotations is not None
            and tool.annotations.destructive_hint is True
        )


def test_a_subclass_inherits_marks_and_may_take_methods_away() -> None:
    server = Server("two", Counted(), version="3")
    assert names(server)[0] == ["add", "version", "kind", "both"] and server.version == "3"
    with minimcp.connect(server) as client:
        assert client.call_tool("add", {"text": "x"}).value == 2
        assert (
            client.call_tool("both").text == client.read_resource("counted://both").text == "both"
        )
        assert client.call_tool("kind").text == "Counted"


def test_a_failed_registration_of_an_object_registers_nothing() -> None:
    class Half:
        @minimcp.resource("half://a")
        def page(self) -> str:
            return ""

        @minimcp.app("ui://half")
        def shown(self) -> str:
            return ""

        @minimcp.prompt
        def ask(self) -> str:
            return ""

        @minimcp.tool
        def good(self) -> str:
            return ""

        @minimcp.tool
        async def bad(self) -> str:
            return ""

    server = Server("x", extensions=[minimcp.Apps()])
    with pytest.raises(TypeError, match="async"):
        server.add(Notes(), Half())
    with minimcp.connect(server) as client:
        assert client.list_tools() == client.list_resources() == client.list_prompts() == []


def test_values_without_decorated_methods() -> None:
    for wrong in (
        lambda: minimcp.tool("name"),
        lambda: minimcp.prompt("name"),
        lambda: minimcp.tool(5),
        lambda: minimcp.tool(Notes),
        lambda: minimcp.resource(Notes.helper),
        lambda: minimcp.resource("a://b")(5),
    ):
        with pytest.raises(TypeError):
            wrong()  # type: ignore[no-untyped-call]
    assert has_marks(Notes) and has_marks(Counted) and not has_marks(dict)
    assert (
        not hasattr(Notes.helper, MARKS)
        and [mark.kind for _, mark in marked(Notes())].count("tool") == 4
    )


def test_serve_takes_the_options_of_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        TypeError,
        match=r"serve\(...\) has no option colour=: the options are host, port, path, legacy_sse",
    ):
        minimcp.serve(Notes(), colour="pool")
    with pytest.raises(TypeError, match=r"serve\(...\) has no option prot=: did you mean port="):
        minimcp.serve(Notes(), "http", prot=8000)
    seen: List[Any] = []
    monkeypatch.setattr(
        minimcp.Server, "run", lambda of, *given, **named: seen.append((of.name, given, named))
    )
    minimcp.serve(Notes(), "http", port=0, legacy_sse=True)
    options = {"host": None, "port": 0, "path": None, "legacy_sse": True}
    assert seen == [("notes", ("http",), options)]


def test_each_option_is_declared_by_the_feature_that_reads_it() -> None:
    """The classes for type checkers, the output of `help` and the run-time checks agree."""
    extensions = [Apps(), Tasks()]
    server = Server("x", extensions=extensions)
    own = ("prompts", "resources", "access", "visibility", "heartbeats", "max_result")
    features = [feature_of(server, name) for name in own]
    features += [feature for feature in config_of(server).features if feature not in features]
    declared = [name for feature in features for name in feature.options]
    known = {*COMMON_OPTIONS, *declared}
    named = {name for options in OPTIONS.values() for name in options.__annotations__}
    assert named == known
    for kind, options in OPTIONS.items():
        text = inspect.getdoc(getattr(Server, kind)) or ""
        lines = re.findall(r"^    ([a-z_, ]+): ", text, re.M)
        explained = {name for line in lines for name in line.split(", ")}
        for name in options.__annotations__:
            assert name in explained, f"{kind} does not explain {name}"
