"""Content blocks: what tools and prompts are made of, the same classes on both sides."""

from __future__ import annotations

import os
from typing import Any, Callable, ClassVar, Literal, Optional, TypeVar, Union

from .base import Wire
from .common import ANNOTATIONS, Annotations
from .kinds import DATA, OBJECT, TEXT, Json, as_bytes, json_type, many, needed, one
from .media import media_type
from .resource import (
    BlobResourceContents,
    Resource,
    ResourceContents,
    TextResourceContents,
    contents_from_wire,
)

M = TypeVar("M", bound="_Media")


class Text(Wire):
    """A block of text.

    Args:
        text: The text.
        annotations: For whom it is meant and how much it matters.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["text"]] = "text"
    FIELDS = {"text": needed(TEXT), "annotations": ANNOTATIONS, "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, text: str, *, annotations: Optional[Annotations] = None, meta: Optional[Json] = None) -> None:
        self.text = text
        self.annotations = annotations
        self.meta = meta
        self._start()


class _Media(Wire):
    """What a picture and a sound have in common."""

    FIELDS = {"data": needed(DATA), "mime_type": needed(TEXT), "annotations": ANNOTATIONS, "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        data: Union[bytes, bytearray, memoryview],
        mime_type: str,
        *,
        annotations: Optional[Annotations] = None,
        meta: Optional[Json] = None,
    ) -> None:
        if isinstance(data, (str, os.PathLike)):
            name = type(self).__name__
            wrong = f"{name}: data must be bytes, not {type(data).__name__}"
            raise TypeError(f"{wrong}: {name}.from_file(...) reads a file")
        self.data = as_bytes(data)
        self.mime_type = mime_type
        self.annotations = annotations
        self.meta = meta
        self._start()

    @classmethod
    def from_file(cls: type[M], path: Union[str, os.PathLike[str]], mime_type: Optional[str] = None) -> M:
        """The content of a file.

        Args:
            path: Of the file.
            mime_type: None takes what its first bytes say, else what the suffix of its name says.

        Raises:
            ValueError: Neither says what it is, or it is something else than this class is for.
            OSError: The file cannot be read.
        """
        with open(path, "rb") as file:
            data = file.read()
        if mime_type is None:
            wanted, name = cls.__name__.lower(), os.path.basename(os.fspath(path))
            mime_type = media_type(path, data)
            if mime_type is None:
                raise ValueError(f"{name}: neither its bytes nor its suffix are known as {wanted}: say mime_type=")
            if not mime_type.startswith(f"{wanted}/"):
                raise ValueError(f"{name} is {mime_type}, no {wanted}: say mime_type= if it is one")
        return cls(data, mime_type)


class Image(_Media):
    """A picture.

    Args:
        data: The bytes of the file; base64 is only on the wire.
        mime_type: "image/png" and so on.
        annotations: For whom it is meant and how much it matters.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["image"]] = "image"
    __slots__ = ()


class Audio(_Media):
    """A sound. The arguments are those of `Image`."""

    type: ClassVar[Literal["audio"]] = "audio"
    __slots__ = ()


class ResourceLink(Resource):
    """A pointer to a resource that the client may read, listed or not. Arguments as `Resource`."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    __slots__ = ()


class EmbeddedResource(Wire):
    """The content of a resource in the middle of a message.

    Args:
        resource: The content; it should have a MIME type.
        annotations: For whom it is meant and how much it matters.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["resource"]] = "resource"
    FIELDS = {
        "resource": needed(one(contents_from_wire, TextResourceContents, BlobResourceContents)),
        "annotations": ANNOTATIONS,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        resource: ResourceContents,
        *,
        annotations: Optional[Annotations] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.resource = resource
        self.annotations = annotations
        self.meta = meta
        self._start()

    @classmethod
    def from_wire(cls, mapping: Any) -> EmbeddedResource:
        """As `Wire.from_wire`; annotations inside ``resource``, as an example had them, are the block's."""
        made = super().from_wire(mapping)
        inner = made.resource.extra
        if made.annotations is None and isinstance(inner.get("annotations"), dict):
            made.annotations = Annotations.from_wire(inner.pop("annotations"))
        return made

    @property
    def uri(self) -> str:
        """The URI of the content."""
        return self.resource.uri

    @property
    def mime_type(self) -> Optional[str]:
        """The MIME type of the content; None when not known."""
        return self.resource.mime_type

    @property
    def text(self) -> Optional[str]:
        """The content's text; None when it is bytes."""
        return self.resource.text

    @property
    def data(self) -> Optional[bytes]:
        """The content's bytes; None when it is text."""
        return self.resource.data


class UnknownContent(Wire):
    """A block of a kind that this library does not know, kept as it came.

    Args:
        raw: The JSON object, ``type`` included.
    """

    FIELDS = {"raw": needed(OBJECT)}
    __slots__ = tuple(FIELDS)

    def __init__(self, raw: Json) -> None:
        self.raw = raw
        self._start()
        if not isinstance(raw.get("type"), str):
            raise ValueError("UnknownContent: raw must have a type")

    @property
    def type(self) -> str:
        """The kind, as on the wire."""
        return str(self.raw["type"])

    @property
    def meta(self) -> Optional[Json]:
        """The member ``_meta``; None when there is none."""
        meta = self.raw.get("_meta")
        return meta if isinstance(meta, dict) else None

    @property
    def annotations(self) -> Optional[Annotations]:
        """The annotations; None when there are none or they cannot be read."""
        try:
            return Annotations.from_wire(self.raw.get("annotations"))
        except ValueError:
            return None

    @classmethod
    def from_wire(cls, mapping: Any) -> UnknownContent:
        """Keep a decoded JSON object that has a type; `content_from_wire` sees to that."""
        made = cls.__new__(cls)
        made.raw, made.extra = mapping, {}
        return made

    def to_wire(self) -> Json:
        """The JSON object as it came."""
        return dict(self.raw)


Content = Union[Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent]
"""A block of a tool's result or of a prompt's message."""

BLOCKS = (Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent)


def block_type(mapping: Any) -> str:
    """The type of a block that arrived.

    Raises:
        ValueError: It is no object or has no type.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"content block: must be an object, not {json_type(mapping)}")
    kind = mapping.get("type")
    if type(kind) is not str:
        raise ValueError("content block: type is missing or no string")
    return kind


def _link_or_embedded(mapping: Json) -> Content:
    """Some peers send a link as a ``resource`` without content; its name is then its URI."""
    if "resource" in mapping or "uri" not in mapping:
        return EmbeddedResource.from_wire(mapping)
    return ResourceLink.from_wire({"name": mapping["uri"], **mapping})


_READERS: dict[str, Callable[[Any], Content]] = {
    "text": Text.from_wire,
    "image": Image.from_wire,
    "audio": Audio.from_wire,
    "resource_link": ResourceLink.from_wire,
    "resource": _link_or_embedded,
}
_unknown = UnknownContent.from_wire


def content_from_wire(mapping: Any) -> Content:
    """Read one content block. A kind that is not known here is kept as `UnknownContent`.

    Raises:
        ValueError: It has no type, or a known kind lacks a member or has a wrong one.
    """
    return _READERS.get(block_type(mapping), _unknown)(mapping)


CONTENT = needed(many(content_from_wire, *BLOCKS))
"""The member ``content`` of a result."""
