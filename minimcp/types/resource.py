"""Resources: how they are listed, and what reading one gives."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Union

from .base import Wire, check_word, listed, listed_or_none
from .common import ANNOTATIONS, ICONS, Annotations, Icon
from .kinds import DATA, OBJECT, TEXT, WHOLE, Json, as_bytes, json_type, many, needed


class Resource(Wire):
    """A resource as ``resources/list`` shows it.

    Args:
        uri: Its URI; sent byte for byte as it stands.
        name: For programs.
        title: For people; None means the name.
        description: What it is, for a model.
        mime_type: Of its content; None when not known.
        size: Of the content in bytes; None when not known.
        annotations: For whom it is meant and how much it matters.
        icons: Pictures of it.
        meta: The member ``_meta``.
    """

    FIELDS = {
        "uri": needed(TEXT),
        "name": needed(TEXT),
        "title": TEXT,
        "description": TEXT,
        "mime_type": TEXT,
        "size": WHOLE,
        "annotations": ANNOTATIONS,
        "icons": ICONS,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        uri: str,
        name: str,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        mime_type: Optional[str] = None,
        size: Optional[int] = None,
        annotations: Optional[Annotations] = None,
        icons: Optional[Iterable[Icon]] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.uri = uri
        self.name = name
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.size = size
        self.annotations = annotations
        self.icons = listed_or_none(icons)
        self.meta = meta
        self._start()

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        return self.title or self.name


class ResourceTemplate(Wire):
    """A family of resources as ``resources/templates/list`` shows it.

    Args:
        uri_template: Their URI with variables in braces (RFC 6570).
        name: For programs.
        mime_type: Only when it is the same for all of them.

    The others are those of `Resource`.
    """

    FIELDS = {
        "uri_template": needed(TEXT),
        "name": needed(TEXT),
        "title": TEXT,
        "description": TEXT,
        "mime_type": TEXT,
        "annotations": ANNOTATIONS,
        "icons": ICONS,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        uri_template: str,
        name: str,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        mime_type: Optional[str] = None,
        annotations: Optional[Annotations] = None,
        icons: Optional[Iterable[Icon]] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.uri_template = uri_template
        self.name = name
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.annotations = annotations
        self.icons = listed_or_none(icons)
        self.meta = meta
        self._start()

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        return self.title or self.name


class TextResourceContents(Wire):
    """Content of a resource that is text.

    Args:
        uri: Of the resource, or of a part of it.
        text: The text.
        mime_type: None when not known.
        meta: The member ``_meta``.
    """

    FIELDS = {"uri": needed(TEXT), "mime_type": TEXT, "text": needed(TEXT), "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, uri: str, text: str, mime_type: Optional[str] = None, *, meta: Optional[Json] = None) -> None:
        self.uri = uri
        self.mime_type = mime_type
        self.text = text
        self.meta = meta
        self._start()

    @property
    def data(self) -> None:
        """None: this is text."""
        return None


class BlobResourceContents(Wire):
    """Content of a resource that is bytes.

    Args:
        uri: Of the resource, or of a part of it.
        data: The bytes; base64 is only on the wire.
        mime_type: None when not known.
        meta: The member ``_meta``.
    """

    FIELDS = {"uri": needed(TEXT), "mime_type": TEXT, "blob": needed(DATA), "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        uri: str,
        data: Union[bytes, bytearray, memoryview],
        mime_type: Optional[str] = None,
        *,
        meta: Optional[Json] = None,
    ) -> None:
        self.uri = uri
        self.mime_type = mime_type
        self.blob = as_bytes(data)
        self.meta = meta
        self._start()

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self.blob

    @property
    def text(self) -> None:
        """None: these are bytes."""
        return None


ResourceContents = Union[TextResourceContents, BlobResourceContents]


def contents_from_wire(mapping: Any) -> ResourceContents:
    """Read one item of content; its members decide whether it is text or bytes.

    Raises:
        ValueError: It is neither, or a member is missing or of a wrong type.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"resource contents: must be an object, not {json_type(mapping)}")
    if mapping.get("text") is not None:
        return TextResourceContents.from_wire(mapping)
    if mapping.get("blob") is not None:
        return BlobResourceContents.from_wire(mapping)
    raise ValueError("resource contents: neither text nor blob is there")


class ReadResourceResult(Wire):
    """What reading a resource gives.

    Args:
        contents: One item, or several when the URI stands for several things.
        ttl_ms: Milliseconds for which it stays true; None leaves that to the resource.
        cache_scope: Who may keep it, "private" (one user) or "public"; None leaves that to the resource.
        meta: The member ``_meta``.

    Raises:
        ValueError: Another scope, or less than no time.
    """

    FIELDS = {
        "contents": needed(many(contents_from_wire, TextResourceContents, BlobResourceContents)),
        "ttl_ms": WHOLE,
        "cache_scope": TEXT,
        "meta": OBJECT,
    }
    DROPPED = ("resultType",)
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        contents: Iterable[ResourceContents],
        *,
        ttl_ms: Optional[int] = None,
        cache_scope: Optional[str] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.contents = listed(contents)
        self.ttl_ms = ttl_ms
        self.cache_scope = cache_scope
        self.meta = meta
        self._start()
        check_word("ReadResourceResult", "cache_scope", cache_scope, ("private", "public"))
        if ttl_ms is not None and ttl_ms < 0:
            raise ValueError(f"ReadResourceResult: ttl_ms must not be negative, as {ttl_ms} is")

    @property
    def text(self) -> Optional[str]:
        """The text of the first item; None when it is bytes or there is none."""
        return self.contents[0].text if self.contents else None

    @property
    def data(self) -> Optional[bytes]:
        """The bytes of the first item; None when it is text or there is none."""
        return self.contents[0].data if self.contents else None
