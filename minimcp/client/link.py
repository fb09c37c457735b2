"""What belongs to one connection of a client, and how the next one is begun when it is lost.

A client that is told to begin anew does so in the next call, not before, and on a thread of its own: each caller waits
for it as long as its call may take, and who gives up stops nobody else. What was lost stays lost, and is never sent
again. In a process forked from the client's nothing is begun.
"""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from typing import Callable, Optional

from ..engine.connection import Connection
from ..engine.requests import Calls, CancelToken
from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import ConnectionFailed, ConnectionLost, McpError, describe
from ..protocol.lifecycle import LOG_LEVEL_KEY, Handshake
from .arguments import check_token
from .cacheable import CacheableCalls
from .callbacks import ClientRole
from .input_rounds import until_cancelled
from .listening import Listening
from .negotiation import Era
from .own_calls import own_call

log = logging.getLogger("minimcp.client")

USUAL_LEVEL = "info"
"""The lowest level that a host hears until it names one: the same that servers send from where nobody has to ask."""

JOIN_SECONDS = 10.0
"""How long closing waits for a beginning that it has stopped: an old server may take 4 s to end."""


class Link:
    """One connection, and what a client has on it. Thread-safe.

    Args:
        calls: The connection, and what was agreed on it.
        role: What it does with what the server sends.
        stderr_tail: Tells the last lines of the server's stderr.
    """

    __slots__ = ("calls", "role", "listening", "stderr_tail", "log_level")

    def __init__(self, calls: CacheableCalls, role: ClientRole, stderr_tail: Callable[[], str]) -> None:
        self.calls, self.role, self.stderr_tail = calls, role, stderr_tail
        self.listening = Listening(calls, role.streams, forward=role.tell, missed=role.missed, kinds=role.kinds)
        self.log_level: Optional[str] = None

    @property
    def channel(self) -> Connection:
        """The connection."""
        return self.calls.channel

    @property
    def era(self) -> Era:
        """What was agreed on it."""
        return self.calls.era

    @property
    def cause(self) -> Optional[BaseException]:
        """Why it is lost or closed; None while it lives."""
        return self.channel.calls.cause

    def set_log_level(self, level: str, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        """Have the server send log messages of this level and above. Errors as `Client.request`."""
        if isinstance(self.era, Handshake):
            self.calls.request("logging/setLevel", {"level": level}, deadline, cancel)
        else:
            self.era.envelope = {**self.era.envelope, LOG_LEVEL_KEY: level}
        self.log_level = level

    def hear(self, deadline: Deadline, before: Optional[Link] = None) -> None:
        """Begin to hear of what the host has callbacks for, and of what it heard on the link before.

        Args:
            deadline: For all of it.
            before: The link whose place this one takes; None for the first.

        Raises:
            ConnectionLost: The connection has ended; it is closed then, as after any other exception.
        """
        uris = () if before is None else before.listening.subscribed
        steps: list[tuple[Callable[[], None], str]] = [
            (lambda: self.listening.open_background(deadline, uris), "stream of changes")
        ]
        if before is not None and before.log_level is not None:
            level = before.log_level
            steps.insert(0, (lambda: self.set_log_level(level, deadline, None), "log messages"))
        elif self.role.hears_logs and self.era.peer.supports("logging") and not isinstance(self.era, Handshake):
            self.era.envelope = {**self.era.envelope, LOG_LEVEL_KEY: USUAL_LEVEL}  # nothing comes unasked in this era
        try:
            for step, what in steps:
                try:
                    step()
                except McpError as error:
                    if self.cause is not None:
                        raise
                    log.warning("%s: no %s: %s", self.channel.name, what, error)
        except BaseException:
            self.close()
            raise

    def missed(self) -> None:
        """There was a gap before this link: whatever the host listens to may have changed."""
        self.role.missed(self.role.kinds._replace(resource_subscriptions=self.listening.subscribed))

    def close(self) -> None:
        """End the connection. Idempotent, from any thread."""
        self.channel.close()
        self.listening.join()


Begin = Callable[[CancelToken, Link], Link]
"""Begins a connection in the place of another one, unless the token is cancelled. Raises what `connect` raises."""


class _Begun(Exception):
    """How waiting for a link ends well."""


class _Attempt:
    """One beginning: who waits for it, and how it is stopped.

    Args:
        name: Of the connection that was lost.
    """

    def __init__(self, name: str) -> None:
        self.stop = CancelToken()
        self.claim = threading.Lock()
        """Whoever gets it does the work, and never gives it back."""
        self.over = threading.Event()
        self._room = Calls(name, lambda line, deadline: True, _nowhere)

    def end(self, ending: Exception) -> None:
        """Whoever waits, or comes late, raises this."""
        self._room.close(ending)
        self.over.set()

    def wait(self, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        """Return when it has begun. Arguments and errors as `Links.living`."""
        check_token(cancel)
        try:
            call = own_call(self._room, "starting the server again")
            forget = until_cancelled(self._room, call, cancel)
            try:
                self._room.wait(call, deadline, tell=False)
            finally:
                forget()
        except _Begun:
            pass


def _nowhere(line: bytes) -> None:
    """Nothing is written: there is no connection yet."""


class Links:
    """A client's newest link, and the way to the next one. Thread-safe, also for a signal handler.

    Args:
        first: The link.
        begin: Begins the next one after a loss; None leaves it at the loss.
        always: False does so only when the server has ended its session, which is no loss of the server.
    """

    def __init__(self, first: Link, begin: Optional[Begin], *, always: bool = True) -> None:
        self.newest, self._begin, self._always = first, begin, always
        first.calls.renewed = self._renewed
        self.closed = False
        self._attempts: dict[str, _Attempt] = {}  # one at most: whoever comes first sets it, in one step
        self._process = os.getpid()

    @property
    def restarts(self) -> bool:
        """Whether a loss is followed by another link."""
        return self._begin is not None and (self._always or isinstance(self.newest.cause, SessionGone))

    def _renewed(self, deadline: Deadline, cancel: Optional[CancelToken]) -> CacheableCalls:
        return self.living(deadline, cancel).calls

    def living(self, deadline: Deadline, cancel: Optional[CancelToken]) -> Link:
        """The newest link; if that is lost, the next one, if there shall be one. Not for a reader's thread.

        Args:
            deadline: How long to wait for it.
            cancel: Ends the wait; None for one that nobody cancels.

        Raises:
            ConnectionFailed: It could not be begun. The next call tries again.
            RequestTimeout: The deadline came first; the attempt goes on.
            Cancelled: The token was cancelled; the attempt goes on.
            ConnectionLost: The client was closed meanwhile.
        """
        while True:
            link, begin = self.newest, self._begin
            if link.cause is None or begin is None or self.closed or os.getpid() != self._process:
                return link
            if not self._always and not isinstance(link.cause, SessionGone):
                return link
            self._attempt(link, begin).wait(deadline, cancel)

    def _attempt(self, lost: Link, begin: Begin) -> _Attempt:
        """The attempt that is under way, or a new one."""
        attempt = self._attempts.setdefault("next", _Attempt(lost.channel.name))
        if not attempt.claim.locked():  # each caller sees to it: one that came before may have died of a signal
            try:
                work = partial(self._run, attempt, lost, begin)
                threading.Thread(target=work, name="minimcp-restart", daemon=True).start()
            except RuntimeError as error:
                if attempt.claim.acquire(False):  # and no other caller's thread is doing it
                    self._end(attempt, _failure(error))
        return attempt

    def _run(self, attempt: _Attempt, lost: Link, begin: Begin) -> None:
        if not attempt.claim.acquire(False):
            return
        try:
            if self.newest is lost:  # and not replaced since it was found lost
                self._renew(attempt, lost, begin)
            ending: Exception = _Begun()
        except BaseException as error:
            log.debug("%s: not started again: %s", lost.channel.name, error)
            ending = _closed(lost) if self.closed else _failure(error)
        self._end(attempt, ending)

    def _renew(self, attempt: _Attempt, lost: Link, begin: Begin) -> None:
        lost.close()  # it may hold what the next server needs, such as a file
        if self.closed:
            raise _closed(lost)
        link = begin(attempt.stop, lost)
        link.calls.forget()
        link.calls.renewed = self._renewed
        self.newest = link
        if self.closed:
            link.close()
            raise _closed(lost)
        link.missed()

    def _end(self, attempt: _Attempt, ending: Exception) -> None:
        self._attempts.pop("next", None)  # who comes from now on begins the next one
        attempt.end(ending)

    def close(self) -> None:
        """End the newest link, and an attempt at the next one, for good. Idempotent, from any thread."""
        self.closed = True
        attempt = self._attempts.get("next") if os.getpid() == self._process else None
        if attempt is not None:
            attempt.stop.cancel("the client was closed")
        self.newest.close()
        if attempt is not None:
            attempt.over.wait(JOIN_SECONDS)

    def abandon(self) -> None:
        """The same without waiting for anything, for a finalizer: an attempt ends when it has an outcome."""
        self.closed = True
        self.newest.channel.abandon()


def _closed(lost: Link) -> ConnectionLost:
    return ConnectionLost(f"{lost.channel.name}: closed")


def _failure(error: BaseException) -> ConnectionFailed:
    if isinstance(error, ConnectionFailed):
        return error
    failed = ConnectionFailed(f"the server could not be started again: {describe(error)}")
    failed.__cause__ = error
    return failed
