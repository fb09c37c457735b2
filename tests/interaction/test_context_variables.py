"""A context variable that a request sets is gone after the request, and variables that were set
before the server or client was created are visible."""

from __future__ import annotations

import http.client
import io
import json
import sys
import threading
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from itertools import product
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
import minimcp.testing
from minimcp import Bearer, Context, Extension, Serial, Server, Tasks, notification
from minimcp.http.headers import HttpRequest

from ..answering import R1, R4, R5
from ..scripted import Task
from ..support import ROOT, WAIT
from .raw_client import RawClient

user: ContextVar[str] = ContextVar("user", default="nobody")

REVISIONS = (R4, R5)


def swap() -> str:
    """Return the user, and sign in another one, as a handler does that leaks."""
    found = user.get()
    user.set("leaked")
    return found


class Served:
    """A server whose handlers of every kind return the current user, and then sign in another one."""

    def __init__(self, **options: Any) -> None:
        self.notes: "SimpleQueue[str]" = SimpleQueue()
        self.server = server = Server("users", extensions=[Tasks(poll_interval=0.01)], **options)

        @server.middleware
        def middle(ctx: Context, call_next: Callable[[], Any]) -> Any:
            if user.get() != "host":
                return f"the middleware finds {user.get()}"
            user.set(f"{ctx.method} of the host")
            found = call_next()
            if user.get() != "leaked":
                return f"after the handler the middleware finds {user.get()}"
            return found

        @server.tool
        def tool() -> str:
            """Say it."""
            return swap()

        @server.tool(task="optional")
        def task() -> str:
            """Say it in a task."""
            return swap()

        @server.prompt
        def prompt() -> str:
            """Say it in a prompt."""
            return swap()

        @server.resource("users://now")
        def resource() -> str:
            """Say it in a resource."""
            return swap()

        @server.resource("users://{name}", complete={"name": lambda text: [swap()]})
        def template(name: str) -> str:
            """Say it in a template."""
            return swap()

        @server.method("vendor/user")
        def method(params: Any) -> Any:
            return {"user": swap()}

    def everything(self, client: minimcp.Client) -> Dict[str, str]:
        """Return the user that each kind of handler finds, in two rounds."""
        found: Dict[str, str] = {}
        for number in range(2):
            client.list_tools()
            found[f"tools/call {number}"] = client.call_tool("tool").text
            found[f"prompts/get {number}"] = client.get_prompt("prompt").messages[0].content.text
            for uri in ("users://now", "users://ada"):
                found[f"resources/read {number} {uri}"] = client.read_resource(uri).contents[0].text
            values = client.complete("name", "x", template="users://{name}").values
            found[f"completion/complete {number}"] = values[0]
            told = client.request("vendor/user", {})
            found[f"vendor/user {number}"] = told["user"]
        return found


def expected(found: Dict[str, str]) -> Dict[str, str]:
    return {name: f"{name.split()[0]} of the host" for name in found}


@contextmanager
def signed_in(name: str) -> Iterator[None]:
    token = user.set(name)
    try:
        yield
    finally:
        user.reset(token)


@contextmanager
def pumped(server: Server) -> Iterator[None]:
    """Pump on a thread where another user is signed in."""
    stop = threading.Event()

    def pump() -> None:
        user.set("the one that pumps")
        while not stop.is_set():
            server.pump(0.01)
            assert user.get() == "the one that pumps"

    task = Task(pump)
    try:
        yield
    finally:
        stop.set()
        task.result()


def calling(run: Callable[[], None]) -> None:
    """An executor that is a callable, in the context of another user."""
    copy_context().run(lambda: (user.set("the executor"), run()))


EXECUTORS: Dict[str, Callable[[], Any]] = {
    "pool": lambda: None,
    "serial": Serial,
    "main": lambda: "main",
    "callable": lambda: calling,
}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("way", "revision"),
    [*product(("memory", "http"), REVISIONS), ("sse", R1)],  # HTTP+SSE has only sessions
)
def test_each_handler_has_a_copy_of_the_context_in_which_it_is_served(
    way: str, executor: str, revision: str
) -> None:
    served = Served(executor=EXECUTORS[executor]())
    with ExitStack() as stack:
        with signed_in("host"):
            if way == "memory":
                target: Any = served.server
                client = minimcp.connect(target, revision=revision, timeout=WAIT)
            else:
                running = stack.enter_context(served.server.start_http(legacy_sse=True))
                url = running.url if way == "http" else running.url.replace("/mcp", "/sse")
        if way != "memory":
            with signed_in("somebody else"):
                client = minimcp.connect(url, revision=revision, timeout=WAIT)
        stack.enter_context(client)
        stack.enter_context(pumped(served.server))
        found = served.everything(client)
        assert found == expected(found)
    served.server.close()
    assert user.get() == "nobody"


def post(server: Any, message: Dict[str, Any], how: str) -> Any:
    """The answer of a server to one message, as its caller in this process sends it."""
    body = json.dumps(message).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": R5,
        "Mcp-Method": message["method"],
        "Mcp-Name": message["params"]["name"],
        "Host": "localhost",
    }
    if how.startswith("handle_http"):
        request = HttpRequest("POST", "/mcp", headers, body, "127.0.0.1")
        response = server.handle_http(request, stream=how.endswith("stream"))
        return json.loads(
            b"".join(response.body) if not isinstance(response.body, bytes) else response.body
        )
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/mcp",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": headers["Content-Type"],
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }
    return json.loads(b"".join(server.wsgi()(environ, lambda *_: None)))


@pytest.mark.parametrize("how", ["handle_http", "handle_http stream", "wsgi"])
def test_under_a_host_it_is_a_copy_of_the_calling_threads_context(how: str) -> None:
    served = Served()
    meta = {
        "io.modelcontextprotocol/protocolVersion": R5,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "tool", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    def texts() -> List[str]:
        user.set("host")
        found = [
            post(served.server, message, how)["result"]["content"][0]["text"] for _ in range(3)
        ]
        assert user.get() == "host", "nothing flows back"
        return found

    assert copy_context().run(texts) == ["tools/call of the host"] * 3
    served.server.close()


def test_over_stdio_it_is_a_copy_of_the_context_of_run() -> None:
    script = (
        "from tests.interaction.test_context_variables import Served, user\n"
        "user.set('host')\nServed().server.run()"
    )
    command = minimcp.StdioServer([sys.executable, "-c", script], cwd=str(ROOT))
    for revision in REVISIONS:
        with minimcp.connect(command, revision=revision, timeout=WAIT) as client:
            found = Served.everything(Served(), client)
            assert found == expected(found)


def test_requests_of_several_users_on_one_connection_of_a_proxy() -> None:
    server = Server("accounts", auth=Bearer(verify, audience="us"))

    @server.tool
    def who() -> str:
        """Return the verified user."""
        return user.get()

    @server.tool
    def sign_in(name: str) -> str:
        """Sign in."""
        user.set(name)
        return user.get()

    with server.start_http() as running:
        proxy = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)

        def call(token: str, name: str, arguments: Any = None) -> str:
            meta = {
                "io.modelcontextprotocol/protocolVersion": R5,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": name, "arguments": arguments or {}, "_meta": meta}
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": R5,
                "Mcp-Method": "tools/call",
                "Mcp-Name": name,
                "Authorization": f"Bearer {token}",
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            proxy.request("POST", "/mcp", json.dumps(body), headers)
            text: str = json.loads(proxy.getresponse().read())["result"]["content"][0]["text"]
            return text

        assert call("ada", "who") == "ada", "what the verifier sets is there"
        assert call("ada", "sign_in", {"name": "root"}) == "root"
        assert call("-", "who") == "nobody" and call("bob", "who") == "bob"
        proxy.close()
    server.close()


def verify(token: str) -> Dict[str, Any]:
    """A verifier that signs in, but for one token."""
    if token != "-":
        user.set(token)
    return {"sub": token, "aud": "us"}


# ------------------------------------------------------------ other code that runs for a request


@pytest.mark.parametrize("order", ["set first", "set last"])
@pytest.mark.parametrize("end", ["cancelled", "timeout"])
@pytest.mark.parametrize("executor", ["pool", "serial"])
def test_a_callback_of_on_cancel_finds_the_variables_of_the_request(
    executor: str, end: str, order: str
) -> None:
    server, started = Server("users"), threading.Event()
    found: "SimpleQueue[str]" = SimpleQueue()

    def callback() -> None:
        found.put(user.get())
        user.set("the callback")

    @server.tool(timeout=0.05 if end == "timeout" else None, executor=EXECUTORS[executor]())
    def slow(ctx: Context) -> str:
        """Wait until it is cancelled."""
        if order == "set first":
            user.set("ada")
        ctx.on_cancel(callback)
        ctx.on_cancel(callback)
        user.set("ada")
        started.set()
        try:
            ctx.sleep(10 * WAIT)
        finally:
            found.put(user.get())
        return "never"

    with RawClient(server, R4, {}) as client:
        id = client.begin("tools/call", name="slow", arguments={})
        assert started.wait(WAIT)
        if end == "cancelled":
            params = {"requestId": id}
            client.peer.send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            )
        assert [found.get(timeout=WAIT) for _ in range(3)] == ["ada"] * 3
    server.close()


def test_on_request_finds_it_and_passes_nothing_on() -> None:
    found: "SimpleQueue[str]" = SimpleQueue()

    def note(request: Any) -> None:
        if request.method == "tools/call":
            found.put(user.get())
            user.set("the observer")

    server = Server("users", on_request=note)

    @server.tool
    def who(name: str) -> str:
        """Sign in."""
        before = user.get()
        user.set(name)
        return before

    for target in ("memory", "http"):
        with ExitStack() as stack:
            way: Any = server
            if target == "http":
                way = stack.enter_context(server.start_http()).url
            client = stack.enter_context(minimcp.connect(way, timeout=WAIT))
            for name in ("ada", "bob"):
                assert client.call_tool("who", {"name": name}).text == "nobody"
                assert found.get(timeout=WAIT) == name
    server.close()


def test_on_request_finds_it_when_a_handler_continues_with_a_retry() -> None:
    found: "SimpleQueue[str]" = SimpleQueue()

    def note(request: Any) -> None:
        found.put(user.get())
        user.set("the observer")

    server = Server("users", on_request=note)

    @server.tool
    def who(ctx: Context, name: str) -> str:
        """Sign in, and ask."""
        user.set(name)
        ctx.elicit("?", {})
        return user.get()

    options: Any = {"revision": R5, "elicit": lambda request: {}, "timeout": WAIT}
    with minimcp.connect(server, **options) as client:
        while not found.empty():  # what connecting takes
            found.get()
        for name in ("ada", "bob"):
            assert client.call_tool("who", {"name": name}).text == name
            assert [found.get(timeout=WAIT) for _ in range(2)] == [name, name]
    server.close()


def test_in_a_unit_test_the_callback_finds_the_context_of_the_test() -> None:
    found: List[str] = []
    ctx = minimcp.testing.context()
    ctx.on_cancel(lambda: found.append(user.get()))
    with signed_in("ada"):
        ctx.cancel()
    assert found == ["ada"]


@pytest.mark.parametrize("waiting", [0, 1, 16])
def test_the_next_run_begins_without_the_variables_of_the_previous_one(waiting: int) -> None:
    server = Server("users", limits=minimcp.Limits(waiting_handlers=waiting))

    @server.tool
    def who(ctx: Context) -> str:
        """Return the user before and after the question."""
        before = user.get()
        user.set("leaked")
        ctx.elicit("?", {})
        return f"{before} {user.get()}"

    with minimcp.connect(server, elicit=lambda request: {}, timeout=WAIT) as client:
        results = client.call_tools([("who", {})] * 8)
        assert [each.text for each in results] == ["nobody leaked"] * 8
    server.close()


def test_a_task_has_a_copy_of_its_own() -> None:
    served = Served()
    with signed_in("host"):
        client = minimcp.connect(served.server, revision=R5, extensions=[Tasks()], timeout=WAIT)
    with client:
        texts = [client.call_tool("task").text for _ in range(3)]
        assert texts == ["tools/call of the host"] * 3
    served.server.close()


def test_a_notification_of_an_extension_has_a_copy_of_its_own() -> None:
    found: "SimpleQueue[str]" = SimpleQueue()

    class Heard(Extension):
        identifier = "com.example/heard"

        @notification("notifications/vendor/heard")
        def heard(self, params: Any) -> None:
            found.put(swap())

    server = Server("users", extensions=[Heard()])

    @server.tool
    def tool() -> str:
        """Say it."""
        return swap()

    with signed_in("host"):
        client = minimcp.connect(
            server, revision=R4, extensions={"com.example/heard": {}}, timeout=WAIT
        )
    with client:
        for _ in range(3):
            client.notify("notifications/vendor/heard", {})
            assert found.get(timeout=WAIT) == "host"
            assert client.call_tool("tool").text == "host"
    server.close()


# ------------------------------------------------------------ in a client


@pytest.mark.parametrize("way", ["memory", "http"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_functions_of_a_host_have_copies_of_the_context_of_connect(
    way: str, revision: str
) -> None:
    server, found = Server("asks"), []
    heard: "SimpleQueue[str]" = SimpleQueue()

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask everything."""
        ctx.progress(1)
        ctx.warning("look")
        ctx.elicit("?", {})
        ctx.sample("?")
        return str(len(ctx.list_roots()))

    def answer(value: Any) -> Callable[..., Any]:
        def function(*_: Any) -> Any:
            found.append(swap())
            return value

        return function

    functions: Dict[str, Any] = {
        "elicit": answer({}),
        "sample": answer("said"),
        "list_roots": answer([]),
        "on_log": lambda message: heard.put(swap()),
    }

    reports: List[str] = []

    def report(progress: Any) -> None:
        reports.append(user.get())

    with ExitStack() as stack:
        target: Any = server
        if way == "http":
            target = stack.enter_context(server.start_http()).url
        with signed_in("host"):
            client = minimcp.connect(target, revision=revision, timeout=WAIT, **functions)
        stack.enter_context(client)
        with signed_in("caller"):
            client.set_log_level("info")
            for _ in range(3):
                client.call_tool("ask", on_progress=report)
            client.submit(client.call_tool, "ask", on_progress=report).result(WAIT)
        count = 4
        assert found == ["host"] * (3 * count)
        assert set(reports) == {"caller"}, "they run in the context of the call"
        assert [heard.get(timeout=WAIT) for _ in range(count)] == ["host"] * count
        assert user.get() == "nobody"
    server.close()
