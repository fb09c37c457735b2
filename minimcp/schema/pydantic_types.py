"""The kinds of pydantic's types. Their JSON Schemas are those of pydantic, without keywords that
pydantic's own JSON violates.

Imported with the first type of pydantic; pydantic itself is never imported.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any, Iterator, Mapping, Optional

from .checker import compile_require, is_exact_step
from .kinds import OBJECTS, Kind
from .mismatch import Mismatch, cut, plain_json
from .values import JSON_TYPES, Schema, mapped

# For each ``type`` of a schema: the Python types of decoded JSON that may match.
_TYPES = {"string": frozenset({str}), "object": OBJECTS, "array": frozenset({list})}

# Formats that pydantic's values may violate: it writes brackets and bars in URIs, letters of any
# language in email addresses, zones in IPv6 addresses, and patterns of another dialect.
_NARROW_FORMATS = frozenset({"uri", "email", "ipv6", "regex"})
_NAMED = ("properties", "patternProperties", "$defs")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "propertyNames", "contains", "not", "contentSchema")


def is_pydantic(cls: type) -> bool:
    """Return whether pydantic itself can read and write the class."""
    return "pydantic" in sys.modules and (
        hasattr(cls, "__get_pydantic_core_schema__") or hasattr(cls, "__pydantic_validator__")
    )


def has_fields(cls: Any) -> bool:
    """Return whether the class is a model or a dataclass of pydantic, and not one of its string
    types."""
    return hasattr(cls, "__pydantic_validator__")


def kind_of_class(builder: Any, cls: Any, own: str) -> Kind:
    """Return the kind of a pydantic type. Its own schema checks the JSON, then it makes the
    object.

    Args:
        builder: The `Builder` of the schema.
        cls: A model, a dataclass of pydantic, or a type such as ``HttpUrl``.
        own: The name of its definition; empty for a type without fields.
    """
    adapter = sys.modules["pydantic"].TypeAdapter(cls)
    schema = schema_of(adapter, writing=builder.writing)
    require = compile_require(schema, where=cls.__qualname__)
    label = f"a value ({cls.__name__})"

    def read(value: Any) -> Any:
        require(value)
        try:  # as JSON, so that the strict mode accepts strings for dates and lists for tuples
            return adapter.validate_json(json.dumps(value))
        except ValueError as error:
            raise refusal(label, value, error) from error

    def write(value: Any) -> Any:
        if own and not isinstance(value, cls):
            raise Mismatch(f"a {cls.__name__}", value)
        try:
            if hasattr(value, "model_dump"):
                written = value.model_dump(mode="json", by_alias=True)
            else:
                checked = value if own else adapter.validate_python(value)
                written = adapter.dump_python(checked, mode="json", by_alias=True)
        except ValueError as error:
            raise refusal(label, value, error) from error
        require(written)
        return written

    itself = schema.get("$ref", "").rpartition("/")[2]  # only a recursive model has one
    schema = adopted(builder, schema, cls.__qualname__, {itself: own} if itself and own else None)
    if own:
        schema.pop("$ref", None)
    shown = {**builder.definitions.get(own, {}), **schema}
    accepts = _TYPES.get(shown.get("type", ""), JSON_TYPES)
    hashable = cls.__hash__ is not None
    return Kind(shown, read, write, label, accepts, writes=cls, hashable=hashable)


def adopted(
    builder: Any, schema: Schema, owner: str, names: Optional[Mapping[str, str]] = None
) -> Schema:
    """Return a schema made by pydantic after moving its definitions to a builder.

    Args:
        builder: The `Builder` of the schema.
        schema: The schema.
        owner: Its name in messages.
        names: New names of its definitions; missing names are chosen.

    Raises:
        TypeError, ValueError: The schema contains a value that JSON does not have, such as
            infinity.
    """
    schema = plain_json(schema, owner)
    definitions = schema.pop("$defs", {})
    chosen = {**(names or {})}
    for name in definitions:
        if name not in chosen:
            chosen[name] = builder.reserve(name)

    def renamed(part: Schema) -> Schema:
        part = dict(part)
        name = str(part.get("$ref")).partition("#/$defs/")[2]
        if name in chosen:
            part["$ref"] = f"#/$defs/{chosen[name]}"
        part.pop("discriminator", None)  # an OpenAPI keyword that also refers to definitions
        if not builder.strict and isinstance(part.get("additionalProperties"), bool):
            del part["additionalProperties"]
        return part

    for name, definition in definitions.items():
        builder.definitions[chosen[name]] = mapped(definition, renamed)
    return mapped(schema, renamed)


def adapter_of(annotation: Any) -> Any:
    """Return pydantic's ``TypeAdapter`` of a type.

    Raises:
        TypeError: pydantic cannot make one.
    """
    pydantic: Any = sys.modules.get("pydantic")
    if not hasattr(pydantic, "TypeAdapter"):
        raise TypeError(f"{annotation!r:.80} needs pydantic 2")
    try:
        return pydantic.TypeAdapter(annotation)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise TypeError(f"pydantic cannot read {annotation!r:.80}: {reason:.200}") from error


def kind_of_annotation(annotation: Any, label: str, *, writing: bool) -> Kind:
    """Return the kind of a type that pydantic reads and writes, with pydantic's schema.

    Raises:
        TypeError: pydantic cannot make a schema of the type.
    """
    adapter = adapter_of(annotation)
    try:
        schema = schema_of(adapter, writing=writing)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise TypeError(f"{label} has no JSON Schema: {reason:.200}") from error

    def read(value: Any) -> Any:
        try:  # as JSON, so that the strict mode accepts strings for dates and lists for tuples
            return adapter.validate_json(json.dumps(value))
        except ValueError as error:
            raise refusal(label, value, error) from error

    require = compile_require(schema, where=label) if writing else None

    def write(value: Any) -> Any:
        try:
            written = adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except ValueError as error:
            raise Mismatch(label, value) from error
        if require is not None:
            require(written)
        return written

    return Kind(schema, read, write, label, JSON_TYPES, hashable=False)


def refusal(label: str, value: Any, error: ValueError) -> Mismatch:
    """Return the Mismatch for an error of pydantic, with its first reason and place."""
    found = error.errors() if hasattr(error, "errors") else []
    if not found:
        return Mismatch(label, value, instead=cut(str(error), 200))
    mismatch = Mismatch(label, value, instead=str(found[0]["msg"]))
    mismatch.path = [key for key in found[0]["loc"] if isinstance(key, (str, int))]
    return mismatch


def schema_of(adapter: Any, *, writing: bool) -> Schema:
    """Return the JSON Schema of a type of pydantic.

    Args:
        adapter: The ``TypeAdapter`` of the type.
        writing: Whether the schema is for results, not for arguments.

    Raises:
        Exception: Pydantic's error for a type that has no JSON Schema.
    """
    made: Schema = adapter.json_schema(
        mode="serialization" if writing else "validation", schema_generator=_generator()
    )
    for part in _parts(made):
        narrow = [part, *part.get("anyOf", ())] if "default" in part else [part] if writing else []
        for each in narrow:
            if each.get("format") in _NARROW_FORMATS:
                del each["format"]
        if not is_exact_step(part.get("multipleOf", 1)):
            del part["multipleOf"]
    return made


def _parts(schema: Any) -> Iterator[Schema]:
    """Yield a schema and all schemas inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    inner = [part for word in _NAMED for part in schema.get(word, {}).values()]
    inner += [part for word in _LISTED for part in schema.get(word, ())]
    inner += [schema[word] for word in _SINGLE if word in schema]
    for part in inner:
        yield from _parts(part)


@lru_cache(maxsize=1)
def _generator() -> type:
    base: Any = sys.modules["pydantic"].json_schema.GenerateJsonSchema

    class Generator(base):  # type: ignore[misc]
        """Pydantic's own generator, without keywords that values of some types violate."""

        def datetime_schema(self, schema: Any) -> Schema:
            made: Schema = super().datetime_schema(schema)
            return made if _is_aware(schema) else _described(made, "ISO 8601 date and time")

        def time_schema(self, schema: Any) -> Schema:
            made: Schema = super().time_schema(schema)
            return made if _is_aware(schema) else _described(made, "ISO 8601 time")

        def timedelta_schema(self, schema: Any) -> Schema:
            """Drop the format, because pydantic also writes fractions and a minus sign."""
            return _described(super().timedelta_schema(schema), "ISO 8601 duration")

        def decimal_schema(self, schema: Any) -> Schema:
            """Drop the pattern, which in some versions does not match 1E+2, a valid Decimal."""
            made: Schema = super().decimal_schema(schema)
            for part in [made, *made.get("anyOf", ())]:
                part.pop("pattern", None)
            return made

        def bytes_schema(self, schema: Any) -> Schema:
            """Drop the lengths: pydantic counts bytes, but JSON Schema counts characters."""
            return _without_lengths(super().bytes_schema(schema))

        def url_schema(self, schema: Any) -> Schema:
            made: Schema = super().url_schema(schema)
            return _without_lengths(made) if self.mode == "serialization" else made

        def str_schema(self, schema: Any) -> Schema:
            """Drop pattern and lengths if pydantic changes the case after checking them."""
            made: Schema = super().str_schema(schema)
            if self.mode == "serialization" and (schema.get("to_upper") or schema.get("to_lower")):
                made.pop("pattern", None)
                made = _without_lengths(made)
            return made

    return Generator


def _is_aware(schema: Any) -> bool:
    """Return whether a date or time always has an offset, which its format requires."""
    return schema.get("tz_constraint") not in (None, "naive")


def _described(schema: Schema, description: str) -> Schema:
    """Return a string schema with a description instead of its format; return others unchanged."""
    if "format" not in schema:
        return schema
    return {"type": schema["type"], "description": description}


def _without_lengths(schema: Schema) -> Schema:
    return {word: rule for word, rule in schema.items() if word not in ("minLength", "maxLength")}
