"""Questions in revisions where requests stand alone (2026-07-28): rounds of one request, and the state between them.

The first question without an answer unwinds the handler, and the result asks for it (``input_required``); the client
comes again with the answer and a signed state, and the handler runs once more from the top, where earlier questions
find their answers. Nothing is kept here meanwhile, so any process with the same keys may serve the next round.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from copy import copy, deepcopy
from typing import Any, Callable, Mapping, Optional, Sequence

from .. import errors
from ..engine.requests import Handler, IncomingRequest
from ..errors import one_line
from ..protocol.lifecycle import INPUT_REQUIRED
from ..protocol.messages import Json
from .questions import CARRIERS, Asked, Asker, ElicitUrl, ask_now, read_result

log = logging.getLogger("minimcp.rounds")

LONGEST = 256 * 1024
"""Characters of a state; longer ones are refused before anything is decoded."""

SHORTEST_KEY = 32

_KEEP = "keep what it depends on with ctx.step"
_making = threading.Lock()


class Suspend(BaseException):
    """Unwinds a handler whose question has no answer yet. It passes ``except Exception``; let it pass yours."""


class ReplayAsker(Asker):
    """Knows the answers of earlier rounds, and unwinds the handler at the first question that has none.

    Args:
        incoming: The request.
        state: The claims that came back; None when none did.
        responses: The answers that came along, by key.
    """

    def __init__(
        self,
        incoming: IncomingRequest,
        state: Optional[Mapping[str, Json]] = None,
        responses: Optional[Mapping[str, Json]] = None,
    ) -> None:
        super().__init__(incoming)
        self._strict = incoming.server.check_replay
        """Whether a run has to ask what the runs before it asked."""
        self._answered: dict[str, Any] = {}
        """By key: the digest of the question that was asked, None when it is not known, and the answer."""
        asked: Optional[Mapping[str, str]] = None
        if state is not None:
            self.round, self.call_id, asked = state["r"] + 1, state["cid"], state["asked"]
            self._answered, self._steps = dict(state["ans"]), dict(state["steps"])
        for key, answer in (responses or {}).items():
            if asked is None or key in asked:  # without a state the key alone says what it answers
                self._answered[key] = (asked[key] if asked else None, answer)
        known = [key for key, (pinned, _) in self._answered.items() if pinned is not None]
        self._expected = {*known, *(asked or ())} if self._strict else set()

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        found = {}
        for each in asked:
            pinned, answer = self._answered.get(each.key, (None, None))
            if answer is not None and pinned not in (None, _digest_of(each)):
                problem = f"{each.key!r} was asked in other words when the handler ran before"
                if self._strict:
                    self.fault = f"check_replay: {problem}: {_KEEP}"
                    raise RuntimeError(self.fault)
                log.warning("%s: %s, and is asked again: %s", _name(self._incoming), one_line(problem), _KEEP)
            elif isinstance(answer, Exception):
                raise copy(answer)
            elif answer is not None:
                try:
                    found[each.key] = each.question.read(deepcopy(answer))  # the handler's own, no part of the state
                except ValueError as error:
                    log.info("%s is asked again, its answer does not fit: %s", one_line(each.key), one_line(str(error)))
        missing = {each.key: each for each in asked if each.key not in found}
        most = None if self._incoming.peer.revision.handshake else self._incoming.server.limits.rounds
        if missing and most is not None and self.round > most:
            raise errors.ToolError(f"the client was asked {most} times, and there are questions left")
        with self._lock:
            self.pending.update(missing)
            for each in asked:
                _, answer = self._answered.pop(each.key, (None, None))
                if each.key in found:
                    self._answered[each.key] = (_digest_of(each), answer)
        if missing:
            raise Suspend
        return found

    def unasked(self) -> str:
        """What is wrong with a checked run that did not ask all that the run before it asked; empty when it did."""
        left = min(self._expected - self._used, default=None)
        return f"check_replay: {left!r} was asked when the handler ran before, and is not asked now" if left else ""

    def ask_for_urls(self, wanted: Sequence[Mapping[str, str]]) -> None:
        """Ask to open URLs, whatever was answered before; returns if one of the answers was no.

        Raises:
            Suspend: The client is asked.
        """
        with self._lock:
            answers = [self._answered.pop(each["elicitationId"], (None, {}))[1] for each in wanted]
        if not any(answer.get("action") in ("decline", "cancel") for answer in answers):
            self.ask_all({each["elicitationId"]: ElicitUrl(each["message"], each["url"]) for each in wanted})

    def claims(self) -> dict[str, Json]:
        """What the next round has to know."""
        with self._lock:
            return {
                "r": self.round,
                "cid": self.call_id,
                "asked": {key: _digest_of(each) for key, each in self.pending.items()},
                "ans": dict(self._answered),
                "steps": dict(self._steps),
            }


def _digest_of(asked: Asked) -> str:
    said = {name: value for name, value in asked.params.items() if name != "elicitationId"}  # new each time
    return digest([asked.question.method, said])


def asker_of(incoming: IncomingRequest) -> Asker:
    """Who answers what the handler of a request asks; made with the first question."""
    with _making:
        if incoming.asker is None:
            again = incoming.server.check_replay or not incoming.peer.revision.handshake
            incoming.asker = (ReplayAsker if again and incoming.request.method in CARRIERS else Asker)(incoming)
        asker: Asker = incoming.asker
        return asker


# ------------------------------------------------------------ the rounds of one request


def resume(incoming: IncomingRequest) -> None:
    """Take in what a request brings from an earlier round, if it is one whose handler may ask and stands alone.

    Raises:
        InvalidParams: The answers have a wrong form, or the state is none of this server's.
    """
    params = incoming.request.params
    if incoming.peer.revision.handshake or incoming.request.method not in CARRIERS:
        return
    responses, token = params.get("inputResponses", {}), params.get("requestState")
    if not isinstance(responses, dict) or not all(isinstance(each, dict) for each in responses.values()):
        raise errors.InvalidParams("inputResponses is an object of objects")
    state = None if token is None else incoming.server.states.unseal(token, incoming)
    incoming.asker = ReplayAsker(incoming, state, responses)


def end_round(incoming: IncomingRequest, again: Handler, result: Any, error: Optional[BaseException]) -> Any:
    """The result of a run: the questions that it left unanswered win over what it returned or raised.

    Args:
        incoming: The request.
        again: Serves it once more: with a handshake and ``check_replay`` this asks the client meanwhile.
        result: Of a run that returned.
        error: What it raised in its place; None when it returned.

    Raises:
        BaseException: That error.
    """
    asker, config = incoming.asker, incoming.server
    if isinstance(asker, ReplayAsker) and (error is None or isinstance(error, Suspend)):
        asker.fault = asker.fault or asker.unasked()
    if asker is not None and asker.fault:
        raise errors.InternalError(asker.fault)
    if asker is None or not asker.pending:
        if error is not None:
            raise error
        return result
    if not isinstance(error, Suspend):
        did = "went on" if error is None else f"raised {error!r}"
        log.warning("%s %s while a question waits: it must let Suspend pass", _name(incoming), did)
    if incoming.peer.revision.handshake:
        incoming.asker = ReplayAsker(incoming, asker.claims(), _asked_now(incoming, list(asker.pending.values())))
        return again(incoming)
    requests = {
        key: {"method": each.question.method, **({"params": each.params} if each.params else {})}
        for key, each in asker.pending.items()
    }
    state = config.states.seal(asker.claims(), incoming)
    asking = {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": state}
    return config.closed(asking, incoming.peer.revision)


def _asked_now(incoming: IncomingRequest, asked: list[Asked]) -> dict[str, Any]:
    """The answers of a client that can be asked meanwhile; or an error, which the handler gets where it asks."""
    answers: list[Any]
    try:
        answers = list(ask_now(incoming, asked))
        for each, answer in zip(asked, answers):
            read_result(each, answer)
    except (errors.Cancelled, errors.ConnectionLost):
        raise
    except Exception as error:
        answers = [error] * len(asked)
    return {each.key: answer for each, answer in zip(asked, answers)}


def _name(incoming: IncomingRequest) -> str:
    target = incoming.request.params.get("name", incoming.request.params.get("uri"))
    return f"{incoming.request.method} {one_line(target)}"


def url_required(incoming: IncomingRequest, error: BaseException) -> None:
    """What `UrlElicitationRequired` of another revision means here: the client is asked to have its user open the URLs.

    Returns for any other error, if the user said no, if there were too many rounds, or if it names no URL that can be
    opened.

    Raises:
        Suspend: The client is asked.
        CapabilityNotSupported: It cannot be.
    """
    if not isinstance(error, errors.UrlElicitationRequired) or error.from_peer or incoming.peer.revision.handshake:
        return
    asker = asker_of(incoming)
    if error.data and error.data["elicitations"] and isinstance(asker, ReplayAsker):
        try:
            asker.ask_for_urls(error.data["elicitations"])
        except (errors.ToolError, RuntimeError, ValueError) as problem:
            log.warning("%s: %s", _name(incoming), problem)


# ------------------------------------------------------------ the state between rounds

_LABEL = b"minimcp requestState v1"


class States:
    """Makes and takes back what clients of one server carry between rounds. Thread-safe.

    A state is ``v1.``, base64url of JSON, a dot and its HMAC-SHA256 in hexadecimal. It is signed, not encrypted: the
    client can read what it carries, the results of ``ctx.step`` included. A signature is no single use: a state may
    come back as often as it likes until it expires.

    Args:
        audience: The server's name: another server's states are refused.
        keys: Secrets of 32 bytes or more; the first signs, all of them verify. None makes one up, for this process and
            its forks.
        lifetime: Seconds that a state is good for; None means for ever.
        clock: The time in seconds, the same in every process that shares the keys.

    Raises:
        TypeError: A key is not bytes.
        ValueError: A key is too short, or there is none.
    """

    def __init__(
        self,
        audience: str,
        keys: Optional[Sequence[bytes]] = None,
        *,
        lifetime: Optional[float] = 600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        given = [os.urandom(SHORTEST_KEY)] if keys is None else keys
        what = f"state_keys is a list of secrets of {SHORTEST_KEY} bytes or more, such as [os.urandom({SHORTEST_KEY})]"
        if isinstance(given, (bytes, str)) or not all(isinstance(key, (bytes, bytearray)) for key in given):
            raise TypeError(what)
        if min(map(len, given), default=0) < SHORTEST_KEY:
            raise ValueError(what)
        self._keys = [bytes(key) for key in given]
        self._audience, self._lifetime, self._clock = audience, lifetime, clock

    def seal(self, claims: Mapping[str, Json], incoming: IncomingRequest) -> str:
        """The text that has to come back with the next round of this request.

        Raises:
            InternalError: It would be too long.
        """
        exp = None if self._lifetime is None else self._clock() + self._lifetime
        state = {"exp": exp, "aud": self._audience, "bind": binding(incoming), **claims}
        text = _signed(self._keys[0], urlsafe_b64encode(canonical(state)).decode())
        if len(text) > LONGEST:
            what = f"the answers and steps of {incoming.request.method} are too much for a requestState"
            raise errors.InternalError(f"{what}: {len(text)} characters, and {LONGEST} is the most")
        return text

    def unseal(self, text: Json, incoming: IncomingRequest) -> dict[str, Json]:
        """The claims of a state that came back.

        Raises:
            InvalidParams: It is not one that this server made for this request, or its time is over. Which of these
                it is stands in the log only.
        """
        from hmac import compare_digest

        try:
            if not isinstance(text, str) or len(text) > LONGEST:
                raise ValueError("no text, or too long")
            payload = text.partition(".")[2].partition(".")[0]
            if not any(compare_digest(_signed(key, payload).encode(), text.encode()) for key in self._keys):
                raise ValueError("a wrong signature, or an unknown key")
            claims = json.loads(urlsafe_b64decode(payload))
            if claims["aud"] != self._audience:
                raise ValueError("another server's")
            if claims["bind"] != binding(incoming):
                raise ValueError("another request's, or another user's")
            if claims["exp"] is not None and not self._clock() < claims["exp"]:
                raise ValueError("expired")
            return {name: claims[name] for name in ("r", "cid", "asked", "ans", "steps")}
        except Exception as error:
            log.warning("the requestState of %s is refused: %s", incoming.request.method, one_line(str(error)))
        raise errors.InvalidParams("Invalid or expired requestState", {"reason": errors.STATE_REJECTED})


def canonical(value: Json) -> bytes:
    """The same bytes for the same JSON, whatever the order of its members."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Json) -> str:
    """A short name for a JSON value, which no other value has."""
    from hashlib import sha256

    return sha256(canonical(value)).hexdigest()[:32]


def binding(incoming: IncomingRequest) -> str:
    """What ties a state to its request: the method, its target, its arguments, and who asks."""
    params = incoming.request.params
    target = params.get("name"), params.get("uri")
    return digest([incoming.request.method, *target, params.get("arguments") or {}, incoming.peer.principal])


def _signed(key: bytes, payload: str) -> str:
    import hmac  # brings OpenSSL in, which few servers need

    return f"v1.{payload}.{hmac.new(key, _LABEL + payload.encode(), 'sha256').hexdigest()}"
