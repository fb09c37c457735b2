"""``minimcp bridge``: serve a stdio server over Streamable HTTP, or a server with a URL over stdio.

The front of the bridge is a `Server` without methods of its own. It forwards each request over a
`Link`, which is a client's connection to the server behind the bridge. A lost connection is opened
again.

If both sides use a handshake, or neither does, messages are forwarded unchanged, except for ids of
requests, progress and subscriptions, which belong to one connection. If only one side does, `Link`
translates requests and results.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import secrets
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .. import Tasks, __version__ as VERSION, errors
from ..client.connect import ConnectOptions, Target, negotiate
from ..client.host import Host
from ..client.session import MAX_BUSY_TRIES, ClientSession
from ..client.subscriptions import ClientSubscriptions, with_uri
from ..engine.asking import ask_peer, wait_until_initialized
from ..engine.calls import Calls
from ..engine.incoming import DEFERRED, IncomingRequest, Route, Sink
from ..engine.limits import Limits
from ..engine.pool import waiting
from ..engine.shares import Place
from ..engine.timer import NEVER, Deadline, timer
from ..errors import (
    Busy,
    Cancelled,
    ConnectionLost,
    InternalError,
    McpError,
    MethodNotFound,
    RpcError,
    SessionGone,
)
from ..features.subscriptions import Subscriptions
from ..protocol import lifecycle
from ..protocol.lifecycle import (
    INPUT_REQUIRED,
    LISTEN,
    LOG_LEVEL_KEY,
    STREAMS,
    SUBSCRIPTION_KEY,
    Handshake,
    Peer,
    SupportedRevisions,
)
from ..protocol.messages import Failure, Json, Notification, Request, Result, encode, size_of
from ..protocol.versions import BY_NAME, LISTS, NEWEST_HANDSHAKE, REVISIONS, Revision
from ..server.registry import SPECIFIED_METHODS, Registry, ServerRole
from ..server.server import Server
from ..types import Tool

log = errors.logger("minimcp.bridge")

# Time limit for starting a server and negotiating the revision.
CONNECT_SECONDS = 60.0
# The part of that limit in which a process must answer the first request, before a handshake is
# tried.
PROBE_SECONDS = 5.0

# Default time without a call after which the process of stateless clients is ended.
IDLE_SECONDS = 300.0

# Time limit for sending a notification, and for waiting until earlier notifications are sent.
FLUSH_SECONDS = 10.0

# Maximum memory of a client's description of itself, which is kept to open connections again.
MAX_OPENING_BYTES = 64 * 1024

# Maximum number of servers that run at the same time: one per session or stateless client.
MAX_LINKS = 200

# Maximum number of notifications that are queued for a client, per stream or session, and their
# memory.
MAX_QUEUED = 1000
MAX_QUEUED_BYTES = 16 * 1024 * 1024

# Time that a process gets to exit after its stdin is closed, and again after SIGTERM. Hosts wait
# two seconds for the bridge itself.
EXIT_SECONDS = 0.7

ENVELOPE = (lifecycle.VERSION_KEY, lifecycle.CAPABILITIES_KEY, lifecycle.CLIENT_KEY, LOG_LEVEL_KEY)
HANDSHAKES = tuple(each for each in REVISIONS if each.handshake)
PER_REQUEST = tuple(each for each in REVISIONS if not each.handshake)

# The clientInfo that is sent for a client that has not named itself.
OWN_INFO: Result = {"name": "minimcp-bridge", "version": VERSION}

# Requests that set a state of the session. The bridge restores the state in a new connection.
STATE_METHODS = ("logging/setLevel", "resources/subscribe", "resources/unsubscribe")


# ------------------------------------------------------------ forwarding


def exchange(
    incoming: IncomingRequest,
    calls: Calls,
    params: Result,
    notify: Callable[[str, Result], object],
    add: Callable[..., Result] = lambda params, id: params,
) -> Union[Result, Failure]:
    """Forward a request and wait for its response. Also forward its cancellation and progress.

    Args:
        incoming: The request.
        calls: The calls of the connection to forward to.
        params: The params to send.
        notify: Sends a notification to the sender of the request.
        add: Adds request metadata to the params; its second argument is the id.

    Raises:
        McpError: There is no response.
    """
    wants_progress = incoming.progress_token is not None

    def make_params(id: Any) -> Result:
        if not wants_progress:
            return add(params, id)
        return add(with_meta(params, add={"progressToken": id}), id)

    def progress(params: Result) -> None:
        notify("notifications/progress", {**params, "progressToken": incoming.progress_token})

    call = calls.send(incoming.request.method, make_params, progress if wants_progress else None)
    remove_callback = incoming.on_cancel(
        lambda: calls.end(call, Cancelled(incoming.token.reason or "the request was cancelled"))
    )
    try:
        return calls.wait(call, NEVER)
    finally:
        remove_callback()


def respond(incoming: IncomingRequest, answer: Union[Result, Failure]) -> Any:
    """Return what the handler of a forwarded request returns for the response.

    An error is sent to the client at once, with its own code, message and data.
    """
    if not isinstance(answer, Failure):
        return answer
    latest = incoming.take_answering()
    if latest is not None:
        latest.sink.respond(latest, encode(answer._replace(id=latest.request.id)))
    return DEFERRED


def as_in_front(failure: Failure, behind: ClientSession, incoming: IncomingRequest) -> Failure:
    """Return an error of the server behind with the error code of the client's revision.

    The revisions have different codes for a missing resource.
    """
    server_code = behind.era.revision.resource_missing
    is_missing = incoming.request.method == "resources/read" and failure.code == server_code
    if server_code == errors.INVALID_PARAMS:  # this code also has other meanings
        is_missing = is_missing and isinstance(failure.data, dict) and "uri" in failure.data
    if not is_missing:
        return failure
    return failure._replace(code=incoming.peer.revision.resource_missing)


def for_older_client(answer: Result) -> Result:
    """Return a result for a client with a handshake, where structured content must be an object.

    Other structured content is removed, and so is its schema.
    """
    listed = answer.get("tools")
    for tool in listed if isinstance(listed, list) else ():
        schema = tool.get("outputSchema") if isinstance(tool, dict) else None
        if not schema:
            continue
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            del tool["outputSchema"]
    if isinstance(answer.get("structuredContent", {}), dict):
        return answer
    return {name: value for name, value in answer.items() if name != "structuredContent"}


def with_meta(
    params: Mapping[str, Json], drop: Sequence[str] = (), add: Mapping[str, Json] = {}
) -> Result:
    """Return params with members removed from and added to their ``_meta``.

    An empty ``_meta`` is left out.
    """
    meta = {name: value for name, value in (params.get("_meta") or {}).items() if name not in drop}
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return {**rest, "_meta": {**meta, **add}} if meta or add else rest


# ------------------------------------------------------------ the server behind


class Unreachable(InternalError):
    """The server behind did not respond. The log has the reason."""


class Link(Host):
    """A connection to the server behind, for one session in front or for stateless clients.

    It is a `Host` that forwards the server's questions to the client in front. Thread-safe.

    Args:
        bridge: The bridge that the link belongs to.
        opening: The params of the client's `initialize`, or equivalent params for a stateless
            client.
        shakes_hands: Whether the client has sent an `initialize`.
        target: The server behind; None means that of the bridge.
    """

    # Counts the link among the processes of its client.
    place: Optional[Place] = None
    # The destination of a process's stderr, as for `connect`.
    stderr: Any = None

    def __init__(
        self,
        bridge: Bridge,
        opening: Result,
        shakes_hands: bool,
        target: Optional[Target] = None,
    ) -> None:
        super().__init__(limits=Limits(backlog_bytes=MAX_QUEUED_BYTES, workers=None))
        self.asked_tasks = self  # so that `route` is called for every request of the server
        # Only the names are used: they declare which notifications to subscribe to.
        self.functions = dict.fromkeys(["on_log", *(f"on_{name}_changed" for name in LISTS)], int)
        # The params that are repeated in HTTP headers of forwarded requests.
        self.names = dict(Tasks.names)
        self.fronts: list[Front] = []
        # Running requests. The value is the `Front` of the session, or for a stateless request a
        # lock that orders its questions.
        self.running: dict[IncomingRequest, Any] = {}
        self._bridge = bridge
        self._shakes_hands = shakes_hands
        self._subscribes = shakes_hands
        self.target: Target = target or bridge.target
        info = opening.get("clientInfo")
        # Servers reject an empty clientInfo.
        self._info = info if isinstance(info, dict) and info else OWN_INFO
        self._opening = {**opening, "clientInfo": self._info}
        self._opened: Optional[ClientSubscriptions] = None
        self._session: Optional[ClientSession] = None
        # The server's result of the client's `initialize`.
        self._answer: Optional[Result] = None
        # Whether the client has sent `notifications/initialized`.
        self._is_initialized = False
        self.closed = False
        # For each requestState, the call that waits for an answer, and the queue for the answer.
        self._replies: dict[str, tuple[IncomingRequest, SimpleQueue[Any]]] = {}
        self._tools: list[Tool] = []
        self._changes = Subscriptions(bridge, lambda kind: True)
        self._cancel_idle_timer: Callable[[], object] = int
        # Held while a connection is opened, because every call has to wait for it anyway.
        self._lock = threading.Lock()

    # ------------------------------------------------------------ opening and closing

    def capabilities(self, revision: Revision) -> Result:
        """Return the capabilities that the client in front declares."""
        declared = self._opening.get("capabilities")
        return declared if isinstance(declared, dict) else {}

    def _open(self) -> ClientSubscriptions:
        """Return the connection; open it if it is not open.

        Raises:
            McpError: The connection cannot be opened.
        """
        with waiting(), self._lock:
            if self.closed:
                raise ConnectionLost("the bridge is closing")
            if self._opened is None or self._opened.session.cause is not None:
                if self._opened is not None:
                    self._opened.session.close()
                self._opened = self._connect().subscriptions
            return self._opened

    def _connect(self) -> ClientSession:
        options = ConnectOptions(
            self.target,
            REVISIONS,
            self._info,
            self,
            Limits(),
            None,
            self.stderr,
            CONNECT_SECONDS,
            PROBE_SECONDS,
        )
        seconds = None if self.target.entry is None else self.target.entry.connect_timeout
        deadline = Deadline(seconds or CONNECT_SECONDS)
        return options.open_session(partial(self._begin_session, deadline))

    def _begin_session(
        self, deadline: Deadline, session: ClientSession, options: ConnectOptions
    ) -> ClientSession:
        """Negotiate with the server, with the client's own `initialize` if there is one.

        If the server rejects it, negotiate a revision without a handshake.
        """
        self._session = session
        self._answer = None
        try:
            if not self._shakes_hands:
                negotiate(session, options, deadline)
            else:
                self._shake_hands(deadline, session, options)
            session.subscriptions = ClientSubscriptions(session)
            if self._answer is None or self._is_initialized:
                session.ready(deadline)
            if self._subscribes:
                session.subscriptions.begin(deadline, self._opened)
        except BaseException:
            session.close()
            raise
        if session.header_params is not None:
            session.header_params.usable_tools(self._tools, NEVER)
        if session.transport is not None:
            session.transport.grace = EXIT_SECONDS
        return session

    def _shake_hands(
        self, deadline: Deadline, session: ClientSession, options: ConnectOptions
    ) -> None:
        try:
            answer = session.request("initialize", self._opening, deadline)
            session.agree(Handshake.from_result(answer, HANDSHAKES))
        except RpcError as refusal:
            try:
                negotiate(session, options._replace(wanted=PER_REQUEST), deadline)
            except McpError:
                raise refusal from None
        else:
            self._answer = answer
            if self._is_initialized:
                session.notify("notifications/initialized", {}, deadline)

    def _finish(self, incoming: IncomingRequest) -> None:
        """Remove a finished request, and restart the idle timer that ends the process."""
        self.running.pop(incoming, None)
        self._cancel_idle_timer()
        seconds = self._bridge.idle
        if not seconds and not self._shakes_hands:
            seconds = IDLE_SECONDS
        if seconds and not self.target.is_web:
            self._cancel_idle_timer = timer.after(
                seconds, partial(self.pool.spawn, self._close_if_idle)
            )

    def _close_if_idle(self) -> None:
        with self._lock:
            if self._opened is not None and not self.running:
                (self._opened.session if self.fronts else self).close()

    def leave(self, front: Front) -> None:
        """Remove a client that has closed its session.

        After the last one, close the connection, unless other clients share it.
        """
        self.fronts.remove(front)
        if not self.fronts and not self._bridge.shared:
            self.pool.spawn(self.close)

    def is_idle(self) -> bool:
        """Return whether the link belongs to no session and no call is running."""
        return not (self._shakes_hands or self.fronts or self.running)

    def close_soon(self) -> None:
        """Close the connection for good, on another thread."""
        self.closed = True
        self.pool.spawn(self.close)

    def close(self) -> None:
        """Close the connection for good."""
        self.closed = True
        if self.place is not None:
            self.place.leave()
        self._cancel_idle_timer()
        if self._session is not None:
            self._session.close()
        bridge = self._bridge
        with bridge.links_lock:
            bridge.links = {key: link for key, link in bridge.links.items() if link is not self}
        super().close()

    # ------------------------------------------------------------ requests of the client

    def serve_front(self, front: Optional[Front], incoming: IncomingRequest) -> Any:
        """Forward a request to the server behind and respond to it; see `forward`."""
        return respond(incoming, self.forward(front, incoming, incoming.request.params))

    def forward(self, front: Optional[Front], incoming: IncomingRequest, params: Result) -> Any:
        """Forward a request to the server behind. Return the result, a Failure, or `DEFERRED`.

        Args:
            front: The front of the session that the request belongs to; None if it is stateless.
            incoming: The request.
            params: Its params for the server behind.
        """
        self.running[incoming] = front or threading.Lock()
        answer: Any = None
        refusals: list[type] = []
        try:
            while True:
                opened = self._open()
                try:
                    answer = self._serve(incoming, opened, params)
                    return answer
                except (SessionGone, Busy) as refusal:
                    error = refusal
                self._prepare_retry(incoming, opened.session, error, refusals)
        except Busy as busy:
            if busy.answer is None:
                raise InternalError(f"the server behind the bridge is busy: {busy}") from None
            return busy.answer
        except RpcError as error:
            return Failure(None, error.code, error.message, error.data)
        except Cancelled:
            raise
        except McpError as error:
            self.report(incoming.request.method, error)
            # Show the details only to the user of the bridge, on this machine.
            if self._bridge.is_local:
                details = str(error)
            else:
                details = f"{type(error).__name__}, see the log of the bridge"
            raise Unreachable(
                "no answer from the server behind the bridge (the next call opens a new "
                f"connection): {details}"
            ) from None
        finally:
            is_stream = answer is DEFERRED and incoming.request.method == LISTEN
            if is_stream and incoming.answering is not None:
                # The stream stays open until the client cancels it; see also `lost`.
                incoming.on_cancel(partial(self._finish, incoming))
            else:
                self._finish(incoming)

    def report(self, method: str, error: McpError) -> None:
        """Log why the server behind did not respond to a request."""
        log.warning("%s: %s", method, error)

    def _serve(self, incoming: IncomingRequest, opened: ClientSubscriptions, params: Result) -> Any:
        """Serve a request over one connection to the server behind."""
        has_handshake = opened.session.era.revision.handshake
        if incoming.request.method == "initialize":
            return self._initialize(incoming, opened.session)
        self._flush()
        if has_handshake is incoming.peer.revision.handshake:
            return self._forward(incoming, opened, params)
        if has_handshake:
            return self._with_handshake(incoming, opened, params)
        return self._without_handshake(incoming, opened, params)

    def _prepare_retry(
        self,
        incoming: IncomingRequest,
        session: ClientSession,
        refusal: Union[SessionGone, Busy],
        before: list[type],
    ) -> None:
        """Wait until a request that the server has rejected without running it can be sent again.

        Args:
            incoming: The request of the client in front.
            session: The connection that the request was sent over.
            refusal: The server's error; raised if the request must not be sent again.
            before: The types of earlier refusals of this request; this one is added.
        """
        if isinstance(refusal, SessionGone):
            if not refusal.refused or SessionGone in before:
                raise refusal
            with waiting():
                session.wait_until_ended(CONNECT_SECONDS)
        elif before.count(Busy) == MAX_BUSY_TRIES or not session.wait_while_busy(
            refusal, Deadline(CONNECT_SECONDS), incoming.token
        ):
            raise refusal
        before.append(type(refusal))

    def _initialize(self, incoming: IncomingRequest, session: ClientSession) -> Result:
        described = self._answer or self._described(session, protocolVersion=NEWEST_HANDSHAKE.name)
        incoming.peer.revision = BY_NAME.get(described["protocolVersion"], NEWEST_HANDSHAKE)
        return described

    def _described(self, session: ClientSession, **members: Json) -> Result:
        """Return the server's description in the form of the other kind of revision.

        Tasks are left out, because the other kind has different ones.
        """
        era = session.era
        capabilities = {
            name: value for name, value in era.peer.capabilities.items() if name != "tasks"
        }
        info = dict(era.peer.info) or {"name": session.name, "version": ""}
        described: Result = {**members, "capabilities": capabilities, "serverInfo": info}
        if era.instructions is not None:
            described["instructions"] = era.instructions
        return described

    def _forward(
        self, incoming: IncomingRequest, opened: ClientSubscriptions, params: Result
    ) -> Any:
        """Forward a request unchanged, and remember a state that it sets."""
        method = incoming.request.method
        answer = self._exchange(incoming, opened.session, params)
        if method in STATE_METHODS and not isinstance(answer, Failure):
            opened.log_level = params.get("level", opened.log_level)
            if "uri" in params:
                is_wanted = method == "resources/subscribe"
                opened.uris = with_uri(opened.uris, str(params["uri"]), is_wanted)
        return answer

    def _exchange(
        self,
        incoming: IncomingRequest,
        session: ClientSession,
        params: Result,
        *envelope: Callable[..., Result],
    ) -> Union[Result, Failure]:
        """Forward a request to the server behind; see `exchange`.

        Notifications of a subscription are forwarded with the id of the client's own request.
        """
        method = incoming.request.method
        subscription = {SUBSCRIPTION_KEY: incoming.request.id}
        streams: list[Any] = []

        def forward(notification: Notification) -> None:
            params = with_meta(notification.params, add=subscription)
            self._put(lambda: incoming.send(notification.method, params), notification)

        def before_sending(params: Result, id: Any) -> Result:
            if method in STREAMS:
                streams.append(id)
                session.streams[id] = forward
            return envelope[0](params, id) if envelope else params

        try:
            answer = exchange(incoming, session.calls, params, incoming.send, before_sending)
        finally:
            for id in streams:
                session.streams.pop(id, None)
        self._flush()
        if method in STREAMS and isinstance(answer, dict):
            return with_meta(answer, add=subscription)
        if isinstance(answer, Failure):
            return answer
        if method == "tools/list" and session.header_params is not None:
            # Calls of these tools may have to repeat arguments in HTTP headers.
            self._tools = self._tools if "cursor" in params else []
            listed = answer.get("tools")
            for each in listed if isinstance(listed, list) else ():
                with suppress(ValueError):
                    self._tools.append(Tool.from_wire(each))
            session.header_params.usable_tools(self._tools, NEVER)
        return answer

    # ------------------------------------------- a stateless server for a client with a handshake

    def _without_handshake(
        self, incoming: IncomingRequest, opened: ClientSubscriptions, params: Result
    ) -> Any:
        """Serve a client with a handshake from a stateless server.

        Add metadata to each request. If a result has questions, ask the client and repeat the
        request with the answers.
        """
        method, session = incoming.request.method, opened.session
        if method == "logging/setLevel":
            lifecycle.log_rank(params.get("level"))
            opened.log_level = str(params.get("level"))
            opened.set_log_level(opened.log_level, lambda method, params: None)
        elif method in STATE_METHODS:
            opened.change(
                str(params.get("uri")), method == "resources/subscribe", Deadline(CONNECT_SECONDS)
            )
        if method in (*STATE_METHODS, "ping"):
            return {}
        sent: Result = params
        while True:
            answer = self._exchange(incoming, session, sent, session.add_envelope)
            if isinstance(answer, Failure):
                return as_in_front(answer, session, incoming)
            if answer.get("resultType") != INPUT_REQUIRED:
                return for_older_client(answer)
            questions = answer.get("inputRequests") or {}
            try:
                asked = [
                    (each["method"], self.as_asked(each["method"], each.get("params", {})))
                    for each in questions.values()
                ]
            except (AttributeError, TypeError, LookupError):
                raise InternalError("the server behind the bridge asks invalid questions") from None
            outcome = ask_peer(incoming, asked, None)
            if isinstance(outcome, Failure):
                return outcome
            sent = {**params, "inputResponses": dict(zip(questions, outcome))}
            if "requestState" in answer:
                sent["requestState"] = answer["requestState"]

    # ------------------------------------------- a server with a handshake for a stateless client

    def _with_handshake(
        self, incoming: IncomingRequest, opened: ClientSubscriptions, params: Result
    ) -> Any:
        """Serve a stateless client from a server with a handshake.

        If the server asks a question during the call, the question is the result; see `_ask`.
        """
        method, session = incoming.request.method, opened.session
        level = params["_meta"].get(LOG_LEVEL_KEY)
        state = params.get("requestState")
        peer = session.era.peer
        request = partial(session.request, deadline=Deadline(CONNECT_SECONDS))
        if state is not None:
            return self._resume_call(incoming, state)
        if method == LISTEN:
            filters = params.get("notifications")
            uris = filters.get("resourceSubscriptions") if isinstance(filters, dict) else None
            for uri in uris or ():
                request("resources/subscribe", {"uri": uri})
            return self._changes.listen(incoming)
        if level not in (None, opened.log_level) and peer.supports("logging"):
            request("logging/setLevel", {"level": level})
            opened.log_level = level
        result: Any = {}
        if method == "server/discover":
            result = self._described(session, supportedVersions=[each.name for each in PER_REQUEST])
            del result["serverInfo"]
        else:
            result = self._exchange(incoming, session, with_meta(params, ENVELOPE))
        if isinstance(result, Failure):
            return as_in_front(result, session, incoming)
        is_cacheable = method.endswith("/list") or method in ("server/discover", "resources/read")
        hints = {"ttlMs": 0, "cacheScope": "private"} if is_cacheable else {}
        return with_meta(
            {"resultType": "complete", **hints, **result},
            add={lifecycle.SERVER_KEY: dict(peer.info)},
        )

    def _resume_call(self, incoming: IncomingRequest, state: Json) -> Any:
        """Resume the call that waits for this request's answers. It continues as this request."""
        entry = self._replies.pop(state, None) if isinstance(state, str) else None
        if entry is None:
            raise errors.InvalidParams(
                "no call is waiting for this requestState: it was used before, or is too old"
            )
        call, replies = entry
        call.continue_with(incoming)
        replies.put(incoming.request.params.get("inputResponses"))
        return DEFERRED

    def stop_waiting(self, sink: Sink) -> None:
        """Cancel the calls that wait for answers of a client that is disconnecting."""
        for state, (call, _) in list(self._replies.items()):
            if call.sink is sink and self._replies.pop(state, None) is not None:
                call.token.cancel("the client is disconnecting")

    # ------------------------------------------------------------ messages from the server

    def route(self, method: str, peer: Peer) -> Route:
        """Return the route of every request of the server. Called by `ClientSession.admit`."""
        return Route(self._ask)

    def peer_lost(self, peer: Peer) -> None:
        """End the streams over a lost connection. Called by `ClientSession.connection_lost`."""
        for incoming in [each for each in list(self.running) if each.request.method == LISTEN]:
            self._changes.end_streams(incoming.sink)
            self._finish(incoming)

    def as_asked(self, method: str, params: Result) -> Result:
        """Return the params of a question of the server as the client gets them."""
        return params

    def _calls(self) -> list[IncomingRequest]:
        """Return the running requests except streams, oldest first."""
        return [each for each in list(self.running) if each.request.method not in STREAMS]

    def _ask(self, question: IncomingRequest) -> Any:
        """Forward a question of the server to the client in front.

        If a call is running, the question belongs to it.
        """
        # The last one is the newest call that has no open question.
        calls = sorted(
            self._calls(), key=lambda each: each.answering is not None and each.answering.is_due
        )
        fronts = {each: self.running.get(each) for each in calls}
        clients = {
            front if isinstance(front, Front) else each.sink for each, front in fronts.items()
        }
        if len(clients if calls else self.fronts) != 1:
            raise InternalError(
                "the question cannot be assigned to a client: no client, or more than one, has "
                "a call"
            )
        if calls and not calls[-1].peer.revision.handshake:
            with waiting(), fronts[calls[-1]] or self._lock:
                return self._ask_by_result(calls[-1], question)
        if calls:
            wait_until_initialized(calls[-1])
        channel = calls[-1].sink.asking() if calls else self.fronts[0].asking()
        params = self.as_asked(question.request.method, question.request.params)

        def notify(method: str, params: Result) -> None:
            self.notify(Notification(method, params))

        return respond(question, exchange(question, channel, params, notify))

    def _ask_by_result(self, call: IncomingRequest, question: IncomingRequest) -> Result:
        """Answer a stateless call with a question, and wait for the request with the answer."""
        state = secrets.token_urlsafe(16)
        replies = SimpleQueue[Any]()
        _, method, params = question.request
        asked = {"method": method, "params": self.as_asked(method, params)}
        result = {"resultType": INPUT_REQUIRED, "inputRequests": {"1": asked}}
        self._replies[state] = call, replies
        # If the call or the connection to the server ends, nobody needs the answer.
        for request in (call, question):
            request.token.on_cancel(partial(replies.put, None))
        latest = call.answering
        try:
            if latest is None or not latest.answer({**result, "requestState": state}):
                raise InternalError("the call that the question belongs to has finished")
            with waiting():
                answer = replies.get(timeout=Limits().ask_timeout)["1"]
        except (Empty, KeyError, TypeError):
            raise InternalError("the client did not answer") from None
        finally:
            self._replies.pop(state, None)
        return dict(answer)

    def queue_callback(self, notification: Notification) -> None:
        """Queue a notification of the server for the clients. Never blocks."""
        self._put(partial(self._notify_fronts, notification), notification)

    def _notify_fronts(self, notification: Notification) -> None:
        method, params = notification
        for front in list(self.fronts):
            with suppress(McpError):
                front.tell(encode(Notification(method, with_meta(params, [SUBSCRIPTION_KEY]))))
        for name in LISTS:
            if method == f"notifications/{name}/list_changed":
                self._changes.list_changed(name)
        if method == "notifications/resources/updated":
            self._changes.resource_updated(str(params.get("uri")))
        if method != "notifications/message" or self.fronts:
            return
        # A stateless client gets log messages only during a call that asks for them.
        with_log = [each for each in self._calls() if each.peer.log_rank is not None]
        if len({each.sink for each in with_log}) == 1:
            with_log[-1].send(method, params)

    def notify(self, notification: Notification) -> None:
        """Queue a notification of the client for the server. Never blocks."""
        self._put(partial(self._notify, notification), notification)

    def _notify(self, notification: Notification) -> None:
        session = self._session
        is_initialized = notification.method == "notifications/initialized"
        is_repeated = is_initialized and self._is_initialized
        self._is_initialized = self._is_initialized or is_initialized
        if session is None or self._answer is None or is_repeated:
            return
        session.notify(*notification, Deadline(FLUSH_SECONDS))
        if is_initialized:
            session.ready(Deadline(FLUSH_SECONDS))

    def _put(self, callback: Callable[[], object], notification: Notification) -> None:
        def run() -> None:
            with suppress(McpError):  # the receiver has disconnected
                callback()

        self._callbacks.put(run, size_of(notification.params, MAX_QUEUED_BYTES))

    def _flush(self) -> None:
        """Wait until the queued notifications are sent."""
        done = threading.Event()
        self._callbacks.put(done.set)
        with waiting():
            done.wait(FLUSH_SECONDS)


# ------------------------------------------------------------ the clients in front


def check_method(request: Request, peer: Peer) -> None:
    """Check that a method is not one that only other revisions have.

    The server behind may use another revision, and would answer.

    Raises:
        MethodNotFound: The method exists, but not in the client's revision.
    """
    if (
        request.method in SPECIFIED_METHODS
        and request.method not in peer.revision.requests_to_server
    ):
        raise MethodNotFound(f"Method not found: {request.method}")


class Front(ServerRole):
    """A client in front: its connection over stdio, or its session over HTTP."""

    _registry: Bridge
    # The link of the client's session; None for a stateless client.
    link: Optional[Link] = None
    # The sink of the client's `initialize`.
    sink: Any = None

    def admit(self, request: Request) -> tuple[Peer, Route]:
        peer = self.negotiation.admit(request)
        if not peer.revision.handshake:
            return peer, self._registry.route(request, peer)
        check_method(request, peer)
        if request.method == "initialize":
            self._leave()
            self.link = self._registry.link(self, request.params, True)
            self.link.fronts.append(self)
        return peer, Route(self._serve)

    def _serve(self, incoming: IncomingRequest) -> Any:
        if incoming.request.method == "initialize":
            self.sink = incoming.sink
        if self.link is None:  # a ping before `initialize`
            return {}
        return self.link.serve_front(self, incoming)

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.negotiation.era is not None:
            self.begin(self.negotiation.era.peer)
        if self.link is not None:
            self.link.notify(notification)

    def on_draining(self, sink: Sink) -> None:
        super().on_draining(sink)
        for link in list(self._registry.links.values()):
            link.stop_waiting(sink)

    def connection_lost(self, cause: ConnectionLost) -> None:
        self._leave()
        super().connection_lost(cause)

    def _leave(self) -> None:
        link = self.link
        self.link = None
        if link is not None:
            link.leave(self)

    def tell(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send a message that does not belong to a request.

        Over HTTP it goes to the stream for such messages, or to the response of any request. If
        none is open, it is queued.
        """
        session = getattr(self.sink, "session", None)
        stream = None if session is None else session.unsolicited
        if session is None or (stream is not None and stream.is_connected()):
            (stream or self.sink).send(line)
        elif session.responses:
            session.responses[-1].send(line)
        elif len(session.pending) < MAX_QUEUED:
            session.post(line)
        return True

    def asking(self) -> Calls:
        """Return the calls for questions to the client that do not belong to a request."""
        session = getattr(self.sink, "session", None)
        calls: Calls = (
            self.sink.asking() if session is None else session.calls.through(self.tell, self.tell)
        )
        return calls


class Bridge(Registry):
    """The registry of the server in front, which forwards every method. Thread-safe.

    Args:
        front: The server in front; it must have no methods of its own.
        target: The server behind.
        shared: Whether all clients share one connection to the server behind.
        idle: Seconds without a call after which a process is ended; None means the default.
        is_local: Whether errors may quote the server's output, because the only client is the
            program that has started the bridge.
    """

    def __init__(
        self,
        front: Server,
        target: Optional[Target],
        *,
        shared: bool = False,
        idle: Optional[float] = None,
        is_local: bool = False,
    ) -> None:
        super().__init__(front._config, SupportedRevisions(REVISIONS))
        self.target: Any = target
        self.shared = shared
        self.idle = idle
        self.is_local = is_local
        self.links: dict[object, Link] = {}
        self.links_lock = threading.Lock()
        self._pool = front._pool
        self._begin_lock = threading.Lock()
        self.role = partial(Front, self)
        front._registry = self

    def warn_if_empty(self) -> None:
        """Do nothing: the tools belong to the server behind."""

    def link(self, key: object, opening: Result, shakes_hands: bool) -> Link:
        """Return the link of a client; create it if there is none.

        Raises:
            RpcError: There are too many links, or the client's description is too large.
        """
        key = None if self.shared else key
        if size_of(opening, MAX_OPENING_BYTES) > MAX_OPENING_BYTES:
            raise errors.InvalidParams(
                f"the client's capabilities and clientInfo use more than {MAX_OPENING_BYTES} "
                "bytes of memory"
            )
        with self.links_lock:
            if key not in self.links and len(self.links) >= MAX_LINKS:
                idle = [name for name, link in self.links.items() if link.is_idle()]
                if idle:
                    self.links.pop(idle[0]).close_soon()  # the oldest one
            if key not in self.links and len(self.links) >= MAX_LINKS:
                raise InternalError(f"{MAX_LINKS} servers are running already, one per client")
            if key not in self.links or self.links[key].closed:
                self.links[key] = self.new_link(opening, shakes_hands)
            return self.links[key]

    def new_link(self, opening: Result, shakes_hands: bool) -> Link:
        """Return a new link for a client. Arguments are those of `Link`."""
        return Link(self, opening, shakes_hands)

    def end(self) -> None:
        """Close every connection to the server behind. Blocks for at most two seconds."""
        threads = [threading.Thread(target=link.close) for link in list(self.links.values())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def route(self, request: Request, peer: Peer) -> Route:
        """Return the route of a stateless request.

        Clients with the same clientInfo and capabilities share a link.

        Raises:
            MethodNotFound: Only other revisions have the method.
        """
        check_method(request, peer)
        meta = request.params["_meta"]
        if not meta.get(lifecycle.CLIENT_KEY):
            meta.pop(lifecycle.CLIENT_KEY, None)
        described = {
            "clientInfo": meta.get(lifecycle.CLIENT_KEY),
            "capabilities": meta[lifecycle.CAPABILITIES_KEY],
        }
        opening = {"protocolVersion": NEWEST_HANDSHAKE.name, **described}
        key = json.dumps(described, sort_keys=True)

        def serve(incoming: IncomingRequest) -> Any:
            return self._link_for_stateless_client(key, opening, incoming).serve_front(
                None, incoming
            )

        return Route(serve, enqueue=lambda incoming: self._pool.submit(incoming.run))

    def _link_for_stateless_client(
        self, key: str, opening: Result, incoming: IncomingRequest
    ) -> Link:
        """Return the link of stateless clients.

        It counts against the limit of the client that opened it.

        Raises:
            RpcError: See `link`; or the client has opened too many.
        """
        place: Optional[Place] = None
        with self._begin_lock:
            known = self.links.get(key)
            if not self.shared and (known is None or known.closed):
                place = incoming.reserve("processes", MAX_LINKS, lambda: self._close_idle(key))
            try:
                link = self.link(key, opening, False)
            except BaseException:
                if place is not None:
                    place.leave()
                raise
            if place is not None:
                link.place = place
        return link

    def _close_idle(self, key: str) -> bool:
        """Close a link that has no call. Return whether the link is gone."""
        with self.links_lock:
            link = self.links.get(key)
            if link is None or not link.is_idle():
                return link is None
            del self.links[key]
        link.close_soon()
        return True
