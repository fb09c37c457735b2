"""From an annotation to its `Kind`; `kind_of` for one type, `Builder` for all that share one set of ``$defs``."""

from __future__ import annotations

import sys
import typing
from dataclasses import replace
from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple, Union

from . import kinds
from .constraints import narrowed
from .hints import no_class, no_type
from .introspection import Scope, is_union
from .kinds import CLASSES, JSON_TYPES, SCALARS, Convert, Kind
from .mismatch import NOTHING, Mismatch
from .records import class_with_fields

Schema = Dict[str, Any]

_LISTS = ("Sequence", "MutableSequence", "Iterable", "Collection")
_ABSTRACT: Dict[str, type] = {
    **dict.fromkeys(_LISTS, list), "Mapping": dict, "MutableMapping": dict, "Set": frozenset, "MutableSet": set,
}  # fmt: skip
"""What values of the classes of `collections.abc` become."""

_WRAPPERS = ("Required", "NotRequired", "ReadOnly", "Final", "InitVar")


def kind_of(annotation: Any, *, scope: Optional[Scope] = None, writing: bool = False) -> Kind:
    """The kind of an annotation, its schema complete with ``$defs``.

    Args:
        annotation: A type, or a string that names one.
        scope: Where names in strings are looked up; None knows only what `typing` has.
        writing: Whether the schema is for results, in which every field is there, not for arguments.

    Raises:
        TypeError: The type has no JSON form (the message says which part and what to write instead), or a name
            cannot be resolved.
    """
    builder = Builder(writing=writing)
    kind = builder.kind(annotation, scope or Scope())
    return replace(kind, schema=builder.complete(kind.schema))


def write_any(value: Any) -> Any:
    """The JSON form of a value whose type nobody declared: by its class, its parts alike.

    Raises:
        Mismatch: A value inside has no JSON form.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) in (list, tuple):
        return _LIST.write(value)
    if type(value) is dict:
        return _OBJECT.write(value)
    try:
        write = _writer_of(type(value))  # type: ignore[arg-type]
    except TypeError as error:
        raise Mismatch("a value with a JSON form", value, instead=str(error)) from error
    return write(value)


_ANYTHING = kinds.anything(write_any)
_LIST, _OBJECT = kinds.array(_ANYTHING), kinds.mapping(kinds.free_name(), _ANYTHING)


@lru_cache(maxsize=512)
def _writer_of(cls: Any) -> Convert:
    if cls is object:
        raise TypeError("a bare object has no JSON form")
    try:
        return kind_of(cls, writing=True).write
    except TypeError:
        base = next((each for each in (str, int, float, dict, list, tuple) if issubclass(cls, each)), None)
        if base is None:
            raise
        return kind_of(base, writing=True).write


class ContentClass(TypeError):
    """An annotation is made of a class whose instances are sent as they are."""


class Builder:
    """Makes the kinds of one schema, which share one set of ``$defs``.

    Args:
        writing: As in `kind_of`.
        content: Classes whose instances are sent as they are: `kind` raises ContentClass for what is made of them.
    """

    def __init__(self, *, writing: bool = False, content: Tuple[type, ...] = ()) -> None:
        self.writing, self.content = writing, content
        self.definitions: Dict[str, Schema] = {}
        self._named: Dict[Any, Kind] = {}

    def kind(self, annotation: Any, scope: Scope) -> Kind:
        """The kind of `annotation`; that of a class with fields is a ``$ref`` to its definition here.

        Raises:
            TypeError: As `kind_of`.
        """
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._forward(annotation, scope)
        if isinstance(annotation, typing.TypeVar):
            return self._variable(annotation, scope)
        if annotation in (Any, object, getattr(sys.modules.get("typing_extensions"), "Any", Any)):
            return _ANYTHING
        if annotation is None:
            return SCALARS[kinds.NONE_TYPE]
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is None and isinstance(annotation, type):
            return self._class(annotation, (), scope)
        if hasattr(annotation, "__metadata__"):
            return narrowed(self.kind(annotation.__origin__, scope), annotation.__metadata__)
        if is_union(annotation):
            return self._union([self.kind(member, scope) for member in arguments])
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if name == "Literal":
            return kinds.literal(arguments)
        if name in _WRAPPERS:
            return self.kind(arguments[0], scope)
        if hasattr(annotation, "__supertype__"):  # NewType
            module = vars(sys.modules[annotation.__module__]) if annotation.__module__ in sys.modules else {}
            return self.kind(annotation.__supertype__, scope._replace(globals={**module, **scope.globals}))
        if hasattr(annotation, "__value__") or hasattr(origin, "__value__"):  # the statement ``type X = ...``
            return self._alias(origin or annotation, arguments, scope)
        if not isinstance(origin, type):
            raise TypeError(no_type(annotation))
        if origin is tuple and arguments in ((), ((),)) and annotation is not typing.Tuple:
            return kinds.fixed([])
        return self._class(origin, arguments, scope)

    def field(self, annotation: Any, scope: Scope, *, default: Any = NOTHING, description: str = "") -> Kind:
        """The kind of a field or parameter, with its default and description.

        Args:
            annotation: Its type; ``x: int = None`` is read as ``x: Optional[int] = None``.
            scope: Where names in it are looked up.
            default: Shown in the schema, when it has a JSON form.
            description: What a docstring says; one in the annotation goes before it.

        Raises:
            TypeError: As `kind_of`.
        """
        annotation = scope.resolve(annotation)
        kind = self.kind(annotation, scope)
        if default is None and kinds.NONE_TYPE not in kind.accepts:
            kind = self.kind(Optional[annotation], scope)
        if description and "description" not in kind.schema:
            kind = kind.with_words(description=description)
        if default is NOTHING or self.writing:
            return kind
        try:
            return kind.with_words(default=kind.write(default))
        except (Mismatch, TypeError):
            return kind

    def _forward(self, annotation: Any, scope: Scope) -> Kind:
        """A name in quotes. It may be that of the alias it stands in: ``Json = Union[str, List["Json"]]``."""
        name = getattr(annotation, "__forward_arg__", annotation)
        real = scope.resolve(annotation)
        if isinstance(real, type) or not name.isidentifier() or typing.get_origin(real) is None:
            return self.kind(real, scope)
        return self.named((real, None), name, lambda _: self.kind(real, scope), JSON_TYPES)

    def _variable(self, variable: Any, scope: Scope) -> Kind:
        if variable in scope.variables:  # what it stands for has no variables of this class
            return self.kind(scope.variables[variable], scope._replace(variables={}))
        if variable.__constraints__:
            return self.kind(Union[variable.__constraints__], scope)
        return self.kind(Any if variable.__bound__ is None else variable.__bound__, scope)

    def _union(self, members: List[Kind]) -> Kind:
        unlike: List[Kind] = []
        for kind in members:
            if all((kind.schema, kind.writes) != (other.schema, other.writes) for other in unlike):
                unlike.append(kind)
        return unlike[0] if len(unlike) == 1 else kinds.union(unlike)

    def _alias(self, alias: Any, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        variables = dict(zip(alias.__type_params__, map(scope.resolved, arguments)))
        inner = scope._replace(variables={**scope.variables, **variables})
        return self.named(
            (alias, arguments), alias.__name__, lambda _: self.kind(inner.resolve(alias.__value__), inner), JSON_TYPES
        )

    def _class(self, cls: type, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        if issubclass(cls, self.content):
            raise ContentClass(no_class(cls))
        known = SCALARS.get(cls) or CLASSES.get(cls) or kinds.of_base(cls, writing=self.writing)
        if known is not None:
            return known
        if cls in (bytes, bytearray, memoryview):
            raise TypeError(no_class(cls))
        if cls.__module__ == "collections.abc":
            cls = _ABSTRACT.get(cls.__name__, cls)
        if cls is tuple and arguments and arguments[-1] is not Ellipsis:
            return kinds.fixed([self.kind(each, scope) for each in arguments])
        if cls in (list, tuple):
            return kinds.array(self.kind(arguments[0] if arguments else Any, scope), cls)
        if cls in (set, frozenset):
            return kinds.array(self._member(arguments[0] if arguments else Any, scope), cls, unique=True)
        if cls is dict:
            key, item = arguments or (Any, Any)
            return kinds.mapping(self._key(key, scope), self.kind(item, scope))
        return class_with_fields(self, cls, tuple(map(scope.resolved, arguments)))

    def _member(self, annotation: Any, scope: Scope) -> Kind:
        kind = self.kind(annotation, scope)
        if kind.label == _ANYTHING.label:
            return self.kind(Union[str, int, float, bool, None], scope)
        if not kind.hashable:
            raise TypeError(f"a set cannot hold {kind.label}: use list[...]")
        return kind

    def _key(self, annotation: Any, scope: Scope) -> Kind:
        kind = self.kind(annotation, scope)
        if kind.exact is int:
            return kinds.integer_key()
        if kind.label == _ANYTHING.label:
            return kinds.free_name()
        if kind.accepts != {str}:
            raise TypeError(f"the names of a JSON object are strings: a dict key cannot be {kind.label}")
        return kind

    def named(
        self, key: Any, name: str, make: Callable[[str], Kind], accepts: FrozenSet[type] = frozenset({dict})
    ) -> Kind:
        """The kind of a class or alias that has a name: defined once, referred to wherever it stands.

        Args:
            key: What it is found by again.
            name: What the definition is called; a number is added when it is taken.
            make: Makes the kind, given the name it got; it may ask for the same one again (a recursive type).
            accepts: What decoded JSON may fit, as far as is known before it is made.
        """
        if key in self._named:
            return self._named[key]
        name = self.reserve(name)
        made: List[Kind] = []
        reference = self._named[key] = Kind(
            {"$ref": f"#/$defs/{name}"},
            lambda value: made[0].read(value),
            lambda value: made[0].write(value),
            f"an object ({name})" if dict in accepts and len(accepts) == 1 else f"a value ({name})",
            accepts,
            writes=key[0] if isinstance(key[0], type) else None,
            hashable=False,
        )
        made.append(make(name))
        self.definitions.pop(name)  # those that it refers to stand before it
        self.definitions[name] = made[0].schema
        self._named[key] = replace(made[0], schema=reference.schema)
        return self._named[key]

    def reserve(self, name: str) -> str:
        """A name for a definition, as near to `name` as is free; it stands empty until it is filled."""
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        candidate, number = name, 2
        while candidate in self.definitions:
            candidate, number = f"{name}_{number}", number + 1
        self.definitions[candidate] = {}
        return candidate

    def complete(self, schema: Schema) -> Schema:
        """`schema` with the definitions that it needs; a schema that only refers to one becomes that one."""
        target = schema.get("$ref")
        if target is not None:
            beside = {word: value for word, value in schema.items() if word != "$ref"}
            schema = {**self.definitions[target.rpartition("/")[2]], **beside}
        found = set()
        waiting: List[Any] = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                name = str(part.get("$ref", "")).rpartition("#/$defs/")[2]
                if name in self.definitions and name not in found:
                    found.add(name)
                    waiting.append(self.definitions[name])
            waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())
        needed = {name: definition for name, definition in self.definitions.items() if name in found}
        return {**schema, "$defs": needed} if needed else schema
