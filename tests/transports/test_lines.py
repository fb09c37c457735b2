"""Lines out of bytes."""

from __future__ import annotations

import random
import tracemalloc
from typing import List, Optional, Union

import pytest

from minimcp.engine.transport import Frame, LineSplitter, TooLong

Seen = List[Union[bytes, int]]


def seen(frames: List[Frame]) -> Seen:
    """Frames as something that compares: a limit stands for what was too long."""
    return [frame.limit if isinstance(frame, TooLong) else frame for frame in frames]


def split(*chunks: bytes, limit: Optional[int] = None) -> Seen:
    """What comes out of a splitter for these chunks and the end of the stream."""
    splitter = LineSplitter(limit)
    frames: List[Frame] = []
    for chunk in chunks:
        frames += splitter.feed(chunk)
    return seen(frames + splitter.rest() + splitter.rest())


@pytest.mark.requirement("STDIO-03", "M:STD-15")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", []),
        (b"a\n", [b"a"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\n\r\n\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\r\n", [b"a", b"b\r"]),
        (b"a\rb\n\rc\n", [b"a\rb", b"\rc"]),
        (b"\r\n", []),
        (b"\xef\xbb\xbfa\nb\n", [b"a", b"b"]),
        (b"\xef\xbb\xbf\na\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n", [b"\xef\xbb\xbfa"]),
        (b"a\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\n\xef\xbb\xbfb\n", [b"\xef\xbb\xbfb"]),
        (b"\xef\xbbb\n", [b"\xef\xbbb"]),
        (b" \n\t\n", [b" ", b"\t"]),
        (b"\xe2\x80\xa8\n\xc2\x85\n\x00\x0b\x0c\x1c\n", [b"\xe2\x80\xa8", b"\xc2\x85", b"\x00\x0b\x0c\x1c"]),
        (b"a\nhalf", [b"a", b"half"]),
        (b"half\r", [b"half"]),
        (b"\xef\xbb\xbfhalf", [b"half"]),
    ],
)
def test_lines_whole_and_byte_by_byte(data: bytes, expected: Seen) -> None:
    assert split(data) == expected
    assert split(*[bytes([byte]) for byte in data]) == expected
    for cut in range(len(data)):
        assert split(data[:cut], data[cut:]) == expected


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_limit(step: int, end: bytes) -> None:
    for length, expected in ((9, b"x" * 9), (10, b"x" * 10), (11, 10), (12, 10), (13, 10), (50, 10)):
        data = b"a" + end + b"x" * length + end + b"b" + end
        chunks = [data[start : start + step] for start in range(0, len(data), step)]
        assert split(*chunks, limit=10) == [b"a", expected, b"b"]


def test_one_report_at_the_end_of_a_line_that_is_too_long() -> None:
    for end in (b"\n", b""):
        splitter = LineSplitter(10)
        for _ in range(100):
            assert splitter.feed(b"x" * 1000) == []
        assert seen(splitter.feed(end) + splitter.rest()) == [10]
        assert splitter.rest() == []


@pytest.mark.parametrize("step", [1, 7, 10_000, 1_000_000])
@pytest.mark.parametrize("limit", [10, 5000, 100_000])
def test_what_is_kept_of_a_line_that_is_too_long(step: int, limit: int) -> None:
    line = b"\xef\xbb\xbf" + b"".join([b"%d," % number for number in range(30_000)])
    splitter = LineSplitter(limit)
    frames: List[Frame] = []
    for start in range(0, len(line), step):
        frames += splitter.feed(line[start : start + step])
        assert sum(map(len, splitter._pieces)) + len(splitter._small) <= limit + 1
    assert frames == []
    [long] = splitter.feed(b"\nnext")
    assert isinstance(long, TooLong)
    assert line.startswith(long.head) and line.endswith(long.tail)
    assert len(long.head) >= min(limit, 1000) and len(long.tail) >= 200
    assert splitter.rest() == [b"next"]


def test_a_line_that_is_too_long_is_never_joined() -> None:
    limit, chunk = 16_000_000, b"x" * 1_000_000
    splitter = LineSplitter(limit)
    tracemalloc.start()
    try:
        for _ in range(40):
            assert splitter.feed(bytes(bytearray(chunk))) == []
        assert tracemalloc.get_traced_memory()[1] < limit + 6_000_000
    finally:
        tracemalloc.stop()
    assert seen(splitter.feed(b"\n")) == [limit]


def test_the_ends_of_a_short_line_that_is_too_long() -> None:
    [long] = LineSplitter(3).feed(b"abcdef\r\n")
    assert isinstance(long, TooLong)
    assert (long.head, long.tail) == (b"abcdef", b"abcdef")


def test_a_last_line_over_the_limit() -> None:
    assert split(b"x" * 11, limit=10) == [10]
    assert split(b"x" * 10 + b"\r", limit=10) == [b"x" * 10]
    assert split(b"x" * 12, limit=10) == [10]


def test_the_first_line_too_long_keeps_the_second() -> None:
    assert split(b"x" * 50, b"\nb\n", limit=10) == [10, b"b"]


def test_however_it_is_cut_the_lines_are_the_same() -> None:
    chance = random.Random(2)
    for _ in range(300):
        data = bytes(chance.choices(b"\n\r ab\xef\xbb\xbf", k=chance.randrange(40)))
        cuts = sorted(chance.choices(range(len(data) + 1), k=5))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]
        assert split(*pieces, limit=6) == split(data, limit=6), (data, pieces)


def test_a_long_line_costs_nothing_per_chunk() -> None:
    splitter = LineSplitter(None)
    chunk = b"x" * 1000
    for _ in range(50_000):
        assert splitter.feed(chunk) == []
    assert seen(splitter.feed(b"\n")) == [chunk * 50_000]
