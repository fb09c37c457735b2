"""The exit of an interpreter whose background threads write: it ends at once, with the program's
exit code.

A thread that the exit stops during a write keeps the lock of the stream's buffer, and then the
interpreter aborts (SIGABRT) or waits forever. PYTHONUNBUFFERED hides this, so no test sets it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from ..support import ROOT, WAIT, each_pair

CHATTY = """
import sys

def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    if '"initialize"' in line:
        say('{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18", '
            '"capabilities": {"logging": {}}, "serverInfo": {"name": "chatty", "version": "1"}}}')
    if "notifications/initialized" in line:
        break
try:
    while True:
        say('{"jsonrpc": "2.0", "method": "notifications/message", '
            '"params": {"level": "info", "data": "' + "x" * 200 + '"}}')
        say('{"jsonrpc": "2.0", "method": "elicitation/create", "id": 7, "params": {}}')
        say("this is no message")
        sys.stderr.write("x" * 200 + "\\n")
except OSError:
    pass
"""

CLIENT = """
import logging, sys, threading
import minimcp
from minimcp.testing import record

enough, lines = threading.Semaphore(0), []

def heard(message):
    enough.release()
    {on_log}

logging.basicConfig(stream=sys.stderr, level={level})
client = minimcp.connect(
    minimcp.StdioServer([sys.executable, "-S", "-c", sys.argv[1]], inherit_env=False),
    revision="2025-06-18", on_log=heard, {options}
)
for _ in range(50):
    assert enough.acquire(timeout=30)
sys.exit(7)
"""

OPTIONS: Dict[str, str] = {
    "trace to stderr": "trace=sys.stderr",
    "trace to stdout": "trace=sys.stdout",
    "trace to a file": "trace=open(sys.argv[2], 'w')",
    "trace to a function": "trace=print",
    "a recording": "trace=record(sys.argv[2])",
    "stderr of a child to stderr": "stderr=sys.stderr",
    "stderr of a child to bytes": "stderr=sys.stderr.buffer",
    "stderr of a child to a file": "stderr=open(sys.argv[2], 'w')",
    "stderr of a child to a function": "stderr=print",
    "stderr of a child to a logger": "stderr=logging.getLogger('child')",
    "stderr of a child": "stderr=None",
    "a handler that prints": "",
    "the library's own records": "",
}

# Writers that bypass the streams of this process need no reader. A function of the program, or its
# handler of `logging`, waits for a reader like the program itself.
PAST = ("trace to stderr", "trace to a file", "a recording", "stderr of a child")
CASES = [
    (way, reading)
    for way in OPTIONS
    for reading in ("quick", "slow", "unread")
    if reading == "quick" or way in PAST or (reading == "slow" and " to std" in way)
]


def ended(command: List[str], reading: str, given: bytes = b"") -> Tuple[int, bytes]:
    """Return the exit code of a program whose output is read quickly, slowly, or not at all, and
    the end of its stderr."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    over, ends = threading.Event(), [b"", b""]

    def read(stream: Any, index: int) -> None:
        piece = b"."
        while piece and reading != "unread":
            piece = stream.read1(16384)
            ends[index] = (ends[index] + piece)[-4096:]
            if reading == "slow":
                over.wait(0.02)

    threads = [
        threading.Thread(target=read, args=(stream, index), daemon=True)
        for index, stream in enumerate((process.stdout, process.stderr))
    ]
    for thread in threads:
        thread.start()
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(given)
    try:
        code = process.wait(WAIT)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
        raise AssertionError(f"it does not end: {ends[1]!r}") from None
    finally:
        over.set()
        for thread in threads:
            thread.join(WAIT)
        for stream in (process.stdout, process.stderr):
            stream.close()  # type: ignore[union-attr]
    return code, ends[1]


@pytest.mark.parametrize("way, reading", CASES)
def test_a_client_that_is_not_closed(way: str, reading: str, tmp_path: Path) -> None:
    source = CLIENT.format(
        options=OPTIONS[way],
        on_log="print('x' * 200)" if way == "a handler that prints" else "pass",
        level="'DEBUG'" if "records" in way or "logger" in way else "'CRITICAL'",
    )
    command = [sys.executable, "-c", source, CHATTY, str(tmp_path / "file")]
    code, end = ended(command, reading)
    assert code == 7, (code, end)


@pytest.mark.parametrize("reading", ["quick", "slow", "unread"])
@pytest.mark.parametrize("way", ["", "--json", "--output", "--html"])
def test_minimcp_trace(way: str, reading: str, tmp_path: Path) -> None:
    echo = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)\nsys.exit(7)"
    own = [way, *([str(tmp_path / "file")] * (way in ("--output", "--html")))] if way else []
    command = [sys.executable, "-m", "minimcp", "trace", *own, "--", sys.executable, "-c", echo]
    line = b'{"jsonrpc": "2.0", "method": "x/y", "params": {"text": "%s"}}\n' % (b"x" * 100)
    code, end = ended(command, reading, line * 500 if reading != "unread" else line * 200)
    assert code == 7, (code, end)


SERVER = """
import logging, sys, time
import minimcp

if {basic}:
    logging.basicConfig(level=logging.DEBUG)
server = minimcp.Server("talking", limits=minimcp.Limits(drain_grace=0.1), trace={trace})

@server.tool
def talk(way: str) -> str:
    '''Write a lot.'''
    for _ in range(2_000):
        say(way)
    return "done"

@server.tool
def talk_on(way: str) -> None:
    '''Write for ever, whatever happens.'''
    while True:
        say(way)

def say(way):
    text = "x" * 200
    if way == "raise":
        logging.getLogger("minimcp.server").error(text)
    elif way == "log":
        logging.warning(text)
    else:
        print(text, file=sys.stderr if way == "stderr" else sys.stdout)

server.run()
"""


def request(id: int, method: str, **params: Any) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
        + b"\n"
    )


@pytest.mark.parametrize(
    "way, tool, basic",
    each_pair(["raise", "log", "stderr", "stdout"], ["talk", "talk_on"], [True, False]),
)
def test_a_server_whose_stderr_has_no_reader(way: str, basic: bool, tool: str) -> None:
    who = {"protocolVersion": "2025-06-18", "capabilities": {}}
    who["clientInfo"] = {"name": "x", "version": "1"}  # type: ignore[assignment]
    source = SERVER.format(basic=basic, trace="sys.stderr" if basic else "None")
    process = subprocess.Popen(
        [sys.executable, "-c", source],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    try:
        with process.stdin:
            process.stdin.write(request(1, "initialize", **who))
            process.stdin.write(request(2, "tools/call", name=tool, arguments={"way": way}))
            process.stdin.write(request(3, "ping"))
            process.stdin.flush()
            expected = {b'"id":1', b'"id":2', b'"id":3'} - (
                {b'"id":2'} if tool == "talk_on" else set()
            )
            found = [process.stdout.readline() for _ in expected]
        assert all(any(id in line for line in found) for id in expected), found
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
