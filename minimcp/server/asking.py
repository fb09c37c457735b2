"""Who answers what a handler asks its client: a real request, or the next round of its own.

In revisions with a handshake a question is a request, and the handler's thread waits for the answer. Where requests
stand alone the first question without an answer unwinds the handler, and the result asks for it; the client comes
again with the answer and a signed state, and the handler runs once more from the top, where earlier questions find
their answers. Nothing is kept here meanwhile, so any process with the same keys may serve the next round.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import logging
import os
import re
from copy import copy, deepcopy
from typing import Any, Callable, Mapping, NamedTuple, Optional

from ..engine.requests import IncomingRequest
from ..errors import (
    INTERNAL_ERROR,
    RESERVED_CODES,
    USER_REJECTED,
    ProtocolViolation,
    Refused,
    ToolError,
    error_from_peer,
    one_line,
)
from ..protocol.messages import Failure, Json, to_json
from ..schema.annotations import write_any
from .facts import Facts
from .questions import Question
from .state import digest

log = logging.getLogger("minimcp.asking")

CARRIERS = ("tools/call", "prompts/get", "resources/read")
"""Methods whose handlers may ask, in every revision."""

_KEEP = "keep what it depends on with ctx.step"

_REFUSED = re.compile(r"\b(refus|reject|declin|denied)", re.IGNORECASE)


class Suspend(BaseException):
    """Unwinds a handler whose question has no answer yet. It passes ``except Exception``; let it pass yours."""


class Asked(NamedTuple):
    """A question on its way: by its key, with its params and what identifies them."""

    key: str
    question: Question
    params: dict[str, Json]
    digest: str


class Asker:
    """Answers the questions of one run of one handler. Thread-safe.

    Args:
        exchange: The request.
        lock: Guards what this remembers; never held while anything of an author's runs.

    ``pending`` are the questions that wait for another round, ``fault`` says what a checked run did wrong.
    """

    def __init__(self, exchange: IncomingRequest, lock: Any) -> None:
        self._exchange, self._lock = exchange, lock
        self._used: set[str] = set()
        self._stepped: set[str] = set()
        self._unnamed = self._called = 0
        self.pending: dict[str, Asked] = {}
        self.fault = ""
        self.round = 1
        self.call_id = os.urandom(16).hex()

    def new_key(self, question: Question) -> str:
        """The key of a question that was given none: its place among those without one."""
        with self._lock:
            self._unnamed += 1
            return f"{question.kind}-{self._unnamed}"

    def inner(self, name: str) -> str:
        """What the keys of a handler begin with that this one calls: its name, and how many were called before it."""
        with self._lock:
            self._called += 1
            return f"{name}#{self._called}/"

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """What the client says to several questions, by the same keys; all are asked at once.

        Raises: as `ClientFeatures.ask_all`.
        """
        self._exchange.check()
        if self._exchange.finished:
            raise RuntimeError(f"{self._exchange.request.method} is answered already: nothing can be asked for it")
        for key, question in questions.items():
            if not isinstance(key, str) or not isinstance(question, Question):
                raise TypeError("questions are Elicit, ElicitUrl, Sample or ListRoots, each by a key of text")
        peer = self._exchange.peer
        rendered = [(key, question, question.params(peer)) for key, question in questions.items()]
        asked = [Asked(key, question, params, digest([question.method, params])) for key, question, params in rendered]
        self._claim(self._used, [each.key for each in asked], "asked twice in one run: give each question its own key")
        return self._answers(asked) if asked else {}

    def _claim(self, taken: set[str], keys: list[str], problem: str) -> None:
        with self._lock:
            twice = [key for key in keys if key in taken]
            taken.update(keys)
        if twice:
            raise RuntimeError(f"{twice[0]!r} is {problem}")

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        raise NotImplementedError

    def step(self, key: str, function: Callable[[], Any]) -> Any:
        """What the function returns, as JSON; in a later round what it returned then."""
        self._exchange.check()
        if not isinstance(key, str):
            raise TypeError(f"the key of a step is a str, not {type(key).__name__}")
        self._claim(self._stepped, [key], "the key of two steps: give each its own")
        try:
            return self._result_of(key, function)
        except BaseException:  # it was not done: the handler may try again
            with self._lock:
                self._stepped.discard(key)
            raise

    def _result_of(self, key: str, function: Callable[[], Any]) -> Any:
        return as_json(function())


class NoAsker(Asker):
    """For handlers that cannot ask, in any revision."""

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        method = self._exchange.request.method
        raise RuntimeError(f"a handler of {method} cannot ask the client: those of {', '.join(CARRIERS)} can")


class BlockingAsker(Asker):
    """Sends each question as a request and waits."""

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        results = ask_now(self._exchange, asked)
        return {each.key: read_result(each, result) for each, result in zip(asked, results)}


class ReplayAsker(Asker):
    """Knows the answers of earlier rounds, and unwinds the handler at the first question that has none.

    Args:
        exchange: The request.
        lock: As for `Asker`.
        state: The claims that came back; None when none did.
        responses: The answers that came along, by key.
        max_rounds: How often the client may be asked for more; None sets no limit.
        strict: Whether a run has to ask what the runs before it asked.
    """

    def __init__(
        self,
        exchange: IncomingRequest,
        lock: Any,
        state: Optional[Mapping[str, Json]] = None,
        responses: Optional[Mapping[str, Json]] = None,
        *,
        max_rounds: Optional[int] = None,
        strict: bool = False,
    ) -> None:
        super().__init__(exchange, lock)
        self._max_rounds, self._strict = max_rounds, strict
        self._bank: dict[str, Any] = {}
        self._steps: dict[str, Json] = {}
        self._expected: set[str] = set()
        asked: Mapping[str, str] = {}
        if state is not None:
            self.round, self.call_id, asked = state["r"] + 1, state["cid"], state["asked"]
            self._bank, self._steps = dict(state["ans"]), dict(state["steps"])
            if strict:
                self._expected = {*asked, *(key for key, (pinned, _) in self._bank.items() if pinned is not None)}
        for key, answer in (responses or {}).items():
            if state is None:  # what was asked is not known: the key alone says what it answers
                self._bank[key] = (None, answer)
            elif key in asked:
                self._bank[key] = (asked[key], answer)

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        with self._lock:
            banked = {each.key: self._bank.get(each.key, (None, None)) for each in asked}
        found = {}
        missing: list[Asked] = []
        for each in asked:
            pinned, answer = banked[each.key]
            if answer is None or pinned not in (None, each.digest):
                self._refuse_change(each, answer)
                missing.append(each)
                continue
            try:
                found[each.key] = _read_banked(each, answer)
            except ValueError as error:
                log.info("%s is asked again, its answer does not fit: %s", one_line(each.key), one_line(str(error)))
                missing.append(each)
        self._note(asked, missing)
        if missing:
            raise Suspend
        return found

    def _refuse_change(self, each: Asked, answer: Any) -> None:
        if answer is None:
            return
        problem = f"{each.key!r} was asked in other words when the handler ran before"
        if self._strict:
            self._fail(f"check_replay: {problem}: {_KEEP}")
        request = self._exchange.request
        name = one_line(request.params.get("name", request.params.get("uri")))
        log.warning("%s %s: %s, and is asked again: %s", request.method, name, one_line(problem), _KEEP)

    def _fail(self, fault: str) -> None:
        self.fault = fault
        raise RuntimeError(fault)

    def _note(self, asked: list[Asked], missing: list[Asked]) -> None:
        """Remember which answers were good, and what has to be asked.

        Raises:
            ToolError: There were too many rounds already.
            RuntimeError: The run is checked, and did not ask what the one before it asked.
        """
        if missing:
            if self._max_rounds is not None and self.round > self._max_rounds:
                raise ToolError(f"the client was asked {self._max_rounds} times, and there are questions left")
            self.refuse_silence()
        with self._lock:
            for each in asked:
                self._bank[each.key] = (each.digest, self._bank.get(each.key, (None, None))[1])
            for each in missing:
                del self._bank[each.key]
                self.pending[each.key] = each

    def refuse_silence(self) -> None:
        """Return if a checked run asked all that the run before it asked.

        Raises:
            RuntimeError: It did not.
        """
        left = self._expected - self._used
        if left:
            self._fail(f"check_replay: {min(left)!r} was asked when the handler ran before, and is not asked now")

    def _result_of(self, key: str, function: Callable[[], Any]) -> Any:
        with self._lock:
            known = key in self._steps
        if not known:
            result = as_json(function())
            with self._lock:
                self._steps[key] = result
        return deepcopy(self._steps[key])  # what the handler does with it is no part of the state

    def ask_again(self, questions: Mapping[str, Question]) -> None:
        """Ask, whatever was answered before; returns if one of the answers was no.

        Raises:
            Suspend: The client is asked.
        """
        with self._lock:
            banked = [self._bank.pop(key, (None, {}))[1] for key in questions]
        if not any(answer.get("action") in ("decline", "cancel") for answer in banked):
            self.ask_all(questions)

    def claims(self) -> dict[str, Json]:
        """What the next round has to know."""
        with self._lock:
            return {
                "r": self.round,
                "cid": self.call_id,
                "asked": {key: each.digest for key, each in self.pending.items()},
                "ans": dict(self._bank),
                "steps": dict(self._steps),
            }


def asker_of(exchange: IncomingRequest) -> Asker:
    """Who answers what this handler asks; made with the first question."""
    asker: Optional[Asker] = exchange.asker
    return exchange.asker_made_by(_make) if asker is None else asker


def _make(exchange: IncomingRequest, lock: Any) -> Asker:
    if exchange.request.method not in CARRIERS:
        return NoAsker(exchange, lock)
    if exchange.peer.revision.handshake:
        return BlockingAsker(exchange, lock)
    facts: Facts = exchange.server
    return ReplayAsker(exchange, lock, max_rounds=facts.max_rounds, strict=facts.check_replay)


# ------------------------------------------------------------ answers


def ask_now(exchange: IncomingRequest, asked: list[Asked]) -> list[dict[str, Json]]:
    """Send questions as requests and wait for all the answers.

    Raises:
        Refused: The user or the client refuses one.
        RpcError: The client answered one with another error; ``from_peer`` is true.
        Exception: As `IncomingRequest.ask`.
    """
    questions = [(each.question.method, each.question.sealed(each.params)) for each in asked]
    outcome = exchange.ask(questions, exchange.server.ask_timeout)
    if isinstance(outcome, Failure):
        raise _refusal(outcome)
    return outcome


def read_result(asked: Asked, result: dict[str, Json]) -> Any:
    """What the handler gets for what a client answered.

    Raises:
        ProtocolViolation: The result is no answer to the question.
    """
    try:
        return asked.question.read(result)
    except ValueError as error:
        raise ProtocolViolation(f"the answer to {asked.question.method}: {error}", result) from None


def _refusal(failure: Failure) -> Exception:
    """An error that says no is a refusal; one about the protocol is an error."""
    code, message = failure.code, failure.message
    if code == USER_REJECTED or ((code not in RESERVED_CODES or code == INTERNAL_ERROR) and _REFUSED.search(message)):
        return Refused(message)
    return error_from_peer(code, message, failure.data)


def _read_banked(asked: Asked, answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise copy(answer)
    return asked.question.read(deepcopy(answer))  # what the handler does with it is no part of the state


def as_json(value: Any) -> Json:
    """What a later round will find for a value: the same in the first round, and in every revision.

    Raises:
        TypeError, ValueError: It has no JSON form.
    """
    return json.loads(to_json(write_any(value)))
