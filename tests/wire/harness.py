"""A real server process spoken to in raw bytes: no SDK on this side, no thread, every wait bounded.

`RawServer` starts a server file as a child process. The input is the exact bytes of the test. Each
line of the output that is read must be strict JSON and a well-formed JSON-RPC message, in every
test. Nothing is read unless a test reads or writes, so a test can leave the server's output
standing in the pipe.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any, Optional, Sequence

from ..support import WAIT, status_of
from .messages import (
    ABSENT,
    MODERN,
    check,
    decode,
    encode,
    hello,
    modern,
    notification,
    request,
    same,
)

HERE = Path(__file__).resolve().parent
PLAIN = HERE / "servers" / "plain.py"


class Gone(AssertionError):
    """The server closed its output or its input while a test still needed it."""


class RawServer:
    """A child process that serves over its stdin and stdout.

    Args:
        revision: The revision of `call`, `ask` and `fence`. A handshake revision is initialized at
            once, the modern one only adds its envelope to every request, None does nothing.
        script: The server file.
        options: Keywords for the `Server` in that file, as JSON.
        stdin, stdout, stderr: As for Popen; None makes pipes for the first two and a file for the
            third.
        before: Arguments put between the interpreter and the script; without site-packages it
            starts twice as fast.
        command: Any other command to start instead; it gets no options.
    """

    patience = WAIT

    def __init__(
        self,
        revision: Optional[str] = None,
        *,
        script: Path = PLAIN,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        before: tuple[str, ...] = ("-S",),
        env: Optional[dict[str, str]] = None,
        command: Optional[Sequence[str]] = None,
        **options: Any,
    ) -> None:
        self.revision: Optional[str] = None
        self.aside: list[Any] = []
        self._lines: deque[bytes] = deque()
        self._buffer = bytearray()
        self._looked = 0
        self._ids = itertools.count(1)
        self.ended = False
        self._log = tempfile.TemporaryFile() if stderr is None else None  # noqa: SIM115, closed by dispose
        self.process = subprocess.Popen(
            command or [sys.executable, *before, str(script), json.dumps(options)],
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=self._log if stderr is None else stderr,
            env={**os.environ, **(env or {})},
            bufsize=0,
        )
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        if revision == MODERN:
            self.revision = MODERN
        elif revision is not None:
            self.initialize(revision)

    # Bytes.

    def send(self, data: bytes, *, reading: bool = True, wait: Optional[float] = None) -> int:
        """Write bytes as they are.

        Args:
            data: What to write.
            reading: Read the server's output at the same time; False leaves it in the pipe.
            wait: Seconds without any byte taken after which this gives up; the rest is not written.

        Returns:
            How many bytes the server took.
        """
        assert self.process.stdin is not None
        handle, view = self.process.stdin.fileno(), memoryview(data)
        poller = select.poll()
        poller.register(handle, select.POLLOUT)
        if reading and self.process.stdout is not None and not self.ended:
            poller.register(self.process.stdout.fileno(), select.POLLIN)
        seconds = self.seconds(wait)
        taken, until = 0, time.monotonic() + seconds
        while taken < len(view) and time.monotonic() < until:
            for ready, _event in poller.poll(max(0.0, until - time.monotonic()) * 1000):
                if ready != handle:
                    self._take()
                    if self.ended:
                        poller.unregister(ready)
                    continue
                try:
                    taken += os.write(handle, view[taken : taken + (1 << 20)])
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise Gone(f"the server closed its input: {self.stderr()[-2000:]}") from None
                until = time.monotonic() + seconds
        return taken

    def seconds(self, wait: Optional[float]) -> float:
        """Replace a wait of None with the default."""
        return self.patience if wait is None else wait

    def _take(self) -> None:
        assert self.process.stdout is not None
        try:
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            return
        self.ended = not chunk
        self._buffer += chunk
        end = self._buffer.find(b"\n", self._looked)
        if end < 0:
            self._looked = len(self._buffer)
            return
        whole, _, rest = bytes(self._buffer).rpartition(b"\n")
        self._lines.extend(whole.split(b"\n"))
        self._buffer, self._looked = bytearray(rest), len(rest)

    def poll(self, wait: float) -> bool:
        """Wait for output at most `wait` seconds, and return whether there is a line."""
        until = time.monotonic() + wait
        while not self._lines and not self.ended and self.process.stdout is not None:
            left = until - time.monotonic()
            if left < 0:
                break
            poller = select.poll()
            poller.register(self.process.stdout.fileno(), select.POLLIN)
            if poller.poll(left * 1000):
                self._take()
        return bool(self._lines)

    def line(self, wait: Optional[float] = None) -> bytes:
        """The next line of the server without its line feed."""
        if self.poll(self.seconds(wait)):
            return self._lines.popleft()
        if self.ended:
            raise Gone(f"the server closed its output: {self.stderr()[-2000:]}")
        raise AssertionError(
            f"nothing came within {self.seconds(wait):g} s: {self.stderr()[-2000:]}"
        )

    def rest(self, wait: Optional[float] = None) -> list[Any]:
        """Every message up to the end of the server's output, checked."""
        until = time.monotonic() + self.seconds(wait)
        found = []
        while self.poll(max(0.0, until - time.monotonic())):
            found.append(check(decode(self._lines.popleft())))
        assert self.ended, f"the output did not end within {self.seconds(wait):g} s"
        assert not self._buffer, f"an unfinished line: {bytes(self._buffer[-300:])!r}"
        return found

    # Messages.

    def message(self, wait: Optional[float] = None) -> Any:
        """The next message of the server, checked."""
        return self.checked(decode(self.line(wait)))

    checked = staticmethod(check)

    def write(self, *messages: Any) -> None:
        """Send messages, each on a line of its own, in one write."""
        self.send(b"".join(map(encode, messages)))

    def notify(self, method: str, params: Optional[dict[str, Any]] = None) -> None:
        """Send a notification."""
        self.write(notification(method, params))

    def number(self) -> str:
        """An id that was not used before."""
        return f"n{next(self._ids)}"

    def begin(
        self, method: str, params: Optional[dict[str, Any]] = None, *, id: Any = ABSENT
    ) -> Any:
        """Send a request in the revision spoken and return its id; the answer is waited for with
        `answer`."""
        chosen = self.number() if id is ABSENT else id
        self.write(request(chosen, method, modern(params) if self.revision == MODERN else params))
        return chosen

    def begin_call(self, tool: str, arguments: Optional[dict[str, Any]] = None, **more: Any) -> Any:
        """Begin a tool call; `token` becomes its progress token."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
        if "token" in more:
            params["_meta"] = {"progressToken": more.pop("token")}
        return self.begin("tools/call", params, **more)

    def answer(self, id: Any, wait: Optional[float] = None) -> dict[str, Any]:
        """Return the response with this id. Earlier messages are kept in `aside`."""
        until = time.monotonic() + self.seconds(wait)
        for kept in self.aside:
            if isinstance(kept, dict) and "method" not in kept and same(kept.get("id"), id):
                self.aside.remove(kept)
                return kept
        while True:
            message = self.message(max(0.0, until - time.monotonic()))
            if (
                isinstance(message, dict)
                and "method" not in message
                and same(message.get("id"), id)
            ):
                return message
            self.aside.append(message)

    def ask(
        self, method: str, params: Optional[dict[str, Any]] = None, **more: Any
    ) -> dict[str, Any]:
        """A request and its response."""
        return self.answer(self.begin(method, params, **more))

    def result(
        self, method: str, params: Optional[dict[str, Any]] = None, **more: Any
    ) -> dict[str, Any]:
        """A request and its result; an error fails the test."""
        reply = self.ask(method, params, **more)
        assert "result" in reply, reply
        found: dict[str, Any] = reply["result"]
        return found

    def call(
        self, tool: str, arguments: Optional[dict[str, Any]] = None, **more: Any
    ) -> dict[str, Any]:
        """A tool call and its result, which may have `isError`."""
        reply = self.answer(self.begin_call(tool, arguments, **more))
        assert "result" in reply, reply
        found: dict[str, Any] = reply["result"]
        return found

    def text(self, tool: str, arguments: Optional[dict[str, Any]] = None) -> str:
        """The text of a tool that must succeed."""
        found = self.call(tool, arguments)
        assert not found.get("isError"), found
        return str(found["content"][0]["text"])

    def error(self, data: Any, id: Any = ABSENT) -> int:
        """Send a line and return the code of the next message, an error that must carry this id.

        Args:
            data: Bytes without their line feed, or a message to encode.
            id: The id expected; ABSENT wants none or null.
        """
        self.send(data + b"\n" if isinstance(data, bytes) else encode(data))
        message = self.message()
        assert "error" in message, message
        got = message.get("id")
        assert got is None if id is ABSENT else same(got, id), message
        return int(message["error"]["code"])

    def fence(self) -> list[Any]:
        """Check that the server is alive and has processed all earlier lines. Return the messages
        that arrived until then."""
        before, self.aside = self.aside, []
        number = self.number()
        if self.revision == MODERN:
            self.write(request(number, "server/discover", modern()))
        else:
            self.write(request(number, "ping"))
        assert "result" in self.answer(number)
        found, self.aside = before + self.aside, []
        return found

    def lives(self) -> None:
        """Check end to end that the server still works and has sent nothing unrequested."""
        assert self.fence() == []
        if self.revision is not None:
            assert self.text("echo", {"text": "alive"}) == "alive"

    def initialize(self, revision: str, **capabilities: Any) -> dict[str, Any]:
        """The handshake, with `notifications/initialized`; the result of `initialize`."""
        found = self.ask("initialize", hello(revision, **capabilities))
        assert "result" in found, found
        self.notify("notifications/initialized")
        self.revision = found["result"]["protocolVersion"]
        answer: dict[str, Any] = found["result"]
        return answer

    # The process.

    def stderr(self) -> str:
        """Return the server's output on stderr so far."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def close_input(self) -> None:
        """The end of the server's input."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def close_output(self) -> None:
        """Close the pipe, so that the server's output has no reader."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.ended = True

    def exit(self, wait: Optional[float] = None) -> int:
        """Wait for the end of the process; its exit code. A hang fails the test and ends the
        process."""
        try:
            return self.process.wait(self.seconds(wait))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(
                f"still running after {self.seconds(wait):g} s: {self.stderr()[-2000:]}"
            ) from None

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def status(self, field: str) -> int:
        """A number out of /proc: VmRSS and VmHWM (in kB), Threads."""
        return status_of(self.process.pid, field)

    def cpu(self) -> float:
        """Seconds of processor time that the server used."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def dispose(self) -> None:
        """End the remaining processes and close every descriptor."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self._log is not None:
            self._log.close()

    def finish(self, wait: Optional[float] = None) -> list[Any]:
        """End the server as a client does, by the end of its input.

        Returns:
            The messages that were not read before.

        Raises:
            AssertionError: It hung, it did not exit with 0, or a thread of it died of an exception.
        """
        try:
            self.close_input()
            left = [] if self.ended or self.process.stdout is None else self.rest(wait)
            code = self.exit(wait)
            log = self.stderr()
            assert code == 0, (code, log[-2000:])
            for sign in ("Exception in thread", "Fatal Python error", "Exception ignored"):
                assert sign not in log, log[-4000:]
            return left
        finally:
            self.dispose()
