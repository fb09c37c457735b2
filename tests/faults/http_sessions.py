"""C53 to C59, C63 and C64: the routes and owners of requests, the contents of streams, and the
effects of proxies.

tests/transports shows that a session belongs to its principal, because a command has no users to
log in.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..wire.messages import LEVEL_KEY, MODERN, decode, hello, notification, request, same
from .http_raw import Response, Session, Site, Visitor, events, messages, text_of
from .raw import shown
from .toy_proxy import Habits, ToyProxy
from .trial import Missing, Trial, case, on_site

Headers = Dict[str, Optional[str]]
MISMATCH = -32020

ELSEWHERE = (  # targets that some proxy or framework takes for /mcp
    "//mcp", "/%6dcp", "/mcp/", "/MCP", "/mcp%00", "/mcp%2f", "/mcp;x=1", "/./mcp", "/x/../mcp", "/mcp/..;/mcp",
    "/x%2f..%2fmcp", "http://evil.example/mcp", "http://127.0.0.1@evil.example/mcp", "*", "mcp", "/mcp#x",
)  # fmt: skip


def served(response: Response) -> bool:
    return any(isinstance(one, dict) and "result" in one for one in messages(response))


def glance(site: Site, data: bytes, method: str) -> Response:
    """The response to these bytes; of a stream that a GET opens, which may have no end, only the
    head."""
    with site.visitor() as visitor:
        visitor.push(data)
        status, headers = visitor.head()
        if method == "GET" and headers.get("content-type", "").startswith("text/event-stream"):
            return Response(status, headers, b"")
        return visitor.body(method, status, headers)


def refused(t: Trial, response: Response, name: str, *statuses: int) -> None:
    """Check that a response has one of these statuses, and no result. Another error status is a
    warning."""
    if served(response) or response.status // 100 in (2, 5):
        t.fail(f"{name} got status {response.status}: {shown(response.body)}")
    elif statuses and response.status not in statuses:
        t.warn(f"{name} got status {response.status}")


@on_site("C53")
def paths(t: Trial, site: Site) -> None:
    for session in t.sessions(site):
        life = "server/discover" if session.revision == MODERN else "ping"
        for path in ELSEWHERE:
            path = path.replace("/mcp", site.path, 1)
            refused(t, site.exchange(session.request(life, path=path)), path)
        for path in (site.path, site.path + "?x=1", f"http://127.0.0.1:{site.port}{site.path}"):
            found = site.exchange(session.request(life, path=path))
            if not served(found):
                (t.fail if path == site.path else t.warn)(f"{path} got status {found.status}")


def keeping(t: Trial, site: Site) -> Session:
    session = site.session(t.http_eras()[0])
    if "mcp-session-id" not in session.headers:
        raise Missing("sessions")
    return session


@case("C54")
def strangers(t: Trial) -> None:
    site = t.site()
    session, gone = keeping(t, site), keeping(t, site)
    id = session.headers["mcp-session-id"]
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
        requests = (session.request("tools/list", mcp_session_id=given), session.listen(mcp_session_id=given),
                    session.delete(mcp_session_id=given))  # fmt: skip
        for method, data in zip(("POST", "GET", "DELETE"), requests):
            refused(t, glance(site, data, method), f"{method} with {name}", *statuses)
    t.expect(served(site.exchange(session.request("ping"))), "the session has ended meanwhile")
    t.expect(
        id not in site.stderr(), "the log says the id of a session, which lets in whoever reads it"
    )
    if t.subject.tunable:
        session = keeping(t, t.hasty(session_ttl=0.5))
        begun, pause = time.monotonic(), 0.6
        while served(
            session.site.exchange(session.request("ping"))
        ):  # longer and longer pauses: to ask is to use it
            assert time.monotonic() - begun < t.options.patience, "an idle session does not end"
            time.sleep(pause)
            pause *= 1.5
        t.below("an idle session of 0.5 s ended within", time.monotonic() - begun, 5)


@on_site("C55", "echo", "deaf_slow")
def twins(t: Trial, site: Site) -> None:
    """Each response arrives on the connection of its request, whatever its id is. A global table of
    ids would mix them up."""
    for revision in t.http_eras():
        sessions = [site.session(revision), site.session(revision)]
        with site.visitor() as first:
            first.send(sessions[0].call("deaf_slow", {"seconds": 1}, id=1))
            for each in sessions:
                found = site.exchange(each.call("echo", {"text": "quick"}, id=1))
                t.expect(text_of(found) == "quick", f"{revision}: a call got {shown(found.body)}")
            t.expect(
                text_of(first.answer()) == "slept",
                f"{revision}: the first of two calls got another answer",
            )
        rounds = 100 if t.options.full else 10

        def call(number: int, sessions: List[Session] = sessions, rounds: int = rounds) -> float:
            slowest = 0.0
            with site.visitor() as visitor:
                for index in range(rounds):
                    text, begun = f"{number} {index}", time.monotonic()
                    found = text_of(
                        visitor.send(
                            sessions[number % 2].call("echo", {"text": text}, id=1)
                        ).answer()
                    )
                    slowest = max(slowest, time.monotonic() - begun)
                    assert found == text, f"the answer of another call: {found!r}, not {text!r}"
            return slowest

        with ThreadPoolExecutor(8) as pool:
            t.below("of two at once, the later", max(pool.map(call, range(8))), 2)


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@on_site("C57", "echo")
def mirrored(t: Trial, site: Site) -> None:
    if MODERN not in site.revisions:
        raise Missing(f"does not speak {MODERN}")
    session = site.session(MODERN)
    arguments = {"name": "echo", "arguments": {"text": "x"}}
    wrong: Dict[str, Headers] = {
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
        codes = [
            one["error"].get("code")
            for one in messages(response)
            if isinstance(one, dict) and "error" in one
        ]
        if codes != [MISMATCH]:
            t.warn(f"{name}: code {codes or 'none'}, not {MISMATCH}")
    for name, value in (
        ("the name", "echo"),
        ("the name, encoded", encoded("echo")),
        ("blanks round it", " echo\t"),
    ):
        response = site.exchange(session.request("tools/call", arguments, mcp_name=value))
        t.expect(served(response), f"{name} got status {response.status}: {shown(response.body)}")
    listing = site.exchange(session.request("tools/list", None, mcp_name="no matter"))
    t.note("a name where none belongs: status", listing.status, "")


READY = json.dumps(notification("notifications/initialized")).encode()


def fill(
    site: Site, revision: str, count: int, *, whole: bool = True
) -> "tuple[List[str], List[int]]":
    """Open this many sessions, all on one connection as long as it lasts. Return their ids, and the
    statuses of the others."""
    ids, refusals = [], []
    visitor = site.visitor()
    data = site.wire("POST", json.dumps(request(1, "initialize", hello(revision))).encode())
    try:
        for _ in range(count):
            if visitor.has_closed():
                visitor.close()
                visitor = site.visitor()
            response = visitor.send(data).answer()
            if response.status == 200:
                ids.append(response.headers.get("mcp-session-id", ""))
                if whole:
                    visitor.send(site.wire("POST", READY, mcp_session_id=ids[-1])).answer()
            else:
                refusals.append(response.status)
    finally:
        visitor.close()
    return ids, refusals


@case("C58")
def crowds(t: Trial) -> None:
    site = t.site()
    first = keeping(t, site)
    most, revision = int(site.terms.sessions), first.revision
    fill(site, revision, 50)  # one-time allocations do not count
    before = site.memory()
    ids, _ = fill(site, revision, most - 51)
    t.below(
        "bytes of a session", (site.memory() - before) * 1024 * 1024 / max(1, len(ids)), 4000, "B"
    )
    begun, tried = time.monotonic(), t.count(200, 9000)
    more, refusals = fill(site, revision, tried)
    t.note("initialize", tried / (time.monotonic() - begun), "/s")
    t.expect(set(refusals) <= {429, 503}, f"too many sessions got status {sorted(set(refusals))}")
    t.expect(
        len(ids) + len(more) <= most,
        f"{len(ids) + len(more) + 51} sessions are open, the most are {most}",
    )
    t.expect(len(set(ids)) == len(ids), "two sessions have one id")
    odd = [id for id in ids if not re.fullmatch(r"[\x21-\x7e]{16,}", id)]
    t.expect(not odd, f"an id is short, or no visible ASCII: {odd[:1]}")
    t.expect(
        served(site.exchange(first.request("ping"))),
        "a session is not served any more beside too many",
    )
    t.probed(site)
    ended, again = (site.exchange(first.delete(), "DELETE").status for _ in range(2))
    t.expect(ended in (200, 202, 204), f"DELETE got status {ended}")
    t.expect(again == 404, f"a second DELETE got status {again}")
    refused(t, site.exchange(first.request("ping")), "a call after DELETE", 404)
    site.session(revision)  # there is room again
    if t.subject.tunable:
        expiry(t)
    streams(t)


def expiry(t: Trial) -> None:
    """The maximum number of sessions expires when nobody uses them, and the same number fits again."""
    site = t.hasty(session_ttl=1, sessions=40)
    revision = t.http_eras()[0]
    for _ in range(2):
        begun = time.monotonic()
        ids, refusals = fill(site, revision, 41)
        quick = time.monotonic() - begun < 1  # otherwise the first have ended before the last start
        t.expect(
            len(ids) >= 40 and (refusals or not quick),
            f"{len(ids)} sessions were opened where 40 may be",
        )
        time.sleep(1.3)
    found = site.settled(lambda: float(not fill(site, revision, 1)[0]), 0)
    t.expect(found == 0, "no room after all sessions have expired")


def streams(t: Trial) -> None:
    """Measure the memory of an open stream, including its thread if it has one."""
    site = t.site()
    revision = t.http_eras()[0]
    sessions = [site.session(revision) for _ in range(250 if t.options.full else 120)]
    with ExitStack() as stack:
        for number, session in enumerate(sessions):
            if number == 20:
                before = site.memory()
            status, headers = stack.enter_context(site.visitor()).send(session.listen()).head()
            kind = headers.get("content-type", "")
            if status == 405:
                raise Missing("a stream of notices")
            assert (status, kind) == (200, "text/event-stream"), f"GET got status {status}, {kind}"
        each = (site.memory() - before) * 1024 * 1024 / (len(sessions) - 20)
        t.below("bytes of an open stream", each, 32 * 1024, "B")
        t.probed(site)


class Old:
    """An HTTP+SSE client: a stream of events, the first of which names the endpoint for posts."""

    def __init__(self, site: Site) -> None:
        self.site, self.visitor = site, site.visitor()
        status, _ = self.visitor.send(
            site.wire("GET", path="/sse", accept="text/event-stream")
        ).head()
        if status != 200:
            self.visitor.close()
            raise Missing("HTTP+SSE")
        self._came = b""
        while b"\n\n" not in self._came:
            self._more()
        first, _, self._came = self._came.partition(b"\n\n")
        self.endpoint: str = re.findall(rb"data: ?(\S+)", first)[0].decode()

    def _more(self) -> None:
        piece = self.visitor.wait().chunk()
        assert piece, "the stream has ended"
        self._came += piece.replace(b"\r\n", b"\n")

    def post(self, message: Any, endpoint: Optional[str] = None) -> int:
        place = self.endpoint if endpoint is None else endpoint
        return self.site.exchange(
            self.site.wire("POST", json.dumps(message).encode(), place)
        ).status

    def answer(self, id: Any) -> Any:
        """Wait for the response with this id, and return it."""
        while True:
            said = [
                one
                for one in events(self._came)
                if isinstance(one, dict) and same(one.get("id"), id)
            ]
            if said:
                return said[0]
            self._more()

    def shake(self) -> "Old":
        assert self.post(request("i", "initialize", hello("2024-11-05"))) == 202
        assert "result" in self.answer("i")
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}) == 202
        return self


@on_site("C64", "echo")
def legacy(t: Trial, site: Site) -> None:
    ping = request(1, "ping")
    one, two = Old(site).shake(), Old(site).shake()
    with one.visitor, two.visitor:
        place, _, query = one.endpoint.partition("?")
        name, id = query.partition("=")[0], one.endpoint.rpartition("=")[2]
        t.expect(one.endpoint.startswith("/"), f"the endpoint is {one.endpoint!r}")
        t.expect(one.endpoint != two.endpoint, "two streams have one endpoint")
        newer = site.session(t.http_eras()[0])
        for what, endpoint in (
            ("a POST before the GET", place),
            ("an empty id", f"{place}?{name}="),
            ("an unknown id", f"{place}?{name}={'A' * len(id)}"),
            ("an id with a line end", f"{place}?{name}={id}%0d%0a"),
            (
                "the id of a newer session",
                f"{place}?{name}={newer.headers.get('mcp-session-id', 'none')}",
            ),
        ):
            status = one.post(ping, endpoint)
            t.expect(status in (400, 404), f"{what} got status {status}")
        status = site.exchange(newer.request("ping", mcp_session_id=id)).status
        t.expect(
            status in (400, 404),
            f"the id of an older stream as that of a session got status {status}",
        )
        t.at_once(partial(_ask, one, "one"), partial(_ask, two, "two"))
        for old, mark in (
            (one, "one"),
            (two, "two"),
        ):  # even with equal ids, each response arrives on the stream of its request
            for number in range(20):
                text = old.answer(200 + number)["result"]["content"][0]["text"]
                t.expect(text == f"{mark} {number}", f"the stream {mark} got {text!r}")
        for number in range(100, 110):  # both protocols on one port at once
            assert one.post(request(number, "ping")) == 202
            t.expect(
                newer.text("echo", {"text": str(number)}) == str(number),
                "a newer client got another answer",
            )
            t.expect("result" in one.answer(number), "an older client got no answer")
        one.visitor.close()
        gone = site.settled(lambda: float(one.post(ping) not in (400, 404)), 0)
        t.expect(gone == 0, "the endpoint of a stream that was closed is served")
        t.expect(
            two.post(request(9, "ping")) == 202 and "result" in two.answer(9),
            "another stream has ended too",
        )


def _ask(old: Old, mark: str) -> None:
    for number in range(20):
        params = {"name": "echo", "arguments": {"text": f"{mark} {number}"}}
        assert old.post(request(200 + number, "tools/call", params)) == 202, "a call was not taken"


# texts that a careless writer of event streams, headers or logs takes for its own marks
HOSTILE = (
    "a\nb", "a\r\nb", "a\rb", "\n\n", "a\n\ndata: {}\n\n", "\ndata: forged\n\n", "\nid: 99\nevent: endpoint\n\n",
    "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e", "\x00", "\ufeff", ": comment\n", "retry: 1\n",
    "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "\x1b[2J", "\U0001f600" * 3, "x" * 100_000, "\r\n" * 1000,
)  # fmt: skip
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
            meta: Dict[str, Any] = (
                {"_meta": {LEVEL_KEY: "debug"}} if session.revision == MODERN else {}
            )
            response = site.exchange(session.call("log", {"level": "error", "data": text}, **meta))
            found = messages(response)
            logged = [
                one["params"]["data"]
                for one in found
                if one.get("method") == "notifications/message"
            ]
            t.expect(
                logged == [text] and len(found) == 2,
                f"{text!r:.60} made of a stream {shown(response.body, 200)}",
            )
            lines = response.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            odd = [line for line in lines if not LINE.fullmatch(line)]
            t.expect(not odd, f"{text!r:.60} made a line of a stream: {odd[:1]}")
        # text of a client that may appear in headers, errors and logs
        word = f"x\r\n{FORGED}\r\nX-Forged: yes"
        inside: Headers = {"mcp_method": None, "mcp_name": None}
        for data in (
            session.request(word, **inside),
            session.request("tools/call", {"name": word, "arguments": {}}, **inside),
            session.request("resources/read", {"uri": word}, **inside),
            session.call("echo", {"text": 1, word: 2}),
            session.post({"jsonrpc": "2.0", "method": word}),
            session.post(f"{{{word}".encode()),
            session.request("ping", path=f"{site.path}?x", mcp_protocol_version=f"y{FORGED}"),
        ):
            response = site.exchange(data)
            t.expect("x-forged" not in response.headers, "a client wrote a header of a response")
            t.expect(response.status < 500, f"a forged word got status {response.status}")
    lines = site.stderr().splitlines()
    t.expect(
        not any(line.startswith(FORGED) for line in lines),
        "a client wrote a line of the log by itself",
    )


class Event(NamedTuple):
    id: str
    message: Any


def parsed(body: bytes) -> List[Event]:
    """Return the whole events of a stream, including events that have only an id."""
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


def until(site: Site, data: bytes, wanted: int) -> List[Event]:
    """Send a request and read its stream up to this many events, and no further."""
    found: List[Event] = []
    rest = b""
    with site.visitor() as visitor:
        if visitor.send(data).head()[1].get("transfer-encoding") != "chunked":
            raise Missing("event streams")
        while len(found) < wanted:
            piece = visitor.wait().chunk()
            assert piece, f"a stream has ended after {len(found)} events"
            whole, end, rest = (rest + piece).replace(b"\r\n", b"\n").rpartition(b"\n\n")
            found += parsed(whole + end)
    return found[:wanted]


def steps(found: List[Event]) -> List[float]:
    return [
        one.message["params"]["progress"]
        for one in found
        if one.message and "method" in one.message
    ]


def resumable(t: Trial, site: Site) -> Session:
    session = keeping(t, site)
    if not until(site, counting(session, 3), 2)[-1].id:
        raise Missing("streams to come back to")
    return session


@on_site("C59", "count", "echo", "report_when_released", "release")
def returning(t: Trial, site: Site) -> None:
    session = resumable(t, site)
    total = 900
    for cut in sorted(t.dice.sample(range(2, total), 4)) + [1, total]:
        seen, rest = cut_and_resumed(site, session, total, cut)
        said = steps(seen) + steps(rest)
        t.expect(
            said == [*range(1, total + 1)],
            f"cut after {cut} events: {len(said)} steps of {total} in all",
        )
        answers = [
            one.message for one in seen + rest if one.message and "method" not in one.message
        ]
        t.expect(
            len(answers) == 1 and "result" in answers[0], f"cut after {cut}: {len(answers)} answers"
        )
    while_it_runs(t, site, session)
    foreign_ids(t, site, session)
    first = until(site, counting(session, 3), 2)[
        -1
    ].id  # kept events of streams are bounded in number and in bytes
    before = site.memory()
    sessions = [session, *(keeping(t, site) for _ in range(3))]
    for index in range(t.count(12, 100)):
        each = sessions[index % 4]
        assert (
            text_of(site.exchange(each.call("pour", {"events": 100, "size": 20_000}))) == "poured"
        )
    t.below("growth", site.memory() - before, 32, "MB")
    refused(
        t,
        glance(site, session.listen(last_event_id=first), "GET"),
        "an event that was forgotten",
        400,
        404,
    )


def cut_and_resumed(
    site: Site, session: Session, total: int, cut: int
) -> Tuple[List[Event], List[Event]]:
    seen = until(site, counting(session, total), cut)
    response = site.exchange(session.listen(last_event_id=seen[-1].id), "GET")
    assert response.status == 200, (
        f"coming back got status {response.status}: {shown(response.body)}"
    )
    return seen, parsed(response.body)


def while_it_runs(t: Trial, site: Site, session: Session) -> None:
    """Resume a call that has not ended, twice: the second connection takes over from the first."""
    call = session.call("report_when_released", {"name": "r"}, id="r", _meta={"progressToken": "q"})
    back = session.listen(last_event_id=until(site, call, 2)[-1].id)
    with site.visitor() as first, site.visitor() as second:
        t.expect(first.send(back).head()[0] == 200, "a running call cannot be come back to")
        t.expect(second.send(back).head()[0] == 200, "nor a second time")
        session.text("release", {"name": "r"})
        rest = parsed(b"".join(second.chunks()))
        old = parsed(b"".join(first.chunks()))
    t.expect(
        steps(rest) == [2] and not steps(old),
        f"a running call went on with steps {steps(rest)}, {steps(old)}",
    )
    t.expect(
        bool(rest) and "result" in (rest[-1].message or {}),
        "a running call was not answered after a cut",
    )


def foreign_ids(t: Trial, site: Site, session: Session) -> None:
    """Resuming with the id of another stream, or an invalid id, yields none of its events."""
    secret = until(site, counting(keeping(t, site), 3), 2)[-1].id
    mine = cut_and_resumed(site, session, 3, 2)[0][-1].id
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
        refused(t, glance(site, session.listen(last_event_id=id), "GET"), name, 400, 404, 431)
    t.expect(served(site.exchange(session.request("ping"))), "the session has ended meanwhile")


@case("C63")
def proxies(t: Trial) -> None:
    site = t.hasty(keepalive=0.3) if t.subject.tunable else t.site()
    for habits in (
        Habits(), Habits(pieces=1), Habits(pieces=7), Habits(buffers=True), Habits(gzips=True),
        Habits(pieces=3, buffers=True), Habits(gzips=True, buffers=True, pieces=5),
    ):  # fmt: skip
        with ToyProxy(site.port, habits) as proxy:
            through(t, site, proxy)
    session = resumable(t, site)
    idle(t, site, session)
    for after in sorted(
        t.dice.sample(range(300, 8000), 3)
    ):  # a cut in the middle of an event does not lose it
        with ToyProxy(site.port, Habits(cut_after=after, pieces=5)) as proxy:
            body = b""
            with Visitor(proxy.port, t.options.patience) as visitor:
                visitor.send(counting(session, 100)).head()
                try:
                    for piece in visitor.chunks():
                        body += piece
                except EOFError:
                    pass
            seen = parsed(body)
            t.expect(proxy.cuts == 1 and bool(seen), "the proxy did not cut the stream")
            with Visitor(proxy.port, t.options.patience) as visitor:
                rest = parsed(
                    visitor.send(session.listen(last_event_id=seen[-1].id)).answer("GET").body
                )
            said = steps(seen) + steps(rest)
            t.expect(
                said == [*range(1, 101)],
                f"cut after {after} bytes: {len(said)} steps of 100 in all",
            )
    site.alive(t.options.slack)
    t.calm(site)


def through(t: Trial, site: Site, proxy: ToyProxy) -> None:
    """Calls and their streams pass a proxy without delay. A proxy may hold back a response that
    does not forbid it."""
    text = "\u00e4\u20ac\U0001f600" * 300
    for session in t.sessions(site):
        with Visitor(proxy.port, t.options.patience) as visitor:
            for _ in range(3):
                said = text_of(plain(visitor.send(session.call("echo", {"text": text})).answer()))
                t.expect(said == text, f"{proxy.habits}: text became {said!r:.60}")
            counted = messages(plain(visitor.send(counting(session, 50)).answer()))
            t.expect(len(counted) == 51, f"{proxy.habits}: {len(counted)} messages of 51")
    if "report_when_released" not in site.tools:
        return
    session, name = site.session(t.http_eras()[0]), f"{proxy.port}"
    call = session.call("report_when_released", {"name": name}, _meta={"progressToken": "q"})
    with Visitor(proxy.port, t.options.patience) as visitor:
        try:
            head = visitor.send(call).head()[1]
            t.expect(
                "no-transform" in head.get("cache-control", ""),
                "a stream may be transformed by proxies",
            )
            body = b""
            while not steps(parsed(body)):
                body += visitor.wait().chunk()
        except AssertionError as error:
            t.fail(f"{proxy.habits}: the first step of a call does not come: {error}")
        finally:
            session.text("release", {"name": name})


def plain(response: Response) -> Response:
    if response.headers.get("content-encoding") != "gzip":
        return response
    return response._replace(body=gzip.decompress(response.body))


def idle(t: Trial, site: Site, session: Session) -> None:
    """A silent stream outlives a proxy that cuts silent streams, because of its comments."""
    patience = 6 * site.terms.keepalive * max(1.0, t.options.slack)
    with ToyProxy(site.port, Habits(idle=patience)) as proxy:
        with Visitor(proxy.port, 3 * patience + t.options.patience) as visitor:
            visitor.send(session.listen()).head()
            body = b""
            while body.count(b"\n\n") < 10 and not proxy.idle_cuts:
                try:
                    body += visitor.wait().chunk()
                except EOFError:
                    break
            t.expect(not proxy.idle_cuts, "a silent stream was cut: no comments come in time")
            t.note("comments", proxy.comments, "")
