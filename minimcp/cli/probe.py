"""`Probe`: asks a server one thing after the other for the command ``check``, and keeps what it
sent."""

from __future__ import annotations

import json
import time
from contextlib import closing
from queue import Empty
from typing import Any, Callable, Mapping, NamedTuple, Optional

from .. import __version__ as VERSION
from ..engine.timer import NEVER, Deadline, timer
from ..errors import METHOD_NOT_FOUND, ConnectionFailed, ConnectionLost, McpError, RequestTimeout
from ..http.sse import EventReader
from ..protocol.lifecycle import Handshake, PerRequest
from ..protocol.messages import InvalidMessage, decode
from ..protocol.versions import Revision
from ..stdio.child import ChildTransport, StdioServer
from ..testing.scripted import ScriptedPeer
from ..types import Tool
from . import one_line

INFO = {"name": "minimcp check", "version": VERSION}

# Pages of one list that are asked for.
MOST_PAGES = 1000

# Bytes of one message of the server, and characters of what was sent or came that are shown.
MOST_BYTES, MOST_SHOWN = 8 * 1024 * 1024, 240

# Messages and bytes of a server in all checks of one revision, and bytes of messages that are not
# the awaited answers; with more of them it floods. A server that behaves well sends a few hundred
# messages.
MAX_MESSAGES, MAX_TOTAL_BYTES, MAX_UNASKED_BYTES = 10_000, 32 * 1024 * 1024, 2 * 1024 * 1024

# If no answer comes in time, but more than this, the server is not slow: it floods.
MAX_MESSAGES_WITHOUT_ANSWER, MAX_BYTES_WITHOUT_ANSWER = 1_000, 1024 * 1024

# Pings that are answered while one answer is awaited. More answers could fill the pipe to a server
# that never reads.
MAX_PINGS = 100

# Lines that were no messages, of which the reasons are kept.
MAX_INVALID = 100

# Seconds of a whole run, as long as --total says nothing else.
TOTAL_SECONDS = 120.0

BOTH = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Failed(Exception):
    """The server did not do what the requirement says; the text is the evidence."""


class Flooded(Exception):
    """The server sends without end. No further check is run."""


class Intake:
    """Counts what comes from one server, so that a flood ends the run before it fills the memory.

    One thread at a time counts; another one may look.

    Args:
        total: When the whole run ends.
    """

    def __init__(self, total: Deadline) -> None:
        self.total = total
        self._messages = 0
        self._bytes = 0
        self._unasked_bytes = 0
        self._is_awaited = False
        self._before = (0, 0)

    def await_answer(self) -> None:
        """Expect one answer from now on."""
        self._is_awaited = True
        self._before = (self._messages, self._bytes)

    def count(self, size: int) -> None:
        """Count bytes, whatever they are.

        Raises:
            Flooded: There were too many.
        """
        self._bytes += size
        if self._bytes > MAX_TOTAL_BYTES:
            raise Flooded(f"{self._bytes} bytes came, of at most {MAX_TOTAL_BYTES}")

    def count_message(self, size: int, read: Any) -> None:
        """Count a message.

        Args:
            size: Bytes of it, which `count` has counted, too.
            read: Its JSON; anything else for what is not JSON.

        Raises:
            Flooded: There were too many.
        """
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise Flooded(f"{self._messages} messages came, of at most {MAX_MESSAGES}")
        if self._is_awaited and isinstance(read, dict) and "method" not in read and "id" in read:
            self._is_awaited = False
            return
        self._unasked_bytes += size
        if self._unasked_bytes > MAX_UNASKED_BYTES:
            what = "bytes of messages came that are not the awaited answer"
            raise Flooded(f"{self._unasked_bytes} {what}, of at most {MAX_UNASKED_BYTES}")

    def late(self, seconds: float) -> Exception:
        """Return what to raise if there is no answer within so many seconds."""
        messages, size = self._messages - self._before[0], self._bytes - self._before[1]
        if messages > MAX_MESSAGES_WITHOUT_ANSWER or size > MAX_BYTES_WITHOUT_ANSWER:
            return Flooded(f"{messages} messages and {size} bytes came, and no answer")
        return RequestTimeout(f"no answer within {seconds:g} s")


class NotApplicable(Exception):
    """The requirement says nothing about this server; the text says why."""


class Reply(NamedTuple):
    """What came for what was sent.

    Args:
        answer: The JSON of the answer with the id that was asked for; None where there is none.
        status: Of the HTTP response; 0 over stdio.
        headers: Of it, names without regard to case.
        body: Of it, as far as it is no event stream.
    """

    answer: Any
    status: int = 0
    headers: Mapping[str, str] = {}
    body: bytes = b""

    @property
    def error(self) -> dict[str, Any]:
        """The error that the answer is; empty where it is none."""
        found = self.answer.get("error") if isinstance(self.answer, dict) else None
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        if self.answer is not None:
            return _cut(json.dumps(self.answer, ensure_ascii=False).encode())
        return f"HTTP status {self.status} {_cut(self.body)}".rstrip() if self.status else "nothing"


# ------------------------------------------------------------ the two ways to a server


class _CountedChild(ChildTransport):
    """The pipes of a server process, of which every byte is counted.

    Args:
        intake: Counts them.
        server: The server.
    """

    def __init__(self, intake: Intake, server: StdioServer) -> None:
        self._intake = intake
        super().__init__(server, stderr=lambda line: None, limit=MOST_BYTES, grace=1.0)

    def read(self) -> Optional[bytes]:
        """As the base class does. Raises Flooded: there were too many bytes."""
        chunk = super().read()
        self._intake.count(len(chunk or b""))
        return chunk


class Pipe(ScriptedPeer):
    """A server process, spoken to line by line. For one thread."""

    is_web = False

    def __init__(
        self, server: StdioServer, seconds: float, take: Callable[[bytes], Any], intake: Intake
    ) -> None:
        self._note = take
        self._intake = intake
        self._flood: Optional[Flooded] = None
        self.stuck_seconds = intake.total.within(seconds).seconds or 0.0
        super().__init__(_CountedChild(intake, server), seconds)

    def _read(self) -> None:
        try:
            super()._read()
        except Flooded as flood:  # nothing is read any more, so the server has to wait
            self._flood = flood
            self._received.put(ConnectionLost("the server floods"))

    def _take(self, frame: Any) -> None:
        is_line = isinstance(frame, bytes)
        found = self._note(frame) if is_line else None
        self._intake.count_message(len(frame) if is_line else MOST_BYTES, found)
        self._received.put(found if isinstance(found, dict) else {"noise": True})

    def write(self, data: bytes) -> None:
        """As the base class does. Raises Flooded: the server sends without end."""
        try:
            super().write(data)
        except ConnectionLost:
            self._check_flood()
            raise

    def _check_flood(self) -> None:
        if self._flood is not None:
            raise Flooded(str(self._flood))

    def exchange(
        self, body: bytes, id: Any = None, headers: Mapping[str, str] = {}, method: str = "POST"
    ) -> Reply:
        """Send a line, and wait for the answer to a request if its id is given."""
        deadline = self._intake.total.within(self.timeout)
        self._intake.await_answer()
        self.write(body + b"\n")
        pings = 0
        while id is not None:
            self._check_flood()
            try:
                found = self._received.get(timeout=max(deadline.to_wait() or 0.0, 0.001))
            except Empty:
                raise self._intake.late(deadline.seconds or 0.0) from None
            if isinstance(found, ConnectionLost):
                self._received.put(found)
                self._check_flood()
                raise found
            if found.get("method") == "ping" and "id" in found and pings < MAX_PINGS:
                pings += 1
                self.answer(found, {})
            if "method" not in found and str(found.get("id")) == str(
                id
            ):  # whether its type is right is a check
                return Reply(found)
        return Reply(None)

    def ends_with_its_input(self) -> bool:
        """Close the server's input; whether its process then ends."""
        child: Any = self.pipe
        child.close_writing()
        deadline = self._intake.total.within(self.timeout)
        while child.returncode is None and not deadline.expired:
            time.sleep(0.02)
        return child.returncode is not None


class Web:
    """A server with a URL, asked request by request. For one thread."""

    is_web = True

    def __init__(
        self, server: Any, seconds: float, take: Callable[[bytes], Any], intake: Intake
    ) -> None:
        self._fetcher = server.fetcher()
        self._seconds = seconds
        self._take = take
        self._intake = intake

    def exchange(
        self, body: bytes, id: Any = None, headers: Mapping[str, str] = {}, method: str = "POST"
    ) -> Reply:
        """Send an HTTP request; its response is read until the answer to the request with this id,
        or to its end."""
        from ..http.fetch import AbortableRequest

        deadline = self._intake.total.within(self._seconds)
        seconds = deadline.seconds or 0.0
        request = AbortableRequest(deadline)
        self._intake.await_answer()
        forget = timer.after(seconds, request.abort)
        try:
            with closing(
                self._fetcher.send(request, method, {**BOTH, **headers}, body or None)
            ) as response:
                kind = response.headers.get("Content-Type", "")
                if not kind.startswith("text/event-stream"):
                    received = response.body(MOST_BYTES)
                    self._intake.count(len(received))
                    text = self._fetcher.masked_bytes(received)  # a report shows it
                    answer = self._answer(text, id) if kind.startswith("application/json") else None
                    return Reply(answer, response.status, response.headers, text)
                events, found = EventReader(MOST_BYTES), None
                piece = (
                    response.read() if id is not None else b""
                )  # a stream without an answer has no end
                while piece and found is None:
                    self._intake.count(len(piece))
                    for event in events.feed(piece):
                        data = self._fetcher.masked_bytes(event.data.encode())
                        found = found or self._answer(data, id)
                    piece = response.read() if found is None else b""
                if found is None and request.aborted.is_set():
                    raise self._intake.late(seconds)
                return Reply(found, response.status, response.headers)
        except McpError:
            if request.aborted.is_set():
                raise self._intake.late(seconds) from None
            raise
        finally:
            forget()

    def _answer(self, data: bytes, id: Any) -> Any:
        found = self._take(data) if data else None
        self._intake.count_message(len(data), found)
        if not isinstance(found, dict) or "method" in found:
            return None
        return (
            found
            if id is None or found.get("id", 0) is None or str(found.get("id")) == str(id)
            else None
        )

    def close(self) -> None:
        """Let go of its connections."""
        self._fetcher.close()


# ------------------------------------------------------------ one server in one revision


class Probe:
    """A server in one revision, and what has come from it. For one thread.

    Args:
        connect: Opens a way to the server; it gets what takes in each message that comes.
        revision: That is spoken.

    Attributes:
        call: The name and the arguments of the tool that may be called; None calls none.
        tool: As it is listed.
        alone: Whether requests stand alone, in this revision.
        ping: The method that asks for nothing.
        opening: The result of `initialize` or `server/discover`; None as long as there is none.
        invalid: What came and is no message: why, and its beginning.
        log: What was sent and came in the running check, as it is shown.
        came: The JSON of what came in it.
        endless: Of each list whose end cannot be found, why.
    """

    def __init__(
        self, connect: Callable[[Callable[[bytes], Any]], Any], revision: Revision
    ) -> None:
        self.connect = connect
        self.revision = revision
        self.call: Optional[tuple[str, dict[str, Any]]] = None
        self.tool: Any = {}
        self.alone = not revision.handshake
        self.ping = "server/discover" if self.alone else "ping"
        self.opening: Any = None
        self.invalid: list[str] = []
        self.log: list[str] = []
        self.came: list[Any] = []
        self.endless: list[str] = []
        self.session: Optional[str] = None
        self._ids = 0
        self._lists: dict[str, list[Any]] = {}
        self.way: Any = None

    def take(self, data: bytes) -> Any:
        """Note a message; its JSON, or None where it is none."""
        self.log.append(f"<-- {_cut(data)}")
        read = decode(data, exact=True)
        for each in read if isinstance(read, list) else [read]:
            if isinstance(each, InvalidMessage) and len(self.invalid) < MAX_INVALID:
                self.invalid.append(f"{each.reason}: {_cut(data)}")
        try:
            self.came.append(json.loads(data))
            return self.came[-1]
        except (ValueError, RecursionError):
            return None

    def open(self) -> None:
        """Connect, and agree on the revision. Errors as `request`."""
        self.way = self.connect(self.take)
        self.session = None
        if self.alone:
            self.opening = self.result("server/discover")
            return
        reply = self.request("initialize", Handshake.opening(self.revision, INFO, {}))
        if reply.status == 401:
            raise ConnectionFailed(
                "the server wants a token: give one by --token, or sign in by 'minimcp login URL'"
            )
        self.opening = _result("initialize", reply)
        self.session = reply.headers.get("Mcp-Session-Id")
        self.notify("notifications/initialized")

    def close(self) -> None:
        """Let the server go; the next check opens it anew. Idempotent."""
        way = self.way
        self.way = None
        if way is not None:
            way.close()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the server has declared."""
        found = self.opening.get("capabilities") if isinstance(self.opening, dict) else None
        return found if isinstance(found, dict) else {}

    def headers(self, method: str = "", params: Mapping[str, Any] = {}) -> dict[str, str]:
        """What a client sends along with a message by HTTP; nothing over stdio."""
        if not self.way.is_web:
            return {}
        from ..http.client import RequestHeaders
        from ..http.headers import METHOD_HEADER, SESSION_HEADER, VERSION_HEADER

        found = (
            {VERSION_HEADER: self.revision.name} if self.opening is not None or self.alone else {}
        )
        if self.session is not None:
            found[SESSION_HEADER] = self.session
        if self.alone and method:
            header_params = RequestHeaders("check", {})
            if method == "tools/call" and self.call is not None:
                header_params.usable_tools([Tool.from_wire(self.tool)], NEVER)
            found.update({METHOD_HEADER: method, **header_params.of(method, params)})
        return found

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        id: Any = None,
        headers: Mapping[str, Optional[str]] = {},
        envelope: Optional[Mapping[str, Any]] = None,
    ) -> Reply:
        """Send a request and wait for its answer.

        Args:
            method: What is asked.
            params: None sends none, but for the envelope.
            id: Of the request; None takes a number.
            headers: Over HTTP, in the place of the usual ones; None as a value leaves one out.
            envelope: In the place of the usual ``_meta``.

        Raises:
            ConnectionLost, ConnectionFailed: The server is gone.
            RequestTimeout: It does not answer.
        """
        self._ids += 1
        id = f"check-{self._ids}" if id is None else id
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        given = dict(params or {})
        if self.alone:
            given["_meta"] = (
                PerRequest.envelope_for(self.revision, INFO, {})
                if envelope is None
                else dict(envelope)
            )
        if given:
            message["params"] = given
        sent = {**self.headers(method, given), **headers}
        return self.send(
            message, id, {name: value for name, value in sent.items() if value is not None}
        )

    def send(
        self, message: Any, id: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> Reply:
        """Send whatever this is, as JSON, or bytes as they are; wait for an answer if an id is
        given."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.log.append(f"--> {_cut(body)}")
        reply: Reply = self.way.exchange(body, id, self.headers() if headers is None else headers)
        if reply.status and reply.status != 200:
            self.log.append(f"<-- HTTP status {reply.status}")
        return reply

    def notify(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Reply:
        """Send a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        return self.send(message, None, self.headers(method))

    def result(
        self, method: str, params: Optional[Mapping[str, Any]] = None, **more: Any
    ) -> dict[str, Any]:
        """The result of a request. Raises Failed: it is an error, or no object."""
        return _result(method, self.request(method, params, **more))

    def is_alive(self) -> str:
        """See that requests are answered, be it by an error. Raises Failed: they are not."""
        try:
            reply = self.request(self.ping)
        except McpError as error:
            self.close()
            raise Failed(f"then it does not answer any more: {error}") from None
        if reply.answer is None:
            raise Failed(f"then it does not answer any more, but with {reply}")
        return "it goes on"

    def listed(self, method: str) -> list[Any]:
        """All that a list has, over its pages. Raises NotApplicable: there is no such list."""
        member, capability = LISTS[method]
        if capability not in self.capabilities:
            raise NotApplicable(f"the server does not declare {capability}")
        if method not in self._lists:
            found: list[Any] = []
            cursors: set[str] = set()
            reply = self.request(method)
            if method == TEMPLATES and reply.error.get("code") == METHOD_NOT_FOUND:
                raise NotApplicable(
                    "the server has resources, but no templates"
                )  # there is no capability for them
            while True:
                result = _result(method, reply)
                entries = result.get(member)
                if not isinstance(entries, list) or not all(
                    isinstance(each, dict) for each in entries
                ):
                    raise Failed(f"{method}: {member} is no list of objects")
                found += entries
                cursor = result.get("nextCursor")
                if cursor is None and (self.alone or "nextCursor" not in result):
                    break
                if not isinstance(cursor, str) or cursor in cursors:
                    self.endless.append(
                        f"{method}: nextCursor {cursor!r:.60} is no text, or comes again"
                    )
                    break
                if len(cursors) == MOST_PAGES:
                    raise Flooded(f"{method} has more than {MOST_PAGES} pages")
                cursors.add(cursor)
                reply = self.request(method, {"cursor": cursor})
            self._lists[method] = found
        return self._lists[method]


TEMPLATES = "resources/templates/list"

# The member of the result of each list, and the capability that says it is there.
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    TEMPLATES: ("resourceTemplates", "resources"),
    "prompts/list": ("prompts", "prompts"),
}


def _result(method: str, reply: Reply) -> dict[str, Any]:
    if not isinstance(reply.answer, dict) or not isinstance(reply.answer.get("result"), dict):
        raise Failed(f"{method} gets no result, but {reply}")
    found: dict[str, Any] = reply.answer["result"]
    return found


def _cut(data: bytes) -> str:
    text = data[: 4 * MOST_SHOWN].decode("utf-8", "replace")
    return one_line(text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "...")


# ------------------------------------------------------------ verdicts


class ServerCheck(NamedTuple):
    """One check.

    Args:
        about: What the server has to do.
        row: The requirement in revisions with a handshake; None where it says nothing there.
        row_alone: The requirement where requests stand alone; likewise.
        run: Does it. Returns the evidence; raises `Failed` or `NotApplicable`.
        must: Whether a breach is a failure where there is a handshake; else it is a warning.
        must_alone: The same where requests stand alone; None is as `must`.
        web: Whether it is about HTTP (True) or stdio (False) only; None is about both.
        when: Tells of a revision whether the requirement stands in it.
    """

    about: str
    row: Optional[str]
    row_alone: Optional[str]
    run: Callable[[Probe], Optional[str]]
    must: bool = True
    must_alone: Optional[bool] = None
    web: Optional[bool] = None
    when: Callable[[Revision], bool] = lambda revision: True

    def row_in(self, revision: Revision) -> Optional[str]:
        """The requirement in a revision; None where it says nothing."""
        row = self.row if revision.handshake else self.row_alone
        return row if self.when(revision) else None

    def failed_in(self, revision: Revision) -> str:
        """What a breach is in a revision: "fail" or "warn"."""
        is_as_before = revision.handshake or self.must_alone is None
        return "fail" if (self.must if is_as_before else self.must_alone) else "warn"
