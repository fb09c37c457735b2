"""JSON Schemas of pydantic's types, without the promises that their JSON does not keep.

Imported when a type of pydantic is first met; pydantic itself is never imported.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Iterator

from .checker import is_exact_step

Schema = dict[str, Any]

# Formats that are narrower than what pydantic writes: it writes brackets and bars in URIs, letters
# of any language in email addresses, zones in IPv6 addresses, and patterns of another dialect.
_NARROW_FORMATS = frozenset({"uri", "email", "ipv6", "regex"})
_NAMED = ("properties", "patternProperties", "$defs")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "propertyNames", "contains", "not", "contentSchema")


def is_pydantic(cls: type) -> bool:
    """Whether pydantic knows how to read and write the class by itself."""
    return "pydantic" in sys.modules and (
        hasattr(cls, "__get_pydantic_core_schema__") or hasattr(cls, "__pydantic_validator__")
    )


def has_fields(cls: Any) -> bool:
    """Whether the class is a model or a dataclass of pydantic, not one of its types of strings."""
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
        """Pydantic's own generator, where a core type says whether a promise is kept."""

        def datetime_schema(self, schema: Any) -> Schema:
            made: Schema = super().datetime_schema(schema)
            return made if _is_aware(schema) else _described(made, "ISO 8601 date and time")

        def time_schema(self, schema: Any) -> Schema:
            made: Schema = super().time_schema(schema)
            return made if _is_aware(schema) else _described(made, "ISO 8601 time")

        def timedelta_schema(self, schema: Any) -> Schema:
            """Pydantic writes fractions and a minus sign, which the format does not have."""
            return _described(super().timedelta_schema(schema), "ISO 8601 duration")

        def decimal_schema(self, schema: Any) -> Schema:
            """The pattern of some versions does not match 1E+2, which is how a Decimal is
            written."""
            made: Schema = super().decimal_schema(schema)
            for part in [made, *made.get("anyOf", ())]:
                part.pop("pattern", None)
            return made

        def bytes_schema(self, schema: Any) -> Schema:
            """Pydantic counts bytes, JSON Schema the characters that stand for them."""
            return _without_lengths(super().bytes_schema(schema))

        def url_schema(self, schema: Any) -> Schema:
            made: Schema = super().url_schema(schema)
            return _without_lengths(made) if self.mode == "serialization" else made

        def str_schema(self, schema: Any) -> Schema:
            """Upper and lower case are set after the pattern and the length are checked."""
            made: Schema = super().str_schema(schema)
            if self.mode == "serialization" and (schema.get("to_upper") or schema.get("to_lower")):
                made.pop("pattern", None)
                made = _without_lengths(made)
            return made

    return Generator


def _is_aware(schema: Any) -> bool:
    """Whether a date or time always has an offset, which its format demands."""
    return schema.get("tz_constraint") not in (None, "naive")


def _described(schema: Schema, description: str) -> Schema:
    """Return a schema of a string that is described and has no format; any other one as it is."""
    if "format" not in schema:
        return schema
    return {"type": schema["type"], "description": description}


def _without_lengths(schema: Schema) -> Schema:
    return {word: rule for word, rule in schema.items() if word not in ("minLength", "maxLength")}
