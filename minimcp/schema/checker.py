"""Checks of values by any JSON Schema: the common words here, every other word and dialect by `jsonschema`.

`jsonschema` is imported on first use, which takes a third of a second. Nothing is ever fetched: a ``$ref`` leads to a
place in the same schema, or the schema is refused. What a schema of a peer may cost is bounded: its size and nesting,
the steps of one check, and the patterns that are run.
"""

from __future__ import annotations

import json
import logging
import operator
import re
import threading
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import islice, repeat
from math import inf, isfinite
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple
from urllib.parse import unquote

from .kinds import JSON_TYPES, NONE_TYPE, frozen, has_twins
from .mismatch import Mismatch, cut, listed, nearest, one_of, shown_path

log = logging.getLogger("minimcp.schema")

Schema = Any
"""A JSON Schema: a dict, True or False."""

MAX_DEPTH = 256
"""Levels that a schema may nest; the codec's limit for messages is the same."""

MAX_STEPS = 200_000
"""Subschemas that one check of a peer's schema may apply, and 20 more per part of the value: about a second."""

MAX_TEXT = 1_000
"""Characters of a text that a peer's pattern is run on: its cost may grow with their square."""

MAX_NESTED = 80
"""Words inside words that `jsonschema` may apply. Each takes some five frames, and an overflow inside of it ends in a
panic of its compiled parts, which nothing can catch."""

MAX_PARTS = 10_000
"""Values in a schema of a peer for `jsonschema`, which needs a quarter of a millisecond for each before it checks."""

MAX_NAMES = 100
"""Names (``$id``, ``$anchor``) in such a schema: every reference is looked for among all of them."""

TOO_MUCH = "the value cannot be checked: the schema needs too many steps for it"

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""What ``$schema`` may say, without the empty fragment, and the class of `jsonschema` for it."""

_LATEST, _OLDEST = next(iter(DIALECTS)), "http://json-schema.org/draft-04/schema"


def compile_check(schema: Schema, *, where: str, peer: bool = False) -> Callable[[Any], Optional[str]]:
    """A function that returns None for a value that fits, else one line: "path: expected X, got Y".

    Thread-safe; it never raises for decoded JSON. Arguments and errors as `compile_validator`.
    """
    validate = compile_validator(schema, where=where, peer=peer)

    def check(value: Any) -> Optional[str]:
        try:
            validate(value)
            return None
        except Mismatch as error:
            return str(error)

    return check


def compile_peer_check(schema: Schema, *, where: str) -> Callable[[Any], Optional[str]]:
    """As `compile_check`, for a schema that a peer sent. Patterns that may be slow are not run."""
    return compile_check(schema, where=where, peer=True)


def compile_validator(schema: Schema, *, where: str, peer: bool = False) -> Callable[[Any], None]:
    """A function that raises Mismatch for a value that does not fit, and nothing else for decoded JSON. Thread-safe.

    Args:
        schema: A JSON Schema: a dict, True or False. Without ``$schema`` it is 2020-12.
        where: What it belongs to, for the error messages about the schema itself.
        peer: Whether a peer sent it, so that what it costs has to be bounded.

    Raises:
        ValueError: The schema is no valid one, refers to what is not in it, is too large or nests too deep, or names a
            dialect that is not supported.
        ImportError: It needs the package ``jsonschema``, which is not installed.
    """
    try:
        return _Compiled(schema, peer).validate
    except _NotCommon:
        return _by_jsonschema(schema, where, peer)
    except RecursionError as error:
        raise ValueError(f"{where}: the schema nests too deep") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


class _NotCommon(Exception):
    """The schema has a word or a dialect that is not known here."""


class _TooMuch(Exception):
    """One check has used up its steps."""


class _Compiled:
    """A schema of which every part is known to be valid and common, and every reference to lead somewhere."""

    def __init__(self, schema: Schema, peer: bool) -> None:
        self.schema, self.peer = schema, peer
        self.targets: Dict[str, Schema] = {}
        self.patterns: Dict[str, Optional[re.Pattern[str]]] = {}
        """By their text; None for one that is not run."""
        if any(depth > MAX_DEPTH for depth, _ in enumerate(_levels(schema))):
            raise ValueError(f"the schema nests deeper than {MAX_DEPTH} levels")
        dialect = schema.get("$schema", _LATEST) if isinstance(schema, dict) else _LATEST
        if not isinstance(dialect, str) or dialect.rstrip("#") not in DIALECTS or dialect.rstrip("#") == _OLDEST:
            raise _NotCommon
        self._older = dialect.rstrip("#") != _LATEST
        anchors: Dict[str, Schema] = {}
        references: List[str] = []
        waiting = [schema]
        seen: Set[int] = set()
        while waiting or references:
            if not waiting:
                reference = references.pop()
                waiting = [self.targets.setdefault(reference, self._target(reference, anchors))]
            part = waiting.pop()
            if id(part) not in seen and not isinstance(part, bool):
                seen.add(id(part))
                waiting += self._inner(part)
                anchors[part.get("$anchor", "")] = part
                references += [part["$ref"]] if "$ref" in part else []

    def _inner(self, schema: Schema) -> Iterator[Schema]:
        """The subschemas of a schema. Raises _NotCommon or ValueError for a word that is unknown here or wrong."""
        if not isinstance(schema, dict):
            raise ValueError(f"a schema is an object, true or false, not {schema!r:.60}")
        if self._older and ("prefixItems" in schema or "$anchor" in schema or ("$ref" in schema and len(schema) > 1)):
            raise _NotCommon
        for word, rule in schema.items():
            inner_root = word in ("$id", "$schema") and schema is not self.schema
            if word in _NOT_COMMON or inner_root or (self._older and word == "items" and isinstance(rule, list)):
                raise _NotCommon
            form = WORDS[word].form if word in WORDS else True
            try:
                _Run(self).apply(form, rule)
                for pattern in [rule] if word == "pattern" else rule if word == "patternProperties" else ():
                    re.compile(pattern)
            except Mismatch as error:
                raise ValueError(f"the value of {word!r} cannot be {rule!r:.60}") from error
            except re.error as error:
                raise ValueError(f"the pattern {pattern!r:.60} is no regular expression here: {error}") from error
            yield from [rule] if form is SCHEMA else rule if form is SCHEMAS else rule.values() if form is NAMED else ()

    def _target(self, reference: str, anchors: Dict[str, Schema]) -> Schema:
        """Where a reference leads."""
        if not reference.startswith("#"):
            raise _NotCommon
        pointer = unquote(reference[1:])
        try:
            if pointer and not pointer.startswith("/"):
                return anchors[pointer]
            part = self.schema
            for step in pointer.split("/")[1:]:
                step = step.replace("~1", "/").replace("~0", "~")
                part = part[int(step)] if isinstance(part, list) else part[step]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise ValueError(f"$ref {reference!r} leads nowhere") from error
        return part

    def validate(self, value: Any) -> None:
        """Raises Mismatch for a value that does not fit."""
        try:
            _Run(self, MAX_STEPS + 20 * _count(value) if self.peer else None).apply(self.schema, value)
        except RecursionError:
            raise Mismatch("", value, instead="the value nests too deep") from None
        except _TooMuch:
            raise Mismatch("", value, instead=TOO_MUCH) from None


def _levels(value: Any) -> Iterator[List[Any]]:
    """The values in a value, level by level; not by recursion, for it may nest deep."""
    level = [value]
    while level:
        yield level
        level = [inner for part in level for inner in _children(part)]


def _children(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _count(value: Any) -> int:
    """How many values there are in a value, itself included."""
    return sum(map(len, _levels(value)))


class _Run:
    """The check of one value.

    Args:
        compiled: The schema.
        steps: How many subschemas may be applied; None sets no limit.
    """

    def __init__(self, compiled: _Compiled, steps: Optional[int] = None) -> None:
        self.compiled = compiled
        self.steps: float = inf if steps is None else steps
        self.followed: Dict[Tuple[str, int], Optional[Mismatch]] = {}
        """What came of each reference for each part of the value: a second time costs nothing."""

    def apply(self, schema: Schema, value: Any) -> None:
        """Raises Mismatch when the value does not fit a subschema."""
        if schema is False:
            raise Mismatch("nothing here", value)
        self.steps -= 1
        if self.steps < 0:
            raise _TooMuch
        words = _WORDS_FOR[type(value)]
        for word in schema if schema is not True else ():
            if word in words:
                words[word](schema[word], value, schema, self)

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise _TooMuch

    def errors(self, schemas: List[Schema], value: Any) -> Iterator[Optional[Mismatch]]:
        """What is wrong by each subschema, None where the value fits."""
        for schema in schemas:
            try:
                self.apply(schema, value)
                yield None
            except Mismatch as error:
                yield error

    def matches(self, pattern: str, text: str) -> Optional[bool]:
        """Whether a pattern is found in a text; None when it is not run."""
        self.spend(1)
        patterns, peer = self.compiled.patterns, self.compiled.peer
        if pattern not in patterns:
            patterns[pattern] = re.compile(pattern) if not peer or is_quick(pattern) else None
        expression = patterns[pattern]
        if expression is not None and (not peer or len(text) <= MAX_TEXT):
            return expression.search(text) is not None
        log.debug("the pattern %.100r is not run on a text of %d characters", pattern, len(text))
        return None


_PIECE = re.compile(r"\\[^0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_SLOW = re.compile(r"\\|\(\?(?!:)|\)[*+{?]|[*+?}][*+{]")


def is_quick(pattern: str) -> bool:
    """Whether a pattern can surely not make Python's matcher try many ways: a few conservative rules.

    No group is repeated, at most one piece repeats a varying number of times, optional pieces and alternatives are few,
    and there is nothing but plain groups: no reference back, no look ahead or behind.
    """
    plain = _PIECE.sub("x", pattern).replace("(?:", "(")
    varying = len(re.findall(r"[*+]|\{\d*,\d*\}", plain))
    choices = plain.count("?") + (plain.count("|") if plain.count("(") > 1 else 0)
    return not _SLOW.search(plain) and varying <= 1 and choices <= 4


# ------------------------------------------------------------ the words

SCHEMA: Schema = {"type": ["object", "boolean"]}
SCHEMAS: Schema = {"type": "array", "minItems": 1}
NAMED: Schema = {"type": "object"}
_STRING, _FLAG, _LIST = {"type": "string"}, {"type": "boolean"}, {"type": "array"}
_NUMBER, _SIZE = {"type": "number"}, {"type": "integer", "minimum": 0}

_TYPES: Dict[str, Tuple[FrozenSet[type], str]] = {
    "string": (frozenset({str}), "a string"),
    "boolean": (frozenset({bool}), "true or false"),
    "null": (frozenset({NONE_TYPE}), "null"),
    "array": (frozenset({list}), "a list"),
    "object": (frozenset({dict}), "an object"),
    "number": (frozenset({int, float}), "a number"),
    "integer": (frozenset({int}), "an integer"),
}
_TEXTS, _LISTS, _OBJECTS = (_TYPES[name][0] for name in ("string", "array", "object"))
_NUMBERS = frozenset({int, float, Decimal})


def _type(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    for name in [rule] if isinstance(rule, str) else rule:
        if type(value) in _TYPES[name][0] or (name == "integer" and type(value) is float and value.is_integer()):
            return
    raise Mismatch(_labels(rule), value)


def _labels(names: Any) -> str:
    return listed([_TYPES[name][1] for name in ([names] if isinstance(names, str) else names)] or ["a value"])


def _enum(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    run.spend(_count(value))
    if frozen(value) not in (rule if isinstance(value, str) else map(frozen, rule)):
        raise Mismatch(one_of(rule), value, choices={each: each for each in rule if isinstance(each, str)})


def _const(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    _enum([rule], value, schema, run)


def _bound(label: str, refused: Callable[[Any, Any], bool]) -> Check:
    def check(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
        if refused(value, rule):
            raise Mismatch(f"a number {label} {rule}", value)

    return check


def _multiple_of(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    step = Fraction(repr(rule))  # exact: in floating point 0.3 is no multiple of 0.1
    if isfinite(value) if isinstance(value, float) else True:
        number = Fraction(repr(value) if isinstance(value, float) and isinstance(rule, float) else value)
        if number * step.denominator % step.numerator == 0:
            return
    raise Mismatch(f"a multiple of {rule}", value)


def _length(unit: str, bound: str, refused: Callable[[int, int], bool]) -> Check:
    def check(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
        if refused(len(value), rule):
            wanted = f"{bound} {rule} {unit}{'' if rule == 1 else 's'}"
            raise Mismatch("", value, instead=f"expected {wanted}, got {len(value)}")

    return check


def _pattern(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    if run.matches(rule, value) is False:
        raise Mismatch(f"a string that matches {rule}", value)


def _unique(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    run.spend(_count(value))
    if rule and has_twins(value):
        raise Mismatch("", value, instead="expected a list without duplicates, got the same item twice")


def _properties(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    try:
        for name, part in rule.items():
            if name in value:
                run.apply(part, value[name])
    except Mismatch as error:
        raise error.inside(name) from None


def _required(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    for name in rule:
        if name not in value:
            part = schema.get("properties", {}).get(name)
            raise Mismatch(_labels(part.get("type", []) if isinstance(part, dict) else [])).inside(name)


def _pattern_properties(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    try:
        for name, part in value.items():
            for pattern in rule:
                if run.matches(pattern, name):
                    run.apply(rule[pattern], part)
    except Mismatch as error:
        raise error.inside(name) from None


def _additional_properties(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name in value if not value.keys() <= known.keys() else ():
        if name in known or any(run.matches(pattern, name) is not False for pattern in patterns):
            continue
        if rule is not False:
            try:
                run.apply(rule, value[name])
                continue
            except Mismatch as error:
                raise error.inside(name) from None
        near = nearest(name, known)
        hint = "" if patterns or not known else f": the fields are {cut(listed(list(known)[:50], 'and'), 200)}"
        hint = f", did you mean {near!r}?" if near is not None else hint
        raise Mismatch("", value, instead=f"unknown field {cut(name)!r}{hint}")


def _property_names(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    for name in value:
        try:
            run.apply(rule, name)
        except Mismatch as error:
            raise Mismatch("", name, instead=f"the name {cut(name)!r}: {error}") from None


def _items(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    _each(islice(enumerate(value), len(schema.get("prefixItems", ())), None), repeat(rule), run)


def _prefix_items(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    _each(enumerate(value), rule, run)


def _each(items: Iterable[Tuple[int, Any]], rules: Iterable[Schema], run: _Run) -> None:
    for (index, item), part in zip(items, rules):
        try:
            run.apply(part, item)
        except Mismatch as error:
            raise error.inside(index) from None


def _all_of(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    for part in rule:
        run.apply(part, value)


def _any_of(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    errors = []
    for error in run.errors(rule, value):
        if error is None:
            return
        errors.append(error)
    raise _none_fits(value, errors)


def _one_of(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    errors = [error for error in run.errors(rule, value) if error is not None]
    fitting = len(rule) - len(errors)
    if not fitting:
        raise _none_fits(value, errors)
    if fitting > 1:
        raise Mismatch("", value, instead=f"fits {fitting} of {len(rule)} forms, but must fit exactly one")


def _none_fits(value: Any, errors: List[Mismatch]) -> Mismatch:
    shown = errors[:20]
    if any(error.path or error.instead for error in shown):
        tries = "; ".join(dict.fromkeys(cut(str(error), 120) for error in shown))
        return Mismatch("", value, instead=f"fits none of {len(errors)} forms ({cut(tries, 500)})")
    return Mismatch(cut(listed(dict.fromkeys(error.expected for error in shown)), 300), value)


def _not(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    if next(run.errors([rule], value)) is None:
        raise Mismatch("something else", value)


def _ref(rule: Any, value: Any, schema: Schema, run: _Run) -> None:
    place = (rule, id(value))
    if place not in run.followed:
        run.followed[place] = Mismatch("", instead="the schema refers to itself without end")
        run.followed[place] = next(run.errors([run.compiled.targets[rule]], value))
    error = run.followed[place]
    if error is not None:
        raise error.copy()


Check = Callable[[Any, Any, Schema, _Run], None]


class Word(NamedTuple):
    """A word of JSON Schema.

    Args:
        form: A schema of its own value; `SCHEMA`, `SCHEMAS` and `NAMED` tell those that are made of subschemas.
        check: Called with the word's value, the value to check, the schema that the word stands in, and the `_Run`.
        only: The types of values that the word says something about.
    """

    form: Schema
    check: Check = _all_of
    only: FrozenSet[type] = frozenset()


_ANY = JSON_TYPES | _NUMBERS
_TYPE_NAME = {"enum": list(_TYPES)}
_TEXT_WORDS = (
    "title", "description", "$comment", "format", "contentEncoding", "contentMediaType", "$id", "$schema", "$anchor",
)  # fmt: skip
WORDS: Dict[str, Word] = {
    "type": Word({"anyOf": [_TYPE_NAME, {**SCHEMAS, "items": _TYPE_NAME, "uniqueItems": True}]}, _type, _ANY),
    "enum": Word(_LIST, _enum, _ANY),
    "const": Word(True, _const, _ANY),
    "minimum": Word(_NUMBER, _bound("of at least", operator.lt), _NUMBERS),
    "maximum": Word(_NUMBER, _bound("of at most", operator.gt), _NUMBERS),
    "exclusiveMinimum": Word(_NUMBER, _bound("above", operator.le), _NUMBERS),
    "exclusiveMaximum": Word(_NUMBER, _bound("below", operator.ge), _NUMBERS),
    "multipleOf": Word({**_NUMBER, "exclusiveMinimum": 0}, _multiple_of, _NUMBERS),
    "minLength": Word(_SIZE, _length("character", "at least", operator.lt), _TEXTS),
    "maxLength": Word(_SIZE, _length("character", "at most", operator.gt), _TEXTS),
    "pattern": Word(_STRING, _pattern, _TEXTS),
    "minItems": Word(_SIZE, _length("item", "at least", operator.lt), _LISTS),
    "maxItems": Word(_SIZE, _length("item", "at most", operator.gt), _LISTS),
    "uniqueItems": Word(_FLAG, _unique, _LISTS),
    "minProperties": Word(_SIZE, _length("field", "at least", operator.lt), _OBJECTS),
    "maxProperties": Word(_SIZE, _length("field", "at most", operator.gt), _OBJECTS),
    "properties": Word(NAMED, _properties, _OBJECTS),
    "required": Word({**_LIST, "items": _STRING}, _required, _OBJECTS),
    "additionalProperties": Word(SCHEMA, _additional_properties, _OBJECTS),
    "patternProperties": Word(NAMED, _pattern_properties, _OBJECTS),
    "propertyNames": Word(SCHEMA, _property_names, _OBJECTS),
    "items": Word(SCHEMA, _items, _LISTS),
    "prefixItems": Word(SCHEMAS, _prefix_items, _LISTS),
    "allOf": Word(SCHEMAS, _all_of, _ANY),
    "anyOf": Word(SCHEMAS, _any_of, _ANY),
    "oneOf": Word(SCHEMAS, _one_of, _ANY),
    "not": Word(SCHEMA, _not, _ANY),
    "$ref": Word(_STRING, _ref, _ANY),
    **dict.fromkeys(("$defs", "definitions"), Word(NAMED)),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), Word(_FLAG)),
    **dict.fromkeys(_TEXT_WORDS, Word(_STRING)),
    "examples": Word(_LIST),
}
"""The words that are common. Every word that is neither here nor in `_NOT_COMMON` says nothing about values."""

_WORDS_FOR: Dict[type, Dict[str, Check]] = {
    cls: {name: word.check for name, word in WORDS.items() if cls in word.only} for cls in _ANY
}
"""By the type of a value the words that say something about it."""

_NOT_COMMON = frozenset({
    "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains", "minContains",
    "maxContains", "unevaluatedProperties", "unevaluatedItems", "additionalItems", "$dynamicRef", "$dynamicAnchor",
    "$recursiveRef", "$recursiveAnchor", "$vocabulary",
})  # fmt: skip


# ------------------------------------------------------------ jsonschema

_OURS = ("uniqueItems", "multipleOf", "pattern")
"""Words that `jsonschema` takes too long for (each item with each), fails at (large numbers), or would always run."""


def _by_jsonschema(schema: Schema, where: str, peer: bool) -> Callable[[Any], None]:
    """As `compile_validator`, for every schema that `jsonschema` knows."""
    try:
        import jsonschema as package
        from jsonschema_specifications import REGISTRY
        from referencing.exceptions import Unresolvable
    except ImportError as error:
        raise ImportError(
            f"{where}: this schema has words that need the package jsonschema to be checked: pip install jsonschema"
        ) from error
    jsonschema: Any = package
    dialect = schema.get("$schema", _LATEST)
    name = DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) else None
    if name is None:
        raise ValueError(f"{where}: the dialect {dialect!r} is not supported; these are: {', '.join(DIALECTS)}")
    if peer:
        _refuse_costly(schema, where)
    base = getattr(jsonschema, name)
    try:
        base.check_schema(schema)
        _look_up_references(base, schema, REGISTRY)
    except jsonschema.SchemaError as error:
        place = shown_path(error.absolute_path) or "the root"
        raise ValueError(f"{where}: no valid schema: {place}: {cut(error.message, 200)}") from error
    except Unresolvable as error:
        raise ValueError(f"{where}: $ref {error.ref!r} leads nowhere: nothing is fetched") from error
    except RecursionError as error:
        raise ValueError(f"{where}: the schema nests too deep") from error
    limits = _Limits()
    run = _Run(_Compiled(True, peer))

    def by_us(validator: Any, rule: Any, value: Any, schema: Schema, *, word: str) -> Iterator[Any]:
        try:
            if word in _WORDS_FOR[type(value)]:
                WORDS[word].check(rule, value, schema, run)
        except Mismatch as error:
            yield jsonschema.ValidationError(error.problem)

    judges = {**base.VALIDATORS, **{word: partial(by_us, word=word) for word in _OURS}}
    bounded = {word: partial(limits.counted, judge) for word, judge in judges.items()}
    validator = jsonschema.validators.extend(base, bounded)(schema, registry=REGISTRY)

    def validate(value: Any) -> None:
        limits.steps, limits.nested = MAX_STEPS // 4 + 20 * _count(value), 0
        try:
            errors = list(islice(validator.iter_errors(value), 20))
        except (_TooMuch, RecursionError):
            raise Mismatch("", value, instead=TOO_MUCH) from None
        if errors:
            worst = jsonschema.exceptions.best_match(errors)
            mismatch = Mismatch("", value, instead=cut(" ".join(worst.message.split()), 300))
            mismatch.path = list(worst.absolute_path)
            raise mismatch

    return validate


def _refuse_costly(schema: Schema, where: str) -> None:
    """Raises ValueError for a schema of a peer that `jsonschema` would need too long for."""
    text = json.dumps(schema)
    names = sum(text.count(f'"{word}":') for word in ("$id", "id", "$anchor", "$dynamicAnchor"))
    if _count(schema) > MAX_PARTS or names > MAX_NAMES:
        raise ValueError(f"{where}: the schema is too large to be checked with jsonschema")
    if '"patternProperties":' in text:
        raise ValueError(f"{where}: patternProperties of a peer are not checked with jsonschema")


def _look_up_references(base: Any, schema: Schema, registry: Any) -> None:
    """A missing one is an error of the schema, and not of the first value."""
    from referencing.jsonschema import specification_with

    resource = specification_with(base.META_SCHEMA["$schema"]).create_resource(schema)
    waiting: List[Any] = [(resource, registry.resolver_with_root(resource))]
    while waiting:
        part, resolver = waiting.pop()
        for word in ("$ref", "$dynamicRef"):
            if isinstance(part.contents, dict) and isinstance(part.contents.get(word), str):
                resolver.lookup(part.contents[word])
        waiting.extend((inner, resolver.in_subresource(inner)) for inner in part.subresources())


class _Limits(threading.local):
    """What is left to a check by `jsonschema` on this thread."""

    steps = 0
    nested = 0

    def counted(self, judge: Any, validator: Any, rule: Any, value: Any, schema: Schema) -> Iterator[Any]:
        """Applies a word within the limits."""
        self.steps -= 1 + (len(_children(rule)) + len(_children(value))) // 20
        self.nested += 1
        if self.steps < 0 or self.nested > MAX_NESTED:
            raise _TooMuch
        try:
            yield from judge(validator, rule, value, schema) or ()
        finally:
            self.nested -= 1
