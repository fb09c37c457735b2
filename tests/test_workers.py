"""A pool of threads with permits: growing, waiting one's turn, giving back, and a system without threads."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest

from minimcp.engine import pool as module
from minimcp.engine.pool import Pool, here, waiting

from .scripted import no_threads, wait_for
from .support import WAIT, eventually


class Job:
    """Work that reports its begin and lasts until the test lets it go."""

    def __init__(self) -> None:
        self.begun, self.go, self.done = threading.Event(), threading.Event(), threading.Event()
        self.thread: Any = None

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        assert self.go.wait(WAIT)
        self.done.set()

    def finish(self) -> None:
        self.go.set()
        wait_for(self.done)


class WaitingJob(Job):
    """Work that gives its permit back while it waits."""

    def __init__(self, then: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.then = then

    def __call__(self) -> None:
        with waiting():
            super().__call__()
        self.then()


@pytest.fixture
def pool() -> Any:
    made = Pool(2, name="pool")
    yield made
    made.close()


def is_idle(pool: Pool, count: int) -> bool:
    return eventually(lambda: f", {count} idle" in repr(pool))


def test_work_beyond_the_cap_waits_its_turn(pool: Pool) -> None:
    jobs = [Job() for _ in range(4)]
    for job in jobs:
        pool.start(job)
    for job in jobs[:2]:
        wait_for(job.begun)
    assert repr(pool) == "<Pool 'pool' 2 running, 2 queued, 0 idle>"
    jobs[0].finish()
    wait_for(jobs[2].begun)
    assert not jobs[3].begun.is_set()
    jobs[1].finish()
    wait_for(jobs[3].begun)
    jobs[2].finish()
    jobs[3].finish()
    assert is_idle(pool, 2)


def test_an_idle_worker_is_used_again(pool: Pool) -> None:
    first, second = Job(), Job()
    pool.start(first)
    first.finish()
    assert is_idle(pool, 1)
    pool.start(second)
    second.finish()
    assert second.thread is first.thread
    assert first.thread.daemon
    assert first.thread.name == "pool-1"


def test_no_cap() -> None:
    pool = Pool(None, name="wide")
    jobs = [Job() for _ in range(20)]
    for job in jobs:
        pool.start(job)
    for job in jobs:
        wait_for(job.begun)
    for job in jobs:
        job.finish()
    pool.close()


def test_beyond_the_cap_when_asked(pool: Pool) -> None:
    jobs = [Job() for _ in range(3)]
    pool.start(jobs[0])
    pool.start(jobs[1])
    pool.start(jobs[2], beyond_cap=True)
    wait_for(jobs[2].begun)
    for job in jobs:
        job.finish()


def test_who_waits_gives_its_permit_to_the_next_and_goes_on_at_once() -> None:
    pool = Pool(1, name="pool")
    after = Job()
    waiter, other = WaitingJob(after), Job()
    pool.start(waiter)
    pool.start(other)
    wait_for(waiter.begun)
    wait_for(other.begun)  # though the cap is one
    waiter.go.set()
    wait_for(after.begun)  # over the cap: it does not queue for a permit again
    third = Job()
    pool.start(third)
    after.finish()
    assert eventually(lambda: "1 running, 1 queued" in repr(pool))  # two were running: nobody is let in for the first
    assert not third.begun.is_set()
    other.finish()
    wait_for(third.begun)
    third.finish()
    pool.close()


def test_who_waits_gives_its_permit_to_an_idle_worker() -> None:
    pool = Pool(1, name="pool")
    one, two = Job(), Job()
    pool.start(one)
    pool.start(two, beyond_cap=True)
    one.finish()
    two.finish()
    assert is_idle(pool, 2)
    gate, last = threading.Event(), Job()

    def give_when_told() -> None:
        assert gate.wait(WAIT)
        with waiting():
            wait_for(last.begun)

    pool.start(give_when_told)
    pool.start(last)
    gate.set()
    wait_for(last.begun)
    assert last.thread in (one.thread, two.thread)
    last.finish()
    assert is_idle(pool, 2)
    pool.close()


def test_a_wait_in_a_wait_is_balanced(pool: Pool) -> None:
    done = threading.Event()

    def work() -> None:
        with waiting(), waiting():
            pass
        done.set()

    pool.start(work)
    wait_for(done)
    assert eventually(lambda: "0 running" in repr(pool))


def test_waiting_on_any_other_thread_does_nothing() -> None:
    with waiting():
        assert not hasattr(here, "seat")


def test_work_that_raises_is_logged_and_its_worker_lives_on(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise SystemExit("not even this ends a worker")

    pool.start(fail)
    assert is_idle(pool, 1)
    assert "not even this" in caplog.text
    job = Job()
    pool.start(job)
    job.finish()
    assert job.thread.name == "pool-1"


def test_a_worker_without_work_ends_after_a_while(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.001)
    job = Job()
    pool.start(job)
    job.finish()
    job.thread.join(WAIT)
    assert not job.thread.is_alive()
    assert is_idle(pool, 0)


@pytest.mark.parametrize("closed", [False, True])
def test_a_worker_does_not_leave_while_work_is_on_its_way(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    """Between the look at the idle ones and the hand-over the worker's patience ends, and perhaps the pool too."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.001)
    in_between, asked, jobs = threading.Event(), threading.Event(), [Job(), Job()]
    leave, run_on = pool.leave, pool._run_on

    def leave_late(worker: Any) -> bool:
        wait_for(in_between)
        answer = leave(worker)
        asked.set()
        return answer

    def run_later(worker: Any, work: Any) -> bool:
        if worker is not None:
            if closed:
                pool.close()
            in_between.set()
            wait_for(asked)
        return run_on(worker, work)

    monkeypatch.setattr(pool, "leave", leave_late)
    monkeypatch.setattr(pool, "_run_on", run_later)
    pool.start(jobs[0])
    jobs[0].finish()
    assert is_idle(pool, 1)
    pool.start(jobs[1])
    jobs[1].finish()
    assert jobs[1].thread is jobs[0].thread


def test_close_ends_idle_workers_and_forgets_what_waits() -> None:
    pool = Pool(2, name="pool")
    jobs = [Job() for _ in range(3)]
    for job in jobs[:2]:
        pool.start(job)
    jobs[0].finish()
    assert is_idle(pool, 1)
    pool.start(jobs[2])
    wait_for(jobs[2].begun)
    waits = Job()
    pool.start(waits)
    pool.close()
    pool.close()
    for job in jobs[1:]:
        job.finish()
        job.thread.join(WAIT)
        assert not job.thread.is_alive()
    assert not waits.begun.is_set()


def test_after_close_work_still_runs() -> None:
    pool = Pool(2, name="pool")
    pool.close()
    job = Job()
    pool.start(job)
    job.finish()
    job.thread.join(WAIT)
    assert not job.thread.is_alive()


def test_close_ends_an_idle_worker() -> None:
    pool = Pool(2, name="pool")
    job = Job()
    pool.start(job)
    job.finish()
    assert is_idle(pool, 1)
    pool.close()
    job.thread.join(WAIT)
    assert not job.thread.is_alive()


# ------------------------------------------------------------ a system without threads


def test_no_thread_and_nobody_who_will_come_free(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    with no_threads(monkeypatch), pytest.raises(RuntimeError, match="no more threads"):
        pool.start(Job())
    assert repr(pool) == "<Pool 'pool' 0 running, 0 queued, 0 idle>"


def test_no_thread_but_one_that_will_come_free(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Job(), Job()
    pool.start(first)
    with no_threads(monkeypatch):
        pool.start(second)
    assert "1 running, 1 queued" in repr(pool)
    first.finish()
    second.finish()
    assert second.thread is first.thread


def test_no_thread_for_the_permit_that_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is not lost and the wait does not fail: whoever waits now takes it up afterwards."""
    pool = Pool(1, name="pool")
    gate, order = threading.Event(), []  # type: threading.Event, List[str]
    second = Job()

    def wait_without_threads() -> None:
        wait_for(gate)
        with no_threads(monkeypatch), waiting():
            order.append("waits")
        order.append("goes on")

    pool.start(wait_without_threads)
    pool.start(second)
    gate.set()
    second.finish()
    assert order == ["waits", "goes on"]
    assert eventually(lambda: repr(pool) == "<Pool 'pool' 0 running, 0 queued, 1 idle>")
    pool.close()
