"""The gateway: several servers of a config behind one, as a client of each kind sees them."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

import minimcp as library
from minimcp import Context, InvalidParams, Progress, RpcError, Server, connect
from minimcp.cli import gateway as module
from minimcp.cli.gateway import Gateway
from minimcp.client.config import read_servers

from ..answering import Answering, error, result
from ..support import ROOT, WAIT, each_pair
from .conftest import Done

OLD, NEW = "2025-11-25", "2026-07-28"


def desk(name: str, revision: str) -> Server:
    """A server of a kind that both servers of the tests are."""
    server = Server(name, instructions=f"I am {name}.", revisions=[revision])

    @server.tool
    def book(ctx: Context, nights: int = 1) -> str:
        "Book a room."
        return name + " " + ctx.elicit("Who?", {"guest": str}).require()["guest"]

    @server.tool
    def steps(ctx: Context) -> str:
        "Report and log."
        for step in range(1, 3):
            ctx.progress(step, 2, f"step {step}")
        ctx.log("info", "booking")
        return name

    @server.tool
    def link() -> List[Any]:
        "Return a link and a resource."
        return [
            library.ResourceLink("desk://a", name="a"),
            library.EmbeddedResource.from_wire(
                {"type": "resource", "resource": {"uri": "desk://b", "text": "B"}}
            ),
        ]

    @server.tool
    def fail() -> str:
        "Fail."
        raise RpcError(-31999, "no, thanks", {"why": 1})

    @server.tool
    def change() -> None:
        "Change something."
        server.resource_updated("desk://a")
        server.remove_tool("fail")

    @server.resource("desk://a")
    def read() -> str:
        "Read."
        return f"A of {name}"

    @server.resource("desk://rooms/{number}", complete={"number": lambda value: [f"{name}1"]})
    def room(number: str) -> str:
        "Read."
        return f"{name} {number}"

    @server.prompt
    def greet(tone: str) -> str:
        "Greet."
        return f"{name}, {tone}"

    return server


@contextmanager
def fronted(way: str, servers: Dict[str, Any], **options: Any) -> Iterator[Any]:
    server = Server("front")
    bridge = Gateway(server, read_servers(servers), **options)
    try:
        if way == "http":
            with server.start_http() as running:
                yield running.url
        else:
            yield server
    finally:
        server.close()
        bridge.end()


WAYS = [
    (way, revision, behind)
    for behind, revision, way in each_pair(
        [(OLD, OLD), (NEW, NEW), (OLD, NEW)], [OLD, NEW], ["http", "memory"]
    )
]


class Host:
    def __init__(self) -> None:
        self.changed, self.updated = threading.Event(), threading.Event()
        self.asked: List[str] = []
        self.logged: List[library.LogMessage] = []
        self.uris: List[str] = []
        self.asked: List[str] = []

    def elicit(self, request: library.ElicitRequest) -> Optional[Dict[str, str]]:
        return self.answer(request)

    def answer(self, request: library.ElicitRequest) -> Optional[Dict[str, str]]:
        self.asked.append(request.message)
        return {"guest": "Ada"}

    def on_log(self, message: library.LogMessage) -> None:
        self.logged.append(message)

    def on_tools_changed(self) -> None:
        self.changed.set()

    def on_resource_updated(self, uri: str) -> None:
        self.uris.append(uri)
        self.updated.set()


@pytest.fixture(params=WAYS, ids=lambda each: f"{each[0]}-{each[1]}-{'+'.join(each[2])}")
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    way, revision, (first, second) = request.param
    host = Host()
    with ExitStack() as stack:
        servers = {"inn": desk("inn", first), "grand__inn": desk("grand", second)}
        for server in servers.values():
            stack.callback(server.close)
        servers["dead"] = [sys.executable, "-c", "raise SystemExit('no licence')"]
        place = stack.enter_context(fronted(way, servers))
        opened = connect(place, revision=revision, timeout=WAIT, handlers=host)
        yield stack.enter_context(opened), host


A = "gateway:inn/desk://a"
B = "gateway:grand__inn/desk://a"


def test_all_is_offered_with_a_prefix(client: Any) -> None:
    opened, _ = client
    names = ["book", "steps", "link", "fail", "change"]
    assert [tool.name for tool in opened.list_tools()] == [
        f"{server}__{name}" for server in ("inn", "grand__inn") for name in names
    ]
    resources = {each.uri: each.name for each in opened.list_resources()}
    assert resources == {A: "inn__read", B: "grand__inn__read"}
    templates = [each.uri_template for each in opened.list_resource_templates()]
    assert templates[0] == "gateway:inn/desk://rooms/{number}" and len(templates) == 2
    prompts = [each.name for each in opened.list_prompts()]
    assert prompts == ["inn__greet", "grand__inn__greet"]
    assert opened.instructions == "inn: I am inn.\n\ngrand__inn: I am grand."
    assert opened.server_info.name == "minimcp-gateway"


def test_calls_reach_the_server_that_is_named(client: Any) -> None:
    opened, host = client
    for server, name in (("inn", "inn"), ("grand__inn", "grand")):
        reports: List[Progress] = []
        assert opened.call_tool(f"{server}__book", {"nights": 2}).text == f"{name} Ada"
        assert host.asked[-1] == f"{server}: Who?"
        opened.call_tool(f"{server}__steps", on_progress=reports.append)
        assert [(each.progress, each.message) for each in reports[:2]] == [
            (1, "step 1"),
            (2, "step 2"),
        ]
        start = f"gateway:{server}/"
        assert opened.read_resource(f"{start}desk://a").text == f"A of {name}"
        assert opened.read_resource(f"{start}desk://a").contents[0].uri == f"{start}desk://a"
        assert opened.read_resource(f"{start}desk://rooms/7").text == f"{name} 7"
        prompt = opened.get_prompt(f"{server}__greet", {"tone": "kindly"})
        assert prompt.messages[0].content.text == f"{name}, kindly"
        template = f"{start}desk://rooms/{{number}}"
        assert opened.complete("number", "", template=template).values == [f"{name}1"]
        assert opened.complete("tone", "", prompt=f"{server}__greet").values == []
        linked, embedded = opened.call_tool(f"{server}__link").content
        assert (linked.uri, embedded.resource.uri) == (f"{start}desk://a", f"{start}desk://b")
        with pytest.raises(RpcError, match="no, thanks") as failed:
            opened.call_tool(f"{server}__fail")
        assert (failed.value.code, failed.value.data) == (-31999, {"why": 1})
    assert host.asked == ["inn: Who?", "grand__inn: Who?"]
    loggers = {message.logger for message in host.logged}
    assert all(str(logger).startswith(("inn", "grand__inn")) for logger in loggers)


def test_changes_of_each_server_are_passed_on(client: Any) -> None:
    opened, host = client
    opened.subscribe(B)
    opened.call_tool("grand__inn__change")
    assert host.changed.wait(WAIT) and host.updated.wait(WAIT)
    assert host.uris == [B]
    assert "grand__inn__fail" not in [tool.name for tool in opened.list_tools(cache="refresh")]


def test_names_that_no_server_has(client: Any) -> None:
    opened, _ = client
    prefixes = "names begin with the name of a server, inn or grand__inn or dead"
    for name, hint in (
        ("book", f": {prefixes}"),
        ("in__book", ", did you mean inn__book?"),
        ("innbook", f": {prefixes}"),
        ("hotel__book", f": {prefixes}"),
        ("", f": {prefixes}"),
    ):
        with pytest.raises(InvalidParams) as caught:
            opened.call_tool(name)
        assert caught.value.message == f"Unknown tool: {name}{hint}"
    with pytest.raises(library.MethodNotFound, match="tools/cal, did you mean tools/call?"):
        opened.request("tools/cal")
    with pytest.raises(InvalidParams, match="Unknown tool: boo"):
        opened.call_tool("inn__boo")
    with pytest.raises(InvalidParams, match="Unknown prompt"):
        opened.get_prompt("greet", {"tone": "x"})
    for uri in ("desk://a", "gateway:other/desk://a"):
        with pytest.raises(RpcError, match="no server has the resource"):
            opened.read_resource(uri)
    with pytest.raises(RpcError):
        opened.read_resource("gateway:inn/desk://none")


def test_a_server_that_fails_affects_only_its_own_calls(client: Any) -> None:
    opened, _ = client
    with pytest.raises(RpcError, match="dead: no answer"):
        opened.call_tool("dead__x")
    assert opened.call_tool("inn__book").text == "inn Ada"


TOOL: Dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}

HOSTILE_LISTS = {
    # The tools of a server called "a" beside "a__b", and what the client sees of them.
    "the name of another's tool": (result(tools=[TOOL, {**TOOL, "name": "b__x"}]), ["a__t"]),
    "with a uri": (result(tools=[{**TOOL, "name": "b__x", "uri": "x"}]), []),
    "without names": (result(tools=[{}, {"name": None}, {"uri": "x"}, 3]), ["a__None"]),
    "not a list": (result(tools={"t": TOOL}), []),
    "schemas of wrong types": (
        result(tools=[{**TOOL, "outputSchema": each} for each in (5, [1], "x", {"type": []})]),
        ["a__t"] * 4,
    ),
    "an error": (error(-32603), []),
    "too much": (result(tools=[{**TOOL, "description": "x" * 1_000_000}] * 20), []),
}


@pytest.mark.parametrize("revision", [OLD, NEW])
@pytest.mark.parametrize("behind", [OLD, NEW])
@pytest.mark.parametrize("kind", HOSTILE_LISTS)
def test_a_hostile_list_affects_no_other_server(revision: str, behind: str, kind: str) -> None:
    answer, seen = HOSTILE_LISTS[kind]
    answers = {"tools/list": answer}
    if behind == NEW:
        answers["server/discover"] = result(supportedVersions=[NEW], capabilities={"tools": {}})
        answers["initialize"] = error(-32601)
    good = desk("good", NEW)
    servers = {"a": Answering(answers), "a__b": good}
    with (
        closing(good),
        fronted("memory", servers) as place,
        connect(place, revision=revision, timeout=WAIT) as opened,
    ):
        listed = [each["name"] for each in opened.request("tools/list")["tools"]]
        own = ["book", "steps", "link", "fail", "change"]
        assert listed == [*seen, *(f"a__b__{each}" for each in own)]
        assert opened.call_tool("a__b__steps").text == "good"


def test_a_call_is_cancelled(client: Any) -> None:
    opened, host = client
    asked = threading.Event()
    token = library.CancelToken()

    def answer(request: library.ElicitRequest) -> None:
        request.on_cancel(asked.set)
        token.cancel()
        assert asked.wait(WAIT)

    host.answer = answer
    with pytest.raises(library.Cancelled):
        opened.call_tool("inn__book", cancel=token)
    assert asked.wait(WAIT)


@pytest.mark.parametrize("revision", [OLD, NEW])
def test_a_slow_server_is_left_out_and_reported_later(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIST_SECONDS", 0.3)
    release = threading.Event()
    slow = Server("slow")
    slow.add_tool(lambda: "x", name="x", description="X.")

    class Late:
        def open_pipe(self) -> Any:
            assert release.wait(WAIT)
            return slow.open_pipe()

    changed = threading.Event()
    with ExitStack() as stack:
        inn = desk("inn", NEW)
        stack.callback(inn.close)
        stack.callback(slow.close)
        place = stack.enter_context(fronted("memory", {"slow": Late(), "inn": inn}))
        opened = stack.enter_context(
            connect(place, revision=revision, timeout=WAIT, on_tools_changed=changed.set)
        )
        assert [tool.name for tool in opened.list_tools()][0] == "inn__book"
        assert len(opened.list_tools(cache="refresh")) == 5
        release.set()
        assert changed.wait(WAIT)
        monkeypatch.setattr(module, "LIST_SECONDS", WAIT)
        assert len(opened.list_tools(cache="refresh")) == 6
        assert opened.call_tool("slow__x").text == "x"


SCRIPT = """
import os, sys
import minimcp
server = minimcp.Server("script")

@server.tool
def pid() -> int:
    "The process."
    return os.getpid()

@server.tool
def token() -> bool:
    "Whether this process has the token."
    return "MINIMCP_TOKEN" in os.environ

@server.tool
def die() -> None:
    "Die."
    print("bad luck", file=sys.stderr, flush=True)
    os._exit(3)

server.run()
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    entry = {"command": sys.executable, "args": [str(script)]}
    servers = {
        "a": entry,
        "b": {**entry, "disabledTools": ["die"]},
        "wrong": {"comand": "x"},
        "off": {**entry, "disabled": True},
        "dead": {"command": "no-such-program"},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def test_the_command(config: Path) -> None:
    lines: List[str] = []
    command = [sys.executable, "-m", "minimcp", "bridge", str(config)]
    with connect(command, timeout=WAIT, connect_timeout=WAIT, stderr=lines.append) as client:
        for _ in range(3):
            listed = client.list_tools(cache="refresh")
            names = [tool.name for tool in listed]
            assert names == ["a__pid", "a__token", "a__die", "b__pid", "b__token"]
        with pytest.raises(InvalidParams, match="Unknown tool: b__die"):
            client.call_tool("b__die")
        first = client.call_tool("a__pid").value
        other = client.call_tool("b__pid").value
        with pytest.raises(RpcError, match=r"a: no answer .*exited with code 3"):
            client.call_tool("a__die")
        assert client.call_tool("b__pid").value == other
        assert client.call_tool("a__pid").value not in (first, other)
    assert "[a] bad luck" in lines
    assert any("wrong is left out" in line and "comand" in line for line in lines)
    (reason,) = [line for line in lines if "no-such-program" in line]  # once, not for each list
    assert reason.endswith(
        "dead is left out: cannot start no-such-program: there is no such program"
    )


def test_the_command_over_http(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import re
    import subprocess

    monkeypatch.setenv("MINIMCP_TOKEN", "secret")
    command = [sys.executable, "-m", "minimcp", "bridge", str(config), "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = None
        while url is None:
            url = re.search(r"http://\S+", process.stderr.readline())
        with pytest.raises(library.AuthorizationError):
            connect(url[0], timeout=WAIT)
        options: Any = {"auth": "secret", "timeout": WAIT}
        with (
            connect(url[0], **options) as client,
            connect(url[0], revision=OLD, **options) as other,
        ):
            names = [tool.name for tool in client.list_tools()]
            assert names == ["a__pid", "a__token", "a__die", "b__pid", "b__token"]
            assert client.call_tool("a__pid").value != other.call_tool("a__pid").value
            assert client.call_tool("a__token").value is False
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.json"], "none.json: No such file or directory"),
        (["empty.json"], "empty.json has no servers"),
        (["mcp.json", "--shared"], "--shared, --idle and --allow-host need --http"),
        (["mcp.json", "--header", "a: b"], "--header is only for a URL: write headers into"),
        (["mcp.json", "--http", "0.0.0.0:0"], "other machines can reach 0.0.0.0"),
        (["mcp.json", "--http", "0", "--idle", "-1"], "--idle must be"),
        (["bad.json"], "bad.json: line 1"),
    ],
)
def test_wrong_usage(
    words: List[str],
    said: str,
    config: Path,
    minimcp: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(config.parent)
    Path("empty.json").write_text('{"mcpServers": {}}')
    Path("bad.json").write_text("{")
    done = minimcp("bridge", *words)
    assert done.code == 2 and said in done.err, done.err
