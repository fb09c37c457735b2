"""``minimcp vendor``: what is copied, how copies are told apart, and that they work without
site-packages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Callable, List

import pytest

from minimcp import __version__ as VERSION
from minimcp.cli import UsageError, vendor
from minimcp.cli.vendor import differences, own_files, read_manifest, write_copy

from ..support import ROOT, run_python
from .conftest import PYTHON, Done, run_process

PACKAGE = ROOT / "minimcp"


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------ what the command says


@pytest.mark.parametrize(("option", "kind"), [([], ""), (["--only", "server"], " (server)")])
def test_it_copies_and_checks(option: List[str], kind: str, minimcp: Callable[..., Done]) -> None:
    Path("mcp_copy").mkdir()  # an empty folder may be filled
    done = minimcp("vendor", "mcp_copy/", *option)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"mcp_copy/ is now minimcp {VERSION}{kind}, ")
    whole = f"mcp_copy is minimcp {VERSION}{kind}, whole and unchanged\n"
    assert minimcp("vendor", "--check", "mcp_copy") == Done(0, whole, "")
    assert minimcp("vendor", "mcp_copy").code == 0, "an unchanged copy may be replaced"
    Path("mcp_copy", "errors.py").write_text("# mine\n")
    Path("mcp_copy", "odd\x1b[31m").write_text("")
    done = minimcp("vendor", "mcp_copy", "--check")
    lines = f"changed: errors.py\nadded: odd\\x1b[31m\nmcp_copy is minimcp {VERSION}, but not as it was copied\n"
    assert done == Done(1, lines, "")
    done = minimcp("vendor", "mcp_copy")
    assert (done.code, done.out) == (2, "") and "changed: errors.py" in done.err
    assert Path("mcp_copy", "errors.py").read_text() == "# mine\n"
    assert os.listdir(".") == ["mcp_copy"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["full"], "full is no copy made by this command"),
        (["file"], "file is there already, and is no folder"),
        (["link"], "link is there already, and is no folder"),
        (["dangling"], "dangling is there already, and is no folder"),
        (["no/mcp-copy"], "no statement can import"),
        (["mcp-copy"], "no statement can import a package called 'mcp-copy'"),
        (["class"], "no statement can import"),
        ([str(PACKAGE)], "is this package itself"),
        (["by_link/inside"], "is this package itself, or lies in it"),
        (["gone", "--check"], "gone is no folder"),
        ([".", "--check"], "no copy made by this command"),
        (["mcp_copy", "--check", "--only", "server"], "not allowed with"),
        (["mcp_copy", "--only", "both"], "invalid choice: 'both'"),
        ([], "required: DIR"),
    ],
)
def test_what_it_refuses(arguments: List[str], said: str, minimcp: Callable[..., Done]) -> None:
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    Path("file").write_text("mine")
    Path("empty").mkdir()
    for name, target in (("link", "empty"), ("dangling", "nowhere"), ("by_link", str(PACKAGE))):
        os.symlink(target, name)
    before = sorted(map(str, Path().rglob("*")))
    done = minimcp("vendor", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err
    assert sorted(map(str, Path().rglob("*"))) == before and not (PACKAGE / "inside").exists()


def test_what_the_command_says(minimcp: Callable[..., Done]) -> None:
    """When the folder cannot be written; and as the page shows."""
    done = minimcp("vendor", "/proc/mcp_copy")
    assert (done.code, done.out, done.err.count("\n")) == (
        3,
        "",
        1,
    ) and "/proc/mcp_copy" in done.err
    Path("yourtree").mkdir()
    assert minimcp("vendor", "yourtree/mcp").code == 0
    shown = "    $ python3 -m minimcp vendor yourtree/mcp --check\n    "
    page = (ROOT / "examples" / "vendoring.rst").read_text("utf-8")
    assert shown + minimcp("vendor", "yourtree/mcp", "--check").out in page


def test_a_copy_of_more_is_not_made_one_of_less(minimcp: Callable[..., Done]) -> None:
    assert minimcp("vendor", "mcp_copy").code == 0
    done = minimcp("vendor", "mcp_copy", "--only", "server")
    assert (
        done.code == 2
        and "mcp_copy is minimcp" in done.err
        and "would take files away: delete it first" in done.err
    )
    assert (
        Path("mcp_copy", "client", "client.py").is_file()
        and minimcp("vendor", "mcp_copy").code == 0
    )
    parts: List[List[str]] = [["--only", "client"], ["--only", "server"], []]
    assert [minimcp("vendor", "part", *part).code for part in parts] == [0, 2, 0]


# ------------------------------------------------------------ what a copy holds


def test_a_copy_holds_the_whole_package_or_the_folders_of_one_role() -> None:
    endings = ("py", "js", "html", "txt")
    sources = {
        path.relative_to(PACKAGE).as_posix()
        for ending in endings
        for path in PACKAGE.rglob(f"*.{ending}")
    }
    whole = own_files("")
    assert set(whole) == {*sources, "py.typed", "LICENSE"}
    assert whole["LICENSE"] == (ROOT / "LICENSE").read_bytes() == (PACKAGE / "LICENSE").read_bytes()
    for role, other in (("server", "client"), ("client", "server")):
        part = own_files(role)
        left_out = {path for path, data in part.items() if data == vendor.LEFT_OUT}
        features = {"features"} if role == "server" else set()
        shared = {"errors", "protocol", "types", "schema", "engine", "stdio", role} | features
        folders = {other, "auth", "cli", "extensions", "features", "http", "stores", "testing"}
        assert left_out == {f"{name}/__init__.py" for name in folders - features}
        expected = {path for path in sources if path.split("/")[0].replace(".py", "") in shared}
        assert set(part) - left_out == {*expected, "__init__.py", "py.typed", "LICENSE"}
        assert all(part[path] == whole[path] for path in set(part) - left_out)


@pytest.fixture
def made(tmp_path: Path) -> str:
    """The folder of a fresh copy."""
    folder = str(tmp_path / "copy")
    write_copy(folder, "client")
    return folder


def _differences(folder: str) -> List[str]:
    return differences(folder, read_manifest(folder))


def test_differences_are_told_by_file_and_links_are_not_followed(made: str, tmp_path: Path) -> None:
    compiled = Path(made, "types", "__pycache__")
    compiled.mkdir()
    (compiled / "x.pyc").write_bytes(b"x")
    errors = Path(made, "errors.py")
    errors.write_bytes(errors.read_bytes().replace(b"\n", b"\r\n"))
    assert _differences(made) == [], "what Python compiles and other line ends are no difference"
    Path(made, "py.typed").unlink()
    Path(made, "own").mkdir()
    Path(made, "own", "notes.txt").write_text("")
    os.rename(errors, tmp_path / "errors.py")
    os.symlink(tmp_path / "errors.py", errors)
    Path(made, "LICENSE").unlink()
    os.mkfifo(os.path.join(made, "LICENSE"))  # which is not waited for
    os.rename(os.path.join(made, "stdio"), tmp_path / "stdio")
    os.symlink(tmp_path / "stdio", os.path.join(made, "stdio"))
    found = [each for each in _differences(made) if not each.startswith("missing: stdio/")]
    first = ["changed: LICENSE", "changed: errors.py"]
    assert found == [*first, "added: own/notes.txt", "missing: py.typed", "added: stdio"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": "1", "files": {}}',
        '{"version": "1", "only": "", "files": [5]}',
        "[" * 100_000,
    ],
)
def test_a_folder_with_a_manifest_that_makes_no_sense_is_no_copy(made: str, text: str) -> None:
    Path(made, "vendored.json").write_text(text)
    with pytest.raises(UsageError, match="no copy"):
        read_manifest(made)


def test_a_manifest_behind_a_link_is_none(made: str, tmp_path: Path) -> None:
    os.rename(os.path.join(made, "vendored.json"), tmp_path / "real")
    os.symlink(tmp_path / "real", os.path.join(made, "vendored.json"))
    with pytest.raises(UsageError, match="no copy"):
        read_manifest(made)


@pytest.mark.parametrize("failing", [1, 2])
def test_a_new_copy_takes_the_place_of_the_old_one_whole_or_not_at_all(
    made: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for only, there in (("", True), ("client", False)):
        write_copy(made, only)
        assert (
            _differences(made) == []
            and os.path.exists(os.path.join(made, "cli", "vendor.py")) == there
        )
    rename, calls = os.rename, []

    def broken(*arguments: str) -> None:
        calls.append(arguments)
        if len(calls) == failing:
            raise OSError("the disk is full")
        rename(*arguments)

    monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OSError, match="full"):
        write_copy(made, "")
    assert _differences(made) == [] and read_manifest(made).only == "client"
    assert os.listdir(os.path.dirname(made)) == ["copy"]


def test_a_changed_copy_or_an_archive_is_not_copied(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(made, "errors.py").write_text("# mine\n")
    for folder, said in ((made, "changed"), ("/no/such/archive.zip/minimcp", "lies in no folder")):
        monkeypatch.setattr(vendor, "PACKAGE", folder)
        with pytest.raises(UsageError, match=said):
            own_files("")


# ------------------------------------------------------------ that copies work

SERVER = """
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from deep.mcp_copy import Context, Server, ToolError

server = Server("copied", version="1")

@server.tool
def add(a: int, b: int, ctx: Context) -> int:
    "Add two numbers."
    ctx.progress(1, 2, "half")
    return a + b

@server.tool
def fail() -> str:
    "Always fail."
    raise ToolError("as asked")

@server.tool
def loaded() -> list[str]:
    "Name the modules of this process."
    return sorted(sys.modules)

if __name__ == "__main__":
    server.run()
"""

CLIENT = """
import json, sys
sys.path.insert(0, sys.argv[2])
import deep.mcp_copy as mcp

reports = []
with mcp.connect([sys.executable, "-I", "-S", sys.argv[1] + "/server.py"], timeout=10) as client:
    result = client.call_tool("add", {"a": 2, "b": 3}, on_progress=lambda report: reports.append(report.progress))
    try:
        client.call_tool("fail")
    except mcp.ToolError as error:
        failure = str(error)
    there = client.call_tool("loaded").value
try:
    mcp.HttpServer
except ImportError as error:
    left_out = str(error)
print(json.dumps({"value": result.value, "reports": reports, "failure": failure, "left_out": left_out,
                  "here": sorted(sys.modules), "there": there}))
"""

NOT_LOADED = {"minimcp", "asyncio", "jsonschema", "requests", "pydantic"}


def test_copies_serve_and_call_without_site_packages(tmp_path: Path) -> None:
    for role in ("server", "client"):
        (tmp_path / role / "deep").mkdir(parents=True)
        write_copy(str(tmp_path / role / "deep" / "mcp_copy"), role)
    (tmp_path / "server" / "server.py").write_text(SERVER, encoding="utf-8")
    done = run_python(
        ["-I", "-S", "-c", CLIENT, str(tmp_path / "server"), str(tmp_path / "client")], seconds=30
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["value"], seen["reports"], seen["failure"]) == (5, [1], "as asked")
    assert seen["left_out"] == "deep.mcp_copy.http is not in this copy: vendor it without --only"
    for loaded, other in ((seen["here"], "server"), (seen["there"], "client")):
        assert not NOT_LOADED & {name.partition(".")[0] for name in loaded}
        assert f"deep.mcp_copy.{other}" not in loaded


def test_a_copy_makes_copies_and_shows_the_demo(
    minimcp: Callable[..., Done], tmp_path: Path
) -> None:
    minimcp("vendor", "first_copy")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert run_process("vendor", "second_copy", package="first_copy", env=environment).code == 0
    assert minimcp("vendor", "--check", "second_copy").code == 0
    help_text = run_process("vendor", "--help", package="second_copy", env=environment).out
    assert (
        help_text.startswith(f"usage: {PYTHON} -m second_copy vendor")
        and str(ROOT) not in help_text
    )
    done = run_process("demo", package="second_copy", env=environment)
    assert (done.code, done.err) == (0, "") and "tools/call" in done.out
    assert (
        "    from second_copy import Server" in done.out
        and "-m second_copy call server.py greet" in done.out
    )


def test_the_folders_of_a_copy_are_made(minimcp: Callable[..., Done]) -> None:
    assert (
        minimcp("vendor", "third/party/wire").code
        == minimcp("vendor", "third/party/wire", "--check").code
        == 0
    )
