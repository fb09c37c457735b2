"""`Tasks`: tool calls that continue after their request was answered, in both designs of the
protocol.

With a handshake (2025-11-25), a client asks for a task with ``params.task``. It receives the
handler's questions while it waits in `tasks/result`, and then the result. In stateless revisions,
the server decides, for clients that declare the extension. The result of `tasks/get` contains the
questions or the task's result, and `tasks/update` sends answers.

`TaskRunner` runs tasks. `Tasks` decides which calls become tasks in a server, and notifies clients.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/seps/2663-tasks-extension
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ..engine.incoming import IncomingRequest, Route
from ..engine.limits import Limits
from ..engine.pool import Pool
from ..errors import InvalidParams, MethodNotFound
from ..features.subscriptions import Subscriber
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..server.feature import Destination, HandOver, OptionSpec, RegisteredEntry
from .extension import Extension
from .task_runner import IDENTIFIER, Record, TaskRequest, TaskRunner

if TYPE_CHECKING:
    from .host_tasks import HostTasks


class BecomeTask(HandOver):
    """Unwinds a handler that runs again from the top as a task.

    Do not catch it: ``except Exception`` lets it pass.
    """


def become_task(incoming: IncomingRequest) -> None:
    """Unwind a handler if its call can become a task (`Context.become_task`)."""
    for feature in incoming.server.features:
        if isinstance(feature, Tasks) and feature.may_become(incoming):
            raise BecomeTask


def _check_task(label: str, value: Any) -> None:
    if value not in (None, "optional", "required", "later"):
        raise ValueError(
            f'{label} must be "optional", "required", "later" or None, not {value!r:.60}'
        )


class Tasks(TaskRunner, Extension):
    """Lets tools run as tasks: ``Server("x", extensions=[Tasks()])`` and
    ``@server.tool(task="optional")``.

    One object serves one server. A task belongs to its authenticated principal. Without
    authentication, every client that knows its id can use it. Ids cannot be guessed, and tasks are
    then not listed. Thread-safe.

    Args:
        store: Where tasks are kept; None means the server's store, or memory if it has none. With a
            `SqliteStore`, finished tasks survive the process. Unfinished tasks of a process that
            has ended become "failed" within 10 seconds.
        ttl: Seconds that a task is kept after its creation, unless a client asks for another time;
            None means forever.
        max_ttl: Maximum number of seconds that an authenticated client may ask for. Other clients
            get at most `ttl`.
        poll_interval: Seconds that clients should wait between two requests for a task's status.
        max_tasks: Maximum number of tasks in the store, for each principal, running or finished.
            Unauthenticated clients share one number. At the limit, a new task takes the place of
            the task that finished first. If all are running, it is rejected.
        max_bytes: Maximum size of the records of these tasks, in bytes of JSON: their questions,
            answers and results. Above it, finished tasks make room in the same way. A single record
            is bounded by `Limits.message_bytes`, so the sum may exceed `max_bytes` by one record
            for each running task.

    Raises:
        TypeError, ValueError: An argument has a wrong type or value.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
    """

    identifier = IDENTIFIER
    filters = ("taskIds",)
    options = {"task": OptionSpec(check=_check_task)}
    result_types = {"task": ("tools/call",)}
    names = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")

    def install(self, server: Any) -> None:
        """Join a server; see `Extension.install`."""
        config = server._config
        limits = config.limits
        if config.store is not None and not self._has_own_store:
            self.store = config.store
        name = str(config.info["name"])
        self.open(limits, config.audience, name, Pool(limits.workers, f"minimcp-tasks-{name}"))
        super().install(server)

    def for_host(self, limits: Limits) -> HostTasks:
        """Return an object that runs a server's questions as tasks, for one client."""
        from .host_tasks import HostTasks  # a server does not need it

        return HostTasks(limits)

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Return the capabilities, in the design of the revision."""
        if revision.tasks == "extension":
            return super().declare(revision, principal)
        if revision.tasks == "core":
            list_capability: dict[str, Json] = {} if principal is None else {"list": {}}
            tasks = {**list_capability, "cancel": {}, "requests": {"tools": {"call": {}}}}
            return {"tasks": tasks, "extensions": None}
        return {}

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes of the methods. Each checks what the client declared."""
        return {method: partial(self._find_route, method) for _, method in self._METHODS}

    def _find_route(self, method: str, params: Mapping[str, Json], peer: Peer) -> Route:
        route = self.route(method, peer)
        if route is None:
            raise MethodNotFound(f"Method not found: {method}")
        return route

    def adapt(self, entry: Any) -> None:
        """State in the list whether a tool may run as a task."""
        task = entry.options.get("task")
        if task is not None:
            entry.execution = {"taskSupport": "required" if task == "required" else "optional"}

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether an entry is a tool, because a client may ask for a task of any tool."""
        return entry.kind == "tool"

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Return the route that starts a task, if the call must run as one.

        The route uses a worker, because the store may block.
        """
        if not self.is_task(entry, request):
            return None
        return Route(partial(self.create, entry.route))

    def around_call(
        self, entry: RegisteredEntry, request: IncomingRequest, call_next: Callable[[], Any]
    ) -> Any:
        """Start a task if the handler calls `Context.become_task`."""
        try:
            return call_next()
        except BecomeTask:
            return self.create(entry.route, request, request.asker)

    def is_task(self, tool: RegisteredEntry, incoming: IncomingRequest) -> bool:
        """Return whether a call of a tool must run as a task.

        Raises:
            MethodNotFound: In a revision with a handshake: the tool must run as a task but the
                client did not ask for one, or the reverse.
            CapabilityNotSupported: The tool must run as a task, but the client did not declare the
                extension.
            InvalidParams: ``task`` is not an object.
        """
        task = tool.options.get("task")
        given = incoming.request.params.get("task")
        design = incoming.peer.revision.tasks
        if design == "extension":
            if task == "required":
                self._need(incoming.peer, tool.owner)
            return task in ("optional", "required") and incoming.peer.supports("ext:" + IDENTIFIER)
        if design == "core" and given is not None:
            if task is None:
                raise MethodNotFound(f"{tool.owner} does not run as a task: call it without one")
            if not isinstance(given, dict):
                raise InvalidParams("task must be an object")
            return True
        if task == "required":
            raise MethodNotFound(f"{tool.owner} only runs as a task: call it with task")
        return False

    def may_become(self, incoming: IncomingRequest) -> bool:
        """Return whether a running call can become a task."""
        peer = incoming.peer
        return (
            peer.revision.tasks == "extension"
            and peer.supports("ext:" + IDENTIFIER)
            and incoming.request.method == "tools/call"
            and not isinstance(incoming, TaskRequest)
        )

    def subscriber_of(self, peer: Peer) -> Optional[Subscriber]:
        """Return the session of a client, or None."""
        return self.subscriptions.session(peer)

    def check_declared(self, peer: Peer, what: str) -> None:
        """Raise `CapabilityNotSupported` if the client did not declare the extension."""
        self._need(peer, what)

    def notify(self, key: str, record: Record) -> None:
        """Notify the session and the streams that listen to a task of its new state."""
        running = self._running.get(key)
        session = None if running is None else self.subscriber_of(running.peer)
        with self._lock:
            if running is not None:
                if record["version"] < running.notified_version:
                    return  # another thread has reported a newer version
                running.notified_version = record["version"]
            if session is not None:
                task = self._view(record, False)
                session.notify(
                    ("task", record["id"]), "notifications/tasks/status", task, newest=True
                )
            if self.subscriptions.has_listener("taskIds", key):
                params = self._detailed(record)
                self.subscriptions.notify_extension(
                    "", "notifications/tasks", params, "taskIds", key, sessions=False
                )

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> dict[str, str]:
        """Return the tasks of the request's sender, from keys in the store to ids."""
        if wanted is True:
            raise InvalidParams("taskIds must be a list of task ids")
        ids = super().listened(member, wanted, incoming)
        keys = {self._task_key(incoming, id): id for id in ids}
        return {key: id for key, id in keys.items() if self.store.get(key) is not None}

    def __repr__(self) -> str:
        return f"<Tasks in {self.store!r}>"
