"""`EventInbox` and `verify_webhook`: what a receiver accepts, stores and acknowledges."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from unittest.mock import Mock

import pytest
from standardwebhooks import Webhook as Standard

import minimcp
from minimcp import (
    AuthorizationError,
    EventInbox,
    HttpRequest,
    HttpResponse,
    MemoryStore,
    Occurrence,
    Store,
    verify_webhook,
)
from minimcp.extensions import event_inbox

from ..answering import Answering, error, result
from ..support import ROOT, WAIT, eventually
from .conftest import Service
from .receiver import SECRET, Receiver
from .test_polls import FOUND, event
from .tickets import NAME

OTHER = "whsec_" + base64.b64encode(bytes(range(24))).decode()


def signed(
    body: Any, *, secret: str = SECRET, id: str = "m1", at: float = 0, **more: str
) -> Tuple[Dict[str, str], bytes]:
    """The headers and the body of a webhook, signed by the reference library."""
    from datetime import datetime, timezone

    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    seconds = int(time.time() + at)
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    headers = {
        "Webhook-Id": id,
        "Webhook-Timestamp": str(seconds),
        "Webhook-Signature": Standard(secret).sign(id, moment, raw.decode()),
        **more,
    }
    return headers, raw


# ---------------------------------------------------------------- verify_webhook


@pytest.mark.requirement("EV-124", "EV-125")
def test_verifying() -> None:
    headers, raw = signed({"a": 1})
    assert verify_webhook(headers, raw, SECRET) == {"a": 1}
    assert verify_webhook(headers, raw, [OTHER, SECRET]) == {"a": 1}
    both = {**headers, "Webhook-Signature": "v1a,xyz v1,AAAA " + headers["Webhook-Signature"]}
    assert verify_webhook(both, raw, SECRET) == {"a": 1}
    for at, is_valid in ((299, True), (-299, True), (302, False), (-302, False)):
        given = signed({"a": 1}, at=at)
        if is_valid:
            verify_webhook(*given, SECRET)
        else:
            with pytest.raises(AuthorizationError, match="300 s off"):
                verify_webhook(*given, SECRET)
    assert verify_webhook(*signed({"a": 1}, at=-400), SECRET, tolerance=500) == {"a": 1}


@pytest.mark.requirement("EV-124")
@pytest.mark.parametrize(
    ("changes", "raw"),
    [
        ({}, b'{"a": 1} '),
        ({}, b'{"a":1}'),
        ({"Webhook-Id": "m2"}, None),
        ({"Webhook-Id": ""}, None),
        ({"Webhook-Timestamp": "x"}, None),
        ({"Webhook-Timestamp": ""}, None),
        ({"Webhook-Timestamp": "1" * 30}, None),
        ({"Webhook-Signature": ""}, None),
        ({"Webhook-Signature": "v1,\u00e9"}, None),
        ({"Webhook-Signature": "v1a,AAAA"}, None),
    ],
)
def test_a_wrong_signature(changes: Dict[str, str], raw: Optional[bytes]) -> None:
    headers, body = signed({"a": 1})
    with pytest.raises(AuthorizationError) as caught:
        verify_webhook({**headers, **changes}, body if raw is None else raw, SECRET)
    assert SECRET not in str(caught.value)
    assert '"a"' not in str(caught.value)


def test_mistakes_of_a_caller() -> None:
    headers, body = signed({"a": 1})
    with pytest.raises(AuthorizationError):
        verify_webhook(headers, body, OTHER)
    with pytest.raises(AuthorizationError):
        verify_webhook(headers, body, [])
    with pytest.raises(ValueError, match="whsec_"):
        verify_webhook(headers, body, "hush")
    with pytest.raises(TypeError, match="bytes"):
        verify_webhook(headers, body.decode(), SECRET)  # type: ignore[arg-type]
    for bad in (b"[1]", b"3", b"{", b'{"a": NaN}'):
        with pytest.raises(AuthorizationError, match="JSON object"):
            verify_webhook(*signed(bad), SECRET)


# ---------------------------------------------------------------- the inbox alone


class Inbox:
    """An inbox with one subscription at a scripted server."""

    def __init__(self, store: Optional[Store] = None, **options: Any) -> None:
        self.got: List[Any] = []
        self.store = MemoryStore() if store is None else store
        self.inbox = EventInbox("https://me.example.com/hooks", store=self.store, **options)
        granted = {"id": "sub_1", "refreshBefore": None, "cursor": "c0", "truncated": False}
        self.host = Answering(
            {"server/discover": FOUND, "events/subscribe": result(**granted),
             "events/unsubscribe": result()}
        )  # fmt: skip
        self.client = minimcp.connect(self.host, timeout=WAIT)
        self.id = self.inbox.subscribe(self.client, "t", {"a": 1})
        self.delivery = self.asked()[-1]["delivery"]
        self.path = self.delivery["url"][len("https://me.example.com") :]

    def asked(self, method: str = "events/subscribe") -> List[Dict[str, Any]]:
        return [each["params"] for each in self.host.pipe.messages if each["method"] == method]

    def post(self, body: Any, **options: Any) -> HttpResponse:
        id = options.pop("id", body["eventId"] if isinstance(body, dict) else "m")
        path = options.pop("path", self.path)
        more = {"X-MCP-Subscription-Id": options.pop("subscription", "sub_1")}
        headers, raw = signed(
            body, id=id, secret=options.pop("secret", self.delivery["secret"]), **more, **options
        )
        return self.inbox.handle_http(HttpRequest("POST", path, headers, raw))


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    made = Inbox()
    yield made
    made.client.close()
    made.inbox.close()


@pytest.mark.requirement("EV-91", "EV-127", "EV-130")
def test_an_event_is_stored_before_it_is_acknowledged(inbox: Inbox) -> None:
    assert inbox.post(event("1", cursor="c1")).status == 200
    assert inbox.post(event("2", cursor="c2"), id="msg_x").status == 200
    assert [each.id for each in inbox.inbox.events()] == ["1", "2"]
    assert [each.id for each in inbox.inbox.events("1")] == ["2"]
    assert inbox.inbox.events("2") == []
    # A refresh sends the newest cursor.
    assert inbox.inbox.subscribe(inbox.client, "t", {"a": 1}) == "sub_1"
    first, second = inbox.asked()
    assert (first["cursor"], second["cursor"]) == (None, "c2")
    assert first["delivery"] == second["delivery"]
    assert first["delivery"]["mode"] == "webhook"


@pytest.mark.requirement("EV-126")
def test_a_duplicate_is_acknowledged_and_dropped(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "minimcp.events")
    for id in ("m1", "m2", "m1"):
        assert inbox.post(event("1", cursor="c1"), id=id).status == 200
    assert len(inbox.inbox.events()) == 1
    assert caplog.text.count("dropped") == 2
    assert '"n"' not in caplog.text


@pytest.mark.requirement("EV-126", "EV-127")
def test_a_duplicate_that_arrives_at_the_same_time(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored once, and acknowledged only when it is stored."""
    entered, release = threading.Event(), threading.Event()
    append = inbox.store.append

    def slow(*rest: Any) -> int:
        entered.set()
        release.wait(WAIT)
        return append(*rest)

    monkeypatch.setattr(inbox.store, "append", slow)
    found: List[int] = []
    first = threading.Thread(target=lambda: found.append(inbox.post(event("1")).status))
    first.start()
    assert entered.wait(WAIT)
    assert inbox.post(event("1")).status == 503
    release.set()
    first.join()
    assert found == [200]
    assert inbox.post(event("1")).status == 200
    assert len(inbox.inbox.events()) == 1


@pytest.mark.requirement("EV-124", "EV-125")
@pytest.mark.parametrize(
    "options", [{"secret": SECRET}, {"at": -400}, {"at": 400}, {"subscription": "sub_2"}]
)
def test_a_webhook_that_is_rejected_is_logged_once(
    inbox: Inbox, options: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "minimcp.events")
    assert inbox.post(event("1", data={"hidden": "body"}), **options).status == 401
    assert caplog.text.count("a webhook was rejected") == 1
    assert len(caplog.records) == 1
    assert "hidden" not in caplog.text
    assert inbox.delivery["secret"] not in caplog.text
    assert inbox.inbox.events() == []


@pytest.mark.requirement("EV-129", "EV-131")
def test_requests_that_are_rejected_early(inbox: Inbox) -> None:
    assert inbox.post(event("1"), path="/hooks/unknown").status == 503
    assert inbox.post(b"x" * 262145).status == 413
    assert inbox.post(b"x" * 262144).status == 401  # it is not JSON
    headers, raw = signed(event("1"))
    for missing in ("Webhook-Id", "X-MCP-Subscription-Id"):
        given = {name: each for name, each in headers.items() if name != missing}
        if missing == "Webhook-Id":
            given["X-MCP-Subscription-Id"] = "sub_1"
        request = HttpRequest("POST", inbox.path, given, raw)
        assert inbox.inbox.handle_http(request).status == 400
    for method in ("GET", "PUT"):
        assert inbox.inbox.handle_http(HttpRequest(method, inbox.path, {})).status == 405
    request = HttpRequest("POST", inbox.path, headers, io.BytesIO(b"x" * 300000))
    assert inbox.inbox.handle_http(request).status == 413
    for length in ("", "-1", "x", "\u00b2", "9" * 5000):
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": inbox.path,
            "CONTENT_LENGTH": length,
            "HTTP_WEBHOOK_ID": "m1",
            "HTTP_X_MCP_SUBSCRIPTION_ID": "sub_1",
            "wsgi.input": io.BytesIO(b"{}"),
        }
        start = Mock()
        inbox.inbox.wsgi(environ, start)
        assert start.call_args.args[0] == "401 Unauthorized"


@pytest.mark.requirement("EV-117")
def test_a_signature_with_a_public_key_is_ignored(inbox: Inbox) -> None:
    headers, raw = signed(event("1"))
    headers["X-MCP-Subscription-Id"] = "sub_1"
    headers["Webhook-Signature"] = "v1a," + base64.b64encode(bytes(64)).decode()
    assert inbox.inbox.handle_http(HttpRequest("POST", inbox.path, headers, raw)).status == 401


@pytest.mark.requirement("EV-127")
def test_a_store_that_fails_is_not_acknowledged(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is full")

    monkeypatch.setattr(inbox.store, "append", fail)
    response = inbox.post(event("1"))
    assert response.status == 503
    assert ("Retry-After", "5") in response.headers
    monkeypatch.undo()
    assert inbox.post(event("1")).status == 200
    assert len(inbox.inbox.events()) == 1


@pytest.mark.requirement("EV-130", "EV-50")
def test_envelopes(inbox: Inbox) -> None:
    assert inbox.post({"type": "gap", "cursor": "g", "eventId": "x"}).status == 200
    inbox.post(event("1", cursor="c1"))
    inbox.post(event("2", cursor="c2"))
    assert [each.missed for each in inbox.inbox.events()] == [True, False]
    assert inbox.post({"type": "strange", "eventId": "y"}).status == 200
    assert len(inbox.inbox.events()) == 2
    assert inbox.post({"name": "t", "eventId": "z"}).status == 401
    # The end of a subscription: a type that is still listed is subscribed to again.
    for code, listed, renewed in ((-32012, True, 0), (-32011, False, 0), (-32014, True, 1)):
        error = {"code": code, "message": "over"}
        inbox.post({"type": "terminated", "error": error, "eventId": "e"}, id=f"msg_{code}")
        inbox.host.pipe.answers["events/list"] = result(events=[{"name": "t"}] if listed else [])
        assert inbox.inbox.refresh(inbox.client) == renewed, code


@pytest.mark.requirement("EV-90", "EV-91")
def test_leases_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox()
    before = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    granted = {"id": "sub_1", "refreshBefore": before, "cursor": None, "truncated": True}
    inbox.host.pipe.answers["events/subscribe"] = result(**granted)
    assert inbox.inbox.refresh(inbox.client) == 0  # not due
    inbox.inbox.subscribe(inbox.client, "t", {"a": 1}, ttl=4, max_age=60)
    assert inbox.asked()[-1]["ttlMs"] == 4000
    assert inbox.asked()[-1]["maxAgeMs"] == 60000
    with inbox.inbox.keep(inbox.client):
        count = len(inbox.asked())
        assert eventually(lambda: len(inbox.asked()) > count + 1)
        assert "maxAgeMs" not in inbox.asked()[-1]
    inbox.inbox.unsubscribe(inbox.client, "t", {"a": 1})
    assert inbox.asked("events/unsubscribe")[-1]["delivery"] == {"url": inbox.delivery["url"]}
    inbox.inbox.unsubscribe(inbox.client, "t", {"a": 1})
    assert inbox.inbox.refresh(inbox.client) == 0
    inbox.post(event("1"))
    assert inbox.inbox.events() == []
    inbox.client.close()


@pytest.mark.parametrize("before", ["soon", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
def test_a_lease_that_cannot_be_read_does_not_end_the_renewal(inbox: Inbox, before: str) -> None:
    granted = {"id": "sub_1", "refreshBefore": before, "cursor": None, "truncated": False}
    inbox.host.pipe.answers["events/subscribe"] = result(**granted)
    assert inbox.inbox.subscribe(inbox.client, "t", {"a": 1}, ttl=1) == "sub_1"
    with inbox.inbox.keep(inbox.client):
        count = len(inbox.asked())
        assert eventually(lambda: len(inbox.asked()) > count + 1)


def test_the_stored_events_are_bounded_in_bytes(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def stored() -> int:
        return sum(len(json.dumps(each.data)) for each in inbox.inbox.events())

    monkeypatch.setattr(event_inbox, "MAX_STORED_BYTES", 100_000)
    for number in range(60):
        assert inbox.post(event(str(number), data={"text": "x" * 10_000})).status == 200
        assert stored() <= 100_000
    kept = [each.id for each in inbox.inbox.events()]
    assert kept[-1] == "59"
    assert 3 <= len(kept) <= 10
    assert "events were dropped" in caplog.text


def test_a_long_id_is_not_kept_as_a_key(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Mock(wraps=inbox.store.put)
    monkeypatch.setattr(inbox.store, "put", put)
    for _ in range(2):
        assert inbox.post(event("x" * 100_000), id="m1").status == 200
    assert len(inbox.inbox.events()) == 1
    assert all(len(each.args[0]) < 1000 for each in put.call_args_list)


def test_unsubscribing_treats_not_found_as_done(inbox: Inbox) -> None:
    inbox.host.pipe.answers["events/unsubscribe"] = [error(-32603), error(-32023)]
    with pytest.raises(minimcp.RpcError):
        inbox.inbox.unsubscribe(inbox.client, "t", {"a": 1})
    inbox.inbox.unsubscribe(inbox.client, "t", {"a": 1})
    assert inbox.post(event("1")).status == 503


@pytest.mark.requirement("EV-110")
def test_the_well_known_path() -> None:
    path = "/.well-known/mcp-webhook-receiver.json"
    served = EventInbox("https://me.example.com/hooks", well_known=True)
    response = served.handle_http(HttpRequest("GET", path, {}))
    assert json.loads(response.body) == {"receivers": ["/hooks/"]}
    root = EventInbox("https://me.example.com", well_known=True)
    assert json.loads(root.handle_http(HttpRequest("GET", path, {})).body) == {"receivers": ["/"]}
    assert EventInbox("https://x").handle_http(HttpRequest("GET", path, {})).status == 405
    for url in ("http://me.example.com", "me", "https://x/#y"):
        with pytest.raises(ValueError, match="URL"):
            EventInbox(url)


def test_a_function_is_called_again_after_a_crash() -> None:
    store = MemoryStore()
    got: List[Any] = []
    crashed = threading.Event()
    forever = threading.Event()

    def crash(each: Occurrence, subscription: str) -> None:
        crashed.set()
        forever.wait(WAIT)

    first = Inbox(store, on_event=crash)
    first.post(event("1"))
    first.post(event("2"))
    assert crashed.wait(WAIT)
    first.inbox.close()
    again = EventInbox(
        "https://me.example.com/hooks",
        store=store,
        on_event=lambda each, subscription: got.append((each.id, subscription)),
    )
    assert eventually(lambda: got == [("1", "sub_1"), ("2", "sub_1")])
    again.close()
    forever.set()
    first.client.close()


def test_one_of_several_processes_calls_the_function(
    open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.extensions.event_inbox.RENEW_SECONDS", 0.05)
    monkeypatch.setattr("minimcp.stores.watcher.RENEW_SECONDS", 0.05)
    monkeypatch.setattr("minimcp.stores.watcher.LEASE_SECONDS", 0.5)
    got: List[Any] = []

    def function(each: Occurrence, subscription: str) -> None:
        got.append(each.id)
        time.sleep(0.7 if each.id == "2" else 0)  # longer than the lease

    first = Inbox(open_store(), on_event=function)
    others = [
        EventInbox("https://me.example.com/hooks", store=open_store(), on_event=function)
        for _ in range(2)
    ]
    for id in "1234":
        first.post(event(id))
    assert eventually(lambda: len(got) == 4)
    time.sleep(0.3)
    assert got == ["1", "2", "3", "4"]
    # Another one takes over at once.
    first.inbox.close()
    first.post(event("5"))
    assert eventually(lambda: got[4:] == ["5"])
    for each in others:
        each.close()
    first.client.close()


def test_a_function_may_close_the_inbox() -> None:
    took: List[float] = []

    def function(each: Occurrence, subscription: str) -> None:
        begun = time.monotonic()
        inbox.inbox.close()
        took.append(time.monotonic() - begun)

    inbox = Inbox(on_event=function)
    inbox.post(event("1"))
    assert eventually(lambda: bool(took))
    assert took[0] < 1
    inbox.client.close()


def test_an_inbox_without_events_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    reads: List[str] = []
    get = store.get

    def counted(key: str, renew: bool = False) -> Any:
        reads.append(key)
        return get(key, renew)

    monkeypatch.setattr(store, "get", counted)
    url = "https://me.example.com/hooks"
    inbox = EventInbox(url, store=store, on_event=lambda each, subscription: None)
    time.sleep(0.5)
    inbox.close()
    assert len(reads) < 20


def test_after_a_fork_the_child_calls_the_function(tmp_path: Path) -> None:
    """A host that forks its workers later, and whose parent has ended."""
    program = """
import os, sys, threading, time
import minimcp.stores.watcher
from minimcp import EventInbox, SqliteStore
minimcp.stores.watcher.LEASE_SECONDS = 1.0
inbox = EventInbox("https://x.example.com", store=SqliteStore("a.db"), on_event=lambda each, id: print(each.id))
if os.fork():
    os._exit(0)
event = {"eventId": "1", "name": "n", "timestamp": "2026-01-01T00:00:00Z", "data": {}}
inbox._add(inbox._key("inbox-subscription", "a"), {}, "s", event)
time.sleep(0.2)
for _ in range(600):
    if inbox._store.get(inbox._done_key): break
    time.sleep(0.05)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        timeout=WAIT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == b"1"


def test_a_function_that_fails_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    got: List[Any] = []

    def function(each: Occurrence, subscription: str) -> None:
        got.append(each.id)
        raise KeyError("x")

    inbox = Inbox(on_event=function)
    for id in "123":
        inbox.post(event(id))
    assert eventually(lambda: got == ["1", "2", "3"])
    assert "on_event failed" in caplog.text
    inbox.inbox.close()
    inbox.client.close()


# ---------------------------------------------------------------- both sides are ours


@pytest.mark.requirement("EV-90", "EV-127", "EV-128", "EV-130")
def test_from_a_server_to_an_inbox(
    serve: Callable[..., Service], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    holder: List[EventInbox] = []
    served = Receiver(lambda environ, start: holder[0].wsgi(environ, start))
    service = serve()
    got: List[Any] = []
    inbox = EventInbox(served.url, on_event=lambda each, id: got.append((each.id, id)))
    holder.append(inbox)
    # Two subscriptions whose ids are not known when their challenges arrive.
    ids = [
        inbox.subscribe(service.ada, NAME, {"priority": each}, ttl=600) for each in ("high", "low")
    ]
    assert len(set(ids)) == 2
    service.emit("e1", priority="high")
    service.emit("e2")
    service.deliver()
    assert eventually(lambda: sorted(got) == sorted(zip(("e1", "e2"), ids)))
    assert [each.data["priority"] for each in inbox.events()] in (["high", "low"], ["low", "high"])
    inbox.unsubscribe(service.ada, NAME, {"priority": "low"})
    service.emit("e3")
    service.emit("e4", priority="high")
    service.deliver()
    assert eventually(lambda: len(got) == 3)
    assert got[-1][0] == "e4"
    assert inbox.subscribe(service.ada, NAME, {"priority": "high"}) == ids[0]
    inbox.close()
    served.close()
