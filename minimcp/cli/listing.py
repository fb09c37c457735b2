"""``minimcp list``."""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Sequence, Union

from .. import Client, Prompt, Resource, ResourceTemplate, Tool
from .parsing import client_parser, open_target
from .screen import clean, one_line, say
from .values import resolved


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    about = "Show the tools, resources and prompts of a server, with their arguments."
    options = client_parser(prog, about).parse_args(arguments)
    with open_target(options) as client:
        lists = _lists(client)
        if options.output == "json":
            say(json.dumps({name: [each.to_wire() for each in items] for name, items in lists.items()}, indent=2))
        else:
            say("\n".join([*_heading(client), "\n\n".join(_sections(lists))]))
    return 0


def _lists(client: Client) -> dict[str, Sequence[Any]]:
    """What the server offers, by the names that the lists have on the wire."""
    has_resources = "resources" in client.capabilities
    return {
        "tools": client.list_tools() if "tools" in client.capabilities else [],
        "resources": client.list_resources() if has_resources else [],
        "resourceTemplates": client.list_resource_templates() if has_resources else [],
        "prompts": client.list_prompts() if "prompts" in client.capabilities else [],
    }


def _sections(lists: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """What there is of each kind. Tools come without a heading, as most servers have nothing else."""
    if lists["tools"] or not any(lists.values()):
        yield "\n".join(_tools(lists["tools"]))
    for name, heading, lines in (
        ("resources", "resources", _resource),
        ("resourceTemplates", "resource templates", _resource),
        ("prompts", "prompts", _prompt),
    ):
        if lists[name]:
            yield "\n".join([f"{heading}:", "", *(line for each in lists[name] for line in lines(each))])


def _resource(shown: Union[Resource, ResourceTemplate]) -> Iterator[str]:
    uri = shown.uri if isinstance(shown, Resource) else shown.uri_template
    size = f"{shown.size} bytes" if isinstance(shown, Resource) and shown.size is not None else None
    details = [word for word in (shown.display_name, shown.mime_type, size) if word]
    yield one_line(f"{uri} ({', '.join(details)})")
    yield from _indented(shown.description or "", 4)


def _prompt(prompt: Prompt) -> Iterator[str]:
    arguments = prompt.arguments or []
    names = [each.name if each.required else f"[{each.name}]" for each in arguments]
    yield one_line(f"{prompt.name}({', '.join(names)})")
    yield from _indented(prompt.description or "", 4)
    for each in arguments:
        if each.description:
            yield f"      {one_line(each.name)}: {one_line(each.description)}"


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
    parts = [_parameter(name, schema, name in needed, tool.input_schema) for name, schema in properties(tool).items()]
    return one_line(f"{tool.name}({', '.join(parts)})")


def _parameter(
    name: str, schema: Any, needed: bool, root: Mapping[str, Any], deep: bool = True, most: int = 8
) -> str:
    known = schema if isinstance(schema, Mapping) else {}
    words = kind(known, root, deep, most)
    if "default" in known:
        return f"{name}: {words} = {json.dumps(known['default'], ensure_ascii=False)}"
    return f"{name}: {words}" if needed else f"[{name}: {words}]"


TIMES = {"date": "date", "time": "time", "date-time": "date and time"}
"""Formats that are shown in place of the type "string"."""


def kind(schema: Mapping[str, Any], root: Mapping[str, Any] = {}, deep: bool = True, most: int = 8) -> str:
    """A schema in a few words: "string", "integer or null", "one of 1, 2"; "any" when it says nothing simple.

    Args:
        schema: What a value should be.
        root: Where references in it point to.
        deep: Whether the fields of an object are named.
        most: Levels that are shown; a schema may go round in circles.
    """
    schema = resolved(schema, root) if most else {}
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return " or ".join(kind(each, root, deep, most - 1) for each in schema[word] if isinstance(each, Mapping))
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    items = schema.get("items")
    if named == "array" and isinstance(items, Mapping):
        return f"array of {kind(items, root, deep, most - 1)}"
    fields = schema.get("properties")
    if isinstance(fields, Mapping) and fields and deep:
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        shown = (_parameter(name, each, name in needed, root, False, most - 1) for name, each in fields.items())
        return f"object ({', '.join(shown)})"
    if named == "string":
        return TIMES.get(str(schema.get("format")), named)
    return named if isinstance(named, str) else "any"


def _indented(text: str, by: int) -> Iterator[str]:
    for line in clean(text).strip().splitlines():
        yield (" " * by + line).rstrip()
