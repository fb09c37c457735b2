"""Extensions, what `_meta` carries, and middleware, as clients of all five revisions see them."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Client, Context, Server, ToolError

from ..answering import R1, R2, R4, R5, REVISIONS
from ..support import WAIT
from .raw_client import RawClient

EXTENSIONS: Dict[str, Dict[str, Any]] = {"com.example/x": {"deep": {"a": 1}}, "io.modelcontextprotocol/ui": {}}
PAGE = {"ui": {"resourceUri": "ui://page"}, "com.example/note": 1}

runs: List[str] = []


def needs() -> str:
    """Needs an extension."""
    return "needed"


def build(**options: Any) -> Server:
    server = Server("extended", extensions=EXTENSIONS, **options)
    server.add_tool(needs, requires=("ext:com.example/x",))

    @server.middleware
    def count(ctx: Context, call_next: Callable[[], Any]) -> Any:
        runs.append(f"{ctx.method} {ctx.round}")
        return call_next()

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask the user once."""
        return f"hello {ctx.elicit('Your name?', {'name': str}).content['name']}"

    @server.tool
    def meta(ctx: Context) -> Dict[str, Any]:
        """The request's _meta, but for the envelope and the token."""
        own = (key for key in ctx.meta if key != "progressToken" and not key.startswith("io.modelcontextprotocol/"))
        return {key: ctx.meta[key] for key in own}

    @server.tool
    def extended(ctx: Context) -> str:
        """Use an extension, where the client has it."""
        return "extended" if ctx.client.supports("ext:com.example/x") else "plain"

    @server.tool(meta=PAGE)
    def page() -> str:
        """Has a page that some hosts show."""
        return "in words"

    return server


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    runs.clear()
    options: Dict[str, Any] = {"elicit": lambda question: {"name": "Ada"}, "extensions": {"com.example/x": {}}}
    with minimcp.connect(build(), revision=request.param, timeout=WAIT, **options) as opened:
        yield opened


def seen(client: Client, meta: Any) -> Any:
    """The `_meta` that a handler sees."""
    result = client.request("tools/call", {"name": "meta", "arguments": {}, "_meta": meta})
    return json.loads(result["content"][0]["text"])


def test_middleware_runs_once_in_each_round(client: Client) -> None:
    if client.revision in (R1, R2):
        with pytest.raises(ToolError):
            client.call_tool("ask")
        return
    assert client.call_tool("ask").text == "hello Ada"
    assert runs == ["tools/call 1"]
    runs.clear()
    options: Dict[str, Any] = {"elicit": lambda question: {"name": "Ada"}, "timeout": WAIT}
    with minimcp.connect(build(check_replay=True), **options) as replayed:
        replayed.call_tool("ask")
    assert runs == ["tools/call 1", "tools/call 2"]


@pytest.mark.requirement("M:EXT-1", "M:EXT-4", "M:EXT-9")
def test_extensions_are_declared_where_somebody_declares_them(client: Client) -> None:
    assert client.capabilities["extensions"] == EXTENSIONS
    assert client.call_tool("extended").text == "extended" and client.call_tool("needs").text == "needed"
    with minimcp.connect(Server("plain", capabilities=["tools"]), revision=client.revision) as other:
        assert "extensions" not in other.capabilities, "none without being asked for"


@pytest.mark.requirement("M:APP-1", "META-03", "M:TRC-1", "M:TRC-2", "M:TRC-3")
def test_the_meta_of_a_tool_and_a_request_arrive_untouched(client: Client) -> None:
    found = next(tool for tool in client.list_tools() if tool.name == "page")
    assert found.meta == (None if client.revision in (R1, R2) else PAGE)
    assert client.call_tool("page").text == "in words"
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for meta in (
        {"com.example/x": [1], "dev.mcp/odd": {"a": None}, "-": 0},
        {"traceparent": parent, "tracestate": "vendor=1", "baggage": "user=ada"},
        {"traceparent": "nonsense", "baggage": 5, "tracestate": None},  # who reads it decides
    ):
        assert seen(client, meta) == meta


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
