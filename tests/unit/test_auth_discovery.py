"""The statements of a server about its authorization: which ones a client trusts, and which ones it
rejects."""

from __future__ import annotations

import string
from typing import Any, Callable, Dict, Iterator, List

import pytest
from hypothesis import given, strategies

import minimcp
from minimcp import AuthorizationError, ClientCredentials, SignIn, TokenMemory
from minimcp.auth.discovery import Exchange, canonical, challenges, is_part_of
from minimcp.auth.dpop import ProofKey
from minimcp.auth.loopback import safe_to_open
from minimcp.auth.tokens import Credentials, Token
from minimcp.http.fetch import AbortableRequest

from ..authorization_server import METADATA, AuthorizationServer, Browser
from ..drawn import drawn

requirement = pytest.mark.requirement
PROTECTED = "/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    "header, found",
    [
        ("Bearer", {"bearer": {}}),
        ('Bearer realm="a, b", scope="x y"', {"bearer": {"realm": "a, b", "scope": "x y"}}),
        ('Bearer error=invalid_token ,error_description="a \\"b\\""',
         {"bearer": {"error": "invalid_token", "error_description": 'a "b"'}}),
        ('Basic realm="x", Bearer scope="a"', {"basic": {"realm": "x"}, "bearer": {"scope": "a"}}),
        ('Negotiate abc==, DPoP algs="ES256", error="use_dpop_nonce"',
         {"negotiate": {}, "dpop": {"algs": "ES256", "error": "use_dpop_nonce"}}),
        ('bearer Scope = "a" , SCOPE="b"', {"bearer": {"scope": "a"}}),
        ('Bearer, DPoP algs="never ends', {"bearer": {}}),
        ("", {}),
        ("=\x00", {}),
    ],
)  # fmt: skip
@requirement("AUTH-32")
def test_challenges_are_read(header: str, found: Dict[str, Any]) -> None:
    assert challenges(header) == found


@drawn(100)
@given(strategies.text(alphabet=[*string.ascii_letters, *'"=, \\\t\n'], max_size=200))
def test_no_header_is_too_much_for_it(header: str) -> None:
    assert isinstance(challenges(header), dict)


@pytest.mark.parametrize(
    "url, resource, is_it",
    [
        ("https://h/mcp", "https://h/mcp", True),
        ("https://h/mcp", "https://h", True),
        ("https://h/mcp", "https://h/", True),
        ("https://h/mcp/", "https://h/mcp", True),
        ("https://H:443/mcp", "https://h/mcp", True),
        ("https://me:secret@h/mcp", "https://h/mcp", True),
        ("https://h/mcp", "https://h/mc", False),
        ("https://h/mcp", "https://h/mcp/deeper", False),
        ("https://h/mcp", "https://h:8443/mcp", False),
        ("https://h/mcp", "http://h/mcp", False),
        ("https://h/mcp", "https://h/mcp#part", False),
        ("https://h/mcp", "https://h.evil/mcp", False),
        ("https://h/mcp", "https://h\\@evil/mcp", False),
    ],
)
@requirement("AUTH-46", "M:AUTH-5")
def test_metadata_belongs_to_its_server(url: str, resource: str, is_it: bool) -> None:
    assert is_part_of(url, resource) is is_it


@requirement("AUTH-47", "M:AUTH-9")
def test_a_server_is_named_by_its_plain_url() -> None:
    assert canonical("HTTPS://me:secret@Host.Example/MCP/#part") == "https://host.example/MCP"


def may_ask(exchange: Exchange, address: str) -> bool:
    return exchange._allowed(address)


def exchange(url: str) -> Exchange:
    return Exchange(url, True, None, AbortableRequest())


@pytest.mark.parametrize(
    "server, address, allowed",
    [
        ("https://8.8.8.8/mcp", "8.8.4.4", True),
        ("https://8.8.8.8/mcp", "10.0.0.1", False),
        ("https://8.8.8.8/mcp", "127.0.0.1", False),
        ("https://8.8.8.8/mcp", "169.254.169.254", False),
        ("https://8.8.8.8/mcp", "::ffff:169.254.169.254", False),
        ("https://8.8.8.8/mcp", "::1", False),
        ("https://8.8.8.8/mcp", "fe80::1%eth0", False),
        ("https://8.8.8.8/mcp", "224.0.0.1", False),
        ("https://8.8.8.8/mcp", "0.0.0.0", False),
        ("https://10.1.1.1/mcp", "10.0.0.1", True),
        ("https://10.1.1.1/mcp", "169.254.169.254", False),
        ("https://169.254.1.1/mcp", "169.254.169.254", True),
        ("http://127.0.0.1/mcp", "10.0.0.1", True),
        ("http://127.0.0.1/mcp", "::ffff:169.254.169.254", False),
    ],
)
@requirement("AUTH-64", "M:AUTH-37")
def test_addresses_that_may_be_requested(server: str, address: str, allowed: bool) -> None:
    assert may_ask(exchange(server), address) is allowed


def test_a_private_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def no_socket(*_: Any) -> Any:
        raise AssertionError("a socket")

    monkeypatch.setattr(socket, "socket", no_socket)
    with pytest.raises(AuthorizationError, match=r"10\.0\.0\.1 is in a private network"):
        exchange("https://8.8.8.8/mcp").document("https://10.0.0.1/")


class Addresses:
    """Answers look-ups of names: each name once with a public address, then with this machine's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: List[str] = []
        monkeypatch.setattr("socket.getaddrinfo", self.find)

    def find(self, host: str, port: Any, *_: Any, **__: Any) -> Any:
        address = host if host[0].isdigit() else "127.0.0.1" if host in self.asked else "8.8.8.8"
        self.asked.append(host)
        return [(2, 1, 6, "", (address, port))]


def test_the_name_of_the_server_is_not_resolved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile server's name may lead to this machine as soon as that helps it."""
    names = Addresses(monkeypatch)
    names.find("evil.test", 443)
    for address in ("8.8.8.8", ""):
        asking = Exchange(
            "https://evil.test/mcp", True, None, AbortableRequest(), address=address
        ).detached()
        assert not may_ask(asking, "127.0.0.1")
        assert not may_ask(asking, "64:ff9b::7f00:1")
        assert may_ask(asking, "1.1.1.1")
    with pytest.raises(AuthorizationError, match="is in a private network"):
        Exchange(
            "https://evil.test/mcp", True, None, AbortableRequest(), address="8.8.8.8"
        ).document("https://evil.test/.well-known/oauth-protected-resource")
    assert names.asked == ["evil.test", "evil.test"]  # once here, once to connect to it


def test_the_address_is_that_of_the_connection_of_the_401(monkeypatch: pytest.MonkeyPatch) -> None:
    found: List[str] = []

    def discovered(asking: Exchange, *_: Any) -> Any:
        found.append(asking.address)
        raise AuthorizationError("as far as this test goes")

    monkeypatch.setattr("minimcp.auth.authorizer.discover", discovered)
    names = Addresses(monkeypatch)
    authorizer = ClientCredentials(
        "id", "secret", issuer="https://as.example", store=TokenMemory()
    ).for_server("https://evil.test/mcp")
    for address in ("8.8.8.8", "10.0.0.5", ""):
        request = AbortableRequest()
        request.address = address
        with pytest.raises(AuthorizationError, match="as far as"):
            authorizer.answered(401, {"WWW-Authenticate": "Bearer"}, {}, request)
    assert found == ["8.8.8.8", "10.0.0.5", ""]
    assert names.asked == []


# ------------------------------------------------------------ hostile documents

ENDPOINTS: Dict[str, Any] = {
    "a script": "javascript:alert(1)",
    "a line end": "https://h.example\r\nX: y/",
    "a number": 5,
    "http elsewhere": "http://evil.example.com/authorize",
    "a fragment": "https://h.example/#part",
}


def hostile() -> Iterator[Any]:
    for endpoint in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        for name, value in ENDPOINTS.items():
            yield pytest.param(
                lambda peer, e=endpoint, v=value: peer.more.update({e: v}), id=f"{endpoint}: {name}"
            )
    for name, value in ENDPOINTS.items():
        yield pytest.param(
            lambda peer, v=value: peer.prm.update(authorization_servers=[v]), id=f"issuer: {name}"
        )
    others: Dict[str, Callable[[Any], Any]] = {
        "the issuer is a private address": lambda peer: peer.prm.update(
            authorization_servers=["https://169.254.1.1"]
        ),
        "no authorization server": lambda peer: peer.prm.pop("authorization_servers"),
        "an object of them": lambda peer: peer.prm.update(authorization_servers={"a": "b"}),
        "another resource": lambda peer: peer.prm.update(resource="https://evil.example.com/mcp"),
        "no resource": lambda peer: peer.prm.pop("resource"),
        "another issuer": lambda peer: peer.more.update(issuer="https://attacker.example.com"),
        "the issuer and two slashes": lambda peer: peer.more.update(issuer=f"{peer.url}//"),
        "the issuer and a path": lambda peer: peer.more.update(issuer=f"{peer.url}/x"),
        "no PKCE": lambda peer: peer.more.update(code_challenge_methods_supported=None),
        "plain PKCE": lambda peer: peer.more.update(code_challenge_methods_supported=["plain"]),
        "PKCE as text": lambda peer: peer.more.update(code_challenge_methods_supported={"S256": 1}),
        "metadata that redirects": lambda peer: peer.faults.update(
            {
                PROTECTED + "/mcp": lambda handler: handler.answer(
                    302, b"", Location="http://127.0.0.1:1/"
                )
            }
        ),
    }
    for name, change in others.items():
        yield pytest.param(change, id=name)


class Hostile(AuthorizationServer):
    """It is the server too."""

    def __init__(self) -> None:
        super().__init__()
        self.prm: Dict[str, Any] = {
            "resource": f"{self.url}/mcp",
            "authorization_servers": [self.url],
        }
        self.faults[PROTECTED + "/mcp"] = lambda handler: handler.answer(200, self.prm)  # type: ignore[attr-defined]
        self.challenge(f"{self.url}{PROTECTED}/mcp")

    def challenge(self, url: str) -> None:
        header = {"WWW-Authenticate": f'Bearer resource_metadata="{url}"'}
        self.faults["/mcp"] = lambda handler: handler.answer(401, {}, **header)  # type: ignore[attr-defined]


@pytest.mark.parametrize("change", list(hostile()))
@requirement("AUTH-44", "AUTH-62", "AUTH-63", "M:AUTH-7", "M:AUTH-35")
def test_a_hostile_document_is_refused_and_nothing_is_opened(change: Callable[[Any], None]) -> None:
    with Hostile() as peer:
        change(peer)
        browser = Browser()
        opened: List[str] = []

        def open_page(url: str) -> None:
            opened.append(url)
            browser.open(url)

        auth = SignIn(store=TokenMemory(), on_redirect=open_page, on_callback=browser.come)
        with pytest.raises(AuthorizationError):
            minimcp.connect(f"{peer.url}/mcp", auth=auth)
        assert not opened
        assert not peer.count("/token")


@requirement("AUTH-34", "AUTH-38")
@requirement("AUTH-37", "AUTH-65", "AUTH-36", "M:AUTH-6", "AUTH-40", "AUTH-41")
def test_places_of_the_documents() -> None:
    with Hostile() as peer:
        auth = SignIn(
            store=TokenMemory(),
            on_redirect=lambda url: None,
            on_callback=lambda state, timeout: "?",
        )
        peer.faults["/v1/mcp"] = peer.faults["/mcp"]
        peer.faults["/v1/mcp"] = lambda handler: handler.answer(401, {})  # type: ignore[attr-defined]
        with pytest.raises(AuthorizationError):
            minimcp.connect(f"{peer.url}/v1/mcp", auth=auth)
        assert [each.path for each in peer.asked if "well-known" in each.path] == [
            f"{PROTECTED}/v1/mcp",
            PROTECTED,
            METADATA,
        ]
        peer.asked.clear()
        peer.prm["authorization_servers"] = [f"{peer.url}/tenant"]
        with pytest.raises(AuthorizationError, match="no metadata for the authorization server"):
            minimcp.connect(f"{peer.url}/mcp", auth=auth)
        assert [each.path for each in peer.asked if "well-known" in each.path] == [
            f"{PROTECTED}/mcp",
            f"{METADATA}/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration",
        ]
        peer.asked.clear()
        peer.prm["authorization_servers"] = [peer.url]
        peer.faults[METADATA] = lambda handler: handler.answer(404, {})  # type: ignore[attr-defined]
        with pytest.raises(AuthorizationError, match="no metadata for the authorization server"):
            minimcp.connect(f"{peer.url}/mcp", auth=auth)
        assert [each.path for each in peer.asked if "well-known" in each.path] == [
            f"{PROTECTED}/mcp",
            METADATA,
            "/.well-known/openid-configuration",
        ]
        versions = {
            each.headers["MCP-Protocol-Version"] for each in peer.asked if "well-known" in each.path
        }
        assert versions == {"2026-07-28"}


# ------------------------------------------------------------ URLs for a browser, and URLs of a user


def test_urls_for_a_browser_are_written_again() -> None:
    assert (
        safe_to_open("HTTPS://Example.com/$(a)?c='d\"&e=%20")
        == "https://example.com/%24%28a%29?c=%27d%22&e=%20"
    )
    assert safe_to_open("http://[::1]:8000/x") == "http://[::1]:8000/x"


@requirement("AUTH-61", "AUTH-51", "M:AUTH-16")
def test_urls_that_a_user_gives() -> None:
    for uri in (
        "https://app.example.com/back",
        "http://127.0.0.1:9/",
        "http://localhost/back",
        "http://[::1]:5/x",
    ):
        SignIn(store=TokenMemory(), redirect_uri=uri)
    for uri in (
        "http://evil.example.com/",
        "https://h/#part",
        "myapp://back",
        "javascript:alert(1)",
    ):
        with pytest.raises(ValueError):
            SignIn(store=TokenMemory(), redirect_uri=uri)
    SignIn(store=TokenMemory(), client_metadata_url="https://h.example/client.json")
    for url in (
        "http://h.example/client.json",
        "https://h.example",
        "https://h.example/",
        "https://h.example/#x",
    ):
        with pytest.raises(ValueError):
            SignIn(store=TokenMemory(), client_metadata_url=url)


def test_a_secret_is_percent_encoded_in_basic() -> None:
    import base64

    headers, form = Credentials("a:b", "c d/%").prove({})
    assert base64.b64decode(headers["Authorization"][6:]) == b"a%3Ab:c%20d%2F%25"
    assert form == {"client_id": "a:b"}  # as servers made with the official Python SDK want it
    supported = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert Credentials("a", "b").prove(supported) == ({}, {"client_id": "a", "client_secret": "b"})


@pytest.mark.parametrize(
    "record",
    [
        None,
        {},
        {"access_token": "x"},
        [],
        {"access_token": "a b", "issuer": "i", "resource": "r", "scopes": []},
    ],
)
def test_a_record_of_another_kind_is_not_a_token(record: Any) -> None:
    assert Token.from_record(record) is None


def test_a_token_survives_its_record() -> None:
    token = Token("abc", "https://i", "https://r", "me", ("x",), 5.0, "refresh", proof_key="PEM")
    assert Token.from_record(token.to_record()) == token
    assert token.is_old
    assert not [secret for secret in ("abc", "refresh", "PEM") if secret in repr(token)]


def test_members_of_a_proof() -> None:
    import jwt

    key = ProofKey()
    again = ProofKey(key.pem)
    url = "https://h.example/mcp?secret=1"
    assert again.note(url, {"DPoP-Nonce": "n1"})
    assert not again.note(url, {"DPoP-Nonce": "n1"})
    assert not again.note(url, {"DPoP-Nonce": "with blank"})
    proof = again.proof("POST", url, "token")
    head = jwt.get_unverified_header(proof)
    claims = jwt.decode(proof, jwt.PyJWK(head["jwk"], "ES256").key, ["ES256"])
    assert head["typ"] == "dpop+jwt"
    assert (claims["htm"], claims["htu"], claims["nonce"]) == (
        "POST",
        "https://h.example/mcp",
        "n1",
    )
    assert claims["ath"] == "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A"
    assert "nonce" not in jwt.decode(key.proof("POST", url), options={"verify_signature": False})
    with pytest.raises(AuthorizationError, match="not a P-256 key"):
        ProofKey("no key")
