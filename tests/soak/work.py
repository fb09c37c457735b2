"""The work of each round: calls of every kind, questions, cancellations, and connections that open
and close."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, List, Tuple

import minimcp
from minimcp import CancelToken, Client
from minimcp.http.headers import HttpRequest

from ..history.server import padded
from ..inside import session_of
from ..interop.checking import expect_raised
from ..support import ROOT, WAIT, eventually
from ..transports.http_app import HANDSHAKE, call, message, post
from ..transports.http_peer import Peer
from .samples import RESTING, descriptors_of
from .server import COMMAND, make, settle

WAYS = {"alone": "auto", "session": "handshake", "older": "handshake"}
"""The ways to speak over HTTP, and the revision that a client asks for."""

INFO = {"name": "soak", "version": "1"}
STEPS = 50  # of an abandoned call, which takes about 0.1 s


class WebServer:
    """A server that listens as long as this. Thread-safe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "http"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=str(ROOT),
            text=True,
        )
        assert self._process.stdout is not None
        self.url, self._older = self._process.stdout.readline().split()
        self.pid, self._port = self._process.pid, int(self.url.split(":")[2].split("/")[0])

    def connect(self, way: str, **options: Any) -> minimcp.Client:
        return minimcp.connect(
            self._older if way == "older" else self.url, revision=WAYS[way], **options
        )

    def close(self) -> None:
        self._process.communicate(timeout=WAIT)

    def vanish(self, dice: random.Random) -> None:
        """Start a session with raw bytes, and leave in the middle."""
        peers: List[Peer] = []
        try:
            VANISHING[dice.choice(list(WAYS))](self, dice, peers)
        finally:
            for peer in peers:
                (peer.reset if dice.random() < 0.5 else peer.close)()

    def _send(
        self, peers: List[Peer], request: HttpRequest, part: float = 1.0, **more: str
    ) -> Peer:
        peers.append(Peer(self._port))
        data = wire(request, self._port, **more)
        return peers[-1].send(data[: int(len(data) * part)])

    def _leave_alone(self, dice: random.Random, peers: List[Peer]) -> None:
        """Leave a request that is cut off, a call that reports nothing, or a stream."""
        tool, size = dice.choice([("hold", 0), ("work", STEPS)])
        part = dice.choice([0.5, 1.0, 1.0])
        peer = self._send(peers, call(tool, {"tag": "vanished", "size": size}, token="p"), part)
        if tool == "work" and part == 1.0:
            peer.until(b"data:")

    def _leave_session(self, dice: random.Random, peers: List[Peer]) -> None:
        """Leave a session with a stream and a call. It expires when it is not used for a while."""
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": INFO}
        opened = self._send(peers, post(message("initialize", hello))).response().headers
        session = {"mcp-session-id": opened["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        begun = post(message("notifications/initialized", id=None))
        assert self._send(peers, begun, **session).head()[0] == 202
        if dice.random() < 0.5:
            get = HttpRequest("GET", "/mcp", {"Accept": "text/event-stream"})
            assert self._send(peers, get, **session).head()[0] == 200
        params = {
            "name": "work",
            "arguments": {"tag": "vanished", "size": STEPS},
            "_meta": {"progressToken": "p"},
        }
        self._send(peers, post(message("tools/call", params)), **session).until(b"data:")

    def _leave_older(self, dice: random.Random, peers: List[Peer]) -> None:
        self._send(peers, HttpRequest("GET", "/sse", {"Accept": "text/event-stream"})).until(
            b"data:"
        )


VANISHING = {
    "alone": WebServer._leave_alone,
    "session": WebServer._leave_session,
    "older": WebServer._leave_older,
}


def wire(request: HttpRequest, port: int, **more: str) -> bytes:
    """Return the bytes of a request to a port of this machine."""
    body: Any = request.body
    headers = {**dict(request.headers), "host": f"localhost:{port}", **more}
    if request.method == "POST":
        headers["content-length"] = str(len(body))
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(body)


SERVER = minimcp.StdioServer(COMMAND, cwd=ROOT)
SHORT = 0.01  # seconds that calls get which shall run out of time


def _elicit(request: Any) -> Dict[str, str]:
    return {"tag": request.message}


def _session(client: Client) -> Any:
    return session_of(client)


class Work:
    """Clients that live as long as this object, and actions with them. Thread-safe."""

    def __init__(self, seed: int) -> None:
        self.done: "Counter[str]" = Counter()
        self.faults: List[str] = []
        self._seed, self._numbers = seed, 0
        self._lock = threading.Lock()
        self._server, self._web = make(), WebServer()
        self._web_rest = descriptors_of(self._web.pid)
        self._restarting = threading.Lock()  # one at a time kills it and calls it
        self._heard: Dict[
            str, threading.Event
        ] = {}  # by URI: a thread waits for an update of the resource
        options: Dict[str, Any] = {
            "elicit": _elicit,
            "on_resource_updated": self._hear,
            "timeout": WAIT,
        }
        self._child = minimcp.connect(SERVER, stderr=lambda line: None, **options)
        self.doomed = minimcp.connect(SERVER, stderr=lambda line: None, restart=True, **options)
        self._clients = [
            self._child,
            minimcp.connect(self._server, **options),
            minimcp.connect(self._server, revision="handshake", **options),
            *(self._web.connect(way, **options) for way in WAYS),
        ]
        self.pids = {
            "": os.getpid(),
            "server": _session(self._child).transport.pid,
            "web server": self._web.pid,
        }
        """The processes that live as long as this, by name; this one has none."""
        for client in self._clients:  # the first callback starts a thread for callbacks
            self._subscribe(client, "soak://begin")

    def _hear(self, uri: str) -> None:
        heard = self._heard.get(uri)
        if heard is not None:
            heard.set()

    def settle(self) -> Dict[str, Dict[str, float]]:
        """Let all processes collect their garbage, and return the memory of each by its name."""
        servers = {"server": self._child, "web server": self._clients[-1]}
        return {
            "": settle(),
            **{name: client.request("soak/settle") for name, client in servers.items()},
        }

    def close(self) -> None:
        """Close all connections, and check that the idle server has released them."""
        for client in (*self._clients, self.doomed):
            client.close()
        self._server.close()
        if not eventually(lambda: descriptors_of(self._web.pid) <= self._web_rest + RESTING):
            self.faults.append("LEFT: descriptors of the web server")
        self._web.close()

    def round(self, threads: int, seconds: float) -> bool:
        """Work for a while on several threads, and wait for all. Return False if one of them hangs."""
        until = time.monotonic() + seconds
        workers = [
            threading.Thread(
                target=self._work, args=(number, until), name=f"soak-{number}", daemon=True
            )
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(seconds + 3 * WAIT)
        return not any(worker.is_alive() for worker in workers)

    def _work(self, number: int, until: float) -> None:
        with self._lock:
            self._numbers += 1
            dice = random.Random(f"{self._seed} {number} {self._numbers}")
        while time.monotonic() < until:
            name, deed, _ = dice.choices(DEEDS, [weight for _, _, weight in DEEDS])[0]
            try:
                deed(self, dice)
            except BaseException as error:
                self._count(f"{name} FAILED")
                with self._lock:
                    self.faults.append(f"{name}: {error!r}")
            else:
                self._count(name)

    def _count(self, name: str) -> None:
        with self._lock:
            self.done[name] += 1

    def call(self, dice: random.Random, client: Any = None) -> None:
        """Make calls that are answered, of every kind, one after the other and at once."""
        client = client or dice.choice(self._clients)
        tag, size = str(dice.random()), dice.choice([0, 10, 1000, 100_000])
        assert client.call_tool("echo", {"tag": tag, "size": size}).text == padded(tag, size)
        seen: List[Any] = []
        work = client.call_tool("work", {"tag": tag, "size": 3}, on_progress=seen.append)
        assert (work.text, [report.progress for report in seen]) == (tag, [1, 2, 3])
        assert (
            str(
                expect_raised(
                    minimcp.ToolError, lambda: client.call_tool("fail", {"tag": tag, "size": 0})
                )
            )
            == tag
        )
        expect_raised(minimcp.RpcError, lambda: client.call_tool("refuse", {"tag": tag, "size": 0}))
        expect_raised(minimcp.McpError, lambda: client.call_tool("nothing", {}))
        many = client.call_tools([("echo", {"tag": f"{tag} {n}", "size": 1}) for n in range(10)])
        assert [result.text for result in many] == [padded(f"{tag} {n}", 1) for n in range(10)]
        assert len(client.list_tools(cache="bypass")) == 6
        client.ping()

    def ask(self, dice: random.Random) -> None:
        tag = str(dice.random())
        assert dice.choice(self._clients).call_tool("ask", {"tag": tag, "size": 0}).text == tag

    def run_out_of_time(self, dice: random.Random) -> None:
        client = dice.choice(self._clients)
        arguments = {"tag": "late", "size": 0}
        expect_raised(
            minimcp.RequestTimeout, lambda: client.call_tool("hold", arguments, timeout=SHORT)
        )

    def cancel(self, dice: random.Random) -> None:
        """Make a call that its caller cancels."""
        client, token = dice.choice(self._clients), CancelToken()
        future = client.submit(
            client.call_tool, "hold", {"tag": "given up", "size": 0}, cancel=token
        )
        token.cancel("enough")
        assert isinstance(future.exception(WAIT), minimcp.Cancelled)
        other = client.submit(client.call_tool, "hold", {"tag": "given up", "size": 0})
        other.cancel()
        assert eventually(other.done)

    def connect(self, dice: random.Random) -> None:
        with minimcp.connect(
            self._server, revision=dice.choice(["auto", "handshake"]), elicit=_elicit
        ) as client:
            self._use_and_leave(client, dice)

    def start(self, dice: random.Random) -> None:
        with minimcp.connect(SERVER, elicit=_elicit, stderr=lambda line: None) as client:
            self._use_and_leave(client, dice)

    def visit(self, dice: random.Random) -> None:
        with self._web.connect(dice.choice(list(WAYS)), elicit=_elicit) as client:
            self._use_and_leave(client, dice)

    def vanish(self, dice: random.Random) -> None:
        """Connect a client over HTTP that leaves without closing."""
        self._web.vanish(dice)

    def listen(self, dice: random.Random) -> None:
        """Receive a change, on a stream of its own or on the shared one."""
        client, uri = dice.choice(self._clients), f"soak://{dice.random()}"
        if dice.random() < 0.5:
            with client.listen(resource_subscriptions=[uri]) as changes:
                client.request("soak/touch", {"uri": uri})
                assert changes.next(timeout=WAIT).uri == uri
            return
        self._subscribe(client, uri)

    def _subscribe(self, client: Client, uri: str) -> None:
        heard = self._heard[uri] = threading.Event()
        client.subscribe(uri)
        client.request("soak/touch", {"uri": uri})
        assert heard.wait(WAIT), "nothing was heard"
        client.unsubscribe(uri)
        del self._heard[uri]

    def _use_and_leave(self, client: Client, dice: random.Random) -> None:
        self.call(dice, client)
        if dice.random() < 0.5:
            left = client.submit(client.call_tool, "hold", {"tag": "left", "size": 0})
            client.close()
            assert isinstance(left.exception(WAIT), minimcp.ConnectionLost)

    def kill(self, dice: random.Random) -> None:
        """Kill a server and start it again."""
        with self._restarting:
            session = _session(self.doomed)
            os.kill(session.transport.pid, signal.SIGKILL)
            assert session.wait_until_ended(WAIT)
            tag = str(dice.random())
            assert self.doomed.call_tool("echo", {"tag": tag, "size": 0}).text == padded(tag, 0)


DEEDS: Tuple[Tuple[str, Callable[[Work, random.Random], None], int], ...] = (
    ("call", Work.call, 40),
    ("ask", Work.ask, 20),
    ("run out of time", Work.run_out_of_time, 10),
    ("cancel", Work.cancel, 10),
    ("connect", Work.connect, 12),
    ("visit", Work.visit, 6),
    ("vanish", Work.vanish, 10),
    ("listen", Work.listen, 8),
    ("start", Work.start, 2),
    ("kill", Work.kill, 1),
)
"""The actions, with their weights."""
