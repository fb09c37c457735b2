"""Requests whose handlers may ask their client: the rounds of one, from what came back to what is asked next.

Not here: who answers a question (see `asking`), and what is carried between rounds (see `state`).
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import logging
from typing import Any, Optional

from ..engine.requests import Handler, IncomingRequest
from ..errors import (
    Cancelled,
    ConnectionLost,
    InternalError,
    InvalidParams,
    ToolError,
    UrlElicitationRequired,
    one_line,
)
from ..protocol.messages import Json
from .asking import Asked, ReplayAsker, Suspend, ask_now, asker_of, read_result
from .questions import ElicitUrl

log = logging.getLogger("minimcp.rounds")


def resume(exchange: IncomingRequest) -> None:
    """Take up what an earlier round left; revisions with a handshake have no rounds.

    Raises:
        InvalidParams: The answers have a wrong form, or the state is none of ours.
    """
    if exchange.peer.revision.handshake:
        return
    params, facts = exchange.request.params, exchange.server
    responses, token = params.get("inputResponses", {}), params.get("requestState")
    if not isinstance(responses, dict) or not all(isinstance(each, dict) for each in responses.values()):
        raise InvalidParams("inputResponses is an object of objects")
    state = None if token is None else facts.states.unseal(token, exchange)
    exchange.asker_made_by(
        lambda exchange, lock: ReplayAsker(
            exchange, lock, state, responses, max_rounds=facts.max_rounds, strict=facts.check_replay
        )
    )


def _as_question(exchange: IncomingRequest, error: UrlElicitationRequired) -> BaseException:
    """What an error that asks for URLs comes to where there is no such error."""
    try:
        url_required(exchange, error)
    except Suspend as suspend:
        return suspend
    return error


def unfinished(exchange: IncomingRequest, error: BaseException) -> Any:
    """The result of a run that ended with an exception: the questions that it left, which win.

    Raises:
        BaseException: The same one; there are no questions.
    """
    if isinstance(error, UrlElicitationRequired) and not exchange.peer.revision.handshake:
        error = _as_question(exchange, error)
    asker = exchange.asker
    if asker is None or not (asker.pending or asker.fault):
        raise error
    if not isinstance(error, Suspend) and not asker.fault:
        log.warning("%s raised %r while a question waits: it must let Suspend pass", _name(exchange), error)
    return _input_required(exchange)


def finished(exchange: IncomingRequest, result: Any) -> Any:
    """The result of a run that returned; questions that it left unanswered win over what it returned."""
    asker = exchange.asker
    if asker.fault:
        raise InternalError(asker.fault)
    if asker.pending:
        log.warning("%s went on while a question waits: it must let Suspend pass", _name(exchange))
        return _input_required(exchange)
    if isinstance(asker, ReplayAsker):
        try:
            asker.refuse_silence()
        except RuntimeError as error:
            raise InternalError(str(error)) from None
    return result


def _input_required(exchange: IncomingRequest) -> dict[str, Json]:
    asker, facts = exchange.asker, exchange.server
    if asker.fault:
        raise InternalError(asker.fault)
    result: dict[str, Json] = {
        "resultType": "input_required",
        "inputRequests": {key: _request(each) for key, each in asker.pending.items()},
        "requestState": facts.states.seal(asker.claims(), exchange),
    }
    closed: dict[str, Json] = facts.closed(result, exchange.peer.revision)
    return closed


def _request(asked: Asked) -> dict[str, Json]:
    method: dict[str, Json] = {"method": asked.question.method}
    return {**method, "params": asked.params} if asked.params else method


def checked(exchange: IncomingRequest, serve: Handler) -> Any:
    """Serve by running again after each question, though the client could be asked while the handler waits."""
    asker = _again(exchange, None)
    while True:
        try:
            result = serve(exchange)
        except BaseException:
            if not (asker.pending or asker.fault):
                raise
        if asker.fault:
            raise InternalError(asker.fault)
        if not asker.pending:
            return finished(exchange, result)
        asker = _again(exchange, _answered(exchange, asker))


def _again(exchange: IncomingRequest, state: Optional[dict[str, Json]]) -> ReplayAsker:
    exchange.asker = None
    asker: ReplayAsker = exchange.asker_made_by(lambda exchange, lock: ReplayAsker(exchange, lock, state, strict=True))
    return asker


def _answered(exchange: IncomingRequest, asker: ReplayAsker) -> dict[str, Json]:
    """What the next run has to know, the answers to this one's questions among it."""
    state, asked = asker.claims(), list(asker.pending.values())
    answers = _outcomes(exchange, asked)
    state["ans"].update({each.key: (each.digest, answer) for each, answer in zip(asked, answers)})
    return state


def _outcomes(exchange: IncomingRequest, asked: list[Asked]) -> list[Any]:
    """The answers to questions, checked; for what failed, the exception that the handler is to get."""
    try:
        results = ask_now(exchange, asked)
        for each, result in zip(asked, results):
            read_result(each, result)
    except (Cancelled, ConnectionLost):
        raise
    except Exception as error:
        return [error] * len(asked)
    return results


def _name(exchange: IncomingRequest) -> str:
    target = exchange.request.params.get("name", exchange.request.params.get("uri"))
    return f"{exchange.request.method} {one_line(target)}"


def url_required(exchange: IncomingRequest, error: UrlElicitationRequired) -> None:
    """What that error of another revision means here: the client is asked to have its user open the URLs.

    Returns if the user said no, if there were too many rounds, or if the error names no URL that can be opened.

    Raises:
        Suspend: The client is asked.
        CapabilityNotSupported: It cannot be.
    """
    asker = asker_of(exchange)
    wanted = error.data["elicitations"] if error.data else []
    if not wanted or not isinstance(asker, ReplayAsker):
        return
    try:
        asker.ask_again({each["elicitationId"]: ElicitUrl(each["message"], each["url"]) for each in wanted})
    except (ToolError, RuntimeError, ValueError) as problem:
        log.warning("%s: %s", _name(exchange), problem)
