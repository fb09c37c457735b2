"""What a client keeps of a server: results, as long as the server says that they stay true, and schemas of its tools.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
"""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional

from .. import schema
from ..errors import ProtocolViolation, one_line
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from ..types import ABSENT, CallToolResult, Text, Tool
from ..types.tool import WRAPPED

log = logging.getLogger("minimcp.client")

Result = dict[str, Json]

USES = ("use", "refresh", "bypass")
"""As ``cache=``: take what is kept, ask and keep the result, or have nothing to do with what is kept."""

CACHEABLE = {
    "server/discover": None, "resources/read": "resource_updated",
    "tools/list": "tools_list_changed", "prompts/list": "prompts_list_changed",
    "resources/list": "resources_list_changed", "resources/templates/list": "resources_list_changed",
}
"""The methods whose results say how long they stay true; by each, the kind of change that makes them stale."""

LONGEST = 24 * 60 * 60
"""Seconds for which a result is kept at most, whatever the server says."""

MOST_ENTRIES = 1000

NOT_CACHED = frozenset({"_meta", "inputResponses", "requestState"})
"""Params that make a request one of a kind."""

FASTMCP_WRAPPED = "x-fastmcp-wrap-result"
"""What FastMCP writes into an output schema in the place of `WRAPPED`: the value travels as ``{"result": value}``."""


class Key(NamedTuple):
    """What a result belongs to: nothing else is ever served for it."""

    revision: str
    method: str
    uri: Optional[str]
    """Of the resource that was read."""
    params: str
    """All of them, as JSON with sorted members."""

    @classmethod
    def of(cls, revision: Revision, method: str, params: Mapping[str, Json]) -> Optional[Key]:
        """The key of a request; None where no result is kept. Raises ValueError, TypeError: The params are no JSON."""
        if method not in CACHEABLE or not revision.cache_hints or not NOT_CACHED.isdisjoint(params):
            return None
        uri = params.get("uri")
        members = {name: params[name] for name in sorted(params)}
        return cls(revision.name, method, uri if isinstance(uri, str) else None, to_json(members))


class Cache:
    """Results of one server for one user, as JSON text, so that each caller gets a copy. Thread-safe.

    It belongs to one client, so private and public results are kept alike. There is no timer: a stale entry is dropped
    when it is asked for; when there is no more room, the entry that was not used for longest is dropped.

    Args:
        max_bytes: How many characters of JSON may be kept in all; None means no limit.
        now: Monotonic seconds.
    """

    def __init__(self, max_bytes: Optional[int] = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes, self._now = max_bytes, now
        self._entries: dict[Key, tuple[float, str]] = {}
        """Until when each is fresh, and its text."""
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
        """Keep a result that has come now, if it says that it stays true, and nothing was evicted since the mark."""
        ttl: Any = result.get("ttlMs")
        if type(ttl) not in (int, float) or not ttl > 0 or self._max_bytes == 0:
            return
        try:
            text = json.dumps(result, separators=(",", ":"))
            entry = (self._now() + min(ttl, LONGEST * 1000) / 1000, text)
        except RecursionError:  # it may nest deeper than can be written
            return
        with self._state_lock:
            if self.mark(key.method) == mark:
                self._entries.pop(key, None)
                self._entries[key] = entry
                self._make_room()

    def _make_room(self) -> None:
        size = sum(len(text) for _, text in self._entries.values())
        for key in list(self._entries):
            if len(self._entries) <= MOST_ENTRIES and (self._max_bytes is None or size <= self._max_bytes):
                return
            size -= len(self._entries.pop(key)[1])

    # ------------------------------------------------------------ eviction

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Something on the server has changed: what was kept of it goes, and what is being fetched is not kept.

        Args:
            kind: Of the `Change`; others evict nothing.
            uri: Of the resource: what lies above and below it goes too. None evicts all that was read.
        """
        for method, stale_by in CACHEABLE.items():
            if stale_by == kind:
                self.evict(method, uri)

    def evict(self, method: str, uri: Optional[str] = None) -> None:
        """Forget results of a method, about a resource or all; one that is being fetched is not kept."""
        with self._state_lock:
            self._evictions[method] = self.mark(method) + 1
            for key in [key for key in self._entries if key.method == method]:
                if uri is None or key.uri is None or _related(key.uri, uri):
                    del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        for method in CACHEABLE:
            self.evict(method)

    def __len__(self) -> int:
        return len(self._entries)


def _related(one: str, other: str) -> bool:
    """Whether two URIs are the same, or one lies below the other."""
    above, below = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return below.startswith(above)


# ------------------------------------------------------------ tools that were listed


class OutputSchemas:
    """The output schemas of one server's tools, as they were last listed, and the checks of results by them.

    Thread-safe: replaced as a whole. https://modelcontextprotocol.io/specification/2026-07-28/server/tools
    """

    def __init__(self) -> None:
        self._schemas: dict[str, Optional[dict[str, Any]]] = {}
        self._checks: dict[str, Callable[[Any], Optional[schema.Mismatch]]] = {}

    def remember(self, tools: Iterable[Tool]) -> None:
        """Take in a fresh list of tools."""
        self._schemas, self._checks = {tool.name: tool.output_schema for tool in tools}, {}

    def fill_in(self, name: str, result: CallToolResult, *, wraps: bool) -> bool:
        """Check a result against the tool's output schema and set its ``value``.

        Args:
            name: Of the tool.
            result: That is no error.
            wraps: Whether it may hold a wrapped value of a tool that no list has named: only its schema would tell.

        Returns:
            False where it may, so that the tools have to be listed first.

        Raises:
            ProtocolViolation: The structured content does not fit, or is missing though a schema was declared.
        """
        shape, structured = self._schemas.get(name), vars(result)["structured_content"]  # ABSENT where there is none
        if shape is not None:
            if structured is ABSENT:
                raise ProtocolViolation(f"{name} declares an output schema, and its result has no structured content")
            check = self._checks.get(name) or self._compiled(name, shape)
            problem = check(structured)
            if problem is not None:
                raise ProtocolViolation(f"the result of {name} breaks its output schema: {problem}", structured)
            if isinstance(structured, dict) and (shape.get(WRAPPED) is True or shape.get(FASTMCP_WRAPPED) is True):
                structured = structured["result"]
        elif wraps and name not in self._schemas and isinstance(structured, dict) and structured.keys() == {"result"}:
            return False
        elif not wraps:
            self._schemas.setdefault(name, None)  # what a list does not tell is not asked for again
        if structured is not ABSENT:
            result.value = structured
        elif result.content and all(isinstance(block, Text) for block in result.content):
            result.value = result.text
        return True

    def _compiled(self, name: str, shape: dict[str, Any]) -> Callable[[Any], Optional[schema.Mismatch]]:
        try:
            check = schema.compile_peer_check(shape, where=f"{name} output")
        except (ImportError, ValueError) as error:
            log.warning("results of %s are handed over unchecked: %s", one_line(name), error)
            check = lambda value: None  # noqa: E731
        if self._schemas.get(name) is shape:
            self._checks[name] = check
        return check
