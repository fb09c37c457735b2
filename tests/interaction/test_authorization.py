"""Signing in: our client, a server that wants tokens, and an authorization server between them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

import minimcp
from minimcp import AuthorizationError, ClientCredentials, SignIn, TokenFile, TokenMemory
from minimcp.engine import timer

from ..authorization_server import METADATA, AuthorizationServer, Browser, protected
from ..inside import session_of, sweep
from ..support import ROOT, WAIT, MovedTime

requirement = pytest.mark.requirement
BOTH = pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as found:
        yield found


def sign_in(**options: Any) -> "tuple[SignIn, Browser]":
    browser = Browser()
    given = {
        "store": TokenMemory(),
        "on_redirect": browser.open,
        "on_callback": browser.come,
        **options,
    }
    return SignIn(**given), browser


def call(url: str, auth: Any, tool: str = "whoami", **options: Any) -> str:
    with minimcp.connect(url, auth=auth, **options) as client:
        return client.call_tool(tool).text


@requirement(
    "AUTH-30",
    "AUTH-32",
    "AUTH-33",
    "AUTH-39",
    "AUTH-42",
    "AUTH-43",
    "AUTH-45",
    "M:AUTH-4",
    "M:AUTH-8",
)
@requirement("AUTH-53", "M:AUTH-17")
@BOTH
def test_a_person_signs_in_and_the_token_is_remembered(
    issuer: AuthorizationServer, revision: str
) -> None:
    with protected(issuer, scopes=("read",)) as running:
        auth, browser = sign_in()
        assert call(running.url, auth, revision=revision) == "ada"
        assert call(running.url, auth, revision=revision) == "ada"
        assert len(browser.opened) == 1
        (begun,) = [each.values for each in issuer.asked if each.path == "/authorize"]
        assert begun["scope"] == "read"
        assert begun["resource"] == running.url
        assert begun["code_challenge_method"] == "S256"
        (registered,) = [each.values for each in issuer.asked if each.path == "/register"]
        assert registered["application_type"] == "native"
        assert registered["grant_types"] == ["authorization_code", "refresh_token"]


def test_the_browser_returns_to_a_listener(issuer: AuthorizationServer) -> None:
    import requests

    visited = []

    def visit(url: str) -> None:
        def follow() -> None:
            answer = requests.get(url, timeout=20)  # which follows the redirect
            visited.append((answer.status_code, "can close this page" in answer.text))

        threads.append(threading.Thread(target=follow))
        threads[-1].start()

    threads: "list[threading.Thread]" = []
    with protected(issuer) as running:
        auth = SignIn(store=TokenMemory(), on_redirect=visit)
        assert call(running.url, auth) == "ada"
    for thread in threads:
        thread.join()
    assert visited == [(200, True)]


@requirement("AUTH-57", "AUTH-58", "M:AUTH-24", "SCOPE-12")
@BOTH
def test_a_tool_that_needs_more_is_stepped_up_to_once(
    issuer: AuthorizationServer, revision: str
) -> None:
    with protected(issuer, scopes=("read",)) as running:
        auth, browser = sign_in()
        with minimcp.connect(running.url, auth=auth, revision=revision) as client:
            assert client.call_tool("whoami").text == "ada"
            assert client.call_tool("write").text == "written"
            assert client.call_tool("write").text == "written"
        assert len(browser.opened) == 2
        assert issuer.count("/authorize", scope="read write") == 1
        issuer.tokens.clear()
        issuer.refresh.clear()
        assert call(running.url, auth, "write") == "written"  # earlier scopes are requested again
        assert len(browser.opened) == 3


@requirement("SCOPE-11", "SCOPE-12")
@BOTH
def test_a_challenge_may_name_a_scope_that_the_metadata_do_not(
    issuer: AuthorizationServer, revision: str
) -> None:
    with protected(issuer, scopes=("read",)) as running:
        server = running.server

        @server.resource("project://{number}", scopes=lambda number: [f"project:{number}"])
        def project(number: str) -> str:
            return number

        auth, browser = sign_in()
        with minimcp.connect(running.url, auth=auth, revision=revision) as client:
            assert client.read_resource("project://7").text == "7"
            assert client.read_resource("project://8").text == "8"
            assert client.call_tool("write").text == "written"
        assert issuer.count("/authorize", scope="read project:7 project:8 write") == 1
        assert len(browser.opened) == 4


@requirement("SCOPE-13")
def test_a_step_up_in_vain_is_an_error_and_is_not_tried_again(issuer: AuthorizationServer) -> None:
    issue = issuer.issue
    issuer.issue = lambda *given, **more: issue(given[0], given[1], "read", given[3])  # type: ignore[method-assign]
    with protected(issuer, scopes=("read",)) as running:
        auth, browser = sign_in()
        for _ in range(3):
            with pytest.raises(AuthorizationError, match="403.*insufficient_scope"):
                call(running.url, auth, "write")
        assert len(browser.opened) == 2


@requirement("AUTH-66")
def test_a_token_is_refreshed_before_it_ends_and_the_old_refresh_token_is_kept(
    issuer: AuthorizationServer,
) -> None:
    issuer.lifetime = 5.0  # less than the time by which it is renewed early
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        assert issuer.count("/token", grant_type="refresh_token") >= 1
        assert len(browser.opened) == 1
        issue, kept = issuer.issue, list(issuer.refresh.items())

        def without(*given: Any, **more: Any) -> Dict[str, Any]:
            issuer.refresh.update(kept)  # it stays valid, and is not issued again
            return {name: value for name, value in issue(*given).items() if name != "refresh_token"}

        issuer.issue = without  # type: ignore[method-assign]
        before = issuer.count("/token", grant_type="refresh_token")
        assert call(running.url, auth) == "ada"
        assert issuer.count("/token", grant_type="refresh_token", refresh_token=kept[-1][0]) > 1
        assert issuer.count("/token", grant_type="refresh_token") > before
        assert len(browser.opened) == 1


def test_a_rejected_refresh_token_leads_to_the_browser(
    issuer: AuthorizationServer,
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 1
        issuer.tokens.clear()
        issuer.refresh.clear()
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 2


def test_an_outage_of_the_token_endpoint_does_not_lose_the_refresh_token(
    issuer: AuthorizationServer,
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        issuer.faults["/token"] = lambda handler: handler.answer(503, b"later")  # type: ignore[attr-defined]
        with pytest.raises(AuthorizationError, match="HTTP 503"):
            call(running.url, auth)
        del issuer.faults["/token"]
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 1


@requirement("AUTH-67")
def test_many_threads_cause_one_sign_in_and_one_refresh(issuer: AuthorizationServer) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        with minimcp.connect(running.url, auth=auth) as client, ThreadPoolExecutor(32) as pool:
            for _ in range(2):
                together = threading.Barrier(32)

                def ask(together: threading.Barrier = together) -> str:
                    together.wait()
                    return client.call_tool("whoami").text

                assert {each.result() for each in [pool.submit(ask) for _ in range(32)]} == {"ada"}
                issuer.tokens.clear()
        assert len(browser.opened) == 1
        assert issuer.count("/token", grant_type="refresh_token") == 1


PROCESS = """
import sys, minimcp
from concurrent.futures import ThreadPoolExecutor
with minimcp.connect(sys.argv[1]) as client, ThreadPoolExecutor(16) as pool:
    print("ready", flush=True)
    sys.stdin.readline()
    print({each.result().text for each in [pool.submit(client.call_tool, "whoami") for _ in range(16)]})
"""


def test_two_processes_share_a_stored_token_and_refresh_it_once(
    issuer: AuthorizationServer, tmp_path: Path
) -> None:
    tokens = tmp_path / "state" / "tokens.json"
    with protected(issuer) as running:
        auth, browser = sign_in(store=TokenFile(tokens))
        known = auth.sign_in(running.url)
        assert known["issuer"] == issuer.url
        assert known["can_be_refreshed"]
        command, environment = (
            [sys.executable, "-c", PROCESS, running.url],
            {"MINIMCP_TOKENS": str(tokens)},
        )
        pair = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, **environment},
            )
            for _ in range(2)
        ]
        assert [each.stdout.readline() for each in pair] == ["ready\n"] * 2  # type: ignore[union-attr]
        issuer.tokens.clear()
        for each in pair:
            each.stdin.write("\n")  # type: ignore[union-attr]
            each.stdin.flush()  # type: ignore[union-attr]
        assert [each.communicate(timeout=60)[0] for each in pair] == ["{'ada'}\n"] * 2
        assert issuer.count("/token", grant_type="refresh_token") == 1
        assert len(browser.opened) == 1


def test_without_auth_the_message_says_how_to_sign_in(issuer: AuthorizationServer) -> None:
    with protected(issuer) as running:
        with pytest.raises(
            AuthorizationError, match=f"'python3 -m minimcp login {running.url}'.*SignIn"
        ):
            call(running.url, None)
    assert not issuer.asked


def test_the_error_for_a_rejected_stored_token_says_so(
    issuer: AuthorizationServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMCP_TOKENS", str(tmp_path / "tokens.json"))
    with protected(issuer) as running:
        auth, _ = sign_in(store=TokenFile())
        auth.sign_in(running.url)
        assert call(running.url, None) == "ada"
        issuer.tokens.clear()
        issuer.refresh.clear()
        with pytest.raises(
            AuthorizationError, match="no longer accepts the stored token.*minimcp login"
        ):
            call(running.url, None)
        assert auth.sign_out(running.url)
        assert auth.whoami(running.url) is None
        assert not auth.sign_out(running.url)


@requirement("AUTH-59", "M:AUTH-40")
def test_a_program_signs_in_as_itself(issuer: AuthorizationServer) -> None:
    with protected(issuer, scopes=("read",)) as running:
        auth = ClientCredentials("robot", "a robot's secret", issuer=issuer.url)
        with minimcp.connect(running.url, auth=auth) as client:
            assert client.call_tool("whoami").text == "robot"
            assert client.call_tool("write").text == "written"
            issuer.tokens.clear()
            assert client.call_tool("whoami").text == "robot"
        with pytest.raises(AuthorizationError, match="invalid_client") as caught:
            call(
                running.url,
                ClientCredentials("robot", "not the robot's secret", issuer=issuer.url),
            )
        assert "not the robot" not in str(caught.value)


@requirement("M:AUTH-20", "AUTH-48", "M:AUTH-19", "M:AUTH-21")
def test_credentials_stay_with_their_authorization_server(issuer: AuthorizationServer) -> None:
    with AuthorizationServer() as other:
        auth, browser = sign_in()
        given = ClientCredentials("robot", "a robot's secret", issuer=issuer.url)
        with protected(issuer) as running:
            assert call(running.url, auth) == "ada"
            assert call(running.url, given) == "robot"
            running.move_to(other)
            assert call(running.url, auth) == "ada"
            assert other.count("/register") == 1
            assert not {each.values.get("refresh_token") for each in other.asked} & set(
                issuer.refresh
            )
            with pytest.raises(AuthorizationError, match="the credentials are for"):
                call(running.url, given)
            assert not other.count("/token", grant_type="client_credentials")


@requirement("AUTH-60", "M:AUTH-10", "M:AUTH-11", "M:AUTH-14")
@pytest.mark.parametrize("name", ["iss", "state", "code"])
def test_a_response_to_another_sign_in_is_rejected(issuer: AuthorizationServer, name: str) -> None:
    browser = Browser()

    def come(state: str, timeout: float) -> str:
        return browser.come(state, timeout).replace(f"{name}=", f"{name}=x")

    with protected(issuer) as running, pytest.raises(AuthorizationError):
        call(running.url, sign_in(on_redirect=browser.open, on_callback=come)[0])
    assert issuer.count("/token") == (name == "code")


def test_a_cancelled_caller_does_not_wait_for_the_sign_in(issuer: AuthorizationServer) -> None:
    opened, token = threading.Event(), minimcp.CancelToken()
    with protected(issuer) as running:
        auth = SignIn(store=TokenMemory(), on_redirect=lambda url: opened.set())
        with ThreadPoolExecutor(1) as pool:
            begun = pool.submit(minimcp.connect, running.url, auth=auth, cancel=token)
            assert opened.wait(20)
            token.cancel()
            with pytest.raises(minimcp.Cancelled):
                begun.result(20)


def test_the_timeout_is_paused_while_a_person_signs_in(
    issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, moved = Browser(), MovedTime()
    monkeypatch.setattr(timer, "time", moved)

    def slowly(url: str) -> None:
        if browser.opened:
            moved.ahead += 1000
            calls: Any = session_of(client).calls
            sweep(calls)  # as the timer does
        browser.open(url)

    auth, _ = sign_in(on_redirect=slowly, on_callback=browser.come)
    with (
        protected(issuer, scopes=("read",)) as running,
        minimcp.connect(running.url, auth=auth, timeout=WAIT) as client,
    ):
        assert client.call_tool("write").text == "written"
    assert len(browser.opened) == 2


@requirement("M:AUTH-18")
def test_a_rejected_redirect_uri_is_reported(
    issuer: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = {"error": "invalid_redirect_uri", "error_description": "only https\n\x1b[31m here"}
    monkeypatch.setattr(issuer, "register", lambda asked: (400, why))
    with protected(issuer) as running:
        auth, browser = sign_in(redirect_uri="http://127.0.0.1:9/back")
        with pytest.raises(AuthorizationError) as refused:
            call(running.url, auth)
    told = f"{issuer.url} did not register this client with http://127.0.0.1:9/back: invalid_redirect_uri: only https"
    assert told in str(refused.value) and "\x1b" not in str(refused.value)
    assert not browser.opened


def test_a_sign_in_that_nobody_finishes_times_out(issuer: AuthorizationServer) -> None:
    with (
        protected(issuer) as running,
        pytest.raises(AuthorizationError, match="nobody has signed in within 0.1 s"),
    ):
        call(running.url, SignIn(store=TokenMemory(), on_redirect=len, timeout=0.1))


def test_nothing_secret_is_shown(
    issuer: AuthorizationServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shown: "list[Any]" = []
    caplog.set_level("DEBUG")
    with protected(issuer) as running:
        auth, _ = sign_in(store=TokenFile(tmp_path / "tokens.json"))
        with minimcp.connect(
            running.url, auth=auth, trace=lambda *each: shown.append(each)
        ) as client:
            shown += [
                client.call_tool("whoami"),
                auth,
                auth.store,
                auth.for_server(running.url),
                vars(auth),
            ]
        issuer.faults["/token"] = lambda handler: handler.answer(  # type: ignore[attr-defined]
            400,
            {
                "error": "invalid_request",
                "error_description": f"you sent {issuer.asked[-1].values}",
            },
        )
        secrets = {*issuer.tokens, *issuer.refresh, *issuer.codes}
        issuer.tokens.clear()
        with pytest.raises(AuthorizationError) as caught:
            call(running.url, auth)
        shown += [caught.value, caught.getrepr(), caplog.text]
    text = "\n".join(map(repr, shown))
    assert not [secret for secret in secrets if secret in text]
    kept = json.loads((tmp_path / "tokens.json").read_text())
    assert secrets & {
        value for entry in kept.values() for value in entry.values() if isinstance(value, str)
    }


# ------------------------------------------------------------ an authorization server that misbehaves


FAULTS: Dict[str, Any] = {
    "500": lambda handler: handler.answer(500, b"no"),
    "garbage": lambda handler: handler.answer(200, b"\xff\x00 no JSON"),
    "huge": lambda handler: handler.answer(200, b'{"a": "' + b"x" * 200_000 + b'"}'),
    "array": lambda handler: handler.answer(200, b"[1]"),
    "nested": lambda handler: handler.answer(200, b"[" * 50_000),
    "redirect": lambda handler: handler.answer(307, b"", Location="http://127.0.0.1:1/elsewhere"),
    "wrong types": lambda handler: handler.answer(200, {"access_token": 5, "token_type": []}),
    "line end": lambda handler: handler.answer(
        200, {"access_token": "a\r\nX: y", "token_type": "Bearer"}
    ),
    "mac": lambda handler: handler.answer(200, {"access_token": "abc", "token_type": "mac"}),
    "gone": lambda handler: handler.connection.close(),
}


@pytest.mark.parametrize("fault", ["slow", *FAULTS])
@pytest.mark.parametrize("path", ["/token", METADATA, "/register"])
def test_a_fault_is_a_typed_error_in_time(
    issuer: AuthorizationServer, path: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minimcp.auth import discovery

    expire: Dict[float, Any] = {}

    def slow(handler: Any) -> None:
        expire[WAIT]()  # the time that this answer may take, and no other's, is over
        handler.answer(200, {})

    def timeout(seconds: float, function: Any) -> Any:
        expire[seconds] = function
        return timer.Timeout(seconds, function)

    for name in ("minimcp.auth.tokens", "minimcp.auth.signin"):
        monkeypatch.setattr(f"{name}.TOKEN_SECONDS", WAIT)
    monkeypatch.setattr(discovery, "DOCUMENT_SECONDS", WAIT)
    monkeypatch.setattr(discovery, "Timeout", timeout)
    issuer.faults[path] = FAULTS.get(fault, slow)
    with protected(issuer) as running:
        auth, browser = sign_in()
        with pytest.raises(AuthorizationError):
            call(running.url, auth)
        assert len(browser.opened) == (path == "/token")
