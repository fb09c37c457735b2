"""Apps: what clients see of pages and of the tools that name them, in each revision."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator

import pytest

import minimcp
from minimcp import Apps, Client, Server, TextResourceContents
from minimcp.extensions.apps import script

from ..answering import R1, R2, REVISIONS
from ..support import WAIT

ID, MIME_TYPE = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app"
WITHOUT_META = (R1, R2)  # revisions whose tools and resources have no _meta
URI = "ui://sales/chart"
PAGE = '<!DOCTYPE html><head><script src="minimcp-app.js"></script></head><p>\\1 &amp; \\g<0></p>'
ASKED = {
    "csp": {
        "connectDomains": ["https://api.example.com"],
        "resourceDomains": ["https://*.example.com"],
    },
    "permissions": {"camera": {}, "clipboardWrite": {}},
    "domain": "a.example.com",
    "prefersBorder": False,
}


def build(**options: Any) -> Server:
    server = Server("sales", extensions=[Apps()], **options)

    @server.app(
        URI,
        border=False,
        domain="a.example.com",
        permissions=["camera", "clipboard_write"],
        meta={"com.example/x": 1},
        csp={
            "connect_domains": ["https://api.example.com"],
            "resource_domains": ["https://*.example.com"],
        },
    )
    def chart() -> str:
        """A bar for each month."""
        return PAGE

    @server.app("ui://plain")
    def plain() -> str:
        """Asks for nothing."""
        return "<p>"

    @server.tool(ui=URI, meta={"com.example/x": 1})
    def sales() -> Dict[str, int]:
        """Sales by month."""
        return {"May": 56}

    @server.tool(visibility="app")
    def details(month: str) -> str:
        """Sales of a month."""
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


@pytest.mark.requirement("M:APP-1")
def test_a_host_finds_the_page_of_a_tool(host: Client) -> None:
    assert host.capabilities["extensions"] == {ID: {"mimeTypes": [MIME_TYPE]}}
    found = {
        "sales": {"com.example/x": 1, "ui": {"resourceUri": URI}},
        "details": {"ui": {"visibility": ["app"]}},
        "both": {"ui": {"resourceUri": URI, "visibility": ["model", "app"]}},
        URI: {"com.example/x": 1, "ui": ASKED},
        "ui://plain": None,
    }
    assert listed(host) == (dict.fromkeys(found) if host.revision in WITHOUT_META else found)
    assert {each.mime_type for each in host.list_resources()} == {MIME_TYPE}


def test_a_page_has_the_script_and_the_requested_options(host: Client) -> None:
    page = host.read_resource(URI).contents[0]
    assert (page.mime_type, page.meta) == (
        MIME_TYPE,
        None if host.revision in WITHOUT_META else {"ui": ASKED},
    )
    assert page.text == PAGE.replace(
        '<script src="minimcp-app.js"></script>', f"<script>\n{script()}</script>"
    )
    plain = host.read_resource("ui://plain").contents[0]
    assert (plain.mime_type, plain.meta, plain.text) == (MIME_TYPE, None, "<p>")


@pytest.mark.requirement("M:APP-2")
def test_a_client_that_did_not_declare_it_gets_text(client: Client) -> None:
    assert client.call_tool("sales").text == '{"May":56}'
    assert client.call_tool("both").text == "both"


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


def test_a_plain_class_has_pages_and_tools_that_show_them() -> None:
    class Shop:
        @minimcp.app(URI, border=True)
        def chart(self, ctx: minimcp.Context) -> str:
            """A chart."""
            return f"<p>{ctx.server.name}"

        @minimcp.tool(ui=URI)
        def sales(self) -> str:
            """Sales so far."""
            return "much"

    with opened(Server("shop", Shop(), extensions=[Apps()]), REVISIONS[-1]) as client:
        assert listed(client) == {
            "sales": {"ui": {"resourceUri": URI}},
            URI: {"ui": {"prefersBorder": True}},
        }
        assert client.read_resource(URI).text == "<p>shop"


PAGES: Dict[str, Callable[[], Any]] = {
    "raises": lambda: {}["secret"],
    "bytes": lambda: b"<p>",
    "dict": lambda: {"a": 1},
    "none": lambda: None,
    "contents": lambda: TextResourceContents("ui://contents", "<p>"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_value_that_is_not_a_page_is_an_error_without_its_text(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("sales", extensions=[Apps()])

    @server.app(f"ui://{name}")
    def page():  # type: ignore[no-untyped-def]
        """No page."""
        return PAGES[name]()

    with opened(server, REVISIONS[-1]) as client, pytest.raises(minimcp.InternalError) as raised:
        client.read_resource(f"ui://{name}")
    assert "secret" not in str(raised.value)
    assert "return the page as a str" in caplog.text or name == "raises"


def reader(pages: Dict[str, str]) -> Callable[..., str]:
    def page(ctx: minimcp.Context) -> str:
        return pages[ctx.params["uri"]]

    return page


@pytest.mark.parametrize("revision", REVISIONS)
def test_hostile_and_huge_pages_are_returned_unchanged(revision: str) -> None:
    hostile = '</script><script>alert("\u2028\U0001f600 \\1 \\g<0> ${x}")</script>\0<script src="minimcp-app.js">'
    pages = {
        "ui://hostile/%22%3E%3Cb%3E": hostile,
        "ui://huge": "<b>&" * 1_000_000,
        "ui://empty": "",
    }
    server = Server("sales", extensions=[Apps()])
    for uri in pages:
        server.app(uri, name='"><script>x</script>', description="\n</script>")(reader(pages))
    with opened(server, revision) as client:
        assert {uri: client.read_resource(uri).text for uri in pages} == pages
        assert {each.name for each in client.list_resources()} == {'"><script>x</script>'}


def test_the_script_replaces_every_placeholder_of_the_page() -> None:
    server = Server("sales", extensions=[Apps()])
    tag = '<SCRIPT SRC="minimcp-app.js">\n</SCRIPT>'
    server.add_app(lambda: f"{tag}<p>{tag}", "ui://twice", name="twice")

    @server.tool
    def reads(ctx: minimcp.Context) -> bool:
        """Whether the page that a handler reads is the one that clients read."""
        return ctx.read_resource("ui://twice").text == whole

    whole = f"<script>\n{script()}</script><p><script>\n{script()}</script>"
    with opened(server, REVISIONS[-1]) as client:
        assert client.read_resource("ui://twice").text == whole
        assert client.call_tool("reads").value is True


def test_a_removed_page_is_not_found() -> None:
    server = build()
    with opened(server, REVISIONS[-1]) as client:
        server.remove_resource(URI)
        with pytest.raises(minimcp.ResourceNotFound):
            client.read_resource(URI)
        assert client.call_tool("sales").value == {"May": 56}
