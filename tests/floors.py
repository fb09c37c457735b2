"""The floors of the house (design: an import goes down), as a table that tests and CI share.

``python -m tests.floors sources 0 3`` prints the files of floors 0 to 3 as patterns for coverage;
``python -m tests.floors tests 0 4`` prints the test files that mirror them.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from typing import List, Optional, Tuple

from .support import ROOT

FLOORS: Tuple[Tuple[float, Tuple[str, ...]], ...] = (
    (0, ("errors.py", "clock.py", "deadline.py", "log.py", "version.py", "paths.py")),
    (0, ("late.py", "options.py", "functions.py")),
    (1, ("jsonrpc.py", "types/*", "sse.py", "schema/*", "uri_template.py", "uri_expansion.py", "marks.py")),
    (1, ("overlong.py",)),
    (2, ("revisions.py", "remedies.py")),
    (3, ("pipe.py", "table.py", "session.py", "eras.py", "workers.py", "channel.py", "exchange.py")),
    (3, ("outbox.py", "lane.py", "alarm.py", "dispatch.py", "inbound.py", "outgoing.py", "limits.py", "cancel.py")),
    (3, ("control.py", "role.py", "intake.py", "notices.py", "failures.py")),
    (3, ("executors.py", "serial.py", "pump.py", "places.py")),
    (4, ("features/*",)),
    (4.5, ("fetch.py", "sending.py")),
    (5, ("transports/*", "auth/*")),
    (6, ("client.py", "connecting.py", "server.py", "run.py")),
    (6, ("registration.py", "server_role.py", "listening.py", "streams.py", "turn.py")),
    (6, ("handlers.py", "answering.py", "rounds.py")),
    (6, ("arguments.py", "callbacks.py", "calls.py", "futures.py", "negotiation.py", "outputs.py", "repeating.py")),
    (6, ("typed.py", "tool_calls.py", "meanings.py", "cache.py", "cacheable.py", "link.py")),
    (6, ("config.py", "group.py", "targets.py", "recognition.py", "web.py", "server_options.py")),
    (7, ("__init__.py", "testing.py", "transcript.py")),
    (8, ("cli/*", "__main__.py", "trace.py")),
)
"""Paths below minimcp/ by floor; ``*`` reaches into sub-folders."""

PACKAGE = ROOT / "minimcp"


def floor_of(path: str) -> Optional[float]:
    """The floor of a file named relative to minimcp/; None when the table does not know it."""
    return next((floor for floor, names in FLOORS if any(fnmatch(path, name) for name in names)), None)


def sources() -> List[str]:
    """Every module of the package, relative to minimcp/."""
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def between(lowest: float, highest: float) -> List[str]:
    """The modules that stand on these floors."""
    return [path for path in sources() if lowest <= (floor_of(path) or 0) <= highest]


def mirrors(lowest: float, highest: float) -> List[str]:
    """The test files, relative to the repository, that mirror modules of these floors, and those in their folders."""
    wanted = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT / "tests")
        floor = floor_of((name.parent / name.name[len("test_") :]).as_posix())
        if floor is not None and lowest <= floor <= highest:
            wanted.append(path.relative_to(ROOT).as_posix())
    return wanted


def main(arguments: List[str]) -> int:
    """Print one name per line."""
    what, lowest, highest = arguments[0], float(arguments[1]), float(arguments[2])
    names = ["minimcp/" + path for path in between(lowest, highest)] if what == "sources" else mirrors(lowest, highest)
    print("\n".join(names))
    return 0 if names else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
