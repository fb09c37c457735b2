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

# The kind and the value of a client's name, such as ("principal", "ada").
Name = tuple[str, Any]

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]

# The value of Retry-After for a client that was rejected, in seconds. For a rate it may be larger.
RETRY_SECONDS = 1

# Prefix length of IPv6 networks that count as one address, because a subscriber usually has one.
IPV6_PREFIX = 64

# Maximum number of clients whose names are cached.
MAX_CLIENTS = 10_000

# The limited resources, each with its description in an error message.
RESOURCES = {
    "connections": "connections (HttpOptions.max_connections)",
    "requests": "running requests (Limits.requests)",
    "sessions": "sessions (HttpOptions.max_sessions)",
    "streams": "open streams (Limits.streams)",
    "tasks": "running tasks (Tasks.max_tasks, Limits.requests)",
    "processes": "processes",
}


class ShareExceeded(InternalError):
    """A client uses its whole share of a limit.

    Attributes:
        retry_after: How long the client should wait before it tries again, in seconds.
    """

    retry_after = float(RETRY_SECONDS)


class Place:
    """A unit of a limited resource, which a client occupies until `leave`.

    Args:
        shares: The `Shares` object that counts the place.
        kind: The resource, a key of `RESOURCES`.
        close_idle: Closes the object that occupies the place if it is idle, and returns whether it
            was idle. It must not block. None means that the object is never idle.
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
        """Release the place. Idempotent, thread-safe."""
        if self.names:
            self._shares.release(self)


class CountedClient:
    """One client, as `Shares` counts it. Thread-safe.

    A session keeps this object, so that its requests need not compute the client's names and limits
    again.

    Args:
        shares: The `Shares` that count the client.
        names: The client's names, from `Shares.names_of`. Nothing is counted without a name.
        outside: The same client without its session. None if it is not in a session.
    """

    __slots__ = ("_pools", "_shares", "names", "outside")

    def __init__(
        self, shares: Shares, names: Sequence[Name], outside: Optional[CountedClient] = None
    ) -> None:
        self._shares = shares
        self.names = names
        self.outside = outside
        self._pools: dict[Pool, Any] = {}

    def in_session(self, session: str) -> CountedClient:
        """Return this client with the name of a session added."""
        names = (*self.names, *self._shares.names_of(None, session, None))
        return CountedClient(self._shares, names, self)

    def reserve(
        self, kind: str, most: Optional[int], close_idle: Optional[Callable[[], bool]] = None
    ) -> Place:
        """Give the client one more place, which it occupies until `Place.leave`.

        If the client uses its whole share, its idle places are closed, oldest first.

        Args:
            kind: The resource, a key of `RESOURCES`.
            most: The limit for all clients; None means no limit, so the client's use is not limited
                either.
            close_idle: See `Place`.

        Raises:
            ShareExceeded: The client uses its whole share, and no place is idle.
        """
        place = Place(self._shares, kind, close_idle)
        if most is not None and self.names:
            self._shares.count(place, most, self.names)
        return place

    def move(self, place: Place, most: Optional[int]) -> None:
        """Move a place of another client to this one; see `reserve`.

        Raises:
            ShareExceeded: The client uses its whole share. The place keeps its old names.
        """
        if most is None or not self.names:
            place.leave()
        elif place.names != self.names:
            self._shares.count(place, most, self.names)

    def pool_of(self, pool: Pool, size: Optional[int]) -> Any:
        """Return the `ClientPool` of this client, or the pool itself if this client may use all
        threads of the pool.

        Args:
            pool: The pool.
            size: The maximum number of jobs that it runs at the same time; None means no limit. It
                is the same in each call.
        """
        found = self._pools.get(pool)
        if found is None:
            found = pool
            if size is not None and self._is_limited(size):
                found = ClientPool(self._shares, pool, size, self.names)
            self._pools[pool] = found
        return found

    def _is_limited(self, size: int) -> bool:
        """Return whether this client may occupy only some of the threads of a pool of this size."""
        return any(self._shares.max_threads(name, size) < size for name in self.names)


class ClientPool:
    """The view that one client has of a thread pool. Thread-safe.

    One client may not occupy all threads of a pool, because its handlers may run for a long time.
    Its jobs above `Shares.max_threads` wait, and jobs of other clients overtake them.

    Args:
        shares: The `Shares` object that counts the jobs.
        pool: The pool.
        size: The maximum number of jobs that the pool runs at the same time.
        names: The client's names, from `Shares.names_of`.
    """

    __slots__ = ("_pool", "_shares", "counters", "spawn")

    def __init__(self, shares: Shares, pool: Pool, size: int, names: Sequence[Name]) -> None:
        self._shares = shares
        self._pool = pool
        self.spawn = pool.spawn
        # The keys of this client in the counters of jobs, each with its maximum.
        self.counters = [((pool, name), shares.max_threads(name, size)) for name in names]

    def run(self, job: Job) -> None:
        """Run a job on the calling thread; see `Pool.run`. Blocks until the job may start."""
        self._shares.wait_for_turn(self)
        try:
            self._pool.run(job, self)
        finally:
            self._shares.count_turns(self, -1)

    def submit(self, *jobs: Job) -> None:
        """Run jobs on threads of the pool; see `Pool.submit`."""
        for job in jobs:
            self._shares.take_turn(self, partial(self._pool.submit, partial(self._run, job)))

    def count_running(self, change: int) -> None:
        """Add `change` to the number of the client's running jobs; see `Pool.count_running`."""
        self._pool.count_running(change)
        self._shares.count_turns(self, change)

    def _run(self, job: Job) -> None:
        this_thread.pool = self  # for `waiting`; the thread sets it again for its next job
        try:
            job()
        finally:
            self._shares.count_turns(self, -1)


class Shares:
    """Counts how much of a server's limited resources each client uses. Thread-safe.

    A client has several names: its principal, its session and its address. Each name is counted
    separately, so a client gains nothing by opening more sessions or by using more tokens. Requests
    over stdio are not counted.

    Args:
        limits: The limits of the server.
        auth: The server's `Bearer`; None for a server without authentication.
        trusted_proxies: Addresses and networks that many clients share.
    """

    def __init__(
        self, limits: Limits, auth: Any = None, trusted_proxies: Iterable[str] = ()
    ) -> None:
        # By kind of name, the fraction of each limit that one client may use; None means all.
        self._fractions = {
            "principal": limits.client_share,
            "session": limits.client_share,
            "address": limits.address_share,
        }
        self._auth = auth
        self._trusted = [read_network(each) for each in trusted_proxies]
        # A cache of clients, by principal and address.
        self._clients: dict[tuple[Optional[str], Optional[str]], CountedClient] = {}
        # A cache of `share`, by kind of client and limit.
        self._limits: dict[tuple[str, int], int] = {}
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Reset all counters. A thread of the parent process may hold the old lock."""
        self._lock = threading.RLock()
        # The places of each client, by resource, oldest first.
        self._places: dict[tuple[str, Name], dict[Place, None]] = {}
        # The number of jobs of each client that run in a pool.
        self._turns: dict[tuple[Pool, Name], int] = {}
        # Jobs that wait for others of the same client, each as a function that starts it.
        self._waiting: deque[tuple[ClientPool, Callable[[], object]]] = deque()

    def client(self, principal: Optional[str], address: Optional[str]) -> CountedClient:
        """Return the client with this principal and this address; see `names_of`."""
        found = self._clients.get((principal, address))
        if found is None:
            if len(self._clients) >= MAX_CLIENTS:
                self._clients.clear()
            found = CountedClient(self, self.names_of(principal, None, address))
            self._clients[principal, address] = found
        return found

    def names_of(
        self, principal: Optional[str], session: object, address: Optional[str]
    ) -> tuple[Name, ...]:
        """Return the names that a client is counted by.

        Args:
            principal: The authenticated principal; None without authentication.
            session: Identifies the HTTP session; None without a session.
            address: The address of the peer; None if many clients share it, as under WSGI.
        """
        counted = None if address is None else counted_address(address, self._trusted)
        if principal is None and session is None and counted is None:
            return ()
        return tuple(
            name
            for name in client_names(self._auth, principal, session, counted)
            if name[1] is not None and self._fractions[name[0]] is not None
        )

    # ------------------------------------------------------------ counting

    def count(self, place: Place, most: int, names: Sequence[Name]) -> None:
        """Move a place to a client with these names; see `CountedClient.reserve`.

        Raises:
            ShareExceeded: The client uses its whole share. The place keeps its old names.
        """
        while True:
            with self._lock:
                for name in names:
                    places = self._places.get((place.kind, name), {})
                    share = self._limits.get((name[0], most)) or self.share(name, most)
                    if len(places) >= share and place not in places:
                        break
                else:
                    if place.names:
                        self.release(place, names)
                    place.names = names
                    for name in names:
                        self._places.setdefault((place.kind, name), {})[place] = None
                    return
                others = [each for each in places if each is not place]
            if not any(self._close_idle(other) for other in others):
                raise self._exceeded(place.kind, name, most)

    def release(self, place: Place, kept: Sequence[Name] = ()) -> None:
        """Stop counting a place, except under the names in `kept`."""
        with self._lock:
            for name in place.names:
                if name in kept:
                    continue
                # A forked process does not count the places of its parent.
                places = self._places.get((place.kind, name), {})
                places.pop(place, None)
                if not places:
                    self._places.pop((place.kind, name), None)
            place.names = kept

    def check(self, kind: str, most: int, name: Name, used: int) -> None:
        """Check the number of units that a client uses, for a resource that a store counts.

        Raises:
            ShareExceeded: The client uses its whole share.
        """
        if used >= self.share(name, most):
            raise self._exceeded(kind, name, most)

    def share(self, name: Name, most: int) -> int:
        """Return how much of a limit a client may use, at least 1."""
        fraction = self._fractions[name[0]]
        share = most if fraction is None else max(1, int(most * fraction))
        self._limits[name[0], most] = share
        return share

    def _close_idle(self, place: Place) -> bool:
        if place.close_idle is None or not place.close_idle():
            return False
        place.leave()
        return True

    def _exceeded(self, kind: str, name: Name, most: int) -> ShareExceeded:
        option = "address_share" if name[0] == "address" else "client_share"
        return ShareExceeded(
            f"this {name[0]} has used up its share of {RESOURCES[kind]}: {self.share(name, most)}"
            f" of {most} (Limits.{option}). Try again later"
        )

    # ------------------------------------------------------------ threads

    def max_threads(self, name: Name, size: int) -> int:
        """Return how many threads of a pool a client may occupy, at least 1.

        A fraction of the threads is left to other clients. With 0.25, a client may use three
        quarters.
        """
        fraction = self._fractions[name[0]]
        if fraction is None:
            return size
        share = int(size * fraction)
        return max(1, share, size - share)

    def take_turn(self, client: ClientPool, start: Callable[[], object]) -> None:
        """Count a job and start it, now or when other jobs of the client have ended."""
        with self._lock:
            if not self._add_turn(client):
                self._waiting.append((client, start))
                return
        start()

    def wait_for_turn(self, client: ClientPool) -> None:
        """Count a job of this thread. Blocks until other jobs of the client have ended."""
        with self._lock:
            if self._add_turn(client):
                return
            turn = threading.Event()
            self._waiting.append((client, turn.set))
        try:
            turn.wait()
        except BaseException:  # KeyboardInterrupt: give the turn back
            with self._lock:
                is_waiting = (client, turn.set) in self._waiting
                if is_waiting:
                    self._waiting.remove((client, turn.set))
            if not is_waiting:
                self.count_turns(client, -1)
            raise

    def count_turns(self, client: ClientPool, change: int) -> None:
        """Add 1 or -1 to the number of running jobs, and start jobs that may start now.

        Adding does not check the share, because the job is already running.
        """
        starts = []
        with self._lock:
            for key, _ in client.counters:
                count = self._turns.get(key, 0) + change
                if count > 0:
                    self._turns[key] = count
                else:
                    self._turns.pop(key, None)  # a forked process does not count its parent's jobs
            if change < 0 and self._waiting:
                waiting = self._waiting
                self._waiting = deque()
                for each, start in waiting:
                    if self._add_turn(each):
                        starts.append(start)
                    else:
                        self._waiting.append((each, start))
        for start in starts:
            start()

    def _add_turn(self, client: ClientPool) -> bool:
        """Count one more job of a client. Return False if it may not start yet. The caller holds
        the lock."""
        turns = self._turns
        for key, most in client.counters:
            if turns.get(key, 0) >= most:
                return False
        for key, _ in client.counters:
            turns[key] = turns.get(key, 0) + 1
        return True

    def used(self, kind: str, name: Name) -> int:
        """Return how many places of a resource a client occupies."""
        return len(self._places.get((kind, name), ()))

    def __repr__(self) -> str:
        return f"<Shares of {len(self._places)} clients>"


def client_names(
    auth: Any, principal: Optional[str], session: object, address: Optional[str]
) -> list[Name]:
    """Return the names of a client, the most specific first. The last one is its address.

    A principal of `Bearer.static` is not a name, because many clients may share its token.

    Args:
        auth: The server's `Bearer`; None for a server without authentication.
        principal: The authenticated principal; None without authentication.
        session: Identifies the HTTP session, or the connection over stdio; None without a session.
        address: The address of the peer; None if it is unknown.
    """
    names: list[Name] = []
    if principal is not None and not (auth is not None and auth.is_static):
        names.append(("principal", principal))
    if session is not None:
        names.append(("session", session))
    return [*names, ("address", address)]


def read_network(text: str) -> Network:
    """Parse an address or a network.

    Raises:
        ValueError: The text is neither an address nor a network.
    """
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(
            f"trusted_proxies: {text!r:.60} is neither an address nor a network: write"
            ' "192.0.2.1" or "10.0.0.0/8"'
        ) from None


def counted_address(address: str, trusted: Iterable[Network]) -> Optional[str]:
    """Return the IPv4 address or the IPv6 network that counts in `Limits.address_share`.

    Return None for this machine, a trusted proxy, and a unix socket, which has no address.
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
