"""Fixtures for every test, and a check that each test leaves nothing behind.

pytest's own plugins turn what reaches `threading.excepthook` and `sys.unraisablehook` into
warnings, and setup.cfg turns every warning into a failure: tests/test_conftest.py shows that both
work.
MINIMCP_SWITCH_INTERVAL (seconds) sets the interpreter's switch interval for the whole run,
MINIMCP_LONGEST the time limit of a test.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import Any, Generator, Iterator, List, Set, TextIO

import pytest

from .support import (
    KEPT,
    KEPT_THREADS,
    ROOT,
    WAIT,
    Held,
    eventually,
    held,
    stacks_of_threads,
    usual_signals,
)

SETTLE = 10.0
"""Seconds that the threads, descriptors and children of a test may need to end after it."""


HANG_LOG = pytest.StashKey[TextIO]()
MANIFEST_LINE = pytest.StashKey[str]()
"""How many rows of the specification are tested; left here by tests/test_requirements.py."""


# Hypothesis writes notes even without an example database. Keep them out of the repository.
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "minimcp-hypothesis")
)


LONGEST = float(os.environ.get("MINIMCP_LONGEST", 30.0))
"""Seconds that a test may take, and its fixtures before and after it; more on a busy machine
(`_slowdown`). A test that takes longer fails with the stacks of all threads, and the run continues.
The mark `limit` grants more time."""

AGAIN = 10.0
"""Seconds until a test that continued after its interruption is interrupted again."""

STUCK = 4
"""Multiple of the limit after which the process ends if its main thread cannot be interrupted, or
if the system is Windows, which has no timers."""


class TookTooLong(BaseException):
    """A test exceeded its limit. Library code that handles every `Exception` does not handle it."""


def pytest_configure(config: pytest.Config) -> None:
    """Set the switch interval that the environment asks for, keep a file for reports of hanging
    tests, and allow bytecode.

    If Python is configured to write no bytecode, each of the hundreds of child processes would
    compile the library, and each worker would compile all tests. So they share a folder that git
    ignores, and the next run uses it too.
    """
    usual_signals()
    gc.disable()  # until all tests are collected: they are many objects, and none is garbage
    os.environ["MINIMCP_TOKENS"] = os.path.join(
        tempfile.gettempdir(), "minimcp-no-such-folder", "tokens.json"
    )
    config.stash[HANG_LOG] = os.fdopen(os.dup(2), "w")
    interval = os.environ.get("MINIMCP_SWITCH_INTERVAL")
    if interval:
        sys.setswitchinterval(float(interval))
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and os.access(ROOT, os.W_OK):
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".cache" / "bytecode")
        sys.dont_write_bytecode = False
        if not hasattr(config, "workerinput"):
            passing = sys.pycache_prefix + os.path.realpath(
                tempfile.gettempdir()
            )  # what tests have written themselves
            config.add_cleanup(partial(shutil.rmtree, passing, ignore_errors=True))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _slowdown() -> float:
    """Return how many times longer a test may take on this machine now, which may be busy.

    MINIMCP_LONGEST is kept to the second.
    """
    if "MINIMCP_LONGEST" in os.environ:
        return 1.0
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(1.0, busy), STUCK - 1)


@contextmanager
def _limited(item: pytest.Item, when: str) -> Iterator[None]:
    """Raise `TookTooLong` in the main thread when this part of a test exceeds its limit."""
    marker = item.get_closest_marker("limit")
    seconds = LONGEST if marker is None else max(LONGEST, marker.args[0])
    exceeded = TookTooLong(f"{when} took longer than {seconds:g} s; see the stacks of its threads")
    has_timer = hasattr(signal, "setitimer")
    fired = False

    begun = time.monotonic()

    def interrupt(number: int, frame: Any) -> None:
        nonlocal fired
        if not fired:
            left = seconds * _slowdown() - (time.monotonic() - begun)
            if left > 0:
                signal.setitimer(signal.ITIMER_REAL, left, AGAIN)
                return
            fired = True
            item.add_report_section(when, "stacks of all threads", stacks_of_threads())
        raise exceeded

    faulthandler.dump_traceback_later(
        STUCK * seconds if has_timer else seconds, exit=True, file=item.config.stash[HANG_LOG]
    )
    if has_timer:
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        if has_timer:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
    if fired:  # the test has swallowed it
        raise exceeded


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item, "setup"):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item, "call"):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with _limited(item, "teardown"):
        yield


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[HANG_LOG].close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In one of several processes of a run: hand the count of the manifest to the first."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and MANIFEST_LINE in session.config.stash:
        output["manifest"] = session.config.stash[MANIFEST_LINE]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In that first process: take it."""
    line = getattr(node, "workeroutput", {}).get("manifest")
    if line is not None:
        node.config.stash[MANIFEST_LINE] = line


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Captured text may hold lone surrogates, which would not get from one process to another."""
    report = (yield).get_result()
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the count of the manifest, passed or failed."""
    if MANIFEST_LINE in config.stash:
        terminalreporter.write_line(config.stash[MANIFEST_LINE])


@pytest.fixture(autouse=True, scope="session")
def time_for_last_words() -> Iterator[None]:
    """Give each connection or stream that ends more time for its last messages, because a busy
    machine may need it.

    Tests of an expired grace period set these times themselves.
    """
    from minimcp.client import subscriptions
    from minimcp.engine import connection as channel, pool

    with pytest.MonkeyPatch.context() as patch:
        for name in ("FLUSH_ON_CLOSE_SECONDS", "READER_CAUSE_SECONDS", "CLOSE_SECONDS"):
            patch.setattr(channel, name, WAIT)
        patch.setattr(subscriptions, "UNSUBSCRIBE_SECONDS", WAIT)
        patch.setattr(pool, "IDLE_SECONDS", 0.2)
        yield


@pytest.fixture(autouse=True, scope="session")
def folder_for_pytest_in_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give each pytest that a test runs a folder of its own. Otherwise it would first delete the old
    folders of all runs on this machine, which can take a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DEBUG_TEMPROOT", str(tmp_path_factory.mktemp("pytest")))
        yield


def _left_behind(before: Held) -> List[str]:
    now, then = held().named(), before.named()
    opened, closed = now - then - KEPT, then - now
    return [
        *opened.elements(),
        *(f"closed, though not the test's own: {what}" for what in closed.elements()),
    ]


GROWN = re.compile(r"(minimcp-.+)-\d+|minimcp-timer")
"""A thread of a pool, or the timer. They start on demand, as the scheduler decides."""


def _has_user(pool: str, readers: Set[str]) -> bool:
    """Return whether a connection existed before whose handlers run in a pool. All connections of a
    server share one pool."""
    return pool == "minimcp-client" or any(name.startswith(f"{pool}-") for name in readers)


def _begun_since(before: Held) -> Set[threading.Thread]:
    """Return the threads of the test. Threads of connections that existed before belong to those
    connections, whenever they start."""
    readers = {
        thread.name for thread in before.threads if thread.name.endswith(("-reader", "-accept"))
    }
    found = ((thread, GROWN.fullmatch(thread.name)) for thread in threading.enumerate())
    new = {
        thread
        for thread, match in found
        if not match or (match[1] and not _has_user(match[1], readers))
    }
    return new - before.threads - KEPT_THREADS


def _after_settling(before: Held) -> List[str]:
    """Wait until threads, descriptors and children have ended, and return the differences from
    before."""
    end = time.monotonic() + SETTLE
    while True:
        threads = _begun_since(before)
        found = [f"thread {thread.name}" for thread in threads] + _left_behind(before)
        if not found or time.monotonic() >= end:
            return found
        for thread in threads:  # a thread that ends may start another
            # it may only just have started
            eventually(lambda thread=thread: thread.ident is not None)
            thread.join(max(0.0, end - time.monotonic()))
        if not threads:
            eventually(lambda: not _left_behind(before), max(0.0, end - time.monotonic()))


@pytest.fixture(autouse=True, scope="module")
def leaves_nothing_to_the_next_file() -> Iterator[None]:
    """Check that the fixtures of a file release everything before the next file begins.

    Any file may come next, in any worker process.
    """
    before = held()
    yield
    KEPT.clear()
    KEPT_THREADS.clear()
    left = _after_settling(before) if held() != before else ()
    if left:
        pytest.fail("left behind by the file: " + "; ".join(left), pytrace=False)


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a thread, a descriptor or a child process behind.

    A fixture of wider scope that opens resources during a test does so inside
    `support.outlives_the_test`.
    """
    KEPT.clear()
    KEPT_THREADS.clear()
    before = held()
    yield
    left = _after_settling(before) if held() != before else ()
    if left:
        pytest.fail("left behind: " + "; ".join(left), pytrace=False)
    from minimcp.log import exit_gate

    if not exit_gate.wait(SETTLE):
        pytest.fail("left behind: a handler or a callback that still runs", pytrace=False)
