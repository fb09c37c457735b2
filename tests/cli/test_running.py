"""``run``: the server object in a file, found, named and served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

import minimcp as package
from minimcp.cli import UsageError
from minimcp.cli.run import load, find_server as pick

from .conftest import Done, run_process

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}  # fmt: skip

TWO = "from minimcp import Server\nprint('noise')\nfirst = Server('one')\nsame = first\nsecond = Server('two')\n"


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import sys

    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def _file(folder: Path, text: str, name: str = "some_server.py") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_it_serves_until_its_input_ends(tmp_path: Path) -> None:
    path = _file(tmp_path, TWO + "import os; os.write(2, b'loaded')\n")
    done = run_process("run", f"{path}:second", stdin=json.dumps(INITIALIZE) + "\n")
    assert (done.code, sorted(done.err)) == (0, sorted("noise\nloaded"))  # Python's buffer may come second
    assert json.loads(done.out)["result"]["serverInfo"]["name"] == "two"


PLAIN = """
import minimcp
class Notes:
    def __init__(self, path="x"): self.path = path
    @minimcp.tool
    def add(self) -> str:
        "Note."
        return self.path
"""


@pytest.mark.parametrize(("more", "name"), [
    ("", ""), ("", "Notes"), ("notes = Notes('y')\nother = 5\n", ""), ("notes = Notes('y')\n", "notes"),
])
def test_a_plain_class_or_an_object_of_it_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, name: str
) -> None:
    path = _file(tmp_path, PLAIN + more)
    with package.connect(pick(load(path), name, path)) as client:
        assert client.call_tool("add").text == ("y" if more else "x")
        assert client.server_info is not None and client.server_info.name == "notes"
    assert capsys.readouterr() == ("", "" if more else "serving Notes(), a class of some_server\n")


def test_a_class_that_needs_arguments_is_not_made(tmp_path: Path) -> None:
    path = _file(tmp_path, PLAIN.replace('path="x"', "path"))
    for name in ("", "Notes"):
        words = r"served: Notes\(\) is missing .*'path': give it a default, or .*: notes = Notes\(...\)$"
        with pytest.raises(UsageError, match=words):
            pick(load(path), name, path)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (TWO, "", "has several servers, say which: {path}:first, {path}:second"),
        (TWO, ":third", "has no variable 'third': its servers are first, second"),
        ("x = 1\n", ":x", "'x' in {path} is no server but int"),
        ("from minimcp import Server\n", "", "has no server object: write"),
        ("from minimcp import Server\n", ":Server", "is no server but type"),
        ("x = 1\n", ":y", "has no variable 'y'"),
        ("x = 1\nx = 1 / 0\n", "", "cannot be imported: line 2: ZeroDivisionError: division by zero"),
        ("x = 1\nx = (\n", "", "cannot be imported: line 2: SyntaxError: "),
        ("import no_such_module_at_all\n", "", "cannot be imported: line 1: ModuleNotFoundError: "),
        ("raise SystemExit(5)\n", "", "cannot be imported: line 1: SystemExit: 5"),
    ],
)
def test_mistakes(text: str, name: str, said: str, tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    path = _file(tmp_path, text)
    done = minimcp("run", path + name)
    assert (done.code, done.out) == (2, "")
    assert said.format(path=path) in done.err
    assert done.err.count("\n") == 1 + ("noise" in done.err)


@pytest.mark.parametrize("path", ["no/such.py", "no/such.py:server", "setup.cfg"])
def test_what_is_no_python_file(path: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("run", path)
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_the_file_is_split_from_the_name(tmp_path: Path) -> None:
    odd = _file(tmp_path, "", "odd:name")
    assert split_name("a.py:server") == ("a.py", "server")
    assert split_name("a.py") == ("a.py", "")
    assert split_name("C:\\a.py") == ("C:\\a.py", "")
    assert split_name(odd) == (odd, "")


def test_a_file_sees_its_own_folder_and_may_be_named_like_a_known_module(tmp_path: Path) -> None:
    _file(tmp_path, "value = 5\n", "beside_it.py")
    text = (
        "from dataclasses import dataclass\nfrom beside_it import value\nfrom minimcp import Server\n"
        "@dataclass\nclass Point:\n    x: 'int' = value\nserver = Server('s')\n"
        "@server.tool\ndef point() -> Point:\n    'Give a point.'\n    return Point()\n"
    )
    variables = load(_file(tmp_path, text, "json.py"))
    server = pick(variables, "", "json.py")
    with package.connect(server) as client:
        assert client.call_tool("point").structured_content == {"x": 5}


def test_a_server_of_a_copied_package_counts(tmp_path: Path) -> None:
    class Foreign:
        def open_pipe(self) -> Any: ...
        def run(self) -> None: ...

    foreign = Foreign()
    assert pick({"a": 1, "Foreign": Foreign, "it": foreign}, "", "x.py") is foreign
