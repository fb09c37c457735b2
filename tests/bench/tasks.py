"""``python -m tests.bench.tasks``: 1,000 tasks at once, the same with a SIGKILL in the middle, a
client in a hurry, and a store that is nearly full.

It prints the cost of a task that has not started and of one that waits for input, the time until
the next process on the same store finds the tasks of a killed process, and the time of a call next
to a client that polls a task as fast as it can. No time is asserted. The exit status is 1 if a task
is lost or ends without a reason.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from statistics import median
from typing import Any, List, Optional

from minimcp import Context, MemoryStore, Server, SqliteStore, Store, Tasks, connect
from minimcp.extensions.task_runner import LEASE_SECONDS, LOST
from minimcp.stores.base import store_key

from ..support import WAIT, eventually, status_of

TASKS, HOLDING = 1000, 64
HELLO = {"name": "Ada"}


def made(store: Optional[Store] = None, go: Optional[threading.Event] = None) -> Server:
    server = Server("thousand", extensions=[Tasks(store, poll_interval=0.02)])

    @server.tool(task="required")
    def work(number: int, ctx: Context, seconds: float = 0.1) -> str:
        """Work; every other task asks for a name."""
        ctx.sleep(seconds)
        return (
            str(number)
            if number % 2
            else f"{number} {ctx.elicit('Who?', {'name': str}).require()['name']}"
        )

    @server.tool(task="required")
    def hold() -> str:
        """Hold a thread of the pool until the others have been counted."""
        assert go is not None and go.wait(10 * WAIT)
        return "held"

    @server.tool
    def quick() -> str:
        """Return."""
        return "quick"

    return server


def resident() -> int:
    """Return the memory of this process in bytes."""
    return status_of(os.getpid(), "VmRSS") * 1024


def thousand() -> bool:
    """Run all tasks in one process."""
    go = threading.Event()
    with connect(made(go=go), extensions=[Tasks()], elicit=lambda asked: HELLO) as client:
        held = [client.start_task("hold") for _ in range(HOLDING)]
        threads, memory, began = threading.active_count(), resident(), time.monotonic()
        tasks = [client.start_task("work", {"number": number}) for number in range(TASKS)]
        seconds, each = time.monotonic() - began, (resident() - memory) / TASKS
        print(f"{TASKS} tasks were made in {seconds:.2f} s; one that has not begun holds {each / 1000:.1f} kB "
              f"and {(threading.active_count() - threads) / TASKS:g} threads")  # fmt: skip
        go.set()
        for task in held:
            task.wait()
        asking = TASKS // 2
        states: List[Any] = []

        def all_ask() -> bool:
            states[:] = [
                client.request("tasks/get", {"taskId": task.id})["status"] for task in tasks
            ]
            return states.count("input_required") == asking

        assert eventually(all_ask, 10 * WAIT), Counter(states)
        waiting = (resident() - memory) / asking
        print(f"{asking} of them wait for input: {threading.active_count() - threads} threads more than before, "
              f"{waiting / 1000:.0f} kB each")  # fmt: skip
        began = time.monotonic()
        texts = {task.result(10 * WAIT).text for task in tasks}
        print(f"{len(texts)} different results came in {time.monotonic() - began:.1f} s")
        return len(texts) == TASKS


def die(path: str) -> None:
    """Create the tasks on a store, print their ids, and be killed in the middle."""
    with connect(
        made(SqliteStore(path)), extensions=[Tasks()], elicit=lambda asked: HELLO
    ) as client:
        tasks = [
            client.start_task("work", {"number": each, "seconds": each % 50 / 10})
            for each in range(TASKS)
        ]
        finished = 0
        while finished < TASKS // 4:
            finished = sum(task.refresh() == "completed" for task in tasks[1::2])
        print(" ".join(task.id for task in tasks), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def killed() -> bool:
    """Return whether a new process finds the tasks in the store of a killed process."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tasks.db")
        ended = subprocess.run(
            [sys.executable, "-m", __spec__.name, path], stdout=subprocess.PIPE, check=False
        )
        ids = ended.stdout.decode().split()
        store = SqliteStore(path)
        with connect(made(store), extensions=[Tasks()]) as client:

            def states() -> Counter[str]:
                found = [client.request("tasks/get", {"taskId": id}) for id in ids]
                return Counter(
                    "lost" if one.get("statusMessage") == LOST else one["status"] for one in found
                )

            print(
                f"killed with {len(ids)} tasks, of which the next process finds at first: {dict(states())}"
            )
            time.sleep(LEASE_SECONDS)
            last = states()
            results = sum("result" in client.request("tasks/get", {"taskId": id}) for id in ids)
            print(f"and when its lease is over: {dict(last)}, {results} results")
        store.close()
        return (
            len(ids) == TASKS
            and set(last) == {"completed", "lost"}
            and results == last["completed"]
        )


def hurried(seconds: float = 3.0) -> bool:
    """Let one client poll as fast as it can while another one calls."""
    go, took, looks = threading.Event(), list[float](), 0
    server = made(go=go)
    with (
        server.start_http() as running,
        connect(running.url, extensions=[Tasks()]) as one,
        connect(running.url) as two,
    ):
        task, stop = one.start_task("hold"), threading.Event()

        def call() -> None:
            while not stop.is_set():
                began = time.monotonic()
                two.call_tool("quick")
                took.append(time.monotonic() - began)

        for is_asked in (False, True):
            took.clear()
            stop.clear()
            calling = threading.Thread(target=call)
            calling.start()
            end = time.monotonic() + seconds
            while is_asked and time.monotonic() < end:
                task.refresh()
                looks += 1
            stop.wait(max(0.0, end - time.monotonic()))
            stop.set()
            calling.join()
            beside = (
                f"beside {looks / seconds:.0f} looks at a task a second" if is_asked else "alone"
            )
            print(
                f"a call over HTTP takes {median(took) * 1000:.1f} ms {beside}, {max(took) * 1000:.0f} ms at most"
            )
        go.set()
        return task.result(WAIT).text == "held"


def full(owners: int = 8, each: int = 500, rounds: int = 50) -> bool:
    """Return whether creating a task next to 4,000 stored tasks of 16 kB is as fast as next to none."""
    go = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        places = {"memory": MemoryStore(), "sqlite": SqliteStore(os.path.join(folder, "tasks.db"))}
        for name, store in places.items():
            with connect(made(store, go), extensions=[Tasks()]) as client:
                took = {}
                for stored in (0, owners * each):
                    for number in range(stored):
                        owner = "-" if number % owners == 0 else str(number % owners)
                        key = store_key((), "thousand", "task", owner, f"stored {number}")
                        store.put(key, b"x" * 16_000, 3600)
                    seconds = []
                    for _ in range(rounds):
                        began = time.monotonic()
                        client.start_task("hold")
                        seconds.append(time.monotonic() - began)
                    took[stored] = f"{median(seconds) * 1000:.1f} ms beside {stored} tasks"
                print(f"creating a task takes {' and '.join(took.values())} in {name}")
                go.set()
    return True


if __name__ == "__main__":
    if len(sys.argv) > 1:
        die(sys.argv[1])
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors")
    sys.exit(0 if all([thousand(), killed(), hurried(), full()]) else 1)
