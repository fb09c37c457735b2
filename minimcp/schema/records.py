"""Classes with fields as JSON objects: dataclass, TypedDict, NamedTuple, attrs and pydantic.

One function for reading and one for writing is generated per class, because a list of records is what tools return, and
generated code is three times as fast as a loop over the fields. Its source contains the author's own field names, as
string literals, and nothing else from outside. For a class with the fields ``id: int`` and ``tags: list[str] = ()``::

    def read(value):
        if type(value) is not dict:
            raise Mismatch(label, value)
        try:
            v0 = value['id']
        except KeyError:
            raise unfit(value) from None
        extra = {}
        try:
            if not (type(v0) is int):
                at = 'id'
                v0 = c0(v0)
            if 'tags' in value:
                v1 = value['tags']
                at = 'tags'
                v1 = c1(v1)
                extra['tags'] = v1
        except Mismatch as error:
            raise error.inside(at) from None
        if len(value) != 1 + len(extra):
            raise unfit(value)
        try:
            return make(v0, **extra)
        except (ValueError, TypeError) as error:
            raise refused(label, value, error) from error
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Iterator, List, NamedTuple, Sequence, Tuple

from ..types import Wire
from .checker import compile_validator
from .hints import no_class
from .introspection import Scope, annotations_of, parameters_of, read_docstring
from .kinds import JSON_TYPES, NONE_TYPE, Convert, Kind
from .mismatch import NOTHING, Mismatch, cut, listed, nearest

if TYPE_CHECKING:
    from .annotations import Builder

_OBJECT: FrozenSet[type] = frozenset({dict})


class Field(NamedTuple):
    """One member of an object.

    Args:
        name: Its name in JSON, by which the constructor takes it as well.
        kind: Its type.
        required: Whether it has to be sent.
        attribute: The attribute that holds it in Python.
    """

    name: str
    kind: Kind
    required: bool
    attribute: str


def record_schema(fields: Sequence[Field], *, all_required: bool = False) -> Dict[str, Any]:
    """The JSON Schema of an object with exactly these fields. ``properties`` is there even without any.

    Clients exist that cannot read the schema of a tool without it.
    """
    schema: Dict[str, Any] = {"type": "object", "properties": {field.name: field.kind.schema for field in fields}}
    required = [field.name for field in fields if field.required or all_required]
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


# ------------------------------------------------------------ generated functions


def _label(fields: Sequence[Field]) -> str:
    names = listed([field.name for field in fields], "and") if fields else ""
    return cut(f"an object with {names}", 120) if names else "an empty object"


def record_reader(fields: Sequence[Field], make: Callable[..., Any]) -> Convert:
    """A function from a JSON object to a Python value.

    Args:
        fields: All that the object may have.
        make: Called with those that were sent; `dict` may have members of any name.
    """
    lines = ["if type(value) is not dict:", "    raise Mismatch(label, value)"]
    fetched = [f"v{index} = value[{field.name!r}]" for index, field in enumerate(fields) if field.required]
    if fetched:
        lines += ["try:", *_indented(fetched), "except KeyError:", "    raise unfit(value) from None"]
    body, optional = [], len(fetched) < len(fields)
    for index, field in enumerate(fields):
        if field.required:
            body += _converted(index, field)
        else:
            keep = f"extra[{field.name!r}] = v{index}"
            lines_if_sent = [f"v{index} = value[{field.name!r}]", *_converted(index, field), keep]
            body += [f"if {field.name!r} in value:", *_indented(lines_if_sent)]
    lines += ["extra = {}"] * optional + _guarded(body)
    lines += [f"if len(value) != {len(fetched)}{' + len(extra)' * optional}:", "    raise unfit(value)"]
    sent = [(field.name, f"v{index}") for index, field in enumerate(fields) if field.required]
    rest = ["**extra"] * optional
    if make is dict:
        lines += ["return {" + ", ".join([f"{name!r}: {variable}" for name, variable in sent] + rest) + "}"]
    else:
        in_order = [each.name for each in parameters_of(make).values() if each.kind is each.POSITIONAL_OR_KEYWORD]
        by_position = [name for name, _ in sent] == in_order[: len(sent)]  # the quicker way
        arguments = [variable if by_position else f"{name}={variable}" for name, variable in sent] + rest
        refused = ["except (ValueError, TypeError) as error:", "    raise refused(label, value, error) from error"]
        lines += ["try:", f"    return make({', '.join(arguments)})", *refused]
    names = {"label": _label(fields), "unfit": _explainer(fields), "make": make, "refused": _refused}
    return _function(lines, {**names, **{f"c{index}": field.kind.read for index, field in enumerate(fields)}})


def record_writer(fields: Sequence[Field], cls: type) -> Convert:
    """A function from an instance of `cls` (or of a subclass) to a JSON object of these fields."""
    lines = ["if type(value) is not cls and not isinstance(value, cls):", "    raise Mismatch(label, value)"]
    body = []
    for index, field in enumerate(fields):
        body += [f"v{index} = value.{field.attribute}", *_converted(index, field)]
    lines += _guarded(body)
    lines += ["return {" + ", ".join(f"{field.name!r}: v{index}" for index, field in enumerate(fields)) + "}"]
    names = {"label": f"a {cls.__name__}", "cls": cls}
    return _function(lines, {**names, **{f"c{index}": field.kind.write for index, field in enumerate(fields)}})


def _converted(index: int, field: Field) -> List[str]:
    """Lines that convert one variable, unless a look at it shows that it stays as it is."""
    variable, kind = f"v{index}", field.kind
    convert = [f"at = {field.name!r}", f"{variable} = c{index}({variable})"]
    if kind.exact is not None:
        return [f"if not ({_is_exact(kind.exact, variable)}):", *_indented(convert)]
    if kind.exact_items is not None:
        item = [f"if not ({_is_exact(kind.exact_items, 'item')}):", *_indented([*convert, "break"])]
        loop = [f"for item in {variable}:", *_indented(item)]
        return [f"if type({variable}) is not list:", *_indented(convert), "else:", *_indented(loop)]
    return convert


def _is_exact(exact: type, name: str) -> str:
    if exact is NONE_TYPE:
        return f"{name} is None"
    finite = f" and {name} - {name} == 0.0" if exact is float else ""
    return f"type({name}) is {exact.__name__}{finite}"


def _indented(lines: Sequence[str]) -> List[str]:
    return [f"    {line}" for line in lines]


def _guarded(lines: Sequence[str]) -> List[str]:
    """Lines in which a Mismatch learns the field that it happened at."""
    caught = ["except Mismatch as error:", "    raise error.inside(at) from None"]
    return ["try:", *_indented(lines), *caught] if lines else []


def _function(lines: Sequence[str], names: Dict[str, Any]) -> Convert:
    namespace: Dict[str, Any] = {"Mismatch": Mismatch, **names}
    exec("\n".join(["def convert(value):", *_indented(lines)]), namespace)
    return typing.cast(Convert, namespace["convert"])


def _refused(label: str, value: Any, error: Exception) -> Mismatch:
    """What a constructor that checks on its own account says."""
    reason = cut(" ".join(str(error).split()) or type(error).__name__, 200)
    return Mismatch(label, value, instead=f"expected {label} that is valid: {reason}")


def _explainer(fields: Sequence[Field]) -> Callable[[Dict[str, Any]], Mismatch]:
    """What is wrong with an object that lacks a field or has one too many."""
    known = [field.name for field in fields]

    def unfit(value: Dict[str, Any]) -> Mismatch:
        unknown = next((name for name in value if name not in known), None)
        missing = [field.name for field in fields if field.required and field.name not in value]
        if unknown is None:
            first = next(field for field in fields if field.name == missing[0])
            also = f" (missing too: {cut(listed(missing[1:], 'and'))})" if missing[1:] else ""
            wanted = first.kind.label
            return Mismatch(wanted, instead=f"expected {wanted}, got nothing{also}").inside(first.name)
        near = nearest(unknown, missing or known)
        if near is not None:
            hint = f", did you mean {near!r}?"
        else:
            hint = f": the fields are {cut(listed(known, 'and'), 200)}" if known else ": there are no fields"
            hint += f"; missing: {cut(listed(missing, 'and'))}" if missing else ""
        return Mismatch("", value, instead=f"unknown field {cut(unknown)!r}{hint}")

    return unfit


# ------------------------------------------------------------ the classes


class _Member(NamedTuple):
    """A field as a class declares it.

    Args:
        attribute: Its name in Python.
        annotation: Its type, where the class body does not say it.
        required: Whether it has to be sent.
        default: For the schema; `NOTHING` when there is none that the schema can show.
        name: Its name in JSON; empty when that is the attribute.
        description: Empty when the docstring has it.
        taken: Whether the constructor takes it.
    """

    attribute: str
    annotation: Any
    required: bool
    default: Any = NOTHING
    name: str = ""
    description: str = ""
    taken: bool = True


def class_with_fields(builder: Builder, cls: Any, arguments: Tuple[Any, ...]) -> Kind:
    """The kind of a class that lists its fields.

    Args:
        builder: Makes the kinds of the fields.
        cls: The class, without its type arguments.
        arguments: Those; none for a class that is not generic.

    Raises:
        TypeError: It is no such class, or one of its fields has no JSON form.
    """
    name = "_".join([cls.__name__, *map(_name_part, arguments)])
    pydantic = sys.modules.get("pydantic")
    if hasattr(pydantic, "BaseModel") and issubclass(cls, pydantic.BaseModel):  # type: ignore[union-attr]
        accepts = JSON_TYPES if issubclass(cls, getattr(pydantic, "RootModel", ())) else _OBJECT
        return builder.named((cls, arguments), name, lambda own: _pydantic(builder, cls, own, accepts), accepts)
    members = next((members for mark, members in _FORMS.items() if hasattr(cls, mark)), None)
    if members is None or issubclass(cls, Wire):  # a dataclass, but its JSON form is another
        raise TypeError(no_class(cls))
    return builder.named(
        (cls, arguments), name, lambda _: _record(builder, cls, list(members(cls)), _variables(cls, arguments))
    )


def _name_part(argument: Any) -> str:
    """A type argument in the name of a definition, the same on every Python."""
    origin = typing.get_origin(argument)
    if origin is None:
        return str(getattr(argument, "__name__", argument))
    if hasattr(argument, "__metadata__"):
        return _name_part(argument.__origin__)
    name = getattr(origin, "__name__", None) or origin._name
    return "_".join(["Union" if name == "UnionType" else str(name), *map(_name_part, typing.get_args(argument))])


def _variables(cls: Any, arguments: Tuple[Any, ...]) -> Dict[Any, Any]:
    """What the type variables of a class and of its bases stand for."""
    found: Dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), arguments))
    for base in vars(cls).get("__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin is not None and origin not in (typing.Generic, typing.Protocol):
            inner = tuple(map(Scope(variables=found).resolved, typing.get_args(base)))
            found = {**_variables(origin, inner), **found}
    return found


def _record(builder: Builder, cls: Any, members: Sequence[_Member], variables: Dict[Any, Any]) -> Kind:
    annotations: Dict[str, Tuple[Any, Scope]] = {}
    for owner in reversed(cls.__mro__):
        scope = Scope.of_class(owner, variables)
        annotations.update({name: (annotation, scope) for name, annotation in annotations_of(owner).items()})
    made_doc = (cls.__doc__ or "").startswith(f"{cls.__name__}(")  # by the decorator or class statement
    text, texts = read_docstring(None if made_doc else vars(cls).get("__doc__"))
    fields, taken = [], []
    for each in members:
        annotation, scope = annotations.get(each.attribute, (each.annotation, Scope.of_class(cls, variables)))
        description = each.description or texts.get(each.attribute, "")
        try:
            kind = builder.field(annotation, scope, default=each.default, description=description)
        except (TypeError, ValueError) as error:
            raise TypeError(f"field {each.attribute!r} of {cls.__qualname__}: {error}") from error
        required = _required(scope.resolve(annotation), each.required)
        fields.append(Field(each.name or each.attribute, kind, required, each.attribute))
        taken += fields[-1:] if each.taken else []
    is_dict = issubclass(cls, dict)
    shown = fields if builder.writing else taken
    schema = record_schema(shown, all_required=builder.writing and not is_dict)
    if text:
        schema = {"type": "object", "description": text, **schema}
    if is_dict:
        read = record_reader(fields, dict)
        write = record_reader([each._replace(kind=replace(each.kind, read=each.kind.write)) for each in fields], dict)
    else:
        read, write = record_reader(taken, cls), record_writer(shown, cls)
    return Kind(schema, read, write, _label(shown), _OBJECT, writes=cls, hashable=cls.__hash__ is not None)


def _dataclass_members(cls: Any) -> Iterator[_Member]:
    for name, field in cls.__dataclass_fields__.items():
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        pseudo = getattr(field._field_type, "name", "_FIELD")
        if pseudo == "_FIELD_INITVAR" and bare:
            raise TypeError(f"field {name!r} of {cls.__qualname__}: an InitVar needs a default, it is no field")
        if pseudo == "_FIELD":
            default = _empty(field.default_factory) if field.default is dataclasses.MISSING else field.default
            description = field.metadata.get("description", "")
            yield _Member(name, field.type, bare and field.init, default, "", description, field.init)


def _attrs_members(cls: Any) -> Iterator[_Member]:
    for each in cls.__attrs_attrs__:
        bare = each.default is sys.modules["attr"].NOTHING
        made = hasattr(each.default, "factory")
        default = _empty(each.default.factory) if made else NOTHING if bare else each.default
        description = each.metadata.get("description", "")
        yield _Member(each.name, each.type or Any, bare and each.init, default, each.alias, description, each.init)


def _empty(factory: Any) -> Any:
    """The default that a factory makes, where it is known to be empty."""
    return factory() if factory in (list, dict, set) else NOTHING


def _tuple_members(cls: Any) -> Iterator[_Member]:
    for name in cls._fields:
        yield _Member(name, Any, name not in cls._field_defaults, cls._field_defaults.get(name, NOTHING))


def _typed_dict_members(cls: Any) -> Iterator[_Member]:
    for name in annotations_of(cls):
        yield _Member(name, Any, name in cls.__required_keys__)


def _required(annotation: Any, usual: bool) -> bool:
    """Whether ``Required`` or ``NotRequired`` stands round an annotation; `usual` when neither does."""
    while True:
        name = getattr(typing.get_origin(annotation), "_name", None)
        if name in ("Required", "NotRequired"):
            return bool(name == "Required")
        if name != "ReadOnly" and not hasattr(annotation, "__metadata__"):
            return usual
        annotation = annotation.__origin__ if hasattr(annotation, "__metadata__") else typing.get_args(annotation)[0]


_FORMS: Dict[str, Callable[[Any], Iterator[_Member]]] = {
    "__required_keys__": _typed_dict_members,
    "__attrs_attrs__": _attrs_members,
    "__dataclass_fields__": _dataclass_members,
    "_field_defaults": _tuple_members,
}
"""The attribute that tells a form of class, and what finds its fields."""


# ------------------------------------------------------------ pydantic


def _pydantic(builder: Builder, cls: Any, own: str, accepts: FrozenSet[type]) -> Kind:
    """A pydantic model: its own schema decides what fits, then the model builds the object."""
    adapter = sys.modules["pydantic"].TypeAdapter(cls)
    schema = adapter.json_schema(mode="serialization" if builder.writing else "validation")
    validate = compile_validator(schema, where=cls.__qualname__)
    label = f"an object ({cls.__name__})" if accepts is _OBJECT else f"a value ({cls.__name__})"

    def read(value: Any) -> Any:
        validate(value)
        try:
            return adapter.validate_python(value)
        except ValueError as error:
            first = error.errors()[0]  # type: ignore[attr-defined]
            mismatch = Mismatch(label, value, instead=str(first["msg"]))
            mismatch.path = [key for key in first["loc"] if isinstance(key, (str, int))]
            raise mismatch from error

    def write(value: Any) -> Any:
        if not isinstance(value, cls):
            raise Mismatch(f"a {cls.__name__}", value)
        return value.model_dump(mode="json", by_alias=True)

    definitions = schema.get("$defs", {})
    itself = schema.get("$ref", "").rpartition("/")[2]  # so a recursive model begins
    names = {name: own if name == itself else builder.reserve(name) for name in definitions}
    for name, definition in definitions.items():
        builder.definitions[names[name]] = _renamed(definition, names)
    beside = {word: rule for word, rule in schema.items() if word not in ("$defs", "$ref")}
    shown = {**builder.definitions[own], **_renamed(beside, names)}
    return Kind(shown, read, write, label, accepts, writes=cls, hashable=cls.__hash__ is not None)


def _renamed(schema: Any, names: Dict[str, str]) -> Any:
    """A schema whose references lead to definitions of other names."""
    if isinstance(schema, list):
        return [_renamed(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    new = {word: _renamed(part, names) for word, part in schema.items()}
    name = str(new.get("$ref", "")).rpartition("#/$defs/")[2]
    return {**new, "$ref": f"#/$defs/{names[name]}"} if name in names else new
