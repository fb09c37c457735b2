"""Polls: cursors, gaps, ages and limits of our server, and what our client does with them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Optional

import pytest

import minimcp
from minimcp import (
    EventBatch,
    EventError,
    Events,
    InvalidParams,
    MemoryStore,
    Occurrence,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
    Server,
    Store,
)

from ..answering import R5, Answering, error, result
from ..support import WAIT
from .tickets import NAME, Clock, Ticket, mailbox, tickets

ID = "io.modelcontextprotocol/events"
FOUND = result(supportedVersions=[R5], capabilities={"extensions": {ID: {}}})


def connect(events: Events) -> minimcp.Client:
    return minimcp.connect(events.server, timeout=WAIT)


def ids(batch: Any) -> List[Optional[str]]:
    return [each.id for each in batch]


def event(id: str, **more: Any) -> Dict[str, Any]:
    wire = {"eventId": id, "name": "t", "timestamp": "2026-11-28T12:00:00Z", "data": {"n": id}}
    return {**wire, **more}


def page(*events: Dict[str, Any], **more: Any) -> Any:
    usual = {"cursor": "c", "truncated": False, "hasMore": False, "nextPollMs": 5000}
    return result(events=list(events), **{**usual, **more})


# ---------------------------------------------------------------- our server


@pytest.mark.requirement(
    "EV-26", "EV-27", "EV-28", "EV-29", "EV-38", "EV-39", "EV-40", "EV-41", "EV-43"
)
def test_the_first_poll_has_only_a_cursor() -> None:
    events = tickets()
    events.emit(NAME, Ticket("0"))
    with connect(events) as client:
        for params in ({}, {"cursor": None}, {"cursor": None, "maxAgeMs": 60000}):
            found = client.request("events/poll", {"name": NAME, **params})
            assert found["resultType"] == "complete"
            assert (found["events"], found["hasMore"], found["truncated"]) == ([], False, False)
            assert isinstance(found["cursor"], str)
            assert found["nextPollMs"] == 5000
        events.emit(NAME, Ticket("1"), id="a")
        # Nothing is kept between two polls: the cursor is everything.
        batch = client.poll_events(NAME, None, cursor=found["cursor"])
        assert ids(batch) == ["a"]
        assert batch.next_poll == 5.0
        # The position advances although nothing is sent to this subscription.
        events.emit(NAME, Ticket("2"), id="b")
        quiet = client.poll_events(NAME, {"priority": "high"}, cursor=batch.cursor)
        assert (len(quiet), quiet.cursor != batch.cursor) == (0, True)


@pytest.mark.requirement("EV-31", "EV-32", "EV-34")
def test_invalid_polls_are_errors() -> None:
    with connect(tickets()) as client:
        for params in (
            {},
            {"name": 3},
            {"name": NAME, "arguments": {"priority": 12345}},
            {"name": NAME, "arguments": {"colour": "red"}},
            {"name": NAME, "arguments": []},
            {"name": NAME, "cursor": 3},
            {"name": NAME, "maxEvents": 0},
            {"name": NAME, "maxEvents": "x"},
            {"name": NAME, "maxAgeMs": -1},
            {"name": NAME, "arguments": {"priority": "x" * 20_000}},
            {"name": NAME, "cursor": "x" * 5000},
        ):
            with pytest.raises(InvalidParams):
                client.request("events/poll", params)
        with pytest.raises(RpcError) as caught:
            client.request("events/poll", {"name": "no.such"})
        assert -32099 <= caught.value.code <= -32000
        assert caught.value.data == {"kind": "event"}
        # An absent or null argument is an empty one.
        client.request("events/poll", {"name": NAME, "arguments": None})


@pytest.mark.requirement("EV-30", "EV-52")
def test_the_number_of_events_is_capped() -> None:
    events = tickets()
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        for number in range(250):
            events.emit(NAME, Ticket(str(number)), id=str(number))
        found = client.request("events/poll", {"name": NAME, "cursor": cursor, "maxEvents": 7})
        assert [each["eventId"] for each in found["events"]] == [str(each) for each in range(7)]
        assert found["hasMore"] is True
        found = client.request("events/poll", {"name": NAME, "cursor": found["cursor"]})
        assert len(found["events"]) == 100
        assert found["events"][0]["eventId"] == "7"
        assert ids(client.poll_events(NAME, cursor=cursor)) == [str(each) for each in range(250)]
        few = client.poll_events(NAME, cursor=cursor, max_events=3)
        assert (ids(few), few.more) == (["0", "1", "2"], True)


@pytest.mark.parametrize("member", ["maxEvents", "maxAgeMs"])
@pytest.mark.parametrize(
    "number", [2**64, 1e20, 1e22, 1e308, 10**400], ids=["2e19", "1e20", "1e22", "1e308", "1e400"]
)
def test_a_number_may_have_any_size(member: str, number: float) -> None:
    events = tickets()
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        events.emit(NAME, Ticket("1"), id="1")
        found = client.request("events/poll", {"name": NAME, "cursor": cursor, member: number})
        assert [each["eventId"] for each in found["events"]] == ["1"]


@pytest.mark.requirement("EV-47", "EV-48", "EV-50")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_cursor_that_the_log_has_dropped(kind: str, open_store: Callable[[], Store]) -> None:
    store: Store = MemoryStore() if kind == "memory" else open_store()
    events = tickets(keep=3, store=store)
    with connect(events) as client:
        cursors = [client.poll_events(NAME).cursor]
        for number in range(5):
            events.emit(NAME, Ticket(str(number)), id=str(number))
            cursors.append(client.poll_events(NAME).cursor)
        for first, found, truncated in (
            (5, [], False),
            (4, ["4"], False),
            (2, ["2", "3", "4"], False),
            (1, ["2", "3", "4"], True),
            (0, ["2", "3", "4"], True),
        ):
            batch = client.poll_events(NAME, cursor=cursors[first])
            assert (ids(batch), batch.truncated) == (found, truncated), first
            assert batch.cursor == cursors[5]
            assert not client.poll_events(NAME, cursor=batch.cursor).truncated
        for foreign in ("", "x", "1.2", ".", "\u0661.\u0661", "9" * 50, f"{cursors[5]}9"):
            batch = client.poll_events(NAME, cursor=foreign)
            assert (ids(batch), batch.truncated) == (["2", "3", "4"], True), foreign


def test_events_that_are_too_old_are_lost() -> None:
    events = tickets(keep_seconds=60)
    clock = Clock()
    events.clock = clock
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        events.emit(NAME, Ticket("1"), id="old")
        newer = client.poll_events(NAME).cursor
        clock.seconds += 50
        events.emit(NAME, Ticket("2"), id="new")
        assert ids(client.poll_events(NAME, cursor=cursor)) == ["old", "new"]
        clock.seconds += 20
        batch = client.poll_events(NAME, cursor=cursor)
        assert (ids(batch), batch.truncated) == (["new"], True)
        assert not client.poll_events(NAME, cursor=newer).truncated
        # Another process reads the same from the store.
        clock.seconds += 100
        other = tickets(keep_seconds=60, store=events.store)
        other.clock = clock
        with connect(other) as second:
            for each, truncated in ((batch.cursor, False), (newer, True), (cursor, True)):
                assert second.poll_events(NAME, cursor=each).truncated is truncated


@pytest.mark.requirement("EV-44", "EV-45", "EV-46")
def test_the_maximum_age() -> None:
    events = tickets()
    now = datetime.now(timezone.utc)
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        for age in (7200, 1800, 10):
            moment = now - timedelta(seconds=age)
            events.emit(NAME, Ticket("1"), id=str(age), timestamp=moment)
        for max_age, found, truncated in (
            (9000, ["7200", "1800", "10"], False),
            (3600, ["1800", "10"], True),
            (1, [], True),
            (1e30, ["7200", "1800", "10"], False),
        ):
            batch = client.poll_events(NAME, cursor=cursor, max_age=max_age)
            assert (ids(batch), batch.truncated) == (found, truncated), max_age
        assert not client.poll_events(NAME, max_age=1).truncated


@pytest.mark.requirement("EV-27")
def test_any_process_answers_the_next_poll(open_store: Callable[[], Store]) -> None:
    first = tickets(store=open_store())
    second = tickets(store=open_store())
    with connect(first) as here, connect(second) as there:
        cursor = here.poll_events(NAME).cursor
        first.emit(NAME, Ticket("1"), id="a")
        second.emit(NAME, Ticket("2"), id="b")
        assert ids(there.poll_events(NAME, cursor=cursor)) == ["a", "b"]
        assert ids(here.poll_events(NAME, cursor=cursor)) == ["a", "b"]


def test_two_servers_with_one_store_do_not_see_each_other() -> None:
    store = MemoryStore()
    with connect(tickets("a", store=store)) as here, connect(tickets("b", store=store)) as there:
        cursor = here.poll_events(NAME).cursor
        assert there.poll_events(NAME, cursor=cursor).truncated


@pytest.mark.requirement("EV-49")
def test_a_source_has_its_own_cursors() -> None:
    mails = ["m0", "m1"]
    events = tickets()
    calls = mailbox(events, mails, every=0.001)
    with connect(events) as client:
        batch = client.poll_events("mail.received")
        assert (batch.cursor, batch.next_poll, batch.truncated) == ("2", 0.001, False)
        mails += ["m2", "m3", "m4"]
        time.sleep(0.01)
        batch = client.poll_events("mail.received", cursor=batch.cursor)
        assert (ids(batch), batch.cursor, batch.truncated) == (["m2", "m3", "m4"], "5", False)
        assert calls[0] is None
        with pytest.raises(RpcError):
            client.poll_events("mail.received", {"size": "x"}, cursor="5")


def test_subscriptions_share_the_calls_of_a_source() -> None:
    events = tickets()
    calls = mailbox(events, ["m0", "m1"], every=60)
    with connect(events) as client:
        for _ in range(3):
            assert ids(client.poll_events("mail.received", cursor="0")) == ["m0", "m1"]
        assert calls == ["0"]
        client.poll_events("mail.received", {"size": 1}, cursor="0")
        assert len(calls) == 3


def test_mistakes_of_a_source() -> None:
    events = Events()
    server = Server("s", extensions=[events])

    @events.source("no.id")
    def without(cursor: Optional[str]) -> EventBatch[Ticket]:
        return EventBatch([Occurrence(Ticket("1"))], "1")

    @events.source("no.batch")
    def nothing(cursor: Optional[str]) -> EventBatch[Ticket]:
        return []  # type: ignore[return-value]

    with minimcp.connect(server, timeout=WAIT) as client:
        for name in ("no.id", "no.batch"):
            with pytest.raises(RpcError, match="Internal error"):
                client.poll_events(name, cursor="0")


def test_an_author_rejects_clients_and_counts_subscriptions() -> None:
    begun: List[Any] = []

    def allow(ctx: Any, name: str, arguments: Any) -> None:
        if arguments.get("priority") == "secret":
            raise minimcp.Refused("not for you")

    events = tickets(
        allow=allow,
        poll_seconds=0.05,
        heartbeat=0.2,
        on_begin=lambda name, arguments: begun.append(("begin", arguments)),
        on_end=lambda name, arguments: begun.append(("end", arguments)),
    )
    with connect(events) as client:
        with pytest.raises(EventError, match="not for you") as caught:
            client.poll_events(NAME, {"priority": "secret"})
        assert caught.value.kind == "Forbidden"
        for _ in range(3):
            client.poll_events(NAME, {"priority": "low"})
        assert begun == []
        with client.events(NAME, {"priority": "x"}), client.events(NAME, {"priority": "x"}):
            assert begun.count(("begin", {"priority": "x"})) == 1
        end = time.monotonic() + WAIT
        while len(begun) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert begun == [("begin", {"priority": "x"}), ("end", {"priority": "x"})]


# ---------------------------------------------------------------- our client


def scripted(*answers: Any) -> Answering:
    return Answering({"server/discover": FOUND, "events/poll": list(answers)})


@pytest.mark.requirement("EV-35", "EV-40")
def test_a_client_follows_has_more_at_once() -> None:
    host = scripted(
        page(event("1"), cursor="a", hasMore=True, nextPollMs=60000),
        page(event("2"), cursor="b", hasMore=True, nextPollMs=60000),
        page(event("3"), cursor="c"),
    )
    with minimcp.connect(host, timeout=WAIT) as client:
        batch = client.poll_events("t", cursor="0")
        assert (ids(batch), batch.cursor, batch.more) == (["1", "2", "3"], "c", False)
        polls = [each["params"] for each in host.pipe.messages if each["method"] == "events/poll"]
        assert [each["cursor"] for each in polls] == ["0", "a", "b"]


@pytest.mark.requirement("EV-37")
@pytest.mark.parametrize("cursor", ["0", None])
def test_a_cursor_that_does_not_move(cursor: Optional[str]) -> None:
    host = scripted(page(event("1"), cursor=cursor, hasMore=True))
    with minimcp.connect(host, timeout=WAIT) as client:
        with pytest.raises(ProtocolViolation, match="advance"):
            client.poll_events("t", cursor="0")


@pytest.mark.requirement("EV-37")
def test_an_endless_server_is_bounded_by_the_timeout() -> None:
    numbers = iter(range(1, 10**9))

    def more(message: Any) -> Any:
        number = next(numbers)
        time.sleep(0.002)
        return page(event(str(number)), cursor=str(number), hasMore=True)(message)

    host = Answering({"server/discover": FOUND, "events/poll": more})
    with minimcp.connect(host, timeout=WAIT) as client:
        for patience in (0.3, 1.0, 4.0):  # a busy machine may need more for the first page
            try:
                batch = client.poll_events("t", cursor="0", timeout=patience)
                break
            except RequestTimeout:
                assert patience < 4
        assert batch.more
        assert 0 < len(batch) <= 1000
        assert batch.cursor == batch.events[-1].id


@pytest.mark.requirement("EV-37")
def test_an_endless_server_is_bounded_in_bytes() -> None:
    numbers = iter(range(1, 10**9))

    def more(message: Any) -> Any:
        number = next(numbers)
        one = event(str(number), data={"text": "x" * 1_000_000})
        return page(one, cursor=str(number), hasMore=True)(message)

    host = Answering({"server/discover": FOUND, "events/poll": more})
    with minimcp.connect(host, timeout=WAIT) as client:
        for first in ("x", "y"):
            batch = client.poll_events("t", cursor=first)
            assert batch.more
            assert 10 < len(batch) < 20


@pytest.mark.requirement("EV-40", "EV-42", "EV-50")
def test_a_null_cursor_is_not_replayed() -> None:
    host = scripted(
        result(events=[], nextPollMs=1),
        page(event("1"), cursor=None, truncated=True),
        page(event("2")),
    )
    with minimcp.connect(host, timeout=WAIT) as client:
        batch = client.poll_events("t")
        assert (batch.cursor, batch.more, batch.truncated) == (None, False, False)
        batch = client.poll_events("t", cursor=batch.cursor)
        assert (batch.cursor, batch.truncated) == (None, True)
        client.poll_events("t", cursor=batch.cursor)
        polls = [each["params"] for each in host.pipe.messages if each["method"] == "events/poll"]
        assert all(each.get("cursor") is None for each in polls)


@pytest.mark.requirement("EV-12")
def test_malformed_pages() -> None:
    with minimcp.connect(scripted(result(events=3), page()), timeout=WAIT) as client:
        with pytest.raises(ProtocolViolation, match="list of events"):
            client.poll_events("t")
    bad = (
        {"eventId": "x"},
        3,
        event("y", timestamp="yesterday"),
        event("z", data=[1]),
        event("w", timestamp="0001-01-01T00:00:00+14:00"),
        event("1", timestamp="2026-11-28T12:00:00.123456789+02:00", cursor=7, _meta=[]),
    )
    with minimcp.connect(scripted(page(*bad, nextPollMs="soon")), timeout=WAIT) as client:  # type: ignore[arg-type]
        batch = client.poll_events("t")
        assert (ids(batch), batch.next_poll) == (["1"], 5.0)
    with minimcp.connect(scripted(page(*bad, nextPollMs=10**400)), timeout=WAIT) as client:  # type: ignore[arg-type]
        batch = client.poll_events("t")
        assert (ids(batch), batch.next_poll) == (["1"], 86400.0)
        assert batch.events[0].timestamp.utcoffset() == timedelta(hours=2)
        for arguments in ((3,), ("t", [1])):
            with pytest.raises(TypeError):
                client.poll_events(*arguments)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="cursor"):
            client.poll_events("t", cursor=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [-32011, -32023])
def test_both_readings_are_one_exception(code: int) -> None:
    host = scripted(error(code, "gone", {"kind": "event"}))
    with minimcp.connect(host, timeout=WAIT) as client:
        with pytest.raises(EventError) as caught:
            client.poll_events("t")
        found = caught.value
        assert (found.kind, found.code, found.data) == ("NotFound", code, {"kind": "event"})
        assert found.from_peer


@pytest.mark.requirement("EV-36")
def test_a_subscription_by_polls_waits() -> None:
    host = scripted(
        page(event("1"), event("2"), nextPollMs=1, cursor="a"),
        page(event("2"), event("3"), nextPollMs=1, cursor="b"),
        error(-32011, "gone"),
    )
    with minimcp.connect(host, timeout=WAIT) as client:
        begun = time.monotonic()
        with client.events("t", cursor="0", mode="poll") as stream:
            assert [stream.next(WAIT).id for _ in range(3)] == ["1", "2", "3"]
            # The floor applies, although the server asks for a millisecond.
            assert time.monotonic() - begun >= 0.9
            with pytest.raises(RequestTimeout):
                stream.next(0.05)
            assert stream.cursor == "b"
