"""Middleware: functions of an author that run round every handler of a server.

It is around the handler and what the handler needs: arguments that do not fit, and capabilities that a client lacks,
reach it as exceptions. What the handler returns is converted after the outermost function has returned.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .context import Context
from .registered import positions

CallNext = Callable[[], Any]
Middleware = Callable[[Context, CallNext], Any]

Layers = tuple[Sequence[Middleware], ...]
"""The middleware of each server that a request passes, the one that has the connection first."""


def check_middleware(function: Any) -> None:
    """Refuse what cannot be called with a context and the rest.

    Raises:
        TypeError: It cannot; the message says what to write instead.
    """
    positions(function, "middleware", ("ctx", "call_next"), least=2)


def run_through(layers: Layers, context: Context, call: CallNext) -> Any:
    """What the outermost function returns, or raises.

    Args:
        layers: What runs round the handler now; functions that are added meanwhile are not seen.
        context: Of the request.
        call: Calls the handler.
    """
    for function in reversed([function for layer in layers for function in layer]):
        call = _around(function, context, call)
    return call()


def _around(function: Middleware, context: Context, call: CallNext) -> CallNext:
    def call_next() -> Any:
        return function(context, call)

    return call_next
