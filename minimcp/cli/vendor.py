"""``minimcp vendor``: copy this package into another tree, or look at such a copy.

A copy has a file `MANIFEST` beside its own, with the version and a hash of each of them. Every
other file in its folder counts as a difference, except what Python compiles. No symbolic link in it
is followed.
"""

from __future__ import annotations

import hashlib
import json
import os
from keyword import iskeyword
from pathlib import Path
from shutil import rmtree
from typing import Iterator, NamedTuple, Sequence

from .. import __version__ as VERSION
from . import Parser, UsageError, one_line

# The folder of the package that runs now.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MANIFEST = "vendored.json"

ENDINGS = "Exit codes: 0 done, or the copy is whole and unchanged, 1 it is not, 2 wrong usage, 3 it cannot be written."

# What a server and a client need over stdio, beside the folder of that role.
BOTH_ROLES = {
    "LICENSE",
    "__init__.py",
    "py.typed",
    "errors.py",
    "protocol",
    "types",
    "schema",
    "engine",
    "stdio",
}

# Stands in a copy where a folder or a module was left out.
LEFT_OUT = b'raise ImportError(f"{__name__} is not in this copy: vendor it without --only")\n'

NO_FILE = b"no plain file"


class Copy(NamedTuple):
    """What a manifest says."""

    version: str
    # "server", "client", or "" for the whole package.
    only: str
    # Hashes by path, with forward slashes.
    files: dict[str, str]

    def __str__(self) -> str:
        return f"minimcp {self.version}{f' ({self.only})' if self.only else ''}"


def vendor_command(arguments: Sequence[str], prog: str) -> int:
    """Copy the package, or check a copy."""
    parser = Parser(
        prog, "Copy this package into a tree of your own, or look at such a copy.", ENDINGS
    )
    parser.add_argument(
        "folder", metavar="DIR", help="the copy; the last part of this path is the name to import"
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--only",
        choices=("server", "client"),
        default="",
        help="copy what this role needs over stdin and stdout, with the standard library alone: leave "
        "out the other role, HTTP, the command line and what tests servers",
    )
    either.add_argument(
        "--check",
        action="store_true",
        help="copy nothing; say which version DIR is, and what in it is missing, changed or added",
    )
    options = parser.parse_args(arguments)
    if options.check:
        copy = read_manifest(options.folder)
        found = differences(options.folder, copy)
        for line in found:
            print(one_line(line))
        print(
            f"{options.folder} is {copy}, {'but not as it was copied' if found else 'whole and unchanged'}"
        )
        return 1 if found else 0
    target = os.path.abspath(options.folder)
    _check_target(target, options.folder, options.only)
    copy = write_copy(target, options.only)
    print(
        f"{options.folder} is now {copy}, {len(copy.files)} files; {MANIFEST} lists them for --check"
    )
    return 0


def _check_target(target: str, shown: str, only: str) -> None:
    """Check that a copy may go there: there is nothing, or an earlier copy that nobody has changed,
    of no more."""
    name = os.path.basename(target)
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(
            f"no statement can import a package called {name!r}: use letters, digits and _"
        )
    if os.path.join(os.path.realpath(target), "").startswith(
        os.path.join(os.path.realpath(PACKAGE), "")
    ):
        raise UsageError(f"{shown} is this package itself, or lies in it")
    if os.path.islink(target) or (os.path.exists(target) and not os.path.isdir(target)):
        raise UsageError(f"{shown} is there already, and is no folder")
    if os.path.isdir(target) and os.listdir(target):
        copy = read_manifest(target)
        found = differences(target, copy)
        if only not in ("", copy.only):
            raise UsageError(
                f"{shown} is {copy}, and --only {only} would take files away: delete it first"
            )
        if found:
            raise UsageError(
                f"{shown} was changed since it was copied ({found[0]}): see --check, or delete it"
            )


def own_files(only: str) -> dict[str, bytes]:
    """The files of the package that runs now, by path.

    Args:
        only: "server" or "client" for what that role needs, with `LEFT_OUT` in the place of the
            rest; "" for all.

    Raises:
        UsageError: The package lies in no folder, as in an archive; or it is a copy itself, and was
            changed.
    """
    if not os.path.isdir(PACKAGE):
        raise UsageError("this package lies in no folder that could be copied")
    if os.path.lexists(os.path.join(PACKAGE, MANIFEST)) and differences(
        PACKAGE, read_manifest(PACKAGE)
    ):
        raise UsageError(f"{PACKAGE} is a copy that was changed: copy the original")
    found = {}
    for path, data in _files(PACKAGE):
        top = path.split("/")[0]
        is_feature = top == "features" and only == "server"
        if not only or top in BOTH_ROLES or top == only or is_feature:
            if path.endswith((".py", ".js", ".html", ".txt", "py.typed", "LICENSE")):
                found[path] = data
        elif path == f"{top}/__init__.py":
            found[path] = LEFT_OUT
    return found


def _files(folder: str, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """The files in a folder and the folders below it, except what Python compiles and the manifest.

    What is no plain file, such as a symbolic link, has `NO_FILE` as its content.
    """
    for entry in os.scandir(os.path.join(folder, inside)):
        path = inside + entry.name
        if not entry.is_dir(follow_symlinks=False):
            if path != MANIFEST:
                yield (
                    path,
                    Path(entry.path).read_bytes()
                    if entry.is_file(follow_symlinks=False)
                    else NO_FILE,
                )
        elif entry.name != "__pycache__":
            yield from _files(folder, path + "/")


def read_manifest(folder: str) -> Copy:
    """What a folder says of itself.

    Raises:
        UsageError: It has no manifest that makes sense, or is no folder.
    """
    path = Path(folder, MANIFEST)
    if not path.parent.is_dir():
        raise UsageError(f"{folder} is no folder")
    try:
        given = json.loads(
            path.read_text("utf-8") if path.is_file() and not path.is_symlink() else ""
        )
        return Copy(str(given["version"]), str(given["only"]), dict(given["files"]))
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        raise UsageError(
            f"{folder} is no copy made by this command: it has no {MANIFEST} of it"
        ) from None


def differences(folder: str, copy: Copy) -> list[str]:
    """What is not as the manifest says, a line for each file; empty when the copy is whole and
    unchanged."""
    found = {path: _hash(data) for path, data in _files(folder)}
    return [
        f"{'added' if path not in copy.files else 'changed' if path in found else 'missing'}: {path}"
        for path in sorted({**found, **copy.files})
        if path not in found or found[path] != copy.files.get(path)
    ]


def _hash(data: bytes) -> str:
    return hashlib.sha256(
        data.replace(b"\r\n", b"\n")
    ).hexdigest()  # version control may have changed the line ends


def write_copy(folder: str, only: str) -> Copy:
    """Put a copy of the package that runs now into a folder, in the place of an earlier copy.

    The new copy is made beside the folder and then takes its place: a reader sees the old one or
    the new one.

    Args:
        folder: An absolute path; either it does not exist, or it is empty, or an earlier copy.
        only: As `own_files`.

    Raises:
        UsageError: As `own_files`.
        OSError: It cannot be written; what was there is still there.
    """
    files = own_files(only)
    copy = Copy(VERSION, only, {path: _hash(data) for path, data in sorted(files.items())})
    manifest = json.dumps({"package": "minimcp", **copy._asdict()}, indent=1).encode()
    made, old = f"{folder}.new-{os.getpid()}", f"{folder}.old-{os.getpid()}"
    os.makedirs(made)
    try:
        for path, data in {**files, MANIFEST: manifest}.items():
            os.makedirs(os.path.dirname(os.path.join(made, path)), exist_ok=True)
            Path(made, path).write_bytes(data)
        if os.path.isdir(folder):
            os.rename(folder, old)
        os.rename(made, folder)
    finally:
        rmtree(made, ignore_errors=True)
        if os.path.isdir(old) and not os.path.isdir(folder):
            os.rename(old, folder)
    rmtree(old, ignore_errors=True)
    return copy
