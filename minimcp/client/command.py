"""How `connect` interprets a str or a path: as a file or as a command line.

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
"""The program that runs a file, by the file's suffix; empty for this Python. Other files are
executed directly."""


def of_text(target: str, cwd: str) -> tuple[str, Sequence[str]]:
    """Return a description of the target, and the command that it means.

    Args:
        target: A file or a command line.
        cwd: The working directory of the server.

    Raises:
        ConnectionFailed: The target is neither; the message says what to write.
        ValueError: The target is not a valid command line.
    """
    first = "".join(target.split()[:1])
    is_script = target.endswith(tuple(SCRIPTS))
    if (os.path.dirname(first) and os.path.isfile(target)) or (
        is_script and len(target.split()) == 1
    ):
        return "a file", run_file(target, cwd)
    if target.endswith(".json") and os.path.isfile(target):
        raise ConnectionFailed(
            f"{target!r} is a config: write connect(NAME, config={target!r}) for one server, or "
            f"connect_all({target!r}). On the command line, write NAME --config {target}"
        )
    try:
        words = shlex.split(target, posix=os.name != "nt")
    except ValueError as error:
        raise ValueError(f"{target!r} was interpreted as a command line: {error}") from None
    # As in a shell, a program on the PATH takes precedence over a file in this folder.
    if words and shutil.which(words[0]) is None:
        if os.path.isfile(target) and is_script:
            return "a file", run_file(target, cwd)
        if os.path.isfile(target):
            raise ConnectionFailed(
                f"{target!r} was interpreted as a command line: write {'./' + target!r} for the "
                "file"
            )
        if words[0].endswith(tuple(SCRIPTS)) and os.path.isfile(words[0]):
            runner = SCRIPTS[os.path.splitext(words[0])[1]]
            python = "sys.executable" if knows_python() else "'python3'"
            first = repr(runner) if runner else python
            raise ConnectionFailed(
                f"{target!r} was interpreted as a command line, but {words[0]} is not a program: "
                f"write connect([{first}, {', '.join(map(repr, words))}])"
            )
        if len(words) == 1:
            refuse_address(target)
            _refuse_word(words[0])
    return "a command line", words


def refuse_address(target: str) -> None:
    """Raise ConnectionFailed if this looks like a URL without its scheme."""
    if re.fullmatch(r"[\w.-]+:\d+(/\S*)?", target):
        raise ConnectionFailed(
            f"{target!r} was interpreted as a command line: write 'http://{target}' or "
            f"'https://{target}' for a URL"
        )


def _refuse_word(word: str) -> None:
    """Raise ConnectionFailed if this word is not a program. The message suggests a file or a
    server."""
    near = next(
        (f"the file {word + ending!r}" for ending in SCRIPTS if os.path.isfile(word + ending)), None
    )
    from .config import CONFIG_FILE, read_servers

    with suppress(OSError, ValueError):  # the config may be missing or invalid
        name = nearest(word, read_servers(CONFIG_FILE).table)
        near = near or (name and f"the server {name!r} in {CONFIG_FILE} (config={CONFIG_FILE!r})")
    if near or not os.path.dirname(word):
        hint = "for the name of a server in a config, add config=FILE (--config)"
        if near:
            hint = f"did you mean {near}?"
        raise ConnectionFailed(
            f"{word!r} was interpreted as a command line, but is not a program: {hint}"
        )


def no_file(path: str, cwd: str = "") -> str:
    """Return the message for a missing file: where it was looked for, and which file may be
    meant."""
    near = None
    wanted = Path(cwd, path)
    with suppress(OSError):  # the folder may be missing too
        files = [each.name for each in wanted.parent.iterdir() if each.suffix == wanted.suffix]
        near = nearest(wanted.name, files, 0.87)  # names of files often have parts in common
    where = "" if os.path.isabs(path) else f" in {os.path.abspath(cwd)}"
    hint = f", did you mean {near}?" if near else ""
    return f"there is no file {path!r}{where}{hint}"


def run_file(file: Union[str, os.PathLike[str]], cwd: str) -> list[str]:
    """Return the command that runs a file.

    If the file exists, its path is made absolute, because the server may run in another directory.
    """
    path = Path(file)
    runner = SCRIPTS.get(path.suffix)
    if runner is None:
        return [str(path.absolute())]
    is_here = path.is_file()
    if not is_here and not (Path(cwd) / path).is_file():
        raise ConnectionFailed(no_file(str(path), cwd))
    command = str(path.absolute()) if is_here else str(path)
    if not runner:
        runner = this_python(
            f"name the Python interpreter that runs the server: ['python3', {command!r}]"
        )
    return [runner, command]
