"""Validation of ``_meta`` keys and extension identifiers that an author writes. Any key can be
read.

https://modelcontextprotocol.io/specification/2026-07-28/basic#general-fields
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PREFIX = rf"{_LABEL}(?:\.{_LABEL})*\Z"
_NAME = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?\Z"
_TRACE_PARENT = r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\Z"

_DEFINED_NAMES = (
    "protocolVersion", "clientCapabilities", "clientInfo", "logLevel", "serverInfo",
    "subscriptionId", "related-task", "model-immediate-response",
)  # fmt: skip
DEFINED_KEYS = frozenset(f"io.modelcontextprotocol/{name}" for name in _DEFINED_NAMES)
"""Keys with a reserved prefix that a revision defines. An author may set them."""

TRACE_KEYS = ("traceparent", "tracestate", "baggage")
"""Keys of W3C trace context, which have no prefix."""

# Maximum length of a value of trace context that is passed on: the W3C limit for baggage.
_MAX_TRACE_LENGTH = 8192


def trace_context(meta: Any) -> dict[str, str]:
    """Return the valid trace context in the ``_meta`` of a request, to pass it on.

    https://modelcontextprotocol.io/specification/2026-07-28/basic#general-fields
    """
    if type(meta) is not dict:
        return {}
    found = {key: meta.get(key) for key in TRACE_KEYS}
    kept = {
        key: text
        for key, text in found.items()
        if isinstance(text, str) and 0 < len(text) <= _MAX_TRACE_LENGTH
    }
    # The state is meaningless without the parent.
    if not re.match(_TRACE_PARENT, kept.get("traceparent", "")):
        kept.pop("traceparent", None)
        kept.pop("tracestate", None)
    return kept


def check_meta(meta: Mapping[Any, Any], owner: str) -> None:
    """Validate the keys of an author's ``meta=``.

    Args:
        meta: The mapping.
        owner: Its owner in messages.

    Raises:
        ValueError: A key breaks the grammar or is reserved for the protocol, or ``traceparent`` is
            invalid.
        TypeError: A key is not a str, or a value of trace context is not.
    """
    for key, value in meta.items():
        if not isinstance(key, str):
            raise TypeError(f"{owner}: the keys of meta must be str, not {type(key).__name__}")
        prefix, slash, name = key.rpartition("/")
        wrong = f"{owner}: the meta key {key!r}"
        if not re.match(_NAME, name) or (slash and not re.match(_PREFIX, prefix)):
            raise ValueError(f"{wrong} is invalid: write it like com.example/name")
        if is_reserved(prefix) and key not in DEFINED_KEYS:
            raise ValueError(
                f"{wrong} is reserved for the protocol: use a prefix of your own, like com.example/"
            )
        if key in TRACE_KEYS and not isinstance(value, str):
            raise TypeError(f"{owner}: {key} must be a str, not {type(value).__name__}")
        if key == "traceparent" and not re.match(_TRACE_PARENT, value):
            raise ValueError(
                f"{owner}: traceparent must be 00-<32 digits>-<16 digits>-<2 digits>, not {value!r}"
            )


def is_reserved(prefix: str) -> bool:
    """Return whether a prefix is reserved for the protocol by the rule of any revision.

    The newest rule concerns only the second label (``dev.mcp``), an earlier one every label but the
    last (``mcp.dev``).
    """
    labels = prefix.lower().split(".")
    return not {"mcp", "modelcontextprotocol"}.isdisjoint([*labels[:-1], *labels[1:2]])


def check_identifier(identifier: Any, owner: str) -> None:
    """Validate the identifier of an extension, such as ``com.example/x``. Reserved prefixes are
    allowed.

    Args:
        identifier: The identifier.
        owner: Its owner in messages.

    Raises:
        ValueError: It breaks the grammar or has no prefix.
        TypeError: It is not a str.
    """
    if not isinstance(identifier, str):
        raise TypeError(
            f"{owner}: the identifier of an extension must be a str, not "
            f"{type(identifier).__name__}"
        )
    prefix, slash, name = identifier.partition("/")
    if not (slash and name and re.match(_PREFIX, prefix) and re.match(_NAME, name)):
        raise ValueError(
            f"{owner}: {identifier!r} is not an extension identifier: write it like "
            "com.example/name"
        )


def check_extensions(given: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Validate an author's mapping of extension identifiers to settings. None means empty.

    Raises:
        ValueError: An identifier is invalid.
        TypeError: An identifier is not a str, or the settings are not a mapping.
    """
    checked = {}
    for identifier, settings in (given or {}).items():
        check_identifier(identifier, "extensions")
        if not isinstance(settings, Mapping):
            raise TypeError(
                f"extensions: the settings of {identifier!r} must be a mapping: write {{}} for none"
            )
        checked[identifier] = dict(settings)
    return checked
