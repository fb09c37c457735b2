"""What a client keeps of our own server's results, over memory and stdio; before 2026-07-28 it keeps nothing."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any, Iterator, List

import pytest

from minimcp.client import connect as connecting
from minimcp.client.cache import Cache

from ..answering import R4, R5
from ..scripted import wait_for
from ..unit.test_cache import Hand
from .links import Link

MINUTE = {"list_ttl": 60, "page_size": 3}


class Traced:
    """A client, and the methods of what it sends; its cache lives by `clock`."""

    def __init__(self, way: str, revision: str, **keywords: Any) -> None:
        self.sent: List[str] = []
        self.clock = Hand()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connecting, "Cache", partial(Cache, now=self.clock))
            self.client = Link("resources_server", way, revision).open(MINUTE, trace=self._trace, **keywords)

    def _trace(self, arrow: str, message: str) -> None:
        if arrow == "-->":
            self.sent.append(json.loads(message).get("method", "answer"))

    def count(self, method: str) -> int:
        return self.sent.count(method)


@pytest.fixture(params=[(way, revision) for way in ("memory", "stdio") for revision in (R4, R5)], ids="-".join)
def traced(request: pytest.FixtureRequest) -> Iterator[Traced]:
    way, revision = request.param
    changed = threading.Event()
    found = Traced(way, revision, on_resources_changed=changed.set)
    found.changed = changed  # type: ignore[attr-defined]
    with found.client:
        yield found


@pytest.mark.requirement("M:CACHE-6", "M:CACHE-8", "M:CACHE-12", "M:CACHE-17", "M:DISC-5")
def test_lists_and_reads_are_kept_as_long_as_they_say(traced: Traced) -> None:
    client, modern = traced.client, traced.client.revision == R5
    pages = (len(client.list_resources()) + 2) // 3
    assert pages > 1 and traced.count("resources/list") == pages
    client.list_resources().clear()
    assert traced.count("resources/list") == (pages if modern else 2 * pages)
    traced.sent.clear()
    for _ in range(3):
        assert client.list_tools() and client.list_prompts() and client.list_resource_templates()
        assert client.read_resource("notes://all").text == "# notes"
        assert client.read_resource("own://hints").text == "now"
    assert client.read_resource("json://day").text == client.read_resource("json://day").text
    reads = traced.count("resources/read")
    assert reads == (1 + 1 + 2 if modern else 3 + 3 + 2), "what says nothing is not kept"
    assert (traced.count("tools/list") == 1) == modern
    traced.clock.seconds += 0.007
    client.read_resource("own://hints")
    client.read_resource("notes://all")
    assert traced.count("resources/read") == reads + (1 if modern else 2), "the result's own word wins"
    traced.clock.seconds += 59
    before = traced.count("tools/list")
    client.list_tools()
    assert traced.count("tools/list") == (1 if modern else before + 1)
    traced.clock.seconds += 1
    client.list_tools()
    assert traced.count("tools/list") == (2 if modern else before + 2)


@pytest.mark.requirement("M:CACHE-8")
def test_a_change_of_a_list_is_seen_at_once(traced: Traced) -> None:
    client = traced.client
    before = {resource.uri for resource in client.list_resources()}
    client.list_resources()
    client.call_tool("grow")
    wait_for(traced.changed)  # type: ignore[attr-defined]
    assert {resource.uri for resource in client.list_resources()} - before == {"new://added"}
