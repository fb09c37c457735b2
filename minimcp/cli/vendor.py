"""``minimcp vendor``: copy this package into another tree, or check such a copy.

A copy is a folder, or a zip file that contains the package. The file `MANIFEST` in it has the
version and a hash of each file. Every file that is not listed there counts as a difference, except
compiled bytecode. Symbolic links are not followed.
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

# The folder of the running package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MANIFEST = "vendored.json"

# The package's name in a zip file.
NAME = "minimcp"

EXIT_CODES = (
    "Exit codes: 0 success, or the copy is complete and unchanged, 1 the copy differs, "
    "2 wrong usage, 3 the copy cannot be written."
)

# The first lines of each module of a copy, so that type checkers and linters in its user's tree
# ignore it.
HEADER = b"# mypy: ignore-errors\n# ruff: noqa\n"

# The module of a copy for one role that reports the import of a module that the copy lacks.
LEFT_OUT = "left_out.py"

IMPORT_LEFT_OUT = (
    b"\nfrom . import left_out as _left_out  # reports the imports of missing modules\n"
)

LEFT_OUT_SOURCE = '''"""The modules that this copy lacks. Their import says how to get them."""

import sys

PACKAGE = __name__.rpartition(".")[0] + "."
HINTS = {}


class Finder:
    """Python asks it for modules that no other finder knows."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """Raise ImportError if this copy lacks the module."""
        if name.startswith(PACKAGE) and name[len(PACKAGE) :] in HINTS:
            hint = HINTS[name[len(PACKAGE) :]]
            raise ImportError(f"{name} is not in this copy: {hint}", name=name)


sys.meta_path.append(Finder)
'''

NO_FILE = b"not a plain file"

# Suffixes of data files that a copy includes.
DATA = (".js", ".html", ".txt")

# Files without such a suffix that every copy includes.
ALWAYS = ("py.typed", "LICENSE")


class Role(NamedTuple):
    """The role and the features of a copy.

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
    parser = Parser(prog, "Copy this package into your own tree, or check such a copy.", EXIT_CODES)
    parser.add_argument(
        "folder", metavar="DIR", help="the copy; the last part of this path is the name to import"
    )
    parser.add_argument(
        "--only",
        choices=ROLES,
        default=None,
        help="copy only the modules for this role over stdin and stdout; they need only the "
        "standard library (default: the role of the copy that is replaced, or everything)",
    )
    parser.add_argument(
        "--with",
        dest="features",
        metavar="NAMES",
        default=None,
        help="the features of a copy for one role, separated by commas, or 'all' or 'nothing': "
        f"{', '.join(FEATURES)} (default: all but {', '.join(sorted(NEEDS_MORE))})",
    )
    parser.add_argument(
        "--one-file",
        action="store_true",
        help="write an importable zip file; DIR is its name, FILE.zip",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="copy nothing; print the version of DIR and the files that are missing, changed or "
        "added",
    )
    options = parser.parse_args(arguments)
    path = options.folder
    if options.check:
        if options.only or options.features is not None or options.one_file:
            raise UsageError("--check cannot be combined with other options")
        return _check(path)
    target = os.path.abspath(path)
    is_zip = options.one_file
    if is_zip != path.endswith(".zip"):
        raise UsageError("for a copy in one file, write FILE.zip and --one-file")
    earlier = _check_target(target, path, is_zip)
    role = _role(options.only, options.features, earlier)
    copy, sizes = write_copy(target, role, is_zip=is_zip)
    print(f"{path} is now {copy}, {sizes}; to check it: vendor --check")
    return 0


def _check(path: str) -> int:
    copy = read_manifest(path)
    found = differences(path, copy)
    for line in found:
        print(one_line(line))
    state = "but was changed after it was copied" if found else "complete and unchanged"
    print(f"{path} is {copy}, {state}")
    return 1 if found else 0


def usual_features() -> list[str]:
    """Return the features that a copy for one role has by default."""
    return [name for name in FEATURES if name not in NEEDS_MORE]


def _role(only: Optional[str], names: Optional[str], earlier: Optional[Copy]) -> Role:
    """Return the role of the new copy: from the options, or from the earlier copy.

    Raises:
        UsageError: A feature does not exist, or ``--with`` is given for the whole package.
    """
    before = Role() if earlier is None else earlier.role
    role = before.only if only is None else only
    if names is None:
        if not role:
            return Role()
        if earlier is not None and role == before.only:
            return Role(role, tuple(before.features))
        return Role(role, tuple(usual_features()))
    if not role:
        raise UsageError("--with needs --only: a copy of the whole package has every feature")
    if names in ("all", "nothing"):
        return Role(role, tuple(FEATURES) if names == "all" else ())
    given = [name.strip() for name in names.split(",")]
    for name in given:
        if name not in FEATURES:
            close = nearest(name, FEATURES)
            hint = (
                f", did you mean {close}?" if close else f"; the features are {', '.join(FEATURES)}"
            )
            raise UsageError(f"--with: unknown feature {one_line(name)!r}{hint}")
    return Role(role, tuple(name for name in FEATURES if name in given))


def _check_target(target: str, path: str, is_zip: bool) -> Optional[Copy]:
    """Check that a copy may be written to the target, and return the copy that it replaces.

    Raises:
        UsageError: Something other than a copy is there, the copy was changed, or the name cannot
            be imported.
    """
    name = os.path.basename(target)
    if not is_zip and (not name.isidentifier() or iskeyword(name)):
        raise UsageError(f"a package called {name!r} cannot be imported: use letters, digits and _")
    package = os.path.join(os.path.realpath(PACKAGE), "")
    if os.path.join(os.path.realpath(target), "").startswith(package):
        raise UsageError(f"{path} is this package itself, or inside it")
    if os.path.islink(target) or (os.path.exists(target) and os.path.isdir(target) == is_zip):
        raise UsageError(f"{path} exists and is not a {'file' if is_zip else 'folder'}")
    if not os.path.exists(target) or (not is_zip and not os.listdir(target)):
        return None
    copy = read_manifest(target)
    found = differences(target, copy)
    if found:
        raise UsageError(
            f"{path} was changed after it was copied ({found[0]}): see --check, or delete it"
        )
    return copy


# ------------------------------------------------------------ the files of a copy


def own_files(role: Role = EVERYTHING) -> dict[str, bytes]:
    """Return the files for a copy of the running package, by path.

    Args:
        role: The role and features of the copy. The import of a module that is left out raises an
            ImportError that says how to get it; see `LEFT_OUT`.

    Raises:
        UsageError: The package is not in a folder (but in an archive), or is itself a copy that was
            changed.
    """
    if not os.path.isdir(PACKAGE):
        raise UsageError("this package is not in a folder, so it cannot be copied")
    is_copy = os.path.lexists(os.path.join(PACKAGE, MANIFEST))
    if is_copy and differences(PACKAGE, read_manifest(PACKAGE)):
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
        for path in left_out:
            if not path.endswith("/__init__.py"):
                needed.add(f"{path.split('/')[0]}/__init__.py")
        files = {
            path: data
            for path, data in files.items()
            if path in needed or path in ALWAYS or _is_data_of(path, needed)
        }
        files["__init__.py"] += IMPORT_LEFT_OUT
        files[LEFT_OUT] = _left_out(left_out)
    return {
        path: HEADER + data.removeprefix(HEADER) if path.endswith(".py") else data
        for path, data in sorted(files.items())
    }


def _left_out(hints: Mapping[str, str]) -> bytes:
    """Return the module of a copy that reports the import of a module that the copy lacks.

    Args:
        hints: For the path of each missing module, how to get it.
    """
    rows = []
    for path, hint in sorted(hints.items()):
        name = path[: -len(".py")].replace("/", ".")
        rows.append(f"    {name.removesuffix('.__init__')!r}: {hint!r},\n")
    return LEFT_OUT_SOURCE.replace("HINTS = {}", f"HINTS = {{\n{''.join(rows)}}}").encode()


def _is_data_of(path: str, modules: set[str]) -> bool:
    """Return whether a data file has the name of one of the modules, which then reads it."""
    stem, suffix = os.path.splitext(path)
    return suffix in DATA and f"{stem}.py" in modules


def _files(folder: str, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the files in a folder and its subfolders, except bytecode and the manifest.

    Instead of the content of a symbolic link or another special file, yield `NO_FILE`.
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
    """Return the files in a zip file by path relative to the package, without the manifest."""
    files = {}
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name == f"{NAME}/{MANIFEST}":
                continue
            inside = name.startswith(f"{NAME}/")
            path = name[len(NAME) + 1 :] if inside else f"../{name}"
            files[path] = archive.read(name)
    return files


# ------------------------------------------------------------ manifests


def read_manifest(place: str) -> Copy:
    """Return the contents of a copy's manifest.

    Raises:
        UsageError: There is no copy, or its manifest is invalid.
    """
    path = Path(place, MANIFEST)
    is_zip = Path(place).is_file()
    if not is_zip and not path.parent.is_dir():
        raise UsageError(f"{place} is not a folder")
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
            f"{place} is not a copy made by this command: it has no valid {MANIFEST}"
        ) from None


def differences(place: str, copy: Copy) -> list[str]:
    """Return one line for each file that differs from the manifest."""
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
    # Version control may have changed the line endings.
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


# ------------------------------------------------------------ writing


class Sizes(NamedTuple):
    """The size of a copy; `lines` counts its modules only."""

    files: int
    lines: int
    size: int

    def __str__(self) -> str:
        return f"{self.files} files, {self.lines:,} lines, {self.size:,} bytes"


def write_copy(target: str, role: Role = EVERYTHING, *, is_zip: bool = False) -> tuple[Copy, Sizes]:
    """Write a copy of the running package, and replace an earlier copy.

    The new copy is written next to the target and then renamed, so that readers see either the old
    copy or the new one.

    Args:
        target: An absolute path of nothing, an empty folder, or an earlier copy.
        role: The role and features of the copy.
        is_zip: Whether the copy is a zip file instead of a folder.

    Raises:
        UsageError: See `own_files`.
        OSError: The copy cannot be written; an earlier copy is unchanged.
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
    new = f"{folder}.new-{os.getpid()}"
    old = f"{folder}.old-{os.getpid()}"
    os.makedirs(new)
    try:
        for path, data in files.items():
            os.makedirs(os.path.dirname(os.path.join(new, path)), exist_ok=True)
            Path(new, path).write_bytes(data)
        if os.path.isdir(folder):
            os.rename(folder, old)
        os.rename(new, folder)
    finally:
        rmtree(new, ignore_errors=True)
        if os.path.isdir(old) and not os.path.isdir(folder):
            os.rename(old, folder)
    rmtree(old, ignore_errors=True)


def _write_zip(file: str, files: Mapping[str, bytes]) -> None:
    new = f"{file}.new-{os.getpid()}"
    os.makedirs(os.path.dirname(file), exist_ok=True)
    try:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, data in files.items():
                # A fixed time, so that the same sources always produce the same bytes.
                entry = zipfile.ZipInfo(f"{NAME}/{path}", (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)
        os.replace(new, file)
    finally:
        if os.path.exists(new):
            os.unlink(new)
