"""From bytes to requests and from responses to bytes: unambiguous input is accepted, everything
else is rejected."""

from __future__ import annotations

import re
from typing import Any, List, Optional, Tuple

import pytest

from minimcp.http import framing
from minimcp.http.framing import (
    HEADER_BYTES,
    HEADER_COUNT,
    LINE_BYTES,
    READY,
    Head,
    RequestParser,
    parse_head,
    response_head,
)
from minimcp.http.headers import HttpError
from tests.rows import for_each

GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BODY_BYTES = 1000


Found = List[Tuple[Head, bytes]]


def requests(data: bytes, size: Optional[int] = None, found: Optional[Found] = None) -> Found:
    """The whole requests in `data`, fed in pieces of `size`; they are added to `found`."""
    parser, found = RequestParser(body_bytes=BODY_BYTES), [] if found is None else found
    for at in range(0, len(data), size or len(data)):
        awaited = parser.feed(data[at : at + (size or len(data))])
        while awaited == READY:
            found.append(parser.take())
            awaited = parser.feed(b"")
    return found


def refusal(data: bytes, size: Optional[int] = None) -> Optional[int]:
    """Return the status of the rejection; None if there is none."""
    try:
        requests(data, size)
    except HttpError as refused:
        return refused.status
    return None


BODIES = [
    (POST + b"\r\n", b""), (POST + b"Content-Length: 0\r\n\r\n", b""),
    (POST + b"Content-Length: 005\r\n\r\nhello", b"hello"), (POST + b"Content-Length:5 \r\n\r\nhello", b"hello"),
    (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello"), (CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    (CHUNKED + b"5;a=b; c=\"d\"\r\nhello\r\n0;e\r\n\r\n", b"hello"),
    (CHUNKED + b"5 ; a\r\nhello\r\n0\r\n\r\n", b"hello"),
    (CHUNKED + b"A\r\n0123456789\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n", b"0123456789!"),
    (CHUNKED.replace(b"chunked", b"Chunked") + b"0\r\n\r\n", b""), (b"\r\n" + POST + b"\r\n", b""),
]  # fmt: skip


@for_each("data, body", BODIES)
@for_each("size", [None, 1, 2, 7])
def test_bodies_however_they_are_cut(data: bytes, body: bytes, size: Optional[int]) -> None:
    assert [found for _, found in requests(data + GET, size)] == [body, b""]


KEEPING = [
    (b"HTTP/1.1\r\nHost: a", True), (b"HTTP/1.1\r\nHost: a\r\nConnection: close", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: X , CLOSE", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: closed", True), (b"HTTP/1.0", False),
    (b"HTTP/1.0\r\nConnection: Keep-Alive", True), (b"HTTP/1.0\r\nConnection: keep-alive, close", False),
]  # fmt: skip


@for_each("rest, kept", KEEPING)
def test_requests_that_keep_the_connection_alive(rest: bytes, kept: bool) -> None:
    assert parse_head(b"GET / " + rest).keep_alive is kept


TARGETS = [
    (b"GET /a/../b;c?d=%20&e", "/a/../b;c?d=%20&e"), (b"GET //mcp", "//mcp"), (b"GET http://A/mcp?x", "/mcp?x"),
    (b"GET https://a?x", "/?x"), (b"GET HTTP://a", "/"), (b"OPTIONS *", "*"), (b"CONNECT b:443", "b:443"),
]  # fmt: skip


@for_each("line, path", TARGETS)
def test_targets(line: bytes, path: str) -> None:
    assert parse_head(line + b" HTTP/1.1\r\nHost: a").path == path


@for_each("host", [b"", b"a", b"a:80", b"[::1]", b"[::1]:80", b"127.0.0.1:1", b"x_y.example"])
def test_hosts(host: bytes) -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nHost: " + host).headers == {"host": host.decode()}


REQUEST_LINES = [
    (400, b"GET\r\n"), (400, b"GET /\r\n"), (400, b"GET  / HTTP/1.1\r\n"), (400, b"GET / HTTP/1.1 \r\n"),
    (400, b"GET\t/ HTTP/1.1\r\n"), (400, b" GET / HTTP/1.1\r\n"), (400, b"G(T / HTTP/1.1\r\n"),
    (400, b"GET / http/1.1\r\n"), (400, b"GET / HTTP/1.10\r\n"), (400, b"GET /\x00 HTTP/1.1\r\n"),
    (400, b"GET /\xc3\xa4 HTTP/1.1\r\n"), (400, b"GET /#x HTTP/1.1\r\n"), (400, b"GET * HTTP/1.1\r\n"),
    (400, b"GET mcp HTTP/1.1\r\n"), (400, b"GET a:80 HTTP/1.1\r\n"), (400, b"GET http://b/mcp HTTP/1.1\r\n"),
    (400, b"GET http://u@a/mcp HTTP/1.1\r\n"), (400, b"GET ftp://a/mcp HTTP/1.1\r\n"),
    (400, b"CONNECT a HTTP/1.1\r\n"), (505, b"GET / HTTP/2.0\r\n"), (505, b"PRI * HTTP/2.0\r\n"),
    (505, b"GET / HTTP/0.9\r\n"), (501, b"get / HTTP/1.1\r\n"), (501, b"BREW / HTTP/1.1\r\n"),
    (414, b"GET /" + b"x" * LINE_BYTES + b" HTTP/1.1\r\n"),
]  # fmt: skip


@for_each("status, line", REQUEST_LINES)
def test_request_lines_that_are_refused(status: int, line: bytes) -> None:
    assert refusal(line + b"Host: a\r\n\r\n") == status


HEADERS = [
    (400, b"Host: b"), (400, b"X : y"), (400, b": y"), (400, b"X"), (400, b""), (400, b"X y: z"), (400, b"X\xe4: y"),
    (400, b"X: y\r\n z"), (400, b"X: y\r\n\tz"), (400, b"X: y\nZ: z"), (400, b"X: y\rZ: z"), (400, b"X: y\x00"),
    (400, b"X: \x07"), (400, b"X: \x7f"), (400, b"Content-Length: +5"), (400, b"Content-Length: -5"),
    (400, b"Content-Length: 5 5"), (400, b"Content-Length: 5, 5"), (400, b"Content-Length: 0x5"),
    (400, b"Content-Length: 5_0"), (400, b"Content-Length: 5.0"), (400, b"Content-Length: \xb2"),
    (400, b"Content-Length:"), (400, b"Content-Length : 5"), (400, b"Content-Length: 5\r\nContent-Length: 5"),
    (400, b"Content-Length: 5\r\ncontent-length: 6"), (400, b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
    (400, b"Transfer-Encoding: chunked\r\nContent-Length: 5"),
    (400, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    (400, b"Transfer-Encoding: chunked, identity"), (400, b"Transfer-Encoding: identity, chunked"),
    (400, b"Transfer-Encoding: xchunked"), (400, b"Transfer-Encoding: \x0bchunked"),
    (400, b"Transfer-Encoding : chunked"), (400, b"Transfer-Encoding: \"chunked\""),
    (501, b"Transfer-Encoding: gzip"), (501, b"Transfer-Encoding:"), (400, b"Transfer_Encoding: chunked"),
    (400, b"Content_Length: 5"), (400, b"Content-Type: a/b\r\nContent-Type: c/d"), (417, b"Expect: tea"),
    (413, b"Content-Length: %d" % (BODY_BYTES + 1)), (413, b"Content-Length: " + b"9" * 5000),
    (431, b"X: " + b"y" * LINE_BYTES), (431, b"X: y\r\n" * HEADER_COUNT + b"Z: z"),
]  # fmt: skip


@for_each("status, header", HEADERS)
@for_each("size", [None, 1])
@for_each("before", [b"", POST + b"Content-Length: 5\r\n\r\nhello" + CHUNKED + b"0\r\n\r\n"])
def test_headers_that_are_refused(
    status: int, header: bytes, size: Optional[int], before: bytes
) -> None:
    """Independent of the cache of earlier heads."""
    assert refusal(before + POST + header + b"\r\n\r\n\x00", size) == status


@for_each("host", [b"a b", b"a/b", b"a:b", b"a:80:b", b"u@a", b"[a", b"a\\b", b"a#b"])
def test_invalid_hosts(host: bytes) -> None:
    assert refusal(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == 400


def test_differences_in_http_1_0() -> None:
    assert refusal(b"GET / HTTP/1.1\r\n\r\n") == 400
    assert refusal(b"GET / HTTP/1.0\r\n\r\n") is None
    assert refusal(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400


CHUNKS = [
    (400, b"+5\r\nhello\r\n"), (400, b"0x5\r\nhello\r\n"), (400, b"5_0\r\nhello\r\n"), (400, b" 5\r\nhello\r\n"),
    (400, b"5 \r\nhello\r\n"), (400, b"\r\nhello\r\n"), (400, b";a\r\nhello\r\n"), (400, b"g\r\nhello\r\n"),
    (400, b"5\nhello\r\n"), (400, b"5;a\nb\r\nhello\r\n"), (400, b"5;a\rb\r\nhello\r\n"),
    (400, b"5;\x00\r\nhello\r\n"), (400, b"5\r\nhello0\r\n\r\n"), (400, b"5\r\nhello\n0\r\n\r\n"),
    (400, b"5\r\nhello\r0\r\n\r\n"), (400, b"0\r\nX : y\r\n\r\n"), (400, b"0\r\n X: y\r\n\r\n"),
    (400, b"0\r\nContent-Length: 1\r\n\r\n"), (400, b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, b"0\r\nHost: b\r\n\r\n"), (400, b"1" * 16 + b"\r\n"), (400, b"5;" + b"a" * 2000),
    (400, b"".join(b"1;" + b"a" * 1000 + b"\r\n!\r\n" for _ in range(300))), (413, b"%x\r\n" % (BODY_BYTES + 1)),
    (413, b"f" * 15 + b"\r\n"), (413, b"1\r\n!\r\n" * (BODY_BYTES + 1)),
    (431, b"0\r\n" + b"X: y\r\n" * HEADER_BYTES), (431, b"0\r\nX: " + b"y" * HEADER_BYTES),
]  # fmt: skip


@for_each("status, chunks", CHUNKS)
@for_each("size", [None, 1000, 3])
def test_chunks_that_are_refused(status: int, chunks: bytes, size: Optional[int]) -> None:
    assert refusal(CHUNKED + chunks, size and max(size, len(chunks) // 1000)) == status


def test_a_body_in_tiny_chunks_is_read_up_to_a_limit() -> None:
    """Each costs more time than one byte should."""
    parser = RequestParser(body_bytes=None)
    parser.feed(CHUNKED + b"1\r\n!\r\n" * 10_000 + b"8000\r\n" + b"x" * 0x8000 + b"\r\n0\r\n\r\n")
    assert len(parser.take()[1]) == 10_000 + 0x8000
    with pytest.raises(HttpError, match="too small"):
        parser.feed(CHUNKED + b"1\r\n!\r\n" * 20_000)


def test_the_limits_are_exact() -> None:
    exact = (
        b"GET / HTTP/1.1\r\nHost: a\r\n" + (b"X: " + b"x" * 1019 + b"\r\n") * 31
    )  # 31,772 bytes, and the last line
    rest = HEADER_BYTES - len(exact) - len(b"X: ")
    assert refusal(exact + b"X: " + b"y" * rest + b"\r\n\r\n") is None
    assert refusal(exact + b"X: " + b"y" * (rest + 1) + b"\r\n\r\n") == 431
    line = b"X: " + b"y" * (LINE_BYTES - 3)
    assert refusal(POST + line + b"\r\n\r\n") is None and refusal(POST + line + b"y\r\n\r\n") == 431
    assert refusal(POST + b"X: y\r\n" * (HEADER_COUNT - 1) + b"\r\n") is None
    assert refusal(POST + b"Content-Length: %d\r\n\r\n" % BODY_BYTES) is None
    assert requests(CHUNKED + b"1\r\n!\r\n" * BODY_BYTES + b"0\r\n\r\n")[0][1] == b"!" * BODY_BYTES
    trailer = b"X: " + b"y" * (LINE_BYTES - 3) + b"\r\n"
    assert (
        requests(CHUNKED + b"0\r\n" + trailer * 4 + b"\r\n")
        and refusal(CHUNKED + b"0\r\n" + trailer * 5) == 431
    )
    assert refusal(CHUNKED + b"1;" + b"a" * 1022 + b"\r\n!\r\n0\r\n\r\n") is None
    assert refusal(CHUNKED + b"1;" + b"a" * 1023 + b"\r\n!\r\n0\r\n\r\n") == 400


ENDLESS = [
    (414, b"GET /" + b"x" * HEADER_BYTES), (431, b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES),
    (400, b"GET / HTTP/1.1\nHost: a\n"), (400, b"GET / HTTP/1.1\r\nHost: a\n"), (400, b"GET / HTTP/1.1\rHost"),
    (400, b"\x16\x03\x01\x02\x00\x01"), (400, b"\n"), (400, b"\rG"),
]  # fmt: skip


@for_each("status, data", ENDLESS)
@for_each("size", [None, 1])
def test_an_invalid_request_is_rejected_before_its_end(
    status: int, data: bytes, size: Optional[int]
) -> None:
    assert refusal(data, size) == status


def test_a_rejection_contains_no_text_of_the_peer() -> None:
    for _, line in REQUEST_LINES + HEADERS:
        with pytest.raises(HttpError) as caught:
            requests(POST + b"X-Secret: <script>\r\n" + line + b"\r\n\r\n\x00")
        assert b"<" not in caught.value.response().body


def head(
    status: int = 200,
    headers: Any = (),
    *,
    length: Optional[int] = 1,
    keep: bool = True,
    http11: bool = True,
) -> str:
    request = parse_head(b"GET / HTTP/1.1\r\nHost: a" if http11 else b"GET / HTTP/1.0")
    return response_head(request, status, headers, length, keep)[0].decode("latin-1")


HEADS = [
    (head(), "HTTP/1.1 200 OK", ["Content-Length: 1"]),
    (head(404, [("X-A", "b")]), "HTTP/1.1 404 Not Found", ["X-A: b", "Content-Length: 1"]),
    (head(299), "HTTP/1.1 299 ", ["Content-Length: 1"]),
    (head(length=None), "HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"]),
    (head(length=None, http11=False, keep=False), "HTTP/1.1 200 OK", ["Connection: close"]),
    (head(204, length=0), "HTTP/1.1 204 No Content", []),
    (head(204, length=None), "HTTP/1.1 204 No Content", []),
    (head(keep=False), "HTTP/1.1 200 OK", ["Content-Length: 1", "Connection: close"]),
    (head(http11=False), "HTTP/1.1 200 OK", ["Content-Length: 1", "Connection: keep-alive"]),
    (head(headers=[("content-length", "9"), ("Connection", "x"), ("Date", "now"), ("TRANSFER-ENCODING", "gzip")]),
     "HTTP/1.1 200 OK", ["Content-Length: 1"]),
    (head(headers=[("X", "\xe4 \t\xff")]), "HTTP/1.1 200 OK", ["X: \xe4 \t\xff", "Content-Length: 1"]),
]  # fmt: skip


@for_each("text, first, rest", HEADS)
def test_heads_of_responses(text: str, first: str, rest: List[str]) -> None:
    lines = text.split("\r\n")
    assert lines[0] == first and lines[-2:] == ["", ""]
    dates = [line for line in lines if line.startswith("Date: ")]
    assert re.fullmatch(
        r"Date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", *dates
    )
    assert sorted(lines[1:-2]) == sorted(rest + dates)


def test_the_date_is_this_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for now, text in ((0.0, "Thu, 01 Jan 1970 00:00:00"), (1e9 + 0.9, "Sun, 09 Sep 2001 01:46:40")):
        monkeypatch.setattr(framing.time, "time", lambda now=now: now)  # type: ignore[attr-defined]
        assert f"\r\nDate: {text} GMT\r\n" in head()


@for_each(
    "name, value",
    [("X", "a\r\nY: b"), ("X", "a\n"), ("X", "\x00"), ("X Y", "a"), ("", "a"), ("X\r", "")],
)
def test_invalid_response_headers(name: str, value: str) -> None:
    with pytest.raises(ValueError):
        head(headers=[(name, value)])
