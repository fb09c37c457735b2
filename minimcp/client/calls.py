"""One call of a client: the loop that sends its request until there is a result, results that are kept, and pages.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Optional, TypeVar

from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import Busy, InvalidParams, ProtocolViolation, UnsupportedRevision
from ..protocol.lifecycle import Handshake
from ..protocol.messages import Json
from .cache import USES, Key
from .host import Host, Result
from .input_rounds import InputRounds
from .reconnect import OpenSession, Reconnector
from .session import Cancel, OnProgress, Outcome, Params, check_token

T = TypeVar("T")

NOT_RUN = (SessionGone, UnsupportedRevision, Busy)
"""What says that the server did not run a request, which so may be sent again."""

BUSY_TRIES, LONGEST_BUSY = 3, 60
"""How often a request is sent again that the server was too busy for (HTTP 429), and after how many seconds at most."""

MOST_PAGES = 1000
"""Pages of one list; a server that has more is taken to go round in circles."""


class Call:
    """One call that a program makes, of one request or several. Used by one thread at a time.

    Args:
        sessions: Where the session comes from that it goes to.
        host: Answers the server's questions.
        deadline: When the call is given up, whatever it takes.
        cancel: Ends it from another thread; None for one that nobody cancels.
        capability: That the server must declare; None asks for none.

    Raises:
        CapabilityNotSupported: It does not.
        McpError: As `Reconnector.current`.
    """

    def __init__(
        self, sessions: Reconnector, host: Host, deadline: Deadline, cancel: Cancel = None,
        capability: Optional[str] = None,
    ) -> None:
        self._sessions, self._host, self.deadline, self.cancel = sessions, host, deadline, cancel
        self.opened: OpenSession = sessions.current(deadline, cancel)
        self.session = self.opened.session
        if capability is not None and not self.session.era.peer.supports(capability):
            self.session.need(capability)

    def within(self, seconds: Optional[float], cancel: Cancel) -> Call:
        """A call that is a part of this one, with a deadline and a token of its own."""
        part = copy(self)
        part.deadline, part.cancel = self.deadline.within(seconds), cancel
        return part

    def request(
        self, method: str, params: Params, on_progress: Optional[OnProgress] = None, *, raw: bool = False,
        first: Optional[Outcome] = None,
    ) -> Result:
        """Send a request, again with the host's answers, and again where the server says that it did not run it.

        Arguments and errors as `Client.request`, and:

        Args:
            first: What came of it already; None when it has not been sent.
        """
        rounds: Optional[InputRounds] = None
        refusals: list[type] = []
        sent, outcome = params, first
        while True:
            if outcome is None:
                try:
                    outcome = self.session.request(method, sent, self.deadline, self.cancel, on_progress)
                except NOT_RUN as refusal:
                    outcome = refusal
            if isinstance(outcome, Exception):
                self.renew(outcome, refusals)
            elif raw or not self.session.era.is_asking(outcome):
                return outcome
            else:
                rounds = rounds or InputRounds(self._host, method, params)
                sent, refusals = rounds.next_params(self.session, outcome, self.deadline, self.cancel), []
            outcome = None

    def renew(self, refusal: Exception, before: list[type]) -> None:
        """Find out where, and wait until, a request can be sent again that the server has not run.

        Args:
            refusal: What came instead of a result; raised where sending it again is of no use.
            before: The types of earlier refusals of the same request; this one is added.
        """
        session, is_again = self.session, type(refusal) in before
        if isinstance(refusal, Busy):
            left = self.deadline.remaining()
            if before.count(Busy) == BUSY_TRIES or refusal.seconds > LONGEST_BUSY:
                raise refusal
            if left is not None and refusal.seconds >= left:
                raise refusal
            session.sleep(Deadline(refusal.seconds), self.cancel)
        elif isinstance(refusal, SessionGone):
            if not refusal.refused or not self._sessions.can_begin:
                raise refusal
            if is_again:
                refusal.args = (f"{refusal}, and the one before it: do several processes serve this URL? They need a "
                                "proxy that sends a client to the same one always, or sessions=False",)
                raise refusal
            session.wait_until_ended(self.deadline.remaining())
            self.opened = self._sessions.after(self.opened, self.deadline, self.cancel)
            self.session = self.opened.session
        else:
            assert isinstance(refusal, UnsupportedRevision)
            era = session.era
            if is_again or not refusal.from_peer or isinstance(era, Handshake) or not era.adopt(refusal):
                raise refusal
        before.append(type(refusal))

    def fetch(
        self, method: str, params: Params, on_progress: Optional[OnProgress] = None, *, cache: str = "use",
        raw: bool = False,
    ) -> Result:
        """A result that is kept and fresh, or else a new one. Arguments and errors as `Client.request`."""
        if cache not in USES:
            raise ValueError(f'cache is "use", "refresh" or "bypass", not {cache!r}')
        kept, era = self._host.cache, self.session.era
        key = None if kept is None or cache == "bypass" else Key.of(era.revision, method, params)
        if kept is None or key is None:
            return self.request(method, params, on_progress, raw=raw)
        check_token(self.cancel)
        self.session.check()
        found = kept.find(key) if cache == "use" else None
        if found is not None:
            return found
        mark = kept.mark(method)
        result = self.request(method, params, on_progress, raw=True)
        if era.is_asking(result):
            return result if raw else self.request(method, params, on_progress, first=result)
        if Key.of(era.revision, method, params) == key:  # the server may have changed its revision
            kept.keep(key, result, mark)
        return result

    def pages(self, method: str, member: str, read: Callable[[Any], T], cache: str) -> list[T]:
        """All items of a list, page after page.

        A server that refuses the cursor of a later page is asked once more from the beginning: the pages before it may
        have been kept for too long.

        Args:
            method: Of the list.
            member: Of each result, that has the items.
            read: Makes an object of an item; ValueError says that it makes no sense.
            cache: As `Client.request`.

        Raises:
            ProtocolViolation: A page makes no sense, a cursor comes twice, or there are over 1,000 pages.
        """
        items: list[T] = []
        cursors: set[str] = set()
        params: dict[str, Json] = {}
        is_second_walk = False
        while len(cursors) < MOST_PAGES:
            try:
                result = self.fetch(method, params, cache=cache)
            except InvalidParams:
                if not params or is_second_walk:
                    raise
                if self._host.cache is not None:
                    self._host.cache.evict(method)
                items, cursors, params, is_second_walk = [], set(), {}, True
                continue
            if not isinstance(result.get(member), list):
                raise ProtocolViolation(f"a result of {method} has a list of {member}", result)
            items += read_result(method, lambda result: [read(item) for item in result[member]], result)
            cursor = result.get("nextCursor")
            if cursor is None:
                return items
            if not isinstance(cursor, str) or cursor in cursors:
                raise ProtocolViolation(f"a cursor of {method} is a string that comes once", cursor)
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise ProtocolViolation(f"{method} has more than {MOST_PAGES} pages")


def read_result(method: str, read: Callable[[Any], T], result: Params) -> T:
    """A result as an object. Raises ProtocolViolation: it makes no sense."""
    try:
        return read(result)
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None
