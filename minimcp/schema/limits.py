"""What `Annotated` may add to a type: a description, limits. Floor 1."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Optional, Sequence

from .kind import Kind
from .mismatch import Mismatch

_NUMBER = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_LENGTH = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


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

    __slots__ = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")

    def __init__(
        self,
        *,
        ge: Optional[float] = None,
        gt: Optional[float] = None,
        le: Optional[float] = None,
        lt: Optional[float] = None,
        multiple_of: Optional[float] = None,
        min_length: Optional[int] = None,
        max_length: Optional[int] = None,
        pattern: Optional[str] = None,
    ) -> None:
        self.ge, self.gt, self.le, self.lt = ge, gt, le, lt
        self.multiple_of, self.pattern = multiple_of, pattern
        self.min_length, self.max_length = min_length, max_length

    def __repr__(self) -> str:
        given = [f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name) is not None]
        return f"Limits({', '.join(given)})"


def narrowed(kind: Kind, metadata: Sequence[Any]) -> Kind:
    """`kind` with what stands behind it in `Annotated`; what is not known here is ignored.

    Strings are descriptions. Limits come from `Limits`, from `annotated_types`, or from any object that has
    the same attribute names.

    Raises:
        TypeError: A limit cannot apply to the type, such as a length to a number.
    """
    words: Dict[str, Any] = {}
    for each in _flat(metadata):
        if isinstance(each, str):
            kind = kind.with_words({"description": each})
        else:
            text = getattr(each, "documentation", None) or getattr(each, "description", None)
            if isinstance(text, str):
                kind = kind.with_words({"description": text})
            words.update(_words(each, kind))
    return _limited(kind, words) if words else kind


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """`annotated_types` and pydantic group several limits in one object."""
    for each in metadata:
        inner = getattr(each, "metadata", None)
        if isinstance(inner, (list, tuple)):
            yield each
            yield from _flat(inner)
        elif hasattr(each, "__is_annotated_types_grouped_metadata__"):
            yield from _flat(each)
        else:
            yield each


def _words(limit: Any, kind: Kind) -> Dict[str, Any]:
    words: Dict[str, Any] = {}
    for attribute, word in _NUMBER.items():
        words[word] = getattr(limit, attribute, None)
    words["multipleOf"] = getattr(limit, "multiple_of", None)
    pattern = getattr(limit, "pattern", None)
    words["pattern"] = pattern if isinstance(pattern, str) else None
    lengths = (getattr(limit, "min_length", None), getattr(limit, "max_length", None))
    if lengths != (None, None):
        words.update(zip(_length_words(limit, kind), lengths))
    given = {word: value for word, value in words.items() if isinstance(value, (int, float, str))}
    _refuse_misfit(given, limit, kind)
    return given


def _length_words(limit: Any, kind: Kind) -> Sequence[str]:
    found = _LENGTH.get(_json_type(kind))
    if found is None:
        raise TypeError(f"{limit!r} limits a length, and {kind.label} has none")
    return found


def _json_type(kind: Kind) -> str:
    names = {str: "string", list: "array", dict: "object", int: "number", float: "number"}
    types = {names.get(each, "") for each in kind.accepts} - {""}
    return types.pop() if len(types) == 1 else ""


def _refuse_misfit(words: Dict[str, Any], limit: Any, kind: Kind) -> None:
    for word in words:
        numeric = word in _NUMBER.values() or word == "multipleOf"
        if (numeric and not kind.accepts & {int, float}) or (word == "pattern" and str not in kind.accepts):
            raise TypeError(f"{limit!r} cannot limit {kind.label}")


def _limited(kind: Kind, words: Dict[str, Any]) -> Kind:
    """A kind that checks `words` on the JSON side: before reading, after writing."""
    from .check import compile_check

    check = compile_check(words, where="Annotated")

    def read(value: Any) -> Any:
        result = kind.read(value)
        _fit(value)
        return result

    def write(value: Any) -> Any:
        written = kind.write(value)
        _fit(written)
        return written

    def _fit(value: Any) -> None:
        problem = check(value)
        if problem is not None:
            raise Mismatch(kind.label, value, instead=problem)

    return kind.with_words(words).changed(read=read, write=write, exact=None, exact_items=None)
