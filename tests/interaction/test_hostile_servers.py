"""A server can make its client keep only a bounded number of bytes, whatever it sends and however
slow the host is.

HTTP uses the same queues and tables. Bounds that only HTTP has are in
tests/transports/test_http_client.py.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any, Callable, Dict

import pytest

import minimcp
from minimcp.client import calls, connect, reconnect
from minimcp.client.session import MAX_CHANGE_BYTES

from ..answering import R4, R5, Answering, initialized, result
from ..listening import CAPABILITIES, UPDATED, Host
from ..scripted import Task, notice, request, wait_for
from ..support import WAIT, eventually

MIB = 1024 * 1024
LIMITS = minimcp.Limits(message_bytes=MIB, backlog_bytes=2 * MIB, cache_bytes=MIB, workers=4)

# Nearly as long as a message may be: what takes very much more memory than bytes, and what takes as
# much.
DEAR: Any = [{}] * (MIB // 5)
LONG = "x" * (MIB - 1000)


def progress(number: int, id: Any, value: Any) -> Dict[str, Any]:
    return notice(
        "notifications/progress", progressToken=id, progress=number, message=value, more=value
    )


def log(number: int, id: Any, value: Any) -> Dict[str, Any]:
    return notice("notifications/message", level="info", data=value)


def question(number: int, id: Any, value: Any) -> Dict[str, Any]:
    schema = {"type": "object", "properties": {}}
    return request(
        f"q{number}", "elicitation/create", message="?", requestedSchema=schema, more=value
    )


def change(number: int, id: Any, value: Any) -> Dict[str, Any]:
    uri = f"a://dir/{number}/{value if isinstance(value, str) else 'x'}"
    return notice(UPDATED, uri=uri, **({} if isinstance(value, str) else {"_meta": {"x": value}}))


@pytest.mark.figures
@pytest.mark.parametrize(
    ("value", "count"), [(DEAR, 6), (LONG, 40), ("x", 10_000)], ids=["dear", "long", "short"]
)
@pytest.mark.parametrize(("say", "most"), [(progress, 4), (log, 4), (question, 4), (change, 8)])
def test_messages_queued_for_a_slow_host_take_little_memory(
    say: Any, most: int, value: Any, count: int
) -> None:
    gate, begun = threading.Event(), threading.Event()

    def slow(*_: Any) -> None:
        begun.set()
        wait_for(gate)

    server = Host(session=True, sync=result(), flood=lambda message: ids.append(message["id"]))
    handlers: Any = {"on_log": slow, "elicit": slow, "limits": LIMITS, "timeout": 4 * WAIT}
    with minimcp.connect(server, revision=R4, **handlers) as client:
        ids: Any = []
        changes = client.listen(resource_subscriptions=["a://dir"])
        flood = Task(client.request, "flood", on_progress=slow)
        assert eventually(lambda: ids)
        server.pipe.give(say(0, ids[0], "x"))
        assert say is change or begun.wait(WAIT)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for number in range(1, count):
                server.pipe.give(say(number, ids[0], value))
                if number % 100 == 0 or value != "x":
                    client.request("sync")
            client.request("sync")
            server.pipe.messages.clear()
            gc.collect()
            kept = (tracemalloc.get_traced_memory()[0] - before) / MIB
        finally:
            tracemalloc.stop()
            gate.set()
        changes.close()
        server.pipe.give({"jsonrpc": "2.0", "id": ids[0], "result": {}})
        flood.ended()
    assert kept < most, f"{kept:.1f} MiB are kept"


@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize("part", ["capabilities", "serverInfo", "instructions", "_meta"])
def test_a_server_that_describes_itself_at_length_is_refused(
    part: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "MAX_DESCRIPTION_BYTES", 100_000)
    told: Dict[str, Any] = (
        initialized(R4)({})["result"]
        if revision == R4
        else {"supportedVersions": [R5], "capabilities": {}}
    )
    told = {
        **told,
        part: "x" * 100_000 if part == "instructions" else {**told.get(part, {}), "x": DEAR[:2000]},
    }
    server = Answering({"initialize": result(**told), "server/discover": result(**told)})
    with pytest.raises((minimcp.ProtocolViolation, minimcp.UnsupportedRevision)):
        minimcp.connect(server, revision=revision, timeout=WAIT).close()


def test_a_list_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_LIST_BYTES", 1_000_000)
    pages = 0

    def page(message: Any) -> Any:
        nonlocal pages
        pages += 1
        tool = {
            "name": f"t{pages}",
            "inputSchema": {"type": "object"},
            "outputSchema": {"x": DEAR[:1000]},
        }
        return {"result": {"tools": [tool], "nextCursor": f"{pages}" + "x" * 1000}}

    with minimcp.connect(Answering({"tools/list": page}), revision=R4, timeout=WAIT) as client:
        with pytest.raises(
            minimcp.ProtocolViolation,
            match="returned lists that use more than 1000000 bytes of memory",
        ):
            client.list_tools()
    assert 5 < pages < 20


def test_a_result_asks_only_so_many_questions() -> None:
    asked = {f"k{number}": {"method": "roots/list"} for number in range(calls.MAX_QUESTIONS + 1)}
    server = Answering(
        {"tools/call": result(resultType="input_required", inputRequests=asked)}, modern=True
    )
    with minimcp.connect(server, revision=R5, roots=["/tmp"], timeout=WAIT) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="of at most 1000 inputRequests"):
            client.call_tool("t")
        assert server.pipe.methods().count("tools/call") == 1


def test_an_oversized_change_notification_is_dropped() -> None:
    heard: Any = []
    server = Host(session=True, capabilities=CAPABILITIES)
    with minimcp.connect(
        server, revision=R4, on_resource_updated=heard.append, timeout=WAIT
    ) as client:
        changes = client.listen(resource_subscriptions=["a://dir"])
        uris = ["a://dir/1", "a://dir/" + "/" * MAX_CHANGE_BYTES, "a://dir/2"]
        server.pipe.give(*(notice(UPDATED, uri=uri) for uri in uris))
        server.pipe.give(
            notice(UPDATED, uri="a://dir/3", _meta={"x": DEAR[:1000]}),
            notice(UPDATED, uri="a://dir/4"),
        )
        found = [changes.next(WAIT).uri for _ in range(3)]
    assert found == ["a://dir/1", "a://dir/2", "a://dir/4"] and eventually(lambda: heard == found)


def test_a_session_that_is_lost_repeatedly_is_reopened_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: Any = []
    monkeypatch.setattr(reconnect, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(reconnect, "STEADY_SECONDS", WAIT)
    wait_until = reconnect.wait_until

    def waited(done: Callable[[], bool], changed: Any, deadline: Any, cancel: Any) -> bool:
        if deadline.seconds == 0.01:
            pauses.append(opened)
        return wait_until(done, changed, deadline, cancel)

    class Dying(Answering):
        def open_pipe(self) -> Any:
            nonlocal opened
            opened += 1
            return super().open_pipe()

    monkeypatch.setattr(reconnect, "wait_until", waited)
    opened = 0
    server = Dying({"die": lambda message: server.pipe.end()})
    with minimcp.connect(server, revision=R4, restart=True, timeout=WAIT) as client:
        for _ in range(7):
            with pytest.raises(minimcp.ConnectionLost):
                client.request("die")
    assert pauses == [4, 5, 6], "three are begun at once"
