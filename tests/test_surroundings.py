"""Places from which programs use the library: in an event loop, in a pool, in one line, at exit.

Elsewhere: forked processes and clients that are left open at the end
(tests/unit/test_connection.py, tests/unit/test_client.py), copies under another name on a bare
interpreter (tests/cli/test_vendor.py).
Under gevent: ``python -m tests.surroundings.under_gevent``, with gevent.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Client, Server

from .support import ROOT, WAIT, run_python
from .surroundings.scene import SERVER, connect, make_server, play

PLACES: Dict[str, Callable[[], Any]] = {"memory": make_server, "stdio": lambda: SERVER}


@pytest.fixture(params=PLACES)
def target(request: pytest.FixtureRequest) -> Any:
    """A server, in this process or as one of its own."""
    return PLACES[request.param]()


@pytest.fixture
def client(target: Any) -> Iterator[Client]:
    with connect(target) as client:
        yield client


# ---------------------------------------------------------------- a loop that runs


def test_in_a_coroutine_everything_blocks_and_works(target: Any) -> None:
    async def main() -> None:
        with connect(target) as client:
            play(client)

    asyncio.run(main())


def test_calls_in_threads_do_not_stop_an_event_loop() -> None:
    """The tool waits for what the loop does only while the call waits."""
    server, ticked = make_server(), threading.Event()

    @server.tool
    def wait_for_the_loop() -> bool:
        """Wait until the loop has done something."""
        return ticked.wait(WAIT)

    async def main(client: Client) -> None:
        waiting = asyncio.ensure_future(asyncio.to_thread(client.call_tool, "wait_for_the_loop"))
        texts = [str(number) for number in range(20)]
        calls = [asyncio.to_thread(client.call_tool, "echo", {"text": text}) for text in texts]
        assert [result.text for result in await asyncio.gather(*calls)] == texts
        ticked.set()
        assert (await waiting).value is True

    with connect(server) as client:
        asyncio.run(main(client))


def test_the_future_of_a_submitted_call_can_be_awaited_and_cancelled(client: Client) -> None:
    async def main() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()
        result = await asyncio.wrap_future(
            client.submit(client.call_tool, "echo", {"text": "awaited"})
        )
        assert result.text == "awaited"
        future = client.submit(
            client.call_tool,
            "hold",
            on_progress=lambda report: loop.call_soon_threadsafe(begun.set),
        )
        task = asyncio.ensure_future(asyncio.wait_for(asyncio.wrap_future(future), WAIT))
        await asyncio.wait_for(begun.wait(), WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.cancelled()

    asyncio.run(main())
    client.ping()


def test_a_handler_may_run_a_loop_and_call_from_it() -> None:
    inner, server = make_server(), Server("outer")

    @server.tool
    def gathered(texts: List[str]) -> List[str]:
        """Call another server, several times at once, from an event loop of its own."""

        async def main(client: Client) -> List[str]:
            calls = [asyncio.to_thread(client.call_tool, "echo", {"text": text}) for text in texts]
            return [result.text for result in await asyncio.gather(*calls)]

        with connect(inner) as client:
            return asyncio.run(main(client))

    with connect(server) as client:
        assert client.call_tool("gathered", {"texts": ["a", "b"]}).value == ["a", "b"]


SERVE_IN_A_LOOP = """
import asyncio, signal, sys
from tests.surroundings.scene import make_server
async def main():
    before = signal.getsignal(signal.SIGINT)
    ticks = []
    asyncio.get_running_loop().call_soon(ticks.append, 1)
    make_server().run()
    assert not ticks, "run() blocks the loop"
    await asyncio.sleep(0)
    assert ticks and signal.getsignal(signal.SIGINT) is before
    print("on")  # stdout is ours again
asyncio.run(main())
"""


def test_a_server_may_run_in_a_coroutine_and_leaves_the_loop_as_it_was() -> None:
    with minimcp.connect(
        [sys.executable, "-c", SERVE_IN_A_LOOP], cwd=ROOT, elicit=lambda _: {"name": "Ada"}
    ) as client:
        play(client)
    done = run_python(["-c", SERVE_IN_A_LOOP])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"on\n", b"")


# ---------------------------------------------------------------- pools


def test_a_pool_shares_a_client_and_makes_others(target: Any) -> None:
    def own(number: int) -> str:
        with connect(target) as client:
            return client.call_tool("echo", {"text": str(number)}).text

    with connect(target) as client, ThreadPoolExecutor(8) as pool:
        shared = pool.map(
            lambda number: client.call_tool("echo", {"text": str(number)}).text, range(200)
        )
        assert list(shared) == [str(number) for number in range(200)]
        assert list(pool.map(own, range(2))) == ["0", "1"]


def test_a_pool_of_processes_makes_clients_of_its_own() -> None:
    """They are forked while our threads run."""
    program = (
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from tests.surroundings.scene import SERVER, connect, make_server\n"
        "def own(number):\n"
        "    with connect(SERVER if number % 2 else make_server()) as client:\n"
        "        return client.call_tool('echo', {'text': str(number)}).text\n"
        "if __name__ == '__main__':\n"
        "    with connect(make_server()) as client, ProcessPoolExecutor(2, get_context('fork')) as pool:\n"
        "        print(*pool.map(own, range(2)), client.call_tool('echo', {'text': 'mine'}).text)\n"
    )
    done = run_python(["-W", "ignore::DeprecationWarning", "-c", program], seconds=3 * WAIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0 1 mine\n", b"")


# ---------------------------------------------------------------- one line


@pytest.mark.parametrize("line", ["print({}.text)", "result = {}; print(result.text)"])
def test_a_client_in_one_line(line: str) -> None:
    call = "connect(SERVER).call_tool('echo', {'text': 'hello'})"
    done = run_python(["-c", "from tests.surroundings.scene import *; " + line.format(call)])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"hello\n", b"")


def test_a_server_in_one_line() -> None:
    line = "import minimcp; s = minimcp.Server('line'); s.tool(lambda: 'hello', name='hi', description='Hi.'); s.run()"
    with minimcp.connect([sys.executable, "-W", "error", "-c", line], cwd=ROOT) as client:
        assert client.call_tool("hi").text == "hello"
        assert client.stderr_tail == ""


# ---------------------------------------------------------------- the end of the interpreter

END = """
import atexit, sys, threading
from concurrent.futures import ThreadPoolExecutor
from minimcp import McpError, RequestTimeout
from tests.surroundings.scene import SERVER, connect, make_server
place = {"memory": make_server, "stdio": lambda: SERVER}[sys.argv[1]]
client = connect(place())
lines = []
def ending(call):
    try:
        return call()
    except McpError as error:
        return type(error).__name__
"""


def last_words(done: "subprocess.CompletedProcess[bytes]") -> List[str]:
    """Check that a program succeeded, and return its output lines.

    Python 3.12 starts no thread after the main thread has ended. Then a server in the same process
    uses its existing threads, and logs that.
    """
    said = done.stderr.decode().splitlines()
    complaints = [line for line in said if "new thread at interpreter shutdown" not in line]
    assert (done.returncode, complaints) == (0, [])
    assert not said or sys.version_info[:2] == (3, 12)
    return done.stdout.decode().splitlines()


UNDER_WAY = (
    END
    + """
def under_way(name, call):
    lines.append(f"{name} {ending(call)}")
def steps():
    return client.call_tool("steps", {"n": 20}).text
pool = ThreadPoolExecutor(4)
for number in range(3):
    pool.submit(under_way, "pool", steps)
pool.submit(under_way, "pool", lambda: client.call_tool("hold", timeout=0.2))
threading.Thread(target=under_way, args=("thread", steps)).start()
atexit.register(lambda: print(*sorted(lines), sep="\\n"))
lines.append("main ends")
"""
)


@pytest.mark.parametrize("place", PLACES)
def test_calls_that_pools_and_threads_make_are_waited_for_at_the_end(place: str) -> None:
    assert last_words(run_python(["-W", "error", "-c", UNDER_WAY, place])) == [
        "main ends",
        "pool 20",
        "pool 20",
        "pool 20",
        "pool RequestTimeout",
        "thread 20",
    ]


AT_EXIT = (
    END
    + """
def good_bye():
    print(client.call_tool("echo", {"text": "bye"}).text)
    print(client.call_tool("steps", {"n": 20}).text)
    print(ending(lambda: client.call_tool("hold", timeout=0.1)))
    print(*[result.text for result in client.call_tools([("echo", {"text": str(n)}) for n in range(5)])])
    print(ending(lambda: connect(place()).call_tool("echo", {"text": "new"}).text))
atexit.register(good_bye)
"""
)


@pytest.mark.parametrize("place", PLACES)
def test_a_client_still_calls_at_the_end_and_a_new_one_connects_or_says_why_not(place: str) -> None:
    *lines, new = last_words(run_python(["-c", AT_EXIT, place]))
    assert lines == ["bye", "20", "RequestTimeout", "0 1 2 3 4"]
    assert new == "new" or (new == "ConnectionFailed" and sys.version_info[:2] == (3, 12))


LEFT_WAITING = (
    END
    + """
begun = threading.Event()
def wait(timeout):
    ending(lambda: client.call_tool("hold", timeout=timeout, on_progress=lambda report: begun.set()))
pool = ThreadPoolExecutor(1)
threading.Thread(target=wait, args=(None,), daemon=True).start()
assert begun.wait(10)
future = client.submit(client.call_tool, "hold", timeout=None)
atexit.register(client.close)
"""
)


@pytest.mark.parametrize("place", PLACES)
def test_calls_without_an_end_on_our_threads_hold_no_interpreter(place: str) -> None:
    assert last_words(run_python(["-W", "error", "-c", LEFT_WAITING, place])) == []


def test_ctrl_c_in_a_loop_ends_a_call_that_blocks_it() -> None:
    program = (
        "import asyncio, os, signal\n"
        "from tests.surroundings.scene import connect, make_server\n"
        "async def main():\n"
        "    with connect(make_server()) as client:\n"
        "        strike = lambda report: os.kill(os.getpid(), signal.SIGINT)\n"
        "        client.call_tool('hold', on_progress=strike, timeout=0.5)\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "except (KeyboardInterrupt, TimeoutError) as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = run_python(["-c", program])
    assert (done.returncode, done.stderr) == (0, b"")
    # From Python 3.11 on a loop takes the first Ctrl-C for its task, which cannot end before its
    # call does.
    assert done.stdout in (b"KeyboardInterrupt\n", b"RequestTimeout\n")
