"""How bytes become requests: what has one meaning only is taken, everything else is refused."""

from __future__ import annotations

import random
from typing import List, Optional, Tuple

import pytest

from minimcp.http.http_framing import (
    FIELDS,
    HEADER_BYTES,
    LINE_BYTES,
    BadRequest,
    Head,
    RequestStream,
    parse_head,
)  # fmt: skip
from tests.rows import for_each

GET = b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\n"
BODY_BYTES = 1000


def stream() -> RequestStream:
    return RequestStream(body_bytes=BODY_BYTES)


def requests(data: bytes, size: Optional[int] = None) -> List[Tuple[Head, bytes]]:
    """The whole requests in `data`, fed in pieces of `size`."""
    taken, found = stream(), []
    for at in range(0, len(data), size or len(data)):
        taken.feed(data[at : at + (size or len(data))])
        while taken.head() is not None:
            body = taken.body()
            if body is None:
                break
            head = taken.head()
            assert head is not None
            found.append((head, body))
            taken.forward()
    return found


def refusal(data: bytes, size: Optional[int] = None) -> Optional[int]:
    """The status of the refusal; None when there is none."""
    try:
        requests(data, size)
    except BadRequest as refused:
        return refused.status
    return None


def test_a_request() -> None:
    head, body = requests(POST + b"X-Two:\t one  two \r\nContent-Length: 5\r\n\r\nhello")[0]
    assert (head.method, head.path, head.newer, head.keep_alive) == ("POST", "/mcp", True, True)
    assert list(head.headers.items()) == [("host", "a"), ("x-two", "one  two"), ("content-length", "5")]
    assert (head.length, head.expects, body) == (5, False, b"hello")


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

BODIES = [
    (POST + b"\r\n", b""),
    (POST + b"Content-Length: 0\r\n\r\n", b""),
    (POST + b"Content-Length: 005\r\n\r\nhello", b"hello"),
    (POST + b"Content-Length:5 \r\n\r\nhello", b"hello"),
    (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    (CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    (CHUNKED + b"5;a=b; c=\"d\"\r\nhello\r\n0;e\r\n\r\n", b"hello"),
    (CHUNKED + b"5 ; a\r\nhello\r\n0\r\n\r\n", b"hello"),
    (CHUNKED + b"A\r\n0123456789\r\n1\r\n!\r\n0\r\nX-Sum: 1\r\nX-Two: 2\r\n\r\n", b"0123456789!"),
    (CHUNKED.replace(b"chunked", b"Chunked") + b"0\r\n\r\n", b""),
    (b"\r\n" + POST + b"\r\n", b""),
]


@for_each("data, body", BODIES)
@for_each("size", [None, 1, 2, 7])
def test_bodies_however_they_are_cut(data: bytes, body: bytes, size: Optional[int]) -> None:
    assert [found for _, found in requests(data + GET, size)] == [body, b""]


def test_pipelined_requests_come_one_by_one() -> None:
    taken = stream()
    taken.feed(GET + POST + b"Content-Length: 2\r\n\r\nhi" + GET[:5])
    first = taken.head()
    assert first is not None and first.method == "GET" and taken.head() is first
    assert taken.body() == b"" == taken.body()
    taken.forward()
    second = taken.head()
    assert second is not None and second.method == "POST"
    assert taken.body() == b"hi"
    taken.forward()
    assert taken.head() is None and taken.begun
    taken.feed(GET[5:])
    assert taken.head() == first
    taken.body()
    taken.forward()
    assert not taken.begun


KEEPING = [
    (b"HTTP/1.1\r\nHost: a", True),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: close", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: X , CLOSE", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close", False),
    (b"HTTP/1.1\r\nHost: a\r\nConnection: closed", True),
    (b"HTTP/1.0", False),
    (b"HTTP/1.0\r\nConnection: Keep-Alive", True),
    (b"HTTP/1.0\r\nConnection: keep-alive, close", False),
]


@for_each("rest, kept", KEEPING)
def test_who_wants_to_go_on(rest: bytes, kept: bool) -> None:
    assert parse_head(b"GET / " + rest).keep_alive is kept


def test_what_waits_for_leave_to_send() -> None:
    assert parse_head(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue").expects
    assert not parse_head(b"POST / HTTP/1.0\r\nExpect: 100-continue").expects


TARGETS = [
    (b"GET /a/../b;c?d=%20&e", "/a/../b;c?d=%20&e"),
    (b"GET //mcp", "//mcp"),
    (b"GET http://A/mcp?x", "/mcp?x"),
    (b"GET https://a?x", "/?x"),
    (b"GET HTTP://a", "/"),
    (b"OPTIONS *", "*"),
    (b"CONNECT b:443", "b:443"),
]


@for_each("line, path", TARGETS)
def test_targets(line: bytes, path: str) -> None:
    assert parse_head(line + b" HTTP/1.1\r\nHost: a").path == path


@for_each("host", [b"", b"a", b"a:80", b"[::1]", b"[::1]:80", b"127.0.0.1:1", b"x_y.example"])
def test_hosts(host: bytes) -> None:
    assert parse_head(b"GET / HTTP/1.1\r\nHost: " + host).headers == {"host": host.decode()}


REQUEST_LINES = [
    (400, b"GET\r\n"),
    (400, b"GET /\r\n"),
    (400, b"GET  / HTTP/1.1\r\n"),
    (400, b"GET / HTTP/1.1 \r\n"),
    (400, b"GET\t/ HTTP/1.1\r\n"),
    (400, b" GET / HTTP/1.1\r\n"),
    (400, b"G(T / HTTP/1.1\r\n"),
    (400, b"GET / http/1.1\r\n"),
    (400, b"GET / HTTP/1.10\r\n"),
    (400, b"GET / HTTP/11\r\n"),
    (400, b"GET /\x00 HTTP/1.1\r\n"),
    (400, b"GET /\xc3\xa4 HTTP/1.1\r\n"),
    (400, b"GET /#x HTTP/1.1\r\n"),
    (400, b"GET * HTTP/1.1\r\n"),
    (400, b"GET mcp HTTP/1.1\r\n"),
    (400, b"GET a:80 HTTP/1.1\r\n"),
    (400, b"GET http://b/mcp HTTP/1.1\r\n"),
    (400, b"GET http://u@a/mcp HTTP/1.1\r\n"),
    (400, b"GET ftp://a/mcp HTTP/1.1\r\n"),
    (400, b"CONNECT a HTTP/1.1\r\n"),
    (505, b"GET / HTTP/2.0\r\n"),
    (505, b"PRI * HTTP/2.0\r\n"),
    (505, b"GET / HTTP/1.2\r\n"),
    (505, b"GET / HTTP/0.9\r\n"),
    (501, b"get / HTTP/1.1\r\n"),
    (501, b"BREW / HTTP/1.1\r\n"),
    (414, b"GET /" + b"x" * LINE_BYTES + b" HTTP/1.1\r\n"),
]


@for_each("status, line", REQUEST_LINES)
def test_request_lines_that_are_refused(status: int, line: bytes) -> None:
    assert refusal(line + b"Host: a\r\n\r\n") == status


HEADERS = [
    (400, b"Host: b"),
    (400, b"X : y"),
    (400, b"X\t: y"),
    (400, b": y"),
    (400, b"X"),
    (400, b""),  # the head ends here, and what follows begins no request
    (400, b"X y: z"),
    (400, b"X\xe4: y"),
    (400, b"X: y\r\n z"),
    (400, b"X: y\r\n\tz"),
    (400, b"X: y\nZ: z"),
    (400, b"X: y\rZ: z"),
    (400, b"X: y\x00"),
    (400, b"X: \x07"),
    (400, b"X: \x7f"),
    (400, b"Content-Length: +5"),
    (400, b"Content-Length: -5"),
    (400, b"Content-Length: 5 5"),
    (400, b"Content-Length: 5, 5"),
    (400, b"Content-Length: 0x5"),
    (400, b"Content-Length: 5_0"),
    (400, b"Content-Length: 5.0"),
    (400, b"Content-Length: \xb2"),
    (400, b"Content-Length:"),
    (400, b"Content-Length: 5\r\nContent-Length: 5"),
    (400, b"Content-Length: 5\r\ncontent-length: 6"),
    (400, b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
    (400, b"Transfer-Encoding: chunked\r\nContent-Length: 5"),
    (400, b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    (400, b"Transfer-Encoding: chunked, identity"),
    (400, b"Transfer-Encoding: identity, chunked"),
    (400, b"Transfer-Encoding: xchunked"),
    (400, b"Transfer-Encoding: \x0bchunked"),
    (400, b"Transfer-Encoding : chunked"),
    (400, b"Transfer-Encoding: \"chunked\""),
    (501, b"Transfer-Encoding: gzip"),
    (501, b"Transfer-Encoding:"),
    (400, b"Transfer_Encoding: chunked"),
    (400, b"Content_Length: 5"),
    (400, b"Content-Type: a/b\r\nContent-Type: c/d"),
    (417, b"Expect: tea"),
    (413, b"Content-Length: %d" % (BODY_BYTES + 1)),
    (413, b"Content-Length: " + b"9" * 5000),
    (431, b"X: " + b"y" * LINE_BYTES),
    (431, b"X: y\r\n" * FIELDS + b"Z: z"),
]


@for_each("status, header", HEADERS)
@for_each("size", [None, 1])
def test_headers_that_are_refused(status: int, header: bytes, size: Optional[int]) -> None:
    assert refusal(POST + header + b"\r\n\r\n\x00", size) == status


@for_each("host", [b"a b", b"a/b", b"a:b", b"a:80:b", b"u@a", b"[a", b"a\\b", b"a#b"])
def test_hosts_that_are_none(host: bytes) -> None:
    assert refusal(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == 400


def test_the_newer_version_names_its_host() -> None:
    assert refusal(b"GET / HTTP/1.1\r\n\r\n") == 400
    assert refusal(b"GET / HTTP/1.0\r\n\r\n") is None


def test_chunks_are_not_for_the_older_version() -> None:
    assert refusal(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400


CHUNKS = [
    (400, b"+5\r\nhello\r\n"),
    (400, b"-5\r\nhello\r\n"),
    (400, b"0x5\r\nhello\r\n"),
    (400, b"5_0\r\nhello\r\n"),
    (400, b" 5\r\nhello\r\n"),
    (400, b"5 \r\nhello\r\n"),
    (400, b"\r\nhello\r\n"),
    (400, b";a\r\nhello\r\n"),
    (400, b"g\r\nhello\r\n"),
    (400, b"5\nhello\r\n"),
    (400, b"5;a\nb\r\nhello\r\n"),
    (400, b"5;a\rb\r\nhello\r\n"),
    (400, b"5;\x00\r\nhello\r\n"),
    (400, b"5\r\nhello0\r\n\r\n"),
    (400, b"5\r\nhello\n0\r\n\r\n"),
    (400, b"5\r\nhello\r0\r\n\r\n"),
    (400, b"0\r\nX : y\r\n\r\n"),
    (400, b"0\r\n X: y\r\n\r\n"),
    (400, b"0\r\nContent-Length: 1\r\n\r\n"),
    (400, b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    (400, b"0\r\nHost: b\r\n\r\n"),
    (400, b"1" * 16 + b"\r\n"),
    (400, b"5;" + b"a" * 2000),
    (400, b"1;" + b"a" * 1000 + b"\r\n!\r\n" * 20),
    (400, b"".join(b"1;" + b"a" * 1000 + b"\r\n!\r\n" for _ in range(300))),
    (413, b"%x\r\n" % (BODY_BYTES + 1)),
    (413, b"f" * 15 + b"\r\n"),
    (413, b"1\r\n!\r\n" * (BODY_BYTES + 1)),
    (431, b"0\r\n" + b"X: y\r\n" * HEADER_BYTES),
    (431, b"0\r\nX: " + b"y" * HEADER_BYTES),
]


@for_each("status, chunks", CHUNKS)
@for_each("size", [None, 1000, 3])
def test_chunks_that_are_refused(status: int, chunks: bytes, size: Optional[int]) -> None:
    assert refusal(CHUNKED + chunks, size) == status


def test_a_body_in_tiny_chunks_is_taken_up_to_a_point() -> None:
    """Each costs more time than a byte of it is worth."""
    taken = RequestStream(body_bytes=None)
    taken.feed(CHUNKED + b"1\r\n!\r\n" * 10_000 + b"8000\r\n" + b"x" * 0x8000 + b"\r\n0\r\n\r\n")
    assert taken.head() is not None and len(taken.body() or b"") == 10_000 + 0x8000
    taken.forward()
    taken.feed(CHUNKED + b"1\r\n!\r\n" * 20_000)
    assert taken.head() is not None
    with pytest.raises(BadRequest, match="too small"):
        taken.body()


def test_the_limits_are_meant_exactly() -> None:
    exact = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    fits = RequestStream(header_bytes=len(exact) + 10, body_bytes=5)
    fits.feed(exact + b"y" * 10 + b"\r\n\r\n")
    assert fits.head() is not None
    over = RequestStream(header_bytes=len(exact) + 10, body_bytes=5)
    over.feed(exact + b"y" * 11 + b"\r\n\r\n")
    with pytest.raises(BadRequest):
        over.head()
    line = b"X: " + b"y" * (LINE_BYTES - 3)
    assert refusal(POST + line + b"\r\n\r\n") is None and refusal(POST + line + b"y\r\n\r\n") == 431
    assert refusal(POST + b"X: y\r\n" * (FIELDS - 1) + b"\r\n") is None
    assert refusal(POST + b"Content-Length: %d\r\n\r\n" % BODY_BYTES) is None
    assert requests(CHUNKED + b"1\r\n!\r\n" * BODY_BYTES + b"0\r\n\r\n")[0][1] == b"!" * BODY_BYTES


ENDLESS = [
    (414, b"GET /" + b"x" * HEADER_BYTES),
    (431, b"GET / HTTP/1.1\r\nX: " + b"x" * HEADER_BYTES),
    (400, b"GET / HTTP/1.1\nHost: a\n"),
    (400, b"GET / HTTP/1.1\r\nHost: a\n"),
    (400, b"GET / HTTP/1.1\rHost"),
    (400, b"\x16\x03\x01\x02\x00\x01"),
    (400, b"\n"),
    (400, b"\rG"),
]


@for_each("status, data", ENDLESS)
@for_each("size", [None, 1])
def test_what_can_be_no_request_is_refused_before_its_end(status: int, data: bytes, size: Optional[int]) -> None:
    assert refusal(data, size) == status


def test_nothing_in_a_refusal_comes_from_the_peer() -> None:
    for _, line in REQUEST_LINES + HEADERS:
        with pytest.raises(BadRequest) as caught:
            requests(POST + b"X-Secret: <script>\r\n" + line + b"\r\n\r\n\x00")
        assert "<" not in caught.value.reason


def test_any_bytes_are_requests_or_refused() -> None:
    """No other exception, and the same whatever the pieces are."""
    rng = random.Random(42)
    seeds = [GET, *(data for data, _ in BODIES)]
    for _ in range(3000):
        data = bytearray(b"".join(rng.sample(seeds, 2)))
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.choice([b"", b"\r", b"\n", b"\r\n", b" ", b":", b"\x00", b"5", b"-"])
        whole = bytes(data)
        assert _outcome(whole, None) == _outcome(whole, rng.randrange(1, 9)), whole


def _outcome(data: bytes, size: Optional[int]) -> object:
    """All that comes of it; of a refusal only that it is one, as what is wrong first depends on the pieces."""
    found: List[Tuple[Head, bytes]] = []
    taken = stream()
    try:
        for at in range(0, len(data), size or len(data)):
            taken.feed(data[at : at + (size or len(data))])
            while True:
                head, body = taken.head(), taken.body()
                if head is None or body is None:
                    break
                found.append((head, body))
                taken.forward()
    except BadRequest:
        return found, "refused"
    return found, "open"


def test_lines_known_of_earlier_heads_change_nothing() -> None:
    same = [b"X: y", b"Content-Length: 0"] + [b"X-%d: %d" % (number, number) for number in range(80)]
    for head, body in requests(3 * (POST + b"\r\n".join(same) + b"\r\n\r\n")):
        assert body == b"" and len(head.headers) == 83
        assert list(head.headers.items())[1:3] == [("x", "y"), ("content-length", "0")]
    assert refusal(POST + b"X: y\r\n\r\n" + POST + b"X: y\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n") == 400


LENGTHS = (b"Content-Length: 5", b"content-length:0005", b"CONTENT-LENGTH:\t5", b"Content-Length:  5 ")


@for_each("line", LENGTHS)
def test_a_head_comes_again_with_another_length(line: bytes) -> None:
    """Whatever is remembered, each head says what it says when it comes alone."""
    heads = [POST + line + b"\r\nX: y", POST + b"X: y\r\n" + line, POST + b"X: y\r\nContent-Length: 3"]
    wire = b"".join(head + b"\r\n\r\n" + b"hello"[: 3 if b": 3" in head else 5] for head in heads * 2)
    for (found, body), head in zip(requests(wire), heads * 2):
        alone = parse_head(head)
        assert found._replace(headers=alone.headers) == alone and dict(found.headers) == dict(alone.headers)
        assert len(body) == alone.length


TWICE = [
    b"Content-Length: 5\r\nContent-Length: 5",
    b"Content-Length: 5\r\nContent-Length: 0",
    b"Content-Length: 5\r\ncontent-length: 5",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Content-Length: 5\r\nContent_Length: 5",
    b"Content-Length: +5",
    b"Content-Length: 5 5",
    b"Content-Length: 5,5",
    b"Content-Length : 5",
    b"Content-Length: 5\r\n 5",
]


@for_each("lines", TWICE)
def test_what_is_refused_alone_is_refused_behind_what_is_like_it(lines: bytes) -> None:
    before = POST + b"Content-Length: 5\r\n\r\nhello"
    chunked = POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for earlier in (b"", before, chunked, POST + b"\r\n", chunked + POST + b"\r\n" + before):
        assert refusal(earlier + POST + lines + b"\r\n\r\nhello") == 400
        assert refusal(earlier + before) is None


def test_no_more_heads_are_remembered_than_a_few_short_ones() -> None:
    taken = stream()
    for number in range(50):
        taken.feed(POST + b"X: %d\r\nContent-Length: 0\r\n\r\n" % number)
        taken.feed(POST + b"X: %d%b\r\nContent-Length: 0\r\n\r\n" % (number, 2000 * b"y"))
        for _ in range(2):
            assert taken.head() is not None and taken.body() == b""
            taken.forward()
    assert len(taken._heads) <= 4 and sum(len(before + after) for before, after, _ in taken._heads) <= 4096


def test_what_is_known_of_a_head_holds_for_another_length_alone() -> None:
    same = [POST + b"X: %b\r\nContent-Length: %d\r\n\r\n%b" % (x, len(body), body) for x, body in
            ((b"y", b"a"), (b"y", b"bc"), (b"z", b"a"))]  # fmt: skip
    first, second, other = (head for head, _ in requests(b"".join(same)))
    first.headers.known["it"] = True
    assert "it" in second.headers.known and "it" not in other.headers.known
    assert [head.headers["Content-Length"] for head in (first, second, other)] == ["1", "2", "1"]
