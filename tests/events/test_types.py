"""The declaration and the list of a server, and the types and events of an author."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any, Dict, List, Optional

import pytest

import minimcp
from minimcp import (
    Bearer,
    CapabilityNotSupported,
    EventError,
    Events,
    EventType,
    MethodNotFound,
    Occurrence,
    RpcError,
    Server,
    Webhooks,
)
from minimcp.extensions.cards import ServerCard

from ..answering import R4, R5, Answering, discovered, result
from ..support import WAIT, eventually
from .tickets import NAME, Listening, Ticket, mailbox, tickets

ID = "io.modelcontextprotocol/events"


def connect(events: Events, **options: Any) -> minimcp.Client:
    return minimcp.connect(events.server, timeout=WAIT, **options)


@pytest.mark.requirement("EV-1", "EV-2", "EV-3", "EV-4", "EV-8", "EV-9", "EV-10", "EV-11")
def test_a_server_declares_events_and_lists_types() -> None:
    events = tickets()

    @events.type("build.done", description="A build.", delivery=["push"], meta={"x/y": 1})
    def builds(build: Dict[str, Any]) -> bool:
        return True

    with connect(events) as client:
        assert client.capabilities["extensions"] == {ID: {"listChanged": True}}
        assert client.capabilities["events"] == {"listChanged": True}
        build, ticket = client.list_events()
        assert (build.name, build.description, build.delivery) == (
            "build.done",
            "A build.",
            ("push",),
        )
        assert build.meta == {"x/y": 1}
        assert ticket.description == "A ticket was changed."
        assert ticket.delivery == ("poll", "push")
        assert ticket.input_schema["type"] == "object"
        assert list(ticket.input_schema["properties"]) == ["priority"]
        assert ticket.payload_schema is not None
        assert ticket.payload_schema["required"] == ["id"]


def test_the_capability_at_the_top_level_is_optional() -> None:
    with connect(tickets(top_level=False)) as client:
        assert "events" not in client.capabilities
        assert len(client.list_events()) == 1


@pytest.mark.requirement("EV-8")
def test_the_list_has_pages() -> None:
    events = Events()
    server = Server("s", extensions=[events], page_size=2)
    for number in range(5):
        events.type(f"t{number}")(lambda_of())
    with minimcp.connect(server, timeout=WAIT) as client:
        page = client.request("events/list")
        assert len(page["events"]) == 2
        assert "nextCursor" in page
        assert [each.name for each in client.list_events()] == [f"t{each}" for each in range(5)]
        with pytest.raises(RpcError, match="cursor"):
            client.request("events/list", {"cursor": "x"})


def lambda_of() -> Any:
    def each(payload: Ticket) -> bool:
        return True

    return each


@pytest.mark.requirement("EV-6")
def test_without_the_extension_every_method_is_unknown() -> None:
    with minimcp.connect(Server("s"), timeout=WAIT) as client:
        for method in ("list", "poll", "stream", "subscribe", "unsubscribe"):
            with pytest.raises(MethodNotFound):
                client.request(f"events/{method}", {"name": "x"})


@pytest.mark.requirement("EV-7")
def test_a_client_asks_nothing_of_a_server_without_events() -> None:
    host = Answering({"server/discover": discovered()})
    with minimcp.connect(host, timeout=WAIT) as client:
        for call in (
            client.list_events,
            lambda: client.poll_events("x"),
            lambda: client.events("x"),
            lambda: client.events("x", mode="push"),
            lambda: client.on_event("x", print),
        ):
            with pytest.raises(CapabilityNotSupported, match="events"):
                call()
        assert not [each for each in host.pipe.methods() if each.startswith("events/")]


@pytest.mark.parametrize("handshake", [False, True])
def test_revisions_with_a_handshake(handshake: bool) -> None:
    events = tickets(handshake=handshake)
    with connect(events, revision=R4) as client:
        if not handshake:
            assert "events" not in client.capabilities
            with pytest.raises(MethodNotFound):
                client.request("events/poll", {"name": NAME})
            return
        batch = client.poll_events(NAME)
        events.emit(NAME, Ticket("1"), id="a")
        with client.events(NAME, cursor=batch.cursor) as stream:
            assert stream.mode == "poll"
            assert stream.next(WAIT).id == "a"
        with pytest.raises(MethodNotFound):
            client.request("events/stream", {"name": NAME})


@pytest.mark.requirement("EV-12")
def test_a_client_tolerates_incomplete_types() -> None:
    listed = result(
        events=[
            {"name": "a"},
            {"name": "b", "delivery": ["smoke", "poll"], "x": 1, "payloadSchema": 3},
            {"delivery": ["poll"]},
        ]
    )
    found = result(supportedVersions=[R5], capabilities={"extensions": {ID: {}}})
    with minimcp.connect(
        Answering({"server/discover": found, "events/list": listed}), timeout=WAIT
    ) as client:
        first, second = client.list_events()
        assert (first.name, first.delivery, first.payload_schema) == ("a", (), None)
        assert (second.name, second.delivery) == ("b", ("poll",))


# ---------------------------------------------------------------- registering


@pytest.mark.requirement("EV-25")
@pytest.mark.parametrize("payload", [int, str, List[int], Optional[Ticket], Any])
def test_a_payload_must_be_an_object(payload: Any) -> None:
    def wants(each: Any) -> bool:
        return True

    wants.__annotations__["each"] = payload
    events = Events()
    with pytest.raises(TypeError, match="must be an object"):
        events.type("x")(wants)


def test_mistakes_of_an_author() -> None:
    events = tickets()

    def nothing() -> bool:
        return True

    def context(ticket: Ticket, ctx: minimcp.Context) -> bool:
        return True

    def wants(ticket: Ticket) -> bool:
        return True

    with pytest.raises(TypeError, match="first parameter"):
        events.type("x")(nothing)
    with pytest.raises(TypeError, match="Context"):
        events.type("x")(context)
    with pytest.raises(ValueError, match="already exists"):
        events.type(NAME)(wants)
    with pytest.raises(ValueError, match="delivery must contain only"):
        events.type("x", delivery=["smoke"])(wants)
    with pytest.raises(TypeError, match="EventBatch"):
        events.source("x")(wants)
    with pytest.raises(RuntimeError, match="extensions="):
        lonely = Events()
        lonely.type("x")(wants)
        lonely.emit("x", Ticket("1"))
    for name, value in (("keep", 0), ("heartbeat", 31), ("codes", "x"), ("streams", 0)):
        with pytest.raises(ValueError, match=name):
            Events(**{name: value})  # type: ignore[arg-type]
    for name, value in (("keep", "1"), ("allow", 3), ("recheck", None)):
        with pytest.raises(TypeError, match=name):
            Events(**{name: value})  # type: ignore[arg-type]


# ---------------------------------------------------------------- emitting


@pytest.mark.requirement("EV-22", "EV-23", "EV-24", "EV-52")
def test_an_occurrence_has_an_id_a_name_a_time_and_data() -> None:
    events = tickets()
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        moment = datetime(2026, 11, 28, 12, 0, 0, 5000, tzinfo=timezone.utc)
        assert events.emit(NAME, Ticket("1", "high"), id="7:1", timestamp=moment) == "7:1"
        made = events.emit(NAME, {"id": "2"})
        batch = client.poll_events(NAME, cursor=cursor)
        first, second = batch
        assert (first.id, first.name, first.data) == ("7:1", NAME, {"id": "1", "priority": "high"})
        assert first.timestamp == moment
        assert second.id == made
        # The generated id belongs to the event, and not to a delivery.
        again = client.poll_events(NAME, cursor=cursor)
        assert [each.id for each in again] == ["7:1", made]
        [wire, _] = client.request("events/poll", {"name": NAME, "cursor": cursor})["events"]
        assert re.fullmatch(r"2026-11-28T12:00:00\.005Z", wire["timestamp"])
        assert "cursor" not in wire


@pytest.mark.requirement("EV-25")
def test_wrong_data_is_rejected_in_the_thread_of_the_author() -> None:
    events = tickets(payload_bytes=500)
    with connect(events) as client:
        cursor = client.poll_events(NAME).cursor
        naive = datetime(2026, 1, 1)
        for arguments, options, message in (
            (("no.such", Ticket("1")), {}, "no event type"),
            ((NAME, Ticket(1)), {}, "data"),  # type: ignore[arg-type]
            ((NAME, {"id": 1}), {}, "data: id"),
            ((NAME, {}), {}, "data"),
            ((NAME, 3), {}, "data"),
            ((NAME, Ticket("1")), {"timestamp": naive}, "time zone"),
            ((NAME, Ticket("x" * 600)), {}, "bytes, more than 500"),
        ):
            with pytest.raises(ValueError, match=message):
                events.emit(*arguments, **options)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="id of an event"):
            events.emit(NAME, Ticket("1"), id=7)  # type: ignore[arg-type]
        assert len(client.poll_events(NAME, cursor=cursor)) == 0


def test_a_smaller_payload_and_a_filter_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    server = Server("s", extensions=[events])

    @events.type("t")
    def wants(ticket: Ticket) -> Any:
        if ticket.id == "bad":
            raise KeyError("bad")
        return Ticket("hidden", ticket.priority) if ticket.id == "secret" else None

    with minimcp.connect(server, timeout=WAIT) as client:
        cursor = client.poll_events("t").cursor
        listening = Listening(client, "t")
        assert eventually(lambda: listening.methods() == ["active"])
        for id in ("skipped", "bad", "secret"):
            events.emit("t", Ticket(id, "high"))
        [event] = client.poll_events("t", cursor=cursor)
        assert event.data == {"id": "hidden", "priority": "high"}
        assert eventually(lambda: "error" in listening.methods() and len(listening.ids()) == 1)
        assert "the filter of event type 't' failed" in caplog.text
        listening.close()


def test_a_poll_logs_a_filter_that_fails_once(caplog: pytest.LogCaptureFixture) -> None:
    def wants(ticket: Ticket, divisor: int) -> bool:
        return 1 // divisor == 1

    events = tickets(wants=wants)
    with minimcp.connect(events.server, timeout=WAIT) as client:
        cursor = client.poll_events(NAME, {"divisor": 0}).cursor
        for _ in range(50):
            events.emit(NAME, Ticket("1"))
        client.poll_events(NAME, {"divisor": 0}, cursor=cursor)
    assert caplog.text.count("the filter of") == 1


def test_an_event_for_some_subjects() -> None:
    auth = Bearer.static({"a": {"sub": "ada"}, "b": {"sub": "bob"}})
    events = tickets(auth=auth)
    with events.server.start_http(port=0) as running:
        found = {}
        for token in "ab":
            with minimcp.connect(minimcp.HttpServer(running.url, auth=token)) as client:
                cursor = client.poll_events(NAME).cursor
                events.emit(NAME, Ticket("1"), id="all")
                events.emit(NAME, Ticket("2"), id="ada", to="ada")
                events.emit(NAME, Ticket("3"), id="both", to=["ada", "bob"])
                found[token] = [each.id for each in client.poll_events(NAME, cursor=cursor)]
        assert found == {"a": ["all", "ada", "both"], "b": ["all", "both"]}


# ---------------------------------------------------------------- changes of the list


@pytest.mark.requirement("EV-5", "EV-15", "EV-17", "EV-18")
def test_removing_a_type_ends_its_streams_and_notifies_listeners() -> None:
    events = tickets()
    with connect(events) as client:
        plain = client.listen(tools_list_changed=True)
        asking = client.listen(filters={"eventsListChanged": True})
        assert plain.honored is not None and not plain.honored.filters
        assert asking.honored is not None
        assert asking.honored.filters == {"eventsListChanged": True}
        with pytest.raises(RpcError):
            client.listen(filters={"eventsListChanged": ["x"]})
        listening = Listening(client)
        changes = [Listening.to_changes(client, each) for each in (True, False)]
        assert eventually(lambda: listening.methods() == ["active"])
        assert eventually(lambda: all(each.received for each in changes))
        events.remove(NAME)
        assert eventually(lambda: bool(listening.outcome))
        assert eventually(lambda: len(changes[0].received) == 2)
        assert changes[0].methods() == ["acknowledged", "list_changed"]
        assert changes[1].methods() == ["acknowledged"]
        for each in changes:
            each.close()
        error_ = listening.received[-1].params["error"]
        assert error_["code"] == -32011
        assert error_["data"] == {"kind": "event"}
        assert listening.outcome[0]["_meta"]
        with pytest.raises(EventError) as caught:
            client.poll_events(NAME)
        assert (caught.value.kind, caught.value.data) == ("NotFound", {"kind": "event"})
        plain.close()
        asking.close()


@pytest.mark.requirement("EV-20")
def test_another_type_ends_no_subscription() -> None:
    events = tickets()
    with connect(events) as client:
        listening = Listening(client)
        assert eventually(lambda: listening.methods() == ["active"])
        mailbox(events, [])
        events.emit(NAME, Ticket("1"), id="x")
        assert eventually(lambda: listening.ids() == ["x"])
        assert "terminated" not in listening.methods()
        listening.close()


@pytest.mark.parametrize(("codes", "code"), [("sketch", -32011), ("sep", -32023)])
def test_both_readings_of_the_codes(codes: str, code: int) -> None:
    with connect(tickets(codes=codes)) as client:
        with pytest.raises(EventError) as caught:
            client.poll_events("x")
        assert (caught.value.code, caught.value.kind) == (code, "NotFound")


@pytest.mark.requirement("EV-33")
def test_a_mode_that_a_type_lacks() -> None:
    events = Events()
    server = Server("s", extensions=[events])
    events.type("t", delivery=["push"])(lambda_of())
    with minimcp.connect(server, timeout=WAIT) as client:
        with pytest.raises(EventError) as caught:
            client.poll_events("t")
        assert caught.value.kind == "Unsupported"
        assert caught.value.data == {"feature": "deliveryMode", "value": "poll"}


def test_webhooks_need_authentication() -> None:
    events = tickets(webhooks=Webhooks())
    with connect(events) as client:
        [listed] = client.list_events()
        assert "webhook" not in listed.delivery
        with pytest.raises(RpcError) as caught:
            client.request("events/subscribe", {"name": NAME, "delivery": {"mode": "webhook"}})
        assert caught.value.code == -32012


def test_a_repr_shows_no_control_characters_of_a_peer() -> None:
    odd = "\x1b[2J\u202e\n"
    made = Occurrence({}, id=odd)
    made.name = odd
    card = {"name": "a.b/c", "version": odd, "description": "d"}
    for shown in (made, EventType({"name": odd}), ServerCard(card)):
        assert repr(shown).isprintable(), shown
