"""`Calls`: our requests on one connection, from sending to the one way in which each ends.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from queue import Empty, SimpleQueue
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterator,
    Optional,
    Sequence,
    Union,
)

from ..errors import Cancelled, ConnectionLost, RequestTimeout
from ..log import logger
from ..protocol.messages import (
    Failure,
    Id,
    Json,
    Notification,
    Request,
    Result,
    encode,
    is_id,
    readable_ids,
    size_of,
)
from ..text import one_line
from .limits import BoundedQueue
from .pool import waiting
from .timer import NEVER, Deadline

if TYPE_CHECKING:
    pass

log = logger("minimcp.requests")

_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")

# Methods of calls that are given up without telling the peer.
NEVER_CANCELLED = frozenset({"initialize", "server/discover"})

# Seconds for which an answer is waited for in one go, at least, if there is any time left.
SHORTEST_WAIT = 0.001

# Progress that waits for a slow callback, and its bytes of memory; the newest is kept, for it only
# grows.
MOST_PROGRESS, PROGRESS_BYTES = 1000, 1024 * 1024

# How often the deadline of a call may be paused for a question: a server may ask and ask.
MOST_PAUSES = 1000

# How a call ended: the result, the peer's error, or the exception that its caller gets.
Ending = Union[Result, Failure, BaseException]

MakeParams = Callable[[Id], Result]

OnItem = Optional[Callable[[Any], None]]


@dataclass(eq=False, repr=False)
class PendingCall:
    """One of our requests that waits for its answer: a queue of progress and, at last, exactly one
    ending.

    Args:
        id: Of the request.
        method: Of the request.
        on_item: Called with the params of each progress notification by the thread that waits, in
            order and before the ending; None drops them.
        queue: Gets progress, if that is wanted, this object when it has ended, and None to have the
            deadline looked at again; calls that one thread waits for share one.
    """

    id: Id
    method: str
    on_item: OnItem = None
    queue: Any = field(default_factory=SimpleQueue)
    ending: Optional[Ending] = None
    deadline: Deadline = NEVER
    # Whether the peer may know of it.
    sent = True
    # Whether it stays open for notifications, as `subscriptions/listen` does.
    stays_open = False
    pauses = 0

    def end(self, ending: Ending) -> None:
        """Set the outcome: only the thread that took this call out of the table (rule 4)."""
        self.ending = ending
        self.queue.put(self)


class Calls:
    """Our requests on one connection. Thread-safe.

    Rule 4 of `connection.py`: a call is in the table before its line is written, and the thread
    that pops it ends it. Each step is one operation on a dict, which the interpreter does whole, so
    a signal handler may cancel calls or close a connection at any moment.

    Args:
        name: Of the connection, for messages.
        send: Writes a line before a deadline, or returns False. Raises ConnectionLost.
        post: Has a line written by another thread; never blocks.
        remark: What else is known when no answer comes, as the end of a message; empty when nothing
            is.
        ids: Of the requests; None counts from 1.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[bytes, Deadline], bool],
        post: Callable[[bytes], object],
        remark: Callable[[], str] = str,
        ids: Optional[Iterator[Id]] = None,
    ) -> None:
        self.name = name
        self._send = send
        self._post = post
        self._remark = remark
        self._table: dict[Id, PendingCall] = {}
        self._ids: Iterator[Id] = count(1) if ids is None else ids
        self._causes: list[BaseException] = []
        self._was_used = False

    def through(
        self, send: Callable[[bytes, Deadline], bool], post: Callable[[bytes], object]
    ) -> Calls:
        """A view of the same table, whose lines go by `send` and `post`: on one HTTP response."""
        other = copy(self)
        other._send = send
        other._post = post
        return other

    @property
    def cause(self) -> Optional[BaseException]:
        """Why no more calls are possible; None while they are."""
        return self._causes[0] if self._causes else None

    def __len__(self) -> int:
        return len(self._table)

    def find(self, id: Any) -> Optional[PendingCall]:
        """The waiting call with this id (of this very type), or None."""
        return self._table.get(id) if is_id(id) else None

    def answered_by(self, id: Any) -> Optional[PendingCall]:
        """Return the waiting call that a response with this id answers, or None.

        The ids of a client are integers. Some peers write them back as text: ``"1"`` means 1.
        """
        call = self.find(id)
        if call is None and type(id) is str and _DECIMAL.fullmatch(id):
            call = self._table.get(int(id))
        return call

    def meant_by(self, line: bytes) -> Optional[PendingCall]:
        """Return the waiting call that a line responds to although it is not valid JSON, or None.

        The line must look like a response and contain the id of exactly one waiting call.
        """
        found: Optional[PendingCall] = None
        for id in readable_ids(line):
            call = self.answered_by(id)
            if call is not None and found is not None and call is not found:
                return None
            found = call or found
        return found

    def progress(self, params: Result) -> Optional[PendingCall]:
        """Queue the params of a progress notification for their call, and return the call."""
        token = params.get("progressToken")
        call = self.find(token)
        if call is None:
            log.debug("<-- progress for %s, which nobody waits for", token)
        elif call.on_item is not None:
            call.queue.offer(params, size_of(params, PROGRESS_BYTES))
        return call

    def pending(self) -> list[PendingCall]:
        """The calls that wait now, oldest first."""
        return list(self._table.values())

    def were_idle(self) -> bool:
        """Return whether no call was started since this was last called, and none is running.

        Pings and calls that stay open do not count.
        """
        was_used = self._was_used
        self._was_used = False
        return not was_used and all(call.stays_open for call in self.pending())

    def ping(self, method: str, make_params: MakeParams) -> PendingCall:
        """Send a request for which no thread waits. Never blocks.

        Raises:
            BaseException: The cause, if no more calls are possible.
        """
        id = next(self._ids)
        call = PendingCall(id, method)
        self.add(call)
        self._post(encode(Request(id, method, make_params(id))))
        return call

    # ------------------------------------------------------------ one call

    def start(
        self,
        method: str,
        make_params: MakeParams,
        on_item: OnItem = None,
        *,
        deadline: Deadline = NEVER,
    ) -> PendingCall:
        """Send a request, which over HTTP `wait` does; `wait` waits for its answer.

        Args:
            method: What to call.
            make_params: Makes the params, given the request's id.
            on_item: Called with the params of each progress notification by the thread that waits;
                None drops them.
            deadline: When to give up.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError, TypeError: The params are no JSON.

        Blocks: while more waits to be written than may, until the deadline; the call has timed out
        then.
        """
        return self.start_all([(method, make_params)], on_item, deadline=deadline)[0]

    def start_all(
        self,
        requests: Sequence[tuple[str, MakeParams]],
        on_item: OnItem = None,
        *,
        deadline: Deadline = NEVER,
    ) -> list[PendingCall]:
        """Send several requests in one write; as `start`. Of none of them anything is sent if one
        is no JSON."""
        calls: list[PendingCall] = []
        lines: list[bytes] = []
        queue = queue_for(on_item)
        sent = False
        self._was_used = True
        try:
            for method, make_params in requests:  # rule 4: registered before it is written
                call = PendingCall(next(self._ids), method, on_item, queue, deadline=deadline)
                self.add(call)
                calls.append(call)
                lines.append(encode(Request(call.id, method, make_params(call.id))))
            sent = True
            if not self._send(b"".join(lines), deadline):
                for call in calls:
                    self.time_out(call, tell=False)
        except BaseException as error:
            for call in calls:
                self.end(
                    call,
                    Cancelled("the caller gave up"),
                    tell=sent and not isinstance(error, ConnectionLost),
                )
            raise
        return calls

    def add(self, call: PendingCall) -> None:
        """Register a call that is about to be sent.

        Raises:
            BaseException: The cause, when no more calls are possible.
        """
        self._table[call.id] = call
        if self._causes:
            self._table.pop(call.id, None)
            raise copy(self._causes[0])

    def wait(
        self,
        call: PendingCall,
        deadline: Deadline,
        *,
        about: Json = None,
        group: Sequence[PendingCall] = (),
    ) -> Union[Result, Failure]:
        """Wait for the answer to a request that was started.

        Args:
            call: The request.
            deadline: When to give up; the peer is told then.
            about: The name of the tool, or what else the call is about, for the message of a
                timeout.
            group: All requests of its `start_all`, if one that fails is to end the wait: then that
                one's ending is it.

        Returns:
            The result, or the peer's error.

        Raises:
            RequestTimeout: The deadline came first.
            Cancelled: The call was cancelled.
            ConnectionLost: The connection has ended.
            ProtocolViolation: The answer was no answer.
        """
        call.deadline = left = deadline
        try:
            with waiting():
                while call.ending is None or not call.queue.empty():
                    item = None
                    try:
                        seconds = (
                            left.to_wait()
                        )  # in some Pythons a tiny time that is over before never ends
                        item = call.queue.get(seconds > 0, max(seconds, SHORTEST_WAIT))
                    except Empty:
                        pass
                    if isinstance(item, PendingCall):
                        failed = isinstance(item.ending, (Failure, BaseException))
                        call = item if failed and item in group else call
                        continue
                    on_item = call.on_item  # which another thread may take away
                    if item is not None and on_item is not None:
                        on_item(item)
                    if left.expired and call.ending is None:  # however much progress has come
                        self.time_out(call, about)
                        left = NEVER  # another thread may be about to end it
        except BaseException:
            self.end(call, Cancelled("the caller gave up"))
            raise
        if isinstance(call.ending, BaseException):
            raise copy(
                call.ending
            )  # a loss ends many calls: each caller gets an exception of its own
        return call.ending

    # ------------------------------------------------------------ their ends

    def settle(self, id: Id, ending: Ending) -> bool:
        """End the call with this id; False when there is none. Never blocks, any thread."""
        call = self._table.pop(id, None)
        if call is None:
            meant = self.answered_by(id)  # by an id that the peer wrote as text
            call = None if meant is None else self._table.pop(meant.id, None)
        if call is None:
            return False
        call.end(ending)
        return True

    def end(self, call: PendingCall, ending: Exception, *, tell: bool = True) -> bool:
        """End a call from this side; False when it has ended already. Never blocks, any thread.

        Progress that has come and was not handed over yet is dropped in any case.

        Args:
            call: The call.
            ending: What its caller gets.
            tell: Whether the peer is told, which so need not go on with it.
        """
        call.on_item = None
        if not self.settle(call.id, ending):
            return False
        if tell and call.sent and not self._causes and call.method not in NEVER_CANCELLED:
            self._post(_cancellation(call, ending))
        return True

    def time_out(self, call: PendingCall, about: Json = None, *, tell: bool = True) -> None:
        """End a call whose deadline has come. Never blocks, any thread. Arguments as `wait` and
        `end`."""
        called = f"{call.method} {about[:100]!r}" if isinstance(about, str) else call.method
        seconds = call.deadline.seconds
        error = RequestTimeout(
            f"{self.name}: {called}: no answer within {seconds:g} s{self._remark()}"
        )
        self.end(call, error, tell=tell)

    def close(self, cause: BaseException) -> bytes:
        """End every call and refuse new ones with this cause, or an earlier one; the lines that
        tell the peer."""
        self._causes.append(cause)
        ended = [call for call in self.pending() if self.settle(call.id, self._causes[0])]
        return b"".join(
            [_cancellation(call, cause) for call in ended if call.method not in NEVER_CANCELLED]
        )

    def pause_all(self, *calls: PendingCall) -> Callable[[], None]:
        """Pause the deadlines of these calls, or of all, while the host answers a question; returns
        what ends that.

        After `MOST_PAUSES` questions that of a call is not paused any more.
        """
        deadlines = {}
        for call in calls or self.pending():
            call.pauses += 1
            if call.deadline is not NEVER and call.pauses <= MOST_PAUSES:
                deadlines[id(call.deadline)] = call.deadline
        for deadline in deadlines.values():
            deadline.pause()

        def resume() -> None:
            while deadlines:
                deadlines.popitem()[1].resume()
            for call in self.pending():
                if call.queue.empty():  # else its thread looks at the deadline anyway
                    call.queue.put(None)

        return resume


def queue_for(on_item: OnItem) -> Any:
    """The queue of calls with this callback for progress."""
    return (
        SimpleQueue()
        if on_item is None
        else BoundedQueue("reports of progress", MOST_PROGRESS, PROGRESS_BYTES)
    )


def _cancellation(call: PendingCall, reason: BaseException) -> bytes:
    params = {"requestId": call.id, "reason": one_line(str(reason))}
    return encode(Notification("notifications/cancelled", params))
