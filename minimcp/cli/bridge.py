"""``minimcp bridge``: a stdio server served over Streamable HTTP, and a server with a URL served
over stdio.

In front is a `Server` of this library that has no methods of its own: each request goes on by a
`Link`, a client's connection to the server behind, which is begun anew when it was lost. Where both
sides speak after a handshake, or neither does, messages pass as they are, but for the ids that
belong to a connection: of requests, progress and subscriptions. Where only one side does, `Link`
puts the requests of one into the other's form.
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from argparse import Namespace
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .. import Tasks, __version__ as VERSION, errors
from ..client.connect import ConnectOptions, Target, negotiate, read_target, with_stored_token
from ..client.host import Host
from ..client.session import MAX_BUSY_TRIES, ClientSession
from ..client.subscriptions import ClientSubscriptions, with_uri
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
from ..http.headers import LOOPBACK
from ..http.options import HttpOptions
from ..protocol import lifecycle
from ..protocol.lifecycle import (
    INPUT_REQUIRED,
    LISTEN,
    LOG_LEVEL_KEY,
    SUBSCRIPTION_KEY,
    Handshake,
    Offer,
    Peer,
)
from ..protocol.messages import Failure, Json, Notification, Request, Result, encode, size_of
from ..protocol.versions import BY_NAME, LISTS, NEWEST_HANDSHAKE, REVISIONS, Revision
from ..server.registry import TAKEN, Registry, ServerRole
from ..server.server import Server
from ..types import Tool
from . import Parser, UsageError, complain, split_command
from .commands import TOKEN, add_web, web_of
from .run import address

log = errors.logger("minimcp.bridge")

# Seconds for the start of a server and for agreeing with it, of which a silent process gets so many
# to answer a probe.
CONNECT_SECONDS, PROBE_SECONDS = 60.0, 5.0

# Seconds without a call after which a process ends that serves clients without sessions, if nothing
# else is said.
IDLE_SECONDS = 300.0

# Seconds that a notification may take, and that a request or an answer waits for those before it.
FLUSH_SECONDS = 10.0

# Bytes of memory that a client may take to describe itself, which is kept for a server that is
# begun anew.
OPENING_BYTES = 64 * 1024

# Servers behind that run at once: one for each session, and for each client without one.
MOST_LINKS = 200

# Notifications of one stream, or of one session, that wait for a client, and their bytes of memory.
MOST_WAITING, WAITING_BYTES = 1000, 16 * 1024 * 1024

# Seconds that a process gets to end when its input has, and again after SIGTERM: hosts wait two for
# the bridge.
END_SECONDS = 0.7

ENVELOPE = (lifecycle.VERSION_KEY, lifecycle.CAPABILITIES_KEY, lifecycle.CLIENT_KEY, LOG_LEVEL_KEY)
HANDSHAKES = tuple(each for each in REVISIONS if each.handshake)
PER_REQUEST = tuple(each for each in REVISIONS if not each.handshake)

# How the bridge describes itself to a server with a handshake, whose client has not said who it is.
OWN_INFO: Result = {"name": "minimcp-bridge", "version": VERSION}

# What of its session a client says once, and that the bridge repeats to a server that is begun
# anew.
REPEATED = ("logging/setLevel", "resources/subscribe", "resources/unsubscribe")


# ------------------------------------------------------------ passing on


def exchange(
    incoming: IncomingRequest,
    calls: Calls,
    params: Result,
    tell: Callable[[str, Result], object],
    add: Callable[..., Result] = lambda params, id: params,
) -> Union[Result, Failure]:
    """Send a request on and wait for its answer; its cancellation goes with it, and its progress
    comes back.

    Args:
        incoming: The request.
        calls: Of the connection that it goes on by.
        params: To send.
        tell: Sends a notification to where the request came from.
        add: Adds an envelope to the params, given the id.

    Raises:
        McpError: There is no answer.
    """
    wanted = incoming.progress_token is not None

    def make_params(id: Any) -> Result:
        return add(with_meta(params, add={"progressToken": id}) if wanted else params, id)

    def progress(params: Result) -> None:
        tell("notifications/progress", {**params, "progressToken": incoming.progress_token})

    call = calls.start(incoming.request.method, make_params, progress if wanted else None)
    forget = incoming.on_cancel(
        lambda: calls.end(call, Cancelled(incoming.token.reason or "the request was cancelled"))
    )
    try:
        return calls.wait(call, NEVER)
    finally:
        forget()


def give(incoming: IncomingRequest, answer: Union[Result, Failure]) -> Any:
    """What a handler returns for an answer of the other side; an error is sent with its own code,
    message and data."""
    if not isinstance(answer, Failure):
        return answer
    latest = incoming.take_latest()
    if latest is not None:
        latest.sink.respond(latest, encode(answer._replace(id=latest.request.id)))
    return DEFERRED


def as_in_front(failure: Failure, behind: ClientSession, incoming: IncomingRequest) -> Failure:
    """Return an error of the server behind with the code that the client's revision has for it.

    The revisions differ about a resource that there is not.
    """
    theirs = behind.era.revision.resource_missing
    is_missing = incoming.request.method == "resources/read" and failure.code == theirs
    if theirs == errors.INVALID_PARAMS:  # which says other things, too
        is_missing = is_missing and isinstance(failure.data, dict) and "uri" in failure.data
    return failure._replace(code=incoming.peer.revision.resource_missing) if is_missing else failure


def older(answer: Result) -> Result:
    """A result as clients with a handshake can read it: what is structured is an object there."""
    for tool in answer.get("tools", ()):
        if (
            isinstance(tool, dict)
            and (tool.get("outputSchema") or {}).get("type", "object") != "object"
        ):
            del tool["outputSchema"]
    is_odd = not isinstance(answer.get("structuredContent", {}), dict)
    return {
        name: value
        for name, value in answer.items()
        if not (is_odd and name == "structuredContent")
    }


def with_meta(
    params: Mapping[str, Json], drop: Sequence[str] = (), add: Mapping[str, Json] = {}
) -> Result:
    """Params with other members in their ``_meta``, which is left out when it is empty."""
    meta = {name: value for name, value in (params.get("_meta") or {}).items() if name not in drop}
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return {**rest, "_meta": {**meta, **add}} if meta or add else rest


# ------------------------------------------------------------ behind


class Link(Host):
    """One connection to the server behind, for a session in front or for clients that have none.
    Thread-safe.

    It is a host whose answers the client in front gives.

    Args:
        bridge: Whose it is.
        opening: The params of the client's `initialize`, or such as describe a client that sends
            none.
        shakes_hands: Whether the client has sent them.
    """

    # Counts it among the processes of its client.
    place: Optional[Place] = None

    def __init__(self, bridge: Bridge, opening: Result, shakes_hands: bool) -> None:
        super().__init__(limits=Limits(backlog_bytes=WAITING_BYTES, workers=None))
        self.asked_tasks = self  # which is asked for a route of every request of the server
        # Of these only the names count: what they are about is wanted.
        self.functions = dict.fromkeys(["on_log", *(f"on_{name}_changed" for name in LISTS)], int)
        self.names = dict(
            Tasks.names
        )  # with which headers of requests go out that clients make by themselves
        self.fronts: list[Front] = []
        # Requests; with each whose session it belongs to, or what orders the questions of one that
        # stands alone.
        self.running: dict[IncomingRequest, Any] = {}
        self._bridge = bridge
        self._shakes_hands = shakes_hands
        info = opening.get("clientInfo")
        # Servers reject an empty one.
        self._info = info if isinstance(info, dict) and info else OWN_INFO
        self._opening = {**opening, "clientInfo": self._info}
        self._opened: Optional[ClientSubscriptions] = None
        self._session: Optional[ClientSession] = None
        self._answer: Optional[Result] = None  # of the server, to `initialize`
        self._begun = self.closed = False  # whether the client has said `notifications/initialized`
        # By the state that brings the answer: the call that waits, and where the answer goes.
        self._replies: dict[str, tuple[IncomingRequest, SimpleQueue[Any]]] = {}
        self._tools: list[Tool] = []
        self._changes = Subscriptions(bridge, lambda kind: True)
        self._forget: Callable[[], object] = int
        self._lock = (
            threading.Lock()
        )  # held while the server is begun: every call waits for that anyway

    # ------------------------------------------------------------ its beginning and end

    def capabilities(self, revision: Revision) -> Result:
        """What the client in front declares."""
        declared = self._opening.get("capabilities")
        return declared if isinstance(declared, dict) else {}

    def _open(self) -> ClientSubscriptions:
        """The connection, begun if there is none. Raises McpError: it cannot be."""
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
            self._bridge.target,
            REVISIONS,
            self._info,
            self,
            Limits(),
            None,
            None,
            CONNECT_SECONDS,
            PROBE_SECONDS,
        )
        return options.open_session(partial(self._begin_session, Deadline(CONNECT_SECONDS)))

    def _begin_session(
        self, deadline: Deadline, session: ClientSession, options: ConnectOptions
    ) -> ClientSession:
        """Negotiate with the server by the client's own `initialize`; where there is none, or it
        is refused, by another."""
        self._session = session
        self._answer = None
        try:
            if not self._shakes_hands:
                negotiate(session, options, deadline)
            else:
                self._shake_hands(deadline, session, options)
            session.subscriptions = ClientSubscriptions(session)
            if self._answer is None or self._begun:
                session.ready(deadline)
            if self._shakes_hands:
                session.subscriptions.begin(deadline, self._opened)
        except BaseException:
            session.close()
            raise
        if session.header_params is not None:
            session.header_params.usable_tools(self._tools, NEVER)
        if session.transport is not None:
            session.transport.grace = END_SECONDS
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
            if self._begun:
                session.notify("notifications/initialized", {}, deadline)

    def _end(self, incoming: IncomingRequest) -> None:
        """A request has ended: after some time without another one a process ends, too."""
        self.running.pop(incoming, None)
        self._forget()
        seconds = self._bridge.idle or (None if self._shakes_hands else IDLE_SECONDS)
        if seconds is not None and not self._bridge.target.is_web:
            self._forget = timer.after(seconds, partial(self.pool.spawn, self._end_unused))

    def _end_unused(self) -> None:
        with self._lock:
            if self._opened is not None and not self.running:
                (self._opened.session if self.fronts else self).close()

    def leave(self, front: Front) -> None:
        """A client has gone; the last one takes the server with it, if no other can come."""
        self.fronts.remove(front)
        if not self.fronts and not self._bridge.shared:
            self.pool.spawn(self.close)

    def is_idle(self) -> bool:
        """Return whether it belongs to no session, and no call is running."""
        return not (self._shakes_hands or self.fronts or self.running)

    def end_soon(self) -> None:
        """End the connection for good, on another thread."""
        self.closed = True
        self.pool.spawn(self.close)

    def close(self) -> None:
        """End the connection for good."""
        self.closed = True
        if self.place is not None:
            self.place.leave()
        self._forget()
        if self._session is not None:
            self._session.close()
        bridge = self._bridge
        with bridge.links_lock:
            bridge.links = {key: link for key, link in bridge.links.items() if link is not self}
        super().close()

    # ------------------------------------------------------------ requests of the client

    def serve_front(self, front: Optional[Front], incoming: IncomingRequest) -> Any:
        """Pass a request on, and its answer back.

        Args:
            front: Whose session it belongs to; None where it stands alone.
            incoming: The request.
        """
        self.running[incoming] = front or threading.Lock()
        answer: Any = None
        refusals: list[type] = []
        try:
            while True:
                opened = self._open()
                try:
                    answer = self._serve(incoming, opened)
                    return answer
                except (SessionGone, Busy) as refusal:
                    error = refusal
                self._prepare_retry(incoming, opened.session, error, refusals)
        except Busy as busy:
            if busy.answer is None:
                raise InternalError(f"the server behind the bridge is busy: {busy}") from None
            return give(incoming, busy.answer)
        except RpcError as error:
            return give(incoming, Failure(None, error.code, error.message, error.data))
        except Cancelled:
            raise
        except McpError as error:
            log.warning("%s: %s", incoming.request.method, error)
            told = (
                str(error)
                if self._bridge.is_local
                else f"{type(error).__name__}, see what the bridge has logged"
            )
            reason = "no answer of the server behind the bridge, the next call begins anew"
            raise InternalError(f"{reason}: {told}") from None
        finally:
            if (
                answer is DEFERRED
                and incoming.request.method == LISTEN
                and incoming.latest is not None
            ):
                incoming.on_cancel(
                    partial(self._end, incoming)
                )  # a stream, which stays open (see `lost`)
            else:
                self._end(incoming)

    def _serve(self, incoming: IncomingRequest, opened: ClientSubscriptions) -> Any:
        """Serve a request over one connection to the server behind."""
        is_old = opened.session.era.revision.handshake
        if incoming.request.method == "initialize":
            return self._initialize(incoming, opened.session)
        self._flush()
        if is_old is incoming.peer.revision.handshake:
            return self._pass_on(incoming, opened)
        if is_old:
            return self._with_handshake(incoming, opened)
        return self._without_handshake(incoming, opened)

    def _prepare_retry(
        self,
        incoming: IncomingRequest,
        session: ClientSession,
        refusal: Union[SessionGone, Busy],
        before: list[type],
    ) -> None:
        """Wait until a request that the server did not run can be sent again.

        Args:
            incoming: The request of the client in front.
            session: The connection that it was sent over.
            refusal: What the server said; raised if sending the request again is of no use.
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
        """How the server describes itself, in the form of the other era, which knows its tasks
        not."""
        era = session.era
        capabilities = {
            name: value for name, value in era.peer.capabilities.items() if name != "tasks"
        }
        guide = {} if era.instructions is None else {"instructions": era.instructions}
        info = dict(era.peer.info) or {"name": session.name, "version": ""}
        return {**members, "capabilities": capabilities, "serverInfo": info, **guide}

    def _pass_on(self, incoming: IncomingRequest, opened: ClientSubscriptions) -> Any:
        method, params = incoming.request.method, incoming.request.params
        answer = self._exchange(incoming, opened.session, params)
        if method in REPEATED and not isinstance(answer, Failure):
            opened.log_level = params.get("level", opened.log_level)
            if "uri" in params:
                wanted = method == "resources/subscribe"
                opened.uris = with_uri(opened.uris, str(params["uri"]), wanted)
        return give(incoming, answer)

    def _exchange(
        self,
        incoming: IncomingRequest,
        session: ClientSession,
        params: Result,
        *envelope: Callable[..., Result],
    ) -> Union[Result, Failure]:
        """As `exchange`, from front to behind; notifications of a stream name it by the id of its
        request."""
        method, own = incoming.request.method, {SUBSCRIPTION_KEY: incoming.request.id}
        streams: list[Any] = []

        def pass_on(told: Notification) -> None:
            self._put(lambda: incoming.send(told.method, with_meta(told.params, add=own)), told)

        def sent(params: Result, id: Any) -> Result:
            if method == LISTEN:
                streams.append(id)
                session.streams[id] = pass_on
            return envelope[0](params, id) if envelope else params

        try:
            answer = exchange(incoming, session.calls, params, incoming.send, sent)
        finally:
            for id in streams:
                session.streams.pop(id, None)
        self._flush()
        if method == LISTEN and isinstance(answer, dict):
            return with_meta(answer, add=own)
        if (
            method == "tools/list"
            and session.header_params is not None
            and isinstance(answer, dict)
        ):
            self._tools = self._tools if "cursor" in params else []
            listed = answer.get("tools")
            for each in listed if isinstance(listed, list) else ():
                with suppress(ValueError):
                    self._tools.append(Tool.from_wire(each))
            session.header_params.usable_tools(
                self._tools, NEVER
            )  # some of their arguments travel in headers, too
        return answer

    # ------------------------------------------- a server without a handshake for a client with one

    def _without_handshake(self, incoming: IncomingRequest, opened: ClientSubscriptions) -> Any:
        """Serve a client that shook hands: requests get an envelope, and results that are questions
        are asked."""
        method, params, session = incoming.request.method, incoming.request.params, opened.session
        if method == "logging/setLevel":
            lifecycle.log_rank(params.get("level"))
            opened.log_level = str(params.get("level"))
            opened.set_log_level(opened.log_level, lambda method, params: None)
        elif method in REPEATED:
            opened.change(
                str(params.get("uri")), method == "resources/subscribe", Deadline(CONNECT_SECONDS)
            )
        if method in (*REPEATED, "ping"):
            return {}
        sent: Result = params
        while True:
            answer = self._exchange(incoming, session, sent, session.add_envelope)
            if isinstance(answer, Failure):
                return give(incoming, as_in_front(answer, session, incoming))
            if answer.get("resultType") != INPUT_REQUIRED:
                return give(incoming, older(answer))
            asked = answer.get("inputRequests") or {}
            outcome = incoming.ask(
                [(each["method"], each.get("params", {})) for each in asked.values()], None
            )
            if isinstance(outcome, Failure):
                return give(incoming, outcome)
            state = {name: answer[name] for name in ("requestState",) if name in answer}
            sent = {**params, "inputResponses": dict(zip(asked, outcome)), **state}

    # ------------------------------------------- a server with a handshake for a client without one

    def _with_handshake(self, incoming: IncomingRequest, opened: ClientSubscriptions) -> Any:
        """Serve a client whose requests stand alone; what the server asks meanwhile becomes a
        result (see `_ask`)."""
        method, params, session = incoming.request.method, incoming.request.params, opened.session
        level, state, peer = (
            params["_meta"].get(LOG_LEVEL_KEY),
            params.get("requestState"),
            session.era.peer,
        )
        request = partial(session.request, deadline=Deadline(CONNECT_SECONDS))
        if state is not None:
            return self._resume_call(incoming, state)
        if method == LISTEN:
            wanted = params.get("notifications")
            for uri in (
                wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
            ) or ():
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
            return give(incoming, as_in_front(result, session, incoming))
        is_kept = method.endswith("/list") or method in ("server/discover", "resources/read")
        hints = {"ttlMs": 0, "cacheScope": "private"} if is_kept else {}
        return with_meta(
            {"resultType": "complete", **hints, **result},
            add={lifecycle.SERVER_KEY: dict(peer.info)},
        )

    def _resume_call(self, incoming: IncomingRequest, state: Json) -> Any:
        """The client answers what a call of it has asked, which goes on as this request."""
        waits = self._replies.pop(state, None) if isinstance(state, str) else None
        if waits is None:
            raise errors.InvalidParams(
                "no call waits for this requestState: it was used before, or is too old"
            )
        asked, replies = waits
        asked.continue_with(incoming)
        replies.put(incoming.request.params.get("inputResponses"))
        return DEFERRED

    def stop_waiting(self, sink: Sink) -> None:
        """Cancel the calls that have asked a client which is about to go."""
        for state, (asked, _) in list(self._replies.items()):
            if asked.sink is sink and self._replies.pop(state, None) is not None:
                asked.token.cancel("the client will not come back")

    # ------------------------------------------------------------ what the server says

    def route(self, method: str, peer: Peer) -> Route:
        """Where any request of the server goes (asked by `ClientSession.admit`)."""
        return Route(self._ask)

    def lost(self, peer: Peer) -> None:
        """The connection has ended (told by `ClientSession.lost`): so have streams over it."""
        for incoming in [each for each in list(self.running) if each.request.method == LISTEN]:
            self._changes.end_streams(incoming.sink)
            self._end(incoming)

    def _calls(self) -> list[IncomingRequest]:
        """The requests that run now, but for streams; oldest first."""
        return [each for each in list(self.running) if each.request.method != LISTEN]

    def _ask(self, question: IncomingRequest) -> Any:
        """Have the client in front answer, by the call that it waits for if there is one."""
        calls = sorted(
            self._calls(), key=lambda each: each.latest is not None and each.latest.is_due
        )  # the newest that has not asked is the last
        fronts = {each: self.running.get(each) for each in calls}
        owners = {
            front if isinstance(front, Front) else each.sink for each, front in fronts.items()
        }
        if len(owners if calls else self.fronts) != 1:
            raise InternalError(
                "the server does not say whom it asks: no client has a call, or several have"
            )
        if calls and not calls[-1].peer.revision.handshake:
            with waiting(), fronts[calls[-1]] or self._lock:
                return self._ask_by_result(calls[-1], question)
        if calls:
            calls[-1].wait_until_initialized()
        asking = calls[-1].sink.asking() if calls else self.fronts[0].asking()

        def tell(method: str, params: Result) -> None:
            self.notify(Notification(method, params))

        return give(question, exchange(question, asking, question.request.params, tell))

    def _ask_by_result(self, asked: IncomingRequest, question: IncomingRequest) -> Result:
        state, replies = secrets.token_urlsafe(16), SimpleQueue[Any]()
        _, method, params = question.request
        result = {
            "resultType": INPUT_REQUIRED,
            "inputRequests": {"1": {"method": method, "params": params}},
        }
        self._replies[state] = asked, replies
        latest = asked.latest
        try:
            if latest is None or not latest.answer({**result, "requestState": state}):
                raise InternalError("the call that was to ask the client has ended")
            with waiting():
                answer = replies.get(timeout=Limits().ask_timeout)["1"]
        except (Empty, KeyError, TypeError):
            raise InternalError("the client gives no answer") from None
        finally:
            self._replies.pop(state, None)
        return dict(answer)

    def tell(self, notification: Notification) -> None:
        """Pass a notification of the server on, behind those before it. Never blocks."""
        self._put(partial(self._tell, notification), notification)

    def _tell(self, notification: Notification) -> None:
        method, params = notification
        for front in list(self.fronts):
            with suppress(McpError):
                front.tell(encode(Notification(method, with_meta(params, [SUBSCRIPTION_KEY]))))
        for name in LISTS:
            if method == f"notifications/{name}/list_changed":
                self._changes.list_changed(name)
        if method == "notifications/resources/updated":
            self._changes.resource_updated(str(params.get("uri")))
        asking = [each for each in self._calls() if each.peer.log_rank is not None]
        if (
            method == "notifications/message"
            and not self.fronts
            and len({each.sink for each in asking}) == 1
        ):
            asking[-1].send(method, params)

    def notify(self, notification: Notification) -> None:
        """Pass a notification of the client on, behind those before it. Never blocks."""
        self._put(partial(self._notify, notification), notification)

    def _notify(self, notification: Notification) -> None:
        session, begins = self._session, notification.method == "notifications/initialized"
        if session is not None and self._answer is not None and not (begins and self._begun):
            self._begun = self._begun or begins
            session.notify(*notification, Deadline(FLUSH_SECONDS))
            if begins:
                session.ready(Deadline(FLUSH_SECONDS))

    def _put(self, callback: Callable[[], object], notification: Notification) -> None:
        def run() -> None:
            with suppress(McpError):  # who it is for has gone
                callback()

        self._dispatcher.put(run, size_of(notification.params, WAITING_BYTES))

    def _flush(self) -> None:
        """Wait until the notifications before this are passed on."""
        done = threading.Event()
        self._dispatcher.put(done.set)
        with waiting():
            done.wait(FLUSH_SECONDS)


# ------------------------------------------------------------ in front


def check_method(request: Request, peer: Peer) -> None:
    """Return if the client's revision has a method, or no revision has it.

    The server behind may speak another revision, and would answer.

    Raises:
        MethodNotFound: Only other revisions have it.
    """
    if request.method in TAKEN and request.method not in peer.revision.requests_to_server:
        raise MethodNotFound(f"Method not found: {request.method}")


class Front(ServerRole):
    """One client that shook hands, or none yet: a connection over stdio, or a session over HTTP."""

    _registry: Bridge
    link: Optional[Link] = None
    # Of its `initialize`.
    sink: Any = None

    def admit(self, request: Request) -> tuple[Peer, Route]:
        peer = self.session.admit(request)
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
        return (
            {} if self.link is None else self.link.serve_front(self, incoming)
        )  # a ping needs no session

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.era is not None:
            self.begin(self.session.era.peer)
        if self.link is not None:
            self.link.notify(notification)

    def on_draining(self, sink: Sink) -> None:
        super().on_draining(sink)
        for link in list(self._registry.links.values()):
            link.stop_waiting(sink)

    def lost(self, cause: ConnectionLost) -> None:
        self._leave()
        super().lost(cause)

    def _leave(self) -> None:
        link = self.link
        self.link = None
        if link is not None:
            link.leave(self)

    def tell(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send what belongs to no request: over HTTP on the stream for that, else on that of any
        request."""
        session = getattr(self.sink, "session", None)
        stream = None if session is None else session.unsolicited
        if session is None or (stream is not None and stream.is_connected()):
            (stream or self.sink).send(line)
        elif session.responses:
            session.responses[-1].send(line)
        elif len(session.pending) < MOST_WAITING:
            session.post(line)
        return True

    def asking(self) -> Calls:
        """The calls by which the client is asked what belongs to no request of its own."""
        session = getattr(self.sink, "session", None)
        calls: Calls = (
            self.sink.asking() if session is None else session.calls.through(self.tell, self.tell)
        )
        return calls


class Bridge(Registry):
    """The methods of a server in front, all of which are those of the server behind. Thread-safe.

    Args:
        front: The server in front, made for this.
        target: The server behind.
        shared: Whether all clients have one connection to it.
        idle: Seconds without a call after which a process ends; None takes the usual.
        is_local: Whether clients may read how the server ended: only who has started this process
            can be one.
    """

    def __init__(
        self,
        front: Server,
        target: Target,
        *,
        shared: bool = False,
        idle: Optional[float] = None,
        is_local: bool = False,
    ) -> None:
        super().__init__(front._config, Offer(REVISIONS))
        self.target = target
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
        """Log nothing: the tools are those of the server behind."""

    def link(self, key: object, opening: Result, shakes_hands: bool) -> Link:
        """The link of a client. Raises RpcError: there are too many, or it says too much of
        itself."""
        key = None if self.shared else key
        if size_of(opening, OPENING_BYTES) > OPENING_BYTES:
            raise errors.InvalidParams(
                f"a client describes itself in at most {OPENING_BYTES} bytes of memory"
            )
        with self.links_lock:
            if key not in self.links and len(self.links) >= MOST_LINKS:
                idle = [name for name, link in self.links.items() if link.is_idle()]
                if idle:
                    self.links.pop(idle[0]).end_soon()  # the oldest one
            if key not in self.links and len(self.links) >= MOST_LINKS:
                raise InternalError(f"{MOST_LINKS} servers run already, one for each client")
            if key not in self.links or self.links[key].closed:
                self.links[key] = Link(self, opening, shakes_hands)
            return self.links[key]

    def end(self) -> None:
        """End every server behind. Blocks: until then, two seconds at most."""
        closing = [threading.Thread(target=link.close) for link in list(self.links.values())]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()

    def route(self, request: Request, peer: Peer) -> Route:
        """Where a request goes that stands alone: to the link of all clients that describe
        themselves in this way.

        Raises:
            MethodNotFound: Another revision has the method.
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

        return Route(serve, start=lambda incoming: self._pool.submit(incoming.run))

    def _link_for_stateless_client(
        self, key: str, opening: Result, incoming: IncomingRequest
    ) -> Link:
        """Return the link of stateless clients, which counts as a place of the client that opened
        it.

        Raises:
            RpcError: As `link`, or the client has begun too many.
        """
        place: Optional[Place] = None
        with self._begin_lock:
            known = self.links.get(key)
            if not self.shared and (known is None or known.closed):
                place = incoming.admit("processes", MOST_LINKS, lambda: self._end_idle(key))
            try:
                link = self.link(key, opening, False)
            except BaseException:
                if place is not None:
                    place.leave()
                raise
            if place is not None:
                link.place = place
        return link

    def _end_idle(self, key: str) -> bool:
        """End the process of a link that has no call, and return whether it has none."""
        with self.links_lock:
            link = self.links.get(key)
            if link is None or not link.is_idle():
                return link is None
            del self.links[key]
        link.end_soon()
        return True


# ------------------------------------------------------------ the command


def bridge_command(arguments: Sequence[str], prog: str) -> int:
    """Serve a stdio server over HTTP, or a server with a URL over stdio."""
    parser = Parser(
        prog,
        "Serve a stdio server over Streamable HTTP (--http 8000 -- COMMAND ...), or a server "
        "with a "
        "URL over stdin and stdout, to the program that starts this command (URL). Everything is "
        "passed on both ways.",
    )
    parser.add_argument(
        "words", metavar="URL", nargs="*", help="of the server to serve over stdin and stdout"
    )
    parser.add_argument(
        "--http",
        type=address,
        metavar="[HOST:]PORT",
        help="serve COMMAND there, at /mcp; port 0 takes a free one (default host: 127.0.0.1)",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="one process for all clients (default: for each session)",
    )
    parser.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="end a process after so long without a call; the next call starts another",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="by which other machines know this one, where they reach HOST; may be given several "
        "times",
    )
    add_web(
        parser,
        "send this bearer token with every request to URL (default: what minimcp login has "
        "stored); with "
        "--http: serve only clients that send it",
    )
    own, command = split_command(arguments)
    options = parser.parse_args(own)
    where: dict[str, Any] = {}
    try:
        if options.http is None:
            server = Server("minimcp-bridge", version=VERSION)
            bridge = Bridge(server, _url(options, command, prog), is_local=True)
        else:
            host, port = options.http
            where = {"transport": "http", "host": host, "port": port}
            target, http, auth = _command(options, command, prog)
            server = Server("minimcp-bridge", version=VERSION, http=http, auth=auth)
            bridge = Bridge(server, target, shared=options.shared, idle=options.idle)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    try:
        server.run(**where)
    except OSError as error:
        complain(prog, error.strerror or str(error))
        return 3
    finally:
        bridge.end()
    return 0


def _url(options: Namespace, command: Sequence[str], prog: str) -> Target:
    url = " ".join(options.words)
    if not url or command:
        raise UsageError(
            f"write {prog} --http 8000 -- {' '.join(command) or 'COMMAND'}, or {prog} URL"
        )
    if len(options.words) > 1 or not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is no URL: a command is served by {prog} --http 8000 -- {url}")
    if options.shared or options.idle is not None or options.allow_host:
        raise UsageError(
            f"--shared, --idle and --allow-host go with --http, as in {prog} --http 8000 -- COMMAND"
        )
    found = read_target(url, web=web_of(options, url))
    signed = found.object if found.object.has_auth else with_stored_token(found.object)
    return found._replace(object=signed)


def _command(
    options: Namespace, command: Sequence[str], prog: str
) -> tuple[Target, HttpOptions, Any]:
    if options.words or options.header is not None or not command:
        where = "--header goes with URL alone: " if options.header else ""
        raise UsageError(
            f"{where}write {prog} --http 8000 -- "
            f"{' '.join([*options.words, *command]) or 'COMMAND'}"
        )
    token = options.token if options.token is not None else os.environ.get(TOKEN) or None
    if options.http[0] not in LOOPBACK and not (token and options.allow_host):
        raise UsageError(
            f"other machines reach {options.http[0]}: set {TOKEN}, or write --token TOKEN, which "
            "clients have to send, and --allow-host NAME, by which they know this machine"
        )
    if options.idle is not None and not 0 < options.idle < float("inf"):
        raise UsageError("--idle is a number of seconds above 0, as in --idle 600")
    from .. import Bearer

    http = HttpOptions(allowed_hosts=options.allow_host, max_sessions=MOST_LINKS)
    auth = None if token is None else Bearer.static(token)
    target = read_target(command[0] if len(command) == 1 else list(command))
    if target.is_web:
        raise UsageError(
            f"--http serves a command, and {command[0]} is a URL: write {prog} {command[0]}"
        )
    return target, http, auth
