"""One server that offers the features of another: which ones are visible, which options apply, and
what is rejected."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp import Client, Context, RpcError, Serial, Server, ToolError

from ..answering import R1, R4, R5
from ..support import WAIT, eventually


def text() -> str:
    """A short text."""
    return "text"


def other() -> str:
    """Another text."""
    return "other"


def fail() -> str:
    """Fail."""
    raise ValueError("secret")


def about(ctx: Context) -> Dict[str, Any]:
    """Return the name of the server and a resource that it can read."""
    return {"server": ctx.server.name, "read": ctx.read_resource("a:own").text}


def brief(word: str) -> str:
    """Brief."""
    return word


def names(client: Client) -> Dict[str, List[str]]:
    return {
        "tools": [each.name for each in client.list_tools()],
        "prompts": [each.name for each in client.list_prompts()],
        "resources": [each.uri for each in client.list_resources()],
        "templates": [each.uri_template for each in client.list_resource_templates()],
    }


def library() -> Server:
    """A server with one thing of each kind."""
    made = Server("library", version="7", mask_errors=False)
    for tool in (text, fail, about):
        made.add_tool(tool)
    made.add_prompt(brief, complete={"word": ["one", "two"]})
    made.add_resource(text, "a:text")
    made.add_resource(brief, "a:family/{word}", complete={"word": ["three"]})
    made.method("vendor/thing")(lambda params: {"thing": True})
    return made


@pytest.mark.parametrize("revision", [R1, R4, R5])
def test_visible_features_of_a_mounted_server(revision: str) -> None:
    host, below = Server("host"), library()
    host.add_tool(other)
    host.add_resource(text, "a:own")
    host.mount(below, prefix="lib")
    with minimcp.connect(host, revision=revision) as client:
        assert names(client) == {
            "tools": ["other", "lib__text", "lib__fail", "lib__about"],
            "prompts": ["lib__brief"],
            "resources": ["a:own", "a:text"],
            "templates": ["a:family/{word}"],
        }
        assert (
            client.call_tool("lib__text").text == "text"
            and client.read_resource("a:text").text == "text"
        )
        assert client.get_prompt("lib__brief", {"word": "w"}).messages[0].content.text == "w"  # type: ignore[union-attr]
        assert client.read_resource("a:family/x").text == "x"
        assert client.complete("word", "t", prompt="lib__brief").values == ["two"]
        assert client.complete("word", "", template="a:family/{word}").values == ["three"]
        assert client.request("vendor/thing", {})["thing"] is True
        result = client.request("tools/call", {"name": "lib__about"})
        assert '"host"' in result["content"][0]["text"]
        if revision == R5:
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "host"
        for wrong in ("text", "lib_text", "lib__", "lib__other"):
            with pytest.raises(RpcError, match="Unknown tool"):
                client.call_tool(wrong)
    with minimcp.connect(below, revision=revision) as client:
        assert names(client)["tools"] == ["text", "fail", "about"], "which still serves by itself"


def test_the_options_of_the_mounting_server_hold() -> None:
    host, below = Server("host", mask_errors=True, strict_arguments=True), library()

    @below.tool
    def strict(number: int) -> str:
        return "ok"

    @below.tool(timeout=6 * WAIT, requires="sampling")
    def slow(ctx: Context) -> str:
        return "quick"

    host.mount(below, prefix="lib")
    with minimcp.connect(host, revision=R1) as client:
        with pytest.raises(ToolError, match="reference"):
            client.call_tool("lib__fail")
        with pytest.raises(RpcError, match="lib__strict: "):
            client.call_tool("lib__strict", {"number": "x"})
        with pytest.raises(ToolError, match="'lib__slow' needs a client with sampling"):
            client.call_tool("lib__slow")
    with minimcp.connect(host, revision=R1, sample=str) as client:
        assert client.call_tool("lib__slow").text == "quick"
    with minimcp.connect(below, revision=R1) as client:
        with pytest.raises(ToolError, match="secret"):
            client.call_tool("fail")
        with pytest.raises(ToolError, match="number"):
            client.call_tool("strict", {"number": "x"})


def test_middleware_of_each_server_between_client_and_handler() -> None:
    top, middle, low = Server("top"), Server("middle"), library()
    seen: List[str] = []

    def layer(name: str) -> Callable[[Context, Callable[[], Any]], Any]:
        def function(ctx: Context, call_next: Callable[[], Any]) -> Any:
            seen.append(name)
            return call_next()

        return function

    middle.mount(low, prefix="low")
    top.mount(middle, prefix="mid")
    for server in (low, middle, top):
        server.middleware(layer(server.name))
    top.middleware(layer("second of top"))
    with minimcp.connect(top) as client:
        for call in (
            lambda: client.call_tool("mid__low__text"),
            lambda: client.get_prompt("mid__low__brief", {"word": ""}),
            lambda: client.read_resource("a:text"),
            lambda: client.read_resource("a:family/x"),
            lambda: client.complete("word", "", prompt="mid__low__brief"),
            lambda: client.request("vendor/thing"),
        ):
            call()
            assert seen == ["top", "second of top", "middle", "library"]
            seen.clear()
    with minimcp.connect(middle) as client:
        client.call_tool("low__text")
        assert seen == ["middle", "library"]


def test_servers_that_cannot_be_mounted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    a, b, c = Server("a"), Server("b"), Server("c")
    with pytest.raises(ValueError, match="into itself"):
        a.mount(a, prefix="a")
    a.mount(b, prefix="b")
    b.mount(c, prefix="c")
    for above in (b, a):
        with pytest.raises(ValueError, match="into itself"):
            c.mount(above, prefix="x")
    with pytest.raises(ValueError, match="must not be empty"):
        a.mount(c, prefix="")
    for wrong in ({"other": "b", "prefix": "x"}, {"other": Server("d"), "prefix": None}):
        with pytest.raises(TypeError, match="mount takes a server"):
            a.mount(**wrong)  # type: ignore[arg-type]
    below = library()
    ways: List[Callable[[Server], Any]] = [
        lambda host: host.add_tool(text, name="lib__text"),
        lambda host: host.add_prompt(brief, name="lib__brief"),
        lambda host: host.add_resource(text, "a:text"),
        lambda host: host.add_resource(brief, "a:family/{word}"),
        lambda host: host.method("vendor/thing")(lambda params: {}),
    ]
    for add in ways:
        host = Server("host")
        add(host)
        with pytest.raises(ValueError, match=r"already exists: .*; defined again: .*"):
            host.mount(below, prefix="lib")
        below.add_tool(other)
        below.remove_tool("other")
        with minimcp.connect(host) as client:
            listed = client.request("tools/list")["tools"] if "tools" in client.capabilities else []
            assert [tool["name"] for tool in listed] in ([], ["lib__text"]), "nothing was mounted"
    host = Server("host")
    host.mount(below, prefix="lib")
    with pytest.raises(ValueError, match="the tool 'lib__text' already exists"):
        host.add_tool(other, name="lib__text")
    host.add_tool(other, name="lib__later")
    caplog.clear()
    below.add_tool(text, name="later")
    with minimcp.connect(host) as client:
        assert client.call_tool("lib__later").text == "other", "what was there first stays"
        below.add_tool(text, name="more")
        assert caplog.text.count("tool lib__later has two functions: other (") == 1, (
            "it is told once"
        )
        assert "is hidden" in caplog.text
        host.remove_tool("lib__later")
        assert client.call_tool("lib__later").text == "text", "until it goes"


def test_mounting_does_not_keep_the_outer_server_alive() -> None:
    below = library()
    host = Server("host")
    host.mount(below, prefix="x")
    gone = weakref.ref(host)
    del host
    assert eventually(
        lambda: gc.collect() >= 0 and gone() is None
    )  # another thread may be collecting
    below.add_tool(other)
    second = Server("second")
    second.mount(below, prefix="y")
    with minimcp.connect(second) as client:
        assert "y__other" in names(client)["tools"]


def test_things_run_where_their_own_server_says() -> None:
    worker = Serial()
    host, below = Server("host"), Server("below", executor=worker)
    seen: List[str] = []

    def here(word: str = "") -> str:
        seen.append(threading.current_thread().name)
        return ""

    def complete(value: str) -> List[str]:
        return [here()]

    below.add_tool(here)
    below.add_prompt(here, complete={"word": complete})
    below.add_resource(lambda: here(), "a:text", name="text")
    below.add_resource(here, "a:family/{word}", complete={"word": complete})
    below.method("vendor/here")(lambda params: {"here": here()})
    host.mount(below, prefix="b")
    host.add_tool(here)
    host.add_resource(here, "b:family/{word}", complete={"word": complete})
    with minimcp.connect(host) as client:
        for call in (
            lambda: client.call_tool("b__here"),
            lambda: client.get_prompt("b__here"),
            lambda: client.read_resource("a:text"),
            lambda: client.read_resource("a:family/x"),
            lambda: client.complete("word", "", prompt="b__here"),
            lambda: client.complete("word", "", template="a:family/{word}"),
            lambda: client.request("vendor/here"),
        ):
            call()
        assert seen == ["minimcp-serial"] * 7
        client.call_tool("here")
        client.read_resource("b:family/x")
        client.complete("word", "", template="b:family/{word}")
        with pytest.raises(minimcp.ResourceNotFound):
            client.read_resource("c:family/x")
        with pytest.raises(minimcp.InvalidParams):
            client.complete("word", "", template="c:family/{word}")
        assert len(seen) == 10 and "minimcp-serial" not in seen[7:]
    for server in (host, below):
        server.close()  # the thread ends with the last server that names it
    assert eventually(
        lambda: "minimcp-serial" not in [thread.name for thread in threading.enumerate()]
    )


def test_main_is_where_the_mounting_server_is_pumped() -> None:
    host, below = Server("host"), Server("below")
    seen: List[threading.Thread] = []

    @below.tool(executor="main")
    def here() -> str:
        seen.append(threading.current_thread())
        return "done"

    host.mount(below, prefix="b")
    with minimcp.connect(host) as client:
        called = client.submit(client.call_tool, "b__here")
        assert host.pump(WAIT) == 1 and below.pump() == 0
        assert called.result(WAIT).text == "done" and seen == [threading.current_thread()]
    with minimcp.connect(below) as client:
        called = client.submit(client.call_tool, "here")
        assert below.pump(WAIT) == 1 and host.pump() == 0 and called.result(WAIT).text == "done"
