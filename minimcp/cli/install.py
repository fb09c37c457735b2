"""``minimcp install``, which writes a server into a host's config file, and ``list --all``, which
lists the servers of all hosts.

The specification does not define where a host keeps its file or what the servers' object is called.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from difflib import unified_diff
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from .. import connect
from ..client.config import CONFIG_FILE, URLS, read_json, read_servers, strict_json
from ..errors import McpError
from ..stdio.child import StdioServer, this_python
from . import Parser, UsageError, clean, one_line
from .run import split_file
from .terminal import split_pair

CLAUDE, CODE = "Claude/claude_desktop_config.json", "Code/User/mcp.json"


class HostFile(NamedTuple):
    """The config files of a host.

    Args:
        title: The host's name.
        user: The user's file; "{data}" is this system's folder for the settings of programs.
        project: The file in a project's folder; None if the host has none.
        table: The key of the object that holds the servers.
    """

    title: str
    user: str
    project: Optional[str]
    table: str = "mcpServers"

    @property
    def user_path(self) -> str:
        """The absolute path of the user's file."""
        data = {
            "darwin": "~/Library/Application Support",
            "win32": os.environ.get("APPDATA", "~/AppData/Roaming"),
        }
        settings = data.get(sys.platform) or os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        return os.path.normpath(os.path.expanduser(self.user.format(data=settings)))


HOSTS = {
    "claude": HostFile("Claude Desktop", "{data}/" + CLAUDE, None),
    "claude-code": HostFile("Claude Code", "~/.claude.json", ".mcp.json"),
    "cursor": HostFile("Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": HostFile("VS Code", "{data}/" + CODE, ".vscode/mcp.json", "servers"),
}

# Time limit for the server to answer before it is written into a config file.
CHECK_SECONDS = 30.0

# Suffix of the backup, which has the file's content before this command changed it.
BACKUP = ".before-minimcp"


def install_command(arguments: Sequence[str], prog: str) -> int:
    """Add a server to a host's config file, or remove it."""
    parser = Parser(
        prog,
        "Add a server to a host's config file, with absolute paths and this Python interpreter.",
    )
    parser.add_argument(
        "file", metavar="FILE[:NAME]", help="the server's Python file, written as for minimcp run"
    )
    parser.add_argument("--client", required=True, choices=HOSTS, help="the host")
    parser.add_argument(
        "--project",
        action="store_true",
        help="write the host's file for the project in this folder",
    )
    parser.add_argument(
        "--name", help="the server's name in the host (default: the name that the server reports)"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set this environment variable for the server; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change without writing it")
    parser.add_argument("--remove", action="store_true", help="remove the server from the file")
    parser.add_argument(
        "--force", action="store_true", help="replace a different server with the same name"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="skip the check that the server starts and answers"
    )
    options = parser.parse_args(arguments)
    host = HOSTS[options.client]
    path = _path_of(host, options)
    old = _text_of(path)
    if options.remove:
        if options.name is None:
            names = _installed(path, old, host.table, _absolute(options.file))
        else:
            names = [options.name]
        entry = None
    else:
        name, entry = _entry(host, options)
        names = [name]
    new = old
    for name in names:
        new = changed_text(path, new, host.table, name, entry, options.force)
    if new == old:
        print(f"{path}: nothing to change")
    elif options.dry_run:
        lines = unified_diff(
            old.splitlines(True), new.splitlines(True), path, f"{path} with this change"
        )
        print(clean("".join(lines)).rstrip("\n"), flush=True)
        if not options.project:
            _require_folder(host)  # without --dry-run, nothing would be written
    else:
        backup = _write(path, new)
        action = f"added {names[0]} to" if entry else f"removed {', '.join(names)} from"
        copy = f" (backup: {backup})" if backup else ""
        print(one_line(f"{action} {path}{copy}: restart {host.title}"))
    return 0


def _path_of(host: HostFile, options: Any) -> str:
    if options.project:
        if host.project is None:
            raise UsageError(f"{host.title} has no file for projects: leave out --project")
        _refuse_links(host.project)
        return os.path.abspath(host.project)
    if not options.dry_run:
        _require_folder(host)
    return host.user_path


def _require_folder(host: HostFile) -> None:
    """Check that the folder of the user's file exists.

    Raises:
        UsageError: It does not.
    """
    folder = os.path.dirname(host.user_path)
    if not os.path.isdir(folder):
        hint = ""
        if host.project:
            hint = f", or write its file for this folder with --project ({host.project})"
        raise UsageError(
            f"{host.title} does not seem to be installed: there is no folder {folder}. Start it "
            f"once{hint}"
        )


def _refuse_links(path: str) -> None:
    """Check that no part of a path below the current folder is a link.

    The project may come from an untrusted author. Through a link in it, this command would change
    a file elsewhere, such as the configuration for all projects.

    Raises:
        UsageError: A part is a link.
    """
    part = ""
    for name in path.split("/"):
        part = os.path.join(part, name)
        if os.path.islink(part):
            raise UsageError(
                f"{part} is a link to {os.readlink(part)}, and links in a project are not "
                "followed. Remove the link, or leave out --project"
            )


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None


def _absolute(file: str) -> str:
    """Return FILE[:NAME] with an absolute path."""
    path, name = split_file(file)
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path!r} in {os.getcwd()}")
    return os.path.abspath(path) + (f":{name}" if name else "")


# ------------------------------------------------------------ changing a config


def _entry(host: HostFile, options: Any) -> tuple[str, dict[str, Any]]:
    """Return the server's name and entry. Unless told otherwise, check that the server answers."""
    python = this_python("run this command with the Python interpreter that the host should start")
    file = _absolute(options.file)
    env = dict(map(split_pair, options.env))
    candidates = [["-m", __name__.partition(".")[0], "run", file]]
    if os.path.isfile(file):
        candidates.insert(0, [file])  # a file may serve when it is run, as in the README
    name = options.name or os.path.splitext(os.path.basename(file))[0]
    args = candidates[0]
    if not options.no_check:
        args, reported_name = _first_that_answers(candidates, env)
        name = options.name or reported_name or name
    entry: dict[str, Any] = {"type": "stdio"} if host.table == "servers" else {}
    entry.update(command=python, args=args)
    return name, {**entry, "env": env} if env else entry


def _first_that_answers(
    candidates: Sequence[list[str]], env: Mapping[str, str]
) -> tuple[list[str], Optional[str]]:
    """Return the first arguments with which the server answers, and the name that it reports.

    The server is started as a host would start it.
    """
    problem: Optional[McpError] = None
    for args in candidates:
        server = StdioServer([sys.executable, *args], env=env, cwd=os.path.abspath(os.sep))
        try:
            with connect(server, connect_timeout=CHECK_SECONDS, stderr=lambda line: None) as client:
                return args, None if client.server_info is None else client.server_info.name
        except McpError as error:
            problem = problem or error
    raise UsageError(
        "the server does not answer, so nothing was written (to write it anyway: --no-check): "
        f"{problem}"
    )


def changed_text(
    path: str, text: str, table: str, name: str, entry: Optional[dict[str, Any]], force: bool
) -> str:
    """Return the text of a config with one entry added or replaced; None removes the entry.

    Raises:
        UsageError: The text is not a config, has a different entry with this name, or has comments,
            which would be lost.
    """
    plain = text.lstrip("\ufeff")
    try:
        whole = read_json(plain) if plain.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid JSON and was not changed: {error}") from None
    servers = whole.setdefault(table, {}) if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(f"{path} was not changed: {table} is not an object")
    if servers.get(name) == entry:
        return text
    if entry is not None and name in servers and not force:
        raise UsageError(
            f"{path} has a different server {name!r}: replace it with --force, or choose another "
            "name with --name"
        )
    if strict_json(plain) != plain:
        action = "remove" if entry is None else "add"
        value = json.dumps(entry or servers[name], ensure_ascii=False)
        raise UsageError(
            f"{path} has comments or trailing commas, which would be lost: {action} by hand, "
            f"in {table}: {json.dumps(name)}: {value}"
        )
    if entry is None:
        del servers[name]
    else:
        servers[name] = entry
    indentation = re.search(r"\n([ \t]+)\S", plain)
    indent = indentation[1] if indentation else 2
    written = json.dumps(whole, indent=indent, ensure_ascii=False) + "\n"
    return written.replace("\n", "\r\n") if "\r\n" in text else written


def _write(path: str, text: str) -> Optional[str]:
    """Replace a file's content atomically.

    The first time, keep a backup of the file. Return the path of the backup if this call made it.
    """
    path = os.path.realpath(path)
    backup: Optional[str] = None
    if os.path.exists(path) and not os.path.lexists(path + BACKUP):
        backup = path + BACKUP
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if os.path.exists(path):
            shutil.copymode(path, name)
        if backup is not None:
            with (
                open(path, "rb") as source,
                open(backup, "xb") as copy,
            ):  # "x" does not follow links
                shutil.copyfileobj(source, copy)
            shutil.copystat(path, backup)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return backup


def _installed(path: str, text: str, table: str, file: str) -> list[str]:
    """Return the names of the entries that start this file."""
    servers = read_servers(path).table if text.strip() else {}
    names = [
        name
        for name, entry in servers.items()
        if isinstance(entry, Mapping) and file in entry.get("args", ())
    ]
    if not names:
        raise UsageError(
            f"{path} has no server that starts {file}: it has {', '.join(servers) or 'none'}"
        )
    return names


# ------------------------------------------------------------ list --all

MASK = "***"

# Names of options whose values are secret, and beginnings of values that are.
SECRET_OPTION = re.compile(r"(?i)key|token|secret|passw|auth|credential|header|cookie|\bpat\b")
SECRET_VALUE = re.compile(r"sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|eyJ|AKIA|AIza")


def list_all() -> tuple[Any, list[str]]:
    """Return the servers in the config files of all hosts, as a value for JSON and as lines.

    No server is started.
    """
    files = [
        (host.title, path)
        for host in HOSTS.values()
        for path in (host.user_path, host.project)
        if path
    ]
    found, texts = [], []
    for title, path in [*files, ("minimcp", CONFIG_FILE)]:
        if not os.path.isfile(path):
            continue
        try:
            servers = read_servers(path)
        except (OSError, ValueError) as error:
            if path.endswith(".claude.json") and "has neither" in str(error):
                continue  # Claude Code's file holds other settings too
            texts.append(one_line(f"{title}: {error}"))
            continue
        texts.append(one_line(f"{title}: {os.path.abspath(path)}"))
        for name, entry in servers.table.items():
            line = _command_or_url(entry)
            try:
                servers.target(name)
            except ValueError as error:
                reason = str(error).partition(f"{name!r}: ")[2]
                if "${input:" in str(error):
                    reason = "the host asks for an input"
                line += f"  ({reason})"
            texts.append("    " + one_line(f"{name}: {line}"))
            found.append(
                {
                    "host": title,
                    "file": os.path.abspath(path),
                    "name": name,
                    "entry": _without_secrets(entry),
                }
            )
    return {"servers": found}, texts or ["no config file of a host was found"]


def _command_or_url(entry: Any) -> str:
    """Return the command or URL of an entry as one line, without secrets."""
    if not isinstance(entry, Mapping):
        return "not an object"
    safe = _without_secrets(entry)
    for name in URLS:
        if name in safe:
            return str(safe[name])
    args = safe.get("args")
    words = [safe.get("command", "?"), *(args if isinstance(args, list) else ())]
    return " ".join(shlex.quote(str(word)) for word in words)


def _without_secrets(entry: Any) -> Any:
    """Return an entry without the values that may be secret.

    Of environments and headers, only the names remain. Users and queries of URLs, and arguments
    that look like keys, are masked.
    """
    if not isinstance(entry, Mapping):
        return entry
    safe = dict(entry)
    for name, value in entry.items():
        if name in ("env", "headers", "http_headers") and isinstance(value, Mapping):
            safe[name] = list(value)
        elif name in URLS and isinstance(value, str):
            safe[name] = _masked_url(value)
        elif name == "args" and isinstance(value, list):
            safe[name] = _masked(value)
    return safe


def _masked_url(url: str) -> str:
    """Return a URL with its user, password and query replaced by ``***``."""
    url = re.sub(r"(?<=://)[^/?#]*@", f"{MASK}@", url)
    return re.sub(r"\?[^#]*", f"?{MASK}", url)


def _masked(words: Sequence[Any]) -> list[Any]:
    """Return arguments with every value that may be secret replaced by ``***``."""
    masked: list[Any] = []
    is_secret_value = False  # True after an option that takes a secret
    for word in words:
        if not isinstance(word, str):
            masked.append(word)
            continue
        option, equals, value = word.partition("=")
        names_secret = SECRET_OPTION.search(option) is not None
        if "://" in word:
            masked.append(_masked_url(word))
        elif is_secret_value and not word.startswith("-"):
            masked.append(MASK)
        elif equals and (names_secret or SECRET_VALUE.match(value)):
            masked.append(f"{option}={MASK}")
        elif SECRET_VALUE.match(word) or re.search(r"(?i)\b(bearer|basic) \S", word):
            masked.append(MASK)
        else:
            masked.append(word)
        is_secret_value = names_secret and word.startswith("-") and not equals
    return masked
