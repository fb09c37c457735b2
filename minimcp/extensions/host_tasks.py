"""`HostTasks`: what a server asks a client as a task (2025-11-25): samples of its model, and
questions to its user.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

from typing import Any, Optional

from ..engine.cancel import CancelToken
from ..engine.incoming import IncomingRequest, Route
from ..engine.limits import Limits
from ..engine.pool import Pool, renewed_in_fork
from ..engine.timer import Deadline
from ..errors import InvalidParams, McpError
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json, Result
from .tasks import Record, Tasks, log

# What a server may ask as a task: method to the capability that says so.
AUGMENTED = {
    "sampling/createMessage": ("sampling", "createMessage"),
    "elicitation/create": ("elicitation", "create"),
}

# Seconds that telling the server of a task's state takes at most.
NOTIFY_SECONDS = 2.0


class HostTasks(Tasks):
    """The tasks of one client, kept while it is open. Its one server sees them all. Thread-safe.

    Args:
        limits: Of the client.
    """

    lists_for_all = True

    # Of keys in the store, which this client has for itself.
    _audience = ()
    _name = "client"

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self.pool = Pool(limits.workers, "minimcp-client-tasks")
        self._sessions: dict[Peer, Any] = {}
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def capabilities_beside(self, declared: dict[str, Json]) -> dict[str, Json]:
        """Return the capability of tasks beside these; empty if nothing can be asked."""
        kinds: dict[str, Json] = {
            kind: {name: {}} for kind, name in AUGMENTED.values() if kind in declared
        }
        return {"tasks": {"list": {}, "cancel": {}, "requests": kinds}} if kinds else {}

    def takes(self, incoming: IncomingRequest) -> bool:
        """Whether a question is to be a task. Raises InvalidParams: ``task`` is no object."""
        given = incoming.request.params.get("task")
        if (
            given is None
            or incoming.peer.revision.tasks != "core"
            or incoming.request.method not in AUGMENTED
        ):
            return False
        if not isinstance(given, dict):
            raise InvalidParams("task is an object")
        return True

    def begin(self, session: Any, incoming: IncomingRequest, route: Route) -> Result:
        """Have a question answered as a task; the result that says so.

        Args:
            session: That it came by, which hears of the task's states.
            incoming: The question.
            route: Answers it.

        Raises:
            RpcError: It makes no sense, or there are too many tasks.
        """
        session.host.read(
            incoming.request.method, incoming.request.params, incoming.peer, CancelToken()
        )
        self._sessions[incoming.peer] = session
        result = self.create(route, incoming)
        if session.ended.cancelled:  # maybe before `lost` could find it
            self.lost(incoming.peer)
        return result

    def lost(self, peer: Peer) -> None:
        """The connection to this server has ended, and its questions with it. Never blocks."""
        self._sessions.pop(peer, None)
        for running in list(self._running.values()):
            if running.peer is peer:
                running.token.cancel("the connection has ended")

    def _tell(self, key: str, record: Record) -> None:
        """Tell the server of a new state; it may ask for that all the same."""
        running = self._running.get(key)
        session: Optional[Any] = None if running is None else self._sessions.get(running.peer)
        if session is not None:
            try:
                session.notify(
                    "notifications/tasks/status",
                    self._view(record, False),
                    Deadline(NOTIFY_SECONDS),
                )
            except McpError as error:
                log.debug("the server is not told of a task: %s", error)

    def __repr__(self) -> str:
        return f"<HostTasks in {self.store!r}>"
