"""Forms: the flat objects that a user may be asked to fill in, from a JSON Schema, a class or typed names.

Which client may be asked, and how a form travels, is not known here.
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import datetime
import logging
import re
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, TypedDict, Union

from ..errors import one_line
from .annotations import kind_of
from .checker import compile_validator
from .kinds import CLASSES, Convert
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

_AT_THE_ROOT = ("type", "properties", "required", "$schema")
_DROPPED_AT_THE_ROOT = ("title", "description", "additionalProperties", "$defs", "$id", "$comment")

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
        dialect: Optional[str] = None,
    ) -> None:
        self._properties: dict[str, dict[str, Any]] = {}
        self._readers: dict[str, Convert] = {}
        self._required, self._dialect, self._read = list(required), dialect, read or self._as_dict
        for name, given in properties.items():
            try:
                self._properties[name] = _field(given)
                self._readers[name] = _reader(self._properties[name])
            except (TypeError, ValueError) as error:
                raise (TypeError if isinstance(error, TypeError) else ValueError)(f"field {name!r}: {error}") from None
            if _SECRETS.search(name):
                log.warning("a form asks for %s: secrets are asked for by URL, never by a form", one_line(name))
        unknown = [name for name in required if name not in self._properties]
        if unknown:
            raise ValueError(f"the form requires {unknown[0]!r}, which is none of its fields")

    @property
    def names(self) -> list[str]:
        """The names of its fields."""
        return list(self._properties)

    @property
    def has_lists(self) -> bool:
        """Whether a field takes several of its choices."""
        return any(field["type"] == "array" for field in self._properties.values())

    def to_wire(self, *, full: bool = True) -> dict[str, Any]:
        """The schema for the client.

        Args:
            full: Whether it knows titled choices, patterns, and defaults of any type; False leaves out what it does
                not know and writes titles the older way.
        """
        fields = {name: field if full else _older(field) for name, field in self._properties.items()}
        schema: dict[str, Any] = {"type": "object", "properties": fields}
        if self._required:
            schema["required"] = self._required
        return {"$schema": self._dialect, **schema} if full and self._dialect is not None else schema

    def read(self, content: Any) -> Any:
        """What the user filled in: a dict, or an instance of the class. A field left out has its default, if any.

        Raises:
            Mismatch: It does not fit; the message names the field.
        """
        if type(content) is not dict:
            raise Mismatch("an object with the fields of the form", content)
        return self._read({name: content[name] for name in self._properties if name in content})

    def _as_dict(self, content: dict[str, Any]) -> dict[str, Any]:
        missing = [repr(name) for name in self._required if name not in content]
        if missing:
            raise Mismatch("", content, instead=f"{listed(missing, 'and')} not filled in")
        defaults = {name: field["default"] for name, field in self._properties.items() if "default" in field}
        found = {}
        for name, reader in self._readers.items():
            if name in content or name in defaults:
                try:
                    found[name] = reader(content.get(name, defaults.get(name)))
                except Mismatch as error:
                    raise error.inside(name) from None
        return found

    def __repr__(self) -> str:
        return f"<Form {', '.join(self.names)}>"


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
    return _of_types(schema)


def _of_schema(schema: Mapping[str, Any]) -> Form:
    says = schema.get("type", "object")
    if says != "object":
        raise ValueError(f"a form's schema is an object with properties, not of the type {says!r:.60}")
    odd = [word for word in schema if word not in _AT_THE_ROOT and word not in _DROPPED_AT_THE_ROOT]
    if odd:
        raise ValueError(f"a form is a flat object: it cannot say {odd[0]!r}")
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if isinstance(required, str) or not all(isinstance(name, str) for name in required):
        raise TypeError("required is a list of names")
    if not isinstance(properties, Mapping):
        raise TypeError("properties is an object of fields")
    fields = {name: _inlined(field, schema) for name, field in properties.items()}
    return Form(fields, list(required), dialect=schema.get("$schema"))


def _of_types(types: Mapping[Any, Any]) -> Form:
    for name, annotation in types.items():
        if not isinstance(name, str) or isinstance(annotation, (Mapping, list)):
            raise TypeError(f"field {name!r}: a name and a type, such as {{'age': int}}, or a whole JSON Schema")
    return _of_class(TypedDict("Form", dict(types)))  # type: ignore[operator]


def _of_class(cls: type) -> Form:
    kind = kind_of(cls)
    schema = _inlined(kind.schema, kind.schema)
    if schema.get("type") != "object" or "properties" not in schema:
        raise TypeError(f"{cls.__qualname__} is no class with fields: a form has at least one, by name")
    fields = {name: _inlined(field, kind.schema) for name, field in schema["properties"].items()}
    needed = schema.get("required", [])
    empty = {name: None for name in needed if _may_be_none(fields[name])}
    required = [name for name in needed if name not in empty]
    without_none = {name: _without_none(field) for name, field in fields.items()}
    return Form(without_none, required, lambda content: kind.read({**empty, **content}))


def _inlined(field: Any, schema: Mapping[str, Any]) -> Any:
    """A field; where it refers to one of the schema's own definitions, that."""
    if not isinstance(field, Mapping) or not str(field.get("$ref", "")).startswith("#/$defs/"):
        return field
    own = {word: value for word, value in field.items() if word != "$ref"}
    return {**schema.get("$defs", {}).get(field["$ref"].rpartition("/")[2], {}), **own}


# ------------------------------------------------------------ one field


def _may_be_none(field: Mapping[str, Any]) -> bool:
    return {"type": "null"} in field.get("anyOf", ())


def _without_none(field: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field that may be None, as a form has it: the user may leave it empty."""
    if not _may_be_none(field):
        return field
    others = [part for part in field["anyOf"] if part != {"type": "null"}]
    own = {word: value for word, value in field.items() if word != "anyOf" and (word, value) != ("default", None)}
    return {**others[0], **own} if len(others) == 1 else {**own, "anyOf": others}


def _field(given: Any) -> dict[str, Any]:
    """A field, checked: only what the protocol's forms know. Raises TypeError and ValueError."""
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
    _refuse_choices(field)
    return field


def _with_enum(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A single choice, written as one of a list with one."""
    made = dict(schema)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    return made


def _refuse_choices(field: Mapping[str, Any]) -> None:
    is_list = field["type"] == "array"
    source = field.get("items") if is_list else field
    if not isinstance(source, Mapping) or (is_list and set(source) - {"type", "enum", "anyOf"}):
        raise TypeError(f"a list of a form is one of choices: items has enum or anyOf{_LIST}")
    if "enum" in source and ("oneOf" in source or "anyOf" in source):
        raise ValueError("choices are given once")
    choices = _choices(source)
    if choices is None:
        if is_list or "enumNames" in field:
            raise TypeError(f"its choices are missing{_LIST if is_list else ''}")
        return
    if not choices or not all(isinstance(choice, str) for choice in choices) or len(set(choices)) != len(choices):
        raise TypeError(f"{_CHOICES}; at least one, each once")
    names = field.get("enumNames", choices)
    if not isinstance(names, list) or len(names) != len(choices) or not all(isinstance(each, str) for each in names):
        raise ValueError("enumNames is a list with a name for each choice")


def _choices(source: Mapping[str, Any]) -> Optional[list[Any]]:
    titled = source.get("oneOf", source.get("anyOf"))
    if titled is None:
        return list(source["enum"]) if source.get("enum") is not None else None
    if not isinstance(titled, (list, tuple)):
        raise TypeError("titled choices are a list of {const, title}")
    for each in titled:
        if not isinstance(each, Mapping) or set(each) != {"const", "title"} or not isinstance(each["title"], str):
            raise TypeError("titled choices are each an object with const and title")
    return [each["const"] for each in titled]


def _reader(field: Mapping[str, Any]) -> Convert:
    """Reads a value of a field; Mismatch for what does not fit. Raises ValueError when its default does not."""
    schema = {word: value for word, value in field.items() if word not in ("default", "oneOf", "enumNames", "format")}
    choices = _choices(field["items"] if field["type"] == "array" else field)
    if choices is not None:
        schema.update({"items": {"enum": choices}} if field["type"] == "array" else {"enum": choices})
    validate = compile_validator(schema, where="its schema")

    def read(value: Any) -> Any:
        validate(value)
        if "format" in field and not _FORMATS[field["format"]](value):
            raise Mismatch(f"a text of the format {field['format']}", value)
        return int(value) if field["type"] == "integer" else value

    if "default" in field:
        try:
            read(field["default"])
        except Mismatch as error:
            raise ValueError(f"its default does not fit: {error}") from None
    return read


def _fits(cls: type, text: str) -> bool:
    try:
        CLASSES[cls].read(text)
        return True
    except Mismatch:
        return False


_FORMATS: dict[str, Callable[[str], Any]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch,
    "date": partial(_fits, datetime.date),
    "date-time": partial(_fits, datetime.datetime),
}


def _older(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field for a client that knows only the oldest shape: names beside choices, and defaults of booleans."""
    dropped = ("pattern", "oneOf") if field["type"] == "boolean" else ("pattern", "oneOf", "default")
    older = {word: value for word, value in field.items() if word not in dropped}
    if "oneOf" in field:
        older["enum"] = [each["const"] for each in field["oneOf"]]
        older["enumNames"] = [each["title"] for each in field["oneOf"]]
    return older
