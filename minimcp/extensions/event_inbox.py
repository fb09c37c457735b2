"""`EventInbox`: a receiver of webhooks, which stores events before it acknowledges them.

Each subscription has a callback URL that ends in random characters. The inbox finds the secret of
the subscription by them, so it does not trust anything in an unverified request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from secrets import token_bytes, token_urlsafe
from typing import TYPE_CHECKING, Any, Optional, Union

from ..auth.shared import check_url
from ..client.calls import DEFAULT, Call
from ..engine.pool import Pool, renewed_in_fork
from ..errors import AuthorizationError, McpError
from ..http.framing import REASONS
from ..http.headers import HttpRequest, HttpResponse
from ..log import logger
from ..protocol.messages import Json, to_json
from ..stores.base import MemoryStore, Store, StoreUnavailable, read_record, store_key
from ..stores.watcher import RENEW_SECONDS, Lease, Watcher
from ..text import describe
from .client_events import ask, list_types, params_of
from .event_types import (
    ENDED,
    GAP,
    SUBSCRIBE,
    SUBSCRIPTION_HEADER,
    UNSUBSCRIBE,
    VERIFICATION,
    EventError,
    Occurrence,
    read_time,
    text_or_none,
)
from .webhooks import ID_HEADER, PREFIX, verify_webhook

if TYPE_CHECKING:
    from ..client.client import Client

log = logger("minimcp.events")

# Maximum number of events that are stored, and of bytes in them.
MAX_STORED = 10_000
MAX_STORED_BYTES = 64 * 1024 * 1024

# Seconds for which the id of an event is remembered, to drop duplicates.
REMEMBERED_SECONDS = 2 * 86400.0

# The value of its entry once it is stored, and seconds for which another one is refused until then.
STORED = b"stored"
CLAIM_SECONDS = 60.0

# Maximum seconds between two refreshes of a subscription, even if it never expires.
REFRESH_SECONDS = 3600.0

# Seconds that `close` waits for `on_event`.
CLOSE_SECONDS = 2.0

# Seconds between two scans of the stored events and subscriptions.
LOOK_SECONDS = 1.0


class EventInbox:
    """Receives webhooks, as a WSGI app or as a function. Thread-safe.

    Mount `wsgi` at the path of ``url``. Call `refresh` regularly, or keep `keep` open. The server
    sends a challenge while `subscribe` waits, so another thread or process must answer it.

    Args:
        url: The public https URL under which webhooks arrive.
        store: Where subscriptions and events are kept; None means a `MemoryStore`. It holds the
            secrets of the subscriptions.
        on_event: Function that is called with an `Occurrence` and the id of the subscription, on
            one thread of one of the processes that share the store, after the event was stored and
            acknowledged. After a crash it is called again. None means no callback.
        tolerance: Maximum age of a signature, in seconds.
        body_bytes: Maximum size of a body, in bytes.
        well_known: Whether to serve ``/.well-known/mcp-webhook-receiver.json``, so that servers
            need not send a challenge.

    Raises:
        TypeError, ValueError: The URL is not an https URL.
    """

    def __init__(
        self,
        url: str,
        *,
        store: Optional[Store] = None,
        on_event: Optional[Callable[[Occurrence, str], Any]] = None,
        tolerance: float = 300,
        body_bytes: int = 256 * 1024,
        well_known: bool = False,
    ) -> None:
        check_url(url, local_http=False)
        self._url = url.rstrip("/")
        self._store = MemoryStore() if store is None else store
        self._tolerance = tolerance
        self._body_bytes = body_bytes
        self._well_known = well_known
        self._events_key = self._key("inbox-events")
        self._done_key = self._key("inbox-done")
        self._on_event = on_event
        self._is_closed = False
        self._pool = Pool(1, "minimcp-inbox")
        # At most this many bytes of events are stored. The first event makes it exact.
        self._bytes = MAX_STORED_BYTES
        self.renew_in_fork()
        renewed_in_fork.add(self)
        self._watcher = Watcher(
            self._store,
            "minimcp-inbox",
            self._is_idle,
            self._versions,
            self._call_for_new,
            LOOK_SECONDS,
        )
        self._watcher.start()

    def renew_in_fork(self) -> None:
        """Forget the lease, which belongs to the parent process."""
        self._lock = threading.Lock()
        # The thread on which `on_event` runs.
        self._caller: Optional[threading.Thread] = None
        self._lease = Lease(self._store, self._key("inbox-lease"))

    def _key(self, kind: str, *parts: str) -> str:
        return store_key((), self._url, kind, *parts)

    # ------------------------------------------------------------ subscriptions

    def subscribe(
        self,
        client: Client,
        name: str,
        arguments: Optional[Mapping[str, Json]] = None,
        *,
        cursor: Optional[str] = None,
        max_age: Optional[float] = None,
        ttl: Optional[float] = None,
    ) -> str:
        """Subscribe to events of a server, or renew the subscription. Return the id of the
        subscription.

        Args:
            client: A client of the server, with an access token.
            name: The event type.
            arguments: The arguments; None means no arguments.
            cursor: The position to begin after; None means now or, for a known subscription, at the
                inbox's own position.
            max_age: Maximum age of events in seconds; older ones are left out. None means no limit.
            ttl: Seconds for which to subscribe; if None, the server decides.

        Raises:
            EventError: The server rejected the subscription.
            McpError: See `Client.request`.
        """
        params = params_of(name, arguments, cursor, max_age)
        found = self._find(client, name, params["arguments"])
        if found is None:
            import base64

            token = token_urlsafe(24)
            row: dict[str, Any] = {
                "server": _server_of(client),
                "name": name,
                "arguments": params["arguments"],
                "secret": PREFIX + base64.b64encode(token_bytes(32)).decode(),
                "url": f"{self._url}/{token}",
                "id": None,
                "cursor": None,
            }
            found = (self._key("inbox-subscription", token), row)
        key, row = found
        row["ttlMs"] = None if ttl is None else round(ttl * 1000)
        row["cursor"] = cursor or row["cursor"]
        row["ended"] = None
        self._save(key, row)  # before the request, because the challenge arrives during it
        age = {name: params[name] for name in ("maxAgeMs",) if name in params}
        return self._renew(client, key, row, age)

    def unsubscribe(
        self, client: Client, name: str, arguments: Optional[Mapping[str, Json]] = None
    ) -> None:
        """End a subscription. Nothing happens if neither side knows it."""
        found = self._find(client, name, dict(arguments or {}))
        if found is None:
            return
        key, row = found
        try:
            ask(Call(client._sessions, DEFAULT), UNSUBSCRIBE, _params(row))
        except EventError as error:
            if error.kind != "NotFound":
                raise
        self._store.delete(key)

    def refresh(self, client: Client) -> int:
        """Renew the subscriptions to a server that are due for renewal. Return how many were
        renewed."""
        renewed = 0
        for key, row in self._rows():
            is_due = row.get("refresh_at", 0) <= time.time()
            if row["server"] != _server_of(client) or not is_due:
                continue
            if row["ended"] is not None:
                error = EventError.of_peer(row["ended"])
                is_over = error is None or error.kind == "Forbidden"
                types = [] if is_over else list_types(Call(client._sessions, DEFAULT), "refresh")
                if not any(each.name == row["name"] for each in types):
                    continue
            self._renew(client, key, row, {})
            renewed += 1
        return renewed

    def keep(self, client: Client) -> ExitStack:
        """Renew subscriptions on a thread, until the result is closed. It is a context manager.

        First, each subscription is ended and begun again at the cursor of this inbox, so that the
        server sends again the events that it gave up while this inbox was not running.
        """
        stop = threading.Event()

        def run() -> None:
            for key, row in self._rows():
                if row["server"] == _server_of(client) and row["cursor"] is not None:
                    self._try(partial(ask, Call(client._sessions, DEFAULT), UNSUBSCRIBE), row)
                    self._save(key, {**row, "refresh_at": 0})
            while not stop.wait(LOOK_SECONDS):
                self._try(lambda _: self.refresh(client), {})

        threading.Thread(target=run, name="minimcp-inbox-keep", daemon=True).start()
        stack = ExitStack()
        stack.callback(stop.set)
        return stack

    def _try(self, do: Callable[[Any], object], row: Mapping[str, Any]) -> None:
        try:
            do(_params(row) if row else row)
        except (McpError, OSError) as error:
            log.warning("a subscription was not renewed: %s", error)

    def _renew(
        self, client: Client, key: str, row: Mapping[str, Any], more: Mapping[str, Json]
    ) -> str:
        params = {**_params(row), "cursor": row["cursor"], **more}
        params["delivery"] = {**params["delivery"], "mode": "webhook", "secret": row["secret"]}
        if row["ttlMs"] is not None:
            params["ttlMs"] = row["ttlMs"]
        result = ask(Call(client._sessions, DEFAULT), SUBSCRIBE, params)
        now = time.time()
        pause = REFRESH_SECONDS
        before = text_or_none(result.get("refreshBefore"))
        if before is not None:
            with suppress(ValueError):  # without a time, the longest pause applies
                pause = min(pause, (read_time(before).timestamp() - now) / 2)
        if row["ttlMs"] is not None:  # the clock of the server may differ
            pause = min(pause, row["ttlMs"] / 2000)
        changes: dict[str, Any] = {"refresh_at": now + max(pause, 0.0), "ended": None}
        changes["id"] = str(result.get("id"))
        if result.get("truncated") is True:
            changes["missed"] = True
        self._update(key, text_or_none(result.get("cursor")), changes)
        return str(changes["id"])

    # ------------------------------------------------------------ entries of the store

    def _rows(self) -> Iterable[tuple[str, dict[str, Any]]]:
        for entry in self._store.list(self._key("inbox-subscription", "")):
            row = read_record(entry.key, entry.value, lambda each: each["secret"])
            if row is not None:
                yield entry.key, row

    def _find(
        self, client: Client, name: str, arguments: Json
    ) -> Optional[tuple[str, dict[str, Any]]]:
        wanted = (_server_of(client), name, to_json(arguments))
        for key, row in self._rows():
            if (row["server"], row["name"], to_json(row["arguments"])) == wanted:
                return key, row
        return None

    def _save(self, key: str, row: Mapping[str, Any]) -> None:
        self._store.put(key, to_json(dict(row)).encode())

    def _update(self, key: str, cursor: Optional[str], changes: Mapping[str, Any]) -> None:
        """Change a subscription, unless it was deleted. If ``cursor`` is None, it is unchanged."""
        with self._lock:
            entry = self._store.get(key)
            row = None if entry is None else read_record(key, entry.value, lambda each: True)
            if row is not None:
                row.update(changes)
                row["cursor"] = cursor or row["cursor"]
                self._save(key, row)

    # ------------------------------------------------------------ webhooks

    def handle_http(self, request: HttpRequest) -> HttpResponse:
        """Serve one request, and return the response."""
        path = request.path.partition("?")[0]
        if self._well_known and path == "/.well-known/mcp-webhook-receiver.json":
            prefix = "/" + self._url.split("/", 3)[3] if self._url.count("/") > 2 else ""
            return _answer(200, {"receivers": [prefix + "/"]})
        if request.method != "POST":
            return _answer(405)
        body = request.body
        if not isinstance(body, bytes):
            body = body.read(self._body_bytes + 1)
        if len(body) > self._body_bytes:
            return _answer(413)
        headers = request.headers
        if not (headers.get(SUBSCRIPTION_HEADER) and headers.get(ID_HEADER)):
            return _answer(400)
        try:
            return self._receive(path.rpartition("/")[2], headers, body)
        except AuthorizationError as error:
            log.warning("a webhook was rejected: %s", error)
            return _answer(401)
        except Exception as error:  # the store failed, so the server must send it again
            log.error("a webhook was not stored: %s", describe(error), exc_info=error)
            return _answer(503)

    def wsgi(
        self, environ: Mapping[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Serve a request of a WSGI host (PEP 3333)."""
        headers = {
            name[5:].replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        length = environ.get("CONTENT_LENGTH") or "0"
        size = 0
        if length.isascii() and length.isdigit():
            size = int(length) if len(length) < 10 else self._body_bytes + 1
        body = environ["wsgi.input"].read(min(size, self._body_bytes + 1)) if size else b""
        path = environ.get("PATH_INFO", "")
        response = self.handle_http(HttpRequest(environ["REQUEST_METHOD"], path, headers, body))
        start_response(f"{response.status} {REASONS[response.status]}", response.headers)
        return [response.body]

    def _receive(self, token: str, headers: Any, body: bytes) -> HttpResponse:
        key = self._key("inbox-subscription", token)
        entry = self._store.get(key)
        row = None if entry is None else read_record(key, entry.value, lambda each: each["secret"])
        if row is None:  # a subscription may be about to begin
            return _answer(503)
        message = verify_webhook(headers, body, row["secret"], tolerance=self._tolerance)
        id = headers[SUBSCRIPTION_HEADER]
        if row["id"] not in (None, id):
            raise AuthorizationError(f"it names another subscription: {id!r:.60}")
        kind = message.get("type")
        if kind == VERIFICATION:
            self._update(key, None, {"id": id})
            return _answer(200, {"challenge": message.get("challenge")})
        name = message.get("eventId") if kind is None else headers[ID_HEADER]
        digest = sha256(str(name).encode(errors="surrogatepass")).hexdigest()
        seen = self._key("inbox-seen", token, digest)
        if self._store.put(seen, b"", CLAIM_SECONDS, expect=0) is None:
            entry = self._store.get(seen)
            if entry is None or entry.value != STORED:  # another thread or process stores it now
                return _answer(503)
            log.info("a webhook was dropped: %.100r was received before", name)
            return _answer(200)
        try:
            if kind == GAP:
                self._update(key, text_or_none(message.get("cursor")), {"missed": True})
            elif kind == ENDED:
                log.warning("the server ended the subscription to %s", row["name"])
                self._update(key, None, {"ended": message.get("error"), "refresh_at": 0})
            elif kind is None:
                self._add(key, row, id, message)
            self._store.put(seen, STORED, REMEMBERED_SECONDS)
        except Exception:
            self._store.delete(seen)
            raise
        return _answer(200)

    def _add(self, key: str, row: Mapping[str, Any], id: str, message: dict[str, Json]) -> None:
        try:
            event = Occurrence.from_wire(message)
        except ValueError as error:
            raise AuthorizationError(str(error)) from None
        record = {"id": id, "missed": row.get("missed", False), "event": message}
        data = to_json(record).encode()
        self._store.append(self._events_key, data, None, MAX_STORED)
        self._drop_surplus(len(data))
        self._watcher.start()  # after a fork
        self._update(key, event.cursor, {"missed": False})

    def _drop_surplus(self, added: int) -> None:
        """Drop the oldest events if there are too many bytes.

        Half of the bytes are kept, so that the events are rarely counted.
        """
        with self._lock:
            self._bytes += added
            if self._bytes <= MAX_STORED_BYTES:
                return
            stored = self._store.read(self._events_key)
            self._bytes = sum(len(data) for _, data in stored)
            if self._bytes <= MAX_STORED_BYTES:
                return
            dropped = 0
            while self._bytes > MAX_STORED_BYTES // 2:
                self._bytes -= len(stored[dropped][1])
                dropped += 1
            self._store.read(self._events_key, stored[dropped - 1][0], forget=True)
            log.warning("the oldest %d stored events were dropped: there are too many", dropped)

    # ------------------------------------------------------------ events

    def events(self, after: Optional[str] = None) -> list[Occurrence]:
        """Return the stored events, the oldest first.

        Args:
            after: The id of an event, to return the later ones; None means all, as does an id that
                is not stored.
        """
        found = [event for _, event, _ in self._stored(0)]
        ids = [event.id for event in found]
        return found[ids.index(after) + 1 :] if after in ids else found

    def close(self) -> None:
        """Stop calling `on_event`. Idempotent. Blocks until it has returned, at most 2 s."""
        self._is_closed = True
        self._watcher.wake()
        thread = self._watcher.thread
        if thread is not None and threading.current_thread() is not self._caller:
            thread.join(CLOSE_SECONDS)
        self._pool.close()
        with suppress(StoreUnavailable):  # the lease expires
            self._lease.release()

    def _stored(self, number: int) -> Iterable[tuple[int, Occurrence, str]]:
        for each, data in self._store.read(self._events_key, number):
            record = read_record(self._events_key, data, lambda found: found["event"])
            if record is not None:
                event = Occurrence.from_wire(record["event"])
                event.missed = record["missed"]
                yield each, event, record["id"]

    def _is_idle(self) -> bool:
        return self._is_closed or self._on_event is None

    def _versions(self) -> dict[str, int]:
        self._store.put(self._events_key, b"", None, expect=0)  # a key that can be awaited
        entry = self._store.get(self._events_key)
        return {self._events_key: 0 if entry is None else entry.version}

    def _call_for_new(self) -> None:
        """Call `on_event` for each new event, if this process has the lease."""
        if self._is_closed or not self._lease.hold():
            return
        entry = self._store.get(self._done_key)
        for number, event, id in self._stored(0 if entry is None else int(entry.value)):
            done = threading.Event()
            self._pool.submit(partial(self._call, event, id, done))
            while not done.wait(RENEW_SECONDS) and not self._is_closed:
                self._lease.hold()
            if not done.is_set():
                return
            self._store.put(self._done_key, str(number).encode())
            if self._is_closed:
                return

    def _call(self, event: Occurrence, id: str, done: threading.Event) -> None:
        self._caller = threading.current_thread()
        try:
            assert self._on_event is not None
            self._on_event(event, id)
        except Exception as error:
            log.error("on_event failed: %s", describe(error), exc_info=error)
        finally:
            self._caller = None
            done.set()


def _server_of(client: Client) -> str:
    return client._sessions.newest.name


def _params(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params that identify a subscription."""
    delivery = {"url": row["url"]}
    return {"name": row["name"], "arguments": row["arguments"], "delivery": delivery}


def _answer(status: int, body: Union[dict[str, Json], None] = None) -> HttpResponse:
    data = b"" if body is None else to_json(body).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(data)))]
    if status == 503:
        headers.append(("Retry-After", "5"))
    return HttpResponse(status, headers, data)
