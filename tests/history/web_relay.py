"""What lies between client and server over HTTP, and what it does to requests and responses.

A connection to it carries one request after the other, each over a connection of its own to the server. What happens to
a request depends on the seed, on what it says and on how often that was said before.
"""

from __future__ import annotations

import json
import random
import select
import socket
import threading
from collections import Counter
from typing import Any, BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple

from minimcp.protocol.sse import EventReader

from ..support import WAIT
from .record import Record
from .relay import LONGEST_DELAY, LONGEST_HOLD, Meaning

CHANCES = (("delay", 0.2), ("drop", 0.04), ("duplicate", 0.06), ("cut", 0.04), ("half", 0.06), ("slow", 0.15))
"""What a call may suffer, and how often: it comes late; not at all, with its connection; twice; its connection is cut
when it was sent on, or in the middle of what comes back; or all that comes back is late."""

OTHERS = (("delay", 0.2), ("drop", 0.02), ("half", 0.02))  # the same for what is no call

OFTEN = 0.4  # how often a response is cut in the middle that shall be resumed, beside the usual

PIECE = 65536

NO_SESSION = b"HTTP/1.1 404"  # how a response begins that says so; no client reads on


class Request(NamedTuple):
    data: bytes
    verb: str
    meaning: Meaning
    key: Tuple[str, Any]  # session and id; an id alone is used by many


class Calls:
    """Tells which call messages belong to. Thread-safe.

    What a client posts has the tag of its call in it; what a server says has the id of the request.
    """

    def __init__(self) -> None:
        self._tags: Dict[Tuple[str, Any], str] = {}

    def read(self, head: bytes, body: bytes) -> Request:
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        message = json.loads(body) if body else {}
        session = headers.get("mcp-session-id", "")
        key, params = (session, message.get("id")), message.get("params") or {}
        meaning = Meaning("other")
        if message.get("method") == "tools/call":
            self._tags[key] = params["arguments"]["tag"]
            meaning = Meaning("request", self._tags[key])
        elif message.get("method") == "notifications/cancelled" and (session, params["requestId"]) in self._tags:
            meaning = Meaning("cancel", self._tags[session, params["requestId"]])
        return Request(head + body, first.split(" ")[0], meaning, key)

    def answer(self, request: Request, text: bytes) -> Meaning:
        """What a message of the server means that comes in the response to a request."""
        message, session = json.loads(text), request.key[0]
        method, params = message.get("method"), message.get("params") or {}
        if method == "notifications/progress":
            return Meaning("progress", self._tags.get((session, params["progressToken"]), ""), params["progress"])
        call = "" if method else self._tags.get((session, message.get("id")), "")
        if method or not call:
            return Meaning("question" if method == "elicitation/create" else "other")
        result = message.get("result")
        rounds = isinstance(result, dict) and result.get("resultType") == "input_required"
        return Meaning("round" if rounds else "answer", call)


class Response:
    """Reads what comes back: which messages are complete, and whether all of it is there."""

    def __init__(self) -> None:
        self.status, self.done = 0, False
        self._rest = b""
        self._left: Optional[int] = None
        """Bytes of the body, or of the chunk, that are still to come; None before either."""
        self._chunked = self._stream = False
        self._body = b""
        self._events = EventReader()

    def feed(self, data: bytes) -> List[bytes]:
        """The messages that are complete with these bytes."""
        self._rest += data
        if not self.status:
            if b"\r\n\r\n" not in self._rest:
                return []
            head, _, self._rest = self._rest.partition(b"\r\n\r\n")
            self._begin(head.decode("latin-1").lower().split("\r\n"))
        found: List[bytes] = []
        while not self.done and self._step(found):
            pass
        return found

    def _begin(self, lines: List[str]) -> None:
        headers = dict(line.split(": ", 1) for line in lines[1:])
        self.status = int(lines[0].split(" ")[1])
        self._chunked = headers.get("transfer-encoding") == "chunked"
        self._stream = headers.get("content-type", "").startswith("text/event-stream")
        if not self._chunked:
            self._left = int(headers.get("content-length", "0"))

    def _step(self, found: List[bytes]) -> bool:
        """Take what can be taken; whether that was anything."""
        if self._left is None:
            line, end, rest = self._rest.partition(b"\r\n")
            if end:
                self._left, self._rest = int(line, 16) + 2, rest
            return bool(end)
        if self._chunked and len(self._rest) < self._left:
            return False
        piece, self._rest = self._rest[: self._left], self._rest[self._left :]
        self._left -= len(piece)
        self._take(piece[:-2] if self._chunked else piece, found)
        if self._chunked:
            self.done, self._left = len(piece) == 2, None
        else:
            self.done = self._left == 0
        if self.done and not self._stream and self.status == 200 and self._body:
            found.append(self._body)
        return bool(piece)

    def _take(self, data: bytes, found: List[bytes]) -> None:
        if self._stream:
            events = list(self._events.feed(data))
            found += [event.data.encode() for event in events if event.data and event.event == "message"]
        else:
            self._body += data


class WebRelay:
    """Where a client connects instead of its server. Thread-safe."""

    def __init__(
        self,
        start: Callable[[], Tuple[int, Callable[[], None]]],
        record: Record,
        seed: int,
        restarts: float,
        halves: bool = False,
    ) -> None:
        self.record, self.calls = record, Calls()
        self.raging, self.over = threading.Event(), threading.Event()
        self._start, self._seed = start, seed
        calls = (("restart", restarts), *CHANCES)
        self._chances = {"request": calls, "other": (("restart", restarts), *OTHERS)}
        if halves:
            self._chances["request"] = (*calls, ("half", OFTEN))
        self._seen: "Counter[Meaning]" = Counter()
        self._lock, self._restarting = threading.Lock(), threading.Lock()
        self._socks: List[socket.socket] = []
        self._threads: List[threading.Thread] = []
        self.port, self._end = start()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self.begin(self._accept)

    def begin(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do it on a thread that `close` waits for."""
        thread = threading.Thread(target=work, args=arguments, name="web-relay", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def keep(self, sock: socket.socket) -> socket.socket:
        with self._lock:
            self._socks.append(sock)
        return sock

    def drop(self, sock: socket.socket) -> None:
        with self._lock:
            self._socks.remove(sock)
        _shut(sock)
        sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock = self._listener.accept()[0]
            except OSError:
                return
            self.begin(_Carrier(self, self.keep(sock)).run)

    def fate(self, meaning: Meaning) -> Tuple[str, random.Random]:
        """What happens to a request, and the dice for how."""
        with self._lock:
            self._seen[meaning] += 1
            dice = random.Random(f"{self._seed} {meaning} {self._seen[meaning]}")
        number = dice.random()
        if self.raging.is_set():
            for name, chance in self._chances.get(meaning.what, self._chances["other"]):
                number -= chance
                if number < 0:
                    return name, dice
        return "", dice

    def restart(self) -> None:
        """Put another server in the place of this one."""
        with self._restarting:
            if self.over.is_set():
                return
            end = self._end
            self.port, self._end = self._start()
            end()

    def close(self) -> None:
        """End all connections and the server, and wait for the threads."""
        self.over.set()
        _shut(self._listener)
        with self._lock:
            socks = list(self._socks)
        for sock in socks:
            _shut(sock)
        with self._restarting:
            self._end()
        for thread in list(self._threads):
            thread.join(WAIT)
        self._listener.close()


class _Carrier:
    """One connection of the client."""

    def __init__(self, relay: WebRelay, sock: socket.socket) -> None:
        self._relay, self._client = relay, sock

    def run(self) -> None:
        """Carry requests and responses until one end has had enough."""
        try:
            with self._client.makefile("rb") as file:
                request = self._read(file)
                while request is not None and self._carry(request):
                    request = self._read(file)
        except OSError:
            pass  # one of them has gone, and the other will see it
        finally:
            self._relay.drop(self._client)

    def _read(self, file: BinaryIO) -> Optional[Request]:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            if not line:
                return None
            head += line
        length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        size = int(length[0].split(b":")[1]) if length else 0
        body = file.read(size)
        return self._relay.calls.read(head, body) if len(body) == size else None

    def _note(self, kind: str, meaning: Meaning) -> None:
        self._relay.record.note(kind, meaning.call, meaning.what, value=meaning.value)

    def _carry(self, request: Request) -> bool:
        """One request and its response; whether another may follow."""
        relay = self._relay
        self._note("sent", request.meaning)
        if b"\r\nlast-event-id: " in request.data.lower():
            relay.record.note("fault", "", "resume")
        fault, dice = relay.fate(request.meaning)
        if fault:
            relay.record.note("fault", "" if fault == "restart" else request.meaning.call, fault)
        if fault == "drop":
            return False
        if fault == "delay":
            relay.over.wait(dice.uniform(0, LONGEST_HOLD))
        if fault == "duplicate":
            relay.begin(self._duplicate, request, dice.uniform(0, LONGEST_HOLD))
        server = self._send(request)
        try:
            if fault == "restart":
                relay.restart()
            if fault == "cut":
                return False
            slow = dice.uniform(0, LONGEST_DELAY) if fault == "slow" else 0.0
            return self._bring(request, server, slow, dice.randint(1, 3) if fault == "half" else 0)
        finally:
            relay.drop(server)

    def _send(self, request: Request) -> socket.socket:
        server = self._relay.keep(socket.create_connection(("127.0.0.1", self._relay.port), WAIT))
        try:
            server.settimeout(None)
            self._note("reached", request.meaning)
            server.sendall(request.data)
        except BaseException:
            self._relay.drop(server)
            raise
        return server

    def _duplicate(self, request: Request, seconds: float) -> None:
        """Send it again, and hear what is said, which nobody is told."""
        self._relay.over.wait(seconds)
        try:
            server = self._send(request)
        except OSError:
            return
        try:
            response = Response()
            while not response.done:
                data = server.recv(PIECE)
                if not data:
                    return
                response.feed(data)
        except OSError:
            pass
        finally:
            self._relay.drop(server)

    def _bring(self, request: Request, server: socket.socket, slow: float, half: int) -> bool:
        """Hand the response over, piece by piece, late or up to the middle of one of them."""
        response, pieces = Response(), 0
        while not response.done:
            readable = select.select([server, self._client], [], [])[0]
            if self._client in readable:
                return False  # it has closed: it sends nothing before the response is over
            data = server.recv(PIECE)
            if not data:
                return False
            if slow:
                self._relay.over.wait(slow)
            pieces += 1
            if pieces == half:
                data = data[: len(data) // 2]
            for message in response.feed(data):
                meaning = self._relay.calls.answer(request, message)
                self._note("delivered", meaning)
            if pieces == 1 and data.startswith(NO_SESSION) and request.meaning.call:
                self._relay.record.note("delivered", request.meaning.call, "gone")
            self._client.sendall(data)
            if pieces == half:
                return False
        return True


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
