"""Streamable HTTP, the client's side, in both eras: `HttpServer` names a server, `HttpSession` is a connection to it.

The thread that makes a call sends its POST and reads the response itself; no other thread is woken for it. Another
thread, or a timer, ends a call by noting how it ends and then aborting its HTTP request. One thread, started on need,
posts what nobody waits for (``notifications/cancelled``, refused questions, the end of the session). Only streams that
stay open have threads of their own.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
import random
import threading
import time
from copy import copy
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union
from urllib.parse import urlsplit

from ..client.host import ClientHandler
from ..client.session import ClientSession, OnProgress, Params, Result, check_token, progress_reader
from ..engine.limits import Limits
from ..engine.pool import renewed_in_fork, waiting
from ..engine.requests import (
    Calls,
    CancelToken,
    IncomingRequest,
    PendingCall,
    RunningRequests,
    Sink,
)
from ..engine.timer import NEVER, Deadline, timer
from ..engine.transport import SessionGone
from ..errors import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    AuthorizationError,
    Busy,
    Cancelled,
    ConnectionFailed,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    RpcError,
    one_line,
)
from ..protocol.lifecycle import VERSION_KEY
from ..protocol.messages import (
    Failure,
    InvalidMessage,
    Json,
    Notification,
    Request,
    Response as Answer,
    decode,
    encode,
    failure,
)
from ..protocol.sse import MEDIA_TYPE, Event, EventReader
from ..schema.header_params import Mirrored, header_value, mirrored
from ..schema.hints import explained
from ..types import Tool
from .fetch import AbortableRequest, Auth, Fetcher, Response, without_secrets
from .headers import (
    JSON_TYPE,
    LAST_EVENT_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    SESSION_HEADER,
    VERSION_HEADER,
    media_type,
)

log = logging.getLogger("minimcp.client")

POST_HEADERS = {"Accept": f"{JSON_TYPE}, {MEDIA_TYPE}", "Content-Type": JSON_TYPE}

CLOSE_SECONDS = 2.0
"""What telling the server about the end may take."""

ERROR_BYTES, SHOWN_BYTES = 64 * 1024, 200
"""How much of the body of an error is read, and how much of it is shown."""

GET_SECONDS = 2.0
"""What a server gets to open the stream for notifications that belong to no request; many have none, in many ways."""

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY = 1.0, 30.0, 60.0
"""Seconds before a stream is asked for again, where the server does not say; at most, and at most if it says."""

RESUME_TRIES = 3
"""How often in a row resuming the stream of a call may fail."""

EMPTY_STREAMS = 3
"""How many streams in a row may end at once without anything new, before they are asked for less and less often."""

AT_ONCE = 64
"""HTTP requests at the same time at most when many are sent at once."""

SESSION_SECONDS = 0.5
"""What calls that are under way get to be refused too, when the server knows the session no more."""

REST_SECONDS = 0.5
"""How long a stream may stay open after its answer, before its connection is closed and not kept."""

LONGEST_SESSION_ID = 4096

PER_REQUEST_CODES = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND})
"""Codes with which a server refuses `initialize` that only knows revisions without a handshake."""

NAMED_BY = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}
"""Methods, and the member of their params that the name header repeats."""


class HttpServer:
    """A server that is named by a URL; a target of `connect`.

    Args:
        url: With http or https.
        headers: Sent with every request; None adds none.
        auth: None, a bearer token, a callable that returns one (asked for each request), or an AuthBase of `requests`.
        verify: Whether the server's certificate is checked; a path names a bundle of CAs to check it by.
        cert: A client certificate: the path of a file with key and certificate, or a pair of paths; None shows none.
        proxies: By scheme, as `requests` takes them; None leaves it to the environment.

    Raises:
        TypeError: The URL is no str.
        ValueError: It is none with http or https and a host.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        auth: Auth = None,
        verify: Union[bool, str] = True,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"a URL is a str, not {type(url).__name__}")
        if not _has_host(url):
            raise ValueError(f"a URL begins with http:// or https:// and names a host, and not so {url[:100]!r}")
        self.url = url.partition("#")[0]
        self._options: dict[str, Any] = {
            "headers": dict(headers or {}), "auth": auth, "verify": verify, "cert": cert, "proxies": proxies,
        }

    def fetcher(self) -> Fetcher:
        """What sends requests to it. Errors as `Fetcher`."""
        return Fetcher(self.url, **self._options)

    def __repr__(self) -> str:
        return f"HttpServer({without_secrets(self.url)!r})"


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


class RequestHeaders:
    """The headers of requests in which each POST stands alone: what of the body stands in them too. Thread-safe.

    Args:
        name: Of the connection, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tools: dict[str, list[Mirrored]] = {}
        self._warned: set[str] = set()

    def admitted(self, tools: Iterable[Tool]) -> list[Tool]:
        """Note which arguments of freshly listed tools travel in headers; the tools but for those that cannot be
        called, because what they say about headers is wrong."""
        known: dict[str, list[Mirrored]] = {}
        admitted = []
        for tool in tools:
            try:
                known[tool.name] = mirrored(tool.input_schema)
            except ValueError as error:
                if tool.name not in self._warned:
                    self._warned.add(tool.name)
                    log.warning("%s: the tool %s is left out: %s", self._name, one_line(tool.name), error)
                continue
            admitted.append(tool)
        self._tools = known
        return admitted

    def of(self, method: str, params: Mapping[str, Json]) -> dict[str, str]:
        """The headers of a request or notification that carries its revision; none for another.

        Raises:
            ValueError: A value cannot stand in a header.
        """
        meta: Any = params.get("_meta") or {}
        revision = meta.get(VERSION_KEY)
        if revision is None:
            return {}
        headers = {VERSION_HEADER: revision, METHOD_HEADER: header_value(method) or ""}
        name = params.get(NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers[NAME_HEADER] = header_value(name) or ""
        if method == "tools/call":
            for each in self._tools.get(str(name), ()):
                value = header_value(each.value(params.get("arguments")))
                if value is not None:
                    headers[PARAM_PREFIX + each.name] = value
        return headers


class _Call(PendingCall):
    """One request of ours, and the HTTP request that carries it, which is aborted when another thread ends the call."""

    def __init__(
        self, request: Request, line: bytes, deadline: Deadline, on_item: Optional[Callable[[Any], None]]
    ) -> None:
        super().__init__(request.id, request.method, on_item)
        self.request, self.line, self.deadline = request, line, deadline
        self.http = AbortableRequest()

    def end(self, ending: Any) -> None:
        super().end(ending)
        self.http.abort()

    def pause(self) -> Callable[[], None]:
        """Let the deadline stand; returns what ends that, once."""
        self.deadline.pause()
        resume = [self.deadline.resume]
        return lambda: resume.pop()() if resume else None

    def report(self) -> None:
        """Run the callback for progress that has come (the calling thread)."""
        while not self.queue.empty():
            item = self.queue.get()
            if self.on_item is not None and item is not self:
                self.on_item(item)


class HttpSession(ClientSession):
    """A connection over Streamable HTTP.

    Args:
        server: Where to.
        handler: As `ClientSession`.
        limits: What the server may cost this client.
        trace: As `tracer` makes it; None for no trace.

    Attributes:
        refused: The status with which the server refused `initialize`, if it did and what it said was no error of a
            server that has no handshake.

    Raises:
        ImportError, ValueError: As `Fetcher`.
    """

    in_order = False

    def __init__(
        self,
        server: HttpServer,
        handler: ClientHandler,
        limits: Limits,
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> None:
        self._fetcher, self._url = server.fetcher(), server.url
        super().__init__(self._fetcher.shown, handler)
        self.mirror: Any = RequestHeaders(self.name)
        self.refused: Optional[int] = None
        self._limits, self._trace = limits, trace
        self._session: Optional[str] = None
        self._gone: Optional[SessionGone] = None
        self._calls = Calls(self.name, self._send, self._tell)
        self._aside: set[AbortableRequest] = set()
        """HTTP requests of ours that belong to no call."""
        self._asked = RunningRequests(limits)
        self._ended = threading.Event()
        self._lock = threading.RLock()  # a signal handler may cancel a call in the middle of this
        self._jobs: SimpleQueue[Optional[Callable[[], Any]]] = SimpleQueue()
        self._sender: Optional[threading.Thread] = None
        self._next_look = float("inf")
        self._forget_look: Callable[[], None] = _nothing
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """In a forked process the connections are those of another one: let go of them without a word."""
        self._lock, self._sender, self._session = threading.RLock(), None, None
        self._calls.close(ConnectionLost(f"{self.name}: this process is a fork of the one that connected"))
        self._ended.set()
        self._fetcher.close_descriptors()

    # ------------------------------------------------------------ its beginning and end

    @property
    def _resumes(self) -> bool:
        """Whether streams may be resumed; where each request stands alone nothing is."""
        return self.handler.era is None or self.handler.era.revision.handshake

    def ready(self, deadline: Deadline) -> None:
        """Open the stream for notifications that belong to no request, where a handshake was made; a server need not
        have one."""
        if self._resumes:
            opened = threading.Event()
            thread = threading.Thread(target=self._listen, args=(opened,), name=f"minimcp-{self.name}", daemon=True)
            thread.start()
            opened.wait(deadline.within(GET_SECONDS).wait())

    @property
    def cause(self) -> Optional[BaseException]:
        return self._calls.cause

    @property
    def pending(self) -> int:
        return len(self._calls)

    def stop(self, cause: Exception) -> None:
        for call in self._calls.waiting():
            self._calls.end(call, self._gone or cause)
        self._lose(cause)

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        return self._ended.wait(seconds)

    def close(self) -> None:
        self.abandon()
        sender = self._sender
        if sender is not None and sender is not threading.current_thread():
            sender.join(CLOSE_SECONDS)
        for http in list(self._aside):
            http.abort()
        self._fetcher.close()

    def abandon(self) -> None:
        ends_session = self._session is not None and self.cause is None
        self.stop(ConnectionLost(f"{self.name}: closed"))
        if ends_session:
            self._later(self._delete)
        if self._sender is not None:
            self._jobs.put(None)

    def _lose_session(self, call: Optional[_Call] = None) -> SessionGone:
        """The server knows the session no more; each call that is under way has some time to hear so for itself.

        Args:
            call: Which has just heard so; None for one that is not sent.

        Returns:
            How a request ends that the server has not run.
        """
        refusal = SessionGone(f"{self.name}: the server has ended the session")
        refusal.refused = True
        if call is not None:
            self._calls.settle(call.id, refusal)
        with self._lock:
            if self._gone is None and self.cause is None:
                self._gone = SessionGone(f"{self.name}: the server has ended the session")
                timer.after(SESSION_SECONDS if len(self._calls) else 0.0, partial(self._lose, self._gone))
        return refusal

    def _lose(self, cause: Exception) -> None:
        """End all calls and refuse further ones with this cause, and tell the handler. Idempotent."""
        with self._lock:
            if self.cause is not None:
                return
            self._calls.close(self._gone or cause)
        self._forget_look()
        for http in list(self._aside):
            http.abort()
        self._asked.abandon("the connection has ended")
        self._ended.set()
        self.handler.lost(cause if isinstance(cause, ConnectionLost) else ConnectionLost(str(cause)))

    # ------------------------------------------------------------ requests

    def request(
        self,
        method: str,
        params: Params,
        deadline: Deadline,
        cancel: Optional[CancelToken] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result:
        check_token(cancel)
        return self._run(self._call(method, params, deadline, on_progress), cancel)

    def _call(
        self, method: str, params: Params, deadline: Deadline, on_progress: Optional[OnProgress] = None
    ) -> _Call:
        """A request that is ready to be sent. Raises TypeError and ValueError."""
        on_item = None if on_progress is None else progress_reader(on_progress)
        id = self._calls.new_id()
        request = Request(id, method, self.add_envelope(params, id, on_progress))
        try:
            return _Call(request, encode(request), deadline, on_item)
        except (TypeError, ValueError) as error:
            raise explained(method, params, error) from None

    def _run(self, call: _Call, cancel: Optional[CancelToken]) -> Result:
        """Send a request and read what answers it, on this thread."""
        self._add(call)
        forget = _nothing
        if cancel is not None:
            token = cancel
            forget = token.on_cancel(lambda: self._calls.end(call, Cancelled(token.reason or "cancelled")))
        try:
            with waiting():
                self._calls.settle(call.id, self._answer(call))
                call.report()
        except McpError as error:
            self._calls.settle(call.id, error)  # unless another thread has ended the call before
        except BaseException:
            self._calls.end(call, Cancelled("the caller gave up"))
            raise
        finally:
            forget()
        if cancel is not None and cancel.cancelled and not call.failed:
            raise Cancelled(cancel.reason or "cancelled")  # an answer may beat a token that was cancelled before
        return self._result(call)

    def _result(self, call: _Call) -> Result:
        if isinstance(call.ending, BaseException):
            raise copy(call.ending) from None
        assert call.ending is not None
        return self.result_of(call.method, call.ending)

    def _add(self, call: _Call) -> None:
        """Register a call. Raises ConnectionLost."""
        if self._gone is not None:
            raise self._lose_session()
        self._calls.add(call)
        left = call.deadline.remaining()
        if left is not None:
            self._look_in(left)

    def _look_in(self, seconds: float) -> None:
        """Have the timer look at the deadlines of all calls then; one look is ordered at a time."""
        seconds = max(seconds, 0.02)  # a deadline that stands is looked at again and again
        with self._lock:
            at = time.monotonic() + seconds
            if at < self._next_look:
                self._forget_look()
                self._next_look, self._forget_look = at, timer.after(seconds, self._look)

    def _look(self) -> None:
        self._next_look = float("inf")
        for call in self._calls.waiting():
            left = call.deadline.remaining()
            if call.deadline.expired:
                params = call.request.params if isinstance(call, _Call) else {}
                self._calls.time_out(call, params.get("name", params.get("uri")))
            elif left is not None:
                self._look_in(left)

    def request_all(
        self, method: str, params: Sequence[Params], deadline: Deadline, cancel: Optional[CancelToken] = None
    ) -> list[Union[Result, Exception]]:
        check_token(cancel)
        calls = [self._call(method, one, deadline) for one in params]
        self.check()
        outcomes: list[Any] = [None] * len(calls)
        numbers = iter(range(len(calls)))
        stop, done = CancelToken(), threading.Semaphore(0)

        def work() -> None:
            for number in numbers:
                try:
                    outcomes[number] = self._run(calls[number], stop)
                except Exception as error:
                    outcomes[number] = error
            done.release()

        forget = _nothing if cancel is None else cancel.on_cancel(lambda: stop.cancel(cancel.reason))
        threads = min(len(calls), AT_ONCE)
        for _ in range(threads):
            self.handler.host.pool.spawn(work)
        try:
            with waiting():
                for _ in range(threads):
                    done.acquire()
        except BaseException:  # such as Ctrl-C: the server need not go on
            stop.cancel("the caller gave up")
            raise
        finally:
            forget()
        return outcomes

    def open_stream(
        self,
        method: str,
        params: Params,
        on_message: Callable[[Notification], None],
        on_end: Callable[[Union[Result, Exception]], None],
    ) -> Callable[[], None]:
        call = self._call(method, params, NEVER)
        self._add(call)
        self.handler.streams[call.id] = on_message

        def read() -> None:
            ending: Union[Result, Exception]
            try:
                self._calls.settle(call.id, self._answer(call))
            except Exception as error:
                self._calls.settle(call.id, error)
            self.handler.streams.pop(call.id, None)
            try:
                ending = self._result(call)
            except Exception as error:
                ending = error
            on_end(ending)

        threading.Thread(target=read, name=f"minimcp-{self.name}-stream", daemon=True).start()
        return lambda: _ignore(self._calls.end(call, Cancelled("the stream was closed")))

    # ------------------------------------------------------------ notifications and answers of ours

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        self.check()
        self._send(encode(Notification(method, dict(params))), deadline)

    def _send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Post what has no answer; what goes wrong is logged. Blocks: until it was taken, or the deadline."""
        http, left = AbortableRequest(), deadline.remaining()
        forget = _nothing if left is None else timer.after(left, http.abort)
        self._aside.add(http)
        try:
            message = decode(line)
            response = self._post(http, message if isinstance(message, Notification) else None, line)
            try:
                if response.status >= 300:
                    log.warning("%s: a message was not taken: %s", self.name, _words(self.error_of(response)))
                else:
                    response.start(ERROR_BYTES)  # there should be nothing; read to its end, the connection is kept
            finally:
                response.close()
        except Exception as error:
            tell = log.debug if http.aborted.is_set() or self.cause is not None else log.warning
            tell("%s: a message did not arrive: %s", self.name, error)
        finally:
            forget()
            self._aside.discard(http)
        return True

    def _delete(self) -> None:
        """Tell the server that the session has ended."""
        http = AbortableRequest()
        self._aside.add(http)
        try:
            response = self._fetcher.send(http, "DELETE", self._session_headers())
            response.start(ERROR_BYTES)
            response.close()
        except McpError as error:
            log.debug("%s: %s", self.name, error)
        finally:
            self._aside.discard(http)

    def _tell(self, line: bytes) -> None:
        """Have a notification or an answer posted that nobody waits for. Never blocks."""
        if self._resumes:  # elsewhere closing the response says that a request is cancelled, and nothing is asked
            self._later(partial(self._send, line))

    def _later(self, job: Callable[[], Any]) -> None:
        with self._lock:
            if self._sender is None:
                self._sender = threading.Thread(target=self._run_jobs, name=f"minimcp-{self.name}-sender", daemon=True)
                self._sender.start()
        self._jobs.put(job)

    def _run_jobs(self) -> None:
        job = self._jobs.get()
        while job is not None:
            job()
            job = self._jobs.get()

    def _post(self, http: AbortableRequest, message: Union[Request, Notification, None], line: bytes) -> Response:
        """Send a POST. Errors as `Fetcher.send`."""
        if self._trace is not None:
            self._trace("-->", line.rstrip(b"\n"))
        headers = dict(POST_HEADERS)
        if message is not None:
            headers.update(self.mirror.of(message.method, message.params))
        if VERSION_HEADER not in headers and (message is None or message.method != "initialize"):
            headers.update(self._session_headers())
            if not self._resumes and message is not None:
                headers[METHOD_HEADER] = message.method
        return self._fetcher.send(http, "POST", headers, line)

    def _session_headers(self) -> dict[str, str]:
        headers = {} if self.handler.era is None else {VERSION_HEADER: self.handler.era.revision.name}
        if self._session is not None:
            headers[SESSION_HEADER] = self._session
        return headers

    # ------------------------------------------------------------ responses

    def _answer(self, call: _Call) -> Union[Result, Failure]:
        """Post a request and read its response, until the answer is there.

        Raises:
            McpError: There is none.
        """
        response = self._post(call.http, call.request, call.line)
        try:
            opens = call.method == "initialize"
            if response.status == 404 and self._session is not None and not opens:
                raise self._lose_session(call)
            if response.status >= 300:
                ending = self.error_of(response)
                if opens and not (isinstance(ending, Failure) and ending.code in PER_REQUEST_CODES):
                    self.refused = response.status
                if isinstance(ending, Exception):
                    raise ending
                return ending
            if opens:
                self._session = _checked_session(response.headers.get(SESSION_HEADER))
            kind = media_type(response.headers.get("Content-Type"))[0]
            if kind == MEDIA_TYPE:
                return self._follow(call, response)
            body = response.body(self._limits.message_bytes) if kind == JSON_TYPE else response.start(ERROR_BYTES)
            answer = self._receive(body, call) if kind == JSON_TYPE else None
            if answer is not None:
                return answer
            if response.status == 200 and not body and not response.framed:
                raise ConnectionLost(f"{self.name}: the connection broke in the middle of the response")
            what = f"HTTP {response.status} with {one_line(kind) or 'no content type'}: {one_line(body)}"
            raise ProtocolViolation(f"{self.name}: {call.method} was answered by what is no answer: {what}")
        finally:
            response.close()
            call.http.finish()

    def error_of(self, response: Response) -> Union[Failure, Exception]:
        """What a response that is no success means: an error of the protocol, if one is in it."""
        body, status = response.start(ERROR_BYTES), response.status
        text = body[:SHOWN_BYTES].decode("utf-8", "replace").strip()
        told = f"{self.name}: HTTP {status}" + (f": {one_line(text, SHOWN_BYTES)}" if text else ", and nothing more")
        if status in (401, 403):
            challenge = response.headers.get("WWW-Authenticate", "")
            return AuthorizationError(f"{told}{' (' + one_line(challenge) + ')' if challenge else ''}")
        if media_type(response.headers.get("Content-Type"))[0] == JSON_TYPE:
            decoded = decode(body.strip())
            if isinstance(decoded, Failure):
                return decoded
            if response.cut is not None:
                return response.cut
        if 300 <= status < 400:
            where = one_line(response.headers.get("Location", "nowhere"))
            return ProtocolViolation(
                f"{told}: it redirects to {where}, and redirects are not followed but to the same origin: name that URL"
            )
        if status in (408, 429) or status >= 500:
            after = response.headers.get("Retry-After", "")
            lost = f"{told}{' (Retry-After: ' + one_line(after, 40) + ')' if after else ''}"
            if status == 429 and after.isascii() and after.isdigit() and len(after) < 10:
                return Busy(lost, int(after))
            return ConnectionLost(lost)
        return ProtocolViolation(told)

    def _follow(self, call: _Call, response: Response) -> Union[Result, Failure]:
        """Read the stream that answers a request, and what takes its place when it is cut, until the answer is there.

        Raises:
            ConnectionLost: It has ended and cannot be resumed.
            ProtocolViolation: An event is too long.
        """
        resumption = _Resumption()
        while True:
            reader, brief = EventReader(self._limits.message_bytes), Deadline(FIRST_PAUSE)
            try:
                answer, cut = self._read_events(response, reader, call)
            finally:
                response.close()
            if answer is not None:
                return answer
            resumption.after(reader, brief)
            if call.http.aborted.is_set() or not resumption.last or not self._resumes:
                raise ConnectionLost(f"{self.name}: the event stream ended before the answer{cut}")
            response = self._resume(resumption, call.http)

    def _read_events(
        self, response: Response, reader: EventReader, call: Optional[_Call]
    ) -> tuple[Union[Result, Failure, None], str]:
        """Read a stream until it ends or has brought the answer to a call; the answer, and how it was cut, in words."""
        answer = None
        while answer is None:
            try:
                data = response.read()
            except ConnectionLost as error:
                return None, f": {error}"
            if not data:
                return None, ""
            for event in reader.feed(data):
                if is_message(event):
                    found = self._receive(event.data.encode(), call)
                    answer = found if answer is None else answer
        response.read_rest(REST_SECONDS)
        return answer, ""

    def _resume(self, resumption: _Resumption, http: AbortableRequest) -> Response:
        """Ask for the rest of a stream."""
        failures = 0
        while not http.aborted.wait(resumption.pause(failures)):
            try:
                response = self._get(http, resumption.last)
            except (ConnectionFailed, ConnectionLost):
                failures += 1
                if failures == RESUME_TRIES:
                    raise
                continue
            if _is_stream(response):
                return response
            response.close()
            told = f"{self.name}: the event stream was cut and cannot be resumed: HTTP {response.status}"
            raise ConnectionLost(told)
        raise ConnectionLost(f"{self.name}: given up")

    def _get(self, http: AbortableRequest, last_id: str) -> Response:
        headers = {"Accept": MEDIA_TYPE, **self._session_headers()}
        if last_id:
            headers[LAST_EVENT_HEADER] = last_id
        return self._fetcher.send(http, "GET", headers)

    def _listen(self, opened: threading.Event) -> None:
        """Keep the stream open for notifications that belong to no request; that a server has none is no error."""
        http, resumption, failures = AbortableRequest(), _Resumption(), 0
        self._aside.add(http)
        try:
            while self.cause is None and not (failures and http.aborted.wait(resumption.pause(failures - 1))):
                failures += 1
                try:
                    response = self._get(http, resumption.last)
                except (ConnectionFailed, ConnectionLost) as error:
                    log.debug("%s: %s", self.name, error)
                    opened.set()
                    continue
                try:
                    if not _is_stream(response):
                        log.debug("%s: no stream for notifications: HTTP %d", self.name, response.status)
                        return
                    opened.set()
                    reader, brief, failures = EventReader(self._limits.message_bytes), Deadline(FIRST_PAUSE), 1
                    self._read_events(response, reader, None)
                finally:
                    response.close()
                resumption.after(reader, brief)
        except Exception as error:
            log.warning("%s: the stream for notifications has ended: %s", self.name, error)
        finally:
            opened.set()
            self._aside.discard(http)

    # ------------------------------------------------------------ messages of the server

    def _receive(self, data: bytes, call: Optional[_Call]) -> Union[Result, Failure, None]:
        """Take in a message; returns the answer to a call, if it is that.

        Args:
            data: The message, or an array of them.
            call: Whose response brought it; None for another stream.

        Raises:
            ProtocolViolation: The answer to the call is none.
        """
        if self._trace is not None:
            self._trace("<--", data)
        decoded = decode(data, max_depth=self._limits.depth)
        answer = None
        for message in decoded if isinstance(decoded, list) else (decoded,):
            if isinstance(message, (Answer, Failure)):
                found = self._answer_in(message, call)
                answer = found if answer is None else answer
            elif isinstance(message, Notification):
                self._notified(message, call)
            elif isinstance(message, Request):
                self._serve(message, call, len(data))
            else:
                self._refuse(message, data, call)
        return answer

    def _answer_in(self, message: Union[Answer, Failure], call: Optional[_Call]) -> Union[Result, Failure, None]:
        ending = message.result if isinstance(message, Answer) else message
        id = message.id
        if call is None:
            if id is not None and self._calls.settle(id, ending):
                return None  # it came by another stream than that of the call
        elif (id is None and isinstance(message, Failure)) or (type(id) is type(call.id) and id == call.id):
            return ending
        log.debug("<-- an answer to %s, which nobody waits for here", one_line(id))
        return None

    def _notified(self, message: Notification, call: Optional[_Call]) -> None:
        params = message.params
        if message.method == "notifications/progress":
            if self._calls.progress(params) is call and call is not None:
                call.report()
        elif message.method == "notifications/cancelled":
            self._asked.cancel(params)
        else:
            self.handler.notified(message)

    def _serve(self, request: Request, call: Optional[_Call], size: int) -> None:
        """Have the host answer a question; deadlines stand meanwhile: that of the call on whose stream it came."""
        try:
            admitted = self.handler.admit(request)
            if admitted is None:
                return
            resume = self._calls.pause_all() if call is None else call.pause()
            incoming = IncomingRequest(request, *admitted, _AnswerSink(self, resume), size)
            self._asked.add(incoming)
        except RpcError as error:
            self._tell(encode(failure(request.id, error)))
            return
        if admitted[1].immediate:
            incoming.run()
        else:
            self.handler.host.pool.submit(incoming.run)

    def _refuse(self, broken: InvalidMessage, data: bytes, call: Optional[_Call]) -> None:
        """Deal with what is no message: it may have been meant as the answer to a call."""
        violation = ProtocolViolation(broken.reason, data.decode("utf-8", "replace"))
        if broken.kind in ("response", "unknown"):
            if call is not None and (broken.id == call.id or (broken.id is None and broken.kind == "response")):
                raise violation
            if broken.id is not None and self._calls.settle(broken.id, violation):
                return
        if broken.kind == "request" and broken.id is not None and self.handler.takes_requests:
            self._tell(encode(Failure(broken.id, broken.code, broken.reason)))
        else:
            log.warning("<-- what is no message (%s): %s", broken.reason, one_line(data))


class _AnswerSink(Sink):
    """Where the answer to a question of the server goes: a POST of its own.

    Args:
        session: Whose it is.
        resume: Ends the pause of the deadlines that stand until the answer is there. Idempotent.
    """

    def __init__(self, session: HttpSession, resume: Callable[[], None]) -> None:
        self._session, self._resume = session, resume
        self.requests = session._asked

    def respond(self, request: IncomingRequest, line: bytes, wait: bool = True) -> bool:
        self._resume()
        return super().respond(request, line, wait)

    def deliver(self, line: bytes, wait: bool) -> None:
        if wait and not self._session.cause:
            self._session._send(line)
        else:
            self._session._tell(line)

    def post(self, line: Any) -> None:
        self._session._tell(line)

    def spawn(self, job: Callable[[], object]) -> None:
        self._session.handler.host.pool.spawn(job)


class _Resumption:
    """What a stream is asked for with after it was cut, and how soon.

    ``last`` is the id that was seen last; empty when there was none.
    """

    def __init__(self) -> None:
        self.last = ""
        self._retry: Optional[int] = None
        self._empty = 0

    def after(self, reader: EventReader, brief: Deadline) -> None:
        """A stream has ended.

        Args:
            reader: Which has read it.
            brief: Until when its end was a quick one.
        """
        is_empty = not brief.expired and reader.last_id in ("", self.last)
        self._empty = self._empty + 1 if is_empty else 0
        self.last = reader.last_id or self.last
        if reader.retry is not None:
            self._retry = reader.retry

    def pause(self, failures: int) -> float:
        """Seconds before the next attempt, after so many failures: never less than the server asks for."""
        asked = FIRST_PAUSE if self._retry is None else min(self._retry / 1000, LONGEST_RETRY)
        failures += max(0, self._empty - EMPTY_STREAMS)
        longer = min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE) * random.uniform(0.5, 1)
        return max(asked, longer) if failures else asked


def is_message(event: Event) -> bool:
    """Whether a message is in it; one without data only says an id."""
    return event.event == "message" and bool(event.data)


def _is_stream(response: Response) -> bool:
    return response.status == 200 and media_type(response.headers.get("Content-Type"))[0] == MEDIA_TYPE


def _words(ending: Union[Failure, Exception]) -> str:
    return f"{ending.message} ({ending.code})" if isinstance(ending, Failure) else str(ending)


def _checked_session(id: Optional[str]) -> Optional[str]:
    if id is None:
        return None
    if not id or len(id) > LONGEST_SESSION_ID or not all("\x21" <= char <= "\x7e" for char in id):
        raise ProtocolViolation("a session id has visible ASCII characters only, and not very many", id[:100])
    return id


def _nothing() -> None:
    pass


def _ignore(_: object) -> None:
    pass
