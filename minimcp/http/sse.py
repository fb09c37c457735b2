"""Event streams as bytes: a reader with bounded memory and linear time, and a writer.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Union

from ..errors import ProtocolViolation

MEDIA_TYPE = "text/event-stream"

# A comment. Readers skip it, and proxies keep the stream open.
KEEP_ALIVE = b": keep-alive\n\n"

# Maximum number of bytes of an event's id, because clients send it in a header. A longer id is
# ignored.
MAX_ID_BYTES = 4096

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class SseEvent(NamedTuple):
    """One event of a stream.

    Args:
        data: The data lines, joined; empty if the event has only an id.
        event: The type.
        id: The last id in the stream, of this event or an earlier one; empty without one. Bytes
            that are not UTF-8 are decoded with ``surrogateescape``, so that the client can send
            back the same bytes.
    """

    data: str
    event: str = "message"
    id: str = ""


class EventReader:
    """Parses one stream into events, from chunks of any size. For one thread at a time.

    An incomplete event at the end of the stream is dropped.

    Args:
        max_bytes: Maximum number of bytes of an event's data; None means no limit. Comments of any
            length are skipped.

    Attributes:
        last_id: The last id in the stream, also of an event without data.
        retry: Milliseconds to wait before connecting again; None if the server has not said.
        messages: Number of events that had data.
    """

    def __init__(self, max_bytes: Optional[int] = 64 * 1024 * 1024) -> None:
        self.last_id = ""
        self.retry: Optional[int] = None
        self.messages = 0
        self._max_bytes = max_bytes
        self.begin()

    def begin(self) -> None:
        """Prepare for a new connection, which resumes the stream. Drop an incomplete event."""
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: Optional[bytearray] = None
        self._event = ""
        self._id = self.last_id

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Yield the events that these bytes complete. Iterate to the end before the next `feed`.

        Raises:
            ProtocolViolation: An event is longer than the limit. The rest of the stream cannot be
                read.
        """
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            if (self._line or text)[:1] == b":":
                self._line = bytearray(b":")  # the first byte of a comment is enough
            else:
                self._line += text
                self._check_size()
            if len(text) < len(piece):
                line = bytes(self._line)
                self._line = bytearray()
                event = self._take(line)
                if event is not None:
                    yield event

    def _take(self, line: bytes) -> Optional[SseEvent]:
        """Parse a line. Return the event that it completes, or None."""
        if self._at_start:
            self._at_start = False
            line = line[len(_BOM) :] if line.startswith(_BOM) else line
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            if self._data is None:
                self._data = bytearray(value)
            else:  # appended in place, so that many short lines take linear time
                self._data += b"\n" + value
            self._check_size()
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value and len(value) <= MAX_ID_BYTES:
            self._id = value.decode("utf-8", "surrogateescape")
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self.retry = int(value)
        return None

    def _check_size(self) -> None:
        if self._max_bytes is None:
            return
        data = 0 if self._data is None else len(self._data)
        if max(data, data + len(self._line) - len(_DATA)) > self._max_bytes:
            # A caller may keep the exception, whose traceback refers to this object.
            self._line = bytearray()
            self._data = None
            raise ProtocolViolation(
                f"an event is longer than {self._max_bytes} bytes, the receiver's "
                "Limits.message_bytes"
            )

    def _dispatch(self) -> Optional[SseEvent]:
        self.last_id = self._id
        data = self._data
        event = self._event
        self._data = None
        self._event = ""
        self.messages += bool(data)
        if data is None:
            return None
        return SseEvent(data.decode("utf-8", "replace"), event or "message", self.last_id)


def format_event(
    data: Union[bytes, str],
    *,
    event: Optional[str] = None,
    id: Optional[str] = None,
    retry: Optional[int] = None,
) -> bytes:
    """Encode one event.

    Args:
        data: The data, in UTF-8. Each line becomes a data line. A line feed at the end is dropped.
        event: The type; omitted if None, which means "message".
        id: The id, after which a client can resume the stream; omitted if None.
        retry: Milliseconds after which a client that has lost the stream should connect again;
            omitted if None.

    Raises:
        ValueError: The type or the id contains a line end or NUL.
    """
    content = data.encode() if isinstance(data, str) else data
    head = "" if event is None else _field("event", event)
    if id is not None:
        head += _field("id", id)
    if retry is not None:
        head += f"retry: {retry}\n"
    if content.endswith(b"\n"):
        content = content[:-1]
    if b"\n" in content or b"\r" in content:
        content = b"\ndata: ".join(
            content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        )
    return b"%bdata: %b\n\n" % (head.encode(), content)


def _field(name: str, value: str) -> str:
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError(f"the {name} of an event must be one line without NUL, not {value!r:.80}")
    return f"{name}: {value}\n"
