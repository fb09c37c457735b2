"""``minimcp call``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Iterable, Mapping, Sequence

from .. import CallToolResult, Client, Text, Tool
from ..schema.mismatch import listed, nearest
from .asking import Asker
from .bar import ProgressBar
from .ending import UsageError
from .listing import properties, signature
from .parsing import Parser, client_parser, open_target
from .screen import clean, say
from .values import read_object, read_pairs

STDIN = "-"

MOST_GUESSES = 3
"""Names that a message suggests at most."""


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    options = _parser(prog).parse_intermixed_args(arguments)
    given = _given_whole(options)
    bar = ProgressBar(options.quiet)
    with open_target(options, elicit=Asker(bar.end)) as client:
        tool = _find(client, options.tool)
        pairs = [word for word in options.arguments if word != STDIN]
        values = {**given, **read_pairs(pairs, tool.input_schema)}
        _check_all_there(tool, values)
        try:
            result = client.call_tool(tool.name, values, on_progress=bar, raise_on_error=False)
        finally:
            bar.end()
    return _show(result, options.output, prog)


def _parser(prog: str) -> Parser:
    parser = client_parser(prog, "Call a tool and print what it gives. A tool's own error goes to stderr.")
    parser.add_argument("tool", metavar="TOOL", help="its name")
    parser.add_argument(
        "arguments", nargs="*", default=[], metavar="key=value",
        help="an argument, read as the tool's schema asks (a list: JSON, or the key several times); "
             "a lone - takes a JSON object from stdin",
    )
    parser.add_argument("--json", metavar="OBJECT", help="the arguments as one JSON object; key=value goes over it")
    parser.add_argument("--quiet", action="store_true", help="no progress bar on stderr")
    return parser


def _given_whole(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that come as JSON, from stdin and from ``--json``."""
    values: dict[str, Any] = {}
    if STDIN in options.arguments:
        values.update(read_object(sys.stdin.read(), "stdin"))
    if options.json is not None:
        values.update(read_object(options.json, "--json"))
    return values


def _find(client: Client, name: str) -> Tool:
    tools = {tool.name: tool for tool in client.list_tools()}
    if name in tools:
        return tools[name]
    near = near_misses(name, tools)
    hint = f", did you mean {near}? It" if near else ": it"
    raise UsageError(f"the server has no tool {name!r}{hint} has {', '.join(tools) or 'none'}")


def near_misses(name: str, known: Iterable[str]) -> str:
    """What somebody who typed this name may have meant, in words; empty when nothing comes near."""
    near = [each for each in known if nearest(name, [each]) or name.lower() in each.lower()]
    return listed(near[:MOST_GUESSES]) if near else ""


def _check_all_there(tool: Tool, values: Mapping[str, Any]) -> None:
    """Leave everything else about the arguments to the server, which says it better."""
    required = tool.input_schema.get("required")
    names = [str(name) for name in required] if isinstance(required, list) else []
    missing = [name for name in names if name not in values]
    if missing:
        meant = {name: near_misses(name, missing) for name in values if name not in properties(tool)}
        swaps = ", ".join([f"{near} instead of {name}" for name, near in meant.items() if near])
        hint = f" (did you mean {swaps}?)" if swaps else ""
        are = "is" if len(missing) == 1 else "are"
        raise UsageError(f"{listed(missing, 'and')} {are} missing{hint}: {signature(tool)}")


def _show(result: CallToolResult, output: str, prog: str) -> int:
    if output == "json":
        say(json.dumps(result.to_wire(), indent=2))
    elif result.is_error:
        say(f"{prog}: {clean(result.text) or 'the tool failed and does not say why'}", file=sys.stderr)
    else:
        for line in _lines(result):
            say(line)
    return 1 if result.is_error else 0


def _lines(result: CallToolResult) -> list[str]:
    if not result.content and result.has_structured_content:
        return [json.dumps(result.structured_content, indent=2)]
    return [block_text(block) for block in result.content]


def block_text(block: Any) -> str:
    """One content block as text; what is none is named, as bytes of a resource are."""
    if isinstance(block, Text):
        return clean(block.text) if sys.stdout.isatty() else block.text
    details = [getattr(block, name, None) for name in ("uri", "mime_type")]
    data = getattr(block, "data", None)
    size = f"{len(data)} bytes" if isinstance(data, bytes) else None
    words = [str(word) for word in (getattr(block, "type", "content"), *details, size) if word]
    return clean(f"[{', '.join(words)}]")
