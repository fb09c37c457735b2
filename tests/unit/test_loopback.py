"""The browser that returns to this machine, the browser that is opened, and pasted text as the
alternative."""

from __future__ import annotations

import io
import socket
import sys
import threading
import webbrowser
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Iterator, List, Optional
from urllib.parse import urlsplit

import pytest

from minimcp import AuthorizationError
from minimcp.auth import loopback
from minimcp.auth.loopback import LoopbackListener, open_browser, paste

from ..hosts.running import free_port
from ..support import WAIT, eventually

STATE = "a-state"


class Waiting:
    """A listener that a thread waits at."""

    def __init__(self, redirect_uri: Optional[str] = None) -> None:
        self.listener = LoopbackListener(redirect_uri)
        self._pool = ThreadPoolExecutor(1)
        self.came: "Future[Optional[str]]" = self._pool.submit(self.listener.wait, STATE, WAIT)
        self.host = urlsplit(self.listener.redirect_uri).netloc

    def visit(self, target: str, host: Optional[str] = None, method: str = "GET") -> bytes:
        """Return the response, as raw bytes."""
        return self.send(
            f"{method} {target} HTTP/1.1\r\nHost: {host or self.host}\r\n\r\n".encode()
        )

    def send(self, data: bytes) -> bytes:
        with socket.create_connection(self.listener.server_address[:2], timeout=WAIT) as peer:
            peer.sendall(data)
            return b"".join(iter(lambda: peer.recv(65536), b""))

    def close(self) -> None:
        self.listener.put("/")  # whoever still waits has something
        self._pool.shutdown()
        self.listener.server_close()


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    found = Waiting()
    yield found
    found.close()


def test_the_browser_is_awaited_and_shows_that_the_page_may_be_closed(waiting: Waiting) -> None:
    uri = waiting.listener.redirect_uri
    assert uri == f"http://127.0.0.1:{waiting.listener.server_address[1]}/callback"
    answer = waiting.visit(f"/callback?code=c%26d&state={STATE}&iss=https%3A%2F%2Fx")
    head, _, page = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    assert b"You can close this page" in page
    assert waiting.came.result(WAIT) == f"{uri}?code=c%26d&state={STATE}&iss=https%3A%2F%2Fx"


def test_the_page_loads_nothing_and_sends_no_referrer(waiting: Waiting) -> None:
    answer = waiting.visit(f"/callback?code=a-code&state={STATE}").decode()
    for header in (
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "Content-Security-Policy: default-src",
    ):
        assert header in answer
    assert "a-code" not in answer and "<script" not in answer and "Python" not in answer


@pytest.mark.parametrize("target", [
    "/", "/favicon.ico", "/callback", "/callback?code=x", "/callback?code=x&state=", "/callback?code=x&state=other",
    f"/other?code=x&state={STATE}", f"/callback/?code=x&state={STATE}", f"/callback?code=x&state={STATE}2",
    "/callback?code=x&state=%ff%00", f"/callback?state=other&state={STATE}", "/callback?" + "&".join("a" * 200),
    f"http://[/callback?state={STATE}",
])  # fmt: skip
def test_any_other_page_is_rejected_and_the_wait_continues(waiting: Waiting, target: str) -> None:
    answer = waiting.visit(target)
    assert answer.startswith(b"HTTP/1.0 404 ")
    assert b"No program is waiting for this page" in answer
    assert not waiting.came.done()
    waiting.visit(f"/callback?code=right&state={STATE}")
    assert "code=right" in str(waiting.came.result(WAIT))


@pytest.mark.parametrize("host", ["evil.example.com", "127.0.0.1", "localhost:1", "[::1]"])
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(waiting: Waiting, host: str) -> None:
    assert b"404" in waiting.visit(f"/callback?code=x&state={STATE}", host).splitlines()[0]
    assert not waiting.came.done()


def test_other_methods_and_invalid_http_are_rejected(waiting: Waiting) -> None:
    assert b"501" in waiting.visit(f"/callback?code=x&state={STATE}", method="POST").splitlines()[0]
    assert b"414" in waiting.send(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n").splitlines()[0]
    assert (
        b"431" in waiting.send(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n").splitlines()[0]
    )
    waiting.send(b"\x16\x03\x01\r\n\r\n")
    assert not waiting.came.done()


def test_requests_are_not_logged(waiting: Waiting, capfd: "pytest.CaptureFixture[str]") -> None:
    waiting.visit("/x?code=a-code")
    waiting.visit(f"/callback?code=a-code&state={STATE}")
    assert waiting.came.result(WAIT)
    assert "a-code" not in repr(waiting.listener)
    assert capfd.readouterr() == ("", "")


def test_connections_that_say_nothing_do_not_keep_the_browser_out(waiting: Waiting) -> None:
    silent = [socket.create_connection(waiting.listener.server_address[:2]) for _ in range(8)]
    waiting.visit(f"/callback?code=x&state={STATE}")
    assert waiting.came.result(WAIT)
    for each in silent:
        each.close()


def test_the_oldest_of_many_connections_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "MAX_CONNECTIONS", 2)
    waiting = Waiting()
    silent: List[socket.socket] = []
    for _ in range(4):
        silent.append(socket.create_connection(waiting.listener.server_address[:2], timeout=WAIT))
    assert [each.recv(1) for each in silent[:2]] == [b"", b""]
    for each in silent[2:]:
        each.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert each.recv(12) == b"HTTP/1.0 404"
    for each in silent:
        each.close()
    waiting.close()


def test_slow_connections_do_not_keep_the_browser_away(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "CONNECTION_SECONDS", 10 * WAIT)
    monkeypatch.setattr(loopback._Handler, "timeout", 10 * WAIT)
    slow = []
    for _ in range(3 * loopback.MAX_CONNECTIONS):
        slow.append(socket.create_connection(waiting.listener.server_address[:2], timeout=WAIT))
        slow[-1].sendall(b"GET / HTTP/1.1\r\nHost: ")
    assert b"can close this page" in waiting.visit(f"/callback?code=x&state={STATE}")
    assert waiting.came.result(WAIT)
    for each in slow:
        each.close()
    assert waiting.listener.wait(STATE, 0) is None


def test_a_connection_that_sends_single_bytes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "CONNECTION_SECONDS", 0.5)
    waiting = Waiting()
    sent = 0
    with socket.create_connection(waiting.listener.server_address[:2]) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: ")
        peer.settimeout(0.05)
        ended = None
        while ended is None and sent < 400:
            with suppress(OSError):
                peer.sendall(b"x")
            sent += 1
            try:
                ended = peer.recv(1)
            except socket.timeout:
                continue
            except OSError:
                ended = b""
    waiting.close()
    assert ended == b""
    # The peer notices the end before the listener forgets the connection.
    assert eventually(lambda: not waiting.listener._open)


def test_the_wait_ends_without_a_visitor() -> None:
    listener = LoopbackListener()
    assert listener.wait(STATE, 0) is None
    assert listener.wait(STATE, 0.1) is None
    listener.server_close()
    with pytest.raises(OSError):
        socket.create_connection(listener.server_address[:2], timeout=WAIT)


def test_no_request_is_accepted_before_the_wait() -> None:
    listener = LoopbackListener()
    assert not listener.is_awaited("/callback?code=x&state=")
    assert not listener.is_awaited("/callback?code=x")
    listener.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST"])
def test_a_redirect_uri_that_was_registered_is_kept_to_the_letter(host: str) -> None:
    uri = f"http://{host}:{free_port()}/a/b"
    waiting = Waiting(uri)
    assert waiting.listener.redirect_uri == uri
    assert b"can close this page" in waiting.visit(f"/a/b?state={STATE}", waiting.host.lower())
    assert waiting.came.result(WAIT) == f"{uri}?state={STATE}"
    with pytest.raises(OSError):
        LoopbackListener(uri.lower())  # the port is taken
    waiting.close()


@pytest.mark.parametrize(("written", "target", "host"), [
    ("http://127.0.0.1:{}", "/", "127.0.0.1:{}"), ("http://127.0.0.1:{}/", "/", "127.0.0.1:{}"),
    ("http://127.0.0.1:{}?x=1", "/", "127.0.0.1:{}"), ("HTTP://LOCALHOST:{}/Cb", "/Cb", "localhost:{}"),
    ("http://127.0.0.1:{}/a/../b", "/b", "127.0.0.1:{}"), ("http://127.0.0.1:{}/a/%2E%2e/b", "/b", "127.0.0.1:{}"),
    ("http://127.0.0.1:{}/./b", "/b", "127.0.0.1:{}"), ("http://127.0.0.1:{}/b/.", "/b/", "127.0.0.1:{}"),
    ("http://127.0.0.1:{}/b/..", "/", "127.0.0.1:{}"), ("http://127.0.0.1:{}/../..", "/", "127.0.0.1:{}"),
    ("http://127.0.0.1:{}/caf\u00e9", "/caf%C3%A9", "127.0.0.1:{}"), ("http://127.0.0.1:{}/caf%c3%a9", "/caf%c3%a9", "127.0.0.1:{}"),
    ('http://127.0.0.1:{}/a"b<c>`^|', "/a%22b%3Cc%3E%60^|", "127.0.0.1:{}"), ("http://127.0.0.1:{}/a//b", "/a//b", "127.0.0.1:{}"),
    ("http://[0:0::1]:{}/x", "/x", "[::1]:{}"), ("http://localhost:0{}/x", "/x", "localhost:{}"),
])  # fmt: skip
def test_a_redirect_uri_is_recognized_as_a_browser_requests_it(
    written: str, target: str, host: str
) -> None:
    port = free_port()
    if ":0{}" in written and port > 9999:
        written = written.replace(":0{}", ":{}")
    uri = written.format(port)
    try:
        waiting = Waiting(uri)
    except OSError:
        assert "[" in uri  # a system without IPv6
        return
    assert waiting.listener.redirect_uri == uri  # as the authorization server compares it
    for other in (f"{target}x", f"{target.rstrip('/')}/y", "/other"):
        answer = waiting.visit(f"{other}?state={STATE}", host.format(port))
        assert answer.startswith(b"HTTP/1.0 404 ")
    assert b"can close this page" in waiting.visit(
        f"{target}?code=c&state={STATE}", host.format(port)
    )
    assert str(waiting.came.result(WAIT)).endswith(f"?code=c&state={STATE}")
    waiting.close()


def test_a_browser_leaves_the_usual_port_out(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(loopback, "DEFAULT_PORT", port)
    for host in ("localhost", f"localhost:{port}"):
        waiting = Waiting(f"http://localhost:{port}/x")
        assert b"can close this page" in waiting.visit(f"/x?state={STATE}", host)
        waiting.close()


@pytest.mark.parametrize("uri", [
    "https://127.0.0.1:1/x", "http://127.0.0.1.example.com/", "http://localhost@example.com/", "http://0.0.0.0:1/x",
])  # fmt: skip
def test_no_other_address_is_listened_on(uri: str) -> None:
    with pytest.raises(ValueError):
        LoopbackListener(uri)


# ------------------------------------------------------------ the browser


def test_a_browser_is_opened_with_the_url_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: List[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not opened.append(url))
    open_browser("HTTPS://Example.com/a%20b?c=$(d)&e='")
    assert opened == ["https://example.com/a%20b?c=%24%28d%29&e=%27"]


@pytest.mark.parametrize("url", [
    "javascript:alert(1)", "http://example.com/", "--version", "https://example.com/\n--version",
])  # fmt: skip
def test_anything_else_is_never_opened(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: "pytest.CaptureFixture[str]"
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(f"opened {url}"))
    with pytest.raises(ValueError):
        open_browser(url)
    with pytest.raises(ValueError):
        paste(url)
    assert capsys.readouterr() == ("", "")


def test_the_message_without_a_browser_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    with pytest.raises(AuthorizationError, match="--no-browser"):
        open_browser("https://example.com/")


BROWSERS = {
    "one that nobody sees": lambda url: True,
    "one that prints": lambda url: bool(print("a browser's words")) or True,
    "none": lambda url: False,
    "one that breaks": lambda url: {}["a fault of the package"],
}


@pytest.mark.parametrize("kind", BROWSERS)
def test_the_address_is_always_printed(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: "pytest.CaptureFixture[str]"
) -> None:
    monkeypatch.setattr(webbrowser, "open", BROWSERS[kind])
    if kind in ("none", "one that breaks"):
        with pytest.raises(AuthorizationError, match="--no-browser"):
            open_browser("https://example.com/authorize?x=1")
    else:
        open_browser("https://example.com/authorize?x=1")
    assert "\nhttps://example.com/authorize?x=1\n" in capsys.readouterr().err


def test_a_browser_in_the_foreground_does_not_keep_the_program_from_listening(
    monkeypatch: pytest.MonkeyPatch, capsys: "pytest.CaptureFixture[str]"
) -> None:
    closed = threading.Event()
    monkeypatch.setattr(loopback, "OPEN_SECONDS", 0.05)
    monkeypatch.setattr(webbrowser, "open", lambda url: closed.wait(WAIT))
    open_browser("https://example.com/")
    assert not closed.is_set()
    closed.set()
    assert "https://example.com/" in capsys.readouterr().err


def test_a_program_without_stderr_opens_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: List[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not opened.append(url))
    monkeypatch.setattr(sys, "stderr", None)
    open_browser("https://example.com/")
    assert opened == ["https://example.com/"]


# ------------------------------------------------------------ paste


def test_the_address_is_shown_and_the_answer_read(
    monkeypatch: pytest.MonkeyPatch, capsys: "pytest.CaptureFixture[str]"
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f" http://127.0.0.1/callback?state={STATE} \n"))
    assert paste("https://example.com/page?a=b") == f"http://127.0.0.1/callback?state={STATE}"
    assert "\nhttps://example.com/page?a=b\n" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "\n", " \n"])
def test_nothing_pasted_is_an_error(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(line))
    with pytest.raises(AuthorizationError, match="nothing was pasted"):
        paste("https://example.com/")
