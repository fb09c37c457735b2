"""The sessions of an HTTP server: what is kept of each client that has shaken hands.

A session belongs to whoever opened it: to anybody else it does not exist.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from itertools import count
from queue import SimpleQueue
from typing import Callable, Optional

from ..engine.connection import ConnectionHandler
from ..engine.requests import Calls, IncomingRequest, Line
from ..errors import ConnectionLost, InternalError, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import Failure, Notification, Response
from ..protocol.versions import Revision
from .http_server_reply import Mail, Reply
from .http_server_stream import EventStore, Stream

log = logging.getLogger("minimcp.http")


MakeRole = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionHandler]
"""Makes what the messages of a session mean, given its way to say something, and how to end it."""


class Session:
    """What is kept of one client. Thread-safe.

    Args:
        make_role: Makes what its messages mean.
        end: Called when the client wants the session to end.
        principal: Who opened it; None where nobody is authenticated.
    """

    __slots__ = (
        "id", "key", "role", "principal", "peer", "revision", "table", "unsolicited", "replies", "used_at", "ended",
        "shut", "_end", "_mail", "_mail_lock", "_numbers",
    )

    def __init__(
        self, make_role: MakeRole, end: Callable[[Session], None], principal: Optional[str]
    ) -> None:
        self.id, self.key = secrets.token_urlsafe(32), secrets.token_hex(6)
        self.role, self.principal, self._end = make_role(self.later, self.shut_down), principal, end
        self.peer: Optional[Peer] = None
        self.revision: Revision  # of the peer
        self.table = Calls("http", lambda line, deadline: False, lambda line: None)
        self._mail: Optional[Mail] = None  # most sessions never get any
        self._mail_lock = threading.Lock()
        self.unsolicited: Optional[Stream] = None
        self.replies: list[Reply] = []  # which has no memory of its own once it is empty again
        self.used_at = time.monotonic()
        self.ended = self.shut = False
        self._numbers = count(1)

    def new_stream_name(self) -> str:
        """A name that no other stream of any session has."""
        return f"{self.key}.{next(self._numbers)}"

    def stream(self, name: str) -> Optional[Stream]:
        """The stream of this name, as long as it goes on; None where there is none."""
        open_ones = [reply.stream for reply in list(self.replies)]
        if self.unsolicited is not None and not self.unsolicited.done:
            open_ones.append(self.unsolicited)
        return next((stream for stream in open_ones if stream.name == name), None)

    @property
    def busy(self) -> bool:
        """Whether something runs or is open."""
        stream = self.unsolicited
        return bool(self.replies) or (stream is not None and stream.connected and not stream.done)

    # ------------------------------------------------------------ what is no request

    def notified(self, notification: Notification) -> None:
        """The client says something."""
        if notification.method != "notifications/cancelled":
            self.role.notified(notification)
            return
        id, reason = notification.params.get("requestId"), notification.params.get("reason")
        running = [(reply, exchange) for reply in list(self.replies) for exchange in reply.running()]
        named = [pair for pair in running if _is_named(pair[1], id)]
        if len(named) != 1:  # clients may use an id for several requests at once: then it names none of them
            log.debug("cancelled: %s is unknown, finished or not the only one", one_line(id))
            return
        reply, exchange = named[0]
        if exchange.sink is reply and reply.requests.claim(exchange):
            exchange.cancel(reason if isinstance(reason, str) else None)
            reply.spawn(reply.stream.close)
        else:  # one of an array, whose answers leave together
            exchange.cancel(reason if isinstance(reason, str) else None)

    def answered(self, answer: Response | Failure) -> None:
        """The client answers a question."""
        ending = answer.result if isinstance(answer, Response) else answer
        if answer.id is None or not self.table.settle(answer.id, ending):
            log.debug("<-- an answer to %s, which nobody waits for", one_line(answer.id))

    def later(self, work: Line) -> None:
        """Have something called for the stream of what belongs to no request, as soon as there is one."""
        with self._mail_lock:
            if self._mail is None:
                self._mail = SimpleQueue()
            self._mail.put(work)

    def take_mail(self) -> Mail:
        """The mailbox of what belongs to no request, for whoever serves it from now on; the one before hears of it."""
        with self._mail_lock:
            before, self._mail = self._mail, SimpleQueue()
            if before is not None:
                while not before.empty():
                    self._mail.put(before.get())
                before.put(None)
            return self._mail

    def shut_down(self) -> None:
        """The client wants it to end."""
        self._end(self)

    def end(self, reason: str) -> None:
        """Let go of everything. Idempotent."""
        if self.ended:
            return
        self.ended = True
        cause = ConnectionLost(f"http: {reason}")
        self.table.close(cause)
        for reply in list(self.replies):
            reply.cancel(reason)
            reply.spawn(reply.stream.close)
        if self.unsolicited is not None:
            self.unsolicited.close()
        self.role.lost(cause)

    def __repr__(self) -> str:
        return f"<Session {self.key} {len(self.replies)} running>"  # never the id: whoever knows it is let in


def _is_named(exchange: IncomingRequest, id: object) -> bool:
    mine = exchange.request.id
    return type(mine) is type(id) and mine == id and exchange.request.method != "initialize"


class Sessions:
    """All sessions of one server. Thread-safe.

    Args:
        store: Forgets what it keeps of a session that has ended; None keeps nothing.
        most: How many there may be; None means no limit.
        ttl: Seconds after which one that is not used ends; None means never.
    """

    def __init__(self, store: Optional[EventStore], *, most: Optional[int], ttl: Optional[float]) -> None:
        self._store, self._most, self._ttl = store, most, ttl
        self._sessions: dict[str, Session] = {}
        self._state_lock = threading.Lock()

    def add(self, session: Session) -> None:
        """Take a new session in.

        Raises:
            InternalError: There are too many.
        """
        if not self._has_room():
            self.sweep()  # not at each, which would look at all of them
        with self._state_lock:
            fits = self._has_room()
            if fits:
                self._sessions[session.id] = session
        if not fits:
            raise InternalError(f"there are {self._most} sessions already (max_sessions): try again later")

    def _has_room(self) -> bool:
        return self._most is None or len(self._sessions) < self._most

    def find(self, id: str, principal: Optional[str]) -> Optional[Session]:
        """The session of this id and this caller, who uses it now; None where there is none."""
        session = self._sessions.get(id)
        if session is None or session.principal != principal:
            return None
        now = time.monotonic()
        if self._is_over(session, now):
            self.end(session, "it was not used")
            return None
        session.used_at = now
        return session

    def end(self, session: Session, reason: str) -> None:
        """End a session. Idempotent."""
        with self._state_lock:
            self._sessions.pop(session.id, None)
        session.end(reason)
        if self._store is not None:
            self._store.forget(session.key)

    def sweep(self) -> None:
        """End those that were not used for too long."""
        now = time.monotonic()
        for session in list(self._sessions.values()):
            if self._is_over(session, now):
                self.end(session, "it was not used")

    def _is_over(self, session: Session, now: float) -> bool:
        return self._ttl is not None and now - session.used_at > self._ttl and not session.busy

    def end_streams(self) -> None:
        """End the streams for what belongs to no request."""
        for session in list(self._sessions.values()):
            if session.unsolicited is not None:
                session.unsolicited.close()

    def close(self, reason: str) -> None:
        """End them all."""
        for session in list(self._sessions.values()):
            self.end(session, reason)

    def __len__(self) -> int:
        return len(self._sessions)
