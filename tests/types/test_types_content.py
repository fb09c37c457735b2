"""Content blocks, resources and what reading one gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from minimcp.types import (
    Annotations,
    Audio,
    BlobResourceContents,
    EmbeddedResource,
    Icon,
    Image,
    Implementation,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    Text,
    TextResourceContents,
    UnknownContent,
    content_from_wire,
    contents_from_wire,
)

from ..rows import for_each


@pytest.mark.requirement("TOOL-32")
@for_each(
    ("wire", "kind"),
    [
        ({"type": "text", "text": ""}, Text),
        ({"type": "image", "data": "", "mimeType": "image/png"}, Image),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, Audio),
        ({"type": "resource_link", "uri": "a:b", "name": "n"}, ResourceLink),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "x"}}, EmbeddedResource),
        ({"type": "tool_use", "id": "1"}, UnknownContent),
    ],
)
def test_the_type_decides(wire: dict[str, Any], kind: type) -> None:
    block = content_from_wire(wire)
    assert type(block) is kind
    assert block.type == wire["type"]
    assert block.to_wire() == wire
    assert (block.meta, block.annotations) == (None, None)


@pytest.mark.requirement("TOOL-39")
def test_a_future_kind_is_kept_raw() -> None:
    wire = {"type": "hologram", "beam": {"snake_case": 1}, "annotations": {"priority": 1}, "_meta": {"a": 1}}
    block = content_from_wire(wire)
    assert isinstance(block, UnknownContent)
    assert block.raw == wire == block.to_wire()
    assert (block.type, block.meta, block.annotations) == ("hologram", {"a": 1}, Annotations(priority=1))
    assert block == UnknownContent(dict(wire))
    assert content_from_wire({"type": "x", "_meta": 5, "annotations": 5}).meta is None
    with pytest.raises(ValueError, match="must have a type"):
        UnknownContent({"beam": 1})
    with pytest.raises(TypeError, match="raw must be an object"):
        UnknownContent("x")  # type: ignore[arg-type]


@for_each("wire", [None, "text", [], {}, {"type": 1}, {"type": ["text"]}, {"text": "x"}])
def test_what_is_no_block_is_refused(wire: Any) -> None:
    with pytest.raises(ValueError, match="^content block: "):
        content_from_wire(wire)


@pytest.mark.requirement("SEED-11")
def test_a_resource_block_without_content_is_read_as_a_link() -> None:
    block = content_from_wire({"type": "resource", "uri": "db://users/1", "mimeType": "text/plain"})
    assert block == ResourceLink("db://users/1", "db://users/1", mime_type="text/plain")
    assert block.to_wire()["type"] == "resource_link"
    assert content_from_wire({"type": "resource", "uri": "a:b", "name": "n"}) == ResourceLink("a:b", "n")
    with pytest.raises(ValueError, match="^EmbeddedResource: resource is missing$"):
        content_from_wire({"type": "resource"})
    with pytest.raises(ValueError, match="^ResourceLink: uri must be a string"):
        content_from_wire({"type": "resource", "uri": 5, "name": "n"})


@pytest.mark.requirement("X-06")
def test_annotations_inside_the_resource_count_as_the_blocks() -> None:
    inner = {"uri": "a:b", "text": "x", "annotations": {"priority": 0.5}}
    block = EmbeddedResource.from_wire({"type": "resource", "resource": inner})
    assert block.annotations == Annotations(priority=0.5)
    assert block.to_wire() == {
        "type": "resource",
        "resource": {"uri": "a:b", "text": "x"},
        "annotations": {"priority": 0.5},
    }
    assert "annotations" in inner
    both = EmbeddedResource.from_wire({"type": "resource", "resource": inner, "annotations": {"priority": 1}})
    assert both.annotations == Annotations(priority=1)
    assert both.resource.extra == {"annotations": {"priority": 0.5}}
    odd = EmbeddedResource.from_wire({"type": "resource", "resource": {**inner, "annotations": 5}})
    assert odd.annotations is None


@pytest.mark.requirement("RES-06")
def test_an_embedded_resource_shows_its_content() -> None:
    text = EmbeddedResource(TextResourceContents("a:t", "x", "text/plain"))
    assert (text.uri, text.mime_type, text.text, text.data) == ("a:t", "text/plain", "x", None)
    blob = EmbeddedResource(BlobResourceContents("a:b", b"\x00\x01"))
    assert (blob.uri, blob.mime_type, blob.text, blob.data) == ("a:b", None, None, b"\x00\x01")
    assert blob.to_wire() == {"type": "resource", "resource": {"uri": "a:b", "blob": "AAE="}}
    with pytest.raises(TypeError, match="^EmbeddedResource: resource must be an object .*, not str$"):
        EmbeddedResource("x")  # type: ignore[arg-type]


def test_bytes_are_wanted() -> None:
    for kind in (Image, Audio):
        words = f"data must be bytes, not str: {kind.__name__}.from_file(...) reads a file"
        with pytest.raises(TypeError, match=f"^{kind.__name__}: {re.escape(words)}$"):
            kind("oven.png", "image/png")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^BlobResourceContents: blob must be bytes, not str$"):
        BlobResourceContents("a:b", "AAEC")  # type: ignore[arg-type]
    assert Image(bytearray(b"ab"), "image/png") == Image(memoryview(b"ab"), "image/png") == Image(b"ab", "image/png")


def test_from_file_knows_the_suffix(tmp_path: Path) -> None:
    picture = tmp_path / "a.PNG"
    picture.write_bytes(b"\x89PNG")
    assert Image.from_file(picture) == Image.from_file(str(picture)) == Image(b"\x89PNG", "image/png")
    assert Image.from_file(picture, "image/x-own").mime_type == "image/x-own"
    with pytest.raises(ValueError, match=r"^a\.PNG is image/png, no audio: say mime_type= if it is one$"):
        Audio.from_file(picture)
    assert Audio.from_file(picture, "audio/x-own").data == b"\x89PNG"
    with pytest.raises(FileNotFoundError):
        Image.from_file(tmp_path / "none.png")


def test_from_file_believes_the_bytes_more_than_the_name(tmp_path: Path) -> None:
    sound = tmp_path / "a.png"
    sound.write_bytes(b"ID3")
    assert Audio.from_file(sound) == Audio(b"ID3", "audio/mpeg")
    with pytest.raises(ValueError, match="^a.png is audio/mpeg, no image: "):
        Image.from_file(sound)
    noise = tmp_path / "noise"
    noise.write_bytes(b"????")
    with pytest.raises(ValueError, match="^noise: neither its bytes nor its suffix are known as audio: say mime_type="):
        Audio.from_file(noise)


@pytest.mark.requirement("RES-16")
def test_annotations_are_checked_when_made_and_kept_when_read() -> None:
    made = Annotations(("user", "assistant"), 1, "2025-01-12T15:00:58Z")
    assert made.to_wire() == {
        "audience": ["user", "assistant"],
        "priority": 1,
        "lastModified": "2025-01-12T15:00:58Z",
    }
    for priority in (-0.1, 1.01, float("nan")):
        with pytest.raises(ValueError, match="^Annotations: priority must lie between 0 and 1"):
            Annotations(priority=priority)
    with pytest.raises(ValueError, match="^Annotations: audience must be one of user, assistant, not 'system'$"):
        Annotations(["system"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="^Annotations: audience must be a list of strings, not str$"):
        Annotations("user")  # type: ignore[arg-type]
    assert Annotations.from_wire({"priority": 5, "audience": ["all"]}).priority == 5
    with pytest.raises(ValueError, match="^Annotations: audience: must hold strings, not a number$"):
        Annotations.from_wire({"audience": [1]})


@pytest.mark.requirement("SEED-28", "ICON-06")
def test_icon_sizes_may_come_as_one_string() -> None:
    icon = Icon.from_wire({"src": "https://e.com/i.png", "sizes": "48x48  96x96"})
    assert icon.sizes == ["48x48", "96x96"]
    assert icon.to_wire() == {"src": "https://e.com/i.png", "sizes": ["48x48", "96x96"]}
    assert icon == Icon("https://e.com/i.png", sizes="48x48 96x96") == Icon("https://e.com/i.png", None, icon.sizes)
    assert Icon("https://e.com/i.png").sizes is None
    with pytest.raises(ValueError, match="^Icon: sizes: must hold strings"):
        Icon.from_wire({"src": "x", "sizes": [48]})
    with pytest.raises(ValueError, match="^Icon: theme must be one of light, dark, not 'pink'$"):
        Icon("x", theme="pink")  # type: ignore[arg-type]
    assert Icon.from_wire({"src": "x", "theme": "pink"}).theme == "pink"


@pytest.mark.requirement("ICON-04", "X-16")
@for_each(
    ("src", "safe"),
    [
        ("https://e.com/i.png", True),
        ("HTTPS://e.com/i.png", True),
        ("data:image/png;base64,AA==", True),
        ("data:text/html,x", False),
        ("http://e.com/i.png", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("ftp://e.com/i.png", False),
        ("", False),
    ],
)
def test_only_some_icon_urls_are_safe(src: str, safe: bool) -> None:
    assert Icon(src).is_safe is safe


def test_display_names() -> None:
    for made, titled in (
        (Resource("a:b", "n"), Resource("a:b", "n", title="T")),
        (ResourceTemplate("a:{b}", "n"), ResourceTemplate("a:{b}", "n", title="T")),
        (Implementation("n", "1"), Implementation("n", "1", title="T", icons=[Icon("https://e.com/i")])),
        (ResourceLink("a:b", "n"), ResourceLink("a:b", "n", title="T")),
    ):
        assert (made.display_name, titled.display_name) == ("n", "T")


@pytest.mark.requirement("RES-05", "RES-06")
def test_reading_gives_several_items() -> None:
    result = ReadResourceResult.from_wire(
        {
            "contents": [
                {"uri": "a:b", "blob": "AAEC"},
                {"uri": "a:t", "text": "t", "mimeType": "text/plain"},
            ],
            "resultType": "complete",
            "ttlMs": 5,
        }
    )
    assert (result.text, result.data) == (None, b"\x00\x01\x02")
    assert [item.text for item in result.contents] == [None, "t"]
    assert [item.data for item in result.contents] == [b"\x00\x01\x02", None]
    assert (result.ttl_ms, result.cache_scope, result.extra) == (5, None, {})
    for wrong, text in (({"ttl_ms": -1}, "ttl_ms"), ({"cache_scope": "secret"}, "cache_scope")):
        with pytest.raises(ValueError, match=text):
            ReadResourceResult([], **wrong)  # type: ignore[arg-type]
    first = ReadResourceResult([TextResourceContents("a:t", "t")])
    assert (first.text, first.data) == ("t", None)
    nothing = ReadResourceResult([])
    assert (nothing.text, nothing.data) == (None, None)
    assert nothing.to_wire() == {"contents": []}


@pytest.mark.parametrize(("wire", "words"), [("x", "not a string"), ({"uri": "a:b"}, "neither text nor blob")])
def test_contents_that_are_none_are_refused(wire: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        contents_from_wire(wire)
    with pytest.raises(ValueError, match="^ReadResourceResult: contents: resource contents: "):
        ReadResourceResult.from_wire({"contents": [wire]})


@pytest.mark.requirement("RES-23", "SEED-12")
def test_uris_stay_as_they_are() -> None:
    for uri in ("FILE:///A/../b%20c", "db://users/{userId}", "x:\u00e9"):
        assert Resource.from_wire({"uri": uri, "name": "n"}).to_wire()["uri"] == uri
