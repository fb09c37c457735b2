"""The fixture that watches every test is tested itself: each kind of leak fails a test, and nothing
else does."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Set, Tuple

import pytest

from .support import ROOT, WAIT, run_python

SUITE = """
import gc, os, subprocess, sys, threading
import tests.conftest
from minimcp.log import exit_gate
from tests.support import outlives_the_test

release = threading.Event()
place, folder = os.open(os.devnull, os.O_RDONLY), os.open(os.curdir, os.O_RDONLY)

def test_clean():
    thread = threading.Thread(target=release.wait, args=(0.05,))
    thread.start()

def test_thread():
    tests.conftest.SETTLE = 0.2  # from here on nothing goes away by itself
    threading.Thread(target=release.wait, daemon=True, name="left-over").start()

def test_descriptor():
    os.open(os.devnull, os.O_RDONLY)

def test_descriptor_in_the_place_of_another():
    os.dup2(folder, place)

def test_closed_of_others():
    os.close(min(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.islink("/proc/self/fd/" + fd)
                 and os.readlink("/proc/self/fd/" + fd) == os.devnull and int(fd) > 2))

def test_kept_for_a_wider_scope():
    with outlives_the_test():
        os.open(os.devnull, os.O_RDONLY)

def test_connection_that_is_kept():
    with outlives_the_test():
        for name in ("minimcp-x-reader", "minimcp-shop-memory-reader"):
            threading.Thread(target=release.wait, daemon=True, name=name).start()

def test_connection_that_grows():
    for name in ("minimcp-x-2", "minimcp-shop-2"):
        threading.Thread(target=release.wait, daemon=True, name=name).start()

def test_thread_of_no_connection():
    for name in ("minimcp-y-2", "minimcp-x-reader"):
        threading.Thread(target=release.wait, daemon=True, name=name).start()

children = []

def test_child():
    children.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_thread_that_raises():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join(10)

def test_unraisable():
    class Odd:
        def __del__(self):
            raise ValueError("odd")
    Odd()
    gc.collect()

def run_a_handler():
    with exit_gate:
        release.wait()

handlers = [threading.Thread(target=run_a_handler, daemon=True)]

def test_handler():
    with outlives_the_test():
        handlers[0].start()

def test_last():
    release.set()
    children[0].communicate()
    handlers[0].join()
"""

EXPECTED = {
    "test_thread": "thread left-over",
    "test_thread_of_no_connection": "thread minimcp-y-2",
    "test_descriptor": "left behind: descriptor on /dev/null",
    "test_descriptor_in_the_place_of_another": "; closed, though not the test's own: descriptor on /dev/null",
    "test_closed_of_others": "left behind: closed, though not the test's own: descriptor on /dev/null",
    "test_child": "child process",
    "test_handler": "left behind: a handler or a callback that still runs",
    "test_thread_that_raises": "ZeroDivisionError",
    "test_unraisable": "ValueError: odd",
}


LONG_SUITE = """
import os, signal, threading
import pytest

never = threading.Event()

@pytest.fixture
def slow_to_begin():
    never.wait()

@pytest.fixture
def slow_to_end():
    yield
    never.wait()

def test_waits():
    never.wait()

def waits_beside():
    never.wait(20)

def test_joins():
    thread = threading.Thread(target=waits_beside, daemon=True, name="the-other-one")
    thread.start()
    try:
        thread.join()
    except Exception:
        pass
    finally:
        never.set()
        thread.join()
        never.clear()

def test_swallows():
    try:
        never.wait()
    except BaseException:
        pass

def test_begins_late(slow_to_begin):
    pass

def test_ends_late(slow_to_end):
    pass

def test_short():
    pass

@pytest.mark.limit(60, "it shows that a test may take longer")
def test_may_take_longer():
    never.wait(5)

def test_has_signals_of_its_own():
    got = []
    before = signal.signal(signal.SIGTERM, lambda *_: got.append(1))
    os.kill(os.getpid(), signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)
    assert got == [1]

def test_forks():
    pid = os.fork()
    if not pid:
        never.wait(5)  # a child has no timer
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

test_forks = pytest.mark.limit(60, "it waits for a child")(test_forks)
"""


def run_suite(
    tmp_path: Path, code: str, *options: str, longest: float = 30.0
) -> Tuple[str, Set[str]]:
    """Run a file of tests, of which some fail, under this suite's conftest; return what pytest
    printed, and the names of these tests."""
    suite = tmp_path / "test_suite.py"
    suite.write_text(code, encoding="utf-8")
    plugins = ["-p", "tests.conftest", "-p", "no:cov", "-p", "no:hypothesispytest"]
    where = ["-c", str(ROOT / "setup.cfg"), "--rootdir", str(tmp_path)]
    done = run_python(
        ["-m", "pytest", *plugins, *where, *options, str(suite)],
        env={"MINIMCP_LONGEST": str(longest)},
        seconds=4 * WAIT,
    )
    printed = done.stdout.decode()
    assert done.returncode == 1, printed + done.stderr.decode()
    return printed, set(re.findall(r"^(?:ERROR|FAILED) \S*::(\w+)", printed, re.MULTILINE))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs the timers of POSIX")
@pytest.mark.limit(90, "it runs tests that wait until they are interrupted")
@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two"])
def test_a_test_that_takes_too_long_fails_without_the_others(
    tmp_path: Path, options: Tuple[str, ...]
) -> None:
    printed, failed = run_suite(tmp_path, LONG_SUITE, *options, longest=2.0)
    assert failed == {
        "test_waits",
        "test_joins",
        "test_swallows",
        "test_begins_late",
        "test_ends_late",
    }, printed
    assert "thread the-other-one:" in printed and "in waits_beside" in printed, printed
    for when in ("setup", "call", "teardown"):
        assert f"TookTooLong: {when} took longer than 2 s" in printed, printed
    assert "5 passed" in printed, printed  # one of them ended late


@pytest.mark.limit(90, "it waits for what tests leave behind")
def test_each_kind_of_leak_fails_the_test_that_made_it(tmp_path: Path) -> None:
    printed, failed = run_suite(tmp_path, SUITE)
    # the last test closes the resource of an earlier one, and fails for that
    assert failed - {"test_last"} == set(EXPECTED), printed
    for words in EXPECTED.values():
        assert words in printed, printed
