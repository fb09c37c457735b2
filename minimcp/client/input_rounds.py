"""A call whose result is questions: they are answered and the call is sent again, round after round.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import threading
from copy import copy
from functools import partial
from itertools import count
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.connection import Connection
from ..engine.pool import waiting
from ..engine.requests import Calls, CancelToken, PendingCall
from ..engine.timer import Deadline
from ..errors import Cancelled, InvalidParams, MethodNotFound, ProtocolViolation, one_line
from ..protocol.messages import Failure, Json
from ..types import Implementation
from .answering import Answerer, Question
from .clock import inherited
from .negotiation import Era
from .own_calls import nothing, own_call

Result = dict[str, Json]

MOST_ROUNDS = 10
"""How often one call is sent again; a server that asks on has lost its way."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.25
"""Seconds before a call is sent again that the server only put off; the pause doubles."""

_DONE: Result = {}
"""The ending of a wait for our own threads. No answer of a server is this very object."""


class Rounds:
    """Answers the questions in results of one connection. Thread-safe.

    Args:
        channel: The connection.
        era: What was agreed on it.
        answerer: The host's side.
    """

    __slots__ = ("_channel", "_era", "_answerer")

    def __init__(self, channel: Connection, era: Era, answerer: Answerer) -> None:
        self._channel, self._era, self._answerer = channel, era, answerer

    def finish(
        self,
        method: str,
        params: Mapping[str, Json],
        result: Result,
        send: Callable[[Mapping[str, Json]], Result],
        deadline: Deadline,
        cancel: Optional[CancelToken],
    ) -> Result:
        """The result of a call when no more questions are left.

        Args:
            method: Of the call.
            params: Of the call; each round sends them again, without what belongs to an earlier round.
            result: The first one.
            send: Sends the call again with these params and returns its result.
            deadline: For all rounds together.
            cancel: Ends the wait for the host's handlers; None for a call that nobody cancels.

        Raises:
            Refused: A handler of the host refuses or fails; nothing more is sent.
            ProtocolViolation: The questions make no sense, were not declared, or come more than ten times.
            McpError: As `send`.
        """
        same = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
        pause = FIRST_PAUSE
        for _ in range(MOST_ROUNDS):
            if not self._era.is_asking(result):
                return result
            asked, state = _read(method, result)
            more: Result = {} if state is None else {"requestState": state}
            if asked:
                more["inputResponses"] = self._answers(method, asked, cancel)
            else:
                self._sleep(deadline.within(pause), cancel)
                pause = min(2 * pause, LONGEST_PAUSE)
            result = send({**same, **more})
        if not self._era.is_asking(result):
            return result
        raise ProtocolViolation(f"{method} asks at most {MOST_ROUNDS} times for input", result)

    def _answers(self, method: str, asked: Mapping[str, Json], cancel: Optional[CancelToken]) -> Result:
        """The host's answers by key; the questions are checked before the first is asked."""
        waited_for = CancelToken()
        questions = {key: self._question(method, one, waited_for) for key, one in asked.items()}

        def answer(question: Question) -> Result:
            if waited_for.cancelled:
                raise Cancelled("nobody waits for the answer any more")
            return self._answerer.answer(question)

        jobs = [partial(answer, question) for question in questions.values()]
        try:
            outcomes = together(self._channel, jobs, cancel, stop_at_error=True, most=self._channel.limits.workers)
        finally:
            waited_for.cancel()
        return dict(zip(questions, outcomes))

    def _question(self, method: str, one: Any, asked: CancelToken) -> Question:
        kind, params = (one.get("method"), one.get("params", {})) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(params, dict):
            raise ProtocolViolation(f"{method} asks with a method and params", one)
        server = Implementation.of_peer(self._era.peer.info)
        try:
            return self._answerer.read(kind, params, self._era.revision, server, asked)
        except MethodNotFound:
            raise ProtocolViolation(f"{method} asks only what the client declares, not {one_line(kind)}", one) from None
        except InvalidParams as error:
            raise ProtocolViolation(f"{method} asks for input: {error}", one) from None

    def _sleep(self, until: Deadline, cancel: Optional[CancelToken]) -> None:
        """Wait, unless the call is cancelled or the connection ends."""
        calls = self._channel.calls
        call = own_call(calls)
        forget = until_cancelled(calls, call, cancel)
        try:
            with waiting():
                ending = call.wait(until)
        finally:
            forget()
        if ending is None and calls.settle(call.id, _DONE):
            return
        _must_be_done(call.wait(until))


def _read(method: str, result: Mapping[str, Json]) -> tuple[Mapping[str, Json], Optional[str]]:
    """The questions by key, and the state to give back; None where there is none."""
    asked, state = result.get("inputRequests"), result.get("requestState")
    if not isinstance(asked, (dict, type(None))) or not isinstance(state, (str, type(None))):
        raise ProtocolViolation(f"{method} asks with an object inputRequests and a string requestState", result)
    if not asked and state is None:
        raise ProtocolViolation(f"{method} needs input and does not say which", result)
    return asked or {}, state


# ------------------------------------------------------------ threads of ours, and who waits for them


def together(
    channel: Connection,
    jobs: Sequence[Callable[[], Any]],
    cancel: Optional[CancelToken],
    *,
    stop_at_error: bool = False,
    most: Optional[int] = None,
) -> list[Any]:
    """Run functions at once, on workers, and wait for them; what one raises stands in the place of its result.

    Args:
        channel: Whose workers run them; its end ends the wait.
        jobs: The functions.
        cancel: Ends the wait; None for one that nobody cancels.
        stop_at_error: Raise the first exception as soon as it comes, and wait for no other.
        most: How many of them run at the same time; None runs all.

    Raises:
        Cancelled: The token was cancelled. What runs goes on, and nobody hears of it.
        ConnectionLost: The connection has ended.
        RuntimeError: The system gives no more threads.
    """
    call = own_call(channel.calls)
    outcomes: list[Any] = [None] * len(jobs)
    errors: list[BaseException] = []
    left, state_lock = set(range(len(jobs))), threading.Lock()
    turn = count()  # each number once, whichever thread asks

    def run(place: int) -> None:
        try:
            outcome = jobs[place]()
        except BaseException as error:
            outcome = error
        with state_lock:
            outcomes[place] = outcome
            left.discard(place)
            if isinstance(outcome, BaseException):
                errors.append(outcome)
            done = not left or (stop_at_error and bool(errors))
        if done:
            channel.calls.settle(call.id, _DONE)

    def run_in_turn() -> None:
        for place in turn:
            if place >= len(jobs):
                return
            run(place)

    forget = until_cancelled(channel.calls, call, cancel)
    try:
        for _ in jobs[:most]:
            channel.pool.spawn(inherited(run_in_turn))
        _must_be_done(channel.calls.wait(call, Deadline(None), tell=False))
    finally:
        forget()
        channel.calls.settle(call.id, _DONE)
    if stop_at_error and errors:
        raise errors[0]
    return outcomes


def until_cancelled(
    calls: Calls, call: PendingCall, cancel: Optional[CancelToken], *, tell: bool = False
) -> Callable[[], None]:
    """Have a token end a call.

    Args:
        calls: Whose call it is.
        call: Which ends.
        cancel: The token; None never ends it.
        tell: Whether the peer hears of it.

    Returns:
        A function that takes this back.
    """
    if cancel is None:
        return nothing
    token = cancel
    return token.on_cancel(lambda: _ignore(calls.end(call, Cancelled(token.reason or "cancelled"), tell=tell)))


def _ignore(_: object) -> None:
    return None


def _must_be_done(ending: Union[Result, Failure, BaseException, None]) -> None:
    if isinstance(ending, BaseException):
        raise copy(ending)
    if ending is not _DONE:
        raise ProtocolViolation("an answer has the id of a request", ending)
