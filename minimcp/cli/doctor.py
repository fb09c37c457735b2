"""``minimcp doctor``: start every server of a host's file, and report what is wrong with each."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import time
from typing import Any, Iterator, Optional, Sequence

from .. import Tool, connect
from ..client.config import Servers, read_servers
from ..client.connect import HINTS
from ..errors import McpError, RequestTimeout
from ..log import logger
from ..protocol.versions import BY_NAME, Revision
from ..schema.hosts import host_problems
from ..stdio.child import StdioServer
from . import Parser, UsageError, clean, one_line
from .commands import command_warnings
from .install import HOSTS, SETTINGS

EXIT_CODES = "Exit codes: 0 all servers work, 1 something is wrong, 2 wrong usage."

# Default time limit for starting one server, and for each list.
START_SECONDS = 30.0

# A start that takes longer is reported, because some hosts stop waiting after 10 seconds.
SLOW_SECONDS = 5.0

# Maximum number of problems of one kind that are shown for a server.
MAX_SHOWN = 5


def doctor_command(arguments: Sequence[str], prog: str) -> int:
    """Start the servers of config files, and report what is wrong."""
    parser = Parser(
        prog,
        "Start every server of a host's config file as the host does, and report what is wrong "
        "with each.",
        EXIT_CODES,
    )
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the config file (default: the user's files of all hosts, or the file of the "
        "host that --client names)",
    )
    parser.add_argument("--client", choices=HOSTS, help="read the user's file of this host")
    parser.add_argument(
        "--timeout",
        type=float,
        default=START_SECONDS,
        metavar="SECONDS",
        help="limit for starting a server, and for each request for its list of tools (default: "
        f"{START_SECONDS:.0f})",
    )
    options = parser.parse_args(arguments)
    if options.file and options.client:
        raise UsageError("write FILE or --client, not both")
    if options.file:
        files = [options.file]
    elif options.client:
        files = [HOSTS[options.client].user_path]
    else:
        files = [host.user_path for host in HOSTS.values() if os.path.isfile(host.user_path)]
    is_named = bool(options.file or options.client)
    count = wrong = 0
    for path in files:
        try:
            servers = read_servers(path)
        except FileNotFoundError:
            raise _not_a_config(path) or UsageError(f"there is no file {path}") from None
        except (OSError, ValueError) as error:
            if is_named or not (path.endswith(SETTINGS) and "has neither" in str(error)):
                mistake = _not_a_config(path)
                if mistake is not None:
                    raise mistake from None
                print(clean(str(error)))
                wrong += 1
            continue
        print(one_line(path))
        for name in servers.table:
            count += 1
            wrong += _examine(servers, name, options.timeout)
    print(f"servers: {count}, problems: {wrong}" if count or wrong else "no server was found")
    return 1 if wrong else 0


def _not_a_config(path: str) -> Optional[UsageError]:
    """Return the error for a path that no host gives to its config file, or None."""
    if path.lower().endswith((".json", ".toml", ".yaml", ".yml")):
        return None
    target = shlex.quote(path)
    return UsageError(
        f"{path} is not a host's config file: this command reads a file such as mcp.json, and "
        f"starts the servers in it. To start one server, write python3 -m minimcp list {target}; "
        f"to check it, python3 -m minimcp check {target}"
    )


def _examine(servers: Servers, name: str, timeout: float) -> int:
    """Start one server, print what is found, and return the number of problems."""
    if name not in servers.names:
        print(clean(f"    {one_line(name)}: disabled, not started"))
        return 0
    examination = _Examination(servers, name, timeout)
    # Without a handler, the library's warnings would be printed between the lines of this command.
    handler = logging.NullHandler()
    library = logger("minimcp")
    library.addHandler(handler)
    try:
        problems = list(examination.problems())
    finally:
        library.removeHandler(handler)
    state = examination.state or "does not work"
    print(clean(f"    {one_line(name)}: {state}"))
    for problem in problems:
        print(clean("      ! " + problem.replace("\n", "\n        ")))
    return len(problems)


class _Examination:
    """The start of one server.

    Args:
        servers: The config.
        name: The server's name.
        timeout: The limit for starting the server, and for each list, in seconds.

    Attributes:
        state: The time of the start and the number of tools; empty if the server does not work.
    """

    def __init__(self, servers: Servers, name: str, timeout: float) -> None:
        self.state = ""
        self._servers = servers
        self._name = name
        self._timeout = timeout
        self._printed: list[str] = []

    def problems(self) -> Iterator[str]:
        """Yield a description of each problem."""
        try:
            entry = self._servers.entry(self._name)
        except ValueError as error:
            yield str(error).partition(f"server {self._name!r}: ")[2] or str(error)
            return
        yield from command_warnings(entry.target)
        target = _as_host_starts(entry.target, self._servers)
        begun = time.monotonic()
        try:
            with connect(
                target,
                timeout=self._timeout,
                connect_timeout=entry.connect_timeout or self._timeout,
                stderr=(lambda line: None) if isinstance(target, StdioServer) else None,
                trace=self._note,
            ) as client:
                seconds = time.monotonic() - begun
                tools = client.list_tools() if "tools" in client.capabilities else []
                count = "1 tool" if len(tools) == 1 else f"{len(tools)} tools"
                self.state = f"{count}, started in {seconds:.1f} s"
                yield from self._tool_problems(tools, BY_NAME[client.revision])
                if seconds > SLOW_SECONDS and entry.connect_timeout is None:
                    yield (
                        f"the start took {seconds:.1f} s, and some hosts stop waiting after 10 s: "
                        "import slow modules inside the tools that use them"
                    )
        except (McpError, ValueError) as error:
            self.state = ""
            yield _explained(error, target)
        if self._printed:
            line = self._printed[0]
            yield (
                f"it prints on stdout, which belongs to the protocol: {line!r:.200}. Print to "
                "sys.stderr"
            )

    def _note(self, direction: str, message: str) -> None:
        """Keep a line of the server that is not a message."""
        if direction != "<--":
            return
        try:
            is_message = isinstance(json.loads(message), (dict, list))
        except (ValueError, RecursionError):
            is_message = False
        if not is_message and len(self._printed) < MAX_SHOWN:
            self._printed.append(message.strip())

    def _tool_problems(self, tools: Sequence[Tool], revision: Revision) -> Iterator[str]:
        """Yield what hosts do to the tools that the config offers."""
        offers = self._servers.entry(self._name).offers
        found = []
        for tool in tools:
            wire = tool.to_wire()
            output = wire.get("outputSchema")
            if isinstance(output, dict) and not revision.handshake:
                output = None  # hosts with this revision accept every schema
            names = [each.name for each in tools]
            problem = host_problems(tool.name, wire.get("inputSchema"), output, names)
            if problem is not None and (offers is None or offers(tool.name)):
                found.append(f"tool {tool.name!r:.80} {problem}")
        yield from found[:MAX_SHOWN]
        if len(found) > MAX_SHOWN:
            more = len(found) - MAX_SHOWN
            yield f"{more} more tools have such problems: see python3 -m minimcp check"


def _as_host_starts(target: Any, servers: Servers) -> Any:
    """Return a target that starts in the folder in which a host would start it."""
    if not isinstance(target, StdioServer) or target.cwd is not None:
        return target
    users = {host.user_path for host in HOSTS.values()}
    is_users = os.path.abspath(servers.where) in users
    cwd = os.path.abspath(os.sep) if is_users else servers.folder
    return StdioServer(target.command, env=target.env, cwd=cwd)


def _explained(error: Exception, target: Any) -> str:
    """Return the message of a failed start, with what to do about it."""
    text = re.sub(r"^connect interpreted the target as [^:]*: ", "", str(error))
    missing = re.search(r"No module named '?([\w.]+)", text)
    if missing is not None and isinstance(target, StdioServer):
        python, module = target.command[0], missing[1]
        # This message says more than the hint of `connect`.
        text = text.removesuffix("\n" + HINTS.get(f"No module named '{module}'", ""))
        return (
            f"{python} has no module {module}: install the package that has it there "
            f"({python} -m pip install PACKAGE), or write the path of a Python that has it into "
            f'"command"\n{text}'
        )
    if isinstance(error, RequestTimeout):
        return f"{text}: hosts do not wait longer"
    return text
