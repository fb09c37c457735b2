"""Values that travel as text: what a text stands for, and which texts a type has.

The variables of a URI and the arguments of a prompt are text on the wire, whatever their parameters' types are.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Optional

from ..protocol.messages import Json, to_json
from ..schema.kinds import Kind
from ..schema.mismatch import Mismatch

_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None, "": None}


def value_of(text: str, kind: Kind) -> Json:
    """The JSON value that a text stands for; the text itself when it stands for none that fits.

    A text that fits as it is stays text: "5" for ``Union[int, str]``.
    """
    for value in _readings(text):
        if type(value) in kind.accepts and _fits(value, kind):
            return value
    return text


def _readings(text: str) -> Iterator[Json]:
    yield text
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    elif text[0] in '-0123456789[{' and text[-1] in '0123456789]}':  # without the blanks that JSON would allow
        try:
            yield json.loads(text)
        except (ValueError, RecursionError):
            pass


def _fits(value: Json, kind: Kind) -> bool:
    try:
        kind.read(value)
    except Mismatch:
        return False
    return True


def choices_of(schema: Mapping[str, Any]) -> Optional[list[str]]:
    """All texts that stand for a value of this schema; None when there are too many to name."""
    if "enum" in schema:
        return [_text(value) for value in schema["enum"] if value is not None]
    if "const" in schema:
        return [_text(schema["const"])]
    if schema.get("type") == "boolean":
        return ["true", "false"]
    parts = [choices_of(each) for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    texts = [text for part in parts for text in part or ()]
    return list(dict.fromkeys(texts)) if parts and None not in parts else None


def _text(value: Json) -> str:
    return value if isinstance(value, str) else to_json(value)
