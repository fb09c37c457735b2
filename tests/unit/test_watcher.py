"""`Lease` and `Watcher`: one of several processes has a right, and a thread waits for changes."""

from __future__ import annotations

import time
from typing import Any, Dict, List

import pytest

from minimcp import MemoryStore
from minimcp.stores.base import StoreUnavailable
from minimcp.stores.watcher import Lease, Watcher

from ..support import WAIT, eventually


def test_one_process_has_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.stores.watcher.RENEW_SECONDS", 0.0)
    store = MemoryStore()
    first, second = Lease(store, "lease"), Lease(store, "lease")
    assert [first.hold(), second.hold(), first.hold()] == [True, False, True]
    assert not second.release()
    assert first.release()
    assert [second.hold(), first.hold()] == [True, False]


def test_a_lease_that_is_not_renewed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.stores.watcher.RENEW_SECONDS", 0.0)
    monkeypatch.setattr("minimcp.stores.watcher.LEASE_SECONDS", 0.1)
    store = MemoryStore()
    first, second = Lease(store, "lease"), Lease(store, "lease")
    assert first.hold()
    time.sleep(0.2)
    assert second.hold()
    # It does not end the lease of the other one.
    assert not first.release()
    assert not first.hold()


class Watched:
    """A watcher of the key "a", whose function can fail."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.put("a", b"")
        self.looks: List[float] = []
        self.fails = 0
        self.is_idle: Any = False
        self.watcher = Watcher(
            self.store, "minimcp-test", self._is_idle, self._keys, self._look, WAIT
        )

    def _is_idle(self) -> bool:
        if isinstance(self.is_idle, Exception):
            raise self.is_idle
        return bool(self.is_idle)

    def _keys(self) -> Dict[str, int]:
        entry = self.store.get("a")
        return {"a": 0 if entry is None else entry.version}

    def _look(self) -> None:
        self.looks.append(time.monotonic())
        if len(self.looks) <= self.fails:
            raise StoreUnavailable("the store is away")

    def end(self) -> None:
        self.is_idle = True
        self.watcher.wake()
        assert eventually(lambda: self.watcher.thread is None)


def test_the_function_is_called_after_each_change() -> None:
    watched = Watched()
    watched.watcher.start()
    watched.watcher.start()
    assert eventually(lambda: len(watched.looks) == 1)
    watched.store.append("a", b"1")
    assert eventually(lambda: len(watched.looks) == 2)
    watched.watcher.wake()
    assert eventually(lambda: len(watched.looks) == 3)
    watched.end()
    count = len(watched.looks)
    watched.watcher.start()  # it is idle
    assert watched.watcher.thread is None
    watched.is_idle = False
    watched.watcher.start()
    assert eventually(lambda: len(watched.looks) > count)
    watched.end()


def test_a_store_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("minimcp.stores.watcher.RETRY_SECONDS", 0.01)
    watched = Watched()
    watched.fails = 2
    watched.is_idle = StoreUnavailable("the store is away")
    watched.watcher.start()  # it does not raise
    assert eventually(lambda: len(watched.looks) >= 3)
    assert "minimcp-test will try again: the store is away" in caplog.text
    assert "Traceback" not in caplog.text
    watched.end()
