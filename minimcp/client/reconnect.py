"""`Reconnector`: the sessions of a client that starts a new one after a loss.

The next session is started by the next call, on a thread of its own. Each caller waits for as long
as its call allows, and a caller that gives up does not stop the attempt. Lost calls are never sent
again. In a forked process no session is started.
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

# A session that lasts for less than STEADY_SECONDS counts as a failure. After MAX_QUICK_TRIES
# failures in a row, the next session starts after a pause.
STEADY_SECONDS = 1.0
MAX_QUICK_TRIES = 3
PAUSE_SECONDS = 1.0

# How long `close` waits for a cancelled attempt. Ending the old server may take 4 s.
JOIN_SECONDS = 10.0

# Starts a session that replaces another one, unless the token is cancelled. Raises what `connect`
# raises.
Begin = Callable[[CancelToken, ClientSession], ClientSession]

# The future of an attempt to start the next session: the session or an exception.
Attempt = Future[Union[ClientSession, Exception]]


class Reconnector(Sessions):
    """The sessions of a client that starts a new one after a loss. Thread-safe.

    Args:
        first: The first session.
        begin: Starts the next session; None if a loss is final.
        host: The host's side of all sessions.
        timeout: Default seconds for one call; None means no limit.
        always: Whether to start a session after every loss. If False, only after the server ended
            its session without being lost.
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
        self._steady = Deadline(STEADY_SECONDS)
        self._quick = 0
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Start no session in a forked process."""
        self.begin = None
        self._attempt = None

    @property
    def restarts(self) -> bool:
        """Whether the next call starts another session."""
        return self.begin is not None and (
            self._always or isinstance(self.newest.cause, SessionGone)
        )

    def after(self, lost: ClientSession, deadline: Deadline, cancel: Cancel) -> ClientSession:
        """Return the session that replaces a lost one, and start it if needed.

        One attempt serves all calls that were lost with the session. If no session is to be
        started, the lost one is returned. Do not call this on a reader thread.

        Args:
            lost: The lost session.
            deadline: When to stop waiting.
            cancel: A token that another thread can cancel, or None.

        Raises:
            ConnectionFailed: The session could not be started. The next call tries again.
            RequestTimeout: The deadline passed; the attempt continues.
            Cancelled: The token was cancelled; the attempt continues.
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
                except RuntimeError as error:  # no thread: the next call tries again
                    self._attempt = None
                    raise ConnectionFailed(f"the server could not be restarted: {error}") from error
            attempt = self._attempt
        if not wait_until(attempt.done, self._changed, deadline, cancel):
            what = f"{lost.name}: restarting the server"
            raise RequestTimeout(f"{what}: no response within {deadline.seconds:g} s")
        outcome = attempt.result()
        if isinstance(outcome, Exception):
            raise copy(outcome) from outcome.__cause__
        return outcome

    def _run(self, attempt: Attempt, lost: ClientSession) -> None:
        outcome: Union[ClientSession, Exception]
        try:
            lost.close()  # the old server may hold a resource that the next one needs
            self._quick = 0 if self._steady.expired else self._quick + 1
            if self._quick > MAX_QUICK_TRIES:
                wait_until(lambda: False, self._changed, Deadline(PAUSE_SECONDS), self._stop)
            check_token(self._stop)
            assert self.begin is not None
            self._steady = Deadline(STEADY_SECONDS)
            begun: ClientSession = self.begin(self._stop, lost)
            self.newest = outcome = begun
            if self.closed:
                begun.close()
            else:
                self.host.call("on_restart")
                subscriptions.of(begun).report_gap()
        except BaseException as error:
            log.debug("%s: not restarted: %s", lost.name, error)
            outcome = ConnectionFailed(f"the server could not be restarted: {describe(error)}")
            outcome.__cause__ = error
            if isinstance(error, ConnectionFailed):
                outcome = error
        if self.closed:
            outcome = ConnectionLost(f"{lost.name}: closed")
        with self._changed:
            self._attempt = None
            attempt.set_result(outcome)
            self._changed.notify_all()

    def close(self) -> None:
        """End the newest session and the attempt to start the next one. Idempotent and
        thread-safe."""
        super().close()
        attempt = self._attempt
        if attempt is not None:
            wait([attempt], JOIN_SECONDS)
