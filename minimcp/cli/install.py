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
import subprocess
import sys
import tempfile
from difflib import unified_diff
from typing import Any, Mapping, NamedTuple, Optional, Sequence
from urllib.parse import urlsplit

from .. import connect
from ..client.config import (
    ALLOWING,
    CONFIG_FILE,
    DENYING,
    URLS,
    read_json,
    read_servers,
    strict_json,
)
from ..errors import McpError
from ..stdio.child import StdioServer, this_python
from . import (
    TOKEN_VARIABLE,
    Parser,
    UsageError,
    add_network,
    as_header,
    clean,
    environment_token,
    is_url,
    network_words,
    one_line,
    print_error,
)
from .run import split_file
from .terminal import split_pair

PACKAGE = __name__.partition(".cli.")[0]
CLAUDE, CODE = "Claude/claude_desktop_config.json", "Code/User/mcp.json"


class HostFile(NamedTuple):
    """The config files of a host.

    Args:
        title: The host's name.
        user: The user's file. "{data}" is this system's folder for the settings of programs,
            "{config}" the one that command-line programs use, and "{codex}" the folder of Codex.
        project: The file in a project's folder; None if the host has none.
        table: The key of the object that holds the servers.
        url: The member with the URL of a server; empty if the host only starts commands.
        has_http_type: Whether an entry with a URL needs ``"type": "http"``.
    """

    title: str
    user: str
    project: Optional[str]
    table: str = "mcpServers"
    url: str = "url"
    has_http_type: bool = False

    @property
    def user_path(self) -> str:
        """The absolute path of the user's file."""
        config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        if sys.platform == "win32":
            config = os.environ.get("APPDATA", "~/AppData/Roaming")
        is_mac = sys.platform == "darwin"
        data = "~/Library/Application Support" if is_mac else config
        codex = os.environ.get("CODEX_HOME") or "~/.codex"
        path = self.user.format(data=data, config=config, codex=codex)
        return os.path.normpath(os.path.expanduser(path))


HOSTS = {
    "claude": HostFile("Claude Desktop", "{data}/" + CLAUDE, None, url=""),
    "claude-code": HostFile("Claude Code", "~/.claude.json", ".mcp.json", has_http_type=True),
    "codex": HostFile("Codex", "{codex}/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": HostFile("Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json"),
    "gemini": HostFile(
        "Gemini CLI", "~/.gemini/settings.json", ".gemini/settings.json", url="httpUrl"
    ),
    "goose": HostFile("Goose", "{config}/goose/config.yaml", None, "extensions", "uri"),
    "lmstudio": HostFile("LM Studio", "~/.lmstudio/mcp.json", None),
    "vscode": HostFile(
        "VS Code", "{data}/" + CODE, ".vscode/mcp.json", "servers", has_http_type=True
    ),
    "windsurf": HostFile("Windsurf", "~/.codeium/windsurf/mcp_config.json", None, url="serverUrl"),
    "zed": HostFile("Zed", "{config}/zed/settings.json", ".zed/settings.json", "context_servers"),
}

# Files that also hold other settings of a host, so that one without servers is not a mistake.
SETTINGS = (".claude.json", "settings.json", "config.toml")

# Time limit for the server to answer before it is written into a config file.
CHECK_SECONDS = 30.0

# Names that are accepted from a server.
PLAIN_NAME = re.compile(r"[^\W_][\w .@/-]{0,63}")

# Suffixes of the backups: the file before this command changed it for the first time, which is
# never overwritten, and the file before the newest of several changes.
BACKUP = ".before-minimcp"
LAST_BACKUP = ".before-minimcp.last"


def install_command(arguments: Sequence[str], prog: str) -> int:
    """Add a server to a host's config file, or remove it."""
    parser = Parser(
        prog,
        "Add a server to a host's config file, with absolute paths and this Python interpreter.",
    )
    parser.add_argument(
        "file",
        metavar="FILE[:NAME]|URL",
        help="the server's Python file, written as for minimcp run, or its URL",
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
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        type=as_header,
        metavar='"Name: value"',
        help="send this header with every request to a URL; may be repeated",
    )
    add_network(parser)
    parser.add_argument("--dry-run", action="store_true", help="show the change without writing it")
    parser.add_argument("--remove", action="store_true", help="remove the server from the file")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a different server with the same name. If the server's name differs from its "
        "file's name, --name is needed too",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="skip the check that the server starts and answers"
    )
    parser.set_defaults(prog=prog)
    options = parser.parse_args(arguments)
    host = HOSTS[options.client]
    path = _path_of(host, options)
    old = _text_of(path)
    if not options.remove:
        name, entry = _entry(host, options)
        names = [name]
    elif path.endswith(".yaml"):
        raise UsageError(f"remove the server from {path} by hand: this command cannot write YAML")
    else:
        entry = None
        given = options.file if is_url(options.file) else _absolute(options.file)
        names = [options.name] if options.name else _installed(path, old, host.table, given)
    if path.endswith(".yaml"):
        print(f"this command cannot write {path}. Paste this into it:\n")
        print(clean(yaml_text(name, entry or {})))
        return 0
    if options.client == "codex" and not options.project and _codex_can_write(entry):
        return _run_codex(path, old, names, entry, options)
    changed = changed_toml if path.endswith(".toml") else changed_text
    new = old
    for name in names:
        new = changed(path, new, host.table, name, entry, _missing_flags(name, options))
    if new == old:
        print(f"{path}: nothing to change")
    elif options.dry_run:
        lines = unified_diff(
            old.splitlines(True), new.splitlines(True), path, f"{path} with this change"
        )
        print(clean("".join(lines)).rstrip("\n"), flush=True)
        # Fail where the command would fail without --dry-run.
        if not options.project:
            _require_folder(host)
        _require_access(path)
    else:
        if entry is None:
            action = f"removed {', '.join(names)} from"
        else:
            action = f"added {names[0]} to"
            if changed is changed_text and names[0] in _servers_in(old, host.table):
                action = f"replaced {names[0]} in"
        backup = _write(path, new)
        copy = f" (backup: {backup})" if backup else ""
        print(one_line(f"{action} {path}{copy}: restart {host.title}"))
    return 0


def _path_of(host: HostFile, options: Any) -> str:
    if options.project:
        if host.project is None:
            raise UsageError(f"{host.title} has no file for projects: leave out --project")
        _refuse_links(host.project)
        return os.path.abspath(host.project)
    if not options.dry_run and not host.user_path.endswith(".yaml"):
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


def _require_access(path: str) -> None:
    """Check that this user may write a file, whose folder need not exist.

    Raises:
        UsageError: The user may not.
    """
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written: the folder {folder} is not writable")


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
    """Return the server's name and entry. Check that the server answers, unless ``--no-check`` is
    given."""
    python = this_python("run this command with the Python interpreter that the host should start")
    if is_url(options.file):
        return _remote_entry(host, options, python)
    if options.header:
        raise UsageError("--header applies to a URL only: for a file, write --env")
    if options.cacert or options.proxy:
        raise UsageError("--cacert and --proxy apply to a URL only")
    file = _absolute(options.file)
    env = dict(map(split_pair, options.env))
    candidates = [["-m", PACKAGE, "run", file]]
    if os.path.isfile(file):
        candidates.insert(0, [file])  # a file may serve when it is run, as in the README
    name = options.name or _default_name(file)
    args = candidates[0]
    if not options.no_check:
        args, reported_name = _first_that_answers(candidates, env)
        name = options.name or _name_of(reported_name, name)
    entry: dict[str, Any] = {"type": "stdio"} if host.table == "servers" else {}
    entry.update(command=python, args=args)
    return name, {**entry, "env": env} if env else entry


def _remote_entry(host: HostFile, options: Any, python: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the entry of a server with a URL."""
    if options.env:
        raise UsageError("--env applies to a file only: for a URL, write --header")
    url = options.file
    headers = dict(options.header)
    name = options.name or _default_name(url)
    if options.cacert is not None:
        options.cacert = os.path.abspath(options.cacert)
    network = network_words(options)
    entry: dict[str, Any] = {"url": url, "headers": headers}
    for option, value in zip(network[::2], network[1::2]):
        entry[option[2:]] = value
    has_token = environment_token(url, headers) is not None
    if has_token:
        entry["bearer_token_env_var"] = TOKEN_VARIABLE
    if not options.no_check:
        # A config, because a header may contain a variable that the host replaces.
        config = {"mcpServers": {name: entry}}
        try:
            with connect(name, config=config, connect_timeout=CHECK_SECONDS) as client:
                info = client.server_info
                name = options.name or _name_of(None if info is None else info.name, name)
        except (McpError, ValueError) as error:
            raise _not_answering(error) from None
    if network or not host.url:  # the host only starts commands
        if host.url:
            note = "has no setting for --cacert and --proxy, so its entry starts minimcp bridge"
            print_error(options.prog, f"{host.title} {note}")
        if has_token:
            note = f"{TOKEN_VARIABLE} is not written: start {host.title} with this variable"
            print_error(options.prog, note)
        words = [word for pair in headers.items() for word in ("--header", "{}: {}".format(*pair))]
        entry = {"command": python, "args": ["-m", PACKAGE, "bridge", url, *words, *network]}
        return name, {"type": "stdio", **entry} if host.table == "servers" else entry
    is_codex = host.table == "mcp_servers"
    entry = {"type": "http"} if host.has_http_type else {}
    entry[host.url] = url
    if headers:
        entry["http_headers" if is_codex else "headers"] = headers
    if has_token and is_codex:
        entry["bearer_token_env_var"] = TOKEN_VARIABLE
    elif has_token:
        note = f"{TOKEN_VARIABLE} is not written: give {host.title} its token with --header"
        print_error(options.prog, note)
    return name, entry


def _default_name(file: str) -> str:
    """Return the name of a server that reports none: from its file or its URL."""
    if is_url(file):
        return urlsplit(file).hostname or "server"
    return os.path.splitext(os.path.basename(file))[0]


def _name_of(reported: Optional[str], default: str) -> str:
    """Return the name that a server reports, if it is a plain name.

    Others might be an option of a command, or not be what they look like in a host.
    """
    is_plain = reported is not None and PLAIN_NAME.fullmatch(reported)
    return str(reported) if is_plain else default


def _not_answering(problem: Optional[Exception]) -> UsageError:
    return UsageError(
        "the server does not answer, so nothing was written (to write it anyway: --no-check): "
        f"{problem}"
    )


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
    raise _not_answering(problem)


def changed_text(
    path: str, text: str, table: str, name: str, entry: Optional[dict[str, Any]], missing: str
) -> str:
    """Return the text of a config with one entry added or replaced, or removed if ``entry`` is
    None.

    Args:
        path: The path of the config, for messages.
        text: Its content.
        table: The member with the servers.
        name: The name of the entry.
        entry: The new entry, or None.
        missing: The options that the user must give to replace a different entry, or an empty
            string if nothing is missing.

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
    if entry is not None and name in servers and missing:
        raise _taken(path, name, missing)
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
    return with_member(plain if plain.strip() else "{}\n", (table, name), entry)


def _servers_in(text: str, table: str) -> Mapping[str, Any]:
    """Return the servers in the text of a JSON config that was already checked."""
    plain = text.lstrip("\ufeff")
    return read_json(plain).get(table, {}) if plain.strip() else {}


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return a JSON text in which one member is set, or removed if the value is None.

    Everything else stays as it is written, with its indentation, line breaks and number formats.

    Args:
        text: Valid JSON, an object.
        path: The names of nested members. Missing objects are added.
        value: The value of the last one.
    """
    start = len(text) - len(text.lstrip())
    for depth, name in enumerate(path):
        members = _members(text, start)
        found = next((each for each in members if each.name == name), None)
        if found is None:
            if value is None:
                return text
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _with_new_member(text, start, members, name, value)
        start = found.value
    assert found is not None
    if value is not None:
        written = _json_text(value, text, _indent_at(text, found.start))
        if "\n" not in text.strip():
            written = json.dumps(value, ensure_ascii=False)
        return text[: found.value] + written + text[found.end :]
    index = members.index(found)
    if index + 1 < len(members):
        return text[: found.start] + text[members[index + 1].start :]
    begin = members[index - 1].end if index else found.start
    end = found.end
    if not index:  # the only member: leave "{}"
        begin = text.rindex("{", 0, begin) + 1
        end = text.index("}", end)
    return text[:begin] + text[end:]


class _Member(NamedTuple):
    """A member of an object in a JSON text: its name, and where it, its value and its end are."""

    name: str
    start: int
    value: int
    end: int


def _members(text: str, start: int) -> list[_Member]:
    """Return the members of the object that begins at `start`."""
    decoder = json.JSONDecoder()
    blank = re.compile(r"[ \t\r\n]*[,:]?[ \t\r\n]*")
    members: list[_Member] = []
    position = _after(blank, text, start + 1)
    while text[position] != "}":
        begin = position
        name, position = decoder.raw_decode(text, position)
        value = _after(blank, text, position)
        end = decoder.raw_decode(text, value)[1]
        members.append(_Member(name, begin, value, end))
        position = _after(blank, text, end)
    return members


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return position if found is None else found.end()


def _with_new_member(
    text: str, start: int, members: Sequence[_Member], name: str, value: Any
) -> str:
    """Return a JSON text with a member at the end of the object that begins at `start`."""
    key = json.dumps(name, ensure_ascii=False)
    line = "\r\n" if "\r\n" in text else "\n"
    if members:
        last = members[-1]
        between = text[members[-2].end if len(members) > 1 else start + 1 : last.start]
        if "\n" not in between:  # all in one line
            added = f", {key}: {json.dumps(value, ensure_ascii=False)}"
        else:
            indent = _indent_at(text, last.start)
            added = f",{line}{indent}{key}: {_json_text(value, text, indent)}"
        return text[: last.end] + added + text[last.end :]
    outer = _indent_at(text, start)
    indent = outer + _unit(text)
    added = f"{line}{indent}{key}: {_json_text(value, text, indent)}{line}{outer}"
    return text[: start + 1] + added + text[text.index("}", start) :]


def _indent_at(text: str, position: int) -> str:
    """Return the indentation of the line at a position."""
    begin = text.rfind("\n", 0, position) + 1
    return text[begin : _after(re.compile(r"[ \t]*"), text, begin)]


def _unit(text: str) -> str:
    """Return the indentation of the first indented line."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _json_text(value: Any, text: str, indent: str) -> str:
    """Return the JSON of a value for a place with this indentation."""
    written = json.dumps(value, indent=_unit(text), ensure_ascii=False)
    line = "\r\n" if "\r\n" in text else "\n"
    return written.replace("\n", line + indent)


# ------------------------------------------------------------ Codex and Goose


def toml_text(name: str, entry: Mapping[str, Any]) -> str:
    """Return a server's table for the file of Codex."""
    lines = [f"[mcp_servers.{_toml(name)}]"]
    lines += [f"{member} = {_toml(value)}" for member, value in entry.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a string, a list of strings or an object of strings as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(each)}' for key, each in value.items())} }}"
    # TOML has the escapes of JSON, and does not allow DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_servers(path: str, text: str) -> Mapping[str, Any]:
    """Return the servers in the file of Codex. Before Python 3.11, their entries are not read.

    Raises:
        UsageError: The text is not TOML, or Python 3.11 is needed to read it.
    """
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            servers = tomllib.loads(text).get("mcp_servers", {})
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path} is not valid TOML and was not changed: {error}") from None
        if isinstance(servers, dict):
            return servers
    names: dict[str, Any] = {}
    for line in re.findall(r"(?m)^.*mcp_servers.*$", text):
        header = re.match(r"""\s*\[\s*mcp_servers\s*\.\s*("[^"\\]*"|'[^']*'|[\w-]+)\s*[].]""", line)
        if header is None and not line.lstrip().startswith("#"):
            raise UsageError(
                f"{path} was not changed: it has the line {one_line(line)!r}, which needs Python "
                "3.11 or newer to be read"
            )
        if header is not None:
            names[header[1].strip("\"'")] = None
    return names


def changed_toml(
    path: str, text: str, table: str, name: str, entry: Optional[dict[str, Any]], missing: str
) -> str:
    """Return the text of the file of Codex with one table appended.

    The standard library cannot write TOML, so nothing else is changed.

    Raises:
        UsageError: The text is not TOML, has a different server with this name, or a server would
            have to be changed or removed.
    """
    servers = toml_servers(path, text)
    if entry is not None and servers.get(name) == entry:
        return text
    if entry is None or name in servers:
        action = "remove" if entry is None else "change"
        raise UsageError(
            f"{path} has a server {name!r}: {action} its table [{table}.{_toml(name)}] by hand, or "
            "run this command where the command codex is on PATH"
        )
    before = text.rstrip() + "\n\n" if text.strip() else ""
    return before + toml_text(name, entry)


def _codex_can_write(entry: Optional[Mapping[str, Any]]) -> bool:
    """Return whether Codex itself can write or remove an entry.

    Its command has no headers. On Windows, npm makes it a batch file, whose arguments the shell
    would interpret.
    """
    program = shutil.which("codex")
    if program is None or program.lower().endswith((".cmd", ".bat")):
        return False
    return "http_headers" not in (entry or {})


def _run_codex(
    path: str, text: str, names: Sequence[str], entry: Optional[dict[str, Any]], options: Any
) -> int:
    """Add a server with ``codex mcp add``, or remove servers with ``codex mcp remove``."""
    commands = [["codex", "mcp", "remove", name] for name in names]
    if entry is not None:
        name = names[0]
        servers = toml_servers(path, text)
        if servers.get(name) == entry:
            print(f"{path}: nothing to change")
            return 0
        missing = _missing_flags(name, options)
        if name in servers and missing:
            raise _taken(path, name, missing)
        words = ["--url", entry["url"]] if "url" in entry else []
        if "bearer_token_env_var" in entry:
            words += ["--bearer-token-env-var", entry["bearer_token_env_var"]]
        for variable in entry.get("env", {}).items():
            words += ["--env", "=".join(variable)]
        if "command" in entry:
            words += ["--", entry["command"], *entry["args"]]
        commands = [["codex", "mcp", "add", name, *words]]
    for command in commands:
        shown = one_line(" ".join(map(shlex.quote, _masked(command))))
        if options.dry_run:
            print(f"{shown}\nwould change {path}")
            continue
        program = shutil.which("codex") or "codex"
        done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
        if done.returncode:
            found = re.search(r"(?m)^Error: (.*)", done.stderr)
            problem = found[1] if found else done.stderr.strip()
            raise UsageError(f"{shown} failed: {problem}")
        print(f"{shown}\nchanged {path}: restart Codex")
    return 0


def yaml_text(name: str, entry: Mapping[str, Any]) -> str:
    """Return a server's extension for the file of Goose, with strings as in JSON."""
    members: dict[str, Any] = {"enabled": True, "name": name, "timeout": 300}
    if "uri" in entry:
        members.update(type="streamable_http", **entry)
    else:
        members.update(type="stdio", cmd=entry["command"], args=entry["args"])
        members["envs"] = entry.get("env", {})
    lines = [f"  {json.dumps(name, ensure_ascii=False)}:"]
    for member, value in members.items():
        lines.append(f"    {member}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(["extensions:", *lines])


def _missing_flags(name: str, options: Any) -> str:
    """Return the options with which a server may replace a different one of the same name.

    A server must not choose which of the user's other servers it replaces: the user must have
    given the name, or the name must be that of the file or host.

    Returns:
        An empty string if the user has given these options.
    """
    if name not in (options.name, _default_name(options.file)):
        return f"--force --name {shlex.quote(name)}"
    return "" if options.force else "--force"


def _taken(path: str, name: str, missing: str) -> UsageError:
    return UsageError(
        f"{path} has a different server {name!r}: replace it with {missing}, or choose a different "
        "name with --name"
    )


# ------------------------------------------------------------ writing


def _write(path: str, text: str) -> Optional[str]:
    """Replace a file's content atomically. Return the path of its backup; None if it is new."""
    path = os.path.realpath(path)
    backup: Optional[str] = None
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        backup = path + (LAST_BACKUP if os.path.lexists(path + BACKUP) else BACKUP)
        with open(path, "rb") as old:
            _replace(backup, old.read(), like=path)
    _replace(path, text.encode(), like=path if backup else None)
    return backup


def _replace(path: str, data: bytes, like: Optional[str]) -> None:
    """Write a file atomically. If the path is a link, replace the link itself.

    Args:
        path: The file.
        data: Its content.
        like: A file whose permissions and times it gets, or None.
    """
    descriptor, name = tempfile.mkstemp(dir=os.path.dirname(path))
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        if like == path:
            shutil.copymode(path, name)
        elif like is not None:
            shutil.copystat(like, name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _installed(path: str, text: str, table: str, file: str) -> list[str]:
    """Return the names of the entries that start this file."""
    servers: Mapping[str, Any] = {}
    try:
        if text.strip():
            servers = read_servers(path).table
    except ValueError as error:
        if "has neither" not in str(error):
            raise UsageError(f"{error}; or name the server with --name") from None
    names = [
        name
        for name, entry in servers.items()
        if isinstance(entry, Mapping)
        and (file in entry.get("args", ()) or file in map(entry.get, URLS))
    ]
    if not names:
        raise UsageError(
            f"{path} has no server that starts {file}: it has {', '.join(servers) or 'none'}"
        )
    return names


# ------------------------------------------------------------ list --all

MASK = "***"

# Members whose values are not secret.
SHOWN = frozenset({
    "command", "path", "cwd", "envFile", "bearer_token_env_var", "cacert", "type", "source", "name",
    "description", "version", "comment", *ALLOWING, *DENYING,
})  # fmt: skip

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
            if path.endswith(SETTINGS) and "has neither" in str(error):
                continue
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

    Of environments, headers and other objects, only the names remain. Users and queries of URLs,
    arguments that look like keys, and the values of unknown members are masked.
    """
    if not isinstance(entry, Mapping):
        return entry
    safe: dict[str, Any] = {}
    for name, value in entry.items():
        if name in URLS and isinstance(value, str):
            safe[name] = _masked_url(value)
        elif name == "args" and isinstance(value, list):
            safe[name] = _masked(value)
        elif name == "command" and isinstance(value, Mapping):  # of older versions of Zed
            safe[name] = _without_secrets(value)
        elif isinstance(value, Mapping):
            safe[name] = list(value)
        elif name in SHOWN or isinstance(value, (bool, int, float, type(None))):
            safe[name] = value
        else:
            safe[name] = MASK
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
