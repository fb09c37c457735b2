"""C65 to C70 of the fault catalogue: one client, many threads, and every awkward moment to close it."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections import Counter
from typing import Any, Callable, Iterator, Optional

import pytest

import minimcp
from minimcp import ConnectionLost, Context, Limits, RequestTimeout, Server

from .harness import PLAIN

WAIT = 30.0
THREADS = 32
CALLS = int(os.environ.get("MINIMCP_THREAD_CALLS", "2000"))
STDIO = [sys.executable, "-S", str(PLAIN), '{"limits": {"drain_grace": 0.2}}']


def make_server() -> Server:
    """A server for this process."""
    server = Server("threads", version="1", limits=Limits(drain_grace=0.2))

    @server.tool
    def echo(text: str) -> str:
        """Give the text back."""
        return text

    @server.tool
    def slow(seconds: float, ctx: Context) -> str:
        """Say that it has begun, to whom wants progress, and sleep as a tool should."""
        ctx.progress(0)
        ctx.sleep(seconds)
        return "slept"

    @server.tool
    def count(n: int, ctx: Context) -> str:
        """Report n steps of progress."""
        for i in range(1, n + 1):
            ctx.progress(i, n)
            ctx.info(i)
        return str(n)

    @server.tool
    def grow(name: str) -> str:
        """Register another tool."""
        server.add_tool(echo, name=name, description="Another one.")
        return "grown"

    return server


def in_threads(number: int, work: Callable[[int], None]) -> None:
    """Run `work(0)` to `work(number - 1)` at once and wait for all; the first exception is raised here."""
    troubles: list[BaseException] = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except BaseException as trouble:
            troubles.append(trouble)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not any(thread.is_alive() for thread in threads), "a call hangs"
    for trouble in troubles:
        raise trouble


@pytest.fixture(params=["memory", "stdio"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What to connect to."""
    if request.param == "stdio":
        yield STDIO
        return
    server = make_server()
    yield server
    server.close()


def hammer(
    client: Any, calls: int, half: Optional[threading.Event] = None, closed: Optional[threading.Event] = None
) -> Counter[str]:
    """Calls of random length from many threads: each ends once, with its own text or the loss.

    Args:
        half: Set when half of the calls have been answered; None tells nobody.
        closed: Before the last call of each thread this is waited for; None: there is no loss.
    """
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()

    def work(index: int) -> None:
        dice = random.Random(index)
        for n in range(calls // THREADS):
            if closed is not None and n == calls // THREADS - 1:
                assert closed.wait(WAIT)
            text = f"{index}/{n}/" + "x" * int(dice.paretovariate(0.7) % 5000)
            try:
                result = client.call_tool("echo", {"text": text})
                assert result.text == text, "somebody else's answer"
                outcome = "answered"
            except ConnectionLost:
                outcome = "lost"
                assert closed is not None
            with lock:
                outcomes[outcome] += 1
                if half is not None and outcomes["answered"] == calls // 2:
                    half.set()

    in_threads(THREADS, work)
    return outcomes


@pytest.mark.requirement("BASE-04", "BASE-05", "M:BASE-4", "M:BASE-13", "STDIO-12")
@pytest.mark.parametrize("revision", ["auto", "2025-06-18"])
def test_c65_threads_share_one_client(target: Any, revision: str) -> None:
    with minimcp.connect(target, revision=revision) as client:
        outcomes = hammer(client, CALLS)
    assert outcomes == {"answered": CALLS // THREADS * THREADS}


def test_c65_close_in_the_middle(target: Any) -> None:
    client, half, closed = minimcp.connect(target), threading.Event(), threading.Event()
    closer = threading.Thread(target=lambda: (half.wait(WAIT), client.close(), closed.set()))
    closer.start()
    try:
        outcomes = hammer(client, CALLS, half, closed)
    finally:
        half.set()
        closer.join(WAIT)
    assert sum(outcomes.values()) == CALLS // THREADS * THREADS
    assert outcomes["lost"] >= THREADS
    with pytest.raises(ConnectionLost):
        client.call_tool("echo", {"text": "x"})


@pytest.mark.requirement("PROG-04")
def test_c67_callbacks_may_call_the_client(target: Any) -> None:
    seen: list[Any] = []
    logged, grown = threading.Event(), threading.Event()

    def on_log(message: Any) -> None:
        seen.append(client.call_tool("echo", {"text": "from on_log"}).text)
        logged.set()

    def on_tools_changed() -> None:
        seen.append(len(client.list_tools()))
        grown.set()

    def on_progress(progress: Any) -> None:
        seen.append(client.call_tool("echo", {"text": f"from on_progress {progress.progress}"}).text)

    with minimcp.connect(target, revision="2025-06-18", on_log=on_log, on_tools_changed=on_tools_changed) as client:
        assert client.call_tool("count", {"n": 3}, on_progress=on_progress).text == "3"
        client.call_tool("log" if target is STDIO else "count", LOG if target is STDIO else {"n": 1})
        client.call_tool("grow", {"name": "another"})
        assert logged.wait(WAIT)
        assert grown.wait(WAIT)
    assert [text for text in seen if "progress" in str(text)] == [f"from on_progress {n}" for n in (1, 2, 3)]


LOG = {"level": "error", "data": "x"}


def test_c67_a_callback_that_raises_or_blocks_delays_no_call(target: Any) -> None:
    free, inside = threading.Event(), threading.Event()

    def on_log(message: Any) -> None:
        inside.set()
        free.wait(WAIT)
        raise RuntimeError("on purpose")

    with minimcp.connect(target, revision="2025-06-18", on_log=on_log) as client:
        client.call_tool("log" if target is STDIO else "count", LOG if target is STDIO else {"n": 2})
        assert inside.wait(WAIT)
        for n in range(20):
            assert client.call_tool("echo", {"text": str(n)}).text == str(n)
        free.set()
        assert client.call_tool("echo", {"text": "after"}).text == "after"


def test_c67_an_exception_in_on_progress_reaches_the_caller(target: Any) -> None:
    def on_progress(progress: Any) -> None:
        raise KeyError("mine")

    with minimcp.connect(target) as client:
        with pytest.raises(KeyError, match="mine"):
            client.call_tool("count", {"n": 5}, on_progress=on_progress)
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_c68_close_twice_and_from_many_threads(target: Any) -> None:
    client = minimcp.connect(target)
    client.call_tool("echo", {"text": "x"})
    in_threads(8, lambda index: client.close())
    client.close()
    with pytest.raises(ConnectionLost):
        client.ping()


def test_c68_close_ends_every_waiter(target: Any) -> None:
    client, begun, ended = minimcp.connect(target), threading.Semaphore(0), []

    def work(index: int) -> None:
        if index == 20:
            for _ in range(20):
                assert begun.acquire(timeout=WAIT)
            return client.close()
        try:
            client.call_tool("slow", {"seconds": 60}, timeout=None, on_progress=lambda progress: begun.release())
        except ConnectionLost:
            ended.append(index)

    in_threads(21, work)
    assert sorted(ended) == list(range(20))


def test_c68_close_races_calls_that_begin(target: Any) -> None:
    """However far a call has come, it ends with the loss, once."""
    client, started, ended = minimcp.connect(target), threading.Barrier(21), []

    def work(index: int) -> None:
        started.wait(WAIT)
        if index == 20:
            return client.close()
        try:
            client.call_tool("slow", {"seconds": 60}, timeout=None)
        except ConnectionLost:
            ended.append(index)

    in_threads(21, work)
    assert sorted(ended) == list(range(20))


@pytest.mark.parametrize("where", ["on_log", "on_tools_changed"])
def test_c68_close_from_a_callback(target: Any, where: str) -> None:
    done = threading.Event()

    def close(*ignored: Any) -> None:
        client.close()
        done.set()

    client = minimcp.connect(target, revision="2025-06-18", **{where: close})
    try:
        client.call_tool("log" if target is STDIO else "count", LOG if target is STDIO else {"n": 1})
        client.call_tool("grow", {"name": "more"})
    except ConnectionLost:
        pass
    assert done.wait(WAIT)
    client.close()


def test_c68_close_from_on_progress(target: Any) -> None:
    """The call ends: with the loss, or with its answer where that had come already."""
    client = minimcp.connect(target)
    try:
        assert client.call_tool("count", {"n": 1000}, on_progress=lambda progress: client.close()).text == "1000"
    except ConnectionLost:
        pass
    with pytest.raises(ConnectionLost):
        client.call_tool("echo", {"text": "x"})


def test_c68_close_from_a_signal_handler(target: Any) -> None:
    client = minimcp.connect(target)
    before = signal.signal(signal.SIGALRM, lambda number, frame: client.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(ConnectionLost):
            client.call_tool("slow", {"seconds": 60})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        client.close()


@pytest.mark.requirement("LIFE-18", "LIFE-19", "CANC-06", "M:CAN-5", "M:CAN-7", "M:CAN-8")
def test_c69_timeout_against_answer(target: Any) -> None:
    """Thousands of calls whose answer and whose timeout come together: one outcome each, nothing left over."""
    outcomes: Counter[str] = Counter()
    lock = threading.Lock()
    with minimcp.connect(target) as client:

        def work(index: int) -> None:
            dice = random.Random(index)
            for _ in range(CALLS // 64):
                try:
                    client.call_tool("slow", {"seconds": 0.003}, timeout=0.003 + dice.uniform(-0.001, 0.003))
                    outcome = "answered"
                except RequestTimeout:
                    outcome = "timed out"
                with lock:
                    outcomes[outcome] += 1

        in_threads(16, work)
        assert sum(outcomes.values()) == 16 * (CALLS // 64)
        assert outcomes["timed out"] > 0
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert "0 outgoing" in repr(client)


def test_c70_switching_all_the_time(target: Any) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with minimcp.connect(target) as client:
            hammer(client, CALLS // 8)
    finally:
        sys.setswitchinterval(before)
