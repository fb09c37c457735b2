"""The body of a POST: looked at before it is read, and never read further than it may be."""

from __future__ import annotations

from typing import Any, Optional

from .common import JSON_TYPE, Headers, HttpRequest, is_json
from .http_server_settings import Refusal

_PIECE = 64 * 1024


def check_type(headers: Headers) -> None:
    """Look at what the headers say about a body.

    Raises:
        Refusal: It is of another type, or is encoded.
    """
    if not is_json(headers.get("Content-Type")):
        raise Refusal(415, f"the body is {JSON_TYPE}, and the header Content-Type says so")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Refusal(415, "the body is not compressed")


def body_of(request: HttpRequest, limit: Optional[int]) -> bytes:
    """The body of a request.

    Args:
        request: Nothing of its body was read.
        limit: The longest body, in bytes; None means no limit.

    Raises:
        Refusal: It is too long.
    """
    body, length = request.body, request.headers.get("Content-Length", "0")
    too_long = limit is not None and length.isdigit() and int(length[:20]) > limit
    if not isinstance(body, bytes):
        body = b"" if too_long else _read(body, limit)
    if too_long or (limit is not None and len(body) > limit):
        raise Refusal(413, f"the body is longer than {limit} bytes, the max_body_bytes of this server")
    return body


def _read(body: Any, limit: Optional[int]) -> bytes:
    """A body as bytes, read no further than one byte above the limit."""
    whole = bytearray()
    while limit is None or len(whole) <= limit:
        piece = body.read(_PIECE if limit is None else min(_PIECE, limit + 1 - len(whole)))
        if not piece:
            break
        whole += piece
    return bytes(whole)
