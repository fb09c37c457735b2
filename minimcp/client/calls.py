"""`Call`: one call of a client, from its request to its result, with retries, pages and the cache.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

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
from .host import AnswerFunction, Host, Result
from .session import (
    MAX_BUSY_TRIES,
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

# Exceptions that mean that the server did not run a request, and how often it is then retried.
TRIES: dict[type[Exception], int] = {Busy: MAX_BUSY_TRIES, SessionGone: 1, UnsupportedRevision: 1}

NOT_RUN: tuple[type[Exception], ...] = tuple(TRIES)

# Maximum number of pages of one list. A server with more of them probably repeats its cursors.
MAX_PAGES = 1000

# Maximum memory of one list, in bytes: the schemas of the listed tools are kept.
MAX_LIST_BYTES = 128 * 1024 * 1024

# Maximum number of questions in one result.
MAX_QUESTIONS = 1000

# How often one call is sent again with answers. Without a limit, a server could ask forever.
MAX_ROUNDS = 10

# Pause before sending a call again that the server deferred without a question. It doubles with
# each round.
FIRST_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 0.25

# Members by which a warning names a malformed item of a list.
NAMING = ("name", "uri", "uriTemplate", "taskId")

# How many warnings about malformed parts of results a client remembers in order not to repeat them.
MAX_REPORTED = 1000

# Values of ``cache=``: use a cached result, request and cache a new one, or ignore the cache.
USES = ("use", "refresh", "bypass")

# Default of ``timeout=``: the client's own timeout.
DEFAULT: Any = ...


class Sessions:
    """The session of a client. The subclass `Reconnector` replaces it after a loss.

    Args:
        first: The session.
        host: The host's side of all sessions.
        timeout: Default seconds for one call; None means no limit.

    Attributes:
        begin: Starts the next session; None if the client never starts another one.
    """

    begin: Any = None

    # Default seconds of silence in a call; None means no limit.
    idle_timeout: Optional[float] = None

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
        """Return the session that replaces a lost one, or the lost one itself if none does.

        Args:
            lost: The lost session.
            deadline: When to stop waiting for the next one.
            cancel: A token that another thread can cancel, or None.

        Raises:
            ConnectionLost: The client was closed.
            McpError: As `Reconnector.after`.
        """
        if self.closed:
            raise ConnectionLost(
                f"{lost.name}: this client is closed: use it inside its with block"
            )
        return self.newest

    def close(self) -> None:
        """End the newest session permanently. Idempotent and thread-safe."""
        self._stop.cancel("the client was closed")
        self.newest.close()

    def abandon(self) -> None:
        """End the newest session without waiting. For finalizers."""
        self._stop.cancel("the client was closed")
        self.newest.abandon()


class Call:
    """One call of a program, which may need several requests. Used by one thread at a time.

    Args:
        sessions: The client's sessions.
        timeout: Seconds for the whole call; None means no limit.
        cancel: A token that another thread can cancel, or None.
        capability: A capability that the server must declare, or None.
        idle_timeout: Seconds of silence in one request; None means no limit.

    Raises:
        CapabilityNotSupported: The server does not declare it.
        McpError: As `Sessions.after`.
    """

    def __init__(
        self,
        sessions: Sessions,
        timeout: Seconds,
        cancel: Cancel = None,
        capability: Optional[str] = None,
        idle_timeout: Seconds = None,
    ) -> None:
        self._sessions = sessions
        self._host = sessions.host
        # Runs around the requests of the program; None around those of the library itself.
        self.middleware = sessions.host.middleware
        self.cancel = cancel
        if timeout is DEFAULT:
            self.deadline = Deadline(sessions.timeout)
        else:
            self.deadline = deadline_of("timeout", timeout)
        if idle_timeout is DEFAULT:
            idle_timeout = sessions.idle_timeout
        if idle_timeout is not None:
            from .idle import IdleDeadline

            self.deadline = IdleDeadline(self.deadline, idle_timeout)
        self.session = sessions.newest
        if self.session.calls.cause is not None:
            self.session = sessions.after(self.session, self.deadline, cancel)
        if (
            capability is not None
            and type(self.session.era.peer.capabilities.get(capability)) is not dict
        ):
            self.session.need(capability)

    def within(self, seconds: Optional[float], cancel: Cancel) -> Call:
        """Return a part of this call, with a deadline and a token of its own, and without
        middleware."""
        part = copy(self)
        part.middleware = None
        part.deadline = self.deadline.within(seconds)
        part.cancel = cancel
        return part

    def around(self, method: str, params: Params, send: Callable[[str, Params], Result]) -> Result:
        """Run the middleware of `connect` around a function that sends requests.

        Args:
            method: The method.
            params: The params.
            send: Sends a request with a method and params, and returns its result.
        """
        middleware: Any = self.middleware  # not None
        self.middleware = None  # it runs once for a call, however many requests this takes
        try:
            result: Result = middleware.run(method, params, send)
            return result
        finally:
            self.middleware = middleware

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
        """Send a request and return its result. Answer the server's questions and retry as needed.

        A request is sent again with the host's answers, and if the server did not run it.

        Arguments and exceptions are those of `Client.request`, and:

        Args:
            first: The outcome of the first request if it was already sent, or None.
        """
        if self.middleware is not None:
            send = partial(self.request, on_progress=on_progress, raw=raw, first=first)
            return self.around(method, params, send)
        sent = params
        outcome = first
        rounds = 0
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
            if outcome.get("resultType") != INPUT_REQUIRED:
                known = self._host.result_types.get(outcome.get("resultType", ""))
                return outcome if known is None else known[1](self, method, params, outcome)
            rounds += 1
            sent = self._answered(method, params, outcome, rounds)
            refusals = []
            outcome = None

    def renew(self, refusal: Exception, before: list[type]) -> None:
        """Wait until a request that the server did not run can be sent again.

        Args:
            refusal: The exception that the request raised. It is raised again if a retry is
                useless.
            before: The types of earlier refusals of the same request; this one is appended.
        """
        session = self.session
        is_last = before.count(type(refusal)) == TRIES.get(type(refusal))
        if isinstance(refusal, Busy):
            if is_last or not session.wait_while_busy(refusal, self.deadline, self.cancel):
                raise refusal
        elif isinstance(refusal, SessionGone):
            if not refusal.refused or self._sessions.begin is None:
                raise refusal
            if is_last:
                refusal.args = (
                    f"{refusal}, like the session before it: do several processes serve this URL? "
                    "They need a proxy that always sends a client to the same process, or "
                    "sessions=False",
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
        """Prepare to send a request again, as `renew`. Return None if it can be sent.

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
        """Answer the questions of a result and return the params for the next request.

        Args:
            method: The method of the call.
            params: The params of the call. Members of an earlier round are not sent again.
            result: The result that requests input.
            rounds: The number of rounds so far, including this one.

        Raises:
            Refused: A handler of the host refused or failed.
            ProtocolViolation: The questions are invalid, were not declared, or came more than ten
                times.
            Cancelled, ConnectionLost: As named.

        Blocks until the host has answered.
        """
        asked = result.get("inputRequests")
        state = result.get("requestState")
        if rounds > MAX_ROUNDS:
            what = f"{method} requested input more than {MAX_ROUNDS} times"
            raise ProtocolViolation(what, result)
        is_sound = isinstance(asked, (dict, type(None))) and isinstance(state, (str, type(None)))
        if not is_sound or not (asked or state is not None) or len(asked or ()) > MAX_QUESTIONS:
            raise ProtocolViolation(
                f"a request for input of {method} must have an object of at most {MAX_QUESTIONS} "
                "inputRequests or a string requestState",
                result,
            )
        following = {
            name: params[name] for name in params if name not in ("inputResponses", "requestState")
        }
        if state is not None:
            following["requestState"] = state
        if not asked:
            pause = min(FIRST_PAUSE_SECONDS * 2 ** (rounds - 1), MAX_PAUSE_SECONDS)
            self.session.sleep(self.deadline.within(pause), self.cancel)
            return following
        self.deadline.pause()
        try:
            return {**following, "inputResponses": self.answers(method, asked)}
        finally:
            self.deadline.resume()

    def answers(self, method: str, asked: Mapping[str, Json]) -> Result:
        """Return the host's answers by key. All questions are checked before the first is asked.

        Args:
            method: The method of the call.
            asked: Questions by key, each with its method and params.

        Raises:
            Refused, ProtocolViolation, Cancelled, ConnectionLost: As `Client.request`.
        """
        given_up = CancelToken()
        questions = {key: self._question(method, one, given_up) for key, one in asked.items()}
        answers: Result = {}
        errors: list[BaseException] = []
        changed = threading.Condition()

        def run(key: str, answer: AnswerFunction) -> None:
            try:
                if not given_up.cancelled:
                    answers[key] = answer()
            except BaseException as error:
                errors.append(error)
            with changed:
                changed.notify_all()

        forget: Callable[[], object] = int
        try:
            if self.cancel is not None:
                # On the thread that cancels, so that it finds no question open afterwards.
                forget = self.cancel.on_cancel(given_up.cancel)
            for key, answer in questions.items():
                self._host.pool.submit(partial(run, key, answer))
            is_done = lambda: bool(errors) or len(answers) == len(questions)  # noqa: E731
            wait_until(is_done, changed, NEVER, self.cancel, self.session)
        finally:
            forget()
            given_up.cancel()
        if errors:
            raise errors[0]
        return {key: answers[key] for key in questions}

    def _question(self, method: str, one: Any, asked: CancelToken) -> AnswerFunction:
        question = one if isinstance(one, dict) else {}
        kind = question.get("method")
        params = question.get("params")
        if kind is not None and params is None:
            params = {}
        if not isinstance(kind, str) or not isinstance(params, dict):
            raise ProtocolViolation(f"a question of {method} must have a method and params", one)
        try:
            return self._host.read(kind, params, self.session.era.peer, asked)
        except MethodNotFound:
            raise ProtocolViolation(
                f"{method} asked {one_line(kind)}, which this client does not declare", one
            ) from None
        except InvalidParams as error:
            raise ProtocolViolation(f"a question of {method}: {error}", one) from None

    # ------------------------------------------------------------ cached results, and pages

    def fetch(
        self,
        method: str,
        params: Params,
        on_progress: Optional[OnProgress] = None,
        *,
        cache: str = "use",
        raw: bool = False,
    ) -> Result:
        """Return a fresh cached result, or send a request.

        Arguments and exceptions are those of `Client.request`.
        """
        if cache not in USES:
            raise ValueError(f'cache must be "use", "refresh" or "bypass", not {cache!r}')
        if self.middleware is not None:
            send = partial(self.fetch, on_progress=on_progress, cache=cache, raw=raw)
            return self.around(method, params, send)
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
        # While the request ran, the revision or the access token may have changed.
        if Key.of(era.revision, method, params, identify()) == key:
            kept.keep(key, result, mark)
        return result

    def pages(self, method: str, member: str, read: Callable[[Any], T], cache: str) -> list[T]:
        """Return all items of a list, from all of its pages.

        A malformed item is left out, and a warning names it. If the server refuses the cursor of a
        later page, the list is requested once more from the beginning, because the earlier pages
        may have come from the cache.

        In revisions with a handshake, servers in Go and Java write an empty cursor on the last
        page. It is followed once. If it leads to an error, to the first page again or to another
        empty cursor, the list ends there.

        Args:
            method: The method of the list.
            member: The member of each result that has the items.
            read: Makes an object of an item, such as `Tool.from_wire`. ValueError and
                ProtocolViolation reject the item.
            cache: As for `Client.request`.

        Raises:
            ProtocolViolation: The first page is not a list, a cursor is repeated, or there are over
                1,000 pages or 128 MiB.
        """
        items: list[T] = []
        cursors: set[int] = set()  # hashes, because a cursor may be as long as a message
        params: dict[str, Json] = {}
        first_page: Json = None
        left = MAX_LIST_BYTES
        is_second_walk = False
        while len(cursors) < MAX_PAGES:
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
                items = []
                cursors = set()
                params = {}
                left = MAX_LIST_BYTES
                is_second_walk = True
                continue
            page = result.get(member)
            if page is None:
                self.report(method, f"{member} is missing: read as an empty list")
                page = []
            if not isinstance(page, list):
                rule = f"a result of {method} must have a list of {member}"
                if not params:
                    raise ProtocolViolation(rule, result)
                self.report(method, f"{rule}: the list ends here, and may be incomplete")
                return items
            if may_be_over and page == first_page:
                return items
            first_page = page if first_page is None else first_page
            left -= size_of(page, left)
            if left < 0:
                raise ProtocolViolation(
                    f"{method} returned lists that use more than {MAX_LIST_BYTES} bytes of memory"
                )
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
                raise ProtocolViolation(f"{method} repeated a cursor", cursor)
            cursors.add(hash(cursor))
            params = {"cursor": cursor}
        raise ProtocolViolation(f"{method} has more than {MAX_PAGES} pages")

    # ------------------------------------------------------------ malformed parts

    def _readable(
        self, method: str, member: str, read: Callable[[Any], T], page: list[Json]
    ) -> list[T]:
        """Return the items of a page, without malformed ones, and log each fault."""
        items: list[T] = []
        faults = Faults(member)
        salvage = getattr(getattr(read, "__self__", None), "salvage", None)
        for index, item in enumerate(page):
            part = faults.at(index)
            before = len(faults.found)
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
        """Return a result as an object. Malformed parts of it stay unparsed and are logged.

        Raises:
            ProtocolViolation: The result as a whole is invalid.
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
        """Log a malformed part of a result, as a warning only the first time."""
        reported = self._host.reported
        line = f"{self.session.name}: {method}: {fault}"
        log_line = log.debug if line in reported else log.warning
        if len(reported) < MAX_REPORTED:
            reported.add(line)
        log_line("<-- %s", line)


def read_result(method: str, read: Callable[[Any], T], result: Params) -> T:
    """Return a result as an object. Raise ProtocolViolation if it is invalid."""
    try:
        return read(result)
    except ValueError as error:
        raise ProtocolViolation(f"a result of {method}: {error}", result) from None
