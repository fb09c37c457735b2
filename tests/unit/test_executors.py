"""Executors: the queues of requests, how requests leave them, and which thread runs them."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Callable, List, Optional

import pytest

from minimcp.engine.incoming import IncomingRequest, Route, current_request
from minimcp.engine.limits import Limits
from minimcp.engine.running import RunningRequests
from minimcp.features.executors import Executor, Main, Serial, Submitting, executor_of
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import NEWEST_HANDSHAKE

from ..inside import waits_on
from ..scripted import RecordingOutlet, Task, no_threads, wait_for
from ..support import WAIT, eventually
from .requests import answers, config

CONFIG = config()


class Kept(Executor):
    """Remembers its jobs and leaves them where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: List[Callable[[], bool]] = []

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        self.jobs.append(partial(self._run, key))


def exchange(
    handle: Optional[Callable[[IncomingRequest], Any]] = None,
    *,
    of: Any = CONFIG,
    limit: Optional[int] = None,
) -> Any:
    sink, route = RecordingOutlet(), Route(handle or (lambda exchange: {"n": 1}))
    if limit is not None:
        sink.requests = RunningRequests(Limits(), [None] * limit)
    made = IncomingRequest(Request(1, "work"), Peer(NEWEST_HANDSHAKE), route, sink, server=of)
    sink.requests.add(made)
    return made


def interrupt(exchange: IncomingRequest) -> Any:
    raise KeyboardInterrupt


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_request_is_run_once_where_its_job_is_run(kept: Kept) -> None:
    seen: List[Any] = []
    made = exchange(lambda exchange: seen.append((exchange, current_request())) or {"n": 1})  # type: ignore[func-returns-value]
    kept.enqueue(made)
    (job,) = kept.jobs
    assert (repr(kept), seen) == ("<Kept 1 waiting>", [])
    assert [job(), job(), job()] == [True, False, False]
    assert seen == [(made, made)] and repr(kept) == "<Kept 0 waiting>"
    assert [line["result"] for line in answers(made)] == [{"n": 1}]


def test_a_rejected_request_is_not_queued(kept: Kept) -> None:
    made = exchange(limit=0)
    kept.enqueue(made)
    assert "requests are already running" in answers(made)[0]["error"]["message"]
    assert kept.jobs == [] and repr(kept) == "<Kept 0 waiting>"


def test_ctrl_c_in_a_handler_reaches_the_main_thread_after_the_response(kept: Kept) -> None:
    here, there = exchange(interrupt), exchange(interrupt)
    kept.enqueue(here)
    kept.enqueue(there)
    with pytest.raises(KeyboardInterrupt):
        kept.jobs[0]()
    assert Task(kept.jobs[1]).result() is True
    assert all("error" in answers(made)[0] for made in (here, there)) and current_request() is None


class Queue:
    """A user's queue. Each access to its method returns a new object."""

    def post(self, job: Callable[[], None]) -> None:
        job()


def test_names_and_objects() -> None:
    main, serial, queue, pool = Main(), Serial(), Queue(), ThreadPoolExecutor(1)
    known = {main}
    assert executor_of(None, known) is None and executor_of("main", known) is main
    assert executor_of(serial, known) is serial is executor_of(serial, known)
    for given in (queue.post, pool):
        made = executor_of(given, known)
        assert isinstance(made, Submitting) and made is executor_of(given, known)
    assert executor_of(Queue().post, known) is not executor_of(queue.post, known)
    assert len(known) == 5
    for other in (5, Serial, ThreadPoolExecutor, object()):
        with pytest.raises(TypeError, match="executor must be None, 'main', an object with submit"):
            executor_of(other, known)
    with pytest.raises(TypeError, match="on_pump_needed must be a callable"):
        Main(5)  # type: ignore[arg-type]


def waits(main: Main) -> bool:
    """Return whether a thread waits in `pump`."""
    return bool(waits_on(main))


def test_it_cannot_run_inside_itself() -> None:
    main, other = Main(), Main()
    errors: List[str] = []

    def inside(_: IncomingRequest) -> Any:
        other.enqueue(exchange())
        assert other.pump() == 1, "another server's"
        with pytest.raises(RuntimeError) as caught:
            main.pump()
        errors.append(str(caught.value))
        return {}

    main.enqueue(exchange(inside))
    assert main.pump() == 1 and main.pump() == 0
    assert errors == ["this thread is already pumping, and a pumped handler cannot pump"]


def told(made: IncomingRequest) -> int:
    """Run the postponed work of this request, and return how many functions that were."""
    sink: Any = made.sink
    work, sink.aside = sink.aside, []
    for each in work:
        each()
    return len(work)


def test_a_request_that_nobody_pumps_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.features.executors.PUMP_SECONDS", 0.05)
    main = Main()
    expected = 'work waits for executor="main": call server.pump() again and again in your loop'
    first, second, third = [exchange() for _ in range(3)]
    main.enqueue(first)
    main.enqueue(second)
    assert eventually(lambda: first.sink.aside)
    time.sleep(0.2)
    assert told(first) == 1 and caplog.messages == [expected], "once, for both"
    assert main.pump() == 2
    main.enqueue(third)
    assert eventually(lambda: third.sink.aside), "again after a pump"
    assert told(third) == 1 and main.pump() == 1


def test_a_request_that_waits_for_a_pumped_handler_is_not_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minimcp.features.executors.PUMP_SECONDS", 0.05)
    main, begun, goes_on, late = Main(), threading.Event(), threading.Event(), exchange()

    def work(_: IncomingRequest) -> Any:
        begun.set()
        return {"n": goes_on.wait(WAIT)}

    main.enqueue(exchange(work))
    pumping = Task(main.pump, None)
    assert begun.wait(WAIT)
    main.enqueue(late)
    time.sleep(0.3)
    goes_on.set()
    assert pumping.result() == 1 and not late.sink.aside
    assert main.pump() == 1


def test_on_pump_needed_is_called_once_between_two_pumps(caplog: pytest.LogCaptureFixture) -> None:
    rung: List[int] = []

    def ring() -> None:
        rung.append(1)
        raise ValueError("no window")

    main = Main(ring)
    made = [exchange() for _ in range(3)]
    main.enqueue(made[0])
    main.enqueue(made[1])
    assert [told(each) for each in made] == [1, 0, 0] and rung == [1]
    assert caplog.messages == ["on_pump_needed failed: no window"]
    assert main.pump() == 2
    main.enqueue(made[2])
    assert told(made[2]) == 1 and rung == [1, 1]
    late = exchange()
    main.enqueue(exchange(lambda _: main.enqueue(late)))
    main.pump()
    assert told(late) == 1 and main.pump() == 1, "also of what comes while it pumps"


def test_clear_cancels_queued_requests_and_wakes_waiting_threads() -> None:
    main, made = Main(), exchange()
    main.enqueue(made)
    main.clear("closing")
    assert made.token.reason == "closing" and main.pump() == 0 and "error" in answers(made)[0]
    task = Task(main.pump, None)
    assert eventually(lambda: waits(main))
    main.clear("closing")
    assert task.result() == 0


def threads(name: str = "minimcp-serial") -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def run(executor: Any, work: Callable[[], object] = lambda: None, of: Any = CONFIG) -> Any:
    """Run something there, and wait for it."""
    done = threading.Event()

    def handle(exchange: IncomingRequest) -> Any:
        try:
            work()
        finally:
            done.set()
        return {}

    made = exchange(handle, of=of)
    executor.enqueue(made)
    wait_for(done)
    return made


def test_its_thread_ends_when_nothing_refers_to_it() -> None:
    serial, of = Serial(), config()
    run(serial, of=of)
    (thread,) = threads()
    of.feature("executors").known.clear()
    del serial
    gc.collect()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_without_a_thread_a_request_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    serial, made = Serial(), exchange()
    with no_threads(monkeypatch, "minimcp-serial"):
        serial.enqueue(made)
    assert answers(made)[0]["error"]["message"] and made.sink.requests.running == 0
    assert repr(serial) == "<Serial 0 waiting>"
    run(serial)
    serial.leave(CONFIG)


def test_a_fault_does_not_end_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    def fail(line: bytes, wait: bool) -> None:
        raise ZeroDivisionError("a fault")

    serial, made = Serial(), exchange()
    made.sink.deliver = fail
    serial.enqueue(made)
    run(serial)
    serial.leave(CONFIG)
    assert eventually(lambda: not threads()) and caplog.messages == ["minimcp-serial: a fault"]


def test_one_that_begins_again_waits_for_the_thread_before() -> None:
    serial, first, second = Serial(), threading.Event(), threading.Event()
    order: List[str] = []

    def slow(_: IncomingRequest) -> Any:
        first.set()
        wait_for(second)
        order.append("first")
        return {}

    serial.enqueue(exchange(slow))
    wait_for(first)
    serial.leave(CONFIG)
    later = Task(run, serial, lambda: order.append("second"))
    assert eventually(lambda: len(threads()) == 2) and order == []
    second.set()
    later.result()
    serial.leave(CONFIG)
    assert order == ["first", "second"] and eventually(lambda: not threads())


def test_a_callable_gets_functions_and_runs_them_where_it_likes() -> None:
    jobs: List[Any] = []
    there: List[threading.Thread] = []

    def submit(job: Callable[[], None]) -> None:
        there.append(threading.current_thread())
        jobs.append(job)

    executor, made = Submitting(submit), [exchange() for _ in range(4)]
    for each in made:
        executor.enqueue(each)
    assert eventually(lambda: len(jobs) == 4)
    assert len(set(there)) == 1 and there[0] is not threading.current_thread(), (
        "one thread hands over what there is"
    )
    made[1].token.cancel()
    assert [job() for job in [*jobs, *jobs]] == [None] * 8, "a second time does nothing"
    assert ["result" in answers(each)[0] for each in made] == [True, False, True, True]
    assert [len(answers(each)) for each in made] == [1, 1, 1, 1] and not executor.running
    executor.leave(CONFIG)
    assert eventually(lambda: not threads("minimcp-submitting"))


@pytest.mark.parametrize("runs_it", [False, True])
def test_a_callable_that_raises(caplog: pytest.LogCaptureFixture, runs_it: bool) -> None:

    def broken(job: Callable[[], None]) -> None:
        if runs_it:
            job()
        raise SystemExit("closed")

    executor, made = Submitting(broken), exchange()
    executor.enqueue(made)
    assert eventually(lambda: answers(made)) and ("result" in answers(made)[0]) is runs_it
    executor.leave(CONFIG)
    assert eventually(lambda: not threads("minimcp-submitting"))
    assert ("minimcp-submitting: closed" in caplog.messages) is runs_it
    assert runs_it or "Internal error (reference" in answers(made)[0]["error"]["message"]
