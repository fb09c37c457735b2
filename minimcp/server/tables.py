"""`Table`: what an author registered, by name, together with what mounted servers have."""

from __future__ import annotations

import logging
from copy import copy
from typing import Any, Callable, Container, Generic, Iterator, Optional, TypeVar

from ..errors import one_line
from ..schema.mismatch import nearest
from .facts import Facts
from .middleware import Layers

log = logging.getLogger("minimcp.registered")


class Registered:
    """One thing that an author registered, as one server offers it; where that server is mounted, a copy is offered.

    Args:
        facts: Of the server.
    """

    shown: Any
    """How it is listed."""

    def __init__(self, facts: Facts) -> None:
        self.layers: Layers = (facts.middleware,)
        self.place = facts.place  # where it runs
        self.origin = object()  # what it has in common with its copies

    def offered_by(self: R, facts: Facts, name: Optional[str]) -> R:
        """A copy for another server.

        Args:
            facts: Of that server, whose options hold.
            name: Its name there; None keeps what it has.
        """
        twin = copy(self)
        twin.layers, twin.place = (facts.middleware, *self.layers), facts.adopt(self.place)
        if name is not None:
            twin.shown = copy(self.shown)
            twin.shown.name = name
        return twin


R = TypeVar("R", bound=Registered)


class Table(Generic[R]):
    """Things by name, in the order in which they were registered; those of mounted servers come last.

    Thread-safe: each change is one operation on a dict, and readers look at a copy of the values. A thing of its own
    comes before a mounted one of the same name, and what was mounted earlier before what was mounted later.

    Args:
        kind: What they are, for messages: "prompt".
        place: Tells where one stands.
    """

    def __init__(self, kind: str, place: Callable[[R], str]) -> None:
        self._kind, self._place = kind, place
        self._things: dict[str, R] = {}
        self.mounts: tuple[_Mount[R], ...] = ()
        self._reported: set[str] = set()
        self._advised: set[tuple[str, str]] = set()

    def add(self, name: str, thing: R, *, replace: bool) -> None:
        """Take something in.

        Raises:
            ValueError: The name is taken, and `replace` is false.
        """
        if replace:
            self._things[name] = thing
            return
        taken = self._mounted(name) or self._things.setdefault(name, thing)
        if taken is not thing:
            raise ValueError(
                f"the {self._kind} {name!r} exists: {self._place(taken)}; now {self._place(thing)}. "
                "Give one another name, or say replace=True"
            )

    def advise(self, name: str, description: Optional[str], advice: Optional[str] = None) -> None:
        """What could be better about something that was taken in goes to the log, once for each name.

        Args:
            name: Of the thing.
            description: What a model is told; that there is none is the first advice.
            advice: Another; None gives none.
        """
        for each in (None if description else "has no description: a model has only its name to go by", advice):
            if each is not None and (name, each) not in self._advised:
                self._advised.add((name, each))
                log.warning("%s %s %s", self._kind, one_line(name), each)

    def remove(self, name: str) -> None:
        """Take something away that was registered here.

        Raises:
            KeyError: There is none of this name.
        """
        if self._things.pop(name, None) is None:
            raise KeyError(self.unknown(name))

    def unknown(self, name: str) -> str:
        """The message about a name that is none of these, with the one that was probably meant. Its cost is bounded."""
        names = [*list(self._things), *(each for mount in self.mounts for each, _ in mount.named())]
        near = nearest(name, names)
        return f"Unknown {self._kind}: {one_line(name)}" + (f", did you mean {one_line(near)}?" if near else "")

    def get(self, name: Any) -> Optional[R]:
        """The one of this name; None when there is none, or this is no name."""
        if type(name) is not str:
            return None
        thing = self._things.get(name)
        return self._mounted(name) if thing is None and self.mounts else thing

    def all(self) -> list[R]:
        """All of them."""
        return list(self.named().values()) if self.mounts else list(self._things.values())

    def named(self) -> dict[str, R]:
        """All of them by their names."""
        found = dict(self._things)
        for mount in self.mounts:
            for name, thing in mount.named():
                found.setdefault(name, thing)
        return found

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __len__(self) -> int:
        return len(self.all())

    # ------------------------------------------------------------ other servers' things

    def _mounted(self, name: str) -> Optional[R]:
        return next(filter(None, (mount.get(name) for mount in self.mounts)), None)

    def check_mount(self, mount: _Mount[R]) -> None:
        """Return if another table can be mounted.

        Raises:
            ValueError: Both have a thing of one name; the message names both places.
        """
        for name, thing in mount.named():
            taken = self.get(name)
            if taken is not None and taken.origin is not thing.origin:
                raise ValueError(
                    f"the {self._kind} {name!r} exists: {self._place(taken)}; mounted would be {self._place(thing)}"
                )

    def mount(self, mount: _Mount[R]) -> None:
        """Offer what another table has, and will have."""
        self.mounts = (*self.mounts, mount)

    def mounting(self, other: Table[R], prefix: Optional[str], facts: Facts) -> _Mount[R]:
        """Another table as it would be seen from here.

        Args:
            other: Of the server that is mounted.
            prefix: What names begin with here; None leaves names as they are.
            facts: Of the server that mounts.
        """
        return _Mount(other, prefix, facts)

    def refresh(self) -> None:
        """A mounted table has changed: what is hidden now by something of the same name goes to the log, once."""
        offered, hidden = self.named(), set()
        for mount in self.mounts:
            theirs = dict(mount.named())
            mount.keep(theirs)
            for name, thing in theirs.items():
                kept = offered.get(name, thing)
                if kept.origin is not thing.origin:
                    hidden.add(name)
                    if name not in self._reported:
                        places = self._place(kept), self._place(thing)
                        log.warning("two %ss %s: %s stays, %s is hidden", self._kind, one_line(name), *places)
        self._reported = hidden


class _Mount(Generic[R]):
    """A table as a server sees it that mounts its server."""

    def __init__(self, table: Table[R], prefix: Optional[str], facts: Facts) -> None:
        self._table, self._facts = table, facts
        self._renamed, self._prefix = prefix is not None, "" if prefix is None else prefix
        self._copies: dict[str, tuple[R, R]] = {}

    def get(self, name: str) -> Optional[R]:
        """The thing of this name; None when there is none."""
        if not name.startswith(self._prefix):
            return None
        thing = self._table.get(name[len(self._prefix) :])
        return None if thing is None else self._copy(name, thing)

    def named(self) -> Iterator[tuple[str, R]]:
        """All things by the names that they have here."""
        for inner, thing in self._table.named().items():
            name = self._prefix + inner
            yield name, self._copy(name, thing)

    def _copy(self, name: str, thing: R) -> R:
        """The copy that is offered here; the same one until the thing is replaced, for calls teach it its pace."""
        original, twin = self._copies.get(name, (None, thing))
        if original is not thing:
            twin = thing.offered_by(self._facts, name if self._renamed else None)
            self._copies[name] = (thing, twin)
        return twin

    def keep(self, names: Container[str]) -> None:
        """Things may have been taken away: the copies of all but these go too."""
        self._copies = {name: pair for name, pair in list(self._copies.items()) if name in names}
