"""Heads of responses and the writer of one, with a connection that is a list."""

from __future__ import annotations

import re
import threading
import time
from typing import Any, List, Optional

import pytest

from minimcp.errors import ConnectionLost
from minimcp.http.http_framing import parse_head
from minimcp.http.http_response import Writer, chunk, response_head
from tests.rows import for_each


def head(
    status: int = 200, headers: Any = (), *, length: Optional[int] = 1, keep: bool = True, newer: bool = True
) -> str:
    return response_head(status, headers, length=length, keep_alive=keep, newer=newer).decode("latin-1")


HEADS = [
    (head(), "HTTP/1.1 200 OK", ["Content-Length: 1"]),
    (head(404, [("X-A", "b")]), "HTTP/1.1 404 Not Found", ["X-A: b", "Content-Length: 1"]),
    (head(299), "HTTP/1.1 299 ", ["Content-Length: 1"]),
    (head(length=None), "HTTP/1.1 200 OK", ["Transfer-Encoding: chunked"]),
    (head(length=None, newer=False, keep=False), "HTTP/1.1 200 OK", ["Connection: close"]),
    (head(204, length=0), "HTTP/1.1 204 No Content", []),
    (head(204, length=None), "HTTP/1.1 204 No Content", []),
    (head(304, length=5), "HTTP/1.1 304 ", []),
    (head(keep=False), "HTTP/1.1 200 OK", ["Content-Length: 1", "Connection: close"]),
    (head(newer=False), "HTTP/1.1 200 OK", ["Content-Length: 1", "Connection: keep-alive"]),
    (head(headers=[("content-length", "9"), ("Connection", "x"), ("Date", "now"), ("TRANSFER-ENCODING", "gzip")]),
     "HTTP/1.1 200 OK", ["Content-Length: 1"]),
    (head(headers=[("X", "\xe4 \t\xff")]), "HTTP/1.1 200 OK", ["X: \xe4 \t\xff", "Content-Length: 1"]),
]  # fmt: skip


@for_each("text, first, rest", HEADS)
def test_heads(text: str, first: str, rest: List[str]) -> None:
    lines = text.split("\r\n")
    assert lines[0] == first and lines[-2:] == ["", ""]
    dates = [line for line in lines if line.startswith("Date: ")]
    assert re.fullmatch(r"Date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", *dates)
    assert sorted(lines[1:-2]) == sorted(rest + dates)


def test_the_date_is_this_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for moment, text in ((0.0, "Thu, 01 Jan 1970 00:00:00"), (1e9 + 0.9, "Sun, 09 Sep 2001 01:46:40")):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        assert f"\r\nDate: {text} GMT\r\n" in head()
        assert head() == head()


@for_each("name, value", [("X", "a\r\nY: b"), ("X", "a\n"), ("X", "\x00"), ("X Y", "a"), ("", "a"), ("X\r", "")])
def test_headers_that_would_be_two_or_none(name: str, value: str) -> None:
    with pytest.raises(ValueError):
        head(headers=[(name, value)])


def test_a_chunk() -> None:
    assert chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"


class Line:
    """Where a writer writes."""

    def __init__(self, request: bytes = b"GET / HTTP/1.1\r\nHost: a") -> None:
        self.sent: List[bytes] = []
        self.broken = self.full = False
        self.began = 0
        self.writer = Writer(
            parse_head(request), "peer", self.send, lambda head: head.keep_alive, self.begin, lambda: not self.full
        )

    def send(self, data: Any) -> None:
        if self.broken:
            raise BrokenPipeError("gone")
        self.sent.append(bytes(data))

    def begin(self) -> None:
        self.began += 1


def test_a_whole_response_is_one_piece() -> None:
    line = Line()
    line.writer.send(200, [], b"body")
    assert len(line.sent) == 1 and line.sent[0].endswith(b"\r\n\r\nbody") and line.began == 0
    assert line.writer.finish()


def test_a_stream_is_a_head_and_chunks() -> None:
    line = Line()
    line.writer.begin(200, [])
    line.writer.write(b"one")
    line.writer.write(b"")
    assert line.writer.has_room()
    line.full = True
    assert not line.writer.has_room()
    line.writer.end()
    line.writer.end()
    assert line.sent[1:] == [b"3\r\none\r\n", b"0\r\n\r\n"] and line.began == 1
    assert line.writer.finish()


def test_a_stream_for_the_older_version_ends_with_its_connection() -> None:
    line = Line(b"GET / HTTP/1.0\r\nConnection: keep-alive")
    line.writer.begin(200, [])
    line.writer.write(b"one")
    line.writer.end()
    assert line.sent[1:] == [b"one"] and not line.writer.finish()


def test_a_stream_that_is_not_ended_is_not_gone_on_with() -> None:
    line = Line()
    line.writer.begin(200, [])
    assert not line.writer.finish()
    with pytest.raises(ConnectionLost, match="the response has ended"):
        line.writer.write(b"late")
    assert len(line.sent) == 1


def test_nothing_is_answered_with_an_error() -> None:
    line = Line()
    line.writer.end()
    assert line.writer.finish() and b" 500 Internal Server Error\r\n" in line.sent[0]


STEPS = {
    "begin": lambda writer: writer.begin(200, []),
    "write": lambda writer: writer.write(b"x"),
    "send": lambda writer: writer.send(200, [], b"x" * 100_000),
}


@for_each("step", STEPS)
def test_a_broken_line_ends_its_response(caplog: pytest.LogCaptureFixture, step: str) -> None:
    line, told = Line(), []  # type: ignore[var-annotated]
    line.writer.on_gone(lambda: told.append("first"))
    line.writer.on_gone(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    line.writer.on_gone(lambda: told.append("second"))
    if step == "write":
        line.writer.begin(200, [])
    line.broken = True
    with pytest.raises(ConnectionLost, match="peer: gone"):
        STEPS[step](line.writer)
    assert line.writer.gone and sorted(told) == ([] if step == "send" else ["first", "second"])
    with pytest.raises(ConnectionLost):
        line.writer.write(b"more")
    line.writer.lose()
    line.broken = False
    line.writer.end()
    assert not line.writer.finish()
    assert len(line.sent) == (step == "write") and len(told) <= 2


def test_a_stream_whose_peer_left_is_not_gone_on_with() -> None:
    line = Line()
    line.writer.begin(200, [])
    line.writer.lose()
    line.writer.end()
    assert not line.writer.finish() and len(line.sent) == 1


def test_a_peer_that_is_gone_is_not_told_of_our_faults() -> None:
    line = Line()
    line.writer.lose()
    assert not line.writer.finish() and line.sent == []
    line = Line()
    line.broken = True
    assert not line.writer.finish() and line.sent == []


def test_misuse() -> None:
    line = Line()
    with pytest.raises(RuntimeError, match="begins with its head"):
        line.writer.write(b"x")
    line.writer.send(200, [], b"")
    with pytest.raises(RuntimeError, match="one response"):
        line.writer.send(200, [], b"")
    head_only = Line(b"HEAD / HTTP/1.1\r\nHost: a")
    head_only.writer.begin(200, [])
    head_only.writer.write(b"x")
    head_only.writer.end()
    assert len(head_only.sent) == 1 and head_only.writer.finish()


def test_who_asks_late_is_told_at_once_and_after_the_end_never() -> None:
    line, told = Line(), []  # type: ignore[var-annotated]
    line.writer.lose()
    line.writer.on_gone(lambda: told.append(1))
    assert told == [1]
    with pytest.raises(ConnectionLost, match="the peer is gone"):
        line.writer.begin(200, [])
    line.writer.send(200, [], b"")  # whoever only stopped sending reads this
    line.writer.on_gone(lambda: told.append(2))
    assert told == [1]


def test_many_are_told_once_each() -> None:
    line = Line()
    told: List[int] = []
    for number in range(1000):
        line.writer.on_gone(lambda number=number: told.append(number))  # type: ignore[misc]
    threads = [threading.Thread(target=line.writer.lose) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == list(range(1000))
