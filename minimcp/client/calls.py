"""One call of a client: the loop that sends its request until there is a result, results that are
kept, and pages.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

import logging
import threading
from copy import copy
from functools import partial
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

from ..engine.cancel import CancelToken
from ..engine.timer import NEVER, Deadline
from ..errors import (
    Busy,
    ConnectionLost,
    InvalidParams,
    MethodNotFound,
    ProtocolViolation,
    RpcError,
    SessionGone,
    UnsupportedRevision,
)
from ..log import logger
from ..protocol.lifecycle import INPUT_REQUIRED, PerRequest
from ..protocol.messages import Failure, Json, size_of
from ..protocol.versions import CACHEABLE
from ..text import one_line
from ..types.base import Faults, Wire
from .host import Answerer, Host, Result
from .session import (
    MOST_BUSY,
    Cancel,
    ClientSession,
    OnProgress,
    Outcome,
    Params,
    check_token,
    deadline_of,
    wait_until,
)

log = logger("minimcp.client")

T = TypeVar("T")
W = TypeVar("W", bound=Wire)
Seconds = Optional[float]

# What says that the server did not run a request, and how often it is sent again then.
TRIES: dict[type[Exception], int] = {Busy: MOST_BUSY, SessionGone: 1, UnsupportedRevision: 1}

NOT_RUN: tuple[type[Exception], ...] = tuple(TRIES)

# Pages of one list; a server that has more is taken to go round in circles.
MOST_PAGES = 1000

# Bytes of memory of one list, whose tools' schemas are kept.
LIST_BYTES = 128 * 1024 * 1024

# Questions in one result.
MOST_QUESTIONS = 1000

# How often one call is sent again with answers; a server that asks more often is taken to ask for
# ever.
MOST_ROUNDS = 10

# Seconds before a call is sent again that the server only put off; the pause doubles with each
# round.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.25


# Members by which a warning names a malformed item of a list.
NAMING = ("name", "uri", "uriTemplate", "taskId")

# Warnings about malformed parts of results that one client remembers, so that it does not repeat
# them.
MAX_REPORTED = 1000


# As ``cache=``: use a kept result, request a new one and keep it, or ignore the cache.
USES = ("use", "refresh", "bypass")

# As ``timeout=``: what the client was connected with.
DEFAULT: Any = ...


class Sessions:
    """The sessions of one client, of which it uses the newest. This class begins no second one.

    Args:
        first: The session.
        host: The host's side of all of them.
        timeout: Seconds for one call, if the call itself does not say; None means no limit.

    Attributes:
        begin: Begins the next session; None if there will be none. See `reconnect`.
    """

    begin: Any = None

    def __init__(self, first: ClientSession, host: Host, timeout: Optional[float]) -> None:
        self.newest = first
        self.host = host
        self.timeout = timeout
        self._stop = CancelToken()

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._stop.cancelled

    @property
    def restarts(self) -> bool:
        """Whether another session follows when this one is lost."""
        return False

    def after(self, lost: ClientSession, deadline: Deadline, cancel: Cancel) -> ClientSession:
        """Return the session that replaces a lost one, which is the lost one if none does.

        Args:
            lost: The session.
            deadline: When to stop waiting for the next one.
            cancel: Ends the wait; None for one that nobody cancels.

        Raises:
            ConnectionLost: The client was closed.
            McpError: As `Reconnector.after`.
        """
        if self.closed:
            raise ConnectionLost(
                f"{lost.name}: this client is closed: call it inside its with block"
            )
        return self.newest

    def close(self) -> None:
        """End the newest session for good. Idempotent, from any thread."""
        self._stop.cancel("the client was closed")
        self.newest.close()

    def abandon(self) -> None:
        """End the newest session without waiting for anything, for a finalizer."""
        self._stop.cancel("the client was closed")
        self.newest.abandon()


class Call:
    """One call that a program makes, of one request or several. Used by one thread at a time.

    Args:
        sessions: Where the session comes from that it goes to.
        timeout: Seconds after which the call is given up, whatever it takes; None never.
        cancel: Ends it from another thread; None for one that nobody cancels.
        capability: That the server must declare; None asks for none.

    Raises:
        CapabilityNotSupported: It does not.
        McpError: As `Sessions.after`.
    """

    def __init__(
        self,
        sessions: Sessions,
        timeout: Seconds,
        cancel: Cancel = None,
        capability: Optional[str] = None,
    ) -> None:
        self._sessions = sessions
        self._host = sessions.host
        self.cancel = cancel
        self.deadline = (
            Deadline(sessions.timeout) if timeout is DEFAULT else deadline_of("timeout", timeout)
        )
        self.session = sessions.newest
        if self.session.calls.cause is not None:
            self.session = sessions.after(self.session, self.deadline, cancel)
        if (
            capability is not None
            and type(self.session.era.peer.capabilities.get(capability)) is not dict
        ):
            self.session.need(capability)

    def within(self, seconds: Optional[float], cancel: Cancel) -> Call:
        """A call that is a part of this one, with a deadline and a token of its own."""
        part = copy(self)
        part.deadline = self.deadline.within(seconds)
        part.cancel = cancel
        return part

    # ------------------------------------------------------------ one request

    def request(
        self,
        method: str,
        params: Params,
        on_progress: Optional[OnProgress] = None,
        *,
        raw: bool = False,
        first: Optional[Outcome] = None,
    ) -> Result:
        """Send a request, again with the host's answers, and again where the server says that it
        did not run it.

        Arguments and errors as `Client.request`, and:

        Args:
            first: The outcome of the first sending, where all calls were sent at once; None when it
                is to be sent.
        """
        sent, outcome, rounds = params, first, 0
        refusals: list[type] = []
        while True:
            if outcome is None:
                try:
                    outcome = self.session.request(
                        method, sent, self.deadline, self.cancel, on_progress
                    )
                except NOT_RUN as refusal:
                    outcome = refusal
            if isinstance(outcome, Exception):
                answer = self._answer_or_renewal(outcome, refusals)
                outcome = None if answer is None else self.session.result_of(method, answer)
                if outcome is None:
                    continue
            if raw or self.session.era.revision.handshake:
                return outcome
            elif outcome.get("resultType") != INPUT_REQUIRED:
                known = self._host.result_types.get(outcome.get("resultType", ""))
                return outcome if known is None else known[1](self, method, params, outcome)
            else:
                rounds += 1
                sent, refusals = self._answered(method, params, outcome, rounds), []
            outcome = None

    def renew(self, refusal: Exception, before: list[type]) -> None:
        """Find out where, and wait until, a request can be sent again that the server has not run.

        Args:
            refusal: What came instead of a result; raised where sending it again is of no use.
            before: The types of earlier refusals of the same request; this one is added.
        """
        session, is_last = self.session, before.count(type(refusal)) == TRIES.get(type(refusal))
        if isinstance(refusal, Busy):
            if is_last or not session.wait_while_busy(refusal, self.deadline, self.cancel):
                raise refusal
        elif isinstance(refusal, SessionGone):
            if not refusal.refused or self._sessions.begin is None:
                raise refusal
            if is_last:
                refusal.args = (
                    f"{refusal}, and the one before it: do several processes serve this URL? "
                    "They need a "
                    "proxy that sends a client to the same one always, or sessions=False",
                )
                raise refusal
            session.wait_until_ended(self.deadline.remaining())
            self.session = self._sessions.after(session, self.deadline, self.cancel)
        elif not (
            isinstance(refusal, UnsupportedRevision)
            and refusal.from_peer
            and not is_last
            and isinstance(session.era, PerRequest)
            and session.era.adopt(refusal)
        ):
            raise refusal
        before.append(type(refusal))

    def _answer_or_renewal(
        self, refusal: Exception, before: list[type]
    ) -> Union[Result, Failure, None]:
        """Prepare to send a request again, as `renew`; None says that it can be sent.

        If the server stays busy, return the response that it sent with its refusal.
        """
        try:
            self.renew(refusal, before)
        except Busy as busy:
            if busy.answer is None:
                raise
            answer: Union[Result, Failure] = busy.answer
            return answer
        return None

    # ------------------------------------------------------------ questions to the host

    def _answered(self, method: str, params: Params, result: Result, rounds: int) -> Params:
        """Answer the questions of a result; the params to send the call again with.

        Args:
            method: Of the call.
            params: Of the call; each round sends them again, without what belongs to an earlier
                round.
            result: Which asks for input.
            rounds: How many there have been, with this one.

        Raises:
            Refused: A handler of the host refuses or fails.
            ProtocolViolation: The questions make no sense, were not declared, or come more than ten
                times.
            Cancelled, ConnectionLost: As named.

        Blocks: until the host has answered.
        """
        asked, state = result.get("inputRequests"), result.get("requestState")
        if rounds > MOST_ROUNDS:
            raise ProtocolViolation(f"{method} asks at most {MOST_ROUNDS} times for input", result)
        is_sound = isinstance(asked, (dict, type(None))) and isinstance(state, (str, type(None)))
        if not is_sound or not (asked or state is not None) or len(asked or ()) > MOST_QUESTIONS:
            what = f"an object of at most {MOST_QUESTIONS} inputRequests and a string requestState"
            raise ProtocolViolation(f"{method} asks with {what}", result)
        following = {
            name: params[name] for name in params if name not in ("inputResponses", "requestState")
        }
        if state is not None:
            following["requestState"] = state
        if not asked:
            pause = min(FIRST_PAUSE * 2 ** (rounds - 1), LONGEST_PAUSE)
            self.session.sleep(self.deadline.within(pause), self.cancel)
            return following
        self.deadline.pause()
        try:
            return {**following, "inputResponses": self.answers(method, asked)}
        finally:
            self.deadline.resume()

    def answers(self, method: str, asked: Mapping[str, Json]) -> Result:
        """The host's answers by key; all questions are checked before the first is asked.

        Args:
            method: Of the call that asks.
            asked: Questions by key, each with its method and params.

        Raises:
            Refused, ProtocolViolation, Cancelled, ConnectionLost: As `Client.request`.
        """
        given_up = CancelToken()
        questions = {key: self._question(method, one, given_up) for key, one in asked.items()}
        answers: Result = {}
        errors: list[BaseException] = []
        changed = threading.Condition()

        def run(key: str, answer: Answerer) -> None:
            try:
                if not given_up.cancelled:
                    answers[key] = answer()
            except BaseException as error:
                errors.append(error)
            with changed:
                changed.notify_all()

        try:
            for key, answer in questions.items():
                self._host.pool.submit(partial(run, key, answer))
            done = lambda: bool(errors) or len(answers) == len(questions)  # noqa: E731
            wait_until(done, changed, NEVER, self.cancel, self.session)
        finally:
            given_up.cancel()
        if errors:
            raise errors[0]
        return {key: answers[key] for key in questions}

    def _question(self, method: str, one: Any, asked: CancelToken) -> Answerer:
        kind, params = (
            (one.get("method"), one.get("params")) if isinstance(one, dict) else (None, None)
        )
        if kind is not None and params is None:
            params = {}
        if not isinstance(kind, str) or not isinstance(params, dict):
            raise ProtocolViolation(f"{method} asks with a method and params", one)
        try:
            return self._host.read(kind, params, self.session.era.peer, asked)
        except MethodNotFound:
            raise ProtocolViolation(
                f"{method} asks only what the client declares, not {one_line(kind)}", one
            ) from None
        except InvalidParams as error:
            raise ProtocolViolation(f"{method} asks for input: {error}", one) from None

    # ------------------------------------------------------------ results that are kept, and pages

    def fetch(
        self,
        method: str,
        params: Params,
        on_progress: Optional[OnProgress] = None,
        *,
        cache: str = "use",
        raw: bool = False,
    ) -> Result:
        """A result that is kept and fresh, or else a new one. Arguments and errors as
        `Client.request`."""
        if cache not in USES:
            raise ValueError(f'cache is "use", "refresh" or "bypass", not {cache!r}')
        era = self.session.era
        if cache == "bypass" or method not in CACHEABLE or not era.revision.cache_hints:
            return self.request(method, params, on_progress, raw=raw)
        from .cache import Key

        kept = self._host.needed_cache()
        identify = self.session.identity
        key = Key.of(era.revision, method, params, identify())
        if key is None:
            return self.request(method, params, on_progress, raw=raw)
        check_token(self.cancel)
        self.session.check()
        found = kept.find(key) if cache == "use" else None
        if found is not None:
            return found
        mark = kept.mark(method)
        result = self.request(method, params, on_progress, raw=True)
        if result.get("resultType") == INPUT_REQUIRED:
            return result if raw else self.request(method, params, on_progress, first=result)
        # Meanwhile the server may have changed its revision, and the client its access token.
        if Key.of(era.revision, method, params, identify()) == key:
            kept.keep(key, result, mark)
        return result

    def pages(self, method: str, member: str, read: Callable[[Any], T], cache: str) -> list[T]:
        """All items of a list, page after page.

        A malformed item is left out, and a warning names it. A server that refuses the cursor of a
        later page is asked once more from the beginning: the pages before it may have been kept for
        too long.

        In revisions with a handshake, servers in Go and Java write an empty cursor on the last
        page. It is followed once. If it leads to an error, to the first page again or to another
        empty cursor, the list ends there.

        Args:
            method: Of the list.
            member: Of each result, that has the items.
            read: Makes an object of an item, such as `Tool.from_wire`. ValueError and
                ProtocolViolation reject the item.
            cache: As `Client.request`.

        Raises:
            ProtocolViolation: The first page is not a list, a cursor comes twice, or there are over
                1,000 pages, or 128 MiB.
        """
        items: list[T] = []
        cursors: set[int] = set()  # their hashes, for one may be as long as a message
        params: dict[str, Json] = {}
        first_page: Json = None
        left = LIST_BYTES
        is_second_walk = False
        while len(cursors) < MOST_PAGES:
            may_be_over = params.get("cursor") == "" and self.session.era.revision.handshake
            try:
                result = self.fetch(method, params, cache=cache)
            except RpcError as error:
                if may_be_over:
                    return items
                if not params or is_second_walk or not isinstance(error, InvalidParams):
                    raise
                if self._host.cache is not None:
                    self._host.cache.evict(method)
                items, cursors, params, left, is_second_walk = [], set(), {}, LIST_BYTES, True
                continue
            page = result.get(member)
            if page is None:
                self.report(method, f"{member} is missing: read as an empty list")
                page = []
            if not isinstance(page, list):
                rule = f"a result of {method} has a list of {member}"
                if not params:
                    raise ProtocolViolation(rule, result)
                self.report(method, f"{rule}: the list ends here, and may be incomplete")
                return items
            if may_be_over and page == first_page:
                return items
            first_page = page if first_page is None else first_page
            left -= size_of(page, left)
            if left < 0:
                raise ProtocolViolation(f"{method} lists more than {LIST_BYTES} bytes of memory")
            items += self._readable(method, member, read, page)
            cursor = result.get("nextCursor")
            if cursor is None or (may_be_over and cursor == ""):
                return items
            if not isinstance(cursor, str):
                self.report(
                    method,
                    f"nextCursor must be a string, not {one_line(cursor)}: the list ends here, and "
                    "may be incomplete",
                )
                return items
            if hash(cursor) in cursors:
                raise ProtocolViolation(f"a cursor of {method} is a string that comes once", cursor)
            cursors.add(hash(cursor))
            params = {"cursor": cursor}
        raise ProtocolViolation(f"{method} has more than {MOST_PAGES} pages")

    # ------------------------------------------------------------ malformed parts

    def _readable(
        self, method: str, member: str, read: Callable[[Any], T], page: list[Json]
    ) -> list[T]:
        """Return the items of a page without those that cannot be read, and log each fault."""
        items: list[T] = []
        faults = Faults(member)
        salvage = getattr(getattr(read, "__self__", None), "salvage", None)
        for index, item in enumerate(page):
            part, before = faults.at(index), len(faults.found)
            try:
                items.append(read(item))
                continue
            except (ValueError, ProtocolViolation) as error:
                fault = error
            known = item if isinstance(item, dict) else {}
            name = next((known[key] for key in NAMING if isinstance(known.get(key), str)), None)
            part.where += "" if name is None else f" ({one_line(name)!r:.80})"
            try:
                if salvage is None:
                    raise fault
                items.append(salvage(item, part))
            except (ValueError, ProtocolViolation) as error:
                part.replace(before, f"is left out: {error}")
        self.report_all(method, faults)
        return items

    def read(self, method: str, kind: type[W], result: Params) -> W:
        """Return a result as an object. Malformed parts of it are kept raw and logged.

        Raises:
            ProtocolViolation: Nothing of it can be read.
        """
        try:
            return kind.from_wire(result)
        except ValueError:
            faults = Faults()
        try:
            return kind.salvage(result, faults)
        except ValueError as error:
            raise ProtocolViolation(f"a result of {method}: {error}", result) from None
        finally:
            self.report_all(method, faults)

    def report_all(self, method: str, faults: Faults) -> None:
        """Log the malformed parts of a result."""
        for where, reason in faults.found:
            self.report(method, f"{where}: {reason}")

    def report(self, method: str, fault: str) -> None:
        """Log a malformed part of a result: as a warning when it is first seen."""
        reported = self._host.reported
        line = f"{self.session.name}: {method}: {fault}"
        level = logging.DEBUG if line in reported else logging.WARNING
        if len(reported) < MAX_REPORTED:
            reported.add(line)
        log.log(level, "<-- %s", line)


def read_result(method: str, read: Callable[[Any], T], result: Params) -> T:
    """A result as an object. Raises ProtocolViolation: it makes no sense."""
    try:
        return read(result)
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None
