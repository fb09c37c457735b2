"""Change notices as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List, NamedTuple

import pytest

import minimcp
from minimcp import Client, ConnectionLost, RequestTimeout, Server
from minimcp.client.subscriptions import Filter

from ..answering import R4, R5
from ..scripted import Task
from ..support import WAIT, outlives_the_test
from .links import LINKS, served

EVERY_LIST: Dict[str, Any] = {
    "tools_list_changed": True,
    "prompts_list_changed": True,
    "resources_list_changed": True,
}
LISTS = ("tools", "prompts", "resources")


class Link(NamedTuple):
    """A transport with a revision, a connected client, and the notifications of its callbacks."""

    transport: str
    revision: str
    client: Client
    heard: "SimpleQueue[str]"

    @property
    def handshake(self) -> bool:
        return self.revision != R5

    def next(self, count: int) -> List[str]:
        return [self.heard.get(timeout=WAIT) for _ in range(count)]


def opened(transport: str, revision: str, **keywords: Any) -> Client:
    return minimcp.connect(
        served(transport, "changes_server"), revision=revision, timeout=WAIT, **keywords
    )


def callbacks(heard: "SimpleQueue[str]") -> Dict[str, Callable[..., Any]]:
    lists = {f"on_{kind}_changed": (lambda kind=kind: heard.put(kind)) for kind in LISTS}
    return {**lists, "on_resource_updated": heard.put}


def open_link(transport: str, revision: str) -> Link:
    heard: "SimpleQueue[str]" = SimpleQueue()
    return Link(transport, revision, opened(transport, revision, **callbacks(heard)), heard)


@pytest.fixture(scope="module", params=LINKS, ids="-".join)
def shared(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A way; over stdio many tests share one process."""
    transport, revision = request.param
    with ExitStack() as stack:
        link = None
        if transport == "stdio":
            with outlives_the_test():
                link = open_link(transport, revision)
                stack.enter_context(link.client)
                link.client.call_tool("change", {"kind": "tools"})
                link.next(1)  # the first callback starts the thread of all callbacks
        yield transport, revision, link


@pytest.fixture
def own(shared: Any) -> Iterator[Link]:
    """A link whose threads may start and end."""
    link = open_link(*shared[:2])
    with link.client:
        yield link


@pytest.fixture
def link(shared: Any) -> Iterator[Link]:
    link = shared[2] or open_link(*shared[:2])
    yield link
    if link is not shared[2]:
        link.client.close()


def touch(client: Client, *uris: str) -> None:
    for uri in uris:
        client.call_tool("touch", {"uri": uri})


def told(changes: Any, count: int) -> List[Any]:
    return [
        (change.kind, change.uri) for change in (changes.next(timeout=WAIT) for _ in range(count))
    ]


@pytest.mark.requirement("TOOL-02", "PRM-10", "RES-12", "M:PRM-7", "M:SUB-19", "M:BASE-23")
def test_callbacks_are_notified_of_every_list(link: Link) -> None:
    for kind in LISTS:
        link.client.call_tool("change", {"kind": kind})
        assert link.next(1) == [kind]
    assert link.heard.empty()


@pytest.mark.requirement("RES-13", "RES-14", "RES-15", "M:SUB-18", "M:SUB-22", "M:SUB-24")
def test_callbacks_are_notified_of_subscribed_resources_only(own: Link) -> None:
    link = own
    client = link.client
    client.subscribe("a://1")
    client.subscribe("a://dir")
    touch(client, "a://2", "a://1", "a://12", "a://dir/part")
    assert link.next(2) == ["a://1", "a://dir/part"]
    client.unsubscribe("a://1")
    touch(client, "a://1", "a://dir")
    assert link.next(1) == ["a://dir"]
    client.unsubscribe("a://dir")
    client.unsubscribe("a://never")
    touch(client, "a://1", "a://dir")
    client.subscribe("a://3")
    touch(client, "a://3")
    assert link.next(1) == ["a://3"]
    client.unsubscribe("a://3")
    assert link.heard.empty()


@pytest.mark.requirement("M:SUB-5", "M:SUB-7", "M:SUB-12", "M:SUB-24", "M:STD-6", "RES-15")
def test_streams_name_the_changes_that_they_report(link: Link) -> None:
    client = link.client
    with client.listen(**EVERY_LIST, resource_subscriptions=["a://1", "a://dir"]) as every:
        assert every.honored == Filter(True, True, True, ("a://1", "a://dir"))
        with client.listen(resources_list_changed=True, resource_subscriptions=["a://2"]) as some:
            touch(client, "a://2", "a://1", "a://3", "a://dir/x")
            assert told(every, 2) == [
                ("resource_updated", "a://1"),
                ("resource_updated", "a://dir/x"),
            ]
            client.call_tool("change", {"kind": "prompts"})
            assert told(every, 1) == [("prompts_list_changed", None)]
            client.call_tool("change", {"kind": "resources"})
            assert told(some, 2) == [
                ("resource_updated", "a://2"),
                ("resources_list_changed", None),
            ]
        touch(client, "a://2")
        client.call_tool("change", {"kind": "tools"})
        assert told(every, 2) == [("resources_list_changed", None), ("tools_list_changed", None)]
    touch(client, "a://1")
    with pytest.raises(ConnectionLost):
        every.next(0)
    with client.listen(resource_subscriptions=["a://9"]) as quiet, pytest.raises(RequestTimeout):
        touch(client, "a://1")
        quiet.next(timeout=0.01)
    assert [each for each in link.next(6 if link.handshake else 3) if "://" not in each] == [
        "prompts",
        "resources",
        "tools",
    ], "in a session all that the streams subscribed to is told to the callbacks too"


ENDS = [("memory", R4), ("memory", R5), ("stdio", R4), ("stdio", R5)]


@pytest.mark.requirement("M:SUB-9", "M:SUB-11")
@pytest.mark.parametrize("transport,revision", ENDS)
def test_an_iteration_ends_with_its_server(transport: str, revision: str) -> None:
    with opened(transport, revision) as client, client.listen(tools_list_changed=True) as changes:
        client.call_tool("change", {"kind": "tools"})
        iterating = Task(lambda: {change.kind for change in changes})
        try:
            client.call_tool("bye")
        except ConnectionLost:
            pass  # it may exit before its last message
        if revision == R5:
            assert iterating.result() == {"tools_list_changed"}, "it said that the stream is over"
        else:
            with pytest.raises(ConnectionLost):
                iterating.result()


@pytest.mark.requirement("M:BASE-23", "M:SUB-26", "M:SUB-12")
def test_a_server_without_changes_accepts_no_filter() -> None:
    for revision in (R4, R5):
        with minimcp.connect(Server("bare"), revision=revision) as client:
            with client.listen(**EVERY_LIST, resource_subscriptions=["a://1"]) as changes:
                assert not any(changes.honored)
            with pytest.raises(minimcp.CapabilityNotSupported):
                client.subscribe("a://1")
