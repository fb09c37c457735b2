"""A server of a few lines for the tests of the client's parts. It follows a test's script."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Optional

from .inside import session_of
from .scripted import ScriptedPipe, dumps, request
from .support import WAIT, MovedTime, eventually

R1, R2, R3, R4, R5 = REVISIONS = (
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
)

Answer = Callable[[Dict[str, Any]], Any]


def error(code: int, text: str = "no", data: Any = None) -> Answer:
    return lambda message: {
        "error": {"code": code, "message": text, **({} if data is None else {"data": data})}
    }


def result(**members: Any) -> Answer:
    return lambda message: {"result": members}


def silence(message: Dict[str, Any]) -> None:
    """Answers nothing."""


def initialized(revision: str = R4, **capabilities: Any) -> Answer:
    info = {"name": "scripted", "version": "0"}
    return result(
        protocolVersion=revision,
        serverInfo=info,
        capabilities=capabilities or {"tools": {}, "logging": {}},
    )


def discovered(*revisions: str, **more: Any) -> Answer:
    return result(
        supportedVersions=list(revisions or [R5]), capabilities={"tools": {}, "logging": {}}, **more
    )


class AnsweringPipe(ScriptedPipe):
    """The client's end of a connection to a script.

    Args:
        answers: By method. A list gives one answer after the other, the last one for ever.
    """

    __slots__ = ("answers", "messages")

    def __init__(self, answers: Dict[str, Any]) -> None:
        super().__init__()
        self.answers = answers
        self.messages: List[Dict[str, Any]] = []

    def send(self, data: bytes, seconds: float) -> int:
        taken = super().send(data, seconds)
        for line in bytes(data[:taken]).splitlines():
            self.hear(json.loads(line))
        return taken

    def hear(self, message: Dict[str, Any]) -> None:
        self.messages.append(message)
        if "id" not in message or "method" not in message:
            return
        answer = self.answers.get(message["method"], error(-32601, "Method not found"))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        found = answer(message)
        if found is not None:
            self.give(dumps({"jsonrpc": "2.0", "id": message["id"], **found}))

    def methods(self) -> List[str]:
        return [message["method"] for message in self.messages if "method" in message]

    def ask(self, method: str, *, id: Any = "s1", **params: Any) -> None:
        self.give(request(id, method, **params))

    def heard(self, count: int) -> Dict[Any, Any]:
        """Wait for this many answers of the client, and return them by id: results, or errors as
        code and message."""
        assert eventually(lambda: len(self._answers()) >= count), self.messages
        return self._answers()

    def _answers(self) -> Dict[Any, Any]:
        found = {}
        for message in list(self.messages):
            if "method" not in message:
                wrong = message.get("error")
                found[message["id"]] = (
                    message["result"] if wrong is None else (wrong["code"], wrong["message"])
                )
        return found


class Answering:
    """A target for `connect`: a server that follows a script.

    Args:
        answers: By method, as for `AnsweringPipe`. `initialize` and `server/discover` have default
            answers.
        modern: Whether it answers `server/discover` if the script does not say.
    """

    def __init__(self, answers: Optional[Dict[str, Any]] = None, *, modern: bool = False) -> None:
        begin: Dict[str, Any] = {"initialize": initialized()}
        if modern:
            begin["server/discover"] = discovered()
        self.answers = {**begin, **(answers or {})}
        self.pipe: Any = None

    def open_pipe(self) -> AnsweringPipe:
        self.pipe = AnsweringPipe(self.answers)
        return self.pipe  # type: ignore[no-any-return]


def later(client: Any, moved: MovedTime) -> None:
    """Move the clock beyond the deadline of every call of this client, and check the deadlines."""
    moved.ahead += 2 * WAIT
    for call in session_of(client).calls.pending():
        call.queue.put(None)
