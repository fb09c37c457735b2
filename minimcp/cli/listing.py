"""``minimcp list``. Floor 8."""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Sequence

from .. import Client, Tool
from .parsing import client_parser, open_target
from .screen import clean, one_line, say


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    options = client_parser(prog, "Show the tools of a server, with their arguments.").parse_args(arguments)
    with open_target(options) as client:
        tools = client.list_tools() if "tools" in client.capabilities else []
        if options.output == "json":
            say(json.dumps({"tools": [tool.to_wire() for tool in tools]}, indent=2))
        else:
            say("\n".join([*_heading(client), *_tools(tools)]))
    return 0


def _heading(client: Client) -> Iterator[str]:
    yield f"{server_name(client)}, revision {client.revision}"
    if client.instructions:
        yield from _indented(client.instructions, 2)
    yield ""


def server_name(client: Client) -> str:
    """The server's name and version in one line."""
    info = client.server_info
    return "a server without a name" if info is None else one_line(f"{info.name} {info.version}")


def _tools(tools: Sequence[Tool]) -> Iterator[str]:
    if not tools:
        yield "no tools"
    for tool in tools:
        yield signature(tool)
        yield from _indented(tool.description or "", 4)
        for name, schema in properties(tool).items():
            text = schema.get("description") if isinstance(schema, Mapping) else None
            if isinstance(text, str):
                yield f"      {one_line(name)}: {one_line(text)}"


def properties(tool: Tool) -> Mapping[str, Any]:
    """The schemas of a tool's arguments, by name."""
    properties = tool.input_schema.get("properties") if isinstance(tool.input_schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def signature(tool: Tool) -> str:
    """A tool as a line of Python would declare it: ``price(bread: string, loaves: integer = 1)``."""
    required = tool.input_schema.get("required")
    needed = required if isinstance(required, list) else []
    parts = [_parameter(name, schema, name in needed) for name, schema in properties(tool).items()]
    return one_line(f"{tool.name}({', '.join(parts)})")


def _parameter(name: str, schema: Any, needed: bool) -> str:
    known = schema if isinstance(schema, Mapping) else {}
    if "default" in known:
        return f"{name}: {kind(known)} = {json.dumps(known['default'], ensure_ascii=False)}"
    return f"{name}: {kind(known)}" if needed else f"[{name}: {kind(known)}]"


def kind(schema: Mapping[str, Any]) -> str:
    """A schema in a few words: "string", "integer or null", "one of 1, 2"; "any" when it says nothing simple."""
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return " or ".join(kind(each) for each in schema[word] if isinstance(each, Mapping))
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    items = schema.get("items")
    if named == "array" and isinstance(items, Mapping):
        return f"array of {kind(items)}"
    return named if isinstance(named, str) else "any"


def _indented(text: str, by: int) -> Iterator[str]:
    for line in clean(text).strip().splitlines():
        yield (" " * by + line).rstrip()
