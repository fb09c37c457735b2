"""``minimcp run --reload``: serve in a child process, and start a new one when a file changes.

The child ends when its stdin does: that works everywhere, and it ends too when this process is killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Iterator, Mapping, NoReturn, Optional, Sequence

from .screen import say

LOOK_SECONDS = 1.0
"""How often the files are looked at."""

END_SECONDS = 15.0
"""What a child gets to end in, which closes its server first; then it is killed."""

Seen = Mapping[str, tuple[int, int]]
"""Files, with the time of the last change and the size."""


def run_again_and_again(path: str, arguments: Sequence[str], address: tuple[str, int]) -> int:
    """Serve until Ctrl-C or SIGTERM; its exit code.

    Args:
        path: The file with the server.
        arguments: Of ``minimcp run``.
        address: Host and port; port 0 takes a free one, the same for all children.
    """
    host, port = address
    if port == 0:
        port = _free_port(host)
        arguments = [*arguments, "--http", f"{host}:{port}"]
    command = [sys.executable, "-m", __name__.split(".cli.")[0], "run", *arguments, "--until-stdin-ends"]
    old = signal.signal(signal.SIGTERM, _interrupt)
    child: Optional[subprocess.Popen[bytes]] = None
    try:
        while True:
            seen = look(path)
            child = _start(command)
            _wait_for_change(path, seen, child)
            say(f"{path} or a module beside it has changed", file=sys.stderr)
            _end(child)
    except KeyboardInterrupt:
        return 0
    finally:
        if child is not None:
            _end(child)
        signal.signal(signal.SIGTERM, old)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def look(path: str) -> Seen:
    """The file, the modules beside it and those in packages beside it, as they are now."""
    folder = os.path.dirname(os.path.abspath(path))
    seen: dict[str, tuple[int, int]] = {}
    for name in [os.path.abspath(path), *_modules(folder)]:
        try:
            facts = os.stat(name)
        except OSError:
            continue  # an editor is at it
        seen[name] = (facts.st_mtime_ns, facts.st_size)
    return seen


def _modules(folder: str) -> Iterator[str]:
    for inner, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if os.path.isfile(os.path.join(inner, each, "__init__.py"))]
        yield from (os.path.join(inner, each) for each in files if each.endswith(".py"))


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child that Ctrl-C at the terminal does not reach: this process ends it, once."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # bytecode tells changes apart by whole seconds
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, creationflags=flags, start_new_session=True
    )


def _wait_for_change(path: str, seen: Seen, child: subprocess.Popen[bytes]) -> None:
    """Return when the files have changed; a child that has ended by itself is no reason to go."""
    while True:
        _pause(child)
        now = look(path)
        if now != seen and os.path.abspath(path) in now:
            return


def _pause(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        try:
            child.wait(LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            return
        say("it has ended; it is started again when a file changes", file=sys.stderr)
    time.sleep(LOOK_SECONDS)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Have a child end, by force if it must be. Idempotent."""
    assert child.stdin is not None
    child.stdin.close()
    try:
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
