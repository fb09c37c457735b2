"""Servers that offer the entries of other servers: ``server.mount(other, prefix="x")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..server.feature import READERS, Feature
from ..server.options import source_location
from ..server.registered import ServerConfig, Table, changing

if TYPE_CHECKING:
    from ..server.registry import Registry

# The text between the prefix of a mounted server and a name.
SEPARATOR = "__"

# The features whose entries are offered from mounted servers, in addition to tools.
MOUNTED = ("prompts", "resources", "methods")

# The capability that a mounted server adds in addition to its entries.
COMPLETIONS = "completions"


class Mounting(Feature):
    """The servers that a server mounts, and the servers that mount it. Thread-safe.

    Args:
        registry: The server's registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._mounted: list[Registry] = []
        # Weak, because a mounted server must not keep the servers that mount it alive.
        self._mounted_by: WeakSet[Registry] = WeakSet()
        for name in MOUNTED:
            registry.feature(name)

    def mount(self, other: Registry, prefix: str) -> None:
        """Offer the entries of another server, and follow its changes.

        Args:
            other: The registry of that server.
            prefix: The beginning of the names of its tools and prompts here. Resources keep their
                URIs, and methods keep their names.

        Raises:
            ValueError: A name is taken; or the other server mounts this one, or is this one.
        """
        registry = self._registry
        theirs: Mounting = other.feature("mounting")
        with changing:
            if other is registry or other in self.above():
                raise ValueError("a server cannot be mounted into itself")
            pairs = []
            for mine, table in zip(_tables(registry), _tables(other)):
                pairs.append((mine, table, prefix + SEPARATOR if mine.has_prefix else ""))
            for mine, table, start in pairs:
                for entry in table.items.values():
                    mine.refuse_taken(start + entry.key, entry)
            for mine, table, start in pairs:
                mine.mounts.append((table, start, registry.config))
            self._mounted.append(other)
            theirs._mounted_by.add(registry)
        for group in dict.fromkeys(table.group for table in _tables(other)):
            if other.offers(group):
                theirs.changed(group)

    def above(self) -> list[Registry]:
        """Return the servers that mount this one, directly or indirectly, the nearest first."""
        found = [self._registry]
        for each in found:
            mounted_by = list(each.feature("mounting")._mounted_by)
            found += [registry for registry in mounted_by if registry not in found]
        return found[1:]

    def changed(self, group: str) -> None:
        """Update the servers that mount this one after a change in it, and notify their clients."""
        kinds = [kind for kind in (group, COMPLETIONS) if self._registry.offers(kind)]
        for registry in self.above():
            with changing:
                registry.refresh_tables(group)
            registry.note_offered(kinds)
            registry.list_changed(group)


def _tables(registry: Registry) -> list[Table[Any]]:
    """Return the tables of a server, in an order that is the same for all servers."""
    tables = [registry.tools]
    for name in MOUNTED:
        tables += registry.feature(name).tables
    return tables


def _load_readers(entry: Any, config: ServerConfig) -> None:
    """Load the features that an entry of a mounted server needs here, such as its scopes."""
    for option, reader in READERS.items():
        if entry.options.get(option):
            config.feature(reader)
    if entry.hidden_by:
        config.feature("visibility")


def merged(table: Table[Any]) -> dict[str, Any]:
    """Return the entries of a table and of the tables mounted in it, by name.

    If names are equal, the server's own entry comes first, then the entry that was mounted first.
    The caller holds `changing`.
    """
    items = dict(table.own)
    for other, prefix, config in table.mounts:
        for entry in other.items.values():
            key = table.normalize(prefix + entry.key)
            first = items.setdefault(key, entry)
            if first is entry:
                _load_readers(entry, config)
                items[key] = entry.copy_for(config, prefix)
            elif first.origin is not entry.origin:
                hidden = source_location(entry.function)
                kept = source_location(first.function)
                table.warn_once(
                    prefix + entry.key, f"has two functions: {kept} is offered, {hidden} is hidden"
                )
    return items
