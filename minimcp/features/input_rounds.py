"""Questions in revisions where requests stand alone (2026-07-28): rounds of one request, and the
state between them.

A question is the result of a request (``input_required``). The client sends the request again, with
the answer and with a signed state that holds everything that an earlier run has found out. So a
handler can always run again from the top, in any process that has the same keys, and its earlier
questions and steps find their answers (`RerunChannel`).

Over stdio and in memory a handler that asks also waits where it is (`WaitingChannel`). If the
answer comes in time, the handler continues as the handler of the new request. At most
``Limits.waiting_handlers`` handlers of a connection wait (`WaitingHandlers`): one more makes the
one that has waited longest give way, and then the new request runs the handler again.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from .. import errors
from ..engine.connection import Connection
from ..engine.incoming import DEFERRED, LEAVE, Handler, IncomingRequest, Route, Sink
from ..engine.pool import renewed_in_fork, waiting
from ..log import logger
from ..protocol.lifecycle import INPUT_REQUIRED, Peer
from ..protocol.messages import Json, Request
from ..server.feature import Feature
from ..server.options import source_location
from ..text import one_line
from .questions import (
    QuestionChannel,
    SentQuestion,
    Suspend,
    ask_now,
    asked_again,
    canonical,
    digest,
    read_result,
    request_label,
)

if TYPE_CHECKING:
    from ..server.registry import Registry

log = logger("minimcp.rounds")

# Characters of a state; longer ones are refused before anything is decoded.
MAX_STATE_CHARACTERS = 256 * 1024

MIN_KEY_BYTES = 32

_making = threading.Lock()

# Tools that were run again in this process: that is told once.
_replayed: set[str] = set()


def _too_often(most: int) -> errors.ToolError:
    way = (
        "ask several at once with ctx.ask_all, or raise Limits.rounds: Server(..., "
        "limits=Limits(rounds=...))"
    )
    return errors.ToolError(
        f"the client was asked {most} times, and there are questions left: {way}"
    )


class RerunChannel(QuestionChannel):
    """Knows the answers of earlier rounds, and unwinds the handler at the first question that has
    none.

    Args:
        incoming: The request.
        state: The claims that came back; None when none did.
        responses: The answers that came along, by key.

    Attributes:
        gave_way: Whether the client has the questions already, because the handler waited for the
            answers and was made to stop.
    """

    gave_way = False

    def __init__(
        self,
        incoming: IncomingRequest,
        state: Optional[Mapping[str, Json]] = None,
        responses: Optional[Mapping[str, Json]] = None,
    ) -> None:
        super().__init__(incoming)
        self.strict = incoming.server.check_replay
        # The number of the next round, which is one more than how often the client was asked.
        self._rounds: int = 1
        asked: Optional[Mapping[str, str]] = None
        if state is not None:
            self._rounds = state["r"] + 1
            self.round = state["run"] + 1
            self.call_id = state["cid"]
            asked = state["asked"]
            self._answered = dict(state["ans"])
            self._steps = dict(state["steps"])
        for key, answer in (responses or {}).items():
            if asked is None or key in asked:  # without a state the key alone says what it answers
                self._answered[key] = (asked[key] if asked else None, answer)
        known = [key for key, (pinned, _) in self._answered.items() if pinned is not None]
        self._expected = {*known, *(asked or ())} if self.strict else set()

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        self._check_rounds()
        with self._lock:
            self.pending.update((each.key, each) for each in asked)
        raise Suspend

    def _check_rounds(self) -> None:
        """Return if the client may be asked once more. Raises ToolError: it may not."""
        most = self._incoming.server.limits.rounds
        peer = self._incoming.peer
        if most is not None and not peer.revision.handshake and self._rounds > most:
            raise _too_often(most)

    def unasked(self) -> str:
        """What is wrong with a checked run that did not ask all that the run before it asked; empty
        when it did."""
        left = min(self._expected - self._used, default=None)
        return (
            f"check_replay: {left!r} was asked when the handler ran before, and is not asked now"
            if left
            else ""
        )

    def claims(self, asked: Optional[Iterable[SentQuestion]] = None) -> dict[str, Json]:
        """Return what the next run needs to know.

        Args:
            asked: The questions that it gets answers to; None takes those that wait.
        """
        with self._lock:
            asked = list(self.pending.values()) if asked is None else asked
            return {
                "r": self._rounds,
                "run": self.round,
                "cid": self.call_id,
                "asked": {each.key: each.digest for each in asked},
                "ans": dict(self._answered),
                "steps": dict(self._steps),
            }


# What a handler finds in place of answers if it has to stop waiting for them.
_GIVE_WAY: Mapping[str, Json] = {}


class WaitingChannel(RerunChannel):
    """Answers the request with the questions, and waits for the retry that brings the answers.

    The thread that takes a waiting handler out of its `WaitingHandlers` decides how the wait ends:
    with a retry (`take_retry`), because others wait (`give_way`), at a timeout, or with the
    connection.
    """

    def __init__(
        self,
        incoming: IncomingRequest,
        state: Optional[Mapping[str, Json]] = None,
        responses: Optional[Mapping[str, Json]] = None,
    ) -> None:
        super().__init__(incoming, state, responses)
        self._one_round = threading.Lock()  # threads of one handler ask one after the other
        # How the wait ends: the answers by key, `_GIVE_WAY`, or None if the handler is cancelled.
        self._came: SimpleQueue[Optional[Mapping[str, Json]]] = SimpleQueue()

    def again(self) -> WaitingChannel:
        """Return the channel of another run for the same request."""
        return WaitingChannel(self._incoming, {**self.claims(), "r": self._rounds - 1})

    def binding(self) -> str:
        """Return what the retry must have in common with the request."""
        return binding(self._incoming)

    def take_retry(self, retry: IncomingRequest, responses: Mapping[str, Json]) -> None:
        """Have the handler go on, as the handler of this request. Never blocks."""
        self._incoming.continue_with(retry)
        self._came.put(responses)

    def give_way(self) -> None:
        """Have the handler stop waiting, because too many others wait. Never blocks."""
        self.gave_way = True
        self._came.put(_GIVE_WAY)

    def cancel(self, reason: str) -> None:
        """Cancel the handler."""
        self._incoming.token.cancel(reason)

    def step(self, key: str, function: Callable[[], Any]) -> Any:
        if self.gave_way:  # the client has the state already, which cannot hold this step
            raise Suspend
        return super().step(key, function)

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        with self._one_round:
            while len(found) < len(asked):
                missing = [each for each in asked if each.key not in found]
                found.update(self._next_round(missing))
        return found

    def _next_round(self, asked: list[SentQuestion]) -> dict[str, Any]:
        """Ask the client once; return the answers that fit."""
        if self.gave_way:
            raise Suspend
        self._check_rounds()
        incoming = self._incoming
        question = _asking(incoming, asked, self.claims(asked))
        self._rounds += 1
        if incoming.timeout is not None:
            incoming.timeout.pause()
        try:
            came = self._wait(question, asked)
        finally:
            if incoming.timeout is not None:
                incoming.timeout.resume()
        if came is _GIVE_WAY:
            with self._lock:
                self.pending.update((each.key, each) for each in asked)
            raise Suspend
        incoming.check()
        assert came is not None
        found = {}
        for each in asked:
            with asked_again(each):
                if each.key in came:
                    found[each.key] = each.question.read(came[each.key])
                    self._answered[each.key] = (each.digest, came[each.key])
        return found

    def _wait(
        self, question: Mapping[str, Json], asked: list[SentQuestion]
    ) -> Optional[Mapping[str, Json]]:
        """Answer the request with a question, and return what `_came` gets."""
        incoming = self._incoming
        sink = self._incoming.sink
        state = question["requestState"]
        handlers: WaitingHandlers = incoming.server.feature("rounds").waiting
        seconds = incoming.server.limits.ask_timeout
        forget = incoming.token.on_cancel(lambda: self._came.put(None))
        try:
            incoming.check()
            # Before the question is sent, because the retry may come at once.
            handlers.add(sink, state, self, incoming.server.limits.waiting_handlers)
            latest = incoming.latest
            if latest is None or not latest.answer(question):
                raise errors.Cancelled("the request was answered meanwhile")
            with waiting():
                return self._came.get(timeout=seconds)
        except Empty:
            if not handlers.remove(sink, state, self):
                return self._came.get()  # another thread ends the wait at this moment
            incoming.take_latest()
            text = (
                f"{request_label(incoming)}: no answer to {one_line(asked[0].key)} within "
                f"{seconds:g} s"
            )
            raise errors.RequestTimeout(text) from None
        finally:
            handlers.remove(sink, state, self)  # if something else ended this thread's wait
            forget()


class WaitingHandlers:
    """The handlers that wait for answers of their clients, for each connection of one server.

    Whoever takes a handler out of here ends its wait, and nobody else does. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By connection and by the state that the retry brings; those that have waited longest
        # come first.
        self._waiting: dict[Sink, dict[str, WaitingChannel]] = {}

    def add(self, sink: Sink, state: str, channel: WaitingChannel, most: Optional[int]) -> None:
        """Add a handler that is about to wait. If there are too many, one gives way.

        Args:
            sink: The connection that the retry comes by.
            state: The ``requestState`` that the retry brings.
            channel: The handler's.
            most: How many handlers of one connection may wait; None means no limit.
        """
        with self._lock:
            waits = self._waiting.setdefault(sink, {})
            # Two runs of one call can ask the same at the same time: the client cannot tell them
            # apart either.
            leaving = waits.pop(state, None)
            waits[state] = channel
            if most is not None and len(waits) > most:
                leaving = waits.pop(next(iter(waits)))
        if leaving is not None:
            leaving.give_way()

    def find(self, sink: Sink, state: Json) -> Optional[WaitingChannel]:
        """Return the handler that waits for a retry with this state; None if there is none."""
        with self._lock:
            waits = self._waiting.get(sink, {})
            return waits.get(state) if isinstance(state, str) else None

    def remove(self, sink: Sink, state: str, channel: WaitingChannel) -> bool:
        """Take out a handler. Return False if another thread has done so before."""
        with self._lock:
            waits = self._waiting.get(sink, {})
            if waits.get(state) is not channel:
                return False
            del waits[state]
            if not waits:
                del self._waiting[sink]
            return True

    def end(self, sink: Sink) -> None:
        """Cancel the handlers of a connection that ends: no retry can come."""
        with self._lock:
            leaving = list(self._waiting.pop(sink, {}).values())
        for channel in leaving:
            channel.cancel("the client will not come back")

    def __repr__(self) -> str:
        return f"<WaitingHandlers {sum(map(len, list(self._waiting.values())))} waiting>"


def channel_of(incoming: IncomingRequest) -> QuestionChannel:
    """Who answers what the handler of a request asks; made with the first question."""
    with _making:
        if incoming.asker is None:
            revision = incoming.peer.revision
            kind: Callable[[IncomingRequest], QuestionChannel] = QuestionChannel
            if incoming.request.method in revision.asking_methods:
                if not revision.handshake:
                    kind = _kind_of(incoming)
                elif incoming.server.check_replay:
                    kind = RerunChannel
            incoming.asker = kind(incoming)
        channel: QuestionChannel = incoming.asker
        return channel


def _kind_of(incoming: IncomingRequest) -> type[RerunChannel]:
    """Return what answers a handler whose request stands alone: one that waits, if it can."""
    config = incoming.server
    connected = isinstance(incoming.sink, Connection)
    waits = connected and config.limits.waiting_handlers != 0 and not config.check_replay
    return WaitingChannel if waits else RerunChannel


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
    revision = incoming.peer.revision
    token = incoming.request.params.get("requestState")
    if revision.handshake or incoming.request.method not in revision.asking_methods:
        return
    responses = _responses(incoming)
    claims = "run", "asked", "ans", "steps"
    state = None
    if token is not None:
        state = incoming.server.feature("rounds").states.unseal(token, incoming, *claims)
    incoming.asker = _kind_of(incoming)(incoming, state, responses)
    name = request_label(incoming)
    if incoming.request.method == "tools/call" and name not in _replayed:
        _replayed.add(name)
        way = "what must not be done twice goes into ctx.step"
        log.info("%s, %s, runs again from the top: %s", name, source_location(function), way)


def _responses(incoming: IncomingRequest) -> Mapping[str, Json]:
    """What a client answers, by key. Raises InvalidParams: it is no object of objects."""
    responses = incoming.request.params.get("inputResponses")
    if responses is None:
        return {}
    if not isinstance(responses, dict) or not all(
        isinstance(each, dict) for each in responses.values()
    ):
        raise errors.InvalidParams("inputResponses is an object of objects")
    return responses


def retry_route(find_route: Callable[[], Route], request: Request, peer: Peer) -> Route:
    """Return the route of a request with a ``requestState``.

    If it may bring answers to a handler that waits for them, that is decided where it starts.

    Args:
        find_route: Finds the route that runs the handler.
        request: The request.
        peer: The client.
    """
    alone = not peer.revision.handshake and request.method in peer.revision.asking_methods
    if not alone or request.params["requestState"] is None:
        return find_route()
    start: Any = partial(resume_or_run, find_route)  # which gives it another route
    return Route(start, start=start)


def resume_or_run(find_route: Callable[[], Route], retry: IncomingRequest) -> None:
    """Hand the answers to the handler that waits for them. If none waits, run the handler again.

    This is the ``start`` of the route of a retry that came over stdio or in memory.

    Args:
        find_route: Finds the route that runs the handler.
        retry: The request that brings the answers.

    Raises:
        RpcError: The answers have a wrong form, or nothing serves the request.
    """
    handlers = retry.server.feature("rounds").waiting
    state = retry.request.params["requestState"]
    responses = _responses(retry)
    channel = handlers.find(retry.sink, state)
    if (
        channel is not None
        and channel.binding() == binding(retry)
        and handlers.remove(retry.sink, state, channel)
    ):
        channel.take_retry(retry, responses)
        retry.sink.requests.advance(retry, LEAVE)  # it needs no thread
        return
    route = retry.route = find_route()
    if route.gate is not None:
        route = retry.route = route.gate(retry)
    if route.start is None:
        retry.sink.pool.submit(retry.run)
    else:
        route.start(retry)


def end_round(
    incoming: IncomingRequest, again: Handler, result: Any, error: Optional[BaseException]
) -> Any:
    """Finish one run of a handler.

    If questions are pending, return the result that asks them, and ignore what the run returned or
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
    channel = incoming.asker
    if isinstance(channel, RerunChannel) and (error is None or isinstance(error, Suspend)):
        channel.fault = channel.fault or channel.unasked()
    if channel is not None and channel.fault:
        raise errors.InternalError(channel.fault)
    if isinstance(channel, WaitingChannel) and isinstance(error, Suspend) and not channel.gave_way:
        incoming.asker = channel.again()
        return again(incoming)
    if channel is None or not channel.pending:
        if error is not None:
            raise error
        return result
    if not isinstance(error, Suspend):
        did = "went on" if error is None else f"raised {error!r}"
        way = "it must let Suspend pass: catch Exception, not BaseException"
        log.warning("%s %s while a question waits: %s", request_label(incoming), did, way)
    asked = list(channel.pending.values())
    if channel.gave_way:
        incoming.take_latest()
        return DEFERRED
    if incoming.peer.revision.handshake:
        answers = _asked_now(incoming, asked)
        incoming.asker = RerunChannel(incoming, channel.claims(), answers)
        return again(incoming)
    return _asking(incoming, asked, channel.claims())


def _asking(
    incoming: IncomingRequest, asked: list[SentQuestion], claims: Mapping[str, Json]
) -> dict[str, Json]:
    """The result that asks a client."""
    requests = {
        each.key: {
            "method": each.question.method,
            **({"params": each.params} if each.params else {}),
        }
        for each in asked
    }
    state = incoming.server.feature("rounds").states.seal(claims, incoming)
    asking = {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": state}
    closed: dict[str, Json] = incoming.server.finalize_result(asking, incoming.peer.revision)
    return closed


def _asked_now(incoming: IncomingRequest, asked: list[SentQuestion]) -> dict[str, Any]:
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
    channel = channel_of(incoming)
    if error.data and error.data["elicitations"] and isinstance(channel, RerunChannel):
        try:
            channel.ask_for_urls(error.data["elicitations"])
        except (errors.ToolError, RuntimeError, ValueError) as problem:
            log.warning("%s: %s", request_label(incoming), problem)


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
        self._audience = audience
        self._lifetime = lifetime
        self._clock = clock
        self._keys = list[bytes]()
        self._fetch = keys if callable(keys) else None
        if callable(keys):
            return
        given = [os.urandom(MIN_KEY_BYTES)] if keys is None else keys
        what = (
            f"state_keys is a list of secrets of {MIN_KEY_BYTES} bytes or more, such as "
            f"[os.urandom({MIN_KEY_BYTES})]"
        )
        if isinstance(given, (bytes, str)) or not all(
            isinstance(key, (bytes, bytearray)) for key in given
        ):
            raise TypeError(what)
        if min(map(len, given), default=0) < MIN_KEY_BYTES:
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
        if len(text) > MAX_STATE_CHARACTERS:
            what = (
                f"the answers and steps of {incoming.request.method} are too much for a "
                "requestState"
            )
            raise errors.InternalError(
                f"{what}: {len(text)} characters, and {MAX_STATE_CHARACTERS} is the most"
            )
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
            if not isinstance(text, str) or len(text) > MAX_STATE_CHARACTERS:
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


class InputRounds(Feature):
    """What one server keeps for the rounds of requests.

    Args:
        registry: The server's registry.

    Attributes:
        states: Signs and checks the states that clients carry.
        waiting: The handlers that wait for answers.

    Raises:
        TypeError, ValueError: ``state_keys`` holds something that is not a secret.
    """

    def __init__(self, registry: Registry) -> None:
        config = registry.config
        keys = config.state_keys
        if keys is None and config.processes is not None:
            keys = config.processes.secret
        name = str(config.info["name"])
        self.states = States(name, keys, lifetime=config.limits.ask_timeout)
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin without waiting handlers: in a forked process they are the parent's."""
        self.waiting = WaitingHandlers()

    def draining(self, sink: Sink) -> None:
        """Cancel the handlers that wait for retries on a connection that ends."""
        self.waiting.end(sink)
