"""SSE streams: the reader, for any chunks, its limits, and the writer."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any, Callable, Optional

import pytest

from minimcp import ProtocolViolation
from minimcp.http.sse import KEEP_ALIVE, EventReader, SseEvent, format_event

from ..rows import for_each
from ..streams import read_events


def read(*chunks: bytes, max_bytes: Optional[int] = None) -> list[SseEvent]:
    reader = EventReader(max_bytes)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def every_cut(stream: bytes) -> list[list[SseEvent]]:
    """Return the events of the stream in two pieces, for each cut, and byte by byte."""
    cuts = [read(stream[:at], stream[at:]) for at in range(len(stream) + 1)]
    return [*cuts, read(*(stream[at : at + 1] for at in range(len(stream))))]


STREAMS: list[Any] = [
    *(
        (
            end.join(
                [
                    b"data: one",
                    b"",
                    b"event: tick",
                    b"id: 7",
                    b"data:two",
                    b"data:  three",
                    b"",
                    b"",
                ]
            ),
            [SseEvent("one"), SseEvent("two\n three", "tick", "7")],
        )
        for end in (b"\n", b"\r", b"\r\n")
    ),
    (b"\xef\xbb\xbfdata: x\n\ndata: y\n\n", [SseEvent("x"), SseEvent("y")]),
    (b"data: a\n\r\ndata: b\r\r\ndata: c\r\n\n", [SseEvent("a"), SseEvent("b"), SseEvent("c")]),
    (b'data: a\n\ndata: {"half":\n', [SseEvent("a")]),
    (b"data: a\xffb\xe2\x80\xa8c\n\n", [SseEvent("a\ufffdb\u2028c")]),
    (b": hello\n:\ncolour: red\ndata: x\n: y\n\n", [SseEvent("x")]),
    (b"data\ndata\n\n\n", [SseEvent("\n")]),
    (b"data: a\n\n\xef\xbb\xbfdata: y\n\n", [SseEvent("a")]),
    (
        b"id: \xe6\x97\xa5\xff\ndata: a\n\nid: " + b"x" * 4097 + b"\ndata: b\n\n",
        [SseEvent("a", id="\u65e5\udcff"), SseEvent("b", id="\u65e5\udcff")],
    ),
    (
        format_event(b'{"a":1}\n', id="3-1")
        + format_event("one\r\ntwo\rthree\nfour", event="tick", retry=50),
        [SseEvent('{"a":1}', id="3-1"), SseEvent("one\ntwo\nthree\nfour", "tick", "3-1")],
    ),
]


@for_each(("stream", "events"), STREAMS)
def test_every_cut_yields_the_same_events(stream: bytes, events: list[SseEvent]) -> None:
    for found in every_cut(stream):
        assert found == events


def test_the_limit_is_that_of_the_data_and_exact() -> None:
    for start in (
        b"data: ",
        b"data:",
        b"event: tick\nid: 5\ndata: ",
        b": comment\ncolour: red\ndata: ",
    ):
        [event] = read(start + b"x" * 100 + b"\n\n", max_bytes=100)
        assert event.data == "x" * 100
        with pytest.raises(
            ProtocolViolation, match="longer than 100 bytes, the receiver.s Limits.message_bytes"
        ):
            read(start + b"x" * 101 + b"\n\n", max_bytes=100)
    assert read(b"data:x\n" * 50 + b"data\n\n", max_bytes=100) == [
        SseEvent("\n".join("x" * 50) + "\n")
    ]
    assert len(read((b"data: " + b"x" * 90 + b"\n\n") * 3, max_bytes=100)) == 3
    for field in (b"id: ", b"event: ", b"colour: ", b"data: x\nid: ", b""):
        with pytest.raises(ProtocolViolation, match="longer than 100 bytes"):
            read(field, *[b"x" * 10] * 11, max_bytes=100)
    with pytest.raises(ProtocolViolation, match="Limits.message_bytes"):
        read(*[b"data: x\n"] * 51, max_bytes=100)
    reader, found = EventReader(10), []
    with pytest.raises(ProtocolViolation):
        for event in reader.feed(b"data: a\n\ndata: " + b"x" * 20):
            found.append(event)
    assert found == [SseEvent("a")]


def test_comments_of_any_length_cost_nothing() -> None:
    reader = EventReader(100)
    for _ in range(1000):
        assert list(reader.feed(b": " + b"x" * 500)) == []
    assert list(reader.feed(b"\ndata: y\n\n")) == [SseEvent("y")]


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that were in use at the same time, at most, beyond those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_short_lines_cost_no_more_than_their_bytes() -> None:
    reader, piece = EventReader(), b"data: ab\n" * 100
    assert peak_of(lambda: [list(reader.feed(piece)) for _ in range(50)]) < 4 * 15_000


def test_the_exception_does_not_keep_the_event() -> None:
    kept: list[Any] = []

    def refuse() -> None:
        for start in (b"", b"data: "):
            reader = EventReader(1 << 20)
            try:
                for _ in range(300):
                    list(reader.feed(start + b"x" * 4096 + (b"\n" if start else b"")))
            except ProtocolViolation as error:
                kept.append((error, reader))
        kept.append(tracemalloc.get_traced_memory()[0])

    peak_of(refuse)
    assert len(kept) == 3 and kept[2] < 100_000


def seconds_for(size: int) -> float:
    began = time.thread_time()
    assert len(read(b"data: ", *[b"x" * 128] * (size // 128), b"\n\n")[0].data) == size
    return time.thread_time() - began


def test_a_long_event_takes_linear_time() -> None:
    small = min(seconds_for(1 << 18) for _ in range(3))
    assert min(seconds_for(1 << 22) for _ in range(3)) < 16 * small * 4 + 0.5


def test_types_and_ids_are_written_on_one_line() -> None:
    assert format_event(b"", id="1", retry=500) == b"id: 1\nretry: 500\ndata: \n\n"
    for word in ("a\nb", "a\rb", "a\0b"):
        for field in ("id", "event"):
            with pytest.raises(ValueError, match=f"^the {field} of an event must be one line"):
                format_event(b"x", **{field: word})  # type: ignore[arg-type]


def test_written_events_are_read_by_another_reader_too() -> None:
    written = (
        b"retry: 100\n\n"
        + KEEP_ALIVE
        + format_event(b"", id="a/0")
        + format_event("one\ntwo", event="tick")
    )
    whole = [SseEvent("", id="a/0"), SseEvent("one\ntwo", "tick", "a/0")]
    assert read_events(written) == whole
    assert read_events(written + b"data: thr") == whole and read_events(b"data: thr") == []
    with pytest.raises(AssertionError, match="sseclient-py reads"):
        read_events(b"\xef\xbb\xbf" + format_event("only we skip a mark at the beginning"))
