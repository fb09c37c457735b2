"""``login``, ``logout`` and ``whoami``, and that other commands use the token."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ..authorization_server import AuthorizationServer, Browser, protected
from .conftest import Done


@pytest.fixture
def issuer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthorizationServer]:
    monkeypatch.setenv("MINIMCP_TOKENS", str(tmp_path / "tokens.json"))
    with AuthorizationServer() as found:
        yield found


class Paste:
    """A person who reads the address on stderr, opens it elsewhere, and pastes where that led to."""

    def __init__(self, capture: Any) -> None:
        self._capture, self.browser = capture, Browser()

    def readline(self) -> str:
        shown = self._capture()
        url = next(line for line in shown.splitlines() if line.startswith("http"))
        self.browser.open(url)
        return self.browser.come("", 0) + "\n"


def test_login_by_paste_and_commands_that_use_the_token(
    issuer: AuthorizationServer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    monkeypatch.setattr(
        sys,
        "stderr",
        type(
            "Stderr",
            (),
            {
                "write": lambda self, text: shown.append(text),
                "flush": lambda self: None,
                "isatty": lambda self: False,
            },
        )(),
    )
    monkeypatch.setattr(sys, "stdin", Paste(lambda: "".join(shown)))
    with protected(issuer, scopes=("read",)) as running:
        done = minimcp("whoami", running.url)
        assert done.code == 1
        done = minimcp("login", running.url, "--no-browser", "--scope", "write")
        assert done.code == 0, shown
        assert "scopes:    read write" in done.out
        assert not [token for token in (*issuer.tokens, *issuer.refresh) if token in done.out]
        known = json.loads(minimcp("whoami", running.url, "--output", "json").out)
        assert known["issuer"] == issuer.url
        assert minimcp("call", running.url, "write").out == "written\n"
        assert minimcp("logout", running.url).out == f"logged out of {running.url}\n"
        assert issuer.count("/revoke") == 1
        assert not issuer.refresh
        assert minimcp("logout", running.url).code == 1
        assert minimcp("call", running.url, "write").code == 3
        assert f"'python3 -m minimcp login {running.url}'" in "".join(shown)


@pytest.mark.requirement("AUTH-54", "M:AUTH-43")
def test_login_with_a_registered_client(
    issuer: AuthorizationServer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading
    import webbrowser

    import requests

    threads = []

    def visit(url: str) -> bool:
        threads.append(threading.Thread(target=lambda: requests.get(url, timeout=20)))
        threads[-1].start()
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    monkeypatch.setenv("MINIMCP_CLIENT_SECRET", "a robot's secret")
    with protected(issuer) as running:
        done = minimcp("login", running.url, "--client-id", "robot", "--issuer", issuer.url)
        assert done.code == 0, done.err
        assert not issuer.count("/register")
        issuer.tokens.clear()
        assert minimcp("call", running.url, "whoami").out == "ada\n"
    for thread in threads:
        thread.join()


def test_login_without_a_terminal_fails(
    issuer: AuthorizationServer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    import webbrowser

    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    with protected(issuer) as running:
        done = minimcp("login", running.url)
        assert (done.code, "--no-browser" in done.err) == (3, True)
        assert minimcp("login", "ftp://x").code == 2
        done = minimcp("login", f"{issuer.url}/nothing")
        assert (done.code, "does not require a token" in done.err) == (3, True)
        assert minimcp("login", running.url, "--redirect-uri", "http://evil.example.com/").code == 2


def test_login_with_a_secret_needs_its_issuer(
    issuer: AuthorizationServer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMCP_CLIENT_SECRET", "a robot's secret")
    with protected(issuer) as running:
        done = minimcp("login", running.url, "--client-id", "robot")
        assert (done.code, "--issuer" in done.err) == (2, True)
        assert "a robot" not in done.err
    assert not issuer.asked


def test_login_prints_the_address_and_logout_forgets_the_registration(
    issuer: AuthorizationServer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading
    import webbrowser

    import requests

    threads = []

    def visit(url: str) -> bool:
        threads.append(threading.Thread(target=lambda: requests.get(url, timeout=20)))
        threads[-1].start()
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    with protected(issuer) as running:
        for count in (1, 2):  # an explicit login registers again
            done = minimcp("login", running.url, "--header", "X-Team: red", "--output", "json")
            assert done.code == 0, done.err
            assert f"\n{issuer.url}/authorize?" in done.err
            assert json.loads(done.out)["issuer"] == issuer.url
            assert issuer.count("/register") == count
        assert minimcp("logout", running.url, "--header", "X-Team: red").code == 0
        assert minimcp("logout", running.url).code == 1
    for thread in threads:
        thread.join()
