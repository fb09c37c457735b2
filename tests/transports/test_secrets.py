"""Credentials of a client: they are cleaned, sent to one origin only, and never shown."""

from __future__ import annotations

import base64
import html
import inspect
import json
import logging
import re
import socket
import time
import traceback
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple
from urllib.parse import quote

import pytest
import requests

import minimcp
from minimcp import ConnectionFailed, HttpServer, TokenMemory
from minimcp.auth.discovery import Exchange
from minimcp.cli import main
from minimcp.http.fetch import AbortableRequest, Fetcher, mask
from minimcp.http.headers import Headers

from ..authorization_server import METADATA, AuthorizationServer, protected
from ..interaction.test_authorization import call, sign_in
from ..support import WAIT, each_pair
from ..web import Heard, Peer, Wire

TOKEN = "s3cr3t-token"
AROUND = ["{}\n", "{}\r\n", "\n{}", " {} ", "\t{}\n\n"]
WITHIN = ["{}\nX: y", "{}\r\nX: y", "{}\n y", "{}\0x", "{}\u20acx", "{}\rx"]


class Key(requests.auth.AuthBase):
    """Sets a given header."""

    def __init__(self, value: str, name: str = "Authorization") -> None:
        self.value, self.name = value, name

    def __call__(self, request: Any) -> Any:
        request.headers[self.name] = self.value
        return request


class Preparing(Key):
    """Has the package check the header, which repeats it when it rejects it."""

    def __call__(self, request: Any) -> Any:
        request.prepare_headers({**request.headers, self.name: self.value})
        return request


WAYS: Dict[str, Callable[[str], Dict[str, Any]]] = {
    "token": lambda token: {"auth": token},
    "callable": lambda token: {"auth": lambda: token},
    "header": lambda token: {"headers": {"X-Api-Key": token}},
    "authorization": lambda token: {"headers": {"authorization": f"Bearer {token}"}},
    "cookie": lambda token: {"headers": {"Cookie": f"session={token}"}},
    "AuthBase": lambda token: {"auth": Key(f"Bearer {token}")},
    "AuthBase, another header": lambda token: {"auth": Key(token, "X-Api-Key")},
    "AuthBase, checked": lambda token: {"auth": Preparing(f"Bearer {token}")},
}


class Told:
    """Everything that others can see: exceptions with their causes, log records, the trace."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self._caplog = caplog
        self.traced: List[str] = []

    def trace(self, way: str, line: bytes) -> None:
        self.traced.append(repr(line))

    def of(self, *errors: BaseException) -> str:
        shown = ["".join(traceback.format_exception(type(each), each, each.__traceback__))
                 for each in errors]  # fmt: skip
        causes: List[Any] = list(errors)
        for each in causes:
            causes += filter(None, [each.__cause__])
            shown += [repr(each), str(vars(each)), str(each.args)]
        return "\n".join([*shown, self._caplog.text, *self.traced])


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Told:
    return Told(caplog)


@pytest.mark.parametrize(("way", "around"), [
    *[(way, around) for way in ("token", "callable", "header") for around in AROUND],
    *[(way, around) for way in ("authorization", "cookie") for around in ("{}\n", "{}\r\n", "{} ")],
])  # fmt: skip
def test_line_ends_around_a_secret_are_dropped(way: str, around: str) -> None:
    with Peer() as peer:
        minimcp.connect(peer.url, timeout=WAIT, **WAYS[way](around.format(TOKEN))).close()
        heads = [heard.headers for heard in peer.heard]
    name = {"header": "x-api-key", "cookie": "cookie"}.get(way, "authorization")
    value = {"header": TOKEN, "cookie": f"session={TOKEN}"}.get(way, f"Bearer {TOKEN}")
    assert {head[name] for head in heads} == {value}


@pytest.mark.parametrize("inside", WITHIN)
@pytest.mark.parametrize("way", WAYS)
def test_a_secret_that_cannot_be_sent_is_not_shown(way: str, inside: str, told: Told) -> None:
    with Peer() as peer:
        with pytest.raises(minimcp.McpError) as error:
            minimcp.connect(
                peer.url, timeout=WAIT, trace=told.trace, **WAYS[way](inside.format(TOKEN))
            )
        assert not peer.heard
    assert TOKEN not in told.of(error.value)
    assert "line end" in str(error.value) or "InvalidHeader" in str(error.value)


@pytest.mark.parametrize("option", ["--token", "--header", "--proxy"])
@pytest.mark.parametrize("inside", [*WITHIN, "{}\n"])
def test_the_command_line_shows_no_secret(
    option: str, inside: str, capfd: "pytest.CaptureFixture[str]"
) -> None:
    given = inside.format(TOKEN)
    values = [given, f"X-Api-Key: {given}", f"Authorization Bearer {given}"]
    if option == "--proxy":  # only the password is secret
        values = [f"http://me:{given}@127.0.0.1:9", f"me:{given}@127.0.0.1"]
    for value in values:
        with Peer() as peer, suppress(SystemExit):
            main(["ping", peer.url, option, value])
    shown = capfd.readouterr()
    assert TOKEN not in shown.out + shown.err


@pytest.mark.parametrize("given", ["Bearer {}", "bearer {}", "BEARER\t{}", " Bearer  {}\n"])
@pytest.mark.parametrize("way", ["token", "callable"])
def test_one_bearer_is_sent(given: str, way: str) -> None:
    with Peer() as peer:
        minimcp.connect(peer.url, timeout=WAIT, **WAYS[way](given.format(TOKEN))).close()
        assert {heard.headers["authorization"] for heard in peer.heard} == {f"Bearer {TOKEN}"}
    with Peer() as peer:
        minimcp.connect(peer.url, timeout=WAIT, **WAYS[way]("Bearerish")).close()
        assert {heard.headers["authorization"] for heard in peer.heard} == {"Bearer Bearerish"}


@pytest.mark.parametrize("way", ["token", "callable", "header", "authorization", "userinfo", None])
@pytest.mark.parametrize("host", ["plain.test", "127.0.0.1", "localhost"])
def test_a_token_in_the_clear_is_sent_with_one_warning(
    way: Optional[str], host: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = WAYS[way](TOKEN) if way in WAYS else {}
    with Peer() as peer:
        monkeypatch.setattr(
            socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("127.0.0.1", peer.port))]
        )
        name = f"me:{TOKEN}@{host}" if way == "userinfo" else host
        minimcp.connect(f"http://{name}:{peer.port}/mcp", timeout=WAIT, **given).close()
        sent = [heard.headers for heard in peer.heard]
    assert all("x-api-key" in each or "authorization" in each for each in sent) is (way is not None)
    warned = [each.getMessage() for each in caplog.records if "over http" in each.getMessage()]
    assert len(warned) == (1 if host == "plain.test" and way is not None else 0)
    assert TOKEN not in "".join(warned)


@pytest.mark.parametrize("auth", ["", " \n", "Bearer", "Bearer \n"])
def test_an_empty_token_is_an_error(auth: str) -> None:
    with Peer() as peer:
        for given in (auth, lambda: auth):
            with pytest.raises(minimcp.McpError, match="empty"):
                minimcp.connect(peer.url, auth=given)
        assert not peer.heard


def test_a_token_takes_the_place_of_a_header() -> None:
    with Peer() as peer:
        minimcp.connect(
            peer.url, timeout=WAIT, auth=TOKEN, headers={"authorization": "Bearer another"}
        ).close()
        heads = [heard.headers["authorization"] for heard in peer.heard]
    assert set(heads) == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(("more", "kind"), [
    ({"headers": {"X": 5}}, TypeError), ({"headers": {"X": b"v"}}, TypeError), ({"headers": {"a b": TOKEN}}, ConnectionFailed),
    ({"headers": {f"Authorization: {TOKEN}": ""}}, ConnectionFailed), ({"headers": {"": TOKEN}}, ConnectionFailed),
    ({"auth": TOKEN.encode()}, TypeError), ({"auth": ("user", TOKEN)}, TypeError), ({"auth": {"token": TOKEN}}, TypeError),
])  # fmt: skip
def test_settings_of_another_kind_are_refused_without_their_values(
    more: Any, kind: Any, told: Told
) -> None:
    with pytest.raises(kind) as error:
        minimcp.connect("http://127.0.0.1:1/mcp", **more)
    assert TOKEN not in told.of(error.value)


@pytest.mark.parametrize("proxy", [
    "http://me:{}@proxy.example:port", "http://me:{}@", "://me:{}@x", "http://me:{}@a b:1", "http://me:{}@[::1", "me:{}@",
    "http://me:{}\n@proxy.example:1", "socks9://me:{}@127.0.0.1:1", "http://me:{}@127.0.0.1:1", "me:{}@127.0.0.1:1",
])  # fmt: skip
@pytest.mark.parametrize("where", ["argument", "environment"])
def test_a_proxy_that_cannot_be_used_is_not_shown(
    proxy: str, where: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, given = proxy.format(TOKEN), {}
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if where == "argument":
        given = {"proxies": {"http": value}}
    elif "\n" not in value:
        monkeypatch.setenv("http_proxy", value)
    with pytest.raises((ValueError, minimcp.McpError)) as error:
        minimcp.connect("http://server.invalid/mcp", connect_timeout=WAIT, **given)
    assert TOKEN not in told.of(error.value)


@pytest.mark.parametrize("url", [
    "https://me:{}@h.example\n/mcp", "https://h x/mcp?key={}", "http://me:{}@h.example:99999/", "https://me:{}@/x", "https://h\\x?{}",
    "http://127.0.0.1:1/mcp?key={}", "http://me:{}@127.0.0.1:1/mcp", "http://me:a/{}@h/", "http://me:a#{}@h/",
])  # fmt: skip
@pytest.mark.parametrize("auth", [None, Key("x")])
def test_a_url_is_shown_without_its_secrets(url: str, auth: Any, told: Told) -> None:
    with pytest.raises((ValueError, minimcp.McpError)) as error:
        minimcp.connect(url.format(TOKEN), auth=auth, connect_timeout=WAIT)
    assert TOKEN not in told.of(error.value)
    with suppress(ValueError):
        assert TOKEN not in repr(HttpServer(url.format(TOKEN)))


# ------------------------------------------------------------ secrets that the server repeats


FORMS: Dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in JSON": lambda text: json.dumps(text)[1:-1],
    "in JSON of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "in a URL": lambda text: quote(text, safe=""),
    "in HTML": html.escape,
}


def repeating(status: int, kind: str, form: Callable[[str], str]) -> Callable[[Heard, Wire], None]:
    """A server that repeats every header; as a JSON-RPC error where that fits."""

    def say(heard: Heard, wire: Wire) -> None:
        told = form(" ".join(heard.headers.values()))
        if kind == "application/json" and status != 401:
            error = {"code": -32000, "message": "you sent: ", "data": ""}
            body = json.dumps({"jsonrpc": "2.0", "id": wire.id, "error": error})
            escaped = told if "\\" in told else json.dumps(told)[1:-1]
            body = body.replace("you sent: ", f"you sent: {escaped}")
        else:
            body = f"you sent: {told}"
        authenticate = quote(told) if not told.isascii() else told.replace("\n", "")
        wire.whole(
            status, body.encode("utf-8"), kind, WWW_Authenticate=f'Bearer realm="{authenticate}"'
        )

    return say


REPEATS = [
    (401, "text/plain"), (403, "text/html"), (400, "application/json"), (500, "text/plain"), (429, "text/plain"),
    (200, "application/json"), (200, "text/plain"), (404, "text/plain"), (302, "text/plain"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "way", "form"),
    each_pair(
        REPEATS, ["token", "callable", "header", "authorization", "cookie", "AuthBase"], [*FORMS]
    ),
)
def test_secrets_that_a_server_repeats_are_masked(
    reply: Tuple[int, str], way: str, form: str, told: Told
) -> None:
    status, kind = reply
    say = repeating(status, kind, FORMS[form])
    with Peer({"tools/call": say, "notifications/cancelled": say}) as peer:
        given = WAYS[way]("s3cr3t/+&\"'-token" if way != "cookie" else "s3cr3t/+&'-token")
        with minimcp.connect(peer.url, timeout=WAIT, trace=told.trace, **given) as client:
            with pytest.raises(minimcp.McpError) as error:
                client.call_tool("t", timeout=5)
    text = told.of(error.value)
    assert "s3cr3t" not in text
    assert "you sent" in text or status == 302


def test_a_result_is_not_changed() -> None:
    """A tool may return what its caller has sent."""
    content = [{"type": "text", "text": TOKEN}]

    def say(heard: Heard, wire: Wire) -> None:
        wire.result({"resultType": "complete", "content": content})

    with Peer({"tools/call": say}) as peer, minimcp.connect(peer.url, auth=TOKEN) as client:
        assert client.call_tool("t").text == TOKEN


def test_the_longest_secret_is_replaced_first_and_short_words_stay() -> None:
    assert mask("abcd abcdefgh x", ["abcd", "abcdefgh"]) == "... ... x"
    with Peer() as peer:
        fetcher = Fetcher(
            peer.url.replace("//", "//me:pass@"),
            headers={
                "X-Team": "red",
                "Authorization": "Basic " + base64.b64encode(b"a:b4se64pw").decode(),
            },
        )
        assert fetcher.masked("required: pass, team red") == "required: ..., team red"
        fetcher.close()


# ------------------------------------------------------------ (f) settings of a connection

SETTINGS: Mapping[str, Any] = {
    "verify": "ca.pem",
    "proxies": {"https": "http://proxy.example:3128"},
    "headers": {"X-Api-Key": TOKEN, "Authorization": "Basic eDp5"},
    "cert": ("client.pem", "client.key"),
}


@pytest.mark.parametrize(("method", "url", "is_own"), [
    ("GET", "https://h.example/.well-known/oauth-protected-resource", True), ("GET", "https://H.EXAMPLE:443/x", True),
    ("POST", "https://h.example/mcp", True), ("POST", "https://h.example/token", True), ("POST", "https://h.example/register", True),
    ("GET", "https://as.example/.well-known/oauth-authorization-server", False), ("POST", "https://as.example/token", False),
    ("GET", "https://h.example:8443/x", False), ("GET", "http://h.example/x", False), ("POST", "https://sub.h.example/token", False),
    ("GET", "https://h.example.evil.example/x", False),
])  # fmt: skip
def test_settings_of_requests_that_the_library_adds(
    method: str, url: str, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: List[Dict[str, Any]] = []
    monkeypatch.setattr(
        "minimcp.auth.discovery.Fetcher", lambda url, **more: given.append({"url": url, **more})
    )
    jar = object()
    exchange = Exchange(
        "https://h.example/mcp", request=AbortableRequest(), cookies=jar, **SETTINGS
    )
    for each in (exchange, exchange.detached()):
        each._fetcher(method, url)
        found = given.pop()
        assert (found["verify"], found["proxies"]) == (SETTINGS["verify"], SETTINGS["proxies"])
        assert (found.get("cert"), found.get("cookies")) == (
            (SETTINGS["cert"], jar) if is_own else (None, None)
        )
        headers = dict(found.get("headers") or {})
        # a header Authorization would be the client's authentication at a token endpoint
        has_authorization = is_own and (method == "GET" or url == exchange.url)
        assert headers.pop("Authorization", None) == ("Basic eDp5" if has_authorization else None)
        assert headers == ({"X-Api-Key": TOKEN} if is_own else {})


@pytest.mark.requirement("M:AUTH-27")
@pytest.mark.parametrize("at", ["the origin of the server", "another origin"])
@pytest.mark.parametrize("way", ["connect", "sign_in"])
def test_headers_and_cookies_reach_the_own_origin_only(at: str, way: str) -> None:
    with AuthorizationServer() as site, AuthorizationServer() as other:
        issuer = site if at == "the origin of the server" else other
        prm = {"resource": f"{site.url}/mcp", "authorization_servers": [issuer.url]}
        refusal = {"WWW-Authenticate": "Bearer", "Set-Cookie": "route=seventeen; Path=/"}
        site.faults["/mcp"] = lambda handler: handler.answer(401, {}, **refusal)  # type: ignore[attr-defined]
        site.faults["/.well-known/oauth-protected-resource/mcp"] = lambda handler: handler.answer(
            200, prm
        )  # type: ignore[attr-defined]
        headers = {"X-Api-Key": TOKEN}
        auth, _ = sign_in()
        if way == "connect":
            with pytest.raises(minimcp.AuthorizationError, match="HTTP 401"):
                minimcp.connect(f"{site.url}/mcp", auth=auth, headers=headers)
        else:
            auth.sign_in(f"{site.url}/mcp", headers=headers)
        cookies = [each.headers.get("Cookie") for each in site.asked if each.path != "/authorize"]
        auth.sign_out(f"{site.url}/mcp", headers=headers)
        own = [each for each in site.asked if each.path != "/authorize"]  # which the browser asked
        assert {each.headers.get("X-Api-Key") for each in own} == {TOKEN}
        if way == "connect":
            assert cookies[0] is None and set(cookies[1:]) == {"route=seventeen"}
        assert not [each for each in other.asked if each.headers.get("X-Api-Key")]
        assert not [each for each in other.asked if each.headers.get("Cookie")]
        paths = {each.path for each in issuer.asked}
        assert {METADATA, "/register", "/token", "/revoke"} <= paths


def test_every_request_that_is_added_goes_through_the_proxy() -> None:
    """A proxy of HTTP gets the whole URL: this one is the authorization server itself."""
    with AuthorizationServer() as issuer, protected(issuer) as running:
        url, seen = running.url, []
        open_one = issuer.http.RequestHandlerClass.serve  # type: ignore[attr-defined]

        def forward(handler: Any, path: str, values: Any) -> None:
            if "://" not in handler.path:
                open_one(handler, path, values)
                return
            seen.append(handler.path)
            ours = requests.Session()
            ours.trust_env = False
            answer = ours.request(
                handler.command,
                handler.path,
                data=getattr(handler, "given", None),
                headers=dict(handler.headers),
                allow_redirects=False,
            )
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() in ("content-type", "www-authenticate", "mcp-session-id")
            }
            handler.answer(answer.status_code, answer.content, **kept)

        class Forwarding(issuer.http.RequestHandlerClass):  # type: ignore[name-defined, misc]
            def do_POST(self) -> None:
                if "://" not in self.path:
                    super().do_POST()
                    return
                self.given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                forward(self, self.path, {})

            def do_GET(self) -> None:
                forward(
                    self, self.path.partition("?")[0], {}
                ) if "://" in self.path else super().do_GET()

            do_DELETE = do_POST

        issuer.http.RequestHandlerClass = Forwarding
        auth, _ = sign_in(store=TokenMemory())
        assert call(url, auth, proxies={"http": issuer.url}, revision="2026-07-28") == "ada"
        paths = {each.split("/", 3)[3] for each in seen}
        assert {METADATA[1:], "register", "token", "mcp"} <= paths


# ------------------------------------------------------------ every option that takes a secret

SECRET_NAME = re.compile(
    r"(^|(?<!max)_)(auth|tokens?|secret|password|passphrase|private_key|state_keys|headers|cookies|cert|"
    r"proxies|assertion|credentials?|env)$"
)

# Parameters with such a name that hold no secret of this program: data of a peer, and names of
# header parameters of a tool.
HARMLESS = {
    ("AccessToken.of", "token"), ("Bearer.token_in", "headers"), ("Bearer.authenticate", "headers"), ("HttpRequest", "headers"),
    ("HttpResponse", "headers"), ("Progress", "progress_token"), ("Server.tool", "headers"), ("Server.add_tool", "headers"),
    ("tool", "headers"), ("StdioServer", "inherit_env"), ("HttpOptions", "trusted_proxies"),
}  # fmt: skip

SENTINEL = "s3nt1nel-" + "q" * 24
DEAD = "http://127.0.0.1:1"


class Repeating:
    """A server that wants a token; its authorization server repeats the sentinel in its refusals."""

    def __init__(self) -> None:
        self._site = AuthorizationServer()

    def __enter__(self) -> str:
        site = self._site.__enter__()
        prm = {"resource": f"{site.url}/mcp", "authorization_servers": [site.url]}
        told = {"error": "invalid_client", "error_description": f"you sent {SENTINEL}"}
        answers = {
            "/mcp": lambda handler: handler.answer(401, {}, **{"WWW-Authenticate": "Bearer"}),
            "/.well-known/oauth-protected-resource/mcp": lambda handler: handler.answer(200, prm),
            "/token": lambda handler: handler.answer(401, told),
            "/introspect": lambda handler: handler.answer(403, told),
        }
        site.faults.update(answers)
        return str(site.url)

    def __exit__(self, *exception: Any) -> None:
        self._site.__exit__(*exception)


def connected(**more: Any) -> Any:
    return minimcp.connect(f"{DEAD}/mcp", connect_timeout=WAIT, **more)


def refused(make: Callable[[str], Any]) -> Any:
    with Repeating() as url:
        auth = make(url)
        assert SENTINEL not in repr(auth) + str(auth)
        return minimcp.connect(f"{url}/mcp", auth=auth, connect_timeout=WAIT, timeout=WAIT)


def enterprise(url: str, **more: Any) -> Any:
    given: Dict[str, Any] = {
        "id_token": "t",
        "idp_token_endpoint": f"{url}/token",
        "idp_client_id": "i",
    }
    return minimcp.EnterpriseManaged(client_id="id", issuer=url, **{**given, **more})


def introspecting(url: str) -> Any:
    bearer = minimcp.Bearer.introspection(
        f"{url}/introspect",
        "id",
        SENTINEL,
        resource=f"{url}/mcp",
        authorization_servers=[url],
    )
    assert SENTINEL not in repr(bearer)
    return bearer.authenticate(Headers({"Authorization": "Bearer a-token"}))


def asked(make: Callable[[str], Any]) -> Any:
    with Repeating() as url:
        return make(url)


def ways_of(use: Callable[..., Any]) -> Dict[str, List[Callable[[], Any]]]:
    """Return uses of the settings of a connection, each of which fails or can be shown."""
    bad = SENTINEL + "\n\0x"
    return {
        "auth": [lambda: use(auth=SENTINEL), lambda: use(auth=lambda: SENTINEL), lambda: use(auth=bad),
                 lambda: use(auth=lambda: bad), lambda: use(auth=[SENTINEL]), lambda: use(auth=lambda: [SENTINEL])],
        "headers": [lambda: use(headers={"Authorization": f"Bearer {SENTINEL}"}), lambda: use(headers={"X-Api-Key": bad}),
                    lambda: use(headers={"X": [SENTINEL]}), lambda: use(headers={"Cookie": f"a={SENTINEL}"})],
        "cert": [lambda: use(cert=("/no/cert.pem", "/no/key.pem"))],
        "proxies": [lambda: use(proxies={"http": f"http://me:{SENTINEL}@127.0.0.1:1"}),
                    lambda: use(proxies={"http": f"socks9://me:{SENTINEL}@x"}), lambda: use(proxies={"http": f"me:{SENTINEL}@:x"})],
    }  # fmt: skip


def under(name: str, ways: Mapping[str, Any], *parameters: str) -> Dict[Tuple[str, str], Any]:
    return {(name, parameter): ways[parameter] for parameter in parameters}


NO_PROGRAM = ["/no/such/program"]
HTTP_SETTINGS = ("auth", "headers", "cert", "proxies")

# For each parameter that `secret_parameters` finds: uses that fail, or return text that may be
# shown.
USES: Dict[Tuple[str, str], List[Callable[[], Any]]] = {
    **under("connect", ways_of(connected), *HTTP_SETTINGS),
    **under("connect_all", ways_of(lambda **more: minimcp.connect_all({"a": f"{DEAD}/mcp"}, **more)), *HTTP_SETTINGS),
    **under("HttpServer", ways_of(lambda **more: minimcp.connect(HttpServer(f"{DEAD}/mcp", **more))), *HTTP_SETTINGS),
    **under("SignIn.sign_in", ways_of(lambda **more: minimcp.SignIn(store=TokenMemory()).sign_in(f"{DEAD}/mcp", **more)),
            *HTTP_SETTINGS[1:]),
    **under("SignIn.sign_out", ways_of(lambda **more: minimcp.SignIn(store=TokenMemory()).sign_out(f"{DEAD}/mcp", **more)),
            *HTTP_SETTINGS[1:]),
    ("connect", "env"): [lambda: minimcp.connect(NO_PROGRAM, env={"KEY": SENTINEL}), lambda: connected(env={"KEY": SENTINEL})],
    ("connect_all", "env"): [lambda: minimcp.connect_all({"a": NO_PROGRAM}, env={"KEY": SENTINEL})],
    ("StdioServer", "env"): [lambda: minimcp.StdioServer(NO_PROGRAM, env={"KEY": SENTINEL}),
                             lambda: minimcp.connect(minimcp.StdioServer(NO_PROGRAM, env={"KEY": SENTINEL}))],
    ("ClientCredentials", "client_secret"): [
        lambda: refused(lambda url: minimcp.ClientCredentials("id", SENTINEL, issuer=url)),
        lambda: minimcp.ClientCredentials("id", SENTINEL),
        lambda: minimcp.ClientCredentials("id", SENTINEL + "\n\0x", issuer=DEAD),
    ],
    ("ClientCredentials", "private_key"): [
        lambda: refused(lambda url: minimcp.ClientCredentials("id", private_key=SENTINEL, issuer=url)),
        lambda: minimcp.ClientCredentials("id", SENTINEL, private_key=SENTINEL),
    ],
    ("WorkloadIdentity", "assertion"): [
        lambda: refused(lambda url: minimcp.WorkloadIdentity(SENTINEL, issuer=url)),
        lambda: refused(lambda url: minimcp.WorkloadIdentity(lambda: SENTINEL, issuer=url)),
        lambda: minimcp.WorkloadIdentity(SENTINEL),
    ],
    ("EnterpriseManaged", "client_secret"): [lambda: refused(lambda url: enterprise(url, client_secret=SENTINEL))],
    ("EnterpriseManaged", "idp_client_secret"): [lambda: refused(lambda url: enterprise(url, idp_client_secret=SENTINEL))],
    ("EnterpriseManaged", "id_token"): [lambda: refused(lambda url: enterprise(url, id_token=SENTINEL)),
                                        lambda: refused(lambda url: enterprise(url, id_token=lambda: SENTINEL))],
    ("SignIn", "client_secret"): [
        lambda: minimcp.SignIn(client_secret=SENTINEL), lambda: minimcp.SignIn(client_id="id", client_secret=SENTINEL),
        lambda: minimcp.SignIn(client_id="id", client_secret=SENTINEL, issuer=DEAD),
    ],
    ("Bearer.static", "tokens"): [
        lambda: minimcp.Bearer.static(SENTINEL), lambda: minimcp.Bearer.static(SENTINEL + "\n"),
        lambda: minimcp.Bearer.static([SENTINEL]), lambda: minimcp.Bearer.static({SENTINEL: SENTINEL}),  # type: ignore[arg-type, dict-item]
        lambda: minimcp.Bearer.static({SENTINEL + " ": {}}), lambda: minimcp.Bearer.static({SENTINEL: {"sub": 5}}),
    ],
    ("Bearer.introspection", "client_secret"): [
        lambda: asked(introspecting), lambda: introspecting(DEAD), lambda: introspecting("ftp://x"),
    ],
    ("Server", "auth"): [
        lambda: minimcp.Server("x", auth=minimcp.Bearer.static(SENTINEL)), lambda: minimcp.Server("x", auth=SENTINEL),  # type: ignore[arg-type]
        lambda: minimcp.Server("x", auth={SENTINEL: {}}),  # type: ignore[arg-type]
    ],
    **under("read_card", ways_of(lambda **more: minimcp.read_card(f"{DEAD}/mcp", **more)), "proxies"),
    **under("read_catalog", ways_of(lambda **more: minimcp.read_catalog("127.0.0.1:1", **more)), "proxies"),
    ("Card", "headers"): [
        lambda: minimcp.Card("a/b", "https://x.example", headers=[{"name": "X", "isSecret": True, "value": SENTINEL}]),
        lambda: minimcp.Card("a/b", "https://x.example", headers=[
            {"name": "X", "value": "{k}", "variables": {"k": {"isSecret": True, "default": SENTINEL}}}]),
    ],
    ("Server", "state_keys"): [
        lambda: minimcp.Server("x", state_keys=[SENTINEL]), lambda: minimcp.Server("x", state_keys=[SENTINEL.encode()]),  # type: ignore[list-item]
        lambda: minimcp.Server("x", state_keys=SENTINEL),  # type: ignore[arg-type]
    ],
    ("verify_webhook", "headers"): [
        lambda: minimcp.verify_webhook({"webhook-signature": SENTINEL}, SENTINEL.encode(), "whsec_" + 32 * "A"),
        lambda: minimcp.verify_webhook({"webhook-id": SENTINEL, "webhook-timestamp": SENTINEL}, b"", "whsec_" + 32 * "A"),
        lambda: minimcp.verify_webhook({"webhook-id": "1", "webhook-timestamp": str(int(time.time()))}, b"", SENTINEL),
    ],
}  # fmt: skip


def secret_parameters() -> Iterator[Tuple[str, str]]:
    """Find every parameter of the public names that takes a secret, by its name."""
    for name in minimcp.__all__:
        found = getattr(minimcp, name)
        several = {name: found}
        if inspect.isclass(found):
            public = [own for own in vars(found) if not own.startswith("_")]
            several.update({f"{name}.{own}": getattr(found, own) for own in public})
        for shown, each in several.items():
            parameters: List[str] = []
            with suppress(ValueError, TypeError):
                parameters = [*inspect.signature(each).parameters]
            if each is minimcp.connect_all:  # it passes them on
                parameters += inspect.signature(minimcp.connect).parameters
            for parameter in dict.fromkeys(parameters):
                if SECRET_NAME.search(parameter) and (shown, parameter) not in HARMLESS:
                    yield shown, parameter


def test_every_parameter_that_takes_a_secret_is_tried() -> None:
    assert {*secret_parameters()} == {*USES}


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, uses in USES.items() for number in range(len(uses))],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else str(value),
)
def test_no_secret_is_shown(
    name: Tuple[str, str], number: int, told: Told, capfd: "pytest.CaptureFixture[str]"
) -> None:
    shown = ""
    try:
        found = USES[name][number]()
        shown = repr(found) + str(found)
    except Exception as error:
        shown = told.of(error)
    said = capfd.readouterr()
    assert SENTINEL not in shown + told.of() + said.out + said.err


def test_every_option_of_the_command_line_that_takes_a_secret_is_known(
    capfd: "pytest.CaptureFixture[str]",
) -> None:
    """`test_the_command_line_shows_no_secret` tries these; another one has to be added there."""
    from minimcp.cli import COMMANDS

    options: Set[str] = set()
    for command in COMMANDS:
        with suppress(SystemExit):
            main([command, "--help"])
        shown = capfd.readouterr().out
        options.update(re.findall(r"--[a-z-]+", shown))
    pattern = re.compile("token|header|secret|pass|auth(?!or)|key|cookie|credential|cert$|proxy")
    found = {each for each in options if pattern.search(each)}
    assert found - {"--cacert"} == {"--token", "--header", "--proxy"}  # a CA bundle is public
