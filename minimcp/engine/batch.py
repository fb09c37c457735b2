"""`Batch`: the responses to an array of requests. They are sent together.

https://modelcontextprotocol.io/specification/2025-03-26/basic (the only revision with arrays)
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
    """The responses to the requests of one array. They are sent together when the last one is
    ready.

    Args:
        sink: Receives the responses.
        lines: Encoded errors for invalid elements of the array.
        items: The messages in the array, or only its requests.

    Thread-safe.
    """

    def __init__(self, sink: Sink, lines: list[bytes], items: Sequence[Message]) -> None:
        self._sink = sink
        self._lines = lines
        self._items = items
        self._lock = threading.RLock()
        ids = [item.id for item in items if type(item) is Request]
        # The ids of the requests that have no response yet. The list also contains None until all
        # requests are started.
        self._open: list[Optional[Id]] = [*ids, None]

    def add(
        self,
        id: Optional[Id],
        line: bytes,
        wait: bool = False,
        request: Optional[IncomingRequest] = None,
    ) -> None:
        """Add the response to one request. Send all responses when the last one is added.

        Only the thread that ended the request may call this. Two requests of one array may use the
        same id, one after the other, and a second call would count for the other request.

        Args:
            id: The id of the request.
            line: The encoded response; empty if there is none.
            wait: Whether this thread may wait for the peer.
            request: The request; None if it was rejected. If the array of responses becomes too
                long, an error replaces its response.
        """
        with self._lock:
            if id not in self._open:
                return
            self._open.remove(id)
            size = len(line) + sum(map(len, self._lines)) + 1
            if line and request is not None and size > self._sink.requests.max_bytes:
                line = self._sink.requests.too_long(request, size)
            if line:
                self._lines.append(line)
            is_complete = not self._open
        if is_complete and self._lines:
            self._sink.deliver(encode_batch(self._lines), wait)

    def serve(self, start: Callable[[Any], None]) -> None:
        """Call `start` with each message in order.

        If it raises an RpcError, respond with that error.
        """
        for item in self._items:
            if type(item) is not Request:
                start(item)
                continue
            try:
                if item.method == "initialize":
                    raise InvalidRequest("initialize must not be in an array: send it alone")
                start(item)
            except RpcError as error:
                self._sink.requests.refused(item, error)
                self.add(item.id, encode(failure(item.id, error)))
        self.add(None, b"")


def why_no_batch(
    items: list[Union[Message, InvalidMessage]], *, taken: bool, limit: Optional[int]
) -> Optional[str]:
    """Return why a whole array is rejected, or None.

    Args:
        items: The decoded elements of the array.
        taken: Whether the peer may send arrays now.
        limit: Maximum number of messages in an array; None means no limit.
    """
    if not taken:
        return "a message must be an object, not an array"
    if not items:
        return "an array of messages must not be empty"
    if limit is not None and len(items) > limit:
        return f"an array may have at most {limit} messages, not {len(items)}"
    kinds = {type(item) for item in items}
    if kinds & {Request, Notification} and kinds & {Response, Failure}:
        return "an array may have requests or responses, not both"
    return None
