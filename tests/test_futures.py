"""A call as a future: its outcome, and both ends of cancelling."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, wait
from typing import Any, List

import pytest

import minimcp
from minimcp import CancelToken, Limits
from minimcp.client.futures import CallFuture

from .scripted import Task, wait_for
from .support import WAIT


def made() -> "tuple[CallFuture, CancelToken]":
    token = CancelToken()
    return CallFuture(token), token


def fail() -> Any:
    raise KeyboardInterrupt


def test_a_result_and_an_error() -> None:
    future, token = made()
    assert not future.running() and not future.done()
    future.run(lambda: 5)
    assert future.result(WAIT) == 5 and not future.running() and future.cancel() is False and not token.cancelled
    failing, _ = made()
    failing.run(fail)
    with pytest.raises(KeyboardInterrupt):
        failing.result(WAIT)


@pytest.mark.parametrize("late", [lambda: "late", fail])
def test_cancelling_a_call_that_runs(late: Any) -> None:
    future, token = made()
    begun, told = threading.Event(), threading.Event()
    token.on_cancel(told.set)

    def work() -> Any:
        begun.set()
        wait_for(told)
        return late()

    task = Task(future.run, work)
    wait_for(begun)
    assert future.running()
    assert future.cancel() and future.cancelled() and token.reason == "the future was cancelled"
    task.result()
    with pytest.raises(CancelledError):
        future.result(WAIT)
    assert wait([future], WAIT).done == {future} and not future.running()


@pytest.mark.parametrize("how", ["result", "exception"])
def test_a_handler_that_waits_for_a_future_gives_its_place_away(how: str) -> None:
    """Two connections with one worker each call one another, deeper than there are workers."""
    server = minimcp.Server("nested", limits=Limits(workers=1))
    clients: List[minimcp.Client] = []

    @server.tool
    def nest(depth: int) -> int:
        "Call the server by the other connection, in the background, and wait."
        if not depth:
            return 0
        other = clients[depth % 2]
        future = other.submit(other.call_tool, "nest", {"depth": depth - 1})
        if how == "exception":
            assert future.exception(WAIT) is None
        return int(future.result(WAIT).value) + 1

    with minimcp.connect(server) as one, minimcp.connect(server) as two:
        clients += [one, two]
        assert one.call_tool("nest", {"depth": 6}, timeout=WAIT).value == 6
