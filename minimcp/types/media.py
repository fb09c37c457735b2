"""What kind of picture or sound a file is, by its first bytes and by its name."""

from __future__ import annotations

import os
import re
from typing import Optional, Union

MIME_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".svg": "image/svg+xml",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".ico": "image/x-icon",
    ".avif": "image/avif",
    ".heic": "image/heic",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".oga": "audio/ogg",
    ".opus": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".weba": "audio/webm",
}
"""By suffix. A table of our own: the standard library's differs between machines."""

_BEGINNINGS = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"II\*\x00|MM\x00\*", "image/tiff"),
    (rb"\x00\x00\x01\x00", "image/x-icon"),
    (rb"....ftypavi[fs]", "image/avif"),
    (rb"....ftyphei[cx]", "image/heic"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"ID3|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
    (rb"fLaC", "audio/flac"),
    (rb"....ftypM4[AB] ", "audio/mp4"),
    (rb"\xff[\xf1\xf9]", "audio/aac"),
)
"""Patterns of first bytes that tell a picture or a sound for certain: not those that a film may begin with too."""


def media_type(path: Union[str, os.PathLike[str]], data: bytes) -> Optional[str]:
    """The MIME type of a file; None when neither its bytes nor its name say it.

    Args:
        path: Of the file. Only its suffix counts, and less than the bytes: files are often named wrongly.
        data: Its content, or the beginning of it.
    """
    for beginning, mime_type in _BEGINNINGS:
        if re.match(beginning, data, re.DOTALL):
            return mime_type
    return MIME_TYPES.get(os.path.splitext(os.fspath(path))[1].lower())
