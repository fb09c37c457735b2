"""What a client keeps of a server's results, as long as the server says that they stay true.

Not here: which calls look into it (see `cacheable`).
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

import json
import time
from threading import RLock
from typing import Any, Callable, Mapping, NamedTuple, Optional

from ..protocol.messages import Json, to_json

Result = dict[str, Json]

LISTS = {
    "tools_list_changed": ("tools/list",),
    "prompts_list_changed": ("prompts/list",),
    "resources_list_changed": ("resources/list", "resources/templates/list"),
}
"""By kind of change: the methods whose results it makes stale."""

READ = "resources/read"

CACHEABLE = frozenset({"server/discover", READ}.union(*LISTS.values()))
"""The methods whose results say how long they stay true."""

LONGEST = 24 * 60 * 60
"""Seconds for which a result is kept at most, whatever the server says."""

MOST_ENTRIES = 1000


class Key(NamedTuple):
    """What a result belongs to: nothing else is ever served for it."""

    revision: str
    method: str
    uri: Optional[str]
    """Of the resource that was read."""
    params: str
    """All of them, as JSON with sorted members."""

    @classmethod
    def of(cls, revision: str, method: str, params: Mapping[str, Json]) -> Key:
        """The key of a request. Raises ValueError, TypeError: The params are no JSON."""
        uri = params.get("uri")
        members = {name: params[name] for name in sorted(params)}
        return cls(revision, method, uri if isinstance(uri, str) else None, to_json(members))


class _Entry(NamedTuple):
    until: float
    text: str


class Cache:
    """Results of one server for one user, as JSON text: whoever is served gets a copy. Thread-safe, never blocks.

    It is one client's, so what is private and what is public is kept alike. There is no timer: what is stale goes when
    somebody asks for it, or when there is no more room; the entry that was not used for longest goes first.

    Args:
        max_bytes: How many characters of JSON may be kept in all; None means no limit.
        now: Monotonic seconds.
    """

    def __init__(self, max_bytes: Optional[int] = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes, self._now = max_bytes, now
        self._entries: dict[Key, _Entry] = {}
        self._evictions: dict[str, int] = {}
        self._state_lock = RLock()  # a signal handler may call in the middle of anything

    def find(self, key: Key) -> Optional[Result]:
        """A fresh result; None when there is none."""
        with self._state_lock:
            entry = self._entries.pop(key, None)
            if entry is None or self._now() >= entry.until:
                return None
            self._entries[key] = entry  # as the one that was used last
        return json.loads(entry.text)  # type: ignore[no-any-return]

    def mark(self, method: str) -> int:
        """What `keep` has to be given, asked for before the request is sent."""
        return self._evictions.get(method, 0)

    def keep(self, key: Key, result: Result, mark: int) -> None:
        """Keep a result that has come now, if it says that it stays true, and nothing was evicted since the mark."""
        seconds = _seconds(result.get("ttlMs"))
        if seconds <= 0:
            return
        try:
            entry = _Entry(self._now() + seconds, json.dumps(result, separators=(",", ":")))
        except RecursionError:  # it may nest deeper than can be written
            return
        with self._state_lock:
            if self.mark(key.method) == mark:
                self._entries.pop(key, None)
                self._entries[key] = entry
                self._make_room()

    def _make_room(self) -> None:
        size = sum(len(entry.text) for entry in self._entries.values())
        for key in list(self._entries):
            if len(self._entries) <= MOST_ENTRIES and (self._max_bytes is None or size <= self._max_bytes):
                return
            size -= len(self._entries.pop(key).text)

    # ------------------------------------------------------------ eviction

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Something on the server has changed: what was kept of it goes, and what is being fetched is not kept.

        Args:
            kind: Of the `Change`; others evict nothing.
            uri: Of the resource: what lies above and below it goes too. None evicts all that was read.
        """
        for method in LISTS.get(kind, ()):
            self.evict(method)
        if kind == "resource_updated":
            self.evict(READ, lambda key: uri is None or key.uri is None or _related(key.uri, uri))

    def evict(self, method: str, condition: Callable[[Key], bool] = lambda key: True) -> None:
        """Forget results of a method; one that is being fetched is not kept."""
        with self._state_lock:
            self._evictions[method] = self.mark(method) + 1
            for key in [key for key in self._entries if key.method == method and condition(key)]:
                del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        for method in CACHEABLE:
            self.evict(method)

    def __len__(self) -> int:
        return len(self._entries)


def _seconds(ttl: Any) -> float:
    """How long a result is kept whose ``ttlMs`` this is; what makes no sense is 0."""
    if type(ttl) is not int and type(ttl) is not float:
        return 0
    return min(ttl, LONGEST * 1000) / 1000


def _related(one: str, other: str) -> bool:
    """Whether two URIs are the same, or one lies below the other."""
    above, below = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return below.startswith(above)
