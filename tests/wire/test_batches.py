"""Arrays of messages: a duty in 2025-03-26, tolerated in 2024-11-05, refused everywhere else. C06 of the catalogue."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import MODERN, REQUEST, encode, hello, modern, notification, request

BATCHING = ["2024-11-05", "2025-03-26"]
SINGLE = ["2025-06-18", "2025-11-25", MODERN]


def exchange(server: RawServer, *elements: Any) -> Any:
    """Send one line with an array; the message that answers it."""
    server.write(list(elements))
    return server.message()


def call(id: Any, text: str) -> dict[str, Any]:
    """A call of `echo`."""
    return request(id, "tools/call", {"name": "echo", "arguments": {"text": text}})


@pytest.mark.requirement("BATCH-01", "BATCH-04", "BATCH-09", "BATCH-16", "X-11")
@pytest.mark.parametrize("revision", BATCHING)
def test_c06_one_line_one_array_one_answer_each(shared: Serve, revision: str) -> None:
    server = shared(revision)
    found = exchange(server, call(1, "one"), notification("notifications/x"), call("1", "two"), request(3, "ping"))
    assert isinstance(found, list)
    assert len(found) == 3
    by_id = {(type(message["id"]), message["id"]): message["result"] for message in found}
    assert by_id[(int, 1)]["content"][0]["text"] == "one"
    assert by_id[(str, "1")]["content"][0]["text"] == "two"
    assert by_id[(int, 3)] == {}
    server.lives()


@pytest.mark.requirement("BATCH-04")
def test_c06_errors_are_answers_too(shared: Serve) -> None:
    server = shared("2025-03-26")
    found = exchange(server, request(1, "no/such/method"), request(2, "tools/call", {"name": "nobody"}), call(3, "x"))
    codes = {message["id"]: message.get("error", {}).get("code") for message in found}
    assert codes == {1: -32601, 2: -32602, 3: None}


@pytest.mark.requirement("BATCH-05", "BASE-10")
@pytest.mark.parametrize("revision", BATCHING)
def test_c06_notifications_alone_are_not_answered(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.write([notification("notifications/a"), notification("notifications/cancelled", {"requestId": 9})])
    server.lives()


@pytest.mark.requirement("BATCH-06")
@pytest.mark.parametrize("revision", [*BATCHING, *SINGLE, None])
def test_c06_an_empty_array_is_one_error(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.fence()
    assert server.error(b"[]") == REQUEST
    assert server.fence() == []


@pytest.mark.requirement("BATCH-07")
@pytest.mark.parametrize("revision", BATCHING)
def test_c06_an_invalid_element_has_an_entry_of_its_own(shared: Serve, revision: str) -> None:
    server = shared(revision)
    found = exchange(server, 1, request("p", "ping"), "x", None, [], [request("q", "ping")])
    refused = [message for message in found if "error" in message]
    assert [message["error"]["code"] for message in refused] == [REQUEST] * 5
    assert all(message["id"] is None for message in refused)
    assert [message["id"] for message in found if "result" in message] == ["p"]
    assert server.fence() == []


@pytest.mark.requirement("BATCH-07", "BATCH-06")
def test_c06_only_invalid_elements(shared: Serve) -> None:
    server = shared("2025-03-26")
    found = exchange(server, 1, 2, 3)
    assert [message["error"]["code"] for message in found] == [REQUEST] * 3
    assert server.fence() == []


@pytest.mark.requirement("BATCH-03", "X-10")
def test_c06_answers_in_a_batch_are_taken_or_refused_but_never_served(shared: Serve) -> None:
    server = shared("2025-03-26")
    server.write([{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "result": {}}])
    assert server.fence() == []  # strays, dropped
    server.write([{"jsonrpc": "2.0", "id": 1, "result": {}}, request("mixed", "ping")])
    for message in server.fence():
        for one in message if isinstance(message, list) else [message]:
            assert one.get("id") == "mixed" or one["error"]["code"] == REQUEST
    server.lives()


@pytest.mark.requirement("BATCH-08")
def test_c06_initialize_is_never_inside_a_batch(serve: Serve) -> None:
    server = serve()
    server.write([request("hello", "initialize", hello("2025-03-26"))])
    message = server.message()
    one = message[0] if isinstance(message, list) else message
    assert one["error"]["code"] == REQUEST
    assert server.ask("tools/list")["error"]["code"] == -32602  # there is no session
    server.initialize("2025-03-26")
    found = exchange(server, request("again", "initialize", hello("2025-03-26")), request("p", "ping"))
    refused = [message for message in (found if isinstance(found, list) else [found]) if "error" in message]
    assert len(refused) == 1
    assert refused[0]["error"]["code"] == REQUEST
    server.fence()
    assert server.text("echo", {"text": "x"}) == "x"


@pytest.mark.requirement("BATCH-15", "M:BASE-21")
@pytest.mark.parametrize("revision", SINGLE)
def test_c06_an_array_is_one_error_elsewhere(shared: Serve, revision: str) -> None:
    server = shared(revision)
    one = call(1, "x") if revision != MODERN else request(1, "tools/list", modern())
    for elements in ([one], [one, one], [notification("notifications/a")], [1, 2]):
        assert server.error(encode(elements).rstrip()) == REQUEST
        assert server.fence() == []


@pytest.mark.requirement("BATCH-15")
def test_c06_before_the_handshake_an_array_is_one_error(shared: Serve) -> None:
    server = shared()
    assert server.error(encode([request(1, "ping")]).rstrip()) == REQUEST
    assert server.fence() == []


@pytest.mark.requirement("BATCH-15")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_c06_a_switch_accepts_them_everywhere(serve: Serve, revision: str) -> None:
    server = serve(revision, accept_batches=True)
    found = exchange(server, call(1, "x"), call(2, "y"))
    assert {message["id"] for message in found} == {1, 2}
    server.lives()


def test_c06_a_batch_has_a_limit(serve: Serve) -> None:
    server = serve("2025-03-26", limits={"batch": 5})
    assert len(exchange(server, *(request(n, "ping") for n in range(5)))) == 5
    found = exchange(server, *(request(n, "ping") for n in range(6)))
    assert isinstance(found, dict)
    assert found["error"]["code"] == REQUEST
    server.lives()


def test_c06_one_id_twice_in_a_batch(shared: Serve) -> None:
    server = shared("2025-03-26")
    found = exchange(server, call(1, "x"), call(1, "y"))
    assert len(found) == 2
    assert sorted("error" in message for message in found) == [False, True]


@pytest.mark.requirement("BATCH-04", "CANC-04")
def test_c06_a_cancelled_call_has_no_entry(shared: Serve) -> None:
    server = shared("2025-03-26")
    watch = request("w", "tools/call", {"name": "watch", "arguments": {"name": "batch"}})
    server.write([watch, call("e", "x")])
    server.text("wait_for", {"name": "batch", "what": "begin"})
    server.notify("notifications/cancelled", {"requestId": "w"})
    server.text("wait_for", {"name": "batch", "what": "end"})
    (batch,) = server.fence() or [server.message()]  # it leaves when the worker does, be that behind the ping
    assert [one["id"] for one in batch] == ["e"]
    server.lives()


@pytest.mark.requirement("BATCH-04", "PROG-11")
def test_c06_progress_of_a_batched_call_stands_alone(shared: Serve) -> None:
    server = shared("2025-03-26")
    count = {"name": "count", "arguments": {"n": 2}, "_meta": {"progressToken": "b"}}
    server.write([request("c", "tools/call", count)])
    found = [server.message() for _ in range(3)]
    assert [message["params"]["progress"] for message in found[:2]] == [1, 2]
    assert [message["id"] for message in found[2]] == ["c"]
