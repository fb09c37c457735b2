"""A client of plain messages over memory that answers questions by a table. It has one thread, and
every wait has a limit."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Union

from minimcp import Server
from minimcp.testing import ScriptedClient

from ..answering import R5
from ..support import WAIT
from ..wire.messages import hello, modern

Reply = Union[Dict[str, Any], Callable[[Dict[str, Any]], Any]]

ALL = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}


class RawClient:
    """One connection to a server.

    Args:
        server: The server.
        revision: The revision to use; one with a handshake is initialized at once.
        replies: By method: the answer to a question, ``{"error": ...}`` for an error, or a function
            of the question.
        capabilities: The declared capabilities.
    """

    def __init__(
        self,
        server: Server,
        revision: str,
        replies: Dict[str, Reply],
        capabilities: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.revision, self.replies = revision, replies
        self.capabilities = ALL if capabilities is None else capabilities
        self.peer = ScriptedClient(server, timeout=WAIT)
        self.asked: List[Dict[str, Any]] = []
        self.notices: List[Dict[str, Any]] = []
        self.ids = 0
        if revision != R5:
            self.result("initialize", **hello(revision, **self.capabilities))
            self.peer.notify("notifications/initialized")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.peer.close()

    # ------------------------------------------------------------ messages

    def begin(self, method: str, **params: Any) -> int:
        """Send a request."""
        self.ids += 1
        if self.revision == R5:
            params = modern(params, capabilities=self.capabilities)
        self.peer.send({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params})
        return self.ids

    def reply(self, question: Dict[str, Any]) -> None:
        """Answer a request of the server."""
        self.asked.append(question)
        answer = self._answer(question)
        if answer is not None:
            ending = answer if "error" in answer else {"result": answer}
            self.peer.send({"jsonrpc": "2.0", "id": question["id"], **ending})

    def _answer(self, question: Dict[str, Any]) -> Any:
        found = self.replies[question["method"]]
        return found(question) if callable(found) else found

    def answer(self, id: int) -> Dict[str, Any]:
        """Return the response to a request, and answer the questions that arrive before it."""
        while True:
            message = self.peer.expect()
            if "method" not in message:
                if message["id"] == id:
                    return message
            elif "id" in message:
                self.reply(message)
            else:
                self.notices.append(message)

    # ------------------------------------------------------------ calls

    def once(self, method: str, **params: Any) -> Dict[str, Any]:
        """A request and its answer."""
        return self.answer(self.begin(method, **params))

    def result(self, method: str, **params: Any) -> Dict[str, Any]:
        """A request and its result, however many rounds that takes."""
        message = self.whole(method, **params)
        assert "result" in message, message
        found: Dict[str, Any] = message["result"]
        return found

    def whole(self, method: str, **params: Any) -> Dict[str, Any]:
        """A request and its last answer, however many rounds that takes."""
        message = self.once(method, **params)
        while message.get("result", {}).get("resultType") == "input_required":
            result = message["result"]
            questions = result["inputRequests"]
            self.asked += questions.values()
            answers = {key: self._answer(question) for key, question in questions.items()}
            refusal = next((answer for answer in answers.values() if "error" in answer), None)
            if refusal is not None:
                return {"refused": refusal}
            message = self.once(
                method, **params, inputResponses=answers, requestState=result["requestState"]
            )
        return message

    def call(self, name: str, **arguments: Any) -> Any:
        """The text of a tool's result; an error's code; for a result with isError a list with the
        text."""
        message = self.whole("tools/call", name=name, arguments=arguments)
        if "result" not in message:
            return message["error"]["code"] if "error" in message else "given up"
        result = message["result"]
        text = result["content"][0]["text"]
        return [text] if result.get("isError") else text
