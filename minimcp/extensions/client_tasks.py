"""`Task`: a tool call that continues on the server after its request was answered.

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
from ..text import one_line
from ..types.tool import CallToolResult

if TYPE_CHECKING:
    from ..client.client import Client

IDENTIFIER = "io.modelcontextprotocol/tasks"

# The statuses of a task that has ended.
ENDED = frozenset({"completed", "failed", "cancelled"})
STATES = ENDED | {"working", "input_required"}

# Seconds between two polls of a task if the server does not choose a time.
POLL_SECONDS = 1.0

# The bounds of the time that the server may choose.
MIN_POLL_SECONDS = 0.02
MAX_POLL_SECONDS = 60.0

# Notifications about a task, which end the wait for the next poll.
NOTICES = frozenset({"notifications/tasks/status", "notifications/tasks"})

# Minimum number of seconds between two polls, however many notifications arrive.
NOTICE_SECONDS = 0.02

# Maximum number of seconds to cancel an abandoned task on the server.
CANCEL_SECONDS = 2.0


class Task:
    """A tool call on the server, from `Client.start_task`, `Client.task` or `Client.list_tasks`.

    Several threads may use one object, but only one of them at a time may wait for its end.

    Attributes:
        id: The id for `Client.task`, which works in other processes, too. It is empty if the server
            answered the call at once, without a task.
        status: The last known status: "working", "input_required", "completed", "failed" or
            "cancelled"; None before the first `refresh`.
        status_message: The server's message about the status; None if it sends none.
        ttl: Seconds after its creation for which the server keeps the task; None means forever or
            unknown.
    """

    def __init__(
        self, client: Client, id: str, name: Optional[str] = None, result: Any = None
    ) -> None:
        self._client = client
        self.id = id
        self._name = name
        self._result = result
        self.status: Optional[str] = None if result is None else "completed"
        self.status_message: Optional[str] = None
        self.ttl: Optional[float] = None
        self._error: Any = None
        self._pause = POLL_SECONDS
        self._answers: dict[str, Json] = {}  # by key
        self._rounds = 0
        # Guards the state, and wakes the thread that waits for the next poll.
        self._changed = threading.Condition()
        self._was_notified = False

    @classmethod
    def read(cls, client: Client, wire: Any, name: Optional[str] = None) -> Task:
        """Return a task from the server's description.

        Raises:
            ProtocolViolation: The description is invalid.
        """
        id = wire.get("taskId") if isinstance(wire, dict) else None
        if not isinstance(id, str):
            raise ProtocolViolation("a task must have a string taskId", wire)
        task = cls(client, id, name)
        task._take(wire)
        return task

    def _take(self, wire: Mapping[str, Json]) -> None:
        """Update this object from the server's description."""
        status = wire.get("status")
        if type(status) is not str or status not in STATES or wire.get("taskId") != self.id:
            raise ProtocolViolation(
                f"the status of the task {self.id!r:.60} must be one of"
                f" {', '.join(sorted(STATES))}",
                wire,
            )
        message = wire.get("statusMessage")
        ttl = _number(wire, "ttl")
        pause = _number(wire, "pollInterval")
        with self._changed:  # two threads may have polled
            if self.status in ENDED and wire["status"] != self.status:
                return  # this response is older than the end of the task
            self._result = wire.get("result", self._result)
            self._error = wire.get("error", self._error)
            self.status = status
            self.status_message = message if isinstance(message, str) else None
            self.ttl = None if ttl is None else ttl / 1000
            if pause is not None:
                self._pause = min(max(pause / 1000, MIN_POLL_SECONDS), MAX_POLL_SECONDS)

    def refresh(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> str:
        """Ask the server for the status, and return it. See `Client.request` for more exceptions.

        Raises:
            InvalidParams: The server does not know the task, or no longer knows it.
            CapabilityNotSupported: The server does not support tasks, or this client was connected
                without `Tasks`.
        """
        self._poll(self._call(timeout, cancel))
        return self.status or ""

    def _call(self, timeout: Seconds, cancel: Cancel) -> Call:
        return Call(self._client._sessions, timeout, cancel)

    def _poll(self, call: Call) -> dict[str, Json]:
        if not self.id:
            return {}
        need_tasks(call)
        wire = call.request("tasks/get", {"taskId": self.id})
        self._take(wire)
        return wire

    def wait(self, timeout: Seconds = None, *, cancel: Cancel = None) -> str:
        """Wait for the end of the task, and return its status. The host's handlers answer its
        questions.

        Args:
            timeout: Seconds to wait; None means no limit. The task continues after the timeout.
            cancel: A token that ends the wait, but not the task.

        Raises:
            RequestTimeout: The task has not ended in time.
            InvalidParams: The server does not know the task, or no longer knows it.
            Refused: The task asks a question, and a handler of the host rejects it or fails.
            ProtocolViolation: The task asks for input more than ten times; or see `Client.request`.
            Cancelled, ConnectionLost: See `Client.request`.
        """
        self._until_ended(self._call(timeout, cancel))
        return self.status or ""

    def result(
        self, timeout: Seconds = None, *, cancel: Cancel = None, raise_on_error: bool = True
    ) -> CallToolResult:
        """Wait for the end of the task, and return the tool's result. See `wait` for arguments.

        Raises:
            ToolError: The tool failed, unless ``raise_on_error`` is False.
            RpcError: The call ended with this error.
            Cancelled: The task was cancelled.
            McpError: See `wait`.
        """
        call = self._call(timeout, cancel)
        return self._client._typed(call, self._name, self.drive(call), raise_on_error)

    def cancel(self, *, timeout: Seconds = DEFAULT) -> None:
        """Cancel the task on the server, unless it has ended. See `Client.request` for
        exceptions."""
        if self.id and self.status not in ENDED:
            call = self._call(timeout, None)
            need_tasks(call)
            call.request("tasks/cancel", {"taskId": self.id})

    def give_up(self) -> None:
        """Cancel the task on the server, if that is possible within two seconds. Never raises
        `McpError`."""
        with suppress(McpError):
            self.cancel(timeout=CANCEL_SECONDS)

    # ------------------------------------------------------------ polling

    def drive(self, call: Call) -> dict[str, Json]:
        """Poll until the task has ended, as a part of a call. Return the raw result.

        See `result` for exceptions.
        """
        self._until_ended(call)
        if self.status == "cancelled":
            raise Cancelled(self.status_message or "the task was cancelled")
        if self._result is None and self._error is None:
            if call.session.era.revision.handshake:
                self._result = call.request("tasks/result", {"taskId": self.id})
            else:
                self._poll(call)  # the task had ended before the first poll
        if isinstance(self._error, dict):
            code = self._error.get("code")
            message = self._error.get("message")
            if type(code) is not int or not isinstance(message, str):
                raise ProtocolViolation(
                    "the error of a task must have a code and a message", self._error
                )
            raise error_from_peer(code, message, self._error.get("data"))
        if not isinstance(self._result, dict):
            raise ProtocolViolation(
                f"a task that is {self.status} must have a result or an error", self._result
            )
        return self._result

    def _until_ended(self, call: Call) -> None:
        call.middleware = None  # polls are not calls of the program
        while self.id and self.status not in ENDED:
            session = call.session
            self._was_notified = False
            # Before the poll, so that a later change causes another poll.
            session.listeners[self] = self._notice
            try:
                self._step(call)
            except RequestTimeout:
                if not call.deadline.expired:
                    raise
            finally:
                session.listeners.pop(self, None)
            if call.deadline.expired and self.status not in ENDED:
                reason = call.deadline.reason
                raise RequestTimeout(
                    f"{session.name}: the task {self.id} did not end in time: {reason}"
                )

    def _notice(self, notification: Notification) -> None:
        if notification.method in NOTICES and notification.params.get("taskId") == self.id:
            with self._changed:
                self._was_notified = True
                self._changed.notify_all()

    def _step(self, call: Call) -> None:
        """Poll once, answer the questions, and wait until the next poll."""
        wire = self._poll(call)
        if self.status == "input_required":
            if call.session.era.revision.handshake:
                self._be_asked(call)
            elif isinstance(wire.get("inputRequests"), dict):
                self._answer(call, wire["inputRequests"])
        if self.status not in ENDED:
            self._rest(call, call.deadline.within(self._pause))

    def _rest(self, call: Call, pause: Deadline) -> None:
        call.session.sleep(pause.within(NOTICE_SECONDS), call.cancel)
        wait_until(lambda: self._was_notified, self._changed, pause, call.cancel, call.session)
        call.deadline.progressed()  # the server was not asked in the meantime

    def _be_asked(self, call: Call) -> None:
        """Wait in `tasks/result`, where the server asks its questions."""
        try:
            self._result = call.request("tasks/result", {"taskId": self.id})
        except RpcError as error:  # either the task has failed or the request
            self._poll(call)
            if self.status not in ENDED:
                raise
            self._error = {"code": error.code, "message": error.message, "data": error.data}
        else:
            self._poll(call)

    def _answer(self, call: Call, asked: Mapping[str, Json]) -> None:
        """Answer the questions. The host is asked each question once, even if it is still listed
        afterwards.

        Raises:
            ProtocolViolation: The server asks more questions than a call may.
        """
        new = {key: one for key, one in asked.items() if key not in self._answers}
        if len(asked) > MAX_QUESTIONS:
            raise ProtocolViolation(
                f"a task may ask at most {MAX_QUESTIONS} questions at a time, not {len(asked)}"
            )
        if new:
            self._rounds += 1
            if self._rounds > MAX_ROUNDS:
                raise ProtocolViolation(
                    f"the task {self.id!r:.60} may ask at most {MAX_ROUNDS} times for input", new
                )
            call.deadline.pause()
            try:
                self._answers.update(call.answers("tools/call", new))
            finally:
                call.deadline.resume()
        responses = {key: self._answers[key] for key in asked}
        call.request("tasks/update", {"taskId": self.id, "inputResponses": responses})

    def __repr__(self) -> str:
        return f"<Task {one_line(self.id)} {self.status}>"


def _number(wire: Mapping[str, Json], name: str) -> Optional[float]:
    """Return a number of milliseconds, under its name in either design; None if it is invalid."""
    value = wire.get(name + "Ms", wire.get(name))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < float("inf") else None


def need_tasks(call: Call) -> None:
    """Raise CapabilityNotSupported if the server does not run tools as tasks for this client."""
    session = call.session
    if session.era.revision.tasks == "core":
        session.need("tasks.requests.tools.call")
    elif session.era.revision.tasks == "none":
        raise CapabilityNotSupported(f"{session.era.revision.name} does not support tasks")
    elif "task" not in session.host.result_types:
        raise CapabilityNotSupported(
            "this client did not declare tasks: connect(..., extensions=[Tasks()])"
        )
    else:
        session.need("ext:" + IDENTIFIER)
