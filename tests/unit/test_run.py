"""`Server.run`: what ends it, what signals do, and that everything is put back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE
from typing import Any, Callable, List, Optional

import pytest

from minimcp.features.executors import Main
from minimcp.server import run as module
from minimcp.server.run import Run

from ..scripted import Task, wait_for
from ..support import ROOT, WAIT, around, eventually
from .requests import config
from .test_executors import exchange, interrupt

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
SIGNALLED = [(module.EXIT_SECONDS, "the server received a signal to stop")]


class Scene:
    """Something that is served: it ends when it is closed, or where it is stubborn when the test
    lets it go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, stubborn: bool = False) -> None:
        self.ended = False
        self.closing, self.go, self.serving = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self.closes: List[Any] = []
        self.parent = 100
        self.config = config()
        self.main: Main = self.config.feature("executors").main
        self.connecting: Callable[[], None] = lambda: None
        self.run: Optional[Run] = None
        if not stubborn:
            self.go.set()
        monkeypatch.setattr(os, "getppid", lambda: self.parent)
        monkeypatch.setattr(module, "PARENT_CHECK_SECONDS", 0.01)
        monkeypatch.setattr(
            os, "_exit", bool
        )  # which the watcher calls where the main thread is slow to return

    def close(self, grace: float, reason: Optional[str]) -> None:
        self.closes.append((grace, reason))
        self.closing.set()
        wait_for(self.go)
        self.ended = True

    def wake(self) -> None:
        assert self.run is not None
        self.run.wake()

    def serve(self, **options: Any) -> None:
        self.run = Run(lambda: self.main, 3, with_parent=True, **options)

        def connect() -> Any:
            self.serving.set()
            self.connecting()
            return self

        self.run.serve(connect)

    def want_main(self, handle: Callable[[], object]) -> None:
        self.main.enqueue(exchange(lambda _: handle(), of=self.config))


def no_watcher() -> bool:
    return eventually(
        lambda: "minimcp-run" not in [thread.name for thread in threading.enumerate()]
    )


def test_a_server_that_ends_by_itself_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)

    def end() -> None:
        scene.ended = True
        scene.wake()

    scene.connecting = end
    scene.serve()
    assert scene.closes == [] and no_watcher()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_and_the_old_handlers_are_restored(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    own, found = lambda *_: None, {each: signal.getsignal(each) for each in SIGNALS}
    scene = Scene(monkeypatch)
    scene.connecting = lambda: os.kill(os.getpid(), number)  # before the first answer
    try:
        for each in SIGNALS[1:]:
            signal.signal(each, own)
        scene.serve()
        after = [signal.getsignal(each) for each in SIGNALS]
    finally:
        for each, handler in found.items():
            signal.signal(each, handler)
    assert scene.closes == SIGNALLED and no_watcher()
    assert after == [found[SIGNALS[0]], own, own] and signal.set_wakeup_fd(-1) == -1


@pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="needs SIGUSR1, which Windows does not have"
)
def test_a_signal_of_the_author_s_own_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, came = Scene(monkeypatch), threading.Event()
    looked: List[bytes] = []

    def wait(look: Callable[[Run, float], bytes], run: Run, seconds: float) -> bytes:
        looked.append(look(run, seconds))
        return looked[-1]

    around(monkeypatch, Run, "_wait", wait)
    before = signal.signal(signal.SIGUSR1, lambda *_: came.set())
    try:
        scene.connecting = lambda: os.kill(os.getpid(), signal.SIGUSR1)
        scene.want_main(
            lambda: wait_for(came) or eventually(lambda: len(looked) > 1) and scene.wake()
        )
        scene.serve()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came.is_set() and scene.closes == [(3, None)] and no_watcher()


def test_a_server_that_is_closed_lets_its_requests_run(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.connecting = lambda: [scene.wake() for _ in range(3)] and None
    scene.serve()
    assert scene.closes == [(3, None)] and no_watcher()
    scene.wake()  # too late for anything


def test_c34_the_parent_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.connecting = lambda: setattr(scene, "parent", 1)
    scene.serve()
    assert scene.closes == [(3, "the process that started the server has ended")] and no_watcher()


def test_in_another_thread_it_neither_handles_signals_nor_pumps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene, threads = Scene(monkeypatch), []  # type: ignore[var-annotated]
    task = Task(scene.serve)
    wait_for(scene.serving)
    assert [signal.getsignal(each) for each in SIGNALS] == before
    scene.want_main(lambda: threads.append(threading.current_thread()))
    assert scene.main.pump(WAIT) == 1 and threads == [threading.main_thread()]
    scene.wake()
    task.result()


@pytest.mark.parametrize("taken", [True, False])
def test_each_signal_counts_once_however_it_arrives(
    monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """With the interpreter's wake-up byte and without it, one signal waits for running requests and
    two do not."""
    monkeypatch.setattr(module, "SIGNAL_SECONDS", WAIT)
    scene, counts = Scene(monkeypatch, stubborn=True), []  # type: ignore[var-annotated]

    def signals() -> int:
        assert scene.run is not None
        return scene.run.signal_count

    def stop() -> None:
        if taken:
            signal.set_wakeup_fd(-1)
        signal.raise_signal(signal.SIGTERM)
        assert eventually(scene.closing.is_set)
        counts.append(signals())
        signal.raise_signal(signal.SIGTERM)
        assert eventually(lambda: signals() == 2)

    scene.connecting = lambda: scene.want_main(stop)
    scene.serve()
    assert counts == [1] and not scene.ended
    scene.go.set()
    assert no_watcher()


def test_an_event_loop_on_the_main_thread_gives_the_signals_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, near = Scene(monkeypatch), os.pipe()
    os.set_blocking(near[1], False)

    def take() -> None:
        signal.set_wakeup_fd(near[1])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        scene.want_main(lambda: signal.raise_signal(signal.SIGTERM))

    scene.connecting = lambda: scene.want_main(take)
    try:
        scene.serve()
    finally:
        for number in near:
            os.close(number)
    assert scene.closes == SIGNALLED and no_watcher()


def test_an_ignored_signal_stays_ignored_and_a_handler_that_is_not_pythons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        scene, seen = Scene(monkeypatch), []  # type: ignore[var-annotated]
        with monkeypatch.context() as patch:
            patch.delattr(signal, "SIGTERM")

            def look() -> None:
                seen.append(signal.getsignal(signal.SIGHUP))
                scene.wake()

            scene.connecting = look
            scene.serve()
        assert seen == [signal.SIG_IGN] == [signal.getsignal(signal.SIGHUP)]
    finally:
        signal.signal(signal.SIGHUP, old)


@pytest.mark.parametrize("last", [lambda: None, lambda: interrupt(None)])  # type: ignore[arg-type]
def test_the_main_thread_pumps(monkeypatch: pytest.MonkeyPatch, last: Any) -> None:
    scene, threads = Scene(monkeypatch), []  # type: ignore[var-annotated]

    def end() -> None:
        threads.append(threading.current_thread())
        scene.wake()
        last()

    def ask() -> None:
        threads.append(threading.current_thread())
        Task(scene.want_main, end).result()

    scene.connecting = lambda: scene.want_main(ask)
    scene.serve()
    assert threads == [threading.main_thread()] * 2 and scene.closes == [(3, None)]


def test_a_server_that_does_not_close_in_time_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIGNAL_SECONDS", 0.05)
    scene = Scene(monkeypatch, stubborn=True)
    scene.connecting = lambda: signal.raise_signal(signal.SIGTERM)
    scene.serve()
    assert not scene.ended and scene.closing.is_set()
    scene.go.set()


def test_a_failed_start_restores_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    scene = Scene(monkeypatch)

    def fail() -> None:
        raise RuntimeError("no threads")

    scene.connecting = fail
    with pytest.raises(RuntimeError):
        scene.serve()
    assert [signal.getsignal(each) for each in SIGNALS] == before and signal.set_wakeup_fd(-1) == -1


def test_at_a_terminal_it_explains_what_it_is() -> None:
    theirs, ours = os.openpty()
    try:
        started = [sys.executable, "-c", "from minimcp import Server; Server('x').run()"]
        os.write(theirs, b"\x04")  # Ctrl-D: the end of the input
        done = subprocess.run(
            started, stdin=ours, stdout=PIPE, stderr=PIPE, cwd=ROOT, timeout=WAIT, check=True
        )
    finally:
        os.close(theirs)
        os.close(ours)
    assert done.stdout == b""
    told, empty = done.stderr.splitlines()
    assert told.startswith(b"this is a server: it waits for a client on stdin")
    assert empty.startswith(b"the server 'x' has no tools, resources or prompts")


def test_a_script_imported_by_its_own_tools_is_warned_that_it_exists_twice(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "from minimcp import Server\nserver = Server('x')\n"
        "if __name__ == '__main__':\n    import tools\n    server.run()\n"
    )
    (tmp_path / "tools.py").write_text(
        "from server import server\n@server.tool\ndef add(a: int) -> int:\n    'Add.'\n    return a\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, timeout=WAIT, env=environment
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == b""
    assert b"has no tools, resources or prompts" in done.stderr and b"two servers" in done.stderr
