"""C45 to C50 and C60 to C62: slow, many and leaving clients, every end of an HTTP server, and its log."""

from __future__ import annotations

import contextlib
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
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..wire.messages import MODERN
from .http_raw import Response, Session, Site, Visitor, events, messages, text_of
from .http_requests import headless, ping_of
from .http_sessions import Old
from .raw import shown
from .server_work import NOISE, RAISED
from .trial import Missing, Trial, case, on_site, start_http

HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: "  # what a slow head begins with; it goes on for ever


def make_room(descriptors: int) -> None:
    """Have this process, and what it starts, open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = descriptors + 200
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Missing(f"{wanted} open files are not allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


PACE = 0.01
"""Seconds between some new connections of each kind and the next: a crowd that comes at once is another matter."""


class Slow:
    """Connections of one kind."""

    def __init__(self, name: str, deadline: float, begins: bytes, drips: bytes = b"", *, whole: bool = False) -> None:
        self.name, self.deadline, self.begins, self.drips, self.whole = name, deadline, begins, drips, whole
        self.since: Dict[Visitor, float] = {}
        self.lived: List[float] = []

    def open(self, stack: contextlib.ExitStack, site: Site) -> Visitor:
        visitor = stack.enter_context(site.visitor())
        if self.begins:
            visitor.send(self.begins)
        if self.whole:
            visitor.answer()
        self.since[visitor] = time.monotonic()
        visitor.socket.setblocking(False)
        return visitor

    def ends(self, visitor: Visitor) -> None:
        self.lived.append(time.monotonic() - self.since.pop(visitor))

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
    files = site.descriptors()
    terms = site.terms
    answered = session.request(ping_of(session))
    kinds = (
        Slow("slow head", terms.head, HEAD, b"x"),
        Slow("slow body", terms.body, headless(session, "Content-Length: 4000").partition(b"{")[0], b"{"),
        Slow("silent", terms.head, b""),
        Slow("idle", terms.idle, answered, whole=True),
    )
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        threads = shed(t, site, kinds, each, stack, selector)
    for kind in kinds:
        t.expect(not kind.since, f"{kind.name}: {len(kind.lived)} of {each} were shed")
        if kind.lived:
            t.below(f"{kind.name}, beyond {kind.deadline:g} s", max(0.0, max(kind.lived) - kind.deadline), 2)
    t.below("threads", threads, terms.workers + 2, "")
    left = site.settled(lambda: site.descriptors() - files, 0)
    t.expect(left <= 0, f"{left:g} descriptors are left")
    site.alive(t.options.slack)
    t.calm(site)


def shed(
    t: Trial,
    site: Site,
    kinds: Tuple[Slow, ...],
    each: int,
    stack: contextlib.ExitStack,
    selector: selectors.BaseSelector,
) -> int:
    """Open them, a few at a time, and watch until all are gone or it is too late; the most threads that there were."""
    grace = 2 * t.options.slack + t.options.patience / 4
    threads, opened, dripped, last = 0, 0, 0.0, time.monotonic()
    while opened < each or (
        any(kind.since for kind in kinds)
        and time.monotonic() < last + max(kind.deadline for kind in kinds) + grace
    ):
        paced = time.monotonic() - last >= PACE
        for _ in range(min(each - opened, each // 100 + 1) if paced else 0):
            opened, last = opened + 1, time.monotonic()
            for kind in kinds:
                visitor = kind.open(stack, site)
                selector.register(visitor.socket, selectors.EVENT_READ, (kind, visitor))
        for key, _ in selector.select(PACE if opened < each else 0.1):
            kind, visitor = key.data
            if has_ended(visitor):
                selector.unregister(visitor.socket)
                kind.ends(visitor)
        if time.monotonic() - dripped > 0.4:
            dripped = time.monotonic()
            for kind in kinds:
                kind.drip()
            t.probed(site)
            threads = max(threads, site.threads)
    return threads


def has_ended(visitor: Visitor) -> bool:
    try:
        return not visitor.socket.recv(65536)
    except BlockingIOError:
        return False
    except OSError:
        return True


@on_site("C46", connections=50)
def full(t: Trial, site: Site) -> None:
    most = site.terms.connections
    make_room(most + 100)
    session = site.session()
    site.alive(t.options.slack)
    ping = session.request(ping_of(session))
    files = site.settled(site.descriptors, 0, 0.2)
    with contextlib.ExitStack() as stack:
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
    t.expect(site.settled(site.descriptors, files) <= files, "descriptors are left")
    idle_make_room(t, site, ping)


def beyond(site: Site, ping: bytes) -> str:
    """What becomes of a request on one connection more: served, 503, closed, waits."""
    with site.visitor(0.5) as visitor:
        visitor.push(ping)
        try:
            status = visitor.answer().status
        except AssertionError as error:
            return "waits" if "nothing came" in str(error) else "closed"
    return {200: "served", 503: "503"}.get(status, f"status {status}")


def idle_make_room(t: Trial, site: Site, ping: bytes) -> None:
    """As many connections as there may be, all idle: a new one is served all the same."""
    with contextlib.ExitStack() as stack:
        for _ in range(site.terms.connections):
            t.expect(stack.enter_context(site.visitor()).send(ping).answer().status == 200, "one of them is not served")
        # A server may look a moment longer at each before it is idle: five in a row are served some time.
        refused = site.settled(lambda: float(sum(beyond(site, ping) != "served" for _ in range(5))), 0)
    if refused:
        t.warn(f"idle connections make no room: {refused:g} of 5 are not served")


SIZE, EVENTS = 10_000, 1_500  # 15 MB of events: more than the buffers of the system between the two ends


@case("C49")
def slow_readers(t: Trial) -> None:
    site = t.site("pour", write=1.5)
    for session in t.sessions(site):
        site.alive(t.options.slack)
        reads(t, site, session)
        files, base = site.settled(site.descriptors, 0, 0.2), site.memory("VmHWM")
        with contextlib.ExitStack() as stack:
            deaf = [stack.enter_context(pouring(site, session)) for _ in range(5)]
            for visitor in deaf:
                t.expect(visitor.head()[0] == 200, "no stream")
            begun = time.monotonic()
            t.probed(site)
            wait = site.terms.write + t.options.patience * t.options.slack
            left = site.settled(site.descriptors, files, wait) - files
            t.expect(left <= 0, f"{left:g} descriptors are left of streams that nobody reads")
            took = time.monotonic() - begun - site.terms.write
            t.below("dropped, beyond the write deadline", max(0.0, took), 5)
            t.probed(site)
            for visitor in deaf:
                t.expect(not whole(visitor), "a stream that nobody read ended as if it were whole")
        t.below("growth", max(0.0, site.memory("VmHWM") - base), 40, "MB")
        if session.revision != MODERN and "grow" in site.tools:
            unread_notices(t, site, session)
        site.alive(t.options.slack)
    t.calm(site)


NOTICES = 20_000  # more than the buffers of the system hold


def unread_notices(t: Trial, site: Site, session: Session) -> None:
    """The stream of a session that nobody reads is dropped, and whoever makes the notices for it does not wait."""
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
        wait = site.terms.write + t.options.patience * t.options.slack
        t.expect(site.settled(site.descriptors, files, wait) <= files, "the unread stream of a session is left")
        t.expect(not whole(deaf), "the stream of a session that nobody read ended as if it were whole")
    t.note("notices before it was dropped", made, "")
    t.below("slowest call beside it", slowest, 1)


def pouring(site: Site, session: Session) -> Visitor:
    visitor = site.visitor(taking=32768)
    return visitor.send(pour(session, EVENTS))


def pour(session: Session, count: int) -> bytes:
    level = {"io.modelcontextprotocol/logLevel": "debug"}
    return session.call("pour", {"events": count, "size": SIZE}, _meta=level)


def reads(t: Trial, site: Site, session: Session) -> None:
    """Who reads slowly, but in time, gets all of it."""
    wanted = 300
    with site.visitor(taking=32768) as visitor:
        visitor.send(pour(session, wanted))
        status, _ = visitor.head()
        body = b"".join(slowly(visitor))
    found = list(events(body))
    t.expect(status == 200 and len(found) == wanted + 1, f"a slow reader got {len(found)} of {wanted + 1} events")
    t.expect(found and "result" in found[-1], f"a slow reader got {shown(found[-1:])} at the end")


def slowly(visitor: Visitor) -> Iterator[bytes]:
    """The pieces of a body, with a pause now and then."""
    size = 0
    for piece in visitor.chunks():
        size += len(piece)
        if size > 500_000:
            size = 0
            time.sleep(0.2)
        yield piece


def whole(visitor: Visitor) -> bool:
    """Whether a body in chunks comes to its end; what has come of it is read."""
    try:
        for _ in visitor.chunks():
            pass
    except (EOFError, OSError, ValueError):
        return False
    return True


AT_ONCE = 20

IDLE = 10.0  # seconds that a thread of a pool may wait for work before it leaves


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
        left = site.settled(site.descriptors, files) - files
        t.expect(left <= 0, f"{left:g} descriptors are left of {tries} calls whose clients left")
        spare = 2 if t.options.full else AT_ONCE  # the rest of a pool leaves after a while
        more = site.settled(lambda: site.threads, threads + spare, t.options.patience + IDLE) - threads
        t.below(f"more threads, {session.revision}", max(0, more), spare, "")
        t.below(f"growth, {session.revision}", max(0.0, site.memory() - base), 5, "MB")
        site.alive(t.options.slack)
    t.calm(site)


def leave(t: Trial, session: Session, tries: int, word: str, files: float) -> None:
    """Begin so many calls, and leave them, every other one by a reset; with each batch the server comes to an end."""
    site = session.site
    watched = session.revision == MODERN and {"watch", "wait_for"} <= site.tools
    for batch in range(-(-tries // AT_ONCE)):
        names = [f"{word} {batch} {number}" for number in range(AT_ONCE)]
        with contextlib.ExitStack() as stack:
            visitors: List[Visitor] = []
            for name in names:
                visitor = stack.enter_context(site.visitor())
                visitors.append(visitor.send(session.call("watch", {"name": name}) if watched else unwatched(session)))
            for name in names if watched else ():
                session.text("wait_for", {"name": name, "what": "begin"})
            for place, visitor in enumerate(visitors):
                (visitor.reset if place % 2 else visitor.close)()
        for name in names if watched else ():
            ended = session.text("wait_for", {"name": name, "what": "end"})
            t.expect(ended.startswith("cancelled"), f"a handler whose client left was not told: it {ended}")
        if not watched:
            site.exchange(unwatched(session))  # those before it have ended, or nearly
        if site.settled(site.descriptors, files) > files:
            return  # it is told at the end


def unwatched(session: Session) -> bytes:
    if "deaf_slow" in session.site.tools:
        return session.call("deaf_slow", {"seconds": 0.02})
    return session.call("echo", {"text": "left"})


@case("C48")
def dropped_streams(t: Trial) -> None:
    tries, site, slowest = t.count(100, 300), t.site(), 0.0
    for session in t.sessions(site):
        modern = session.revision == MODERN
        if not modern and site.exchange(session.listen(), "HEAD").status != 200:
            t.warn(f"{session.revision} has no stream of its own")
            continue
        opened(t, session).close()
        files, threads = site.settled(site.descriptors, 0, 0.2), site.threads
        for number in range(tries):
            with opened(t, session) as visitor:
                if not modern and number % 10 == 0:
                    second_is_refused(t, session, visitor)
                (visitor.reset if number % 2 else visitor.close)()
            slowest = max(slowest, t.metrics.pop("freed", (0.0, ""))[0])
        t.below("freed after", slowest, site.terms.keepalive)
        left = site.settled(site.descriptors, files, site.terms.keepalive + t.options.patience) - files
        t.expect(left <= 0, f"{left:g} descriptors are left of {tries} streams")
        spare = 2 if t.options.full else AT_ONCE
        more = site.settled(lambda: site.threads, threads + spare, t.options.patience + IDLE) - threads
        t.below("more threads", max(0, more), spare, "")
        site.alive(t.options.slack)
    t.calm(site)


def opened(t: Trial, session: Session) -> Visitor:
    """A stream, as soon as the one before is known to be gone."""
    begun = time.monotonic()
    end = begun + session.site.terms.keepalive + t.options.patience
    wanted = {"notifications": {"toolsListChanged": True}}
    data = session.request("subscriptions/listen", wanted) if session.revision == MODERN else session.listen()
    while True:
        visitor = session.site.visitor()
        status = visitor.send(data).head()[0]
        if status == 200:
            t.note("freed", time.monotonic() - begun, "s")
            return visitor
        visitor.close()
        assert status == 409, f"a stream was refused with status {status}"
        assert time.monotonic() < end, "a stream that was dropped is never freed"
        time.sleep(0.01)


def second_is_refused(t: Trial, session: Session, first: Visitor) -> None:
    """Another stream of the same session is refused with 409, and the first goes on."""
    with session.site.visitor() as second:
        status = second.send(session.listen()).head()[0]
    t.expect(status == 409, f"a second stream of a session: status {status}")
    t.expect(not first.has_closed(), "a second stream of a session ended the first")


TRACES = ("Traceback (most recent", 'File "')


@case("C50")
def raising(t: Trial) -> None:
    site = t.site("raiser", "spoil", "pour")
    for session in t.sessions(site):
        for kind in RAISED:
            told(t, site.exchange(session.call("raiser", {"kind": kind})), f"a tool that raises {kind}")
        begun = session.call("spoil", _meta={"io.modelcontextprotocol/logLevel": "debug"})
        for _ in range(10):
            with site.visitor() as visitor:
                visitor.send(begun)
                response = visitor.answer()
                told(t, response, "a tool that raises in a stream")
                t.expect(len(messages(response)) == 2, f"a stream with {len(messages(response))} events, not 2")
                if response.headers.get("connection") != "close":
                    t.expect(visitor.send(begun).answer().status == 200, "no request after one that raised")
        log = len(site.stderr())
        for number in range(20):
            with site.visitor() as visitor:
                visitor.send(pour(session, 1_000))
                t.expect(visitor.head()[0] == 200, "no stream")
                visitor.reset() if number % 2 else visitor.close()
        with site.visitor() as visitor:
            visitor.send(pour(session, 50))
            visitor.head()
            t.expect(len(list(events(b"".join(visitor.chunks())))) == 51, "a stream beside dropped ones is not whole")
        site.alive(t.options.slack)
        t.expect("Traceback" not in site.stderr()[log:], "a traceback for a client that left")


def told(t: Trial, response: Response, what: str) -> None:
    """A response is whole: one answer, which says that it failed and not where."""
    answers = [one for one in messages(response) if "method" not in one]
    failed = len(answers) == 1 and ("error" in answers[0] or answers[0]["result"].get("isError"))
    t.expect(failed, f"{what}: status {response.status}, {shown(response.body)}")
    t.expect(response.status < 500 or answers, f"{what}: status {response.status}")
    for sign in TRACES:
        t.expect(sign not in json.dumps(answers), f"{what}: the client is shown {sign}")


CODES = (0, -signal.SIGTERM, -signal.SIGINT, 130, 143)


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


def at(part: float, values: List[float]) -> float:
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
