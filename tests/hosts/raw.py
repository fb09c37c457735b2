"""What a program sees of a server in a host that sends requests by hand: statuses, framing, connections kept."""

from __future__ import annotations

import contextlib
import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Iterable, Iterator, NamedTuple, Union
from urllib.parse import urlsplit

BODY_BYTES = 100_000  # the longest body that the site takes

SECONDS = 60.0
KINDS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes


@contextlib.contextmanager
def connection(url: str) -> Iterator[HTTPConnection]:
    """A connection, which is closed in the end."""
    parts = urlsplit(url)
    made = HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        yield made
    finally:
        made.close()


def call(arguments: dict[str, Any], name: str = "add", **meta: Any) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a call that stands alone."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        **meta,
    }
    params = {"name": name, "arguments": arguments, "_meta": about}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return body, {**KINDS, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}


def ask(
    made: HTTPConnection, method: str, path: str, body: Union[bytes, Iterable[bytes], None], headers: dict[str, str],
    *, chunked: bool = False,
) -> Answer:
    """Send one request and read its response, also one that comes before all was sent."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        made.request(method, path, body, headers, encode_chunked=chunked)
    response: HTTPResponse = made.getresponse()
    return Answer(response.status, response.headers, response.read())


def padded(size: int) -> tuple[bytes, dict[str, str]]:
    """A call that is right, of so many bytes."""
    body, headers = call({"a": 1, "b": 2})
    return body + b" " * (size - len(body)), headers


def sums(answer: Answer) -> Any:
    return json.loads(answer.body)["result"]["structuredContent"]
