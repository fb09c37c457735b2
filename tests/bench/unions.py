"""``python unions.py SUBJECT``: CPU seconds of a request whose argument nests 180 levels
of a recursive union and is wrong at the innermost one.

The subject "limit" only decodes the request; "minimcp" answers it, and its client reads the answer.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any, Union

from minimcp import Server, connect

DEPTH = 180


@dataclass
class And:
    left: "Filter"
    right: "Filter"


@dataclass
class Or:
    left: "Filter"
    right: "Filter"


@dataclass
class Not:
    inner: "Filter"


@dataclass
class Is:
    field: str
    value: int


Filter = Union[And, Or, Not, Is]

server = Server("filters")


@server.tool
def find(where: Filter) -> str:
    """Find what fits."""
    return "nothing"


def nested(depth: int) -> Any:
    found: Any = {"field": "a", "value": "wrong"}
    for _ in range(depth):
        found = {"left": found, "right": {"field": "b", "value": 2}}
    return found


def main(subject: str) -> int:
    arguments = {"where": nested(DEPTH)}
    line = json.dumps(arguments)
    with connect(server) as client:
        assert client.call_tool("find", {"where": nested(1)}, raise_on_error=False).is_error  # warm
        begin = time.process_time()
        if subject == "limit":
            json.loads(line)
        else:
            assert client.call_tool("find", arguments, raise_on_error=False).is_error
        print(time.process_time() - begin)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
