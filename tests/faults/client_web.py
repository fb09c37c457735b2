"""K03 to K08 over HTTP: what a client makes of what a server says in bodies and in event streams."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Optional, Tuple

from .client import Client, Reply
from .client_answers import AT_ONCE
from .hostile import web_tools
from .hostile.web_server import Hostile
from .trial import Missing, Trial, case

WAYS = ("json", "event")
LIMIT = 64 * 1024 * 1024  # bytes of the longest message that a client takes


def hostile(t: Trial, **how: Any) -> Hostile:
    """A server for this case; arguments as `Hostile`."""
    web: Hostile = t.keep(Hostile(**how))
    return web


def opened(client: Client, web: Hostile, timeout: Optional[float] = None, **more: Any) -> Reply:
    """Have it connect."""
    reply = client.open(timeout, url=web.url, **more)
    if reply.error == "unsupported":
        raise Missing("the adapter has no HTTP")
    return reply


def visitor(t: Trial, web: Hostile, **more: Any) -> Client:
    """A new client that is connected."""
    client = t.client()
    reply = opened(client, web, **more)
    assert reply.ok, f"open: {reply.error}: {reply.message}"[:300]
    return client


def visits(t: Trial, **how: Any) -> Iterator[Tuple[Hostile, Client]]:
    """A server of each era, and one client that visits them one after the other."""
    client: Optional[Client] = None
    for handshake in (True, False):
        web = hostile(t, handshake=handshake, **how)
        if client is None:
            client = visitor(t, web)
        else:
            client.do("close")
            reply = opened(client, web)
            assert reply.ok, f"open: {reply.error}: {reply.message}"[:300]
        yield web, client


def refused(t: Trial, reply: Reply, what: str, seconds: float = 1.0, slow: Optional[Dict[str, float]] = None) -> None:
    """It must have been an error of the library's own, and soon; the slowest of many goes into `slow`."""
    t.expect(not reply.ok, f"{what}: a success: {str(reply.text)[:60]}")
    t.expect(reply.seconds <= seconds * t.options.slack, f"{what}: {reply.seconds:.3g} s, not {seconds:g}")
    if (reply.error or "").startswith("untyped"):
        t.warn(f"{what}: {reply.error}")
    if slow is not None:
        slow["slowest"] = max(slow.get("slowest", 0.0), reply.seconds)


@case("K03H")
def other_ids(t: Trial) -> None:
    for _, client in visits(t):
        for tool, text in (("other-ids", "yours"), ("twice", "first")):
            reply = client.call(tool)
            t.expect(reply.text == text, f"{tool}: {reply.text or reply.error}: {reply.message}"[:120])
        for id in ([1], True, None, {}, 1.5):
            reply = client.call("odd-id", id=id)
            fine = reply.text == "yours" or (reply.error is not None and reply.seconds < 1 * t.options.slack)
            t.expect(fine, f"the id {id}: {reply.text or reply.error}: {reply.message}"[:120])
        both = [client.begin("call", tool="swapped", arguments={}, timeout=client.never) for _ in range(2)]
        for one in both:
            reply = one.wait(client.never + t.options.patience)
            t.expect(reply.text == "yours", f"swapped: {reply.text or reply.error}: {reply.message}"[:120])
        for way in WAYS:
            refused(t, client.call("one-other-id", way=way), f"only the answer to another, {way}")
        client.alive()


@case("K04H")
def wrong_shapes(t: Trial) -> None:
    slow: Dict[str, float] = {}
    for _, client in visits(t):
        for tool in AT_ONCE:
            for way in WAYS:
                reply = client.call(tool, way=way)
                refused(t, reply, f"{tool}, {way}", slow=slow)
                if reply.seconds > 0.5 * client.never:
                    return  # so will the others
        client.alive()
    t.note("slowest", slow["slowest"], "s")


@case("K05H")
def notes(t: Trial) -> None:
    for _, client in visits(t):
        client.alive()
        base, reply = client.memory(), client.call("flood", 30)
        t.expect(reply.text == "after the flood", f"the call was lost: {reply.error}: {reply.message}"[:120])
        t.below("time of 20,000", reply.seconds, 1)
        t.below("growth", client.memory() - base, 32, "MB")
        client.alive()


@case("K06H")
def large(t: Trial) -> None:
    client = visitor(t, hostile(t, handshake=True))
    client.alive()
    base = client.memory()
    for way in WAYS:
        reply = client.call("big", 60, bytes=50_000_000, way=way)
        size = len(reply.text or "")
        assert size > 49_999_000, f"{size} of 50,000,000 bytes arrived, {way}: {reply.error}: {reply.message}"[:150]
        t.below(f"time of 50 MB, {way}, the adapter's own hop included", reply.seconds, 2.5)
    t.below("growth, that hop included", client.memory("VmHWM") - base, 400, "MB")
    linear(t, client)
    for way in WAYS:
        limit(t, client, way)
    client.alive()


def linear(t: Trial, client: Client) -> None:
    """Long events in pieces of 1 KB: four times as long may take four times as long, and on a busy machine ten."""
    best: Dict[int, float] = {}
    for _ in range(3):
        for megabytes in (4, 8, 16):
            size = megabytes * web_tools.MEGABYTE
            reply = client.call("big", 60, bytes=size, padded=True, way="event", piece=1024)
            assert reply.text == "whole", f"an event of {megabytes} MB: {reply.error}: {reply.message}"[:150]
            best[megabytes] = min(best.get(megabytes, reply.seconds), reply.seconds)
        if best[16] <= 8 * best[4]:
            break
    for megabytes, seconds in best.items():
        t.note(f"{megabytes} MB in pieces of 1 KB", seconds, "s")
    t.below("16 MB : 4 MB", best[16] / best[4], 10, "times")


def limit(t: Trial, client: Client, way: str) -> None:
    """The longest message that is taken, and the next."""
    for more in (-1, 0):
        reply = client.call("big", 60, bytes=LIMIT + more, padded=True, way=way)
        t.expect(reply.text == "whole", f"64 MiB{more or ''}, {way}: {reply.error}: {reply.message}"[:150])
    reply = client.call("big", 60, bytes=LIMIT + 1, padded=True, way=way)
    if reply.ok:
        t.warn(f"64 MiB + 1 B, {way}: taken, without any limit that we know")
    t.below(f"64 MiB + 1 B, {way}, refused after", reply.seconds, 2)


@case("K07H")
def bad_events(t: Trial) -> None:
    for web, client in visits(t):
        for tool in web_tools.FIRST:
            reply = client.call(tool, text="after")
            if reply.text != "after":  # an error is no harm, if it comes at once
                worse = t.warn if reply.error and reply.seconds <= 1 * t.options.slack else t.fail
                worse(f"{tool}: {reply.error or reply.text}: {reply.message}"[:150])
        for tool in web_tools.REPLIES:
            for way in WAYS:
                reply = client.call(tool, 3, way=way)
                t.expect(reply.seconds <= 1 * t.options.slack, f"{tool}, {way}: after {reply.seconds:.1f} s")
        client.alive()
        t.expect(web.all("an answer") == [], "the client answered what is no request")


@case("K08H")
def endless(t: Trial) -> None:
    """What has a limit is refused at it; what costs nothing goes on until the call's time is over."""
    client = visitor(t, hostile(t))
    client.alive()
    base = client.memory()
    for tool in ("endless-event", "endless-field", "endless-json"):
        reply = client.call(tool)
        refused(t, reply, tool, 0.9 * client.never)
        t.note(f"{tool} ended after", reply.seconds, "s")
    for tool in ("endless-lines", "endless-comments", "endless-comment-lines"):
        refused(t, client.call(tool, 1.0), tool, 2.0)
    t.below("growth", client.memory("VmHWM") - base, 64 + 8, "MB")
    client.alive()
