"""Many calls of one client at once (futures, `call_tools`, threads), and every awkward moment to end it.

C65 to C69 of the fault catalogue; with calls under way, from callbacks, in a fork, at the end of the interpreter.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import warnings
from collections import Counter
from concurrent.futures import Future, wait
from typing import Any, Callable, Iterator, List, Optional

import pytest

import minimcp
from minimcp import ConnectionLost, Context, Limits, RequestTimeout, Server
from minimcp.client import connect as connecting

from ..support import ROOT, WAIT, eventually, run_python
from .clients import ERAS, NEVER, Both, InThread, Script, make_scripted  # noqa: F401
from .conftest import Talking
from .harness import PLAIN

THREADS = 32
CALLS = int(os.environ.get("MINIMCP_THREAD_CALLS", "1000"))
STDIO = [sys.executable, "-S", str(PLAIN), '{"limits": {"drain_grace": 0.2}}']


# ---------------------------------------------------------------- submit and call_tools


def test_a_submitted_call_is_a_future(talking_both: Both) -> None:
    _, client = talking_both
    seen: List[Any] = []
    called = threading.Event()
    good = client.submit(
        client.call_tool, "count", {"total": 5}, on_progress=lambda p: seen.append(threading.current_thread())
    )
    assert isinstance(good, Future)
    good.add_done_callback(lambda future: called.set())
    bad, listed = client.submit(client.call_tool, "fails"), client.submit(client.list_tools)
    assert good.result(WAIT).text == "counted"
    assert isinstance(bad.exception(WAIT), minimcp.ToolError)
    assert [tool.name for tool in listed.result(WAIT)] == ["echo"]
    assert called.wait(WAIT) and wait([good, bad, listed], WAIT).not_done == set()
    assert not good.cancel() and good.done() and not good.cancelled()
    assert len(seen) == 6 and threading.current_thread() not in seen


def test_a_hundred_submitted_calls_wait_at_the_same_time(talking: Talking) -> None:
    _, client = talking("handshake")
    futures = [client.submit(client.call_tool, "reverse", {"calls": 100, "number": n}) for n in range(100)]
    assert [future.result(WAIT).text for future in futures] == [str(n) for n in range(100)]


@pytest.mark.requirement("BASE-05", "M:BASE-3", "M:BASE-15", "BATCH-02")
def test_call_tools_sends_all_at_once_and_returns_in_order(talking_both: Both) -> None:
    _, client = talking_both
    # The server answers only when all have come, the last one first.
    results = client.call_tools([("reverse", {"calls": 50, "number": n}) for n in range(50)], timeout=NEVER)
    assert [result.text for result in results] == [str(n) for n in range(50)] and client.call_tools([]) == []
    calls = [("reverse", {"calls": 4, "number": n}) for n in (0, -1, 2, -3)]
    found = client.call_tools(calls, return_exceptions=True, timeout=NEVER)
    assert [getattr(one, "data", None) for one in found] == [None, {"number": -1}, None, {"number": -3}]
    with pytest.raises(minimcp.RpcError) as caught:
        client.call_tools(calls, timeout=NEVER)
    assert caught.value.data == {"number": -1}
    failed = client.call_tools([("echo", {}), ("fails", {})], return_exceptions=True)
    assert failed[0].text == "well" and isinstance(failed[1], minimcp.ToolError)


# ---------------------------------------------------------------- threads


def make_server() -> Server:
    """A server for this process, with tools as those of plain.py."""
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
        return str(n)

    @server.tool
    def log(level: str, data: Any, ctx: Context) -> str:
        """Send one log line."""
        ctx.log(level, data)
        return "logged"

    @server.tool
    def grow(name: str) -> str:
        """Register another tool."""
        server.add_tool(echo, name=name, description="Another one.")
        return "grown"

    return server


@pytest.fixture(params=["memory", "stdio"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What to connect to."""
    server = make_server()
    yield server if request.param == "memory" else STDIO
    server.close()


def in_threads(number: int, work: Callable[[int], Any]) -> None:
    """Run `work(0)` to `work(number - 1)` at once and wait for all; the first exception is raised here."""
    for outcome in [each.ended() for each in [InThread(work, index) for index in range(number)]]:
        if isinstance(outcome, BaseException):
            raise outcome


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
                assert client.call_tool("echo", {"text": text}).text == text, "somebody else's answer"
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


@pytest.mark.requirement("BASE-04", "BASE-05", "M:BASE-4", "M:BASE-13", "STDIO-12", "M:STD-14", "STDIO-03")
@pytest.mark.parametrize("revision", ["auto", "2025-06-18"])
def test_c65_threads_share_one_client(target: Any, revision: str) -> None:
    with minimcp.connect(target, revision=revision) as client:
        assert hammer(client, CALLS) == {"answered": CALLS // THREADS * THREADS}


@pytest.mark.requirement("LIFE-27")
def test_c65_close_in_the_middle(target: Any) -> None:
    client, half, closed = minimcp.connect(target), threading.Event(), threading.Event()
    closer = InThread(lambda: (half.wait(WAIT), client.close(), closed.set()))
    try:
        outcomes = hammer(client, CALLS, half, closed)
    finally:
        half.set()
        closer.ended()
    assert sum(outcomes.values()) == CALLS // THREADS * THREADS and outcomes["lost"] >= THREADS
    with pytest.raises(ConnectionLost):
        client.call_tool("echo", {"text": "x"})


LOG = {"level": "error", "data": "x"}


@pytest.mark.requirement("PROG-04")
def test_c67_callbacks_may_call_the_client(target: Any) -> None:
    seen: List[Any] = []
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
        client.call_tool("log", LOG)
        client.call_tool("grow", {"name": "another"})
        assert logged.wait(WAIT) and grown.wait(WAIT)
    assert [text for text in seen if "progress" in str(text)] == [f"from on_progress {n}" for n in (1, 2, 3)]


def test_c67_a_callback_that_raises_or_blocks_delays_no_call(target: Any) -> None:
    free, inside = threading.Event(), threading.Event()

    def on_log(message: Any) -> None:
        inside.set()
        free.wait(WAIT)
        raise RuntimeError("on purpose")

    with minimcp.connect(target, revision="2025-06-18", on_log=on_log) as client:
        client.call_tool("log", LOG)
        assert inside.wait(WAIT)
        for n in range(20):
            assert client.call_tool("echo", {"text": str(n)}).text == str(n)
        free.set()
        assert client.call_tool("echo", {"text": "after"}).text == "after"


# ---------------------------------------------------------------- close


@pytest.mark.requirement("LIFE-25", "LIFE-27")
@pytest.mark.parametrize("revision", ERAS)
def test_close_ends_what_waits_and_refuses_what_comes_later(scripted: Script, revision: str) -> None:
    server = scripted(instructions="Be kind.")
    client = server.connect(revision)
    futures = [client.submit(client.call_tool, "hold", timeout=NEVER) for _ in range(10)]
    server.heard("tools/call", 10)
    client.close()
    assert {type(future.exception(WAIT)) for future in futures} == {ConnectionLost}
    client.close()
    for later in (
        lambda: client.call_tool("echo"), lambda: client.call_tools([("echo", {})]), client.list_tools, client.ping,
        lambda: client.request("x"), lambda: client.notify("notifications/x"), lambda: client.set_log_level("info"),
        lambda: client.submit(client.call_tool, "echo").result(WAIT),
    ):  # fmt: skip
        with pytest.raises(ConnectionLost, match="closed"):
            later()
    with pytest.raises(ConnectionLost), client:
        client.ping()
    notices = [notice["params"]["requestId"] for notice in server.messages("notifications/cancelled")]
    assert sorted(notices) == sorted(call["id"] for call in server.messages("tools/call"))
    assert "closed" in repr(client) and (client.revision, client.instructions) == (revision, "Be kind.")
    assert client.server_info and client.server_info.name == "scripted" and client.stderr_tail == ""


@pytest.mark.requirement("LIFE-26")
def test_c68_close_from_several_threads_at_once(scripted: Script) -> None:
    server = scripted()
    client = server.connect()
    in_threads(8, lambda index: client.close())
    assert len(server.journal("eof")) == 1


@pytest.mark.parametrize("begun", [True, False])
def test_c68_close_ends_every_waiter_and_races_calls_that_begin(target: Any, begun: bool) -> None:
    """However far a call has come, it ends with the loss, once."""
    client, started, running, ended = minimcp.connect(target), threading.Barrier(21), threading.Semaphore(0), []

    def work(index: int) -> None:
        started.wait(WAIT)
        if index == 20:
            for _ in range(20 * begun):
                assert running.acquire(timeout=WAIT)
            return client.close()
        try:
            client.call_tool("slow", {"seconds": 60}, timeout=None, on_progress=lambda progress: running.release())
        except ConnectionLost:
            ended.append(index)

    in_threads(21, work)
    assert sorted(ended) == list(range(20))


@pytest.mark.parametrize("where", ["on_log", "on_tools_changed", "on_progress"])
def test_c68_close_from_a_callback(target: Any, where: str) -> None:
    """A call ends: with the loss, or with its answer where that had come already."""
    done = threading.Event()

    def close(*ignored: Any) -> None:
        client.close()
        done.set()

    options: Any = {} if where == "on_progress" else {where: close}
    client = minimcp.connect(target, revision="2025-06-18", **options)
    try:
        if where == "on_progress":
            assert client.call_tool("count", {"n": 1000}, on_progress=close).text == "1000"
        client.call_tool("log", LOG)
        client.call_tool("grow", {"name": "more"})
    except ConnectionLost:
        pass
    assert done.wait(WAIT)
    client.close()


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
    """Calls whose answer and whose timeout come together: one outcome each, nothing left over."""
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
        assert sum(outcomes.values()) == 16 * (CALLS // 64) and outcomes["timed out"] > 0
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert "0 outgoing" in repr(client)


def test_an_exception_in_the_block_closes_and_passes(scripted: Script) -> None:
    server = scripted()
    with pytest.raises(ZeroDivisionError):
        with server.connect() as client:
            raise ZeroDivisionError
    with pytest.raises(ConnectionLost):
        client.ping()
    server.happened("eof")


@pytest.mark.parametrize("closed", [False, True])
def test_a_client_that_is_collected_while_open_warns(scripted: Script, closed: bool) -> None:
    server = scripted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = server.connect()
        client.call_tool("echo")
        if closed:
            client.close()
        del client
        gc.collect()
        assert eventually(lambda: bool(server.journal("eof")))
    kinds = [one.category for one in caught if "close" in str(one.message) or "Client" in str(one.message)]
    assert kinds == [ResourceWarning] * (not closed)


# ---------------------------------------------------------------- both are ours

PARTING = """
import sys, minimcp
server = minimcp.Server("parting", limits=minimcp.Limits(drain_grace=600, message_bytes=100_000))

def note(text):
    with open(sys.argv[1], "a") as journal:
        journal.write(text + "\\n")

@server.tool
def sleep(ctx: minimcp.Context) -> None:
    "Sleep as a tool should."
    note("asleep")
    try:
        ctx.sleep(600)
    except minimcp.Cancelled:
        note("cancelled")
        raise

@server.tool
def length(size: int) -> str:
    "Give a text of this length."
    return "x" * size

server.run()
note("done")
"""


@pytest.mark.parametrize("revision", ERAS)
def test_a_server_of_ours_ends_when_its_client_closes_and_limits_are_errors_at_once(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setattr(connecting, "CLOSE_SECONDS", NEVER)  # it has to go by itself
    (tmp_path / "journal").touch()
    command = minimcp.StdioServer([sys.executable, "-S", "-c", PARTING, str(tmp_path / "journal")], cwd=str(ROOT))
    client = minimcp.connect(command, revision=revision, timeout=NEVER, limits=Limits(message_bytes=200_000))
    with pytest.raises(minimcp.InternalError, match="100000 bytes.*Limits.message_bytes"):
        client.call_tool("length", {"size": 100_001})
    with pytest.raises(minimcp.InvalidRequest, match="100000 bytes.*Limits.message_bytes"):
        client.call_tool("length", {"size": 1, "more": "x" * 100_000})
    with minimcp.connect(command, revision=revision, timeout=NEVER, limits=Limits(message_bytes=10_000)) as narrow:
        with pytest.raises(minimcp.ProtocolViolation, match="10000 bytes.*Limits.message_bytes"):
            narrow.call_tool("length", {"size": 50_000})
        assert narrow.call_tool("length", {"size": 1000}).text == "x" * 1000

    def notes() -> List[str]:
        return (tmp_path / "journal").read_text("utf-8").split()

    calls = [InThread(client.call_tool, "sleep") for _ in range(3)]
    assert eventually(lambda: notes() == ["done"] + ["asleep"] * 3)
    client.close()
    assert {type(call.ended()) for call in calls} == {ConnectionLost}
    assert notes() == ["done"] + ["asleep"] * 3 + ["cancelled"] * 3 + ["done"]


# ---------------------------------------------------------------- fork


def in_fork(check: Any) -> str:
    """Run `check` in a forked process and hand over the text that it returns; no clean-up there."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons dislike a fork beside threads
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(int(WAIT))
            os.close(reading)
            try:
                text = str(check())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(pid, 0)
    return text


@pytest.mark.parametrize("revision", ERAS)
def test_after_a_fork_the_child_has_no_connection_and_the_parents_goes_on(scripted: Script, revision: str) -> None:
    server, again = scripted(), scripted()

    def check() -> str:
        kinds = []
        for call in (lambda: client.call_tool("echo", timeout=1), client.list_tools, client.ping):
            try:
                call()
            except Exception as error:
                kinds.append(type(error).__name__)
        client.close()
        client.__exit__(None, None, None)
        with again.connect(revision) as own:
            return " ".join([*kinds, own.call_tool("echo", {"text": "mine"}, timeout=WAIT).text])

    with server.connect(revision) as client:
        call = InThread(client.call_tool, "reverse", {"calls": 2, "number": 1}, timeout=NEVER)
        server.heard("tools/call")
        before = server.methods()
        assert in_fork(check) == "ConnectionLost ConnectionLost ConnectionLost mine"
        assert server.methods() == before and server.journal("eof") == []
        client.call_tool("reverse", {"calls": 2, "number": 2}, timeout=NEVER)
        assert call.ended().text == "1"


# ---------------------------------------------------------------- C68: interpreters that end with a client open

HEAD = f"""
import gc, os, sys, threading
import minimcp
from minimcp import ConnectionLost, Limits, Server
begun = threading.Event()
def memory():
    server = Server("m", version="1", limits=Limits(drain_grace=0.2))
    for tool in (echo, hold, wait_for):
        server.tool(tool)
    return server
def echo(text: str) -> str:
    "Give the text back."
    return text
def hold(name: str) -> str:
    "Never return."
    begun.set()
    threading.Event().wait()
def wait_for(name: str, what: str) -> str:
    "Return when hold has begun."
    return "begun" if begun.wait({WAIT}) else "it has not"
client = minimcp.connect(memory() if sys.argv[1] == "memory" else {STDIO!r})
assert client.call_tool("echo", {{"text": "x"}}).text == "x"
"""

ENDINGS = {
    "left open": "",
    "closed twice at exit": "import atexit; atexit.register(client.close); client.close()",
    "collected": "del client; gc.collect()",
    "waiting in a thread": (
        "threading.Thread(target=lambda: client.call_tool('hold', {'name': 'x'}), daemon=True).start()\n"
        "client.call_tool('wait_for', {'name': 'x', 'what': 'begin'})"  # a call that begins later is told of the end
    ),
    "in a cycle at sys.exit": (
        "class Knot: pass\nknot = Knot(); knot.me, knot.client = knot, client; del client, knot\n"
        "gc.collect(); sys.exit(0)"
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_c68_the_interpreter_ends(where: str, ending: str) -> None:
    done = run_python(["-S", "-W", "always", "-c", HEAD + ENDINGS[ending], where], seconds=WAIT)
    told = done.stderr.decode()
    assert done.returncode == 0, told
    assert "Fatal Python error" not in told and "Exception in thread" not in told, told
    if ending == "collected":
        assert "ResourceWarning" in told
