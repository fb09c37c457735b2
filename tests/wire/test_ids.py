"""C07, C15 and C16 of the fault catalogue: ids keep their type, one id is in flight once, strays are dropped."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import EVERY, MODERN, REQUEST, encode, modern, request

KEPT: list[Any] = [
    1, "1", 0, "", -1, 2**31, 2**53 + 1, -(2**63), 10**30, "007", "1.0", "true", "null", " ", "a b",
    "\u00e9\u2028\U0001f600", "x" * 10_000, '"', "\\", "\n", "__proto__",
]  # fmt: skip
REFUSED: list[Any] = [True, False, 1.5, 1.0, 0.0, -0.0, 1e3, None, [], [1], {}, {"id": 1}]


def line(server: RawServer, id: Any, method: str = "tools/list", params: Any = None) -> bytes:
    """A request in the server's revision."""
    return encode(request(id, method, modern(params) if server.revision == MODERN else params or {}))


@pytest.mark.requirement("BASE-02", "BASE-05", "M:BASE-2", "M:BASE-3", "M:BASE-5")
@pytest.mark.parametrize("id", KEPT, ids=lambda id: repr(id)[:20])
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c07_an_id_comes_back_as_it_went(shared: Serve, revision: str, id: Any) -> None:
    server = shared(revision)
    for method in ("tools/list", "no/such/method"):
        server.send(line(server, id, method))
        server.answer(id)
    assert server.call("echo", {"text": "x"}, id=id)["content"]


@pytest.mark.requirement("BASE-02", "BASE-03", "M:BASE-2")
@pytest.mark.parametrize("id", REFUSED, ids=repr)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c07_what_is_no_id_is_refused(shared: Serve, revision: str, id: Any) -> None:
    server = shared(revision)
    assert server.error(line(server, id).rstrip()) == REQUEST
    server.lives()


@pytest.mark.requirement("BASE-05", "BASE-04", "M:BASE-3")
@pytest.mark.parametrize("revision", EVERY)
def test_c07_one_and_the_string_one_are_in_flight_together(shared: Serve, revision: str) -> None:
    server = shared(revision)
    name = f"two {revision}"
    server.begin_call("hold", {"name": name + " 1"}, id=1)
    server.begin_call("hold", {"name": name + " one"}, id="1")
    server.text("release", {"name": name + " one"})
    assert server.answer("1")["result"]["content"][0]["text"] == "released"
    server.text("release", {"name": name + " 1"})
    assert server.answer(1)["result"]["content"][0]["text"] == "released"
    assert server.aside == []


@pytest.mark.requirement("M:BASE-4")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c15_an_id_in_flight_is_refused_at_once(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.begin_call("hold", {"name": revision}, id="twice")
    server.begin_call("echo", {"text": "second"}, id="twice")
    assert server.answer("twice")["error"]["code"] == REQUEST  # while the first still runs
    server.text("release", {"name": revision})
    assert server.answer("twice")["result"]["content"][0]["text"] == "released"
    assert server.fence() == []


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c15_an_id_may_be_used_again_when_it_was_answered(shared: Serve, revision: str) -> None:
    """A client that breaks the rule after the answer is served (some always send 1)."""
    server = shared(revision)
    for n in range(50):
        assert server.call("echo", {"text": str(n)}, id="again")["content"][0]["text"] == str(n)
    assert server.ask("no/such/method", id="again")["error"]["code"] == -32601
    assert server.ask("tools/list", id="again")["result"]


STRAYS: list[Any] = [
    {"jsonrpc": "2.0", "id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": "nobody", "result": {"x": 1}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}},
    {"jsonrpc": "2.0", "id": 10**20, "error": {"code": 1, "message": "no", "data": [1]}},
]


@pytest.mark.requirement("BASE-19")
@pytest.mark.parametrize("stray", STRAYS)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c16_an_answer_nobody_asked_for_is_dropped(shared: Serve, revision: str, stray: Any) -> None:
    server = shared(revision)
    for _ in range(20):
        server.write(stray)
    server.lives()


@pytest.mark.requirement("BASE-19")
def test_c16_an_answer_with_the_id_of_a_running_request_is_dropped(shared: Serve) -> None:
    """The two directions have id spaces of their own."""
    server = shared("2025-06-18")
    server.begin_call("hold", {"name": "stray"}, id=77)
    server.write({"jsonrpc": "2.0", "id": 77, "result": {"mine": True}})
    server.text("release", {"name": "stray"})
    assert server.answer(77)["result"]["content"][0]["text"] == "released"
    assert server.fence() == []


@pytest.mark.requirement("BASE-06", "BASE-11")
@pytest.mark.parametrize(
    "stray",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "both"}},
        {"jsonrpc": "2.0", "id": 1, "result": []},
        {"jsonrpc": "2.0", "id": 1, "error": "no object"},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": 1}},
        {"jsonrpc": "2.0", "id": [], "result": {}},
    ],
)
def test_c16_a_malformed_answer_does_no_harm(shared: Serve, stray: Any) -> None:
    """Dropped, or refused without an id: never taken for a request."""
    server = shared("2025-06-18")
    server.write(stray)
    for message in server.fence():
        assert message["error"]["code"] == REQUEST, message
    server.lives()
