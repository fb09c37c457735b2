"""The command line: ``minimcp`` or ``python -m minimcp``.

Every command is a file of its own with a function ``command(arguments, prog) -> int``, imported when it is called.
Exit codes: 0 done, 1 the tool reported an error, 2 wrong usage, 3 protocol or connection, 4 timeout, 130 Ctrl-C.
A user's mistake is one line on stderr, never a traceback.
"""

from __future__ import annotations

import os
import sys
from typing import Optional, Sequence

COMMANDS = {
    "demo": ("demo", "watch a small server and a client talk, message by message, explained"),
    "list": ("listing", "show the tools, resources and prompts of a server, with their arguments"),
    "call": ("calling", "call a tool of a server"),
    "read": ("reading", "read a resource of a server"),
    "prompt": ("prompting", "get a prompt of a server"),
    "ping": ("pinging", "ask whether a server is there"),
    "run": ("running", "serve the server object in a Python file, over stdin and stdout or HTTP"),
    "vendor": ("vendoring", "copy this package into a tree of your own, or check such a copy"),
}
"""Command to the file that holds it, and what it does."""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command.

    Args:
        argv: The arguments without the program's name; None takes those of this process.

    Returns:
        The exit code.
    """
    from .ending import ended_by

    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(arguments, _program())
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        return ended_by(error, " ".join([_program(), *arguments[:1]]))
    return code


def _program() -> str:
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    package = __name__.rpartition(".")[0]
    return f"python -m {package}" if name == "__main__.py" else package.rpartition(".")[2]


def _dispatch(arguments: list[str], program: str) -> int:
    from .ending import UsageError

    name = arguments[0] if arguments else "--help"
    if name in COMMANDS:
        from importlib import import_module

        module = import_module(f".{COMMANDS[name][0]}", __name__)
        code: int = module.command(arguments[1:], f"{program} {name}")
        return code
    if name == "--version":
        from .. import __version__ as VERSION

        print(f"minimcp {VERSION}")
    elif name in ("-h", "--help", "help"):
        print(_help(program))
    else:
        raise UsageError(f"there is no command {name!r}: {', '.join(COMMANDS)}")
    return 0 if arguments else 2


def _help(program: str) -> str:
    lines = [f"usage: {program} COMMAND ...", "", "Look at, call and serve servers of the Model Context Protocol.", ""]
    lines += [f"  {name:<8}{what}" for name, (_, what) in COMMANDS.items()]
    lines += ["", f"{program} COMMAND --help says more. Start with: {program} demo"]
    return "\n".join(lines)
