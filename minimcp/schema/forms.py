"""Forms: the flat objects that a user may be asked to fill in, from a JSON Schema, a class or typed names.

Which client may be asked, and how a form travels, is not known here.
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import logging
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ..errors import one_line
from .annotations import kind_of
from .checker import compile_check
from .mismatch import Mismatch, listed

log = logging.getLogger("minimcp.forms")

FORMATS = ("email", "uri", "date", "date-time")

_SHOWN = ("title", "description", "default")
_WORDS: Dict[str, Tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "format", "pattern", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
}
"""What a field of each type may say beside `_SHOWN`."""

_AT_THE_ROOT = ("type", "properties", "required", "$schema")
_DROPPED_AT_THE_ROOT = ("title", "description", "additionalProperties", "$defs", "$id", "$comment")
_FULL_ONLY = ("pattern",)

_CHOICES = 'choices are strings, as in Literal["a", "b"] or an Enum with string values'
_LIST = ': write list[Literal["a", "b"]], or list[...] of an Enum with string values'
_INSTEAD = {"enum": _CHOICES, "uniqueItems": "write list[...]"}
"""What to write in place of a word that types lead to and forms do not have."""

_SECRETS = re.compile(r"passw(or)?d|passphrase|secret|api_?key|token|credential|cvv|\bpin\b", re.IGNORECASE)

_FORMAT_CHECKS: Dict[str, Callable[[str], Any]] = {
    "email": re.compile(r"[^@\s]+@[^@\s]+").fullmatch,
    "uri": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+").fullmatch,
}

Convert = Callable[[Any], Any]


class Form:
    """What a user fills in. Immutable by convention, thread-safe.

    Args:
        properties: The fields, in the newest shape of the protocol.
        required: Names of those that must be filled in.
        read: From the object that came, without unknown members, to what the author gets. Raises Mismatch.
        dialect: The schema's own ``$schema``; None sends none.

    Raises:
        TypeError: A field is of no kind that a form can have.
        ValueError: What a field says contradicts itself.
    """

    __slots__ = ("_properties", "_required", "_read", "_dialect")

    def __init__(
        self,
        properties: Mapping[str, Mapping[str, Any]],
        required: Sequence[str],
        read: Optional[Convert] = None,
        dialect: Optional[str] = None,
    ) -> None:
        self._properties = {name: _field(name, field) for name, field in properties.items()}
        unknown = [name for name in required if name not in self._properties]
        if unknown:
            raise ValueError(f"the form requires {unknown[0]!r}, which is none of its fields")
        self._required, self._dialect = list(required), dialect
        checks = {name: _check_of(name, field) for name, field in self._properties.items()}
        self._read = self._reader(checks) if read is None else read
        for name in self._properties:
            if _SECRETS.search(name):
                log.warning("a form asks for %s: secrets are asked for by URL, never by a form", one_line(name))

    @property
    def names(self) -> List[str]:
        """The names of its fields."""
        return list(self._properties)

    @property
    def has_lists(self) -> bool:
        """Whether a field takes several of its choices."""
        return any(field["type"] == "array" for field in self._properties.values())

    def to_wire(self, *, full: bool = True) -> Dict[str, Any]:
        """The schema for the client.

        Args:
            full: Whether it knows titled choices, patterns, and defaults of any type; False leaves out what it does
                not know and writes titles the older way.
        """
        fields = self._properties if full else {name: _plain(field) for name, field in self._properties.items()}
        schema: Dict[str, Any] = {"type": "object", "properties": fields}
        if self._required:
            schema["required"] = self._required
        if full and self._dialect is not None:
            schema = {"$schema": self._dialect, **schema}
        return schema

    def read(self, content: Any) -> Any:
        """What the user filled in: a dict, or an instance of the class. A field left out has its default, if any.

        Raises:
            Mismatch: It does not fit; the message names the field.
        """
        if type(content) is not dict:
            raise Mismatch("an object with the fields of the form", content)
        return self._read({name: content[name] for name in self._properties if name in content})

    def _reader(self, checks: Mapping[str, Convert]) -> Convert:
        def read(content: Dict[str, Any]) -> Dict[str, Any]:
            _refuse_missing(self._required, content)
            found = {}
            for name, field in self._properties.items():
                if name in content:
                    found[name] = _inside(name, checks[name], content[name])
                elif "default" in field:
                    found[name] = field["default"]
            return found

        return read

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
    if isinstance(schema, Mapping):
        says, properties = schema.get("type"), schema.get("properties")
        if isinstance(says, list) or says in (*_WORDS, "object", "null") or isinstance(properties, Mapping):
            return _of_schema(schema)
        return _of_types(schema)
    if not isinstance(schema, type):
        raise TypeError(f"a form is a JSON Schema, a dataclass or a mapping of names to types, not {schema!r:.80}")
    return _of_class(schema)


def _of_schema(schema: Mapping[str, Any]) -> Form:
    says = schema.get("type", "object")
    if says != "object":
        raise ValueError(f"a form's schema is an object with properties, not of the type {says!r:.60}")
    odd = [word for word in schema if word not in _AT_THE_ROOT and word not in _DROPPED_AT_THE_ROOT]
    if odd:
        raise ValueError(f"a form is a flat object: it cannot say {odd[0]!r}")
    required, dialect = schema.get("required", ()), schema.get("$schema")
    if isinstance(required, str) or not all(isinstance(name, str) for name in required):
        raise TypeError("required is a list of names")
    properties = schema.get("properties", {})
    return Form(_inlined(properties, schema), list(required), dialect=dialect)


def _of_types(types: Mapping[str, Any]) -> Form:
    kinds = {}
    for name, annotation in types.items():
        if not isinstance(name, str) or isinstance(annotation, (Mapping, list)):
            raise TypeError(f"field {name!r}: a name and a type, such as {{'age': int}}, or a whole JSON Schema")
        try:
            kinds[name] = kind_of(annotation)
        except TypeError as error:
            raise TypeError(f"field {name!r}: {error}") from None
    fields = {name: _inlined({name: kind.schema}, kind.schema)[name] for name, kind in kinds.items()}
    required = [name for name, field in fields.items() if not _may_be_none(field)]

    def read(content: Dict[str, Any]) -> Dict[str, Any]:
        _refuse_missing(required, content)
        return {name: _inside(name, kind.read, content.get(name)) for name, kind in kinds.items()}

    return Form({name: _without_none(field) for name, field in fields.items()}, required, read)


def _of_class(cls: type) -> Form:
    kind = kind_of(cls)
    schema = _inlined({"": kind.schema}, kind.schema)[""]
    if schema.get("type") != "object" or "properties" not in schema:
        raise TypeError(f"{cls.__qualname__} is no class with fields: a form has at least one, by name")
    fields = _inlined(schema["properties"], kind.schema)
    needed = schema.get("required", [])
    empty = {name: None for name in needed if _may_be_none(fields[name])}

    def read(content: Dict[str, Any]) -> Any:
        return kind.read({**empty, **content})

    required = [name for name in needed if name not in empty]
    return Form({name: _without_none(field) for name, field in fields.items()}, required, read)


def _inlined(properties: Any, schema: Mapping[str, Any]) -> Dict[str, Any]:
    """The fields, each reference to the schema's own definitions replaced by what it names."""
    if not isinstance(properties, Mapping):
        raise TypeError("properties is an object of fields")
    definitions = schema.get("$defs", {})
    found = {}
    for name, field in properties.items():
        if isinstance(field, Mapping) and str(field.get("$ref", "")).startswith("#/$defs/"):
            own = {word: value for word, value in field.items() if word != "$ref"}
            field = {**definitions.get(field["$ref"][len("#/$defs/"):], {}), **own}
        found[name] = field
    return found


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


def _field(name: str, given: Any) -> Dict[str, Any]:
    """One field, checked: only what the protocol's forms know.

    Raises:
        TypeError: It is of no kind that a form can have.
        ValueError: It contradicts itself.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"field {name!r}: a field is an object of words, not {given!r:.60}")
    field = _with_enum(given)
    if isinstance(field.get("items"), Mapping):
        field["items"] = _with_enum(field["items"])
    kind = field.get("type")
    words = _WORDS.get(kind) if isinstance(kind, str) else None
    if words is None and "enum" in field:
        raise TypeError(f"field {name!r}: {_CHOICES}")
    if words is None:
        raise TypeError(f"field {name!r}: a form has {listed(_WORDS)} fields, flat ones, and no other")
    odd = [word for word in field if word not in words and word not in _SHOWN and word != "type"]
    if odd:
        hint = f": {_INSTEAD[odd[0]]}" if odd[0] in _INSTEAD else ""
        article = "an" if kind in ("array", "integer") else "a"
        raise TypeError(f"field {name!r}: {article} {kind} field of a form cannot say {odd[0]!r}{hint}")
    if field.get("format", "email") not in FORMATS:
        raise TypeError(f"field {name!r}: a format is {listed(FORMATS)}, not {field['format']!r}")
    _refuse_choices(name, field)
    return field


def _with_enum(schema: Mapping[str, Any]) -> Dict[str, Any]:
    """A single choice, written as one of a list with one."""
    made = dict(schema)
    if "const" in made:
        made["enum"] = [made.pop("const")]
    return made


def _refuse_choices(name: str, field: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError for choices that a form cannot show."""
    source = field if field["type"] != "array" else field.get("items")
    if not isinstance(source, Mapping) or (field["type"] == "array" and set(source) - {"type", "enum", "anyOf"}):
        raise TypeError(f"field {name!r}: a list of a form is one of choices: items has enum or anyOf{_LIST}")
    if "enum" in source and ("oneOf" in source or "anyOf" in source):
        raise ValueError(f"field {name!r}: choices are given once")
    choices = _choices(source)
    if choices is None:
        if field["type"] == "array" or "enumNames" in field:
            raise TypeError(f"field {name!r}: its choices are missing{_LIST if field['type'] == 'array' else ''}")
        return
    if not choices or not all(isinstance(choice, str) for choice in choices) or len(set(choices)) != len(choices):
        raise TypeError(f"field {name!r}: {_CHOICES}; at least one, each once")
    names = field.get("enumNames", choices)
    if not isinstance(names, list) or len(names) != len(choices) or not all(isinstance(each, str) for each in names):
        raise ValueError(f"field {name!r}: enumNames is a list with a name for each choice")


def _choices(source: Mapping[str, Any]) -> Optional[List[Any]]:
    titled = source.get("oneOf", source.get("anyOf"))
    if titled is None:
        enum = source.get("enum")
        return list(enum) if enum is not None else None
    if not isinstance(titled, (list, tuple)):
        raise TypeError("titled choices are a list of {const, title}")
    for each in titled:
        if not isinstance(each, Mapping) or set(each) != {"const", "title"} or not isinstance(each["title"], str):
            raise TypeError("titled choices are each an object with const and title")
    return [each["const"] for each in titled]


def _check_of(name: str, field: Mapping[str, Any]) -> Convert:
    """Reads a value of this field; Mismatch for what does not fit."""
    schema = {word: value for word, value in field.items() if word not in (*_SHOWN, "oneOf", "enumNames", "format")}
    if field["type"] == "array":
        schema["items"] = {"enum": _choices(field["items"])}
    elif _choices(field) is not None:
        schema["enum"] = _choices(field)
    check = compile_check(schema, where=f"field {name!r}")
    convert = _converter(field)

    def read(value: Any) -> Any:
        problem = check(value)
        if problem is not None:
            raise Mismatch("", value, instead=problem)
        return convert(value)

    if "default" in field:
        try:
            read(field["default"])
        except Mismatch as error:
            raise ValueError(f"field {name!r}: its default does not fit: {error}") from None
    return read


def _converter(field: Mapping[str, Any]) -> Convert:
    if field["type"] == "integer":
        return int
    wanted = field.get("format")
    if wanted is None:
        return lambda value: value
    fits = _FORMAT_CHECKS.get(wanted) or _standard(wanted)

    def convert(value: str) -> str:
        if not fits(value):
            raise Mismatch(f"a text of the format {wanted}", value)
        return value

    return convert


def _standard(wanted: str) -> Callable[[str], Any]:
    """Whether a text is a date, or a date with a time: as the types of Python read them."""
    import datetime

    kind = kind_of(datetime.date if wanted == "date" else datetime.datetime)

    def fits(value: str) -> bool:
        try:
            kind.read(value)
        except Mismatch:
            return False
        return True

    return fits


def _plain(field: Mapping[str, Any]) -> Dict[str, Any]:
    """A field for a client that knows only the oldest shape: names beside choices, and defaults of booleans."""
    plain = {word: value for word, value in field.items() if word not in _FULL_ONLY}
    if field["type"] != "boolean":
        plain.pop("default", None)
    titled = plain.pop("oneOf", None)
    if titled is not None:
        plain["enum"] = [each["const"] for each in titled]
        plain["enumNames"] = [each["title"] for each in titled]
    return plain


def _refuse_missing(required: Iterable[str], content: Mapping[str, Any]) -> None:
    missing = [repr(name) for name in required if name not in content]
    if missing:
        raise Mismatch("", content, instead=f"{listed(missing, 'and')} not filled in")


def _inside(name: str, read: Convert, value: Any) -> Any:
    try:
        return read(value)
    except Mismatch as error:
        raise error.inside(name) from None


Schema = Union[Mapping[str, Any], type]
"""What an author gives as a form."""
