"""Event streams as bytes: a bounded reader in linear time, and the writer.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Union

from ..errors import ProtocolViolation

MEDIA_TYPE = "text/event-stream"

# A comment: readers skip it, and proxies see that the stream lives.
KEEP_ALIVE = b": keep-alive\n\n"

# In bytes, of an event: it goes back as a header. A longer one is ignored.
LONGEST_ID = 4096

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class SseEvent(NamedTuple):
    """One event of a stream.

    ``data`` are its data lines, joined; empty in an event that only says an id. ``event`` is its
    type, and ``id`` the id last seen in the stream, with this event or before; empty when there was
    none. Bytes of an id that are no UTF-8 stand in it as surrogates, as ``surrogateescape`` makes
    them, so that it can be sent back as it came.
    """

    data: str
    event: str = "message"
    id: str = ""


class EventReader:
    """Cuts one stream into events, whatever chunks it arrives in.

    Args:
        max_bytes: The longest data of an event, in bytes; None means no limit. Comments of any
            length are skipped.

    ``last_id`` is the id last seen, also in a block without data; ``retry`` the milliseconds that
    the server asks to wait before connecting again, None as long as it has not. ``messages`` is how
    many events had data. An event that the stream ends in is never given out.

    Thread safety: for one thread at a time.
    """

    def __init__(self, max_bytes: Optional[int] = 64 * 1024 * 1024) -> None:
        self.last_id = ""
        self.retry: Optional[int] = None
        self.messages = 0
        self._max_bytes = max_bytes
        self.begin()

    def begin(self) -> None:
        """Another connection goes on with the stream: what was begun is dropped."""
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: Optional[bytearray] = None
        self._event = ""
        self._id = self.last_id

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that are complete with these bytes; take them all before the next `feed`.

        Raises:
            ProtocolViolation: An event is longer than the limit; the stream cannot be read on.
        """
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            if (self._line or text)[:1] == b":":
                self._line = bytearray(b":")  # of a comment its first byte is enough
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
        """Take in a line; the event that it ends, if it does."""
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
            else:  # appended, so that many short lines cost no more than their bytes
                self._data += b"\n" + value
            self._check_size()
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value and len(value) <= LONGEST_ID:
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
                f"an event is longer than {self._max_bytes} bytes, the Limits.message_bytes of its "
                "receiver"
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
    """One event as bytes.

    Args:
        data: UTF-8; each of its lines becomes a data line. A line feed at the end is left out.
        event: Its type; None writes none, which is "message".
        id: What a client may resume after; None writes none.
        retry: Milliseconds after which a client that has lost the stream shall connect again; None
            says nothing.

    Raises:
        ValueError: The type or the id has a line end or a NUL in it.
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
        raise ValueError(f"the {name} of an event is one line without NUL, not {value!r:.80}")
    return f"{name}: {value}\n"
