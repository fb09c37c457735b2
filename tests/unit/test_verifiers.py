"""Verification of tokens for a `Bearer`: signatures with a key set, and introspection."""

from __future__ import annotations

import base64
import http.server
import json
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Optional
from urllib.parse import parse_qs

import jwt
import pytest

from minimcp import Bearer
from minimcp.auth import verifiers
from minimcp.auth.bearer import AccessToken
from minimcp.http.headers import Headers, HttpError

from ..scripted import Task
from ..support import WAIT

assert jwt.algorithms.has_crypto, "minimcp[test] asks for PyJWT[crypto]"

RESOURCE = "https://mcp.example.com/mcp"


class Issuer:
    """An issuer over HTTP that follows a test, and records its requests."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: List[str] = []
        self.keys: Dict[str, Any] = {}
        self.status = 200
        self.tokens: Dict[str, Any] = {}
        self.authorization = ""

    def answer(self, path: str, body: bytes, headers: Any) -> Any:
        self.asked.append(path)
        if path == "/.well-known/oauth-authorization-server":
            return {"issuer": self.url, "jwks_uri": self.url + "/keys"}
        if path == "/keys":
            return {"keys": [{"kid": kid, **public(key)} for kid, key in self.keys.items()]}
        self.authorization = headers["Authorization"]
        return self.tokens.get(parse_qs(body.decode())["token"][0], {"active": False})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            said = json.dumps(made.answer(self.path, body, self.headers)).encode()
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Issuer(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        server.shutdown()
        thread.join()


def rsa() -> Any:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    return generate_private_key(65537, 2048)


def elliptic() -> Any:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    return generate_private_key(SECP256R1())


def public(key: Any) -> Dict[str, Any]:
    kind = jwt.algorithms.ECAlgorithm if hasattr(key, "curve") else jwt.algorithms.RSAAlgorithm
    return dict(kind.to_jwk(key.public_key(), as_dict=True))


@pytest.fixture(scope="module")
def key() -> Any:
    return elliptic()


@pytest.fixture
def clock(monkeypatch: Any) -> List[float]:
    """The time by which keys are kept; a test moves it."""
    now = [1000.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(verifiers, "time", Clock)
    return now


def signed(
    key: Any, issuer: str, kid: Optional[str] = "a", algorithm: str = "ES256", **claims: Any
) -> str:
    given = {"iss": issuer, "aud": RESOURCE, "sub": "ada", "exp": time.time() + 60, **claims}
    given = {name: value for name, value in given.items() if value is not None}
    return str(jwt.encode(given, key, algorithm, headers={"kid": kid} if kid else {}))


def admit(bearer: Bearer, token: str) -> AccessToken:
    return bearer.authenticate(Headers({"Authorization": f"Bearer {token}"}))


def status_of(bearer: Bearer, token: str) -> int:
    with pytest.raises(HttpError) as caught:
        admit(bearer, token)
    return caught.value.status


def test_the_keys_are_found_from_the_issuer(issuer: Issuer, key: Any) -> None:
    issuer.keys["a"] = key
    bearer = Bearer.jwt(issuer.url, resource=RESOURCE, scopes=["read"])
    for _ in range(3):
        found = admit(bearer, signed(key, issuer.url, scope="read", client_id="app"))
    assert (found.subject, found.client_id, found.issuer) == ("ada", "app", issuer.url)
    assert issuer.asked == ["/.well-known/oauth-authorization-server", "/keys"]
    assert status_of(bearer, signed(key, issuer.url, scope="write")) == 403


@pytest.mark.requirement("AUTH-03", "AUTH-06", "M:AUTH-28", "M:AUTH-29")
def test_rejected_tokens(issuer: Issuer, key: Any) -> None:
    issuer.keys["a"] = key
    bearer = Bearer.jwt(issuer.url, keys=issuer.url + "/keys", resource=RESOURCE)
    good = signed(key, issuer.url)
    assert admit(bearer, good).subject == "ada"
    assert admit(bearer, signed(key, issuer.url, kid=None)).subject == "ada"
    head, claims, signature = good.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    secret = public(key)["x"].ljust(64).encode()  # public data must not count as a secret key
    refused = [
        signed(elliptic(), issuer.url), signed(key, "https://other.example"), signed(key, issuer.url, iss=None),
        signed(key, issuer.url, aud="https://other.example"), signed(key, issuer.url, aud=None),
        signed(key, issuer.url, exp=1), signed(key, issuer.url, exp=None),
        f"{none}.{claims}.", f"{head}.{claims}.", f"{head}.{claims}x.{signature}", "not-a-jwt", "a.b.c",
        signed(secret, issuer.url, algorithm="HS256"), signed(key, issuer.url, nbf=time.time() + 600),
    ]  # fmt: skip
    assert [status_of(bearer, each) for each in refused] == [401] * len(refused)


@pytest.mark.requirement("AUTH-06")
@pytest.mark.parametrize(
    ("accepted", "fits", "refused"),
    [
        (
            None,
            ["at+jwt", "AT+JWT", "application/at+jwt", "Application/AT+jwt", "JWT", "jwt", "application/jwt", None],
            ["id+jwt", "logout+jwt", "dpop+jwt", "at+jw", "x/at+jwt", "application/application/jwt", "JWT ", "jwt\n", "é"],
        ),
        ("at+jwt", ["at+jwt", "application/AT+JWT"], ["JWT", None, "id+jwt"]),
        (["application/at+jwt"], ["at+jwt"], ["JWT", None]),
        (("JWT",), ["JWT", None], ["at+jwt"]),
        ("logout+jwt", ["logout+jwt"], ["JWT", "at+jwt", None]),
    ],
)  # fmt: skip
def test_the_type_of_a_token(
    accepted: Any, fits: Any, refused: Any, key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    issuer, options = "https://login.example.com", {} if accepted is None else {"typ": accepted}
    document = {"keys": [{"kid": "a", **public(key)}]}
    bearer = Bearer.jwt(issuer, keys=document, resource=RESOURCE, **options)

    def token(typ: Optional[str]) -> str:
        claims = {"iss": issuer, "aud": RESOURCE, "sub": "ada", "exp": time.time() + 60}
        return str(jwt.encode(claims, key, "ES256", headers={"kid": "a", "typ": typ}))

    for typ in fits:
        assert admit(bearer, token(typ)).subject == "ada", typ
    caplog.set_level("INFO", "minimcp.auth")
    for typ in refused:
        caplog.clear()
        with pytest.raises(HttpError) as caught:
            admit(bearer, token(typ))
        ((_, challenge),) = caught.value.headers
        assert caught.value.status == 401 and 'error="invalid_token"' in challenge
        assert "the token type is not one of" in challenge and challenge.isascii()
        assert "Bearer.jwt(typ=...) accepts" in caplog.text
        assert "\n" not in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    "typ", [5, [], "", "a b", ["JWT", 5], ["JWT", ""], None, 'a"b', {"JWT": 1}]
)
def test_an_invalid_type_is_rejected(typ: Any, key: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="typ"):
        Bearer.jwt("https://x.example", keys={"keys": [public(key)]}, resource=RESOURCE, typ=typ)


def test_a_key_is_used_only_for_its_purpose(issuer: Issuer, key: Any) -> None:
    other, document = rsa(), {"keys": [{"kid": "a", "use": "enc", **public(key)}]}
    bearer = Bearer.jwt(issuer.url, keys=document, resource=RESOURCE)
    assert status_of(bearer, signed(key, issuer.url)) == 401
    document = {
        "keys": [
            {"kid": "a", "alg": "RS512", **public(other)},
            {"kty": "odd"},
            5,
            {"kid": "a", **public(key)},
        ]
    }
    bearer = Bearer.jwt(issuer.url, keys=document, resource=RESOURCE)
    assert admit(bearer, signed(key, issuer.url)).subject == "ada"
    assert admit(bearer, signed(other, issuer.url, algorithm="RS512")).subject == "ada"
    assert status_of(bearer, signed(other, issuer.url, algorithm="RS256")) == 401
    narrow = Bearer.jwt(issuer.url, keys=document, resource=RESOURCE, algorithms=["RS512"])
    assert status_of(narrow, signed(key, issuer.url)) == 401
    assert issuer.asked == []


def test_keys_are_asked_for_again_and_not_too_often(
    issuer: Issuer, key: Any, clock: List[float], caplog: Any
) -> None:
    issuer.keys["a"] = key
    bearer = Bearer.jwt(issuer.url, keys=issuer.url + "/keys", resource=RESOURCE)
    assert admit(bearer, signed(key, issuer.url)).subject == "ada"
    newer = elliptic()
    issuer.keys["b"] = newer
    assert (
        status_of(bearer, signed(newer, issuer.url, "b")) == 401
    )  # it was asked less than 10 seconds ago
    assert len(issuer.asked) == 1
    clock[0] += 11
    assert admit(bearer, signed(newer, issuer.url, "b")).subject == "ada"
    assert admit(bearer, signed(key, issuer.url)).subject == "ada"
    assert len(issuer.asked) == 2
    clock[0] += 301
    del issuer.keys["a"]  # it was leaked
    assert status_of(bearer, signed(key, issuer.url)) == 401
    clock[0] += 301
    issuer.status = 500
    assert admit(bearer, signed(newer, issuer.url, "b")).subject == "ada"
    assert "the keys of http://127.0.0.1" in caplog.text
    clock[0] += 11
    issuer.keys, issuer.status = {}, 200
    assert admit(bearer, signed(newer, issuer.url, "b")).subject == "ada"


def test_many_threads_cause_one_request_for_keys(issuer: Issuer, key: Any) -> None:
    issuer.keys["a"] = key
    bearer = Bearer.jwt(issuer.url, keys=issuer.url + "/keys", resource=RESOURCE)
    token = signed(key, issuer.url)
    for each in [Task(admit, bearer, token) for _ in range(16)]:
        each.result()
    assert issuer.asked == ["/keys"]


def test_missing_keys_are_a_server_error(issuer: Issuer, key: Any, caplog: Any) -> None:
    bearer = Bearer.jwt(issuer.url, keys=issuer.url + "/keys", resource=RESOURCE)
    token = signed(key, issuer.url)
    assert status_of(bearer, token) == 500
    assert "has no usable key" in caplog.text and token not in caplog.text


def outcome(bearer: Bearer, token: str) -> Any:
    try:
        return admit(bearer, token).subject
    except HttpError as error:
        return (error.status, dict(error.headers).get("Retry-After"))


BUSY = (503, "1")


@pytest.fixture(params=["jwt", "introspection"])
def kind(request: Any) -> str:
    return str(request.param)


def bearer_of(issuer: Issuer, kind: str) -> Bearer:
    if kind == "jwt":
        return Bearer.jwt(issuer.url, keys=issuer.url + "/keys", resource=RESOURCE)
    return Bearer.introspection(
        issuer.url + "/introspect",
        "app",
        "s3cret",
        resource=RESOURCE,
        authorization_servers=[issuer.url],
    )


def test_a_failing_issuer_is_asked_once_a_second(
    issuer: Issuer, kind: str, key: Any, clock: List[float], caplog: Any
) -> None:
    bearer = bearer_of(issuer, kind)
    issuer.keys["a"] = key
    tokens = [signed(key, issuer.url, kid=f"k{number}") for number in range(50)]
    issuer.status = 503
    assert [outcome(bearer, token) for token in tokens] == [BUSY] * 50
    assert len(issuer.asked) == 1
    assert len([each for each in caplog.records if each.levelname == "ERROR"]) == 1
    for count in (2, 3):
        clock[0] += 0.6
        assert outcome(bearer, tokens[0]) == BUSY
        assert len(issuer.asked) == count - 1
        clock[0] += 0.5
        assert [outcome(bearer, token) for token in tokens] == [BUSY] * 50
        assert len(issuer.asked) == count
    issuer.status = 200
    good = signed(key, issuer.url)
    issuer.tokens[good] = {"active": True, "sub": "ada", "aud": RESOURCE}
    assert outcome(bearer, good) == BUSY
    clock[0] += 1.1
    assert outcome(bearer, good) == "ada"
    assert outcome(bearer, tokens[0]) == (401, None)


def test_no_request_waits_for_a_failing_issuer(
    issuer: Issuer, kind: str, key: Any, clock: List[float]
) -> None:
    bearer = bearer_of(issuer, kind)
    issuer.keys["a"] = key
    token = signed(key, issuer.url)
    issuer.tokens[token] = {"active": True, "sub": "ada", "aud": RESOURCE}
    issuer.status = 503
    assert outcome(bearer, token) == BUSY
    issuer.status = 200
    clock[0] += 1.1
    came, go = threading.Event(), threading.Event()
    answer = issuer.answer

    def held(path: str, body: bytes, headers: Any) -> Any:
        came.set()
        assert go.wait(WAIT)
        return answer(path, body, headers)

    issuer.answer = held  # type: ignore[method-assign]
    asking = Task(outcome, bearer, token)
    assert came.wait(WAIT)
    assert [outcome(bearer, token) for _ in range(20)] == [BUSY] * 20
    go.set()
    assert asking.result() == "ada"
    assert outcome(bearer, token) == "ada"


@pytest.mark.parametrize("fails", [False, True])
def test_at_a_cold_start_requests_wait_for_the_first_attempt(
    fails: bool, issuer: Issuer, key: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(verifiers, "WAIT_SECONDS", WAIT)
    bearer = bearer_of(issuer, "jwt")
    issuer.keys["a"] = key
    token = signed(key, issuer.url)
    came, go = threading.Event(), threading.Event()
    answer = issuer.answer

    def held(path: str, body: bytes, headers: Any) -> Any:
        came.set()
        assert go.wait(WAIT)
        issuer.status = 503 if fails else 200
        return answer(path, body, headers)

    issuer.answer = held  # type: ignore[method-assign]
    asking = [Task(outcome, bearer, token) for _ in range(8)]
    assert came.wait(WAIT)
    go.set()
    assert [each.result() for each in asking] == [BUSY if fails else "ada"] * 8
    assert issuer.asked == ["/keys"]


def test_the_wait_for_the_first_attempt_is_bounded(
    issuer: Issuer, key: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(verifiers, "WAIT_SECONDS", 0.05)
    bearer = bearer_of(issuer, "jwt")
    issuer.keys["a"] = key
    token = signed(key, issuer.url)
    came, go = threading.Event(), threading.Event()
    answer = issuer.answer

    def held(path: str, body: bytes, headers: Any) -> Any:
        came.set()
        assert go.wait(WAIT)
        return answer(path, body, headers)

    issuer.answer = held  # type: ignore[method-assign]
    asking = Task(outcome, bearer, token)
    assert came.wait(WAIT)
    assert outcome(bearer, token) == BUSY
    go.set()
    assert asking.result() == "ada"


def test_a_refusal_of_one_token_does_not_affect_the_others(issuer: Issuer) -> None:
    """An issuer may reject a token that cannot be its own."""
    bearer = bearer_of(issuer, "introspection")
    issuer.tokens["t-1"] = {"active": True, "sub": "ada", "aud": RESOURCE}
    issuer.status = 400
    assert outcome(bearer, "t-2")[0] == 500
    issuer.status = 200
    assert outcome(bearer, "t-1") == "ada"


def test_earlier_keys_are_used_while_the_issuer_is_requested(
    issuer: Issuer, key: Any, clock: List[float]
) -> None:
    bearer = bearer_of(issuer, "jwt")
    issuer.keys["a"] = key
    token = signed(key, issuer.url)
    assert outcome(bearer, token) == "ada"
    clock[0] += 301
    issuer.status = 503
    assert outcome(bearer, token) == "ada"
    assert outcome(bearer, signed(elliptic(), issuer.url, kid="new")) == BUSY
    assert outcome(bearer, token) == "ada"
    assert len(issuer.asked) == 2


@pytest.mark.parametrize(
    "cnf", [{"jkt": "x"}, {"x5t#S256": "x"}, {"kid": "x"}, {"jwk": {}}, {}, "odd", []]
)
def test_a_token_bound_to_a_key_is_not_a_bearer_token(issuer: Issuer, key: Any, cnf: Any) -> None:
    issuer.keys["a"] = key
    token = signed(key, issuer.url, cnf=cnf)
    issuer.tokens[token] = {"active": True, "sub": "ada", "aud": RESOURCE, "cnf": cnf}
    own = Bearer(lambda token: {"sub": "ada", "aud": RESOURCE, "cnf": cnf}, audience=RESOURCE)
    for bearer in (bearer_of(issuer, "jwt"), bearer_of(issuer, "introspection"), own):
        with pytest.raises(HttpError, match="bound to a key") as caught:
            admit(bearer, token)
        assert caught.value.status == 401
        assert "invalid_token" in dict(caught.value.headers)["WWW-Authenticate"]


def test_a_token_is_introspected_each_time(issuer: Issuer) -> None:
    bearer = Bearer.introspection(
        issuer.url + "/introspect",
        "mcp server",
        "s:cret",
        resource=RESOURCE,
        authorization_servers=[issuer.url],
    )
    issuer.tokens["t-1"] = {
        "active": True,
        "sub": "ada",
        "aud": [RESOURCE],
        "scope": "read",
        "exp": time.time() + 60,
    }
    issuer.tokens["t-2"] = {"active": "true", "sub": "ada", "aud": [RESOURCE]}
    issuer.tokens["t-3"] = {"active": True, "sub": "ada"}
    assert admit(bearer, "t-1").scopes == {"read"}
    assert base64.b64decode(issuer.authorization.split(" ")[1]) == b"mcp+server:s%3Acret"
    assert [status_of(bearer, token) for token in ("t-2", "t-3", "t-4")] == [401, 401, 401]
    issuer.tokens["t-1"]["active"] = False
    assert status_of(bearer, "t-1") == 401


def test_no_token_is_accepted_while_the_endpoint_fails(issuer: Issuer, caplog: Any) -> None:
    bearer = Bearer.introspection(
        issuer.url + "/introspect",
        "app",
        "s3cret",
        resource=RESOURCE,
        authorization_servers=[issuer.url],
    )
    issuer.tokens["t-1"] = {"active": True, "sub": "ada", "aud": RESOURCE}
    issuer.status = 401
    assert status_of(bearer, "t-1") == 500
    assert "HTTP 401" in caplog.text and "s3cret" not in caplog.text


@pytest.mark.parametrize(("options", "problem"), [
    ({"algorithms": ["HS256"]}, "HS256"), ({"algorithms": ["none"]}, "none"), ({"algorithms": "RS256"}, "algorithms"),
    ({"keys": "http://as.example.com/keys"}, "https"),
])  # fmt: skip
def test_invalid_options_are_rejected(options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Bearer.jwt("https://as.example.com", resource=RESOURCE, **options)
    with pytest.raises(ValueError, match="https"):
        Bearer.introspection("http://as.example.com/introspect", "a", "b", resource=RESOURCE)


def test_the_error_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ImportError, match=r"PyJWT\[crypto\]"):
        Bearer.jwt("https://as.example.com", resource=RESOURCE)
