"""The fixture that watches every test is itself watched: each kind of leak fails a test, and
nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

from .support import ROOT, run_python

SUITE = """
import gc, os, subprocess, sys, threading
import tests.conftest
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

def test_last():
    release.set()
    children[0].communicate()
"""

EXPECTED = {
    "test_thread": "thread left-over",
    "test_thread_of_no_connection": "thread minimcp-y-2",
    "test_descriptor": "left behind: descriptor on /dev/null",
    "test_descriptor_in_the_place_of_another": "; closed, though not the test's own: descriptor on /dev/null",
    "test_closed_of_others": "left behind: closed, though not the test's own: descriptor on /dev/null",
    "test_child": "child process",
    "test_thread_that_raises": "ZeroDivisionError",
    "test_unraisable": "ValueError: odd",
}


def test_each_kind_of_leak_fails_the_test_that_made_it(tmp_path: Path) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE, encoding="utf-8")
    done = run_python(
        [
            "-m",
            "pytest",
            "-p",
            "tests.conftest",
            "-c",
            str(ROOT / "setup.cfg"),
            "--rootdir",
            str(tmp_path),
        ]
        + ["-p", "no:cov", "-p", "no:hypothesispytest", str(suite)],
        seconds=240,
    )
    printed = done.stdout.decode()
    failed = set(re.findall(r"^(?:ERROR|FAILED) \S*::(\w+)", printed, re.MULTILINE))
    assert done.returncode == 1, printed
    # the last test closes what an earlier one opened, and is told so
    assert failed - {"test_last"} == set(EXPECTED), printed
    for words in EXPECTED.values():
        assert words in printed, printed
