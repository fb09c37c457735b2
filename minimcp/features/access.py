"""Authorization of calls by the scopes of their token: ``@server.tool(scopes=...)``.

https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ..engine.incoming import IncomingRequest, Route
from ..errors import InvalidRequest
from ..protocol.messages import Json
from ..server.feature import Feature, OptionSpec, RegisteredEntry

if TYPE_CHECKING:
    from ..server.registry import Registry

SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class Access(Feature):
    """Rejects calls whose token lacks a scope. Calls over stdio have no token and are not rejected.

    Args:
        registry: The server's registry.
    """

    options = {"scopes": OptionSpec((list, tuple, set, frozenset), "a list of scopes")}

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def listing(self, kind: str, name: str, options: Mapping[str, Any]) -> Mapping[str, Json]:
        """Check the scopes, which are not listed."""
        for scope in options.get("scopes", ()):
            if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
                raise ValueError(
                    f"{kind} {name!r}: a scope must be a str without spaces or quotes, not "
                    f"{scope!r:.60}"
                )
        return {}

    def static_scopes(self) -> list[str]:
        """Return every scope that an entry of this server needs, in order of registration."""
        scopes = [
            scope
            for table in self._registry.tables()
            for entry in list(table.items.values())
            for scope in scopes_of(entry)
        ]
        return list(dict.fromkeys(scopes))

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Reject a call whose token lacks a scope.

        A response over HTTP reports that by its status. This covers requests without their own
        response.

        Raises:
            InvalidRequest: A scope is missing.
        """
        if missing_scopes(entry, request.headers):
            needed = " ".join(scopes_of(entry))
            raise InvalidRequest(f"{entry.key} needs a token with the scopes {needed}")
        return None


def scopes_of(entry: RegisteredEntry) -> tuple[str, ...]:
    """Return the scopes that a call needs."""
    return tuple(entry.options.get("scopes", ()))


def missing_scopes(entry: RegisteredEntry, headers: Any) -> set[str]:
    """Return the scopes that a call needs and that the token of a request does not have.

    Args:
        entry: The tool, prompt or resource.
        headers: The headers of the HTTP request. Requests of other transports lack no scope.
    """
    scopes = set(scopes_of(entry))
    if not scopes or not hasattr(headers, "auth"):
        return set()
    if headers.auth is None:
        return scopes
    return scopes.difference(headers.auth.scopes)
