"""Forms: the flat objects that a user may be asked to fill in, from a JSON Schema, a class or typed names.

Which client may be asked, and how a form travels, is not known here.
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import datetime
import logging
import re
from typing import Any, Mapping, Optional, Sequence, TypedDict, Union

from ..errors import one_line
from .annotations import kind_of
from .checker import LABELS, compile_validator
from .kinds import CLASSES, JSON_TYPES, Convert, Field, Kind, record_reader
from .mismatch import Mismatch, listed

log = logging.getLogger("minimcp.forms")

Schema = Union[Mapping[str, Any], type]
"""What an author gives as a form."""

_SHOWN = ("type", "title", "description", "default")
_WORDS: dict[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "format", "pattern", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
}
"""What a field of each type may say beside `_SHOWN`."""

_AT_THE_ROOT = ("type", "properties", "required", "$schema",
                "title", "description", "additionalProperties", "$defs", "$id", "$comment")
"""Those of the second line are not sent."""

_FORMATS: dict[str, Convert] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch,
    "date": CLASSES[datetime.date].read,
    "date-time": CLASSES[datetime.datetime].read,
}
"""What finds nothing in a text of another format, or raises Mismatch for it."""

_CHOICES = 'choices are strings, as in Literal["a", "b"] or an Enum with string values'
_LIST = ': write list[Literal["a", "b"]], or list[...] of an Enum with string values'
_INSTEAD = {"enum": f": {_CHOICES}", "uniqueItems": ": write list[...]"}
"""What to write in place of a word that types lead to and forms do not have."""

_SECRETS = re.compile(r"passw(or)?d|passphrase|secret|api_?key|token|credential|cvv|\bpin\b", re.IGNORECASE)


class Form:
    """What a user fills in. Immutable by convention, thread-safe.

    Args:
        properties: The fields, in the newest shape of the protocol.
        required: Names of those that must be filled in.
        read: From the object that came, without unknown members, to what the author gets. Raises Mismatch.
            None makes a dict of the fields.
        defaults: What `read` is given for fields that were left out, by name; None takes what the fields say.
        dialect: The schema's own ``$schema``; None sends none.

    Raises:
        TypeError: A field is of no kind that a form can have.
        ValueError: What a field says contradicts itself.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        required: Sequence[str],
        read: Optional[Convert] = None,
        defaults: Optional[Mapping[str, Any]] = None,
        dialect: Optional[str] = None,
    ) -> None:
        fields = []
        for name, given in properties.items():
            try:
                fields.append(Field(name, name in required, _kind(given)))
            except (TypeError, ValueError) as error:
                raise (TypeError if isinstance(error, TypeError) else ValueError)(f"field {name!r}: {error}") from None
            if _SECRETS.search(name):
                log.warning("a form asks for %s: secrets are asked for by URL, never by a form", one_line(name))
        unknown = [name for name in required if name not in properties]
        if unknown:
            raise ValueError(f"the form requires {unknown[0]!r}, which is none of its fields")
        self._properties = {field.name: field.kind.schema for field in fields}
        self._required, self._dialect, self._read = list(required), dialect, read or record_reader(fields, dict)
        says = {name: field["default"] for name, field in self._properties.items() if "default" in field}
        self._defaults = says if defaults is None else defaults
        self.names = list(self._properties)
        self.has_lists = any(field["type"] == "array" for field in self._properties.values())
        """Whether a field takes several of its choices."""

    def to_wire(self, *, full: bool = True) -> dict[str, Any]:
        """The schema for the client.

        Args:
            full: Whether it knows titled choices, patterns, and defaults of any type; False leaves out what it does
                not know and writes titles the older way.
        """
        fields = {name: field if full else _older(field) for name, field in self._properties.items()}
        dialect = {"$schema": self._dialect} if full and self._dialect is not None else {}
        required = {"required": self._required} if self._required else {}
        return {**dialect, "type": "object", "properties": fields, **required}

    def read(self, content: Any) -> Any:
        """What the user filled in: a dict, or an instance of the class. A field left out has its default, if any.

        Raises:
            Mismatch: It does not fit; the message names the field.
        """
        if type(content) is not dict:
            raise Mismatch("an object with the fields of the form", content)
        known = {name: content[name] for name in self.names if name in content}
        return self._read({**self._defaults, **known})


def form_of(schema: Any) -> Form:
    """The form that an author describes.

    Args:
        schema: A JSON Schema of a flat object; a dataclass (or another class with fields); or a mapping of names to
            types, all of which have to be filled in. A field that may be None need not be.

    Raises:
        TypeError: It is none of these, or a field has no place in a form.
        ValueError: The schema contradicts itself.
    """
    if isinstance(schema, type):
        return _of_class(schema)
    if not isinstance(schema, Mapping):
        raise TypeError(f"a form is a JSON Schema, a dataclass or a mapping of names to types, not {schema!r:.80}")
    says, properties = schema.get("type"), schema.get("properties")
    if isinstance(says, list) or says in (*_WORDS, "object", "null") or isinstance(properties, Mapping):
        return _of_schema(schema)
    for name, annotation in schema.items():
        if not isinstance(name, str) or isinstance(annotation, (Mapping, list)):
            raise TypeError(f"field {name!r}: a name and a type, such as {{'age': int}}, or a whole JSON Schema")
    return _of_class(TypedDict("Form", dict(schema)))  # type: ignore[operator]


def _of_schema(schema: Mapping[str, Any]) -> Form:
    says = schema.get("type", "object")
    if says != "object":
        raise ValueError(f"a form's schema is an object with properties, not of the type {says!r:.60}")
    odd = [word for word in schema if word not in _AT_THE_ROOT]
    if odd:
        raise ValueError(f"a form is a flat object: it cannot say {odd[0]!r}")
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if isinstance(required, str) or not all(isinstance(name, str) for name in required):
        raise TypeError("required is a list of names")
    if not isinstance(properties, Mapping):
        raise TypeError("properties is an object of fields")
    fields = {name: _inlined(field, schema) for name, field in properties.items()}
    return Form(fields, required, dialect=schema.get("$schema"))


def _of_class(cls: type) -> Form:
    kind = kind_of(cls)
    schema = _inlined(kind.schema, kind.schema)
    if schema.get("type") != "object" or "properties" not in schema:
        raise TypeError(f"{cls.__qualname__} is no class with fields: a form has at least one, by name")
    fields = {name: _inlined(field, kind.schema) for name, field in schema["properties"].items()}
    needed = schema.get("required", ())
    empty = {name: None for name in needed if _NULL in fields[name].get("anyOf", ())}
    required = [name for name in needed if name not in empty]
    return Form({name: _without_none(field) for name, field in fields.items()}, required, kind.read, empty)


def _inlined(field: Any, schema: Mapping[str, Any]) -> Any:
    """A field; where it refers to one of the schema's own definitions, that."""
    if not isinstance(field, Mapping) or not str(field.get("$ref", "")).startswith("#/$defs/"):
        return field
    own = {word: value for word, value in field.items() if word != "$ref"}
    return {**schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2], {}), **own}


# ------------------------------------------------------------ one field

_NULL = {"type": "null"}


def _without_none(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field that may be None, as a form has it: the user may leave it empty."""
    others = [part for part in field.get("anyOf", ()) if part != _NULL]
    if others == list(field.get("anyOf", ())):
        return field
    own = {word: value for word, value in field.items() if word != "anyOf" and (word, value) != ("default", None)}
    return {**others[0], **own} if len(others) == 1 else {**own, "anyOf": others}


def _kind(given: Any) -> Kind:
    """A field that says only what the protocol's forms know. Raises TypeError and ValueError for any other."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a field is an object of words, not {given!r:.60}")
    field = _with_enum(given)
    if isinstance(field.get("items"), Mapping):
        field["items"] = _with_enum(field["items"])
    kind = field.get("type")
    if not isinstance(kind, str) or kind not in _WORDS:
        raise TypeError(_CHOICES if "enum" in field else f"a form has {listed(_WORDS)} fields, flat ones, and no other")
    odd = next((word for word in field if word not in _WORDS[kind] and word not in _SHOWN), None)
    if odd is not None:
        article = "an" if kind in ("array", "integer") else "a"
        raise TypeError(f"{article} {kind} field of a form cannot say {odd!r}{_INSTEAD.get(odd, '')}")
    if field.get("format", "email") not in _FORMATS:
        raise TypeError(f"a format is {listed(_FORMATS)}, not {field['format']!r}")
    checked = {word: value for word, value in field.items() if word not in ("default", "oneOf", "enumNames", "format")}
    choices = _choices(field)
    if choices is not None:
        checked.update({"items": {"enum": choices}} if kind == "array" else {"enum": choices})
    validate = compile_validator(checked, where="its schema")

    def read(value: Any) -> Any:
        validate(value)
        try:
            fits = "format" not in field or _FORMATS[field["format"]](value)
        except Mismatch:
            fits = False
        if not fits:
            raise Mismatch(f"a text of the format {field['format']}", value)
        return int(value) if kind == "integer" else value

    try:
        if "default" in field:
            read(field["default"])
    except Mismatch as error:
        raise ValueError(f"its default does not fit: {error}") from None
    return Kind(field, read, read, LABELS[kind], JSON_TYPES)


def _with_enum(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A single choice, written as one of a list with one."""
    made = dict(schema)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    return made


def _choices(field: Mapping[str, Any]) -> Optional[list[Any]]:
    """The values that a field, or an item of its list, may have; None if any. Raises TypeError and ValueError."""
    is_list = field["type"] == "array"
    source = field.get("items") if is_list else field
    if not isinstance(source, Mapping) or (is_list and set(source) - {"type", "enum", "anyOf"}):
        raise TypeError(f"a list of a form is one of choices: items has enum or anyOf{_LIST}")
    titled, choices = source.get("anyOf" if is_list else "oneOf"), source.get("enum")
    if titled is not None:
        if choices is not None:
            raise ValueError("choices are given once")
        if not isinstance(titled, (list, tuple)):
            raise TypeError("titled choices are a list of {const, title}")
        for each in titled:
            if not isinstance(each, Mapping) or set(each) != {"const", "title"} or not isinstance(each["title"], str):
                raise TypeError("titled choices are each an object with const and title")
        choices = [each["const"] for each in titled]
    if choices is None:
        if is_list or "enumNames" in field:
            raise TypeError(f"its choices are missing{_LIST if is_list else ''}")
        return None
    if not choices or not all(isinstance(choice, str) for choice in choices) or len(set(choices)) != len(choices):
        raise TypeError(f"{_CHOICES}; at least one, each once")
    names = field.get("enumNames", choices)
    if not isinstance(names, list) or len(names) != len(choices) or not all(isinstance(each, str) for each in names):
        raise ValueError("enumNames is a list with a name for each choice")
    return list(choices)


def _older(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field for a client that knows only the oldest shape: names beside choices, and defaults of booleans."""
    dropped = ("pattern", "oneOf") if field["type"] == "boolean" else ("pattern", "oneOf", "default")
    older = {word: value for word, value in field.items() if word not in dropped}
    if "oneOf" in field:
        older["enum"] = [each["const"] for each in field["oneOf"]]
        older["enumNames"] = [each["title"] for each in field["oneOf"]]
    return older
