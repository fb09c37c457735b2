"""install, which writes into the config files of hosts, and list --all, which reads them: in a home
of the test."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from minimcp import Bearer, Server
from minimcp.cli import UsageError
from minimcp.cli.install import BACKUP, HOSTS, LAST_BACKUP, changed_text, toml_servers

from .conftest import Done

COMMENTED = """\
{
\t// mine
\t"inputs": [{"id": "key"}],
\t"servers": {
\t\t"far": {"url": "http://far.example/mcp", "headers": {"A": "Bearer ${input:key}"}}, // not to be lost
\t\t/* the last */ "near": {"command": "npx", "args": ["-y", "it"],},
\t},
}
"""


LIGHT = """
import json, sys
SAID = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "shop", "version": "3"}}
for line in sys.stdin:
    asked = json.loads(line)
    known = {"result": SAID if asked["method"] == "initialize" else {}}
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    if "id" in asked:
        said = unknown if asked["method"] == "server/discover" else known
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


@pytest.fixture
def shop(shop: str) -> str:
    """Replace the shop with a server that does not use the library, because it starts faster."""
    Path(shop).write_text(LIGHT, encoding="utf-8")
    return shop


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any host, the folder of every program's settings in it."""
    for name in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def _file(client: str, text: str = "") -> Path:
    """Return the path of a host's file, and make its folder."""
    path = Path(HOSTS[client].user_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if text:
        path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("client", [name for name in HOSTS if name not in ("codex", "goose")])
def test_a_server_is_added_once_and_removed_again(
    client: str, shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    path, table = _file(client), HOSTS[client].table
    done = minimcp("install", shop, "--client", client)
    assert (done.code, done.err) == (
        0,
        "",
    ) and f"added shop to {path}: restart {HOSTS[client].title}" in done.out
    entry = json.loads(path.read_text("utf-8"))[table]["shop"]
    assert (entry["command"], entry["args"]) == (sys.executable, [os.path.abspath(shop)])
    assert entry.get("type") == ("stdio" if client == "vscode" else None) and "env" not in entry
    before = path.read_bytes()
    assert minimcp("install", shop, "--client", client).out == f"{path}: nothing to change\n"
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name], (
        "nothing to keep a copy of"
    )
    assert minimcp("ping", "shop", "--config", str(path)).out.startswith("shop 3 answered")
    assert minimcp("install", shop, "--client", client, "--remove").code == 0
    assert json.loads(path.read_text("utf-8")) == {table: {}}
    assert Path(str(path) + BACKUP).read_bytes() == before
    done = minimcp("install", shop, "--client", client, "--remove")
    assert done.code == 2 and "has no server that starts" in done.err and "it has none" in done.err


def test_the_file_of_a_project_variables_and_another_name(
    shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    words = [
        "install",
        shop,
        "--client",
        "cursor",
        "--project",
        "--name",
        "my shop",
        "--env",
        "A=b=c",
    ]
    assert minimcp(*words).code == 0
    entry = {"command": sys.executable, "args": [os.path.abspath(shop)], "env": {"A": "b=c"}}
    path = Path(".cursor", "mcp.json")
    assert json.loads(path.read_text("utf-8")) == {"mcpServers": {"my shop": entry}}
    for more, said in (
        (["--env", "A=d"], "has a different server 'my shop': replace it with --force"),
        (["--env", "A"], "'A' is not key=value"),
    ):
        done = minimcp(*words, *more)
        assert done.code == 2 and said in done.err
    assert minimcp(*words, "--env", "A=d", "--force").code == 0
    assert json.loads(path.read_text("utf-8"))["mcpServers"]["my shop"]["env"] == {"A": "d"}
    assert minimcp(*words, "--remove").code == 0


PLAIN = """\
{
\t"inputs": [],
\t"servers": {
\t\t"near": {
\t\t\t"command": "npx"
\t\t}
\t}
}
"""


def test_all_that_is_there_stays(shop: str, home: Path, minimcp: Callable[..., Done]) -> None:
    path = _file("vscode", PLAIN)
    path.chmod(0o640)
    done = minimcp("install", shop, "--client", "vscode", "--dry-run")
    assert '+\t\t"shop": {\n' in done.out and "\n-" not in done.out.partition("@@")[2]
    assert path.read_text("utf-8") == PLAIN and os.listdir(path.parent) == [path.name]
    done = minimcp("install", shop, "--client", "vscode")
    assert done.code == 0 and f"(backup: {path}{BACKUP})" in done.out
    assert list(json.loads(path.read_text("utf-8"))["servers"]) == ["near", "shop"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert minimcp("install", shop, "--client", "vscode", "--remove").code == 0
    assert path.read_text("utf-8") == Path(str(path) + BACKUP).read_text("utf-8") == PLAIN


def test_a_file_with_comments_is_left_to_the_user(
    shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    path = _file("vscode", COMMENTED)
    done = minimcp("install", shop, "--client", "vscode")
    assert done.code == 2 and 'which would be lost: add by hand, in servers: "shop": {' in done.err
    assert os.path.abspath(shop) in done.err
    done = minimcp("install", shop, "--client", "vscode", "--remove", "--name", "near")
    assert done.code == 2 and 'remove by hand, in servers: "near": {' in done.err
    assert path.read_text("utf-8") == COMMENTED and os.listdir(path.parent) == [path.name]


def test_a_link_is_followed_and_a_server_of_a_class_is_run(
    home: Path, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    (tmp_path / "real.json").write_text("\ufeff{}", "utf-8")
    _file("cursor").symlink_to(tmp_path / "real.json")
    plain = tmp_path / "plain.py"
    pay = "    @minimcp.tool\n    def pay(self) -> str:\n        'P.'\n        return ''\n"
    plain.write_text(f"import minimcp\nclass Till:\n{pay}")
    done = minimcp("install", str(plain), "--client", "cursor")
    if done.code == 2:
        assert "No module named minimcp" in done.err, (
            done
        )  # in a checkout that is not installed hosts find none, too
        assert (
            minimcp(
                "install", f"{plain}:Till", "--client", "cursor", "--no-check", "--name", "till"
            ).code
            == 0
        )
    written = json.loads((tmp_path / "real.json").read_text("utf-8-sig"))["mcpServers"]["till"]
    assert written["args"][:3] == ["-m", "minimcp", "run"] and _file("cursor").is_symlink()


def test_a_change_is_shown_where_the_host_is_not_installed(
    shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("install", shop, "--client", "claude", "--dry-run")
    assert done.code == 2 and shop in done.out, done
    assert f"+++ {HOSTS['claude'].user_path} with this change" in done.out
    assert done.err.endswith(minimcp("install", shop, "--client", "claude").err)
    assert "Claude Desktop does not seem to be installed: there is no folder" in done.err
    assert not Path(HOSTS["claude"].user_path).parent.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py", "--client", "cursor"], "there is no file 'none.py' in "),
        (["shop.py"], "the following arguments are required: --client"),
        (["shop.py", "--client", "emacs"], "invalid choice: 'emacs'"),
        (
            ["shop.py", "--client", "claude", "--project"],
            "Claude Desktop has no file for projects",
        ),
        (
            ["shop.py", "--client", "claude"],
            "Claude Desktop does not seem to be installed: there is no folder",
        ),
        (
            ["shop.py", "--client", "vscode"],
            "or write its file for this folder with --project (.vscode/mcp.json)",
        ),
        (
            ["broken.py", "--client", "cursor"],
            "the server does not answer, so nothing was written (to write it anyway: --no-check)",
        ),
        (
            ["shop.py", "--client", "claude-code"],
            "is not valid JSON and was not changed: Expecting",
        ),
    ],
)
def test_servers_that_cannot_be_installed(
    words: Any, said: str, shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    Path("broken.py").write_text("raise RuntimeError('no')\n")
    _file("cursor")
    (home / ".claude.json").write_text('{"a": }')
    done = minimcp("install", *words)
    assert done.code == 2 and said in done.err and done.err.count("\n") <= 8, done
    assert (home / ".claude.json").read_text() == '{"a": }' and not _file("cursor").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{ }",
        "{\n}\n",
        '{"other": 1}',
        '{"servers": {}}',
        '{"servers": {"b": {}}}',
        '{"a": 1e2,\n "servers": {"b": {}, "near": {}},\n "c": [1,  2]}',
        PLAIN,
        "\ufeff{}",
        '{\r\n    "servers": {\r\n        "b": {}\r\n    }\r\n}',
        '{"a": "{\\"servers\\": {", "servers": {"b": {"args": ["}"]}, "c": {}}}',
    ],
)
def test_a_change_leaves_all_else_as_it_was(text: str) -> None:
    expected: Dict[str, Any] = json.loads(text.lstrip("\ufeff") or "{}")
    expected.setdefault("servers", {})
    for name in ("new", "b", "near"):
        entry = {"command": "x", "args": ["京"]}
        new = changed_text("f", text, "servers", name, entry, "")
        assert (
            json.loads(new) == {**expected, "servers": {**expected["servers"], name: entry}}
            and "京" in new
        )
        assert ("\r\n" in text) == ("\r\n" in new) and new.count("\n") >= new.count("\r\n")
        assert changed_text("f", new, "servers", name, entry, "") == new
        gone = changed_text("f", new, "servers", name, None, "")
        plain = text.lstrip("\ufeff")
        if text in ("", "{}"):
            assert new.startswith('{\n  "servers": {\n    "'), new
        if name == "new" and expected["servers"]:
            assert gone == plain  # also spaces and line ends
        assert json.loads(gone)["servers"] == {
            key: each for key, each in expected["servers"].items() if key != name
        }


WRITTEN_BY_HAND = """\
{
    "theme": "dark", "sizes": [1, 2, 3],
    "mcpServers": {
        "near": {"command": "npx", "args": ["-y", "thing"]}
    },
    "zoom": 1.50
}"""


def test_only_the_entry_changes_in_a_file_that_was_written_by_hand(
    shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    path = _file("claude", WRITTEN_BY_HAND)
    first, last = Path(f"{path}{BACKUP}"), Path(f"{path}{LAST_BACKUP}")
    install = ["install", shop, "--client", "claude", "--no-check"]
    done = minimcp(*install)
    assert f"added shop to {path} (backup: {first}): restart" in done.out
    file = json.dumps(os.path.abspath(shop))
    added = f""",
        "shop": {{
            "command": {json.dumps(sys.executable)},
            "args": [
                {file}
            ]
        }}"""
    near = WRITTEN_BY_HAND.index("\n    },\n")
    expected = WRITTEN_BY_HAND[:near] + added + WRITTEN_BY_HAND[near:]
    assert path.read_text("utf-8") == expected
    assert first.read_text("utf-8") == WRITTEN_BY_HAND and not last.exists()
    done = minimcp(*install, "--env", "A=1", "--force")
    assert f"replaced shop in {path} (backup: {last}): restart" in done.out
    assert last.read_text("utf-8") == expected
    env = """,
            "env": {
                "A": "1"
            }"""
    replaced = path.read_text("utf-8")
    assert replaced == expected.replace(f"{file}\n            ]", f"{file}\n            ]{env}")
    done = minimcp("install", shop, "--client", "claude", "--remove")
    assert f"removed shop from {path} (backup: {last}): restart" in done.out
    assert path.read_text("utf-8") == WRITTEN_BY_HAND
    assert last.read_text("utf-8") == replaced
    assert first.read_text("utf-8") == WRITTEN_BY_HAND  # the first state is never lost


def test_a_dry_run_fails_where_the_file_cannot_be_written(
    shop: str, home: Path, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _file("cursor")
    monkeypatch.setattr("os.access", lambda folder, mode: folder != str(path.parent))
    done = minimcp("install", shop, "--client", "cursor", "--dry-run")
    assert done.code == 2 and f"the folder {path.parent} is not writable" in done.err


@pytest.mark.parametrize(
    "text", ["[]", '{"servers": []}', "{", '{"servers": {"a": 1}, "servers": {}}']
)
def test_a_file_that_is_not_a_config_is_not_changed(text: str) -> None:
    with pytest.raises(UsageError, match="was not changed"):
        changed_text("f", text, "servers", "a", {"command": "x"}, "")


def test_all_servers_of_all_hosts_are_listed(
    shop: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    assert minimcp("list", "--all") == Done(0, "no config file of a host was found\n", "")
    _file("vscode", COMMENTED)
    entries = {
        "on": {"command": "x", "args": ["a b"], "env": {"KEY": "secret"}},
        "off": {"command": "y", "disabled": True},
        "bad": {"command": 5},
        "${X}": {"url": "http://${NO_SUCH_HOST}/"},
        "no": 1,
    }
    _file("cursor", json.dumps({"mcpServers": entries}))
    _file("claude-code", '{"numStartups": 3}')
    _file("claude", "{")
    done = minimcp("list", "--all")
    lines = done.out.splitlines()
    assert done.code == 0 and lines[0].startswith("Claude Desktop: ") and "not JSON" in lines[0]
    assert lines[1:] == [
        f"Cursor: {HOSTS['cursor'].user_path}",
        "    on: x 'a b'",
        "    off: y  (disabled: is true)",
        "    bad: 5  (command: must be a string, not the number 5)",
        "    ${X}: http://${NO_SUCH_HOST}/  (url: the environment variable NO_SUCH_HOST is not set)",
        "    no: not an object  (must be an object, not the number 1)",
        f"VS Code: {HOSTS['vscode'].user_path}",
        "    far: http://far.example/mcp  (the host asks for an input)",
        "    near: npx -y it",
    ]
    found = json.loads(minimcp("list", "--all", "--output", "json").out)["servers"]
    assert [each["name"] for each in found] == ["on", "off", "bad", "${X}", "no", "far", "near"]
    assert found[0]["entry"]["env"] == ["KEY"] and "secret" not in json.dumps(found)


# ------------------------------------------------------------ hosts with a format of their own

CODEX_FILE = """\
# mine
model = "o5"

[mcp_servers.near]
command = "npx"  # stays
"""

URL_ENTRIES = {
    "claude-code": {"type": "http", "url": "URL", "headers": {"A": "b: c"}},
    "cursor": {"url": "URL", "headers": {"A": "b: c"}},
    "gemini": {"httpUrl": "URL", "headers": {"A": "b: c"}},
    "lmstudio": {"url": "URL", "headers": {"A": "b: c"}},
    "vscode": {"type": "http", "url": "URL", "headers": {"A": "b: c"}},
    "windsurf": {"serverUrl": "URL", "headers": {"A": "b: c"}},
    "zed": {"url": "URL", "headers": {"A": "b: c"}},
}


@pytest.mark.parametrize("client", URL_ENTRIES)
def test_a_url_is_written_with_the_member_and_headers_that_the_host_reads(
    client: str, shop_url: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    path = _file(client)
    done = minimcp("install", shop_url, "--client", client, "--header", "A: b: c")
    assert (done.code, done.err) == (0, ""), done
    expected = json.dumps(URL_ENTRIES[client]).replace("URL", shop_url)
    servers = json.loads(path.read_text("utf-8"))[HOSTS[client].table]
    assert servers == {"shop": json.loads(expected)}
    assert minimcp("ping", "shop", "--config", str(path)).out.startswith("shop 3 answered")
    assert minimcp("install", shop_url, "--client", client, "--remove").code == 0
    assert json.loads(path.read_text("utf-8")) == {HOSTS[client].table: {}}


def test_a_host_that_only_starts_commands_gets_a_bridge_to_a_url(
    shop_url: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    path = _file("claude")
    assert minimcp("install", shop_url, "--client", "claude", "--header", "A: b").code == 0
    entry = json.loads(path.read_text("utf-8"))["mcpServers"]["shop"]
    assert entry["args"] == ["-m", "minimcp", "bridge", shop_url, "--header", "A: b"]
    assert minimcp("ping", "shop", "--config", str(path)).out.startswith("shop 3 answered")


@pytest.mark.parametrize("client", [*URL_ENTRIES, "claude", "goose"])
def test_a_network_that_the_host_cannot_use_gets_a_bridge(
    client: str, shop_url: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    """Without a proxy that answers, the bridge itself would not be reached."""
    path = _file(client)
    words = ["--cacert", "ca.pem", "--proxy", "http://127.0.0.1:9", "--no-check", "--name", "far"]
    done = minimcp("install", shop_url, "--client", client, *words)
    args = ["-m", "minimcp", "bridge", shop_url, "--cacert", os.path.abspath("ca.pem")]
    args += ["--proxy", "http://127.0.0.1:9"]
    title = HOSTS[client].title
    said = f"{title} has no setting for --cacert and --proxy, so its entry starts minimcp bridge"
    assert done.code == 0 and (said in done.err) is (client != "claude"), done
    if client == "goose":
        assert f"args: {json.dumps(args)}" in done.out
        return
    entry = json.loads(path.read_text("utf-8"))[HOSTS[client].table]["far"]
    assert (entry["command"], entry["args"]) == (sys.executable, args)
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    done = minimcp("ping", "far", "--config", str(path))
    assert done.code != 0 and "ca.pem" in done.err
    assert minimcp("install", shop_url, "--client", client, "--remove").code == 0


def test_a_token_of_the_environment_is_not_written(
    home: Path, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMCP_TOKEN", "secret")
    monkeypatch.setenv("PATH", "")
    server = Server("locked", auth=Bearer.static("secret"))
    with server.start_http() as running:
        for client, said in (
            ("cursor", "give Cursor its token with --header"),
            ("claude", "start Claude Desktop with this variable"),
            ("codex", None),
        ):
            path = _file(client)
            done = minimcp("install", running.url, "--client", client)
            assert done.code == 0 and (said or "") in done.err, done
            assert bool(done.err) is bool(said) and "secret" not in path.read_text("utf-8")
        assert 'bearer_token_env_var = "MINIMCP_TOKEN"' in path.read_text("utf-8")
        monkeypatch.setenv("MINIMCP_TOKEN", "other")
        done = minimcp("install", running.url, "--client", "cursor", "--name", "b")
        assert done.code == 2 and "401" in done.err
        header = ["--header", "Authorization: Bearer secret"]
        done = minimcp("install", running.url, "--client", "cursor", "--name", "c", *header)
        assert (done.code, done.err) == (0, ""), done
    server.close()


@pytest.mark.parametrize("kind", ["file", "url"])
def test_a_server_does_not_choose_which_server_it_replaces(
    kind: str, home: Path, shop: str, shop_url: str, minimcp: Callable[..., Done]
) -> None:
    config = json.dumps({"mcpServers": {"git": {"command": "git"}, "shop": {"command": "shop"}}})
    path = _file("cursor", config)
    target = shop_url
    if kind == "file":
        Path("far.py").write_text(LIGHT, "utf-8")
        target = "far.py"
    install = ["install", target, "--client", "cursor"]
    for force in ([], ["--force"]):
        done = minimcp(*install, *force)
        assert done.code == 2 and "replace it with --force --name shop, or choose" in done.err
        assert path.read_text("utf-8") == config
    assert minimcp(*install, "--force", "--name", "shop").code == 0
    servers = json.loads(path.read_text("utf-8"))["mcpServers"]
    assert servers["git"] == {"command": "git"} and servers["shop"] != {"command": "shop"}


def test_a_name_from_the_file_is_the_users_own(
    home: Path, shop: str, minimcp: Callable[..., Done]
) -> None:
    path = _file("cursor", json.dumps({"mcpServers": {"shop": {"command": "shop"}}}))
    assert "replace it with --force, or" in minimcp("install", shop, "--client", "cursor").err
    assert minimcp("install", shop, "--client", "cursor", "--force").code == 0
    assert "args" in json.loads(path.read_text("utf-8"))["mcpServers"]["shop"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shop.py", "--cacert", "x"], "--cacert and --proxy apply to a URL only"),
        (["URL", "--proxy", "not a url"], "the proxy must be a URL"),
        (["URL", "--env", "A=b"], "--env applies to a file only: for a URL, write --header"),
        (["shop.py", "--header", "A: b"], "--header applies to a URL only: for a file, write"),
        (["http://127.0.0.1:9/mcp"], "the server does not answer, so nothing was written"),
        (["URL", "--header", "A: ${NO_SUCH_TOKEN}"], "variable NO_SUCH_TOKEN is not set"),
    ],
)
def test_urls_that_cannot_be_installed(
    words: Any, said: str, shop: str, shop_url: str, home: Path, minimcp: Callable[..., Done]
) -> None:
    _file("cursor")
    words = [word.replace("URL", shop_url) for word in words]
    done = minimcp("install", *words, "--client", "cursor")
    assert done.code == 2 and said in done.err and not _file("cursor").exists(), done


@pytest.fixture
def codex(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a program `codex` that writes down its arguments; only it is on PATH."""
    folder = home / "bin"
    folder.mkdir()
    program = folder / "codex"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "if 'a name' in sys.argv:\n    sys.exit('WARNING: no\\nError: invalid server name')\n"
        f"print(json.dumps(sys.argv[1:]), file=open({str(home / 'calls')!r}, 'a'))\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return home / "calls"


def test_codex_itself_writes_its_file(
    codex: Path,
    shop: str,
    shop_url: str,
    home: Path,
    minimcp: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = _file("codex", CODEX_FILE)
    words = ["install", shop, "--client", "codex", "--env", "A=b c"]
    command = ["--env", "A=b c", "--", sys.executable, os.path.abspath(shop)]
    done = minimcp(*words, "--dry-run")
    assert done.code == 0 and done.out.startswith("codex mcp add shop --env 'A=b c' -- ")
    assert done.out.endswith(f"would change {path}\n") and not codex.exists()
    done = minimcp(*words)
    assert (done.code, done.err) == (0, "") and f"changed {path}: restart Codex" in done.out
    assert minimcp("install", shop_url, "--client", "codex").code == 0
    monkeypatch.setenv("MINIMCP_TOKEN", "secret")
    assert minimcp("install", shop_url, "--client", "codex", "--name", "far").code == 0
    assert minimcp(*words, "--name", "near").code == 2
    assert minimcp(*words, "--name", "near", "--force").code == 0
    assert minimcp("install", shop, "--client", "codex", "--remove", "--name", "near").code == 0
    assert [json.loads(line) for line in codex.read_text("utf-8").splitlines()] == [
        ["mcp", "add", "shop", *command],
        ["mcp", "add", "shop", "--url", shop_url],
        ["mcp", "add", "far", "--url", shop_url, "--bearer-token-env-var", "MINIMCP_TOKEN"],
        ["mcp", "add", "near", *command],
        ["mcp", "remove", "near"],
    ]
    done = minimcp(*words, "--env", "API_KEY=secret", "--name", "c")
    assert done.code == 0 and "--env 'API_KEY=***'" in done.out and "secret" not in done.out
    done = minimcp(*words, "--name", "a name")
    assert done.code == 2 and done.err.endswith("failed: invalid server name\n")
    assert path.read_text("utf-8") == CODEX_FILE


@pytest.mark.parametrize("program", ["codex.cmd", "C:/npm/CODEX.BAT"])
def test_a_batch_file_gets_no_arguments(
    home: Path,
    shop: str,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    minimcp: Callable[..., Done],
) -> None:
    path = _file("codex", CODEX_FILE)
    monkeypatch.setattr("minimcp.cli.install.shutil.which", lambda name: program)
    assert minimcp("install", shop, "--client", "codex", "--env", "A=b&calc").code == 0
    assert path.read_text("utf-8").endswith('env = { "A" = "b&calc" }\n')


@pytest.mark.parametrize(
    "name",
    ["--config=model=x", "-h", "", "_", "a\nb", "a\u202eb", "\ud800", 'x" & calc & "', "x" * 70],
)
def test_an_odd_name_of_a_server_is_not_used(
    home: Path, shop: str, name: str, minimcp: Callable[..., Done]
) -> None:
    Path(shop).write_text(LIGHT.replace('"shop"', ascii(name)), encoding="utf-8")
    path = _file("cursor")
    assert minimcp("install", shop, "--client", "cursor").code == 0
    assert list(json.loads(path.read_text("utf-8"))["mcpServers"]) == ["shop"]


def test_a_backup_is_private_while_it_is_written(
    home: Path, shop: str, monkeypatch: pytest.MonkeyPatch, minimcp: Callable[..., Done]
) -> None:
    path = _file("cursor", '{"mcpServers": {}}')
    path.chmod(0o640)
    modes: List[int] = []

    def watched(copy: Any) -> Any:
        def call(source: str, target: str) -> None:
            modes.append(os.stat(target).st_mode & 0o777)
            copy(source, target)

        return call

    for name in ("copystat", "copymode"):
        copy = watched(getattr(shutil, name))
        monkeypatch.setattr(f"minimcp.cli.install.shutil.{name}", copy)
    assert minimcp("install", shop, "--client", "cursor").code == 0
    assert modes == [0o600, 0o600]
    for each in (path, Path(str(path) + BACKUP)):
        assert each.stat().st_mode & 0o777 == 0o640


def test_a_table_is_appended_where_codex_cannot_write_it(
    home: Path,
    shop: str,
    shop_url: str,
    monkeypatch: pytest.MonkeyPatch,
    minimcp: Callable[..., Done],
) -> None:
    monkeypatch.setenv("PATH", str(home))
    path = _file("codex", CODEX_FILE)
    words = ["install", shop, "--client", "codex"]
    assert '+[mcp_servers."my shop"]\n' in minimcp(*words, "--name", "my shop", "--dry-run").out
    assert minimcp(*words, "--name", "my shop", "--env", 'A="\\').code == 0
    assert minimcp("install", shop_url, "--client", "codex", "--header", "A: b").code == 0
    assert path.read_text("utf-8") == (
        f"{CODEX_FILE}\n"
        '[mcp_servers."my shop"]\n'
        f'command = "{sys.executable}"\nargs = ["{os.path.abspath(shop)}"]\n'
        'env = { "A" = "\\"\\\\" }\n\n'
        f'[mcp_servers."shop"]\nurl = "{shop_url}"\nhttp_headers = {{ "A" = "b" }}\n'
    )
    for name in ("near", "my shop", "shop"):
        done = minimcp(*words, "--name", name)
        assert done.code == 2 and f"has a server {name!r}: change its table" in done.err, done
    done = minimcp(*words, "--remove", "--name", "near")
    assert done.code == 2 and 'remove its table [mcp_servers."near"] by hand' in done.err
    assert minimcp(*words, "--project").code == 0
    assert Path(".codex", "config.toml").read_text("utf-8").startswith('[mcp_servers."shop"]\n')


def test_the_servers_of_codex_are_read(
    home: Path, shop: str, monkeypatch: pytest.MonkeyPatch, minimcp: Callable[..., Done]
) -> None:
    monkeypatch.setenv("PATH", str(home))
    path = _file("codex", CODEX_FILE)
    assert minimcp("install", shop, "--client", "codex").code == 0
    if sys.version_info < (3, 11):
        done = minimcp("install", shop, "--client", "codex", "--remove")
        assert done.code == 2 and "reading TOML needs Python 3.11" in done.err, done
        assert "reading TOML needs Python 3.11" in minimcp("list", "--all").out
        return
    assert minimcp("install", shop, "--client", "codex").out == f"{path}: nothing to change\n"
    assert minimcp("ping", "shop", "--config", str(path)).out.startswith("shop 3 answered")
    listed = minimcp("list", "--all").out.splitlines()
    assert listed[0] == f"Codex: {path}" and listed[1] == "    near: npx"
    path.write_text("model = 'o5'", "utf-8")
    done = minimcp("install", shop, "--client", "codex", "--remove")
    assert done.code == 2 and "has no server that starts" in done.err, done
    path.write_text("[mcp_servers", "utf-8")
    done = minimcp("install", shop, "--client", "codex")
    assert done.code == 2 and "is not valid TOML and was not changed" in done.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# [mcp_servers.a]\n[mcp_servers . 'b c']\n[mcp_servers.d.env]\n", ["b c", "d"]),
        ("mcp_servers = { a = {} }", None),
        ("[mcp_servers]\na.command = ''", None),
    ],
)
def test_names_in_toml_before_python_3_11(
    text: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10))
    if expected is None:
        with pytest.raises(UsageError, match="which needs Python 3.11 or newer to be read"):
            toml_servers("f", text)
    else:
        assert list(toml_servers("f", text)) == expected


def test_what_to_paste_is_printed_for_goose(
    home: Path, shop: str, shop_url: str, minimcp: Callable[..., Done]
) -> None:
    path = Path(HOSTS["goose"].user_path)
    install = ("install", shop, "--client", "goose", "--env", "A=b")
    assert minimcp(*install) == minimcp(*install, "--dry-run")  # also where Goose is not installed
    path = _file("goose", "extensions: {}\n")
    done = minimcp(*install)
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"this command cannot write {path}. Paste this into it:\n\n"
        'extensions:\n  "shop":\n    enabled: true\n    name: "shop"\n    timeout: 300\n'
        f'    type: "stdio"\n    cmd: "{sys.executable}"\n    args: ["{os.path.abspath(shop)}"]\n'
        '    envs: {"A": "b"}\n'
    )
    done = minimcp("install", shop_url, "--client", "goose", "--header", "A: b")
    assert done.out.endswith(
        f'    type: "streamable_http"\n    uri: "{shop_url}"\n    headers: {{"A": "b"}}\n'
    )
    done = minimcp("install", shop, "--client", "goose", "--remove")
    assert done.code == 2 and "remove the server from" in done.err
    assert path.read_text("utf-8") == "extensions: {}\n"
    assert "YAML is not supported" in minimcp("list", "--all").out


# ------------------------------------------------------------ limits of an untrusted checkout


@pytest.mark.parametrize("client", [name for name, host in HOSTS.items() if host.project])
@pytest.mark.parametrize("link", ["the file", "the folder", "the file, dangling"])
def test_nothing_is_written_through_a_link_in_a_project(
    client: str, link: str, shop: str, home: Path, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    project = Path(HOSTS[client].project or "")
    if link == "the folder" and project.parent == Path("."):
        return  # this host's file is in the folder itself
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / project.name).write_text('{"mcpServers": {}}', "utf-8")
    if link == "the folder":
        project.parent.symlink_to(elsewhere)
    else:
        project.parent.mkdir(exist_ok=True)
        target = elsewhere / project.name
        project.symlink_to(target if link == "the file" else tmp_path / "missing.json")
    done = minimcp("install", shop, "--client", client, "--project", "--no-check")
    assert done.code == 2 and "is a link to" in done.err
    assert (elsewhere / project.name).read_text("utf-8") == '{"mcpServers": {}}'
    assert not (tmp_path / "missing.json").exists()
    assert sorted(os.listdir(elsewhere)) == [project.name]


@pytest.mark.parametrize("dangling", [False, True])
def test_the_copy_of_a_file_follows_no_link(
    dangling: bool, shop: str, home: Path, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    path = Path(HOSTS["cursor"].project or "")
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"theirs": {"command": "evil"}}}', "utf-8")
    mine = tmp_path / "mine.json"
    if not dangling:
        mine.write_text("{}", "utf-8")
    Path(str(path) + BACKUP).symlink_to(mine)
    assert minimcp("install", shop, "--client", "cursor", "--project", "--no-check").code == 0
    assert not mine.exists() if dangling else mine.read_text("utf-8") == "{}"


SECRETS = [
    {"url": "https://ada:S3CRET@far.example/mcp"},
    {"url": "https://far.example/mcp?key=S3CRET"},
    {"url": "https://far.example/mcp?S3CRET#frag"},
    {"httpUrl": "https://far.example/mcp?key=S3CRET"},
    {"serverUrl": "https://S3CRET@far.example/mcp"},
    {"command": "x", "args": ["--api-key", "S3CRET"]},
    {"command": "x", "args": ["--api-key=S3CRET"]},
    {"command": "x", "args": ["-e", "API_KEY=S3CRET"]},
    {"command": "x", "args": ["--password", "S3CRET", "file"]},
    {"command": "x", "args": ["--header", "Authorization: Bearer S3CRET"]},
    {"command": "x", "args": ["-H", "Authorization: Bearer S3CRET"]},
    {"command": "x", "args": ["sk-S3CRET"]},
    {"command": "x", "args": ["--pat", "ghp_S3CRET"]},
    {"command": "x", "args": ["postgres://ada:S3CRET@db/shop"]},
    {"command": "x", "args": ["--url=https://far.example/?token=S3CRET"]},
    {"command": "x", "env": {"KEY": "S3CRET"}},
    {"url": "https://far.example/mcp", "headers": {"X-Key": "S3CRET"}},
    {"url": "https://far.example/mcp", "proxy": "http://ada:S3CRET@proxy.example"},
    {"url": "https://far.example/mcp", "proxy": "ada:S3CRET@proxy.example"},
    {"url": "https://far.example/mcp", "oauth": {"clientSecret": "S3CRET"}},
    {"command": "x", "settings": {"token": "S3CRET"}},
    {"command": "x", "apiKey": "S3CRET"},
    {"command": "x", "keys": ["S3CRET"]},
    {"command": {"path": "x", "args": ["--key", "S3CRET"], "env": {"KEY": "S3CRET"}}},
]


@pytest.mark.parametrize("entry", SECRETS, ids=str)
def test_a_list_of_all_servers_shows_no_secret(
    entry: Dict[str, Any], home: Path, minimcp: Callable[..., Done]
) -> None:
    _file("cursor", json.dumps({"mcpServers": {"far": entry}}))
    for output in ("text", "json"):
        done = minimcp("list", "--all", "--output", output)
        assert done.code == 0 and "far" in done.out
        assert "S3CRET" not in done.out + done.err


def test_a_list_of_all_servers_shows_values_that_are_not_secret(
    home: Path, minimcp: Callable[..., Done]
) -> None:
    args = ["-y", "@scope/server", "--verbose", "/data/keys", "--port", "8000"]
    _file("cursor", json.dumps({"mcpServers": {"far": {"command": "npx", "args": args}}}))
    assert " ".join(["npx", *args]) in minimcp("list", "--all").out
