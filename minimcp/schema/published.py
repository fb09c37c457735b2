"""The JSON Schema that a server publishes for a type: without references if possible, and open or
closed.

Some hosts drop ``$defs``, and some fail on ``additionalProperties``, so both are published only if
needed.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional

from .values import Schema, mapped

# Keywords that do not restrict values. One next to a reference may replace one in its target.
ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})

# Maximum number of values in a schema after inlining references. Frequent classes make a schema
# large, and a model reads the whole schema.
MAX_INLINED = 2_000

_DEFINITIONS = "#/$defs/"


def published(schema: Schema, definitions: dict[str, Schema], *, strict: bool) -> Schema:
    """Return the schema of a type as clients see it.

    Args:
        schema: The schema; its references refer to `definitions`.
        definitions: Definitions by name. Recursive ones stay in ``$defs``; the others are inlined
            if the result is not too large.
        strict: Whether every object forbids additional properties.
    """
    kept = _recursive(definitions)
    if _inlined_size(schema, definitions, kept) > MAX_INLINED:
        kept = set(definitions)
    expanded: dict[str, Schema] = {}

    def expand(part: Schema) -> Schema:
        name = _name_in(part)
        if name is not None and name not in kept:
            if name not in expanded:
                expanded[name] = mapped(definitions[name], expand)
            part = _merged(expanded[name], part)
        return _closed(part) if strict else part

    name = _name_in(schema)
    if name is not None and name in kept:  # clients expect a type in the root
        schema = _merged(definitions[name], schema)
    whole = mapped(schema, expand)
    waiting = list(_references(whole))
    needed = set(waiting)
    for each in waiting:  # the loop appends to the list
        found = [one for one in _references(definitions[each]) if one not in needed]
        waiting += found
        needed.update(found)
    used = {
        each: mapped(definitions[each], expand) for each in definitions if each in needed & kept
    }
    return {**whole, "$defs": used} if used else whole


def _name_in(schema: Schema) -> Optional[str]:
    """Return the name of the definition to which a schema refers, or None."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_DEFINITIONS):
        return None
    return reference[len(_DEFINITIONS) :]


def _references(schema: Schema) -> Iterator[str]:
    """Return the definitions to which a schema refers, with repetitions."""
    found: list[str] = []

    def look(part: Schema) -> Schema:
        name = _name_in(part)
        if name is not None:
            found.append(name)
        return part

    mapped(schema, look)
    return iter(found)


def _recursive(definitions: dict[str, Schema]) -> set[str]:
    """Return the definitions that refer to themselves, directly or indirectly."""
    direct = {name: set(_references(schema)) for name, schema in definitions.items()}
    reached = {name: set(names) for name, names in direct.items()}
    grows = True
    while grows:
        grows = False
        for name, names in reached.items():
            more = names.union(*(reached[each] for each in names if each in reached))
            if more != names:
                reached[name] = more
                grows = True
    return {name for name, names in reached.items() if name in names}


def _inlined_size(schema: Schema, definitions: dict[str, Schema], kept: set[str]) -> int:
    """Return the number of values in a schema after inlining its references."""
    sizes: dict[str, int] = {}

    def size(part: Schema) -> int:
        total = _count(part)
        for name in _references(part):
            if name in kept:
                continue
            if name not in sizes:
                sizes[name] = size(definitions[name])
            total += sizes[name]
        return total

    return size(schema)


def _count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, list) else 1


def _merged(definition: Schema, reference: Schema) -> Schema:
    """Return a definition in place of a reference, with the keywords next to the reference."""
    beside = {word: rule for word, rule in reference.items() if word != "$ref"}
    if ANNOTATIONS.issuperset(definition.keys() & beside.keys()):
        return {**definition, **beside}
    return {"allOf": [definition], **beside}


def _closed(schema: Schema) -> Schema:
    is_open = "properties" in schema and "additionalProperties" not in schema
    return {**schema, "additionalProperties": False} if is_open else schema
