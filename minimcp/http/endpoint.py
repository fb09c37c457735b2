"""Streamable HTTP, the server's side, without sockets: from a parsed request to its response.

Requests that carry their revision stand alone; others belong to a session that `initialize` opens. Both come to one
path. Not here: how bytes travel (`headers.ResponseWriter`), and what requests mean.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable, Optional

from ..engine.exchange import Exchange, Outlet
from ..engine.inbound import Batch, why_no_batch
from ..engine.limits import Limits
from ..engine.workers import Workers
from ..errors import INTERNAL_ERROR, ConnectionLost, InternalError, InvalidRequest, RpcError
from ..protocol.eras import LISTEN
from ..protocol.messages import Broken, Failure, Notification, Request, decode, encode, failure
from ..protocol.sse import MEDIA_TYPE
from ..protocol.versions import Revision
from ..server.registry import Registry
from .headers import (
    JSON_TYPE,
    LAST_EVENT_HEADER,
    Headers,
    HostPolicy,
    HttpRequest,
    HttpResponse,
    ResponseWriter,
    accepts,
)
from .http_server_gate import Admitted, Gate, Sender
from .http_server_listen import Listening
from .http_server_reply import Reply
from .http_server_settings import HttpSettings, Refusal, body_of, check_type
from .http_server_stream import Stream
from .http_server_ticker import Ticker
from .sessions import MakeRole, Session, Sessions

log = logging.getLogger("minimcp.http")

VERBS = ("POST", "GET", "DELETE")
KNOWN_VERBS = frozenset({*VERBS, "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT"})
"""Of others it is said that they are unknown, of these that they are not served."""

FAREWELL_SECONDS = 0.5
"""What a stream of notices gets to be ended politely when nothing else gets time."""


class Endpoint:
    """One server at one path. Thread-safe.

    Args:
        registry: What it can do.
        make_role: Makes what the messages of a session mean.
        settings: Of this path; None takes the defaults.
        limits: What connections may cost; None takes the defaults.
        trace: Called with ("-->" or "<--", line) for every message; None for no trace.
    """

    def __init__(
        self,
        registry: Registry,
        make_role: MakeRole,
        settings: Optional[HttpSettings] = None,
        *,
        limits: Optional[Limits] = None,
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> None:
        self.settings = settings = settings or HttpSettings()
        self._registry, self._limits, self._trace = registry, limits or Limits(), trace
        self._policy = HostPolicy(settings.allowed_hosts, settings.allowed_origins)
        self._store, self._make_role = settings.event_store, make_role
        self._begin_anew()

    def _begin_anew(self) -> None:
        settings = self.settings
        self.sessions = Sessions(self._store, most=settings.max_sessions, ttl=settings.session_ttl)
        self._gate = Gate(self._registry, self._make_role, self.sessions if settings.sessions else None)
        self._ticker = Ticker(self.sessions, keepalive=settings.keepalive, ttl=settings.session_ttl)
        self._listening = Listening(self._stream, self._store, self._ticker, max_streams=settings.max_streams)
        self.workers = Workers(self._limits.workers, name="minimcp-http")
        self._replies: dict[Reply, None] = {}
        self._state = threading.Condition(threading.Lock())
        self._closing = False

    def renew(self) -> None:
        """Begin anew in a forked process: its parent's sessions and threads are not there, locks may be held."""
        if self._store is not None:
            self._store.renew()
        self._begin_anew()

    def serve(self, request: HttpRequest, writer: ResponseWriter, *, streams: bool = True) -> None:
        """Serve one request on this thread; returns when the response is complete.

        Args:
            request: Its body is read only after Host, Origin and size were looked at.
            writer: Where the response goes.
            streams: Whether it may be an event stream.
        """
        try:
            try:
                self._check(request, streams)
                self._serve(request, writer, streams)
            except Refusal as refusal:
                refusal.send(writer)
            except ConnectionLost:
                raise
            except Exception as error:
                log.error("a request failed: %s", error, exc_info=error)
                Refusal(500, "the server failed", code=INTERNAL_ERROR).send(writer)
        except ConnectionLost as error:
            log.debug("%s: %s", request.client, error)

    def check(self, request: HttpRequest) -> Optional[HttpResponse]:
        """The response that refuses a request by its head alone; None when its body is wanted. Never blocks."""
        try:
            self._check(request, streams=True)
        except Refusal as refusal:
            return refusal.response()
        return None

    def _check(self, request: HttpRequest, streams: bool) -> None:
        if self not in request.headers.cache:
            refusal = self._policy.refusal(request.headers)
            if refusal is not None:
                raise Refusal(*refusal)
        if request.path != self.settings.path and request.path.partition("?")[0] != self.settings.path:
            raise Refusal(404, f"there is nothing here: the server is at {self.settings.path}", code=None)
        if request.method != "POST":
            self._check_verb(request, streams)
        if self._closing:
            raise Refusal(503, "the server is closing")
        if request.method == "POST" and self not in request.headers.cache:
            self._check_headers(request.headers)

    def _serve(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        authenticate = self.settings.authenticate
        principal = None if authenticate is None else authenticate(request)
        if request.method == "POST":
            self._post(request, writer, principal, streams)
            return
        session = self._gate.session(request.headers, principal)
        if request.method == "GET":
            self._listening.serve(session, request.headers, writer)
        else:
            self.sessions.end(session, "the client has ended it")
            writer.send(200, [], b"")

    def _check_verb(self, request: HttpRequest, streams: bool) -> None:
        """Refuse what may not be done here by the client that this comes from."""
        verbs = ["POST"]
        if self.settings.sessions and not self._gate.is_alone(request.headers):
            with_get = streams and (self.settings.max_streams != 0 or LAST_EVENT_HEADER in request.headers)
            verbs = [verb for verb in VERBS if verb != "GET" or with_get]
        if request.method not in verbs:
            status = 405 if request.method in KNOWN_VERBS else 501
            raise Refusal(status, "this is served with POST", (("Allow", ", ".join(verbs)),), code=None)

    # ------------------------------------------------------------ POST

    def _post(self, request: HttpRequest, writer: ResponseWriter, principal: Optional[str], streams: bool) -> None:
        body = body_of(request, self.settings.max_body_bytes)
        if self._trace is not None:
            self._trace("<--", body)
        message = decode(body, max_depth=self._limits.depth)
        if isinstance(message, list):
            self._array(message, request, writer, self._gate.sender_of_array(request.headers, principal), streams)
        elif isinstance(message, Broken):
            raise Refusal(400, message.reason, code=message.code, id=message.id)
        else:
            admitted = self._gate.admit(message, request.headers, principal)
            if isinstance(message, Request):
                self._request(message, admitted, request, writer, streams)
            else:
                _hear(message, admitted.session)
                writer.send(202, [], b"")

    def _check_headers(self, headers: Headers) -> None:
        """Look at what the headers of a POST say about bodies; what is right is cached, with Host and Origin."""
        wanted = (JSON_TYPE,) if self.settings.json_response else (JSON_TYPE, MEDIA_TYPE)
        if not accepts(headers, *wanted):
            raise Refusal(406, f"the header Accept names {' and '.join(wanted)}")
        check_type(headers)
        headers.cache[self] = True

    def _request(
        self, message: Request, admitted: Admitted, request: HttpRequest, writer: ResponseWriter, streams: bool
    ) -> None:
        listens = message.method == LISTEN
        streams = streams and (listens or not self.settings.json_response)
        reply = self._reply(admitted.sender, writer, streams, admitted.headers)
        exchange = self._exchange(message, admitted, reply, request)
        reply.add(exchange)
        self._begin(reply, admitted.sender.session, streams)
        try:
            full = self._why_full(exchange, reply, streams)
            if full:
                reply.finish(encode(failure(message.id, InternalError(full))))
                return
            if not admitted.sender.revision.handshake:
                writer.on_gone(reply.lost)
            reply.run(exchange)
            reply.wait()
        finally:
            if listens:
                self._listening.release(reply)
            self._end(reply, admitted.sender.session)

    def _array(
        self, items: list[Any], request: HttpRequest, writer: ResponseWriter, sender: Sender, streams: bool
    ) -> None:
        """Serve an array of messages, its requests at the same time; their answers are one array."""
        taken = self._registry.offer.accept_batches or sender.revision.batches
        reason = why_no_batch(items, taken=taken, limit=self._limits.batch)
        if reason is not None:
            raise Refusal(400, reason)
        ids = [item.id for item in items if isinstance(item, Request)]
        refused = [encode(Failure(item.id, item.code, item.reason)) for item in items if isinstance(item, Broken)]
        streams = streams and not self.settings.json_response
        reply = self._reply(sender, writer, streams)
        batch = Batch(reply, refused, ids)
        self._begin(reply, sender.session, streams)
        try:
            for item in items:
                if isinstance(item, Request):
                    self._one_of_array(item, batch, reply, sender, request)
                elif not isinstance(item, Broken):
                    _hear(item, sender.session)
            whole = batch.complete()
            if whole is not None:
                reply.finish(whole)
            elif not ids:
                writer.send(202, [], b"")
                return
            reply.wait()
        finally:
            self._end(reply, sender.session)

    def _one_of_array(
        self, message: Request, batch: Batch, reply: Reply, sender: Sender, request: HttpRequest
    ) -> None:
        try:
            if message.method == "initialize":
                raise InvalidRequest("initialize stands alone, not in an array")
            admitted = self._gate.within(message, sender)
        except RpcError as error:
            batch.owe(message.id, encode(failure(message.id, error)))
            return
        exchange = self._exchange(message, admitted, batch, request)
        reply.add(exchange)
        if exchange.route.control or exchange.route.start is not None:
            reply.run(exchange)
        else:
            reply.run_beside(exchange)

    # ------------------------------------------------------------ what is open

    def _exchange(self, message: Request, admitted: Admitted, outlet: Outlet, request: HttpRequest) -> Exchange:
        assert admitted.peer is not None and admitted.route is not None
        exchange = Exchange(message, admitted.peer, admitted.route, outlet)
        exchange.server, exchange.headers = self._registry.facts, request.headers
        return exchange

    def _reply(
        self, sender: Sender, writer: ResponseWriter, streams: bool, headers: tuple[tuple[str, str], ...] = ()
    ) -> Reply:
        session = sender.session
        return Reply(
            self._stream(writer, session if streams else None, sender.revision, headers),
            self.workers,
            handshake=sender.revision.handshake,
            streams=streams,
            table=None if session is None else session.table,
            max_message_bytes=self._limits.message_bytes,
        )

    def _stream(
        self,
        writer: ResponseWriter,
        session: Optional[Session],
        revision: Optional[Revision] = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Stream:
        """A response; one that a client may come back for where there is a session."""
        if session is None or self._store is None:
            return Stream(writer, headers=headers, trace=self._trace)
        name, polling = session.new_stream_name(), (revision or session.revision).polling
        return Stream(writer, headers=headers, store=self._store, name=name, primed=polling, trace=self._trace)

    def _why_full(self, exchange: Exchange, reply: Reply, streams: bool) -> str:
        """Why a request must not begin; empty when it may, and then a stream of notices has its place."""
        most = self._limits.requests
        if exchange.request.method == LISTEN:
            return self._listening.reserve(reply) if streams else "no streams are served on this way"
        if most is None or len(self._replies) <= most or exchange.route.control:
            return ""
        return f"more than {most} requests run already (max_requests)"

    def _begin(self, reply: Reply, session: Optional[Session], streams: bool) -> None:
        self._replies[reply] = None
        if session is not None:
            session.replies.append(reply)
        if streams:
            self._ticker.add(reply.stream)
        else:
            self._ticker.wake()

    def _end(self, reply: Reply, session: Optional[Session]) -> None:
        self._replies.pop(reply, None)
        self._ticker.discard(reply.stream)
        if session is not None:
            session.replies.remove(reply)
            session.used_at = time.monotonic()
            if session.shut and not session.replies:
                self.sessions.end(session, "it was shut down")
        if self._closing:
            with self._state:
                self._state.notify_all()

    # ------------------------------------------------------------ the end

    @property
    def closing(self) -> bool:
        """Whether new requests are refused."""
        return self._closing

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """Refuse new requests, end what is open for notices, let running requests finish, and end all sessions.

        Idempotent, from any thread.

        Args:
            grace: Seconds that running requests get.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
        """
        if self._closing:
            return
        self._closing = True
        self.sessions.end_streams()
        for reply in list(self._replies):
            self._registry.subscriptions.end_streams(reply)
            for exchange in reply.requests() if reason is not None else ():
                exchange.cancel(reason)
        with self._state:
            self._state.wait_for(lambda: not self._replies, timeout=grace)
            self._state.wait_for(lambda: not self._listening.among(self._replies), timeout=FAREWELL_SECONDS)
        for reply in list(self._replies):
            reply.cancel("the server is closing")
            reply.stream.close()
        self.sessions.close("the server is closing")
        self._ticker.close()
        self.workers.close()

    def __repr__(self) -> str:
        return f"<Endpoint {self.settings.path} {len(self.sessions)} sessions, {len(self._replies)} running>"


def _hear(message: Any, session: Optional[Session]) -> None:
    """Take a notification or an answer in; those outside of a session mean nothing."""
    if session is not None and isinstance(message, Notification):
        session.notified(message)
    elif session is not None:
        session.answered(message)

