"""The door to `jsonschema`: for the words and dialects that our closures do not know.

The only file that imports it, on first use. Nothing is fetched: references are looked up in the schema and in
the metaschemas that the package brings along. A check that needs too many steps is given up and said so.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, Optional

from .budget import TOO_MUCH, Seen, parts
from .mismatch import Mismatch, cut, shown_path
from .words import BUILDERS

DIALECTS: Dict[str, str] = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""What ``$schema`` may say, without the empty fragment."""

MAX_STEPS = 50_000
"""Times that one check may follow a word that can repeat work, 20 more per part of the value. About a second."""

MAX_NESTED = 80
"""Words inside words. Each takes some five frames, and an overflow inside the package ends in a panic of its
compiled parts, which nothing can catch."""

MAX_PARTS = 10_000
"""Values in a schema of a peer: the package needs a quarter of a millisecond for each before it checks anything."""

MAX_LOOKUPS = 100_000
"""References in a schema of a peer times names in it that they may lead to: each is looked for among all."""

_NAMING = frozenset({"$id", "id", "$anchor", "$dynamicAnchor"})
_SCANNING = frozenset({"contains", "enum", "const", "patternProperties", "additionalProperties", "propertyNames"})
"""Words whose work grows with the value even where they apply nothing to its parts."""

_COUNTED = ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
_NESTING = _COUNTED + (
    "properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "dependencies",
    "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
)  # fmt: skip


class _TooMuch(Exception):
    """The budget of one check is used up."""


class _Budget(threading.local):
    steps = 0
    nested = 0


def compile_foreign(schema: Any, where: str, *, bounded: bool = False) -> Callable[[Any], Optional[Mismatch]]:
    """As `check.compile_finder`, by `jsonschema`."""
    try:
        import jsonschema as package
        import referencing.exceptions
    except ImportError as error:
        raise ImportError(
            f"{where}: this schema has words that need the package jsonschema to be checked: pip install jsonschema"
        ) from error
    jsonschema: Any = package
    base = _validator_class(jsonschema, schema, where)
    lookup = _lookup_cost(schema, where, bounded=bounded)
    try:
        base.check_schema(schema)
        registry = _refuse_dangling(base, schema)
    except jsonschema.SchemaError as error:
        place = shown_path(error.absolute_path)
        raise ValueError(f"{where}: no valid schema: {place or 'the root'}: {cut(error.message, 200)}") from error
    except referencing.exceptions.Unresolvable as error:
        raise ValueError(f"{where}: $ref {error.ref!r} leads nowhere: nothing is fetched") from error
    except RecursionError as error:
        raise ValueError(f"{where}: the schema nests too deep") from error
    budget = _Budget()
    judges = {**base.VALIDATORS, **{word: _judged(jsonschema, word) for word in _OURS if word in base.VALIDATORS}}
    counted = {word: _counting(word, judge, budget, lookup) for word, judge in judges.items()}
    validator = jsonschema.validators.extend(base, counted)(schema, registry=registry)

    def find(value: Any) -> Optional[Mismatch]:
        budget.steps, budget.nested = MAX_STEPS + 20 * parts(value), 0
        try:
            errors = list(islice(validator.iter_errors(value), 20))
            return _told(jsonschema.exceptions.best_match(errors), value) if errors else None
        except (_TooMuch, RecursionError):
            return Mismatch("", value, instead=TOO_MUCH)

    return find


def _validator_class(jsonschema: Any, schema: Any, where: str) -> Any:
    dialect = schema.get("$schema", "") if isinstance(schema, dict) else ""
    name = DIALECTS.get(dialect.rstrip("#")) if isinstance(dialect, str) and dialect else "Draft202012Validator"
    if dialect != "" and (not isinstance(dialect, str) or name is None):
        known = ", ".join(DIALECTS)
        raise ValueError(f"{where}: the dialect {dialect!r} is not supported; these are: {known}")
    return getattr(jsonschema, str(name))


def _refuse_dangling(base: Any, schema: Any) -> Any:
    """Look every reference up once, so that a missing one is an error of the schema and not of a value.

    Returns:
        The registry, which knows this dialect's metaschema and has no way to fetch anything.
    """
    import referencing.jsonschema as dialects

    uri = base.META_SCHEMA["$schema"]
    specification = dialects.specification_with(uri)
    registry = dialects.EMPTY_REGISTRY.with_resource(uri, specification.create_resource(base.META_SCHEMA))
    resource = specification.create_resource(schema)
    waiting: List[Any] = [(resource, registry.resolver_with_root(resource))]
    while waiting:
        part, resolver = waiting.pop()
        if isinstance(part.contents, dict):
            for word in ("$ref", "$dynamicRef"):
                if isinstance(part.contents.get(word), str):
                    resolver.lookup(part.contents[word])
        for inner in part.subresources():
            waiting.append((inner, resolver.in_subresource(inner)))
    return registry


def _counting(word: str, judge: Any, budget: _Budget, lookup: int) -> Any:
    cost = (lookup if word in ("$ref", "$dynamicRef") else 1) if word in _COUNTED else 0
    deeper = int(word in _NESTING)
    scans = word in _SCANNING

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget.steps -= cost + (len(value) // 50 if isinstance(value, (list, dict)) else 0)
        if scans and isinstance(instance, (list, dict)):
            budget.steps -= len(instance) * (len(value) if word == "patternProperties" else 1) // 20
        budget.nested += deeper
        if budget.steps < 0 or budget.nested > MAX_NESTED:
            raise _TooMuch
        try:
            yield from judge(validator, value, instance, schema) or ()
        finally:
            budget.nested -= deeper

    return counted


_OURS = ("uniqueItems", "multipleOf")
"""Words that the package takes too long for (it compares each item with each), or fails at (large numbers)."""


def _judged(jsonschema: Any, word: str) -> Any:
    def judge(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        check = BUILDERS[word](value, schema, lambda part: None)  # type: ignore[arg-type, return-value]
        found = None if check is None else check(instance, Seen())
        if found is not None:
            yield jsonschema.ValidationError(found.problem)

    return judge


def _lookup_cost(schema: Any, where: str, *, bounded: bool) -> int:
    """The steps that following a reference counts for: the package looks at every name for each.

    Raises:
        ValueError: The schema is held to bounds, and reading it would take too long.
    """
    references = names = count = 0
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, dict):
            names += not _NAMING.isdisjoint(part)
            references += "$ref" in part or "$dynamicRef" in part
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
    if bounded and (count > MAX_PARTS or references * names > MAX_LOOKUPS):
        raise ValueError(f"{where}: the schema is too large to be checked with jsonschema")
    return 1 + names // 2


def _told(error: Any, value: Any) -> Mismatch:
    found = Mismatch("", value, instead=cut(" ".join(error.message.split()), 300))
    found.path = list(error.absolute_path)
    return found
