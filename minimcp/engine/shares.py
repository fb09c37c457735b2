"""`Shares`: how much of each limit of a server one client may use."""

from __future__ import annotations

import ipaddress
import threading
from collections import deque
from functools import partial
from typing import Any, Callable, Iterable, Optional, Sequence, Union

from ..errors import InternalError
from .limits import Limits
from .pool import Job, Pool, this_thread

# A kind of client and which one it is: ("principal", "ada").
Name = tuple[str, Any]

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

# Seconds after which a client may try again that was rejected because a limit was reached or the
# server was not available: the value of Retry-After, unless a rate says more.
RETRY_SECONDS = 1

# One subscriber usually has a whole IPv6 network of this prefix length, so it counts as one address.
IPV6_PREFIX = 64

# The bounded resources, each with the words that an error message has for it and its limit.
RESOURCES = {
    "connections": "connections (HttpOptions.max_connections)",
    "requests": "running requests (Limits.requests)",
    "sessions": "sessions (HttpOptions.max_sessions)",
    "streams": "open streams (Limits.streams)",
    "tasks": "running tasks (Tasks.max_tasks, Limits.requests)",
    "processes": "processes",
}


class ShareExceeded(InternalError):
    """A client uses its whole share of a limit. ``retry_after`` is in seconds."""

    retry_after = float(RETRY_SECONDS)


class Place:
    """A unit of a bounded resource that a client occupies, until `leave`.

    Args:
        shares: The counter.
        kind: The resource, a key of `RESOURCES`.
        close_idle: Closes whatever occupies this place if it is idle, and returns whether it was. It
            must not block. None: it is never closed for another one.
    """

    __slots__ = ("_shares", "close_idle", "kind", "names")

    def __init__(
        self, shares: Shares, kind: str, close_idle: Optional[Callable[[], bool]] = None
    ) -> None:
        self._shares = shares
        self.kind = kind
        self.close_idle = close_idle
        self.names: Sequence[Name] = ()

    def leave(self) -> None:
        """Release the place. Idempotent, any thread."""
        if self.names:
            self._shares.move(self, None, ())


class ClientPool:
    """A pool of threads as one client uses it.

    One client may not occupy all threads of a pool, because its handlers may run for long. Jobs above
    `Shares.max_threads` wait for their turn, and jobs of other clients pass them. Thread-safe.

    Args:
        shares: The counter.
        pool: The pool.
        size: The number of jobs that the pool runs at the same time.
        names: The client, from `Shares.names_of`.
    """

    __slots__ = ("_pool", "_shares", "names", "size", "spawn")

    def __init__(self, shares: Shares, pool: Pool, size: int, names: Sequence[Name]) -> None:
        self._shares = shares
        self._pool = pool
        self.size = size
        self.names = names
        self.spawn = pool.spawn

    def counters(self) -> list[tuple[Pool, Name]]:
        """Return the keys of the counters of this client's jobs."""
        return [(self._pool, name) for name in self.names]

    def run(self, job: Job) -> None:
        """Run a job on this thread, as `Pool.run`. Blocks until it may start."""
        turn = threading.Event()
        self._shares.take_turn(self, turn.set)
        try:
            turn.wait()
            self._pool.run(partial(self._run, job))
        finally:
            self._shares.end_turn(self, turn.set)

    def submit(self, *jobs: Job) -> None:
        """Run jobs on threads of the pool, as `Pool.submit`."""
        for job in jobs:
            self._shares.take_turn(self, partial(self._pool.submit, partial(self._run_last, job)))

    def count(self, change: int) -> None:
        """Count a job from now on (1), or no longer (-1), as `Pool.count`."""
        self._pool.count(change)
        self._shares.count_turns(self, change)

    def _run(self, job: Job) -> None:
        this_thread.pool = self  # for `waiting`
        try:
            job()
        finally:
            this_thread.pool = self._pool

    def _run_last(self, job: Job) -> None:
        try:
            self._run(job)
        finally:
            self._shares.count_turns(self, -1)


class Shares:
    """Counts what each client occupies of the bounded resources of one server. Thread-safe.

    A client has several names: its principal, its session and its address. It is counted by each of
    them, so it gains nothing by opening more sessions or by using more tokens. Requests over stdio
    are not counted.

    Args:
        limits: The shares.
        auth: The server's `Bearer`; None means that it authenticates nobody.
        trusted_proxies: Addresses and networks that many clients have in common.
    """

    def __init__(
        self, limits: Limits, auth: Any = None, trusted_proxies: Iterable[str] = ()
    ) -> None:
        # By kind of client, the fraction of each limit that one client may use; None means all.
        self._fractions = {
            "principal": limits.client_share,
            "session": limits.client_share,
            "address": limits.address_share,
        }
        self._auth = auth
        self._trusted = [read_network(each) for each in trusted_proxies]
        # The counted form of each address; None if the share does not apply to it.
        self._addresses: dict[str, Optional[str]] = {}
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Begin without clients, in place: endpoints keep this object, and its lock may be held by a
        thread that a forked process does not have."""
        self._lock = threading.RLock()
        # The places of each kind that a client occupies, oldest first.
        self._places: dict[tuple[str, Name], dict[Place, None]] = {}
        # Jobs of each client that a pool runs.
        self._turns: dict[tuple[Pool, Name], int] = {}
        # Jobs that wait for their turn, each with the function that starts it.
        self._waiting: deque[tuple[ClientPool, Callable[[], object]]] = deque()

    def names_of(
        self, principal: Optional[str], session: object, address: Optional[str]
    ) -> tuple[Name, ...]:
        """Return the names by which a client is counted.

        Args:
            principal: The authenticated one; None without one.
            session: Identifies the HTTP session; None without one.
            address: The address of the peer; None if it does not tell clients apart, as under WSGI.
        """
        counted = None if address is None else self._counted(address)
        if principal is None and session is None and counted is None:
            return ()
        return tuple(
            name
            for name in client_names(self._auth, principal, session, counted)
            if name[1] is not None and self._fractions[name[0]] is not None
        )

    def _counted(self, address: str) -> Optional[str]:
        """Return an address or the IPv6 network that it is counted as; None if it is exempt."""
        if address in self._addresses:
            return self._addresses[address]
        if len(self._addresses) > 10_000:
            self._addresses.clear()
        found = self._addresses[address] = counted_address(address, self._trusted)
        return found

    # ------------------------------------------------------------ counting

    def admit(
        self,
        kind: str,
        most: Optional[int],
        names: Sequence[Name],
        close_idle: Optional[Callable[[], bool]] = None,
    ) -> Place:
        """Give a client one more place, which it occupies until `Place.leave`.

        If it has used up its share, its idle places are closed first, oldest first.

        Args:
            kind: The resource, a key of `RESOURCES`.
            most: The limit for all clients; None means no limit, and so no share.
            names: The client, from `names_of`.
            close_idle: As for `Place`.

        Raises:
            ShareExceeded: The client uses its whole share, and nothing of it is idle.
        """
        place = Place(self, kind, close_idle)
        self.move(place, most, names)
        return place

    def move(self, place: Place, most: Optional[int], names: Sequence[Name]) -> None:
        """Count a place as another client's.

        Raises:
            ShareExceeded: As `admit`; the place is counted as before.
        """
        if most is None:
            names = ()
        while names != place.names:
            with self._lock:
                full = None if most is None else self._full(place, most, names)
                if full is None:
                    self._count(place, names)
                    return
                others = [each for each in self._places[place.kind, full] if each is not place]
            if not any(self._close_idle(other) for other in others):
                assert most is not None
                raise self._exceeded(place.kind, full, most)

    def check(self, kind: str, most: int, name: Name, used: int) -> None:
        """Check what a client uses of a resource that is counted elsewhere, as in a store.

        Raises:
            ShareExceeded: The client uses its whole share.
        """
        if used >= self.share(name, most):
            raise self._exceeded(kind, name, most)

    def share(self, name: Name, most: int) -> int:
        """Return how much of a limit a client may use, at least 1."""
        fraction = self._fractions[name[0]]
        if fraction is None:
            return most
        return max(1, int(most * fraction))

    def _full(self, place: Place, most: int, names: Sequence[Name]) -> Optional[Name]:
        """Return the first name whose share is used up (lock held)."""
        for name in names:
            places = self._places.get((place.kind, name), {})
            if place not in places and len(places) >= self.share(name, most):
                return name
        return None

    def _count(self, place: Place, names: Sequence[Name]) -> None:
        """Count a place by these names, and no others (lock held)."""
        for name in place.names:
            if name in names:
                continue
            # In a forked process the places of the parent are not counted.
            places = self._places.get((place.kind, name), {})
            places.pop(place, None)
            if not places:
                self._places.pop((place.kind, name), None)
        for name in names:
            self._places.setdefault((place.kind, name), {})[place] = None
        place.names = names

    def _close_idle(self, place: Place) -> bool:
        if place.close_idle is None or not place.close_idle():
            return False
        place.leave()
        return True

    def _exceeded(self, kind: str, name: Name, most: int) -> ShareExceeded:
        option = "address_share" if name[0] == "address" else "client_share"
        return ShareExceeded(
            f"this {name[0]} uses its share of {RESOURCES[kind]}: {self.share(name, most)} of {most}"
            f" (Limits.{option}). Try again later"
        )

    # ------------------------------------------------------------ threads

    def pool_of(self, pool: Pool, size: Optional[int], names: Sequence[Name]) -> Any:
        """Return a pool of threads as a client uses it.

        Args:
            pool: The pool.
            size: The number of jobs that it runs at the same time; None means no limit.
            names: The client, from `names_of`.
        """
        if size is None or all(self.max_threads(name, size) >= size for name in names):
            return pool
        return ClientPool(self, pool, size, names)

    def max_threads(self, name: Name, size: int) -> int:
        """Return how many threads of a pool a client may occupy, at least 1.

        It leaves its share to other clients: with the default of a quarter it may use three quarters.
        """
        fraction = self._fractions[name[0]]
        if fraction is None:
            return size
        share = int(size * fraction)
        return max(1, share, size - share)

    def take_turn(self, client: ClientPool, start: Callable[[], object]) -> None:
        """Count a job and start it, now or when jobs of the client have ended."""
        with self._lock:
            if not self._has_turn(client):
                self._waiting.append((client, start))
                return
            self._add_turns(client, 1)
        start()

    def end_turn(self, client: ClientPool, start: Callable[[], object]) -> None:
        """Count a job no longer, or remove it if it is still waiting."""
        with self._lock:
            if (client, start) in self._waiting:
                self._waiting.remove((client, start))
                return
        self.count_turns(client, -1)

    def count_turns(self, client: ClientPool, change: int) -> None:
        """Count a job from now on (1), even above `max_threads`, or no longer (-1)."""
        starts = []
        with self._lock:
            self._add_turns(client, change)
            if change < 0 and self._waiting:
                waiting = self._waiting
                self._waiting = deque()
                for each, start in waiting:
                    if self._has_turn(each):
                        self._add_turns(each, 1)
                        starts.append(start)
                    else:
                        self._waiting.append((each, start))
        for start in starts:
            start()

    def _has_turn(self, client: ClientPool) -> bool:
        """Return whether one more job of a client may start (lock held)."""
        return all(
            self._turns.get(key, 0) < self.max_threads(key[1], client.size)
            for key in client.counters()
        )

    def _add_turns(self, client: ClientPool, change: int) -> None:
        for key in client.counters():
            count = self._turns.get(key, 0) + change
            if count > 0:
                self._turns[key] = count
            else:
                self._turns.pop(key, None)  # in a forked process the parent's jobs are not counted

    def used(self, kind: str, name: Name) -> int:
        """Return how many places of a kind a client occupies."""
        return len(self._places.get((kind, name), ()))

    def __repr__(self) -> str:
        return f"<Shares of {len(self._places)} clients>"


def client_names(
    auth: Any, principal: Optional[str], session: object, address: Optional[str]
) -> list[Name]:
    """Return the names of a client, the most specific one first; the last one is its address.

    A principal of `Bearer.static` is left out, because many clients may have its token.

    Args:
        auth: The server's `Bearer`; None means that it authenticates nobody.
        principal: The authenticated one; None without one.
        session: Identifies the HTTP session, or the connection over stdio; None without one.
        address: The address of the peer; None if it is not known.
    """
    names: list[Name] = []
    if principal is not None and not (auth is not None and auth.is_static):
        names.append(("principal", principal))
    if session is not None:
        names.append(("session", session))
    return [*names, ("address", address)]


def read_network(text: str) -> Network:
    """Return an address or a network.

    Raises:
        ValueError: The text is neither.
    """
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f"trusted_proxies: {text!r:.60} is neither an address nor a network: write"
            ' "192.0.2.1" or "10.0.0.0/8"'
        ) from None


def counted_address(address: str, trusted: Iterable[Network]) -> Optional[str]:
    """Return what an address is counted as: itself, or its IPv6 network.

    None if the share does not apply to it: it is of this machine, of a trusted proxy, or not an
    address, as of a unix socket.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    found = mapped or found
    if found.is_loopback or any(found in network for network in trusted):
        return None
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
