"""C53 to C59, C63 and C64: where requests go, whose they are, what streams carry, and what proxies do to them.

That a session is nobody's but its principal's is shown by tests/transports: a command has no users to log in.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..wire.messages import LEVEL_KEY, MODERN, decode, hello, request, same
from .http_raw import Response, Session, Site, Terms, Visitor, events, messages, text_of
from .raw import shown
from .toy_proxy import Habits, ToyProxy
from .trial import Missing, Trial, case, on_site, start_http

MISMATCH = -32020

ELSEWHERE = (
    "//mcp", "/%6dcp", "/mcp/", "/MCP", "/mcp%00", "/mcp%2f", "/mcp;x=1", "/./mcp", "/x/../mcp", "/mcp/..;/mcp",
    "/x%2f..%2fmcp", "http://evil.example/mcp", "http://127.0.0.1@evil.example/mcp", "*", "mcp", "/mcp#x",
)  # fmt: skip
"""Targets that some proxy or framework takes for /mcp."""


def hasty(t: Trial, **terms: float) -> Site:
    """A server with other terms than usual, with --full too: what would be waited for takes half an hour."""
    if not t.subject.tunable:
        raise Missing("terms that cannot be changed")
    site = start_http(t.subject, t.options, Terms(**terms), terms)  # type: ignore[arg-type]
    t._started.append(site)
    return site


def served(response: Response) -> bool:
    return any(isinstance(one, dict) and "result" in one for one in messages(response))


def glance(site: Site, data: bytes, method: str) -> Response:
    """The response to these bytes; of a stream that a GET opens, which may have no end, only the head."""
    with site.visitor() as visitor:
        visitor.push(data)
        status, headers = visitor.head()
        if method == "GET" and headers.get("content-type", "").startswith("text/event-stream"):
            return Response(status, headers, b"")
        visitor.wait()
        return Response(status, headers, visitor._body(method, status, headers))


def refused(t: Trial, response: Response, name: str, *statuses: int) -> None:
    """It has one of these statuses, and no result; another refusal is a warning."""
    if served(response) or response.status // 100 in (2, 5):
        t.fail(f"{name} got status {response.status}: {shown(response.body)}")
    elif statuses and response.status not in statuses:
        t.warn(f"{name} got status {response.status}")


def life(session: Session) -> str:
    return "server/discover" if session.revision == MODERN else "ping"


@on_site("C53")
def paths(t: Trial, site: Site) -> None:
    host = f"127.0.0.1:{site.port}"
    for session in t.sessions(site):
        for path in ELSEWHERE:
            path = path.replace("/mcp", site.path, 1)
            refused(t, site.exchange(session.request(life(session), path=path)), path)
        for path in (site.path, site.path + "?x=1", f"http://{host}{site.path}"):
            found = site.exchange(session.request(life(session), path=path))
            if not served(found):
                (t.fail if path == site.path else t.warn)(f"{path} got status {found.status}")


def keeping(t: Trial, site: Site) -> Session:
    session = site.session(t.http_eras()[0])
    if "mcp-session-id" not in session.headers:
        raise Missing("sessions")
    return session


def everywhere(session: Session, id: Optional[str], **more: Optional[str]) -> List[bytes]:
    """A request of each kind under this id."""
    given: Dict[str, Optional[str]] = {"mcp_session_id": id, **more}
    version: Dict[str, Optional[str]] = {"mcp_protocol_version": session.revision}
    return [
        session.request("tools/list", **given),
        session.listen(**given),
        session.site.wire("DELETE", **version, **given),
    ]


@case("C54")
def strangers(t: Trial) -> None:
    site = t.site()
    session = keeping(t, site)
    id = session.headers["mcp-session-id"]
    gone = keeping(t, site)
    gone.end()
    cases: "Dict[str, tuple[Optional[str], tuple[int, ...]]]" = {
        "an unknown id": ("A" * len(id), (404,)),
        "one that has ended": (gone.headers["mcp-session-id"], (404,)),
        "a part of an id": (id[:-1], (404,)),
        "a longer id": (id + "x", (404,)),
        "another case": (id.swapcase(), (404,)),
        "two in one": (f"{id}, {id}", (400, 404)),
        "nothing": (None, (400,)),
        "an empty id": ("", (400, 404)),
        "a control character": (id + "\x01", (400,)),
        "NUL": (id + "\0", (400,)),
        "no ASCII": (id + "\xe9", (400, 404)),
        "a blank inside": ("a b", (400, 404)),
        "8,000 characters": ("x" * 8000, (400, 404, 431)),
        "60,000 characters": ("x" * 60_000, (400, 431)),
        "a path": ("../../" + id, (400, 404)),
        "two headers": (f"{id}\r\nMcp-Session-Id: {'A' * len(id)}", (400, 404)),
    }
    for name, (given, statuses) in cases.items():
        for data in everywhere(session, given):
            method = data.split(b" ")[0].decode()
            refused(t, glance(site, data, method), f"{method} with {name}", *statuses)
    t.expect(served(site.exchange(session.request("ping"))), "the session has ended meanwhile")
    t.expect(id not in site.stderr(), "the log says the id of a session, which lets in whoever reads it")
    if t.subject.tunable:
        site = hasty(t, session_ttl=0.5)
        session = keeping(t, site)
        t.below("an idle session of 0.5 s ended within", expired(t, session), 5)


def expired(t: Trial, session: Session) -> float:
    """Seconds until an idle session has ended, asked with longer and longer pauses: to ask is to use it."""
    begun, pause = time.monotonic(), 0.6
    while served(session.site.exchange(session.request("ping"))):
        assert time.monotonic() - begun < t.options.patience, "an idle session does not end"
        time.sleep(pause)
        pause *= 1.5
    return time.monotonic() - begun


@on_site("C55", "echo", "deaf_slow")
def twins(t: Trial, site: Site) -> None:
    """Each response comes on its own connection, whatever its id is: a table of ids would mix them up."""
    for revision in t.http_eras():
        one, other = site.session(revision), site.session(revision)
        with site.visitor() as first:
            first.send(one.call("deaf_slow", {"seconds": 1}, id=1))
            for each in (one, other):
                found = site.exchange(each.call("echo", {"text": "quick"}, id=1))
                t.expect(text_of(found) == "quick", f"{revision}: a call got {shown(found.body)}")
            t.expect(text_of(first.answer()) == "slept", f"{revision}: the first of two calls got another answer")
        t.below("of two at once, the later", _together(t, site, [one, other]), 2)


def _together(t: Trial, site: Site, sessions: List[Session]) -> float:
    """Many calls with one id, at once; seconds of the slowest."""
    rounds, slowest = 100 if t.options.full else 10, [0.0]

    def call(number: int) -> None:
        with site.visitor() as visitor:
            for index in range(rounds):
                text, begun = f"{number} {index}", time.monotonic()
                visitor.send(sessions[number % 2].call("echo", {"text": text}, id=1))
                found = text_of(visitor.answer())
                slowest[0] = max(slowest[0], time.monotonic() - begun)
                assert found == text, f"the answer of another call: {found!r}, not {text!r}"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))
    return slowest[0]


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@on_site("C57", "echo")
def mirrored(t: Trial, site: Site) -> None:
    if MODERN not in site.revisions:
        raise Missing(f"does not speak {MODERN}")
    session = site.session(MODERN)
    arguments = {"name": "echo", "arguments": {"text": "x"}}
    wrong: Dict[str, Dict[str, Optional[str]]] = {
        "another method": {"mcp_method": "tools/list"},
        "no method": {"mcp_method": None},
        "an empty method": {"mcp_method": ""},
        "the method in capitals": {"mcp_method": "TOOLS/CALL"},
        "two methods": {"mcp_method": "tools/call\r\nMcp-Method: tools/list"},
        "the same method twice": {"mcp_method": "tools/call\r\nMcp-Method: tools/call"},
        "another name": {"mcp_name": "add"},
        "no name": {"mcp_name": None},
        "two names": {"mcp_name": "echo\r\nmcp-name: add"},
        "another name, encoded": {"mcp_name": encoded("add")},
        "half of an encoded name": {"mcp_name": encoded("echo")[:-2]},
        "what is no Base64": {"mcp_name": "=?base64?e!!o?="},
        "Base64 of no UTF-8": {"mcp_name": "=?base64?" + base64.b64encode(b"\xff").decode() + "?="},
        "an encoding in an encoding": {"mcp_name": encoded(encoded("echo"))},
        "another version": {"mcp_protocol_version": "2025-11-25"},
        "no version": {"mcp_protocol_version": None},
        "two versions": {"mcp_protocol_version": f"{MODERN}\r\nMcp-Protocol-Version: 2025-06-18"},
    }
    for name, headers in wrong.items():
        response = site.exchange(session.request("tools/call", arguments, id="w", **headers))
        refused(t, response, name, 400)
        codes = [one["error"].get("code") for one in messages(response) if isinstance(one, dict) and "error" in one]
        if codes not in ([MISMATCH], []) or not codes:
            t.warn(f"{name}: code {codes or 'none'}, not {MISMATCH}")
    for name, value in (("the name", "echo"), ("the name, encoded", encoded("echo")), ("blanks round it", " echo\t")):
        response = site.exchange(session.request("tools/call", arguments, mcp_name=value))
        t.expect(served(response), f"{name} got status {response.status}: {shown(response.body)}")
    listing = site.exchange(session.request("tools/list", None, mcp_name="no matter"))
    t.note("a name where none belongs: status", listing.status, "")


def opened(visitor: Visitor, site: Site, revision: str) -> "tuple[int, str]":
    data = site.wire("POST", _line(request(1, "initialize", hello(revision))))
    response = visitor.send(data).answer()
    return response.status, response.headers.get("mcp-session-id", "")


def _line(message: Any) -> bytes:
    return json.dumps(message).encode()


def fill(site: Site, revision: str, count: int) -> "tuple[List[str], List[int]]":
    """Begin so many sessions, all on a connection as long as it lasts; their ids, and the statuses of the others."""
    ids, refusals = [], []
    visitor = site.visitor()
    try:
        for _ in range(count):
            if visitor.has_closed():
                visitor.close()
                visitor = site.visitor()
            status, id = opened(visitor, site, revision)
            if status == 200:
                ids.append(id)
            else:
                refusals.append(status)
    finally:
        visitor.close()
    return ids, refusals


@case("C58")
def crowds(t: Trial) -> None:
    site = t.site()
    first = keeping(t, site)
    most, revision = int(site.terms.sessions), first.revision
    fill(site, revision, 50)  # what is made once is no matter
    ids = cost(t, site, revision, most - 51)
    begun, tried = time.monotonic(), t.count(200, 9000)
    more, refusals = fill(site, revision, tried)
    t.note("initialize", tried / (time.monotonic() - begun), "/s")
    t.expect(set(refusals) <= {429, 503}, f"too many sessions got status {sorted(set(refusals))}")
    t.expect(len(ids) + len(more) <= most, f"{len(ids) + len(more) + 51} sessions are open, the most are {most}")
    t.expect(len(set(ids)) == len(ids), "two sessions have one id")
    odd = [id for id in ids if not re.fullmatch(r"[\x21-\x7e]{16,}", id)]
    t.expect(not odd, f"an id is short, or no visible ASCII: {odd[:1]}")
    t.expect(served(site.exchange(first.request("ping"))), "a session is not served any more beside too many")
    t.probed(site)
    deleted(t, first)
    site.session(revision)  # there is room again
    if t.subject.tunable:
        expiry(t)
    streams(t)


def cost(t: Trial, site: Site, revision: str, count: int) -> List[str]:
    """Begin so many sessions, and measure what each adds to the process; their ids."""
    before = site.memory()
    ids, _ = fill(site, revision, count)
    t.below("bytes of a session", (site.memory() - before) * 1024 * 1024 / max(1, len(ids)), 4000, "B")
    return ids


def deleted(t: Trial, session: Session) -> None:
    data = everywhere(session, session.headers["mcp-session-id"])[2]
    first, again = (session.site.exchange(data, "DELETE").status for _ in range(2))
    t.expect(first in (200, 202, 204), f"DELETE got status {first}")
    t.expect(again == 404, f"a second DELETE got status {again}")
    refused(t, session.site.exchange(session.request("ping")), "a call after DELETE", 404)


def expiry(t: Trial) -> None:
    """As many sessions as there may be end when nobody uses them, all of them: as many find room again."""
    site = hasty(t, session_ttl=1, sessions=40)
    revision = t.http_eras()[0]
    for _ in range(2):
        begun = time.monotonic()
        ids, refusals = fill(site, revision, 41)
        quick = time.monotonic() - begun < 1  # else the first have ended before the last begin
        t.expect(len(ids) >= 40 and (refusals or not quick), f"{len(ids)} sessions were opened where 40 may be")
        time.sleep(1.3)
    found = site.settled(lambda: float(not fill(site, revision, 1)[0]), 0)
    t.expect(found == 0, "no room after all sessions have expired")


def streams(t: Trial) -> None:
    """What an open stream costs, with its thread if it has one."""
    site = t.site()
    revision = t.http_eras()[0]
    sessions = [site.session(revision) for _ in range(250 if t.options.full else 120)]
    held: List[Visitor] = []
    try:
        for session in sessions[:20]:
            held.append(_stream(site, session))
        before = site.memory()
        for session in sessions[20:]:
            held.append(_stream(site, session))
        each = (site.memory() - before) * 1024 * 1024 / (len(sessions) - 20)
        t.below("bytes of an open stream", each, 32 * 1024, "B")
        t.probed(site)
    finally:
        for visitor in held:
            visitor.close()


def _stream(site: Site, session: Session) -> Visitor:
    visitor = site.visitor()
    status, headers = visitor.send(session.listen()).head()
    kind = headers.get("content-type", "")
    if status == 405:
        visitor.close()
        raise Missing("a stream of notices")
    assert (status, kind) == (200, "text/event-stream"), f"GET got status {status}, {kind}"
    return visitor


class Old:
    """A client of HTTP+SSE: a stream down, whose first event says where to post."""

    def __init__(self, site: Site) -> None:
        self.site, self.visitor = site, site.visitor()
        self._came = b""
        status, headers = self.visitor.send(site.wire("GET", path="/sse", accept="text/event-stream")).head()
        if status != 200:
            self.visitor.close()
            raise Missing("HTTP+SSE")
        first = self._until(lambda: b"\n\n" in self._came).partition(b"\n\n")[0]
        self.endpoint: str = re.findall(rb"data: ?(\S+)", first)[0].decode()

    def _until(self, done: Callable[[], bool]) -> bytes:
        while not done():
            self.visitor.wait()
            piece = self.visitor.chunk()
            assert piece, "the stream has ended"
            self._came += piece.replace(b"\r\n", b"\n")
        return self._came

    def post(self, message: Any, endpoint: Optional[str] = None) -> int:
        """The status of a message that is posted."""
        data = self.site.wire("POST", _line(message), self.endpoint if endpoint is None else endpoint)
        return self.site.exchange(data).status

    def said(self) -> List[Any]:
        return list(events(self._came.partition(b"\n\n")[2]))

    def answer(self, id: Any) -> Any:
        """The answer with this id, once it has come."""

        def find() -> List[Any]:
            return [one for one in self.said() if isinstance(one, dict) and same(one.get("id"), id)]

        self._until(lambda: bool(find()))
        return find()[0]

    def shake(self) -> "Old":
        assert self.post(request("i", "initialize", hello("2024-11-05"))) == 202
        assert "result" in self.answer("i")
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        return self


@on_site("C64", "echo")
def legacy(t: Trial, site: Site) -> None:
    ping = request(1, "ping")
    one = Old(site).shake()
    two = Old(site).shake()
    try:
        place = one.endpoint.partition("?")[0]
        name = one.endpoint.partition("?")[2].partition("=")[0]
        t.expect(one.endpoint.startswith("/"), f"the endpoint is {one.endpoint!r}")
        t.expect(one.endpoint != two.endpoint, "two streams have one endpoint")
        id = one.endpoint.rpartition("=")[2]
        newer = site.session(t.http_eras()[0])
        for what, endpoint in (
            ("a POST before the GET", place),
            ("an empty id", f"{place}?{name}="),
            ("an unknown id", f"{place}?{name}={'A' * len(id)}"),
            ("an id with a line end", f"{place}?{name}={id}%0d%0a"),
            ("the id of a newer session", f"{place}?{name}={newer.headers.get('mcp-session-id', 'none')}"),
        ):
            status = one.post(ping, endpoint)
            t.expect(status in (400, 404), f"{what} got status {status}")
        status = site.exchange(newer.request("ping", mcp_session_id=id)).status
        t.expect(status in (400, 404), f"the id of an older stream as that of a session got status {status}")
        _apart(t, one, two)
        both(t, site, one, newer)
        one.visitor.close()
        gone = site.settled(lambda: float(one.post(ping) not in (400, 404)), 0)
        t.expect(gone == 0, "the endpoint of a stream that was closed is served")
        t.expect(two.post(request(9, "ping")) == 202 and "result" in two.answer(9), "another stream has ended too")
    finally:
        one.visitor.close()
        two.visitor.close()


def _apart(t: Trial, one: Old, two: Old) -> None:
    """Answers come on the stream whose endpoint was posted to, equal ids or not."""

    def ask(old: Old, mark: str) -> None:
        for number in range(20):
            params = {"name": "echo", "arguments": {"text": f"{mark} {number}"}}
            assert old.post(request(200 + number, "tools/call", params)) == 202, "a call was not taken"

    threads = [threading.Thread(target=ask, args=pair) for pair in ((one, "one"), (two, "two"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for old, mark in ((one, "one"), (two, "two")):
        for number in range(20):
            text = old.answer(200 + number)["result"]["content"][0]["text"]
            t.expect(text == f"{mark} {number}", f"the stream {mark} got {text!r}")


def both(t: Trial, site: Site, old: Old, newer: Session) -> None:
    """Both protocols on one port at once."""
    for number in range(100, 110):
        assert old.post(request(number, "ping")) == 202
        t.expect(newer.text("echo", {"text": str(number)}) == str(number), "a newer client got another answer")
        t.expect("result" in old.answer(number), "an older client got no answer")


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
