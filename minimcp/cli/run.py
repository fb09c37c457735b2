"""``minimcp run``: find the server object in a Python file and serve it; with ``--reload`` anew
when a file changes."""

from __future__ import annotations

import atexit
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
from ..server.options import has_marks
from ..server.server import Server
from ..stdio.child import this_python
from . import Parser, UsageError, complain, tell

# Interval at which ``--reload`` looks at the files.
LOOK_SECONDS = 1.0


def run_command(arguments: Sequence[str], prog: str) -> int:
    """Serve the server object, or plain class, in a file."""
    parser = Parser(
        prog,
        "Serve the server object, or plain class, in a Python file: to the program that started "
        "it, "
        "over stdin and stdout, or over HTTP, until Ctrl-C.",
    )
    parser.add_argument(
        "file",
        metavar="FILE[:NAME]",
        help="the file, and the variable that holds the server if there are several",
    )
    parser.add_argument(
        "--http",
        type=address,
        metavar="[HOST:]PORT",
        help="serve over Streamable HTTP there, and say at which URL; port 0 takes a free one. A "
        "host "
        "that other machines reach needs the server's allowed_hosts (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--sse",
        action="store_true",
        help="serve clients that know only HTTP+SSE too, at /sse of the same port",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="start anew when the file or a module beside it changes",
    )
    options = parser.parse_args(arguments)
    for name in ("sse", "reload"):
        if getattr(options, name) and options.http is None:
            raise UsageError(f"--{name} goes with --http, as in --http 8000 --{name}")
    path, name = split_file(options.file)
    if options.reload:
        return _reload(path, name, options, prog)
    server = find_server(load(path), name, path)
    if options.http is not None:
        return _serve_http(server, options, prog)
    server.run()
    return 0


def split_file(file: str) -> tuple[str, str]:
    """FILE[:NAME] as the path and the name; "" where there is none."""
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
        complain(prog, error.strerror or str(error))
        return 3
    return 0


def address(text: str) -> tuple[str, int]:
    """``[HOST:]PORT``; an address of IPv6 stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not (
        port.isascii() and port.isdigit() and int(port) < 1 << 16 and bool(host) == bool(colon)
    ):
        raise ArgumentTypeError(f"{text!r} is no [HOST:]PORT, as in 8000 or 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


# ------------------------------------------------------------ the server in a file


def load(path: str) -> Mapping[str, Any]:
    """Import a file as a module and return its variables. What it prints meanwhile goes to stderr.

    Raises:
        UsageError: There is no such file, or it cannot be imported.
    """
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise UsageError(no_file(path))
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules:
        name += "_served"
    spec = spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(full))
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the protocol
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == full
        ]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise UsageError(
            f"{path} cannot be imported: {where}{type(error).__name__}: {error}"
        ) from error
    return vars(module)


def find_server(variables: Mapping[str, Any], name: str, path: str) -> Any:
    """The server to serve: a server object, or one made of a plain object or of a class that needs
    no arguments.

    Args:
        variables: Of the file.
        name: Of the variable; empty takes the only server there is.
        path: Of the file, for the message.

    Raises:
        UsageError: There is none, there are several, or the named one is no server.
    """
    found = _servers(variables)
    if name and name not in variables:
        known = f": its servers are {', '.join(found)}" if found else ""
        raise UsageError(f"{path} has no variable {name!r}{known}")
    found = {name: variables[name]} if name else found
    if not found:
        raise UsageError(
            f'{path} has no server object: write  server = Server("name")  at its top level'
        )
    if len(found) > 1:
        raise UsageError(
            f"{path} has several servers, say which: "
            f"{', '.join(f'{path}:{each}' for each in found)}"
        )
    ((name, value),) = found.items()
    if _is_server(value):
        return value
    if not has_marks(value if isinstance(value, type) else type(value)):
        raise UsageError(f"{name!r} in {path} is no server but {type(value).__name__}")
    try:
        if isinstance(value, type):
            tell(f"serving {value.__name__}(), a class of {value.__module__}")
            value = value()
        return Server.of(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name!r} in {path} cannot be served: {error}") from error


def _is_server(value: Any) -> bool:
    """Whether this is a server object, of this package or of a copy under another name."""
    return not isinstance(value, type) and all(
        callable(getattr(value, name, None)) for name in ("run", "start_http")
    )


def _servers(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Server objects by the first name that each has; without any, plain objects to serve, or else
    classes of them."""
    module = variables.get("__name__")
    for fits in (
        _is_server,
        lambda value: not isinstance(value, type) and has_marks(type(value)),
        lambda value: isinstance(value, type) and value.__module__ == module and has_marks(value),
    ):
        found = {
            id(value): name for name, value in reversed(list(variables.items())) if fits(value)
        }
        if found:
            return {name: variables[name] for name in reversed(list(found.values()))}
    return {}


# ------------------------------------------------------------ --reload


def _reload(path: str, name: str, options: Namespace, prog: str) -> int:
    """Serve over HTTP; when a file has changed, close the server and let this process begin anew,
    as it was begun."""
    python = this_python("--reload starts this command again, and needs an interpreter")
    host, port = options.http
    folder, environment, watched = os.getcwd(), dict(os.environ), os.path.abspath(path)
    if port == 0:  # the same after each change
        with socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        ) as probe:
            options.http = host, probe.getsockname()[1]
    sys.dont_write_bytecode = True  # it tells changes apart by whole seconds
    before, changed = look(watched), threading.Event()
    servers: list[Any] = []

    def watch() -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            now = look(watched)
            if watched in now and now != before:
                changed.set()
                for server in servers:
                    server.close()

    threading.Thread(target=watch, name="minimcp-cli-watch", daemon=True).start()
    code = 2
    try:
        servers.append(find_server(load(path), name, path))
        code = _serve_http(servers[0], options, prog)
    except UsageError as error:
        complain(prog, str(error))
        tell("it is started again when a file changes")
        while not changed.wait(LOOK_SECONDS):  # in Windows Ctrl-C ends no wait without a limit
            pass
    if changed.is_set():
        tell(f"{path} or a module beside it has changed")
        command = [
            python,
            "-m",
            __name__.partition(".cli.")[0],
            "run",
            options.file,
            "--reload",
        ]
        command += ["--http", "{}:{}".format(*options.http), *["--sse"] * options.sse]
        os.chdir(folder)
        # what the file has ordered for its end: the system's exec forgets it
        atexit._run_exitfuncs()
        print(end="", flush=True)
        if (
            os.name == "nt"
        ):  # pragma: no cover - exec would start a process there that the console does not wait for
            import subprocess

            return subprocess.call(command, env=environment)
        os.execve(python, command, environment)
    return code


def look(path: str) -> Mapping[str, tuple[int, int]]:
    """The time of change and size of a file, of the modules beside it and of those in packages
    beside it."""
    files = [path]
    for folder, inner, names in os.walk(os.path.dirname(path) or "."):
        inner[:] = [
            each for each in inner if os.path.isfile(os.path.join(folder, each, "__init__.py"))
        ]
        files += [os.path.join(folder, each) for each in names if each.endswith(".py")]
    seen = {}
    for file in files:
        with suppress(OSError):  # an editor is replacing it
            status = os.stat(file)
            seen[file] = (status.st_mtime_ns, status.st_size)
    return seen
