"""Server cards and catalogs: what a server publishes, and what a client reads."""

from __future__ import annotations

import http.server
import json
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

import minimcp
from minimcp import (
    Bearer,
    Card,
    ConnectionFailed,
    HttpOptions,
    HttpRequest,
    HttpResponse,
    Icon,
    ProtocolViolation,
    RequestTimeout,
    Server,
    ServerCard,
    read_card,
    read_catalog,
)
from minimcp.extensions import cards
from minimcp.http.headers import Headers

from ..inside import exchange_of
from ..support import WAIT, MovedTime
from ..unit.test_wsgi import Host, whole
from .test_authorization import get, over_a_socket

requirement = pytest.mark.requirement

URL = "https://example.com/mcp"
CARD = "/mcp/server-card"
CATALOG = "/.well-known/ai-catalog.json"
FOREIGN = "https://page.example"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    cards.kept.clear()
    yield
    cards.kept.clear()


def made(card: Optional[Card] = None, **options: Any) -> Server:
    given = {
        "version": "2.1.0",
        "title": "Tickets",
        "description": "Search and change tickets.",
        "website_url": "https://example.com",
        "icons": [Icon("https://example.com/icon.png", "image/png")],
        **options,
    }
    return Server("tickets", card=card or Card("com.example/tickets", URL, catalog=True), **given)


@pytest.fixture(params=["bundled", "wsgi", "handle_http"])
def ask(request: Any) -> Iterator[Callable[[HttpRequest], HttpResponse]]:
    """Sends a request to a server with a card, in each of the ways that it may come."""
    bearer = Bearer.static("secret", resource=URL, authorization_servers=["https://as.example"])
    with closing(made(auth=bearer)) as server:
        if request.param == "handle_http":
            yield server.handle_http
        elif request.param == "wsgi":
            host = Host(server.wsgi())

            def ask_host(asked: HttpRequest) -> HttpResponse:
                status, headers, body = whole(host(asked))
                return HttpResponse(status, list(headers.items()), body)

            yield ask_host
        else:
            with server.start_http() as running:
                yield lambda asked: over_a_socket(running.port, asked)


WANTED_CARD = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
    "name": "com.example/tickets",
    "version": "2.1.0",
    "title": "Tickets",
    "description": "Search and change tickets.",
    "websiteUrl": "https://example.com",
    "icons": [{"src": "https://example.com/icon.png", "mimeType": "image/png"}],
    "remotes": [
        {
            "type": "streamable-http",
            "url": URL,
            "supportedProtocolVersions": [
                *("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
            ],
        }
    ],
}


@requirement("CARD-1", "CARD-2", "CARD-4", "CARD-5", "CARD-10", "CARD-20", "CARD-21")
def test_a_card_is_served_to_everybody(ask: Callable[[HttpRequest], HttpResponse]) -> None:
    for accept in ("*/*", "application/json", "text/html", ""):
        found = ask(get(CARD, Accept=accept, Origin=FOREIGN))  # without a token
        headers = Headers(found.headers)
        assert (found.status, json.loads(found.body)) == (200, WANTED_CARD)
        assert headers["Content-Type"] == "application/mcp-server-card+json"
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert headers["Access-Control-Allow-Methods"] == "GET"
        assert headers["Access-Control-Allow-Headers"] == "Content-Type, If-None-Match"
        assert headers["Access-Control-Expose-Headers"] == "ETag"
        assert headers["Cache-Control"] == "public, max-age=3600"
    found = ask(get(CATALOG))
    assert Headers(found.headers)["Content-Type"] == "application/ai-catalog+json"
    assert json.loads(found.body) == {
        "specVersion": "0.9",
        "entries": [
            {
                "identifier": "urn:air:example.com:mcp:tickets",
                "type": "application/mcp-server-card+json",
                "url": f"{URL}/server-card",
            }
        ],
    }
    preflight = get(CARD, "OPTIONS", Origin=FOREIGN, Access_Control_Request_Method="GET")
    answered = ask(preflight)
    assert (answered.status, Headers(answered.headers)["Access-Control-Allow-Origin"]) == (204, "*")
    head = ask(get(CARD, "HEAD"))
    assert (head.status, head.body if isinstance(head.body, bytes) else b"") in (
        (200, b""),
        (200, ask(get(CARD)).body),  # `handle_http` leaves it to its caller
    )
    for method in ("POST", "DELETE", "PUT"):
        refused = ask(get(CARD, method))
        assert (refused.status, Headers(refused.headers)["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert ask(get("/mcp", "GET")).status == 401


@requirement("CARD-5", "CARD-6")
@pytest.mark.parametrize("path", [CARD, CATALOG])
def test_a_document_that_is_known_is_not_sent_again(
    ask: Callable[[HttpRequest], HttpResponse], path: str
) -> None:
    tag = Headers(ask(get(path)).headers)["ETag"]
    with closing(made(auth=None)) as other:  # another process has the same bytes
        assert Headers(other.handle_http(get(path)).headers)["ETag"] == tag
    for known in (tag, f"W/{tag}", f'"x", {tag}', f'{tag},"y"', "*", f'W/"z",W/{tag}'):
        found = ask(get(path, If_None_Match=known))
        assert (found.status, found.body, Headers(found.headers)["ETag"]) == (304, b"", tag)
    for unknown in ('"x"', tag.strip('"'), 'W/"x"', "", f'"{tag}x"'):
        assert ask(get(path, If_None_Match=unknown)).status == 200


@requirement("CARD-1", "CARD-14")
def test_where_a_card_is() -> None:
    with closing(made()) as server:
        for path, card in (("/", "/server-card"), ("/a/b", "/a/b/server-card")):
            assert server.handle_http(get(card), path=path).status == 200
            assert server.handle_http(get(CARD), path=path).status == 404
        for script, info in (("", CARD), ("/api", CARD), ("/mcp", "/server-card")):
            status, _, body = whole(Host(server.wsgi(), SCRIPT_NAME=script)(get(info)))
            assert (status, json.loads(body)) == (200, WANTED_CARD)
        status, *_ = whole(Host(server.wsgi(), SCRIPT_NAME="/.well-known")(get("/ai-catalog.json")))
        assert status == 200
        evil = server.handle_http(get(CARD, Host="evil.example"))
        assert evil.status == 421  # DNS rebinding
    plain = made(Card("com.example/tickets", URL))
    with closing(plain):
        assert plain.handle_http(get(CATALOG)).status == 404
    with closing(Server("none")) as none:
        assert none.handle_http(get(CARD)).status == 404


@requirement("CARD-9")
def test_the_url_is_never_taken_from_the_request() -> None:
    with closing(made(http=HttpOptions(allowed_hosts=["*"]))) as server:
        found = json.loads(server.handle_http(get(CARD, Host="evil.example")).body)
        assert found["remotes"][0]["url"] == URL


@requirement("CARD-11")
@pytest.mark.parametrize("revisions", [None, ["2026-07-28", "2025-11-25"]])
def test_a_card_agrees_with_its_server(revisions: Any) -> None:
    with closing(made(revisions=revisions)) as server:
        card = json.loads(server.handle_http(get(CARD)).body)
        with minimcp.connect(server, timeout=WAIT) as client:
            found = client.request("server/discover")
            info = client.server_info
            assert info is not None
            remote = card["remotes"][0]
            assert remote["supportedProtocolVersions"] == found["supportedVersions"]
            assert (card["version"], card["title"]) == (info.version, info.title)
            assert card["description"] == info.description


@requirement("CARD-8", "CARD-9")
@pytest.mark.parametrize(
    "given, words",
    [
        ({"name": "tickets"}, "name: expected"),
        ({"name": "a/b\n"}, "name: expected"),
        ({"name": "a/b/c"}, "name: expected"),
        ({"name": f"{'a' * 200}/b"}, "name: expected"),
        ({"url": "http://example.com/mcp"}, "must begin with https"),
        ({"url": "https://ada:secret@example.com/mcp"}, "unambiguous host"),
        ({"url": "https://example.com/mcp#x"}, "no fragment"),
        ({"url": "ftp://example.com"}, "url: expected"),
        ({"url": "https://{region}.example.com/mcp"}, "must describe 'region'"),
        ({"url": 7}, "url: expected"),
        ({"repository": {"url": "https://x"}}, "source is missing"),
        ({"headers": [{"description": "x"}]}, "name is missing"),
        ({"headers": [{"name": "Host"}]}, "must not set the header 'Host'"),
        ({"headers": [{"name": "Mcp-Session-Id"}]}, "must not set the header"),
        ({"headers": [{"name": "a b"}]}, "must not set the header"),
        ({"headers": [{"name": "X-Key", "isSecret": True, "value": "s3"}]}, "value of the secret"),
        ({"headers": [{"name": "X", "isSecret": True, "default": "s3"}]}, "value of the secret"),
        (
            {"headers": [{"name": "X", "variables": {"k": {"isSecret": True, "choices": ["1"]}}}]},
            "value of the secret",
        ),
        ({"headers": [{"name": "X-Key", "format": "date"}]}, "format"),
        ({"headers": [{"name": "X-Key", "isRequired": "yes"}]}, "isRequired"),
        ({"variables": {"x": []}}, "variables"),
        ({"max_age": -1}, "max_age"),
        ({"max_age": "1"}, "max_age"),
        ({"catalog": 1}, "catalog"),
    ],
)
def test_a_card_that_is_wrong(given: Dict[str, Any], words: str) -> None:
    options = {"name": "com.example/tickets", "url": URL, **given}
    with pytest.raises((TypeError, ValueError), match=words):
        Card(**options)


def test_a_server_that_is_wrong_for_its_card() -> None:
    for options, words in (
        ({"description": None}, "needs a description"),
        ({"description": "x" * 101}, "description: expected"),
        ({"title": "x" * 101}, "title: expected"),
        ({"version": "^1.2"}, "version: expected"),
        ({"version": "1.x"}, "version: expected"),
        ({"version": ""}, "version: expected"),
        ({"card": Card("com.example/tickets")}, "needs the public URL"),
        ({"card": "com.example/tickets"}, r"card must be a minimcp.Card\(...\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            made(**options)
    bearer = Bearer.static("t", resource=URL, authorization_servers=["https://as.example"])
    with closing(made(Card("com.example/tickets"), auth=bearer)) as server:
        assert json.loads(server.handle_http(get(CARD)).body) == WANTED_CARD


# ------------------------------------------------------------ reading


Answer = Tuple[int, Dict[str, str], bytes]


class Site:
    """A web server on this machine: ``pages`` has its responses, ``asked`` its requests."""

    def __init__(self) -> None:
        self.pages: Dict[str, Any] = {}
        self.asked: List[Tuple[str, Dict[str, str]]] = []

    def put(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (status, given, data)


@contextmanager
def running_site() -> Iterator[Site]:
    site = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, {name.lower(): v for name, v in self.headers.items()}))
            page = site.pages.get(self.path, (404, {}, b"<html>"))
            status, headers, body = page(self) if callable(page) else page
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    site.domain = f"127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def site() -> Iterator[Any]:
    with running_site() as site:
        yield site


@requirement("CARD-3", "CARD-16")
def test_a_card_is_read(site: Any) -> None:
    site.put("/mcp/server-card", WANTED_CARD)
    card = read_card(f"{site.url}/mcp")
    assert (card.name, card.version, card.title) == ("com.example/tickets", "2.1.0", "Tickets")
    assert card.description == "Search and change tickets."
    assert card.website_url == "https://example.com"
    assert card.icons == WANTED_CARD["icons"] and card.remotes == WANTED_CARD["remotes"]
    assert card.repository is None and card.meta is None
    assert repr(card) == "<ServerCard com.example/tickets 2.1.0>"
    ((path, headers),) = site.asked
    assert path == "/mcp/server-card"
    assert headers["accept"] == "application/mcp-server-card+json"
    assert read_card(f"{site.url}/mcp/server-card").name == card.name


@requirement("CARD-7")
def test_a_card_is_cached_as_long_as_the_server_says(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions, moved = ["1"], MovedTime()
    monkeypatch.setattr(cards, "time", moved)

    def page(handler: Any) -> Answer:
        tag = f'"{versions[0]}"'
        headers = {"Cache-Control": "public, max-age=1000", "ETag": tag}
        if handler.headers.get("If-None-Match") == tag:
            return 304, headers, b""
        return 200, headers, json.dumps({**WANTED_CARD, "version": versions[0]}).encode()

    site.pages["/server-card"] = page
    assert [read_card(site.url).version for _ in range(3)] == ["1"] * 3
    assert len(site.asked) == 1
    moved.ahead += 1001
    assert read_card(site.url).version == "1"  # the server answers 304
    assert site.asked[1][1]["if-none-match"] == '"1"'
    versions[0] = "2"
    moved.ahead += 1001
    assert read_card(site.url).version == "2"
    # A card that anybody on the way could have written is not used where that is forbidden.
    site.put("/y/server-card", WANTED_CARD, Cache_Control="max-age=60")
    site.asked.clear()
    for verify, requests in ((False, 1), (True, 2), (None, 2), (False, 2)):
        read_card(f"{site.url}/y", verify=verify)
        assert len(site.asked) == requests
    for control in ("no-store", "no-store, max-age=60"):
        site.put("/x/server-card", WANTED_CARD, Cache_Control=control, ETag='"x"')
        site.asked.clear()
        for _ in range(2):
            read_card(f"{site.url}/x")
        assert [headers.get("if-none-match") for _, headers in site.asked] == [None, None]


@requirement("CARD-17")
def test_no_credentials_are_sent(
    site: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("MINIMCP_TOKEN", "secret")
    site.put("/a/server-card", b"", 302, Location="/b/server-card", Set_Cookie="c=1")
    site.put("/b/server-card", WANTED_CARD)
    assert read_card(f"{site.url}/a").name == "com.example/tickets"
    for _, headers in site.asked:
        assert not {"authorization", "cookie"} & set(headers)


def test_redirects_are_bounded_and_checked(site: Any) -> None:
    for number in range(5):
        site.put(f"/{number}/server-card", b"", 302, Location=f"/{number + 1}/server-card")
    site.put("/4/server-card", WANTED_CARD)
    assert read_card(f"{site.url}/1").version == "2.1.0"
    with pytest.raises(ConnectionFailed, match="more than 3 redirects"):
        read_card(f"{site.url}/0")
    for place in ("http://example.com/x", "file:///etc/passwd", "https://a@b/", "ftp://x/"):
        site.put("/r/server-card", b"", 302, Location=place)
        with pytest.raises(ConnectionFailed, match="a URL must begin with"):
            read_card(f"{site.url}/r")


@requirement("CARD-17")
def test_what_is_not_a_card(site: Any) -> None:
    for body, error, words in (
        (b"<html>", ProtocolViolation, "not a JSON object"),
        ([], ProtocolViolation, "not a JSON object"),
        (b"[" * 200_000, ProtocolViolation, "not a JSON object"),
        ({}, ProtocolViolation, "is missing"),
        ({**WANTED_CARD, "name": "x"}, ProtocolViolation, "name: expected"),
        ({**WANTED_CARD, "version": "~1"}, ProtocolViolation, "version: expected"),
        ({**WANTED_CARD, "remotes": [{"type": "stdio"}]}, ProtocolViolation, "remotes"),
        (b" " * 300_000, ProtocolViolation, "longer than 262144 bytes"),
    ):
        site.put("/server-card", body)
        with pytest.raises(error, match=words):
            read_card(site.url)
    with pytest.raises(ConnectionFailed, match="HTTP 404"):
        read_card(f"{site.url}/none")
    with pytest.raises(ConnectionFailed, match="a URL must begin with https"):
        read_card("http://example.com/mcp")
    with pytest.raises(ConnectionFailed):
        read_card("https://ada:secret@example.com/mcp")

    def slow(handler: Any) -> Answer:
        time.sleep(0.5)
        return 200, {}, b"{}"

    site.pages["/server-card"] = slow
    with pytest.raises(RequestTimeout, match="no answer within 0.1 s"):
        read_card(site.url, timeout=0.1)


@requirement("CARD-15", "CARD-20")
def test_the_catalog_of_a_domain(site: Any) -> None:
    kind = "application/mcp-server-card+json"
    site.put("/mcp/server-card", WANTED_CARD)
    site.put(
        CATALOG,
        {
            "specVersion": "9.9",
            "host": {"displayName": "x"},
            "entries": [
                {"identifier": "urn:1", "type": kind, "url": f"{site.url}/mcp/server-card", "x": 1},
                {"identifier": "urn:2", "type": kind, "data": WANTED_CARD},
                {"identifier": "urn:3", "type": "application/agent+json", "url": "x"},
                {"identifier": "urn:4", "type": kind},
                {"identifier": "urn:5", "type": kind, "url": "x", "data": {}},
                "odd",
                {"identifier": "urn:6", "type": kind, "data": {"name": "x"}},
            ],
        },
    )
    found = read_catalog(site.domain)
    assert [each.identifier for each in found] == ["urn:1", "urn:2", "urn:6"]
    assert {each.type for each in found} == {kind}
    assert [each.url for each in found[:2]] == [f"{site.url}/mcp/server-card", None]
    assert [each.card().version for each in found[:2]] == ["2.1.0"] * 2
    with pytest.raises(ProtocolViolation, match="urn:6"):
        found[2].card()
    assert site.asked[0][1]["accept"] == "application/ai-catalog+json"
    for body in (b"<html>", {"entries": {}}, {}, []):
        site.put(CATALOG, body)
        with pytest.raises(ProtocolViolation):
            read_catalog(site.domain)
    del site.pages[CATALOG]
    with pytest.raises(ConnectionFailed, match="HTTP 404"):
        read_catalog(site.domain)
    for wrong in ("https://example.com", "example.com/x", "", "a b", "a@b", 7):
        with pytest.raises((ValueError, TypeError)):
            read_catalog(wrong)  # type: ignore[arg-type]


@requirement("CARD-17")
def test_a_catalog_cannot_lead_into_a_private_network(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "application/mcp-server-card+json"
    place = f"{site.url}/mcp/server-card"
    site.put("/mcp/server-card", WANTED_CARD)
    site.put(CATALOG, {"entries": [{"identifier": "urn:1", "type": kind, "url": place}]})
    (entry,) = read_catalog(site.domain)
    exchange_of(entry).address = "93.184.216.34"  # as if the catalog had come from there
    site.asked.clear()
    with pytest.raises(ConnectionFailed):
        entry.card()
    assert site.asked == []


# ------------------------------------------------------------ templates


def card_with(remote: Dict[str, Any]) -> ServerCard:
    return ServerCard({**WANTED_CARD, "remotes": [{"type": "streamable-http", **remote}]})


REGION = {"description": "Where", "choices": ["eu", "us"], "default": "eu"}


@requirement("CARD-18", "CARD-19")
@pytest.mark.parametrize(
    "remote, given, url, headers",
    [
        ({"url": URL}, None, URL, {}),
        (
            {"url": "https://{region}.example.com/mcp", "variables": {"region": REGION}},
            {"region": "us"},
            "https://us.example.com/mcp",
            {},
        ),
        (
            {"url": "https://{region}.example.com/mcp", "variables": {"region": REGION}},
            None,
            "https://eu.example.com/mcp",
            {},
        ),
        (
            {"url": "https://example.com/{team}/mcp"},
            {"team": "a/b?c#d ä"},
            "https://example.com/a%2Fb%3Fc%23d%20%C3%A4/mcp",
            {},
        ),
        ({"url": "{base}/mcp"}, {"base": "https://own.example"}, "https://own.example/mcp", {}),
        (
            {"url": "https://{v}.example.com", "variables": {"v": {"value": "fixed"}}},
            None,
            "https://fixed.example.com",
            {},
        ),
        (
            {
                "url": URL,
                "headers": [
                    {"name": "Authorization", "value": "Bearer {t}", "variables": {"t": {}}},
                    {"name": "X-Need", "isRequired": True},
                    {"name": "X-None"},
                    {"name": "X-Default", "default": "d"},
                ],
            },
            {"t": "token", "X-Need": "n"},
            URL,
            {"Authorization": "Bearer token", "X-Need": "n", "X-Default": "d"},
        ),
    ],
)
def test_a_template_is_filled(
    remote: Dict[str, Any], given: Any, url: str, headers: Dict[str, str]
) -> None:
    found = card_with(remote).remote(given)
    assert found.url == url
    assert found.fetcher.keywords["headers"] == headers


@requirement("CARD-18", "CARD-19")
@pytest.mark.parametrize(
    "remote, given, words",
    [
        ({"url": "https://{host}.example.com"}, {}, "a value for 'host'.* is missing"),
        ({"url": "https://{host}"}, {"host": "evil.com/"}, "unambiguous host"),
        ({"url": "https://{host}"}, {"host": "a@evil.com"}, "unambiguous host"),
        ({"url": "{base}/x"}, {"base": "http://evil.com"}, "must begin with https"),
        ({"url": "{base}/x"}, {"base": "https://a:b@evil.com"}, "unambiguous host"),
        ({"url": "{base}/x"}, {"base": "file:///etc"}, "http:// or https://"),
        ({"url": "http://example.com"}, {}, "must begin with https"),
        ({"url": URL}, {"other": "1"}, "has no variable 'other'"),
        (
            {"url": "https://{v}", "variables": {"v": {"value": "a.b"}}},
            {"v": "c"},
            "no variable 'v'",
        ),
        (
            {"url": "https://{region}.x", "variables": {"region": REGION}},
            {"region": "xx"},
            "does not accept the value for 'region' .Where.",
        ),
        (
            {"url": "https://a.b/{n}", "variables": {"n": {"format": "number"}}},
            {"n": "x"},
            "does not accept",
        ),
        ({"url": URL, "headers": [{"name": "X", "isRequired": True}]}, {}, "'X'.* is missing"),
        ({"url": URL, "headers": [{"name": "X"}]}, {"X": "a\r\nEvil: 1"}, "does not accept"),
        ({"url": URL, "headers": [{"name": "X"}]}, {"X": 7}, "does not accept"),
        ({"url": "https://a.b/{x}"}, {"x": None}, "is missing"),
    ],
)
def test_a_template_that_cannot_be_filled(
    remote: Dict[str, Any], given: Dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        card_with(remote).remote(given)
    assert "secret" not in str(caught.value)


def test_a_card_sets_no_header_of_the_transport() -> None:
    for name in ("Host", "content-length", "Mcp-Session-Id", "MCP-Protocol-Version", "Cookie"):
        with pytest.raises(ValueError, match="must not set the header"):
            card_with({"url": URL, "headers": [{"name": name}]})
    with pytest.raises(ValueError, match="does not say where the server is"):
        ServerCard({**WANTED_CARD, "remotes": []}).remote()


@requirement("CARD-12", "CARD-13", "CARD-16")
def test_connect_takes_a_card_and_does_not_look_for_one(site: Any) -> None:
    asked: List[str] = []
    with closing(made()) as server, server.start_http() as running:
        server.add_tool(lambda: "found", name="find")
        wire = {**WANTED_CARD, "name": "x/other", "version": "9"}
        remote = {"type": "streamable-http", "url": running.url}
        card = ServerCard({**wire, "remotes": [remote]})
        trace = lambda arrow, text: asked.append(text)  # noqa: E731
        with minimcp.connect(card, timeout=WAIT, trace=trace) as client:
            assert client.call_tool("find").text == "found"
            # The connection takes precedence over the card.
            assert client.server_info is not None and client.server_info.version == "2.1.0"
    with pytest.raises(ValueError, match="is missing"):
        minimcp.connect(card_with({"url": "https://{x}.example.com"}))
    assert site.asked == []
