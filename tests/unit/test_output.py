"""`Outlet`: which lines it writes, queues and drops; which files have one; and standard streams
that never block."""

from __future__ import annotations

import fcntl
import gzip
import io
import logging
import os
import queue
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from functools import partial
from logging.handlers import MemoryHandler, QueueListener
from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple

import pytest

from minimcp import log
from minimcp.engine import output
from minimcp.engine.output import Outlet, descriptor_of, never_blocking, open_outlet

from ..support import WAIT, eventually

LINE = b"x" * 99 + b"\n"


@pytest.fixture
def pipe() -> Iterator[Tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def read(number: int, size: int) -> bytes:
    """Read this many bytes of a pipe."""
    found = b""
    while len(found) < size:
        assert select.select([number], [], [], WAIT)[0], f"{len(found)} of {size} bytes came"
        found += os.read(number, size - len(found))
    return found


def until(number: int, end: bytes) -> bytes:
    """The bytes of a pipe up to these."""
    found = b""
    while not found.endswith(end):
        found += read(number, 1)
    return found


def no_thread() -> bool:
    return eventually(
        lambda: "minimcp-output" not in [thread.name for thread in threading.enumerate()]
    )


def test_text_that_fits_a_pipe_is_written_at_once(pipe: Tuple[int, int]) -> None:
    outlet = Outlet(pipe[1])
    assert outlet.writable() and outlet.fileno() == pipe[1] and not outlet.isatty()
    assert outlet.write(b"one\n") == 4 and outlet.write(b"") == 0
    assert read(pipe[0], 4) == b"one\n"
    assert os.get_blocking(pipe[1]), "others share the open file"


def test_the_rest_is_queued_in_order_and_dropped_lines_are_counted(
    pipe: Tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_WAITING_BYTES", 300_000)
    outlet = Outlet(pipe[1])
    for _ in range(10_000):
        assert outlet.write(LINE) == len(LINE)
    outlet.write(b"without an end")
    in_pipe = struct.unpack("i", fcntl.ioctl(pipe[0], termios.FIONREAD, b"1234"))[0]
    outlet.drain(0.0)
    begin = read(pipe[0], in_pipe + 300_000 - len(LINE))
    outlet.drain(WAIT)
    outlet.write(b"again\n")
    found = begin + until(pipe[0], b"again\n")
    kept = len(found) - len(b"again\n")
    assert found == LINE * (kept // len(LINE)) + b"again\n" and no_thread()
    assert kept <= in_pipe + 300_000


def test_a_line_says_how_many_were_dropped(
    pipe: Tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_WAITING_BYTES", 1000)
    outlet = Outlet(pipe[1])
    big = LINE * 10_000
    outlet.write(big)
    size = 0
    while select.select([pipe[0]], [], [], 0)[0] and size < 8192:
        size += len(os.read(pipe[0], 8192 - size))
    for _ in range(100):  # they fill the room in the pipe, and then the queue
        outlet.write(LINE)
    words = b" lines were dropped here"
    found = until(pipe[0], words)
    assert int(found[: -len(words)].rpartition(b" ")[2]) > 5000
    until(pipe[0], LINE)
    assert no_thread()


def test_a_reader_that_has_left_is_not_an_error() -> None:
    reading, writing = os.pipe()
    outlet = Outlet(writing)
    os.close(reading)
    assert outlet.write(LINE) == len(LINE)
    os.close(writing)
    with pytest.raises(OSError):
        Outlet(writing)


def test_a_write_that_would_block_after_all(
    pipe: Tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has filled the pipe since it was polled."""
    outlet, write, refused = Outlet(pipe[1]), os.write, list[bytes]()

    def full_once(number: int, data: bytes) -> int:
        if number == outlet.own and not refused:
            refused.append(data)
            raise BlockingIOError
        return write(number, data)

    monkeypatch.setattr(os, "write", full_once)
    assert outlet.write(LINE) == len(LINE) and refused == [LINE]
    assert read(pipe[0], len(LINE)) == LINE and no_thread()


def test_without_a_thread_it_tries_again(
    pipe: Tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = Outlet(pipe[1])

    def refuse(thread: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        outlet.write(LINE * 5000)
    assert no_thread()
    outlet.write(b"last\n")
    assert read(pipe[0], 500_005).endswith(b"last\n") and no_thread()


def test_a_forked_process_begins_with_an_empty_queue(pipe: Tuple[int, int]) -> None:
    outlet = Outlet(pipe[1])
    outlet.write(LINE * 5000)
    pid = os.fork()
    if pid == 0:
        begun = time.monotonic()
        outlet.drain(WAIT)  # which returns at once
        os._exit(0 if no_thread() and time.monotonic() - begun < WAIT / 2 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert read(pipe[0], 500_000) == LINE * 5000 and no_thread()


def test_sockets_terminals_and_pipes_that_cannot_be_opened_again(
    pipe: Tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = socket.socketpair()
    with here, there:
        Outlet(here.fileno()).write(b"one\n")
        assert there.recv(10) == b"one\n"
    ours, theirs = os.openpty()
    terminal = Outlet(theirs)
    assert terminal.isatty()
    os.close(ours)
    os.close(theirs)
    assert not terminal.isatty(), "the number may be another file's by now"

    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    Outlet(pipe[1]).write(b"two\n")
    assert read(pipe[0], 4) == b"two\n"


FILES: List[Tuple[Callable[[Path], Any], bool]] = [
    (partial(open, mode="w"), True),
    (partial(open, mode="w+"), True),
    (partial(open, mode="wb"), True),
    (partial(open, mode="wb", buffering=0), True),
    (partial(gzip.open, mode="wt"), False),
    (partial(gzip.open, mode="wb"), False),
    (lambda path: io.StringIO(), False),
]


@pytest.mark.parametrize("opened, has_descriptor", FILES)
def test_files_with_a_descriptor(
    opened: Callable[[Path], Any], has_descriptor: bool, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    with opened(path) as file:
        assert (descriptor_of(file) >= 0) == has_descriptor
        outlet = open_outlet(file)
        assert (outlet is not None) == has_descriptor
        if outlet is None:
            return
        file.write(b"mine, " if "b" in getattr(file, "mode", "") else "mine, ")
        second = open_outlet(file)
        assert second is not None
        second.write(b"ours")
    assert path.read_bytes() == b"mine, ours"
    assert descriptor_of(file) == -1 and open_outlet(file) is None, "it is closed"


def test_a_file_whose_flush_fails_has_no_outlet(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    file = open(writing, "wb", buffering=100, closefd=True)  # noqa: SIM115
    file.write(b"x")
    assert open_outlet(file) is None
    with pytest.raises(OSError):
        file.close()


# ------------------------------------------------------------ standard streams


def standard(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`sys.stderr` as an interpreter makes it, until the end of the test."""
    binary = open(2, "wb", closefd=False)  # noqa: SIM115
    stream = io.TextIOWrapper(binary, "utf-8", "backslashreplace", line_buffering=True)
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_stderr_and_handlers_of_logging_never_block(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    found = standard(monkeypatch)
    logger, handler = logging.getLogger("tests.output"), logging.StreamHandler(found)
    other = logging.StreamHandler(io.StringIO())
    logger.handlers = [handler, other]
    logger.propagate = False
    try:
        with never_blocking("stdout", "stderr"):
            ours: Any = sys.stderr
            assert isinstance(ours.buffer, Outlet) and (ours.fileno(), ours.errors) == (
                2,
                "backslashreplace",
            )
            assert handler.stream is ours and other.stream is not ours
            print("printed \udcff", file=sys.stderr)
            logger.warning("logged")
        assert sys.stderr is handler.stream is found
    finally:
        logger.handlers, logger.propagate = [], True
    assert capfd.readouterr().err == "printed \\udcff\nlogged\n"


def test_handlers_that_belong_to_no_logger_never_block_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue's listener and a buffer pass records to handlers that only they know."""
    found = standard(monkeypatch)
    inner = [logging.StreamHandler(found) for _ in range(3)]
    listener = QueueListener(queue.Queue(), inner[0])
    buffered = MemoryHandler(1, target=inner[1])
    loose = logging.Logger("tests.loose")
    loose.addHandler(inner[2])
    with never_blocking("stderr"):
        assert [each.stream for each in inner] == [sys.stderr] * 3 != [found] * 3
        assert listener.handlers == (inner[0],) and buffered.target is inner[1]
    assert [each.stream for each in inner] == [found] * 3


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1)])
def test_its_descriptor_is_never_a_standard_one(closed: Tuple[int, ...]) -> None:
    """A server inspects 0 and 1 later, and must find that they are closed."""
    code = f"""
import os, sys
from minimcp.engine.output import Outlet
for number in {closed}:
    os.close(number)
outlets = [Outlet(2), Outlet(2)]
outlets[1].write(repr([each.own > 2 for each in outlets]).encode())
"""
    made = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=WAIT, check=True
    )
    assert made.stderr == b"[True, True]"


def test_a_stream_that_was_replaced_is_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standard(monkeypatch)
    with never_blocking("stderr"):
        sys.stderr = other = io.StringIO()
    assert sys.stderr is other


def test_nothing_is_put_back_while_a_handler_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    standard(monkeypatch)
    gate = type(log.exit_gate)()
    monkeypatch.setattr(output, "exit_gate", gate)
    monkeypatch.setattr(output, "DRAIN_SECONDS", 0.01)
    with gate, never_blocking("stderr"):
        ours = sys.stderr
    assert sys.stderr is ours and gate.seconds == 0.0


def test_a_foreign_stderr_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (None, io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with never_blocking("stderr"):
            assert sys.stderr is stream


# ------------------------------------------------------------ the exit


def test_threads_stop_at_the_gate_when_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, stopped = type(log.exit_gate)(), threading.Event()
    inside, go = threading.Event(), threading.Event()
    found: List[str] = []

    class Stopping:
        """An event that is never set."""

        def wait(self) -> None:
            stopped.set()
            raise InterruptedError

    def work() -> None:
        with gate:
            inside.set()
            assert go.wait(WAIT)
            with gate:  # it is inside already
                found.append("through")

    def late() -> None:
        with suppress(InterruptedError), gate:
            found.append("late")

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(WAIT)
    gate.seconds = 0.0
    gate.close()
    monkeypatch.setattr(log, "threading", _Threading(Stopping))
    second = threading.Thread(target=late)
    second.start()
    second.join(WAIT)
    assert stopped.is_set() and not gate.wait(0.0)
    go.set()
    thread.join(WAIT)
    with gate:  # the main thread is not stopped
        found.append("main")
    assert found == ["through", "main"] and gate.wait(WAIT)


class _Threading:
    """The module with another `Event`."""

    def __init__(self, event: Any) -> None:
        self.Event = event

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


def test_an_outlet_does_not_become_a_standard_stream_that_was_closed(pipe: Tuple[int, int]) -> None:
    reading, writing = pipe
    stdin = os.dup(0)
    os.close(0)
    try:
        outlet = Outlet(writing)
        with pytest.raises(OSError):
            os.fstat(0)
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    assert outlet.own > 2 and outlet.write(LINE) == len(LINE)
    assert os.read(reading, 1000) == LINE
