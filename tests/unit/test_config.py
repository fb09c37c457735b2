"""Config files of hosts: how they are read, what their variables mean, and the errors for invalid
ones."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import minimcp
from minimcp import Server, StdioServer
from minimcp.client.config import MEMBERS, OF_HOSTS, UNSUPPORTED, read_servers

from ..inside import sessions_of


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
    r"args\[0\]: \$\{input:key\} is not available": {"command": "x", "args": ["${input:key}"]},
    r"args\[0\]: \$\{UNSET:-\$\{SET\} is not supported": {
        "command": "x",
        "args": ["${UNSET:-${SET}}"],
    },
    r"args\[0\]: \$\{SET is not": {"command": "x", "args": ["${SET"]},
    "env: must be an object of strings, not a list of 1": {"command": "x", "env": ["A=1"]},
    "env.PORT: must be a string, not the number 1": {"command": "x", "env": {"PORT": 1}},
    "cwd: must be a string, not the number 1": {"command": "x", "cwd": 1},
    "type: must be stdio, .* or sse, not the string 'pipe'": {"command": "x", "type": "pipe"},
    "type: must be .*, not a list of 1": {"command": "x", "type": ["stdio"]},
    "command: cannot be used together with url": {"command": "x", "url": "http://x"},
    "url: cannot be used together with command": {
        "command": "x",
        "url": "http://x",
        "type": "stdio",
    },
    "command: cannot be used together with type 'http'": {"command": "x", "type": "http"},
    "url: is missing": {"type": "sse"},
    "headers.A: the environment variable UNSET": {"url": "http://x", "headers": {"A": "${UNSET}"}},
    "url: a URL must begin with http:// or https://": {"url": "ftp://x", "headers": {"A": "b"}},
    "disabled: is true": {"command": "x", "disabled": True},
    "disabled: must be true or false": {"command": "x", "disabled": "yes"},
    "environment: is not a known member: write env": {"command": "x", "environment": {}},
}


@pytest.mark.parametrize("problem", WRONG)
def test_errors_for_wrong_entries(problem: str, tmp_path: Path) -> None:
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
        ValueError, match="^the config has no server 'gti', did you mean 'git'. It has 'git' and"
    ):
        servers.target("gti")
    with pytest.raises(ValueError, match="has no server 'x': it has none"):
        read_servers({}).target("x")
    with pytest.raises(TypeError, match="name must be a str, not the int"):
        read_servers({1: "x"})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"mcpServers":\n  /* a\n */ {"a": }}', r"line 3, column \d+: not JSON: "),
        (b"\xff\xfe", "utf-8"),
        (b"[" * 100_000, ""),
        (b"[]", "must be an object, not an empty list"),
        (b'{"mcpserver": {}}', "must have mcpServers or servers .*, but has neither"),
        (b'{"mcpServers": {}, "servers": {}}', "but has mcpServers and servers"),
        (b'{"servers": []}', "servers: must be an object, not an empty list"),
        (b'{"servers": {"a": {}, "b": {}, "a": {}}}', "the member 'a' is repeated"),
        (b'{"servers": {}} /* no end', "line 1, column 17: not JSON"),
        # Without their ends, these took minutes.
        (b'{"servers": "' + b'\\"' * 200_000, "not JSON"),
        (b"/*" * 500_000, "not JSON"),
    ],
)
def test_invalid_configs(data: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=f"^{file}: .*{problem}"):
        read_servers(file)


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none.json"):
        read_servers(tmp_path / "none.json")
    for wrong in (["mcp.json"], 5, b"mcp.json"):
        with pytest.raises(TypeError):
            read_servers(wrong)  # type: ignore[arg-type]
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": "a.py"}}')
    with pytest.raises(ValueError, match="server 'a': must be an object, not the string 'a.py'"):
        read_servers(tmp_path / "mcp.json").target("a")


# ------------------------------------------------------------ members of ten hosts

HOSTS: Dict[str, Any] = {
    # The file of each host, the object of servers in it, and an entry as its users write it.
    "Claude Desktop": ("claude_desktop_config.json", "mcpServers", {"command": "run", "args": ["a"]}),
    "Claude Code": (".mcp.json", "mcpServers", {"type": "http", "url": "http://a/mcp", "headers": {"A": "1"}}),
    "Claude plugin": (".mcp.json", None, {"command": "${CLAUDE_PLUGIN_ROOT}/run", "args": ["a"]}),
    "Cursor": (".cursor/mcp.json", "mcpServers", {"command": "${workspaceFolder}/run", "envFile": "x.env"}),
    "VS Code": (".vscode/mcp.json", "servers", {"type": "stdio", "command": "${workspaceFolder}/run"}),
    "Gemini CLI": (".gemini/settings.json", "mcpServers", {
        "httpUrl": "http://a/mcp", "timeout": 30000, "trust": True, "includeTools": ["a"], "excludeTools": ["b"],
    }),
    "Windsurf": ("windsurf/mcp_config.json", "mcpServers", {"serverUrl": "http://a/mcp", "disabledTools": ["b"]}),
    "LM Studio": (".lmstudio/mcp.json", "mcpServers", {"url": "http://a/mcp"}),
    "Zed": ("zed/settings.json", "context_servers", {"source": "custom", "command": "run", "args": [], "env": {}}),
    "Zed before": ("zed/settings.json", "context_servers", {"command": {"path": "run", "args": ["a"], "env": {"A": "1"}}}),
}  # fmt: skip


def written(tmp_path: Path, file: str, table: Any, entry: Any) -> Any:
    """The servers of a host's file with one server, ``it``."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "x.env").write_text("FROM_FILE=1\n")
    servers = {"it": entry}
    path.write_text(json.dumps(servers if table is None else {table: servers}))
    return read_servers(path)


@pytest.mark.parametrize("host", HOSTS)
def test_the_file_of_each_host(host: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, table, entry = HOSTS[host]
    target = written(tmp_path, file, table, entry).target("it")
    if "command" in entry:
        folder = str(tmp_path) + "/" if "${" in str(entry["command"]) else ""
        assert target.command[0] == f"{folder}run"
    else:
        assert target.url == "http://a/mcp"
    assert not caplog.records


URL_MEMBERS = ("url", "httpUrl", "serverUrl")


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("member", URL_MEMBERS)
def test_the_url_has_three_names(host: str, member: str, tmp_path: Path) -> None:
    file, table, _ = HOSTS[host]
    entry = {member: "http://a/${SET}", "headers": {"A": "${SET}"}}
    found = written(tmp_path, file, table, entry).entry("it")
    assert found.target.url == "http://a/value"
    assert found.sources[0] == f"{member} from the environment variable SET"
    for other in URL_MEMBERS:
        if other != member:
            servers = written(tmp_path, file, table, {**entry, other: "http://b"})
            with pytest.raises(ValueError, match="Url: cannot be used together with"):
                servers.target("it")
    servers = written(tmp_path, file, table, {**entry, "command": "x"})
    with pytest.raises(ValueError, match=f"command: cannot be used together with {member}"):
        servers.target("it")
    servers = written(tmp_path, file, table, {member: "ftp://a"})
    with pytest.raises(ValueError, match=f"{member}: a URL must begin with"):
        servers.target("it")


FILTERS: Any = [
    ({}, ["a", "b", "c"]),
    *(({name: ["a", "c"]}, ["a", "c"]) for name in ("allowedTools", "includeTools", "enabled_tools")),
    *(({name: ["a", "c"]}, ["b"]) for name in ("disabledTools", "excludeTools", "disabled_tools")),
    ({"includeTools": ["a", "b"], "excludeTools": ["a"]}, ["b"]),
    ({"allowedTools": ["a", "b"], "enabled_tools": ["b", "c"]}, ["b"]),
    ({"includeTools": []}, []),
    ({"excludeTools": []}, ["a", "b", "c"]),
]  # fmt: skip


@pytest.mark.parametrize("members, offered", FILTERS)
def test_offered_tools(members: Any, offered: Any) -> None:
    offers = one_entry({"command": "x", **members}).offers
    assert [name for name in "abc" if offers is None or offers(name)] == offered


@pytest.mark.parametrize(
    "members, offered", [({"includeTools": ["a", "b"], "excludeTools": ["a"]}, ["b"]), FILTERS[-2]]
)
def test_clients_see_the_offered_tools(members: Any, offered: Any, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    command = [sys.executable, "-m", "minimcp", "run", str(tmp_path / "server.py")]
    (tmp_path / "server.py").write_text(THREE_TOOLS)
    entry = {"command": command[0], "args": command[1:], **members}
    file.write_text(json.dumps({"mcpServers": {"it": entry}}))
    with minimcp.connect("it", config=file) as client:
        assert [tool.name for tool in client.list_tools()] == offered
        for name in "abc":
            if name in offered:
                assert client.call_tool(name).text == name
                continue
            for call in (
                lambda name=name: client.call_tool(name),
                lambda name=name: client.call_tools([(name, {})]),
            ):
                with pytest.raises(minimcp.InvalidParams, match="Unknown tool"):
                    call()
    with minimcp.connect_all(file) as group:
        assert [tool.name for tool in group.list_tools()] == [f"it__{name}" for name in offered]
        with pytest.raises(minimcp.InvalidParams):
            group.call_tool("it__d")


THREE_TOOLS = """
import minimcp
server = minimcp.Server("three")
def a() -> str: return "a"
def b() -> str: return "b"
def c() -> str: return "c"
for each in (a, b, c):
    server.add_tool(each, description="x")
"""


def one_entry(entry: Any) -> Any:
    return read_servers({"it": entry}).entry("it")


TIMES: Any = [
    ({}, None, None),
    ({"tool_timeout_sec": 90, "startup_timeout_sec": 2.5}, 90, 2.5),
    ({"timeout": 30000, "startup_timeout_ms": 2500}, 30, 2.5),
]


@pytest.mark.parametrize("members, call, start", TIMES)
def test_times(members: Any, call: Any, start: Any, tmp_path: Path) -> None:
    found = one_entry({"command": "x", **members})
    assert (found.timeout, found.connect_timeout) == (call, start)
    (tmp_path / "server.py").write_text(THREE_TOOLS)
    args = ["-m", "minimcp", "run", str(tmp_path / "server.py")]
    config = {"it": {"command": sys.executable, "args": args, **members, "startup_timeout_sec": 50}}
    config["it"].pop("startup_timeout_ms", None)
    with minimcp.connect("it", config=config) as client:
        assert sessions_of(client).timeout == (call or 60)
    with minimcp.connect("it", config=config, timeout=60.0) as client:
        assert sessions_of(client).timeout == 60, "what a program says counts more"


@pytest.mark.parametrize(
    "members, problem",
    [
        ({"timeout": 60}, "timeout: is in milliseconds, so 60 is too short: write 60000, or tool_timeout_sec"),
        ({"timeout": "60s"}, "timeout: must be a number above 0"),
        ({"timeout": True}, "timeout: must be a number"),
        ({"tool_timeout_sec": 0}, "tool_timeout_sec: must be a number above 0"),
        ({"startup_timeout_sec": -1}, "startup_timeout_sec: must be"),
        ({"tool_timeout_sec": 5, "timeout": 5000}, "timeout: cannot be used together with tool_timeout_sec"),
        ({"includeTools": "a"}, "includeTools: must be a list of tool names"),
        ({"excludeTools": [1]}, "excludeTools: must be a list of tool names"),
        ({"enabled": False}, "enabled: is false"),
        ({"enabled": "no"}, "enabled: must be true or false"),
        ({"timeouts": 5}, "timeouts: is not a known member: write timeout"),
        ({"allowTools": []}, "allowTools: is not a known member: write allowedTools"),
        ({"oauth": {"clientId": "x"}}, "oauth: is not supported: sign in with python3 -m minimcp login URL"),
        ({"headersHelper": "x"}, "headersHelper: is not supported: write the headers into headers"),
        ({"authProviderType": "google_credentials"}, "authProviderType: is not supported: sign in"),
        ({"sandboxEnabled": True}, "sandboxEnabled: is not supported: start the sandbox in command"),
        ({"tcp": "ws://x"}, "tcp: is not supported: write the URL of a server over HTTP into url"),
        ({"required": True}, "required: is not supported: catch the failure of connect"),
        ({"somethingNew": 1}, "somethingNew: is not a known member: remove it"),
    ],
)  # fmt: skip
def test_members_of_hosts_that_are_wrong(members: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^server 'it': {problem}"):
        one({"command": "x", **members})


CODEX = {
    "env_vars": ["A"],
    "supports_parallel_tool_calls": True,
    "default_tools_approval_mode": "prompt",
    "tools": {"a": {"approval_mode": "approve"}},
}
WITHOUT_EFFECT: Any = {
    "Codex": CODEX,
    "Gemini CLI": {"trust": True, "description": "x", "extension": {"name": "x"}},
    "Claude Code": {"alwaysLoad": True},
    "Windsurf": {"alwaysAllow": ["a"]},
    "VS Code": {"dev": {"watch": "*.py"}, "gallery": True, "version": "1", "name": "x"},
    "Zed": {"source": "custom", "settings": {}, "remote": False},
    "a person": {"comment": "why"},
}


@pytest.mark.parametrize("host", WITHOUT_EFFECT)
def test_members_about_confirmations_and_display_change_nothing(host: str) -> None:
    plain = one_entry({"command": "x"})
    found = one_entry({"command": "x", **WITHOUT_EFFECT[host]})
    assert found.target.command == plain.target.command
    assert found[1:] == plain[1:]


@pytest.mark.parametrize("member", sorted(UNSUPPORTED))
def test_members_that_change_how_a_server_is_reached_are_rejected_by_name(member: str) -> None:
    with pytest.raises(ValueError, match=f"^server 'it': {member}: is not supported: "):
        one({"command": "x", member: "y"})


def test_each_member_has_one_treatment() -> None:
    assert not OF_HOSTS & {*MEMBERS, *UNSUPPORTED} and not UNSUPPORTED.keys() & {*MEMBERS}
    for member in OF_HOSTS:
        one({"command": "x", member: "y"})


def test_a_disabled_server_is_not_opened() -> None:
    off = [{"disabled": True}, {"enabled": False}, {"enabled": True, "disabled": True}]
    servers = {str(at): {"command": "x", **each} for at, each in enumerate(off)}
    assert read_servers({**servers, "on": {"command": "x", "enabled": True}}).names == ["on"]


# ------------------------------------------------------------ variables of hosts


@pytest.mark.parametrize("folder", [".vscode", ".cursor", ".gemini", ".claude-plugin", "sub", ""])
def test_variables_of_a_workspace(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("workspaceFolder", "userHome", "CLAUDE_PLUGIN_ROOT", "pathSeparator"):
        monkeypatch.setenv(name, "/wrong")
    file = tmp_path / folder / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    root = tmp_path if folder.startswith(".") else file.parent
    texts = {
        "${workspaceFolder}": str(root),
        "${workspaceFolderBasename}": root.name,
        "${CLAUDE_PLUGIN_ROOT}": str(root),
        "${userHome}": os.path.expanduser("~"),
        "${pathSeparator}": os.sep,
        "${/}": os.sep,
        "${env:workspaceFolder}": "/wrong",
    }
    file.write_text(json.dumps({"mcpServers": {"it": {"command": "x", "args": [*texts]}}}))
    assert read_servers(file).target("it").command[1:] == tuple(texts.values())


EDITOR = (
    "file", "fileBasename", "fileDirname", "relativeFile", "lineNumber", "selectedText", "execPath", "cwd",
    "defaultBuildTask", "config:python.path", "command:pick", "workspaceFolder:other", "fileWorkspaceFolder",
)  # fmt: skip


@pytest.mark.parametrize("name", EDITOR)
def test_variables_that_only_an_editor_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name.partition(":")[0], "/wrong")
    with pytest.raises(ValueError, match=rf"args\[0\]: \$\{{{name}\}} is not available.* editor"):
        one({"command": "x", "args": [f"${{{name}}}"]})


def test_variables_that_a_host_asks_for_or_that_need_a_file() -> None:
    with pytest.raises(ValueError, match=r"\$\{input:api-key\}.*write \$\{env:API_KEY\}"):
        one({"url": "http://x", "headers": {"A": "${input:api-key}"}})
    for name in ("workspaceFolder", "workspaceFolderBasename"):
        with pytest.raises(
            ValueError, match=rf"\$\{{{name}\}}: a mapping does not belong to a workspace"
        ):
            one({"command": f"${{{name}}}/x"})
    with pytest.raises(ValueError, match="CLAUDE_PLUGIN_ROOT is not set"):
        one({"command": "${CLAUDE_PLUGIN_ROOT}/x"})


def test_a_user_file_belongs_to_no_workspace(tmp_path: Path) -> None:
    servers = written(
        tmp_path, "Code/User/mcp.json", "servers", {"command": "${workspaceFolder}/x"}
    )
    with pytest.raises(ValueError, match="this file does not belong to a workspace"):
        servers.target("it")


def test_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    entry = {"serverUrl": "http://x", "headers": {"Authorization": "Bearer ${file:token}"}}
    servers = written(tmp_path, "mcp.json", "mcpServers", entry)
    fetcher = servers.target("it").fetcher
    assert fetcher.keywords["headers"] == {"Authorization": "Bearer secret"}
    assert "secret" not in str(servers.entry("it").sources)
    servers = written(tmp_path, "mcp.json", "mcpServers", {"command": "${file:none}"})
    with pytest.raises(ValueError, match=r"command: \$\{file:none\} cannot be read"):
        servers.target("it")


def test_only_regular_files_of_a_moderate_size_are_read(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"A=1\n" * 300_000)
    os.mkfifo(tmp_path / "pipe")
    for name, problem in (
        ("/dev/zero", "is not a regular file"),
        ("pipe", "is not a regular file"),
        (".", "is not a regular file"),
        ("huge", "has more than 1048576 characters"),
    ):
        for entry in (
            {"command": "x", "envFile": name},
            {"command": f"${{file:{name}}}"},
        ):
            servers = written(tmp_path, "mcp.json", "mcpServers", entry)
            with pytest.raises(ValueError, match=f"cannot be read: it {problem}"):
                servers.target("it")


def test_gemini_reads_a_dollar_alone(tmp_path: Path) -> None:
    entry = {"command": "x", "env": {"A": "$SET", "B": "${SET}", "C": "5 $ and $ {SET}"}}
    found = written(tmp_path, ".gemini/settings.json", "mcpServers", entry).target("it")
    assert found.env == {"A": "value", "B": "value", "C": "5 $ and $ {SET}"}


ENV_FILE = """\ufeff# a comment
A=1
export B = two words   # a comment

C="a\\nb \\"q\\" # c"  # d
D='a\\nb'
E=
F=a=b#c
"""


def test_an_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(ENV_FILE, encoding="utf-8")
    entry = {"command": "x", "envFile": "${workspaceFolder}/.env", "env": {"A": "2"}}
    found = written(tmp_path, ".vscode/mcp.json", "servers", entry).target("it")
    assert found.env == {
        "A": "2", "B": "two words", "C": 'a\nb "q" # c', "D": "a\\nb", "E": "", "F": "a=b#c",
    }  # fmt: skip
    (tmp_path / ".env").write_text("A=1\nnot a line\n")
    servers = written(tmp_path, ".vscode/mcp.json", "servers", entry)
    with pytest.raises(ValueError, match="envFile: .*/.env: line 2 must be NAME=value$"):
        servers.target("it")
    (tmp_path / ".env").unlink()
    with pytest.raises(ValueError, match="envFile: .* cannot be read"):
        servers.target("it")


# ------------------------------------------------------------ other forms of files

CODEX = """
model = "x"
[mcp_servers.it]
command = "run"
args = ["a"]
env = { A = "1" }
startup_timeout_sec = 20
tool_timeout_sec = 90.5
enabled_tools = ["a"]
disabled_tools = ["b"]
[mcp_servers.web]
url = "http://a/mcp"
bearer_token_env_var = "SET"
http_headers = { B = "2" }
env_http_headers = { C = "SET" }
[mcp_servers.off]
command = "run"
enabled = false
"""


def test_the_file_of_codex(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(CODEX)
    if sys.version_info < (3, 11):
        with pytest.raises(ValueError, match=f"^{file}: reading TOML needs Python 3.11"):
            read_servers(file)
        return
    servers = read_servers(file)
    assert servers.names == ["it", "web"]
    found = servers.entry("it")
    assert (found.target.command, found.target.env) == (("run", "a"), {"A": "1"})
    assert (found.timeout, found.connect_timeout) == (90.5, 20)
    assert found.offers("a") and not found.offers("b")
    headers = servers.target("web").fetcher.keywords["headers"]
    assert headers == {"Authorization": "Bearer value", "B": "2", "C": "value"}
    file.write_text("[mcp_servers")
    with pytest.raises(ValueError, match=f"^{file}: not TOML: "):
        read_servers(file)


@pytest.mark.parametrize("name", ["config.yaml", "config.yml"])
def test_yaml_is_rejected_by_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("extensions:\n  a:\n    cmd: x\n")
    with pytest.raises(ValueError, match=f"{name}: YAML is not supported: write .*mcpServers"):
        read_servers(tmp_path / name)


@pytest.mark.parametrize("whole", [{}, {"a": {}}, {"a": {"command": "x"}, "theme": 1}, {"a": 1}])
def test_a_file_without_servers_is_not_one_of_a_plugin(whole: Any, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match="has neither"):
        read_servers(tmp_path / ".mcp.json")


# ------------------------------------------------------------ what messages name


def test_a_failure_names_the_file_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_COMMAND", "no-such-program")
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"docs": {"command": "${DOCS_COMMAND}"}}}))
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        minimcp.connect("docs", config=file)
    said = f"the server 'docs' in {file}: command from the environment variable DOCS_COMMAND: "
    assert said in str(caught.value) and "no-such-program" in str(caught.value)
    group = minimcp.connect_all(file)
    assert said in str(group.errors["docs"])


@pytest.mark.parametrize("given", [{"command": "x"}, {"url": "http://x"}])
def test_null_counts_as_absent_in_an_entry(given: Dict[str, Any]) -> None:
    for member in MEMBERS:
        if member not in given:
            one({**given, member: None})


def test_a_broken_server_of_a_plugin_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"it": {"command": "x"}, "broken": {"type": "http"}}))
    servers = read_servers(file)
    assert servers.target("it").command == ("x",)
    with pytest.raises(ValueError, match="server 'broken': url: is missing"):
        servers.target("broken")


def test_a_comment_is_not_a_misspelt_command() -> None:
    assert one({"command": "x", "comment": "why"}).command == ("x",)
