"""Waiting for a process without looking again and again, and its group."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from typing import List

import pytest
from minimcp.stdio.process import Process

from minimcp.engine.transport import Bell
from minimcp.stdio import process as process_module

from ..support import WAIT, child_processes, eventually
from .ends import Task

SLEEP = [sys.executable, "-I", "-S", "-c", "import time\ntime.sleep(60)"]


def start(command: List[str]) -> Process:
    bell = Bell()
    try:
        return Process(command, dict(os.environ), None, (0, 2, 2), bell)
    finally:
        bell.ring()


@pytest.fixture(params=["pidfd", "thread", "refused"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two ways of waiting; the second also where the system knows the first and refuses it."""
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif request.param == "refused":

        def refuse(pid: int) -> int:
            raise OSError(errno.EPERM, "not here")

        monkeypatch.setattr(os, "pidfd_open", refuse, raising=False)
    return str(request.param)


def test_waiting_for_the_end(way: str) -> None:
    process = start(SLEEP)
    assert process.returncode is None
    assert not process.wait(0)
    assert not process.wait(0.02)
    waiting = [Task(process.wait, WAIT) for _ in range(3)]
    process.terminate()
    assert [each.result() for each in waiting] == [True] * 3
    assert process.returncode == -signal.SIGTERM
    process.release()
    assert process.wait(0)
    process.release()


def test_the_end_of_everything(way: str) -> None:
    process = start(SLEEP)
    process.end()
    assert process.returncode == -signal.SIGKILL
    assert process.pid not in child_processes()
    process.terminate()  # There is no such group any more.
    process.end()


def test_a_process_that_does_not_end_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_module, "END_SECONDS", 0.01)
    process = start(SLEEP)
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda group, number: None)
        process.end()
    assert "left behind" in caplog.text
    process.kill()
    assert eventually(lambda: process.returncode == -signal.SIGKILL)


def test_without_a_thread_to_wait_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        start(SLEEP)
    assert child_processes() == frozenset()


def test_a_fork_only_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    process = start(SLEEP)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(WAIT)
    process._popen.poll()
    other = start(SLEEP)
    for each in (process, other):
        assert each._exit is not None
        each.abandon()
        each._exit.bell.abandon()
    assert other.returncode == 0, "a fork never asks for it"
    other.kill()
    os.waitpid(other.pid, 0)


def test_what_is_drained_may_be_empty_ended_or_gone() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    assert process_module._drain(reading)
    os.write(writing, b"x")
    assert process_module._drain(reading)
    os.close(writing)
    assert not process_module._drain(reading)
    os.close(reading)
    assert not process_module._drain(reading)
