"""The pool: order, the cap, waits that do not count, jobs on the caller's own thread, and threads
that end."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Iterator, List

import pytest

from minimcp.engine import pool as pool_module
from minimcp.engine.pool import Pool, this_thread, waiting

from ..scripted import Task, no_threads, wait_for
from ..support import WAIT, eventually


@pytest.fixture
def make() -> Iterator[Callable[..., Pool]]:
    pools: List[Pool] = []

    def make(size: Any) -> Pool:
        pools.append(Pool(size, "minimcp-test"))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def hold(pool: Pool, count: int) -> threading.Event:
    """Run this many jobs until the event is set."""
    begun, release = threading.Semaphore(0), threading.Event()

    def job() -> None:
        begun.release()
        assert release.wait(WAIT)

    for _ in range(count):
        pool.submit(job)
        assert begun.acquire(timeout=WAIT)
    return release


def test_jobs_run_in_order_and_no_more_at_once_than_may(
    make: Callable[..., Pool], caplog: pytest.LogCaptureFixture
) -> None:
    pool, order, most = make(2), [], [0]
    running, done = threading.Semaphore(2), threading.Semaphore(0)
    release = hold(pool, 2)

    def job(number: int) -> None:
        order.append(number)
        most[0] += not running.acquire(blocking=False)
        running.release()
        done.release()

    pool.submit(lambda: {}["missing"])  # it has no effect on others
    for number in range(50):
        pool.submit(lambda number=number: job(number))
    assert len(pool.queue) >= 49 and order == []
    release.set()
    assert all(done.acquire(timeout=WAIT) for _ in range(50))
    assert sorted(order) == list(range(50)) and most == [0]
    assert eventually(lambda: "'missing'" in caplog.text)
    assert eventually(lambda: "0 running, 0 queued" in repr(pool))


def test_a_job_does_not_wait_for_the_one_before_while_there_is_room(
    make: Callable[..., Pool],
) -> None:
    pool, both, done = make(2), threading.Barrier(2), threading.Semaphore(0)
    with pool._lock:  # no thread runs between the two
        for _ in range(2):
            pool.submit(lambda: (both.wait(WAIT), done.release()))
    assert all(done.acquire(timeout=WAIT) for _ in range(2))


def test_one_place_keeps_the_order_whoever_runs_the_job(make: Callable[..., Pool]) -> None:
    pool, order = make(1), []
    release = hold(pool, 1)
    pool.submit(lambda: order.append("first"))
    own = Task(pool.run, lambda: order.append(threading.get_ident()))
    assert eventually(lambda: "2 queued" in repr(pool))
    done = threading.Event()
    pool.submit(lambda: order.append("last"))
    pool.submit(done.set)
    release.set()
    own.result()
    wait_for(done)
    assert order == ["first", own.thread.ident, "last"]


def test_a_thread_of_ours_begins_where_another_ends_and_its_job_ends_as_others_do(
    make: Callable[..., Pool],
) -> None:
    pool, inside, release = make(1), threading.Event(), threading.Event()
    own = Task(pool.run, lambda: (inside.set(), release.wait(WAIT)))
    wait_for(inside)
    other = Task(pool.run, release.is_set)
    assert eventually(lambda: "1 queued" in repr(pool))
    release.set()
    own.result()
    other.result()
    with pytest.raises(LookupError):
        pool.run(lambda: {}["x"])
    assert (
        eventually(lambda: "0 running" in repr(pool)) and getattr(this_thread, "pool", None) is None
    )


@pytest.mark.parametrize("has_come", [False, True])
def test_ctrl_c_gives_back_the_turn_of_a_waiting_thread(
    make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch, has_come: bool
) -> None:
    pool = make(1)
    release = hold(pool, 1)

    class Place(threading.Event):
        def wait(self, timeout: Any = None) -> bool:
            if has_come:
                release.set()
                assert super().wait(WAIT)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading, "Event", Place)
        pool.run(bool)
    release.set()
    done = threading.Event()
    pool.submit(done.set)
    wait_for(done)


def test_a_waiting_job_does_not_count_and_continues_beyond_the_limit(
    make: Callable[..., Pool],
) -> None:
    """Waits inside waits: each level runs while the one above it waits."""
    pool, depth, deepest = make(1), 20, threading.Event()

    def level(number: int) -> None:
        if number == depth:
            deepest.set()
            return
        with waiting():
            with waiting():  # within another it does nothing
                pool.submit(lambda: level(number + 1))
                wait_for(deepest)
        assert this_thread.pool is pool

    pool.submit(lambda: level(0))
    wait_for(deepest)
    assert eventually(lambda: "0 running, 0 queued" in repr(pool))


def test_no_job_starts_until_fewer_run_than_may(make: Callable[..., Pool]) -> None:
    pool, go_on, second = make(1), threading.Event(), threading.Event()
    over, begun = threading.Event(), threading.Event()

    def first() -> None:
        with waiting():
            begun.set()
            wait_for(go_on)
        over.set()
        release.wait(WAIT)

    pool.submit(first)
    wait_for(begun)
    release = hold(pool, 1)  # replaces the waiting worker
    go_on.set()
    wait_for(over)
    pool.submit(second.set)
    assert "2 running, 1 queued" in repr(pool)
    release.set()
    wait_for(second)


def test_few_threads_run_many_short_jobs(make: Callable[..., Pool]) -> None:
    pool, done = make(None), threading.Semaphore(0)
    for _ in range(500):
        pool.submit(done.release)
    assert all(done.acquire(timeout=WAIT) for _ in range(500))
    assert pool.threads_started < 100


def test_threads_end_when_they_are_idle_for_long_or_the_pool_is_closed(
    make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def threads() -> List[str]:
        return [
            thread.name
            for thread in threading.enumerate()
            if thread.name.startswith(f"{pool.name}-")
        ]

    monkeypatch.setattr(pool_module, "IDLE_SECONDS", 0.01)
    pool, ran = make(4), threading.Event()
    hold(pool, 3).set()
    assert eventually(lambda: not threads()) and "0 idle" in repr(pool)
    monkeypatch.setattr(pool_module, "IDLE_SECONDS", WAIT)
    release = hold(pool, 2)
    pool.spawn(ran.set)
    wait_for(ran)
    assert eventually(lambda: "1 idle" in repr(pool))
    pool.close()
    release.set()
    assert eventually(lambda: not threads())
    ran.clear()
    pool.submit(ran.set)  # it may be used again
    wait_for(ran)


def test_a_thread_that_was_idle_for_long_takes_the_job_that_was_just_sent(
    make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(SimpleQueue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: Any = None) -> Any:
            if timeout is not None:
                idle.set()
                wait_for(sent)
                raise Empty
            return super().get(block, timeout)

    monkeypatch.setattr(pool_module, "SimpleQueue", Late)
    idle, sent = threading.Event(), threading.Event()
    pool, ran = make(1), threading.Event()
    pool.submit(bool)
    wait_for(idle)
    pool.submit(ran.set)
    sent.set()
    wait_for(ran)


def test_without_new_threads_jobs_wait_for_an_existing_one(
    make: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool, ran = make(3), threading.Semaphore(0)
    with no_threads(monkeypatch):
        pool.spawn(ran.release)
        pool.submit(ran.release)
        pool.run(ran.release)
    assert (
        ran.acquire(timeout=WAIT)
        and not ran.acquire(blocking=False)
        and "new thread" in caplog.text
    )
    pool.submit(ran.release)
    assert all(ran.acquire(timeout=WAIT) for _ in range(3))
    held = hold(pool, 1)
    with no_threads(monkeypatch):
        pool.submit(ran.release)
        held.set()
        assert ran.acquire(timeout=WAIT)


def test_a_fork_begins_without_threads(make: Callable[..., Pool]) -> None:
    pool, ran = make(1), threading.Event()
    release = hold(pool, 1)
    pool_module.renew_all_in_fork()
    pool.submit(ran.set)
    wait_for(ran)
    release.set()
