"""One request to a feature, without a connection: the exchange is there, and what it sends is remembered."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional

from minimcp.engine.limits import Limits
from minimcp.engine.requests import IncomingRequest, Outgoing, Route
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Failure, Request
from minimcp.protocol.versions import BY_NAME
from minimcp.server.input_rounds import States
from minimcp.server.registered import ServerConfig

from ..answering import R4
from ..scripted import RecordingOutlet


def config(**options: Any) -> ServerConfig:
    """A server's configuration, with options of it and of its `Limits`."""
    limits = {name: options.pop(name) for name in ("rounds", "ask_timeout", "streams") if name in options}
    return ServerConfig(
        {"name": "unit", "version": "1", "title": "Unit"}, states=States("unit"), limits=Limits(**limits), **options
    )


def exchange(
    method: str = "tools/call",
    params: Optional[Mapping[str, Any]] = None,
    *,
    revision: str = R4,
    of: Optional[ServerConfig] = None,
    outlet: Optional[RecordingOutlet] = None,
    **peer: Any,
) -> IncomingRequest:
    """An exchange whose outlet is a `RecordingOutlet`, if no other is given."""
    request = Request(1, method, dict(params or {}))
    made = IncomingRequest(request, Peer(BY_NAME[revision], **peer), Route(lambda exchange: {}), outlet or RecordingOutlet())
    made.server = of or config()
    return made


def sent(made: IncomingRequest) -> Any:
    """What the exchange has sent."""
    outlet: Any = made.outlet
    return [json.loads(line) for line in outlet.lines]


def read(result: Any) -> Dict[str, Any]:
    """A result, object or JSON text, as an object."""
    found: Dict[str, Any] = json.loads(result) if isinstance(result, str) else result
    return found


class AnsweringOutlet(RecordingOutlet):
    """An outlet whose peer answers each question at once, by a script.

    Args:
        answer: From a request to its result, an exchange's error as ``{"error": ...}``, or None for silence.
    """

    __slots__ = ("asked", "_answer", "_calls")

    def __init__(self, answer: Callable[[Dict[str, Any]], Optional[Dict[str, Any]]]) -> None:
        super().__init__()
        self.asked: List[Dict[str, Any]] = []
        self._answer = answer
        self._calls = Outgoing("unit", post=self._post, owe=self.lines.append)

    def calls(self) -> Outgoing:
        return self._calls

    def _post(self, lines: bytes) -> None:
        requests = [json.loads(line) for line in lines.splitlines()]
        self.asked += requests
        for request in requests:
            found = self._answer(request)
            if found is not None:
                error = found.get("error")
                ending: Any = found if error is None else Failure(request["id"], error["code"], error["message"])
                self._calls.table.settle(request["id"], ending)
