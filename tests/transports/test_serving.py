"""The bundled HTTP server over real sockets: order, deadlines, caps, peers that leave, and its own end."""

from __future__ import annotations

import errno
import logging
import os
import resource
import select
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

from minimcp.errors import ConnectionLost
from minimcp.http.common import HttpRequest, ResponseWriter
from minimcp.http.http_connection import HALF_BODIES, Connection, Timing
from minimcp.http.serving import HttpServing
from tests.rows import for_each
from tests.support import WAIT, eventually, open_descriptors
from tests.transports.http_peer import Peer

QUICK = Timing(head=0.5, body=0.7, idle=0.4, write=0.5, leave=0.2)
UNHURRIED = QUICK._replace(head=WAIT, body=WAIT, idle=WAIT)
"""For peers that may be slow because the machine is."""
TEXT = [("Content-Type", "text/plain")]


def read(request: HttpRequest) -> bytes:
    body: Any = request.body
    return bytes(body if isinstance(body, bytes) else body.read())


class Application:
    """Answers with what it was sent, unless the test has put a function at the path."""

    def __init__(self) -> None:
        self.paths: Dict[str, Callable[[HttpRequest, ResponseWriter], None]] = {}
        self.served: List[str] = []

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self.served.append(request.path)
        function = self.paths.get(request.path)
        if function is not None:
            function(request, writer)
        else:
            body = read(request)
            writer.send(200, TEXT, f"{request.method} {request.path} ".encode() + body)


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def serving(application: Application) -> Iterator[HttpServing]:
    with HttpServing(application, path="/mcp", timing=UNHURRIED, drain_grace=0.3) as running:
        yield running


@pytest.fixture
def patient(application: Application) -> Iterator[HttpServing]:
    """Whose deadlines no test waits for."""
    with HttpServing(application, max_connections=20, timing=Timing(WAIT, WAIT, WAIT, WAIT, 0.2)) as running:
        yield running
        running.close(0)


def probe(serving: HttpServing) -> float:
    """Seconds that a new connection takes to be answered."""
    begin = time.monotonic()
    with Peer(serving.port) as peer:
        assert peer.get("/probe").response().body == b"GET /probe "
    return time.monotonic() - begin


# ------------------------------------------------------------ requests and responses


def test_a_request_and_its_response(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        found = peer.post(b"hello", "/a?b=c").response()
    assert (found.status, found.body) == (200, b"POST /a?b=c hello")
    assert found.headers["content-type"] == "text/plain"
    assert found.headers["date"].endswith(" GMT") and "connection" not in found.headers


def test_the_application_learns_who_asks(application: Application, patient: HttpServing) -> None:
    seen: List[HttpRequest] = []

    def look(request: HttpRequest, writer: ResponseWriter) -> None:
        seen.append(request)
        writer.send(204, [], b"")

    application.paths["/"] = look
    with Peer(patient.port) as peer:
        found = peer.get(more="X-A: 1\r\nx-a: 2\r\n").response()
        address = "{}:{}".format(*peer.socket.getsockname())
    assert (found.status, found.body) == (204, b"") and "content-length" not in found.headers
    assert (seen[0].method, seen[0].client, seen[0].headers.all("X-A")) == ("GET", address, ["1", "2"])


def test_one_connection_takes_many_requests(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        for number in range(20):
            assert peer.post(b"%d" % number).response().body == b"POST / %d" % number
        assert patient.port == peer.socket.getpeername()[1]


def test_pipelined_requests_are_answered_in_order(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        peer.send(b"".join(b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" % n for n in range(100)))
        assert [peer.response().body for _ in range(100)] == [b"POST /%d x" % n for n in range(100)]


@for_each("size", [1, 7, 50])
def test_requests_in_small_pieces(size: int) -> None:
    data = b"POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    with HttpServing(Application()) as serving, Peer(serving.port) as peer:
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size):
            peer.send(data[at : at + size])
        assert peer.response().body == b"POST /a abc"


ENDING = [
    (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close"),
    (b"GET / HTTP/1.0\r\n\r\n", "close"),
    (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", None),
]


@for_each("data, connection", ENDING)
def test_who_ends_the_connection(data: bytes, connection: Optional[str]) -> None:
    with HttpServing(Application()) as serving, Peer(serving.port) as peer:
        found = peer.send(data).response()
        assert found.headers.get("connection") == connection and found.body == b"GET / "
        if connection == "close":
            assert peer.more() == b""
        else:
            assert peer.send(data).response().status == 200


def test_head_has_no_body(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        status, headers = peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head()
        assert (status, headers["content-length"]) == (200, str(len("HEAD / ")))
        assert peer.get().response().body == b"GET / "


def test_a_big_response_arrives_whole(application: Application, patient: HttpServing) -> None:
    big = os.urandom(1024) * 8192
    application.paths["/"] = lambda request, writer: writer.send(200, TEXT, big)
    with Peer(patient.port) as peer:
        assert peer.get().response().body == big
        assert peer.get().response().body == big


@for_each("size", [0, 1, 65535, 65536, 200_000, 4 * 1024 * 1024])
def test_bodies_of_every_size(size: int) -> None:
    body = b"x" * size
    with HttpServing(Application()) as serving, Peer(serving.port) as peer:
        sender = threading.Thread(target=peer.post, args=(body,))
        sender.start()
        assert peer.response().body == b"POST / " + body
        sender.join(WAIT)
        assert peer.get().response().status == 200


REFUSED = [
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, b"GET / HTTP/1.1\nHost: a\n\n"),
    (400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    (413, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n"),
    (414, b"GET /" + b"x" * 1_000_000),
    (431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 1_000_000),
    (501, b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
    (505, b"GET / HTTP/3.0\r\nHost: a\r\n\r\n"),
]


@pytest.mark.requirement("SEC-06")
@for_each("status, data", REFUSED)
@for_each("before", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_what_is_refused_ends_the_connection(status: int, data: bytes, before: bytes) -> None:
    application = Application()
    with HttpServing(application) as serving, Peer(serving.port) as peer:
        try:
            peer.send(before + data + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        except ConnectionError:
            pass  # it did not wait for the end of it
        if before:
            assert peer.response().status == 200
        found = peer.response()
        assert (found.status, found.headers["connection"]) == (status, "close")
        assert peer.rest() == b"" and "/smuggled" not in application.served


# ------------------------------------------------------------ bodies that come late


def test_the_head_is_served_before_the_body_comes(application: Application, patient: HttpServing) -> None:
    application.paths["/"] = lambda request, writer: writer.send(403, TEXT, b"no")
    with Peer(patient.port) as peer:
        found = peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n").response()
        assert (found.status, found.headers["connection"]) == (403, "close")
        assert peer.rest() == b""


def test_a_refused_body_that_has_come_is_skipped(application: Application, patient: HttpServing) -> None:
    application.paths["/"] = lambda request, writer: writer.send(403, TEXT, b"no")
    with Peer(patient.port) as peer:
        assert peer.post(b"x" * 1000).response().status == 403
        assert peer.get("/b").response().body == b"GET /b "


@for_each("framing", [b"Content-Length: 6\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"])
def test_a_slow_body_holds_no_thread(framing: bytes) -> None:
    application = Application()
    pieces = [b"abc", b"def"] if b"Length" in framing else [b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n"]
    with HttpServing(application) as serving, ExitStack() as stack:
        peers = [stack.enter_context(Peer(serving.port)) for _ in range(8)]
        for peer in peers:
            peer.send(b"POST / HTTP/1.1\r\nHost: a\r\n" + framing + pieces[0])
        assert eventually(lambda: len(application.served) == 8 and "0 requests, 8 waiting" in repr(serving)), serving
        for peer in peers:
            peer.send(pieces[1])
        for peer in peers:
            assert peer.response().body == b"POST / abcdef"
            assert peer.get().response().status == 200


@for_each("framing", [b"Content-Length: 100000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n186a0\r\n"])
def test_bodies_that_do_not_end_have_a_bound_together(framing: bytes) -> None:
    """Long ones: a short one always finds room, or 16 peers could keep all others out."""
    head, most = b"POST / HTTP/1.1\r\nHost: a\r\n" + framing, HALF_BODIES * 99_000
    rest = b"x" * 1_000 + (b"\r\n0\r\n\r\n" if b"chunked" in framing else b"")
    with HttpServing(Application(), max_body_bytes=100_000) as serving, ExitStack() as stack:
        terms = serving._terms
        peers = [stack.enter_context(Peer(serving.port)) for _ in range(HALF_BODIES)]
        for peer in peers:
            peer.send(head + b"x" * 99_000)
        assert eventually(lambda: most <= terms._half < most + 100 * HALF_BODIES), terms._half
        with Peer(serving.port) as another:
            found = another.send(head + b"x" * 90_000).response()
            assert found.status == 503 and b"max_body_bytes" in found.body
        with Peer(serving.port) as short:
            short.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n" + b"y" * 20_000)
            assert short.send(b"y" * 10_000).response().status == 200
        peers.pop().send(rest).response()
        assert eventually(lambda: terms._half < most - 98_000), terms._half
        with Peer(serving.port) as another:
            assert another.send(head + b"x" * 99_000).send(rest).response().status == 200
        for peer in peers:
            peer.close()
        assert eventually(lambda: terms._half == 0), terms._half


def test_a_peer_that_waits_for_leave_gets_it_when_the_body_is_wanted(
    application: Application, patient: HttpServing
) -> None:
    application.paths["/no"] = lambda request, writer: writer.send(403, TEXT, b"no")
    head = "POST {} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with Peer(patient.port) as peer:
        peer.send(head.format("/").encode())
        assert peer.head() == (100, {})
        assert peer.send(b"hi").response().body == b"POST / hi"
        assert peer.send(head.format("/").encode() + b"hi").response().status in (100, 200)
    with Peer(patient.port) as peer:
        found = peer.send(head.format("/no").encode()).response()
        assert (found.status, found.headers["connection"]) == (403, "close")


def test_a_peer_that_leaves_while_it_waits_for_leave(application: Application, patient: HttpServing) -> None:
    entered, go = threading.Event(), threading.Event()

    def wait(request: HttpRequest, writer: ResponseWriter) -> None:
        entered.set()
        assert go.wait(WAIT)
        read(request)

    application.paths["/"] = wait
    with Peer(patient.port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert entered.wait(WAIT)
        peer.reset()
        go.set()
    assert eventually(lambda: " 0 requests, 0 waiting" in repr(patient))


def test_a_fault_of_ours_ends_one_connection(
    patient: HttpServing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Connection, data: bytes) -> bool:
        raise ZeroDivisionError("ours")

    with Peer(patient.port) as peer:
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "advance", fail)
            assert peer.get().rest() == b""
    probe(patient)
    assert "ours" in caplog.text


def test_a_body_that_ends_early(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").finish()
        assert peer.response().status == 400
        assert peer.rest() == b""


def test_a_body_is_read_piece_by_piece(application: Application, patient: HttpServing) -> None:
    seen: List[bytes] = []

    def look(request: HttpRequest, writer: ResponseWriter) -> None:
        body: Any = request.body
        seen.extend(iter(lambda: body.read(4), b""))
        seen.append(body.read())
        writer.send(200, TEXT, b"")

    application.paths["/"] = look
    with Peer(patient.port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        assert eventually(lambda: application.served)
        assert peer.send(b"0123456789").response().status == 200
    assert seen == [b"0123", b"4567", b"89", b""]


LATE = [(b"late", 200), (b"", 408)]


@for_each("late, status", LATE)
def test_a_body_that_is_read_after_the_response_began(late: bytes, status: int) -> None:
    application, began, ended = Application(), threading.Event(), threading.Event()

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        began.set()
        try:
            writer.write(read(request))
            writer.end()
        finally:
            ended.set()

    application.paths["/"] = stream
    timing = UNHURRIED if late else QUICK
    with HttpServing(application, timing=timing) as serving, Peer(serving.port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
        assert began.wait(WAIT)
        if late:
            assert peer.send(late).response().body == late
        else:
            assert peer.head()[0] == 200 and peer.rest() == b""
        assert ended.wait(WAIT) and application.served == ["/"]


# ------------------------------------------------------------ responses in pieces


def test_a_streamed_response(application: Application, patient: HttpServing) -> None:
    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        for piece in (b"one", b"", b"two"):
            writer.write(piece)
        writer.end()
        writer.end()

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        assert peer.get().response().body == b"onetwo"
        assert peer.get().response().body == b"onetwo"
        status, headers = peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head()
        assert status == 200 and peer.get("/b").response().body == b"GET /b "
    with Peer(patient.port) as peer:
        status, headers = peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").head()
        assert headers["connection"] == "close" and "transfer-encoding" not in headers
        assert peer.rest() == b"onetwo"


def test_each_piece_goes_out_at_once(application: Application, patient: HttpServing) -> None:
    seen = threading.Semaphore(0)

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        for number in range(5):
            assert seen.acquire(timeout=WAIT)
            writer.write(b"%d" % number)
        writer.end()

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        assert peer.get().head()[0] == 200
        for number in range(5):
            seen.release()
            assert peer.chunk() == b"%d" % number
        assert peer.chunk() == b""


def test_many_threads_write_one_response(application: Application, patient: HttpServing) -> None:
    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        def write(mark: bytes) -> None:
            for number in range(200):
                writer.write(b"%b%03d|" % (mark, number) + mark * 2000)

        writer.begin(200, TEXT)
        threads = [threading.Thread(target=write, args=(mark,)) for mark in (b"a", b"b", b"c", b"d")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        writer.end()

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        peer.get().head()
        chunks = list(iter(peer.chunk, b""))
    assert len(chunks) == 800
    for mark in b"abcd":
        own = [chunk for chunk in chunks if chunk[0] == mark]
        assert own == [b"%c%03d|" % (mark, number) + bytes([mark]) * 2000 for number in range(200)]


def test_after_the_end_nothing_is_written(application: Application, patient: HttpServing) -> None:
    kept: List[ResponseWriter] = []

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        kept.append(writer)
        writer.begin(200, TEXT)
        writer.write(b"one")
        writer.end()

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        assert peer.get().response().body == b"one"
        with pytest.raises(ConnectionLost):
            kept[0].write(b"two")
        assert not kept[0].gone
        assert peer.get("/b").response().body == b"GET /b "


MISUSES: List[Callable[[ResponseWriter], None]] = [
    lambda writer: writer.write(b"x"),
    lambda writer: writer.send(200, [("X", "a\r\nY: b")], b""),
    lambda writer: writer.send(200, [("X y", "a")], b""),
    lambda writer: writer.send(200, [("X", "\u20ac")], b""),
    lambda writer: 1 / 0,  # type: ignore[list-item, return-value]
    lambda writer: None,
    lambda writer: writer.end(),
    lambda writer: sys.exit(1),
]


@for_each("misuse", MISUSES)
def test_a_fault_of_the_application_is_not_told_to_the_peer(misuse: Callable[[ResponseWriter], None]) -> None:
    application = Application()
    application.paths["/"] = lambda request, writer: misuse(writer)
    logging.getLogger("minimcp.http").disabled = True
    try:
        with HttpServing(application) as serving, Peer(serving.port) as peer:
            found = peer.get().response()
            assert (found.status, found.body) == (500, b"Internal Server Error\n")
            assert peer.get("/b").response().body == b"GET /b "
    finally:
        logging.getLogger("minimcp.http").disabled = False


def test_a_fault_is_logged_once(
    application: Application, patient: HttpServing, caplog: pytest.LogCaptureFixture
) -> None:
    def twice(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.send(200, TEXT, b"first")
        writer.send(200, TEXT, b"second")

    application.paths["/"] = twice
    with Peer(patient.port) as peer:
        assert peer.get().response().body == b"first"
        assert peer.get("/b").response().body == b"GET /b "
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(errors) == 1 and errors[0].exc_info is not None and "RuntimeError" in errors[0].getMessage()


def test_a_response_that_breaks_off_is_no_whole_one(
    application: Application, patient: HttpServing, caplog: pytest.LogCaptureFixture
) -> None:
    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        writer.write(b"one")
        raise ValueError("broken")

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        peer.get().head()
        assert peer.rest() == b"3\r\none\r\n"
    assert "broken" in caplog.text


# ------------------------------------------------------------ peers that leave


class Held:
    """A response that is held until the peer has gone, and what was seen meanwhile."""

    def __init__(self, application: Application, *, begins: bool = True) -> None:
        self.running, self.told, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.release = threading.Event()
        self.lost: List[bool] = []
        self._begins = begins
        application.paths["/held"] = self.serve

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        writer.on_gone(self.told.set)
        if self._begins:
            writer.begin(200, TEXT)
        self.running.set()
        try:
            while not self.told.is_set() and not self.release.wait(0.01):
                pass
            if self._begins:
                writer.write(b"x")
                writer.end()
            else:
                writer.send(200, TEXT, b"whole")
        except ConnectionLost:
            self.lost.append(writer.gone)
            writer.on_gone(lambda: self.lost.append(True))
        finally:
            self.ended.set()


@for_each("leave", ["close", "reset", "finish"])
@for_each("begins", [True, False])
def test_who_leaves_is_noticed_while_the_request_runs(leave: str, begins: bool) -> None:
    application = Application()
    held = Held(application, begins=begins)
    with HttpServing(application, timing=UNHURRIED) as serving, Peer(serving.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        getattr(peer, leave)()
        assert held.told.wait(WAIT) and held.ended.wait(WAIT)
        assert eventually(lambda: " 0 requests, 0 waiting" in repr(serving))
    assert held.lost == ([True, True] if begins else held.lost)


def test_half_closed_is_still_answered(application: Application, patient: HttpServing) -> None:
    held = Held(application, begins=False)
    with Peer(patient.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        peer.finish()
        assert peer.response().body == b"whole"
        assert peer.rest() == b""


def test_pipelined_and_half_closed_requests_are_all_answered(patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        peer.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(20))).finish()
        assert [peer.response().body for _ in range(20)] == [b"GET /%d " % number for number in range(20)]
        assert peer.rest() == b""


def test_a_pipelining_peer_is_not_taken_for_one_that_left(application: Application, patient: HttpServing) -> None:
    held = Held(application)
    with Peer(patient.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        peer.get("/b")
        assert not held.told.wait(0.2)
        held.release.set()
        assert peer.response().body == b"x"
        assert peer.response().body == b"GET /b "
    assert held.lost == []


def test_many_who_leave_leave_nothing(application: Application) -> None:
    """1,000 in the middle of a response, half of them without a word."""
    with HttpServing(application, timing=UNHURRIED) as serving:  # it may not have seen yet that others have left
        many_who_leave(application, serving)


def many_who_leave(application: Application, serving: HttpServing) -> None:
    ended = threading.Semaphore(0)

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        gone = threading.Event()
        writer.on_gone(gone.set)
        try:
            writer.begin(200, TEXT)
            while not gone.is_set():
                writer.write(b"x" * 100)
                gone.wait(0.002)
        except ConnectionLost:
            pass
        finally:
            ended.release()

    application.paths["/stream"] = stream
    threads, files = threading.active_count(), len(open_descriptors())
    for number in range(100):
        peers = [Peer(serving.port).get("/stream") for _ in range(10)]
        for place, peer in enumerate(peers):
            peer.more()
            if place % 2:
                peer.reset()
            else:
                peer.close()
        assert all(ended.acquire(timeout=WAIT) for _ in peers), number
    assert eventually(lambda: "0 requests, 0 waiting" in repr(serving))
    assert eventually(lambda: len(open_descriptors()) == files)
    assert eventually(lambda: threading.active_count() <= threads + 20)  # idle workers
    probe(serving)


def test_who_takes_nothing_is_lost(application: Application, serving: HttpServing) -> None:
    outcome: List[BaseException] = []
    told = threading.Event()

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.on_gone(told.set)
        writer.begin(200, TEXT)
        try:
            while True:
                writer.write(b"x" * 100_000)
        except BaseException as error:
            outcome.append(error)
            raise

    application.paths["/"] = stream
    with Peer(serving.port) as peer:
        peer.get()
        assert told.wait(WAIT)
        assert eventually(lambda: "0 requests" in repr(serving))
        probe(serving)
    assert isinstance(outcome[0], ConnectionLost)


# ------------------------------------------------------------ slow peers, and many


SLOW = {
    "head": b"GET /",
    "body": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
    "chunks": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    "silent": b"",
    "idle": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "unread": b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
}
"""What a slow peer begins with; those of `DRIPPING` go on with a byte at a time."""

DRIPPING = ("head", "body", "chunks")


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("kind", SLOW)
def test_slow_peers_are_shed(application: Application, kind: str) -> None:
    """200 at once, while others are served."""
    big = b"x" * 10_000_000
    application.paths["/big"] = lambda request, writer: writer.send(200, TEXT, big)
    with ExitStack() as stack:
        serving = stack.enter_context(HttpServing(application, timing=QUICK, drain_grace=0.3))
        peers = [stack.enter_context(Peer(serving.port)).send(SLOW[kind]) for _ in range(200)]
        dripping = {peer.socket: peer for peer in peers if kind in DRIPPING}

        def shed() -> bool:
            with suppress(EOFError, ConnectionError):  # on a machine that stands still we are slow ourselves
                probe(serving)
                probed.append(True)
            for answered in select.select(list(dripping), (), (), 0)[0] if dripping else ():
                del dripping[answered]
            for peer in dripping.values():
                with suppress(ConnectionError):  # it has been shed this moment
                    peer.send(b"x")
            return repr(serving).endswith((" 0 requests, 1 waiting>", " 0 requests, 0 waiting>"))  # the last probe's

        probed: List[bool] = []
        assert eventually(shed) and probed, serving
        if kind in DRIPPING:
            assert all(peer.rest().startswith(b"HTTP/1.1 408 ") for peer in peers)
        elif kind in ("silent", "idle"):
            assert all(peer.rest().partition(b"\r\n\r\n")[2] in (b"", b"GET / ") for peer in peers)


def test_what_came_while_the_server_stood_still_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, welcome = threading.Event(), HttpServing._welcome

    def stand_still(serving: HttpServing, *accepted: Any) -> None:
        welcome(serving, *accepted)
        assert sent.wait(WAIT)
        threading.Event().wait(0.2)  # longer than the peer has for its request

    monkeypatch.setattr(HttpServing, "_welcome", stand_still)
    with HttpServing(Application(), timing=UNHURRIED._replace(head=0.1)) as serving, Peer(serving.port) as peer:
        peer.get()
        sent.set()
        assert peer.response().body == b"GET / "


def test_beyond_the_most(application: Application, patient: HttpServing) -> None:
    """What is idle makes room; when nothing is, who comes is told so."""
    held = Held(application)
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(patient.port)) for _ in range(20)]
        for peer in peers[:19]:
            peer.get("/held")
        assert eventually(lambda: "19 requests" in repr(patient))
        assert peers[19].get().response().status == 200
        assert eventually(lambda: "19 requests, 1 waiting" in repr(patient))
        with Peer(patient.port) as another:  # in place of the idle one
            assert another.get("/held").head()[0] == 200
            assert peers[19].rest() == b""
            extra = [stack.enter_context(Peer(patient.port)) for _ in range(100)]
            answers = [peer.rest() for peer in extra]
            assert sum(answer.startswith(b"HTTP/1.1 503 ") for answer in answers) >= 64
            assert sum(not answer for answer in answers) <= 36
        held.release.set()
        assert eventually(lambda: " 0 requests" in repr(patient)), patient
    assert eventually(lambda: " 0 requests, 0 waiting" in repr(patient)), patient
    probe(patient)


def test_no_thread_is_left_for_a_request(
    application: Application, patient: HttpServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with Peer(patient.port) as peer:
        monkeypatch.setattr(patient._workers, "start", none)
        assert peer.get().response().status == 503
    monkeypatch.undo()
    probe(patient)


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_no_descriptor_is_left_for_a_connection(
    application: Application, patient: HttpServing, caplog: pytest.LogCaptureFixture
) -> None:
    waiting, fillers, begin = [socket.socket() for _ in range(3)], [], time.monotonic()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 1, hard))
        with pytest.raises(OSError):
            while True:
                fillers.append(os.dup(1))
        for each in waiting:
            each.connect(("127.0.0.1", patient.port))
            each.settimeout(WAIT)
            each.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: "no connection is accepted" in caplog.text)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in waiting:
            assert each.recv(1000).startswith(b"HTTP/1.1 200 ")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in waiting:
            each.close()
        for filler in fillers:
            os.close(filler)
    said = len([record for record in caplog.records if record.levelno >= logging.WARNING])
    assert said <= 2 + (time.monotonic() - begin) / 0.5


# ------------------------------------------------------------ its beginning and its end


def test_its_names(application: Application, serving: HttpServing) -> None:
    assert serving.url == f"http://127.0.0.1:{serving.port}/mcp"
    held = Held(application)
    with Peer(serving.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("minimcp-http-")]
        assert len(ours) == 2 and all(thread.daemon for thread in ours)
        assert f"minimcp-http-{serving.port}-reader" in [thread.name for thread in ours]
        held.release.set()
        assert held.ended.wait(WAIT)
    serving.close()
    assert repr(serving) == f"<HttpServing {serving.url} closed, 0 requests, 0 waiting>"


def test_the_port_is_taken(serving: HttpServing) -> None:
    with pytest.raises(OSError, match=f"cannot listen on port {serving.port} of 127.0.0.1: another program") as caught:
        HttpServing(Application(), port=serving.port)
    assert caught.value.errno == errno.EADDRINUSE


def test_where_nobody_can_listen() -> None:
    with pytest.raises(ValueError, match="port is 0 to 65535"):
        HttpServing(Application(), port=65536)
    with pytest.raises(TypeError, match="port is a number from 0 to 65535, not the str '80'"):
        HttpServing(Application(), port="80")  # type: ignore[arg-type]
    with pytest.raises(OSError, match="cannot listen on port 0 of 192.0.2.1"):
        HttpServing(Application(), host="192.0.2.1")


def test_the_same_port_again_at_once(application: Application) -> None:
    with HttpServing(application) as first, Peer(first.port) as peer:
        assert peer.get().response().status == 200
        first.close()
        with HttpServing(application, port=first.port) as second:
            probe(second)


def has_ipv6() -> bool:
    """Whether this machine has an address of its own in IPv6: asked of the system, not of what is tested."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="the machine has no IPv6")
def test_ipv6(application: Application) -> None:
    with HttpServing(application, host="::1", path="/mcp") as serving, Peer(serving.port, "::1") as peer:
        assert peer.get().response().status == 200
        assert serving.url == f"http://[::1]:{serving.port}/mcp"


def test_no_thread_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    with pytest.raises(RuntimeError):
        HttpServing(Application())


def test_running_requests_are_answered_at_the_end(application: Application, patient: HttpServing) -> None:
    held = Held(application, begins=False)
    with Peer(patient.port) as idle, Peer(patient.port) as peer:
        assert idle.get().response().status == 200
        peer.get("/held")
        assert held.running.wait(WAIT)
        closing = threading.Thread(target=patient.close)
        closing.start()
        assert idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            Peer(patient.port)
        held.release.set()
        found = peer.response()
        assert (found.body, found.headers["connection"]) == (b"whole", "close")
        assert peer.rest() == b""
        closing.join(WAIT)
        assert not closing.is_alive()


def test_streams_are_cut_when_the_grace_is_over(application: Application, serving: HttpServing) -> None:
    held = Held(application)
    with Peer(serving.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        peer.head()
        serving.close()
        assert held.told.is_set() and held.ended.wait(WAIT)
        assert peer.rest() == b""


def test_whether_a_peer_takes_something_can_be_seen(application: Application, patient: HttpServing) -> None:
    seen: List[bool] = []
    full, gone = threading.Event(), threading.Event()

    def fill(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.on_gone(gone.set)
        writer.begin(200, TEXT)
        seen.append(writer.has_room())
        while eventually(writer.has_room, 0.1):  # the system still moves what was sent from buffer to buffer
            writer.write(b"x" * 1000)
        seen.append(writer.has_room())
        full.set()
        assert gone.wait(WAIT)
        seen.append(eventually(writer.has_room))  # and writing says what is wrong
        writer.write(b"x")

    application.paths["/"] = fill
    with Peer(patient.port) as peer:
        peer.get()
        assert full.wait(WAIT)
        peer.reset()
    assert eventually(lambda: len(seen) == 3) and seen == [True, False, True]


def test_who_writes_to_a_deaf_peer_is_called_away_by_close(application: Application, patient: HttpServing) -> None:
    lost = threading.Event()

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        try:
            while True:
                writer.write(b"x" * 1_000_000)
        except ConnectionLost:
            lost.set()

    application.paths["/"] = stream
    with Peer(patient.port) as peer:
        peer.get().head()
        patient.close(0)
        assert lost.wait(WAIT)


def test_a_request_may_close_the_server(application: Application, serving: HttpServing) -> None:
    def close(request: HttpRequest, writer: ResponseWriter) -> None:
        serving.close()
        writer.send(200, TEXT, b"bye")

    application.paths["/"] = close
    with Peer(serving.port) as peer:
        assert peer.get().response().body == b"bye"
        assert eventually(lambda: "closed" in repr(serving))


def test_many_close_at_once(application: Application, serving: HttpServing) -> None:
    held = Held(application)
    with Peer(serving.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        threads = [threading.Thread(target=serving.close) for _ in range(8)]
        for thread in threads:
            thread.start()
        serving.close(0)
        for thread in threads:
            thread.join(WAIT)
        assert not any(thread.is_alive() for thread in threads) and held.ended.wait(WAIT)
    serving.close()


def test_what_does_not_end_is_named(
    application: Application, serving: HttpServing, caplog: pytest.LogCaptureFixture
) -> None:
    release, running = threading.Event(), threading.Event()

    def deaf(request: HttpRequest, writer: ResponseWriter) -> None:
        running.set()
        release.wait(WAIT)

    application.paths["/"] = deaf
    with Peer(serving.port) as peer:
        peer.get()
        assert running.wait(WAIT)
        serving.close(0)
        assert f"minimcp-http-{serving.port}-1" in caplog.text
        assert peer.rest() == b""
        release.set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_lets_go_of_it_alone(application: Application, patient: HttpServing) -> None:
    with Peer(patient.port) as peer:
        assert peer.get().response().status == 200
        pid = os.fork()
        if not pid:
            try:
                patient.close()
                os._exit(0 if "closed" in repr(patient) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        assert peer.get().response().status == 200
        probe(patient)
