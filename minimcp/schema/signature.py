"""`read_signature`: the input schema of a function, and the conversion of its arguments and result.

A function is read once, when it is registered.
"""

from __future__ import annotations

import functools
import typing
from contextlib import suppress
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Annotated, Any, Callable, Mapping, NamedTuple, Optional

from ..record import Record
from .annotations import Builder, ContentClass, kind_of
from .introspection import (
    CO_GENERATOR,
    CO_VARKEYWORDS,
    HIDEABLE,
    POSITIONAL_ONLY,
    STARS,
    VAR_POSITIONAL,
    Parameter,
    Scope,
    WrittenSignature,
    hidden_by,
    is_field,
    is_union,
    read_docstring,
)
from .kinds import Convert, Field, Kind, record_reader, record_schema
from .mismatch import NOTHING, Mismatch, refuse_async
from .values import NONE_TYPE


class Signature(Record):
    """The result of `read_signature`. Immutable by convention, thread-safe.

    Args:
        parameters: The parameters that are arguments, in order, without the context.
        context_parameter: The name of the parameter for the context, or None.
        input_schema: The JSON Schema of the arguments.
        output_kind: The kind of the result. None without a return annotation, and if the result
            consists of content classes.
        returns: The resolved return annotation; `NOTHING` if there is none.
        description: The docstring without its sections; empty if there is none.
        doubts: Warnings about code that is probably a mistake.
        validated: The names of parameters whose types have validators.
        defaults: For each parameter with a ``Field(...)`` as default: a function that makes the
            value, given the arguments that were read before.
    """

    parameters: list[Field]
    context_parameter: Optional[str]
    input_schema: dict[str, Any]
    output_kind: Optional[Kind]
    returns: Any
    description: str
    doubts: list[str]
    validated: list[str]
    defaults: Mapping[str, Callable[[dict[str, Any]], Any]]

    @cached_property
    def _read(self) -> Convert:  # compiled on the first call of the tool
        return record_reader(self.parameters, dict)

    def read_arguments(self, arguments: Any) -> dict[str, Any]:
        """Convert the arguments of a call. Arguments that were not sent are not in the result.

        Args:
            arguments: The decoded object that the caller sent.

        Raises:
            Mismatch: The arguments do not match; the message names the field, the expected value
                and the actual value.
        """
        try:
            return self._read(arguments)  # type: ignore[no-any-return]
        except RecursionError:
            raise Mismatch("", arguments, instead="the arguments are nested too deeply") from None

    def completed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Add the defaults in `defaults` of arguments that were not sent."""
        for name, make in self.defaults.items():
            if name not in arguments:
                arguments[name] = make(arguments)
        return arguments


def read_signature(
    function: Any,
    *,
    context_type: str,
    owner: str,
    content_types: tuple[type, ...] = (),
    alone_types: tuple[type, ...] = (),
    strict: bool = False,
) -> Signature:
    """Return the signature of a function, a bound method, a `functools.partial` or a callable
    object.

    Args:
        function: The function.
        context_type: The module and the name of the class of the parameter that is injected and is
            not an argument. The module may not be loaded yet.
        owner: The function's description in messages: "tool 'forecast'".
        content_types: Classes that are sent unchanged. A result that consists of them (alone, in a
            list, a tuple, a Union or an Optional, possibly with str) has no output kind.
        alone_types: Content classes that cannot be in a list.
        strict: Whether every object in the schemas forbids additional properties.

    Raises:
        TypeError: The function cannot be a handler; the message says what to write instead.
    """
    plain, written, documentation = _call_of(function, owner)
    scope = _scope_of(function, plain)
    description, texts = read_docstring(documentation)
    builder = Builder(strict=strict)
    defaults: dict[str, Callable[[dict[str, Any]], Any]] = {}
    parameters: list[Field] = []
    contexts: list[str] = []
    doubts: list[str] = []
    validated: list[str] = []
    for each in written.parameters:
        _refuse_star(each, owner)
    for each in written.parameters:
        name = each.name
        default = each.default
        _refuse_parameter(each, owner, first=not parameters)
        with _ErrorsAt(f"{owner}: parameter {name!r}"):
            annotation = scope.resolve(each.annotation)
            if _is_context(annotation, context_type, scope):
                contexts.append(name)
                continue
            if is_field(default):
                annotation = Annotated[annotation, default]
            field = default if is_field(default) else _field_in(annotation, default)
            if field is not None:
                from .validators import field_default

                default, make = field_default(field)
                if make is not None:
                    defaults[name] = make
            kind = builder.field(
                annotation, scope, default=default, description=texts.get(name, "")
            )
        if builder.has_validators:
            validated.append(name)
            builder.has_validators = False
        required = default is NOTHING and name not in defaults
        parameters.append(Field(name, required, kind))
        if isinstance(default, (str, int, list, dict, tuple)) and "default" not in kind.schema:
            doubts.append(f"has the default {name}={default!r:.60}, which is not {kind.label}")
    if len(contexts) > 1:
        raise TypeError(
            f"{owner}: two parameters take the context, {contexts[0]!r} and {contexts[1]!r}: "
            "keep one"
        )
    known = [*(each.name for each in parameters), *contexts]
    doubts += [
        f"has no parameter {name!r}, which its docstring describes (the parameters are "
        f"{', '.join(known) or 'none'})"
        for name in texts
        if name not in known
    ]
    if plain.__qualname__ in HIDEABLE:
        doubts.append(f"needs another name: {hidden_by(plain.__name__)}")
    schema = builder.complete(record_schema(parameters))
    if not parameters:
        schema["additionalProperties"] = False
    returns = NOTHING
    output_kind = None
    if written.returns is not NOTHING:
        with _ErrorsAt(f"{owner}: the return type"):
            returns = scope.resolve(written.returns)
            try:
                output_kind = kind_of(
                    returns, scope=scope, writing=True, content=content_types, strict=strict
                )
            except ContentClass as error:
                if error.in_list and issubclass(error.cls, alone_types):
                    raise TypeError(
                        f"a list cannot contain {error.cls.__name__}: {error}"
                    ) from error
    return Signature(
        parameters,
        contexts[0] if contexts else None,
        schema,
        output_kind,
        returns,
        description,
        doubts,
        validated,
        defaults,
    )


def _field_in(annotation: Any, default: Any) -> Any:
    """Return the ``Field(default=...)`` in the annotation of a parameter without a default, or
    None."""
    for each in getattr(annotation, "__metadata__", ()) if default is NOTHING else ():
        if is_field(each) and (each.default_factory is not None or not each.is_required()):
            return each
    return None


class _ErrorsAt:
    """A context manager that adds a place to the message of an error. One that is made by
    `contextlib.contextmanager` takes three times as long."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: Optional[BaseException], __: Any) -> None:
        if isinstance(error, (TypeError, ValueError, RecursionError)):
            raise TypeError(f"{self._where}: {error}") from None


# ------------------------------------------------------------ functions


# Maximum nesting of wrappers.
MAX_WRAPPERS = 100


class _Call(NamedTuple):
    """The parameters of a call.

    Args:
        plain: The Python function whose names the annotations use.
        signature: The parameters that can still be passed, and the return annotation.
        documentation: The docstring, or None.
    """

    plain: Any
    signature: WrittenSignature
    documentation: Optional[str]


def _call_of(function: Any, owner: str, *, bound: int = 0, depth: int = 0) -> _Call:
    """Read a function, a method, a partial or a callable object.

    For a partial, its arguments are bound first. Otherwise ``__signature__`` takes precedence, then
    ``__wrapped__``, as in `inspect.signature`. That function ignores the arguments of a partial
    that has ``__wrapped__``.

    Args:
        function: The object that is called.
        owner: Its description in messages.
        bound: The number of positional parameters that are bound, such as ``self``.
        depth: The number of wrappers around it.

    Raises:
        TypeError: It does not consist of Python functions, or cannot be called with the arguments
            that its signature names.
    """
    if isinstance(function, type):
        raise TypeError(f"{owner} is a class: pass a function, or a method of an instance")
    if depth > MAX_WRAPPERS:
        raise TypeError(f"{owner} wraps itself")
    if isinstance(function, partial):
        call = _call_of(function.func, owner, bound=bound, depth=depth + 1)
        own = vars(function).get("__doc__")
        return call._replace(
            signature=_without_bound(call.signature, function, owner),
            documentation=call.documentation if own is None else own,
        )
    if isinstance(function, MethodType):
        return _without_self(_call_of(function.__func__, owner, bound=1, depth=depth + 1), owner)
    _refuse_async_and_generators(function, owner)
    signature = getattr(function, "__signature__", None)
    inner = None
    if hasattr(signature, "return_annotation"):
        written = WrittenSignature.converted(signature)
        inner = _Call(_plain_function(function, owner), written, None)
    elif hasattr(function, "__wrapped__"):
        inner = _call_of(function.__wrapped__, owner, depth=depth + 1)
    if not isinstance(function, FunctionType) and inner is None:
        # A bound method, the function of a staticmethod, or the partial of a partialmethod.
        called = function.__call__ if callable(function) else None
        if not isinstance(called, (FunctionType, MethodType, partial)):
            raise TypeError(f"{owner} is not a Python function: write a def that calls it")
        call = _call_of(called, owner, depth=depth + 1)
        return call._replace(documentation=call.documentation or type(function).__doc__)
    if inner is None:
        return _Call(function, WrittenSignature.of(function), function.__doc__)
    if isinstance(function, FunctionType):
        _refuse_uncallable(function, inner.signature, owner, bound)
    return inner._replace(documentation=function.__doc__)


def _plain_function(function: Any, owner: str) -> Any:
    """Return the Python function inside wrappers.

    Raises:
        TypeError: There is none, or one of them is async.
    """
    for _ in range(MAX_WRAPPERS):
        refuse_async(function, owner)
        if not hasattr(function, "__wrapped__"):
            break
        function = function.__wrapped__
    plain = function if isinstance(function, FunctionType) else type(function).__call__
    if not isinstance(plain, FunctionType):
        raise TypeError(f"{owner} is not a Python function: write a def that calls it")
    return plain


def _without_self(call: _Call, owner: str) -> _Call:
    parameters = list(call.signature.parameters)
    if not parameters:
        raise TypeError(f"{owner} is a method without the parameter self")
    if parameters[0].kind != VAR_POSITIONAL:
        del parameters[0]
    return call._replace(signature=call.signature._replace(parameters=parameters))


def _without_bound(written: WrittenSignature, function: Any, owner: str) -> WrittenSignature:
    """Return the signature of a partial without the parameters that it binds.

    Raises:
        TypeError: The partial can never be called.
    """
    try:
        found = written.inspected().bind_partial(*function.args, **function.keywords).arguments
    except TypeError as error:
        raise TypeError(f"{owner} is a partial that cannot be called: {error}") from None
    placeholder = getattr(functools, "Placeholder", NOTHING)
    if any(each is placeholder for each in function.args):
        raise TypeError(f"{owner} is a partial with a Placeholder: bind arguments by name")
    left = [each for each in written.parameters if each.name not in found or each.kind in STARS]
    return written._replace(parameters=left)


def _refuse_uncallable(wrapper: Any, written: WrittenSignature, owner: str, bound: int) -> None:
    """Reject a wrapper that does not accept the arguments that its signature names.

    Raises:
        TypeError: The message names the parameter.
    """
    code = wrapper.__code__
    names = [each.name for each in written.parameters][bound:]
    positional = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    taken = [*positional[max(bound, code.co_posonlyargcount) :], *by_name]
    needed = list(positional[bound : len(positional) - len(wrapper.__defaults__ or ())])
    needed += [name for name in by_name if name not in (wrapper.__kwdefaults__ or {})]
    for name in names:
        if name not in taken and not code.co_flags & CO_VARKEYWORDS:
            problem = f"the wrapper of {owner} does not take {name!r}"
            raise TypeError(f"{problem}: write **kwargs in the wrapper and pass them on")
    for name in needed:
        if name not in names or name not in (*taken, *by_name):
            problem = f"the wrapper of {owner} needs {name!r}, which its signature does not name"
            raise TypeError(f"{problem}: give it a default")


def _refuse_parameter(parameter: Parameter, owner: str, *, first: bool) -> None:
    """Reject a parameter that no argument can fill, or that has no annotation."""
    name = parameter.name
    is_annotated = parameter.annotation is not NOTHING
    if name == "self" and first and not is_annotated:
        raise TypeError(
            f"{owner} takes self, so it is a method and needs an object: mark it with "
            "@minimcp.tool (or resource, or prompt) and add an object of its class, or register "
            "the method of an object"
        )
    if parameter.kind == POSITIONAL_ONLY:
        raise TypeError(
            f"{owner} has positional-only parameters ({name!r}), but arguments are passed by "
            "name: remove the '/'"
        )
    if not is_annotated:
        likely = f"{name}: {'Context' if name in ('ctx', 'context') else 'str'}"
        way = f"give it a type, such as {likely}"
        if "<lambda>" in owner:
            way = f"a lambda cannot have one: write def add({likely})"
        raise TypeError(f"{owner}: parameter {name!r} has no annotation: {way}")


def refuse_async_and_stars(function: Any, owner: str) -> None:
    """Reject a function that is not called like a plain function.

    Raises:
        TypeError: It is async, a generator, or takes any number of arguments; the message says what
            to write instead.
    """
    _refuse_async_and_generators(function, owner)
    plain = getattr(function, "__func__", function)
    # A wrapper may take anything and pass it on.
    if not isinstance(plain, FunctionType) or hasattr(plain, "__wrapped__"):
        return
    for each in WrittenSignature.of(plain).parameters:
        _refuse_star(each, owner)


def _refuse_async_and_generators(function: Any, owner: str) -> None:
    refuse_async(function, owner)
    plain = getattr(function, "__func__", function)
    if isinstance(plain, FunctionType) and plain.__code__.co_flags & CO_GENERATOR:
        what = "is a generator: return a list, and report progress with ctx.progress"
        raise TypeError(f"{owner} {what}")


def _refuse_star(parameter: Parameter, owner: str) -> None:
    name = parameter.name
    if parameter.kind not in STARS:
        return
    from inspect import formatannotation

    annotation = "str" if parameter.annotation is NOTHING else parameter.annotation
    item = annotation if isinstance(annotation, str) else formatannotation(annotation)
    if parameter.kind == VAR_POSITIONAL:
        raise TypeError(
            f"{owner} takes *{name}: name each parameter, or take one list: {name}: list[{item}]"
        )
    raise TypeError(
        f"{owner} takes **{name}: name each parameter, or take one dict: {name}: dict[str, {item}]"
    )


def _scope_of(function: Any, plain: Any) -> Scope:
    """Return the names for annotations of a function: of its module, its class and enclosing
    functions."""
    names = dict(plain.__globals__)
    instance = getattr(function, "__self__", None)
    for cls in () if instance is None else reversed(type(instance).__mro__):
        names.update((name, part) for name, part in vars(cls).items() if isinstance(part, type))
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or ()):
        with suppress(ValueError):  # the variable is not assigned yet
            names[name] = cell.cell_contents
    names.update((each.__name__, each) for each in getattr(plain, "__type_params__", ()))
    return Scope(names)


def _plain_type(annotation: Any, scope: Scope) -> Any:
    """Return the type in an annotation, without `Annotated` and aliases."""
    annotation = scope.resolve(annotation)
    while True:
        if hasattr(annotation, "__metadata__"):
            annotation = scope.resolve(annotation.__origin__)
        elif hasattr(annotation, "__value__") and not hasattr(annotation, "__origin__"):
            annotation = scope.resolve(annotation.__value__)  # the statement ``type X = ...``
        else:
            return annotation


def _is_context(annotation: Any, context_type: str, scope: Scope) -> bool:
    """Return whether an annotation is the context's class, or Optional of it.

    Raises:
        TypeError: It is the context of another copy of this package, which no request provides.
    """
    if type(annotation) is type and annotation.__module__ == "builtins":
        return False  # most annotations, which need no more work
    annotation = _plain_type(annotation, scope)
    members = typing.get_args(annotation) if is_union(annotation) else (annotation,)
    classes = [_plain_type(each, scope) for each in members]
    classes = [each for each in classes if each is not NONE_TYPE]
    if len(classes) != 1 or not isinstance(classes[0], type):
        return False
    names = [f"{each.__module__}.{each.__name__}" for each in classes[0].__mro__]
    if context_type in names:
        return True
    package, *tail = context_type.rsplit(".", 3)
    other, *found = names[0].rsplit(".", 3)
    if found == tail:
        raise TypeError(
            f"this {tail[-1]} is from {other}, but the server is from {package}: import both from "
            "the same package"
        )
    return False
