"""Copies of this package in other trees: what they hold, how they are made, how they differ.

A copy has a file `MANIFEST` beside its own, with the version and a hash of each of them. Whatever else is found in its
folder counts as a difference, but for what Python compiles. No symbolic link in it is followed.
"""

from __future__ import annotations

import hashlib
import json
import os
from fnmatch import fnmatch
from typing import Any, Iterator, NamedTuple, Optional

from .. import __version__ as VERSION
from .ending import UsageError

MANIFEST = "vendored.json"

COMPILED = "__pycache__"

NOT_CORE = (
    "cli/*", "__main__.py", "testing.py", "transcript.py",
    "fetch.py", "recognition.py", "sending.py", "sse.py", "transports/http_*", "transports/mirror.py",
    "transports/posting.py", "transports/serving.py", "transports/sse_*", "transports/wsgi.py", "auth/*",
)
"""What the core does without: the command line, what tests servers, and all that is there for HTTP. The core is what
the other names of the package need, and imports nothing of this before somebody asks for it."""

LICENSE = """\
MIT License

Copyright (c) 2026 The minimcp authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
"""In the code, because an installed package does not know where its licence went."""


class Copy(NamedTuple):
    """What a manifest says."""

    version: str
    core: bool
    files: dict[str, str]
    """Hashes by path, with forward slashes."""

    def __str__(self) -> str:
        return f"minimcp {self.version}{' (core)' if self.core else ''}"


def package_folder() -> str:
    """Where the package that runs now lies.

    Raises:
        UsageError: It lies in no folder: it is frozen, or inside an archive.
    """
    here = globals().get("__file__")
    folder = os.path.dirname(os.path.dirname(os.path.abspath(here))) if here else ""
    if not os.path.isdir(folder):
        raise UsageError("this package lies in no folder that could be copied")
    return folder


def own_files(core: bool) -> dict[str, bytes]:
    """The files of the package that runs now, by path, with its licence.

    Args:
        core: Leave out what `NOT_CORE` names.

    Raises:
        UsageError: As `package_folder`; or the package is a copy itself, and somebody has changed it.
    """
    folder = package_folder()
    if os.path.lexists(os.path.join(folder, MANIFEST)) and differences(folder, read_manifest(folder)):
        raise UsageError(f"{folder} is a copy that was changed: copy the original")
    found = {"LICENSE": LICENSE.encode()}
    for path in _paths(folder):
        wanted = path.endswith(".py") or path == "py.typed"
        if wanted and not (core and any(fnmatch(path, left_out) for left_out in NOT_CORE)):
            with open(os.path.join(folder, path), "rb") as file:
                found[path] = file.read()
    return found


def _paths(folder: str, inside: str = "") -> Iterator[str]:
    """What lies in a folder and the folders below it, but for what Python compiles and the manifest."""
    for entry in os.scandir(os.path.join(folder, inside)):
        path = inside + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != COMPILED:
                yield from _paths(folder, path + "/")
        elif path != MANIFEST:
            yield path


# ------------------------------------------------------------ telling copies apart


def read_manifest(folder: str) -> Copy:
    """What a folder says of itself; a manifest that makes no sense names no file.

    Raises:
        UsageError: It has no manifest, or is no folder.
    """
    path = os.path.join(folder, MANIFEST)
    if os.path.islink(folder) or not os.path.isdir(folder):
        raise UsageError(f"{folder} is no folder")
    if os.path.islink(path) or not os.path.isfile(path):
        raise UsageError(f"{folder} is no copy made by this command: it has no {MANIFEST}")
    try:
        with open(path, encoding="utf-8") as file:
            return _copy(json.load(file))
    except (ValueError, RecursionError):
        return Copy("of no known version", False, {})


def _copy(given: Any) -> Copy:
    members = given if isinstance(given, dict) else {}
    version, core, files = (members.get(name) for name in ("version", "core", "files"))
    if not (isinstance(version, str) and isinstance(core, bool) and isinstance(files, dict)):
        raise ValueError("no manifest")
    return Copy(version, core, files)


def differences(folder: str, copy: Copy) -> list[str]:
    """What is not as the manifest says, a line for each file; empty when the copy is whole and unchanged."""
    found = {path: _hash_of(os.path.join(folder, path)) for path in _paths(folder)}
    lines = [(path, "added") for path in found if path not in copy.files]
    lines += [(path, "missing") for path in copy.files if path not in found]
    lines += [(path, "changed") for path in found if path in copy.files and found[path] != copy.files[path]]
    return [f"{what}: {path}" for path, what in sorted(lines)] or ([] if copy.files else [f"changed: {MANIFEST}"])


def _hash_of(path: str) -> Optional[str]:
    """None for what is no plain file, such as a symbolic link."""
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return _hash(file.read())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()  # version control may have changed the line ends


# ------------------------------------------------------------ making them


def write_copy(folder: str, *, core: bool) -> Copy:
    """Put a copy of the package that runs now into a folder, in the place of an earlier copy.

    The new copy is made beside the folder and then takes its place: whoever looks sees the old one or the new one.

    Args:
        folder: An absolute path; either it does not exist, or it is empty, or an earlier copy.
        core: As `own_files`.

    Raises:
        UsageError: As `own_files`.
        OSError: It cannot be written; what was there is still there.
    """
    from shutil import rmtree

    files = own_files(core)
    copy = Copy(VERSION, core, {path: _hash(data) for path, data in sorted(files.items())})
    made = f"{folder}.new-{os.getpid()}"
    os.mkdir(made)
    try:
        for path, data in files.items():
            os.makedirs(os.path.dirname(os.path.join(made, path)), exist_ok=True)
            _write(os.path.join(made, path), data)
        _write(os.path.join(made, MANIFEST), json.dumps({"package": "minimcp", **copy._asdict()}, indent=1).encode())
        _take_the_place(made, folder)
    finally:
        rmtree(made, ignore_errors=True)
    return copy


def _write(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)


def _take_the_place(made: str, folder: str) -> None:
    from shutil import rmtree

    if not os.path.isdir(folder):
        os.rename(made, folder)
        return
    old = f"{made}.old"
    os.rename(folder, old)
    try:
        os.rename(made, folder)
    except BaseException:
        os.rename(old, folder)
        raise
    rmtree(old)
