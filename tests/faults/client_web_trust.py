"""K13 to K15, K18 and K19: servers over HTTP that send a client elsewhere, or have it say what it should not."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from ..web import DONE, INITIALIZED, Heard, Wire
from .client import Client
from .client_web import hostile, opened, refused, visitor, visits
from .client_web_ends import cut_after
from .hostile.web_server import Hostile
from .trial import Missing, Trial, case

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
        web = hostile(t, handshake=handshake, said={"tools/call": _redirect(other), "DELETE": _always(307, other.url)})
        client = visitor(t, web, headers=SECRET)
        for status in (301, 302, 303, 307, 308):
            for to in (other.url, web.url, "//127.0.0.1:1/mcp", "file:///etc/passwd"):
                before = len(web.all("tools/call")) + len(web.all("GET"))
                refused(t, client.call("away", status=status, to=to), f"{status} to {to}")
                more = len(web.all("tools/call")) + len(web.all("GET")) - before
                if more > (2 if status in (307, 308) and to == web.url else 1):  # once, within the origin
                    (t.warn if more <= 25 else t.fail)(f"{status}: asked {more} times")
        t.expect(web.all("tools/call")[0].headers.get("authorization") == SECRET["Authorization"], "no token was sent")
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


# ------------------------------------------------------------ what wants too much (K14)


@case("K14")
def greedy(t: Trial) -> None:
    other = hostile(t)
    client = t.client()
    pipe = client.folder / "pipe"
    os.mkfifo(pipe)  # who opens it to read hangs, and is seen
    for url in (f"file://{pipe}", other.url, "http://169.254.169.254/latest"):
        challenge = f'Bearer resource_metadata="{url}", scope="all"'
        for method in ("server/discover", "tools/call"):
            web = hostile(t, said={method: _status(401, WWW_Authenticate=challenge)})
            reply = opened(client, web)
            if reply.ok:
                reply = client.call("echo")
            refused(t, reply, f"401 for {method} with {url[:20]}", 2.0)
    t.expect(other.heard == [], f"fetched: {other.heard[:3]}")
    for status in (429, 503):
        for wait in ("1000000000", "Fri, 31 Dec 9999 23:59:59 GMT", "-1", "1e9", "9" * 5000):
            web = hostile(t, said={"tools/call": _status(status, Retry_After=wait)})
            opened(client, web)
            refused(t, client.call("echo", 1.0), f"{status}, Retry-After: {wait[:20]}, timeout 1 s", 2.0)
        web = hostile(t, said={"tools/call": _status(status, Retry_After="0")})
        opened(client, web)
        refused(t, client.call("echo", 2.0), f"{status}, Retry-After: 0, timeout 2 s", 3.0)
        t.below(f"calls sent, {status} with Retry-After: 0", len(web.all("tools/call")), 10, "")
    retries(t, client)


def _status(status: int, **headers: str) -> Any:
    return lambda heard, wire: wire.whole(status, b"", None, **headers)


def retries(t: Trial, client: Client) -> None:
    """A server that wants to be asked again in 11 days; with --full it is waited for as long as the cap says."""

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


# ------------------------------------------------------------ what is no answer (K15)


@case("K15")
def odd(t: Trial) -> None:
    slow: Dict[str, float] = {}
    for _, client in visits(t):
        for tool in ODD:
            reply = client.call(tool)
            refused(t, reply, tool, slow=slow)
            if STATUS.get(tool, "200") not in reply.message:
                t.warn(f"{tool}: the error does not name its status: {reply.message[:100]}")
            t.expect(reply.message.count("~") <= 200, f"{tool}: {len(reply.message)} characters of error")
        client.alive()
    t.note("slowest", slow["slowest"], "s")


# ------------------------------------------------------------ HTTP+SSE (K18)


class Legacy:
    """A server that speaks HTTP+SSE alone."""

    def __init__(self, t: Trial, endpoint: str) -> None:
        self.endpoint = endpoint
        self.stream: Optional[Wire] = None
        no = _status(405)
        said = {"server/discover": no, "initialize": self.message, "tools/call": self.message, "GET": self.get}
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
    """Endpoints that are not on the origin of who names them."""
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
        posted = [heard for heard in evil.web.heard if heard.verb == "POST" and heard.path != "/mcp"]
        t.expect(posted == [], f"{endpoint[:40]!r}: posted to {posted[:2]}")
    t.expect(other.heard == [], f"messages went to another origin: {other.heard[:3]}")


# ------------------------------------------------------------ session ids (K19)

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
            if id.strip():  # else there is none
                t.warn(f"the session {id[:10]!r} was taken")
            client.call("echo")
        t.expect(reply.seconds <= 3 * t.options.slack, f"the session {id[:10]!r}: {reply.seconds:.1f} s")
        echoed: List[Any] = [heard for heard in web.heard if heard.headers.get("mcp-session-id")]
        t.expect(echoed == [], f"the session {id[:10]!r} of {len(id)} was sent back: {echoed[:2]}")
        client.do("close")
    web = hostile(t, handshake=True, session="!~ok")
    visitor(t, web).alive()
    t.expect(web.all("tools/call")[0].headers.get("mcp-session-id") == "!~ok", "a good session id was not sent back")
