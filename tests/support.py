"""Helpers for many tests: one limit for every wait, and a view of the resources that this process
holds."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

# It hides what threads do to buffered streams: no process of a test has it.
os.environ.pop("PYTHONUNBUFFERED", None)

WAIT = 25.0
"""Seconds. Every wait in the tests has this limit, which is long enough for slow machines: it fails
and never hangs."""

ROOT = Path(__file__).resolve().parent.parent
"""The top of the repository."""

_TICK = 0.01


def each_pair(
    first: Iterable[Any], second: Iterable[Any], third: Sequence[Any]
) -> List[Tuple[Any, Any, Any]]:
    """Return cases in which each two values of different sequences meet, without every combination
    of three.

    The third sequence must not be longer than the others.
    """
    rows = list(second)
    return [
        (one, two, third[(number + row) % len(third)])
        for number, one in enumerate(first)
        for row, two in enumerate(rows)
    ]


class MovedTime:
    """Replaces the module `time` in a file of the library, and is as far ahead of the real one as a
    test sets."""

    ahead = 0.0

    def monotonic(self) -> float:
        """Return the real time plus `ahead` seconds."""
        return time.monotonic() + self.ahead


def around(monkeypatch: Any, owner: Any, name: str, call: Callable[..., Any]) -> None:
    """Replace a method with a function that receives the original method before the arguments."""
    monkeypatch.setattr(owner, name, _with_original(getattr(owner, name), call))


def _with_original(original: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*arguments: Any, **options: Any) -> Any:
        return call(original, *arguments, **options)

    return called


def usual_signals() -> None:
    """Reset ignored signals, because a child would ignore them, too: nohup and shells start
    programs with such signals."""
    for name in ("SIGINT", "SIGHUP", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(
                number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
            )


def stacks_of_threads() -> str:
    """Return the stack of each thread of this process, the calling one last."""
    here = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda found: found[0] == here)
    return "\n".join(
        f"thread {names.get(number, number)}:\n" + "".join(traceback.format_stack(frame))
        for number, frame in frames
    )


def eventually(condition: Callable[[], object], seconds: float = WAIT) -> bool:
    """Poll `condition` until it is true. Return False if it is still false after `seconds`.

    Use it where no event exists (the kernel's tables, another process). Inside this process, wait
    for an event, a join or a future instead.
    """
    end, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        if time.monotonic() >= end:
            return False
        pause.wait(_TICK)  # never set, because no event exists
    return True


@contextmanager
def refused_port() -> Iterator[int]:
    """Yield a port of 127.0.0.1 that refuses connections, and that no other process can get."""
    with socket.socket() as bound:  # and never listening
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def open_descriptors() -> Dict[int, str]:
    """Return the target of each descriptor of this process; empty if the system has no /proc."""
    found = {}
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            found[int(name)] = os.readlink("/proc/self/fd/" + name)
        except OSError:
            pass  # the descriptor of the listing itself
    # The first import of ctypes opens this library of some systems, which keeps it open; a thread
    # that waits for a child opens its pidfd when it gets to that, and closes it before it ends: it
    # counts itself.
    return {
        number: target
        for number, target in found.items()
        if "/libffi." not in target and "[pidfd]" not in target
    }


def child_processes() -> FrozenSet[int]:
    """Process ids of our children, zombies included; empty where the system has no /proc."""
    return children_of(os.getpid()) if sys.platform == "linux" and _has_children() else frozenset()


def children_of(pid: int) -> FrozenSet[int]:
    """Process ids of a process's children, zombies included. Raises OSError: it has ended."""
    while True:
        found: Set[int] = set()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as listing:
                    found.update(int(child) for child in listing.read().split())
            return frozenset(found)
        except (FileNotFoundError, ProcessLookupError):
            if not os.path.exists(f"/proc/{pid}"):
                raise
            # a thread has just ended, so its children belong to another thread now: count all again


def descendants_of(pid: int) -> List[int]:
    """Return these with their descendants; empty if the process has ended."""
    with suppress(OSError):
        return [each for child in children_of(pid) for each in (child, *descendants_of(child))]
    return []


def status_of(pid: int, field: str) -> int:
    """A number of a process out of /proc: VmRSS and VmHWM (in kB), Threads."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        found = [line.split()[1] for line in file if line.startswith(field + ":")]
    assert found, f"the process {pid} has no {field} any more"
    return int(found[0])


def texts_kept_by(owner: object, prefix: str) -> Set[str]:
    """The strings with this prefix that an object keeps, wherever it keeps them."""
    found: Set[str] = set()
    seen: Set[int] = set()
    todo: List[object] = [owner]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, (ModuleType, FunctionType, type)):
            continue
        seen.add(id(each))
        if isinstance(each, str) and each.startswith(prefix):
            found.add(each)
        todo += gc.get_referents(each)
    return found


def _has_children() -> bool:
    """Return whether this process has children: one system call, because this runs after nearly
    every test."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class Held(NamedTuple):
    """Resources of this process that the next test must not inherit. Two values are equal if
    nothing was added, removed or moved."""

    threads: FrozenSet[threading.Thread]
    descriptors: Dict[int, str]
    children: FrozenSet[int]

    def named(self) -> "Counter[str]":
        """Descriptors and children in words, however they are numbered."""
        found = Counter(f"descriptor on {target}" for target in self.descriptors.values())
        found.update(f"child process {pid}" for pid in self.children)
        return found


def held() -> Held:
    threads = [
        thread for thread in threading.enumerate() if thread.name != "minimcp-timer"
    ]  # which remains once it has started
    return Held(frozenset(threads), open_descriptors(), child_processes())


KEPT: "Counter[str]" = Counter()
KEPT_THREADS: Set[threading.Thread] = set()
"""Resources that the running test opened for a fixture of a wider scope; emptied before each test."""


@contextmanager
def outlives_the_test() -> Iterator[None]:
    """Assign the resources that are opened inside to a module's or session's fixture, which closes
    them. They are not leaks of the test."""
    before = held()
    yield
    now = held()
    KEPT.update(now.named() - before.named())
    KEPT_THREADS.update(now.threads - before.threads)


def run_python(
    arguments: Sequence[str],
    *,
    cwd: Optional[Path] = None,
    env: Optional[Dict[str, str]] = None,
    stdin: bytes = b"",
    seconds: float = 2 * WAIT,
) -> "subprocess.CompletedProcess[bytes]":
    """Run this Python with `arguments` and a time limit. Return its exit code and output."""
    options: Dict[str, Any] = {"cwd": str(cwd or ROOT), "input": stdin, "timeout": seconds}
    if env is not None:
        options["env"] = {**os.environ, **env}
    return subprocess.run([sys.executable, *arguments], capture_output=True, **options)
