"""`RedisStore`: a `Store` in Redis, which the processes of several machines share.

Each change is one script, and so whole; each key is a hash ("k:", with its value, version and time
to live) and, where it has events, a stream ("e:"). What is listed together stands in a sorted set
("i:"), by the time at which it expires. Who waits is woken by a message on a channel ("c:"), which
carries nothing: what was lost with a connection is looked for when there is one again.

https://redis.io/docs/latest/develop/programmability/eval-intro/
https://redis.io/docs/latest/develop/data-types/streams/
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar

from ..engine.pool import renewed_in_fork
from ..log import logger
from .base import Entry, Store, StoreUnavailable

log = logger("minimcp.stores")

T = TypeVar("T")

# Seconds for which a connection is used again without a look whether Redis has closed it.
TRUSTED_SECONDS = 1.0

# Entries that are read by one script.
LISTED = 1000

# Seconds that Redis has to answer; how often it is looked, while it does not, whether it is back.
ANSWER_SECONDS, PROBE_SECONDS = 1.0, 1.0

# Before every script: KEYS are the hash, the stream, the sorted set and the newest version; ARGV
# begins with the key. A version is the time in microseconds, or one more than the newest: it rises
# even if all else is gone.
_BEFORE = """
local function index(ttl)
  local now = redis.call('TIME')
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now[1])
  redis.call('ZADD', KEYS[3], ttl == '' and '+inf' or now[1] + ttl / 1000 + 1, ARGV[1])
end
local function live(ttl)
  for place = 1, 2 do
    if ttl == '' then redis.call('PERSIST', KEYS[place])
    else redis.call('PEXPIRE', KEYS[place], ttl) end
  end
  index(ttl)
end
local function version()
  local now, last = redis.call('TIME'), tonumber(redis.call('GET', KEYS[4]) or '0')
  local next = math.max(now[1] * 1000000 + now[2], last + 1)
  next = string.format('%.0f', next)
  redis.call('SET', KEYS[4], next)
  return next
end
"""

_PUT = """
if ARGV[5] ~= '' and (redis.call('HGET', KEYS[1], 'n') or '0') ~= ARGV[5] then return false end
local next = version()
redis.call('HSET', KEYS[1], 'v', ARGV[4], 'n', next, 't', ARGV[3])
live(ARGV[3])
redis.call('PUBLISH', ARGV[2], '')
return next
"""

_GET = """
local found = redis.call('HMGET', KEYS[1], 'v', 'n', 't')
local renews = found[2] and ARGV[2] == '1' and found[3] ~= ''
if renews and redis.call('PTTL', KEYS[1]) < found[3] * 0.9 then live(found[3]) end
return {found[1] or '', found[2] or '0'}
"""

_DELETE = """
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('PUBLISH', ARGV[2], '')
return tostring(redis.call('DEL', KEYS[1]))
"""

_APPEND = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
local next = version()
redis.call('HSET', KEYS[1], 'n', next, 't', ARGV[3])
redis.call('XADD', KEYS[2], next .. '-0', 'd', ARGV[4])
if ARGV[5] ~= '' then redis.call('XTRIM', KEYS[2], 'MAXLEN', ARGV[5]) end
live(ARGV[3])
redis.call('PUBLISH', ARGV[2], '')
return next
"""

_READ = """
if ARGV[3] == '1' then redis.call('XTRIM', KEYS[2], 'MINID', string.format('%.0f', ARGV[2] + 1)) end
local found = {}
for place, event in ipairs(redis.call('XRANGE', KEYS[2], '(' .. ARGV[2] .. '-0', '+')) do
  found[2 * place - 1], found[2 * place] = event[1], event[2][2]
end
return found
"""

# Of several keys by one call: KEYS are the hashes.
_LIST = """
local found = {}
for place, key in ipairs(KEYS) do
  local values = redis.call('HMGET', key, 'v', 'n')
  found[2 * place - 1], found[2 * place] = values[1] or '', values[2] or '0'
end
return found
"""

# Of all keys in a sorted set that begin with a text: KEYS is the set, ARGV what the hashes begin
# with, and the text.
_SIZES = """
local found = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local key = ARGV[1] .. name
  if string.sub(name, 1, #ARGV[2]) == ARGV[2] and redis.call('EXISTS', key) == 1 then
    found[#found + 1] = name
    found[#found + 1] = tostring(redis.call('HSTRLEN', key, 'v'))
  end
end
return found
"""

_TEXTS = {"put": _PUT, "get": _GET, "delete": _DELETE, "append": _APPEND, "read": _READ}
# Each script, and the name that Redis gives it.
SCRIPTS = {
    name: (text, hashlib.sha1(text.encode()).hexdigest())
    for name, text in {
        "list": _LIST,
        "sizes": _SIZES,
        **{name: _BEFORE + text for name, text in _TEXTS.items()},
    }.items()
}


class RedisStore(Store):
    """Keeps values and events in one Redis server, of version 7 or newer. Thread-safe; any number
    of processes.

    When Redis does not answer within a second, the call raises `StoreUnavailable`, and so do all
    others at once until one look a second has found that it is back. Who can write to Redis can do
    what the server can: keep it private.

    Args:
        url: As ``redis://127.0.0.1:6379/0``, ``rediss://`` with TLS, or ``unix:///path``.
        prefix: What all keys begin with. Servers that share nothing have different ones.

    Raises:
        ImportError: The package ``redis`` is not installed.
        ValueError: The URL is none.
    """

    shared = True

    def __init__(self, url: str, prefix: str = "minimcp:") -> None:
        self._url = url
        self._prefix = prefix
        super().__init__()
        self._begin()
        renewed_in_fork.add(self)  # not before: `_begin` may raise

    def _begin(self) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as error:
            raise ImportError("a RedisStore needs the package redis: pip install redis") from error
        self._client: Any = redis.Redis.from_url(
            self._url,
            protocol=2,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._unknown_script = redis.exceptions.NoScriptError
        self._idle: deque[tuple[Any, float]] = deque()  # connections, and when each was used
        self._lock = threading.Lock()
        self._refused = redis.ResponseError
        self._away: Optional[str] = None  # why it is
        self._closed = threading.Event()
        self._hearing = False
        self._subscribed = set[str]()
        # the channel of this store, for new things to wait for
        self._nudge = f"{self._prefix}n:{secrets.token_hex(8)}"

    def renew_in_fork(self) -> None:
        """Connect anew on the next use. Python calls this in a forked process."""
        self._begin()

    # ------------------------------------------------------------ calls

    def _do(self, call: Callable[[], T]) -> T:
        """What a call of the client returns. Raises StoreUnavailable: it fails, or Redis is known
        to be away."""
        if self._away is not None:
            raise StoreUnavailable(f"{self!r} is away: {self._away}")
        try:
            return call()
        except self._refused as error:  # Redis is there
            raise StoreUnavailable(f"{self!r}: {error}") from error
        except Exception as error:  # what is no answer of Redis may raise anything
            away = f"{type(error).__name__}: {error}"
            with self._lock:
                probing = self._away is not None
                self._away = away
            if not probing:
                log.error("%r is away: %s", self, away)
                arguments = (self._client, self._closed)
                threading.Thread(
                    target=self._probe, args=arguments, name="minimcp-redis-probe", daemon=True
                ).start()
            raise StoreUnavailable(f"{self!r}: {error}") from error

    def _probe(self, client: Any, closed: threading.Event) -> None:
        """Look once a second whether Redis is back."""
        back = False
        while not back and not closed.wait(PROBE_SECONDS):
            with suppress(Exception):
                back = client.ping() is True
        self._disconnect()
        if back:
            log.warning("%r is back", self)
        # else a call that fails at this moment would leave it away, and none look whether it is
        # back
        with self._lock:
            self._away = None

    def _run(self, script: str, key: str, *values: Any, read: Callable[[Any], T]) -> T:
        """Run a script for a key, and read what it returns."""
        folder = key[: key.rfind("/") + 1]
        keys = [self._prefix + each for each in (f"k:{key}", f"e:{key}", f"i:{folder}", "version")]
        return self._do(lambda: read(self._script(script, keys, key, *values)))

    def _script(self, name: str, keys: Sequence[str], *values: Any) -> Any:
        """What a script returns: on a connection of our own, which takes a third of the time of
        `redis.Redis.evalsha`."""
        closed, (text, digest) = self._closed, SCRIPTS[name]
        try:
            connection, used = self._idle.pop()
            if time.monotonic() - used > TRUSTED_SECONDS and connection.can_read(0):
                # it was closed meanwhile; the next command connects it anew
                connection.disconnect()
        except IndexError:
            connection = self._client.connection_pool.make_connection()
        try:
            try:
                connection.send_command("EVALSHA", digest, len(keys), *keys, *values)
                return connection.read_response()
            except self._unknown_script:
                connection.send_command("EVAL", text, len(keys), *keys, *values)
                return connection.read_response()
        except self._refused:
            raise
        except BaseException:  # who knows what comes on it
            connection.disconnect()
            raise
        finally:
            self._idle.append((connection, time.monotonic()))
            if closed.is_set():
                self._disconnect()

    def _disconnect(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                self._idle.pop()[0].disconnect()

    def _channel(self, key: str) -> str:
        return f"{self._prefix}c:{key}"

    # ------------------------------------------------------------ the interface

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """As `Store.put`."""
        expected = "" if expect is None else expect
        version = self._run(
            "put", key, self._channel(key), _milliseconds(ttl), value, expected, read=_number
        )
        self.wake([key])
        return version or None

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """As `Store.get`; a time to live begins anew when a tenth of it is over."""
        (found,) = self._run("get", key, int(renew), read=partial(_entries, [key])) or (None,)
        return found

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """As `Store.list`."""
        folder = f"{self._prefix}i:{prefix[: prefix.rfind('/') + 1]}"
        names = self._do(lambda: [name.decode() for name in self._client.zrange(folder, 0, -1)])
        keys = sorted(name for name in names if name.startswith(prefix) and name > after)
        entries: list[Entry] = []
        while keys and (limit is None or len(entries) < limit):
            entries += self._do(partial(self._get_all, keys[:LISTED]))
            keys = keys[LISTED:]
        return entries[:limit]

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """As `Store.sizes`; one call of Redis, however many keys there are."""
        folder = f"{self._prefix}i:{prefix[: prefix.rfind('/') + 1]}"
        arguments = (f"{self._prefix}k:", prefix)
        return self._do(lambda: _sizes(self._script("sizes", [folder], *arguments)))

    def _get_all(self, keys: Sequence[str]) -> Sequence[Entry]:
        return _entries(keys, self._script("list", [f"{self._prefix}k:{key}" for key in keys]))

    def delete(self, key: str) -> bool:
        """As `Store.delete`."""
        found = self._run("delete", key, self._channel(key), read=_number)
        self.wake([key])
        return bool(found)

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """As `Store.append`."""
        kept = "" if most is None else most
        number = self._run(
            "append", key, self._channel(key), _milliseconds(ttl), data, kept, read=_number
        )
        self.wake([key])
        return number

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """As `Store.read`."""
        return self._run("read", key, after, int(forget), read=_events)

    # ------------------------------------------------------------ waiting

    def watch(self, keys: Iterable[str]) -> None:
        """As `Store.watch`: one thread hears, on one connection, of all that is waited for in this
        process."""
        with self._lock:
            begins = not self._hearing
            self._hearing = True
        if begins:
            threading.Thread(
                target=self._hear, args=(self._client,), name="minimcp-redis", daemon=True
            ).start()
        elif not self._subscribed.issuperset(keys):
            self._do(lambda: self._client.publish(self._nudge, ""))

    def _hear(self, client: Any) -> None:
        """Wake who waits for what any process has changed, until nobody has waited for a while."""
        closed = self._closed
        while self._is_heard():
            try:
                with client.pubsub() as heard:
                    self._follow(heard)
            except Exception as error:
                log.debug("%r does not tell of changes: %s", self, error)
                closed.wait(PROBE_SECONDS)
        if closed.is_set():
            client.connection_pool.disconnect(inuse_connections=False)

    def _is_heard(self) -> bool:
        """Whether a thread waits; else the one that hears ends, and the next wait begins
        another."""
        with self._lock:
            self._hearing = bool(self._waiters)
            return self._hearing

    def _follow(self, heard: Any) -> None:
        silent = False
        self._subscribed = set()
        heard.subscribe(self._nudge)
        while True:
            with self._waiters_lock:
                wanted = set(self._waiters)
            if wanted - self._subscribed:
                heard.subscribe(*map(self._channel, wanted - self._subscribed))
                self._subscribed |= wanted
            message = heard.get_message(timeout=PROBE_SECONDS)
            if message is not None:
                silent = False
                if message["type"] in (
                    "message",
                    "subscribe",
                ):  # what has changed before that is to be looked for
                    self.wake([message["channel"].decode()[len(self._channel("")) :]])
            elif silent:
                raise StoreUnavailable("it says nothing")
            else:
                if not self._waiters:
                    return
                unwanted = self._subscribed - wanted
                self._subscribed -= unwanted
                if unwanted:
                    heard.unsubscribe(*map(self._channel, unwanted))
                heard.ping()
                silent = True

    def close(self) -> None:
        """Close the connections that are not in use; the next use opens others. Idempotent."""
        self._closed.set()
        self._closed = threading.Event()
        self._client.connection_pool.disconnect(inuse_connections=False)
        self._disconnect()

    def __repr__(self) -> str:
        return f"<RedisStore {self._prefix!r}>"  # never the URL: it may hold a password


def _milliseconds(ttl: Optional[float]) -> Any:
    return "" if ttl is None else max(1, round(ttl * 1000))


# What stands in an answer. Each raises ValueError: Redis would not answer so.


def _number(text: Any) -> int:
    """A version, or the number of an event; 0 for none."""
    if text is None:
        return 0
    if not isinstance(text, bytes):
        raise ValueError(f"no version: {text!r:.60}")
    return int(text.partition(b"-")[0])


def _pairs(found: Any) -> list[tuple[bytes, bytes]]:
    if (
        not isinstance(found, list)
        or len(found) % 2
        or not all(isinstance(each, bytes) for each in found)
    ):
        raise ValueError(f"not what was asked: {found!r:.60}")
    return list(zip(found[::2], found[1::2]))


def _sizes(found: Any) -> dict[str, int]:
    return {name.decode(): int(size) for name, size in _pairs(found)}


def _events(found: Any) -> list[tuple[int, bytes]]:
    return [(_number(number), data) for number, data in _pairs(found)]


def _entries(keys: Sequence[str], found: Any) -> list[Entry]:
    """Those that there are."""
    pairs = _pairs(found)
    if len(pairs) != len(keys):
        raise ValueError(f"{len(pairs)} entries for {len(keys)} keys")
    entries = [Entry(key, value, _number(number)) for key, (value, number) in zip(keys, pairs)]
    return [entry for entry in entries if entry.version]
