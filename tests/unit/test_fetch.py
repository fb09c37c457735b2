"""One HTTP request: its parts, its cancellation, and its error messages."""

from __future__ import annotations

import random
import socket
import threading
import tracemalloc
from contextlib import ExitStack
from ipaddress import ip_address
from typing import Any, Iterator, List
from urllib.parse import urlsplit

import pytest
import requests
import urllib3

from minimcp.errors import ConnectionFailed, ConnectionLost, ProtocolViolation
from minimcp.http import fetch
from minimcp.http.fetch import AbortableRequest, Fetcher, FetchResponse, same_origin
from minimcp.protocol.urls import parse_web_url

from ..inside import pools_of
from ..scripted import Task
from ..support import WAIT, eventually, run_python
from ..web import Heard, Peer, Wire


def test_the_error_without_the_package_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['requests'] = None\n"
        "import minimcp\n"
        "try: minimcp.connect('http://127.0.0.1:1/')\n"
        "except ImportError as error: print(error)"
    )
    done = run_python(["-c", program])
    assert b"needs the package 'requests': install it with: pip install requests" in done.stdout, (
        done.stderr
    )


class TinyPieces:
    """Return a response whose body arrives in this many pieces of two bytes."""

    status, headers = 200, {}  # type: Any, Any

    def __init__(self, count: int) -> None:
        self.left = count

    def read1(self, size: int) -> bytes:
        self.left -= 1
        return b"%02d" % (self.left % 100) if self.left >= 0 else b""


def test_a_body_in_tiny_pieces_costs_no_more_than_its_bytes() -> None:
    tracemalloc.start()
    try:
        body = FetchResponse("a test", TinyPieces(20_000)).body(None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(body) == 40_000 and body.startswith(b"9998") and body.endswith(b"0100")
    assert peak < 400_000  # a list of pieces would take 1.6 MB


def test_keeping_the_error_does_not_keep_the_body() -> None:
    with pytest.raises(ProtocolViolation, match="longer than 100000 bytes") as caught:
        FetchResponse("a test", TinyPieces(10**9)).body(100_000)
    [body] = [
        each.frame.f_locals["found"] for each in caught.traceback if "found" in each.frame.f_locals
    ]
    assert body == b""


def test_each_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        addresses = [("127.0.0.1", 1), ("127.0.0.1", peer.port)]

        def names(host: str, port: int, **more: Any) -> Any:
            assert host == "several.example"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", names)
        fetcher = Fetcher("http://several.example/mcp")
        assert fetcher.send(AbortableRequest(), "GET", {}).body(None) == b"x"
        fetcher.close()
    fetcher = Fetcher("http://several.example/mcp")
    for left, words in ((1, "refused"), (0, "no address")):
        del addresses[left:]
        with pytest.raises(ConnectionFailed, match=words):
            fetcher.send(AbortableRequest(), "GET", {})
    fetcher.close()


def test_a_request_knows_the_address_that_its_connection_led_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The present address of the name does not matter, and neither does the address of a proxy."""
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        found = [("127.0.0.1", peer.port)]
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in found],
        )
        fetcher = Fetcher("http://several.example/mcp")
        for _ in range(2):  # the second request uses the open connection
            request = AbortableRequest()
            assert request.address == ""
            assert fetcher.send(request, "GET", {}).body(None) == b"x"
            assert request.address == "127.0.0.1"
            found[:] = [("8.8.8.8", 1)]
        fetcher.close()
        found[:] = [("127.0.0.1", peer.port)]
        proxied = Fetcher("http://several.example/mcp", proxies={"http": "http://proxy.example"})
        request = AbortableRequest()
        assert proxied.send(request, "GET", {}).body(None) == b"x"
        assert request.address == ""
        proxied.close()


def test_the_address_of_the_connected_socket_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: List[str] = []

    def is_allowed(address: str) -> bool:
        checked.append(address)
        return len(checked) < 2

    with Peer() as peer:
        fetcher = Fetcher(peer.url)
        with pytest.raises(ConnectionFailed, match="private network"):
            fetcher.send(AbortableRequest(allowed=is_allowed), "GET", {})
        fetcher.close()
        assert not peer.heard
    assert checked == ["127.0.0.1", "127.0.0.1"]


def test_an_address_in_brackets() -> None:
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        except OSError:
            return  # a system without: nothing to be reached by it
        thread = Task(lambda: listener.accept()[0].close())
        with pytest.raises(ConnectionLost):
            Fetcher(f"http://[::1]:{listener.getsockname()[1]}/").send(
                AbortableRequest(), "GET", {}
            )
        thread.result()


@pytest.fixture
def full() -> Iterator[int]:
    """A port where connections are never made: the queue is full, and the system lets the next ones
    wait."""
    with socket.socket() as listener, socket.socket() as one, socket.socket() as two:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for first in (one, two):
            first.setblocking(False)
            first.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_connecting_can_be_given_up(full: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECT_SECONDS", 100 * WAIT)
    sending = AbortableRequest()
    task = Task(lambda: Fetcher(f"http://127.0.0.1:{full}/").send(sending, "GET", {}))
    assert eventually(lambda: sending.connection is not None)
    sending.abort()
    with pytest.raises(ConnectionFailed, match="aborted while connecting"):
        task.result()


def test_agreeing_on_tls_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECT_SECONDS", 100 * WAIT)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending, fetcher = (
            AbortableRequest(),
            Fetcher(f"https://127.0.0.1:{listener.getsockname()[1]}/"),
        )
        task = Task(lambda: fetcher.send(sending, "GET", {}))
        with listener.accept()[0] as silent:
            assert silent.recv(1)  # it has begun
            sending.abort()
            with pytest.raises(ConnectionFailed):
                task.result()


def test_a_request_cancelled_before_is_not_sent() -> None:
    with Peer() as peer:
        fetcher, sending = Fetcher(peer.url), AbortableRequest()
        sending.abort()
        with pytest.raises(ConnectionLost, match="aborted before"):
            fetcher.send(sending, "GET", {})
        fetcher.close()
        assert not peer.heard


def test_a_request_is_sent_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: List[bytes] = []
    sendall = socket.socket.sendall
    monkeypatch.setattr(
        socket.socket, "sendall", lambda sock, data: sent.append(bytes(data)) or sendall(sock, data)
    )
    with Peer({"an answer": lambda heard, wire: wire.whole(202)}) as peer:
        fetcher = Fetcher(peer.url)
        fetcher.send(AbortableRequest(), "POST", {}, b"{}")
        fetcher.close()
    [request] = [data for data in sent if data.startswith(b"POST")]
    assert request.endswith(b"\r\n\r\n{}")


def test_a_late_end_harms_no_other_request_on_the_same_connection() -> None:
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(20):
            first, second = AbortableRequest(), AbortableRequest()
            assert fetcher.send(first, "GET", {}).body(None) == b"x"
            answer = fetcher.send(second, "GET", {})
            first.abort()
            assert answer.body(10) == b"x"
            second.abort()  # it lies in the pool: the next request notices, and takes another
        fetcher.close()


@pytest.mark.parametrize(("kept", "connections"), [(WAIT, 1), (-1.0, 3)])
def test_a_connection_that_was_idle_is_not_used_again(
    kept: float, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.http.fetch.KEPT_SECONDS", kept)
    with Peer({"GET": lambda heard, wire: wire.whole(200, b"x", "text/plain")}) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(3):
            assert fetcher.send(AbortableRequest(), "GET", {}).body(None) == b"x"
        fetcher.close()
        assert peer.connections == connections


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nx",
        b"HTTP/1.0 200 OK\r\n\r\nx",
    ],
)
def test_a_waiting_thread_is_woken_and_the_server_notices(said: bytes) -> None:
    """Holds also if no other request will use the connection, because `http.client` has already
    forgotten it."""
    waits, gone = threading.Event(), threading.Event()

    def hang(heard: Heard, wire: Wire) -> None:
        wire.raw(said)
        waits.set()
        if wire.sock.recv(1) == b"":
            gone.set()

    with Peer({"GET": hang}) as peer:
        fetcher, sending = Fetcher(peer.url), AbortableRequest()
        task = Task(lambda: fetcher.send(sending, "GET", {}).body(None))
        assert waits.wait(WAIT)
        sending.abort()
        assert gone.wait(WAIT)
        if b"1.0" in said:
            assert task.result() == b"x"  # such a body ends with its connection, whoever closed it
        else:
            with pytest.raises(ConnectionLost, match="the connection broke|ends too early"):
                task.result()
        fetcher.close()


def test_two_threads_may_close_it_at_once() -> None:
    fetcher, closed = Fetcher("http://127.0.0.1:1/"), []

    class Pool:
        """Breaks, as those of the package do, when two threads close it at once."""

        def close(self) -> None:
            closed.append(len(closed))
            assert len(closed) == 1
            Task(fetcher.close).result()

    pools_of(fetcher)["x"] = Pool(), ""
    fetcher.close()
    assert closed == [0]
    pools_of(fetcher).clear()
    fetcher.close()


def test_cookies_are_returned_for_load_balancers() -> None:
    with Peer(
        {"GET": lambda heard, wire: wire.whole(200, b"x", Set_Cookie="route=7; Path=/")}
    ) as peer:
        fetcher = Fetcher(peer.url)
        for _ in range(2):
            assert fetcher.send(AbortableRequest(), "GET", {}).body(None) == b"x"
        fetcher.close()
        assert (
            "cookie" not in peer.heard[0].headers and peer.heard[1].headers["cookie"] == "route=7"
        )


URL_PIECES = [
    "http://",
    "https://",
    "HTTP://",
    "http:",
    "//",
    "/",
    "\\",
    "@",
    ":",
    "80",
    "0",
    "99999",
    ".",
    "%2e",
    "%",
    "#",
    "?",
    "[",
    "]",
    "[::1]",
    "[::ffff:1.2.3.4]",
    "::1",
    "127.0.0.1",
    "127.1",
    "0x7f",
    "1",
    "a.example",
    "B",
    "xn--a-b",
    "-",
    "\t",
    "\n",
    "\r",
    " ",
    "\x00",
    "\x1b",
    "\x85",
    "\xa0",
    "\u3002",
    "\uff0f",
    "\u2028",
    "\u0130",
    "\u017f",
    "\u212a",
    "\ud800",
    "&",
    "=",
    "user",
    "x/y",
    ";",
    "_",
    "\xe9",
]


def test_parsers_of_urls_agree_about_the_host_of_accepted_urls() -> None:
    """Drawn by a seed and not by hypothesis, which takes ten times as long for as many."""
    chance, taken = random.Random(9), 0
    for _ in range(6000):
        pieces = chance.choices(URL_PIECES, k=chance.randrange(9))
        url = chance.choice(["", "http://", "https://a.example"]) + "".join(pieces)
        for userinfo in (False, True):
            try:
                scheme, host, port = parse_web_url(url, userinfo=userinfo)
            except ValueError:
                continue
            taken += 1
            first, second = urlsplit(url), urllib3.util.parse_url(url)
            third = urlsplit(str(requests.Request("GET", url).prepare().url))
            usual = 443 if scheme == "https" else 80
            assert {first.scheme, second.scheme, third.scheme} == {scheme}
            for found in (first.hostname, str(second.host).strip("[]"), third.hostname):
                assert found == host or ip_address(str(found)) == ip_address(host)
            assert {first.port or usual, second.port or usual, third.port or usual} == {port}
            assert userinfo or first.username is second.auth is None
    assert taken > 300


@pytest.mark.requirement("SEC-09")
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "http://a.example:80/b"),
        ("http://A.example/b?c", "http://A.example/b?c"),
        ("?d", "http://a.example:80/a?d"),
        ("//a.example/b", "http://a.example/b"),
        ("http://b.example/", None),
        ("https://a.example/", None),
        ("\t/b", None),
        ("http://b.example\\@a.example/", None),
        ("http://user@a.example/", None),
        ("http://a.example:81/", None),
        ("/b c", None),
        ("http://[", None),
        ("", "http://a.example:80/a"),
        ("/b\x85", None),
        ("javascript:alert(1)", None),
        ("http://b.example#@a.example/", None),
        ("\\\\b.example/", None),
        ("ht\ttp://a.example/", None),
    ],
)
def test_urls_that_a_server_may_redirect_a_client_to(location: str, target: Any) -> None:
    assert same_origin("http://me:secret@a.example:80/a", location) == target


def test_an_error_has_the_context_of_the_connection_not_of_its_caller() -> None:
    with Peer({"GET": lambda heard, wire: wire.cut()}) as peer:
        fetcher = Fetcher(peer.url)
        try:
            raise OSError(5, "trouble of the caller")
        except OSError:
            with pytest.raises(
                ConnectionLost, match="RemoteDisconnected|ConnectionReset"
            ) as caught:
                fetcher.send(AbortableRequest(), "GET", {})
        fetcher.close()
        assert "caller" not in str(caught.value)
