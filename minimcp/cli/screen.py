"""What commands print: text made fit for a terminal, colour where it is wanted. The folder's base file."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}


def clean(text: str) -> str:
    """Text of a server, with what a terminal would obey shown as escapes; line feeds and tabs stay."""
    return "".join([c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text])


def one_line(text: str) -> str:
    """The lines of a text as one, cleaned."""
    return clean(" | ".join(text.strip().splitlines())).replace("\t", " ")


def say(text: str = "", *, file: Any = None) -> None:
    """Print, also what the stream's encoding cannot write: that comes out as an escape.

    Args:
        text: Without its last line feed.
        file: None prints on stdout.
    """
    stream: TextIO = sys.stdout if file is None else file
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)


def wants_colour(stream: Any) -> bool:
    """Whether to print in colour: on a terminal that has it, unless NO_COLOR says otherwise."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, colour: bool) -> str:
    """The text in a style of `STYLES`, or as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if colour else text
