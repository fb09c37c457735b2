"""`SharedSessions`: HTTP sessions that several processes share through ``Server(store=...)``.

Any of these processes can serve any request. The store has a record of each session. A process
keeps a copy of the session, compares it with the record at each request, and writes the record
before it sends a response. Records are JSON: the revision, the client's description of itself, its
log level, its subscriptions, its principal, and ``ctx.session``. The last write of each of these
members wins.

The store also has the events of streams, so that a client can resume a stream at any process. If
another process still serves the stream, this process sends the events that the other one adds.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import threading
import time
from collections import deque
from copy import deepcopy
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ..engine.calls import Calls
from ..engine.cancel import CancelToken
from ..engine.incoming import Line
from ..engine.pool import waiting
from ..errors import InternalError
from ..http.events import LAST, EventStore
from ..http.headers import Headers, HttpError, ResponseWriter
from ..http.responses import STREAM_HEADERS, EventStream
from ..http.sessions import BEGIN_SECONDS, MakeRole, Session, SessionStore, too_many_sessions
from ..http.sse import KEEP_ALIVE, format_event
from ..log import logger
from ..protocol.lifecycle import Peer
from ..protocol.messages import (
    Failure,
    Id,
    Notification,
    Response,
    decode,
    encode,
    failure,
    is_id,
    read_json,
    to_json,
)
from ..protocol.versions import BY_NAME
from .base import (
    MAX_RECORD_DEPTH,
    Entry,
    StoreUnavailable,
    has_members,
    is_number,
    owner_of,
    read_record,
    report_unreadable,
)
from .processes import RENEW_SECONDS, RETRY_SECONDS, Message, Processes

if TYPE_CHECKING:
    from ..http.endpoint import Endpoint

log = logger("minimcp.http")

# Maximum length of the record of a session, in bytes.
MAX_RECORD_BYTES = 1024 * 1024

# Maximum number of stored events of one stream, and of their bytes.
MAX_STREAM_EVENTS = 1000
MAX_STREAM_BYTES = 1024 * 1024

# Seconds for which events are kept after the stream has ended.
ENDED_SECONDS = 60.0

# Seconds without a request after which the copy of a session may be dropped.
UNUSED_SECONDS = 1.0

# Maximum bytes of the streams of one session that one process stores. Above it, the oldest streams
# are deleted.
MAX_SESSION_BYTES = 4 * MAX_STREAM_BYTES

# The memory of an event in addition to its data, in bytes.
EVENT_BYTES = 64

# Maximum length in characters of the reason of a cancellation, and of a request's id in it, that
# other processes receive.
MAX_REASON_CHARACTERS = 200
MAX_ID_CHARACTERS = 200

# Seconds for which sessions and the events of streams are kept if sessions have no time to live.
KEPT_SECONDS = 86400.0

# An event: its position in the stream, its mark and its line. See `Event`.
_EVENT = re.compile(rb"([0-9]{1,18}) (-?[0-9]{1,18}) (.*)", re.DOTALL)

# The id of a question, which contains the id of the process that asks it.
_QUESTION_ID = re.compile(r"([0-9a-f]{16})-[0-9]{1,15}")

Record = dict[str, Any]


class Event(NamedTuple):
    """An event of a stream.

    Args:
        key: Its number in the store.
        number: Its position in the stream.
        mark: In the stream of a call, `LAST` for the last event, or 0. In another stream, the
            position in the log of changes when the event was created.
        line: The line that was sent; empty if the stream ended without a response.
    """

    key: int
    number: int
    mark: int
    line: bytes


class _Written:
    """The events of one stream that this process has in the store.

    Attributes:
        sizes: The bytes of each event.
        bytes: The sum of the sizes.
        ended_at: When the last event was added; None before that.
    """

    __slots__ = ("bytes", "ended_at", "sizes")

    def __init__(self) -> None:
        self.sizes: deque[int] = deque()
        self.bytes = 0
        self.ended_at: Optional[float] = None

    def add(self, size: int) -> None:
        """Count an event, and drop the oldest ones above the limits of a stream."""
        self.sizes.append(size)
        self.bytes += size
        while self.bytes > MAX_STREAM_BYTES or len(self.sizes) > MAX_STREAM_EVENTS:
            self.bytes -= self.sizes.popleft()


class SharedEvents(EventStore):
    """The events of the streams of all processes, kept only in the store. Thread-safe.

    Args:
        processes: The processes that share them.
        ttl: Seconds for which events are kept after the last one, until the stream has ended.
    """

    may_block = True

    def __init__(self, processes: Processes, ttl: float) -> None:
        self._processes = processes
        self._kept = processes.store
        self._ttl = ttl
        # The streams of each session that this process writes, by name, the oldest first.
        self._written: dict[str, dict[str, _Written]] = {}
        self._lock = threading.Lock()

    def key(self, stream: str) -> str:
        """Return the key of a stream in the store."""
        session, _, number = stream.partition(".")
        return self._processes.key("stream", session, number)

    def begin(self, stream: str, ids: Optional[Sequence[Id]]) -> None:
        """See `EventStore.begin`. Never raises, like `add`.

        If the store is unavailable, the stream cannot be resumed.
        """
        head = {"process": self._processes.id, "ids": ids, "position": self._processes.log_position}
        self._do(lambda: self._kept.put(self.key(stream), to_json(head).encode(), self._ttl))

    def add(self, stream: str, number: int, data: bytes, mark: int = 0) -> None:
        """See `EventStore.add`."""
        kept, dropped = self._admit(stream, len(data), mark == LAST)
        ttl = ENDED_SECONDS if mark == LAST else self._ttl
        event = b"%d %d %b" % (number, mark, data)
        self._do(lambda: self._kept.append(self.key(stream), event, ttl, kept))
        for each in dropped:
            self._do(partial(self._kept.delete, self.key(each)))

    def end(self, stream: str, number: int) -> None:
        """See `EventStore.end`. Other processes that follow the stream notice that it has ended."""
        self.add(stream, number, b"", LAST)

    def _admit(self, stream: str, size: int, is_last: bool) -> tuple[int, list[str]]:
        """Count an event of a stream.

        Returns:
            The number of events to keep of the stream, and the streams of the session to delete:
            first the streams that ended first, then the oldest.
        """
        now = time.monotonic()
        with self._lock:
            streams = self._written.setdefault(stream.partition(".")[0], {})
            for name, each in list(streams.items()):
                if each.ended_at is not None and now - each.ended_at > ENDED_SECONDS:
                    del streams[name]  # it has expired in the store
            written = streams.setdefault(stream, _Written())
            written.add(size + EVENT_BYTES)
            written.ended_at = now if is_last else None
            total = sum(each.bytes for each in streams.values())
            others = [name for name in streams if name != stream]
            others.sort(key=lambda name: streams[name].ended_at or math.inf)  # stable
            dropped: list[str] = []
            while total > MAX_SESSION_BYTES and others:
                dropped.append(others.pop(0))
                total -= streams.pop(dropped[-1]).bytes
            return len(written.sizes), dropped

    def _do(self, write: Callable[[], object]) -> None:
        try:
            write()
        except StoreUnavailable as error:
            log.warning("an event was not stored: %s", error)

    def head(self, stream: str) -> Optional[dict[str, Any]]:
        """Return the record that `begin` has written, or None if it is missing or damaged."""
        entry = self._kept.get(self.key(stream))
        if entry is None or not entry.value:
            return None
        return read_record(entry.key, entry.value, _is_head)

    def read(self, stream: str, after: int = 0) -> list[Event]:
        """Return the events after a number in the store, without damaged ones."""
        events = []
        name = self.key(stream)
        for key, data in self._kept.read(name, after):
            found = _EVENT.fullmatch(data)
            if found is None:
                report_unreadable(name)
            else:
                events.append(Event(key, int(found[1]), int(found[2]), found[3]))
        return events

    def after(self, stream: str, number: int) -> Optional[list[tuple[int, bytes]]]:
        """See `EventStore.after`."""
        found = {event.number: event.line for event in self.read(stream) if event.line}
        newest: int = max(found, default=0)
        missed = range(number + 1, newest + 1)
        if number > newest or not found.keys() >= set(missed):
            return None
        return [(at, found[at]) for at in missed]

    def forget(self, session: str) -> None:
        """See `EventStore.forget`. In the store, events expire."""
        with self._lock:
            self._written.pop(session, None)

    def __repr__(self) -> str:
        return f"<SharedEvents in {self._kept!r}>"


class SharedSession(Session):
    """A copy of a session. Thread-safe.

    The record contains the open questions, so that a process passes an answer only to the process
    that has asked.

    Args:
        shared: The sessions that this one belongs to.
        make_role, end, principal: See `Session`.

    Attributes:
        saving: Held while the record is written.
        holder: The id of the process with the session's stream for messages without a request;
            empty if no process has it.
        connection: The connection that last took that stream in this process, or None.
        log_position: The position in the log of changes when that stream began or ended.
        stream_name: The name of that stream. The mark of its newest event is the position in the
            log that the client has been notified of since then.
    """

    def __init__(
        self,
        shared: SharedSessions,
        make_role: MakeRole,
        end: Callable[[Session], None],
        principal: Optional[str],
    ) -> None:
        super().__init__(make_role, end, principal)
        role: Any = self.role  # a `ServerRole`
        role.is_shared = True
        self.shared = shared
        ids = map("{}-{}".format, repeat(shared.processes.id), shared.numbers)
        self.calls = Calls("http", lambda *_: False, len, ids=ids)
        # Random, so that no two processes use the same number.
        self.stream_numbers = iter(partial(secrets.randbits, 48), -1)
        self.saving = threading.RLock()
        self._version = 0
        self._stored = Record()
        self._asked_elsewhere: set[str] = set()
        self.holder = ""
        self.log_position = shared.processes.log_position
        self.stream_name = ""
        self.connection: Optional[ResponseWriter] = None

    # ------------------------------------------------------------ the record

    def _record(self) -> Record:
        peer = self.peer
        assert peer is not None
        return {
            "revision": peer.revision.name,
            "info": dict(peer.info),
            "capabilities": dict(peer.capabilities),
            "rank": peer.log_rank,
            "principal": self.principal,
            "begun": self.initialized,
            "session": peer.session_data,
            "uris": sorted(self.shared.subscriptions.uris(peer)),
            "stream": self.holder,
            "position": self.log_position,
            "stream_name": self.stream_name,
            "asked": sorted(
                {*self._asked_elsewhere, *(str(call.id) for call in self.calls.pending())}
            ),
        }

    def begin(self, record: Record, version: int) -> None:
        """Initialize this copy from a record of another process."""
        self._version = version
        self._stored = record
        peer = self.peer = Peer(BY_NAME[record["revision"]], info=record["info"])
        peer.initialized = False
        role: Any = self.role  # a `ServerRole`
        role.restore(peer, record["uris"])
        self._adopt(record, {})
        self._adopt_questions([], record["asked"])

    def refresh(self, entry: Entry) -> bool:
        """Adopt the members that other processes have changed, unless they were changed here, too.

        Returns False if the record is not that of a session.
        """
        with self.saving:
            if entry.version <= self._version:
                return True
            theirs = read_record(entry.key, entry.value, _is_session)
            if theirs is None:
                return False
            mine = self._record()
            base = self._stored
            self._version = entry.version
            self._stored = theirs
            changed = {
                name: theirs[name] for name in base if theirs[name] != base[name] == mine[name]
            }
            self._adopt(changed, base["session"])
            assert self.peer is not None
            self.shared.subscriptions.merge(self.peer, base["uris"], theirs["uris"])
            self._adopt_questions(base["asked"], theirs["asked"])
            return True

    def _adopt_questions(self, before: Sequence[str], now: Sequence[str]) -> None:
        """Note which questions other processes have asked, and which have been answered."""
        own = self.shared.processes.id + "-"
        self._asked_elsewhere |= {id for id in now if id not in before and not id.startswith(own)}
        self._asked_elsewhere -= {id for id in before if id not in now}

    def is_asked_elsewhere(self, id: Optional[Id]) -> bool:
        """Return whether another process has asked this question and it is still open."""
        return id in self._asked_elsewhere

    def close_questions(self, beginning: str) -> None:
        """Remove the questions of other processes with this prefix from the record. Never
        raises."""
        with self.saving:
            asked = self._asked_elsewhere
            self._asked_elsewhere = {id for id in asked if not id.startswith(beginning)}
            self.before_answer()

    def _adopt(self, changed: Record, before: Record) -> None:
        """Set these members, and no others, because a running request may be changing the session.

        A key of ``ctx.session`` is set only if it differs from its value in `before`.
        """
        peer = self.peer
        assert peer is not None and peer.session_data is not None
        for name, owner, attribute in (
            ("info", peer, "info"),
            ("capabilities", peer, "capabilities"),
            ("rank", peer, "log_rank"),
            ("begun", peer, "initialized"),
            ("stream", self, "holder"),
            ("position", self, "log_position"),
            ("stream_name", self, "stream_name"),
        ):
            if name in changed:
                setattr(owner, attribute, changed[name])
        if "session" in changed:
            kept = deepcopy(changed["session"])
            peer.session_data.update(
                {key: kept[key] for key in kept if key not in before or before[key] != kept[key]}
            )
            for key in before.keys() - kept.keys():
                peer.session_data.pop(key, None)
        if changed.get("begun"):
            role: Any = self.role  # a `ServerRole`
            role.begin(peer)
        if (
            changed.get("stream", self.shared.processes.id) != self.shared.processes.id
            and self.unsolicited is not None
        ):
            self.unsolicited.abort()  # another process has the stream

    def save(self) -> None:
        """Write the members that were changed here, and adopt changes of other processes.

        Raises:
            StoreUnavailable: The store is unavailable.
            TypeError, ValueError: ``ctx.session`` is not JSON, is too long, or is nested too
                deeply.
        """
        with self.saving:
            base = self._stored
            version = None
            while version is None:
                mine = self._record()
                if mine == self._stored:
                    return
                text = to_json(mine).encode()
                if len(text) > MAX_RECORD_BYTES:
                    raise ValueError(
                        f"the record of a session is longer than {MAX_RECORD_BYTES} bytes"
                    )
                stored = read_json(text, max_depth=MAX_RECORD_DEPTH)
                version = self.shared.write(self, text, self._version)
                if version is None and not self.shared.look(self):
                    return  # the session has ended
            self._version = version
            self._stored = stored
        if (
            base
            and base["uris"] != mine["uris"]
            and self.holder not in ("", self.shared.processes.id)
        ):
            self.shared.processes.send(self.holder, session=self.key)

    def before_answer(self) -> None:
        """See `Session.before_answer`. The next request, at any process, finds the changes of this
        one."""
        try:
            self.save()
        except Exception as error:
            log.error("the record of a session was not written: %s", error)

    def before_question(self) -> None:
        """See `Session.before_question`. The answer may arrive at any process."""
        try:
            self.shared.processes.hold()
            self.save()
        except Exception as error:
            log.warning("an answer may be lost: %s", error)

    def post_ping(self, stream: EventStream, line: bytes) -> None:
        """See `Session.post_ping`. A thread of the pool writes to the store before it sends the
        ping."""

        def send() -> None:
            self.before_question()
            stream.post(line)

        stream.spawn(send)

    def position(self) -> int:
        """See `Session.position`."""
        reached = None if self.peer is None else self.shared.subscriptions.reached(self.peer)
        return self.log_position if reached is None else reached

    # ------------------------------------------------------------ messages

    def post(self, line: Line) -> None:
        """See `Session.post`. Without a stream here, the next stream reads notifications from the
        log."""
        if self.unsolicited is not None and not self.unsolicited.done:
            super().post(line)
        elif callable(line):
            line()

    def take(self, message: Union[Notification, Response, Failure]) -> None:
        """See `Session.take`. A message for no request of this process is sent to the others."""
        if not self.dispatcher.receive(message):
            self.shared.pass_on(self, message)
        elif isinstance(message, Notification) and message.method != "notifications/cancelled":
            self.save()


class SharedSessions(SessionStore):
    """Keeps the sessions of an endpoint in a store that other processes share. Thread-safe.

    Args:
        processes: The processes that share the sessions.
        subscriptions: The feature "subscriptions" of the server.
        endpoint: The endpoint that serves the sessions in this process. A session that is not used
            for ``HttpOptions.session_ttl`` seconds expires.
    """

    is_shared = True

    endpoint: Endpoint

    def __init__(self, processes: Processes, subscriptions: Any, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.processes = processes
        self.subscriptions = subscriptions
        self._store = processes.store
        self._ttl = endpoint.options.session_ttl or KEPT_SECONDS
        # Maximum number of copies in this process; None means no limit.
        self.max_copies = endpoint.options.max_sessions
        self.events = SharedEvents(processes, self._ttl)
        processes.receivers.add(self)
        self._lock = threading.Lock()
        self._known: dict[str, SharedSession] = {}
        self.numbers = count(1)  # of questions; new copies of a session do not repeat them

    def make_event_store(self) -> EventStore:
        return self.events

    def start(self) -> None:
        self.processes.start(self.endpoint)

    def stop(self) -> None:
        self.processes.stop(self.endpoint)

    def add(self, session: Session, headers: Headers) -> None:
        assert isinstance(session, SharedSession)
        try:
            self._check_room(session, headers)
            session.save()
        except BaseException:
            if session.place is not None:
                session.place.leave()
            raise
        self._keep_copy(session)

    def _keep_copy(self, session: SharedSession) -> None:
        """Keep a copy of a session in this process.

        If there are more than `max_copies`, those of the older half that are not in use are
        dropped.
        """
        self.endpoint.use_session(session)
        most = self.max_copies
        if most is None or len(self.endpoint.sessions) <= most:
            return
        for each in list(self.endpoint.sessions.values())[: (most + 1) // 2]:
            self.endpoint.end_here(each, "other sessions are in use", UNUSED_SECONDS)

    def _check_room(self, session: SharedSession, headers: Headers) -> None:
        """Check that the store has room for one more session. This does not read sessions.

        Raises:
            HttpError: All processes together have too many sessions.
            ShareExceeded: The principal has too many sessions.
            StoreUnavailable: The store is unavailable.
        """
        most = self.endpoint.options.max_sessions
        processes = self.processes
        if most is None:
            return
        stored = processes.store.sizes(processes.key("session") + "/")
        if len(stored) >= most:
            raise too_many_sessions(most)
        own = processes.key("session", owner_of(session.principal), "")
        assert headers.counted is not None
        names = headers.counted.names
        principal = next((name for name in names if name[0] == "principal"), None)
        if principal is not None:
            used = sum(key.startswith(own) for key in stored)
            self.endpoint.shares.check("sessions", most, principal, used)

    def make(self, principal: Optional[str], id: str = "") -> SharedSession:
        """See `SessionStore.make`. With an id, return a copy of a session that the store has."""
        # Before a request of the session is served, because another process may cancel it.
        self.processes.follow()
        session = SharedSession(
            self, self.endpoint.make_role, self.endpoint.end_after_responses, principal
        )
        session.id = id or session.id
        session.key = _key_of(session.id)
        return session

    def find(self, id: str, principal: Optional[str] = None) -> Optional[Session]:
        """Return the session of an id in its current state, or None. It reads the store once.

        Args:
            id: The id that the client sent.
            principal: The principal of the request. Sessions of others are not found. None without
                authentication.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        key = _key_of(id)
        entry = self._store.get(self._key(principal, key), renew=True)
        record = None
        if entry is not None:
            record = read_record(entry.key, entry.value, _is_session)
        with self._lock:
            session = self._known.get(key)
            if session is not None and session.principal != principal:
                return None
            if entry is not None and record is not None and session is None:
                session = self.make(principal, id)
                session.begin(record, entry.version)
                self._known[key] = session  # last, because `receive` may find it
        if session is None or entry is None or record is None:
            if session is not None:
                self.endpoint.end_here(session, "the session has ended in another process")
            return None
        session.refresh(entry)
        self._keep_copy(session)
        if self._known.get(key) is not session:
            return self.find(id, principal)  # another thread has just dropped it
        return session

    def write(self, session: SharedSession, text: bytes, version: int) -> Optional[int]:
        """Write a record, if the record in the store has this version.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        # Only a new session. A dropped copy whose stream ends now remains dropped.
        if not version:
            self._known[session.key] = session
        ttl = self._ttl if session.initialized else min(self._ttl, BEGIN_SECONDS)
        return self._store.put(self._key(session.principal, session.key), text, ttl, version)

    def look(self, session: SharedSession) -> bool:
        """Adopt the current record of a session. Return False if the session has ended.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        entry = self._store.get(self._key(session.principal, session.key))
        return entry is not None and session.refresh(entry)

    def end(self, session: Session) -> None:
        """End a session in all processes.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        self._store.delete(self._key(session.principal, session.key))
        self.processes.broadcast(session=session.key, ended=True)

    def forget(self, session: Session) -> None:
        """Drop the copy of a session."""
        if self._known.get(session.key) is session:
            del self._known[session.key]

    def _key(self, principal: Optional[str], key: str) -> str:
        return self.processes.key("session", owner_of(principal), key)

    # ------------------------------------------------------------ messages for other processes

    def pass_on(
        self, session: SharedSession, message: Union[Notification, Response, Failure]
    ) -> None:
        """Send an answer to the process that asked, or a cancellation to all other processes.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        if isinstance(message, Notification):
            brief = _brief(message)
            if brief is not None:
                self.processes.broadcast(session=session.key, message=encode(brief).decode())
            return
        found = _QUESTION_ID.fullmatch(str(message.id))
        if found is None or not session.is_asked_elsewhere(message.id):
            log.debug(
                "<-- an answer to %.60s, which is not a question of a running request", message.id
            )
            return
        process = found[1]
        text = encode(message).decode()
        if self.processes.send(process, session=session.key, message=text):
            session.close_questions(found[0])
        else:
            log.debug("<-- an answer to %s, whose process has ended", message.id)
            session.close_questions(process + "-")

    def receive(self, message: Message) -> None:
        """See `Receiver.receive`."""
        session = self._known.get(str(message.get("session")))
        if session is None:
            return
        if message.get("ended"):
            self.endpoint.end_here(session, "the client has ended the session")
        elif "message" in message:
            line = decode(str(message["message"]).encode())
            if isinstance(line, (Notification, Response, Failure)):
                session.dispatcher.receive(line)
        else:
            self.look(session)

    # ------------------------------------------------------------ streams

    def begin_stream(self, session: Session, writer: ResponseWriter) -> None:
        assert isinstance(session, SharedSession)
        self.take_stream(session, writer)

    def take_stream(
        self, session: SharedSession, writer: ResponseWriter, position: Optional[int] = None
    ) -> None:
        """Make this process the holder of a session's stream for messages without a request.

        Args:
            session: The session.
            writer: The connection of the stream.
            position: The position in the log that the client has been notified of on this stream;
                None if the stream is new.

        Raises:
            StoreUnavailable: The store is unavailable.
        """
        peer = session.peer
        assert peer is not None
        newest = self.processes.newest()
        with session.saving:  # the previous connection may leave at the same time
            self._pause(session)
            before = session.holder
            begin = session.log_position if position is None else position
            if position is None and before not in ("", self.processes.id):
                # The stream of the other process may still be connected, and each change must be
                # sent on only one stream.
                begin = max(begin, self._position_of(session.stream_name))
            session.holder = self.processes.id
            session.connection = writer
            if session.unsolicited is not None:
                session.stream_name = session.unsolicited.name
            until, unsent = self.subscriptions.resume(peer, newest)
            session.log_position = until
            try:
                missed = self.processes.since(begin, until, unsent)
                session.save()
            except Exception:  # the next stream catches up instead
                self.subscriptions.pause(peer)
                session.log_position = begin
                raise
        if before not in ("", self.processes.id):
            self.processes.send(before, session=session.key)
        self.subscriptions.catch_up(peer, missed)

    def _position_of(self, name: str) -> int:
        """Return the mark of the newest event of a stream; 0 if it has no events.

        Raises the exceptions of the store.
        """
        events = self.events.read(name)
        return events[-1].mark if events else 0

    def _pause(self, session: SharedSession) -> None:
        """Stop notifying a session here, and note its position unless another process has its
        stream.

        The caller holds `saving`.
        """
        assert session.peer is not None
        reached = self.subscriptions.pause(session.peer)
        if reached is not None and session.holder == self.processes.id:
            session.log_position = reached

    def leave_stream(self, session: Session, writer: ResponseWriter) -> None:
        """See `SessionStore.leave_stream`. The next stream contains the changes from now on."""
        assert isinstance(session, SharedSession)
        with session.saving:
            if session.connection is not writer:
                return
            session.connection = None
            self._pause(session)
            if session.holder == self.processes.id:
                session.holder = ""
                session.before_answer()

    def resume(
        self,
        session: Session,
        name: str,
        number: int,
        writer: ResponseWriter,
        headers: Headers,
    ) -> Optional[EventStream]:
        """Resume a stream that is not served here.

        Returns:
            The new stream for messages without a request; None if the stream of a call was sent to
            its end.

        Raises:
            HttpError: The stream is unknown or no longer stored.
            InternalError: Too many streams are open in this process.
            ConnectionLost: The client has disconnected.
            StoreUnavailable: The store is unavailable.
        """
        head = self.events.head(name)
        events = self.events.read(name)
        if head is None or self.events.after(name, number) is None:
            raise HttpError(
                400, "no event of this session has this id, or it is no longer stored (event_store)"
            )
        if head["ids"] is not None:
            with waiting():
                self._follow(name, number, head, writer, headers)
            return None
        assert isinstance(session, SharedSession) and session.peer is not None
        stream = EventStream(
            self.endpoint,
            session,
            session.peer.revision,
            writer,
            name=name,
            last=max((event.number for event in events), default=0),
            pending=session.pending,
        )
        self.endpoint.add_listener(stream)
        session.unsolicited = stream
        self.take_stream(session, writer, events[-1].mark if events else head["position"])
        return stream

    def _follow(
        self, name: str, number: int, head: Record, writer: ResponseWriter, headers: Headers
    ) -> None:
        """Send the later events of a call that another process runs.

        It ends with the call, the connection or the token.
        """
        gone = CancelToken()
        seen = 0
        ended = False
        pause = min(RENEW_SECONDS, (self.endpoint.options.keepalive or RENEW_SECONDS) / 2)
        writer.token.on_cancel(gone.cancel)
        self.endpoint.watch_token(headers, writer, gone.cancel)
        writer.begin(200, STREAM_HEADERS)
        while not ended and not gone.cancelled:
            try:
                # Checked first, so that the last events of a process that ended are read after it.
                alive = self.processes.is_alive(head["process"])
                events = self.events.read(name, seen)
                for event in events:
                    seen = event.key
                    ended = event.mark == LAST
                    if event.number > number and event.line:
                        number = event.number
                        writer.write(format_event(event.line, id=f"{name}/{number}"))
                dropped = not (events or ended) and self.events.head(name) is None
                if not ended and (dropped or not alive):
                    reason = "the process of this request has ended before it responded"
                    if dropped and alive:
                        reason = (
                            "the response is no longer stored, because the session has longer ones"
                        )
                    for place, id in enumerate(head["ids"], number + 1):
                        line = encode(failure(id, InternalError(reason)))
                        writer.write(format_event(line, id=f"{name}/{place}"))
                    ended = True
                elif not ended and not self._store.wait([self.events.key(name)], seen, pause, gone):
                    writer.write(KEEP_ALIVE)
            except StoreUnavailable as error:
                log.warning("a stream is waiting for the store: %s", error)
                time.sleep(RETRY_SECONDS)
        writer.end()


def _key_of(id: str) -> str:
    """Return the key of a session. It does not reveal the id, with which requests can be sent."""
    return hashlib.sha256(id.encode()).hexdigest()[:32]


_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "revision": (str,),
    "info": (dict,),
    "capabilities": (dict,),
    "rank": (int, type(None)),
    "principal": (str, type(None)),
    "begun": (bool,),
    "session": (dict,),
    "uris": (list,),
    "stream": (str,),
    "position": (int,),
    "stream_name": (str,),
    "asked": (list,),
}
_HEAD: Mapping[str, tuple[type, ...]] = {
    "process": (str,),
    "ids": (list, type(None)),
    "position": (int,),
}


def _is_session(record: Record) -> bool:
    """Return whether an object in the store is the record of a session."""
    return (
        has_members(record, _MEMBERS)
        and BY_NAME[record["revision"]].handshake
        and is_number(record["position"])
        and all(isinstance(each, str) for each in (*record["uris"], *record["asked"]))
    )


def _is_head(head: Record) -> bool:
    """Return whether an object in the store is the record of a stream."""
    return (
        has_members(head, _HEAD)
        and is_number(head["position"])
        and (head["ids"] is None or all(is_id(id) for id in head["ids"]))
    )


def _brief(cancelled: Notification) -> Optional[Notification]:
    """Return the part of a cancellation that other processes need, or None if it names no
    request."""
    id = cancelled.params.get("requestId")
    reason = cancelled.params.get("reason")
    if not is_id(id) or len(str(id)) > MAX_ID_CHARACTERS:
        return None
    params: dict[str, Any] = {"requestId": id}
    if isinstance(reason, str):
        params["reason"] = reason[:MAX_REASON_CHARACTERS]
    return Notification(cancelled.method, params)
