"""`Feature`: what each kind of thing that a server offers has in common."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Mapping, Optional, Sequence, Union

from ..engine.requests import Route
from ..protocol.messages import Json, Request
from ..protocol.versions import Revision
from .tables import Table

Destination = Union[Route, Callable[[Request], Route]]
"""Where the requests of a method go: a route, or what finds one for a request (it may raise an RpcError)."""


class Feature:
    """One kind of thing that a server offers: its methods, and what is declared to clients.

    ``offered`` turns true with the first thing of its kind, or when the kind is announced, and stays so: taking the
    last one away does not change what was declared.
    """

    kind: ClassVar[str]
    """Its name among the server's capabilities, and in ``Server(capabilities={...})``."""

    offered = False

    def routes(self) -> Mapping[str, Destination]:
        """Its methods. One that the revision of a request does not have is refused before it gets here."""
        raise NotImplementedError

    def tables(self) -> Sequence[Table[Any]]:
        """What it has by name, for servers that mount its own: always the same tables, in the same order."""
        return ()

    def follow(self, other: Any) -> None:
        """The same feature of a server that is mounted has more or fewer things now."""
        self.offered = self.offered or other.offered
        for table in self.tables():
            table.refresh()
        self.forget()

    def forget(self) -> None:
        """What is kept of its lists is no longer true."""

    def declared(self, revision: Revision) -> Optional[Mapping[str, Json]]:
        """What stands under its name in the capabilities, once it is offered; None where there is no such name."""
        raise NotImplementedError
