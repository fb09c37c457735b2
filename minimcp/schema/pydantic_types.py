"""JSON Schemas of pydantic's types, without keywords that its own JSON violates.

Imported with the first type of pydantic; pydantic itself is never imported.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Iterator

from .checker import is_exact_step

Schema = dict[str, Any]

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
