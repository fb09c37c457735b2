"""Streams of our server over each transport, and `Occurrences` of our client with scripted
servers."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

import minimcp
from minimcp import (
    ConnectionLost,
    EventError,
    Events,
    EventsEnded,
    HttpOptions,
    Limits,
    Refused,
    RequestTimeout,
    RpcError,
    Server,
    Store,
)

from ..answering import R5, Answering, result
from ..inside import waiting_of
from ..scripted import notice
from ..support import WAIT, eventually
from .test_polls import FOUND, event, page
from .tickets import KEY, NAME, Listening, Ticket, mailbox, tickets

TERMINATED = "notifications/events/terminated"


def connect(events: Events) -> minimcp.Client:
    return minimcp.connect(events.server, timeout=WAIT)


def has_event_thread() -> bool:
    return any(each.name == "minimcp-events" for each in threading.enumerate())


# ---------------------------------------------------------------- our server


@pytest.mark.requirement("EV-53", "EV-55", "EV-56", "EV-57", "EV-61", "EV-62", "EV-63")
def test_a_stream_confirms_sends_events_and_heartbeats() -> None:
    events = tickets(heartbeat=0.2)
    with connect(events) as client:
        listening = Listening(client, arguments={"priority": "high"}, cursor=None)
        assert eventually(lambda: listening.methods() == ["active"])
        events.emit(NAME, Ticket("1", "high"), id="a")
        events.emit(NAME, Ticket("2"), id="b")
        events.emit(NAME, Ticket("3", "high"), id="c")
        assert eventually(lambda: listening.ids() == ["a", "c"])
        events.emit(NAME, Ticket("4"), id="d")
        assert eventually(lambda: listening.methods()[-2:] == ["heartbeat", "heartbeat"])
        active, first, second, *beats = listening.received
        assert active.params["truncated"] is False
        assert first.params["data"] == {"id": "1", "priority": "high"}
        # The position advances, although nothing was sent.
        assert beats[-1].params["cursor"] > second.params["cursor"] > active.params["cursor"]
        ids = {each.params["_meta"][KEY] for each in listening.received}
        assert len(ids) == 1
        assert isinstance(ids.pop(), int)
        listening.close()
        assert eventually(lambda: not events.open_streams)
    assert Events().limits["heartbeat"] <= 30


@pytest.mark.requirement("EV-54")
def test_an_invalid_stream_does_not_open() -> None:
    events = tickets()
    events.type("polled", delivery=["poll"])(lambda_of())
    with connect(events) as client:
        for params, code in (
            ({"name": "no.such"}, -32011),
            ({"name": "polled"}, -32014),
            ({"name": NAME, "arguments": {"priority": 1}}, -32602),
            ({"name": NAME, "cursor": 1}, -32602),
        ):
            listening = Listening(client, **params)  # type: ignore[arg-type]
            outcome = listening.outcome
            assert eventually(partial(bool, outcome))
            assert outcome[0].code == code
            assert listening.received == []
        assert events.open_streams == []


def lambda_of() -> Any:
    def each(payload: Ticket) -> bool:
        return True

    return each


@pytest.mark.requirement("EV-51", "EV-52")
def test_a_stream_replays_what_was_missed() -> None:
    events = tickets(keep=3)
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        for number in range(3):
            events.emit(NAME, Ticket("1"), id=str(number))
        listening = Listening(client, cursor=cursor)
        assert eventually(lambda: listening.ids() == ["0", "1", "2"])
        for number in range(3, 300):
            events.emit(NAME, Ticket("1"), id=str(number))
        assert eventually(lambda: "299" in listening.ids())
        numbers = [int(each) for each in listening.ids()]
        assert numbers == sorted(numbers)
        late = Listening(client, cursor=cursor)
        assert eventually(lambda: late.ids() == ["297", "298", "299"])
        assert late.received[0].params["truncated"] is True
        for each in (listening, late):
            each.close()


@pytest.mark.requirement("EV-60")
def test_a_gap_in_the_middle_of_a_stream() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(ticket: Ticket) -> bool:
        if ticket.id == "0":
            entered.set()
            release.wait(WAIT)
        return True

    events = tickets(keep=2, wants=slow)
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        events.emit(NAME, Ticket("0"), id="0")
        assert entered.wait(WAIT)
        for number in range(1, 5):
            events.emit(NAME, Ticket(str(number)), id=str(number))
        client.poll_events(NAME)  # it reads the log, so the stream continues after the gap
        release.set()
        assert eventually(lambda: listening.ids() == ["0", "3", "4"])
        gap = listening.received[2]
        assert gap.method.endswith("/active")
        assert gap.params["truncated"] is True
        assert isinstance(gap.params["cursor"], str)
        listening.close()


@pytest.mark.requirement("EV-58")
def test_a_source_that_fails_is_reported_and_tried_again() -> None:
    events = Events(heartbeat=0.1)
    server = Server("s", extensions=[events])
    calls: List[Optional[str]] = []

    @events.source("mail", every=0.05)
    def mails(cursor: Optional[str]) -> minimcp.EventBatch[Ticket]:
        calls.append(cursor)
        if len(calls) == 2:
            raise OSError("the mailbox is away")
        if cursor == "0":
            return minimcp.EventBatch([minimcp.Occurrence(Ticket("1"), id="m")], "1")
        return minimcp.EventBatch([], cursor or "0")

    with minimcp.connect(server, timeout=WAIT) as client:
        listening = Listening(client, "mail")
        assert eventually(lambda: listening.ids() == ["m"])
        assert listening.methods()[:2] == ["active", "error"]
        assert "mailbox" not in str(listening.received[1])
        assert eventually(lambda: listening.received[-1].params.get("cursor") == "1")
        listening.close()


@pytest.mark.requirement("EV-59", "EV-65")
def test_a_stream_ends_with_a_result() -> None:
    events = tickets()
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        events.terminate(NAME)
        assert eventually(lambda: bool(listening.outcome))
        assert listening.received[-1].method == TERMINATED
        assert listening.received[-1].params["error"]["code"] == -32012
        [outcome] = listening.outcome
        assert set(outcome) == {"_meta", "resultType"}
        assert KEY in outcome["_meta"]


@pytest.mark.requirement("EV-66")
def test_a_stream_that_was_cancelled_releases_everything() -> None:
    ended: List[Any] = []
    events = tickets(on_end=lambda name, arguments: ended.append(name))
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        listening.close()
        assert eventually(lambda: ended == [NAME])
        events.emit(NAME, Ticket("1"))
        assert events.open_streams == []
        assert eventually(lambda: not has_event_thread())


@pytest.mark.requirement("EV-67")
def test_streams_have_their_own_limits() -> None:
    events = tickets(streams=4, per_client=3)
    server = Server("s", extensions=[other := Events(per_client=3)], limits=Limits(requests=2))
    other.type(NAME)(lambda_of())
    with minimcp.connect(server, timeout=WAIT) as client:
        streams = []
        for _ in range(3):
            streams.append(Listening(client))
            assert eventually(lambda: streams[-1].methods() == ["active"])
        client.poll_events(NAME)  # open streams are not running requests
        late = Listening(client)
        assert eventually(lambda: bool(late.outcome))
        error = late.outcome[0]
        assert (error.code, error.data) == (-32013, {"limit": "subscriptions", "max": 3})
        for each in streams:
            each.close()
    with connect(events) as one, connect(events) as two:
        streams = [Listening(each) for each in (one, one, two, two)]
        assert eventually(lambda: all(each.methods() == ["active"] for each in streams))
        late = Listening(two)
        assert eventually(lambda: bool(late.outcome))
        assert late.outcome[0].data == {"limit": "streams", "max": 4}
        for each in streams:
            each.close()


@pytest.mark.requirement("EV-120", "EV-121")
def test_permission_is_checked_again() -> None:
    allowed = [True]

    def allow(ctx: Any, name: str, arguments: Any) -> None:
        if not allowed[0]:
            raise Refused("no longer")

    events = tickets(allow=allow, recheck=0.1, heartbeat=0.1)
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        allowed[0] = False
        assert eventually(lambda: bool(listening.outcome))
        found = listening.received[-1].params["error"]
        assert (found["code"], found["message"]) == (-32012, "no longer")
        with pytest.raises(EventError, match="no longer"):
            client.events(NAME)


def test_a_client_that_does_not_read_costs_one_step() -> None:
    events = tickets(heartbeat=0.05)
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        [stream] = events.open_streams
        taken: List[Any] = []
        stream.incoming.sink.post = taken.append  # type: ignore[method-assign]
        for number in range(500):
            events.emit(NAME, Ticket(str(number)), id=str(number))
        assert eventually(lambda: bool(taken))
        time.sleep(0.3)
        assert len(taken) == 1
        del stream.incoming.sink.post
        stream.incoming.sink.post(taken[0])
        assert eventually(lambda: len(listening.ids()) == 500)
        listening.close()


@pytest.mark.requirement("EV-53", "EV-64", "EV-68")
def test_over_http_a_stream_is_sse_without_comments() -> None:
    events = tickets(heartbeat=0.2, http=HttpOptions(keepalive=0.1))
    heard: List[bytes] = []
    with events.server.start_http(port=0) as running:
        import http.client
        import json

        link = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
        params: Dict[str, Any] = {
            "name": NAME,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": R5,
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        body = {"jsonrpc": "2.0", "id": "s", "method": "events/stream", "params": params}
        link.request(
            "POST",
            "/mcp",
            json.dumps(body),
            {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": R5,
                "Mcp-Method": "events/stream",
            },
        )
        response = link.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        # Several times as long as the pause after which other streams have a comment.
        while b"".join(heard).count(b"heartbeat") < 4:
            heard.append(response.readline())
        link.sock.close() if link.sock else response.close()
        assert not [each for each in heard if each.startswith(b":")]
        for patience in (0.5, 2.0, 8.0):  # a busy machine needs more for a request
            try:
                with minimcp.connect(running.url, timeout=patience) as client:
                    with client.events(NAME) as stream:
                        time.sleep(1.5 * patience)  # longer than the timeout of a request
                        events.emit(NAME, Ticket("1"), id="late")
                        assert stream.next(WAIT).id == "late"
                break
            except (RequestTimeout, minimcp.ConnectionFailed):
                assert patience < 8
    assert eventually(lambda: not events.open_streams)


def test_a_server_that_stops_ends_its_streams() -> None:
    events = tickets()
    with events.server.start_http(port=0) as running:
        client = minimcp.connect(running.url, timeout=WAIT)
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
    assert eventually(lambda: bool(listening.outcome))
    assert TERMINATED not in [each.method for each in listening.received]
    client.close()


PROGRAM = """
import sys, threading, time
sys.path.insert(0, {root!r})
from tests.events.tickets import *
events = tickets(heartbeat=0.2)
def tick():
    for number in range(10000):
        time.sleep(0.05)
        events.emit(NAME, Ticket(str(number)), id=str(number))
threading.Thread(target=tick, daemon=True).start()
events.server.run()
"""


@pytest.mark.requirement("EV-53", "EV-65")
def test_over_stdio(tmp_path: Path) -> None:
    from ..support import ROOT

    program = tmp_path / "server.py"
    program.write_text(PROGRAM.format(root=str(ROOT)))
    with minimcp.connect([sys.executable, str(program)], timeout=WAIT) as client:
        got: List[int] = []
        with client.events(NAME) as stream:
            for occurrence in stream:
                got.append(int(str(occurrence.id)))
                if len(got) == 10:
                    break
        assert got == list(range(got[0], got[0] + 10))
        with client.events(NAME, cursor=stream.cursor) as stream:
            assert stream.next(WAIT).id == str(got[-1] + 1)


def test_a_source_on_a_stream() -> None:
    events = tickets()
    mails = ["m0"]
    mailbox(events, mails, every=0.05)
    with connect(events) as client, client.events("mail.received") as stream:
        mails += ["m1", "m2", "m3"]
        assert [stream.next(WAIT).id for _ in range(3)] == ["m1", "m2", "m3"]
        assert stream.cursor == "4"


# ---------------------------------------------------------------- our client


class Streams:
    """A scripted server; `opened` has the params of each stream."""

    def __init__(self, *scripts: Callable[[Streams, Any], None], **answers: Any) -> None:
        self.opened: List[Dict[str, Any]] = []
        self._scripts = list(scripts)
        listed = result(events=[{"name": "t", "delivery": ["push", "poll"]}])
        self.host = Answering(
            {
                "server/discover": FOUND,
                "events/list": listed,
                "events/stream": self._open,
                **answers,
            }
        )

    def _open(self, message: Any) -> Any:
        self.opened.append(message["params"])
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        return script(self, message["id"])

    def say(self, id: Any, method: str, **params: Any) -> None:
        meta = {KEY: id}
        self.host.pipe.give(notice(f"notifications/events/{method}", **params, _meta=meta))

    def client(self) -> minimcp.Client:
        return minimcp.connect(self.host, timeout=WAIT)


def speaking(*lines: Any, end: Any = None) -> Callable[[Streams, Any], Any]:
    def script(server: Streams, id: Any) -> Any:
        for method, params in lines:
            server.say(id, method, **params)
        return end

    return script


ACTIVE = ("active", {"cursor": "a", "truncated": False})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.extensions.client_events.FIRST_PAUSE_SECONDS", 0.02)


@pytest.mark.requirement("EV-51", "EV-59", "EV-69", "EV-70", "EV-71")
def test_a_client_reopens_a_stream_at_its_last_cursor() -> None:
    server = Streams(
        speaking(ACTIVE, ("event", event("1", cursor="b")), end={"result": {}}),
        speaking(
            ACTIVE,
            ("event", event("1", cursor="b")),
            ("event", event("2", cursor="c")),
            ("heartbeat", {"cursor": "d"}),
            end={"error": {"code": -32603, "message": "x"}},
        ),
    )
    with server.client() as client, client.events("t", cursor="0") as stream:
        assert stream.mode == "push"
        assert [stream.next(WAIT).id, stream.next(WAIT).id] == ["1", "2"]
        with pytest.raises(RpcError):
            stream.next(WAIT)
        assert stream.cursor == "d"
        assert [each["cursor"] for each in server.opened] == ["0", "b"]


@pytest.mark.requirement("EV-69")
def test_a_silent_stream_is_reopened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.extensions.client_events.MIN_SILENT_SECONDS", 1.0)

    def beating(server: Streams, id: Any) -> None:
        server.say(id, "active", cursor="a", truncated=False)
        for number in range(4):
            server.say(id, "heartbeat", cursor=f"h{number}")

    server = Streams(beating, speaking(ACTIVE, ("event", event("1", cursor="z"))))
    with server.client() as client, client.events("t") as stream:
        assert stream.next(WAIT).id == "1"
        assert len(server.opened) == 2
        assert server.opened[1]["cursor"] == "h3"
        assert eventually(lambda: "notifications/cancelled" in server.host.pipe.methods())


@pytest.mark.requirement("EV-71")
def test_a_server_that_ends_streams_at_once_is_not_flooded() -> None:
    server = Streams(speaking(ACTIVE, end={"result": {}}))
    with server.client() as client, client.events("t") as stream:
        with pytest.raises(RequestTimeout):
            stream.next(0.5)
        assert len(server.opened) < 8


@pytest.mark.requirement("EV-42")
def test_a_null_cursor_is_not_stored_and_a_new_stream_is_a_gap() -> None:
    server = Streams(
        speaking(("active", {"truncated": False}), ("event", event("1")), end={"result": {}}),
        speaking(("active", {"cursor": None, "truncated": False}), ("event", event("2"))),
    )
    gaps: List[Any] = []
    with server.client() as client, client.events("t", on_gap=gaps.append) as stream:
        first, second = stream.next(WAIT), stream.next(WAIT)
        assert (first.missed, second.missed, gaps) == (False, True, [None])
        assert [each.get("cursor") for each in server.opened] == [None, None]


@pytest.mark.requirement("EV-50", "EV-60")
def test_a_gap_is_reported_to_the_program() -> None:
    server = Streams(
        speaking(
            ("active", {"cursor": "a", "truncated": True}),
            ("event", event("1", cursor="b")),
            ("active", {"cursor": "c", "truncated": True}),
            ("error", {"error": {"code": -32603, "message": "away"}}),
            ("event", event("2", cursor="d")),
            ("event", event("3", cursor="e")),
            ("event", {"eventId": 3}),
            ("strange", {}),
        )
    )
    gaps: List[Any] = []
    with server.client() as client, client.events("t", cursor="0", on_gap=gaps.append) as stream:
        found = [stream.next(WAIT) for _ in range(3)]
        assert [each.missed for each in found] == [True, True, False]
        assert gaps == ["a", "c"]
        assert len(server.opened) == 1


@pytest.mark.requirement("EV-21", "EV-59")
@pytest.mark.parametrize(
    ("code", "listed", "reason"),
    [
        (-32012, True, "Forbidden"),
        (-32011, False, "NotFound"),
        (-32026, False, "Unsupported"),
        (-32603, True, "over"),
        (None, True, "None"),
    ],
)
def test_the_end_of_a_subscription(code: Any, listed: bool, reason: str) -> None:
    error = None if code is None else {"code": code, "message": "over"}
    types = result(events=[{"name": "t"}] if listed else [])
    server = Streams(speaking(ACTIVE, ("terminated", {"error": error})), **{"events/list": types})
    with server.client() as client, client.events("t", mode="push") as stream:
        with pytest.raises(EventsEnded) as caught:
            stream.next(WAIT)
        assert (caught.value.name, caught.value.reason) == ("t", reason)
        assert len(server.opened) == 1


@pytest.mark.requirement("EV-21")
@pytest.mark.parametrize("code", [-32014, -32011])
def test_a_type_that_has_changed_is_subscribed_to_again(code: int) -> None:
    error = {"code": code, "message": "changed"}
    server = Streams(
        speaking(ACTIVE, ("terminated", {"error": error}), end={"result": {}}),
        speaking(ACTIVE, ("event", event("1", cursor="b"))),
    )
    with server.client() as client, client.events("t") as stream:
        assert stream.next(WAIT).id == "1"
        assert server.host.pipe.methods().count("events/list") == 2


@pytest.mark.requirement("EV-16")
def test_a_client_lists_again_when_the_list_has_changed() -> None:
    changed = notice("notifications/events/list_changed")

    def poll(message: Any) -> Any:
        server.host.pipe.give(changed)
        return page(event("1"))(message)

    listed = [result(events=[{"name": "t", "delivery": ["poll"]}]), result(events=[])]
    server = Streams(speaking(ACTIVE), **{"events/list": listed, "events/poll": poll})
    with server.client() as client, client.events("t", cursor="0") as stream:
        assert stream.mode == "poll"
        assert stream.next(WAIT).id == "1"
        with pytest.raises(EventsEnded, match="NotFound"):
            stream.next(WAIT)
        assert server.host.pipe.methods().count("events/list") == 2


def test_a_program_that_is_slow_costs_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.extensions.client_events.MAX_WAITING", 20)
    opened: List[str] = []
    events = tickets(on_begin=lambda name, arguments: opened.append(name))
    with connect(events) as client, client.events(NAME) as stream:
        for number in range(200):
            events.emit(NAME, Ticket("1"), id=str(number))
        assert [stream.next(WAIT).id for _ in range(200)] == [str(each) for each in range(200)]
        assert len(opened) >= 5  # it was closed while the program was slow


GAP = ("active", {"cursor": "c" * 1000, "truncated": True})
BEAT = ("heartbeat", {"cursor": "c" * 1000})
END = ("terminated", {"error": {"code": -32011, "message": "x" * 1000}})


@pytest.mark.parametrize("limit", ["MAX_WAITING", "MAX_WAITING_BYTES"])
@pytest.mark.parametrize(
    "lines",
    [
        [GAP],
        [GAP, BEAT],
        [BEAT, END],
        [GAP, ("event", event("1"))],
    ],
    ids=["gaps", "heartbeats", "ends", "events"],
)
def test_a_server_that_floods_costs_bounded_memory(
    monkeypatch: pytest.MonkeyPatch, limit: str, lines: Any
) -> None:
    monkeypatch.setattr(f"minimcp.extensions.client_events.{limit}", 20)
    server = Streams(speaking(ACTIVE, *lines * 500))
    with server.client() as client, client.events("t", cursor="a") as stream:
        client.ping()  # all of them were received
        assert waiting_of(stream) <= 21


def test_close_from_another_thread_ends_the_loop() -> None:
    events = tickets()
    with connect(events) as client:
        stream = client.events(NAME)
        closer = threading.Timer(0.2, stream.close)
        closer.start()
        assert list(stream) == []
        closer.join()
        with pytest.raises(ConnectionLost, match="closed"):
            stream.next(1)
        with pytest.raises(ValueError, match="mode"):
            client.events(NAME, mode="smoke")


def test_a_lost_connection_ends_the_loop() -> None:
    events = tickets()
    client = connect(events)
    stream = client.events(NAME)
    client.close()
    with pytest.raises(ConnectionLost):
        next(stream)


def test_a_function_is_called_with_each_event(caplog: pytest.LogCaptureFixture) -> None:
    events = tickets()
    got: List[Any] = []

    def function(occurrence: minimcp.Occurrence) -> None:
        got.append((occurrence.id, threading.current_thread().name))
        if occurrence.id == "1":
            raise KeyError("x")

    with connect(events) as client:
        occurrences = client.on_event(NAME, function)
        for number in range(3):
            events.emit(NAME, Ticket("1"), id=str(number))
        assert eventually(lambda: [id for id, _ in got] == ["0", "1", "2"])
        assert {name for _, name in got} == {"minimcp-callbacks"}
        occurrences.close()
        assert "a callback failed" in caplog.text
        # A server that ends the subscription ends the thread, too.
        client.on_event(NAME, function)
        events.terminate(NAME)
        assert eventually(lambda: "Forbidden" in caplog.text)


def test_a_client_follows_a_restarted_http_server(open_store: Callable[[], Store]) -> None:
    events = tickets(store=open_store())
    with events.server.start_http(port=0) as running:
        port = running.port
        client = minimcp.connect(running.url, timeout=WAIT)
        stream = client.events(NAME)
        events.emit(NAME, Ticket("1"), id="1")
        assert stream.next(WAIT).id == "1"
    events.emit(NAME, Ticket("2"), id="2")
    again = tickets(store=open_store())
    with again.server.start_http(port=port):
        again.emit(NAME, Ticket("3"), id="3")
        found = [stream.next(WAIT), stream.next(WAIT)]
        assert [(each.id, each.missed) for each in found] == [("2", False), ("3", False)]
        stream.close()
        client.close()
    assert eventually(lambda: not has_event_thread())
