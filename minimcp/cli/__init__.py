"""The command line: ``minimcp`` or ``python -m minimcp``.

Each command is a function ``(arguments, prog) -> exit code`` in one of the modules of this folder.
The module is imported when the command is used. Exit codes: 0 success, 1 the tool reported an
error, 2 wrong usage, 3 protocol or connection error, 4 timeout, 130 Ctrl-C. A user's mistake
prints one line to stderr, never a traceback.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Mapping, NoReturn, Optional, Sequence
from urllib.parse import urlsplit

from .. import __version__ as VERSION
from ..errors import McpError, RequestTimeout
from ..schema.mismatch import nearest
from ..terminal import escape, one_line as one_line, print_stderr as print_stderr

# For each command, the module with its function and a summary for --help.
COMMANDS = {
    "demo": ("demo", "watch a small server and a client talk, each message explained"),
    "list": ("commands", "show a server's tools, resources and prompts with their arguments"),
    "call": ("commands", "call a tool of a server"),
    "tasks": ("commands", "list a server's tasks, show one task, or cancel it"),
    "events": ("events", "list a server's event types, and poll or follow events"),
    "read": ("commands", "read a resource of a server"),
    "prompt": ("commands", "get a prompt of a server"),
    "ping": ("commands", "check that a server answers"),
    "login": ("commands", "sign in to a server with a URL, and store the token"),
    "logout": ("commands", "delete the stored token of a server"),
    "whoami": ("commands", "describe the stored token of a server"),
    "trace": ("trace", "record the messages between a host and a server, and check them"),
    "check": ("check", "check a server against the specification"),
    "apps": ("commands", "show the pages of a server's tools in a browser, and the messages"),
    "run": ("run", "serve the server object in a Python file over stdin and stdout, or HTTP"),
    "install": ("install", "add a server to a host's config file"),
    "doctor": ("doctor", "start every server of a host's config file, and say what is wrong"),
    "bridge": ("gateway", "serve a stdio server over HTTP, a URL over stdio, or several as one"),
    "card": ("card", "print the card of a server, or make one from a file"),
    "new": ("new", "write a folder with a server, its test and the entry for a host"),
    "bundle": ("bundle", "pack a server into one file for Claude Desktop, or for python3"),
    "vendor": ("vendor", "copy this package into your own tree, or check such a copy"),
}

clean = escape

INTERRUPTED = 130
# A shell reports this code for a program that ended by SIGPIPE, because the reader of its output
# closed the pipe.
PIPE_CODE = 141

# The environment variable with the token for a URL that the user types. Other users could read the
# arguments of a command.
TOKEN_VARIABLE = "MINIMCP_TOKEN"

# The options for a network with its own certificates or a proxy, which `network_of` reads.
NETWORK: Sequence[tuple[str, dict[str, Any]]] = (
    (
        "--cacert",
        {"metavar": "FILE", "help": "check the certificate of a URL with the CA bundle in FILE"},
    ),
    (
        "--proxy",
        {"metavar": "URL", "help": "send the requests to a URL through this proxy"},
    ),
)


class UsageError(Exception):
    """Invalid arguments; the message says what to write instead."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises `UsageError` with one line instead of printing several.

    Args:
        prog: The name of the program and the command.
        description: A sentence for ``--help`` that says what the command does.
        epilog: Text below the options in ``--help``; None means no text.
    """

    def __init__(self, prog: str, description: str, epilog: Optional[str] = None) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` with argparse's message and the closest option.

        Raises:
            UsageError: Always.
        """
        problem, _, arguments = message.partition("arguments: ")
        option = arguments.split(" ")[0].partition("=")[0]
        hint = ""
        if option.startswith("--"):
            if problem == "unrecognized ":
                message = f"unrecognized arguments: {option}"  # its value may be a secret
            close = nearest(option, self._option_string_actions)
            if close:
                hint = f", did you mean {close}?"
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command.

    Args:
        argv: The arguments without the program's name; None means the arguments of this process.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    package = __name__.rpartition(".")[0]
    started_as_module = os.path.basename(sys.argv[0] if sys.argv else "") == "__main__.py"
    python = os.path.basename(sys.executable).removesuffix(".exe") or "python"
    program = f"{python} -m {package}" if started_as_module else package.rpartition(".")[2]
    prog = " ".join([program, *arguments[:1]])
    with suppress(AttributeError):  # stdout is None, or was replaced
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(arguments, program)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as exiting:  # argparse has printed a command's --help
        return int(exiting.code or 0)
    except UsageError as error:
        print_error(prog, str(error))
        return 2
    except McpError as error:
        # A message that quotes the server's stderr keeps its lines.
        if getattr(error, "stderr_tail", ""):
            print_stderr(f"{prog}: {clean(str(error))}")
        else:
            print_error(prog, str(error) or type(error).__name__)
        return exit_code(error)
    except ImportError as error:
        # This package raises ImportError without a name, with a message that says what to install.
        if error.name is not None:
            raise
        print_error(prog, str(error))
        return 3
    except OSError as error:
        if error.filename is None:
            _drop_stdout()
        if isinstance(error, BrokenPipeError):
            return PIPE_CODE
        print_error(prog, f"{error.filename or 'stdout'}: {error.strerror}")
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
            f"usage: {program} COMMAND ...\n\n"
            "Inspect, call and serve servers of the Model Context Protocol.\n"
        )
        for command, (_, summary) in COMMANDS.items():
            print(f"  {command:<8}{summary}")
        print(f"\nSee {program} COMMAND --help for more. Start with: {program} demo")
    else:
        close = nearest(name, COMMANDS)
        hint = f", did you mean {close}? The commands are" if close else "; the commands are"
        raise UsageError(f"unknown command {name!r}{hint} {', '.join(COMMANDS)}")
    return 0 if arguments else 2


def split_command(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before ``--`` and the command after it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


def as_header(text: str) -> tuple[str, str]:
    """Parse a value of ``--header``."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        # Show only characters of a header's name: the rest may be a secret.
        start = re.match("[A-Za-z-]*", text)[0]  # type: ignore[index]
        quoted = start if start == text else f"{start}..."
        raise argparse.ArgumentTypeError(f'{quoted!r} is not "Name: value"')
    return name.strip(), value.strip()


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the options that `network_of` reads."""
    for name, settings in NETWORK:
        parser.add_argument(name, **settings)


def network_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `connect` that the options of `NETWORK` set."""
    given: dict[str, Any] = {}
    if getattr(options, "cacert", None) is not None:
        given["verify"] = options.cacert
    if getattr(options, "proxy", None) is not None:
        given["proxies"] = dict.fromkeys(("http", "https"), options.proxy)
    return given


def network_words(options: argparse.Namespace) -> list[str]:
    """Return the options of `NETWORK` as words for another command."""
    words: list[str] = []
    for option, _ in NETWORK:
        value = getattr(options, option[2:])
        if value is not None:
            words += [option, value]
    return words


def is_url(target: str) -> bool:
    """Return whether a target is the URL of a server."""
    return target.lower().startswith(("http://", "https://"))


def environment_token(target: str, headers: Mapping[str, str]) -> Optional[str]:
    """Return the token in the environment, if it is to be sent to a target that the user has typed.

    Args:
        target: The target. Only a URL gets the token.
        headers: The headers that are sent to it. ``Authorization`` replaces the token.
    """
    if not is_url(target):
        return None
    has_password = "@" in urlsplit(target).netloc
    if has_password or "authorization" in {name.lower() for name in headers}:
        return None
    return os.environ.get(TOKEN_VARIABLE) or None


def exit_code(error: McpError) -> int:
    """Return the exit code for a protocol or connection error."""
    return 4 if isinstance(error, RequestTimeout) else 3


def _drop_stdout() -> None:
    """Redirect stdout to os.devnull after a failed write.

    Otherwise the interpreter would try to flush it again at exit.
    """
    with suppress(OSError, ValueError):  # a stdout without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def print_error(prog: str, text: str) -> None:
    """Print a message to stderr as one line that begins with the program's name."""
    print_stderr(f"{prog}: {one_line(text)}")
