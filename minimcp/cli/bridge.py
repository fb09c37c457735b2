"""``minimcp bridge``: a stdio server served over Streamable HTTP, and a server with a URL served over stdio.

In front is a `Server` of this library that knows no methods: each request goes on by a `Link`, a client's connection
to the server behind, which is begun anew when it was lost. Where both sides speak after a handshake, or neither does,
messages pass as they are, but for the ids that belong to a connection: of requests, of progress, of subscriptions.
Where only one side does, `Link` writes the requests of one in the other's way.
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import secrets
import threading
from argparse import Namespace
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .. import __version__ as VERSION
from ..client.calls import MOST_ROUNDS
from ..client.connect import Plan, Target, negotiate, read_target, with_stored_token
from ..client.host import Dispatcher, Host
from ..client.session import ClientSession
from ..client.subscriptions import OpenSession
from ..engine.limits import BoundedQueue, Limits
from ..engine.pool import waiting
from ..engine.requests import LATER, Calls, IncomingRequest, Result, Route
from ..engine.timer import NEVER, Deadline, timer
from ..errors import Cancelled, ConnectionLost, InternalError, InvalidParams, McpError, RpcError, SessionGone, logger
from ..http.headers import LOOPBACK
from ..http.options import HttpOptions
from ..protocol.lifecycle import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    INPUT_REQUIRED,
    LISTEN,
    LOG_LEVEL_KEY,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    Handshake,
    Offer,
    Peer,
)
from ..protocol.messages import Failure, Json, Notification, Request, encode, size_of, to_json
from ..protocol.versions import BY_NAME, LISTS, NEWEST_HANDSHAKE, REVISIONS, Revision
from ..server.registry import Registry, ServerRole
from ..server.server import Server
from ..server.subscriptions import Subscriptions
from ..types import Tool
from . import Parser, UsageError, complain
from .commands import as_header
from .run import address

log = logger("minimcp.bridge")

# Seconds for the start of a server and for agreeing with it, of which a silent process gets so many to answer a probe.
CONNECT_SECONDS, PROBE_SECONDS = 60.0, 5.0

# Seconds without a call after which a process ends that serves clients without sessions, if nothing else is said.
IDLE_SECONDS = 300.0

# Seconds that a request, and an answer, waits for the notifications before it to be taken.
FLUSH_SECONDS = 10.0

# Servers behind that are begun at once for HTTP clients, with and without sessions each.
MOST_LINKS = 200

# Notifications of one stream, or of one session, that wait for a client, and their bytes of memory.
MOST_WAITING, WAITING_BYTES = 1000, 16 * 1024 * 1024

# Seconds that a process gets to end, and again after SIGTERM, when the bridge itself ends.
END_SECONDS = 0.3

ENVELOPE = (VERSION_KEY, CAPABILITIES_KEY, CLIENT_KEY, LOG_LEVEL_KEY)
HANDSHAKES = tuple(each for each in REVISIONS if each.handshake)
PER_REQUEST = tuple(each for each in REVISIONS if not each.handshake)

# Whose a request is: a client with a session, a call that goes on through several requests, or nobody's that is known.
Owner = Union["Front", "Rounds", None]


# ------------------------------------------------------------ passing on


def exchange(
    incoming: IncomingRequest, calls: Calls, params: Result, tell: Callable[[str, Result], object],
    asked_for: Optional[dict[Any, IncomingRequest]] = None, add: Callable[..., Result] = lambda params, id: params,
) -> Union[Result, Failure]:
    """Send a request on and wait for its answer; its cancellation goes with it, and its progress comes back.

    Args:
        incoming: The request.
        calls: Of the connection that it goes on by.
        params: To send.
        tell: Sends a notification to where the request came from.
        asked_for: Gets the request by the id of the call, as long as that waits; None notes nothing.
        add: Adds an envelope to the params, given the id.

    Raises:
        McpError: There is no answer.
    """
    token = incoming.progress_token

    def make_params(id: Any) -> Result:
        if asked_for is not None:
            asked_for[id] = incoming
        return add(params if token is None else {**params, "_meta": {**params["_meta"], "progressToken": id}}, id)

    def progress(params: Result) -> None:
        tell("notifications/progress", {**params, "progressToken": token})

    call = calls.start(incoming.request.method, make_params, None if token is None else progress)
    forget = incoming.on_cancel(lambda: calls.end(call, Cancelled(incoming.reason or "the request was cancelled")))
    try:
        return calls.wait(call, NEVER)
    finally:
        forget()
        if asked_for is not None:
            asked_for.pop(call.id, None)


def give(incoming: IncomingRequest, answer: Union[Result, Failure]) -> Any:
    """What a handler returns for an answer of the other side; an error is sent with its own code, message and data."""
    if not isinstance(answer, Failure):
        return answer
    incoming.finished = True
    incoming.sink.respond(incoming, encode(answer._replace(id=incoming.request.id)))
    return LATER


def with_meta(params: Mapping[str, Json], drop: Sequence[str] = (), add: Mapping[str, Json] = {}) -> Result:
    """Params with other members in their ``_meta``, which is left out when it is empty."""
    meta = params.get("_meta")
    meta = {name: value for name, value in (meta or {}).items() if name not in drop}
    meta.update(add)
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return {**rest, "_meta": meta} if meta else rest


class Ordered(Dispatcher):
    """Runs callbacks one after the other, and lets others wait for those that are there already."""

    def __init__(self) -> None:
        super().__init__(WAITING_BYTES)
        self._last = threading.Event()
        self._last.set()

    def add(self, callback: Callable[[], object], params: Result) -> None:
        """Have a callback run that takes the memory of these params."""
        self._last = done = threading.Event()

        def run() -> None:
            try:
                callback()
            finally:
                done.set()

        self.put(run, size_of(params, WAITING_BYTES))

    def flush(self) -> None:
        """Wait until what was added has run."""
        if not self._last.is_set():
            with waiting():
                self._last.wait(FLUSH_SECONDS)


class Rounds:
    """A call of a client whose requests stand alone, at a server that asks by requests: through all its rounds."""

    def __init__(self, incoming: IncomingRequest) -> None:
        self.first = self.newest = incoming
        # Questions, each with the queue that takes its answer; at last how the call has ended.
        self.events: SimpleQueue[Any] = SimpleQueue()
        self.replies: SimpleQueue[Any] = SimpleQueue()


# ------------------------------------------------------------ behind


class Link(Host):
    """One connection to the server behind, with what it is for: a session in front, or clients that have none.

    It is a host whose answers the client in front gives. Thread-safe.

    Args:
        bridge: Whose it is.
        opening: The params of the client's `initialize`, or such as describe a client that sends none.
        shakes_hands: Whether the client has sent them.
    """

    def __init__(self, bridge: Bridge, opening: Result, shakes_hands: bool) -> None:
        super().__init__()
        self.asked_tasks = self  # which is asked for a route of every request of the server
        changed = {name: Notification(f"notifications/{name}/list_changed") for name in LISTS}
        self.functions = {f"on_{name}_changed": partial(self.tell, changed[name]) for name in LISTS}
        self.functions["on_log"] = print  # never called: it says that log messages are wanted
        self.fronts: list[Front] = []
        self.running: dict[IncomingRequest, Owner] = {}
        self._bridge, self._opening, self._shakes_hands = bridge, opening, shakes_hands
        self._opened: Optional[OpenSession] = None
        self._newest: Optional[ClientSession] = None
        self._answer: Optional[Result] = None  # of the server, to `initialize`
        self._begun = self._closed = False  # whether the client has said `notifications/initialized`
        self._asked_for: dict[Any, IncomingRequest] = {}
        self._rounds: dict[str, Rounds] = {}
        self._tools: list[Tool] = []
        self._log_level: Json = None
        self._listeners = Subscriptions(bridge.config, lambda kind: True)
        self._forward, self._back = Ordered(), Ordered()
        self._forget: Callable[[], object] = int
        self._open_lock = threading.Lock()  # held while the server is begun: every call waits for that anyway

    # ------------------------------------------------------------ its beginning and end

    def capabilities(self, revision: Revision) -> Result:
        """What the client in front declares."""
        declared = self._opening.get("capabilities")
        return declared if isinstance(declared, dict) else {}

    def _open(self) -> OpenSession:
        """The connection, begun if there is none. Raises McpError: it cannot be."""
        with waiting(), self._open_lock:
            if self._closed:
                raise ConnectionLost("the bridge is closing")
            if self._opened is None or self._opened.session.cause is not None:
                if self._opened is not None:
                    self._opened.session.close()
                self._opened = self._connect()
            return self._opened

    def _connect(self) -> OpenSession:
        target, limits, info = self._bridge.target, Limits(), self._opening.get("clientInfo")
        plan = Plan(target, REVISIONS, info or {}, self, limits, None, None, CONNECT_SECONDS, PROBE_SECONDS)
        agree = partial(self._agree, Deadline(CONNECT_SECONDS))
        if not target.is_web:
            return plan.open_local(agree)
        from ..http.client_sse import agree_over_http

        return agree_over_http(target.object, lambda kind: kind(target.object, self, limits, None), agree, plan)

    def _agree(self, deadline: Deadline, session: ClientSession, plan: Plan) -> OpenSession:
        """Agree with the server in the words of the client; where it knows no handshake, or wants one, in its own."""
        self._newest = session
        try:
            if self._shakes_hands:
                self._shake_hands(deadline, session, plan)
            else:
                negotiate(session, plan, deadline)
            opened = OpenSession(session)
            if self._answer is None or self._begun:
                session.ready(deadline)
            if self._shakes_hands:
                opened.begin(deadline, self._opened)
        except BaseException:
            session.close()
            raise
        if session.mirror is not None:
            session.mirror.admitted(self._tools, NEVER)
        return opened

    def _shake_hands(self, deadline: Deadline, session: ClientSession, plan: Plan) -> None:
        try:
            self._answer = session.request("initialize", self._opening, deadline)
            session.agree(Handshake.from_result(self._answer, HANDSHAKES))
        except RpcError as refusal:
            self._answer = None
            try:
                negotiate(session, plan._replace(wanted=PER_REQUEST), deadline)
            except McpError:
                raise refusal from None
        if self._answer is not None and self._begun:
            session.notify("notifications/initialized", {}, deadline)

    def _rest(self) -> None:
        """A request has ended: after some time without another one the server ends, too."""
        self._forget()
        seconds = self._bridge.idle or (None if self._shakes_hands else IDLE_SECONDS)
        if seconds is not None and not self._bridge.target.is_web:
            self._forget = timer.after(seconds, partial(self.pool.spawn, self._end_unused))

    def _end_unused(self) -> None:
        with self._open_lock:
            if self._opened is not None and not (self.running or self._rounds):
                self._opened.session.close()

    def leave(self, front: Front) -> None:
        """A client has gone; the last one takes the server with it, if no other can come."""
        self.fronts.remove(front)
        if not self.fronts and not self._bridge.shared:
            self._bridge.links.pop(front, None)
            self.pool.spawn(self.close)

    def close(self, seconds: Optional[float] = None) -> None:
        """End the connection for good, a process within two times so many seconds; None takes the usual time."""
        self._closed = True
        self._forget()
        if self._newest is not None:
            if seconds is not None and self._newest.transport is not None:
                self._newest.transport.grace = seconds
            self._newest.close()
        for each in (self._forward, self._back):
            each.close()
        super().close()

    # ------------------------------------------------------------ requests of the client

    def serve_front(self, front: Optional[Front], incoming: IncomingRequest) -> Any:
        """Pass a request on, and its answer back.

        Args:
            front: Whose session it belongs to; None where it stands alone.
            incoming: The request.
        """
        self.running[incoming] = front
        try:
            for again in (True, False):
                opened = self._open()
                try:
                    return self._pass_on(front, incoming, opened)
                except SessionGone as gone:  # where the server has not run it, it is sent once more
                    if not (again and gone.refused):
                        raise
                    opened.session.wait_until_ended(FLUSH_SECONDS)
        except Cancelled:
            raise
        except McpError as error:
            if isinstance(error, RpcError):
                return give(incoming, Failure(incoming.request.id, error.code, error.message, error.data))
            log.warning("%s: %s", incoming.request.method, error)
            told = str(error) if self._bridge.is_local else f"{type(error).__name__}: see what the bridge has logged"
            raise InternalError(f"no answer of the server behind the bridge, which is begun anew: {told}") from None
        finally:
            self.running.pop(incoming, None)
            self._rest()

    def _pass_on(self, front: Optional[Front], incoming: IncomingRequest, opened: OpenSession) -> Any:
        session, (_, method, params) = opened.session, incoming.request
        behind = session.era.revision
        if method == "initialize" and front is not None:
            described = self._answer or self._described(session, protocolVersion=NEWEST_HANDSHAKE.name)
            incoming.peer.revision = BY_NAME.get(described["protocolVersion"], NEWEST_HANDSHAKE)
            return described
        self._forward.flush()
        if behind.handshake and not incoming.peer.revision.handshake:
            return self._with_handshake(incoming, session)
        if not behind.handshake and incoming.peer.revision.handshake:
            return self._without_handshake(incoming, opened)
        if method == LISTEN:
            return self._listen(incoming, session)
        answer = self._exchange(incoming, session, params)
        uri = params.get("uri")
        if method == "logging/setLevel" and not isinstance(answer, Failure):
            opened.log_level = params.get("level")  # said again to the next server
        elif method.endswith("subscribe") and isinstance(uri, str) and not isinstance(answer, Failure):
            opened.uris = opened.uris | {uri} if method == "resources/subscribe" else opened.uris - {uri}
        return give(incoming, answer)

    def _exchange(
        self, incoming: IncomingRequest, session: ClientSession, params: Result, **options: Any
    ) -> Union[Result, Failure]:
        options = {"tell": incoming.send, **options}
        answer = exchange(incoming, session.calls, params, asked_for=self._asked_for, **options)
        self._back.flush()
        if incoming.request.method == "tools/list" and session.mirror is not None and isinstance(answer, dict):
            self._tools = self._tools if "cursor" in params else []
            for each in answer.get("tools", ()):
                with suppress(ValueError):
                    self._tools.append(Tool.from_wire(each))
            session.mirror.admitted(self._tools, NEVER)  # their arguments travel in headers, too
        return answer

    def _described(self, session: ClientSession, **members: Json) -> Result:
        """How the server describes itself, in the words of the other era."""
        era, dropped = session.era, "tasks" if session.era.revision.handshake else ""
        capabilities = {name: value for name, value in era.peer.capabilities.items() if name != dropped}
        guide = {} if era.instructions is None else {"instructions": era.instructions}
        info = dict(era.peer.info) or {"name": session.name, "version": ""}
        return {**members, "capabilities": capabilities, "serverInfo": info, **guide}

    def _listen(self, incoming: IncomingRequest, session: ClientSession) -> Any:
        """Pass a stream of changes on, whose notifications name it by the id of its request."""
        waits = BoundedQueue("notifications of a stream", MOST_WAITING, WAITING_BYTES)
        end = session.open_stream(
            LISTEN, incoming.request.params, lambda each: waits.offer(each, size_of(each.params, WAITING_BYTES)),
            lambda outcome: waits.put([outcome]),
        )
        incoming.on_cancel(end)
        named, event = {SUBSCRIPTION_KEY: incoming.request.id}, None
        try:
            with waiting():
                while not isinstance(event, list):
                    event = waits.get()
                    if isinstance(event, Notification):
                        incoming.send(event.method, with_meta(event.params, (), named))
        finally:
            end()
        if isinstance(event[0], BaseException):
            raise event[0]
        return with_meta(event[0], (), named)

    # ------------------------------------------------------------ a server without a handshake for a client with one

    def _without_handshake(self, incoming: IncomingRequest, opened: OpenSession) -> Any:
        """Serve a client that shook hands: requests get an envelope, and results that are questions are asked."""
        method, params, session = incoming.request.method, incoming.request.params, opened.session
        if method == "logging/setLevel":
            opened.set_log_level(params.get("level", ""), lambda method, params: None)
            opened.log_level = params.get("level")
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            opened.change(str(params.get("uri")), method == "resources/subscribe", Deadline(CONNECT_SECONDS))
        if method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            return {}
        sent: Result = params
        for _ in range(MOST_ROUNDS + 1):
            answer = self._exchange(incoming, session, sent, add=session.add_envelope)
            if isinstance(answer, Failure) or answer.get("resultType") != INPUT_REQUIRED:
                return give(incoming, answer)
            asked, state = answer.get("inputRequests") or {}, answer.get("requestState")
            outcome = incoming.ask([(each["method"], each.get("params", {})) for each in asked.values()], None)
            if isinstance(outcome, Failure):
                return give(incoming, outcome)
            sent = {**params, "inputResponses": dict(zip(asked, outcome))}
            sent.update({} if state is None else {"requestState": state})
        raise InternalError(f"{method} asks more than {MOST_ROUNDS} times for input")

    # ------------------------------------------------------------ a server with a handshake for a client without one

    def _with_handshake(self, incoming: IncomingRequest, session: ClientSession) -> Any:
        """Serve a client whose requests stand alone: what the server asks for becomes a result that is a question."""
        method, params = incoming.request.method, incoming.request.params
        result: Any = {}
        if method == "server/discover":
            result = self._described(session, supportedVersions=[each.name for each in PER_REQUEST])
            result.pop("serverInfo")
        elif method == LISTEN:
            return self._listen_by_session(incoming, session)
        else:
            level = params["_meta"].get(LOG_LEVEL_KEY)
            if level not in (None, self._log_level) and session.era.peer.supports("logging"):
                session.request("logging/setLevel", {"level": level}, Deadline(CONNECT_SECONDS))
                self._log_level = level
            result = self._through_rounds(incoming, session)
        if isinstance(result, Failure) or result is LATER:
            return give(incoming, result)
        hints = {"ttlMs": 0, "cacheScope": "private"}
        cached = method.endswith("/list") or method in ("server/discover", "resources/read")
        own = {SERVER_KEY: dict(session.era.peer.info), **(result.get("_meta") or {})}
        return {"resultType": "complete", **(hints if cached else {}), **result, "_meta": own}

    def _through_rounds(self, incoming: IncomingRequest, session: ClientSession) -> Any:
        """The result of a call, or the next question to the client; its answer comes with the same params again."""
        params = incoming.request.params
        state = params.get("requestState")
        if state is None:
            rounds = Rounds(incoming)
            incoming.sink.spawn(partial(self._run, rounds, session, with_meta(params, ENVELOPE)))
        else:
            found = self._rounds.pop(state, None) if isinstance(state, str) else None
            if found is None:
                raise InvalidParams("no call waits for this requestState: it was used before, or is too old")
            rounds, found.newest = found, incoming
            rounds.replies.put(params.get("inputResponses"))
        self.running[incoming] = rounds
        incoming.on_cancel(lambda: rounds.first.cancel(incoming.reason))
        with waiting():
            event = rounds.events.get()
        if isinstance(event, BaseException):
            raise event
        if not isinstance(event, tuple) or isinstance(event, Failure):
            return event
        question, rounds.replies = event
        asked = {"method": question.request.method, "params": question.request.params}
        state = secrets.token_urlsafe(16)
        self._rounds[state] = rounds
        return {"resultType": INPUT_REQUIRED, "inputRequests": {"1": asked}, "requestState": state}

    def _run(self, rounds: Rounds, session: ClientSession, params: Result) -> None:
        def tell(method: str, params: Result) -> None:
            token = rounds.newest.progress_token
            rounds.newest.send(method, params if token is None else {**params, "progressToken": token})

        try:
            rounds.events.put(self._exchange(rounds.first, session, params, tell=tell))
        except BaseException as error:
            rounds.events.put(error)

    def _listen_by_session(self, incoming: IncomingRequest, session: ClientSession) -> Any:
        wanted, over = incoming.request.params.get("notifications"), threading.Event()
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        for uri in uris if isinstance(uris, list) else ():
            session.request("resources/subscribe", {"uri": uri}, Deadline(CONNECT_SECONDS))
        incoming.on_cancel(over.set)
        answer = self._listeners.listen(incoming)
        with waiting():
            over.wait()
        return answer

    # ------------------------------------------------------------ what the server says

    def route(self, method: str, peer: Peer) -> Route:
        """Where any request of the server goes (asked by `ClientSession.admit`)."""
        return Route(self._ask)

    def lost(self, peer: Peer) -> None:
        """The connection has ended (told by `ClientSession.lost`): the next request begins another."""

    def _ask(self, question: IncomingRequest) -> Any:
        """Have the client in front answer: the one whose call it belongs to, or the only one that there is."""
        calls = getattr(question.sink, "asked_by", ())
        named = [self._asked_for[call.id] for call in calls if call.id in self._asked_for]
        owners = {each: self.running.get(each) for each in named or list(self.running)}
        clients = {owner or each for each, owner in owners.items()} or {*self.fronts}
        if len(clients) != 1:
            raise InternalError(f"the server does not say which of {len(clients)} clients it asks")
        client = clients.pop()
        if isinstance(client, Rounds):
            replies: SimpleQueue[Any] = SimpleQueue()
            client.events.put((question, replies))
            try:
                with waiting():
                    given = replies.get(timeout=Limits().ask_timeout)
            except Empty:
                raise InternalError("the client does not come back with an answer") from None
            answer = given.get("1") if isinstance(given, dict) else None
            return answer if isinstance(answer, dict) else give(question, Failure(None, -1, "no answer"))
        if not isinstance(client, Front):
            raise InternalError("this request cannot ask")
        asking = [*owners][-1].sink.asking() if owners else client.asking()

        def tell(method: str, params: Result) -> None:
            session = self._newest
            if session is not None:
                self._forward.add(lambda: session.notify(method, params, Deadline(FLUSH_SECONDS)), params)

        return give(question, exchange(question, asking, question.request.params, tell))

    def tell(self, notification: Notification) -> None:
        """Pass a notification of the server on, behind those before it. Never blocks."""
        self._back.add(partial(self._tell, notification), notification.params)

    def _tell(self, notification: Notification) -> None:
        method, params = notification
        if self.fronts:
            line = encode(Notification(method, with_meta(params, [SUBSCRIPTION_KEY])))
            for front in list(self.fronts):
                with suppress(ConnectionLost):
                    front.tell(line)
            return
        for name in LISTS:
            if method == f"notifications/{name}/list_changed":
                self._listeners.list_changed(name)
        if method == "notifications/resources/updated":
            self._listeners.resource_updated(str(params.get("uri")))
        running = [each for each in list(self.running) if each.request.method != LISTEN]
        if method == "notifications/message" and len(running) == 1 and running[0].peer.log_rank is not None:
            running[0].send(method, params)

    def notify(self, notification: Notification) -> None:
        """Pass a notification of the client on, behind those before it. Never blocks."""
        self._forward.add(partial(self._notify, notification), notification.params)

    def _notify(self, notification: Notification) -> None:
        session, begins = self._newest, notification.method == "notifications/initialized"
        if session is None or session.era is None or not session.era.revision.handshake or (begins and self._begun):
            return
        self._begun = self._begun or begins
        session.notify(*notification, Deadline(FLUSH_SECONDS))
        if begins:
            session.ready(Deadline(FLUSH_SECONDS))


# ------------------------------------------------------------ in front


class Front(ServerRole):
    """One client that shook hands, or none yet: a connection over stdio, or a session over HTTP."""

    link: Optional[Link] = None
    # Of its `initialize`.
    sink: Any = None

    def __init__(self, bridge: Bridge, registry: Registry, *given: Any, **options: Any) -> None:
        super().__init__(registry, *given, **options)
        self._bridge = bridge

    def admit(self, request: Request) -> tuple[Peer, Route]:
        peer = self.session.admit(request)
        if not peer.revision.handshake:
            return peer, self._registry.route(request, peer)
        if request.method == "initialize":
            self._leave()
            self.link = self._bridge.link(self, request.params, True)
            self.link.fronts.append(self)
        return peer, Route(self._serve)

    def _serve(self, incoming: IncomingRequest) -> Any:
        if self.link is None:
            return {}  # a ping before there is a session, or a request behind its end
        if incoming.request.method == "initialize":
            self.sink = incoming.sink
        return self.link.serve_front(self, incoming)

    def notified(self, notification: Notification) -> None:
        if self.link is not None:
            self.link.notify(notification)

    def ending(self, sink: Any) -> None:
        """Streams are requests that are cancelled with all others."""

    def lost(self, cause: ConnectionLost) -> None:
        self._leave()
        super().lost(cause)

    def _leave(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.leave(self)

    def tell(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send what belongs to no request: over HTTP on the stream for that, else on that of any request."""
        session = getattr(self.sink, "session", None)
        if self.sink is not None and session is None:
            self.sink.send(line)
        elif session is not None:
            stream = session.unsolicited
            if stream is not None and stream.is_connected():
                stream.send(line)
            elif session.responses:
                session.responses[-1].send(line)
            elif len(session.pending) < MOST_WAITING:
                session.post(line)
        return True

    def asking(self) -> Calls:
        """The calls by which the client is asked what belongs to no request of its own."""
        session = getattr(self.sink, "session", None)
        calls: Calls = self.sink.asking() if session is None else session.calls.through(self.tell, self.tell)
        return calls


class Forwarding(Registry):
    """The methods of a server that has none of its own: requests that stand alone go to the link of their client."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__(bridge.config, Offer(REVISIONS))
        self._bridge = bridge

    def role(self, *given: Any, **options: Any) -> ServerRole:
        return Front(self._bridge, self, *given, **options)

    def mirrored(self, params: Mapping[str, Json]) -> Sequence[Any]:
        return ()

    def route(self, request: Request, peer: Peer) -> Route:
        described = {"clientInfo": dict(peer.info), "capabilities": dict(peer.capabilities)}
        opening = {"protocolVersion": NEWEST_HANDSHAKE.name, **described}
        return Route(partial(self._bridge.link(to_json(described), opening, False).serve_front, None))


class Bridge(Server):
    """What is served in front. Thread-safe.

    Args:
        target: The server behind.
        shared: Whether all clients have one connection to it.
        idle: Seconds without a call after which a server process ends; None takes the usual.
        is_local: Whether clients may read how the server ended: only who has started this process can be one.
        options: As of `Server`.
    """

    def __init__(
        self, target: Target, *, shared: bool = False, idle: Optional[float] = None, is_local: bool = False,
        **options: Any,
    ) -> None:
        super().__init__("minimcp-bridge", version=VERSION, **options)
        self.target, self.shared, self.idle, self.is_local, self.config = target, shared, idle, is_local, self._config
        self.links: dict[object, Link] = {}
        self._links_lock = threading.Lock()
        self._registry = Forwarding(self)

    def link(self, key: object, opening: Result, shakes_hands: bool) -> Link:
        """The link of a client. Raises InternalError: there are too many."""
        key = None if self.shared else key
        with self._links_lock:
            if key not in self.links and len(self.links) >= MOST_LINKS:
                unused = next((each for each, link in self.links.items() if not (link.fronts or link.running)), None)
                if unused is None:
                    raise InternalError(f"{MOST_LINKS} servers run already, one for each client")
                found = self.links.pop(unused)
                found.pool.spawn(found.close)
            if key not in self.links:
                self.links[key] = Link(self, opening, shakes_hands)
            return self.links[key]

    def end_links(self) -> None:
        """End every server behind, a process by force after a short time. Blocks: until then."""
        closing = [threading.Thread(target=link.close, args=(END_SECONDS,)) for link in list(self.links.values())]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


# ------------------------------------------------------------ the command


def bridge_command(arguments: Sequence[str], prog: str) -> int:
    """Serve a stdio server over HTTP, or a server with a URL over stdio."""
    parser = Parser(
        prog, f"{prog} --http 8000 -- COMMAND ...  serves any stdio server over Streamable HTTP.\n"
              f"{prog} URL  serves a server with a URL over stdin and stdout, to a program that starts this command.",
        "Everything is passed on both ways. It serves until Ctrl-C, or until its input ends.",
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="of the server to serve over stdin and stdout")
    parser.add_argument("--http", type=address, metavar="[HOST:]PORT",
                        help="serve COMMAND there, at /mcp; port 0 takes a free one (default host: 127.0.0.1)")
    parser.add_argument("--shared", action="store_true",
                        help="one process for all clients (default: one for each session)")
    parser.add_argument("--idle", type=float, metavar="SECONDS",
                        help="end a process after so long without a call; the next call starts it again")
    parser.add_argument("--allow-host", action="append", metavar="NAME",
                        help="a name by which other machines know this one, for a HOST that they reach; "
                             "may be given several times")
    parser.add_argument("--header", action="append", type=as_header, metavar='"Name: value"',
                        help="send this with every request to URL; may be given several times")
    parser.add_argument("--token", help="with URL: send this bearer token with every request (default: the one that "
                                        "minimcp login has stored); with --http: serve only clients that send it")
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:at]), arguments[at + 1 :]
    if options.http is None:
        return _serve_stdio(_remote(options, command, prog))
    if options.url is not None or not command:
        raise UsageError(f"write -- before the command: {prog} --http 8000 -- {options.url or 'python server.py'}")
    if options.header is not None:
        raise UsageError("--header goes with a URL: clients over HTTP send their own")
    return _serve_http(command, options, prog)


def _remote(options: Namespace, command: Sequence[str], prog: str) -> Target:
    if options.url is None or command:
        raise UsageError(f"write {prog} --http 8000 -- {' '.join(command) or 'COMMAND'}, or {prog} URL")
    for name in ("shared", "idle", "allow_host"):
        if getattr(options, name):
            raise UsageError(f"--{name.replace('_', '-')} goes with --http, as in {prog} --http 8000 -- COMMAND")
    if not options.url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{options.url!r} is no URL: a command is served by {prog} --http 8000 -- {options.url}")
    given = {"headers": None if options.header is None else dict(options.header), "auth": options.token}
    try:
        found = read_target(options.url, web={name: value for name, value in given.items() if value is not None})
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    return found if found.object.has_auth else found._replace(object=with_stored_token(found.object))


def _serve_stdio(target: Target) -> int:
    bridge = Bridge(target, is_local=True)
    try:
        bridge.run()
    finally:
        bridge.end_links()
    return 0


def _serve_http(command: Sequence[str], options: Namespace, prog: str) -> int:
    host, port = options.http
    if host not in LOOPBACK and not (options.token and options.allow_host):
        raise UsageError(f"other machines reach {host}: add --token, which clients must send, and --allow-host, the "
                         "name by which they know this one")
    try:
        from .. import Bearer

        auth = None if options.token is None else Bearer.static(options.token)
        target = read_target(command[0] if len(command) == 1 else list(command))
        http = HttpOptions(allowed_hosts=options.allow_host, max_sessions=MOST_LINKS)
        bridge = Bridge(target, shared=options.shared, idle=options.idle, http=http, auth=auth)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if target.is_web:
        raise UsageError(f"--http serves a command; a URL is served over stdio, by {prog} {command[0]}")
    try:
        bridge.run("http", host=host, port=port)
    except OSError as error:
        complain(prog, error.strerror or str(error))
        return 3
    finally:
        bridge.end_links()
    return 0
