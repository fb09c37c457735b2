"""`HostTasks`: questions that a server asks a client as tasks (2025-11-25).

These are requests for samples of the client's model, and forms for its user.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

from typing import Any

from ..engine.cancel import CancelToken
from ..engine.incoming import IncomingRequest, Route
from ..engine.limits import Limits
from ..engine.pool import Pool
from ..engine.timer import Deadline
from ..errors import InvalidParams, McpError
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json, Result
from .task_runner import Record, TaskRunner, log

# The methods that a server may send as a task, each with the members of the capability for it.
AUGMENTED = {
    "sampling/createMessage": ("sampling", "createMessage"),
    "elicitation/create": ("elicitation", "create"),
}

# Maximum number of seconds to notify the server of a task's state.
NOTIFY_SECONDS = 2.0


class HostTasks(TaskRunner):
    """The tasks of one client, kept while it is open. Its one server can see all of them.

    Thread-safe.

    Args:
        limits: The client's limits.
    """

    lists_for_all = True

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._sessions: dict[Peer, Any] = {}
        # The keys need no audience, because the store belongs to this client.
        self.open(limits, (), "client", Pool(limits.workers, "minimcp-client-tasks"))

    def capabilities_beside(self, declared: dict[str, Json]) -> dict[str, Json]:
        """Return the capability of tasks for a client that declares these others.

        Returns an empty dict if the client does not answer questions.
        """
        kinds: dict[str, Json] = {
            kind: {name: {}} for kind, name in AUGMENTED.values() if kind in declared
        }
        if not kinds:
            return {}
        return {"tasks": {"list": {}, "cancel": {}, "requests": kinds}}

    def takes(self, incoming: IncomingRequest) -> bool:
        """Return whether a question must run as a task.

        Raises:
            InvalidParams: ``task`` is not an object.
        """
        given = incoming.request.params.get("task")
        if (
            given is None
            or incoming.peer.revision.tasks != "core"
            or incoming.request.method not in AUGMENTED
        ):
            return False
        if not isinstance(given, dict):
            raise InvalidParams("task must be an object")
        return True

    def begin(self, session: Any, incoming: IncomingRequest, route: Route) -> Result:
        """Start a question as a task. Return the response, which names the task.

        Args:
            session: The session of the question, which sends notifications of the task's states.
            incoming: The question.
            route: The route of the handler.

        Raises:
            RpcError: The question is invalid, or there are too many tasks.
        """
        session.host.read(
            incoming.request.method, incoming.request.params, incoming.peer, CancelToken()
        )
        self._sessions[incoming.peer] = session
        result = self.create(route, incoming)
        if session.ended.cancelled:  # perhaps before `lost` could find the task
            self.peer_lost(incoming.peer)
        return result

    def peer_lost(self, peer: Peer) -> None:
        """Cancel the tasks of a server whose connection has ended. Never blocks."""
        self._sessions.pop(peer, None)
        for running in list(self._running.values()):
            if running.peer is peer:
                running.token.cancel("the connection has ended")

    def notify(self, key: str, record: Record) -> None:
        """Notify the server of a new state. It may also ask for the state at any time."""
        running = self._running.get(key)
        session: Any = None if running is None else self._sessions.get(running.peer)
        if session is None:
            return
        try:
            session.notify(
                "notifications/tasks/status", self._view(record, False), Deadline(NOTIFY_SECONDS)
            )
        except McpError as error:
            log.debug("the server was not notified of a task: %s", error)

    def __repr__(self) -> str:
        return f"<HostTasks in {self.store!r}>"
