"""`ask_peer`: sends a handler's questions to the peer, and waits for the answers.

This module is imported when the first question is asked.

https://modelcontextprotocol.io/specification/2025-11-25/basic
"""

from __future__ import annotations

from contextlib import suppress
from typing import Optional, Sequence, Union

from ..errors import Cancelled
from ..log import logger
from ..protocol.messages import Failure, Result
from .calls import PendingCall
from .incoming import IncomingRequest, initialized_changed, set_initialized
from .pool import waiting
from .timer import Deadline

log = logger("minimcp.requests")

# How long a question to a client waits for `notifications/initialized`.
INITIALIZED_SECONDS = 5.0


def ask_peer(
    incoming: IncomingRequest, questions: Sequence[tuple[str, Result]], seconds: Optional[float]
) -> Union[list[Result], Failure]:
    """Send questions to the peer and wait for all answers.

    The handler's own timeout is paused while it waits. If one question fails, the others are
    cancelled.

    Args:
        incoming: The request whose handler asks.
        questions: The method and the params of each question.
        seconds: How long to wait for all answers together; None means no limit.

    Returns:
        The results in the order of the questions, or the first error of the peer.

    Raises:
        RuntimeError: The handler has returned.
        CapabilityNotSupported: The transport cannot send requests for this request.
        Cancelled: The request was cancelled. The questions are cancelled, too.
        RequestTimeout: The answers did not arrive in time.
        ConnectionLost: The peer closed the connection or stopped reading.
        ProtocolViolation: An answer was invalid.
    """
    if incoming.answering is None:
        raise RuntimeError(
            f"{incoming.request.method} has already been answered, so its handler cannot ask the "
            "client"
        )
    calls = incoming.sink.asking()
    pending: list[PendingCall] = []

    def withdraw() -> None:
        for call in pending:
            calls.end(call, Cancelled(incoming.token.reason or "the request was cancelled"))

    forget = incoming.token.on_cancel(withdraw)
    if incoming.timeout is not None:
        incoming.timeout.pause()
    try:
        wait_until_initialized(incoming)
        incoming.check()
        requests = [(method, lambda id, params=params: params) for method, params in questions]
        pending = calls.send_all(requests)
        incoming.questions += [(calls, call) for call in pending]
        incoming.sink.asking()  # raises if `end_questions` was called before `questions` was set
        deadline = Deadline(seconds)
        results = []
        if incoming.token.cancelled:  # it may have been cancelled since `check`
            withdraw()
        for call in pending:
            outcome = calls.wait(call, deadline, group=pending)
            if isinstance(outcome, Failure):
                # The peer may have sent the cancellation before this error.
                incoming.check()
                return outcome
            results.append(outcome)
        return results
    finally:
        forget()
        withdraw()  # if a question failed, others may be pending
        # In place, because other threads of the handler may ask, too.
        for call in pending:
            with suppress(ValueError):  # it was not added
                incoming.questions.remove((calls, call))
        if incoming.timeout is not None:
            incoming.timeout.resume()


def end_questions(incoming: IncomingRequest, error: Exception) -> None:
    """End the pending questions with an error. Never blocks."""
    for calls, call in list(incoming.questions):
        calls.end(call, error, notify=False)


def wait_until_initialized(incoming: IncomingRequest) -> None:
    """Wait until the peer has sent `notifications/initialized` or the request is cancelled.

    Some clients never send it. After `INITIALIZED_SECONDS`, this logs a warning and does not
    wait for the same peer again.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
    """
    peer = incoming.peer
    if peer.initialized:
        return
    forget = incoming.token.on_cancel(_wake_uninitialized)
    try:
        with waiting(), initialized_changed:
            initialized_changed.wait_for(
                lambda: peer.initialized or incoming.token.cancelled, INITIALIZED_SECONDS
            )
            is_late = not (peer.initialized or incoming.token.cancelled)
            if is_late:
                set_initialized(peer)
    finally:
        forget()
    if is_late:
        log.warning(
            "%s asks a question, but the client did not send notifications/initialized within %g s",
            incoming.request.method,
            INITIALIZED_SECONDS,
        )


def _wake_uninitialized() -> None:
    with initialized_changed:
        initialized_changed.notify_all()
