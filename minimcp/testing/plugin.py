"""The plugin for pytest: the fixture ``mcp_connect``. pytest finds it by the entry point of the
installed package.

A copy of this package is loaded by ``-p the_copy.testing.plugin``.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterator

import pytest

if TYPE_CHECKING:
    from ..client.client import Client

SHOWN_LINES = 200
"""Of the end of a transcript, in the report of a test that failed."""

TRANSCRIPTS = pytest.StashKey[list[tuple[str, Any]]]()


@pytest.fixture
def mcp_connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Connect to a server: ``client = mcp_connect(server)``, or ``mcp_connect("server.py", ...)``
    for a child process.

    It is `minimcp.connect`, with all its options; the client is closed at the end of the test. The
    report of a test that failed shows what went over the wire; ``trace=transcript`` gives the test
    that, too.
    """
    from ..client.connect import connect
    from .transcript import Transcript

    transcripts = request.node.stash[TRANSCRIPTS] = list[tuple[str, Any]]()
    with ExitStack() as clients:

        def connect_in_test(target: Any, **options: Any) -> Client:
            trace = options.setdefault("trace", Transcript())
            if isinstance(trace, Transcript):
                transcripts.append((f"{target!r:.100}", trace))
            return clients.enter_context(connect(target, **options))

        yield connect_in_test


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Add to the report of a failure what went over the wire."""
    report = (yield).get_result()
    for target, transcript in item.stash.get(TRANSCRIPTS, ()) if report.failed else ():
        text = "\n".join(str(transcript).splitlines()[-SHOWN_LINES:])
        report.sections.append(
            (f"MCP messages of {target}", text.encode("utf-8", "backslashreplace").decode())
        )
