"""The cache of a client: how long it keeps results, for which requests, how many, and which calls
read it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

import minimcp
from minimcp.client import cache as module
from minimcp.client.cache import MAX_SECONDS, Cache, Key
from minimcp.protocol.versions import BY_NAME, CACHEABLE

from ..answering import R4, R5, Answering, error, result
from ..inside import cached, session_of
from ..scripted import notice, wait_for
from ..support import WAIT


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
@pytest.mark.parametrize(
    ("ttl", "seconds"),
    [
        (1000, 1),
        (1, 0.001),
        (1.5, 0.0015),
        (10**400, MAX_SECONDS),
        (float("inf"), MAX_SECONDS),
        (MAX_SECONDS * 1000 + 1, MAX_SECONDS),
        (0, 0),
        (-5, 0),
        (None, 0),
        (True, 0),
        ("1000", 0),
        ([], 0),
    ],
)
def test_a_result_is_fresh_until_its_time_is_over(ttl: Any, seconds: float) -> None:
    clock = Hand()
    cache = Cache(now=clock)
    keep(cache, key(), ttl)
    assert cached(cache) == (1 if seconds else 0)
    clock.seconds += seconds * 0.999
    assert (cache.find(key()) is not None) == bool(seconds)
    clock.seconds = 1000.0 + seconds
    assert cache.find(key()) is None and cached(cache) == 0
    cache.keep(key(), {}, cache.mark("tools/list"))
    assert cached(cache) == 0


@pytest.mark.requirement("M:CACHE-4", "M:CACHE-12")
def test_nothing_is_served_for_another_request() -> None:
    cache = Cache(now=Hand())
    keep(cache, key("resources/read", uri="x:a"), says="a")
    for other in (
        key("resources/read", uri="x:b"),
        key("resources/read", uri="x:A"),
        key("resources/read"),
        key("resources/list", uri="x:a"),
        key("resources/read", R4, uri="x:a"),
        key("resources/read", uri="x:a", more=1),
        key("resources/read", uri=["x:a"]),
    ):
        assert cache.find(other) is None
    assert key(a=1, b=2) == key(b=2, a=1) and key(a=1) != key(a="1") and key(a=1) != key(a=True)
    assert cache.find(key("resources/read", uri="x:a")) == {"ttlMs": 1000, "says": "a"}


def uris(cache: Cache, *all: str) -> List[str]:
    return [uri for uri in all if cache.find(key("resources/read", uri=uri)) is not None]


@pytest.mark.requirement("M:CACHE-8")
def test_each_change_evicts_the_results_that_it_affects() -> None:
    lists = CACHEABLE.keys() - {"resources/read"}
    gone: Dict[str, Any] = {
        "tools_list_changed": {"tools/list"},
        "prompts_list_changed": {"prompts/list"},
        "resources_list_changed": {"resources/list", "resources/templates/list"},
        "other": set(),
    }
    for kind, stale in gone.items():
        cache = Cache(now=Hand())
        for method in lists:
            keep(cache, key(method))
            keep(cache, key(method, cursor="2"))
        keep(cache, key("resources/read", uri="x:a"))
        cache.changed(kind)
        left = {
            method
            for method in lists
            for more in ({}, {"cursor": "2"})
            if cache.find(key(method, **more))
        }
        assert left == lists - stale and uris(cache, "x:a") == ["x:a"]


@pytest.mark.requirement("M:CACHE-8")
@pytest.mark.parametrize(
    ("uri", "left"),
    [
        ("x:/a", ["x:/", "x:/ab", "x:/b/a"]),
        ("x:/a/", ["x:/", "x:/ab", "x:/b/a"]),
        ("x:/a/1/2", ["x:/", "x:/ab", "x:/a/2", "x:/b/a"]),
        ("y:", ["x:/", "x:/a", "x:/ab", "x:/a/1", "x:/a/2", "x:/b/a"]),
        (None, []),
    ],
)
def test_an_update_evicts_the_resource_and_the_resources_above_and_below(
    uri: Optional[str], left: List[str]
) -> None:
    cache = Cache(now=Hand())
    everything = ("x:/a", "x:/ab", "x:/a/1", "x:/a/2", "x:/b/a")
    for each in everything:
        keep(cache, key("resources/read", uri=each))
    keep(cache, key())
    cache.changed("resource_updated", uri)
    assert uris(cache, *everything) == [each for each in left if each != "x:/"]
    assert cache.find(key()) is not None
    cache.clear()
    assert cached(cache) == 0


def test_the_cache_is_bounded_and_keeps_the_most_recently_used_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 3)
    cache = Cache(now=Hand())
    for uri in "abc":
        keep(cache, key("resources/read", uri=uri))
    assert cache.find(key("resources/read", uri="a")) is not None
    keep(cache, key("resources/read", uri="d"))
    assert uris(cache, *"abcd") == ["a", "c", "d"]
    small = Cache(500, now=Hand())
    keep(small, key("resources/read", uri="a"), text="x" * 40)
    keep(small, key("resources/read", uri="a"), text="y" * 40)
    assert cached(small) == 1
    keep(small, key("resources/read", uri="b"), text="x" * 20)
    assert uris(small, "a", "b") == ["b"]
    keep(small, key("resources/read", uri="c"), text="x" * 300)
    assert cached(small) == 0


Connected = Tuple[minimcp.Client, Any]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hand:
    """The clock of the caches of this test's clients."""
    hand = Hand()
    monkeypatch.setattr(module, "Cache", partial(Cache, now=hand))
    return hand


@pytest.fixture
def connected(clock: Hand) -> Iterator[Callable[..., Connected]]:
    """Makes clients of scripted servers."""
    clients: List[minimcp.Client] = []

    def make(answers: Any, revision: str = R5, **options: Any) -> Connected:
        listed: Dict[str, Any] = {"listChanged": True}
        capabilities = {
            "tools": listed,
            "prompts": listed,
            "resources": {**listed, "subscribe": True},
        }
        found = result(
            supportedVersions=[R5],
            capabilities=capabilities,
            ttlMs=1000,
            instructions="Mind the gap.",
        )
        server = Answering({"server/discover": found}, modern=True)
        server.answers.update(answers(server) if callable(answers) else answers)
        client = minimcp.connect(server, revision=revision, timeout=WAIT, **options)
        clients.append(client)
        server.pipe.messages.clear()
        return client, server

    yield make
    for client in clients:
        client.close()


def tools(*names: str, ttl: Any = 1000, **more: Any) -> Any:
    listed = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return result(
        tools=listed,
        resultType="complete",
        cacheScope="private",
        **({} if ttl is None else {"ttlMs": ttl}),
        **more,
    )


def contents(text: str = "x", ttl: int = 1000) -> Any:
    return result(
        contents=[{"uri": "x:a", "text": text}],
        ttlMs=ttl,
        cacheScope="public",
        resultType="complete",
    )


def names(client: minimcp.Client, **options: Any) -> List[str]:
    return [tool.name for tool in client.list_tools(**options)]


@pytest.mark.requirement("M:CACHE-6", "M:CACHE-17", "M:CACHE-14")
def test_use_refresh_and_bypass(connected: Callable[..., Connected], clock: Hand) -> None:
    client, server = connected(
        {"tools/list": [tools("a"), tools("b"), tools("c"), tools("d"), tools("e", ttl=0)]}
    )
    assert names(client) == ["a"] == names(client)
    assert names(client, cache="bypass") == ["b"] and names(client) == ["a"]
    assert names(client, cache="refresh") == ["c"] == names(client)
    clock.seconds += 1
    assert names(client) == ["d"] == names(client)
    clock.seconds += 1
    assert names(client) == ["e"] == names(client) and len(server.pipe.messages) == 6
    with pytest.raises(ValueError, match='cache must be "use", "refresh" or "bypass", not \'no\''):
        client.list_tools(cache="no")
    with pytest.raises(ValueError, match="cache must be"):
        client.request("x", cache="")


@pytest.mark.requirement("M:CACHE-4", "M:DISC-5")
def test_all_six_methods_are_kept_each_for_itself(connected: Callable[..., Connected]) -> None:
    answers = {
        "tools/list": tools("a"),
        "prompts/list": result(prompts=[{"name": "p"}], ttlMs=1000),
        "resources/list": result(resources=[{"uri": "x:a", "name": "a"}], ttlMs=1000),
        "resources/templates/list": result(
            resourceTemplates=[{"uriTemplate": "x:{a}", "name": "t"}], ttlMs=1000
        ),
        "resources/read": [contents("1"), contents("2")],
    }
    client, server = connected(answers)
    assert client.instructions == "Mind the gap."
    for _ in range(2):
        assert client.list_tools()[0].name == "a" and client.list_prompts()[0].name == "p"
        assert (
            client.list_resources()[0].name == "a"
            and client.list_resource_templates()[0].name == "t"
        )
        assert client.read_resource("x:a").text == "1" and client.read_resource("x:b").text == "2"
        assert client.request("server/discover")["instructions"] == "Mind the gap."
        assert client.request("resources/read", {"uri": "x:a"})["contents"][0]["text"] == "1"
    assert sorted(server.pipe.methods()) == sorted([*answers, "resources/read", "server/discover"])
    client.request("server/discover", cache="refresh")
    client.ping()
    client.ping()
    assert server.pipe.methods().count("server/discover") == 4


@pytest.mark.requirement("M:CACHE-5", "M:CACHE-14", "M:MRTR-C13")
def test_one_of_a_kind_is_neither_kept_nor_served(connected: Callable[..., Connected]) -> None:
    asking = result(resultType="input_required", requestState="s")
    client, server = connected({"resources/read": [asking, contents("1"), asking, contents("2")]})
    assert client.read_resource("x:a").text == "1" and client.read_resource("x:a").text == "2"
    assert [message["params"].get("requestState") for message in server.pipe.messages] == [
        None,
        "s",
        None,
        "s",
    ]
    server.answers["resources/read"] = [asking, contents("3"), contents("4")]
    assert client.request("resources/read", {"uri": "x:a"}, raw=True)["requestState"] == "s"
    assert (
        client.request("resources/read", {"uri": "x:a", "requestState": "s"})["contents"][0]["text"]
        == "3"
    )
    assert client.read_resource("x:a").text == "4" == client.read_resource("x:a").text
    for special in ({"_meta": {"com.example/a": 1}}, {"inputResponses": {}}, {"requestState": "t"}):
        server.answers["resources/read"] = contents("5")
        assert (
            client.request("resources/read", {"uri": "x:a", **special})["contents"][0]["text"]
            == "5"
        )
        assert client.read_resource("x:a").text == "4"


@pytest.mark.requirement("M:CACHE-8", "M:CACHE-13", "M:SUB-23")
def test_a_notification_evicts_before_the_host_receives_it(
    connected: Callable[..., Connected],
) -> None:
    seen: List[Any] = []
    heard = threading.Event()

    def look() -> None:
        seen.append(names(client))
        heard.set()

    def answers(server: Any) -> Dict[str, Any]:
        def acknowledge(message: Any) -> None:
            server.stream = {"io.modelcontextprotocol/subscriptionId": message["id"]}
            agreed = {"toolsListChanged": True}
            server.pipe.give(
                notice(
                    "notifications/subscriptions/acknowledged",
                    notifications=agreed,
                    _meta=server.stream,
                )
            )

        return {"tools/list": [tools("a"), tools("b")], "subscriptions/listen": acknowledge}

    client, server = connected(answers, on_tools_changed=look)
    assert names(client) == ["a"] == names(client)
    server.pipe.give(notice("notifications/tools/list_changed", _meta=server.stream))
    wait_for(heard)
    assert seen == [["b"]]


@pytest.mark.requirement("M:CACHE-13")
def test_a_notice_while_a_list_is_fetched_wins(connected: Callable[..., Connected]) -> None:
    client, server = connected({})
    first = [True]

    def changing(message: Any) -> Any:
        if first.pop() if first else False:
            server.pipe.give(notice("notifications/tools/list_changed"))
            return tools("old")(message)
        return tools("new")(message)

    server.answers["tools/list"] = changing
    assert names(client) == ["old"] and names(client) == ["new"] == names(client)


def test_a_cancelled_call_and_a_lost_connection_are_served_nothing(
    connected: Callable[..., Connected],
) -> None:
    client, server = connected({"tools/list": tools("a")})
    names(client)
    token = minimcp.CancelToken()
    token.cancel()
    with pytest.raises(minimcp.Cancelled):
        client.list_tools(cancel=token)
    with pytest.raises(TypeError, match="cancel must be a CancelToken"):
        client.list_tools(cancel=5)  # type: ignore[arg-type]
    server.pipe.end()
    assert session_of(client).wait_until_ended(WAIT)
    for call in (client.list_tools, lambda: client.request("tools/list")):
        with pytest.raises(minimcp.ConnectionLost):
            call()


def paged(**pages: Any) -> Any:
    """Answers `tools/list` by cursor; ``first`` has none."""
    return lambda message: pages[message["params"].get("cursor", "first")](message)


@pytest.mark.requirement("M:CACHE-16")
def test_pages_expire_one_by_one(connected: Callable[..., Connected], clock: Hand) -> None:
    client, server = connected(
        {"tools/list": paged(first=tools("a", nextCursor="two"), two=tools("b", ttl=400))}
    )
    assert names(client) == ["a", "b"] == names(client)
    clock.seconds += 0.5
    assert names(client) == ["a", "b"]
    cursors = [message["params"].get("cursor") for message in server.pipe.messages]
    assert cursors == [None, "two", "two"]
    assert names(client, cache="refresh") == ["a", "b"] and len(server.pipe.messages) == 5


@pytest.mark.requirement("M:CACHE-11")
def test_a_cursor_that_is_refused_starts_the_list_over(
    connected: Callable[..., Connected], clock: Hand
) -> None:
    refused = error(-32602, "no such cursor")
    client, server = connected(
        {"tools/list": paged(first=tools("a", nextCursor="two"), two=tools("b", ttl=400))}
    )
    names(client)
    clock.seconds += 0.5
    server.answers["tools/list"] = paged(
        first=tools("c", nextCursor="three"), two=refused, three=tools("d")
    )
    assert names(client) == ["c", "d"] == names(client)
    server.answers["tools/list"] = paged(first=tools("e", nextCursor="two"), two=refused)
    with pytest.raises(minimcp.InvalidParams, match="no such cursor"):
        names(client, cache="refresh")
    server.pipe.messages.clear()
    server.answers["tools/list"] = refused
    clock.seconds += 2
    with pytest.raises(minimcp.InvalidParams):
        names(client)
    assert len(server.pipe.messages) == 1


@pytest.mark.requirement("M:CACHE-9")
def test_the_cache_needs_no_timer(connected: Callable[..., Connected]) -> None:
    before = set(threading.enumerate())
    client, server = connected({"tools/list": tools("a", ttl=1)})
    running = set(threading.enumerate())
    names(client)
    assert (
        running - before
        and not set(threading.enumerate()) - running
        and server.pipe.methods() == ["tools/list"]
    )
