"""What `Annotated` may add to a type: a description, limits."""

from __future__ import annotations

import operator
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

from .kind import Kind
from .mismatch import Mismatch

if TYPE_CHECKING:
    from .check import Find

_LENGTH = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBER = {
    "ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
}  # fmt: skip
_PAIRS = (("minimum", "maximum"), *_LENGTH.values())


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
        words[word] = _given(limit, attribute, "a finite number", _is_finite)
    pattern = getattr(limit, "pattern", None)
    words["pattern"] = pattern if isinstance(pattern, str) else None
    lengths = [_given(limit, each, "a whole number from 0 on", _is_count) for each in ("min_length", "max_length")]
    if lengths != [None, None]:
        words.update(zip(_length_words(limit, kind), lengths))
    given = {word: value for word, value in words.items() if value is not None}
    _refuse_misfit(given, limit, kind)
    return given


def _given(limit: Any, attribute: str, what: str, fits: Callable[[Any], bool]) -> Any:
    """What a limit says; None when it says nothing, or has a method of that name."""
    value = getattr(limit, attribute, None)
    if value is None or callable(value):
        return None
    if not fits(value):
        raise TypeError(f"{limit!r}: {attribute} is {what}, not {value!r:.60}")
    return value


def _is_finite(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value - value == 0.0)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


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
        numeric = word in _NUMBER.values() and not _is_decimal(kind)
        if (numeric and not kind.accepts & {int, float}) or (word == "pattern" and str not in kind.accepts):
            raise TypeError(f"{limit!r} cannot limit {kind.label}")


def _limited(kind: Kind, words: Dict[str, Any]) -> Kind:
    """A kind that checks `words` on the JSON side: before reading, after writing. A Decimal's digits count too."""
    from .check import compile_finder

    for least, most in _PAIRS:
        if least in words and most in words and words[least] > words[most]:
            raise TypeError(f"no value is at least {words[least]} and at most {words[most]}")
    find = compile_finder(words, where="Annotated")
    if _is_decimal(kind):
        find = _decimal_finder(words, find)

    def read(value: Any) -> Any:
        result = kind.read(value)
        _fit(value)
        return result

    def write(value: Any) -> Any:
        written = kind.write(value)
        _fit(written)
        return written

    def _fit(value: Any) -> None:
        problem = find(value)
        if problem is not None:
            raise problem

    return kind.with_words(words).changed(read=read, write=write, exact=None, exact_items=None)


def _is_decimal(kind: Kind) -> bool:
    return kind.writes is not None and kind.writes is getattr(sys.modules.get("decimal"), "Decimal", None)


_REFUSES: Dict[str, Tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.lt, "a number of at least"),
    "maximum": (operator.gt, "a number of at most"),
    "exclusiveMinimum": (operator.le, "a number above"),
    "exclusiveMaximum": (operator.ge, "a number below"),
    "multipleOf": (lambda value, step: bool((value / step).denominator != 1), "a multiple of"),
}


def _decimal_finder(words: Dict[str, Any], find: Find) -> Find:
    """As `find`, and bounds of numbers hold for those that stand in a string with all their digits."""
    from fractions import Fraction

    bounds = [(*_REFUSES[word], limit, Fraction(repr(limit))) for word, limit in words.items() if word in _REFUSES]

    def find_exact(value: Any) -> Optional[Mismatch]:
        if isinstance(value, str):
            for refuses, label, limit, exact in bounds:
                if refuses(Fraction(value), exact):
                    return Mismatch(f"{label} {limit}", value)
        return find(value)

    return find_exact
