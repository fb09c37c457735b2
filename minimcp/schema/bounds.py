"""Metadata in `Annotated`: descriptions, and bounds of values.

Imported when the first annotation has metadata.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import AbstractSet, Any, Iterable, Mapping, Optional, Sequence

from ..record import FrozenRecord
from .checker import WORDS, compile_require, is_exact_step
from .introspection import is_field
from .kinds import NUMBER, Kind
from .validators import field_words

# The JSON Schema keywords for each attribute of a bound. The type decides between several keywords.
_BOUNDS = {
    "ge": ("minimum",),
    "gt": ("exclusiveMinimum",),
    "le": ("maximum",),
    "lt": ("exclusiveMaximum",),
    "multiple_of": ("multipleOf",),
    "pattern": ("pattern",),
    "min_length": ("minLength", "minItems", "minProperties"),
    "max_length": ("maxLength", "maxItems", "maxProperties"),
}


class Bounds(FrozenRecord):
    """Bounds for a parameter or field, inside `Annotated`.

    Write ``Annotated[int, Bounds(ge=1, le=10)]``. `minimcp.schema.Limits` is the same class.

    Args:
        ge: Smallest number allowed. None means no bound, here and below.
        gt: Number that must be exceeded.
        le: Largest number allowed.
        lt: Number that must not be reached.
        multiple_of: Number that the value must be a multiple of.
        min_length: Minimum number of characters, items or fields.
        max_length: Maximum number of characters, items or fields.
        pattern: Regular expression that some part of a string must match.
    """

    ge: Optional[float] = None
    gt: Optional[float] = None
    le: Optional[float] = None
    lt: Optional[float] = None
    multiple_of: Optional[float] = None
    min_length: Optional[int] = None
    max_length: Optional[int] = None
    pattern: Optional[str] = None


def narrowed(kind: Kind, metadata: Sequence[Any]) -> Kind:
    """Return `kind` with the metadata of `Annotated` applied; unknown metadata is ignored.

    Strings are descriptions. Bounds come from `Bounds`, from `annotated_types`, or from any object
    that has the same attribute names. A value is checked in its JSON form. A Decimal is checked
    itself, because its JSON form may be a string.

    Raises:
        TypeError: A bound cannot apply to the type, such as a length to a number.
    """
    is_decimal = kind.writes is not None and issubclass(kind.writes, Decimal)
    words: dict[str, Any] = {}
    for each in flat(metadata):
        text = _description(each)
        if text is not None:
            kind = kind.with_words(description=text)
        if is_field(each):
            kind = kind.with_words(**field_words(each))
        words.update(_words(each, kind, {Decimal} if is_decimal else kind.accepts))
    if not words:
        return kind
    require = compile_require(_exact(words) if is_decimal else words, where="Annotated")
    for word, bound in words.items():
        if isinstance(bound, Decimal):
            words[word] = NUMBER.write(bound)
    json.dumps(words, allow_nan=False)  # raises ValueError for infinity and NaN
    if not is_exact_step(words.get("multipleOf", 1)):
        del words["multipleOf"]

    def read(value: Any) -> Any:
        result = kind.read(value)
        require(Decimal(result) if is_decimal else value)
        return result

    def write(value: Any) -> Any:
        result = kind.write(value)
        require(Decimal(value) if is_decimal else result)
        return result

    return kind.with_words(**words)._replace(
        read=read, write=write, exact=frozenset(), exact_items=frozenset()
    )


def flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """Yield metadata one by one. `annotated_types` and pydantic group several in one object."""
    for each in metadata:
        is_group = hasattr(each, "__is_annotated_types_grouped_metadata__")
        inner: Any = each if is_group else getattr(each, "metadata", None)
        if not is_group:
            yield each
        if is_group or isinstance(inner, (list, tuple)):
            yield from flat(inner)


def _description(metadata: Any) -> Optional[str]:
    if isinstance(metadata, str):
        return metadata
    text = getattr(metadata, "documentation", getattr(metadata, "description", None))
    return text if isinstance(text, str) else None


def _words(metadata: Any, kind: Kind, types: AbstractSet[type]) -> dict[str, Any]:
    """Return the bounds in one piece of metadata, by their JSON Schema keywords."""
    words: dict[str, Any] = {}
    if isinstance(metadata, str):
        return words
    for name, meanings in _BOUNDS.items():
        bound = getattr(metadata, name, None)
        if bound is None or callable(bound):
            continue  # not set, or a method of the same name in another library
        if name == "pattern" and not isinstance(bound, str):
            continue
        fitting = [word for word in meanings if not WORDS[word].only.isdisjoint(types)]
        if len(fitting) != 1:
            raise TypeError(f"{name}={bound!r:.60} cannot limit {kind.label}")
        words[fitting[0]] = bound
    return words


def _exact(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return bounds for a Decimal: 0.1 as written instead of the nearest float."""
    return {
        word: Decimal(repr(bound)) if isinstance(bound, float) else bound
        for word, bound in words.items()
    }
