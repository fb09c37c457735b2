"""Middleware of a client: ``connect(middleware=[function])``."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Context, InvalidParams, Server

from ..support import WAIT

REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


def made(ran: List[str]) -> Server:
    server = Server("s", extensions=[minimcp.Tasks()], list_ttl=60, page_size=2)

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        ran.append("add")
        return a + b

    @server.tool
    def asks(ctx: Context) -> str:
        """Ask."""
        return str(ctx.elicit("Name?", {"name": str}).require()["name"])

    @server.tool(task="required")
    def later() -> str:
        """Run as a task."""
        return "later"

    @server.resource("note://{x}", complete={"x": ["1"]})
    def note(x: str) -> str:
        """A note."""
        return x

    @server.prompt
    def ask(about: str) -> str:
        """Ask."""
        return about

    return server


@pytest.fixture
def ran() -> List[str]:
    return []


@pytest.fixture
def server(ran: List[str]) -> Iterator[Server]:
    with closing(made(ran)) as server:
        yield server


@REVISIONS
def test_it_runs_once_for_each_call_on_its_thread(server: Server, revision: str) -> None:
    seen: List[Any] = []

    def outer(call: Any, call_next: Callable[[], Any]) -> Any:
        seen.append((call.method, threading.current_thread().name, call.client is client))
        return call_next()

    def inner(call: Any, call_next: Callable[[], Any]) -> Any:
        seen.append("inner")
        return call_next()

    options: Dict[str, Any] = {
        "middleware": [outer, inner],
        "elicit": lambda request: {"name": "Ada"},
        "extensions": [minimcp.Tasks()],
    }
    with minimcp.connect(server, revision=revision, timeout=WAIT, **options) as client:
        assert seen == []  # the handshake is not a call

        def methods(function: Callable[[], Any]) -> List[str]:
            seen.clear()
            function()
            assert seen[1::2] == ["inner"] * (len(seen) // 2)
            assert all(each[2] for each in seen[::2])
            return [each[0] for each in seen[::2]]

        here = threading.current_thread().name
        assert methods(lambda: client.call_tool("asks")) == ["tools/call"]
        assert methods(lambda: client.call_tool("later")) == ["tools/call"]
        assert methods(lambda: client.call_tool("add", {"a": 1, "b": 2})) == ["tools/call"]
        assert seen[0][1] == here
        assert methods(client.list_tools) == ["tools/list"] * 2  # two pages
        assert methods(client.list_tools) == ["tools/list"] * 2  # also from the cache
        assert methods(lambda: client.read_resource("note://1")) == ["resources/read"]
        assert methods(lambda: client.get_prompt("ask", {"about": "x"})) == ["prompts/get"]
        assert methods(lambda: client.complete("x", "", template="note://{x}")) == [
            "completion/complete"
        ]
        assert methods(lambda: client.request("tools/list")) == ["tools/list"]
        assert methods(lambda: client.subscribe("note://1")) == ["resources/subscribe"]
        assert methods(lambda: client.unsubscribe("note://1")) == ["resources/unsubscribe"]
        assert methods(client.ping) == []
        task = client.start_task("later")
        assert methods(lambda: task.wait(WAIT)) == []
        pairs = [("add", {"a": 1, "b": number}) for number in range(3)]
        assert methods(lambda: client.call_tools(pairs)) == ["tools/call"] * 3
        assert [each.value for each in client.call_tools(pairs)] == [1, 2, 3]
        future = client.submit(client.call_tool, "add", {"a": 1, "b": 2})
        assert methods(lambda: future.result(WAIT)) in ([], ["tools/call"])
        seen.clear()
        client.submit(client.call_tool, "add", {"a": 1, "b": 2}).result(WAIT)
        assert seen[0][1] != here and seen[1:] == ["inner"]


@REVISIONS
def test_it_replaces_requests_and_results(server: Server, ran: List[str], revision: str) -> None:
    does: List[Callable[[Any, Callable[[], Any]], Any]] = []

    def change(call: Any, call_next: Callable[[], Any]) -> Any:
        return does[0](call, call_next)

    def other_arguments(call: Any, call_next: Callable[[], Any]) -> Any:
        call.params["arguments"] = {"a": 5, "b": 5}
        return call_next()

    def other_tool(call: Any, call_next: Callable[[], Any]) -> Any:
        call.params = {"name": "add", "arguments": {"a": 1, "b": 1}}
        return call_next()

    def other_result(call: Any, call_next: Callable[[], Any]) -> Any:
        return {**call_next(), "content": [{"type": "text", "text": "changed"}]}

    def no_request(call: Any, call_next: Callable[[], Any]) -> Any:
        return {"content": [{"type": "text", "text": "invented"}], "isError": False}

    def refuse(call: Any, call_next: Callable[[], Any]) -> Any:
        raise minimcp.Refused("the user said no")

    def twice(call: Any, call_next: Callable[[], Any]) -> Any:
        call_next()
        return call_next()

    with minimcp.connect(server, revision=revision, timeout=WAIT, middleware=[change]) as client:

        def add(function: Callable[[Any, Callable[[], Any]], Any], tool: str = "add") -> Any:
            does[:] = [function]
            ran.clear()
            return client.call_tool(tool, {"a": 1, "b": 2}, validate=False)

        assert (add(other_arguments).value, ran) == (10, ["add"])
        assert (add(other_tool, "unknown").value, ran) == (2, ["add"])
        assert (add(other_result).text, ran) == ("changed", ["add"])
        assert (add(no_request).text, ran) == ("invented", [])
        assert (add(twice).value, ran) == (3, ["add", "add"])
        with pytest.raises(minimcp.Refused, match="the user said no"):
            add(refuse)
        assert ran == []
        for wrong in (None, [], "text"):
            with pytest.raises(TypeError, match="must return the dict of call_next"):
                add(lambda call, call_next, wrong=wrong: wrong)

        def other_method(call: Any, call_next: Callable[[], Any]) -> Any:
            call.method = "tools/list"
            call.params = {}
            return call_next()

        does[:] = [other_method]
        assert "tools" in client.request("prompts/list")

        def rescue(call: Any, call_next: Callable[[], Any]) -> Any:
            try:
                return call_next()
            except InvalidParams:
                return {"content": [], "isError": False}

        assert add(rescue, "unknown").content == []


def test_it_is_shared_by_the_servers_of_a_group(server: Server) -> None:
    seen: List[Any] = []

    def log(call: Any, call_next: Callable[[], Any]) -> Any:
        seen.append((call.client, call.method, call.params.get("name")))
        return call_next()

    with closing(made([])) as other:
        with minimcp.connect_all(
            {"one": server, "two": other}, middleware=[log], timeout=WAIT
        ) as group:
            assert group.call_tool("two__add", {"a": 1, "b": 2}).value == 3
            group.call_tools([("one__add", {"a": 1, "b": 2}), ("two__add", {"a": 1, "b": 2})])
            clients = group.clients
            assert seen[0] == (clients["two"], "tools/call", "add")
            assert {each[0] for each in seen[1:]} == set(clients.values())


@pytest.mark.parametrize(
    "wrong", ["log", 7, [7], [lambda call: None], [lambda: None], lambda call, call_next: None]
)
def test_middleware_that_is_wrong(server: Server, wrong: Any) -> None:
    with pytest.raises(TypeError, match="middleware"):
        minimcp.connect(server, middleware=wrong)

    async def later(call: Any, call_next: Any) -> Any:
        return None

    with pytest.raises(TypeError, match="async"):
        minimcp.connect(server, middleware=[later])


def test_a_client_with_middleware_is_still_found_by_its_finalizer(server: Server) -> None:
    client = minimcp.connect(server, middleware=[lambda call, call_next: call_next()])
    client.call_tool("add", {"a": 1, "b": 2})
    with pytest.warns(ResourceWarning, match="unclosed"):
        del client
