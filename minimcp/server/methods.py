"""Methods of an author's own: requests that the specification does not know.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence

from ..engine.requests import IncomingRequest, Route
from ..protocol.messages import Json
from ..protocol.versions import REVISIONS, Revision
from ..schema.annotations import write_any
from .context import Context
from .facts import Facts
from .feature import Destination, Feature
from .middleware import run_through
from .places import route_to
from .registered import positions, where
from .tables import Registered, Table

TAKEN = frozenset().union(*(each.requests_to_server | each.requests_to_client for each in REVISIONS))
"""The methods of the specification, in either direction and any revision."""

KEPT_FREE = ("rpc.", "notifications/", "tasks/")
"""What names of methods must not begin with: they are JSON-RPC's own, no requests, or an extension's."""


class RegisteredMethod(Registered):
    """One method of an author's own.

    Args:
        facts: Of the server.
        function: What the author wrote.
        name: Of the method.
    """

    def __init__(self, facts: Facts, function: Callable[..., Any], name: str) -> None:
        super().__init__(facts)
        self.function, self.shown = function, name
        owner = f"method {name!r}"
        self._takes_context = positions(function, owner, ("params", "ctx"), least=1) == 2

    def result(self, exchange: IncomingRequest) -> dict[str, Json]:
        """Call the function, which may raise anything.

        Raises:
            TypeError: What it returned is neither an object nor None.
        """
        context = Context(exchange)
        call = partial(self.function, exchange.request.params, *([context] if self._takes_context else ()))
        value = run_through(self.layers, context, call) if any(self.layers) else call()
        written = {} if value is None else write_any(value)
        if not isinstance(written, dict):
            raise TypeError(f"the method {self.shown!r} returned {type(value).__name__}: return a dict, or None")
        return written

    def __repr__(self) -> str:
        return f"<RegisteredMethod {self.shown!r} = {where(self.function)}>"


class Methods(Feature):
    """All methods of one server that are its author's own. They are served in every revision, and declared in none.

    Args:
        facts: Of the server.
    """

    kind = "methods"

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._methods: Table[RegisteredMethod] = Table("method", lambda method: where(method.function))

    def add(self, function: Callable[..., Any], name: str, *, replace: bool = False) -> None:
        """Register a function. The arguments are those of `Server.method`.

        Raises:
            TypeError: The function cannot serve a method; the message says what to write instead.
            ValueError: The name is taken, or none that an author can take.
        """
        if not name or name in TAKEN or name.startswith(KEPT_FREE):
            raise ValueError(f"{name!r} belongs to the protocol: write a name like 'vendor/thing'")
        self._methods.add(name, RegisteredMethod(self._facts, function, name), replace=replace)
        self.offered = True
        self._facts.changed(self.kind)

    def routes(self) -> Mapping[str, Destination]:
        return {}

    def declared(self, revision: Revision) -> Optional[Mapping[str, Json]]:
        return None

    def tables(self) -> Sequence[Table[Any]]:
        return (self._methods,)

    def route(self, name: str) -> Optional[Route]:
        """Where requests of a method go; None when there is no such method."""
        method = self._methods.get(name)
        return None if method is None else route_to(partial(self._serve, method), method.place)

    def _serve(self, method: RegisteredMethod, exchange: IncomingRequest) -> dict[str, Json]:
        return self._facts.closed(method.result(exchange), exchange.peer.revision)
