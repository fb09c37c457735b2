"""The door to `jsonschema`: for the words and dialects that our closures do not know. Floor 1.

The only file that imports it, on first use. Nothing is fetched: references are looked up in the schema and in
the metaschemas that the package brings along. A check that needs too many steps is given up and said so.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, Optional

from .mismatch import Mismatch, cut, shown_path

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

TOO_MUCH = "the value cannot be checked: the schema needs too many steps for it"

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


def compile_foreign(schema: Any, where: str) -> Callable[[Any], Optional[Mismatch]]:
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
    words = [word for word in _NESTING if word in base.VALIDATORS]
    counted = {word: _counting(base.VALIDATORS[word], budget, int(word in _COUNTED)) for word in words}
    validator = jsonschema.validators.extend(base, counted)(schema, registry=registry)

    def find(value: Any) -> Optional[Mismatch]:
        budget.steps, budget.nested = MAX_STEPS + 20 * _parts(value), 0
        try:
            errors = list(islice(validator.iter_errors(value), 20))
            return _told(jsonschema.exceptions.best_match(errors), value) if errors else None
        except (_TooMuch, RecursionError):
            return Mismatch("", value, instead=TOO_MUCH)

    return find


def _parts(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, (list, dict)):
            waiting.extend(part if isinstance(part, list) else part.values())
    return count


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


def _counting(word: Any, budget: _Budget, cost: int) -> Any:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        budget.steps -= cost
        budget.nested += 1
        if budget.steps < 0 or budget.nested > MAX_NESTED:
            raise _TooMuch
        try:
            yield from word(validator, value, instance, schema) or ()
        finally:
            budget.nested -= 1

    return counted


def _told(error: Any, value: Any) -> Mismatch:
    found = Mismatch("", value, instead=cut(" ".join(error.message.split()), 300))
    found.path = list(error.absolute_path)
    return found
