"""The pytest plugin with the fixture ``mcp_connect``. pytest finds it by the entry point of the
installed package.

Load the plugin of a vendored copy with ``-p the_copy.testing.plugin``.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Generator, Iterator

import pytest

if TYPE_CHECKING:
    from ..client.client import Client

MAX_SHOWN_LINES = 200
"""Maximum number of lines of a transcript in the report of a failed test."""

TRANSCRIPTS = pytest.StashKey[list[tuple[str, Any]]]()


@pytest.fixture
def mcp_connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Client]]:
    """Connect to a server: ``client = mcp_connect(server)``, or ``mcp_connect("server.py", ...)``
    for a child process.

    This is `minimcp.connect` with all its options. The client is closed at the end of the test. The
    report of a failed test shows the messages of the connection; pass ``trace=transcript`` to use
    them in the test.
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
    """Add the messages of connections to the report of a failed test."""
    report = (yield).get_result()
    for target, transcript in item.stash.get(TRANSCRIPTS, ()) if report.failed else ():
        text = "\n".join(str(transcript).splitlines()[-MAX_SHOWN_LINES:])
        report.sections.append(
            (f"MCP messages of {target}", text.encode("utf-8", "backslashreplace").decode())
        )
