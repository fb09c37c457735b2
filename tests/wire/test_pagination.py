"""Lists in pages as raw bytes: opaque cursors that mean the same on every connection."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import MODERN, PARAMS, encode, request

NAMES = [f"many-{index:02}" for index in range(23)]


def pages(server: RawServer) -> list[dict[str, Any]]:
    """Every page, by following the cursors."""
    found, params = [], {}
    for _ in range(100):
        found.append(server.result("tools/list", params))
        if "nextCursor" not in found[-1]:
            return found
        params = {"cursor": found[-1]["nextCursor"]}
    raise AssertionError("the pages never end")


@pytest.mark.requirement("PAGE-01", "PAGE-03", "M:PAG-1")
@pytest.mark.parametrize(("size", "lengths"), [(1, [1] * 23), (10, [10, 10, 3]), (23, [23])])
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
def test_pages_hold_everything_once(shared: Serve, revision: str, size: int, lengths: list[int]) -> None:
    server = shared(revision, tools=False, preset="many", page_size=size)
    found = pages(server)
    assert [len(page["tools"]) for page in found] == lengths
    assert [tool["name"] for page in found for tool in page["tools"]] == NAMES
    assert all(isinstance(page["nextCursor"], str) for page in found[:-1])
    assert "nextCursor" not in found[-1]  # absent, not null


@pytest.mark.requirement("PAGE-03", "PAGE-10")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_by_default_there_is_one_page(shared: Serve, revision: str) -> None:
    server = shared(revision, tools=False, preset="many")
    assert len(pages(server)) == 1
    if revision != MODERN:
        server.send(encode(request("bare", "tools/list")))
        assert len(server.answer("bare")["result"]["tools"]) == 23


@pytest.mark.requirement("PAGE-07", "M:PAG-4")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cursor_is_stable_and_belongs_to_no_process(shared: Serve, serve: Serve, revision: str) -> None:
    first, second = (start(revision, tools=False, preset="many", page_size=10) for start in (shared, serve))
    cursor = first.result("tools/list")["nextCursor"]
    page = first.result("tools/list", {"cursor": cursor})
    assert first.result("tools/list", {"cursor": cursor}) == page
    assert second.result("tools/list", {"cursor": cursor})["tools"] == page["tools"]


@pytest.mark.requirement("PAGE-08", "M:PAG-3")
@pytest.mark.parametrize(
    "cursor", ["zzz", "", "0", "-1", "999999", "9" * 5000, "\x00", "\u00e9", "\ufffd", "x" * 100_000, 5, [], {}, True],
    ids=lambda cursor: ascii(cursor)[:20],
)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_a_cursor_that_is_none(shared: Serve, revision: str, cursor: Any) -> None:
    server = shared(revision, tools=False, preset="many", page_size=10)
    assert server.ask("tools/list", {"cursor": cursor})["error"]["code"] == PARAMS
    server.fence()


@pytest.mark.requirement("PAGE-08")
def test_a_cursor_with_one_letter_changed(shared: Serve) -> None:
    """It is refused, or it is another cursor; it never breaks anything."""
    server = shared("2025-11-25", tools=False, preset="many", page_size=10)
    cursor = server.result("tools/list")["nextCursor"]
    for index in range(len(cursor)):
        changed = cursor[:index] + ("A" if cursor[index] != "A" else "B") + cursor[index + 1 :]
        reply = server.ask("tools/list", {"cursor": changed})
        assert "result" in reply or reply["error"]["code"] == PARAMS
    assert server.result("ping") == {}


@pytest.mark.requirement("M:CACHE-2")
def test_pages_agree_on_who_may_keep_them(serve: Serve) -> None:
    server = serve(MODERN, tools=False, preset="many", page_size=5, list_cache_scope="public", list_ttl=60)
    found = pages(server)
    assert {page["cacheScope"] for page in found} == {"public"}
    assert {page["ttlMs"] for page in found} == {60_000}
