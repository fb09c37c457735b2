"""Content blocks, resources and what reading one gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minimcp import types as t
from minimcp.types.content import content_from_wire, media_type


@pytest.mark.requirement("TOOL-32")
def test_the_type_decides() -> None:
    cases: Any = [
        ({"type": "text", "text": ""}, t.Text),
        ({"type": "image", "data": "", "mimeType": "image/png"}, t.Image),
        ({"type": "audio", "data": "AA==", "mimeType": "audio/wav"}, t.Audio),
        ({"type": "resource_link", "uri": "a:b", "name": "n"}, t.ResourceLink),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "x"}}, t.EmbeddedResource),
        ({"type": "tool_use", "id": "1"}, t.UnknownContent),
    ]
    for wire, cls in cases:
        block = content_from_wire(wire)
        assert (type(block), block.type, block.to_wire()) == (cls, wire["type"], wire)
        assert (block.meta, block.annotations) == (None, None)
    for wrong in (None, "text", [], {}, {"type": 1}, {"type": ["text"]}, {"text": "x"}):
        with pytest.raises(ValueError, match="^content block: "):
            content_from_wire(wrong)


@pytest.mark.requirement("TOOL-39")
def test_a_future_kind_is_kept_raw() -> None:
    wire = {
        "type": "hologram",
        "beam": {"snake_case": 1},
        "annotations": {"priority": 1},
        "_meta": {"a": 1},
    }
    block = content_from_wire(wire)
    assert isinstance(block, t.UnknownContent) and block.raw == wire == block.to_wire()
    assert (block.type, block.meta, block.annotations) == (
        "hologram",
        {"a": 1},
        t.Annotations(priority=1),
    )
    assert block == t.UnknownContent(dict(wire)) == t.UnknownContent.from_wire(wire)
    odd = content_from_wire({"type": "x", "_meta": 5, "annotations": 5})
    assert (odd.meta, odd.annotations) == (None, None)
    with pytest.raises(ValueError, match="must have a type"):
        t.UnknownContent({"beam": 1})
    with pytest.raises(TypeError, match="raw must be an object"):
        t.UnknownContent("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="UnknownContent: must be an object, not a string"):
        t.UnknownContent.from_wire("x")


@pytest.mark.requirement("SEED-11")
def test_a_resource_block_without_content_is_read_as_a_link() -> None:
    block = content_from_wire({"type": "resource", "uri": "db://users/1", "mimeType": "text/plain"})
    assert block == t.ResourceLink("db://users/1", "db://users/1", mime_type="text/plain")
    assert block.to_wire()["type"] == "resource_link"
    assert content_from_wire({"type": "resource", "uri": "a:b", "name": "n"}) == t.ResourceLink(
        "a:b", "n"
    )
    with pytest.raises(ValueError, match="^EmbeddedResource: resource is missing$"):
        content_from_wire({"type": "resource"})


@pytest.mark.requirement("X-06")
def test_annotations_inside_the_resource_count_as_the_blocks() -> None:
    inner = {"uri": "a:b", "text": "x", "annotations": {"priority": 0.5}}
    block = t.EmbeddedResource.from_wire({"type": "resource", "resource": inner})
    assert block == t.EmbeddedResource(
        t.TextResourceContents("a:b", "x"), annotations=t.Annotations(priority=0.5)
    )
    assert "annotations" in inner
    both = t.EmbeddedResource.from_wire(
        {"type": "resource", "resource": inner, "annotations": {"priority": 1}}
    )
    assert both.annotations == t.Annotations(priority=1)
    assert both.resource.extra == {"annotations": {"priority": 0.5}}
    odd = t.EmbeddedResource.from_wire(
        {"type": "resource", "resource": {**inner, "annotations": 5}}
    )
    assert odd.annotations is None


@pytest.mark.requirement("RES-06")
def test_an_embedded_resource_shows_its_content() -> None:
    text = t.EmbeddedResource(t.TextResourceContents("a:t", "x", "text/plain"))
    assert (text.uri, text.mime_type, text.text, text.data) == ("a:t", "text/plain", "x", None)
    blob = t.EmbeddedResource(t.BlobResourceContents("a:b", b"\x00\x01"))
    assert (blob.uri, blob.mime_type, blob.text, blob.data) == ("a:b", None, None, b"\x00\x01")
    assert blob.to_wire() == {"type": "resource", "resource": {"uri": "a:b", "blob": "AAE="}}


def test_the_first_bytes_or_the_suffix_determine_the_type_of_a_file() -> None:
    known = {
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR": "image/png", b"\xff\xd8\xff\xe0\0\x10JFIF": "image/jpeg",
        b"GIF89a\1\0": "image/gif",
        b"RIFF\n\0\0\0WEBPVP8 ": "image/webp", b"II*\0\x08\0\0\0": "image/tiff", b"\0\0\1\0\1\0": "image/x-icon",
        b"\0\0\0\x1cftypavif\0\0": "image/avif", b"\0\0\0\x18ftypheic\0\0": "image/heic",
        b"RIFF$\n\0\0WAVEfmt ": "audio/wav", b"ID3\4\0": "audio/mpeg", b"\xff\xfb\x90d": "audio/mpeg",
        b"fLaC\0\0\0\x22": "audio/flac", b"\0\0\0\x20ftypM4A \0\0": "audio/mp4", b"\xff\xf1P\x80": "audio/aac",
    }  # fmt: skip
    assert {data: media_type("x.svg", data) for data in known} == known
    named = {"b.SVG": "image/svg+xml", "x.ogg": "audio/ogg", "x.opus": "audio/ogg", "x.jpeg": "image/jpeg",
             "x.mp4": None, "png": None, "": None, "x.": None}  # fmt: skip
    assert {name: media_type(name, b" \x89PNG\r\n\x1a\n") for name in named} == named


def test_an_image_is_made_of_bytes_or_from_a_file(tmp_path: Path) -> None:
    picture, sound, noise = tmp_path / "a.PNG", tmp_path / "b.png", tmp_path / "noise"
    picture.write_bytes(b"\x89PNG")
    sound.write_bytes(b"ID3")
    noise.write_bytes(b"????")
    assert (
        t.Image.from_file(picture)
        == t.Image.from_file(str(picture))
        == t.Image(b"\x89PNG", "image/png")
    )
    assert t.Image.from_file(picture, "image/x-own").mime_type == "image/x-own"
    assert t.Audio.from_file(sound) == t.Audio(b"ID3", "audio/mpeg")
    with pytest.raises(
        ValueError, match=r"^a\.PNG is image/png, not audio: pass mime_type= if that is wrong$"
    ):
        t.Audio.from_file(picture)
    with pytest.raises(
        ValueError,
        match="^noise: cannot detect the type of audio from its bytes or suffix: pass mime_type=",
    ):
        t.Audio.from_file(noise)
    with pytest.raises(FileNotFoundError):
        t.Image.from_file(tmp_path / "none.png")
    with pytest.raises(
        TypeError,
        match=r"^Audio: data must be bytes, not str: Audio\.from_file\(...\) reads a file$",
    ):
        t.Audio("oven.png", "image/png")  # type: ignore[arg-type]
    assert (
        t.Image(bytearray(b"ab"), "a/b")
        == t.Image(memoryview(b"ab"), "a/b")
        == t.Image(b"ab", "a/b")
    )


@pytest.mark.requirement("RES-16")
def test_annotations_are_checked_when_made_and_kept_when_read() -> None:
    made = t.Annotations(("user", "assistant"), 1, "2025-01-12T15:00:58Z")
    assert (made.audience, made.priority, made.last_modified) == (
        ["user", "assistant"],
        1,
        "2025-01-12T15:00:58Z",
    )
    for priority in (-0.1, 1.01, float("nan")):
        with pytest.raises(ValueError, match="^Annotations: priority must be between 0 and 1"):
            t.Annotations(priority=priority)
    with pytest.raises(
        ValueError, match="^Annotations: audience must be one of user, assistant, not 'system'$"
    ):
        t.Annotations(["user", "system"])  # type: ignore[list-item]
    assert t.Annotations.from_wire({"priority": 5, "audience": ["all"]}).priority == 5


@pytest.mark.requirement("SEED-28", "ICON-06")
def test_icon_sizes_may_be_one_string() -> None:
    icon = t.Icon.from_wire({"src": "https://e.com/i.png", "sizes": "48x48  96x96"})
    assert icon.to_wire() == {"src": "https://e.com/i.png", "sizes": ["48x48", "96x96"]}
    assert (
        icon
        == t.Icon("https://e.com/i.png", sizes="48x48 96x96")
        == t.Icon("https://e.com/i.png", None, icon.sizes)
    )
    with pytest.raises(ValueError, match="^Icon: sizes: must contain only strings"):
        t.Icon.from_wire({"src": "x", "sizes": [48]})
    with pytest.raises(ValueError, match="^Icon: theme must be one of light, dark, not 'pink'$"):
        t.Icon("x", theme="pink")  # type: ignore[arg-type]
    assert t.Icon.from_wire({"src": "x", "theme": "pink"}).theme == "pink"


@pytest.mark.requirement("ICON-04", "X-16")
def test_only_some_icon_urls_are_safe() -> None:
    safe = ("https://e.com/i.png", "HTTPS://e.com/i.png", "data:image/png;base64,AA==")
    unsafe = (
        "data:text/html,x",
        "http://e.com/i.png",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "",
    )
    assert [src for src in (*safe, *unsafe) if t.Icon(src).is_safe] == list(safe)


@pytest.mark.requirement("RES-23", "SEED-12")
def test_uris_stay_as_they_are_and_titles_are_shown() -> None:
    for uri in ("FILE:///A/../b%20c", "db://users/{userId}", "x:\u00e9"):
        assert t.Resource.from_wire({"uri": uri, "name": "n"}).to_wire()["uri"] == uri
    for make in (t.Resource, t.ResourceTemplate, t.Implementation, t.ResourceLink):
        assert (make("n", "n").display_name, make("n", "n", title="T").display_name) == ("n", "T")


@pytest.mark.requirement("RES-05", "RES-06")
def test_reading_returns_several_items() -> None:
    items = [{"uri": "a:b", "blob": "AAEC"}, {"uri": "a:t", "text": "t", "mimeType": "text/plain"}]
    result = t.ReadResourceResult.from_wire(
        {"contents": items, "resultType": "complete", "ttlMs": 5}
    )
    assert (result.text, result.data, result.ttl_ms, result.extra) == (None, b"\x00\x01\x02", 5, {})
    assert [(item.text, item.data) for item in result.contents] == [
        (None, b"\x00\x01\x02"),
        ("t", None),
    ]
    for wrong in ({"ttl_ms": -1}, {"cache_scope": "secret"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            t.ReadResourceResult([], **wrong)  # type: ignore[arg-type]
    assert (
        t.ReadResourceResult.from_wire({"contents": [], "cacheScope": "new"}).cache_scope == "new"
    )
    assert t.ReadResourceResult([], ttl_ms=0, cache_scope="private").to_wire()["ttlMs"] == 0
    first, nothing = (
        t.ReadResourceResult([t.TextResourceContents("a:t", "t")]),
        t.ReadResourceResult([]),
    )
    assert (first.text, first.data, nothing.text, nothing.data) == ("t", None, None, None)
    for item, words in (
        ("x", "must be an object, not a string"),
        ({"uri": "a:b"}, "text or blob is missing"),
    ):
        with pytest.raises(
            ValueError, match=f"^ReadResourceResult: contents: resource contents: {words}$"
        ):
            t.ReadResourceResult.from_wire({"contents": [item]})
