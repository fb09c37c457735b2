"""What both HTTP transports of a client share: each message is a POST of its own, on a thread of its own.

A thread that has sent a request reads its response too, and hands over what comes in it: so nothing that one answer
does can delay another, and the caller waits at its mailbox with its own deadline. Who gives a call up ends its request.
"""

from __future__ import annotations

import json
import logging
import threading
from functools import partial
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union
from urllib.parse import urlsplit

from ..engine.connection import Connection
from ..engine.pool import Pool
from ..engine.requests import PendingCall
from ..engine.timer import Deadline
from ..engine.transport import Frame, SessionGone, Transport
from ..errors import AuthorizationError, ConnectionLost, McpError, ProtocolViolation, RequestTimeout, one_line
from ..protocol.lifecycle import LISTEN
from ..errors import Busy, describe
from ..protocol.messages import Failure, Id, decode
from .fetch import Answer, Auth, Fetcher, shown
from .headers import JSON_TYPE, media_type
from .sending import Sending

log = logging.getLogger("minimcp.client")

AT_ONCE = 256
"""Requests that are under way at the same time; more wait their turn. Streams of change notices do not count."""

FAREWELL_SECONDS = 2.0
"""What telling the server about the end may take."""

ERROR_BYTES = 64 * 1024
"""How much of the body of an error is read."""

SHOWN_BYTES = 200
"""How much of an unexpected body is shown."""

Message = Mapping[str, Any]


_ANSWERING = ("response", "unknown")


class Addressed(NamedTuple):
    """A line that came in answer to one request of ours: an answer in it is to that one, or to none."""

    line: bytes
    id: Id


class Ended(NamedTuple):
    """How a request of ours ended, where no line says so."""

    id: Id
    ending: Any


def closed_gate() -> threading.Lock:
    """What a waiting thread is held by until somebody releases it."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class HttpServer:
    """A server that is named by a URL; a target of `connect`.

    Args:
        url: With http or https.
        headers: Sent with every request; None adds none.
        auth: None, a bearer token, a callable that returns one (asked for each request), or an AuthBase of `requests`.
        verify: Whether the server's certificate is checked; a path names a bundle of CAs to check it by.
        cert: A client certificate: the path of a file with key and certificate, or a pair of paths; None shows none.
        proxies: By scheme, as `requests` takes them; None leaves it to the environment.

    Raises:
        TypeError: The URL is no str.
        ValueError: It is none with http or https and a host.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        auth: Auth = None,
        verify: Union[bool, str] = True,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> None:
        if not isinstance(url, str):
            raise TypeError(f"a URL is a str, not {type(url).__name__}")
        if not _has_host(url):
            raise ValueError(f"a URL begins with http:// or https:// and names a host, and not so {url[:100]!r}")
        self.url = url.partition("#")[0]
        self._options: dict[str, Any] = {
            "headers": dict(headers or {}), "auth": auth, "verify": verify, "cert": cert, "proxies": proxies,
        }

    def fetcher(self) -> Fetcher:
        """What sends requests to it. Errors as `Fetcher`."""
        return Fetcher(self.url, **self._options)

    def __repr__(self) -> str:
        return f"HttpServer({shown(self.url)!r})"


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


class PostingPipe(Transport):
    """A pipe that posts each message, and gets answers on many threads.

    Args:
        server: Where to.
        max_message_bytes: The longest message that comes in; None means no limit.

    Raises:
        ImportError, ValueError: As `Fetcher`.
    """

    def __init__(self, server: HttpServer, max_message_bytes: Optional[int]) -> None:
        self._fetcher, self._url = server.fetcher(), server.url
        self.name = self._fetcher.shown
        self._limit = max_message_bytes
        self._workers = Pool(AT_ONCE, name=f"minimcp-{self.name}")
        self._calls: dict[Id, Sending] = {}
        self._posts: dict[Sending, threading.Lock] = {}
        """Notifications and answers under way; the lock opens when one is through."""
        self._streams: set[Sending] = set()
        self._closing, self._said = threading.Event(), threading.Event()
        self._farewell = Sending()
        self._reads = False
        self.loss: Optional[ConnectionLost] = None

    in_order = False
    """Each stream comes by a connection of its own."""

    # ------------------------------------------------------------ as a pipe

    def attach(self, connection: Connection) -> None:
        """Hand what comes to this connection, on whichever thread has read it; called before it is opened."""
        self._connection, self._taking = connection, threading.RLock()
        end = connection.calls.end

        def end_and_drop(call: PendingCall, ending: Exception, *, tell: bool = True) -> bool:
            ended = end(call, ending, tell=tell)
            if ended:
                self.drop(call.id)
            return ended

        connection.calls.end = end_and_drop  # type: ignore[method-assign]

    def _waits(self, id: Id) -> bool:
        return self._connection.calls.find(id) is not None

    def _take(self, frames: Sequence[Union[bytes, Addressed, Ended]]) -> None:
        with self._taking:
            for frame in frames:
                if isinstance(frame, Ended):
                    self._connection.calls.settle(frame.id, frame.ending)
                elif isinstance(frame, Addressed):
                    self._take_answer(frame)
                else:
                    self._connection.take(frame)

    def _take_answer(self, frame: Addressed) -> None:
        """Take in what came in answer to one request: an answer to another one is none."""
        connection, id = self._connection, frame.id
        if connection.trace is not None:
            connection.trace("<--", frame.line)
        decoded = decode(frame.line, max_depth=connection.limits.depth)
        if isinstance(decoded, (Response, Failure)) or (isinstance(decoded, InvalidMessage) and decoded.kind in _ANSWERING):
            if isinstance(decoded, Failure) and decoded.id is None:
                decoded = Failure(id, decoded.code, decoded.message, decoded.data)
            elif isinstance(decoded, InvalidMessage) and decoded.id is None:
                decoded = decoded._replace(id=id) if decoded.kind == "response" else decoded
            elif not (type(decoded.id) is type(id) and decoded.id == id):
                log.debug("<-- an answer to %s where one to %s was due", one_line(decoded.id), id)
                return
        connection.take_decoded(decoded, frame.line)

    def receive(self) -> list[Frame]:
        """Wait for the end, and tell the server of it; nothing is received here."""
        self._reads = True
        self._closing.wait()
        if not self._said.is_set():
            try:
                self.say_farewell(self._farewell)
            except Exception as error:
                log.debug("%s: %s", self.name, error)
        self._said.set()
        return []

    def say_farewell(self, sending: Sending) -> None:
        """Tell the server that this is the end, where there is something to tell (the reader's thread)."""

    def send(self, data: bytes, seconds: float) -> int:
        """As `Transport.send`; whole lines only, which are taken at once."""
        if self._closing.is_set() and not isinstance(self.loss, SessionGone):
            raise self.lost("nothing can be sent: it is closed")
        self._begin_all([(json.loads(line), line, Sending()) for line in bytes(data).splitlines()])
        return len(data)

    def drop(self, id: Id) -> None:
        """As `Transport.drop`."""
        sending = self._calls.get(id)
        if sending is not None:
            sending.end()

    def close(self) -> None:
        """As `Transport.close`."""
        self._closing.set()
        for sending in [*self._calls.values(), *self._streams]:
            sending.end()
        if self._reads:
            self._said.wait(FAREWELL_SECONDS)
        for sending in [self._farewell, *self._posts]:
            sending.end()
        self._workers.close()
        self._fetcher.close()

    def close_in_fork(self) -> None:
        """As `Transport.close_in_fork`."""
        self._fetcher.close_descriptors()

    def lost(self, reason: str) -> ConnectionLost:
        """As `Transport.lost`."""
        return self.loss or super().lost(reason)

    def refusal(self) -> SessionGone:
        """How a request ends that the server did not run, because it knows the session no more."""
        refused = SessionGone(f"{self.name}: the server has ended the session")
        refused.refused = True
        return refused

    def ready(self, deadline: Deadline) -> None:
        """Wait until what was sent so far has arrived, and until all is open that answers come by.

        Raises:
            RequestTimeout: The deadline came first.
        """
        for gate in list(self._posts.values()):
            if not gate.acquire(timeout=deadline.wait()):
                raise RequestTimeout(f"{self.name}: a message was not taken within {deadline.seconds:g} s")
            gate.release()

    # ------------------------------------------------------------ sending

    def _begin_all(self, messages: Sequence[tuple[Any, bytes, Sending]]) -> None:
        """Have each message posted by a thread of its own."""
        asking = {message["id"]: sending for message, _, sending in messages if _asks(message)}
        self._calls.update(asking)  # all before the first one, whose end may be the end of the session
        try:
            for message, line, sending in messages:
                self._begin(message, line, sending)
                asking.pop(message["id"] if _asks(message) else None, None)
        finally:
            for id in asking:  # something of a signal handler's came between
                self._calls.pop(id, None)

    def _begin(self, message: Any, line: bytes, sending: Sending) -> None:
        if self._closing.is_set():  # the session is gone: what was not sent may be sent in the next one
            if _asks(message):
                del self._calls[message["id"]]
                self._take([Ended(message["id"], self.refusal())])
        elif _asks(message):
            id = message["id"]
            work = partial(self._ask, id, message, line, sending)
            try:
                (self._workers.spawn if message["method"] == LISTEN else self._workers.submit)(work)
            except RuntimeError as error:
                del self._calls[id]
                self._take([Ended(id, ConnectionLost(f"{self.name}: {error}"))])
        elif self.posts(message):
            self._posts[sending] = closed_gate()
            try:
                self._workers.spawn(partial(self._tell, message, line, sending))
            except RuntimeError as error:
                self._posts.pop(sending).release()
                log.warning("%s: a message was not sent: %s", self.name, error)

    def posts(self, message: Any) -> bool:
        """Whether a notification or an answer is sent at all."""
        return True

    def post(self, message: Any, line: bytes, sending: Sending) -> Answer:
        """Post a message. Errors as `Fetcher.send`."""
        raise NotImplementedError

    def answered(self, id: Id, message: Message, answer: Answer, sending: Sending) -> None:
        """Read the response to a request, and hand over what is in it.

        Raises:
            McpError: The call ends with it, if it has not ended.
        """
        raise NotImplementedError

    def _ask(self, id: Id, message: Message, line: bytes, sending: Sending) -> None:
        """Post a request, and see to it that it ends."""
        try:
            ending = self._failure(id, message, line, sending)
            if ending is not None:
                self._take([Ended(id, ending)])
        finally:
            self._calls.pop(id, None)

    def _failure(self, id: Id, message: Message, line: bytes, sending: Sending) -> Optional[Exception]:
        """Post a request and read what answers it; what goes wrong (not kept in this frame, which it leads to)."""
        try:
            answer = self.post(message, line, sending)
            try:
                self.answered(id, message, answer, sending)
            finally:
                answer.close()
        except (McpError, ValueError) as error:
            return error
        except Exception as error:  # a fault of ours must end in a loss, not in silence
            log.error("%s: %s", self.name, error, exc_info=error)
            return ConnectionLost(f"{self.name}: {describe(error)}")
        return None

    def _tell(self, message: Any, line: bytes, sending: Sending) -> None:
        """Post what has no answer."""
        try:
            answer = self.post(message, line, sending)
            try:
                if answer.status >= 300:
                    log.warning("%s: a message was not taken: %s", self.name, _text(self.ending(answer)))
                else:
                    answer.start(ERROR_BYTES)  # there should be nothing; read to its end, the connection is kept
            finally:
                answer.close()
        except Exception as error:
            tell = log.debug if sending.ended or self._closing.is_set() else log.warning
            tell("%s: a message did not arrive: %s", self.name, error)
        finally:
            self._posts.pop(sending).release()

    # ------------------------------------------------------------ what is wrong with a response

    def ending(self, answer: Answer) -> Union[Failure, Exception]:
        """What a response that is no success means: an error of the protocol, if one is in it."""
        body, status = answer.start(ERROR_BYTES), answer.status
        told = f"{self.name}: HTTP {status}{_shown(body)}"
        if status in (401, 403):
            challenge = answer.headers.get("WWW-Authenticate", "")
            return AuthorizationError(f"{told}{' (' + one_line(challenge) + ')' if challenge else ''}")
        if media_type(answer.headers.get("Content-Type"))[0] == JSON_TYPE:
            decoded = decode(body.strip())
            if isinstance(decoded, Failure):
                return decoded
            if answer.cut is not None:
                return answer.cut
        if 300 <= status < 400:
            where = one_line(answer.headers.get("Location", "nowhere"))
            return ProtocolViolation(f"{told}: it redirects to {where}, and redirects are not followed: name that URL")
        if status in (408, 429) or status >= 500:
            wait = answer.headers.get("Retry-After", "")
            lost = f"{told}{' (Retry-After: ' + one_line(wait, 40) + ')' if wait else ''}"
            if status == 429 and wait.isascii() and wait.isdigit() and len(wait) < 10:
                return Busy(lost, int(wait))
            return ConnectionLost(lost)
        return ProtocolViolation(told)


def _asks(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


def _text(ending: Union[Failure, Exception]) -> str:
    return f"{ending.message} ({ending.code})" if isinstance(ending, Failure) else str(ending)


def _shown(body: bytes) -> str:
    text = body[:SHOWN_BYTES].decode("utf-8", "replace").strip()
    return f": {one_line(text, SHOWN_BYTES)}" if text else ", and nothing more"
