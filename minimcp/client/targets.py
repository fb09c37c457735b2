"""What the argument of `connect` names: an object, a process to start, or a server with a URL."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import ConnectionFailed
from ..stdio.child import StdioServer

if TYPE_CHECKING:
    from .config import Config

SCRIPTS = {".py": sys.executable, ".js": "node", ".mjs": "node"}
"""What runs a file, by its ending; other files run themselves."""


WEB_OPTIONS = "headers, auth, verify, cert and proxies"
"""Those of `connect` that go with a URL, for messages."""


class Target(NamedTuple):
    """What `connect` took its argument for."""

    what: str
    """In words, for messages."""
    server: Optional[StdioServer]
    """What to start; None when there is nothing to start."""
    object: Any = None
    """The server, when it is an object in this process; or None."""
    web: Any = None
    """An `HttpServer`, when it has a URL; or None."""


def read_target(
    target: Any,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Union[str, os.PathLike[str]]] = None,
    config: Optional[Config] = None,
    web: Optional[Mapping[str, Any]] = None,
) -> Target:
    """Decide what a target is, in the documented order.

    Args:
        target: As `connect` takes it, and so the next three.
        env: None adds nothing.
        cwd: None takes ours.
        config: None when the target is no name in a config.
        web: What was given of the options that go with a URL; None for nothing.

    Raises:
        TypeError: It is nothing that names a server, or an option does not apply to it.
        ValueError: It is an empty command, no URL of a server, or not in the config.
        ConnectionFailed: It is a file that is not there.
        OSError: The config cannot be read.
    """
    local = env is not None or cwd is not None
    if config is not None:
        _refuse(local, "env and cwd are part of the config")
        _refuse(web, f"{WEB_OPTIONS} are part of the config")
        return _configured(target, config)
    if isinstance(target, type):
        from ..server.decorators import has_marks

        way = f"connect(Server.of({target.__name__}()))" if has_marks(target) else "give an instance of it"
        raise TypeError(f"{target.__name__} is a class: {way}")
    if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        from ..http.posting import HttpServer

        _refuse(local, "env and cwd do not apply to a server with a URL")
        return Target("a URL", None, web=HttpServer(target, **(web or {})))
    if callable(getattr(target, "fetcher", None)):
        _refuse(local, "env and cwd do not apply to a server with a URL")
        _refuse(web, f"{WEB_OPTIONS} are part of the HttpServer")
        return Target("an HttpServer", None, web=target)
    _refuse(web, f"{WEB_OPTIONS} apply to a server with a URL only")
    if callable(getattr(target, "open_pipe", None)):
        _refuse(local, "env and cwd do not apply to a server in this process")
        return Target(f"a server in this process ({target!r})", None, target)
    if isinstance(target, StdioServer):
        _refuse(local, "env and cwd are part of the StdioServer")
        return Target("a StdioServer", target)
    what, command = _command(target, "" if cwd is None else os.fspath(cwd))
    if not command:
        raise ValueError("an empty command starts nothing")
    return Target(what, StdioServer(command, env=env, cwd=cwd))


def _refuse(given: object, why: str) -> None:
    """Refuse options that cannot be, if they were given."""
    if given:
        raise TypeError(why)


def _configured(name: Any, config: Config) -> Target:
    if not isinstance(name, str):
        raise TypeError(f"with config= a server is given by its name, a str, not by {type(name).__name__}")
    from .config import read_servers

    servers = read_servers(config)
    what = f"the server {name!r} of {servers.where}" if servers.where else f"the server {name!r}"
    return read_target(servers.target(name))._replace(what=what)


def _command(target: Any, cwd: str) -> tuple[str, Sequence[str]]:
    if isinstance(target, (list, tuple)):
        return "an argument list", [os.fspath(part) for part in target]
    if isinstance(target, os.PathLike):
        return "a file", _run_file(target, cwd)
    if not isinstance(target, str):
        from ..server.decorators import has_marks

        name = type(target).__name__
        way = ": connect(Server.of(...)) serves an object with marked methods" if has_marks(type(target)) else ""
        raise TypeError(f"a server is named by a command, a file, a URL or a Server object, not by {name}{way}")
    if os.path.isfile(target) or (len(target.split()) == 1 and target.endswith(tuple(SCRIPTS))):
        return "a file", _run_file(target, cwd)
    import shlex

    try:
        words = shlex.split(target, posix=os.name != "nt")
    except ValueError as error:
        raise ValueError(f"{target!r} was taken for a command line: {error}") from None
    if words and words[0].endswith(tuple(SCRIPTS)) and os.path.isfile(words[0]) and not _is_program(words[0]):
        runner = SCRIPTS[os.path.splitext(words[0])[1]]
        first = "sys.executable" if runner is sys.executable else repr(runner)
        way = f"write connect([{first}, {', '.join(map(repr, words))}])"
        raise ConnectionFailed(f"{target!r} was taken for a command line, and {words[0]} is no program: {way}")
    if len(words) == 1 and re.fullmatch(r"[\w.-]+:\d+(/.*)?", target) and not _is_program(target):
        raise ConnectionFailed(f"{target!r} was taken for a command line: write http:// or https:// before a URL")
    return "a command line", words


def _is_program(word: str) -> bool:
    """Whether the first word of a command line names something that can be run."""
    places = [""] if os.path.dirname(word) else os.get_exec_path()
    return any(os.access(os.path.join(place, word), os.X_OK) for place in places)


def _run_file(file: Union[str, os.PathLike[str]], cwd: str) -> list[str]:
    """The command for a file. What is there is named from the root, because the server may run in another directory."""
    from pathlib import Path

    path = Path(file)
    runner = SCRIPTS.get(path.suffix)
    if runner is None:
        return [str(path.absolute())]
    if path.is_file():
        return [runner, str(path.absolute())]
    if not (Path(cwd) / path).is_file():
        raise ConnectionFailed(f"there is no file {str(path)!r}")
    return [runner, str(path)]
