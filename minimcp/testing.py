"""For tests of servers: a Context without a connection, and a record of what goes over one.

A whole server is tested through ``minimcp.connect(server)``, which runs the real codec, validation and threads. A
single handler is called with a `context`. A `Transcript` shows and checks what went over the wire.
"""

from __future__ import annotations

import json
import threading
from itertools import groupby, takewhile
from typing import Any, Callable, Iterator, Mapping, NamedTuple, NoReturn, Optional, Union

from .client.host import NAMES, QUESTIONS, Host
from .engine.pool import here
from .engine.requests import IncomingRequest, Route, Sink
from .protocol.lifecycle import LOG_LEVELS, Peer
from .protocol.messages import Json, Request
from .protocol.versions import NEWEST_HANDSHAKE, choose
from .server.context import Context
from .server.questions import Asked, Asker, read_result
from .server.server import Server
from .types import LogMessage, Progress

__all__ = ["Entry", "Question", "Transcript", "UnitContext", "context"]


# ------------------------------------------------------------ a Context without a connection


class Question(NamedTuple):
    """What a handler asked."""

    key: str
    """As the handler named it; else "elicit-1", "url-2", "sample-3", "roots-4": numbered in the order of asking."""

    kind: str
    """"elicit", "sample" or "list_roots"."""

    request: Any
    """What a client's handler would get: an `ElicitRequest` or a `SampleRequest`; None for list_roots."""


Answers = Union[Mapping[str, Any], Callable[[Question], Any]]


class UnitContext(Context):
    """The Context that `context` makes; what the handler did with it is kept here.

    In a ``with`` block `current_context` finds it, on the thread that entered the block.
    """

    sent: list[dict[str, Json]]
    """Every notification as it would go over the wire, in order."""

    questions: list[Question]
    """What was asked, in order, answered or not."""

    _outer: list[Any]

    @property
    def reports(self) -> list[Progress]:
        """The progress that was reported, in order; as for a real client without those that did not increase."""
        return [Progress.from_wire(each["params"]) for each in self.sent if each["method"] == "notifications/progress"]

    @property
    def logs(self) -> list[LogMessage]:
        """The log messages that were sent, in order: each has ``level``, ``data`` and ``logger``."""
        return [LogMessage.from_wire(each["params"]) for each in self.sent if each["method"] == "notifications/message"]

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancel the request, as its client would; functions of ``ctx.on_cancel`` are called at once, on this thread.

        Args:
            reason: Why; None says nothing.
        """
        self._incoming.cancel(reason)

    def __enter__(self) -> UnitContext:
        self._outer.append(getattr(here, "request", None))
        here.request = self._incoming
        return self

    def __exit__(self, *_: object) -> None:
        here.request = self._outer.pop()


def context(
    answers: Optional[Answers] = None,
    *,
    server: Optional[Server] = None,
    revision: Optional[str] = None,
    capabilities: Optional[Mapping[str, Json]] = None,
    client_info: Optional[Mapping[str, Json]] = None,
    method: str = "tools/call",
    params: Optional[Mapping[str, Json]] = None,
    request_id: Union[int, str] = 1,
    log_level: str = "debug",
    auth: Optional[Mapping[str, Json]] = None,
) -> UnitContext:
    """A Context for a unit test: hand it to a handler that you call like any other function. It starts no thread.

    Questions are answered at once, in every revision, so the handler runs once from its top to its end. They are
    checked as real ones are, and so are the answers. Whether a handler bears being run again after each question, as
    revisions without a handshake do it, is shown by ``connect`` to a ``Server(check_replay=True)``.

    Args:
        answers: What the client answers, by the question's key or by its kind ("elicit", "sample", "list_roots"); the
            key comes first. Each is what a client's handler returns: a dict, a dataclass, None (declined) or an
            `Answer` for elicit, a str or a `SampleResult` for sample, paths or `Root` objects for list_roots. An
            exception is raised, a function is called with the `Question`. A function in place of the mapping answers
            everything. None answers nothing.
        server: For ``ctx.server`` and ``ctx.read_resource``; None makes one that has nothing.
        revision: That the client speaks; None takes the newest one that has sessions.
        capabilities: Of the client, as on the wire; None declares all that the revision knows.
        client_info: Of the client, as on the wire; None says nothing.
        method: Of the request.
        params: Of the request; None are none.
        request_id: Of the request.
        log_level: The lowest level that the client wants.
        auth: For ``ctx.auth``, what a verifier says of the token: ``{"sub": "ada", "scope": "read"}``; None is none.

    Raises:
        ValueError: There is no such revision or level.

    The handler gets an AssertionError where it asks what has no answer, or when an answer does not fit.
    """
    spoken = NEWEST_HANDSHAKE if revision is None else choose([revision])[0]
    if log_level not in LOG_LEVELS:
        raise ValueError(f"log_level is one of {', '.join(LOG_LEVELS)}, not {log_level!r}")
    if capabilities is None:
        capabilities = Host(None, dict.fromkeys(NAMES, _unused), sampling=("tools", "context")).capabilities(spoken)
    sink = _Record()
    peer = Peer(spoken, info=client_info, capabilities=dict(capabilities), log_rank=LOG_LEVELS[log_level])
    asked = dict(params or {})
    asked["_meta"] = {"progressToken": request_id, **asked.get("_meta", {})}
    incoming = IncomingRequest(Request(request_id, method, asked), peer, Route(_unused), sink)
    incoming.server = (Server("testing") if server is None else server)._config
    if method in spoken.asking_methods:
        incoming.asker = _ScriptedAsker(incoming, answers or {}, sink.questions)
    if auth is not None:
        from .auth.bearer import AccessToken
        from .http.headers import Headers

        incoming.headers = headers = Headers()
        headers.auth = AccessToken.of(auth)
        peer.principal = headers.principal = headers.auth.principal
    made = UnitContext(incoming)
    made.sent, made.questions, made._outer = sink.sent, sink.questions, []
    return made


def _unused(*_: Any) -> NoReturn:
    raise NotImplementedError


class _Record(Sink):
    """Keeps what a handler sends, in place of a connection."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Json]] = []
        self.questions: list[Question] = []

    def send(self, line: bytes) -> None:
        self.sent.append(json.loads(line))

    def spawn(self, job: Callable[[], object]) -> None:
        job()


class _ScriptedAsker(Asker):
    """Answers questions with what the test gave."""

    def __init__(self, incoming: IncomingRequest, answers: Answers, questions: list[Question]) -> None:
        super().__init__(incoming)
        self._script, self._questions = answers, questions

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        return {each.key: self._answer(each) for each in asked}

    def _answer(self, asked: Asked) -> Any:
        peer, kind = self._incoming.peer, QUESTIONS[asked.question.method]
        parts = peer.capabilities[kind.capability]
        request, write = kind.read(asked.params, parts, peer.revision)
        question = Question(asked.key, kind.handler, request)
        self._questions.append(question)
        answer: Any = self._script
        if not callable(answer):
            answer = answer.get(question.key, answer.get(question.kind, _unanswered))
        if callable(answer) and not isinstance(answer, type):
            answer = answer(question)
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        try:
            return read_result(asked, write(answer))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"the test's answer to {asked.key!r} does not fit: {error}") from error


def _unanswered(question: Question) -> NoReturn:
    message = getattr(question.request, "message", None)
    shown = f" ({message!r:.100})" if message else ""
    how = f"context(answers={{{question.key!r}: ...}}) or {{{question.kind!r}: ...}}"
    raise AssertionError(f"the handler asks {question.key!r}{shown}, and the test has no answer: {how}")


# ------------------------------------------------------------ what goes over the wire

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
