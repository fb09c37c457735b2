"""From an annotation to its `Kind`: the table of all types that have a JSON form.

A kind is made once, when a tool is registered; nothing of this runs during a call. Classes with fields stand in
`classes`, what they are built from in `scalars`, `containers` and `choices`.
"""

from __future__ import annotations

import sys
import typing
from functools import lru_cache
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple, Union

from . import choices, classes, containers, scalars
from .advice import no_type
from .annotations import Scope, substituted
from .kind import JSON_TYPES, NOTHING_TYPE, Convert, Kind
from .mismatch import Mismatch

Schema = Dict[str, Any]

_OBJECT: FrozenSet[type] = frozenset({dict})
_BYTES = (bytes, bytearray, memoryview)
BYTES_ADVICE = (
    "bytes have no JSON form: take a str (text, or base64 that you decode), "
    "and return Image(data, mime_type), Audio or EmbeddedResource"
)

_PLAIN: Dict[Any, Callable[[], Kind]] = {
    str: scalars.text,
    int: scalars.integer,
    float: scalars.number,
    bool: scalars.truth,
    None: scalars.nothing,
    NOTHING_TYPE: scalars.nothing,
}

_MODULES: Dict[Tuple[str, str], Callable[[type], Kind]] = {
    ("datetime", "date"): scalars.date,
    ("datetime", "datetime"): scalars.date_and_time,
    ("datetime", "time"): scalars.time_of_day,
    ("datetime", "timedelta"): scalars.duration,
    ("uuid", "UUID"): scalars.uuid,
}

_ABSTRACT: Dict[str, type] = {
    "Sequence": list, "MutableSequence": list, "Iterable": list, "Collection": list,
    "Mapping": dict, "MutableMapping": dict, "Set": frozenset, "MutableSet": set,
}  # fmt: skip

_WRAPPERS = ("Required", "NotRequired", "ReadOnly", "Final", "InitVar")


def kind_of(annotation: Any, *, scope: Optional[Scope] = None, writing: bool = False) -> Kind:
    """The kind of an annotation, its schema complete with ``$defs``.

    Args:
        annotation: A type, or a string that names one.
        scope: Where names in strings are looked up; None knows only what `typing` has.
        writing: Whether the schema is for what leaves (then every field is there), not for what arrives.

    Raises:
        TypeError: The type has no JSON form (the message says which part and what to write instead), or a name
            cannot be resolved.
    """
    builder = Builder(writing=writing)
    scope = scope or Scope(vars(typing))
    kind = builder.kind(scope.resolve(annotation), scope)
    return kind.changed(schema=builder.complete(kind.schema))


def write_any(value: Any) -> Any:
    """The JSON form of a value that nobody declared: by its own type, parts alike.

    Raises:
        Mismatch: A value inside has no JSON form.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    if type(value) in (list, tuple):
        return containers.convert_each(value, write_any)
    if type(value) is dict:
        return _free_object().write(value)
    try:
        write = _writer_of(type(value))  # type: ignore[arg-type]
    except TypeError as error:
        raise Mismatch("a value with a JSON form", value, instead=str(error)) from error
    return write(value)


@lru_cache(maxsize=None)
def _free_object() -> Kind:
    return containers.mapping(scalars.free_name(), scalars.anything(write_any))


@lru_cache(maxsize=512)
def _writer_of(cls: type) -> Convert:
    """The way out of a class. Kept, because it is asked for once per value and not once per tool."""
    if cls is object:
        raise TypeError("a bare object has no JSON form")
    try:
        return kind_of(cls, writing=True).write
    except TypeError:
        base = next((each for each in (str, int, float, dict, list, tuple) if issubclass(cls, each)), None)
        if base is None:
            raise
        return kind_of(base, writing=True).write


class Builder:
    """Makes the kinds of one schema, which share one set of ``$defs``.

    Args:
        writing: As in `kind_of`.
    """

    def __init__(self, *, writing: bool = False) -> None:
        self.writing = writing
        self.definitions: Dict[str, Schema] = {}
        self._named: Dict[Any, Kind] = {}

    def kind(self, annotation: Any, scope: Scope) -> Kind:
        """The kind of `annotation`; a class with fields is a ``$ref`` to its definition here."""
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._forward(annotation, scope)
        if isinstance(annotation, typing.TypeVar):
            return self._variable(annotation, scope)
        if annotation is Any or annotation is object or annotation is _backported("Any"):
            return scalars.anything(write_any)
        origin = typing.get_origin(annotation)
        if origin is not None:
            return self._generic(annotation, origin, typing.get_args(annotation), scope)
        if isinstance(annotation, type):
            return self._class(annotation, (), scope)
        if annotation is None:
            return scalars.nothing()
        for name in ("__supertype__", "__value__"):  # NewType; an alias made by the statement ``type X = ...``
            if hasattr(annotation, name):
                return self._alias(annotation, name, (), scope)
        raise TypeError(no_type(annotation))

    def _forward(self, annotation: Any, scope: Scope) -> Kind:
        """A name in quotes inside an annotation. It may be that of the alias it stands in: ``List["Json"]``."""
        name = getattr(annotation, "__forward_arg__", annotation)
        real = scope.resolve(annotation)
        if isinstance(real, type) or not name.isidentifier() or typing.get_origin(real) is None:
            return self.kind(real, scope)
        return self.named((real, None), name, lambda _: self.kind(real, scope), JSON_TYPES)

    def _variable(self, variable: Any, scope: Scope) -> Kind:
        if variable in scope.variables:
            outside = Scope(scope.globals, scope.locals)  # what it stands for has no variables of this class
            return self.kind(scope.variables[variable], outside)
        if variable.__constraints__:
            return self.kind(Union[variable.__constraints__], scope)
        return self.kind(variable.__bound__ if variable.__bound__ is not None else Any, scope)

    def _generic(self, annotation: Any, origin: Any, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if name == "Literal":
            return choices.literal(arguments)
        if hasattr(annotation, "__metadata__"):
            from .limits import narrowed

            return narrowed(self.kind(annotation.__origin__, scope), annotation.__metadata__)
        if origin is Union or name == "UnionType":
            return self._union(arguments, scope)
        if origin is tuple and arguments in ((), ((),)) and annotation is not typing.Tuple:
            return containers.fixed([])
        if name in _WRAPPERS:
            return self.kind(arguments[0], scope)
        if hasattr(origin, "__value__"):
            return self._alias(origin, "__value__", arguments, scope)
        if not isinstance(origin, type):
            raise TypeError(no_type(annotation))
        return self._class(origin, arguments, scope)

    def _union(self, members: Tuple[Any, ...], scope: Scope) -> Kind:
        kinds: List[Kind] = []
        for member in members:
            kind = self.kind(member, scope)
            if all((kind.schema, kind.writes) != (other.schema, other.writes) for other in kinds):
                kinds.append(kind)
        return kinds[0] if len(kinds) == 1 else choices.union(kinds)

    def _alias(self, alias: Any, name: str, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        if name == "__supertype__":
            return self.kind(alias.__supertype__, _module_scope(alias, scope))
        variables = dict(zip(alias.__type_params__, (_bound(each, scope) for each in arguments)))
        inner = Scope(scope.globals, scope.locals, {**scope.variables, **variables})
        return self.named(
            (alias, arguments), alias.__name__, lambda _: self.kind(inner.resolve(alias.__value__), inner), JSON_TYPES
        )

    def _class(self, cls: type, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        if cls in _PLAIN:
            return _PLAIN[cls]()
        if cls in _BYTES:
            raise TypeError(BYTES_ADVICE)
        special = _MODULES.get((cls.__module__, cls.__qualname__)) or self._standard(cls)
        if special:
            return special(cls)
        container = self._container(cls, arguments, scope)
        return container or classes.class_kind(self, cls, tuple(_bound(each, scope) for each in arguments))

    def _standard(self, cls: type) -> Optional[Callable[[type], Kind]]:
        """The kinds of classes whose module is loaded only when somebody uses it."""
        for module, name, make in (
            ("enum", "Enum", choices.enumeration),
            ("pathlib", "PurePath", scalars.path),
            ("decimal", "Decimal", lambda found: scalars.decimal(found, writing=self.writing)),
        ):
            base = getattr(sys.modules.get(module), name, None)
            if base is not None and issubclass(cls, base):
                return make
        return None

    def _container(self, cls: type, arguments: Tuple[Any, ...], scope: Scope) -> Optional[Kind]:
        if cls.__module__ == "collections.abc":
            cls = _ABSTRACT.get(cls.__name__, cls)
        if cls is tuple and arguments and arguments[-1] is not Ellipsis:
            return containers.fixed([self.kind(each, scope) for each in arguments])
        if cls in (list, tuple):
            return containers.array(self.kind(arguments[0] if arguments else Any, scope), cls)
        if cls in (set, frozenset):
            return containers.array(self._member(arguments, scope), cls, unique=True)
        if cls is dict:
            key, item = arguments or (Any, Any)
            return containers.mapping(self._key(key, scope), self.kind(item, scope))
        return None

    def _member(self, arguments: Tuple[Any, ...], scope: Scope) -> Kind:
        kind = self.kind(arguments[0] if arguments else Union[str, int, float, bool, None], scope)
        if kind.label == "any value":
            return self._member((), scope)
        if not kind.hashable:
            raise TypeError(f"a set cannot hold {kind.label}: use list[...]")
        return kind

    def _key(self, annotation: Any, scope: Scope) -> Kind:
        kind = self.kind(annotation, scope)
        if kind.exact is int:
            return containers.integer_key()
        if kind.label == "any value":
            return scalars.free_name()
        if kind.accepts != {str}:
            raise TypeError(f"the names of a JSON object are strings: a dict key cannot be {kind.label}")
        return kind

    def named(self, key: Any, name: str, make: Callable[[str], Kind], accepts: FrozenSet[type] = _OBJECT) -> Kind:
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
        real: List[Kind] = []
        reference = self._named[key] = Kind(
            {"$ref": f"#/$defs/{name}"},
            lambda value: real[0].read(value),
            lambda value: real[0].write(value),
            f"an object ({name})" if accepts is _OBJECT else f"a value ({name})",
            accepts,
            writes=key[0] if isinstance(key[0], type) else None,
            hashable=False,
        )
        kind = make(name)
        real.append(kind)
        self.definitions[name] = kind.schema
        self._named[key] = kind.changed(schema=reference.schema)
        return self._named[key]

    def reserve(self, name: str) -> str:
        """A name for a definition, as near to `name` as is free; it stands empty until it is filled."""
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        number = 2
        candidate = name
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
        needed = self._needed(schema)
        return {**schema, "$defs": needed} if needed else schema

    def _needed(self, schema: Schema) -> Dict[str, Schema]:
        found: Dict[str, Schema] = {}
        waiting: List[Any] = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict):
                name = str(part.get("$ref", "")).rpartition("#/$defs/")[2]
                if name in self.definitions and name not in found:
                    found[name] = self.definitions[name]
                    waiting.append(found[name])
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)
        return {name: self.definitions[name] for name in self.definitions if name in found}


def _backported(name: str) -> Any:
    """What `typing_extensions` calls by this name; before Python 3.11 its Any is a class."""
    return getattr(sys.modules.get("typing_extensions"), name, object)


def _module_scope(alias: Any, scope: Scope) -> Scope:
    module = sys.modules.get(getattr(alias, "__module__", None) or "")
    return Scope({**(vars(module) if module else {}), **scope.globals}, scope.locals, scope.variables)


def _bound(argument: Any, scope: Scope) -> Any:
    """An argument of a generic class as it is meant out here, where its names and variables have a meaning."""
    return substituted(scope.resolve(argument), scope.variables)
