"""Config files of hosts: which servers there are, and how each is started.

They are no part of the specification. Most hosts write ``{"mcpServers": {name: entry}}``, VS Code
``{"servers": ...}``; what an entry may hold is told at `read_servers`.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any, Mapping, Union

from ..errors import logger
from ..schema.mismatch import described, listed, nearest
from ..stdio.child import StdioServer
from .session import expect

log = logger("minimcp.client")

CONFIG_FILE = "mcp.json"
"""Where the command line looks up names when no ``--config`` is given, in the current folder."""

TABLES = ("mcpServers", "servers")
"""What the object of servers is called: by most hosts, by VS Code."""

REMOTE = {
    "stdio": False,
    "http": True,
    "streamable-http": True,
    "streamableHttp": True,
    "sse": True,
}
"""The words for ``type``, and whether such a server is reached by its URL."""

MEMBERS = ("command", "args", "env", "cwd", "url", "headers", "type", "disabled")
"""What is read of an entry."""

READ_BY_HOSTS = {
    "claude_desktop_config.json": "mcpServers", ".mcp.json": "mcpServers", ".cursor/mcp.json": "mcpServers",
    ".vscode/mcp.json": "servers", "Code/User/mcp.json": "servers",
}  # fmt: skip
"""Files of hosts, and what the object of servers is called there."""

MISSPELT = {
    "cmd": "command",
    "arguments": "args",
    "envFile": "env",
    "environment": "env",
    "uri": "url",
}
"""What members of an entry are called by mistake, beside what is near a right name, and what they
are called."""

_STRING = r'("(?:[^"\\]|\\.)*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.S)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])", re.S)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-((?:(?!\$\{)[^}])*))?\}|\$\{[^}]*\}?")


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
        table = self.table.items()
        return [
            name
            for name, entry in table
            if not (isinstance(entry, Mapping) and entry.get("disabled") is True)
        ]

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def target(self, name: str) -> Any:
        """What `connect` takes for this server.

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
                return _target(entry, self.folder)
            if self.where:
                raise ValueError(f"must be an object, not {described(entry)}")
        except ValueError as error:
            where = f"{self.where}: " if self.where else ""
            raise ValueError(f"{where}server {name!r}: {error}") from None
        return entry


Config = Union[str, "os.PathLike[str]", Mapping[str, Any], Servers]
"""What names servers: a file, or what could stand in one."""


def read_servers(config: Config) -> Servers:
    """Read a config; each entry is looked at when it is asked for, so that a wrong one harms no
    other.

    An entry has ``command`` and perhaps ``args``, ``env`` (laid over the environment of this
    process) and ``cwd`` (a relative one begins at the file's folder; without it, ours), or ``url``
    and perhaps ``headers``. ``type`` may say which; ``disabled`` leaves the server out; misspelt
    members are refused, others ignored. In all these texts ``${NAME}``, or ``${env:NAME}``, stands
    for a variable of our environment, and ``${NAME:-text}`` for the text when that is not set. A
    file is UTF-8 and may have comments, and commas after the last item, as VS Code writes them.

    Args:
        config: A file, the mapping that it would hold, or a mapping of names to entries and targets
            of `connect`.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no JSON, or no object of servers.
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
            expect(name, str, "a server's name is a str")
        return Servers("", "", table)
    path = os.fspath(config)
    expect(path, str, "a config is named by a str or a path")
    return Servers(path, os.path.dirname(os.path.abspath(path)), _file(path))


def _file(path: str) -> Mapping[str, Any]:
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode("utf-8-sig")
        whole = read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: line {error.lineno}, column {error.colno}: no JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{path}: must be an object, not {described(whole)}")
    found = [member for member in TABLES if member in whole]
    if len(found) != 1:
        raise ValueError(
            f"{path}: must have {' or '.join(TABLES)}, and has {'both' if found else 'neither'}"
        )
    if found[0] == "mcpServers" and strict_json(text) != text:
        log.warning(
            "%s has comments, or a comma after the last item: other hosts than VS Code may refuse it",
            path,
        )
    whole_path = os.path.abspath(path).replace(os.sep, "/")
    read = [table for end, table in READ_BY_HOSTS.items() if whole_path.endswith("/" + end)]
    if read and found != read:
        log.warning(
            "%s has %s, and the host of a file of this name reads %s", path, found[0], read[0]
        )
    table = whole[found[0]]
    if not isinstance(table, dict):
        raise ValueError(f"{path}: {found[0]}: must be an object, not {described(table)}")
    return table


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


def _target(entry: Mapping[str, Any], folder: str) -> Any:
    """What `connect` takes for an entry. Raises ValueError: it makes no sense; the message begins
    with the member."""
    if entry.get("disabled", False) is not False:
        raise ValueError(
            f"disabled: {'it is' if entry['disabled'] is True else 'must be true or false'}"
        )
    for member in entry.keys() - {*MEMBERS}:
        meant = MISSPELT.get(member) or nearest(
            member, [name for name in MEMBERS if name[:1] == member[:1]]
        )
        if meant is not None:
            raise ValueError(f"{member}: is not read here: write {meant}")
    named = entry.get("type", "http" if "url" in entry else "stdio")
    if not isinstance(named, str) or named not in REMOTE:
        raise ValueError(f"type: must be {listed(REMOTE)}, not {described(named)}")
    needed, other = ("url", "command") if REMOTE[named] else ("command", "url")
    if other in entry:
        raise ValueError(
            f"{other}: does not go together with {needed if needed in entry else f'type {named!r}'}"
        )
    first = _text(needed, entry)
    if not REMOTE[named]:
        cwd = os.path.join(folder, _text("cwd", entry)) if "cwd" in entry else None
        args = entry.get("args", [])
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"args: must be a list of strings, not {described(args)}")
        words = [_expanded(f"args[{at}]", value) for at, value in enumerate(args)]
        return StdioServer([first, *words], env=_texts("env", entry), cwd=cwd)
    from ..http.client import HttpServer

    headers = _texts("headers", entry)
    try:
        return HttpServer(first, headers=headers)
    except ValueError as error:
        raise ValueError(f"url: {error}") from None


def _text(member: str, entry: Mapping[str, Any]) -> str:
    text = _expanded(member, entry[member]) if member in entry else None
    if not text:
        near = None if member in entry else nearest(member, entry)
        meant = f", did you mean it by {near!r}?" if near else ""
        raise ValueError(f"{member}: is {'missing' if text is None else 'empty'}{meant}")
    return text


def _texts(member: str, entry: Mapping[str, Any]) -> dict[str, str]:
    values = entry.get(member, {})
    if not isinstance(values, Mapping):
        raise ValueError(f"{member}: must be an object of strings, not {described(values)}")
    return {name: _expanded(f"{member}.{name}", value) for name, value in values.items()}


def _expanded(member: str, value: Any) -> str:
    """A text with the values of the variables that it names."""
    if not isinstance(value, str):
        raise ValueError(f"{member}: must be a string, not {described(value)}")

    def put(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name is None:
            raise ValueError(
                f"{member}: {found[0]} is not known here: ${{NAME}} and ${{NAME:-default}} are"
            )
        known = os.environ.get(name, default)
        if known is None:
            raise ValueError(f"{member}: the environment variable {name} is not set")
        return known

    return _VARIABLE.sub(put, value)
