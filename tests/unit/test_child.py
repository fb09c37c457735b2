"""A server as a child process: how it is started, spoken to, heard and ended; and this process's
own streams."""

from __future__ import annotations

import errno
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, List, Optional

import pytest

from minimcp.engine.transport import StreamTransport
from minimcp.errors import ConnectionFailed, ConnectionLost
from minimcp.stdio import child
from minimcp.stdio.child import ChildTransport, StdioServer

from ..scripted import no_threads
from ..support import ROOT, WAIT, child_processes, open_descriptors

Start = Callable[..., ChildTransport]
ECHO = "import sys\nfor line in sys.stdin.buffer:\n sys.stdout.buffer.write(line.strip()+b'!\\n'); sys.stdout.flush()"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    for name in ("SETTLE_SECONDS", "STDERR_SECONDS", "CONSUMER_SECONDS", "PATIENCE_SECONDS"):
        monkeypatch.setattr(child, name, WAIT)
    started: List[ChildTransport] = []

    def start(
        code: str, *, grace: float = WAIT, stderr: Any = lambda line: None, **options: Any
    ) -> ChildTransport:
        server = StdioServer([sys.executable, "-c", code], **options)
        started.append(ChildTransport(server, stderr=stderr, limit=None, grace=grace))
        return started[-1]

    yield start
    for transport in started:
        transport.close()
    assert not child_processes()


@pytest.mark.parametrize(("arguments", "error", "words"), [
    (("python server.py",), TypeError, "must be a list"), (([],), ValueError, "is empty"),
    ((["a", 5],), TypeError, "command must contain only str, not int"),
])  # fmt: skip
def test_a_command_is_a_list_of_words(arguments: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        StdioServer(*arguments)


def test_the_error_for_stderr_of_a_server_names_the_option_of_connect() -> None:
    with pytest.raises(
        TypeError, match=r"no option stderr=: write connect\(\.\.\., stderr=\.\.\.\)"
    ):
        StdioServer(["a"], stderr=sys.stderr)


def test_a_server_keeps_its_environment_secret(tmp_path: Path) -> None:
    server = StdioServer(["a", tmp_path], env={"TOKEN": "secret"}, cwd=tmp_path)
    assert server.environment()["TOKEN"] == "secret" and "PATH" in server.environment()
    assert StdioServer(["a"], env={"A": "b"}, inherit_env=False).environment() == {"A": "b"}
    assert "TOKEN" in repr(server) and "secret" not in repr(server)
    with pytest.raises(TypeError, match="env must contain only str"):
        StdioServer(["a"], env={"A": 5})  # type: ignore[dict-item]


@pytest.mark.parametrize(("command", "options", "words"), [
    (["/no/such/program"], {}, "there is no such program"), ([str(ROOT / "README.rst")], {}, "it is not executable"),
    ([sys.executable, "-c", "a\nb"], {"cwd": "/no/such/place"}, "'/no/such/place' is not a directory"),
    ([sys.executable, "\0"], {}, "null byte"),
])  # fmt: skip
def test_why_it_cannot_be_started(command: List[str], options: Any, words: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ConnectionFailed, match="^cannot start .*" + words):
        ChildTransport(StdioServer(command, **options), limit=None)
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_threads_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with no_threads(monkeypatch), pytest.raises(ConnectionFailed, match="new thread"):
        ChildTransport(StdioServer([sys.executable, "-c", ECHO]), limit=None)
    assert not child_processes() and len(os.listdir("/proc/self/fd")) == before


def test_nothing_is_left_behind_if_another_thread_takes_the_last_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, dup, left = open_descriptors(), os.dup, [1, 2]

    def scarce(number: int) -> int:
        if not left:
            raise OSError(errno.EMFILE, "Too many open files")
        left.pop()
        return dup(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", scarce)
        with pytest.raises(ConnectionFailed, match="^cannot start .*Too many open files"):
            ChildTransport(StdioServer([sys.executable, "-c", ECHO]), limit=None)
    assert not child_processes() and open_descriptors() == before


def test_the_authors_lines_of_a_traceback_are_shown(start: Start) -> None:
    lost = start("import minimcp\nserver = minimcp.Server('s')\nserver.tool(lambda a: a)").loss("x")
    shown = str(lost).partition("its stderr ended with:\n")[2]
    assert (
        "TypeError: <lambda>" in shown
        and "minimcp" not in shown.partition("TypeError")[0]
        and "<string>" in shown
    )


def test_the_exit_status_and_the_last_output(start: Start) -> None:
    transport = start("import sys; print('\\x1b[2Jlast words', file=sys.stderr); sys.exit(3)")
    assert transport.receive() == []
    lost = transport.loss("the peer closed the connection")
    assert lost.exit_code == 3 and lost.signal is None and lost.stderr_tail == "\x1b[2Jlast words\n"
    assert "exited with code 3\nits stderr ended with:\n    \\x1b[2Jlast words" in str(lost)
    assert not transport.peer_has_read() or transport.sent
    killed = start("import os, sys; sys.stdin.readline(); os.kill(os.getpid(), 9)")
    killed.send(b"x\n", 0)
    assert killed.receive() == [] and killed.loss("x").signal == 9 and killed.peer_has_read()
    assert "exited with code 3" in repr(transport) and "was killed by signal" in repr(killed)


def test_a_child_that_never_read_its_input(start: Start) -> None:
    transport = start("import time; time.sleep(600)")
    transport.send(b"unread\n", 0)
    os.kill(transport.pid, signal.SIGKILL)
    assert transport.receive() == []
    transport.loss("x")
    assert not transport.peer_has_read()


def test_a_descendant_that_holds_the_pipes_holds_up_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STDERR_SECONDS", 0.01)
    code = (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=0,"
        " start_new_session=True)\nprint('said', flush=True)"
    )
    transport = start(code)
    assert transport.receive() == [b"said"] and transport.receive() == []


def test_in_a_fork_the_child_belongs_to_its_parent(start: Start) -> None:
    transport = start(ECHO)
    pid = os.fork()
    if not pid:  # pragma: no cover - another process
        transport.close_in_fork()
        transport.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    transport.send(b"one\n", 0)
    assert transport.receive() == [b"one!"]


def test_in_a_fork_nothing_of_a_closed_transport_is_closed_again(start: Start) -> None:
    before = set(open_descriptors())
    transport = start(ECHO)
    own = set(open_descriptors()) - before
    transport.close()
    others = [
        os.open(os.devnull, os.O_RDONLY) for _ in range(len(own) + 20)
    ]  # their numbers are the lowest free
    transport.close_in_fork()
    for number in others:
        os.close(number)  # or it raises, because another thread has closed it
    assert own and own <= set(others)


TALKING = "import sys\nsys.stderr.buffer.write(b'one\\r\\ntwo \\xff\\nlast'); sys.stderr.flush()"


def test_stderr_goes_where_it_is_wanted(
    start: Start, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("INFO")
    lines: List[str] = []
    text, binary, bare = io.StringIO(), io.BytesIO(), Bare()
    for wanted in (lines.append, text, binary, bare, logging.getLogger("child")):
        transport = start(TALKING, stderr=wanted)
        assert transport.receive() == []
        transport.close()
        assert transport.stderr_tail == "one\r\ntwo \N{REPLACEMENT CHARACTER}\nlast"
    assert (
        lines
        == ["one", "two \N{REPLACEMENT CHARACTER}", "last"]
        == [r.getMessage() for r in caplog.records[:3]]
    )
    assert (
        text.getvalue() == transport.stderr_tail
        and binary.getvalue() == b"one\r\ntwo \xff\nlast" == bare.got
    )
    with pytest.raises(
        TypeError, match="stderr must be None, a file, a logger or a callable, not int"
    ):
        start(TALKING, stderr=5)


class Bare:
    """Something with nothing but ``write``."""

    got = b""

    def write(self, data: bytes) -> None:
        self.got += data


def test_output_on_stderr_is_kept_even_if_its_reader_is_slow(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()

    class Ended(threading.Event):
        def wait(self, timeout: Optional[float] = None) -> bool:
            if (
                timeout != child.STDERR_SECONDS
            ):  # `close` has waited for the exit, and now reads the remaining output
                may_read.set()
            return super().wait(timeout)

    def read(self: StreamTransport) -> Optional[bytes]:
        may_read.wait(WAIT)
        return StreamTransport.read(self)

    monkeypatch.setattr(child._Stderr, "read", read)
    monkeypatch.setattr(child, "STDERR_SECONDS", 0.1)
    binary = io.BytesIO()
    transport = start(TALKING, stderr=binary)
    transport._stderr.ended = Ended()
    assert transport.receive() == [] and not may_read.is_set()
    transport.close()
    assert binary.getvalue() == b"one\r\ntwo \xff\nlast"


def test_stderr_goes_to_our_own_by_default() -> None:
    code = (
        "import sys; from minimcp.stdio.child import *\n"
        f"t = ChildTransport(StdioServer([sys.executable, '-c', {TALKING!r}"
        "]), limit=None)\nt.receive(); t.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, cwd=ROOT, timeout=WAIT
    )
    assert done.stderr == b"one\r\ntwo \xff\nlast"
    closed = [sys.executable, "-c", "import os; os.close(2)\n" + code]
    assert subprocess.run(closed, cwd=ROOT, timeout=WAIT).returncode == 0


def test_a_consumer_that_raises_or_never_returns_blocks_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines: List[str] = []

    def fail(line: str) -> None:
        lines.append(line)
        raise LookupError(line[:5])

    transport = start(TALKING, stderr=fail)
    assert transport.receive() == []
    transport.close()
    assert caplog.text.count("its consumer raised") == 1 and lines == ["one", "two \ufffd", "last"]

    for name in ("PATIENCE_SECONDS", "CONSUMER_SECONDS"):
        monkeypatch.setattr(child, name, 0.01)
    monkeypatch.setattr(child, "QUEUED_PIECES", 1)
    flood = "import sys\nfor n in range(300): sys.stderr.write('x' * 65536); sys.stderr.flush()"
    release = threading.Event()
    transport = start(flood, stderr=lambda line: release.wait(WAIT))
    assert transport.receive() == []
    transport.close()
    assert caplog.text.count("text is dropped") == 1 and "does not return" in caplog.text
    release.set()


def test_a_line_without_end_is_cut(start: Start) -> None:
    lines: List[str] = []
    transport = start("import sys; sys.stderr.write('x' * 200_000)", stderr=lines.append)
    assert transport.receive() == []
    transport.close()
    assert sum(map(len, lines)) == 200_000 and len(transport.stderr_tail) == 65536


SERVE = """
import os, sys
from minimcp.stdio.streams import StandardStreams
transport = StandardStreams.take(None)
while True:
    frames = transport.receive()
    if not frames: break
    for frame in frames:
        {each}
        rest = frame + b"!\\n"
        while rest: rest = rest[transport.send(rest, 5):]
transport.close()
transport.close()
transport.restore()
{after}
"""


def serve(each: str = "pass", after: str = "pass") -> List[str]:
    return [sys.executable, "-c", SERVE.format(each=each, after=after)]


def run(command: List[str], **options: Any) -> Any:
    return subprocess.run(command, stderr=subprocess.PIPE, cwd=ROOT, timeout=WAIT, **options)


def test_no_other_code_uses_the_streams_while_a_server_has_them() -> None:
    each = "print('printed'); os.write(1, b'written\\n'); assert sys.stdin.read() == ''"
    done = run(
        serve(each, "os.write(1, b'back\\n'); print('after')"),
        input=b"one\n",
        stdout=subprocess.PIPE,
    )
    assert done.stdout == b"one!\nback\nafter\n" and sorted(done.stderr.split()) == [
        b"printed",
        b"written",
    ]
    assert (
        run(
            serve("import ctypes; ctypes.CDLL(None).puts(b'of C')"), input=b"one\n", stdout=-1
        ).stdout
        == b"one!\n"
    )


@pytest.mark.parametrize("closed", ["0", "1", "2", "0, 1, 2"])
def test_streams_that_are_not_there(closed: str) -> None:
    command = [sys.executable, "-c", f"import os\nfor n in ({closed},): os.close(n)\n" + serve()[2]]
    done = run(command, input=b"one\n", stdout=subprocess.PIPE)
    assert done.stdout == (b"one!\n" if closed == "2" else b"") and done.returncode in (0, 1, 120)


def test_files_and_sockets(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\r\ntwo")
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as target:
        assert run(serve(), stdin=source, stdout=target).returncode == 0
    assert (tmp_path / "out").read_bytes() == b"one!\ntwo!\n"
    shared = subprocess.run(
        serve(), input=b"one\n", stdout=-1, stderr=subprocess.STDOUT, cwd=ROOT, timeout=WAIT
    )
    assert shared.stdout == b"one!\n"


@pytest.mark.requirement("M:STD-16")
def test_a_socket() -> None:
    import socket

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            server = subprocess.Popen(
                serve(), stdin=theirs.fileno(), stdout=theirs.fileno(), cwd=ROOT
            )
        ours.settimeout(WAIT)
        ours.sendall(b"one\n")
        assert ours.recv(100) == b"one!\n"
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b"" and server.wait(WAIT) == 0


def test_a_fork_puts_nothing_back() -> None:
    each = "pid = os.fork()\n        if not pid: transport.close_in_fork(); transport.close(); print('no'); os._exit(0)"
    done = run(
        serve(each + "\n        os.waitpid(pid, 0)", "print('after')"),
        input=b"one\n",
        stdout=subprocess.PIPE,
    )
    assert done.stdout == b"one!\nafter\n"


def test_a_foreign_stdout_is_not_changed() -> None:
    code = (
        "import io, sys\nsys.stdout = own = io.StringIO()\n"
        + serve("print('own')", "assert sys.stdout is own")[2]
    )
    assert (
        run([sys.executable, "-c", code], input=b"one\n", stdout=subprocess.PIPE).stdout
        == b"one!\n"
    )


def test_without_descriptors_the_streams_are_not_changed() -> None:
    code = (
        "import os, resource\nfrom minimcp.stdio.streams import StandardStreams\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))\n"
        "try: StandardStreams.take(None)\nexcept OSError: print('refused')"
    )
    assert (
        run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
        == b"refused\n"
    )


def test_without_descriptors_nothing_is_left_behind() -> None:
    code = (
        "import os, resource, sys\nfrom minimcp.engine.transport import memory_pair\n"
        "from minimcp.errors import ConnectionFailed\nfrom minimcp.stdio.child import *\n"
        "from tests.support import child_processes, open_descriptors\n"
        "server = StdioServer([sys.executable, '-c', ''])\n"
        "ChildTransport(server, limit=None).close()\n"
        "before, ways = open_descriptors(), {memory_pair: (), ChildTransport: (server,)}\n"
        "for make, given in ways.items():\n"
        "  for free in range(40):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (max(open_descriptors()) + 1 + free, 4096))\n"
        "    try:\n"
        "        made = make(*given, limit=None)\n"
        "        break\n"
        "    except (ConnectionFailed if given else OSError): pass\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))\n"
        "    leaks = given and sys.version_info < (3, 12)  # subprocess itself\n"
        "    assert not child_processes() and (leaks or open_descriptors() == before)\n"
        "  resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))\n"
        "  [each.close() for each in (made if make is memory_pair else [made])]\n"
        "  print(free > 9)\n"
    )
    assert run([sys.executable, "-c", code], stdout=subprocess.PIPE).stdout == b"True\nTrue\n"


def test_writing_to_a_lost_child_raises(start: Start) -> None:
    transport = start("import os; os.close(0); import time; time.sleep(0.01)")
    assert transport.receive() == []
    with pytest.raises(ConnectionLost, match="cannot send"):
        transport.send(b"x\n", 0)


def test_a_logger_gets_server_output_without_control_characters(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    transport = start(
        "import sys\nsys.stderr.write('a\\x1b[2J\\rERROR:root:b')",
        stderr=logging.getLogger("child"),
    )
    assert transport.receive() == []
    transport.close()
    assert [record.getMessage() for record in caplog.records if record.name == "child"] == [
        "a\\x1b[2J\\rERROR:root:b"
    ]


def test_a_process_on_windows_gets_no_console_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows was never run: this shows only that the flags of its `subprocess` are passed."""
    flags: List[int] = []
    popen = subprocess.Popen

    def start(*args: Any, creationflags: int, **options: Any) -> Any:
        flags.append(creationflags)
        return popen(*args, **options)

    code = "import sys\nfor line in sys.stdin: pass"
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", start)
        ChildTransport(StdioServer([sys.executable, "-c", code]), limit=None).close()
        patch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
        patch.setattr(subprocess, "CREATE_NO_WINDOW", 0x8000000, raising=False)
        ChildTransport(StdioServer([sys.executable, "-c", code]), limit=None).close()
    assert flags == [0, 0x8000200]
