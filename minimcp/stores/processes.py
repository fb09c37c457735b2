"""`Processes`: messages between the processes of one server, through a store that they share.

Each process has a mailbox, which is a key with events. Its time to live shows that the process is
running. All processes also read one log with messages for all of them. So no message is lost while
a process is slow or the store is unavailable for a moment. Each message is a JSON object.
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

# Seconds after which a process counts as ended if it has not renewed its mailbox.
LEASE_SECONDS = 10.0

# Seconds between two renewals.
RENEW_SECONDS = 3.0

# Maximum number of messages in a mailbox and in the log.
MAX_MAILBOX_MESSAGES = 10_000
MAX_LOG_MESSAGES = 1_000

# Seconds for which the log keeps its messages after the last one.
LOG_SECONDS = 3600.0

# Maximum bytes of these messages, if all are as long as the newest: see `_fitting`. A mailbox holds
# responses, which may be as long as the body of a request.
MAX_MAILBOX_BYTES = 64 * 1024 * 1024
MAX_LOG_BYTES = 256 * 1024

# Maximum length of a message to all processes, in bytes. Most are far shorter; a URI may be long.
MAX_MESSAGE_BYTES = 16 * 1024

# The length of the key that signs states.
SECRET_BYTES = 32

# Maximum number of attempts to read the key. An attempt fails only if another process replaces it.
MAX_SECRET_ATTEMPTS = 5

# Seconds to delete the mailbox of a process that ends.
STOP_SECONDS = 2.0

# Seconds between two attempts while the store is unavailable.
RETRY_SECONDS = 1.0

Message = Mapping[str, Json]


class Receiver(Protocol):
    """An object that receives the messages of other processes. Each receiver ignores foreign
    messages."""

    def receive(self, message: Message) -> None:
        """Handle a message of another process."""


class Processes:
    """The processes of one server, as one of them sees them. Thread-safe.

    Args:
        store: The store that the processes share.
        name: The server's name.
        audience: The audience of the server's tokens; empty if it does not use tokens. Servers with
            different names or audiences share nothing.

    Attributes:
        id: The id of this process.
        log_position: The number of the last message of the log that all receivers have handled.
        delivered: The number of the message of the log that the receivers handle now or handled
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
        """Become another process, in a forked child."""
        self.id = os.urandom(8).hex()
        self.log_position = 0
        self.started = False
        self._lock = threading.Lock()
        self._unsent = deque[bytes](maxlen=MAX_LOG_MESSAGES)
        self._thread: Any = None
        self._users: set[object] = set()
        self._held_at = -LEASE_SECONDS
        # The version with which the mailbox was created.
        self._created = 0
        # The number of the last message of the mailbox that was read.
        self._read = 0
        self.delivered = 0
        # The number of the newest message of this process in the log.
        self._sent = 0
        self.stopped = CancelToken()
        self.called = CancelToken()

    def key(self, kind: str, *parts: str) -> str:
        """Return the key of an entry of this server, as `store_key`."""
        return store_key(self._audience, self._name, kind, *parts)

    def _mailbox(self, process: str) -> str:
        return self.key("process", process)

    @property
    def _log(self) -> str:
        return self.key("log")

    # ------------------------------------------------------------ sending

    def broadcast(self, **message: Json) -> None:
        """Send a message to all other processes in the background. Never blocks.

        If the store is unavailable, the message is sent when it is available again. A message that
        is longer than `MAX_MESSAGE_BYTES` is logged and dropped.
        """
        data = to_json({"from": self.id, **message}).encode()
        if len(data) > MAX_MESSAGE_BYTES:
            log.error(
                "a message to other processes (%s) is dropped: %d bytes, more than %d",
                ", ".join(message),
                len(data),
                MAX_MESSAGE_BYTES,
            )
            return
        self._unsent.append(data)
        self.start()
        self.called.cancel()

    def send(self, process: str, **message: Json) -> bool:
        """Send a message to one process. Return False if that process has ended.

        Raises the exceptions of the store.
        """
        is_alive = self.is_alive(process)
        if is_alive:
            data = to_json(message).encode()
            kept = _fitting(data, MAX_MAILBOX_MESSAGES, MAX_MAILBOX_BYTES)
            self.store.append(self._mailbox(process), data, LEASE_SECONDS, kept)
        return is_alive

    def is_alive(self, process: str) -> bool:
        """Return whether a process is running, or was a moment ago. Raises the exceptions of the
        store."""
        return process == self.id or self.store.get(self._mailbox(process)) is not None

    def newest(self) -> int:
        """Return the number of the newest message of the log; 0 if there is none.

        Raises the exceptions of the store.
        """
        entry = self.store.get(self._log)
        return 0 if entry is None else entry.version

    def now(self, newest: int) -> tuple[int, Sequence[bytes]]:
        """Return the current end of the log for this process, and its own messages that are not in
        it yet.

        No receiver has received a message after this end. Later messages of this process are in
        neither part. Never blocks.

        Args:
            newest: A recent result of `newest`.
        """
        unsent = tuple(self._unsent)  # first: a message leaves it when `_sent` has its number
        return max(newest, self.delivered, self._sent), unsent

    def since(self, number: int, until: int, unsent: Sequence[bytes]) -> Sequence[Message]:
        """Return the messages of the log after a number.

        Args:
            number: The number.
            until: The number of the last message to return.
            unsent: Messages that may not be in the log yet. They are returned, too.

        Raises the exceptions of the store.
        """
        events = self.store.read(self._log, number)
        read = [_read(self._log, data) for at, data in events if at <= until]
        found = [message for message in read if message is not None]
        return found + [message for message in map(json.loads, unsent) if message not in found]

    def secret(self) -> bytes:
        """Return the key with which all processes sign. The first process that needs it generates
        it.

        A value that cannot be a key is replaced. Raises the exceptions of the store.
        """
        key = self.key("secret")
        for _ in range(MAX_SECRET_ATTEMPTS):
            entry = self.store.get(key)
            if entry is not None:
                if isinstance(entry.value, bytes) and len(entry.value) == SECRET_BYTES:
                    return entry.value
                report_unreadable(key)
            generated = os.urandom(SECRET_BYTES)
            self.store.put(key, generated, expect=0 if entry is None else entry.version)
        raise StoreUnavailable(f"{self.store!r} does not keep a secret of {SECRET_BYTES} bytes")

    # ------------------------------------------------------------ receiving

    def start(self, user: object = None) -> None:
        """Start the thread that exchanges messages. Idempotent.

        Args:
            user: An object that needs the thread until it calls `stop`; if None, the thread runs
                until the last user stops.
        """
        if self.started and user in self._users:
            return
        with self._lock:
            self._users.add(user)
            if self.started:
                return
            self.started = True
            stopped = CancelToken()
            self.stopped = stopped
            self._thread = threading.Thread(
                target=self._work, args=(stopped,), name="minimcp-processes", daemon=True
            )
            self._thread.start()

    def stop(self, user: object = None) -> None:
        """Stop the thread if no other user needs it. `start` starts it again. Idempotent.

        Blocks for at most `STOP_SECONDS`, until other processes can notice it.
        """
        with self._lock:
            self._users -= {user, None}
            if self._users:
                return
            self.started = False
            thread = self._thread
            self.stopped.cancel()
            self.called.cancel()
        if thread not in (None, threading.current_thread()):
            thread.join(STOP_SECONDS)

    def hold(self) -> None:
        """Create or renew the mailbox of this process, before it sends its id to another process.

        Raises the exceptions of the store.
        """
        if time.monotonic() - self._held_at < RENEW_SECONDS:
            return
        mailbox = self._mailbox(self.id)
        if self.store.get(mailbox, renew=True) is None:
            created = self.store.put(mailbox, b"", LEASE_SECONDS, 0)
            if created is not None:  # None: another thread created it
                self._created = created
        entry = self.store.get(self._log, renew=True)
        if entry is None:
            newest = self.store.append(self._log, b"{}", LOG_SECONDS, MAX_LOG_MESSAGES)
        else:
            newest = entry.version
        with self._lock:  # the first of two threads decides
            self.log_position = self.log_position or newest
        self._held_at = time.monotonic()

    def follow(self) -> None:
        """Receive all messages of the log from now on, or from when the store is available. Never
        raises."""
        self.start()
        try:
            if not self.log_position:
                self.hold()
        except StoreUnavailable as error:
            log.warning("messages of other processes may be missed: %s", error)

    def _work(self, stopped: CancelToken) -> None:
        while not stopped.cancelled:
            # Cancelled to send a message or to stop.
            called = CancelToken()
            self.called = called
            try:
                self.hold()
                if self._exchange() or stopped.cancelled:
                    continue
                keys = [self._mailbox(self.id), self._log]
                newest = max(self._created, self._read, self.log_position)
                has_changed = self.store.wait(keys, newest, RENEW_SECONDS, called)
                if has_changed and not self._exchange():  # one of the keys does not exist
                    self._held_at = -LEASE_SECONDS
            except Exception as error:
                if not isinstance(error, StoreUnavailable):
                    log.error("%r cannot be read: %s", self.store, error, exc_info=error)
                self._held_at = -LEASE_SECONDS
                _pause(stopped, RETRY_SECONDS)
        with suppress(Exception):  # if the store is unavailable, the mailbox expires
            self._send_unsent()
            if self.stopped is stopped:  # otherwise a new thread uses the mailbox
                self.store.delete(self._mailbox(self.id))

    def _send_unsent(self) -> None:
        for data in list(self._unsent):
            kept = _fitting(data, MAX_LOG_MESSAGES, MAX_LOG_BYTES)
            self._sent = self.store.append(self._log, data, LOG_SECONDS, kept)
            # A thread that ends and its successor may send the same message.
            with suppress(ValueError):
                self._unsent.remove(data)

    def _exchange(self) -> bool:
        """Send queued messages and deliver received ones. Return whether any were received."""
        self._send_unsent()
        mail = self.store.read(self._mailbox(self.id), self._read, forget=True)
        for self._read, data in mail:
            self._deliver(_read(self._mailbox(self.id), data))
        news = self.store.read(self._log, self.log_position)
        for self.delivered, data in news:
            self._deliver(_read(self._log, data))
            self.log_position = self.delivered
        return bool(mail or news)

    def _deliver(self, message: Optional[Message]) -> None:
        if not message or message.get("from") == self.id:  # the first message of a log is empty
            return
        for receiver in list(self.receivers):
            try:
                receiver.receive(message)
            except Exception as error:  # the other receivers still get the message
                log.error("a message of another process failed: %s", error, exc_info=error)

    def __repr__(self) -> str:
        return f"<Processes of {self._name} {self.id}>"


def _read(key: str, data: bytes) -> Optional[Message]:
    """Return a message, or None if the data is damaged."""
    return read_record(key, data, lambda message: True)


def _fitting(data: bytes, count: int, most_bytes: int) -> int:
    """Return how many of the newest events a key may keep when this one is added to it.

    That is at most `count`, and at most as many as fit into `most_bytes` if all are as long as this
    one. So a key holds at most ``most_bytes / size`` events of any size or more. Together with
    `count` this bounds its bytes, although no process knows what other processes have added.
    """
    return max(1, min(count, most_bytes // len(data)))


def _pause(stopped: CancelToken, seconds: float) -> None:
    woken = threading.Event()
    forget = stopped.on_cancel(woken.set)
    woken.wait(seconds)
    forget()
