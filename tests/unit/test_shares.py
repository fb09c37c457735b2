"""`Shares`: the places that each client occupies, and the client's name in messages."""

from __future__ import annotations

import dataclasses
import re
import threading
from typing import Any, List, Optional

import pytest

from minimcp import Bearer, HttpOptions, Limits, Server
from minimcp.engine import shares as shares_module
from minimcp.engine.pool import Pool, waiting
from minimcp.engine.shares import RESOURCES, CountedClient, Place, ShareExceeded, Shares

from ..inside import config_of, make_endpoint, turns_of, waiting_turns
from ..support import ROOT, WAIT, eventually

ADA, BOB = ("principal", "ada"), ("principal", "bob")


def shares(client: Optional[float] = 0.25, address: Optional[float] = 0.5, **more: Any) -> Shares:
    return Shares(Limits(client_share=client, address_share=address), **more)


def reserve(counted: Shares, kind: str, most: Optional[int], names: Any, idle: Any = None) -> Place:
    """Give a client one more place."""
    return CountedClient(counted, names).reserve(kind, most, idle)


def used_up(counted: Shares, names: Any, most: int = 8, kind: str = "requests") -> int:
    """How many places a client gets."""
    places: List[Place] = []
    with pytest.raises(ShareExceeded):
        while True:
            places.append(reserve(counted, kind, most, names))
    for place in places:
        place.leave()
    return len(places)


@pytest.mark.parametrize(
    "most, share, places", [(8, 0.25, 2), (1000, 0.25, 250), (3, 0.25, 1), (1, 0.25, 1), (8, 1, 8)]
)
def test_a_client_gets_its_share_and_at_least_one(most: int, share: float, places: int) -> None:
    assert used_up(shares(share), [ADA], most) == places


def test_each_name_of_a_client_counts() -> None:
    """More sessions, or more tokens at one address, gain nothing."""
    counted = shares()
    address = ("address", "192.0.2.1")
    for number in range(2):
        reserve(counted, "requests", 8, [ADA, ("session", number), address])
    with pytest.raises(
        ShareExceeded, match="this principal has used up its share of running requests"
    ):
        reserve(counted, "requests", 8, [ADA, ("session", 3), address])
    for _ in range(2):
        reserve(counted, "requests", 8, [BOB, ("session", 4), address])
    with pytest.raises(ShareExceeded, match=r"address .* 4 of 8 \(Limits.address_share\)"):
        reserve(counted, "requests", 8, [("principal", "cyd"), address])
    assert reserve(counted, "requests", 8, [("principal", "cyd"), ("address", "192.0.2.2")])
    assert reserve(counted, "streams", 8, [ADA]), "another kind is counted apart"


def test_a_place_that_is_left_is_free_again() -> None:
    counted = shares()
    first, second = (reserve(counted, "requests", 8, [ADA]) for _ in range(2))
    with pytest.raises(ShareExceeded):
        reserve(counted, "requests", 8, [ADA])
    first.leave()
    first.leave()
    assert reserve(counted, "requests", 8, [ADA])
    second.leave()
    assert counted.used("requests", ADA) == 1


def test_nothing_is_kept_of_clients_that_have_left() -> None:
    counted = shares()
    for number in range(100):
        reserve(counted, "requests", 8, [("session", number), ("address", str(number))]).leave()
    assert "0 clients" in repr(counted)


def test_idle_places_make_room_oldest_first() -> None:
    counted = shares(0.5)
    closed: List[str] = []

    def idle(name: str, is_idle: bool) -> Any:
        return lambda: is_idle and not closed.append(name)

    for name, is_idle in (("busy", False), ("old", True), ("young", True), ("idle", True)):
        reserve(counted, "connections", 8, [ADA], idle(name, is_idle))
    reserve(counted, "connections", 8, [BOB], idle("of another", True))
    for _ in range(3):
        reserve(counted, "connections", 8, [ADA])
    assert closed == ["old", "young", "idle"]
    with pytest.raises(ShareExceeded):
        reserve(counted, "connections", 8, [ADA])
    assert closed == ["old", "young", "idle"] and counted.used("connections", ADA) == 4


def test_a_place_changes_its_client_or_stays_as_it_was() -> None:
    counted = shares()
    address = ("address", "192.0.2.1")
    place = reserve(counted, "connections", 8, [address])
    CountedClient(counted, [ADA, address]).move(place, 8)
    assert (counted.used("connections", ADA), counted.used("connections", address)) == (1, 1)
    for _ in range(2):
        reserve(counted, "connections", 8, [BOB])
    with pytest.raises(ShareExceeded):
        CountedClient(counted, [BOB, address]).move(place, 8)
    assert counted.used("connections", ADA) == 1
    place.leave()
    assert (counted.used("connections", ADA), counted.used("connections", address)) == (0, 0)


def test_without_a_limit_there_is_no_share() -> None:
    counted = shares()
    assert all(reserve(counted, "requests", None, [ADA]) for _ in range(1000))


def test_many_threads_get_no_more_than_one() -> None:
    counted, used = shares(), []

    def take() -> None:
        for _ in range(100):
            try:
                place = reserve(counted, "requests", 8, [ADA])
            except ShareExceeded:
                continue
            used.append(counted.used("requests", ADA))
            place.leave()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert used and max(used) <= 2 and counted.used("requests", ADA) == 0


# ------------------------------------------------------------ names


TRUSTED = ["192.0.2.7", "10.0.0.0/8", "2001:db8:1::/48"]


@pytest.mark.parametrize(
    "address, counted",
    [
        ("127.0.0.1", None), ("127.8.8.8", None), ("::1", None), ("::ffff:127.0.0.1", None),
        ("", None), ("/run/mcp.sock", None), (None, None),
        ("192.0.2.7", None), ("10.1.2.3", None), ("::ffff:10.1.2.3", None), ("2001:db8:1::5", None),
        ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"), ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)  # fmt: skip
def test_counted_addresses(address: Optional[str], counted: Optional[str]) -> None:
    names = shares(trusted_proxies=TRUSTED).names_of(None, None, address)
    assert names == (() if counted is None else (("address", counted),))


def test_the_principal_of_a_static_token_is_not_counted() -> None:
    static, other = Bearer.static("secret"), Bearer(lambda token: None, audience="a")
    assert shares(auth=static).names_of("ada", "s", None) == (("session", "s"),)
    assert shares(auth=other).names_of("ada", "s", None) == (ADA, ("session", "s"))


@pytest.mark.parametrize(
    "client, address, kinds",
    [(None, 0.5, ["address"]), (0.25, None, ["principal", "session"]), (None, None, [])],
)
def test_none_sets_no_share(
    client: Optional[float], address: Optional[float], kinds: List[str]
) -> None:
    names = shares(client, address).names_of("ada", "s", "192.0.2.1")
    assert [name[0] for name in names] == kinds


# ------------------------------------------------------------ options


@pytest.mark.parametrize("option", ["client_share", "address_share"])
@pytest.mark.parametrize(
    "value, error",
    [
        (0, ValueError), (-0.5, ValueError), (1.5, ValueError), (float("nan"), ValueError),
        (float("inf"), ValueError), ("0.5", TypeError), (True, TypeError), ([], TypeError),
    ],
)  # fmt: skip
def test_a_wrong_share_is_refused(option: str, value: Any, error: Any) -> None:
    with pytest.raises(error, match=f"{option}.*write a number above 0 and at most 1"):
        Limits(**{option: value})


def test_a_valid_share_is_accepted() -> None:
    for value in (None, 1, 0.001, 0.25):
        assert Limits(client_share=value, address_share=value).client_share == value
    assert (Limits().client_share, Limits().address_share) == (0.25, 0.5)


@pytest.mark.parametrize("value", ["proxy.example", "10.0.0.0/40", "", "10.0.0", "1.2.3.4:80"])
def test_a_wrong_proxy_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="trusted_proxies.*neither an address nor a network"):
        HttpOptions(trusted_proxies=[value])


@pytest.mark.parametrize("value", ["10.0.0.1", None, 5, [5], [b"\x0a\0\0\1"]])
def test_proxies_of_another_type_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="trusted_proxies must be a list"):
        HttpOptions(trusted_proxies=value)


def test_valid_proxies_are_accepted() -> None:
    assert HttpOptions(trusted_proxies=TRUSTED).trusted_proxies == TRUSTED
    assert HttpOptions().trusted_proxies == ()


# ------------------------------------------------------------ threads


def wait_in(pool: Any, go: threading.Event, begun: List[str], name: str) -> None:
    """Have a job of a client wait for the test."""

    def job() -> None:
        begun.append(name)
        assert go.wait(WAIT)

    pool.submit(job)


@pytest.mark.parametrize("size, part", [(8, 6), (4, 3), (3, 3), (1, 1)])
def test_a_client_leaves_its_share_of_the_threads_to_others(size: int, part: int) -> None:
    counted, pool, go, begun = shares(), Pool(size, "test"), threading.Event(), list[str]()
    ada, bob = (CountedClient(counted, [name]).pool_of(pool, size) for name in (ADA, BOB))
    for _ in range(10):
        wait_in(ada, go, begun, "ada")
    wait_in(bob, go, begun, "bob")
    alone = part == size
    assert eventually(lambda: len(begun) == (size if alone else part + 1))
    assert begun.count("ada") == part and begun.count("bob") == (not alone)
    go.set()
    assert eventually(lambda: len(begun) == 11 and not turns_of(counted))
    assert not waiting_turns(counted)
    pool.close()


def test_a_job_on_its_own_thread_waits_for_its_turn_too() -> None:
    counted, pool, go, begun = shares(), Pool(4, "test"), threading.Event(), list[str]()
    ada = CountedClient(counted, [ADA]).pool_of(pool, 4)
    for _ in range(3):
        wait_in(ada, go, begun, "first")
    late = threading.Thread(target=ada.run, args=(lambda: begun.append("late"),), daemon=True)
    late.start()
    assert eventually(lambda: len(begun) == 3 and waiting_turns(counted))
    CountedClient(counted, [BOB]).pool_of(pool, 4).run(lambda: begun.append("other"))
    assert begun[3:] == ["other"]
    go.set()
    late.join(WAIT)
    assert begun[3:] == ["other", "late"]
    assert eventually(lambda: not turns_of(counted))
    pool.close()


def test_a_job_that_waits_in_the_library_does_not_count() -> None:
    counted, pool, go, begun = shares(), Pool(4, "test"), threading.Event(), list[str]()
    ada = CountedClient(counted, [ADA]).pool_of(pool, 4)

    def ask() -> None:
        with waiting():
            begun.append("asks")
            assert go.wait(WAIT)

    for _ in range(10):
        ada.submit(ask)
    assert eventually(lambda: len(begun) == 10)
    go.set()
    assert eventually(lambda: not turns_of(counted))
    pool.close()


@pytest.mark.parametrize("has_come", [False, True])
def test_a_job_that_is_interrupted_gives_up_its_turn(
    monkeypatch: pytest.MonkeyPatch, has_come: bool
) -> None:
    """While it runs, while it waits for the turn, and just after the turn has come."""
    counted, pool = shares(), Pool(4, "test")
    ada = CountedClient(counted, [ADA]).pool_of(pool, 4)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ada.run(interrupt)
    assert not turns_of(counted)
    counted.count_turns(ada, 1)
    counted.count_turns(ada, 1)
    counted.count_turns(ada, 1)

    class Turn(threading.Event):
        def wait(self, timeout: Any = None) -> bool:
            if has_come:
                counted.count_turns(ada, -1)
                assert super().wait(WAIT)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(threading, "Event", Turn)
        ada.run(bool)
    assert not waiting_turns(counted)
    running = sum(turns_of(counted).values())
    assert running == (2 if has_come else 3)
    pool.close()


def test_without_a_name_or_a_limit_a_client_uses_the_pool_itself() -> None:
    counted, pool = shares(), Pool(4, "test")
    assert CountedClient(counted, ()).pool_of(pool, 4) is pool
    assert CountedClient(counted, [ADA]).pool_of(pool, None) is pool
    assert shares(None).max_threads(ADA, 4) == 4


def test_a_forked_process_begins_without_clients_in_the_same_object() -> None:
    server = Server("forked")
    endpoint = make_endpoint(server, max_streams=1)
    counted = endpoint.shares
    reserve(counted, "requests", 8, [ADA])
    with counted._lock:
        server.renew_in_fork()
    assert config_of(server).shares is counted is endpoint.shares
    assert counted.used("requests", ADA) == 0
    server.close()


# ------------------------------------------------------------ every bound

NOT_SHARED = {
    "message_bytes": "bounds one message",
    "depth": "bounds one message",
    "batch": "bounds one message",
    "workers": "requests above it wait, and each client leaves its share to others (ClientPool)",
    "backlog_bytes": "requests that wait count among the requests, of which each client has a share",
    "rounds": "bounds one request",
    "waiting_handlers": "bounds one connection over stdio",
    "ask_timeout": "a time",
    "drain_grace": "a time",
    "write_timeout": "a time",
    "cache_bytes": "of clients",
    "call_rate": "is counted for each client",
    "notification_rate": "bounds one request",
    "client_share": "is the share",
    "address_share": "is the share",
    "body_bytes": "bounds one request",
    "session_ttl": "a time",
    "keepalive": "a time",
}
"""Numbers among the options that no share is taken of, and why."""


def bounds() -> List[str]:
    """The numeric options, found by the values that they accept."""
    found = []
    for options in (Limits, HttpOptions):
        for field in dataclasses.fields(options):
            try:
                options(**{field.name: 1})
            except (TypeError, ValueError):
                continue
            if field.name != "event_store":  # any object
                found.append(f"{options.__name__}.{field.name}")
    return found


def test_every_bound_has_a_share_or_a_reason() -> None:
    shared = " ".join(RESOURCES.values())
    names = {bound.partition(".")[2]: bound for bound in bounds()}
    assert len(names) > 15
    missing = [
        bound
        for name, bound in names.items()
        if f"({bound})" not in shared and name not in NOT_SHARED
    ]
    assert not missing, "give each client a share of these (engine/shares.py), or say why not"
    assert not NOT_SHARED.keys() - names.keys(), "these options are gone"


def test_every_shared_kind_is_counted_somewhere() -> None:
    """By the name of its kind, as an argument of `reserve`."""
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "minimcp").rglob("*.py"))
    calls = set(re.findall(r'reserve(?:, |\(\s*)"(\w+)"', sources))
    assert calls == RESOURCES.keys()


def test_counts_of_a_store_have_the_same_share() -> None:
    counted = shares()
    counted.check("tasks", 8, ADA, 1)
    with pytest.raises(ShareExceeded, match="its share of running tasks .*: 2 of 8"):
        counted.check("tasks", 8, ADA, 2)


def test_a_place_that_stays_with_its_client_is_not_counted_again() -> None:
    ada = CountedClient(shares(), [ADA])
    place, other = ada.reserve("requests", 8), ada.reserve("requests", 8)
    ada.move(place, 8)
    with pytest.raises(ShareExceeded):
        ada.reserve("requests", 8)
    other.leave()
    assert ada.reserve("requests", 8).names == [ADA]


def test_the_cache_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares_module, "MAX_CLIENTS", 2)
    counted = shares()
    first = counted.client("ada", None)
    assert counted.client("ada", None) is first and counted.client("bob", None) is not first
    assert counted.client("cyd", None).names == (("principal", "cyd"),)
    assert counted.client("ada", None) is not first, "all clients were dropped"
