"""A server whose tools start processes in every way that Python has.

Called with one argument, a JSON object: "transport" is "stdio" or "http", "name" is the tool's
executor (None or "main").
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import minimcp  # noqa: E402

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
server = minimcp.Server("children", limits=minimcp.Limits(drain_grace=0.2))
EXECUTOR = OPTIONS.get("executor")
KEPT: list[Any] = []
LONG = 600.0
# Not Python, because its KeyboardInterrupt is lost inside a callback of the garbage collector.
CODE = ': > "$0"; exec sleep "$1"'


def work(path: str, seconds: float) -> int:
    """The work of a child: show that it runs, and last."""
    Path(path).touch()
    end = time.monotonic() + seconds
    # A signal that arrives between Python's check for signals and the system call interrupts no
    # sleep, so the steps are short. After a step the child has to look for signals itself: after a
    # fork in another thread than the main one, the interpreter of CPython 3.13.0 does not.
    while time.monotonic() < end:
        time.sleep(min(0.05, seconds))
        signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return 7


def _forked(path: str, seconds: float, **options: Any) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work(path, seconds)
        finally:
            os._exit(0)
    return pid


def _process(method: str, daemon: bool, path: str, seconds: float) -> int:
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=work, args=(path, seconds), daemon=daemon)
    process.start()
    KEPT.append(process)
    return int(process.pid)


def _pool(method: str, path: str, seconds: float) -> int:
    before = _started()
    pool: Any = multiprocessing.get_context(method).Pool(1)
    KEPT.append((pool, pool.apply_async(work, (path, seconds))))
    (pid,) = _started() - before
    return pid


def _executor(method: str, path: str, seconds: float) -> int:
    before = _started()
    executor: Any = ProcessPoolExecutor(1, multiprocessing.get_context(method))
    KEPT.append((executor, executor.submit(work, path, seconds)))
    (pid,) = _started() - before
    return pid


def _started() -> set[int]:
    """The processes of `multiprocessing` that run."""
    return {int(child.pid) for child in multiprocessing.active_children() if child.pid}


def _subprocess(path: str, seconds: float, **options: Any) -> int:
    command = ["sh", "-c", CODE, path, str(seconds)]
    KEPT.append(subprocess.Popen(command, **options))
    return int(KEPT[-1].pid)


WAYS: dict[str, Callable[[str, float], int]] = {
    "os.fork": _forked,
    "subprocess": _subprocess,
    "subprocess, preexec_fn": lambda *work: _subprocess(*work, preexec_fn=os.getpid),
}
for method in ("fork", "spawn", "forkserver"):
    for daemon in (True, False):
        WAYS[f"{method}{', daemon' * daemon}"] = lambda *work, method=method, daemon=daemon: (
            _process(method, daemon, *work)
        )
    WAYS[f"{method} Pool"] = lambda *work, method=method: _pool(method, *work)
    WAYS[f"{method} ProcessPoolExecutor"] = lambda *work, method=method: _executor(method, *work)


@server.tool(executor=EXECUTOR)
def start(way: str, path: str, seconds: float = LONG) -> int:
    """Start a child, and return its process id when it runs."""
    pid = WAYS[way](path, seconds)
    while not os.path.exists(path):
        time.sleep(0.005)
    return pid


@server.tool(executor=EXECUTOR)
def end(pid: int) -> str:
    """Wait for the end of the last child, and return how it ended."""
    kept = KEPT.pop() if KEPT else None
    if kept is None:
        return str(-os.waitpid(pid, 0)[1])
    if isinstance(kept, subprocess.Popen):
        return str(kept.wait())
    if not isinstance(kept, tuple):
        kept.join()
        return str(kept.exitcode)
    pool, result = kept
    if isinstance(pool, ProcessPoolExecutor):
        with pool:
            try:
                return str(result.result())
            except BrokenProcessPool:
                return "broken"
    with pool:
        # A pool replaces a worker that was killed; its job is lost.
        while pid in _started():
            if result.ready():
                return str(result.get())
            time.sleep(0.005)
        return "replaced"


@server.tool(executor=EXECUTOR)
def first_of_three() -> int:
    """Return the first result, and terminate the workers that are not done."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return next(pool.imap_unordered(_after, [0, LONG, LONG]))


def _after(seconds: float) -> int:
    time.sleep(seconds)
    return 7


@server.tool(executor=EXECUTOR)
def terminate_at_once(count: int) -> list[int]:
    """Terminate children at the moment they start."""
    codes = []
    for _ in range(count):
        process: Any = multiprocessing.get_context("fork").Process(target=time.sleep, args=(LONG,))
        process.start()
        process.terminate()
        process.join()
        codes.append(process.exitcode)
    return codes


@server.tool(executor=EXECUTOR)
def handlers() -> dict[str, list[str]]:
    """The signal handlers of this process and of a forked child, and their wake-up descriptors."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps([*_handlers(), signal.set_wakeup_fd(-1)]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    found = json.loads(os.read(reading, 65536))
    os.close(reading)
    os.close(writing)
    return {"here": _handlers(), "child": [str(each) for each in found]}


def _handlers() -> list[str]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    names = [
        str(int(handler)) if isinstance(handler, signal.Handlers) else handler.__name__
        for handler in map(signal.getsignal, numbers)
    ]
    return [*names, str(list(signal.pthread_sigmask(signal.SIG_BLOCK, ())))]


@server.tool(executor=EXECUTOR)
def return_in_a_child() -> int:
    """Return from the tool in a forked child, too; what became of the child."""
    pid = os.fork()
    return os.waitpid(pid, 0)[1] if pid else 0


@server.tool(executor=EXECUTOR)
def connection_in_a_child() -> str:
    """Return the errors in a forked child that calls `run` of its parent's server, and uses its
    parent's connection."""
    with minimcp.connect(minimcp.Server("other")) as client:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                client.ping()
                said = "an answer"
            except minimcp.ConnectionLost as error:
                said = str(error)
            own = minimcp.Server("own")
            own.tool(start)
            with minimcp.connect(server) as inner:  # created before the fork
                said += f"; {len(inner.list_tools())} tools"
            os.write(writing, said.encode())
            os._exit(0)
        os.waitpid(pid, 0)
        client.ping()
    said = os.read(reading, 65536).decode()
    os.close(reading)
    os.close(writing)
    return said


# ---------------------------------------------------------------- code that takes signals


@server.tool(executor=EXECUTOR)
def loop(number: int) -> str:
    """Run an event loop that has a handler of this signal, as far as a thread may."""

    async def main() -> str:
        try:
            asyncio.get_running_loop().add_signal_handler(number, int)
        except (RuntimeError, ValueError) as error:
            return type(error).__name__
        await asyncio.sleep(0)
        return "added"

    return asyncio.run(main())


@server.tool(executor=EXECUTOR)
def reset() -> str:
    """Take the wake-up descriptor away."""
    try:
        return str(signal.set_wakeup_fd(-1) >= 0)
    except ValueError as error:
        return type(error).__name__


@server.tool(executor=EXECUTOR)
def reset_and_wait(path: str) -> None:
    """Take it away, and wait forever."""
    signal.set_wakeup_fd(-1)
    Path(path).touch()
    while True:
        time.sleep(LONG)


if __name__ == "__main__":
    os.setpgrp()
    if OPTIONS["transport"] == "stdio":
        server.run()
    else:
        server.run("http", port=0)
