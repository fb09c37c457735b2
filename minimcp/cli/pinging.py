"""``minimcp ping``."""

from __future__ import annotations

import json
from typing import Sequence

from .listing import server_name
from .parsing import client_parser, open_target
from .screen import say


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    options = client_parser(prog, "Ask whether a server is there, and how fast it answers.").parse_args(arguments)
    with open_target(options) as client:
        seconds = client.ping()
        info, revision = client.server_info, client.revision
        name = server_name(client)
    if options.output == "json":
        described = {} if info is None else info.to_wire()
        say(json.dumps({"seconds": seconds, "revision": revision, "serverInfo": described}))
    else:
        say(f"{name} answered in {seconds * 1000:.1f} ms, revision {revision}")
    return 0
