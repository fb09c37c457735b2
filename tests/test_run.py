"""Serving over standard streams: what ends it, what signals do, and that everything is put back."""

from __future__ import annotations

import os
import signal
import threading
from queue import Empty
from typing import Any, Callable, List, Optional

import pytest

from minimcp import run as module
from minimcp.run import serve_stdio

from .scripted import Task, wait_for

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class FakeChannel:
    """Ends when it is closed, or when `go` is set if that was asked for."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.ended = False
        self.closing, self.go = threading.Event(), threading.Event()
        self.graces: List[float] = []
        self.wake: Optional[Callable[[], None]] = None
        if not stubborn:
            self.go.set()

    def close(self, grace: float) -> None:
        self.graces.append(grace)
        self.closing.set()
        wait_for(self.go)
        self.ended = True
        assert self.wake is not None
        self.wake()


class Scene:
    """Standard streams and a parent's watch that only note what happens to them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, channel: FakeChannel) -> None:
        self.channel, self.notes = channel, []  # type: ignore[var-annotated]
        self.serving = threading.Event()
        self.connecting: Callable[[], None] = lambda: None
        monkeypatch.setattr(module, "StandardStreams", self)
        monkeypatch.setattr(module, "watch_parent", self.watch)

    def take(self, *, max_message_bytes: Optional[int]) -> "Scene":
        self.notes.append(f"taken {max_message_bytes}")
        return self

    def restore(self) -> None:
        self.notes.append("restored")

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: self.notes.append("unwatched")

    def connect(self, streams: Any, wake: Callable[[], None]) -> Any:
        assert streams is self
        self.channel.wake = wake
        self.serving.set()
        self.connecting()
        return self.channel

    def serve(self, grace: float = 3) -> None:
        serve_stdio(self.connect, max_message_bytes=7, grace=grace)


ALL = ["taken 7", "unwatched", "restored"]


def test_the_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())

    def end() -> None:
        scene.channel.ended = True
        scene.channel.wake()  # type: ignore[misc]

    scene.connecting = end
    scene.serve()
    assert scene.notes == ALL and scene.channel.graces == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_and_the_old_handlers_come_back(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene = Scene(monkeypatch, FakeChannel())
    scene.connecting = lambda: os.kill(os.getpid(), number)  # before the first answer
    scene.serve()
    assert scene.notes == ALL and scene.channel.graces == [3]
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_second_signal_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel(stubborn=True))

    def twice() -> None:
        wait_for(scene.serving)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_for(scene.channel.closing)
        os.kill(os.getpid(), signal.SIGTERM)

    task = Task(twice)
    scene.serve()
    assert not scene.channel.ended and scene.notes == ALL
    task.result()
    scene.channel.go.set()


class DeadGate:
    """Wakes nobody so many times."""

    def __init__(self, empty: int) -> None:
        self.empty, self.looks = empty, 0

    def get(self, *, timeout: float) -> None:
        assert timeout == 1.0
        self.looks += 1
        if self.looks <= self.empty:
            raise Empty


def test_a_wait_comes_back_to_python_for_signals() -> None:
    for empty, most, looks in ((2, None, 3), (0, None, 1), (9, 1, 1), (0, 1, 1)):
        gate: Any = DeadGate(empty)
        module._wait(gate, most)
        assert gate.looks == looks


def test_it_looks_again_when_nobody_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel(stubborn=True))
    woken: List[int] = []

    def late() -> None:
        wait_for(scene.channel.closing)
        scene.channel.wake = lambda: woken.append(1)
        scene.channel.go.set()

    scene.connecting = lambda: scene.channel.wake()  # type: ignore[misc]
    task = Task(late)
    scene.serve(grace=-0.99)
    task.result()
    assert scene.channel.ended and scene.notes == ALL


def test_in_another_thread_signals_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene = Scene(monkeypatch, FakeChannel())
    task = Task(scene.serve)
    wait_for(scene.serving)
    assert [signal.getsignal(each) for each in SIGNALS] == before
    assert scene.channel.wake is not None
    scene.channel.wake()
    task.result()
    assert scene.notes == ALL


def test_an_ignored_signal_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        scene = Scene(monkeypatch, FakeChannel())
        seen: List[Any] = []

        def look() -> None:
            seen.append(signal.getsignal(signal.SIGHUP))
            scene.channel.wake()  # type: ignore[misc]

        scene.connecting = look
        scene.serve()
        assert seen == [signal.SIG_IGN] == [signal.getsignal(signal.SIGHUP)]
    finally:
        signal.signal(signal.SIGHUP, old)


def test_a_signal_that_does_not_exist_and_a_handler_that_is_not_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    scene.connecting = lambda: scene.channel.wake()  # type: ignore[misc]
    number, old = signal.SIGHUP, signal.getsignal(signal.SIGHUP)
    with monkeypatch.context() as patch:
        patch.delattr(signal, "SIGHUP")
        scene.serve()
    assert scene.notes == ALL
    signals = module._Signals(lambda: None)
    signals._old.append((number, None))
    try:
        signals.__exit__()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, old)


def test_what_fails_at_the_start_puts_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene = Scene(monkeypatch, FakeChannel())

    def fail() -> None:
        raise RuntimeError("no threads")

    scene.connecting = fail
    with pytest.raises(RuntimeError):
        scene.serve()
    assert scene.notes == ALL
    assert [signal.getsignal(each) for each in SIGNALS] == before
