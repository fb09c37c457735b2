"""The handshake and sessions as raw bytes: the order of messages, arrays, pages, and the end of a
session.

It also covers the extra requirements of a paraphrase of the specification (SEED), and C06 of the
fault catalogue: arrays are required in 2025-03-26, tolerated in 2024-11-05 and rejected everywhere
else.
"""

from __future__ import annotations

from typing import Any

import pytest

from ..rows import for_each
from .conftest import Serve, speaking
from .harness import RawServer
from .messages import (
    ABSENT,
    HANDSHAKES,
    METHOD,
    MODERN,
    PARAMS,
    REQUEST,
    encode,
    hello,
    modern,
    notification,
    request,
)

NEWEST = HANDSHAKES[-1]
ENDS = ("2024-11-05", "2025-11-25")
"""The first and the last revision with a handshake."""


# ---------------------------------------------------------------- the handshake


@pytest.mark.requirement(
    "LIFE-02", "LIFE-08", "BASE-01", "SEED-16", "SEED-31", "SEED-01", "SEED-30"
)
@pytest.mark.parametrize(
    "revision, instructions", [*((each, "Read me.") for each in HANDSHAKES), (NEWEST, None)]
)
def test_the_whole_flow_in_eleven_steps(serve: Serve, revision: str, instructions: Any) -> None:
    server = serve(**({"instructions": instructions} if instructions else {}))
    server.write(request(1, "initialize", hello(revision)))  # 1
    opened = server.message()  # 2
    found = opened["result"]
    assert (opened["id"], found["protocolVersion"]) == (1, revision) and "tools" in found[
        "capabilities"
    ]
    assert (found["serverInfo"]["name"], found["serverInfo"]["version"]) == ("plain", "1.2.3")
    assert found.get("instructions", ABSENT) == (instructions or ABSENT)
    assert set(found) <= {"protocolVersion", "serverInfo", "capabilities", "instructions", "_meta"}
    server.write(notification("notifications/initialized"), request(2, "tools/list"))  # 3, 4
    listed = server.message()  # 5
    assert listed["id"] == 2 and "echo" in [tool["name"] for tool in listed["result"]["tools"]]
    server.write(request(3, "tools/call", {"name": "echo", "arguments": {"text": "hello"}}))  # 6
    called = server.message()  # 7
    assert (called["id"], called["result"]["content"]) == (3, [{"type": "text", "text": "hello"}])
    server.write(request(4, "shutdown"))  # 8
    assert server.message() == {"jsonrpc": "2.0", "id": 4, "result": {}}  # 9
    assert server.rest() == [] and server.exit() == 0  # 10: the server closes its output, 11


@pytest.mark.requirement("PING-08", "LIFE-05", "SEED-18", "LIFE-31", "CANC-03", "LIFE-17")
def test_requests_before_initialized_are_served(serve: Serve) -> None:
    """The server sends nothing unrequested, and `initialize` cannot be cancelled."""
    server = serve()
    cancel = notification("notifications/cancelled", {"requestId": 2})
    server.write(
        request(1, "ping"),
        request(2, "initialize", hello("2025-06-18")),
        cancel,
        request(3, "tools/list"),
    )
    assert sorted(server.message()["id"] for _ in range(3)) == [1, 2, 3]
    server.write(
        request(4, "initialize", hello(NEWEST)), request(5, "initialize", hello("2025-06-18"))
    )
    assert [server.answer(id)["result"]["protocolVersion"] for id in (4, 5)] == [
        NEWEST,
        "2025-06-18",
    ]
    server.notify("notifications/initialized")
    server.revision = "2025-06-18"
    server.lives()


@pytest.mark.requirement("BASE-15", "LIFE-15", "LIFE-16", "TOOL-01")
@pytest.mark.parametrize("revision", ENDS)
def test_a_server_without_any_feature(serve: Serve, revision: str) -> None:
    server = serve(tools=False)
    assert "tools" not in server.initialize(revision)["capabilities"]
    assert server.result("ping") == {} and server.ask("tools/list")["error"]["code"] == METHOD


@pytest.mark.requirement(
    "LIFE-16", "BASE-17", "BASE-18", "PING-01", "PING-02", "BASE-10", "SEED-15"
)
@speaking(*HANDSHAKES)
def test_unknown_methods_ping_and_invalid_notifications(server: RawServer) -> None:
    for method in (
        "foo/bar", "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
        "resources/subscribe", "completion/complete", "sampling/createMessage", "roots/list", "elicitation/create",
        "tasks/list", "subscriptions/listen", "initialized", "notifications/initialized", "notifications/cancelled",
        "rpc.discover", "tools", "tools/", "/tools/list", "TOOLS/LIST",
    ):  # fmt: skip
        assert server.ask(method, {})["error"]["code"] == METHOD, method
    for params in (None, {}, {"_meta": {"progressToken": 1}}, {"extra": 1}):
        assert server.result("ping", params) == {}
    for method in (
        "notifications/nope",
        "tools/list",
        "ping",
        "initialize",
        "notifications/message",
    ):
        for given in ({}, {"params": {}}, {"params": {"x": 1}}, {"params": [1]}, {"params": "x"}):
            server.write({"jsonrpc": "2.0", "method": method, **given})


@pytest.mark.requirement("M:VER-S12", "M:ERR-8")
def test_a_modern_only_server_names_its_revision(serve: Serve) -> None:
    server = serve(revisions=[MODERN])
    assert MODERN in str(server.ask("initialize", hello("2025-06-18"))["error"])
    server.revision = MODERN
    server.lives()


# ---------------------------------------------------------------- shutdown


@pytest.mark.requirement("SEED-01")
def test_after_shutdown_running_requests_finish_and_no_new_one_starts(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 600})
    held = server.begin_call("watch", {"name": "a"})
    running = [server.begin_call("echo", {"text": "x" * 100_000}) for _ in range(20)]
    late = request("late", "tools/call", {"name": "echo"})
    server.write(request("bye", "shutdown"), late, request("again", "shutdown"))
    assert server.answer("bye")["result"] == {}
    assert {server.answer(refused)["error"]["code"] for refused in ("late", "again")} == {REQUEST}
    assert {len(server.answer(id)["result"]["content"][0]["text"]) for id in running} == {100_000}
    assert not server.ended
    server.write(
        notification("notifications/cancelled", {"requestId": held})
    )  # notices are still heard: that ends it
    assert server.rest() == [] and server.exit() == 0


@pytest.mark.requirement("SEED-01")
def test_a_handler_that_does_not_finish_gets_the_grace_and_no_more(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.3})
    server.begin_call("never")
    assert server.result("shutdown") == {}
    assert server.rest() == [] and server.exit() == 0


# ---------------------------------------------------------------- arrays

BATCHING = HANDSHAKES[:2]
SINGLE = (*HANDSHAKES[2:], MODERN)


def exchange(server: RawServer, *elements: Any) -> Any:
    """Send one line with an array; the message that answers it."""
    server.write(list(elements))
    return server.message()


def call(id: Any, text: str) -> dict[str, Any]:
    """A call of `echo`."""
    return request(id, "tools/call", {"name": "echo", "arguments": {"text": text}})


@pytest.mark.requirement(
    "BATCH-01", "BATCH-04", "BATCH-05", "BATCH-09", "BATCH-16", "X-11", "BASE-10", "SEED-09"
)
@speaking(*BATCHING)
def test_c06_one_line_one_array_one_answer_each(server: RawServer) -> None:
    wrong = request("no", "no/such/method"), request(2, "tools/call", {"name": "nobody"})
    found = exchange(
        server, call(1, "one"), notification("notifications/x"), call("1", "two"), request(3, "ping"), *wrong,
        notification("notifications/progress", {"progress": 50}),
    )  # fmt: skip
    by_id = {(type(message["id"]), message["id"]): message for message in found}
    assert len(found) == 5 == len(by_id)
    assert by_id[(int, 1)]["result"]["content"][0]["text"] == "one"
    assert by_id[(str, "1")]["result"]["content"][0]["text"] == "two"
    assert by_id[(int, 3)]["result"] == {}
    assert [by_id[key]["error"]["code"] for key in ((str, "no"), (int, 2))] == [METHOD, PARAMS]
    server.write(
        [notification("notifications/a"), notification("notifications/cancelled", {"requestId": 9})]
    )
    server.write(
        [
            request(1, "tools/call", {"name": "hold", "arguments": {"name": "twice"}}),
            call(1, "again"),
        ]
    )
    server.text("release", {"name": "twice"})
    (batch,) = server.fence() or [server.message()]
    assert sorted("error" in message for message in batch) == [False, True]


@pytest.mark.requirement("BATCH-07", "BATCH-06")
@speaking(*BATCHING)
def test_c06_an_invalid_element_has_an_entry_of_its_own(server: RawServer) -> None:
    found = exchange(server, 1, request("p", "ping"), "x", None, [], [request("q", "ping")])
    refused = [(message["error"]["code"], message["id"]) for message in found if "error" in message]
    assert refused == [(REQUEST, None)] * 5 and [one["id"] for one in found if "result" in one] == [
        "p"
    ]
    assert [message["error"]["code"] for message in exchange(server, 1, 2, 3)] == [REQUEST] * 3


@pytest.mark.requirement("BATCH-03", "X-10")
@speaking("2025-03-26")
def test_c06_responses_in_a_batch_are_accepted_or_rejected_but_never_served(
    server: RawServer,
) -> None:
    server.write(
        [{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}]
    )
    assert server.fence() == []  # strays, dropped
    server.write([{"jsonrpc": "2.0", "id": 1, "result": {}}, request("mixed", "ping")])
    for message in server.fence():
        for one in message if isinstance(message, list) else [message]:
            assert one.get("id") == "mixed" or one["error"]["code"] == REQUEST


@pytest.mark.requirement("BATCH-08")
def test_c06_initialize_is_never_inside_a_batch(serve: Serve) -> None:
    server = serve()
    for number in range(2):
        found = exchange(
            server,
            request("hello", "initialize", hello("2025-03-26")),
            *[request("p", "ping")] * number,
        )
        refused = [one for one in (found if isinstance(found, list) else [found]) if "error" in one]
        assert [one["error"]["code"] for one in refused] == [REQUEST]
        if not number:
            assert server.ask("tools/list")["error"]["code"] == PARAMS  # there is no session
            server.initialize("2025-03-26")


@pytest.mark.requirement("BATCH-15", "M:BASE-21", "SEED-10")
@speaking(*SINGLE)
def test_c06_an_array_is_one_error_elsewhere(server: RawServer) -> None:
    one = call(1, "x") if server.revision != MODERN else request(1, "tools/list", modern())
    for elements in ([one], [one, one], [notification("notifications/a")], [1, 2]):
        assert server.error(encode(elements).rstrip()) == REQUEST


# ---------------------------------------------------------------- pages


def pages(server: RawServer) -> list[dict[str, Any]]:
    """Every page, by following the cursors."""
    found = [server.result("tools/list", {})]
    while "nextCursor" in found[-1] and len(found) < 100:
        found.append(server.result("tools/list", {"cursor": found[-1]["nextCursor"]}))
    return found


@pytest.mark.requirement("PAGE-01", "PAGE-03", "PAGE-10", "M:PAG-1", "M:CACHE-2")
@pytest.mark.parametrize("revision", ["2024-11-05", MODERN])
@for_each("size, lengths", [(10, [10, 10, 3]), (23, [23])])
def test_pages_hold_everything_once(
    serve: Serve, revision: str, size: int, lengths: list[int]
) -> None:
    server = serve(
        revision, tools=False, preset="many", list_cache_scope="public", list_ttl=60, page_size=size
    )
    found = pages(server)
    assert [len(page["tools"]) for page in found] == lengths
    assert [tool["name"] for page in found for tool in page["tools"]] == [
        f"many-{index:02}" for index in range(23)
    ]
    assert all(isinstance(page["nextCursor"], str) for page in found[:-1])
    assert "nextCursor" not in found[-1]  # absent, not null
    hints = {(page.get("cacheScope"), page.get("ttlMs")) for page in found}
    assert hints == {("public", 60_000) if revision == MODERN else (None, None)}, (
        "the pages agree on who may keep them"
    )


@pytest.mark.requirement("PAGE-07", "PAGE-08", "M:PAG-4", "M:PAG-3")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cursor_is_stable_belongs_to_no_process_and_no_other_text_is_one(
    serve: Serve, revision: str
) -> None:
    first, second = (serve(revision, tools=False, preset="many", page_size=10) for _ in range(2))
    cursor = first.result("tools/list")["nextCursor"]
    page = first.result("tools/list", {"cursor": cursor})
    assert first.result("tools/list", {"cursor": cursor}) == page
    assert second.result("tools/list", {"cursor": cursor})["tools"] == page["tools"]
    strange = (
        "zzz",
        "",
        "0",
        "-1",
        "999999",
        "9" * 5000,
        "\x00",
        "\u00e9",
        "\ufffd",
        "x" * 100_000,
        5,
        [],
        {},
        True,
    )
    for wrong in strange:
        assert first.ask("tools/list", {"cursor": wrong})["error"]["code"] == PARAMS, ascii(wrong)[
            :20
        ]
    for index in range(len(cursor)):  # one letter changed: refused, or another cursor
        changed = cursor[:index] + ("A" if cursor[index] != "A" else "B") + cursor[index + 1 :]
        reply = first.ask("tools/list", {"cursor": changed})
        assert "result" in reply or reply["error"]["code"] == PARAMS
