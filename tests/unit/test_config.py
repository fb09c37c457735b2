"""Config files of hosts: what is read, what stands for what, and what a wrong one is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest

from minimcp import Server, StdioServer
from minimcp.client.config import read_servers


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET", "value")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("OUTER", "${SET}")
    monkeypatch.delenv("UNSET", raising=False)


def one(entry: Any) -> Any:
    return read_servers({"it": entry}).target("it")


def test_an_entry_with_everything(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = {
        "type": "stdio",
        "command": "run",
        "args": ["a", "b c"],
        "env": {"A": "1"},
        "cwd": "sub",
        "dev": [],
    }
    file.write_text(
        json.dumps(
            {"mcpServers": {"git": entry, "db": {"command": "x", "cwd": "/abs"}}, "theme": 1}
        )
    )
    servers = read_servers(file)
    git, db = servers.target("git"), servers.target("db")
    assert (git.command, git.env, git.cwd) == (
        ("run", "a", "b c"),
        {"A": "1"},
        str(tmp_path / "sub"),
    )
    assert (db.command, db.env, db.cwd) == (("x",), {}, "/abs")
    assert servers.names == ["git", "db"] and "git" in servers and "it" not in servers
    assert read_servers(servers) is servers
    assert one({"command": "run"}).cwd is None


def test_the_file_of_vs_code_with_comments(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        """\ufeff{
        // the "servers"
        "inputs": [],
        "servers": { /* two
            lines */
            "a": {"command": "http://x, ]", "args": ["\\"//no comment", "/*", ",}", "*/",],},
        },
    }""",
        encoding="utf-8",
    )
    server = read_servers(str(file)).target("a")
    assert server.command == ("http://x, ]", '"//no comment', "/*", ",}", "*/")


def test_mappings() -> None:
    server, entry = Server("x"), {"command": "x"}
    plain = read_servers({"a": server, "b": "b.py", "c": entry})
    assert (
        plain.target("a") is server
        and plain.target("b") == "b.py"
        and plain.target("c").command == ("x",)
    )
    for whole in ({"mcpServers": {"a": entry}, "other": 1}, {"servers": {"a": entry}}):
        assert read_servers(whole).names == ["a"]
    assert read_servers({"mcpServers": {}}).names == []
    assert (
        read_servers({"servers": entry}).names
        == ["servers"]
        == read_servers({"servers": server}).names
    )


@pytest.mark.parametrize(
    ("text", "stands_for"),
    [
        ("${SET}", "value"),
        ("a${SET}b${env:SET}c", "avaluebvaluec"),
        ("${UNSET:-some text}", "some text"),
        ("${UNSET:-}", ""),
        ("${SET:-x}${EMPTY:-x}", "value"),
        ("$SET $ {SET} $", "$SET $ {SET} $"),
        ("${OUTER}", "${SET}"),
    ],
)
def test_variables(text: str, stands_for: str) -> None:
    server = one({"command": f"c{text}", "args": [text], "env": {"E": text}, "cwd": f"/{text}"})
    assert isinstance(server, StdioServer)
    assert server.command == (f"c{stands_for}", stands_for)
    assert (server.env, server.cwd) == ({"E": stands_for}, f"/{stands_for}")


WRONG: Dict[str, Any] = {
    "command: is missing": {},
    "command: is empty": {"command": "${EMPTY}"},
    "command: must be a string, not a list of 1": {"command": ["x"]},
    "args: must be a list of strings, not the string 'a'": {"command": "x", "args": "a"},
    r"args\[1\]: must be a string, not the number 8000": {"command": "x", "args": ["a", 8000]},
    r"args\[0\]: the environment variable UNSET is not set": {"command": "x", "args": ["${UNSET}"]},
    r"args\[0\]: \$\{input:key\} is not known here": {"command": "x", "args": ["${input:key}"]},
    r"args\[0\]: \$\{UNSET:-\$\{SET\} is not known here": {
        "command": "x",
        "args": ["${UNSET:-${SET}}"],
    },
    r"args\[0\]: \$\{SET is not": {"command": "x", "args": ["${SET"]},
    "env: must be an object of strings, not a list of 1": {"command": "x", "env": ["A=1"]},
    "env.PORT: must be a string, not the number 1": {"command": "x", "env": {"PORT": 1}},
    "cwd: must be a string, not null": {"command": "x", "cwd": None},
    "type: must be stdio, .* or sse, not the string 'pipe'": {"command": "x", "type": "pipe"},
    "type: must be .*, not a list of 1": {"command": "x", "type": ["stdio"]},
    "command: does not go together with url": {"command": "x", "url": "http://x"},
    "url: does not go together with command": {"command": "x", "url": "http://x", "type": "stdio"},
    "command: does not go together with type 'http'": {"command": "x", "type": "http"},
    "url: is missing": {"type": "sse"},
    "headers.A: the environment variable UNSET": {"url": "http://x", "headers": {"A": "${UNSET}"}},
    "url: a URL begins with http:// or https://": {"url": "ftp://x", "headers": {"A": "b"}},
    "disabled: it is": {"command": "x", "disabled": True},
    "disabled: must be true or false": {"command": "x", "disabled": "yes"},
    "envFile: is not read here": {"command": "x", "envFile": ".env"},
}


@pytest.mark.parametrize("problem", WRONG)
def test_what_a_wrong_entry_is_told(problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"it": WRONG[problem], "fine": {"command": "x"}}}))
    with pytest.raises(ValueError, match=f"^{file}: server 'it': {problem}"):
        read_servers(file).target("it")
    with pytest.raises(ValueError, match=f"^server 'it': {problem}"):
        one(WRONG[problem])
    assert read_servers(file).target("fine").command == ("x",)


def test_names() -> None:
    servers = read_servers({"git": {"command": "x"}, "off": {"command": "x", "disabled": True}})
    assert servers.names == ["git"] and "off" in servers
    with pytest.raises(
        ValueError, match="^the config has no server 'gti', did you mean 'git'. it has 'git' and"
    ):
        servers.target("gti")
    with pytest.raises(ValueError, match="has no server 'x': it has none"):
        read_servers({}).target("x")
    with pytest.raises(TypeError, match="name is a str, not the int"):
        read_servers({1: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"mcpServers":\n  /* a\n */ {"a": }}', r"line 3, column \d+: no JSON: "),
        (b"\xff\xfe", "utf-8"),
        (b"[" * 100_000, ""),
        (b"[]", "must be an object, not an empty list"),
        (b'{"mcpserver": {}}', "must have mcpServers or servers, and has neither"),
        (b'{"mcpServers": {}, "servers": {}}', "and has both"),
        (b'{"servers": []}', "servers: must be an object, not an empty list"),
        (b'{"servers": {"a": {}, "b": {}, "a": {}}}', "'a' is there twice"),
    ],
)
def test_what_is_no_config(data: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=f"^{file}: .*{problem}"):
        read_servers(file)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none.json"):
        read_servers(tmp_path / "none.json")
    for wrong in (["mcp.json"], 5, b"mcp.json"):
        with pytest.raises(TypeError):
            read_servers(wrong)  # type: ignore[arg-type]
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": "a.py"}}')
    with pytest.raises(ValueError, match="server 'a': must be an object, not the string 'a.py'"):
        read_servers(tmp_path / "mcp.json").target("a")
