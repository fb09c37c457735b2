"""The bundled HTTP server over real sockets: order, deadlines, caps, peers that leave, and its own end."""

from __future__ import annotations

import errno
import logging
import os
import random
import re
import resource
import select
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

from minimcp import Limits, Server
from minimcp.errors import ConnectionLost
from minimcp.http import server as server_module
from minimcp.http.framing import HEAD, response_head
from minimcp.http.headers import HttpError, HttpRequest, ResponseWriter
from minimcp.http.options import HttpOptions
from minimcp.http.server import HALF_BODIES, Connection, RunningHttp, Timeouts, Writer
from tests.rows import for_each
from tests.support import WAIT, eventually, open_descriptors
from tests.transports.http_app import call
from tests.transports.http_peer import Peer

QUICK = Timeouts(head=0.5, body=0.7, idle=0.4, leave=0.2)
PATIENT = Timeouts(head=WAIT, body=WAIT, idle=WAIT, leave=WAIT)
"""For peers that may be slow because the machine is."""
TEXT = [("Content-Type", "text/plain")]
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"

Serve = Callable[[HttpRequest, ResponseWriter], None]


class Endpoint:
    """Answers with what it was sent, unless the test has put a function at the path; refuses the path /no."""

    def __init__(self) -> None:
        self.paths: Dict[str, Serve] = {}
        self.checked: List[str] = []
        self.served: List[str] = []
        self.drained = threading.Event()
        self.drained.set()

    def check(self, request: HttpRequest) -> None:
        assert request.body == b""
        self.checked.append(request.path)
        if request.path == "/no":
            raise HttpError(403, "no", code=None)

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        self.served.append(request.path)
        if request.path == "/no":
            writer.send(403, TEXT, b"no")
        elif request.path in self.paths:
            self.paths[request.path](request, writer)
        else:
            writer.send(200, TEXT, f"{request.method} {request.path} ".encode() + request.body)

    def close(self, grace: float, reason: Optional[str]) -> None:
        assert self.drained.wait(min(grace, WAIT))


def serving(
    endpoint: Any, *, body_bytes: int = 4 * 1024 * 1024, max_connections: Optional[int] = 1000, **options: Any
) -> RunningHttp:
    http = HttpOptions(body_bytes=body_bytes, max_connections=max_connections)
    return RunningHttp(endpoint, None, http, **{"timeouts": PATIENT, **options})


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def running(endpoint: Endpoint) -> Iterator[RunningHttp]:
    with serving(endpoint, max_connections=20) as running:
        yield running


def probe(running: RunningHttp) -> None:
    """A new connection is answered."""
    with Peer(running.port) as peer:
        assert peer.get("/probe").response().body == b"GET /probe "


def is_quiet(running: RunningHttp) -> bool:
    return " 0 requests, 0 waiting" in repr(running)


# ------------------------------------------------------------ requests and responses


def test_a_request_and_its_response(endpoint: Endpoint, running: RunningHttp) -> None:
    seen: List[HttpRequest] = []

    def look(request: HttpRequest, writer: ResponseWriter) -> None:
        seen.append(request)
        writer.send(204, [], b"")

    endpoint.paths["/look"] = look
    with Peer(running.port) as peer:
        found = peer.post(b"hello", "/a?b=c").response()
        assert (found.status, found.body) == (200, b"POST /a?b=c hello")
        assert found.headers["content-type"] == "text/plain"
        assert found.headers["date"].endswith(" GMT") and "connection" not in found.headers
        found = peer.get("/look", more="X-A: 1\r\nx-a: 2\r\n").response()
        address = "{}:{}".format(*peer.socket.getsockname())
    assert (found.status, found.body) == (204, b"") and "content-length" not in found.headers
    assert (seen[0].method, seen[0].client, seen[0].headers.all("X-A")) == ("GET", address, ["1", "2"])


def test_pipelined_requests_are_answered_in_order(running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        peer.send(b"".join(b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" % n for n in range(100)))
        peer.finish()
        assert [peer.response().body for _ in range(100)] == [b"POST /%d x" % n for n in range(100)]
        assert peer.rest() == b""


ENDING = [
    (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close"),
    (b"GET / HTTP/1.0\r\n\r\n", "close"),
    (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", None),
]


@for_each("data, connection", ENDING)
def test_who_ends_the_connection(data: bytes, connection: Optional[str]) -> None:
    with serving(Endpoint()) as running, Peer(running.port) as peer:
        found = peer.send(data).response()
        assert found.headers.get("connection") == connection and found.body == b"GET / "
        if connection == "close":
            assert peer.more() == b""
        else:
            assert peer.send(data).response().status == 200


def test_head_has_no_body(endpoint: Endpoint, running: RunningHttp) -> None:
    endpoint.paths["/stream"] = stream_of(b"one")
    with Peer(running.port) as peer:
        status, headers = peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head()
        assert (status, headers["content-length"]) == (200, str(len("HEAD / ")))
        assert peer.send(b"HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n").head()[0] == 200
        assert peer.get().response().body == b"GET / "
        assert peer.send(b"HEAD /no HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").head()[0] == 403
        assert peer.rest() == b""


@for_each("size", [0, 1, 65535, 65536, 200_000, 4 * 1024 * 1024])
def test_bodies_of_every_size(size: int) -> None:
    body = b"x" * size
    with serving(Endpoint()) as running, Peer(running.port) as peer:
        for _ in range(2):
            sender = threading.Thread(target=peer.post, args=(body,))
            sender.start()
            assert peer.response().body == b"POST / " + body
            sender.join(WAIT)


REFUSED = [
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
    (413, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n"),
    (414, b"GET /" + b"x" * 1_000_000),
    (501, b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"),
]


@pytest.mark.requirement("SEC-06")
@for_each("status, data", REFUSED)
@for_each("before", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_what_is_refused_ends_the_connection(status: int, data: bytes, before: bytes) -> None:
    endpoint = Endpoint()
    with serving(endpoint) as running, Peer(running.port) as peer:
        with suppress(ConnectionError):  # it did not wait for the end of it
            peer.send(before + data + b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        if before:
            assert peer.response().status == 200
        found = peer.response()
        assert (found.status, found.headers["connection"]) == (status, "close")
        assert peer.finish().rest() == b"" and "/smuggled" not in endpoint.served


# ------------------------------------------------------------ bodies that come late


def held_bytes(running: RunningHttp) -> int:
    with suppress(RuntimeError):  # the server's thread has changed what was counted
        return running._half_bytes()
    return -1


HALVES = [(b"Content-Length: 6\r\n\r\n", b"abc", b"def"),
          (b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n")]  # fmt: skip


@for_each("framing, first, rest", HALVES)
@for_each("kept", [False, True])
def test_a_request_whose_body_is_late_is_checked_once_and_served_once(
    framing: bytes, first: bytes, rest: bytes, kept: bool
) -> None:
    """And holds no thread meanwhile."""
    endpoint = Endpoint()
    with serving(endpoint) as running, ExitStack() as stack:
        peers = [stack.enter_context(Peer(running.port)) for _ in range(8)]
        for peer in peers:
            if kept:
                assert peer.get("/before").response().status == 200
            peer.send(POST + framing + first)
        assert eventually(lambda: endpoint.checked == ["/"] * 8 and "0 requests, 8 waiting" in repr(running)), running
        assert "/" not in endpoint.served
        held = held_bytes(running)
        for peer in peers:
            peer.send(rest[:1])
        assert eventually(lambda: held_bytes(running) == held + 8)
        for peer in peers:
            assert peer.send(rest[1:]).response().body == b"POST / abcdef"
            assert peer.get().response().status == 200
        assert endpoint.checked == ["/"] * 8 and endpoint.served.count("/") == 16


@for_each("more", [b"", b"Expect: 100-continue\r\n"])
def test_a_request_may_be_refused_before_its_body_comes(more: bytes) -> None:
    endpoint = Endpoint()
    with serving(endpoint) as running, Peer(running.port) as peer:
        found = peer.send(POST.replace(b"/", b"/no", 1) + more + b"Content-Length: 1000\r\n\r\n").response()
        assert (found.status, found.headers["connection"], found.body) == (403, "close", b"no\n")
        assert peer.finish().rest() == b"" and not endpoint.served


def test_a_refused_body_that_has_come_is_skipped(running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        assert peer.post(b"x" * 1000, "/no").response().status == 403
        assert peer.get("/b").response().body == b"GET /b "


def test_expect_100_continue(running: RunningHttp) -> None:
    head = POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    with Peer(running.port) as peer:
        for _ in range(2):
            assert peer.send(head).head() == (100, {})
            assert peer.send(b"hi").response().body == b"POST / hi"
        assert peer.send(head + b"hi").response().status == 200  # it did not wait
        assert peer.send(head).head() == (100, {})
        peer.reset()
    assert eventually(lambda: is_quiet(running))


def test_a_body_that_ends_early(running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        peer.send(POST + b"Content-Length: 9\r\n\r\nabc").finish()
        assert peer.response().status == 400
        assert peer.rest() == b""


@for_each("framing", [b"Content-Length: 100000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n186a0\r\n"])
@for_each("kept", [False, True])
def test_bodies_that_do_not_end_have_a_bound_together(framing: bytes, kept: bool) -> None:
    """Long ones: a short one always finds room, or 16 peers could keep all others out."""
    head, most = POST + framing, HALF_BODIES * 99_000
    rest = b"x" * 1_000 + (b"\r\n0\r\n\r\n" if b"chunked" in framing else b"")
    with serving(Endpoint(), body_bytes=100_000) as running, ExitStack() as stack:
        peers = [stack.enter_context(Peer(running.port)) for _ in range(HALF_BODIES)]
        for peer in peers:
            if kept:
                assert peer.get().response().status == 200
            peer.send(head + b"x" * 99_000)
        assert eventually(lambda: most <= held_bytes(running) < most + 100 * HALF_BODIES), held_bytes(running)
        with Peer(running.port) as another:
            found = another.send(head + b"x" * 90_000).response()
            assert found.status == 503 and b"HttpOptions.body_bytes" in found.body
        with Peer(running.port) as short:
            short.send(POST + b"Content-Length: 30000\r\n\r\n" + b"y" * 20_000)
            assert eventually(lambda: held_bytes(running) > HALF_BODIES * 100_000), held_bytes(running)
            assert short.send(b"y" * 10_000).response().status == 200
        peers.pop().send(rest).response()
        assert eventually(lambda: held_bytes(running) < most - 98_000), held_bytes(running)
        with Peer(running.port) as another:
            assert another.send(head + b"x" * 99_000).send(rest).response().status == 200
        for peer in peers:
            peer.close()
        assert eventually(lambda: held_bytes(running) == 0), held_bytes(running)


# ------------------------------------------------------------ responses in pieces


def stream_of(*pieces: bytes) -> Serve:
    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        for piece in pieces:
            writer.write(piece)
        writer.end()
        writer.end()

    return stream


def test_a_streamed_response(endpoint: Endpoint, running: RunningHttp) -> None:
    endpoint.paths["/"] = stream_of(b"one", b"", b"two")
    with Peer(running.port) as peer:
        assert peer.get().response().body == b"onetwo"
        assert peer.get().response().body == b"onetwo"
    with Peer(running.port) as peer:
        status, headers = peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").head()
        assert headers["connection"] == "close" and "transfer-encoding" not in headers
        assert peer.rest() == b"onetwo"


def test_each_piece_goes_out_at_once(endpoint: Endpoint, running: RunningHttp) -> None:
    seen = threading.Semaphore(0)

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        for number in range(5):
            assert seen.acquire(timeout=WAIT)
            writer.write(b"%d" % number)
        writer.end()

    endpoint.paths["/"] = stream
    with Peer(running.port) as peer:
        assert peer.get().head()[0] == 200
        for number in range(5):
            seen.release()
            assert peer.chunk() == b"%d" % number
        assert peer.chunk() == b""


def test_many_threads_write_one_response(endpoint: Endpoint, running: RunningHttp) -> None:
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

    endpoint.paths["/"] = stream
    with Peer(running.port) as peer:
        peer.get().head()
        chunks = list(iter(peer.chunk, b""))
    assert len(chunks) == 800
    for mark in b"abcd":
        own = [chunk for chunk in chunks if chunk[0] == mark]
        assert own == [b"%c%03d|" % (mark, number) + bytes([mark]) * 2000 for number in range(200)]


def test_after_its_end_nothing_is_written_to_a_response(endpoint: Endpoint, running: RunningHttp) -> None:
    kept: List[ResponseWriter] = []
    told: List[int] = []

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        kept.append(writer)
        writer.on_gone(lambda: told.append(1))
        stream_of(b"one")(request, writer)

    endpoint.paths["/"] = stream
    with Peer(running.port) as peer:
        assert peer.get().response().body == b"one"
        with pytest.raises(ConnectionLost, match="has ended"):
            kept[0].write(b"two")
        assert not kept[0].gone
        assert peer.get("/b").response().body == b"GET /b "
        kept[0].lose()  # type: ignore[attr-defined]
        assert told == []


def send_bad(name: str, value: str) -> Serve:
    return lambda request, writer: writer.send(200, [(name, value)], b"")


def leave_process(request: HttpRequest, writer: ResponseWriter) -> None:
    sys.exit(1)


MISUSES: List[Serve] = [
    lambda request, writer: writer.write(b"x"),
    send_bad("X", "a\r\nY: b"),
    send_bad("X", "\u20ac"),
    lambda request, writer: 1 / 0,  # type: ignore[list-item, return-value]
    lambda request, writer: None,
    lambda request, writer: writer.end(),
    leave_process,
]


@for_each("misuse", MISUSES)
def test_a_fault_of_the_endpoint_is_not_told_to_the_peer(misuse: Serve) -> None:
    endpoint = Endpoint()
    endpoint.paths["/"] = misuse
    logging.getLogger("minimcp.http").disabled = True
    try:
        with serving(endpoint) as running, Peer(running.port) as peer:
            found = peer.get().response()
            assert (found.status, found.body) == (500, b"Internal Server Error\n")
            assert peer.get("/b").response().body == b"GET /b "
    finally:
        logging.getLogger("minimcp.http").disabled = False


def test_a_fault_is_logged_once(endpoint: Endpoint, running: RunningHttp, caplog: pytest.LogCaptureFixture) -> None:
    def twice(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.send(200, TEXT, b"first")
        writer.send(200, TEXT, b"second")

    endpoint.paths["/"] = twice
    with Peer(running.port) as peer:
        assert peer.get().response().body == b"first"
        assert peer.get("/b").response().body == b"GET /b "
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(errors) == 1 and errors[0].exc_info is not None and "RuntimeError" in errors[0].getMessage()


def test_an_endpoint_may_return_while_another_thread_begins_the_response(
    endpoint: Endpoint, running: RunningHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, returned, finish = threading.Event(), threading.Event(), Writer.finish

    def slow(*given: Any) -> Any:
        entered.set()
        assert returned.wait(WAIT)
        return response_head(*given)

    def hand_over(request: HttpRequest, writer: ResponseWriter) -> None:
        threading.Thread(target=writer.send, args=(200, TEXT, b"late")).start()
        assert entered.wait(WAIT)

    monkeypatch.setattr(server_module, "response_head", slow)
    monkeypatch.setattr(Writer, "finish", lambda writer: (returned.set(), finish(writer))[1])
    endpoint.paths["/"] = hand_over
    with Peer(running.port) as peer:
        assert peer.get().response().body == b"late"
        assert peer.get("/b").response().body == b"GET /b "


@pytest.mark.parametrize("fault", [ValueError("broken"), None])
def test_a_response_that_breaks_off_ends_the_connection(
    endpoint: Endpoint, running: RunningHttp, fault: Optional[Exception]
) -> None:
    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        writer.write(b"one")
        if fault is not None:
            raise fault

    endpoint.paths["/"] = stream
    with Peer(running.port) as peer:
        peer.get().head()
        assert peer.rest() == b"3\r\none\r\n"


def test_a_fault_of_ours_ends_one_connection(
    endpoint: Endpoint, running: RunningHttp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint, "check", lambda request: 1 / 0)
    with Peer(running.port) as peer:
        assert peer.send(POST + b"Content-Length: 9\r\n\r\n").rest() == b""
    probe(running)
    assert "ZeroDivisionError" in caplog.text


# ------------------------------------------------------------ peers that leave


class Held:
    """A response that is held until the peer has gone, and what was seen meanwhile."""

    def __init__(self, endpoint: Endpoint, *, begins: bool = True) -> None:
        self.running, self.told, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.release = threading.Event()
        self.lost: List[bool] = []
        self._begins = begins
        endpoint.paths["/held"] = self.serve

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        writer.on_gone(self.told.set)
        writer.on_gone(self.release.set)
        writer.on_gone(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        if self._begins:
            writer.begin(200, TEXT)
        self.running.set()
        try:
            assert self.release.wait(WAIT)
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


@pytest.mark.parametrize("leave", ["close", "reset", "finish"])
@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("more", [b"", b"P"], ids=["silent", "a byte of the next request"])
def test_that_a_peer_leaves_is_noticed_while_its_request_runs(
    endpoint: Endpoint, running: RunningHttp, leave: str, begins: bool, more: bytes
) -> None:
    held = Held(endpoint, begins=begins)
    with Peer(running.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        peer.send(more)
        getattr(peer, leave)()
        assert held.told.wait(WAIT) and held.ended.wait(WAIT)
        if leave == "finish" and not begins:
            assert peer.response().body == b"whole"
        peer.close()
        assert eventually(lambda: is_quiet(running))
    assert held.lost == ([True, True] if begins else held.lost)


def test_a_pipelining_peer_is_not_taken_for_one_that_left(
    endpoint: Endpoint, running: RunningHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = threading.Semaphore(0), Writer.look

    def counted(writer: Writer) -> None:
        look(writer)
        looks.release()

    monkeypatch.setattr(Writer, "look", counted)
    held = Held(endpoint)
    with Peer(running.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        peer.get("/b")
        for _ in range(3):
            assert looks.acquire(timeout=WAIT)
        assert not held.told.is_set()
        held.release.set()
        assert peer.response().body == b"x"
        assert peer.response().body == b"GET /b "
    assert held.lost == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_peer_that_takes_nothing_is_lost(endpoint: Endpoint, whole: bool) -> None:
    outcome: List[BaseException] = []
    told = threading.Event()

    def pour(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.on_gone(told.set)
        try:
            if whole:
                writer.send(200, TEXT, b"x" * 100_000_000)
            writer.begin(200, TEXT)
            while True:
                writer.write(b"x" * 100_000)
        except BaseException as error:
            outcome.append(error)
            raise

    endpoint.paths["/"] = pour
    with serving(endpoint, write_timeout=0.5) as running, Peer(running.port) as peer:
        peer.get()
        assert eventually(lambda: outcome) and told.is_set() is not whole
        probe(running)
        peer.close()
        assert eventually(lambda: is_quiet(running))
    assert isinstance(outcome[0], ConnectionLost)


def test_whether_a_peer_takes_something_can_be_seen(endpoint: Endpoint, running: RunningHttp) -> None:
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

    endpoint.paths["/"] = fill
    with Peer(running.port) as peer:
        peer.get()
        assert full.wait(WAIT)
        peer.reset()
    assert eventually(lambda: len(seen) == 3) and seen == [True, False, True]


# ------------------------------------------------------------ slow peers, and many


SLOW = {
    "head": b"GET /",
    "body": POST + b"Content-Length: 100000\r\n\r\n",
    "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
    "silent": b"",
    "idle": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "unread": b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
}
"""What a slow peer begins with; those of `DRIPPING` go on with a byte at a time."""

DRIPPING = ("head", "body", "chunks")


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("kind", SLOW)
def test_slow_peers_are_shed(endpoint: Endpoint, kind: str) -> None:
    """200 at once, while others are served."""
    big = b"x" * 10_000_000
    endpoint.paths["/big"] = lambda request, writer: writer.send(200, TEXT, big)
    with ExitStack() as stack:
        running = stack.enter_context(serving(endpoint, timeouts=QUICK, write_timeout=0.5))
        peers = [stack.enter_context(Peer(running.port)).send(SLOW[kind]) for _ in range(200)]
        dripping = {peer.socket: peer for peer in peers if kind in DRIPPING}
        probed: List[bool] = []

        def shed() -> bool:
            with suppress(EOFError, ConnectionError):  # on a machine that stands still we are slow ourselves
                probe(running)
                probed.append(True)
            for answered in select.select(list(dripping), (), (), 0)[0] if dripping else ():
                del dripping[answered]
            for peer in dripping.values():
                with suppress(ConnectionError):  # it has been shed this moment
                    peer.send(b"x")
            return repr(running).endswith((" 0 requests, 1 waiting>", " 0 requests, 0 waiting>"))  # the last probe's

        assert eventually(shed) and probed, running
        if kind in DRIPPING:
            assert all(peer.rest().startswith(b"HTTP/1.1 408 ") for peer in peers)
        elif kind in ("silent", "idle"):
            assert all(peer.rest().partition(b"\r\n\r\n")[2] in (b"", b"GET / ") for peer in peers)


def test_what_came_while_the_server_stood_still_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its deadline is over when it is looked at: by then the server has looked at what came before."""
    sent, move = threading.Event(), RunningHttp._move

    def stand_still(running: RunningHttp, connection: Connection, awaited: str) -> None:
        move(running, connection, awaited)
        if awaited == HEAD:
            assert sent.wait(WAIT)
            connection.due, running._sweep_at = time.monotonic(), 0.0

    monkeypatch.setattr(RunningHttp, "_move", stand_still)
    with serving(Endpoint()) as running, Peer(running.port) as peer:
        peer.get()
        sent.set()
        assert peer.response().body == b"GET / "


def test_deadlines_are_looked_at_at_intervals(endpoint: Endpoint, running: RunningHttp) -> None:
    """However many requests come, and not once for each of them."""
    sweeps: List[float] = []
    sweep = running._sweep
    running._sweep = lambda now: (sweeps.append(now), sweep(now))[1]  # type: ignore[method-assign, func-returns-value]
    with Peer(running.port) as peer:
        while len(sweeps) < 3:
            for _ in range(50):
                assert peer.get(more="Connection: keep-alive\r\n").response().status == 200
    gaps = [after - before for before, after in zip(sweeps, sweeps[1:])]
    assert min(gaps) >= server_module.SWEEP_SECONDS


def test_beyond_the_most_connections(endpoint: Endpoint, running: RunningHttp) -> None:
    """What is idle makes room; when nothing is, who comes is told so."""
    held = Held(endpoint)
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(running.port)) for _ in range(20)]
        for peer in peers[:19]:
            peer.get("/held")
        assert eventually(lambda: "19 requests" in repr(running))
        assert peers[19].get().response().status == 200
        assert eventually(lambda: "19 requests, 1 waiting" in repr(running))
        with Peer(running.port) as another:  # in place of the idle one
            assert another.get("/held").head()[0] == 200
            assert peers[19].rest() == b""
            extra = [stack.enter_context(Peer(running.port)) for _ in range(100)]
            assert eventually(lambda: len(running._kept) == server_module.SPARE_CONNECTIONS)
            answers = [peer.finish().rest() if number < 64 else peer.rest() for number, peer in enumerate(extra)]
            assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers[:64]) and not any(answers[64:])
        held.release.set()
    assert eventually(lambda: is_quiet(running)), running
    probe(running)


def test_peers_that_never_sent_a_byte_make_room_before_those_that_did(running: RunningHttp) -> None:
    with ExitStack() as stack:
        known = stack.enter_context(Peer(running.port))
        assert known.get().response().status == 200
        assert eventually(lambda: " 0 requests, 1 waiting" in repr(running))
        silent = [stack.enter_context(Peer(running.port)) for _ in range(19)]
        assert eventually(lambda: " 0 requests, 20 waiting" in repr(running))
        for peer in silent[:5]:
            assert stack.enter_context(Peer(running.port)).get().response().status == 200
            assert peer.rest() == b""
        assert known.get().response().status == 200


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_no_descriptor_is_left_for_a_connection(running: RunningHttp, caplog: pytest.LogCaptureFixture) -> None:
    waiting, fillers = [socket.socket() for _ in range(3)], []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 1, hard))
        with pytest.raises(OSError):
            while True:
                fillers.append(os.dup(1))
        for each in waiting:
            each.connect(("127.0.0.1", running.port))
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


# ------------------------------------------------------------ its beginning and its end


def test_its_names(endpoint: Endpoint, running: RunningHttp) -> None:
    assert running.url == f"http://127.0.0.1:{running.port}/mcp"
    held = Held(endpoint)
    with Peer(running.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("minimcp-http-")]
        assert len(ours) == 2 and all(thread.daemon for thread in ours)
        assert f"minimcp-http-{running.port}-reader" in [thread.name for thread in ours]
        held.release.set()
        assert held.ended.wait(WAIT)
    running.close()
    assert repr(running) == f"<RunningHttp {running.url} closed, 0 requests, 0 waiting>" and running.ended


def test_where_nobody_can_listen(running: RunningHttp) -> None:
    with pytest.raises(OSError, match=f"cannot listen on port {running.port} of 127.0.0.1: another program") as caught:
        serving(Endpoint(), port=running.port)
    assert caught.value.errno == errno.EADDRINUSE
    for port in (65536, "80"):
        with pytest.raises(ValueError, match=f"port is a number from 0 to 65535, not {port!r}"):
            serving(Endpoint(), port=port)
    with pytest.raises(ValueError, match="say by which names in allowed_hosts"):
        serving(Endpoint(), host="192.0.2.1")
    with pytest.raises(OSError, match="cannot listen on port 0 of 192.0.2.1"):
        RunningHttp(Endpoint(), None, HttpOptions(allowed_hosts=["*"]), host="192.0.2.1")


def test_the_same_port_again_at_once(endpoint: Endpoint, running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        assert peer.get().response().status == 200
        running.close()
        with serving(endpoint, port=running.port) as second:
            probe(second)


def has_ipv6() -> bool:
    """Whether this machine has an address of its own in IPv6: asked of the system, not of what is tested."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="the machine has no IPv6")
def test_ipv6(endpoint: Endpoint) -> None:
    with serving(endpoint, host="::1") as running, Peer(running.port, "::1") as peer:
        assert peer.get().response().status == 200
        assert running.url == f"http://[::1]:{running.port}/mcp"


def test_running_requests_are_answered_at_the_end(endpoint: Endpoint, running: RunningHttp) -> None:
    held = Held(endpoint, begins=False)
    endpoint.drained = held.ended
    with Peer(running.port) as idle, Peer(running.port) as peer, Peer(running.port) as half:
        half.send(b"GET /")
        assert idle.get().response().status == 200
        peer.get("/held")
        assert held.running.wait(WAIT)
        closing = threading.Thread(target=running.close)
        closing.start()
        held.release.set()
        assert peer.response().body == b"whole"
        assert peer.rest() == idle.rest() == half.rest() == b""
        closing.join(WAIT)
        assert not closing.is_alive()
    with pytest.raises(ConnectionRefusedError):
        Peer(running.port)


def test_responses_are_cut_that_do_not_end(endpoint: Endpoint) -> None:
    held, lost = Held(endpoint), threading.Event()
    running = serving(endpoint, write_timeout=None)

    def pour(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.begin(200, TEXT)
        try:
            while True:
                writer.write(b"x" * 1_000_000)
        except ConnectionLost:
            lost.set()

    endpoint.paths["/pour"] = pour
    with Peer(running.port) as peer, Peer(running.port) as deaf:
        peer.get("/held").head()
        deaf.get("/pour").head()
        threads = [threading.Thread(target=running.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        assert held.told.is_set() and held.ended.wait(WAIT) and lost.wait(WAIT)
        assert peer.rest() == b"" and running.ended
    running.close()


def test_a_request_may_close_the_server(endpoint: Endpoint, running: RunningHttp) -> None:
    def close(request: HttpRequest, writer: ResponseWriter) -> None:
        running.close()
        writer.send(200, TEXT, b"bye")

    endpoint.paths["/"] = close
    with Peer(running.port) as peer:
        found = peer.get().response()
        assert (found.body, found.headers["connection"]) == (b"bye", "close")
        assert eventually(lambda: running.ended)


def test_what_does_not_end_is_named(
    endpoint: Endpoint, running: RunningHttp, caplog: pytest.LogCaptureFixture
) -> None:
    release, entered = threading.Event(), threading.Event()

    def deaf(request: HttpRequest, writer: ResponseWriter) -> None:
        entered.set()
        release.wait(WAIT)

    endpoint.paths["/"] = deaf
    files = len(open_descriptors())
    with Peer(running.port) as peer:
        peer.get()
        assert entered.wait(WAIT)
        running.close()
        assert f"minimcp-http-{running.port}-1" in caplog.text
        assert peer.rest() == b""
        release.set()
    assert eventually(lambda: len(open_descriptors()) < files)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_closes_its_descriptors_alone(running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        assert peer.get().response().status == 200
        pid = os.fork()
        if not pid:
            try:
                running.renew()
                running.close()
                os._exit(0 if "closed" in repr(running) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        assert peer.get().response().status == 200
        probe(running)


# ------------------------------------------------------------ damaged requests


DAMAGED = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"id\":\"ab\"}",
    POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x\r\n world\r\n0\r\nT: u\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"DELETE http://a/mcp HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
]
WORDS = [
    b"\r\n", b"\n", b"\r", b" ", b":", b"\x00", b"\xff", b"0", b"-1", b"chunked", b"Content-Length: 5\r\n", b"HTTP/1.1",
    b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"\r\n\r\n", b"A" * 300, b"Expect: 100-continue\r\n",
    b"Connection: close\r\n", b"ffffffff\r\n", b"0\r\n\r\n",
]  # fmt: skip
STATUSES = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Z]")
EXPECTED = {b"100", b"200", b"400", b"413", b"414", b"417", b"431", b"501", b"505"}


def damaged(rng: random.Random) -> bytes:
    """One request or a few, with some damage or none."""
    data = bytearray(b"".join(rng.choice(DAMAGED) for _ in range(rng.choice((1, 1, 2, 3)))))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, 0, 1, 10))] = rng.choice(
            (b"", rng.choice(WORDS), rng.choice(WORDS), bytes([rng.randrange(256)]), data[other : other + 30])
        )
    return bytes(data)


@pytest.mark.parametrize("seed", os.environ.get("MINIMCP_FUZZ_SEEDS", "1").split(","))
def test_damaged_requests_are_answered_or_refused(
    endpoint: Endpoint, seed: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No hang, no fault of ours, nothing left behind. MINIMCP_FUZZ_COUNT is the number of requests."""
    rng, count, batch = random.Random(int(seed)), int(os.environ.get("MINIMCP_FUZZ_COUNT", "500")), 50
    endpoint.paths["/stream"] = stream_of(b"one")
    with serving(endpoint) as running:
        files = len(open_descriptors())
        for _ in range(0, count, batch):
            with ExitStack() as stack:
                peers = [stack.enter_context(Peer(running.port)) for _ in range(batch)]
                sent = [damaged(rng) for _ in peers]
                for peer, data in zip(peers, sent):
                    size = rng.choice((len(data), len(data) // 3 + 1, 40))
                    with suppress(OSError):  # the server may have closed in the middle
                        for at in range(0, len(data), size):
                            peer.send(data[at : at + size])
                for peer, data in zip(peers, sent):
                    peer.finish_quietly()
                    answer = peer.rest()
                    assert set(STATUSES.findall(answer)) <= EXPECTED and b"Trace" not in answer, (seed, data, answer)
        assert eventually(lambda: is_quiet(running)) and eventually(lambda: len(open_descriptors()) == files)
    assert all(re.fullmatch(r"[!-~]+", path) for path in endpoint.served + endpoint.checked)
    assert [record for record in caplog.records if record.levelname != "DEBUG"] == []


# ------------------------------------------------------------ a server of MCP


def test_while_it_drains_no_new_stream_is_opened() -> None:
    """Neither transport takes new requests while running ones get their time."""
    entered, release = threading.Event(), threading.Event()
    server = Server("draining", limits=Limits(drain_grace=WAIT))

    @server.tool
    def hold() -> str:
        """Wait until the test says so."""
        entered.set()
        assert release.wait(WAIT)
        return "held"

    with server.start_http(legacy_sse=True) as running, Peer(running.port) as peer, Peer(running.port) as other:
        request = call("hold")
        lines = [f"{name}: {value}\r\n" for name, value in request.headers.items() if name != "host"]
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{''.join(lines)}Content-Length: {len(request.body)}\r\n\r\n"
        stream = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        peer.send(head.encode() + request.body)
        assert entered.wait(WAIT)
        closing = threading.Thread(target=running.close)
        closing.start()
        assert eventually(lambda: running._http.closing)
        assert other.send(stream).response().status == 503
        release.set()
        assert b"held" in peer.response().body
        closing.join(WAIT)
    server.close()
