"""Servers for the tests of this folder: one for a single test, and one that a whole file shares."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional, Tuple

import pytest

import minimcp
from minimcp.client import connect as connecting
from minimcp.engine import connection as channel
from minimcp.stdio import child

from ..support import WAIT, eventually, held
from .clients import ERAS, Both, ScriptedServer, lives, make_scripted  # noqa: F401, a fixture
from .harness import RawServer
from .messages import EVERY, MODERN

Serve = Callable[..., RawServer]
Talking = Callable[[str], Tuple[ScriptedServer, minimcp.Client]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that end with the test, each by the end of its input, with exit code 0 and
    nothing left over.

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


@pytest.fixture(params=["2025-06-18", MODERN])
def server(request: pytest.FixtureRequest, shared: Serve) -> Iterator[RawServer]:
    """Yield a server that the file shares, in one revision of each era or those of `speaking`.

    After the test it must work and have sent nothing more.
    """
    found = shared(request.param)
    found.fence()
    yield found
    found.lives()


def speaking(*revisions: str) -> pytest.MarkDecorator:
    """Run a test with `server` in these revisions."""
    return pytest.mark.parametrize("server", revisions, indirect=True)


every = speaking(*EVERY)


@pytest.fixture
def older(shared: Serve) -> Iterator[RawServer]:
    """Yield `server` in a session of 2025-06-18."""
    found = shared("2025-06-18")
    yield found
    found.lives()


@pytest.fixture
def newer(shared: Serve) -> Iterator[RawServer]:
    """Yield `server` without a session."""
    found = shared(MODERN)
    yield found
    found.lives()


@pytest.fixture
def patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a client wait as long as a slow machine needs for the exit of a server and its last
    output."""
    if "hasty" not in request.fixturenames:
        monkeypatch.setattr(connecting, "CLOSE_SECONDS", WAIT)
        for name in ("SETTLE", "STDERR", "CONSUMER", "PATIENCE"):
            monkeypatch.setattr(child, f"{name}_SECONDS", WAIT)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the grace that a client allows a server at its end, for servers that do not use it."""
    monkeypatch.setattr(channel, "FLUSH_ON_CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(connecting, "CLOSE_SECONDS", 0.3)
    for name, seconds in {"SETTLE": 0.05, "CONSUMER": 0.05, "PATIENCE": 0.05}.items():
        monkeypatch.setattr(child, f"{name}_SECONDS", seconds)


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> None:
    """Run the check of every test, except if a test may start a server that its file shares."""
    if not {"shared", "talking"} & set(request.fixturenames):
        request.getfixturevalue("leaves_nothing_behind")


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talking]:
    """Scripted servers without a script and their clients, one for each revision, that the tests of
    one file share.

    Each test sees the journal from its own beginning. The tests of a file together must leave no
    more behind than a single test.
    """
    running: dict[str, Tuple[ScriptedServer, minimcp.Client]] = {}
    before = held()

    def get(revision: str) -> Tuple[ScriptedServer, minimcp.Client]:
        if revision not in running:
            server = ScriptedServer(tmp_path_factory.mktemp("talking"))
            running[revision] = server, server.connect(revision)
        server, client = running[revision]
        client.ping(timeout=WAIT)  # the messages of the previous test have arrived
        server.begin()
        return server, client

    try:
        yield get
    finally:
        for _, client in running.values():
            client.close()
    for server, _ in running.values():
        server.begin(whole=True)
        server.check()
    assert eventually(lambda: held().threads <= before.threads and held()[1:] == before[1:])


@pytest.fixture(params=ERAS)
def talking_both(request: pytest.FixtureRequest, talking: Talking) -> Iterator[Both]:
    """A scripted server that the file shares and its client, in one revision of each era; it works
    after the test."""
    server, client = talking(request.param)
    yield server, client
    lives(client)
