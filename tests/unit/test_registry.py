"""The methods of a server: which there are in a revision, what is declared, tables, pages, and how results end."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest

import minimcp
from minimcp import CapabilityNotSupported, Context, InvalidParams, MethodNotFound, RpcError, Server
from minimcp.protocol.lifecycle import LOG_LEVELS, Offer, lacks
from minimcp.protocol.versions import BY_NAME, REVISIONS as ALL
from minimcp.schema.mismatch import Mismatch
from minimcp.server.completion import TextHandler
from minimcp.server.registered import Pages, Registered, Table, annotated, name_of, where
from minimcp.server.registry import Registry
from minimcp.types import Annotations

from ..answering import R1, R3, R4, R5, REVISIONS
from ..support import WAIT
from .requests import config, exchange, read

STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "unit", "version": "1", "title": "Unit"}}


def echo(text: str = "") -> str:
    """Echo."""
    return text


def registry(*, tools: bool = True, **options: Any) -> Registry:
    made = Registry(config(**options), Offer(ALL))
    if tools:
        made.tools.add(echo)
    return made


def routed(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    request = exchange(method, params, revision=revision, of=made.config)
    return made.route(request.request, request.peer), request


def served(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    route, request = routed(made, method, revision, **params)
    return read(route.handle(request))


@pytest.mark.requirement("BASE-17")
def test_which_methods_there_are() -> None:
    both = {"tools/list", "tools/call"}
    handshake = both | {"initialize", "ping", "logging/setLevel"}
    params = {"tools/call": {"name": "echo"}}
    for revision in REVISIONS:
        wanted = handshake if revision != R5 else both | {"server/discover"}
        for method in handshake | {"server/discover", "resources/list", "prompts/get", "nothing", "Tools/list"}:
            if method in wanted:
                assert routed(registry(), method, revision, **params.get(method, {}))
            else:
                with pytest.raises(MethodNotFound):
                    routed(registry(), method, revision)


@pytest.mark.requirement("TOOL-01", "M:TOOL-1", "SEED-06", "SEED-07")
def test_what_is_declared() -> None:
    old, new = BY_NAME[R1], BY_NAME[R5]
    assert registry().capabilities(old) == {"logging": {}, "tools": {"listChanged": True}}
    assert registry().capabilities(new) == registry().capabilities(old)
    assert registry(logging=False).capabilities(old) == {"tools": {"listChanged": True}}
    bare = registry(tools=False)
    assert bare.capabilities(old) == {}
    for method in ("tools/list", "tools/call", "logging/setLevel"):
        with pytest.raises(MethodNotFound, match="declares no"):
            routed(bare, method)
    announced = registry(tools=False, capabilities={"tools": {}})
    assert announced.capabilities(new) == {"logging": {}, "tools": {"listChanged": True}}  # a later tool may log
    assert served(announced, "tools/list")["tools"] == []
    more = registry(capabilities={"tools": {"streaming": True, "listChanged": 5}, "experimental": {"x": 1}, "odd": 5})
    tools = {"streaming": True, "listChanged": True}
    assert more.capabilities(old) == {"experimental": {"x": 1}, "odd": 5, "logging": {}, "tools": tools}
    silent = registry(logging=False, capabilities={"logging": {}})
    assert silent.capabilities(old) == {"tools": {"listChanged": True}}
    with pytest.raises(MethodNotFound):
        routed(silent, "logging/setLevel")


def test_completions_are_declared_with_the_first_thing_that_completes() -> None:
    made = registry(tools=False)
    made.prompts.add(echo)
    assert "completions" not in made.capabilities(BY_NAME[R5])

    def flagged(shout: bool = False) -> str:
        """A bool completes by itself."""
        return str(shout)

    made.prompts.add(flagged)
    made.prompts.remove("flagged")
    declared = [made.capabilities(BY_NAME[revision]).get("completions") for revision in (R1, R3, R5)]
    assert declared == [None, {}, {}], "what was declared stays so"


def test_the_openings() -> None:
    made = registry(instructions="Read me.", list_ttl=1)
    assert served(made, "initialize", R1) == {
        "protocolVersion": R1, "capabilities": made.capabilities(BY_NAME[R1]),
        "serverInfo": {"name": "unit", "version": "1"}, "instructions": "Read me.",
    }
    assert served(made, "initialize", R3)["serverInfo"] == {"name": "unit", "version": "1", "title": "Unit"}
    discovered = served(made, "server/discover", R5)
    assert discovered["supportedVersions"] == list(reversed(REVISIONS)) and discovered["instructions"] == "Read me."
    assert discovered["ttlMs"] == 1000 and discovered["resultType"] == "complete"
    assert "instructions" not in served(registry(), "initialize")
    assert "instructions" not in served(registry(), "server/discover", R5)
    assert served(made, "ping") == {}


def test_a_log_level_is_the_sessions() -> None:
    made = registry()
    route, request = routed(made, "logging/setLevel", level="error")
    assert route.handle(request) == {} and request.peer.log_rank == LOG_LEVELS["error"]
    route, request = routed(made, "logging/setLevel", level="loud")
    with pytest.raises(InvalidParams):
        route.handle(request)
    assert request.peer.log_rank is None


def test_how_results_end() -> None:
    made = config(list_ttl=2, list_cache_scope="public")
    for name in (R1, R4):
        result = {"a": 1}
        assert made.closing(BY_NAME[name]) == "" == made.closing(BY_NAME[name], listed=True)
        assert made.closed(result, BY_NAME[name]) is result
    newest = BY_NAME[R5]
    assert json.loads("{" + made.closing(newest)[1:] + "}") == {"resultType": "complete", "_meta": STAMP}
    assert json.loads("{" + made.closing(newest, listed=True)[1:] + "}") == {
        "ttlMs": 2000, "cacheScope": "public", "resultType": "complete", "_meta": STAMP,
    }
    assert made.closed({"a": 1}, newest) == {"resultType": "complete", "a": 1, "_meta": STAMP}
    own = {"resultType": "other", "_meta": {"x": 1, **dict.fromkeys(STAMP, "mine")}}
    assert made.closed(own, newest) == own, "the handler's own members win"
    assert made.closed({"_meta": 5}, newest)["_meta"] == STAMP


# ------------------------------------------------------------ methods of an author's own


@dataclass
class Point:
    x: int


def test_names_of_methods() -> None:
    server = Server("x")
    for name in (
        "", "tools/call", "initialize", "server/discover", "roots/list", "elicitation/create", "subscriptions/listen",
        "rpc.discover", "notifications/mine", "tasks/get", "ping",
    ):
        with pytest.raises(ValueError, match="belongs to the protocol"):
            server.method(name)(lambda params: {})
    with pytest.raises(TypeError, match="the name comes first"):
        server.method(lambda params: {})  # type: ignore[arg-type]

    @server.method("vendor/thing")
    def first(params: Dict[str, Any]) -> None: ...

    assert repr(server._registry.methods.get("vendor/thing")).startswith("<RegisteredMethod 'vendor/thing' = ")
    with pytest.raises(ValueError, match=r"the method 'vendor/thing' exists: .*first.*; now .*lambda"):
        server.method("vendor/thing")(lambda params: {})
    assert server.method("vendor/thing", replace=True)(first) is first

    def none() -> None: ...

    async def waits(params: Dict[str, Any]) -> None: ...

    for function, said in ((none, r"takes \(params\) or \(params, ctx\)"), (waits, "is async")):
        with pytest.raises(TypeError, match=f"method 'a'.*{said}"):
            server.method("a")(function)


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_methods_get_and_return(revision: str) -> None:
    server = Server("x")
    values: Dict[str, Any] = {
        "dict": {"a": [1]}, "none": None, "object": Point(1), "list": [1], "text": "x", "raw": {1: b""},
    }

    @server.method("vendor/thing")
    def thing(params: Dict[str, Any], ctx: Context) -> Any:
        if params.get("fail"):
            raise RpcError(7, "seven", [1])
        return {**params, "method": ctx.method, "session": ctx.session is not None}

    server.method("vendor/value")(lambda params: values[params["of"]])

    def asked(method: str, params: Optional[Dict[str, Any]] = None) -> Any:
        result = client.request(method, params)
        return {key: each for key, each in result.items() if key not in ("_meta", "resultType")}

    with minimcp.connect(server, revision=revision) as client:
        assert asked("vendor/thing", {"a": 1}) == {"a": 1, "method": "vendor/thing", "session": revision != R5}
        found = [asked("vendor/value", {"of": name}) for name in ("dict", "none", "object")]
        assert found == [{"a": [1]}, {}, {"x": 1}]
        for wrong in ("list", "text", "raw", "unknown"):
            with pytest.raises(minimcp.InternalError, match="Internal error"):
                asked("vendor/value", {"of": wrong})
        with pytest.raises(RpcError) as seven:
            asked("vendor/thing", {"fail": True})
        assert (seven.value.code, seven.value.data) == (7, [1])
        with pytest.raises(MethodNotFound):
            asked("vendor/other")
        assert "logging" in client.capabilities and "methods" not in client.capabilities


# ------------------------------------------------------------ tables

OURS: List[Any] = []
THEIRS = config()


class Thing(Registered):
    """Something with a name; where its function stands is its place."""

    def __init__(self, place: str, name: str = "") -> None:
        super().__init__(THEIRS, SimpleNamespace(__qualname__=place), SimpleNamespace(name=name), None)  # type: ignore

    @property
    def place(self) -> str:
        return where(self.function)


def table(**places: str) -> "Table[Thing]":
    made: Table[Thing] = Table("thing")
    for name, place in places.items():
        made.add(name, Thing(place, name), replace=False)
    return made


def mount(over: "Table[Thing]", under: "Table[Thing]", prefix: str = "x__") -> None:
    over.check_mount(under, prefix)
    over.mounts.append((under, prefix, OURS))
    over.refresh()


def places(of: "Table[Thing]") -> List[str]:
    return [each.place for each in of.all()]


def test_a_table() -> None:
    made, first, second = table(), Thing("here"), Thing("there")
    made.add("a", first, replace=False)
    with pytest.raises(ValueError, match="the thing 'a' exists: here; now there"):
        made.add("a", second, replace=False)
    assert made.get("a") is first and [made.get(each) for each in ("b", ["a"], None)] == [None] * 3
    made.add("b", second, replace=True)
    made.add("a", second, replace=True)
    assert made.all() == [second, second]
    made.remove("a")
    with pytest.raises(KeyError, match="Unknown thing: a"):
        made.remove("a")
    assert made.all() == [second] and made.unknown("B") == "Unknown thing: B, did you mean b?"


def test_a_name_is_taken_once_whoever_comes() -> None:
    made = table()
    gate, outcomes, refused = threading.Barrier(8), [], []

    def add(number: int) -> None:
        gate.wait(WAIT)
        for name in range(50):
            try:
                made.add(str(name), Thing(f"of {number}"), replace=False)
                outcomes.append(name)
            except ValueError as error:
                refused.append(str(error))
            made.all()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(outcomes) == list(range(50)) and len(refused) == 350


def test_a_mounted_table_is_followed() -> None:
    over, under = table(own="o"), table(a="u")
    mount(over, under)
    thing, original = over.get("x__a"), under.get("a")
    assert thing is not None and thing.shown.name == "x__a" and thing.middleware == (OURS, THEIRS.middleware)
    assert original is not None and original.shown.name == "a" and original.middleware == (THEIRS.middleware,)
    assert thing.route is not original.route
    over.refresh()
    assert over.get("x__a") is thing, "one copy, until the thing is replaced"
    under.add("b", Thing("later", "b"), replace=False)
    under.add("a", Thing("new", "a"), replace=True)
    over.refresh()
    assert list(over.items) == ["own", "x__a", "x__b"] and places(over) == ["o", "new", "later"]
    under.remove("a")
    over.refresh()
    assert list(over.items) == ["own", "x__b"]
    with pytest.raises(KeyError):
        over.remove("x__b")


def test_names_may_stay_and_prefixes_add_up() -> None:
    top, middle, low = table(), table(), table(a="l")
    mount(middle, low)
    mount(top, middle, "")
    mount(top, middle, "y__")
    assert list(top.items) == ["x__a", "y__x__a"] and [each.shown.name for each in top.all()] == ["x__a", "y__x__a"]
    assert [len(each.middleware) for each in top.all()] == [3, 3]


def test_a_clash_is_refused_or_the_earlier_stays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    over, under, last = table(x__a="mine", z="mine"), table(a="theirs"), table(b="last")
    with pytest.raises(ValueError, match="the thing 'x__a' exists: mine; mounted would be theirs"):
        mount(over, under)
    over.remove("x__a")
    mount(over, under)
    mount(over, last)
    with pytest.raises(ValueError, match="the thing 'x__a' exists: theirs; now mine"):
        over.add("x__a", Thing("mine"), replace=False)
    over.add("x__a", Thing("mine"), replace=True)
    under.add("b", Thing("hidden no more"), replace=False)
    for _ in range(2):
        over.refresh()
    assert places(over) == ["mine", "mine", "hidden no more"]
    assert caplog.messages == [
        "two things x__a: mine stays, theirs is hidden",
        "two things x__b: hidden no more stays, last is hidden",
    ], "each is told once"
    over.remove("x__a")
    assert "theirs" in places(over)
    over.add("x__a", Thing("again"), replace=True)
    assert len(caplog.records) == 3


def test_the_same_thing_on_two_ways_is_no_clash(caplog: pytest.LogCaptureFixture) -> None:
    over, left, right, low = table(), table(), table(), table(a="low")
    for side in (left, right):
        mount(side, low, "")
        mount(over, side, "")
    assert places(over) == ["low"] and not caplog.records


# ------------------------------------------------------------ pages


class Item(SimpleNamespace):
    looks = 0

    def listed(self, revision: Any) -> Any:
        Item.looks += 1
        return {"n": self.n, "in": revision.name}


class Listed:
    """A list, and the answers to the method that lists it."""

    def __init__(self, size: int, page_size: Optional[int]) -> None:
        self.table: Any = SimpleNamespace(version=0, items=[Item(n=number) for number in range(size)])
        self.table.all = lambda: self.table.items
        self.pages, self.config = Pages("things", self.table), config(page_size=page_size)

    def page(self, cursor: Any = None, revision: str = R4) -> Any:
        params = {} if cursor is None else {"cursor": cursor}
        return read(self.pages.serve(exchange("things/list", params, revision=revision, of=self.config)))


@pytest.mark.requirement("PAGE-01", "PAGE-02")
@pytest.mark.parametrize(("size", "page_size", "sizes"), [
    (0, None, [0]), (5, None, [5]), (0, 2, [0]), (1, 2, [1]), (2, 2, [2]), (5, 2, [2, 2, 1]), (3, 1, [1, 1, 1]),
])  # fmt: skip
def test_every_item_comes_once(size: int, page_size: Any, sizes: List[int]) -> None:
    listed, seen, cursor = Listed(size, page_size), [], None
    for expected in sizes:
        page = listed.page(cursor)
        assert len(page["things"]) == expected
        seen += page["things"]
        cursor = page.get("nextCursor")
    assert cursor is None and [item["n"] for item in seen] == list(range(size))


def test_pages_are_made_once_for_each_revision_until_the_list_changes() -> None:
    listed, Item.looks = Listed(4, 2), 0
    first = listed.page()
    assert listed.page() == first and Item.looks == 4
    assert listed.page(revision=R1)["things"][0]["in"] == R1 and Item.looks == 8
    assert listed.page(first["nextCursor"])["things"] and Item.looks == 8, "all pages are made at once"
    del listed.table.items[1:]
    listed.table.version += 1
    assert len(listed.page()["things"]) == 1
    with pytest.raises(InvalidParams):
        listed.page(first["nextCursor"])


@pytest.mark.requirement("PAGE-08")
@pytest.mark.parametrize("cursor", [
    "", "?", "things:0", "things:02", "others:2", "things:-2", "things", "things:3", "things:2\n", "things:99",
    "things:" + "9" * 5000, "things:²", 2, True, ["x"], {}, "\ud800",
])  # fmt: skip
def test_a_cursor_of_somebody_else(cursor: Any) -> None:
    with pytest.raises(InvalidParams, match="cursor"):
        Listed(5, 2).page(cursor)
    assert Listed(5, 2).page("things:2")["things"][0]["n"] == 2, "ours is the same in every process"


# ------------------------------------------------------------ names and options


def test_names_and_places() -> None:
    assert name_of(echo, None, "thing") == "echo" and name_of(echo, "other", "thing") == "other"
    for function, name, said in ((5, None, "a thing needs a name"), (echo, 5, "the name of a thing is text, not 5")):
        with pytest.raises(TypeError, match=said):
            name_of(function, name, "thing")
    assert where(echo).startswith("echo (") and "test_registry.py:" in where(echo)
    assert where(print) == "print" and where(5) == "5" and where(Server("x").tool).startswith("Server.tool (")


def test_annotations() -> None:
    own = Annotations(priority=1)
    for given, made in ((None, None), (own, own), ({"priority": 1}, own)):
        assert annotated(given, Annotations, "{}", "it") == made
    mistake = "'lastModified': did you mean 'last_modified'"
    for wrong, said in (({"lastModified": "x"}, mistake), (5, "it: annotations is")):
        with pytest.raises(TypeError, match=said):
            annotated(wrong, Annotations, "{}", "it")  # type: ignore[arg-type]


def test_what_a_client_lacks() -> None:
    for name, needed in (
        ("sampling", {"sampling": {}}),
        ("elicitation.url", {"elicitation": {"url": {}}}),
        ("ext:com.example/x", {"extensions": {"com.example/x": {}}}),
    ):
        error = lacks(name, "thing 'x'")
        assert error.data == {"requiredCapabilities": needed} and name in str(error) and "thing 'x'" in str(error)


def handler(function: Any = echo, **options: Any) -> TextHandler:
    return TextHandler(function, "thing 'x'", content_types=(), **options)


def test_a_handler_needs_what_it_requires() -> None:
    def told(count: int, ctx: Context) -> Any:
        """Tell."""
        return count, ctx.method

    asked = exchange("prompts/get", capabilities={"sampling": {"tools": {}}, "roots": {}})
    made = handler(told, requires=["roots", "sampling.tools"])
    assert made.call(Context(asked), asked.peer, made.arguments({"count": "5"})) == (5, "prompts/get")
    for lacking in ("elicitation", ["roots", "elicitation"]):
        with pytest.raises(CapabilityNotSupported, match="thing 'x' needs a client with elicitation"):
            handler(told, requires=lacking).call(Context(asked), asked.peer, {"count": 5})
    with pytest.raises(Mismatch, match="cuont"):
        made.arguments({"cuont": "5"})
