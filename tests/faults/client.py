"""The runner's end of the protocol of client adapters (see the package's docstring)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

PEER = Path(__file__).resolve().parent.parent / "wire" / "peer.py"
"""The scripted server that clients are let loose on; its docstring says what a script may hold."""


class Reply(NamedTuple):
    """How one command to the adapter ended, and after how many seconds. `error` is None when it went well."""

    ok: bool
    error: Optional[str]
    message: str
    seconds: float
    more: Dict[str, Any]

    @property
    def text(self) -> Any:
        return self.more.get("text") if self.ok else None


class Command:
    """A command that was given to the adapter and may still run."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.done = threading.Event()
        self.reply: Optional[Reply] = None

    def end(self, answer: Dict[str, Any]) -> None:
        """Note the answer, the first one only."""
        if self.done.is_set():
            self.reply = Reply(False, "twice", "the adapter answered twice", 0.0, {})
            return
        seconds = time.monotonic() - self.begun
        ok = answer.get("ok") is True
        error = None if ok else str(answer.get("error"))
        self.reply = Reply(ok, error, str(answer.get("message", "")), seconds, answer)
        self.done.set()

    def wait(self, seconds: float) -> Reply:
        assert self.done.wait(seconds), f"the client hung for {seconds:g} s"
        assert self.reply is not None
        return self.reply


class Client:
    """A client adapter, started."""

    def __init__(self, command: Sequence[str], patience: float, env: Optional[Dict[str, str]] = None) -> None:
        self.patience = patience
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self._log = open(self.folder / "stderr", "w+b")  # noqa: SIM115, closed by dispose
        self._lock = threading.Lock()
        self._commands: Dict[int, Command] = {}
        self._last = 0
        self._journals = 0
        self.stray: List[str] = []
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env={**os.environ, **(env or {})}, bufsize=0, start_new_session=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, name="faults-adapter", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with open(self.process.stdout.fileno(), "rb", closefd=False) as lines:
            for line in lines:
                self._take(line)
        with self._lock:
            waiting = [command for command in self._commands.values() if not command.done.is_set()]
        for command in waiting:
            command.end({"ok": False, "error": "gone", "message": "the adapter ended"})

    def _take(self, line: bytes) -> None:
        try:
            answer = json.loads(line)
            command = self._commands[answer["n"]]
        except (ValueError, KeyError, TypeError):
            self.stray.append(repr(line[:200]))
            return
        command.end(answer)

    def begin(self, do: str, **more: Any) -> Command:
        """Give a command, and do not wait for its end."""
        command = Command()
        with self._lock:
            self._last += 1
            number = self._last
            self._commands[number] = command
        assert self.process.stdin is not None
        line = json.dumps({"n": number, "do": do, **more}).encode() + b"\n"
        try:
            with self._lock:
                view = memoryview(line)
                while view:
                    view = view[self.process.stdin.write(view) :]
        except OSError:
            command.end({"ok": False, "error": "gone", "message": "the adapter ended"})
        return command

    def do(self, do: str, **more: Any) -> Reply:
        """Give a command and wait for its end, at most its own `timeout` and the patience."""
        return self.begin(do, **more).wait(more.get("timeout", 0.0) + self.patience)

    def script(self, **script: Any) -> List[str]:
        """The command of a scripted server, with a journal of its own."""
        self._journals += 1
        journal = self.folder / f"journal-{self._journals}"
        journal.touch()
        return [sys.executable, "-E", "-S", str(PEER), str(journal), json.dumps({"cacheable": True, **script})]

    def open(self, timeout: Optional[float] = None, *, command: Optional[Sequence[str]] = None, **more: Any) -> Reply:
        """Have it connect to a scripted server: `more` is the script, or what `open` of the protocol takes.

        A timeout of None must not be reached.
        """
        if "url" in more:
            return self.do("open", timeout=timeout or 3 * self.never, **more)
        ours = {name: more.pop(name) for name in ("cwd", "env", "on_log") if name in more}
        target = list(command) if command is not None else self.script(**more)
        return self.do("open", command=target, timeout=timeout or max(6.0, 3 * self.never), **ours)

    def opened(self, timeout: Optional[float] = None, **more: Any) -> "Client":
        reply = self.open(timeout, **more)
        assert reply.ok, f"open: {reply.error}: {reply.message}"
        return self

    @property
    def never(self) -> float:
        """Seconds: a timeout of calls that must not be reached."""
        return 0.9 * self.patience

    def call(self, tool: str, timeout: Optional[float] = None, **arguments: Any) -> Reply:
        return self.do("call", tool=tool, arguments=arguments, timeout=timeout or self.never)

    def alive(self) -> None:
        """Show that the connection still works."""
        reply = self.call("echo", text="alive")
        assert reply.text == "alive", f"a call afterwards: {reply.error or reply.text}: {reply.message}"[:200]

    def journal(self) -> List[Dict[str, Any]]:
        text = (self.folder / f"journal-{self._journals}").read_text("utf-8")
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def servers(self) -> List[int]:
        """Process ids of every scripted server so far and of what these started, ended or not."""
        found = []
        for number in range(1, self._journals + 1):
            for line in (self.folder / f"journal-{number}").read_text("utf-8").split("\n")[:-1]:
                record = json.loads(line)
                found += [record["pid"]] + ([record["child"]] if "child" in record else [])
        return found

    def memory(self, field: str = "VmRSS") -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the adapter ended")

    def count(self, what: str) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/{what}"))

    def children(self) -> int:
        """How many child processes the adapter has, zombies included."""
        found = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            try:
                found += len(Path(f"/proc/{self.process.pid}/task/{task}/children").read_text().split())
            except OSError:
                pass
        return found

    def settled(self, what: str, most: int, seconds: float) -> int:
        """As `count`, when it is at most `most` or the time is over: what ends may take a moment."""
        until = time.monotonic() + seconds
        while self.count(what) > most and time.monotonic() < until:
            time.sleep(0.02)
        return self.count(what)

    def stderr(self) -> str:
        self._log.flush()
        return (self.folder / "stderr").read_text("utf-8", "replace")

    def dispose(self) -> None:
        """End the adapter and the scripted servers, and forget what they wrote."""
        assert self.process.stdin is not None and self.process.stdout is not None
        for pid in self.servers():
            _kill(pid)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self._reader.join()
        self.process.stdout.close()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def running(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _kill(pid: int) -> None:
    """End a scripted server, and nothing that may have got its number since."""
    try:
        if PEER.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
