"""doctor: what it reports about each server of a host's file, and when it exits with 1."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

import pytest

from minimcp.cli import doctor
from minimcp.cli.install import HOSTS

from ..support import WAIT
from .conftest import Done, run_process
from .test_install import home as home  # a fixture

ANSWERING = """
import json, sys, time
{first}
SAID = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
        "serverInfo": {{"name": "shop", "version": "3"}}}}
for line in sys.stdin:
    asked = json.loads(line)
    results = {{"initialize": SAID, "tools/list": {{"tools": json.loads({tools!r})}}}}
    said = {{"error": {{"code": -32601, "message": "Method not found"}}}}
    if asked["method"] in results:
        said = {{"result": results[asked["method"]]}}
    if "id" in asked:
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **said}}), flush=True)
"""


def _tool(name: str, *parameters: str, root: str = "object") -> Dict[str, Any]:
    fields = {each: {"type": "string"} for each in parameters}
    return {"name": name, "inputSchema": {"type": root, "properties": fields}}


@pytest.fixture
def write(home: Path, tmp_path: Path) -> Callable[..., Path]:
    """Write the user's file of Cursor, with one server for each keyword, and return its path."""

    def write(**entries: Any) -> Path:
        path = Path(HOSTS["cursor"].user_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, entry in entries.items():
            if isinstance(entry, str):
                (tmp_path / f"{name}.py").write_text(entry, "utf-8")
                entry = {"command": sys.executable, "args": [str(tmp_path / f"{name}.py")]}
            entries[name] = entry
        path.write_text(json.dumps({"mcpServers": entries}), "utf-8")
        return path

    return write


def _server(first: str = "", tools: Any = ()) -> str:
    return ANSWERING.format(first=first, tools=json.dumps(list(tools)))


def test_servers_that_work(write: Callable[..., Path], minimcp: Callable[..., Done]) -> None:
    off = {"command": "no-such-program", "disabled": True}
    path = write(good=_server(tools=[_tool("a", "b")]), off=off)
    for words in (["--client", "cursor"], [str(path)], []):
        done = minimcp("doctor", *words)
        lines = done.out.splitlines()
        assert (done.code, done.err, lines[0]) == (0, "", str(path)), done
        assert lines[1].startswith("    good: 1 tool, started in ")
        assert lines[2:] == ["    off: disabled, not started", "servers: 2, problems: 0"]


PROBLEMS: Mapping[str, Any] = {
    "a missing interpreter": (
        {"command": "/no/such/python", "args": ["x.py"]},
        "cannot start /no/such/python x.py: there is no such program",
    ),
    "a missing module": (
        "import no_such_module",
        f"{sys.executable} has no module no_such_module: install the package that has it there "
        f"({sys.executable} -m pip install PACKAGE), or write the path of a Python that has it",
    ),
    "a missing file": (
        {"command": sys.executable, "args": ["/no/such/server.py"]},
        "Write an absolute path",
    ),
    "a print": (
        _server("print('hello there', flush=True)"),
        "it prints on stdout, which belongs to the protocol: 'hello there'. Print to sys.stderr",
    ),
    "a print and an exit": ("print('bye')", "it prints on stdout"),
    "no response": ("input()\ninput()\nimport time\ntime.sleep(60)", "hosts do not wait longer"),
    "a parameter": (_server(tools=[_tool("a", "größe")]), "tool 'a' has the parameter 'größe'"),
    "two names": (
        _server(tools=[_tool("a.b"), _tool("a_b")]),
        "tool 'a.b' is called 'a_b' by some hosts, as is 'a_b'",
    ),
    "a member": ({"command": 5}, "command: must be a string, not the number 5"),
    "a word": ({"command": "python3 x.py"}, 'put arguments into "args"'),
    "a url": ({"url": "http://127.0.0.1:9/mcp"}, "127.0.0.1"),
    "not an entry": (5, "must be an object, not the number 5"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_is_wrong_with_a_server(
    case: str, write: Callable[..., Path], minimcp: Callable[..., Done]
) -> None:
    entry, said = PROBLEMS[case]
    write(shop=entry)
    # The others have time to start on a busy machine.
    seconds = "0.5" if case == "no response" else f"{WAIT:g}"
    done = minimcp("doctor", "--client", "cursor", "--timeout", seconds)
    assert done.code == 1 and done.err == "", done
    assert f"      ! {said}" in done.out or said in done.out.partition("      ! ")[2], done


def test_a_process_prints_nothing_but_the_report(write: Callable[..., Path]) -> None:
    """Without a handler, logging would print the warning about the line on stderr too."""
    path = write(shop=_server("print('hello there', flush=True)"))
    done = run_process("doctor", str(path))
    assert done.code == 1 and "'hello there'" in done.out and done.err == "", done


def test_a_slow_start(
    write: Callable[..., Path], minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SLOW_SECONDS", 0.0)
    path = write(shop=_server())
    done = minimcp("doctor", str(path))
    assert done.code == 1 and "! the start took " in done.out, done
    whole = json.loads(path.read_text("utf-8"))
    whole["mcpServers"]["shop"]["startup_timeout_sec"] = 50  # the host waits as long as it says
    path.write_text(json.dumps(whole), "utf-8")
    assert minimcp("doctor", str(path)).code == 0


def test_tools_that_the_file_excludes_do_not_count(
    write: Callable[..., Path], minimcp: Callable[..., Done]
) -> None:
    path = write(shop=_server(tools=[_tool("a", "größe"), _tool("b")]))
    whole = json.loads(path.read_text("utf-8"))
    whole["mcpServers"]["shop"]["disabledTools"] = ["a"]
    path.write_text(json.dumps(whole), "utf-8")
    assert minimcp("doctor", str(path)).code == 0


def test_a_server_starts_in_the_folder_where_the_host_starts_it(
    write: Callable[..., Path], minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host does not start servers in the current folder, so a relative path is wrong."""
    server = _server()
    path = write(shop=server)
    Path(path.parent, "near.py").write_text(server, "utf-8")
    monkeypatch.chdir(path.parent)
    write(shop={"command": sys.executable, "args": ["near.py"]})
    done = minimcp("doctor", "--client", "cursor")
    assert done.code == 1 and "near.py is relative to this folder" in done.out, done
    assert "shop: does not work" in done.out


@pytest.mark.parametrize(
    "target", ["server.py", "http://127.0.0.1:1/mcp", "python3 server.py", "none", "."]
)
def test_a_server_instead_of_a_config(
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    minimcp: Callable[..., Done],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.py").write_text("import minimcp\n")
    done = minimcp("doctor", target)
    assert (done.code, done.out) == (2, "")
    assert f"{target} is not a host's config file: this command reads a file such as" in done.err
    quoted = shlex.quote(target)
    assert f"python3 -m minimcp list {quoted}; to check it, python3 -m minimcp check" in done.err


def test_files(home: Path, minimcp: Callable[..., Done]) -> None:
    assert minimcp("doctor") == Done(0, "no server was found\n", "")
    done = minimcp("doctor", "none.json")
    assert done.code == 2 and "there is no file none.json" in done.err
    assert minimcp("doctor", "x.json", "--client", "cursor").code == 2
    path = Path(HOSTS["gemini"].user_path)
    path.parent.mkdir(parents=True)
    path.write_text("{}", "utf-8")
    assert minimcp("doctor") == Done(0, "no server was found\n", "")
    path.write_text("{", "utf-8")
    done = minimcp("doctor")
    assert done.code == 1 and "not JSON" in done.out
