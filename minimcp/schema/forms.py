"""Forms: the flat objects that a user may be asked to fill in, from a JSON Schema, a class or typed
names.

Which client may be asked, and how a form travels, is not known here.
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, TypedDict, Union

from ..log import logger
from .annotations import kind_of, write_any
from .checker import compile_check, compile_require
from .kinds import Convert, Field, Kind, record_reader
from .mismatch import Mismatch, listed
from .values import JSON_TYPES, LABELS

log = logger("minimcp.forms")

# What an author gives as a form.
Schema = Union[Mapping[str, Any], type]

_FORMATS = ["email", "uri", "date", "date-time"]  # in `classes.FORMATS`

_TEXT, _ANY = {"type": "string"}, True
_CHOICES = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
_CHOICE = {
    "type": "object",
    "properties": {"const": _TEXT, "title": _TEXT},
    "additionalProperties": False,
}
_TITLED = {"type": "array", "items": {**_CHOICE, "required": ["const", "title"]}, "minItems": 1}
_ITEMS = {"type": _TEXT, "enum": _CHOICES, "anyOf": _TITLED}
_SHOWN = {"type": _TEXT, "title": _TEXT, "description": _TEXT, "default": _ANY}
# What a field of each type may say. What is any value here is looked at when the field's own check
# is made.
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
    """What a user fills in. Immutable by convention, thread-safe.

    Args:
        schema: JSON Schema of a flat object. The user may leave out what may be null.
        read: From the object that came, without unknown members, to what the author gets. Raises
            Mismatch. None makes a dict of the fields.

    Raises:
        TypeError: A field is of no kind that a form can have.
        ValueError: The schema is none of a flat object, or contradicts itself.
    """

    def __init__(self, schema: Mapping[str, Any], read: Optional[Convert] = None) -> None:
        error = _misfit(schema, _ROOT)
        if error is not None:
            raise ValueError(f"a form's schema is that of a flat object with properties: {error}")
        needed, fields = schema.get("required", []), []
        # What fields that were left out are read as.
        self._defaults: dict[str, Any] = {}
        for name, given in schema.get("properties", {}).items():
            field = _flat(given, schema.get("$defs", {}))
            nullable = _NULL in given.get("anyOf", ())
            if "default" in field or (nullable and name in needed):
                self._defaults[name] = field.get("default")
            try:
                fields.append(Field(name, name in needed and not nullable, _kind(field)))
            except (TypeError, ValueError) as error:
                raise (TypeError if isinstance(error, TypeError) else ValueError)(
                    f"field {name!r}: {error}"
                ) from None
            if re.search(_SECRETS, name):
                log.warning(
                    "a form asks for %s: secrets are asked for by URL, never by a form", name
                )
        self._properties = {field.name: field.kind.schema for field in fields}
        self._required = [field.name for field in fields if field.required]
        self._dialect = schema.get("$schema")
        self._read = read or record_reader(fields, dict)
        unknown = [name for name in needed if name not in self._properties]
        if unknown:
            raise ValueError(f"the form requires {unknown[0]!r}, which is none of its fields")
        # Whether a field takes several of its choices.
        self.has_lists = any(field["type"] == "array" for field in self._properties.values())

    def to_wire(self, *, full: bool = True) -> dict[str, Any]:
        """The schema for the client.

        Args:
            full: Whether it knows titled choices, patterns, and defaults of any type; False leaves
                out what it does not know and writes titles the older way.
        """
        fields = {
            name: field if full else _older(field) for name, field in self._properties.items()
        }
        dialect = {"$schema": self._dialect} if full and self._dialect is not None else {}
        required = {"required": self._required} if self._required else {}
        return {**dialect, "type": "object", "properties": fields, **required}

    def read(self, content: Any) -> Any:
        """What the user filled in: a dict, or an instance of the class. A field left out has its
        default, if any.

        Raises:
            Mismatch: It does not fit; the message names the field.
        """
        if type(content) is not dict:
            raise Mismatch("an object with the fields of the form", content)
        known = {name: content[name] for name in self._properties if name in content}
        return self._read({**self._defaults, **known})


def form_of(schema: Any) -> Form:
    """The form that an author describes.

    Args:
        schema: A JSON Schema of a flat object; a dataclass (or another class with fields); or a
            mapping of names to types, all of which have to be filled in. A field that may be None
            need not be.

    Raises:
        TypeError: It is none of these, or a field has no place in a form.
        ValueError: The schema contradicts itself.
    """
    if not isinstance(schema, (type, Mapping)):
        raise TypeError(
            "a form is a JSON Schema, a dataclass or a mapping of names to types, not "
            f"{schema!r:.80}"
        )
    cls: Any = schema
    if isinstance(schema, Mapping):
        says, properties = schema.get("type"), schema.get("properties")
        if isinstance(says, list) or says in tuple(LABELS) or isinstance(properties, Mapping):
            return Form(write_any(dict(schema)))
        for name, annotation in schema.items():
            if not isinstance(name, str) or isinstance(annotation, (Mapping, list)):
                raise TypeError(
                    f"field {name!r}: a name and a type, such as {{'age': int}}, or a whole JSON "
                    "Schema"
                )
        cls = _typed_dict("Form", dict(schema))
    kind = kind_of(cls)
    whole = _flat(kind.schema, kind.schema.get("$defs", {}))
    if "properties" not in whole:
        raise TypeError(
            f"{cls.__qualname__} is no class with fields: a form has at least one, by name"
        )
    return Form(whole, kind.read)


# ------------------------------------------------------------ one field


def _flat(given: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A field without references and without null, a single choice as one of a list with one."""
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
    """What is wrong with a schema that may say these words."""
    schema = {"type": "object", "properties": dict(words), "additionalProperties": False}
    return compile_check(schema, where="forms")(given)


def _kind(field: dict[str, Any]) -> Kind:
    """A field that says only what the protocol's forms know. Raises TypeError and ValueError for
    any other."""
    kind = field.get("type")
    advice = "" if {"enum", "items", "uniqueItems"}.isdisjoint(field) else _ADVICE
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise TypeError(f"a form has {listed(_FIELDS)} fields, flat ones, and no other{advice}")
    odd = next((word for word in field if word not in _FIELDS[kind]), None)
    if odd is not None:
        raise TypeError(f"a form's field of the type {kind} cannot say {odd!r}{advice}")
    error = _misfit(field, _FIELDS[kind])
    if error is not None:
        raise TypeError(f"{error}{advice}")
    if len(field.get("enumNames", ())) != len(field.get("enum", ())) and "enumNames" in field:
        raise ValueError("enumNames is a list with a name for each choice")
    if "enum" in field and "oneOf" in field:
        raise ValueError("choices are given once")
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
        raise ValueError(f"its default does not fit: {error}") from None
    return Kind(field, read, read, LABELS[kind], JSON_TYPES)


def _older(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field for a client that knows only the oldest shape: names beside choices, and defaults of
    booleans."""
    dropped = (
        ("pattern", "oneOf") if field["type"] == "boolean" else ("pattern", "oneOf", "default")
    )
    older = {word: value for word, value in field.items() if word not in dropped}
    if "oneOf" in field:
        older["enum"] = [each["const"] for each in field["oneOf"]]
        older["enumNames"] = [each["title"] for each in field["oneOf"]]
    return older
