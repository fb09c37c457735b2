"""Configuration files of hosts: which servers they list, and how each is started.

The format is not part of the specification. Most hosts write ``{"mcpServers": {name: entry}}``, VS
Code ``{"servers": ...}``, Zed ``{"context_servers": ...}``, and Codex tables ``[mcp_servers.NAME]``
in TOML. `read_servers` describes the entries.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..log import logger
from ..schema.mismatch import described, join_words, nearest
from ..stdio.child import StdioServer
from .session import require_type

log = logger("minimcp.client")

CONFIG_FILE = "mcp.json"
"""The file in the current folder in which the command line looks up names without ``--config``."""

TABLES = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The names of the object of servers: of most hosts, VS Code, Zed and Codex."""

REMOTE = {
    "stdio": False,
    "http": True,
    "streamable-http": True,
    "streamableHttp": True,
    "sse": True,
}
"""The values of ``type``, and whether they mean a server with a URL."""

URLS = ("url", "httpUrl", "serverUrl")
"""The member with the URL: of most hosts, Gemini CLI and Windsurf."""

ALLOWING = ("allowedTools", "includeTools", "enabled_tools")
"""Members that name the only tools to offer. Gemini CLI uses the second, Codex the third."""

DENYING = ("disabledTools", "excludeTools", "disabled_tools")
"""Members that name tools not to offer."""

SECONDS = {
    "timeout": 0.001,
    "tool_timeout_sec": 1.0,
    "startup_timeout_ms": 0.001,
    "startup_timeout_sec": 1.0,
}
"""Members with a duration, and their unit in seconds. Gemini CLI and Claude Code use the first,
Codex the others."""

MAX_FILE_CHARACTERS = 1024 * 1024
"""Maximum size of a file that an entry names, for variables or for the value of a member."""

MIN_TIMEOUT_MILLISECONDS = 1000
"""A shorter ``timeout`` is rejected, because other hosts expect seconds there."""

MEMBERS = (
    "command", "args", "env", "envFile", "cwd", *URLS, "headers", "http_headers",
    "env_http_headers", "bearer_token_env_var", "cacert", "proxy", "type", "disabled", "enabled",
    *ALLOWING, *DENYING, *SECONDS, "source",
)  # fmt: skip
"""The members of an entry that are read."""

OF_HOSTS = frozenset({
    "trust", "alwaysAllow", "autoApprove", "default_tools_approval_mode", "tools", "alwaysLoad",
    "supports_parallel_tool_calls", "env_vars", "remote", "description", "name", "version",
    "comment", "extension", "gallery", "dev", "settings",
})  # fmt: skip
"""Members that ask for nothing here: about confirmations (there are none), forwarded variables (all
are), and what a host displays."""

UNSUPPORTED = {
    **dict.fromkeys(
        ("oauth", "auth", "authProviderType", "oauth_resource", "scopes"),
        "sign in with python3 -m minimcp login URL, or pass auth=SignIn(...)",
    ),
    **dict.fromkeys(("targetAudience", "targetServiceAccount"), "write the token into headers"),
    "headersHelper": "write the headers into headers",
    **dict.fromkeys(("sandbox", "sandboxEnabled"), "start the sandbox in command"),
    "tcp": "write the URL of a server over HTTP into url",
    "experimental_environment": "write the command that reaches the other machine",
    "required": "catch the failure of connect, or look at errors of connect_all",
}
"""Members of hosts that would change how a server is reached, and what to write instead."""

READ_BY_HOSTS = {
    "claude_desktop_config.json": "mcpServers",
    ".mcp.json": "mcpServers",
    ".cursor/mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers",
    "Code/User/mcp.json": "servers",
    ".gemini/settings.json": "mcpServers",
    "windsurf/mcp_config.json": "mcpServers",
    ".lmstudio/mcp.json": "mcpServers",
    "zed/settings.json": "context_servers",
    ".codex/config.toml": "mcp_servers",
}
"""The files of hosts, and the name of the object of servers in each."""

GEMINI_FILE = ".gemini/settings.json"
"""A file in which comments are common, and ``$NAME`` is a variable too."""

HOST_FOLDERS = frozenset({
    ".vscode", ".cursor", ".gemini", ".codex", ".lmstudio", ".zed", ".windsurf", ".claude-plugin",
})  # fmt: skip
"""Folders of a workspace in which hosts keep their files."""

USER_FILES = ("Code/User/mcp.json", "claude_desktop_config.json", "zed/settings.json")
"""Files of a user, which do not belong to a workspace."""

MISSPELLED = {
    "cmd": "command",
    "arguments": "args",
    "environment": "env",
    "uri": "url",
}
"""Member names that users often write by mistake, and that are not similar to the correct name."""

EDITOR_VARIABLES = frozenset({
    "file", "fileBasename", "fileBasenameNoExtension", "fileDirname", "fileDirnameBasename",
    "fileExtname", "fileWorkspaceFolder", "fileWorkspaceFolderBasename", "relativeFile",
    "relativeFileDirname", "lineNumber", "columnNumber", "selectedText", "execPath",
    "execInstallFolder", "extensionInstallFolder", "defaultBuildTask", "cwd", "workspaceRoot",
    "workspaceRootFolderName", "config", "command",
})  # fmt: skip
"""Variables that only a running editor can resolve."""

PLUGIN_ROOT = "CLAUDE_PLUGIN_ROOT"

# A string or comment without an end reaches the end of the text. Otherwise, the search for its end
# would be repeated from every later quote, which takes minutes for a small file.
_STRING = r'("(?:[^"\\]|\\.)*"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/|(/\*.*)", re.S)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.S)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-((?:(?!\$\{)[^}])*))?\}|\$\{[^}]*\}?")
_BARE = re.compile(r"\$([A-Za-z_]\w*)")
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][\w.-]*)\s*=(.*)")
_QUOTED = re.compile(r"""(["'])(.*)\1\s*(?:#.*)?""")


class ConfigEntry(NamedTuple):
    """One server of a config, as `connect` uses it."""

    target: Any
    """A target of `connect`."""
    timeout: Optional[float] = None
    """Seconds for one call; None means the timeout of `connect`."""
    connect_timeout: Optional[float] = None
    """Seconds for the start; None means the timeout of `connect`."""
    offers: Optional[Callable[[str], bool]] = None
    """Returns whether a tool of this name is offered; None means all."""
    sources: tuple[str, ...] = ()
    """Members whose value came from elsewhere: "url from the environment variable DOCS_URL"."""


@dataclass
class Servers:
    """The servers of one config, made by `read_servers`.

    Args:
        where: The file's path, for messages; empty without a file.
        folder: The folder to which a relative ``cwd`` refers.
        table: Entries, or targets of `connect`, by name.
        offers: Returns whether a server's tool is offered, in addition to what its entry says; None
            means none.
    """

    where: str
    folder: str
    table: Mapping[str, Any]
    offers: Optional[Callable[[str, str], bool]] = None

    @property
    def names(self) -> list[str]:
        """The names of all servers that are not disabled, in order."""
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
        """Return the target of a server for `connect`. Raises what `entry` raises."""
        return self.entry(name).target

    def entry(self, name: str) -> ConfigEntry:
        """Return the entry of a server.

        Raises:
            ValueError: The config does not have the server, or its entry is disabled or invalid.
                The message names the file, the server and the member.
        """
        if name not in self.table:
            near = nearest(name, self.table)
            meant = f", did you mean {near!r}? It" if near else ": it"
            known = join_words(map(repr, self.table), "and") if self.table else "none"
            raise ValueError(
                f"{self.where or 'the config'} has no server {name!r}{meant} has {known}"
            )
        entry = self.table[name]
        found = ConfigEntry(entry)
        try:
            if isinstance(entry, Mapping):
                found = _Reader(self.where, self.folder).read(entry)
            elif self.where:
                raise ValueError(f"must be an object, not {described(entry)}")
        except ValueError as error:
            where = f"{self.where}: " if self.where else ""
            raise ValueError(f"{where}server {name!r}: {error}") from None
        if self.offers is None:
            return found
        offers = self.offers
        first = found.offers
        return found._replace(
            offers=lambda tool: (first is None or first(tool)) and offers(name, tool)
        )


Config = Union[str, "os.PathLike[str]", Mapping[str, Any], Servers]
"""A config: a file, the mapping that it would hold, or servers that were already read."""


def read_servers(config: Config) -> Servers:
    """Read a config. An entry is read when it is requested, so an invalid one does not affect
    others.

    The files of Claude Desktop, Claude Code and its plugins, Cursor, VS Code, Gemini CLI, Windsurf,
    LM Studio, Zed and Codex are supported. TOML (Codex) needs Python 3.11. A JSON file must be
    UTF-8. It may have comments and trailing commas, as VS Code writes them.

    A local entry has ``command`` and optionally ``args``, ``cwd`` (relative to the file's folder;
    default: the current directory) and ``env`` (added to ``envFile`` and the environment of this
    process). A remote entry has ``url``, ``httpUrl`` or ``serverUrl`` and optionally ``headers``,
    ``cacert`` (a CA bundle, relative to the file's folder) and ``proxy`` (a URL). ``type`` may name
    the kind. ``disabled`` and ``enabled`` exclude the server. ``tool_timeout_sec`` and ``timeout``
    (milliseconds) limit a call, and ``startup_timeout_sec`` the start. The members in `ALLOWING`
    and `DENYING` select the offered tools. null counts as absent. Members about confirmations and
    display (`OF_HOSTS`) have no effect; every other member is rejected by name.

    In all strings, ``${NAME}`` or ``${env:NAME}`` is an environment variable, and ``${NAME:-text}``
    has a default. ``${workspaceFolder}`` is the file's folder, or its parent for ``.vscode`` and
    the like. ``${workspaceFolderBasename}``, ``${userHome}``, ``${pathSeparator}``, ``${/}``,
    ``${CLAUDE_PLUGIN_ROOT}``, ``${file:PATH}`` (the content of a file) and, in Gemini's file,
    ``$NAME`` are supported too. Variables that only a host can resolve, such as ``${input:key}``,
    are rejected.

    Args:
        config: A file, the mapping that it would hold, or a mapping of names to entries and targets
            of `connect`.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not valid JSON or TOML, or has no object of servers.
        TypeError: `config` is not a path or a mapping, or a name is not a str.
    """
    if isinstance(config, Servers):
        return config
    if isinstance(config, Mapping):
        table = next(
            (
                table
                # The content of a whole file; otherwise the mapping has the servers themselves.
                for table in map(config.get, TABLES)
                if isinstance(table, Mapping)
                and all(isinstance(entry, Mapping) for entry in table.values())
            ),
            config,
        )
        for name in table:
            require_type(name, str, "a server's name must be a str")
        return Servers("", "", table)
    path = os.fspath(config)
    require_type(path, str, "a config must be a path or a mapping")
    return Servers(path, os.path.dirname(os.path.abspath(path)), _file(path))


def _file(path: str) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith((".yaml", ".yml")):
        way = 'write the server into a JSON file, as {"mcpServers": {"NAME": {"command": ...}}}'
        raise ValueError(f"{path}: YAML is not supported: {way}")
    is_toml = path.endswith(".toml")
    try:
        text = data.decode("utf-8-sig")
        whole = _read_toml(text) if is_toml else read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{path}: must be an object, not {described(whole)}")
    found = [member for member in TABLES if member in whole]
    if not found and _are_servers(whole):  # a plugin's .mcp.json has them at the top
        return {name: entry for name, entry in whole.items() if not name.startswith("$")}
    if len(found) != 1:
        problem = f"but has {join_words(found, 'and')}" if found else "but has neither"
        also = " (in Zed context_servers, in Codex mcp_servers)"
        raise ValueError(f"{path}: must have {' or '.join(TABLES[:2])}{also}, {problem}")
    whole_path = os.path.abspath(path).replace(os.sep, "/")
    is_gemini = whole_path.endswith("/" + GEMINI_FILE)
    if found[0] == "mcpServers" and not is_gemini and strict_json(text) != text:
        log.warning(
            "%s has comments or a trailing comma, which hosts other than VS Code may reject",
            path,
        )
    read = [table for end, table in READ_BY_HOSTS.items() if whole_path.endswith("/" + end)]
    if read and found != read:
        log.warning(
            "%s has %s, but the host that reads this file expects %s", path, found[0], read[0]
        )
    table = whole[found[0]]
    if not isinstance(table, dict):
        raise ValueError(f"{path}: {found[0]}: must be an object, not {described(table)}")
    return table


def _read_toml(text: str) -> Any:
    """Return the content of a TOML file. Raise ValueError if it is invalid, or before Python
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
    """Return the content of a config. Raise ValueError if it is not JSON or repeats a member."""
    try:
        return json.loads(strict_json(text), object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        message = error.msg
        if "escape" in message:
            message = f"{message.rstrip(': ')}: write backslashes twice, or use /"
        raise json.JSONDecodeError(message, text, error.pos) from None


def strict_json(text: str) -> str:
    """Remove comments and trailing commas from JSON. All other text keeps its position."""
    return _LAST_COMMA.sub(_kept, _COMMENT.sub(_kept, text))


def _kept(found: re.Match[str]) -> str:
    """Return a string unchanged, and blanks for a comment or comma, so that lines stay the same."""
    return found[0] if found.lastindex else re.sub(r"[^\n]", " ", found[0])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} is repeated")
    return made


# ------------------------------------------------------------ one entry


class _Reader:
    """Reads one entry. The message of every ValueError begins with the wrong member.

    Args:
        where: The file's path; empty without a file.
        folder: The folder of the file.
    """

    def __init__(self, where: str, folder: str) -> None:
        self._where = where
        self._folder = folder
        self._sources: dict[str, str] = {}

    def read(self, entry: Mapping[str, Any]) -> ConfigEntry:
        entry = {member: value for member, value in entry.items() if value is not None}
        _refuse_disabled(entry)
        _refuse_unknown(entry)
        if isinstance(entry.get("command"), Mapping):  # the format of older versions of Zed
            nested = entry["command"]
            entry = {**entry, **nested, "command": nested.get("path")}
        urls = [member for member in URLS if member in entry]
        if len(urls) > 1:
            raise ValueError(
                f"{urls[1]}: cannot be used together with {urls[0]}: write one of them"
            )
        named = entry.get("type", "http" if urls else "stdio")
        if not isinstance(named, str) or named not in REMOTE:
            raise ValueError(f"type: must be {join_words(REMOTE)}, not {described(named)}")
        url = urls[0] if urls else "url"
        needed, other = (url, "command") if REMOTE[named] else ("command", url)
        if other in entry:
            rival = needed if needed in entry else f"type {named!r}"
            raise ValueError(f"{other}: cannot be used together with {rival}")
        if entry.get("source") == "extension" and needed not in entry:
            raise ValueError("source: a Zed extension starts this server: write its command")
        target = self._remote(url, entry) if REMOTE[named] else self._local(entry)
        return ConfigEntry(
            target,
            timeout=_time(entry, "tool_timeout_sec", "timeout"),
            connect_timeout=_time(entry, "startup_timeout_sec", "startup_timeout_ms"),
            offers=_tool_filter(entry),
            sources=tuple(f"{member} from {source}" for member, source in self._sources.items()),
        )

    def _local(self, entry: Mapping[str, Any]) -> StdioServer:
        for member in ("cacert", "proxy"):
            if member in entry:
                raise ValueError(f"{member}: applies to a server with a URL only")
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
        verify = None
        if "cacert" in entry:
            verify = os.path.join(self._folder, os.path.expanduser(self._required("cacert", entry)))
        proxies = None
        if "proxy" in entry:
            proxies = dict.fromkeys(("http", "https"), self._required("proxy", entry))
        try:
            return HttpServer(url, headers=headers, verify=verify, proxies=proxies)
        except ValueError as error:
            raise ValueError(f"{member}: {error}") from None

    # ------------------------------------------------------------ members

    def _required(self, member: str, entry: Mapping[str, Any]) -> str:
        text = self._text(member, entry[member]) if member in entry else None
        if not text:
            near = None if member in entry else nearest(member, entry)
            hint = f"; did you write {near!r} instead?" if near else ""
            raise ValueError(f"{member}: is {'missing' if text is None else 'empty'}{hint}")
        return text

    def _texts(self, member: str, entry: Mapping[str, Any]) -> dict[str, str]:
        values = entry.get(member, {})
        if not isinstance(values, Mapping):
            raise ValueError(f"{member}: must be an object of strings, not {described(values)}")
        return {name: self._text(f"{member}.{name}", value) for name, value in values.items()}

    def _env_file(self, entry: Mapping[str, Any]) -> dict[str, str]:
        """Return the variables of ``envFile``, which has one line ``NAME=value`` for each."""
        if "envFile" not in entry:
            return {}
        path = os.path.join(self._folder, os.path.expanduser(self._required("envFile", entry)))
        try:
            lines = _text_of(path).splitlines()
        except (OSError, ValueError) as error:
            raise ValueError(f"envFile: {path} cannot be read: {error}") from None
        found = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            parts = _ENV_LINE.fullmatch(line)
            if parts is None:
                raise ValueError(f"envFile: {path}: line {number} must be NAME=value")
            found[parts[1]] = _unquoted(parts[2].strip())
        return found

    # ------------------------------------------------------------ variables

    def _text(self, member: str, value: Any) -> str:
        """Return a string with its variables replaced."""
        if not isinstance(value, str):
            raise ValueError(f"{member}: must be a string, not {described(value)}")
        if os.path.abspath(self._where).replace(os.sep, "/").endswith("/" + GEMINI_FILE):
            value = _BARE.sub(r"${\1}", value)
        return _VARIABLE.sub(lambda found: self._value(member, found), value)

    def _value(self, member: str, found: re.Match[str]) -> str:
        name, default = found.groups()
        written = found[0]
        closed = written.endswith("}")
        inner = written[2:-1] if closed else written[2:]
        kind, colon, rest = inner.partition(":")
        if closed and name is not None and (inner.startswith("env:") or not self._is_host(name)):
            return self._variable(member, name, default)
        if closed and kind == "file" and colon and rest:
            return self._file_content(member, rest)
        if closed and kind == "input" and rest:
            variable = re.sub("[^A-Za-z0-9]", "_", rest).upper()
            raise ValueError(
                f"{member}: {written} is not available, because a host asks the user for it: "
                f"write ${{env:{variable}}} and set that variable"
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
                f"{member}: {written} is not available, because only an editor has it: {way}"
            )
        raise ValueError(
            f"{member}: {written} is not supported: write ${{NAME}} or ${{NAME:-default}}"
        )

    def _is_host(self, name: str) -> bool:
        """Return whether a name without ``env:`` is a variable of a host."""
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
        """Return the content of a file without its final line end."""
        whole = os.path.join(self._folder, os.path.expanduser(path))
        try:
            text = _text_of(whole)
        except (OSError, ValueError) as error:
            raise ValueError(f"{member}: ${{file:{path}}} cannot be read: {error}") from None
        self._sources.setdefault(member, f"the file {whole}")
        return text.rstrip("\r\n")

    def _workspace(self, member: str, written: str) -> str:
        """Return the folder of the project to which the file belongs."""
        path = os.path.abspath(self._where).replace(os.sep, "/")
        if not self._where or path.endswith(tuple("/" + end for end in USER_FILES)):
            what = "this file" if self._where else "a mapping"
            raise ValueError(
                f"{member}: {written}: {what} does not belong to a workspace: write the folder"
            )
        if os.path.basename(self._folder) in HOST_FOLDERS:
            return os.path.dirname(self._folder)
        return self._folder


def _text_of(path: str) -> str:
    """Return the content of a file that an entry names.

    The author of the config may be a stranger, so a device or a pipe is not opened.

    Raises:
        OSError, ValueError: It cannot be read.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError("it is not a regular file")
    with open(path, encoding="utf-8-sig") as file:
        text = file.read(MAX_FILE_CHARACTERS + 1)
    if len(text) > MAX_FILE_CHARACTERS:
        raise ValueError(f"it has more than {MAX_FILE_CHARACTERS} characters")
    return text


def _refuse_disabled(entry: Mapping[str, Any]) -> None:
    for member, off in (("disabled", True), ("enabled", False)):
        value = entry.get(member, not off)
        if not isinstance(value, bool):
            raise ValueError(f"{member}: must be true or false")
        if value is off:
            raise ValueError(f"{member}: is {'true' if off else 'false'}")


def _refuse_unknown(entry: Mapping[str, Any]) -> None:
    """Refuse members that are not read: the effect that the user expects would be missing."""
    for member in entry.keys() - {*MEMBERS, *OF_HOSTS}:
        if member in UNSUPPORTED:
            raise ValueError(f"{member}: is not supported: {UNSUPPORTED[member]}")
        candidates = [name for name in MEMBERS if name[:1] == member[:1]]
        meant = MISSPELLED.get(member) or nearest(member, candidates)
        way = f"write {meant}" if meant else "remove it"
        raise ValueError(f"{member}: is not a known member: {way}")


def _time(entry: Mapping[str, Any], *members: str) -> Optional[float]:
    """Return the seconds in one of these members, or None if none is present."""
    given = [member for member in members if member in entry]
    if len(given) > 1:
        raise ValueError(f"{given[1]}: cannot be used together with {given[0]}: write one of them")
    if not given:
        return None
    member = given[0]
    value = entry[member]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{member}: must be a number above 0, not {described(value)}")
    if member == "timeout" and value < MIN_TIMEOUT_MILLISECONDS:
        way = f"write {value * 1000:g}, or tool_timeout_sec with {value:g}"
        raise ValueError(f"timeout: is in milliseconds, so {value:g} is too short: {way}")
    return float(value * SECONDS[member])


def _tool_filter(entry: Mapping[str, Any]) -> Optional[Callable[[str], bool]]:
    """Return a predicate for the names of offered tools, or None if all tools are offered."""
    lists = {member: entry[member] for member in (*ALLOWING, *DENYING) if member in entry}
    for member, names in lists.items():
        if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{member}: must be a list of tool names, not {described(names)}")
    if not lists:
        return None
    allowed = [frozenset(names) for member, names in lists.items() if member in ALLOWING]
    denied = frozenset(name for member in DENYING for name in lists.get(member, ()))

    def offers(tool: str) -> bool:
        return tool not in denied and all(tool in names for names in allowed)

    return offers


def _unquoted(value: str) -> str:
    """Return the value in a line of an env file."""
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        return re.sub(r"\s+#.*", "", value)
    if quoted[1] == "'":
        return quoted[2]
    return re.sub(r'\\([\\"$nrt])', _escape, quoted[2])


def _escape(found: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1])
