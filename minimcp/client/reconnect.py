"""The sessions of one client, one after the other: how the next one is begun when one is lost.

A client that may begin anew does so in the next call, not before, and on a thread of its own: each
caller waits for it as long as its call may take, and one that gives up stops no other. What was
lost stays lost, and is never sent again. In a process forked from the client's nothing is begun.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from copy import copy
from typing import Callable, Optional, Union

from ..engine.cancel import CancelToken
from ..engine.pool import renewed_in_fork
from ..engine.timer import Deadline
from ..errors import ConnectionFailed, ConnectionLost, RequestTimeout, SessionGone
from ..log import logger
from ..text import describe
from . import subscriptions
from .calls import Sessions
from .host import Host
from .session import Cancel, ClientSession, check_token, wait_until

log = logger("minimcp.client")

# Seconds that a session lasts which is no failure; after so many shorter ones in a row the next
# begins so much later.
STEADY, QUICK_TRIES, PAUSE = 1.0, 3, 1.0

# How long closing waits for an attempt that it has stopped: an old server may take 4 s to end.
JOIN_SECONDS = 10.0

# Begins a session in the place of another one, unless the token is cancelled. Raises what `connect`
# raises.
Begin = Callable[[CancelToken, ClientSession], ClientSession]

# One attempt to begin the next session, and what came of it.
Attempt = Future[Union[ClientSession, Exception]]


class Reconnector(Sessions):
    """The sessions of a client that begins another one after a loss. Thread-safe.

    Args:
        first: The session.
        begin: Begins the next one after a loss; None leaves it at the loss.
        host: The host's side of all of them.
        timeout: Seconds for one call, if the call itself does not say; None waits for ever.
        always: False does so only when the server has ended its session, which is no loss of the
            server.
    """

    def __init__(
        self,
        first: ClientSession,
        begin: Optional[Begin],
        host: Host,
        timeout: Optional[float],
        *,
        always: bool = True,
    ) -> None:
        super().__init__(first, host, timeout)
        self.begin = begin
        self._always = always
        self._changed = threading.Condition()
        self._attempt: Optional[Attempt] = None
        self._steady = Deadline(STEADY)
        self._quick = 0
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin nothing in this process."""
        self.begin = self._attempt = None

    @property
    def restarts(self) -> bool:
        """As `Sessions`."""
        return self.begin is not None and (
            self._always or isinstance(self.newest.cause, SessionGone)
        )

    def after(self, lost: ClientSession, deadline: Deadline, cancel: Cancel) -> ClientSession:
        """What has taken the place of a lost session, even if that is lost too. Not for a reader's
        thread.

        It is begun if there is none yet: once, however many calls were lost with the session
        before. Where none shall be begun, this is the lost one.

        Args:
            lost: The session.
            deadline: How long to wait for it.
            cancel: Ends the wait; None for one that nobody cancels.

        Raises:
            ConnectionFailed: It could not be begun. The next call tries again.
            RequestTimeout: The deadline came first; the attempt goes on.
            Cancelled: The token was cancelled; the attempt goes on.
            ConnectionLost: The client was closed.
        """
        newest = super().after(lost, deadline, cancel)
        if not self.restarts:
            return newest
        check_token(cancel)
        with self._changed:
            if self.newest is not lost:
                return self.newest
            if self._attempt is None:
                self._attempt = Future()
                try:
                    threading.Thread(
                        target=self._run,
                        args=(self._attempt, lost),
                        name="minimcp-restart",
                        daemon=True,
                    ).start()
                except (
                    RuntimeError
                ) as error:  # the system gives no thread: the next call tries again
                    self._attempt = None
                    raise ConnectionFailed(
                        f"the server could not be started again: {error}"
                    ) from error
            attempt = self._attempt
        if not wait_until(attempt.done, self._changed, deadline, cancel):
            what = f"{lost.name}: starting the server again"
            raise RequestTimeout(f"{what}: no answer within {deadline.seconds:g} s")
        outcome = attempt.result()
        if isinstance(outcome, Exception):
            raise copy(outcome)
        return outcome

    def _run(self, attempt: Attempt, lost: ClientSession) -> None:
        outcome: Union[ClientSession, Exception]
        try:
            lost.close()  # it may hold what the next server needs, such as a file
            self._quick = 0 if self._steady.expired else self._quick + 1
            if self._quick > QUICK_TRIES:
                wait_until(lambda: False, self._changed, Deadline(PAUSE), self._stop)
            check_token(self._stop)
            assert self.begin is not None
            self._steady = Deadline(STEADY)
            begun: ClientSession = self.begin(self._stop, lost)
            self.newest = outcome = begun
            if self.closed:
                begun.close()
            else:
                subscriptions.of(begun).missed_all()
        except BaseException as error:
            log.debug("%s: not started again: %s", lost.name, error)
            outcome = ConnectionFailed(f"the server could not be started again: {describe(error)}")
            outcome.__cause__ = error
            if isinstance(error, ConnectionFailed):
                outcome = error
        if self.closed:
            outcome = ConnectionLost(f"{lost.name}: closed")
        with self._changed:
            self._attempt = None  # the next call begins the next one
            attempt.set_result(outcome)
            self._changed.notify_all()

    def close(self) -> None:
        """End the newest session, and an attempt at the next one, for good. Idempotent, from any
        thread."""
        super().close()
        attempt = self._attempt
        if attempt is not None:
            wait([attempt], JOIN_SECONDS)
