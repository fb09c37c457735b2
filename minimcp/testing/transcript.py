"""`Transcript`: what went over a connection, message by message; as a log, as JSON Lines, as a page
with a diagram."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import threading
import time
from collections import deque
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

from ..protocol.messages import Json, decode, to_json
from ..text import json_printable
from .breaches import Breach, Judge

WIDTH = 100
"""Characters of a message's content that are shown."""

NOTHING_PASSED = "  (nothing passed: did connect, or the Server, get this transcript as trace=?)"

# What a transcript keeps as long as nothing else is said: entries, and bytes of their lines.
MAX_ENTRIES, MAX_BYTES = 50_000, 32 * 1024 * 1024

# Bytes of a line of which only the names of the members are shown.
LONG = 64 * 1024

_BACK = {"-->": "<--", "<--": "-->"}

FilePath = Union[str, "os.PathLike[str]"]


class Entry(NamedTuple):
    """One message of a `Transcript`."""

    direction: str
    """"-->" for sent, "<--" for received, as seen by the side that was given the transcript."""

    message: Any
    """The decoded JSON; the text of a line that was no JSON object."""

    method: str
    """Of a request or a notification; of the request that an answer answers; "" when there is
    none."""

    request: Any = None
    """What an answer answers, as it was on the wire; None when that is not known."""

    time: float = 0.0
    """When it passed, in seconds since 1970."""

    size: int = 0
    """Bytes of its line; those of a batch share one."""

    seconds: Optional[float] = None
    """How long an answer took; None where it is not known what it answers."""

    breaches: tuple[Breach, ...] = ()
    """What in it breaks the specification, if the transcript looks for that."""

    @property
    def kind(self) -> str:
        """ "request", "notification", "result", "error", "noise" for what is no message, "note" for
        no line at all."""
        if not isinstance(self.message, dict):
            return "noise" if self.direction else "note"
        if "method" in self.message:
            return "request" if "id" in self.message else "notification"
        return "error" if "error" in self.message else "result"

    @property
    def names(self) -> tuple[str, ...]:
        """What `Transcript.assert_flow` may call it, most exact first."""
        if self.kind in ("request", "notification"):
            return (self.method,)
        words = [self.kind]
        if self.kind == "error":
            error = self.message["error"]
            words = [f"error {error.get('code') if isinstance(error, dict) else None}", "error"]
        return tuple(
            word + of
            for word in words
            for of in ((f" of {self.method}", "") if self.method else ("",))
        )

    @property
    def purpose(self) -> str:
        """What the message is for, in a few words; "" where that is not known."""
        words, content = self.method, self._member
        if self.kind == "result":
            words = (
                "result failed"
                if content.get("isError") is True
                else f"result {content.get('resultType')}"
            )
        elif self.kind == "error":
            words = ""
        text = purposes().get(words, "")
        return re.sub(r"\{(\w+)\}", lambda member: _shown(content.get(member[1])), text)

    @property
    def _member(self) -> Mapping[str, Json]:
        """The params, the result or the error; empty where they are no object."""
        message: dict[str, Any] = self.message if isinstance(self.message, dict) else {}
        content: Any = next(
            (message[name] for name in ("params", "result", "error") if name in message), {}
        )
        return content if isinstance(content, dict) else {}

    @property
    def content(self) -> str:
        """The params, the result or the error as JSON, shortened; "" when there is nothing in
        it."""
        content = {name: value for name, value in self._member.items() if name != "_meta"}
        if self.size > LONG:
            content = dict.fromkeys(content, "...")
        shown: Any = content if isinstance(self.message, dict) else self.message[:LONG]
        text = json.dumps(shown, ensure_ascii=False) if shown else ""
        return text if len(text) <= WIDTH else text[:WIDTH] + "..."

    def as_json(self) -> str:
        """The entry as a line of JSON, which `Transcript.load` reads.

        What a terminal would obey or hide is escaped, because ``minimcp trace --json`` writes to
        one.
        """
        told = {
            "time": self.time,
            "direction": self.direction,
            "kind": self.kind,
            "method": self.method,
            "size": self.size,
            "seconds": self.seconds,
            "purpose": self.purpose,
            "breaches": self.breaches,
        }
        try:
            text = to_json({**told, "message": self.message})
        except ValueError:  # such as NaN, which is no JSON and was on the wire all the same
            text = to_json({**told, "message": json.dumps(self.message)})
        return json_printable(text)

    def __str__(self) -> str:
        id = (
            f" #{self.message['id']}"
            if isinstance(self.message, dict) and "id" in self.message
            else ""
        )
        return f"{self.direction} {self.names[0]}{id}  {self.content}".rstrip()


class Transcript:
    """What goes over the wire, in order: ``connect(server, trace=transcript)``, or
    ``Server(trace=transcript)``.

    Iterating gives `Entry` objects; those of a batch stand alone. ``str()`` is a log with a line
    for each. The methods that look for something raise an AssertionError which shows that log.
    Thread-safe.

    Args:
        judge: Look for what breaks the specification, which `Entry.breaches` names. For one
            connection only: the ids of several, as those of a server's clients over HTTP, are taken
            for one another.
        entries: How many entries are kept: the newest. The oldest ones are dropped.
        size: Bytes of the lines of all entries that are kept, likewise. The newest entry is always
            kept.

    Attributes:
        dropped: How many entries were dropped because of these limits.
    """

    def __init__(
        self, *, judge: bool = False, entries: int = MAX_ENTRIES, size: int = MAX_BYTES
    ) -> None:
        self._changed = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._most_entries = entries
        self._most_bytes = size
        self._bytes = 0
        self.dropped = 0
        # The requests that have no answer yet, by direction and the ``repr`` of the id (1 is not
        # "1"), and their times.
        self._open: dict[tuple[str, str], tuple[dict[str, Json], float]] = {}
        self._judge = Judge() if judge else None

    def __call__(self, arrow: str, text: str) -> None:
        """Take one line: what ``trace=`` calls.

        Args:
            arrow: "-->" or "<--".
            text: The line.
        """
        self.record(arrow, text.encode("utf-8", "surrogatepass"), time.time())

    def record(self, arrow: str, line: bytes, at: float) -> list[Entry]:
        """Take one line, and return its messages.

        Args:
            arrow: "-->" or "<--".
            line: The line, without its line feed.
            at: When it passed, in seconds since 1970.
        """
        text = line.decode("utf-8", "replace")
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            read = text
        found = read if isinstance(read, list) and read else [read]
        messages = [
            each if isinstance(each, dict) else text if each is read else json.dumps(each)
            for each in found
        ]
        with self._changed:
            judged = (
                []
                if self._judge is None
                else self._judge.judge(arrow, decode(line, max_depth=None, exact=True))
            )
            breaches = [*judged, *[()] * (len(messages) - len(judged))]
            return [
                self._take(arrow, message, at, len(line), each)
                for message, each in zip(messages, breaches)
            ]

    def note(self, text: str, at: float, *, lost: bool = False) -> Entry:
        """Add an entry about the recording itself.

        Args:
            text: What happened.
            at: When, in seconds since 1970.
            lost: Whether messages were not recorded: what depends on them is not judged from now
                on.
        """
        if lost and self._judge is not None:
            self._judge.miss()
        with self._changed:
            return self._take("", text, at, 0, ())

    def _take(
        self, arrow: str, message: Any, at: float, size: int, breaches: tuple[Breach, ...]
    ) -> Entry:
        asked, since, method, at = None, None, "", round(at, 6)
        if isinstance(message, dict):
            method = str(message.get("method", ""))
            if "method" not in message:
                asked, since = self._open.pop((_BACK[arrow], repr(message.get("id"))), (None, None))
                method = "" if asked is None else str(asked["method"])
            elif "id" in message:
                self._open[arrow, repr(message["id"])] = message, at
        seconds = None if since is None else round(at - since, 6)
        entry = Entry(arrow, message, method, asked, at, size, seconds, breaches)
        with self._changed:
            self._entries.append(entry)
            self._bytes += size
            self._drop_old()
            self._changed.notify_all()
        return entry

    def _drop_old(self) -> None:
        """Keep within the limits (lock held)."""
        while len(self._entries) > 1 and (
            len(self._entries) > self._most_entries or self._bytes > self._most_bytes
        ):
            self._bytes -= self._entries.popleft().size
            self.dropped += 1
        while len(self._open) > self._most_entries:
            del self._open[next(iter(self._open))]

    @classmethod
    def load(cls, path: FilePath) -> Transcript:
        """Read what `save` wrote, or ``minimcp trace --json``.

        Args:
            path: Of the file.

        Raises:
            OSError: It cannot be read.
            ValueError: It holds something else; the message names the line.
        """
        transcript = cls()
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                try:
                    read = json.loads(line)
                    breaches = tuple(
                        Breach(str(row), str(sentence)) for row, sentence in read["breaches"]
                    )
                    direction = {"-->": "-->", "<--": "<--", "": ""}[read["direction"]]
                    transcript._take(
                        direction, read["message"], float(read["time"]), int(read["size"]), breaches
                    )
                except (ValueError, TypeError, LookupError, RecursionError):
                    raise ValueError(
                        f"{os.fspath(path)}: line {number} is none of a transcript"
                    ) from None
        return transcript

    def save(self, path: FilePath) -> None:
        """Write it as JSON Lines: an entry a line.

        Args:
            path: Of the file.

        Raises:
            OSError: It cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{entry.as_json()}\n" for entry in self)

    def save_html(self, path: FilePath) -> None:
        """Write it as one page with a diagram of the two sides, which needs no network.

        Args:
            path: Of the file.

        Raises:
            OSError: It cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(page_head())
            file.writelines(map(page_row, self))

    def breaches(self) -> list[tuple[Entry, Breach]]:
        """What breaks the specification, in order, each with the message; needs
        ``Transcript(judge=True)``."""
        return [(entry, breach) for entry in self for breach in entry.breaches]

    def __iter__(self) -> Iterator[Entry]:
        with self._changed:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget what was recorded, as after the opening of a connection."""
        with self._changed:
            self._entries.clear()
            self._bytes = 0
            self.dropped = 0

    def __str__(self) -> str:
        before = [f"  ({self.dropped} earlier messages are not kept)"] if self.dropped else []
        return "\n".join([*before, *map(str, self)])

    def __repr__(self) -> str:
        before = f", {self.dropped} dropped" if self.dropped else ""
        return f"<Transcript {len(self)} messages{before}>"

    def methods(self) -> list[str]:
        """The methods of all requests and notifications, in order."""
        return [entry.method for entry in self if entry.kind in ("request", "notification")]

    def requests(self, method: Optional[str] = None) -> list[dict[str, Json]]:
        """The requests, in order, as they were on the wire.

        Args:
            method: Of those that are wanted; None wants all.
        """
        return [
            entry.message
            for entry in self
            if entry.kind == "request" and method in (None, entry.method)
        ]

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
        asked = next(
            (entry for entry in self if entry.kind == "request" and entry.message == request), None
        )
        problem = (
            f"{request!r:.100} is no request of" if asked is None else f"{asked} has no answer in"
        )
        raise AssertionError(self._shown(problem))

    def wait_for(self, expected: str, timeout: float = 10.0) -> Entry:
        """Wait for a message that nobody's call waits for; returns the first, which may have passed
        already.

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
                lambda: next((entry for entry in self._entries if _fits(entry, expected)), None),
                timeout,
            )
        if found is None:
            raise AssertionError(self._shown(f"no {expected!r} came within {timeout:g} s:"))
        return found

    def assert_flow(self, *expected: Any) -> None:
        """Check that these messages passed one directly after another, whatever was before and
        after them.

        Args:
            expected: Each a direction and a method, or "result", "error", "error -32602", also
                followed by "of" and the method that was called: ``"--> tools/call"``, ``"<-- result
                of tools/call"``. A ``...`` stands for any number of other messages.

        Raises:
            AssertionError: They did not. It shows the whole exchange, with "=" before what is as
                expected, "-" before what is missing and "+" before what came in its place.
            ValueError: A text names no message.
        """
        __tracebackhide__ = True
        entries, at = list(self), 0
        lines = [f"  {entry}" for entry in entries]
        for is_gap, group in groupby(expected, lambda each: each is ...):
            run = [] if is_gap else list(group)
            for each in run:
                _check(each)
            start = max(
                range(at, len(entries) + 1), key=lambda start: _matching(entries[start:], run)
            )
            length = _matching(entries[start:], run)
            at = start + length
            lines[start:at] = [f"= {entry}" for entry in entries[start:at]]
            if length < len(run):
                if not length:
                    at = len(entries)
                lines[at : at + 1] = [
                    f"- {run[length]}",
                    *(f"+ {entry}" for entry in entries[at : at + 1]),
                ]
                shown = "\n".join(lines if entries else [*lines, NOTHING_PASSED])
                raise AssertionError(f"{run[length]!r} is missing:\n{shown}")

    def _shown(self, problem: str) -> str:
        return f"{problem} this exchange:\n" + (
            "\n".join(f"  {entry}" for entry in self) or NOTHING_PASSED
        )


@lru_cache(maxsize=None)
def purposes() -> Mapping[str, str]:
    """What messages are for, by method and by kind of result; of their content in braces."""
    text = (pkgutil.get_data(__package__, "purposes.txt") or b"").decode()
    return dict(line.split(": ", 1) for line in text.splitlines())


def page_head() -> str:
    """The beginning of a page of a transcript. Any number of `page_row` follow; it needs no end."""
    return (pkgutil.get_data(__package__, "transcript.html") or b"").decode()


def page_row(entry: Entry) -> str:
    """An entry in a page. No text of a peer ends the element that it stands in: there is no "<" in
    it."""
    data = entry.as_json().replace("<", r"\u003c")
    return f'<script type="application/json">{data}</script>\n'


def _shown(value: Json) -> str:
    """The value of a member, in a sentence."""
    text = "..." if isinstance(value, (dict, list)) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDTH else text[:WIDTH] + "..."


def _check(expected: Any) -> None:
    if not isinstance(expected, str) or expected[:4] not in ("--> ", "<-- "):
        raise ValueError(
            f"a message is named like '--> tools/call' or '<-- result', unlike {expected!r}"
        )


def _fits(entry: Entry, expected: str) -> bool:
    return expected[:3] == entry.direction and expected[4:] in entry.names


def _matching(entries: list[Entry], run: list[str]) -> int:
    """How many of a run's messages the entries begin with."""
    return len(list(takewhile(lambda pair: _fits(*pair), zip(entries, run))))
