"""HTTP/1.1 without sockets or threads: parse requests from bytes, encode the heads of responses.

The parser is strict. A request that two programs could read in two ways is rejected and ends the
connection. Otherwise a proxy in front of the server could read it the other way, and one client
could smuggle a request into the connection of another. https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Generator, Iterable, NamedTuple, Optional

from .headers import Headers, HttpError, require

# Maximum number of bytes of a request's head, and of a trailer.
HEADER_BYTES = 32 * 1024

# Maximum number of bytes of the request line, and of each header.
LINE_BYTES = 8 * 1024

# Maximum number of headers of one request.
HEADER_COUNT = 100

METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"}
)
REASONS = {status.value: status.phrase for status in HTTPStatus}

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

# States of a parser. It needs the first byte of a request, the rest of the head, the rest of the
# body, or nothing, because the request is complete.
IDLE = "idle"
HEAD = "head"
BODY = "body"
READY = "ready"

_FRAMING = frozenset({"host", "content-length", "transfer-encoding"})
_SINGLE = _FRAMING | {"content-type", "expect"}
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([!-\"$-~]+) HTTP/([0-9]\.[0-9])")
_HEADER = re.compile(rf"({_TOKEN}):([\t -~\x80-\xff]*)")
_ABSOLUTE = re.compile(r"https?://([^/?]+)(/?.*)", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=\-]*(?::[0-9]*)?|\[[0-9A-Fa-f:.]+\](?::[0-9]*)?")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[\t ]*;[\t -~\x80-\xff]*)?")
_BARE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")
_LENGTH = re.compile(rb"\r\nContent-Length:[\t ]*([0-9]{1,15})[\t ]*(?:\r\n|\Z)", re.IGNORECASE)
_CACHED_HEADS = 4
_CACHED_BYTES = 1024
_CHUNK_LINE_BYTES = 1024
_CHUNK_COST = 16
_CHUNK_EXCESS = 256 * 1024

# Rejects a request. Nothing more can be read from its connection.
_require = partial(require, code=None)
_NO_BODY = frozenset({204, 304})
_OURS = frozenset({"connection", "content-length", "date", "transfer-encoding"})


class Head(NamedTuple):
    """The head of one request.

    Args:
        method: One of `METHODS`.
        path: The path with the query; ``*`` or an authority if the method allows them.
        headers: All headers.
        http11: Whether the peer uses HTTP/1.1. Otherwise it uses HTTP/1.0.
        keep_alive: Whether the peer may send another request on this connection.
        length: Number of bytes of the body; None if the body is sent in chunks.
        expects_continue: Whether the peer waits for status 100 before it sends the body.
    """

    method: str
    path: str
    headers: Headers
    http11: bool
    keep_alive: bool
    length: Optional[int]
    expects_continue: bool


# ------------------------------------------------------------ heads of requests


def parse_head(block: bytes) -> Head:
    """Parse the head of a request.

    Args:
        block: The bytes before the empty line.

    Raises:
        HttpError: The head is malformed or ambiguous.
    """
    first, *lines = block.decode("latin-1").split("\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise HttpError(400, "the request line is malformed", code=None)
    method, target, version = found.groups()
    _require(version in ("1.1", "1.0"), 505, "this server supports HTTP/1.1 and HTTP/1.0")
    _require(len(first) <= LINE_BYTES, 414, f"the request line is longer than {LINE_BYTES} bytes")
    _require(method in METHODS, 501, "the method is unknown")
    _require(len(lines) <= HEADER_COUNT, 431, f"there are more than {HEADER_COUNT} headers")
    values: dict[str, list[str]] = {}
    for name, value in map(_header, lines):
        _require(name not in values or name not in _SINGLE, 400, f"there is more than one {name}")
        values.setdefault(name, []).append(value)
    headers = Headers.of(values, {})
    http11 = version == "1.1"
    path = _path(method, target, headers.get("host"), http11)
    expects = headers.get("expect", "").lower() if http11 else ""
    _require(expects in ("", "100-continue"), 417, "the header Expect allows only 100-continue")
    return Head(
        method,
        path,
        headers,
        http11,
        _keeps_alive(headers, http11),
        _length(headers, http11),
        bool(expects),
    )


@lru_cache(256)  # a client sends the same lines with every request
def _header(line: str) -> tuple[str, str]:
    """Parse a header into its name in lower case and its value."""
    found = _HEADER.fullmatch(line)
    if found is None:
        raise HttpError(400, "a header is malformed", code=None)
    _require(len(line) <= LINE_BYTES, 431, f"a header is longer than {LINE_BYTES} bytes")
    name = found[1].lower()
    _require(
        "_" not in name or name.replace("_", "-") not in _FRAMING,
        400,
        "a header resembles one that frames the request: use hyphens, not underscores",
    )
    return name, found[2].strip(" \t")


def _path(method: str, target: str, host: Optional[str], http11: bool) -> str:
    is_named = not http11 if host is None else _HOST.fullmatch(host)
    _require(is_named, 400, "the request must have one valid Host header")
    if target.startswith("/"):
        return target
    found = _ABSOLUTE.fullmatch(target)
    if found is not None:
        same = found[1].lower() == (host or found[1]).lower()
        _require(same, 400, "the target and the header Host differ")
        return found[2] if found[2].startswith("/") else "/" + found[2]
    authority = method == "CONNECT" and ":" in target and _HOST.fullmatch(target)
    _require(authority or (method, target) == ("OPTIONS", "*"), 400, "the target is malformed")
    return target


def _length(headers: Headers, http11: bool) -> Optional[int]:
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        _require(length is None, 400, "Content-Length and Transfer-Encoding contradict each other")
        status = 501 if http11 and "chunked" not in coding.lower() else 400
        _require(
            http11 and coding.lower() == "chunked",
            status,
            "the only supported Transfer-Encoding is chunked",
        )
        return None
    if length is None:
        return 0
    _require(
        length.isascii() and length.isdigit(),
        400,
        "Content-Length must be a number of bytes in decimal digits",
    )
    # Converting very many digits takes long.
    return int(length) if len(length) < 20 else 10**20


def _keeps_alive(headers: Headers, http11: bool) -> bool:
    if "connection" not in headers:
        return http11
    options = [
        option.strip(" \t") for option in ",".join(headers.all("connection")).lower().split(",")
    ]
    return "close" not in options and (http11 or "keep-alive" in options)


# ------------------------------------------------------------ requests


class RequestParser:
    """Parses the bytes of one connection into requests.

    Call `feed` with bytes until it returns READY, then call `take`. The next bytes belong to the
    next request. For one thread at a time.

    Args:
        body_bytes: Maximum number of bytes of a body; None means no limit.

    Attributes:
        feed: Parses bytes from the peer and returns the new state: IDLE, HEAD, BODY or READY.
            Raises HttpError if the request is rejected.
        close: Stops the parser.
        head: The head of the current request; None until it is complete.
        body: The decoded body of the current request; None until it is complete.
    """

    head: Optional[Head] = None
    body: Optional[bytes] = None

    def __init__(self, *, body_bytes: Optional[int]) -> None:
        self._bytes = bytearray()
        self._most = float("inf") if body_bytes is None else body_bytes
        self._chunks = bytearray()  # decoded chunks of an incomplete body
        # Recent heads, each with the bytes before and after the digits of its Content-Length.
        self._heads: list[tuple[bytes, bytes, Head]] = []
        requests = self._requests()
        next(requests)
        self.feed = requests.send
        self.close = requests.close

    def take(self) -> tuple[Head, bytes]:
        """Return the complete request, and forget it."""
        head = self.head
        body = self.body
        assert head is not None and body is not None
        self.head = self.body = None
        return head, body

    @property
    def begun(self) -> bool:
        """Whether bytes of a request have been received."""
        return bool(self.head or self._bytes)

    @property
    def buffered(self) -> int:
        """Number of bytes that are held for an incomplete request."""
        return len(self._bytes) + len(self._chunks)

    def _requests(self) -> Generator[str, bytes, None]:
        data = self._bytes
        # Number of bytes that do not contain the end of the head.
        searched = 0
        while True:
            # Some old clients send a line end after a body that its length does not include.
            while data.startswith(b"\r\n"):
                del data[:2]
                searched = 0
            end = data.find(b"\r\n\r\n", max(0, searched - 3))
            if (len(data) if end < 0 else end) > HEADER_BYTES:
                status = 431 if b"\r\n" in data[:HEADER_BYTES] else 414
                raise HttpError(status, f"the head is longer than {HEADER_BYTES} bytes", code=None)
            if end < 0:
                # Reject malformed bytes now. The end of the head may never arrive.
                first = data[:1]
                if _BARE_LINE_END.search(data, max(0, searched - 1)) or (
                    first != b"\r" and b"" < first <= b" "
                ):
                    raise HttpError(
                        400,
                        "a request must begin with its method, and its lines must end with CR LF",
                        code=None,
                    )
                searched = len(data)
                data += yield HEAD if data else IDLE
                continue
            self.head = self._head(bytes(data[:end]))
            searched = 0
            del data[: end + 4]
            length = self.head.length
            if length is None:
                yield from self._decode_chunks()
                self.body = bytes(self._chunks)
                self._chunks.clear()
            elif length > self._most:
                raise self._too_long()
            else:
                while len(data) < length:
                    data += yield BODY
                self.body = bytes(data[:length])
                del data[:length]
            data += yield READY

    def _head(self, block: bytes) -> Head:
        # Clients send the same head each time, except for the digits of Content-Length. The last
        # heads are cached, because parsing one takes a sixth of the time of a short call.
        for before, after, known in self._heads:
            digits = block[len(before) : len(block) - len(after)]
            if (
                digits.isdigit()
                and len(digits) < 16
                and block.startswith(before)
                and block.endswith(after)
            ):
                method, path, headers, http11, keep_alive, _, expects = known
                headers = Headers.of(
                    {**headers.lists, "content-length": [digits.decode()]}, headers.cache
                )
                return Head(method, path, headers, http11, keep_alive, int(digits), expects)
        head = parse_head(block)
        found = _LENGTH.search(block)
        if found is not None and len(block) <= _CACHED_BYTES:
            self._heads = [
                (block[: found.start(1)], block[found.end(1) :], head),
                *self._heads[: _CACHED_HEADS - 1],
            ]
        return head

    def _too_long(self) -> HttpError:
        return HttpError(
            413, f"the body is longer than {self._most} bytes (HttpOptions.body_bytes)", code=None
        )

    def _decode_chunks(self) -> Generator[str, bytes, None]:
        data = self._bytes
        body = self._chunks
        excess = 0
        missing = -1
        while missing:
            line = yield from self._line(_CHUNK_LINE_BYTES, 400, "a chunk's size is malformed")
            found = _CHUNK_SIZE.fullmatch(line)
            if found is None:
                raise HttpError(400, "a chunk's size is malformed", code=None)
            missing = int(found[1], 16)
            # Each chunk takes time to decode, so the total overhead of small chunks is limited.
            excess = max(0, excess + len(line) + _CHUNK_COST - missing)
            _require(excess <= _CHUNK_EXCESS, 400, "the chunks are too small")
            end = len(body) + missing
            if end > self._most:
                raise self._too_long()
            while len(body) < end:
                if not data:
                    data += yield BODY
                piece = data[: end - len(body)]
                body += piece
                del data[: len(piece)]
            if missing:
                yield from self._line(0, 400, "a chunk is longer than its size")
        left = HEADER_BYTES
        while line := (yield from self._line(left, 431, "the trailer is too long")):
            header = _HEADER.fullmatch(line.decode("latin-1"))
            if header is None or header[1].lower() in _FRAMING:
                raise HttpError(400, "a trailer is malformed", code=None)
            left -= len(line)

    def _line(self, most: int, status: int, reason: str) -> Generator[str, bytes, bytes]:
        """Remove one line and return it. Reject a line that is longer than `most` bytes."""
        data = self._bytes
        while (end := data.find(b"\r\n", 0, most + 2)) < 0:
            if len(data) > most + 1:
                raise HttpError(status, reason, code=None)
            data += yield BODY
        line = bytes(data[:end])
        del data[: end + 2]
        return line


# ------------------------------------------------------------ responses


def response_head(
    head: Optional[Head],
    status: int,
    headers: Iterable[tuple[str, str]],
    length: Optional[int],
    keep_alive: bool,
) -> tuple[bytes, bool]:
    """Encode the head of a response. Return it, and whether the body is sent after it.

    Args:
        head: The head of the request; None if it is not known.
        status: The status.
        headers: Names and values. The headers that frame the body are added here.
        length: Number of bytes of the body. If None, chunks are sent, or, to a peer with HTTP/1.0,
            a body that ends with the connection.
        keep_alive: Whether the connection can be reused.

    Raises:
        ValueError: A header is malformed.
    """
    http11 = head is None or head.http11
    has_body = status not in _NO_BODY
    framing = b""
    if has_body and length is not None:
        framing = b"Content-Length: %d\r\n" % length
    elif has_body and http11:
        framing = b"Transfer-Encoding: chunked\r\n"
    fixed = _fixed(status, tuple(headers), keep_alive, http11, int(time.time()))
    data = b"%b%b\r\n" % (fixed, framing)
    return data, has_body and (head is None or head.method != "HEAD")


@lru_cache(64)
def _fixed(
    status: int, headers: tuple[tuple[str, str], ...], keep_alive: bool, http11: bool, second: int
) -> bytes:
    """Encode the status line and the headers, which are the same for most responses of a second."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _OURS]
    for line in lines[1:]:
        if _HEADER.fullmatch(line) is None:
            raise ValueError(f"invalid header: {line!r}")
    if not keep_alive:
        lines.append("Connection: close")
    elif not http11:
        lines.append("Connection: keep-alive")
    lines.append(f"Date: {formatdate(second, usegmt=True)}")
    return "\r\n".join([*lines, ""]).encode("latin-1")
