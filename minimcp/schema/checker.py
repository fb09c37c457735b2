"""Checks of values against any JSON Schema. Common keywords are checked here, all others by
`jsonschema`.

`jsonschema` is imported on first use, which takes a third of a second. Nothing is ever fetched: a
``$ref`` must refer to a place in the same schema. The cost of a peer's schema is limited: its size
and nesting, the processor time of one check, and the patterns that are run.
"""

from __future__ import annotations

import json
import operator
import re
import threading
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, islice, repeat, takewhile
from math import inf, isfinite
from time import thread_time
from typing import Any, Callable, Hashable, Iterable, Iterator, Mapping, NamedTuple, Optional

from ..log import logger
from .mismatch import MAX_KNOWN, Mismatch, cut, join_words, one_of, shown_path, unknown_field
from .values import JSON_TYPES, LABELS, TYPE_NAMES, frozen, has_twins, mapped

log = logger("minimcp.schema")

# A JSON Schema: a dict, True or False.
Schema = Any

# Maximum nesting of a schema; the codec's limit for messages is the same.
MAX_DEPTH = 256

# Maximum processor time of one check by a peer's schema, and the additional time for each part of
# the value.
MAX_SECONDS = 1.0
SECONDS_PER_PART = 20e-6

# Maximum length of a peer's pattern, and maximum steps of the matcher (about 0.1 s). The steps are
# estimated for texts of these lengths.
MAX_PATTERN = 1_000
MAX_TRIED = 1e7
LENGTHS = (100_000, 1_000, 100, 20)

# Maximum nesting of keywords that `jsonschema` applies. Each level takes about five frames, and an
# overflow inside its compiled parts is a panic that cannot be caught.
MAX_NESTED = 80

# Maximum number of values in a peer's schema for `jsonschema`, which needs 0.25 ms for each of them
# before it checks anything.
MAX_PARTS = 10_000

# Maximum number of names (``$id``, ``$anchor``) in such a schema, because every reference is
# searched for among all of them.
MAX_NAMES = 100

TOO_MUCH = "the value cannot be checked: it is nested too deeply, or the check takes too long"

# Values of ``$schema`` without the empty fragment, and the class of `jsonschema` for each.
DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}

_LATEST, *_OLDER, _OLDEST = DIALECTS


Check = Callable[[Any], Optional[Mismatch]]


def compile_check(schema: Schema, *, where: str, peer: bool = False) -> Check:
    """Compile a schema to a check: a function that returns None for a value that matches, or else a
    Mismatch such as "path: expected X, got Y".

    The check is thread-safe and never raises for decoded JSON.

    Args:
        schema: A JSON Schema: a dict, True or False. Without ``$schema`` it is 2020-12.
        where: The owner of the schema, for error messages about the schema itself.
        peer: Whether a peer sent the schema. If so, the time of a check is limited, and patterns
            that may be slow are not run.

    Raises:
        ValueError: The schema is invalid, refers to something outside itself, is too large or too
            deeply nested, or has a dialect that is not supported.
        ImportError: The schema needs the package ``jsonschema``, which is not installed.
    """
    try:
        if _size(schema)[1] > MAX_DEPTH:
            raise SchemaNotSupported(f"the schema is nested deeper than {MAX_DEPTH} levels")
        try:
            targets = _targets(schema, peer)
        except _NotCommon:
            return _by_jsonschema(schema, peer)
    except (ValueError, ImportError, RecursionError) as error:
        kinds = (
            each
            for each in (ImportError, SchemaNotSupported, ValueError)
            if isinstance(error, each)
        )
        raise next(kinds, SchemaNotSupported)(f"{where}: {error}") from error

    def check(value: Any) -> Optional[Mismatch]:
        try:
            return _Run(peer, targets, MAX_SECONDS if peer else inf, [value]).apply(schema, value)
        except (_TooMuch, RecursionError):
            return Mismatch("", value, instead=TOO_MUCH)

    return check


compile_peer_check = partial(compile_check, peer=True)


def compile_require(schema: Schema, *, where: str) -> Callable[[Any], None]:
    """Compile a schema like `compile_check`, to a function that raises the Mismatch."""
    check = compile_check(schema, where=where)

    def require(value: Any) -> None:
        error = check(value)
        if error is not None:
            raise error

    return require


def _size(value: Any) -> tuple[int, int]:
    """Return the number of values in a value, including itself, and its depth, up to MAX_DEPTH."""
    count = 0
    depth = 0
    level = [value]
    while level and depth <= MAX_DEPTH:
        count += len(level)
        depth += 1
        inner = [
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, (dict, list))
        ]
        level = [*chain.from_iterable(inner)]
    return count, depth


class SchemaNotSupported(ValueError):
    """The schema may be valid but cannot be used here: it is too large or refers outside itself."""


class _NotCommon(Exception):
    """The schema has a keyword or a dialect that this module does not implement."""


class _TooMuch(Exception):
    """A check exceeded its time."""


def _targets(root: Schema, peer: bool) -> dict[str, Schema]:
    """Return the targets of all references in a schema, after validating each of its parts.

    Raises:
        ValueError: A keyword has an invalid value, or a reference has no target.
        _NotCommon: The schema has a keyword or dialect that is not implemented here.
    """
    dialect = root.get("$schema", _LATEST) if isinstance(root, dict) else _LATEST
    if not isinstance(dialect, str) or dialect.rstrip("#") not in (_LATEST, *_OLDER):
        raise _NotCommon
    is_older = dialect.rstrip("#") != _LATEST
    targets: dict[str, Schema] = {}
    seen: set[int] = set()
    parts = [root]
    for part in parts:  # the loop appends to the list
        if id(part) in seen or isinstance(part, bool):
            continue
        seen.add(id(part))
        if not isinstance(part, dict):
            raise ValueError(f"a schema must be an object, true or false, not {part!r:.60}")
        if is_older and (
            "prefixItems" in part
            or isinstance(part.get("items"), list)
            or "$ref" in part
            and len(part) > 1
        ):
            raise _NotCommon
        if not NOT_COMMON.isdisjoint(part) or (
            part is not root and ("$id" in part or "$schema" in part)
        ):
            raise _NotCommon
        for word in filter(WORDS.__contains__, part):
            parts += _subschemas(word, part[word], peer)
        if "$ref" in part:
            targets[part["$ref"]] = _target(part["$ref"], root)
            parts.append(targets[part["$ref"]])
    return targets


def _subschemas(word: str, rule: Any, peer: bool) -> Iterable[Schema]:
    """Return the schemas in the value of a keyword. Raise ValueError if the value is invalid."""
    form = WORDS[word].form
    if _Run().apply(form, rule) is not None:
        raise ValueError(f"the value of {word!r} cannot be {rule!r:.60}")
    patterns: Iterable[str] = ()
    if word == "pattern" and not peer:
        patterns = [rule]
    elif word == "patternProperties" and not peer:
        patterns = rule
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError) as error:
            raise ValueError(
                f"the pattern {pattern!r:.60} is not a Python regular expression: {error}"
            ) from error
    if form is SCHEMA:
        return [rule]
    if form is SCHEMAS:
        return rule  # type: ignore[no-any-return]
    return rule.values() if form is NAMED else ()


def _target(reference: str, root: Schema) -> Schema:
    """Return the target of a reference. Raise ValueError if there is none."""
    if reference[:2] not in ("#", "#/"):
        raise _NotCommon
    if "%" in reference:
        from urllib.parse import unquote  # rarely needed

        reference = unquote(reference)
    part = root
    try:
        for step in reference.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            part = part[int(step)] if isinstance(part, list) else part[step]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ValueError(f"$ref {reference!r:.100} has no target in the schema") from error
    return part


def types_of(schema: Schema, root: Schema = None, levels: int = 20) -> frozenset[str]:
    """Return the JSON types of values that may match a valid schema, according to its common
    keywords.

    Args:
        schema: The schema.
        root: The schema to which references refer; None means `schema`.
        levels: Maximum nesting of schemas to examine.
    """
    types = frozenset(LABELS)
    if levels == 0 or not isinstance(schema, dict):
        return types if schema is not False else frozenset()
    look = partial(types_of, root=schema if root is None else root, levels=levels - 1)
    if "type" in schema:
        given = schema["type"]
        types &= {given} if isinstance(given, str) else set(given)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        types &= frozenset().union(*(_NAMES[type(value)] for value in values))
    if "$ref" in schema:
        with suppress(ValueError, _NotCommon):
            types &= look(_target(schema["$ref"], schema if root is None else root))
    for part in schema.get("allOf", ()):
        types &= look(part)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            types &= frozenset().union(*map(look, schema[word]))
    return types


@dataclass(eq=False, repr=False)
class _Run:
    """The check of one value.

    Args:
        peer: Whether a peer sent the schema.
        targets: The targets of references in the schema.
        seconds: Maximum processor time, from the first call of `check_time`.
        large: The value, until its size was counted, which permits additional time.
        until: When the time is over.
        applied: How many subschemas were applied.
        followed: The result of each reference for each part of the value, so that it is checked
            once.
        choices: The values of each ``enum``, as a set.
        not_run: The patterns that were not run on some text. From then on a value is never rejected
            because too much of a schema matches.
    """

    peer: bool = False
    targets: Mapping[str, Schema] = field(default_factory=dict)
    seconds: float = inf
    large: list[Any] = field(default_factory=list)
    until: float = 0.0
    applied: int = 0
    followed: dict[tuple[str, int], Optional[Mismatch]] = field(default_factory=dict)
    choices: dict[int, set[Hashable]] = field(default_factory=dict)
    not_run: set[str] = field(default_factory=set)

    def apply(self, schema: Schema, value: Any) -> Optional[Mismatch]:
        """Return what is wrong with a value according to a subschema, or None."""
        if schema is False:
            return Mismatch("nothing here", value)
        self.applied += 1
        if not self.applied % 10:
            self.check_time()
        if schema is True:
            return None
        words = _WORDS_FOR[type(value)]
        for word in schema:
            if word in words:
                error = words[word](schema[word], value, schema, self)
                if error is not None:
                    return error
        return None

    def check_time(self) -> None:
        """Raise _TooMuch if the time is over. Call this before everything that may take a
        millisecond."""
        now = thread_time()
        self.until = self.until or now + self.seconds
        if now > self.until and self.large:
            self.until += SECONDS_PER_PART * _size(self.large.pop())[0]
        if now > self.until:
            raise _TooMuch

    def matches(self, pattern: str, text: str) -> Optional[bool]:
        """Return whether a pattern is found in a text, or None if the pattern is not run."""
        self.check_time()
        if self.peer and len(text) > longest_text(pattern):
            if pattern not in self.not_run:
                log.debug(
                    "the pattern %.100r may be slow, so it was not run on %d characters",
                    pattern,
                    len(text),
                )
            self.not_run.add(pattern)
            return None
        return re.search(pattern, text) is not None


# ------------------------------------------------------------ patterns of a peer

# The second name is that of Python 3.10 and older.
_parser: Any = getattr(re, "_parser", None) or getattr(re, "sre_parse")  # noqa: B009
# Sets that a future `re` may interpret differently. It prints warnings about them to stderr and
# repeats the peer's text, so such a pattern is not run.
_UNSURE_SET = r"(?s)\[\^?(?:\[|\]?(?:\\.|[^\]\\])*(?:--|&&|~~|\|\|))"


@lru_cache(maxsize=512)
def longest_text(pattern: str) -> int:
    """Return the maximum length of texts on which a peer's pattern is run, or -1 for never.

    For such texts the matcher of Python has only a limited number of ways to try.
    """
    try:
        if len(pattern) > MAX_PATTERN or re.search(_UNSURE_SET, pattern):
            return -1
        pieces = _parser.parse(pattern)
        is_plain = pieces.state.flags == re.UNICODE
        is_anchored = str(pieces[:1]).startswith("[(AT, AT_BEGINNING")
        costs = (
            (length, (1 if is_anchored else length) * _cost(pieces, length)[1])
            for length in LENGTHS
        )
        return next((length for length, steps in costs if is_plain and steps <= MAX_TRIED), -1)
    except (re.error, OverflowError, Warning):
        return -1


def _cost(pieces: Any, length: int) -> tuple[float, float]:
    """Return upper bounds of the ways in which pieces of a pattern may match, and of the steps to
    try all of them, from one place in a text.

    Each way of a piece is tried after each way of the pieces before it. Pieces that are not
    analyzed (back references, lookaheads, a repeated piece that may be empty) count as infinitely
    many steps.
    """
    ways = steps = 1.0
    for code, rule in pieces:
        name = str(code)
        more = 1.0
        tried = 1.0
        if name == "BRANCH":
            more, tried = map(sum, zip(*(_cost(each, length) for each in rule[1])))
        elif name == "SUBPATTERN" and rule[1:3] == (0, 0):
            more, tried = _cost(rule[3], length)
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and rule[2].getwidth()[0]:
            least = min(rule[0], length)
            most = min(rule[1], length)
            once, tried = _cost(rule[2], length)
            more = (most - least + 1) * once**most
            tried *= most * once ** max(most - 1, 0)
        elif name == "IN":
            tried = len(rule)
        elif name not in ("LITERAL", "NOT_LITERAL", "ANY", "AT"):
            tried = inf
        steps += ways * tried
        ways *= more
    return ways, steps


# ------------------------------------------------------------ keywords

# The JSON Schema names of each type of decoded JSON.
_NAMES = {cls: {name} for cls, name in TYPE_NAMES.items()}
_NAMES.update({int: {"integer", "number"}, Decimal: {"number"}})

Found = Optional[Mismatch]


def _type(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    names = _NAMES[int if type(value) is float and value.is_integer() else type(value)]
    if rule in names if isinstance(rule, str) else not names.isdisjoint(rule):
        return None
    return Mismatch(_labels(rule), value)


def _labels(names: Any) -> str:
    if isinstance(names, str):
        names = [names]
    return join_words([LABELS[name] for name in names] or ["a value"])


def _enum(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    run.check_time()
    if id(rule) not in run.choices:  # the schema keeps `rule` alive, so its id is unique
        run.choices[id(rule)] = set(map(frozen, rule))
    if frozen(value) in run.choices[id(rule)]:
        return None
    return Mismatch(
        one_of(rule),
        value,
        choices={each: each for each in rule[:MAX_KNOWN] if isinstance(each, str)},
    )


def _const(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    run.check_time()
    if frozen(value) == frozen(rule):
        return None
    return Mismatch(one_of([rule]), value, choices={rule: rule} if isinstance(rule, str) else None)


def _bound(label: str, refused: Callable[[Any, Any], bool]) -> Judge:
    return lambda rule, value, *_: (
        Mismatch(f"a number {label} {rule}", value) if refused(value, rule) else None
    )


def _multiple_of(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    # With fractions, because in floating point 0.3 is not a multiple of 0.1.
    step, parts = Decimal(str(rule)).as_integer_ratio()
    if not isinstance(value, float) or isfinite(value):
        number = value
        if isinstance(value, float) and isinstance(rule, float):
            number = Decimal(repr(value))
        numerator, denominator = number.as_integer_ratio()
        if numerator * parts % (denominator * step) == 0:
            return None
    return Mismatch(f"a multiple of {rule}", value)


def is_exact_step(step: Any) -> bool:
    """Return whether validators that divide in floating point find all multiples: 0.25 is exact,
    0.1 is not."""
    return not isinstance(step, float) or Decimal(repr(step)) == Decimal(step)


def _length(unit: str, bound: str, refused: Callable[[int, int], bool]) -> Judge:
    def error(rule: Any, value: Any) -> Mismatch:
        wanted = f"{bound} {rule} {unit}{'' if rule == 1 else 's'}"
        return Mismatch("", value, instead=f"expected {wanted}, got {len(value)}")

    return lambda rule, value, *_: error(rule, value) if refused(len(value), rule) else None


def _pattern(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    if run.matches(rule, value) is False:
        return Mismatch(f"a string that matches {rule}", value)
    return None


def _unique(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    run.check_time()
    if rule and has_twins(value):
        message = "expected a list without duplicates, got the same item twice"
        return Mismatch("", value, instead=message)
    return None


def _properties(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    names = rule if len(rule) <= len(value) else value
    for name in names:  # not with _each, because this is the hot loop of most checks
        if name in value and name in rule:
            error = run.apply(rule[name], value[name])
            if error is not None:
                return error.inside(name)
    return None


def _required(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    for name in rule:
        if name not in value:
            part = schema.get("properties", {}).get(name)
            types = part.get("type", []) if isinstance(part, dict) else []
            return Mismatch(_labels(types)).inside(name)
    return None


def _pattern_properties(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    return _each(
        (
            (name, value[name], rule[each])
            for name in value
            for each in rule
            if run.matches(each, name)
        ),
        run,
    )


def _additional_properties(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    if value.keys() <= known.keys():
        return None
    others = [name for name in value if name not in known]
    others = [
        name for name in others if all(run.matches(pattern, name) is False for pattern in patterns)
    ]
    if others and rule is False:
        run.check_time()  # the search for a similar name may be slow
        return unknown_field(value, others[0], [*known, *patterns])
    return _each(((name, value[name], rule) for name in others), run)


def _property_names(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    for name in value:
        error = run.apply(rule, name)
        if error is not None:
            return Mismatch("", name, instead=f"the name {cut(name)!r}: {error}")
    return None


def _items(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    start = len(schema.get("prefixItems", ()))
    return _each(islice(zip(range(len(value)), value, repeat(rule)), start, None), run)


def _prefix_items(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    return _each(zip(range(len(value)), value, rule), run)


def _each(parts: Iterable[tuple[Any, Any, Schema]], run: _Run) -> Found:
    """Return the first mismatch among parts of a value, which are given as (key, part,
    subschema)."""
    for key, part, rule in parts:
        error = run.apply(rule, part)
        if error is not None:
            return error.inside(key)
    return None


def _all_of(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    return next((error for error in map(run.apply, rule, repeat(value)) if error is not None), None)


def _any_of(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    errors = [*takewhile(lambda error: error is not None, map(run.apply, rule, repeat(value)))]
    if len(errors) < len(rule):
        return None
    return _none_fits(value, errors, run)  # type: ignore[arg-type]


def _one_of(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    errors = [error for error in map(run.apply, rule, repeat(value)) if error is not None]
    fitting = len(rule) - len(errors)
    if fitting > 1 and not run.not_run:
        return Mismatch(
            "", value, instead=f"fits {fitting} of {len(rule)} forms, but must fit exactly one"
        )
    return None if fitting else _none_fits(value, errors, run)


def _none_fits(value: Any, errors: list[Mismatch], run: _Run) -> Mismatch:
    shown = errors[:20]
    if any(error.path or error.instead for error in shown):
        tries = []
        for error in shown:
            run.check_time()
            tries.append(cut(str(error), 120))
        reasons = cut("; ".join(dict.fromkeys(tries)), 500)
        return Mismatch("", value, instead=f"fits none of {len(errors)} forms ({reasons})")
    return Mismatch(cut(join_words(dict.fromkeys(error.expected for error in shown)), 300), value)


def _not(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    fits = run.apply(rule, value) is None
    return Mismatch("something else", value) if fits and not run.not_run else None


def _ref(rule: Any, value: Any, schema: Schema, run: _Run) -> Found:
    place = (rule, id(value))
    if place not in run.followed:
        run.followed[place] = Mismatch("", instead="the schema refers to itself endlessly")
        run.followed[place] = run.apply(run.targets[rule], value)
    return copy(run.followed[place])


Judge = Callable[[Any, Any, Schema, _Run], Found]


class Word(NamedTuple):
    """A keyword of JSON Schema.

    Args:
        form: A schema of the keyword's value. `SCHEMA`, `SCHEMAS` and `NAMED` mark values that
            consist of subschemas.
        check: Function of the keyword's value, the value to check, the schema with the keyword, and
            the `_Run`.
        only: The types of values to which the keyword applies.
    """

    form: Schema
    check: Judge = _all_of
    only: frozenset[type] = frozenset()


SCHEMA: Schema = {"type": ["object", "boolean"]}
SCHEMAS: Schema = {"type": "array", "minItems": 1}
NAMED: Schema = {"type": "object"}
_STRING = {"type": "string"}
_FLAG = {"type": "boolean"}
_LIST = {"type": "array"}
_NUMBER = {"type": "number"}
_SIZE = {"type": "integer", "minimum": 0}
_TYPE_NAME = {"enum": list(LABELS)}
_TEXTS = frozenset({str})
_LISTS = frozenset({list})
_OBJECTS = frozenset({dict})
_NUMBERS = frozenset({int, float, Decimal})
_ANY = JSON_TYPES | _NUMBERS
_SIZES = (
    ("Length", "character", _TEXTS),
    ("Items", "item", _LISTS),
    ("Properties", "field", _OBJECTS),
)
# The keywords that are implemented here. Keywords that are neither here nor in `NOT_COMMON` do not
# restrict values.
WORDS: dict[str, Word] = {
    "type": Word(
        {"anyOf": [_TYPE_NAME, {**SCHEMAS, "items": _TYPE_NAME, "uniqueItems": True}]}, _type, _ANY
    ),
    "enum": Word(_LIST, _enum, _ANY),
    "const": Word(True, _const, _ANY),
    "minimum": Word(_NUMBER, _bound("of at least", operator.lt), _NUMBERS),
    "maximum": Word(_NUMBER, _bound("of at most", operator.gt), _NUMBERS),
    "exclusiveMinimum": Word(_NUMBER, _bound("above", operator.le), _NUMBERS),
    "exclusiveMaximum": Word(_NUMBER, _bound("below", operator.ge), _NUMBERS),
    "multipleOf": Word({**_NUMBER, "exclusiveMinimum": 0}, _multiple_of, _NUMBERS),
    **{
        f"min{what}": Word(_SIZE, _length(unit, "at least", operator.lt), only)
        for what, unit, only in _SIZES
    },
    **{
        f"max{what}": Word(_SIZE, _length(unit, "at most", operator.gt), only)
        for what, unit, only in _SIZES
    },
    "pattern": Word(_STRING, _pattern, _TEXTS),
    "uniqueItems": Word(_FLAG, _unique, _LISTS),
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
    **dict.fromkeys(("$id", "$schema"), Word(_STRING)),
}

# For each type of value: the keywords that apply to it.
_WORDS_FOR = {
    cls: {name: word.check for name, word in WORDS.items() if cls in word.only} for cls in _ANY
}

NOT_COMMON = frozenset({
    "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "contains",
    "minContains", "maxContains", "unevaluatedProperties", "unevaluatedItems", "additionalItems",
    "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary",
})  # fmt: skip

# Keywords that restrict values in any dialect.
ASSERTIONS = NOT_COMMON.union(
    WORDS, ("format", "contentEncoding", "contentMediaType", "contentSchema", "nullable")
)


# ------------------------------------------------------------ jsonschema

_NAMING = r'"(?:\$?id|\$anchor|\$dynamicAnchor)":'
# Keywords for which `jsonschema` is too slow (it compares each item with each), fails (large
# numbers), or would run every pattern.
_OURS = ("uniqueItems", "multipleOf", "pattern")


def _even_dependencies(schema: Schema) -> Schema:
    """Return a schema whose ``dependencies`` have one form. The drafts permit two forms, but
    `jsonschema` fails if both are mixed."""
    rules = schema.get("dependencies")
    if not isinstance(rules, dict) or not any(isinstance(each, dict) for each in rules.values()):
        return schema
    even = {name: {"required": r} if isinstance(r, list) else r for name, r in rules.items()}
    return {**schema, "dependencies": even}


def _by_jsonschema(schema: Schema, peer: bool) -> Check:
    """Compile a schema to a check, as `compile_check`, with `jsonschema`."""
    try:
        import jsonschema
        from jsonschema_specifications import REGISTRY
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import specification_with
    except ImportError as error:
        raise ImportError(
            "this schema has keywords that need the package jsonschema: pip install jsonschema"
        ) from error
    dialect = schema.get("$schema", _LATEST)
    name = DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) else None
    if name is None:
        raise SchemaNotSupported(
            f"the dialect {dialect!r} is not supported: use one of {', '.join(DIALECTS)}"
        )
    if peer:
        text = json.dumps(schema)
        is_large = _size(schema)[0] > MAX_PARTS or len(re.findall(_NAMING, text)) > MAX_NAMES
        if is_large or '"patternProperties":' in text:
            raise SchemaNotSupported(
                "a peer's schema is not passed to jsonschema if it is large or has "
                "patternProperties"
            )
    base = getattr(jsonschema, name)
    if isinstance(schema, dict):
        schema = mapped(schema, _even_dependencies)
    try:
        base.check_schema(schema, format_checker=jsonschema.FormatChecker(() if peer else None))
        resource = specification_with(base.META_SCHEMA["$schema"]).create_resource(schema)
        waiting = [(resource, REGISTRY.resolver_with_root(resource))]
        # A reference without a target is an error now and not at the first value.
        while waiting:
            part, resolver = waiting.pop()
            for word in ("$ref", "$dynamicRef"):
                if isinstance(part.contents, dict) and isinstance(part.contents.get(word), str):
                    resolver.lookup(part.contents[word])
            waiting.extend((inner, resolver.in_subresource(inner)) for inner in part.subresources())
    except jsonschema.SchemaError as error:
        place = shown_path(error.absolute_path) or "the root"
        raise ValueError(f"not a valid schema: {place}: {cut(error.message, 200)}") from error
    except Unresolvable as error:
        kind = ValueError if error.ref.startswith("#") else SchemaNotSupported
        message = f"$ref {error.ref!r:.100} has no target in the schema: nothing is fetched"
        raise kind(message) from error
    state = threading.local()  # the check on this thread, and its current nesting of keywords

    def by_us(word: str, validator: Any, rule: Any, value: Any, schema: Schema) -> Iterator[Any]:
        if word not in _WORDS_FOR[type(value)]:
            return
        error = WORDS[word].check(rule, value, schema, state.run)
        if error is not None:
            yield jsonschema.ValidationError(str(error))

    def bounded(judge: Any, *arguments: Any) -> Iterator[Any]:
        state.nested += 1
        state.run.check_time()
        if state.nested > MAX_NESTED:
            raise _TooMuch
        try:
            for error in judge(*arguments) or ():
                state.run.check_time()  # the message repeats the value, which may be large
                yield error
        finally:
            state.nested -= 1

    judges = {**base.VALIDATORS, **{word: partial(by_us, word) for word in _OURS}}
    judges = {word: partial(bounded, judge) for word, judge in judges.items()}
    validator = jsonschema.validators.extend(base, judges)(schema, registry=REGISTRY)

    def check(value: Any) -> Optional[Mismatch]:
        state.run = _Run(peer, {}, MAX_SECONDS, [value] * 5)  # jsonschema is slower
        state.nested = 0
        try:
            worst = jsonschema.exceptions.best_match(islice(validator.iter_errors(value), 20))
        except (_TooMuch, RecursionError):
            return Mismatch("", value, instead=TOO_MUCH)
        if worst is None:
            return None
        mismatch = Mismatch("", value, instead=cut(" ".join(worst.message.split()), 300))
        mismatch.path = list(worst.absolute_path)
        return mismatch

    return check
