"""``minimcp run``: find the server object in a Python file and serve it."""

from __future__ import annotations

import os
import sys
import threading
from argparse import SUPPRESS, ArgumentTypeError, Namespace
from typing import Any, Sequence
from urllib.parse import urljoin

from ..server.decorators import has_marks
from .ending import UsageError, complain
from .parsing import Parser
from .screen import say


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    options = _parser(prog).parse_args(arguments)
    if options.http is None:
        for name in ("sse", "reload"):
            if getattr(options, name):
                raise UsageError(f"--{name} goes with --http, as in --http 8000 --{name}")
    if options.reload and not options.until_stdin_ends:  # its child serves
        from .reloading import run_again_and_again

        return run_again_and_again(split_name(options.file)[0], arguments, options.http)
    path, name = split_name(options.file)
    server = pick(load(path), name, path)
    if options.http is None:
        server.run()
        return 0
    return _serve(server, options, prog)


def _parser(prog: str) -> Parser:
    parser = Parser(prog, "Serve the server object, or plain class, in a Python file: to the program that started it, "
                          "over stdin and stdout, or over HTTP, until Ctrl-C.", None)
    parser.add_argument(
        "file", metavar="FILE[:NAME]", help="the file, and the variable that holds the server if there are several"
    )
    parser.add_argument("--http", type=_address, metavar="[HOST:]PORT",
                        help="serve over Streamable HTTP there, and say at which URL; port 0 takes a free one. A host "
                             "that other machines reach needs the server's allowed_hosts (default: 127.0.0.1)")
    parser.add_argument("--sse", action="store_true",
                        help="serve clients that know only HTTP+SSE too, at /sse of the same port")
    parser.add_argument("--reload", action="store_true", help="start anew when the file or a module beside it changes")
    parser.add_argument("--until-stdin-ends", action="store_true", help=SUPPRESS)
    return parser


def _address(text: str) -> tuple[str, int]:
    """``[HOST:]PORT``; an address of IPv6 stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16 and bool(host) == bool(colon)):
        raise ArgumentTypeError(f"{text!r} is no [HOST:]PORT, as in 8000 or 127.0.0.1:8000")
    return host.strip("[]") or "127.0.0.1", int(port)


def _serve(server: Any, options: Namespace, prog: str) -> int:
    """Serve over HTTP until a signal comes."""
    host, port = options.http

    def started(running: Any) -> None:
        say(f"{server.name} serves at {running.url}", file=sys.stderr)
        if options.sse:
            from ..http.sse_server import STREAM_PATH

            say(f"and at {urljoin(running.url, STREAM_PATH)} for clients that know only HTTP+SSE", file=sys.stderr)
        if options.until_stdin_ends:
            threading.Thread(target=_close_with_stdin, args=(server,), name="minimcp-cli-stdin", daemon=True).start()

    try:
        server._run_http(host, port, "/mcp", newer=True, older=options.sse, started=started)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        complain(prog, f"cannot listen at {host}, port {port}: {error.strerror or error}")
        return 3
    return 0


def _close_with_stdin(server: Any) -> None:
    """Close the server when the process that started this one closes the pipe, or is gone."""
    while os.read(0, 4096):
        pass
    server.close()


def split_name(given: str) -> tuple[str, str]:
    """``FILE[:NAME]`` as file and name; the name is empty when there is none."""
    path, colon, name = given.rpartition(":")
    if colon and name.isidentifier() and not os.path.isfile(given):
        return path, name
    return given, ""


def load(path: str) -> dict[str, Any]:
    """Import a file as a module and return its variables. What it prints meanwhile goes to stderr.

    Raises:
        UsageError: There is no such file, or it cannot be imported.
    """
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path!r}")
    from contextlib import redirect_stdout
    from importlib.util import module_from_spec, spec_from_file_location

    name = _module_name(path)
    spec = spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the protocol
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be imported: {_reason(error, path)}") from error
    return vars(module)


def _module_name(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return stem if stem not in sys.modules else f"{stem}_served"


def _reason(error: BaseException, path: str) -> str:
    """The exception on one line, with the line of the file that it came from."""
    line = getattr(error, "lineno", None)
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == os.path.abspath(path):
            line = step.tb_lineno
        step = step.tb_next
    return f"line {line}: {type(error).__name__}: {error}" if line else f"{type(error).__name__}: {error}"


def is_server(value: Any) -> bool:
    """Whether this is a server object, of this package or of a copy under another name."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("open_pipe", "run"))


def as_server(value: Any) -> Any:
    """The server that a variable stands for: itself, or one of a plain object, or of a class made without arguments.

    Raises:
        UsageError: It is none of these.
    """
    if is_server(value):
        return value
    kind = value if isinstance(value, type) else type(value)
    if not has_marks(kind):
        raise UsageError(f"is no server but {type(value).__name__}")
    from ..server.server import Server

    try:
        return Server.of(_made(kind) if value is kind else value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"cannot be served: {error}") from error


def _made(kind: type) -> Any:
    """An object of a class; stderr is told that it was made.

    Raises:
        UsageError: It takes arguments.
    """
    from inspect import signature

    try:
        signature(kind).bind()
    except (TypeError, ValueError) as error:
        name = kind.__name__
        way = f"give it a default, or put an object into a variable: {name.lower()} = {name}(...)"
        raise UsageError(f"cannot be served: {name}() is {error}: {way}") from error
    if sys.stderr is not None:
        say(f"serving {kind.__name__}(), a class of {kind.__module__}", file=sys.stderr)
    return kind()


def pick(variables: dict[str, Any], name: str, path: str) -> Any:
    """The server to serve.

    Args:
        variables: Of the file.
        name: Of the variable; empty takes the only server there is.
        path: Of the file, for the message.

    Raises:
        UsageError: There is none, there are several, or the named one is no server.
    """
    if name:
        if name not in variables:
            raise UsageError(f"{path} has no variable {name!r}{_there_are(variables)}")
        try:
            return as_server(variables[name])
        except UsageError as error:
            raise UsageError(f"{name!r} in {path} {error}") from error
    found = _servers(variables)
    if len(found) == 1:
        return as_server(next(iter(found.values())))
    if not found:
        raise UsageError(f"{path} has no server object: write  server = Server(\"name\")  at its top level")
    raise UsageError(f"{path} has several servers, say which: {', '.join(f'{path}:{each}' for each in found)}")


def _servers(variables: dict[str, Any]) -> dict[str, Any]:
    """Server objects by the first name that each has; without any, plain objects to serve, or else classes of them."""
    module = variables.get("__name__")
    for fits in (
        is_server,
        lambda value: not isinstance(value, type) and has_marks(type(value)),
        lambda value: isinstance(value, type) and value.__module__ == module and has_marks(value),
    ):
        found: dict[str, Any] = {}
        for name, value in variables.items():
            if fits(value) and not any(value is other for other in found.values()):
                found[name] = value
        if found:
            return found
    return {}


def _there_are(variables: dict[str, Any]) -> str:
    names = ", ".join(_servers(variables))
    return f": its servers are {names}" if names else ""
