"""Forms: flat objects for the user to fill in, from a JSON Schema, a class or a mapping of types.

This module does not know how a form is sent.
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, TypedDict, Union

from ..log import logger
from .annotations import kind_of, write_any
from .checker import compile_check, compile_require
from .kinds import Convert, Field, Kind, record_reader
from .mismatch import Mismatch, join_words
from .values import JSON_TYPES, LABELS

log = logger("minimcp.forms")

# A form as an author writes it.
Schema = Union[Mapping[str, Any], type]

_FORMATS = ["email", "uri", "date", "date-time"]  # in `classes.FORMATS`

_TEXT = {"type": "string"}
_ANY = True
_CHOICES = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
_CHOICE = {
    "type": "object",
    "properties": {"const": _TEXT, "title": _TEXT},
    "additionalProperties": False,
}
_TITLED = {"type": "array", "items": {**_CHOICE, "required": ["const", "title"]}, "minItems": 1}
_ITEMS = {"type": _TEXT, "enum": _CHOICES, "anyOf": _TITLED}
_SHOWN = {"type": _TEXT, "title": _TEXT, "description": _TEXT, "default": _ANY}
# The keywords that a field of each type may have. Values that are `_ANY` here are checked when the
# field's own schema is compiled.
_FIELDS: dict[str, dict[str, Any]] = {
    "string": {
        **_SHOWN, "minLength": _ANY, "maxLength": _ANY, "pattern": _ANY,
        "format": {"enum": _FORMATS},
        "enum": _CHOICES, "enumNames": {"type": "array", "items": _TEXT}, "oneOf": _TITLED,
    },
    "number": {**_SHOWN, "minimum": _ANY, "maximum": _ANY},
    "integer": {**_SHOWN, "minimum": _ANY, "maximum": _ANY},
    "boolean": _SHOWN,
    "array": {
        **_SHOWN, "minItems": _ANY, "maxItems": _ANY,
        "items": {"type": "object", "properties": _ITEMS, "additionalProperties": False},
    },
}  # fmt: skip

_ROOT = {
    "type": {"const": "object"}, "$schema": _TEXT, "required": {"type": "array", "items": _TEXT},
    "properties": {"type": "object", "additionalProperties": {"type": "object"}},
    # not sent
    **dict.fromkeys(("title", "description", "additionalProperties", "$defs", "$id", "$comment"),
    _ANY),
}  # fmt: skip

_ADVICE = (
    '; choices are strings: Literal["a", "b"] or an Enum with string values, or list[...] '
    "of that for several"
)

_NULL = {"type": "null"}
_typed_dict: Any = TypedDict
_SECRETS = r"(?i)passw(or)?d|passphrase|secret|api_?key|token|credential|cvv|\bpin\b"


class Form:
    """A form for the user. Immutable by convention, thread-safe.

    Args:
        schema: JSON Schema of a flat object. The user may omit fields that may be null.
        read: Converts the received object, without unknown members, to the author's value. Raises
            Mismatch. None means a new dict of the fields.

    Raises:
        TypeError: A field has a type that forms do not support.
        ValueError: The schema is not that of a flat object, or contradicts itself.
    """

    def __init__(self, schema: Mapping[str, Any], read: Optional[Convert] = None) -> None:
        error = _misfit(schema, _ROOT)
        if error is not None:
            raise ValueError(
                f"a form's schema must describe a flat object with properties: {error}"
            )
        needed = schema.get("required", [])
        fields = []
        # The values of omitted fields.
        self._defaults: dict[str, Any] = {}
        for name, given in schema.get("properties", {}).items():
            field = _flat(given, schema.get("$defs", {}))
            nullable = _NULL in given.get("anyOf", ())
            if "default" in field or (nullable and name in needed):
                self._defaults[name] = field.get("default")
            try:
                fields.append(Field(name, name in needed and not nullable, _kind(field)))
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"field {name!r}: {error}") from None
            if re.search(_SECRETS, name):
                log.warning("a form requests %s: request secrets by URL, never by a form", name)
        self._properties = {field.name: field.kind.schema for field in fields}
        self._required = [field.name for field in fields if field.required]
        self._dialect = schema.get("$schema")
        self._read = read or record_reader(fields, dict)
        unknown = [name for name in needed if name not in self._properties]
        if unknown:
            raise ValueError(f"the form requires {unknown[0]!r}, which is not one of its fields")
        types = {field["type"] for field in self._properties.values()}
        # Whether a field accepts several of its choices.
        self.has_lists = "array" in types
        self.has_booleans = "boolean" in types

    def to_wire(self, *, full: bool = True) -> dict[str, Any]:
        """Return the schema for the client.

        Args:
            full: Whether the client supports titled choices, patterns and defaults of any type. If
                False, these are omitted, and titles are written in the older form.
        """
        fields = {
            name: field if full else _older(field) for name, field in self._properties.items()
        }
        dialect = {"$schema": self._dialect} if full and self._dialect is not None else {}
        required = {"required": self._required} if self._required else {}
        return {**dialect, "type": "object", "properties": fields, **required}

    def read(self, content: Any) -> Any:
        """Return the received content as a dict or an instance of the class. Omitted fields have
        their default, if any.

        Raises:
            Mismatch: The content does not match; the message names the field.
        """
        if type(content) is not dict:
            raise Mismatch("an object with the fields of the form", content)
        known = {name: content[name] for name in self._properties if name in content}
        return self._read({**self._defaults, **known})


def form_of(schema: Any) -> Form:
    """Return the form that an author describes.

    Args:
        schema: A JSON Schema of a flat object, a dataclass (or another class with fields), or a
            mapping of names to types. All fields are required unless they may be None.

    Raises:
        TypeError: The schema is none of these, or a field is not supported in forms.
        ValueError: The schema contradicts itself.
    """
    if not isinstance(schema, (type, Mapping)):
        raise TypeError(
            "a form must be a JSON Schema, a dataclass or a mapping of names to types, not "
            f"{schema!r:.80}"
        )
    cls: Any = schema
    if isinstance(schema, Mapping):
        given = schema.get("type")
        is_schema = isinstance(given, list) or given in tuple(LABELS)
        if is_schema or isinstance(schema.get("properties"), Mapping):
            return Form(write_any(dict(schema)))
        for name, annotation in schema.items():
            if not isinstance(name, str) or isinstance(annotation, (Mapping, list)):
                raise TypeError(
                    f"field {name!r} must be a name and a type, such as {{'age': int}}: or pass a "
                    "complete JSON Schema"
                )
        cls = _typed_dict("Form", dict(schema))
    kind = kind_of(cls)
    whole = _flat(kind.schema, kind.schema.get("$defs", {}))
    if "properties" not in whole:
        raise TypeError(
            f"{cls.__qualname__} is not a class with fields: a form needs at least one field"
        )
    return Form(whole, kind.read)


# ------------------------------------------------------------ one field


def _flat(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field without references and null; a single choice becomes a list with one item."""
    field = {word: rule for word, rule in given.items() if word != "$ref"}
    if str(given.get("$ref", "")).startswith("#/$defs/"):
        field = {**definitions.get(given["$ref"].rpartition("/")[2], {}), **field}
    members = field.get("anyOf", [])
    if _NULL in members and len(members) == 2:
        del field["anyOf"]
        field = {**next(each for each in members if each != _NULL), **field}
        if field.get("default", _NULL) is None:
            del field["default"]
    if "const" in field:
        field["enum"] = [field.pop("const")]
    if isinstance(field.get("items"), dict):
        field["items"] = _flat(field["items"], definitions)
    return field


def _misfit(given: Any, words: Mapping[str, Any]) -> Optional[Mismatch]:
    """Return what is wrong with a schema that may have only these keywords, or None."""
    schema = {"type": "object", "properties": dict(words), "additionalProperties": False}
    return compile_check(schema, where="forms")(given)


def _kind(field: dict[str, Any]) -> Kind:
    """Return the kind of a field. Raise TypeError or ValueError if the protocol's forms do not
    support it."""
    kind = field.get("type")
    advice = "" if {"enum", "items", "uniqueItems"}.isdisjoint(field) else _ADVICE
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise TypeError(f"a form can only have flat {join_words(_FIELDS)} fields{advice}")
    odd = next((word for word in field if word not in _FIELDS[kind]), None)
    if odd is not None:
        raise TypeError(f"a form's field of the type {kind} cannot have {odd!r}{advice}")
    error = _misfit(field, _FIELDS[kind])
    if error is not None:
        raise TypeError(f"{error}{advice}")
    if len(field.get("enumNames", ())) != len(field.get("enum", ())) and "enumNames" in field:
        raise ValueError("enumNames must be a list with a name for each choice")
    if "enum" in field and "oneOf" in field:
        raise ValueError("enum and oneOf cannot be combined: list the choices once")
    if kind == "array" and {"enum", "anyOf"}.isdisjoint(field.get("items", ())):
        raise TypeError(f"its choices are missing{_ADVICE}")
    require = compile_require(field, where="its schema")
    formatted: Optional[Convert] = None
    if "format" in field:
        from .classes import FORMATS, is_rfc_3339  # few forms have one

        formatted = FORMATS[field["format"]].read

    def read(value: Any) -> Any:
        require(value)
        if formatted is not None:
            formatted(value)
        return int(value) if kind == "integer" else value

    try:
        if "default" in field:
            read(field["default"])
            if field.get("format") == "date-time" and not is_rfc_3339(field["default"]):
                wanted = "a date and time with seconds and an offset such as 1969-07-20T09:30:00Z"
                raise Mismatch(wanted, field["default"])
    except Mismatch as error:
        raise ValueError(f"its default does not match: {error}") from None
    return Kind(field, read, read, LABELS[kind], JSON_TYPES)


def _older(field: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field for a client that supports only the oldest form: ``enumNames`` instead of
    titled choices, and defaults of booleans only."""
    dropped = {"pattern", "oneOf"}
    if field["type"] != "boolean":
        dropped.add("default")
    older = {word: value for word, value in field.items() if word not in dropped}
    if "oneOf" in field:
        older["enum"] = [each["const"] for each in field["oneOf"]]
        older["enumNames"] = [each["title"] for each in field["oneOf"]]
    return older
