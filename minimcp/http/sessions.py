"""`Session`: one HTTP session, and `SessionStore`: keeps the sessions of an endpoint.

A client opens a session with `initialize`. Requests in stateless revisions have no session.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import secrets
import time
from functools import partial
from itertools import count
from typing import Callable, Iterator, Optional, Protocol, Union

from ..engine.calls import Calls, PendingCall, Pinged
from ..engine.connection import ConnectionRole
from ..engine.dispatch import Dispatcher
from ..engine.incoming import Line
from ..engine.shares import CountedClient, Place
from ..errors import INTERNAL_ERROR, ConnectionLost
from ..log import logger
from ..protocol.lifecycle import Peer
from ..protocol.messages import Failure, Notification, Response, Result
from .events import EventStore
from .headers import Headers, HttpError, ResponseWriter
from .responses import EventStream, PostResponse, ResponseEndpoint

log = logger("minimcp.http")

# Seconds that a session may be unused before its client has sent `notifications/initialized`.
BEGIN_SECONDS = 60.0

# Makes the role of a server in one session. The arguments send a notification, and end the session.
MakeRole = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionRole]


class Session(Pinged):
    """One HTTP session (revisions with a handshake): peer, open responses and pending questions.
    Thread-safe.

    Args:
        make_role: Makes the role that handles its messages.
        end: Called when the client asks to end the session.
        principal: The principal that opened it. Only this principal may use it. None if clients
            are not authenticated.

    Attributes:
        id: The secret id, which the client sends with each message.
        key: The name of the session in logs and in the names of its streams.
        peer: The client, once it was admitted.
        unsolicited: The stream for messages that belong to no request; None if there is none.
        responses: The responses that are open.
        pending: The lines that `unsolicited`, or the next such stream, will send.
        used_at: When the last request arrived or ended, as `time.monotonic` returns it.
        shut: Whether the session ends with its last response.
    """

    peer: Optional[Peer] = None
    unsolicited: Optional[EventStream] = None
    shut = False
    _calls: Optional[Calls] = None
    # Counts it among the sessions of its client.
    place: Optional[Place] = None
    # The client of the last request, as it is counted in this session.
    _counted: Optional[CountedClient] = None
    # Ends it, if its client does not respond to pings. Must not block.
    end_silent: Callable[[], object]
    stream_numbers: Iterator[int]

    def __init__(
        self, make_role: MakeRole, end: Callable[[Session], None], principal: Optional[str] = None
    ) -> None:
        self.principal = principal
        self.id = secrets.token_urlsafe(32)
        self.key = secrets.token_hex(6)
        self.role = make_role(self.post, partial(end, self))
        self.responses: list[PostResponse] = []
        self.pending: list[Line] = []
        self.used_at = time.monotonic()
        self.dispatcher = Dispatcher(self, self.role, self.cancel)
        self.stream_numbers = count(1)

    @property
    def initialized(self) -> bool:
        """Whether the client has sent `notifications/initialized`."""
        return self.peer is not None and self.peer.initialized

    @property
    def calls(self) -> Calls:
        """The questions to the client. Most sessions ask none, so it is made for the first."""
        if self._calls is not None:
            return self._calls
        # It sends nothing itself. Each response sends questions through a view that `through`
        # returns.
        made = Calls("http", lambda *_: False, len)
        calls: Calls = self.__dict__.setdefault("_calls", made)  # atomic: all threads get this one
        return calls

    @calls.setter
    def calls(self, calls: Calls) -> None:
        self._calls = calls

    def stream(self, name: str) -> Optional[EventStream]:
        """Return the stream with this name; None if there is none or if it has ended."""
        for stream in [self.unsolicited, *(each.stream for each in self.responses)]:
            if stream is not None and stream.name == name and not stream.done:
                return stream
        return None

    def count_as(self, client: CountedClient) -> CountedClient:
        """Return the client of a request as it is counted in this session."""
        counted = self._counted
        if counted is None or counted.outside is not client:
            counted = client.in_session(self.key)
            self._counted = counted
        return counted

    def post(self, line: Line) -> None:
        """Send a notification that belongs to no request, as soon as a stream carries it. Never
        blocks."""
        self.pending.append(line)
        stream = self.unsolicited
        if stream is not None:
            stream.wake()

    def before_answer(self) -> None:
        """Prepare for the answer to a request, which is sent next. Never raises."""

    def before_question(self) -> None:
        """Prepare for questions, which are in `calls` and are sent next. Never raises."""

    def position(self) -> int:
        """Return the position in the log of all processes up to which this process has sent the
        changes; 0 if sessions are not shared."""
        return 0

    # ------------------------------------------------------------ pings

    def is_idle(self) -> bool:
        return not self.responses

    def send_ping(self) -> Optional[PendingCall]:
        ping = self.role.ping()
        stream = self.unsolicited
        if ping is None or stream is None or not stream.is_connected():
            return None
        return self.calls.through(stream.event, partial(self.post_ping, stream)).ping(*ping)

    def post_ping(self, stream: EventStream, line: bytes) -> None:
        """Send a ping on a stream. Never blocks."""
        stream.post(line)

    def lose(self, cause: ConnectionLost) -> None:
        self.end_silent()

    # ------------------------------------------------------------ other messages than requests

    def take(self, message: Union[Notification, Response, Failure]) -> None:
        """Handle a message of the client that is not a request."""
        self.dispatcher.receive(message)

    def cancel(self, params: Result) -> bool:
        """Handle `notifications/cancelled`. Return False if it names no request here."""
        id = params.get("requestId")
        reason = params.get("reason")
        named = [
            (response, request)
            for response in list(self.responses)
            for request in response.incoming
            if type(request.request.id) is type(id)
            and request.request.id == id
            and request.request.method != "initialize"
            and request.is_due
        ]
        # Clients may use an id for several requests at once. Then it names none of them.
        if len(named) != 1:
            log.debug("cancelled: %s is unknown, finished or not unique", id)
            return bool(named)
        response, request = named[0]
        # The answers to an array are sent together, so only a single request ends its response.
        is_single = request.batch is None and response.requests.end(request)
        request.token.cancel(reason if isinstance(reason, str) else None)
        if is_single:
            response.spawn(response.finish)
        return True

    def end(self, reason: str) -> None:
        """Cancel the requests, fail the questions, and end all streams."""
        self.stop_pings()
        if self.place is not None:
            self.place.leave()
        cause = ConnectionLost(f"http: {reason}")
        self.calls.close(cause)
        for response in list(self.responses):
            response.cancel(reason)
            response.spawn(response.finish)
        if self.unsolicited is not None:
            self.unsolicited.spawn(self.unsolicited.finish)
        self.role.connection_lost(cause)

    def __repr__(self) -> str:
        # The id is a secret.
        return f"<Session {self.key} {len(self.responses)} running>"


def too_many_sessions(most: int) -> HttpError:
    """Return the error for a client that may not open a session, because ``most`` are already
    open."""
    reason = f"there are {most} sessions already (max_sessions): try again later"
    return HttpError(503, reason, code=INTERNAL_ERROR)


class SessionEndpoint(ResponseEndpoint, Protocol):
    """The part of an `Endpoint` that a `SessionStore` uses."""

    sessions: dict[str, Session]
    make_role: MakeRole

    def add_session(self, session: Session) -> None:
        """Serve a new session. Raises HttpError if there are too many."""

    def end_after_responses(self, session: Session) -> None:
        """End a session when its last response has ended."""


class SessionStore:
    """Keeps the sessions of an endpoint in the memory of this process. Thread-safe.

    A subclass shares them with other processes. The endpoint calls all of these methods whether
    sessions are shared or not.

    Args:
        endpoint: The endpoint. Its ``sessions`` are the sessions in this process.
    """

    # Whether other processes serve the sessions, too.
    is_shared = False

    def __init__(self, endpoint: SessionEndpoint) -> None:
        self.endpoint = endpoint

    def make_event_store(self) -> EventStore:
        """Return the store of events that is used if the options name none."""
        return EventStore()

    def start(self) -> None:
        """Prepare for a request. Called before each one."""

    def stop(self) -> None:
        """Stop, after all sessions of a closed endpoint have ended in this process."""

    def find(self, id: str, principal: Optional[str]) -> Optional[Session]:
        """Return the session with an id, or None.

        Args:
            id: The id that a client sent.
            principal: The principal that sent it; None if clients are not authenticated. If the
                session belongs to another principal, None is returned, so as not to reveal it.
        """
        session = self.endpoint.sessions.get(id)
        if session is None or session.principal != principal:
            return None
        session.used_at = time.monotonic()
        return session

    def make(self, principal: Optional[str]) -> Session:
        """Make a session, which `add` keeps."""
        return Session(self.endpoint.make_role, self.endpoint.end_after_responses, principal)

    def add(self, session: Session, headers: Headers) -> None:
        """Keep a session whose `initialize` arrived with these headers.

        Raises:
            HttpError: There are too many.
            ShareExceeded: The client has too many.
        """
        self.endpoint.add_session(session)

    def end(self, session: Session) -> None:
        """End a session in all other processes."""

    def forget(self, session: Session) -> None:
        """Forget a session that ends in this process. Never blocks."""

    def begin_stream(self, session: Session, writer: ResponseWriter) -> None:
        """Record that this connection carries the messages that belong to no request."""

    def leave_stream(self, session: Session, writer: ResponseWriter) -> None:
        """Record that a connection has ended. It may have carried that stream. Never raises."""

    def resume(
        self, session: Session, name: str, number: int, writer: ResponseWriter, headers: Headers
    ) -> Optional[EventStream]:
        """Return a stream that this process does not serve, so that the caller can resume it.

        Args:
            session: The session.
            name: The name of the stream.
            number: The number of the last event that the client has received.
            writer: The connection to resume it on.
            headers: The headers of the request.

        Returns:
            The stream; None if it was sent to its end.

        Raises:
            HttpError: The stream is unknown, or events of it were dropped.
        """
        assert session.peer is not None
        # The stream has ended. The client fetches the rest of its events.
        revision = session.peer.revision
        stream = EventStream(self.endpoint, session, revision, None, name=name, last=-1)
        stream.done = True
        return stream
