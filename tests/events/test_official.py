"""The scenarios of the official suite about events, which is not released yet, reproduced from the
names of its checks: each test is one check."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Dict, List, Optional, Tuple

import pytest
from standardwebhooks import Webhook as Standard

from minimcp import Events, Server, connect
from minimcp.log import exit_gate

from ..conformance.events_server import ALERT, BUILD, MESSAGE, PREFIX, RUNNER, SECRET, Fixture
from ..support import WAIT, eventually
from .receiver import PEM, Received, Receiver, echo
from .tickets import KEY

LISTED = {
    "discovery": (
        "capability-events-object capability-list-changed-flag capability-empty-settings "
        "fallback-method-not-found list-implemented list-pagination descriptor-name "
        "descriptor-description descriptor-delivery-subset descriptor-input-schema "
        "descriptor-payload-schema descriptor-meta error-not-found error-server-range"
    ),
    "poll": (
        "poll-implemented poll-one-subscription-per-request poll-bootstraps-subscription "
        "poll-events-array poll-response-cursor poll-next-poll-ms "
        "poll-next-poll-ms-ignored-when-has-more poll-has-more poll-max-events-cap "
        "poll-stateless-request poll-errors-are-jsonrpc poll-invalid-arguments "
        "poll-mode-unsupported removal-poll-not-found error-invalid-params error-unsupported "
        "occurrence-event-id occurrence-name occurrence-timestamp occurrence-data "
        "occurrence-cursor-optional occurrence-meta-ungoverned occurrence-event-id-from-upstream "
        "cursor-opaque cursor-null-starts-from-now cursor-absent-equals-null cursor-consistency "
        "cursor-advances-when-quiet max-age-ms-floor max-age-ms-sets-truncated "
        "max-age-ms-ignored-when-cursor-null replay-ceiling-sets-truncated "
        "truncated-returns-fresh-cursor truncated-poll-never-an-error"
    ),
    "push": (
        "stream-implemented stream-error-before-open stream-active-confirmation "
        "stream-subscription-id-meta stream-event-notification stream-error-is-recoverable "
        "stream-terminated-ends-subscription stream-gap-resends-active stream-heartbeat-required "
        "stream-heartbeat-carries-cursor stream-heartbeat-interval "
        "stream-heartbeat-not-sse-comment stream-final-result-shape stream-final-result-timing "
        "stream-cancel-stops-delivery stream-exempt-from-concurrency-cap "
        "stream-carries-only-event-notifications error-resource-exhausted"
    ),
    "webhook": (
        "subscribe-webhook-only subscribe-secret-required subscribe-secret-format "
        "subscribe-secret-rejected subscribe-url-https-required subscribe-url-non-https-rejected "
        "subscribe-auth-required subscribe-key-composition subscribe-key-immutable "
        "subscribe-idempotent-upsert subscribe-id-derived subscribe-id-not-an-input "
        "subscribe-refresh-replaces-secret subscribe-refresh-reactivates "
        "subscribe-response-cursor subscribe-response-truncated "
        "subscribe-cross-tenant-isolation ttl-refresh-before-lte-suggestion "
        "ttl-no-rejection-path ttl-null-only-when-requested ttl-omitted-means-default "
        "ttl-long-grant-retained ttl-no-expiry-persisted unsubscribe-by-key "
        "unsubscribe-unknown-not-found"
    ),
    "delivery": (
        "delivery-post-json delivery-standard-webhooks-headers delivery-subscription-id-header "
        "delivery-signature-formula delivery-retry-regenerates-signature "
        "delivery-dual-sign-on-rotation delivery-body-size delivery-413-non-retryable "
        "delivery-410-non-retryable delivery-retries-bounded delivery-status-last-error-category "
        "verification-required-before-delivery verification-challenge-echo "
        "verification-failure-error verification-cached-per-principal-url "
        "verification-persisted-for-no-expiry verification-uses-ssrf-hardened-path "
        "verification-no-raw-endpoint-responses ssrf-validate-callback-url "
        "ssrf-reject-non-routable ssrf-validate-at-delivery-time ssrf-no-redirects "
        "envelope-type-discriminator envelope-signed-like-deliveries envelope-webhook-id-format "
        "envelope-gap envelope-terminated error-callback-endpoint-error"
    ),
}
"""The checks that the suite emits. Three more are left out: all types of this server can be
replayed (truncated-false-when-no-replay), public keys are not used
(server-identity-key-discovery), and a subscription is dropped after a week of failures, which
needs the clock of test_webhooks.py (ttl-no-expiry-gc-terminated)."""

OTHER = "whsec_" + base64.b64encode(bytes(range(24))).decode()


class Harness:
    """The client of the suite. `found` has the outcome of each check."""

    def __init__(self, fixture: Fixture) -> None:
        self.fixture = fixture
        self.found: Dict[str, bool] = {}
        self.running = fixture.server.start_http(port=0)
        self.count = 0

    def check(self, name: str, is_passed: Any) -> None:
        self.found[name] = bool(is_passed) and self.found.get(name, True)

    def head(self, method: str, token: Optional[str] = RUNNER) -> Dict[str, str]:
        authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
        return {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **authorization,
        }

    def message(self, method: str, params: Dict[str, Any], id: Any = None) -> bytes:
        self.count += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {
            "jsonrpc": "2.0",
            "id": id or self.count,
            "method": method,
            "params": {**params, "_meta": meta},
        }
        return json.dumps(message).encode()

    def ask(self, method: str, token: Optional[str] = RUNNER, **params: Any) -> Dict[str, Any]:
        """Return the whole answer to a request."""
        link = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=WAIT)
        headers = self.head(method, token)
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
        link.request("POST", "/mcp", self.message(method, params), headers)
        text = link.getresponse().read().decode()
        link.close()
        if text.startswith("{"):
            return dict(json.loads(text))
        return dict(json.loads(re.findall("^data: (.*)$", text, re.M)[-1]))

    def result(self, method: str, token: Optional[str] = RUNNER, **params: Any) -> Dict[str, Any]:
        return dict(self.ask(method, token, **params)["result"])

    def code(self, method: str, token: Optional[str] = RUNNER, **params: Any) -> Any:
        return self.ask(method, token, **params).get("error", {}).get("code")

    def control(self, tool: str, /, **arguments: Any) -> str:
        """Call a tool of the suite, and return its text."""
        result = self.result("tools/call", name=PREFIX + tool, arguments=arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])

    def subscribe(self, url: str, token: str = RUNNER, **more: Any) -> Dict[str, Any]:
        """Return the whole answer to a subscription."""
        delivery = {"mode": "webhook", "url": url, "secret": SECRET, **more.pop("delivery", {})}
        name = more.pop("name", MESSAGE)
        return self.ask(
            "events/subscribe", token, name=name, arguments={}, delivery=delivery, **more
        )

    def unsubscribe(self, url: str, **more: Any) -> Any:
        found = self.ask(
            "events/unsubscribe", name=MESSAGE, arguments={}, delivery={"url": url}, **more
        )
        return found.get("error", {}).get("code")


class Stream:
    """A stream of events, as raw lines."""

    def __init__(self, harness: Harness, name: str = MESSAGE, id: Any = None) -> None:
        self.lines: List[Tuple[float, bytes]] = []
        self.opened_at = time.monotonic()
        self._link = http.client.HTTPConnection("127.0.0.1", harness.running.port, timeout=WAIT)
        body = harness.message("events/stream", {"name": name, "arguments": {}}, id)
        self.id = json.loads(body)["id"]
        self._link.request("POST", "/mcp", body, harness.head("events/stream"))
        self._socket = self._link.sock
        self._response = self._link.getresponse()
        self.kind = str(self._response.headers["Content-Type"])
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in iter(self._response.readline, b""):
                self.lines.append((time.monotonic(), line))
        except (OSError, ValueError, http.client.HTTPException):
            pass

    @property
    def messages(self) -> List[Dict[str, Any]]:
        found = [line for _, line in list(self.lines)]
        return [json.loads(line[5:]) for line in found if line.startswith(b"data:")]

    def named(self, word: str) -> List[Dict[str, Any]]:
        method = f"notifications/events/{word}"
        return [each["params"] for each in self.messages if each.get("method") == method]

    def wait(self, word: str, count: int = 1) -> bool:
        return eventually(lambda: len(self.named(word)) >= count)

    def cancel(self) -> None:
        with suppress(OSError):  # the server has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT)
        self._response.close()
        self._link.close()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, bool]:
    """The outcomes of all scenarios, which run once."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SSL_CERT_FILE", PEM)
    path = tmp_path_factory.mktemp("official") / "events.db"
    fixture = Fixture(str(path), heartbeat=0.5)
    harness = Harness(fixture)
    try:
        discovery(harness)
        poll(harness)
        push(harness)
        webhook(harness)
        delivery(harness)
    finally:
        harness.running.close()
        fixture.close()
        exit_gate.wait(WAIT)  # attempts to reach a host that does not exist still run
        patch.undo()
    return harness.found


def discovery(suite: Harness) -> None:
    check = suite.check
    extension = "io.modelcontextprotocol/events"
    declared = suite.result("server/discover")["capabilities"]["extensions"][extension]
    check("capability-events-object", isinstance(declared, dict))
    check("capability-list-changed-flag", declared["listChanged"] is True)
    first = suite.result("events/list")
    second = suite.result("events/list", cursor=first["nextCursor"])
    check("list-implemented", isinstance(first["events"], list))
    check("list-pagination", [each["name"] for each in second["events"]] == [ALERT])
    for each in first["events"] + second["events"]:
        check("descriptor-name", isinstance(each["name"], str))
        check("descriptor-description", each["description"])
        modes = each["delivery"]
        check("descriptor-delivery-subset", modes and {*modes} <= {"poll", "push", "webhook"})
        check("descriptor-input-schema", each["inputSchema"]["type"] == "object")
        check("descriptor-payload-schema", each["payloadSchema"]["type"] == "object")
        check("descriptor-meta", isinstance(each.get("_meta", {}), dict))
    found = suite.ask("events/poll", name="no.such", arguments={})["error"]
    check("error-not-found", found["code"] == -32011 and found["data"] == {"kind": "event"})
    check("error-server-range", -32099 <= found["code"] <= -32000)
    plain = Server("plain")
    with plain.start_http(port=0) as running:
        other = Harness.__new__(Harness)
        other.running = running
        other.count = 0
        check("fallback-method-not-found", other.code("events/list", None) == -32601)
    events = Events()
    events.settings = {}
    with connect(Server("quiet", extensions=[events])) as client:
        check("capability-empty-settings", client.list_events() == [])


def poll(suite: Harness) -> None:
    check = suite.check
    fixture = suite.fixture

    def ask(**params: Any) -> Dict[str, Any]:
        return suite.result("events/poll", **{"name": MESSAGE, "arguments": {}, **params})

    first = ask(cursor=None)
    check("poll-implemented", first["resultType"] == "complete")
    check("poll-bootstraps-subscription", first["cursor"])
    check("poll-one-subscription-per-request", suite.code("events/poll", arguments={}) == -32602)
    check("poll-events-array", first["events"] == [])
    check("poll-response-cursor", isinstance(first["cursor"], str))
    pause = first["nextPollMs"]
    check("poll-next-poll-ms", isinstance(pause, (int, float)) and "nextPollSeconds" not in first)
    check("poll-has-more", first["hasMore"] is False)
    check("cursor-null-starts-from-now", first["events"] == [])
    check("cursor-opaque", isinstance(first["cursor"], str))
    absent = ask()
    check("cursor-absent-equals-null", absent["events"] == [] and absent["cursor"])
    check("cursor-consistency", isinstance(absent["cursor"], str))
    for _ in range(3):
        fixture.emit()
    capped = ask(cursor=first["cursor"], maxEvents=1)
    check("poll-max-events-cap", len(capped["events"]) == 1 and capped["hasMore"] is True)
    check("poll-next-poll-ms-ignored-when-has-more", capped["nextPollMs"] == pause)
    again = ask(cursor=first["cursor"], maxEvents=1)
    check("poll-stateless-request", again["events"] == capped["events"])
    rest = ask(cursor=capped["cursor"])
    check("poll-stateless-request", rest["events"][0]["eventId"] != again["events"][0]["eventId"])
    # Nothing matches these arguments of another type, but the position advances.
    quiet = ask(name=ALERT, arguments={"level": 1}, cursor=None)
    again = ask(name=ALERT, arguments={"level": 1}, cursor=quiet["cursor"])
    check("cursor-advances-when-quiet", again["cursor"] and again["events"] == [])
    for event in rest["events"]:
        check("occurrence-event-id", isinstance(event["eventId"], str))
        check("occurrence-event-id-from-upstream", event["eventId"].startswith("upstream-"))
        check("occurrence-name", event["name"] == MESSAGE)
        check("occurrence-timestamp", re.match(r"\d{4}-\d\d-\d\dT.*Z$", event["timestamp"]))
        check("occurrence-data", isinstance(event["data"], dict))
        check("occurrence-cursor-optional", isinstance(event.get("cursor", ""), str))
        check("occurrence-meta-ungoverned", isinstance(event.get("_meta", {}), dict))
    time.sleep(0.3)
    aged = ask(cursor=first["cursor"], maxAgeMs=100)
    check("max-age-ms-floor", len(aged["events"]) < len(ask(cursor=first["cursor"])["events"]))
    check("max-age-ms-sets-truncated", aged["truncated"] is True)
    ignored = ask(cursor=None, maxAgeMs=1)
    check("max-age-ms-ignored-when-cursor-null", ignored["truncated"] is False)
    for _ in range(60):
        fixture.emit()
    old = ask(cursor=first["cursor"])
    check("replay-ceiling-sets-truncated", old["truncated"] is True)
    foreign = ask(cursor="conformance-no-such-cursor")
    check("truncated-poll-never-an-error", foreign["truncated"] is True)
    fresh = ask(cursor=foreign["cursor"])
    check("truncated-returns-fresh-cursor", fresh["truncated"] is False)
    codes = {
        "removal-poll-not-found": (-32011, {"name": "removed.event", "arguments": {}}),
        "poll-mode-unsupported": (-32014, {"name": BUILD, "arguments": {}}),
        "poll-invalid-arguments": (-32602, {"name": MESSAGE, "arguments": {"channel": 12345}}),
        "error-invalid-params": (-32602, {"name": ALERT, "arguments": {"level": "x"}}),
    }
    for name, (code, params) in codes.items():
        found = suite.ask("events/poll", **params)
        check(name, found.get("error", {}).get("code") == code)
        check("poll-errors-are-jsonrpc", "result" not in found)
    error = suite.subscribe("https://conformance.invalid/x", name=BUILD)["error"]
    wanted = {"feature": "deliveryMode", "value": "webhook"}
    check("error-unsupported", error["code"] == -32014 and error["data"] == wanted)


def push(suite: Harness) -> None:
    check = suite.check
    stream = Stream(suite, id="stream-1")
    check("stream-implemented", stream.kind.startswith("text/event-stream"))
    check("stream-active-confirmation", stream.wait("active"))
    active = stream.named("active")[0]
    check("stream-active-confirmation", active["cursor"] and active["truncated"] is False)
    check("stream-event-notification", stream.wait("event"))
    suite.control("yield_error", name=MESSAGE)
    check("stream-error-is-recoverable", stream.wait("error"))
    count = len(stream.named("event"))
    check("stream-error-is-recoverable", stream.wait("event", count + 1))
    suite.control("yield_gap", name=MESSAGE)
    check("stream-gap-resends-active", stream.wait("active", 2))
    gap = stream.named("active")[1]
    check("stream-gap-resends-active", gap["truncated"] is True and gap["cursor"])
    count = len(stream.named("event"))
    check("stream-gap-resends-active", stream.wait("event", count + 1))
    check("stream-cancel-stops-delivery", True)
    stream.cancel()
    count = len(stream.lines)
    check(
        "stream-cancel-stops-delivery",
        eventually(lambda: not suite.fixture.events.open_streams) and len(stream.lines) == count,
    )
    for each in stream.messages:
        method = each.get("method", "")
        check("stream-carries-only-event-notifications", "notifications/events/" in method)
        check("stream-subscription-id-meta", each["params"]["_meta"][KEY] == "stream-1")

    # A type without events has heartbeats only.
    quiet = Stream(suite, BUILD)
    check("stream-heartbeat-required", quiet.wait("heartbeat", 3))
    beats = quiet.named("heartbeat")
    check("stream-heartbeat-carries-cursor", all(isinstance(e["cursor"], str) for e in beats))
    times = [quiet.opened_at, *[at for at, line in quiet.lines if line.startswith(b"data:")]]
    pauses = [later - earlier for earlier, later in zip(times, times[1:])]
    check("stream-heartbeat-interval", max(pauses) < 5)
    check("stream-heartbeat-interval", Events().limits["heartbeat"] <= 30)
    comments = [line for _, line in quiet.lines if line.startswith(b":")]
    check("stream-heartbeat-not-sse-comment", not comments)

    streams = [Stream(suite) for _ in range(3)]
    for opened in streams:
        check("stream-exempt-from-concurrency-cap", opened.wait("active"))
    check("stream-exempt-from-concurrency-cap", suite.result("events/list"))
    quota = json.loads(suite.control("quota"))
    streams += [Stream(suite, quota["name"]) for _ in range(quota["max"] - len(streams) - 1)]
    refused = suite.ask("events/stream", name=quota["name"], arguments={})["error"]
    check("error-resource-exhausted", refused["code"] == -32013)
    check("error-resource-exhausted", refused["data"]["limit"] == "subscriptions")
    for opened in streams:
        opened.cancel()

    suite.control("terminate", name=BUILD)
    check("stream-terminated-ends-subscription", quiet.wait("terminated"))
    check("stream-final-result-timing", eventually(lambda: "result" in quiet.messages[-1]))
    result = quiet.messages[-1]["result"]
    check("stream-final-result-shape", set(result) <= {"_meta", "resultType"})
    check("stream-final-result-shape", KEY in result["_meta"])
    quiet.cancel()
    for params, code in (
        ({"name": "no.such"}, -32011),
        ({"name": ALERT, "arguments": {"level": 1}}, -32014),
        ({"name": MESSAGE, "arguments": {"channel": 1}}, -32602),
    ):
        found = suite.code("events/stream", **params)
        check("stream-error-before-open", found == code)


def expires_in(answer: Dict[str, Any]) -> Optional[float]:
    from minimcp.extensions.event_types import read_time

    before = answer["result"]["refreshBefore"]
    return None if before is None else read_time(before).timestamp() - time.time()


def webhook(suite: Harness) -> None:
    check = suite.check
    base = "https://conformance.invalid/mcp-events"
    first = suite.subscribe(base, ttlMs=3600_000)
    result = first["result"]
    check("subscribe-webhook-only", "result" in first)
    found = suite.subscribe(base, delivery={"mode": "push"})["error"]
    check("subscribe-webhook-only", found["code"] == -32014)
    check("subscribe-response-cursor", isinstance(result["cursor"], str))
    check("subscribe-response-truncated", result["truncated"] is False)
    check("ttl-refresh-before-lte-suggestion", (expires_in(first) or 0) <= 3601)
    check("ttl-null-only-when-requested", result["refreshBefore"] is not None)
    default = suite.subscribe(base)
    check("ttl-omitted-means-default", expires_in(default) is not None)
    for wanted in (1000, 30 * 86400_000, 0, -1):
        check("ttl-no-rejection-path", "result" in suite.subscribe(base, ttlMs=wanted))
    secrets: Dict[str, Tuple[Any, ...]] = {
        "subscribe-secret-required": (None,),
        "subscribe-secret-format": ("hush", "whsec_***", SECRET[6:]),
        "subscribe-secret-rejected": ("whsec_" + base64.b64encode(bytes(8)).decode(),),
    }
    for name, values in secrets.items():
        for value in values:
            answer = suite.subscribe(base + "/s", delivery={"secret": value})
            check(name, answer.get("error", {}).get("code") == -32602)
    for name, url in (
        ("subscribe-url-https-required", "http://conformance.invalid/x"),
        ("subscribe-url-non-https-rejected", "ftp://conformance.invalid/x"),
    ):
        check(name, suite.subscribe(url).get("error", {}).get("code") == -32602)
    check("subscribe-auth-required", "error" in suite.subscribe(base, token="nobody"))
    others = [
        suite.subscribe(base + "/other")["result"]["id"],
        suite.ask(
            "events/subscribe",
            name=ALERT,
            arguments={"level": 1},
            delivery={"mode": "webhook", "url": base, "secret": SECRET},
        )["result"]["id"],
    ]
    check("subscribe-key-composition", len({result["id"], *others}) == 3)
    again = suite.subscribe(base, delivery={"secret": OTHER})["result"]
    check("subscribe-idempotent-upsert", again["id"] == result["id"])
    check("subscribe-id-derived", again["id"] == result["id"])
    check("subscribe-key-immutable", suite.unsubscribe(base + "/other") is None)
    check("subscribe-refresh-replaces-secret", again["deliveryStatus"]["active"] is True)
    check("subscribe-refresh-reactivates", again["deliveryStatus"]["active"] is True)
    check("subscribe-id-not-an-input", suite.unsubscribe(base + "/no", id=result["id"]) == -32011)
    tenant = {"principal": "tenant-b", "name": MESSAGE, "url": base}
    theirs = suite.control("subscribe_as", **tenant)
    check("subscribe-cross-tenant-isolation", theirs != result["id"])
    check("unsubscribe-by-key", suite.unsubscribe(base) is None)
    check(
        "subscribe-cross-tenant-isolation",
        suite.control("subscription_exists", **tenant) == "true",
    )
    check("unsubscribe-by-key", suite.control("subscription_state", id=result["id"]) == "absent")
    check("unsubscribe-unknown-not-found", suite.unsubscribe(base) == -32011)
    long = suite.subscribe(base + "/long", ttlMs=86400_000)
    endless = suite.subscribe(base + "/endless", ttlMs=None)
    check("ttl-null-only-when-requested", endless["result"]["refreshBefore"] is None)
    generation = suite.control("restart")
    suite.running.close()
    suite.running = suite.fixture.server.start_http(port=0)
    assert suite.control("generation") == generation
    for name, kept in (("ttl-long-grant-retained", long), ("ttl-no-expiry-persisted", endless)):
        check(name, suite.control("subscription_state", id=kept["result"]["id"]) == "active")
    for end in ("/long", "/endless"):
        assert suite.unsubscribe(base + end) is None


def delivery(suite: Harness) -> None:
    check = suite.check
    receiver = Receiver()
    statuses: Dict[str, int] = {}

    def answer(each: Received) -> Tuple[int, bytes]:
        if each.kind == "verification" and each.path.endswith("/wrong"):
            return 200, b'{"challenge": "not what was sent"}'
        if each.kind == "verification":
            return echo(each)
        return statuses.get(each.path, 204), b""

    receiver.answer = answer
    url = receiver.url
    error = suite.subscribe(url)["error"]
    check("ssrf-validate-callback-url", error["code"] == -32602)
    check("ssrf-reject-non-routable", receiver.received == [])
    check("verification-uses-ssrf-hardened-path", receiver.received == [])
    check("ssrf-validate-at-delivery-time", "not public" in error["message"])
    suite.control("allow_callback_origin", origin=url.rpartition("/")[0])

    def at(path: str) -> List[Received]:
        return [each for each in list(receiver.received) if each.path == path]

    def events(path: str) -> List[Received]:
        return [each for each in at(path) if "eventId" in each.body]

    found = suite.subscribe(url)["result"]
    check("verification-required-before-delivery", at("/hook")[0].kind == "verification")
    check("verification-challenge-echo", len(at("/hook")[0].body["challenge"]) >= 16)
    assert eventually(lambda: len(events("/hook")) >= 2)
    for each in at("/hook"):
        check("delivery-post-json", each.method == "POST")
        check("delivery-post-json", each.headers["content-type"] == "application/json")
        names = {"webhook-id", "webhook-timestamp", "webhook-signature"}
        check("delivery-standard-webhooks-headers", names <= set(each.headers))
        check(
            "delivery-subscription-id-header",
            each.headers["x-mcp-subscription-id"] == found["id"],
        )
        check(
            "delivery-signature-formula",
            Standard(SECRET).verify(each.raw, each.headers) == each.body,
        )
        check("delivery-body-size", len(each.raw) <= 262144)
        check("envelope-type-discriminator", ("type" in each.body) != ("eventId" in each.body))
    suite.subscribe(url, ttlMs=None)
    check(
        "verification-cached-per-principal-url",
        len([each for each in at("/hook") if each.kind == "verification"]) == 1,
    )

    # Retries, and statuses after which there are none.
    for path, status in (("/hook/503", 503), ("/hook/413", 413), ("/hook/410", 410)):
        statuses[path] = status
        suite.subscribe(url + path[5:])
    redirected = url.replace("/hook", "/redirected")
    statuses["/redirected"] = 302
    receiver.headers = [("Location", url.replace("/hook", "/target"))]
    suite.subscribe(redirected)

    def attempts(path: str) -> Dict[str, List[Received]]:
        made: Dict[str, List[Received]] = {}
        for each in events(path):
            made.setdefault(each.kind, []).append(each)
        return made

    assert eventually(lambda: any(len(each) >= 4 for each in attempts("/hook/503").values()))
    tried = max(attempts("/hook/503").values(), key=len)
    check("delivery-retry-regenerates-signature", len({each.raw for each in tried}) == 1)
    check(
        "delivery-retry-regenerates-signature",
        len({each.headers["webhook-signature"] for each in tried}) > 1,
    )
    check("delivery-retry-regenerates-signature", tried[0].headers["webhook-id"] == tried[0].kind)
    for path in ("/hook/413", "/hook/410"):
        assert eventually(lambda path=path: len(attempts(path)) >= 2)
        counts = {len(each) for each in attempts(path).values()}
        check(f"delivery-{path[-3:]}-non-retryable", counts == {1})
    status = suite.subscribe(url + "/503")["result"]["deliveryStatus"]
    check("delivery-status-last-error-category", status["lastError"] == "http_5xx")
    assert eventually(lambda: len(events("/redirected")) >= 2)
    check("ssrf-no-redirects", at("/target") == [])
    longest = max(len(each) for each in attempts("/hook/503").values())
    check("delivery-retries-bounded", longest <= 4)
    receiver.headers = []
    for path in ("/503", "/413", "/410"):
        suite.unsubscribe(url + path)
    suite.unsubscribe(redirected)

    # A new secret, and envelopes.
    suite.subscribe(url, delivery={"secret": OTHER})
    count = len(events("/hook"))
    assert eventually(lambda: len(events("/hook")) > count + 1)
    last = events("/hook")[-1]
    for secret in (SECRET, OTHER):
        check("delivery-dual-sign-on-rotation", Standard(secret).verify(last.raw, last.headers))
    suite.control("webhook_gap", id=found["id"])
    assert eventually(lambda: receiver.named("gap") != [])
    gap = receiver.named("gap")[0]
    check("envelope-gap", isinstance(gap.body["cursor"], str))
    suite.control("webhook_terminate", id=found["id"])
    assert eventually(lambda: receiver.named("terminated") != [])
    [ended] = receiver.named("terminated")
    check("envelope-terminated", isinstance(ended.body["error"]["code"], int))
    for each in (gap, ended, *receiver.named("verification")[:1]):
        kind = each.body["type"]
        check("envelope-webhook-id-format", each.headers["webhook-id"].startswith(f"msg_{kind}_"))
        secret = SECRET if kind == "verification" else OTHER
        check("envelope-signed-like-deliveries", Standard(secret).verify(each.raw, each.headers))

    # A receiver that does not consent.
    error = suite.subscribe(url + "/wrong")["error"]
    check("verification-failure-error", error["data"] == {"reason": "challenge_failed"})
    check("error-callback-endpoint-error", error["code"] == -32015)
    check("verification-no-raw-endpoint-responses", "not what was sent" not in json.dumps(error))
    check("verification-required-before-delivery", events("/hook/wrong") == [])

    # Consent for an endless subscription survives a restart.
    suite.subscribe(url + "/endless", ttlMs=None)
    suite.control("restart")
    suite.running.close()
    suite.running = suite.fixture.server.start_http(port=0)
    suite.control("allow_callback_origin", origin="x")
    count = len(events("/hook/endless"))
    suite.subscribe(url + "/endless", ttlMs=None)
    challenges = [each for each in at("/hook/endless") if each.kind == "verification"]
    check("verification-persisted-for-no-expiry", len(challenges) == 1)
    check(
        "verification-persisted-for-no-expiry",
        eventually(lambda: len(events("/hook/endless")) > count),
    )
    suite.unsubscribe(url + "/endless")
    receiver.close()


IDS = [name for names in LISTED.values() for name in names.split()]


@pytest.mark.limit(120, "five scenarios, which wait for heartbeats and retries")
@pytest.mark.parametrize("name", IDS)
def test_a_check_of_the_suite(name: str, outcomes: Dict[str, bool]) -> None:
    assert outcomes[name]


def test_every_check_is_listed(outcomes: Dict[str, bool]) -> None:
    assert set(outcomes) == set(IDS)
    assert len(IDS) == len(set(IDS)) == 119
