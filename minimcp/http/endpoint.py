"""Streamable HTTP, the server's side, without sockets: from a parsed request to its response.

Requests that carry their revision stand alone; others belong to a session that `initialize` opens. Both come to one
path. Not here: how bytes travel (`headers.ResponseWriter`), and what requests mean.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import re
import threading
import time
from functools import partial
from typing import Any, Callable, Optional

from ..engine.limits import Limits
from ..engine.pool import Pool, renewed_in_fork
from ..engine.requests import Batch, IncomingRequest, RunningRequests, why_no_batch
from ..engine.timer import Deadline
from ..errors import INTERNAL_ERROR, ConnectionLost, InternalError, InvalidRequest, RpcError
from ..protocol.lifecycle import LISTEN
from ..protocol.messages import Failure, InvalidMessage, Request, decode, encode, failure
from ..protocol.sse import MEDIA_TYPE
from .admission import Admission, Admitted, HttpError
from .headers import (
    JSON_TYPE,
    LAST_EVENT_HEADER,
    Headers,
    HostPolicy,
    HttpRequest,
    HttpResponse,
    ResponseWriter,
    accepts,
    read_body,
    why_no_json,
)
from .options import HttpOptions
from .sessions import MakeHandler, PostResponse, Session, Sessions
from .streams import EventStore, EventStream

log = logging.getLogger("minimcp.http")

VERBS = ("POST", "GET", "DELETE")
KNOWN_VERBS = frozenset({*VERBS, "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT"})
"""Of others it is said that they are unknown, of these that they are not served."""

STREAM_SECONDS = 0.5
"""What a stream of change notifications gets to end with its answer when nothing else gets time."""

_EVENT_ID = re.compile(r"([0-9a-f]{1,32}\.[0-9]{1,15})/([0-9]{1,15})")


class Endpoint:
    """One server at one path. Thread-safe.

    Args:
        registry: What it can do.
        make_handler: Makes what the messages of a session mean.
        path: Where it is, exactly.
        options: How it is served over HTTP.
        limits: What clients may cost.
        pool: Runs handlers; that of the server.
        cap: How many requests may be begun; that of the server.
        max_streams: Streams of change notifications that are open at once; None means no limit, 0 serves none.
        trace: Called with ("-->" or "<--", line) for every message; None for no trace.
    """

    def __init__(
        self,
        registry: Any,
        make_handler: MakeHandler,
        *,
        path: str,
        options: HttpOptions,
        limits: Limits,
        pool: Pool,
        cap: Optional[threading.Semaphore] = None,
        max_streams: Optional[int] = None,
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> None:
        self.path, self.options, self.pool = path, options, pool
        self._registry, self._limits, self._cap, self._trace = registry, limits, cap, trace
        self._make_handler, self._max_streams = make_handler, max_streams
        self._policy = HostPolicy(options.allowed_hosts, options.allowed_origins)
        store = options.event_store
        self._store: Optional[EventStore] = EventStore() if store is None else store or None
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin without sessions and streams; in a forked process they are the parent's."""
        options = self.options
        if self._store is not None:
            self._store.renew_in_fork()
        self.sessions = Sessions(
            self._store, most=options.max_sessions, ttl=options.session_ttl, keepalive=options.keepalive
        )
        self._admission = Admission(self._registry, self._make_handler, self.sessions if options.sessions else None)
        self.requests = RunningRequests(self._limits, self._cap)
        self._responses: dict[PostResponse, None] = {}
        self._listening: set[object] = set()
        """What holds a stream of change notifications open."""
        self._changed = threading.Condition()
        self.closing = False

    def check(self, request: HttpRequest) -> Optional[HttpResponse]:
        """The response that refuses a request by its head alone; None when its body is wanted. Never blocks."""
        try:
            self._check(request, streams=True)
        except HttpError as error:
            return error.response()
        return None

    def _check(self, request: HttpRequest, streams: bool) -> None:
        known = self in request.headers.cache
        refusal = None if known else self._policy.refusal(request.headers)
        if refusal is not None:
            raise HttpError(*refusal)
        if request.path != self.path and request.path.partition("?")[0] != self.path:
            raise HttpError(404, f"there is nothing here: the server is at {self.path}", code=None)
        if request.method != "POST":
            self._check_verb(request, streams)
        if self.closing:
            raise HttpError(503, "the server is closing")
        if request.method != "POST":
            return
        wanted = (JSON_TYPE,) if self.options.json_response else (JSON_TYPE, MEDIA_TYPE)
        if not known and not accepts(request.headers, *wanted):
            raise HttpError(406, f"the header Accept names {' and '.join(wanted)}")
        check_body(request, self.options.body_bytes, known)
        request.headers.cache[self] = True

    def serve(self, request: HttpRequest, writer: ResponseWriter, *, streams: bool = True) -> None:
        """Serve one request on this thread; returns when the response is complete.

        Args:
            request: Its body is read only after Host, Origin and size were looked at.
            writer: Where the response goes.
            streams: Whether it may be an event stream.
        """
        serve_safely(partial(self._serve, request, writer, streams), request, writer)

    def _serve(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        self._check(request, streams)
        if request.method == "POST":
            self._post(request, writer, streams)
            return
        session = self._admission.session(request.headers)
        if request.method == "GET":
            self._get(session, request.headers, writer)
        else:
            self.sessions.end(session, "the client has ended it")
            writer.send(200, [], b"")

    def _check_verb(self, request: HttpRequest, streams: bool) -> None:
        """Refuse what may not be done here by the client that this comes from."""
        verbs = ["POST"]
        if self.options.sessions and not self._admission.has_no_session(request.headers):
            with_get = streams and (self._max_streams != 0 or LAST_EVENT_HEADER in request.headers)
            verbs = [verb for verb in VERBS if verb != "GET" or with_get]
        if request.method not in verbs:
            status = 405 if request.method in KNOWN_VERBS else 501
            raise HttpError(status, "this is served with POST", (("Allow", ", ".join(verbs)),), code=None)

    # ------------------------------------------------------------ POST

    def _post(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        headers = request.headers
        body = body_of(request, self.options.body_bytes)
        if self._trace is not None:
            self._trace("<--", body)
        message = decode(body, max_depth=self._limits.depth)
        if isinstance(message, list):
            self._array(message, request, writer, self._admission.sender_of_array(headers), streams)
        elif isinstance(message, InvalidMessage):
            raise HttpError(400, message.reason, code=message.code, id=message.id)
        else:
            admitted = self._admission.admit(message, headers)
            if isinstance(message, Request):
                self._request(message, admitted, request, writer, streams, len(body))
                return
            if admitted.session is not None:
                admitted.session.take(message)
            writer.send(202, [], b"")

    def _request(
        self,
        message: Request,
        admitted: Admitted,
        request: HttpRequest,
        writer: ResponseWriter,
        streams: bool,
        size: int,
    ) -> None:
        listens = message.method == LISTEN
        streams = streams and (listens or not self.options.json_response)
        response = self._response(admitted, writer, streams)
        try:
            if listens and not streams:
                raise InternalError("no streams are served on this way")
            if listens:
                self._reserve(response)
            incoming = self._incoming(message, admitted, response, request.headers, size)
            if not admitted.revision.handshake:
                writer.on_gone(response.lost)
            self._run(incoming)
        except RpcError as error:
            response.deliver(encode(failure(message.id, error)), True)
        finally:
            if not response.done:
                response.serve()
            self._listening.discard(response)
            self._close_response(response, admitted.session)

    def _run(self, incoming: IncomingRequest) -> None:
        """Have a request served: on this thread, or where it wants to be."""
        route = incoming.route
        if route.start is not None:
            route.start(incoming)
        elif route.immediate:
            incoming.run()
        else:
            self.pool.run(incoming.run)

    def _array(
        self, items: list[Any], request: HttpRequest, writer: ResponseWriter, sender: Admitted, streams: bool
    ) -> None:
        """Serve an array of messages, its requests at the same time; their answers are one array."""
        taken = self._registry.offer.accept_batches or sender.revision.batches
        reason = why_no_batch(items, taken=taken, limit=self._limits.batch)
        if reason is not None:
            raise HttpError(400, reason)
        ids = [item.id for item in items if isinstance(item, Request)]
        invalid = [item for item in items if isinstance(item, InvalidMessage)]
        refused = [encode(Failure(item.id, item.code, item.reason)) for item in invalid]
        response = self._response(sender, writer, streams and not self.options.json_response)
        batch = Batch(response, refused, ids)
        try:
            for item in items:
                if isinstance(item, Request):
                    self._one_of_array(item, batch, response, sender, request.headers)
                elif not isinstance(item, InvalidMessage) and sender.session is not None:
                    sender.session.take(item)
            batch.complete()
            if not ids and not refused:
                response.done = True
                writer.send(202, [], b"")
        finally:
            if not response.done:
                response.serve()
            self._close_response(response, sender.session)

    def _one_of_array(
        self, message: Request, batch: Batch, response: PostResponse, sender: Admitted, headers: Headers
    ) -> None:
        try:
            if message.method == "initialize":
                raise InvalidRequest("initialize stands alone, not in an array")
            admitted = self._admission.within(message, sender)
            incoming = self._incoming(message, admitted, response, headers, 0, batch)
            if incoming.route.start is not None:
                incoming.route.start(incoming)
            elif incoming.route.immediate:
                incoming.run()
            else:
                self.pool.submit(incoming.run)
        except RpcError as error:
            batch.add(message.id, encode(failure(message.id, error)))

    # ------------------------------------------------------------ what is open

    def _incoming(
        self, message: Request, admitted: Admitted, response: PostResponse, headers: Headers, size: int,
        batch: Optional[Batch] = None,
    ) -> IncomingRequest:
        assert admitted.peer is not None and admitted.route is not None
        incoming = IncomingRequest(
            message, admitted.peer, admitted.route, response, size, self._registry.config, headers, batch
        )
        self.requests.add(incoming, key=incoming)  # ids are the client's own, and each POST has its own response
        response.incoming.append(incoming)
        return incoming

    def _response(self, admitted: Admitted, writer: ResponseWriter, streams: bool) -> PostResponse:
        session = admitted.session
        response = PostResponse(
            self.requests, self.pool, session, writer, handshake=admitted.revision.handshake, streams=streams,
            **self._stream_options(session if streams else None, admitted.revision, admitted.headers),
        )
        self._responses[response] = None
        if session is not None:
            session.responses.append(response)
        if streams:
            self.sessions.open_stream(response)
        return response

    def _stream_options(
        self, session: Optional[Session], revision: Any, headers: tuple[tuple[str, str], ...] = ()
    ) -> dict[str, Any]:
        """The options of a response; one that a client may come back for where there is a session."""
        if session is None or self._store is None:
            return {"headers": headers, "trace": self._trace}
        name = session.new_stream_name()
        return {
            "headers": headers, "trace": self._trace, "store": self._store, "name": name, "primed": revision.polling,
        }

    def _close_response(self, response: PostResponse, session: Optional[Session]) -> None:
        self._responses.pop(response, None)
        self.sessions.close_stream(response)
        if session is not None:
            session.responses.remove(response)
            session.used_at = time.monotonic()
            if session.shut and not session.responses:
                self.sessions.end(session, "it was shut down")
        if self.closing:
            with self._changed:
                self._changed.notify_all()

    def _reserve(self, holder: object) -> None:
        """Count a stream of change notifications. Raises InternalError: there are too many."""
        with self._changed:
            if self._max_streams is not None and len(self._listening) >= self._max_streams:
                raise InternalError(f"no more than {self._max_streams} streams may be open here (Limits.streams)")
            self._listening.add(holder)

    # ------------------------------------------------------------ GET

    def _get(self, session: Session, headers: Headers, writer: ResponseWriter) -> None:
        """Serve the stream for what belongs to no request, or go on with a stream that was lost."""
        if not accepts(headers, MEDIA_TYPE):
            raise HttpError(406, f"the header Accept names {MEDIA_TYPE}")
        last = headers.get(LAST_EVENT_HEADER)
        if last is not None:
            self._follow(self._resumed(session, last, writer), writer)
            return
        try:
            self._reserve(writer)
        except InternalError as error:
            raise HttpError(503, error.message) from None
        try:
            stream = EventStream(writer, **self._stream_options(session, session.revision))
            if not session.listen(stream):
                raise HttpError(409, "this session has such a stream already")
            try:
                stream.begin()
            except ConnectionLost:
                stream.leave(writer)  # or the next GET would find it connected, for ever
                raise
            self._follow(stream, writer)
        finally:
            self._listening.discard(writer)

    def _follow(self, stream: EventStream, writer: ResponseWriter) -> None:
        """Write what is posted on a stream, until it ends or does not go here any more."""
        writer.on_gone(partial(stream.leave, writer))
        self.sessions.open_stream(stream)
        try:
            stream.serve(writer)
        finally:
            if stream.done or not stream.connected:
                self.sessions.close_stream(stream)

    def _resumed(self, session: Session, last: str, writer: ResponseWriter) -> EventStream:
        found = _EVENT_ID.fullmatch(last)
        if self._store is not None and found is not None and found[1].startswith(session.key + "."):
            stream = session.stream(found[1]) or EventStream(None, store=self._store, name=found[1])
            if stream.resume(writer, int(found[2])):
                return stream
        raise HttpError(400, "no event of this session has this id, or it is not kept any more (event_store)")

    # ------------------------------------------------------------ the end

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """Refuse new requests, end what is open for notifications, let running requests finish, end all sessions.

        Idempotent, from any thread.

        Args:
            grace: Seconds that running requests get.
            reason: Why they are cancelled before that, for their handlers; None lets them run.

        Blocks: until then.
        """
        if self.closing:
            return
        self.closing = True
        deadline = Deadline(grace)
        self.sessions.end_streams()
        for response in list(self._responses):
            self._registry.subscriptions.end_streams(response)
            for request in response.incoming if reason is not None else ():
                request.cancel(reason)
        with self._changed:
            self._changed.wait_for(lambda: not self._responses, deadline.wait())
            self._changed.wait_for(lambda: not self._listening & set(self._responses), STREAM_SECONDS)
        for response in list(self._responses):
            response.cancel("the server is closing")
            response.close()
        self.sessions.close("the server is closing")

    def __repr__(self) -> str:
        return f"<Endpoint {self.path} {len(self.sessions)} sessions, {len(self._responses)} running>"


def check_body(request: HttpRequest, limit: Optional[int], known: bool = False) -> None:
    """Look at what the headers say about the body of a POST.

    Args:
        request: Nothing of its body was read.
        limit: The longest body, in bytes; None means no limit.
        known: Whether headers like these, but for the length, were found right before.

    Raises:
        HttpError: It is of another type, or too long.
    """
    reason = None if known else why_no_json(request.headers)
    if reason is not None:
        raise HttpError(415, reason)
    length = request.headers.get("Content-Length", "")
    if limit is not None and length.isascii() and length.isdigit() and int(length[:20]) > limit:
        raise _too_long(limit)


def body_of(request: HttpRequest, limit: Optional[int]) -> bytes:
    """The body of a POST. Arguments and errors as `check_body`."""
    body = read_body(request, limit)
    if body is None:
        raise _too_long(limit)
    return body


def _too_long(limit: Optional[int]) -> HttpError:
    return HttpError(413, f"the body is longer than {limit} bytes (HttpOptions.body_bytes)")


def serve_safely(serve: Callable[[], None], request: HttpRequest, writer: ResponseWriter) -> None:
    """Serve a request; what it raises becomes its response, and that the client has gone is no error."""
    try:
        try:
            serve()
        except HttpError as error:
            error.send(writer)
        except ConnectionLost:
            raise
        except Exception as error:
            log.error("a request failed: %s", error, exc_info=error)
            HttpError(500, "the server failed", code=INTERNAL_ERROR).send(writer)
    except ConnectionLost as error:
        log.debug("%s: %s", request.client, error)
