"""What is kept of a server's results: for how long, for which requests, how much, and what makes it stale."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest

from minimcp.client import cache as module
from minimcp.client.cache import CACHEABLE, LONGEST, Cache, Key
from minimcp.protocol.versions import BY_NAME

from ..answering import R4, R5


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def key(method: str = "tools/list", revision: str = R5, **params: Any) -> Key:
    found = Key.of(BY_NAME[R5], method, params)
    assert found is not None
    return found._replace(revision=revision)


def keep(cache: Cache, at: Key, ttl: Any = 1000, **members: Any) -> None:
    cache.keep(at, {"ttlMs": ttl, **members}, cache.mark(at.method))


@pytest.mark.requirement("M:CACHE-6", "M:CACHE-17", "M:CACHE-12")
@pytest.mark.parametrize(("ttl", "seconds"), [
    (1000, 1), (1, 0.001), (1.5, 0.0015), (10 ** 400, LONGEST), (float("inf"), LONGEST), (LONGEST * 1000 + 1, LONGEST),
    (0, 0), (-5, 0), (None, 0), (True, 0), ("1000", 0), ([], 0),
])
def test_a_result_is_fresh_until_its_time_is_over(ttl: Any, seconds: float) -> None:
    clock = Hand()
    cache = Cache(now=clock)
    keep(cache, key(), ttl)
    assert len(cache._entries) == (1 if seconds else 0)
    clock.seconds += seconds * 0.999
    assert (cache.find(key()) is not None) == bool(seconds)
    clock.seconds = 1000.0 + seconds
    assert cache.find(key()) is None and len(cache._entries) == 0
    cache.keep(key(), {}, cache.mark("tools/list"))
    assert len(cache._entries) == 0


@pytest.mark.requirement("M:CACHE-4", "M:CACHE-12")
def test_nothing_is_served_for_another_request() -> None:
    cache = Cache()
    keep(cache, key("resources/read", uri="x:a"), says="a")
    for other in (
        key("resources/read", uri="x:b"), key("resources/read", uri="x:A"), key("resources/read"),
        key("resources/list", uri="x:a"), key("resources/read", R4, uri="x:a"),
        key("resources/read", uri="x:a", more=1), key("resources/read", uri=["x:a"]),
    ):
        assert cache.find(other) is None
    assert key(a=1, b=2) == key(b=2, a=1) and key(a=1) != key(a="1") and key(a=1) != key(a=True)
    assert cache.find(key("resources/read", uri="x:a")) == {"ttlMs": 1000, "says": "a"}


def uris(cache: Cache, *all: str) -> List[str]:
    return [uri for uri in all if cache.find(key("resources/read", uri=uri)) is not None]


@pytest.mark.requirement("M:CACHE-8")
def test_each_change_evicts_what_it_is_about() -> None:
    lists = CACHEABLE.keys() - {"resources/read"}
    gone: Dict[str, Any] = {
        "tools_list_changed": {"tools/list"},
        "prompts_list_changed": {"prompts/list"},
        "resources_list_changed": {"resources/list", "resources/templates/list"},
        "other": set(),
    }
    for kind, stale in gone.items():
        cache = Cache()
        for method in lists:
            keep(cache, key(method))
            keep(cache, key(method, cursor="2"))
        keep(cache, key("resources/read", uri="x:a"))
        cache.changed(kind)
        left = {method for method in lists for more in ({}, {"cursor": "2"}) if cache.find(key(method, **more))}
        assert left == lists - stale and uris(cache, "x:a") == ["x:a"]


@pytest.mark.requirement("M:CACHE-8")
@pytest.mark.parametrize(("uri", "left"), [
    ("x:/a", ["x:/", "x:/ab", "x:/b/a"]),
    ("x:/a/", ["x:/", "x:/ab", "x:/b/a"]),
    ("x:/a/1/2", ["x:/", "x:/ab", "x:/a/2", "x:/b/a"]),
    ("y:", ["x:/", "x:/a", "x:/ab", "x:/a/1", "x:/a/2", "x:/b/a"]),
    (None, []),
])
def test_an_update_evicts_the_resource_and_what_lies_above_and_below(uri: Optional[str], left: List[str]) -> None:
    cache = Cache()
    everything = ("x:/a", "x:/ab", "x:/a/1", "x:/a/2", "x:/b/a")
    for each in everything:
        keep(cache, key("resources/read", uri=each))
    keep(cache, key())
    cache.changed("resource_updated", uri)
    assert uris(cache, *everything) == [each for each in left if each != "x:/"]
    assert cache.find(key()) is not None
    cache.clear()
    assert len(cache._entries) == 0


@pytest.mark.requirement("M:CACHE-13")
def test_an_eviction_wins_over_what_is_being_fetched() -> None:
    cache = Cache()
    mark = cache.mark("tools/list")
    cache.changed("prompts_list_changed")
    cache.keep(key(), {"ttlMs": 1000}, mark)
    assert cache.find(key()) is not None
    for evict in (lambda: cache.changed("tools_list_changed"), cache.clear, lambda: cache.evict("tools/list")):
        mark = cache.mark("tools/list")
        evict()
        cache.keep(key(), {"ttlMs": 1000}, mark)
        assert cache.find(key()) is None
    keep(cache, key())
    assert cache.find(key()) is not None


def test_there_is_a_limit_and_what_was_used_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 3)
    cache = Cache()
    for uri in "abc":
        keep(cache, key("resources/read", uri=uri))
    assert cache.find(key("resources/read", uri="a")) is not None
    keep(cache, key("resources/read", uri="d"))
    assert uris(cache, *"abcd") == ["a", "c", "d"]
    small = Cache(100)
    keep(small, key("resources/read", uri="a"), text="x" * 40)
    keep(small, key("resources/read", uri="a"), text="y" * 40)
    assert len(small._entries) == 1
    keep(small, key("resources/read", uri="b"), text="x" * 20)
    assert uris(small, "a", "b") == ["b"]
    keep(small, key("resources/read", uri="c"), text="x" * 100)
    assert len(small._entries) == 0
