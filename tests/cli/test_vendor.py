"""``minimcp vendor``: which files are copied, how a changed copy is recognized, and that copies
work without site-packages."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Tuple

import pytest

from minimcp import __version__ as VERSION
from minimcp.cli import UsageError, vendor
from minimcp.cli.closure import FEATURES, NEEDS_MORE
from minimcp.cli.vendor import (
    HEADER,
    IMPORT_LEFT_OUT,
    LEFT_OUT,
    Role,
    differences,
    own_files,
    read_manifest,
    usual_features,
    write_copy,
)

from ..support import ROOT, run_python
from .conftest import PYTHON, Done, package_of, run_process

PACKAGE = ROOT / "minimcp"


pytestmark = pytest.mark.usefixtures("parsed_once")


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------ the output of the command


@pytest.mark.parametrize(("option", "kind"), [([], ""), (["--only", "server"], " (server)")])
def test_it_copies_and_checks(option: List[str], kind: str, minimcp: Callable[..., Done]) -> None:
    Path("mcp_copy").mkdir()  # an empty folder may be filled
    done = minimcp("vendor", "mcp_copy/", *option)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"mcp_copy/ is now minimcp {VERSION}{kind}, ")
    whole = f"mcp_copy is minimcp {VERSION}{kind}, complete and unchanged\n"
    assert minimcp("vendor", "--check", "mcp_copy") == Done(0, whole, "")
    assert minimcp("vendor", "mcp_copy").code == 0, "an unchanged copy may be replaced"
    Path("mcp_copy", "errors.py").write_text("# mine\n")
    Path("mcp_copy", "odd\x1b[31m").write_text("")
    done = minimcp("vendor", "mcp_copy", "--check")
    lines = f"changed: errors.py\nadded: odd\\x1b[31m\nmcp_copy is minimcp {VERSION}{kind}, but was changed after it was copied\n"
    assert done == Done(1, lines, "")
    done = minimcp("vendor", "mcp_copy")
    assert (done.code, done.out) == (2, "") and "changed: errors.py" in done.err
    assert Path("mcp_copy", "errors.py").read_text() == "# mine\n"
    assert os.listdir(".") == ["mcp_copy"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["full"], "full is not a copy made by this command"),
        (["file"], "file exists and is not a folder"),
        (["link"], "link exists and is not a folder"),
        (["dangling"], "dangling exists and is not a folder"),
        (["no/mcp-copy"], "cannot be imported"),
        (["mcp-copy"], "a package called 'mcp-copy' cannot be imported"),
        (["class"], "cannot be imported"),
        ([str(PACKAGE)], "is this package itself"),
        (["by_link/inside"], "is this package itself, or inside it"),
        (["gone", "--check"], "gone is not a folder"),
        ([".", "--check"], "is not a copy made by this command"),
        (
            ["mcp_copy", "--check", "--only", "server"],
            "--check cannot be combined with other options",
        ),
        (["gone", "--check", "--one-file"], "--check cannot be combined with other options"),
        (["gone.zip"], "write FILE.zip and --one-file"),
        (["gone", "--one-file"], "write FILE.zip and --one-file"),
        (["file.zip", "--one-file"], "file.zip is not a copy made by this command"),
        (["folder.zip", "--one-file"], "folder.zip exists and is not a file"),
        (["gone", "--with", "prompts"], "--with needs --only"),
        (["gone", "--only", "server", "--with", "prompt"], "did you mean prompts?"),
        (
            ["gone", "--only", "server", "--with", "zzz"],
            "unknown feature 'zzz'; the features are ",
        ),
        (["mcp_copy", "--only", "both"], "invalid choice: 'both'"),
        ([], "required: DIR"),
    ],
)
def test_rejected_targets(arguments: List[str], said: str, minimcp: Callable[..., Done]) -> None:
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    Path("file").write_text("mine")
    Path("file.zip").write_text("mine")
    Path("folder.zip").mkdir()
    Path("empty").mkdir()
    for name, target in (("link", "empty"), ("dangling", "nowhere"), ("by_link", str(PACKAGE))):
        os.symlink(target, name)
    before = sorted(map(str, Path().rglob("*")))
    done = minimcp("vendor", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err
    assert sorted(map(str, Path().rglob("*"))) == before and not (PACKAGE / "inside").exists()


def test_output_of_the_command(minimcp: Callable[..., Done]) -> None:
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


def test_an_update_keeps_the_role_unless_the_options_say_otherwise(
    minimcp: Callable[..., Done],
) -> None:
    usual = tuple(usual_features())
    for options, role in (
        (["--only", "client", "--with", "nothing"], Role("client", ())),
        ([], Role("client", ())),
        (["--with", "http, auth"], Role("client", ("http", "auth"))),
        ([], Role("client", ("http", "auth"))),
        (["--only", "server"], Role("server", usual)),
        (["--only", "server", "--with", "all"], Role("server", tuple(FEATURES))),
        ([], Role("server", tuple(FEATURES))),
    ):
        for name, one_file in (("part", []), ("part.zip", ["--one-file"])):
            done = minimcp("vendor", name, *one_file, *options)
            assert (done.code, done.err) == (0, "")
            assert read_manifest(name).role == role
            assert minimcp("vendor", name, "--check").code == 0
    assert minimcp("vendor", "whole").code == 0
    assert minimcp("vendor", "whole", "--only", "server").code == 0
    assert not Path("whole", "client", "client.py").exists(), "options change the role"


def test_a_manifest_from_before_the_features_had_names_has_the_usual_ones(
    minimcp: Callable[..., Done],
) -> None:
    minimcp("vendor", "part", "--only", "client")
    manifest = Path("part", "vendored.json")
    text = json.loads(manifest.read_text())
    del text["features"]
    manifest.write_text(json.dumps(text))
    assert read_manifest("part").role == Role("client", tuple(usual_features()))


# ------------------------------------------------------------ the contents of a copy


ROLES = [
    Role(only, features)
    for only in ("server", "client")
    for features in ((), ("http",), ("stores", "tasks"), tuple(usual_features()), tuple(FEATURES))
]


def test_a_whole_copy_holds_every_file_of_the_package() -> None:
    endings = ("py", "js", "html", "txt")
    sources = {
        path.relative_to(PACKAGE).as_posix()
        for ending in endings
        for path in PACKAGE.rglob(f"*.{ending}")
    }
    whole = own_files()
    assert set(whole) == {*sources, "py.typed", "LICENSE"}
    assert whole["LICENSE"] == (ROOT / "LICENSE").read_bytes() == (PACKAGE / "LICENSE").read_bytes()
    for path, data in whole.items():
        added = HEADER if path.endswith(".py") else b""
        assert data == added + (PACKAGE / path).read_bytes()


def hints_of(files: Mapping[str, bytes]) -> Dict[str, str]:
    """Return the modules that a copy lacks, by path, each with the hint how to get it."""
    names: Dict[str, Any] = {"__name__": "copy.left_out"}
    before = list(sys.meta_path)
    exec(files[LEFT_OUT], names)
    sys.meta_path[:] = before
    found = {}
    for name, hint in names["HINTS"].items():
        path = name.replace(".", "/")
        found.update({f"{path}.py": hint, f"{path}/__init__.py": hint})
    return found


@pytest.mark.parametrize("role", ROLES, ids=str)
def test_a_copy_for_a_role_holds_its_imports_and_names_omitted_features(role: Role) -> None:
    whole = own_files()
    part = own_files(role)
    hints = hints_of(part)
    stubs = {path for path in whole if path in hints}
    modules = {path for path in part if path.endswith(".py")} - {LEFT_OUT}
    package = package_of({path: data for path, data in whole.items() if path.endswith(".py")})
    assert not stubs & modules
    assert part["__init__.py"] == whole["__init__.py"] + IMPORT_LEFT_OUT
    assert all(part[path] == whole[path] for path in set(part) - {LEFT_OUT, "__init__.py"})
    assert {"py.typed", "LICENSE", "__init__.py", f"{role.only}/{role.only}.py"} <= set(part)
    # Every import leads to a module of the copy or to a stub.
    for path in modules:
        for target, late in package.imports(path):
            folder = f"{target.split('/')[0]}/__init__.py"
            assert target in modules or (late and (target in stubs or folder in stubs)), (
                f"{path} imports {target}"
            )
    # Each module is imported by another one, or is the beginning of a role or a feature.
    begin = {path for name in role.features for path in package.modules_of(name, role.only)}
    begin |= {*package.public_modules(role.only), "__init__.py"}
    reached = {target for path in modules for target, _ in package.imports(path)}
    folders = {f"{path.rpartition('/')[0]}/__init__.py" for path in part if "/" in path}
    assert modules - reached - begin - folders == set()


def test_each_feature_has_modules_and_a_role() -> None:
    package = package_of({path: data for path, data in own_files().items() if path.endswith(".py")})
    assert set(FEATURES) > NEEDS_MORE
    for name in NEEDS_MORE:
        assert any(package.modules_of(name, role) for role in ("server", "client")), name


@pytest.fixture
def made(tmp_path: Path) -> str:
    """The folder of a fresh copy."""
    folder = str(tmp_path / "copy")
    write_copy(folder, Role("client"))
    return folder


def _differences(folder: str) -> List[str]:
    return differences(folder, read_manifest(folder))


def test_differences_are_listed_by_file_and_links_are_not_followed(
    made: str, tmp_path: Path
) -> None:
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
    os.mkfifo(os.path.join(made, "LICENSE"))  # not waited for
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
def test_a_folder_with_an_invalid_manifest_is_not_a_copy(made: str, text: str) -> None:
    Path(made, "vendored.json").write_text(text)
    with pytest.raises(UsageError, match="is not a copy"):
        read_manifest(made)


def test_a_manifest_behind_a_link_is_ignored(made: str, tmp_path: Path) -> None:
    os.rename(os.path.join(made, "vendored.json"), tmp_path / "real")
    os.symlink(tmp_path / "real", os.path.join(made, "vendored.json"))
    with pytest.raises(UsageError, match="is not a copy"):
        read_manifest(made)


@pytest.mark.parametrize("failing", [1, 2])
def test_a_new_copy_takes_the_place_of_the_old_one_whole_or_not_at_all(
    made: str, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role, there in ((Role(), True), (Role("client"), False)):
        write_copy(made, role)
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
        write_copy(made)
    assert _differences(made) == [] and read_manifest(made).role == Role("client")
    assert os.listdir(os.path.dirname(made)) == ["copy"]


def test_a_changed_copy_or_an_archive_is_not_copied(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(made, "errors.py").write_text("# mine\n")
    for folder, said in ((made, "changed"), ("/no/such/archive.zip/minimcp", "is not in a folder")):
        monkeypatch.setattr(vendor, "PACKAGE", folder)
        with pytest.raises(UsageError, match=said):
            own_files()


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
left_out = None
try:
    mcp.HttpServer
except ImportError as error:
    left_out = str(error)
print(json.dumps({"value": result.value, "reports": reports, "failure": failure, "left_out": left_out,
                  "here": sorted(sys.modules), "there": there}))
"""

IMPORTS = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
found = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(f"deep.mcp_copy.{name}")
    except ImportError as error:
        found[name] = [str(error), error.name]
import deep.mcp_copy
try:
    deep.mcp_copy.Tasks
except ImportError as error:
    found["Tasks"] = [str(error), error.name]
try:
    import deep.mcp_copy.no_module_at_all
except ModuleNotFoundError as error:
    found["unknown"] = [str(error), error.name]
print(json.dumps(found))
"""


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("role", ["server", "client"])
def test_the_import_of_a_missing_module_says_how_to_get_it(
    role: str, one_file: bool, tmp_path: Path
) -> None:
    place = tmp_path / "deep" / "mcp_copy"
    place.parent.mkdir()
    write_copy(str(place), Role(role))
    if one_file:
        root = str(shutil.make_archive(str(tmp_path / "all"), "zip", str(tmp_path), "deep"))
        shutil.rmtree(str(place))
    else:
        root = str(tmp_path)
    names = {
        path[: -len(".py")].replace("/", "."): hint
        for path, hint in hints_of(own_files(Role(role))).items()
        if not path.endswith("__init__.py")
    }
    done = run_python(["-I", "-S", "-c", IMPORTS, root, *names], seconds=30)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    found = json.loads(done.stdout)
    unknown = "deep.mcp_copy.no_module_at_all"
    assert found.pop("unknown") == [f"No module named {unknown!r}", unknown]
    extension = "deep.mcp_copy.extensions.tasks"
    assert found.pop("Tasks") == [
        f"{extension} is not in this copy: vendor it with --with tasks", extension
    ]  # fmt: skip
    assert found == {
        name: [f"deep.mcp_copy.{name} is not in this copy: {hint}", f"deep.mcp_copy.{name}"]
        for name, hint in names.items()
    }


LIMITED = """
import sys
sys.path.insert(0, sys.argv[1])
from deep.mcp_copy import Limits, Server
try:
    Server("limited", limits=Limits(**{sys.argv[2]: 5}))
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", ["call_rate", "notification_rate"])
def test_a_server_with_a_limit_of_a_missing_feature_is_not_made(limit: str, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write_copy(str(tmp_path / "deep" / "mcp_copy"), Role("server", ()))
    done = run_python(["-I", "-S", "-c", LIMITED, str(tmp_path), limit], seconds=30)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode().strip().endswith("is not in this copy: vendor it with --with rates")


NOT_LOADED = {"minimcp", "asyncio", "jsonschema", "requests", "pydantic"}


@pytest.mark.parametrize("features", [(), ("http",), tuple(usual_features()), tuple(FEATURES)])
def test_copies_serve_and_call_without_site_packages(
    features: Tuple[str, ...], tmp_path: Path
) -> None:
    for role in ("server", "client"):
        (tmp_path / role / "deep").mkdir(parents=True)
        write_copy(str(tmp_path / role / "deep" / "mcp_copy"), Role(role, features))
    (tmp_path / "server" / "server.py").write_text(SERVER, encoding="utf-8")
    done = run_python(
        ["-I", "-S", "-c", CLIENT, str(tmp_path / "server"), str(tmp_path / "client")], seconds=30
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    seen = json.loads(done.stdout)
    assert (seen["value"], seen["reports"], seen["failure"]) == (5, [1], "as asked")
    if "http" in features:
        assert seen["left_out"] is None
    else:
        said = "deep.mcp_copy.http is not in this copy: vendor it with --with http"
        assert seen["left_out"] == said
    for loaded, other in ((seen["here"], "server"), (seen["there"], "client")):
        assert not NOT_LOADED & {name.partition(".")[0] for name in loaded}
        assert f"deep.mcp_copy.{other}" not in loaded


@pytest.mark.parametrize("role", [Role(), Role("server"), Role("server", tuple(FEATURES))], ids=str)
def test_a_zip_can_be_imported(role: Role, tmp_path: Path) -> None:
    file = str(tmp_path / "mcp.zip")
    write_copy(file, role, is_zip=True)
    before = Path(file).read_bytes()
    write_copy(file, role, is_zip=True)
    assert Path(file).read_bytes() == before, "the same sources make the same file"
    assert differences(file, read_manifest(file)) == []
    (tmp_path / "server.py").write_text(
        SERVER.replace("deep.mcp_copy", "minimcp").replace(
            "os.path.dirname(os.path.abspath(__file__))", repr(file)
        )
    )
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import minimcp\n"
        f"with minimcp.connect([sys.executable, '-I', '-S', {str(tmp_path / 'server.py')!r}]) as client:\n"
        "    print(client.call_tool('add', {'a': 2, 'b': 3}).value)\n"
    )
    done = run_python(["-I", "-S", "-c", code], seconds=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"5\n", b"")


def test_type_checkers_and_linters_ignore_a_copy() -> None:
    for path, data in own_files(Role("server")).items():
        if path.endswith(".py"):
            assert data.startswith(b"# mypy: ignore-errors\n# ruff: noqa\n"), path
            assert not data[len(HEADER) :].startswith(HEADER), path


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
