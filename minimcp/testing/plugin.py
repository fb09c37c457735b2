"""The plugin for pytest: the fixture ``mcp_connect``. pytest finds it by the entry point of the installed package.

A copy of this package is loaded by ``-p the_copy.testing.plugin``.
"""

from __future__ import annotations

import os
import re
import threading
import time
from contextlib import ExitStack, suppress
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterator

import pytest

if TYPE_CHECKING:
    from ..client.client import Client

SETTLE_SECONDS = 5.0
"""What a closed connection gets until its threads, processes and pipes are gone."""

SHOWN_LINES = 200
"""Of the end of a transcript, in the report of a test that failed."""

TRANSCRIPTS = pytest.StashKey[list[tuple[str, Any]]]()


@pytest.fixture
def mcp_connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Connect to a server: ``client = mcp_connect(server)``, or ``mcp_connect("server.py", ...)`` for a child process.

    It is `minimcp.connect`, with all its options; the client is closed at the end of the test. A test after which a
    thread, a process or a pipe of its connections is left has an error. The report of a test that failed shows what
    went over the wire; ``trace=transcript`` gives the test that, too.
    """
    from ..client.connect import connect
    from .transcript import Transcript

    before, held = _held(), set[str]()
    transcripts = request.node.stash[TRANSCRIPTS] = list[tuple[str, Any]]()
    with ExitStack() as clients:

        def connect_in_test(target: Any, **options: Any) -> Client:
            trace, others = options.setdefault("trace", Transcript()), _held()
            if isinstance(trace, Transcript):
                transcripts.append((f"{target!r:.100}", trace))
            client = clients.enter_context(connect(target, **options))
            held.update(_held() - others)
            return client

        yield connect_in_test
        held.update(each for each in _held() - before if each.startswith("thread"))
    if any(each.startswith("thread") for each in before):  # new ones of a pool may be for those who were there
        held = {each for each in held if not re.search(r"-\d+ \(", each)}
    end = time.monotonic() + SETTLE_SECONDS
    while held & _held() and time.monotonic() < end:
        time.sleep(0.01)
    left = held & _held()
    if left:
        pytest.fail(f"left behind by mcp_connect: {', '.join(sorted(left))}", pytrace=False)


def _held() -> set[str]:
    """The threads of connections; on Linux the pipes, sockets and child processes, too."""
    threads = (each for each in threading.enumerate() if re.match("minimcp-.+-.", each.name))
    held = {f"thread {each.name} ({each.ident})" for each in threads}
    for path in glob("/proc/self/fd/*"):
        with suppress(OSError):  # that of the listing itself
            held.update(re.findall(r"(?:pipe|socket):.*", os.readlink(path)))
    for path in glob("/proc/self/task/*/children"):
        with suppress(OSError):  # of a thread that has ended
            held.update(f"process {pid}" for pid in Path(path).read_text().split())
    return held


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add to the report of a failure what went over the wire."""
    report = (yield).get_result()
    for target, transcript in item.stash.get(TRANSCRIPTS, ()) if report.failed else ():
        text = "\n".join(str(transcript).splitlines()[-SHOWN_LINES:])
        report.sections.append((f"MCP messages of {target}", text.encode("utf-8", "backslashreplace").decode()))
