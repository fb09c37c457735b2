"""A call whose result is questions: they are answered and the call is sent again, round after round.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Mapping

from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import InvalidParams, MethodNotFound, ProtocolViolation, one_line
from ..protocol.messages import Json
from .host import Answer, Host, Result
from .session import Cancel, ClientSession, Params

MOST_ROUNDS = 10
"""How often one call is sent again; a server that asks more often is taken to ask for ever."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.25
"""Seconds before a call is sent again that the server only put off; the pause doubles."""


class InputRounds:
    """The rounds of one call. Used by one thread.

    Args:
        host: Answers the questions.
        method: Of the call.
        params: Of the call; each round sends them again, without what belongs to an earlier round.
    """

    def __init__(self, host: Host, method: str, params: Params) -> None:
        self._host, self._method = host, method
        self._params = {name: params[name] for name in params if name not in ("inputResponses", "requestState")}
        self._rounds, self._pause = 0, FIRST_PAUSE

    def next_params(
        self, session: ClientSession, result: Result, deadline: Deadline, cancel: Cancel
    ) -> Params:
        """Answer the questions of a result; the params to send the call again with.

        Args:
            session: Where the result came from; its end ends the wait for the host.
            result: Which asks for input.
            deadline: Of the call; stands while the host answers.
            cancel: Ends the wait for the host; None for a call that nobody cancels.

        Raises:
            Refused: A handler of the host refuses or fails.
            ProtocolViolation: The questions make no sense, were not declared, or come more than ten times.
            Cancelled, ConnectionLost: As named.

        Blocks: until the host has answered.
        """
        if self._rounds == MOST_ROUNDS:
            raise ProtocolViolation(f"{self._method} asks at most {MOST_ROUNDS} times for input", result)
        self._rounds += 1
        asked, state = result.get("inputRequests"), result.get("requestState")
        if not isinstance(asked, (dict, type(None))) or not isinstance(state, (str, type(None))):
            raise ProtocolViolation(
                f"{self._method} asks with an object inputRequests and a string requestState", result
            )
        if not asked and state is None:
            raise ProtocolViolation(f"{self._method} needs input and does not say which", result)
        following = self._params if state is None else {**self._params, "requestState": state}
        if not asked:
            session.sleep(deadline.within(self._pause), cancel)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            return following
        deadline.pause()
        try:
            return {**following, "inputResponses": self._answers(session, asked, cancel)}
        finally:
            deadline.resume()

    def _answers(self, session: ClientSession, asked: Mapping[str, Json], cancel: Cancel) -> Result:
        """The host's answers by key; all questions are checked before the first is asked."""
        given_up = CancelToken()
        questions = {key: self._read(session, one, given_up) for key, one in asked.items()}
        answers: Result = {}
        errors: list[BaseException] = []
        woken = threading.Event()

        def run(key: str, answer: Answer) -> None:
            try:
                if not given_up.cancelled:
                    answers[key] = answer()
            except BaseException as error:
                errors.append(error)
            woken.set()

        try:
            for key, answer in questions.items():
                self._host.pool.submit(partial(run, key, answer))
            session.wait_for(lambda: bool(errors) or len(answers) == len(questions), woken, Deadline(None), cancel)
        finally:
            given_up.cancel()
        if errors:
            raise errors[0]
        return {key: answers[key] for key in questions}

    def _read(self, session: ClientSession, one: Any, asked: CancelToken) -> Answer:
        kind, params = (one.get("method"), one.get("params", {})) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(params, dict):
            raise ProtocolViolation(f"{self._method} asks with a method and params", one)
        try:
            return self._host.read(kind, params, session.era.peer, asked)
        except MethodNotFound:
            what = f"{self._method} asks only what the client declares, not {one_line(kind)}"
        except InvalidParams as error:
            what = f"{self._method} asks for input: {error}"
        raise ProtocolViolation(what, one)
