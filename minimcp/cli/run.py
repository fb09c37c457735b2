"""``minimcp run``: find the server object in a Python file and serve it.

With ``--reload`` the process restarts when a file changes.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import time
import traceback
from argparse import ArgumentTypeError, Namespace
from contextlib import redirect_stdout, suppress
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Mapping, Sequence

from ..client.command import no_file
from ..features.observers import FinishedRequest, observer
from ..server.options import has_marks
from ..server.server import Server
from ..stdio.child import this_python
from . import Parser, UsageError, one_line, print_error, print_stderr

# Interval at which ``--reload`` checks the files for changes.
POLL_SECONDS = 1.0


def run_command(arguments: Sequence[str], prog: str) -> int:
    """Serve the server object, or the plain class, in a file."""
    parser = Parser(
        prog,
        "Serve the server object, or the plain class, in a Python file: over stdin and stdout to "
        "the program that started this command, or over HTTP until Ctrl-C.",
    )
    parser.add_argument(
        "file",
        metavar="FILE[:NAME]",
        help="the file, and the server's variable if the file has several servers",
    )
    parser.add_argument(
        "--http",
        type=address,
        metavar="[HOST:]PORT",
        help="serve over Streamable HTTP at this address, and print the URL; port 0 selects a free "
        "port. If other machines can reach HOST, the server needs allowed_hosts (default: "
        "127.0.0.1)",
    )
    parser.add_argument(
        "--sse",
        action="store_true",
        help="also serve HTTP+SSE for older clients, at /sse on the same port",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="restart when the file or a module in its folder changes",
    )
    add_verbose(parser)
    options = parser.parse_args(arguments)
    for name in ("sse", "reload"):
        if getattr(options, name) and options.http is None:
            raise UsageError(f"--{name} needs --http, as in --http 8000 --{name}")
    path, name = split_file(options.file)
    if options.reload:
        return _reload(path, name, options, prog)
    server = find_server(load(path), name, path)
    if options.verbose:
        log_requests(server)
    if options.http is not None:
        return _serve_http(server, options, prog)
    server.run()
    return 0


def split_file(file: str) -> tuple[str, str]:
    """Split FILE[:NAME] into the path and the name, which is "" if there is none."""
    path, colon, name = file.rpartition(":")
    is_path = not colon or not name.isidentifier() or os.path.isfile(file)
    return (file, "") if is_path else (path, name)


def _serve_http(server: Any, options: Namespace, prog: str) -> int:
    host, port = options.http
    try:
        server.run("http", host=host, port=port, legacy_sse=options.sse)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        print_error(prog, error.strerror or str(error))
        return 3
    return 0


def add_verbose(parser: Parser) -> None:
    """Add the option with which a command calls `log_requests`."""
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="print one line to stderr for each request: its method, outcome and duration",
    )


def log_requests(server: Any) -> None:
    """Print a line to stderr for each request that ends, and for each request that is rejected at
    the HTTP level."""
    config = server._config
    before = config.on_finished
    report = observer(_print_request, server._registry.has_method)

    def on_finished(*finished: Any) -> None:
        report(*finished)
        if before is not None:
            before(*finished)

    config.on_finished = on_finished
    rejected = logging.getLogger("minimcp.http")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    rejected.addHandler(handler)
    rejected.setLevel(logging.DEBUG)
    rejected.propagate = False


def _print_request(finished: FinishedRequest) -> None:
    name = f" {finished.name}" if finished.name else ""
    code = f" {finished.code}" if finished.code is not None else ""
    session = f" session={finished.session}" if finished.session else ""
    line = (
        f"{time.strftime('%H:%M:%S')} {finished.method}{name}: {finished.outcome}{code} after "
        f"{finished.seconds * 1000:.1f} ms{session}"
    )
    if sys.stderr is not None:
        sys.stderr.write(f"{one_line(line)}\n")  # one write, because other threads print too


def address(text: str) -> tuple[str, int]:
    """Parse ``[HOST:]PORT``; an IPv6 address must be in brackets."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) < 1 << 16
    if not is_port or bool(host) != bool(colon):
        raise ArgumentTypeError(f"{text!r} is not [HOST:]PORT, as in 8000 or 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


# ------------------------------------------------------------ the server in a file


def load(path: str) -> Mapping[str, Any]:
    """Import a file as a module and return its variables. Its output goes to stderr.

    Raises:
        UsageError: The file does not exist or cannot be imported.
    """
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise UsageError(no_file(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name += "_served"
    spec = spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(full))
    try:
        with redirect_stdout(sys.stderr):  # stdout is for messages
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == full]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise UsageError(
            f"{path} cannot be imported: {where}{type(error).__name__}: {error}"
        ) from error
    return vars(module)


def find_server(variables: Mapping[str, Any], name: str, path: str) -> Any:
    """Return the server in a file.

    A plain object, or a class that needs no arguments, is made into a server.

    Args:
        variables: The file's variables.
        name: The name of the server's variable; empty if the file has only one server.
        path: The path of the file, for error messages.

    Raises:
        UsageError: The file has no server or several, or the named variable is not a server.
    """
    name = find_name(variables, name, path)
    value = variables[name]
    if _is_server(value):
        return value
    if not has_marks(value if isinstance(value, type) else type(value)):
        raise UsageError(f"{name!r} in {path} is not a server but {type(value).__name__}")
    try:
        if isinstance(value, type):
            print_stderr(f"serving {value.__name__}(), a class from {value.__module__}")
            value = value()
        return Server.of(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name!r} in {path} cannot be served: {error}") from error


def find_name(variables: Mapping[str, Any], name: str, path: str) -> str:
    """Return the name of the variable that `find_server` serves. See there for the arguments.

    Raises:
        UsageError: The file has no server or several, or no such variable.
    """
    found = _servers(variables)
    if name and name not in variables:
        known = f"; its servers are {', '.join(found)}" if found else ""
        raise UsageError(f"{path} has no variable {name!r}{known}")
    if name:
        found = {name: variables[name]}
    if not found:
        raise UsageError(
            f'{path} has no server object: write  server = Server("name")  at its top level'
        )
    if len(found) > 1:
        choices = ", ".join(f"{path}:{each}" for each in found)
        raise UsageError(f"{path} has several servers: choose one of {choices}")
    return next(iter(found))


def _is_server(value: Any) -> bool:
    """Return whether this is a server object of this package, or of a copy with another name."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("run", "start_http")
    )


def _servers(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the server objects by name; if there are none, the plain objects, then the classes.

    An object with several names is returned under the first one.
    """
    module = variables.get("__name__")
    for matches in (
        _is_server,
        lambda value: not isinstance(value, type) and has_marks(type(value)),
        lambda value: isinstance(value, type) and value.__module__ == module and has_marks(value),
    ):
        found = {
            id(value): name for name, value in reversed(list(variables.items())) if matches(value)
        }
        if found:
            return {name: variables[name] for name in reversed(list(found.values()))}
    return {}


# ------------------------------------------------------------ --reload


def _reload(path: str, name: str, options: Namespace, prog: str) -> int:
    """Serve over HTTP. When a file changes, close the server and restart this process.

    The new process has the current folder and environment that this one started with.
    """
    python = this_python("--reload restarts this command, so it needs an interpreter")
    host, port = options.http
    folder = os.getcwd()
    environment = dict(os.environ)
    watched = os.path.abspath(path)
    if port == 0:  # keep the same free port after each restart
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as probe:
            options.http = host, probe.getsockname()[1]
    # Bytecode files compare only whole seconds, so a quick second change would not be seen.
    sys.dont_write_bytecode = True
    before = stamps_of(watched)
    changed = threading.Event()
    servers: list[Any] = []

    def watch() -> None:
        while True:
            time.sleep(POLL_SECONDS)
            now = stamps_of(watched)
            if watched in now and now != before:
                changed.set()
                for server in servers:
                    server.close()

    threading.Thread(target=watch, name="minimcp-cli-watch", daemon=True).start()
    code = 2
    try:
        servers.append(find_server(load(path), name, path))
        if options.verbose:
            log_requests(servers[0])
        code = _serve_http(servers[0], options, prog)
    except UsageError as error:
        print_error(prog, str(error))
        print_stderr("waiting for a change before restarting")
        # On Windows, Ctrl-C does not interrupt a wait without a timeout.
        while not changed.wait(POLL_SECONDS):
            pass
    if changed.is_set():
        print_stderr(f"restarting: {path} or a module in its folder has changed")
        package = __name__.partition(".cli.")[0]
        command = [python, "-m", package, "run", options.file, "--reload"]
        command += ["--http", "{}:{}".format(*options.http)]
        if options.sse:
            command.append("--sse")
        if options.verbose:
            command.append("--verbose")
        os.chdir(folder)
        # exec does not run the functions that the file has registered with atexit.
        atexit._run_exitfuncs()
        print(end="", flush=True)
        # On Windows, exec starts a process that the console does not wait for.
        if os.name == "nt":  # pragma: no cover
            import subprocess

            return subprocess.call(command, env=environment)
        os.execve(python, command, environment)
    return code


def stamps_of(path: str) -> Mapping[str, tuple[int, int]]:
    """Return the modification times and sizes of the file and of the modules in its folder.

    Packages in the folder are included.
    """
    files = [path]
    for folder, subfolders, names in os.walk(os.path.dirname(path) or "."):
        subfolders[:] = [
            each for each in subfolders if os.path.isfile(os.path.join(folder, each, "__init__.py"))
        ]
        files += [os.path.join(folder, each) for each in names if each.endswith(".py")]
    stamps = {}
    for file in files:
        with suppress(OSError):  # an editor may be replacing the file
            status = os.stat(file)
            stamps[file] = (status.st_mtime_ns, status.st_size)
    return stamps
