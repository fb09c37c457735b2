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

from ..support import children_of, eventually, status_of

PEER = Path(__file__).resolve().parent.parent / "wire" / "peer.py"
"""The scripted server under which clients are tested. Its docstring describes the scripts."""

GONE = {"ok": False, "error": "gone", "message": "the adapter ended"}


class Reply(NamedTuple):
    """The outcome of one command to the adapter, and its duration in seconds. `error` is None if it
    succeeded."""

    ok: bool
    error: Optional[str]
    message: str
    seconds: float
    more: Dict[str, Any]

    @property
    def text(self) -> Any:
        """The text of a call that went well; None if it did not."""
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
        ok = answer.get("ok") is True
        error = None if ok else str(answer.get("error"))
        self.reply = Reply(
            ok, error, str(answer.get("message", "")), time.monotonic() - self.begun, answer
        )
        self.done.set()

    def wait(self, seconds: float) -> Reply:
        assert self.done.wait(seconds), f"the client hung for {seconds:g} s"
        assert self.reply is not None
        return self.reply


class Client:
    """A client adapter, started."""

    def __init__(
        self, command: Sequence[str], patience: float, env: Optional[Dict[str, str]] = None
    ) -> None:
        self.patience = patience
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self._log = open(self.folder / "stderr", "w+b")  # noqa: SIM115, closed by dispose
        self._lock = threading.Lock()
        self._commands: Dict[int, Command] = {}
        self._journals: List[Path] = []
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
                try:
                    answer = json.loads(line)
                    command = self._commands[answer["n"]]
                except (ValueError, KeyError, TypeError):
                    continue  # a stray line
                command.end(answer)
        with self._lock:
            waiting = [command for command in self._commands.values() if not command.done.is_set()]
        for command in waiting:
            command.end(GONE)

    def begin(self, do: str, **more: Any) -> Command:
        """Give a command, and do not wait for its end."""
        command = Command()
        assert self.process.stdin is not None
        with self._lock:
            number = len(self._commands) + 1
            self._commands[number] = command
            view = memoryview(json.dumps({"n": number, "do": do, **more}).encode() + b"\n")
            try:
                while view:
                    view = view[self.process.stdin.write(view) :]
                return command
            except OSError:
                pass
        command.end(GONE)
        return command

    def do(self, do: str, **more: Any) -> Reply:
        """Give a command and wait for its end, at most its own `timeout` and the patience."""
        return self.begin(do, **more).wait(more.get("timeout", 0.0) + self.patience)

    def script(self, **script: Any) -> List[str]:
        """The command of a scripted server, with a journal of its own."""
        journal = self.folder / f"journal-{len(self._journals)}"
        self._journals.append(journal)
        journal.touch()
        return [
            sys.executable,
            "-E",
            "-S",
            str(PEER),
            str(journal),
            json.dumps({"cacheable": True, **script}),
        ]

    def open(
        self,
        timeout: Optional[float] = None,
        *,
        command: Optional[Sequence[str]] = None,
        **more: Any,
    ) -> Reply:
        """Have it connect to a scripted server: `more` is the script, or what `open` of the
        protocol takes.

        A timeout of None must not be reached.
        """
        if "url" in more:
            return self.do("open", timeout=timeout or 3 * self.never, **more)
        ours = {name: more.pop(name) for name in ("cwd", "env", "on_log", "elicit") if name in more}
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

    def begin_call(self, tool: str, timeout: Optional[float] = None, **arguments: Any) -> Command:
        return self.begin("call", tool=tool, arguments=arguments, timeout=timeout or self.never)

    def call(self, tool: str, timeout: Optional[float] = None, **arguments: Any) -> Reply:
        """Have it call a tool; a timeout of None must not be reached."""
        return self.begin_call(tool, timeout, **arguments).wait(
            (timeout or self.never) + self.patience
        )

    def alive(self) -> None:
        reply = self.call("echo", text="alive")
        assert reply.text == "alive", (
            f"a call afterwards: {reply.error or reply.text}: {reply.message}"[:200]
        )

    def journal(self, which: int = -1) -> List[Dict[str, Any]]:
        """Return the journal of a scripted server, by default the latest one."""
        return [
            json.loads(line) for line in self._journals[which].read_text("utf-8").split("\n")[:-1]
        ]

    def servers(self) -> List[int]:
        """Process ids of every scripted server so far and of what these started, ended or not."""
        records = [record for which in range(len(self._journals)) for record in self.journal(which)]
        return [record[name] for record in records for name in ("pid", "child") if name in record]

    def gone(self, seconds: float) -> List[int]:
        """The scripted servers that are still there after so long, as zombies too."""
        eventually(lambda: not any(map(running, self.servers())), seconds)
        return [pid for pid in self.servers() if running(pid)]

    def memory(self, field: str = "VmRSS") -> float:
        return status_of(self.process.pid, field) / 1024

    def count(self, what: str) -> int:
        """How many of `fd` or `task` (threads) the adapter has."""
        return len(os.listdir(f"/proc/{self.process.pid}/{what}"))

    def children(self) -> int:
        """How many child processes the adapter has, zombies included."""
        return len(children_of(self.process.pid))

    def settled(self, what: str, most: int, seconds: float) -> int:
        """Return the count like `count`, but wait until it is at most `most` or the time is over,
        because threads and processes take a moment to end."""
        eventually(lambda: self.count(what) <= most, seconds)
        return self.count(what)

    def stderr(self) -> str:
        self._log.flush()
        return (self.folder / "stderr").read_text("utf-8", "replace")

    def dispose(self) -> None:
        """End the adapter and the scripted servers, and delete their journals."""
        assert self.process.stdin is not None and self.process.stdout is not None
        for pid in self.servers():
            try:  # and nothing that may have got its number since
                if PEER.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
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
