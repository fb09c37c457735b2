"""For tests of servers: a Context without a connection, and a record of what goes over one.

A whole server is tested through ``minimcp.connect(server)``, which runs the real codec, validation and threads. A
single handler is called with a `context`. A `Transcript` shows and checks what went over the wire.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping, NamedTuple, NoReturn, Optional, Union

from .client.answering import KINDS
from .client.handlers import NAMES, Handlers
from .engine.exchange import Exchange, Outlet, Route
from .engine.workers import here
from .protocol.eras import LOG_LEVELS, Peer
from .protocol.messages import Json, Request
from .protocol.versions import NEWEST_HANDSHAKE, choose
from .server.context import Context
from .server.questions import CARRIERS, Asked, Asker, read_result
from .server.registered import ServerConfig
from .server.server import Server
from .transcript import Entry, Transcript
from .types import LogMessage, Progress

__all__ = ["Entry", "Question", "Transcript", "UnitContext", "context"]


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

    __slots__ = ("_outlet", "_outer")

    _outlet: _Record

    def __init__(self, exchange: Exchange, outlet: _Record) -> None:
        super().__init__(exchange)
        self._outlet = outlet
        self._outer: list[Any] = []

    @property
    def server(self) -> Server:
        """The one that the test gave. Raises AssertionError: it gave none."""
        found: Optional[Server] = super().server
        if found is None:
            raise AssertionError("the handler takes ctx.server, and the test has no server: context(server=...)")
        return found

    @property
    def reports(self) -> list[Progress]:
        """The progress that was reported, in order; as for a real client without those that did not increase."""
        return [Progress.from_wire(params) for params in self._told("notifications/progress")]

    @property
    def logs(self) -> list[LogMessage]:
        """The log messages that were sent, in order: each has ``level``, ``data`` and ``logger``."""
        return [LogMessage.from_wire(params) for params in self._told("notifications/message")]

    @property
    def sent(self) -> list[dict[str, Json]]:
        """Every notification as it would go over the wire, in order."""
        return list(self._outlet.sent)

    @property
    def questions(self) -> list[Question]:
        """What was asked, in order, answered or not."""
        return list(self._outlet.questions)

    def _told(self, method: str) -> list[dict[str, Json]]:
        return [message["params"] for message in self.sent if message["method"] == method]

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancel the request, as its client would; what waits for that is called at once, on this thread.

        Args:
            reason: Why; None says nothing.
        """
        self._exchange.cancel(reason)

    def __enter__(self) -> UnitContext:
        self._outer.append(getattr(here, "exchange", None))
        here.exchange = self._exchange
        return self

    def __exit__(self, *_: object) -> None:
        here.exchange = self._outer.pop()


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
        server: For ``ctx.server`` and ``ctx.read_resource``; None means no server.
        revision: That the client speaks; None takes the newest one that has sessions.
        capabilities: Of the client, as on the wire; None declares all that the revision knows.
        client_info: Of the client, as on the wire; None says nothing.
        method: Of the request.
        params: Of the request; None are none.
        request_id: Of the request.
        log_level: The lowest level that the client wants.

    Raises:
        ValueError: There is no such revision or level.

    The handler gets an AssertionError where it asks what has no answer, or when an answer does not fit.
    """
    spoken = NEWEST_HANDSHAKE if revision is None else choose([revision])[0]
    if log_level not in LOG_LEVELS:
        raise ValueError(f"log_level is one of {', '.join(LOG_LEVELS)}, not {log_level!r}")
    if capabilities is None:
        capabilities = Handlers(dict.fromkeys(NAMES, _unused), sampling=("tools", "context")).capabilities(spoken)
    outlet = _Record()
    peer = Peer(spoken, info=client_info, capabilities=dict(capabilities), log_rank=LOG_LEVELS[log_level])
    asked = dict(params or {})
    asked["_meta"] = {"progressToken": request_id, **asked.get("_meta", {})}
    exchange = Exchange(Request(request_id, method, asked), peer, Route(_unused), outlet)
    exchange.server = _config() if server is None else server._config
    if method in CARRIERS:
        exchange.asker = _ScriptedAsker(exchange, answers or {}, outlet.questions)
    return UnitContext(exchange, outlet)


def _unused(*_: Any) -> NoReturn:
    raise NotImplementedError


def _config() -> ServerConfig:
    config = ServerConfig({"name": "testing", "version": "0"})
    config.read_resource = _no_server
    return config


def _no_server(context: Context, peer: Peer, uri: str) -> NoReturn:
    raise AssertionError(f"the handler reads {uri}, and the test has no server: context(server=...)")


class _Record(Outlet):
    """Takes what a handler sends."""

    __slots__ = ("sent", "questions")

    def __init__(self) -> None:
        self.sent: list[dict[str, Json]] = []
        self.questions: list[Question] = []

    def send(self, line: bytes) -> None:
        self.sent.append(json.loads(line))

    def run_aside(self, work: Callable[[], None]) -> None:
        work()


class _ScriptedAsker(Asker):
    """Answers what is asked by what a test says."""

    def __init__(self, exchange: Exchange, answers: Answers, questions: list[Question]) -> None:
        super().__init__(exchange)
        self._script, self._questions = answers, questions

    def _answers(self, asked: list[Asked]) -> dict[str, Any]:
        return {each.key: self._answer(each) for each in asked}

    def _answer(self, asked: Asked) -> Any:
        peer, method = self._exchange.peer, asked.question.method
        kind = KINDS[method]
        parts = peer.capabilities[kind.capability]
        request, write = kind.read(asked.question.sealed(asked.params), parts, peer.revision)
        question = Question(asked.key, kind.handler, request)
        self._questions.append(question)
        answer = self._find(question)
        if isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException)):
            raise answer
        try:
            return read_result(asked, write(answer))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"the test's answer to {asked.key!r} does not fit: {error}") from error

    def _find(self, question: Question) -> Any:
        answer: Any = self._script
        if not callable(answer):
            name = next((name for name in (question.key, question.kind) if name in answer), None)
            if name is None:
                raise AssertionError(_unanswered(question))
            answer = answer[name]
        is_function = callable(answer) and not isinstance(answer, type)
        return answer(question) if is_function else answer


def _unanswered(question: Question) -> str:
    key, kind = question.key, question.kind
    said = getattr(question.request, "message", None)
    what = f" ({said!r:.100})" if said else ""
    how = f"context(answers={{{key!r}: ...}}) or {{{kind!r}: ...}}"
    return f"the handler asks {key!r}{what}, and the test has no answer: {how}"
