"""Apps: what clients with and without the extension see of pages and of the tools that name them."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import pytest

import minimcp
from minimcp import Apps, Client, Server, TextResourceContents
from minimcp.extensions.apps import script

from ..answering import R1, R2, REVISIONS
from ..support import WAIT

ID, MIME_TYPE = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app"
URI = "ui://sales/chart"
PAGE = '<!DOCTYPE html><head><script src="minimcp-app.js"></script></head><p>\\1 &amp; \\g<0></p>'
ASKED = {
    "csp": {"connectDomains": ["https://api.example.com"], "resourceDomains": ["https://*.example.com"]},
    "permissions": {"camera": {}, "clipboardWrite": {}}, "domain": "a.example.com", "prefersBorder": False,
}


def build(**options: Any) -> Server:
    server = Server("sales", extensions=[Apps()], **options)

    @server.app(
        URI, border=False, domain="a.example.com", permissions=["camera", "clipboard_write"], meta={"com.example/x": 1},
        csp={"connect_domains": ["https://api.example.com"], "resource_domains": ["https://*.example.com"]},
    )
    def chart() -> str:
        """A bar for each month."""
        return PAGE

    @server.app("ui://plain")
    def plain() -> TextResourceContents:
        """Asks for nothing."""
        return TextResourceContents("ui://plain", "<p>")

    @server.tool(ui=URI, meta={"com.example/x": 1})
    def sales() -> Dict[str, int]:
        """What was sold."""
        return {"May": 56}

    @server.tool(visibility="app")
    def details(month: str) -> str:
        """What was sold in a month."""
        return month

    @server.tool(ui=URI, visibility=["model", "app"])
    def both() -> str:
        """For both."""
        return "both"

    return server


def opened(server: Server, revision: str, *, declares: bool = True) -> Client:
    extensions = [Apps()] if declares else None
    return minimcp.connect(server, revision=revision, extensions=extensions, timeout=WAIT)


@pytest.fixture(params=REVISIONS)
def host(request: pytest.FixtureRequest) -> Iterator[Client]:
    with opened(build(), request.param) as client:
        yield client


@pytest.fixture(params=REVISIONS)
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with opened(build(), request.param, declares=False) as client:
        yield client


def listed(client: Client) -> Dict[str, Any]:
    """The ``_meta`` of tools and resources, by name or URI."""
    tools: Dict[str, Any] = {tool.name: tool.meta for tool in client.list_tools()}
    return {**tools, **{each.uri: each.meta for each in client.list_resources()}}


def known(client: Client) -> Any:
    """What the author said himself, in revisions that have it."""
    return {} if client.revision in (R1, R2) else {"com.example/x": 1}


@pytest.mark.requirement("M:APP-1")
def test_a_host_finds_the_page_of_a_tool(host: Client) -> None:
    assert host.capabilities["extensions"] == {ID: {"mimeTypes": [MIME_TYPE]}}
    assert listed(host) == {
        "sales": {**known(host), "ui": {"resourceUri": URI}},
        "details": {"ui": {"visibility": ["app"]}},
        "both": {"ui": {"resourceUri": URI, "visibility": ["model", "app"]}},
        URI: {**known(host), "ui": ASKED},
        "ui://plain": None,
    }
    assert {each.mime_type for each in host.list_resources()} == {MIME_TYPE}


def test_a_page_comes_with_the_script_and_what_it_asks_for(host: Client) -> None:
    page = host.read_resource(URI).contents[0]
    assert (page.mime_type, page.meta) == (MIME_TYPE, {"ui": ASKED})
    assert page.text == PAGE.replace('<script src="minimcp-app.js"></script>', f"<script>\n{script()}</script>")
    plain = host.read_resource("ui://plain").contents[0]
    assert (plain.mime_type, plain.meta, plain.text) == (MIME_TYPE, None, "<p>")


def test_a_client_that_did_not_declare_it_sees_the_core(client: Client) -> None:
    own = known(client) or None
    assert listed(client) == {"sales": own, "details": None, "both": None, URI: own, "ui://plain": None}
    assert client.read_resource(URI).contents[0].meta is None
    assert client.call_tool("sales").text == '{"May":56}'


@pytest.mark.parametrize("revision", REVISIONS)
def test_both_see_their_own_lists_of_one_server(revision: str) -> None:
    server = build(page_size=1)
    for declares in (True, False, True, False):
        with opened(server, revision, declares=declares) as client:
            assert "ui" in (listed(client)["both"] or {}) or not declares
            assert ("ui" in (listed(client)["both"] or {})) is declares
    server.close()


def test_a_server_without_apps_says_nothing_of_them() -> None:
    with opened(Server("plain"), REVISIONS[-1]) as client:
        assert "extensions" not in client.capabilities


def test_a_mounted_app_is_shown_by_the_server_that_mounts_it() -> None:
    top = Server("top", extensions=[Apps()])
    top.mount(build(), prefix="shop")
    with opened(top, REVISIONS[-1]) as client:
        found = listed(client)
        assert found["shop__sales"]["ui"] == {"resourceUri": URI}
        assert client.read_resource(URI).contents[0].meta == {"ui": ASKED}


def test_the_page_of_a_plain_class_is_registered_before_its_tools() -> None:
    class Shop:
        @minimcp.tool(ui=URI)
        def sales(self) -> str:
            """What was sold."""
            return "much"

    server = Server("shop", extensions=[Apps()])
    with pytest.raises(ValueError, match="there is none"):
        server.add(Shop())

    @server.app(URI)
    def chart() -> str:
        """A chart."""
        return ""

    server.add(Shop())
    with opened(server, REVISIONS[-1]) as client:
        assert listed(client)["sales"] == {"ui": {"resourceUri": URI}}
