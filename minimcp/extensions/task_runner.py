"""`TaskRunner`: runs requests as tasks, in a server (`Tasks`) or in a client (`HostTasks`).

A task is one entry of a store, a *record*. Only `TaskRunner.change` changes it, and its status
follows the transitions in `NEXT`. A `TaskRequest` runs the handler: its progress, its questions and
its result go to the record instead of a connection.

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

from ..engine.asking import ask_peer
from ..engine.incoming import IncomingRequest, Route, Sink
from ..engine.limits import Limits, check_number
from ..engine.pool import Pool, renewed_in_fork
from ..engine.running import BEGIN, LEAVE, RunningRequests
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
from ..features.subscriptions import Subscriber
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
from ..stores.base import (
    MemoryStore,
    Store,
    has_members,
    owner_of,
    read_record,
    store_key,
)
from .extension import cursor_at, position_of

log = logger("minimcp.tasks")

IDENTIFIER = "io.modelcontextprotocol/tasks"

# The member of ``_meta`` that names a message's task, in revisions with a handshake.
RELATED_KEY = "io.modelcontextprotocol/related-task"

# The transitions of a task's status. A status without a transition is terminal.
_ANY = frozenset({"working", "input_required", "completed", "failed", "cancelled"})
NEXT: Mapping[str, frozenset[str]] = {
    "working": _ANY,
    "input_required": _ANY,
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

# Seconds after which the tasks of a process count as lost if it has not renewed its lease.
LEASE_SECONDS = 10.0

# Seconds between two renewals.
RENEW_SECONDS = 3.0

LOST = f"the process of this task has ended, or did not respond for {LEASE_SECONDS:g} s"

# Tasks on a page of `tasks/list`.
PAGE_SIZE = 100

# Bytes of a message in addition to the result that it carries.
ENVELOPE_BYTES = 16 * 1024

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

# Maximum time in a record, in seconds since 1970. Clocks cannot represent more.
MAX_SECONDS = 1e12

# Params of a request that belong to one round of it.
ROUND_PARAMS = ("inputResponses", "requestState", "task")

Record = dict[str, Any]


class Usage(NamedTuple):
    """The part of a store that one owner of tasks uses.

    Args:
        tasks: The number of tasks.
        bytes: Bytes of all records, including questions and results.
    """

    tasks: int
    bytes: int


class TaskRequest(IncomingRequest):
    """A request that runs as a task. Its messages, questions and result go to the store.

    Args:
        tasks: The runner of the task.
        key: The key of the task in the store.
        origin: The request that is answered with the task.
        route: The route of the handler.
        before: The channel of the request before it became a task, whose answers are reused; None
            if the request began as a task.
    """

    def __init__(
        self,
        tasks: TaskRunner,
        key: str,
        origin: IncomingRequest,
        route: Route,
        before: Optional[QuestionChannel] = None,
    ) -> None:
        params = {
            name: each for name, each in origin.request.params.items() if name not in ROUND_PARAMS
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
        # The pool of tasks, or this client's share of it.
        self.workers: Any = tasks.pool
        client = getattr(origin.headers, "counted", None)
        if client is not None:
            self.workers = client.pool_of(tasks.pool, tasks.max_workers)
        self._numbers = count(1)
        # The version of the record that the client was last notified of.
        self.notified_version = 0
        self.asker = _TaskChannel(self, before)

    def enqueue(self) -> None:
        """Run the handler here, or on the executor of its tool. Never raises."""
        try:
            (self.route.enqueue or TaskRequest.run)(self)
        except BaseException as error:  # the executor cannot start a thread
            self.refuse(error)

    def run(self) -> None:
        """Run the request, see `IncomingRequest.run`. Then start waiting tasks."""
        super().run()
        self._tasks.begin_waiting()

    def refuse(self, error: BaseException) -> None:
        """Reject the request, see `IncomingRequest.refuse`. Then start waiting tasks."""
        super().refuse(error)
        self._tasks.begin_waiting()

    @property
    def related(self) -> dict[str, Json]:
        """The ``_meta`` that names the task of a message."""
        return {RELATED_KEY: {"taskId": _id_of(self.task_key)}}

    def send(self, method: str, params: Result) -> None:
        """Send a notification on the session of the request. It is dropped if there is no
        session."""
        self.check()
        if self.answering is not None and self._may_send(method):
            self._post(method, params)

    def _post(self, method: str, params: Result) -> None:
        session = self._tasks.subscriber_of(self.peer)
        if session is not None and not self.token.cancelled:
            meta = {**params.get("_meta", {}), **self.related}
            session.post(encode(Notification(method, {**params, "_meta": meta})))

    def progress(
        self,
        done: float,
        total: Optional[float],
        message: Optional[str],
        *,
        is_beat: bool = False,
    ) -> None:
        """Store a progress report as the task's status message. See `IncomingRequest.progress`.

        A heartbeat is dropped, because a client asks for the status of a task.
        """
        self.check()
        if is_beat:
            return
        encode_progress(0, done, total, message)  # rejects invalid values
        if message is None:
            message = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self._change(lambda record: record.update(message=message))
        token = self.progress_token
        if token is None or not self.peer.revision.handshake:
            return
        with self._progress_lock:  # as `IncomingRequest.progress`
            if done > self._last_progress:
                self._last_progress = done
                params = {"progressToken": token, "progress": done, "message": message}
                if total is not None:
                    params["total"] = total
                post = partial(self._post, "notifications/progress", params)
                rate = self.notification_rate
                if self.answering is not None and (rate is None or rate.may_report(post)):
                    post()

    def ask(
        self, questions: Sequence[tuple[str, Result]], seconds: Optional[float]
    ) -> Union[list[Result], Failure]:
        """Ask through the task, which is `input_required` until the answers arrive.

        See `ask_peer` for arguments and exceptions.
        """
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
                    raise RequestTimeout(f"the task did not get an answer within {seconds:g} s")
                self._tasks.store.wait(
                    [self.task_key], record["version"], deadline.to_wait(), self.token
                )
                record = self._change(None)
        finally:
            self._tasks.change(self.task_key, partial(_withdraw, [*asked]))
            if self.timeout is not None:
                self.timeout.resume()

    def _change(self, change: Optional[Callable[[Record], Any]]) -> Record:
        """Change the record of the task, or only read it if `change` is None.

        Raises:
            Cancelled: The task has ended without this handler.
        """
        self.check()
        if change is None:
            record = self._tasks.load(self.task_key)
        else:
            record = self._tasks.change(self.task_key, change)
        if record is None or not NEXT[record["status"]]:
            self.token.cancel("the task has ended")
        self.check()
        assert record is not None
        return record


class _TaskChannel(QuestionChannel):
    """Asks the questions of a task, through its record in the store."""

    _incoming: TaskRequest

    def send(self, questions: Sequence[tuple[str, Result]]) -> Union[list[Result], Failure]:
        """Ask through the task; see `TaskRequest.ask`."""
        return self._incoming.ask(questions, self._incoming.server.limits.ask_timeout)


class _TaskSink(Sink):
    """Receives the result of a task."""

    def __init__(self, tasks: TaskRunner, context: Context) -> None:
        self._tasks = tasks
        self.requests = tasks.requests
        self.pool = tasks.pool
        self.context = context

    def send(self, line: bytes) -> None:
        """Drop a line, because a task has no connection."""

    def respond(self, request: IncomingRequest, line: bytes, wait: bool = True) -> bool:
        """Store the result, see `Sink.respond`."""
        if request.notification_rate is not None:
            request.notification_rate.end(
                request.request, cancelled=request.token.cancelled, wait=wait
            )
        is_first = self.requests.end(request)
        if is_first and isinstance(request, TaskRequest):
            self._tasks.finish(request, line)
        return is_first


class TaskRunner:
    """Runs requests as tasks and serves the methods of tasks. Thread-safe.

    The arguments are those of `Tasks`. A subclass calls `open` and notifies peers of new states.
    """

    # Whether unauthenticated peers can list tasks.
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

    def open(self, limits: Limits, audience: tuple[str, ...], name: str, pool: Pool) -> None:
        """Prepare for tasks.

        Args:
            limits: The limits of the server or client.
            audience: The audience of the server's tokens; empty if there is none.
            name: The name in keys of the store.
            pool: The threads of tasks.
        """
        self._limits = limits
        self._audience = audience
        self._name = name
        self.pool = pool
        self.max_workers = limits.workers
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Forget the running tasks, which belong to the parent process."""
        self.requests = RunningRequests(self._limits)
        self._lease = secrets.token_hex(16)
        self._held = False
        self._running: dict[str, TaskRequest] = {}
        # Tasks that start when others have ended.
        self._waiting: deque[TaskRequest] = deque()
        # Questions that a `tasks/result` in this process is asking now.
        self._asking: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self.cancel_renewal: Optional[Callable[[], None]] = None

    def route(self, method: str, peer: Peer) -> Optional[Route]:
        """Return the route of a method; None if the revision of the peer has no such method."""
        handle = self._METHODS.get((peer.revision.tasks, method))
        return None if handle is None else Route(partial(handle, self))

    # ------------------------------------------------------------ for subclasses

    def subscriber_of(self, peer: Peer) -> Optional[Subscriber]:
        """Return the session to which notifications of a peer's tasks are sent, or None."""
        return None

    def notify(self, key: str, record: Record) -> None:
        """Notify peers of a new state of a task."""

    def check_declared(self, peer: Peer, what: str) -> None:
        """Raise `CapabilityNotSupported` if a peer did not declare the extension that `what`
        needs."""

    # ------------------------------------------------------------ records

    def _key(self, kind: str, *parts: str) -> str:
        """Return the key of an entry of this server, see `store_key`."""
        return store_key(self._audience, self._name, kind, *parts)

    def _task_key(self, incoming: IncomingRequest, id: str) -> str:
        """Return the key of a task of this request's sender, so that other senders cannot find
        it."""
        return self._key("task", owner_of(incoming.principal), id)

    def _read(self, key: str) -> Optional[tuple[Record, int]]:
        """Return the record of a task and its version; None if it is missing or damaged."""
        entry = self.store.get(key)
        if entry is None:
            return None
        record = read_record(key, entry.value, _is_task)
        return None if record is None else (record, entry.version)

    def load(self, key: str) -> Optional[Record]:
        """Return the record of a task, including its version; None if it does not exist.

        If the process of the task has ended, the task fails.
        """
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
        """Change the record of a task that has not ended.

        Args:
            key: The key of the task.
            change: Changes a record. It is called again if another thread or process was faster.

        Returns:
            The current record. A record with a terminal status is not changed. None if there is no
            record.
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
                self.notify(key, record)
                return record

    def _note_end(self, key: str) -> None:
        """Note in the store that a task has ended and may make room for another. Never raises."""
        owner, _, id = key.rpartition("/")[2].partition(":")
        ttl = None if self._ttl is None else max(self._ttl, self._max_ttl)
        try:
            self.store.append(self._key("ended", owner), id.encode(), ttl, self._max_tasks)
        except Exception as error:  # the store failed, so the task remains until it expires
            log.warning("the end of a task was not recorded: %s", error)

    def _find(self, incoming: IncomingRequest) -> tuple[str, Record]:
        """Return the key and record of the task that a request names, if it belongs to its sender.

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
            InvalidParams: The task is unknown, has expired, or belongs to another sender.
        """
        if incoming.peer.revision.tasks == "extension":
            self.check_declared(incoming.peer, incoming.request.method)
        id = incoming.request.params.get("taskId")
        if not isinstance(id, str):
            raise InvalidParams("taskId must be a string")
        key = self._task_key(incoming, id)
        record = self.load(key)
        if record is None:
            raise InvalidParams("no task has this taskId: it is unknown or has expired")
        return key, record

    def _view(self, record: Record, extension: bool) -> dict[str, Json]:
        """Return a task in the form that clients see."""
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
        """Return a task with its questions, its result or its error."""
        task = self._view(record, True)
        if record["status"] == "input_required":
            task["inputRequests"] = record["asked"]
        task.update({name: record[name] for name in ("result", "error") if name in record})
        return task

    # ------------------------------------------------------------ the life of a task

    def create(
        self, route: Route, incoming: IncomingRequest, before: Optional[QuestionChannel] = None
    ) -> Result:
        """Start a request as a task. Return the response, which names the task.

        Args:
            route: The route of the handler.
            incoming: The request.
            before: The channel of the request before it became a task, whose answers are reused;
                None if the request began as a task.

        Raises:
            InternalError: There are too many tasks.
            InvalidParams: ``task.ttl`` is not a number.
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
            most = self._max_tasks
            if self._limits.requests is not None:  # it also bounds running tasks
                most = min(most, self._limits.requests)
            running.place = incoming.reserve("tasks", most)
            self._hold_lease()
            self.store.put(key, to_json(record).encode(), ttl, expect=0)
        except BaseException:
            self._running.pop(key, None)
            self.requests.end(running)
            self.requests.advance(running, LEAVE)
            self.store.delete(key)  # last, because it may raise, too
            raise
        self._waiting.append(running)
        self.begin_waiting()
        task = self._view(record, not core)
        return {"task": task} if core else self._closed({"resultType": "task", **task}, incoming)

    def _ttl_for(self, incoming: IncomingRequest) -> Optional[float]:
        """Return for how many seconds to keep a task, if the client may choose that.

        Raises:
            InvalidParams: ``task.ttl`` is not a number.
        """
        wanted = incoming.request.params["task"].get("ttl")
        if wanted is None:
            return self._ttl
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float)) or not wanted > 0:
            raise InvalidParams("task.ttl must be a number of milliseconds")
        most = self._max_ttl
        if incoming.principal is None and self._ttl is not None:
            # Otherwise, anybody could fill the store for a longer time.
            most = min(most, self._ttl)
        return float(min(wanted, most * 1000)) / 1000

    def _make_room(self, owner: str) -> None:
        """Delete finished tasks, the oldest first, until the owner may have one more task.

        If there is room, this takes two calls of the store, however many tasks it holds.

        Raises:
            InternalError: Too many tasks have not finished.
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
            if key in sizes:  # otherwise it has expired
                self.store.delete(key)
                tasks -= 1
                size -= sizes.pop(key)
            if self._has_room(Usage(tasks, size)):
                break
        self.store.read(ended, last, forget=True)
        if not self._has_room(Usage(tasks, size)):
            raise InternalError(
                f"there are {tasks} tasks: call again when some have finished or expired"
            )

    def _has_room(self, used: Usage) -> bool:
        """Return whether an owner with this usage may have one more task."""
        return used.tasks < self._max_tasks and used.bytes <= self._max_bytes

    def begin_waiting(self) -> None:
        """Start waiting tasks in order of creation, as far as ``Limits.requests`` allows."""
        with self._lock:
            while self._waiting:
                try:
                    self.requests.advance(self._waiting[0], BEGIN)
                except InternalError:
                    return  # too many are running; the next one that ends calls this again
                task = self._waiting.popleft()
                task.workers.submit(task.enqueue)

    def finish(self, running: TaskRequest, line: bytes) -> None:
        """Store the result of a task whose handler has ended.

        Args:
            running: The task.
            line: The response of the handler's request.
        """
        most = self.requests.max_bytes - ENVELOPE_BYTES
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
            is_failed = result.get("isError") is True
            # The extension reports a failed tool as a completed task.
            status = "failed" if is_failed and record["core"] else "completed"
            record.update(status=status, result=result)
            if is_failed:
                texts = [
                    block["text"] for block in result["content"] if block.get("type") == "text"
                ]
                record["message"] = texts[0] if texts else "the tool failed"

        try:
            self.change(running.task_key, end)
        except Exception as error:  # the store failed, perhaps only for a moment
            log.error("the end of a task cannot be stored yet: %s", error, exc_info=error)
            timer.after(RENEW_SECONDS, lambda: self.pool.spawn(partial(self.finish, running, line)))
            return
        with self._lock:
            self._running.pop(running.task_key, None)
            if not self._running:
                self._renew_later()
                self.pool.close()  # until the next task

    def _hold_lease(self) -> None:
        """Store the lease of this process, from before its first task until after its last one."""
        with self._lock:
            if self.cancel_renewal is None:
                self._held = False
                self._renew_later()  # even if the store fails now
        if not self._held:  # another thread may be doing the same
            self.store.put(self._key("lease", self._lease), b"", LEASE_SECONDS)
            self._held = True

    def _renew_later(self) -> None:
        """Renew the lease after a while, if tasks are running. The caller holds the lock."""
        if self.cancel_renewal is not None:
            self.cancel_renewal()
        self.cancel_renewal = None
        if self._running:
            self.cancel_renewal = timer.after(RENEW_SECONDS, lambda: self.pool.spawn(self.renew))

    def renew(self) -> None:
        """Renew the lease, and cancel handlers whose tasks have expired or were ended by another
        process."""
        with self._lock:
            running = list(self._running.items())
        try:
            self.store.put(self._key("lease", self._lease), b"", LEASE_SECONDS)
            for key, request in running:
                record = self.load(key)
                if record is None or not NEXT[record["status"]]:
                    request.token.cancel("the task was cancelled or has expired")
        except Exception as error:
            log.error("the lease of running tasks cannot be renewed: %s", error, exc_info=error)
        with self._lock:
            self._renew_later()

    # ------------------------------------------------------------ methods

    def _closed(self, result: dict[str, Json], incoming: IncomingRequest) -> dict[str, Json]:
        closed: dict[str, Json] = incoming.server.finalize_result(result, incoming.peer.revision)
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
            raise InvalidParams(f"the task is already {record['status']}: it cannot be cancelled")
        changed = self.change(
            key, lambda record: record.update(status="cancelled", message="cancelled on request")
        )
        running = self._running.get(key)
        if running is not None and changed is not None and changed["status"] == "cancelled":
            running.token.cancel("the client has cancelled the task")
        if not core:
            return self._closed({}, incoming)
        return self._view(changed or record, False)

    def _update(self, incoming: IncomingRequest) -> dict[str, Json]:
        key, _ = self._find(incoming)
        responses = incoming.request.params.get("inputResponses")
        if not isinstance(responses, dict) or not all(
            isinstance(each, dict) for each in responses.values()
        ):
            raise InvalidParams("inputResponses must be an object of objects")
        self._bank(key, {name: {"result": response} for name, response in responses.items()})
        return self._closed({}, incoming)

    def _bank(self, key: str, answers: Mapping[str, Json]) -> None:
        """Store the answers to pending questions. Other answers are ignored."""

        def take(record: Record) -> None:
            for name, answer in answers.items():
                if record["asked"].pop(name, None) is not None:
                    record["answers"][name] = answer

        self.change(key, take)

    def _list(self, incoming: IncomingRequest) -> dict[str, Json]:
        if incoming.principal is None and not self.lists_for_all:
            raise MethodNotFound("only authenticated clients can list tasks")
        prefix = self._task_key(incoming, "")
        after = self._task_key(incoming, position_of(prefix, incoming.request.params))
        keys = sorted(key for key in self.store.sizes(prefix) if key > after)
        records = [self.load(key) for key in keys[:PAGE_SIZE]]
        result: dict[str, Json] = {
            "tasks": [self._view(record, False) for record in records if record is not None]
        }
        if len(keys) > PAGE_SIZE:
            result["nextCursor"] = cursor_at(prefix, _id_of(keys[PAGE_SIZE - 1]))
        return result

    def _result(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Wait for the end of a task. Ask the client the questions of the handler in the
        meantime."""
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
            raised.from_peer = False  # so that it is sent unchanged
            raise raised
        if "result" not in record:
            raise InvalidParams("the task was cancelled and has no result")
        result = record["result"]
        own = result.get("_meta")
        meta = own if isinstance(own, dict) else {}
        return {**result, "_meta": {**meta, RELATED_KEY: {"taskId": record["id"]}}}

    def _forward(self, incoming: IncomingRequest, key: str, record: Record) -> None:
        """Ask the client the questions that no other request is asking, and store its answers."""
        with self._lock:
            mine = [name for name in record["asked"] if (key, name) not in self._asking]
            self._asking.update((key, name) for name in mine)
        related = {RELATED_KEY: {"taskId": record["id"]}}
        try:
            # Read again, because another request may have answered the questions.
            current = self.load(key) if mine else None
            if current is None:
                return
            asked = {name: one for name, one in current["asked"].items() if name in mine}
            if not asked:
                return
            questions = []
            for one in asked.values():
                meta = {**one["params"].get("_meta", {}), **related}
                questions.append((one["method"], {**one["params"], "_meta": meta}))
            outcome = ask_peer(incoming, questions, self._limits.ask_timeout)
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

    _METHODS: Mapping[tuple[str, str], Callable[[TaskRunner, IncomingRequest], dict[str, Json]]] = {
        ("core", "tasks/get"): _get,
        ("core", "tasks/cancel"): _cancel,
        ("core", "tasks/list"): _list,
        ("core", "tasks/result"): _result,
        ("extension", "tasks/get"): _get,
        ("extension", "tasks/cancel"): _cancel,
        ("extension", "tasks/update"): _update,
    }


def _withdraw(keys: Sequence[str], record: Record) -> None:
    for key in keys:
        record["asked"].pop(key, None)
        record["answers"].pop(key, None)


def _is_task(record: Record) -> bool:
    """Return whether an object in the store is the record of a task."""
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
    """Return whether ``_meta`` of an object is missing or an object."""
    return isinstance(value.get("_meta", {}), dict)


def _id_of(key: str) -> str:
    """Return the id of a task, which is the last part of its key."""
    return key.rpartition(":")[2]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _left(record: Record) -> Optional[float]:
    """Return the seconds until a task expires; None if it does not."""
    expires: Optional[float] = record["expires"]
    return None if expires is None else max(expires - time.time(), 0.001)
