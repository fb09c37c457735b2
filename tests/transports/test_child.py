"""A server as a child process: how it starts, how it ends, what is left."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from minimcp.stdio.process import Process

from minimcp.errors import ConnectionFailed, ConnectionLost
from minimcp.stdio import child, stderr
from minimcp.stdio.child import ChildTransport, StdioServer

from ..support import WAIT, child_processes, eventually
from .ends import Task, receive_all, receive_some

PYTHON = [sys.executable, "-I", "-S", "-u", "-c"]

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)"

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready")
while True: time.sleep(60)
"""

GRANDCHILD = """
import os, signal, sys, time
if os.fork() == 0:
    %s
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
%s
"""


class Opener:
    """Starts servers and closes them after the test."""

    def __init__(self) -> None:
        self.pipes: List[ChildTransport] = []

    def __call__(self, code: str, *arguments: str, **options: Any) -> ChildTransport:
        taker = options.pop("stderr", lambda line: None)
        self.pipes.append(ChildTransport.start(StdioServer([*PYTHON, code, *arguments], **options), stderr=taker))
        return self.pipes[-1]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    for name in ("SETTLE", "CONSUMER"):  # a machine may stand still; what must be quick says so
        monkeypatch.setattr(ChildTransport, f"{name}_SECONDS", WAIT)
    monkeypatch.setattr(stderr, "PATIENCE_SECONDS", WAIT)
    opener = Opener()
    yield opener
    for pipe in opener.pipes:
        pipe.close()


def exists(pid: int) -> bool:
    """Whether a process runs (a zombie that nobody reaps does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def number_from(pipe: ChildTransport) -> int:
    """What the next line says."""
    (line,) = receive_some(pipe, 1)
    assert isinstance(line, bytes)
    return int(line)


@pytest.mark.requirement("STDIO-01", "LIFE-26", "M:STD-9")
def test_a_polite_server_ends_with_its_input(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    signals: List[int] = []
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", WAIT * 3)
    monkeypatch.setattr(os, "killpg", lambda group, number: signals.append(number))
    pipe = serve(ECHO)
    assert pipe.send(b"x\n", WAIT) == 2
    assert pipe.receive() == [b"x"]
    assert repr(pipe) == f"<ChildTransport {pipe.name!r} pid {pipe.pid} is still running>"
    pipe.close()
    assert signals == []
    assert repr(pipe).endswith("exited with code 0>")
    assert pipe.pid not in child_processes()


@pytest.mark.requirement("LIFE-26", "M:STD-9")
def test_k20_a_server_that_ignores_everything_is_killed(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", 0.1)
    pipe = serve(STUBBORN)
    assert pipe.receive() == [b"ready"]
    pipe.close()
    assert pipe.pid not in child_processes()
    error = pipe.lost("closed")
    assert (error.exit_code, error.signal) == (None, signal.SIGKILL)
    assert "was killed by signal 9" in str(error)


def test_k20_the_defaults() -> None:
    assert (ChildTransport.CLOSE_SECONDS, ChildTransport.SETTLE_SECONDS) == (2.0, 0.5)


def test_a_server_that_ignores_the_end_of_input_gets_sigterm(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = serve("import time\nprint('ready')\nwhile True: time.sleep(60)")
    assert pipe.receive() == [b"ready"]
    pipe.grace, terminate = 0.05, Process.terminate

    def patiently(process: Process) -> None:
        pipe.grace = WAIT
        terminate(process)

    monkeypatch.setattr(Process, "terminate", patiently)
    pipe.close()
    assert pipe.lost("closed").signal == signal.SIGTERM


def test_k21_a_grandchild_that_holds_the_pipes_delays_nothing(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", WAIT * 3)
    pipe = serve(GRANDCHILD % ("", "sys.stdin.read()"))
    grandchild = number_from(pipe)
    reading = Task(pipe.receive)
    Task(pipe.close).result(WAIT)
    assert reading.result() == []
    assert exists(grandchild), "a server that ends when asked may leave something behind on purpose"
    os.kill(grandchild, signal.SIGKILL)
    assert eventually(lambda: not exists(grandchild))


@pytest.mark.parametrize("first", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_k21_a_group_that_must_be_killed_is_killed_whole(
    serve: Opener, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", 0.1)
    pipe = serve(GRANDCHILD % (first, "time.sleep(60)"))
    grandchild = number_from(pipe)
    pipe.close()
    assert eventually(lambda: not exists(grandchild))


def test_a_server_is_not_in_our_group(serve: Opener) -> None:
    pipe = serve(ECHO)
    assert os.getpgid(pipe.pid) == pipe.pid != os.getpgid(0)
    assert os.getsid(pipe.pid) == pipe.pid


def test_a_server_that_still_has_much_to_say_can_end(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", WAIT * 3)
    pipe = serve("import sys\nsys.stdin.read()\nsys.stdout.write('x' * 5_000_000)\nsys.exit(4)")
    pipe.close()
    assert pipe.lost("closed").exit_code == 4


def test_a_server_that_closes_its_output_and_ends_later(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", WAIT * 3)
    pipe = serve("import os, sys\nos.close(1)\nsys.stdin.read()\nos._exit(5)")
    assert receive_all(pipe) == []
    pipe.close()
    assert pipe.lost("closed").exit_code == 5


@pytest.mark.parametrize("code", [0, 3, 255])
def test_k01_the_exit_code(serve: Opener, code: int) -> None:
    pipe = serve(f"import sys\nprint('half', end='')\nprint('oh \\x1b[1m no', file=sys.stderr)\nsys.exit({code})")
    assert receive_all(pipe) == [b"half"]
    error = pipe.lost("the peer closed the connection")
    assert (error.exit_code, error.signal, error.stderr_tail) == (code, None, "oh \x1b[1m no\n")
    assert f"the peer closed the connection; the server exited with code {code}" in str(error)
    assert "its stderr ended with:\n    oh \\x1b[1m no" in str(error)
    assert sys.executable in str(error)


def test_k01_the_signal(serve: Opener) -> None:
    pipe = serve("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert receive_all(pipe) == []
    error = pipe.lost("gone")
    assert (error.exit_code, error.signal, error.stderr_tail) == (None, signal.SIGKILL, "")
    assert str(error).endswith("gone; the server was killed by signal 9")


def test_k01_lost_while_it_runs(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "SETTLE_SECONDS", 0.05)
    pipe = serve("import os, sys\nos.close(1)\nsys.stdin.read()")
    assert receive_all(pipe) == []
    for _ in range(3):
        error = pipe.lost("its output ended")
        assert (error.exit_code, error.signal) == (None, None)
        assert str(error).endswith("its output ended; the server is still running")


def test_sending_to_a_dead_server_says_how_it_ended(serve: Opener) -> None:
    pipe = serve("import sys\nsys.exit('no configuration')")
    assert receive_all(pipe) == []

    raised: List[ConnectionLost] = []

    def refused() -> bool:
        try:
            pipe.send(b"x\n", WAIT)
        except ConnectionLost as error:
            raised.append(error)
            return True
        return False

    assert eventually(refused)
    assert (raised[0].exit_code, raised[0].stderr_tail) == (1, "no configuration\n")
    assert isinstance(raised[0].__cause__, OSError)
    assert "exited with code 1" in str(raised[0])


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("import sys\nprint('ready')\nsys.stdin.readline()\nsys.exit(3)", True),
        ("import os\nos.read(0, 1)\nos._exit(3)", True),
        ("import sys\nprint('ready')\nsys.exit(3)", False),
    ],
)
def test_whether_what_was_sent_was_read(serve: Opener, code: str, read: bool) -> None:
    pipe = serve(code)
    try:
        pipe.send(b"x" * 1000 + b"\n", WAIT)
    except ConnectionLost:
        pass  # it was quicker, and has read nothing
    receive_all(pipe)
    assert pipe.was_read() or not read
    pipe.lost("gone")
    assert pipe.was_read() == read
    pipe.close()
    assert pipe.was_read() == read


def test_what_was_never_sent_was_not_read(serve: Opener) -> None:
    pipe = serve("pass")
    receive_all(pipe)
    pipe.lost("gone")
    assert not pipe.was_read()


def test_what_cannot_be_told_may_have_been_read(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "SETTLE_SECONDS", 0.05)  # it lives on

    def refuse(*_: Any) -> None:
        raise OSError("no such request")

    for name, value in (("fcntl", None), ("ioctl", refuse)):
        with monkeypatch.context() as patch:
            patch.setattr(child if value is None else fcntl, name, value)
            pipe = serve("import os, time\nprint('ready')\nos.close(1)\ntime.sleep(60)")
            assert pipe.send(b"x\n", WAIT) == 2
            assert receive_all(pipe) == [b"ready"]
            pipe.grace = 0.0
            pipe.lost("gone")
            pipe.close()
            assert pipe.was_read()
    assert pipe.lost("gone").signal is not None


def test_a_grace_of_its_own(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChildTransport, "CLOSE_SECONDS", WAIT * 3)
    pipe = serve(STUBBORN)
    assert pipe.grace == WAIT * 3
    pipe.grace = 0.05
    assert pipe.receive() == [b"ready"]
    Task(pipe.close).result(WAIT)
    assert pipe.lost("closed").signal == signal.SIGKILL


FIRST = b"one\ntwo\nthr"


@pytest.mark.parametrize(
    ("second", "shown"),
    [
        (b"", b""),
        (FIRST, b""),
        (b"one\n", b""),
        (b"one\ntw", b"tw"),
        (b"one\ntoo\nthr", b"too\nthr"),
        (FIRST + b"ee\nfour", b"three\nfour"),
        (b"One\n" + FIRST, b"One\n" + FIRST),
    ],
)
def test_what_an_earlier_start_has_shown_is_not_shown_again(second: bytes, shown: bytes) -> None:
    for step in (1, 2, 100):
        taken: List[bytes] = []
        take = child._beyond(FIRST, taken.append)
        for start in range(0, len(second), step):
            take(second[start : start + step])
        assert b"".join(taken) == shown[: len(b"".join(taken))]
        take(b"")
        assert b"".join(taken) == shown and taken[-1] == b""


@pytest.mark.requirement("STDIO-07", "M:STD-4")
def test_k09_a_flood_on_stderr(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: List[int] = []

    def count(line: str) -> None:
        taken.append(len(line))

    flood = "import sys\nfor _ in range(20): sys.stderr.write(('x' * 1023 + chr(10)) * 1024)\n"
    monkeypatch.setattr(ChildTransport, "STDERR_SECONDS", WAIT)
    pipe = serve(flood + "sys.stderr.write('the end')\nprint('alive')\nsys.stdin.read()", stderr=count)
    assert pipe.receive() == [b"alive"]
    pipe.close()
    assert len(pipe.stderr_tail) == 64 * 1024
    assert pipe.stderr_tail.endswith("x\nthe end")
    assert sum(taken) == 20 * 1024 * 1023 + len("the end")


def test_k10_close_while_a_send_waits(serve: Opener) -> None:
    pipe = serve("import sys, time\nprint('ready')\ntime.sleep(60)")
    assert pipe.receive() == [b"ready"]
    assert 0 < pipe.send(b"x" * 5_000_000, 0.05) < 5_000_000
    waiting = Task(pipe.send, b"x" * 5_000_000, WAIT * 3)
    os.kill(pipe.pid, signal.SIGTERM)
    with pytest.raises(ConnectionLost) as raised:
        waiting.result()
    assert raised.value.signal == signal.SIGTERM
    pipe.close()


def test_k22_two_hundred_clients_leave_nothing() -> None:
    threads, files, before = threading.active_count(), len(os.listdir("/proc/self/fd")), child_processes()
    for _ in range(200):
        pipe = ChildTransport.start(StdioServer(["cat"]))
        assert pipe.send(b"x\n", WAIT) == 2
        assert pipe.receive() == [b"x"]
        pipe.close()
    assert eventually(lambda: threading.active_count() == threads)
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) == files)
    assert child_processes() == before


def test_many_clients_at_once() -> None:
    def run() -> bytes:
        pipe = ChildTransport.start(StdioServer(["cat"]))
        pipe.send(b"x\n", WAIT)
        line = pipe.receive()[0]
        pipe.close()
        assert isinstance(line, bytes)
        return line

    assert [task.result() for task in [Task(run) for _ in range(30)]] == [b"x"] * 30


def failures(folder: Path) -> "dict[str, tuple[StdioServer, str]]":
    """Servers that cannot start, and what the error says about each."""
    plain = folder / "plain"
    plain.write_text("no program")
    program = folder / "program"
    program.write_text("no program either")
    program.chmod(0o755)
    return {
        "no program": (StdioServer([folder / "absent", "-x"]), "absent -x: there is no such program"),
        "not on the path": (StdioServer(["no-such-program-here"]), "there is no such program"),
        "not executable": (StdioServer([plain]), "it is not executable"),
        "not a program": (StdioServer([program]), "Exec format error"),
        "cwd missing": (StdioServer(["cat"], cwd=folder / "absent"), "absent' is no directory"),
        "cwd is a file": (StdioServer(["cat"], cwd=plain), "plain' is no directory"),
        "env name": (StdioServer(["cat"], env={"A=B": "secret"}), "illegal environment variable name"),
        "env nul": (StdioServer(["cat"], env={"A": "sec\0ret"}), "embedded null byte"),
        "argument nul": (StdioServer(["cat", "a\0b"]), "embedded null byte"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "no program",
        "not on the path",
        "not executable",
        "not a program",
        "cwd missing",
        "cwd is a file",
        "env name",
        "env nul",
        "argument nul",
    ],
)
def test_k23_what_cannot_start_leaves_nothing(case: str, tmp_path: Path) -> None:
    server, words = failures(tmp_path)[case]
    threads, files = threading.active_count(), sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(ConnectionFailed, match="cannot start ") as raised:
        ChildTransport.start(server)
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is not None
    assert (threading.active_count(), sorted(os.listdir("/proc/self/fd"))) == (threads, files)
    assert child_processes() == frozenset()


def test_without_a_thread_for_stderr_the_server_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(os.listdir("/proc/self/fd"))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ConnectionFailed, match="can't start new thread"):
        ChildTransport.start(StdioServer(["cat"]))
    assert child_processes() == frozenset()
    assert sorted(os.listdir("/proc/self/fd")) == files


def test_without_descriptors_nothing_starts() -> None:
    files = sorted(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    failed = 0
    for free in range(16):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, files)) + 20, limits[1]))
        taken = []
        try:
            while True:
                taken.append(os.dup(2))
        except OSError:
            for number in taken[:free]:
                os.close(number)
        try:
            ChildTransport.start(StdioServer(["cat"])).close()
        except ConnectionFailed as error:
            failed += "Too many open files" in str(error)
        finally:
            for number in taken[free:]:
                os.close(number)
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert sorted(os.listdir("/proc/self/fd")) == files, free
        assert child_processes() == frozenset()
    assert failed > 8


def test_what_stderr_may_be() -> None:
    with pytest.raises(TypeError, match="not int"):
        ChildTransport.start(StdioServer(["cat"]), stderr=3)


def test_env_cwd_and_the_name(serve: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIMCP_TEST", "inherited")
    code = "import os\nprint(os.environ.get('MINIMCP_TEST'), os.environ.get('ADDED'), os.getcwd())"
    folder = os.path.realpath(tmp_path)
    pipe = serve(code, env={"ADDED": "yes"}, cwd=tmp_path)
    assert pipe.receive() == [f"inherited yes {folder}".encode()]
    assert "import os\\nprint" in pipe.name
    alone = serve(code, env={"ADDED": "yes"}, inherit_env=False, cwd=folder)
    assert alone.receive() == [f"None yes {folder}".encode()]
    assert len(serve("pass" + " " * 500 + "#").name) < 250


def test_a_server_description_checks_itself() -> None:
    server = StdioServer(("cat", Path("file")), env={"TOKEN": "secret"}, cwd="/")
    assert (server.command, server.cwd, server.inherit_env) == (("cat", "file"), "/", True)
    assert repr(server) == "StdioServer(['cat', 'file'], env=['TOKEN'], cwd='/')"
    for wrong in ("cat file", b"cat", None, ["cat", b"x"], [1]):
        with pytest.raises(TypeError):
            StdioServer(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="env"):
        StdioServer(["cat"], env={"A": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="empty"):
        StdioServer([])


@pytest.mark.requirement("LIFE-26")
def test_an_interrupted_close_is_finished_by_the_next(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = serve(ECHO)
    with monkeypatch.context() as patch:

        def interrupt(*_: Any) -> bool:
            raise KeyboardInterrupt

        patch.setattr(Process, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pipe.close()
    pipe.close()
    assert pipe.pid not in child_processes()


def test_a_fork_lets_the_server_live(serve: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = serve(ECHO)
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        assert "server" not in str(pipe.lost("x"))
    assert pipe.send(b"x\n", WAIT) == 2
    assert pipe.receive() == [b"x"]


def test_a_fork_that_closes_sends_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(os.listdir("/proc/self/fd"))
    pipe = ChildTransport.start(StdioServer([*PYTHON, STUBBORN]))
    assert pipe.receive() == [b"ready"]
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        patch.setattr(os, "killpg", None)
        pipe.close()
        pipe.close()
    assert sorted(os.listdir("/proc/self/fd")) == files
    assert exists(pipe.pid)
    os.kill(pipe.pid, signal.SIGKILL)
    os.waitpid(pipe.pid, 0)


def test_the_close_of_a_stderr_consumer(serve: Opener) -> None:
    closed = threading.Event()

    def close(line: str) -> None:
        pipes[0].close()
        closed.set()

    pipes = [serve("import sys\nsys.stdin.readline()\nprint('line', file=sys.stderr)\nsys.stdin.read()", stderr=close)]
    pipes[0].send(b"go\n", WAIT)
    assert closed.wait(WAIT)
    assert pipes[0].receive() == []
