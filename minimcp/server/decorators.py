"""Marks: what makes a method of a plain class a tool, a resource or a prompt of any server.

A mark is an attribute on the function and nothing else: no base class, no registry at import. It says what the
decorators of the same names on a `Server` say, and is acted on when an object of the class is added to one.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

MARKS = "__minimcp_marks__"
"""The attribute; it holds a tuple, because one function may be a tool and a resource."""


class Mark(NamedTuple):
    """What one decorator said: which one it was, and its arguments."""

    kind: str
    """ "tool", "resource" or "prompt"."""
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class Marked(NamedTuple):
    """A method that was marked, of one object."""

    function: Callable[..., Any]
    mark: Mark


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Any) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Mark a method as a tool: ``@minimcp.tool`` or ``@minimcp.tool(name="add", ...)``.

    Args:
        function: The method; it is returned as it is.
        options: Those of `Server.tool`; they are checked when an object is added to a server.

    Raises:
        TypeError: This is no function.
    """
    return _marking("tool", function, options)


def resource(uri: str, **options: Any) -> Callable[[F], F]:
    """Mark a method as a resource, or as a template of them: ``@minimcp.resource("notes://{number}")``.

    Args:
        uri: The URI, or the template.
        options: Those of `Server.resource`; they are checked when an object is added to a server.

    Raises:
        TypeError: The URI is missing.
    """
    if not isinstance(uri, str):
        raise TypeError('the URI comes first: @minimcp.resource("notes://all")')
    return lambda function: _mark(function, Mark("resource", (uri,), options))


@overload
def prompt(function: F, /) -> F: ...
@overload
def prompt(**options: Any) -> Callable[[F], F]: ...
def prompt(function: Any = None, /, **options: Any) -> Any:
    """Mark a method as a prompt. Arguments and errors as `tool`, with the options of `Server.prompt`."""
    return _marking("prompt", function, options)


def _marking(kind: str, function: Any, options: Mapping[str, Any]) -> Any:
    if function is None:
        return lambda decorated: _mark(decorated, Mark(kind, (), options))
    if isinstance(function, str):
        raise TypeError(f"minimcp.{kind}({function!r}): did you mean name={function!r}?")
    return _mark(function, Mark(kind, (), options))


def _mark(function: Any, mark: Mark) -> Any:
    """The function, with one more mark."""
    target = plain(function)
    if not callable(target) or isinstance(target, type):
        raise TypeError(f"minimcp.{mark.kind} marks a function or a method, not {type(function).__name__}")
    setattr(target, MARKS, (*getattr(target, MARKS, ()), mark))
    return function


def plain(member: Any) -> Any:
    """The function in a static or class method; anything else is returned as it is."""
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def has_marks(kind: type) -> bool:
    """Whether any method of a class, or of one below it, was marked."""
    return any(MARKS in getattr(plain(each), "__dict__", ()) for one in kind.__mro__ for each in vars(one).values())


def marked(handlers: Any) -> Iterator[Marked]:
    """The marked methods of an object, in the order in which its classes define them, the base classes first.

    They are found on the class, so no property is evaluated; a method that overrides a marked one has its marks, unless
    it has its own.

    Args:
        handlers: The object.

    Raises:
        TypeError: It is a class.
        ValueError: None of its methods is marked.
    """
    if isinstance(handlers, type):
        raise TypeError(f"{handlers.__name__} is a class: give an instance of it, {handlers.__name__}()")
    if hasattr(handlers, "__code__") or hasattr(handlers, "__func__"):
        raise TypeError(f"{handlers.__qualname__} is a function, not an object with marked methods: use server.tool")
    if hasattr(handlers, "open_pipe"):
        raise TypeError(f"{type(handlers).__name__} is a server itself: run it, or mount it on another")
    marks: dict[str, Sequence[Mark]] = {}
    for kind in reversed(type(handlers).__mro__):
        for name, member in vars(kind).items():
            own = getattr(plain(member), MARKS, None) if not isinstance(member, property) else None
            if own is not None:
                marks[name] = own
            elif name in marks and not callable(plain(member)):
                del marks[name]  # the subclass has put something else into its place
    if not marks:
        raise ValueError(
            f"no method of {type(handlers).__name__} is marked: write @minimcp.tool, @minimcp.resource(...) or "
            "@minimcp.prompt above those that clients may call"
        )
    for name, each in marks.items():
        function = getattr(handlers, name)
        yield from (Marked(function, mark) for mark in each)
