"""Results that a client caches for as long as the server permits.

Imported when the first result may be cached.

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
from ..protocol.versions import CACHEABLE, Revision

log = logger("minimcp.client")

Result = dict[str, Json]

# Maximum seconds for which a result is cached, even if the server permits more.
MAX_SECONDS = 24 * 60 * 60

MAX_ENTRIES = 1000

# Requests with these params are never cached.
NOT_CACHED = frozenset({"_meta", "inputResponses", "requestState"})


class Key(NamedTuple):
    """Everything that a cached result depends on."""

    revision: str
    method: str
    # The normalized URI of a resource.
    uri: Optional[str]
    # All params as JSON with sorted members.
    params: str
    # The fingerprint of the access token, from `ClientSession.identity`.
    identity: str = ""

    @classmethod
    def of(
        cls, revision: Revision, method: str, params: Mapping[str, Json], identity: str = ""
    ) -> Optional[Key]:
        """Return the key of a request, or None if its result is never cached.

        Raises ValueError or TypeError if the params cannot be encoded as JSON.
        """
        if method not in CACHEABLE or not revision.cache_hints or not NOT_CACHED.isdisjoint(params):
            return None
        uri = params.get("uri")
        if not isinstance(uri, str):
            text = to_json(dict(sorted(params.items())))
            return cls(revision.name, method, None, text, identity)
        from ..protocol.urls import normalize_uri

        # The case of the host may matter to a server, as in "greeting://Ada".
        params = {**params, "uri": normalize_uri(uri, keep_values=True)}
        text = to_json(dict(sorted(params.items())))
        return cls(revision.name, method, normalize_uri(uri), text, identity)


class Cache:
    """Cached results of one client, as JSON text so that each caller gets a copy. Thread-safe.

    Each key belongs to one access token, so public and private results are cached alike. There is
    no timer: a stale entry is dropped when it is requested. If the cache is full, the least
    recently used entry is dropped.

    Args:
        max_bytes: Maximum memory of results and keys, in bytes; None means no limit.
        now: Returns monotonic seconds.
    """

    def __init__(
        self, max_bytes: Optional[int] = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_bytes = max_bytes
        self._now = now
        # For each key: when it becomes stale, the text, and the memory of key and text in bytes.
        self._entries: dict[Key, tuple[float, str, int]] = {}
        self._evictions: dict[str, int] = {}
        self._state_lock = threading.RLock()

    def find(self, key: Key) -> Optional[Result]:
        """Return a fresh result, or None."""
        with self._state_lock:
            entry = self._entries.pop(key, None)
            if entry is None or self._now() >= entry[0]:
                return None
            self._entries[key] = entry  # moved to the end: the most recently used entry
        return json.loads(entry[1])  # type: ignore[no-any-return]

    def mark(self, method: str) -> int:
        """Return a mark for `keep`. Take it before the request is sent."""
        return self._evictions.get(method, 0)

    def keep(self, key: Key, result: Result, mark: int) -> None:
        """Cache a result if the server permits it and nothing was evicted since the mark."""
        ttl: Any = result.get("ttlMs")
        if type(ttl) not in (int, float) or not ttl > 0 or self._max_bytes == 0:
            return
        try:
            text = json.dumps(result, separators=(",", ":"))
        except RecursionError:  # the result is nested too deeply to be encoded
            return
        expiry = self._now() + min(ttl, MAX_SECONDS * 1000) / 1000
        entry = (expiry, text, sum(map(getsizeof, (*key, text))))
        with self._state_lock:
            if self.mark(key.method) != mark:
                return
            self._entries.pop(key, None)
            self._entries[key] = entry
            size = sum(size for *_, size in self._entries.values())
            while len(self._entries) > MAX_ENTRIES or (
                self._max_bytes is not None and size > self._max_bytes
            ):
                size -= self._entries.pop(next(iter(self._entries)))[2]

    # ------------------------------------------------------------ eviction

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Drop the results that a change makes stale. Results of pending requests are not cached.

        Args:
            kind: The kind of the `Change`; other kinds drop nothing.
            uri: The URI of the resource. Results of resources above and below it are dropped too.
                None means all results of `resources/read`.
        """
        self.evict(*[method for method, stale_by in CACHEABLE.items() if stale_by == kind], uri=uri)

    def evict(self, *methods: str, uri: Optional[str] = None) -> None:
        """Drop the results of these methods, for one resource or all. Results of pending requests
        are not cached."""
        if uri is not None:
            from ..protocol.urls import normalize_uri

            uri = normalize_uri(uri)
        with self._state_lock:
            self._evictions.update({method: self.mark(method) + 1 for method in methods})
            for key in list(self._entries):
                if key.method in methods and (
                    uri is None or key.uri is None or _related(key.uri, uri)
                ):
                    del self._entries[key]

    def clear(self) -> None:
        """Drop all results."""
        self.evict(*CACHEABLE)


def _related(one: str, other: str) -> bool:
    """Return whether two normalized URIs are equal or one is below the other."""
    above, below = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return below.startswith(above)
