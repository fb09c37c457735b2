"""Apps: registrations that are rejected, and the contents of the script."""

from __future__ import annotations

import re
from typing import Any

import pytest

import minimcp
from minimcp import Apps, Server
from minimcp.extensions.apps import script
from minimcp.server.options import AppOptions

from ..inside import feature_of
from ..rows import for_each
from ..support import ROOT

URI = "ui://sales/chart"


def chart() -> str:
    """A bar for each month."""
    return "<!DOCTYPE html><title>Sales</title>"


def sales() -> str:
    """Sales so far."""
    return "much"


@pytest.fixture
def server() -> Server:
    made = Server("sales", extensions=[Apps()])
    made.add_app(chart, URI)
    return made


@for_each(
    ("uri", "options", "kind", "words"),
    [
        ("notes://chart", {}, ValueError, "must begin with ui://"),
        ("ui://", {}, ValueError, "must begin with ui://"),
        ("ui://sales/{month}", {}, ValueError, "no variables"),
        (URI, {}, ValueError, "exists"),
        ("ui://a", {"csp": ["https://a.org"]}, TypeError, "csp must be a mapping"),
        ("ui://a", {"csp": {"connect_domain": []}}, ValueError, "did you mean 'connect_domains'"),
        ("ui://a", {"csp": {"connectDomains": []}}, ValueError, "did you mean 'connect_domains'"),
        (
            "ui://a",
            {"csp": {"connect_domains": "https://a.org"}},
            ValueError,
            "connect_domains must be a list of origins",
        ),
        (
            "ui://a",
            {"csp": {"connect_domains": ["https://a.org; script-src *"]}},
            ValueError,
            "a list of origins",
        ),
        (
            "ui://a",
            {"csp": {"frame_domains": [5]}},
            ValueError,
            "frame_domains must be a list of origins",
        ),
        (
            "ui://a",
            {"permissions": ["clipboardWrite"]},
            ValueError,
            "did you mean 'clipboard_write'",
        ),
        ("ui://a", {"permissions": ["camra"]}, ValueError, "did you mean 'camera'"),
        (
            "ui://a",
            {"csp": {"connect_domains": ["https://a.org 'unsafe-eval'"]}},
            ValueError,
            "a list of origins",
        ),
        (
            "ui://a",
            {"csp": {"connect_domains": ["https://a.org\0"]}},
            ValueError,
            "a list of origins",
        ),
        (
            "ui://a",
            {"csp": {"connect_domains": ["https://\u212a.org"]}},
            ValueError,
            "a list of origins",
        ),
        ("ui://a", {"csp": {"connect_domains": ["*"]}}, ValueError, "a list of origins"),
        (
            "ui://a",
            {"permissions": "camera"},
            TypeError,
            "permissions must be a list of permissions",
        ),
        ("ui://a", {"border": 1}, TypeError, "border must be True, False or None"),
        ("ui://a\n", {}, ValueError, "."),
        ("ui://a b", {}, ValueError, "."),
        ("ui://a/../b", {}, ValueError, "segment"),
        ("ui://a", {"border": "yes"}, TypeError, "border must be True, False or None"),
        ("ui://a", {"domain": 5}, TypeError, "domain must be text or None"),
        ("ui://a", {"boarder": True}, TypeError, "did you mean border="),
        ("ui://a", {"ttl": -1}, ValueError, "ttl"),
        ("ui://a", {"mime_type": "text/html"}, TypeError, "an app has no option mime_type="),
    ],
)
def test_invalid_apps(server: Server, uri: str, options: Any, kind: Any, words: str) -> None:
    def other() -> str:
        """Another page."""
        return ""

    with pytest.raises(kind, match=words):
        server.app(uri, **options)(other)


@for_each(
    ("options", "kind", "words"),
    [
        ({"ui": "ui://sales/chrt"}, ValueError, f"did you mean '{URI}'"),
        ({"ui": "https://sales/chart"}, ValueError, "no earlier app is registered as"),
        ({"ui": 5}, TypeError, "ui must be the URI of an app"),
        ({"visibility": 5}, TypeError, 'visibility must be "model"'),
        ({"visibility": "host"}, ValueError, "visibility cannot be 'host'"),
        ({"visibility": ["app", "modell"]}, ValueError, "did you mean 'model'"),
        ({"visibility": []}, ValueError, "visibility is empty"),
    ],
)
def test_invalid_options_of_a_tool(server: Server, options: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        server.add_tool(sales, **options)


def test_a_resource_that_is_not_an_app_is_not_a_page(server: Server) -> None:
    server.add_resource(chart, "ui://plain", name="plain")
    with pytest.raises(ValueError, match="no earlier app is registered as 'ui://plain'"):
        server.add_tool(sales, ui="ui://plain")


@pytest.mark.parametrize("options", [{"ui": URI}, {"visibility": "app"}], ids=["ui", "visibility"])
def test_the_error_without_the_extension_says_what_to_write(options: Any) -> None:
    server = Server("plain")
    with pytest.raises(ValueError, match=r"extensions=\[Apps\(\)\]"):
        server.add_tool(sales, **options)
    with pytest.raises(TypeError, match=r"extensions=\[Apps\(\)\]"):
        server.app(URI)(chart)


@pytest.mark.parametrize(
    "origin", ["https://*.a.org", "wss://a.org:8443", "http://[::1]:*", "HTTPS://xn--bcher-kva.a"]
)
def test_origins_are_sources_of_a_policy(server: Server, origin: str) -> None:
    def other() -> str:
        """Another page."""
        return ""

    server.add_app(other, "ui://a", csp={"frame_domains": [origin], "base_uri_domains": []})
    shown = feature_of(server, "resources").table.items["ui://a"].definition
    assert shown.meta == {"ui": {"csp": {"frameDomains": [origin], "baseUriDomains": []}}}


def test_a_mark_needs_the_uri_and_the_extension() -> None:
    with pytest.raises(TypeError, match="the URI comes first"):
        minimcp.app(chart)  # type: ignore[arg-type]

    class Shop:
        @minimcp.app("ui://shop")
        def page(self) -> str:
            """A page."""
            return ""

    with pytest.raises(
        TypeError, match=r"Shop.page .* needs Server\(..., extensions=\[Apps\(\)\]\)"
    ):
        Server("shop", Shop())


def test_the_options_are_explained() -> None:
    for name in AppOptions.__annotations__:
        assert f"{name}: " in (Server.app.__doc__ or "")


def test_the_page_documents_the_functions_of_the_script() -> None:
    page = (ROOT / "examples" / "apps.rst").read_text(encoding="utf-8")
    terms = re.findall(r"^``app\..*", page, re.M)
    explained = re.findall(r"``app\.(\w+)", "\n".join(terms))
    api = script().partition("\n  return {")[2]
    defined = re.findall(r"^    (?:async )?(\w+)[:(]|[ ,](request|notify),", api, re.M)
    assert sorted(explained) == sorted(
        [*filter(None, (name for both in defined for name in both)), "host"]
    )


def test_the_script_is_small_and_can_be_part_of_a_page() -> None:
    assert len(script().encode()) < 3000
    assert not re.search("</script|<!--", script(), re.IGNORECASE)
