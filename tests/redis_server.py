"""A real `redis-server` of the system's packages, on a free port of the loopback address, without
persistence."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Iterator, List, Optional

import minimcp

from .support import WAIT, eventually


def store_at(place: str) -> minimcp.Store:
    """Return the store at a Redis URL, or in the file at this path."""
    return minimcp.RedisStore(place) if "://" in place else minimcp.SqliteStore(place)


def program() -> str:
    """The path of redis-server, which CI installs when it is not there."""
    found = shutil.which("redis-server")
    if found is None and os.environ.get("CI"):
        for command in (
            ["apt-get", "-q", "update"],
            ["apt-get", "-q", "-y", "install", "redis-server"],
        ):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        found = shutil.which("redis-server")
    assert found is not None, "redis-server is missing: apt-get install redis-server"
    return found


class RedisServer:
    """One server. Thread-safe as far as one test needs it."""

    def __init__(self, folder: Path) -> None:
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = int(free.getsockname()[1])
        self.url, self.folder = f"redis://127.0.0.1:{self.port}/0", folder
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> None:
        """Run it; returns when it answers."""
        command = [
            program(),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(self.folder),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert eventually(lambda: self.say("PING") == b"+PONG\r\n", WAIT), (
            "redis-server does not answer"
        )

    def say(self, *words: str) -> bytes:
        """Return the reply to a command, in wire format, or nothing if the server does not listen."""
        line = "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        try:
            with socket.create_connection(("127.0.0.1", self.port), WAIT) as connection:
                connection.sendall(f"*{len(words)}\r\n{line}".encode())
                return connection.recv(1 << 20)
        except OSError:
            return b""

    def numbers(self, section: str) -> "dict[str, str]":
        """Return the entries of a section of INFO."""
        pairs: List[List[str]] = [
            line.split(":", 1) for line in self.say("INFO", section).decode().splitlines()
        ]
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        """End it, also where it is stopped. Idempotent."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(WAIT)
            self.process = None


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
