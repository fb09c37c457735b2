"""``run --http``: served at a URL, for the other commands and for clients; and served anew when a file changes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Callable, Iterator, List

import pytest

from minimcp import connect
from minimcp.cli.run import look
from minimcp.cli.run import _address

from ..support import ROOT, WAIT
from .conftest import Done, command_line

SERVER = """
from minimcp import Server
from beside import ANSWER

server = Server("shop")

@server.tool
def answer(word: str = "") -> str:
    "Answer."
    return ANSWER + word

@server.resource("note://one")
def note() -> str:
    "A note."
    return "read"

@server.prompt
def greet() -> str:
    "Greet."
    return "asked"
"""


class Served:
    """A ``minimcp run`` in a process, with what it says on stderr.

    Args:
        folder: It has ``shop.py``, and the module beside it.
        options: Behind ``--http 0``.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            command_line("run", "shop.py", "--http", "0", *options), cwd=folder, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stderr is not None
        self.lines = self.process.stderr
        self._killer = threading.Timer(4 * WAIT, self.process.kill)  # so that every wait for a line ends
        self._killer.start()
        self.url = self.next(r"serves at (\S+)")

    def next(self, pattern: str) -> str:
        """The first group of the next line that has this."""
        for line in self.lines:
            found = re.search(pattern, line)
            if found:
                return found.group(found.re.groups)
        raise AssertionError(f"it ended without saying {pattern!r}")

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(WAIT)

    def close(self) -> None:
        self._killer.cancel()
        self._killer.join()
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self.lines.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "beside.py").write_text("ANSWER = 'one'\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Served]]:
    """Starts it, and ends it after the test."""
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Served:
            served = Served(folder, *options)
            stack.callback(served.close)
            return served

        yield start


def test_the_other_commands_find_it_at_its_url(
    serve: Callable[..., Served], minimcp: Callable[..., Done]
) -> None:
    served = serve()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", served.url)
    for command, more, printed in [
        ("ping", [], "revision 2026-07-28"), ("list", [], "answer("), ("call", ["answer", "word=!"], "one!"),
        ("read", ["note://one"], "read"), ("prompt", ["greet"], "asked"),
    ]:  # fmt: skip
        done = minimcp(command, served.url, *more)
        assert done.code == 0 and printed in done.out, done
    older = minimcp("call", served.url, "answer", "--revision", "2025-11-25")
    assert (older.code, older.out) == (0, "one\n")
    assert served.end() == 0


def test_sse_is_served_beside_it(serve: Callable[..., Served], minimcp: Callable[..., Done]) -> None:
    served = serve("--sse")
    older = served.next(r"and at (\S+)")
    assert older == served.url.replace("/mcp", "/sse")
    for url in (served.url, older):
        done = minimcp("call", url, "answer")
        assert (done.code, done.out) == (0, "one\n"), done
    assert served.end(signal.SIGTERM) == 0


def _answer(url: str) -> str:
    with connect(url) as client:
        return client.call_tool("answer").text


def test_it_is_started_anew_when_a_file_changes(folder: Path, serve: Callable[..., Served]) -> None:
    served = serve("--reload")
    assert _answer(served.url) == "one"

    (folder / "beside.py").write_text("ANSWER = 'two'\n", encoding="utf-8")  # as long as before, in the same second
    assert served.next(r"serves at (\S+)") == served.url
    assert _answer(served.url) == "two"

    (folder / "shop.py").write_text("x = (\n", encoding="utf-8")
    served.next("cannot be imported: line 1: SyntaxError")
    (folder / "shop.py").write_text(SERVER.replace("return ANSWER", "return ANSWER * 2"), encoding="utf-8")
    assert served.next(r"serves at (\S+)") == served.url
    assert _answer(served.url) == "twotwo"
    assert served.end() == 0


def test_a_child_does_not_outlive_the_one_that_watches(serve: Callable[..., Served]) -> None:
    served = serve("--reload")
    served.process.kill()
    assert served.lines.read() == ""  # it holds the other end of this pipe until it has ended


def test_what_is_watched(tmp_path: Path) -> None:
    watched = ["shop.py", "beside.py", "package/__init__.py", "package/inner.py"]
    for name in [*watched, "notes.txt", "plain/other.py", "plain/package/__init__.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    os.symlink("nowhere.py", tmp_path / "broken.py")
    assert sorted(look(str(tmp_path / "shop.py"))) == sorted(str(tmp_path / name) for name in watched)


@pytest.mark.parametrize(("text", "address"), [
    ("8000", ("127.0.0.1", 8000)), ("localhost:0", ("localhost", 0)), ("[::1]:80", ("::1", 80)),
])
def test_addresses(text: str, address: object) -> None:
    assert _address(text) == address


def _mistakes() -> List[object]:
    return [
        (["--http", "here"], "is no [HOST:]PORT"), (["--http", ":80"], "is no [HOST:]PORT"),
        (["--http", "65536"], "is no [HOST:]PORT"), (["--sse"], "--sse goes with --http"),
        (["--reload"], "--reload goes with --http"), (["--http", "0.0.0.0:0"], "allowed_hosts"),
    ]


@pytest.mark.parametrize(("options", "said"), _mistakes())
def test_mistakes(options: List[str], said: str, shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("run", shop, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err, done


def test_a_port_that_is_taken(shop: str, minimcp: Callable[..., Done]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = minimcp("run", shop, "--http", str(port))
    assert done.code == 3 and f"cannot listen at 127.0.0.1, port {port}: " in done.err and done.err.count("\n") == 1
