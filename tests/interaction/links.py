"""Connections to the servers of this folder: in memory in all revisions, and as a process in one
revision of each era."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import pytest

import minimcp
from minimcp import Client, StdioServer

from ..answering import R4, R5, REVISIONS
from ..support import ROOT, WAIT, eventually, held, outlives_the_test

LINKS = [*(("memory", revision) for revision in REVISIONS), ("stdio", R4), ("stdio", R5)]

Open = Callable[..., Client]


def served(way: str, module: str, **options: Any) -> Any:
    """Return the server that a module of this folder builds, or the command of its process.

    Without site-packages, the process starts twice as fast.
    """
    if way == "stdio":
        command = [sys.executable, "-S", "-m", f"tests.interaction.{module}", json.dumps(options)]
        return StdioServer(command, cwd=str(ROOT))
    return import_module(f"tests.interaction.{module}").build(**options)


def stripped(client: Client, result: Dict[str, Any]) -> Dict[str, Any]:
    """A result without what every result of the newest revision carries."""
    if client.revision == R5:
        assert result.pop("resultType") == "complete" and client.server_info is not None
        meta = result.pop("_meta")
        info = meta.pop("io.modelcontextprotocol/serverInfo")
        assert (info["name"], info["version"]) == (
            client.server_info.name,
            client.server_info.version,
        )
        result.update({"_meta": meta} if meta else {})
    return result


class Link(NamedTuple):
    """A transport with a revision, and a connected client."""

    module: str
    transport: str
    revision: str
    shared: Optional[Client] = None

    @property
    def client(self) -> Client:
        assert self.shared is not None
        return self.shared

    @property
    def handshake(self) -> bool:
        return self.revision != R5

    def since(self, revision: str) -> bool:
        """Return whether the revision of the link is at least this one."""
        return REVISIONS.index(self.revision) >= REVISIONS.index(revision)

    def open(self, options: Optional[Dict[str, Any]] = None, **keywords: Any) -> Client:
        """Another client, of a server of its own with these options."""
        target = served(self.transport, self.module, **(options or {}))
        return minimcp.connect(target, revision=self.revision, timeout=WAIT, **keywords)

    def result(self, method: str, **params: Any) -> Dict[str, Any]:
        """Return a result as it arrived, without the common members of every result."""
        return stripped(self.client, self.client.request(method, params))


def link_to(module: str) -> Any:
    """A fixture: each way to the server of a module, with one client for all tests of a file."""

    @pytest.fixture(scope="module", params=LINKS, ids="-".join)
    def link(request: pytest.FixtureRequest) -> Iterator[Link]:
        way, before = Link(module, *request.param), held().named()
        with ExitStack() as stack:
            with outlives_the_test():
                client = stack.enter_context(way.open())
            own = held().named() - before
            yield way._replace(shared=client)
        assert eventually(lambda: not own & held().named()), (
            "a server in memory closes its end on its own thread"
        )

    return link


@pytest.fixture
def opened(link: Link) -> Iterator[Open]:
    """Opens clients of a server of their own; the keywords are the client's."""
    with ExitStack() as stack:
        yield lambda options=None, **keywords: stack.enter_context(link.open(options, **keywords))
