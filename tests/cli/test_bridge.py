"""``bridge``: every message passed on both ways, in each revision and between the eras; and how its
servers end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any, Callable, Dict, Iterator, List

import pytest
import requests

from minimcp import (
    Bearer,
    Cancelled,
    CancelToken,
    Client,
    Context,
    InternalError,
    MethodNotFound,
    Progress,
    RpcError,
    Server,
    StdioServer,
    Tasks,
    ToolError,
    __version__ as VERSION,
    connect,
)
from minimcp.cli.bridge import Bridge
from minimcp.client.connect import Target
from minimcp.http.client import HttpServer
from minimcp.protocol.versions import BY_NAME, REVISIONS
from minimcp.testing import ScriptedClient

from ..answering import initialized, result
from ..listening import Host
from ..support import ROOT, WAIT, children_of, eventually
from ..web import DONE, INITIALIZED, Heard, Peer, Wire
from ..wire.messages import ABSENT, CLIENT_KEY, hello, modern, request
from .conftest import Done, command_line, run_process

NAMES = [each.name for each in REVISIONS]

OLD, NEW = "2025-11-25", "2026-07-28"

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

SERVER = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from minimcp import Context, Server
server = Server("behind")
@server.tool
def pid() -> int:
    "Say which process this is."
    return os.getpid()
@server.tool
def die() -> str:
    "End the process."
    os._exit(3)
@server.tool
def slow(ctx: Context) -> str:
    "Take for ever."
    print("slow has begun", file=sys.stderr, flush=True)
    ctx.sleep(600)
    return "no"
server.run()
if "stubborn" in sys.argv:
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


class Behind:
    """A server behind a bridge, in this process, that records its requests."""

    def __init__(self, revision: str) -> None:
        self.server = server = Server(
            "behind", version="7", instructions="hello", revisions=[revision], extensions=[Tasks()]
        )
        self.begun, self.ended = threading.Event(), threading.Event()
        self.given: List[Any] = []
        is_asking = BY_NAME[revision].has("elicitation")

        @server.tool
        def add(a: int, b: int) -> int:
            "Add."
            return a + b

        @server.tool
        def steps(ctx: Context) -> str:
            "Report and log."
            for step in range(1, 4):
                ctx.progress(step, 3, f"step {step}")
                ctx.log("warning", f"log {step}")
            return "done"

        @server.tool
        def ask(ctx: Context) -> str:
            "Ask for something, twice."
            if not is_asking:
                return str(ctx.sample("who?").text) + str(ctx.sample("and?").text)
            first, second = ctx.elicit("who?", FORM, key="1"), ctx.elicit("and?", FORM, key="2")
            return f"{first.content['name']}{second.content['name']}"

        @server.tool
        def slow(ctx: Context) -> str:
            "Take for ever."
            self.begun.set()
            try:
                ctx.sleep(600)
            finally:
                self.ended.set()
            return "no"

        @server.tool
        def fail() -> str:
            "Fail in words of its own."
            raise RpcError(-31999, "no, thanks", {"why": [1, None]})

        @server.tool
        def big(text: str) -> str:
            "Say it again."
            return text

        @server.tool(task="optional")
        def later() -> str:
            "Run as a task."
            return "at last"

        @server.tool
        def change() -> None:
            "Change what there is."
            server.resource_updated("x://a")
            server.add_tool(add, name="added")

        @server.resource("x://a")
        def read() -> str:
            "Read."
            return "A"

        @server.method("vendor/echo")
        def echo(params: Dict[str, Any]) -> Dict[str, Any]:
            self.given.append(params)
            return {**params, "_meta": {"vendor/kept": [1]}}


@contextmanager
def front(target: Any, way: str, **options: Any) -> Iterator[Any]:
    """Yield the target of a client: a URL, or the front server itself, with a bridge behind it."""
    is_web = isinstance(target, HttpServer)
    server = Server("front")
    bridge = Bridge(server, Target("the server behind", target, is_web), **options)
    try:
        if way == "http":
            with server.start_http() as running:
                yield running.url
        else:
            yield server
    finally:
        server.close()
        bridge.end()


@contextmanager
def bridged(way: str, behind: Behind, revision: str, **options: Any) -> Iterator[Client]:
    """A client in front of a bridge to a server: over HTTP with the server in memory, or the other
    way round."""
    with ExitStack() as stack:
        target: Any = behind.server
        stack.callback(behind.server.close)
        if way == "memory":
            running = stack.enter_context(behind.server.start_http())
            target = HttpServer(running.url)
        place = stack.enter_context(front(target, way))
        yield stack.enter_context(connect(place, revision=revision, timeout=WAIT, **options))


PAIRS = [
    *((way, name, name) for way in ("http", "memory") for name in NAMES),
    *(
        (way, *pair)
        for way in ("http", "memory")
        for pair in ((OLD, NEW), (NEW, OLD), (NEW, "2024-11-05"))
    ),
]
"""The transport between client and bridge, and the revisions of the client and of the server."""


@pytest.fixture(params=PAIRS, ids=lambda each: "-".join(each))
def pair(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_everything_is_passed_on(pair: Any) -> None:
    way, spoken, known = pair
    behind = Behind(known)
    progress: List[Progress] = []
    logged: List[Any] = []
    listed, updated, told = threading.Event(), threading.Event(), threading.Event()

    def on_log(message: Any) -> None:
        logged.append(message.data)
        if len(logged) == 3:
            told.set()

    with bridged(
        way, behind, spoken, on_log=on_log, on_tools_changed=listed.set, on_resource_updated=lambda uri: updated.set(),
        elicit=lambda request: {"name": request.message}, sample=lambda request: request.messages[0].content[0].text,
    ) as client:  # fmt: skip
        assert client.revision == spoken
        assert client.server_info is not None and client.server_info.name == "behind"
        assert client.instructions == "hello"
        assert "add" in [tool.name for tool in client.list_tools()]
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert client.call_tool("steps", on_progress=progress.append).text == "done"
        assert [(each.progress, each.total) for each in progress] == [(1, 3), (2, 3), (3, 3)]
        assert told.wait(WAIT) and logged == ["log 1", "log 2", "log 3"]
        assert client.read_resource("x://a").contents[0].text == "A"
        client.subscribe("x://a")
        client.call_tool("change")
        assert listed.wait(WAIT) and updated.wait(WAIT)
        big = "京" * (1 << 19)
        assert client.call_tool("big", {"text": big}).text == big
        with pytest.raises(RpcError) as refused:
            client.call_tool("fail")
        error = refused.value
        assert (error.code, error.message, error.data) == (-31999, "no, thanks", {"why": [1, None]})
        with pytest.raises(MethodNotFound, match="vendor/none"):
            client.request("vendor/none", {})


def test_unknown_members_are_kept(pair: Any) -> None:
    way, spoken, known = pair
    behind = Behind(known)
    with bridged(way, behind, spoken) as client:
        result = client.request("vendor/echo", {"odd": [{"x": None}], "_meta": {"vendor/x": 1}})
    assert result["odd"] == [{"x": None}] and result["_meta"]["vendor/kept"] == [1]
    assert behind.given[0]["odd"] == [{"x": None}] and behind.given[0]["_meta"]["vendor/x"] == 1


def test_the_client_is_asked(pair: Any) -> None:
    way, spoken, known = pair
    if (
        known == "2024-11-05"
    ):  # knows no elicitation, and 2026-07-28 has no sampling that is not a round either
        known_asks = "sample"
    else:
        known_asks = "elicit"
    asked: List[str] = []

    def elicit(request: Any) -> Dict[str, str]:
        asked.append("elicit")
        return {"name": request.message}

    def sample(request: Any) -> str:
        asked.append("sample")
        return str(request.messages[0].content[0].text)

    with bridged(way, Behind(known), spoken, elicit=elicit, sample=sample) as client:
        assert client.call_tool("ask").text == "who?and?"
    assert len(asked) == 2 and (known_asks in asked or known == "2025-03-26")


def test_a_call_is_cancelled(pair: Any) -> None:
    way, spoken, known = pair
    behind, token = Behind(known), CancelToken()
    with bridged(way, behind, spoken) as client:
        threading.Thread(target=lambda: behind.begun.wait(WAIT) and token.cancel("enough")).start()
        with pytest.raises(Cancelled):
            client.call_tool("slow", cancel=token)
        assert behind.ended.wait(WAIT)
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize("way", ["http", "memory"])
@pytest.mark.parametrize("name", [OLD, NEW])
def test_tasks(way: str, name: str) -> None:
    with bridged(way, Behind(name), name, extensions=[Tasks()]) as client:
        task = client.start_task("later")
        task.wait(WAIT)
        assert task.result().text == "at last"


def test_a_question_that_belongs_to_no_call() -> None:
    """After `notifications/initialized` many servers ask for the roots."""
    behind = Behind(OLD)
    asked, answered = threading.Event(), threading.Event()
    roots: List[Any] = []

    @behind.server.tool
    def look(ctx: Context) -> str:
        "Look at the roots."
        roots.extend(ctx.list_roots())
        answered.set()
        return "looked"

    def list_roots() -> List[str]:
        asked.set()
        return ["file:///a"]

    with bridged("http", behind, OLD, list_roots=list_roots) as client:
        assert client.call_tool("look").text == "looked"
    assert asked.is_set() and roots[0].uri == "file:///a"


# ------------------------------------------------------------ processes


def test_idle_servers_of_clients_without_sessions_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minimcp.cli.bridge.MAX_LINKS", 3)
    behind = Behind(OLD)

    def calls(url: str, name: str, revision: str = NEW) -> None:
        info = {"name": name, "version": "1"}
        with connect(url, revision=revision, client_info=info, timeout=WAIT) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"

    with front(behind.server, "http") as url:
        busy = connect(url, revision=NEW, client_info={"name": "busy", "version": "1"})
        with busy, ThreadPoolExecutor(1) as pool:
            token = CancelToken()
            slow = pool.submit(busy.call_tool, "slow", cancel=token)
            assert behind.begun.wait(WAIT)
            for number in range(5):
                calls(url, f"client {number}")
            calls(url, "with a session", OLD)
            assert not behind.ended.is_set(), "a call that is running keeps its server"
            token.cancel()
            assert isinstance(slow.exception(WAIT), Cancelled)
    behind.server.close()


def test_one_client_without_a_session_has_its_share_of_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minimcp.cli.bridge.MAX_LINKS", 8)
    behind, begun = Behind(OLD), Semaphore(0)
    behind.server.middleware(lambda ctx, call_next: (begun.release(), call_next())[1])
    principals = {"ada": {"sub": "ada", "aud": "t"}, "bob": {"sub": "bob", "aud": "t"}}
    server = Server("front", auth=Bearer(principals.get, audience="t"))
    bridge = Bridge(server, Target("the server behind", behind.server, False))
    with server.start_http() as running, ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(3))
        token = CancelToken()

        def client(name: str, principal: str) -> Client:
            info = {"name": name, "version": "1"}
            return stack.enter_context(
                connect(running.url, revision=NEW, client_info=info, auth=principal, timeout=WAIT)
            )

        slow = []
        for name in ("one", "two"):
            slow.append(pool.submit(client(name, "ada").call_tool, "slow", cancel=token))
            assert begun.acquire(timeout=WAIT)
        response = requests.post(
            running.url,
            json=request(1, "server/discover", modern()),
            headers={
                "Accept": "application/json, text/event-stream",
                "Authorization": "Bearer ada",
                "MCP-Protocol-Version": NEW,
                "Mcp-Method": "server/discover",
            },
            timeout=WAIT,
        )
        assert response.status_code == 429 and response.headers["Retry-After"] == "1"
        message = response.json()["error"]["message"]
        assert "share of processes: 2 of 8 (Limits.client_share)" in message
        assert client("four", "bob").call_tool("add", {"a": 1, "b": 2}).text == "3"
        token.cancel()
        assert all(isinstance(each.exception(WAIT), Cancelled) for each in slow)
    server.close()
    bridge.end()
    behind.server.close()


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "behind.py"
    path.write_text(SERVER, encoding="utf-8")
    return str(path)


def _child(script: str, *arguments: str) -> StdioServer:
    return StdioServer([sys.executable, script, *arguments])


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_a_server_that_dies_is_started_again(script: str, revision: str) -> None:
    with (
        front(_child(script), "http") as url,
        connect(url, revision=revision, timeout=WAIT) as client,
    ):
        first = client.call_tool("pid").text
        with pytest.raises(
            InternalError,
            match="no answer from the server behind the bridge .the next call opens a new connection.",
        ):
            client.call_tool("die")
        assert client.call_tool("pid").text != first


def test_a_server_that_cannot_start_is_reported(tmp_path: Path) -> None:
    with front(StdioServer([str(tmp_path / "none")]), "http") as url:
        with pytest.raises(Exception, match="no answer from the server behind the bridge"):
            connect(url, revision=OLD, timeout=WAIT)
    with front(StdioServer([str(tmp_path / "none")]), "memory", is_local=True) as server:
        with pytest.raises(Exception, match="there is no such program"):
            connect(server, revision=OLD, timeout=WAIT)


def test_each_session_has_a_process_and_all_may_share_one(script: str) -> None:
    for shared in (False, True):
        with front(_child(script), "http", shared=shared) as url:
            with (
                connect(url, revision=OLD) as one,
                connect(url, revision=OLD) as other,
                connect(url) as alone,
            ):
                pids = {each.call_tool("pid").text for each in (one, other, alone)}
        assert len(pids) == (1 if shared else 3)


def test_an_unused_process_ends(script: str) -> None:
    with front(_child(script), "http", idle=0.2) as url, connect(url, revision=OLD) as client:
        first = client.call_tool("pid").text
        assert eventually(lambda: not os.path.exists(f"/proc/{first}"))
        assert client.call_tool("pid").text != first


def test_sessions_leave_no_process(script: str) -> None:
    before = children_of(os.getpid())
    with front(_child(script), "http") as url:
        for _ in range(2):
            with ExitStack() as stack:
                clients = [stack.enter_context(connect(url, revision=OLD)) for _ in range(2)]
                assert len({client.call_tool("pid").text for client in clients}) == 2
        assert eventually(lambda: children_of(os.getpid()) == before)


@contextmanager
def _serving(*arguments: str) -> Iterator[Any]:
    """The command as a process, and its first line on stderr."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command_line("bridge", *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=WAIT)


@pytest.mark.parametrize("words", [[], ["stubborn"]])
def test_sigterm_ends_all(script: str, words: List[str]) -> None:
    with _serving("--http", "0", "--", sys.executable, script, *words) as process:
        url = process.stderr.readline().split()[-1]
        with connect(url, revision=OLD) as client:
            pid = client.call_tool("pid").text
            threading.Thread(target=lambda: _quietly(client.call_tool, "slow"), daemon=True).start()
            while "slow has begun" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT) == 0
            assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def _quietly(function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception:
        pass


def test_the_end_of_input_ends_all() -> None:
    behind = Behind(NEW)
    with behind.server.start_http() as running:
        client = connect(
            StdioServer(command_line("bridge", running.url), env={"PYTHONPATH": str(ROOT)}),
            timeout=WAIT,
            probe_timeout=WAIT,
        )
        with client:
            assert client.revision == NEW and client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        done = run_process("bridge", running.url)
        assert (done.code, done.out) == (0, "")
    behind.server.close()


@pytest.mark.parametrize(
    "words", [["--token", "secret"], ["--header", "Authorization: Bearer secret"], ["env"], []]
)
def test_a_server_with_a_url_gets_the_token(words: List[str]) -> None:
    more = {"MINIMCP_TOKEN": "secret"} if words == ["env"] else {}
    server = Server("locked", auth=Bearer.static("secret"))
    with server.start_http() as running:
        command = StdioServer(
            command_line("bridge", running.url, *([] if more else words)),
            env={"PYTHONPATH": str(ROOT), **more},
        )
        if words:
            with connect(command, timeout=WAIT) as client:
                assert client.server_info is not None and client.server_info.name == "locked"
        else:
            with pytest.raises(Exception, match="no answer .* HTTP 401.*minimcp login"):
                connect(command, timeout=WAIT, stderr=str)


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("status", [400, 404, 422, 429, 503])
def test_a_request_that_the_server_did_not_run_is_sent_again(status: int, revision: str) -> None:
    rejected: List[str] = []

    def call(heard: Heard, wire: Wire) -> None:
        session = heard.headers["mcp-session-id"]
        if not rejected or (session in rejected and status not in (429, 503)):
            rejected.append(session)
            wire.whole(status, b"not now", "text/plain", Retry_After="0")
        else:
            wire.result(DONE)

    def initialize(heard: Heard, wire: Wire) -> None:
        wire.result(INITIALIZED, Mcp_Session_Id=f"s{len(peer.all('initialize'))}")

    said = {"initialize": initialize, "tools/call": call, "ping": call}
    with Peer(said, handshake=True) as peer, front(HttpServer(peer.url), "http") as url:
        with connect(url, revision=revision, timeout=WAIT) as client:
            assert client.call_tool("t").text == "done"
    assert len(peer.all("tools/call")) == 2
    assert len(peer.all("initialize")) == (1 if status in (429, 503) else 2)


# ------------------------------------------------------------ usage


@pytest.mark.parametrize(("words", "told"), [
    ([], "write minimcp bridge --http 8000 -- COMMAND, or minimcp bridge URL"),
    (["server.py"], "'server.py' is not a URL: to serve a command: minimcp bridge --http 8000 -- server.py"),
    (["node", "it.js"], "'node it.js' is not a URL: to serve a command: minimcp bridge --http 8000 -- node it.js"),
    (["--", "a", "b"], "write minimcp bridge --http 8000 -- a b, or minimcp bridge URL"),
    (["--http", "8000"], "write minimcp bridge --http 8000 -- COMMAND"),
    (["--http", "8000", "server.py"], "write minimcp bridge --http 8000 -- server.py"),
    (["--http", "8000", "python", "it.py"], "write minimcp bridge --http 8000 -- python it.py"),
    (["--http", "8000", "--header", "A: b", "--", "x"], "--header is only for a URL"),
    (["--http", "x", "--", "y"], "'x' is not [HOST:]PORT, as in 8000"),
    (["--http", "0.0.0.0:0", "--", "y"], "write --token TOKEN, which clients must send, and --allow-host NAME"),
    (["--http", "0", "--idle", "0", "--", "y"], "as in --idle 600"),
    (["--http", "0", "--", "http://x/mcp"], "write minimcp bridge http://x/mcp"),
    (["--http", "0", "--token", "a b", "--", "y"], "a token must contain only letters"),
    (["--shared", "http://x/mcp"], "need --http"),
    (["http://"], "URL"),
])  # fmt: skip
def test_the_error_for_wrong_usage_says_what_to_type(
    minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, words: List[str], told: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["minimcp"])
    done = minimcp("bridge", *words)
    assert done.code == 2 and told in done.err and done.out == ""


def test_only_clients_with_the_token_are_served(script: str) -> None:
    with _serving("--http", "0", "--token", "secret", "--", sys.executable, script) as process:
        url = process.stderr.readline().split()[-1]
        with connect(url, auth="secret") as client:
            assert client.call_tool("pid").text
        with pytest.raises(Exception, match="401"):
            connect(url)


@pytest.mark.parametrize("behind", ["command", "file"])
def test_verbose_prints_a_line_for_each_request(script: str, tmp_path: Path, behind: str) -> None:
    name, words = "pid", ["--", sys.executable, script]
    if behind == "file":
        config = {"mcpServers": {"one": {"command": sys.executable, "args": [script]}}}
        (tmp_path / "mcp.json").write_text(json.dumps(config), "utf-8")
        name, words = "one__pid", [str(tmp_path / "mcp.json")]
    with _serving("--http", "0", "--verbose", *words) as process:
        url = process.stderr.readline().split()[-1]
        with connect(url, revision=OLD, timeout=WAIT) as client:
            assert client.call_tool(name).text
            with pytest.raises(RpcError):
                client.call_tool("none")
        assert (
            requests.post(url, "{}", headers={"Host": "x.example"}, timeout=WAIT).status_code > 400
        )
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read()
    for expected in (
        r"initialize: ok after",
        rf"tools/call {name}: ok after",
        r"tools/call none: error -32602 after",
        r"127\.0\.0\.1.* rejected with 4",
    ):
        assert re.search(expected, lines), (expected, lines)


def test_verbose_over_stdio_leaves_stdout_alone() -> None:
    behind = Behind(NEW)
    lines: List[str] = []
    with behind.server.start_http() as running:
        command = command_line("bridge", running.url, "--verbose")
        target = StdioServer(command, env={"PYTHONPATH": str(ROOT)})
        with connect(target, timeout=WAIT, probe_timeout=WAIT, stderr=lines.append) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
            assert eventually(lambda: any("tools/call add: ok after" in line for line in lines))
    behind.server.close()


def test_a_port_in_use_is_reported(minimcp: Callable[..., Done], script: str) -> None:
    with Server("x").start_http() as running:
        done = minimcp("bridge", "--http", str(running.port), "--", sys.executable, script)
    assert done.code == 3 and "another program is listening there" in done.err


# ------------------------------------------------------------ between the eras, and several clients


def test_subscriptions_of_a_client_are_repeated_to_the_next_process(tmp_path: Path) -> None:
    text = SERVER.replace(
        "server.run()",
        """
@server.resource("x://a")
def read() -> str:
    "Read."
    return "A"
@server.tool
def tell(ctx: Context) -> str:
    "Log, and change a resource."
    ctx.log("debug", "told")
    server.resource_updated("x://a")
    return "ok"
server.run()
""",
    )
    (tmp_path / "behind.py").write_text(text, encoding="utf-8")
    logged, updated = threading.Event(), threading.Event()
    with front(_child(str(tmp_path / "behind.py")), "http") as url, connect(
        url, revision=OLD, on_log=lambda message: logged.set(), on_resource_updated=lambda uri: updated.set(),
    ) as client:  # fmt: skip
        client.subscribe("x://a")
        client.set_log_level("debug")
        with pytest.raises(InternalError):
            client.call_tool("die")
        assert client.call_tool("tell").text == "ok"
        assert logged.wait(WAIT) and updated.wait(WAIT)


@pytest.mark.parametrize("shared", [False, True])
def test_a_question_goes_to_no_other_client(shared: bool) -> None:
    """A question of the server does not name its call, so with two calls it belongs to neither."""
    behind, asked = Behind(OLD), threading.Event()

    def elicit(request: Any) -> Dict[str, str]:
        asked.set()
        return {"name": "x"}

    with front(behind.server, "http", shared=shared) as url:
        with (
            connect(url, revision=OLD, elicit=elicit) as one,
            connect(url, revision=OLD, elicit=elicit) as other,
        ):
            token = CancelToken()
            thread = threading.Thread(
                target=lambda: _quietly(lambda: other.call_tool("slow", cancel=token))
            )
            thread.start()
            assert behind.begun.wait(WAIT)
            if shared:
                with pytest.raises(ToolError, match="cannot be assigned to a client"):
                    one.call_tool("ask")
            else:
                assert one.call_tool("ask").text == "xx"
            token.cancel()
            thread.join(WAIT)
    behind.server.close()
    assert asked.is_set() is not shared


def test_a_state_is_good_for_one_request() -> None:
    with bridged("http", Behind(OLD), NEW, elicit=lambda request: {"name": "x"}) as client:
        with pytest.raises(RpcError, match="no call is waiting for this requestState"):
            client.request(
                "tools/call",
                {"name": "add", "arguments": {}, "requestState": "x", "inputResponses": {}},
            )
        with pytest.raises(RpcError, match="no call is waiting for this requestState"):
            client.request("tools/call", {"name": "add", "requestState": 1})


def test_a_stream_ends_with_its_server(script: str) -> None:
    """The client opens another stream, also if the server is older than the client."""
    with front(_child(script), "http") as url, connect(url, revision=NEW, timeout=WAIT) as client:
        with client.listen(tools_list_changed=True) as changes:
            with pytest.raises(InternalError):
                client.call_tool("die")
            with pytest.raises(Exception, match="ended"):
                changes.next(WAIT)


def test_a_client_that_says_too_much_of_itself_is_refused() -> None:
    for revision in (OLD, NEW):
        with (
            front(Behind(revision).server, "http") as url,
            pytest.raises(Exception, match="more than 65536 bytes"),
        ):
            connect(url, revision=revision, client_info={"name": "x" * 70_000, "version": "0"})


@contextmanager
def scripted(behind: Any) -> Iterator[ScriptedClient]:
    """A client of plain messages in front of a bridge to a server."""
    with front(behind, "memory") as server, closing(ScriptedClient(server, timeout=WAIT)) as peer:
        yield peer


@pytest.mark.requirement("M:META-5")
@pytest.mark.parametrize("revision", [OLD, "2024-11-05", NEW])
@pytest.mark.parametrize("info", [ABSENT, None, {}, {"name": "raw", "version": "0"}])
def test_a_client_need_not_send_client_info(revision: str, info: Any) -> None:
    tools = {"tools/list": result(tools=[], ttlMs=0, cacheScope="private", resultType="complete")}
    behind = Host(session=revision != NEW, **tools)
    if revision not in (OLD, NEW):
        behind.answers["initialize"] = initialized(revision, tools={})
    with scripted(behind) as peer:
        peer.send(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/list",
                "params": modern(**{CLIENT_KEY: info}),
            }
        )
        assert peer.expect()["result"]["tools"] == []
    said = [
        params["clientInfo"] if "clientInfo" in params else params["_meta"].get(CLIENT_KEY, ABSENT)
        for params in (each.get("params", {}) for each in behind.pipe.messages)
        if "clientInfo" in params or CLIENT_KEY in params.get("_meta", {})
    ]
    known = info if info is not ABSENT and info else {"name": "minimcp-bridge", "version": VERSION}
    assert said and all(each == known for each in said), said


@pytest.mark.parametrize("revision", [OLD, "2025-03-26"])
def test_an_empty_client_info_of_a_handshake_is_not_passed_on(revision: str) -> None:
    behind = Host(session=True)
    with scripted(behind) as peer:
        params = {**hello(revision), "clientInfo": {}}
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        assert "result" in peer.expect()
    (sent,) = behind.calls("initialize")
    assert sent["params"]["clientInfo"] == {"name": "minimcp-bridge", "version": VERSION}


# Requests of a client of one era that only the other era has.
FOREIGN = {
    NEW: [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
    ],
    OLD: ["server/discover", "subscriptions/listen", "roots/list", "sampling/createMessage"],
}


@pytest.mark.requirement("M:ERR-8", "BASE-18")
@pytest.mark.parametrize("behind", [OLD, NEW])
@pytest.mark.parametrize("revision", [OLD, NEW])
def test_methods_of_other_revisions_are_unknown(revision: str, behind: str) -> None:
    with scripted(Behind(behind).server) as peer:
        if revision == OLD:
            peer.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(OLD)})
            assert "result" in peer.expect()
            peer.notify("notifications/initialized")
        for number, method in enumerate(FOREIGN[revision], 1):
            given: Dict[str, Any] = {"level": "info", "uri": "x://a", "notifications": {}}
            params = modern(given) if revision == NEW else given
            peer.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            answer = peer.expect()
            assert answer["id"] == number and answer["error"]["code"] == -32601, (method, answer)


@pytest.mark.requirement("M:RES-3", "RES-08", "LOG-07")
@pytest.mark.parametrize(("revision", "behind"), [(OLD, NEW), (NEW, OLD)])
def test_errors_have_the_codes_of_the_clients_revision(revision: str, behind: str) -> None:
    with scripted(Behind(behind).server) as peer:
        if revision == OLD:
            peer.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello(OLD)})
            assert "result" in peer.expect()
            level = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel"}
            peer.send({**level, "params": {"level": "loud"}})
            assert peer.expect()["error"]["code"] == -32602
        for uri, code in (("x://none", -32002 if revision == OLD else -32602), ("x://a", None)):
            params = {"uri": uri} if revision == OLD else modern({"uri": uri})
            peer.send({"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": params})
            assert peer.expect().get("error", {}).get("code") == code
        params = {} if revision == OLD else modern()
        peer.send({"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": params})
        assert peer.expect()["error"]["code"] == -32602


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_check_finds_no_fault_of_the_bridge(revision: str, minimcp: Callable[..., Done]) -> None:
    with front(Behind(revision).server, "http") as url:
        done = minimcp("check", url, "--verbose")
    assert done.code == 0 and "FAIL" not in done.out, done.out


def test_an_older_client_gets_no_results_that_it_cannot_read() -> None:
    behind = Behind(NEW)
    with bridged("http", behind, OLD) as client:
        tools = {tool.name: tool for tool in client.list_tools()}
        assert tools["add"].output_schema is None
        result = client.call_tool("add", {"a": 1, "b": 2})
        assert result.text == "3" and not result.has_structured_content
