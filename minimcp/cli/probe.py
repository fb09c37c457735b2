"""The connection of ``minimcp check`` to a server: `Probe` sends requests and records messages."""

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

# Maximum pages of one list. A server could page forever.
MAX_PAGES = 1000

# Maximum size of one message from the server.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024

# Maximum length of a message in the report; longer ones are cut.
MAX_SHOWN_CHARACTERS = 240

# Limits for all checks of one revision. A server that exceeds one of them is flooding the client;
# a correct server sends a few hundred messages. Unasked bytes are those of messages that do not
# answer the pending request.
MAX_MESSAGES = 10_000
MAX_TOTAL_BYTES = 32 * 1024 * 1024
MAX_UNASKED_BYTES = 2 * 1024 * 1024

# If a request times out although the server has sent more than this, the server is not slow: it is
# flooding the client.
MAX_MESSAGES_WITHOUT_ANSWER = 1_000
MAX_BYTES_WITHOUT_ANSWER = 1024 * 1024

# Maximum number of pings answered during one request. More answers could fill the pipe to a server
# that does not read.
MAX_PINGS = 100

# Maximum number of invalid lines whose reasons are kept.
MAX_INVALID = 100

# Default budget for the tools of a server: how many tokens their entries may have in a host's
# context.
BUDGET_TOKENS = 10_000

# Default time limit of a whole run.
TOTAL_SECONDS = 120.0

HTTP_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}


class Failed(Exception):
    """The server violates a requirement; the message is the evidence."""


class Flooded(Exception):
    """The server sends too much. No further check is run."""


class Intake:
    """Counters for the server's messages, so that a flood ends the run before it fills the memory.

    One thread at a time may count; other threads may read.

    Args:
        total: The end of the whole run.
    """

    def __init__(self, total: Deadline) -> None:
        self.total = total
        self._messages = 0
        self._bytes = 0
        self._unasked_bytes = 0
        self._is_awaited = False
        self._before = (0, 0)

    def await_answer(self) -> None:
        """Start to wait for the answer to a request."""
        self._is_awaited = True
        self._before = (self._messages, self._bytes)

    def count(self, size: int) -> None:
        """Count bytes of any kind.

        Raises:
            Flooded: The server has sent too many bytes.
        """
        self._bytes += size
        if self._bytes > MAX_TOTAL_BYTES:
            raise Flooded(f"the server sent {self._bytes} bytes, more than {MAX_TOTAL_BYTES}")

    def count_message(self, size: int, value: Any) -> None:
        """Count a message.

        Args:
            size: The message's bytes, which `count` has already counted.
            value: The decoded JSON; anything but a dict if the message is not a JSON object.

        Raises:
            Flooded: The server has sent too many messages.
        """
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise Flooded(f"the server sent {self._messages} messages, more than {MAX_MESSAGES}")
        if self._is_awaited and isinstance(value, dict) and "method" not in value and "id" in value:
            self._is_awaited = False
            return
        self._unasked_bytes += size
        if self._unasked_bytes > MAX_UNASKED_BYTES:
            raise Flooded(
                f"the server sent {self._unasked_bytes} bytes of messages that do not answer a "
                f"request, more than {MAX_UNASKED_BYTES}"
            )

    def timeout_error(self, seconds: float) -> Exception:
        """Return the exception to raise if there is no answer within this time."""
        messages = self._messages - self._before[0]
        size = self._bytes - self._before[1]
        if messages > MAX_MESSAGES_WITHOUT_ANSWER or size > MAX_BYTES_WITHOUT_ANSWER:
            return Flooded(f"the server sent {messages} messages and {size} bytes, but no answer")
        return RequestTimeout(f"no answer within {seconds:g} s")


class NotApplicable(Exception):
    """The requirement does not apply to this server; the message says why."""


class Reply(NamedTuple):
    """The answer to a message.

    Args:
        answer: The decoded JSON-RPC response to the request; None if there is none.
        status: The status of the HTTP response; 0 over stdio.
        headers: The headers of the HTTP response, with case-insensitive names.
        body: The body of the HTTP response; of an event stream, what a `Watch` has read.
    """

    answer: Any
    status: int = 0
    headers: Mapping[str, str] = {}
    body: bytes = b""

    @property
    def error(self) -> dict[str, Any]:
        """The response's error object; empty if the response is not an error."""
        found = self.answer.get("error") if isinstance(self.answer, dict) else None
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        if self.answer is not None:
            return _shortened(json.dumps(self.answer, ensure_ascii=False).encode())
        if self.status:
            return f"HTTP status {self.status} {_shortened(self.body)}".rstrip()
        return "nothing"


class Watch(NamedTuple):
    """How long to read the notifications that come before the response to a request.

    Args:
        seconds: Maximum time.
        is_over: Returns whether a received message is the last one that matters.
    """

    seconds: float
    is_over: Callable[[Any], bool]


# ------------------------------------------------------------ connections: stdio and HTTP


class _CountedChild(ChildTransport):
    """The pipes of a server process; every byte that the server sends is counted.

    Args:
        intake: The counters.
        server: The server to start.
    """

    def __init__(self, intake: Intake, server: StdioServer) -> None:
        self._intake = intake
        super().__init__(server, stderr=lambda line: None, limit=MAX_MESSAGE_BYTES, grace=1.0)

    def read(self) -> Optional[bytes]:
        """Read and count bytes of the server's stdout.

        Raises:
            Flooded: The server has sent too many bytes.
        """
        chunk = super().read()
        self._intake.count(len(chunk or b""))
        return chunk


class Pipe(ScriptedPeer):
    """A stdio connection to a server process. Not thread-safe."""

    is_web = False

    def __init__(
        self, server: StdioServer, seconds: float, note: Callable[[bytes], Any], intake: Intake
    ) -> None:
        self._note = note
        self._intake = intake
        self._flood: Optional[Flooded] = None
        self.stuck_seconds = intake.total.within(seconds).seconds or 0.0
        super().__init__(_CountedChild(intake, server), seconds)

    def _read(self) -> None:
        try:
            super()._read()
        except Flooded as flood:  # stop reading, so that the server has to wait
            self._flood = flood
            self._received.put(ConnectionLost("the server sent too much"))

    def _take(self, frame: Any) -> None:
        is_line = isinstance(frame, bytes)
        found = self._note(frame) if is_line else None
        self._intake.count_message(len(frame) if is_line else MAX_MESSAGE_BYTES, found)
        self._received.put(found if isinstance(found, dict) else {"noise": True})

    def write(self, data: bytes) -> None:
        """Write bytes to the server's stdin.

        Raises:
            ConnectionLost: The connection is closed.
            Flooded: The server has sent too much.
        """
        try:
            super().write(data)
        except ConnectionLost:
            self._check_flood()
            raise

    def _check_flood(self) -> None:
        if self._flood is not None:
            raise Flooded(str(self._flood))

    def exchange(
        self,
        body: bytes,
        id: Any = None,
        headers: Mapping[str, str] = {},
        watch: Optional[Watch] = None,
    ) -> Reply:
        """Send a line. If the id of a request is given, wait for its response.

        With a `Watch`, also return as soon as it is satisfied, or when its time is over.
        """
        deadline = self._intake.total.within(watch.seconds if watch else self.timeout)
        self._intake.await_answer()
        self.write(body + b"\n")
        pings = 0
        while id is not None:
            self._check_flood()
            try:
                found = self._received.get(timeout=max(deadline.to_wait() or 0.0, 0.001))
            except Empty:
                if watch is not None:
                    break
                raise self._intake.timeout_error(deadline.seconds or 0.0) from None
            if isinstance(found, ConnectionLost):
                self._received.put(found)
                self._check_flood()
                raise found
            if found.get("method") == "ping" and "id" in found and pings < MAX_PINGS:
                pings += 1
                self.answer(found, {})
            # Compare as strings, because a check of its own covers the type of the id.
            if "method" not in found and str(found.get("id")) == str(id):
                return Reply(found)
            if watch is not None and watch.is_over(found):
                break
        return Reply(None)

    def exits_with_its_input(self) -> bool:
        """Close the server's stdin. Return whether its process exits within the time limit."""
        child: Any = self.pipe
        child.close_writing()
        deadline = self._intake.total.within(self.timeout)
        while child.returncode is None and not deadline.expired:
            time.sleep(0.02)
        return child.returncode is not None


class Web:
    """An HTTP connection to a server. Not thread-safe."""

    is_web = True

    def __init__(
        self, server: Any, seconds: float, note: Callable[[bytes], Any], intake: Intake
    ) -> None:
        self._fetcher = server.fetcher()
        self._url = server.url
        self._seconds = seconds
        self._note = note
        self._intake = intake

    def exchange(
        self,
        body: bytes,
        id: Any = None,
        headers: Mapping[str, str] = {},
        method: str = "POST",
        below: str = "",
        watch: Optional[Watch] = None,
    ) -> Reply:
        """Send an HTTP request and read its response until the answer to the request with this id.

        Without an id, read the whole response, or only the head of an event stream. ``below`` is
        appended to the path of the server's URL. With a `Watch`, also return as soon as it is
        satisfied, or when its time is over.
        """
        from ..http.fetch import AbortableRequest

        deadline = self._intake.total.within(watch.seconds if watch else self._seconds)
        seconds = deadline.seconds or 0.0
        request = AbortableRequest(deadline)
        self._intake.await_answer()
        cancel_timer = timer.after(seconds, request.abort)
        headers = {**HTTP_HEADERS, **headers}
        received = b""
        try:
            url = self._url.partition("?")[0].rstrip("/") + below if below else None
            send = self._fetcher.send
            with closing(send(request, method, headers, body or None, url)) as response:
                content_type = response.headers.get("Content-Type", "")
                if not content_type.startswith("text/event-stream"):
                    received = response.body(MAX_MESSAGE_BYTES)
                    self._intake.count(len(received))
                    text = self._fetcher.masked_bytes(received)  # the report may show it
                    answer = None
                    if content_type.startswith("application/json"):
                        message = self._noted(text)
                        answer = message if _answers(message, id) else None
                    return Reply(answer, response.status, response.headers, text)
                events = EventReader(MAX_MESSAGE_BYTES)
                found = None
                is_over = id is None  # then no event is awaited, and the stream may never end
                while not is_over:
                    try:
                        chunk = response.read()
                    except McpError:
                        if watch is None or not request.aborted.is_set():
                            raise
                        chunk = b""
                    self._intake.count(len(chunk))
                    received += chunk if watch is not None else b""
                    for event in events.feed(chunk):
                        data = self._fetcher.masked_bytes(event.data.encode())
                        message = self._noted(data)
                        if found is None and _answers(message, id):
                            found = message
                        is_over = is_over or (watch is not None and watch.is_over(message))
                    is_over = is_over or not chunk or found is not None
                if found is None and watch is None and request.aborted.is_set():
                    raise self._intake.timeout_error(seconds)
                return Reply(found, response.status, response.headers, received)
        except McpError:
            if request.aborted.is_set():
                raise self._intake.timeout_error(seconds) from None
            raise
        finally:
            cancel_timer()

    def _noted(self, data: bytes) -> Any:
        """Note a message, and return its JSON."""
        found = self._note(data) if data else None
        self._intake.count_message(len(data), found)
        return found

    def close(self) -> None:
        """Close the HTTP connections."""
        self._fetcher.close()


def _answers(message: Any, id: Any) -> bool:
    """Return whether a message is the response to the request with this id."""
    if not isinstance(message, dict) or "method" in message:
        return False
    return id is None or message.get("id", 0) is None or str(message.get("id")) == str(id)


# ------------------------------------------------------------ one server in one revision


class Probe:
    """A server that is checked in one revision, and the messages received from it.

    Not thread-safe.

    Args:
        connect: Opens a `Pipe` or `Web`. Its argument is a callback for each received message.
        revision: The revision to use.

    Attributes:
        call: The name and the arguments of the tool that may be called; None means that no tool is
            called.
        tool: The entry of that tool in ``tools/list``.
        budget: The maximum of estimated tokens of all tools together.
        is_stateless: Whether the revision has no handshake.
        ping: A method that every server of the revision answers.
        opening: The result of `initialize` or `server/discover`; None before it is received.
        invalid: For each invalid message, the reason and its beginning.
        log: The messages of the running check, shortened for the report.
        received: The decoded JSON of the messages received in the running check.
        endless: For each list without an end, the reason.
        connection: The open connection, or None.
        others: Probes with the other tokens, for the rule "cache".
        stream: The messages on a stream of events; None before it was opened.
    """

    def __init__(
        self, connect: Callable[[Callable[[bytes], Any]], Any], revision: Revision
    ) -> None:
        self.connect = connect
        self.revision = revision
        self.call: Optional[tuple[str, dict[str, Any]]] = None
        self.tool: Any = {}
        self.budget = BUDGET_TOKENS
        self.is_stateless = not revision.handshake
        self.ping = "server/discover" if self.is_stateless else "ping"
        self.opening: Any = None
        self.invalid: list[str] = []
        self.log: list[str] = []
        self.received: list[Any] = []
        self.endless: list[str] = []
        self.session: Optional[str] = None
        self._ids = 0
        self._lists: dict[str, list[Any]] = {}
        self.connection: Any = None
        self.others: list[Probe] = []
        self.stream: Any = None

    def note(self, data: bytes) -> Any:
        """Record a received message. Return its JSON, or None if it is not valid JSON."""
        self.log.append(f"<-- {_shortened(data)}")
        messages = decode(data, exact=True)
        for each in messages if isinstance(messages, list) else [messages]:
            if isinstance(each, InvalidMessage) and len(self.invalid) < MAX_INVALID:
                self.invalid.append(f"{each.reason}: {_shortened(data)}")
        try:
            self.received.append(json.loads(data))
            return self.received[-1]
        except (ValueError, RecursionError):
            return None

    def open(self) -> None:
        """Connect to the server and open the session, if the revision has one.

        Raises:
            ConnectionFailed: The server requires a token.
            Failed: The first response is not a result.
            ConnectionLost, RequestTimeout: See `request`.
        """
        self.connection = self.connect(self.note)
        self.session = None
        if self.is_stateless:
            self.opening = self.result("server/discover")
            return
        reply = self.request("initialize", Handshake.opening(self.revision, INFO, {}))
        if reply.status == 401:
            raise ConnectionFailed(
                "the server requires a token: use --token, or sign in with 'python3 -m minimcp "
                "login URL'"
            )
        self.opening = _result("initialize", reply)
        self.session = reply.headers.get("Mcp-Session-Id")
        self.notify("notifications/initialized")

    def close(self) -> None:
        """Close the connection; the next check opens a new one. Idempotent."""
        connection = self.connection
        self.connection = None
        if connection is not None:
            connection.close()
        for each in self.others:
            each.close()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server declares."""
        found = self.opening.get("capabilities") if isinstance(self.opening, dict) else None
        return found if isinstance(found, dict) else {}

    def headers(self, method: str = "", params: Mapping[str, Any] = {}) -> dict[str, str]:
        """Return the HTTP headers that a client sends with a message; empty over stdio."""
        if not self.connection.is_web:
            return {}
        from ..http.client import RequestHeaders
        from ..http.headers import METHOD_HEADER, SESSION_HEADER, VERSION_HEADER

        found: dict[str, str] = {}
        if self.opening is not None or self.is_stateless:
            found[VERSION_HEADER] = self.revision.name
        if self.session is not None:
            found[SESSION_HEADER] = self.session
        if self.is_stateless and method:
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
        watch: Optional[Watch] = None,
    ) -> Reply:
        """Send a request and wait for its response.

        Args:
            method: The method of the request.
            params: The params; if None, only the request metadata is sent.
            id: The id of the request; if None, one is generated.
            headers: HTTP headers that replace the usual ones; None as a value removes one.
            envelope: The request metadata (``_meta``); None means the usual one.
            watch: How long to read notifications; None means until the response arrives.

        Raises:
            ConnectionLost, ConnectionFailed: The connection is lost.
            RequestTimeout: The server does not answer in time.
        """
        self._ids += 1
        id = f"check-{self._ids}" if id is None else id
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
        given = dict(params or {})
        if self.is_stateless:
            if envelope is None:
                envelope = PerRequest.envelope_for(self.revision, INFO, {})
            given["_meta"] = dict(envelope)
        if given:
            message["params"] = given
        all_headers = {**self.headers(method, given), **headers}
        sent = {name: value for name, value in all_headers.items() if value is not None}
        return self.send(message, id, sent, watch)

    def send(
        self,
        message: Any,
        id: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        watch: Optional[Watch] = None,
    ) -> Reply:
        """Send any value as JSON, or bytes unchanged. If an id is given, wait for the response."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.log.append(f"--> {_shortened(body)}")
        reply: Reply = self.connection.exchange(
            body, id, self.headers() if headers is None else headers, watch=watch
        )
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
        """Return the result of a request.

        Raises:
            Failed: The response is an error, or its result is not an object.
        """
        return _result(method, self.request(method, params, **more))

    def is_alive(self) -> str:
        """Check that the server still answers requests, even if with an error.

        Raises:
            Failed: The server does not answer.
        """
        try:
            reply = self.request(self.ping)
        except McpError as error:
            self.close()
            raise Failed(f"afterwards the server does not answer: {error}") from None
        if reply.answer is None:
            raise Failed(f"afterwards the server answers with {reply}")
        return "the server still answers"

    def entries(self, method: str) -> list[Any]:
        """Return the entries of a list, from all of its pages.

        Raises:
            NotApplicable: The server does not offer this list.
        """
        member, capability = LISTS[method]
        if capability not in self.capabilities:
            raise NotApplicable(f"the server does not declare {capability}")
        if method not in self._lists:
            reply = self.request(method)
            if method == TEMPLATES and reply.error.get("code") == METHOD_NOT_FOUND:
                # Templates have no capability of their own.
                raise NotApplicable("the server has resources, but no templates")
            self._lists[method] = self.pages(method, member, reply)
        return self._lists[method]

    def pages(self, method: str, member: str, reply: Reply) -> list[Any]:
        """Return the entries of a list whose first page is ``reply``.

        Raises:
            Failed: A page does not have a list of objects.
        """
        found: list[Any] = []
        cursors: set[str] = set()
        while True:
            result = _result(method, reply)
            entries = result.get(member)
            if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
                raise Failed(f"{method}: {member} is not a list of objects")
            found += entries
            cursor = result.get("nextCursor")
            if cursor is None and (self.is_stateless or "nextCursor" not in result):
                return found
            if not isinstance(cursor, str) or cursor in cursors:
                self.endless.append(
                    f"{method}: nextCursor {cursor!r:.60} is not a string, or is repeated"
                )
                return found
            if len(cursors) == MAX_PAGES:
                raise Flooded(f"{method} has more than {MAX_PAGES} pages")
            cursors.add(cursor)
            reply = self.request(method, {"cursor": cursor})


TEMPLATES = "resources/templates/list"

# For each list method, the member of its result and the capability that declares it.
LISTS = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    TEMPLATES: ("resourceTemplates", "resources"),
    "prompts/list": ("prompts", "prompts"),
}


def _result(method: str, reply: Reply) -> dict[str, Any]:
    if not isinstance(reply.answer, dict) or not isinstance(reply.answer.get("result"), dict):
        raise Failed(f"{method} returned {reply}, not a result")
    found: dict[str, Any] = reply.answer["result"]
    return found


def _shortened(data: bytes) -> str:
    text = data[: 4 * MAX_SHOWN_CHARACTERS].decode("utf-8", "replace")
    if len(text) > MAX_SHOWN_CHARACTERS:
        text = text[:MAX_SHOWN_CHARACTERS] + "..."
    return one_line(text)


# ------------------------------------------------------------ checks


class ServerCheck(NamedTuple):
    """A check.

    Args:
        about: A sentence that says what the server has to do.
        row: The id of the requirement in revisions with a handshake; None if it has none there.
        row_stateless: The id of the requirement in stateless revisions; None if it has none there.
        run: Runs the check and returns the evidence, or raises `Failed` or `NotApplicable`.
        must: Whether a violation in a revision with a handshake is a failure or only a warning.
        must_stateless: The same in stateless revisions; None means the value of `must`.
        web: True limits the check to HTTP, False to stdio; None means both.
        when: Returns whether the requirement exists in a revision.
    """

    about: str
    row: Optional[str]
    row_stateless: Optional[str]
    run: Callable[[Probe], Optional[str]]
    must: bool = True
    must_stateless: Optional[bool] = None
    web: Optional[bool] = None
    when: Callable[[Revision], bool] = lambda revision: True

    def row_in(self, revision: Revision) -> Optional[str]:
        """Return the id of the requirement in a revision, or None if it does not exist there."""
        row = self.row if revision.handshake else self.row_stateless
        return row if self.when(revision) else None

    def failed_in(self, revision: Revision) -> str:
        """Return the outcome of a violation in a revision: "fail" or "warn"."""
        must = self.must
        if not revision.handshake and self.must_stateless is not None:
            must = self.must_stateless
        return "fail" if must else "warn"
