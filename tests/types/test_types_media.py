"""What kind of picture or sound a file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from minimcp.types.media import MIME_TYPES, media_type


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif"),
        (b"RIFF\n\0\0\0WEBPVP8 ", "image/webp"),
        (b"II*\0\x08\0\0\0", "image/tiff"),
        (b"\0\0\1\0\1\0", "image/x-icon"),
        (b"\0\0\0\x1cftypavif\0\0", "image/avif"),
        (b"\0\0\0\x18ftypheic\0\0", "image/heic"),
        (b"RIFF$\n\0\0WAVEfmt ", "audio/wav"),
        (b"ID3\4\0", "audio/mpeg"),
        (b"\xff\xfb\x90d", "audio/mpeg"),
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"\0\0\0\x20ftypM4A \0\0", "audio/mp4"),
        (b"\xff\xf1P\x80", "audio/aac"),
    ],
)
def test_the_bytes_say_it(data: bytes, mime_type: str) -> None:
    assert media_type("x.txt", data) == media_type("x", data) == mime_type
    assert mime_type in MIME_TYPES.values()


def test_else_the_name_does() -> None:
    assert media_type(Path("a") / "b.SVG", b"<svg/>") == "image/svg+xml"
    assert media_type("talk.ogg", b"OggS") == "audio/ogg"
    assert media_type("film.mp4", b"\0\0\0\x18ftypmp42") is None
    assert media_type("picture", b" \x89PNG\r\n\x1a\n") is None
    assert media_type("", b"") is None
