"""`Endpoint`: Streamable HTTP in a server, from a parsed request to its response.

A request that carries metadata is stateless. Any other request belongs to a session that
`initialize` opens. One path serves both. `Admission` decides what a message means, `Session` and
`SessionStore` keep sessions, and a `ResponseWriter` sends bytes: this module opens no socket.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import math
import re
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union

from .. import errors
from ..engine.batch import Batch, why_no_batch
from ..engine.dispatch import Run, accept
from ..engine.incoming import IncomingRequest, Route
from ..engine.limits import Limits
from ..engine.pool import Pool, renewed_in_fork
from ..engine.running import RunningRequests
from ..engine.shares import CountedClient, Place, ShareExceeded, Shares
from ..engine.timer import Deadline, timer
from ..errors import ConnectionLost, InternalError, RpcError
from ..log import logger
from ..protocol.lifecycle import EVENT_STREAM, STREAMS, Peer
from ..protocol.messages import (
    Failure,
    Id,
    InvalidMessage,
    Request,
    decode,
    encode,
    failure,
)
from ..protocol.versions import Revision
from ..schema.header_params import HeaderParam
from ..stores.base import StoreUnavailable
from .admission import Admission
from .events import EventStore
from .headers import (
    JSON_TYPE,
    LAST_EVENT_HEADER,
    NAMED_BY,
    SESSION_HEADER,
    VERSION_HEADER,
    Headers,
    HostPolicy,
    HttpError,
    HttpRequest,
    HttpResponse,
    ResponseWriter,
    accepted_forms,
    accepts,
    is_json,
    rejected,
    require,
)
from .options import HttpOptions
from .responses import STREAM_HEADERS, EventStream, PostResponse, ResponseSession, Trace
from .sessions import BEGIN_SECONDS, MakeRole, Session, SessionStore, too_many_sessions
from .sse import MEDIA_TYPE, format_event

if TYPE_CHECKING:
    from ..auth.bearer import Bearer

log = logger("minimcp.http")

# Why a session ended before its client had sent `notifications/initialized`.
NOT_INITIALIZED = "the client did not initialize the session, and other clients need its place"

# Seconds that streams of change notifications get to end with their response, even if the grace
# period is 0.
STREAM_SECONDS = 0.5

# Maximum number of seconds between two checks of the token of an open stream.
TOKEN_SECONDS = 60.0

# Minimum number of seconds between them, if the token expires soon.
MIN_TOKEN_SECONDS = 0.1

# How often the timer checks an idle session during `HttpOptions.session_ttl`.
LOOKS = 20

# Maximum number of seconds between two checks.
LOOK_SECONDS = 30.0

# Bytes of memory that the values of a body may use, for each byte of the maximum body size.
MEMORY_PER_BYTE = 8

# Accept headers that allow JSON and event streams.
BOTH_FORMS = (True, True)

# Bytes of memory of the shortest string.
STRING_BYTES = 50

# Bodies of more bytes than this are long.
LONG_BODY_BYTES = 256 * 1024

# Maximum number of long bodies that are decoded at the same time.
DECODED_AT_ONCE = 2

# Bodies that are longer are not kept while their requests run.
SHORT_BODY_BYTES = 4 * 1024

_PIECE_BYTES = 64 * 1024
_EVENT_ID = re.compile(r"([0-9a-f]{1,32}\.[0-9]{1,15})/([0-9]{1,15})")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9\-_, ]{1,4096}")


class HttpService:
    """A service that an HTTP server calls: `check` with the head of a request, `serve` with all of
    it. Thread-safe.

    Args:
        registry: The registry of the `Server`.
        options: The options for HTTP.
        bearer: Verifies the tokens of requests. If None, no token is needed.
    """

    def __init__(
        self, registry: Any, options: HttpOptions, bearer: Optional[Bearer] = None
    ) -> None:
        self._registry = registry
        self.card = registry.config.card
        self.path = ""
        self.options = options
        self.bearer = bearer
        self.closing = False
        self.shares: Shares = registry.config.shares
        self.policy = HostPolicy(options.allowed_hosts, options.allowed_origins)
        self.decoding = threading.BoundedSemaphore(DECODED_AT_ONCE)  # held for long bodies
        # Maximum number of bytes of memory of a decoded body.
        self._max_memory = math.inf
        if options.body_bytes is not None:
            self._max_memory = MEMORY_PER_BYTE * max(options.body_bytes, LONG_BODY_BYTES)

    def check(self, request: HttpRequest, streams: bool = True) -> None:
        """Check the head of a request, before its body is read. Never blocks.

        Raises:
            HttpError: The request is rejected, and its body should not be read.
        """
        headers = request.headers
        asked = (request.method, request.path, streams)
        if request.method != "POST" and self.is_health(request):
            return
        # Pages of any origin may read the card.
        if self.card is not None and self.card.answer(request, self.path) is not None:
            self.policy.check_host(headers)
            return
        if headers.cache.get(self) != asked:
            self.policy.check(headers)
            try:
                if self.answer_cors_or_metadata(request) is None:
                    self.check_path(request.path.partition("?")[0])
                    if self.bearer is not None:
                        self.bearer.token_in(headers)
                    self.check_head(request, streams)
            except HttpError as refusal:
                refusal.headers += self.policy.cors(headers)
                raise
            headers.cache[self] = asked
        if self.closing:
            raise HttpError(503, "the server is closing")

    def is_health(self, request: HttpRequest) -> bool:
        """Return whether a request only asks whether the server is running. It may have any Host
        header."""
        return request.path == self.options.health and request.method in ("GET", "HEAD")

    def answer_cors_or_metadata(self, request: HttpRequest) -> Optional[HttpResponse]:
        """Answer a CORS preflight or a request for the metadata of the token issuer.

        Return None for any other request.
        """
        headers = request.headers
        if (
            request.method == "OPTIONS"
            and "Access-Control-Request-Method" in headers
            and self.policy.cors(headers)
        ):
            wanted = headers.get("Access-Control-Request-Headers", "")
            allowed = [
                ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
                ("Access-Control-Max-Age", "7200"),
            ]
            if _HEADER_NAMES.fullmatch(wanted):
                allowed.append(("Access-Control-Allow-Headers", wanted))
            return HttpResponse(204, allowed)
        bearer = self.bearer
        path = request.path.partition("?")[0]
        if bearer is None or path not in bearer.metadata_paths:
            return None
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405, "use GET for this path", (("Allow", "GET, HEAD"),), code=None)
        access = self._registry.loaded("access")
        document = bearer.metadata(() if access is None else access.static_scopes())
        return HttpResponse(200, [("Content-Type", JSON_TYPE)], document)

    def check_path(self, path: str) -> None:
        """Check a path. Raises HttpError if it is not served."""

    def check_head(self, request: HttpRequest, streams: bool) -> None:
        """Check the head of a request, after its Host and Origin were checked.

        Raises:
            HttpError: The request is rejected.
        """

    def respond(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        """Serve a request that was checked. Raises HttpError if the request is rejected."""

    def serve(self, request: HttpRequest, writer: ResponseWriter, *, streams: bool = True) -> None:
        """Serve one request on this thread, and return when the response is complete.

        Args:
            request: The request. Its body is read after its head was checked.
            writer: The writer of the response.
            streams: Whether the response may be an event stream.
        """
        try:
            self.check(request, streams)
            headers = request.headers
            if request.method != "POST" and self.is_health(request):
                self._send_health(writer)
                return
            response = None if self.card is None else self.card.answer(request, self.path)
            if response is not None:
                writer.send(response.status, response.headers, response.body)
                return
            if "origin" in headers.lists:
                writer.added = self.policy.cors(headers)
            if request.method != "POST":
                response = self.answer_cors_or_metadata(request)
                if response is not None:
                    writer.send(response.status, response.headers, response.body)
                    return
            if self.bearer is not None:
                headers.auth = token = self.bearer.authenticate(headers)
                headers.principal = None if token is None else token.principal
            headers.counted = self.shares.client(headers.principal, writer.address)
            self.respond(request, writer, streams)
        except ConnectionLost as error:
            log.debug("%s: %s", request.client, error)
        except Exception as error:
            if isinstance(error, StoreUnavailable):
                log.warning("a request was rejected: %s", error)
                reason = "the session store is unavailable: try again later"
                error = HttpError(503, reason, code=errors.INTERNAL_ERROR)
            elif isinstance(error, ShareExceeded):
                error = rejected(error)
            elif not isinstance(error, HttpError):
                log.error("a request failed: %s", error, exc_info=error)
                error = HttpError(500, "the server failed", code=errors.INTERNAL_ERROR)
            response = error.response()
            log.debug("%s: rejected with %d: %s", request.client, response.status, error)
            with suppress(ConnectionLost):
                writer.send(response.status, response.headers, response.body)

    def _send_health(self, writer: ResponseWriter) -> None:
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
        if self.closing:
            writer.send(503, headers, b"closing\n")
        else:
            writer.send(200, headers, b"ok\n")

    def token_seconds(self, headers: Headers) -> float:
        """Return the seconds after which the token of an open stream is to be checked again."""
        expires_at = None if headers.auth is None else headers.auth.expires_at
        if expires_at is None:
            return TOKEN_SECONDS
        left: float = expires_at - time.time()
        return min(TOKEN_SECONDS, max(MIN_TOKEN_SECONDS, left))

    def is_token_valid(self, headers: Headers) -> bool:
        """Verify the token of an open stream again. It counts as valid while the verifier fails."""
        if self.bearer is None:
            return True
        try:
            token = self.bearer.authenticate(headers)
            principal: Optional[str] = None if token is None else token.principal
            return principal == headers.principal
        except HttpError as error:
            return error.status not in (401, 403)

    def check_body(self, headers: Headers) -> None:
        """Check the headers of a POST that describe its body.

        Raises:
            HttpError: The type of the body is not JSON, or the body is compressed or too long.
        """
        require(
            is_json(headers.get("Content-Type")),
            415,
            f"the body must be {JSON_TYPE}, and Content-Type must say so",
        )
        require(
            headers.get("Content-Encoding", "identity").lower() == "identity",
            415,
            "the body must not be compressed",
        )
        limit = self.options.body_bytes
        length = headers.get("Content-Length", "")
        if limit is not None and length.isascii() and length.isdigit() and int(length[:20]) > limit:
            raise self._too_long()

    def body_of(self, request: HttpRequest) -> bytes:
        """Return the body of a POST. At most one byte above the limit is read.

        Raises:
            HttpError: The body is too long, or has too many values.
        """
        body = request.body
        limit = self.options.body_bytes
        if not isinstance(body, bytes):
            pieces = []
            left = math.inf if limit is None else limit + 1
            while left and (piece := body.read(int(min(left, _PIECE_BYTES)))):
                pieces.append(piece)
                left -= len(piece)
            body = b"".join(pieces)
        elif len(body) > SHORT_BODY_BYTES:
            request.body = b""  # the request may run for a very long time
        if limit is not None and len(body) > limit:
            raise self._too_long()
        if 200 * len(body) > self._max_memory:
            with self.decoding:
                too_much = _memory_of(body, self._max_memory) > self._max_memory
            require(
                not too_much,
                413,
                "the body has too many JSON values for this server (HttpOptions.body_bytes)",
            )
        return body

    def _too_long(self) -> HttpError:
        return HttpError(
            413, f"the body is longer than {self.options.body_bytes} bytes (HttpOptions.body_bytes)"
        )


class Endpoint(HttpService):
    """One server at one path. Thread-safe.

    Args:
        registry: The registry of the `Server`.
        make_role: Makes the role that handles the messages of a session.
        path: The exact path of the URL.
        options: The options for HTTP.
        limits: The limits of the server.
        pool: The pool of the server, which runs handlers.
        cap: The server's counter for ``Limits.requests``; see `RunningRequests`.
        max_streams: Maximum number of open streams of change notifications; None means no limit, 0
            serves none.
        trace: Called with ("-->" or "<--", line) for every message; None for no trace.
        bearer: Verifies the tokens of requests. If None, no token is needed.
        session_store: Makes the store of the sessions, given this endpoint. If None, sessions are
            kept in memory.
    """

    def __init__(
        self,
        registry: Any,
        make_role: MakeRole,
        *,
        path: str,
        options: HttpOptions,
        limits: Limits,
        pool: Pool,
        cap: Optional[list[None]] = None,
        max_streams: Optional[int] = None,
        trace: Optional[Trace] = None,
        bearer: Optional[Bearer] = None,
        session_store: Optional[Callable[[Endpoint], SessionStore]] = None,
    ) -> None:
        super().__init__(registry, options, bearer)
        self.path = path
        self.pool = pool
        self._supported = registry.supported
        self.make_role = make_role
        self._limits = limits
        self._cap = cap
        self._max_streams = max_streams
        self.session_store = (session_store or SessionStore)(self)
        self.store: Optional[EventStore] = options.event_store or None
        if options.event_store is None:
            self.store = self.session_store.make_event_store()
        named_by = {method: (member, "") for method, member in NAMED_BY.items()}
        for each in registry.config.features:
            capability = f"ext:{each.identifier}"
            named_by.update({name: (member, capability) for name, member in each.names.items()})
        self.admission = Admission(
            registry.supported,
            keeps_sessions=options.sessions,
            find_session=self.session_store.find,
            make_session=self.session_store.make,
            keep_session=self.keep_session,
            route=registry.route,
            check_access=self._check_access,
            named_by=named_by,
            header_params=self._header_params,
        )
        self.trace = trace
        # Why no handler may wait for the answer to a question; "" if it may.
        self.cannot_ask = ""
        self._period = min(
            (options.keepalive or math.inf) / 2,
            (options.session_ttl or math.inf) / LOOKS,
            LOOK_SECONDS,
        )
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Start without sessions and streams. In a forked process, they belong to the parent."""
        self.decoding = threading.BoundedSemaphore(DECODED_AT_ONCE)
        self.requests = RunningRequests(
            self._limits, self._cap, on_finished=self._registry.config.on_finished
        )
        self.sessions: dict[str, Session] = {}
        self._is_store_started = False
        # The open responses, by the writer of their connection.
        self._open: dict[ResponseWriter, Union[PostResponse, EventStream]] = {}
        # Cancels the next check of the token of a stream.
        self.token_checks: dict[ResponseWriter, Callable[[], object]] = {}
        # Guards the state of all responses. It is held only for short moments, so a lock for each
        # response is not worth its cost.
        self.lock = threading.RLock()
        self._changed = threading.Condition()
        self._forget_look: Optional[Callable[[], None]] = None
        self.closing = False

    def aside_paths(self) -> list[str]:
        """Return the paths of the server's metadata, card, catalog and health."""
        paths = [] if self.bearer is None else list(self.bearer.metadata_paths)
        paths += [] if self.card is None else self.card.paths(self.path)
        return paths if self.options.health is None else [*paths, self.options.health]

    def check_path(self, path: str) -> None:
        require(
            path == self.path,
            404,
            f"nothing is served at this path: the server is at {self.path}",
            None,
        )

    def check_head(self, request: HttpRequest, streams: bool) -> None:
        headers = request.headers
        method = request.method
        # By method, the types that a response can have; the request must accept one of them.
        wanted = self.admission.methods(
            headers, streams and (self._max_streams != 0 or LAST_EVENT_HEADER in headers)
        )
        if method not in wanted:
            raise HttpError(
                405, "use POST for this path", (("Allow", ", ".join(wanted)),), code=None
            )
        kinds = wanted[method]
        if method == "POST":
            # Read once for requests that repeat the same headers.
            headers.cache["forms"] = accepted_forms(headers)
            is_accepted = any(headers.cache["forms"])
        else:
            is_accepted = not kinds or accepts(headers, *kinds)
        if not is_accepted:
            raise HttpError(406, f"the Accept header must allow {' or '.join(kinds)}")
        if method == "POST":
            self.check_body(headers)

    # ------------------------------------------------------------ the sender of a message

    def _header_params(self, call: Request) -> Sequence[HeaderParam]:
        """Return the arguments of a tool call that headers repeat."""
        tool = self._registry.tools.items.get(str(call.params.get("name")))
        return () if tool is None else tool.header_params

    def _check_access(self, request: Request, peer: Peer, headers: Headers) -> None:
        """Check that the caller may see and use what a request names, before its response begins.

        Raises:
            HttpError: The token lacks a scope (403), or there is none (401).
            RpcError: The request names something that is hidden from the caller.
        """
        access = self._registry.loaded("access")
        if access is None:
            return
        try:
            access.check(request, peer, headers.without_token())
        except RpcError as error:
            scopes = getattr(error, "scopes", None)
            if scopes is None:
                raise
            if self.bearer is not None:
                is_anonymous = headers.auth is None
                raise self.bearer.insufficient(
                    scopes, request.id, is_anonymous=is_anonymous
                ) from None
        except Exception as error:
            log.error(
                "the scopes of %s cannot be computed: %s", request.method, error, exc_info=error
            )
            reason = "the server failed"
            raise HttpError(500, reason, code=errors.INTERNAL_ERROR, id=request.id) from None

    def keep_session(self, session: Session, headers: Headers) -> None:
        """Keep a new session.

        Raises:
            HttpError: There are too many.
            ShareExceeded: The client has too many.
            StoreUnavailable: It cannot be written.
        """
        end = partial(self._end_unbegun, session)
        assert headers.counted is not None
        session.place = headers.counted.reserve("sessions", self.options.max_sessions, end)
        self.session_store.add(session, headers)

    def add_session(self, session: Session) -> None:
        """Keep a new session in this process. Raises HttpError if there are too many."""
        most = self.options.max_sessions
        if most is not None and len(self.sessions) >= most:
            self._end_unused()
            if len(self.sessions) >= most:
                sessions = list(self.sessions.values())
                silent = next(
                    (each for each in sessions if not (each.initialized or each.responses)), None
                )
                if silent is not None:
                    self._end(silent, NOT_INITIALIZED)
        with self._changed:
            if most is None or len(self.sessions) < most:
                self.sessions[session.id] = session
                return
        session.end("there are too many sessions")
        raise too_many_sessions(most)

    def use_session(self, session: Session) -> None:
        """Keep a session in this process, as the last one of `sessions`: the one used last."""
        with self._changed:
            session.used_at = time.monotonic()
            self.sessions.pop(session.id, None)
            self.sessions[session.id] = session

    def _end_unbegun(self, session: Session) -> bool:
        """End a session if its client has not sent `notifications/initialized` and no request of it
        is running. Return whether it was ended."""
        if session.initialized or session.responses:
            return False
        self._end(session, NOT_INITIALIZED)
        return True

    def end_after_responses(self, session: Session) -> None:
        """End a session when its last response has ended, or now if none is open."""
        session.shut = True
        if not session.responses:
            self._end(session, "it was shut down")

    def _end(self, session: Session, reason: str) -> None:
        """End a session, in all processes. Idempotent."""
        self.session_store.end(session)
        self.end_here(session, reason)

    def end_here(self, session: Session, reason: str, unused: Optional[float] = None) -> None:
        """End a session in this process. Idempotent.

        With `unused`, end it only if it was not used for this number of seconds.
        """
        # A request that arrives now either keeps the session, or no longer finds it.
        with self._changed:
            if unused is not None and not self._unused(session, unused):
                return
            known = self.sessions.pop(session.id, None) is not None
            self.session_store.forget(session)
        if known:
            session.end(reason)
            if self.store is not None:
                self.store.forget(session.key)

    def _end_unused(self) -> None:
        ttl = self.options.session_ttl or math.inf
        for session in list(self.sessions.values()):
            unused = ttl if session.initialized else min(ttl, BEGIN_SECONDS)
            self.end_here(session, "it was not used", unused)  # in a store it expires

    def _unused(self, session: Session, seconds: float) -> bool:
        """Whether a session received no request for more than this number of seconds, and has no
        open response or stream."""
        stream = session.unsolicited
        unused = time.monotonic() - session.used_at > seconds
        return unused and not session.responses and (stream is None or not stream.is_connected())

    # ------------------------------------------------------------ POST

    def respond(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        headers = request.headers
        if not self._is_store_started:
            self.session_store.start()
            self._is_store_started = True
        if request.method == "GET":
            self._get(self.admission.session_of(headers), headers, writer)
            return
        if request.method == "DELETE":
            self._end(self.admission.session_of(headers), "the client has ended it")
            writer.send(200, [], b"")
            return
        body = self.body_of(request)
        if self.trace is not None:
            self.trace("<--", body)
        size = len(body)
        if size <= LONG_BODY_BYTES:
            message = decode(body, max_depth=self._limits.depth)
        else:
            with self.decoding:
                message = decode(body, max_depth=self._limits.depth)
        del body
        if isinstance(message, InvalidMessage):
            raise HttpError(400, message.reason, code=message.code, id=message.id)
        if isinstance(message, list):
            self._array(message, headers, writer, streams, size)
            return
        try:
            session, peer, route = self.admission.admit(message, headers)
        except HttpError as error:
            if isinstance(message, Request):
                self.requests.refused(message, error)
            if error.status == 200 and streams and not headers.cache["forms"][0]:
                writer.begin(200, STREAM_HEADERS)
                writer.write(format_event(error.response().body))
                writer.end()
                return
            raise
        try:
            client = self._count_in(session, headers, writer)
        except ShareExceeded as error:
            if not isinstance(message, Request):
                raise
            if session is not None and message.method == "initialize":
                self._end(session, error.message)
            raise rejected(error, message.id) from None
        if not isinstance(message, Request):
            if session is not None:
                session.take(message)
            writer.send(202, [], b"")
            return
        assert peer is not None and route is not None
        listens = message.method in STREAMS
        streams = streams and (listens or not self.options.json_response)
        forms = headers.cache["forms"]
        if forms != BOTH_FORMS or (listens and not streams):
            check_form(forms, streams, listens, message.id)
        named = session if message.method == "initialize" else None
        response = self._open_response(session, peer.revision, writer, streams, named)
        response.takes_comments = message.method != EVENT_STREAM
        if client.names:
            response.pool = client.pool_of(self.pool, self._limits.workers)
        if forms != BOTH_FORMS:
            response.choose_form(forms)
        try:
            try:
                if listens and not streams:
                    raise InternalError("this connection cannot serve streams")
                if listens:
                    response.place = self.reserve(response, client)
                    end = partial(self._registry.drain, response)
                    self.watch_token(headers, writer, end)
                if peer.revision.handshake:
                    writer.left.on_cancel(partial(response.detach, writer))
                else:
                    writer.token.on_cancel(response.lost)
                self._start(message, peer, route, response, size, headers, response.pool.run)
            except RpcError as error:
                self.requests.refused(message, error)
                if isinstance(error, ShareExceeded):
                    response.retry_after = error.retry_after
                response.finish(encode(failure(message.id, error)))
            if not response.done:
                response.serve()
        finally:
            self._close_response(response, writer)

    def _array(
        self, items: list[Any], headers: Headers, writer: ResponseWriter, streams: bool, size: int
    ) -> None:
        """Serve an array of messages. Its requests run at the same time, and one array contains all
        responses."""
        is_in_session = headers.get(VERSION_HEADER) in self.admission.session_versions
        require(is_in_session, 400, "a message must be an object, not an array")
        session, revision = self.admission.sender(headers)
        taken = self._supported.accept_batches or revision.batches
        reason = why_no_batch(items, taken=taken, limit=self._limits.batch)
        if reason is not None:
            raise HttpError(400, reason)
        sender = (None if session is None else session.peer) or Peer(revision)
        for item in items:
            if isinstance(item, Request):
                with suppress(RpcError):  # it is the response to this item
                    self._check_access(item, sender, headers)
        client = self._count_in(session, headers, writer)
        requests = [item for item in items if isinstance(item, Request)]
        invalid = [item for item in items if isinstance(item, InvalidMessage)]
        for item in items:
            if session is not None and not isinstance(item, (Request, InvalidMessage)):
                session.take(item)
        if not requests and not invalid:
            writer.send(202, [], b"")
            return
        streams = streams and not self.options.json_response
        forms = headers.cache["forms"]
        check_form(forms, streams)
        response = self._open_response(session, revision, writer, streams)
        response.pool = client.pool_of(self.pool, self._limits.workers)
        if forms != BOTH_FORMS:
            response.choose_form(forms)
        refused = [encode(Failure(item.id, item.code, item.reason)) for item in invalid]
        batch = Batch(response, refused, requests)

        def start(request: Request) -> None:
            _, peer, route = self.admission.within(request, session, revision, headers)
            assert peer is not None and route is not None
            self._start(
                request,
                peer,
                route,
                response,
                size // len(items),
                headers,
                response.pool.submit,
                batch,
            )

        try:
            writer.left.on_cancel(partial(response.detach, writer))
            batch.serve(start)
            if not response.done:
                response.serve()
        finally:
            self._close_response(response, writer)

    def _start(
        self,
        request: Request,
        peer: Peer,
        route: Route,
        response: PostResponse,
        size: int,
        headers: Headers,
        run: Run,
        batch: Optional[Batch] = None,
    ) -> None:
        """Start a request on its preferred thread: this one, or one from `run`."""
        peer.principal = headers.principal
        shown = headers if headers.auth is None else headers.without_token()
        if self._registry.loaded("visibility") is not None:
            # Functions of the author decide what the client of a session sees. Other servers do not
            # keep headers, because there may be many sessions.
            peer.headers = shown
        incoming = IncomingRequest(
            request, peer, route, response, size, self._registry.config, shown, batch
        )
        response.incoming.append(incoming)
        if not route.immediate and headers.counted is not None and headers.counted.names:
            incoming.place = incoming.reserve("requests", self._limits.requests)
        # An id may be used twice: each POST has its own response.
        accept(incoming, run, key=id(incoming))

    def _count_in(
        self, session: Optional[Session], headers: Headers, writer: ResponseWriter
    ) -> CountedClient:
        """Return the client of a request, also counted in its session. Store it in the headers, and
        count the connection for it.

        Raises:
            ShareExceeded: The client has too many connections.
        """
        client = headers.counted
        assert client is not None
        if session is not None:
            client = session.count_as(client)
            headers.counted = client
        if writer.counted is not client:
            writer.count_for(client)
        return client

    def _open_response(
        self,
        session: Optional[Session],
        revision: Revision,
        writer: ResponseWriter,
        streams: bool,
        named: Optional[Session] = None,
    ) -> PostResponse:
        """Return the response to requests. `_close_response` ends it. If `named` is given, the head
        of the response contains the id of this new session."""
        response = PostResponse(self, session, revision, writer, streams)
        if named is not None:
            response.headers = ((SESSION_HEADER, named.id),)
        self._open[writer] = response  # from now on, the timer may send its head
        if session is not None:
            session.was_active = True
            session.responses.append(response)
        if self._forget_look is None:
            self._order_look()
        return response

    def _close_response(self, response: PostResponse, writer: ResponseWriter) -> None:
        """Close a response now or, if its connection was released before, when the response is
        done."""
        if response.left_at is not None and not response.done:
            response.when_done(partial(self._close_response, response, writer))
            return
        self._open.pop(writer, None)
        if self.token_checks:
            self._forget_token(writer)
        if response.place is not None:
            response.place.leave()
        # The requests refer to their response. This breaks the reference cycle.
        response.incoming.clear()
        if response.left_at is not None:
            response.forget_client()
        session = response.session
        if isinstance(session, Session):
            session.responses.remove(response)
            session.used_at = time.monotonic()
            if session.shut:
                self.end_after_responses(session)
        if self.closing:
            with self._changed:
                self._changed.notify_all()

    def reserve(self, response: Union[PostResponse, EventStream], client: CountedClient) -> Place:
        """Count a stream of change notifications of a client.

        Raises:
            ShareExceeded: The client has too many.
            InternalError: There are too many.
        """
        place = self._admit_stream(response, client)
        try:
            self.add_listener(response)
        except InternalError:
            place.leave()
            raise
        return place

    def add_listener(self, response: Union[PostResponse, EventStream]) -> None:
        """Count a stream of change notifications. Raises InternalError if there are too many."""
        with self._changed:
            if self._max_streams is not None and self._listening() >= self._max_streams:
                raise InternalError(
                    f"at most {self._max_streams} streams may be open here (Limits.streams)"
                )
            response.listens = True

    def _admit_stream(
        self, response: Union[PostResponse, EventStream], client: CountedClient
    ) -> Place:
        end = partial(self._end_idle_stream, response)
        return client.reserve("streams", self._max_streams, end)

    def _end_idle_stream(self, response: Union[PostResponse, EventStream]) -> bool:
        """End a stream of change notifications if nothing is waiting to be sent on it. Return
        whether it was ended."""
        if response.is_sending():
            return False
        response.listens = False
        self._registry.drain(response)
        if isinstance(response, EventStream):
            response.spawn(response.finish)
        return True

    def name_stream(self, session: Optional[ResponseSession]) -> str:
        """Return a name for a new stream; empty if the client cannot resume it."""
        if session is None or self.store is None:
            return ""
        return f"{session.key}.{next(session.stream_numbers)}"

    def _listening(self) -> int:
        return sum(each.listens for each in list(self._open.values()))

    # ------------------------------------------------------------ GET

    def _get(self, session: Session, headers: Headers, writer: ResponseWriter) -> None:
        """Serve the stream for messages that belong to no request, or resume a stream."""
        last = headers.get(LAST_EVENT_HEADER)
        peer = session.peer
        assert peer is not None
        if self._registry.loaded("visibility") is not None:
            peer.headers = headers.without_token()
        stream: Optional[EventStream] = None
        place: Optional[Place] = None
        try:
            client = self._count_in(session, headers, writer)
            if last is None:
                stream = EventStream(
                    self,
                    session,
                    peer.revision,
                    writer,
                    name=self.name_stream(session),
                    pending=session.pending,
                )
                stream.announce()
                with self._changed:
                    before = session.unsolicited
                    free = before is None or not before.is_connected()
                    require(free, 409, "this session already has an open stream")
                    place = self.reserve(stream, client)
                    session.unsolicited = self._open[writer] = stream
                self.session_store.begin_stream(session, writer)
                require(
                    session.id in self.sessions,
                    404,
                    "this session has just ended: initialize opens a new one",
                )
                if before is not None:
                    before.abort()
                self._keep_alive(session)
            else:
                found = _EVENT_ID.fullmatch(last)
                if found is None or not found[1].startswith(session.key + "."):
                    raise _unknown_event()
                name = found[1]
                number = int(found[2])
                stream = session.stream(name)
                if stream is None:
                    stream = self.session_store.resume(session, name, number, writer, headers)
                    if stream is None:
                        return
                elif stream is session.unsolicited:
                    self.session_store.begin_stream(session, writer)
                is_unsolicited = stream is session.unsolicited
                if is_unsolicited:
                    place = self._admit_stream(stream, client)
                if self.store is None or not stream.resume(writer, number):
                    raise _unknown_event()
                self._open[writer] = stream
            self.watch_token(headers, writer, partial(stream.end_connection, writer))
            writer.token.on_cancel(partial(stream.leave, writer))
            stream.serve(writer)
        except ShareExceeded:
            raise
        except InternalError as error:
            raise HttpError(503, error.message) from None
        finally:
            self._open.pop(writer, None)
            self._forget_token(writer)
            if place is not None:
                place.leave()
            self.session_store.leave_stream(session, writer)
            with self._changed:
                self._changed.notify_all()

    # ------------------------------------------------------------ tokens of open streams

    def watch_token(
        self, headers: Headers, writer: ResponseWriter, end: Callable[[], object]
    ) -> None:
        """End a stream when its token expires or is revoked. `_forget_token` stops watching."""
        if self.bearer is not None:
            self.token_checks[writer] = bool  # nothing to cancel yet
            self._check_token_later(headers, writer, end)

    def _check_token_later(
        self, headers: Headers, writer: ResponseWriter, end: Callable[[], object]
    ) -> None:
        check = partial(self._check_token, headers, writer, end)
        cancel = timer.after(self.token_seconds(headers), partial(self.pool.spawn, check))
        with self.lock:
            if writer in self.token_checks:
                self.token_checks[writer] = cancel
                return
        cancel()

    def _check_token(
        self, headers: Headers, writer: ResponseWriter, end: Callable[[], object]
    ) -> None:
        if writer not in self.token_checks:
            return
        if self.is_token_valid(headers):
            self._check_token_later(headers, writer, end)
        else:
            end()

    def _forget_token(self, writer: ResponseWriter) -> None:
        with self.lock:
            cancel = self.token_checks.pop(writer, None)
        if cancel is not None:
            cancel()

    # ------------------------------------------------------------ pings

    def _keep_alive(self, session: Session) -> None:
        """Start to ping the client of a session on its stream."""
        interval = self._registry.config.ping_interval
        if interval is None:
            return
        session.before_question()
        end = partial(self._end, session, "the client does not respond to pings")
        session.end_silent = partial(self.pool.spawn, end)
        from ..engine.liveness import start_pings

        start_pings(session, f"http: session {session.key}", interval)

    # ------------------------------------------------------------ the timer, and the end

    def _order_look(self) -> None:
        with self._changed:
            if self._forget_look is None and self._period < math.inf and not self.closing:
                self._forget_look = timer.after(self._period, self.look)

    def look(self) -> None:
        """End unused sessions, and send comments on silent streams."""
        try:
            self._end_unused()
            if self.options.keepalive is not None:
                for each in list(self._open.values()):
                    if each.takes_comments:
                        each.keep_alive(self.options.keepalive / 2)
        finally:  # a store or a trace may raise
            with self._changed:
                self._forget_look = None
            if self._open or self.sessions:
                self._order_look()

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """Reject new requests, end the streams for notifications, let running requests finish, and
        end all sessions.

        Idempotent, from any thread.

        Args:
            grace: Seconds that running requests get.
            reason: The reason for cancelling running requests at once, which their handlers see. If
                None, they continue.

        Blocks until all sessions have ended.
        """
        if self.closing:
            return
        self.closing = True
        deadline = Deadline(grace)
        for session in list(self.sessions.values()):
            if session.unsolicited is not None:
                self.pool.spawn(session.unsolicited.finish)  # which waits for its peer
        for response in list(self._open.values()):
            if isinstance(response, PostResponse):
                self._registry.drain(response)
            for request in response.incoming if reason is not None else ():
                request.token.cancel(reason)
        with self._changed:
            self._changed.wait_for(lambda: not self._open, deadline.to_wait())
            self._changed.wait_for(lambda: not self._listening(), STREAM_SECONDS)
            if self._forget_look is not None:
                self._forget_look()
        left = list(self._open.values())
        deadline = Deadline(STREAM_SECONDS)
        for response in left:
            response.cancel("the server is closing")
            self.pool.spawn(response.finish)
        for response in left:
            response.wait(deadline)
        for session in list(self.sessions.values()):
            self.end_here(session, "the server is closing")
        self.session_store.stop()
        self._is_store_started = False

    def __repr__(self) -> str:
        return f"<Endpoint {self.path} {len(self.sessions)} sessions, {len(self._open)} running>"


def _memory_of(text: bytes, limit: float) -> int:
    """Estimate the bytes of memory of the value that a JSON text decodes to, without its strings.

    Takes linear time.

    Args:
        text: The text, which may be malformed.
        limit: If the result is not above this, it may include characters inside strings.
    """
    size = 200 * sum(map(text.count, (b"{", b"[", b":"))) + 48 * text.count(b",")
    if size <= limit or b'"' not in text:
        return size
    # The rest removes strings piece by piece, which takes memory for each one. A body with too many
    # strings is rejected before that. Escaped quotes do not delimit a string.
    quotes = text.count(b'"') - text.count(b'\\"') + text.count(b'\\\\"')
    strings = STRING_BYTES * (quotes // 2)
    if strings > limit:
        return strings
    text = re.sub(rb'"[^"]*"', b"", text.replace(rb"\\", b"").replace(rb"\"", b""))
    return _memory_of(text.replace(b'"', b""), limit)


def check_form(
    forms: tuple[bool, bool], streams: bool, listens: bool = False, id: Optional[Id] = None
) -> None:
    """Check that the response to a POST can take a form that the request accepts.

    Args:
        forms: What the request accepts, as `accepted_forms` returns it.
        streams: Whether the response may be an event stream.
        listens: Whether it must be one.
        id: The id of the request, for the error; None without one.

    Raises:
        HttpError: It cannot (406).
    """
    may_be_json, may_be_stream = forms
    if (listens and not may_be_stream) or not (may_be_json or streams):
        missing = MEDIA_TYPE if listens else JSON_TYPE
        raise HttpError(406, f"the Accept header must allow {missing} for this request", id=id)


def _unknown_event() -> HttpError:
    return HttpError(400, "no stored event of this session has this id (event_store)")
