"""The sessions of one client, one after the other: how the next one is begun when one is lost.

A client that may begin anew does so in the next call, not before, and on a thread of its own: each caller waits for it
as long as its call may take, and one that gives up stops no other. What was lost stays lost, and is never sent again.
In a process forked from the client's nothing is begun.
"""

from __future__ import annotations

import logging
import os
import threading
from copy import copy
from typing import Callable, Optional

from ..engine.pool import waiting
from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import Cancelled, ConnectionFailed, ConnectionLost, McpError, RequestTimeout, describe
from ..protocol.lifecycle import LOG_LEVEL_KEY, Handshake
from .cache import OutputSchemas
from .host import Host
from .session import Cancel, ClientSession, check_token
from .subscriptions import Subscriptions

log = logging.getLogger("minimcp.client")

USUAL_LEVEL = "info"
"""The lowest level that a host hears until it names one: the same that servers send from where nobody has to ask."""

JOIN_SECONDS = 10.0
"""How long closing waits for an attempt that it has stopped: an old server may take 4 s to end."""


class OpenSession:
    """A session that was agreed on, and what the client knows of the server by it. Thread-safe.

    Args:
        session: The connection.
        host: The host's side.
    """

    def __init__(self, session: ClientSession, host: Host) -> None:
        self.session, self._host = session, host
        self.subscriptions = Subscriptions(session, host)
        self.schemas = OutputSchemas()
        self.log_level: Optional[str] = None

    def set_envelope_level(self, level: str) -> None:
        """Have every request that stands alone ask for log messages of this level and above."""
        era = self.session.era
        assert not isinstance(era, Handshake)
        era.envelope = {**era.envelope, LOG_LEVEL_KEY: level}

    def begin(self, deadline: Deadline, before: Optional[OpenSession]) -> None:
        """Begin to hear of what the host has callbacks for, and of what it heard in the session before.

        Args:
            deadline: For all of it.
            before: The session whose place this one takes; None for the first.

        Raises:
            ConnectionLost: The connection has ended; it is closed then, as after any other exception.
        """
        if before is not None and self._host.cache is not None:
            self._host.cache.clear()
        try:
            self._attempt("log messages", lambda: self._ask_for_logs(before, deadline))
            uris = () if before is None else before.subscriptions.subscribed
            self._attempt("stream of changes", lambda: self.subscriptions.open_background(deadline, uris))
        except BaseException:
            self.session.close()
            raise

    def _attempt(self, what: str, step: Callable[[], None]) -> None:
        try:
            step()
        except McpError as error:
            if self.session.cause is not None:
                raise
            log.warning("%s: no %s: %s", self.session.name, what, error)

    def _ask_for_logs(self, before: Optional[OpenSession], deadline: Deadline) -> None:
        self.log_level = level = None if before is None else before.log_level
        if isinstance(self.session.era, Handshake):
            if level is not None:
                self.session.request("logging/setLevel", {"level": level}, deadline)
        elif level is not None or ("on_log" in self._host.functions and self.session.era.peer.supports("logging")):
            self.set_envelope_level(level or USUAL_LEVEL)  # nothing comes unasked in this era


Begin = Callable[[CancelToken, OpenSession], OpenSession]
"""Begins a session in the place of another one, unless the token is cancelled. Raises what `connect` raises."""


class _Attempt:
    """One attempt to begin the next session."""

    def __init__(self) -> None:
        self.stop = CancelToken()
        self.over = False
        self.error: Optional[Exception] = None


class Reconnector:
    """A client's newest session, and the way to the next one. Thread-safe.

    Args:
        first: The session.
        begin: Begins the next one after a loss; None leaves it at the loss.
        always: False does so only when the server has ended its session, which is no loss of the server.
    """

    def __init__(self, first: OpenSession, begin: Optional[Begin], *, always: bool = True) -> None:
        self.newest, self._begin, self._always = first, begin, always
        self.closed = False
        self._changed = threading.Condition()
        self._attempt: Optional[_Attempt] = None
        self._process = os.getpid()

    @property
    def restarts(self) -> bool:
        """Whether a loss is followed by another session."""
        return self._begin is not None and (self._always or isinstance(self.newest.session.cause, SessionGone))

    @property
    def can_begin(self) -> bool:
        """Whether a session that the server has ended is followed by another."""
        return self._begin is not None

    def current(self, deadline: Deadline, cancel: Cancel) -> OpenSession:
        """The newest session; if that is lost, the next one, if there shall be one. Not for a reader's thread.

        Args:
            deadline: How long to wait for it.
            cancel: Ends the wait; None for one that nobody cancels.

        Raises:
            ConnectionFailed: It could not be begun. The next call tries again.
            RequestTimeout: The deadline came first; the attempt goes on.
            Cancelled: The token was cancelled; the attempt goes on.
            ConnectionLost: The client was closed meanwhile.
        """
        newest = self.newest
        return newest if newest.session.cause is None else self.after(newest, deadline, cancel)

    def after(self, lost: OpenSession, deadline: Deadline, cancel: Cancel) -> OpenSession:
        """What has taken the place of a lost session, even if that is lost too. Arguments and errors as `current`.

        It is begun if there is none yet: once, however many calls were lost with the session before.
        """
        if self.newest is lost and not self.closed and self.restarts and os.getpid() == self._process:
            check_token(cancel)
            attempt = self._attempt_after(lost)
            if attempt is not None:
                self._wait(attempt, deadline, cancel)
        return self.newest

    def _attempt_after(self, lost: OpenSession) -> Optional[_Attempt]:
        """The attempt that is under way, or a new one; None where the session has been replaced meanwhile."""
        with self._changed:
            if self.newest is not lost:
                return None
            if self._attempt is None:
                self._attempt = _Attempt()
                work = threading.Thread(target=self._run, args=(self._attempt, lost), name="minimcp-restart",
                                        daemon=True)
                work.start()
            return self._attempt

    def _wait(self, attempt: _Attempt, deadline: Deadline, cancel: Cancel) -> None:
        forget = None if cancel is None else cancel.on_cancel(self._wake)
        try:
            with waiting(), self._changed:
                while not attempt.over:
                    if cancel is not None and cancel.cancelled:
                        raise Cancelled(cancel.reason or "cancelled")
                    if not self._changed.wait(deadline.wait()) and deadline.expired:
                        what = f"{self.newest.session.name}: starting the server again"
                        raise RequestTimeout(f"{what}: no answer within {deadline.seconds:g} s")
        finally:
            if forget is not None:
                forget()
        if attempt.error is not None:
            raise copy(attempt.error)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self, attempt: _Attempt, lost: OpenSession) -> None:
        try:
            self._replace(attempt, lost)
        except BaseException as error:
            log.debug("%s: not started again: %s", lost.session.name, error)
            attempt.error = _closed(lost) if self.closed else _failure(error)
        with self._changed:
            self._attempt = None  # the next call begins the next one
            attempt.over = True
            self._changed.notify_all()

    def _replace(self, attempt: _Attempt, lost: OpenSession) -> None:
        assert self._begin is not None
        lost.session.close()  # it may hold what the next server needs, such as a file
        if self.closed:
            raise _closed(lost)
        self.newest = opened = self._begin(attempt.stop, lost)
        if self.closed:
            opened.session.close()
            raise _closed(lost)
        opened.subscriptions.missed_all()

    def close(self) -> None:
        """End the newest session, and an attempt at the next one, for good. Idempotent, from any thread."""
        self.closed = True
        attempt = self._attempt if os.getpid() == self._process else None
        if attempt is not None:
            attempt.stop.cancel("the client was closed")
        self.newest.session.close()
        if attempt is not None:
            with self._changed:
                self._changed.wait_for(lambda: attempt.over, JOIN_SECONDS)

    def abandon(self) -> None:
        """The same without waiting for anything, for a finalizer: an attempt ends when it has an outcome."""
        self.closed = True
        self.newest.session.abandon()


def _closed(lost: OpenSession) -> ConnectionLost:
    return ConnectionLost(f"{lost.session.name}: closed")


def _failure(error: BaseException) -> ConnectionFailed:
    if isinstance(error, ConnectionFailed):
        return error
    failed = ConnectionFailed(f"the server could not be started again: {describe(error)}")
    failed.__cause__ = error
    return failed
