"""Functions that make text from a peer safe for a log, a message or a terminal."""

from __future__ import annotations

from typing import Any


def one_line(value: Any, limit: int = 200) -> str:
    """Return a value as one line of ASCII, truncated to `limit` characters.

    Control characters and line ends become escapes, so a peer cannot forge a second log line.
    """
    if isinstance(value, (str, bytes)):
        value = value[: limit + 1]  # do not escape 64 MiB of which 200 characters are shown
    text = value if isinstance(value, str) else repr(value)
    escaped = text.encode("unicode_escape", "backslashreplace").decode("ascii")
    if len(escaped) <= limit:
        return escaped
    return escaped[:limit] + "..."


def printable(text: str, keep: str = "") -> str:
    """Escape the characters of a text that are not printable.

    These are control characters, line ends and characters that change the direction of text.

    Args:
        text: The text, in any alphabet.
        keep: Characters that are not escaped, such as line feeds.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text])


def json_printable(text: str) -> str:
    """Escape the characters of a JSON text that are not printable. The value stays the same.

    Args:
        text: Valid JSON. Its line feeds are kept.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c == "\n" else _json_escape(c) for c in text])


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2])])


def describe(error: BaseException) -> str:
    """Return the message of an exception, or the name of its class if it has no message.

    The name comes first if the message shows only a value, as in ``KeyError("x")``, and for a
    `BaseException` such as `SystemExit`.
    """
    name = type(error).__name__
    try:
        message = str(error)
        shows_value = message in (*map(repr, error.args[:1]), repr(error.args))
    except BaseException:  # the author's __str__ or __repr__ failed
        return name
    if not message.strip():
        return name
    if shows_value or not isinstance(error, Exception):
        return f"{name}: {message}"
    return message
