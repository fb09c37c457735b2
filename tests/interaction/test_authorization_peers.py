"""Authorization servers and metadata as they exist in the field: each request of a sign-in with
each kind of response."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from urllib.parse import quote

import pytest

import minimcp
from minimcp import (
    AuthorizationError,
    ClientCredentials,
    EnterpriseManaged,
    SignIn,
    TokenMemory,
    WorkloadIdentity,
)
from minimcp.auth import discovery, signin, tokens
from minimcp.auth.discovery import same_issuer

from ..authorization_server import METADATA, AuthorizationServer, protected
from ..support import WAIT, around, each_pair
from .test_authorization import call, sign_in

requirement = pytest.mark.requirement
PROTECTED = "/.well-known/oauth-protected-resource"
OPENID = "/.well-known/openid-configuration"
JSON, HTML, TEXT = ("application/json", "text/html", "text/plain")


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as found:
        yield found


def answers(status: int, body: Any, kind: str = JSON, **headers: str) -> Callable[[Any], None]:
    """A fault of `AuthorizationServer`: this response."""
    return lambda handler: handler.answer(status, body, **{"Content-Type": kind, **headers})


def cuts(handler: Any) -> None:
    """A fault: the connection breaks before the response."""
    handler.close_connection = True
    handler.connection.shutdown(2)


# ------------------------------------------------------------ (a) the token endpoint

BODIES: Dict[str, Tuple[Any, str]] = {
    "OAuth error": ({"error": "invalid_grant"}, JSON),
    "another OAuth error": ({"error": "bad_refresh_token", "error_description": "no"}, JSON),
    "message": ({"message": "Invalid Refresh Token: Already Used"}, JSON),
    "error object": ({"error": {"code": "invalid_grant", "message": "no"}}, JSON),
    "array": (b"[1]", JSON),
    "text": (b"Invalid refresh token", TEXT),
    "page": (b"<!DOCTYPE html><p>Invalid", HTML),
    "nothing": (b"", TEXT),
    "cut JSON": (b'{"error": "inv', JSON),
}
REJECTED = (400, 401, 403, 404, 405, 409, 410, 415, 418, 422, 451)
PASSING = (408, 429, 500, 502, 503, 504, 520, 599)


def refreshing(fault: Any) -> Callable[[Any], None]:
    """A fault of the token endpoint that concerns refreshing only."""

    def fail(handler: Any) -> None:
        owner = handler.owner
        values = owner.asked[-1].values
        if values.get("grant_type") == "refresh_token":
            fault(handler)
        else:
            handler.answer(*owner.token(values, handler.headers))

    return fail


@requirement("AUTH-66")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (status, body)
        for number, status in enumerate([*REJECTED, *PASSING])
        for other, body in enumerate(BODIES)
        if status in (400, 401, 503) or (number + other) % 4 == 0
    ],
)
def test_a_refresh_that_is_rejected_leads_to_a_sign_in_and_an_outage_does_not(
    issuer: AuthorizationServer, status: int, body: str
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        issuer.faults["/token"] = refreshing(answers(status, *BODIES[body]))
        if status in REJECTED:
            assert call(running.url, auth) == "ada"
            assert len(browser.opened) == 2
        else:
            with pytest.raises(AuthorizationError):
                call(running.url, auth)
            del issuer.faults["/token"]
            assert call(running.url, auth) == "ada"  # by the refresh token, which was kept
            assert len(browser.opened) == 1


@pytest.mark.parametrize(("body", "is_rejected"), [
    ({"error": "bad_refresh_token"}, True), ({"error": {"code": "x"}}, True), ({"error": "x", "access_token": "abc"}, True),
    ({"access_token": 5}, True), ({"token": "abc"}, True), ({"access_token": "abc", "token_type": "mac"}, True),
    (b"<p>", False), (b"", False), (b"[1]", False), (b'{"access_token": "ab', False),
])  # fmt: skip
def test_a_successful_status_without_a_token_is_an_error(
    issuer: AuthorizationServer, body: Any, is_rejected: bool
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        issuer.faults["/token"] = refreshing(answers(200, body))
        if is_rejected:
            assert call(running.url, auth) == "ada"
            assert len(browser.opened) == 2
            return
        with pytest.raises(AuthorizationError):
            call(running.url, auth)
        del issuer.faults["/token"]
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 1


@pytest.mark.parametrize("fault", [cuts, answers(307, b"", Location="http://127.0.0.1:1/")])
def test_a_refresh_without_a_response_of_the_endpoint_keeps_the_refresh_token(
    issuer: AuthorizationServer, fault: Any
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        issuer.faults["/token"] = refreshing(fault)
        with pytest.raises(AuthorizationError):
            call(running.url, auth)
        del issuer.faults["/token"]
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 1


@pytest.mark.parametrize(("status", "more"), [
    (200, {}), (201, {}), (202, {"token_type": None}), (203, {"token_type": "BEARER"}), (206, {"expires_in": "soon"}),
    (200, {"expires_in": -1}), (201, {"expires_in": None}), (202, {"error": None}), (203, {"scope": None}),
    (206, {"refresh_token": None}), (200, {"refresh_token": None}),
])  # fmt: skip
def test_any_successful_status_with_a_token_is_a_success(
    issuer: AuthorizationServer, status: int, more: Dict[str, Any]
) -> None:
    token = issuer.token

    def created(asked: Any, headers: Any) -> Any:
        return status, {**token(asked, headers)[1], **more}

    issuer.token = created  # type: ignore[method-assign]
    issuer.register = lambda asked, register=issuer.register: (status, register(asked)[1])  # type: ignore[method-assign, misc]
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == (2 if "refresh_token" in more else 1)


def grants(issuer: AuthorizationServer) -> Dict[str, Any]:
    secret = "a robot's secret"
    return {
        "code": sign_in()[0],
        "client credentials": ClientCredentials("robot", secret, issuer=issuer.url),
        "workload": WorkloadIdentity("a-platform-jwt", "robot", issuer=issuer.url),
        "exchange": EnterpriseManaged(
            "robot",
            secret,
            id_token="an-id-token",
            idp_token_endpoint=f"{issuer.url}/token",
            idp_client_id="company",
            idp_client_secret="a company's secret",
            issuer=issuer.url,
        ),
    }


@pytest.mark.parametrize(
    ("body", "status", "grant"),
    each_pair(
        BODIES,
        [200, 302, 400, 401, 408, 429, 500, 503],
        ["code", "client credentials", "workload", "exchange"],
    ),
)
def test_every_grant_fails_with_the_words_of_the_server_and_without_secrets(
    issuer: AuthorizationServer, grant: str, status: int, body: str
) -> None:
    issuer.faults["/token"] = answers(status, *BODIES[body])
    auth = grants(issuer)[grant]
    with protected(issuer) as running:
        for _ in range(2):  # and the failure is not remembered
            with pytest.raises(AuthorizationError) as error:
                call(running.url, auth)
            told = str(error.value)
            assert "secret" not in told and "id-token" not in told
            if body == "OAuth error":
                assert "invalid_grant" in told
        if grant in ("code", "client credentials"):
            del issuer.faults["/token"]
            assert call(running.url, auth) in ("ada", "robot")


@pytest.mark.parametrize("grant", ["code", "client credentials", "workload", "exchange"])
@pytest.mark.parametrize("form", [str, quote, lambda text: text.replace("/", "\\/")])
def test_secrets_that_an_authorization_server_repeats_are_masked(
    issuer: AuthorizationServer, grant: str, form: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    seen: List[str] = []

    def repeat(handler: Any) -> None:
        asked = issuer.asked[-1]
        sent = [value for name, value in asked.values.items() if name not in tokens.PUBLIC]
        sent += filter(None, [asked.headers.get("Authorization")])
        seen.extend(sent)
        told = " ".join(map(form, sent))
        handler.answer(400, {"error": "invalid_request", "error_description": f"You sent {told}"})

    issuer.faults["/token"] = repeat
    with protected(issuer) as running, pytest.raises(AuthorizationError) as error:
        call(running.url, grants(issuer)[grant])
    text = f"{error.getrepr()}{error.value}{caplog.text}"
    assert seen and "You sent" in str(error.value)
    assert not [
        each for each in seen if each in text or each.partition(" ")[2][:99] in text.split()
    ]


@pytest.mark.parametrize("path", ["/register", "/token", "/revoke"])
def test_a_request_that_cannot_be_repeated_has_thirty_seconds(
    issuer: AuthorizationServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: List[Tuple[str, float]] = []

    class Timeout(discovery.Timeout):
        def __init__(self, seconds: float, expire: Any) -> None:
            super().__init__(seconds, expire)
            timeouts.append((fetched[-1], seconds))

    fetched: List[str] = []

    def noted(fetcher: Any, exchange: Any, method: str, url: str) -> Any:
        fetched.append(f"{method} {url}")
        return fetcher(exchange, method, url)

    monkeypatch.setattr(discovery, "Timeout", Timeout)
    around(monkeypatch, discovery.Exchange, "_fetcher", noted)
    with protected(issuer) as running:
        auth, _ = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        assert call(running.url, auth) == "ada"
        assert auth.sign_out(running.url)
    assert {
        seconds >= 30 for asked, seconds in timeouts if asked == f"POST {issuer.url}{path}"
    } == {True}


@pytest.mark.parametrize("ends", ["cancel", "timeout"])
def test_a_refresh_is_stored_even_if_its_caller_gives_up(
    issuer: AuthorizationServer, ends: str
) -> None:
    came, let = threading.Event(), threading.Event()
    token = issuer.token

    def slow(asked: Any, headers: Any) -> Any:
        answer = token(asked, headers)  # rotates at once
        if asked["grant_type"] == "refresh_token":
            came.set()
            let.wait(WAIT)
        return answer

    store, cancel = TokenMemory(), minimcp.CancelToken()
    with protected(issuer) as running, ThreadPoolExecutor(1) as pool:
        auth, browser = sign_in(store=store)
        with minimcp.connect(running.url, auth=auth, revision="2026-07-28") as client:
            issuer.token = slow  # type: ignore[method-assign]
            issuer.tokens.clear()
            timeout = WAIT if ends == "cancel" else 3.0
            calling = pool.submit(client.call_tool, "whoami", timeout=timeout, cancel=cancel)
            assert came.wait(WAIT)
            if ends == "cancel":
                cancel.cancel()
            with pytest.raises((minimcp.Cancelled, minimcp.RequestTimeout)):
                calling.result(WAIT)
            assert not let.is_set()  # the caller did not wait for the response
            let.set()
            assert client.call_tool("whoami").text == "ada"
        again, page = sign_in(store=store)
        assert call(running.url, again) == "ada"
        assert (len(browser.opened), page.opened) == (1, [])
        assert issuer.count("/token", grant_type="refresh_token") == 1


def test_a_process_ends_when_the_refresh_that_it_has_sent_is_stored(
    issuer: AuthorizationServer,
) -> None:
    started: List[threading.Thread] = []
    start = threading.Thread.start

    with protected(issuer) as running, pytest.MonkeyPatch.context() as patch:
        auth, _ = sign_in()
        assert call(running.url, auth) == "ada"
        issuer.tokens.clear()
        patch.setattr(threading.Thread, "start", lambda self: started.append(self) or start(self))
        assert call(running.url, auth) == "ada"
    assert [each.daemon for each in started if each.name == "minimcp-refresh"] == [False]


# ------------------------------------------------------------ registrations that are forgotten


def forgetful(issuer: AuthorizationServer) -> None:
    """Have it start with an empty database."""
    for known in (issuer.clients, issuer.tokens, issuer.refresh):
        known.clear()  # type: ignore[attr-defined]


def test_a_registration_that_a_refresh_finds_missing_is_repeated(
    issuer: AuthorizationServer,
) -> None:
    with protected(issuer) as running:
        auth, browser = sign_in()
        assert call(running.url, auth) == "ada"
        forgetful(issuer)
        assert call(running.url, auth) == "ada"
        assert issuer.count("/register") == len(browser.opened) == 2


@pytest.mark.parametrize(("status", "body"), [
    (401, {"error": "invalid_client"}), (400, {"error": "unauthorized_client"}), (401, b""), (422, {"message": "Unrecognized client_id"}),
])  # fmt: skip
def test_a_registration_that_the_token_endpoint_does_not_know_is_repeated(
    issuer: AuthorizationServer, status: int, body: Any
) -> None:
    store = TokenMemory()
    with protected(issuer) as running:
        issuer.faults["/token"] = answers(status, body)
        with pytest.raises(AuthorizationError, match="registration was deleted"):
            call(running.url, sign_in(store=store)[0])
        del issuer.faults["/token"]
        assert call(running.url, sign_in(store=store)[0]) == "ada"
    assert issuer.count("/register") == 2


class Noted(TokenMemory):
    """A store of tokens that exposes its contents."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Dict[str, Dict[str, Any]] = {}

    def put(self, key: str, value: Optional[Dict[str, Any]]) -> None:
        super().put(key, value)
        self.kept.pop(key, None)
        if value is not None:
            self.kept[key] = value


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client"])
def test_a_registration_that_the_page_does_not_know_is_repeated(
    issuer: AuthorizationServer, error: str
) -> None:
    instead = [f"error={error}&x=", "code="]
    auth, browser = sign_in(
        on_callback=lambda state, timeout: browser.come(state, timeout).replace("code=", instead[0])
    )
    with protected(issuer) as running:
        with pytest.raises(AuthorizationError, match=error):
            call(running.url, auth)
        del instead[0]
        assert call(running.url, auth) == "ada"
    assert issuer.count("/register") == 2


@pytest.mark.parametrize(
    "way", [{"no_browser": True}, {"redirect_uri": "http://127.0.0.1:9/x"}, {}]
)
@pytest.mark.parametrize("out", ["with a token", "without a token"])
def test_signing_out_forgets_every_registration(
    issuer: AuthorizationServer, way: Dict[str, Any], out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sign out as `minimcp logout` does, without the options of `login`."""
    store = Noted()
    with protected(issuer) as running:
        auth, browser = sign_in(store=store, **way)
        monkeypatch.setattr(signin, "paste", lambda url: browser.open(url) or browser.come("", 0))
        if out == "without a token":
            issuer.faults["/authorize"] = answers(302, b"", Location="http://127.0.0.1:1/?x=1")
            with pytest.raises(AuthorizationError):
                call(running.url, auth)
            del issuer.faults["/authorize"]
        else:
            assert call(running.url, auth) == "ada"
        assert any(key.startswith("client ") for key in store.kept)
        assert SignIn(store=store).sign_out(running.url)
        assert not store.kept
        assert not SignIn(store=store).sign_out(running.url)
        assert call(running.url, sign_in(store=store)[0]) == "ada"
    assert issuer.count("/register") == 2


def test_an_explicit_sign_in_registers_again(issuer: AuthorizationServer) -> None:
    with protected(issuer) as running:
        auth, _ = sign_in()
        auth.sign_in(running.url)
        issuer.clients.clear()
        assert auth.sign_in(running.url)["client_id"] in issuer.clients
    assert issuer.count("/register") == 2


def test_an_unfinished_sign_in_says_what_to_do(issuer: AuthorizationServer) -> None:
    auth = SignIn(store=TokenMemory(), on_redirect=len, timeout=0.1)
    with protected(issuer) as running, pytest.raises(AuthorizationError) as error:
        call(running.url, auth)
    assert f"minimcp logout {running.url}" in str(error.value)


@pytest.mark.parametrize(("offered", "wanted"), [
    (None, ["authorization_code", "refresh_token"]), (["authorization_code"], ["authorization_code"]),
    (["authorization_code", "refresh_token", "x"], ["authorization_code", "refresh_token"]),
    ([], ["authorization_code", "refresh_token"]), (["client_credentials"], ["authorization_code"]),
])  # fmt: skip
def test_a_registration_names_only_grants_that_the_server_offers(
    issuer: AuthorizationServer, offered: Any, wanted: List[str]
) -> None:
    issuer.more["grant_types_supported"] = offered
    with protected(issuer) as running:
        assert call(running.url, sign_in()[0]) == "ada"
    (registered,) = [each.values for each in issuer.asked if each.path == "/register"]
    assert registered["grant_types"] == wanted


# ------------------------------------------------------------ (b) discovery


class Site(AuthorizationServer):
    """A protected server and its authorization server at one origin, with documents of its own.

    Args:
        path: The path of the issuer.
    """

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.issuer = self.url + path
        self.more["issuer"] = self.issuer
        self.header: Optional[str] = None
        self.prm: Dict[str, Any] = {
            "resource": f"{self.url}/mcp",
            "authorization_servers": [self.issuer],
        }
        self.faults["/mcp"] = self._serve
        if path:
            self.faults[METADATA] = answers(404, {})
            for place in (METADATA + path, OPENID + path, path + OPENID):
                self.faults[place] = lambda handler: handler.answer(200, self.metadata)
        for place in (PROTECTED, f"{PROTECTED}/mcp"):
            self.faults[place] = lambda handler: handler.answer(200, self.prm)

    def _serve(self, handler: Any) -> None:
        challenge = "Bearer" if self.header is None else f'Bearer resource_metadata="{self.header}"'
        handler.answer(401, {}, **{"WWW-Authenticate": challenge})

    def asked_for(self, **options: Any) -> List[str]:
        """Sign in up to the token, and return the requested paths."""
        auth, browser = sign_in(**options)
        with pytest.raises(AuthorizationError, match="HTTP 401"):  # no server accepts this token
            minimcp.connect(f"{self.url}/mcp", auth=auth)
        assert browser.opened
        return [each.path for each in self.asked if "well-known" in each.path]


FAILURES: Dict[str, Callable[[Any], None]] = {
    **{str(status): answers(status, {"detail": "no"}) for status in (400, 401, 403, 404, 408, 410)},
    **{str(status): answers(status, b"<p>no", HTML) for status in (429, 500, 502, 503, 504)},
    "page": answers(200, b"<!DOCTYPE html><title>An app</title>", HTML),
    "nothing": answers(200, b""),
    "array": answers(200, [1]),
    "no content": answers(204, b""),
    "too long": answers(200, b'{"x": "' + b"x" * 70_000 + b'"}'),
    "redirect": answers(302, b"", Location="/"),
    "redirect elsewhere": answers(307, b"", Location="https://login.example.com/"),
    "reset": cuts,
    "another's": answers(
        200,
        {
            "issuer": "https://other.example.com",
            "resource": "https://other.example.com",
            "authorization_servers": ["https://other.example.com"],
        },
    ),
}


@requirement("M:AUTH-6", "AUTH-40", "AUTH-41", "M:AUTH-7")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("path", ["", "/tenant"])
def test_the_next_place_of_an_authorization_server_is_tried(path: str, failure: str) -> None:
    with Site(path) as site:
        places = [METADATA + path, OPENID + path, path + OPENID][: 3 if path else 2]
        site.faults[OPENID + path] = lambda handler: handler.answer(200, site.metadata)
        for place in places[:-1]:
            site.faults[place] = FAILURES[failure]
        assert site.asked_for()[1:] == places
        site.faults[places[-1]] = FAILURES[failure]
        with pytest.raises(AuthorizationError) as error:
            minimcp.connect(f"{site.url}/mcp", auth=sign_in()[0])
        assert all(f"{site.url}{place}: " in str(error.value) for place in places)


@requirement("M:AUTH-4", "AUTH-34", "M:AUTH-5")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("named", [True, False])
def test_the_next_place_of_a_resource_is_tried(
    failure: str, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with Site() as site:
        site.header = f"{site.url}/here" if named else None
        places = [*(["/here"] if named else []), f"{PROTECTED}/mcp", PROTECTED]
        for place in places[:-1]:
            site.faults[place] = FAILURES[failure]
        assert site.asked_for()[:-1] == [each for each in places if each != "/here"]
        warned = [each.getMessage() for each in caplog.records if "is ignored" in each.getMessage()]
        assert len(warned) == named and all("/here" in each for each in warned)
        if named:
            site.faults[PROTECTED] = FAILURES[failure]
            with pytest.raises(AuthorizationError) as error:
                minimcp.connect(f"{site.url}/mcp", auth=sign_in()[0])
            assert all(f"{site.url}{place}" in str(error.value) for place in places)


@requirement("AUTH-65")
@pytest.mark.parametrize("failure", FAILURES)
def test_only_a_server_without_metadata_is_its_own_authorization_server(failure: str) -> None:
    with Site() as site:
        for place in (f"{PROTECTED}/mcp", PROTECTED):
            site.faults[place] = FAILURES[failure]
        passing = failure in ("408", "429", "500", "502", "503", "504", "reset", "too long")
        if not passing and failure != "another's":
            assert METADATA in site.asked_for()
            return
        with pytest.raises(AuthorizationError, match="no resource metadata"):
            minimcp.connect(f"{site.url}/mcp", auth=sign_in()[0])
        assert not site.count(METADATA)


@pytest.mark.parametrize("place", [f"{PROTECTED}/mcp", METADATA])
def test_a_slow_document_is_not_waited_for(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    let = threading.Event()

    def hang(handler: Any) -> None:
        let.wait(WAIT)
        handler.answer(200, {})

    monkeypatch.setattr(discovery, "DOCUMENT_SECONDS", 0.2)
    with Site() as site:
        site.faults[place] = hang
        site.faults[OPENID] = lambda handler: handler.answer(200, site.metadata)
        try:
            assert place in site.asked_for()
        finally:
            let.set()


@requirement("M:AUTH-4", "AUTH-34", "M:AUTH-37")
@pytest.mark.parametrize("named", [
    "http://other.example.com/metadata", "http://169.254.169.254/latest", "file:///etc/passwd", "not a URL", "",
    "javascript:alert(1)", "https://h.example/#part", "https://h.example\\@127.0.0.1/", "https://me:secret@h.example/",
    "ftp://127.0.0.1/x", "//",
])  # fmt: skip
def test_a_place_that_is_not_allowed_is_ignored_and_not_asked(
    named: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: List[str] = []
    ask = discovery.Exchange.ask

    def noted(self: Any, method: str, url: str, *given: Any, **more: Any) -> Any:
        asked.append(url)
        return ask(self, method, url, *given, **more)

    monkeypatch.setattr(discovery.Exchange, "ask", noted)
    with Site() as site:
        site.header = named.replace("\\", "\\\\")
        assert site.asked_for()[0] == f"{PROTECTED}/mcp"
        assert {each.startswith(f"{site.url}/") for each in asked} == {True}
    assert len([each for each in caplog.records if "is ignored" in each.getMessage()]) == 1


@requirement("M:AUTH-4")
def test_metadata_at_another_origin_is_used_if_it_is_for_this_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Site() as site, AuthorizationServer() as other:
        site.header = f"{other.url}/prm"
        other.faults["/prm"] = lambda handler: handler.answer(200, site.prm)  # type: ignore[attr-defined]
        assert site.asked_for() == [METADATA]
        assert not caplog.records
        other.faults["/prm"] = answers(200, {**site.prm, "resource": f"{other.url}/mcp"})
        assert site.asked_for()[1:] == [f"{PROTECTED}/mcp", METADATA]
        assert [each for each in caplog.records if "is ignored" in each.getMessage()]


# ------------------------------------------------------------ issuers


@pytest.mark.parametrize(("one", "other", "same"), [
    ("https://h", "https://h", True), ("https://h/", "https://h", True), ("https://h", "https://h/", True),
    ("https://h/t", "https://h/t/", True), ("https://h//", "https://h", False), ("https://h//", "https://h/", False),
    ("https://H", "https://h", False), ("https://h:443", "https://h", False), ("http://h", "https://h", False),
    ("https://h/t", "https://h", False), ("https://h?", "https://h", False), ("https://h/%2f", "https://h/", False),
    ("https://h/t", "https://h/T", False), (None, "https://h", False), (["https://h"], "https://h", False), ("", "/", True),
])  # fmt: skip
@requirement("M:AUTH-7", "AUTH-48")
def test_issuers_differ_by_one_final_slash_at_most(one: Any, other: str, same: bool) -> None:
    assert same_issuer(one, other) is same


@requirement("M:AUTH-7", "M:AUTH-12", "M:AUTH-19")
@pytest.mark.parametrize("path", ["", "/tenant"])
@pytest.mark.parametrize("given", ["", "/", None])
@pytest.mark.parametrize("listed", ["", "/"])
@pytest.mark.parametrize("stated", ["", "/"])
def test_one_final_slash_may_differ_between_the_documents(
    path: str, listed: str, stated: str, given: Optional[str]
) -> None:
    store = Noted()
    with Site(path) as site:
        site.more["issuer"] = site.issuer + stated
        site.prm["authorization_servers"] = [site.issuer + listed]
        issuer = None if given is None else site.issuer + given
        site.asked_for(store=store, issuer=issuer)
        (known,) = [each for key, each in store.kept.items() if key.startswith("token ")]
        assert known["issuer"] == site.issuer + stated  # byte for byte
        assert f"client {site.issuer}" in store.kept
        before = site.count("/register")
        site.prm["authorization_servers"] = [site.issuer + ("" if listed else "/")]
        site.refresh.clear()
        site.asked_for(store=store, issuer=issuer)
        assert site.count("/register") == before  # still the same authorization server


@pytest.mark.parametrize("change", ["//", "/x", "?"])
def test_any_other_difference_is_another_issuer(change: str) -> None:
    with Site() as site:
        site.more["issuer"] = site.issuer + change
        with pytest.raises(AuthorizationError, match="names the issuer"):
            minimcp.connect(f"{site.url}/mcp", auth=sign_in()[0])
        assert not site.count("/register") + site.count("/authorize") + site.count("/token")


# ------------------------------------------------------------ secrets are sent only to their issuer


SECRETS: Dict[str, Callable[..., Any]] = {
    "secret": lambda **more: ClientCredentials("robot", "a robot's secret", **more),
    "key": lambda **more: ClientCredentials("robot", private_key="PEM", **more),
    "assertion": lambda **more: WorkloadIdentity("a JWT", "robot", **more),
    "id token": lambda **more: EnterpriseManaged(
        "robot",
        id_token="an id token",
        idp_token_endpoint="https://idp.example.com/token",
        idp_client_id="me",
        **more,
    ),
    "person": lambda **more: SignIn(
        store=TokenMemory(), client_id="robot", client_secret="a robot's secret", **more
    ),
}


@requirement("M:AUTH-19", "M:AUTH-20")
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_needs_its_issuer(kind: str) -> None:
    with pytest.raises(ValueError, match="issuer="):
        SECRETS[kind]()
    with pytest.raises(ValueError, match="https"):
        SECRETS[kind](issuer="http://login.example.com")
    with pytest.raises(TypeError):
        SECRETS[kind](issuer=5)
    SECRETS[kind](issuer="https://login.example.com")


def test_a_public_client_id_needs_no_issuer() -> None:
    SignIn(store=TokenMemory())
    SignIn(store=TokenMemory(), client_id="public")
    with pytest.raises(ValueError, match="client_id="):
        SignIn(store=TokenMemory(), client_secret="x", issuer="https://login.example.com")


@pytest.mark.parametrize("kind", ["secret", "assertion", "person"])
@pytest.mark.parametrize("has_metadata", [True, False])
def test_a_server_that_names_itself_gets_no_secret(kind: str, has_metadata: bool) -> None:
    with Site() as site, AuthorizationServer() as own:
        if not has_metadata:  # then a server is its own authorization server
            for place in (PROTECTED, f"{PROTECTED}/mcp"):
                site.faults[place] = answers(404, {})
        with pytest.raises(AuthorizationError, match="the credentials are for"):
            minimcp.connect(f"{site.url}/mcp", auth=SECRETS[kind](issuer=own.url))
        assert not site.count("/token") + site.count("/authorize") + own.count("/token")


@pytest.mark.parametrize(
    "url", ["http://plain.example/mcp", "HTTP://192.0.2.1/mcp", "http://me:pw@plain.example/"]
)
@pytest.mark.parametrize("kind", SECRETS)
def test_no_token_is_sent_in_the_clear(kind: str, url: str) -> None:
    with pytest.raises(ValueError, match="https") as error:
        minimcp.connect(url, auth=SECRETS[kind](issuer="https://login.example.com"))
    assert "pw" not in str(error.value)


@pytest.mark.parametrize("url", [
    "https://h/a/../client.json", "https://h/./c", "https://h/%2E%2e/c", "https://h/a/.%2e", "https://me@h/c", "https://h/c#",
])  # fmt: skip
def test_a_metadata_url_that_is_not_allowed_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError):
        SignIn(store=TokenMemory(), client_metadata_url=url)
    for good in ("https://h/c", "https://h/a..b/c.json", "https://h:8443/...", "https://h/c?x=1"):
        SignIn(store=TokenMemory(), client_metadata_url=good)


@requirement("M:AUTH-36")
@pytest.mark.parametrize("act", ["code", "refresh", "revoke", "client_credentials"])
def test_the_client_id_is_in_the_form_as_well(issuer: AuthorizationServer, act: str) -> None:
    """Servers that use the official Python SDK require this."""
    issuer.more["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    given: Any = {"client_id": "robot", "client_secret": "a robot's secret", "issuer": issuer.url}
    with protected(issuer) as running:
        auth: Any = sign_in(**given)[0]
        if act == "client_credentials":
            auth = ClientCredentials("robot", "a robot's secret", issuer=issuer.url)
        assert call(running.url, auth) in ("ada", "robot")
        issuer.tokens.clear()
        assert call(running.url, auth) in ("ada", "robot")
        if act == "revoke":
            assert auth.sign_out(running.url)
    sent = [each for each in issuer.asked if each.path in ("/token", "/revoke")]
    assert {each.values["client_id"] for each in sent} == {"robot"}
    assert all(each.headers["Authorization"].startswith("Basic ") for each in sent)


@pytest.mark.parametrize("failure", FAILURES)
def test_each_place_of_a_server_that_issues_tokens_itself(failure: str) -> None:
    """Servers without resource metadata: a place that fails hides no other."""
    with Site() as site:
        for each in (PROTECTED, f"{PROTECTED}/mcp"):
            site.faults[each] = answers(404, {})
        site.faults[METADATA] = FAILURES[failure]
        site.faults[OPENID] = lambda handler: handler.answer(200, site.metadata)
        assert OPENID in site.asked_for()


def test_a_server_that_issues_tokens_itself_lists_each_reason() -> None:
    with Site() as site:
        for each in (PROTECTED, f"{PROTECTED}/mcp"):
            site.faults[each] = answers(404, {})
        site.faults[METADATA] = answers(502, b"<html>", HTML)
        site.faults[OPENID] = answers(200, {"issuer": "https://other.example"})
        with pytest.raises(AuthorizationError, match="HTTP 502.*https://other.example"):
            minimcp.connect(f"{site.url}/mcp", auth=sign_in()[0])


def test_a_new_token_that_the_server_rejects_ends_no_later_sign_in(
    issuer: AuthorizationServer,
) -> None:
    with protected(issuer) as running:
        auth = sign_in()[0]
        issuer.faults["/token"] = answers(200, {"access_token": "unknown", "token_type": "Bearer"})
        with pytest.raises(AuthorizationError, match="HTTP 401"):
            call(running.url, auth)
        del issuer.faults["/token"]
        assert call(running.url, auth) == "ada"
