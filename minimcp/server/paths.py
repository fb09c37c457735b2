"""`resolve_inside`: a path that a client names, held inside one directory."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Optional, Union
from urllib.parse import unquote

from ..errors import ResourceAccessDenied

if TYPE_CHECKING:
    from pathlib import Path

# Bytes of a path, in UTF-8.
MAX_PATH_BYTES = 4096

# Bytes of one name in it.
MAX_NAME_BYTES = 255

# How often a path may be percent-encoded, one inside the other, and still be looked at.
MAX_DECODINGS = 3

# Characters that look like slashes, and that some systems write as slashes; NFKC knows the others.
_SLASHES = str.maketrans("\u2044\u2215\u29f8\u2571\u2216\u29f5\u29f9", "////\\\\\\")

# How a path may not be written, each with why; the first that is found counts.
_FAULTS = [
    (re.compile(pattern, re.IGNORECASE), f"it {fault}")
    for pattern, fault in (
        (r"[\x00-\x1f\x7f-\x9f]", "has a control character"),
        (r"\\", "has a backslash"),
        (r":", "has a colon"),
        (r"\A/", "is absolute"),
        (r"\A~", "names a home directory"),
        (r"\A\Z|//|/\Z", "has an empty name"),
        (r"(?:\A|/)\.\.(?:/|\Z)", "goes up"),
        (r"(?:\A|/)(?!\.(?:/|\Z))[^/]*[. ](?:/|\Z)", "has a name that ends with a dot or a blank"),
        (
            r"(?:\A|/)(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)"
            r" *(?:\.[^/]*)?(?:/|\Z)",
            "names a device",  # on Windows, in every directory and with every suffix
        ),
    )
]


def resolve_inside(root: Union[str, os.PathLike[str]], path: Union[str, os.PathLike[str]]) -> Path:
    """The file that a client means by a path, if it lies in a directory: for servers that hand out
    files.

    What is refused is refused on every system, so that a server behaves alike on all of them: ".."
    anywhere, absolute paths, backslashes, colons (drives, streams), a leading "~", control
    characters, names of devices, names that end with a dot or a blank, empty names, and what is too
    long; all of that also behind percent-encoding, look-alike characters and invisible ones. Then
    symbolic links are followed, and what they lead to has to lie inside.

    A template of a resource has decoded its variables once: give them as they are, and decode
    nothing yourself. Escapes that are still there are part of the name ("100%25.txt"), unless they
    hide what would be refused.

    The answer is true for the moment in which it is given. Somebody else who may write in the
    directory can put a symbolic link in the place of a file before it is opened, and a hard link
    cannot be told from its file: serve directories in which only those may write who may read
    everything.

    Args:
        root: The directory. A relative one is taken from the working directory; it may be a
            symbolic link.
        path: Relative to it, with "/" between names; "." is the directory itself. Nothing needs to
            exist there.

    Returns:
        The absolute path, without symbolic links.

    Raises:
        ResourceAccessDenied: The path leads outside, or could on some system. The message says why,
            and does not tell where the directory is.
        TypeError: The path is no text.
    """
    from pathlib import Path

    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"path is a str, not {type(text).__name__}")
    fault = path_fault(text)
    if fault is None:
        top = os.path.realpath(root)
        found = Path(os.path.realpath(os.path.join(top, text)))
        if found.is_relative_to(top):
            return found
        fault = "it leads outside"
    raise ResourceAccessDenied(f"Access denied: the path is refused, because {fault}")


def path_fault(text: str) -> Optional[str]:
    """Why a path is refused by how it is written; None when it is not."""
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
        return "it is no Unicode text"
    except UnicodeDecodeError:
        return "it has escapes that are not UTF-8"
    return "it is percent-encoded too often"


def _plain(text: str) -> str:
    """Return the text as a system may read it that replaces look-alikes and drops invisible
    characters."""
    folded = unicodedata.normalize("NFKC", text).translate(_SLASHES)
    return "".join(each for each in folded if unicodedata.category(each) != "Cf")


def _shape_fault(text: str) -> Optional[str]:
    if any(len(name.encode("utf-8")) > MAX_NAME_BYTES for name in text.split("/")):
        return "a name in it is too long"
    return next((fault for pattern, fault in _FAULTS if pattern.search(text)), None)
