"""`CacheableCalls`: calls of which a server says how long their results stay true, and lists page after page.

Not here: what is kept, and what makes it stale (see `cache`).
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, TypeVar

from ..engine.connection import Connection
from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import InvalidParams, ProtocolViolation
from ..protocol.messages import Json
from .answering import Answerer
from .arguments import check_token
from .cache import CACHEABLE, Cache, Key
from .calls import Calls, OnProgress, Result
from .negotiation import Era
from .outputs import OutputChecks

if TYPE_CHECKING:
    from ..http.mirror import Mirror

T = TypeVar("T")

MOST_PAGES = 1000
"""Pages of one list; a server that has more is taken to go round in circles."""

USES = ("use", "refresh", "bypass")
"""As ``cache=``: take what is kept, ask and keep the result, or have nothing to do with what is kept."""

_NOT_CACHED = frozenset({"_meta", "inputResponses", "requestState"})
"""Params that make a request one of a kind."""


class CacheableCalls(Calls):
    """One connection's calls, and what is kept of them. Thread-safe; arguments as `Calls`, and:

    Args:
        cache: Where results are kept; None keeps none.
        mirror: What is to know of the tools that are listed; None for nothing.
    """

    def __init__(
        self,
        channel: Connection,
        era: Era,
        timeout: Optional[float],
        answerer: Answerer,
        cache: Optional[Cache],
        mirror: Optional[Mirror] = None,
    ) -> None:
        super().__init__(channel, era, timeout, answerer)
        self._cache, self.mirror = cache, mirror
        self.outputs = OutputChecks()
        """What was learned of the server's tools."""

    def fetch(
        self,
        method: str,
        params: Mapping[str, Json],
        deadline: Deadline,
        cancel: Optional[CancelToken],
        on_progress: Optional[OnProgress] = None,
        *,
        cache: str = "use",
        raw: bool = False,
    ) -> Result:
        """A result that is kept and fresh, or else a new one; arguments and errors as `Client.request`."""
        check_use(cache)
        kept, key = self._cache, self._key(method, params)
        if kept is None or key is None or cache == "bypass":
            return self.request(method, params, deadline, cancel, on_progress, raw=raw)
        check_token(cancel)
        self.check()
        found = kept.find(key) if cache == "use" else None
        if found is not None:
            return found
        mark = kept.mark(method)
        result = self.request(method, params, deadline, cancel, on_progress, raw=True)
        if not self.era.is_asking(result):
            if self._key(method, params) == key:  # the server may have changed its revision
                kept.keep(key, result, mark)
            return result
        return result if raw else self.finish(method, params, result, deadline, cancel, on_progress)

    def forget(self) -> None:
        """Keep nothing of what was kept."""
        if self._cache is not None:
            self._cache.clear()

    def _key(self, method: str, params: Mapping[str, Json]) -> Optional[Key]:
        """What a result belongs to; None where none is kept."""
        revision = self.era.revision
        if method not in CACHEABLE or not revision.cache_hints or not _NOT_CACHED.isdisjoint(params):
            return None
        return Key.of(revision.name, method, params)

    # ------------------------------------------------------------ lists

    def pages(
        self,
        method: str,
        member: str,
        read: Callable[[Any], T],
        deadline: Deadline,
        cancel: Optional[CancelToken],
        cache: str = "use",
    ) -> list[T]:
        """All items of a list, page after page; the deadline is for all pages together.

        A server that refuses the cursor of a later page is asked once more from the beginning: the pages before it may
        have been kept for too long.

        Raises:
            ProtocolViolation: A page makes no sense, a cursor comes twice, or there are over 1,000 pages.
        """

        def fetch(params: Mapping[str, Json]) -> Result:
            return self.fetch(method, params, deadline, cancel, cache=cache)

        try:
            return _walk(method, member, read, fetch)
        except _CursorRefused:
            if self._cache is not None:
                self._cache.evict(method)
        try:
            return _walk(method, member, read, fetch)
        except _CursorRefused as error:
            raise error.refusal from None


class _CursorRefused(Exception):
    """The server does not take a cursor of its own."""

    def __init__(self, refusal: InvalidParams) -> None:
        self.refusal = refusal


def _walk(
    method: str, member: str, read: Callable[[Any], T], fetch: Callable[[Mapping[str, Json]], Result]
) -> list[T]:
    items: list[T] = []
    cursors: set[str] = set()
    params: dict[str, Json] = {}
    for _ in range(MOST_PAGES):
        try:
            result = fetch(params)
        except InvalidParams as error:
            if not params:
                raise
            raise _CursorRefused(error) from None
        items.extend(_items(method, member, read, result))
        cursor = result.get("nextCursor")
        if cursor is None:
            return items
        if not isinstance(cursor, str) or cursor in cursors:
            raise ProtocolViolation(f"a cursor of {method} is a string that comes once", cursor)
        cursors.add(cursor)
        params = {"cursor": cursor}
    raise ProtocolViolation(f"{method} has more than {MOST_PAGES} pages")


def _items(method: str, member: str, read: Callable[[Any], T], result: Mapping[str, Json]) -> list[T]:
    listed = result.get(member)
    if not isinstance(listed, list):
        raise ProtocolViolation(f"a result of {method} has a list of {member}", result)
    try:
        return [read(item) for item in listed]
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None


def check_use(cache: str) -> None:
    """Return if this is a ``cache=`` of a call.

    Raises:
        ValueError: It is none.
    """
    if cache not in USES:
        raise ValueError(f'cache is "use", "refresh" or "bypass", not {cache!r}')
