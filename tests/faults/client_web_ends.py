"""K11, K12, K16 and K17: a client over HTTP, and servers that are slow, cut their answers, explode, and come back."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, Dict, List

from ..web import INITIALIZED, Heard, Wire
from .client import Client
from .client_web import hostile, opened, refused, visitor, visits
from .hostile.web_server import Hostile
from .hostile.web_tools import PAGE, TOOLS, answer, as_event, end
from .trial import Trial, case

SLOW = tuple(name for name in TOOLS if name.startswith(("drip-", "hang")))
AT_ONCE = ("reset", "reset-in-head", "reset-in-body")
CUT = (
    "truncated", "truncated-head", "bad-chunk", "negative-chunk", "cut-chunk", "no-last-chunk", "no-http",
    "cut-middle", "cut-line", "cut-boundary", "cut-unterminated",
)  # fmt: skip


@case("K11")
def slow(t: Trial) -> None:
    for _, client in visits(t):
        begun = [(tool, client.begin("call", tool=tool, arguments={}, timeout=0.5)) for tool in SLOW]
        replies = [(tool, one.wait(0.5 + t.options.patience)) for tool, one in begun]
        for tool, reply in replies:
            refused(t, reply, f"{tool}, timeout 0.5 s", 1.0)
        t.note(f"the slowest of {len(SLOW)} with a timeout of 0.5 s", max(one.seconds for _, one in replies), "s")
        for tool in AT_ONCE:
            refused(t, client.call(tool), tool)
        client.alive()
    for name, begin in (("silent", b""), ("in its head", b"HTTP/1.1 200 OK\r\nX: ")):
        web = hostile(t, said={"server/discover": _dripping(begin), "initialize": _dripping(begin)})
        reply = opened(client, web, 1.0)
        refused(t, reply, f"opening what is {name}", 2.0)
    unreachable(t, client)


def _dripping(begin: bytes) -> Any:
    return lambda heard, wire: (wire.raw(begin), wire.sock.recv(1))


def unreachable(t: Trial, client: Client) -> None:
    """Nobody listens, which is said at once; and nobody accepts, so that even the connection is never made."""
    closed = hostile(t)
    closed.dispose()
    refused(t, opened(client, closed), "nobody listens", 2.0)
    with socket.socket() as listener, socket.socket() as one, socket.socket() as two:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for first in (one, two):  # the queue is full: the system lets the next ones wait
            first.setblocking(False)
            first.connect_ex(listener.getsockname())
        threads = client.count("task")
        reply = client.open(1.0, url=f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        refused(t, reply, "a connection that is never made, timeout 1 s", 2.0)
        # by itself it would go on for 10 s
        t.below("threads left by it", client.settled("task", threads, 6) - threads, 0, "")


@case("K12")
def bomb(t: Trial) -> None:
    web = hostile(t)
    t.note("the bomb", len(web.bomb) / 1_000_000, "MB")  # and so it is there
    client = visitor(t, web)
    client.alive()
    t.note("before", client.memory(), "MB")
    for tool in ("bomb", "bomb-stream", "bomb-error"):
        reply = client.call(tool)
        refused(t, reply, tool, 2.0)
        t.note(f"{tool} refused after", reply.seconds, "s")
        if client.memory("VmHWM") > 1_000:
            break  # the others would not be kinder to this machine
    t.below("memory at most", client.memory("VmHWM"), 100, "MB")
    client.alive()


@case("K16")
def cut(t: Trial) -> None:
    slow: Dict[str, float] = {}
    for web, client in visits(t):
        for tool in CUT:
            reply = client.call(tool)
            refused(t, reply, tool, slow=slow)
            t.expect(web.calls(tool) == 1, f"{tool}: the call was sent {web.calls(tool)} times")
        client.alive()
    t.note("slowest", slow["slowest"], "s")


# ------------------------------------------------------------ coming back (K17)


def cut_after(id: str, retry: int = 1) -> Any:
    """The stream of a call that ends after an event with an id."""

    def call(heard: Heard, wire: Wire) -> None:
        if heard.message["params"]["name"] != "cut":
            wire.whole(200, answer(heard))
            return
        wire.stream()
        wire.chunk(b"id: %s\nretry: %d\ndata: \n\n" % (id.encode(), retry))
        end(wire)

    return call


@case("K17")
def coming_back(t: Trial) -> None:
    parts = (resumed, gives_up, goes_in_circles, session_gone, always_gone, many_gone)
    t.at_once(*(partial(part, t) for part in parts))


def resumed(t: Trial) -> None:
    """The stream of a call is cut twice, and brings the answer in its third part."""

    def get(heard: Heard, wire: Wire) -> None:
        last = heard.headers.get("last-event-id")
        if last is None:
            wire.whole(405)
            return
        wire.stream()
        if last == "e-1":
            wire.chunk(as_event(b'{"jsonrpc":"2.0","method":"notifications/nope"}', b"id: e-2\n"))
            end(wire)
            return
        wire.chunk(as_event(answer(web.all("tools/call")[0], "resumed")))
        wire.end()

    web = hostile(t, handshake=True, said={"GET": get, "tools/call": cut_after("e-1")})
    client = visitor(t, web)
    reply = client.call("cut")
    t.expect(reply.text == "resumed", f"a stream to resume: {reply.error}: {reply.message}"[:200])
    lasts = [heard.headers["last-event-id"] for heard in web.all("GET") if "last-event-id" in heard.headers]
    t.expect(lasts == ["e-1", "e-2"], f"asked for what came after {lasts}")
    t.expect(web.calls("cut") == 1, f"the call was sent {web.calls('cut')} times")
    t.below("resumed twice after", reply.seconds, 3)


def gives_up(t: Trial) -> None:
    """It cannot be resumed, whatever the status."""
    for name, no in (("a cut", lambda wire: end(wire)), ("500", lambda wire: wire.whole(500, PAGE, "text/html"))):

        def get(heard: Heard, wire: Wire, no: Any = no) -> None:
            no(wire) if "last-event-id" in heard.headers else wire.whole(405)

        web = hostile(t, handshake=True, said={"GET": get, "tools/call": cut_after("e-1")})
        client = visitor(t, web)
        reply = client.call("cut")
        refused(t, reply, f"resuming ends in {name}", 0.9 * client.never)
        tries = sum("last-event-id" in heard.headers for heard in web.all("GET"))
        t.below(f"tries, {name}", tries, 5, "")
        t.note(f"given up after, {name}", reply.seconds, "s")
        t.expect(web.calls("cut") == 1, f"the call was sent {web.calls('cut')} times")


def goes_in_circles(t: Trial) -> None:
    """Each stream opens, brings nothing, asks for another try after 1 ms, and ends."""

    def get(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.chunk(b"retry: 1\n\n")
        wire.end()

    web = hostile(t, handshake=True, said={"GET": get, "tools/call": cut_after("e-1")})
    client = visitor(t, web)
    refused(t, client.call("cut", 2.0), "a stream that brings nothing, timeout 2 s", 3.0)
    t.below("streams asked for in 2 s", len(web.all("GET")), 20, "")


class Sessions:
    """A server that knows its newest session alone."""

    def __init__(self, t: Trial, *, none: bool = False) -> None:
        self.alive: List[str] = []
        self.none = none
        self.web = hostile(t, handshake=True, said={"initialize": self.initialize, "tools/call": self.call})

    def initialize(self, heard: Heard, wire: Wire) -> None:
        self.alive.append(f"s{len(self.alive)}")
        wire.result(INITIALIZED, Mcp_Session_Id=self.alive[-1])

    def call(self, heard: Heard, wire: Wire) -> None:
        if self.none or heard.headers.get("mcp-session-id") != self.alive[-1]:
            wire.whole(404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}')
        else:
            Hostile.tool(self.web, heard, wire)

    def restart(self) -> None:
        """As a process that ends and starts again on the same port."""
        self.alive.append("another process")
        self.web.drop_all()


def session_gone(t: Trial) -> None:
    """The server restarts with a call in flight, and knows the session no more."""
    server = Sessions(t)
    client = visitor(t, server.web)
    running = client.begin("call", tool="hang", arguments={}, timeout=client.never)
    server.web.wait_for("tools/call")
    server.restart()
    refused(t, running.wait(client.never + t.options.patience), "a call when the server restarts", 2.0)
    reply = client.call("echo", text="again")
    t.expect(reply.text == "again", f"the call after a restart: {reply.error}: {reply.message}"[:200])
    t.expect(server.web.calls("hang") == 1, "a call that may have run was sent again")
    t.expect(len(server.web.all("initialize")) == 2, f"{len(server.web.all('initialize'))} times initialize")


def always_gone(t: Trial) -> None:
    """Each session is unknown as soon as it is open."""
    server = Sessions(t)
    client = visitor(t, server.web)
    server.none = True
    refused(t, client.call("echo"), "sessions that are never known", 5.0)
    t.below("times initialize", len(server.web.all("initialize")), 2, "")
    t.below("times the call", server.web.calls("echo"), 2, "")


def many_gone(t: Trial) -> None:
    """20 calls at once find that their session is gone: one new session for all, and each is sent once more at most."""
    server = Sessions(t)
    client = visitor(t, server.web)
    client.alive()
    server.alive.append("another process")
    begun = [client.begin("call", tool="echo", arguments={"text": str(n)}, timeout=client.never) for n in range(20)]
    replies = [one.wait(client.never + t.options.patience) for one in begun]
    right = sum(reply.text == str(number) for number, reply in enumerate(replies))
    t.note("of 20 refused calls answered in the next session", right, "")
    t.expect(not any(reply.ok and reply.text != str(number) for number, reply in enumerate(replies)), "swapped")
    t.expect(len(server.web.all("initialize")) == 2, f"{len(server.web.all('initialize'))} times initialize")
    t.below("calls sent", server.web.calls("echo") - 1, 40, "")
    client.alive()
