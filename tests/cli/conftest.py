"""Servers for the commands to talk to, and ways to run a command: in this process, and as a process
of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Tuple

import pytest

from minimcp.cli import bundle, main, vendor
from minimcp.cli.closure import Package
from minimcp.cli.vendor import HEADER

from ..support import ROOT, WAIT, outlives_the_test

SHOP = """
import sys
from typing import Dict, List, Literal, Optional
from minimcp import Audio, Context, Image, ResourceLink, Server, Text, ToolError

server = Server("shop", version="3", instructions="Sells things.\\nAsk for prices.")

@server.tool
def order(
    item: str, ctx: Context, count: int = 1, price: float = 0.5, tags: Optional[List[str]] = None, gift: bool = False,
    size: Literal["s", "m"] = "m", more: Optional[Dict[str, int]] = None,
) -> dict:
    '''Order something.

    Args:
        item: What to buy.
    '''
    print("ordering", file=sys.stderr, flush=True)
    for step in range(1, 5):
        ctx.progress(step, 4, "step %d" % step)
    return {"item": item, "count": count, "price": price, "tags": tags, "gift": gift, "size": size, "more": more}

@server.tool
def fail() -> str:
    "Fail."
    raise ToolError("out of stock,\\nsorry")

@server.tool
def slow(ctx: Context) -> str:
    "Take for ever."
    print("slow has begun", file=sys.stderr, flush=True)
    ctx.sleep(600)
    return "no"

@server.tool
def pictures():
    "Show what is no text."
    return [Text("a\\x1b[31mb 京"), Image(b"12345", "image/png"), ResourceLink("file:///x", "x")]

@server.tool
def nothing() -> None:
    "Return nothing."

if __name__ == "__main__":
    server.run()
"""


PYTHON = os.path.basename(sys.executable)
"""The name in the commands. pip may have written `python` or `python3` into the program that runs
the tests."""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a server with several tools; its folder is the working directory, paths with
    blanks included."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return "shop.py"


@contextmanager
def served(source: str) -> Iterator[str]:
    """The URL of the server of such a file, in this process: a command against it starts no other."""
    names: Dict[str, Any] = {"__name__": "served"}
    exec(source, names)
    with outlives_the_test():
        running = names["server"].start_http()
    yield running.url
    running.close()
    names["server"].close()


@pytest.fixture(scope="module")
def shop_url() -> Iterator[str]:
    """Where the shop is to be had without another process."""
    with served(SHOP) as url:
        yield url


@lru_cache(maxsize=2)
def _package(sources: Tuple[Tuple[str, bytes], ...]) -> Package:
    return Package(dict(sources))


def package_of(sources: Mapping[str, bytes]) -> Package:
    """The imports of these modules, which are parsed once for all tests."""
    return _package(tuple((path, sources[path].removeprefix(HEADER)) for path in sorted(sources)))


@pytest.fixture(scope="module")
def parsed_once() -> Iterator[None]:
    """Let the commands that copy the package not parse it again, because it does not change."""
    with pytest.MonkeyPatch.context() as patch:
        for command in (vendor, bundle):
            patch.setattr(command, "Package", package_of)
        yield


@pytest.fixture
def minimcp(capfd: Any) -> Callable[..., Done]:
    """Call `main` in this process."""

    def call(*arguments: str) -> Done:
        capfd.readouterr()
        code = main(arguments)
        return Done(code, *capfd.readouterr())

    return call


def command_line(*arguments: str, package: str = "minimcp") -> List[str]:
    """The command as a process of its own; `package` may name a copy."""
    return [sys.executable, "-m", package, *arguments]


def run_process(*arguments: str, package: str = "minimcp", **options: Any) -> Done:
    """Run a command as a process, bounded by three times the common wait: two Pythons start."""
    options = {
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
        "input": "",
        "stdout": subprocess.PIPE,
        **options,
    }
    done = subprocess.run(
        command_line(*arguments, package=package),
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        timeout=3 * WAIT,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def quoted(*words: str) -> str:
    """Words as a TARGET that is a command line."""
    return " ".join(shlex.quote(word) for word in words)
