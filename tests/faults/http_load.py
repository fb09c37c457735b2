"""C45 to C50 and C60 to C62: slow, many and leaving clients, every end of an HTTP server, and its
log."""

from __future__ import annotations

import json
import random
import resource
import select
import selectors
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..wire.messages import MODERN
from .http_raw import Response, Session, Site, Visitor, events, messages, text_of
from .http_requests import headless, ping_of
from .http_sessions import Old
from .raw import shown
from .server_work import NOISE, RAISED
from .trial import Missing, Trial, case, on_site, start_http

# the beginning of a slow head, which never ends
HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
# seconds between groups of new connections of each kind; a sudden crowd is another case
PACE = 0.01


def make_room(descriptors: int) -> None:
    """Allow this process, and its children, this many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = descriptors + 200
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Missing(f"{wanted} open files are not allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Slow:
    """Connections of one kind: the bytes that each sends at first, and the bytes that it repeats.

    A `whole` request waits for its response, so that the crowd grows no faster than the server
    serves.
    """

    def __init__(
        self, name: str, deadline: float, begins: bytes, drips: bytes = b"", *, whole: bool = False
    ) -> None:
        self.name, self.deadline, self.begins, self.drips, self.whole = (
            name,
            deadline,
            begins,
            drips,
            whole,
        )
        self.since: Dict[Visitor, float] = {}
        self.lived: List[float] = []

    def open(self, stack: ExitStack, site: Site) -> Visitor:
        visitor = stack.enter_context(site.visitor())
        if self.begins:
            visitor.send(self.begins)
        if self.whole:
            visitor.answer()
        self.since[visitor] = time.monotonic()
        visitor.socket.setblocking(False)
        return visitor

    def drip(self) -> None:
        for visitor in list(self.since) if self.drips else ():
            try:
                visitor.socket.send(self.drips)
            except OSError:
                pass  # its end is seen by the selector


@case("C45")
def slow_loris(t: Trial) -> None:
    each = t.count(200, 200)
    make_room(4 * each)
    site = t.site(head=2, body=3, idle=1.5)
    session = site.session()
    site.alive(t.options.slack)
    files, terms = site.descriptors(), site.terms
    kinds = (
        Slow("slow head", terms.head, HEAD, b"x"),
        Slow(
            "slow body",
            terms.body,
            headless(session, "Content-Length: 4000").partition(b"{")[0],
            b"{",
        ),
        Slow("silent", terms.head, b""),
        Slow("idle", terms.idle, session.request(ping_of(session)), whole=True),
    )
    threads = shed(t, site, kinds, each)
    for kind in kinds:
        t.expect(not kind.since, f"{kind.name}: {len(kind.lived)} of {each} were shed")
        if kind.lived:
            t.below(
                f"{kind.name}, beyond {kind.deadline:g} s",
                max(0.0, max(kind.lived) - kind.deadline),
                2,
            )
    t.below("threads", threads, terms.workers + 2, "")
    t.freed(site, files, "slow connections")
    site.alive(t.options.slack)
    t.calm(site)


def shed(t: Trial, site: Site, kinds: Tuple[Slow, ...], each: int) -> int:
    """Open the connections, a few at a time, and wait until all are closed or the time is over.
    Return the maximum number of threads."""
    wait = max(kind.deadline for kind in kinds) + 2 * t.options.slack + t.options.patience / 4
    threads, begun, dripped, last = 0, 0, 0.0, time.monotonic()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        while begun < each or (
            any(kind.since for kind in kinds) and time.monotonic() < last + wait
        ):
            paced = time.monotonic() - last >= PACE
            for _ in range(min(each - begun, each // 100 + 1) if paced else 0):
                begun, last = begun + 1, time.monotonic()
                for kind in kinds:
                    visitor = kind.open(stack, site)
                    selector.register(visitor.socket, selectors.EVENT_READ, (kind, visitor))
            for key, _ in selector.select(PACE if begun < each else 0.1):
                kind, visitor = key.data
                if visitor.has_closed():
                    selector.unregister(visitor.socket)
                    kind.lived.append(time.monotonic() - kind.since.pop(visitor))
            if time.monotonic() - dripped > 0.4:
                dripped = time.monotonic()
                for kind in kinds:
                    kind.drip()
                t.probed(site)
                threads = max(threads, site.threads)
    return threads


@on_site("C46", connections=50)
def full(t: Trial, site: Site) -> None:
    most = site.terms.connections
    make_room(most + 100)
    session = site.session()
    site.alive(t.options.slack)
    ping = session.request(ping_of(session))
    files = site.settled(site.descriptors, 0, 0.2)
    with ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(site.visitor()).send(HEAD)
        outcomes = [beyond(site, ping) for _ in range(10)]
        t.note("connections", most, "")
        t.note("refused with 503", outcomes.count("503"), "")
        if "served" in outcomes:
            t.warn(f"{outcomes.count('served')} of 10 connections beyond {most} were served")
        odd = set(outcomes) - {"503", "waits", "closed", "served"}
        t.expect(not odd, f"beyond {most} connections: {odd}")
    begun = time.monotonic()
    site.settled(lambda: float(beyond(site, ping) != "served"), 0)
    t.below("recovers after", time.monotonic() - begun, 1)
    t.freed(site, files, f"{most} connections")
    with ExitStack() as stack:  # all allowed connections, all idle: a new one is still served
        for _ in range(most):
            t.expect(
                stack.enter_context(site.visitor()).send(ping).answer().status == 200,
                "one of them is not served",
            )
        # A server may look a moment longer at each before it is idle: five in a row are served some
        # time.
        refused = site.settled(
            lambda: float(sum(beyond(site, ping) != "served" for _ in range(5))), 0
        )
    if refused:
        t.warn(f"idle connections make no room: {refused:g} of 5 are not served")


def beyond(site: Site, ping: bytes) -> str:
    """Return the outcome of a request on one connection too many: served, 503, closed, or waiting."""
    with site.visitor(0.5) as visitor:
        visitor.push(ping)
        try:
            status = visitor.answer().status
        except AssertionError as error:
            return "waits" if "nothing came" in str(error) else "closed"
    return {200: "served", 503: "503"}.get(status, f"status {status}")


SIZE, EVENTS = (
    10_000,
    1_500,
)  # 15 MB of events: more than the buffers of the system between the two ends


@case("C49")
def slow_readers(t: Trial) -> None:
    site = t.site("pour", write=1.5)
    wait = site.terms.write + t.options.patience * t.options.slack
    for session in t.sessions(site):
        site.alive(t.options.slack)
        reads_slowly(t, site, session)
        files, base = site.settled(site.descriptors, 0, 0.2), site.memory("VmHWM")
        with ExitStack() as stack:
            deaf = [
                stack.enter_context(site.visitor(taking=32768)).send(pour(session, EVENTS))
                for _ in range(5)
            ]
            for visitor in deaf:
                t.expect(visitor.head()[0] == 200, "no stream")
            begun = time.monotonic()
            t.probed(site)
            t.freed(site, files, "streams that nobody reads", wait)
            took = time.monotonic() - begun - site.terms.write
            t.below("dropped, beyond the write deadline", max(0.0, took), 5)
            t.probed(site)
            for visitor in deaf:
                t.expect(not whole(visitor), "a stream that nobody read ended as if it were whole")
        t.below("growth", max(0.0, site.memory("VmHWM") - base), 40, "MB")
        if session.revision != MODERN and "grow" in site.tools:
            unread_notices(t, site, session, wait)
        site.alive(t.options.slack)
    t.calm(site)


def pour(session: Session, count: int) -> bytes:
    level = {"io.modelcontextprotocol/logLevel": "debug"}
    return session.call("pour", {"events": count, "size": SIZE}, _meta=level)


def reads_slowly(t: Trial, site: Site, session: Session) -> None:
    """A client that reads slowly, but in time, receives the whole response."""
    wanted, body, pause = 300, b"", 500_000
    with site.visitor(taking=32768) as visitor:
        status, _ = visitor.send(pour(session, wanted)).head()
        for piece in visitor.chunks():
            body += piece
            if len(body) > pause:
                pause += 500_000
                time.sleep(0.2)
    found = list(events(body))
    t.expect(
        status == 200 and len(found) == wanted + 1,
        f"a slow reader got {len(found)} of {wanted + 1} events",
    )
    t.expect(found and "result" in found[-1], f"a slow reader got {shown(found[-1:])} at the end")


def whole(visitor: Visitor) -> bool:
    """Return whether a chunked body is complete, from the bytes received so far."""
    try:
        for _ in visitor.chunks():
            pass
    except (EOFError, OSError, ValueError):
        return False
    return True


NOTICES = 20_000  # more than the buffers of the system hold


def unread_notices(t: Trial, site: Site, session: Session, wait: float) -> None:
    """The stream of a session without a reader is dropped, and the sender of its notifications does
    not wait."""
    files = site.settled(site.descriptors, 0, 0.2)
    with site.visitor(taking=2048) as deaf, site.visitor() as busy:
        t.expect(deaf.send(session.listen()).head()[0] == 200, "no stream of a session")
        made, slowest = 0, 0.0
        while made < NOTICES and site.descriptors() > files + 1:  # the busy one is open
            for _ in range(100):
                begun, made = time.monotonic(), made + 1
                busy.send(session.call("grow", {"name": f"grown-{made}"})).answer()
                slowest = max(slowest, time.monotonic() - begun)
        busy.close()
        t.freed(site, files, "the unread stream of a session", wait)
        t.expect(
            not whole(deaf), "the stream of a session that nobody read ended as if it were whole"
        )
    t.note("notices before it was dropped", made, "")
    t.below("slowest call beside it", slowest, 1)


AT_ONCE = 20
IDLE = 10.0  # seconds that a thread of a pool may wait for work before it leaves


def few_threads(t: Trial, site: Site, threads: int, what: str) -> None:
    spare = 2 if t.options.full else AT_ONCE  # the rest of a pool leaves after a while
    more = site.settled(lambda: site.threads, threads + spare, t.options.patience + IDLE) - threads
    t.below(what, max(0, more), spare, "")


@case("C47")
def disconnects(t: Trial) -> None:
    tries = t.count(200, 1_000)
    site = t.site("echo")
    for session in t.sessions(site):
        site.alive(t.options.slack)
        files = site.settled(site.descriptors, 0, 0.2)
        leave(t, session, 3 * AT_ONCE, "warm", files)
        threads, base = site.threads, site.memory()
        leave(t, session, tries, "tried", files)
        t.freed(site, files, f"{tries} calls whose clients left")
        few_threads(t, site, threads, f"more threads, {session.revision}")
        t.below(f"growth, {session.revision}", max(0.0, site.memory() - base), 5, "MB")
        site.alive(t.options.slack)
    t.calm(site)


def leave(t: Trial, session: Session, tries: int, word: str, files: float) -> None:
    """Start this many calls, and abandon them, every other one with a reset. After each batch the
    server must finish."""
    site = session.site
    watched = session.revision == MODERN and {"watch", "wait_for"} <= site.tools
    slow = "deaf_slow" in site.tools
    unwatched = (
        session.call("deaf_slow", {"seconds": 0.02})
        if slow
        else session.call("echo", {"text": "left"})
    )
    for batch in range(-(-tries // AT_ONCE)):
        names = [f"{word} {batch} {number}" for number in range(AT_ONCE)]
        with ExitStack() as stack:
            visitors: List[Visitor] = []
            for name in names:
                visitor = stack.enter_context(site.visitor())
                visitors.append(
                    visitor.send(session.call("watch", {"name": name}) if watched else unwatched)
                )
            for name in names if watched else ():
                session.text("wait_for", {"name": name, "what": "begin"})
            for place, visitor in enumerate(visitors):
                (visitor.reset if place % 2 else visitor.close)()
        for name in names if watched else ():
            ended = session.text("wait_for", {"name": name, "what": "end"})
            t.expect(
                ended.startswith("cancelled"),
                f"a handler whose client left was not told: it {ended}",
            )
        if not watched:
            site.exchange(unwatched)  # those before it have ended, or nearly
        if site.settled(site.descriptors, files) > files:
            return  # reported at the end


@case("C48")
def dropped_streams(t: Trial) -> None:
    tries, site, slowest = t.count(100, 300), t.site(), 0.0
    for session in t.sessions(site):
        modern = session.revision == MODERN
        if not modern and site.exchange(session.listen(), "HEAD").status != 200:
            t.warn(f"{session.revision} has no stream of its own")
            continue
        opened(t, session)[0].close()
        files, threads = site.settled(site.descriptors, 0, 0.2), site.threads
        for number in range(tries):
            visitor, took = opened(t, session)
            slowest = max(slowest, took)
            with visitor:
                if not modern and number % 10 == 0:
                    with site.visitor() as second:
                        status = second.send(session.listen()).head()[0]
                    t.expect(status == 409, f"a second stream of a session: status {status}")
                    t.expect(
                        not visitor.has_closed(), "a second stream of a session ended the first"
                    )
                (visitor.reset if number % 2 else visitor.close)()
        t.below("freed after", slowest, site.terms.keepalive)
        t.freed(site, files, f"{tries} streams", site.terms.keepalive + t.options.patience)
        few_threads(t, site, threads, "more threads")
        site.alive(t.options.slack)
    t.calm(site)


def opened(t: Trial, session: Session) -> Tuple[Visitor, float]:
    """Open a stream as soon as the previous one is known to have ended. Return it, and the seconds
    until then."""
    begun = time.monotonic()
    while True:
        visitor = session.site.visitor()
        status = visitor.send(session.stream()).head()[0]
        took = time.monotonic() - begun
        if status == 200:
            return visitor, took
        visitor.close()
        assert status == 409, f"a stream was refused with status {status}"
        assert took < session.site.terms.keepalive + t.options.patience, (
            "a stream that was dropped is never freed"
        )
        time.sleep(0.01)


@case("C50")
def raising(t: Trial) -> None:
    site = t.site("raiser", "spoil", "pour")
    for session in t.sessions(site):
        for kind in RAISED:
            told(
                t,
                site.exchange(session.call("raiser", {"kind": kind})),
                f"a tool that raises {kind}",
            )
        begun = session.call("spoil", _meta={"io.modelcontextprotocol/logLevel": "debug"})
        for _ in range(10):
            with site.visitor() as visitor:
                response = visitor.send(begun).answer()
                told(t, response, "a tool that raises in a stream")
                t.expect(
                    len(messages(response)) == 2,
                    f"a stream with {len(messages(response))} events, not 2",
                )
                if response.headers.get("connection") != "close":
                    t.expect(
                        visitor.send(begun).answer().status == 200,
                        "no request after one that raised",
                    )
        log = len(site.stderr())
        for number in range(20):
            with site.visitor() as visitor:
                t.expect(visitor.send(pour(session, 1_000)).head()[0] == 200, "no stream")
                visitor.reset() if number % 2 else visitor.close()
        with site.visitor() as visitor:
            visitor.send(pour(session, 50)).head()
            t.expect(
                len(list(events(b"".join(visitor.chunks())))) == 51,
                "a stream beside dropped ones is not whole",
            )
        site.alive(t.options.slack)
        t.expect("Traceback" not in site.stderr()[log:], "a traceback for a client that left")


def told(t: Trial, response: Response, what: str) -> None:
    """Check that a response is complete: one error response that names no place in the code."""
    answers = [one for one in messages(response) if "method" not in one]
    failed = len(answers) == 1 and ("error" in answers[0] or answers[0]["result"].get("isError"))
    t.expect(failed, f"{what}: status {response.status}, {shown(response.body)}")
    t.expect(response.status < 500 or answers, f"{what}: status {response.status}")
    for sign in ("Traceback (most recent", 'File "'):
        t.expect(sign not in json.dumps(answers), f"{what}: the client is shown {sign}")


CODES = (0, -signal.SIGTERM, -signal.SIGINT, 130, 143)


def ends(
    t: Trial,
    site: Site,
    what: str,
    bound: float,
    *,
    number: int = signal.SIGTERM,
    quiet: bool = True,
) -> None:
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
    if t.subject.tunable or any("{port}" in word for word in t.subject.http):
        at_once_again(t, site)
    ends(t, t.site(), "SIGINT, idle", 1, number=signal.SIGINT)
    with_open_streams(t)
    if "deaf_slow" in t.subject.http_tools:
        cases = ((1, 1.5, False), (30, 1.5, False), (30, 1.5, True))
        t.at_once(*(partial(in_flight, t, *each) for each in cases))


def at_once_again(t: Trial, site: Site) -> None:
    """Another server takes the same port at once, and does not know the sessions of the first."""
    command = tuple(word.replace("{port}", str(site.port)) for word in t.subject.http)
    again: Site = t.keep(start_http(t.subject._replace(http=command), t.options, port=site.port))
    t.expect(again.port == site.port, "another port was taken")
    session = again.session(t.http_eras()[0])
    if "mcp-session-id" in session.headers:
        status = again.exchange(session.request("ping", mcp_session_id="A" * 43)).status
        t.expect(status == 404, f"a session of the server before got status {status}")
    again.alive(t.options.slack)


def with_open_streams(t: Trial) -> None:
    site = t.site()
    with ExitStack() as stack:
        visitors = []
        for session in t.sessions(site):
            visitor = stack.enter_context(site.visitor())
            if visitor.send(session.stream()).head()[0] == 200:
                visitors.append(visitor)
        try:
            visitors.append(stack.enter_context(Old(site).visitor))
        except Missing:
            pass
        t.note("open streams", len(visitors), "")
        ends(t, site, "SIGTERM, open streams", 1)
        for visitor in visitors:
            visitor.closes()


def in_flight(t: Trial, seconds: int, bound: float, twice: bool) -> None:
    """A call that runs is not waited for: hosts kill after two seconds. Nor is it after a second
    signal."""
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
            t.expect(
                text_of(visitor.answer()) == "slept",
                "a call of 1 s was not answered before the end",
            )


def at(part: float, values: List[float]) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[max(0, int(len(values) * part + 0.999999) - 1)]


@on_site("C61", "echo")
def many(t: Trial, site: Site) -> None:
    for revision in t.http_eras():
        fifty(t, site, revision)
    crowd = min(t.count(300, 1000), int(site.terms.connections) - 10)
    for revision in t.http_eras():
        clients = [site.session(revision) for _ in range(CROWD_CLIENTS)]
        begun = time.monotonic()
        times, wrong = together(site, clients, crowd, 6 * t.options.patience)
        t.expect(not wrong, f"{len(wrong)} of {crowd} at once: {wrong[:1]}")
        t.note(f"{revision}: {crowd} at once, all after", time.monotonic() - begun, "s")
        if times:
            t.below(f"{revision}: {crowd} at once, 99 of 100", at(0.99, times), 10)
    burst(t, site)


# Sessions that send the requests of C61. A server may allow one client only a part of its requests,
# as ours does (a quarter, Limits.client_share).
CROWD_CLIENTS = 10


def fifty(t: Trial, site: Site, revision: str) -> None:
    """Fifty clients make twenty calls each, one after the other. Half of them keep their
    connection."""

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


def connecting(site: Site, stack: ExitStack) -> socket.socket:
    sock = stack.enter_context(socket.socket())
    sock.setblocking(False)
    sock.connect_ex(("127.0.0.1", site.port))
    return sock


def together(
    site: Site, clients: Sequence[Session], count: int, seconds: float
) -> Tuple[List[float], List[str]]:
    """Connect and call this many times at once, on one thread and from all clients in turn. Return
    the duration of each call, and the faults."""
    times: List[float] = []
    wrong: List[str] = []
    came: Dict[int, bytes] = {}

    def step(sock: Any, number: int, mask: int) -> Optional[str]:
        """Do one step of a client; return its fault when it has ended, or an empty text if there is
        none."""
        try:
            if mask & selectors.EVENT_WRITE:
                client = clients[number % len(clients)]
                data = client.call("echo", {"text": str(number)}, id=7)
                sock.send(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
                selector.modify(sock, selectors.EVENT_READ, number)
                return None
            data = sock.recv(65536)
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        came[number] = came.get(number, b"") + data
        if data:
            return None
        return (
            "" if b'"%d"' % number in came[number] else f"an answer was {shown(came[number], 200)}"
        )

    end, begun = time.monotonic() + seconds, time.monotonic()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for number in range(count):
            selector.register(connecting(site, stack), selectors.EVENT_WRITE, number)
        while selector.get_map() and time.monotonic() < end:
            for key, mask in selector.select(max(0.0, end - time.monotonic())):
                done = step(key.fileobj, key.data, mask)
                if done is not None:
                    selector.unregister(key.fileobj)
                    times.append(time.monotonic() - begun)
                    wrong += [done] if done else []
        wrong += ["no answer"] * len(selector.get_map())
    return times, wrong


BACKLOG = 128


def burst(t: Trial, site: Site) -> None:
    """A server that stops for a moment loses no client: this many connections wait to be accepted."""
    site.signal(signal.SIGSTOP)
    with ExitStack() as stack:
        stack.callback(site.signal, signal.SIGCONT)
        held = [connecting(site, stack) for _ in range(BACKLOG)]
        end, ready = time.monotonic() + t.options.slack / 2, 0
        while ready < BACKLOG and time.monotonic() < end:
            time.sleep(0.02)
            ready = len(select.select((), held, (), 0)[1])
    t.note("connections that wait", ready, "")
    t.expect(
        ready >= BACKLOG, f"of {BACKLOG} connections at once {ready} found room in the backlog"
    )


def hostile(site: Site, session: Session, dice: random.Random) -> List[bytes]:
    """One request for each fault that a client can commit, of all the rows before; each is its own
    connection."""
    line = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    word = "".join(dice.choice("abc\r\n\0\x1b\u2028\xff") for _ in range(20))
    post, request = session.post, session.request
    return [
        post(b"{"), post(b"\xff\xfe"), post(b"[" * 5000), post(b"[]"), post(b'{"a": NaN}'), post(b"9" * 5000),
        post(b"null"), post(word.encode()), post({"jsonrpc": "2.0", "id": None, "method": "x"}),
        post({"jsonrpc": "1.0", "id": 1}), post({"jsonrpc": "2.0", "id": 5, "result": {}}),
        post({"jsonrpc": "2.0", "method": word}), request("no/such/method"),
        request("tools/call", {"name": 5}, mcp_name="5"), session.call("no-such-tool"),
        session.call("echo", {"text": 5}), session.call("echo", {word: word}),
        request("resources/read", {"uri": "no:such"}), request("initialize", {}),
        request("logging/setLevel", {"level": word}), request("completion/complete", {"ref": word}),
        request("resources/subscribe", {"uri": 5}), request("tools/list", {"cursor": word}),
        post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": word}}),
        post(line, content_type="text/plain"), post(line, accept="text/html"), post(line, content_encoding="gzip"),
        post(line, host="evil.example"), post(line, origin="http://evil.example"), post(line, mcp_session_id="A" * 43),
        post(line, mcp_protocol_version="1999-01-01"), post(line, content_length="-1"),
        post(line, content_length=str(10**12)), post(line, transfer_encoding="chunked"), post(line, path="/elsewhere"),
        session.listen(last_event_id="\x01\xe9"), site.wire("PUT"), site.wire("BREW"), b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", b"GET /mcp", b"\0" * 100,
        b"GET /" + b"x" * 100_000, site.wire("GET", path="/sse", host="evil.example"),
        site.wire("POST", line, "/messages"), site.wire("POST", line, "/messages?session_id=A"),
        post(line, expect="something"), post(line, x_big="x" * 9000),
    ]  # fmt: skip


@on_site("C62")
def quiet(t: Trial, site: Site) -> None:
    sessions = t.sessions(site)
    faults = [data for session in sessions for data in hostile(site, session, t.dice)]
    for data in faults:  # once, because some code may run only the first time
        commit(site, data)
    before = len(site.stderr().splitlines())
    rounds = 40 if t.options.full else 3
    for data in faults * rounds:
        commit(site, data)
    said, done = len(site.stderr().splitlines()) - before, rounds * len(faults)
    t.note("faults", done, "")
    t.below("lines of log a fault", said / done, 1, "")
    t.expect(said <= done, f"{said} lines of log for {done} faults")
    log = site.stderr()
    for sign in ("Traceback", "Exception"):
        t.expect(
            sign not in log,
            f"{log.count(sign)} x {sign} in the log: {log.partition(sign)[2][:200]!r}",
        )
    count = (5000 if t.options.full else 300) // 4
    for session in sessions:  # the same fault again and again, which the log reports now and then
        for name, data in (
            ("a broken body", session.post(b"{")), ("an unknown tool", session.call("no-such-tool")),
            ("another host", session.post(b"{}", host="evil.example")), ("no request", b"garbage\r\n\r\n"),
        ):  # fmt: skip
            before, begun = len(site.stderr().splitlines()), time.monotonic()
            for _ in range(count):
                commit(site, data)
            said = len(site.stderr().splitlines()) - before
            allowed = 20 + 15 * (time.monotonic() - begun)
            t.expect(said <= allowed, f"{name} {count} times: {said} lines of log")


def commit(site: Site, data: bytes) -> None:
    """Send one faulty request, and leave without waiting for more than the beginning of a response."""
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
