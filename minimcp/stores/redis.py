"""`RedisStore`: a `Store` in Redis, which the processes of several machines share.

Each change is one script, and therefore atomic. Each key is a hash ("k:") with its value, version
and time to live, and a stream ("e:") if it has events. Keys that are listed together are in a
sorted set ("i:"), by the time at which they expire. A message on a channel ("c:") wakes waiting
threads. It has no content: after a lost connection, a thread reads the keys again.

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

# Seconds for which an idle connection is reused without a check whether Redis has closed it.
TRUSTED_SECONDS = 1.0

# Maximum number of entries that one script reads.
MAX_LISTED = 1000

# Seconds in which Redis must answer.
ANSWER_SECONDS = 1.0

# Seconds between two checks whether Redis has returned.
PROBE_SECONDS = 1.0

# The beginning of every script. KEYS are the hash, the stream, the sorted set and the newest
# version; the first ARGV is the key. A version is the time in microseconds, or one more than the
# newest version, so it increases even if all other data is lost.
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

# Returns several keys at once: KEYS are the hashes.
_LIST = """
local found = {}
for place, key in ipairs(KEYS) do
  local values = redis.call('HMGET', key, 'v', 'n')
  found[2 * place - 1], found[2 * place] = values[1] or '', values[2] or '0'
end
return found
"""

# Returns the sizes of all keys in a sorted set that begin with a prefix: KEYS is the set, ARGV the
# beginning of the hashes' names and the prefix.
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
# Each script, and its name in Redis.
SCRIPTS = {
    name: (text, hashlib.sha1(text.encode()).hexdigest())
    for name, text in {
        "list": _LIST,
        "sizes": _SIZES,
        **{name: _BEFORE + text for name, text in _TEXTS.items()},
    }.items()
}


class RedisStore(Store):
    """Keeps values and events in one Redis server, version 7 or newer. Thread-safe.

    Any number of processes may use it. If Redis does not answer within a second, the call raises
    `StoreUnavailable`. All other calls then raise it at once, until a check, one each second, finds
    that Redis has returned. Anybody who can write to Redis can do what the server can: keep it
    private.

    Args:
        url: A URL such as ``redis://127.0.0.1:6379/0``, ``rediss://...`` with TLS, or
            ``unix:///path``.
        prefix: The beginning of all keys. Servers that share nothing need different prefixes.

    Raises:
        ImportError: The package ``redis`` is not installed.
        ValueError: The URL is invalid.
    """

    shared = True

    def __init__(self, url: str, prefix: str = "minimcp:") -> None:
        self._url = url
        self._prefix = prefix
        super().__init__()
        self._begin()
        renewed_in_fork.add(self)  # last, because `_begin` may raise

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
        # Idle connections, and the time when each was last used.
        self._idle: deque[tuple[Any, float]] = deque()
        self._lock = threading.Lock()
        self._rejection = redis.ResponseError
        # Why Redis is unavailable; None while it is available.
        self._failure: Optional[str] = None
        self._closed = threading.Event()
        self._is_listening = False
        self._subscribed = set[str]()
        # The channel that makes the listener subscribe to more keys.
        self._nudge = f"{self._prefix}n:{secrets.token_hex(8)}"

    def renew_in_fork(self) -> None:
        """Drop the connections, in a forked child process."""
        self._begin()

    # ------------------------------------------------------------ calls

    def _do(self, call: Callable[[], T]) -> T:
        """Return the result of a call of the client.

        Raises:
            StoreUnavailable: The call failed, or Redis is known to be unavailable.
        """
        if self._failure is not None:
            raise StoreUnavailable(f"{self!r} is unavailable: {self._failure}")
        try:
            return call()
        except self._rejection as error:  # Redis is available
            raise StoreUnavailable(f"{self!r}: {error}") from error
        except Exception as error:  # an invalid answer may raise any exception
            failure = f"{type(error).__name__}: {error}"
            with self._lock:
                is_probing = self._failure is not None
                self._failure = failure
            if not is_probing:
                log.error("%r is unavailable: %s", self, failure)
                arguments = (self._client, self._closed)
                threading.Thread(
                    target=self._probe, args=arguments, name="minimcp-redis-probe", daemon=True
                ).start()
            raise StoreUnavailable(f"{self!r}: {error}") from error

    def _probe(self, client: Any, closed: threading.Event) -> None:
        """Check once a second whether Redis has returned."""
        is_back = False
        while not is_back and not closed.wait(PROBE_SECONDS):
            with suppress(Exception):
                is_back = client.ping() is True
        self._disconnect()
        if is_back:
            log.warning("%r is available again", self)
        # Last, so that a call that fails before this does not need another probe.
        with self._lock:
            self._failure = None

    def _run(self, script: str, key: str, *values: Any, read: Callable[[Any], T]) -> T:
        """Run a script for a key, and decode its result."""
        folder = key[: key.rfind("/") + 1]
        keys = [self._prefix + each for each in (f"k:{key}", f"e:{key}", f"i:{folder}", "version")]
        return self._do(lambda: read(self._script(script, keys, key, *values)))

    def _script(self, name: str, keys: Sequence[str], *values: Any) -> Any:
        """Return the result of a script, on a connection of this class.

        That takes a third of the time of `redis.Redis.evalsha`.
        """
        closed = self._closed
        text, digest = SCRIPTS[name]
        try:
            connection, used = self._idle.pop()
            if time.monotonic() - used > TRUSTED_SECONDS and connection.can_read(0):
                # Redis has closed it. The next command connects again.
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
        except self._rejection:
            raise
        except BaseException:  # the rest of an answer may follow on this connection
            connection.disconnect()
            raise
        finally:
            self._idle.append((connection, time.monotonic()))
            if closed.is_set():
                self._disconnect()

    def _disconnect(self) -> None:
        """Close the idle connections."""
        while self._idle:
            with suppress(IndexError):  # another thread has taken it
                self._idle.pop()[0].disconnect()

    def _channel(self, key: str) -> str:
        return f"{self._prefix}c:{key}"

    # ------------------------------------------------------------ the interface

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        """See `Store.put`."""
        expected = "" if expect is None else expect
        version = self._run(
            "put", key, self._channel(key), _milliseconds(ttl), value, expected, read=_number
        )
        self.wake([key])
        return version or None

    def get(self, key: str, renew: bool = False) -> Optional[Entry]:
        """See `Store.get`. A time to live is renewed only after a tenth of it has passed."""
        (found,) = self._run("get", key, int(renew), read=partial(_entries, [key])) or (None,)
        return found

    def list(self, prefix: str, after: str = "", limit: Optional[int] = None) -> Sequence[Entry]:
        """See `Store.list`."""
        folder = f"{self._prefix}i:{prefix[: prefix.rfind('/') + 1]}"
        names = self._do(lambda: [name.decode() for name in self._client.zrange(folder, 0, -1)])
        keys = sorted(name for name in names if name.startswith(prefix) and name > after)
        entries: list[Entry] = []
        while keys and (limit is None or len(entries) < limit):
            entries += self._do(partial(self._get_all, keys[:MAX_LISTED]))
            keys = keys[MAX_LISTED:]
        return entries[:limit]

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """See `Store.sizes`. It is one call of Redis for any number of keys."""
        folder = f"{self._prefix}i:{prefix[: prefix.rfind('/') + 1]}"
        arguments = (f"{self._prefix}k:", prefix)
        return self._do(lambda: _sizes(self._script("sizes", [folder], *arguments)))

    def _get_all(self, keys: Sequence[str]) -> Sequence[Entry]:
        return _entries(keys, self._script("list", [f"{self._prefix}k:{key}" for key in keys]))

    def delete(self, key: str) -> bool:
        """See `Store.delete`."""
        found = self._run("delete", key, self._channel(key), read=_number)
        self.wake([key])
        return bool(found)

    def append(
        self, key: str, data: bytes, ttl: Optional[float] = None, most: Optional[int] = None
    ) -> int:
        """See `Store.append`."""
        kept = "" if most is None else most
        number = self._run(
            "append", key, self._channel(key), _milliseconds(ttl), data, kept, read=_number
        )
        self.wake([key])
        return number

    def read(self, key: str, after: int = 0, forget: bool = False) -> Sequence[tuple[int, bytes]]:
        """See `Store.read`."""
        return self._run("read", key, after, int(forget), read=_events)

    # ------------------------------------------------------------ waiting

    def watch(self, keys: Iterable[str]) -> None:
        """See `Store.watch`. One thread on one connection receives all changes for this process."""
        with self._lock:
            is_first = not self._is_listening
            self._is_listening = True
        if is_first:
            threading.Thread(
                target=self._listen, args=(self._client,), name="minimcp-redis", daemon=True
            ).start()
        elif not self._subscribed.issuperset(keys):
            self._do(lambda: self._client.publish(self._nudge, ""))

    def _listen(self, client: Any) -> None:
        """Wake threads whose keys any process has changed, until no thread has waited for a
        while."""
        closed = self._closed
        while self._is_needed():
            try:
                with client.pubsub() as channels:
                    self._follow(channels)
            except Exception as error:
                log.debug("%r does not report changes: %s", self, error)
                closed.wait(PROBE_SECONDS)
        if closed.is_set():
            client.connection_pool.disconnect(inuse_connections=False)

    def _is_needed(self) -> bool:
        """Return whether a thread is waiting. If not, the listener ends, and the next wait starts
        another."""
        with self._lock:
            self._is_listening = bool(self._waiters)
            return self._is_listening

    def _follow(self, channels: Any) -> None:
        is_silent = False
        self._subscribed = set()
        channels.subscribe(self._nudge)
        while True:
            with self._waiters_lock:
                wanted = set(self._waiters)
            if wanted - self._subscribed:
                channels.subscribe(*map(self._channel, wanted - self._subscribed))
                self._subscribed |= wanted
            message = channels.get_message(timeout=PROBE_SECONDS)
            if message is not None:
                is_silent = False
                # After "subscribe" the key is read again, because it may have changed before.
                if message["type"] in ("message", "subscribe"):
                    self.wake([message["channel"].decode()[len(self._channel("")) :]])
            elif is_silent:
                raise StoreUnavailable("it does not answer a ping")
            else:
                if not self._waiters:
                    return
                unwanted = self._subscribed - wanted
                self._subscribed -= unwanted
                if unwanted:
                    channels.unsubscribe(*map(self._channel, unwanted))
                channels.ping()
                is_silent = True

    def close(self) -> None:
        """Close the idle connections. The next use opens new ones. Idempotent."""
        self._closed.set()
        self._closed = threading.Event()
        self._client.connection_pool.disconnect(inuse_connections=False)
        self._disconnect()

    def __repr__(self) -> str:
        return f"<RedisStore {self._prefix!r}>"  # never the URL: it may hold a password


def _milliseconds(ttl: Optional[float]) -> Any:
    return "" if ttl is None else max(1, round(ttl * 1000))


# Decode the results of scripts. Each function raises ValueError if Redis could not have sent this.


def _number(text: Any) -> int:
    """Return a version or the number of an event; 0 for none."""
    if text is None:
        return 0
    if not isinstance(text, bytes):
        raise ValueError(f"not a version: {text!r:.60}")
    return int(text.partition(b"-")[0])


def _pairs(found: Any) -> list[tuple[bytes, bytes]]:
    if (
        not isinstance(found, list)
        or len(found) % 2
        or not all(isinstance(each, bytes) for each in found)
    ):
        raise ValueError(f"not a list of pairs: {found!r:.60}")
    return list(zip(found[::2], found[1::2]))


def _sizes(found: Any) -> dict[str, int]:
    return {name.decode(): int(size) for name, size in _pairs(found)}


def _events(found: Any) -> list[tuple[int, bytes]]:
    return [(_number(number), data) for number, data in _pairs(found)]


def _entries(keys: Sequence[str], found: Any) -> list[Entry]:
    """Return the entries of the keys that exist."""
    pairs = _pairs(found)
    if len(pairs) != len(keys):
        raise ValueError(f"{len(pairs)} entries for {len(keys)} keys")
    entries = [Entry(key, value, _number(number)) for key, (value, number) in zip(keys, pairs)]
    return [entry for entry in entries if entry.version]
