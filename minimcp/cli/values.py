"""``key=value`` on a command line, made into what a tool's input schema asks for."""

from __future__ import annotations

import json
import math
from typing import Any, Callable, Mapping, Sequence

from .ending import UsageError

TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

CHOICES = ("anyOf", "oneOf")

IMPLIED = {"properties": "object", "items": "array", "prefixItems": "array"}
"""Words of schemas that forget to name the type."""

MOST_REFERENCES = 20
"""How many ``$ref`` in a row are followed before a schema counts as going round in circles."""


class _Unfit(ValueError):
    """The text is none of this type."""


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that ``key=value`` words give; a key that comes several times makes a list.

    Args:
        pairs: The words.
        schema: The tool's input schema. What it does not describe is read as JSON if it is JSON, else as text.

    Raises:
        UsageError: A word has no "=", or its value is not what the schema asks for.
    """
    texts: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{pair!r} is not key=value")
        texts.setdefault(name, []).append(text)
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {name: read_texts(name, given, known.get(name), schema) for name, given in texts.items()}


def read_texts(name: str, texts: Sequence[str], schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that one text stands for, or the list that several are.

    Args:
        name: Of the value, for the message.
        texts: At least one.
        schema: What the value should be.
        root: Where references in it point to.

    Raises:
        UsageError: It is something else.
    """
    wanted = resolved(schema, root)
    try:
        if len(texts) > 1:
            return _several(texts, wanted, root)
        return coerced(texts[0], wanted, root)
    except _Unfit as error:
        raise UsageError(f"{name}: expected {error}, got {', '.join(map(repr, texts))}") from None
    except RecursionError:
        return _json_or_text(texts[0])  # a schema that goes round in circles says nothing


def _several(texts: Sequence[str], schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    branches = [resolved(each, root) for word in CHOICES for each in schema.get(word) or ()] or [schema]
    lists = [each for each in branches if "array" in _types(each) or not _types(each)]
    if not lists:
        raise _Unfit("one value")
    items = resolved(lists[0].get("items"), root)
    return [coerced(text, items, root) for text in texts]


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema behind its local references; an empty one when there is none or it cannot be found."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = _pointed_at(reference, root)
    return {}


def _pointed_at(reference: str, root: Any) -> Any:
    if not reference.startswith("#/"):
        return None
    for part in reference[2:].split("/"):
        if not isinstance(root, Mapping):
            return None
        root = root.get(part.replace("~1", "/").replace("~0", "~"))
    return root


def coerced(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value that a text stands for.

    Args:
        text: As it was typed.
        schema: What the value should be, without ``$ref``.
        root: Where ``$ref`` further down point to.

    Raises:
        ValueError: It stands for nothing of that kind; the message says what was expected.
    """
    for word in CHOICES:
        if isinstance(schema.get(word), list):
            return _first_that_fits(text, [resolved(each, root) for each in schema[word]], root)
    if isinstance(schema.get("allOf"), list):
        return coerced(text, _all_of(schema, root), root)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(listed, list):
        return _one_of(text, listed)
    types = _types(schema)
    if not types:
        return _json_or_text(text)
    for name in sorted(types, key=lambda each: each == "string"):
        try:
            return READERS.get(name, _json_or_text)(text) if name != "array" else _array(text, schema, root)
        except _Unfit:
            pass
    raise _Unfit(" or ".join(types))


def _types(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type", [name for word, name in IMPLIED.items() if word in schema])
    return [named] if isinstance(named, str) else [str(each) for each in named] if isinstance(named, list) else []


def _all_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Schemas that all hold, as one; where two say the same word, the later counts."""
    merged: dict[str, Any] = {}
    for each in schema["allOf"]:
        merged.update(resolved(each, root))
    return {**merged, **{word: value for word, value in schema.items() if word != "allOf"}}


def _first_that_fits(text: str, schemas: Sequence[Mapping[str, Any]], root: Mapping[str, Any]) -> Any:
    failures = []
    for schema in sorted(schemas, key=lambda each: "string" in _types(each) and "enum" not in each):
        try:
            return coerced(text, schema, root)
        except _Unfit as error:
            failures.append(str(error))
    raise _Unfit(" or ".join(failures))


def _one_of(text: str, values: Sequence[Any]) -> Any:
    for value in values:
        if text == value or (not isinstance(value, str) and text == json.dumps(value)):
            return value
    shown = [value if isinstance(value, str) else json.dumps(value) for value in values]
    raise _Unfit(shown[0] if len(shown) == 1 else "one of " + ", ".join(shown))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _Unfit("integer") from None


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        raise _Unfit("number") from None
    if not math.isfinite(number):
        raise _Unfit("number")
    return number


def _boolean(text: str) -> bool:
    if text.lower() not in TRUTH:
        raise _Unfit("boolean")
    return TRUTH[text.lower()]


def _null(text: str) -> None:
    if text not in ("", "null"):
        raise _Unfit("null")


def _object(text: str) -> dict[str, Any]:
    value = _json_or_text(text)
    if not isinstance(value, dict):
        raise _Unfit("object")
    return value


def _array(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any]:
    value = _json_or_text(text) if text.lstrip().startswith("[") else None
    return value if isinstance(value, list) else [coerced(text, resolved(schema.get("items"), root), root)]


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": _object,
}
"""How a text becomes a value, by the type that the schema names."""


def read_object(text: str, origin: str) -> dict[str, Any]:
    """Arguments given as one JSON object.

    Args:
        text: The JSON.
        origin: Where it comes from, for the message.

    Raises:
        UsageError: It is no JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: a JSON object was expected, such as {{\"name\": 1}}")
    return value
