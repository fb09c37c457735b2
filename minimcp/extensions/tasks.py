"""`Tasks`: calls of tools that go on after their request was answered, in both designs of the
protocol.

With a handshake (2025-11-25) a client asks for a task by ``params.task``, gets the questions of its
handler while it waits in `tasks/result`, and finds the result there. Where requests stand alone the
server decides, for a client that declares the extension; questions and the result are in what
`tasks/get` answers, and `tasks/update` brings answers. Either way a task is one entry of a store,
which is only changed by `Tasks.change`, after the table `NEXT`.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/seps/2663-tasks-extension
"""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from collections import deque
from contextvars import Context
from datetime import datetime, timezone
from functools import partial
from itertools import count
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ..engine.incoming import BEGIN, LEAVE, IncomingRequest, Route, RunningRequests, Sink
from ..engine.limits import Limits, check_number
from ..engine.pool import Pool, renewed_in_fork
from ..engine.timer import Deadline, timer
from ..errors import (
    Cancelled,
    InternalError,
    InvalidParams,
    MethodNotFound,
    RequestTimeout,
    error_from_peer,
)
from ..features.questions import QuestionChannel
from ..log import logger
from ..protocol.lifecycle import Peer
from ..protocol.messages import (
    Failure,
    Json,
    Notification,
    Request,
    Result,
    encode,
    encode_progress,
    to_json,
)
from ..protocol.versions import Revision
from ..server.feature import Destination, HandOver, OptionSpec, RegisteredEntry
from ..stores.base import (
    MemoryStore,
    Store,
    has_members,
    owner_of,
    read_record,
    store_key,
)
from .extension import Extension, cursor_at, position_of

log = logger("minimcp.tasks")

IDENTIFIER = "io.modelcontextprotocol/tasks"

# The ``_meta`` of messages that belong to a task, with a handshake.
RELATED_KEY = "io.modelcontextprotocol/related-task"

# What a task may become. The states without a way out are terminal.
_ANY = frozenset({"working", "input_required", "completed", "failed", "cancelled"})
NEXT: Mapping[str, frozenset[str]] = {
    "working": _ANY,
    "input_required": _ANY,
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

# Seconds after which tasks count as lost whose process has not said that it runs, and how often it
# says so.
LEASE_SECONDS = 10.0
RENEW_SECONDS = 3.0
LOST = (
    f"the process that ran this task has ended, or did not say for {LEASE_SECONDS:g} s that it runs"
)

# Tasks on a page of `tasks/list`.
PAGE = 100

# Bytes of a message beside the result that it carries.
ROOM_BYTES = 16 * 1024

# The members of a record, and their types.
_NULL = type(None)
_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "status": (str,),
    "message": (str, _NULL),
    "created": (str,),
    "updated": (str,),
    "core": (bool,),
    "ttl": (int, _NULL),
    "expires": (int, float, _NULL),
    "lease": (str,),
    "asked": (dict,),
    "answers": (dict,),
}
_ENDS: Mapping[str, tuple[type, ...]] = {"result": (dict,), "error": (dict,)}
_QUESTION: Mapping[str, tuple[type, ...]] = {"method": (str,), "params": (dict,)}
_ERROR: Mapping[str, tuple[type, ...]] = {"code": (int,), "message": (str,)}

# Seconds since 1970 that a record may name: above, a clock cannot count.
MAX_SECONDS = 1e12

Record = dict[str, Any]


class Usage(NamedTuple):
    """What an owner of tasks takes of a store.

    Args:
        tasks: Their number.
        bytes: Bytes of their records together, with questions and results.
    """

    tasks: int
    bytes: int


class TaskRequest(IncomingRequest):
    """The call of a tool, run as a task: what it sends and asks goes to the store, and so does its
    answer.

    Args:
        tasks: Those of the server.
        key: Of the task, in the store.
        origin: The request that it answers with the task.
        route: Of the tool.
        before: Knows what was answered before the call became a task; None when it began as one.
    """

    def __init__(
        self,
        tasks: Tasks,
        key: str,
        origin: IncomingRequest,
        route: Route,
        before: Optional[QuestionChannel] = None,
    ) -> None:
        params = {
            name: each for name, each in origin.request.params.items() if name not in _OF_ROUNDS
        }
        request = Request(origin.request.id, origin.request.method, params)
        super().__init__(
            request,
            origin.peer,
            route,
            _TaskSink(tasks, origin.sink.context),
            origin.size,
            origin.server,
            origin.headers,
        )
        self._tasks = tasks
        self.task_key = key
        # The threads of tasks, as this client uses them.
        self.workers: Any = tasks.pool
        client = getattr(origin.headers, "counted", None)
        if client is not None:
            self.workers = client.pool_of(tasks.pool, tasks.max_workers)
        self._numbers = count(1)
        self.told = 0  # the version of what was last told of it
        self.asker = QuestionChannel(self, before)

    def start(self) -> None:
        """Run it here, or have the executor of its tool run it. Never raises."""
        try:
            (self.route.start or TaskRequest.run)(self)
        except BaseException as error:  # there is no thread for the executor
            self.refuse(error)

    def run(self) -> None:
        """As `IncomingRequest.run`; then the next that waits may begin."""
        super().run()
        self._tasks.begin_waiting()

    def refuse(self, error: BaseException) -> None:
        """As `IncomingRequest.refuse`; then the next that waits may begin."""
        super().refuse(error)
        self._tasks.begin_waiting()

    @property
    def related(self) -> dict[str, Json]:
        """The ``_meta`` that says which task a message belongs to."""
        return {RELATED_KEY: {"taskId": _id_of(self.task_key)}}

    def send(self, method: str, params: Result) -> None:
        """Send a notification on the session that began the task; where there is none it is
        dropped."""
        self.check()
        if self.latest is not None and self._may_send(method):
            self._post(method, params)

    def _post(self, method: str, params: Result) -> None:
        session = self._tasks.subscriptions.session(self.peer)
        if session is not None and not self.token.cancelled:
            meta = {**params.get("_meta", {}), **self.related}
            session.post(encode(Notification(method, {**params, "_meta": meta})))

    def progress(self, done: float, total: Optional[float], message: Optional[str]) -> None:
        """Make a report the status message of the task. Errors as `IncomingRequest.progress`."""
        self.check()
        encode_progress(0, done, total, message)  # refuses what is no report
        if message is None:
            message = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self._change(lambda record: record.update(message=message))
        token = self.progress_token
        if token is None or not self.peer.revision.handshake:
            return
        with self._progress_lock:  # as `IncomingRequest.progress`
            if done > self._last_progress:
                self._last_progress = done
                told = {"progressToken": token, "progress": done, "message": message}
                if total is not None:
                    told["total"] = total
                post = partial(self._post, "notifications/progress", told)
                rate = self.notification_rate
                if self.latest is not None and (rate is None or rate.may_report(post)):
                    post()

    def ask(
        self, questions: Sequence[tuple[str, Result]], seconds: Optional[float]
    ) -> Union[list[Result], Failure]:
        """Ask by the task, which is `input_required` meanwhile; arguments and errors as
        `IncomingRequest.ask`."""
        asked = {
            f"{method.partition('/')[0]}-{next(self._numbers)}": {
                "method": method,
                "params": params,
            }
            for method, params in questions
        }
        deadline = Deadline(seconds)
        if self.timeout is not None:
            self.timeout.pause()
        try:
            record = self._change(lambda record: record["asked"].update(asked))
            while True:
                answers = [record["answers"][key] for key in asked if key in record["answers"]]
                failed = next((each["error"] for each in answers if "error" in each), None)
                if failed is not None:
                    return Failure(None, failed["code"], failed["message"], failed.get("data"))
                if len(answers) == len(asked):
                    return [each["result"] for each in answers]
                if deadline.expired:
                    raise RequestTimeout(f"the task got no answer within {seconds:g} s")
                self._tasks.store.wait(
                    [self.task_key], record["version"], deadline.to_wait(), self.token
                )
                record = self._change(None)
        finally:
            self._tasks.change(self.task_key, partial(_withdraw, [*asked]))
            if self.timeout is not None:
                self.timeout.resume()

    def _change(self, change: Optional[Callable[[Record], Any]]) -> Record:
        """Change the task's record, or only look at it. Raises Cancelled: the task has ended
        without this handler."""
        self.check()
        look = (
            self._tasks.load(self.task_key)
            if change is None
            else self._tasks.change(self.task_key, change)
        )
        if look is None or not NEXT[look["status"]]:
            self.token.cancel("the task has ended")
        self.check()
        assert look is not None
        return look


_OF_ROUNDS = ("inputResponses", "requestState", "task")


class _TaskSink(Sink):
    """Takes the answer of a task."""

    def __init__(self, tasks: Tasks, context: Context) -> None:
        self._tasks = tasks
        self.requests = tasks.requests
        self.pool = tasks.pool
        self.context = context

    def send(self, line: bytes) -> None:
        """Nothing is connected."""

    def respond(self, request: IncomingRequest, line: bytes, wait: bool = True) -> bool:
        """As `Sink.respond`."""
        if request.notification_rate is not None:
            request.notification_rate.end(
                request.request, cancelled=request.token.cancelled, wait=wait
            )
        is_first = self.requests.end(request)
        if is_first and isinstance(request, TaskRequest):
            self._tasks.finish(request, line)
        return is_first


class BecomeTask(HandOver):
    """Unwinds a handler that runs again from the top as a task. It passes ``except Exception``; let
    it pass yours."""


def become_task(incoming: IncomingRequest) -> None:
    """Unwind a handler if its call can become a task (`Context.become_task`)."""
    for feature in incoming.server.features:
        if isinstance(feature, Tasks) and feature.may_become(incoming):
            raise BecomeTask


def _check_task(label: str, value: Any) -> None:
    if value not in (None, "optional", "required", "later"):
        raise ValueError(f'{label} is "optional", "required", "later" or None, not {value!r:.60}')


class Tasks(Extension):
    """Lets tools run as tasks: ``Server("x", extensions=[Tasks()])`` and
    ``@server.tool(task="optional")``.

    One object serves one server. A task belongs to who is authenticated; where nobody is, to
    everybody who knows its id, which cannot be guessed, and then tasks are not listed. Thread-safe.

    Args:
        store: Where tasks are kept; None takes that of the server, or keeps them while the process
            runs. With a `SqliteStore` finished tasks survive it, and those that it left unfinished
            are `failed`, and say so, 10 s later.
        ttl: Seconds that a task is kept, from its creation, unless a client asks for another time;
            None keeps it.
        max_ttl: Maximum number of seconds that an authenticated client may ask for. Other clients
            get at most `ttl`.
        poll_interval: Seconds that clients are asked to wait between two looks at a task.
        max_tasks: Maximum number of tasks that one principal has in the store, running or finished;
            where nobody is authenticated, that all clients have together. At the limit, a new task
            takes the place of the one that finished first. If all are running, it is rejected.
        max_bytes: Maximum size of the records of these tasks, in bytes of JSON: their questions,
            answers and results. Above it, finished tasks make room in the same way. A single record
            is bounded by `Limits.message_bytes`, and so the sum may exceed `max_bytes` by one
            record for each running task.

    Raises:
        TypeError, ValueError: An argument cannot be what it is.
    """

    identifier = IDENTIFIER
    filters = ("taskIds",)
    options = {"task": OptionSpec(check=_check_task)}
    result_types = {"task": ("tools/call",)}
    names = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")

    # Whether tasks are listed where nobody is authenticated.
    lists_for_all = False

    def __init__(
        self,
        store: Optional[Store] = None,
        *,
        ttl: Optional[float] = 3600.0,
        max_ttl: float = 86400.0,
        poll_interval: float = 1.0,
        max_tasks: int = 5000,
        max_bytes: int = 256 * 1024 * 1024,
    ) -> None:
        check_number("ttl", ttl, least=0.001, whole=False)
        check_number("max_ttl", max_ttl, least=0.001, whole=False, optional=False)
        check_number("poll_interval", poll_interval, least=0.001, whole=False, optional=False)
        check_number("max_tasks", max_tasks, least=1, optional=False)
        check_number("max_bytes", max_bytes, least=1, optional=False)
        self._has_own_store = store is not None
        self.store = MemoryStore() if store is None else store
        self._ttl = ttl
        self._max_ttl = max_ttl
        self._interval_ms = math.ceil(poll_interval * 1000)
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes

    def install(self, server: Any) -> None:
        """As `Extension.install`."""
        config = server._config
        limits = config.limits
        if config.store is not None and not self._has_own_store:
            self.store = config.store
        self._audience = config.audience
        self._name = str(config.info["name"])
        self.max_workers = limits.workers
        self.pool = Pool(limits.workers, f"minimcp-tasks-{self._name}")
        self._limits: Limits = limits
        self.renew_in_fork()
        renewed_in_fork.add(self)
        super().install(server)

    def for_host(self, limits: Limits) -> Tasks:
        """What runs the questions of a server as tasks, for one client that declares these."""
        from .host_tasks import HostTasks

        return HostTasks(limits)

    def renew_in_fork(self) -> None:
        """Begin without running tasks: they are the parent's. Python calls this in a forked
        process."""
        self.requests = RunningRequests(self._limits)
        self._lease = secrets.token_hex(16)
        self._held = False
        self._running: dict[str, TaskRequest] = {}
        self._waiting: deque[TaskRequest] = deque()  # those that run when others have ended
        self._asking: set[tuple[str, str]] = (
            set()
        )  # questions that a `tasks/result` of this process asks now
        self._lock = threading.Lock()
        self._cancel_renewal: Optional[Callable[[], None]] = None

    # ------------------------------------------------------------ capabilities and routes

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """As `Extension.declare`, in the design of the revision."""
        if revision.tasks == "extension":
            return super().declare(revision, principal)
        if revision.tasks == "core":
            listing: dict[str, Json] = {} if principal is None else {"list": {}}
            return {"tasks": {**listing, "cancel": {}, "requests": {"tools": {"call": {}}}}}
        return {}

    def routes(self) -> Mapping[str, Destination]:
        """As `Extension.routes`; each method checks what the client declared."""
        return {method: partial(self._find_route, method) for _, method in self._METHODS}

    def _find_route(self, method: str, params: Mapping[str, Json], peer: Peer) -> Route:
        route = self.route(method, peer)
        if route is None:
            raise MethodNotFound(f"Method not found: {method}")
        return route

    def route(self, method: str, peer: Peer) -> Optional[Route]:
        """Return the route of a method; None if the revision of the peer has no such method."""
        handle = self._METHODS.get((peer.revision.tasks, method))
        return None if handle is None else Route(partial(handle, self))

    def offer(self, entry: Any) -> None:
        """List whether a tool may run as a task."""
        task = entry.options.get("task")
        if task is not None:
            entry.execution = {"taskSupport": "required" if task == "required" else "optional"}

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether an entry is a tool: a client may ask for a task of any."""
        return entry.kind == "tool"

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Return the route that begins a task, if the call is to run as one.

        It takes a worker, because the store may block.
        """
        if not self.is_task(entry, request):
            return None
        return Route(partial(self.create, entry.route))

    def around_call(
        self, entry: RegisteredEntry, request: IncomingRequest, call_next: Callable[[], Any]
    ) -> Any:
        """Begin a task if the handler calls `Context.become_task`."""
        try:
            return call_next()
        except BecomeTask:
            return self.create(entry.route, request, request.asker)

    def is_task(self, tool: RegisteredEntry, incoming: IncomingRequest) -> bool:
        """Whether a call of a tool is to run as a task.

        Raises:
            MethodNotFound: With a handshake: it has to, and the client did not ask for it, or the
                other way round.
            CapabilityNotSupported: It has to, and the client did not declare the extension.
            InvalidParams: ``task`` is no object.
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
                raise InvalidParams("task is an object")
            return True
        if task == "required":
            raise MethodNotFound(f"{tool.owner} runs as a task only: call it with task")
        return False

    # ------------------------------------------------------------ the records

    def _key(self, kind: str, *parts: str) -> str:
        """Return the key of an entry of this server, as `store_key`."""
        return store_key(self._audience, self._name, kind, *parts)

    def _task_key(self, incoming: IncomingRequest, id: str) -> str:
        """Return the key of a task of this request's sender, so that nobody else finds it."""
        return self._key("task", owner_of(incoming.principal), id)

    def _read(self, key: str) -> Optional[tuple[Record, int]]:
        """Return the record of a task and its version; None if there is none that can be read."""
        entry = self.store.get(key)
        if entry is None:
            return None
        record = read_record(key, entry.value, _is_task)
        return None if record is None else (record, entry.version)

    def load(self, key: str) -> Optional[Record]:
        """The record of a task, with its version; None when there is none (any more)."""
        found = self._read(key)
        if found is None:
            return None
        record, version = found
        record["version"] = version
        if (
            NEXT[record["status"]]
            and record["lease"] != self._lease
            and self.store.get(self._key("lease", record["lease"])) is None
        ):
            error = {"code": InternalError.CODE, "message": LOST}
            return self.change(
                key, lambda record: record.update(status="failed", message=LOST, error=error)
            )
        return record

    def change(self, key: str, change: Callable[[Record], Any]) -> Optional[Record]:
        """Change the record of a task that has not ended; whoever changes it meanwhile is heard
        too.

        Args:
            key: Of the task.
            change: Changes a record; called again when another thread or process was first.

        Returns:
            The record as it is now: one with a terminal state was not changed. None when there is
                none.
        """
        while True:
            found = self._read(key)
            if found is None:
                return None
            record, read_version = found
            before = record["status"]
            if not NEXT[before]:
                return {**record, "version": read_version}
            change(record)
            if NEXT[record["status"]]:
                record["status"] = "input_required" if record["asked"] else "working"
            else:
                record["asked"] = {}
                record["answers"] = {}
            assert record["status"] in NEXT[before]
            record["updated"] = _now()
            version = self.store.put(key, to_json(record).encode(), _left(record), read_version)
            if version is not None:
                record["version"] = version
                if not NEXT[record["status"]]:
                    self._note_end(key)
                self._tell(key, record)
                return record

    def _note_end(self, key: str) -> None:
        """Note in the store that a task has ended and may make room for another. Never raises."""
        owner, _, id = key.rpartition("/")[2].partition(":")
        ttl = None if self._ttl is None else max(self._ttl, self._max_ttl)
        try:
            self.store.append(self._key("ended", owner), id.encode(), ttl, self._max_tasks)
        except Exception as error:  # a store that fails: the task is kept until its time is over
            log.warning("the end of a task was not noted: %s", error)

    def _tell(self, key: str, record: Record) -> None:
        """Tell those who listen to a task of its new state."""
        running = self._running.get(key)
        session = None if running is None else self.subscriptions.session(running.peer)
        with self._lock:
            if running is not None:
                if record["version"] < running.told:
                    return  # who has changed it since was faster
                running.told = record["version"]
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

    def _find(self, incoming: IncomingRequest) -> tuple[str, Record]:
        """The task that a request names, if it is its sender's.

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
            InvalidParams: There is none, or not any more, or it is another's.
        """
        if incoming.peer.revision.tasks == "extension":
            self._need(incoming.peer, incoming.request.method)
        id = incoming.request.params.get("taskId")
        if not isinstance(id, str):
            raise InvalidParams("taskId is a string")
        key = self._task_key(incoming, id)
        record = self.load(key)
        if record is None:
            raise InvalidParams(
                "there is no task with this taskId: it is unknown, or its ttl is over"
            )
        return key, record

    def _view(self, record: Record, extension: bool) -> dict[str, Json]:
        """A task as a client sees it."""
        unit = "Ms" if extension else ""
        task = {
            "taskId": record["id"],
            "status": record["status"],
            "statusMessage": record["message"],
            "createdAt": record["created"],
            "lastUpdatedAt": record["updated"],
            "ttl" + unit: record["ttl"],
            "pollInterval" + unit: self._interval_ms,
        }
        return {name: value for name, value in task.items() if name != "statusMessage" or value}

    def _detailed(self, record: Record) -> dict[str, Json]:
        """The same with its questions, its result or its error."""
        task = self._view(record, True)
        if record["status"] == "input_required":
            task["inputRequests"] = record["asked"]
        task.update({name: record[name] for name in ("result", "error") if name in record})
        return task

    # ------------------------------------------------------------ a task's life

    def may_become(self, incoming: IncomingRequest) -> bool:
        """Whether a call that runs in its request can be made a task."""
        declared = incoming.peer.revision.tasks == "extension" and incoming.peer.supports(
            "ext:" + IDENTIFIER
        )
        return (
            declared
            and incoming.request.method == "tools/call"
            and not isinstance(incoming, TaskRequest)
        )

    def create(
        self, route: Route, incoming: IncomingRequest, before: Optional[QuestionChannel] = None
    ) -> Result:
        """Begin a call of a tool as a task; the result that says so.

        Args:
            route: Of the tool, where it runs as no task.
            incoming: The call.
            before: Knows what was answered before it became a task; None when it begins as one.

        Raises:
            InternalError: There are too many.
            InvalidParams: ``task.ttl`` is no number.
        """
        core = incoming.peer.revision.tasks == "core"
        ttl = self._ttl_for(incoming) if core else self._ttl
        self._make_room(owner_of(incoming.principal))
        id = secrets.token_hex(16)
        now = _now()
        key = self._task_key(incoming, id)
        record: Record = {
            "id": id,
            "status": "working",
            "message": None,
            "created": now,
            "updated": now,
            "core": core,
            "ttl": None if ttl is None else math.ceil(ttl * 1000),
            "expires": None if ttl is None else time.time() + ttl,
            "lease": self._lease,
            "asked": {},
            "answers": {},
        }
        running = TaskRequest(self, key, incoming, route, before)
        self.requests.add(running, key)
        with self._lock:
            self._running[key] = running
        try:
            requests = self._limits.requests  # running tasks are bounded by it, too
            most = self._max_tasks if requests is None else min(self._max_tasks, requests)
            running.place = incoming.admit("tasks", most)
            self._hold_lease()
            self.store.put(key, to_json(record).encode(), ttl, expect=0)
        except BaseException:
            self._running.pop(key, None)
            self.requests.end(running)
            self.requests.advance(running, LEAVE)
            self.store.delete(key)  # last: it may raise as well
            raise
        self._waiting.append(running)
        self.begin_waiting()
        task = self._view(record, not core)
        return {"task": task} if core else self._closed({"resultType": "task", **task}, incoming)

    def _ttl_for(self, incoming: IncomingRequest) -> Optional[float]:
        """Return the seconds that a task is kept for which the client may ask for a time.

        Raises:
            InvalidParams: ``task.ttl`` is not a number.
        """
        wanted = incoming.request.params["task"].get("ttl")
        if wanted is None:
            return self._ttl
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or not wanted > 0:
            raise InvalidParams("task.ttl is a number of milliseconds")
        most = self._max_ttl
        if incoming.principal is None and self._ttl is not None:
            most = min(most, self._ttl)  # anybody could fill the store for as long as this
        return float(min(wanted, most * 1000)) / 1000

    def _make_room(self, owner: str) -> None:
        """Return if the owner may have one more task. Finished tasks, the oldest first, make room
        for it.

        Two calls of the store, however many tasks it holds, if there is room.

        Raises:
            InternalError: There are too many that have not finished.
        """
        sizes = dict(self.store.sizes(self._key("task", owner, "")))
        tasks = len(sizes)
        size = sum(sizes.values())
        if self._has_room(Usage(tasks, size)):
            return
        ended = self._key("ended", owner)
        last = 0
        for number, id in self.store.read(ended):
            key = self._key("task", owner, id.decode("ascii", "replace"))
            last = number
            if key in sizes:  # else its time is over
                self.store.delete(key)
                tasks -= 1
                size -= sizes.pop(key)
            if self._has_room(Usage(tasks, size)):
                break
        self.store.read(ended, last, forget=True)
        if not self._has_room(Usage(tasks, size)):
            raise InternalError(
                f"{tasks} tasks are kept already: call again when some have finished or expired"
            )

    def _has_room(self, used: Usage) -> bool:
        """Return whether an owner that uses so much may have one more task."""
        return used.tasks < self._max_tasks and used.bytes <= self._max_bytes

    def begin_waiting(self) -> None:
        """Begin the tasks that wait, in the order of their creation, while fewer run than may
        (`Limits.requests`)."""
        with self._lock:
            while self._waiting:
                try:
                    self.requests.advance(self._waiting[0], BEGIN)
                except InternalError:
                    return  # as many run as may: the next that ends comes here
                task = self._waiting.popleft()
                task.workers.submit(task.start)

    def finish(self, running: TaskRequest, line: bytes) -> None:
        """The handler of a task has ended.

        Args:
            running: The task.
            line: The answer that a request would get.
        """
        most = self.requests.max_bytes - ROOM_BYTES
        answer = json.loads(line)
        if len(line) > most:
            answer = {
                "error": {
                    "code": InternalError.CODE,
                    "message": f"the result is longer than {most} bytes",
                }
            }

        def end(record: Record) -> None:
            if "error" in answer:
                record.update(
                    status="failed", message=answer["error"]["message"], error=answer["error"]
                )
                return
            result = answer["result"]
            failed = result.get("isError") is True
            record.update(
                status="failed" if failed and record["core"] else "completed", result=result
            )
            if failed:
                texts = [
                    block["text"] for block in result["content"] if block.get("type") == "text"
                ]
                record["message"] = texts[0] if texts else "the tool failed"

        try:
            self.change(running.task_key, end)
        except Exception as error:  # a store that fails, maybe for a moment
            log.error("the end of a task cannot be kept yet: %s", error, exc_info=error)
            timer.after(RENEW_SECONDS, lambda: self.pool.spawn(partial(self.finish, running, line)))
            return
        with self._lock:
            self._running.pop(running.task_key, None)
            if not self._running:
                self._renew_later()
                self.pool.close()  # until the next task

    def _hold_lease(self) -> None:
        """Have the store know that this process runs, from before its first task until after its
        last one."""
        with self._lock:
            if self._cancel_renewal is None:
                self._held = False
                self._renew_later()  # also when the store fails now
        if not self._held:  # not even by another thread, which may be about to
            self.store.put(self._key("lease", self._lease), b"", LEASE_SECONDS)
            self._held = True

    def _renew_later(self) -> None:
        """Renew the lease after a while if tasks run, and not again if none does (lock held)."""
        if self._cancel_renewal is not None:
            self._cancel_renewal()
        again = bool(self._running)
        self._cancel_renewal = (
            timer.after(RENEW_SECONDS, lambda: self.pool.spawn(self._renew)) if again else None
        )

    def _renew(self) -> None:
        """Renew the lease, and end the handlers whose tasks another process has ended, or whose
        time is over."""
        with self._lock:
            running = list(self._running.items())
        try:
            self.store.put(self._key("lease", self._lease), b"", LEASE_SECONDS)
            for key, request in running:
                record = self.load(key)
                if record is None or not NEXT[record["status"]]:
                    request.token.cancel("the task was cancelled, or its ttl is over")
        except Exception as error:
            log.error("the lease of running tasks cannot be renewed: %s", error, exc_info=error)
        with self._lock:
            self._renew_later()

    # ------------------------------------------------------------ the methods

    def _closed(self, result: dict[str, Json], incoming: IncomingRequest) -> dict[str, Json]:
        closed: dict[str, Json] = self._config.finalize_result(result, incoming.peer.revision)
        return closed

    def _get(self, incoming: IncomingRequest) -> dict[str, Json]:
        _, record = self._find(incoming)
        if incoming.peer.revision.tasks == "core":
            return self._view(record, False)
        return self._closed(self._detailed(record), incoming)

    def _cancel(self, incoming: IncomingRequest) -> dict[str, Json]:
        key, record = self._find(incoming)
        core = incoming.peer.revision.tasks == "core"
        if core and not NEXT[record["status"]]:
            raise InvalidParams(
                f"the task is {record['status']} already: only one that has not ended is cancelled"
            )
        changed = self.change(
            key, lambda record: record.update(status="cancelled", message="cancelled on request")
        )
        running = self._running.get(key)
        if running is not None and changed is not None and changed["status"] == "cancelled":
            running.token.cancel("the client has cancelled the task")
        return self._view(changed or record, False) if core else self._closed({}, incoming)

    def _update(self, incoming: IncomingRequest) -> dict[str, Json]:
        key, _ = self._find(incoming)
        responses = incoming.request.params.get("inputResponses")
        if not isinstance(responses, dict) or not all(
            isinstance(each, dict) for each in responses.values()
        ):
            raise InvalidParams("inputResponses is an object of objects")
        self._bank(key, {name: {"result": response} for name, response in responses.items()})
        return self._closed({}, incoming)

    def _bank(self, key: str, answers: Mapping[str, Json]) -> None:
        """Keep the answers to what is asked; others are ignored."""

        def take(record: Record) -> None:
            for name, answer in answers.items():
                if record["asked"].pop(name, None) is not None:
                    record["answers"][name] = answer

        self.change(key, take)

    def _list(self, incoming: IncomingRequest) -> dict[str, Json]:
        if incoming.principal is None and not self.lists_for_all:
            raise MethodNotFound(
                "tasks are listed for clients that are authenticated, and this one is not"
            )
        prefix = self._task_key(incoming, "")
        after = self._task_key(incoming, position_of(prefix, incoming.request.params))
        keys = sorted(key for key in self.store.sizes(prefix) if key > after)
        records = [self.load(key) for key in keys[:PAGE]]
        result: dict[str, Json] = {
            "tasks": [self._view(record, False) for record in records if record is not None]
        }
        if len(keys) > PAGE:
            result["nextCursor"] = cursor_at(prefix, _id_of(keys[PAGE - 1]))
        return result

    def _result(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Wait for the end of a task, and ask the client what its handler asks meanwhile."""
        key, record = self._find(incoming)
        running = self._running.get(key)
        forget = None
        if running is not None:
            forget = running.token.on_cancel(lambda: incoming.token.cancel("the task ended"))
        try:
            while NEXT[record["status"]]:
                self._forward(incoming, key, record)
                self.store.wait([key], record["version"], LEASE_SECONDS, incoming.token)
                incoming.check()
                _, record = self._find(incoming)
        except Cancelled:
            _, record = self._find(incoming)
            if NEXT[record["status"]]:
                raise
        finally:
            if forget is not None:
                forget()
        if "error" in record:
            error = record["error"]
            raised = error_from_peer(error["code"], error["message"], error.get("data"))
            raised.from_peer = False  # it goes out as it was written
            raise raised
        if "result" not in record:
            raise InvalidParams("the task was cancelled: it has no result")
        result = record["result"]
        own = result.get("_meta")
        meta = own if isinstance(own, dict) else {}
        return {**result, "_meta": {**meta, RELATED_KEY: {"taskId": record["id"]}}}

    def _forward(self, incoming: IncomingRequest, key: str, record: Record) -> None:
        """Ask the client what nobody asks it yet, and keep its answers."""
        with self._lock:
            mine = [name for name in record["asked"] if (key, name) not in self._asking]
            self._asking.update((key, name) for name in mine)
        related = {RELATED_KEY: {"taskId": record["id"]}}
        try:
            now = self.load(key) if mine else None  # it may be answered since the record was read
            asked = (
                {}
                if now is None
                else {name: one for name, one in now["asked"].items() if name in mine}
            )
            if not asked:
                return
            questions = [
                (
                    one["method"],
                    {**one["params"], "_meta": {**one["params"].get("_meta", {}), **related}},
                )
                for one in asked.values()
            ]
            outcome = incoming.ask(questions, self._limits.ask_timeout)
            if isinstance(outcome, Failure):
                error = {"code": outcome.code, "message": outcome.message, "data": outcome.data}
                self._bank(key, {name: {"error": error} for name in asked})
            else:
                self._bank(key, {name: {"result": one} for name, one in zip(asked, outcome)})
        except RequestTimeout:
            log.info("the client did not answer the questions of a task")
        finally:
            with self._lock:
                self._asking.difference_update((key, name) for name in mine)

    _METHODS: Mapping[tuple[str, str], Callable[[Tasks, IncomingRequest], dict[str, Json]]] = {
        ("core", "tasks/get"): _get,
        ("core", "tasks/cancel"): _cancel,
        ("core", "tasks/list"): _list,
        ("core", "tasks/result"): _result,
        ("extension", "tasks/get"): _get,
        ("extension", "tasks/cancel"): _cancel,
        ("extension", "tasks/update"): _update,
    }

    # ------------------------------------------------------------ listening

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> dict[str, str]:
        """As `Extension.listened`: the tasks that are its sender's, from their keys in the store to
        their ids."""
        if wanted is True:
            raise InvalidParams("taskIds is a list of the ids of tasks")
        keys = {
            self._task_key(incoming, id): id for id in super().listened(member, wanted, incoming)
        }
        return {key: id for key, id in keys.items() if self.store.get(key) is not None}

    def __repr__(self) -> str:
        return f"<Tasks in {self.store!r}>"


def _withdraw(keys: Sequence[str], record: Record) -> None:
    for key in keys:
        record["asked"].pop(key, None)
        record["answers"].pop(key, None)


def _is_task(record: Record) -> bool:
    """Return whether a record in the store is one of a task."""
    questions = record["asked"].values()
    answers = record["answers"].values()
    expires = record["expires"]
    ttl = record["ttl"]
    return (
        has_members(record, _MEMBERS, _ENDS)
        and record["status"] in NEXT
        and (expires is None or abs(expires) < MAX_SECONDS)
        and (ttl is None or abs(ttl) < MAX_SECONDS * 1000)
        and all(has_members(each, _QUESTION) for each in questions)
        and all(_is_meta(each["params"]) for each in questions)
        and all(has_members(each, {}, _ENDS) and len(each) == 1 for each in answers)
        and all(_is_error(each["error"]) for each in (record, *answers) if "error" in each)
    )


def _is_error(value: Json) -> bool:
    return has_members(value, _ERROR, {"data": (object,)}) and type(value["code"]) is int


def _is_meta(value: Json) -> bool:
    """Return whether an object that a message carries has no ``_meta`` but an object."""
    return isinstance(value.get("_meta", {}), dict)


def _id_of(key: str) -> str:
    """Return the id of a task, which is the last part of its key."""
    return key.rpartition(":")[2]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _left(record: Record) -> Optional[float]:
    """Seconds that a task is still kept; None for ever."""
    return None if record["expires"] is None else max(record["expires"] - time.time(), 0.001)
