"""What serves a method whose handlers may ask their client; what a question needs is imported with the first.

Not here: the rounds themselves (see `rounds`).
"""

from __future__ import annotations

from typing import Any

from ..engine.requests import Handler, IncomingRequest
from ..errors import UrlElicitationRequired
from .facts import Facts


def carried(serve: Handler, facts: Facts) -> Handler:
    """What serves a method whose handlers may ask: `serve`, with the rounds around it.

    Args:
        serve: Runs the handler; it lets `asking.Suspend` pass.
        facts: Of the server.
    """

    def handle(exchange: IncomingRequest) -> Any:
        params = exchange.request.params
        if "requestState" in params or "inputResponses" in params:
            from .input_rounds import resume

            resume(exchange)
        try:
            result = serve(exchange)
        except BaseException as error:
            if exchange.asker is None and not isinstance(error, UrlElicitationRequired):
                raise
            from .input_rounds import unfinished

            return unfinished(exchange, error)
        if exchange.asker is None:
            return result
        from .input_rounds import finished

        return finished(exchange, result)

    def handle_checked(exchange: IncomingRequest) -> Any:
        if not exchange.peer.revision.handshake:
            return handle(exchange)
        from .input_rounds import checked

        return checked(exchange, serve)

    return handle_checked if facts.check_replay else handle
