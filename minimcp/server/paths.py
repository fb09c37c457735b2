"""`resolve_inside`: resolve a path from a client within one directory."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Optional, Union
from urllib.parse import unquote

from ..errors import ResourceAccessDenied

if TYPE_CHECKING:
    from pathlib import Path

# Maximum length of a path, in bytes of UTF-8.
MAX_PATH_BYTES = 4096

# Maximum length of one name in a path, in bytes of UTF-8.
MAX_NAME_BYTES = 255

# Maximum number of nested percent-encodings. Paths with more are rejected without a look inside.
MAX_DECODINGS = 3

# Characters that look like slashes and that some systems replace with slashes. NFKC normalization
# replaces the others.
_SLASHES = str.maketrans("\u2044\u2215\u29f8\u2571\u2216\u29f5\u29f9", "////\\\\\\")

# Patterns of rejected paths, each with the reason. The first match counts.
_FAULTS = [
    (re.compile(pattern, re.IGNORECASE), f"it {fault}")
    for pattern, fault in (
        (r"[\x00-\x1f\x7f-\x9f]", "has a control character"),
        (r"\\", "has a backslash"),
        (r":", "has a colon"),
        (r"\A/", "is absolute"),
        (r"\A~", "names a home directory"),
        (r"\A\Z|//|/\Z", "has an empty name"),
        (r"(?:\A|/)\.\.(?:/|\Z)", "has a '..' segment"),
        (r"(?:\A|/)(?!\.(?:/|\Z))[^/]*[. ](?:/|\Z)", "has a name that ends with a dot or a space"),
        (
            r"(?:\A|/)(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)"
            r" *(?:\.[^/]*)?(?:/|\Z)",
            "names a device",  # on Windows, in every directory and with every suffix
        ),
    )
]


def resolve_inside(root: Union[str, os.PathLike[str]], path: Union[str, os.PathLike[str]]) -> Path:
    """Return the absolute path of a file that a client names, if it is inside a directory:
    ``resolve_inside("/srv/notes", path)``. For servers that give clients access to files.

    The following are rejected on every system: ".." anywhere, absolute paths, backslashes, colons
    (drives, streams), a leading "~", control characters, device names, names that end with a dot or
    a space, empty names, and paths that are too long. They are also rejected if percent-encoding,
    look-alike characters or invisible characters hide them. Then symbolic links are resolved. The
    result must be inside the directory.

    Variables of a resource template are already decoded, so do not decode them again. An escape
    that remains ("100%25.txt") is part of the name.

    The result is correct at the time of the call. After the call, another process could replace a
    file in the directory by a symbolic link. Hard links are not detected. Therefore, give write
    access to the directory only to users who can read everything.

    Args:
        root: The directory, absolute or relative to the working directory. It may be a symbolic
            link.
        path: A path relative to it, with "/" between names. "." is the directory itself. The file
            does not need to exist.

    Returns:
        The absolute path, without symbolic links.

    Raises:
        ResourceAccessDenied: The path leads outside, or could on some system. The message says why,
            but not where the directory is.
        TypeError: The path is not a str.
    """
    from pathlib import Path

    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path must be a str, not {type(text).__name__}")
    fault = path_fault(text)
    if fault is None:
        top = os.path.realpath(root)
        found = Path(os.path.realpath(os.path.join(top, text)))
        if found.is_relative_to(top):
            return found
        fault = "it leads outside the directory"
    raise ResourceAccessDenied(f"Access denied: the path is not allowed, because {fault}")


def path_fault(text: str) -> Optional[str]:
    """Return why the text of a path is rejected, or None."""
    try:
        if len(text.encode("utf-8")) > MAX_PATH_BYTES:
            return "it is too long"
        for _ in range(MAX_DECODINGS + 1):
            fault = _shape_fault(text) or _shape_fault(_plain(text))
            decoded = text if fault else unquote(text, errors="strict")
            if decoded == text:
                return fault
            text = decoded
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    except UnicodeDecodeError:
        return "it has escapes that are not UTF-8"
    return "it is percent-encoded too many times"


def _plain(text: str) -> str:
    """Return the text as read by systems that replace look-alikes and drop invisible characters."""
    folded = unicodedata.normalize("NFKC", text).translate(_SLASHES)
    return "".join(each for each in folded if unicodedata.category(each) != "Cf")


def _shape_fault(text: str) -> Optional[str]:
    if any(len(name.encode("utf-8")) > MAX_NAME_BYTES for name in text.split("/")):
        return "a name in it is too long"
    return next((fault for pattern, fault in _FAULTS if pattern.search(text)), None)
