"""Helpers for the tests of the HTTP server: requests in both eras, and a writer that keeps its
data."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from minimcp import Context, Server
from minimcp.errors import ConnectionLost
from minimcp.http.endpoint import Endpoint
from minimcp.http.headers import Headers, HttpRequest, ResponseWriter
from minimcp.http.sse import MEDIA_TYPE, SseEvent

from ..inside import make_endpoint
from ..streams import read_events
from ..support import WAIT

NEWEST, HANDSHAKE = "2026-07-28", "2025-11-25"
VERSION, CAPABILITIES = (
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
)
POST_HEADERS = {
    "Host": "localhost:8000",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class Recording(ResponseWriter):
    """Keeps a response; `lose` makes its peer go."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = self.streamed = False
        self.status = 0
        self.headers = Headers()
        self.body = b""
        self._changed = threading.Condition()

    def send(self, status: int, headers: List[Tuple[str, str]], body: bytes) -> None:
        self._start(status, headers)
        self.body, self.ended = body, True
        self._tell()

    def begin(self, status: int, headers: List[Tuple[str, str]]) -> None:
        self._start(status, headers)
        self.streamed = True
        self._tell()

    def _start(self, status: int, headers: List[Tuple[str, str]]) -> None:
        assert not self.status, "a response begins once"
        if self.gone:
            raise ConnectionLost("the peer is gone")
        self.status, self.headers = status, Headers(headers)

    def write(self, data: bytes) -> None:
        assert self.streamed
        assert not self.ended, "nothing is written behind the end"
        if self.gone:
            raise ConnectionLost("the peer is gone")
        self.body += data
        self._tell()

    def end(self) -> None:
        assert self.streamed
        assert not self.ended, "a response ends once"
        self.ended = True
        self._tell()

    def lose(self) -> None:
        self.gone = True
        self.token.cancel()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait until a received message satisfies this condition."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout=WAIT), self.body

    def check_stream(self) -> None:
        """Check with both readers every response that is a stream of events, even if the test does
        not read it."""
        if self.streamed and self.headers["Content-Type"] == MEDIA_TYPE:
            read_events(self.body)

    @property
    def events(self) -> List[SseEvent]:
        return read_events(self.body)

    @property
    def messages(self) -> List[Any]:
        """Return the messages of the events. Events without data, which only have an id, are left
        out."""
        return [json.loads(event.data) for event in self.events if event.data]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def answer(self) -> Any:
        """The same, or the last event of a stream, where a busy machine had sent a comment before
        it."""
        return self.messages[-1] if self.headers["Content-Type"] == MEDIA_TYPE else self.json


class Served(threading.Thread):
    """One request on a thread of its own."""

    def __init__(self, core: Endpoint, request: HttpRequest) -> None:
        super().__init__(daemon=True)
        self.core, self.request, self.writer = core, request, Recording()
        self.start()

    def run(self) -> None:
        self.core.serve(self.request, self.writer)

    def finished(self) -> Recording:
        self.join(WAIT)
        assert not self.is_alive()
        self.writer.check_stream()
        return self.writer


def serve(core: Endpoint, request: HttpRequest, **options: Any) -> Recording:
    writer = Recording()
    core.serve(request, writer, **options)
    writer.check_stream()
    return writer


def core_of(server: Server, **changes: Any) -> Endpoint:
    return make_endpoint(server, **changes)


def post(body: Any, headers: Optional[Mapping[str, str]] = None, **instead: Any) -> HttpRequest:
    """Return a POST with the required headers, and others in addition or instead (None omits one)."""
    given: Dict[str, Any] = {**POST_HEADERS, **(headers or {}), **instead}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest(
        "POST", "/mcp", {name: value for name, value in given.items() if value is not None}, raw
    )


def message(method: str, params: Any = None, id: Any = 1) -> Dict[str, Any]:
    whole: Dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        whole["id"] = id
    if params is not None:
        whole["params"] = params
    return whole


def alone(
    method: str,
    params: Any = None,
    headers: Optional[Mapping[str, Any]] = None,
    *,
    id: Any = 1,
    capabilities: Any = None,
    version: str = NEWEST,
) -> HttpRequest:
    given = dict(params or {})
    envelope = {VERSION: version, CAPABILITIES: capabilities or {}, **given.pop("_meta", {})}
    mirrored = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    named = given.get("uri" if method == "resources/read" else "name")
    if named is not None:
        mirrored["Mcp-Name"] = named
    return post(message(method, {**given, "_meta": envelope}, id), {**mirrored, **(headers or {})})


def call(name: str, arguments: Any = None, **options: Any) -> HttpRequest:
    """Return a stateless `tools/call`. With ``progressToken`` it receives progress."""
    token = options.pop("token", None)
    params: Dict[str, Any] = {"name": name, "arguments": arguments or {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return alone("tools/call", params, **options)


class Shaken:
    """A client that has shaken hands."""

    def __init__(self, core: Endpoint, revision: str = HANDSHAKE, **capabilities: Any) -> None:
        self.core = core
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": info}
        self.opened = serve(core, post(message("initialize", params, 0)))
        assert self.opened.status == 200, self.opened.body
        self.headers: Dict[str, str] = {}
        if "Mcp-Session-Id" in self.opened.headers:
            self.headers["Mcp-Session-Id"] = self.opened.headers["Mcp-Session-Id"]
        assert self.send(message("notifications/initialized", id=None)).status == 202

    def send(self, body: Any, **headers: Any) -> Recording:
        return serve(self.core, post(body, {**self.headers, **headers}))

    def request(self, method: str, params: Any = None, id: Any = 1) -> Recording:
        return self.send(message(method, params, id))

    def begin(self, method: str, params: Any = None, id: Any = 1) -> Served:
        return Served(self.core, post(message(method, params, id), self.headers))

    def get(self, **headers: str) -> HttpRequest:
        given = {"Host": "localhost", "Accept": "text/event-stream", **self.headers}
        return HttpRequest(
            "GET",
            "/mcp",
            {**given, **{name.replace("_", "-"): text for name, text in headers.items()}},
        )

    def listen(self, **headers: str) -> Served:
        return Served(self.core, self.get(**headers))

    def delete(self) -> Recording:
        return serve(
            self.core, HttpRequest("DELETE", "/mcp", {"Host": "localhost", **self.headers})
        )


class Stage:
    """Events that a server's tools and a test meet at."""

    def __init__(self) -> None:
        self.entered, self.go, self.left, self.cancelled = (threading.Event() for _ in range(4))


def stage_server(stage: Stage, **options: Any) -> Server:
    """A server with a tool for everything that a response can be."""
    server = Server("stage", **options)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def count(ctx: Context, to: int = 3) -> str:
        for number in range(to):
            ctx.progress(number, to)
        return "counted"

    @server.tool
    def hold(ctx: Context) -> str:
        stage.entered.set()
        ctx.on_cancel(stage.cancelled.set)
        assert stage.go.wait(WAIT)
        try:
            ctx.progress(1)
        finally:
            stage.left.set()
        return "held"

    @server.tool
    def name(ctx: Context) -> str:
        return str(ctx.elicit("Your name?", {"name": str}, key="name").require()["name"])

    @server.tool(requires=["sampling"])
    def needy() -> str:
        raise AssertionError("it is not called")

    @server.tool
    def broken(ctx: Context, report: bool = False) -> str:
        if report:
            ctx.progress(1)
        raise ValueError("secret words")

    @server.tool
    def region(ctx: Context) -> str:
        return ctx.headers.get("X-Region", "none")

    @server.tool
    def pooled() -> str:
        return threading.current_thread().name

    @server.tool(headers={"place": "Place", "number": "Number"})
    def mirrored(place: str = "", number: int = 0) -> str:
        return f"{place}/{number}"

    @server.resource("notes://one")
    def one() -> str:
        return "note"

    @server.prompt
    def brief() -> str:
        return "be brief"

    return server
