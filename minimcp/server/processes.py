"""`Processes`: what the processes of one server tell each other, by a store that they share.

Each has a mailbox, a key with events, whose time to live says that it runs; and all read one log of
what is for everybody. So nothing is lost while a process is slow, or the store away for a moment.
Each message is a JSON object.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Mapping, Optional, Protocol, Sequence
from weakref import WeakSet

from ..engine.pool import renewed_in_fork
from ..engine.requests import CancelToken
from ..engine.store import Store, StoreUnavailable
from ..errors import logger
from ..protocol.messages import Json, to_json

log = logger("minimcp.processes")

# Seconds after which a process counts as ended that has not said that it runs, and how often it
# says so.
LEASE_SECONDS, RENEW_SECONDS = 10.0, 3.0

# Messages that a mailbox and the log keep, and seconds for which the log does after the last.
MAIL, NEWS, NEWS_SECONDS = 10_000, 1_000, 3600.0

# Of the key that signs states.
SECRET_BYTES = 32

# Seconds that the store gets to hear that this process ends.
STOP_SECONDS = 2.0

# Seconds between two tries while the store is away.
AGAIN_SECONDS = 1.0

Told = Mapping[str, Json]


class Receiver(Protocol):
    """Is told what other processes tell this one; each looks whether it is for it."""

    def hear(self, told: Told) -> None:
        """Another process has told this."""


class Processes:
    """The processes of one server, seen from one of them. Thread-safe.

    Args:
        store: What they share.
        name: Of the server; others in the same store have other names.

    Attributes:
        id: Of this process.
        heard: Up to which number of the log all has been told here.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.folder = store, f"{name.replace('/', '_')}/"
        self.receivers: WeakSet[Any] = WeakSet()
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin as another process. Python calls this in a forked one."""
        self.id, self.heard, self.started = os.urandom(8).hex(), 0, False
        self._lock, self._unsent = threading.Lock(), deque[bytes]()
        self._thread: Any = None
        self._users: set[object] = set()
        self._held_at = -LEASE_SECONDS
        # The version with which the mailbox was made; up to where it was read, and the log was or
        # is being told here.
        self._made = self._read = self._handed = 0
        self._stopped, self._called = CancelToken(), CancelToken()

    def _mailbox(self, process: str) -> str:
        return f"{self.folder}process/{process}"

    @property
    def _log(self) -> str:
        return f"{self.folder}log"

    # ------------------------------------------------------------ telling

    def tell(self, **told: Json) -> None:
        """Tell all others, in the background: when the store is away, as soon as it is back. Never
        blocks."""
        self._unsent.append(to_json({"from": self.id, **told}).encode())
        self.start()
        self._called.cancel()

    def send(self, process: str, **told: Json) -> bool:
        """Tell one process; False when it has ended. Raises what the store raises."""
        alive = self.is_alive(process)
        if alive:
            self.store.append(self._mailbox(process), to_json(told).encode(), LEASE_SECONDS, MAIL)
        return alive

    def is_alive(self, process: str) -> bool:
        """Whether a process runs, or has until a moment ago. Raises what the store raises."""
        return process == self.id or self.store.get(self._mailbox(process)) is not None

    def since(self, number: int) -> Sequence[Told]:
        """What was told here behind this number, that of `heard` at some time, and what this
        process has told.

        What is told here at this moment is in it, too. Raises what the store raises.
        """
        until, unsent = (
            max(self.heard, self._handed),
            list(self._unsent),
        )  # before the log, to which it goes
        events = [(at <= until, _read(data)) for at, data in self.store.read(self._log, number)]
        found = [
            told
            for heard, told in events
            if told is not None and (heard or told.get("from") == self.id)
        ]
        return found + [told for told in map(json.loads, unsent) if told not in found]

    def secret(self) -> bytes:
        """What all of them sign with, made by the first that wants it. Raises what the store
        raises."""
        key = f"{self.folder}secret"
        self.store.put(key, os.urandom(SECRET_BYTES), expect=0)
        entry = self.store.get(key)
        if entry is None or len(entry.value) != SECRET_BYTES:
            raise StoreUnavailable(f"{self.store!r} keeps no secret of {SECRET_BYTES} bytes")
        return entry.value

    # ------------------------------------------------------------ hearing

    def start(self, user: object = None) -> None:
        """Have a thread hear, from now on. Idempotent.

        Args:
            user: Who needs it, until it calls `stop`; None for as long as somebody does.
        """
        if self.started and user in self._users:
            return
        with self._lock:
            self._users.add(user)
            if self.started:
                return
            self.started, stopped = True, CancelToken()
            self._stopped = stopped
            self._thread = threading.Thread(
                target=self._hear, args=(stopped,), name="minimcp-processes", daemon=True
            )
            self._thread.start()

    def stop(self, user: object = None) -> None:
        """Hear no more, if nobody else needs it; the next `start` begins anew. Idempotent.

        Blocks: until others can know it, for `STOP_SECONDS` at most.
        """
        with self._lock:
            self._users -= {user, None}
            if self._users:
                return
            self.started, thread = False, self._thread
            self._stopped.cancel()
            self._called.cancel()
        if thread not in (None, threading.current_thread()):
            thread.join(STOP_SECONDS)

    def hold(self) -> None:
        """Have the store know that this process runs, before it says its id to anybody. Raises what
        the store raises."""
        if time.monotonic() - self._held_at < RENEW_SECONDS:
            return
        mailbox = self._mailbox(self.id)
        if self.store.get(mailbox, renew=True) is None:
            made = self.store.put(mailbox, b"", LEASE_SECONDS, 0)
            self._made = self._made if made is None else made  # None: by another thread
        entry = self.store.get(self._log, renew=True)
        newest = (
            self.store.append(self._log, b"{}", NEWS_SECONDS, NEWS)
            if entry is None
            else entry.version
        )
        with self._lock:  # the first of two threads decides
            self.heard = self.heard or newest
        self._held_at = time.monotonic()

    def follow(self) -> None:
        """Hear all that is told from now on; while the store is away, from when it is back. Never
        raises."""
        self.start()
        try:
            if not self.heard:
                self.hold()
        except StoreUnavailable as error:
            log.warning("what other processes tell may not get here: %s", error)

    def _hear(self, stopped: CancelToken) -> None:
        while not stopped.cancelled:
            self._called = called = (
                CancelToken()
            )  # by who wants something to be sent, or this to end
            try:
                self.hold()
                if self._pass_on() or stopped.cancelled:
                    continue
                keys = [self._mailbox(self.id), self._log]
                changed = self.store.wait(
                    keys, max(self._made, self._read, self.heard), RENEW_SECONDS, called
                )
                if changed and not self._pass_on():  # one of them is gone
                    self._held_at = -LEASE_SECONDS
            except Exception as error:
                if not isinstance(error, StoreUnavailable):
                    log.error("%r cannot be read: %s", self.store, error, exc_info=error)
                self._held_at = -LEASE_SECONDS
                _pause(stopped, AGAIN_SECONDS)
        with suppress(Exception):  # it is away, and will find out by itself
            self._send_unsent()
            if self._stopped is stopped:  # else it is that of the thread that was started anew
                self.store.delete(self._mailbox(self.id))

    def _send_unsent(self) -> None:
        for told in list(self._unsent):
            self.store.append(self._log, told, NEWS_SECONDS, NEWS)
            with suppress(
                ValueError
            ):  # a thread that ends late, and one that was started anew, may send the same
                self._unsent.remove(told)

    def _pass_on(self) -> bool:
        """Send what waits, and hand out what has come; whether there was anything."""
        self._send_unsent()
        mail = self.store.read(self._mailbox(self.id), self._read, forget=True)
        for self._read, data in mail:
            self._hand_out(_read(data))
        news = self.store.read(self._log, self.heard)
        for self._handed, data in news:
            self._hand_out(_read(data))
            self.heard = (
                self._handed
            )  # not before: what a stream has sent until now is compared with it
        return bool(mail or news)

    def _hand_out(self, told: Optional[Told]) -> None:
        if not told or told.get("from") == self.id:  # what begins the log says nothing
            return
        for receiver in list(self.receivers):
            try:
                receiver.hear(told)
            except Exception as error:  # none may keep the others from hearing
                log.error("what another process told was not taken: %s", error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Processes {self.folder} {self.id}>"


def _read(data: bytes) -> Optional[Told]:
    """A message; None for what is none."""
    try:
        told = json.loads(data)
    except ValueError:
        told = None
    if isinstance(told, dict):
        return told
    log.error("what is no message of a process is refused: %.60r", data)
    return None


def _pause(stopped: CancelToken, seconds: float) -> None:
    woken = threading.Event()
    forget = stopped.on_cancel(woken.set)
    woken.wait(seconds)
    forget()
