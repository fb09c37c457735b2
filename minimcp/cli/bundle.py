"""``minimcp bundle``: pack a server, its modules and a copy of this package into one file.

The file is an MCP Bundle, which a host such as Claude Desktop installs with a click, or a zip
application for ``python3``. Both need no package on the machine where they run.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator, Mapping, Sequence

from ..stdio.child import this_python
from . import Parser, UsageError, one_line, print_error
from .closure import FEATURES, NEEDS_MORE, Package
from .run import find_name, find_server, load, split_file
from .vendor import EVERYTHING, NAME, Role, own_files, usual_features, write_copy

PACKAGE = __name__.partition(".cli.")[0]

MANIFEST_VERSION = "0.3"

PNG = b"\x89PNG\r\n\x1a\n"

# Seconds for importing the server's file.
LOAD_SECONDS = 60.0

# The names of folders with installed packages.
INSTALLED = ("site-packages", "dist-packages")

MAIN = '''\
"""Serve {variable} of {file} over stdin and stdout."""

import contextlib
import importlib
import sys

from {package} import Server

with contextlib.redirect_stdout(sys.stderr):  # stdout is for messages
    server = importlib.import_module({module!r}).{variable}
    if isinstance(server, type):
        server = server()
    if not hasattr(server, "run"):
        server = Server.of(server)
server.run()
'''


def bundle_command(arguments: Sequence[str], prog: str) -> int:
    """Write a bundle or a zip application."""
    parser = Parser(
        prog,
        "Pack a server, the modules in its folder that it imports, and a copy of this package "
        "into NAME.mcpb, which Claude Desktop installs, or into a zip application.",
    )
    parser.add_argument(
        "file", metavar="FILE[:NAME]", help="the server's Python file, written as for minimcp run"
    )
    parser.add_argument("--icon", metavar="FILE", help="the bundle's icon, a PNG file")
    parser.add_argument(
        "--author", metavar="NAME", default="unknown", help="the author, whom the host shows"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="the file to write (default: NAME.mcpb or NAME.pyz here)"
    )
    parser.add_argument(
        "--pyz", action="store_true", help="write a zip application: python3 NAME.pyz serves it"
    )
    options = parser.parse_args(arguments)
    path, variable = split_file(options.file)
    if options.pyz and options.icon:
        raise UsageError("--icon does not apply to --pyz")
    icon = b"" if options.icon is None else Path(options.icon).read_bytes()
    if options.icon is not None and not icon.startswith(PNG):
        raise UsageError(f"{options.icon} is not a PNG file")
    found = _description(path, variable)
    own, foreign = _modules(Path(path))
    if foreign:
        print_error(
            prog,
            f"{path} imports {', '.join(foreign)}, which is not packed: the bundle works only on "
            "machines where it is installed",
        )
    suffix = ".pyz" if options.pyz else ".mcpb"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", found["info"]["name"]).strip("-.") or "server"
    target = options.output or plain + suffix
    main = MAIN.format(
        package=NAME, module=Path(path).stem, file=Path(path).name, variable=found["variable"]
    )
    with TemporaryDirectory() as folder:
        inside = Path(folder) if options.pyz else Path(folder, "server")
        inside.mkdir(exist_ok=True)
        write_copy(str(inside / NAME), _role(found["modules"]))
        for name, data in own.items():
            (inside / name).parent.mkdir(parents=True, exist_ok=True)
            (inside / name).write_bytes(data)
        (inside / "__main__.py").write_text(main, "utf-8")
        if not options.pyz:
            manifest = _manifest(found, options.author, bool(icon))
            text = json.dumps(manifest, indent=2, ensure_ascii=False)
            Path(folder, "manifest.json").write_text(text + "\n", "utf-8")
            if icon:
                Path(folder, "icon.png").write_bytes(icon)
        size = _pack(Path(folder), target, b"#!/usr/bin/env python3\n" if options.pyz else b"")
    print(one_line(f"{target}: {found['info']['name']}, tools: {len(found['tools'])}, {size}"))
    return 0


# ------------------------------------------------------------ the server


def _description(path: str, variable: str) -> dict[str, Any]:
    """Return what `describe` prints. It runs in a new process, which has loaded nothing else."""
    python = this_python("run this command with a Python interpreter")
    code = f"import sys; from {PACKAGE}.cli.bundle import describe; describe(*sys.argv[1:])"
    parent = str(Path(__file__).resolve().parents[2])
    paths = [parent, os.environ.get("PYTHONPATH", "")]
    try:
        done = subprocess.run(
            [python, "-c", code, path, variable],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=LOAD_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{path} cannot be imported within {LOAD_SECONDS:.0f} s") from None
    with suppress(ValueError):
        found: dict[str, Any] = json.loads(done.stdout)
        if "error" in found:
            raise UsageError(found["error"])
        return found
    raise UsageError(f"{path} cannot be imported: Python exited with code {done.returncode}")


def describe(path: str, variable: str) -> None:
    """Print, as JSON, the server in a file, its tools, and the modules of this package that it
    loads."""
    try:
        variables = load(path)
        server = find_server(variables, variable, path)
        found: dict[str, Any] = {"variable": find_name(variables, variable, path)}
        start = f"{PACKAGE}."
        loaded = [name[len(start) :] for name in sys.modules if name.startswith(start)]
        found["modules"] = [name.replace(".", "/") + ".py" for name in loaded]
        # Imported only now: before this, only the server's own imports are in `sys.modules`.
        from .. import connect

        with connect(server) as client:
            found["info"] = {} if client.server_info is None else client.server_info.to_wire()
            found["instructions"] = client.instructions
            found["has_prompts"] = "prompts" in client.capabilities
            tools = client.list_tools() if "tools" in client.capabilities else []
            found["tools"] = [[tool.name, tool.description or ""] for tool in tools]
    except UsageError as error:
        found = {"error": str(error)}
    sys.stdout.write(json.dumps(found))


def _role(loaded: Sequence[str]) -> Role:
    """Return the role of the copy: a server with the features of which it has loaded a module."""
    if "client/client.py" in loaded:
        return EVERYTHING
    package = Package({path: data for path, data in own_files().items() if path.endswith(".py")})
    more = [name for name in NEEDS_MORE if set(loaded) & set(package.modules_of(name, "server"))]
    return Role("server", tuple(name for name in FEATURES if name in [*usual_features(), *more]))


def _modules(file: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the server's file and the modules in its folder that it imports, also inside
    functions, and the names of installed packages that these import.

    A package is returned with the files in its folder; see `_files_of`.
    """
    folder = file.resolve().parent
    own: dict[str, bytes] = {}
    foreign = set()
    waiting = [file.resolve()]
    while waiting:
        path = waiting.pop()
        name = path.relative_to(folder).as_posix()
        if name in own:
            continue
        own[name] = path.read_bytes()
        if path.suffix != ".py":
            continue
        for imported in _imported(own[name]):
            near = [folder / f"{imported}.py", *_files_of(folder / imported)]
            near = [each for each in near if each.is_file()]
            if imported in (NAME, PACKAGE):
                continue
            waiting += near
            if not near and _is_installed(imported):
                foreign.add(imported)
    return own, sorted(foreign)


def _imported(source: bytes) -> Iterator[str]:
    """Yield the first part of each absolute name that a module imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # for another version of Python, in a try statement
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _files_of(package: Path) -> list[Path]:
    """Return the files of a package; [] if this is not a package.

    Bytecode, hidden files such as ``.env``, and links to data elsewhere are left out, because a
    bundle is given to others.
    """
    if not (package / "__init__.py").is_file():
        return []
    found = []
    for path in package.rglob("*"):
        parts = path.relative_to(package).parts
        is_hidden = any(part.startswith(".") for part in parts)
        is_elsewhere = package.resolve() not in path.resolve().parents and path.suffix != ".py"
        if not (is_hidden or is_elsewhere or "__pycache__" in parts):
            found.append(path)
    return found


def _is_installed(name: str) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or ())]
    return any(part in Path(place).parts for place in places for part in INSTALLED)


# ------------------------------------------------------------ the file


def _manifest(found: Mapping[str, Any], author: str, has_icon: bool) -> dict[str, Any]:
    """Return the manifest of an MCP Bundle."""
    info = found["info"]
    name = info["name"]
    version = info.get("version", "0")
    first_line = (found["instructions"] or "").strip().partition("\n")[0]
    manifest: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "name": name,
        "version": "0.0.0" if version == "0" else version,
        "description": info.get("description") or first_line or f"The server {name}",
        "author": {"name": author},
        "server": {
            "type": "python",
            "entry_point": "server/__main__.py",
            "mcp_config": {
                "command": "python3",
                "args": ["${__dirname}/server/__main__.py"],
                "platform_overrides": {"win32": {"command": "python"}},
            },
        },
        "tools": [{"name": tool, "description": text} for tool, text in found["tools"]],
        "compatibility": {
            "platforms": ["darwin", "linux", "win32"],
            "runtimes": {"python": ">=3.9"},
        },
    }
    if info.get("title"):
        manifest["display_name"] = info["title"]
    if found["has_prompts"]:
        manifest["prompts_generated"] = True
    if has_icon:
        manifest["icon"] = "icon.png"
    return manifest


def _pack(folder: Path, target: str, start: bytes) -> str:
    """Write the files in a folder to a zip file, which replaces an earlier one. Return its size.

    The same files always make the same bytes.
    """
    new = f"{target}.new-{os.getpid()}"
    try:
        with open(new, "xb") as file:
            file.write(start)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in sorted(folder.rglob("*")):
                    if path.is_file():
                        info = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                        info.compress_type = zipfile.ZIP_DEFLATED
                        info.external_attr = 0o644 << 16
                        archive.writestr(info, path.read_bytes())
        if start:
            os.chmod(new, 0o755)
        os.replace(new, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise
    return f"{os.path.getsize(target):,} bytes"
