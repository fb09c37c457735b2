"""What a server is put together of, as clients see it: the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import json
from queue import SimpleQueue
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import pytest

import minimcp
from minimcp import CapabilityNotSupported, Client, MethodNotFound, RpcError, ToolError

from ..answering import R1, R2, R4, R5
from ..support import WAIT, outlives_the_test
from .composed_server import EXTENSIONS, build, needs
from .links import LINKS, served
from .raw_client import RawClient

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Link(NamedTuple):
    """One way to the server, and a client that has gone it; what it hears comes in the queue."""

    revision: str
    client: Client
    heard: "SimpleQueue[Any]"

    def value(self, tool: str, meta: Any = None, **arguments: Any) -> Any:
        """What a tool returns, from its text: there every revision has it."""
        params: Dict[str, Any] = {"name": tool, "arguments": arguments}
        result = self.client.request("tools/call", params if meta is None else {**params, "_meta": meta})
        return json.loads(result["content"][0]["text"])

    def runs(self) -> List[str]:
        """What the middleware has seen since this was last asked, without this question."""
        told: List[str] = self.value("told", clear=True)
        return told[:-1]

    def own(self, result: Dict[str, Any]) -> Dict[str, Any]:
        """A result without what every result of the newest revision carries."""
        return {key: value for key, value in result.items() if key not in ("resultType", "_meta")}


def opened(target: Any, revision: str) -> Link:
    heard: SimpleQueue[Any] = SimpleQueue()
    client = minimcp.connect(
        target, revision=revision, timeout=WAIT, elicit=lambda question: {"name": "Ada"},
        on_log=lambda message: heard.put((message.level, message.logger, message.data)),
        on_tools_changed=lambda: heard.put("tools"), on_resource_updated=heard.put, extensions={"com.example/x": {}},
    )
    return Link(revision, client, heard)


@pytest.fixture(scope="module", params=LINKS, ids="-".join)
def shared(request: pytest.FixtureRequest) -> Iterator[Tuple[str, Optional[Link]]]:
    """A revision, and over stdio a client that many tests share."""
    way, revision = request.param
    if way == "memory":
        yield revision, None
        return
    with outlives_the_test():
        link = opened(served(way, "composed_server"), revision)
        for change in ("grow", "shrink"):  # the threads that serve the client are there from the first time on
            link.client.call_tool(change)
            link.heard.get(timeout=WAIT)
        if revision not in (R1, R2):
            link.client.call_tool("ask")
    with link.client:
        yield revision, link


@pytest.fixture
def link(shared: Tuple[str, Optional[Link]]) -> Iterator[Link]:
    revision, link = shared
    if link is not None:
        yield link
        return
    link = opened(build(), revision)
    with link.client:
        yield link


def test_middleware(link: Link) -> None:
    client = link.client
    link.runs()
    client.get_prompt("lib__brief", {"tone": "plain"})
    client.read_resource("lib://text")
    client.complete("tone", "p", prompt="lib__brief")
    client.request("vendor/echo", {})
    client.list_tools()
    assert link.runs() == ["prompts/get 1", "resources/read 1", "completion/complete 1", "vendor/echo 1"]
    answer, greedy = {"com.example/answer": "of its own"}, {"com.example/greedy": True}
    for method, params in (
        ("tools/call", {"name": "talk"}), ("prompts/get", {"name": "lib__brief", "arguments": {"tone": "x"}}),
        ("resources/read", {"uri": "lib://text"}),
    ):
        assert "of its own" in json.dumps(client.request(method, {**params, "_meta": answer}))
    assert link.own(client.request("vendor/echo", {"_meta": {"com.example/answer": {"a": 1}}})) == {"a": 1}
    limited = client.request("tools/call", {"name": "talk", "_meta": greedy})
    assert limited["isError"] and limited["content"][0]["text"] == "too many requests"
    with pytest.raises(RpcError, match="Internal error"):
        client.request("vendor/echo", {"_meta": greedy})
    assert len(link.runs()) == 6


def test_middleware_runs_once_in_each_round(link: Link) -> None:
    if link.revision in (R1, R2):
        with pytest.raises(ToolError):
            link.client.call_tool("ask")
        return
    link.runs()
    assert link.client.call_tool("ask").text == "hello Ada"
    assert link.runs() == (["tools/call 1", "tools/call 2"] if link.revision == R5 else ["tools/call 1"])


def test_methods_of_its_own(link: Link) -> None:
    client = link.client
    assert link.own(client.request("vendor/echo", {"a": [1]})) == {"method": "vendor/echo", "got": {"a": [1]}}
    with pytest.raises(MethodNotFound):
        client.request("vendor/other", {})


def test_a_mounted_server_and_its_changes(link: Link) -> None:
    client, heard = link.client, link.heard
    assert "lib__text" in [tool.name for tool in client.list_tools()]
    assert [prompt.name for prompt in client.list_prompts()] == ["lib__brief"]
    assert client.call_tool("lib__text").text == client.read_resource("lib://text").text == "text"
    assert client.complete("tone", "f", prompt="lib__brief").values == ["formal"]
    with outlives_the_test():  # the thread of the client's stream, which this replaces
        client.subscribe("lib://text")
    assert client.call_tool("grow").text == "grown"
    assert heard.get(timeout=WAIT) == "tools" and client.call_tool("lib__grown").text == "grown"
    assert client.call_tool("shrink").text == "shrunk"
    assert {heard.get(timeout=WAIT), heard.get(timeout=WAIT)} == {"tools", "lib://text"}
    assert "lib__grown" not in [tool.name for tool in client.list_tools()]
    with outlives_the_test():
        client.unsubscribe("lib://text")


def test_log_records_become_log_messages(link: Link) -> None:
    link.client.set_log_level("info")
    assert link.client.call_tool("talk").text == "said"
    messages = [link.heard.get(timeout=WAIT) for _ in range(3)]
    assert messages == [
        ("info", "composed", "5 is five"), ("notice", "composed", {"message": "noticed", "city": "Oslo"}),
        ("critical", "composed", "burning"),
    ]


@pytest.mark.requirement("M:EXT-1", "M:EXT-4", "M:EXT-9")
def test_extensions_are_declared_where_somebody_declares_them(link: Link) -> None:
    assert link.client.capabilities["extensions"] == EXTENSIONS
    assert link.client.call_tool("extended").text == "extended" and link.client.call_tool("needs").text == "needed"
    with minimcp.connect(minimcp.Server("plain", capabilities=["tools"]), revision=link.revision) as client:
        assert "extensions" not in client.capabilities, "none without being asked for"


@pytest.mark.requirement("M:APP-1", "META-03")
def test_the_meta_of_a_tool_and_a_request_arrive(link: Link) -> None:
    page = next(tool for tool in link.client.list_tools() if tool.name == "page")
    expected = {"ui": {"resourceUri": "ui://page"}, "com.example/note": 1}
    assert page.meta == (None if link.revision in (R1, R2) else expected)
    assert link.client.call_tool("page").text == "in words"
    assert link.value("meta", {"com.example/x": [1], "dev.mcp/odd": {"a": None}, "-": 0}) == {
        "com.example/x": [1], "dev.mcp/odd": {"a": None}, "-": 0,
    }


@pytest.mark.requirement("M:TRC-1", "M:TRC-2", "M:TRC-3")
def test_trace_context_arrives_untouched(link: Link) -> None:
    good = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=ada"}
    assert link.value("meta", good) == good
    odd = {"traceparent": "nonsense", "baggage": 5, "tracestate": None}
    assert link.value("meta", odd) == odd, "who reads it decides"


# ------------------------------------------------------------ messages by hand


@pytest.mark.requirement("M:EXT-3", "M:EXT-7", "M:META-16")
def test_an_extension_that_the_client_lacks() -> None:
    having = {"extensions": {"com.example/x": {}}}
    with RawClient(build(), R5, {}, capabilities={}) as client:
        missing = client.once("tools/call", name="needs")["error"]
        assert missing["code"] == -32021
        assert missing["data"] == {"requiredCapabilities": {"extensions": {"com.example/x": {}}}}
        assert client.call("extended") == "plain", "core behaviour, where that will do"
        client.capabilities = having  # each request says for itself what its client can
        assert client.call("needs") == "needed" and client.call("extended") == "extended"
        client.capabilities = {}
        assert client.call("needs") == -32021
    for revision in (R1, R4):
        with RawClient(build(), revision, {}, capabilities={}) as client:
            assert "needs a client with ext:com.example/x" in client.call("needs")[0]
        with RawClient(build(), revision, {}, capabilities=having) as client:
            assert client.call("needs") == "needed"


@pytest.mark.requirement("M:EXT-10", "M:META-17", "META-09")
def test_what_a_client_says_about_extensions_is_not_trusted() -> None:
    oddities: List[Any] = [
        None, 5, [], "com.example/x", ["com.example/x"], {"com.example/x": None}, {"com.example/x": True}, {"": {}},
        {"com.example/x": []}, {"COM.EXAMPLE/X": {}},
    ]
    for revision in (R4, R5):
        for odd in oddities:
            with RawClient(build(), revision, {}, capabilities={"extensions": odd}) as client:
                assert client.call("extended") == "plain"
        deep: Dict[str, Any] = {}
        for _ in range(100):
            deep = {"x": deep}
        with RawClient(build(), revision, {}, capabilities={"extensions": {"com.example/x": deep, "-": 1}}) as client:
            assert client.call("extended") == "extended"


@pytest.mark.requirement("M:EXT-2")
def test_identifiers_are_checked_on_both_sides() -> None:
    for wrong in ("x", "/x", "com.example/", "a b/c"):
        with pytest.raises(ValueError, match="no identifier of an extension"):
            minimcp.Server("x", extensions={wrong: {}})
        with pytest.raises(ValueError, match="no identifier of an extension"):
            minimcp.connect(minimcp.Server("x"), extensions={wrong: {}})
    plain = minimcp.Server("x")
    for register in (plain.add_tool, plain.add_prompt):
        with pytest.raises(ValueError, match="'needs': 'x' is no identifier of an extension"):
            register(needs, requires="ext:x")
    with pytest.raises(TypeError, match="settings of 'com.example/x' are an object"):
        minimcp.Server("x", extensions={"com.example/x": True})  # type: ignore[dict-item]


@pytest.mark.requirement("META-06", "META-07", "SEED-29", "M:META-12")
def test_reserved_keys_are_refused_where_an_author_writes_them() -> None:
    server = minimcp.Server("x")

    def text() -> str:
        """Text."""
        return "text"

    for key in ("dev.mcp/x", "mcp.dev/x", "not a key"):
        for register in (
            lambda meta: server.add_tool(text, meta=meta), lambda meta: server.add_prompt(text, meta=meta),
            lambda meta: server.add_resource(text, "a:b", meta=meta),
            lambda meta: minimcp.Text("x", meta=meta),
        ):
            with pytest.raises(ValueError, match=f"the meta key '{key}'"):
                register({key: 1})
    with pytest.raises(CapabilityNotSupported), minimcp.connect(server) as client:
        client.list_tools()
