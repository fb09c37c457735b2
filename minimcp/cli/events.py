"""The commands ``events list``, ``events poll`` and ``events follow``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from typing import Any, Iterable, Mapping, Optional, Sequence

from .. import Client, EventType, Occurrence
from ..terminal import ProgressBar, parameters
from ..text import json_printable
from . import UsageError, clean, commands, one_line, print_error
from .terminal import read_pairs


def _list(client: Client, options: argparse.Namespace, bar: ProgressBar) -> commands.Found:
    found = client.list_events()
    lines = []
    for each in found:
        schema = each.input_schema
        lines.append(one_line(f"{each.name}({parameters(schema, schema)}): {_modes(each)}"))
        lines += [f"    {line}" for line in clean(each.description).splitlines()]
    listed = [
        {"name": each.name, "description": each.description, "delivery": list(each.delivery)}
        for each in found
    ]
    return {"events": listed}, lines or ["no event types"], 0


def _modes(kind: EventType) -> str:
    return ", ".join(kind.delivery) or "no known delivery"


def _poll(client: Client, options: argparse.Namespace, bar: ProgressBar) -> commands.Found:
    batch = client.poll_events(
        options.name, _arguments(client, options), cursor=_read_cursor(options.cursor)
    )
    if batch.truncated:
        print_error(options.prog, "events before these may be missing")
    _print(batch, options)
    _write_cursor(options.cursor, batch.cursor)
    return {"cursor": batch.cursor}, [], 0


def _follow(client: Client, options: argparse.Namespace, bar: ProgressBar) -> commands.Found:
    arguments = _arguments(client, options)
    with client.events(options.name, arguments, cursor=_read_cursor(options.cursor)) as stream:
        _write_cursor(options.cursor, stream.cursor)
        for event in stream:
            if event.missed:
                print_error(options.prog, "events before this one may be missing")
            _print([event], options)
            _write_cursor(options.cursor, stream.cursor)
    return None, [], 0


def _arguments(client: Client, options: argparse.Namespace) -> dict[str, Any]:
    for each in client.list_events():
        if each.name == options.name:
            return read_pairs(options.arguments, each.input_schema)
    raise UsageError(f"the server has no event type {options.name!r} (see events list)")


def _print(events: Iterable[Occurrence], options: argparse.Namespace) -> None:
    """Print one line for each event."""
    for each in events:
        wire = each.to_wire()
        text = json.dumps(wire["data"], ensure_ascii=False)
        line = f"{wire['timestamp']} {each.id} {text}"
        if options.json:
            line = json.dumps(wire)
        print(json_printable(line) if options.json else one_line(line))
    sys.stdout.flush()


# A cursor may have any characters.
_AS_SENT: Mapping[str, Any] = {"encoding": "utf-8", "errors": "surrogatepass", "newline": ""}


def _read_cursor(path: Optional[str]) -> Optional[str]:
    if path is None or not os.path.exists(path):
        return None
    with open(path, **_AS_SENT) as file:
        text: str = file.read()
    return text.strip() or None


def _write_cursor(path: Optional[str], cursor: Optional[str]) -> None:
    """Replace the file, so that it is complete at every moment."""
    if path is not None and cursor is not None:
        with open(f"{path}.new", "w", **_AS_SENT) as file:
            file.write(cursor)
        os.replace(f"{path}.new", path)


_ARGUMENTS: Sequence[tuple[str, dict[str, Any]]] = (
    ("name", {"metavar": "NAME", "help": "the event type"}),
    (
        "arguments",
        {
            "nargs": "*",
            "default": [],
            "metavar": "key=value",
            "help": "an argument of the subscription, converted as its schema says",
        },
    ),
    (
        "--cursor",
        {
            "metavar": "FILE",
            "help": "read the position from this file, and write the new one to it",
        },
    ),
    ("--json", {"action": "store_true", "help": "print each event as one JSON object"}),
)

COMMANDS = {
    "list": partial(commands._run, _list, "List the event types of a server.", ()),
    "poll": partial(
        commands._run, _poll, "Print the events since the cursor, one on a line.", _ARGUMENTS
    ),
    "follow": partial(
        commands._run, _follow, "Print events as they occur, until Ctrl-C.", _ARGUMENTS
    ),
}


def events_command(arguments: Sequence[str], prog: str) -> int:
    """Run ``events list``, ``events poll`` or ``events follow``."""
    action = arguments[0] if arguments else ""
    if action in COMMANDS:
        return COMMANDS[action](arguments[1:], f"{prog} {action}")
    if action not in ("-h", "--help"):
        names = ", ".join(COMMANDS)
        raise UsageError(f"after events write one of {names}, then TARGET (see {prog} --help)")
    print(
        f"usage: {prog} list TARGET | poll TARGET NAME | follow TARGET NAME\n\n"
        f"Inspect the events of a server. See {prog} poll --help for more."
    )
    return 0
