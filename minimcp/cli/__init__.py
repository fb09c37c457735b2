"""The command line: ``minimcp`` or ``python -m minimcp``.

Each command is a function ``(arguments, prog) -> exit code`` in one of the modules here, imported
when it is called. Exit codes: 0 done, 1 the tool reported an error, 2 wrong usage, 3 protocol or
connection, 4 timeout, 130 Ctrl-C.
A user's mistake is one line on stderr, never a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn, Optional, Sequence

from .. import __version__ as VERSION
from ..errors import McpError, RequestTimeout
from ..schema.mismatch import nearest
from ..text import printable

# Command to the module that has its function, and what it does.
COMMANDS = {
    "demo": ("demo", "watch a small server and a client talk, message by message, explained"),
    "list": ("commands", "show the tools, resources and prompts of a server, with their arguments"),
    "call": ("commands", "call a tool of a server"),
    "tasks": ("commands", "list the tasks of a server, look at one, or end it"),
    "read": ("commands", "read a resource of a server"),
    "prompt": ("commands", "get a prompt of a server"),
    "ping": ("commands", "ask whether a server is there"),
    "login": ("commands", "sign in at a server with a URL, and keep the token"),
    "logout": ("commands", "forget that token"),
    "whoami": ("commands", "show what is known of it"),
    "trace": (
        "trace",
        "record what goes between a host and a server, and what in it breaks the specification",
    ),
    "check": ("check", "check a server against the specification"),
    "run": ("run", "serve the server object in a Python file, over stdin and stdout or HTTP"),
    "install": ("install", "write a server into the config file of a host"),
    "bridge": ("bridge", "serve a stdio server over HTTP, or a server with a URL over stdio"),
    "vendor": ("vendor", "copy this package into a tree of your own, or check such a copy"),
}

INTERRUPTED = 130
# As a shell reports a program that SIGPIPE ended: the reader of its output has closed the pipe.
PIPE_CODE = 141


class UsageError(Exception):
    """The user asked for something that cannot be done; the message says what can."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises `UsageError` with one line instead of printing several.

    Args:
        prog: The program and the command.
        description: What the command does.
        epilog: What stands below; None for nothing.
    """

    def __init__(self, prog: str, description: str, epilog: Optional[str] = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """As in the standard library, but raised.

        Raises:
            UsageError: Always.
        """
        what, _, arguments = message.partition("arguments: ")
        word = arguments.split(" ")[0].partition("=")[0]
        if what == "unrecognized " and word.startswith("--"):
            message = f"{what}arguments: {word}"  # the value may be a secret
        near = nearest(word, self._option_string_actions) if word.startswith("--") else None
        meant = f", did you mean {near}?" if near else ""
        raise UsageError(f"{message}{meant} (see {self.prog} --help)")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command.

    Args:
        argv: The arguments without the program's name; None takes those of this process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    package = __name__.rpartition(".")[0]
    started_as_module = os.path.basename(sys.argv[0] if sys.argv else "") == "__main__.py"
    python = os.path.basename(sys.executable).removesuffix(".exe") or "python"
    program = f"{python} -m {package}" if started_as_module else package.rpartition(".")[2]
    prog = " ".join([program, *arguments[:1]])
    with suppress(AttributeError):  # there is none, or something else in its place
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(arguments, program)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:  # --help of a command
        return int(ended.code or 0)
    except UsageError as error:
        complain(prog, str(error))
        return 2
    except McpError as error:
        if getattr(
            error, "stderr_tail", ""
        ):  # of which the message shows the last lines, below its first one
            tell(f"{prog}: {clean(str(error))}")
        else:
            complain(prog, str(error) or type(error).__name__)
        return exit_code(error)
    except ImportError as error:
        if error.name is not None:  # not one of ours, which say what to install
            raise
        complain(prog, str(error))
        return 3
    except OSError as error:
        if error.filename is None:
            _drop_stdout()
        if isinstance(error, BrokenPipeError):
            return PIPE_CODE
        complain(prog, f"{error.filename or 'stdout'}: {error.strerror}")
        return 3


def _run(arguments: list[str], program: str) -> int:
    name = arguments[0] if arguments else "--help"
    if name in COMMANDS:
        module = import_module(f".{COMMANDS[name][0]}", __name__)
        code: int = getattr(module, f"{name}_command")(arguments[1:], f"{program} {name}")
        return code
    if name == "--version":
        print(f"minimcp {VERSION}")
    elif name in ("-h", "--help", "help"):
        print(
            f"usage: {program} COMMAND ...\n\nLook at, call and serve servers of the Model "
            "Context Protocol.\n"
        )
        for command, (_, what) in COMMANDS.items():
            print(f"  {command:<8}{what}")
        print(f"\n{program} COMMAND --help says more. Start with: {program} demo")
    else:
        near = nearest(name, COMMANDS)
        meant = f", did you mean {near}? There are" if near else ":"
        raise UsageError(f"there is no command {name!r}{meant} {', '.join(COMMANDS)}")
    return 0 if arguments else 2


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before ``--``, and the command that stands behind it."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def exit_code(error: McpError) -> int:
    """The exit code for an error of the protocol or the connection."""
    return 4 if isinstance(error, RequestTimeout) else 3


def _drop_stdout() -> None:
    """Point a stdout that cannot be written to os.devnull, so that the interpreter does not try
    again at its exit."""
    with suppress(OSError, ValueError):  # a stdout without a descriptor
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def clean(text: str) -> str:
    """Text of a server, with what a terminal would obey shown as escapes; line feeds and tabs
    stay."""
    return printable(text, "\n\t")


def one_line(text: str) -> str:
    """The lines of a text as one, cleaned."""
    return clean(" | ".join(text.strip().splitlines())).replace("\t", " ")


def tell(text: str) -> None:
    """Print a line on stderr, if there is one."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def complain(prog: str, text: str) -> None:
    """Print one line on stderr, whatever the text holds."""
    tell(f"{prog}: {one_line(text)}")
