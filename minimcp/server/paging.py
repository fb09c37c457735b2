"""Lists in pages, serialized once and kept until the list changes.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Optional, Sequence

from ..engine.requests import IncomingRequest
from ..errors import InvalidParams
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from .facts import Facts

Describe = Callable[[Revision], Sequence[Mapping[str, Json]]]


class Pages:
    """The answers to one list method, as JSON text.

    Args:
        member: The name of the list in the result: "tools".
        page_size: Items on a page; None puts all on one.
        describe: The items as a revision shows them, always in the same order.

    Thread-safe: what is kept is replaced as a whole when the list changes.
    """

    def __init__(self, member: str, page_size: Optional[int], describe: Describe) -> None:
        self._member, self._page_size, self._describe = member, page_size, describe
        self._kept: dict[tuple[str, int], str] = {}

    def forget(self) -> None:
        """The list has changed."""
        self._kept = {}

    def serve(self, facts: Facts, exchange: IncomingRequest) -> str:
        """Serve the list method. Arguments: the facts of the server, and the request. Errors as `page`."""
        revision = exchange.peer.revision
        return self.page(revision, exchange.request.params, facts.list_closing(revision))

    def page(self, revision: Revision, params: Mapping[str, Json], closing: str) -> str:
        """One page as the text of a result.

        Args:
            revision: Of the request.
            params: Of the request; ``cursor`` says which page.
            closing: What the revision wants at the end of the result, as JSON text (see `Facts.closing`).

        Raises:
            InvalidParams: The cursor is none of ours.
        """
        start = self._start(params.get("cursor"))
        kept = self._kept
        if (revision.name, 0) not in kept:
            kept.update({(revision.name, each): text for each, text in self._make(revision)})
        text = kept.get((revision.name, start))
        if text is None:
            raise InvalidParams("the cursor is none of this server's")
        return f"{text}{closing}}}"

    def _make(self, revision: Revision) -> Iterator[tuple[int, str]]:
        """All pages at once: the items are described once, however many pages they fill."""
        items = self._describe(revision)
        size = self._page_size or len(items) or 1
        for start in range(0, len(items) or 1, size):
            end = start + size
            text = f'{{"{self._member}":{to_json(list(items[start:end]))}'
            yield start, text if end >= len(items) else f'{text},"nextCursor":{to_json(self._cursor(end))}'

    def _cursor(self, start: int) -> str:
        import base64

        return base64.urlsafe_b64encode(f"{self._member}:{start}".encode()).decode()

    def _start(self, cursor: Json) -> int:
        """Where the page of a cursor starts: the same on every connection and in every process."""
        if cursor is None:
            return 0
        import base64

        try:
            text = base64.b64decode(str(cursor), altchars=b"-_", validate=True).decode("ascii")
        except ValueError:
            raise InvalidParams("the cursor is none of this server's") from None
        member, _, start = text.partition(":")
        ours = isinstance(cursor, str) and member == self._member and start.isdigit() and start != "0"
        if not ours or self._cursor(int(start[:9])) != cursor:
            raise InvalidParams("the cursor is none of this server's")
        return int(start)
