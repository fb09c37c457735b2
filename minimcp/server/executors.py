"""Executors: where handlers run that need a thread of somebody's own choice.

An executor keeps requests in a queue, in order of arrival, until its thread takes them; there they hold no worker, and
count as begun. A request that is cancelled there, or lost with its connection, leaves the queue and is never run. What
a handler waits for in an executor keeps the executor's thread waiting.

Not here: the executors themselves (see `serial` and `pump`), and how an author names them (see `places`).
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from functools import partial
from typing import Any, Callable, Optional

from ..engine.pool import here
from ..engine.requests import IncomingRequest, Route, Sink, current_request
from ..errors import INTERNAL_ERROR
from ..protocol.messages import Failure, encode

log = logging.getLogger("minimcp.executors")

Watch = Callable[[IncomingRequest], Callable[[], None]]
"""Told that a request begins to wait in a queue; it returns what is called when that is over."""


class Ticket:
    """One request's place in an executor's queue; it leaves by exactly one of `run`, `withdraw` and `fail`.

    Args:
        exchange: The request.
        queue: Where the ticket stands; it takes itself out.
    """

    __slots__ = ("sink", "forget", "_exchange", "_queue")

    def __init__(self, exchange: IncomingRequest, queue: OrderedDict[Ticket, None]) -> None:
        self.sink: Sink = exchange.sink
        self.forget: Callable[[], None] = _nothing
        self._exchange, self._queue = [exchange], queue

    def take(self) -> Optional[IncomingRequest]:
        """The exchange, for the first who asks: popping from a list is one step, also for signal handlers."""
        try:
            exchange = self._exchange.pop()
        except IndexError:
            return None
        self._queue.pop(self, None)
        exchange.withdraw = None
        self.forget()
        return exchange

    def run(self) -> bool:
        """Serve the request on this thread; False when it is not there any more, and nothing was done.

        Raises:
            KeyboardInterrupt: Ctrl-C struck in the handler, on the main thread; the request has its answer.
        """
        exchange = self.take()
        if exchange is None:
            return False
        outer = current_request()  # a handler may pump for another server
        try:
            exchange.run()
        except BaseException:  # a signal handler's, at a point where nothing else catches it
            exchange.expire(encode(Failure(exchange.request.id, INTERNAL_ERROR, "interrupted")), "interrupted")
            raise
        finally:
            here.request = outer
        if exchange.interrupted and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return True

    def job(self) -> None:
        """`run` as a function for authors: some callers look at what is returned."""
        self.run()

    def withdraw(self) -> None:
        """The request was cancelled: it is not run, and if somebody waits all the same it is answered."""
        self.run()

    def cancel(self, reason: str) -> None:
        """Cancel the request, if it is still here: so it is withdrawn."""
        for exchange in list(self._exchange):
            exchange.cancel(reason)

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless the request has left already."""
        exchange = self.take()
        if exchange is None:
            log.error("an executor failed after its job had been run: %r", error, exc_info=error)
            return
        exchange.route = Route(partial(_raise, error))
        exchange.run()


def _nothing() -> None:
    pass


def _raise(error: BaseException, exchange: IncomingRequest) -> Any:
    raise error


class Executor:
    """A queue of requests and whoever takes them out of it. Thread-safe.

    There is no lock round the queue, because a signal handler may close a server in the middle of anything that its
    thread does here: adding to an OrderedDict, popping from it and copying it are one step each.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Ticket, None] = OrderedDict()

    def start(self, exchange: IncomingRequest, watch: Optional[Watch] = None) -> None:
        """Queue a request (the ``start`` of a `Route`); never blocks.

        Args:
            exchange: The request.
            watch: Told how long it waits; None tells nobody.

        Raises:
            RpcError: So many requests are begun and unfinished already.
            RuntimeError: The system gives no more threads.
        """
        refusal = exchange.sink.requests.begin(exchange)
        if refusal is not None:
            raise refusal
        ticket = Ticket(exchange, self._waiting)
        try:
            if watch is not None:
                ticket.forget = watch(exchange)
            self._waiting[ticket] = None
            exchange.withdraw = ticket.withdraw
            self._arrived(ticket)
        except BaseException:
            if ticket.take() is not None:
                raise
        if exchange.cancelled:  # before it could be withdrawn
            ticket.withdraw()

    def _arrived(self, ticket: Ticket) -> None:
        """There is one more in the queue."""
        raise NotImplementedError

    def join(self, user: object) -> None:
        """A server is about to use this."""

    def leave(self, user: object) -> None:
        """A server does not use this any more."""

    def renew(self) -> None:
        """Begin anew in a forked process: its parent's requests and threads are not there."""
        self._waiting.clear()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._waiting)} waiting>"
