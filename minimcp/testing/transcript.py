"""`Transcript`: what went over a connection, message by message."""

from __future__ import annotations

import json
import threading
from itertools import groupby, takewhile
from typing import Any, Iterator, Mapping, NamedTuple, Optional

from ..protocol.messages import Json

WIDTH = 100
"""Characters of a message's content that are shown."""

NOTHING_PASSED = "  (nothing passed: did connect, or the Server, get this transcript as trace=?)"

_BACK = {"-->": "<--", "<--": "-->"}


class Entry(NamedTuple):
    """One message of a `Transcript`."""

    direction: str
    """"-->" for sent, "<--" for received, as seen by the side that was given the transcript."""

    message: Any
    """The decoded JSON; the text of a line that was no JSON object."""

    method: str
    """Of a request or a notification; of the request that an answer answers; "" when there is none."""

    request: Any = None
    """What an answer answers, as it was on the wire; None when that is not known."""

    @property
    def kind(self) -> str:
        """"request", "notification", "result", "error", or "noise" for what is no message."""
        if not isinstance(self.message, dict):
            return "noise"
        if "method" in self.message:
            return "request" if "id" in self.message else "notification"
        return "error" if "error" in self.message else "result"

    @property
    def names(self) -> tuple[str, ...]:
        """What `Transcript.assert_flow` may call it, most exact first."""
        if self.kind in ("request", "notification"):
            return (self.method,)
        words = [f"error {self.message['error'].get('code')}", "error"] if self.kind == "error" else [self.kind]
        return tuple(word + of for word in words for of in ((f" of {self.method}", "") if self.method else ("",)))

    def __str__(self) -> str:
        content, id = self.message, ""
        if isinstance(content, dict):
            id = f" #{content['id']}" if "id" in content else ""
            content = next((content[name] for name in ("params", "result", "error") if name in content), {})
        if isinstance(content, dict):
            content = {name: value for name, value in content.items() if name != "_meta"}
        text = json.dumps(content, ensure_ascii=False) if content else ""
        shown = text if len(text) <= WIDTH else text[:WIDTH] + "..."
        return f"{self.direction} {self.names[0]}{id}  {shown}".rstrip()


class Transcript:
    """What goes over the wire, in order: ``connect(server, trace=transcript)``, or ``Server(trace=transcript)``.

    Iterating gives `Entry` objects; those of a batch stand alone. ``str()`` is a log with a line for each. The methods
    that look for something raise an AssertionError which shows that log. Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[Entry] = []
        # The requests that have no answer yet, by direction and the ``repr`` of the id: 1 is not "1".
        self._open: dict[tuple[str, str], dict[str, Json]] = {}

    def __call__(self, arrow: str, text: str) -> None:
        """Take one line: what ``trace=`` calls.

        Args:
            arrow: "-->" or "<--".
            text: The line.
        """
        try:
            read = json.loads(text)
        except ValueError:
            read = text
        with self._changed:
            for message in read if isinstance(read, list) else [read]:
                asked: Any = None
                if not isinstance(message, dict):
                    message = text
                elif "method" not in message:
                    asked = self._open.pop((_BACK[arrow], repr(message.get("id"))), None)
                elif "id" in message:
                    self._open[arrow, repr(message["id"])] = message
                named = asked or message
                method = str(named.get("method", "")) if isinstance(named, dict) else ""
                self._entries.append(Entry(arrow, message, method, asked))
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Entry]:
        with self._changed:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget what was recorded, as after the opening of a connection."""
        with self._changed:
            self._entries.clear()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def __repr__(self) -> str:
        return f"<Transcript {len(self)} messages>"

    def methods(self) -> list[str]:
        """The methods of all requests and notifications, in order."""
        return [entry.method for entry in self if entry.kind in ("request", "notification")]

    def requests(self, method: Optional[str] = None) -> list[dict[str, Json]]:
        """The requests, in order, as they were on the wire.

        Args:
            method: Of those that are wanted; None wants all.
        """
        return [entry.message for entry in self if entry.kind == "request" and method in (None, entry.method)]

    def answer_to(self, request: Mapping[str, Json]) -> dict[str, Json]:
        """The answer to a request, as it was on the wire, with ``result`` or ``error``.

        Args:
            request: One of `requests`.

        Raises:
            AssertionError: There is no such request, or no answer to it yet.
        """
        __tracebackhide__ = True
        for entry in self:
            if entry.request == request:
                answer: dict[str, Json] = entry.message
                return answer
        asked = next((entry for entry in self if entry.kind == "request" and entry.message == request), None)
        problem = f"{request!r:.100} is no request of" if asked is None else f"{asked} has no answer in"
        raise AssertionError(self._shown(problem))

    def wait_for(self, expected: str, timeout: float = 10.0) -> Entry:
        """Wait for a message that nobody's call waits for; returns the first, which may have passed already.

        Args:
            expected: As for `assert_flow`.
            timeout: Seconds.

        Raises:
            AssertionError: It did not come in time.
        """
        __tracebackhide__ = True
        _check(expected)
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((entry for entry in self._entries if _fits(entry, expected)), None), timeout
            )
        if found is None:
            raise AssertionError(self._shown(f"no {expected!r} came within {timeout:g} s:"))
        return found

    def assert_flow(self, *expected: Any) -> None:
        """Check that these messages passed one directly after another, whatever was before and after them.

        Args:
            expected: Each a direction and a method, or "result", "error", "error -32602", also followed by "of" and the
                method that was called: ``"--> tools/call"``, ``"<-- result of tools/call"``. A ``...`` stands for any
                number of other messages.

        Raises:
            AssertionError: They did not. It shows the whole exchange, with "=" before what is as expected, "-" before
                what is missing and "+" before what came in its place.
            ValueError: A text names no message.
        """
        __tracebackhide__ = True
        entries, at = list(self), 0
        lines = [f"  {entry}" for entry in entries]
        for is_gap, group in groupby(expected, lambda each: each is ...):
            run = [] if is_gap else list(group)
            for each in run:
                _check(each)
            start = max(range(at, len(entries) + 1), key=lambda start: _matching(entries[start:], run))
            length = _matching(entries[start:], run)
            at = start + length
            lines[start:at] = [f"= {entry}" for entry in entries[start:at]]
            if length < len(run):
                if not length:
                    at = len(entries)
                lines[at:at + 1] = [f"- {run[length]}", *(f"+ {entry}" for entry in entries[at:at + 1])]
                shown = "\n".join(lines if entries else [*lines, NOTHING_PASSED])
                raise AssertionError(f"{run[length]!r} is missing:\n{shown}")

    def _shown(self, problem: str) -> str:
        return f"{problem} this exchange:\n" + ("\n".join(f"  {entry}" for entry in self) or NOTHING_PASSED)


def _check(expected: Any) -> None:
    if not isinstance(expected, str) or expected[:4] not in ("--> ", "<-- "):
        raise ValueError(f"a message is named like '--> tools/call' or '<-- result', unlike {expected!r}")


def _fits(entry: Entry, expected: str) -> bool:
    return expected[:3] == entry.direction and expected[4:] in entry.names


def _matching(entries: list[Entry], run: list[str]) -> int:
    """How many of a run's messages the entries begin with."""
    return len(list(takewhile(lambda pair: _fits(*pair), zip(entries, run))))
