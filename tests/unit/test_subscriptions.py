"""Change notifications: which sessions and streams receive which change."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

import pytest

from minimcp.engine.batch import Batch
from minimcp.engine.incoming import DEFERRED
from minimcp.errors import InternalError, InvalidParams, InvalidRequest
from minimcp.features import subscriptions as module
from minimcp.features.subscriptions import Subscriptions
from minimcp.protocol.lifecycle import SUBSCRIPTION_KEY
from minimcp.protocol.versions import LISTS
from minimcp.server.feature import OpenSession
from minimcp.server.registry import INITIALIZED

from ..answering import R1, R5
from ..inside import sessions_with_changes, streams_with_changes
from ..scripted import RecordingOutlet
from ..support import WAIT
from .requests import exchange, registry, sent

EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["a://1", "a://dir/"],
}


def made(*kinds: str, max_streams: Optional[int] = 256) -> Subscriptions:
    return Subscriptions(registry(streams=max_streams), lambda kind: kind in kinds)


def opens(of: Subscriptions, peer: Any, post: Any) -> None:
    """Open a session, of a client that is not initialized yet."""
    peer.initialized = False
    of.opened(peer, OpenSession(post, tuple(kind for kind in LISTS if of.is_offered(kind)), ()))


def stream(of: Subscriptions, notifications: Any = EVERYTHING) -> Any:
    """Open a stream, and drop the messages that it has sent so far."""
    opened = exchange("subscriptions/listen", {"notifications": notifications}, revision=R5)
    assert of.listen(opened) is DEFERRED
    return opened


def news(opened: Any) -> List[Any]:
    """Return the messages since the last call."""
    opened.sink.work()
    lines = sent(opened)
    opened.sink.lines.clear()
    return lines


def changed(method: str, **params: Any) -> Dict[str, Any]:
    params["_meta"] = {SUBSCRIPTION_KEY: 1}
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


@pytest.mark.requirement(
    "M:SUB-2", "M:SUB-3", "M:SUB-4", "M:SUB-5", "M:SUB-19", "M:SUB-20", "M:SUB-21", "M:SUB-13"
)
def test_a_stream_acknowledges_its_filter_and_then_sends_only_that() -> None:
    subscriptions = made("tools", "resources")
    opened = stream(subscriptions, {**EVERYTHING, "junk": 5})
    subscriptions.list_changed("tools")
    honoured = {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["a://1", "a://dir/"],
    }
    assert news(opened) == [
        changed("subscriptions/acknowledged", notifications=honoured),
        changed("tools/list_changed"),
    ]
    for kind in ("prompts", "resources", "tools", "tools"):
        subscriptions.list_changed(kind)
    for uri in ("a://1", "a://2", "a://11", "a://1/part", "a://dir/x"):
        subscriptions.resource_updated(uri)
    assert news(opened) == [
        changed("resources/list_changed"),
        changed("tools/list_changed"),
        *(changed("resources/updated", uri=uri) for uri in ("a://1", "a://1/part", "a://dir/x")),
    ]


@pytest.mark.requirement("M:SUB-1")
@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "all",
        {"toolsListChanged": 1},
        {"resourceSubscriptions": "a://1"},
        {"resourceSubscriptions": [5]},
        {"resourceSubscriptions": ["a://1"] * 10_001},
    ],
)
def test_invalid_filters(wrong: Any) -> None:
    with pytest.raises(InvalidParams):
        stream(made("resources"), wrong)


def test_streams_and_sessions_may_end_while_an_notify_extension() -> None:
    subscriptions = made("tools")
    streams = [stream(subscriptions) for _ in range(2)]

    class Ends(set):  # type: ignore[type-arg]
        def __contains__(self, member: object) -> bool:
            streams.pop().token.cancel()
            return False

    for opened in streams_with_changes(subscriptions).values():
        opened.extended = Ends()
    peers = [exchange().peer for _ in range(2)]
    for peer in peers:
        opens(subscriptions, peer, lambda line: None)
        peer.supports = lambda capability: subscriptions.closed(peers.pop())  # type: ignore[method-assign,misc]
    subscriptions.notify_extension("x", "notifications/x", {}, "taskIds", "1")
    assert (
        not streams
        and not peers
        and not streams_with_changes(subscriptions)
        and not sessions_with_changes(subscriptions)
    )


def test_a_stream_begins_after_changes_that_others_are_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that has one stream take the place of another reads the first one up to the second
    one's first word."""
    subscriptions, order = made("tools"), []
    opened = [
        exchange("subscriptions/listen", {"notifications": EVERYTHING}, revision=R5)
        for _ in range(2)
    ]
    begins = threading.Thread(target=lambda: subscriptions.listen(opened[1]))

    def post(sink: Any, work: Any) -> None:
        if order and threading.current_thread() is not begins:
            begins.start()
            begins.join(0.2)  # it waits for this thread; where it does not, it is through by now
        order.append(threading.current_thread().name)

    monkeypatch.setattr(RecordingOutlet, "post", post)
    subscriptions.listen(opened[0])
    streams_with_changes(subscriptions)[opened[0]]._take()
    subscriptions.list_changed("tools")
    begins.join(WAIT)
    assert order == [threading.current_thread().name] * 2 + [begins.name]


@pytest.mark.requirement("M:SUB-15")
def test_streams_are_counted() -> None:
    subscriptions = made(max_streams=1)
    first = stream(subscriptions)
    with pytest.raises(InternalError, match="Limits.streams"):
        stream(subscriptions)
    first.token.cancel("enough")
    for work in first.sink.aside:
        work()
    stream(subscriptions)
    assert all(stream(made(max_streams=None)) for _ in range(3))


def test_a_stream_that_was_opened_in_an_array_ends_with_its_connection() -> None:
    subscriptions, shared = made("tools"), RecordingOutlet()
    opened = exchange(
        "subscriptions/listen", {"notifications": EVERYTHING}, revision=R5, sink=shared
    )
    opened.batch = Batch(shared, [], [opened.request])
    assert subscriptions.listen(opened) is DEFERRED
    subscriptions.end_streams(RecordingOutlet())
    assert len(streams_with_changes(subscriptions)) == 1
    subscriptions.end_streams(shared)
    assert not streams_with_changes(subscriptions)


@pytest.mark.requirement("RES-13", "RES-14", "RES-15", "RES-12", "TOOL-02", "PRM-10", "LIFE-15")
def test_a_session_is_notified_of_declared_changes_only() -> None:
    offered = ["tools"]
    subscriptions = Subscriptions(registry(), lambda kind: kind in offered)
    asked = exchange("resources/subscribe", {"uri": "a://1"}, revision=R1)
    opens(subscriptions, asked.peer, asked.sink.post)
    offered.append("prompts")
    assert subscriptions.subscribe(asked) == {}
    for kind in ("tools", "prompts", "tools"):
        subscriptions.list_changed(kind)
    subscriptions.resource_updated("a://1")
    assert news(asked) == [], "nothing before notifications/initialized"
    for _ in range(3):
        subscriptions.notified(INITIALIZED, asked.peer)
    assert len(asked.sink.works) == 1, (
        "a client that says it again and again has nothing queued for it"
    )
    assert [line["method"] for line in news(asked)] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    subscriptions.list_changed("prompts")
    assert subscriptions.unsubscribe(asked) == {} == subscriptions.unsubscribe(asked)
    subscriptions.resource_updated("a://1")
    assert news(asked) == []
    subscriptions.closed(asked.peer)
    subscriptions.closed(asked.peer)
    subscriptions.notified(INITIALIZED, asked.peer)
    subscriptions.list_changed("tools")
    assert news(asked) == []
    with pytest.raises(InternalError, match="ended"):
        subscriptions.subscribe(asked)


def test_subscriptions_of_a_session_are_checked_and_counted() -> None:
    subscriptions = made()
    for wrong in ({}, {"uri": 5}, {"uri": ""}):
        asked = exchange("resources/subscribe", wrong, revision=R1)
        with pytest.raises(InvalidParams):
            subscriptions.subscribe(asked)
    asked = exchange("resources/subscribe", {"uri": "a://1"}, revision=R1)
    opens(subscriptions, asked.peer, asked.sink.post)
    long = "a://" + "x" * (4 * 1024 * 1024 - 1000)
    for _ in range(2):
        for uri in (long, long, "a://1"):  # a second time it takes no room
            asked.request.params["uri"] = uri
            subscriptions.subscribe(asked)
        asked.request.params["uri"] = f"{long}x"
        with pytest.raises(InternalError, match="memory"):
            subscriptions.subscribe(asked)
        with pytest.raises(InternalError, match="memory"):
            stream(made("resources"), {"resourceSubscriptions": [f"{long}x", "a://1", long[:1000]]})
        for uri in (long, long, "a://1"):
            asked.request.params["uri"] = uri
            subscriptions.unsubscribe(asked)
    assert sessions_with_changes(subscriptions)[asked.peer].bytes == 0
    sessions_with_changes(subscriptions)[asked.peer].uris.update(
        (f"a://x{number}", None) for number in range(10_000)
    )
    with pytest.raises(InternalError, match="10000"):
        subscriptions.subscribe(asked)


def test_all_subscriptions_of_a_server_have_a_bound_and_an_open_stream_keeps_no_more() -> None:
    subscriptions = made("resources")
    uris = [f"a://{number}" + "\U0001f600" * 500_000 for number in range(9)]
    filters = [{"resourceSubscriptions": [uri], "junk": ["x"]} for uri in uris]
    opened = [stream(subscriptions, each) for each in filters[:8]]
    with pytest.raises(InternalError, match="memory"):
        stream(subscriptions, filters[8])
    assert not opened[0].request.params and opened[0].progress_token is None
    opened[0].token.cancel()
    stream(subscriptions, filters[8])
    for id in ("x" * 257, 10**256):
        long = exchange("subscriptions/listen", {"notifications": {}}, revision=R5)
        long.request = long.request._replace(id=id)
        with pytest.raises(InvalidRequest, match="256"):
            subscriptions.listen(long)


@pytest.mark.requirement("M:SUB-14")
def test_very_many_queued_changes_are_replaced_by_their_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_URIS", 3)
    subscriptions = made("tools", "resources")
    opened = stream(subscriptions, {**EVERYTHING, "resourceSubscriptions": ["a://1", "a://dir"]})
    news(opened)
    for number in range(100):
        subscriptions.resource_updated(f"a://dir/{number}")
        subscriptions.list_changed("tools")
    subscriptions.resource_updated("a://1")
    assert [message["params"].get("uri") for message in news(opened)] == [
        "a://dir/0",
        None,
        "a://dir/1",
        "a://dir",
        "a://1",
    ]
    subscriptions.resource_updated("a://dir/7")
    assert [message["params"].get("uri") for message in news(opened)] == ["a://dir/7"]
