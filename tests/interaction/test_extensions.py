"""Extensions, what `_meta` carries, and middleware, as clients of all five revisions see them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Client, Context, Server, ToolError

from ..answering import R1, R2, R4, R5, REVISIONS, Answering, result
from ..support import WAIT
from .raw_client import RawClient

EXTENSIONS: Dict[str, Dict[str, Any]] = {
    "com.example/x": {"deep": {"a": 1}},
    "io.modelcontextprotocol/ui": {},
}
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
        own = (
            key
            for key in ctx.meta
            if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")
        )
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
    options: Dict[str, Any] = {
        "elicit": lambda question: {"name": "Ada"},
        "extensions": {"com.example/x": {}},
    }
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
def test_extensions_are_declared_only_by_peers_that_have_them(client: Client) -> None:
    assert client.capabilities["extensions"] == EXTENSIONS
    assert (
        client.call_tool("extended").text == "extended"
        and client.call_tool("needs").text == "needed"
    )
    with minimcp.connect(
        Server("plain", capabilities=["tools"]), revision=client.revision
    ) as other:
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
        # the receiver decides whether they are valid
        {
            "traceparent": "nonsense",
            "baggage": 5,
            "tracestate": None,
        },
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
        client.capabilities = having  # each request declares the capabilities of its client
        assert client.call("needs") == "needed" and client.call("extended") == "extended"
        client.capabilities = {}
        assert client.call("needs") == -32021
    for revision in (R1, R4):
        with RawClient(build(), revision, {}, capabilities={}) as client:
            assert "needs a client with the extension com.example/x" in client.call("needs")[0]
        with RawClient(build(), revision, {}, capabilities=having) as client:
            assert client.call("needs") == "needed"


# ------------------------------------------------------------ a third-party extension


class Clock(minimcp.Extension):
    """An extension that returns the time of places, on both sides."""

    identifier = "com.example/clock"
    settings = {"hours": 24}
    names = {"clock/read": "place"}
    filters = ("clocks",)
    result_types = {"com.example/later": ("tools/call",)}

    def __init__(self) -> None:
        self.heard: "SimpleQueue[Dict[str, Any]]" = SimpleQueue()
        self.followed: List[str] = []

    @minimcp.method("clock/read")
    def read(self, params: Dict[str, Any], ctx: Context) -> Dict[str, Any]:
        if params.get("place") not in ("Rome", "Bonn"):
            raise minimcp.InvalidParams("no clock there")
        return {"hour": 7, "place": params["place"]}

    @minimcp.notification("notifications/clock/set")
    def was_set(self, params: Dict[str, Any]) -> None:
        if params.get("hour") == 25:
            raise ValueError("a day has 24 hours")
        self.heard.put(params)

    def entry_meta(self, kind: str, name: str, options: Any) -> Dict[str, Any]:
        return {"com.example/clock": f"{kind} {name}"}

    def follow(self, call: Any, method: str, params: Any, result: Any) -> Dict[str, Any]:
        self.followed.append(result["resultType"])
        hour = call.request("clock/read", {"place": result["place"]})["hour"]
        return {"content": [{"type": "text", "text": f"{hour} o'clock"}]}


def with_clock(clock: Clock, **options: Any) -> Server:
    server = Server("clocks", extensions=[clock], **options)

    @server.tool(meta={"com.example/own": 1})
    def hour() -> str:
        """The hour here."""
        return "12"

    @server.resource("clock://here")
    def here() -> str:
        """The clock here."""
        return "12"

    return server


def on(place: Any, wire: str) -> Any:
    """Return a context manager with the target of a client: the server itself, or its URL."""
    return place.start_http() if wire == "HTTP" else nullcontext(place)


@pytest.mark.requirement("M:EXT-5", "M:EXT-1", "M:EXT-9", "M:HDR-16")
@pytest.mark.parametrize("wire", ["memory", "HTTP"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_additions_of_an_extension(revision: str, wire: str) -> None:
    clock, mine = Clock(), Clock()
    with on(with_clock(clock), wire) as place:
        target = getattr(place, "url", place)
        with minimcp.connect(target, revision=revision, extensions=[mine], timeout=WAIT) as client:
            assert client.capabilities["extensions"] == {"com.example/clock": {"hours": 24}}
            assert client.request("clock/read", {"place": "Rome"})["hour"] == 7
            with pytest.raises(minimcp.InvalidParams, match="no clock there"):
                client.request("clock/read", {"place": "Oslo"})
            if revision not in (R1, R2):
                own = {"com.example/own": 1, "com.example/clock": "tool hour"}
                assert client.list_tools()[0].meta == own
                assert client.list_resources()[0].meta == {
                    "com.example/clock": "resource clock://here"
                }
            with client.listen(filters={"clocks": ["Rome", "Bonn"]}) as changes:
                assert changes.honored
                assert changes.honored.filters == (
                    {"clocks": ["Rome", "Bonn"]} if revision == R5 else {}
                )
                clock.tell("notifications/clock/set", {"hour": 25}, "clocks", "Rome")
                if revision == R5:
                    clock.tell("notifications/clock/set", {"hour": 1}, "clocks", "Oslo")
                clock.tell("notifications/clock/set", {"hour": 3}, "clocks", "Bonn")
                assert mine.heard.get(timeout=WAIT)["hour"] == 3, (
                    "what raises ends nothing; another key is not heard"
                )
        with minimcp.connect(target, revision=revision, timeout=WAIT) as stranger:
            for ask in (
                lambda: stranger.request("clock/read", {"place": "Rome"}),
                lambda: stranger.listen(filters={"clocks": True}).close(),
            )[: 2 if revision == R5 else 1]:
                with pytest.raises(minimcp.CapabilityNotSupported) as refused:
                    ask()
                assert refused.value.data == {
                    "requiredCapabilities": {"extensions": {"com.example/clock": {}}}
                }


@pytest.mark.requirement("M:EXT-5", "M:EXT-3")
def test_a_server_receives_the_notifications_of_clients_that_declared_the_extension() -> None:
    clock = Clock()
    notice = {"jsonrpc": "2.0", "method": "notifications/clock/set"}
    with RawClient(with_clock(clock), R4, {}, capabilities={}) as without:
        without.peer.send({**notice, "params": {"hour": 1}})
        without.result("ping")
    with RawClient(with_clock(Clock()), R4, {}, capabilities={}) as _:
        pass
    with RawClient(
        clock.server, R4, {}, capabilities={"extensions": {Clock.identifier: {}}}
    ) as having:
        having.peer.send({**notice, "params": {"hour": 25}})
        having.peer.send({**notice, "params": {"hour": 2}})
        assert clock.heard.get(timeout=WAIT) == {"hour": 2}
    assert clock.heard.empty()


@pytest.mark.requirement("M:EXT-5", "M:EXT-6")
def test_a_result_type_is_followed_by_the_client_that_declared_it() -> None:
    later = {"resultType": "com.example/later", "place": "Bonn"}
    answers = {
        "tools/call": result(**later),
        "clock/read": result(hour=9),
        "prompts/get": result(**later),
    }
    mine = Clock()
    with minimcp.connect(
        Answering(answers, modern=True), extensions=[mine], timeout=WAIT
    ) as client:
        assert client.call_tool("hour").text == "9 o'clock"
        with pytest.raises(minimcp.ProtocolViolation, match="com.example/later"):
            client.request("prompts/get", {"name": "hour"})
    assert mine.followed == ["com.example/later"]
    with minimcp.connect(Answering(answers, modern=True), timeout=WAIT) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="com.example/later"):
            client.call_tool("hour")


@pytest.mark.requirement("M:EXT-10")
@pytest.mark.parametrize("wanted", [5, "Rome", {"a": 1}, [1], ["x"] * 20_000])
def test_a_filter_of_an_extension_is_checked(wanted: Any) -> None:
    with minimcp.connect(with_clock(Clock()), extensions=[Clock()], timeout=WAIT) as client:
        with pytest.raises(minimcp.InvalidParams, match="clocks must be true or a list of at most"):
            client.listen(filters={"clocks": wanted})
        with client.listen(filters={"clocks": False, "unknown": [1]}) as changes:
            assert changes.honored and changes.honored.filters == {}


def test_an_extension_that_cannot_be_one_is_refused() -> None:
    def one(**members: Any) -> Any:
        return type("Odd", (minimcp.Extension,), {"identifier": "com.example/odd", **members})()

    def read(self: Any, params: Any) -> Any:
        """A method."""

    async def later(self: Any, params: Any) -> None:
        """Async."""

    serving = Clock()
    with_clock(serving)
    for wrong, error, says in (
        (lambda: Server("x", extensions=[Clock]), TypeError, r"objects such as Tasks\(\)"),
        (
            lambda: minimcp.connect(Server("x"), extensions=[Clock]),
            TypeError,
            r"objects such as Tasks\(\)",
        ),
        (
            lambda: Server("x", extensions=["com.example/x"]),
            TypeError,
            r"objects such as Tasks\(\)",
        ),
        (
            lambda: Server("x", extensions=[Clock(), Clock()]),
            ValueError,
            "com.example/clock is passed twice",
        ),
        (
            lambda: minimcp.connect(Server("x"), extensions=[Clock(), Clock()]),
            ValueError,
            "the same identifier",
        ),
        (
            lambda: Server("x", extensions=[serving]),
            ValueError,
            "one for each",
        ),
        (lambda: Server("x", extensions=[one(identifier="")]), ValueError, "identifier"),
        (lambda: Server("x", extensions=[one(settings=[1])]), TypeError, "settings"),
        (
            lambda: Server("x", extensions=[one(f=minimcp.method("ping")(read))]),
            ValueError,
            "belongs to the protocol",
        ),
        (
            lambda: Server("x", extensions=[one(f=minimcp.method("a/b")(lambda self: {}))]),
            TypeError,
            "params",
        ),
        (
            lambda: Server("x", extensions=[one(f=minimcp.notification("a/b")(later))]),
            TypeError,
            "async",
        ),
        (
            lambda: minimcp.notification("notifications/cancelled"),
            ValueError,
            "belongs to the protocol",
        ),
        (lambda: minimcp.notification(later), TypeError, "the name comes first"),
        (lambda: minimcp.method(later), TypeError, "the name comes first"),
    ):
        with pytest.raises(error, match=says):
            wrong()
    with pytest.raises(TypeError, match="belongs in an Extension"):
        Server(
            "x", type("Plain", (), {"f": minimcp.notification("a/b")(lambda self, params: None)})()
        )
