"""Choices of a client on its way to a token: the issuer, the scopes, the client id, and the server
that receives the token."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional
from urllib.parse import parse_qs, quote, urlsplit

import pytest

import minimcp
from minimcp import AuthorizationError, EnterpriseManaged, SignIn, TokenMemory
from minimcp.http.fetch import Fetcher

from ..authorization_server import AuthorizationServer, Browser, protected
from ..support import around
from .test_authorization import BOTH, call, sign_in

requirement = pytest.mark.requirement
PROTECTED = "/.well-known/oauth-protected-resource"
DOCUMENT = "https://client.example.com/client.json"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@pytest.fixture
def issuer() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as found:
        yield found


def asked_for(issuer: AuthorizationServer, challenge: str = "", auth: Optional[Dict[str, Any]] = None,
              **resource: Any) -> Dict[str, List[str]]:  # fmt: skip
    """Return the query of the browser's first URL. The issuer is also the protected server.

    Args:
        issuer: Also serves ``/mcp``.
        challenge: Text of the 401 after the URL of the metadata.
        auth: Options of `SignIn`.
        resource: Members of the resource's metadata.
    """
    prm = {"resource": f"{issuer.url}/mcp", "authorization_servers": [issuer.url], **resource}
    header = {
        "WWW-Authenticate": f'Bearer resource_metadata="{issuer.url}{PROTECTED}/mcp"{challenge}'
    }
    issuer.faults[PROTECTED + "/mcp"] = lambda handler: handler.answer(200, prm)  # type: ignore[attr-defined]
    issuer.faults["/mcp"] = lambda handler: handler.answer(401, {}, **header)  # type: ignore[attr-defined]
    opened: List[str] = []

    def open_page(url: str) -> None:
        opened.append(url)
        raise LookupError("that is enough")

    given: Any = {
        "store": TokenMemory(),
        "on_redirect": open_page,
        "on_callback": Browser().come,
        **(auth or {}),
    }
    with pytest.raises(AuthorizationError, match="that is enough"):
        minimcp.connect(f"{issuer.url}/mcp", auth=SignIn(**given))
    assert urlsplit(opened[0])[:3] == urlsplit(f"{issuer.url}/authorize")[:3]
    return parse_qs(urlsplit(opened[0]).query)


# ------------------------------------------------------------ which scopes are requested, and from which issuer


@requirement("AUTH-55", "AUTH-56", "M:AUTH-22", "M:AUTH-23")
@pytest.mark.parametrize(("challenge", "resource", "scope"), [
    (', scope="files:read other"', {"scopes_supported": ["a", "b"]}, ["files:read other"]),
    ("", {"scopes_supported": ["a", "b"]}, ["a b"]),
    ("", {}, None),
])  # fmt: skip
def test_scopes_of_the_challenge_win_over_scopes_of_the_resource(
    issuer: AuthorizationServer, challenge: str, resource: Dict[str, Any], scope: Any
) -> None:
    assert asked_for(issuer, challenge, **resource).get("scope") == scope


@requirement("M:AUTH-33")
@pytest.mark.parametrize("offered", [["read", "offline_access"], ["read"], None])
def test_offline_access_is_asked_for_where_there_is_such_a_thing(
    issuer: AuthorizationServer, offered: Any
) -> None:
    issuer.more["scopes_supported"] = offered
    query = asked_for(issuer, ', scope="read"')
    assert query["scope"] == ["read offline_access" if len(offered or ()) == 2 else "read"]
    (registered,) = [each.values for each in issuer.asked if each.path == "/register"]
    assert "refresh_token" in registered["grant_types"]


@requirement("AUTH-35")
def test_one_of_several_issuers_is_chosen(issuer: AuthorizationServer) -> None:
    several = ["https://first.example.com", issuer.url]
    assert asked_for(issuer, auth={"issuer": issuer.url}, authorization_servers=several)
    assert asked_for(issuer, authorization_servers=several[::-1])
    auth = SignIn(store=TokenMemory(), issuer="https://third.example.com")
    with pytest.raises(AuthorizationError, match="the credentials are for https://third"):
        minimcp.connect(f"{issuer.url}/mcp", auth=auth)


# ------------------------------------------------------------ as whom


@requirement("AUTH-49", "AUTH-50", "M:AUTH-15")
@pytest.mark.parametrize(("given", "reads_documents", "client"), [
    ({"client_id": "mine", "client_metadata_url": DOCUMENT}, True, "mine"),
    ({"client_metadata_url": DOCUMENT}, True, DOCUMENT),
    ({"client_metadata_url": DOCUMENT}, False, None),
    ({}, True, None),
])  # fmt: skip
def test_a_client_is_registered_if_there_is_no_other_way(
    issuer: AuthorizationServer, given: Dict[str, Any], reads_documents: bool, client: Optional[str]
) -> None:
    issuer.more["client_id_metadata_document_supported"] = reads_documents
    (id,) = asked_for(issuer, auth=given)["client_id"]
    assert issuer.count("/register") == (client is None)
    assert id == client or (client is None and id in issuer.clients)


@requirement("AUTH-49", "M:AUTH-15")
def test_without_a_registration_the_error_says_what_to_do(
    issuer: AuthorizationServer,
) -> None:
    issuer.more["registration_endpoint"] = None
    with (
        protected(issuer) as running,
        pytest.raises(AuthorizationError, match=r"ask its operator.*client_id="),
    ):
        call(running.url, sign_in()[0])


@requirement("M:AUTH-44")
def test_a_metadata_document_goes_with_the_client(issuer: AuthorizationServer) -> None:
    with AuthorizationServer() as other, protected(issuer) as running:
        for each in (issuer, other):
            each.more["client_id_metadata_document_supported"] = True
            each.clients[DOCUMENT] = None
        auth, browser = sign_in(client_metadata_url=DOCUMENT)
        assert call(running.url, auth) == "ada"
        running.move_to(other)
        assert call(running.url, auth) == "ada"
        assert len(browser.opened) == 2
        assert not issuer.count("/register") + other.count("/register")


@requirement("M:AUTH-36")
@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_a_client_proves_itself_as_the_issuer_takes_it(
    issuer: AuthorizationServer, method: str
) -> None:
    issuer.more["token_endpoint_auth_methods_supported"] = [method]
    with protected(issuer) as running:
        assert call(running.url, sign_in()[0]) == "ada"
    (sent,) = [each for each in issuer.asked if each.path == "/token"]
    assert sent.headers.get("Authorization", "").startswith("Basic ") == (
        method == "client_secret_basic"
    )
    assert ("client_secret" in sent.values) == (method == "client_secret_post")


@requirement("M:AUTH-41")
def test_an_assertion_of_the_company_is_exchanged_for_a_token(
    issuer: AuthorizationServer,
) -> None:
    def take(asked: Dict[str, str], headers: Mapping[str, str]) -> Any:
        assert (asked["grant_type"], asked["assertion"]) == (JWT_BEARER, "a jag")
        return 200, issuer.issue("robot", "ada", "", asked["resource"], refreshes=False)

    issuer.token = take  # type: ignore[method-assign]
    grant = {"issued_token_type": ID_JAG, "access_token": "a jag", "token_type": "N_A"}
    with AuthorizationServer() as company, protected(issuer) as running:
        company.faults["/token"] = lambda handler: handler.answer(200, grant)  # type: ignore[attr-defined]
        auth = EnterpriseManaged(
            "robot", "a robot's secret", id_token=lambda: "an id token", idp_token_endpoint=f"{company.url}/token",
            idp_client_id="company", issuer=issuer.url,
        )  # fmt: skip
        assert call(running.url, auth) == "ada"
        ((_, form, _),) = company.asked
        assert (form["subject_token"], form["requested_token_type"]) == ("an id token", ID_JAG)
        assert (form["audience"], form["resource"], form["client_id"]) == (
            issuer.url,
            running.url,
            "company",
        )
        company.faults["/token"] = lambda handler: handler.answer(  # type: ignore[attr-defined]
            200, {**grant, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
        )
        issuer.tokens.clear()
        with pytest.raises(AuthorizationError, match="did not return an ID-JAG"):
            call(running.url, auth)


# ------------------------------------------------------------ the responses, and the receiver of the token


@requirement("M:AUTH-12", "M:AUTH-13")
@pytest.mark.parametrize("more", ["", "&error=access_denied&error_description=call+0900"])
@pytest.mark.parametrize(
    "changed", [lambda url: f"{url}/", lambda url: url.replace("http", "HTTP")]
)
def test_a_response_names_the_issuer_exactly(
    issuer: AuthorizationServer, changed: Any, more: str
) -> None:
    browser = Browser()

    def come(state: str, timeout: float) -> str:
        came, named = browser.come(state, timeout), quote(issuer.url, safe="")
        assert named in came
        return came.replace(named, quote(changed(issuer.url), safe="")) + more

    with (
        protected(issuer) as running,
        pytest.raises(AuthorizationError, match=r"a server other than.*\(iss\)") as error,
    ):
        call(running.url, sign_in(on_redirect=browser.open, on_callback=come)[0])
    assert "denied" not in str(error.value)
    assert "0900" not in str(error.value)
    assert not issuer.count("/token")


@requirement("AUTH-31", "M:AUTH-26", "M:AUTH-27")
@BOTH
def test_every_request_carries_the_token_and_it_goes_nowhere_else(
    issuer: AuthorizationServer, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: "List[tuple[str, str, Any, Any]]" = []

    def noted(send: Any, fetcher: Any, method: str, url: str, headers: Any, body: Any) -> Any:
        sent.append((method, url, dict(headers), body))
        return send(fetcher, method, url, headers, body)

    around(monkeypatch, Fetcher, "_sent", noted)
    with protected(issuer) as running:
        auth, _ = sign_in()
        auth.sign_in(running.url)
        sent.clear()
        with minimcp.connect(
            running.url, auth=auth, revision=revision, on_tools_changed=print
        ) as client:
            assert client.call_tool("whoami").text == "ada"
            with client.listen(tools_list_changed=True):
                issuer.tokens.clear()  # the next call gets another one
                assert client.call_tool("whoami").text == "ada"
    own = [(method, headers) for method, url, headers, _ in sent if url.startswith(running.url)]
    assert {method for method, _ in own} == (
        {"POST", "GET", "DELETE"} if revision == "2025-11-25" else {"POST"}
    )
    tokens = {headers["Authorization"] for _, headers in own}
    assert len(tokens) == 2
    assert all(each.startswith("Bearer ") for each in tokens)
    others = [each for each in sent if not each[1].startswith(running.url)]
    assert any(url == f"{issuer.url}/token" for _, url, _, _ in others)
    for token in (each[len("Bearer ") :] for each in tokens):
        assert not any(token in url for _, url, _, _ in sent)
        assert token not in repr(others)
