"""`Task`: a call of a tool that goes on at the server after its request was answered, as a client
sees it.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
https://modelcontextprotocol.io/seps/2663-tasks-extension
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ..client.calls import DEFAULT, MAX_QUESTIONS, MAX_ROUNDS, Call, Seconds
from ..client.session import Cancel, wait_until
from ..engine.timer import Deadline
from ..errors import (
    Cancelled,
    CapabilityNotSupported,
    McpError,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
    error_from_peer,
)
from ..protocol.messages import Json, Notification
from ..types.tool import CallToolResult

if TYPE_CHECKING:
    from ..client.client import Client

IDENTIFIER = "io.modelcontextprotocol/tasks"

# The states that a task does not leave.
ENDED = frozenset({"completed", "failed", "cancelled"})
STATES = ENDED | {"working", "input_required"}

# Seconds between two looks at a task: where the server names none, and the bounds of what it may
# name.
POLL_SECONDS, SHORTEST_POLL, LONGEST_POLL = 1.0, 0.02, 60.0

# What tells of a task, and the seconds that a look at one is put off at least, however often that
# comes.
NOTICES, NOTICE_SECONDS = frozenset({"notifications/tasks/status", "notifications/tasks"}), 0.02

# Seconds that telling the server takes at most that nobody waits for a task any more.
CANCEL_SECONDS = 2.0


class Task:
    """A call of a tool at the server. Of `Client.start_task`, `Client.task` and
    `Client.list_tasks`.

    Several threads may use one, but only one at a time may wait for its end.

    Attributes:
        id: By which `Client.task` finds it again, also from another process; empty where the server
            answered the call at once, and there is no task.
        status: As it was last seen: "working", "input_required", "completed", "failed" or
            "cancelled"; None when it was not looked at yet.
        status_message: What the server says of that; None when it says nothing.
        ttl: Seconds from its creation for which the server keeps it; None for ever, or not known.
    """

    def __init__(
        self, client: Client, id: str, name: Optional[str] = None, result: Any = None
    ) -> None:
        self._client, self.id, self._name, self._result = client, id, name, result
        self.status: Optional[str] = None if result is None else "completed"
        self.status_message: Optional[str] = None
        self.ttl: Optional[float] = None
        self._error: Any = None
        self._pause = POLL_SECONDS
        self._answers: dict[str, Json] = {}  # by key, of which each is asked once
        self._rounds = 0
        self._told, self._is_told = threading.Condition(), False

    @classmethod
    def read(cls, client: Client, wire: Any, name: Optional[str] = None) -> Task:
        """The task that a server tells of. Raises ProtocolViolation: it makes no sense."""
        id = wire.get("taskId") if isinstance(wire, dict) else None
        if not isinstance(id, str):
            raise ProtocolViolation("a task has a string taskId", wire)
        task = cls(client, id, name)
        task._take(wire)
        return task

    def _take(self, wire: Mapping[str, Json]) -> None:
        """Learn from how the server describes it."""
        status = wire.get("status")
        if type(status) is not str or status not in STATES or wire.get("taskId") != self.id:
            raise ProtocolViolation(
                f"the task {self.id!r:.60} has a status of {', '.join(sorted(STATES))}", wire
            )
        message, ttl, pause = (
            wire.get("statusMessage"),
            _number(wire, "ttl"),
            _number(wire, "pollInterval"),
        )
        with self._told:  # two threads may have asked
            if self.status in ENDED and wire["status"] != self.status:
                return  # an answer that was overtaken: what has ended stays so
            self._result, self._error = (
                wire.get("result", self._result),
                wire.get("error", self._error),
            )
            self.status, self.status_message = (
                wire["status"],
                message if isinstance(message, str) else None,
            )
            self.ttl = None if ttl is None else ttl / 1000
            if pause is not None:
                self._pause = min(max(pause / 1000, SHORTEST_POLL), LONGEST_POLL)

    def refresh(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> str:
        """Ask the server how it is; returns the status. Errors as `Client.request`.

        Raises:
            InvalidParams: The server does not know it (any more).
            CapabilityNotSupported: The server has no tasks, or this client was not given `Tasks`.
        """
        self._look(self._call(timeout, cancel))
        return self.status or ""

    def _call(self, timeout: Seconds, cancel: Cancel) -> Call:
        return Call(self._client._sessions, timeout, cancel)

    def _look(self, call: Call) -> dict[str, Json]:
        if not self.id:
            return {}
        need_tasks(call)
        wire = call.request("tasks/get", {"taskId": self.id})
        self._take(wire)
        return wire

    def wait(self, timeout: Seconds = None, *, cancel: Cancel = None) -> str:
        """Wait for its end, and have the handlers of the host answer what it asks; returns the
        status.

        Args:
            timeout: Seconds; None waits for ever. The task goes on when they are over.
            cancel: Ends the wait, and not the task.

        Raises:
            RequestTimeout: It has not ended in time.
            InvalidParams: The server does not know it (any more).
            Refused: It asks, and a handler of the host refuses or fails.
            ProtocolViolation: It asks for input more than ten times; or as `Client.request`.
            Cancelled, ConnectionLost: As `Client.request`.
        """
        self._until_ended(self._call(timeout, cancel))
        return self.status or ""

    def result(
        self, timeout: Seconds = None, *, cancel: Cancel = None, raise_on_error: bool = True
    ) -> CallToolResult:
        """Wait for its end; what the tool returned. Arguments and errors as `wait`, and:

        Raises:
            ToolError: The tool failed, unless ``raise_on_error`` is False.
            RpcError: The call ended with this error.
            Cancelled: The task was cancelled.
        """
        call = self._call(timeout, cancel)
        return self._client._typed(call, self._name, self.drive(call), raise_on_error)

    def cancel(self, *, timeout: Seconds = DEFAULT) -> None:
        """Have the server end it; nothing when it has ended. Errors as `Client.request`."""
        if self.id and self.status not in ENDED:
            call = self._call(timeout, None)
            need_tasks(call)
            call.request("tasks/cancel", {"taskId": self.id})

    def give_up(self) -> None:
        """Tell the server, if that is possible at once, that nobody waits for it."""
        with suppress(McpError):
            self.cancel(timeout=CANCEL_SECONDS)

    # ------------------------------------------------------------ polling

    def drive(self, call: Call) -> dict[str, Json]:
        """Poll it until it has ended, as a part of a call; the result as it came. Errors as
        `result`."""
        self._until_ended(call)
        if self.status == "cancelled":
            raise Cancelled(self.status_message or "the task was cancelled")
        if self._result is None and self._error is None:
            if call.session.era.revision.handshake:
                self._result = call.request("tasks/result", {"taskId": self.id})
            else:
                self._look(call)  # it had ended when it was first told of
        if isinstance(self._error, dict):
            code, message = self._error.get("code"), self._error.get("message")
            if type(code) is not int or not isinstance(message, str):
                raise ProtocolViolation("the error of a task has a code and a message", self._error)
            raise error_from_peer(code, message, self._error.get("data"))
        if not isinstance(self._result, dict):
            raise ProtocolViolation(
                f"a task that is {self.status} has a result, or an error", self._result
            )
        return self._result

    def _until_ended(self, call: Call) -> None:
        while self.id and self.status not in ENDED:
            session, self._is_told = call.session, False
            session.listeners[self] = (
                self._hear
            )  # before it looks: what is told behind that makes it look again
            try:
                self._step(call)
            except RequestTimeout:
                if not call.deadline.expired:
                    raise
            finally:
                session.listeners.pop(self, None)
            if call.deadline.expired and self.status not in ENDED:
                seconds = call.deadline.seconds
                raise RequestTimeout(
                    f"{session.name}: the task {self.id} did not end within {seconds:g} s"
                )

    def _hear(self, notification: Notification) -> None:
        if notification.method in NOTICES and notification.params.get("taskId") == self.id:
            with self._told:
                self._is_told = True
                self._told.notify_all()

    def _step(self, call: Call) -> None:
        """Look once, answer what is asked, and wait until it is to be looked at again."""
        wire = self._look(call)
        if self.status == "input_required":
            if call.session.era.revision.handshake:
                self._be_asked(call)
            elif isinstance(wire.get("inputRequests"), dict):
                self._answer(call, wire["inputRequests"])
        if self.status not in ENDED:
            self._rest(call, call.deadline.within(self._pause))

    def _rest(self, call: Call, pause: Deadline) -> None:
        call.session.sleep(pause.within(NOTICE_SECONDS), call.cancel)
        wait_until(lambda: self._is_told, self._told, pause, call.cancel, call.session)

    def _be_asked(self, call: Call) -> None:
        """Wait in `tasks/result`, where the server asks its questions meanwhile."""
        try:
            self._result = call.request("tasks/result", {"taskId": self.id})
        except RpcError as error:  # its own end by an error, or that of the request
            self._look(call)
            if self.status not in ENDED:
                raise
            self._error = {"code": error.code, "message": error.message, "data": error.data}
        else:
            self._look(call)

    def _answer(self, call: Call, asked: Mapping[str, Json]) -> None:
        """Answer what is asked; a question whose answer was given, and is still asked, is not put
        to the host again.

        Raises:
            ProtocolViolation: The server asks more often, or more at once, than a call may.
        """
        new = {key: one for key, one in asked.items() if key not in self._answers}
        if len(asked) > MAX_QUESTIONS:
            raise ProtocolViolation(
                f"a task asks at most {MAX_QUESTIONS} questions at a time, not {len(asked)}"
            )
        if new:
            self._rounds += 1
            if self._rounds > MAX_ROUNDS:
                raise ProtocolViolation(
                    f"the task {self.id!r:.60} asks at most {MAX_ROUNDS} times for input", new
                )
            call.deadline.pause()
            try:
                self._answers.update(call.answers("tools/call", new))
            finally:
                call.deadline.resume()
        responses = {key: self._answers[key] for key in asked}
        call.request("tasks/update", {"taskId": self.id, "inputResponses": responses})

    def __repr__(self) -> str:
        return f"<Task {self.id} {self.status}>"


def _number(wire: Mapping[str, Json], name: str) -> Optional[float]:
    """A number of milliseconds, by its name in either design; None when there is none that makes
    sense."""
    value = wire.get(name + "Ms", wire.get(name))
    sound = (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < float("inf")
    )
    return float(value) if sound else None


def need_tasks(call: Call) -> None:
    """Return if the server runs tools as tasks. Raises CapabilityNotSupported: it does not, or was
    not told to."""
    session = call.session
    if session.era.revision.tasks == "core":
        session.need("tasks.requests.tools.call")
    elif session.era.revision.tasks == "none":
        raise CapabilityNotSupported(f"{session.era.revision.name} has no tasks")
    elif "task" not in session.host.result_types:
        raise CapabilityNotSupported(
            "this client did not declare tasks: connect(..., extensions=[Tasks()])"
        )
    else:
        session.need("ext:" + IDENTIFIER)
