"""C47, C48 and C50: clients that leave, streams that are dropped, and tools that raise."""

from __future__ import annotations

import contextlib
import json
import time
from typing import List

from ..wire.messages import MODERN
from .http_raw import Response, Session, Visitor, events, messages
from .http_slow import pour
from .raw import shown
from .server_tools import RAISED
from .trial import Trial, case

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


# ------------------------------------------------------------ C50

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


