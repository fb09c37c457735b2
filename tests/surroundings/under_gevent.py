"""``python -m tests.surroundings.under_gevent``: everything again, with gevent instead of threads
and blocking waits.

It needs gevent, which the other tests do not need, so .ci/run gives it an environment of its own.
Every thread is a greenlet here, including the library's, so one blocking wait would stop all of
them, and the clock would show it.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import gc  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from typing import Any, List  # noqa: E402

import gevent  # noqa: E402

import minimcp  # noqa: E402

from ..inside import session_of  # noqa: E402
from ..support import WAIT, eventually, open_descriptors  # noqa: E402
from .scene import SERVER, connect, make_server, play  # noqa: E402

PATCHED = minimcp.StdioServer(
    [sys.executable, "-m", "tests.surroundings.under_gevent", "serve"], cwd=SERVER.cwd
)
"""The server under gevent too."""


class Clock:
    """A greenlet that counts as long as nothing blocks the event loop."""

    def __init__(self) -> None:
        self.ticks = 0
        self._greenlet = gevent.spawn(self._tick)

    def _tick(self) -> None:
        while True:
            gevent.sleep(0.005)
            self.ticks += 1

    def stop(self) -> None:
        self._greenlet.kill()


def calls_wait_without_stopping_others(client: minimcp.Client) -> None:
    """While a call waits for its response, the event loop continues."""
    clock, ticks = Clock(), 0
    for seconds in (0.2, 1.0, 5.0):  # a slow machine gets more time
        before = clock.ticks
        try:
            client.call_tool("hold", timeout=seconds)
            raise AssertionError("no timeout")
        except minimcp.RequestTimeout:
            ticks = clock.ticks - before
        if ticks >= 5:
            break
    clock.stop()
    assert ticks >= 5, f"{ticks} ticks in {seconds:g} s"


def greenlets_share_a_client(client: minimcp.Client) -> None:
    """Many clients call at once. One is killed and one times out, and only their calls end."""
    begun = threading.Event()

    def hold() -> None:
        client.call_tool("hold", on_progress=lambda report: begun.set())

    killed = gevent.spawn(hold)
    assert begun.wait(WAIT)
    callers = [
        gevent.spawn(lambda n=n: client.call_tool("echo", {"text": str(n)}).text) for n in range(50)
    ]
    killed.kill(timeout=WAIT)
    with gevent.Timeout(0.05, False):
        client.call_tool("hold")
        raise AssertionError("gevent.Timeout did nothing")
    gevent.joinall(callers, timeout=WAIT)
    assert [caller.value for caller in callers] == [str(n) for n in range(50)]
    assert eventually(lambda: len(session_of(client).calls) == 0)


PARTS: List[Any] = [play, calls_wait_without_stopping_others, greenlets_share_a_client]


def play_everywhere() -> None:
    """Over every transport, in both ways of agreeing."""
    for name, target in (
        ("memory", make_server()),
        ("stdio", SERVER),
        ("stdio, patched too", PATCHED),
    ):
        for revision in ("auto", "handshake"):
            with connect(target, revision) as client:
                for part in PARTS:
                    part(client)
            print(f"{name}, {revision}: as without gevent", flush=True)


def main() -> int:
    """Play it all; 0 when nothing went wrong and nothing is left."""
    if "serve" in sys.argv:
        make_server().run()
        return 0
    play_everywhere()
    gc.collect()
    before = len(
        open_descriptors()
    )  # the event loop has its own descriptors now; some of the first round may still be closing
    play_everywhere()
    gc.collect()
    assert eventually(lambda: len(open_descriptors()) <= before), "descriptors are left"
    eventually(lambda: threading.active_count() == 1)
    names = [
        thread.name for thread in threading.enumerate() if thread is not threading.main_thread()
    ]
    more = max(0, len(open_descriptors()) - before)
    print(
        f"left: {names}, {more} descriptors more; gevent {gevent.__version__}, Python {sys.version.split()[0]}"
    )
    return 1 if names or more else 0


if __name__ == "__main__":
    sys.exit(main())
