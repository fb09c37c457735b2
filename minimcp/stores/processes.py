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

from ..engine.cancel import CancelToken
from ..engine.pool import renewed_in_fork
from ..log import logger
from ..protocol.messages import Json, to_json
from ..stores.base import (
    Store,
    StoreUnavailable,
    read_record,
    report_unreadable,
    store_key,
)

log = logger("minimcp.processes")

# Seconds after which a process counts as ended that has not said that it runs, and how often it
# says so.
LEASE_SECONDS = 10.0
RENEW_SECONDS = 3.0

# Maximum number of messages that a mailbox and the log keep, and the seconds for which the log
# keeps them after the last one.
MAIL = 10_000
NEWS = 1_000
NEWS_SECONDS = 3600.0

# Bytes of these messages, if all are as long as the newest: see `_fitting`. A mailbox holds
# answers, which are as long as the body of a request may be.
MAIL_BYTES = 64 * 1024 * 1024
NEWS_BYTES = 256 * 1024

# Maximum length of a message to all processes, in bytes. Most are far shorter; a URI may be long.
TOLD_BYTES = 16 * 1024

# Of the key that signs states.
SECRET_BYTES = 32

# Maximum number of attempts to read it: each one fails only if another process replaces the value.
SECRET_TRIES = 5

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
        name: The server's name.
        audience: What the server's tokens are for; empty if it asks for none. Servers that differ
            in name or audience share nothing.

    Attributes:
        id: Of this process.
        heard: Up to which number of the log all has been told here.
        handed: The number of the message of the log that is passed to the receivers now, or was
            last.
    """

    def __init__(self, store: Store, name: str, audience: Sequence[str] = ()) -> None:
        self.store = store
        self._name = name
        self._audience = audience
        self.receivers: WeakSet[Any] = WeakSet()
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin as another process. Python calls this in a forked one."""
        self.id = os.urandom(8).hex()
        self.heard = 0
        self.started = False
        self._lock = threading.Lock()
        self._unsent = deque[bytes](maxlen=NEWS)
        self._thread: Any = None
        self._users: set[object] = set()
        self._held_at = -LEASE_SECONDS
        # The version with which the mailbox was made, and up to where it was read.
        self._made = self._read = 0
        self.handed = 0
        # The number of the newest message of this process in the log.
        self._sent = 0
        self._stopped = CancelToken()
        self._called = CancelToken()

    def key(self, kind: str, *parts: str) -> str:
        """Return the key of an entry of this server, as `store_key`."""
        return store_key(self._audience, self._name, kind, *parts)

    def _mailbox(self, process: str) -> str:
        return self.key("process", process)

    @property
    def _log(self) -> str:
        return self.key("log")

    # ------------------------------------------------------------ telling

    def tell(self, **told: Json) -> None:
        """Tell all others, in the background: when the store is away, as soon as it is back. Never
        blocks.

        A message that is longer than `TOLD_BYTES` is dropped, with a line of the log.
        """
        data = to_json({"from": self.id, **told}).encode()
        if len(data) > TOLD_BYTES:
            log.error(
                "other processes are not told of %s: %d bytes, and at most %d are sent",
                ", ".join(told),
                len(data),
                TOLD_BYTES,
            )
            return
        self._unsent.append(data)
        self.start()
        self._called.cancel()

    def send(self, process: str, **told: Json) -> bool:
        """Tell one process; False when it has ended. Raises what the store raises."""
        alive = self.is_alive(process)
        if alive:
            data = to_json(told).encode()
            kept = _fitting(data, MAIL, MAIL_BYTES)
            self.store.append(self._mailbox(process), data, LEASE_SECONDS, kept)
        return alive

    def is_alive(self, process: str) -> bool:
        """Whether a process runs, or has until a moment ago. Raises what the store raises."""
        return process == self.id or self.store.get(self._mailbox(process)) is not None

    def newest(self) -> int:
        """Return the number of the newest message of the log, or 0 if there is none. Raises what
        the store raises."""
        entry = self.store.get(self._log)
        return 0 if entry is None else entry.version

    def now(self, newest: int) -> tuple[int, Sequence[bytes]]:
        """Return where the log ends now for this process, and what it has not sent to it yet.

        No receiver has been passed a message after this end, and every later message of this
        process is in neither. Never blocks.

        Args:
            newest: What `newest` has returned shortly before.
        """
        unsent = tuple(self._unsent)  # first: a message leaves it when `_sent` has its number
        return max(newest, self.handed, self._sent), unsent

    def since(self, number: int, until: int, unsent: Sequence[bytes]) -> Sequence[Told]:
        """Return the messages of the log after the one of this number.

        Args:
            number: The number.
            until: The number of the last one to return.
            unsent: Messages that may not be in the log yet, which are returned, too.

        Raises what the store raises.
        """
        events = self.store.read(self._log, number)
        read = [_read(self._log, data) for at, data in events if at <= until]
        found = [told for told in read if told is not None]
        return found + [told for told in map(json.loads, unsent) if told not in found]

    def secret(self) -> bytes:
        """Return the key that all processes sign with. The first one that needs it makes it.

        A value that cannot be a key is replaced. Raises what the store raises.
        """
        key = self.key("secret")
        for _ in range(SECRET_TRIES):
            entry = self.store.get(key)
            if entry is not None:
                if isinstance(entry.value, bytes) and len(entry.value) == SECRET_BYTES:
                    return entry.value
                report_unreadable(key)
            made = os.urandom(SECRET_BYTES)
            self.store.put(key, made, expect=0 if entry is None else entry.version)
        raise StoreUnavailable(f"{self.store!r} keeps no secret of {SECRET_BYTES} bytes")

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
            self.started = True
            stopped = CancelToken()
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
            self.started = False
            thread = self._thread
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
            kept = _fitting(told, NEWS, NEWS_BYTES)
            self._sent = self.store.append(self._log, told, NEWS_SECONDS, kept)
            with suppress(
                ValueError
            ):  # a thread that ends late, and one that was started anew, may send the same
                self._unsent.remove(told)

    def _pass_on(self) -> bool:
        """Send what waits, and hand out what has come; whether there was anything."""
        self._send_unsent()
        mail = self.store.read(self._mailbox(self.id), self._read, forget=True)
        for self._read, data in mail:
            self._hand_out(_read(self._mailbox(self.id), data))
        news = self.store.read(self._log, self.heard)
        for self.handed, data in news:
            self._hand_out(_read(self._log, data))
            self.heard = self.handed
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
        return f"<Processes of {self._name} {self.id}>"


def _read(key: str, data: bytes) -> Optional[Told]:
    """Return a message, or None if the data is not one."""
    return read_record(key, data, lambda told: True)


def _fitting(data: bytes, count: int, most_bytes: int) -> int:
    """Return how many of the newest events a key keeps when this one is added to it.

    At most `count`, and at most as many as fit into `most_bytes` if all are as long as this one.
    So a key holds at most ``most_bytes / size`` events of any size or more, which together with
    `count` bounds its bytes, although no process knows what others have added.
    """
    return max(1, min(count, most_bytes // len(data)))


def _pause(stopped: CancelToken, seconds: float) -> None:
    woken = threading.Event()
    forget = stopped.on_cancel(woken.set)
    woken.wait(seconds)
    forget()
