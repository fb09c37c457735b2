"""Custom methods: ``@server.method("vendor/thing")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping

from ..engine.incoming import IncomingRequest
from ..schema.annotations import write_any
from ..server.context import Context
from ..server.feature import Destination, Feature
from ..server.options import count_positional
from ..server.registered import Registered, ServerConfig, Table
from ..server.registry import SPECIFIED_METHODS

if TYPE_CHECKING:
    from ..server.registry import Registry

# Prefixes that belong to JSON-RPC, to notifications and to an extension. Custom methods cannot use
# them.
RESERVED_PREFIXES = ("rpc.", "notifications/", "tasks/")


class RegisteredMethod(Registered):
    """A custom method, which the specification does not define.

    Args:
        config: The server's configuration.
        function: The author's function.
        options: The options of the decorator.
        name: The name of the method.
        extension: Whether an extension of the protocol defines it.

    Raises:
        ValueError: The name belongs to the protocol.
        TypeError: The function cannot serve a method; the message says what to write instead.
    """

    kind = "method"

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        name: str,
        *,
        extension: bool = False,
    ) -> None:
        is_reserved = name.startswith(RESERVED_PREFIXES) and not extension
        if not name or name in SPECIFIED_METHODS or is_reserved:
            raise ValueError(f"{name!r} belongs to the protocol: write a name like 'vendor/thing'")
        super().__init__(config, function, name)
        self._takes_context = (
            count_positional(function, self.owner, ("params", "ctx"), least=1) == 2
        )

    def call(self, incoming: IncomingRequest) -> Any:
        if self._takes_context:
            return self.function(incoming.request.params, Context(incoming))
        return self.function(incoming.request.params)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        written = {} if value is None else write_any(value)
        if not isinstance(written, dict):
            raise TypeError(
                f"the method {self.key!r} returned {type(value).__name__}: return a dict or None"
            )
        return incoming.server.finalize_result(written, incoming.peer.revision)


class Methods(Feature):
    """The custom methods of one server.

    Args:
        registry: The server's registry.
    """

    makers = {"method": RegisteredMethod}

    def __init__(self, registry: Registry) -> None:
        self.table: Table[RegisteredMethod] = Table("method", "methods")
        self.tables = (self.table,)

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes of the custom methods."""
        return {name: method.route for name, method in list(self.table.items.items())}
