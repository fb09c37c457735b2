"""`connect`: how it interprets a target, its error messages, and options that do not apply."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest

import minimcp
from minimcp import Server, StdioServer
from minimcp.client import connect as connecting
from minimcp.client.connect import read_target
from minimcp.client.host import Host
from minimcp.client.session import ClientSession
from minimcp.engine.limits import Limits
from minimcp.stdio import child

from ..answering import R4, R5, Answering, result, silence
from ..scripted import Task, no_threads
from ..support import ROOT, WAIT

QUICK = """
import sys, json
sys.path.insert(0, {root!r})
import minimcp
server = minimcp.Server("quick")
@server.tool
def where() -> list[str]:
    "Where it runs."
    import os
    return [os.getcwd(), os.environ.get("MARK", "")]
server.run()
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow more time for the exit of a process and its last output, because a machine may be busy."""
    for name in ("SETTLE_SECONDS", "STDERR_SECONDS", "CONSUMER_SECONDS"):
        monkeypatch.setattr(child, name, WAIT)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "quick.py"
    file.write_text(QUICK.format(root=str(ROOT)), encoding="utf-8")
    return file


def starts(monkeypatch: pytest.MonkeyPatch, start: Callable[[], Any]) -> None:
    made = type("ChildTransport", (), {"__new__": lambda cls, *_, **__: start()})
    monkeypatch.setattr(connecting, "ChildTransport", made)


def command(target: Any) -> List[str]:
    return list(read_target(target).object.command)


def test_the_order_of_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = Server("x")
    assert read_target(server).object is server
    stdio = StdioServer(["a"])
    assert read_target(stdio).object is stdio
    assert command(["a", Path("b")]) == ["a", "b"] == command(("a", "b"))
    for name in ("here.py", "two words.py", "tool", "here.js", "here.mjs"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert (
        command("here.py")
        == [sys.executable, str(tmp_path / "here.py")]
        == command(Path("here.py"))
    )
    assert command("two words.py") == [sys.executable, str(tmp_path / "two words.py")]
    assert (
        command("./tool")
        == [str(tmp_path / "tool")]
        == command(str(tmp_path / "tool"))
        == command(Path("tool"))
    )
    assert command("here.js") == ["node", str(tmp_path / "here.js")]
    assert command("here.mjs") == ["node", str(tmp_path / "here.mjs")]
    assert command("prog 'an argument' $HOME;") == ["prog", "an argument", "$HOME;"]
    assert (
        read_target("prog x").what == "a command line" and read_target("here.py").what == "a file"
    )


@pytest.mark.parametrize(
    "line",
    [
        "prog -y some-server",
        "prog",
        "prog server.py",
        "prog ./server.py",
        "prog\tdist/server.js",
        " prog x.py",
    ],
)
def test_a_program_comes_before_a_file_of_that_name(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for file in (tmp_path / "bin" / "prog", tmp_path / line):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o755)
    assert command(line) == line.split()
    (tmp_path / "bin" / "prog").unlink()
    if not line.endswith(("py", "js")):
        with pytest.raises(minimcp.ConnectionFailed, match="for the file"):
            read_target(line)


def test_a_script_with_arguments_is_not_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "todo.py"
    script.touch(mode=0o644)
    words = r"is not a program: write connect\(\[sys.executable, 'todo.py', 'a b.json'\]\)$"
    with pytest.raises(minimcp.ConnectionFailed, match=words):
        read_target("todo.py 'a b.json'")
    script.rename("todo.mjs")
    with pytest.raises(
        minimcp.ConnectionFailed, match=r"write connect\(\['node', 'todo.mjs', 'x'\]\)$"
    ):
        read_target("todo.mjs x")
    script.touch(mode=0o755)
    assert command("./todo.py x") == ["./todo.py", "x"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command("todo.py x") == ["todo.py", "x"]


def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for target in ("gone.py", "gone.js", "gone.mjs", Path("gone.py"), "./folder/gone.py"):
        with pytest.raises(
            minimcp.ConnectionFailed,
            match=rf"^there is no file '\S*gone.m?[pj][ys]+' in {tmp_path}$",
        ):
            minimcp.connect(target)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "gone.py").touch()
    assert read_target("gone.py", cwd="folder").object.command == (sys.executable, "gone.py")


def test_targets_that_name_no_server() -> None:
    for target, kind, text in (
        (Server, TypeError, "class"),
        (5, TypeError, "int"),
        (b"x", TypeError, "bytes"),
        ("https://", ValueError, "a URL must begin"),
        ("http:///mcp", ValueError, "a URL must begin"),
        ([], ValueError, "empty"),
        ("", ValueError, "empty"),
        ("'open", ValueError, "a command line"),
        (
            "localhost:8000/mcp",
            minimcp.ConnectionFailed,
            "command line: write 'http://localhost:8000/mcp' or 'https://localhost:8000/mcp' for a URL",
        ),
    ):
        with pytest.raises(kind, match=text):
            read_target(target)


def test_options_that_do_not_apply() -> None:
    for target in (Server("x"), StdioServer(["a"])):
        for options in ({"env": {}}, {"cwd": "."}):
            with pytest.raises(TypeError, match="env and cwd"):
                minimcp.connect(target, **options)
    with pytest.raises(TypeError, match="stderr"):
        minimcp.connect(Server("x"), stderr=print)
    with pytest.raises(ValueError, match="revision"):
        minimcp.connect(Server("x"), revision="newest")
    with pytest.raises(TypeError, match="class"):
        minimcp.connect(Server("x"), handlers=Answering)
    with pytest.raises(TypeError):
        minimcp.connect(Server("x"), client_info={"name": "no version"})
    with pytest.raises(TypeError, match="trace"):
        minimcp.connect(Server("x"), trace=5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(
            (f"max_{name}", name)
            for name in ("message_bytes", "depth", "workers", "backlog_bytes", "cache_bytes")
        ),
        ("write_timeout", "write_timeout"),
    ],
)
def test_a_former_option_says_which_limit_it_is_now(old: str, new: str) -> None:
    with pytest.raises(
        TypeError, match=rf"no longer has an option {old}=: write limits=Limits\({new}=\.\.\.\)"
    ):
        minimcp.connect(Server("x"), **{old: 1})
    assert hasattr(minimcp.Limits(), new)


def test_a_server_that_never_agrees_is_ended_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "CLOSE_SECONDS", 6 * WAIT)
    monkeypatch.setattr(child, "SETTLE_SECONDS", 0.1)  # it lives on
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    half = "import os, time\nos.close(1)\nwhile True: time.sleep(60)"
    for code, seconds, kind in (
        (stubborn, 0.4, minimcp.RequestTimeout),
        (half, WAIT, minimcp.ConnectionFailed),
    ):
        command = [sys.executable, "-S", "-c", code]
        connecting = Task(lambda: minimcp.connect(command, connect_timeout=seconds))  # noqa: B023, ended in this round
        with pytest.raises(kind):
            connecting.result()


def test_a_name_in_a_config(script: Path, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = {
        "command": sys.executable,
        "args": [script.name],
        "cwd": ".",
        "env": {"MARK": "${UNSET_MARK:-m}"},
    }
    file.write_text(
        json.dumps({"mcpServers": {"quick.py": entry, "dead": {"command": "no-such-program"}}})
    )
    with minimcp.connect("quick.py", config=file, timeout=WAIT) as client:
        assert client.call_tool("where").structured_content == [os.path.realpath(tmp_path), "m"]
    with pytest.raises(
        minimcp.ConnectionFailed, match=f"the server 'dead' in {file}: .*no such program"
    ):
        minimcp.connect("dead", config=str(file))
    with pytest.raises(ValueError, match="has no server 'other'"):
        minimcp.connect("other", config=file)
    with pytest.raises(
        TypeError, match="must be the server's name, a str, not the (Posix|Windows)Path"
    ):
        minimcp.connect(script, config=file)
    for options in ({"env": {}}, {"cwd": "."}):
        with pytest.raises(TypeError, match="env and cwd belong in the config"):
            minimcp.connect("dead", config=file, **options)  # type: ignore[arg-type]
    with minimcp.connect("it", config={"it": Server("x")}) as client:
        assert client.server_info is not None and client.server_info.name == "x"
    with pytest.raises(minimcp.RequestTimeout, match="the server 'it': "):
        minimcp.connect(
            "it",
            config={"it": Answering({"initialize": lambda message: None})},
            connect_timeout=0.02,
        )


@pytest.mark.parametrize("revision", ["auto", R4, R5])
def test_the_attempt_is_given_up_by_a_token(revision: str) -> None:
    token = minimcp.CancelToken()
    silent = Answering(
        {
            "initialize": lambda message: token.cancel("enough"),
            "server/discover": lambda message: token.cancel("enough"),
        }
    )
    with pytest.raises(minimcp.Cancelled, match="^enough$"):
        minimcp.connect(silent, revision=revision, connect_timeout=None, cancel=token)
    assert silent.pipe.closed and len(silent.pipe.methods()) == 1
    late = Answering()
    with pytest.raises(minimcp.Cancelled):
        minimcp.connect(late, cancel=token)
    assert late.pipe is None
    with pytest.raises(TypeError, match="CancelToken"):
        minimcp.connect(late, cancel=5)  # type: ignore[arg-type]


def test_a_server_that_ends_while_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    token = minimcp.CancelToken()
    servers: List[Answering] = []

    def start() -> Any:
        def die(message: Any) -> None:
            server.pipe.end()

        server = Answering({"server/discover": die})
        servers.append(server)
        if len(servers) == 2:
            token.cancel("enough")
        return server.open_pipe()

    starts(monkeypatch, start)
    with pytest.raises(minimcp.Cancelled):
        minimcp.connect(["a"], cancel=token)
    assert len(servers) == 2 and servers[1].pipe.closed and servers[1].pipe.methods() == []


def test_a_token_that_is_cancelled_when_all_is_agreed_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token, checked = minimcp.CancelToken(), connecting.check_token
    checks: List[Any] = []

    def check(cancel: Any) -> None:
        checked(cancel)
        checks.append(cancel)
        if len(checks) == 2:  # the first is that of the arguments
            token.cancel("too late")

    monkeypatch.setattr(connecting, "check_token", check)
    with minimcp.connect(Answering({"tools/list": result(tools=[])}), cancel=token) as client:
        assert token.cancelled and client.loss is None and client.list_tools() == []


@pytest.mark.parametrize("part", ["reader", "writer"])
def test_a_connection_that_gets_no_threads_leaves_nothing_open(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Answering()
    with no_threads(monkeypatch, f"memory-{part}", f"scripted-{part}"):
        with pytest.raises(minimcp.ConnectionFailed, match="new thread"):
            minimcp.connect(server)
    assert server.pipe.closed


def test_closing_a_client_that_a_token_has_ended_does_not_raise() -> None:
    server = Answering({"initialize": silence})
    session = ClientSession.over(server.open_pipe(), Host(), Limits())
    session.stop(minimcp.Cancelled("enough"))
    for _ in range(2):
        session.close()


@pytest.mark.parametrize("state", ["frozen", "embedded", "no executable"])
def test_a_program_that_is_not_python_starts_no_script_with_itself(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a frozen program ``sys.executable`` is the program: it would start itself for ever."""
    script = tmp_path / "server.py"
    script.write_text("")
    if state == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", "" if state == "embedded" else None)
    config = {"it": str(script)}
    targets: Any = [
        lambda: minimcp.connect(str(script)),
        lambda: minimcp.connect(script),
        lambda: minimcp.connect("it", config=config),
        lambda: minimcp.connect_all(config, strict=True),
    ]
    for connect in targets:
        with pytest.raises(minimcp.ConnectionFailed, match="name the Python interpreter") as caught:
            connect()
        assert repr(["python3", str(script)]) in str(caught.value)
    assert isinstance(minimcp.connect_all(config).errors["it"], minimcp.ConnectionFailed)
    with pytest.raises(minimcp.ConnectionFailed, match="there is no file"):
        minimcp.connect("gone.py")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        minimcp.ConnectionFailed, match=r"write connect\(\['python3', 'server.py', 'a'"
    ):
        minimcp.connect("server.py a")


DIES = "import sys; sys.path[:] = {path!r}; import minimcp, os; server = minimcp.Server('x'); server.tool(lambda: os._exit(3), name='die', description='x'); server.run()"


@pytest.mark.requirement("M:STD-12")
@pytest.mark.parametrize("restart", [False, True])
def test_the_message_of_a_lost_server_names_restart_where_it_helps(restart: bool) -> None:
    command = [sys.executable, "-c", DIES.format(path=sys.path)]
    with minimcp.connect(command, restart=restart) as client:
        with pytest.raises(minimcp.ConnectionLost) as caught:
            client.call_tool("die")
        assert ("restart=True" in str(caught.value)) is not restart
        if not restart:
            with pytest.raises(minimcp.ConnectionLost, match="restart=True"):
                client.list_tools()
    with pytest.raises(minimcp.ConnectionLost) as caught:
        client.list_tools()
    assert "restart=True" not in str(caught.value), "it was closed"


def test_the_message_of_a_server_that_did_not_start_does_not_name_restart() -> None:
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        minimcp.connect([sys.executable, "-c", "raise SystemExit(3)"])
    assert "restart" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments, name",
    [
        (["/srv/host.py", "x"], "host.py"),
        (["/srv/app/__main__.py"], "app"),  # python -m app
        ([""], "minimcp"),
        ([], "minimcp"),
    ],
)
def test_a_client_is_named_after_its_script_or_package(
    arguments: List[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", arguments)
    seen = []
    server = Server("x")

    @server.tool
    def look(ctx: minimcp.Context) -> None:
        seen.append(ctx.client.info.name)

    with minimcp.connect(server) as client:
        client.call_tool("look")
    assert seen == [name]
