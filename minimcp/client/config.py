"""Config files of hosts: which servers there are, and how each is started.

They are not part of the specification. Most hosts write ``{"mcpServers": {name: entry}}``, VS Code
``{"servers": ...}``, Zed ``{"context_servers": ...}``, Codex the tables ``[mcp_servers.NAME]`` of a
TOML file. `read_servers` says what an entry may hold.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..log import logger
from ..schema.mismatch import described, listed, nearest
from ..stdio.child import StdioServer
from .session import require_type

log = logger("minimcp.client")

CONFIG_FILE = "mcp.json"
"""Where the command line looks up names when no ``--config`` is given, in the current folder."""

TABLES = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""What the object of servers is called: by most hosts, by VS Code, by Zed, by Codex."""

REMOTE = {
    "stdio": False,
    "http": True,
    "streamable-http": True,
    "streamableHttp": True,
    "sse": True,
}
"""The words for ``type``, and whether such a server is reached by its URL."""

URLS = ("url", "httpUrl", "serverUrl")
"""The member with the URL: of most hosts, of Gemini CLI, of Windsurf."""

ALLOWING = ("allowedTools", "includeTools", "enabled_tools")
"""Members that name the only tools that are offered. Gemini CLI has the second, Codex the third."""

DENYING = ("disabledTools", "excludeTools", "disabled_tools")
"""Members that name tools that are not offered."""

SECONDS = {
    "timeout": 0.001,
    "tool_timeout_sec": 1.0,
    "startup_timeout_ms": 0.001,
    "startup_timeout_sec": 1.0,
}
"""Members with a time, and their unit in seconds. Gemini CLI and Claude Code have the first, Codex
the others."""

SHORTEST_MILLISECONDS = 1000
"""A shorter ``timeout`` is rejected: other hosts write seconds there."""

MEMBERS = (
    "command", "args", "env", "envFile", "cwd", *URLS, "headers", "http_headers",
    "env_http_headers",
    "bearer_token_env_var", "type", "disabled", "enabled", *ALLOWING, *DENYING, *SECONDS, "trust",
    "source",
)  # fmt: skip
"""What is read of an entry. ``trust`` (Gemini CLI) means nothing here, because no host asks."""

READ_BY_HOSTS = {
    "claude_desktop_config.json": "mcpServers", ".mcp.json": "mcpServers",
    ".cursor/mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers", "Code/User/mcp.json": "servers",
    ".gemini/settings.json": "mcpServers",
    "windsurf/mcp_config.json": "mcpServers", ".lmstudio/mcp.json": "mcpServers",
    "zed/settings.json": "context_servers",
    ".codex/config.toml": "mcp_servers",
}  # fmt: skip
"""Files of hosts, and what the object of servers is called there."""

GEMINI_FILE = ".gemini/settings.json"
"""A file in which comments are usual, and ``$NAME`` stands for a variable too."""

HOST_FOLDERS = frozenset({
    ".vscode", ".cursor", ".gemini", ".codex", ".lmstudio", ".zed", ".windsurf", ".claude-plugin",
})  # fmt: skip
"""Folders of a workspace in which hosts keep their files."""

USER_FILES = ("Code/User/mcp.json", "claude_desktop_config.json", "zed/settings.json")
"""Files of a user, which belong to no workspace."""

MISSPELT = {
    "cmd": "command",
    "arguments": "args",
    "environment": "env",
    "uri": "url",
}
"""What members of an entry are called by mistake, beside what is near a right name, and what they
are called."""

EDITOR_VARIABLES = frozenset({
    "file", "fileBasename", "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename",
    "fileExtname",
    "fileWorkspaceFolder", "fileWorkspaceFolderBasename", "relativeFile", "relativeFileDirname",
    "lineNumber",
    "columnNumber", "selectedText", "execPath", "execInstallFolder", "extensionInstallFolder",
    "defaultBuildTask", "cwd",
    "workspaceRoot", "workspaceRootFolderName", "config", "command",
})  # fmt: skip
"""Variables that only a running editor can resolve."""

PLUGIN_ROOT = "CLAUDE_PLUGIN_ROOT"

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.S)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.S)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-((?:(?!\$\{)[^}])*))?\}|\$\{[^}]*\}?")
_BARE = re.compile(r"\$([A-Za-z_]\w*)")
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=\s*(.*?)\s*")
_QUOTED = re.compile(r"""(["'])(.*)\1\s*(?:#.*)?""")


class ConfigEntry(NamedTuple):
    """One server of a config, as `connect` uses it."""

    target: Any
    """What `connect` takes."""
    timeout: Optional[float] = None
    """Seconds for one call; None leaves it to `connect`."""
    connect_timeout: Optional[float] = None
    """Seconds for the start; None leaves it to `connect`."""
    offers: Optional[Callable[[str], bool]] = None
    """Whether a tool of this name is offered; None offers all."""
    sources: tuple[str, ...] = ()
    """Members whose value came from elsewhere: "url from the environment variable DOCS_URL"."""


@dataclass
class Servers:
    """The servers of one config. Made by `read_servers`.

    Args:
        where: The file, for messages; empty for what is no file.
        folder: Where a relative ``cwd`` begins.
        table: Entries, or targets of `connect`, by name.
    """

    where: str
    folder: str
    table: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """All that are not disabled, in order."""
        return [
            name
            for name, entry in self.table.items()
            if not (
                isinstance(entry, Mapping)
                and (entry.get("disabled") is True or entry.get("enabled") is False)
            )
        ]

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def target(self, name: str) -> Any:
        """What `connect` takes for this server. Errors as `entry`."""
        return self.entry(name).target

    def entry(self, name: str) -> ConfigEntry:
        """Return what the config says about a server.

        Raises:
            ValueError: There is none of this name, it is disabled, or its entry makes no sense; the
                message names file, server and member.
        """
        if name not in self.table:
            near = nearest(name, self.table)
            meant = f", did you mean {near!r}?" if near else ":"
            known = listed(map(repr, self.table), "and") if self.table else "none"
            raise ValueError(
                f"{self.where or 'the config'} has no server {name!r}{meant} it has {known}"
            )
        entry = self.table[name]
        try:
            if isinstance(entry, Mapping):
                return _Reader(self.where, self.folder).read(entry)
            if self.where:
                raise ValueError(f"must be an object, not {described(entry)}")
        except ValueError as error:
            where = f"{self.where}: " if self.where else ""
            raise ValueError(f"{where}server {name!r}: {error}") from None
        return ConfigEntry(entry)


Config = Union[str, "os.PathLike[str]", Mapping[str, Any], Servers]
"""What names servers: a file, or what could stand in one."""


def read_servers(config: Config) -> Servers:
    """Read a config; each entry is looked at when it is asked for, so that a wrong one harms no
    other.

    The files of Claude Desktop, Claude Code and its plugins, Cursor, VS Code, Gemini CLI, Windsurf,
    LM Studio, Zed and Codex are read. TOML (Codex) needs Python 3.11. A JSON file is UTF-8 and may
    have comments, and commas after the last item, as VS Code writes them.

    An entry has ``command`` and perhaps ``args``, ``env`` (laid over ``envFile`` and the
    environment of this process) and ``cwd`` (a relative one begins at the file's folder; without
    it, ours); or ``url``, ``httpUrl`` or ``serverUrl`` and perhaps ``headers``. ``type`` may say
    which; ``disabled`` and ``enabled`` leave the server out; null counts as absent.
    ``tool_timeout_sec`` and ``timeout`` (in milliseconds) bound a call, ``startup_timeout_sec``
    bounds the start. The members in `ALLOWING` and `DENYING` choose the tools that are offered.
    Misspelt members are rejected, others ignored.

    In all these texts ``${NAME}``, or ``${env:NAME}``, stands for a variable of our environment,
    and ``${NAME:-text}`` for the text when that is not set. ``${workspaceFolder}`` is the folder of
    the file, or the one above ``.vscode`` and the like; ``${workspaceFolderBasename}``,
    ``${userHome}``, ``${pathSeparator}``, ``${/}``, ``${CLAUDE_PLUGIN_ROOT}`` and ``${file:PATH}``
    (the content of a file) are read too; in Gemini's file also ``$NAME``. Variables that only a
    host can resolve, such as ``${input:key}``, are rejected.

    Args:
        config: A file, the mapping that it would hold, or a mapping of names to entries and targets
            of `connect`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not JSON or TOML, or has no object of servers.
        TypeError: It is neither a path nor a mapping, or a name is no str.
    """
    if isinstance(config, Servers):
        return config
    if isinstance(config, Mapping):
        table = next(
            (
                table
                for table in map(
                    config.get, TABLES
                )  # of a whole file; else these are the servers themselves
                if isinstance(table, Mapping)
                and all(isinstance(entry, Mapping) for entry in table.values())
            ),
            config,
        )
        for name in table:
            require_type(name, str, "a server's name is a str")
        return Servers("", "", table)
    path = os.fspath(config)
    require_type(path, str, "a config is named by a str or a path")
    return Servers(path, os.path.dirname(os.path.abspath(path)), _file(path))


def _file(path: str) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith((".yaml", ".yml")):
        way = 'write the server into a JSON file, as {"mcpServers": {"NAME": {"command": ...}}}'
        raise ValueError(f"{path}: YAML cannot be read without a further package: {way}")
    is_toml = path.endswith(".toml")
    try:
        text = data.decode("utf-8-sig")
        whole = _read_toml(text) if is_toml else read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: line {error.lineno}, column {error.colno}: no JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{path}: must be an object, not {described(whole)}")
    found = [member for member in TABLES if member in whole]
    if not found and _are_servers(whole):  # a plugin's .mcp.json has them at the top
        return {name: entry for name, entry in whole.items() if not name.startswith("$")}
    if len(found) != 1:
        problem = f"and has {listed(found, 'and')}" if found else "and has neither"
        also = " (in Zed context_servers, in Codex mcp_servers)"
        raise ValueError(f"{path}: must have {' or '.join(TABLES[:2])}{also}, {problem}")
    whole_path = os.path.abspath(path).replace(os.sep, "/")
    is_gemini = whole_path.endswith("/" + GEMINI_FILE)
    if found[0] == "mcpServers" and not is_gemini and strict_json(text) != text:
        log.warning(
            "%s has comments, or a comma after the last item: other hosts than VS Code may "
            "refuse it",
            path,
        )
    read = [table for end, table in READ_BY_HOSTS.items() if whole_path.endswith("/" + end)]
    if read and found != read:
        log.warning(
            "%s has %s, and the host of a file of this name reads %s", path, found[0], read[0]
        )
    table = whole[found[0]]
    if not isinstance(table, dict):
        raise ValueError(f"{path}: {found[0]}: must be an object, not {described(table)}")
    return table


def _read_toml(text: str) -> Any:
    """Return what a TOML file says. Raises ValueError: it is not TOML, or Python is older than
    3.11."""
    if sys.version_info >= (3, 11):
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"not TOML: {error}") from None
    else:
        way = 'write the server into a JSON file, as {"mcpServers": {"NAME": {"command": ...}}}'
        raise ValueError(f"reading TOML needs Python 3.11 or newer: {way}")


def _are_servers(whole: Mapping[str, Any]) -> bool:
    """Return whether all members of a file are objects, and one of them is a server."""
    entries = [entry for name, entry in whole.items() if not name.startswith("$")]
    return all(isinstance(entry, dict) for entry in entries) and any(
        not entry.keys().isdisjoint(("command", *URLS)) for entry in entries
    )


def read_json(text: str) -> Any:
    """What a config says. Raises ValueError: it is no JSON, or has something twice."""
    try:
        return json.loads(strict_json(text), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        way = (
            f"{error.msg.rstrip(': ')}: write backslashes twice, or use /"
            if "escape" in error.msg
            else error.msg
        )
        raise json.JSONDecodeError(way, text, error.pos) from None


def strict_json(text: str) -> str:
    """JSON with comments and last commas as JSON without them, in which everything stands where it
    stood."""
    return _LAST_COMMA.sub(_kept, _COMMENT.sub(_kept, text))


def _kept(found: re.Match[str]) -> str:
    """A string as it is; of a comment or a comma blanks and the lines, so that an error names the
    right one."""
    return found[1] or re.sub(r"[^\n]", " ", found[0])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(
            f"{next(name for name in names if names.count(name) > 1)!r} is there twice"
        )
    return made


# ------------------------------------------------------------ one entry


class _Reader:
    """Reads one entry. Every ValueError begins with the member that is wrong.

    Args:
        where: The file; empty if there is none.
        folder: The folder of the file.
    """

    def __init__(self, where: str, folder: str) -> None:
        self._where = where
        self._folder = folder
        self._sources: dict[str, str] = {}

    def read(self, entry: Mapping[str, Any]) -> ConfigEntry:
        entry = {member: value for member, value in entry.items() if value is not None}
        _refuse_disabled(entry)
        _refuse_misspelt(entry)
        if isinstance(entry.get("command"), Mapping):  # as older versions of Zed write it
            nested = entry["command"]
            entry = {**entry, **nested, "command": nested.get("path")}
        urls = [member for member in URLS if member in entry]
        if len(urls) > 1:
            raise ValueError(f"{urls[1]}: does not go together with {urls[0]}: write one of them")
        named = entry.get("type", "http" if urls else "stdio")
        if not isinstance(named, str) or named not in REMOTE:
            raise ValueError(f"type: must be {listed(REMOTE)}, not {described(named)}")
        url = urls[0] if urls else "url"
        needed, other = (url, "command") if REMOTE[named] else ("command", url)
        if other in entry:
            raise ValueError(
                f"{other}: does not go together with "
                f"{needed if needed in entry else f'type {named!r}'}"
            )
        if entry.get("source") == "extension" and needed not in entry:
            raise ValueError("source: an extension of Zed starts this server: write its command")
        target = self._remote(url, entry) if REMOTE[named] else self._local(entry)
        return ConfigEntry(
            target,
            timeout=_time(entry, "tool_timeout_sec", "timeout"),
            connect_timeout=_time(entry, "startup_timeout_sec", "startup_timeout_ms"),
            offers=_tool_filter(entry),
            sources=tuple(f"{member} from {source}" for member, source in self._sources.items()),
        )

    def _local(self, entry: Mapping[str, Any]) -> StdioServer:
        command = self._required("command", entry)
        cwd = None
        if "cwd" in entry:
            cwd = os.path.join(self._folder, self._required("cwd", entry))
        args = entry.get("args", [])
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"args: must be a list of strings, not {described(args)}")
        words = [self._text(f"args[{index}]", value) for index, value in enumerate(args)]
        env = {**self._env_file(entry), **self._texts("env", entry)}
        return StdioServer([command, *words], env=env, cwd=cwd)

    def _remote(self, member: str, entry: Mapping[str, Any]) -> Any:
        from ..http.client import HttpServer

        url = self._required(member, entry)
        headers = {**self._texts("http_headers", entry), **self._texts("headers", entry)}
        for name, variable in self._texts("env_http_headers", entry).items():
            headers[name] = self._variable(f"env_http_headers.{name}", variable)
        if "bearer_token_env_var" in entry:
            variable = self._required("bearer_token_env_var", entry)
            token = self._variable("bearer_token_env_var", variable)
            headers["Authorization"] = f"Bearer {token}"
        try:
            return HttpServer(url, headers=headers)
        except ValueError as error:
            raise ValueError(f"{member}: {error}") from None

    # ------------------------------------------------------------ members

    def _required(self, member: str, entry: Mapping[str, Any]) -> str:
        text = self._text(member, entry[member]) if member in entry else None
        if not text:
            near = None if member in entry else nearest(member, entry)
            meant = f", did you mean it by {near!r}?" if near else ""
            raise ValueError(f"{member}: is {'missing' if text is None else 'empty'}{meant}")
        return text

    def _texts(self, member: str, entry: Mapping[str, Any]) -> dict[str, str]:
        values = entry.get(member, {})
        if not isinstance(values, Mapping):
            raise ValueError(f"{member}: must be an object of strings, not {described(values)}")
        return {name: self._text(f"{member}.{name}", value) for name, value in values.items()}

    def _env_file(self, entry: Mapping[str, Any]) -> dict[str, str]:
        """Return the variables of ``envFile``, which has a line ``NAME=value`` for each."""
        if "envFile" not in entry:
            return {}
        path = os.path.join(self._folder, os.path.expanduser(self._required("envFile", entry)))
        try:
            with open(path, encoding="utf-8-sig") as file:
                lines = file.read().splitlines()
        except (OSError, ValueError) as error:
            raise ValueError(f"envFile: {path} cannot be read: {error}") from None
        found = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            parts = _ENV_LINE.fullmatch(line)
            if parts is None:
                raise ValueError(f"envFile: {path}: line {number} must be NAME=value")
            found[parts[1]] = _unquoted(parts[2])
        return found

    # ------------------------------------------------------------ variables

    def _text(self, member: str, value: Any) -> str:
        """Return a text with the values of the variables that it names."""
        if not isinstance(value, str):
            raise ValueError(f"{member}: must be a string, not {described(value)}")
        if os.path.abspath(self._where).replace(os.sep, "/").endswith("/" + GEMINI_FILE):
            value = _BARE.sub(r"${\1}", value)
        return _VARIABLE.sub(lambda found: self._value(member, found), value)

    def _value(self, member: str, found: re.Match[str]) -> str:
        name, default = found.groups()
        written = found[0]
        inner, closed = (written[2:-1], True) if written.endswith("}") else (written[2:], False)
        kind, colon, rest = inner.partition(":")
        if closed and name is not None and (inner.startswith("env:") or not self._is_host(name)):
            return self._variable(member, name, default)
        if closed and kind == "file" and colon and rest:
            return self._file_content(member, rest)
        if closed and kind == "input" and rest:
            way = (
                f"write ${{env:{re.sub('[^A-Za-z0-9]', '_', rest).upper()}}} and set that variable"
            )
            raise ValueError(
                f"{member}: {written} is not known here, because a host asks a person for it: {way}"
            )
        if closed and inner in ("workspaceFolder", "workspaceFolderBasename", PLUGIN_ROOT):
            folder = self._workspace(member, written)
            return os.path.basename(folder) if inner.endswith("Basename") else folder
        if closed and inner == "userHome":
            return os.path.expanduser("~")
        if closed and inner in ("pathSeparator", "/"):
            return os.sep
        if closed and kind in EDITOR_VARIABLES | {"workspaceFolder"}:
            way = "write its value, or ${NAME} for an environment variable"
            raise ValueError(
                f"{member}: {written} is not known here, because only an editor has it: {way}"
            )
        raise ValueError(
            f"{member}: {written} is not known here: ${{NAME}} and ${{NAME:-default}} are"
        )

    def _is_host(self, name: str) -> bool:
        """Whether a name without ``env:`` is a variable of a host rather than of the
        environment."""
        if name == PLUGIN_ROOT:
            return bool(self._where)
        known = ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator")
        return name in EDITOR_VARIABLES or name in known

    def _variable(self, member: str, name: str, default: Optional[str] = None) -> str:
        """Return the value of an environment variable."""
        value = os.environ.get(name)
        if value is not None:
            self._sources.setdefault(member, f"the environment variable {name}")
            return value
        if default is None:
            raise ValueError(f"{member}: the environment variable {name} is not set")
        return default

    def _file_content(self, member: str, path: str) -> str:
        """Return the content of a file, without the line end that editors write after a secret."""
        whole = os.path.join(self._folder, os.path.expanduser(path))
        try:
            with open(whole, encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, ValueError) as error:
            raise ValueError(f"{member}: ${{file:{path}}} cannot be read: {error}") from None
        self._sources.setdefault(member, f"the file {whole}")
        return text.rstrip("\r\n")

    def _workspace(self, member: str, written: str) -> str:
        """Return the folder of the project that the file belongs to."""
        path = os.path.abspath(self._where).replace(os.sep, "/")
        if not self._where or path.endswith(tuple("/" + end for end in USER_FILES)):
            what = "this file belongs to" if self._where else "a mapping belongs to"
            raise ValueError(f"{member}: {written}: {what} no workspace: write the folder")
        if os.path.basename(self._folder) in HOST_FOLDERS:
            return os.path.dirname(self._folder)
        return self._folder


def _refuse_disabled(entry: Mapping[str, Any]) -> None:
    for member, off in (("disabled", True), ("enabled", False)):
        said = entry.get(member, not off)
        if not isinstance(said, bool):
            raise ValueError(f"{member}: must be true or false")
        if said is off:
            raise ValueError(f"{member}: it is{'' if off else ' false'}")


def _refuse_misspelt(entry: Mapping[str, Any]) -> None:
    for member in entry.keys() - {*MEMBERS, "comment"}:
        meant = MISSPELT.get(member) or nearest(
            member, [name for name in MEMBERS if name[:1] == member[:1]]
        )
        if meant is not None:
            raise ValueError(f"{member}: is not read here: write {meant}")


def _time(entry: Mapping[str, Any], *members: str) -> Optional[float]:
    """Return the seconds that one of these members says, or None if none is there."""
    given = [member for member in members if member in entry]
    if len(given) > 1:
        raise ValueError(f"{given[1]}: does not go together with {given[0]}: write one of them")
    if not given:
        return None
    member, value = given[0], entry[given[0]]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{member}: must be a number above 0, not {described(value)}")
    if member == "timeout" and value < SHORTEST_MILLISECONDS:
        way = f"write {value * 1000:g}, or tool_timeout_sec with {value:g}"
        raise ValueError(f"timeout: is in milliseconds, and {value:g} is too short: {way}")
    return float(value * SECONDS[member])


def _tool_filter(entry: Mapping[str, Any]) -> Optional[Callable[[str], bool]]:
    """Return the test whether a tool is offered, or None if all are."""
    lists = {member: entry[member] for member in (*ALLOWING, *DENYING) if member in entry}
    for member, names in lists.items():
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{member}: must be a list of names of tools, not {described(names)}")
    if not lists:
        return None
    allowed = [frozenset(names) for member, names in lists.items() if member in ALLOWING]
    denied = frozenset(name for member in DENYING for name in lists.get(member, ()))

    def offers(tool: str) -> bool:
        return tool not in denied and all(tool in names for names in allowed)

    return offers


def _unquoted(value: str) -> str:
    """Return the value of a line of an env file."""
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        return re.sub(r"\s+#.*", "", value)
    if quoted[1] == "'":
        return quoted[2]
    return re.sub(r'\\([\\"$nrt])', _escape, quoted[2])


def _escape(found: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1])
