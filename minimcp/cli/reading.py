"""``minimcp read``."""

from __future__ import annotations

import json
import sys
from typing import Sequence

from ..types import ResourceContents
from .asking import Asker
from .calling import block_text
from .parsing import client_parser, open_target
from .screen import clean, say


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    parser = client_parser(prog, "Read a resource and print it. Bytes are written as they are, but not to a terminal.")
    parser.add_argument("uri", metavar="URI", help="as the server lists it, or made from a template")
    options = parser.parse_args(arguments)
    with open_target(options, elicit=Asker()) as client:
        result = client.read_resource(options.uri)
    if options.output == "json":
        say(json.dumps(result.to_wire(), indent=2))
    else:
        for item in result.contents:
            _show(item)
    return 0


def _show(item: ResourceContents) -> None:
    seen, raw = sys.stdout.isatty(), getattr(sys.stdout, "buffer", None)
    if item.text is not None:
        say(clean(item.text) if seen else item.text)
    elif seen or raw is None:
        say(block_text(item))
    else:
        sys.stdout.flush()
        raw.write(item.data)
