"""Results that a client keeps as long as the server says that they stay true.

Imported when a result may be kept for the first time.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

import json
import threading
import time
from sys import getsizeof
from typing import Any, Callable, Mapping, NamedTuple, Optional

from ..log import logger
from ..protocol.messages import Json, to_json
from ..protocol.urls import normalize_uri
from ..protocol.versions import CACHEABLE, Revision

log = logger("minimcp.client")

Result = dict[str, Json]

# Seconds for which a result is kept at most, whatever the server says.
LONGEST = 24 * 60 * 60

MOST_ENTRIES = 1000

# Params that make a request one of a kind.
NOT_CACHED = frozenset({"_meta", "inputResponses", "requestState"})


class Key(NamedTuple):
    """What a result belongs to: nothing else is ever served for it."""

    revision: str
    method: str
    # Of the resource that was read, normalized.
    uri: Optional[str]
    # All of them, as JSON with sorted members.
    params: str
    # Who the server has authorized, as `ClientSession.identity` names it.
    identity: str = ""

    @classmethod
    def of(
        cls, revision: Revision, method: str, params: Mapping[str, Json], identity: str = ""
    ) -> Optional[Key]:
        """The key of a request; None where no result is kept. Raises ValueError, TypeError: The
        params are no JSON."""
        if method not in CACHEABLE or not revision.cache_hints or not NOT_CACHED.isdisjoint(params):
            return None
        uri = params.get("uri")
        if not isinstance(uri, str):
            text = to_json(dict(sorted(params.items())))
            return cls(revision.name, method, None, text, identity)
        # A server may see the case of a value in the host, as in "greeting://Ada".
        params = {**params, "uri": normalize_uri(uri, keep_values=True)}
        text = to_json(dict(sorted(params.items())))
        return cls(revision.name, method, normalize_uri(uri), text, identity)


class Cache:
    """Results of one server for one user, as JSON text, so that each caller gets a copy.
    Thread-safe.

    It belongs to one client, and each key to one access token, so private and public results are
    kept alike. There is no timer: a stale entry is dropped when it is asked for; when there is no
    more room, the entry that was not used for longest is dropped.

    Args:
        max_bytes: How many bytes of memory results and their keys may take in all; None means no
            limit.
        now: Monotonic seconds.
    """

    def __init__(
        self, max_bytes: Optional[int] = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._now = now
        # Until when each is fresh, its text, and the bytes of key and text.
        self._entries: dict[Key, tuple[float, str, int]] = {}
        self._evictions: dict[str, int] = {}
        self._state_lock = threading.RLock()

    def find(self, key: Key) -> Optional[Result]:
        """A fresh result; None when there is none."""
        with self._state_lock:
            entry = self._entries.pop(key, None)
            if entry is None or self._now() >= entry[0]:
                return None
            self._entries[key] = entry  # as the one that was used last
        return json.loads(entry[1])  # type: ignore[no-any-return]

    def mark(self, method: str) -> int:
        """What `keep` has to be given, asked for before the request is sent."""
        return self._evictions.get(method, 0)

    def keep(self, key: Key, result: Result, mark: int) -> None:
        """Keep a result that has come now, if it says that it stays true, and nothing was evicted
        since the mark."""
        ttl: Any = result.get("ttlMs")
        if type(ttl) not in (int, float) or not ttl > 0 or self._max_bytes == 0:
            return
        try:
            text = json.dumps(result, separators=(",", ":"))
            entry = (
                self._now() + min(ttl, LONGEST * 1000) / 1000,
                text,
                sum(map(getsizeof, (*key, text))),
            )
        except RecursionError:  # it may nest deeper than can be written
            return
        with self._state_lock:
            if self.mark(key.method) != mark:
                return
            self._entries.pop(key, None)
            self._entries[key] = entry
            size = sum(size for *_, size in self._entries.values())
            while len(self._entries) > MOST_ENTRIES or (
                self._max_bytes is not None and size > self._max_bytes
            ):
                size -= self._entries.pop(next(iter(self._entries)))[2]

    # ------------------------------------------------------------ eviction

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Something on the server has changed: what was kept of it goes, and what is being fetched
        is not kept.

        Args:
            kind: Of the `Change`; others evict nothing.
            uri: Of the resource: what lies above and below it goes too. None evicts all that was
                read.
        """
        self.evict(*[method for method, stale_by in CACHEABLE.items() if stale_by == kind], uri=uri)

    def evict(self, *methods: str, uri: Optional[str] = None) -> None:
        """Forget results of these methods, about a resource or all; what is being fetched is not
        kept."""
        with self._state_lock:
            self._evictions.update({method: self.mark(method) + 1 for method in methods})
            for key in list(self._entries):
                if key.method in methods and (
                    uri is None or key.uri is None or _related(key.uri, normalize_uri(uri))
                ):
                    del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        self.evict(*CACHEABLE)


def _related(one: str, other: str) -> bool:
    """Whether two normalized URIs are the same, or one lies below the other."""
    above, below = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return below.startswith(above)
