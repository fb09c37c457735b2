"""C56, C59 and C63: what event streams carry, how they go on after a cut, and what proxies do to them."""

from __future__ import annotations

import gzip
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..wire.messages import LEVEL_KEY, MODERN, decode
from .http_raw import Response, Session, Site, Visitor, messages, text_of
from .http_sessions import glance, hasty, keeping, refused, served
from .raw import shown
from .toy_proxy import Habits, ToyProxy
from .trial import Missing, Trial, case, on_site

HOSTILE = (
    "a\nb", "a\r\nb", "a\rb", "\n\n", "a\n\ndata: {}\n\n", "\ndata: forged\n\n", "\nid: 99\nevent: endpoint\n\n",
    "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e", "\x00", "\ufeff", ": comment\n", "retry: 1\n",
    "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    "\x1b[2J", "\U0001f600" * 3, "x" * 100_000, "\r\n" * 1000,
)  # fmt: skip
"""Texts that a careless writer of event streams, headers or logs takes for its own marks."""

FORGED = "WARNING a forged line"

LINE = re.compile(rb"(?:data|id|event|retry): ?.*|:.*|", re.DOTALL)


@on_site("C56", "echo", "log")
def marks(t: Trial, site: Site) -> None:
    for session in t.sessions(site):
        if session.revision != MODERN:
            session.ask("logging/setLevel", {"level": "debug"})
        for text in HOSTILE:
            said = text_of(site.exchange(session.call("echo", {"text": text})))
            t.expect(said == text, f"{text!r:.60} came back as {said!r:.60}")
            meta: Dict[str, Any] = {"_meta": {LEVEL_KEY: "debug"}} if session.revision == MODERN else {}
            response = site.exchange(session.call("log", {"level": "error", "data": text}, **meta))
            found = messages(response)
            logged = [one["params"]["data"] for one in found if one.get("method") == "notifications/message"]
            t.expect(logged == [text] and len(found) == 2, f"{text!r:.60} made of a stream {shown(response.body, 200)}")
            lines = response.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            odd = [line for line in lines if not LINE.fullmatch(line)]
            t.expect(not odd, f"{text!r:.60} made a line of a stream: {odd[:1]}")
        _forge(t, site, session)
    lines = site.stderr().splitlines()
    t.expect(not any(line.startswith(FORGED) for line in lines), "a client wrote a line of the log by itself")


def _forge(t: Trial, site: Site, session: Session) -> None:
    """Words of a client that may come into headers, errors and logs."""
    word = f"x\r\n{FORGED}\r\nX-Forged: yes"
    inside: Dict[str, Optional[str]] = {"mcp_method": None, "mcp_name": None}
    for data in (
        session.request(word, **inside),
        session.request("tools/call", {"name": word, "arguments": {}}, **inside),
        session.request("resources/read", {"uri": word}, **inside),
        session.call("echo", {"text": 1, word: 2}),
        session.post({"jsonrpc": "2.0", "method": word}),
        session.post(f"{{{word}".encode()),
        session.request("ping", path=f"{site.path}?{word.partition(chr(13))[0]}", mcp_protocol_version=f"y{FORGED}"),
    ):
        response = site.exchange(data)
        t.expect("x-forged" not in response.headers, "a client wrote a header of a response")
        t.expect(response.status < 500, f"a forged word got status {response.status}")


# ------------------------------------------------------------ coming back


class Event(NamedTuple):
    id: str
    message: Any


def parsed(body: bytes) -> List[Event]:
    """The whole events of a stream, those that have only an id too."""
    found = []
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        lines = block.split(b"\n")
        ids = [line[3:].strip().decode() for line in lines if line.startswith(b"id:")]
        data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
        if ids or data:
            found.append(Event(ids[-1] if ids else "", decode(data) if data else None))
    return found


def counting(session: Session, steps: int) -> bytes:
    """A call that reports so many steps."""
    return session.call("count", {"n": steps}, id="counted", _meta={"progressToken": "p"})


def until(visitor: Visitor, wanted: int) -> List[Event]:
    """Read a stream up to so many events; no more of it is looked at."""
    status, headers = visitor.head()
    if headers.get("transfer-encoding") != "chunked":
        raise Missing("event streams")
    found: List[Event] = []
    rest = b""
    while len(found) < wanted:
        visitor.wait()
        piece = visitor.chunk()
        assert piece, f"a stream has ended after {len(found)} events"
        whole, end, rest = (rest + piece).replace(b"\r\n", b"\n").rpartition(b"\n\n")
        found += parsed(whole + end)
    return found[:wanted]


def resume(session: Session, id: str) -> bytes:
    """The GET of a client that has seen events up to this one."""
    return session.listen(last_event_id=id)


def steps(found: List[Event]) -> List[float]:
    return [one.message["params"]["progress"] for one in found if one.message and "method" in one.message]


def resumable(t: Trial, site: Site) -> Session:
    session = keeping(t, site)
    with site.visitor() as visitor:
        first = until(visitor.send(counting(session, 3)), 2)
    if not first[-1].id:
        raise Missing("streams to come back to")
    return session


@on_site("C59", "count", "echo", "report_when_released", "release")
def returning(t: Trial, site: Site) -> None:
    session = resumable(t, site)
    total = 900
    for cut in sorted(t.dice.sample(range(2, total), 4)) + [1, total]:
        seen, rest = _cut_and_resumed(t, site, session, total, cut)
        said = steps(seen) + steps(rest)
        t.expect(said == [*range(1, total + 1)], f"cut after {cut} events: {len(said)} steps of {total} in all")
        answers = [one.message for one in seen + rest if one.message and "method" not in one.message]
        t.expect(len(answers) == 1 and "result" in answers[0], f"cut after {cut}: {len(answers)} answers")
    _while_it_runs(t, site, session)
    _foreign_ids(t, site, session)
    _bounded(t, site, session)


def _cut_and_resumed(
    t: Trial, site: Site, session: Session, total: int, cut: int
) -> Tuple[List[Event], List[Event]]:
    with site.visitor() as visitor:
        seen = until(visitor.send(counting(session, total)), cut)
    response = site.exchange(resume(session, seen[-1].id), "GET")
    assert response.status == 200, f"coming back got status {response.status}: {shown(response.body)}"
    return seen, parsed(response.body)


def _while_it_runs(t: Trial, site: Site, session: Session) -> None:
    """Come back to a call that has not ended, twice: the second connection takes over from the first."""
    call = session.call("report_when_released", {"name": "r"}, id="r", _meta={"progressToken": "q"})
    with site.visitor() as visitor:
        seen = until(visitor.send(call), 2)
    with site.visitor() as first, site.visitor() as second:
        t.expect(first.send(resume(session, seen[-1].id)).head()[0] == 200, "a running call cannot be come back to")
        t.expect(second.send(resume(session, seen[-1].id)).head()[0] == 200, "nor a second time")
        session.text("release", {"name": "r"})
        rest = parsed(b"".join(second.chunks()))
        old = parsed(b"".join(first.chunks()))
    t.expect(steps(rest) == [2] and not steps(old), f"a running call went on with steps {steps(rest)}, {steps(old)}")
    t.expect(bool(rest) and "result" in (rest[-1].message or {}), "a running call was not answered after a cut")


def _foreign_ids(t: Trial, site: Site, session: Session) -> None:
    """Ids that are none of this stream: nothing of another one is told for them."""
    other = keeping(t, site)
    with site.visitor() as visitor:
        secret = until(visitor.send(counting(other, 3)), 2)[-1].id
    mine = _cut_and_resumed(t, site, session, 3, 2)[0][-1].id
    stream, _, number = mine.rpartition("/")
    for name, id in (
        ("an id of another session", secret),
        ("no id at all", "nonsense"),
        ("a number that is not there yet", f"{stream}/999"),
        ("a huge number", f"{stream}/{'9' * 15}"),
        ("a number without an end", f"{stream}/{'9' * 4000}"),
        ("a negative number", f"{stream}/-1"),
        ("another stream of this session", f"{stream}0/{number}"),
        ("60,000 characters", "x" * 60_000),
        ("a path", "../../etc/passwd"),
        ("an empty id", ""),
    ):
        refused(t, glance(site, resume(session, id), "GET"), name, 400, 404, 431)
    t.expect(served(site.exchange(session.request("ping"))), "the session has ended meanwhile")


def _bounded(t: Trial, site: Site, session: Session) -> None:
    """What is kept of streams is bounded, in events and in bytes."""
    with site.visitor() as visitor:
        first = until(visitor.send(counting(session, 3)), 2)[-1].id
    before = site.memory()
    sessions = [session, *(keeping(t, site) for _ in range(3))]
    for index in range(t.count(12, 100)):
        each = sessions[index % 4]
        assert text_of(site.exchange(each.call("pour", {"events": 100, "size": 20_000}))) == "poured"
    t.below("growth", site.memory() - before, 32, "MB")
    refused(t, glance(site, resume(session, first), "GET"), "an event that was forgotten", 400, 404)


# ------------------------------------------------------------ what stands in between


@case("C63")
def proxies(t: Trial) -> None:
    site = hasty(t, keepalive=0.3) if t.subject.tunable else t.site()
    text = "\u00e4\u20ac\U0001f600" * 300
    for habits in (
        Habits(), Habits(pieces=1), Habits(pieces=7), Habits(buffers=True), Habits(gzips=True),
        Habits(pieces=3, buffers=True), Habits(gzips=True, buffers=True, pieces=5),
    ):  # fmt: skip
        with ToyProxy(site.port, habits) as proxy:
            _through(t, site, proxy, text)
    session = resumable(t, site)
    _idle(t, site, session)
    _cut(t, site, session)
    site.alive(t.options.slack)
    t.calm(site)


def _by(proxy: ToyProxy, patience: float) -> Visitor:
    return Visitor(proxy.port, patience)


def _through(t: Trial, site: Site, proxy: ToyProxy, text: str) -> None:
    """Calls and their streams come through, at once: a proxy may keep back what does not say that it must not."""
    for session in t.sessions(site):
        with _by(proxy, t.options.patience) as visitor:
            for _ in range(3):
                said = _plain(visitor.send(session.call("echo", {"text": text})).answer())
                t.expect(text_of(said) == text, f"{proxy.habits}: text became {text_of(said)!r:.60}")
            counted = _plain(visitor.send(counting(session, 50)).answer())
            t.expect(len(messages(counted)) == 51, f"{proxy.habits}: {len(messages(counted))} messages of 51")
    if "report_when_released" not in site.tools:
        return
    session = site.session(t.http_eras()[0])
    name = f"{proxy.port}"
    call = session.call("report_when_released", {"name": name}, _meta={"progressToken": "q"})
    with _by(proxy, t.options.patience) as visitor:
        try:
            head = visitor.send(call).head()[1]
            t.expect("no-transform" in head.get("cache-control", ""), "a stream may be transformed by proxies")
            body = b""
            while not steps(parsed(body)):
                visitor.wait()
                body += visitor.chunk()
        except AssertionError as error:
            t.fail(f"{proxy.habits}: the first step of a call does not come: {error}")
        finally:
            session.text("release", {"name": name})


def _plain(response: Response) -> Response:
    """With what a proxy has compressed read."""
    if response.headers.get("content-encoding") != "gzip":
        return response
    return response._replace(body=gzip.decompress(response.body))


def _idle(t: Trial, site: Site, session: Session) -> None:
    """A stream on which nothing happens outlives a proxy that cuts silent ones: comments come."""
    patience = 6 * site.terms.keepalive * max(1.0, t.options.slack)
    with ToyProxy(site.port, Habits(idle=patience)) as proxy:
        with _by(proxy, 3 * patience + t.options.patience) as visitor:
            visitor.send(session.listen()).head()
            body = b""
            while body.count(b"\n\n") < 10 and not proxy.idle_cuts:
                visitor.wait()
                try:
                    body += visitor.chunk()
                except EOFError:
                    break
            t.expect(not proxy.idle_cuts, "a silent stream was cut: no comments come in time")
            t.note("comments", proxy.comments, "")


def _cut(t: Trial, site: Site, session: Session) -> None:
    """A stream that a proxy cuts in the middle of an event goes on through it."""
    for after in sorted(t.dice.sample(range(300, 8000), 3)):
        with ToyProxy(site.port, Habits(cut_after=after, pieces=5)) as proxy:
            with _by(proxy, t.options.patience) as visitor:
                _, headers = visitor.send(counting(session, 100)).head()
                body = visitor.closes()
            seen = parsed(b"".join(_chunks(body)))
            t.expect(proxy.cuts == 1 and bool(seen), "the proxy did not cut the stream")
            with _by(proxy, t.options.patience) as visitor:
                rest = parsed(visitor.send(resume(session, seen[-1].id)).answer("GET").body)
            said = steps(seen) + steps(rest)
            t.expect(said == [*range(1, 101)], f"cut after {after} bytes: {len(said)} steps of 100 in all")


def _chunks(body: bytes) -> List[bytes]:
    found = []
    while b"\r\n" in body:
        size, _, rest = body.partition(b"\r\n")
        if len(rest) < int(size, 16) + 2:
            break
        found.append(rest[: int(size, 16)])
        body = rest[int(size, 16) + 2 :]
    return found
