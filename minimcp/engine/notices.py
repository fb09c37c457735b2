"""`Notices`: lines that go to one peer when it takes them, each kind of news at most once."""

from __future__ import annotations

import threading
from typing import Any, Callable, ContextManager, Optional

Later = Callable[[Callable[[], Optional[bytes]]], None]
"""Has a function called soon by whoever writes, which sends the lines that it returns. Never blocks."""


def order_lock() -> ContextManager[Any]:
    """Held while several peers are told of one thing, and while one is added: it hears of that or begins behind it.

    Its owner may take it again: a signal handler may tell something in the midst of another thing.
    """
    return threading.RLock()


class Notices:
    """News on their way to one peer. What waits is bounded by the number of keys, however slow the peer is.

    Thread-safe; nothing here waits for the peer.

    Args:
        later: Of the connection.
        held: Whether everything waits until `release`.
    """

    __slots__ = ("_later", "_held", "_waiting", "_state_lock")

    def __init__(self, later: Later, *, held: bool = False) -> None:
        self._later, self._held = later, held
        self._waiting: dict[object, bytes] = {}
        self._state_lock = threading.Lock()

    def put(self, key: object, line: bytes) -> None:
        """Have a line sent; it takes the place of one that still waits under the same key."""
        with self._state_lock:
            first = not self._waiting and not self._held
            self._waiting[key] = line
        if first:
            self._later(self._take)

    def release(self) -> None:
        """From now on lines are sent; those that were held are sent now."""
        with self._state_lock:
            self._held = False
            waits = bool(self._waiting)
        if waits:
            self._later(self._take)

    def _take(self) -> Optional[bytes]:
        with self._state_lock:
            waiting, self._waiting = self._waiting, {}
        return b"".join(waiting.values()) or None

    def __contains__(self, key: object) -> bool:
        """Whether a line waits under this key."""
        return key in self._waiting

    def __len__(self) -> int:
        """How many lines wait."""
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<Notices {len(self._waiting)} waiting>"
