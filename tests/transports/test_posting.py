"""What both HTTP transports share: naming a server, messages without an answer, threads, and the end."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, List

import pytest

import minimcp
from minimcp.engine.timer import Deadline
from minimcp.errors import ConnectionLost, RequestTimeout
from minimcp.http import recognition
from minimcp.http.client import HttpPipe

from ..scripted import no_threads
from ..support import WAIT, eventually
from ..web import DONE, Heard, Peer, Wire


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """A port may be another test's server by now."""
    recognition._known.clear()


def connect(peer: Peer, **options: Any) -> minimcp.Client:
    return minimcp.connect(minimcp.HttpServer(peer.url, **options), timeout=WAIT, connect_timeout=WAIT)


def test_naming_a_server() -> None:
    server = minimcp.HttpServer("https://me:pw@host/mcp?key=1#top", headers={"A": "b"}, auth="secret")
    assert repr(server) == "HttpServer('https://host/mcp')" and server.url.endswith("?key=1")
    with pytest.raises(TypeError, match="a URL is a str, not int"):
        minimcp.HttpServer(5)  # type: ignore[arg-type]
    for url in ("ftp://x", "http://", "http:///x", "x", "http://[::1", "http://x:99999", "http://x:y"):
        with pytest.raises(ValueError, match="a URL begins"):
            minimcp.HttpServer(url)


def test_options_of_a_named_server_are_its_own() -> None:
    server = minimcp.HttpServer("http://x/")
    for options in ({"headers": {}}, {"auth": "x"}, {"verify": False}, {"cert": "x"}, {"proxies": {}}):
        with pytest.raises(TypeError, match="are part of the HttpServer"):
            minimcp.connect(server, **options)
        with pytest.raises(TypeError, match="apply to a server with a URL only"):
            minimcp.connect(["program"], **options)
    for options in ({"env": {}}, {"cwd": "."}):
        for target in (server, "http://x/"):
            with pytest.raises(TypeError, match="env and cwd do not apply to a server with a URL"):
                minimcp.connect(target, **options)
    with pytest.raises(TypeError, match="stderr does not apply to a URL"):
        minimcp.connect("http://x/", stderr=print)


def test_a_message_that_is_not_taken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    said: Any = {
        "notifications/bad": lambda heard, wire: wire.error(-32600, "bad"),
        "notifications/gone": lambda heard, wire: wire.cut(),
    }
    with Peer(said, handshake=True) as peer, connect(peer) as client:
        client.notify("notifications/bad")
        client.notify("notifications/gone")
        peer.wait_for("notifications/bad")
        peer.wait_for("notifications/gone")
        client._sessions.newest.session._pipe.ready(Deadline(WAIT))
    assert "a message was not taken: bad (-32600)" in caplog.text and "did not arrive: POST" in caplog.text


def test_the_server_must_take_the_word_that_all_is_well() -> None:
    def hang(heard: Heard, wire: Wire) -> None:
        wire.sock.recv(1)

    with Peer({"notifications/initialized": hang}, handshake=True) as peer:
        with pytest.raises(RequestTimeout, match="a message was not taken within"):
            minimcp.connect(peer.url, connect_timeout=1.5)


def test_no_thread_for_a_request_is_the_end_of_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer() as peer, connect(peer) as client:
        client.call_tool("t")
        workers = client._sessions.newest.session._pipe._workers  # type: ignore[attr-defined]
        assert eventually(lambda: " 0 running" in repr(workers)), "the thread of the first call would take the second"
        workers.close()
        with no_threads(monkeypatch), pytest.raises(ConnectionLost, match="no more threads"):
            client.call_tool("t")
        with no_threads(monkeypatch):
            client.notify("notifications/x")
        assert client.call_tool("t").text == "done"


def test_many_calls_at_once_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    from minimcp.http import posting

    monkeypatch.setattr(posting, "AT_ONCE", 3)
    now, most, state_lock = [0], [0], threading.Lock()

    def call(heard: Heard, wire: Wire) -> None:
        with state_lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.01)
        with state_lock:
            now[0] -= 1
        wire.result(DONE)

    with Peer({"tools/call": call}) as peer, connect(peer) as client:
        results: List[Any] = client.call_tools([("t", {})] * 20)
        assert [each.text for each in results] == ["done"] * 20 and most[0] <= 3


def test_a_fork_says_nothing_to_the_server() -> None:
    with Peer(handshake=True) as peer, connect(peer) as client:
        pid = os.fork()
        if pid == 0:  # pragma: no cover
            signal.alarm(int(WAIT))
            try:
                client.call_tool("t")
            except ConnectionLost:
                client.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert "DELETE" not in peer.methods and client.call_tool("t").text == "done"


def test_a_pipe_that_was_never_opened() -> None:
    pipe = HttpPipe(minimcp.HttpServer("http://127.0.0.1:1/"), None)
    pipe.finish()
    pipe.close()
    with pytest.raises(ConnectionLost, match="it is closed"):
        pipe.send(b"{}\n", 0)
