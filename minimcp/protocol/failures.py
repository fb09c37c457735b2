"""The border where exceptions become errors on the wire, and their words become ours; and `Busy`.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import logging
import os
from typing import Optional

from ..errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    OLD_TOOL_CODES,
    RESOURCE_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    Cancelled,
    ConnectionLost,
    RpcError,
)
from .eras import Peer
from .messages import Failure, Id

log = logging.getLogger("minimcp.exchange")


def wire_failure(id: Optional[Id], error: BaseException, peer: Peer, method: str) -> Failure:
    """The error that the peer is told: an `RpcError` of ours as it is, anything else without its words."""
    if isinstance(error, RpcError) and not error.from_peer:
        return Failure(id, _code_for(error, peer), error.message, error.data)
    if isinstance(error, Cancelled):
        return Failure(id, INTERNAL_ERROR, "the request was cancelled")
    reference = os.urandom(4).hex()
    log.error("%s failed, reference %s: %s", method, reference, describe(error), exc_info=error)
    return Failure(id, INTERNAL_ERROR, f"Internal error (reference {reference})")


def _code_for(error: RpcError, peer: Peer) -> int:
    if error.code == RESOURCE_NOT_FOUND:
        return peer.revision.resource_missing
    if error.code == MISSING_CAPABILITY and peer.revision.handshake:
        return METHOD_NOT_FOUND
    if error.code == URL_ELICITATION_REQUIRED and not peer.revision.url_errors:
        return INTERNAL_ERROR
    if error.code in OLD_TOOL_CODES and not peer.revision.handshake:
        return INTERNAL_ERROR
    return error.code


def describe(error: BaseException) -> str:
    """An exception's own words, or its class's name when it has none (or fails to say them).

    Words that only show a value, as those of ``KeyError("x")``, and those of what is no `Exception`, as `SystemExit`,
    tell nobody what happened: they stand behind the name.
    """
    name = type(error).__name__
    try:
        words = str(error)
    except BaseException:
        return name
    if not words.strip():
        return name
    return words if isinstance(error, Exception) and not _shows_a_value(error, words) else f"{name}: {words}"


def _shows_a_value(error: Exception, words: str) -> bool:
    try:
        return words in (*map(repr, error.args[:1]), repr(error.args))
    except BaseException:  # an argument that cannot be shown was not shown
        return False


class Busy(ConnectionLost):
    """The server takes no more requests for so many ``seconds``: this one it did not run."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds
