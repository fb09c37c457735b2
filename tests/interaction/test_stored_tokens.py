"""The file of tokens: touched only if a server asks for a token, whatever state it is in."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import AuthorizationError, Server, SignIn, TokenFile
from minimcp.auth import store
from minimcp.cli import main

from ..authorization_server import AuthorizationServer, protected
from ..support import ROOT, WAIT, run_python
from .test_authorization import call, sign_in

posix = pytest.mark.skipif(
    os.name == "nt", reason="needs the modes of files and /dev, which Windows does not have"
)


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as found:
        yield found


@pytest.fixture
def open_url() -> Iterator[str]:
    """A server that wants no token."""
    server = Server("open")

    @server.tool
    def echo() -> str:
        """Say so."""
        return "echo"

    with server.start_http() as running:
        yield running.url
    server.close()


def unwritable(folder: Path) -> Dict[str, str]:
    return {"HOME": os.devnull}


def read_only(folder: Path) -> Dict[str, str]:
    folder.chmod(0o500)
    return {"HOME": str(folder)}


def missing(folder: Path) -> Dict[str, str]:
    return {"HOME": str(folder / "none")}


def relative(folder: Path) -> Dict[str, str]:
    return {"HOME": "~"}


def damaged(folder: Path) -> Dict[str, str]:
    (folder / "tokens.json").write_text("{")
    return {"MINIMCP_TOKENS": str(folder / "tokens.json")}


def a_folder(folder: Path) -> Dict[str, str]:
    return {"MINIMCP_TOKENS": str(folder)}


def a_device(folder: Path) -> Dict[str, str]:
    return {"MINIMCP_TOKENS": os.devnull}


def loose(folder: Path) -> Dict[str, str]:
    (folder / "tokens.json").write_text("{}")
    (folder / "tokens.json").chmod(0o644)
    return {"MINIMCP_TOKENS": str(folder / "tokens.json")}


STATES = [unwritable, read_only, missing, relative, damaged, a_folder, a_device, loose]


@pytest.fixture(params=STATES, ids=lambda each: each.__name__)
def state(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    for name in ("MINIMCP_TOKENS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in request.param(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    tmp_path.chmod(0o700)


def contents(folder: Path) -> List[Any]:
    return sorted((str(path), path.stat().st_mode, path.stat().st_mtime_ns)
                  for path in folder.rglob("*"))  # fmt: skip


@posix
@pytest.mark.parametrize("way", ["connect", "list", "call", "check"])
def test_a_client_of_an_open_server_does_not_touch_the_file(
    state: Path, open_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(state)
    touch: Callable[..., Any] = lambda *_: pytest.fail("the file of tokens is touched")  # noqa: E731
    for name in ("_read", "lock", "put"):
        monkeypatch.setattr(TokenFile, name, touch)
    if way == "connect":
        with minimcp.connect(open_url) as client:
            assert client.call_tool("echo").text == "echo"
    elif way == "check":
        assert main(["check", open_url]) == 0
    else:
        assert main([way, open_url, *(["echo"] if way == "call" else [])]) == 0
    assert contents(state) == before


@posix
@pytest.mark.parametrize("state", [unwritable, damaged], indirect=True)
def test_a_bridge_to_an_open_server_does_not_touch_the_file(state: Path, open_url: str) -> None:
    before = contents(state)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    lines = "".join(json.dumps(each) + "\n" for each in (begin, ping))
    done = subprocess.run(
        [sys.executable, "-m", "minimcp", "bridge", open_url],
        input=lines, capture_output=True, text=True, timeout=2 * WAIT, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert '"echo"' in done.stdout, done.stderr
    assert contents(state) == before


@posix
def test_an_open_server_needs_no_sign_in(state: Path, open_url: str) -> None:
    before = [each for each in contents(state) if "tokens.json" not in each[0]]
    with minimcp.connect(open_url, auth=SignIn()) as client:
        assert client.call_tool("echo").text == "echo"
    assert [each for each in contents(state) if "tokens.json" not in each[0]] == before


@posix
def test_at_a_401_a_file_that_cannot_be_used_is_reported(
    state: Path, issuer: AuthorizationServer
) -> None:
    can_be_read = (
        not any(
            os.environ.get("MINIMCP_TOKENS") == str(path)
            for path in (state, os.devnull, state / "tokens.json")
        )
        or (state / "tokens.json").is_file()
        and (state / "tokens.json").read_text() == "{}"
    )
    with protected(issuer) as running, pytest.raises(AuthorizationError) as error:
        call(running.url, None)
    told = str(error.value)
    assert ("minimcp login" in told) == can_be_read
    assert can_be_read or os.environ["MINIMCP_TOKENS"] in told


@posix
def test_a_stored_token_is_used_where_nothing_can_be_written(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is mounted read-only, into a container for example."""
    monkeypatch.setenv("MINIMCP_TOKENS", str(tmp_path / "state" / "tokens.json"))
    refuse = OSError(errno.EROFS, "Read-only file system")

    def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT) and str(tmp_path) in str(path):
            raise refuse
        return os_open(path, flags, *more, **others)

    os_open = os.open
    with protected(issuer) as running:
        sign_in(store=TokenFile())[0].sign_in(running.url)
        monkeypatch.setattr(os, "open", opened)
        assert call(running.url, None) == "ada"
        assert call(running.url, SignIn()) == "ada"
        issuer.tokens.clear()
        with pytest.raises(AuthorizationError, match="the lock cannot be created.*MINIMCP_TOKENS"):
            call(running.url, None)


@posix
def test_without_a_home_folder_the_error_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, issuer: AuthorizationServer
) -> None:
    for name in ("MINIMCP_TOKENS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "~")
    monkeypatch.setattr(store.sys, "platform", "linux")
    with protected(issuer) as running:
        with pytest.raises(AuthorizationError, match="no home folder.*MINIMCP_TOKENS"):
            call(running.url, sign_in(store=TokenFile())[0])
    assert not os.path.exists("~")


@posix
def test_the_file_of_another_user_is_reported_at_the_401(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens.json"
    monkeypatch.setenv("MINIMCP_TOKENS", str(tokens))
    with protected(issuer) as running:
        sign_in(store=TokenFile())[0].sign_in(running.url)
        monkeypatch.setattr(os, "geteuid", lambda: tokens.stat().st_uid + 1)
        for auth in (None, sign_in(store=TokenFile())[0]):
            with pytest.raises(AuthorizationError, match="belongs to another user"):
                call(running.url, auth)
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_on_a_full_disk_a_token_is_used_and_not_lost(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    with protected(issuer) as running:
        auth, browser = sign_in(store=tokens)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            assert call(running.url, auth) == "ada"
            issuer.tokens.clear()
            assert call(running.url, auth) == "ada"  # by the refresh token in memory
            with pytest.raises(AuthorizationError, match="No space left"):
                auth.sign_in(running.url)  # because its purpose is to store it
            with pytest.raises(AuthorizationError, match="No space left"):
                auth.sign_out(running.url)
        assert "could not be stored" in caplog.text
        assert not [each for each in (*issuer.tokens, *issuer.refresh) if each in caplog.text]
        assert call(running.url, auth) == "ada"
        assert tokens.path.exists()
    assert len(browser.opened) <= 3


class Broken:
    """A store of a user's that fails in a way of its own."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def get(self, key: str) -> Any:
        if self.fails == "get":
            raise KeyError("the database is gone")

    def put(self, key: str, value: Any) -> None:
        if self.fails == "put":
            raise KeyError("the database is gone")


@pytest.mark.parametrize("fails", ["get", "put"])
def test_a_store_that_fails_raises_nothing_of_its_own(
    issuer: AuthorizationServer, open_url: str, fails: str
) -> None:
    auth, _ = sign_in(store=Broken(fails))
    with minimcp.connect(open_url, auth=auth) as client:
        assert client.call_tool("echo").text == "echo"
    with protected(issuer) as running:
        if fails == "put":
            assert call(running.url, auth) == "ada"
            return
        with pytest.raises(AuthorizationError, match="the database is gone"):
            call(running.url, auth)


def test_a_server_that_is_reached_in_the_clear_gets_no_stored_token() -> None:
    from minimcp import HttpServer
    from minimcp.client.connect import with_stored_token

    plain = HttpServer("http://plain.example/mcp")
    assert with_stored_token(plain) is plain
    assert with_stored_token(HttpServer("http://127.0.0.1:1/mcp")) is not plain


@pytest.mark.requirement("AUTH-20")
def test_a_path_may_begin_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("MINIMCP_TOKENS", "~/mine.json")
    assert TokenFile().path == tmp_path / "mine.json"
    assert TokenFile("~tokens.json").path == Path("~tokens.json")


OPEN_CLIENT = """
import json, sys
sys.path.insert(0, {root!r})
import minimcp
with minimcp.connect({url!r}) as client:
    assert client.call_tool("echo")
print(json.dumps(sorted(name for name in sys.modules if name.startswith("minimcp.auth"))))
"""


def test_a_client_of_an_open_server_neither_imports_auth_nor_looks_for_tokens(
    open_url: str, tmp_path: Path
) -> None:
    tokens = tmp_path / "no such folder" / "tokens.json"
    code = OPEN_CLIENT.format(root=str(ROOT), url=open_url)
    done = run_python(["-c", code], env={"MINIMCP_TOKENS": str(tokens)}, seconds=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"[]\n", b"")
    assert not tokens.parent.exists()
