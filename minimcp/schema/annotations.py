"""From an annotation to its `Kind`: `kind_of` for one type, `Builder` for types that share
``$defs``."""

from __future__ import annotations

import sys
import typing
from enum import Enum
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Union

from ..types import Wire
from . import introspection, kinds
from .introspection import Scope, is_field, is_union
from .kinds import OBJECTS, Convert, Kind
from .mismatch import NOTHING, Mismatch, no_class, no_type
from .values import JSON_TYPES, NONE_TYPE, Schema

_LISTS = ("Sequence", "MutableSequence", "Iterable", "Collection")
# The concrete classes for those of `collections.abc`.
_ABSTRACT: dict[str, type] = {
    **dict.fromkeys(_LISTS, list), "Mapping": dict, "MutableMapping": dict, "Set": frozenset,
    "MutableSet": set,
}  # fmt: skip


def kind_of(
    annotation: Any,
    *,
    scope: Optional[Scope] = None,
    writing: bool = False,
    content: tuple[type, ...] = (),
    strict: bool = False,
) -> Kind:
    """Return the kind of an annotation, whose schema is complete with ``$defs``.

    Args:
        annotation: A type, or a string that names one.
        scope: Resolves names in strings; None means only the names of `typing`.
        writing: Whether the schema is for results, in which every field is present, instead of
            arguments.
        content: Classes whose instances are sent unchanged. A type that contains one of them raises
            ContentClass.
        strict: Whether every object in the schema forbids additional properties.

    Raises:
        TypeError: The type has no JSON form (the message names the part and an alternative), or a
            name cannot be resolved.
    """
    builder = Builder(writing=writing, content=content, strict=strict)
    kind = builder.kind(annotation, scope or Scope())
    return kind._replace(schema=builder.complete(kind.schema))


def write_any(value: Any) -> Any:
    """Return the JSON form of a value without a declared type, according to its class.

    Raises:
        Mismatch: A value inside has no JSON form.
    """
    plain = kinds.native(value)
    try:
        write = _writer_of(type(plain))  # type: ignore[arg-type]
    except TypeError as error:
        raise Mismatch("a value with a JSON form", value, instead=str(error)) from error
    return write(plain)


# ``Any`` and ``object``: every JSON value, unchanged.
_ANYTHING = Kind({}, lambda value: value, write_any, "any value", JSON_TYPES, hashable=False)


@lru_cache(maxsize=512)
def _writer_of(cls: Any) -> Convert:
    if issubclass(cls, (bytes, bytearray, memoryview)):
        raise TypeError(
            "bytes have no JSON form: convert them, as in data.hex() or "
            "base64.b64encode(data).decode(), or return Image(data, mime_type), Audio or "
            "EmbeddedResource"
        )
    if cls is object:
        raise TypeError(
            "a bare object has no JSON form: return a str, a number, a list, a dict or a dataclass"
        )
    try:
        return kind_of(cls, writing=True).write
    except TypeError:
        for base in (str, int, float, dict, list, tuple, set, frozenset):
            if issubclass(cls, base):
                return kind_of(base, writing=True).write
        if hasattr(cls, "__iter__"):  # an array with one item has __index__ too
            raise
        if hasattr(cls, "__index__"):
            return kinds.SCALARS[int].write
        if hasattr(cls, "__float__"):
            return kinds.NUMBER.write
        raise


# The result annotations that `tables` supports, each with the annotation of its JSON form.
_TABLES: dict[str, Any] = {"DataFrame": list[dict[str, Any]], "Series": list, "ndarray": list}

# The modules that define the classes handled in `classes`.
_IN_CLASSES = frozenset({"datetime", "decimal", "pathlib", "uuid"})


def _of_plain_class(cls: Any, *, writing: bool) -> Optional[Kind]:
    """Return the kind of a scalar class, an enum or a class of the standard library, or None."""
    if cls in kinds.SCALARS:
        return kinds.SCALARS[cls]
    if issubclass(cls, Enum):
        from .choices import enumeration

        return enumeration(cls)
    if _IN_CLASSES.isdisjoint(base.__module__.partition(".")[0] for base in cls.__mro__):
        return None
    # Few servers use these classes. Importing `datetime` and `uuid` takes 10 % of a start.
    from .classes import of_standard_class

    return of_standard_class(cls, writing=writing)


class ContentClass(TypeError):
    """An annotation contains a class whose instances are sent unchanged.

    Args:
        cls: The class.
        in_list: Whether the class is the item type of a list or tuple.
    """

    def __init__(self, cls: type, in_list: bool = False) -> None:
        super().__init__(no_class(cls))
        self.cls = cls
        self.in_list = in_list


class Builder:
    """Makes the kinds of one schema, which share one set of ``$defs``.

    Args:
        writing: As for `kind_of`.
        content: As for `kind_of`.
        strict: As for `kind_of`.
    """

    def __init__(
        self, *, writing: bool = False, content: tuple[type, ...] = (), strict: bool = False
    ) -> None:
        self.writing = writing
        self.content = content
        self.strict = strict
        # Whether a type that was built has validators.
        self.has_validators = False
        self.definitions: dict[str, Schema] = {}
        self._named: dict[Any, Kind] = {}

    def kind(self, annotation: Any, scope: Scope) -> Kind:
        """Return the kind of `annotation`. The schema of a class with fields is a ``$ref`` to
        `definitions`.

        Raises:
            TypeError: As `kind_of`.
        """
        if type(annotation) is type and annotation is not object:
            return self._class(annotation, (), scope)  # most annotations, such as ``int``
        if isinstance(annotation, (str, typing.ForwardRef)):
            return self._forward(annotation, scope)
        if isinstance(annotation, typing.TypeVar):
            return self._variable(annotation, scope)
        if annotation in (Any, object, getattr(sys.modules.get("typing_extensions"), "Any", Any)):
            return _ANYTHING
        if annotation is None:
            return kinds.SCALARS[NONE_TYPE]
        origin = typing.get_origin(annotation)
        arguments = typing.get_args(annotation)
        if origin is None and isinstance(annotation, type):
            return self._class(annotation, (), scope)
        if hasattr(annotation, "__metadata__"):
            return self._annotated(annotation, scope)
        if is_union(annotation):
            from .choices import union

            return union([self.kind(member, scope) for member in arguments])
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if name == "Literal":
            from .choices import literal

            return literal(arguments)
        if name in ("Required", "NotRequired"):
            return self.kind(arguments[0], scope)._replace(required=name == "Required")
        if name in ("ReadOnly", "Final", "InitVar"):
            return self.kind(arguments[0], scope)
        if hasattr(annotation, "__supertype__"):  # NewType
            names = {**introspection.names_of(annotation.__module__), **scope.names}
            return self.kind(annotation.__supertype__, scope._replace(names=names))
        # The statement ``type X = ...``.
        if hasattr(annotation, "__value__") or hasattr(origin, "__value__"):
            return self._alias(origin or annotation, arguments, scope)
        if not isinstance(origin, type):
            raise TypeError(no_type(annotation))
        if origin is tuple and arguments in ((), ((),)) and annotation is not typing.Tuple:
            return kinds.fixed([])
        return self._class(origin, arguments, scope)

    def field(
        self, annotation: Any, scope: Scope, *, default: Any = NOTHING, description: str = ""
    ) -> Kind:
        """Return the kind of a field or parameter, with its default and description.

        Args:
            annotation: The type; ``x: int = None`` is treated as ``x: Optional[int] = None``.
            scope: Resolves names in the annotation.
            default: The default to show in the schema if it has a JSON form.
            description: The description from the docstring; one in the annotation takes precedence.

        Raises:
            TypeError: As `kind_of`.
        """
        annotation = scope.resolve(annotation)
        kind = self.kind(annotation, scope)
        if default is None and NONE_TYPE not in kind.accepts:
            kind = self.kind(Optional[annotation], scope)
        if description and "description" not in kind.schema:
            kind = kind.with_words(description=description)
        if default is NOTHING or self.writing:
            return kind
        try:
            return kind.with_words(default=kind.write(default))
        except (Mismatch, TypeError):
            return kind

    def _annotated(self, annotation: Any, scope: Scope) -> Kind:
        from .bounds import Bounds, flat, narrowed
        from .validators import validated, validators_in

        metadata = list(flat(annotation.__metadata__))
        after, is_whole = validators_in(metadata)
        self.has_validators = self.has_validators or is_whole or bool(after)
        if is_whole:
            label = getattr(annotation.__origin__, "__name__", str(annotation.__origin__))
            kind = self._by_pydantic(annotation, f"a value ({label})")
            return narrowed(kind, [each for each in metadata if isinstance(each, (str, Bounds))])
        kind = narrowed(self.kind(annotation.__origin__, scope), metadata)
        return validated(kind, after, writing=self.writing) if after else kind

    def _by_pydantic(self, annotation: Any, label: str) -> Kind:
        from .pydantic_types import adopted, kind_of_annotation

        kind = kind_of_annotation(annotation, label, writing=self.writing)
        return kind._replace(schema=adopted(self, kind.schema, label))

    def _forward(self, annotation: Any, scope: Scope) -> Kind:
        """Return the kind of a quoted name. It may be the alias that contains it: ``Json =
        Union[str, list["Json"]]``."""
        name = getattr(annotation, "__forward_arg__", annotation)
        real = scope.resolve(annotation)
        if isinstance(real, type) or not name.isidentifier() or typing.get_origin(real) is None:
            return self.kind(real, scope)
        return self.named((real, None), name, lambda _: self.kind(real, scope), JSON_TYPES)

    def _variable(self, variable: Any, scope: Scope) -> Kind:
        if variable in scope.variables:  # its value has no type variables of this class
            return self.kind(scope.variables[variable], scope._replace(variables={}))
        if variable.__constraints__:
            return self.kind(Union[variable.__constraints__], scope)
        return self.kind(Any if variable.__bound__ is None else variable.__bound__, scope)

    def _alias(self, alias: Any, arguments: tuple[Any, ...], scope: Scope) -> Kind:
        variables = dict(zip(alias.__type_params__, map(scope.resolved, arguments)))
        inner = scope._replace(variables={**scope.variables, **variables})
        return self.named(
            (alias, arguments),
            alias.__name__,
            lambda _: self.kind(inner.resolve(alias.__value__), inner),
            JSON_TYPES,
        )

    def _class(self, cls: type, arguments: tuple[Any, ...], scope: Scope) -> Kind:
        if issubclass(cls, self.content):
            raise ContentClass(cls)
        known = _of_plain_class(cls, writing=self.writing)
        if known is not None:
            return known
        if self.writing and cls.__name__ in _TABLES and kinds.is_foreign(cls):
            return self.kind(_TABLES[cls.__name__], scope)
        if cls.__module__ == "collections.abc":
            if cls.__name__ not in _ABSTRACT:
                raise TypeError(no_class(cls))
            cls = _ABSTRACT[cls.__name__]
        try:
            if cls is tuple and arguments and arguments[-1] is not Ellipsis:
                return kinds.fixed([self.kind(each, scope) for each in arguments])
            if cls in (list, tuple):
                return kinds.array(self.kind(arguments[0] if arguments else Any, scope), cls)
            if cls in (set, frozenset):
                return kinds.array(
                    self._member(arguments[0] if arguments else Any, scope), cls, unique=True
                )
            if cls is dict:
                key, item = arguments or (Any, Any)
                return kinds.mapping(self._key(key, scope), self.kind(item, scope))
        except ContentClass as error:
            if error.in_list or cls not in (list, tuple):
                raise TypeError(str(error)) from error
            raise ContentClass(error.cls, in_list=True) from error
        return self._with_fields(cls, tuple(map(scope.resolved, arguments)))

    def _member(self, annotation: Any, scope: Scope) -> Kind:
        kind = self.kind(annotation, scope)
        if kind.label == _ANYTHING.label:
            return self.kind(Union[str, int, float, bool, None], scope)
        if not kind.hashable:
            raise TypeError(f"a set cannot contain {kind.label}: use list[...]")
        return kind

    def _key(self, annotation: Any, scope: Scope) -> Kind:
        kind = self.kind(annotation, scope)
        if kind.exact == {int}:
            return kinds.INTEGER_NAME
        if kind.label == _ANYTHING.label:
            return kinds.FREE_NAME
        if kind.accepts != {str}:
            raise TypeError(
                f"the names of a JSON object are strings: a dict key cannot be {kind.label}"
            )
        return kind

    def _with_fields(self, cls: Any, arguments: tuple[Any, ...]) -> Kind:
        """Return the kind of a class that declares its fields.

        Args:
            cls: The class, without its type arguments.
            arguments: The type arguments; empty for a class that is not generic.

        Raises:
            TypeError: The class does not declare fields, or one of them has no JSON form.
        """
        if issubclass(cls, type):
            raise TypeError(no_class(cls))
        name = "_".join([cls.__name__, *map(_name_part, arguments)])
        if "pydantic" in sys.modules:
            from .pydantic_types import has_fields, is_pydantic, kind_of_class

            if is_pydantic(cls) and not has_fields(cls):
                return kind_of_class(self, cls, "")
            if is_pydantic(cls):
                return self.named(
                    (cls, arguments), name, lambda own: kind_of_class(self, cls, own), JSON_TYPES
                )
        variables = introspection.variables_of(cls, arguments)
        return self.named((cls, arguments), name, lambda _: self._record(cls, variables))

    def _record(self, cls: Any, variables: Mapping[Any, Any]) -> Kind:
        annotations: dict[str, tuple[Any, Scope]] = {}
        for owner in reversed(cls.__mro__):
            scope = Scope.of_class(owner, variables)
            own = introspection.annotations_of(owner)
            annotations.update({name: (annotation, scope) for name, annotation in own.items()})
        # Dataclasses and named tuples generate a docstring. A docstring may also be a descriptor.
        made_doc = str(cls.__doc__).startswith(f"{cls.__name__}(")
        text, texts = introspection.read_docstring(None if made_doc else vars(cls).get("__doc__"))

        def kind_of(
            name: str, default: Any = NOTHING, type_: Any = Any, description: str = ""
        ) -> Kind:
            annotation, scope = annotations.get(name, (type_, Scope()))
            try:
                if is_field(default):
                    raise TypeError(
                        f"{cls.__name__} does not support Field(...) as a default: write "
                        f"{name}: Annotated[<type>, Field(...)] = <default>"
                    )
                return self.field(
                    annotation,
                    scope,
                    default=default,
                    description=description or texts.get(name, ""),
                )
            except (TypeError, ValueError) as error:
                raise TypeError(f"field {name!r} of {cls.__qualname__}: {error}") from error

        # A Wire is a dataclass, but its JSON form is not that of a dataclass.
        declared = None if issubclass(cls, Wire) else introspection.fields_of(cls, kind_of)
        if declared is None:
            raise TypeError(no_class(cls))
        taken = [field for field in declared if field.taken]
        is_dict = issubclass(cls, dict)
        shown = declared if self.writing else taken
        schema = kinds.record_schema(shown, all_required=self.writing and not is_dict)
        if text:
            schema = {"type": "object", "description": text, **schema}
        read = kinds.record_reader(taken, dict if is_dict else cls)
        write = kinds.record_writer(shown, cls)
        label = kinds.record_label(shown)
        hashable = cls.__hash__ is not None
        return Kind(schema, read, write, label, OBJECTS, writes=cls, hashable=hashable)

    def named(
        self, key: Any, name: str, make: Callable[[str], Kind], accepts: frozenset[type] = OBJECTS
    ) -> Kind:
        """Return the kind of a named class or alias. It is defined once and referred to everywhere.

        Args:
            key: Identifies the class or alias with its arguments.
            name: The wanted name of the definition; a number is appended if it is taken.
            make: Makes the kind from the chosen name. For a recursive type it requests the same
                kind again.
            accepts: The types of decoded JSON that may match, as far as they are known beforehand.
        """
        if key in self._named:
            return self._named[key]
        name = self.reserve(name)
        made: list[Kind] = []
        reference = self._named[key] = Kind(
            {"$ref": f"#/$defs/{name}"},
            lambda value: made[0].read(value),
            lambda value: made[0].write(value),
            f"an object ({name})" if accepts is OBJECTS else f"a value ({name})",
            accepts,
            writes=key[0] if isinstance(key[0], type) else None,
            hashable=False,
        )
        made.append(make(name))
        # Definitions that it refers to come first.
        self.definitions.pop(name)
        self.definitions[name] = made[0].schema
        self._named[key] = made[0]._replace(schema=reference.schema)
        return self._named[key]

    def reserve(self, name: str) -> str:
        """Return a free name for a definition that resembles `name`. The definition is empty until
        filled."""
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        candidate = name
        number = 2
        while candidate in self.definitions:
            candidate = f"{name}_{number}"
            number += 1
        self.definitions[candidate] = {}
        return candidate

    def complete(self, schema: Schema) -> Schema:
        """Return `schema` as it is published: complete, with ``$defs`` for recursive types only."""
        if not self.definitions and not self.strict:
            return schema
        from .published import published

        return published(schema, self.definitions, strict=self.strict)


def _name_part(argument: Any) -> str:
    """Return a type argument as part of a definition's name; it is the same on every Python
    version."""
    origin = typing.get_origin(argument)
    if origin is None:
        return str(getattr(argument, "__name__", argument))
    if hasattr(argument, "__metadata__"):
        return _name_part(argument.__origin__)
    name = getattr(origin, "__name__", None) or origin._name
    return "_".join(
        ["Union" if name == "UnionType" else str(name), *map(_name_part, typing.get_args(argument))]
    )
