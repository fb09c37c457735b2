"""Streamable HTTP, the client's end, in both eras.

With a handshake there may be a session, a stream of its own for what the server says unasked, and streams that are
resumed when they are cut. Where requests stand alone there is none of that: a stream that is cut is lost, and closing a
response takes the request back.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
import random
import threading
from functools import partial
from typing import Any, Optional, Union

from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import (
    HEADER_MISMATCH,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    ConnectionFailed,
    ConnectionLost,
    ProtocolViolation,
    one_line,
)
from ..protocol.messages import Failure, Id
from ..protocol.sse import MEDIA_TYPE, Event, EventReader
from ..protocol.versions import Revision
from .fetch import Answer
from .headers import JSON_TYPE, LAST_EVENT_HEADER, METHOD_HEADER, SESSION_HEADER, VERSION_HEADER, media_type
from .mirror import Mirror
from .posting import ERROR_BYTES, Addressed, Ended, HttpServer, Message, PostingPipe, closed_gate
from .sending import Sending

log = logging.getLogger("minimcp.client")

POST_HEADERS = {"Accept": f"{JSON_TYPE}, {MEDIA_TYPE}", "Content-Type": JSON_TYPE}

GET_PATIENCE = 2.0
"""Seconds that a server gets to open the stream for what it says unasked; many have none, in many ways."""

FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY = 1.0, 30.0, 60.0
"""Seconds before a stream is asked for again, where the server does not say; at most, and at most if it says."""

RESUME_TRIES = 3
"""How often in a row resuming the stream of a call may fail."""

EMPTY_STREAMS = 3
"""How many streams in a row may end at once without anything new, before they are asked for less and less often."""

LINGER_SECONDS = 0.5
"""How long a stream may stay open after its answer, before its connection is closed and not kept."""

SESSION_SECONDS, QUIET_SECONDS = 0.5, 0.05
"""What all other requests get to be refused too, when the server knows the session no more: so they may be repeated.
The second is for those that are not even sent yet."""

LONGEST_SESSION_ID = 4096

NEWER = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND})
"""Codes with which a server refuses `initialize` that knows only what stands alone."""


class HttpPipe(PostingPipe):
    """A connection over Streamable HTTP; arguments and errors as `PostingPipe`.

    ``mirror`` is to know of the tools that are listed. ``refused`` is the status with which the server refused
    `initialize`, if it did and what it said was no error of a server that has no handshake.
    """

    def __init__(self, server: HttpServer, max_message_bytes: Optional[int]) -> None:
        super().__init__(server, max_message_bytes)
        self.mirror = Mirror(self.name)
        self.refused: Optional[int] = None
        self._revision: Optional[Revision] = None
        self._session: Optional[str] = None

    def agreed(self, revision: Revision) -> None:
        """As `Pipe.agreed`."""
        self._revision = revision

    @property
    def _resumes(self) -> bool:
        """Whether streams may be resumed; where requests stand alone nothing is."""
        return self._revision is None or self._revision.handshake

    def ready(self, deadline: Deadline) -> None:
        """As `Pipe.ready`: with a handshake, the stream for what the server says unasked is open, or will never be."""
        super().ready(deadline)
        if self._resumes:
            sending, opened = Sending(), closed_gate()
            self._streams.add(sending)
            self._workers.spawn(partial(self._listen, sending, opened))
            opened.acquire(timeout=deadline.within(GET_PATIENCE).wait())

    def posts(self, message: Any) -> bool:
        """As `PostingPipe.posts`: closing the response cancels, where the revision has it so."""
        return self._resumes or not (isinstance(message, dict) and message.get("method") == "notifications/cancelled")

    # ------------------------------------------------------------ requests

    def post(self, message: Any, line: bytes, sending: Sending) -> Answer:
        """As `PostingPipe.post`."""
        headers = dict(POST_HEADERS)
        method = message.get("method") if isinstance(message, dict) else None
        if method is not None:
            headers.update(self.mirror.headers(message))
        if VERSION_HEADER not in headers and method != "initialize":
            headers.update(self._session_headers())
            if not self._resumes and method is not None:
                headers[METHOD_HEADER] = method
        return self._fetcher.send(sending, "POST", headers, line)

    def _session_headers(self) -> dict[str, str]:
        headers = {} if self._revision is None else {VERSION_HEADER: self._revision.name}
        if self._session is not None:
            headers[SESSION_HEADER] = self._session
        return headers

    def _get(self, sending: Sending, last_id: str) -> Answer:
        headers = {"Accept": MEDIA_TYPE, **self._session_headers()}
        if last_id:
            headers[LAST_EVENT_HEADER] = last_id
        return self._fetcher.send(sending, "GET", headers)

    def answered(self, id: Id, message: Message, answer: Answer, sending: Sending) -> None:
        """As `PostingPipe.answered`."""
        opens = message["method"] == "initialize"
        if answer.status == 404 and self._session is not None and not opens:
            self._session_is_gone(id)
            return
        if answer.status >= 300:
            ending = self.ending(answer)
            if opens and not (isinstance(ending, Failure) and ending.code in NEWER):
                self.refused = answer.status
            self._take([Ended(id, ending)])
            return
        if opens:
            self._session = _checked_session(answer.headers.get(SESSION_HEADER))
        kind = media_type(answer.headers.get("Content-Type"))[0]
        if kind == MEDIA_TYPE:
            self._follow(id, answer, sending)
            return
        body = answer.body(self._limit) if kind == JSON_TYPE else answer.start(ERROR_BYTES)
        if kind == JSON_TYPE:
            self._take([Addressed(body, id)])
        if self._waits(id):
            if answer.status == 200 and not body and not answer.framed:
                raise ConnectionLost(f"{self.name}: the connection broke in the middle of the response")
            what = f"HTTP {answer.status} with {one_line(kind) or 'no content type'}: {one_line(body)}"
            raise ProtocolViolation(f"{self.name}: {message['method']} was answered by what is no answer: {what}")

    def _session_is_gone(self, id: Id) -> None:
        """The server knows the session no more: so it did not run this request, and what it may have run is lost."""
        self.loss = self.loss or SessionGone(f"{self.name}: the server has ended the session")
        try:
            self._take([Ended(id, self.refusal())])  # first: the end of all would end this one as lost
            self._calls.pop(id, None)
            self._closing.wait(SESSION_SECONDS if self._calls else QUIET_SECONDS)
        finally:
            self._closing.set()

    # ------------------------------------------------------------ streams

    def _follow(self, id: Id, answer: Answer, sending: Sending) -> None:
        """Read the stream that answers a request, and what takes its place when it is cut, until the answer is there.

        Raises:
            ConnectionLost: It has ended and cannot be resumed.
            ProtocolViolation: An event is too long.
        """
        resumption = _Resumption()
        while True:
            reader, brief = EventReader(self._limit), Deadline(FIRST_PAUSE)
            try:
                cut = self._read(answer, reader, id)
            finally:
                answer.close()
            if not self._waits(id):
                return
            resumption.after(reader, brief)
            if sending.ended or not resumption.last or not self._resumes:
                raise ConnectionLost(f"{self.name}: the event stream ended before the answer{cut}")
            answer = self._resume(resumption, sending)

    def _read(self, answer: Answer, reader: EventReader, id: Optional[Id]) -> str:
        """Take in what a stream brings, until it ends or has brought the answer to a request; how it ended, in words.

        Args:
            answer: Whose body it is.
            reader: Cuts it into events.
            id: Of the request; None for a stream that answers none.
        """
        try:
            while True:
                data = answer.read()
                if not data:
                    return ""
                frames = [_frame(event.data, id) for event in reader.feed(data) if is_message(event)]
                if frames:
                    self._take(frames)
                    if id is not None and not self._waits(id):
                        answer.linger(LINGER_SECONDS)
                        return ""
        except ConnectionLost as error:
            return f": {error}"

    def _resume(self, resumption: _Resumption, sending: Sending) -> Answer:
        """Ask for the rest of a stream."""
        failures = 0
        while sending.pause(resumption.pause(failures)):
            try:
                answer = self._get(sending, resumption.last)
            except (ConnectionFailed, ConnectionLost):
                failures += 1
                if failures == RESUME_TRIES:
                    raise
                continue
            if _is_stream(answer):
                return answer
            with_status = f"{self.name}: the event stream was cut and cannot be resumed: HTTP {answer.status}"
            answer.close()
            raise ConnectionLost(with_status)
        raise ConnectionLost(f"{self.name}: given up")

    def _listen(self, sending: Sending, opened: threading.Lock) -> None:
        """Keep the stream open that the server says things unasked on; one that it has not is no error."""
        resumption, failures = _Resumption(), 0
        try:
            while failures == 0 or sending.pause(resumption.pause(failures - 1)):
                failures += 1
                try:
                    answer = self._get(sending, resumption.last)
                except (ConnectionFailed, ConnectionLost) as error:
                    log.debug("%s: %s", self.name, error)
                    _open(opened)
                    continue
                try:
                    if not _is_stream(answer):
                        log.debug("%s: no stream for notices: HTTP %d", self.name, answer.status)
                        return
                    _open(opened)
                    reader, brief, failures = EventReader(self._limit), Deadline(FIRST_PAUSE), 1
                    self._read(answer, reader, None)
                finally:
                    answer.close()
                resumption.after(reader, brief)
        except Exception as error:
            log.warning("%s: the stream for notices has ended: %s", self.name, error)
        finally:
            _open(opened)
            self._streams.discard(sending)

    def say_farewell(self, sending: Sending) -> None:
        """As `PostingPipe.say_farewell`: end the session."""
        if self._session is not None and self.loss is None:
            answer = self._fetcher.send(sending, "DELETE", self._session_headers())
            answer.start(ERROR_BYTES)
            answer.close()


class _Resumption:
    """What a stream is asked for with after it was cut, and how soon.

    ``last`` is the id that was seen last; empty when there was none.
    """

    def __init__(self) -> None:
        self.last = ""
        self._retry: Optional[int] = None
        self._empty = 0

    def after(self, reader: EventReader, brief: Deadline) -> None:
        """A stream has ended.

        Args:
            reader: Which has read it.
            brief: Until when its end was a quick one.
        """
        is_empty = not brief.expired and reader.last_id in ("", self.last)
        self._empty = self._empty + 1 if is_empty else 0
        self.last = reader.last_id or self.last
        if reader.retry is not None:
            self._retry = reader.retry

    def pause(self, failures: int) -> float:
        """Seconds before the next attempt, after so many failures: never less than the server asks for."""
        asked = FIRST_PAUSE if self._retry is None else min(self._retry / 1000, LONGEST_RETRY)
        failures += max(0, self._empty - EMPTY_STREAMS)
        longer = min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE) * random.uniform(0.5, 1)
        return max(asked, longer) if failures else asked


def is_message(event: Event) -> bool:
    """Whether a message is in it; one without data only says an id."""
    return event.event == "message" and bool(event.data)


def _frame(data: str, id: Optional[Id]) -> Union[bytes, Addressed]:
    line = data.encode()
    return line if id is None else Addressed(line, id)


def _is_stream(answer: Answer) -> bool:
    return answer.status == 200 and media_type(answer.headers.get("Content-Type"))[0] == MEDIA_TYPE


def _open(gate: threading.Lock) -> None:
    if gate.locked():
        gate.release()


def _checked_session(id: Optional[str]) -> Optional[str]:
    if id is None:
        return None
    if not id or len(id) > LONGEST_SESSION_ID or not all("\x21" <= char <= "\x7e" for char in id):
        raise ProtocolViolation("a session id has visible ASCII characters only, and not very many", id[:100])
    return id
