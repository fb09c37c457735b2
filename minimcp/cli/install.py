"""The command ``install``, which writes a server into the config file of a host; and what all these
files have.

Where each host keeps its file, and what the object of servers is called in it, is no part of the
specification.
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
    """Where a host keeps its servers.

    Args:
        title: What people call it.
        user: Its file for the user; "{data}" is where programs keep their settings on this system.
        project: Its file in the folder of a project; None where it has none.
        table: What the object of servers is called in it.
    """

    title: str
    user: str
    project: Optional[str]
    table: str = "mcpServers"

    @property
    def user_path(self) -> str:
        """The file for the user, as a whole path."""
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

# Seconds that a server may take to answer before it is written down.
CHECK_SECONDS = 30.0

# Behind the name of a file, the copy of how it was before this command came.
BACKUP = ".before-minimcp"


def install_command(arguments: Sequence[str], prog: str) -> int:
    """The command of this name."""
    parser = Parser(
        prog, "Write a server into the config file of a host, with whole paths and this Python."
    )
    parser.add_argument(
        "file", metavar="FILE[:NAME]", help="the Python file of the server, as `run` takes it"
    )
    parser.add_argument("--client", required=True, choices=HOSTS, help="the host")
    parser.add_argument(
        "--project", action="store_true", help="write the host's file of the project in this folder"
    )
    parser.add_argument(
        "--name", help="what the host calls the server (default: what it calls itself)"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="KEY=VALUE", help="set this for the server"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
    parser.add_argument("--remove", action="store_true", help="take the server out again")
    parser.add_argument("--force", action="store_true", help="replace another server of this name")
    parser.add_argument(
        "--no-check", action="store_true", help="do not start the server to see that it answers"
    )
    options = parser.parse_args(arguments)
    host = HOSTS[options.client]
    path = _path_of(host, options)
    old = _text_of(path)
    if options.remove:
        names = (
            _installed(path, old, host.table, _whole(options.file))
            if options.name is None
            else [options.name]
        )
        entry = None
    else:
        name, entry = _entry(host, options)
        names = [name]
    new = old
    for name in names:
        new = _changed(path, new, host.table, name, entry, options.force)
    if new == old:
        print(f"{path}: nothing to change")
    elif options.dry_run:
        print(clean("".join(unified_diff(
            old.splitlines(True), new.splitlines(True), path, "the same with this change",
        ))).rstrip("\n"))  # fmt: skip
    else:
        backup = _write(path, new)
        done = f"has {names[0]}" if entry else f"has no {', '.join(names)} any more"
        print(
            one_line(
                f"{path} {done}{f'; {backup} is how it was' if backup else ''}: start "
                f"{host.title} anew"
            )
        )
    return 0


def _path_of(host: HostFile, options: Any) -> str:
    if options.project:
        if host.project is None:
            raise UsageError(f"{host.title} has no file for a project: leave out --project")
        _refuse_links(host.project)
        return os.path.abspath(host.project)
    folder = os.path.dirname(host.user_path)
    if not os.path.isdir(folder) and not options.dry_run:
        instead = (
            f", or write its file for this folder: --project ({host.project})"
            if host.project
            else ""
        )
        raise UsageError(
            f"{host.title} seems not to be installed: there is no folder {folder}. Start it "
            f"once{instead}"
        )
    return host.user_path


def _refuse_links(path: str) -> None:
    """Check that no part of a path below the current folder is a link.

    A checkout may come from anybody. A link in it would have this command change a file elsewhere,
    such as the configuration for all projects.

    Raises:
        UsageError: A part is a link.
    """
    part = ""
    for name in path.split("/"):
        part = os.path.join(part, name)
        if os.path.islink(part):
            where = os.readlink(part)
            raise UsageError(
                f"{part} is a link to {where}: nothing is written through a link in a project. "
                "Remove the link, or leave out --project"
            )


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8") from None


def _whole(file: str) -> str:
    """FILE[:NAME] with a whole path."""
    path, name = split_file(file)
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path!r} in {os.getcwd()}")
    return os.path.abspath(path) + (f":{name}" if name else "")


# ------------------------------------------------------------ what is written


def _entry(host: HostFile, options: Any) -> tuple[str, dict[str, Any]]:
    """The name of the server and its entry, after the server has answered."""
    python = this_python("run this command with the Python interpreter that the host shall start")
    file = _whole(options.file)
    env = dict(map(split_pair, options.env))
    ways = [["-m", __name__.partition(".")[0], "run", file]]
    if os.path.isfile(file):
        ways.insert(0, [file])  # as the README has it: the file itself serves
    name = options.name or os.path.splitext(os.path.basename(file))[0]
    args = ways[0]
    if not options.no_check:
        args, called = _that_answers(ways, env)
        name = options.name or called or name
    entry: dict[str, Any] = {"type": "stdio"} if host.table == "servers" else {}
    entry.update(command=python, args=args)
    return name, {**entry, "env": env} if env else entry


def _that_answers(
    ways: Sequence[list[str]], env: Mapping[str, str]
) -> tuple[list[str], Optional[str]]:
    """The first arguments with which the server answers when it is started as hosts do, and what it
    calls itself."""
    problem: Optional[McpError] = None
    for args in ways:
        server = StdioServer([sys.executable, *args], env=env, cwd=os.path.abspath(os.sep))
        try:
            with connect(server, connect_timeout=CHECK_SECONDS, stderr=lambda line: None) as client:
                return args, None if client.server_info is None else client.server_info.name
        except McpError as error:
            problem = problem or error
    raise UsageError(
        f"the server does not answer, so nothing was written (--no-check writes it): {problem}"
    )


def _changed(
    path: str, text: str, table: str, name: str, entry: Optional[dict[str, Any]], force: bool
) -> str:
    """The text of a config with one entry put in, replaced or, by None, taken out.

    Raises:
        UsageError: It is no such file, has another entry of this name, or comments, which would be
            lost.
    """
    plain = text.lstrip("\ufeff")
    try:
        whole = read_json(plain) if plain.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON, and was not changed: {error}") from None
    servers = whole.setdefault(table, {}) if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise UsageError(f"{path} has no object of {table}, and was not changed")
    if servers.get(name) == entry:
        return text
    if entry is not None and name in servers and not force:
        raise UsageError(
            f"{path} has another server {name!r}: --force replaces it, --name gives this one "
            "another name"
        )
    if strict_json(plain) != plain:
        how = "take out" if entry is None else "put in"
        raise UsageError(
            f"{path} has comments, or a comma after the last item, which would be lost: {how} by "
            "hand, "
            f"in {table}: {json.dumps(name)}: "
            f"{json.dumps(entry or servers[name], ensure_ascii=False)}"
        )
    if entry is None:
        del servers[name]
    else:
        servers[name] = entry
    step = re.search(r"\n([ \t]+)\S", plain)
    written = json.dumps(whole, indent=step[1] if step else 2, ensure_ascii=False) + "\n"
    return written.replace("\n", "\r\n") if "\r\n" in text else written


def _write(path: str, text: str) -> Optional[str]:
    """Put a text in the place of a file, whole or not at all; where the copy of the first one is,
    if this made it."""
    path = os.path.realpath(path)
    backup = path + BACKUP if os.path.exists(path) and not os.path.lexists(path + BACKUP) else None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    made, name = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(made, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if os.path.exists(path):
            shutil.copymode(path, name)
        if backup is not None:
            with open(path, "rb") as source, open(backup, "xb") as copy:  # "x" follows no link
                shutil.copyfileobj(source, copy)
            shutil.copystat(path, backup)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return backup


def _installed(path: str, text: str, table: str, file: str) -> list[str]:
    """The names of the entries that start this file."""
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

# Names of options, and beginnings of values, that hold a secret.
SECRET_OPTION = re.compile(r"(?i)key|token|secret|passw|auth|credential|header|cookie|\bpat\b")
SECRET_VALUE = re.compile(r"sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|eyJ|AKIA|AIza")


def list_all() -> tuple[Any, list[str]]:
    """Every server of every host's file on this machine, none of which is started: as JSON, and as
    texts."""
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
                continue  # it keeps much else there
            texts.append(one_line(f"{title}: {error}"))
            continue
        texts.append(one_line(f"{title}: {os.path.abspath(path)}"))
        for name, entry in servers.table.items():
            told = _told(entry)
            try:
                servers.target(name)
            except ValueError as error:
                asks = "${input:" in str(error)
                reason = str(error).partition(f"{name!r}: ")[2]
                told += f"  ({'the host asks for an input' if asks else reason})"
            texts.append("    " + one_line(f"{name}: {told}"))
            found.append(
                {"host": title, "file": os.path.abspath(path), "name": name, "entry": _shown(entry)}
            )
    return {"servers": found}, texts or ["no host's file was found"]


def _told(entry: Any) -> str:
    """How a server is started or reached, as it is written; of what is secret only the names."""
    if not isinstance(entry, Mapping):
        return "no object"
    shown = _shown(entry)
    for name in URLS:
        if name in shown:
            return str(shown[name])
    args = shown.get("args")
    words = [shown.get("command", "?"), *(args if isinstance(args, list) else ())]
    return " ".join(shlex.quote(str(word)) for word in words)


def _shown(entry: Any) -> Any:
    """Return an entry without what may be secret: of environments and headers only the names are
    left, of URLs no user and no query, and of arguments no value that looks like a key."""
    if not isinstance(entry, Mapping):
        return entry
    shown = dict(entry)
    for name, value in entry.items():
        if name in ("env", "headers", "http_headers") and isinstance(value, Mapping):
            shown[name] = list(value)
        elif name in URLS and isinstance(value, str):
            shown[name] = _masked_url(value)
        elif name == "args" and isinstance(value, list):
            shown[name] = _masked(value)
    return shown


def _masked_url(url: str) -> str:
    """Return a URL with its user, password and query replaced by ``***``."""
    url = re.sub(r"(?<=://)[^/?#]*@", f"{MASK}@", url)
    return re.sub(r"\?[^#]*", f"?{MASK}", url)


def _masked(words: Sequence[Any]) -> list[Any]:
    """Return arguments with every value that may be secret replaced by ``***``."""
    shown: list[Any] = []
    is_value = False  # of the option before it, which names a secret
    for word in words:
        if not isinstance(word, str):
            shown.append(word)
            continue
        option, equals, value = word.partition("=")
        names_secret = SECRET_OPTION.search(option) is not None
        if "://" in word:
            shown.append(_masked_url(word))
        elif is_value and not word.startswith("-"):
            shown.append(MASK)
        elif equals and (names_secret or SECRET_VALUE.match(value)):
            shown.append(f"{option}={MASK}")
        elif SECRET_VALUE.match(word) or re.search(r"(?i)\b(bearer|basic) \S", word):
            shown.append(MASK)
        else:
            shown.append(word)
        is_value = names_secret and word.startswith("-") and not equals
    return shown
