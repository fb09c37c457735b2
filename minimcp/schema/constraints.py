"""What `Annotated` adds to a type: a description, bounds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Dict, Iterable, Optional, Sequence

from .checker import compile_validator
from .kinds import Kind
from .mismatch import Mismatch

_NUMBER = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
}  # fmt: skip
_LENGTH = {
    str: {"min_length": "minLength", "max_length": "maxLength"},
    list: {"min_length": "minItems", "max_length": "maxItems"},
    dict: {"min_length": "minProperties", "max_length": "maxProperties"},
}


@dataclass(frozen=True, repr=False)
class Limits:
    """Bounds for a parameter or field, inside `Annotated`: ``Annotated[int, Limits(ge=1, le=10)]``.

    Args:
        ge: Smallest number allowed. None sets no bound; so for all that follow.
        gt: Number that must be exceeded.
        le: Largest number allowed.
        lt: Number that must not be reached.
        multiple_of: Number that the value is a multiple of.
        min_length: Fewest characters, items or fields.
        max_length: Most characters, items or fields.
        pattern: Regular expression that some part of a string matches.
    """

    ge: Optional[float] = None
    gt: Optional[float] = None
    le: Optional[float] = None
    lt: Optional[float] = None
    multiple_of: Optional[float] = None
    min_length: Optional[int] = None
    max_length: Optional[int] = None
    pattern: Optional[str] = None

    def __repr__(self) -> str:
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        return f"Limits({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"


def narrowed(kind: Kind, metadata: Sequence[Any]) -> Kind:
    """`kind` with what stands behind it in `Annotated`; what is not known here is ignored.

    Strings are descriptions. Bounds come from `Limits`, from `annotated_types`, or from any object that has the same
    attribute names.

    Raises:
        TypeError: A bound cannot apply to the type, such as a length to a number.
    """
    words: Dict[str, Any] = {}
    for each in _flat(metadata):
        text = each if isinstance(each, str) else getattr(each, "documentation", getattr(each, "description", None))
        if isinstance(text, str):
            kind = kind.with_words(description=text)
        if not isinstance(each, str):
            words.update(_words(each, kind))
    return _bounded(kind, words) if words else kind


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """`annotated_types` and pydantic group several bounds in one object."""
    for each in metadata:
        inner = getattr(each, "metadata", None)
        if hasattr(each, "__is_annotated_types_grouped_metadata__"):
            yield from _flat(each)
            continue
        yield each
        yield from _flat(inner if isinstance(inner, (list, tuple)) else ())


def _words(limits: Any, kind: Kind) -> Dict[str, Any]:
    """The words of JSON Schema for an object's bounds. Raises TypeError for one that makes no sense."""
    types = {float if each is int else each for each in kind.accepts}
    lengths = [_LENGTH[each] for each in types if each in _LENGTH]
    names = {**_NUMBER, **(lengths[0] if len(lengths) == 1 and float not in types else {}), "pattern": "pattern"}
    given = {}
    for name in (*_NUMBER, "pattern", "min_length", "max_length"):
        value = getattr(limits, name, None)
        if value is None or callable(value) or (name == "pattern" and not isinstance(value, str)):
            continue  # None, a method of that name, or something of another library
        if name in _NUMBER and not (type(value) is int or (type(value) is float and value - value == 0.0)):
            raise TypeError(f"{limits!r}: {name} is a finite number, not {value!r:.60}")
        if name.endswith("length") and not (type(value) is int and value >= 0):
            raise TypeError(f"{limits!r}: {name} is a whole number from 0 on, not {value!r:.60}")
        if name not in names:
            raise TypeError(f"{limits!r} limits a length, and {kind.label} has none")
        is_number = float in types or kind.writes is Decimal
        if (name in _NUMBER and not is_number) or (name == "pattern" and str not in types):
            raise TypeError(f"{limits!r} cannot limit {kind.label}")
        given[names[name]] = value
    return given


def _bounded(kind: Kind, words: Dict[str, Any]) -> Kind:
    """A kind whose values are checked in their JSON form; those of a Decimal as it is, for it may be a string there."""
    for least, most in (("minimum", "maximum"), *(tuple(names.values()) for names in _LENGTH.values())):
        if least in words and most in words and words[least] > words[most]:
            raise TypeError(f"no value is at least {words[least]} and at most {words[most]}")
    validate = compile_validator(words, where="Annotated")

    def check(in_json: Any, in_python: Any) -> None:
        try:
            validate(in_python if kind.writes is Decimal else in_json)
        except Mismatch as error:
            error.value = error.value if error.path else in_json
            raise

    def read(value: Any) -> Any:
        result = kind.read(value)
        check(value, result)
        return result

    def write(value: Any) -> Any:
        written = kind.write(value)
        check(written, value)
        return written

    return replace(kind.with_words(**words), read=read, write=write, exact=None, exact_items=None)
