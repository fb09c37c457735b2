"""From an annotation to its `Kind`; `kind_of` for one type, `Builder` for all that share one set of
``$defs``."""

from __future__ import annotations

import json
import sys
import typing
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Union

from ..types import Wire
from . import introspection, kinds
from .introspection import Scope, is_field, is_union
from .kinds import OBJECTS, Convert, Kind
from .mismatch import NOTHING, Mismatch, no_class, no_type, plain_json
from .values import JSON_TYPES, NONE_TYPE

Schema = dict[str, Any]

# By the ``type`` of a schema, the types of decoded JSON that can fit.
_TYPES = {"string": frozenset({str}), "object": OBJECTS, "array": frozenset({list})}
_LISTS = ("Sequence", "MutableSequence", "Iterable", "Collection")
# What values of the classes of `collections.abc` become.
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
    """The kind of an annotation, its schema complete with ``$defs``.

    Args:
        annotation: A type, or a string that names one.
        scope: Where names in strings are looked up; None knows only what `typing` has.
        writing: Whether the schema is for results, in which every field is there, not for
            arguments.
        content: Classes whose instances are sent as they are: ContentClass is raised for what is
            made of them.
        strict: Whether every object in the schema says that it has no other members.

    Raises:
        TypeError: The type has no JSON form (the message says which part and what to write
            instead), or a name cannot be resolved.
    """
    builder = Builder(writing=writing, content=content, strict=strict)
    kind = builder.kind(annotation, scope or Scope())
    return replace(kind, schema=builder.complete(kind.schema))


def write_any(value: Any) -> Any:
    """The JSON form of a value whose type nobody declared: by its class, its parts alike.

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
        if hasattr(cls, "__iter__"):  # an array with one item can be converted to a number
            raise
        if hasattr(cls, "__index__"):
            return kinds.SCALARS[int].write
        if hasattr(cls, "__float__"):
            return kinds.NUMBER.write
        raise


# Modules of the classes in `classes`.
_IN_CLASSES = frozenset({"datetime", "decimal", "pathlib", "uuid"})


def _of_plain_class(cls: Any, *, writing: bool) -> Optional[Kind]:
    """Return the kind of a class of JSON or of the standard library without parts, or None."""
    if cls in kinds.SCALARS:
        return kinds.SCALARS[cls]
    if issubclass(cls, Enum):
        return kinds.enumeration(cls)
    if _IN_CLASSES.isdisjoint(base.__module__.partition(".")[0] for base in cls.__mro__):
        return None
    # Few servers use these classes, and importing `datetime` and `uuid` takes a tenth of a start.
    from .classes import of_standard_class

    return of_standard_class(cls, writing=writing)


class ContentClass(TypeError):
    """An annotation is made of a class whose instances are sent as they are.

    Args:
        cls: The class.
        in_list: Whether the class stands in a list or tuple.
    """

    def __init__(self, cls: type, in_list: bool = False) -> None:
        super().__init__(no_class(cls))
        self.cls = cls
        self.in_list = in_list


class Builder:
    """Makes the kinds of one schema, which share one set of ``$defs``.

    Args:
        writing: As in `kind_of`.
        content: As in `kind_of`.
        strict: As in `kind_of`.
    """

    def __init__(
        self, *, writing: bool = False, content: tuple[type, ...] = (), strict: bool = False
    ) -> None:
        self.writing = writing
        self.content = content
        self.strict = strict
        # Whether a type that was read has validators.
        self.has_validators = False
        self.definitions: dict[str, Schema] = {}
        self._named: dict[Any, Kind] = {}

    def kind(self, annotation: Any, scope: Scope) -> Kind:
        """The kind of `annotation`; that of a class with fields is a ``$ref`` to its definition
        here.

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
            return kinds.SCALARS[NONE_TYPE]
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is None and isinstance(annotation, type):
            return self._class(annotation, (), scope)
        if hasattr(annotation, "__metadata__"):
            return self._annotated(annotation, scope)
        if is_union(annotation):
            return kinds.union([self.kind(member, scope) for member in arguments])
        name = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if name == "Literal":
            return kinds.literal(arguments)
        if name in ("Required", "NotRequired"):
            return replace(self.kind(arguments[0], scope), required=name == "Required")
        if name in ("ReadOnly", "Final", "InitVar"):
            return self.kind(arguments[0], scope)
        if hasattr(annotation, "__supertype__"):  # NewType
            names = {**introspection.names_of(annotation.__module__), **scope.names}
            return self.kind(annotation.__supertype__, scope._replace(names=names))
        if hasattr(annotation, "__value__") or hasattr(
            origin, "__value__"
        ):  # the statement ``type X = ...``
            return self._alias(origin or annotation, arguments, scope)
        if not isinstance(origin, type):
            raise TypeError(no_type(annotation))
        if origin is tuple and arguments in ((), ((),)) and annotation is not typing.Tuple:
            return kinds.fixed([])
        return self._class(origin, arguments, scope)

    def field(
        self, annotation: Any, scope: Scope, *, default: Any = NOTHING, description: str = ""
    ) -> Kind:
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
        from .validators import whole

        kind = whole(annotation, label, writing=self.writing)
        return replace(kind, schema=self._adopted(kind.schema, label))

    def _forward(self, annotation: Any, scope: Scope) -> Kind:
        """A name in quotes. It may be that of the alias it stands in: ``Json = Union[str,
        list["Json"]]``."""
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
            raise TypeError(f"a set cannot hold {kind.label}: use list[...]")
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
        """The kind of a class that lists its fields.

        Args:
            cls: The class, without its type arguments.
            arguments: Those; none for a class that is not generic.

        Raises:
            TypeError: It is no such class, or one of its fields has no JSON form.
        """
        if issubclass(cls, type):
            raise TypeError(no_class(cls))
        name = "_".join([cls.__name__, *map(_name_part, arguments)])
        if "pydantic" in sys.modules:
            from .pydantic_types import has_fields, is_pydantic

            if is_pydantic(cls) and not has_fields(cls):
                return self._pydantic(cls, "")
            if is_pydantic(cls):
                return self.named(
                    (cls, arguments), name, lambda own: self._pydantic(cls, own), JSON_TYPES
                )
        variables = introspection.variables_of(cls, arguments)
        return self.named((cls, arguments), name, lambda _: self._record(cls, variables))

    def _record(self, cls: Any, variables: Mapping[Any, Any]) -> Kind:
        annotations: dict[str, tuple[Any, Scope]] = {}
        for owner in reversed(cls.__mro__):
            scope = Scope.of_class(owner, variables)
            own = introspection.annotations_of(owner)
            annotations.update({name: (annotation, scope) for name, annotation in own.items()})
        # Whether the decorator or the class statement has made it. A descriptor is not a string.
        made_doc = str(cls.__doc__).startswith(f"{cls.__name__}(")
        text, texts = introspection.read_docstring(None if made_doc else vars(cls).get("__doc__"))

        def kind_of(
            name: str, default: Any = NOTHING, type_: Any = Any, description: str = ""
        ) -> Kind:
            annotation, scope = annotations.get(name, (type_, Scope()))
            try:
                if is_field(default):
                    way = f"{name}: Annotated[<type>, Field(...)] = <default>"
                    raise TypeError(f"a Field is not a default of {cls.__name__}: write {way}")
                return self.field(
                    annotation,
                    scope,
                    default=default,
                    description=description or texts.get(name, ""),
                )
            except (TypeError, ValueError) as error:
                raise TypeError(f"field {name!r} of {cls.__qualname__}: {error}") from error

        # A Wire is a dataclass, but its JSON form is another.
        declared = None if issubclass(cls, Wire) else introspection.fields_of(cls, kind_of)
        if declared is None:
            raise TypeError(no_class(cls))
        taken, is_dict = [field for field in declared if field.taken], issubclass(cls, dict)
        shown = declared if self.writing else taken
        schema = kinds.record_schema(shown, all_required=self.writing and not is_dict)
        if text:
            schema = {"type": "object", "description": text, **schema}
        read, write = (
            kinds.record_reader(taken, dict if is_dict else cls),
            kinds.record_writer(shown, cls),
        )
        label, hashable = kinds.record_label(shown), cls.__hash__ is not None
        return Kind(schema, read, write, label, OBJECTS, writes=cls, hashable=hashable)

    def _pydantic(self, cls: Any, own: str) -> Kind:
        """Return the kind of a type of pydantic: its own schema decides what fits, then it makes
        the object.

        Args:
            cls: A model, a dataclass of pydantic, or a type such as ``HttpUrl``.
            own: The name of its definition; empty for a type without fields.
        """
        from .checker import compile_require
        from .pydantic_types import schema_of
        from .validators import refusal

        adapter = sys.modules["pydantic"].TypeAdapter(cls)
        schema = schema_of(adapter, writing=self.writing)
        require = compile_require(schema, where=cls.__qualname__)
        label = f"a value ({cls.__name__})"

        def read(value: Any) -> Any:
            require(value)
            try:  # as JSON, so that the strict mode takes what JSON has for a date or a tuple
                return adapter.validate_json(json.dumps(value))
            except ValueError as error:
                raise refusal(label, value, error) from error

        def write(value: Any) -> Any:
            if own and not isinstance(value, cls):
                raise Mismatch(f"a {cls.__name__}", value)
            try:
                if hasattr(value, "model_dump"):
                    written = value.model_dump(mode="json", by_alias=True)
                else:
                    checked = value if own else adapter.validate_python(value)
                    written = adapter.dump_python(checked, mode="json", by_alias=True)
            except ValueError as error:
                raise refusal(label, value, error) from error
            require(written)
            return written

        itself = schema.get("$ref", "").rpartition("/")[2]  # so a recursive model begins
        schema = self._adopted(schema, cls.__qualname__, {itself: own} if itself and own else None)
        if own:
            schema.pop("$ref", None)
        shown = {**self.definitions.get(own, {}), **schema}
        accepts = _TYPES.get(shown.get("type", ""), JSON_TYPES)
        hashable = cls.__hash__ is not None
        return Kind(shown, read, write, label, accepts, writes=cls, hashable=hashable)

    def _adopted(
        self, schema: Schema, owner: str, names: Optional[Mapping[str, str]] = None
    ) -> Schema:
        """A schema that pydantic made, whose definitions become those of this schema.

        Args:
            schema: The schema.
            owner: What messages call it.
            names: New names of its definitions; those that are missing are chosen.

        Raises:
            TypeError, ValueError: It holds what JSON does not have, such as an infinite default.
        """
        from .published import mapped

        schema = plain_json(schema, owner)
        definitions = schema.pop("$defs", {})
        chosen = {**(names or {})}
        for name in definitions:
            if name not in chosen:
                chosen[name] = self.reserve(name)

        def renamed(part: Schema) -> Schema:
            part = dict(part)
            name = str(part.get("$ref")).partition("#/$defs/")[2]
            if name in chosen:
                part["$ref"] = f"#/$defs/{chosen[name]}"
            part.pop("discriminator", None)  # a word of OpenAPI, which leads to definitions too
            if not self.strict and isinstance(part.get("additionalProperties"), bool):
                del part["additionalProperties"]
            return part

        for name, definition in definitions.items():
            self.definitions[chosen[name]] = mapped(definition, renamed)
        return mapped(schema, renamed)

    def named(
        self, key: Any, name: str, make: Callable[[str], Kind], accepts: frozenset[type] = OBJECTS
    ) -> Kind:
        """The kind of a class or alias that has a name: defined once, referred to wherever it
        stands.

        Args:
            key: What it is found by again.
            name: What the definition is called; a number is added when it is taken.
            make: Makes the kind, given the name it got; it may ask for the same one again (a
                recursive type).
            accepts: What decoded JSON may fit, as far as is known before it is made.
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
        self.definitions.pop(name)  # those that it refers to stand before it
        self.definitions[name] = made[0].schema
        self._named[key] = replace(made[0], schema=reference.schema)
        return self._named[key]

    def reserve(self, name: str) -> str:
        """A name for a definition, as near to `name` as is free; it stands empty until it is
        filled."""
        name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        candidate, number = name, 2
        while candidate in self.definitions:
            candidate, number = f"{name}_{number}", number + 1
        self.definitions[candidate] = {}
        return candidate

    def complete(self, schema: Schema) -> Schema:
        """`schema` as it is published: complete, with ``$defs`` for recursive types only."""
        if not self.definitions and not self.strict:
            return schema
        from .published import published

        return published(schema, self.definitions, strict=self.strict)


def _name_part(argument: Any) -> str:
    """A type argument in the name of a definition, the same on every Python."""
    origin = typing.get_origin(argument)
    if origin is None:
        return str(getattr(argument, "__name__", argument))
    if hasattr(argument, "__metadata__"):
        return _name_part(argument.__origin__)
    name = getattr(origin, "__name__", None) or origin._name
    return "_".join(
        ["Union" if name == "UnionType" else str(name), *map(_name_part, typing.get_args(argument))]
    )
