"""C60 to C62: many clients at once, every way for an HTTP server to end, and what its log says of faults."""

from __future__ import annotations

import random
import select
import selectors
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Dict, List, Optional, Tuple

from .http_raw import Session, Site, text_of
from .http_sessions import Old
from .raw import shown
from .server_ends import NOISE
from .trial import Missing, Trial, case, on_site, start_http

CODES = (0, -signal.SIGTERM, -signal.SIGINT, 130, 143)


# ------------------------------------------------------------ the end


def ends(t: Trial, site: Site, what: str, bound: float, *, number: int = signal.SIGTERM, quiet: bool = True) -> None:
    """It exits in time after a signal, and leaves its port free."""
    begun = time.monotonic()
    site.signal(number)
    code = site.exit(bound * t.options.slack + t.options.patience)
    t.below(what, time.monotonic() - begun, bound)
    if code not in CODES:
        t.warn(f"{what}: exit code {code}")
    for sign in NOISE if quiet else ():
        if sign in site.stderr():
            t.warn(f"{what}: {sign} in the log")


@case("C60")
def endings(t: Trial) -> None:
    site = t.site()
    site.alive(t.options.slack)
    with site.visitor() as idle:
        idle.send(site.wire("GET", path="/nothing-is-here")).answer("GET")  # and it is kept alive
        ends(t, site, "SIGTERM, idle", 1)
    _again(t, site)
    ends(t, t.site(), "SIGINT, idle", 1, number=signal.SIGINT)
    _open_streams(t)
    if "deaf_slow" in t.subject.http_tools:
        _in_flight(t)


def _again(t: Trial, site: Site) -> None:
    """Another server takes the same port at once, and knows nothing of the sessions of the first."""
    if not (t.subject.tunable or any("{port}" in word for word in t.subject.http)):
        return
    stranger: Dict[str, Optional[str]] = {"mcp_session_id": "A" * 43}
    command = tuple(word.replace("{port}", str(site.port)) for word in t.subject.http)
    again = start_http(
        t.subject._replace(http=command), t.options, env={"FAULTS_PORT": str(site.port)}, port=site.port
    )
    t._started.append(again)
    t.expect(again.port == site.port, "another port was taken")
    session = again.session(t.http_eras()[0])
    if "mcp-session-id" in session.headers:
        status = again.exchange(session.request("ping", **stranger)).status
        t.expect(status == 404, f"a session of the server before got status {status}")
    again.alive(t.options.slack)


def _open_streams(t: Trial) -> None:
    site = t.site()
    with ExitStack() as stack:
        visitors = []
        for revision in t.http_eras():
            visitor = stack.enter_context(site.visitor())
            session = site.session(revision)
            begin = session.listen()
            if revision == max(site.revisions) and "mcp-session-id" not in session.headers:
                begin = session.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            if visitor.send(begin).head()[0] == 200:
                visitors.append(visitor)
        try:
            visitors.append(Old(site).visitor)
            stack.callback(visitors[-1].close)
        except Missing:
            pass
        t.note("open streams", len(visitors), "")
        ends(t, site, "SIGTERM, open streams", 1)
        for visitor in visitors:
            visitor.closes()


def _in_flight(t: Trial) -> None:
    """A call that runs may end within the grace, and is waited for no longer; a second signal waits for nothing."""
    grace = t.site("deaf_slow").terms.grace
    with ThreadPoolExecutor(3) as pool:  # it is all waiting
        cases = ((1, 2.0, False), (30, grace + 1.5, False), (30, 1.5, True))
        for found in [pool.submit(_told_in_flight, t, *each) for each in cases]:
            found.result()


def _told_in_flight(t: Trial, seconds: int, bound: float, twice: bool) -> None:
    site = t.site("deaf_slow")
    session = site.session(t.http_eras()[0])
    with site.visitor() as visitor:
        visitor.send(session.call("deaf_slow", {"seconds": seconds}))
        site.alive(t.options.slack)
        if twice:
            site.signal(signal.SIGTERM)
            time.sleep(0.3)
        ends(t, site, f"SIGTERM{' x 2' * twice}, {seconds} s in flight", bound, quiet=not twice)
        if seconds == 1:
            t.expect(text_of(visitor.answer()) == "slept", "a call of 1 s was not answered before the end")


# ------------------------------------------------------------ many clients


def at(part: float, values: List[float]) -> float:
    """The value that this part of them does not exceed."""
    return sorted(values)[max(0, int(len(values) * part + 0.999999) - 1)]


@on_site("C61", "echo")
def many(t: Trial, site: Site) -> None:
    for revision in t.http_eras():
        _fifty(t, site, revision)
    crowd = t.count(300, 1000)
    for revision in t.http_eras():
        _at_once(t, site, site.session(revision), min(crowd, int(site.terms.connections) - 10))
    _burst(t, site)


def _fifty(t: Trial, site: Site, revision: str) -> None:
    """Fifty clients with twenty calls each, one after the other; half of them keep their connection."""

    def client(number: int) -> List[float]:
        session, times = site.session(revision), []
        with ExitStack() as stack:
            kept = stack.enter_context(site.visitor()) if number % 2 else None
            for index in range(20):
                begun, text = time.monotonic(), f"{number} {index}"
                data = session.call("echo", {"text": text}, id=index)
                response = site.exchange(data) if kept is None else kept.send(data).answer()
                times.append(time.monotonic() - begun)
                found = text_of(response)
                assert found == text, f"the answer of another call: {found!r}, not {text!r}"
        return times

    begun = time.monotonic()
    with ThreadPoolExecutor(50) as pool:
        times = [one for found in pool.map(client, range(50)) for one in found]
    t.note(f"{revision}: 50 clients, calls", 1000 / (time.monotonic() - begun), "/s")
    t.note(f"{revision}: 50 clients, median", at(0.5, times) * 1000, "ms")
    t.below(f"{revision}: 50 clients, 99 of 100", at(0.99, times), 1)


def _at_once(t: Trial, site: Site, session: Session, count: int) -> None:
    """So many clients connect and call at the same time."""
    begun = time.monotonic()
    crowd = Crowd(site, [(session.call("echo", {"text": str(n)}, id=7), str(n)) for n in range(count)])
    try:
        times = crowd.run(6 * t.options.patience)
    finally:
        crowd.close()
    t.expect(not crowd.wrong, f"{len(crowd.wrong)} of {count} at once: {crowd.wrong[:1]}")
    t.note(f"{session.revision}: {count} at once, all after", time.monotonic() - begun, "s")
    if times:
        t.below(f"{session.revision}: {count} at once, 99 of 100", at(0.99, times), 10)


class Crowd:
    """Connections that begin together, for one thread."""

    def __init__(self, site: Site, calls: List[Tuple[bytes, str]]) -> None:
        self._site, self._calls = site, calls
        self.wrong: List[str] = []
        self._sockets: List[socket.socket] = []
        self._came: Dict[int, bytes] = {}

    def run(self, seconds: float) -> List[float]:
        times: List[float] = []
        end, begun = time.monotonic() + seconds, time.monotonic()
        with selectors.DefaultSelector() as selector:
            for number in range(len(self._calls)):
                sock = socket.socket()
                sock.setblocking(False)
                self._sockets.append(sock)
                sock.connect_ex(("127.0.0.1", self._site.port))
                selector.register(sock, selectors.EVENT_WRITE, number)
            while selector.get_map() and time.monotonic() < end:
                for key, mask in selector.select(max(0.0, end - time.monotonic())):
                    done = self._step(selector, key.fileobj, key.data, mask)
                    if done is not None:
                        times.append(time.monotonic() - begun)
                        if done:
                            self.wrong.append(done)
            self.wrong += ["no answer"] * len(selector.get_map())
        return times

    def _step(self, selector: Any, sock: Any, number: int, mask: int) -> Optional[str]:
        """What is wrong, once it has ended: empty if nothing is."""
        try:
            if mask & selectors.EVENT_WRITE:
                sock.send(self._calls[number][0].replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                selector.modify(sock, selectors.EVENT_READ, number)
                return None
            data = sock.recv(65536)
        except OSError as error:
            selector.unregister(sock)
            return f"{type(error).__name__}: {error}"
        self._came[number] = self._came.get(number, b"") + data
        if data:
            return None
        selector.unregister(sock)
        wanted = b'"' + self._calls[number][1].encode() + b'"'
        return "" if wanted in self._came[number] else f"an answer was {shown(self._came[number], 200)}"

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


BACKLOG = 128


def _burst(t: Trial, site: Site) -> None:
    """A server that does not run for a moment loses nobody: so many connections wait to be accepted."""
    held: List[socket.socket] = []
    site.signal(signal.SIGSTOP)
    try:
        for _ in range(BACKLOG):
            sock = socket.socket()
            held.append(sock)
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", site.port))
        end, ready = time.monotonic() + t.options.slack / 2, 0
        while ready < BACKLOG and time.monotonic() < end:
            time.sleep(0.02)
            ready = len(select.select((), held, (), 0)[1])
    finally:
        site.signal(signal.SIGCONT)
    t.note("connections that wait", ready, "")
    t.expect(ready >= BACKLOG, f"of {BACKLOG} connections at once {ready} found room in the backlog")
    for sock in held:
        sock.close()


# ------------------------------------------------------------ the log


def hostile(site: Site, session: Session, dice: random.Random) -> List[bytes]:
    """One request for each fault that a client can commit, of all the rows before; each is its own connection."""
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    word = "".join(dice.choice("abc\r\n\0\x1b\u2028\xff") for _ in range(20))
    return [
        session.post(b"{"), session.post(b"\xff\xfe"), session.post(b"[" * 5000), session.post(b"[]"),
        session.post(b'{"a": NaN}'), session.post(b"9" * 5000), session.post(b"null"), session.post(word.encode()),
        session.post({"jsonrpc": "2.0", "id": None, "method": "x"}), session.post({"jsonrpc": "1.0", "id": 1}),
        session.post({"jsonrpc": "2.0", "id": 5, "result": {}}), session.post({"jsonrpc": "2.0", "method": word}),
        session.request("no/such/method"), session.request("tools/call", {"name": 5}, mcp_name="5"),
        session.call("no-such-tool"), session.call("echo", {"text": 5}), session.call("echo", {word: word}),
        session.request("resources/read", {"uri": "no:such"}), session.request("initialize", {}),
        session.request("logging/setLevel", {"level": word}), session.request("completion/complete", {"ref": word}),
        session.request("resources/subscribe", {"uri": 5}), session.request("tools/list", {"cursor": word}),
        session.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": word}}),
        session.post(line, content_type="text/plain"), session.post(line, accept="text/html"),
        session.post(line, content_encoding="gzip"), session.post(line, host="evil.example"),
        session.post(line, origin="http://evil.example"), session.post(line, mcp_session_id="A" * 43),
        session.post(line, mcp_protocol_version="1999-01-01"), session.post(line, content_length="-1"),
        session.post(line, content_length=str(10**12)), session.post(line, transfer_encoding="chunked"),
        session.post(line, path="/elsewhere"), session.listen(last_event_id="\x01\xe9"),
        site.wire("PUT"), site.wire("BREW"), b"garbage\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", b"GET /mcp", b"\0" * 100,
        b"GET /" + b"x" * 100_000, site.wire("GET", path="/sse", host="evil.example"),
        site.wire("POST", line, "/messages"), site.wire("POST", line, "/messages?session_id=A"),
        session.post(line, expect="something"), session.post(line, x_big="x" * 9000),
    ]  # fmt: skip


@on_site("C62")
def quiet(t: Trial, site: Site) -> None:
    sessions = t.sessions(site)
    faults = [data for session in sessions for data in hostile(site, session, t.dice)]
    for data in faults:  # once, as what is said the first time may be said only then
        _commit(site, data)
    before = len(site.stderr().splitlines())
    rounds = 40 if t.options.full else 3
    for _ in range(rounds):
        for data in faults:
            _commit(site, data)
    said = len(site.stderr().splitlines()) - before
    done = rounds * len(faults)
    t.note("faults", done, "")
    t.below("lines of log a fault", said / done, 1, "")
    t.expect(said <= done, f"{said} lines of log for {done} faults")
    log = site.stderr()
    for sign in ("Traceback", "Exception"):
        t.expect(sign not in log, f"{log.count(sign)} x {sign} in the log: {log.partition(sign)[2][:200]!r}")
    _flood(t, site, sessions)


def _commit(site: Site, data: bytes, *, leaves: bool = True) -> None:
    """Do one of them, and leave without waiting for more than the beginning of an answer."""
    with site.visitor() as visitor:
        visitor.push(data)
        visitor.finish_quietly()
        if b"half" in data or data == b"GET /mcp":
            visitor.reset()
            return
        try:
            visitor.wait().more()
        except AssertionError:
            raise AssertionError(f"no answer to {shown(data, 100)}") from None


def _flood(t: Trial, site: Site, sessions: List[Session]) -> None:
    """The same fault, over and over: the log says so now and then."""
    count = 5000 if t.options.full else 300
    for session in sessions:
        for name, data in (
            ("a broken body", session.post(b"{")),
            ("an unknown tool", session.call("no-such-tool")),
            ("another host", session.post(b"{}", host="evil.example")),
            ("no request", b"garbage\r\n\r\n"),
        ):
            before, begun = len(site.stderr().splitlines()), time.monotonic()
            for _ in range(count // 4):
                _commit(site, data)
            said = len(site.stderr().splitlines()) - before
            allowed = 20 + 15 * (time.monotonic() - begun)
            t.expect(said <= allowed, f"{name} {count // 4} times: {said} lines of log")
