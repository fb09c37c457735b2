"""Serving over standard streams: what ends it, what signals do, and that everything is put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from queue import Empty
from subprocess import PIPE
from typing import Any, Callable, List, Optional

import pytest
from minimcp.server.pump import Main

from minimcp.server import run as module
from minimcp.server.run import serve_stdio

from .scripted import Task, no_threads, wait_for
from .support import ROOT, WAIT
from .test_executors import exchange

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class FakeChannel:
    """Ends when it is closed, or when `go` is set if that was asked for."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.ended = False
        self.closing, self.go = threading.Event(), threading.Event()
        self.closes: List[Any] = []
        self.wake: Optional[Callable[[], None]] = None
        if not stubborn:
            self.go.set()

    def close(self, grace: float, reason: Optional[str]) -> None:
        self.closes.append((grace, reason))
        self.closing.set()
        wait_for(self.go)
        self.ended = True
        assert self.wake is not None
        self.wake()


class Scene:
    """Standard streams that only note what happens to them, and a parent that lives until the test ends it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, channel: FakeChannel) -> None:
        self.channel, self.notes = channel, []  # type: ignore[var-annotated]
        self.serving = threading.Event()
        self.parent, self.main = 100, Main()
        self.connecting: Callable[[], None] = lambda: None
        monkeypatch.setattr(module, "StandardStreams", self)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
        monkeypatch.setattr(os, "getppid", lambda: self.parent)

    def take(self, *, max_message_bytes: Optional[int]) -> "Scene":
        self.notes.append(f"taken {max_message_bytes}")
        return self

    def restore(self) -> None:
        self.notes.append("restored")

    def connect(self, streams: Any, wake: Callable[[], None]) -> Any:
        assert streams is self
        self.channel.wake = wake
        self.serving.set()
        self.connecting()
        return self.channel

    def serve(self, grace: float = 3) -> None:
        serve_stdio(self.connect, max_message_bytes=7, grace=grace, main=self.main)


ALL = ["taken 7", "restored"]
SIGNALLED = [(3, "the server was told to end")]


def test_the_input_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())

    def end() -> None:
        scene.channel.ended = True
        scene.channel.wake()  # type: ignore[misc]

    scene.connecting = end
    scene.serve()
    assert scene.notes == ALL and scene.channel.closes == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_and_the_old_handlers_come_back(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene = Scene(monkeypatch, FakeChannel())
    scene.connecting = lambda: os.kill(os.getpid(), number)  # before the first answer
    scene.serve()
    assert scene.notes == ALL and scene.channel.closes == SIGNALLED
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


def test_a_server_that_is_closed_lets_its_requests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    scene.connecting = lambda: scene.channel.wake()  # type: ignore[misc]
    scene.serve()
    assert scene.notes == ALL and scene.channel.closes == [(3, None)]


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_c34_the_parent_has_gone(monkeypatch: pytest.MonkeyPatch, looks: int) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    gate, parents = DeadGate(), [100] * (looks + 1) + [1]
    monkeypatch.setattr(module, "SimpleQueue", lambda: gate)
    monkeypatch.setattr(os, "getppid", lambda: parents.pop(0) if len(parents) > 1 else 1)
    scene.serve()
    assert scene.notes == ALL and scene.channel.closes == [(3, "the process that started the server has gone")]
    assert gate.looks >= looks


class DeadGate:
    """Wakes nobody."""

    def __init__(self) -> None:
        self.looks = 0

    def put(self, _: None) -> None:
        pass

    def get(self, *, timeout: float) -> None:
        """As of a queue: with a bound, so that Python comes back to signals."""
        assert 0 < timeout <= 1
        self.looks += 1
        raise Empty


def test_it_looks_often_enough_for_a_signal_that_woke_nobody() -> None:
    assert module.LOOK_SECONDS == 0.2


def test_what_says_nothing_when_it_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server over HTTP has no reader that sees the end."""
    scene = Scene(monkeypatch, FakeChannel())
    monkeypatch.setattr(module, "LOOK_SECONDS", WAIT)
    looks: List[Optional[bool]] = []
    woken = module._woken

    def look(gate: Any) -> Optional[bool]:
        looks.append(woken(gate))
        return looks[-1]

    def told() -> None:
        scene.channel.wake = lambda: None
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(module, "_woken", look)
    scene.connecting = told
    scene.serve()
    assert scene.channel.closes == SIGNALLED and None not in looks


def test_it_looks_again_when_nobody_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel(stubborn=True))
    woken: List[int] = []

    def late() -> None:
        wait_for(scene.channel.closing)
        scene.channel.wake = lambda: woken.append(1)
        scene.channel.go.set()

    scene.connecting = lambda: scene.channel.wake()  # type: ignore[misc]
    task = Task(late)
    scene.serve()
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
    signals = module._Signals(lambda: None, scene.main)
    signals._old.append((number, None))
    try:
        signals.__exit__()
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, old)


class Wanted:
    """A request for the main thread comes when the service begins, and the channel ends when it is served."""

    def __init__(self, scene: Scene, handle: Callable[[], None]) -> None:
        self._scene, self._handle = scene, handle
        self.threads: List[Any] = []
        scene.connecting = self.ask

    def ask(self) -> None:
        self._scene.main.start(exchange(self._serve))

    def _serve(self, _: Any) -> Any:
        self.threads.append(threading.current_thread())
        try:
            self._handle()
        finally:
            self._scene.channel.wake()  # type: ignore[misc]
        return {}


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handle", [lambda: None, interrupt])
def test_the_main_thread_pumps(monkeypatch: pytest.MonkeyPatch, handle: Any) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    wanted = Wanted(scene, handle)
    scene.serve()
    assert wanted.threads == [threading.main_thread()] and scene.channel.closes == [(3, None)]
    assert scene.notes == ALL and scene.main.bells == []


def test_work_that_comes_later_is_pumped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    first, served = threading.Event(), []  # type: ignore[var-annotated]

    def more() -> None:
        wait_for(first)
        scene.main.start(exchange(lambda _: served.append(2)))
        scene.main.start(exchange(lambda _: scene.channel.wake()))  # type: ignore[misc]

    scene.connecting = lambda: scene.main.start(exchange(lambda _: first.set()))
    task = Task(more)
    scene.serve()
    task.result()
    assert served == [2]


def test_another_thread_leaves_the_pumping_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    wanted = Wanted(scene, lambda: None)
    task = Task(scene.serve)
    wait_for(scene.serving)
    assert scene.main.pump(WAIT) == 1
    task.result()
    assert wanted.threads == [threading.main_thread()]


def test_without_a_thread_for_the_stand_in_it_pumps_between_looks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    wanted = Wanted(scene, lambda: None)
    with no_threads(monkeypatch, "stand-in"):
        scene.serve()
    assert wanted.threads == [threading.main_thread()] and scene.notes == ALL
    assert "nothing looks for the end" in caplog.text


@pytest.mark.parametrize("way", ["pthread_kill", "raise_signal"])
def test_a_handler_that_does_not_return_is_struck(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    scene = Scene(monkeypatch, FakeChannel())
    monkeypatch.setattr(module, "LAST_SECONDS", 0.05)
    monkeypatch.setattr(module, "STRUCK_SECONDS", WAIT)
    if way == "raise_signal":
        monkeypatch.delattr(signal, "pthread_kill")
    struck = []

    def deaf() -> None:
        scene.channel.wake()  # type: ignore[misc]
        try:
            for _ in range(1000):  # the handler of a signal runs between two waits
                threading.Event().wait(WAIT / 1000)
        except KeyboardInterrupt:
            struck.append(True)
            raise

    Wanted(scene, deaf)
    scene.serve()
    assert struck == [True] and scene.notes == ALL


def test_what_does_not_even_end_when_struck_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene, ended = Scene(monkeypatch, FakeChannel()), threading.Event()
    monkeypatch.setattr(module, "LAST_SECONDS", 0.05)
    monkeypatch.setattr(module, "STRUCK_SECONDS", 0.05)
    codes: List[int] = []

    def exit_(code: int) -> None:
        codes.append(code)
        ended.set()

    monkeypatch.setattr(os, "_exit", exit_)

    def wedged() -> None:
        scene.channel.wake()  # type: ignore[misc]
        while not ended.is_set():
            try:
                wait_for(ended)
            except KeyboardInterrupt:
                pass

    Wanted(scene, wedged)
    scene.serve()
    assert codes == [1] and "does not return" in caplog.text


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


def test_a_person_at_a_terminal_is_told_what_this_is() -> None:
    theirs, ours = os.openpty()
    try:
        started = [sys.executable, "-c", "from minimcp import Server; Server('x').run()"]
        os.write(theirs, b"\x04")  # Ctrl-D: the end of the input
        done = subprocess.run(started, stdin=ours, stdout=PIPE, stderr=PIPE, cwd=ROOT, timeout=WAIT, check=True)
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == b""
    assert done.stderr.startswith(b"this is a server: it waits for a client at stdin") and done.stderr.count(b"\n") == 1
