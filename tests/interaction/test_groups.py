"""A group of server processes from a config file, from the view of a host: working, dead and silent
servers."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp.client import group as group_module
from minimcp.stdio import child

from ..support import ROOT, WAIT

NOTES = """
import os, sys
import minimcp

server = minimcp.Server(sys.argv[1])

@server.tool
def where() -> list[str]:
    "Where it runs, and what it was told."
    return [os.getcwd(), os.environ["TOLD"]]

@server.tool
def die() -> None:
    "Die."
    print("bad luck", file=sys.stderr, flush=True)
    os._exit(3)

server.run()
"""

DEAD = "import sys; sys.exit('no licence')"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow more time for the exit of a process and its last output, because a machine may be busy."""
    for name in ("SETTLE_SECONDS", "STDERR_SECONDS", "CONSUMER_SECONDS"):
        monkeypatch.setattr(child, name, WAIT)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GROUP_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "notes.py").write_text(NOTES, encoding="utf-8")
    entry: Dict[str, Any] = {"type": "stdio", "command": "${GROUP_PYTHON}", "cwd": "."}
    servers = {
        name: {**entry, "args": ["notes.py", name], "env": {"TOLD": "${GROUP_UNSET:-" + name + "}"}}
        for name in ("notes", "notes__2")
    }
    servers["dead"] = {**entry, "args": ["-S", "-c", DEAD]}
    servers["web"] = {"type": "http", "url": "http://127.0.0.1:1/mcp"}
    servers["off"] = {"command": "no-such-program", "disabled": True}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


def test_a_host_with_a_config_file(config: Path) -> None:
    lines: "list[str]" = []
    with minimcp.connect_all(config, timeout=WAIT, stderr=lines.append) as group:
        assert {name: type(error) for name, error in group.errors.items()} == {
            "dead": minimcp.ConnectionFailed,
            "web": minimcp.ConnectionFailed,
        }
        assert (
            f"the server 'dead' in {config}: " in str(group.errors["dead"])
            and "no licence" in lines
        )
        taken = f"the server 'web' in {config}: POST http://127.0.0.1:1/mcp: "
        assert taken in str(group.errors["web"])
        tools = [tool.name for tool in group.list_tools()]
        assert tools == ["notes__where", "notes__die", "notes__2__where", "notes__2__die"]
        for name in ("notes", "notes__2"):
            assert group.call_tool(f"{name}__where").value == [str(config.parent.resolve()), name]
        calls = [("notes__2__where", None), ("notes__die", None), ("dead__x", None)]
        told, lost, absent = group.call_tools(calls, return_exceptions=True)
        assert told.value[1] == "notes__2"
        assert (
            isinstance(lost, minimcp.ConnectionLost)
            and lost.exit_code == 3
            and "bad luck" in lost.stderr_tail
        )
        assert isinstance(absent, minimcp.ConnectionFailed) and "no licence" in str(absent)
        assert [tool.name for tool in group.list_tools()] == ["notes__2__where", "notes__2__die"]
        assert sorted(group.errors) == ["dead", "notes", "web"]
        assert group.call_tool("notes__2__where").value[1] == "notes__2"
    with pytest.raises(minimcp.ConnectionLost):
        group.call_tool("notes__2__where")


# ------------------------------------------------------------ callbacks with the server's name


def _talker() -> minimcp.Server:
    server = minimcp.Server("desk")

    @server.tool
    def book(ctx: minimcp.Context, nights: int = 1) -> str:
        "Book a room."
        ctx.log("info", "booking")
        server.remove_tool("cancel")
        return str(ctx.elicit("How many beds?", {"beds": int}).require()["beds"])

    @server.tool
    def cancel() -> str:
        "Cancel."
        return "cancelled"

    return server


class _Host:
    def __init__(self) -> None:
        self.calls: "list[Any]" = []
        self.both = threading.Event()

    def elicit(self, request: minimcp.ElicitRequest, server: str) -> Dict[str, int]:
        self.calls.append(("elicit", server, request.connection))
        return {"beds": len(server)}

    def on_log(self, message: minimcp.LogMessage, *, server: str) -> None:
        self.calls.append(("log", server, message.connection))

    def on_tools_changed(self) -> None:
        self.both.set()


def test_callbacks_of_a_group_get_the_name_of_their_server() -> None:
    host = _Host()
    traced: "list[str]" = []

    def trace(arrow: str, line: str, server: str = "") -> None:
        traced.append(server)

    servers = {"inn": _talker(), "hotel": _talker()}
    with minimcp.connect_all(servers, handlers=host, trace=trace, timeout=WAIT) as group:
        assert group.call_tool("hotel__book").text == "5"
        assert group.call_tool("inn__book").text == "3"
        assert host.both.wait(WAIT)
    assert sorted(host.calls) == [
        (kind, name, name) for kind in ("elicit", "log") for name in ("hotel", "inn")
    ]
    assert set(traced) == {"inn", "hotel"}


@pytest.mark.parametrize("made", [lambda log: log.info, lambda log: log])
def test_a_logger_and_its_methods_can_receive_the_stderr_of_a_group(
    made: Any, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A function with any keywords is not one with a parameter of the name ``server``."""
    log = logging.getLogger("group.stderr")
    with caplog.at_level("INFO", "group.stderr"):
        with minimcp.connect_all(config, timeout=WAIT, stderr=made(log)):
            pass
    prefix = "[dead] " if made(log) is log else ""
    assert f"{prefix}no licence" in caplog.messages


def test_lines_of_a_file_begin_with_the_name_of_the_server(config: Path, tmp_path: Path) -> None:
    paths = tmp_path / "stderr.txt", tmp_path / "trace.txt"
    with paths[0].open("w") as stderr, paths[1].open("w") as trace:
        with minimcp.connect_all(config, timeout=WAIT, stderr=stderr, trace=trace) as group:
            group.list_tools()
            group.call_tools([("notes__die", None)], return_exceptions=True)
    assert "[dead] no licence\n" in paths[0].read_text()
    assert "[notes] bad luck\n" in paths[0].read_text()
    arrows = {line.split(" {")[0] for line in paths[1].read_text().splitlines()}
    assert arrows >= {
        f"[{name}] {arrow}" for name in ("notes", "notes__2") for arrow in ("-->", "<--")
    }
    assert all(arrow.startswith("[") for arrow in arrows)


def test_a_wrong_handler_is_reported_as_without_a_group() -> None:
    for handlers in (_Host, {"on_log": print}, object()):
        with pytest.raises(TypeError, match="handlers"):
            minimcp.connect_all({"inn": _talker()}, handlers=handlers)
    with pytest.raises(TypeError, match="stderr must be"):
        minimcp.connect_all({"inn": [sys.executable, "x.py"]}, stderr=3)


# ------------------------------------------------------------ tools that are offered

FILTERS: Any = [
    ({"inn": ["book"]}, ["inn__book", "hotel__book", "hotel__cancel"]),
    ({"inn": [], "hotel": ("cancel",)}, ["hotel__cancel"]),
    (lambda server, tool: (server, tool) == ("inn", "cancel"), ["inn__cancel"]),
]


@pytest.mark.parametrize(("tools", "offered"), FILTERS)
def test_only_some_tools_are_offered(tools: Any, offered: "list[str]") -> None:
    servers = {"inn": _talker(), "hotel": _talker()}
    with minimcp.connect_all(servers, tools=tools) as group:
        assert [tool.name for tool in group.list_tools()] == offered
        for name in {"inn__cancel", "hotel__cancel"} - {*offered}:
            with pytest.raises(minimcp.InvalidParams, match="Unknown tool: cancel"):
                group.call_tool(name)


def test_a_tool_of_another_server_is_not_suggested() -> None:
    servers = {"inn": _talker(), "hotel": _talker()}
    with minimcp.connect_all(servers, tools={"inn": ["book"]}) as group:
        assert "hotel__cancel" in [tool.name for tool in group.list_tools()]
        with pytest.raises(minimcp.InvalidParams) as caught:
            group.call_tool("inn__cancel")
        assert "hotel" not in str(caught.value)
        with pytest.raises(minimcp.InvalidParams, match="cancel[?] .in this group: hotel__cancel"):
            group.call_tool("hotel__Cancel")


def test_the_filters_of_a_config_and_of_a_program_both_apply(config: Path) -> None:
    whole = json.loads(config.read_text())
    table = {name: whole["mcpServers"][name] for name in ("notes", "notes__2")}
    table["notes"]["disabledTools"] = ["die"]
    config.write_text(json.dumps({"mcpServers": table}))
    with minimcp.connect_all(config, tools=lambda server, tool: server == "notes") as group:
        assert [tool.name for tool in group.list_tools()] == ["notes__where"]


@pytest.mark.parametrize(
    ("tools", "kind", "words"),
    [
        ({"in": ["book"]}, ValueError, "tools has 'in': the servers are inn"),
        ({"inn": "book"}, TypeError, r"tools\['inn'\] must be a list of names"),
        (["book"], TypeError, "tools must be a mapping"),
    ],
)
def test_a_wrong_filter(tools: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        minimcp.connect_all({"inn": _talker()}, tools=tools)


# ------------------------------------------------------------ failures, and servers that return


def test_errors_name_the_server_as_the_host_does(config: Path) -> None:
    with minimcp.connect_all(config, timeout=WAIT) as group:
        assert str(group.errors["web"]).startswith(f"the server 'web' in {config}: POST ")
        group.list_tools()
        with pytest.raises(minimcp.InvalidParams, match="did you mean where.*: notes__where"):
            group.call_tool("notes__wher")
        outcome = group.call_tools([("notes__wher", None)], return_exceptions=True)[0]
        assert "notes__where" in str(outcome)
        with pytest.raises(minimcp.ConnectionLost, match=r"^notes: .*restart=True") as lost:
            group.call_tool("notes__die")
        assert lost.value.exit_code == 3
        assert str(group.errors["notes"]).startswith("notes: ")
        outcome = group.call_tools([("notes__where", None)], return_exceptions=True)[0]
        assert str(outcome).startswith("notes: ")


def test_a_failing_list_is_logged_once(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    with minimcp.connect_all(config, timeout=WAIT) as group:
        with pytest.raises(minimcp.ConnectionLost):
            group.call_tool("notes__die")
        for _ in range(3):
            group.list_tools()
    assert sum("are left out" in message for message in caplog.messages) == 1


STARTS = """
import os, sys
if not os.path.exists(sys.argv[1]):
    sys.exit("not yet")
import minimcp
server = minimcp.Server("late")

@server.tool
def pid() -> int:
    "The process."
    return os.getpid()

@server.tool
def die() -> None:
    "Die."
    os._exit(3)

server.run()
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A config whose server starts when a file exists, and that file."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ready = tmp_path / "ready"
    return {"late": [sys.executable, "-c", STARTS, str(ready)]}, ready


def test_restart_also_opens_a_server_that_was_down_at_the_start(
    late: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, ready = late
    monkeypatch.setattr(group_module, "RETRY_SECONDS", 0.0)
    with minimcp.connect_all(config, restart=True, timeout=WAIT) as group:
        assert "not yet" in str(group.errors["late"])
        assert group.list_tools() == []
        with pytest.raises(minimcp.ConnectionFailed, match="because 'late' was not opened: .*"):
            group.call_tool("late__pid")
        ready.touch()
        assert [tool.name for tool in group.list_tools()] == ["late__pid", "late__die"]
        assert not group.errors
        assert group.call_tool("late__pid").value > 0


def test_restart_also_opens_an_http_server_that_was_down_at_the_start() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = {"web": f"http://127.0.0.1:{port}/mcp"}
    with minimcp.connect_all(config, restart=True, timeout=WAIT) as group:
        assert "nothing is listening" in str(group.errors["web"])
        with _talker().start_http(port=port):
            assert "web__book" in [tool.name for tool in group.list_tools()]
            assert not group.errors


def test_a_call_does_not_try_again_at_once(late: Any) -> None:
    config, ready = late
    with minimcp.connect_all(config, restart=True, timeout=WAIT) as group:
        for _ in range(2):
            with pytest.raises(minimcp.ConnectionFailed):
                group.call_tool("late__pid")
            ready.touch()


def test_reconnect(late: Any) -> None:
    config, ready = late
    with minimcp.connect_all(config, timeout=WAIT) as group:
        with pytest.raises(minimcp.ConnectionFailed, match="not yet"):
            group.reconnect("late")
        with pytest.raises(KeyError, match="the group has no server"):
            group.reconnect("lat")
        ready.touch()
        assert group.list_tools() == []  # without restart=True it is not tried again
        first = group.reconnect("late")
        assert group.reconnect("late") is first is group.clients["late"]
        with pytest.raises(minimcp.ConnectionLost):
            group.call_tool("late__die")
        group.list_tools()
        assert list(group.errors) == ["late"]
        assert group.reconnect("late") is not first
        assert not group.errors
        assert group.call_tool("late__pid").value > 0 and not group.errors
        group.clients["late"].close()
        group.reconnect("late")
        assert group.call_tool("late__pid").value > 0
    with pytest.raises(minimcp.ConnectionLost, match="the group is closed"):
        group.reconnect("late")


def test_submit_and_resolve() -> None:
    with minimcp.connect_all({"inn": _talker()}, elicit=lambda request: {"beds": 2}) as group:
        future = group.submit(group.call_tool, "inn__book")
        assert future.result(WAIT).text == "2"
        server, client, name = group.resolve("inn__book")
        assert (server, client, name) == ("inn", group.clients["inn"], "book")
        with pytest.raises(TypeError, match="submit takes"):
            group.submit("inn__book")  # type: ignore[arg-type]


def test_on_restart(late: Any) -> None:
    config, ready = late
    ready.touch()
    restarted: "list[str]" = []
    done = threading.Event()

    def on_restart(server: str) -> None:
        restarted.append(server)
        done.set()

    with minimcp.connect_all(config, restart=True, on_restart=on_restart, timeout=WAIT) as group:
        with pytest.raises(minimcp.ConnectionLost):
            group.call_tool("late__die")
        assert restarted == []
        assert group.call_tool("late__pid").value > 0
        assert done.wait(WAIT)
    assert restarted == ["late"]


@pytest.mark.parametrize(
    ("ending", "revision"),
    [
        ("cancel", "2025-11-25"),
        ("cancel", "2026-07-28"),
        ("close", "2025-11-25"),
        ("close", "2026-07-28"),
        # In 2026-07-28 no request is open while the user answers, so nothing shows a loss.
        ("loss", "2025-11-25"),
    ],
)
def test_a_question_over_http_becomes_void_with_its_call(ending: str, revision: str) -> None:
    asked = threading.Event()
    void = threading.Event()

    def elicit(request: minimcp.ElicitRequest) -> None:
        request.on_cancel(void.set)
        asked.set()
        assert void.wait(WAIT)

    server = minimcp.Server("asks", limits=minimcp.Limits(drain_grace=0.1))

    @server.tool
    def ask(ctx: minimcp.Context) -> str:
        "Ask."
        return ctx.elicit("?", {"name": str}).action

    with server.start_http() as running:
        with minimcp.connect(running.url, elicit=elicit, revision=revision) as client:
            call = client.submit(client.call_tool, "ask")
            assert asked.wait(WAIT)
            if ending == "cancel":
                call.cancel()
            elif ending == "loss":
                client.submit(client.ping).result(WAIT)
                running.close()
            else:
                client.close()
            assert void.wait(WAIT)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("ending", ["die", "cancel", "close"])
def test_a_host_is_notified_when_a_question_becomes_void(ending: str, revision: str) -> None:
    """Without polling `cancelled`."""
    asked = threading.Event()
    void = threading.Event()
    servers: List[int] = []

    def elicit(request: minimcp.ElicitRequest) -> None:
        request.on_cancel(void.set)
        assert not request.cancelled
        servers.append(int(request.message))
        asked.set()
        assert void.wait(WAIT) and request.cancelled

    command = [sys.executable, "-c", ASKS]
    with minimcp.connect_all({"a": command}, elicit=elicit, revision=revision) as group:
        call = group.submit(group.call_tool, "a__ask")
        assert asked.wait(WAIT)
        if ending == "cancel":
            call.cancel()
        elif ending == "die":
            os.kill(servers[0], signal.SIGKILL)
        elif ending == "close":
            group.close()
        assert void.wait(WAIT)
        if ending != "cancel":
            assert isinstance(call.exception(WAIT), minimcp.ConnectionLost)


ASKS = """
import os
import minimcp
server = minimcp.Server("asks")

@server.tool
def ask(ctx: minimcp.Context) -> str:
    "Ask, with the number of this process."
    return ctx.elicit(str(os.getpid()), {"name": str}).action

server.run()
"""


DIES = """
import os, threading
import minimcp
server = minimcp.Server("dies")

@server.tool
def die(ctx: minimcp.Context) -> None:
    "Die after the response has begun."
    ctx.progress(1)
    threading.Timer(0.2, os._exit, (3,)).start()
    ctx.sleep(600)

with server.start_http() as running:
    print(running.url, flush=True)
    threading.Event().wait()
"""


def test_the_loss_of_a_server_over_http_is_described_once() -> None:
    process = subprocess.Popen([sys.executable, "-c", DIES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, minimcp.connect(process.stdout.readline().strip(), timeout=WAIT) as client:
        with pytest.raises(minimcp.ConnectionLost) as lost:
            client.call_tool("die", on_progress=lambda progress: None)
    text = str(lost.value)
    assert text.count("http://") == 1 and "the body ends too early" in text
    assert text.count("IncompleteRead") == 1


def test_the_only_permitted_revision_is_not_part_of_stderr() -> None:
    command = [sys.executable, "-S", "-c", DEAD]
    with pytest.raises(minimcp.ConnectionFailed) as failed:
        minimcp.connect(command, revision="2025-11-25")
    lines = str(failed.value).splitlines()
    assert lines[0].endswith("(only 2025-11-25 was permitted)")
    assert lines[-1].strip() == "no licence"


ASKS_FOREVER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    reply = {"jsonrpc": "2.0", "id": request.get("id"), "result": {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "old", "version": "1"}}}
    if request.get("method") == "tools/call":
        meta = request["params"].get("arguments", {})
        if not meta.pop("asks"):
            continue
        reply = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {
            "message": "?", "requestedSchema": {"type": "object"}, "_meta": meta}}
    if request.get("id") == "q":
        print("got", json.dumps(request["result"]), file=sys.stderr, flush=True)
    elif "id" in request:
        print(json.dumps(reply), flush=True)
"""


@pytest.mark.parametrize("is_of_task", [False, True])
def test_a_question_that_no_call_waits_for(is_of_task: bool) -> None:
    """The server never withdraws its question, so the client does when no call can have asked it."""
    asked = threading.Event()
    void = threading.Event()
    may_end = threading.Event()
    lines: Any = queue.Queue()

    def elicit(request: minimcp.ElicitRequest) -> minimcp.Answer:
        request.on_cancel(void.set)
        asked.set()
        assert (may_end if is_of_task else void).wait(WAIT)
        return minimcp.Answer("cancel")

    server = [sys.executable, "-c", ASKS_FOREVER]
    with minimcp.connect(server, elicit=elicit, revision="2025-11-25", stderr=lines.put) as client:
        related = {"io.modelcontextprotocol/related-task": {"taskId": "1"}} if is_of_task else {}
        quiet = client.submit(client.call_tool, "x", {"asks": False})
        loud = client.submit(client.call_tool, "x", {"asks": True, **related})
        assert asked.wait(WAIT)
        loud.cancel()
        assert not void.wait(0.2)  # the other call may have asked it, too
        quiet.cancel()
        assert void.is_set() is not is_of_task
        may_end.set()
        assert lines.get(timeout=WAIT) == 'got {"action": "cancel"}'


DIES_IN_LISTS = """
import os, sys
import minimcp
server = minimcp.Server("dies")

@server.tool
def wait() -> None:
    "Wait."

@server.middleware(lists=True)
def die(ctx, call_next):
    print("no database", file=sys.stderr)
    print("  at line\\x1b[2J 5", file=sys.stderr, flush=True)
    os._exit(3)

server.run()
"""


def test_the_end_of_stderr_is_readable_in_a_log_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = tmp_path / "dies.py"
    server.write_text(DIES_IN_LISTS)
    with minimcp.connect_all({"a": [sys.executable, str(server)]}, stderr=str) as group:
        assert group.list_tools() == []
    (message,) = caplog.messages
    assert message.startswith("the tools of 'a' are left out: ")
    assert message.endswith(" | its stderr ended with: | no database | at line\\x1b[2J 5")
