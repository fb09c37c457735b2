"""The relay between client and server over HTTP, and the faults that it adds to requests and
responses.

A connection to it carries one request after the other, each over a connection of its own to the
server. The fault of a request depends on the seed, on its contents and on how often the same
contents were sent before.
"""

from __future__ import annotations

import json
import random
import select
import socket
import threading
from collections import Counter
from itertools import count
from typing import BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple

from minimcp.http.sse import EventReader

from ..proxying import Proxy
from ..web import read_request
from .record import Record
from .relay import LONGEST_DELAY, LONGEST_HOLD, TO_CLIENT, TO_SERVER, Meaning, Reader, chosen

CHANCES = (
    ("delay", 0.2),
    ("drop", 0.04),
    ("duplicate", 0.06),
    ("cut", 0.04),
    ("half", 0.06),
    ("slow", 0.15),
)
"""The faults of a call, with their probabilities: it is late; it is dropped with its connection; it
is sent twice; its connection is cut after sending, or in the middle of the response; or the whole
response is late."""

# the same for messages that are not calls
OTHERS = (
    ("delay", 0.2),
    ("drop", 0.02),
    ("half", 0.02),
)
OFTEN = (
    0.4  # probability of a cut in the middle of a resumable response, in addition to the usual one
)
PIECE = 65536
NO_SESSION = b"HTTP/1.1 404"  # the beginning of a response that says so; no client reads further


class Request(NamedTuple):
    data: bytes
    meaning: Meaning
    session: str


class Response:
    """Reads a response: which messages are complete, and whether the response is."""

    def __init__(self) -> None:
        self.status, self.done = 0, False
        self._rest = b""
        self._left: Optional[int] = None
        """Remaining bytes of the body or of the chunk; None before either."""
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
        """Consume the next part of the body if it is complete, and return whether it was."""
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
            found += [
                event.data.encode() for event in events if event.data and event.event == "message"
            ]
        else:
            self._body += data


class WebRelay(Proxy):
    """Where a client connects instead of its server. Thread-safe.

    Args:
        start: Starts a server: its port, and what ends it.
        record, seed: Takes what happens; decides what happens.
        breaks: How often a request brings the end of a server: by "restart" another one begins
            before, by "kill" after.
        halves: Whether responses are often cut in the middle.
        servers: How many there are; each request goes to the next one.
    """

    def __init__(
        self,
        start: Callable[[], Tuple[int, Callable[[], None]]],
        record: Record,
        seed: int,
        breaks: Dict[str, float],
        halves: bool = False,
        servers: int = 1,
    ) -> None:
        super().__init__()
        self.record, self._reader = record, Reader()
        self.raging = threading.Event()
        self._start_server, self._seed = start, seed
        calls = (*breaks.items(), *CHANCES, *((("half", OFTEN),) if halves else ()))
        self._chances = {"request": calls, "other": (*breaks.items(), *OTHERS)}
        self._seen: "Counter[Meaning]" = Counter()
        self._restarting = threading.Lock()
        self._servers, self._turns = [start() for _ in range(servers)], count()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def fate(self, meaning: Meaning) -> Tuple[str, random.Random]:
        """Return the fault of a request, and the dice for it."""
        with self._lock:
            self._seen[meaning] += 1
            dice = random.Random(f"{self._seed} {meaning} {self._seen[meaning]}")
        chances = self._chances.get(meaning.what, self._chances["other"])
        return chosen(dice, chances if self.raging.is_set() else ()), dice

    def restart(self) -> None:
        """Replace this server with another one."""
        with self._restarting:
            if self.over.is_set():
                return
            (_, end), self._servers = self._servers[0], [self._start_server()]
            end()

    def kill(self, dice: random.Random) -> None:
        """Kill one of several servers, and start another one next to the rest."""
        with self._lock:
            if self.over.is_set() or len(self._servers) == 1:
                return
            _, end = self._servers.pop(dice.randrange(len(self._servers)))
        end()
        self.begin(self._begin_server)

    def _begin_server(self) -> None:
        with self._restarting:
            if not self.over.is_set():
                self._servers.append(self._start_server())

    def close(self) -> None:
        """End all connections and servers, and wait for the threads."""
        self.over.set()
        with self._restarting:
            for _, end in self._servers:
                end()
        super().close()

    def serve(self, client: socket.socket) -> None:
        """Carry requests and responses until one end has had enough."""
        with client.makefile("rb") as file:
            request = self._read(file)
            while request is not None and self._carry(request, client):
                request = self._read(file)

    def _read(self, file: BinaryIO) -> Optional[Request]:
        found = read_request(file)
        if found is None:
            return None
        head, body = found
        lines = (line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:])
        headers = {name.lower(): value for name, _, value in lines}
        session = headers.get("mcp-session-id", headers.get("x-client", ""))
        message = json.loads(body) if body else {}
        return Request(head + body, self._reader.read(TO_SERVER, message, session), session)

    def _note(self, kind: str, meaning: Meaning) -> None:
        self.record.note(kind, meaning.call, meaning.what, value=meaning.value)

    def _carry(self, request: Request, client: socket.socket) -> bool:
        """One request and its response; whether another may follow."""
        self._note("sent", request.meaning)
        if b"\r\nlast-event-id: " in request.data.lower():
            self.record.note("fault", "", "resume")
        fault, dice = self.fate(request.meaning)
        if fault:
            self.record.note(
                "fault", "" if fault in ("restart", "kill") else request.meaning.call, fault
            )
        if fault == "drop":
            return False
        if fault == "delay":
            self.over.wait(dice.uniform(0, LONGEST_HOLD))
        if fault == "duplicate":
            self.begin(self._duplicate, request, dice.uniform(0, LONGEST_HOLD))
        server = self._send(request)
        try:
            if fault == "restart":
                self.restart()
            if fault == "kill":
                self.kill(dice)
            if fault == "cut":
                return False
            slow = dice.uniform(0, LONGEST_DELAY) if fault == "slow" else 0.0
            return self._bring(
                request, server, client, slow, dice.randint(1, 3) if fault == "half" else 0
            )
        finally:
            self.drop(server)

    def _send(self, request: Request) -> socket.socket:
        servers = list(self._servers)
        server = self.connect(servers[next(self._turns) % len(servers)][0])
        try:
            self._note("reached", request.meaning)
            server.sendall(request.data)
        except BaseException:
            self.drop(server)
            raise
        return server

    def _duplicate(self, request: Request, seconds: float) -> None:
        """Send the request again, read the response, and drop it."""
        self.over.wait(seconds)
        try:
            server = self._send(request)
        except OSError:
            return
        try:
            response, data = Response(), b"begin"
            while data and not response.done:
                data = server.recv(PIECE)
                response.feed(data)
        except OSError:
            pass
        finally:
            self.drop(server)

    def _bring(
        self, request: Request, server: socket.socket, client: socket.socket, slow: float, half: int
    ) -> bool:
        """Forward the response, piece by piece, late or up to the middle of a piece."""
        response, pieces = Response(), 0
        while not response.done:
            if client in select.select([server, client], [], [])[0]:
                return False  # it has closed: it sends nothing before the response is over
            data = server.recv(PIECE)
            if not data:
                return False
            if slow:
                self.over.wait(slow)
            pieces += 1
            if pieces == half:
                data = data[: len(data) // 2]
            for message in response.feed(data):
                self._note(
                    "delivered", self._reader.read(TO_CLIENT, json.loads(message), request.session)
                )
            if pieces == 1 and data.startswith(NO_SESSION) and request.meaning.call:
                self.record.note("delivered", request.meaning.call, "gone")
            client.sendall(data)
            if pieces == half:
                return False
        return True
