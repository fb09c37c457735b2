"""``minimcp prompt``."""

from __future__ import annotations

import json
from typing import Sequence

from .asking import Asker
from .calling import block_text
from .ending import UsageError
from .parsing import client_parser, open_target
from .screen import clean, say


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    parser = client_parser(prog, "Get a prompt and print its messages.")
    parser.add_argument("name", metavar="NAME", help="of the prompt")
    parser.add_argument("arguments", nargs="*", default=[], metavar="key=value", help="an argument; all are text")
    options = parser.parse_intermixed_args(arguments)
    texts = dict(_pair(word) for word in options.arguments)
    with open_target(options, elicit=Asker()) as client:
        result = client.get_prompt(options.name, texts)
    if options.output == "json":
        say(json.dumps(result.to_wire(), indent=2))
    else:
        for message in result.messages:
            say(f"{clean(message.role)}: {block_text(message.content)}")
    return 0


def _pair(word: str) -> tuple[str, str]:
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise UsageError(f"{word!r} is not key=value")
    return name, text
