"""Arguments that several commands share, and parsers that complain on one line."""

from __future__ import annotations

import argparse
import os
from typing import Callable, NoReturn, Optional

from .. import Answer, Client, ElicitRequest, connect
from ..client.config import Servers, read_servers
from .ending import UsageError

TARGET_HELP = 'a file (server.py), a URL, a name in mcp.json, or a command line in quotes ("python -m server --flag")'

CONFIG_FILE = "mcp.json"
"""Where names are looked up when no ``--config`` is given, in the current folder."""

ENDINGS = "Exit codes: 0 done, 1 the tool reported an error, 2 wrong usage, 3 protocol or connection, 4 timeout."


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises `UsageError` with one line instead of printing several.

    Args:
        prog: The program and the command.
        description: What the command does.
        epilog: What stands below; None takes the exit codes.
    """

    def __init__(self, prog: str, description: str, epilog: Optional[str] = ENDINGS) -> None:
        super().__init__(prog=prog, description=description, epilog=epilog, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """As in the standard library, but raised.

        Raises:
            UsageError: Always.
        """
        raise UsageError(f"{message} (see {self.prog} --help)")


def client_parser(prog: str, description: str) -> Parser:
    """A parser for a command that calls a server."""
    parser = Parser(prog, description)
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    parser.add_argument("--config", metavar="FILE",
                        help=f"TARGET is a name in this file, and nothing else (default: {CONFIG_FILE}, if it has it)")
    parser.add_argument("--timeout", type=_seconds, default=60.0, metavar="SECONDS",
                        help="for connecting, and again for each call (default: 60)")
    parser.add_argument("--revision", default="auto", metavar="NAME",
                        help='"auto" finds out (default), "handshake" uses the newest revision with a handshake, '
                             "a date asks for exactly that revision")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="what to print (default: text)")
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def open_target(options: argparse.Namespace, *, elicit: Optional[Callable[[ElicitRequest], Answer]] = None) -> Client:
    """Connect to what the command line names.

    Args:
        options: From `client_parser`.
        elicit: Answers the server's questions to the user; None declares that it may not ask any.

    Raises:
        UsageError: It names nothing that can be a server.
        McpError: As `connect`.
    """
    try:
        return connect(
            options.target, config=_config_for(options),
            revision=options.revision, timeout=options.timeout, connect_timeout=options.timeout, elicit=elicit,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def _config_for(options: argparse.Namespace) -> Optional[Servers]:
    """The config that has the target: the one named, or the current folder's if it knows a word that is no file."""
    if options.config is not None:
        return _read(options.config)
    target = options.target
    if os.path.exists(target) or len(target.split()) != 1 or not os.path.isfile(CONFIG_FILE):
        return None
    servers = _read(CONFIG_FILE)
    return servers if target in servers else None


def _read(path: str) -> Servers:
    try:
        return read_servers(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
