"""Questions in stateless revisions (2026-07-28): the rounds of a request and the state between
them.

A question is the result of a request (``input_required``). The client sends the request again, with
the answer and with a signed state that holds everything that an earlier run has found out. So a
handler can always run again from the top, in any process that has the same keys, and its earlier
questions and steps find their answers (`RerunChannel`).

Over stdio and in memory, a handler that asks also waits for the answer (`WaitingChannel`). If the
answer arrives in time, the handler continues as the handler of the new request. At most
``Limits.waiting_handlers`` handlers of a connection wait (`WaitingHandlers`). If one more asks, the
handler that has waited longest gives way, and its new request runs it again.

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
from ..engine.incoming import DEFERRED, Handler, IncomingRequest, Route, Sink
from ..engine.pool import renewed_in_fork, waiting
from ..engine.running import LEAVE
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
    canonical,
    digest,
    log_invalid_answer,
    read_result,
    request_label,
)

if TYPE_CHECKING:
    from ..server.registry import Registry

log = logger("minimcp.rounds")

# Maximum length of a state. Longer ones are rejected before they are decoded.
MAX_STATE_CHARACTERS = 256 * 1024

MIN_KEY_BYTES = 32

_making = threading.Lock()

# Tools that were run again in this process. That is logged once for each.
replayed: set[str] = set()


def _too_many_rounds(most: int) -> errors.ToolError:
    return errors.ToolError(
        f"the client was asked {most} times, and questions remain: ask several at once with"
        " ctx.ask_all, or raise Limits.rounds: Server(..., limits=Limits(rounds=...))"
    )


class RerunChannel(QuestionChannel):
    """Answers questions from earlier rounds, and unwinds the handler at the first question without
    one.

    Args:
        incoming: The request.
        state: The claims of the state that the client sent; None if it sent none.
        responses: The answers that the client sent, by key.

    Attributes:
        gave_way: Whether the handler waited and had to stop. Then the client already has the
            questions.
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
        # How often the client was asked in earlier rounds.
        self._times_asked: int = 0
        asked: Optional[Mapping[str, str]] = None
        if state is not None:
            self._times_asked = state["r"]
            self.round = state["run"] + 1
            self.call_id = state["cid"]
            asked = state["asked"]
            self._answered = dict(state["ans"])
            self._steps = dict(state["steps"])
        for key, answer in (responses or {}).items():
            if asked is None or key in asked:  # without a state, the key identifies the question
                self._answered[key] = (asked[key] if asked else None, answer)
        known = [key for key, (pinned, _) in self._answered.items() if pinned is not None]
        self._expected = {*known, *(asked or ())} if self.strict else set()

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        self._check_rounds()
        with self._lock:
            self.pending.update((each.key, each) for each in asked)
        raise Suspend

    def _check_rounds(self) -> None:
        """Raise `ToolError` if the client must not be asked again, because of ``Limits.rounds``."""
        most = self._incoming.server.limits.rounds
        peer = self._incoming.peer
        if most is not None and not peer.revision.handshake and self._times_asked >= most:
            raise _too_many_rounds(most)

    def unasked(self) -> str:
        """Return an error text if a checked run omitted a question of the run before it, else
        ""."""
        missing = min(self._expected - self._used, default=None)
        if missing is None:
            return ""
        return f"check_replay: {missing!r} was asked in an earlier run, but not in this run"

    def claims(self, asked: Optional[Iterable[SentQuestion]] = None) -> dict[str, Json]:
        """Return the state that the next run needs. It counts the round that asks the questions.

        Args:
            asked: The questions that the next run gets answers to; None means the pending ones.
        """
        with self._lock:
            asked = list(self.pending.values()) if asked is None else asked
            return {
                "r": self._times_asked + 1,
                "run": self.round,
                "cid": self.call_id,
                "asked": {each.key: each.digest for each in asked},
                "ans": dict(self._answered),
                "steps": dict(self._steps),
            }


# How the wait of a handler ends: with a retry that brings the answers, because too many handlers
# wait, or with a cancellation. A timeout is not among them, because the waiting thread notices it.
ANSWERED = "answered"
GAVE_WAY = "gave way"
CANCELLED = "cancelled"


class WaitingChannel(RerunChannel):
    """Answers the request with the questions, and waits for the retry that brings the answers.

    The thread that takes a waiting handler out of its `WaitingHandlers` decides how the wait ends:
    with a retry (`take_retry`), because too many others wait (`give_way`), at a timeout, or with
    the end of the connection.

    A handler that gives way unwinds with `Suspend`. It sends nothing more, because the client
    already has the questions. Its retry runs the handler from the top (`resume_or_run`).
    """

    def __init__(
        self,
        incoming: IncomingRequest,
        state: Optional[Mapping[str, Json]] = None,
        responses: Optional[Mapping[str, Json]] = None,
    ) -> None:
        super().__init__(incoming, state, responses)
        self._one_round = threading.Lock()  # threads of one handler take turns
        # How the wait ends, with the answers by key if it is `ANSWERED`.
        self._endings: SimpleQueue[tuple[str, Mapping[str, Json]]] = SimpleQueue()

    def again(self) -> WaitingChannel:
        """Return the channel of another run for the same request, which asks nothing before it."""
        return WaitingChannel(self._incoming, {**self.claims(), "r": self._times_asked})

    def binding(self) -> str:
        """Return what the retry must have in common with the request."""
        return binding(self._incoming)

    def take_retry(self, retry: IncomingRequest, responses: Mapping[str, Json]) -> None:
        """Continue the handler as the handler of this request. Never blocks."""
        self._incoming.continue_with(retry)
        self._endings.put((ANSWERED, responses))

    def give_way(self) -> None:
        """Make the handler stop waiting, because too many others wait. Never blocks."""
        self.gave_way = True  # first: other threads of the handler must not ask now
        self._endings.put((GAVE_WAY, {}))

    def cancel(self, reason: str) -> None:
        """Cancel the handler."""
        self._incoming.token.cancel(reason)

    def step(self, key: str, function: Callable[[], Any]) -> Any:
        if self.gave_way:  # the client already has the state, which cannot hold this step
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
        """Ask the client once. Return the answers that are valid."""
        if self.gave_way:
            raise Suspend
        self._check_rounds()
        incoming = self._incoming
        question = _asking(incoming, asked, self.claims(asked))
        self._times_asked += 1
        if incoming.timeout is not None:
            incoming.timeout.pause()
        try:
            ending, answers = self._wait(question, asked)
        finally:
            if incoming.timeout is not None:
                incoming.timeout.resume()
        if ending == GAVE_WAY:
            with self._lock:
                self.pending.update((each.key, each) for each in asked)
            raise Suspend
        incoming.check()  # raises if the ending is `CANCELLED`
        found = {}
        for each in asked:
            with log_invalid_answer(each):
                if each.key in answers:
                    found[each.key] = each.question.read(answers[each.key])
                    self._answered[each.key] = (each.digest, answers[each.key])
        return found

    def _wait(
        self, question: Mapping[str, Json], asked: list[SentQuestion]
    ) -> tuple[str, Mapping[str, Json]]:
        """Answer the request with a question, and return how the wait ends."""
        incoming = self._incoming
        sink = self._incoming.sink
        state = question["requestState"]
        handlers: WaitingHandlers = incoming.server.feature("rounds").waiting
        seconds = incoming.server.limits.ask_timeout
        forget = incoming.token.on_cancel(lambda: self._endings.put((CANCELLED, {})))
        try:
            incoming.check()
            # Before the question is sent, because the retry may arrive at once.
            handlers.add(sink, state, self, incoming.server.limits.waiting_handlers)
            answering = incoming.answering
            if answering is None or not answering.answer(question):
                raise errors.Cancelled("the request was answered in the meantime")
            with waiting():
                return self._endings.get(timeout=seconds)
        except Empty:
            if not handlers.remove(sink, state, self):
                return self._endings.get()  # another thread is ending the wait
            incoming.take_answering()
            raise errors.RequestTimeout(
                f"{request_label(incoming)}: no answer to {one_line(asked[0].key)} within"
                f" {seconds:g} s"
            ) from None
        finally:
            handlers.remove(sink, state, self)  # if an exception ended this thread's wait
            forget()


class WaitingHandlers:
    """The handlers that wait for answers of their clients, for each connection of one server.

    The thread that removes a handler ends its wait, and no other thread does. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By connection and by the state of the retry, the handler that has waited longest first.
        self._waiting: dict[Sink, dict[str, WaitingChannel]] = {}

    def add(self, sink: Sink, state: str, channel: WaitingChannel, most: Optional[int]) -> None:
        """Add a handler that is about to wait. If there are too many, one gives way.

        Args:
            sink: The connection on which the retry will arrive.
            state: The ``requestState`` of the retry.
            channel: The handler's channel.
            most: Maximum number of waiting handlers of one connection; None means no limit.
        """
        with self._lock:
            waits = self._waiting.setdefault(sink, {})
            # Two runs of one call may ask the same question at the same time. Neither the client
            # nor this table can distinguish them, so the earlier one gives way.
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
        """Remove a handler. Return False if another thread has removed it before."""
        with self._lock:
            waits = self._waiting.get(sink, {})
            if waits.get(state) is not channel:
                return False
            del waits[state]
            if not waits:
                del self._waiting[sink]
            return True

    def end(self, sink: Sink) -> None:
        """Cancel the handlers of a connection that ends, because no retry can arrive."""
        with self._lock:
            leaving = list(self._waiting.pop(sink, {}).values())
        for channel in leaving:
            channel.cancel("the connection is ending")

    def __repr__(self) -> str:
        return f"<WaitingHandlers {sum(map(len, list(self._waiting.values())))} waiting>"


def channel_of(incoming: IncomingRequest) -> QuestionChannel:
    """Return the channel for the questions of a request. The first question creates it."""
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
    """Return the class of the channel in a stateless revision: one that waits, if it can."""
    config = incoming.server
    connected = isinstance(incoming.sink, Connection)
    waits = connected and config.limits.waiting_handlers != 0 and not config.check_replay
    return WaitingChannel if waits else RerunChannel


# ------------------------------------------------------------ the rounds of one request


def resume(incoming: IncomingRequest, function: Callable[..., Any]) -> None:
    """Read the answers and the state of a retry.

    Does nothing in revisions with a handshake, and for methods whose handlers cannot ask.

    Args:
        incoming: The request.
        function: The author's function, for the log.

    Raises:
        InvalidParams: The answers have a wrong form, or the state is not from this server.
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
    if incoming.request.method == "tools/call" and name not in replayed:
        replayed.add(name)
        log.info(
            "%s, %s, runs again from the top: put actions that must not happen twice into ctx.step",
            name,
            source_location(function),
        )


def _responses(incoming: IncomingRequest) -> Mapping[str, Json]:
    """Return the client's answers by key. Raise InvalidParams if they have a wrong form."""
    responses = incoming.request.params.get("inputResponses")
    if responses is None:
        return {}
    if not isinstance(responses, dict) or not all(
        isinstance(each, dict) for each in responses.values()
    ):
        raise errors.InvalidParams("inputResponses must be an object of objects")
    return responses


def retry_route(find_route: Callable[[], Route], request: Request, peer: Peer) -> Route:
    """Return the route of a request with a ``requestState``.

    If a waiting handler may accept the answers, the `enqueue` function of the route decides that.

    Args:
        find_route: Finds the route that runs the handler.
        request: The request.
        peer: The client.
    """
    alone = not peer.revision.handshake and request.method in peer.revision.asking_methods
    if not alone or request.params["requestState"] is None:
        return find_route()
    handle: Any = partial(resume_or_run, find_route)
    return Route(handle, enqueue=handle)


def resume_or_run(find_route: Callable[[], Route], retry: IncomingRequest) -> None:
    """Pass the answers to the handler that waits for them. If none waits, run the handler again.

    This is the ``enqueue`` of the route of a retry over stdio or in memory.

    Args:
        find_route: Finds the route that runs the handler.
        retry: The request with the answers.

    Raises:
        RpcError: The answers have a wrong form, or the request has no route.
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
        retry.sink.requests.advance(retry, LEAVE)  # the retry does not need a thread
        return
    route = retry.route = find_route()
    if route.gate is not None:
        route = retry.route = route.gate(retry)
    if route.enqueue is None:
        retry.sink.pool.submit(retry.run)
    else:
        route.enqueue(retry)


def end_round(
    incoming: IncomingRequest, again: Handler, result: Any, error: Optional[BaseException]
) -> Any:
    """Finish one run of a handler that has asked something.

    The first row that applies decides. From the fourth row on, the outcome of the run is
    ignored.

    ============================================ ==================================================
    a mistake under ``check_replay``             error response
    unwound, although the answers are here       run it again now (`QuestionChannel.ask_for_urls`)
    no question is pending                       the outcome of the run
    the handler gave way while it waited         no response: the client has the questions
    a session with a handshake                   ask, wait for the answers, and run it again
    otherwise                                    the result that asks the questions
    ============================================ ==================================================

    Args:
        incoming: The request.
        again: Serves the request once more. With a handshake and ``check_replay``, this asks the
            client in between.
        result: The result, if the run returned.
        error: The exception, if the run raised one; otherwise None.

    Raises:
        BaseException: The exception of the run.
    """
    channel = incoming.asker
    is_suspended = isinstance(error, Suspend)
    if isinstance(channel, RerunChannel) and (error is None or is_suspended):
        channel.fault = channel.fault or channel.unasked()
    if channel.fault:
        raise errors.InternalError(channel.fault)
    if is_suspended and isinstance(channel, WaitingChannel) and not channel.gave_way:
        incoming.asker = channel.again()
        return again(incoming)
    if not channel.pending:
        if error is not None:
            raise error
        return result
    if not is_suspended:
        log.warning(
            "%s %s although a question is pending: let Suspend propagate, and catch Exception "
            "instead of BaseException",
            request_label(incoming),
            "continued" if error is None else f"raised {error!r}",
        )
    if channel.gave_way:
        incoming.take_answering()
        return DEFERRED
    asked = list(channel.pending.values())
    if incoming.peer.revision.handshake:
        answers = _asked_now(channel, asked)
        incoming.asker = RerunChannel(incoming, channel.claims(), answers)
        return again(incoming)
    return _asking(incoming, asked, channel.claims())


def _asking(
    incoming: IncomingRequest, asked: list[SentQuestion], claims: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the result that asks the client."""
    requests: dict[str, Json] = {}
    for each in asked:
        requests[each.key] = {"method": each.question.method}
        if each.params:
            requests[each.key]["params"] = each.params
    state = incoming.server.feature("rounds").states.seal(claims, incoming)
    asking = {"resultType": INPUT_REQUIRED, "inputRequests": requests, "requestState": state}
    closed: dict[str, Json] = incoming.server.finalize_result(asking, incoming.peer.revision)
    return closed


def _asked_now(channel: QuestionChannel, asked: list[SentQuestion]) -> dict[str, Any]:
    """Ask a client of a handshake session. Return the answers by key.

    If a question fails, the exception takes the place of each answer and is raised where the
    handler asks.
    """
    answers: list[Any]
    try:
        answers = list(ask_now(asked, channel.send))
        for each, answer in zip(asked, answers):
            read_result(each, answer)
    except (errors.Cancelled, errors.ConnectionLost):
        raise
    except Exception as error:
        answers = [error] * len(asked)
    return {each.key: answer for each, answer in zip(asked, answers)}


def url_required(incoming: IncomingRequest, error: BaseException) -> None:
    """Translate `UrlElicitationRequired` to questions, in stateless revisions.

    Returns for any other exception, if the user declined, if there were too many rounds, or if no
    URL can be opened.

    Raises:
        Suspend: The client is asked to let its user open the URLs.
        CapabilityNotSupported: The client cannot open URLs.
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
    """Seals and unseals the state that clients of one server carry between rounds. Thread-safe.

    A state is ``v1.``, base64url of JSON, a dot and its HMAC-SHA256 in hexadecimal. It is signed,
    not encrypted: the client can read it, including the results of ``ctx.step``. A state may be
    sent several times until it expires.

    Args:
        audience: The server's name. States of other servers are rejected.
        keys: Secrets of 32 bytes or more. The first signs, all of them verify. A function is called
            for the only key on first use. If None, one is generated, for this process and its
            forks.
        lifetime: Seconds until a state expires; None means never.
        clock: Returns the time in seconds, the same in every process that shares the keys.

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
        self.lifetime = lifetime
        self._clock = clock
        self._keys = list[bytes]()
        self._fetch = keys if callable(keys) else None
        if callable(keys):
            return
        given = [os.urandom(MIN_KEY_BYTES)] if keys is None else keys
        problem = (
            f"state_keys must be a list of secrets of {MIN_KEY_BYTES} bytes or more, such as"
            f" [os.urandom({MIN_KEY_BYTES})]"
        )
        if isinstance(given, (bytes, str)) or not all(
            isinstance(key, (bytes, bytearray)) for key in given
        ):
            raise TypeError(problem)
        if min(map(len, given), default=0) < MIN_KEY_BYTES:
            raise ValueError(problem)
        self._keys = [bytes(key) for key in given]

    def _known_keys(self) -> list[bytes]:
        if not self._keys and self._fetch is not None:
            self._keys = [self._fetch()]
        return self._keys

    def seal(self, claims: Mapping[str, Json], incoming: IncomingRequest) -> str:
        """Return the state for the next round of this request.

        Raises:
            InternalError: The state would be too long.
        """
        exp = None if self.lifetime is None else self._clock() + self.lifetime
        state = {"exp": exp, "aud": self._audience, "bind": binding(incoming), **claims}
        text = _signed(self._known_keys()[0], urlsafe_b64encode(canonical(state)).decode())
        if len(text) > MAX_STATE_CHARACTERS:
            raise errors.InternalError(
                f"the answers and steps of {incoming.request.method} are too long for a"
                f" requestState: {len(text)} characters, more than {MAX_STATE_CHARACTERS}"
            )
        return text

    def unseal(self, text: Json, incoming: IncomingRequest, *more: str) -> dict[str, Json]:
        """Return the claims of a state: ``r``, ``cid`` and those named in `more`.

        Raises:
            InvalidParams: The state is not from this server and for this request, or it has
                expired. Only the log says which.
        """
        from hmac import compare_digest

        keys = self._known_keys()
        try:
            if not isinstance(text, str) or len(text) > MAX_STATE_CHARACTERS:
                raise ValueError("not a string, or too long")
            payload = text.partition(".")[2].partition(".")[0]
            if not any(
                compare_digest(_signed(key, payload).encode(), text.encode()) for key in keys
            ):
                raise ValueError("an invalid signature, or an unknown key")
            claims = json.loads(urlsafe_b64decode(payload))
            if claims["aud"] != self._audience:
                raise ValueError("from another server")
            if claims["bind"] != binding(incoming):
                raise ValueError("for another request or another user")
            if claims["exp"] is not None and not self._clock() < claims["exp"]:
                raise ValueError("expired")
            return {name: claims[name] for name in ("r", "cid", *more)}
        except Exception as error:
            log.warning("the requestState of %s was rejected: %s", incoming.request.method, error)
        raise errors.InvalidParams(
            "Invalid or expired requestState", {"reason": errors.STATE_REJECTED}
        )


def binding(incoming: IncomingRequest) -> str:
    """Return the text that ties a state to its request: method, target, arguments and principal."""
    params = incoming.request.params
    target = params.get("name"), params.get("uri")
    return digest(
        [incoming.request.method, *target, params.get("arguments") or {}, incoming.peer.principal]
    )


def _signed(key: bytes, payload: str) -> str:
    import hmac  # not at the top: it loads OpenSSL, which few servers need

    return f"v1.{payload}.{hmac.new(key, _LABEL + payload.encode(), 'sha256').hexdigest()}"


class InputRounds(Feature):
    """The keys and waiting handlers of one server.

    Args:
        registry: The server's registry.

    Attributes:
        states: Seals and unseals the states that clients carry.
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
        """Forget the waiting handlers, which belong to the parent process."""
        self.waiting = WaitingHandlers()

    def draining(self, sink: Sink) -> None:
        """Cancel the handlers that wait for retries on a connection that ends."""
        self.waiting.end(sink)
