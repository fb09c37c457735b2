"""The reader and the writer of event streams."""

from __future__ import annotations

import time
import tracemalloc
from typing import Callable

import pytest

from minimcp.errors import ProtocolViolation
from minimcp.protocol.sse import Event, EventReader, format_event


def read(*chunks: bytes, max_bytes: int | None = None) -> list[Event]:
    reader = EventReader(max_bytes)
    return [event for chunk in chunks for event in reader.feed(chunk)]


def every_cut(stream: bytes) -> list[list[Event]]:
    """What is read when the stream arrives in two pieces, cut at each place, and byte by byte."""
    cuts = [read(stream[:at], stream[at:]) for at in range(len(stream) + 1)]
    return [*cuts, read(*(stream[at : at + 1] for at in range(len(stream))))]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_and_every_cut_gives_the_same_events(end: bytes) -> None:
    stream = end.join([b"data: one", b"", b"event: tick", b"id: 7", b"data:two", b"data:  three", b"", b""])
    for found in every_cut(stream):
        assert found == [Event("one"), Event("two\n three", "tick", "7")]


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line() -> None:
    for found in every_cut(b"\xef\xbb\xbfdata: x\n\ndata: y\n\n"):
        assert found == [Event("x"), Event("y")]


def test_mixed_line_ends_end_events() -> None:
    assert read(b"data: a\n\r\ndata: b\r\r\ndata: c\r\n\n") == [Event("a"), Event("b"), Event("c")]


def test_what_the_stream_ends_in_is_no_event() -> None:
    assert read(b"data: a\n\ndata: {\"half\":\n") == [Event("a")]


def test_bytes_that_are_no_text_do_not_end_the_stream() -> None:
    assert read(b"data: a\xffb\n\ndata: c\n\n") == [Event("a\ufffdb"), Event("c")]


def test_the_id_lasts_and_may_stand_alone() -> None:
    reader = EventReader()
    assert list(reader.feed(b"id: 1\n\n")) == [] and reader.last_id == "1"
    assert list(reader.feed(b"data: a\n\nid: 2\ndata\n\nid\ndata: b\n\n")) == [
        Event("a", id="1"), Event("", id="2"), Event("b", id=""),
    ]


def test_an_id_counts_when_its_block_is_complete_and_never_with_a_nul() -> None:
    reader = EventReader()
    assert list(reader.feed(b"id: 1\n\nid: 2\n")) == []
    assert reader.last_id == "1"
    assert list(reader.feed(b"id: a\0b\ndata: x\n\n")) == [Event("x", id="2")]


@pytest.mark.parametrize(
    ("field", "retry"), [(b"retry: 500", 500), (b"retry: 1x", None), (b"retry: -1", None), (b"retry:", None)]
)
def test_a_wait_is_a_number_of_milliseconds(field: bytes, retry: int | None) -> None:
    reader = EventReader()
    assert list(reader.feed(field + b"\n\n")) == [] and reader.retry == retry


def test_comments_and_unknown_fields_are_skipped() -> None:
    assert read(b": hello\n:\ncolour: red\ndata: x\n: y\n\n") == [Event("x")]


def test_comments_of_any_length_cost_nothing() -> None:
    reader = EventReader(100)
    for _ in range(1000):
        assert list(reader.feed(b": " + b"x" * 500)) == []
    assert list(reader.feed(b"\ndata: y\n\n")) == [Event("y")]


def test_data_of_the_limit_is_read_and_longer_is_not() -> None:
    for start in (b"data: ", b"data:", b"event: tick\nid: 5\ndata: ", b": comment\ncolour: red\ndata: "):
        [event] = read(start + b"x" * 100 + b"\n\n", max_bytes=100)
        assert event.data == "x" * 100
        with pytest.raises(ProtocolViolation, match="longer than 100 bytes, the max_message_bytes"):
            read(start + b"x" * 101 + b"\n\n", max_bytes=100)
    assert read(b"data:x\n" * 50 + b"data\n\n", max_bytes=100) == [Event("\n".join("x" * 50) + "\n")]
    with pytest.raises(ProtocolViolation, match="max_message_bytes"):
        read(*[b"data: x\n"] * 51, max_bytes=100)


@pytest.mark.parametrize("field", [b"id: ", b"event: ", b"colour: ", b"data: x\nid: ", b""])
def test_other_fields_are_no_longer_than_the_data_may_be(field: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="longer than 100 bytes"):
        read(field, *[b"x" * 10] * 11, max_bytes=100)


def test_each_event_has_all_of_the_limit() -> None:
    assert len(read((b"data: " + b"x" * 90 + b"\n\n") * 3, max_bytes=100)) == 3


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

    def feed() -> None:
        for _ in range(200):
            assert list(reader.feed(piece)) == []

    assert peak_of(feed) < 4 * 60_000  # a list of lines would take more than 10 times as much


def test_who_keeps_the_refusal_does_not_keep_the_event() -> None:
    kept = []

    def refuse() -> None:
        for start in (b"", b"data: "):
            reader = EventReader(1 << 20)
            try:
                for _ in range(300):
                    list(reader.feed(start + b"x" * 4096 + (b"\n" if start else b"")))
            except ProtocolViolation as error:
                kept.append(error)
        kept.append(tracemalloc.get_traced_memory()[0])

    peak_of(refuse)
    assert len(kept) == 3 and kept[2] < 100_000


def test_events_before_one_that_is_too_long_are_given_out() -> None:
    found = []
    with pytest.raises(ProtocolViolation):
        for event in EventReader(10).feed(b"data: a\n\ndata: " + b"x" * 20):
            found.append(event)
    assert found == [Event("a")]


def seconds_for(size: int) -> float:
    began = time.thread_time()
    found = read(b"data: ", *[b"x" * 128] * (size // 128), b"\n\n")
    assert len(found[0].data) == size
    return time.thread_time() - began


def test_a_long_event_takes_linear_time() -> None:
    small = min(seconds_for(1 << 18) for _ in range(3))
    assert min(seconds_for(1 << 22) for _ in range(3)) < 16 * small * 4 + 0.5


def test_what_is_written_is_read_again() -> None:
    written = format_event(b'{"a":1}\n', id="3-1") + format_event("one\r\ntwo\rthree\nfour", event="tick", retry=50)
    for found in every_cut(written):
        assert found == [Event('{"a":1}', id="3-1"), Event("one\ntwo\nthree\nfour", "tick", "3-1")]


def test_an_event_without_data_still_has_a_data_line() -> None:
    assert format_event(b"", id="1", retry=500) == b"id: 1\nretry: 500\ndata: \n\n"


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "a\0b"])
def test_types_and_ids_are_one_line(word: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        format_event(b"x", id=word)
    with pytest.raises(ValueError, match="one line"):
        format_event(b"x", event=word)
