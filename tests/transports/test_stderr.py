"""A child's stderr: always taken, whoever gets it."""

from __future__ import annotations

import io
import logging
import os
import threading
from typing import Any, Callable, Iterator, List, Tuple

import pytest
from minimcp.stdio.stderr import Stderr, consumer_of

from minimcp.engine.transport import Bell, Source, close_quietly
from minimcp.stdio import stderr as stderr_module

from ..support import WAIT, eventually
from .ends import Task

Feed = Callable[..., Tuple[Stderr, Callable[[bytes], None], Callable[[], None]]]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Feed]:
    """Makes a Stderr for a consumer, a function that writes to it and one that ends it."""
    monkeypatch.setattr(stderr_module, "PATIENCE_SECONDS", WAIT)  # nothing is left out because the machine stood still
    made: List[Stderr] = []
    numbers: List[int] = []

    def make(wanted: Any) -> Tuple[Stderr, Callable[[bytes], None], Callable[[], None]]:
        reading, writing = os.pipe()
        numbers.append(writing)
        made.append(Stderr("test", Source(reading, Bell()), consumer_of(wanted)))

        def write(data: bytes) -> None:
            while data:
                data = data[os.write(writing, data) :]

        def end() -> None:
            numbers.remove(writing)
            os.close(writing)
            assert made[-1].wait(WAIT)
            made[-1].close(WAIT)

        return made[-1], write, end

    yield make
    for stderr in made:
        stderr.close(WAIT)
    for number in numbers:
        close_quietly(number)


def test_lines_for_a_callable(feed: Feed) -> None:
    lines: List[str] = []
    stderr, write, end = feed(lines.append)
    write(b"one\r\n\ntw")
    write("o \u00e9\u2028\n".encode() + b"\xff half")
    end()
    assert lines == ["one", "", "two \u00e9\u2028", "\ufffd half"]
    assert stderr.tail == "one\r\n\ntwo \u00e9\u2028\n\ufffd half"


def test_a_line_without_end_comes_in_pieces(feed: Feed) -> None:
    lines: List[str] = []
    _, write, end = feed(lines.append)
    write(b"x" * 1_000_000)
    end()
    assert "".join(lines) == "x" * 1_000_000
    assert len(lines) > 1


def test_lines_for_a_logger(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "test.stderr")
    _, write, end = feed(logging.getLogger("test.stderr"))
    write(b"100 % sure\nsecond\n")
    end()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "100 % sure"),
        ("INFO", "second"),
    ]


def test_text_and_binary_files(feed: Feed, tmp_path: Any) -> None:
    with open(tmp_path / "text", "w", encoding="utf-8", newline="") as text:
        _, write, end = feed(text)
        for byte in "\u00e9\r\n".encode() + b"\xc3":
            write(bytes([byte]))
        end()
        assert (tmp_path / "text").read_bytes() == "\u00e9\r\n\ufffd".encode()
    with open(tmp_path / "binary", "wb") as binary:
        _, write, end = feed(binary)
        write(b"\xff\r\n")
        end()
        assert (tmp_path / "binary").read_bytes() == b"\xff\r\n"
    target = io.StringIO()
    _, write, end = feed(target)
    write(b"in memory")
    end()
    assert target.getvalue() == "in memory"


def test_a_file_that_cannot_flush(feed: Feed) -> None:
    class Plain:
        def __init__(self) -> None:
            self.taken = b""

        def write(self, piece: bytes) -> None:
            self.taken += piece

    plain = Plain()
    _, write, end = feed(plain)
    write(b"x")
    end()
    assert plain.taken == b"x"


def test_our_own_stderr(feed: Feed, capfd: pytest.CaptureFixture[str]) -> None:
    _, write, end = feed(None)
    write(b"inherited\nhalf")
    end()
    assert capfd.readouterr().err == "inherited\nhalf"


def test_our_own_stderr_when_it_is_full_or_gone(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = os.dup(2)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        os.dup2(writing, 2)
        _, write, end = feed(None)
        arriving = Task(os.read, reading, 1)
        write(b"x" * 200_000)
        assert arriving.result() == b"x"
        taken = 1
        while taken < 200_000:
            taken += len(os.read(reading, 100_000))
        monkeypatch.setattr(stderr_module, "PATIENCE_SECONDS", 0.01)
        write(b"y" * 200_000)
        end()
        os.close(reading)
        _, write, end = feed(None)
        write(b"nobody reads")
        end()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(writing)


def test_a_consumer_that_raises_is_named_once(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    seen: List[str] = []

    def consume(line: str) -> None:
        seen.append(line)
        raise ValueError("no\nthanks")

    stderr, write, end = feed(consume)
    write(b"a\nb\n")
    assert eventually(lambda: len(seen) == 2)
    write(b"c\n")
    end()
    assert seen == ["a", "b", "c"]
    assert stderr.tail == "a\nb\nc\n"
    assert [record.getMessage() for record in caplog.records] == [
        "stderr of test: its consumer raised ValueError('no\\\\nthanks')"
    ]


def test_a_consumer_that_never_returns(
    feed: Feed, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stderr_module, "PATIENCE_SECONDS", 0.02)
    entered, gate = threading.Event(), threading.Event()

    def consume(line: str) -> None:
        entered.set()
        gate.wait(WAIT)

    stderr, write, _ = feed(consume)
    write(b"first\n")
    assert entered.wait(WAIT)
    for _ in range(20):
        write(b"x" * 65535 + b"\n")
    write(b"the end")
    assert eventually(lambda: stderr.tail.endswith("the end"))
    stderr.close(0.05)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "stderr of test: its consumer takes nothing, text is left out",
        "stderr of test: its consumer does not return, its thread is left behind",
    ]
    gate.set()


def test_what_an_ended_child_left_is_taken_at_once(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, gate = threading.Event(), threading.Event()
    lines: List[str] = []

    def consume(line: str) -> None:
        entered.set()
        gate.wait(WAIT)
        lines.append(line)

    monkeypatch.setattr(stderr_module, "PATIENCE_SECONDS", WAIT * 3)
    stderr, write, end = feed(consume)
    write(b"first\n")
    assert entered.wait(WAIT)
    for _ in range(4):
        write(b"x" * 65535 + b"\n")
    last = Task(write, b"y" * 65535 + b"\n" + b"the end")  # It waits for room while nobody hurries.
    stderr.wait(0)
    last.result()
    assert eventually(lambda: stderr.tail.endswith("the end"))
    gate.set()
    end()
    assert lines[0] == "first"
    assert lines[-1] == "the end"
    assert len(lines) == 7


def test_without_a_thread_for_the_consumer_the_tail_is_kept(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines: List[str] = []
    stderr, write, end = feed(lines.append)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        write(b"one\n")
        assert eventually(lambda: stderr.tail == "one\n" and caplog.records)
    write(b"two\n")
    end()
    assert lines == ["two"]
    assert stderr.tail == "one\ntwo\n"


def test_closing_while_the_other_end_is_held(feed: Feed) -> None:
    stderr, write, _ = feed(None)
    stderr.close(WAIT)
    assert stderr.wait(WAIT)
    assert stderr.tail == ""


def test_nothing_else_can_consume() -> None:
    with pytest.raises(TypeError, match="not int"):
        consumer_of(2)
