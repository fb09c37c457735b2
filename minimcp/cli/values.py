"""Schemas on a command line: ``key=value`` made into what a schema asks for, and a schema in a few words."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, Callable, Mapping, Sequence

from . import UsageError

TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

IMPLIED = {"properties": "object", "items": "array", "prefixItems": "array"}
"""Keywords of schemas that leave out the type."""

FORMATS = {"date": "date", "time": "time", "date-time": "date and time"}
"""Formats that are shown in place of the type "string"."""

MOST_REFERENCES = 20
"""How many ``$ref`` in a row are followed before a schema counts as circular."""


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
        name, text = split_pair(pair)
        texts.setdefault(name, []).append(text)
    known = properties(schema)
    return {name: read_texts(name, given, known.get(name), schema) for name, given in texts.items()}


def split_pair(pair: str) -> tuple[str, str]:
    """``key=value`` as key and value.

    Raises:
        UsageError: It is something else.
    """
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{pair!r} is not key=value")
    return name, text


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
    try:
        if len(texts) == 1:
            return _coerced(texts[0], schema, root)
        wanted = resolved(schema, root)
        lists = [each for each in _branches(wanted, root) or [wanted] if "array" in (_types(each) or ["array"])]
        if not lists:
            raise _Unfit("one value")
        return [_coerced(text, lists[0].get("items"), root) for text in texts]
    except _Unfit as error:
        raise UsageError(f"{name}: expected {error}, got {', '.join(map(repr, texts))}") from None
    except RecursionError:
        return _json_or_text(texts[0])  # a circular schema says nothing


def read_object(text: str, origin: str) -> dict[str, Any]:
    """Arguments given as one JSON object.

    Args:
        text: The JSON.
        origin: Where it comes from, for the message.

    Raises:
        UsageError: It is no JSON object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: a JSON object was expected, such as {{\"name\": 1}}")
    return value


def resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """A schema behind its local references; an empty one when there is none or it cannot be found."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            schema = schema.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
    return {}


def properties(schema: Any) -> Mapping[str, Any]:
    """The schemas of an object's fields, by name."""
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def required(schema: Any) -> list[str]:
    """The names of the fields that an object must have."""
    value = schema.get("required") if isinstance(schema, Mapping) else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _branches(schema: Mapping[str, Any], root: Any) -> list[Mapping[str, Any]]:
    """The schemas of ``anyOf`` or ``oneOf``."""
    found = [schema[word] for word in ("anyOf", "oneOf") if isinstance(schema.get(word), list)]
    return [resolved(each, root) for each in (found[0] if found else [])]


def _types(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type", [name for word, name in IMPLIED.items() if word in schema])
    return [named] if isinstance(named, str) else [str(each) for each in named] if isinstance(named, list) else []


# ------------------------------------------------------------ from text to a value


def _coerced(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that a text stands for.

    Raises:
        _Unfit: It stands for nothing of that kind; the message says what was expected.
    """
    schema = resolved(schema, root)
    branches = _branches(schema, root)
    if branches:
        failures = []
        for branch in sorted(branches, key=lambda each: "string" in _types(each) and "enum" not in each):
            try:
                return _coerced(text, branch, root)
            except _Unfit as error:
                failures.append(str(error))
        raise _Unfit(" or ".join(failures))
    if isinstance(schema.get("allOf"), list):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged.update(resolved(part, root))
        return _coerced(text, {**merged, **{word: schema[word] for word in schema if word != "allOf"}}, root)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(listed, list):
        shown = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in listed]
        if text not in shown:
            raise _Unfit(shown[0] if len(shown) == 1 else "one of " + ", ".join(shown))
        return listed[shown.index(text)]
    types = _types(schema)
    for name in sorted(types, key="string".__eq__):
        with suppress(ValueError, KeyError):  # it is none of this type
            value = READERS.get(name, _json_or_text)(text)
            if name == "array" and not isinstance(value, list):
                return [_coerced(text, schema.get("items"), root)]
            if name != "object" or isinstance(value, dict):
                return value
    if types:
        raise _Unfit(" or ".join(types))
    return _json_or_text(text)


def _number(text: str) -> float:
    with suppress(ValueError):
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "number": _number,
    "boolean": lambda text: TRUTH[text.lower()],
    "null": lambda text: {"": None, "null": None}[text],
}
"""How a text becomes a value, by the type that the schema names; ValueError or KeyError when it is none."""


# ------------------------------------------------------------ a schema in a few words


def parameters(schema: Any, root: Mapping[str, Any], deep: bool = True, most: int = 8) -> str:
    """The fields of an object as Python would declare them: ``bread: string, loaves: integer = 1, [note: string]``.

    Args:
        schema: Of the object.
        root: Where references in it point to.
        deep: Whether the fields of objects in it are named.
        most: Levels that are shown; a schema may be circular.
    """
    shown = []
    for name, field in properties(schema).items():
        words = f"{name}: {kind(field, root, deep, most)}"
        if isinstance(field, Mapping) and "default" in field:
            words += f" = {json.dumps(field['default'], ensure_ascii=False)}"
        elif name not in required(schema):
            words = f"[{words}]"
        shown.append(words)
    return ", ".join(shown)


def kind(schema: Any, root: Mapping[str, Any] = {}, deep: bool = True, most: int = 8) -> str:
    """A schema in a few words: "string", "integer or null", "one of 1, 2"; "any" when it says nothing simple.

    Args as `parameters`.
    """
    schema = resolved(schema, root) if most else {}
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    branches = _branches(schema, root)
    if branches:
        return " or ".join(kind(each, root, deep, most - 1) for each in branches)
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    if named == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {kind(schema['items'], root, deep, most - 1)}"
    if deep and properties(schema):
        return f"object ({parameters(schema, root, False, most - 1)})"
    if named == "string":
        return FORMATS.get(str(schema.get("format")), "string")
    return named if isinstance(named, str) else "any"
