"""Content blocks, resources and prompts: what reading, getting and completing give, the same
classes on both sides.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

import os
import re
from copy import copy
from typing import Any, Callable, ClassVar, Iterable, Literal, Mapping, Optional, TypeVar, Union

from . import base
from .base import Bytes, Converted, Faults, Items, Json, OptionalItems, Wire, member

M = TypeVar("M", bound="_Media")

Role = Literal["user", "assistant"]
"""Who speaks, or for whom something is meant."""

base.MEMBER_TYPES[list[Role]] = base.MEMBER_TYPES[list[str]]._replace(
    check=base.one_of(("user", "assistant"))
)


class Annotations(Wire):
    """Hints for a program that shows or uses a block or a resource.

    Args:
        audience: For whom it is meant; None says nothing.
        priority: From 0 (may be left out) to 1 (is needed); None says nothing.
        last_modified: When it changed, as ISO 8601 text; None says nothing.

    Raises:
        ValueError: A role that does not exist, or a priority outside 0 to 1.
    """

    audience: OptionalItems[Role] = member(default=None)
    priority: Optional[float] = member(default=None, check=base.unit)
    last_modified: Optional[str] = None


def _split(sizes: Any) -> Any:
    """Sizes as a list. An early draft had one string with all of them in it."""
    return sizes.split() if isinstance(sizes, str) else base.listed(sizes)


class Icon(Wire):
    """A picture for a user interface. Untrusted: fetch only what `is_safe`, and look at what
    arrives.

    Args:
        src: An https or data URL.
        mime_type: Of the picture; None says nothing.
        sizes: Each as "48x48", or "any"; None means any size. One string with several is split.
        theme: The background it is made for, "light" or "dark"; None means both.

    Raises:
        ValueError: Another theme.
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
        """Whether the URL is one that may be shown at all: https, or data with an image in it."""
        return self.src[:8].lower() == "https://" or self.src[:11].lower() == "data:image/"


class Named(Wire):
    """What has a name for programs and a title for people."""

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        named: Any = self
        return str(named.title or named.name)


class Implementation(Named):
    """Who a client or a server is. For people and logs: nothing may depend on it.

    Args:
        name: For programs.
        version: In any form.
        title: For people; None means the name.
        description: What it is for.
        website_url: Where to read more.
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
        """What a peer said about itself, as far as it can be read; None when there is not even a
        name."""
        try:
            return cls.from_wire(mapping)
        except ValueError:
            name, version = (
                (mapping.get("name"), mapping.get("version"))
                if isinstance(mapping, dict)
                else (None, None)
            )
            return (
                cls(name, version if isinstance(version, str) else "")
                if isinstance(name, str)
                else None
            )


class Resource(Named):
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
    """A family of resources as ``resources/templates/list`` shows it.

    Args:
        uri_template: Their URI with variables in braces (RFC 6570).
        name: For programs.
        mime_type: Only when it is the same for all of them.

    The others are those of `Resource`.
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
        """As `Wire.salvage`; a template in ``uri``, as a seed of the specification has it, is
        read."""
        uri = mapping.get("uri") if isinstance(mapping, dict) else None
        if isinstance(uri, str) and mapping.get("uriTemplate") is None:
            faults.at("uri").add("is read as uriTemplate")
            others = {name: value for name, value in mapping.items() if name != "uri"}
            mapping = {**others, "uriTemplate": uri}
        return super().salvage(mapping, faults)


class TextResourceContents(Wire):
    """Content of a resource that is text. Its ``data`` is None.

    Args:
        uri: Of the resource, or of a part of it.
        text: The text.
        mime_type: None when not known.
        meta: The member ``_meta``.
    """

    uri: str
    text: str
    mime_type: Optional[str] = None
    meta: Optional[Json] = None

    data: ClassVar[None] = None


class BlobResourceContents(Wire):
    """Content of a resource that is bytes. Its ``text`` is None.

    Args:
        uri: Of the resource, or of a part of it.
        data: The bytes; base64 is only on the wire.
        mime_type: None when not known.
        meta: The member ``_meta``.
    """

    uri: str
    data: Bytes = member(name="blob")
    mime_type: Optional[str] = None
    meta: Optional[Json] = None

    text: ClassVar[None] = None


ResourceContents = Union[TextResourceContents, BlobResourceContents]


def contents_from_wire(mapping: Any) -> ResourceContents:
    """Read one item of content; its members decide whether it is text or bytes.

    Raises:
        ValueError: It is neither, or a member is missing or of a wrong type.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"resource contents: must be an object, not {base.json_type(mapping)}")
    if mapping.get("text") is None and mapping.get("blob") is None:
        raise ValueError("resource contents: neither text nor blob is there")
    return _contents_class(mapping).from_wire(mapping)


def _contents_class(mapping: Json) -> type[ResourceContents]:
    return BlobResourceContents if mapping.get("text") is None else TextResourceContents


def salvage_contents(mapping: Any, faults: Faults) -> ResourceContents:
    """Read one item of content whose optional members may be malformed. Errors as
    `contents_from_wire`."""
    try:
        return contents_from_wire(mapping)
    except ValueError:
        if not isinstance(mapping, dict):
            raise
        return _contents_class(mapping).salvage(mapping, faults)


# The MIME types of text and of bytes, where nobody says another.
PLAIN_TEXT, ANY_BYTES = "text/plain", "application/octet-stream"


def with_type(item: ResourceContents, mime_type: Optional[str] = None) -> ResourceContents:
    """A copy of the item with a MIME type; None takes the one of its kind."""
    made = copy(item)
    made.mime_type = mime_type or (
        ANY_BYTES if isinstance(item, BlobResourceContents) else PLAIN_TEXT
    )
    return made


base.add_member_type(ResourceContents, contents_from_wire, salvage_contents)


def _check_ttl(what: str, milliseconds: int) -> None:
    if milliseconds < 0:
        raise ValueError(f"{what} must not be negative, as {milliseconds} is")


class ReadResourceResult(Wire):
    """What reading a resource gives.

    Args:
        contents: One item, or several when the URI stands for several things.
        ttl_ms: Milliseconds for which it stays true; None leaves that to the resource.
        cache_scope: Who may keep it, "private" (one user) or "public"; None leaves that to the
            resource.
        meta: The member ``_meta``.

    Raises:
        ValueError: Another scope, or less than no time.
    """

    _instead = "its text is in .text (JSON: json.loads(result.text)), its bytes are in .data"

    contents: Items[ResourceContents]
    ttl_ms: Optional[int] = member(default=None, check=_check_ttl)
    cache_scope: Optional[Literal["private", "public"]] = member(default=None, strict=False)
    meta: Optional[Json] = None

    @property
    def text(self) -> Optional[str]:
        """The text of the first item; None when it is bytes or there is none."""
        return self.contents[0].text if self.contents else None

    @property
    def data(self) -> Optional[bytes]:
        """The bytes of the first item; None when it is text or there is none."""
        return self.contents[0].data if self.contents else None


class Text(Wire):
    """A block of text.

    Args:
        text: The text.
        annotations: For whom it is meant and how much it matters.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["text"]] = "text"

    text: str
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None


# MIME type, suffixes, and a pattern of the first bytes where they tell it for certain (a film may
# begin with others).
#
# A table of our own: the standard library's differs between machines, and says "audio/x-wav", which
# models refuse.
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
    """The MIME type of a picture or a sound; None when neither its bytes nor its name say it.

    Args:
        name: Of the file. Only its suffix counts, and less than the bytes: files are often named
            wrongly.
        data: Its content, or the beginning of it.
    """
    for mime_type, _, beginning in _MEDIA:
        if beginning is not None and re.match(beginning, data, re.DOTALL):
            return mime_type
    suffix = os.path.splitext(name)[1].lower()
    return next(
        (mime_type for mime_type, suffixes, _ in _MEDIA if suffix in suffixes.split()), None
    )


class _Media(Wire):
    """What a picture and a sound have in common."""

    data: Bytes
    mime_type: str
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None

    def __post_init__(self) -> None:
        given: Any = self.data
        if isinstance(given, (str, os.PathLike)):
            name, found = type(self).__name__, type(given).__name__
            raise TypeError(
                f"{name}: data must be bytes, not {found}: {name}.from_file(...) reads a file"
            )
        super().__post_init__()

    @classmethod
    def from_file(
        cls: type[M], path: Union[str, os.PathLike[str]], mime_type: Optional[str] = None
    ) -> M:
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
            mime_type = media_type(name, data)
            if mime_type is None:
                raise ValueError(
                    f"{name}: neither its bytes nor its suffix are known as {wanted}: say "
                    "mime_type="
                )
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


class Audio(_Media):
    """A sound. The arguments are those of `Image`."""

    type: ClassVar[Literal["audio"]] = "audio"


class ResourceLink(Resource):
    """A pointer to a resource that the client may read, listed or not. Arguments as `Resource`."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"


class EmbeddedResource(Wire):
    """The content of a resource in the middle of a message.

    Args:
        resource: The content; it should have a MIME type.
        annotations: For whom it is meant and how much it matters.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["resource"]] = "resource"

    resource: ResourceContents
    annotations: Optional[Annotations] = None
    meta: Optional[Json] = None

    @classmethod
    def from_wire(cls, mapping: Any) -> EmbeddedResource:
        """As `Wire.from_wire`; annotations inside ``resource``, as an example had them, are the
        block's."""
        made = super().from_wire(mapping)
        inner = made.resource.extra
        if made.annotations is None and isinstance(inner.get("annotations"), dict):
            made.annotations = Annotations.from_wire(inner.pop("annotations"))
        return made

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> EmbeddedResource:
        """As `Wire.salvage`; annotations inside ``resource`` are the block's."""
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
    """A block of a kind that this library does not know, or a malformed block of a known kind, kept
    as it arrived.

    Args:
        raw: The JSON object, ``type`` included. In a result that a peer sent malformed it may be
            any JSON value.

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
        """The kind, as on the wire; empty if a peer sent a block without one."""
        kind = self.raw.get("type") if isinstance(self.raw, dict) else None
        return kind if isinstance(kind, str) else ""

    @property
    def meta(self) -> Optional[Json]:
        """The member ``_meta``; None when there is none."""
        meta = self.raw.get("_meta") if isinstance(self.raw, dict) else None
        return meta if isinstance(meta, dict) else None

    @property
    def annotations(self) -> Optional[Annotations]:
        """The annotations; None when there are none or they cannot be read."""
        try:
            return Annotations.from_wire(self.raw.get("annotations"))
        except (AttributeError, ValueError):
            return None

    @classmethod
    def from_wire(cls, mapping: Any) -> UnknownContent:
        """Keep a decoded JSON object that has a type. Raises ValueError: it is no such object."""
        if not isinstance(mapping, dict):
            raise ValueError(f"UnknownContent: must be an object, not {base.json_type(mapping)}")
        return cls(mapping)

    @classmethod
    def keep(cls, raw: Any) -> UnknownContent:
        """Keep a value that stands in the place of a block, whatever it is."""
        made = object.__new__(cls)
        made.raw = raw
        made.extra = {}
        return made

    def to_wire(self) -> Json:
        """The JSON object as it came."""
        raw: Any = self.raw
        return dict(raw) if isinstance(raw, dict) else raw


Content = Union[Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent]
"""A block of a tool's result or of a prompt's message."""


def _link_or_embedded(mapping: Json) -> Content:
    """Some peers send a link as a ``resource`` without content; its name is then its URI."""
    if "resource" in mapping or "uri" not in mapping:
        return EmbeddedResource.from_wire(mapping)
    return ResourceLink.from_wire({"name": mapping["uri"], **mapping})


READERS: dict[str, Callable[[Any], Any]] = {
    cls.type: cls.from_wire for cls in (Text, Image, Audio, ResourceLink)
}
READERS["resource"] = _link_or_embedded
"""By ``type``."""

_SALVAGING: dict[str, Callable[[Any, Faults], Any]] = {
    cls.type: cls.salvage for cls in (Text, Image, Audio, ResourceLink, EmbeddedResource)
}


def content_from_wire(mapping: Any, readers: Mapping[str, Callable[[Any], Any]] = READERS) -> Any:
    """Read one content block. A kind that is not known here is kept as `UnknownContent`.

    Raises:
        ValueError: It has no type, or a known kind lacks a member or has a wrong one.
    """
    if not isinstance(mapping, dict):
        raise ValueError(f"content block: must be an object, not {base.json_type(mapping)}")
    if type(mapping.get("type")) is not str:
        raise ValueError("content block: type is missing or no string")
    return readers.get(mapping["type"], UnknownContent)(mapping)


def check_sendable(block: Any) -> None:
    """Refuse a block that a peer sent malformed, because it must not be sent on.

    Raises:
        ValueError: It is such a block; the message says what is wrong with it.
    """
    if isinstance(block, UnknownContent):
        try:
            content_from_wire(block.raw)
        except ValueError as error:
            raise ValueError(f"a malformed content block cannot be sent: {error}") from None


def salvage_content(mapping: Any, faults: Faults) -> Any:
    """Read one content block as far as possible. A malformed one is kept as `UnknownContent`."""
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
    if isinstance(value, dict):  # a block by itself, as a message to a model may have it
        return [salvage_content(value, faults)]
    return [UnknownContent.keep(value)]


base.add_member_type(Content, content_from_wire, salvage_content)
base.MEMBER_TYPES[list[Content]] = base.MEMBER_TYPES[list[Content]]._replace(
    salvage=_salvage_blocks
)


class WithContent(Wire):
    """What has a content block, or several, in ``content``."""

    @property
    def text(self) -> str:
        """The text blocks, joined by line feeds; empty when there are none."""
        content = self.__dict__["content"]
        blocks = content if isinstance(content, list) else [content]
        return "\n".join([block.text for block in blocks if isinstance(block, Text)])


# ----------------------------------------------------- prompts, and suggestions for their arguments


class PromptArgument(Named):
    """One argument of a prompt; its value is always a string.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it means.
        required: Whether it must be given.
    """

    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    required: bool = False

    def to_wire(self) -> Json:
        """As `Wire.to_wire`; ``required`` is always there."""
        return {**super().to_wire(), "required": self.required}


class Prompt(Named):
    """A prompt as ``prompts/list`` shows it.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it is for.
        arguments: What it takes; None when nothing is said.
        icons: Pictures of it.
        meta: The member ``_meta``.
    """

    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    arguments: OptionalItems[PromptArgument] = member(default=None)
    icons: OptionalItems[Icon] = member(default=None)
    meta: Optional[Json] = None


def _as_block(content: Any) -> Any:
    return Text(content) if isinstance(content, str) else content


class PromptMessage(WithContent):
    """One message of a prompt: who speaks, and one block.

    Args:
        role: "user" or "assistant".
        content: One block; a str stands for a block of text.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    role: Role
    content: Converted[Content, Union[str, Content]] = member(convert=_as_block)
    meta: Optional[Json] = None


Message = PromptMessage
"""The shorter name."""


class GetPromptResult(Wire):
    """What getting a prompt gives.

    Args:
        messages: The messages, in order.
        description: What the prompt is for.
        meta: The member ``_meta``.
    """

    messages: Items[PromptMessage]
    description: Optional[str] = None
    meta: Optional[Json] = None


class Completion(Wire):
    """Suggestions, best first. On the wire they stand in the member ``completion`` of the result.

    Args:
        values: The suggestions. What is sent has at most 100; a completer may return more.
        total: How many there are in all; None when not known.
        has_more: Whether there are more; None says nothing.
        meta: The member ``_meta`` of the result.
    """

    values: Items[str]
    total: Optional[int] = None
    has_more: Optional[bool] = None
    meta: Optional[Json] = member(default=None, local=True)

    @classmethod
    def from_wire(cls, mapping: Any) -> Completion:
        """Read the result of ``completion/complete``.

        Raises:
            ValueError: It is no such result; one line says why.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"Completion: must be an object, not {base.json_type(mapping)}")
        made = super().from_wire(mapping.get("completion"))
        meta = mapping.get("_meta")
        made.meta = meta if isinstance(meta, dict) else None
        return made

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> Completion:
        """As `Wire.salvage`."""
        about = mapping.get("completion") if isinstance(mapping, dict) else None
        if not isinstance(about, dict):
            faults.at("completion").add(f"must be an object, not {base.json_type(about)}")
            about = {}
        made = super().salvage(about, faults.at("completion"))
        meta = mapping.get("_meta") if isinstance(mapping, dict) else None
        made.meta = meta if isinstance(meta, dict) else None
        return made

    def to_wire(self) -> Json:
        """The result of ``completion/complete``."""
        result: Json = {"completion": super().to_wire()}
        return result if self.meta is None else {**result, "_meta": self.meta}
