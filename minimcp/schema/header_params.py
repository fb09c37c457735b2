"""Arguments of tools that are also sent in an HTTP header, and the encoding of their values.

A property of an input schema with ``x-mcp-header`` is also sent in the header ``Mcp-Param-<its
value>``, so that proxies can route requests by it. The body stays authoritative.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any, Mapping, NamedTuple, Optional

ANNOTATION = "x-mcp-header"

# The largest integer in a header, so that readers that use floats see the same number.
MAX_INTEGER = 2**53 - 1

_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# A header may contain a tab, but tabs are sent encoded, because some programs drop them.
_SENT_PLAIN = r"[\x20-\x7e]*"
_READ_PLAIN = r"[\t\x20-\x7e]*"
_WHOLE = r"(-?[0-9]{1,20})(?:\.0*)?"
_ENCODED = r"(?s)=\?base64\?(.*)\?="

# Maximum number of parts of a schema that are searched.
MAX_PARTS = 100_000

_BY_NAME = ("patternProperties", "$defs", "definitions", "dependentSchemas")
_NO_SCHEMAS = ("default", "const", "enum", "examples")


class HeaderParam(NamedTuple):
    """One argument that is sent in a header: the header's name without prefix, the argument's path,
    and its type."""

    name: str
    path: tuple[str, ...]
    type: str

    def value(self, arguments: Any) -> Any:
        """Return the value in a call's arguments, or None if it is missing or null."""
        for step in self.path:
            arguments = arguments.get(step) if isinstance(arguments, dict) else None
        return arguments

    def agrees(self, text: str, value: Any) -> bool:
        """Return whether a decoded header and a value are the same."""
        whole = re.fullmatch(_WHOLE, text) if self.type == "integer" else None
        if whole is not None and isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(whole[1]) == value
        return text == plain_text(value)


def header_params(schema: Mapping[str, Any]) -> list[HeaderParam]:
    """Return the arguments of an input schema that are also sent in headers.

    Raises:
        ValueError: An annotation is in the wrong place, is not the name of a header or is repeated;
            or the schema is too large to be searched.
    """
    found: dict[str, HeaderParam] = {}
    parts: list[tuple[Any, Optional[tuple[str, ...]]]] = [(schema, ())]
    for part, path in parts:  # path is None where no argument can be
        if len(parts) > MAX_PARTS:
            raise ValueError(
                f"the schema has more than {MAX_PARTS:,} parts, which are not searched for "
                f"{ANNOTATION}"
            )
        if isinstance(part, dict) and ANNOTATION in part:
            each = _annotated(part, path)
            if each.name.lower() in found:
                raise ValueError(f"{ANNOTATION} {each.name!r} is repeated (case is ignored)")
            found[each.name.lower()] = each
        members: Any = ()
        if isinstance(part, dict):
            members = part.items()
        elif isinstance(part, list):
            members = enumerate(part)
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
    """Return an input schema whose properties name the headers in which they are sent.

    Args:
        schema: The schema without annotations.
        headers: Names of headers, by parameter.

    Raises:
        ValueError: The tool does not have one of the parameters.
    """
    properties = dict(schema.get("properties", {}))
    for parameter, header in headers.items():
        if not isinstance(properties.get(parameter), dict):
            raise ValueError(f"headers names {parameter!r}, which is not a parameter of the tool")
        properties[parameter] = {**properties[parameter], ANNOTATION: header}
    whole = {**schema, "properties": properties} if headers else dict(schema)
    return whole or {"type": "object"}


def _annotated(schema: Mapping[str, Any], path: Optional[tuple[str, ...]]) -> HeaderParam:
    name = schema[ANNOTATION]
    kind = schema.get("type")
    where = ".".join(path or ()) or "the arguments"
    if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
        raise ValueError(f"{ANNOTATION} of {where} must be the name of a header, not {name!r:.80}")
    if not path:
        raise ValueError(
            f"{ANNOTATION} {name!r} must be in a property of the arguments, which may be nested"
        )
    if kind not in ("string", "integer", "boolean"):
        raise ValueError(
            f"{ANNOTATION} {name!r} needs a string, an integer or a boolean, which {where} is not"
        )
    return HeaderParam(name, path, kind)


# ------------------------------------------------------------ values


def plain_text(value: Any) -> Optional[str]:
    """Return a value as text, or None for a value that is never sent in a header.

    A float that is a whole number counts as an integer, as in JSON Schema: 42.0 is "42".
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    return None


def header_value(value: Any) -> Optional[str]:
    """Return a value as it is sent in a header. Return None if the value gets no header, because it
    is null or not a string, an integer or a boolean.

    Raises:
        ValueError: An integer is too large, or text has half a surrogate pair.
    """
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if is_whole and abs(value) > MAX_INTEGER:
        raise ValueError(f"{value} is too large for a header: at most {MAX_INTEGER} is allowed")
    text = plain_text(value)
    if text is None or (
        re.fullmatch(_SENT_PLAIN, text)
        and text.strip(" ") == text
        and not re.fullmatch(_ENCODED, text)
    ):
        return text
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def from_header(text: str) -> str:
    """Decode the stripped value of a header.

    Raises:
        ValueError: The value has invalid characters, or its Base64 is not UTF-8 text.
    """
    if not re.fullmatch(_READ_PLAIN, text):
        raise ValueError("it has control characters or characters outside ASCII")
    encoded = re.fullmatch(_ENCODED, text)
    if encoded is None:
        return text
    try:
        content = b64decode(encoded[1])
        if b64encode(content).decode() != encoded[1]:
            raise ValueError("not canonical")
        return content.decode()
    except ValueError:  # UnicodeDecodeError and binascii.Error are ValueErrors too
        raise ValueError("it is not Base64 of UTF-8 text") from None
