"""Access by caller: scopes that a request needs, and entries that only some callers see."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Callable, Dict, Iterator, List, Optional
from urllib.parse import quote

import pytest

import minimcp
from minimcp import Bearer, Context, HttpOptions, HttpRequest, HttpResponse, InvalidParams, Server
from minimcp.http.headers import Headers
from minimcp.http.legacy_sse import SseServer

from ..inside import config_of, registry_of
from ..support import WAIT, eventually
from .http_app import NEWEST, Shaken, alone, call, core_of, message, post, serve
from .test_authorization import get, over_a_socket, with_token
from .test_shared_sessions import SharedMemory
from .test_sse_server import Old

requirement = pytest.mark.requirement

RESOURCE, ISSUER = "https://mcp.example.com/mcp", "https://as.example.com"
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
P = "mcp:conformance:"
OPERATIONS = {
    "tool": ("tools/call", {"name": "test_simple_text"}, ["tools:call", "tools:test_simple_text"]),
    "resource": (
        "resources/read",
        {"uri": "test://static-text"},
        ["resources:read", "resources:static"],
    ),
    "template": (
        "resources/read",
        {"uri": "test://template/123/data"},
        ["resources:read", "resources:template:123"],
    ),
    "prompt": (
        "prompts/get",
        {"name": "test_simple_prompt"},
        ["prompts:get", "prompts:test_simple_prompt"],
    ),
}
EVERY_SCOPE = sorted({P + scope for _, _, scopes in OPERATIONS.values() for scope in scopes})
LOW, FULL = "mcp-conformance-scope-low", "mcp-conformance-scope-full"
FIXTURE: Dict[str, Dict[str, Any]] = {
    LOW: {"sub": "low", "scope": f"{P}baseline"},
    FULL: {"sub": "full", "scope": " ".join([f"{P}baseline", *EVERY_SCOPE])},
}

Ask = Callable[[HttpRequest], HttpResponse]


def bearer_of(tokens: Dict[str, Dict[str, Any]], **options: Any) -> Bearer:
    return Bearer.static(tokens, resource=RESOURCE, authorization_servers=[ISSUER], **options)


def conformance(ran: List[str], **options: Any) -> Server:
    """The fixture of the scenario `sep-2350-server-scope-challenge` of the official suite."""
    server = Server("conformance", auth=bearer_of(FIXTURE, optional=True), **options)

    @server.tool(scopes=[f"{P}tools:call", f"{P}tools:test_simple_text"])
    def test_simple_text() -> str:
        ran.append("tool")
        return "This is a simple text response for testing."

    @server.resource("test://static-text", scopes=[f"{P}resources:read", f"{P}resources:static"])
    def static_text() -> str:
        ran.append("resource")
        return "text"

    @server.resource(
        "test://template/{id}/data",
        scopes=lambda id: [f"{P}resources:read", f"{P}resources:template:{id}"],
    )
    def data(id: str) -> str:
        ran.append("template")
        return id

    @server.prompt(scopes=[f"{P}prompts:get", f"{P}prompts:test_simple_prompt"])
    def test_simple_prompt() -> str:
        ran.append("prompt")
        return "prompt"

    @server.tool
    def free() -> str:
        return "free"

    return server


def echo(x: str) -> str:
    return x


class Signed(Shaken):
    """A client that has shaken hands, by a token that may change."""

    def __init__(self, server: Server, token: str, revision: str = "2025-11-25") -> None:
        self.core, self.token, self.headers = core_of(server), token, {}
        info = {"name": "test", "version": "1"}
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        opened = self.send(message("initialize", hello, 0))
        self.headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
        assert self.send(message("notifications/initialized", id=None)).status == 202

    def send(self, body: Any, **headers: Any) -> Any:
        return serve(self.core, with_token(post(body, self.headers), self.token))


def parts(challenge: str) -> Dict[str, str]:
    """The parameters of a challenge."""
    scheme, _, rest = challenge.partition(" ")
    assert scheme == "Bearer"
    return {
        name.strip(): value.strip('"')
        for name, _, value in (each.partition("=") for each in rest.split(", "))
    }


def challenge_of(response: HttpResponse) -> Dict[str, str]:
    return parts(Headers(response.headers)["WWW-Authenticate"])


@pytest.fixture(params=["bundled", "wsgi", "json"])
def ask(request: Any) -> Iterator[Any]:
    """Sends requests to the server of the fixture, in the ways that they may come."""
    ran: List[str] = []
    options = {"http": HttpOptions(json_response=True)} if request.param == "json" else {}
    with closing(conformance(ran, **options)) as server:
        if request.param == "bundled":
            with server.start_http() as running:
                yield lambda asked: over_a_socket(running.port, asked), ran
        else:
            yield lambda asked: server.handle_http(asked), ran


@requirement("SCOPE-1", "SCOPE-2", "SCOPE-3", "SCOPE-4", "SCOPE-5", "SCOPE-8", "SCOPE-15")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_scenario_of_the_official_suite(ask: Any, operation: str) -> None:
    send, ran = ask
    method, params, scopes = OPERATIONS[operation]
    for _ in range(2):  # the same request needs the same scopes
        refused = send(with_token(alone(method, params), LOW))
        assert refused.status == 403
        found = challenge_of(refused)
        assert found["error"] == "insufficient_scope"
        assert found["resource_metadata"] == METADATA
        assert sorted(found["scope"].split()) == sorted(P + scope for scope in scopes)
        assert json.loads(refused.body)["error"]["code"] == -32600
    assert ran == []
    answered = send(with_token(alone(method, params), FULL))
    assert (answered.status, "error" in json.loads(answered.body)) == (200, False)
    assert ran == [operation]
    assert json.loads(send(call("free")).body)["result"]["content"][0]["text"] == "free"


@requirement("SCOPE-9")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_token_what_needs_scopes_answers_401(operation: str) -> None:
    ran: List[str] = []
    with closing(conformance(ran)) as server:
        method, params, scopes = OPERATIONS[operation]
        refused = server.handle_http(alone(method, params))
        assert refused.status == 401
        found = challenge_of(refused)
        assert found["scope"].split() == [P + scope for scope in scopes] and "error" not in found
        assert server.handle_http(with_token(alone(method, params), "none-such")).status == 401
        assert server.handle_http(call("free")).status == 200
        basic = with_token(call("free"), None, Authorization="Basic eDp5")
        assert server.handle_http(basic).status == 401
    assert ran == []


@requirement("SCOPE-9", "SCOPE-10")
def test_the_first_challenge_and_the_metadata_name_different_scopes() -> None:
    bearer = bearer_of({"t": {"sub": "ada", "scope": "mcp"}}, scopes=["mcp"])
    with closing(Server("s", auth=bearer)) as server:
        server.add_tool(lambda: "", name="a", scopes=["a"])
        server.add_tool(echo, name="b", scopes=lambda x: ["computed"])
        server.add_tool(lambda: "", name="c", scopes=["secret"], visible=lambda ctx: False)
        server.add_prompt(lambda: "", name="p", scopes=["prompt"])
        server.add_resource(lambda: "", "a:b", name="r", scopes=["resource", "a"])
        assert challenge_of(server.handle_http(call("a")))["scope"] == "mcp"
        document = json.loads(server.handle_http(get(WELL_KNOWN)).body)
        assert document["scopes_supported"] == ["mcp", "a", "prompt", "resource"]


TOKENS: Dict[str, Dict[str, Any]] = {
    "none": {"sub": "ada", "client_id": "app"},
    "read": {"sub": "ada", "client_id": "app", "scope": "read"},
    "all": {"sub": "ada", "client_id": "app", "scope": "read p:7 tool"},
    "staff": {"sub": "eve", "client_id": "app", "scope": "read p:7 tool", "groups": ["staff"]},
    "admin": {"sub": "root", "client_id": "app", "scope": "admin"},
}


def of_staff(ctx: Context) -> bool:
    return ctx.auth is not None and "staff" in ctx.auth.claims.get("groups", ())


def tickets(**options: Any) -> Server:
    bearer = Bearer(
        TOKENS_WITH_AUDIENCE.get,
        resource=RESOURCE,
        authorization_servers=[ISSUER],
        implies={"admin": ["read", "p:7", "tool"]},
    )
    server = Server("tickets", **{"auth": bearer, **options})

    @server.resource(
        "tickets://{project}/all",
        scopes=lambda project: ["read", f"p:{project}"],
        complete={"project": ["7", "8"]},
    )
    def all_of(project: int) -> str:
        return f"all of {project}"

    @server.prompt(scopes=["read"], complete={"mood": ["calm"]})
    def ask(mood: str) -> str:
        return mood

    @server.tool(scopes=lambda amount, ctx: ["tool"] if amount > 9 and ctx.auth else [])
    def pay(amount: int = 5) -> str:
        return f"paid {amount}"

    @server.tool
    def read(uri: str, ctx: Context) -> str:
        return str(ctx.read_resource(uri).contents[0].text)

    @server.tool(visible=of_staff, headers={"who": "Who"})
    def fire(who: str) -> str:
        return f"fired {who}"

    @server.resource("staff://list", visible=of_staff)
    def staff() -> str:
        return "eve"

    @server.resource("staff://{name}", visible=of_staff, complete={"name": ["eve", "secret"]})
    def person(name: str) -> str:
        return name

    @server.prompt(visible=of_staff, complete={"who": ["eve"]})
    def dismiss(who: str) -> str:
        return who

    @server.tool
    def unrelated() -> str:
        return "near"

    return server


TOKENS_WITH_AUDIENCE = {name: {**claims, "aud": RESOURCE} for name, claims in TOKENS.items()}


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(tickets()) as server:
        yield server


def result(response: HttpResponse) -> Any:
    return json.loads(response.body)["result"]


def listed(server: Server, token: str, method: str = "tools/list", **params: Any) -> List[str]:
    found = result(server.handle_http(with_token(alone(method, params), token)))
    (items,) = [each for each in found.values() if isinstance(each, list)]
    return [each.get("name") for each in items]


COMPLETE = {"argument": {"name": "mood", "value": ""}, "ref": {"type": "ref/prompt", "name": "ask"}}
ROWS = [
    ("tools/call", {"name": "pay", "arguments": {"amount": 10}}, "tool"),
    ("tools/call", {"name": "pay", "arguments": {"amount": 1}}, None),
    ("tools/call", {"name": "pay"}, None),
    ("resources/read", {"uri": "tickets://7/all"}, "read p:7"),
    ("resources/read", {"uri": "tickets://%37/all"}, "read p:7"),
    ("resources/read", {"uri": "TICKETS://7/all"}, "read p:7"),
    ("prompts/get", {"name": "ask", "arguments": {"mood": "x"}}, "read"),
    ("completion/complete", COMPLETE, "read"),
    (
        "completion/complete",
        {
            "argument": {"name": "project", "value": ""},
            "ref": {"type": "ref/resource", "uri": "tickets://{project}/all"},
            "context": {"arguments": {"project": "7"}},
        },
        "read p:7",
    ),
    (
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": ["tickets://7/all", "other://x"]}},
        "read p:7",
    ),
]


@requirement("SCOPE-1", "SCOPE-6", "SCOPE-7", "SCOPE-14")
@pytest.mark.parametrize("method, params, scopes", ROWS)
def test_what_each_method_needs(server: Server, method: str, params: Any, scopes: Any) -> None:
    request = alone(method, params)
    if scopes is not None:
        refused = server.handle_http(with_token(request, "none"))
        assert (refused.status, challenge_of(refused)["scope"]) == (403, scopes)
    if method == "subscriptions/listen":
        return  # a stream that stays open
    for token in ("all", "admin", *(["none"] if scopes is None else [])):
        answered = server.handle_http(with_token(request, token))
        assert (answered.status, "result" in json.loads(answered.body)) == (200, True)


@requirement("SCOPE-7")
def test_a_template_needs_the_scopes_of_the_value_that_its_handler_gets() -> None:
    seen: List[str] = []
    tokens = {"t": {"sub": "ada", "scope": "s:b"}}
    with closing(Server("s", auth=bearer_of(tokens))) as server:

        @server.resource("x://{+path}", scopes=lambda path: [f"s:{quote(path, safe='')[:50]}"])
        def read(path: str) -> str:
            seen.append(path)
            return path

        def ask(uri: str) -> HttpResponse:
            return server.handle_http(with_token(alone("resources/read", {"uri": uri}), "t"))

        assert ask("x://b").status == 200
        assert seen == ["b"]
        for path, scope in (
            ("a%2Fb", "s:a%2Fb"),
            ("a/b", "s:a%2Fb"),
            ("%C3%A9", "s:%C3%A9"),
            ("b" * 10_000, "s:" + "b" * 50),
            ("b%20", "s:b%20"),
        ):
            refused = ask(f"x://{path}")
            assert (refused.status, challenge_of(refused)["scope"]) == (403, scope)
        assert ask("x://../b").status != 200
        assert seen == ["b"]


def test_wrong_arguments_are_reported_by_the_handler(server: Server) -> None:
    for arguments in ({"amount": "x"}, {"other": 1}):
        asked = call("pay", arguments)
        answered = result(server.handle_http(with_token(asked, "none")))
        assert answered["isError"] is True
    asked = alone("resources/read", {"uri": "tickets://x/all"})
    assert json.loads(server.handle_http(with_token(asked, "none")).body)["error"]
    assert server.handle_http(with_token(call("pay", [1]), "none")).status == 400


@requirement("SCOPE-14")
def test_a_call_that_becomes_a_task_needs_its_scopes_and_is_hidden() -> None:
    ran: List[str] = []
    with closing(conformance(ran, extensions=[minimcp.Tasks()])) as server:

        @server.tool(task="required", scopes=[f"{P}later"])
        def later() -> str:
            ran.append("later")
            return "later"

        @server.tool(task="required", visible=of_staff)
        def hidden() -> str:
            ran.append("hidden")
            return "hidden"

        supports = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        refused = server.handle_http(with_token(call("later", capabilities=supports), FULL))
        assert (refused.status, challenge_of(refused)["scope"]) == (403, f"{P}later")
        unknown = server.handle_http(with_token(call("hidden", capabilities=supports), FULL))
        assert json.loads(unknown.body)["error"]["message"] == "Unknown tool: hidden"
        with minimcp.connect(server, extensions=[minimcp.Tasks()], timeout=WAIT) as client:
            with pytest.raises(InvalidParams, match="Unknown tool: hidden"):
                client.start_task("hidden")
            assert client.call_tool("later").text == "later"
    assert ran == ["later"]


@requirement("SCOPE-14")
def test_a_subscription_of_a_session_needs_the_scopes_of_its_resource(server: Server) -> None:
    session = Signed(server, "none")
    subscribe = message("resources/subscribe", {"uri": "tickets://7/all"}, 3)
    assert session.send(subscribe).status == 403
    session.token = "all"
    assert session.send(subscribe).answer["result"] == {}
    for uri in ("staff://list", "unknown://list"):  # nothing tells which of them exists
        params = message("resources/subscribe", {"uri": uri}, 4)
        assert session.send(params).answer["result"] == {}


@requirement("SCOPE-16")
def test_an_array_runs_as_a_whole_or_not_at_all() -> None:
    ran: List[str] = []
    with closing(conformance(ran)) as server:
        session = Signed(server, LOW, "2025-03-26")
        body = [message("tools/call", {"name": "free"}, 1)]
        assert session.send(body).status == 200
        for method, params, _ in OPERATIONS.values():
            assert session.send([*body, message(method, params, 2)]).status == 403
        body = [message("tools/call", {"name": name}, name) for name in ("free", "unknown")]
        assert session.send(body).status == 200
    assert ran == []


@requirement("SCOPE-17")
def test_what_a_handler_reads_needs_the_scopes_of_the_caller(server: Server) -> None:
    def read(token: str, uri: str = "tickets://7/all") -> Any:
        return json.loads(server.handle_http(with_token(call("read", {"uri": uri}), token)).body)

    assert read("all")["result"]["content"][0]["text"] == "all of 7"
    assert "tickets://{project}/all needs a token with the scopes read p:7" in str(read("none"))
    for uri in ("staff://list", "staff://eve"):
        assert read("staff", uri)["result"]["content"][0]["text"] == "eve"
        assert "Resource not found" in str(read("all", uri))


@requirement("SCOPE-17")
def test_scopes_apply_through_a_server_that_mounts_another(server: Server) -> None:
    outer = Server("outer", auth=config_of(server).auth)
    outer.mount(server, prefix="in")
    with closing(outer):
        server.add_tool(lambda: "late", name="late", scopes=["late"])
        for name, scopes in (("in__late", "late"), ("in__pay", "tool")):
            asked = call(name, {"amount": 10} if name == "in__pay" else {})
            refused = outer.handle_http(with_token(asked, "none"))
            assert (refused.status, challenge_of(refused)["scope"]) == (403, scopes)
        assert "in__fire" in listed(outer, "staff") and "in__fire" not in listed(outer, "all")
        asked = with_token(call("in__fire", {"who": "x"}), "all")
        assert b"Unknown tool: in__fire" in outer.handle_http(asked).body


def test_rights_apply_through_two_servers() -> None:
    """The outermost server has no rights of its own, and a server below it hides by name."""
    inner = Server("inner", visible=lambda ctx, kind, name: name != "secret")
    middle = Server("middle")
    outer = Server("outer", auth=bearer_of(TOKENS))
    outer.mount(middle, prefix="m")
    middle.mount(inner, prefix="i")
    with closing(outer):
        for name in ("secret", "shown"):
            inner.add_tool(lambda: "x", name=name)
        inner.add_tool(lambda: "", name="staff", visible=of_staff, scopes=["tool"])
        assert listed(outer, "none") == ["m__i__shown"]
        assert listed(outer, "staff") == ["m__i__shown", "m__i__staff"]
        for token in ("none", "staff"):
            unknown = outer.handle_http(with_token(call("m__i__secret"), token))
            assert b"Unknown tool: m__i__secret" in unknown.body
        assert outer.handle_http(with_token(call("m__i__staff"), "staff")).status == 200


@requirement("SCOPE-17")
def test_scopes_and_visibility_of_the_older_transport(server: Server) -> None:
    sse = SseServer(server.connect, registry_of(server), HttpOptions(), 10, config_of(server).auth)
    try:
        client = Old(sse, Authorization="Bearer none")
        client.open()

        def ask(method: str, params: Any, id: int) -> str:
            return str(client.request(method, params, id))

        needs = "pay needs a token with the scopes tool"
        assert needs in ask("tools/call", {"name": "pay", "arguments": {"amount": 10}}, 1)
        assert "paid 1" in ask("tools/call", {"name": "pay", "arguments": {"amount": 1}}, 2)
        assert "Unknown tool" in ask("tools/call", {"name": "fire"}, 3)
        assert "fire'" not in ask("tools/list", {}, 4).replace("unrelated", "")
    finally:
        sse.close()


@requirement("SCOPE-19")
@pytest.mark.parametrize(
    "scopes",
    [
        lambda: 1 / 0,
        lambda: "read",
        lambda: ["a b"],
        lambda: None,
        lambda: [1],
        lambda ctx: ctx.elicit("?", {}),
        lambda: (_ for _ in ()).throw(InvalidParams("odd")),
    ],
)
def test_scopes_that_cannot_be_computed_reject_the_request(
    scopes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ran: List[int] = []
    with closing(Server("s", auth=bearer_of({"t": {"sub": "ada"}}))) as server:
        server.add_tool(lambda: ran.append(1), name="tool", scopes=scopes)
        refused = server.handle_http(with_token(call("tool"), "t"))
        assert refused.status == 500
        assert "scopes of tools/call cannot be computed" in caplog.text
    assert ran == []


@requirement("SCOPE-20")
def test_scopes_do_not_apply_over_stdio(server: Server) -> None:
    with minimcp.connect(server, timeout=WAIT) as client:
        assert client.call_tool("pay", {"amount": 10}).text == "paid 10"
        assert client.read_resource("tickets://7/all").text == "all of 7"
        assert client.get_prompt("ask", {"mood": "x"}).messages[0].content.text == "x"


@pytest.mark.parametrize(
    "scopes, words",
    [
        (lambda other: [], "the handler has no parameter 'other'"),
        (lambda *names: [], "names"),
        (lambda **names: [], "names"),
        ("read", "a list of scopes or a function"),
        (["a b"], "without spaces"),
        (7, "a list of scopes or a function"),
    ],
)
def test_scopes_that_cannot_be_registered(scopes: Any, words: str) -> None:
    server = Server("s")
    for add in (
        lambda: server.add_tool(echo, name="t", scopes=scopes),
        lambda: server.add_resource(echo, "a:{x}", name="t", scopes=scopes),
        lambda: server.add_prompt(echo, name="t", scopes=scopes),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            add()

    async def later() -> List[str]:
        return []

    with pytest.raises(TypeError, match="async"):
        server.add_tool(lambda: "", name="t", scopes=later)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='cache_scope="public" contradicts scopes='):
        server.add_resource(lambda: "", "a:b", name="r", scopes=["a"], cache_scope="public")


# ------------------------------------------------------------ visible=


LISTS = {
    "tools/list": "fire",
    "resources/list": "staff",
    "resources/templates/list": "person",
    "prompts/list": "dismiss",
}


@requirement("SCOPE-18")
@pytest.mark.parametrize("method", LISTS)
def test_a_list_has_what_the_caller_may_see(server: Server, method: str) -> None:
    name = LISTS[method]
    assert name in listed(server, "staff", method)
    assert name not in listed(server, "all", method)
    found = result(server.handle_http(with_token(alone(method), "all")))
    assert found["cacheScope"] == "private"


HIDDEN = [
    ("tools/call", {"name": "fire"}, {"name": "fir2"}),
    (
        "tools/call",
        {"name": "fire", "arguments": {"x": 1}},
        {"name": "fir2", "arguments": {"x": 1}},
    ),
    ("tools/call", {"name": "fire", "arguments": [1]}, {"name": "fir2", "arguments": [1]}),
    ("tools/call", {"name": "fire", "arguments": {"who": 1}}, {"name": "fir2", "arguments": {}}),
    ("tools/call", {"name": "fire", "task": {"ttl": "x"}}, {"name": "fir2", "task": {"ttl": "x"}}),
    ("tools/call", {"name": "fire", "requestState": "x"}, {"name": "fir2", "requestState": "x"}),
    ("prompts/get", {"name": "dismiss", "arguments": [1]}, {"name": "dismisz", "arguments": [1]}),
    ("resources/read", {"uri": "staff://list"}, {"uri": "stuff://list"}),
    ("resources/read", {"uri": "STAFF://list"}, {"uri": "STUFF://list"}),
    ("resources/read", {"uri": "staff://a"}, {"uri": "stuff://a"}),
    ("prompts/get", {"name": "dismiss"}, {"name": "dismisz"}),
    (
        "completion/complete",
        {
            "argument": {"name": "name", "value": "s"},
            "ref": {"type": "ref/resource", "uri": "staff://{name}"},
        },
        {
            "argument": {"name": "name", "value": "s"},
            "ref": {"type": "ref/resource", "uri": "stuff://{name}"},
        },
    ),
    (
        "completion/complete",
        {
            "argument": {"name": "who", "value": ""},
            "ref": {"type": "ref/prompt", "name": "dismiss"},
        },
        {
            "argument": {"name": "who", "value": ""},
            "ref": {"type": "ref/prompt", "name": "dismisz"},
        },
    ),
]


@requirement("SCOPE-18")
@pytest.mark.parametrize("method, hidden, unknown", HIDDEN)
@pytest.mark.parametrize("era", ["alone", "session", "mounted"])
def test_a_hidden_entry_looks_like_an_unknown_one(
    server: Server, method: str, hidden: Any, unknown: Any, era: str
) -> None:

    session = Signed(server, "all") if era == "session" else None
    if era == "mounted":
        other = Server("other")
        other.add_prompt(lambda: "", name="other")
        server.mount(other, prefix="other")

    def ask(params: Any) -> Any:
        if session is not None:
            found = session.send(message(method, params, 5))
            return found.status, found.headers, found.body
        answer = server.handle_http(with_token(alone(method, params), "all"))
        return answer.status, dict(answer.headers), answer.body

    def plain(answer: Any, params: Any) -> Any:
        status, headers, body = answer
        text = body.decode().replace("fire", "fir2").replace("staff", "stuff")
        text = text.replace("STAFF", "STUFF")
        headers = {name: value for name, value in headers.items() if name != "Content-Length"}
        return status, headers, text.replace("dismiss", "dismisz")

    assert plain(ask(hidden), hidden) == plain(ask(unknown), unknown)
    assert b"did you mean" not in ask(unknown)[2].replace(b"unrelated", b"")


@requirement("SCOPE-18", "SCOPE-20")
@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
def test_over_stdio_nobody_is_known(server: Server, revision: str) -> None:
    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        assert "fire" not in [tool.name for tool in client.list_tools()]
        with pytest.raises(InvalidParams, match=r"Unknown tool: fire \(-32602\)$"):
            client.call_tool("fire", {"who": "x"})
        with pytest.raises(minimcp.ResourceNotFound):
            client.read_resource("staff://list")
        with pytest.raises(InvalidParams, match="Unknown resource"):
            client.complete("name", "s", template="staff://{name}")


def test_a_hidden_template_does_not_hide_another_one() -> None:
    with closing(Server("s")) as server:
        server.add_resource(lambda: "1", "x://a", name="1", visible=lambda ctx: False)
        server.add_resource(echo, "x://{x}", name="2", visible=lambda ctx: False)
        server.add_resource(echo, "x://{+x}", name="3")
        with minimcp.connect(server, timeout=WAIT) as client:
            assert client.read_resource("x://a").text == "a"


def raises(ctx: Context) -> bool:
    raise KeyError("no")


@pytest.mark.parametrize(
    "visible", [raises, lambda ctx: ctx.elicit("?", {}), lambda ctx: ctx.auth.subject]
)
def test_a_function_that_fails_hides(visible: Any, caplog: pytest.LogCaptureFixture) -> None:
    with closing(Server("s")) as server:
        server.add_tool(lambda: "1", name="tool", visible=visible)
        server.add_tool(lambda: "1", name="other")
        with minimcp.connect(server, timeout=WAIT) as client:
            assert [tool.name for tool in client.list_tools()] == ["other"]
            with pytest.raises(InvalidParams, match="Unknown tool: tool"):
                client.call_tool("tool")
    assert "visible of tool 'tool' failed" in caplog.text


def test_a_server_hides_by_kind_and_name() -> None:
    asked: List[Any] = []

    def visible(ctx: Context, kind: str, name: str) -> bool:
        asked.append((kind, name))
        return "secret" not in name

    with closing(Server("s", visible=visible)) as server:
        server.add_tool(lambda: "1", name="secret")
        server.add_tool(lambda: "1", name="both", visible=lambda ctx: False)
        server.add_tool(lambda: "1", name="shown")
        server.add_resource(echo, "secret:{x}", name="r")
        server.add_prompt(lambda: "", name="secret")
        outer = Server("outer")
        outer.mount(server, prefix="in")
        for each, prefix in ((server, ""), (outer, "in__")):
            with minimcp.connect(each, timeout=WAIT) as client:
                assert [tool.name for tool in client.list_tools()] == [f"{prefix}shown"]
                assert client.list_prompts() == client.list_resource_templates() == []
                with pytest.raises(InvalidParams):
                    client.call_tool(f"{prefix}secret")
        assert {("tool", "secret"), ("resource", "secret:{x}"), ("prompt", "secret")} <= set(asked)
        outer.close()


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"visible": lambda ctx: True}, TypeError, "visible"),
        ({"visible": "staff"}, TypeError, "visible"),
        ({"lists": "some"}, ValueError, '"all" or "usable"'),
        (
            {"visible": lambda a, b, c: True, "list_cache_scope": "public"},
            ValueError,
            "contradicts",
        ),
        ({"lists": "usable", "list_cache_scope": "public"}, ValueError, "contradicts"),
    ],
)
def test_options_of_a_server_that_are_wrong(options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Server("s", **options)


def test_visible_options_that_are_wrong() -> None:
    server = Server("s", list_cache_scope="public")
    with pytest.raises(ValueError, match="list_cache_scope"):
        server.add_tool(lambda: "", name="t", visible=lambda ctx: True)
    server = Server("s")
    for wrong in (lambda: True, lambda a, b: True, "staff", True):
        with pytest.raises(TypeError, match="visible"):
            server.add_tool(lambda: "", name="t", visible=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='cache_scope="public" contradicts visible='):
        server.add_resource(
            lambda: "", "a:b", name="r", visible=lambda ctx: True, cache_scope="public"
        )
    for options in ({}, {"visible": None}):
        with pytest.raises(ValueError, match='cache_scope="public" contradicts visible='):
            Server("s", visible=lambda ctx, kind, name: True).add_resource(
                lambda: "", "a:b", name="r", cache_scope="public", **options
            )
    with pytest.raises(ValueError, match="list_changed: the server has no list"):
        server.list_changed("tool")


def test_lists_have_what_the_token_may_use() -> None:
    with closing(tickets(lists="usable")) as server:
        server.add_tool(lambda: "", name="fixed", scopes=["tool"])
        assert "fixed" in listed(server, "all") and "fixed" in listed(server, "admin")
        assert "fixed" not in listed(server, "none")
        assert "pay" in listed(server, "none")  # computed scopes never hide
        assert listed(server, "none", "prompts/list") == []
        refused = server.handle_http(with_token(call("fixed"), "none"))
        assert refused.status == 403  # it is not hidden
        with minimcp.connect(server, timeout=WAIT) as client:
            assert "fixed" in [tool.name for tool in client.list_tools()]


def test_a_cursor_belongs_to_the_token_of_its_request() -> None:
    """Also after the caller has changed, no page shows an item that this caller must not see, and a
    cursor does not show that a hidden name exists."""
    with closing(Server("s", auth=bearer_of(TOKENS), page_size=2)) as server:
        for number in range(6):
            hidden: Any = {"visible": of_staff} if number % 2 else {}
            server.add_tool(lambda: "", name=f"t{number}", **hidden)

        def page(token: str, cursor: Optional[str] = None) -> Any:
            params = {} if cursor is None else {"cursor": cursor}
            answer = server.handle_http(with_token(alone("tools/list", params), token))
            found = json.loads(answer.body)
            if "error" in found:
                return found["error"]["code"], None
            names = [tool["name"] for tool in found["result"]["tools"]]
            return names, found["result"].get("nextCursor")

        walked: Dict[str, List[str]] = {}
        for token in ("staff", "all"):
            names, cursor = page(token)
            while cursor is not None:
                more, cursor = page(token, cursor)
                names += more
            walked[token] = names
        assert walked == {
            "staff": [f"t{number}" for number in range(6)],
            "all": ["t0", "t2", "t4"],
        }
        _, cursor = page("staff")
        assert cursor == "tools:2:t1"
        assert page("all", cursor)[0] == page("all", "tools:2:unknown")[0] == ["t4"]
        assert page("staff", "tools:1:t4")[0] == ["t5"]
        for wrong in ("tools:7:x", "tools:x:y", "prompts:1:x", "", "tools:4:x"):
            assert page("all", wrong)[0] == -32602
        assert page("all", 7) == (-32602, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("page_size", [None, 3])
def test_no_list_has_a_name_of_another_caller(page_size: Optional[int]) -> None:
    """Many threads, three callers, and a list that changes."""
    tokens = {who: {"sub": who, "scope": ""} for who in ("ada", "bob", "eve")}
    bearer = bearer_of(tokens)
    with closing(Server("s", auth=bearer, page_size=page_size)) as server:

        def of(owner: str) -> Callable[[Context], bool]:
            return lambda ctx: ctx.auth is not None and ctx.auth.subject == owner

        for number in range(12):
            for who in tokens:
                server.add_tool(lambda: "", name=f"{who}-{number}", visible=of(who))
        stop = threading.Event()

        def change() -> None:
            while not stop.is_set():
                server.add_tool(lambda: "", name="bob-late", visible=of("bob"))
                server.remove_tool("bob-late")

        def walk(number: int) -> None:
            who = list(tokens)[number % 3]
            cursor: Any = None
            found: List[str] = []
            while True:
                params = {} if cursor is None else {"cursor": cursor}
                answer = server.handle_http(with_token(alone("tools/list", params), who))
                page = json.loads(answer.body)["result"]
                assert page["cacheScope"] == "private"
                found += [tool["name"] for tool in page["tools"]]
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
            assert {name.partition("-")[0] for name in found} == {who}
            assert len(set(found)) >= 12

        changing = threading.Thread(target=change)
        changing.start()
        try:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(walk, range(300 if page_size is None else 120)))
        finally:
            stop.set()
            changing.join()


def test_rights_are_checked_at_each_request_of_a_session(server: Server) -> None:
    """A session of one principal, with tokens of different rights."""
    tokens: Dict[str, Any] = {
        "new": {"sub": "ada", "client_id": "app", "groups": ["staff"]},
        "old": {"sub": "ada", "client_id": "app"},
    }
    with closing(tickets(auth=bearer_of(tokens))) as server:
        session = Signed(server, "new")
        ask = message("tools/call", {"name": "fire", "arguments": {"who": "x"}}, 3)
        assert b"fired x" in session.send(ask).body
        session.token = "old"
        assert b"Unknown tool: fire" in session.send(ask).body
        assert "fire" not in str(session.send(message("tools/list", {}, 4)).answer).replace(
            "unrelated", ""
        )


# ------------------------------------------------------------ changes


@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
def test_a_change_of_a_hidden_entry_reaches_nobody_else(revision: str) -> None:
    bearer = bearer_of({**TOKENS, "none": {"sub": "none"}})
    with closing(Server("s", auth=bearer)) as server, server.start_http() as running:
        server.add_resource(lambda: "", "staff://list", name="r", visible=of_staff)
        server.add_resource(lambda: "", "free://list", name="f")
        server.add_tool(lambda: "", name="t", visible=of_staff)
        heard: Dict[str, List[str]] = {"staff": [], "all": []}
        clients = {}
        try:
            for token, found in heard.items():
                clients[token] = client = minimcp.connect(
                    running.url,
                    auth=token,
                    revision=revision,
                    timeout=WAIT,
                    on_resource_updated=found.append,
                    on_tools_changed=lambda found=found: found.append("tools"),
                )
                client.subscribe("staff://list")
                client.subscribe("free://list")
            server.resource_updated("staff://list")
            server.resource_updated("free://list")
            server.add_tool(lambda: "", name="late", visible=of_staff)
            assert eventually(lambda: {"free://list", "tools"} <= set(heard["staff"]))
            assert eventually(lambda: "free://list" in heard["all"])
            assert heard["all"] == ["free://list"]
            assert "staff://list" in heard["staff"]
            server.list_changed("tools")
            # In stateless revisions, each stream of the client reports it.
            assert eventually(lambda: set(heard["all"]) == {"free://list", "tools"})
        finally:
            for client in clients.values():
                client.close()


# ------------------------------------------------------------ the client


@requirement("SCOPE-4", "SCOPE-12")
def test_an_anonymous_session_ends_with_a_token() -> None:
    """A client that gets a token later opens another session, because nobody may take over one."""
    with closing(conformance([])) as server, server.start_http() as running:
        tokens: List[Optional[str]] = [None]

        def auth(request: Any) -> Any:
            if tokens[0] is not None:
                request.headers["Authorization"] = f"Bearer {tokens[0]}"
            return request

        with minimcp.connect(
            running.url, auth=auth_base(auth), revision="2025-11-25", timeout=WAIT
        ) as client:
            assert client.call_tool("free").text == "free"
            with pytest.raises(minimcp.AuthorizationError):
                client.call_tool("test_simple_text")
            tokens[0] = FULL
            assert "simple text" in client.call_tool("test_simple_text").text


def auth_base(function: Callable[[Any], Any]) -> Any:
    from requests.auth import AuthBase

    class Given(AuthBase):
        def __call__(self, request: Any) -> Any:
            return function(request)

    return Given()


def test_a_client_does_not_show_the_cached_list_of_another_token() -> None:
    with closing(tickets(list_ttl=60)) as server, server.start_http() as running:
        token = ["staff"]
        with minimcp.connect(running.url, auth=lambda: token[0], timeout=WAIT) as client:
            for who, sees in (("staff", True), ("all", False), ("staff", True), ("none", False)):
                token[0] = who
                for _ in range(2):
                    assert ("fire" in [tool.name for tool in client.list_tools()]) is sees
                    names = [each.name for each in client.list_resources()]
                    assert ("staff" in names) is sees


@pytest.mark.parametrize("make", ["static", "jwt", "introspection"])
def test_a_token_may_be_optional(make: str) -> None:
    given: Dict[str, Any] = {"resource": RESOURCE, "optional": True}
    if make == "static":
        bearer = Bearer.static("t", authorization_servers=[ISSUER], **given)
    elif make == "jwt":
        bearer = Bearer.jwt(ISSUER, **given)
    else:
        given["authorization_servers"] = [ISSUER]
        bearer = Bearer.introspection(f"{ISSUER}/introspect", "id", "secret", **given)
    with closing(Server("s", auth=bearer)) as server:

        @server.tool
        def who(ctx: Context) -> str:
            return str(ctx.auth)

        assert b"None" in server.handle_http(call("who")).body
    with pytest.raises(TypeError, match="optional must be True or False"):
        Bearer.static("t", optional="yes")  # type: ignore[arg-type]


# ------------------------------------------------------------ middleware of lists


@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
def test_middleware_sees_lists(revision: str) -> None:
    seen: List[str] = []
    with closing(Server("s", list_cache_scope="public")) as server:

        @server.middleware(lists=True)
        def access(ctx: Context, call_next: Callable[[], Any]) -> Any:
            seen.append(ctx.method)
            found = call_next()
            if ctx.method == "tools/list":
                found["tools"] = [tool for tool in found["tools"] if tool["name"] != "secret"]
            return found

        @server.middleware(lists=True)
        def inner(ctx: Context, call_next: Callable[[], Any]) -> Any:
            seen.append("inner")
            return call_next()

        @server.middleware
        def calls(ctx: Context, call_next: Callable[[], Any]) -> Any:
            seen.append(f"calls {ctx.method}")
            return call_next()

        for name in ("secret", "shown"):
            server.add_tool(lambda: "1", name=name)
        server.add_prompt(lambda: "", name="p")
        server.add_resource(lambda: "", "a:b", name="r")
        with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
            assert [tool.name for tool in client.list_tools()] == ["shown"]
            assert len(client.list_prompts()) == len(client.list_resources()) == 1
            assert client.list_resource_templates() == []
            assert client.call_tool("shown").text == "1"
            assert seen == [
                *("tools/list", "inner", "prompts/list", "inner", "resources/list", "inner"),
                *("resources/templates/list", "inner", "tools/call", "inner", "calls tools/call"),
            ]
            scopes = [
                client.request(f"{each}/list").get("cacheScope") for each in ("tools", "prompts")
            ]
            assert scopes == (["private", "public"] if revision == NEWEST else [None, None])


def test_middleware_of_lists_that_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Server("s")) as server:
        server.add_tool(lambda: "1", name="tool")
        does: List[Any] = [lambda ctx, call_next: ctx.elicit("?", {})]

        @server.middleware(lists=True)
        def access(ctx: Context, call_next: Callable[[], Any]) -> Any:
            return does[0](ctx, call_next) if ctx.method == "tools/list" else call_next()

        with minimcp.connect(server, timeout=WAIT) as client:
            with pytest.raises(minimcp.InternalError):
                client.list_tools()
            assert "cannot ask the client" in caplog.text
            for wrong in (lambda ctx, call_next: None, lambda ctx, call_next: []):
                does[0] = wrong
                with pytest.raises(minimcp.InternalError):
                    client.list_tools()
            does[0] = lambda ctx, call_next: {"tools": []}
            assert client.list_tools() == []
        for given in ({"lists": 1}, {"list": True}):
            with pytest.raises(TypeError):
                server.middleware(**given)(lambda ctx, call_next: None)
        with pytest.raises(TypeError, match="must take"):
            server.middleware(lists=True)(lambda ctx: None)


# ------------------------------------------------------------ threads, executors and processes


@pytest.mark.parametrize("executor", [None, "serial", "main"])
def test_a_function_that_blocks_does_not_stop_the_connection(executor: Optional[str]) -> None:
    go = threading.Event()
    begun = threading.Event()
    threads: List[str] = []

    def visible(ctx: Context) -> bool:
        begun.set()
        threads.append(threading.current_thread().name)
        return go.wait(WAIT)

    options: Dict[str, Any] = {}
    if executor is not None:
        options["executor"] = minimcp.Serial() if executor == "serial" else executor
    with closing(Server("s")) as server:
        server.add_tool(lambda: "1", name="slow", visible=visible, timeout=WAIT, **options)
        server.add_tool(lambda: "2", name="free")
        with minimcp.connect(server, timeout=WAIT) as client:
            for method, given in ((client.list_tools, ()), (client.call_tool, ("slow",))):
                go.clear()
                begun.clear()
                future = client.submit(method, *given)
                assert begun.wait(WAIT)
                assert client.ping() < WAIT  # while the function blocks
                assert client.call_tool("free").text == "2"
                go.set()
                while executor == "main" and method == client.call_tool and not future.done():
                    server.pump(0.05)
                assert future.result(WAIT)
    assert not any("reader" in name for name in threads)


def test_a_hidden_tool_of_an_executor_stays_hidden() -> None:
    serial = minimcp.Serial()
    with closing(Server("s")) as server:
        server.add_tool(lambda: "1", name="tool", visible=lambda ctx: False, executor=serial)
        for revision in ("2025-11-25", NEWEST):
            with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
                with pytest.raises(InvalidParams, match="Unknown tool: tool"):
                    client.call_tool("tool")


def test_rights_that_end_between_two_rounds_end_the_call() -> None:
    ran: List[int] = []
    rights = {"scope": "write", "groups": ["staff"]}
    claims: Dict[str, Any] = {"sub": "ada", "client_id": "app", "aud": RESOURCE, **rights}
    bearer = Bearer(lambda token: dict(claims), resource=RESOURCE, authorization_servers=[ISSUER])
    with closing(Server("s", auth=bearer)) as server:

        def ask(ctx: Context) -> str:
            name = ctx.elicit("Name?", {"name": str}, key="name").require()["name"]
            ran.append(1)
            return str(name)

        server.add_tool(ask, name="scoped", scopes=["write"])
        server.add_tool(ask, name="hidden", visible=of_staff)
        capabilities = {"elicitation": {"form": {}}}
        for name, lost in (("scoped", "scope"), ("hidden", "groups")):
            claims.update(rights)
            asked = call(name, capabilities=capabilities)
            first = result(server.handle_http(with_token(asked, "t")))
            answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
            again = {
                "name": name,
                "arguments": {},
                "requestState": first["requestState"],
                "inputResponses": answers,
            }
            del claims[lost]
            retry = alone("tools/call", again, capabilities=capabilities)
            refused = server.handle_http(with_token(retry, "t"))
            if name == "scoped":
                assert refused.status == 403
            else:
                assert json.loads(refused.body)["error"]["message"] == "Unknown tool: hidden"
            claims.update(rights)
            assert server.handle_http(with_token(retry, "t")).status == 200
    assert ran == [1, 1]


def test_processes_that_share_sessions_decide_by_the_token_of_each_request() -> None:
    tokens: Dict[str, Any] = {
        "new": {"sub": "ada", "client_id": "app", "groups": ["staff"], "scope": "write"},
        "old": {"sub": "ada", "client_id": "app"},
        "bob": {"sub": "bob", "client_id": "app", "groups": ["staff"], "scope": "write"},
    }
    store = SharedMemory()
    servers = [tickets(auth=bearer_of(tokens), store=store) for _ in range(2)]
    for server in servers:
        server.add_tool(lambda: "written", name="write", scopes=["write"])
    try:
        session = Signed(servers[0], "new")
        cores = [session.core, core_of(servers[1])]
        fire = message("tools/call", {"name": "fire", "arguments": {"who": "x"}}, 3)
        write = message("tools/call", {"name": "write", "arguments": {}}, 4)
        names = lambda answer: [tool["name"] for tool in answer["result"]["tools"]]  # noqa: E731
        for core in (*cores, *cores):
            session.core = core
            session.token = "new"
            assert b"fired x" in session.send(fire).body
            assert b"written" in session.send(write).body
            assert "fire" in names(session.send(message("tools/list", {}, 5)).answer)
            session.token = "old"
            assert b"Unknown tool: fire" in session.send(fire).body
            assert session.send(write).status == 403
            assert "fire" not in names(session.send(message("tools/list", {}, 6)).answer)
            session.token = "bob"  # another person, who cannot use this session at all
            assert session.send(fire).status == 404
        for core in cores:
            core.close()
    finally:
        for server in servers:
            server.close()


def test_a_change_in_another_process_is_hidden_here() -> None:
    tokens: Dict[str, Any] = {
        "staff": {"sub": "eve", "client_id": "app", "groups": ["staff"]},
        "all": {"sub": "ada", "client_id": "app"},
    }
    store = SharedMemory()
    servers = [tickets(auth=bearer_of(tokens), store=store) for _ in range(2)]
    heard: Dict[str, List[str]] = {token: [] for token in tokens}
    clients = []
    try:
        with servers[0].start_http() as running:
            servers[1].start_http()
            for token, found in heard.items():
                client = minimcp.connect(
                    running.url, auth=token, timeout=WAIT, on_resource_updated=found.append
                )
                clients.append(client)
                client.subscribe("staff://list")
                client.subscribe("tickets-changed://all")
            assert servers[1].handle_http(with_token(call("read"), "all")).status == 200
            servers[1].resource_updated("staff://list")
            servers[1].resource_updated("tickets-changed://all")
            assert eventually(lambda: len(set(heard["staff"])) == 2 and heard["all"])
            assert set(heard["all"]) == {"tickets-changed://all"}
            for client in clients:
                client.close()
    finally:
        for server in servers:
            server.close()
