"""The way out: whole frames in order, whoever sends them, whatever time they have, and a reader that is held back."""

from __future__ import annotations

import itertools
import os
import select
import signal
import threading
from collections import deque
from contextlib import closing, contextmanager
from typing import Any, Callable, Iterator, List, Optional, Tuple

import pytest
from minimcp.engine.outbox import Outbox

from minimcp.engine import transport
from minimcp.engine.timer import Deadline
from minimcp.engine.transport import MemoryPipe, Transport
from minimcp.errors import ConnectionLost

from .scripted import ScriptedPipe, Task, wait_for
from .striking import struck_at
from .support import WAIT, eventually
from .transports.ends import over


def outbox(
    room: Optional[int] = None, *, patience: Optional[float] = WAIT, max_backlog: Optional[int] = 10
) -> "tuple[Outbox, ScriptedPipe]":
    pipe = ScriptedPipe(room)
    return Outbox(pipe, patience=patience, max_backlog=max_backlog), pipe


def test_what_is_written_has_been_taken() -> None:
    out, pipe = outbox()
    assert out.write(b"a\n")
    assert pipe.sent == b"a\n"
    assert out.waiting == 0
    assert out.flush()


def test_what_is_enqueued_goes_out_first_and_together() -> None:
    out, pipe = outbox()
    out.enqueue(b"a\n")
    out.enqueue(b"b\n")
    assert pipe.sent == b""
    assert out.waiting == 4
    assert out.write(b"c\n")
    assert pipe.sent == b"a\nb\nc\n"


def test_more_than_fits_into_one_write() -> None:
    out, pipe = outbox()
    frames = [bytes([97 + n]) * 50_000 for n in range(5)]
    for frame in frames:
        out.enqueue(frame)
    assert out.flush()
    assert pipe.sent == b"".join(frames)


def test_a_frame_that_was_begun_is_finished_before_any_other() -> None:
    out, pipe = outbox(room=3)
    assert not out.write(b"first\n", Deadline(0.001))
    assert pipe.sent == b"fir"
    assert out.waiting == 3
    assert not out.write(b"second\n", Deadline(0))
    pipe.take(None)
    assert out.flush()
    assert pipe.sent == b"first\nsecond\n"


def test_a_deadline_that_comes_while_another_writes() -> None:
    out, pipe = outbox(room=0)
    writing = Task(out.write, b"a\n")
    wait_for(pipe.stuck)
    assert not out.write(b"b\n", Deadline(0.001))
    pipe.take(None)
    assert writing.result()
    assert out.flush()
    assert pipe.sent == b"a\nb\n"


def test_a_peer_that_takes_little_at_a_time_is_waited_for() -> None:
    out, pipe = outbox(room=0)
    writing = Task(out.write, b"abc\n", Deadline(WAIT))
    for _ in range(4):
        wait_for(pipe.stuck)
        pipe.take(1)
    assert writing.result()
    assert pipe.sent == b"abc\n"


@pytest.mark.parametrize("patience", [0.001, 0.0])
def test_a_peer_that_takes_nothing_is_lost(patience: float) -> None:
    out, _ = outbox(room=0, patience=patience)
    with pytest.raises(ConnectionLost, match="took no byte for 0"):
        out.write(b"a\n")


def test_a_peer_that_is_gone_is_told_to_every_writer() -> None:
    out, pipe = outbox()
    pipe.close()
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="closed"):
            out.write(b"a\n")
        with pytest.raises(ConnectionLost, match="closed"):
            out.post(b"a\n")


def test_no_patience_at_all_waits_for_the_peer() -> None:
    out, pipe = outbox(room=0, patience=None)
    writing = Task(out.write, b"a\n")
    wait_for(pipe.stuck)
    pipe.take(None)
    assert writing.result()


def test_whoever_writes_returns_only_when_its_frame_was_taken() -> None:
    """Also when another thread sends it: the answers that have been written are counted by it."""
    out, pipe = outbox(room=0)
    out.enqueue(b"theirs\n")
    out.enqueue(b"ours\n")
    sending = Task(out.flush)
    wait_for(pipe.stuck)
    assert not out._frames and out.waiting == 12  # both are in the other thread's hands
    flushing = Task(out.flush)
    assert not out.flush(Deadline(0.001))
    pipe.take(None)
    assert flushing.result()
    assert sending.result()
    assert pipe.sent == b"theirs\nours\n"


# ------------------------------------------------------------ post


def test_a_post_goes_out_at_once() -> None:
    out, pipe = outbox()
    assert out.post(b"a\n")
    assert pipe.sent == b"a\n"


def test_a_post_never_waits_and_says_that_somebody_has_to_go_on() -> None:
    out, pipe = outbox(room=1)
    assert not out.post(b"a\n")
    assert not out.post(b"b\n")
    pipe.take(None)
    assert out.flush()
    assert pipe.sent == b"a\nb\n"


def test_a_post_leaves_its_frame_to_whoever_writes_now() -> None:
    out, pipe = outbox(room=0)
    writing = Task(out.write, b"a\n")
    wait_for(pipe.stuck)
    assert out.post(b"b\n")
    pipe.take(None)
    assert writing.result()
    assert pipe.sent == b"a\nb\n"


def test_a_post_does_not_send_for_others_for_ever() -> None:
    out, pipe = outbox()
    for _ in range(20):
        out.enqueue(b"x" * 64 * 1024)
    assert not out.post(b"a\n")
    assert out.waiting > 0
    assert out.flush()
    assert pipe.sent.endswith(b"a\n")


def test_a_post_finds_its_frame_sent_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    out, pipe = outbox()

    class Overtaken:
        def append(self, data: bytes) -> None:
            pipe.sent += data

        def __len__(self) -> int:
            return 0

    monkeypatch.setattr(out, "_frames", Overtaken())
    assert out.post(b"a\n")
    assert pipe.sent == b"a\n"


@pytest.mark.parametrize("first", [[], [b"first\n"]])
def test_who_held_the_lock_sends_what_was_posted_meanwhile(first: List[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    out, pipe = outbox()
    for frame in first:
        out.enqueue(frame)
    let_go = Outbox._let_go

    def posted_before(self: Outbox, held: Any) -> None:
        if held == [True] and b"late" not in pipe.sent and not out._frames:
            assert out.post(b"late\n")  # the lock is held: its holder will send it
        let_go(self, held)

    monkeypatch.setattr(Outbox, "_let_go", posted_before)
    assert out.write(b"a\n")
    assert pipe.sent == b"".join(first) + b"a\nlate\n"


# ------------------------------------------------------------ where nothing waits and nobody sends


def test_what_nobody_is_in_the_way_of_goes_out_at_once() -> None:
    out, pipe = outbox()
    assert Task(out.write, b"a\n").result() and Task(out.post, b"b\n").result()
    assert (pipe.sent, out.waiting) == (b"a\nb\n", 0)


def test_what_waits_goes_out_first() -> None:
    out, pipe = outbox(room=1)
    assert not Task(out.post, b"a\n").result()
    assert (pipe.sent, out.waiting) == (b"a", 1)
    assert not Task(out.post, b"b\n").result()
    writing = Task(out.write, b"c\n")
    wait_for(pipe.stuck)
    assert Task(out.post, b"d\n").result()  # whoever sends now sends it
    pipe.take(None)
    assert writing.result()
    assert (pipe.sent, out.waiting) == (b"a\nb\nc\nd\n", 0)


def test_a_writer_waits_until_the_peer_has_taken_what_it_began_to_send() -> None:
    out, pipe = outbox(room=1)
    writing = Task(out.write, b"a\n")
    wait_for(pipe.stuck)
    assert not out.write(b"b\n", Deadline(0))
    pipe.take(None)
    assert writing.result()
    assert out.flush() and pipe.sent == b"a\nb\n"


class Overtaken(ScriptedPipe):
    """Somebody posts when bytes are taken; whoever sends then has the lock, and has to send that too."""

    def send_counted(self, data: bytes, seconds: float, counts: List[int]) -> None:
        super().send_counted(data, seconds, counts)
        if self.sent == b"a\n":
            assert Task(self.out.post, b"late\n").result()

    __slots__ = ("out",)


@pytest.mark.parametrize("act", ["write", "post"])
def test_who_sends_sends_what_was_posted_meanwhile(act: str) -> None:
    pipe = Overtaken()
    out = pipe.out = Outbox(pipe, patience=WAIT, max_backlog=10)
    assert Task(getattr(out, act), b"a\n").result()
    assert pipe.sent == b"a\nlate\n"


def test_who_finds_the_peer_gone_keeps_no_lock() -> None:
    out, pipe = outbox()
    pipe.close()
    for act in (out.write, out.post, out.write):
        with pytest.raises(ConnectionLost):
            Task(act, b"a\n").result()


class Late(deque):  # type: ignore[type-arg]
    """Looks empty once, as when somebody else puts something in right afterwards."""

    looked = False

    def __len__(self) -> int:
        before, self.looked = self.looked, True
        return super().__len__() if before else 0


def test_who_has_the_lock_looks_again_for_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    out, pipe = outbox()
    monkeypatch.setattr(out, "_frames", Late([b"a\n"]))
    assert Task(out.write, b"b\n").result()
    assert pipe.sent == b"a\nb\n"


# ------------------------------------------------------------ what a signal handler raises


class InterruptedPipe(ScriptedPipe):
    """Takes so many bytes and is then struck by Ctrl-C, once."""

    __slots__ = ("strike",)

    strike: Optional[int]

    def send_counted(self, data: bytes, seconds: float, counts: List[int]) -> None:
        if self.strike is None:
            super().send_counted(data, seconds, counts)
            return
        taken, self.strike = data[: self.strike], None
        self.sent += taken
        counts.append(len(taken))
        raise KeyboardInterrupt


def interrupted(strike: int) -> "tuple[Outbox, InterruptedPipe]":
    pipe = InterruptedPipe()
    pipe.strike = strike
    return Outbox(pipe, patience=WAIT, max_backlog=10), pipe


@pytest.mark.parametrize("strike", range(14))
@pytest.mark.parametrize("act", ["write", "post", "flush"])
def test_the_next_writer_finishes_what_ctrl_c_tore(act: str, strike: int) -> None:
    out, pipe = interrupted(strike)
    out.enqueue(b"first\n")
    if act == "flush":
        out.enqueue(b"second\n")
    with pytest.raises(KeyboardInterrupt):
        out.flush() if act == "flush" else getattr(out, act)(b"second\n")
    assert out.waiting == 13 - strike
    Task(out.write, b"third\n").result()
    assert pipe.sent == b"first\nsecond\nthird\n"
    assert out.waiting == 0


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("act", ["write", "post"])
@pytest.mark.parametrize("kind", ["scripted", "memory", "transport"])
def test_an_exception_at_any_point_tears_no_frame_and_keeps_no_lock(kind: str, act: str, alone: bool) -> None:
    first = b"" if alone else b"first\n"
    for number in itertools.count():
        with ends(kind) as (pipe, received):
            out = Outbox(pipe, patience=WAIT, max_backlog=10)
            if not alone:
                out.enqueue(first)
            struck = struck_at(number, lambda out=out: getattr(out, act)(b"second\n"))
            Task(out.write, b"third\n").result()
            assert out.waiting == 0
            assert received() in (first + b"second\nthird\n", first + b"third\n"), number
        if not struck:
            break
    assert number > 20 - 10 * alone


@contextmanager
def ends(kind: str) -> "Iterator[Tuple[Transport, Callable[[], bytes]]]":
    """A pipe that takes little at a time, and what came out of it."""
    if kind == "scripted":
        scripted = ScriptedPipe()
        yield scripted, lambda: scripted.sent
        return
    if kind == "memory":
        ours, theirs = MemoryPipe.pair(capacity=4)
    else:
        there, back = os.pipe(), os.pipe()
        ours, theirs = (over(there[0], back[1]), over(back[0], there[1]))
    with closing(ours), closing(theirs):
        lines: List[Any] = []

        def receive() -> bytes:
            while b"third" not in lines:
                lines.extend(theirs.receive())
            return b"".join(line + b"\n" for line in lines)

        yield ours, Task(receive).result


class Stopped(BaseException):
    """What the handler of the tests raises."""


@contextmanager
def handler_that_raises() -> Iterator[None]:
    """SIGUSR1 raises `Stopped` in the main thread, which runs the tests."""

    def stop(number: int, frame: Any) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kind", ["nonblocking", "blocking", "without poll"])
def test_a_signal_strikes_the_main_thread_in_a_write_to_a_full_pipe(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, back = os.pipe(), os.pipe()
    if kind == "without poll":  # it waits in `os.write` itself
        monkeypatch.delattr(select, "poll")
        monkeypatch.setattr(transport, "LEAVING_SECONDS", 0.0)
    pipe = over(back[0], there[1], nonblocking=kind == "nonblocking")
    out = Outbox(pipe, patience=WAIT, max_backlog=10)
    first, second = b"x" * 500_000 + b"\n", b"second\n"

    def full() -> bool:
        return not select.select([], [there[1]], [], 0)[1]

    def strike() -> None:
        assert eventually(full)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def read_all() -> bytes:
        data = b""
        while not data.endswith(second):
            data += os.read(there[0], 1 << 20)
        return data

    with handler_that_raises():
        striking = Task(strike)
        with pytest.raises(Stopped):
            out.write(first, Deadline(WAIT))
    striking.result()
    assert 0 < out.waiting < len(first)
    writing = Task(out.write, second)
    assert Task(read_all).result() == first + second
    assert writing.result()
    assert out.waiting == 0
    pipe.close()
    os.close(back[1])
    os.close(there[0])


# ------------------------------------------------------------ the reader


def test_a_reader_is_not_held_back_below_the_limit() -> None:
    out, _ = outbox(room=0)
    assert not out.is_full()
    out.enqueue(b"x" * 10)
    assert not out.is_full()
    out.enqueue(b"x")
    assert out.is_full()


def test_a_reader_is_never_held_back_without_a_limit() -> None:
    out, _ = outbox(room=0, max_backlog=None)
    out.enqueue(b"x" * 100)
    assert not out.is_full()
    out.wait_for_room()


def test_a_reader_waits_until_half_of_the_limit_is_gone() -> None:
    out, pipe = outbox(room=0)
    out.enqueue(b"x" * 20)
    reading = Task(out.wait_for_room)
    assert eventually(lambda: out._reader_waits)
    pipe.take(14)
    assert not out.flush(Deadline(0.001))
    assert out.waiting == 6
    assert reading.thread.is_alive()
    pipe.take(1)
    assert not out.flush(Deadline(0.001))
    reading.result()


def test_close_lets_a_reader_go() -> None:
    out, _ = outbox(room=0)
    out.enqueue(b"x" * 20)
    reading = Task(out.wait_for_room)
    assert eventually(lambda: out._reader_waits)
    out.close()
    reading.result()
    out.wait_for_room()


def test_many_writers_never_mix_their_frames() -> None:
    out, pipe = outbox(room=None)
    frames = [[b"%d:%d\n" % (writer, n) for n in range(200)] for writer in range(8)]
    start = threading.Barrier(8)

    def work(mine: Any, post: bool) -> None:
        start.wait(WAIT)
        for frame in mine:
            if post:
                out.post(frame) or out.flush()
            else:
                out.write(frame)

    tasks = [Task(work, mine, n % 2) for n, mine in enumerate(frames)]
    for task in tasks:
        task.result()
    out.flush()
    lines = pipe.sent.splitlines(keepends=True)
    assert [[line for line in lines if line.startswith(b"%d:" % n)] for n in range(8)] == frames
