"""A Python function as a tool sees it: the schema of its arguments, their way in, the way out of its result.

Read once, when the function is registered. It uses the code object and no ``inspect``, whose import costs 10 ms.
"""

from __future__ import annotations

import typing
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from .annotations import Scope
from .classes import admits_none, with_default
from .docstrings import read_docstring
from .functions import ASYNC_GENERATOR, COROUTINES, innermost, unbound
from .kind import NOTHING_TYPE, Convert, Kind
from .kinds import Builder
from .mismatch import NOTHING, Mismatch
from .records import Field, record_reader, record_schema

_VARARGS, _VARKEYWORDS, _GENERATOR = 0x04, 0x08, 0x20
_STARS = _VARARGS | _VARKEYWORDS

_REFUSED_FLAGS: Tuple[Tuple[int, str], ...] = (
    (ASYNC_GENERATOR, "is an async generator: write a plain def that returns a list, and report with ctx.progress"),
    (COROUTINES, "is async: write a plain def; it runs on a thread and may block"),
    (_GENERATOR, "is a generator: return a list, and report what happens meanwhile with ctx.progress"),
    (_VARARGS, "takes *{name}: name each parameter, or take one list: {name}: list[str]"),
    (_VARKEYWORDS, "takes **{name}: name each parameter, or take one dict: {name}: dict[str, str]"),
)

_METHOD_ADVICE = (
    "takes self, so it is a method and needs an object: mark it with @minimcp.tool (or resource, or prompt) and add an "
    "object of its class, or register the method of an object"
)


class Parameter(NamedTuple):
    """One argument that a caller may send.

    Args:
        name: Its name.
        required: Whether it has to be sent.
        kind: Its type; the schema has the description and the default.
        description: What the docstring or `Annotated` says about it, empty when neither does.
        default: The value the function takes when it is not sent; `NOTHING` when it is required.
    """

    name: str
    required: bool
    kind: Kind
    description: str
    default: Any


class Signature:
    """What `read_signature` finds. Immutable by convention, thread-safe."""

    def __init__(
        self,
        parameters: List[Parameter],
        context_parameter: Optional[str],
        input_schema: Dict[str, Any],
        output_kind: Optional[Kind],
        returns: Any,
        description: str,
    ) -> None:
        self.parameters = parameters
        """The parameters that are arguments, in order, without the context."""
        self.context_parameter = context_parameter
        """The name of the parameter that takes the context; None when there is none."""
        self.input_schema = input_schema
        """The JSON Schema of the arguments."""
        self.output_kind = output_kind
        """The kind of the result; None without a return annotation, and where it is made of content classes."""
        self.returns = returns
        """The return annotation, resolved; `NOTHING` when there is none."""
        self.description = description
        """The docstring without its sections, empty when there is none."""
        self._read: Optional[Convert] = None  # written out for the first call: a tool that is only listed needs none

    def read_arguments(self, arguments: Any) -> Dict[str, Any]:
        """The keyword arguments for the call, converted; what was not sent is left to the function's defaults.

        Args:
            arguments: The decoded object that the caller sent.

        Raises:
            Mismatch: They do not fit; the message names the field, what was expected and what came.
        """
        read = self._read
        if read is None:
            fields = [Field(each.name, each.kind, each.required, each.name, each.name) for each in self.parameters]
            read = self._read = record_reader(fields, None)
        try:
            return read(arguments)  # type: ignore[no-any-return]
        except RecursionError:
            raise Mismatch("", arguments, instead="the arguments nest too deep") from None

    def __repr__(self) -> str:
        names = ", ".join(each.name if each.required else f"{each.name}=" for each in self.parameters)
        return f"<Signature ({names})>"


def read_signature(
    function: Any,
    *,
    context_type: type,
    owner: str,
    content_types: Tuple[type, ...] = (),
) -> Signature:
    """The signature of a function or bound method.

    Args:
        function: What will be called.
        context_type: The class whose parameter is injected and no argument.
        owner: What messages call it: "tool 'forecast'".
        content_types: Classes that are sent as they are: a result made of them (alone, in a list, a tuple, a
            Union or an Optional, with str beside them) has no output kind.

    Raises:
        TypeError: It cannot be a handler as it is written; the message says what to write instead.
    """
    if isinstance(function, type):
        raise TypeError(f"{owner} is a class: pass a function, or a method of an instance")
    names, defaults, first = _anatomy(function, owner)
    annotations, scope = _annotations(function)
    description, texts = read_docstring(getattr(function, "__doc__", None))
    builder = Builder()
    parameters: List[Parameter] = []
    contexts: List[str] = []
    if names[:1] == ("self",) and not first and "self" not in annotations:
        raise TypeError(f"{owner} {_METHOD_ADVICE}")
    for name in names[first:]:
        where = f"{owner}: parameter {name!r}"
        annotation = _resolved(annotations, name, scope, where)
        if _is_context(annotation, context_type, scope, where):
            contexts.append(name)
        else:
            default = defaults.get(name, NOTHING)
            parameters.append(_parameter(builder, scope, name, annotation, default, texts.get(name, ""), where))
    if len(contexts) > 1:
        raise TypeError(f"{owner}: two parameters take the context, {contexts[0]!r} and {contexts[1]!r}: keep one")
    returns, output_kind = _result(annotations, scope, content_types, owner)
    schema = _input_schema(builder, parameters)
    return Signature(parameters, contexts[0] if contexts else None, schema, output_kind, returns, description)


def _input_schema(builder: Builder, parameters: List[Parameter]) -> Dict[str, Any]:
    fields = [Field(each.name, each.kind, each.required, each.name, each.name) for each in parameters]
    return builder.complete(record_schema(fields))


def _anatomy(function: Any, owner: str) -> Tuple[Tuple[str, ...], Dict[str, Any], int]:
    """The parameters' names, their defaults, and how many of them are bound already."""
    refuse_flags(function, owner)
    bound = hasattr(function, "__self__")
    plain = innermost(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        raise TypeError(f"{owner} is no Python function: write a def that calls it")
    refuse_flags(plain, owner)
    first = int(bound)
    if code.co_posonlyargcount > first:
        name = code.co_varnames[first]
        raise TypeError(f"{owner} has positional-only parameters ({name!r}): arguments come by name, remove the '/'")
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = plain.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(positional) : code.co_argcount], positional))
    return names, {**defaults, **(plain.__kwdefaults__ or {})}, first


def refuse_flags(function: Any, owner: str) -> None:
    """Refuse what is called otherwise than a plain function.

    Raises:
        TypeError: It is async, a generator, or takes any number of arguments; the message says what to write instead.
    """
    plain = unbound(function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return
    flags = code.co_flags & ~(_STARS if hasattr(plain, "__wrapped__") else 0)  # a wrapper takes and passes on anything
    for flag, problem in _REFUSED_FLAGS:
        if flags & flag:
            stars = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
            name = stars[1 if flag == _VARKEYWORDS and flags & _VARARGS else 0] if flag & _STARS else ""
            raise TypeError(f"{owner} {problem.format(name=name)}")


def _annotations(function: Any) -> Tuple[Mapping[str, Any], Scope]:
    plain = innermost(function)
    closure = dict(_assigned(plain))
    instance = getattr(function, "__self__", None)
    body: Dict[str, Any] = {}
    for cls in reversed(type(instance).__mro__ if instance is not None else ()):
        body.update({name: part for name, part in vars(cls).items() if isinstance(part, type)})
    parameters = {each.__name__: each for each in getattr(plain, "__type_params__", ())}
    return plain.__annotations__, Scope(plain.__globals__, {**body, **closure, **parameters})


def _assigned(plain: Any) -> Iterator[Tuple[str, Any]]:
    """The names of enclosing functions that a function uses, as far as they have a value by now."""
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:
            pass


def _resolved(annotations: Mapping[str, Any], name: str, scope: Scope, where: str) -> Any:
    if name not in annotations:
        likely = "Context" if name in ("ctx", "context") else "str"
        raise TypeError(f"{where} has no annotation: give it a type, such as {name}: {likely}")
    try:
        return scope.resolve(annotations[name])
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from error


def _is_context(annotation: Any, context_type: type, scope: Scope, where: str) -> bool:
    members = [each for each in _members(annotation, scope) if each is not NOTHING_TYPE]
    if len(members) != 1 or not isinstance(members[0], type):
        return False
    if not issubclass(members[0], context_type):
        _refuse_foreign(members[0], context_type, where)
        return False
    return True


def _refuse_foreign(cls: type, context_type: type, where: str) -> None:
    """Refuse the context of another copy of this package: no request will ever bring one."""
    home, own = cls.__module__, context_type.__module__.split(".")
    tail = "." + ".".join(own[-2:])
    if cls.__name__ == context_type.__name__ and home.endswith(tail):
        package, ours = home[:-len(tail)], ".".join(own[:-2])
        what = f"{where}: this {cls.__name__} is from {package}, and the server from {ours}"
        raise TypeError(f"{what}: import both from one")


def _members(annotation: Any, scope: Scope) -> List[Any]:
    """What a Union is made of; any other annotation alone."""
    origin = typing.get_origin(annotation)
    if origin is Union or getattr(origin, "__name__", "") == "UnionType":
        return [scope.resolve(each) for each in typing.get_args(annotation)]
    return [annotation]


def _parameter(
    builder: Builder, scope: Scope, name: str, annotation: Any, default: Any, text: str, where: str
) -> Parameter:
    try:
        kind = builder.kind(annotation, scope)
        if not admits_none(kind, default):
            kind = builder.kind(typing.Optional[annotation], scope)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{where}: {_reason(error)}") from error
    if text and "description" not in kind.schema:
        kind = kind.with_words({"description": text})
    if type(default).__module__ == "pydantic.fields":  # a description for pydantic, which nobody reads here
        raise TypeError(f"{where}: a Field is no default: write {name}: Annotated[<type>, Field(...)] = <default>")
    if default is not NOTHING:
        kind = with_default(kind, default)
    return Parameter(name, default is NOTHING, kind, kind.schema.get("description", ""), default)


def _result(
    annotations: Mapping[str, Any], scope: Scope, content_types: Tuple[type, ...], owner: str
) -> Tuple[Any, Optional[Kind]]:
    if "return" not in annotations:
        return NOTHING, None
    where = f"{owner}: the return type"
    annotation = _resolved(annotations, "return", scope, where)
    if _mentions(annotation, content_types, scope):
        return annotation, None
    builder = Builder(writing=True)
    try:
        kind = builder.kind(annotation, scope)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{where}: {_reason(error)}") from error
    return annotation, kind.changed(schema=builder.complete(kind.schema))


def _reason(error: Exception) -> str:
    return "each level of it is a new type, without end" if isinstance(error, RecursionError) else str(error)


def _mentions(annotation: Any, content_types: Tuple[type, ...], scope: Scope) -> bool:
    """Whether a content class stands anywhere in an annotation, which may be an alias that names itself."""
    waiting: List[Any] = [annotation]
    seen: List[Any] = []
    while waiting:
        part = waiting.pop()
        if isinstance(part, (str, typing.ForwardRef)):
            name = getattr(part, "__forward_arg__", part)
            if name in seen:
                continue
            seen.append(name)
            part = scope.resolve(part)
        origin = typing.get_origin(part)
        meant = [getattr(part, inner) for mark, inner in _STANDS_FOR if hasattr(part, mark)]
        if isinstance(part, type) and origin is None:
            if issubclass(part, content_types):
                return True
        elif meant:
            waiting.extend([] if part in seen else meant[:1])
            seen.append(part)
        elif getattr(origin, "_name", "") != "Literal":
            waiting.extend(each for each in typing.get_args(part) if each is not Ellipsis)
    return False


_STANDS_FOR = (
    ("__metadata__", "__origin__"), ("__value__", "__value__"), ("__supertype__", "__supertype__"),
    ("__bound__", "__bound__"),
)  # fmt: skip
"""What tells `Annotated`, an alias, a NewType and a type variable, and where each has the type that it stands for."""
