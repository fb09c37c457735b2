"""What one connection may cost, as numbers with units."""

from __future__ import annotations

from typing import Optional

from ..protocol.options import check_options, count, seconds


class Limits:
    """What one connection may cost. None means no limit.

    Args:
        max_message_bytes: Bytes of one answer of this side; what the peer sends is the pipe's to measure.
        max_depth: How deep arrays and objects of a message may nest.
        max_batch: Messages in one array.
        max_workers: Handlers that run at the same time, not counting those that wait.
        max_requests: Handlers that are begun and unfinished, waiting ones included.
        max_queue_bytes: Bytes of requests that wait to begin.
        max_backlog_bytes: Bytes of answers that the peer has not taken, before reading stops.
        write_timeout: Seconds after which a peer that takes no byte is lost.
        drain_grace: Seconds that running requests get when the peer sends no more, or at `close`.

    Raises:
        TypeError: One is no number.
        ValueError: A count is below 1, or another limit is negative.
    """

    __slots__ = (
        "max_message_bytes", "max_depth", "max_batch", "max_workers", "max_requests", "max_queue_bytes",
        "max_backlog_bytes", "write_timeout", "drain_grace",
    )

    def __init__(
        self,
        *,
        max_message_bytes: Optional[int] = 64 * 1024 * 1024,
        max_depth: Optional[int] = 256,
        max_batch: Optional[int] = 100,
        max_workers: Optional[int] = 64,
        max_requests: Optional[int] = 1000,
        max_queue_bytes: Optional[int] = 64 * 1024 * 1024,
        max_backlog_bytes: Optional[int] = 64 * 1024 * 1024,
        write_timeout: Optional[float] = 30.0,
        drain_grace: float = 5.0,
    ) -> None:
        self.max_message_bytes, self.max_depth, self.max_batch = max_message_bytes, max_depth, max_batch
        self.max_workers, self.max_requests = max_workers, max_requests
        self.max_queue_bytes, self.max_backlog_bytes = max_queue_bytes, max_backlog_bytes
        self.write_timeout, self.drain_grace = write_timeout, drain_grace
        check_options(_OPTIONS, {name: getattr(self, name) for name in self.__slots__})


_OPTIONS = {
    **dict.fromkeys(("max_message_bytes", "max_queue_bytes", "max_backlog_bytes"), count(0)),
    **dict.fromkeys(("max_depth", "max_batch", "max_workers", "max_requests"), count(1)),  # 0: nothing is ever done
    **dict.fromkeys(("write_timeout", "drain_grace"), seconds()),
}
