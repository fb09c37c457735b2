"""``trace``: bytes, signals and the exit code pass as if nothing stood between; what passed is
written down."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence

import pytest

from minimcp import connect
from minimcp.cli import trace
from minimcp.testing import Entry, Transcript

from ..support import ROOT, WAIT
from .conftest import Done, command_line, run_process

ECHO = "import os\nwhile True:\n data = os.read(0, 99999)\n if not data: break\n os.write(1, data)"

BYTES = b"".join(
    [
        b'{"jsonrpc":"2.0",\r\n',
        b"\xff\xfe\x00 no text\n\n\n",
        "京\u2028".encode(),
        bytes(range(256)),
        b"x" * 700_000,
        b"\nno end",
    ]
)


@contextmanager
def tracing(
    *words: str, program: Sequence[str] = (), **options: Any
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the command, or another program, between this process and a server."""
    options = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "stderr": subprocess.PIPE, **options}
    command = [*(program or command_line("trace")), *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, **options
    )
    watch = threading.Timer(WAIT, process.kill)
    watch.start()
    try:
        with process:
            yield process
    finally:
        watch.cancel()
        watch.join()


def python(source: str, *words: str) -> List[str]:
    return ["--", sys.executable, "-c", source, *words]


# ------------------------------------------------------------ bytes pass unchanged


def test_every_byte_passes_both_ways_and_so_does_the_exit_code(tmp_path: Path) -> None:
    given, taken = tmp_path / "given", tmp_path / "taken"
    given.write_bytes(BYTES)
    source = (
        "import sys; open(sys.argv[2], 'wb').write(sys.stdin.buffer.read()); "
        "sys.stdout.buffer.write(open(sys.argv[1], 'rb').read()); sys.exit(7)"
    )
    with tracing(*python(source, str(given), str(taken))) as process:
        out, _ = process.communicate(BYTES[::-1], timeout=WAIT)
    assert (out, taken.read_bytes(), process.returncode) == (BYTES, BYTES[::-1], 7)


def test_a_part_of_a_line_passes_at_once() -> None:
    with tracing(*python(ECHO)) as process:
        assert process.stdin and process.stdout
        for part in (b'{"half', b" of", b' it"}\n'):
            process.stdin.write(part)
            assert process.stdout.read(len(part)) == part
        process.stdin.close()
        assert process.wait(WAIT) == 0, "the end of the input passes too"


@pytest.mark.skipif(
    os.name == "nt", reason="needs the signals of POSIX, which Windows does not have"
)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_reaches_the_server_once(name: str) -> None:
    source = (
        "import os, signal, sys\nseen = []\n"
        f"signal.signal(signal.{name}, lambda *_: (seen.append(1), os.write(1, b'!')))\nos.write(1, b'.')\n"
        "sys.stdin.read()\nsys.exit(40 + len(seen))"
    )
    with tracing(*python(source), start_new_session=True) as process:
        assert process.stdin and process.stdout and process.stdout.read(1) == b"."
        os.killpg(process.pid, getattr(signal, name))
        assert process.stdout.read(1) == b"!"
        process.stdin.close()
        assert process.wait(WAIT) == 41


LATE = """
import signal, subprocess, sys, threading
from minimcp.cli.trace import trace_command

wait, begins = subprocess.Popen.wait, threading.Semaphore(0)

def late():  # the interpreter is its only once the main thread waits, which this signal does not interrupt
    begins.acquire()
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

def waits(*arguments):
    sys.setswitchinterval(1000)
    begins.release()
    return wait(*arguments)

subprocess.Popen.wait = waits
threading.Thread(target=late, daemon=True).start()
sys.exit(trace_command(sys.argv[1:], "trace"))
"""


@pytest.mark.skipif(
    os.name == "nt", reason="needs the signals of POSIX, which Windows does not have"
)
def test_a_signal_just_before_the_wait_for_the_server_is_forwarded() -> None:
    with tracing(
        *python("import sys; sys.stdin.read()"), program=[sys.executable, "-c", LATE]
    ) as process:
        assert process.wait(WAIT) == -signal.SIGTERM, "it ends though its input does not"


@pytest.mark.skipif(
    os.name == "nt", reason="needs the signals of POSIX, which Windows does not have"
)
def test_a_server_that_a_signal_ends_looks_like_that_to_the_host() -> None:
    for number in (signal.SIGKILL, signal.SIGTERM):
        with tracing(*python(f"import os; os.kill(os.getpid(), {int(number)})")) as process:
            _, err = process.communicate(timeout=WAIT)
        assert (
            process.returncode == -number
            and f"signal {int(number)} ended the server" in err.decode()
        )


def test_a_host_that_stops_reading_ends_the_server() -> None:
    source = "import os\ntry:\n while True: os.write(1, b'x' * 9999)\nexcept BrokenPipeError: os._exit(3)"
    with tracing(*python(source)) as process:
        assert process.stdout and process.stdout.read(1) == b"x"
        process.stdout.close()
        assert process.stderr and process.stderr.read() is not None
        assert process.wait(WAIT) == 3


@pytest.mark.parametrize("output", ["/dev/full", None])
def test_a_transcript_that_cannot_be_written_blocks_no_message(output: str) -> None:
    if output and not os.path.exists(output):
        pytest.skip("needs the device /dev/full, which Linux has")
    line = (
        json.dumps({"jsonrpc": "2.0", "method": "x/y", "params": {"text": "x" * 90}}).encode()
        + b"\n"
    )
    with tracing(
        *(["--output", output] if output else []), *python(ECHO)
    ) as process:  # of stderr without a reader
        assert process.stdin and process.stdout and process.stderr
        for _ in range(40):
            process.stdin.write(line * 100)
            left = len(line) * 100
            while left:
                left -= len(process.stdout.read(left))
        process.stdin.close()
        if output:
            assert process.wait(WAIT) == 0
        process.stderr.read()
    assert process.returncode == 0


# ------------------------------------------------------------ the transcript


def test_a_host_and_a_server(shop: str, tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    log, rows, page = (str(tmp_path / name) for name in ("log.txt", "rows.jsonl", "page.html"))
    for options in (["--output", log], ["--json", "--output", rows, "--html", page]):
        command = [*command_line("trace"), *options, "--", sys.executable, shop]
        with connect(command, revision="handshake", stderr=lambda line: None) as client:
            assert (
                client.call_tool("order", {"item": "tea"}, on_progress=lambda report: None).value[
                    "item"
                ]
                == "tea"
            )
    lines = Path(log).read_text("utf-8").splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} |             ", line) for line in lines)
    shown = "\n".join(line[13:] for line in lines)
    for part in (
        r"^the server was started: .*python\S* shop.py\nhost --> initialize #1  {",
        "revision that the client wants",
        r'\nhost --> tools/call #(\d+)  {"name": "order", .*\n\d+ B: call the tool "order"\nhost <-- notif',
        r"\nhost <-- result of tools/call #\d+  {.*\n\d+ B after \d+\.\d ms\n",
        r"\nthe server exited with code 0$",
    ):
        assert re.search(part, shown), part
    assert "!" not in shown
    transcript = Transcript.load(rows)
    transcript.assert_flow(
        "--> initialize", "<-- result", ..., "--> tools/call", "<-- notifications/progress"
    )
    assert transcript.breaches() == []
    done = minimcp("trace", "--html", str(tmp_path / "again.html"), rows)
    assert (done.code, done.out) == (
        0,
        f"{tmp_path / 'again.html'}: {len(transcript)} entries, 0 violations\n",
    )
    first, again = (
        Path(name).read_text("utf-8").splitlines() for name in (page, str(tmp_path / "again.html"))
    )
    assert (first[:-1], first[-1][:60]) == (again[:-1], again[-1][:60])


def test_breaches_are_marked(tmp_path: Path) -> None:
    source = 'print("loading \\x1b[31m", flush=True); print("{}", flush=True)'
    with tracing(*python(source)) as process:
        out, err = process.communicate(timeout=WAIT)
    assert out == b"loading \x1b[31m\n{}\n"
    lines = err.decode().splitlines()
    assert [line.strip() for line in lines if " ! " in line] == [
        "! STDIO-04: the server sent an invalid message: this is not JSON: Expecting value: line 1 column 1 (char 0)",
        '! BASE-01: a message must have "jsonrpc": "2.0"',
    ]
    assert not any("\x1b" in line for line in lines)


def recorder_of(file: Path) -> Any:
    return trace.Recorder(str(file), None, True)


def goes_out(recorder: Any) -> None:
    """Pretend that the queued bytes were written."""
    recorder._queued_bytes = 0


def record(tmp_path: Path, *chunks: bytes) -> List[Dict[str, Any]]:
    """Return the records of these bytes from the host."""
    file = tmp_path / "rows.jsonl"
    recorder = recorder_of(file)
    for chunk in chunks:
        recorder.record("-->", chunk)
        goes_out(recorder)
    recorder.start()
    recorder.end()
    recorder.close()
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_lines_are_put_together(tmp_path: Path) -> None:
    parts = (
        b'{"jsonrpc":"2.0","id":1,',
        b'"method":"ping"}\n{"jsonrpc":',
        b'"2.0","id":2,"method":"ping"}\n',
    )
    rows = record(tmp_path, *parts)
    assert [(row["message"]["id"], row["method"], row["size"]) for row in rows] == [
        (1, "ping", 40),
        (2, "ping", 40),
    ]


@pytest.mark.parametrize("is_message", [True, False])
def test_no_control_character_reaches_a_terminal(tmp_path: Path, is_message: bool) -> None:
    """JSON does not escape some characters: C1 controls, changes of text direction, invisible
    characters."""
    bad = [chr(code) for code in range(sys.maxunicode + 1)
           if code not in (10, 13) and not chr(code).isprintable() and not 0xD800 <= code < 0xE000]  # fmt: skip
    text = "".join(bad[:400] + bad[400::997]) + "\u202e\u2066\u009b\x7f\u200b\U000e0041"
    line = json.dumps({"jsonrpc": "2.0", "method": "x", "params": {text: text}}, ensure_ascii=False)
    if not is_message:
        line = text
    [row] = record(tmp_path, line.encode() + b"\n")
    written = (tmp_path / "rows.jsonl").read_text("utf-8")
    assert written[:-1].isprintable() and written.endswith("\n")
    assert row["message"] == (json.loads(line) if is_message else text)


def test_omitted_messages_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_BYTES", 100)
    line = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n'
    file = tmp_path / "rows.jsonl"
    recorder = recorder_of(file)
    recorder.record("-->", line % 1 + (line % 2)[:20])
    recorder.record("-->", (line % 2)[20:] + line % 3)
    goes_out(recorder)
    recorder.record("-->", b'"torn"}\n' + line % 4)
    recorder.record("<--", b"y" * 5000)
    goes_out(recorder)
    recorder.record("<--", b"y\n" + b'{"jsonrpc":"2.0","id":4,"result":{"tools":[]}}\n')
    recorder.start()
    recorder.end()
    recorder.close()
    rows = [json.loads(text) for text in file.read_text("utf-8").splitlines()]
    assert [row["message"] if row["kind"] == "note" else row["message"]["id"] for row in rows] == [
        1,
        "74 bytes host --> server are left out here",
        4,
        "5000 bytes host <-- server are left out here",
        4,
    ]
    assert [row["breaches"] for row in rows[1:]] == [[]] * 4
    (row,) = record(tmp_path, *[b"x" * 60] * 3, b"\n")
    assert row["message"] == "a line host --> server has more than 100 bytes"


@pytest.mark.parametrize("words", [["shop.py"], [sys.executable, "shop.py"], ["--", "shop.py"]])
def test_a_command_needs_no_dashes_and_a_file_no_python(words: List[str], shop: str) -> None:
    with connect([*command_line("trace"), *words], stderr=lambda line: None) as client:
        assert client.call_tool("order", {"item": "tea"}).value["item"] == "tea"


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_a_url_is_traced(dashes: List[str], shop_url: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = [*command_line("trace"), "--json", "--output", str(rows), *dashes, shop_url]
    with connect(command, env={"PYTHONPATH": str(ROOT)}, stderr=lambda line: None) as client:
        assert client.call_tool("order", {"item": "tea"}).value["item"] == "tea"
    assert "tools/call" in Transcript.load(rows).methods()


def test_options_may_follow_a_url(shop: str, tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    page = tmp_path / "page.html"
    url = "http://127.0.0.1:9/mcp"
    options = ["--html", str(page), "--proxy", "not a url", "--output", os.devnull]
    done = run_process("trace", url, *options)
    assert done.code == 2 and "the proxy must be a URL" in done.err and page.exists()
    done = minimcp("trace", url, "--cacert", "/no/such/ca.pem", "--htlm", "x")
    assert done.code == 2 and "did you mean --html?" in done.err
    for options in (["--proxy", "http://127.0.0.1:9"], ["--cacert", "x"]):
        done = minimcp("trace", *options, shop)
        assert done.code == 2 and "--cacert and --proxy are only for a URL" in done.err


@pytest.mark.parametrize(
    ("time", "clock"),
    [(1.9996, "01:00:02.000"), (1.0004, "01:00:01.000"), (59.9999, "01:01:00.000")],
)
def test_the_clock_carries_milliseconds(
    time: float, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC-1")
    trace.time.tzset()
    try:
        assert trace.as_text(Entry("", "a note", "", time=time), False) == f"{clock} a note\n"
    finally:
        monkeypatch.undo()
        trace.time.tzset()


def test_two_recordings_share_a_page(tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    for name, method in (("a", "ping"), ("b", "tools/list")):
        transcript = Transcript()
        transcript("-->", json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))
        transcript.save(tmp_path / f"{name}.jsonl")
    page, *rows = (str(tmp_path / name) for name in ("page.html", "a.jsonl", "b.jsonl"))
    done = minimcp("trace", "--html", page, *rows)
    assert (done.code, done.out) == (0, f"{page}: 2 entries, 0 violations\n")
    text = Path(page).read_text("utf-8")
    assert re.findall("<h1>(.*?)</h1>", text) == rows
    left, right = re.findall('srcdoc="(.*?)"', text, re.S)
    assert "&quot;method&quot;:&quot;ping&quot;" in left
    assert "&quot;method&quot;:&quot;tools/list&quot;" in right


# ------------------------------------------------------------ wrong usage


def test_the_error_for_wrong_usage_says_what_to_type(
    tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    (tmp_path / "server.py").write_text("print()")
    page = str(tmp_path / "page.html")
    text = str(tmp_path / "server.txt")
    for path in (text, page):
        Path(path).write_text("print()")
    for arguments, said in (
        ([], "trace python server.py"),
        (["--"], "trace python server.py"),
        (["--html", page, "--"], "trace python server.py"),
        (["--htm", "x"], "--htm"),
        (["--html", page, text], "line 1 is not a line of a transcript"),
        (["--html", page, text, page], "server.txt: line 1 is not a line of a transcript"),
    ):
        done = minimcp("trace", *arguments)
        assert (
            (done.code, done.out) == (2, "") and said in done.err and done.err.count("\n") == 1
        ), arguments
    for arguments in (
        ["--html", page, str(tmp_path / "gone.jsonl")],
        ["--output", str(tmp_path), "--", "x"],
    ):
        done = minimcp("trace", *arguments)
        assert done.code == 3 and str(tmp_path) in done.err


@pytest.mark.parametrize("words", [["--", "no-such-program"], ["no-such-program", "--", "x"]])
def test_a_server_that_cannot_be_started(words: List[str]) -> None:
    with tracing(*words) as process:
        out, err = process.communicate(timeout=WAIT)
    assert (process.returncode, out) == (2, b"")
    assert b"cannot start no-such-program: No such file or directory: write the program" in err
