"""`MemoryStore`, `SqliteStore` and `RedisStore`: one contract, and the extras of a file: other
processes, restarts, forks."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator

import pytest

from minimcp import CancelToken, MemoryStore, RedisStore, SqliteStore, Store
from minimcp.stores.base import StoreUnavailable

from ..inside import callbacks_of, waiters_of
from ..redis_server import RedisServer, redis_server
from ..scripted import Task
from ..support import ROOT, WAIT, around, eventually, run_python


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    opened: Any = None
    if request.param == "sqlite":
        opened = SqliteStore(tmp_path / "store.db")
    else:
        opened = RedisStore(request.getfixturevalue("redis").url)
    yield opened
    opened.close()


@pytest.fixture
def clock(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float], None]]:
    """Advance the clock of a store; that of Redis by shortening the lifetimes of its keys."""
    ahead = [0.0]
    store = request.getfixturevalue("store")
    if isinstance(store, RedisStore):
        import redis

        client = redis.Redis.from_url(request.getfixturevalue("redis").url)

        def shorten(seconds: float) -> None:
            for key in client.scan_iter("*"):
                left = client.pttl(key)
                if left > 0:
                    client.pexpire(key, int(left - seconds * 1000))

        yield shorten
        client.close()
        return
    monotonic, wall = (
        time.monotonic(),
        time.time(),
    )  # the clock does not advance, however long a test takes
    monkeypatch.setattr("minimcp.stores.base.time.monotonic", lambda: monotonic + ahead[0])
    monkeypatch.setattr("minimcp.stores.sqlite.time.time", lambda: wall + ahead[0])

    def forward(seconds: float) -> None:
        ahead[0] += seconds

    yield forward


def test_a_value_is_kept_and_its_version_rises(store: Store) -> None:
    assert store.get("a") is None
    first = store.put("a", b"1")
    entry = store.get("a")
    assert entry is not None and first is not None and first > 0
    assert entry == ("a", b"1", first)
    second = store.put("a", b"2")
    assert second is not None and second > first
    third = store.put("b", b"")
    assert third is not None and third > second  # versions rise over all keys
    assert [entry.key for entry in store.list("")] == ["a", "b"]


def test_put_sets_only_the_expected_version(store: Store) -> None:
    first = store.put("a", b"1", expect=0)
    assert first
    assert store.put("a", b"2", expect=0) is None
    assert store.put("a", b"2", expect=first + 1) is None
    second = store.put("a", b"2", expect=first)
    assert second
    assert store.put("a", b"3", expect=first) is None
    entry = store.get("a")
    assert entry is not None and entry.value == b"2"
    store.delete("a")
    assert store.put("a", b"4", expect=second) is None
    assert store.put("a", b"4", expect=0)


def test_one_of_many_writers_with_the_same_version_succeeds(store: Store) -> None:
    version = store.put("a", b"")
    start = threading.Barrier(8)

    def race(number: int) -> Any:
        start.wait(WAIT)
        return store.put("a", b"%d" % number, expect=version)

    done = [race.result() for race in [Task(race, number) for number in range(8)]]
    assert len([each for each in done if each is not None]) == 1


def test_list_goes_by_prefix_in_order_and_in_parts(store: Store) -> None:
    for key in ("task/b", "task/a", "tasks", "task/c", "tas", "task/é", "u"):
        store.put(key, key.encode())
    assert [entry.key for entry in store.list("task/")] == ["task/a", "task/b", "task/c", "task/é"]
    assert [entry.key for entry in store.list("task/", limit=2)] == ["task/a", "task/b"]
    rest = store.list("task/", after="task/b", limit=2)
    assert [(entry.key, entry.value) for entry in rest] == [
        ("task/c", b"task/c"),
        ("task/é", "task/é".encode()),
    ]
    assert store.list("task/", after="task/é") == []


def test_sizes_equal_those_of_list(store: Store, clock: Callable[[float], None]) -> None:
    values = {
        "s/task/a:1": b"1",
        "s/task/a:2": b"",
        "s/task/b:1": "é".encode() * 1000,
        "s/tasks": b"x",
    }
    for key, value in values.items():
        store.put(key, value, ttl=100)
    store.put("s/task/a:3", b"12345", ttl=10)
    store.append("s/task/a:4", b"events are not counted", ttl=100)
    for prefix in ("s/task/", "s/task/a:", "s/task/b:", "s/task/c:", "s/task/a:1", "other/", "s/"):
        sizes = store.sizes(prefix)
        if prefix != "s/":  # keys that are listed together have no further slash
            assert dict(sizes) == {entry.key: len(entry.value) for entry in store.list(prefix)}
    assert dict(store.sizes("s/task/a:")) == {
        "s/task/a:1": 1, "s/task/a:2": 0, "s/task/a:3": 5, "s/task/a:4": 0,
    }  # fmt: skip
    store.delete("s/task/a:1")
    clock(20)
    assert dict(store.sizes("s/task/a:")) == {"s/task/a:2": 0, "s/task/a:4": 0}


def test_a_time_to_live_ends_a_key_with_its_events(
    store: Store, clock: Callable[[float], None]
) -> None:
    store.put("a", b"1", ttl=10)
    store.put("b", b"2")
    store.append("c", b"event", ttl=10)
    clock(9)
    assert store.get("a") is not None
    assert len(store.read("c")) == 1
    store.put("a", b"3", ttl=10)  # starts the lifetime again
    clock(2)
    assert store.get("a") is not None
    assert store.get("c") is None
    assert store.read("c") == []
    clock(20)
    assert [entry.key for entry in store.list("")] == ["b"]
    assert store.put("a", b"4", expect=0)
    number = store.append("c", b"later")
    assert store.read("c") == [(number, b"later")]  # nothing of the one before


def test_events_are_read_in_order_from_any_on(store: Store) -> None:
    assert store.read("log") == []
    numbers = [store.append("log", b"%d" % place) for place in range(3)]
    store.append("other", b"x")
    assert numbers == sorted(set(numbers))
    assert store.read("log") == list(zip(numbers, (b"0", b"1", b"2")))
    assert store.read("log", numbers[0]) == list(zip(numbers[1:], (b"1", b"2")))
    assert store.read("log", numbers[2]) == []
    store.put("log", b"value")
    assert len(store.read("log")) == 3
    assert store.delete("log")
    assert (store.read("log"), store.get("log")) == ([], None)
    assert not store.delete("log")


def test_wait_sees_earlier_changes(store: Store) -> None:
    version = store.put("a", b"1")
    assert version is not None
    assert not store.wait(["a"], version, timeout=0)
    store.put("a", b"2")
    assert store.wait(["b", "a"], version, timeout=0)
    assert store.wait(["gone"], version, timeout=0)


@pytest.mark.parametrize("change", ["put", "append", "delete"])
def test_wait_is_woken_by_each_change(store: Store, change: str) -> None:
    version = store.put("a", b"1")
    store.put("b", b"1")
    newest = max(entry.version for entry in store.list(""))
    assert version is not None
    waiting = Task(store.wait, ["a", "b"], newest, timeout=WAIT)
    assert eventually(lambda: waiters_of(store))
    getattr(store, change)("b", *([] if change == "delete" else [b"x"]))
    assert waiting.result() is True and not waiters_of(store)


def test_wait_is_not_woken_by_another_key_and_ends_when_it_is_cancelled(store: Store) -> None:
    version, token = store.put("a", b"1"), CancelToken()
    assert version is not None
    assert not store.wait(["a"], version, 0.01, token) and not callbacks_of(token), (
        "a token outlives many waits"
    )
    waiting = Task(store.wait, ["a"], version, cancel=token)
    assert eventually(lambda: waiters_of(store))
    store.put("b", b"1")
    token.cancel()
    assert waiting.result() is False


def test_two_threads_wait_for_a_key_that_each_names_twice(store: Store) -> None:
    version = store.put("a", b"1")
    assert version is not None
    short, long = (Task(store.wait, ["a", "a"], version, seconds) for seconds in (0.01, WAIT))
    assert short.result() is False, "its time is over, and the other one waits on"
    store.put("a", b"2")
    assert long.result() is True and waiters_of(store) == {}


def test_no_wake_up_is_lost(store: Store) -> None:
    """Each of two threads counts up after the other, and waits for the other's change."""
    rounds, versions = 50, {"a": store.put("a", b"0"), "b": store.put("b", b"0")}

    def count(mine: str, other: str) -> None:
        seen = versions[other]
        for number in range(1, rounds + 1):
            store.put(mine, b"%d" % number)
            while True:
                entry = store.get(other)
                assert entry is not None
                if int(entry.value) >= number:
                    break
                seen = entry.version
                assert store.wait([other], seen, timeout=WAIT)

    for task in [Task(count, *pair) for pair in (("a", "b"), ("b", "a"))]:
        task.result()


def test_reading_a_value_restarts_its_time_to_live(
    store: Store, clock: Callable[[float], None]
) -> None:
    store.put("a", b"1", ttl=10)
    store.put("b", b"2", ttl=10)
    store.put("c", b"3")
    clock(6)
    assert (
        store.get("a", renew=True) is not None
        and store.get("b") is not None
        and store.get("c", renew=True)
    )
    clock(6)
    assert store.get("a") is not None
    assert store.get("b") is None
    clock(100)
    assert store.get("a") is None and store.get("c") is not None
    assert store.get("a", renew=True) is None


def test_events_are_dropped_by_number_or_when_they_were_read(store: Store) -> None:
    numbers = [store.append("log", b"%d" % place, most=3) for place in range(5)]
    assert store.read("log") == list(zip(numbers[2:], (b"2", b"3", b"4")))
    assert store.read("log", numbers[2], forget=True) == list(zip(numbers[3:], (b"3", b"4")))
    assert store.read("log") == list(zip(numbers[3:], (b"3", b"4")))
    assert store.read("log", numbers[4], forget=True) == []
    assert store.read("log") == []
    assert store.get("log") is not None, "the key goes on without events"
    assert store.read("none", 5, forget=True) == []


# ------------------------------------------------------------ a file

OTHER = """
import sys
from minimcp import SqliteStore
store = SqliteStore(sys.argv[1])
for number in range(100):
    while True:
        entry = store.get("count")
        if store.put("count", b"%d" % (int(entry.value) + 1), expect=entry.version):
            break
print(store.get("kept").value.decode())
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    store.put("count", b"0")
    store.put("kept", b"yes")
    arguments = ["-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{OTHER}", str(path)]
    ends = [each.result(2 * WAIT) for each in [Task(run_python, arguments) for _ in range(2)]]
    assert [(end.returncode, end.stdout.strip(), end.stderr) for end in ends] == [
        (0, b"yes", b"")
    ] * 2
    entry = store.get("count")
    assert entry is not None and entry.value == b"200"
    store.close()


def test_a_change_of_another_store_wakes(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    for change in (lambda: two.put("a", b"2"), lambda: two.delete("a")):
        version = one.put("a", b"1")
        assert version is not None
        waiting = Task(one.wait, ["a"], version, WAIT)
        assert eventually(lambda: waiters_of(one))
        change()
        assert waiting.result() is True
    one.close()
    two.close()


def test_values_and_events_survive_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "store.db")
    version = first.put("a", b"1")
    number = first.append("log", b"event")
    first.close()
    second = SqliteStore(tmp_path / "store.db")
    assert second.get("a") == ("a", b"1", version)
    assert second.read("log") == [(number, b"event")]
    assert (second.put("a", b"2") or 0) > number
    second.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork, which Windows does not have")
def test_a_forked_process_opens_the_file_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.put("a", b"parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            entry = store.get("a")
            if entry is not None and entry.value == b"parent" and store.put("b", b"child"):
                status = 0
        finally:
            os._exit(status)
    store.put("c", b"parent")
    assert os.waitpid(child, 0)[1] == 0
    assert [(entry.key, entry.value) for entry in store.list("")] == [
        ("a", b"parent"), ("b", b"child"), ("c", b"parent"),
    ]  # fmt: skip
    store.close()


def test_a_file_that_is_not_a_store_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database, but a text of some length" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteStore(path)
    with pytest.raises(OSError, match="nowhere"):
        SqliteStore(tmp_path / "nowhere" / "store.db")


def before_query(
    monkeypatch: pytest.MonkeyPatch, store: SqliteStore, look: Callable[[str], object]
) -> None:
    """Have `look` see each statement before a store executes it, or raise instead."""

    def queried(query: Any, statement: str, *values: Any) -> Any:
        look(statement)
        return query(statement, *values)

    around(monkeypatch, store, "_query", queried)


def test_a_poll_that_fails_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    version = one.put("a", b"1")
    assert version is not None
    failed = threading.Event()

    def fails_once(statement: str) -> None:
        if "version >" in statement and not failed.is_set():
            failed.set()
            raise sqlite3.OperationalError("disk I/O error")

    before_query(monkeypatch, one, fails_once)
    waiting = Task(one.wait, ["a"], version, WAIT)
    assert failed.wait(WAIT)
    two.put("a", b"2")
    assert waiting.result() is True
    assert "disk I/O error" in caplog.text
    one.close()
    two.close()


def test_an_exception_leaves_nothing_half_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    wrong: Any = object()
    with pytest.raises(sqlite3.Error):
        store.put("a", wrong)
    assert store.get("a") is None
    assert store.put("a", b"1", expect=0)
    store.close()


def test_a_wait_that_cannot_begin_keeps_no_other_from_being_woken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    version, failures = one.put("a", b"1"), [sqlite3.OperationalError("disk I/O error")]
    get, looked = one.get, threading.Event()
    assert version is not None

    def fails_once(statement: str) -> None:
        if failures:
            raise failures.pop()

    before_query(monkeypatch, one, fails_once)
    with pytest.raises(sqlite3.Error):
        one.wait(["a"], version, WAIT)
    monkeypatch.setattr(one, "get", lambda key: (get(key), looked.set())[0])
    waiting = Task(one.wait, ["a"], version, 2 * WAIT)
    assert looked.wait(WAIT)
    two.put("a", b"2")
    assert waiting.result() is True
    one.close()
    two.close()


def test_a_call_that_fails_late_does_not_leave_redis_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It began before Redis was away, and fails as that is found to be back."""
    monkeypatch.setattr("minimcp.stores.redis.PROBE_SECONDS", 0.01)
    store, back = RedisStore("redis://127.0.0.1:1/0"), threading.Event()
    do = store._do
    store._client = SimpleNamespace(ping=back.is_set, connection_pool=store._client.connection_pool)

    class Late(Exception):
        def __str__(self) -> str:
            back.set()
            for thread in threading.enumerate():
                if thread.name == "minimcp-redis-probe":
                    thread.join(WAIT)
            return "late"

    def fail(error: Exception) -> Any:
        raise error

    def call() -> None:
        with pytest.raises(StoreUnavailable):  # another thread's
            do(lambda: fail(ConnectionError()))
        raise Late

    with pytest.raises(StoreUnavailable):
        do(call)
    assert eventually(lambda: store._failure is None)
    store.close()


# ------------------------------------------------------------ the file and its owner

needs_modes = pytest.mark.skipif(
    os.name == "nt", reason="needs the modes of files, which Windows does not have"
)


@needs_modes
@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602, 0o777])
def test_a_file_that_others_may_write_to_is_rejected(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    path.chmod(mode)
    with pytest.raises(PermissionError, match="chmod 600"):
        SqliteStore(path)
    path.chmod(0o600)
    SqliteStore(path).close()


@needs_modes
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_is_rejected(tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "target.db"
    if not dangling:
        SqliteStore(target).close()
    (tmp_path / "store.db").symlink_to(target)
    with pytest.raises(PermissionError, match="is a link"):
        SqliteStore(tmp_path / "store.db")
    assert target.exists() is not dangling


@needs_modes
def test_a_file_of_another_user_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(tmp_path / "store.db").close()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        SqliteStore(tmp_path / "store.db")


@needs_modes
def test_the_files_are_private_to_the_user(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.put("key", b"value", 10)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    store.close()
    assert set(modes.values()) == {0o600} and "store.db" in modes
