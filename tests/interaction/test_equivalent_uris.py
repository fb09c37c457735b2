"""URIs that are equivalent by RFC 3986 count as the same wherever URIs are compared: in the tables
of a server, in subscriptions of both sides, and in the cache of a client."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import Apps, Context, MemoryStore, ResourceNotFound, Server
from minimcp.client.cache import Cache, Key
from minimcp.protocol.versions import BY_NAME

from ..answering import R4, R5, REVISIONS
from ..listening import UPDATED, Host, about, agree
from ..rows import for_each
from ..support import WAIT, eventually

# As it is registered, and other ways to write it.
SPELLINGS = {
    "KBInfo://Summary": ("kbinfo://summary", "KBINFO://summary/"),
    "https://example.com": ("https://example.com/", "HTTPS://EXAMPLE.com:443"),
    "http://Example.com/docs": ("http://example.com/docs", "http://example.com:80/x/../%64ocs"),
    "urn:x:%C3%9F": ("URN:x:\u00df", "urn:x:%c3%9f"),
    "x:/a/b": ("x:/a/./b", "X:/c/../a/%62"),
}  # fmt: skip
PAIRS = [(registered, other) for registered, others in SPELLINGS.items() for other in others]


def kept(message: Dict[str, Any]) -> Dict[str, Any]:
    uri = message["params"]["uri"]
    return {"result": {"contents": [{"uri": uri, "text": uri}], "ttlMs": 1000}}


def text() -> str:
    """A text."""
    return "text"


def other_text() -> str:
    """Another text."""
    return "other"


def named(name: str) -> str:
    """One of many."""
    return name


def shelf(**options: Any) -> Server:
    server = Server("shelf", **options)
    for uri in SPELLINGS:
        server.add_resource(text, uri, name=uri)
    server.add_resource(named, "KB://{name}", name="template")
    return server


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_resource_is_read_by_each_spelling(revision: str) -> None:
    server = shelf()

    @server.tool
    def read(uri: str, ctx: Context) -> str:
        """Read."""
        return ctx.read_resource(uri).text

    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        for _, asked in PAIRS:
            (content,) = client.read_resource(asked).contents
            assert (content.text, content.uri) == ("text", asked)
            assert client.call_tool("read", {"uri": asked}).text == "text"
        assert client.read_resource("kb://Foo").text == "Foo"
        for wrong in ("KBInfo://Summary/x", "https://example.com:80", "http://example.com/Docs"):
            with pytest.raises(ResourceNotFound):
                client.read_resource(wrong)


# An author must escape characters that a client need not escape, and cannot register "..".
REGISTERED = [pair for pair in PAIRS if ".." not in pair[1] and pair[1].isascii()]


@for_each(("registered", "other"), [*REGISTERED, ("KB://{name}", "kb://{name}")])
def test_an_equivalent_uri_is_accepted(registered: str, other: str) -> None:
    server = shelf()
    function = other_text if "{" not in other else named
    with pytest.raises(ValueError, match="already exists: as") as caught:
        server.add_resource(function, other, name="other")
    assert repr(registered) in str(caught.value) and repr(other) in str(caught.value)
    mounting = Server("mounting")
    mounting.add_resource(function, other, name="other")
    with pytest.raises(ValueError, match="exists"):
        mounting.mount(server, prefix="shelf")
    server.add_resource(function, other, name="other", replace=True)
    with minimcp.connect(server, timeout=WAIT) as client:
        listed = [each.uri for each in client.list_resources()]
        listed += [each.uri_template for each in client.list_resource_templates()]
        assert other in listed and registered not in listed
    server.remove_resource(registered)
    with pytest.raises(KeyError):
        server.remove_resource(other)


def test_the_template_of_a_completion_may_be_written_in_each_way() -> None:
    server = Server("shelf")
    server.add_resource(named, "KB://H/{name}", name="t", complete={"name": ["Ada", "Bob"]})
    with minimcp.connect(server, timeout=WAIT) as client:
        for uri in ("KB://H/{name}", "kb://h/{name}", "kb://h/./{name}", "KB://h/x"):
            ref = {"type": "ref/resource", "uri": uri}
            params = {"ref": ref, "argument": {"name": "name", "value": "A"}}
            found = client.request("completion/complete", params)
            assert found["completion"]["values"] == ["Ada"]
        with pytest.raises(minimcp.InvalidParams):
            bad = {
                "ref": {"type": "ref/resource", "uri": "kb://other/{"},
                "argument": params["argument"],
            }
            client.request("completion/complete", bad)


def test_a_tool_names_its_page_in_each_way_and_hosts_see_one() -> None:
    server = Server("sales", extensions=[Apps()])

    @server.app("ui://Sales/chart")
    def chart() -> str:
        """A page."""
        return "<html></html>"

    @server.tool(ui="ui://sales/./chart")
    def show() -> str:
        """Show."""
        return ""

    with minimcp.connect(server, timeout=WAIT) as client:
        (tool,) = client.list_tools()
        assert tool.meta is not None and tool.meta["ui"]["resourceUri"] == "ui://Sales/chart"
        assert client.read_resource("UI://sales/chart").text == "<html></html>"


# ------------------------------------------------------------ subscriptions


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("store", [False, True])
def test_a_change_is_reported_to_each_spelling(revision: str, store: bool) -> None:
    server = shelf(store=MemoryStore() if store else None)
    heard: List[str] = []
    with minimcp.connect(
        server, revision=revision, timeout=WAIT, on_resource_updated=heard.append
    ) as client:
        for registered, subscribed in PAIRS:
            client.subscribe(subscribed)
            with client.listen(resource_subscriptions=[subscribed]) as changes:
                server.resource_updated(registered)
                # as it was subscribed to: the program may compare texts
                assert changes.next(timeout=WAIT).uri == subscribed
            assert eventually(partial(heard.__contains__, subscribed))
            client.unsubscribe(registered)
            server.resource_updated(registered)
            client.subscribe("last://one")
            server.resource_updated("last://one")
            assert eventually(lambda: "last://one" in heard)
            assert heard == [subscribed, "last://one"]
            client.unsubscribe("LAST://One")
            heard.clear()


@pytest.mark.parametrize("revision", REVISIONS)
def test_resources_in_a_collection_are_found_by_each_spelling(revision: str) -> None:
    server = shelf()
    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        for collection, uri in (
            ("https://example.com", "https://EXAMPLE.com/a/b"),
            ("https://example.com/", "https://example.com:443/a"),
            ("Notes://", "notes://a"),
            ("notes://work/", "NOTES://Work/x/../y"),
        ):
            with client.listen(resource_subscriptions=[collection]) as changes:
                server.resource_updated(uri)
                assert changes.next(timeout=WAIT).uri == uri


def test_a_client_subscribes_once_and_ends_the_same_subscription() -> None:
    host = Host(session=True)
    with minimcp.connect(host, revision=R4, timeout=WAIT) as client:
        client.subscribe("X://a")
        client.subscribe("x://A/")
        client.unsubscribe("x://a")
        both = client.listen(resource_subscriptions=["x://b", "X://B"])
        again = client.listen(resource_subscriptions=["X://b/"])
        both.close()
        again.close()
    assert host.subscriptions() == [
        ("subscribe", "X://a"),
        ("subscribe", "X://a"),
        ("unsubscribe", "X://a"),
        ("subscribe", "x://b"),
        ("subscribe", "X://b/"),
        ("unsubscribe", "X://b/"),
    ]


def test_a_server_may_honor_another_spelling() -> None:
    heard: List[str] = []
    host = Host(
        lambda message: host.pipe.give(agree(message["id"], resourceSubscriptions=["x://a/"]))
    )
    with minimcp.connect(host, timeout=WAIT, on_resource_updated=heard.append) as client:
        client.subscribe("X://a")
        client.subscribe("x://A")
        (id,) = host.listens()
        host.pipe.give(about(id, UPDATED, uri="x://a/"))
        assert eventually(lambda: heard == ["x://a/"])


# ------------------------------------------------------------ the cache of a client


def test_a_client_keeps_one_result_for_equivalent_uris() -> None:
    host = Host(**{"resources/read": kept})
    with minimcp.connect(host, timeout=WAIT) as client:
        for first, *others in (
            ("KBInfo://summary", "kbinfo://summary", "kbinfo://summary/"),
            ("HTTP://Example.com", "http://example.com:80/", "http://example.com/./"),
        ):
            client.read_resource(first)
            for uri in others:
                client.read_resource(uri)
        assert len(host.calls("resources/read")) == 2
        # The host of such a URI may be a value, whose case the server sees.
        assert client.read_resource("greeting://Ada").text == "greeting://Ada"
        assert client.read_resource("greeting://ada").text == "greeting://ada"


@for_each(
    ("uri", "changed"), [*PAIRS, ("greeting://Ada", "greeting://ada"), ("x://a/b/c", "X://A/b/")]
)
def test_a_change_makes_each_spelling_stale(uri: str, changed: str) -> None:
    cache = Cache()
    key = Key.of(BY_NAME[R5], "resources/read", {"uri": uri})
    assert key is not None
    cache.keep(key, {"ttlMs": 1000}, cache.mark("resources/read"))
    cache.changed("resource_updated", "y://other")
    assert cache.find(key) is not None
    cache.changed("resource_updated", changed)
    assert cache.find(key) is None
