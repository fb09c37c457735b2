"""Where tokens are kept: in memory, and in a file that threads and processes of one user share."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List, Union

import pytest

from minimcp import AuthorizationError, ConnectionLost, TokenFile, TokenMemory
from minimcp.auth import store
from minimcp.auth.authorizer import Authorizer, Grant
from minimcp.auth.discovery import ProtectedResource
from minimcp.auth.dpop import ProofKey
from minimcp.auth.tokens import Token
from minimcp.http.fetch import AbortableRequest

from ..scripted import Task
from ..support import ROOT, WAIT

TOKEN: Dict[str, Any] = {
    "access_token": "kW9",
    "expires_at": 12.5,
    "scope": ["read"],
    "refresh_token": None,
}

posix = pytest.mark.skipif(
    os.name == "nt", reason="needs the modes of files, which Windows does not have"
)


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json")


@pytest.fixture(params=["file", "memory"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Union[TokenFile, TokenMemory]:
    return TokenMemory() if request.param == "memory" else TokenFile(tmp_path / "tokens.json")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_beside(file: TokenFile) -> "list[str]":
    return sorted(path.name for path in file.path.parent.iterdir() if path.suffix != ".lock")


def test_a_stored_token_remains_until_it_is_forgotten(kept: Union[TokenFile, TokenMemory]) -> None:
    assert kept.get("token a") is None
    kept.put("token a", None)  # there is nothing to forget
    kept.put("token a", TOKEN)
    kept.put("token \u00e9", {"access_token": "other"})
    assert kept.get("token a") == TOKEN
    kept.put("token a", {"access_token": "next"})
    assert kept.get("token a") == {"access_token": "next"}
    kept.put("token a", None)
    assert kept.get("token a") is None
    assert kept.get("token \u00e9") == {"access_token": "other"}


def test_later_changes_of_the_mapping_do_not_change_the_stored_token(
    kept: Union[TokenFile, TokenMemory],
) -> None:
    given = dict(TOKEN)
    kept.put("token a", given)
    given["access_token"] = "changed"
    assert kept.get("token a") == TOKEN


def test_looking_for_a_token_makes_no_file(file: TokenFile) -> None:
    assert file.get("token a") is None
    assert not file.path.parent.exists()


# ------------------------------------------------------------ where the file is, and who may read it


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIMCP_TOKENS", str(tmp_path / "mine.json"))
    assert TokenFile().path == tmp_path / "mine.json"
    assert TokenFile(tmp_path / "other.json").path == tmp_path / "other.json"


@posix
def test_otherwise_it_is_in_the_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MINIMCP_TOKENS", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(store.sys, "platform", "linux")
    assert TokenFile().path == tmp_path / ".local" / "state" / "minimcp" / "tokens.json"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    assert TokenFile().path == tmp_path / "elsewhere" / "minimcp" / "tokens.json"
    monkeypatch.setattr(store.sys, "platform", "darwin")
    assert (
        TokenFile().path == tmp_path / "Library" / "Application Support" / "minimcp" / "tokens.json"
    )


@posix
def test_no_other_user_may_read_it(file: TokenFile) -> None:
    before = os.umask(0)
    try:
        file.put("token a", TOKEN)
        file.put("token b", TOKEN)
    finally:
        os.umask(before)
    assert mode(file.path) == 0o600
    assert mode(file.path.parent) == 0o700
    assert {mode(path) for path in file.path.parent.iterdir()} == {0o600}


@posix
@pytest.mark.parametrize("loose", [0o644, 0o660, 0o604, 0o601])
def test_a_file_that_others_may_read_is_made_private_and_reported(
    file: TokenFile, loose: int, caplog: pytest.LogCaptureFixture
) -> None:
    file.put("token a", TOKEN)
    file.path.chmod(loose)
    assert file.get("token a") == TOKEN
    assert mode(file.path) == 0o600
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(file.path) in caplog.text
    assert "kW9" not in caplog.text
    caplog.clear()
    assert file.get("token a") == TOKEN
    assert not caplog.records


@posix
def test_a_file_of_another_user_is_not_used(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.put("token a", TOKEN)
    monkeypatch.setattr(os, "geteuid", lambda: file.path.stat().st_uid + 1)
    with pytest.raises(AuthorizationError, match="belongs to another user"):
        file.get("token a")


@posix
def test_a_path_that_is_not_a_file_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fchmod", lambda *_: pytest.fail("a device is changed"))
    link = tmp_path / "tokens.json"
    link.symlink_to(os.devnull)
    for attempt in (
        lambda: TokenFile(link).get("token a"),
        lambda: TokenFile(link).put("token a", TOKEN),
    ):
        with pytest.raises(
            AuthorizationError, match="is not a file: tokens cannot be stored there"
        ):
            attempt()
    assert link.is_symlink()


# ------------------------------------------------------------ failures


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe\x00", b"[" * 100_000,
    json.dumps({"token a": TOKEN}).encode() + b"}",
])  # fmt: skip
def test_a_broken_file_is_reported_and_not_changed(file: TokenFile, content: bytes) -> None:
    file.put("token a", TOKEN)
    file.path.write_bytes(content)
    for attempt in (lambda: file.get("token a"), lambda: file.put("token a", TOKEN)):
        with pytest.raises(
            AuthorizationError, match="is not a valid token file: delete it, and sign in again"
        ) as told:
            attempt()
        assert "kW9" not in str(told.value)
    assert file.path.read_bytes() == content


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a folder")
    file = TokenFile(tmp_path / "text" / "tokens.json")
    with pytest.raises(AuthorizationError, match="the lock cannot be created"):
        file.put("token a", TOKEN)
    (tmp_path / "folder").mkdir()
    with pytest.raises(AuthorizationError, match="cannot be read"):
        TokenFile(tmp_path / "folder").get("token a")


def test_writing_that_fails_leaves_the_old_file(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.put("token a", TOKEN)

    def refuse(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        with pytest.raises(AuthorizationError, match="tokens cannot be stored: the disk is full"):
            file.put("token a", None)
    with pytest.raises(TypeError):
        file.put("token a", {"access_token": b"no JSON"})
    assert file.get("token a") == TOKEN
    assert files_beside(file) == ["tokens.json"]


# ------------------------------------------------------------ threads and processes


COUNT = """
import sys, minimcp
file = minimcp.TokenFile(sys.argv[1])
for _ in range(20):
    with file.lock("token a", 60):
        file.put("token a", {"count": file.get("token a")["count"] + 1})
"""


def test_processes_that_count_under_the_lock_lose_nothing(file: TokenFile) -> None:
    file.put("token a", {"count": 0})
    command = [sys.executable, "-c", COUNT, str(file.path)]
    children = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [child.wait(2 * WAIT) for child in children] == [0, 0, 0]
    assert file.get("token a") == {"count": 60}


def test_a_lock_admits_one_thread_per_key_and_does_not_block_reading(file: TokenFile) -> None:
    file.put("token a", TOKEN)
    with file.lock("token a", 0):
        assert file.get("token a") == TOKEN
        file.put("token b", TOKEN)
        with file.lock("token b", 0):
            pass
        with pytest.raises(AuthorizationError, match="has held the lock for 0.1 s"):
            with TokenFile(file.path).lock("token a", 0.1):
                pytest.fail("two are in there")
    with file.lock("token a", 0):
        pass


def test_a_waiting_thread_gets_the_lock_when_the_other_releases_it(file: TokenFile) -> None:
    order, inside = [], threading.Event()

    def other() -> None:
        inside.wait(WAIT)
        with file.lock("token a", WAIT):
            order.append("the other")

    waiting = Task(other)
    with pytest.raises(KeyError), file.lock("token a", 0):
        inside.set()
        order.append("the first")
        raise KeyError("an error inside")
    waiting.result()
    assert order == ["the first", "the other"]


HOLD = """
import sys, minimcp
with minimcp.TokenFile(sys.argv[1]).lock("token a", 60):
    print("inside", flush=True)
    sys.stdin.read()
"""


def test_a_process_that_is_killed_leaves_no_lock(file: TokenFile) -> None:
    command = [sys.executable, "-c", HOLD, str(file.path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline().strip() == b"inside"
        with pytest.raises(AuthorizationError, match="another process"):
            with file.lock("token a", 0):
                pytest.fail("two are in there")
        child.kill()
        child.wait(WAIT)
        with file.lock("token a", WAIT):
            pass


FORK = """
import os, sys, minimcp
file = minimcp.TokenFile(sys.argv[1])
with file.lock("token a", 60):
    end, other_end = os.pipe()
    child = os.fork()
    if not child:
        os.close(other_end)
        os.read(end, 1)  # until the parent has what it wants
        os._exit(0)
try:
    with file.lock("token a", 0):
        print("inside")
finally:
    os.close(other_end)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which Windows does not have")
def test_a_process_that_was_forked_inside_holds_no_lock(file: TokenFile) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(file.path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=WAIT, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, b"inside")


# ------------------------------------------------------------ a token that threads share


def changing(monkeypatch: pytest.MonkeyPatch, name: str, *values: Any) -> Dict[str, Any]:
    """Have other threads change an attribute of `Authorizer`: each look sees the next value; what
    was set last."""
    seen, kept = iter(values), {"set": "nothing"}
    look = property(
        lambda self: next(seen, values[-1]), lambda self, value: kept.update({"set": value})
    )
    monkeypatch.setattr(Authorizer, name, look, raising=False)
    return kept


@pytest.fixture
def authorizer() -> Authorizer:
    return Grant(TokenMemory()).for_server("https://example.com/mcp")


def test_a_token_forgotten_while_a_request_is_authorized(
    authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizer.is_loaded = True
    changing(monkeypatch, "_token", Token("kW9", "i", "r"), None)
    headers = authorizer.authorize("POST", "https://example.com/mcp", AbortableRequest())
    assert headers == {"Authorization": "Bearer kW9"}


def test_a_new_token_stays_untried_when_an_older_one_is_accepted(
    authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = changing(monkeypatch, "_untried", None, None, "new")
    assert not authorizer.answered(200, {}, {"Authorization": "Bearer old"}, AbortableRequest())
    assert kept["set"] == "nothing"


def test_a_request_is_proved_by_the_key_of_its_own_token(
    authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = ProofKey(), ProofKey()
    changing(monkeypatch, "_proof", one, one, other)
    assert authorizer._proof_of(Token("kW9", "i", "r", proof_key=one.pem)) is one


def test_scopes_that_a_call_has_given_up_on_are_asked_for_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grant = Grant(TokenMemory())
    authorizer = grant.for_server("https://example.com/mcp")
    outcomes: List[Any] = [ConnectionLost("given up"), Token("new", "i", "r")]

    def obtain(*_: Any) -> Token:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome  # type: ignore[no-any-return]

    monkeypatch.setattr(
        "minimcp.auth.authorizer.discover", lambda *_: ProtectedResource("r", "i", {})
    )
    monkeypatch.setattr(grant, "obtain", obtain)
    head = {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="more"'}
    sent = {"Authorization": "Bearer old"}
    monkeypatch.setattr(grant.store, "get", lambda key: None)
    with pytest.raises(ConnectionLost):
        authorizer.answered(403, head, sent, AbortableRequest())
    assert authorizer.answered(403, head, sent, AbortableRequest())


def test_the_token_of_another_process_is_waited_for_until_the_call_is_given_up_or_it_takes_too_long(
    file: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizer, request = (
        Grant(TokenFile(file.path)).for_server("https://example.com/mcp"),
        AbortableRequest(),
    )
    refused: Any = (401, {"WWW-Authenticate": "Bearer"}, {})
    with file.lock("server https://example.com/mcp", WAIT):  # as another process has it
        assert authorizer.authorize("POST", "https://example.com/mcp", AbortableRequest()) == {}
        waiting = Task(authorizer.answered, *refused, request)
        request.abort()
        assert isinstance(waiting.ended(), ConnectionLost)
        monkeypatch.setattr("minimcp.auth.authorizer.RENEW_SECONDS", 0.05)
        with pytest.raises(
            AuthorizationError, match="another process has been obtaining a token for 0.05 s"
        ):
            authorizer.answered(*refused, AbortableRequest())
