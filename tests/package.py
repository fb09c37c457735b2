"""``python -m tests.package FOLDER``: build wheel and sdist into a new folder, and check their
contents.

Both are built by ``python -m build`` from this tree, pass ``twine check --strict``, and contain
only the files of ``minimcp/`` and those of packaging. An environment with only the wheel (``pip
install --no-deps``) serves and calls over stdio, serves over HTTP, and says which package is
missing. It needs ``build`` and ``twine``. The exit code is 1 if a check fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import List, Set

from .support import ROOT

SECONDS = 300

# Next to the package in both.
OF_WHEEL = {"licenses/LICENSE", "METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt"}
OF_SDIST = {
    "LICENSE",
    "README.rst",
    "CHANGES.rst",
    "MANIFEST.in",
    "PKG-INFO",
    "setup.cfg",
    "setup.py",
}
EGG_INFO = {
    "PKG-INFO",
    "SOURCES.txt",
    "dependency_links.txt",
    "entry_points.txt",
    "requires.txt",
    "top_level.txt",
}

EXTRAS = {"jwt", "redis", "test", "examples"}

BARE_SERVER = """
from minimcp import Server
server = Server("bare")
@server.tool
def double(number: int) -> int:
    "Double a number."
    return 2 * number
if __name__ == "__main__":
    server.run()
"""

BARE_CLIENT = """
import sys, urllib.request, json
import minimcp
for name in ("requests", "jsonschema", "urllib3"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is installed: this shows nothing")
with minimcp.connect("server.py") as client:  # over stdio
    assert client.call_tool("double", {"number": 21}).value == 42

def words(function):
    try:
        function()
    except ImportError as error:
        return str(error)
    raise SystemExit("no ImportError")

import server
with server.server.start_http() as running:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}}})
    accepted = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(running.url, body.encode(), accepted)) as answer:
        assert b'"serverInfo"' in answer.read()
    print(words(lambda: minimcp.connect(running.url)))
needs_more = {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}}
def more(a: int) -> str:
    "Take what only jsonschema can check."
    return ""
print(words(lambda: server.server.tool(name="more", input_schema=needs_more)(more)))
"""


class Wrong(Exception):
    """Something is not as it should be."""


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a program to its end, and return its output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise Wrong(f"{' '.join(command)} ended with {done.returncode}:\n{text[-4000:]}")
    return text


def compare(what: str, found: Set[str], wanted: Set[str]) -> None:
    """Raises Wrong: a file is missing, or too many."""
    if found != wanted:
        raise Wrong(f"{what}: too many {sorted(found - wanted)}, missing {sorted(wanted - found)}")
    print(f"{what}: {len(found)} files, as they should be")


def check_contents(wheel: Path, sdist: Path) -> None:
    """Compare the files of both with this tree. Raises Wrong."""
    paths = (
        path
        for path in (ROOT / "minimcp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    package = {path.relative_to(ROOT).as_posix() for path in paths}
    name = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        compare(
            wheel.name,
            set(archive.namelist()),
            package | {f"{name}.dist-info/{each}" for each in OF_WHEEL},
        )
        metadata = archive.read(f"{name}.dist-info/METADATA").decode()
    with tarfile.open(sdist) as source:
        held = {each.name for each in source.getmembers() if each.isfile()}
    beside = OF_SDIST | {f"minimcp_sync.egg-info/{each}" for each in EGG_INFO}
    compare(sdist.name, held, {f"{name}/{each}" for each in package | beside})
    if not re.search("^Name: minimcp-sync$", metadata, re.M):
        raise Wrong("the distribution is not called minimcp-sync")
    extras = set(re.findall(r"^Provides-Extra: (\S+)", metadata, re.M))
    if extras != EXTRAS:
        raise Wrong(f"the extras are {sorted(extras)}")
    print(f"extras: {', '.join(sorted(extras))}")


def check_bare(wheel: Path, folder: Path) -> None:
    """Use the wheel without its dependencies. Raises Wrong."""
    venv.create(folder / "bare", with_pip=True)
    python = str(folder / "bare" / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    (folder / "server.py").write_text(BARE_SERVER, "utf-8")
    (folder / "client.py").write_text(BARE_CLIENT, "utf-8")
    said = run(python, "client.py", cwd=folder).splitlines()
    for package, line in zip(("requests", "jsonschema"), said):
        if f"pip install {package}" not in line:
            raise Wrong(f"the error does not say how {package} is installed: {line}")
        print(f"without {package}: {line}")
    run(python, "-m", "minimcp", "call", "server.py", "double", "number=21", cwd=folder)


def main(arguments: List[str]) -> int:
    """Build and check; the exit code."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    folder = Path(arguments[0]).resolve()
    folder.mkdir(parents=True)
    try:
        was_there = (ROOT / "build").exists()
        run(sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
        if not was_there and (ROOT / "build").exists():
            raise Wrong("a build leaves a folder build/ in the checkout")
        (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
        run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
        check_contents(wheel, sdist)
        check_bare(wheel, folder)
    except Wrong as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
