"""The bundled HTTP server over real sockets: responses, deadlines, peers that leave, and its own
end.

What tests.faults shows is not shown again: framing that two programs could read in two ways (C41),
bodies that end early (C40), more connections than there may be (C46), pipelining (C52).
"""

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
from minimcp.http import server as server_module
from minimcp.http.framing import HEAD, response_head
from minimcp.http.headers import HttpError, HttpRequest, ResponseWriter
from minimcp.http.options import HttpOptions
from minimcp.http.server import HALF_BODIES, HttpConnection, RunningHttp, SocketWriter, Timeouts
from tests.rows import for_each
from tests.support import WAIT, eventually, open_descriptors
from tests.transports.http_peer import Peer

from ..inside import kept_connections
from ..support import around

PATIENT = Timeouts(head=WAIT, body=WAIT, idle=WAIT, leave=WAIT)
"""For peers that may be slow because the machine is."""
TEXT = [("Content-Type", "text/plain")]
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"

Serve = Callable[[HttpRequest, ResponseWriter], None]


class Endpoint:
    """Answers with the request that it received, unless the test has put a function at the path.
    Rejects the path /no."""

    closing = False

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
        if not self.closing:
            self.closing = True
            assert self.drained.wait(min(grace, WAIT))


def serving(
    endpoint: Any,
    *,
    body_bytes: int = 4 * 1024 * 1024,
    max_connections: Optional[int] = 1000,
    **options: Any,
) -> RunningHttp:
    http = HttpOptions(body_bytes=body_bytes, max_connections=max_connections)
    return RunningHttp(endpoint, None, http, **{"timeouts": PATIENT, **options})


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture(params=[server_module.CROWD, 0], ids=["few", "crowd"])
def crowd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few connections call at once, or so many that they stay in the selector."""
    monkeypatch.setattr(server_module, "CROWD", request.param)


@pytest.fixture
def running(endpoint: Endpoint, crowd: None) -> Iterator[RunningHttp]:
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
    assert (seen[0].method, seen[0].client, seen[0].headers.all("X-A")) == (
        "GET",
        address,
        ["1", "2"],
    )


def test_many_connections_that_call_at_once(endpoint: Endpoint) -> None:
    """Each one gets its responses in order, while most requests pass through the selector."""
    count, calls = 3 * server_module.CROWD, 5
    with serving(endpoint) as running, ExitStack() as stack:
        peers = [stack.enter_context(Peer(running.port)) for _ in range(count)]
        for call in range(calls):
            for number, peer in enumerate(peers):
                peer.get(f"/{number}/{call}")
            for number, peer in enumerate(peers):
                assert peer.response().body == b"GET /%d/%d " % (number, call)
        for number, peer in enumerate(peers):  # all calls of a connection at once
            for call in range(calls):
                peer.get(f"/{number}/{call}")
        for number, peer in enumerate(peers):
            for call in range(calls):
                assert peer.response().body == b"GET /%d/%d " % (number, call)
        for peer in peers[::2]:
            peer.get("/late").close()
        for number, peer in enumerate(peers[1::2]):
            assert peer.get(f"/{number}").response().body == b"GET /%d " % number
    assert len(endpoint.served) >= 2 * count * calls + count // 2


def test_head_has_no_body(endpoint: Endpoint, running: RunningHttp) -> None:
    endpoint.paths["/stream"] = stream_of(b"one")
    with Peer(running.port) as peer:
        status, headers = peer.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").head()
        assert (status, headers["content-length"]) == (200, str(len("HEAD / ")))
        assert peer.send(b"HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n").head()[0] == 200
        assert peer.get().response().body == b"GET / "
        assert (
            peer.send(b"HEAD /no HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").head()[0] == 403
        )
        assert peer.rest() == b""


# ------------------------------------------------------------ bodies that arrive late


def held_bytes(running: RunningHttp) -> int:
    with suppress(RuntimeError):  # the server's thread has changed the counters
        return running.half_bytes()
    return -1


HALVES = [(b"Content-Length: 6\r\n\r\n", b"abc", b"def"),
          (b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"3\r\ndef\r\n0\r\n\r\n")]  # fmt: skip


@for_each("framing, first, rest", HALVES)
@for_each("kept", [False, True])
def test_a_request_whose_body_is_late_is_checked_once_and_served_once(
    framing: bytes, first: bytes, rest: bytes, kept: bool
) -> None:
    """The wait does not hold a thread."""
    endpoint = Endpoint()
    with serving(endpoint) as running, ExitStack() as stack:
        peers = [stack.enter_context(Peer(running.port)) for _ in range(8)]
        for peer in peers:
            if kept:
                assert peer.get("/before").response().status == 200
            peer.send(POST + framing + first)
        assert eventually(
            lambda: endpoint.checked == ["/"] * 8 and "0 requests, 8 waiting" in repr(running)
        ), running
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
def test_a_request_may_be_rejected_before_its_body_arrives(more: bytes) -> None:
    endpoint = Endpoint()
    with serving(endpoint) as running, Peer(running.port) as peer:
        found = peer.send(
            POST.replace(b"/", b"/no", 1) + more + b"Content-Length: 1000\r\n\r\n"
        ).response()
        assert (found.status, found.headers["connection"], found.body) == (403, "close", b"no\n")
        assert peer.finish().rest() == b"" and not endpoint.served


def test_a_rejected_body_that_has_arrived_is_skipped(running: RunningHttp) -> None:
    with Peer(running.port) as peer:
        assert peer.post(b"x" * 1000, "/no").response().status == 403
        assert peer.get("/b").response().body == b"GET /b "


@for_each(
    "framing", [b"Content-Length: 100000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n186a0\r\n"]
)
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
        assert eventually(lambda: most <= held_bytes(running) < most + 100 * HALF_BODIES), (
            held_bytes(running)
        )
        with Peer(running.port) as another:
            found = another.send(head + b"x" * 90_000).response()
            assert found.status == 503 and b"HttpOptions.body_bytes" in found.body
        with Peer(running.port) as short:
            short.send(POST + b"Content-Length: 30000\r\n\r\n" + b"y" * 20_000)
            assert eventually(lambda: held_bytes(running) > HALF_BODIES * 100_000), held_bytes(
                running
            )
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


def test_after_its_end_nothing_is_written_to_a_response(
    endpoint: Endpoint, running: RunningHttp
) -> None:
    kept: List[ResponseWriter] = []
    told: List[int] = []

    def stream(request: HttpRequest, writer: ResponseWriter) -> None:
        kept.append(writer)
        writer.token.on_cancel(lambda: told.append(1))
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
def test_a_fault_of_the_endpoint_is_not_shown_to_the_peer(misuse: Serve) -> None:
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


def test_a_fault_is_logged_once(
    endpoint: Endpoint, running: RunningHttp, caplog: pytest.LogCaptureFixture
) -> None:
    def twice(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.send(200, TEXT, b"first")
        writer.send(200, TEXT, b"second")

    endpoint.paths["/"] = twice
    with Peer(running.port) as peer:
        assert peer.get().response().body == b"first"
        assert peer.get("/b").response().body == b"GET /b "
    errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (
        len(errors) == 1
        and errors[0].exc_info is not None
        and "RuntimeError" in errors[0].getMessage()
    )


def test_an_endpoint_may_return_while_another_thread_begins_the_response(
    endpoint: Endpoint, running: RunningHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, returned, finish = threading.Event(), threading.Event(), SocketWriter.finish

    def slow(*given: Any) -> Any:
        entered.set()
        assert returned.wait(WAIT)
        return response_head(*given)

    def hand_over(request: HttpRequest, writer: ResponseWriter) -> None:
        threading.Thread(target=writer.send, args=(200, TEXT, b"late")).start()
        assert entered.wait(WAIT)

    monkeypatch.setattr(server_module, "response_head", slow)
    monkeypatch.setattr(SocketWriter, "finish", lambda writer: (returned.set(), finish(writer))[1])
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
    endpoint: Endpoint,
    running: RunningHttp,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(endpoint, "check", lambda request: 1 / 0)
    with Peer(running.port) as peer:
        assert peer.send(POST + b"Content-Length: 9\r\n\r\n").rest() == b""
    probe(running)
    assert "ZeroDivisionError" in caplog.text


# ------------------------------------------------------------ peers that leave


class Held:
    """A response that is held until the peer has left, and the state at that time."""

    def __init__(self, endpoint: Endpoint, *, begins: bool = True) -> None:
        self.running, self.told, self.ended = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.release = threading.Event()
        self.lost: List[bool] = []
        self._begins = begins
        endpoint.paths["/held"] = self.serve

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        writer.token.on_cancel(self.told.set)
        writer.token.on_cancel(self.release.set)
        writer.token.on_cancel(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
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
            writer.token.on_cancel(lambda: self.lost.append(True))
        finally:
            self.ended.set()


@pytest.mark.requirement("M:HTTP-36")
@pytest.mark.parametrize("leave", ["close", "reset", "finish"])
@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("more", [b"", b"P"], ids=["silent", "a byte of the next request"])
def test_a_peer_that_leaves_is_noticed_while_its_request_runs(
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


def test_silent_connections_are_closed_first_when_there_is_no_room(
    endpoint: Endpoint, crowd: None
) -> None:
    with ExitStack() as stack:
        running = stack.enter_context(serving(endpoint, max_connections=5))
        kept = stack.enter_context(Peer(running.port))
        assert kept.get().response().status == 200
        silent = [stack.enter_context(Peer(running.port)) for _ in range(20)]
        assert eventually(lambda: len(kept_connections(running)) == 5)
        with Peer(running.port) as new:
            assert new.get().response().status == 200 and kept.get().response().status == 200
        for each in silent:
            each.close()


def test_a_pipelining_peer_does_not_count_as_one_that_left(
    endpoint: Endpoint, running: RunningHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, look = threading.Semaphore(0), SocketWriter.look

    def counted(writer: SocketWriter) -> None:
        look(writer)
        looks.release()

    monkeypatch.setattr(SocketWriter, "look", counted)
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
def test_a_peer_that_reads_nothing_is_lost(endpoint: Endpoint, whole: bool) -> None:
    outcome: List[BaseException] = []
    told = threading.Event()

    def pour(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.token.on_cancel(told.set)
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


def test_a_peer_may_have_unlimited_time_to_read(endpoint: Endpoint) -> None:
    with serving(endpoint, write_timeout=1e9) as running:
        probe(running)


@pytest.mark.parametrize("flag", [0, getattr(socket, "MSG_DONTWAIT", 0)])
def test_a_rejection_waits_for_no_other_request(
    running: RunningHttp, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    """Where a call on a socket may block too, as on Windows."""
    monkeypatch.setattr(server_module, "DONT_WAIT", flag)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                ours.send(b"x" * 1000)
        ours.setblocking(True)
        refusing = threading.Thread(
            target=HttpConnection(ours, "peer", running).refuse, args=(HttpError(400, "no"),)
        )
        refusing.start()
        refusing.join(WAIT)
        waits = refusing.is_alive()
        theirs.close()
        refusing.join(WAIT)
        assert not waits


def test_a_peer_that_reads_can_be_recognized(endpoint: Endpoint, running: RunningHttp) -> None:
    seen: List[bool] = []
    full, gone = threading.Event(), threading.Event()

    def fill(request: HttpRequest, writer: ResponseWriter) -> None:
        writer.token.on_cancel(gone.set)
        writer.begin(200, TEXT)
        seen.append(writer.has_room())
        while eventually(
            writer.has_room, 0.1
        ):  # the system still moves sent bytes between its buffers
            writer.write(b"x" * 1000)
        seen.append(writer.has_room())
        full.set()
        assert gone.wait(WAIT)
        seen.append(eventually(writer.has_room))  # and writing raises the cause
        writer.write(b"x")

    endpoint.paths["/"] = fill
    with Peer(running.port) as peer:
        peer.get()
        assert full.wait(WAIT)
        peer.reset()
    assert eventually(lambda: len(seen) == 3) and seen == [True, False, True]


# ------------------------------------------------------------ slow peers, and many


CHUNKS = POST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n"


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("begins", [b"GET /", POST + b"Content-Length: 100000\r\n\r\n", CHUNKS])
def test_a_peer_that_sends_too_slowly_gets_a_timeout_response(
    begins: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, accept = threading.Event(), socket.socket.accept
    monkeypatch.setattr(socket.socket, "accept", lambda sock: (sent.wait(WAIT), accept(sock))[1])
    with serving(
        Endpoint(), timeouts=Timeouts(head=0.5, body=0.5, idle=WAIT, leave=WAIT)
    ) as running:
        with Peer(running.port) as peer:
            peer.send(begins)
            sent.set()  # a client that sends nothing in time gets no response

            def drip() -> bool:
                with suppress(ConnectionError):  # it has been shed this moment
                    peer.send(b"x")
                return bool(select.select([peer.socket], (), (), 0)[0])

            assert eventually(drip) and peer.rest().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("begins", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"])
def test_an_idle_peer_is_disconnected(begins: bytes) -> None:
    with serving(
        Endpoint(), timeouts=Timeouts(head=0.4, body=WAIT, idle=0.4, leave=0.2)
    ) as running:
        with Peer(running.port) as peer:
            assert peer.send(begins).rest().partition(b"\r\n\r\n")[2] in (b"", b"GET / ")


def test_bytes_that_arrived_while_the_server_was_stopped_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its deadline has passed at the check, but the server reads the bytes that arrived before."""
    sent = threading.Event()

    def stand_still(
        move: Any, running: RunningHttp, connection: HttpConnection, awaited: str
    ) -> None:
        move(running, connection, awaited)
        if awaited == HEAD:
            assert sent.wait(WAIT)
            connection.due, running.sweep_at = time.monotonic(), 0.0

    around(monkeypatch, RunningHttp, "_move", stand_still)
    with serving(Endpoint()) as running, Peer(running.port) as peer:
        peer.get()
        sent.set()
        assert peer.response().body == b"GET / "


@pytest.mark.skipif(
    sys.platform != "linux", reason="needs /proc, which Linux has, to count descriptors"
)
def test_no_descriptor_is_left_for_a_connection(
    running: RunningHttp, caplog: pytest.LogCaptureFixture
) -> None:
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
        assert eventually(lambda: "not accepting connections" in caplog.text)
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


def test_addresses_that_cannot_be_listened_on(running: RunningHttp) -> None:
    with pytest.raises(
        OSError, match=f"cannot listen on port {running.port} of 127.0.0.1: another program"
    ) as caught:
        serving(Endpoint(), port=running.port)
    assert caught.value.errno == errno.EADDRINUSE
    for port in (65536, "80"):
        with pytest.raises(
            ValueError, match=f"port must be a number from 0 to 65535, not {port!r}"
        ):
            serving(Endpoint(), port=port)
    for host in ("192.0.2.1", "0.0.0.0", "", "example.com", "::"):
        with pytest.raises(ValueError, match="name the hosts that they use in allowed_hosts"):
            serving(Endpoint(), host=host)
    with pytest.raises(OSError, match="cannot listen on port 0 of 192.0.2.1"):
        RunningHttp(Endpoint(), None, HttpOptions(allowed_hosts=["*"]), host="192.0.2.1")


def has_ipv6() -> bool:
    """Return whether this machine has an IPv6 address of its own, according to the system."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="needs the IPv6 address ::1 on this machine")
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


def test_endless_responses_are_cut(endpoint: Endpoint, crowd: None) -> None:
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


@pytest.mark.parametrize("hurries", [False, True])
def test_a_second_close_cuts_running_requests_only_after_its_grace(
    endpoint: Endpoint, running: RunningHttp, hurries: bool
) -> None:
    held = Held(endpoint)
    endpoint.drained.clear()
    with Peer(running.port) as peer:
        peer.get("/held")
        assert held.running.wait(WAIT)
        closing = [threading.Thread(target=running.close, args=(WAIT,)) for _ in range(2)]
        for thread in closing:
            thread.start()
        assert not held.told.wait(2 * server_module.CUT_SECONDS)
        if hurries:
            running.close(0)
            assert held.told.is_set() and running.ended
        held.release.set()
        assert hurries or peer.response().body == b"x"
        endpoint.drained.set()
        for thread in closing:
            thread.join(WAIT)
        assert running.ended


def test_threads_that_do_not_end_are_named(
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which Windows does not have")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_closes_only_its_own_descriptors(running: RunningHttp) -> None:
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
