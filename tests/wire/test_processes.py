"""A server whose tools start processes. It ends when its input ends or a signal arrives, and at no
other time, whatever these processes do."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

import minimcp

from ..support import WAIT, each_pair, eventually
from .harness import HERE, RawServer

SCRIPT = HERE / "servers" / "children.py"
URL = re.compile(r"serves at (http://\S+)")
STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

METHODS = ["fork", "spawn", "forkserver"]
PROCESSES = [f"{method}{daemon}" for method in METHODS for daemon in ("", ", daemon")]
POOLS = [f"{method} Pool" for method in METHODS]
EXECUTORS = [f"{method} ProcessPoolExecutor" for method in METHODS]
PLAIN = ["os.fork", "subprocess", "subprocess, preexec_fn"]


class Served:
    """A server of `children.py` and a way to call its tools."""

    def __init__(self, transport: str, executor: Any, stack: ExitStack) -> None:
        self.transport = transport
        self.raw = RawServer(script=SCRIPT, transport=transport, executor=executor)
        stack.callback(self.raw.dispose)
        if transport == "stdio":
            self.raw.initialize("2025-06-18")
        else:
            assert eventually(lambda: URL.search(self.raw.stderr())), self.raw.stderr()
            self._client = minimcp.connect(
                URL.search(self.raw.stderr())[1], timeout=WAIT, revision="2025-06-18"
            )
            stack.callback(self._client.close)

    def call(self, tool: str, **arguments: Any) -> Any:
        """The value of a tool."""
        if self.transport == "http":
            return self._client.call_tool(tool, arguments).value
        found = self.raw.call(tool, arguments)
        assert not found.get("isError"), found
        value = found.get("structuredContent", {"result": found["content"][0]["text"]})
        return value.get("result", value)

    def lives(self) -> None:
        """It answers."""
        if self.transport == "http":
            self._client.ping()
        else:
            assert self.raw.fence() == []

    def stop(self, how: Any) -> int:
        """Stop it by a signal, or None by the end of its input; the exit code."""
        if how is None:
            self.raw.close_input()
        else:
            self.raw.signal(how)
        code = self.raw.exit()
        log = self.raw.stderr()
        for sign in ("Fatal Python error", "Exception ignored"):
            assert sign not in log, log
        return code


Serving = Callable[..., Served]


@pytest.fixture
def serving() -> Iterator[Serving]:
    with ExitStack() as stack:
        yield lambda transport, executor=None: Served(transport, executor, stack)


@pytest.fixture
def gone() -> Iterator[List[int]]:
    """Processes that a test started, which are killed at its end."""
    pids: List[int] = []
    yield pids
    for pid in pids:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while its file is read
        return False


def _state_of(pid: int) -> str:
    """The state and the signal masks of a process, for the message of a test that fails."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return ", ".join(each for each in lines if each.startswith(("State", "Sig", "PPid")))


transports = pytest.mark.parametrize("transport", ["stdio", "http"])

ENDINGS = {
    "normally": None,
    "terminate": signal.SIGTERM,
    "kill": signal.SIGKILL,
    "SIGINT": signal.SIGINT,
    "SIGHUP": signal.SIGHUP,
}


def expected(way: str, ending: str) -> str:
    """Return the text that a child prints at its end."""
    if ending == "normally":
        return "7" if way in POOLS + EXECUTORS else "0"
    if way in EXECUTORS:
        return "broken"
    if way in POOLS:
        return "replaced"
    if way == "os.fork" and ending == "SIGINT":
        return "0"  # KeyboardInterrupt, and then os._exit(0)
    if ending == "SIGINT" and way in PROCESSES:
        return "1"  # KeyboardInterrupt
    return str(-int(ENDINGS[ending]))  # type: ignore[call-overload]


@transports
@pytest.mark.parametrize(
    "ways", [PLAIN + PROCESSES, POOLS, EXECUTORS], ids=["one", "pools", "executors"]
)
def test_a_child_ends_and_the_server_continues(
    serving: Serving, transport: str, ways: List[str], tmp_path: Path
) -> None:
    """Each way to start a child with each way in which it ends."""
    served = serving(transport)
    found, wanted = {}, {}
    for way in ways:
        if transport == "http" and "spawn" in way:
            continue
        for ending, number in ENDINGS.items():
            if number in (signal.SIGINT, signal.SIGHUP) and way not in (
                "os.fork",
                "fork",
                "subprocess",
            ):
                continue  # a worker of a pool continues with its next job
            path = tmp_path / f"{way} {ending}"
            pid = served.call(
                "start", way=way, path=str(path), seconds=0.0 if number is None else 600.0
            )
            if number is not None:
                os.kill(pid, number)
                assert eventually(lambda pid=pid: not runs(pid)), f"{path.name}: {_state_of(pid)}"
            found[way, ending] = served.call("end", pid=pid)
            wanted[way, ending] = expected(way, ending)
            served.lives()
    assert found == wanted
    assert served.stop(signal.SIGTERM) == 0


# Every way to start a child with two endings, and some of the ways with each of the others.
ENDS = [
    *[
        (transport, how, ways)
        for transport, how in (("stdio", None), ("http", signal.SIGTERM))
        for ways in (PLAIN + PROCESSES, POOLS + EXECUTORS)
    ],
    *[
        (transport, how, ["subprocess", "fork", "fork, daemon", "fork Pool", EXECUTORS[0]])
        for transport in ("stdio", "http")
        for how in STOPS
        if (transport, how) != ("http", signal.SIGTERM)
    ],
]


@pytest.mark.parametrize("transport, how, ways", ENDS)
def test_the_server_ends_though_its_children_do_not(
    serving: Serving, transport: str, how: Any, ways: List[str], tmp_path: Path, gone: List[int]
) -> None:
    served = serving(transport)
    for way in ways:
        gone.append(served.call("start", way=way, path=str(tmp_path / way)))
    assert served.stop(how) == 0
    # What `multiprocessing` has started does not outlive the server.
    left = [pid for way, pid in zip(ways, gone) if way not in PLAIN]
    assert eventually(lambda: not any(map(runs, left)))


@transports
@pytest.mark.parametrize("executor", [None, "main"])
def test_a_pool_that_is_terminated(serving: Serving, transport: str, executor: Any) -> None:
    served = serving(transport, executor)
    assert served.call("first_of_three") == 7
    assert set(served.call("terminate_at_once", count=30)) == {-signal.SIGTERM}
    served.lives()
    assert served.stop(signal.SIGTERM) == 0


@transports
@pytest.mark.parametrize("executor", [None, "main"])
def test_a_forked_child_has_the_previous_handlers(
    serving: Serving, transport: str, executor: Any
) -> None:
    found = serving(transport, executor).call("handlers")
    assert found["child"] == ["default_int_handler", "0", "0", "[]", "-1"]
    assert found["here"] == ["_on_signal"] * 3 + ["[]"]


@transports
@pytest.mark.parametrize("executor", [None, "main"])
def test_a_handler_that_returns_in_a_forked_child_answers_nothing(
    serving: Serving, transport: str, executor: Any
) -> None:
    served = serving(transport, executor)
    assert served.call("return_in_a_child") == 0
    served.lives()
    assert served.stop(signal.SIGTERM) == 0


@transports
def test_connections_and_servers_in_a_forked_child(serving: Serving, transport: str) -> None:
    said = serving(transport).call("connection_in_a_child")
    assert said.endswith("; 10 tools") and "belongs to the parent process" in said, said


@transports
def test_ctrl_c_reaches_the_whole_process_group(
    serving: Serving, transport: str, tmp_path: Path, gone: List[int]
) -> None:
    served = serving(transport)
    for way in ("fork", "fork Pool", "spawn", "subprocess"):
        gone.append(served.call("start", way=way, path=str(tmp_path / way)))
    os.killpg(served.raw.process.pid, signal.SIGINT)
    assert served.raw.exit() == 0
    assert eventually(lambda: not any(map(runs, gone)))


@pytest.mark.parametrize(
    "number, transport, executor", each_pair(STOPS, ["stdio", "http"], [None, "main"])
)
def test_code_that_takes_the_signals(
    serving: Serving, transport: str, executor: Any, number: int
) -> None:
    """After an event loop with a handler, and without its wake-up descriptor, a signal still ends a
    server, and nothing else does."""
    served = serving(transport, executor)
    added = "added" if executor else "ValueError"
    assert served.call("loop", number=number) in (added, "RuntimeError")
    assert served.call("reset") == ("True" if executor else "ValueError")
    served.lives()
    assert served.stop(number) == 0


@pytest.mark.parametrize("number", STOPS)
def test_a_signal_while_the_wake_up_descriptor_is_away(
    serving: Serving, number: int, tmp_path: Path
) -> None:
    served, path = serving("stdio", "main"), tmp_path / "begun"
    served.raw.begin_call("reset_and_wait", {"path": str(path)})
    assert eventually(path.exists)
    served.raw.signal(number)
    served.raw.rest()
    assert served.raw.exit() == 1  # the handler does not return


@transports
def test_a_killed_server_leaves_no_daemon_that_holds_its_output(
    serving: Serving, transport: str, tmp_path: Path, gone: List[int]
) -> None:
    """The host sees the end of stdout, although a forked child still runs."""
    served = serving(transport)
    gone.append(served.call("start", way="fork", path=str(tmp_path / "begun")))
    served.raw.signal(signal.SIGKILL)
    if transport == "stdio":
        assert served.raw.rest() == []
    assert served.raw.exit() == -signal.SIGKILL and runs(gone[0])
