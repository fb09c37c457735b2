"""`Deliverer`: the webhook subscriptions of a server, and the thread that delivers to them.

A subscription is an entry of the store. One process at a time holds a lease and delivers for all of
them. If it ends, another process takes the lease and delivers unacknowledged events again. A
subscription's cursor in the store is its watermark: everything up to it was acknowledged or given
up.
"""

from __future__ import annotations

import hmac
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from hashlib import sha256
from random import uniform
from secrets import token_hex, token_urlsafe
from typing import Any, NamedTuple, Optional

from ..auth.bearer import AccessToken
from ..engine.incoming import IncomingRequest
from ..engine.pool import Pool, renewed_in_fork, waiting
from ..engine.rates import Rate, RateLimiter
from ..errors import InvalidParams
from ..log import logger
from ..protocol.messages import Json, to_json
from ..protocol.urls import parse_web_url
from ..stores.base import owner_of, read_record
from ..stores.watcher import Lease, Watcher
from ..text import describe
from .event_log import Caller, EventReader, canonical
from .event_types import ENDED, GAP, VERIFICATION, EventError, read_time, text_or_none, write_time
from .webhooks import (
    Posted,
    PrivateAddress,
    Webhooks,
    check_callback,
    key_of,
    origin_of,
    post,
)

log = logger("minimcp.events")

# Maximum seconds between two scans of the subscriptions.
LOOK_SECONDS = 1.0

# Seconds after which the subscriptions are counted again.
COUNT_SECONDS = 1.0

# Challenges per second to one host and for one client, and how many of them may be sent at once.
# Otherwise a client could send a flood of requests to another's host by way of this server.
CHALLENGE_RATE = Rate(10.0, 100)

# Threads that send webhooks.
WORKERS = 32

# Maximum number of unacknowledged events of one subscription in memory.
MAX_WAITING = 100

# Number of announced changes of subscriptions that are kept. A process that missed more reads all
# subscriptions.
MAX_CHANGES = 1000

# Seconds for which a verified callback URL is not challenged again.
CONSENT_SECONDS = 86400.0

# Seconds for which deliveries are also signed with the previous secret.
ROTATION_SECONDS = 3600.0

# Seconds of failures after which a subscription without an end is dropped.
DEAD_SECONDS = 7 * 86400.0
# Matches ids of events that are sent as ``webhook-id``.
HEADER_ID = r"[!-~]{1,200}"

# The responses after which an event is not sent again.
FINAL_STATUSES = (410, 413)


class WebhookContext(NamedTuple):
    """The argument of `Events(allow=)` when a webhook is checked again."""

    auth: AccessToken


class _Delivery:
    """One message of a subscription, until it is acknowledged or given up."""

    def __init__(self, id: str, wire: dict[str, Json], position: Any) -> None:
        self.id = id
        self.wire = wire
        self.position = position
        self.size = len(to_json(wire))
        self.body = b""
        self.attempts = 0
        self.due = 0.0
        self.is_sending = False
        self.is_settled = False


class _Subscription:
    """A subscription, in the process that delivers to it."""

    def __init__(self, key: str, row: dict[str, Any]) -> None:
        self.key = key
        self.replace(row)
        # None as long as this process does not know the type.
        self.reader: Optional[EventReader] = None
        self.waiting: list[_Delivery] = []
        self.checked_at = 0.0
        self.is_changed = False

    def replace(self, row: dict[str, Any]) -> None:
        """Continue with a row that was read from the store."""
        self.row = row
        # What ``ended`` was in the store, to notice that another thread or process changes it.
        self.stored_end = row["ended"]

    @property
    def size(self) -> int:
        """The memory of the messages that are waiting, in bytes."""
        return sum(each.size for each in self.waiting)


class Deliverer:
    """Serves `events/subscribe` and `events/unsubscribe`, and delivers. Thread-safe.

    Args:
        events: The extension.
        options: How to deliver.
    """

    def __init__(self, events: Any, options: Webhooks) -> None:
        self._events = events
        self._options = options
        self._store = events.store
        self._pool = Pool(WORKERS, "minimcp-webhooks")
        self.prefix = events._key("event-subscription", "")
        self._changes_key = events._key("event-changes")
        self.renew_in_fork()
        renewed_in_fork.add(self)
        self.watcher = Watcher(
            self._store,
            "minimcp-webhooks",
            self._is_idle,
            self._versions,
            lambda: self._events.is_closed or self._look(self._pool.submit),
            LOOK_SECONDS,
        )
        if self._store.shared:  # deliver what an earlier process has left
            self._pool.spawn(self.watcher.start)

    def renew_in_fork(self) -> None:
        """Forget the lease, which belongs to the parent process."""
        self._challenges = RateLimiter(CHALLENGE_RATE)
        self._lock = threading.RLock()
        self._pass_lock = threading.Lock()
        self._forget_lease()

    def _forget_lease(self) -> None:
        self._lease = Lease(self._store, self._events._key("event-lease"))
        self._subscriptions: dict[str, _Subscription] = {}
        self._seen = -1
        # Attempts that are running, by host and by principal.
        self._busy: Counter[tuple[str, str]] = Counter()
        self._counted_at = float("-inf")
        self._count = 0

    # ------------------------------------------------------------ requests

    def subscribe(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Serve `events/subscribe`."""
        events = self._events
        params = incoming.request.params
        delivery = params.get("delivery")
        delivery = delivery if isinstance(delivery, dict) else {}
        mode = delivery.get("mode")
        if mode != "webhook":
            raise events._error(
                "Unsupported", "mode must be webhook", feature="deliveryMode", value=mode
            )
        auth = self._authenticated(incoming)
        url = check_callback(delivery.get("url"))
        secret = str(delivery.get("secret"))
        if key_of(secret) is None:
            raise InvalidParams("delivery.secret must be whsec_ and the base64 of 24 to 64 bytes")
        key = self._key(incoming, url)
        row = self._load(key)
        if row is None:
            self._check_room(owner_of(auth.principal))
        kind, arguments, values = events._subscription(incoming, "webhook")
        position, gap = events._begin_at(kind, values, params)
        ttl = self._ttl(params)
        self._verify(auth.principal, url, _id_of(key), secret, ttl)
        now = events.clock()
        if row is None:
            row = {
                "principal": auth.principal,
                "claims": {**auth.claims, "scope": " ".join(sorted(auth.scopes))},
                "url": url,
                "name": kind.name,
                "arguments": arguments,
                "created": token_hex(8),
                "secrets": [],
                "cursor": kind.cursor(position),
                "status": {"lastDeliveryAt": None, "lastError": None},
            }
        else:
            gap = False  # on a live subscription, the cursor of the request changes nothing
        others = [
            [each, min(until or now + ROTATION_SECONDS, now + ROTATION_SECONDS)]
            for each, until in row["secrets"]
            if each != secret and (until is None or until > now)
        ]
        row["secrets"] = [[secret, None], *others[:1]]
        row["ended"] = None
        row["expires"] = None if ttl is None else now + ttl
        self._save(key, row)
        self.watcher.start()
        result: dict[str, Json] = {
            "id": _id_of(key),
            "refreshBefore": None if ttl is None else _time(now + ttl),
            "cursor": row["cursor"],
            "truncated": gap,
            "deliveryStatus": {"active": True, **row["status"]},
        }
        return result

    def unsubscribe(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Serve `events/unsubscribe`."""
        self._authenticated(incoming)
        delivery = incoming.request.params.get("delivery")
        url = delivery.get("url") if isinstance(delivery, dict) else None
        key = self._key(incoming, str(url))
        if not self._store.delete(key):
            raise self._events._error(
                "NotFound", "there is no such subscription", kind="subscription"
            )
        self._announce(key)
        return {}

    def _authenticated(self, incoming: IncomingRequest) -> AccessToken:
        """Return the token of a request, if its claims identify the client."""
        auth = getattr(incoming.headers, "auth", None)
        if auth is None or not (auth.subject or auth.client_id):
            raise self._events._error("Forbidden", "webhooks need a token with a subject")
        return auth  # type: ignore[no-any-return]

    def _key(self, incoming: IncomingRequest, url: str) -> str:
        """Return the key of a subscription in the store. It ends in the id."""
        params = incoming.request.params
        arguments = {} if params.get("arguments") is None else params["arguments"]
        text = canonical([incoming.principal, url, params.get("name"), arguments])
        id = "sub_" + sha256(text.encode()).hexdigest()[:32]
        return str(self._events._key("event-subscription", owner_of(incoming.principal), id))

    def _check_room(self, owner: str) -> None:
        """Raise `EventError` if there are too many subscriptions.

        All of them are counted once a second, so that a flood of requests costs little.
        """
        limits = self._events.limits
        if time.monotonic() - self._counted_at > COUNT_SECONDS:
            self._counted_at = time.monotonic()
            self._count = len(self._store.sizes(self.prefix))
        most = limits["subscriptions"]
        if self._count < most:
            most = limits["per_client"]
            own = self._store.sizes(self._events._key("event-subscription", owner, ""))
            if len(own) < most:
                self._count += 1
                return
        message = f"no more than {most} subscriptions are possible: end others first"
        raise self._events._error("ResourceExhausted", message, limit="subscriptions", max=most)

    def _ttl(self, params: Mapping[str, Json]) -> Optional[float]:
        """Return for how many seconds to keep a subscription; None without an end."""
        options = self._options
        wanted = params.get("ttlMs", options.default_ttl * 1000)
        if wanted is None:
            return None if options.endless and self._store.shared else options.max_ttl
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
            return options.default_ttl
        return float(min(max(wanted, options.min_ttl * 1000), options.max_ttl * 1000)) / 1000

    def _verify(self, principal: str, url: str, id: str, secret: str, ttl: Optional[float]) -> None:
        """Ask the callback URL for its consent, unless it has already consented for this principal.

        Raises:
            InvalidParams: It leads to an address that is not public.
            EventError: It does not consent, or there are too many requests to its host.
        """
        origin = origin_of(url)
        digest = sha256(url.encode()).hexdigest()
        consent = self._events._key("event-consent", owner_of(principal), digest)
        if origin in map(origin_of, self._options.allow_origins) or self._store.get(
            consent, renew=True
        ):
            return
        challenge = token_urlsafe(24)
        envelope = to_json({"type": VERIFICATION, "challenge": challenge}).encode()
        names = (("host", parse_web_url(url).host), ("principal", principal))
        if any(map(self._challenges.take, names)) or not self._enter(url, principal):
            raise self._events._error(
                "ResourceExhausted", "too many challenges", limit="challenges"
            )
        try:
            with waiting():
                name = f"msg_{VERIFICATION}_{token_hex(8)}"
                found = post(self._options, url, id, name, envelope, [secret])
        except PrivateAddress as error:
            raise InvalidParams(f"delivery.url: {error}") from None
        finally:
            self._leave(url, principal)
        reason = found.error
        if reason is None or found.status:
            reason = None if _echoes(found, challenge) else "challenge_failed"
        if reason is not None:
            message = (
                f"the callback URL was not verified: {reason}. The receiver must answer while the "
                "request is pending, so it needs another thread or process than the client"
            )
            raise self._events._error("CallbackEndpointError", message, reason=reason)
        self._store.put(consent, b"", None if ttl is None else max(CONSENT_SECONDS, ttl))

    def _enter(self, url: str, principal: str) -> bool:
        """Count an attempt. Return False if its host or its client has too many."""
        host = parse_web_url(url).host
        with self._lock:
            if self._busy["host", host] >= self._options.in_flight or self._busy[
                "principal", principal
            ] >= self._share_of(principal, WORKERS):
                return False
            self._busy["host", host] += 1
            self._busy["principal", principal] += 1
            return True

    def _leave(self, url: str, principal: str) -> None:
        """End an attempt that `_enter` has counted."""
        with self._lock:
            for key in (("host", parse_web_url(url).host), ("principal", principal)):
                self._busy[key] -= 1
                if not self._busy[key]:
                    del self._busy[key]

    def _share_of(self, principal: str, most: int) -> int:
        """Return how much of a limit one client may use, see `Limits.client_share`."""
        return int(self._events._config.shares.share(("principal", principal), most))

    # ------------------------------------------------------------ entries of the store

    def _load(self, key: str) -> Optional[dict[str, Any]]:
        entry = self._store.get(key)
        if entry is None:
            return None
        row = read_record(key, entry.value, lambda each: each["secrets"] and each["url"])
        return None if row is None or self._is_expired(row) else row

    def _is_expired(self, row: Mapping[str, Any]) -> bool:
        return row["expires"] is not None and row["expires"] <= self._events.clock()

    def _save(self, key: str, row: Mapping[str, Any]) -> None:
        ttl = None if row["expires"] is None else row["expires"] - self._events.clock()
        self._store.put(key, to_json(dict(row)).encode(), ttl)
        self._announce(key)

    def _announce(self, key: str) -> None:
        """Notify the delivering process that a subscription has changed."""
        self._store.append(self._changes_key, key.encode(), None, MAX_CHANGES)
        self.watcher.wake()

    def terminate(self, id_or_name: str, error: EventError) -> None:
        """End subscriptions, and notify their receivers."""
        for entry in self._store.list(self.prefix):
            row = self._load(entry.key)
            if row is not None and id_or_name in (row["name"], _id_of(entry.key)):
                self._save(entry.key, {**row, "ended": error.to_wire()})
        self.watcher.start()

    # ------------------------------------------------------------ the thread

    def _is_idle(self) -> bool:
        return self._events.is_closed or not self._store.list(self.prefix, limit=1)

    def run_now(self) -> None:
        """Deliver everything that is due, on this thread."""
        while self._look(run=lambda job: job()):
            pass

    def close(self) -> None:
        """End the thread. Another process takes over at once."""
        with self._pass_lock:
            if self._lease.release():
                self._forget_lease()
        self.watcher.wake()
        self._pool.close()

    def _versions(self) -> dict[str, int]:
        """Return the newest known versions of the keys that the thread waits for."""
        logs = {each.reader.kind.log for each in list(self._subscriptions.values()) if each.reader}
        return {
            self._changes_key: self._seen,
            **{each.key: each.position for each in logs if each.position},
        }

    def _look(self, run: Callable[[Callable[[], object]], object]) -> bool:
        """Read what has changed, and send what is due. Return whether something was sent."""
        with self._pass_lock:
            if not self._lease.hold():
                self._forget_lease()
                return False
            self._load_changes()
            now = self._events.clock()
            subscriptions = list(self._subscriptions.values())
            if not subscriptions:
                self._lease.release()
            for kind in {each.reader.kind for each in subscriptions if each.reader}:
                kind.refresh(now)
            sizes: Counter[str] = Counter()
            for each in subscriptions:
                sizes[each.row["principal"]] += each.size
            size = sum(sizes.values())
            most = self._events.limits["queue_bytes"]
            jobs = []
            for each in subscriptions:
                if self._is_expired(each.row):
                    self._drop(each.key)
                    continue
                client = each.row["principal"]
                if size < most and sizes[client] < self._share_of(client, most):
                    before = each.size
                    self._fill(each, now)
                    sizes[client] += each.size - before
                    size += each.size - before
                jobs += self._due(each, now)
                if each.is_changed:
                    self._keep(each)
        for job in jobs:
            run(job)
        return bool(jobs)

    # ------------------------------------------------------------ subscriptions

    def _load_changes(self) -> None:
        """Read the subscriptions that have changed; all of them after taking over the lease."""
        changes = self._store.read(self._changes_key, max(self._seen, 0))
        if self._seen < 0 or len(changes) >= MAX_CHANGES:
            keys = {entry.key for entry in self._store.list(self.prefix)}
            keys.update(self._subscriptions)
        else:
            keys = {key.decode("ascii", "replace") for _, key in changes}
        self._seen = max([self._seen, 0, *(number for number, _ in changes)])
        for key in keys:
            row = self._load(key)
            known = self._subscriptions.get(key)
            if known is not None and (row is None or row["created"] != known.row["created"]):
                self._drop(key)
                known = None
            if row is None:
                continue
            if known is None:
                self._subscriptions[key] = made = _Subscription(key, row)
                self._resume(made)
                self._events._count(row["name"], row["arguments"], 1)
            else:
                row["cursor"] = known.row["cursor"]
                row["status"] = known.row["status"]
                known.replace(row)

    def _drop(self, key: str) -> None:
        found = self._subscriptions.pop(key, None)
        if found is not None:
            self._events._count(found.row["name"], found.row["arguments"], -1)

    def _resume(self, subscription: _Subscription) -> None:
        """Find the type of a subscription that was read from the store."""
        row = subscription.row
        try:
            kind = self._events._kind_of(row["name"])
            values = kind.values(row["arguments"])
        except InvalidParams:
            row["ended"] = self._events._error(
                "Unsupported",
                "the arguments no longer match the schema",
                feature="inputSchema",
                reason="schema_changed",
            ).to_wire()
            return
        except EventError:  # this process may not know the type yet
            return
        kind.refresh(self._events.clock())
        position, gap = kind.resume(values, row["cursor"], None)
        caller = Caller(row["principal"], row["claims"].get("sub"))
        subscription.reader = EventReader(kind, values, caller, position)
        if gap:
            self._add_gap(subscription, position)

    def _add_gap(self, subscription: _Subscription, position: Any) -> None:
        assert subscription.reader is not None
        cursor = subscription.reader.kind.cursor(position)
        self._add(subscription, {"type": GAP, "cursor": cursor}, position)

    def _add(self, subscription: _Subscription, envelope: dict[str, Json], position: Any) -> None:
        id = f"msg_{envelope['type']}_{token_hex(8)}"
        subscription.waiting.append(_Delivery(id, envelope, position))

    def _fill(self, subscription: _Subscription, now: float) -> None:
        """Queue the next events of a subscription."""
        row = subscription.row
        if row["ended"] is not None:
            if not any(each.wire.get("type") == ENDED for each in subscription.waiting):
                subscription.waiting = []
                self._add(subscription, {"type": ENDED, "error": row["ended"]}, None)
            return
        if subscription.reader is None:
            self._resume(subscription)
        reader = subscription.reader
        if reader is None:
            return
        if len(subscription.waiting) >= MAX_WAITING or not self._is_allowed(subscription, now):
            return
        room = MAX_WAITING - len(subscription.waiting)
        found = reader.read(now, room)
        if found.gap is not None:
            self._add_gap(subscription, found.gap)
        for position, wire in found.events:
            id = _header_of(str(wire["eventId"]))
            if self._options.webhook_id == "message":
                id = f"msg_{token_hex(12)}"
            subscription.waiting.append(_Delivery(id, wire, position))
        if not subscription.waiting and row["cursor"] != reader.cursor:
            row["cursor"] = reader.cursor
            subscription.is_changed = subscription.is_changed or bool(found.events)

    def _is_allowed(self, subscription: _Subscription, now: float) -> bool:
        """Check from time to time whether the client may still receive the events."""
        if now - subscription.checked_at < self._events.limits["recheck"]:
            return True
        is_first = not subscription.checked_at
        subscription.checked_at = now
        row = subscription.row
        context = WebhookContext(AccessToken.of(row["claims"]))
        try:
            if not is_first:
                self._events._check_allowed(context, row["name"], row["arguments"])
        except EventError as error:
            row["ended"] = error.to_wire()
            subscription.is_changed = True
            return False
        return True

    def _keep(self, subscription: _Subscription) -> None:
        """Store the watermark and the status, unless the subscription has ended."""
        subscription.is_changed = False
        entry = self._store.get(subscription.key)
        row = self._load(subscription.key)
        if entry is None or row is None:
            return
        row["cursor"] = subscription.row["cursor"]
        row["status"] = subscription.row["status"]
        if row["ended"] == subscription.stored_end:  # otherwise keep the end that was stored since
            row["ended"] = subscription.row["ended"]
            subscription.stored_end = row["ended"]
        ttl = None if row["expires"] is None else row["expires"] - self._events.clock()
        # If another process has changed it since, the next scan stores it.
        value = to_json(row).encode()
        if not self._store.put(subscription.key, value, ttl, entry.version):
            subscription.is_changed = True

    # ------------------------------------------------------------ sending

    def _due(self, subscription: _Subscription, now: float) -> list[Callable[[], object]]:
        """Return the attempts that are due, within the limits of their host and their client."""
        jobs: list[Callable[[], object]] = []
        url, principal = subscription.row["url"], subscription.row["principal"]
        for each in subscription.waiting:
            is_due = not (each.is_sending or each.is_settled) and each.due <= now
            if is_due and self._enter(url, principal):
                each.is_sending = True
                jobs.append(partial(self._attempt, subscription, each))
        return jobs

    def _attempt(self, subscription: _Subscription, delivery: _Delivery) -> None:
        row = subscription.row
        now = self._events.clock()
        if not delivery.body:
            wire = delivery.wire
            if "type" not in wire:
                wire = {**wire, "cursor": self._covered(subscription, delivery)}
            delivery.body = to_json(wire).encode()
        secrets = [each for each, until in row["secrets"] if until is None or until > now]
        id = _id_of(subscription.key)
        try:
            found = post(self._options, row["url"], id, delivery.id, delivery.body, secrets)
        except Exception as error:  # a private address counts as one that refuses the connection
            log.warning("a webhook to %s was not sent: %s", origin_of(row["url"]), describe(error))
            found = Posted(0, "connection_refused")
        with self._lock:
            self._leave(row["url"], row["principal"])
            self._settle(subscription, delivery, found)
        self.watcher.wake()

    def _covered(self, subscription: _Subscription, delivery: _Delivery) -> Optional[str]:
        """Return the cursor after an event, or the watermark while earlier events are waiting."""
        if subscription.waiting and subscription.waiting[0] is not delivery:
            return text_or_none(subscription.row["cursor"])
        assert subscription.reader is not None
        return subscription.reader.kind.cursor(delivery.position)

    def _settle(self, subscription: _Subscription, delivery: _Delivery, found: Posted) -> None:
        """Note the outcome of an attempt. The caller holds the lock."""
        now = self._events.clock()
        row = subscription.row
        delivery.is_sending = False
        delivery.attempts += 1
        self._note(subscription, found, now)
        subscription.is_changed = True
        if found.error is not None and found.status not in FINAL_STATUSES:
            if delivery.attempts <= len(self._options.retries):
                pause = self._options.retries[delivery.attempts - 1]
                delivery.due = now + pause * uniform(0.8, 1.2)
                return
            log.warning("an event for %s was given up: %s", origin_of(row["url"]), found.error)
            failing_since = read_time(row["status"]["failedSince"]).timestamp()
            if row["expires"] is None and failing_since < now - DEAD_SECONDS:
                row["ended"] = self._events._error(
                    "CallbackEndpointError", "no delivery has succeeded", reason=found.error
                ).to_wire()
        delivery.is_settled = True
        if delivery.wire.get("type") == ENDED:
            self._store.delete(subscription.key)
            self._announce(subscription.key)
            return
        while subscription.waiting and subscription.waiting[0].is_settled:
            position = subscription.waiting.pop(0).position
            if subscription.reader is not None:
                row["cursor"] = subscription.reader.kind.cursor(position)

    def _note(self, subscription: _Subscription, found: Posted, now: float) -> None:
        """Note an attempt in the status."""
        status = subscription.row["status"]
        status["lastError"] = found.error
        if found.error is None:
            status["lastDeliveryAt"] = _time(now)
            status.pop("failedSince", None)
        else:
            status.setdefault("failedSince", _time(now))


def _id_of(key: str) -> str:
    return key.rpartition(":")[2]


def _header_of(id: str) -> str:
    """Return the id of an event, or a hash of it if it cannot be the value of a header."""
    if re.fullmatch(HEADER_ID, id):
        return id
    return f"msg_{sha256(id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _time(seconds: float) -> str:
    return write_time(datetime.fromtimestamp(seconds, timezone.utc))


def _echoes(found: Posted, challenge: str) -> bool:
    try:
        echoed = json.loads(found.body)["challenge"]
        return hmac.compare_digest(str(echoed).encode(), challenge.encode())
    except (ValueError, TypeError, LookupError, RecursionError):
        return False
