"""bundle, which packs a server into one file, and new, which writes a server with its test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp.stdio.child import StdioServer

from ..support import ROOT
from .conftest import Done

BAKERY = '''
"""A bakery."""
import pathlib
import sys

from minimcp import Server, Tasks
from shelf import LOAVES

print("a print on import")
server = Server("my bakery", version="1.2", title="Bakery", instructions="Sells bread.\\nDaily.")

@server.tool
def count() -> int:
    "Count the loaves."
    from parts import crumbs
    return LOAVES + crumbs.more()

@server.prompt
def ask() -> str:
    "Ask."
    return "How many?"
'''


pytestmark = pytest.mark.usefixtures("parsed_once")


@pytest.fixture
def bakery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server that imports modules of this folder, early and late."""
    folder = tmp_path / "a folder"
    (folder / "parts" / "deep").mkdir(parents=True)
    (folder / "baker-y.py").write_text(BAKERY, "utf-8")
    (folder / "shelf.py").write_text("LOAVES = 40\n", "utf-8")
    (folder / "other.py").write_text("raise RuntimeError\n", "utf-8")
    (folder / "parts" / "__init__.py").write_text("", "utf-8")
    crumbs = "from . import deep\nimport os\ndef more():\n    return deep.more()\n"
    (folder / "parts" / "older.py").write_text("print 'for an older Python'\n", "utf-8")
    (folder / "parts" / "crumbs.py").write_text(crumbs, "utf-8")
    (folder / "parts" / "deep" / "__init__.py").write_text("def more():\n    return 2\n", "utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(minimcp: Callable[..., Done]) -> Callable[..., Done]:
    """Run a command in this process; the package has the name of the other fixture."""
    return minimcp


def unpacked(bundle: Path, folder: Path) -> List[str]:
    """Unpack a bundle, and return its command as a host would start it."""
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    started = json.loads((folder / "manifest.json").read_text("utf-8"))["server"]["mcp_config"]
    words = [word.replace("${__dirname}", str(folder)) for word in started["args"]]
    assert started["command"] == "python3"
    return [sys.executable, "-E", "-s", "-S", *words]


def test_a_bundle_runs_alone(bakery: Path, tmp_path: Path, run: Callable[..., Done]) -> None:
    done = run("bundle", "baker-y.py", "--author", "Ada")
    assert done.code == 0 and done.out.startswith("my-bakery.mcpb: my bakery, tools: 1, "), done
    command = unpacked(bakery / "my-bakery.mcpb", tmp_path / "installed")
    manifest = json.loads((tmp_path / "installed" / "manifest.json").read_text("utf-8"))
    assert {key: manifest[key] for key in ("name", "version", "display_name", "description")} == {
        "name": "my bakery",
        "version": "1.2",
        "display_name": "Bakery",
        "description": "Sells bread.",
    }
    assert manifest["author"] == {"name": "Ada"} and manifest["prompts_generated"] is True
    assert manifest["tools"] == [{"name": "count", "description": "Count the loaves."}]
    inside = {
        path.relative_to(tmp_path / "installed" / "server").as_posix()
        for path in (tmp_path / "installed" / "server").rglob("*")
        if path.is_file() and "minimcp" not in path.parts
    }
    assert inside == {
        "__main__.py",
        "baker-y.py",
        "shelf.py",
        "parts/__init__.py",
        "parts/crumbs.py",
        "parts/deep/__init__.py",
        "parts/older.py",
    }
    extensions = tmp_path / "installed" / "server" / "minimcp" / "extensions"
    assert "class Tasks" in (extensions / "tasks.py").read_text("utf-8")
    assert "extensions.apps" in (extensions.parent / "left_out.py").read_text("utf-8")
    with minimcp.connect(StdioServer(command, cwd=os.sep), stderr=lambda line: None) as client:
        assert client.call_tool("count").value == 42
        assert client.get_prompt("ask").messages[0].content.text == "How many?"  # type: ignore[union-attr]


def test_the_same_server_is_packed_into_the_same_bytes(
    bakery: Path, run: Callable[..., Done]
) -> None:
    for output in ("a.mcpb", "b.mcpb", "b.mcpb"):
        assert run("bundle", "baker-y.py", "--output", output).code == 0
    assert Path("a.mcpb").read_bytes() == Path("b.mcpb").read_bytes()
    assert sorted(path.name for path in bakery.iterdir() if path.is_file()) == [
        "a.mcpb",
        "b.mcpb",
        "baker-y.py",
        "other.py",
        "shelf.py",
    ]


def test_secrets_beside_the_modules_are_not_packed(
    bakery: Path, tmp_path: Path, run: Callable[..., Done]
) -> None:
    (tmp_path / "id_key").write_text("secret", "utf-8")
    (bakery / "parts" / ".git").mkdir()
    for hidden in (".env", ".git/config", "deep/.secret.py"):
        (bakery / "parts" / hidden).write_text("secret", "utf-8")
    (bakery / "parts" / "key.txt").symlink_to(tmp_path / "id_key")
    (bakery / "parts" / "folder").symlink_to(tmp_path)
    (bakery / "parts" / "data.txt").write_text("packed", "utf-8")
    (bakery / "parts" / "again.txt").symlink_to("data.txt")
    (bakery / "parts" / "shared.py").symlink_to(bakery / "shelf.py")
    assert run("bundle", "baker-y.py").code == 0
    with zipfile.ZipFile("my-bakery.mcpb") as archive:
        names = [name for name in archive.namelist() if name.startswith("server/parts/")]
    packed = {name[len("server/parts/") :] for name in names}
    modules = {"__init__.py", "crumbs.py", "older.py", "deep/__init__.py", "shared.py"}
    assert packed == modules | {"data.txt", "again.txt"}


def test_a_zip_application_runs_alone(
    bakery: Path, tmp_path: Path, run: Callable[..., Done]
) -> None:
    assert run("bundle", "baker-y.py", "--pyz").code == 0
    archive = str(bakery / "my-bakery.pyz")
    assert os.access(archive, os.X_OK)
    command = StdioServer([sys.executable, "-I", "-S", archive], cwd=str(tmp_path))
    with minimcp.connect(command, stderr=lambda line: None) as client:
        assert client.call_tool("count").value == 42


CLASS = """
import minimcp
class Till:
    @minimcp.tool
    def pay(self) -> str:
        "Pay."
        return "paid"
"""

CLIENT = """
from minimcp import Server, connect
server = Server("relay")
@server.tool
def relay() -> str:
    "Ask another server."
    other = Server("other")
    @other.tool
    def say() -> str:
        "Say it."
        return "hello"
    with connect(other) as client:
        return client.call_tool("say").text
"""


@pytest.mark.parametrize(
    ("source", "tool", "said"), [(CLASS, "pay", "paid"), (CLIENT, "relay", "hello")]
)
def test_a_class_and_a_server_that_is_also_a_client(
    source: str,
    tool: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Done],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(source, "utf-8")
    done = run("bundle", "shop.py", "--output", "shop.mcpb")
    assert done.code == 0 and "which is not packed" not in done.err, done
    command = unpacked(tmp_path / "shop.mcpb", tmp_path / "installed")
    with minimcp.connect(StdioServer(command, cwd=os.sep)) as client:
        assert client.call_tool(tool).text == said


def test_installed_packages_are_named_and_an_icon_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Done]
) -> None:
    monkeypatch.chdir(tmp_path)
    late = (
        "@server.tool\ndef f() -> str:\n    'F.'\n    import hypothesis.strategies\n    return ''\n"
    )
    Path("shop.py").write_text(f"import minimcp\nserver = minimcp.Server('shop')\n{late}", "utf-8")
    Path("icon.png").write_bytes(b"\x89PNG\r\n\x1a\n and more")
    done = run("bundle", "shop.py", "--icon", "icon.png")
    assert done.code == 0 and "shop.py imports hypothesis, which is not packed" in done.err, done
    with zipfile.ZipFile("shop.mcpb") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert archive.read(manifest["icon"]) == Path("icon.png").read_bytes()
    assert (manifest["version"], manifest["description"]) == ("0.0.0", "The server shop")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.py"], "there is no file 'none.py'"),
        (["broken.py"], "broken.py cannot be imported: line 1: ZeroDivisionError"),
        (["exits.py"], "exits.py cannot be imported: Python exited with code 7"),
        (["empty.py"], "empty.py has no server object"),
        (["shop.py:other"], "shop.py has no variable 'other'"),
        (["shop.py", "--icon", "shop.py"], "shop.py is not a PNG file"),
        (["shop.py", "--icon", "none.png"], "none.png: No such file"),
        (["shop.py", "--icon", "shop.py", "--pyz"], "--icon does not apply to --pyz"),
    ],
)
def test_what_cannot_be_packed(
    words: Any,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Done],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("1 / 0\n", "utf-8")
    Path("exits.py").write_text("import os\nos._exit(7)\n", "utf-8")
    Path("empty.py").write_text("", "utf-8")
    Path("shop.py").write_text("import minimcp\nserver = minimcp.Server('shop')\n", "utf-8")
    before = sorted(os.listdir("."))
    done = run("bundle", *words)
    assert done.code in (2, 3) and said in done.err and done.out == "", done
    assert sorted(os.listdir(".")) == before


# ------------------------------------------------------------ new


def test_a_new_server_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Done]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("new", "my-words")
    assert done.code == 0 and "my-words: server.py, test_server.py, mcp.json, README.md" in done.out
    monkeypatch.chdir("my-words")
    env: Dict[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(tests, env=env, stdout=subprocess.PIPE, text=True, check=False)
    assert found.returncode == 0 and "2 passed" in found.stdout, found.stdout
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert run("doctor", "mcp.json").code == 0
    readme = Path("README.md").read_text("utf-8")
    assert "`python3 -m minimcp call server.py count_words text=" in readme
    assert run("call", "server.py", "count_words", "text=to be or not").out == "4\n"
    assert run("check", "server.py").code == 0
    assert run("bundle", "server.py").out.startswith("my-words.mcpb: ")
    for name, said in (
        ("../my-words", "exists, and this command never overwrites anything"),
        ("a b", "'a b' cannot be the name of a server"),
        ("x/y", "No such file or directory"),
    ):
        done = run("new", name)
        assert done.code in (2, 3) and said in done.err, done
