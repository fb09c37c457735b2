"""`Store`: the interface of what keeps state beyond one request; `MemoryStore`: kept while the
process runs."""

from __future__ import annotations

import math
import threading
import time
from itertools import count
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence
from urllib.parse import quote

from ..engine.cancel import CancelToken
from ..engine.pool import waiting
from ..engine.timer import Deadline
from ..log import logger
from ..protocol.messages import read_json

log = logger("minimcp.stores")

# Seconds between two searches for what has expired.
SWEEP_SECONDS = 10.0

# The numbers that every store can compare: those of SQLite have 64 bits.
MAX_NUMBER = 2**63 - 1

# No members.
NOTHING: Mapping[str, tuple[type, ...]] = {}

# The depth of JSON in a record: that of a message, and of the record around it.
MAX_RECORD_DEPTH = 300


class StoreUnavailable(ConnectionError):
    """A store that lies elsewhere cannot be reached now, or does not answer as it should: it may in
    a moment."""


class Entry(NamedTuple):
    """What a store keeps under a key.

    Args:
        key: Its name.
        value: What `Store.put` got; empty where there are only events.
        version: Of its last change. Versions rise over all keys of one store.
    """

    key: str
    value: bytes
    version: int


def store_key(audience: Sequence[str], name: str, kind: str, *parts: str) -> str:
    """Return the key of an entry. This function builds every key in a store.

    Two different lists of arguments never make the same key, because each text is percent-encoded.
    So servers and owners that share a store cannot reach each other's entries. Whatever a peer
    sends, a key is ASCII.

    Args:
        audience: What the tokens of the server are for, by which servers of one name differ, none
            of them an empty text; empty if it asks for none.
        name: The server's name.
        kind: What the entry is, such as "task". The entries of one kind are listed together.
        parts: The owner within the server, and the id. End with an empty one to make the prefix of
            all that the owner has.
    """
    names = [",".join(map(_escaped, audience)), _escaped(name), _escaped(kind)]
    if parts:
        names.append(":".join(map(_escaped, parts)))
    return "/".join(names)


def owner_of(principal: Optional[str]) -> str:
    """Return what a principal is called in keys: a hash, since it may be long or private. "-" is
    everybody, where nobody is authenticated."""
    if principal is None:
        return "-"
    from hashlib import sha256  # it loads OpenSSL

    return sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()


def _escaped(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def read_record(
    key: str, value: bytes, is_sound: Callable[[Any], bool]
) -> Optional[dict[str, Any]]:
    """Return the JSON object that a value or an event is, or None if it is not a sound one.

    Every object in a store is read by this function, so that a damaged one counts as missing. One
    line of the log reports it.

    Args:
        key: Where it is kept.
        value: The value or the event.
        is_sound: Returns whether an object has the right members. It may raise what a wrong type
            causes.
    """
    try:
        found = read_json(value, max_depth=MAX_RECORD_DEPTH)
        if isinstance(found, dict) and is_sound(found):
            return found
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        pass
    report_unreadable(key)
    return None


def report_unreadable(key: str) -> None:
    """Log that a value in the store is ignored, because it cannot be read."""
    log.error("%.300s in the store cannot be read, and is ignored", key)


def has_members(
    value: Any,
    members: Mapping[str, tuple[type, ...]],
    optional: Mapping[str, tuple[type, ...]] = NOTHING,
) -> bool:
    """Return whether an object has exactly these members, of these types."""
    for name, types in {**members, **optional}.items():
        if name in value:
            if not isinstance(value[name], types):
                return False
        elif name not in optional:
            return False
    return not value.keys() - members.keys() - optional.keys()


def is_number(value: Any) -> bool:
    """Return whether a value is an integer that can be the number of an event."""
    return type(value) is int and 0 <= value <= MAX_NUMBER


class Store:
    """Keeps values and events by key, each with a time to live. All methods may be called by any
    thread.

    A subclass implements `put`, `get`, `list`, `delete`, `append` and `read`, and calls `wake` when
    a key has changed. Where several processes share a store, all but `wake` means the same in each
    of them. A key that was deleted, or whose time is over, is as one that never was. Any method may
    raise what the store is away with, which is `StoreUnavailable` where it lies behind a network.
    """

    # Whether several processes share it: then any of them takes any request of an HTTP session.
    shared = False

    def __init__(self) -> None:
        self._waiters: dict[str, set[threading.Event]] = {}
        self._waiters_lock = threading.Lock()

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """Set a value, if the key has the version that is expected.

        Args:
            key: Its name.
            value: Replaces the one before.
            ttl: Seconds from now after which the key is gone, with its events; None keeps it.
            expect: The version that the key must have, 0 for none at all; None sets the value in
                any case.

        Returns:
            The new version; None when the key has another one than expected, and nothing was set.
        """
        raise NotImplementedError

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """What is kept under a key; None when there is nothing.

        Args:
            key: Its name.
            renew: Whether its time to live begins anew, as it was last set.
        """
        raise NotImplementedError

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """The entries whose keys begin with a text, in the order of their keys.

        Args:
            prefix: The text, up to a slash: in what is listed together no other slash follows.
                Empty for keys without.
            after: Only keys behind this one.
            limit: How many at most; None sets no limit.
        """
        raise NotImplementedError

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the length in bytes of each value whose key begins with a text.

        It does not load the values, so that counting what is kept costs little. This
        implementation, for subclasses that have none, loads them all the same.

        Args:
            prefix: The text, as for `list`.
        """
        return {entry.key: len(entry.value) for entry in self.list(prefix)}

    def delete(self, key: str) -> bool:
        """Forget a key, with its events; False when there is none."""
        raise NotImplementedError

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """Add an event to a key, which need not exist; returns the event's number, the key's
        version from now on.

        Args:
            key: Its name.
            data: The event.
            ttl: As for `put`, of the key and all its events.
            most: How many events the key keeps, the newest; None keeps all.
        """
        raise NotImplementedError

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """The events of a key behind the one of this number, in order, each with its number.
        Numbers rise with gaps.

        Args:
            key: Its name.
            after: The number; 0 reads all.
            forget: Whether the events up to this one are dropped.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ waiting

    def wait(
        self,
        keys: Iterable[str],
        after: int,
        timeout: Optional[float] = None,
        cancel: Optional[CancelToken] = None,
    ) -> bool:
        """Wait until one of some keys has a version above this one, or is gone; False when the time
        was over first.

        A change between reading a key and waiting for it is noticed; that a time to live ends is
        not.

        Args:
            keys: What to wait for.
            after: The version that the caller knows, the highest if they are several.
            timeout: Seconds; None sets no limit.
            cancel: Ends the wait as the timeout does; None for a wait that nobody ends.
        """
        keys, woken, deadline = set(keys), threading.Event(), Deadline(timeout)
        forget = None if cancel is None else cancel.on_cancel(woken.set)
        with self._waiters_lock:
            for key in keys:
                self._waiters.setdefault(key, set()).add(woken)
        try:
            self.watch(keys)
            while True:  # it was registered before it looks: a change is either seen or wakes it
                woken.clear()
                if self._changed(keys, after):
                    return True
                if deadline.expired or (cancel is not None and cancel.cancelled):
                    return False
                with waiting():
                    woken.wait(deadline.to_wait())
        finally:
            if forget is not None:
                forget()
            with self._waiters_lock:
                for key in keys:
                    self._waiters[key].discard(woken)
                    if not self._waiters[key]:
                        del self._waiters[key]

    def watch(self, keys: Iterable[str]) -> None:
        """Have changes of these keys by other processes wake, too, who waits here; until nobody
        does."""

    def _changed(self, keys: Iterable[str], after: int) -> bool:
        entries = [self.get(key) for key in keys]
        return any(entry is None or entry.version > after for entry in entries)

    def wake(self, keys: Iterable[str]) -> None:
        """Have the threads of this process look again that wait for one of these keys. Never
        blocks."""
        if not self._waiters:  # who begins to wait now looks by itself
            return
        with self._waiters_lock:
            for key in keys:
                for woken in self._waiters.get(key, ()):
                    woken.set()


class _Kept:
    """A key of a `MemoryStore`."""

    __slots__ = ("events", "expires", "ttl", "value", "version")

    def __init__(self) -> None:
        self.value, self.version, self.ttl, self.expires = b"", 0, math.inf, math.inf
        self.events: list[tuple[int, bytes]] = []


class MemoryStore(Store):
    """Keeps values and events while this process runs. A forked process has a copy. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._versions = count(1)
        self._swept = time.monotonic()

    def _find(self, key: str) -> Optional[_Kept]:
        kept = self._kept.get(key)
        return kept if kept is not None and kept.expires > time.monotonic() else None

    def _change(self, key: str, kept: _Kept, ttl: Optional[float]) -> int:
        """Keep a key that is changed, as a new version; the lock is held."""
        now = time.monotonic()
        if now - self._swept > SWEEP_SECONDS:
            self._kept = {name: each for name, each in self._kept.items() if each.expires > now}
            self._swept = now
        kept.version, kept.ttl = next(self._versions), math.inf if ttl is None else ttl
        kept.expires = now + kept.ttl
        self._kept[key] = kept
        return kept.version

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """As `Store.put`."""
        with self._lock:
            kept = self._find(key) or _Kept()
            if expect is not None and kept.version != expect:
                return None
            kept.value = value
            version = self._change(key, kept, ttl)
        self.wake([key])
        return version

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """As `Store.get`."""
        with self._lock:
            kept = self._find(key)
            if kept is not None and renew:
                kept.expires = time.monotonic() + kept.ttl
            return None if kept is None else Entry(key, kept.value, kept.version)

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """As `Store.list`."""
        with self._lock:
            keys = sorted(
                key
                for key in self._kept
                if key.startswith(prefix) and key > after and self._find(key)
            )
            return [
                Entry(key, self._kept[key].value, self._kept[key].version) for key in keys[:limit]
            ]

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """As `Store.sizes`."""
        with self._lock:
            now = time.monotonic()
            return {
                key: len(kept.value)
                for key, kept in self._kept.items()
                if key.startswith(prefix) and kept.expires > now
            }

    def delete(self, key: str) -> bool:
        """As `Store.delete`."""
        with self._lock:
            found = self._find(key) is not None
            self._kept.pop(key, None)
        self.wake([key])
        return found

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """As `Store.append`."""
        with self._lock:
            kept = self._find(key) or _Kept()
            version = self._change(key, kept, ttl)
            kept.events.append((version, data))
            if most is not None:
                del kept.events[: max(0, len(kept.events) - most)]
        self.wake([key])
        return version

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """As `Store.read`."""
        with self._lock:
            kept = self._find(key)
            events = [] if kept is None else [event for event in kept.events if event[0] > after]
            if kept is not None and forget:
                kept.events = list(events)
            return events

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._kept)} keys>"
