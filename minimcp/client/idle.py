"""`IdleDeadline`: the deadline of a call with ``idle_timeout=``."""

from __future__ import annotations

from typing import Any, Optional

from ..engine.timer import Deadline
from .session import deadline_of


class IdleDeadline(Deadline):
    """A deadline that also passes after some seconds in which the server is silent. Thread-safe.

    Args:
        whole: The deadline of the whole call.
        seconds: The seconds of silence.

    Raises:
        TypeError, ValueError: The seconds are not a number of 0 or more.
    """

    def __init__(self, whole: Deadline, seconds: Any) -> None:
        super().__init__(whole.seconds)
        self._whole = whole
        self._silence = deadline_of("idle_timeout", seconds)

    def on_progress(self, progress: object) -> None:
        """Do nothing. A request with a function for progress asks the server for it."""

    def progressed(self) -> None:
        with self._lock:
            before = self._silence
            self._silence = Deadline(before.seconds)
            for _ in range(before.pauses):
                self._silence.pause()

    def pause(self) -> None:
        with self._lock:
            self._whole.pause()
            self._silence.pause()

    def resume(self) -> None:
        with self._lock:
            self._whole.resume()
            self._silence.resume()

    def remaining(self) -> Optional[float]:
        left = [each.remaining() for each in (self._whole, self._silence)]
        return min((each for each in left if each is not None), default=None)

    def to_wait(self) -> float:
        return min(self._whole.to_wait(), self._silence.to_wait())

    @property
    def expired(self) -> bool:
        return self._whole.expired or self._silence.expired

    def within(self, seconds: Optional[float]) -> Deadline:
        return IdleDeadline(self._whole.within(seconds), self._silence.seconds)

    @property
    def reason(self) -> str:
        if self._silence.expired and not self._whole.expired:
            return f"silent for {self._silence.seconds:g} s"
        return self._whole.reason
