"""Questions in revisions where requests stand alone (2026-07-28): rounds of one request, and the
state between them.

A question is the result of a request (``input_required``), and the client comes again with the
answer and a signed state. What the handler does meanwhile depends on the transport:

- Over stdio and in memory there is one process and one client: the handler waits where it asked
  (`WaitingAsker`), and goes on as the handler of the request that brings the answer.
- Over HTTP the question unwinds the handler, and it runs once more from the top, where earlier
  questions find their answers (`ReplayAsker`). Nothing is kept meanwhile, so any process with the
  same keys may serve the next round.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from queue import Empty, SimpleQueue
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .. import errors
from ..engine.pool import waiting
from ..engine.requests import LATER, CancelToken, Handler, IncomingRequest, Route
from ..errors import logger, one_line
from ..protocol.lifecycle import INPUT_REQUIRED, Peer
from ..protocol.messages import Json, Request, Response, encode
from .options import where
from .questions import (
    Asked,
    Asker,
    Suspend,
    ask_now,
    asked_again,
    canonical,
    digest,
    name_of,
    read_result,
)

log = logger("minimcp.rounds")

# Characters of a state; longer ones are refused before anything is decoded.
LONGEST = 256 * 1024

SHORTEST_KEY = 32

_making = threading.Lock()

# Tools that were run again in this process: that is told once.
_replayed: set[str] = set()


def _too_often(most: int) -> errors.ToolError:
    way = "ask several at once with ctx.ask_all, or raise Limits.rounds: Server(..., limits=Limits(rounds=...))"
    return errors.ToolError(
        f"the client was asked {most} times, and there are questions left: {way}"
    )


class ReplayAsker(Asker):
    """Knows the answers of earlier rounds, and unwinds the handler at the first question that has
    none.

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
        self.strict = incoming.server.check_replay
        asked: Optional[Mapping[str, str]] = None
        if state is not None:
            self.round, self.call_id, asked = state["r"] + 1, state["cid"], state["asked"]
            self._answered, self._steps = dict(state["ans"]), dict(state["steps"])
        for key, answer in (responses or {}).items():
            if asked is None or key in asked:  # without a state the key alone says what it answers
                self._answered[key] = (asked[key] if asked else None, answer)
        known = [key for key, (pinned, _) in self._answered.items() if pinned is not None]
        self._expected = {*known, *(asked or ())} if self.strict else set()

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        most = (
            None if self._incoming.peer.revision.handshake else self._incoming.server.limits.rounds
        )
        if most is not None and self.round > most:
            raise _too_often(most)
        with self._lock:
            self.pending.update((each.key, each) for each in asked)
        raise Suspend

    def unasked(self) -> str:
        """What is wrong with a checked run that did not ask all that the run before it asked; empty
        when it did."""
        left = min(self._expected - self._used, default=None)
        return (
            f"check_replay: {left!r} was asked when the handler ran before, and is not asked now"
            if left
            else ""
        )

    def claims(self) -> dict[str, Json]:
        """What the next round has to know."""
        with self._lock:
            return {
                "r": self.round,
                "cid": self.call_id,
                "asked": {key: each.digest for key, each in self.pending.items()},
                "ans": dict(self._answered),
                "steps": dict(self._steps),
            }


class WaitingAsker(Asker):
    """Ends the request with the questions, and waits where the handler asks for the request that
    brings the answers.

    Args:
        incoming: The request.
        before: Asked for an earlier run of this call's handler; None for the first.
    """

    def __init__(self, incoming: IncomingRequest, before: Optional[WaitingAsker] = None) -> None:
        super().__init__(incoming, before)
        self._one_round = threading.Lock()  # threads of one handler ask one after the other
        # The answers that came, by key; None to have the request looked at again.
        self._came: SimpleQueue[Optional[Mapping[str, Json]]] = SimpleQueue()
        self._rounds: int = 1 if before is None else before._rounds

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with self._one_round:
            while len(found) < len(asked):
                missing = [each for each in asked if each.key not in found]
                found.update(self._next_round(missing))
        return found

    def _next_round(self, asked: list[Asked]) -> dict[str, Any]:
        """Ask the client once; what it answered, as far as that fits."""
        incoming, limits, state = (
            self._incoming,
            self._incoming.server.limits,
            (self.call_id, self._rounds),
        )
        if limits.rounds is not None and self._rounds > limits.rounds:
            raise _too_often(limits.rounds)
        line = encode(
            Response(
                incoming.request.id, _asking(incoming, asked, {"cid": state[0], "r": state[1]})
            )
        )
        self._rounds += 1
        forget = CancelToken.on_cancel(incoming, lambda: self._came.put(None))
        if incoming.timeout is not None:
            incoming.timeout.pause()
        try:
            incoming.check()
            if not incoming.sink.respond(incoming, line, key=state):
                raise errors.Cancelled("the request was answered meanwhile")
            with waiting():
                responses = self._came.get(timeout=limits.ask_timeout)
        except Empty:
            if incoming.sink.requests.go_on(state) is None:  # it comes at this very moment
                responses = self._came.get()
            else:
                incoming.finished = True
                text = f"{name_of(incoming)}: no answer to {one_line(asked[0].key)} within {limits.ask_timeout:g} s"
                raise errors.RequestTimeout(text) from None
        finally:
            incoming.sink.requests.go_on(state)  # if something else ended this thread's wait
            forget()
            if incoming.timeout is not None:
                incoming.timeout.resume()
        incoming.check()
        found = {}
        for each in asked:
            with asked_again(each):
                if responses is not None and each.key in responses:
                    found[each.key] = each.question.read(responses[each.key])
                    self._answered[each.key] = (each.digest, responses[each.key])
        return found

    def take(self, responses: Mapping[str, Json]) -> None:
        """The client has come back with these answers. Never blocks."""
        self._came.put(responses)


def asker_of(incoming: IncomingRequest) -> Asker:
    """Who answers what the handler of a request asks; made with the first question."""
    with _making:
        if incoming.asker is None:
            revision = incoming.peer.revision
            kind: Callable[[IncomingRequest], Asker] = Asker
            if incoming.request.method in revision.asking_methods:
                if _replays(incoming):
                    kind = ReplayAsker
                elif not revision.handshake:
                    kind = WaitingAsker
            incoming.asker = kind(incoming)
        asker: Asker = incoming.asker
        return asker


def _replays(incoming: IncomingRequest) -> bool:
    """Whether the handler of a request runs once more when an answer has come."""
    alone = not incoming.peer.revision.handshake and not incoming.sink.waits_for_rounds
    return alone or incoming.server.check_replay


# ------------------------------------------------------------ the rounds of one request


def resume(incoming: IncomingRequest, function: Callable[..., Any]) -> None:
    """Take in what a request brings from an earlier round, if it is one whose handler may ask and
    stands alone.

    Args:
        incoming: The request.
        function: What the author wrote, for the log.

    Raises:
        InvalidParams: The answers have a wrong form, or the state is none of this server's.
    """
    revision, token = incoming.peer.revision, incoming.request.params.get("requestState")
    if revision.handshake or incoming.request.method not in revision.asking_methods:
        return
    responses = _responses(incoming)
    if _replays(incoming):
        state = (
            None
            if token is None
            else incoming.server.states.unseal(token, incoming, "asked", "ans", "steps")
        )
        incoming.asker = ReplayAsker(incoming, state, responses)
        name = name_of(incoming)
        if incoming.request.method == "tools/call" and name not in _replayed:
            _replayed.add(name)
            way = "what must not be done twice goes into ctx.step"
            log.info("%s, %s, runs again from the top: %s", name, where(function), way)


def _responses(incoming: IncomingRequest) -> Mapping[str, Json]:
    """What a client answers, by key. Raises InvalidParams: it is no object of objects."""
    responses = incoming.request.params.get("inputResponses", {})
    if not isinstance(responses, dict) or not all(
        isinstance(each, dict) for each in responses.values()
    ):
        raise errors.InvalidParams("inputResponses is an object of objects")
    return responses


def goes_on(request: Request, peer: Peer, config: Any) -> bool:
    """Whether a request, which came over stdio or in memory, brings answers to a handler that waits
    for them."""
    alone = not peer.revision.handshake and request.method in peer.revision.asking_methods
    return alone and not config.check_replay and request.params.get("requestState") is not None


def _go_on(incoming: IncomingRequest) -> Any:
    """Hand the answers to the thread that waits for them.

    Raises:
        InvalidParams: They have a wrong form, or no handler waits for this state: each is good for
            one request.
    """
    responses = _responses(incoming)
    state = incoming.server.states.unseal(incoming.request.params["requestState"], incoming)
    waits = incoming.sink.requests.go_on((state["cid"], state["r"]), incoming)
    if waits is None:
        reason = {"reason": errors.STATE_REJECTED}
        raise errors.InvalidParams(
            "no handler waits for this requestState: it was used before, or is too old", reason
        )
    waits.asker.take(responses)
    return LATER


# Where `goes_on` is true.
GO_ON = Route(_go_on, immediate=True)


def end_round(
    incoming: IncomingRequest, again: Handler, result: Any, error: Optional[BaseException]
) -> Any:
    """The result of a run: the questions that it left unanswered win over what it returned or
    raised.

    Args:
        incoming: The request.
        again: Serves it once more: with a handshake and ``check_replay`` this asks the client
            meanwhile.
        result: Of a run that returned.
        error: What it raised in its place; None when it returned.

    Raises:
        BaseException: That error.
    """
    asker = incoming.asker
    if isinstance(asker, ReplayAsker) and (error is None or isinstance(error, Suspend)):
        asker.fault = asker.fault or asker.unasked()
    if asker is not None and asker.fault:
        raise errors.InternalError(asker.fault)
    if isinstance(asker, WaitingAsker) and isinstance(error, Suspend):
        incoming.asker = WaitingAsker(incoming, asker)
        return again(incoming)
    if asker is None or not asker.pending:
        if error is not None:
            raise error
        return result
    if not isinstance(error, Suspend):
        did = "went on" if error is None else f"raised {error!r}"
        way = "it must let Suspend pass: catch Exception, not BaseException"
        log.warning("%s %s while a question waits: %s", name_of(incoming), did, way)
    if incoming.peer.revision.handshake:
        incoming.asker = ReplayAsker(
            incoming, asker.claims(), _asked_now(incoming, list(asker.pending.values()))
        )
        return again(incoming)
    return _asking(incoming, list(asker.pending.values()), asker.claims())


def _asking(incoming: IncomingRequest, asked: list[Asked], claims: Mapping[str, Json]) -> Any:
    """The result that asks a client."""
    requests = {
        each.key: {
            "method": each.question.method,
            **({"params": each.params} if each.params else {}),
        }
        for each in asked
    }
    state = incoming.server.states.seal(claims, incoming)
    asking = {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": state}
    return incoming.server.closed(asking, incoming.peer.revision)


def _asked_now(incoming: IncomingRequest, asked: list[Asked]) -> dict[str, Any]:
    """The answers of a client that can be asked meanwhile; or an error, which the handler gets
    where it asks."""
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


def url_required(incoming: IncomingRequest, error: BaseException) -> None:
    """What `UrlElicitationRequired` of another revision means here: the client is asked to have its
    user open the URLs.

    Returns for any other error, if the user said no, if there were too many rounds, or if it names
    no URL that can be opened.

    Raises:
        Suspend: The client is asked.
        CapabilityNotSupported: It cannot be.
    """
    if (
        not isinstance(error, errors.UrlElicitationRequired)
        or error.from_peer
        or incoming.peer.revision.handshake
    ):
        return
    asker = asker_of(incoming)
    if error.data and error.data["elicitations"] and isinstance(asker, (ReplayAsker, WaitingAsker)):
        try:
            asker.ask_for_urls(error.data["elicitations"])
        except (errors.ToolError, RuntimeError, ValueError) as problem:
            log.warning("%s: %s", name_of(incoming), problem)


# ------------------------------------------------------------ the state between rounds

_LABEL = b"minimcp requestState v1"


class States:
    """Makes and takes back what clients of one server carry between rounds. Thread-safe.

    A state is ``v1.``, base64url of JSON, a dot and its HMAC-SHA256 in hexadecimal. It is signed,
    not encrypted: the client can read what it carries, the results of ``ctx.step`` included. A
    signature is no single use: a state may come back as often as it likes until it expires.

    Args:
        audience: The server's name: another server's states are refused.
        keys: Secrets of 32 bytes or more; the first signs, all of them verify. A function is called
            for the only one when it is needed. None makes one up, for this process and its forks.
        lifetime: Seconds that a state is good for; None means for ever.
        clock: The time in seconds, the same in every process that shares the keys.

    Raises:
        TypeError: A key is not bytes.
        ValueError: A key is too short, or there is none.
    """

    def __init__(
        self,
        audience: str,
        keys: Union[Sequence[bytes], Callable[[], bytes], None] = None,
        *,
        lifetime: Optional[float] = 600,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._audience, self._lifetime, self._clock, self._keys = (
            audience,
            lifetime,
            clock,
            list[bytes](),
        )
        self._fetch = keys if callable(keys) else None
        if callable(keys):
            return
        given = [os.urandom(SHORTEST_KEY)] if keys is None else keys
        what = f"state_keys is a list of secrets of {SHORTEST_KEY} bytes or more, such as [os.urandom({SHORTEST_KEY})]"
        if isinstance(given, (bytes, str)) or not all(
            isinstance(key, (bytes, bytearray)) for key in given
        ):
            raise TypeError(what)
        if min(map(len, given), default=0) < SHORTEST_KEY:
            raise ValueError(what)
        self._keys = [bytes(key) for key in given]

    def _known_keys(self) -> list[bytes]:
        if not self._keys and self._fetch is not None:
            self._keys = [self._fetch()]
        return self._keys

    def seal(self, claims: Mapping[str, Json], incoming: IncomingRequest) -> str:
        """The text that has to come back with the next round of this request.

        Raises:
            InternalError: It would be too long.
        """
        exp = None if self._lifetime is None else self._clock() + self._lifetime
        state = {"exp": exp, "aud": self._audience, "bind": binding(incoming), **claims}
        text = _signed(self._known_keys()[0], urlsafe_b64encode(canonical(state)).decode())
        if len(text) > LONGEST:
            what = f"the answers and steps of {incoming.request.method} are too much for a requestState"
            raise errors.InternalError(f"{what}: {len(text)} characters, and {LONGEST} is the most")
        return text

    def unseal(self, text: Json, incoming: IncomingRequest, *more: str) -> dict[str, Json]:
        """The claims of a state that came back: the call, the round, and more.

        Raises:
            InvalidParams: It is not one that this server made for this request, or its time is
                over. Which of these it is stands in the log only.
        """
        from hmac import compare_digest

        keys = self._known_keys()
        try:
            if not isinstance(text, str) or len(text) > LONGEST:
                raise ValueError("no text, or too long")
            payload = text.partition(".")[2].partition(".")[0]
            if not any(
                compare_digest(_signed(key, payload).encode(), text.encode()) for key in keys
            ):
                raise ValueError("a wrong signature, or an unknown key")
            claims = json.loads(urlsafe_b64decode(payload))
            if claims["aud"] != self._audience:
                raise ValueError("another server's")
            if claims["bind"] != binding(incoming):
                raise ValueError("another request's, or another user's")
            if claims["exp"] is not None and not self._clock() < claims["exp"]:
                raise ValueError("expired")
            return {name: claims[name] for name in ("r", "cid", *more)}
        except Exception as error:
            log.warning("the requestState of %s is refused: %s", incoming.request.method, error)
        raise errors.InvalidParams(
            "Invalid or expired requestState", {"reason": errors.STATE_REJECTED}
        )


def binding(incoming: IncomingRequest) -> str:
    """What ties a state to its request: the method, its target, its arguments, and who asks."""
    params = incoming.request.params
    target = params.get("name"), params.get("uri")
    return digest(
        [incoming.request.method, *target, params.get("arguments") or {}, incoming.peer.principal]
    )


def _signed(key: bytes, payload: str) -> str:
    import hmac  # brings OpenSSL in, which few servers need

    return f"v1.{payload}.{hmac.new(key, _LABEL + payload.encode(), 'sha256').hexdigest()}"
