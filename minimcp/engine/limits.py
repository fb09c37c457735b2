"""What peers may cost a server or a client: `Limits` as numbers with units, `BoundedQueue` of what
a peer says."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, fields
from queue import Empty, SimpleQueue
from typing import Any, Optional

from ..log import logger
from ..schema.mismatch import options_checked

log = logger("minimcp.limits")


@options_checked
@dataclass(frozen=True)
class Limits:
    """What peers may cost. None means no limit. One object may serve many servers and clients;
    immutable.

    Args:
        message_bytes: Bytes of the longest message that is taken (`LineSplitter`, `EventReader`),
            and of the longest answer that is sent (`Sink.respond`).
        depth: How deep arrays and objects of a message may nest (`decode`).
        batch: Messages in one array (`why_no_batch`).
        workers: Handlers that run at the same time (`Pool`): of a server, for all its clients; of a
            client, for what its host is asked. Those that wait in the library do not count, nor do
            those that run on an executor. Callbacks of a client have one thread beside it
            (`Dispatcher`); tasks, as many threads once more. Over HTTP one client leaves its share of
            the threads to others: with a `client_share` of 0.25 it uses at most three quarters, and
            its other requests wait (`ClientPool`).
        requests: Requests that are begun and unfinished, in a handler, also one that waits, or in
            an executor's queue (`RunningRequests.advance`): of a server on all its connections
            together. Of a client, what one connection asks its host; in 2026-07-28 nothing is
            counted there, for the questions come in a result.
        backlog_bytes: Bytes of memory that wait, each of these by itself: requests that no worker
            and no executor has taken, of a client those that its host has not answered
            (`RunningRequests.add`; one may be alone with more), per connection, over Streamable
            HTTP of a server per `Endpoint`, which is for all clients of one path; lines that the
            peer does not take, per connection (`Writer.send`); notifications for callbacks, per
            client (`Dispatcher`).
        streams: Streams of change notifications that a server has open at once:
            `subscriptions/listen` (`Subscriptions.listen`); and over HTTP also all that are open at
            one `Endpoint`, by GET or POST (`Endpoint.reserve`). 0 serves none.
        rounds: How often one request may come back to a server with more answers (2026-07-28;
            `ReplayAsker`). A client has the constant `MOST_ROUNDS`.
        waiting_handlers: Handlers of one connection of a server that wait for answers of the client
            (2026-07-28, over stdio and in memory; `WaitingHandlers`). If one more handler asks, the
            one that has waited longest ends, and the client's retry runs it again from the top.
            With 0 no handler waits, and each question runs the handler again.
        ask_timeout: Seconds that a client gets to answer a server (`ask_now`), and that a request
            state between rounds is good for.
        drain_grace: Seconds that running requests get when a connection ends, or the server closes
            (`Connection._drain`).
        write_timeout: Seconds after which a peer that takes no byte is lost (`Writer`), over HTTP
            one that takes less than 64 KiB (`http.server.SocketWriter`).
        cache_bytes: Bytes of results, and of what they were asked by, that a client keeps
            (`Cache`); those that were not used for longest go first.
        call_rate: Tool calls and completions per second for each client of a server; it may send as
            many at once as in one second, at least one (`CallRate`).
        notification_rate: Progress and log notifications per second for each request of a server;
            above it the newest progress is sent later, and log messages are dropped
            (`IncomingRequest`).
        client_share: Fraction of each limit of a server that one principal may use, and that one
            HTTP session may use, above 0 and at most 1: connections, requests, streams, sessions,
            tasks, processes of `minimcp bridge` (`Shares`). At least 1 of each. The principal of
            `Bearer.static` has none. None sets no share.
        address_share: The same for one address of a peer over HTTP; one IPv6 network (/64) counts
            as one address. It does not apply to this machine, to unix sockets, to
            ``HttpOptions.trusted_proxies`` and under WSGI. None sets no share.

    Raises:
        TypeError: A value is no number.
        ValueError: A number is too small, infinite, or none.
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
        for field in fields(self):
            if field.name in _SHARES:
                check_share(field.name, getattr(self, field.name))
                continue
            check_number(
                field.name,
                getattr(self, field.name),
                least=_LEAST.get(field.name, 0),
                whole=field.name not in (*_SECONDS, *_RATES),
                optional=field.name != "drain_grace",
                unit="per second" if field.name in _RATES else "of seconds",
            )
        if self.ask_timeout == 0:
            raise ValueError("ask_timeout is more than 0 seconds")
        for name in _RATES:
            if getattr(self, name) == 0:
                raise ValueError(
                    f"{name} must be more than 0 per second, not 0: None sets no limit"
                )


class BoundedQueue(SimpleQueue[Any]):
    """A queue of what a peer says, for a thread that may be slower: the oldest go first.
    Thread-safe.

    What is put in by `put` is never dropped.

    Args:
        what: What is offered, for the one warning.
        most: How much of it may wait.
        most_bytes: How many bytes of memory that may take.
    """

    def __init__(self, what: str, most: int, most_bytes: float) -> None:
        super().__init__()
        self._what = what
        self._most = most
        self.most_bytes = most_bytes
        self._bytes = 0
        self._warned = False
        self._lock = threading.RLock()  # a signal handler may come in the middle

    def offer(self, item: Any, size: int) -> None:
        """Put something in that takes so many bytes of memory, and drop what is too much."""
        with self._lock, suppress(Empty):  # another thread may take the last
            fits = size <= self.most_bytes
            if fits:
                self.put((item, size))
                self._bytes += size
            while self._bytes > self.most_bytes or self.qsize() > self._most:
                fits = False
                self.get(block=False)
            if not (fits or self._warned):
                self._warned = True
                log.warning(
                    "more than %d %s, or %.0f bytes, wait for a slow callback: the oldest are dropped",
                    self._most,
                    self._what,
                    self.most_bytes,
                )

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """As its base."""
        found = super().get(block, timeout)
        if type(found) is not tuple:
            return found
        with self._lock:
            self._bytes -= found[1]
        return found[0]


def check_interval(name: str, value: object) -> None:
    """Check an option that is a number of seconds above 0, or None.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is not above 0, or infinite.
    """
    check_number(name, value, whole=False)
    if value == 0:
        raise ValueError(f"{name} must be more than 0 seconds, not 0: None switches it off")


def check_share(name: str, value: object) -> None:
    """Check an option that is a fraction of a limit, or None.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is not above 0 and at most 1.
    """
    way = "write a number above 0 and at most 1, such as 0.25, or None for no share"
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r:.60}: {way}")
    if not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, not {value}: {way}")


_SECONDS = ("ask_timeout", "drain_grace", "write_timeout")
_RATES = ("call_rate", "notification_rate")
_SHARES = ("client_share", "address_share")
_LEAST = {"depth": 1, "batch": 1, "workers": 1, "requests": 1, "rounds": 1}


def check_number(
    name: str,
    value: object,
    *,
    least: float = 0,
    whole: bool = True,
    optional: bool = True,
    unit: str = "of seconds",
) -> None:
    """Refuse what is no such number.

    Args:
        name: Of the option, for the message.
        value: What was given.
        least: The smallest number that is allowed.
        whole: Whether it is a count; False for seconds.
        optional: Whether None is allowed.
        unit: What a number that is not a count measures, for the message.

    Raises:
        TypeError: It is no number.
        ValueError: It is too small, infinite, or none.
    """
    if value is None and optional:
        return
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    what = ("a whole number" if whole else f"a number {unit}") + (" or None" if optional else "")
    if not number:
        raise TypeError(f"{name} is {what}, not {repr(value):.60}")
    assert isinstance(value, (int, float))
    if value - value != 0.0:
        raise ValueError(f"{name} is {what}, not {value}")
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")
