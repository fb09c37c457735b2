"""One child process with a group of its own: started, waited for, told to end, reaped. Part of child.py.

What the standard library's `Popen.wait(timeout)` does by looking again and again is a wait here: on Linux for a
pidfd, on other POSIX systems for a pipe that a small thread closes when the process has ended. On Windows the
system waits by itself, and a Job Object stands in for the group: written for, not run on.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from ..engine.deadline import Deadline
from ..engine.descriptors import Bell, Descriptor, Source, close_quietly

if TYPE_CHECKING:
    import subprocess

END_SECONDS = 2.0
"""How long `end` waits for a killed process, which may hang in the kernel."""

_WINDOWS = os.name == "nt"
_NO_WINDOW_NEW_GROUP = 0x08000000 | 0x00000200
_log = logging.getLogger("minimcp.stdio")


class Process:
    """A running or ended child.

    Args:
        command: The program and its arguments.
        env: The whole environment.
        cwd: Working directory, None for this process's own.
        streams: Descriptors for its stdin, stdout and stderr; they stay the caller's to close.
        bell: Shared with its pipes, of no use here but to keep the number of descriptors small.

    Raises:
        OSError: The system cannot start it.
        ValueError: A NUL, or an "=" in the name of an environment variable.
        RuntimeError: No thread could be started. In each case nothing is left behind.

    Thread-safe.
    """

    __slots__ = ("_popen", "_exit", "_job", "_reaping")

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: Optional[str],
        streams: tuple[int, int, int],
        bell: Bell,
    ) -> None:
        import subprocess

        if sys.platform == "win32":  # pragma: no cover - not run on
            from .windows import program

            command = [program(command[0], env), *command[1:]]
        self._popen: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            bufsize=0,
            close_fds=True,
            cwd=cwd,
            env=env,
            start_new_session=not _WINDOWS,
            creationflags=_NO_WINDOW_NEW_GROUP if _WINDOWS else 0,
        )
        self._reaping = threading.RLock()
        self._exit: Optional[Descriptor] = None
        self._job: Any = None
        try:
            self._watch(bell)
        except BaseException:
            self.kill()
            self._wait_by_system(END_SECONDS)
            raise

    def _watch(self, bell: Bell) -> None:
        if sys.platform == "win32":  # pragma: no cover - not run on
            from .windows import Job

            self._job = Job(self.pid)
            return
        self._exit = Descriptor(_exit_descriptor(self._popen), bell, 0, nonblocking=False)

    def tell_end_to(self, source: Source) -> None:
        """Have a stream end when the process does, even if somebody else holds its other end."""
        if self._exit is not None:
            source.end_with(self._exit.number)

    @property
    def pid(self) -> int:
        """Its number, and its group's."""
        return self._popen.pid

    @property
    def returncode(self) -> Optional[int]:
        """As `subprocess.Popen.returncode`: negative for a signal, None while it runs. Reaps it."""
        with self._reaping:  # of two that poll at once `subprocess` would tell one that it still runs
            return self._popen.poll()

    def wait(self, seconds: float, drained: Optional[Descriptor] = None) -> bool:
        """Whether it ends within `seconds`.

        Args:
            seconds: How long to wait.
            drained: A non-blocking descriptor to read from meanwhile, into nothing: a child that waits for room
                in a pipe cannot end.
        """
        exit_ = self._exit
        if exit_ is None:  # pragma: no cover - Windows
            return self._wait_by_system(seconds)
        if not exit_.enter():
            return True
        drains = drained is not None and drained.enter()
        try:
            return _poll_for(exit_.number, drained.number if drains and drained else -1, Deadline(seconds))
        finally:
            if drains and drained:
                drained.leave()
            exit_.leave()

    def _wait_by_system(self, seconds: float) -> bool:
        import subprocess

        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:  # pragma: no cover - Windows
            return False
        return True

    def terminate(self) -> None:
        """Ask the whole group to end (Windows knows no asking)."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group. Its number is the child's and stays taken while anybody is in it."""
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))

    def _signal(self, number: int) -> None:
        if _WINDOWS:  # pragma: no cover - not run on
            if self._job is not None:
                self._job.terminate()
            self._popen.terminate()
            return
        try:
            os.killpg(self.pid, number)
        except OSError as error:
            _log.debug("signal %s for process group %s: %s", number, self.pid, error)

    def end(self) -> None:
        """End the whole group, reap the child and let go of everything."""
        self.kill()
        if not self.wait(END_SECONDS):
            _log.error("process %s does not end after SIGKILL, it is left behind", self.pid)
        self.release()

    def release(self) -> None:
        """Reap the ended child and let go of what was needed to wait for it."""
        self._popen.poll()
        if self._job is not None:  # pragma: no cover - Windows
            self._job.close()
        if self._exit is not None:
            self._exit.retire()

    def abandon(self) -> None:
        """Close descriptors in a forked process, whose child it is not."""
        if self._exit is not None:
            self._exit.abandon()
        if self._popen.returncode is None:
            self._popen.returncode = 0  # Keeps the destructor from warning and waiting for a stranger.


def _exit_descriptor(popen: subprocess.Popen[bytes]) -> int:
    """A descriptor that becomes readable when the process has ended."""
    pidfd_open = getattr(os, "pidfd_open", None)
    if pidfd_open is not None:
        try:
            return int(pidfd_open(popen.pid))
        except OSError:
            pass  # An older kernel, or a sandbox that does not know the call.
    reading, writing = os.pipe()

    def wait() -> None:
        popen.wait()
        close_quietly(writing)

    try:
        threading.Thread(target=wait, name=f"minimcp waits for process {popen.pid}", daemon=True).start()
    except BaseException:
        close_quietly(reading)
        close_quietly(writing)
        raise
    return reading


def _poll_for(exit_number: int, drained_number: int, deadline: Deadline) -> bool:
    poller = select.poll()
    poller.register(exit_number, select.POLLIN)
    if drained_number >= 0:
        poller.register(drained_number, select.POLLIN)
    while True:
        ready = [number for number, _ in poller.poll(deadline.wait() * 1000 + 1)]
        if exit_number in ready:
            return True
        if ready and not _drain(drained_number):
            poller.unregister(drained_number)
        if deadline.expired:
            return False


def _drain(number: int) -> bool:
    """Read and forget what is there; False at the end of the stream."""
    try:
        return bool(os.read(number, 1024 * 1024))
    except BlockingIOError:
        return True
    except OSError:
        return False
