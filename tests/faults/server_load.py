"""C12 to C15, C17, C19, C24 to C27 and C38: much, large, long and at once."""

from __future__ import annotations

import time
from typing import Any, Dict, Set

from ..wire.messages import MODERN, REQUEST, encode, modern, request, same
from .raw import Server, shown
from .server_lines import line
from .trial import Trial, case, each_era, say

MB = 1 << 20
LIMIT = 64
"""MB that a message may have; the longest line that is tried is longer than any limit that a library is known for."""


def call(server: Server, id: Any, tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return encode(request(id, "tools/call", modern(params) if server.revision == MODERN else params))


def padded(server: Server, size: int, id: Any = "q") -> bytes:
    """A request that must be served, with so many bytes of nothing in it."""
    return line(server, params={"_meta": {"com.example/x": "@"}}, id=id).replace(b"@", b"x" * size) + b"\n"


@each_era("C12")
def large(t: Trial, server: Server) -> None:
    took: Dict[int, float] = {}
    base = server.memory()
    for megabytes in (5, 50):
        text, begun = padded(server, megabytes * 1_000_000), time.monotonic()
        server.send(text)
        found = server.answer("q") if megabytes == 5 else server.message()
        took[megabytes] = time.monotonic() - begun
        t.expect("result" in found or same(found.get("id"), None) or same(found.get("id"), "q"), shown(found))
    t.below("time of 50 MB", took[50], 5)
    t.expect(took[50] < 40 * max(took[5], 0.02), f"not linear: {took[5]:.2f} s for 5 MB, {took[50]:.2f} s for 50")
    t.below("growth", server.memory("VmHWM") - base, 200, "MB")


@case("C13")
def endless(t: Trial) -> None:
    server = t.server()
    server.alive(t.options.slack)
    base, begun = server.memory(), time.monotonic()
    for _ in range(96):
        server.send(b"z" * MB)
    server.send(b"\n")
    server.ping()
    got = [one for one in server.aside if "method" not in one]
    server.aside.clear()
    if not got:
        t.warn("no answer to a line of 96 MB")
    else:
        t.expect(len(got) == 1 and got[0]["error"]["code"] in (REQUEST, -32700), f"96 MB: {shown(got)}")
    t.below("time", time.monotonic() - begun, 5)
    t.below("growth", server.memory("VmHWM") - base, LIMIT + 8, "MB")
    server.alive(t.options.slack)


@each_era("C14", "echo")
def sizes(t: Trial, server: Server) -> None:
    for kilobytes in range(201):
        text = "s" * (kilobytes * 1024)
        t.expect(server.text("echo", {"text": text}) == text, f"{kilobytes} KB did not come back")
    for byte in line(server, id="slowly") + b"\n":
        server.send(bytes([byte]))
    server.answer("slowly")
    server.send(b"".join(call(server, n, "echo", text=str(n)) for n in range(2_000)))
    for n in range(2_000):
        got = server.answer(n)["result"]["content"][0]["text"]
        t.expect(got == str(n), f"call {n} got the answer of {got}")


@each_era("C15", "deaf_slow", "echo")
def twice(t: Trial, server: Server) -> None:
    server.send(call(server, "twice", "deaf_slow", seconds=1) + call(server, "twice", "echo", text="second"))
    begun = time.monotonic()
    first, second = server.answer("twice"), server.answer("twice")
    codes = [one.get("error", {}).get("code") for one in (first, second)]
    if codes == [None, None]:
        t.warn("an id in flight was taken a second time")
    else:
        t.expect(codes == [REQUEST, None], f"an id in flight: {codes}")
    t.below("both answers", time.monotonic() - begun, 2.5)
    for n in range(20):
        t.expect(server.call("echo", {"text": str(n)}, id="again")["content"][0]["text"] == str(n), "an id again")


@each_era("C17")
def flood(t: Trial, server: Server) -> None:
    server.alive(t.options.slack)
    base, spent, begun = server.memory(), server.cpu(), time.monotonic()
    notes = say("notifications/nobody/knows", {"x": [1, 2, 3]}) * 5_000
    for _ in range(10):
        server.send(notes)
    server.ping(60)
    t.expect(server.aside == [], f"answered: {shown(server.aside)}")
    t.note("notifications a second", 50_000 / (time.monotonic() - begun), "/s")
    t.below("CPU", server.cpu() - spent, 5)
    t.below("growth", server.memory() - base, 10, "MB")
    server.aside.clear()


@case("C19")
def cancel_storm(t: Trial) -> None:
    answered = 0
    for revision in t.eras():
        server = t.server(revision, "slow")
        for number in range(1_000):
            seconds = t.dice.choice((0, 0, 0.001, 5))
            cancel = say("notifications/cancelled", {"requestId": number})
            server.send(call(server, number, "slow", seconds=seconds) + (b"" if t.dice.random() < 0.1 else cancel))
            if t.dice.random() < 0.1:
                server.send(cancel)
        seen: Set[Any] = set()
        for one in [*server.fence(), *quiet(server)]:
            if "method" not in one:
                t.expect(one["id"] not in seen, f"the request {one['id']} was answered twice")
                seen.add(one["id"])
        answered += len(seen)
        server.alive(t.options.slack)
    t.note("answered", answered, "")


def quiet(server: Server, seconds: float = 0.3) -> Any:
    """What comes until nothing has come for so long."""
    while server.poll(seconds):
        yield server.message()


@case("C24")
def unread(t: Trial) -> None:
    server = t.server("2025-06-18", "echo")
    base, begun = server.memory(), time.monotonic()
    calls = b"".join(call(server, n, "echo", text="x" * 100) for n in range(20_000))
    taken = server.send(calls, reading=False, wait=0.5)
    t.note("requests taken before one answer was read", taken / len(calls) * 20_000, "")
    server.send(calls[taken:])
    seen = set()
    for _ in range(20_000):
        message = server.message()
        t.expect("result" in message, shown(message))
        seen.add(message["id"])
    t.expect(seen == set(range(20_000)), f"{20_000 - len(seen)} calls were not answered")
    t.below("time", time.monotonic() - begun, 30)
    t.below("growth", server.memory("VmHWM") - base, 120, "MB")
    server.alive(t.options.slack)


@case("C25")
def slow_reader(t: Trial) -> None:
    # glibc would keep what was freed, several times what is held; with this it gives large pieces back at once.
    server = t.server("2025-06-18", "big", env={"MALLOC_MMAP_THRESHOLD_": str(MB)})
    server.alive(t.options.slack)
    base, calls = server.memory(), t.count(120, 400)
    for n in range(calls):
        server.send(call(server, n, "big", size=5 * MB), reading=False, wait=0.5)
        server.poll(0.001)  # one read of a pipe's worth, then a pause
        time.sleep(0.03)
    t.below("growth", server.memory("VmHWM") - base, 3 * LIMIT, "MB")
    for n in range(calls):
        t.expect(len(server.answer(n, 60)["result"]["content"][0]["text"]) == 5 * MB, f"answer {n} is short")
    server.alive(t.options.slack)


@case("C26")
def crowd(t: Trial) -> None:
    server = t.server("2025-06-18", "deaf_slow")
    threads, begun = [server.status("Threads")], time.monotonic()
    server.send(b"".join(call(server, n, "deaf_slow", seconds=0.1) for n in range(200)))
    for n in range(200):
        t.expect("result" in server.answer(n, 60), f"call {n} failed")
        if n % 20 == 0:
            threads.append(server.status("Threads"))
    t.below("time", time.monotonic() - begun, 3)
    t.below("threads", max(threads), 100, "")
    server.alive(t.options.slack)


@each_era("C27", "deaf_slow", "echo")
def behind(t: Trial, server: Server) -> None:
    server.send(call(server, "slow", "deaf_slow", seconds=3))
    fast = _timed(server, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
    t.below("a fast call behind a slow one", fast, 1)
    server.send(b"".join(call(server, n, "deaf_slow", seconds=3) for n in range(100)))
    t.below("a ping behind 100", server.ping(60), 1)
    t.below("a list behind 100", _timed(server, "tools/list", {}), 1)
    server.notify("notifications/cancelled", {"requestId": 99})
    t.below("a ping after a cancellation", server.ping(60), 1)


def _timed(server: Server, method: str, params: Dict[str, Any]) -> float:
    begun = time.monotonic()
    server.answer(server.begin(method, params), 60)
    return time.monotonic() - begun


@case("C38")
def soak(t: Trial) -> None:
    server = t.server("2025-06-18", "echo", "add")
    for n in range(500):
        server.text("add", {"a": n, "b": 1})
    before = server.status("Threads"), server.descriptors()
    base, begun, calls = server.memory(), time.monotonic(), t.count(5_000, 100_000)
    for n in range(calls):
        if n % 2:
            t.expect(server.text("add", {"a": n, "b": 1}) == str(n + 1), f"call {n} got another answer")
        else:
            t.expect(server.text("echo", {"text": f"{n}"}) == str(n), f"call {n} got another answer")
    t.note("calls a second", calls / (time.monotonic() - begun), "/s")
    t.below("growth", server.memory() - base, 5, "MB")
    until = time.monotonic() + 15 + t.options.patience  # idle workers end
    while server.status("Threads") > before[0] + 2 and time.monotonic() < until:
        time.sleep(0.02)
    t.below("more threads", server.status("Threads") - before[0], 2, "")
    t.below("more descriptors", server.descriptors() - before[1], 0, "")
    server.alive(t.options.slack)
