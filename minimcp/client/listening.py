"""What one client listens to: streams that a program opens, and the client's own one in the background.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from copy import copy
from functools import partial
from typing import Any, Callable, Iterable, Optional, Sequence

from ..engine.requests import CancelToken, PendingCall
from ..engine.timer import Deadline
from ..errors import (
    Cancelled,
    CapabilityNotSupported,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    RequestTimeout,
    one_line,
)
from ..protocol.lifecycle import LISTEN
from ..protocol.messages import exception_of
from ..protocol.messages import Failure, Notification
from .arguments import check_token, shown
from .calls import Calls
from .input_rounds import until_cancelled
from .own_calls import check_open, own_call, prepare
from .streams import KINDS, Changes, Filter, Stream, Streams
from .turn import Turn

log = logging.getLogger("minimcp.client")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a background stream that the server ended is opened again: at first, and at most."""

STEADY = 30.0
"""Seconds after which a background stream has lived so long that its end is no repetition of the one before."""

PATIENCE = 5.0
"""Seconds that a server gets to agree to the background stream where no call of the program waits for it."""

RUN_OUT = 1.0
"""Seconds that a stream stays open when another has taken its place, where streams are no one line: what the server
sent on it before may still be on its way."""

_FAREWELL = 2.0
"""Seconds that a server gets to hear of the subscriptions that end with a stream."""


class Listening:
    """What one client listens to. Thread-safe.

    Args:
        calls: The client's.
        streams: Those that its role looks at.
        forward: What happens to a notice of the background stream.
        missed: Called after a gap of the background stream, with what it was about: changes may have gone unheard.
        kinds: What the background stream is about besides the resources that are subscribed to.
    """

    def __init__(
        self,
        calls: Calls,
        streams: Streams,
        *,
        forward: Callable[[Notification], None],
        missed: Callable[[Filter], None],
        kinds: Filter,
    ) -> None:
        self._calls, self._streams, self._kinds = calls, streams, kinds
        self._forward, self._missed = forward, missed
        self._turn = Turn(calls.channel.calls)
        """Of those who change what the server tells: one at a time talks to it; never the reader."""
        self._uris: set[str] = set()
        self._listened: Counter[str] = Counter()
        """In a session: how many streams of the program listen to a resource."""
        self._background: Optional[Stream] = None
        self._keeper: Optional[threading.Thread] = None
        self._retired: list[threading.Thread] = []
        """Threads of streams that others took the place of: they are about to end."""
        self._pause = FIRST_PAUSE
        self._over = threading.Event()
        """The connection has ended."""

    @property
    def _by_request(self) -> bool:
        return not self._calls.era.revision.handshake

    @property
    def _in_order(self) -> bool:
        """Whether what the server sends on several streams comes in the order in which it was sent."""
        return getattr(self._calls.channel.transport, "in_order", True)

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The resources that `subscribe` has asked for."""
        return tuple(sorted(self._uris))

    @property
    def entries(self) -> int:
        """How many of the calls that wait are nobody's but the background stream's."""
        return int(self._background is not None)

    # ------------------------------------------------------------ streams of the program

    def listen(self, wanted: Filter, timeout: Optional[float], cancel: Optional[CancelToken]) -> Changes:
        """Open a stream; arguments and errors as `Client.listen`."""
        deadline = self._ready(wanted.resource_subscriptions, timeout, cancel)
        if not self._by_request:
            return self._filter(wanted, deadline, cancel)
        stream = self._open(wanted, deadline, cancel)
        return Changes(stream, partial(self._close, stream), partial(check_open, self._calls.channel.calls))

    def _ready(self, uris: Iterable[Any], timeout: Optional[float], cancel: Optional[CancelToken]) -> Deadline:
        """Look at what was given before anything is sent or waited for."""
        check_open(self._calls.channel.calls)
        check_token(cancel)
        for uri in uris:
            if not isinstance(uri, str):
                raise TypeError(f"the URI of a resource is a str, not {shown(uri)}")
        return self._calls.deadline(timeout)

    def _open(
        self,
        wanted: Filter,
        deadline: Deadline,
        cancel: Optional[CancelToken],
        forward: Optional[Callable[[Notification], None]] = None,
        old: Optional[Stream] = None,
    ) -> Stream:
        """Send the request and wait for the acknowledgement; the way is there before the request is written."""
        calls, era = self._calls.channel.calls, self._calls.era
        call, line = prepare(calls, LISTEN, lambda id: era.dress({"notifications": wanted.to_wire()}, {}))
        stream = Stream(call, forward)
        if old is not None and not self._in_order:
            stream.told = set()
        self._streams.requests[call.id] = stream
        if old is not None:
            old.successor = stream
        forget = until_cancelled(calls, call, cancel, tell=True)
        try:
            self._calls.channel.send(line)
            self._wait_for_first(stream, deadline)
            forget()
            if isinstance(call.ending, Cancelled):  # it came together with the acknowledgement
                raise copy(call.ending)
        except BaseException:
            self._close(stream)
            raise
        finally:
            forget()
        return stream

    def _wait_for_first(self, stream: Stream, deadline: Deadline) -> None:
        """Return when the server has agreed."""
        first, ending = stream.begin(deadline), stream.call.ending
        if isinstance(first, Filter):
            return
        if first is not None:
            raise ProtocolViolation("a stream begins with notifications/subscriptions/acknowledged", first.params)
        if isinstance(ending, Failure):
            raise exception_of(ending, LISTEN, self._calls.era.revision)
        if isinstance(ending, BaseException):
            raise copy(ending)
        if ending is not None:
            raise ConnectionLost("the server ended the stream before it began")
        raise RequestTimeout(f"{self._calls.channel.name}: {LISTEN}: no acknowledgement within {deadline.seconds:g} s")

    def _close(self, stream: Stream) -> None:
        stream.given_up = True
        self._streams.requests.pop(stream.call.id, None)
        self._calls.channel.calls.end(stream.call, Cancelled("the stream was closed"))

    # ------------------------------------------------------------ filters, in a session

    def _filter(self, wanted: Filter, deadline: Deadline, cancel: Optional[CancelToken]) -> Changes:
        supports = self._calls.era.peer.supports
        uris = wanted.resource_subscriptions if supports("resources.subscribe") else ()
        stream = Stream(PendingCall(0, LISTEN))
        stream.open(self._declared(wanted)._replace(resource_subscriptions=uris))
        self._streams.filters[stream] = None
        subscribed: list[str] = []

        def end() -> None:
            self._streams.filters.pop(stream, None)
            if not stream.call.ended:
                stream.call.end(Cancelled("the stream was closed"))
            if subscribed:
                self._give_back(subscribed)

        try:
            self._take(uris, subscribed, deadline, cancel)
            cause = self._calls.channel.calls.cause
            if cause is not None:
                raise copy(cause)
        except BaseException:
            end()
            raise
        return Changes(stream, end, partial(check_open, self._calls.channel.calls))

    def _take(
        self, uris: Iterable[str], subscribed: list[str], deadline: Deadline, cancel: Optional[CancelToken]
    ) -> None:
        """Subscribe for a stream; `subscribed` takes what is done."""
        if uris:
            with self._turn.taken(deadline, cancel):
                for uri in dict.fromkeys(uris):
                    self._calls.request("resources/subscribe", {"uri": uri}, deadline, cancel)
                    self._listened[uri] += 1
                    subscribed.append(uri)

    def _give_back(self, uris: Iterable[str]) -> None:
        """A stream has ended: unsubscribe from what nobody else wants."""
        deadline = Deadline(_FAREWELL)
        try:
            check_open(self._calls.channel.calls)
            with self._turn.taken(deadline):
                self._listened.subtract(uris)
                for uri in uris:
                    if not self._listened[uri]:
                        del self._listened[uri]
                        if uri not in self._uris:
                            self._calls.request("resources/unsubscribe", {"uri": uri}, deadline, None)
        except McpError as error:
            log.debug("resources/unsubscribe: %s", error)

    # ------------------------------------------------------------ the client's own

    def subscribe(self, uri: str, timeout: Optional[float], cancel: Optional[CancelToken]) -> None:
        """Hear of a resource from now on; arguments and errors as `Client.subscribe`."""
        deadline = self._ready([uri], timeout, cancel)
        self._calls.need("resources.subscribe")
        with self._turn.taken(deadline, cancel):
            if not self._by_request:
                self._calls.request("resources/subscribe", {"uri": uri}, deadline, cancel)
            elif uri not in self._uris:
                self._replace({*self._uris, uri}, deadline, cancel)
            self._uris.add(uri)

    def unsubscribe(self, uri: str, timeout: Optional[float], cancel: Optional[CancelToken]) -> None:
        """Hear of it no more; arguments and errors as `Client.unsubscribe`."""
        deadline = self._ready([uri], timeout, cancel)
        self._calls.need("resources.subscribe")
        with self._turn.taken(deadline, cancel):
            if not self._by_request:
                if not self._listened[uri]:
                    self._calls.request("resources/unsubscribe", {"uri": uri}, deadline, cancel)
            elif uri in self._uris:
                self._replace(self._uris - {uri}, deadline, cancel)
            self._uris.discard(uri)

    def open_background(self, deadline: Deadline, uris: Sequence[str] = ()) -> None:
        """Open the client's own stream, if it wants to hear of anything and the server declares that it says so.

        Args:
            deadline: For all of it.
            uris: Resources that were subscribed to on a connection before this one.

        Raises:
            McpError: It could not be opened.
        """
        if not self._by_request:
            for uri in uris:
                self.subscribe(uri, deadline.remaining(), None)
        elif uris or any(self._declared(self._kinds)):
            deadline = deadline.within(PATIENCE)
            with self._turn.taken(deadline):
                self._uris.update(uris)  # before: that one is refused now must not end the others
                try:
                    self._replace(set(uris), deadline, None)
                except BaseException:
                    self._uris.clear()
                    raise

    def _declared(self, wanted: Filter) -> Filter:
        """Those lists of a filter whose changes the server declares to tell."""
        supports = self._calls.era.peer.supports
        return Filter.of(lambda name: getattr(wanted, name) and supports(f"{KINDS[name][0]}.listChanged"))

    def _replace(self, uris: set[str], deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        """Put a stream with the new set into the place of the old one, which is closed when the new one is there."""
        wanted = self._declared(self._kinds)._replace(resource_subscriptions=tuple(sorted(uris)))
        old, new = self._background, None
        if any(wanted):
            new = self._open(wanted, deadline, cancel, self._forward, old)
            keeper = threading.Thread(target=self._keep, args=(new,), name="minimcp-listening", daemon=True)
            try:
                self._check_honored(new.honored, uris - self._uris)
                keeper.start()
            except BaseException:
                self._close(new)
                self._tell_gap(old, uris)  # which gave way to the new one, for a moment
                raise
            self._retired = [each for each in (*self._retired, self._keeper) if each is not None and each.is_alive()]
            self._keeper = keeper
        self._background = new
        if old is not None:
            if new is not None and old.call.ended:
                self._tell_gap(old, uris)
            if new is None or new.told is None or not self._runs_out(old, new):
                self._close(old)

    def _runs_out(self, old: Stream, new: Stream) -> bool:
        """Have the old stream closed when what is on its way has come; whether there is a thread for that."""

        def close() -> None:
            self._over.wait(RUN_OUT)
            self._close(old)
            new.told = None

        thread = threading.Thread(target=close, name="minimcp-listening-end", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._retired.append(thread)
        return True

    def _check_honored(self, honored: Filter, needed: set[str]) -> None:
        refused = needed.difference(honored.resource_subscriptions)
        if refused:
            raise CapabilityNotSupported(
                f"{self._calls.channel.name}: the server does not tell of changes of {one_line(min(refused))}"
            )

    def _tell_gap(self, old: Optional[Stream], uris: set[str]) -> None:
        """Something that a stream was to tell may have gone unheard."""
        if old is not None:
            still = tuple(uri for uri in old.honored.resource_subscriptions if uri in uris)
            self._missed(old.honored._replace(resource_subscriptions=still))

    def _keep(self, stream: Stream) -> None:
        """When the server ends this background stream, put another in its place, unless somebody else does."""
        began = time.monotonic()
        stream.call.wait(Deadline(None))
        if time.monotonic() - began > STEADY:
            self._pause = FIRST_PAUSE
        while stream is self._background and self._wait_a_while():
            try:
                deadline = Deadline(PATIENCE)
                with self._turn.taken(deadline):
                    if stream is self._background:
                        self._replace(set(self._uris), deadline, None)
            except (McpError, RuntimeError) as error:  # RuntimeError: no thread
                if self._calls.channel.calls.cause is None:
                    log.warning("%s: the stream of changes cannot be opened: %s", self._calls.channel.name, error)

    def _wait_a_while(self) -> bool:
        """Wait before another attempt, longer each time; False when the connection has ended."""
        calls = self._calls.channel.calls
        try:
            call = own_call(calls)
        except ConnectionLost:
            return False
        from random import uniform

        call.wait(Deadline(self._pause * uniform(0.5, 1.0)))
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        calls.settle(call.id, {})
        return calls.cause is None

    def join(self) -> None:
        """Wait for the threads that keep the background stream open; the connection must have ended."""
        self._over.set()
        for keeper in (*self._retired, self._keeper):
            if keeper is not None and keeper is not threading.current_thread():
                keeper.join(_FAREWELL)
