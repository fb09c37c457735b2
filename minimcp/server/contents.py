"""From what the function of a resource returned to the contents that go over the wire.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from copy import copy
from typing import Any, Optional

from ..protocol.messages import Json, to_json
from ..schema.annotations import write_any
from ..schema.kinds import Kind
from ..types import BlobResourceContents, ReadResourceResult, ResourceContents, TextResourceContents

CONTENTS = (TextResourceContents, BlobResourceContents)
BYTES = (bytes, bytearray, memoryview)
AS_THEY_ARE = (ReadResourceResult, *CONTENTS, *BYTES)
"""Classes whose instances are no JSON values: what a function returns of them is sent as it is."""

PLAIN_TEXT, ANY_BYTES, JSON_TEXT = "text/plain", "application/octet-stream", "application/json"
"""The MIME types of text, bytes and other values, where nobody says another."""


class ContentsMaker:
    """Makes the results of reading one resource, or those of one template.

    Args:
        mime_type: Of what is text, bytes or a value; None takes the one of its kind.
        kind: What the return annotation says; None when it says nothing.
        promised: Whether the annotation says contents: then an empty list is no contents, and not an empty list.
    """

    def __init__(self, mime_type: Optional[str], kind: Optional[Kind], *, promised: bool) -> None:
        self._mime_type, self._kind, self._promised = mime_type, kind, promised

    def make(self, value: Any, uri: str) -> ReadResourceResult:
        """The result for what the function returned; each item has a MIME type.

        Args:
            value: What it returned.
            uri: What was asked for, which stands on what has no URI of its own.

        Raises:
            TypeError, ValueError: The value is none that can be sent.
        """
        if isinstance(value, ReadResourceResult):
            made = copy(value)
            made.contents = [self._typed(item) for item in value.contents]
            return made
        items = self._items(value)
        return ReadResourceResult([self._from_value(value, uri)] if items is None else map(self._typed, items))

    def _items(self, value: Any) -> Optional[list[ResourceContents]]:
        """What is contents already, alone or in a list; None for any other value."""
        if isinstance(value, CONTENTS):
            return [value]
        if type(value) not in (list, tuple) or not all(isinstance(item, CONTENTS) for item in value):
            return None
        return list(value) if value or self._promised else None

    def _from_value(self, value: Any, uri: str) -> ResourceContents:
        if isinstance(value, BYTES):
            return BlobResourceContents(uri, value, self._mime_type or ANY_BYTES)
        written: Json = value
        if type(value) is not str:
            written = write_any(value) if self._kind is None else self._kind.write(value)
        if type(written) is str:
            return TextResourceContents(uri, written, self._mime_type or PLAIN_TEXT)
        return TextResourceContents(uri, to_json(written), self._mime_type or JSON_TEXT)

    def _typed(self, item: ResourceContents) -> ResourceContents:
        return item if item.mime_type is not None else with_type(item, self._mime_type)


def with_type(item: ResourceContents, mime_type: Optional[str] = None) -> ResourceContents:
    """A copy of the item with a MIME type; None takes the one of its kind."""
    made = copy(item)
    made.mime_type = mime_type or (ANY_BYTES if isinstance(item, BlobResourceContents) else PLAIN_TEXT)
    return made
