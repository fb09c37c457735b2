"""``run`` finds the server object in a file, names it and serves it over stdio and HTTP, and starts
again when a file changes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from minimcp import InvalidParams, connect
from minimcp.cli import UsageError
from minimcp.cli.run import address, find_server, load, stamps_of

from ..support import ROOT, WAIT
from .conftest import Done, command_line, run_process

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}  # fmt: skip

TWO = "from minimcp import Server\nprint('noise')\nfirst = Server('one')\nsame = first\nsecond = Server('two', capabilities=['tools'])\n"

PLAIN = """
import minimcp
class Notes:
    def __init__(self, path="x"): self.path = path
    @minimcp.tool
    def add(self) -> str:
        "Note."
        return self.path
"""


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _file(folder: Path, text: str, name: str = "some_server.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["some_server.py", "odd:name.py"])
def test_it_serves_until_its_input_ends(tmp_path: Path, name: str) -> None:
    path = _file(tmp_path, TWO + "import os; os.write(2, b'loaded')\n", name)
    done = run_process("run", f"{path}:second", input=json.dumps(INITIALIZE) + "\n")
    assert (done.code, sorted(done.err)) == (
        0,
        sorted("noise\nloaded"),
    )  # Python's buffer may be printed second
    assert json.loads(done.out)["result"]["serverInfo"]["name"] == "two"


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ("", ""),
        ("", "Notes"),
        ("notes = Notes('y')\nother = 5\n", ""),
        ("notes = Notes('y')\n", "notes"),
    ],
)
def test_a_plain_class_or_an_object_of_it_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, name: str
) -> None:
    path = _file(tmp_path, PLAIN + more)
    with connect(find_server(load(path), name, path)) as client:
        assert client.call_tool("add").text == ("y" if more else "x")
        assert client.server_info is not None and client.server_info.name == "notes"
    assert capsys.readouterr() == (
        "",
        "" if more else "serving Notes(), a class from some_server\n",
    )


def test_a_class_that_needs_arguments_is_not_made(tmp_path: Path) -> None:
    path = _file(tmp_path, PLAIN.replace('path="x"', "path"))
    for name in ("", "Notes"):
        words = r"'Notes' in .*\.py cannot be served: .*__init__\(\) missing .*'path'$"
        with pytest.raises(UsageError, match=words):
            find_server(load(path), name, path)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (TWO, "", "has several servers: choose one of {path}:first, {path}:second"),
        (TWO, ":third", "has no variable 'third'; its servers are first, second"),
        ("x = 1\n", ":x", "'x' in {path} is not a server but int"),
        ("from minimcp import Server\n", "", "has no server object: write"),
        ("from minimcp import Server\n", ":Server", "is not a server but type"),
        ("x = 1\n", ":y", "has no variable 'y'\n"),
        (
            "x = 1\nx = 1 / 0\n",
            "",
            "cannot be imported: line 2: ZeroDivisionError: division by zero",
        ),
        ("x = 1\nx = (\n", "", "cannot be imported: line 2: SyntaxError: "),
        ("import no_such_module_at_all\n", "", "cannot be imported: line 1: ModuleNotFoundError: "),
        ("raise SystemExit(5)\n", "", "cannot be imported: line 1: SystemExit: 5"),
    ],
)
def test_mistakes_in_a_file(
    text: str, name: str, said: str, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    path = _file(tmp_path, text)
    done = minimcp("run", path + name)
    assert (done.code, done.out) == (2, "") and said.format(path=path) in done.err
    assert done.err.count("\n") == 1 + ("noise" in done.err)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no/such.py"], "there is no file 'no/such.py'"),
        (["no/such.py:server"], "there is no file 'no/such.py'"),
        (["shop.txt"], "shop.txt is not a Python file"),
        (["C:\\a.py"], "there is no file 'C:\\\\a.py'"),
        (["shop.py", "--http", "here"], "is not [HOST:]PORT"),
        (["shop.py", "--http", ":80"], "is not [HOST:]PORT"),
        (["shop.py", "--http", "65536"], "is not [HOST:]PORT"),
        (["shop.py", "--sse"], "--sse needs --http"),
        (["shop.py", "--reload"], "--reload needs --http"),
        (["shop.py", "--http", "0.0.0.0:0"], "allowed_hosts"),
    ],
)
def test_wrong_usage(words: List[str], said: str, shop: str, minimcp: Callable[..., Done]) -> None:
    Path("shop.txt").touch()
    done = minimcp("run", *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err, done


def test_a_file_sees_its_own_folder_and_may_be_named_like_a_known_module(tmp_path: Path) -> None:
    _file(tmp_path, "value = 5\n", "beside_it.py")
    text = (
        "from dataclasses import dataclass\nfrom beside_it import value\nfrom minimcp import Server\n"
        "@dataclass\nclass Point:\n    x: 'int' = value\nserver = Server('s')\n"
        "@server.tool\ndef point() -> Point:\n    'Give a point.'\n    return Point()\n"
    )
    with connect(find_server(load(_file(tmp_path, text, "json.py")), "", "json.py")) as client:
        assert client.call_tool("point").structured_content == {"x": 5}


def test_a_server_of_a_copied_package_counts() -> None:
    class Foreign:
        def start_http(self) -> Any: ...
        def run(self) -> None: ...

    foreign = Foreign()
    assert find_server({"a": 1, "Foreign": Foreign, "it": foreign}, "", "x.py") is foreign
    assert [address(text) for text in ("8000", "localhost:0", "[::1]:80")] == [
        ("127.0.0.1", 8000),
        ("localhost", 0),
        ("::1", 80),
    ]


# ------------------------------------------------------------ over HTTP

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
    """Run ``minimcp run shop.py`` in a process, and collect its stderr."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            command_line("run", "shop.py", "--http", "0", *options),
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stderr is not None
        self.lines = self.process.stderr
        self._killer = threading.Timer(
            4 * WAIT, self.process.kill
        )  # so that every wait for a line ends
        self._killer.start()
        self.url = self.next(r"serves at (\S+)")

    def next(self, pattern: str) -> str:
        """The last group of the next line that has this."""
        for line in self.lines:
            found = re.search(pattern, line)
            if found:
                self.line = line
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
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts it, and ends it after the test."""
    _file(tmp_path, SERVER, "shop.py")
    _file(tmp_path, "ANSWER = 'one'\n", "beside.py")
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Served:
            served = Served(tmp_path, *options)
            stack.callback(served.close)
            return served

        yield start


def test_the_other_commands_find_it_at_its_urls(
    serve: Callable[..., Served], minimcp: Callable[..., Done]
) -> None:
    served = serve("--sse")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", served.url)
    older = served.url.replace("/mcp", "/sse")
    assert served.line.endswith(f" and {older}\n")
    for command, url, more, printed in [
        ("ping", served.url, [], "revision 2026-07-28"), ("list", served.url, [], "answer("),
        ("call", served.url, ["answer", "word=!"], "one!"), ("read", served.url, ["note://one"], "read"),
        ("prompt", served.url, ["greet"], "asked"), ("call", older, ["answer"], "one"),
        ("call", served.url, ["answer", "--revision", "2025-11-25"], "one"),
    ]:  # fmt: skip
        done = minimcp(command, url, *more)
        assert done.code == 0 and printed in done.out, done
    assert served.end() == 0


def test_a_port_in_use(shop: str, minimcp: Callable[..., Done]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = minimcp("run", shop, "--http", str(port))
    assert done.code == 3 and done.err.count("cannot listen") == done.err.count("\n") == 1


def test_it_restarts_when_a_file_changes(tmp_path: Path, serve: Callable[..., Served]) -> None:
    def answer() -> str:
        with connect(served.url) as client:
            return client.call_tool("answer").text

    changing = "import atexit, os, sys\nANSWER = os.environ.setdefault('ANSWER', 'one')\nos.chdir(os.sep)\n"
    changing += "atexit.register(print, 'it ends', file=sys.stderr)\n"
    _file(tmp_path, changing, "beside.py")
    served = serve("--reload")
    assert answer() == "one"
    _file(
        tmp_path, changing.replace("'one'", "'two'"), "beside.py"
    )  # as long as before, in the same second
    served.next("it ends")
    assert served.next(r"serves at (\S+)") == served.url
    assert answer() == "two"
    _file(tmp_path, "x = (\n", "shop.py")
    served.next("cannot be imported: line 1: SyntaxError")
    served.next("waiting for a change before restarting")
    _file(tmp_path, SERVER.replace("return ANSWER", "return ANSWER * 2"), "shop.py")
    assert served.next(r"serves at (\S+)") == served.url
    assert answer() == "twotwo"
    assert served.end() == 0


def test_watched_files(tmp_path: Path) -> None:
    watched = ["shop.py", "beside.py", "package/__init__.py", "package/inner.py"]
    for name in [*watched, "notes.txt", "plain/other.py", "plain/package/__init__.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    os.symlink("nowhere.py", tmp_path / "broken.py")
    assert sorted(stamps_of(str(tmp_path / "shop.py"))) == sorted(
        str(tmp_path / name) for name in watched
    )


def test_verbose_prints_a_line_for_each_request(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "from minimcp import Server\n"
        "finished = []\n"
        "server = Server('one', on_request=finished.append)\n"
        "@server.tool\n"
        "def count(what: str) -> int:\n"
        "    'Count the requests.'\n"
        "    if what == 'bad': raise ValueError(what)\n"
        "    return len(finished)\n",
    )
    command = command_line("run", path, "--http", "0", "--verbose")
    lines: List[str] = []
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stderr is not None
        watch = threading.Timer(WAIT, process.kill)
        watch.start()
        (url,) = re.findall(r"http://\S+", process.stderr.readline().decode())
        with connect(url, revision="2026-07-28") as client:
            client.call_tool("count", {"what": "bad"}, raise_on_error=False)
            before = client.call_tool("count", {"what": "calls"}).value
            assert before >= 2, "the server's own on_request= is called too"
        with pytest.raises(InvalidParams), connect(url, revision="2025-11-25") as client:
            client.call_tool("none")
        asking = HTTPConnection("127.0.0.1", int(re.findall(r":(\d+)/", url)[0]), timeout=WAIT)
        asking.request("POST", "/mcp", "{}", {"Host": "example.com"})
        assert asking.getresponse().status in (403, 421)
        asking.close()
        lines = []
        rejected = "127.0.0.1.*rejected with 4[02][13]: "
        while not (lines and re.search(rejected, lines[-1])):  # it is logged after the response
            line = process.stderr.readline().decode()
            assert line, lines
            lines.append(line.rstrip())
        process.send_signal(signal.SIGINT)
        lines += process.stderr.read().decode().splitlines()
        watch.cancel()
    took = r"after \d+\.\d ms"
    for expected in (
        rf"tools/call count: tool_error {took}",
        rf"tools/call count: ok {took}",
        rf"initialize: ok {took}( session=\w+)?",
        rf"(unknown|tools/call)( none)?: error -32602 {took}( session=\w+)?",
    ):
        assert [line for line in lines if re.fullmatch(rf"\d\d:\d\d:\d\d {expected}", line)], (
            expected,
            lines,
        )
    assert [line for line in lines if re.search(rejected, line)], lines
