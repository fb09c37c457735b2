"""Ways to the server of resources_server.py: over memory and stdio, in every revision."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Callable, Dict, Iterator, NamedTuple

import pytest

import minimcp
from minimcp import Client

from ..answering import R5, REVISIONS
from ..support import WAIT, outlives_the_test
from .links import LINKS, served

STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "shelf", "version": "1.3"}}


class Link(NamedTuple):
    """One way to a server, and a client that has gone it."""

    transport: str
    revision: str
    client: Client

    @property
    def handshake(self) -> bool:
        return self.revision != R5

    def since(self, revision: str) -> bool:
        """Whether something that came with `revision` is there."""
        return REVISIONS.index(self.revision) >= REVISIONS.index(revision)

    def result(self, method: str, **params: Any) -> Dict[str, Any]:
        """A result as it came, without what every result of the newest revision carries."""
        result = self.client.request(method, params)
        if not self.handshake:
            assert result.pop("resultType") == "complete"
            own = {key: value for key, value in result.pop("_meta").items() if STAMP.get(key) != value}
            result.update({"_meta": own} if own else {})
        return result


Open = Callable[..., Client]


def connected(transport: str, revision: str, options: Dict[str, Any], **keywords: Any) -> Client:
    target = served(transport, "resources_server", **options)
    return minimcp.connect(target, revision=revision, timeout=WAIT, **keywords)


@pytest.fixture(scope="module", params=LINKS, ids="-".join)
def shelf(request: pytest.FixtureRequest) -> Iterator[Link]:
    with ExitStack() as stack:
        with outlives_the_test():
            client = stack.enter_context(connected(*request.param, {}))
        yield Link(*request.param, client)


@pytest.fixture
def opened_shelf(shelf: Link) -> Iterator[Open]:
    """Opens clients of a server of their own; the keywords are the client's."""
    with ExitStack() as stack:
        yield lambda options=None, **keywords: stack.enter_context(
            connected(shelf.transport, shelf.revision, options or {}, **keywords)
        )
