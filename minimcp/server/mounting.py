"""Mounting: one server offers what another has, under names with a prefix, and follows its changes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Iterator

from .feature import Feature

if TYPE_CHECKING:
    from .registry import Registry

SEPARATOR = "__"
"""Between a prefix and a name."""

RENAMED = ("tools", "prompts")
"""Kinds of things that get the prefix; resources keep their URIs, methods their names."""


class Mounts:
    """Which servers one server mounts, and which mount it. A server that mounts is not kept alive by what it mounts.

    Args:
        registry: Of the server.

    Reading is thread-safe; `mount` is called by one thread at a time, whichever servers it is about.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._below: list[Registry] = []
        self._above: list[weakref.ref[Registry]] = []

    def mount(self, other: Registry, prefix: str) -> None:
        """Offer what another server has.

        Args:
            other: Of that server.
            prefix: What the names of its tools and prompts begin with here.

        Raises:
            ValueError: A name is taken; or the other server mounts this one, or is this one.
        """
        ours = self._registry
        if other is ours or ours in other.mounts.below():
            raise ValueError("a server cannot be mounted into itself")
        pairs = []
        for mine, theirs in zip(ours.features, other.features):
            said = f"{prefix}{SEPARATOR}" if mine.kind in RENAMED else None
            pairs += [(a, a.mounting(b, said, ours.facts)) for a, b in zip(mine.tables(), theirs.tables())]
        for table, mount in pairs:
            table.check_mount(mount)
        for table, mount in pairs:
            table.mount(mount)
        self._below.append(other)
        other.mounts._above = [each for each in other.mounts._above if each() is not None] + [weakref.ref(ours)]
        for feature in other.features:
            if feature.tables() and feature.offered:
                other.mounts._tell_above(feature)

    def below(self) -> Iterator[Registry]:
        """The servers that this one mounts, and those that they mount."""
        for each in self._below:
            yield each
            yield from each.mounts.below()

    def above(self) -> list[Registry]:
        """The servers that mount this one, and those that mount them; each once, the nearest first."""
        found = [self._registry]
        for each in found:
            for reference in list(each.mounts._above):
                above = reference()
                if above is not None and above not in found:
                    found.append(above)
        return found[1:]

    # ------------------------------------------------------------ what changed

    def changed(self, kind: str) -> None:
        """Things of a kind were added or removed here: tell the clients of this server, and of those that mount it."""
        self._registry.subscriptions.list_changed(kind)
        self._tell_above(self._registry.feature(kind))

    def _tell_above(self, feature: Feature) -> None:
        for registry in self.above():
            registry.feature(feature.kind).follow(feature)
            registry.subscriptions.list_changed(feature.kind)

    def resource_updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource, here or at a server that mounts this one, that it has changed."""
        for registry in (self._registry, *self.above()):
            registry.subscriptions.resource_updated(uri)
