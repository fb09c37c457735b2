"""K03 to K08 over HTTP, and K11 to K19: a client and a hostile HTTP server."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..support import WAIT
from ..web import DONE, INITIALIZED, Heard, Peer, Say, Wire
from . import web_tools
from .client import Client, Reply
from .client_stdio import clients
from .trial import Missing, Trial, case
from .web_tools import PAGE, TOOLS, answer, as_event, end


@lru_cache(maxsize=None)
def one_gigabyte() -> bytes:
    return web_tools.bomb(1024)


class Hostile(Peer):
    """One server, from its making until `dispose`."""

    def __init__(self, said: Optional[Dict[str, Say]] = None, **how: Any) -> None:
        super().__init__({"tools/call": self.tool, "tools/list": _list, **(said or {})}, **how)
        self._waiting: List[Any] = []
        self._met = threading.Condition()
        self.start()

    def tool(self, heard: Heard, wire: Wire) -> None:
        name = heard.message["params"]["name"]
        if name in web_tools.TOOLS:
            web_tools.TOOLS[name](self, heard, wire)
        else:
            wire.error(-32602, "no such tool")

    @property
    def bomb(self) -> bytes:
        return one_gigabyte()

    def meet(self, heard: Heard) -> List[Any]:
        """Wait until two calls are here; the ids of both."""
        with self._met:
            self._waiting.append(heard.message["id"])
            self._met.notify_all()
            self._met.wait_for(lambda: len(self._waiting) >= 2, WAIT)
            return list(self._waiting)

    def calls(self, tool: str) -> int:
        return sum(heard.message["params"]["name"] == tool for heard in self.all("tools/call"))

    def stderr(self) -> str:
        return ""

    dispose = Peer.close


def _list(heard: Heard, wire: Wire) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in web_tools.TOOLS]
    wire.result(
        {"resultType": "complete", "tools": tools, "ttlMs": 60_000, "cacheScope": "private"}
    )


WAYS = ("json", "event")
LIMIT = 64 * 1024 * 1024  # bytes of the longest message that a client takes


def hostile(t: Trial, **how: Any) -> Hostile:
    web: Hostile = t.keep(Hostile(**how))
    return web


def opened(client: Client, web: Hostile, timeout: Optional[float] = None, **more: Any) -> Reply:
    """Have it connect."""
    reply = client.open(timeout, url=web.url, **more)
    if reply.error == "unsupported":
        raise Missing("the adapter has no HTTP")
    return reply


def visitor(t: Trial, web: Hostile, client: Optional[Client] = None, **more: Any) -> Client:
    """A client, a new one if none is named, that is connected."""
    client = client or t.client()
    reply = opened(client, web, **more)
    assert reply.ok, f"open: {reply.error}: {reply.message}"[:300]
    return client


def visits(t: Trial, **how: Any) -> Iterator[Tuple[Hostile, Client]]:
    """A server of each era, and one client that visits them one after the other."""
    client: Optional[Client] = None
    for handshake in (True, False):
        web = hostile(t, handshake=handshake, **how)
        if client is not None:
            client.do("close")
        client = visitor(t, web, client)
        yield web, client


def answers(t: Trial, client: Client, tool: str, text: str) -> None:
    reply = client.call(tool)
    t.expect(reply.text == text, f"{tool}: {reply.text or reply.error}: {reply.message}"[:120])


def refused(
    t: Trial, reply: Reply, what: str, seconds: float = 1.0, *, slowest: bool = False
) -> None:
    """It must have been an error of the library's own, and soon; the slowest of many may be noted."""
    t.expect(not reply.ok, f"{what}: a success: {str(reply.text)[:60]}")
    t.expect(
        reply.seconds <= seconds * t.options.slack,
        f"{what}: {reply.seconds:.3g} s, not {seconds:g}",
    )
    if (reply.error or "").startswith("untyped"):
        t.warn(f"{what}: {reply.error}")
    if slowest:
        t.note("slowest", max(t.metrics.get("slowest", (0.0, ""))[0], reply.seconds), "s")


@case("K03H")
def other_ids(t: Trial) -> None:
    for _, client in visits(t):
        answers(t, client, "other-ids", "yours")
        answers(t, client, "twice", "first")
        for id in ([1], True, None, {}, 1.5):
            reply = client.call("odd-id", id=id)
            fine = reply.text == "yours" or (
                reply.error is not None and reply.seconds < 1 * t.options.slack
            )
            t.expect(fine, f"the id {id}: {reply.text or reply.error}: {reply.message}"[:120])
        for one in [client.begin_call("swapped") for _ in range(2)]:
            reply = one.wait(client.never + t.options.patience)
            t.expect(
                reply.text == "yours",
                f"swapped: {reply.text or reply.error}: {reply.message}"[:120],
            )
        for way in WAYS:
            refused(t, client.call("one-other-id", way=way), f"only the answer to another, {way}")
        client.alive()


AT_ONCE = (
    "error-not-object", "error-null", "error-code-text", "result-text", "both", "neither",
)  # fmt: skip


def over_stdio(t: Trial) -> Iterator[Tuple[Client, Tuple[Dict[str, str], ...]]]:
    """A client of a server of each era, and the ways in which it may be answered."""
    for client in clients(t):
        yield client, ({},)


def over_http(t: Trial) -> Iterator[Tuple[Client, Tuple[Dict[str, str], ...]]]:
    for _, client in visits(t):
        yield client, tuple({"way": way} for way in WAYS)


def wrong_shapes(over: Any, t: Trial) -> None:
    for client, ways in over(t):
        for tool in AT_ONCE:
            for way in ways:
                reply = client.call(tool, **way)
                refused(t, reply, f"{tool} {''.join(way.values())}", slowest=True)
                if reply.seconds > 0.5 * client.never:
                    return  # so will the others
        client.alive()


def notes(over: Any, t: Trial) -> None:
    for client, _ in over(t):
        client.alive()
        base, reply = client.memory(), client.call("note-flood", 30)
        t.expect(
            reply.text == "after the flood",
            f"the call was lost: {reply.error}: {reply.message}"[:120],
        )
        t.below("time of 20,000", reply.seconds, 1)
        t.below("growth", client.memory() - base, 32, "MB")
        client.alive()


for _end, _over in (("", over_stdio), ("H", over_http)):
    case("K04" + _end)(partial(wrong_shapes, _over))
    case("K05" + _end)(partial(notes, _over))


@case("K06H")
def large(t: Trial) -> None:
    client = visitor(t, hostile(t, handshake=True))
    client.alive()
    base = client.memory()
    for way in WAYS:
        reply = client.call("big", 60, bytes=50_000_000, way=way)
        size = len(reply.text or "")
        assert size > 49_999_000, (
            f"{size} of 50,000,000 bytes arrived, {way}: {reply.error}: {reply.message}"[:150]
        )
        t.below(f"time of 50 MB, {way}, the adapter's own hop included", reply.seconds, 2.5)
    t.below("growth, that hop included", client.memory("VmHWM") - base, 400, "MB")
    linear(t, client)
    for way in WAYS:
        limit(t, client, way)
    client.alive()


def linear(t: Trial, client: Client) -> None:
    """Long events in pieces of 1 KB: four times as long may take four times as long, and on a busy
    machine ten."""
    best: Dict[int, float] = {}
    for _ in range(3):
        for megabytes in (4, 8, 16):
            size = megabytes * web_tools.MEGABYTE
            reply = client.call("big", 60, bytes=size, padded=True, way="event", piece=1024)
            assert reply.text == "whole", (
                f"an event of {megabytes} MB: {reply.error}: {reply.message}"[:150]
            )
            best[megabytes] = min(best.get(megabytes, reply.seconds), reply.seconds)
        if best[16] <= 8 * best[4]:
            break
    for megabytes, seconds in best.items():
        t.note(f"{megabytes} MB in pieces of 1 KB", seconds, "s")
    t.below("16 MB : 4 MB", best[16] / best[4], 10, "times")


def limit(t: Trial, client: Client, way: str) -> None:
    """The longest message that is taken, and the next."""
    for more in (-1, 0):
        reply = client.call("big", 60, bytes=LIMIT + more, padded=True, way=way)
        t.expect(
            reply.text == "whole",
            f"64 MiB{more or ''}, {way}: {reply.error}: {reply.message}"[:150],
        )
    reply = client.call("big", 60, bytes=LIMIT + 1, padded=True, way=way)
    if reply.ok:
        t.warn(f"64 MiB + 1 B, {way}: taken, without any limit that we know")
    t.below(f"64 MiB + 1 B, {way}, refused after", reply.seconds, 2)


@case("K07H")
def bad_events(t: Trial) -> None:
    for web, client in visits(t):
        for tool in web_tools.FIRST:
            reply = client.call(tool, text="after")
            if reply.text != "after":  # an error at once does no harm
                worse = t.warn if reply.error and reply.seconds <= 1 * t.options.slack else t.fail
                worse(f"{tool}: {reply.error or reply.text}: {reply.message}"[:150])
        for tool in web_tools.REPLIES:
            for way in WAYS:
                reply = client.call(tool, 3, way=way)
                t.expect(
                    reply.seconds <= 1 * t.options.slack,
                    f"{tool}, {way}: after {reply.seconds:.1f} s",
                )
        client.alive()
        t.expect(web.all("an answer") == [], "the client answered what is no request")


@case("K08H")
def endless(t: Trial) -> None:
    """Anything with a limit is rejected at the limit; anything without a cost continues until the
    deadline of the call."""
    client = visitor(t, hostile(t))
    client.alive()
    base = client.memory()
    for tool in ("endless-event", "endless-field", "endless-json"):
        reply = client.call(tool)
        refused(t, reply, tool, 0.9 * client.never)
        t.note(f"{tool} ended after", reply.seconds, "s")
    for tool in ("endless-lines", "endless-comments", "endless-comment-lines"):
        refused(t, client.call(tool, 1.0), tool, 2.0)
    t.below("growth", client.memory("VmHWM") - base, 64 + 8, "MB")
    client.alive()


SLOW = tuple(name for name in TOOLS if name.startswith(("drip-", "hang")))
RESETS = ("reset", "reset-in-head", "reset-in-body")
CUT = (
    "truncated", "truncated-head", "bad-chunk", "negative-chunk", "cut-chunk", "no-last-chunk", "no-http",
    "cut-middle", "cut-line", "cut-boundary", "cut-unterminated",
)  # fmt: skip


@case("K11")
def slow(t: Trial) -> None:
    for _, client in visits(t):
        begun = [(tool, client.begin_call(tool, 0.5)) for tool in SLOW]
        replies = [(tool, one.wait(0.5 + t.options.patience)) for tool, one in begun]
        for tool, reply in replies:
            refused(t, reply, f"{tool}, timeout 0.5 s", 1.0)
        t.note(
            f"the slowest of {len(SLOW)} with a timeout of 0.5 s",
            max(one.seconds for _, one in replies),
            "s",
        )
        for tool in RESETS:
            refused(t, client.call(tool), tool)
        client.alive()
    for name, begin in (("silent", b""), ("in its head", b"HTTP/1.1 200 OK\r\nX: ")):

        def drip(heard: Heard, wire: Wire, begin: bytes = begin) -> None:
            wire.raw(begin)
            wire.sock.recv(1)

        web = hostile(t, said={"server/discover": drip, "initialize": drip})
        refused(t, opened(client, web, 1.0), f"opening what is {name}", 2.0)
    # No server listens, which is reported at once; and no server accepts, so that not even the
    # connection is made.
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
        # the task itself would run for 10 s
        t.below("threads left by it", client.settled("task", threads, 6) - threads, 0, "")


@case("K12")
def bomb(t: Trial) -> None:
    web = hostile(t)
    t.note("the bomb", len(web.bomb) / 1_000_000, "MB")  # so the bomb exists
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
    for web, client in visits(t):
        for tool in CUT:
            reply = client.call(tool)
            refused(t, reply, tool, slowest=True)
            t.expect(web.calls(tool) == 1, f"{tool}: the call was sent {web.calls(tool)} times")
        client.alive()


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
    lasts = [
        heard.headers["last-event-id"]
        for heard in web.all("GET")
        if "last-event-id" in heard.headers
    ]
    t.expect(lasts == ["e-1", "e-2"], f"asked for what came after {lasts}")
    t.expect(web.calls("cut") == 1, f"the call was sent {web.calls('cut')} times")
    t.below("resumed twice after", reply.seconds, 3)


def gives_up(t: Trial) -> None:
    """The stream cannot be resumed, with any status."""
    for name, no in (
        ("a cut", lambda wire: end(wire)),
        ("500", lambda wire: wire.whole(500, PAGE, "text/html")),
    ):

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
    """A server that knows only its newest session."""

    def __init__(self, t: Trial, *, none: bool = False) -> None:
        self.alive: List[str] = []
        self.none = none
        self.web = hostile(
            t, handshake=True, said={"initialize": self.initialize, "tools/call": self.call}
        )

    def initialize(self, heard: Heard, wire: Wire) -> None:
        self.alive.append(f"s{len(self.alive)}")
        wire.result(INITIALIZED, Mcp_Session_Id=self.alive[-1])

    def call(self, heard: Heard, wire: Wire) -> None:
        if self.none or heard.headers.get("mcp-session-id") != self.alive[-1]:
            wire.whole(
                404,
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
            )
        else:
            Hostile.tool(self.web, heard, wire)

    def restart(self) -> None:
        self.alive.append("another process")
        self.web.cut_all()


def session_gone(t: Trial) -> None:
    """The server restarts with a call in flight, and knows the session no more."""
    server = Sessions(t)
    client = visitor(t, server.web)
    running = client.begin_call("hang")
    server.web.wait_for("tools/call")
    server.restart()
    refused(
        t, running.wait(client.never + t.options.patience), "a call when the server restarts", 2.0
    )
    reply = client.call("echo", text="again")
    t.expect(
        reply.text == "again", f"the call after a restart: {reply.error}: {reply.message}"[:200]
    )
    t.expect(server.web.calls("hang") == 1, "a call that may have run was sent again")
    t.expect(
        len(server.web.all("initialize")) == 2,
        f"{len(server.web.all('initialize'))} times initialize",
    )


def always_gone(t: Trial) -> None:
    """Each session is unknown as soon as it is open."""
    server = Sessions(t)
    client = visitor(t, server.web)
    server.none = True
    refused(t, client.call("echo"), "sessions that are never known", 5.0)
    t.below("times initialize", len(server.web.all("initialize")), 2, "")
    t.below("times the call", server.web.calls("echo"), 2, "")


def many_gone(t: Trial) -> None:
    """20 calls at once find that their session has ended: they share one new session, and each is
    sent at most once more."""
    server = Sessions(t)
    client = visitor(t, server.web)
    client.alive()
    server.alive.append("another process")
    begun = [client.begin_call("echo", text=str(n)) for n in range(20)]
    replies = [one.wait(client.never + t.options.patience) for one in begun]
    right = sum(reply.text == str(number) for number, reply in enumerate(replies))
    t.note("of 20 refused calls answered in the next session", right, "")
    t.expect(
        not any(reply.ok and reply.text != str(number) for number, reply in enumerate(replies)),
        "swapped",
    )
    t.expect(
        len(server.web.all("initialize")) == 2,
        f"{len(server.web.all('initialize'))} times initialize",
    )
    t.below("calls sent", server.web.calls("echo") - 1, 40, "")
    client.alive()


PEM = Path(__file__).resolve().parent.parent / "transports" / "localhost.pem"
SECRET = {"Authorization": "Bearer only-for-the-first"}

ODD = (
    "html", "no-content", "accepted", "html-500", "html-404-ish", "plain-type", "no-type", "empty-json", "teapot",
    "moved-nowhere",
)  # fmt: skip
STATUS = {"html-500": "500", "html-404-ish": "410", "teapot": "418", "moved-nowhere": "302", "no-content": "204",
          "accepted": "202"}  # fmt: skip


@case("K13")
def redirects(t: Trial) -> None:
    other = hostile(t)
    for handshake in (True, False):
        web = hostile(
            t,
            handshake=handshake,
            said={"tools/call": _redirect(other), "DELETE": _always(307, other.url)},
        )
        client = visitor(t, web, headers=SECRET)
        for status in (301, 302, 303, 307, 308):
            for to in (other.url, web.url, "//127.0.0.1:1/mcp", "file:///etc/passwd"):
                before = len(web.all("tools/call")) + len(web.all("GET"))
                refused(t, client.call("away", status=status, to=to), f"{status} to {to}")
                more = len(web.all("tools/call")) + len(web.all("GET")) - before
                if more > (
                    2 if status in (307, 308) and to == web.url else 1
                ):  # once, within the origin
                    (t.warn if more <= 25 else t.fail)(f"{status}: asked {more} times")
        t.expect(
            web.all("tools/call")[0].headers.get("authorization") == SECRET["Authorization"],
            "no token was sent",
        )
        client.do("close")
    for method in ("server/discover", "initialize", "GET"):
        said = {method: _always(307, other.url)}
        web = hostile(t, handshake=method != "server/discover", said=said)
        reply = opened(t.client(), web, headers=SECRET)
        if method == "GET":
            t.expect(reply.ok, f"a stream that is elsewhere: {reply.error}: {reply.message}"[:200])
        else:
            refused(t, reply, f"{method} is elsewhere", 3.0)
    t.expect(other.heard == [], f"redirects were followed: {other.heard[:3]}")
    downgrade(t)


def _redirect(other: Hostile) -> Any:
    def call(heard: Heard, wire: Wire) -> None:
        given = heard.message["params"].get("arguments") or {}
        wire.whole(given["status"], kind=None, Location=given["to"])

    return call


def _always(status: int, to: str) -> Any:
    return lambda heard, wire: wire.whole(status, kind=None, Location=to)


def downgrade(t: Trial) -> None:
    """From https to http, on the same host."""
    plain, tls = hostile(t), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    web = hostile(t, tls=tls, said={"tools/call": _redirect(plain)})
    client = t.client(env={"REQUESTS_CA_BUNDLE": str(PEM), "SSL_CERT_FILE": str(PEM)})
    reply = opened(client, web, headers=SECRET)
    assert reply.ok, f"open: {reply.error}: {reply.message}"[:300]
    refused(t, client.call("away", status=308, to=plain.url), "https to http")
    t.expect(plain.heard == [], f"a redirect from https to http was followed: {plain.heard[:3]}")


@case("K14")
def greedy(t: Trial) -> None:
    other = hostile(t)
    client = t.client()
    pipe = client.folder / "pipe"
    os.mkfifo(pipe)  # a client that opens it for reading hangs, and the case notices that
    for url in (f"file://{pipe}", other.url, "http://169.254.169.254/latest"):
        challenge = f'Bearer resource_metadata="{url}", scope="all"'
        for method in ("server/discover", "tools/call"):
            web = hostile(t, said={method: _status(401, WWW_Authenticate=challenge)})
            reply = opened(client, web)
            reply = client.call("echo") if reply.ok else reply
            refused(t, reply, f"401 for {method} with {url[:20]}", 2.0)
    t.expect(other.heard == [], f"fetched: {other.heard[:3]}")
    for status in (429, 503):
        for wait in ("1000000000", "Fri, 31 Dec 9999 23:59:59 GMT", "-1", "1e9", "9" * 5000):
            web = hostile(t, said={"tools/call": _status(status, Retry_After=wait)})
            opened(client, web)
            refused(
                t, client.call("echo", 1.0), f"{status}, Retry-After: {wait[:20]}, timeout 1 s", 2.0
            )
        web = hostile(t, said={"tools/call": _status(status, Retry_After="0")})
        opened(client, web)
        refused(t, client.call("echo", 2.0), f"{status}, Retry-After: 0, timeout 2 s", 3.0)
        t.below(f"calls sent, {status} with Retry-After: 0", len(web.all("tools/call")), 11, "")
    retries(t, client)


def _status(status: int, **headers: str) -> Any:
    return lambda heard, wire: wire.whole(status, b"", None, **headers)


def retries(t: Trial, client: Client) -> None:
    """A server asks for a retry in 11 days. With --full the case waits as long as the limit."""

    def get(heard: Heard, wire: Wire) -> None:
        if "last-event-id" not in heard.headers:
            wire.whole(405)
            return
        wire.stream()
        wire.event({"id": web.all("tools/call")[-1].message["id"], "result": DONE})
        wire.end()

    web = hostile(t, handshake=True, said={"GET": get, "tools/call": cut_after("e-1", 10**9)})
    opened(client, web)
    refused(t, client.call("cut", 1.0), "retry: 1000000000, timeout 1 s", 2.0)
    if t.options.full:
        reply = client.call("cut", 90.0)
        t.expect(reply.text == "done", f"retry: 1000000000: {reply.error}: {reply.message}"[:200])
        t.below("retry: 1000000000 resumed after", reply.seconds, 65)


@case("K15")
def odd(t: Trial) -> None:
    for _, client in visits(t):
        for tool in ODD:
            reply = client.call(tool)
            refused(t, reply, tool, slowest=True)
            if STATUS.get(tool, "200") not in reply.message:
                t.warn(f"{tool}: the error does not name its status: {reply.message[:100]}")
            t.expect(
                reply.message.count("~") <= 200, f"{tool}: {len(reply.message)} characters of error"
            )
        client.alive()


class Legacy:
    """A server that supports only HTTP+SSE."""

    def __init__(self, t: Trial, endpoint: str) -> None:
        self.endpoint = endpoint
        self.stream: Optional[Wire] = None
        no = _status(405)
        said = {
            "server/discover": no,
            "initialize": self.message,
            "tools/call": self.message,
            "GET": self.get,
        }
        self.web = hostile(t, handshake=True, session=None, said=said)

    def get(self, heard: Heard, wire: Wire) -> None:
        self.stream = wire
        wire.stream()
        wire.chunk(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
        self.web.over.wait()

    def message(self, heard: Heard, wire: Wire) -> None:
        if heard.path == "/mcp" or self.stream is None:
            wire.whole(405)
            return
        wire.whole(202, kind=None)
        old = {**INITIALIZED, "protocolVersion": "2024-11-05"}
        result = old if heard.method == "initialize" else DONE
        self.stream.event({"id": heard.message["id"], "result": result}, event="message")


def elsewhere(other: Hostile) -> Tuple[str, ...]:
    """Return endpoints that are not on the origin of the server that names them."""
    return (
        other.url, f"//127.0.0.1:{other.port}/evil", f"//evil.example:{other.port}/", "javascript:alert(1)",
        "file:///etc/passwd", f"https://127.0.0.1:{other.port}/", "http://", "http://[::1", "data:,x",
        f"http://evil@127.0.0.1:{other.port}/", f" //127.0.0.1:{other.port}/",
        "http://127.0.0.1:99999/", "/a b\r\nX: y",
    )  # fmt: skip


@case("K18")
def endpoints(t: Trial) -> None:
    client, other = t.client(), hostile(t)
    good = Legacy(t, "/messages?session=1")
    if not opened(client, good.web, 5.0).ok:
        raise Missing("the adapter has no HTTP+SSE")
    t.expect(client.call("echo").text == "done", "HTTP+SSE does not work at all")
    client.do("close")
    for endpoint in elsewhere(other):
        evil = Legacy(t, endpoint)
        reply = opened(client, evil.web, headers=SECRET)
        refused(t, reply, f"the endpoint {endpoint[:40]!r}", 3.0)
        posted = [
            heard for heard in evil.web.heard if heard.verb == "POST" and heard.path != "/mcp"
        ]
        t.expect(posted == [], f"{endpoint[:40]!r}: posted to {posted[:2]}")
    t.expect(other.heard == [], f"messages went to another origin: {other.heard[:3]}")


BAD_IDS = (
    "a b", " ", "a\tb", "a\x01b", "a\x7f", "a\x00b", "\xe4", "\xff", "", "a\r\n b", "x" * 60_000, "a\x85b",
)  # fmt: skip


@case("K19")
def session_ids(t: Trial) -> None:
    client = t.client()
    for id in BAD_IDS:
        web = hostile(t, handshake=True, session=id)
        reply = opened(client, web)
        if reply.ok:
            if id.strip():  # otherwise there is none
                t.warn(f"the session {id[:10]!r} was taken")
            client.call("echo")
        t.expect(
            reply.seconds <= 3 * t.options.slack, f"the session {id[:10]!r}: {reply.seconds:.1f} s"
        )
        echoed: List[Any] = [heard for heard in web.heard if heard.headers.get("mcp-session-id")]
        t.expect(echoed == [], f"the session {id[:10]!r} of {len(id)} was sent back: {echoed[:2]}")
        client.do("close")
    web = hostile(t, handshake=True, session="!~ok")
    visitor(t, web).alive()
    t.expect(
        web.all("tools/call")[0].headers.get("mcp-session-id") == "!~ok",
        "a good session id was not sent back",
    )
