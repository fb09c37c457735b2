"""The client's side of Streamable HTTP: `HttpServer` names a server, `HttpClientSession` is a
connection to one, with or without a handshake.

The calling thread sends the POST of a call and reads the response itself. Another thread, or a
timer, ends a call by storing its outcome and then aborting its HTTP request. A request of the
server runs in the client's pool, and the thread that has run the host's function posts the
response. One more thread, started when it is needed, posts messages that no thread waits for:
``notifications/cancelled``, errors for requests that the host does not support, and the end of the
session. Only streams that stay open have their own threads: the stream for notifications, and in
HTTP+SSE the stream with all messages of the server.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import math
import random
import re
import threading
import time
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping, NoReturn, Optional, Union
from urllib.parse import urlsplit

from ..client.host import Host
from ..client.session import ClientSession, Params, Result
from ..engine.calls import Calls, MakeParams, PendingCall, Pinged
from ..engine.dispatch import Dispatcher
from ..engine.incoming import Sink
from ..engine.limits import Limits
from ..engine.pool import Pool, renewed_in_fork, waiting
from ..engine.running import RunningRequests
from ..engine.timer import LOOK_SECONDS, NEVER, Deadline, timer
from ..errors import (
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    AuthorizationError,
    Busy,
    Cancelled,
    ConnectionFailed,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    RequestTimeout,
    SessionGone,
)
from ..log import logger
from ..protocol.lifecycle import VERSION_KEY
from ..protocol.messages import (
    Failure,
    InvalidMessage,
    Json,
    Notification,
    Request,
    Response,
    decode,
    encode,
)
from ..protocol.urls import parse_web_url
from ..schema.header_params import HeaderParam, header_params, header_value
from ..text import one_line
from ..types import Tool
from .fetch import AbortableRequest, Auth, Fetcher, FetchResponse, is_credential, without_secrets
from .headers import (
    JSON_TYPE,
    LAST_EVENT_HEADER,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_BY,
    PARAM_PREFIX,
    SESSION_HEADER,
    VERSION_HEADER,
    media_type,
)
from .sse import MEDIA_TYPE, EventReader, SseEvent

log = logger("minimcp.client")

POST_HEADERS = {"Accept": f"{JSON_TYPE}, {MEDIA_TYPE}", "Content-Type": JSON_TYPE}
GET_HEADERS = {"Accept": MEDIA_TYPE}

# Seconds within which `close` tries to end the session on the server.
CLOSE_SECONDS = 2.0

# Headers of an HTTP error that its message shows.
SHOWN_HEADERS = ("WWW-Authenticate", "Retry-After", "Location")

# Maximum number of bytes of an error's body that are read.
ERROR_BYTES = 64 * 1024

# Maximum number of bytes of it that an error message shows.
SHOWN_BYTES = 200

# Seconds after which the rest of an error's body is not read: some servers never end the body.
ERROR_PAUSE = 5.0

# Statuses with which real servers reject an unknown session; 404 is the one of the specification.
# Because they may also reject only the request, the client then sends a ping. 401 counts only if
# the client has no credentials.
UNKNOWN_SESSION = (400, 404, 410, 422)

# Seconds that the client waits for the response to that ping.
PROBE_SECONDS = 5.0

# The largest Retry-After that is used, in seconds: a day. A larger one counts as a day.
MAX_RETRY_AFTER = 86_400

# Seconds that `ready` waits for the stream for notifications. Many servers do not offer one, and
# some of those never respond.
GET_SECONDS = 2.0

# Seconds before a stream is requested again, if the server does not say how many. They double with
# each failure up to MAX_PAUSE.
FIRST_PAUSE = 1.0
MAX_PAUSE = 30.0

# Maximum number of these seconds if the server says how many.
MAX_RETRY_SECONDS = 60.0

# Maximum number of consecutive failures to resume the stream of a call.
RESUME_TRIES = 3

# Number of consecutive streams that may end early without a message. After that, the pauses before
# the next stream grow.
EMPTY_STREAMS = 3

# Minimum number of seconds between two streams, even if the server asks for less.
MIN_PAUSE = 0.1

# Maximum number of queued messages that no thread waits for. More are dropped.
MAX_QUEUED = 10_000

# Maximum number of bytes of such a message. A longer one is dropped.
MAX_QUEUED_BYTES = 4096

# Maximum number of concurrent HTTP requests when many calls are started together.
AT_ONCE = 64

# Seconds that running calls get to be rejected themselves, after the server has ended the session.
SESSION_SECONDS = 0.5

# Seconds that a stream may stay open after its response. Then its connection is closed, not reused.
REST_SECONDS = 0.5

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,4096}")


class HttpServer:
    """A server at a URL, a target of `connect`.

    Args:
        url: A URL with http or https.
        headers: Headers to send with every request; None means none.
        auth: None, a bearer token, a callable that returns one (called for each request), an
            AuthBase of `requests`, or a `SignIn`, `ClientCredentials`, `EnterpriseManaged` or
            `WorkloadIdentity`.
        verify: Whether to check the server's certificate, or the path of a CA bundle to check it
            with. None also trusts the certificates of the operating system, if the package
            ``truststore`` is installed.
        cert: A client certificate: the path of a file with key and certificate, or a pair of paths;
            omitted if None.
        proxies: Proxy URLs by scheme, as in `requests`; None means those of the environment.

    Raises:
        TypeError: The URL is not a str.
        ValueError: The text is not an http or https URL with a host.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        auth: Auth = None,
        verify: Union[bool, str, None] = None,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"a URL must be a str, not {type(url).__name__}")
        parts = parse_web_url(url, userinfo=True)
        self.url = url.partition("#")[0]
        # Whether the user passed credentials.
        names = [name.lower() for name in headers or ()]
        self.has_auth = auth is not None or "authorization" in names or "@" in urlsplit(url).netloc
        has_secret = self.has_auth or any(map(is_credential, names))
        is_open = parts.scheme != "https" and not parts.is_local
        # `Fetcher` rejects a `SignIn` and similar objects with such a URL.
        if has_secret and is_open and not hasattr(auth, "for_server"):
            log.warning(
                "%s: the token is sent over http, where anyone on the network path can read it: "
                "use https",
                without_secrets(self.url),
            )
        # Makes a `Fetcher` for the server.
        self.fetcher = partial(
            Fetcher,
            self.url,
            headers=dict(headers or {}),
            auth=auth,
            verify=verify,
            cert=cert,
            proxies=proxies,
        )

    def __repr__(self) -> str:
        return f"HttpServer({without_secrets(self.url)!r})"


class RequestHeaders:
    """Makes the headers of stateless requests, which repeat members of the body. Thread-safe.

    Args:
        name: The name of the connection, for messages.
        extended: The entries that extensions add to `NAMED_BY`.
    """

    def __init__(self, name: str, extended: Mapping[str, str]) -> None:
        self._name = name
        self._named_by = {**NAMED_BY, **extended}
        self._tools: dict[str, list[HeaderParam]] = {}
        self._warned: set[str] = set()

    def usable_tools(self, tools: Iterable[Tool], deadline: Deadline) -> list[Tool]:
        """Store which arguments of newly listed tools are sent in headers, and return the tools.

        Tools that declare their headers wrongly cannot be called. They are logged and left out.

        Raises:
            RequestTimeout: The deadline passed.
        """
        known: dict[str, list[HeaderParam]] = {}
        warned = set()
        usable = []
        for tool in tools:
            if deadline.expired:
                raise RequestTimeout(
                    f"{self._name}: tools/list took longer than {deadline.seconds:g} s"
                )
            try:
                known[tool.name] = header_params(tool.input_schema)
                usable.append(tool)
            except ValueError as error:
                warned.add(tool.name)
                if tool.name not in self._warned:
                    log.warning("%s: the tool %s is left out: %s", self._name, tool.name, error)
        self._tools = known
        self._warned = warned
        return usable

    def of(self, method: str, params: Mapping[str, Json]) -> dict[str, str]:
        """Return the headers of a message. Empty if its metadata does not name a revision.

        Raises:
            ValueError: A value cannot be sent in a header.
        """
        meta: Any = params.get("_meta") or {}
        revision = meta.get(VERSION_KEY)
        if revision is None:
            return {}
        headers = {VERSION_HEADER: revision, METHOD_HEADER: header_value(method) or ""}
        name = params.get(self._named_by.get(method, ""))
        if isinstance(name, str):
            headers[NAME_HEADER] = header_value(name) or ""
        for each in self._tools.get(str(name), ()) if method == "tools/call" else ():
            value = header_value(each.value(params.get("arguments")))
            if value is not None:
                headers[PARAM_PREFIX + each.name] = value
        return headers


class _Call(PendingCall):
    """A call, and the HTTP request that sends it. Ending the call aborts the HTTP request."""

    # The result or error from its own response. Set before the response is read to its end.
    answer: Union[Result, Failure, None] = None
    # Whether a thread of the pool sends it, and whether sending has begun.
    spawned = sent = False

    def __init__(
        self, request: Request, on_item: Optional[Callable[[Any], None]], deadline: Deadline
    ) -> None:
        super().__init__(request.id, request.method, on_item, deadline=deadline)
        self.request = request
        self.line = encode(request)
        self.http = AbortableRequest(deadline)
        # Cancels the questions that arrived on the stream of this call.
        self.cancel_questions: list[Callable[[], object]] = []

    def settle(self, outcome: Any) -> None:
        super().settle(outcome)
        self.http.abort()
        for cancel in self.cancel_questions:
            cancel()


class _HttpCalls(Calls):
    """The calls of a session. The thread that waits for a call sends the POST and reads it.

    Args:
        session: The session.
    """

    def __init__(self, session: HttpClientSession) -> None:
        super().__init__(session.name, session._send, session._tell)
        self._session = session
        self._lock = threading.RLock()  # a signal handler may make a call in the middle of this
        self._next_look = float("inf")
        self.forget_look: Callable[[], object] = int

    def send_all(
        self, requests: Any, on_item: Any = None, *, deadline: Deadline = NEVER
    ) -> list[Any]:
        """Start calls, like `Calls.send_all`.

        Threads of the pool send several calls. A single call is sent by the thread that waits.
        """
        numbered = [(next(self._ids), method, make_params) for method, make_params in requests]
        calls = [
            _Call(Request(id, method, make_params(id)), on_item, deadline)
            for id, method, make_params in numbered
        ]
        self._was_used[0] = True
        for call in calls:
            call.spawned = len(calls) > 1
            self.add(call)
        self._look_in(deadline.remaining())
        rest = iter(calls)
        try:
            for _ in calls[:AT_ONCE] if len(calls) > 1 else ():
                self._session.host.pool.spawn(partial(self._perform_each, rest))
        except BaseException:  # Ctrl-C while a thread starts
            # The newest call first, so that calls that are not sent yet are never sent.
            for call in reversed(calls):
                self.end(call, Cancelled("the caller gave up"))
            raise
        return calls

    def ping(self, method: str, make_params: MakeParams) -> PendingCall:
        """Start a ping, like `Calls.ping`. A thread of the pool sends it and reads the response."""
        id = next(self._ids)
        call = _Call(Request(id, method, make_params(id)), None, NEVER)
        call.spawned = True
        self.add(call)
        self._session.host.pool.spawn(partial(self._perform_each, iter([call])))
        return call

    def _perform_each(self, calls: Iterator[_Call]) -> None:
        for call in calls:
            try:
                # Otherwise the call ends unsent.
                if call.outcome is None and self.cause is None and not call.deadline.expired:
                    self._perform(call)
            except Exception as error:
                self.settle(call.id, error)

    def _perform(self, call: _Call) -> None:
        self._session._perform(call)
        if call.answer is not None:
            self.settle(call.id, call.answer)

    def wait(
        self, call: Any, deadline: Deadline, *, about: Json = None, group: Any = ()
    ) -> Union[Result, Failure]:
        """Wait for a call, like `Calls.wait`. Send it first, unless the pool does."""
        try:
            if not call.spawned:
                with waiting():
                    self._perform(call)
        except McpError as error:
            self.settle(call.id, error)  # no effect if another thread has ended the call
        except BaseException:
            self.end(call, Cancelled("the caller gave up"))
            raise
        return super().wait(call, deadline, about=about)

    def _look_in(self, left: Optional[float]) -> None:
        """Check the deadlines of all calls after this number of seconds; None means never.

        At most one timer is set.
        """
        # If the deadline of a call is paused, it is checked again every LOOK_SECONDS.
        seconds = max(left or 0.0, LOOK_SECONDS)
        at = time.monotonic() + seconds
        with self._lock:
            if left is not None and at < self._next_look:
                self.forget_look()
                self._next_look = at
                self.forget_look = timer.after(seconds, self.look)

    def look(self) -> None:
        with self._lock:  # wait until `_look_in` has stored the timer
            self._next_look = float("inf")
        for call in self.pending():
            if call.deadline.expired:
                params = call.request.params  # type: ignore[attr-defined]
                self.time_out(call, params.get("name", params.get("uri")))
            else:
                self._look_in(call.deadline.remaining())


class HttpClientSession(ClientSession, Pinged):
    """A connection over Streamable HTTP.

    Args:
        server: The server.
        host: See `ClientSession`.
        limits: Limits for the messages and requests of the server.
        trace: A function from `tracer`; None does not trace.

    Attributes:
        refused: The HTTP status with which the server rejected `initialize`; None if it did not.

    Raises:
        ImportError, ValueError: See `Fetcher`.
    """

    calls: _HttpCalls
    in_order = False
    # The URL for messages; None means the URL of the server.
    _endpoint: Optional[str] = None
    # Whether the stream for notifications is requested again when it ends.
    _reopens = True
    # Whether nothing more may be sent, not even messages that are queued.
    _closed = False
    # Whether a wrong content type has been logged.
    _told_of_type = False

    def __init__(
        self,
        server: HttpServer,
        host: Host,
        limits: Limits,
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> None:
        self._fetcher = server.fetcher()
        self._url = server.url
        self._has_auth = server.has_auth
        super().__init__(self._fetcher.shown, host)
        self.header_params: Any = RequestHeaders(self.name, host.names)
        self.refused: Optional[int] = None
        self._limits = limits
        self._trace = trace
        self._session_id: Optional[str] = None
        self._session_error: Optional[SessionGone] = None
        self.calls = _HttpCalls(self)
        # HTTP requests that do not belong to a call.
        self._aside: set[AbortableRequest] = set()
        self._asked = RunningRequests(limits, until_answered=True)
        self._dispatcher = Dispatcher(self, self, self._asked.cancel)
        self._opened = threading.Event()
        self._ended = threading.Event()
        # Reentrant, because a signal handler may close the connection while it is held.
        self._lock = threading.RLock()
        self._sender = Pool(1, f"minimcp-{self.name}-sender")
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Fail all calls in a forked process. The parent owns the connections: send nothing."""
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._session_id = None
        for call in self.calls.pending():
            # The parent shares the socket, so it must not be shut down.
            call.http = AbortableRequest()  # type: ignore[attr-defined]
        self.calls.close(
            ConnectionLost(f"{self.name}: this process was forked from the process that connected")
        )
        self._ended.set()

    # ------------------------------------------------------------ its beginning and end

    @property
    def _resumes(self) -> bool:
        """Whether streams can be resumed: not in stateless revisions."""
        return self.era is None or self.era.revision.handshake

    def ready(self, deadline: Deadline) -> None:
        """Open the stream for notifications if there was a handshake. Servers may not offer it."""
        if self._resumes:
            threading.Thread(
                target=self._listen, name=f"minimcp-{self.name}-notifications", daemon=True
            ).start()
            self._opened.wait(deadline.within(GET_SECONDS).to_wait())

    def identity(self) -> str:
        return self._fetcher.identity()

    def keep_alive(self, interval: Optional[float]) -> None:
        if interval is not None:
            from ..engine.liveness import start_pings

            start_pings(self, self.name, interval)

    def is_idle(self) -> bool:
        return self._asked.are_idle()

    def send_ping(self) -> Optional[PendingCall]:
        ping = self.ping()
        return None if ping is None else self.calls.ping(*ping)

    def lose(self, cause: ConnectionLost) -> None:
        self._fail(cause)

    def stop(self, cause: Exception) -> None:
        # The newest call first, so that calls that are not sent yet are never sent.
        for call in reversed(self.calls.pending()):
            self.calls.end(call, self._session_error or cause)
        self._fail(cause)

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        return self._ended.wait(seconds)

    def close(self) -> None:
        self._begin_close()
        if self._resumes:
            flushed = threading.Event()
            self._sender.submit(flushed.set)
            flushed.wait(CLOSE_SECONDS)
            self._sender.close()
        self._abort_all()

    def abandon(self) -> None:
        self._begin_close()
        timer.after(CLOSE_SECONDS, self._abort_all)

    def _abort_all(self) -> None:
        """Abort all HTTP requests and close the connections. Never blocks."""
        self._closed = True
        self._abort_aside()
        self._fetcher.close()

    def _begin_close(self) -> None:
        """End all calls, and enqueue a DELETE that ends the session. Never blocks."""
        ends_session = self._session_id is not None and self.cause is None
        self.stop(ConnectionLost(f"{self.name}: closed"))
        if ends_session:
            delete = partial(self._fetcher.send, method="DELETE", headers=self._session_headers())
            self._sender.submit(partial(self._exchange, delete))
        self._sender.close()

    def _fail_session(self, call: _Call, why: str = "") -> NoReturn:
        """Raise SessionGone, because the server does not know the session and has not run the call.

        All other running calls get `SESSION_SECONDS` to receive the same response.

        Args:
            call: The call.
            why: The status of the response; empty if an earlier call received it.
        """
        text = f"{self.name}: the server has ended the session" + (f" ({why})" if why else "")
        refusal = SessionGone(text)
        refusal.refused = True
        self.calls.settle(call.id, refusal)
        if self._session_error is None:
            self._session_error = SessionGone(str(refusal))
            seconds = SESSION_SECONDS if len(self.calls) else 0.0
            timer.after(seconds, partial(self._fail, self._session_error))
        raise refusal

    def _fail(self, cause: Exception) -> None:
        """End all calls and reject new ones with this cause. Idempotent."""
        with self._lock:
            if self.cause is not None:
                return
            self.calls.close(self._session_error or cause)
        self.stop_pings()
        self.calls.forget_look()
        self._abort_aside()
        self._asked.abandon("the connection has ended")
        self._ended.set()
        self.connection_lost(
            cause if isinstance(cause, ConnectionLost) else ConnectionLost(str(cause))
        )

    # ------------------------------------------------------------ messages without a response

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        self.check()
        message = Notification(method, dict(params))
        self._send(encode(message), deadline, message)

    def _send(
        self, line: bytes, deadline: Deadline = NEVER, message: Optional[Notification] = None
    ) -> bool:
        """Post a notification or a response. Errors are logged.

        Blocks until the server accepts it, or the deadline passes.
        """
        return self._exchange(partial(self._post, line=line, message=message), deadline)

    def _tell(self, line: bytes) -> None:
        """Enqueue a notification or a response for the sender thread. Never blocks."""
        if len(line) > MAX_QUEUED_BYTES or len(self._sender.queue) >= MAX_QUEUED:
            log.debug(
                "%s: a message was dropped, because it is too long or too many are queued",
                self.name,
            )
        elif self._resumes:
            # In stateless revisions this is not needed: closing the response cancels a request, and
            # the server does not send requests.
            self._sender.submit(partial(self._send, line))

    def _exchange(
        self, send: Callable[[AbortableRequest], FetchResponse], deadline: Deadline = NEVER
    ) -> bool:
        """Send an HTTP request whose response has no content. Errors are logged."""
        left = deadline.remaining()
        http = self._request_aside()
        forget: Callable[[], object] = int if left is None else timer.after(left, http.abort)
        try:
            with closing(send(http)) as response:
                if response.status >= 300:
                    raise self.error_of(response)[1]
                # Only the status matters. If the body ends soon, the connection can be reused.
                response.read_rest(REST_SECONDS)
        except Exception as error:
            tell = log.debug if http.aborted.is_set() or self.cause is not None else log.warning
            tell("%s: a message was not accepted: %s", self.name, error)
        finally:
            forget()
            self._aside.discard(http)
        return True

    def _request_aside(self) -> AbortableRequest:
        """Return an HTTP request that does not belong to a call. It ends with the connection."""
        http = AbortableRequest()
        self._aside.add(http)
        if self._closed:  # `close` may have missed this request
            http.abort()
        return http

    def _abort_aside(self) -> None:
        for http in list(self._aside):
            http.abort()

    def _post(
        self,
        http: AbortableRequest,
        line: bytes,
        message: Union[Request, Notification, None] = None,
    ) -> FetchResponse:
        """Send a POST. Raises the exceptions of `Fetcher.send`."""
        if self._trace is not None:
            self._trace("-->", line.rstrip(b"\n"))
        headers = {**POST_HEADERS, **self._session_headers()}
        if message is not None:
            if not self._resumes:
                headers[METHOD_HEADER] = message.method
            headers.update(self.header_params.of(message.method, message.params))
        return self._fetcher.send(http, "POST", headers, line, self._endpoint)

    def _session_headers(self) -> dict[str, str]:
        headers = {} if self.era is None else {VERSION_HEADER: self.era.revision.name}
        if self._session_id is not None:
            headers[SESSION_HEADER] = self._session_id
        return headers

    # ------------------------------------------------------------ responses

    def _perform(self, call: _Call) -> None:
        """Post a request and read the HTTP response until it has the result or error.

        Raises:
            McpError: The HTTP response has neither.
        """
        opens = call.method == "initialize"
        if self._session_error is not None:
            self._fail_session(call)
        call.sent = True
        with closing(self._post(call.http, call.line, call.request)) as response:
            if response.status < 300:
                self._read_answer(response, call)
                return
            self.refused = response.status if opens else None
            answer, error = self.error_of(response)
        status = response.status
        is_own = answer is not None and self.calls.answered_by(answer.id) is call
        may_end = not opens and self._may_end_session(status, answer if is_own else None)
        # According to the specification, 404 without a response to this call means that the session
        # has ended. Other statuses are ambiguous, so the client sends a ping.
        is_certain = status == 404 and not is_own
        if may_end and (is_certain or not self._is_session_known(call)):
            self._fail_session(call, f"HTTP {status}")
        if answer is None or isinstance(error, Busy):
            raise error
        # If there is a challenge, or no response with the call's id, the error comes from
        # authorization and not from the call.
        is_challenge = not is_own or "WWW-Authenticate" in response.headers
        if isinstance(error, AuthorizationError) and is_challenge:
            raise error
        if isinstance(answer, Response) and not is_own:
            raise ProtocolViolation(f"{self.name}: HTTP {status} with the response to another call")
        call.answer = _ending(answer)

    def _may_end_session(self, status: int, answer: Union[Response, Failure, None]) -> bool:
        """Return whether an HTTP error may mean that the server does not know the session.

        Args:
            status: The status.
            answer: The response to the request, from the body; None without one.
        """
        if self._session_id is None:
            return False
        if answer is None:
            return status in UNKNOWN_SESSION or (status == 401 and not self._has_auth)
        # Some servers send 404 with the response to a call. Others, minimcp's server among them,
        # send 404 for an unknown session and repeat the id of the request.
        return status == 404 and isinstance(answer, Failure) and answer.code != METHOD_NOT_FOUND

    def _is_session_known(self, call: _Call) -> bool:
        """Send a ping on the thread of this call, and return whether the session is known.

        Also return True if the ping fails. Then the call raises the error of its own response.
        """
        request = Request(next(self.calls._ids), "ping", {})
        http = AbortableRequest()
        call.http.first = http  # ending the call ends this request, too
        if call.http.aborted.is_set():
            http.abort()
        forget = timer.after(PROBE_SECONDS, http.abort)
        try:
            with closing(self._post(http, encode(request), request)) as response:
                if response.status < 300:
                    return True
                answer = self.error_of(response)[0]
        except McpError as error:
            log.debug("%s: the session could not be checked: %s", self.name, error)
            return True
        finally:
            forget()
            call.http.first = None
        is_own = answer is not None and answer.id == request.id
        return not self._may_end_session(response.status, answer if is_own else None)

    def _read_answer(self, response: FetchResponse, call: _Call) -> None:
        if call.method == "initialize":
            session = response.headers.get(SESSION_HEADER)
            if session is not None and not _SESSION_ID.fullmatch(session):
                what = "a session id must have 1 to 4096 visible ASCII characters"
                raise ProtocolViolation(what, session[:100])
            self._session_id = session
        kind = media_type(response.headers.get("Content-Type"))[0]
        if kind == MEDIA_TYPE:
            self._follow(call.http, response, call)
            return
        if kind == JSON_TYPE:
            body = response.body(self._limits.message_bytes)
        else:
            body = response.start(ERROR_BYTES, ERROR_PAUSE)
        if kind == JSON_TYPE:
            self._receive(body, call)
        elif body.lstrip().startswith(b"{"):
            self._receive_mislabeled(body, response, kind, call)
        if call.answer is not None:
            return
        framed = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        if response.status == 200 and not body and not framed:
            raise ConnectionLost(f"{self.name}: the connection broke in the middle of the response")
        shown = one_line(self._fetcher.masked_bytes(body[:ERROR_BYTES]))
        what = f"HTTP {response.status} with {one_line(kind) or 'no content type'}: {shown}"
        raise ProtocolViolation(
            f"{self.name}{self._fetcher.route}: {call.method} got an invalid response: "
            f"{what}{_page(kind)}"
        )

    def _receive_mislabeled(
        self, body: bytes, response: FetchResponse, kind: str, call: _Call
    ) -> None:
        """Read a response with a wrong content type, because the server has already run the call.

        Args:
            body: The beginning of the body.
            response: The response, to read the rest from.
            kind: The content type.
            call: The call.
        """
        if response.cut is None:
            body += response.body(self._limits.message_bytes)
        answer = self._response_in(body, kind)
        if answer is None or self.calls.answered_by(answer.id) is not call:
            return
        call.answer = _ending(answer)
        told = log.debug if self._told_of_type else log.warning
        self._told_of_type = True
        written = one_line(kind) or "no content type"
        told("<-- %s: %s has %s instead of %s", self.name, call.method, written, JSON_TYPE)

    def error_of(self, response: FetchResponse) -> tuple[Union[Response, Failure, None], McpError]:
        """Read an HTTP error.

        Returns:
            The JSON-RPC response in its body (None without one), and the exception for the status:
            `Busy` if the server has not run the request and says when to retry; AuthorizationError
            if it requires a token or other rights; ConnectionLost if it failed; otherwise
            ProtocolViolation.
        """
        status = response.status
        headers = response.headers
        body = response.start(ERROR_BYTES, ERROR_PAUSE)
        kind = media_type(headers.get("Content-Type"))[0]
        answer = self._response_in(body, kind)
        shown = self._fetcher.masked_bytes(body)[:SHOWN_BYTES]
        text = one_line(shown.decode("utf-8", "replace").strip(), SHOWN_BYTES)
        told = f"{self.name}{self._fetcher.route}: HTTP {status}"
        told += f": {text}" if text else ", with an empty body"
        for name in SHOWN_HEADERS:
            if name in headers:
                told += f" ({name}: {one_line(self._fetcher.masked(headers[name]))})"
        seconds = retry_after(headers.get("Retry-After", ""))
        if status in (429, 503) and seconds is not None:
            return answer, Busy(told, seconds, None if answer is None else _ending(answer))
        if status == 401 and not self._has_auth:
            told += how_to_sign_in(self.name)
        if status in (401, 403):
            return answer, AuthorizationError(told)
        if isinstance(response.cut, ConnectionLost) and kind == JSON_TYPE:
            return answer, response.cut
        told += _page(kind)
        if status in (408, 429) or status >= 500:
            return answer, ConnectionLost(told)
        if 300 <= status < 400:
            told += ": only redirects to the same origin are followed: use the URL of the target"
        return answer, ProtocolViolation(told)

    def _response_in(self, body: bytes, kind: str) -> Union[Response, Failure, None]:
        """Return the JSON-RPC response in a body of any content type; None without one."""
        texts = [body.strip()]
        if kind == MEDIA_TYPE:
            texts = [event.data.encode() for event in EventReader(ERROR_BYTES).feed(body)]
        for text in texts:
            message = self._decoded(text) if text.startswith(b"{") else None
            if isinstance(message, (Response, Failure)):
                if self._trace is not None:
                    self._trace("<--", self._fetcher.masked_bytes(text))
                return message
        return None

    # ------------------------------------------------------------ streams

    def _follow(
        self, http: AbortableRequest, response: Optional[FetchResponse], call: Optional[_Call]
    ) -> None:
        """Read a stream, and the streams that resume it, until the response to a call arrives.

        Args:
            http: The object with which another thread may abort this.
            response: The stream; if None, it is requested first.
            call: The call; None means the stream of notifications, which has no end.

        Raises:
            ConnectionLost: The stream has ended and cannot be resumed.
            ProtocolViolation: An event is too long.
        """
        reader = EventReader(self._limits.message_bytes)
        failures = 0
        empty = 0
        asked = 0.0
        while True:
            if response is None:
                useless = failures + max(0, empty - EMPTY_STREAMS)
                if self.cause is not None or http.aborted.wait(_longer(asked, useless)):
                    raise ConnectionLost(f"{self.name}: the stream was aborted")
                # The header has the same bytes that the server sent.
                id = reader.last_id.encode("utf-8", "surrogateescape").decode("latin-1")
                last = {LAST_EVENT_HEADER: id} if id else {}
                try:
                    response = self._fetcher.send(
                        http, "GET", {**GET_HEADERS, **self._session_headers(), **last}
                    )
                except (ConnectionFailed, ConnectionLost) as error:
                    failures += 1
                    if not self._reopens or (call is not None and failures == RESUME_TRIES):
                        raise
                    log.debug("%s: %s", self.name, error)
                self._opened.set()
                continue
            seen = reader.last_id
            heard = reader.messages
            brief = Deadline(FIRST_PAUSE)
            failures = 0
            with closing(response):
                kind = media_type(response.headers.get("Content-Type"))[0]
                if response.status != 200 or kind != MEDIA_TYPE:
                    what = f"HTTP {response.status} with {one_line(kind) or 'no content type'}"
                    page = self._fetcher.masked_bytes(response.start(ERROR_BYTES, ERROR_PAUSE))
                    shown = one_line(page[:SHOWN_BYTES].decode("utf-8", "replace").strip())
                    raise ConnectionLost(
                        f"{self.name}: expected an event stream, got {what}: {shown}"
                    )
                cut = self._read_events(response, reader, call)
            if call is not None and call.answer is not None:
                return
            if not (self._reopens if call is None else reader.last_id and self._resumes):
                missing = "" if call is None else " before the response"
                raise ConnectionLost(
                    f"{self.name}: the server ended the event stream{missing}{cut}"
                )
            retry = FIRST_PAUSE if reader.retry is None else reader.retry / 1000
            asked = min(max(MIN_PAUSE, retry), MAX_RETRY_SECONDS)
            # With a new id and a long pause, the server asks the client to poll.
            polled = reader.last_id != seen and asked >= FIRST_PAUSE
            empty = 0 if reader.messages > heard or polled or brief.expired else empty + 1
            reader.begin()
            response = None

    def _listen(self) -> None:
        """Keep the stream for notifications open. It is not an error if a server has none."""
        try:
            self._follow(self._request_aside(), None, None)
        except Exception as error:
            tell = log.debug if isinstance(error, ConnectionLost) else log.warning
            tell("%s: the stream for notifications has ended: %s", self.name, error)
        finally:
            self._opened.set()

    def _read_events(
        self, response: FetchResponse, reader: EventReader, call: Optional[_Call]
    ) -> str:
        """Read a stream until it ends, the response to the call arrives, or the call has ended.

        Return the reason why the stream broke, for a message; empty if it did not.
        """
        while call is None or call.answer is None:
            try:
                data = response.read()
            except ConnectionLost as error:
                told = str(error)
                return f": {told.partition(f'{self.name}: ')[2] or told}"
            if not data:
                return ""
            for event in reader.feed(data):
                if call is not None and call.outcome is not None:
                    return ""
                self._take_event(event, call)
        response.read_rest(REST_SECONDS)
        return ""

    def _take_event(self, event: SseEvent, call: Optional[_Call]) -> None:
        if event.event == "message" and event.data:  # an event without data has only an id
            self._receive(event.data.encode(), call)

    # ------------------------------------------------------------ messages of the server

    def _receive(self, data: bytes, call: Optional[_Call]) -> None:
        """Handle a message.

        Args:
            data: The message, or an array of messages.
            call: The call whose response contains the message; None for another stream.
        """
        if self._trace is not None:
            self._trace("<--", self._fetcher.masked_bytes(data))
        decoded = self._decoded(data)
        for message in decoded if isinstance(decoded, list) else (decoded,):
            if isinstance(message, InvalidMessage):
                self._refuse(message, data, call)
            elif call is not None and isinstance(message, (Response, Failure)):
                # Responses to other calls are sent on the streams of those calls.
                if message.id is None or self.calls.answered_by(message.id) is call:
                    call.answer = call.answer or _ending(message)
                else:
                    log.debug("<-- a response to %s on the stream of another call", message.id)
            else:
                sink = _AnswerSink(self, call)
                if call is not None and isinstance(message, Request):
                    params: Result = {"requestId": message.id, "reason": "the call has ended"}
                    call.cancel_questions.append(partial(self._asked.cancel, params))
                self._dispatcher.dispatch(message, sink, len(data), self.host.pool.submit)
                if call is not None and isinstance(message, Notification):
                    while call.outcome is None and call.report():
                        pass

    def _decoded(self, data: bytes) -> Any:
        """Decode a message of the server.

        Secrets that were sent to the server are masked in errors, which become exceptions, but not
        in results.
        """
        decoded = decode(data, max_depth=self._limits.depth)
        if isinstance(decoded, Failure):
            decoded = decode(self._fetcher.masked_bytes(data), max_depth=self._limits.depth)
        return decoded

    def _refuse(self, broken: InvalidMessage, data: bytes, call: Optional[_Call]) -> None:
        """Handle an invalid message. If it may be the response to a call, fail that call."""
        id = broken.id
        if call is not None and id is None and broken.kind == "response":
            id = call.id
        data = self._fetcher.masked_bytes(data)
        violation = ProtocolViolation(broken.reason, data.decode("utf-8", "replace"))
        if id is None and broken.code == PARSE_ERROR:
            meant = self.calls.meant_by(data)
            id = None if meant is None else meant.id
        may_be_response = broken.kind in ("response", "unknown")
        if id is not None and may_be_response and self.calls.settle(id, violation):
            return
        if id is not None and broken.kind == "request" and self.takes_requests:
            self._tell(encode(Failure(id, broken.code, broken.reason)))
        else:
            log.warning("<-- an invalid message (%s): %s", broken.reason, one_line(data))


class _AnswerSink(Sink):
    """Posts the response to a request of the server."""

    def __init__(self, session: HttpClientSession, call: Optional[_Call]) -> None:
        self._session = session
        self.requests = session._asked
        self.asked_by = () if call is None else (call,)
        self.pool = session.host.pool
        self.context = session.host.context

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        """Whether the connection has ended, so that a response would not be sent."""
        return self._session.cause is not None

    def deliver(self, line: bytes, wait: bool) -> None:
        if wait and not self._session.cause:
            self._session._send(line)
        else:
            self._session._tell(line)


def how_to_sign_in(url: str) -> str:
    """Return the end of a message that says that a server requires a token."""
    way = (
        f"sign in with 'python3 -m minimcp login {url}', or in a program with "
        "connect(..., auth=minimcp.SignIn())"
    )
    given = "pass your token with --token TOKEN, or connect(..., auth=TOKEN)"
    return f": {given}; without a token {way}"


def retry_after(value: str) -> Optional[int]:
    """Return the seconds of a ``Retry-After`` header (a number or a date); None if malformed."""
    if value.isascii() and value.isdigit():
        return min(int(value[:10]), MAX_RETRY_AFTER)
    with suppress(ValueError, TypeError, OverflowError):
        seconds = parsedate_to_datetime(value).timestamp() - time.time()
        return min(max(0, math.ceil(seconds)), MAX_RETRY_AFTER)
    return None


def _ending(message: Union[Response, Failure]) -> Union[Result, Failure]:
    return message.result if isinstance(message, Response) else message


def _page(kind: str) -> str:
    if kind != "text/html":
        return ""
    return " (a web page: is this the URL of an MCP server? Often it ends in /mcp)"


def _longer(pause: float, failures: int) -> float:
    """Return the seconds before the next stream is requested, never less than `pause`."""
    longer = min(FIRST_PAUSE * 2 ** min(failures, 10), MAX_PAUSE) * random.uniform(0.5, 1)
    return max(pause, longer) if failures else pause
