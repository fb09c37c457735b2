"""Webhooks of our server: subscriptions, signatures, retries, consent, and which addresses are
reached."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

import pytest
from standardwebhooks import Webhook as Standard

import minimcp
from minimcp import HttpServer, RpcError, Store, Webhooks
from minimcp.engine.rates import Rate
from minimcp.extensions import webhooks
from minimcp.extensions.webhooks import sign

from ..support import WAIT, eventually, refused_port
from .conftest import Service
from .receiver import SECRET, Received, Receiver, echo
from .tickets import NAME, Ticket, mailbox

Serve = Callable[..., Service]

OTHER = "whsec_" + base64.b64encode(bytes(range(24))).decode()


def rejected(call: Callable[..., Any], *arguments: Any, **options: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        call(*arguments, **options)
    return caught.value


# ---------------------------------------------------------------- signatures


@pytest.mark.requirement("EV-96")
def test_the_signature_is_that_of_standard_webhooks() -> None:
    body = (
        b'{"eventId":"evt_1","name":"build.done","timestamp":"2026-11-28T12:00:00Z",'
        b'"data":{"n":1},"cursor":"7"}'
    )
    made = sign(SECRET, "evt_1", "1796040000", body)
    assert made == "v1,mw10O/46GWG8O2D+u7Na42suLfAzoWE/2Z00eI1AXbI="
    moment = time.time()
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(moment)),
        "webhook-signature": sign(SECRET, "evt_1", str(int(moment)), body),
    }
    assert Standard(SECRET).verify(body, headers) == json.loads(body)
    from datetime import datetime, timezone

    theirs = Standard(SECRET).sign(
        "evt_1", datetime.fromtimestamp(int(moment), timezone.utc), body.decode()
    )
    assert theirs == headers["webhook-signature"]


# ---------------------------------------------------------------- deliveries


@pytest.mark.requirement(
    "EV-72", "EV-79", "EV-82", "EV-94", "EV-95", "EV-96", "EV-111", "EV-118", "EV-22"
)
def test_an_event_is_delivered(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    found = service.subscribe(receiver.url, arguments={"priority": "high"})
    assert re.fullmatch("sub_[0-9a-f]{32}", found["id"])
    assert found["truncated"] is False
    service.emit("e1", priority="high")
    service.emit("low")
    service.deliver()
    challenge, event = receiver.received
    for each in (challenge, event):
        assert each.method == "POST"
        assert each.headers["content-type"] == "application/json"
        assert each.headers["x-mcp-subscription-id"] == found["id"]
        assert Standard(SECRET).verify(each.raw, each.headers) == each.body
    assert re.fullmatch("msg_verification_[0-9a-f]+", challenge.headers["webhook-id"])
    assert event.headers["webhook-id"] == "e1"
    assert event.body["data"] == {"id": "e1", "priority": "high"}
    assert "type" not in event.body
    refreshed = service.subscribe(receiver.url, arguments={"priority": "high"})
    assert number(refreshed["cursor"]) > number(found["cursor"])
    assert refreshed["deliveryStatus"]["lastDeliveryAt"]
    assert refreshed["deliveryStatus"]["lastError"] is None


def test_the_id_of_the_message_may_differ(serve: Serve, receiver: Receiver) -> None:
    service = serve(webhooks={"webhook_id": "message"})
    service.subscribe(receiver.url)
    service.emit("e1")
    service.deliver()
    [event] = receiver.named("e1")
    assert re.fullmatch("msg_[0-9a-f]+", event.headers["webhook-id"])


@pytest.mark.parametrize(
    "id",
    ["a\r\nX-Evil: 1", "\u20ac", "\u00e9", "a b", "", " ", "\ud800", "\x00", "x" * 20_000, "."],
)
def test_any_id_of_an_event_can_be_sent(serve: Serve, receiver: Receiver, id: str) -> None:
    """An id may come from the author of a mail, who must not be able to prevent its delivery."""
    service = serve()
    service.subscribe(receiver.url)
    service.events.emit(NAME, Ticket("1"), id=id or None)
    service.deliver()
    event = receiver.received[1]
    assert event.body["data"]["id"] == "1"
    assert event.body["eventId"] == id.replace("\ud800", "\ufffd") or not id
    assert re.fullmatch(r"[!-~]{1,200}", event.headers["webhook-id"])
    assert "x-evil" not in event.headers
    assert Standard(SECRET).verify(event.raw, event.headers) == event.body


@pytest.mark.requirement("EV-97", "EV-101", "EV-102", "EV-104")
def test_a_failed_delivery_is_tried_again(
    serve: Serve, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(webhooks={"retries": (5, 30)})
    service.subscribe(receiver.url)
    cursors = [service.subscribe(receiver.url)["cursor"]]
    receiver.answer = lambda each: (503, b"no") if each.kind == "e2" else echo(each)
    service.emit("e1")
    before = service.ada.poll_events(NAME).cursor
    service.emit("e2", "e3")
    service.deliver()
    assert sorted(receiver.kinds()[1:]) == ["e1", "e2", "e3"]
    [first] = receiver.named("e2")
    assert "cursor" in first.body
    # What is behind the failed event is not covered by any cursor.
    [third] = receiver.named("e3")
    status = service.subscribe(receiver.url)
    assert number(third.body["cursor"]) <= number(status["cursor"]) <= number(str(before))
    assert status["deliveryStatus"]["lastError"] in (None, "http_5xx")
    service.deliver(1)
    assert len(receiver.named("e2")) == 1
    monkeypatch.setattr(webhooks.time, "time", lambda real=time.time: real() + 60)
    service.deliver(7)
    _, second = receiver.named("e2")
    assert second.raw == first.raw
    assert second.headers["webhook-id"] == first.headers["webhook-id"]
    assert second.headers["webhook-timestamp"] != first.headers["webhook-timestamp"]
    assert second.headers["webhook-signature"] != first.headers["webhook-signature"]
    monkeypatch.undo()
    monkeypatch.setenv("SSL_CERT_FILE", webhooks_pem())
    service.deliver(40)
    service.deliver(1000)
    assert len(receiver.named("e2")) == 3  # it was given up
    service.emit("e4")
    service.deliver()
    [fourth] = receiver.named("e4")
    after = service.subscribe(receiver.url)
    assert after["cursor"] == fourth.body["cursor"] != cursors[0]


def number(cursor: str) -> int:
    """The number in a cursor of a log."""
    return int(cursor.rpartition(".")[2])


def webhooks_pem() -> str:
    from .receiver import PEM

    return PEM


@pytest.mark.requirement("EV-100")
@pytest.mark.parametrize(("status", "attempts"), [(410, 1), (413, 1), (404, 3), (302, 3), (500, 3)])
def test_final_and_other_statuses(
    serve: Serve, receiver: Receiver, status: int, attempts: int
) -> None:
    service = serve(webhooks={"retries": (1, 1)})
    service.subscribe(receiver.url)
    receiver.answer = lambda each: (status, b"") if each.kind == "e1" else echo(each)
    receiver.headers = [("Location", receiver.url + "/elsewhere")]
    service.emit("e1")
    for _ in range(5):
        service.deliver(2)
    assert len(receiver.named("e1")) == attempts
    assert {each.path for each in receiver.received} == {"/hook"}  # EV-109
    service.emit("e2")
    service.deliver()
    assert len(receiver.named("e2")) == 1  # the subscription stays


@pytest.mark.requirement("EV-99")
def test_no_body_is_longer_than_the_limit(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    service.subscribe(receiver.url)
    with pytest.raises(ValueError, match="bytes"):
        service.emit("x" * 262144)
    service.emit("y" * 130_000)
    service.deliver()
    assert len(receiver.received[-1].raw) <= 262144


@pytest.mark.requirement("EV-105")
def test_a_receiver_that_drips_is_cut_off(serve: Serve, receiver: Receiver) -> None:
    service = serve(webhooks={"timeout": 0.5, "retries": (1,)})
    service.subscribe(receiver.url)
    release = threading.Event()

    answered: List[bool] = []

    def hang(each: Received) -> Tuple[int, bytes]:
        answered.append(release.wait(WAIT))
        return 200, b""

    receiver.answer = hang
    service.emit("e1")
    service.deliver()
    assert answered == [], "the delivery ended before its response"
    release.set()
    receiver.answer = echo
    assert service.subscribe(receiver.url)["deliveryStatus"]["lastError"] == "timeout"


@pytest.mark.requirement("EV-105")
def test_requests_in_flight_are_capped_for_each_host(serve: Serve, receiver: Receiver) -> None:
    service = serve(webhooks={"in_flight": 2}, delivers=True)
    service.events.clock = time.time
    service.subscribe(receiver.url)
    most = [0, 0]
    lock = threading.Lock()

    def slow(each: Received) -> Tuple[int, bytes]:
        with lock:
            most[0] += 1
            most[1] = max(most)
        time.sleep(0.05)
        with lock:
            most[0] -= 1
        return 200, b""

    receiver.answer = slow
    service.emit(*[f"e{each}" for each in range(12)])
    assert eventually(lambda: len(receiver.received) >= 13)
    assert most[1] <= 2
    service.unsubscribe(receiver.url)
    service.events.close()


@pytest.mark.requirement("EV-119", "EV-47")
def test_a_gap_is_an_envelope(serve: Serve, receiver: Receiver) -> None:
    service = serve(keep=2)
    service.subscribe(receiver.url)
    service.deliver()
    service.emit("e1", "e2", "e3", "e4")
    service.deliver()
    kinds = receiver.kinds()[1:]
    assert sorted(kinds) == ["e3", "e4", "gap"]
    [gap] = receiver.named("gap")
    assert isinstance(gap.body["cursor"], str)
    assert gap.headers["webhook-id"].startswith("msg_gap_")
    assert Standard(SECRET).verify(gap.raw, gap.headers)


@pytest.mark.requirement("EV-17", "EV-18", "EV-119", "EV-118")
def test_the_end_of_a_subscription_is_an_envelope(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    found = service.subscribe(receiver.url)
    service.subscribe(receiver.url, arguments={"priority": "high"})
    service.deliver()
    service.events.terminate(found["id"])
    service.deliver()
    [ended] = receiver.named("terminated")
    assert ended.body["error"]["code"] == -32012
    assert ended.headers["x-mcp-subscription-id"] == found["id"]
    assert Standard(SECRET).verify(ended.raw, ended.headers)
    service.emit("e1", priority="high")
    service.deliver()
    assert len(receiver.named("e1")) == 1
    service.events.remove(NAME)
    service.deliver()
    _, removed = receiver.named("terminated")
    assert removed.body["error"]["data"] == {"kind": "event"}
    assert rejected(service.unsubscribe, receiver.url).code == -32011


def test_a_termination_between_two_steps_of_the_delivery(serve: Serve, receiver: Receiver) -> None:
    """It comes after the subscription was read and before its watermark is stored."""

    def wants(ticket: Ticket) -> bool:
        if ticket.id == "e2":
            service.events.terminate(found["id"])
        return True

    def answer(each: Received) -> Tuple[int, bytes]:
        if each.kind == "e1":
            service.emit("e2")  # read after e1 is acknowledged, in the pass that stores that
        return echo(each)

    service = serve(wants=wants)
    receiver.answer = answer
    found = service.subscribe(receiver.url)
    service.emit("e1")
    service.deliver()
    service.deliver()
    assert receiver.kinds().count("terminated") == 1
    assert rejected(service.unsubscribe, receiver.url).code == -32011


@pytest.mark.requirement("EV-121")
def test_permission_is_checked_before_deliveries(serve: Serve, receiver: Receiver) -> None:
    seen: List[Any] = []
    allowed = [True]

    def allow(ctx: Any, name: str, arguments: Any) -> None:
        seen.append(ctx.auth.subject)
        if not allowed[0]:
            raise minimcp.Refused("no longer")

    service = serve(allow=allow, recheck=60)
    service.subscribe(receiver.url)
    service.emit("e1")
    service.deliver()
    allowed[0] = False
    service.emit("e2")
    service.deliver()
    service.emit("e3")
    service.deliver(61)
    service.deliver()
    assert receiver.kinds()[1:] == ["e1", "e2", "terminated"]
    assert receiver.received[-1].body["error"]["message"] == "no longer"
    assert set(seen) == {"ada"}


# ---------------------------------------------------------------- subscriptions


@pytest.mark.requirement("EV-72", "EV-73", "EV-74", "EV-75", "EV-120")
def test_invalid_subscriptions(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    service.events.type("polled", delivery=["poll"])(wants)

    def secret(size: int) -> str:
        return "whsec_" + base64.b64encode(bytes(size)).decode()

    url = receiver.url
    urlsafe = "whsec_" + base64.urlsafe_b64encode(b"\xff" * 32).decode()
    for params, code in (
        ({"delivery": {"mode": "push"}}, -32014),
        ({"delivery": {"mode": None}}, -32014),
        ({"delivery": {"secret": None}}, -32602),
        ({"delivery": {"secret": secret(8)}}, -32602),
        ({"delivery": {"secret": secret(23)}}, -32602),
        ({"delivery": {"secret": secret(65)}}, -32602),
        ({"delivery": {"secret": urlsafe}}, -32602),
        ({"delivery": {"secret": SECRET + " "}}, -32602),
        ({"delivery": {"secret": SECRET[6:]}}, -32602),
        ({"delivery": {"url": url.replace("https", "http")}}, -32602),
        ({"delivery": {"url": "https://user:pw@localhost/"}}, -32602),
        ({"delivery": {"url": url + "#x"}}, -32602),
        ({"delivery": {"url": url + "/" + "x" * 2048}}, -32602),
        ({"delivery": {"url": "https://0x7f.1/"}}, -32602),
        ({"delivery": {"url": "file:///etc/passwd"}}, -32602),
        ({"delivery": {"url": 3}}, -32602),
        ({"name": "no.such"}, -32011),
        ({"name": "polled"}, -32014),
        ({"arguments": {"priority": 1}}, -32602),
        ({"cursor": 1}, -32602),
    ):
        assert rejected(service.subscribe, url, **params).code == code, params
    assert receiver.received == []
    for size in (24, 64):
        service.subscribe(url, delivery={"secret": secret(size)})


def wants(ticket: Ticket) -> bool:
    return True


@pytest.mark.requirement("EV-76")
def test_webhooks_need_a_principal(receiver: Receiver) -> None:
    auth = minimcp.Bearer.static("shared")  # no subject, no client
    from .tickets import tickets

    events = tickets(webhooks=Webhooks(private_addresses=True), auth=auth)
    with events.server.start_http(port=0) as running:
        with minimcp.connect(HttpServer(running.url, auth="shared")) as client:
            for method in ("events/subscribe", "events/unsubscribe"):
                delivery = {"mode": "webhook", "url": receiver.url, "secret": SECRET}
                error = rejected(
                    client.request, method, {"name": NAME, "arguments": {}, "delivery": delivery}
                )
                assert error.code == -32012
    with minimcp.connect(events.server) as client:
        error = rejected(client.request, "events/unsubscribe", {"name": NAME})
        assert error.code == -32012
    assert receiver.received == []


@pytest.mark.requirement("EV-77", "EV-78", "EV-79", "EV-84", "EV-92")
def test_the_key_of_a_subscription(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    service.events.type("other")(wants)

    def both(ticket: Ticket, n: Any = None, m: Any = None) -> bool:
        return True

    service.events.type("two")(both)
    url = receiver.url
    base = service.subscribe(url)["id"]
    assert service.subscribe(url)["id"] == base
    others = [
        service.subscribe(url, service.bob)["id"],
        service.subscribe(url + "/x")["id"],
        service.subscribe(url, name="other")["id"],
        service.subscribe(url, arguments={"priority": None})["id"],
        *[
            service.subscribe(url, name="two", arguments=each)["id"]
            for each in ({"n": 1}, {"n": True}, {"n": "1"}, {"n": 1, "m": 2})
        ],
    ]
    assert len({base, *others}) == 9
    same = service.subscribe(url, name="two", arguments={"m": 2, "n": 1})["id"]
    assert same == others[-1]
    # Another principal cannot end it, and the id is not an input.
    missing = rejected(service.unsubscribe, url + "/x", service.bob)
    assert (missing.code, missing.data) == (-32011, {"kind": "subscription"})
    assert service.unsubscribe(url, delivery={"url": url, "mode": "webhook"})["resultType"]
    assert rejected(service.unsubscribe, url).data == {"kind": "subscription"}
    assert rejected(service.unsubscribe, url, id=base).code == -32011


@pytest.mark.requirement("EV-84", "EV-113")
def test_two_principals_get_their_own_events_and_challenges(
    serve: Serve, receiver: Receiver
) -> None:
    service = serve()
    for client in service.clients:
        service.subscribe(receiver.url, client)
    service.subscribe(receiver.url, arguments={"priority": "high"})
    assert receiver.kinds() == ["verification", "verification"]
    service.events.emit(NAME, Ticket("1"), id="for-bob", to="bob")
    service.deliver()
    [event] = receiver.named("for-bob")
    challenges = [each.headers["x-mcp-subscription-id"] for each in receiver.received[:2]]
    assert event.headers["x-mcp-subscription-id"] == challenges[1] != challenges[0]


@pytest.mark.requirement("EV-80", "EV-98")
def test_after_a_rotation_both_secrets_sign(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    service.subscribe(receiver.url)
    service.subscribe(receiver.url, delivery={"secret": OTHER})
    service.emit("e1")
    service.deliver()
    [event] = receiver.named("e1")
    for secret in (SECRET, OTHER):
        assert Standard(secret).verify(event.raw, event.headers)
    service.subscribe(receiver.url, delivery={"secret": OTHER}, ttlMs=86400_000)
    service.emit("e2")
    service.deliver(4000)
    [event] = receiver.named("e2")
    assert len(event.headers["webhook-signature"].split()) == 1
    assert Standard(OTHER).verify(event.raw, event.headers)


@pytest.mark.requirement("EV-81", "EV-83")
def test_a_cursor_on_a_live_subscription(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    with service.ada as client:
        first = client.poll_events(NAME).cursor
        service.emit("e1", "e2", "e3")
        second = client.poll_events(NAME).cursor
        # A new subscription begins at the cursor.
        service.subscribe(receiver.url, cursor=first)
        service.deliver()
        assert sorted(receiver.kinds()[1:]) == ["e1", "e2", "e3"]
        # On a live one, an older cursor changes nothing.
        found = service.subscribe(receiver.url, cursor=first)
        assert found["deliveryStatus"]["active"] is True
        assert found["truncated"] is False
        service.deliver()
        assert len(receiver.received) == 4
        service.emit("e4", "e5")
        service.deliver()
        assert sorted(receiver.kinds()[4:]) == ["e4", "e5"]
        # After its end it begins at the cursor again.
        service.unsubscribe(receiver.url)
        service.subscribe(receiver.url, cursor=second)
        service.deliver()
        assert sorted(receiver.kinds()[6:]) == ["e4", "e5"]
        foreign = service.subscribe(receiver.url + "/2", cursor="x.1")
        assert foreign["truncated"] is True


@pytest.mark.requirement("EV-85", "EV-86", "EV-87", "EV-88")
def test_leases(serve: Serve, receiver: Receiver, open_store: Callable[[], Store]) -> None:
    from minimcp.extensions.event_types import read_time

    service = serve(webhooks={"endless": True})
    durable = serve(webhooks={"endless": True}, store=open_store())

    def granted(of: Service, **more: Any) -> Optional[float]:
        before = of.subscribe(receiver.url, **more)["refreshBefore"]
        return None if before is None else read_time(before).timestamp() - of.clock.seconds

    for wanted, seconds in (
        (3600_000, 3600.0),
        (1000, 300.0),
        (0, 300.0),
        (-5, 300.0),
        (30 * 86400_000, 86400.0),
        (10**30, 86400.0),
        (10**400, 86400.0),
        ("x", 3600.0),
        (True, 3600.0),
    ):
        assert granted(service, ttlMs=wanted) == seconds, wanted
    assert granted(service) == 3600.0
    assert granted(service, ttlMs=None) == 86400.0  # the store is not durable
    assert granted(durable, ttlMs=None) is None
    assert granted(durable) == 3600.0


def test_a_lease_ends(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    service.subscribe(receiver.url)
    service.emit("e1")
    service.deliver(3599)
    service.emit("e2")
    service.deliver(2)
    assert receiver.kinds()[1:] == ["e1"]
    assert "failedSince" not in service.subscribe(receiver.url)["deliveryStatus"]


@pytest.mark.requirement("EV-88", "EV-114")
def test_subscriptions_survive_a_restart(
    serve: Serve, receiver: Receiver, open_store: Callable[[], Store]
) -> None:
    first = serve(webhooks={"endless": True}, store=open_store())
    first.subscribe(receiver.url, ttlMs=None)
    first.events.close()
    second = serve(webhooks={"endless": True}, store=open_store())
    second.clock.seconds += 30 * 86400
    second.emit("e1")
    second.deliver()
    assert receiver.kinds() == ["verification", "e1"]
    second.subscribe(receiver.url + "/2", ttlMs=None)
    second.subscribe(receiver.url, ttlMs=None)
    assert receiver.kinds().count("verification") == 2


@pytest.mark.requirement("EV-89")
def test_an_endless_subscription_ends_after_a_week_of_failures(
    serve: Serve, receiver: Receiver, open_store: Callable[[], Store]
) -> None:
    service = serve(webhooks={"endless": True, "retries": (1,)}, store=open_store())
    found = service.subscribe(receiver.url, ttlMs=None)
    service.subscribe(receiver.url + "/2")
    receiver.answer = lambda each: (500, b"") if "eventId" in each.body else echo(each)

    def fail(id: str) -> None:
        service.emit(id)
        for _ in range(3):
            service.deliver(2)

    fail("e1")
    service.deliver(6 * 86400)
    fail("e2")
    assert receiver.named("terminated") == []
    service.deliver(2 * 86400)
    fail("e3")
    service.deliver()
    [ended] = receiver.named("terminated")
    assert ended.headers["x-mcp-subscription-id"] == found["id"]
    assert ended.body["error"]["data"] == {"reason": "http_5xx"}
    assert rejected(service.unsubscribe, receiver.url).code == -32011


@pytest.mark.requirement("EV-19")
def test_arguments_that_no_longer_match_end_the_subscription(
    serve: Serve, receiver: Receiver, open_store: Callable[[], Store]
) -> None:
    first = serve(store=open_store())
    first.subscribe(receiver.url, arguments={"priority": "high"})
    first.events.close()

    def narrower(ticket: Ticket, priority: int = 0) -> bool:
        return True

    second = serve(store=open_store(), wants=narrower)
    second.deliver()
    [ended] = receiver.named("terminated")
    error = ended.body["error"]
    assert error["code"] == -32014
    assert error["data"] == {"feature": "inputSchema", "reason": "schema_changed"}


@pytest.mark.requirement("EV-93")
def test_limits_are_checked_before_hooks(serve: Serve, receiver: Receiver) -> None:
    asked: List[str] = []
    service = serve(per_client=2, subscriptions=3, allow=lambda ctx, name, _: asked.append(name))
    for number in range(2):
        service.subscribe(f"{receiver.url}/{number}")
    count = (len(asked), len(receiver.received))
    error = rejected(service.subscribe, f"{receiver.url}/2")
    assert (error.code, error.data) == (-32013, {"limit": "subscriptions", "max": 2})
    assert "no more than 2" in error.message
    assert (len(asked), len(receiver.received)) == count
    service.subscribe(f"{receiver.url}/0")  # renewing is always possible
    service.subscribe(receiver.url, service.bob)
    error = rejected(service.subscribe, f"{receiver.url}/2", service.bob)
    assert error.data == {"limit": "subscriptions", "max": 3}


def test_a_source_is_delivered(serve: Serve, receiver: Receiver) -> None:
    service = serve()
    mails = ["m0"]
    mailbox(service.events, mails, every=0.001)
    service.subscribe(receiver.url, name="mail.received")
    service.deliver(1)
    mails += ["m1", "m2", "m3"]
    time.sleep(0.01)
    service.deliver(1)
    service.deliver(1)
    assert sorted(receiver.kinds()[1:]) == ["m1", "m2", "m3"]
    assert service.subscribe(receiver.url, name="mail.received")["cursor"] == "4"


# ---------------------------------------------------------------- consent


@pytest.mark.requirement("EV-110", "EV-111", "EV-112", "EV-116")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, b"x" * 100000), "challenge_failed"),
        ((200, b'{"challenge": "secret text"}'), "challenge_failed"),
        ((200, b'{"challenge": null}'), "challenge_failed"),
        ((200, b"[]"), "challenge_failed"),
        ((404, b"secret text"), "challenge_failed"),
        ((500, b"secret text"), "challenge_failed"),
        ((302, b"secret text"), "challenge_failed"),
    ],
)
def test_a_receiver_that_does_not_consent(
    serve: Serve, receiver: Receiver, answer: Any, reason: str
) -> None:
    service = serve()
    receiver.answer = lambda each: answer
    receiver.headers = [("Location", receiver.url + "/elsewhere"), ("X", "secret text")]
    error = rejected(service.subscribe, receiver.url)
    assert (error.code, error.data) == (-32015, {"reason": reason})
    assert "secret text" not in error.message
    service.emit("e1")
    service.deliver()
    assert receiver.kinds() == ["verification"]
    assert {each.path for each in receiver.received} == {"/hook"}


@pytest.mark.requirement("EV-112")
def test_a_receiver_that_is_not_there(
    serve: Serve, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(webhooks={"timeout": 0.5})
    with refused_port() as port:
        error = rejected(service.subscribe, f"https://localhost:{port}/")
        assert error.data == {"reason": "connection_refused"}
    assert "another thread" in error.message
    with socket.create_server(("127.0.0.1", 0)) as silent:
        error = rejected(service.subscribe, f"https://localhost:{silent.getsockname()[1]}/")
        assert error.data == {"reason": "timeout"}
    monkeypatch.delenv("SSL_CERT_FILE")
    error = rejected(service.subscribe, receiver.url)
    assert error.data == {"reason": "tls_error"}


@pytest.mark.requirement("EV-110")
def test_an_allowed_origin_needs_no_challenge(serve: Serve, receiver: Receiver) -> None:
    origin = receiver.url.rpartition("/")[0]
    service = serve(webhooks={"allow_origins": [origin, "https://conformance.invalid"]})
    service.subscribe(receiver.url)
    service.subscribe("https://conformance.invalid/hook")
    assert receiver.received == []
    service.emit("e1")
    service.deliver()
    assert receiver.kinds() == ["e1"]


@pytest.mark.requirement("EV-115")
def test_challenges_are_limited_for_each_host(serve: Serve, receiver: Receiver) -> None:
    service = serve(webhooks={"in_flight": 1})
    entered, release = threading.Event(), threading.Event()

    def slow(each: Received) -> Tuple[int, bytes]:
        entered.set()
        release.wait(WAIT)
        return echo(each)

    receiver.answer = slow
    waiting = threading.Thread(target=service.subscribe, args=(receiver.url,))
    waiting.start()
    assert entered.wait(WAIT)
    error = rejected(service.subscribe, receiver.url + "/2", service.bob)
    assert (error.code, error.data) == (-32013, {"limit": "challenges"})
    release.set()
    waiting.join()


@pytest.mark.requirement("EV-115")
@pytest.mark.parametrize("kind", ["host", "client"])
def test_challenges_have_a_rate(serve: Serve, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    sent: List[str] = []

    def post(options: Any, url: str, *_: Any) -> Any:
        sent.append(url)
        return webhooks.Posted(404, "http_4xx")

    monkeypatch.setattr("minimcp.extensions.webhook_delivery.post", post)
    monkeypatch.setattr("minimcp.extensions.webhook_delivery.CHALLENGE_RATE", Rate(0.001, 5))
    service = serve()
    for number in range(8):
        # The clients take turns at one host, or one client uses many hosts.
        client = service.clients[number % 2] if kind == "host" else service.ada
        host = "hooks" if kind == "host" else f"host{number}"
        error = rejected(service.subscribe, f"https://{host}.example.com/{number}", client)
    assert (error.code, error.data) == (-32013, {"limit": "challenges"})
    assert len(sent) == 5


# ---------------------------------------------------------------- one client beside others


def test_events_of_a_failing_receiver_leave_room_in_the_queue(
    serve: Serve, receiver: Receiver
) -> None:
    service = serve(queue_bytes=4000)
    for number in range(5):
        service.subscribe(f"{receiver.url}/{number}", service.bob)
    service.subscribe(receiver.url)
    receiver.answer = lambda each: (204 if each.path == "/hook" else 503, b"")
    service.emit(*[f"e{number}" for number in range(20)])
    for _ in range(20):
        service.deliver(0.001)
    received = [each.kind for each in receiver.received if each.path == "/hook"]
    assert received[0] == "verification"
    assert sorted(received[1:]) == sorted(f"e{number}" for number in range(20))


def test_slow_receivers_of_a_client_leave_threads_for_others(
    serve: Serve, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(delivers=True)
    service.events.clock = time.time
    release = threading.Event()
    slow: List[str] = []
    delivered: List[str] = []

    def post(options: Any, url: str, id: str, name: str, body: bytes, secrets: Any) -> Any:
        if "verification" in name:
            return webhooks.Posted(200, None, body)
        if "slow" not in url:
            delivered.append(name)
            return webhooks.Posted(204, None)
        slow.append(url)
        release.wait(WAIT)
        return webhooks.Posted(0, "timeout")

    monkeypatch.setattr("minimcp.extensions.webhook_delivery.post", post)
    try:
        # The host of each receiver is another one, so their own limit does not apply.
        for number in range(40):
            service.subscribe(f"https://host{number}.example/slow", service.bob)
        service.subscribe(receiver.url)
        service.emit("e1")
        assert eventually(lambda: delivered == ["e1"])
        assert 0 < len(slow) <= 8
    finally:
        release.set()
        service.events.close()


# ---------------------------------------------------------------- addresses


PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "192.168.1.1",
    "224.0.0.1",
    "0.0.0.0",
    "100.64.0.1",
    "::1",
    "fe80::1",
    "fd00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "192.88.99.1",
]


class Resolver:
    """Replaces `socket.getaddrinfo` for one name; each look-up gives the next answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: List[str]) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.connected: List[Any] = []
        real = socket.getaddrinfo

        def getaddrinfo(host: Any, port: Any, *more: Any, **options: Any) -> Any:
            if host != "hooks.example.com":
                return real(host, port, *more, **options)
            self.asked += 1
            found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            return [
                (
                    socket.AF_INET6 if ":" in each else socket.AF_INET,
                    socket.SOCK_STREAM,
                    0,
                    "",
                    (each, port, 0, 0) if ":" in each else (each, port),
                )
                for each in found
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        resolver = self

        class Refusing(socket.socket):
            def connect(self, address: Any) -> None:
                if address[0] != "127.0.0.1" or resolver.is_guarded:
                    resolver.connected.append(address[0])
                    raise ConnectionRefusedError("a test does not connect")
                super().connect(address)

        self.is_guarded = False
        monkeypatch.setattr(webhooks.socket, "socket", Refusing)


URL = "https://hooks.example.com/hook"


@pytest.mark.requirement("EV-106", "EV-107", "EV-115")
@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_never_connected_to(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    service = serve(webhooks={"private_addresses": False})
    literal = f"https://[{address}]/" if ":" in address else f"https://{address}/"
    assert rejected(service.subscribe, literal).code == -32602
    resolver = Resolver(monkeypatch, [address], ["93.184.216.34", address])
    resolver.is_guarded = True
    for _ in range(2):
        error = rejected(service.subscribe, URL)
        assert (error.code, error.data) == (-32602, None)
        assert "not public" in error.message
    assert resolver.asked == 2
    assert [each for each in resolver.connected if each != "127.0.0.1"] == []


@pytest.mark.requirement("EV-108", "EV-109")
def test_an_answer_of_the_resolver_that_changes(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = ["https://hooks.example.com"]
    service = serve(webhooks={"private_addresses": False, "allow_origins": origins})
    service.subscribe(URL)
    resolver = Resolver(monkeypatch, ["93.184.216.34"], ["127.0.0.1"])
    service.emit("e1")
    service.deliver()
    # It was resolved once, and the address that was checked is the one that was used.
    assert (resolver.asked, resolver.connected) == (1, ["93.184.216.34"])
    resolver.is_guarded = True
    service.deliver(10)
    assert resolver.asked == 2
    assert resolver.connected == ["93.184.216.34"]
    resolver.is_guarded = False
    status = service.subscribe(URL)["deliveryStatus"]
    assert status["lastError"] == "connection_refused"


def test_the_name_stays_in_the_request(
    serve: Serve, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve()
    service.subscribe(receiver.url)
    [challenge] = receiver.received
    assert challenge.headers["host"] == receiver.url.split("/")[2]
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # it is not used
    service.emit("e1")
    service.deliver()
    assert receiver.kinds()[1:] == ["e1"]


# ---------------------------------------------------------------- secrets, bounds


def test_secrets_are_not_logged(
    serve: Serve, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    service = serve(webhooks={"retries": (1,)})
    url = receiver.url + "?token=hush-hush"
    service.subscribe(url)
    receiver.answer = lambda each: (500, b"")
    service.emit("e1")
    for _ in range(3):
        service.deliver(5)
    assert SECRET not in caplog.text
    assert "hush-hush" not in caplog.text
    assert "given up" in caplog.text


def test_mistakes_in_the_options() -> None:
    for options, error in (
        ({"default_ttl": 10}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"retries": ("x",)}, TypeError),
        ({"in_flight": 0}, ValueError),
        ({"webhook_id": "x"}, ValueError),
        ({"allow_origins": ["http://x"]}, ValueError),
    ):
        with pytest.raises(error):
            Webhooks(**options)  # type: ignore[arg-type]


def test_a_flood_of_subscriptions(receiver: Receiver) -> None:
    """The bound is that of `Events`, whoever asks, and attempts above it cost no memory.

    With 100,000 attempts the result is the same; they take more than a minute.
    """
    import tracemalloc

    from minimcp.auth.bearer import AccessToken
    from minimcp.errors import RpcError

    from .tickets import tickets

    origin = "https://hooks.example.com"
    options = Webhooks(allow_origins=[origin])
    events = tickets(webhooks=options, auth=minimcp.Bearer.static("x"), subscriptions=1000)
    events.close()

    class Incoming:
        """A request of one principal, as the transport would pass it."""

        def __init__(self, number: int) -> None:
            claims = {"sub": f"user{number}"}
            self.principal = AccessToken.of(claims).principal
            self.headers = type("Headers", (), {"auth": AccessToken.of(claims)})()
            delivery = {"mode": "webhook", "url": f"{origin}/{number}", "secret": SECRET}
            params = {"name": NAME, "arguments": {}, "delivery": delivery}
            self.request = type("Request", (), {"params": params})()

    for number in range(1000):
        events.deliverer.subscribe(Incoming(number))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1000, 3000):
        with pytest.raises(RpcError, match="no more than 1000 subscriptions") as caught:
            events.deliverer.subscribe(Incoming(number))
        assert caught.value.data == {"limit": "subscriptions", "max": 1000}
        del caught
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 1_000_000
