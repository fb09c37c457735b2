"""`SqliteStore`: a `Store` in a file, which the processes of one machine share.

The file survives a restart.

https://sqlite.org/wal.html
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Union
from weakref import WeakSet

from ..engine.cancel import CancelToken
from ..engine.pool import renewed_in_fork
from ..log import logger
from .base import SWEEP_SECONDS, Entry, Store

log = logger("minimcp.stores")

# Seconds between two checks for changes of other processes, while a thread waits.
POLL_SECONDS = 0.05

# Seconds that a statement waits for another process to finish its own.
BUSY_SECONDS = 30.0

# The part of a time to live that must have passed before it is renewed, because each renewal writes
# to the file.
RENEW_AFTER = 0.1

# Seconds for which the row of a deleted key remains.
DELETED_SECONDS = 60.0

# A deleted key has no value. Other processes notice the deletion by its version.
SCHEMA = """
create table if not exists entries
    (key text primary key, value blob, version integer not null, expires real, ttl real);
create index if not exists entries_version on entries (version);
create index if not exists entries_expires on entries (expires);
create index if not exists entries_alive on entries (key, expires);
create table if not exists events (
    key text not null, number integer not null, data blob, primary key (key, number)
);
create table if not exists counter (version integer not null);
insert into counter select 0 where not exists (select 1 from counter);
"""

ALIVE = "value is not null and (expires is null or expires > ?)"

# Sorts after every other character, so that a range of keys ends with it.
LAST = chr(0x10FFFF)


def _check_owner(path: str) -> None:
    """Create a file if it does not exist, and check who may change it.

    The checks use the opened descriptor, so that the file cannot be exchanged between them.

    Raises:
        PermissionError: The file is a link, belongs to another user, or others may write to it.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        number = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise PermissionError(f"{path} is a link: name the file itself") from None
        raise
    try:
        found = os.fstat(number)
    finally:
        os.close(number)
    if not hasattr(os, "getuid"):
        return  # Windows: the folder's access list decides
    if found.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user (number {found.st_uid})")
    if found.st_mode & 0o022:
        mode = stat.filemode(found.st_mode)
        raise PermissionError(f"{path} is writable by other users ({mode}): chmod 600 it")


class SqliteStore(Store):
    """Keeps values and events in a file. Thread-safe.

    Several processes of one machine may use the file at the same time. Times to live are counted by
    the clock of the machine. The file must not be on a network file system. Only its user can read
    a new file. An existing file must belong to this user, and no other user may have permission to
    write to it.

    Args:
        path: The path of the file, which is created if it does not exist. Two more files are
            created next to it while it is in use.

    Raises:
        PermissionError: The file is a link, belongs to another user, or others may write to it.
        sqlite3.Error: The file cannot be opened, or is not a database.
    """

    shared = True

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        super().__init__()
        self._path = os.path.abspath(path)
        _check_owner(self._path)
        self._swept = 0.0
        self._begin()
        with self._lock:
            self._connect()
        _stores.add(self)
        renewed_in_fork.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._connection: Optional[sqlite3.Connection] = None
        self._waiting = 0
        self._poller = threading.Event()

    def renew_in_fork(self) -> None:
        """Forget the open file, in a forked child process. The next use opens it again."""
        self._begin()

    def _connect(self) -> sqlite3.Connection:
        """Return the connection. The caller holds the lock."""
        if self._connection is None:
            opened = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                opened.execute("pragma journal_mode = wal")
                # A killed process loses nothing with this setting.
                opened.execute("pragma synchronous = normal")
                opened.executescript(SCHEMA)
            except BaseException:
                opened.close()
                raise
            self._connection = opened
        return self._connection

    def _query(self, statement: str, *values: Any) -> Any:
        with self._lock:
            return self._connect().execute(statement, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction, in which no other thread or process writes."""
        with self._lock:
            connection = self._connect()
            connection.execute("begin immediate")
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                connection.execute("rollback")
                raise

    def _change(
        self, connection: sqlite3.Connection, key: str, value: Optional[bytes], ttl: Optional[float]
    ) -> int:
        """Write a value as a new version, within a transaction."""
        now = time.time()
        if abs(now - self._swept) > SWEEP_SECONDS:
            connection.execute("delete from entries where expires <= ?", (now,))
            connection.execute("delete from events where key not in (select key from entries)")
            self._swept = now
        elif not self._alive(connection, key):  # delete the events of an expired key
            connection.execute("delete from events where key = ?", (key,))
        connection.execute("update counter set version = version + 1")
        version = int(connection.execute("select version from counter").fetchone()[0])
        row = (key, value, version, None if ttl is None else now + ttl, ttl)
        connection.execute("insert or replace into entries values (?, ?, ?, ?, ?)", row)
        return version

    def _alive(self, connection: sqlite3.Connection, key: str) -> Any:
        statement = f"select key, value, version from entries where key = ? and {ALIVE}"
        return connection.execute(statement, (key, time.time())).fetchone()

    # ------------------------------------------------------------ the interface

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """See `Store.put`."""
        with self._writing() as connection:
            if expect is not None:
                row = self._alive(connection, key)
                if (row[2] if row else 0) != expect:
                    return None
            version = self._change(connection, key, value, ttl)
        self.wake([key])
        return version

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """See `Store.get`. A time to live is renewed only after a tenth of it has passed."""
        with self._lock:
            row = self._alive(self._connect(), key)
            if row and renew:
                now = time.time()
                statement = (
                    "update entries set expires = ? + ttl where key = ? and expires < ? + ttl * ?"
                )
                self._connect().execute(statement, (now, key, now, 1 - RENEW_AFTER))
        return Entry(*row) if row else None

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """See `Store.list`."""
        statement = (
            f"select key, value, version from entries where {ALIVE}"
            " and key >= ? and key < ? and key > ? order by key limit ?"
        )
        most = -1 if limit is None else limit
        return [
            Entry(*row)
            for row in self._query(statement, time.time(), prefix, prefix + LAST, after, most)
        ]

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """See `Store.sizes`."""
        # The index holds all compared columns. In a row, the value comes first and would be read.
        statement = (
            "select key, length(value) from entries indexed by entries_alive"
            f" where {ALIVE} and key >= ? and key < ?"
        )
        return dict(self._query(statement, time.time(), prefix, prefix + LAST))

    def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        with self._writing() as connection:
            found = self._alive(connection, key) is not None
            if found:
                self._change(connection, key, None, DELETED_SECONDS)
                connection.execute("delete from events where key = ?", (key,))
        self.wake([key])
        return found

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """See `Store.append`."""
        with self._writing() as connection:
            row = self._alive(connection, key)
            version = self._change(connection, key, row[1] if row else b"", ttl)
            connection.execute("insert into events values (?, ?, ?)", (key, version, data))
            if most is not None:
                oldest = (
                    "select number from events where key = ? order by number desc limit 1 offset ?"
                )
                connection.execute(
                    f"delete from events where key = ? and number <= ({oldest})", (key, key, most)
                )
        self.wake([key])
        return version

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """See `Store.read`."""
        statement = "select number, data from events where key = ? and number > ? order by number"
        with self._lock:
            if forget:
                self._query("delete from events where key = ? and number <= ?", key, after)
            return self._query(statement, key, after) if self.get(key) else []

    # ------------------------------------------------------------ waiting

    def wait(
        self,
        keys: Iterable[str],
        after: int,
        timeout: Optional[float] = None,
        cancel: Optional[CancelToken] = None,
    ) -> bool:
        """See `Store.wait`. A change by another process is noticed within 0.05 s."""
        try:
            with self._lock:
                self._waiting += 1
                if self._waiting == 1:
                    self._poller = threading.Event()
                    newest = self._query("select version from counter")[0][0]
                    arguments = (self._poller, newest)
                    threading.Thread(
                        target=self._poll, args=arguments, name="minimcp-sqlite", daemon=True
                    ).start()
            return super().wait(keys, after, timeout, cancel)
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._poller.set()

    def _poll(self, ended: threading.Event, newest: int) -> None:
        """Wake threads whose keys any process has changed, until no thread is waiting."""
        while not ended.wait(POLL_SECONDS):
            try:
                with self._lock:
                    if ended.is_set():  # then the file may be closed
                        return
                    rows = self._query(
                        "select key, version from entries where version > ? order by version",
                        newest,
                    )
            except sqlite3.Error as error:
                log.error("%r cannot be read: %s", self, error)
                continue
            if rows:
                newest = rows[-1][1]
                self.wake(row[0] for row in rows)

    def close(self) -> None:
        """Close the file. The next use opens it again. Idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __repr__(self) -> str:
        return f"SqliteStore({self._path!r})"


_stores: WeakSet[SqliteStore] = WeakSet()
_closed_for_fork: list[SqliteStore] = []


def _before_fork() -> None:
    """Close the files, because SQLite must not find its parent's locks in a child process."""
    for store in list(_stores):
        store._lock.acquire()
        store.close()
        _closed_for_fork.append(store)


def _forked_parent() -> None:
    while _closed_for_fork:
        _closed_for_fork.pop()._lock.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork, after_in_parent=_forked_parent, after_in_child=_closed_for_fork.clear
    )
