"""Rule 1, the hot lane: one worker, answers gathered, and a handler that takes too long is left behind."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, Callable, Iterator, Optional

import pytest
from minimcp.engine.lane import ALWAYS_SLOW, GATHER_BYTES, QUICK_AGAIN, HotLane, Pace

from minimcp.engine import lane as module
from minimcp.engine.pool import Pool, waiting

from .scripted import no_threads, wait_for
from .support import WAIT, eventually


class Job:
    """A job of a lane: reports where it runs, and lasts until the test lets it go (at once, if it says so)."""

    def __init__(
        self, answer: Optional[bytes] = b"", *, pace: Optional[Pace] = None, held: bool = False,
        during: Callable[[], Any] = lambda: None,
    ) -> None:
        self.answer, self.pace, self.during = answer, pace or quick(), during
        self.begun, self.go, self.thread = threading.Event(), threading.Event(), None  # type: Any, Any, Any
        if not held:
            self.go.set()

    def run(self) -> Optional[bytes]:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.go.wait(WAIT)
        self.during()
        return self.answer


def quick() -> Pace:
    pace = Pace()
    pace.was_quick()
    return pace


class Bench:
    """A lane, what it writes, and its workers."""

    def __init__(self, cap: int = 4) -> None:
        self.written: "SimpleQueue[Any]" = SimpleQueue()
        self.workers = Pool(cap, name="lane")
        self.gate = threading.Event()
        self.gate.set()
        self.lane = HotLane(self.workers, self.write)

    def write(self, data: bytes, answers: int) -> None:
        assert self.gate.wait(WAIT)
        self.written.put((data, answers))

    def next(self) -> Any:
        return self.written.get(timeout=WAIT)

    def put(self, *jobs: Job) -> None:
        for job in jobs:
            self.lane.put(job)
        self.lane.wake()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.lane.open()
    yield made
    made.lane.close()
    made.workers.close()


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A lane whose watcher does not look: what is handed over, the test hands over."""
    monkeypatch.setattr(module, "TICK", WAIT)
    made = Bench()
    made.lane.open()
    yield made
    made.lane.close()
    made.workers.close()


def test_pace() -> None:
    pace = Pace()
    assert not pace.known
    assert not pace.slow
    pace.was_quick()
    assert pace.known
    assert not pace.slow
    pace.was_slow()
    for _ in range(QUICK_AGAIN - 1):
        pace.was_quick()
    assert pace.slow
    pace.was_slow()
    for _ in range(QUICK_AGAIN):
        assert pace.slow
        pace.was_quick()
    assert not pace.slow
    assert pace.known


def test_an_author_who_wants_a_worker_for_each_call_keeps_it() -> None:
    for _ in range(QUICK_AGAIN + 1):
        ALWAYS_SLOW.was_quick()
    assert ALWAYS_SLOW.slow
    assert Pace(known=True).known


def test_answers_of_a_burst_leave_together(blind: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", WAIT)
    first, rest = Job(b"0\n", held=True), [Job(b"%d\n" % n) for n in range(1, 5)]
    blind.put(first)
    wait_for(first.begun)
    blind.put(*rest, Job(None))
    first.go.set()
    assert blind.next() == (b"0\n1\n2\n3\n4\n", 5)


def test_a_full_piece_leaves_at_once(blind: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", WAIT)
    large = b"x" * GATHER_BYTES + b"\n"
    first, second, third = Job(large, held=True), Job(b"1\n"), Job(b"2\n")
    blind.put(first)
    wait_for(first.begun)
    blind.put(second, third)
    first.go.set()
    assert blind.next() == (large, 1)
    assert blind.next() == (b"1\n2\n", 2)


def test_an_answer_does_not_wait_longer_than_a_moment(blind: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", -1.0)
    first, second = Job(b"0\n", held=True), Job(b"1\n")
    blind.put(first)
    wait_for(first.begun)
    blind.put(second)
    first.go.set()
    assert [blind.next(), blind.next()] == [(b"0\n", 1), (b"1\n", 1)]


def test_an_answer_does_not_wait_for_a_handler_whose_speed_is_unknown(blind: Bench) -> None:
    first, unknown = Job(b"0\n", held=True), Job(b"1\n", held=True, pace=Pace())
    blind.put(first)
    wait_for(first.begun)
    blind.put(unknown)
    first.go.set()
    assert blind.next() == (b"0\n", 1)
    wait_for(unknown.begun)
    unknown.go.set()
    assert blind.next() == (b"1\n", 1)


def test_a_slow_handler_gets_a_worker_of_its_own_until_it_has_been_quick(blind: Bench) -> None:
    pace = Pace(slow=True)
    alone, hot = Job(b"slow\n", held=True, pace=pace), Job(b"quick\n")
    blind.put(alone, hot)
    assert blind.next() == (b"quick\n", 1)
    alone.go.set()
    assert blind.next() == (b"slow\n", 1)
    assert alone.thread is not hot.thread
    module_tick = WAIT  # whatever it takes now counts as quick
    assert module_tick == module.TICK
    for _ in range(QUICK_AGAIN):
        blind.put(Job(b"again\n", pace=pace))
        blind.next()
    assert eventually(lambda: not pace.slow)


def test_a_slow_handler_stays_slow_and_may_have_nothing_to_say(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.0)
    pace = Pace(slow=True)
    silent = Job(None, pace=pace)
    bench.put(silent)
    wait_for(silent.begun)
    bench.put(Job(b"1\n"))
    assert bench.next() == (b"1\n", 1)
    assert pace.slow


def test_the_watcher_leaves_a_handler_behind_that_holds_the_lane(bench: Bench) -> None:
    quick_one, holding, after = Job(b"0\n", held=True), Job(b"held\n", held=True), Job(b"after\n")
    holding.pace = Pace()
    holding.pace.was_quick()
    bench.put(quick_one)
    wait_for(quick_one.begun)
    bench.put(holding, after)
    quick_one.go.set()
    assert {bench.next(), bench.next()} == {(b"0\n", 1), (b"after\n", 1)}
    assert holding.pace.slow
    holding.go.set()
    assert bench.next() == (b"held\n", 1)


def test_what_was_gathered_goes_out_when_a_handler_holds_the_lane(
    blind: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", WAIT)
    first, holding = Job(b"0\n", held=True), Job(None, held=True)
    blind.put(first)
    wait_for(first.begun)
    blind.put(holding)
    first.go.set()
    wait_for(holding.begun)
    turn, job = blind.lane.running()
    assert job is holding
    assert turn is not None
    blind.lane.hand_over(turn, first)  # too late: that one is not running any more
    assert blind.lane.running()[0] is turn
    blind.lane.hand_over(turn, holding)
    assert blind.next() == (b"0\n", 1)
    blind.lane.hand_over(turn, holding)  # once for each turn
    assert holding.pace.slow
    holding.go.set()


def test_a_handler_that_waits_gives_the_lane_away_and_then_its_permit(blind: Bench) -> None:
    inside, waits, order = threading.Event(), threading.Event(), []  # type: threading.Event, threading.Event, List[str]

    def ask() -> None:
        with waiting():
            inside.set()
            wait_for(waits)
        with waiting():  # a turn ends once; now it is a job like any other
            pass
        order.append("asked")

    asking, after = Job(b"asking\n", during=ask), Job(b"after\n")
    blind.put(asking, after)
    assert blind.next() == (b"after\n", 1)
    wait_for(inside)
    assert "0 running" in repr(blind.workers)
    waits.set()
    assert blind.next() == (b"asking\n", 1)
    assert order == ["asked"]
    assert eventually(lambda: "0 running" in repr(blind.workers))


def test_the_watcher_sleeps_when_there_is_nothing_to_watch_and_is_woken(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PARK_AFTER", 2)
    watcher = bench.lane._watcher
    for _ in range(3):
        assert eventually(lambda: watcher.parked)
        holding, after = Job(b"held\n", held=True), Job(b"after\n")
        bench.put(holding, after)
        assert bench.next() == (b"after\n", 1)  # it was woken and left the handler behind
        holding.go.set()
        assert bench.next() == (b"held\n", 1)


def test_the_watcher_does_not_park_when_a_job_has_just_begun(blind: Bench) -> None:
    holding = Job(b"held\n", held=True)
    blind.put(holding)
    wait_for(holding.begun)
    blind.lane._watcher._park()
    assert not blind.lane._watcher.parked
    holding.go.set()
    assert blind.next() == (b"held\n", 1)


def test_the_watcher_does_not_park_when_it_is_closed() -> None:
    bench = Bench()
    bench.lane._watcher.close()
    bench.lane._watcher._park()
    assert bench.lane.running() == (None, None)


def test_close_returns_what_was_never_begun_and_lets_what_runs_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", WAIT)
    bench = Bench()
    bench.lane.open()
    holding, left = Job(b"held\n", held=True), [Job(), Job()]
    bench.put(holding)
    wait_for(holding.begun)
    bench.put(*left)
    assert bench.lane.close() == left
    turn, job = bench.lane.running()
    assert turn is not None
    bench.lane.hand_over(turn, job)  # there is nobody to go on
    assert bench.lane.running() == (turn, holding)
    holding.go.set()
    assert bench.next() == (b"held\n", 1)
    bench.workers.close()
    assert eventually(lambda: "0 running" in repr(bench.workers))


def test_close_and_the_hot_worker_want_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    class Emptied(SimpleQueue):  # type: ignore[type-arg]
        seen = [False, True]

        def empty(self) -> bool:
            return self.seen.pop(0) if self.seen else True

    monkeypatch.setattr(bench.lane, "_queue", Emptied())
    assert bench.lane.close() == []


# ------------------------------------------------------------ a system without threads


def test_no_thread_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    with no_threads(monkeypatch), pytest.raises(RuntimeError):
        bench.lane.open()
    assert bench.lane.running() == (None, None)


def test_no_thread_for_a_slow_handler_runs_it_all_the_same(blind: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with no_threads(monkeypatch):
        blind.put(Job(b"slow\n", pace=Pace(slow=True)))
        assert blind.next() == (b"slow\n", 1)


def test_no_thread_for_another_turn_lets_the_old_one_go_on(blind: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is taken that was not given: the watcher may find a thread while the handler waits."""
    without, with_threads = threading.Event(), threading.Event()

    def ask() -> None:
        with no_threads(monkeypatch), waiting():  # nobody can take the lane
            without.set()
        with waiting():
            pass

    def ask_and_find_one() -> None:
        refusing = no_threads(monkeypatch)
        refusing.__enter__()
        with waiting():
            refusing.__exit__(None, None, None)
            turn, job = blind.lane.running()
            assert turn is not None
            blind.lane.hand_over(turn, job)  # what the watcher does every tick
        with_threads.set()

    blind.put(Job(b"0\n", during=ask))
    wait_for(without)
    assert blind.next() == (b"0\n", 1)
    blind.put(Job(b"1\n", during=ask_and_find_one), Job(b"2\n"))
    wait_for(with_threads)
    assert {blind.next(), blind.next()} == {(b"1\n", 1), (b"2\n", 1)}
    assert eventually(lambda: "0 running" in repr(blind.workers))
