"""What a str or a path means as the target of `connect`: a file or a command line.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Sequence, Union

from ..errors import ConnectionFailed
from ..schema.mismatch import nearest
from ..stdio.child import knows_python, this_python

SCRIPTS = {".py": "", ".js": "node", ".mjs": "node"}
"""The program that runs a file, by the file's ending; empty for this Python. Other files run
themselves."""


def of_text(target: str, cwd: str) -> tuple[str, Sequence[str]]:
    """Return what a text was taken for, and the command that it means.

    Args:
        target: A file or a command line.
        cwd: The working directory of the server.

    Raises:
        ConnectionFailed: It is neither; the message says what to write.
        ValueError: It is not a command line.
    """
    first, is_script = "".join(target.split()[:1]), target.endswith(tuple(SCRIPTS))
    if (os.path.dirname(first) and os.path.isfile(target)) or (
        is_script and len(target.split()) == 1
    ):
        return "a file", run_file(target, cwd)
    if target.endswith(".json") and os.path.isfile(target):
        way = (
            f"say which: connect(NAME, config={target!r}), or all of them: connect_all({target!r})"
        )
        raise ConnectionFailed(f"{target!r} is a file of servers: {way}")
    try:
        words = shlex.split(target, posix=os.name != "nt")
    except ValueError as error:
        raise ValueError(f"{target!r} was taken for a command line: {error}") from None
    if (
        words and shutil.which(words[0]) is None
    ):  # as in a shell, a program comes before a file of this folder
        if os.path.isfile(target) and is_script:
            return "a file", run_file(target, cwd)
        if os.path.isfile(target):
            raise ConnectionFailed(
                f"{target!r} was taken for a command line: write {'./' + target!r} for the file"
            )
        if words[0].endswith(tuple(SCRIPTS)) and os.path.isfile(words[0]):
            runner = SCRIPTS[os.path.splitext(words[0])[1]]
            python = "sys.executable" if knows_python() else "'python3'"
            first = repr(runner) if runner else python
            way = f"write connect([{first}, {', '.join(map(repr, words))}])"
            raise ConnectionFailed(
                f"{target!r} was taken for a command line, and {words[0]} is no program: {way}"
            )
        if len(words) == 1:
            refuse_address(target)
            _refuse_word(words[0])
    return "a command line", words


def refuse_address(target: str) -> None:
    """Raises ConnectionFailed: this looks like a URL without its scheme."""
    if re.fullmatch(r"[\w.-]+:\d+(/\S*)?", target):
        way = f"write 'http://{target}' for a URL, or https://"
        raise ConnectionFailed(f"{target!r} was taken for a command line: {way}")


def _refuse_word(word: str) -> None:
    """Raises ConnectionFailed: this word is no program; it says what is there instead, or what may
    be missing."""
    near = next(
        (f"the file {word + ending!r}" for ending in SCRIPTS if os.path.isfile(word + ending)), None
    )
    from .config import CONFIG_FILE, read_servers

    with suppress(OSError, ValueError):  # there is no such config
        name = nearest(word, read_servers(CONFIG_FILE).table)
        near = near or (name and f"the server {name!r} of {CONFIG_FILE} (config={CONFIG_FILE!r})")
    if near or not os.path.dirname(word):
        way = (
            f"did you mean {near}?"
            if near
            else "a server of a host's file wants it, too: config=FILE (--config)"
        )
        raise ConnectionFailed(f"{word!r} was taken for a command line, and is no program: {way}")


def no_file(path: str, cwd: str = "") -> str:
    """The message that there is no such file: where it was looked for, and which one may be
    meant."""
    near, wanted = None, Path(cwd, path)
    with suppress(OSError):  # there is no such folder either
        there = [each.name for each in wanted.parent.iterdir() if each.suffix == wanted.suffix]
        near = nearest(wanted.name, there, 0.87)  # names of files have much in common
    where = "" if os.path.isabs(path) else f" in {os.path.abspath(cwd)}"
    return f"there is no file {path!r}{where}" + (f", did you mean {near}?" if near else "")


def run_file(file: Union[str, os.PathLike[str]], cwd: str) -> list[str]:
    """The command for a file. What is there is named from the root, because the server may run in
    another directory."""
    path = Path(file)
    runner = SCRIPTS.get(path.suffix)
    if runner is None:
        return [str(path.absolute())]
    is_here = path.is_file()
    if not is_here and not (Path(cwd) / path).is_file():
        raise ConnectionFailed(no_file(str(path), cwd))
    command = str(path.absolute()) if is_here else str(path)
    if not runner:
        way = f"name the Python interpreter that runs the server: ['python3', {command!r}]"
        runner = this_python(way)
    return [runner, command]
