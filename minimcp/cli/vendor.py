"""``minimcp vendor``: copy this package into another tree, or check such a copy.

A copy is a folder, or a zip file that holds the package. It has a file `MANIFEST` beside its own,
with the version and a hash of each of them. Every other file in it counts as a difference, except
what Python compiles. Symbolic links are not followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from keyword import iskeyword
from pathlib import Path
from shutil import rmtree
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from .. import __version__ as VERSION
from ..schema.mismatch import nearest
from . import Parser, UsageError, one_line
from .closure import FEATURES, NEEDS_MORE, ROLES, Package

# The folder of the package that runs now.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MANIFEST = "vendored.json"

# The name of the package in a zip file.
NAME = "minimcp"

ENDINGS = (
    "Exit codes: 0 done, or the copy is whole and unchanged, 1 it is not, 2 wrong usage, 3 "
    "it cannot be written."
)

# At the top of each module of a copy, so that the tools of its user's tree leave it alone.
HEADER = b"# mypy: ignore-errors\n# ruff: noqa\n"

NO_FILE = b"not a plain file"

# The files of a package beside its modules.
DATA = (".js", ".html", ".txt")

# What every copy of a role has beside modules.
ALWAYS = ("py.typed", "LICENSE")


class Role(NamedTuple):
    """What a copy is for.

    Args:
        only: "server" or "client"; empty for the whole package.
        features: The names of `FEATURES` that the copy has; empty for the whole package.
    """

    only: str = ""
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.only or set(self.features) == set(usual_features()):
            return self.only
        if set(self.features) == set(FEATURES):
            return f"{self.only} with all"
        return f"{self.only} with {', '.join(self.features) or 'nothing'}"


EVERYTHING = Role()


class Copy(NamedTuple):
    """The contents of a manifest."""

    version: str
    role: Role
    files: Mapping[str, str]
    """The hash of each file, by its path with forward slashes."""

    def __str__(self) -> str:
        return f"minimcp {self.version}{f' ({self.role})' if self.role.only else ''}"


def vendor_command(arguments: Sequence[str], prog: str) -> int:
    """Copy the package, or check a copy."""
    parser = Parser(
        prog, "Copy this package into a tree of your own, or look at such a copy.", ENDINGS
    )
    parser.add_argument(
        "folder", metavar="DIR", help="the copy; the last part of this path is the name to import"
    )
    parser.add_argument(
        "--only",
        choices=ROLES,
        default=None,
        help="copy what this role needs over stdin and stdout, with the standard library alone "
        "(default: everything, or as in the copy that is replaced)",
    )
    parser.add_argument(
        "--with",
        dest="features",
        metavar="NAMES",
        default=None,
        help="the features of a copy for one role, with commas between them, or 'all' or "
        "'nothing': "
        f"{', '.join(FEATURES)} (default: all but {', '.join(sorted(NEEDS_MORE))})",
    )
    parser.add_argument(
        "--one-file",
        action="store_true",
        help="write one importable zip; DIR is its name, FILE.zip",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="copy nothing; say which version DIR is, and what in it is missing, changed or added",
    )
    options = parser.parse_args(arguments)
    shown = options.folder
    if options.check:
        if options.only or options.features is not None or options.one_file:
            raise UsageError("--check goes with no other option")
        return _check(shown)
    target = os.path.abspath(shown)
    is_zip = options.one_file
    if is_zip != shown.endswith(".zip"):
        raise UsageError("a copy in one file is called FILE.zip, and made with --one-file")
    earlier = _check_target(target, shown, is_zip)
    role = _role(options.only, options.features, earlier)
    copy, sizes = write_copy(target, role, is_zip=is_zip)
    print(f"{shown} is now {copy}, {sizes}; {MANIFEST} lists them for --check")
    return 0


def _check(shown: str) -> int:
    copy = read_manifest(shown)
    found = differences(shown, copy)
    for line in found:
        print(one_line(line))
    state = "but not as it was copied" if found else "whole and unchanged"
    print(f"{shown} is {copy}, {state}")
    return 1 if found else 0


def usual_features() -> list[str]:
    """Return the features that a copy for one role has if none are named."""
    return [name for name in FEATURES if name not in NEEDS_MORE]


def _role(only: Optional[str], names: Optional[str], earlier: Optional[Copy]) -> Role:
    """Return what a copy is for: as the options say, else as the earlier copy in its place.

    Raises:
        UsageError: A feature does not exist, or the copy has all of them.
    """
    before = Role() if earlier is None else earlier.role
    role = before.only if only is None else only
    if names is None:
        kept = role == before.only and earlier is not None
        features: Sequence[str] = before.features if kept else usual_features()
        return Role(role, tuple(features)) if role else Role()
    if not role:
        raise UsageError("--with goes with --only: a copy of the whole package has every feature")
    if names in ("all", "nothing"):
        return Role(role, tuple(FEATURES) if names == "all" else ())
    given = [name.strip() for name in names.split(",")]
    for name in given:
        if name not in FEATURES:
            near = nearest(name, FEATURES)
            hint = f", did you mean {near}?" if near else f": there are {', '.join(FEATURES)}"
            raise UsageError(f"--with: no feature is called {one_line(name)!r}{hint}")
    return Role(role, tuple(name for name in FEATURES if name in given))


def _check_target(target: str, shown: str, is_zip: bool) -> Optional[Copy]:
    """Check that a copy may be written there, and return the unchanged copy that it replaces.

    Raises:
        UsageError: Something else is there, or the copy was changed; or the name cannot be used.
    """
    name = os.path.basename(target)
    if not is_zip and (not name.isidentifier() or iskeyword(name)):
        raise UsageError(
            f"no statement can import a package called {name!r}: use letters, digits and _"
        )
    package = os.path.join(os.path.realpath(PACKAGE), "")
    if os.path.join(os.path.realpath(target), "").startswith(package):
        raise UsageError(f"{shown} is this package itself, or lies in it")
    if os.path.islink(target) or (os.path.exists(target) and os.path.isdir(target) == is_zip):
        raise UsageError(f"{shown} is there already, and is no {'file' if is_zip else 'folder'}")
    if not os.path.exists(target) or (not is_zip and not os.listdir(target)):
        return None
    copy = read_manifest(target)
    found = differences(target, copy)
    if found:
        raise UsageError(
            f"{shown} was changed since it was copied ({found[0]}): see --check, or delete it"
        )
    return copy


# ------------------------------------------------------------ what is copied


def own_files(role: Role = EVERYTHING) -> dict[str, bytes]:
    """Return the files of a copy of the package that runs now, by path.

    Args:
        role: What the copy is for. A module of a feature that it does not have raises an
            ImportError that says how to get it.

    Raises:
        UsageError: The package is not in a folder, as in an archive; or it is a copy itself that
            was changed.
    """
    if not os.path.isdir(PACKAGE):
        raise UsageError("this package lies in no folder that could be copied")
    if os.path.lexists(os.path.join(PACKAGE, MANIFEST)) and differences(
        PACKAGE, read_manifest(PACKAGE)
    ):
        raise UsageError(f"{PACKAGE} is a copy that was changed: copy the original")
    files = {
        path: data
        for path, data in _files(PACKAGE)
        if path.endswith((".py", *DATA)) or path in ALWAYS
    }
    modules = {path: data for path, data in files.items() if path.endswith(".py")}
    if role.only:
        package = Package(modules)
        needed = package.needed(role.only, role.features)
        left_out = package.left_out(role.only, needed)
        stubs = {path: _stub(way) for path, way in left_out.items()}
        for path in left_out:
            needed.add(f"{path.split('/')[0]}/__init__.py")
        files = {
            path: data
            for path, data in files.items()
            if path in needed or path in ALWAYS or _is_data_of(path, needed)
        }
        files.update(stubs)
    return {
        path: HEADER + data.removeprefix(HEADER) if path.endswith(".py") else data
        for path, data in sorted(files.items())
    }


def _stub(way: str) -> bytes:
    return f'raise ImportError(f"{{__name__}} is not in this copy: {way}")\n'.encode()


def _is_data_of(path: str, modules: set[str]) -> bool:
    """Whether a file is read by the module that has its name."""
    stem, ending = os.path.splitext(path)
    return ending in DATA and f"{stem}.py" in modules


def _files(folder: str, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the files in a folder and the folders below it, except compiled ones and the manifest.

    The content of anything but a plain file, such as a symbolic link, is `NO_FILE`.
    """
    for entry in os.scandir(os.path.join(folder, inside)):
        path = inside + entry.name
        if not entry.is_dir(follow_symlinks=False):
            if path != MANIFEST:
                is_plain = entry.is_file(follow_symlinks=False)
                yield path, Path(entry.path).read_bytes() if is_plain else NO_FILE
        elif entry.name != "__pycache__":
            yield from _files(folder, path + "/")


def _files_in_zip(file: str) -> dict[str, bytes]:
    """Return the files of the package in a zip file, without the manifest.

    Files outside of the package have their whole path.
    """
    with zipfile.ZipFile(file) as archive:
        return {
            name[len(NAME) + 1 :] if name.startswith(f"{NAME}/") else f"../{name}": archive.read(
                name
            )
            for name in archive.namelist()
            if name != f"{NAME}/{MANIFEST}"
        }


# ------------------------------------------------------------ manifests


def read_manifest(place: str) -> Copy:
    """Return what a copy says of itself.

    Raises:
        UsageError: There is no copy, or its manifest makes no sense.
    """
    path = Path(place, MANIFEST)
    is_zip = Path(place).is_file()
    if not is_zip and not path.parent.is_dir():
        raise UsageError(f"{place} is no folder")
    try:
        if is_zip:
            with zipfile.ZipFile(place) as archive:
                text = archive.read(f"{NAME}/{MANIFEST}").decode()
        else:
            text = path.read_text("utf-8") if path.is_file() and not path.is_symlink() else ""
        given = json.loads(text)
        only = str(given["only"])
        features = given.get("features", usual_features() if only else [])
        role = Role(only, tuple(name for name in FEATURES if name in features))
        return Copy(str(given["version"]), role, dict(given["files"]))
    except (
        OSError,
        ValueError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
    ):
        raise UsageError(
            f"{place} is no copy made by this command: it has no {MANIFEST} of it"
        ) from None


def differences(place: str, copy: Copy) -> list[str]:
    """Return what is not as the manifest says, one line for each file."""
    files = _files_in_zip(place) if os.path.isfile(place) else dict(_files(place))
    hashes = {path: _hash(data) for path, data in files.items()}
    found = []
    for path in sorted({**hashes, **copy.files}):
        if path not in hashes:
            found.append(f"missing: {path}")
        elif path not in copy.files:
            found.append(f"added: {path}")
        elif hashes[path] != copy.files[path]:
            found.append(f"changed: {path}")
    return found


def _hash(data: bytes) -> str:
    # Version control may have changed the line ends.
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


# ------------------------------------------------------------ writing


class Sizes(NamedTuple):
    """How large a copy is."""

    files: int
    lines: int
    size: int

    def __str__(self) -> str:
        return f"{self.files} files, {self.lines:,} lines, {self.size:,} bytes"


def write_copy(target: str, role: Role = EVERYTHING, *, is_zip: bool = False) -> tuple[Copy, Sizes]:
    """Write a copy of the package that runs now, in place of an earlier copy.

    The new copy is made beside the target and then takes its place, so a reader sees the old one or
    the new one.

    Args:
        target: An absolute path. It does not exist, or it is an empty folder or an earlier copy.
        role: As `own_files`.
        is_zip: Whether the copy is a zip file instead of a folder.

    Raises:
        UsageError: As `own_files`.
        OSError: It cannot be written; what was there is still there.
    """
    files = own_files(role)
    copy = Copy(VERSION, role, {path: _hash(data) for path, data in files.items()})
    manifest = {
        "package": NAME,
        "version": VERSION,
        "only": role.only,
        "features": list(role.features),
        "files": copy.files,
    }
    sizes = Sizes(
        len(files),
        sum(data.count(b"\n") for path, data in files.items() if path.endswith(".py")),
        sum(map(len, files.values())),
    )
    files = {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}
    if is_zip:
        _write_zip(target, files)
    else:
        _write_folder(target, files)
    return copy, sizes


def _write_folder(folder: str, files: Mapping[str, bytes]) -> None:
    made = f"{folder}.new-{os.getpid()}"
    old = f"{folder}.old-{os.getpid()}"
    os.makedirs(made)
    try:
        for path, data in files.items():
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


def _write_zip(file: str, files: Mapping[str, bytes]) -> None:
    made = f"{file}.new-{os.getpid()}"
    os.makedirs(os.path.dirname(file), exist_ok=True)
    try:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in files.items():
                # The same sources make the same bytes, whenever they are copied.
                entry = zipfile.ZipInfo(f"{NAME}/{path}", (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        os.replace(made, file)
    finally:
        if os.path.exists(made):
            os.unlink(made)
