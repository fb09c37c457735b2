"""The form of responses to POST requests, which the Accept header chooses, and `initialize` with an
id of a session.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Optional

import pytest

from minimcp import Bearer, Context, HttpOptions, Server, SqliteStore
from minimcp.http.endpoint import Endpoint
from minimcp.http.headers import HttpRequest

from ..rows import for_each
from .http_app import Recording, Served, Shaken, alone, core_of, message, post, serve

requirement = pytest.mark.requirement

JSON = "application/json"
SSE = "text/event-stream"

# Accept, then the form of a plain response and of one whose handler asks the client; None: 406.
FORMS = [
    (None, JSON, SSE),
    ("", JSON, SSE),
    ("*/*", JSON, SSE),
    (f"{JSON}, {SSE}", JSON, SSE),
    (f"{SSE}, {JSON};q=0.1", JSON, SSE),
    ("text/html, */*;q=0.8", JSON, SSE),
    (JSON, JSON, None),
    ("application/*", JSON, None),
    ("Application/JSON; charset=utf-8", JSON, None),
    (f"{SSE};q=0, */*", JSON, None),
    (SSE, SSE, SSE),
    ("text/*", SSE, SSE),
    (f"{JSON};q=0, */*", SSE, SSE),
    (f"{JSON};q=0.0, {SSE}", SSE, SSE),
    ("text/html", None, None),
    ("image/*", None, None),
    ("*/*;q=0", None, None),
]


def asking_server(**options: Any) -> Server:
    server = Server("forms", **options)

    @server.tool
    def plain() -> str:
        """Return a word."""
        return "done"

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask for the roots."""
        return f"{len(ctx.list_roots())} roots"

    return server


@pytest.fixture
def core() -> Iterator[Endpoint]:
    server = asking_server()
    yield core_of(server)
    server.close()


def form_of(response: Recording) -> Optional[str]:
    assert response.status in (200, 406), response.body
    return response.headers["Content-Type"] if response.status == 200 else None


@requirement("SHTTP-24", "M:HTTP-30")
@for_each(("accept", "plain", "asking"), FORMS)
def test_in_a_session(core: Endpoint, accept: Any, plain: Any, asking: Any) -> None:
    client = Shaken(core, roots={})
    for method, params in (
        ("tools/call", {"name": "plain", "arguments": {}}),
        ("tools/list", {}),
        ("ping", {}),
        ("no/such/method", {}),
    ):
        response = client.send(message(method, params), Accept=accept)
        assert form_of(response) == plain, method
        if plain is not None:
            assert response.answer["id"] == 1

    asked = post(
        message("tools/call", {"name": "ask", "arguments": {}}, id=2),
        {**client.headers, "Accept": accept},
    )
    served = Served(core, asked)
    if asking == SSE:
        served.writer.wait_for(lambda: b"roots/list" in served.writer.body)
        question = served.writer.messages[-1]
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}
        assert client.send(answer).status == 202
        assert served.finished().messages[-1]["result"]["content"][0]["text"] == "0 roots"
    response = served.finished()
    assert form_of(response) == asking
    if asking is None and plain is not None:
        assert b"Accept" in response.body and response.json["id"] == 2
    assert client.request("ping").json["result"] == {}


@requirement("SHTTP-24", "M:HTTP-30")
@for_each(("accept", "plain", "asking"), FORMS)
def test_without_a_session(core: Endpoint, accept: Any, plain: Any, asking: Any) -> None:
    """A question is a result here, so every form can have it."""
    for name in ("plain", "ask"):
        request = alone(
            "tools/call",
            {"name": name, "arguments": {}},
            {"Accept": accept},
            capabilities={"roots": {}},
        )
        response = serve(core, request)
        assert form_of(response) == plain
        if plain is not None:
            assert "result" in response.answer


@requirement("SHTTP-24")
@for_each(("accept", "plain", "asking"), FORMS)
def test_an_array(core: Endpoint, accept: Any, plain: Any, asking: Any) -> None:
    client = Shaken(core, "2025-03-26")
    response = client.send([message("ping"), message("ping", id=2)], Accept=accept)
    assert form_of(response) == plain


@for_each(("accept", "plain", "asking"), FORMS)
def test_a_subscription_is_a_stream(core: Endpoint, accept: Any, plain: Any, asking: Any) -> None:
    request = alone(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, {"Accept": accept}
    )
    served = Served(core, request)
    if asking == SSE:
        served.writer.wait_for(lambda: served.writer.body)
        served.writer.lose()
    response = served.finished()
    assert form_of(response) == (SSE if asking == SSE else None)


@for_each(("accept", "plain", "asking"), FORMS)
def test_a_server_that_sends_json_only(accept: Any, plain: Any, asking: Any) -> None:
    server = asking_server(http=HttpOptions(json_response=True))
    client = Shaken(core_of(server))
    response = client.send(message("ping"), Accept=accept)
    assert form_of(response) == (JSON if plain == JSON else None)
    server.close()


# ------------------------------------------------------------ initialize with the id of a session


IDS = {
    "unknown": "of-a-process-before",
    "empty": "",
    "not an id": "a b",
    "not ASCII": "sitzung-ä",
    "long": "x" * 5000,
}


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("kind", [*IDS, "ended", "foreign"])
def test_initialize_ignores_an_id_that_is_not_its_clients(
    tmp_path: Path, kind: str, store: bool
) -> None:
    tokens = {"a" * 32: {"sub": "ada"}, "b" * 32: {"sub": "bob"}}
    kept = SqliteStore(str(tmp_path / "store.db")) if store else None
    server = asking_server(auth=Bearer.static(tokens), store=kept)
    core = core_of(server)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }

    def opened(token: str, **headers: str) -> Recording:
        sent = {"Authorization": f"Bearer {token * 32}", **headers}
        return serve(core, post(message("initialize", params), sent))

    def sent(method: str, id: str) -> Recording:
        headers = {
            "Host": "localhost",
            "Accept": SSE,
            "Authorization": f"Bearer {'a' * 32}",
            "Mcp-Session-Id": id,
        }
        return serve(core, HttpRequest(method, "/mcp", headers))

    id = IDS.get(kind, "")
    if kind in ("ended", "foreign"):
        id = opened("b" if kind == "foreign" else "a").headers["Mcp-Session-Id"]
    if kind == "ended":
        assert sent("DELETE", id).status == 200
    response = opened("a", **{"Mcp-Session-Id": id})
    assert response.status == 200, response.body
    new = response.headers["Mcp-Session-Id"]
    assert new != id and "result" in response.answer
    for method in ("GET", "DELETE"):
        assert sent(method, id).status in (400, 404)
    core.close()
    server.close()
    if kept is not None:
        kept.close()
