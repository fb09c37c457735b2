"""`CallRate`: rejects tool calls and completions of clients that send too many of them.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools (security considerations)
"""

from __future__ import annotations

import re
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Optional, Union

from ..engine.incoming import IncomingRequest, Route
from ..engine.rates import Rate, RateLimiter, whole_seconds
from ..engine.shares import client_names
from ..errors import InternalError
from ..log import logger
from ..protocol.messages import Result
from ..server.feature import Feature, RegisteredEntry
from ..server.tools import error_result
from ..stores.base import StoreUnavailable, report_unreadable

if TYPE_CHECKING:
    from ..server.registry import Registry

log = logger("minimcp.rates")

# A value in the store: nanoseconds since 1970.
_TIME = re.compile(rb"[0-9]{1,19}")


class CallRate(Feature):
    """The rate at which each client of a server may call tools and complete arguments. Thread-safe.

    The rate is ``Limits.call_rate``. A client is a principal. Without one, or with `Bearer.static`,
    whose token many clients may have, it is an HTTP session or a connection, and otherwise an
    address. Processes that share a store count requests over Streamable HTTP together.

    A retry that brings answers continues a call that was counted. It has its own bucket, which is
    ``Limits.rounds`` times as large, because a call may return that often. So a client that sends
    one state repeatedly is limited, too.

    Args:
        registry: The registry of a server with ``Limits.call_rate``.
    """

    def __init__(self, registry: Registry) -> None:
        self._config = config = registry.config
        per_second = config.limits.call_rate
        assert per_second is not None
        rounds = config.limits.rounds
        self._calls = Rate(per_second)
        self.limiter = RateLimiter(self._calls)
        self._returns = None
        if rounds is not None:
            self._returns = Rate(per_second * rounds, max(per_second, 1.0) * rounds)
        self._return_limiter = None if self._returns is None else RateLimiter(self._returns)

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether an entry is a tool."""
        return entry.kind == "tool"

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Return a route that rejects a call above the rate."""
        return self.check(request)

    def check(self, incoming: IncomingRequest) -> Optional[Route]:
        """Count a request. Return a route that rejects it if it exceeds the rate, else None."""
        is_return = (
            not incoming.peer.revision.handshake
            and type(incoming.request.params.get("requestState")) is str
        )
        rate = self._returns if is_return else self._calls
        limiter = self._return_limiter if is_return else self.limiter
        if rate is None or limiter is None:
            return None
        client = self._client_of(incoming)
        wait = None
        if self._is_shared(incoming):
            wait = self._take_shared(rate, client, is_return)
        if wait is None:
            wait = limiter.take(client)
        if not wait:
            return None
        incoming.retry_after = wait
        return Route(self._reject, immediate=True)

    def _client_of(self, incoming: IncomingRequest) -> tuple[str, Any]:
        address = getattr(incoming.headers, "address", None)
        names = client_names(self._config.auth, incoming.principal, incoming.sink.origin, address)
        return names[0]

    def _reject(self, incoming: IncomingRequest) -> Union[str, Result]:
        """Answer a request that exceeds the rate.

        Raises:
            InternalError: It is a completion.
        """
        assert incoming.retry_after is not None
        seconds = whole_seconds(incoming.retry_after)
        limit = f"{self._calls.per_second:g} tool calls and completions per second"
        text = (
            f"too many requests: this server accepts {limit} from each client. Try again in "
            f"{seconds} s"
        )
        if incoming.request.method == "tools/call":
            return error_result(text, incoming.peer.revision, self._config)
        raise InternalError(text)

    # ------------------------------------------------------------ processes that share a store

    def _is_shared(self, incoming: IncomingRequest) -> bool:
        """Return whether other processes serve the same client, as over Streamable HTTP."""
        if self._config.processes is None:
            return False
        return incoming.sink.origin is None or isinstance(incoming.sink.origin, str)

    def _take_shared(
        self, rate: Rate, client: tuple[str, Any], is_return: bool
    ) -> Union[float, None]:
        """Take a token out of the bucket in the store. Return None if the store is not
        available."""

        processes = self._config.processes
        assert processes is not None
        # A hash, because a principal may have any characters and any length.
        name = sha256(repr((client, is_return)).encode()).hexdigest()
        key = processes.key("rate", name)
        try:
            while True:
                now = time.time_ns()
                entry = processes.store.get(key)
                full_at = now
                if entry is not None and _TIME.fullmatch(entry.value):
                    full_at = int(entry.value)
                elif entry is not None:
                    report_unreadable(key)
                full_at, wait = rate.take(full_at, now)
                if wait:
                    return wait
                seconds = (full_at - now) / 1e9
                version = 0 if entry is None else entry.version
                if processes.store.put(key, b"%d" % full_at, seconds + 1, version) is not None:
                    return 0.0
        except StoreUnavailable as error:
            log.warning("rates are counted in this process only: %s", error)
            return None
