"""Chromium without a window, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import tempfile
import threading
import webbrowser
from contextlib import ExitStack
from typing import Any, BinaryIO

from ..support import eventually
from .environments import debian_program

SECONDS = 60.0  # that all of a visit may take

# It takes requests on descriptor 3, and answers on 4.
SHELL = 'exec "$@" 3<&{0} 4>&{1} {0}<&- {1}>&-'


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a program with all processes of its session: a late one would write to the profile."""
    process.terminate()
    process.wait()

    def is_gone() -> bool:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return True
        return False

    assert eventually(is_gone), "a process of the browser outlives SIGKILL"


class Chromium(webbrowser.BaseBrowser):
    """A browser that clicks the first button of each page that it opens. A context manager.

    Attributes:
        text: The text of the last page.
        address: The address of the last page.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = self.address = ""
        self._count, self._session = 0, ""
        self._stack = ExitStack()
        self._thread = threading.Thread()

    def __enter__(self) -> Chromium:
        program = debian_program("chromium", "chromium")
        with self._stack as stack:
            profile = stack.enter_context(tempfile.TemporaryDirectory())
            given, self._requests = _pipe()
            self._answers, taken = _pipe()
            for file in (self._requests, self._answers):
                stack.callback(file.close)
            options = [
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-first-run",
                f"--user-data-dir={profile}",
            ]
            if os.geteuid() == 0:
                options.append("--no-sandbox")
            shell = SHELL.format(given.fileno(), taken.fileno())
            process = subprocess.Popen(
                ["bash", "-c", shell, "bash", program, *options, "about:blank"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(given.fileno(), taken.fileno()),
                start_new_session=True,
            )
            stack.callback(_end, process)
            given.close()
            taken.close()
            watch = threading.Timer(SECONDS, process.kill)  # after that, reading ends
            watch.start()
            stack.callback(watch.cancel)
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            self.ask("Page.enable")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        """Open a page as `webbrowser` does, and return at once."""
        self._thread = threading.Thread(target=self._visit, args=(url,))
        self._thread.start()
        return True

    def join(self) -> None:
        """Wait until the page after the click is loaded."""
        self._thread.join()

    def ask(self, method: str, **params: Any) -> Any:
        """Call a method of the DevTools protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._requests.write(json.dumps(message).encode() + b"\0")
        answer = self._read("id", self._count)
        assert "error" not in answer, answer
        return answer["result"]

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        return self.ask("Runtime.evaluate", expression=script)["result"].get("value")

    def load(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self.ask("Page.navigate", url=url)
        self._read("method", "Page.loadEventFired")

    def _visit(self, url: str) -> None:
        self.load(url)
        self.evaluate("document.querySelector('button').click()")
        self._read("method", "Page.loadEventFired")
        self.text, self.address = (
            self.evaluate("document.body.innerText"),
            self.evaluate("location.href"),
        )

    def _read(self, member: str, value: Any) -> Any:
        """The next message in which a member has this value."""
        while True:
            data = b""
            while not data.endswith(b"\0"):
                byte = self._answers.read(1)
                assert byte, "the browser has ended"
                data += byte
            message = json.loads(data[:-1])
            if message.get(member) == value:
                return message


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Return a pipe with both descriptors above the descriptors of the browser."""
    low = os.pipe()
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in low]
    for each in low:
        os.close(each)
    return open(high[0], "rb"), open(high[1], "wb", buffering=0)
