"""Event streams as bytes: a bounded reader in linear time, and the writer.

Not here: what is in an event, and when to connect again. https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, NoReturn, Optional, Union

from ..errors import ProtocolViolation

MEDIA_TYPE = "text/event-stream"

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: readers skip it, and proxies see that the stream lives."""

_LINE_ENDS = b"\r\n"
_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class Event(NamedTuple):
    """One event of a stream.

    ``data`` are its data lines, joined; empty in an event that only says an id. ``event`` is its type, and ``id`` the
    id last seen in the stream, with this event or before; empty when there was none.
    """

    data: str
    event: str = "message"
    id: str = ""


class EventReader:
    """Cuts one stream into events, however it arrives. For one thread at a time.

    Args:
        max_bytes: The longest data of an event, in bytes; None means no limit. Comments of any length are skipped.

    ``last_id`` is the id last seen, also in a block without data; ``retry`` the milliseconds that the server asks to
    wait before connecting again, None as long as it has not. An event that the stream ends in is never given out.
    """

    __slots__ = (
        "last_id", "retry", "_max_bytes", "_line", "_after_cr", "_begun", "_data", "_event", "_id", "_most", "_room",
    )  # fmt: skip

    def __init__(self, max_bytes: Optional[int] = 64 * 1024 * 1024) -> None:
        self.last_id, self.retry = "", None  # type: str, Optional[int]
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._after_cr = self._begun = False
        self._data: Union[None, bytes, bytearray] = None
        self._event, self._id = "", ""
        self._most = self._room = None if max_bytes is None else max_bytes + len(_DATA)
        """How long a line may become, at the begin of an event and now; None for any length."""

    def feed(self, chunk: bytes) -> Iterator[Event]:
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
            text = piece.rstrip(_LINE_ENDS)
            self._keep(text)
            if len(text) < len(piece):
                line, self._line = bytes(self._line), bytearray()
                event = self._take(line)
                if event is not None:
                    yield event

    def _keep(self, text: bytes) -> None:
        """Add to the line that is being read; of a comment its first byte is enough."""
        if (self._line or text)[:1] == b":":
            self._line = self._line or bytearray(b":")
            return
        if self._room is not None and len(self._line) + len(text) > self._room:
            self._refuse()
        self._line += text

    def _refuse(self) -> NoReturn:
        self._line, self._data = bytearray(), None  # whoever keeps the exception need not keep these
        raise ProtocolViolation(
            f"an event is longer than {self._max_bytes} bytes, the max_message_bytes of its receiver"
        )

    def _take(self, line: bytes) -> Optional[Event]:
        if not self._begun:
            self._begun = True
            line = line[len(_BOM):] if line.startswith(_BOM) else line
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        name, _, value = line.partition(b":")
        self._field(name, value[1:] if value.startswith(b" ") else value)
        return None

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            self.retry = int(value)

    def _add(self, value: bytes) -> None:
        """One more line of data; many short ones must cost no more than their bytes."""
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if self._most is not None:
            self._room = self._most - len(self._data)
            if self._room < len(_DATA):
                self._refuse()

    def _dispatch(self) -> Optional[Event]:
        self.last_id = self._id
        data, event = self._data, self._event
        self._data, self._event, self._room = None, "", self._most
        if data is None:
            return None
        return Event(data.decode("utf-8", "replace"), event or "message", self.last_id)


def format_event(
    data: Union[bytes, str], *, event: Optional[str] = None, id: Optional[str] = None, retry: Optional[int] = None
) -> bytes:
    """One event as bytes.

    Args:
        data: UTF-8; each of its lines becomes a data line. A line feed at the end is left out.
        event: Its type; None writes none, which is "message".
        id: What a client may resume after; None writes none.
        retry: Milliseconds after which a client that has lost the stream shall connect again; None says nothing.

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
        content = b"\ndata: ".join(content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"%bdata: %b\n\n" % (head.encode(), content)


def _field(name: str, value: str) -> str:
    if "\n" in value or "\r" in value or "\0" in value:
        raise ValueError(f"the {name} of an event is one line without NUL, not {value!r:.80}")
    return f"{name}: {value}\n"
