"""Pages: what is kept, what is forgotten, and cursors that are none of ours."""

from __future__ import annotations

import base64
import json
from typing import Any, List, Optional

import pytest
from minimcp.server.paging import Pages

from minimcp import InvalidParams
from minimcp.protocol.versions import BY_NAME, Revision

from ..answering import R1, R4


class Listed:
    """A list that counts how often it is looked at."""

    def __init__(self, size: int, page_size: Optional[int]) -> None:
        self.items: List[Any] = [{"n": number} for number in range(size)]
        self.looks = 0
        self.pages = Pages("things", page_size, self.describe)

    def describe(self, revision: Revision) -> List[Any]:
        self.looks += 1
        return [{**item, "in": revision.name} for item in self.items]

    def page(self, cursor: Any = None, revision: str = R4) -> Any:
        params = {} if cursor is None else {"cursor": cursor}
        return json.loads(self.pages.page(BY_NAME[revision], params, ',"end":true'))


@pytest.mark.requirement("PAGE-01", "PAGE-02")
@pytest.mark.parametrize(("size", "page_size", "sizes"), [
    (0, None, [0]), (5, None, [5]), (0, 2, [0]), (1, 2, [1]), (2, 2, [2]), (5, 2, [2, 2, 1]), (3, 1, [1, 1, 1]),
])
def test_every_item_comes_once(size: int, page_size: Any, sizes: List[int]) -> None:
    listed, seen, cursor = Listed(size, page_size), [], None
    for expected in sizes:
        page = listed.page(cursor)
        assert len(page["things"]) == expected and page["end"] is True
        seen += page["things"]
        cursor = page.get("nextCursor")
    assert cursor is None and [item["n"] for item in seen] == list(range(size))


def test_a_page_is_made_once_for_each_revision_until_the_list_changes() -> None:
    listed = Listed(4, 2)
    first = listed.page()
    assert listed.page() == first and listed.looks == 1
    assert listed.page(revision=R1)["things"][0]["in"] == R1 and listed.looks == 2
    assert listed.page(first["nextCursor"])["things"] and listed.looks == 2, "all pages are made at once"
    del listed.items[1:]
    assert listed.page() == first, "nobody has said that it changed"
    listed.pages.forget()
    assert len(listed.page()["things"]) == 1
    with pytest.raises(InvalidParams):
        listed.page(first["nextCursor"])


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.requirement("PAGE-08")
@pytest.mark.parametrize("cursor", [
    "", "?", "abc", encoded("things:0"), encoded("things:01"), encoded("others:2"), encoded("things:-2"),
    encoded("things"),
    encoded("things:2") + "\n", encoded("things:2").rstrip("="), encoded("things:99"), encoded("things:" + "9" * 5000),
    encoded("things:²"), "things:2", 2, True, ["x"], {}, "\ud800",
])
def test_a_cursor_that_is_none_of_ours(cursor: Any) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        Listed(5, 2).page(cursor)
    assert Listed(5, 2).page(encoded("things:2"))["things"][0]["n"] == 2, "ours is the same in every process"


def test_ten_thousand_items_are_described_once() -> None:
    listed, seen, cursor = Listed(10_000, 10), 0, None
    while True:
        page = listed.page(cursor)
        seen += len(page["things"])
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert seen == 10_000 and listed.looks == 1
    with pytest.raises(InvalidParams):
        listed.page(encoded("things:15"))
