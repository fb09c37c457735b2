"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Iterator, List

import pytest

from minimcp import SqliteStore


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Open the same file any number of times; all are closed at the end."""
    opened: List[SqliteStore] = []

    def make() -> SqliteStore:
        opened.append(SqliteStore(tmp_path / "store.db"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
