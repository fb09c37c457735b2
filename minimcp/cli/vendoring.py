"""``minimcp vendor``: copy this package into another tree, or look at such a copy."""

from __future__ import annotations

import os
from keyword import iskeyword
from typing import Sequence

from .copies import MANIFEST, differences, package_folder, read_manifest, write_copy
from .ending import UsageError
from .parsing import Parser
from .screen import one_line, say

ENDINGS = "Exit codes: 0 done, or the copy is whole and unchanged, 1 it is not, 2 wrong usage, 3 it cannot be written."


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    parser = Parser(prog, "Copy this package into a tree of your own, or look at such a copy.", ENDINGS)
    parser.add_argument("folder", metavar="DIR", help="the copy; the last part of this path is the name to import")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--core", action="store_true",
                        help="leave out the command line, what tests servers, and HTTP; serving and calling over stdin "
                             "and stdout and in memory stay whole, and need the standard library alone")
    either.add_argument("--check", action="store_true",
                        help="copy nothing; say which version DIR is, and what in it is missing, changed or added")
    options = parser.parse_args(arguments)
    return check(options.folder) if options.check else vendor(options.folder, core=options.core)


def check(folder: str) -> int:
    """Say what a copy is; 0 when it is whole and unchanged, 1 when it is not.

    Raises:
        UsageError: It is no copy.
    """
    copy = read_manifest(folder)
    found = differences(folder, copy)
    for line in found:
        say(one_line(line))
    say(f"{folder} is {copy}, {'but not as it was copied' if found else 'whole and unchanged'}")
    return 1 if found else 0


def vendor(folder: str, *, core: bool) -> int:
    """Copy the package; 0.

    Raises:
        UsageError: Something else is there, or the name cannot be imported.
    """
    target = os.path.abspath(folder)
    name = os.path.basename(target)
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"no statement can import a package called {name!r}: use letters, digits and _")
    if not os.path.isdir(os.path.dirname(target)):
        raise UsageError(f"there is no folder {os.path.dirname(target)}")
    _check_room(target, folder)
    copy = write_copy(target, core=core)
    say(f"{folder} is now {copy}, {len(copy.files)} files; {MANIFEST} lists them for --check")
    return 0


def _check_room(target: str, shown: str) -> None:
    """Return if a copy may go there: there is nothing, or an earlier copy that nobody has changed."""
    own = os.path.realpath(package_folder())
    if os.path.join(os.path.realpath(target), "").startswith(os.path.join(own, "")):
        raise UsageError(f"{shown} is this package itself, or lies in it")
    if not os.path.lexists(target):
        return
    if os.path.islink(target) or not os.path.isdir(target):
        raise UsageError(f"{shown} is there already, and is no folder")
    if os.listdir(target):
        found = differences(target, read_manifest(target))
        if found:
            raise UsageError(f"{shown} was changed since it was copied ({found[0]}): see --check, or delete it")
