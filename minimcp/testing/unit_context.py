"""`context`: a Context without a connection, for unit tests of handlers."""

from __future__ import annotations

import json
from contextvars import Context as ContextVars, copy_context
from typing import Any, Callable, Mapping, NamedTuple, NoReturn, Optional, Union

from ..client.host import NAMES, QUESTIONS, Host
from ..client.questions import read_question
from ..engine.incoming import IncomingRequest, Route, Sink
from ..engine.pool import this_thread
from ..engine.running import RUNNING
from ..features.questions import QuestionChannel, SentQuestion, read_result
from ..protocol.lifecycle import LOG_LEVELS, Peer
from ..protocol.messages import Json, Request
from ..protocol.versions import NEWEST_HANDSHAKE, choose
from ..server.context import Context
from ..server.server import Server
from ..types import LogMessage, Progress


class Question(NamedTuple):
    """A question that a handler asked."""

    key: str
    """The key in the handler, or "elicit-1", "url-2", "sample-3", "roots-4", numbered in order."""

    kind: str
    """"elicit", "sample" or "list_roots"."""

    request: Any
    """The argument for a client's function: an `ElicitRequest` or a `SampleRequest`; None for
    list_roots."""


Answers = Union[Mapping[str, Any], Callable[[Question], Any]]


class UnitContext(Context):
    """The Context that `context` returns. It records what the handler does.

    In a ``with`` block, `current_context` returns it on the thread that entered the block.
    """

    sent: list[dict[str, Json]]
    """All notifications in wire form, in order."""

    questions: list[Question]
    """All questions in order, answered or not."""

    _outer: list[Any]

    @property
    def reports(self) -> list[Progress]:
        """The reported progress in order. Like a real client, it omits progress that did not
        increase."""
        return [
            Progress.from_wire(each["params"])
            for each in self.sent
            if each["method"] == "notifications/progress"
        ]

    @property
    def logs(self) -> list[LogMessage]:
        """The log messages in order; each has ``level``, ``data`` and ``logger``."""
        return [
            LogMessage.from_wire(each["params"])
            for each in self.sent
            if each["method"] == "notifications/message"
        ]

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancel the request as a client would. Functions of ``ctx.on_cancel`` are called on this
        thread.

        Args:
            reason: The reason, or None.
        """
        self._incoming.token.cancel(reason)

    def __enter__(self) -> UnitContext:
        self._outer.append(this_thread.request)
        this_thread.request = self._incoming
        return self

    def __exit__(self, *_: object) -> None:
        this_thread.request = self._outer.pop()


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
    """Return a Context for a unit test. Pass it to a handler that you call like any other function.

    No thread is started. Questions are answered at once in every revision, so the handler runs only
    once. Questions and answers are validated as usual. To test a handler that runs again after each
    question, as in stateless revisions, use ``connect`` with a ``Server(check_replay=True)``.

    Args:
        answers: The client's answers, by the key of the question or by its kind ("elicit",
            "sample", "list_roots"); keys take precedence. An answer is what a client's function
            returns: a dict, a dataclass, None (declined) or an `Answer` for elicit, a str or a
            `SampleResult` for sample, paths or `Root` objects for list_roots. If an answer is an
            exception, the question raises it. If an answer is a function, it is called with the
            `Question`. One function can replace the mapping and answer all questions. By default,
            no question has an answer.
        server: The server for ``ctx.server`` and ``ctx.read_resource``; if None, an empty one is
            created.
        revision: The revision; None means the newest one with a handshake.
        capabilities: The client's capabilities in wire form; None means all capabilities of the
            revision.
        client_info: The client's description in wire form, or None.
        method: The method of the request.
        params: The params of the request; None means no params.
        request_id: The id of the request.
        log_level: The lowest level of log messages that the client requests.
        auth: The claims for ``ctx.auth``: ``{"sub": "ada", "scope": "read"}``; None means no token.

    Raises:
        ValueError: The revision or the level does not exist.

    If the handler asks a question without an answer, or an answer is invalid, it gets an
    AssertionError.
    """
    spoken = NEWEST_HANDSHAKE if revision is None else choose([revision])[0]
    if log_level not in LOG_LEVELS:
        raise ValueError(f"log_level must be one of {', '.join(LOG_LEVELS)}, not {log_level!r}")
    if capabilities is None:
        capabilities = Host(
            None, dict.fromkeys(NAMES, _unused), sampling=("tools", "context")
        ).capabilities(spoken)
    sink = _Record()
    peer = Peer(
        spoken, info=client_info, capabilities=dict(capabilities), log_rank=LOG_LEVELS[log_level]
    )
    asked = dict(params or {})
    asked["_meta"] = {"progressToken": request_id, **asked.get("_meta", {})}
    incoming = IncomingRequest(Request(request_id, method, asked), peer, Route(_unused), sink)
    incoming.server = (Server("testing") if server is None else server)._config
    incoming.state = RUNNING
    if method in spoken.asking_methods:
        incoming.asker = _ScriptedChannel(incoming, answers or {}, sink.questions)
    if auth is not None:
        from ..auth.bearer import AccessToken
        from ..http.headers import Headers

        incoming.headers = headers = Headers()
        headers.auth = AccessToken.of(auth)
        headers.principal = headers.auth.principal
        peer.principal = headers.principal
    made = UnitContext(incoming)
    made.sent = sink.sent
    made.questions = sink.questions
    made._outer = []
    return made


def _unused(*_: Any) -> NoReturn:
    raise NotImplementedError


class _Record(Sink):
    """Records what a handler sends, in place of a connection."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Json]] = []
        self.questions: list[Question] = []

    @property
    def context(self) -> ContextVars:  # type: ignore[override]
        """The context of the test, which calls the handler on its own thread."""
        return copy_context()

    def send(self, line: bytes) -> None:
        self.sent.append(json.loads(line))

    def spawn(self, job: Callable[[], object]) -> None:
        job()


class _ScriptedChannel(QuestionChannel):
    """Answers questions with the answers of the test."""

    def __init__(
        self, incoming: IncomingRequest, answers: Answers, questions: list[Question]
    ) -> None:
        super().__init__(incoming)
        self._script = answers
        self._questions = questions

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        return {each.key: self._answer(each) for each in asked}

    def _answer(self, asked: SentQuestion) -> Any:
        peer = self._incoming.peer
        method = asked.question.method
        kind = QUESTIONS[method]
        parts = peer.capabilities[kind.capability]
        request, write = read_question(method, asked.params, parts, peer.revision)
        question = Question(asked.key, kind.handler, request)
        self._questions.append(question)
        answer: Any = self._script
        if not callable(answer):
            answer = answer.get(question.key, answer.get(question.kind, _unanswered))
        if callable(answer) and not isinstance(answer, type):
            answer = answer(question)
        if isinstance(answer, BaseException) or (
            isinstance(answer, type) and issubclass(answer, BaseException)
        ):
            raise answer
        try:
            return read_result(asked, write(answer))
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"the test's answer to {asked.key!r} is invalid: {error}"
            ) from error


def _unanswered(question: Question) -> NoReturn:
    message = getattr(question.request, "message", None)
    shown = f" ({message!r:.100})" if message else ""
    raise AssertionError(
        f"the handler asks {question.key!r}{shown}, but the test has no answer: write "
        f"context(answers={{{question.key!r}: ...}}) or {{{question.kind!r}: ...}}"
    )
