"""card, and list --card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from minimcp.extensions import cards

from ..inside import config_of
from ..transports.test_cards import CATALOG, WANTED_CARD, running_site
from .conftest import Done

SERVER = """
from minimcp import Server{imports}
server = Server("my tickets", version="2.1.0", description="Search tickets."{card})

@server.tool
def find(text: str) -> str:
    "Find a ticket."
    return text
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    cards.kept.clear()
    yield
    cards.kept.clear()


@pytest.fixture
def site() -> Iterator[Any]:
    with running_site() as site:
        yield site


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    plain = SERVER.format(imports="", card="")
    (tmp_path / "plain.py").write_text(plain, encoding="utf-8")
    card = ', card=Card("com.example/tickets", "https://example.com/mcp")'
    carded = SERVER.format(imports=", Card", card=card)
    (tmp_path / "carded.py").write_text(carded, encoding="utf-8")
    return tmp_path


def test_a_card_is_printed(site: Any, minimcp: Callable[..., Done]) -> None:
    site.put("/mcp/server-card", WANTED_CARD)
    done = minimcp("card", f"{site.url}/mcp")
    assert (done.code, json.loads(done.out), done.err) == (0, WANTED_CARD, "")
    done = minimcp("card", f"{site.url}/other")
    assert (done.code, done.out) == (3, "") and "HTTP 404" in done.err
    done = minimcp("card", f"{site.url}/mcp", "--catalog")
    assert done.code == 2 and "apply to a server in a file" in done.err


def test_a_card_is_made(folder: Path, minimcp: Callable[..., Done]) -> None:
    done = minimcp("card", "plain.py", "--url", "https://example.com/mcp")
    made = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert (made["name"], made["version"]) == ("com.example/my-tickets", "2.1.0")
    assert made["remotes"][0]["url"] == "https://example.com/mcp"
    done = minimcp("card", "plain.py", "--url", "https://example.com/mcp", "--catalog")
    (entry,) = json.loads(done.out)["entries"]
    assert entry["url"] == "https://example.com/mcp/server-card"
    made = json.loads(minimcp("card", "carded.py").out)
    assert made["name"] == "com.example/tickets"
    made = json.loads(minimcp("card", "carded.py:server", "--url", "https://other.example/mcp").out)
    assert made["remotes"][0]["url"] == "https://other.example/mcp"
    for arguments, words in (
        (("plain.py",), "write --url"),
        (("plain.py", "--url", "http://example.com/mcp"), "must begin with https"),
        (("plain.py", "--url", "example.com"), "expected"),
        (("none.py", "--url", "https://example.com"), "none.py"),
        ((), "required"),
    ):
        done = minimcp("card", *arguments)
        assert (done.code, done.out) == (2, "") and words in done.err


def test_list_shows_the_card(shop_url: str, site: Any, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", shop_url, "--card")
    assert done.code == 0 and "no card: " in done.err and done.out.startswith("shop 3, revision")
    done = minimcp("list", shop_url, "--card", "--output", "json")
    assert json.loads(done.out)["card"] is None
    assert "card" not in json.loads(minimcp("list", shop_url, "--output", "json").out)
    done = minimcp("list", "shop.py", "--card")
    assert done.code != 0


def test_list_shows_the_card_above_the_list(minimcp: Callable[..., Done]) -> None:
    import minimcp as library

    card = library.Card("com.example/tickets", "https://example.com/mcp")
    server = library.Server("tickets", version="3", description="Search.", card=card)
    server.add_tool(lambda: "x", name="find")
    with server.start_http() as running:
        done = minimcp("list", running.url, "--card")
        assert done.out.startswith(
            "card: com.example/tickets 3: Search.\n"
            "  streamable-http at https://example.com/mcp 2026-07-28, 2025-11-25,"
        )
        assert "tickets 3, revision 2026-07-28" in done.out and "find()" in done.out
    server.close()


def test_list_shows_the_catalog_of_a_domain(site: Any, minimcp: Callable[..., Done]) -> None:
    kind = "application/mcp-server-card+json"
    port = site.domain.partition(":")[2]
    site.put("/mcp/server-card", {**WANTED_CARD, "description": "Search \x1b[31m now."})
    entries = [
        {"identifier": "urn:1", "type": kind, "url": f"http://localhost:{port}/mcp/server-card"},
        {"identifier": "urn:2", "type": kind, "url": f"{site.url}/none/server-card"},
    ]
    site.put(CATALOG, {"entries": entries})
    done = minimcp("list", site.domain, "--card")
    assert done.code == 3 and "urn:2" in done.err and "HTTP 404" in done.err
    assert done.out.startswith("card: com.example/tickets 2.1.0: Search ")
    assert "\x1b" not in done.out
    assert f"the card is on another domain: localhost:{port}" in done.out
    site.put(CATALOG, {"entries": entries[:1]})
    done = minimcp("list", site.domain, "--card", "--output", "json")
    assert (done.code, json.loads(done.out)[0]["name"]) == (0, "com.example/tickets")
    site.put(CATALOG, {"entries": []})
    assert "has no server cards" in minimcp("list", site.domain, "--card").out
    del site.pages[CATALOG]
    assert minimcp("list", site.domain, "--card").code == 3


@pytest.mark.parametrize(
    "changes, verdict, words",
    [
        ({}, "pass", "com.example/tickets"),
        ({"version": "9"}, "warn", "the card has version '9', not '3'"),
        ({"name": "tickets"}, "warn", "the card is not valid: name: expected"),
        ({"remotes": [{"type": "sse", "url": "https://x", "supportedProtocolVersions": ["1"]}]},
         "warn", "the server does not support 1"),
        (None, "n/a", "no card"),
    ],
)  # fmt: skip
def test_check_compares_the_card_with_the_server(
    changes: Any, verdict: str, words: str, minimcp: Callable[..., Done]
) -> None:
    import minimcp as library

    card = library.Card("com.example/tickets", "https://example.com/mcp")
    server = library.Server("tickets", version="3", description="Search.", card=card)
    server.add_tool(lambda: "x", name="find", description="Find.")
    config = config_of(server)
    if changes is None:
        config.card = None
    else:
        wire = json.loads(config.card.documents["/server-card"][1])
        config.card = cards.ServedCard({**wire, **changes}, card)
    with server.start_http() as running:
        done = minimcp("check", running.url, "--only", "CARD-11", "--output", "json")
    server.close()
    (found,) = [each for each in json.loads(done.out) if each["row"] == "CARD-11"]
    assert found["outcome"] == verdict and words in found["evidence"]
