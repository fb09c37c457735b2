"""A server under trial, in raw bytes: `tests.wire.harness` for any command, but lenient where
strictness does not matter.

A fault of the subject is an AssertionError here: a hang, an early exit, or a line that is not a
message.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any, Dict, FrozenSet, List, Optional, Sequence

from ..support import descendants_of
from ..wire.harness import Gone, RawServer
from ..wire.messages import MODERN, modern, request, same

__all__ = ["Gone", "Server", "signs", "shown"]
BAD_SIGNS = ("Exception in thread", "Fatal Python error", "_enter_buffered_busy")


def shown(data: Any, limit: int = 60) -> str:
    """Bytes or a message, short enough for a line of a report."""
    text = repr(data)[2:-1] if isinstance(data, bytes) else json.dumps(data)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)})"


def signs(log: str) -> List[str]:
    return [sign for sign in BAD_SIGNS if sign in log]


class Server(RawServer):
    """A server command, started."""

    def __init__(
        self, command: Sequence[str], revision: Optional[str], patience: float, **others: Any
    ) -> None:
        self.patience = patience
        self.tools: FrozenSet[str] = frozenset()
        super().__init__(revision, command=command, **others)

    @staticmethod
    def checked(message: Any) -> Any:
        assert isinstance(message, (dict, list)), (
            f"stdout carried what is no message: {shown(message)}"
        )
        return message

    def remaining(self, wait: Optional[float] = None) -> List[Any]:
        """Every message up to the end of the output."""
        until, found = time.monotonic() + self.seconds(wait), []
        while self.poll(max(0.0, until - time.monotonic())):
            found.append(self.message())
        assert self.ended, f"the output did not end within {self.seconds(wait):g} s"
        return found

    def ping(self, wait: Optional[float] = None) -> float:
        """Wait for a sign of life, ping or discover, and return the seconds that it took. Earlier
        messages are in `aside`."""
        number, begun = self.number(), time.monotonic()
        method, params = (
            ("server/discover", modern()) if self.revision == MODERN else ("ping", None)
        )
        self.write(request(number, method, params))
        self.answer(number, wait)
        return time.monotonic() - begun

    def replies(self, line: bytes, settle: Optional[float] = None) -> List[Any]:
        """Send a line, and return the messages that answer it until the response to a ping and a
        little longer, without notifications."""
        self.aside.clear()
        self.send(line + b"\n")
        self.ping()
        found = [one for one in self.aside if not (isinstance(one, dict) and "method" in one)]
        self.aside.clear()
        until = time.monotonic() + (min(0.2, self.patience / 50) if settle is None else settle)
        while not found and self.poll(max(0.0, until - time.monotonic())):
            message = self.message()
            found += [message] if isinstance(message, list) or "method" not in message else []
        return found

    def alive(self, bound: float = 1.0) -> float:
        """Show that it still works; seconds that took."""
        took = self.ping(max(self.patience, bound))
        if "echo" in self.tools:
            begun = time.monotonic()
            assert self.text("echo", {"text": "alive"}) == "alive", "echo said something else"
            took = max(took, time.monotonic() - begun)
        self.aside.clear()
        assert took <= bound, f"a sign of life took {took:.1f} s"
        return took

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def memory(self, field: str = "VmRSS") -> float:
        """Memory in MB; VmHWM is the most there ever was."""
        return self.status(field) / 1024

    def descriptors(self) -> int:
        """How many files the server has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def dispose(self) -> None:
        """End the server and its children, and close its pipes."""
        for child in descendants_of(self.process.pid) if self.process.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        super().dispose()

    def result_of(self, messages: List[Any], id: Any) -> Optional[Dict[str, Any]]:
        return next(
            (one for one in messages if isinstance(one, dict) and same(one.get("id"), id)), None
        )
