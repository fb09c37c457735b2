"""Classes with fields: dataclass, TypedDict, NamedTuple, attrs and pydantic.

None of their modules is imported here: a class that is one of them has brought its module along.
"""

from __future__ import annotations

import sys
import typing
from typing import Any, Callable, Dict, FrozenSet, List, Protocol, Sequence, Tuple

from ..types import Wire
from .advice import no_class
from .annotations import Scope, substituted
from .docstrings import read_docstring
from .kind import JSON_TYPES, NOTHING_TYPE, Kind
from .mismatch import NOTHING, Mismatch
from .records import Field, dict_writer, record_label, record_reader, record_schema, record_writer

_OBJECT = frozenset({dict})


class KindMaker(Protocol):
    """What the classes need from `kinds.Builder`: the kinds of their fields."""

    writing: bool
    definitions: Dict[str, Dict[str, Any]]

    def kind(self, annotation: Any, scope: Scope) -> Kind:
        """The kind of a field's annotation."""

    def named(self, key: Any, name: str, make: Callable[[str], Kind], accepts: FrozenSet[type] = _OBJECT) -> Kind:
        """The kind of a class, defined once."""

    def reserve(self, name: str) -> str:
        """A name for one more definition."""


def class_kind(maker: KindMaker, cls: Any, arguments: Tuple[Any, ...]) -> Kind:
    """The kind of a class that lists its fields.

    Args:
        maker: Makes the kinds of the fields.
        cls: The class, without its type arguments.
        arguments: Those, none for a class that is not generic.

    Raises:
        TypeError: It is no such class, or one of its fields has no JSON form.
    """
    make = _form(cls)
    if make is None:
        raise TypeError(no_class(cls))
    name = "_".join([cls.__name__, *map(_name_part, arguments)])
    if make is _pydantic:
        any_value = issubclass(cls, getattr(sys.modules["pydantic"], "RootModel", ()))
        accepts = JSON_TYPES if any_value else _OBJECT
        return maker.named((cls, arguments), name, lambda own: _pydantic(maker, cls, own, accepts), accepts)
    return maker.named((cls, arguments), name, lambda _: make(maker, cls, _variables(cls, arguments)))


def _name_part(argument: Any) -> str:
    """A type argument in the name of a definition, the same on every Python."""
    origin = typing.get_origin(argument)
    if origin is None:
        return str(getattr(argument, "__name__", argument))
    if hasattr(argument, "__metadata__"):
        return _name_part(argument.__origin__)
    name = "Union" if origin is typing.Union else getattr(origin, "__name__", getattr(origin, "_name", ""))
    return "_".join(["Union" if name == "UnionType" else str(name), *map(_name_part, typing.get_args(argument))])


def _form(cls: Any) -> Any:
    if issubclass(cls, Wire):  # a dataclass, but its JSON form is another
        return None
    if hasattr(sys.modules.get("pydantic"), "BaseModel") and issubclass(cls, sys.modules["pydantic"].BaseModel):
        return _pydantic
    if type(cls).__name__ == "_TypedDictMeta":
        return _typed_dict
    return next((make for mark, make in _MARKS if hasattr(cls, mark)), None)


def _variables(cls: Any, arguments: Tuple[Any, ...]) -> Dict[Any, Any]:
    """What the type variables of a class and of its bases stand for."""
    found: Dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), arguments))
    for base in vars(cls).get("__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin is not None and origin not in (typing.Generic, Protocol):
            inner = tuple(substituted(each, found) for each in typing.get_args(base))
            found = {**_variables(origin, inner), **found}
    return found


def _annotations(cls: Any, variables: Dict[Any, Any]) -> Dict[str, Tuple[Any, Scope]]:
    """Each annotation of a class and its bases, with the scope of the class that it stands in."""
    found: Dict[str, Tuple[Any, Scope]] = {}
    for owner in reversed(cls.__mro__):
        own = vars(owner).get("__annotations__", {})
        if own:
            scope = Scope.of_class(owner, variables)
            found.update({name: (annotation, scope) for name, annotation in own.items()})
    return found


def _field_kind(
    maker: KindMaker, cls: Any, name: str, annotation: Any, scope: Scope, *, default: Any = NOTHING
) -> Kind:
    try:
        annotation = scope.resolve(annotation)
        kind = maker.kind(annotation, scope)
        return kind if admits_none(kind, default) else maker.kind(typing.Optional[annotation], scope)
    except (TypeError, ValueError) as error:
        raise TypeError(f"field {name!r} of {cls.__qualname__}: {error}") from error


def _record(cls: Any, fields: Sequence[Field], read: Any, write: Any, *, writing: bool) -> Kind:
    schema = record_schema(fields, all_required=writing)
    text, _ = _documentation(cls)
    if text:
        schema = {"type": "object", "description": text, **schema}
    hashable = cls.__hash__ is not None
    return Kind(schema, read, write, record_label(fields), _OBJECT, writes=cls, hashable=hashable)


def _documentation(cls: Any) -> Tuple[str, Dict[str, str]]:
    """The class's own docstring, unless the class statement or decorator made it."""
    doc = vars(cls).get("__doc__")
    if not isinstance(doc, str) or doc.startswith(f"{cls.__name__}("):
        return "", {}
    return read_docstring(doc)


def admits_none(kind: Kind, default: Any) -> bool:
    """Whether a default fits as far as None goes; ``x: int = None`` is read as ``x: Optional[int] = None``."""
    return default is not None or NOTHING_TYPE in kind.accepts


def with_default(kind: Kind, default: Any) -> Kind:
    """`kind` with a default in its schema, when the default has a JSON form."""
    try:
        return kind.with_words({"default": kind.write(default)})
    except (Mismatch, TypeError):
        return kind


def _described(kind: Kind, text: Any) -> Kind:
    return kind.with_words({"description": text}) if text and "description" not in kind.schema else kind


def _dataclass(maker: KindMaker, cls: Any, variables: Dict[Any, Any]) -> Kind:
    missing = sys.modules["dataclasses"].MISSING
    annotations = _annotations(cls, variables)
    _, texts = _documentation(cls)
    taken: List[Field] = []
    shown: List[Field] = []
    by_keyword = False
    for name, field in cls.__dataclass_fields__.items():
        pseudo = getattr(field._field_type, "name", "_FIELD")
        bare = field.default is missing and field.default_factory is missing
        if pseudo == "_FIELD_INITVAR" and bare:
            raise TypeError(f"field {name!r} of {cls.__qualname__}: an InitVar needs a default, it is no field")
        if pseudo != "_FIELD":
            continue
        found = annotations.get(name, (field.type, Scope.of_class(cls, variables)))
        kind = _field_kind(maker, cls, name, *found, default=field.default)
        kind = _described(kind, field.metadata.get("description") or texts.get(name))
        if field.default is not missing and not maker.writing:
            kind = with_default(kind, field.default)
        by_keyword = by_keyword or bool(getattr(field, "kw_only", False))
        shown.append(Field(name, kind, bare and field.init, name, name))
        if field.init:
            taken.append(shown[-1])
    fields = shown if maker.writing else taken
    by_keyword = by_keyword or not cls.__dataclass_params__.init
    read = record_reader(taken, cls, by_keyword=by_keyword)
    return _record(cls, fields, read, record_writer(fields, cls), writing=maker.writing)


def _attrs(maker: KindMaker, cls: Any, variables: Dict[Any, Any]) -> Kind:
    nothing = sys.modules["attr"].NOTHING
    annotations = _annotations(cls, variables)
    _, texts = _documentation(cls)
    taken: List[Field] = []
    shown: List[Field] = []
    for each in cls.__attrs_attrs__:
        found = annotations.get(each.name, (each.type or Any, Scope.of_class(cls, variables)))
        kind = _field_kind(maker, cls, each.name, *found, default=each.default)
        kind = _described(kind, each.metadata.get("description") or texts.get(each.name))
        made = hasattr(each.default, "factory")
        if each.default is not nothing and not made and not maker.writing:
            kind = with_default(kind, each.default)
        shown.append(Field(each.alias, kind, each.default is nothing and each.init, each.name, each.alias))
        if each.init:
            taken.append(shown[-1])
    fields = shown if maker.writing else taken
    read = record_reader(taken, cls, by_keyword=True)
    return _record(cls, fields, read, record_writer(fields, cls), writing=maker.writing)


def _named_tuple(maker: KindMaker, cls: Any, variables: Dict[Any, Any]) -> Kind:
    annotations = _annotations(cls, variables)
    _, texts = _documentation(cls)
    fields = []
    for name in cls._fields:
        default = cls._field_defaults.get(name, NOTHING)
        kind = _field_kind(maker, cls, name, *annotations.get(name, (Any, Scope({}))), default=default)
        kind = _described(kind, texts.get(name))
        if default is not NOTHING and not maker.writing:
            kind = with_default(kind, default)
        fields.append(Field(name, kind, name not in cls._field_defaults, name, name))
    return _record(cls, fields, record_reader(fields, cls), record_writer(fields, cls), writing=maker.writing)


def _typed_dict(maker: KindMaker, cls: Any, variables: Dict[Any, Any]) -> Kind:
    scope = Scope.of_class(cls, variables)
    _, texts = _documentation(cls)
    fields = []
    for name, annotation in cls.__annotations__.items():
        required = _required(scope.resolve(annotation), name in cls.__required_keys__)
        kind = _described(_field_kind(maker, cls, name, annotation, scope), texts.get(name))
        fields.append(Field(name, kind, required, name, name))
    return _record(cls, fields, record_reader(fields, None), dict_writer(fields), writing=False)


def _required(annotation: Any, usual: bool) -> bool:
    """Whether ``Required`` or ``NotRequired`` stands round an annotation; `usual` when neither does."""
    while True:
        name = getattr(typing.get_origin(annotation), "_name", None)
        if name in ("Required", "NotRequired"):
            return bool(name == "Required")
        if name != "ReadOnly" and not hasattr(annotation, "__metadata__"):
            return usual
        annotation = annotation.__origin__ if hasattr(annotation, "__metadata__") else typing.get_args(annotation)[0]


def _pydantic(maker: KindMaker, cls: Any, own: str, accepts: FrozenSet[type]) -> Kind:
    """A pydantic model: its own schema decides what fits, then the model builds the object."""
    mode = "serialization" if maker.writing else "validation"
    schema = cls.model_json_schema(ref_template="#/$defs/{model}", mode=mode)
    from .check import compile_finder

    find = compile_finder(schema, where=cls.__qualname__)
    label = f"an object ({cls.__name__})" if accepts is _OBJECT else f"a value ({cls.__name__})"

    def read(value: Any) -> Any:
        problem = find(value)
        if problem is not None:
            raise problem
        try:
            return cls.model_validate(value)
        except ValueError as error:
            raise _from_pydantic(label, value, error) from error

    def write(value: Any) -> Any:
        if not isinstance(value, cls):
            raise Mismatch(f"a {cls.__name__}", value)
        return value.model_dump(mode="json", by_alias=True)

    return Kind(
        _adopted(maker, schema, own), read, write, label, accepts, writes=cls, hashable=cls.__hash__ is not None
    )


def _adopted(maker: KindMaker, schema: Dict[str, Any], own: str) -> Dict[str, Any]:
    """A schema made elsewhere, its definitions moved to the maker's under names that are free there."""
    definitions = dict(schema.get("$defs", {}))
    itself = schema.get("$ref", "").rpartition("/")[2]  # so a recursive model begins
    names = {name: own if name == itself else maker.reserve(name) for name in definitions}
    for name, definition in definitions.items():
        maker.definitions[names[name]] = _renamed(definition, names)
    beside = {word: value for word, value in schema.items() if word not in ("$defs", "$ref")}
    return {**maker.definitions[own], **_renamed(beside, names)}


def _renamed(schema: Any, names: Dict[str, str]) -> Any:
    if isinstance(schema, list):
        return [_renamed(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    new = {word: _renamed(part, names) for word, part in schema.items()}
    name = str(new.get("$ref", "")).rpartition("#/$defs/")[2]
    return {**new, "$ref": f"#/$defs/{names[name]}"} if name in names else new


def _from_pydantic(label: str, value: Any, error: Any) -> Mismatch:
    first = error.errors()[0]
    mismatch = Mismatch(label, value, instead=str(first["msg"]))
    mismatch.path = [key for key in first["loc"] if isinstance(key, (str, int))]
    return mismatch


_MARKS = (("__attrs_attrs__", _attrs), ("__dataclass_fields__", _dataclass), ("_field_defaults", _named_tuple))
