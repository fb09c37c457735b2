"""Completers: what suggests values for the arguments of a prompt or the variables of a template.

https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from ..schema.mismatch import nearest
from ..types import Completion
from .registered import TextHandler, positions, where
from .texts import choices_of

MOST_VALUES = 100
"""Suggestions that one answer may hold."""

Given = Union[Sequence[str], Callable[..., Any]]
"""What an author says completes an argument: the values, or a function of the text typed so far."""

Completer = Callable[[str, Mapping[str, str]], Completion]
"""From the text typed so far, and the arguments chosen already, to suggestions that may be sent."""

Completers = Mapping[str, Optional[Completer]]
"""For every argument; None where nothing completes it."""


def read_completers(handler: TextHandler, complete: Optional[Mapping[str, Given]]) -> Completers:
    """The completers of a handler: those that were given, and those of the types that name all their values.

    In the class of the handler's object a completer is a method as the handler is, and is called on that object.

    Raises:
        TypeError: What was given for an argument is neither values nor a function; the message says which.
        ValueError: Something was given for an argument that there is not.
    """
    given = dict(complete or {})
    completers: dict[str, Optional[Completer]] = {}
    for parameter in handler.signature.parameters:
        values = given.pop(parameter.name, None)
        if values is None:
            values = choices_of(parameter.kind.schema)
        owner = f"{handler.owner}: the completer of {parameter.name!r}"
        completers[parameter.name] = None if values is None else _completer(_bound(values, handler), owner)
    if given:
        name = next(iter(given))
        near = nearest(str(name), completers)
        hint = f": did you mean {near!r}?" if near else ""
        raise ValueError(f"{handler.owner}: complete= speaks of {name!r}, which is no argument of it{hint}")
    return completers


def _bound(given: Any, handler: TextHandler) -> Any:
    """What was given; of the object whose method the handler is, where its class defines it under a name."""
    instance = getattr(handler.function, "__self__", None)
    for kind in type(instance).__mro__:
        for name, member in vars(kind).items():
            if member is given and not isinstance(given, (list, tuple)):
                return getattr(instance, name)
    return given


def _completer(given: Given, owner: str) -> Completer:
    if callable(given):
        return _from_function(given, owner)
    if not isinstance(given, (list, tuple)) or not all(isinstance(value, str) for value in given):
        raise TypeError(f"{owner} is a list of strings or a function, not {given!r}")
    values = tuple(given)
    return lambda text, arguments: fit([value for value in values if value.startswith(text)], owner)


def _from_function(function: Callable[..., Any], owner: str) -> Completer:
    code = None if hasattr(function, "__func__") else getattr(function, "__code__", None)
    if code is not None and code.co_varnames[:code.co_argcount][:1] == ("self",):
        raise TypeError(
            f"{owner}, {where(function)}, begins with self, and no object is known for it: give the method of an "
            "object, or in a class a method of the same class by its name, beside the handler"
        )
    takes_arguments = positions(function, owner, ("value", "arguments"), least=1) == 2

    def complete(text: str, arguments: Mapping[str, str]) -> Completion:
        return fit(function(text, dict(arguments)) if takes_arguments else function(text), owner)

    return complete


def fit(found: Any, owner: str) -> Completion:
    """Suggestions cut to what one answer may hold.

    Raises:
        TypeError: These are none.
    """
    if isinstance(found, Completion):
        cut = len(found.values) > MOST_VALUES
        total = len(found.values) if cut and found.total is None else found.total
        return _checked(found.values[:MOST_VALUES], total, True if cut else found.has_more, owner, found)
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
        raise TypeError(f"{owner} returned {type(found).__name__}: return a list of strings, or a Completion")
    values = list(islice(found, MOST_VALUES + 1))
    more = len(values) > MOST_VALUES
    total = len(found) if hasattr(found, "__len__") else None if more else len(values)
    return _checked(values[:MOST_VALUES], total, more, owner)


def _checked(
    values: list[str], total: Optional[int], more: Optional[bool], owner: str, of: Optional[Completion] = None
) -> Completion:
    wrong = [value for value in values if not isinstance(value, str)]
    if wrong:
        raise TypeError(f"{owner} returned a value that is no string but {type(wrong[0]).__name__}")
    made = Completion(values, total, more)
    if of is not None:
        made.meta, made.extra = of.meta, of.extra
    return made
