"""Keys of ``_meta`` and identifiers of extensions: what an author may write. Reading takes any key.

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
    "subscriptionId", "related-task",
    "model-immediate-response",
)  # fmt: skip
DEFINED_KEYS = frozenset(f"io.modelcontextprotocol/{name}" for name in _DEFINED_NAMES)
"""Keys under reserved prefixes that a revision gives a meaning to; an author who sets one knows
what it means."""

TRACE_KEYS = ("traceparent", "tracestate", "baggage")
"""Keys of W3C trace context, which stand without a prefix."""

# Characters of the value of such a key that are carried on: what W3C lets a baggage have.
_TRACE_LENGTH = 8192


def trace_context(meta: Any) -> dict[str, str]:
    """The trace context in the ``_meta`` of a request, to be carried on; what breaks its rules is
    left out.

    https://modelcontextprotocol.io/specification/2026-07-28/basic#general-fields
    """
    if type(meta) is not dict:
        return {}
    found = {key: meta.get(key) for key in TRACE_KEYS}
    kept = {
        key: text
        for key, text in found.items()
        if isinstance(text, str) and 0 < len(text) <= _TRACE_LENGTH
    }
    if not re.match(
        _TRACE_PARENT, kept.get("traceparent", "")
    ):  # without which the state means nothing
        kept.pop("traceparent", None)
        kept.pop("tracestate", None)
    return kept


def check_meta(meta: Mapping[Any, Any], owner: str) -> None:
    """Refuse keys that an author may not write.

    Args:
        meta: What was given as ``meta=``.
        owner: What messages call what it belongs to.

    Raises:
        ValueError: A key breaks the grammar or is reserved for the protocol, or ``traceparent`` is
            none.
        TypeError: A key, or the value of a key of trace context, is no text.
    """
    for key, value in meta.items():
        if not isinstance(key, str):
            raise TypeError(f"{owner}: the keys of meta are strings, not {type(key).__name__}")
        prefix, slash, name = key.rpartition("/")
        wrong = f"{owner}: the meta key {key!r}"
        if not re.match(_NAME, name) or (slash and not re.match(_PREFIX, prefix)):
            raise ValueError(f"{wrong} breaks the grammar: write it like com.example/name")
        if is_reserved(prefix) and key not in DEFINED_KEYS:
            raise ValueError(
                f"{wrong} is reserved for the protocol: use a prefix of your own, like com.example/"
            )
        if key in TRACE_KEYS and not isinstance(value, str):
            raise TypeError(f"{owner}: {key} is text, not {type(value).__name__}")
        if key == "traceparent" and not re.match(_TRACE_PARENT, value):
            raise ValueError(
                f"{owner}: traceparent is written 00-<32 digits>-<16 digits>-<2 digits>, not "
                f"{value!r}"
            )


def is_reserved(prefix: str) -> bool:
    """Whether a prefix belongs to the protocol by the rule of any revision.

    The newest rules look at the second label only (``dev.mcp``), an earlier one at every label but
    the last (``mcp.dev``).
    """
    labels = prefix.lower().split(".")
    return not {"mcp", "modelcontextprotocol"}.isdisjoint([*labels[:-1], *labels[1:2]])


def check_identifier(identifier: Any, owner: str) -> None:
    """Refuse what cannot be the identifier of an extension: ``com.example/x``. Reserved prefixes
    may be declared.

    Args:
        identifier: What was given.
        owner: What messages call what it belongs to.

    Raises:
        ValueError: It breaks the grammar, or has no prefix.
        TypeError: It is no text.
    """
    if not isinstance(identifier, str):
        raise TypeError(
            f"{owner}: the identifier of an extension is a str, not {type(identifier).__name__}"
        )
    prefix, slash, name = identifier.partition("/")
    if not (slash and name and re.match(_PREFIX, prefix) and re.match(_NAME, name)):
        raise ValueError(
            f"{owner}: {identifier!r} is no identifier of an extension: write it like "
            "com.example/name"
        )


def check_extensions(given: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Extensions as an author declares them: from identifiers to settings. None declares none.

    Raises:
        ValueError: An identifier is none.
        TypeError: An identifier is no text, or the settings are no object.
    """
    checked = {}
    for identifier, settings in (given or {}).items():
        check_identifier(identifier, "extensions")
        if not isinstance(settings, Mapping):
            raise TypeError(
                f"extensions: the settings of {identifier!r} are an object: write {{}} for none"
            )
        checked[identifier] = dict(settings)
    return checked
