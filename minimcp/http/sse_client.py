"""HTTP+SSE, the client's end: what came before Streamable HTTP, and many servers still speak.

One stream, which the client asks for first, brings everything that the server says; its first event names the URL that
messages are posted to. The end of the stream is the end of the connection.
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import threading
from typing import Any, Optional
from urllib.parse import urljoin, urlsplit

from ..engine.timer import Deadline
from ..engine.transport import Frame
from ..errors import ConnectionLost, McpError, ProtocolViolation, one_line
from ..protocol.messages import Id
from ..protocol.sse import MEDIA_TYPE, Event, EventReader
from ..protocol.versions import Revision
from .fetch import Answer
from .headers import JSON_TYPE, VERSION_HEADER, media_type
from .posting import ERROR_BYTES, HttpServer, Message, PostingPipe
from .sending import Sending

ENDPOINT_SECONDS = 10.0
"""What the server gets to name the URL for messages."""


class SsePipe(PostingPipe):
    """A connection over HTTP+SSE; arguments and errors as `PostingPipe`."""

    def __init__(self, server: HttpServer, max_message_bytes: Optional[int]) -> None:
        super().__init__(server, max_message_bytes)
        self._stream = Sending()
        self._streams.add(self._stream)
        self._named = threading.Event()
        """The endpoint is known, or will never be."""
        self._endpoint = ""
        self._revision: Optional[Revision] = None

    def agreed(self, revision: Revision) -> None:
        """As `Pipe.agreed`."""
        self._revision = revision

    def receive(self) -> list[Frame]:
        """Read the stream until it ends, and hand over what it brings (the reader's thread)."""
        self._reads = True
        reason = "the server ended the event stream"
        try:
            if not self._closing.is_set():
                self._read_stream()
        except McpError as error:
            reason = str(error)
        finally:
            if not self._closing.is_set():
                self.loss = ConnectionLost(f"{self.name}: {reason}" if self.name not in reason else reason)
                self._closing.set()
            self._named.set()
            self._said.set()
        return []

    def _read_stream(self) -> None:
        answer = self._fetcher.send(self._stream, "GET", {"Accept": MEDIA_TYPE})
        try:
            kind = media_type(answer.headers.get("Content-Type"))[0]
            if answer.status != 200 or kind != MEDIA_TYPE:
                what = f"HTTP {answer.status} with {one_line(kind) or 'no content type'}: {one_line(answer.start(200))}"
                raise ProtocolViolation(f"{self.name}: no event stream but {what}")
            reader = EventReader(self._limit)
            while True:
                data = answer.read()
                if not data:
                    return
                frames = [event.data.encode() for event in reader.feed(data) if self._is_message(event)]
                if frames:
                    self._take(frames)
        finally:
            answer.close()

    def _is_message(self, event: Event) -> bool:
        if event.event == "endpoint" and not self._endpoint:
            self._endpoint = self._same_origin(event.data)
            self._named.set()
        return event.event == "message" and bool(event.data)

    def _same_origin(self, named: str) -> str:
        """The URL for messages: a server must not send them, and what proves who we are, elsewhere."""
        url = urljoin(self._url, named.strip())
        try:
            there, here = urlsplit(url), urlsplit(self._url)
            same = (there.scheme, there.hostname, _port(there)) == (here.scheme, here.hostname, _port(here))
        except ValueError:
            same = False
        if not same or any(char <= " " for char in url):
            where = one_line(named)
            raise ProtocolViolation(f"{self.name}: messages are posted to the same origin, not to {where}", named)
        return url

    def post(self, message: Any, line: bytes, sending: Sending) -> Answer:
        """As `PostingPipe.post`; waits for the endpoint first."""
        self._named.wait(Deadline(ENDPOINT_SECONDS).wait())
        if not self._endpoint:
            raise self.lost(f"no endpoint for messages was named within {ENDPOINT_SECONDS:g} s")
        headers = {"Content-Type": JSON_TYPE, "Accept": f"{JSON_TYPE}, {MEDIA_TYPE}"}
        if self._revision is not None:
            headers[VERSION_HEADER] = self._revision.name
        return self._fetcher.send(sending, "POST", headers, line, self._endpoint)

    def answered(self, id: Id, message: Message, answer: Answer, sending: Sending) -> None:
        """As `PostingPipe.answered`: the answer itself comes in the stream."""
        if answer.status >= 300:
            self._take([Ended(id, self.ending(answer))])
        else:
            answer.start(ERROR_BYTES)


def _port(parts: Any) -> Optional[int]:
    port: Optional[int] = parts.port
    return port if port is not None else {"http": 80, "https": 443}.get(parts.scheme)
