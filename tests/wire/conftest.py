"""Servers for the tests of this folder: one that a test has to itself, and one that a whole file shares."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

import pytest

from .harness import RawServer

Serve = Callable[..., RawServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that end with the test, each by the end of its input, with exit code 0 and nothing left over.

    A server that the test ended itself is only cleared away.
    """
    started: list[RawServer] = []

    def start(revision: Optional[str] = None, **options: Any) -> RawServer:
        started.append(RawServer(revision, **options))
        return started[-1]

    try:
        yield start
        for server in started:
            if server.process.returncode is None:
                assert server.finish() == []
    finally:
        for server in started:
            server.dispose()


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> None:
    """As for every test, but a test may be the first to need a server that its file shares."""
    if "shared" not in request.fixturenames:
        request.getfixturevalue("leaves_nothing_behind")


@pytest.fixture(scope="module")
def shared() -> Iterator[Serve]:
    """Servers that the tests of one file share, one for each set of arguments."""
    running: dict[str, RawServer] = {}

    def get(revision: Optional[str] = None, **options: Any) -> RawServer:
        key = f"{revision} {sorted(options.items())}"
        if key not in running or running[key].process.poll() is not None:
            running[key] = RawServer(revision, **options)
        return running[key]

    try:
        yield get
        for server in running.values():
            assert server.finish() == []
    finally:
        for server in running.values():
            server.dispose()
