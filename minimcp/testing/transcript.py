"""`Transcript`: the messages of a connection, as a log, as JSON Lines, or as a page with a
diagram."""

from __future__ import annotations

import html
import json
import os
import pkgutil
import re
import threading
import time
from collections import deque
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ..protocol.messages import Json, decode, to_json
from ..text import json_printable
from .breaches import Breach, Judge

MAX_SHOWN_LENGTH = 100
"""How many characters of a message's content are shown."""

NO_MESSAGES = "  (no messages: was this transcript passed to connect, or the Server, as trace=?)"

# Default limits of a transcript: entries, and bytes of their lines.
MAX_ENTRIES = 50_000
MAX_BYTES = 32 * 1024 * 1024

# For longer lines, only the names of the members are shown.
MAX_SHOWN_BYTES = 64 * 1024

# Beginning of a page with several recordings. Their frames share its Content Security Policy.
_SIDE_BY_SIDE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';
               img-src data:">
<title>Conversations side by side</title>
<style>
  body { color-scheme: light dark; display: flex; gap: 8px; margin: 0; height: 100vh;
         font: 15px system-ui, sans-serif; }
  section { flex: 1; display: flex; flex-direction: column; min-width: 0; }
  h1 { margin: 8px 12px; font-size: 18px; overflow-wrap: anywhere; }
  iframe { flex: 1; width: 100%; border: 0; border-top: 1px solid #8888; }
  @media (max-width: 639px) { body { display: block; } section { height: 90vh; } }
</style>
"""

_BACK = {"-->": "<--", "<--": "-->"}

FilePath = Union[str, "os.PathLike[str]"]


class Entry(NamedTuple):
    """One message of a `Transcript`."""

    direction: str
    """"-->" for sent, "<--" for received, as seen by the side that has the transcript."""

    message: Any
    """The decoded JSON; the text of a line that is not a JSON object."""

    method: str
    """The method of a request or a notification; for a response that of its request; "" if
    unknown."""

    request: Any = None
    """The request of a response, in wire form; None if unknown."""

    time: float = 0.0
    """When it passed, in seconds since 1970."""

    size: int = 0
    """The bytes of its line; messages of a batch share one line."""

    seconds: Optional[float] = None
    """The time from the request to this response; None if the request is unknown."""

    breaches: tuple[Breach, ...] = ()
    """Violations of the specification, if the transcript looks for them."""

    @property
    def kind(self) -> str:
        """ "request", "notification", "result", "error", "noise" (not a message) or "note" (not a
        line)."""
        if not isinstance(self.message, dict):
            return "noise" if self.direction else "note"
        if "method" in self.message:
            return "request" if "id" in self.message else "notification"
        return "error" if "error" in self.message else "result"

    @property
    def names(self) -> tuple[str, ...]:
        """The names for `Transcript.assert_flow`, most exact first."""
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
        """A short description of the message's purpose; "" if unknown."""
        words = self.method
        content = self._member
        if self.kind == "result":
            words = f"result {content.get('resultType')}"
            if content.get("isError") is True:
                words = "result failed"
        elif self.kind == "error":
            words = ""
        text = purposes().get(words, "")
        return re.sub(r"\{(\w+)\}", lambda member: _shown(content.get(member[1])), text)

    @property
    def _member(self) -> Mapping[str, Json]:
        """The params, the result or the error; empty if it is not an object."""
        message: dict[str, Any] = self.message if isinstance(self.message, dict) else {}
        content: Any = next(
            (message[name] for name in ("params", "result", "error") if name in message), {}
        )
        return content if isinstance(content, dict) else {}

    @property
    def content(self) -> str:
        """The params, the result or the error as JSON, shortened; "" if it is empty."""
        content = {name: value for name, value in self._member.items() if name != "_meta"}
        if self.size > MAX_SHOWN_BYTES:
            content = dict.fromkeys(content, "...")
        shown: Any = content if isinstance(self.message, dict) else self.message[:MAX_SHOWN_BYTES]
        text = json.dumps(shown, ensure_ascii=False) if shown else ""
        return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."

    def as_json(self) -> str:
        """Return the entry as a line of JSON, which `Transcript.load` reads.

        Control characters for terminals are escaped, because ``minimcp trace --json`` writes to
        one.
        """
        fields = {
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
            text = to_json({**fields, "message": self.message})
        except ValueError:  # such as NaN, which is not JSON but may have been sent
            text = to_json({**fields, "message": json.dumps(self.message)})
        return json_printable(text)

    def __str__(self) -> str:
        id = ""
        if isinstance(self.message, dict) and "id" in self.message:
            id = f" #{self.message['id']}"
        return f"{self.direction} {self.names[0]}{id}  {self.content}".rstrip()


class Transcript:
    """Records messages in order: ``connect(server, trace=transcript)`` or
    ``Server(trace=transcript)``.

    Iteration yields `Entry` objects, one for each message. ``str()`` is a log with one line for
    each message. Methods that search raise an AssertionError that shows the log. Thread-safe.

    Args:
        judge: Whether to look for violations of the specification. `Entry.breaches` lists them. Use
            this option for one connection only, because the ids of several connections (as of an
            HTTP server) would be confused.
        entries: Maximum number of entries. The oldest ones are dropped.
        size: Maximum bytes of the lines of all entries. The oldest ones are dropped, but the newest
            one is always kept.

    Attributes:
        dropped: The number of entries dropped because of these limits.
    """

    def __init__(
        self, *, judge: bool = False, entries: int = MAX_ENTRIES, size: int = MAX_BYTES
    ) -> None:
        self._changed = threading.Condition()
        self._entries: deque[Entry] = deque()
        self._max_entries = entries
        self._max_bytes = size
        self._bytes = 0
        self.dropped = 0
        # Requests without a response, by direction and the ``repr`` of the id (1 is not "1"), and
        # their times.
        self._open: dict[tuple[str, str], tuple[dict[str, Json], float]] = {}
        self._judge = Judge() if judge else None

    def __call__(self, arrow: str, text: str) -> None:
        """Record one line; ``trace=`` calls this.

        Args:
            arrow: "-->" or "<--".
            text: The line.
        """
        self.record(arrow, text.encode("utf-8", "surrogatepass"), time.time())

    def record(self, arrow: str, line: bytes, at: float) -> list[Entry]:
        """Record one line and return its messages.

        Args:
            arrow: "-->" or "<--".
            line: The line without its newline.
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
            judged: list[tuple[Breach, ...]] = []
            if self._judge is not None:
                judged = self._judge.judge(arrow, decode(line, max_depth=None, exact=True))
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
            lost: Whether messages were not recorded. If so, messages that depend on them are no
                longer judged.
        """
        if lost and self._judge is not None:
            self._judge.miss()
        with self._changed:
            return self._take("", text, at, 0, ())

    def _take(
        self, arrow: str, message: Any, at: float, size: int, breaches: tuple[Breach, ...]
    ) -> Entry:
        asked = None
        since = None
        method = ""
        at = round(at, 6)
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
        """Enforce the limits. The caller holds the lock."""
        while len(self._entries) > 1 and (
            len(self._entries) > self._max_entries or self._bytes > self._max_bytes
        ):
            self._bytes -= self._entries.popleft().size
            self.dropped += 1
        while len(self._open) > self._max_entries:
            del self._open[next(iter(self._open))]

    @classmethod
    def load(cls, path: FilePath) -> Transcript:
        """Read a file that `save` or ``minimcp trace --json`` wrote.

        Args:
            path: The path of the file.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is not a transcript; the message names the line.
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
                        f"{os.fspath(path)}: line {number} is not a line of a transcript"
                    ) from None
        return transcript

    def save(self, path: FilePath) -> None:
        """Write the transcript as JSON Lines, one entry per line.

        Args:
            path: The path of the file.

        Raises:
            OSError: The file cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{entry.as_json()}\n" for entry in self)

    def save_html(self, path: FilePath) -> None:
        """Write the transcript as one page with a diagram of both sides. The page does not load
        anything.

        Args:
            path: The path of the file.

        Raises:
            OSError: The file cannot be written.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(page_head())
            file.writelines(map(page_row, self))

    def breaches(self) -> list[tuple[Entry, Breach]]:
        """Return the violations of the specification in order, each with its message. Needs
        ``Transcript(judge=True)``."""
        return [(entry, breach) for entry in self for breach in entry.breaches]

    def __iter__(self) -> Iterator[Entry]:
        with self._changed:
            return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Remove all entries, for example those of the handshake."""
        with self._changed:
            self._entries.clear()
            self._bytes = 0
            self.dropped = 0

    def __str__(self) -> str:
        before = [f"  ({self.dropped} earlier messages were dropped)"] if self.dropped else []
        return "\n".join([*before, *map(str, self)])

    def __repr__(self) -> str:
        before = f", {self.dropped} dropped" if self.dropped else ""
        return f"<Transcript {len(self)} messages{before}>"

    def methods(self) -> list[str]:
        """Return the methods of all requests and notifications, in order."""
        return [entry.method for entry in self if entry.kind in ("request", "notification")]

    def requests(self, method: Optional[str] = None) -> list[dict[str, Json]]:
        """Return the requests in wire form, in order.

        Args:
            method: Return only requests with this method; None means all.
        """
        return [
            entry.message
            for entry in self
            if entry.kind == "request" and method in (None, entry.method)
        ]

    def answer_to(self, request: Mapping[str, Json]) -> dict[str, Json]:
        """Return the response to a request in wire form, with ``result`` or ``error``.

        Args:
            request: A request from `requests`.

        Raises:
            AssertionError: The request was not sent, or has no response yet.
        """
        __tracebackhide__ = True
        for entry in self:
            if entry.request == request:
                answer: dict[str, Json] = entry.message
                return answer
        asked = next(
            (entry for entry in self if entry.kind == "request" and entry.message == request), None
        )
        problem = f"{asked} has no response in"
        if asked is None:
            problem = f"{request!r:.100} is not a request of"
        raise AssertionError(self._shown(problem))

    def wait_for(self, expected: str, timeout: float = 10.0) -> Entry:
        """Block until a message has passed, and return the first one, which may have passed before.

        Args:
            expected: The message, as for `assert_flow`.
            timeout: Seconds to wait.

        Raises:
            AssertionError: The message did not pass in time.
        """
        __tracebackhide__ = True
        _check(expected)
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((entry for entry in self._entries if _fits(entry, expected)), None),
                timeout,
            )
        if found is None:
            raise AssertionError(self._shown(f"no {expected!r} within {timeout:g} s:"))
        return found

    def assert_flow(self, *expected: Any) -> None:
        """Check that these messages passed directly after one another. Others may come before and
        after.

        Args:
            expected: Messages, each a direction and a method, "result", "error" or "error -32602".
                The last three may be followed by "of" and the called method: ``"--> tools/call"``,
                ``"<-- result of tools/call"``. A ``...`` stands for any number of other messages.

        Raises:
            AssertionError: They did not pass. The message shows the whole exchange, with "=" before
                expected messages, "-" before a missing one and "+" before the one found instead.
            ValueError: A string is not the name of a message.
        """
        __tracebackhide__ = True
        entries = list(self)
        at = 0
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
                shown = "\n".join(lines if entries else [*lines, NO_MESSAGES])
                raise AssertionError(f"{run[length]!r} is missing:\n{shown}")

    def _shown(self, problem: str) -> str:
        return f"{problem} this exchange:\n" + (
            "\n".join(f"  {entry}" for entry in self) or NO_MESSAGES
        )


@lru_cache(maxsize=None)
def purposes() -> Mapping[str, str]:
    """Return descriptions of messages by method and kind of result, with names of members in
    braces."""
    text = (pkgutil.get_data(__package__, "purposes.txt") or b"").decode()
    return dict(line.split(": ", 1) for line in text.splitlines())


def page_head() -> str:
    """Return the beginning of a page. Any number of `page_row` follow; the page needs no end."""
    return (pkgutil.get_data(__package__, "transcript.html") or b"").decode()


def page_row(entry: Entry) -> str:
    """Return an entry for a page. It does not contain "<", so a peer's text cannot end its
    element."""
    data = entry.as_json().replace("<", r"\u003c")
    return f'<script type="application/json">{data}</script>\n'


def save_side_by_side(path: FilePath, recordings: Sequence[tuple[str, Iterable[Entry]]]) -> None:
    """Write a page that shows recordings beside each other, each in a frame of its own.

    Args:
        path: The path of the file.
        recordings: The title and the entries of each.

    Raises:
        OSError: The file cannot be written.
    """
    parts = []
    for title, entries in recordings:
        page = page_head() + "".join(map(page_row, entries))
        parts.append(
            f"<section><h1>{html.escape(title)}</h1>"
            f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}"></iframe></section>\n'
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write(_SIDE_BY_SIDE)
        file.writelines(parts)


def _shown(value: Json) -> str:
    """Return the value of a member for a sentence."""
    text = "..." if isinstance(value, (dict, list)) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_LENGTH else text[:MAX_SHOWN_LENGTH] + "..."


def _check(expected: Any) -> None:
    if not isinstance(expected, str) or expected[:4] not in ("--> ", "<-- "):
        raise ValueError(
            f"a message must be written like '--> tools/call' or '<-- result', not {expected!r}"
        )


def _fits(entry: Entry, expected: str) -> bool:
    return expected[:3] == entry.direction and expected[4:] in entry.names


def _matching(entries: list[Entry], run: list[str]) -> int:
    """Return the number of messages of a run with which the entries begin."""
    return len(list(takewhile(lambda pair: _fits(*pair), zip(entries, run))))
