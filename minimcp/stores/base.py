"""`Store`: the interface for state that outlives a request. `MemoryStore` keeps it in the
process."""

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

# Seconds between two searches for expired keys.
SWEEP_SECONDS = 10.0

# The largest number that every store can compare. SQLite has 64 bits.
MAX_NUMBER = 2**63 - 1

NO_MEMBERS: Mapping[str, tuple[type, ...]] = {}

# Maximum depth of JSON in a record: the depth of a message, and of the record around it.
MAX_RECORD_DEPTH = 300


class StoreUnavailable(ConnectionError):
    """A remote store cannot be reached now, or does not answer correctly. A retry may succeed."""


class Entry(NamedTuple):
    """The value under a key of a store.

    Args:
        key: The key.
        value: The value that was given to `Store.put`; empty if the key has only events.
        version: The version of the last change. Versions increase over all keys of one store.
    """

    key: str
    value: bytes
    version: int


def store_key(audience: Sequence[str], name: str, kind: str, *parts: str) -> str:
    """Return the key of an entry. This function builds every key in a store.

    Different arguments never make the same key, because each text is percent-encoded. So servers
    and owners that share a store cannot reach each other's entries. A key is ASCII, whatever a peer
    sends.

    Args:
        audience: The audience of the server's tokens, without empty texts. It distinguishes servers
            of the same name. Empty if the server does not use tokens.
        name: The server's name.
        kind: The kind of entry, such as "task". The entries of one kind are listed together.
        parts: The owner within the server, and the id. End with an empty text for the prefix of all
            entries of the owner.
    """
    names = [",".join(map(_escaped, audience)), _escaped(name), _escaped(kind)]
    if parts:
        names.append(":".join(map(_escaped, parts)))
    return "/".join(names)


def owner_of(principal: Optional[str]) -> str:
    """Return the name of a principal in keys: a hash, because principals may be long or private.

    Without a principal it is "-", which all unauthenticated clients share.
    """
    if principal is None:
        return "-"
    from hashlib import sha256  # it loads OpenSSL

    return sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()


def _escaped(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")


def read_record(
    key: str, value: bytes, is_sound: Callable[[Any], bool]
) -> Optional[dict[str, Any]]:
    """Return the JSON object in a value or an event, or None if it is damaged.

    Every object in a store is read by this function, so a damaged one counts as missing. One line
    in the log reports it.

    Args:
        key: The key, for the log.
        value: The value or the event.
        is_sound: Returns whether the object has the right members. It may raise the exceptions that
            values of a wrong type cause.
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
    """Log that a value in the store is ignored because it cannot be read."""
    log.error("%.300s in the store cannot be read, and is ignored", key)


def has_members(
    value: Any,
    members: Mapping[str, tuple[type, ...]],
    optional: Mapping[str, tuple[type, ...]] = NO_MEMBERS,
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
    """Keeps values and events by key, each with a time to live. All methods are thread-safe.

    A subclass implements `put`, `get`, `list`, `delete`, `append` and `read`, and calls `wake` when
    a key has changed. If several processes share a store, all methods except `wake` have the same
    effect in each process. A key that was deleted or has expired behaves as if it had never
    existed. Any method may raise `StoreUnavailable`, or the exceptions of the store's library.
    """

    # Whether processes share it. Then any of them can serve any request of an HTTP session.
    shared = False

    def __init__(self) -> None:
        self._waiters: dict[str, set[threading.Event]] = {}
        self._waiters_lock = threading.Lock()

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """Set a value, if the key has the expected version.

        Args:
            key: The key.
            value: The new value.
            ttl: Seconds until the key expires with its events; None means never.
            expect: The version that the key must have. 0 means that the key must not exist; if
                None, the value is set in any case.

        Returns:
            The new version; None if the key does not have the expected version. Then nothing was
            set.
        """
        raise NotImplementedError

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """Return the entry of a key, or None.

        Args:
            key: The key.
            renew: Whether its time to live starts again, with its last value.
        """
        raise NotImplementedError

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """Return the entries whose keys begin with a prefix, in order of keys.

        Args:
            prefix: The prefix. Keys that are listed together have no slash after its last slash. An
                empty prefix lists the keys without a slash.
            after: Only keys after this one are returned.
            limit: Maximum number of entries; None means no limit.
        """
        raise NotImplementedError

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Return the length in bytes of each value whose key begins with a prefix.

        Stores should count without loading the values. This default implementation loads them.

        Args:
            prefix: The prefix, as for `list`.
        """
        return {entry.key: len(entry.value) for entry in self.list(prefix)}

    def delete(self, key: str) -> bool:
        """Delete a key and its events. Return False if it did not exist."""
        raise NotImplementedError

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """Add an event to a key, which is created if necessary.

        Args:
            key: The key.
            data: The event.
            ttl: Seconds until the key expires with all its events; None means never.
            most: Maximum number of events to keep, the newest ones; None means all.

        Returns:
            The number of the event, which is the new version of the key.
        """
        raise NotImplementedError

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """Return the events of a key after a number, in order, each with its number.

        Numbers increase, with gaps.

        Args:
            key: The key.
            after: The number; 0 returns all events.
            forget: Whether to delete the events up to this number.
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
        """Wait until one of several keys has a newer version or does not exist.

        A change between reading a key and waiting for it is noticed. The end of a time to live is
        not.

        Args:
            keys: The keys.
            after: The version that the caller knows; the highest one for several keys.
            timeout: Seconds to wait; None means no limit.
            cancel: Ends the wait as the timeout does; None for a wait that cannot be cancelled.

        Returns:
            False if the timeout passed first.
        """
        keys = set(keys)
        woken = threading.Event()
        deadline = Deadline(timeout)
        forget = None if cancel is None else cancel.on_cancel(woken.set)
        with self._waiters_lock:
            for key in keys:
                self._waiters.setdefault(key, set()).add(woken)
        try:
            self.watch(keys)
            # The event is registered before the first check, so no change is missed.
            while True:
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
        """Arrange that changes of these keys by other processes wake the threads that wait here."""

    def _changed(self, keys: Iterable[str], after: int) -> bool:
        entries = [self.get(key) for key in keys]
        return any(entry is None or entry.version > after for entry in entries)

    def wake(self, keys: Iterable[str]) -> None:
        """Wake the threads of this process that wait for one of these keys. Never blocks."""
        if not self._waiters:  # a thread that starts to wait now checks the keys itself
            return
        with self._waiters_lock:
            for key in keys:
                for woken in self._waiters.get(key, ()):
                    woken.set()


class _Kept:
    """A key of a `MemoryStore`."""

    __slots__ = ("events", "expires", "ttl", "value", "version")

    def __init__(self) -> None:
        self.value = b""
        self.version = 0
        self.ttl = math.inf
        self.expires = math.inf
        self.events: list[tuple[int, bytes]] = []


class MemoryStore(Store):
    """Keeps values and events while this process runs. A forked child has its own copy.
    Thread-safe."""

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
        """Store a changed key with a new version. The caller holds the lock."""
        now = time.monotonic()
        if now - self._swept > SWEEP_SECONDS:
            self._kept = {name: each for name, each in self._kept.items() if each.expires > now}
            self._swept = now
        kept.version = next(self._versions)
        kept.ttl = math.inf if ttl is None else ttl
        kept.expires = now + kept.ttl
        self._kept[key] = kept
        return kept.version

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """See `Store.put`."""
        with self._lock:
            kept = self._find(key) or _Kept()
            if expect is not None and kept.version != expect:
                return None
            kept.value = value
            version = self._change(key, kept, ttl)
        self.wake([key])
        return version

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """See `Store.get`."""
        with self._lock:
            kept = self._find(key)
            if kept is not None and renew:
                kept.expires = time.monotonic() + kept.ttl
            return None if kept is None else Entry(key, kept.value, kept.version)

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """See `Store.list`."""
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
        """See `Store.sizes`."""
        with self._lock:
            now = time.monotonic()
            return {
                key: len(kept.value)
                for key, kept in self._kept.items()
                if key.startswith(prefix) and kept.expires > now
            }

    def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        with self._lock:
            found = self._find(key) is not None
            self._kept.pop(key, None)
        self.wake([key])
        return found

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """See `Store.append`."""
        with self._lock:
            kept = self._find(key) or _Kept()
            version = self._change(key, kept, ttl)
            kept.events.append((version, data))
            if most is not None:
                del kept.events[: max(0, len(kept.events) - most)]
        self.wake([key])
        return version

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """See `Store.read`."""
        with self._lock:
            kept = self._find(key)
            events = [] if kept is None else [event for event in kept.events if event[0] > after]
            if kept is not None and forget:
                kept.events = list(events)
            return events

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._kept)} keys>"
