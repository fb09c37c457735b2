"""Arrays of messages: what may stand in one, and the answers to its requests, which leave together.

https://modelcontextprotocol.io/specification/2025-03-26/basic (the one revision that has them)
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Sequence, Union

from ..errors import InvalidRequest, RpcError
from ..protocol.messages import (
    Failure,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    encode,
    encode_batch,
    failure,
)
from .incoming import IncomingRequest, Sink


class Batch:
    """The answers to the requests of one array, which leave together when the last one is there.
    Thread-safe.

    Args:
        sink: Where they leave.
        lines: Answers that are there already.
        items: The messages in the array, or its requests alone.
    """

    def __init__(self, sink: Sink, lines: list[bytes], items: Sequence[Message]) -> None:
        self._sink = sink
        self._lines = lines
        self._items = items
        self._lock = threading.RLock()
        ids = [item.id for item in items if type(item) is Request]
        self._open: list[Optional[Id]] = [*ids, None]  # None: not all are started

    def add(
        self,
        id: Optional[Id],
        line: bytes,
        wait: bool = False,
        request: Optional[IncomingRequest] = None,
    ) -> None:
        """A request of the array has ended.

        Args:
            id: Of the request.
            line: Its answer; empty for none.
            wait: Whether this thread may wait for the peer.
            request: The request, whose answer may be too long; None where it was not taken in.
        """
        with self._lock:
            if id not in self._open:
                return  # answered before, because its time was over
            self._open.remove(id)
            size = len(line) + sum(map(len, self._lines)) + 1
            if line and request is not None and size > self._sink.requests.most_bytes:
                line = self._sink.requests.too_long(request, size)
            if line:
                self._lines.append(line)
            whole = encode_batch(self._lines) if not self._open and self._lines else None
        if whole is not None:
            self._sink.deliver(whole, wait)

    def serve(self, start: Callable[[Any], None]) -> None:
        """Take each message in order; an RpcError is the answer of a request. Never blocks, if
        `start` does not."""
        for item in self._items:
            if type(item) is not Request:
                start(item)
                continue
            try:
                if item.method == "initialize":
                    raise InvalidRequest("initialize stands alone, not in an array")
                start(item)
            except RpcError as error:
                self._sink.requests.refused(item, error)
                self.add(item.id, encode(failure(item.id, error)))
        self.add(None, b"")


def why_no_batch(
    items: list[Union[Message, InvalidMessage]], *, taken: bool, limit: Optional[int]
) -> Optional[str]:
    """Why an array of messages is refused whole; None when it is not.

    Args:
        items: Its elements, decoded.
        taken: Whether arrays may arrive now.
        limit: How many messages it may hold; None means no limit.
    """
    kinds = {type(item) for item in items}
    if not taken:
        return "a message is one object, not an array"
    if not items:
        return "an array of messages is not empty"
    if limit is not None and len(items) > limit:
        return f"an array holds at most {limit} messages"
    mixed = kinds & {Request, Notification} and kinds & {Response, Failure}
    return "an array holds questions or answers, not both" if mixed else None
