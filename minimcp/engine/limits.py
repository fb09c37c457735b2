"""`Limits`: what peers may use. `BoundedQueue`: a queue that drops old items."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Optional

from ..log import logger
from ..record import FrozenRecord
from ..schema.mismatch import options_checked

log = logger("minimcp.limits")


@options_checked
class Limits(FrozenRecord):
    """Limits on the memory and time that peers may use. None means no limit.

    Immutable, so many servers and clients may share one object.

    Args:
        message_bytes: Maximum length of a received message and of a sent response, in bytes.
        depth: Maximum nesting of arrays and objects in a message.
        batch: Maximum number of messages in one array.
        workers: Maximum number of handlers that run at the same time, for all connections. Handlers
            that wait inside the library or run on an executor do not count. Tasks have a separate
            pool of the same size. Over HTTP, one client must leave the fraction `client_share` of
            the threads to other clients.
        requests: Maximum number of requests that have started and have not finished, for all
            connections of a server or for one connection of a client. Requests in an executor's
            queue count.
        backlog_bytes: Maximum memory of each queue, in bytes: requests without a worker, per
            connection or per HTTP path; lines that the peer has not read, per connection; and
            notifications for callbacks, per client. A single request may be larger.
        streams: Maximum number of open streams of change notifications of a server. Over HTTP, this
            also limits all open event streams of one path. With 0, all streams are rejected.
        rounds: How often a client may repeat one request with more answers (2026-07-28).
        waiting_handlers: Maximum number of handlers per connection that wait for answers (only
            2026-07-28 over stdio and in memory). Above this, the oldest handler ends, and runs from
            the start when its answers arrive. With 0, each question runs the handler again.
        ask_timeout: Seconds until a question to a client times out.
        drain_grace: Seconds that running requests may take to finish when a connection ends or the
            server closes.
        write_timeout: Seconds until a peer that reads nothing (over HTTP, less than 64 KiB) is
            dropped.
        cache_bytes: Maximum size of a client's cache of results, in bytes.
        call_rate: Maximum number of tool calls and completions per second, per client of a server.
            A client may send one second's worth of calls, and at least one call, in a burst.
        notification_rate: Maximum number of progress and log notifications per second, per request
            of a server. Above this, progress is delayed and log messages are dropped.
        client_share: Fraction of each limit of a server that one principal or one HTTP session may
            use, above 0 and at most 1. It applies to connections, requests, streams, sessions,
            tasks and processes of `minimcp bridge`. Each client may use at least one of them. It
            does not apply to principals of `Bearer.static`, because many clients may use the same
            token.
        address_share: The same fraction for one HTTP peer address. An IPv6 /64 network counts as
            one address. It does not apply to this machine, unix sockets, WSGI or
            ``HttpOptions.trusted_proxies``.

    Raises:
        TypeError: A value is not a number.
        ValueError: A number is too small or infinite.
    """

    message_bytes: Optional[int] = 64 * 1024 * 1024
    depth: Optional[int] = 256
    batch: Optional[int] = 100
    workers: Optional[int] = 64
    requests: Optional[int] = 1000
    backlog_bytes: Optional[int] = 64 * 1024 * 1024
    streams: Optional[int] = 256
    rounds: Optional[int] = 8
    waiting_handlers: Optional[int] = 16
    ask_timeout: Optional[float] = 600.0
    drain_grace: float = 5.0
    write_timeout: Optional[float] = 30.0
    cache_bytes: Optional[int] = 16 * 1024 * 1024
    call_rate: Optional[float] = None
    notification_rate: Optional[float] = None
    client_share: Optional[float] = 0.25
    address_share: Optional[float] = 0.5

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in _SHARES:
                check_share(name, value)
                continue
            check_number(
                name,
                value,
                least=_MIN.get(name, 0),
                whole=name not in (*_SECONDS, *_RATES),
                optional=name != "drain_grace",
                unit="per second" if name in _RATES else "of seconds",
            )
        if self.ask_timeout == 0:
            raise ValueError("ask_timeout must be more than 0 seconds, not 0")
        for name in _RATES:
            if getattr(self, name) == 0:
                raise ValueError(
                    f"{name} must be more than 0 per second, not 0: write None for no limit"
                )


class BoundedQueue(SimpleQueue[Any]):
    """A queue of items for one thread that may be slower. It drops the oldest items. Thread-safe.

    The items that were added are in ``queued``, and `take` returns them. The queue itself contains
    signals: `add` puts `SIGNAL` if ``queued`` was empty. So a thread that is behind is not woken
    for each item. Items that are added with `put` are never dropped.

    Args:
        items: A plural noun for the items, for the warning, which is logged only once.
        max_items: Maximum number of items.
        max_bytes: Maximum size of the items, in bytes.

    Attributes:
        queued: The items that are queued, each with its size.
    """

    SIGNAL = True

    def __init__(self, items: str, max_items: int, max_bytes: float) -> None:
        super().__init__()
        self._name = items
        self._max_items = max_items
        self.max_bytes = max_bytes
        self.queued: deque[tuple[Any, int]] = deque()
        # Two counters, in bytes: the items added and not dropped, and the items taken. Only the
        # thread that takes items writes the second one.
        self._added = 0
        self._taken = 0
        self._warned = False
        self._lock = threading.RLock()  # reentrant: a signal handler may use the queue

    @property
    def bytes(self) -> int:
        """Size of the queued items, in bytes."""
        return self._added - self._taken

    def add(self, item: Any, size: int) -> None:
        """Add an item, given its size in bytes, and drop old items above the limits."""
        self._lock.acquire()  # not a `with` block, which takes three times as long
        try:
            fits = size <= self.max_bytes
            if fits:
                self.queued.append((item, size))
                self._added += size
            if not fits or self.bytes > self.max_bytes or len(self.queued) > self._max_items:
                self._drop()
        finally:
            self._lock.release()
        if len(self.queued) == 1:
            self.put(self.SIGNAL)

    def _drop(self) -> None:
        """Drop the oldest items above the limits. The caller holds the lock."""
        with suppress(IndexError):  # another thread may take the last item
            while self.bytes > self.max_bytes or len(self.queued) > self._max_items:
                self._added -= self.queued.popleft()[1]
        if not self._warned:
            self._warned = True
            log.warning(
                "a callback is too slow: when more than %d %s, or %.0f bytes, are queued, the "
                "oldest are dropped",
                self._max_items,
                self._name,
                self.max_bytes,
            )

    def take(self) -> Any:
        """Remove and return the oldest item; None if there is none. Never blocks."""
        try:
            item, size = self.queued.popleft()
        except IndexError:
            return None
        self._taken += size
        return item


def check_interval(name: str, value: object) -> None:
    """Check an option that is a number of seconds above 0, or None.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is infinite, or is not above 0.
    """
    check_number(name, value, whole=False)
    if value == 0:
        raise ValueError(f"{name} must be more than 0 seconds, not 0: write None to disable it")


def check_share(name: str, value: object) -> None:
    """Check an option that is a fraction of a limit, or None.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is 0 or less, or is above 1.
    """
    advice = "write a number above 0 and at most 1, such as 0.25, or None for no limit per client"
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r:.60}: {advice}")
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value}: {advice}")


_SECONDS = ("ask_timeout", "drain_grace", "write_timeout")
_RATES = ("call_rate", "notification_rate")
_SHARES = ("client_share", "address_share")
_MIN = {"depth": 1, "batch": 1, "workers": 1, "requests": 1, "rounds": 1}


def check_number(
    name: str,
    value: object,
    *,
    least: float = 0,
    whole: bool = True,
    optional: bool = True,
    unit: str = "of seconds",
) -> None:
    """Check an option that is a number.

    Args:
        name: The name of the option, for the message.
        value: The value.
        least: The smallest number that is allowed.
        whole: Whether the number must be a whole number.
        optional: Whether None is allowed.
        unit: The unit of a number that need not be whole, for the message.

    Raises:
        TypeError: The value is not a number.
        ValueError: The number is too small or not finite.
    """
    if value is None and optional:
        return
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    expected = "a whole number" if whole else f"a number {unit}"
    if optional:
        expected += " or None"
    if not is_number:
        raise TypeError(f"{name} must be {expected}, not {repr(value):.60}")
    assert isinstance(value, (int, float))
    if value - value != 0.0:  # infinite or NaN
        raise ValueError(f"{name} must be {expected}, not {value}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")
