"""A Python function as a tool sees it: the schema of its arguments, how they are read, and how its
result is written.

Read once, when the function is registered.
"""

from __future__ import annotations

import inspect
import typing
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Iterator, Optional

from .annotations import Builder, ContentClass, kind_of
from .introspection import HIDEABLE, Scope, hidden_by, is_union, read_docstring, signature_of
from .kinds import NONE_TYPE, Convert, Field, Kind, record_reader, record_schema
from .mismatch import NOTHING, Mismatch


@dataclass(eq=False, repr=False)
class Signature:
    """What `read_signature` finds. Immutable by convention, thread-safe.

    Args:
        parameters: The parameters that are arguments, in order, without the context.
        context_parameter: The name of the parameter that takes the context; None when there is
            none.
        input_schema: The JSON Schema of the arguments.
        output_kind: The kind of the result; None without a return annotation, and where it is made
            of content classes.
        returns: The return annotation, resolved; `NOTHING` when there is none.
        description: The docstring without its sections, empty when there is none.
        doubts: What is probably not meant as it is written.
    """

    parameters: list[Field]
    context_parameter: Optional[str]
    input_schema: dict[str, Any]
    output_kind: Optional[Kind]
    returns: Any
    description: str
    doubts: list[str]

    @cached_property
    def _read(self) -> Convert:  # a tool that is only listed needs none
        return record_reader(self.parameters, dict)

    def read_arguments(self, arguments: Any) -> dict[str, Any]:
        """The keyword arguments for the call, converted; what was not sent is left to the
        function's defaults.

        Args:
            arguments: The decoded object that the caller sent.

        Raises:
            Mismatch: They do not fit; the message names the field, what was expected and what came.
        """
        try:
            return self._read(arguments)  # type: ignore[no-any-return]
        except RecursionError:
            raise Mismatch("", arguments, instead="the arguments nest too deep") from None


def read_signature(
    function: Any,
    *,
    context_type: type,
    owner: str,
    content_types: tuple[type, ...] = (),
    alone_types: tuple[type, ...] = (),
) -> Signature:
    """The signature of a function or bound method.

    Args:
        function: What will be called.
        context_type: The class whose parameter is injected and no argument.
        owner: What messages call it: "tool 'forecast'".
        content_types: Classes that are sent as they are: a result made of them (alone, in a list, a
            tuple, a Union or an Optional, with str beside them) has no output kind.
        alone_types: Those of them that cannot stand in a list.

    Raises:
        TypeError: It cannot be a handler as it is written; the message says what to write instead.
    """
    plain = _plain_function(function, owner)
    written, scope = signature_of(plain), _scope_of(function, plain)
    description, texts = read_docstring(function.__doc__)
    builder = Builder()
    parameters: list[Field] = []
    contexts: list[str] = []
    doubts: list[str] = []
    bound = int(hasattr(function, "__self__"))
    for name, each in list(written.parameters.items())[bound:]:
        _refuse_parameter(each, owner, first=not parameters)
        default = NOTHING if each.default is each.empty else each.default
        with _errors_at(f"{owner}: parameter {name!r}"):
            annotation = scope.resolve(each.annotation)
            if _is_context(annotation, context_type, scope):
                contexts.append(name)
                continue
            kind = builder.field(
                annotation, scope, default=default, description=texts.get(name, "")
            )
        parameters.append(Field(name, default is NOTHING, kind))
        if isinstance(default, (str, int, list, dict, tuple)) and "default" not in kind.schema:
            doubts.append(f"has the default {name}={default!r:.60}, and takes {kind.label} there")
    if len(contexts) > 1:
        raise TypeError(
            f"{owner}: two parameters take the context, {contexts[0]!r} and {contexts[1]!r}: keep one"
        )
    known = [*(each.name for each in parameters), *contexts]
    doubts += [
        f"has no parameter {name!r}, of which its docstring tells (there is {', '.join(known) or 'none'})"
        for name in texts
        if name not in known
    ]
    if plain.__qualname__ in HIDEABLE:
        doubts.append(f"needs another name: {hidden_by(plain.__name__)}")
    schema = builder.complete(record_schema(parameters))
    returns, output_kind = NOTHING, None
    if written.return_annotation is not written.empty:
        with _errors_at(f"{owner}: the return type"):
            returns = scope.resolve(written.return_annotation)
            try:
                output_kind = kind_of(returns, scope=scope, writing=True, content=content_types)
            except ContentClass as error:
                if error.in_list and issubclass(error.cls, alone_types):
                    raise TypeError(f"a list cannot hold {error.cls.__name__}: {error}") from error
    return Signature(
        parameters,
        contexts[0] if contexts else None,
        schema,
        output_kind,
        returns,
        description,
        doubts,
    )


@contextmanager
def _errors_at(where: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{where}: {error}") from None


# ------------------------------------------------------------ functions


def _plain_function(function: Any, owner: str) -> Any:
    """The function that a bound method and wrappers made with `functools.wraps` stand for.

    Raises:
        TypeError: What is called is no such function.
    """
    if isinstance(function, type):
        raise TypeError(f"{owner} is a class: pass a function, or a method of an instance")
    refuse_async_and_stars(function, owner)
    plain = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(plain):
        raise TypeError(f"{owner} is no Python function: write a def that calls it")
    refuse_async_and_stars(plain, owner)
    return plain


def _refuse_parameter(parameter: inspect.Parameter, owner: str, *, first: bool) -> None:
    """Refuse a parameter that no argument could be for, or of which nobody can tell what it takes."""
    name, annotated = parameter.name, parameter.annotation is not parameter.empty
    if name == "self" and first and not annotated:
        raise TypeError(
            f"{owner} takes self, so it is a method and needs an object: mark it with @minimcp.tool (or resource, "
            "or prompt) and add an object of its class, or register the method of an object"
        )
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise TypeError(
            f"{owner} has positional-only parameters ({name!r}): arguments come by name, remove the '/'"
        )
    where = f"{owner}: parameter {name!r}"
    if not annotated:
        likely = f"{name}: {'Context' if name in ('ctx', 'context') else 'str'}"
        way = (
            "a lambda cannot have one: write def add("
            if "<lambda>" in owner
            else "give it a type, such as "
        )
        raise TypeError(f"{where} has no annotation: {way}{likely}{')' if '(' in way else ''}")
    if (
        type(parameter.default).__module__ == "pydantic.fields"
    ):  # a description for pydantic, which nobody reads here
        raise TypeError(
            f"{where}: a Field is no default: write {name}: Annotated[<type>, Field(...)] = <default>"
        )


def refuse_async(function: Any, owner: str) -> None:
    """Refuse a function whose call runs nothing and only makes something to await.

    Raises:
        TypeError: It is async; the message says what to write instead.
    """
    flags = getattr(
        getattr(getattr(function, "__func__", function), "__code__", None), "co_flags", 0
    )
    if flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise TypeError(f"{owner} is async: write a plain def; it runs on a thread and may block")


def refuse_async_and_stars(function: Any, owner: str) -> None:
    """Refuse what is called otherwise than a plain function.

    Raises:
        TypeError: It is async, a generator, or takes any number of arguments; the message says what
            to write instead.
    """
    refuse_async(function, owner)
    if inspect.isgeneratorfunction(function):
        what = "is a generator: return a list, and report what happens meanwhile with ctx.progress"
        raise TypeError(f"{owner} {what}")
    plain = getattr(function, "__func__", function)
    if not inspect.isfunction(plain) or hasattr(
        plain, "__wrapped__"
    ):  # a wrapper takes and passes on anything
        return
    for name, each in signature_of(plain).parameters.items():
        said = "str" if each.annotation is each.empty else each.annotation
        item = said if isinstance(said, str) else inspect.formatannotation(said)
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(
                f"{owner} takes *{name}: name each parameter, or take one list: {name}: list[{item}]"
            )
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeError(
                f"{owner} takes **{name}: name each parameter, or take one dict: {name}: dict[str, {item}]"
            )


def _scope_of(function: Any, plain: Any) -> Scope:
    """Names in annotations of a function: its module's, its class's, and those of enclosing
    functions that it uses."""
    names = dict(plain.__globals__)
    for cls in reversed(type(getattr(function, "__self__", None)).__mro__):
        names.update((name, part) for name, part in vars(cls).items() if isinstance(part, type))
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or ()):
        with suppress(ValueError):  # it is assigned later
            names[name] = cell.cell_contents
    names.update((each.__name__, each) for each in getattr(plain, "__type_params__", ()))
    return Scope(names)


def _is_context(annotation: Any, context_type: type, scope: Scope) -> bool:
    """Whether it is the context's class, or Optional.

    Raises:
        TypeError: It is the context of another copy of this package: no request will ever bring
            one.
    """
    members = typing.get_args(annotation) if is_union(annotation) else (annotation,)
    classes = [each for each in map(scope.resolve, members) if each is not NONE_TYPE]
    if len(classes) != 1 or not isinstance(classes[0], type):
        return False
    cls, own = classes[0], context_type.__module__.split(".")
    tail = "." + ".".join(own[-2:])
    if (
        not issubclass(cls, context_type)
        and cls.__name__ == context_type.__name__
        and cls.__module__.endswith(tail)
    ):
        what = f"this {cls.__name__} is from {cls.__module__[: -len(tail)]}, and the server from {'.'.join(own[:-2])}"
        raise TypeError(f"{what}: import both from one")
    return issubclass(cls, context_type)
