"""Arguments of tools that travel in an HTTP header too, and how values are written there.

A property of an input schema with ``x-mcp-header`` is sent in the header ``Mcp-Param-<its
value>``, so that whatever stands between client and server can route by it; the body stays what
counts. https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any, Mapping, NamedTuple, Optional

ANNOTATION = "x-mcp-header"

# Integers in headers are not further from zero than this: readers that know only floats see the
# same number.
LARGEST = 2**53 - 1

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# A header may contain a tab. It is sent encoded all the same, because some programs drop tabs.
_SENT_PLAIN = r"[\x20-\x7e]*"
_READ_PLAIN = r"[\t\x20-\x7e]*"
_WHOLE = r"(-?[0-9]{1,20})(?:\.0*)?"
_ENCODED = r"(?s)=\?base64\?(.*)\?="

# Parts of a schema that are looked through.
MOST_PARTS = 100_000

_BY_NAME = ("patternProperties", "$defs", "definitions", "dependentSchemas")
_NO_SCHEMAS = ("default", "const", "enum", "examples")


class HeaderParam(NamedTuple):
    """One argument in a header: its header without the prefix, where it stands in the arguments,
    and its type."""

    name: str
    path: tuple[str, ...]
    type: str

    def value(self, arguments: Any) -> Any:
        """What a call gives it; None where it gives nothing, or null."""
        for step in self.path:
            arguments = arguments.get(step) if isinstance(arguments, dict) else None
        return arguments

    def agrees(self, text: str, value: Any) -> bool:
        """Whether a header, decoded, says the same as a value."""
        whole = re.fullmatch(_WHOLE, text) if self.type == "integer" else None
        if whole is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(whole[1]) == value
        return text == plain_text(value)


def header_params(schema: Mapping[str, Any]) -> list[HeaderParam]:
    """Return the arguments of an input schema that are sent in headers too.

    Raises:
        ValueError: An annotation stands where none may, is no header's name, or is there twice; or
            it is too large to be looked through.
    """
    found: dict[str, HeaderParam] = {}
    parts: list[tuple[Any, Optional[tuple[str, ...]]]] = [(schema, ())]
    for part, path in parts:  # without a path no argument stands there
        if len(parts) > MOST_PARTS:
            raise ValueError(
                f"{ANNOTATION} is looked for in schemas of at most {MOST_PARTS:,} parts"
            )
        if isinstance(part, dict) and ANNOTATION in part:
            each = _annotated(part, path)
            if each.name.lower() in found:
                raise ValueError(f"{ANNOTATION} {each.name!r} is there twice (case does not count)")
            found[each.name.lower()] = each
        members: Any = (
            part.items()
            if isinstance(part, dict)
            else enumerate(part)
            if isinstance(part, list)
            else ()
        )
        for word, value in members:
            if word == "properties" and isinstance(value, dict):
                parts += [
                    (field, None if path is None else (*path, name))
                    for name, field in value.items()
                ]
            elif word in _BY_NAME and isinstance(value, dict):
                parts += [(each, None) for each in value.values()]
            elif word not in _NO_SCHEMAS:
                parts.append((value, None))
    return list(found.values())


def with_header_params(schema: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """An input schema whose properties say in which header each is sent.

    Args:
        schema: Without annotations.
        headers: Names of headers, by parameter.

    Raises:
        ValueError: There is no such parameter.
    """
    properties = dict(schema.get("properties", {}))
    for parameter, header in headers.items():
        if not isinstance(properties.get(parameter), dict):
            raise ValueError(f"headers names {parameter!r}, which is no parameter of the tool")
        properties[parameter] = {**properties[parameter], ANNOTATION: header}
    whole = {**schema, "properties": properties} if headers else dict(schema)
    return whole or {"type": "object"}


def _annotated(schema: Mapping[str, Any], path: Optional[tuple[str, ...]]) -> HeaderParam:
    name, kind, where = (
        schema[ANNOTATION],
        schema.get("type"),
        ".".join(path or ()) or "the arguments",
    )
    if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
        raise ValueError(f"{ANNOTATION} of {where} is the name of a header, not {name!r:.80}")
    if not path:
        raise ValueError(
            f"{ANNOTATION} {name!r} stands where no argument does: only properties, in one "
            "another, count"
        )
    if kind not in ("string", "integer", "boolean"):
        raise ValueError(
            f"{ANNOTATION} {name!r} is for a string, an integer or a boolean, and {where} is none"
        )
    return HeaderParam(name, path, kind)


# ------------------------------------------------------------ values


def plain_text(value: Any) -> Optional[str]:
    """Return a value as text; None for a value that is never sent in a header.

    A float that is a whole number is an integer, as in JSON Schema: 42.0 is "42".
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return None


def header_value(value: Any) -> Optional[str]:
    """A value as a header carries it; None for null and what is no string, integer or boolean,
    which get no header.

    Raises:
        ValueError: An integer is too large, or text has half a character.
    """
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if is_whole and abs(value) > LARGEST:
        raise ValueError(f"{value} is too large to be mirrored in a header: at most {LARGEST}")
    text = plain_text(value)
    if text is None or (
        re.fullmatch(_SENT_PLAIN, text)
        and text.strip(" ") == text
        and not re.fullmatch(_ENCODED, text)
    ):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def from_header(text: str) -> str:
    """What a header's value, without the blanks round it, says.

    Raises:
        ValueError: It has characters that it cannot have, or what it encodes is no text.
    """
    if not re.fullmatch(_READ_PLAIN, text):
        raise ValueError("it has characters outside of ASCII, or controls")
    encoded = re.fullmatch(_ENCODED, text)
    if encoded is None:
        return text
    try:
        content = b64decode(encoded[1])
        if b64encode(content).decode() != encoded[1]:
            raise ValueError("not canonical")
        return content.decode()
    except ValueError:  # UnicodeDecodeError and binascii.Error are ValueErrors too
        raise ValueError("it is no Base64 of text in UTF-8") from None
