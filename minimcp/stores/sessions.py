"""`SharedSessions`: HTTP sessions that several processes share through `Server(store=...)`.

Any of these processes serves any request. The store has a record of each session. A process keeps a
copy of it, compares it with the record at each request, and writes it back before it sends an
answer. Records are JSON: the revision, the client's description of itself, its log level, its
subscriptions, its principal, and ``ctx.session``. Of each of these members the last write wins.

The store also has the events of streams, so that a client can resume a stream at any process. If
another process still serves the stream, this one sends the events that the other one adds.
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

# Bytes of the longest record of a session.
RECORD_BYTES = 1024 * 1024

# Maximum number of events of one stream that are kept, and of their bytes.
STREAM_EVENTS = 1000
STREAM_BYTES = 1024 * 1024

# Seconds for which they are kept after the stream has ended.
ENDED_SECONDS = 60.0

# Seconds without a request after which the copy of a session may be dropped.
UNUSED_SECONDS = 1.0

# Bytes of all streams of one session that one process keeps; above, the oldest ones are dropped.
SESSION_BYTES = 4 * STREAM_BYTES

# Bytes that an event takes beside its data.
EVENT_BYTES = 64

# Maximum length of the reason of a cancellation, and of the id that it names if that is a text, in
# characters: other processes receive no more.
REASON_LENGTH = ID_LENGTH = 200

# Seconds for which the events of a stream, and a session, are kept where no time is set for
# sessions.
KEPT_SECONDS = 86400.0

# An event: its place in the stream, its mark and its line. See `Event`.
_EVENT = re.compile(rb"([0-9]{1,18}) (-?[0-9]{1,18}) (.*)", re.DOTALL)

# What asks carries its process.
_QUESTION_ID = re.compile(r"([0-9a-f]{16})-[0-9]{1,15}")

Record = dict[str, Any]


class Event(NamedTuple):
    """An event of a stream.

    Args:
        key: Its number in the store.
        number: Its place in the stream.
        mark: `LAST` in that of a call, or 0; else up to where the log was told when it was made.
        line: What was sent; nothing where the stream ended without a word.
    """

    key: int
    number: int
    mark: int
    line: bytes


class _Written:
    """What this process has in the store of one stream.

    Attributes:
        sizes: Bytes of each event.
        bytes: Their sum.
        ended_at: When the last event was added; None before.
    """

    __slots__ = ("bytes", "ended_at", "sizes")

    def __init__(self) -> None:
        self.sizes: deque[int] = deque()
        self.bytes = 0
        self.ended_at: Optional[float] = None

    def add(self, size: int) -> None:
        """Count an event, and drop the oldest ones above the bounds of a stream."""
        self.sizes.append(size)
        self.bytes += size
        while self.bytes > STREAM_BYTES or len(self.sizes) > STREAM_EVENTS:
            self.bytes -= self.sizes.popleft()


class SharedEvents(EventStore):
    """The events of the streams of all processes, in the store alone. Thread-safe.

    Args:
        processes: All that share them.
        ttl: Seconds that they are kept behind the last one of a stream that goes on.
    """

    may_block = True

    def __init__(self, processes: Processes, ttl: float) -> None:
        self._processes = processes
        self._kept = processes.store
        self._ttl = ttl
        # Of each session the streams that are written here, by name, the oldest first.
        self._written: dict[str, dict[str, _Written]] = {}
        self._lock = threading.Lock()

    def key(self, stream: str) -> str:
        """Where a stream is kept."""
        session, _, number = stream.partition(".")
        return self._processes.key("stream", session, number)

    def begin(self, stream: str, ids: Optional[Sequence[Id]]) -> None:
        """As `EventStore.begin`. Never raises, like `add`: when the store is away, the stream
        cannot be resumed."""
        head = {"process": self._processes.id, "ids": ids, "told": self._processes.log_position}
        self._do(lambda: self._kept.put(self.key(stream), to_json(head).encode(), self._ttl))

    def add(self, stream: str, number: int, data: bytes, mark: int = 0) -> None:
        """As `EventStore.add`."""
        kept, dropped = self._admit(stream, len(data), mark == LAST)
        ttl = ENDED_SECONDS if mark == LAST else self._ttl
        event = b"%d %d %b" % (number, mark, data)
        self._do(lambda: self._kept.append(self.key(stream), event, ttl, kept))
        for each in dropped:
            self._do(partial(self._kept.delete, self.key(each)))

    def end(self, stream: str, number: int) -> None:
        """As `EventStore.end`: other processes that follow the stream learn that it has ended."""
        self.add(stream, number, b"", LAST)

    def _admit(self, stream: str, size: int, is_last: bool) -> tuple[int, list[str]]:
        """Count an event of a stream.

        Returns:
            The number of events that the stream keeps, and the streams of the session that are
            dropped: those that ended first, then the oldest.
        """
        now = time.monotonic()
        with self._lock:
            streams = self._written.setdefault(stream.partition(".")[0], {})
            for name, each in list(streams.items()):
                if each.ended_at is not None and now - each.ended_at > ENDED_SECONDS:
                    del streams[name]  # its time in the store is over
            written = streams.setdefault(stream, _Written())
            written.add(size + EVENT_BYTES)
            written.ended_at = now if is_last else None
            total = sum(each.bytes for each in streams.values())
            others = [name for name in streams if name != stream]
            others.sort(key=lambda name: streams[name].ended_at or math.inf)  # stable
            dropped: list[str] = []
            while total > SESSION_BYTES and others:
                dropped.append(others.pop(0))
                total -= streams.pop(dropped[-1]).bytes
            return len(written.sizes), dropped

    def _do(self, write: Callable[[], object]) -> None:
        try:
            write()
        except StoreUnavailable as error:
            log.warning("an event is not kept: %s", error)

    def head(self, stream: str) -> Optional[dict[str, Any]]:
        """Return what `begin` has kept, or None if there is nothing that can be read."""
        entry = self._kept.get(self.key(stream))
        if entry is None or not entry.value:
            return None
        return read_record(entry.key, entry.value, _is_head)

    def read(self, stream: str, after: int = 0) -> list[Event]:
        """Return the events behind the one of this number in the store, without those that cannot
        be read."""
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
        """As `EventStore.after`."""
        found = {event.number: event.line for event in self.read(stream) if event.line}
        newest: int = max(found, default=0)
        missed = range(number + 1, newest + 1)
        if number > newest or not found.keys() >= set(missed):
            return None
        return [(at, found[at]) for at in missed]

    def forget(self, session: str) -> None:
        """As `EventStore.forget`; in the store they expire."""
        with self._lock:
            self._written.pop(session, None)

    def __repr__(self) -> str:
        return f"<SharedEvents in {self._kept!r}>"


class SharedSession(Session):
    """A copy of a session. Thread-safe.

    Args:
        shared: Whose it is.
        make_role, end, principal: As for `Session`.

    The record names the questions that are open, so that no process passes on an answer to another
    one that has not asked.

    Attributes:
        saving: Orders what is written to the record; held while that is done.
        holder: The process that has the stream for what belongs to no request; empty where none
            has.
        connection: By which that stream was last taken here; None where it was not.
        told: Up to where the log of all processes was told when that stream began, or was left.
        stream_name: The name of that stream. The mark of its newest event says up to where the log
            was told on it since.
    """

    def __init__(
        self,
        shared: SharedSessions,
        make_role: MakeRole,
        end: Callable[[Session], None],
        principal: Optional[str],
    ) -> None:
        super().__init__(make_role, end, principal)
        role: Any = self.role  # of a server
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
        self.told = shared.processes.log_position
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
            "session": peer.session,
            "uris": sorted(self.shared.subscriptions.uris(peer)),
            "stream": self.holder,
            "told": self.told,
            "stream_name": self.stream_name,
            "asked": sorted(
                {*self._asked_elsewhere, *(str(call.id) for call in self.calls.pending())}
            ),
        }

    def begin(self, record: Record, version: int) -> None:
        """Become what another process has written."""
        self._version = version
        self._stored = record
        peer = self.peer = Peer(BY_NAME[record["revision"]], info=record["info"])
        peer.initialized = False
        role: Any = self.role  # of a server
        role.restore(peer, record["uris"])
        self._adopt(record, {})
        self._adopt_questions([], record["asked"])

    def refresh(self, entry: Entry) -> bool:
        """Take in what another process has written, but for members that were changed here; False:
        it is no session."""
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
        """Take in which questions other processes have asked, and which are answered."""
        own = self.shared.processes.id + "-"
        self._asked_elsewhere |= {id for id in now if id not in before and not id.startswith(own)}
        self._asked_elsewhere -= {id for id in before if id not in now}

    def is_asked_elsewhere(self, id: Optional[Id]) -> bool:
        """Return whether another process has asked this question, and it is open."""
        return id in self._asked_elsewhere

    def close_questions(self, beginning: str) -> None:
        """Remove the questions of other processes from the record whose ids begin with a text.
        Never raises."""
        with self.saving:
            asked = self._asked_elsewhere
            self._asked_elsewhere = {id for id in asked if not id.startswith(beginning)}
            self.before_answer()

    def _adopt(self, changed: Record, before: Record) -> None:
        """Take in these members, and touch no other: a request that is being served may change it
        at this moment.

        Nor any key of ``ctx.session`` that is in it as it was before.
        """
        peer = self.peer
        assert peer is not None and peer.session is not None
        for name, owner, attribute in (
            ("info", peer, "info"),
            ("capabilities", peer, "capabilities"),
            ("rank", peer, "log_rank"),
            ("begun", peer, "initialized"),
            ("stream", self, "holder"),
            ("told", self, "told"),
            ("stream_name", self, "stream_name"),
        ):
            if name in changed:
                setattr(owner, attribute, changed[name])
        if "session" in changed:
            kept = deepcopy(changed["session"])
            peer.session.update(
                {key: kept[key] for key in kept if key not in before or before[key] != kept[key]}
            )
            for key in before.keys() - kept.keys():
                peer.session.pop(key, None)
        if changed.get("begun"):
            role: Any = self.role  # of a server
            role.begin(peer)
        if (
            changed.get("stream", self.shared.processes.id) != self.shared.processes.id
            and self.unsolicited is not None
        ):
            self.unsolicited.abort()  # another process has it

    def save(self) -> None:
        """Write what has changed here, and take in what has elsewhere.

        Raises:
            StoreUnavailable: The store is away.
            TypeError, ValueError: ``ctx.session`` is no JSON, too long, or nests too deep.
        """
        with self.saving:
            base = self._stored
            version = None
            while version is None:
                mine = self._record()
                if mine == self._stored:
                    return
                text = to_json(mine).encode()
                if len(text) > RECORD_BYTES:
                    raise ValueError(
                        f"what is kept of a session is longer than {RECORD_BYTES} bytes"
                    )
                stored = read_json(text, max_depth=MAX_RECORD_DEPTH)
                version = self.shared.write(self, text, self._version)
                if version is None and not self.shared.look(self):
                    return  # it has ended
            self._version = version
            self._stored = stored
        if (
            base
            and base["uris"] != mine["uris"]
            and self.holder not in ("", self.shared.processes.id)
        ):
            self.shared.processes.send(self.holder, session=self.key)

    def before_answer(self) -> None:
        """As `Session.before_answer`: what a request has changed is known to the next one, wherever
        that goes."""
        try:
            self.save()
        except Exception as error:
            log.error("what a session keeps was not written: %s", error)

    def before_question(self) -> None:
        """As `Session.before_question`: the answer may come to any process."""
        try:
            self.shared.processes.hold()
            self.save()
        except Exception as error:
            log.warning("an answer may not get here: %s", error)

    def post_ping(self, stream: EventStream, line: bytes) -> None:
        """As `Session.post_ping`. A thread of the pool writes to the store before it sends."""

        def send() -> None:
            self.before_question()
            stream.post(line)

        stream.spawn(send)

    def position(self) -> int:
        """As `Session.position`."""
        reached = None if self.peer is None else self.shared.subscriptions.reached(self.peer)
        return self.told if reached is None else reached

    # ------------------------------------------------------------ messages

    def post(self, line: Line) -> None:
        """As `Session.post`; what is told while there is no stream here is told by the log, when
        there is one."""
        if self.unsolicited is not None and not self.unsolicited.done:
            super().post(line)
        elif callable(line):
            line()

    def take(self, message: Union[Notification, Response, Failure]) -> None:
        """As `Session.take`; what is for no request of this process is told to the others."""
        if not self.dispatcher.receive(message):
            self.shared.pass_on(self, message)
        elif isinstance(message, Notification) and message.method != "notifications/cancelled":
            self.save()


class SharedSessions(SessionStore):
    """Keeps the sessions of an endpoint in a store that other processes share. Thread-safe.

    Args:
        processes: The processes that share them.
        subscriptions: The feature "subscriptions" of the server.
        endpoint: The endpoint that serves them in this process. A session that is not used for
            ``HttpOptions.session_ttl`` seconds expires.
    """

    is_shared = True

    def __init__(self, processes: Processes, subscriptions: Any, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.processes = processes
        self.subscriptions = subscriptions
        self._store = processes.store
        self._ttl = endpoint.options.session_ttl or KEPT_SECONDS
        # How many sessions this process keeps copies of; None means no limit.
        self.max_copies = endpoint.options.max_sessions
        self.events = SharedEvents(processes, self._ttl)
        processes.receivers.add(self)
        self._lock = threading.Lock()
        self._known: dict[str, SharedSession] = {}
        self.numbers = count(1)  # of questions: a copy that is made anew uses none twice

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
        """Keep a session in this process. If there are more than `max_copies`, drop those of the
        older half that are not in use."""
        self.endpoint.use_session(session)
        most = self.max_copies
        if most is None or len(self.endpoint.sessions) <= most:
            return
        for each in list(self.endpoint.sessions.values())[: (most + 1) // 2]:
            self.endpoint.end_here(each, "others are used more", UNUSED_SECONDS)

    def _check_room(self, session: SharedSession, headers: Headers) -> None:
        """Check that the store has room for one more session. No session is read for it.

        Raises:
            HttpError: All processes together have too many.
            ShareExceeded: The principal has too many of them.
            StoreUnavailable: The store is away.
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
        """As `SessionStore.make`. With an id, make a copy of a session that the store has."""
        # before a request of it is served, which another process may cancel
        self.processes.follow()
        session = SharedSession(
            self, self.endpoint.make_role, self.endpoint.end_after_responses, principal
        )
        session.id = id or session.id
        session.key = _key_of(session.id)
        return session

    def find(self, id: str, principal: Optional[str] = None) -> Optional[Session]:
        """As `SessionStore.find`. The store is read once.

        Raises:
            StoreUnavailable: The store is away.
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
                self._known[key] = session  # not before: `hear` may find it
        if session is None or entry is None or record is None:
            if session is not None:
                self.endpoint.end_here(session, "it has ended at another process")
            return None
        session.refresh(entry)
        self._keep_copy(session)
        if self._known.get(key) is not session:
            return self.find(id, principal)  # it was dropped at this moment
        return session

    def write(self, session: SharedSession, text: bytes, version: int) -> Optional[int]:
        """Write a record, if the one in the store has this version. Raises StoreUnavailable: it is
        away."""
        # Only a new session. A copy that was dropped, and whose stream ends now, stays dropped.
        if not version:
            self._known[session.key] = session
        ttl = self._ttl if session.initialized else min(self._ttl, BEGIN_SECONDS)
        return self._store.put(self._key(session.principal, session.key), text, ttl, version)

    def look(self, session: SharedSession) -> bool:
        """Take in what is in the store now; False when that is no session. Raises StoreUnavailable:
        it is away."""
        entry = self._store.get(self._key(session.principal, session.key))
        return entry is not None and session.refresh(entry)

    def end(self, session: Session) -> None:
        """Have a session end everywhere. Raises StoreUnavailable: the store is away."""
        self._store.delete(self._key(session.principal, session.key))
        self.processes.broadcast(session=session.key, ended=True)

    def forget(self, session: Session) -> None:
        """Drop the copy."""
        if self._known.get(session.key) is session:
            del self._known[session.key]

    def _key(self, principal: Optional[str], key: str) -> str:
        return self.processes.key("session", owner_of(principal), key)

    # ------------------------------------------------------------ messages for other processes

    def pass_on(
        self, session: SharedSession, message: Union[Notification, Response, Failure]
    ) -> None:
        """Tell the process that has asked of its answer, or all others of a cancellation.

        Raises:
            StoreUnavailable: The store is away.
        """
        if isinstance(message, Notification):
            brief = _brief(message)
            if brief is not None:
                self.processes.broadcast(session=session.key, message=encode(brief).decode())
            return
        found = _QUESTION_ID.fullmatch(str(message.id))
        if found is None or not session.is_asked_elsewhere(message.id):
            log.debug("<-- an answer to %.60s, which nobody waits for", message.id)
            return
        process = found[1]
        text = encode(message).decode()
        if self.processes.send(process, session=session.key, message=text):
            session.close_questions(found[0])
        else:
            log.debug("<-- an answer to %s, whose process has ended", message.id)
            session.close_questions(process + "-")

    def receive(self, told: Message) -> None:
        """See `Receiver.receive`."""
        session = self._known.get(str(told.get("session")))
        if session is None:
            return
        if told.get("ended"):
            self.endpoint.end_here(session, "the client has ended it")
        elif "message" in told:
            message = decode(str(told["message"]).encode())
            if isinstance(message, (Notification, Response, Failure)):
                session.dispatcher.receive(message)
        else:
            self.look(session)

    # ------------------------------------------------------------ streams

    def begin_stream(self, session: Session, writer: ResponseWriter) -> None:
        assert isinstance(session, SharedSession)
        self.take_stream(session, writer)

    def take_stream(
        self, session: SharedSession, writer: ResponseWriter, told: Optional[int] = None
    ) -> None:
        """The stream for what belongs to no request is here now, and nowhere else.

        Args:
            session: Whose.
            writer: Where it goes.
            told: Up to where the log was told on it; None where it begins.

        Raises:
            StoreUnavailable: The store is away.
        """
        peer = session.peer
        assert peer is not None
        newest = self.processes.newest()
        with session.saving:  # the connection before may leave at this moment
            self._pause(session)
            before = session.holder
            begin = session.told if told is None else told
            if told is None and before not in ("", self.processes.id):
                # The stream of the other process may still be connected, and each change is sent on
                # one stream only.
                begin = max(begin, self._told_on(session.stream_name))
            session.holder = self.processes.id
            session.connection = writer
            if session.unsolicited is not None:
                session.stream_name = session.unsolicited.name
            until, unsent = self.subscriptions.resume(peer, newest)
            session.told = until
            try:
                missed = self.processes.since(begin, until, unsent)
                session.save()
            except Exception:  # the next stream catches up instead
                self.subscriptions.pause(peer)
                session.told = begin
                raise
        if before not in ("", self.processes.id):
            self.processes.send(before, session=session.key)
        self.subscriptions.catch_up(peer, missed)

    def _told_on(self, name: str) -> int:
        """Return the mark of the newest event of a stream, or 0 if there is none. Raises what the
        store raises."""
        events = self.events.read(name)
        return events[-1].mark if events else 0

    def _pause(self, session: SharedSession) -> None:
        """Notify a session of no change here, and note up to where it was notified, unless another
        process has its stream (`saving` held)."""
        assert session.peer is not None
        reached = self.subscriptions.pause(session.peer)
        if reached is not None and session.holder == self.processes.id:
            session.told = reached

    def leave_stream(self, session: Session, writer: ResponseWriter) -> None:
        """As `SessionStore.leave_stream`. The next stream carries what changes from now on."""
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
        """Go on with a stream that is not served here.

        Returns:
            What goes on with that for what belongs to no request; None when that of a call was
            served to its end.

        Raises:
            HttpError: It is not known, or not any more.
            InternalError: Too many streams are open here.
            ConnectionLost: The client has gone again.
            StoreUnavailable: The store is away.
        """
        head = self.events.head(name)
        events = self.events.read(name)
        if head is None or self.events.after(name, number) is None:
            raise HttpError(
                400, "no event of this session has this id, or not any more (event_store)"
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
        self.take_stream(session, writer, events[-1].mark if events else head["told"])
        return stream

    def _follow(
        self, name: str, number: int, head: Record, writer: ResponseWriter, headers: Headers
    ) -> None:
        """Send the later events of a call that another process runs, until the call, the connection
        or the token ends."""
        gone = CancelToken()
        seen = 0
        ended = False
        pause = min(RENEW_SECONDS, (self.endpoint.options.keepalive or RENEW_SECONDS) / 2)
        writer.on_gone(gone.cancel)
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
                    reason = "the process that ran this has ended, and nobody knows how far it came"
                    if dropped and alive:
                        reason = (
                            "the answer is not kept any more: others of this session were longer"
                        )
                    for place, id in enumerate(head["ids"], number + 1):
                        line = encode(failure(id, InternalError(reason)))
                        writer.write(format_event(line, id=f"{name}/{place}"))
                    ended = True
                elif not ended and not self._store.wait([self.events.key(name)], seen, pause, gone):
                    writer.write(KEEP_ALIVE)
            except StoreUnavailable as error:
                log.warning("a stream waits for the store: %s", error)
                time.sleep(RETRY_SECONDS)
        writer.end()


def _key_of(id: str) -> str:
    """What a session is called in the store, and by its streams: who reads these cannot send
    requests in it."""
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
    "told": (int,),
    "stream_name": (str,),
    "asked": (list,),
}
_HEAD: Mapping[str, tuple[type, ...]] = {
    "process": (str,),
    "ids": (list, type(None)),
    "told": (int,),
}


def _is_session(record: Record) -> bool:
    """Return whether a record in the store is one of a session."""
    return (
        has_members(record, _MEMBERS)
        and BY_NAME[record["revision"]].handshake
        and is_number(record["told"])
        and all(isinstance(each, str) for each in (*record["uris"], *record["asked"]))
    )


def _is_head(head: Record) -> bool:
    """Return whether a record in the store is one of a stream."""
    return (
        has_members(head, _HEAD)
        and is_number(head["told"])
        and (head["ids"] is None or all(is_id(id) for id in head["ids"]))
    )


def _brief(cancelled: Notification) -> Optional[Notification]:
    """Return what other processes need of a cancellation, or None if it names no request."""
    id = cancelled.params.get("requestId")
    reason = cancelled.params.get("reason")
    if not is_id(id) or len(str(id)) > ID_LENGTH:
        return None
    params: dict[str, Any] = {"requestId": id}
    if isinstance(reason, str):
        params["reason"] = reason[:REASON_LENGTH]
    return Notification(cancelled.method, params)
