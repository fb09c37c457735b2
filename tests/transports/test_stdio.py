"""This process's own streams, taken aside: in a process of its own, with every kind of stream."""

from __future__ import annotations

import io
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest

from minimcp.stdio import streams as stdio
from minimcp.stdio.streams import StandardStreams

from ..support import ROOT, WAIT
from .ends import over, receive_all

START = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"

SERVE = (
    START
    + """
import os
from minimcp.stdio.streams import StandardStreams
pipe = StandardStreams.take()
{before}
while True:
    frames = pipe.receive()
    if not frames:
        break
    for frame in frames:
        {each}
        pipe.send(frame + b"!\\n", 10)
{after}
pipe.close()
{restored}
"""
)


def serve(before: str = "pass", each: str = "pass", after: str = "pass", restored: str = "pass") -> List[str]:
    """A command that answers every line with the same line and an exclamation mark."""
    return [sys.executable, "-I", "-S", "-c", SERVE.format(before=before, each=each, after=after, restored=restored)]


def run(command: List[str], stdin: bytes = b"one\ntwo\n", **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run it to its end, bounded."""
    return subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT, **options)


@pytest.mark.requirement("STDIO-04", "STDIO-06", "M:STD-2")
@pytest.mark.parametrize(
    ("stray", "text"),
    [
        ("print('stray')", "stray"),
        ("sys.__stdout__.write('stray')", "stray"),
        ("sys.stdout.buffer.write(b'stray')", "stray"),
        ("os.write(1, b'stray')", "stray"),
        ("os.system('echo stray')", "stray"),
        ("import subprocess; subprocess.run(['echo', 'stray'])", "stray"),
        ("import ctypes; ctypes.CDLL(None).puts(b'stray')", "stray"),
        ("print(repr(sys.stdin.read()))", "''"),
        ("os.system('cat')", ""),
        ("import subprocess; print(subprocess.run(['cat'], stdout=-1).stdout)", "b''"),
    ],
)
def test_c23_nothing_but_messages_reaches_the_client(stray: str, text: str) -> None:
    done = run(serve(each=stray))
    assert (done.stdout, done.returncode) == (b"one!\ntwo!\n", 0)
    assert done.stderr.decode().count(text) >= 2 * bool(text)


def test_what_was_printed_before_goes_to_stderr() -> None:
    command = serve()
    command[-1] = "print('early')\n" + command[-1]
    done = run(command)
    assert (done.stdout, done.stderr) == (b"one!\ntwo!\n", b"early\n")


@pytest.mark.requirement("STDIO-11")
def test_after_the_close_everything_is_as_found() -> None:
    look = "print([os.get_blocking(1), sys.stdout is sys.__stdout__, sys.stdin.read(), os.read(0, 1)])"
    done = run(serve(restored=look))
    assert done.stdout == b"one!\ntwo!\n[True, True, '', b'']\n"
    done = run(serve(each="break", restored="print(os.read(0, 100))"), stdin=b"one\n")
    assert done.stdout == b"b''\n"


@pytest.mark.requirement("M:STD-16")
def test_c35_a_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = serve(after="pipe.finish(); print('after')")
            number = theirs.fileno()
            server = subprocess.Popen(command, stdin=number, stdout=number, stderr=subprocess.PIPE)
        ours.settimeout(WAIT)
        ours.sendall(b"one\n")
        assert ours.recv(100) == b"one!\n"
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b""
        assert server.communicate(timeout=WAIT)[1] == b"after\n"
        assert server.returncode == 0


def test_c35_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\r\ntwo")
    with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as target:
        done = subprocess.run(serve(each="print(1)"), stdin=source, stdout=target, stderr=-1, timeout=WAIT)
    assert (done.returncode, done.stderr) == (0, b"1\n1\n")
    assert (tmp_path / "out").read_bytes() == b"one!\ntwo!\n"


def test_c35_nothing() -> None:
    done = subprocess.run(serve(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=WAIT)
    assert done.returncode == 0


def test_c35_a_terminal() -> None:
    master, slave = pty.openpty()
    server = subprocess.Popen(serve(), stdin=slave, stdout=slave, stderr=subprocess.PIPE, start_new_session=True)
    os.close(slave)
    far = over(os.dup(master), master, nonblocking=False)
    far.send(b"one\ntwo\n\x04", WAIT)
    assert b"".join(frame for frame in receive_all(far) if isinstance(frame, bytes)).count(b"!") == 2
    assert server.communicate(timeout=WAIT)[1] == b""
    assert server.returncode == 0
    far.close()


CLOSED = (
    START
    + """
import os
for number in {closed}:
    os.close(number)
from minimcp.stdio.streams import StandardStreams
pipe = StandardStreams.take()
with open(sys.argv[1], "w") as report:
    private = [number for number in range(3, 20) if os.path.exists("/proc/self/fd/%d" % number)]
    inherited = [number for number in private if os.get_inheritable(number)]
    print(min(pipe._source.number, pipe._sink.number) > 2, inherited, [os.get_inheritable(n) for n in (0, 1, 2)],
          pipe.receive(), file=report)
    print("stray", flush=True)
    pipe.close()
    pipe.restore()
    print([os.path.exists("/proc/self/fd/%d" % number) for number in (0, 1, 2)], file=report)
os._exit(0)
"""
)


@pytest.mark.parametrize("closed", [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_closed_streams_stay_closed_and_their_numbers_are_not_used(closed: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", CLOSED.format(closed=list(closed)), str(tmp_path / "report")]
    done = run(command, b"")
    assert done.returncode == 0, done.stderr
    assert b"stray" in done.stderr or 2 in closed
    found = [number not in closed for number in range(3)]
    assert (tmp_path / "report").read_text() == f"True [] [True, True, True] []\n{found}\n"
    assert done.stdout == b""


@pytest.mark.parametrize("replaced", ["None", "io.StringIO()"])
def test_a_replaced_stdout_is_left_alone(replaced: str) -> None:
    before = "print('printed')\nassert sys.stdout is mine"
    command = serve(before=before, restored="assert sys.stdout is mine; os.write(1, b'end')")
    command[-1] = f"import io, sys\nmine = sys.stdout = {replaced}\n" + command[-1]
    done = run(command)
    assert (done.stdout, done.stderr) == (b"one!\ntwo!\nend", b"")


def test_without_sys_stderr() -> None:
    command = serve(each="print('stray')")
    command[-1] = "import sys\nsys.stderr = None\n" + command[-1]
    done = run(command)
    assert (done.stdout, done.stderr) == (b"one!\ntwo!\n", b"stray\nstray\n")


def test_a_stdout_replaced_meanwhile_is_not_put_back() -> None:
    done = run(serve(each="import io; sys.stdout = mine = io.StringIO()", restored="assert sys.stdout is mine"))
    assert (done.returncode, done.stdout) == (0, b"one!\ntwo!\n")


def test_one_pipe_for_stdout_and_stderr_stays_blocking() -> None:
    done = subprocess.run(
        serve(each="print(os.get_blocking(2), flush=True)"),
        input=b"one\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=WAIT,
    )
    assert done.stdout == b"True\none!\n"


def test_finish_closes_stdout_for_good() -> None:
    command = serve(after="pipe.finish(); pipe.finish()", restored="print('late', flush=True)")
    done = run(command)
    assert (done.stdout, done.stderr, done.returncode) == (b"one!\ntwo!\n", b"late\n", 0)


def test_c33_a_client_that_closed_its_end() -> None:
    code = START + "from minimcp.transports.stdio import StandardStreams\nfrom minimcp.errors import ConnectionLost\n"
    code += "pipe = StandardStreams.take()\npipe.receive()\n"
    code += "try:\n    pipe.send(b'x\\n', 10)\nexcept ConnectionLost as error:\n    print(error)\npipe.close()\n"
    server = subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stderr is not None
    server.stdout.close()
    server.stdin.write(b"go\n")
    server.stdin.close()
    assert server.stderr.read().startswith(b"stdio: nothing can be sent: Broken pipe")
    server.stderr.close()
    assert server.wait(WAIT) == 0


@pytest.mark.requirement("STDIO-04")
def test_c37_a_child_process_holds_only_the_three_streams() -> None:
    done = run(serve(each="os.system('ls /proc/self/fd >&2')"), b"one\n", env={**os.environ, "LC_ALL": "C"})
    assert done.stdout == b"one!\n"
    assert done.stderr.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing's own.


def test_when_no_descriptor_is_left_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(os.listdir("/proc/self/fd"))

    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(stdio, "Bell", refuse)
    saved = os.dup(0)
    os.close(0)
    try:
        with pytest.raises(OSError, match="Too many"):
            StandardStreams.take()
        assert not os.path.exists("/proc/self/fd/0")
    finally:
        os.dup2(saved, 0)
        os.close(saved)
    assert sorted(os.listdir("/proc/self/fd")) == files


def test_in_this_process_and_twice() -> None:
    saved = [os.dup(0), os.dup(1)]
    standing = {number: os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)}
    for _ in range(2):
        pipe = StandardStreams.take()
        assert repr(pipe) == "<StandardStreams open>"
        assert os.readlink("/proc/self/fd/0") == os.devnull
        assert os.readlink("/proc/self/fd/1") == standing[2]
        pipe.close()
        pipe.close()
        assert repr(pipe) == "<StandardStreams closed>"
        assert {number: os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)} == standing
    for number in saved:
        os.close(number)


def test_a_fork_puts_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = [os.dup(0), os.dup(1)]
    pipe = StandardStreams.take()
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        pipe.finish()
        pipe.restore()
        pipe.close()
    assert os.readlink("/proc/self/fd/0") == os.devnull
    for number, before in enumerate(saved):
        os.dup2(before, number)
        os.close(before)


def test_odd_streams_have_no_number() -> None:
    closed = io.BytesIO()
    closed.close()
    for stream in (None, io.StringIO(), closed, object()):
        assert stdio._number_of(stream) == -1
    stdio._flush(closed)


def test_what_c_code_printed_without_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    stdio._flush_c()


def test_shutting_a_socket_that_is_not_connected_any_more() -> None:
    one, other = socket.socketpair()
    one.shutdown(socket.SHUT_RDWR)
    other.close()
    stdio._shut(one.detach())
    listener = socket.socket()
    stdio._shut(listener.detach())
