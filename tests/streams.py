"""SseEvent streams that our server has written, as the tests read them: by our reader and by
sseclient-py, which agree.

sseclient-py knows nothing of us: what only our own reader understands would be a fault of our
server.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Tuple

import pytest
from sseclient import SSEClient

from minimcp.http.server import SocketWriter
from minimcp.http.sse import MEDIA_TYPE, EventReader, SseEvent


def read_events(data: bytes) -> List[SseEvent]:
    """The events of a stream that are complete."""
    ours = list(EventReader().feed(data))
    theirs = _read_by_sseclient(data)
    assert theirs == ours, f"sseclient-py reads {theirs}, we read {ours}"
    return ours


def _read_by_sseclient(data: bytes) -> List[SseEvent]:
    """Read the events with the other reader, as our objects.

    It also returns the text after the last empty line, which this function therefore cuts off. An
    `id` of its events is their own, or None; our id is the last one received. A block without data
    is not an event for either reader.
    """
    whole, end, _ = data.rpartition(b"\n\n")
    found, last_id = [], ""
    for event in SSEClient([whole + end]).events():
        last_id = last_id if event.id is None else event.id
        found.append(SseEvent(event.data, event.event, last_id))
    return found


@pytest.fixture
def every_stream_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Dict[SocketWriter, List[bytes]]]:
    """Read with both readers everything that the bundled server writes to its sockets during the
    test.

    Yields the streams, in pieces.
    """
    written: Dict[SocketWriter, List[bytes]] = {}
    begin, write = SocketWriter.begin, SocketWriter.write

    def keep_begin(writer: SocketWriter, status: int, headers: List[Tuple[str, str]]) -> None:
        begin(writer, status, headers)
        if ("Content-Type", MEDIA_TYPE) in headers:
            written[writer] = []

    def keep_write(writer: SocketWriter, data: bytes) -> None:
        if writer in written:  # before the client can have read it
            written[writer].append(data)
        write(writer, data)

    monkeypatch.setattr(SocketWriter, "begin", keep_begin)
    monkeypatch.setattr(SocketWriter, "write", keep_write)
    yield written
    for pieces in list(written.values()):
        read_events(b"".join(pieces))
