"""How a command ends: its exit code, and the one line on stderr that says why."""

from __future__ import annotations

import os
import sys

from ..errors import McpError, RequestTimeout, ToolError
from .screen import one_line, say

INTERRUPTED = 130
PIPE_CODE = 141
"""As a shell shows a program that SIGPIPE ended: its reader has seen enough."""

CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ToolError, 1),
    (RequestTimeout, 4),
    (McpError, 3),
)
"""Exit codes by kind of exception; the first that fits counts."""


class UsageError(Exception):
    """The user asked for something that cannot be; the message says what would do."""


def ended_by(error: BaseException, program: str) -> int:
    """Say on stderr why a command ended; its exit code.

    Args:
        error: What ended it.
        program: The program and the command, for the line on stderr.

    Raises:
        BaseException: `error`, when it is no user's mistake but a fault of this library.
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 2
    if isinstance(error, UsageError):
        complain(program, str(error))
        return 2
    if isinstance(error, BrokenPipeError):  # whoever reads us has seen enough
        drop_stdout()
        return PIPE_CODE
    for kind, code in CODES:
        if isinstance(error, kind):
            complain(program, _words(error) or type(error).__name__)
            return code
    if isinstance(error, OSError):
        complain(program, f"{error.filename or 'stdout'}: {error.strerror}")
        drop_stdout()
        return 3
    raise error


def _words(error: BaseException) -> str:
    """What it says, without a server's stderr below it: that has come out on ours already."""
    return str(error).split("\n", 1)[0] if getattr(error, "stderr_tail", "") else str(error)


def complain(program: str, text: str) -> None:
    """Print one line on stderr, whatever the text holds."""
    if sys.stderr is not None:
        say(f"{program}: {one_line(text)}", file=sys.stderr)


def drop_stdout() -> None:
    """Point a stdout that cannot be written at nothing, so that the interpreter does not try again at its exit."""
    try:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    except (OSError, ValueError):
        pass  # a stdout without a descriptor
