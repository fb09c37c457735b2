"""C71 to C77: what one client makes an HTTP server keep, run and print, and what others have to pay
for it."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Iterator, Tuple

from ..wire.messages import MODERN, hello, request
from .http_load import beyond
from .http_raw import Site, messages, text_of
from .http_sessions import READY, counting, fill, keeping, parsed, resumable, until
from .trial import Missing, Trial, case, on_site, start_http

ARRAYS = "2025-03-26"  # the revision that has them


def padding(size: int) -> Tuple[Any, ...]:
    """Values of this many bytes: some need far more memory than bytes, some need as much."""
    return [{}] * (size // 4), "x" * size


def greetings(size: int) -> Iterator[bytes]:
    """Yield `initialize` bodies of nearly this many bytes, one for each member that a server may
    keep."""
    for value in padding(size - 1000):
        for part in ("capabilities", "clientInfo"):
            params = hello("2025-11-25")
            params[part]["experimental" if part == "capabilities" else "title"] = {"x": value}
            yield json.dumps(request("i", "initialize", params), separators=(",", ":")).encode()
    params["clientInfo"] = {"name": value, "version": "1"}
    yield json.dumps(request("i", "initialize", params), separators=(",", ":")).encode()


@case("C71")
def left_behind(t: Trial) -> None:
    """Use small bodies, and the largest ones: a tenth of what one peer can open, and with --full
    all."""
    if not t.subject.http:
        raise Missing("no HTTP server")
    site: Site = t.keep(start_http(t.subject, t.options))
    full, largest = t.options.full, site.terms.body_bytes
    with ExitStack() as stack:
        for rounds in (1, 0):  # the first round allocates caches, which do not count
            base = site.memory()
            for size, sessions, listens in ((60_000, 900, 200), (largest, 100, 56)):
                few = 10 if size < largest else 20
                sessions, listens = (count // (1 if full else few) for count in (sessions, listens))
                opened = greet(t, site, size, 5 if rounds else sessions, base)
                heard = listen(site, stack, size, 2 if rounds else listens)
                if not rounds:
                    t.note(f"sessions with {size} B", opened, "")
                    t.note(f"listens with {size} B", heard, "")
            subscribe(t, site, 10 if rounds else t.count(1_000, 10_000))
        t.below("kept", site.memory() - base, 64 if full else 16, "MB")
    site.alive(t.options.slack)
    t.calm(site)


def greet(t: Trial, site: Site, size: int, count: int, base: float) -> int:
    """Return how many of this many sessions open."""
    bodies, opened = list(greetings(size)), 0
    for number in range(count):
        response = site.exchange(site.wire("POST", bodies[number % len(bodies)]))
        if response.status == 200:
            opened += 1
            site.exchange(
                site.wire("POST", READY, mcp_session_id=response.headers.get("mcp-session-id"))
            )
        assert site.memory() - base < 300, (
            f"{site.memory() - base:.0f} MB are kept of {opened} sessions with {size} B"
        )
    return opened


def listen(site: Site, stack: ExitStack, size: int, count: int) -> int:
    """Return how many of this many streams open."""
    if MODERN not in site.revisions:
        return 0
    session, opened = site.session(MODERN), 0
    for number in range(count):
        params = {
            "notifications": {"toolsListChanged": True},
            "more": padding(size - 1000)[number % 2],
        }
        visitor = stack.enter_context(site.visitor())
        visitor.push(session.request("subscriptions/listen", params))
        opened += visitor.head()[0] == 200
    return opened


def subscribe(t: Trial, site: Site, count: int) -> None:
    """One session and one stream of many resources, and with URIs of 4 MB."""
    session = site.session(t.http_eras()[0])
    with site.visitor() as visitor:
        for number in range(count):
            if visitor.has_closed():
                return
            size = site.terms.body_bytes - 1000 if number % 100 == 0 else 1000
            data = session.request(
                "resources/subscribe", {"uri": f"faults://{number}/{'x' * size}"}
            )
            status = visitor.send(data).answer().status
            assert status < 500, f"a subscription got status {status}"


DEAR = (  # bodies that are short to write, long to read, and no messages
    ("lists", b"[", b"[[]],", b"1]"),
    ("objects", b"[", b"{},", b"1]"),
    ("a doubled member", b'{"a":1,"a":[', b"{},", b"1]}"),
    ("1e999 at the end", b"[", b"[[]],", b"1e999]"),
)


@on_site("C72")
def dear(t: Trial, site: Site) -> None:
    size, session = site.terms.body_bytes - 100, site.session()
    base = site.memory("VmHWM")
    for name, head, block, tail in DEAR:
        data = session.post(head + block * (size // len(block)) + tail)
        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(site.exchange, data) for _ in range(8)]
            t.probed(site)
            statuses = {one.result().status for one in found}
        t.below(f"8 at once, {name}", time.monotonic() - begun, 8)
        t.expect(statuses <= {400, 413, 429, 503}, f"{name}: statuses {sorted(statuses)}")
        assert site.memory("VmHWM") - base < 256, (
            f"{name}: {site.memory('VmHWM') - base:.0f} MB for 8 bodies"
        )
    t.below("growth", site.memory("VmHWM") - base, 256, "MB")


@case("C73")
def arrays(t: Trial) -> None:
    """Send as many calls as a server runs at once, and ten times more, in arrays."""
    site = t.hasty(requests=10)
    if ARRAYS not in site.revisions or "slow" not in site.tools:
        raise Missing("arrays, or the tool slow")
    sessions = [site.session(ARRAYS) for _ in range(5)]
    params, threads = {"name": "slow", "arguments": {"seconds": 2}}, site.threads
    with ThreadPoolExecutor(len(sessions)) as pool:
        calls = json.dumps([request(number, "tools/call", params) for number in range(20)]).encode()
        found = list(
            pool.map(lambda session: messages(site.exchange(session.post(calls))), sessions)
        )
    answers = [
        one
        for each in found
        for part in each
        for one in (part if isinstance(part, list) else [part])
    ]
    ran = sum("result" in one for one in answers)
    t.note("threads", site.threads - threads, "")
    t.below("of 100 calls in arrays ran at once", ran, 10, "")
    site.alive(t.options.slack)
    t.calm(site)


@on_site("C74", "count", "big", "pour", "echo")
def others_events(t: Trial, site: Site) -> None:
    """A stream is cut while others send many events, few large ones, or are many. Then it is
    resumed."""
    victim = resumable(t, site)

    def call(tool: str, **arguments: Any) -> None:
        session = keeping(t, site)
        progress = {"_meta": {"progressToken": "p"}} if tool == "count" else {}
        assert text_of(site.exchange(session.call(tool, arguments, **progress)))

    for name, attack in (
        ("an answer of 9 MB", lambda: call("big", size=9_000_000)),
        ("5,000 events", lambda: call("count", n=5_000)),
        (
            "12 sessions of 2 MB each",
            lambda: [call("pour", events=100, size=20_000) for _ in range(12)],
        ),
    ):
        seen = until(site, counting(victim, 3), 2)
        attack()
        response = site.exchange(victim.listen(last_event_id=seen[-1].id), "GET")
        answers = [
            one.message
            for one in parsed(response.body)
            if one.message and "method" not in one.message
        ]
        t.expect(
            len(answers) == 1,
            f"{name} pushed out the answer of another session: status {response.status}",
        )


@case("C75")
def room(t: Trial) -> None:
    """The maximum number of unfinished sessions and connections leaves room for others."""
    site = t.hasty(sessions=40, connections=40, head=30)
    held = keeping(t, site)
    begun = fill(site, held.revision, 60, whole=False)[0]
    t.note("sessions begun", len(begun), "")
    status = site.exchange(site.wire("POST", next(greetings(2000)))).status
    t.expect(
        status == 200,
        f"beside {len(begun)} sessions that only were begun a new one got status {status}",
    )
    t.expect(
        site.exchange(held.request("ping")).status == 200,
        "they have pushed out a session that was in use",
    )
    with ExitStack() as stack, site.visitor() as kept:
        ping = held.request("ping")
        kept.send(ping).answer()
        for _ in range(60):
            stack.enter_context(site.visitor())
        t.expect(beyond(site, ping) == "served", "silent connections take all the room")
        kept.push(ping)
        t.expect(
            not kept.has_closed() and kept.answer().status == 200,
            "they have pushed out one that was in use",
        )
    t.calm(site)


@on_site("C76", "watch", "wait_for")
def next_byte(t: Trial, site: Site) -> None:
    """Clients leave after a part of a next request, or a whole one."""
    if MODERN not in site.revisions:
        raise Missing(f"does not speak {MODERN}")
    session = site.session(MODERN)
    with ExitStack() as stack:
        names = []
        for number, more in enumerate((b"P", b"\r\n", session.request("server/discover")) * 2):
            name = f"byte {number}"
            visitor = stack.enter_context(site.visitor(5 * t.options.slack))
            visitor.send(session.call("watch", {"name": name}))
            session.text("wait_for", {"name": name, "what": "begin"})
            visitor.push(more)
            names.append((name, visitor))
        site.probe()  # and the server has had time to see it
        for number, (_, visitor) in enumerate(names):
            (visitor.reset if number < 3 else visitor.close)()
    for name, _ in names:
        ended = session.text("wait_for", {"name": name, "what": "end"})
        assert ended.startswith("cancelled"), (
            f"a handler whose client left was not told: it {ended}"
        )


MARK = "WARNING a forged line"
TEXT = f"a\x1b]0;title\x07\x1b[2J\r\n{MARK}\n\x85{MARK}\u2028{MARK}\x9b2J\x08"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def forged(t: Trial, log: str, who: str) -> None:
    """Text of a peer appears only on log lines of its reporter, without control characters."""
    lines = [line for line in log.splitlines() if line.startswith(MARK)]
    t.expect(not lines, f"the log of {who} has {len(lines)} lines that its peer wrote")
    found = sorted({one.group() for one in CONTROL.finditer(log)})
    t.expect(not found, f"the log of {who} has control characters of its peer: {found}")


@case("C77")
def logs(t: Trial) -> None:
    site = t.site("raiser", "echo")
    for session in t.sessions(site):
        names: Any = {"mcp_method": None, "mcp_name": None}
        for data in (
            session.call("raiser", {"kind": TEXT}), session.call("echo", {"text": 1, TEXT: 2}),
            session.request(TEXT, **names), session.request("tools/call", {"name": TEXT, "arguments": {}}, **names),
            session.request("resources/read", {"uri": TEXT}, **names), session.request("ping", id=TEXT),
            session.post({"jsonrpc": "2.0", "method": TEXT}), session.post(TEXT.encode()),
            session.post({"jsonrpc": "2.0", "method": "notifications/cancelled",
                          "params": {"requestId": 1, "reason": TEXT}}),
        ):  # fmt: skip
            site.exchange(data)
    forged(t, site.stderr(), "the HTTP server")
    t.expect(MARK in site.stderr() or not t.subject.tunable, "the log has nothing of it")
    for revision in t.subject.revisions[:1] if "raiser" in t.subject.tools else ():
        server = t.server(revision)
        server.ask("tools/call", {"name": "raiser", "arguments": {"kind": TEXT}})
        server.ask("tools/call", {"name": TEXT, "arguments": {}})
        forged(t, server.stderr(), "the server over stdio")
