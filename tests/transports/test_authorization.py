"""A server that requires tokens, on every transport: which requests it accepts, and which data
belong to which principal."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any, Callable, Dict, Iterator, List, Optional
from wsgiref.validate import validator

import pytest

import minimcp
from minimcp import Bearer, Context, HttpOptions, HttpRequest, HttpResponse, Server
from minimcp.http.headers import Headers
from minimcp.http.legacy_sse import SseServer

from ..inside import registry_of
from ..support import WAIT
from ..unit.test_wsgi import Host, whole
from .http_app import NEWEST, Shaken, alone, call, core_of, message, post, serve
from .test_sse_server import Old

requirement = pytest.mark.requirement

RESOURCE, ISSUER = "https://mcp.example.com/mcp", "https://as.example.com"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
WHERE = f'resource_metadata="{METADATA}"'
WELL_KNOWN = "/.well-known/oauth-protected-resource"
TOKENS: Dict[str, Dict[str, Any]] = {
    "ada-1": {"sub": "ada", "client_id": "app", "scope": "mcp"},
    "ada-2": {"sub": "ada", "client_id": "app", "scope": "mcp files"},
    "ada-other": {"sub": "ada", "client_id": "other", "scope": "mcp"},
    "bob-1": {"sub": "bob", "client_id": "app", "scope": "mcp files"},
    "old-1": {"sub": "ada", "client_id": "app", "scope": "mcp", "exp": 1},
    "poor-1": {"sub": "ada", "client_id": "app", "scope": "files"},
}
PAGE = "https://page.example"
HELLO = message(
    "initialize",
    {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
)

Ask = Callable[[HttpRequest], HttpResponse]


def known_tokens() -> Bearer:
    return Bearer.static(TOKENS, resource=RESOURCE, authorization_servers=[ISSUER], scopes=["mcp"])


def guarded(calls: List[str], **options: Any) -> Server:
    server = Server("guarded", **{"auth": known_tokens(), **options})

    @server.tool
    def whoami(ctx: Context) -> str:
        if ctx.auth is None:
            raise minimcp.ToolError("nobody")
        calls.append("whoami")
        return f"{ctx.auth.subject} {ctx.auth.client_id} {' '.join(sorted(ctx.auth.scopes))}"

    @server.tool
    def headers(ctx: Context) -> str:
        return " ".join(sorted(ctx.headers))

    @server.tool(scopes=["files"])
    def erase() -> str:
        calls.append("erase")
        return "erased"

    @server.tool
    def name(ctx: Context) -> str:
        return str(ctx.elicit("Your name?", {"name": str}, key="name").require()["name"])

    @server.tool
    def count(ctx: Context) -> str:
        ctx.progress(1)
        return "counted"

    return server


@pytest.fixture
def calls() -> List[str]:
    """Which tools have run."""
    return []


@pytest.fixture
def server(calls: List[str]) -> Iterator[Server]:
    server = guarded(calls)
    yield server
    server.close()


@pytest.fixture(params=["bundled", "wsgi", "handle_http"])
def ask(server: Server, request: Any) -> Iterator[Ask]:
    """Send a request to the server, over each transport."""
    if request.param == "handle_http":
        yield lambda request: server.handle_http(request, stream=request.method == "GET")
        return
    if request.param == "wsgi":
        host = Host(server.wsgi(max_streams=1))

        def ask_host(request: HttpRequest) -> HttpResponse:
            status, headers, body = whole(host(request))
            return HttpResponse(status, list(headers.items()), body)

        yield ask_host
        return
    with server.start_http() as running:
        yield lambda request: over_a_socket(running.port, request)


def over_a_socket(port: int, request: HttpRequest) -> HttpResponse:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as wire:
        wire.request(
            request.method,
            request.path,
            request.body,
            {**dict(request.headers), "host": f"localhost:{port}"},
        )
        response = wire.getresponse()
        return HttpResponse(response.status, response.getheaders(), response.read())


def with_token(request: HttpRequest, token: Optional[str], **headers: str) -> HttpRequest:
    given = {
        **dict(request.headers),
        **({} if token is None else {"Authorization": f"Bearer {token}"}),
        **headers,
    }
    return HttpRequest(request.method, request.path, given, request.body)


def get(path: str, method: str = "GET", **headers: str) -> HttpRequest:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest(method, path, {"Host": "localhost", "Accept": "text/event-stream", **given})


def challenge(response: HttpResponse) -> str:
    return str(Headers(response.headers)["WWW-Authenticate"])


@requirement("AUTH-03", "AUTH-05", "AUTH-09", "AUTH-12", "M:AUTH-28", "M:HTTP-13", "SHTTP-06")
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_without_a_token_nothing_is_done(ask: Ask, calls: List[str], verb: str) -> None:
    request = call("whoami") if verb == "POST" else get("/mcp", verb)
    for given in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "ada-1"}):
        refused = ask(with_token(request, None, **given))
        assert (refused.status, challenge(refused)) == (401, f'Bearer scope="mcp", {WHERE}')
    for token, reason in (
        ("none-such", "the token is not valid"),
        ("old-1", "the token has expired"),
    ):
        refused = ask(with_token(request, token))
        wanted = f'Bearer error="invalid_token", error_description="{reason}", scope="mcp", {WHERE}'
        assert (refused.status, challenge(refused)) == (401, wanted)
    poor = ask(with_token(request, "poor-1"))
    assert poor.status == 403 and challenge(poor).startswith('Bearer error="insufficient_scope"')
    assert ask(with_token(request, "a b")).status == 400
    assert not calls


@requirement("M:HTTP-35", "AUTH-15")
def test_a_token_is_known_to_the_handler_and_wanted_each_time(ask: Ask) -> None:
    answered = ask(with_token(call("whoami"), "ada-1"))
    assert (answered.status, json.loads(answered.body)["result"]["content"][0]["text"]) == (
        200,
        "ada app mcp",
    )
    assert b"bob app files mcp" in ask(with_token(call("whoami"), "bob-1")).body
    assert ask(call("whoami")).status == 401


@requirement("AUTH-07", "M:AUTH-29")
def test_no_handler_sees_the_token(server: Server, ask: Ask) -> None:
    names = json.loads(ask(with_token(call("headers"), "ada-1")).body)["result"]["content"][0][
        "text"
    ].split()
    assert "mcp-protocol-version" in names and "authorization" not in names
    assert ask(with_token(call("headers"), "ada-1")).status == 200
    with closing(
        guarded([], auth=None)
    ) as server:  # without a verifier, the handler can verify the token
        assert b"authorization" in server.handle_http(with_token(call("headers"), "x")).body


def test_a_token_in_the_url_does_not_count(ask: Ask) -> None:
    request = call("whoami")
    assert (
        ask(
            HttpRequest("POST", "/mcp?access_token=ada-1", dict(request.headers), request.body)
        ).status
        == 401
    )


@requirement("AUTH-08", "AUTH-10", "AUTH-11", "M:AUTH-2", "M:AUTH-3", "M:AUTH-32")
@pytest.mark.parametrize("path", [WELL_KNOWN, f"{WELL_KNOWN}/mcp"])
def test_metadata_about_tokens_is_public(ask: Ask, path: str) -> None:
    found = ask(get(path))
    assert found.status == 200 and Headers(found.headers)["Content-Type"] == "application/json"
    assert json.loads(found.body) == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["mcp", "files"],
    }
    assert ask(get(path, "POST")).status == 405
    for other in (
        "/.well-known/oauth-authorization-server",
        f"{WELL_KNOWN}/",
        f"{WELL_KNOWN}/other",
    ):
        assert ask(get(other)).status == 404
    assert ask(get(path, "HEAD")).status == 200


@pytest.mark.parametrize(
    ("script", "path"), [(WELL_KNOWN, "/mcp"), (WELL_KNOWN, ""), ("", WELL_KNOWN)]
)
def test_a_host_may_mount_the_metadata_by_itself(server: Server, script: str, path: str) -> None:
    status, headers, body = whole(Host(server.wsgi(), SCRIPT_NAME=script)(get(path)))
    assert (status, headers["Content-Length"]) == (200, str(len(body)))
    assert json.loads(body)["resource"] == RESOURCE


@requirement("AUTH-04", "AUTH-13", "AUTH-14", "M:AUTH-30", "M:AUTH-46", "SEC-05")
@pytest.mark.parametrize("era", ["alone", "session", "array"])
def test_a_tool_may_need_more_scopes(server: Server, calls: List[str], era: str) -> None:
    def erase(token: str) -> HttpResponse:
        headers: Dict[str, str] = {"Authorization": f"Bearer {token}"}
        if era == "alone":
            return server.handle_http(with_token(call("erase"), token))
        body: Any = message("tools/call", {"name": "erase"}, 7)
        revision = "2025-03-26" if era == "array" else "2025-11-25"
        hello = {
            "protocolVersion": revision,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = server.handle_http(post(message("initialize", hello), headers))
        headers["Mcp-Session-Id"] = Headers(opened.headers)["Mcp-Session-Id"]
        other = message("tools/call", {"name": "whoami"}, 8)
        return server.handle_http(post([other, body] if era == "array" else body, headers))

    for _ in range(2):
        refused = erase("ada-1")
        error = 'error="insufficient_scope", error_description="the token lacks a scope"'
        assert (refused.status, challenge(refused)) == (
            403,
            f'Bearer {error}, scope="mcp files", {WHERE}',
        )
    assert not calls
    assert json.loads(refused.body)["id"] == (1 if era == "alone" else 7)
    assert b"erased" in erase("ada-2").body


@requirement("M:XH-27", "M:AUTH-28")
def test_the_body_says_which_tool_is_called_and_no_header(server: Server, calls: List[str]) -> None:
    core = core_of(server)
    assert (
        serve(core, with_token(call("erase", headers={"Mcp-Name": "whoami"}), "ada-1")).status
        == 400
    )
    body = message("tools/call", {"name": "erase"})
    assert Signed(core, "ada-1").send(body, Mcp_Name="whoami").status == 403
    assert not calls


class Signed(Shaken):
    """A client that has shaken hands, by a token."""

    def __init__(self, core: Any, token: str) -> None:
        self.core, self.token, self.headers = core, token, {}
        self.headers["Mcp-Session-Id"] = self.send(HELLO).headers["Mcp-Session-Id"]
        assert self.send(message("notifications/initialized", id=None)).status == 202

    def send(self, body: Any, **headers: Any) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return serve(self.core, with_token(post(body, self.headers, **given), self.token))


@requirement("SHTTP-72", "SHTTP-73", "AUTH-15")
def test_a_session_belongs_to_the_principal_that_opened_it(server: Server) -> None:
    core = core_of(server)
    session = Signed(core, "ada-1").headers
    ping = post(message("ping"), session)
    assert serve(core, ping).status == 401
    for foreign in ("bob-1", "ada-other"):  # another user, and another program of the same user
        for request in (ping, get("/mcp", **session), get("/mcp", "DELETE", **session)):
            told = serve(core, with_token(request, foreign))
            assert (told.status, told.json["error"]["message"][:13]) == (404, "the session i")
        array = post([message("ping")], session)
        assert serve(core, with_token(array, foreign)).status == 404
    for own in ("ada-1", "ada-2"):  # a newer token of the same client
        assert serve(core, with_token(ping, own)).status == 200
    assert serve(core, with_token(get("/mcp", "DELETE", **session), "ada-2")).status == 200


@requirement("SHTTP-73")
def test_a_stream_can_be_resumed_only_by_its_principal(server: Server) -> None:
    core = core_of(server)
    ada, bob = Signed(core, "ada-1"), Signed(core, "bob-1")
    params = {"name": "count", "arguments": {}, "_meta": {"progressToken": 1}}
    answered = ada.request("tools/call", params)
    event = next(each.id for each in answered.events if each.id)
    resumed = {"Last-Event-ID": event}
    assert serve(core, with_token(get("/mcp", **bob.headers, **resumed), "bob-1")).status == 400
    assert serve(core, with_token(get("/mcp", **ada.headers, **resumed), "bob-1")).status == 404
    assert (
        b"counted" in serve(core, with_token(get("/mcp", **ada.headers, **resumed), "ada-2")).body
    )


@requirement("M:AUTH-42")
def test_the_state_of_a_question_belongs_to_its_principal(server: Server) -> None:
    capabilities = {"elicitation": {"form": {}}}
    asked = server.handle_http(with_token(call("name", capabilities=capabilities), "ada-1"))
    state = json.loads(asked.body)["result"]["requestState"]
    answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    again = {"name": "name", "arguments": {}, "requestState": state, "inputResponses": answers}

    def come_back(token: str) -> Any:
        request = alone("tools/call", again, capabilities=capabilities)
        return json.loads(server.handle_http(with_token(request, token)).body)

    for foreign in ("bob-1", "ada-other"):
        assert come_back(foreign)["error"]["code"] == -32602
    assert come_back("ada-2")["result"]["content"][0]["text"] == "Ada"


@requirement("HSSE-08")
def test_both_paths_of_the_older_transport_want_the_token(server: Server, calls: List[str]) -> None:
    sse = SseServer(server.connect, registry_of(server), HttpOptions(), 10, known_tokens())
    try:
        assert serve_older(sse, get("/sse")).status == 401
        assert serve_older(sse, get(WELL_KNOWN)).status == 200
        client = Old(sse, Authorization="Bearer ada-1")
        client.open()
        token = client.headers.pop("Authorization")
        refused = client.post(message("ping", id=5))
        client.headers["Authorization"] = token
        assert (refused.status, refused.headers["WWW-Authenticate"]) == (
            401,
            f'Bearer scope="mcp", {WHERE}',
        )
        assert client.post(message("ping", id=5), Authorization="Bearer bob-1").status == 404
        assert "ada app mcp" in str(client.request("tools/call", {"name": "whoami"}))
        lacking = client.request("tools/call", {"name": "erase"}, 2)
        assert lacking["error"]["message"] == "erase needs a token with the scopes files"
        assert "erase" not in calls
        client.headers["Authorization"] = "Bearer ada-2"
        assert "erased" in str(client.request("tools/call", {"name": "erase"}, 3))
    finally:
        sse.close()


def serve_older(sse: SseServer, request: HttpRequest) -> Any:
    return serve(sse, request)  # type: ignore[arg-type]


@requirement("AUTH-01", "AUTH-02", "M:AUTH-1", "STDIO-09", "M:STD-18")
def test_in_memory_and_over_stdio_no_token_is_required(server: Server) -> None:
    with minimcp.connect(server) as client:
        assert client.call_tool("erase").text == "erased"
        with pytest.raises(minimcp.ToolError, match="nobody"):
            client.call_tool("whoami")


def test_scopes_without_auth_are_refused_over_http(calls: List[str]) -> None:
    with closing(guarded(calls, auth=None)) as server:
        told = server.handle_http(call("erase"))
        assert (told.status, json.loads(told.body)["error"]["code"]) == (400, -32600)
    assert not calls


def test_our_client_brings_a_token(server: Server) -> None:
    with server.start_http() as running:
        for revision in ("2025-11-25", NEWEST):
            with minimcp.connect(running.url, auth="ada-2", revision=revision) as client:
                assert client.call_tool("whoami").text == "ada app files mcp"
        with pytest.raises(minimcp.AuthorizationError):
            minimcp.connect(running.url, auth="none-such")


def test_values_that_auth_rejects() -> None:
    with pytest.raises(TypeError, match="auth must be a minimcp.Bearer") as caught:
        Server("x", auth="my-secret")  # type: ignore[arg-type]
    assert "my-secret" not in str(caught.value)
    server = Server("x")
    for scopes in ("read", ["a b"], [1], ['"']):
        with pytest.raises((TypeError, ValueError), match="scope"):
            server.add_tool(lambda: 1, name="t", scopes=scopes)  # type: ignore[arg-type]


# ------------------------------------------------------------ pages in browsers


@pytest.fixture
def open_server(calls: List[str]) -> Iterator[Server]:
    with closing(guarded(calls, http=HttpOptions(allowed_origins=[PAGE]))) as server:
        yield server


def preflight(origin: str, path: str = "/mcp") -> HttpRequest:
    return get(
        path,
        "OPTIONS",
        Origin=origin,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,content-type,mcp-protocol-version",
    )


def cors_of(response: HttpResponse) -> Dict[str, str]:
    return {
        name: value
        for name, value in response.headers
        if name.startswith("Access-Control") or name == "Vary"
    }


SHOWN = {
    "Access-Control-Allow-Origin": PAGE,
    "Vary": "Origin",
    "Access-Control-Expose-Headers": "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate",
}


def test_a_browser_may_ask_for_pages_that_are_named(open_server: Server) -> None:
    told = open_server.handle_http(preflight(PAGE))
    assert (told.status, told.body) == (204, b"")
    assert cors_of(told) == {
        **SHOWN,
        "Access-Control-Allow-Methods": "GET, POST, DELETE",
        "Access-Control-Max-Age": "7200",
        "Access-Control-Allow-Headers": "authorization,content-type,mcp-protocol-version",
    }
    for other in (preflight("https://evil.example"), preflight("null")):
        refused = open_server.handle_http(other)
        assert (refused.status, cors_of(refused)) == (403, {})
    local = open_server.handle_http(
        preflight("http://localhost:3000")
    )  # it is admitted as always, but gets no CORS headers
    assert (local.status, cors_of(local)) == (401, {})


def test_every_response_is_shown_to_the_page(open_server: Server) -> None:
    for request, status in (
        (with_token(call("whoami"), "ada-1"), 200),
        (call("whoami"), 401),
        (with_token(call("whoami"), "poor-1"), 403),
        (with_token(call("erase"), "ada-1"), 403),
        (get("/nothing"), 404),
        (get(WELL_KNOWN), 200),
        (with_token(get("/mcp", "PUT"), "ada-1"), 405),
    ):
        response = open_server.handle_http(with_token(request, None, Origin=PAGE))
        assert (response.status, cors_of(response)) == (status, SHOWN)
        assert cors_of(open_server.handle_http(request)) == {}


def test_tokens_are_required_with_sockets_streams_and_wsgi(open_server: Server) -> None:
    request = with_token(call("count", token=1), "ada-1", Origin=PAGE)
    status, headers, body = whole(Host(validator(open_server.wsgi()))(preflight(PAGE)))
    assert (status, body, "Content-Length" in headers) == (204, b"", False)
    status, headers, body = whole(Host(open_server.wsgi())(request))
    assert (status, headers["Content-Type"]) == (200, "text/event-stream")
    assert cors_of(HttpResponse(status, list(headers.items()))) == SHOWN
    with open_server.start_http() as running:
        refused = with_token(call("whoami"), None, Origin=PAGE)
        for each, wanted in ((request, 200), (refused, 401), (preflight(PAGE), 204)):
            response = over_a_socket(running.port, each)
            assert response.status == wanted
            assert SHOWN.items() <= cors_of(response).items()


def test_any_page(calls: List[str]) -> None:
    with closing(guarded(calls, http=HttpOptions(allowed_origins=["*"]))) as server:
        assert cors_of(server.handle_http(preflight("null")))["Access-Control-Allow-Origin"] == "*"
        odd = get(
            "/mcp",
            "OPTIONS",
            Origin=PAGE,
            Access_Control_Request_Method="POST",
            Access_Control_Request_Headers="a;b",
        )
        assert "Access-Control-Allow-Headers" not in cors_of(server.handle_http(odd))
