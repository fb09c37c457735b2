"""C45, C46 and C49: connections that are slow, many, or do not read."""

from __future__ import annotations

import contextlib
import resource
import selectors
import time
from typing import Dict, Iterator, List, Tuple

from ..wire.messages import MODERN
from .http_bodies import headless, ping_of
from .http_raw import Session, Site, Visitor, events
from .raw import shown
from .trial import Missing, Trial, case, on_site

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
    """A connection with a small buffer, on which a call sends many events."""
    visitor = site.visitor(taking=32768)
    return visitor.send(pour(session, EVENTS))


def pour(session: Session, count: int) -> bytes:
    """A call that sends so many events."""
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


