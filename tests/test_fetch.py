"""One request over HTTP: what it is made of, how it is given up, and what is said when it fails."""

from __future__ import annotations

import threading
import weakref
from typing import Any, List

import pytest

from minimcp.errors import ConnectionFailed, ConnectionLost, ProtocolViolation
from minimcp.fetch import Fetcher, shown
from minimcp.sending import Cuttable, Sending

from .scripted import Task
from .support import WAIT, run_python
from .web import Heard, Peer, Wire


def test_what_is_shown_of_a_url() -> None:
    assert shown("https://user:pw@host:8443/mcp?token=secret") == "https://host:8443/mcp"


def test_without_the_package_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['requests'] = None\n"
        "import minimcp\n"
        "try: minimcp.connect('http://127.0.0.1:1/')\n"
        "except ImportError as error: print(error)"
    )
    done = run_python(["-c", program])
    assert b"needs the package 'requests': install it with: pip install requests" in done.stdout, done.stderr


def test_nothing_is_imported_that_is_not_needed() -> None:
    done = run_python(["-c", "import sys, minimcp; minimcp.connect; print('requests' in sys.modules)"])
    assert done.stdout.strip() == b"False", done.stderr


@pytest.mark.parametrize("options", [{"cert": "/no/such/file"}, {"verify": "/no/such/file"}])
def test_options_that_cannot_be(options: Any) -> None:
    with pytest.raises(ValueError, match="https://localhost/: .*file"):
        Fetcher("https://localhost/", **options)


def test_what_was_given_up_before_is_not_sent() -> None:
    with Peer() as peer:
        fetcher, sending = Fetcher(peer.url), Sending()
        sending.end()
        with pytest.raises(ConnectionLost, match="given up before"):
            fetcher.send(sending, "GET", {})
        fetcher.close()
        assert not peer.heard


class Pieces:
    """A connection that sends a request in two pieces, as `http.client` does."""

    def __init__(self) -> None:
        self.sock: Any = None
        self.sent: List[bytes] = []

    def request(self, body: bytes) -> None:
        self.send(b"head ")
        if not body:
            raise ValueError("no body")
        self.send(body)

    def send(self, data: bytes) -> None:
        self.sent.append(data)


class Whole(Cuttable, Pieces):  # type: ignore[misc]
    """The same as the pools have it."""

    kept_in: Any = weakref.WeakSet()


def test_a_request_is_sent_in_one_piece_or_not_at_all() -> None:
    whole = Whole()
    whole.request(b"body")
    with pytest.raises(ValueError, match="no body"):
        whole.request(b"")
    whole.send(b"more")
    assert whole.sent == [b"head body", b"more"]


def test_a_late_end_harms_no_other_request_on_the_same_connection() -> None:
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(20):
            first, second = Sending(), Sending()
            assert fetcher.send(first, "GET", {}).body(None) == b"x"
            answer = fetcher.send(second, "GET", {})
            first.end()
            assert answer.body(10) == b"x"
            second.end()  # it lies in the pool: the next request notices, and takes another
        fetcher.close()


@pytest.mark.parametrize(("kept", "connections"), [(WAIT, 1), (-1.0, 3)])
def test_a_connection_that_was_idle_is_not_used_again(
    kept: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.sending.KEPT_SECONDS", kept)
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(3):
            assert fetcher.send(Sending(), "GET", {}).body(None) == b"x"
        fetcher.close()
        assert len(peer._socks) == connections


@pytest.mark.parametrize("said", [
    b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nx", b"HTTP/1.0 200 OK\r\n\r\nx",
])
def test_whoever_waits_is_woken_and_the_server_sees_it(said: bytes) -> None:
    """Also where no other request will use the connection: of that one `http.client` knows nothing any more."""
    waits, gone = threading.Event(), threading.Event()

    def hang(heard: Heard, wire: Wire) -> None:
        wire.raw(said)
        waits.set()
        if wire.sock.recv(1) == b"":
            gone.set()

    with Peer({"GET": hang}) as peer:
        fetcher, sending = Fetcher(peer.url), Sending()
        task = Task(lambda: fetcher.send(sending, "GET", {}).body(None))
        assert waits.wait(WAIT)
        sending.end()
        assert gone.wait(WAIT)
        if b"1.0" in said:
            assert task.result() == b"x"  # such a body ends with its connection, whoever closed it
        else:
            with pytest.raises(ConnectionLost, match="the connection broke|ends too early"):
                task.result()
        fetcher.close()


def test_a_pause_ends_when_it_is_given_up() -> None:
    sending = Sending()
    assert sending.pause(0.01)
    task = Task(sending.pause, WAIT)
    sending.end()
    assert task.result() is False and sending.pause(WAIT) is False


def test_two_threads_may_close_it_at_once() -> None:
    fetcher, closed = Fetcher("http://127.0.0.1:1/"), []

    class Pool:
        """Breaks, as those of the package do, when two threads close it at once."""

        def close(self) -> None:
            closed.append(len(closed))
            assert len(closed) == 1
            Task(fetcher.close).result()

    fetcher._ways["x"] = Pool(), ""
    fetcher.close()
    assert closed == [0]
    fetcher._ways.clear()
    fetcher.close()


def test_a_body_that_is_longer_than_it_may_be() -> None:
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x" * 100)}) as peer:
        fetcher = Fetcher(peer.url)
        for limit in (100, None):
            answer = fetcher.send(Sending(), "GET", {})
            assert answer.body(limit) == b"x" * 100
        answer = fetcher.send(Sending(), "GET", {})
        with pytest.raises(ProtocolViolation, match="longer than 99 bytes"):
            answer.body(99)
        assert answer.start(5) == b"xxxxx"
        answer.close()
        fetcher.close()


def test_a_header_with_a_line_end_is_not_sent() -> None:
    with Peer() as peer:
        fetcher = Fetcher(peer.url)
        with pytest.raises(ConnectionFailed, match="cannot be sent"):
            fetcher.send(Sending(), "GET", {"X": "a\r\nY: b"})
        fetcher.close()
        assert not peer.heard


def test_cookies_come_back_so_that_balancers_find_the_way() -> None:
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", Set_Cookie="route=7; Path=/")}) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(2):
            assert fetcher.send(Sending(), "GET", {}).body(None) == b"x"
        fetcher.close()
        assert "cookie" not in peer.heard[0].headers and peer.heard[1].headers["cookie"] == "route=7"
