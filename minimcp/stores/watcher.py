"""How processes that share a store work together: `Lease` gives one of them a right, and `Watcher`
is a thread that waits for changes."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Callable, Mapping, Optional

from ..engine.cancel import CancelToken
from ..engine.pool import renewed_in_fork
from ..log import logger
from ..text import describe
from .base import Store, StoreUnavailable

log = logger("minimcp.stores")

# Seconds after which a process that has not renewed a `Lease` loses it, and between two renewals.
LEASE_SECONDS = 10.0
RENEW_SECONDS = 3.0

# Seconds until the next attempt after a failure of the store.
RETRY_SECONDS = 1.0


class Lease:
    """A right that one of several processes has at a time, such as to deliver. Not thread-safe.

    Args:
        store: The store that the processes share.
        key: The key of the lease.
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._holder = os.urandom(16).hex().encode()
        self._renewed_at: Optional[float] = None

    def hold(self) -> bool:
        """Return whether this process has the lease. Take or renew it if possible.

        A process that does not call this method for `LEASE_SECONDS` loses the lease.

        Raises:
            StoreUnavailable: The store cannot be reached.
        """
        now = time.monotonic()
        if self._renewed_at is not None and now - self._renewed_at < RENEW_SECONDS:
            return True
        found = self._store.get(self._key)
        version = 0 if found is None else found.version
        is_free = found is None or found.value == self._holder
        if is_free and self._store.put(self._key, self._holder, LEASE_SECONDS, version):
            self._renewed_at = now
            return True
        self._renewed_at = None
        return False

    def release(self) -> bool:
        """End the lease, so that another process can take it at once. Return False without one.

        Raises:
            StoreUnavailable: The store cannot be reached. The lease then expires.
        """
        if self._renewed_at is None:
            return False
        self._renewed_at = None
        found = self._store.get(self._key)
        return found is not None and found.value == self._holder and self._store.delete(self._key)


class Watcher:
    """A thread that calls a function at once, and whenever a key of a store has changed.

    The thread starts with `start`, and ends when it is idle. Thread-safe.

    Args:
        store: The store.
        name: The name of the thread.
        is_idle: Returns whether the thread can end.
        keys: Returns the keys to wait for, each with the newest version that `look` has read.
        look: The function.
        seconds: Maximum seconds between two calls.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        is_idle: Callable[[], bool],
        keys: Callable[[], Mapping[str, int]],
        look: Callable[[], object],
        seconds: float,
    ) -> None:
        self._store = store
        self._name = name
        self._is_idle = is_idle
        self._keys = keys
        self._look = look
        self._seconds = seconds
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Forget the thread, which belongs to the parent process."""
        self._lock = threading.RLock()
        self._nudge = CancelToken()
        self.thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Start the thread, if it does not run and has something to do. Never raises."""
        with self._lock:
            is_idle = False
            if self.thread is None:
                with suppress(Exception):  # the thread reports it, and tries again
                    is_idle = self._is_idle()
            if self.thread is None and not is_idle:
                self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self.thread.start()

    def wake(self) -> None:
        """Make the thread call the function. Never blocks."""
        self._nudge.cancel()

    def _run(self) -> None:
        while True:
            self._nudge = CancelToken()
            try:
                before = self._keys()
                self._look()
                after = self._keys()
                with self._lock:
                    if self._is_idle():
                        self.thread = None
                        return
                if before == after:  # otherwise, more may have changed since
                    newest = max(after.values(), default=0)
                    self._store.wait(after, newest, self._seconds, self._nudge)
            except Exception as error:
                is_known = isinstance(error, StoreUnavailable)
                log.error(
                    "%s will try again: %s",
                    self._name,
                    describe(error),
                    exc_info=None if is_known else error,
                )
                time.sleep(RETRY_SECONDS)
