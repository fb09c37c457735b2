"""From a JSON Schema to a compiled check: our own closures for the common words, `dialects` for the rest.

The check says what is wrong in one line; it converts nothing. Nothing is ever fetched: a ``$ref`` leads to a
place in the same schema, or the schema is refused.

Bounds: a schema nests at most 256 deep. Where a value meets the same referenced subschema again, the first
result stands, so that the work grows with the schema times the value and no faster.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .budget import MAX_STEPS, TOO_MUCH, Node, Seen, TooMuch
from .dialects import compile_foreign
from .mismatch import Mismatch
from .words import ANNOTATIONS, BUILDERS, LATER_ONLY, REST, SAME_IN

Check = Callable[[Any], Optional[str]]
Find = Callable[[Any], Optional[Mismatch]]

MAX_SCHEMA_DEPTH = 256
"""Levels that a schema may nest; the codec's limit for messages is the same."""

DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DATA = frozenset({"enum", "const", "default", "examples"})
"""Words whose values are no schemas, whatever they look like."""

TOO_DEEP = "the value nests too deep"


def compile_check(schema: Any, *, where: str) -> Check:
    """A function that returns None for a value that fits, else one line: "path: expected X, got Y".

    Thread-safe; it never raises for decoded JSON. Arguments and errors as `compile_finder`.
    """
    find = compile_finder(schema, where=where)

    def check(value: Any) -> Optional[str]:
        found = find(value)
        return None if found is None else str(found)

    return check


def compile_finder(schema: Any, *, where: str, bounded: bool = False) -> Find:
    """A function that returns None for a value that fits, else what is wrong with it: a Mismatch with its path.

    Args:
        schema: A JSON Schema: a dict, True or False. Without ``$schema`` it is 2020-12.
        where: What it belongs to, for the error messages about the schema itself.
        bounded: Whether checks and the schema itself are held to a number of steps: for one that a peer sent.

    The function is thread-safe and never raises for decoded JSON.

    Raises:
        ValueError: The schema is no valid one, refers to what is not in it, nests too deep, or names a dialect
            that is not supported (2020-12, 2019-09, draft-07, draft-06 and draft-04 are).
        ImportError: It needs the package ``jsonschema``, which is not installed.
    """
    _refuse_depth(schema, where)
    try:
        if _ours(schema):
            return _finder(_Compiler(schema).root(), bounded=bounded)
    except _Foreign:
        pass
    except RecursionError as error:
        raise ValueError(f"{where}: the schema nests too deep") from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return compile_foreign(schema, where, bounded=bounded)


class _Foreign(Exception):
    """The schema uses what our closures do not know."""


def _finder(node: Node, *, bounded: bool) -> Find:
    def find(value: Any) -> Optional[Mismatch]:
        try:
            return node(value, Seen(MAX_STEPS if bounded else None, value))
        except RecursionError:
            return Mismatch("", value, instead=TOO_DEEP)
        except TooMuch:
            return Mismatch("", value, instead=TOO_MUCH)

    return find


def _refuse_depth(schema: Any, where: str) -> None:
    """Look at the nesting without recursion, before anything recursive does."""
    level = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        deeper: List[Any] = []
        for part in level:
            if isinstance(part, dict):
                deeper.extend(part.values())
            elif isinstance(part, (list, tuple)):
                deeper.extend(part)
        if not deeper:
            return
        level = deeper
    raise ValueError(f"{where}: the schema nests deeper than {MAX_SCHEMA_DEPTH} levels")


def _ours(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    dialect = schema.get("$schema", DEFAULT_DIALECT)
    return isinstance(dialect, str) and dialect.rstrip("#") in SAME_IN


class _Compiler:
    """One schema on its way to closures.

    References are compiled once each, from a list of work and not by recursion, so cycles and long chains are safe.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        dialect = schema.get("$schema", DEFAULT_DIALECT) if isinstance(schema, dict) else DEFAULT_DIALECT
        self._older = dialect.rstrip("#") != DEFAULT_DIALECT
        self._targets: Dict[str, Node] = {}
        self._waiting: List[str] = []
        self._anchors: Dict[str, Any] = {}
        self._known: Set[str] = set()

    def root(self) -> Node:
        """The check of the whole schema, everything that it refers to compiled."""
        if isinstance(self._schema, dict):
            self._find_anchors(self._schema)
        node = self.compile(self._schema)
        while self._waiting:
            reference = self._waiting.pop()
            self._targets[reference] = self.compile(self._find(reference))
        return node

    def compile(self, schema: Any) -> Node:
        """The check of one subschema."""
        if schema is True or schema == {}:
            return _fits
        if schema is False:
            return _never
        if not isinstance(schema, dict):
            raise ValueError(f"a schema is an object, true or false, not {schema!r:.60}")
        self._refuse_foreign(schema)
        nodes = [node for word in schema if word in BUILDERS for node in self._built(word, schema)]
        if "$ref" in schema:
            nodes.append(self._reference(schema["$ref"]))
        return _all(nodes)

    def _refuse_foreign(self, schema: Dict[str, Any]) -> None:
        for word, value in schema.items():
            if word in REST or (word in ("$id", "$schema") and schema is not self._schema):
                raise _Foreign
            if self._older and (word in LATER_ONLY or (word == "$ref" and len(schema) > 1)):
                raise _Foreign
            if self._older and word == "items" and isinstance(value, list):
                raise _Foreign
            allowed = ANNOTATIONS.get(word)
            if allowed is not None and not isinstance(value, allowed):
                raise ValueError(f"the value of {word!r} cannot be {value!r:.60}")
        for part in (schema.get("$defs") or {}).values():
            self.compile(part)  # unused definitions have to be valid too

    def _built(self, word: str, schema: Dict[str, Any]) -> List[Node]:
        try:
            node = BUILDERS[word](schema[word], schema, self.compile)
        except (TypeError, AttributeError, KeyError, OverflowError) as error:
            raise ValueError(f"the value of {word!r} cannot be {schema[word]!r:.60}") from error
        return [] if node is None else [node]

    def _find_anchors(self, schema: Dict[str, Any]) -> None:
        waiting: List[Any] = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                if isinstance(part.get("$anchor"), str):
                    self._anchors[part["$anchor"]] = part
                waiting.extend(value for word, value in part.items() if word not in _DATA)
            elif isinstance(part, list):
                waiting.extend(part)

    def _reference(self, reference: Any) -> Node:
        if not isinstance(reference, str):
            raise ValueError(f"a $ref is a string, not {reference!r:.60}")
        if not reference.startswith("#"):
            raise _Foreign
        if reference not in self._known:
            self._known.add(reference)
            self._waiting.append(reference)
        targets = self._targets

        def follow(value: Any, seen: Seen) -> Optional[Mismatch]:
            seen.spend(1)
            key = (reference, id(value))
            if key in seen:
                known = seen[key]
                return None if known is None else known.copy()
            seen[key] = Mismatch("", instead="the schema refers to itself without end")
            found = targets[reference](value, seen)
            seen[key] = None if found is None else found.copy()
            return found

        return follow

    def _find(self, reference: str) -> Any:
        """What a local reference leads to."""
        pointer = _unquoted(reference[1:])
        if pointer and not pointer.startswith("/"):
            if pointer not in self._anchors:
                raise ValueError(f"$ref {reference!r} leads nowhere")
            return self._anchors[pointer]
        part = self._schema
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            try:
                part = part[int(step)] if isinstance(part, list) else part[step]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise ValueError(f"$ref {reference!r} leads nowhere") from error
        return part


def _unquoted(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text) if "%" in text else text


def _fits(value: Any, seen: Seen) -> Optional[Mismatch]:
    return None


def _never(value: Any, seen: Seen) -> Optional[Mismatch]:
    return Mismatch("nothing here", value)


def _all(nodes: List[Node]) -> Node:
    if not nodes:
        return _fits
    if len(nodes) == 1:
        return nodes[0]
    checks: Tuple[Node, ...] = tuple(nodes)

    def every(value: Any, seen: Seen) -> Optional[Mismatch]:
        for check in checks:
            found = check(value, seen)
            if found is not None:
                return found
        return None

    return every
