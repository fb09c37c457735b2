"""Content blocks and resources. Servers and clients use the same classes.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import os
import re
from copy import copy
from io import BytesIO
from typing import Any, Callable, ClassVar, Iterable, Literal, Mapping, Optional, TypeVar, Union

from . import base
from .base import Bytes, Converted, Faults, Items, Json, OptionalItems, Wire, member

M = TypeVar("M", bound="_Media")

Role = Literal["user", "assistant"]
"""The speaker of a message, or an audience."""

base.MEMBER_TYPES[list[Role]] = base.MEMBER_TYPES[list[str]]._replace(
    check=base.one_of(("user", "assistant"))
)


class Annotations(Wire):
    """Hints for a program that shows or uses a block or a resource.

    Args:
        audience: The intended audience: "user", "assistant" or both; None if unknown.
        priority: From 0 (optional) to 1 (required); None if unknown.
        last_modified: The time of the last change as ISO 8601 text; None if unknown.

    Raises:
        ValueError: A role does not exist, or the priority is outside 0 to 1.
    """

    audience: OptionalItems[Role] = member(default=None)
    priority: Optional[float] = member(default=None, check=base.unit)
    last_modified: Optional[str] = None


def _split(sizes: Any) -> Any:
    """Return sizes as a list. An early draft had all of them in one string."""
    return sizes.split() if isinstance(sizes, str) else base.as_list(sizes)


class Icon(Wire):
    """A picture for a user interface. It is untrusted: fetch it only if `is_safe`, and check the
    data.

    Args:
        src: An https or data URL.
        mime_type: The MIME type of the picture; None if unknown.
        sizes: Sizes such as "48x48", or "any"; None means any size. One string with several sizes
            is split.
        theme: The background for which it is made, "light" or "dark"; None means both.

    Raises:
        ValueError: The theme does not exist.
    """

    src: str
    mime_type: Optional[str] = None
    sizes: Converted[Optional[list[str]], Union[str, Iterable[str], None]] = member(
        default=None,
        wire=(list, str),
        read=lambda sizes: base.strings(_split(sizes)),
        convert=_split,
        salvage=None,
    )
    theme: Optional[Literal["light", "dark"]] = member(default=None, strict=False)

    @property
    def is_safe(self) -> bool:
        """Whether the URL may be shown: https, or an image in a data URL."""
        return self.src[:8].lower() == "https://" or self.src[:11].lower() == "data:image/"


class Named(Wire):
    """An object with a name for programs and a title for people."""

    @property
    def display_name(self) -> str:
        """The title, or the name without a title."""
        named: Any = self
        return str(named.title or named.name)


class Implementation(Named):
    """The description of a client or a server. For people and logs: do not base decisions on it.

    Args:
        name: The name for programs.
        version: The version, in any form.
        title: The name for people; None means `name`.
        description: Its purpose.
        website_url: The URL of its website.
        icons: Pictures of it.
    """

    name: str
    version: str
    title: Optional[str] = None
    description: Optional[str] = None
    website_url: Optional[str] = None
    icons: OptionalItems[Icon] = member(default=None)

    @classmethod
    def of_peer(cls, mapping: Any) -> Optional[Implementation]:
        """Return a peer's description as far as it can be read, or None if it has no name."""
        try:
            return cls.from_wire(mapping)
        except ValueError:
            known = mapping if isinstance(mapping, dict) else {}
            name = known.get("name")
            version = known.get("version")
            if not isinstance(name, str):
                return None
            return cls(name, version if isinstance(version, str) else "")


class Resource(Named):
    """A resource in ``resources/list``.

    Args:
        uri: The URI, sent unchanged.
        name: The name for programs.
        title: The name for people; None means `name`.
        description: A description for a model.
        mime_type: The MIME type of the content; None if unknown.
        size: The size of the content in bytes; None if unknown.
        annotations: Hints about audience and importance.
        icons: Pictures of it.
        meta: The member ``_meta``.
    """

    uri: str
    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    mime_type: Optional[str] = None
    size: Optional[int] = None
    annotations: Optional[Annotations] = None
    icons: OptionalItems[Icon] = member(default=None)
    meta: Optional[Json] = None


class ResourceTemplate(Named):
    """A family of resources in ``resources/templates/list``.

    Args:
        uri_template: The URIs, with variables in braces (RFC 6570).
        name: The name for programs.
        mime_type: The MIME type if all resources have the same one.

    The other arguments are those of `Resource`.
    """

    uri_template: str
    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    mime_type: Optional[str] = None
    annotations: Optional[Annotations] = None
    icons: OptionalItems[Icon] = member(default=None)
    meta: Optional[Json] = None

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> ResourceTemplate:
        """Read as `Wire.salvage`. A template in ``uri``, as in an early example, is accepted."""
        uri = mapping.get("uri") if isinstance(mapping, dict) else None
        if isinstance(uri, str) and mapping.get("uriTemplate") is None:
            faults.at("uri").add("is read as uriTemplate")
            others = {name: value for name, value in mapping.items() if name != "uri"}
            mapping = {**others, "uriTemplate": uri}
        return super().salvage(mapping, faults)


class TextResourceContents(Wire):
    """The content of a resource as text. Its ``data`` is None.

    Args:
        uri: The URI of the resource, or of a part of it.
        text: The text.
        mime_type: The MIME type; None if unknown.
        meta: The member ``_meta``.
    """

    uri: str
    text: str
    mime_type: Optional[str] = None
    meta: Optional[Json] = None

    data: ClassVar[None] = None


class BlobResourceContents(Wire):
    """The content of a resource as bytes. Its ``text`` is None.

    Args:
        uri: The URI of the resource, or of a part of it.
        data: The bytes, which are sent as Base64.
        mime_type: The MIME type; None if unknown.
        meta: The member ``_meta``.
    """

    uri: str
    data: Bytes = member(name="blob")
    mime_type: Optional[str] = None
    meta: Optional[Json] = None

    text: ClassVar[None] = None


ResourceContents = Union[TextResourceContents, BlobResourceContents]


def contents_from_wire(mapping: Any) -> ResourceContents:
    """Read one item of content; its members show whether it is text or bytes.

    Raises:
        ValueError: It is neither, or a member is missing or has a wrong type.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"resource contents: must be an object, not {base.json_type(mapping)}")
    if mapping.get("text") is None and mapping.get("blob") is None:
        raise ValueError("resource contents: text or blob is missing")
    return _contents_class(mapping).from_wire(mapping)


def _contents_class(mapping: Json) -> type[ResourceContents]:
    return BlobResourceContents if mapping.get("text") is None else TextResourceContents


def salvage_contents(mapping: Any, faults: Faults) -> ResourceContents:
    """Read one item of content whose optional members may be malformed.

    Exceptions are those of `contents_from_wire`.
    """
    try:
        return contents_from_wire(mapping)
    except ValueError:
        if not isinstance(mapping, dict):
            raise
        return _contents_class(mapping).salvage(mapping, faults)


# The default MIME types of text and of bytes.
PLAIN_TEXT = "text/plain"
ANY_BYTES = "application/octet-stream"


def with_type(item: ResourceContents, mime_type: Optional[str] = None) -> ResourceContents:
    """Return a copy of an item with a MIME type; None means the default for text or bytes."""
    made = copy(item)
    default = ANY_BYTES if isinstance(item, BlobResourceContents) else PLAIN_TEXT
    made.mime_type = mime_type or default
    return made


base.add_member_type(ResourceContents, contents_from_wire, salvage_contents)


def _check_ttl(what: str, milliseconds: int) -> None:
    if milliseconds < 0:
        raise ValueError(f"{what} must not be negative, but is {milliseconds}")


class ReadResourceResult(Wire):
    """The result of reading a resource.

    Args:
        contents: One item, or several if the URI refers to several resources.
        ttl_ms: Milliseconds for which the client may cache it; None means the resource's own value.
        cache_scope: Who may share a cached copy, "private" (one user) or "public"; None means the
            resource's own value.
        meta: The member ``_meta``.

    Raises:
        ValueError: The scope does not exist, or the time is negative.
    """

    _instead = "its text is in .text (JSON: json.loads(result.text)), and its bytes are in .data"

    contents: Items[ResourceContents]
    ttl_ms: Optional[int] = member(default=None, check=_check_ttl)
    cache_scope: Optional[Literal["private", "public"]] = member(default=None, strict=False)
    meta: Optional[Json] = None

    @property
    def text(self) -> Optional[str]:
        """The text of the first item, or None if it is bytes or missing."""
        return self.contents[0].text if self.contents else None

    @property
    def data(self) -> Optional[bytes]:
        """The bytes of the first item, or None if it is text or missing."""
        return self.contents[0].data if self.contents else None


class Text(Wire):
    """A block of text.

    Args:
        text: The text.
        annotations: Hints about audience and importance.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["text"]] = "text"

    text: str
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None


# MIME type, suffixes, and a pattern of the first bytes if they identify the type with certainty.
# (The first bytes of other types may also begin a video.)
#
# The table of the standard library is not used: it differs between machines and has "audio/x-wav",
# which models reject.
_MEDIA = (
    ("image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", ".jpg .jpeg", rb"\xff\xd8\xff"),
    ("image/gif", ".gif", rb"GIF8[79]a"),
    ("image/webp", ".webp", rb"RIFF....WEBP"),
    ("image/tiff", ".tif .tiff", rb"II\*\x00|MM\x00\*"),
    ("image/x-icon", ".ico", rb"\x00\x00\x01\x00"),
    ("image/avif", ".avif", rb"....ftypavi[fs]"),
    ("image/heic", ".heic", rb"....ftyphei[cx]"),
    ("image/svg+xml", ".svg", None),
    ("image/bmp", ".bmp", None),
    ("audio/wav", ".wav", rb"RIFF....WAVE"),
    ("audio/mpeg", ".mp3", rb"ID3|\xff[\xfb\xf3\xf2]"),
    ("audio/flac", ".flac", rb"fLaC"),
    ("audio/mp4", ".m4a", rb"....ftypM4[AB] "),
    ("audio/aac", ".aac", rb"\xff[\xf1\xf9]"),
    ("audio/ogg", ".ogg .oga .opus", None),
    ("audio/webm", ".weba", None),
)


def media_type(name: str, data: bytes) -> Optional[str]:
    """Return the MIME type of a picture or a sound, or None if neither its bytes nor its name show
    it.

    Args:
        name: The name of the file. Only its suffix is used, and the bytes take precedence, because
            files are often misnamed.
        data: The content of the file, or its beginning.
    """
    for mime_type, _, beginning in _MEDIA:
        if beginning is not None and re.match(beginning, data, re.DOTALL):
            return mime_type
    suffix = os.path.splitext(name)[1].lower()
    return next(
        (mime_type for mime_type, suffixes, _ in _MEDIA if suffix in suffixes.split()), None
    )


class _Displayed(Wire):
    """An object that a notebook shows as a picture, a sound or text."""

    def _repr_mimebundle_(self, **_: Any) -> Json:
        from .display import mimebundle

        return mimebundle(self)


class _Media(_Displayed):
    """The base class of `Image` and `Audio`."""

    data: Bytes
    mime_type: str
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None

    def __post_init__(self) -> None:
        given: Any = self.data
        if isinstance(given, (str, os.PathLike)):
            name = type(self).__name__
            raise TypeError(
                f"{name}: data must be bytes, not {type(given).__name__}: "
                f"{name}.from_file(...) reads a file"
            )
        super().__post_init__()

    @classmethod
    def from_file(
        cls: type[M], path: Union[str, os.PathLike[str]], mime_type: Optional[str] = None
    ) -> M:
        """Read a file.

        Args:
            path: The path of the file.
            mime_type: The MIME type; if None, it is detected from the first bytes or the suffix of
                the name.

        Raises:
            ValueError: The type cannot be detected, or it is not a type for this class.
            OSError: The file cannot be read.
        """
        with open(path, "rb") as file:
            data = file.read()
        if mime_type is None:
            wanted = cls.__name__.lower()
            name = os.path.basename(os.fspath(path))
            mime_type = media_type(name, data)
            if mime_type is None:
                raise ValueError(
                    f"{name}: cannot detect the type of {wanted} from its bytes or suffix: pass "
                    "mime_type="
                )
            if not mime_type.startswith(f"{wanted}/"):
                raise ValueError(
                    f"{name} is {mime_type}, not {wanted}: pass mime_type= if that is wrong"
                )
        return cls(data, mime_type)


class Image(_Media):
    """A picture.

    Args:
        data: The bytes of the file, which are sent as Base64.
        mime_type: "image/png" and so on.
        annotations: Hints about audience and importance.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["image"]] = "image"

    @classmethod
    def from_figure(cls, figure: Any, format: str = "png", **options: Any) -> Image:
        """Draw a matplotlib figure.

        Args:
            figure: An object with the method ``savefig(file, format=..., **options)``.
            format: "png", "jpg", "svg" or "webp".
            options: More options of ``savefig``, such as ``dpi=150``.

        Raises:
            TypeError: The object has no such method.
            ValueError: The format is not that of an image.
        """
        if not hasattr(figure, "savefig"):
            name = type(figure).__name__
            raise TypeError(
                f"Image.from_figure takes a figure with the method savefig, not {name}: the figure "
                "of axes is axes.figure"
            )
        file = BytesIO()
        figure.savefig(file, format=format, **options)
        mime_type = media_type(f"figure.{format}", file.getvalue())
        if mime_type is None or not mime_type.startswith("image/"):
            raise ValueError(f"format must be an image format, such as png, not {format!r:.60}")
        return cls(file.getvalue(), mime_type)


class Audio(_Media):
    """A sound. The arguments are those of `Image`."""

    type: ClassVar[Literal["audio"]] = "audio"


class ResourceLink(Resource):
    """A link to a resource that the client may read, listed or not. Arguments are those of
    `Resource`."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"


class EmbeddedResource(_Displayed):
    """The content of a resource inside a message.

    Args:
        resource: The content; it should have a MIME type.
        annotations: Hints about audience and importance.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["resource"]] = "resource"

    resource: ResourceContents
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None

    @classmethod
    def from_wire(cls, mapping: Any) -> EmbeddedResource:
        """Read as `Wire.from_wire`. Annotations in ``resource``, as in an early example, are moved
        to the block."""
        made = super().from_wire(mapping)
        inner = made.resource.extra
        if made.annotations is None and isinstance(inner.get("annotations"), dict):
            made.annotations = Annotations.from_wire(inner.pop("annotations"))
        return made

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> EmbeddedResource:
        """Read as `Wire.salvage`. Annotations in ``resource`` are moved to the block."""
        made = super().salvage(mapping, faults)
        inner = made.resource.extra
        if made.annotations is None and isinstance(inner.get("annotations"), dict):
            part = faults.at("resource").at("annotations")
            made.annotations = Annotations.salvage(inner.pop("annotations"), part)
        return made

    @property
    def uri(self) -> str:
        """The URI of the content."""
        return self.resource.uri

    @property
    def mime_type(self) -> Optional[str]:
        """The MIME type of the content, or None if unknown."""
        return self.resource.mime_type

    @property
    def text(self) -> Optional[str]:
        """The content's text, or None if it is bytes."""
        return self.resource.text

    @property
    def data(self) -> Optional[bytes]:
        """The content's bytes, or None if it is text."""
        return self.resource.data


class UnknownContent(Wire):
    """A block of an unknown type, or a malformed block of a known type, unchanged.

    Args:
        raw: The JSON object, including ``type``. In a malformed result of a peer it may be any JSON
            value.

    Raises:
        ValueError: It has no type.
    """

    raw: Json

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.raw.get("type"), str):
            raise ValueError("UnknownContent: raw must have a type")

    @property
    def type(self) -> str:
        """The type as received; empty if a peer sent a block without one."""
        kind = self.raw.get("type") if isinstance(self.raw, dict) else None
        return kind if isinstance(kind, str) else ""

    @property
    def meta(self) -> Optional[Json]:
        """The member ``_meta``, or None."""
        meta = self.raw.get("_meta") if isinstance(self.raw, dict) else None
        return meta if isinstance(meta, dict) else None

    @property
    def annotations(self) -> Optional[Annotations]:
        """The annotations, or None if there are none or they are malformed."""
        try:
            return Annotations.from_wire(self.raw.get("annotations"))
        except (AttributeError, ValueError):
            return None

    @classmethod
    def from_wire(cls, mapping: Any) -> UnknownContent:
        """Keep a decoded JSON object that has a type. Raise ValueError if it is not such an
        object."""
        if not isinstance(mapping, dict):
            raise ValueError(f"UnknownContent: must be an object, not {base.json_type(mapping)}")
        return cls(mapping)

    @classmethod
    def keep(cls, raw: Any) -> UnknownContent:
        """Keep any value that was received instead of a block."""
        made = object.__new__(cls)
        made.raw = raw
        made.extra = {}
        return made

    def to_wire(self) -> Json:
        """Return the JSON object as received."""
        raw: Any = self.raw
        return dict(raw) if isinstance(raw, dict) else raw


Content = Union[Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent]
"""A block of a tool's result or of a prompt's message."""


def _link_or_embedded(mapping: Json) -> Content:
    """Read a ``resource``. Some peers send a link as one without content; its URI becomes its
    name."""
    if "resource" in mapping or "uri" not in mapping:
        return EmbeddedResource.from_wire(mapping)
    return ResourceLink.from_wire({"name": mapping["uri"], **mapping})


READERS: dict[str, Callable[[Any], Any]] = {
    cls.type: cls.from_wire for cls in (Text, Image, Audio, ResourceLink)
}
READERS["resource"] = _link_or_embedded
"""The readers of content blocks by ``type``."""

_SALVAGING: dict[str, Callable[[Any, Faults], Any]] = {
    cls.type: cls.salvage for cls in (Text, Image, Audio, ResourceLink, EmbeddedResource)
}


def content_from_wire(mapping: Any, readers: Mapping[str, Callable[[Any], Any]] = READERS) -> Any:
    """Read one content block. A block of an unknown type becomes an `UnknownContent`.

    Raises:
        ValueError: It has no type, or a block of a known type lacks a member or has a wrong one.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"content block: must be an object, not {base.json_type(mapping)}")
    if type(mapping.get("type")) is not str:
        raise ValueError("content block: type is missing or not a string")
    return readers.get(mapping["type"], UnknownContent)(mapping)


def check_sendable(block: Any) -> None:
    """Raise ValueError for a block that a peer sent malformed, because it must not be forwarded.

    The message says what is wrong with it.
    """
    if isinstance(block, UnknownContent):
        try:
            content_from_wire(block.raw)
        except ValueError as error:
            raise ValueError(f"a malformed content block cannot be sent: {error}") from None


def salvage_content(mapping: Any, faults: Faults) -> Any:
    """Read one content block as far as possible. A malformed one becomes an `UnknownContent`."""
    try:
        return content_from_wire(mapping)
    except ValueError as error:
        fault = error
    known = len(faults.found)
    salvage = _SALVAGING.get(str(mapping.get("type"))) if isinstance(mapping, dict) else None
    if salvage is not None:
        try:
            return salvage(mapping, faults)
        except ValueError:
            pass
    faults.replace(known, fault)
    return UnknownContent.keep(mapping)


def _salvage_blocks(value: Any, faults: Faults) -> list[Any]:
    if isinstance(value, list):
        return [salvage_content(item, faults.at(index)) for index, item in enumerate(value)]
    faults.add(f"must be a list, not {base.json_type(value)}")
    if isinstance(value, dict):  # a single block, as a message to a model may have it
        return [salvage_content(value, faults)]
    return [UnknownContent.keep(value)]


base.add_member_type(Content, content_from_wire, salvage_content)
base.MEMBER_TYPES[list[Content]] = base.MEMBER_TYPES[list[Content]]._replace(
    salvage=_salvage_blocks
)


class WithContent(_Displayed):
    """An object with one or several content blocks in ``content``."""

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines; empty if there are none."""
        content = self.__dict__["content"]
        blocks = content if isinstance(content, list) else [content]
        return "\n".join([block.text for block in blocks if isinstance(block, Text)])
