"""`Transcript`: what went over the wire, to look at and to check; `minimcp.testing` has it."""

from __future__ import annotations

import json
import threading
from typing import Any, Iterator, Mapping, NamedTuple, Optional

from .protocol.messages import Json

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
        of = f" of {self.method}" if self.method else ""
        if self.kind == "error":
            code = self.message["error"].get("code")
            return f"error {code}{of}", f"error {code}", f"error{of}", "error"
        return {"result": (f"result{of}", "result"), "noise": ("noise",)}.get(self.kind, (self.method,))

    def __str__(self) -> str:
        return f"{self.direction} {self.names[0]}{self._id()}{self._content()}"

    def _id(self) -> str:
        return f" #{self.message['id']}" if isinstance(self.message, dict) and "id" in self.message else ""

    def _content(self) -> str:
        shown = self.message
        if isinstance(shown, dict):
            shown = next((shown[name] for name in ("params", "result", "error") if name in shown), {})
        if isinstance(shown, dict):
            shown = {name: value for name, value in shown.items() if name != "_meta"}
        text = json.dumps(shown) if shown else ""
        return f"  {text if len(text) <= WIDTH else text[:WIDTH] + '...'}" if text else ""


class Transcript:
    """What goes over the wire, in order: ``connect(server, trace=transcript)``, or ``Server(trace=transcript)``.

    Iterating gives `Entry` objects; those of a batch stand alone. ``str()`` is a log with a line for each. The methods
    that look for something raise an AssertionError which shows that log. Thread-safe.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[Entry] = []
        self._open: dict[tuple[str, type, Any], str] = {}

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
                fit = message if isinstance(message, dict) else text
                self._entries.append(Entry(arrow, fit, self._method(arrow, fit)))
            self._changed.notify_all()

    def _method(self, arrow: str, message: Any) -> str:
        if not isinstance(message, dict):
            return ""
        id, method = message.get("id"), message.get("method")
        if method is None:
            return self._open.pop((_BACK[arrow], type(id), id), "")
        if id is not None:
            self._open[arrow, type(id), id] = method
        return str(method)

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
        entries = iter(self)
        asked = next((entry for entry in entries if entry.kind == "request" and entry.message == request), None)
        if asked is None:
            raise AssertionError(self._shown(f"{request!r:.100} is no request of"))
        for entry in entries:
            if entry.kind in ("result", "error") and entry.direction == _BACK[asked.direction]:
                answer: dict[str, Json] = entry.message
                if (type(answer.get("id")), answer.get("id")) == (type(request["id"]), request["id"]):
                    return answer
        raise AssertionError(self._shown(f"{asked} has no answer in"))

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
            self._changed.wait_for(lambda: any(_fits(entry, expected) for entry in self._entries), timeout)
            found = next((entry for entry in self._entries if _fits(entry, expected)), None)
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
        entries = list(self)
        marks = [" "] * len(entries)
        at = 0
        for run in _runs(expected):
            start, length = _best(entries, at, run)
            at = start + length
            marks[start:at] = "=" * length
            if length < len(run):
                raise AssertionError(_difference(entries, marks, at if length else len(entries), run[length]))

    def _shown(self, problem: str) -> str:
        return f"{problem} this exchange:\n" + ("\n".join(f"  {entry}" for entry in self) or NOTHING_PASSED)

    def __repr__(self) -> str:
        return f"<Transcript {len(self)} messages>"


def _check(expected: Any) -> None:
    if not isinstance(expected, str) or expected[:4] not in ("--> ", "<-- "):
        raise ValueError(f"a message is named like '--> tools/call' or '<-- result', unlike {expected!r}")


def _fits(entry: Entry, expected: str) -> bool:
    return expected[:3] == entry.direction and expected[4:] in entry.names


def _runs(expected: tuple[Any, ...]) -> list[list[str]]:
    """What stands between the gaps."""
    runs: list[list[str]] = [[]]
    for each in expected:
        if each is ...:
            runs.append([])
        else:
            _check(each)
            runs[-1].append(each)
    return runs


def _best(entries: list[Entry], at: int, run: list[str]) -> tuple[int, int]:
    """Where the most of a run is found, from its beginning on, and how much."""
    best = (at, 0)
    for start in range(at, len(entries)):
        length = 0
        for entry, expected in zip(entries[start:], run):
            if not _fits(entry, expected):
                break
            length += 1
        if length > best[1]:
            best = (start, length)
    return best


def _difference(entries: list[Entry], marks: list[str], at: int, missing: str) -> str:
    if at < len(entries):
        marks[at] = "+"
    lines = [f"{mark} {entry}" for mark, entry in zip(marks, entries)]
    lines.insert(at, f"- {missing}")
    return f"{missing!r} is missing:\n" + "\n".join(lines if entries else [*lines, NOTHING_PASSED])
