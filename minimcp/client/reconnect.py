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
from functools import partial
from typing import Any, Callable, Optional

from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import ConnectionFailed, ConnectionLost, McpError, RequestTimeout, describe
from ..protocol.lifecycle import LOG_LEVEL_KEY, Handshake
from ..protocol.messages import Json
from .cache import OutputSchemas
from .host import Host
from .session import Cancel, ClientSession, check_token, wait_until
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

    def set_log_level(self, level: str, request: Callable[[str, dict[str, Json]], Any]) -> None:
        """Have the server send log messages of this level and above: by a request, or by what each request says."""
        era = self.session.era
        if isinstance(era, Handshake):
            request("logging/setLevel", {"level": level})
        else:
            self.session.check()
            era.envelope = {**era.envelope, LOG_LEVEL_KEY: level}

    def begin(self, deadline: Deadline, before: Optional[OpenSession]) -> None:
        """Begin to hear of what the host has callbacks for, and of what it heard in the session before.

        Args:
            deadline: For all of it.
            before: The session whose place this one takes; None for the first.

        Raises:
            ConnectionLost: The connection has ended.
        """
        uris: tuple[str, ...] = ()
        session = self.session
        if before is not None:
            self.log_level, uris = before.log_level, before.subscriptions.subscribed
            if self._host.cache is not None:
                self._host.cache.clear()
        level = self.log_level
        if level is None and not session.era.revision.handshake and "on_log" in self._host.functions:
            level = USUAL_LEVEL if session.era.peer.supports("logging") else None  # nothing comes unasked in this era
        steps = {"stream of changes": partial(self.subscriptions.open_background, deadline, uris)}
        if level is not None:
            request = partial(session.request, deadline=deadline)
            steps = {"log messages": partial(self.set_log_level, level, request), **steps}
        for what, step in steps.items():
            try:
                step()
            except McpError as error:
                if session.cause is not None:
                    raise
                log.warning("%s: no %s: %s", session.name, what, error)


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
        host: The host's side of all of them.
        timeout: Seconds for one call, if the call itself does not say; None waits for ever.
        always: False does so only when the server has ended its session, which is no loss of the server.
    """

    def __init__(
        self, first: OpenSession, begin: Optional[Begin], host: Host, timeout: Optional[float], *, always: bool = True
    ) -> None:
        self.newest, self._begin, self.host, self.timeout, self._always = first, begin, host, timeout, always
        self.closed = False
        self._changed = threading.Condition()
        self._attempt: Optional[_Attempt] = None
        self._process = os.getpid()

    @property
    def restarts(self) -> bool:
        """Whether a loss is followed by another session."""
        return self.can_begin and (self._always or isinstance(self.newest.session.cause, SessionGone))

    @property
    def can_begin(self) -> bool:
        """Whether a session that the server has ended is followed by another."""
        return self._begin is not None

    def after(self, lost: OpenSession, deadline: Deadline, cancel: Cancel) -> OpenSession:
        """What has taken the place of a lost session, even if that is lost too. Not for a reader's thread.

        It is begun if there is none yet: once, however many calls were lost with the session before. Where none shall
        be begun, this is the lost one.

        Args:
            lost: The session.
            deadline: How long to wait for it.
            cancel: Ends the wait; None for one that nobody cancels.

        Raises:
            ConnectionFailed: It could not be begun. The next call tries again.
            RequestTimeout: The deadline came first; the attempt goes on.
            Cancelled: The token was cancelled; the attempt goes on.
            ConnectionLost: The client was closed meanwhile.
        """
        if self.closed or not self.restarts or os.getpid() != self._process:
            return self.newest
        check_token(cancel)
        with self._changed:
            if self.newest is not lost:
                return self.newest
            if self._attempt is None:
                self._attempt = _Attempt()
                threading.Thread(
                    target=self._run, args=(self._attempt, lost), name="minimcp-restart", daemon=True
                ).start()
            attempt = self._attempt
        if not wait_until(lambda: attempt.over, self._changed, deadline, cancel):
            what = f"{lost.session.name}: starting the server again"
            raise RequestTimeout(f"{what}: no answer within {deadline.seconds:g} s")
        if attempt.error is not None:
            raise copy(attempt.error)
        return self.newest

    def _run(self, attempt: _Attempt, lost: OpenSession) -> None:
        try:
            assert self._begin is not None
            lost.session.close()  # it may hold what the next server needs, such as a file
            if not self.closed:
                self.newest = self._begin(attempt.stop, lost)
            if self.closed:
                self.newest.session.close()
            else:
                self.newest.subscriptions.missed_all()
        except BaseException as error:
            log.debug("%s: not started again: %s", lost.session.name, error)
            if isinstance(error, ConnectionFailed):
                attempt.error = error
            else:
                attempt.error = ConnectionFailed(f"the server could not be started again: {describe(error)}")
                attempt.error.__cause__ = error
        with self._changed:
            if self.closed:
                attempt.error = ConnectionLost(f"{lost.session.name}: closed")
            self._attempt = None  # the next call begins the next one
            attempt.over = True
            self._changed.notify_all()

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
