"""`Bearer`: which requests it accepts, the errors for others, and the metadata of the protected
resource."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Mapping, Optional

import pytest

from minimcp import AccessToken, Bearer, HttpRequest, Server
from minimcp.http.headers import Headers, HttpError

RESOURCE, ISSUER = "https://mcp.example.com/mcp", "https://as.example.com"
PUBLISHED: Dict[str, Any] = {"resource": RESOURCE, "authorization_servers": [ISSUER]}
WELL_KNOWN = "/.well-known/oauth-protected-resource"
METADATA = f"https://mcp.example.com{WELL_KNOWN}/mcp"
GOOD = {"sub": "ada", "client_id": "app", "scope": "read write", "aud": RESOURCE, "iss": ISSUER}


def taking(claims: Optional[Mapping[str, Any]], **options: Any) -> Bearer:
    return Bearer(lambda token: claims, **{**PUBLISHED, **options})


def sent(token: str = "t") -> Headers:
    return Headers({"Authorization": f"Bearer {token}"})


def refusal(bearer: Bearer, headers: Headers) -> HttpError:
    with pytest.raises(HttpError) as caught:
        bearer.authenticate(headers)
    return caught.value


def challenge(bearer: Bearer, headers: Headers) -> str:
    ((name, value),) = refusal(bearer, headers).headers
    assert name == "WWW-Authenticate"
    return value


@pytest.mark.requirement("AUTH-22", "M:AUTH-47")
def test_a_verified_token_is_admitted_with_its_claims() -> None:
    found = taking({**GOOD, "exp": time.time() + 60, "team": "x"}).authenticate(sent())
    assert (found.subject, found.client_id, found.issuer) == ("ada", "app", ISSUER)
    assert (found.scopes, found.audience, found.claims["team"]) == (
        {"read", "write"},
        (RESOURCE,),
        "x",
    )


@pytest.mark.requirement("AUTH-04", "M:AUTH-28")
@pytest.mark.parametrize("pairs", [
    [("Authorization", "Bearer")], [("Authorization", "Bearer a b")], [("Authorization", 'Bearer "a"')],
    [("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
])  # fmt: skip
def test_a_malformed_header_is_a_bad_request(pairs: Any) -> None:
    found = refusal(taking(GOOD), Headers(pairs))
    assert found.status == 400
    assert dict(found.headers)["WWW-Authenticate"].startswith(
        'Bearer error="invalid_request", error_description="'
    )


@pytest.mark.requirement("AUTH-03", "AUTH-06", "AUTH-07", "M:AUTH-28", "M:AUTH-29")
@pytest.mark.parametrize(("claims", "reason"), [
    (None, "the token is not valid"),
    ({**GOOD, "exp": 1}, "the token has expired"),
    ({**GOOD, "aud": "https://other.example"}, "the token is for another server"),
    ({**GOOD, "aud": None}, "the token is for another server"),
    ({**GOOD, "aud": []}, "the token is for another server"),
    ({**GOOD, "aud": RESOURCE + "/"}, "the token is for another server"),
])  # fmt: skip
def test_a_token_that_is_not_for_this_server_now_is_refused(claims: Any, reason: str) -> None:
    bearer = taking(claims)
    assert refusal(bearer, sent()).status == 401
    wanted = f'Bearer error="invalid_token", error_description="{reason}", resource_metadata="{METADATA}"'
    assert challenge(bearer, sent()) == wanted


@pytest.mark.requirement("M:AUTH-31")
def test_a_scope_may_imply_others() -> None:
    options: Dict[str, Any] = {"scopes": ["read"], "implies": {"admin": ["read", "write"]}}
    assert taking({**GOOD, "scope": "admin"}, **options).authenticate(sent()).scopes == {
        "admin",
        "read",
        "write",
    }
    assert refusal(taking({**GOOD, "scope": "write"}, **options), sent()).status == 403


@pytest.mark.parametrize("claims", [
    {**GOOD, "sub": 1}, {**GOOD, "exp": "soon"}, {**GOOD, "exp": True}, {**GOOD, "scope": [1]}, {**GOOD, "scope": 5},
    {**GOOD, "aud": {"a": 1}},
])  # fmt: skip
def test_claims_of_another_type_are_a_fault_of_the_server(claims: Any, caplog: Any) -> None:
    found = refusal(taking(claims), sent("secret-token"))
    assert (found.status, found.headers) == (500, ())
    assert "a token cannot be verified: TypeError: the claim" in caplog.text


def test_an_exception_of_a_verifier_is_logged_without_the_token(caplog: Any) -> None:
    def verify(token: str) -> None:
        raise OSError(f"no connection for {token}")

    assert refusal(Bearer(verify, **PUBLISHED), sent("secret-token")).status == 500
    assert "OSError: no connection for <token>" in caplog.text
    assert "secret-token" not in caplog.text


@pytest.mark.parametrize(("resource", "metadata"), [
    ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
    ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
    ("http://127.0.0.1:8000/x/mcp", "http://127.0.0.1:8000/.well-known/oauth-protected-resource/x/mcp"),
    ("https://a.example/mcp?v=1", "https://a.example/.well-known/oauth-protected-resource/mcp?v=1"),
])  # fmt: skip
def test_the_well_known_part_is_between_host_and_path(resource: str, metadata: str) -> None:
    assert f'resource_metadata="{metadata}"' in challenge(
        taking(GOOD, resource=resource), Headers()
    )


@pytest.mark.parametrize("resource", ["https://a.example", "https://a.example/"])
def test_a_server_without_a_path_is_the_same_with_a_slash(resource: str) -> None:
    for audience in ("https://a.example", "https://a.example/"):
        assert taking({**GOOD, "aud": audience}, resource=resource).authenticate(
            sent()
        ).audience == (audience,)
    assert (
        refusal(taking({**GOOD, "aud": "https://a.example//"}, resource=resource), sent()).status
        == 401
    )


def test_fixed_tokens() -> None:
    bearer = Bearer.static(
        {"one": {"sub": "ada"}, "two": {"sub": "bob", "scope": "read", "aud": "x"}}
    )
    assert bearer.authenticate(sent("one")).subject == "ada"
    assert bearer.authenticate(sent("two")).scopes == {"read"}
    assert challenge(bearer, sent("three")).startswith(
        'Bearer error="invalid_token", error_description="'
    )
    assert challenge(bearer, Headers()) == 'Bearer realm="mcp"'
    assert bearer.metadata_paths == ()
    both = Bearer.static("one", scopes=["read"], **PUBLISHED)
    assert both.authenticate(sent("one")).scopes == {"read"}
    assert both.authenticate(sent("one")).audience == (RESOURCE,)
    assert WELL_KNOWN in both.metadata_paths


VERIFIERS: Dict[str, Any] = {
    "Bearer": lambda **options: Bearer(lambda token: None, **PUBLISHED, **options),
    "static": lambda **options: Bearer.static("one", **PUBLISHED, **options),
    "introspection": lambda **options: Bearer.introspection(
        f"{ISSUER}/i", "id", "secret", **PUBLISHED, **options
    ),
}


@pytest.mark.requirement("AUTH-10")
@pytest.mark.parametrize("make", VERIFIERS.values(), ids=list(VERIFIERS))
@pytest.mark.parametrize(
    ("options", "published"),
    [
        ({}, ["files", "write"]),
        ({"scopes": ["read", "write"]}, ["read", "write", "files"]),
        ({"scopes": ["read"], "scopes_supported": None}, ["read", "files", "write"]),
        ({"scopes": ["read"], "scopes_supported": ["a", "read"]}, ["a", "read"]),
        ({"scopes_supported": ["a", "a"]}, ["a"]),
        ({"scopes": ["read"], "scopes_supported": []}, None),
    ],
)
def test_the_published_scopes(make: Any, options: Any, published: Any) -> None:
    bearer = make(**options)
    server = Server("x", auth=bearer)
    inner = Server("inner")

    def erase() -> str:
        """Erase."""
        return ""

    server.add_tool(erase, scopes=["files"])
    inner.add_tool(erase, scopes=["write", "files"])
    server.mount(inner, prefix="inner")
    asked = HttpRequest("GET", WELL_KNOWN, {"Host": "localhost"})
    document = json.loads(server.handle_http(asked).body)
    assert document.get("scopes_supported") == published
    refused = server.handle_http(HttpRequest("POST", "/mcp", {"Host": "localhost"}))
    scope = f'scope="{" ".join(options["scopes"])}"' if "scopes" in options else ""
    said = dict(refused.headers)["WWW-Authenticate"]
    assert refused.status == 401 and scope in said and ("scope=" in said) is bool(scope)
    server.close()


def test_published_scopes_follow_the_registered_tools() -> None:
    server = Server("x", auth=VERIFIERS["static"]())

    def published() -> Any:
        asked = HttpRequest("GET", WELL_KNOWN, {"Host": "localhost"})
        return json.loads(server.handle_http(asked).body).get("scopes_supported")

    assert published() is None
    server.add_tool(published, name="tool", scopes=["files"])
    assert published() == ["files"]
    server.remove_tool("tool")
    assert published() is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("read", TypeError),
        ([1], TypeError),
        (["a b"], ValueError),
        (["offline_access"], ValueError),
    ],
)
def test_scopes_supported_are_scopes(given: Any, error: Any) -> None:
    for make in VERIFIERS.values():
        with pytest.raises(error, match="scopes_supported"):
            make(scopes_supported=given)


def test_principals_are_distinguished() -> None:
    given = [
        {},
        {"sub": "ada"},
        {"client_id": "ada"},
        {"sub": "ada", "client_id": "app"},
        {"sub": "ada", "iss": ISSUER},
        {"azp": "app", "sub": "bob"},
    ]
    assert len({AccessToken.of(claims, "t").principal for claims in given}) == len(given)
    assert AccessToken.of({}, "t").principal != AccessToken.of({}, "u").principal
    assert (
        AccessToken.of({"sub": "ada", "exp": 1}, "t").principal
        == AccessToken.of({"sub": "ada"}, "u").principal
    )


@pytest.mark.requirement("AUTH-20", "M:AUTH-34")
def test_nothing_shows_a_token() -> None:
    bearer = Bearer.static({"kW9secret": {"sub": "ada", "email": "ada@example.com"}})
    found = bearer.authenticate(sent("kW9secret"))
    for shown in (repr(bearer), repr(found), str(vars(found)), repr(sent("kW9secret"))):
        assert "kW9secret" not in shown
    assert "ada@example.com" not in repr(found)


@pytest.mark.parametrize(("options", "problem"), [
    ({"resource": None}, "together"), ({"authorization_servers": []}, "together"),
    ({"resource": None, "authorization_servers": []}, "resource is missing"),
    ({"resource": "http://mcp.example.com"}, "https"), ({"resource": RESOURCE + "#x"}, "no fragment"),
    ({"authorization_servers": ISSUER}, "authorization_servers must be a list"),
    ({"authorization_servers": ["ftp://x"]}, "http"), ({"scopes": "read"}, "scopes must be a list"),
    ({"scopes": ['a"b']}, "must not contain spaces or quotes"), ({"scopes": ["offline_access"]}, "offline_access"),
    ({"verify": None}, "verify must be a function"), ({"audience": [1]}, "audience must be a list"),
])  # fmt: skip
def test_invalid_options_are_rejected(options: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Bearer(**{"verify": lambda token: None, **PUBLISHED, **options})


@pytest.mark.parametrize("tokens", ["", "a b", {}, {"a": "b"}, 5, {1: {}}, ["a"]])
def test_an_invalid_fixed_token_is_rejected(tokens: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="a token must|tokens must"):
        Bearer.static(tokens)
