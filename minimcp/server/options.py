"""Options of the decorators and of `Server`: their types, their checks, and marks on methods.

A mark is an attribute of a function that holds the decorator's arguments. It needs no base class
and no global registry. When an object is added to a server, its marked methods are registered as
with the decorators of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypedDict, TypeVar, Union, overload

from ..engine.limits import Limits, check_interval, check_number
from ..protocol.messages import Json
from ..protocol.versions import LISTS, REVISIONS
from ..schema.introspection import annotations_of
from ..schema.mismatch import nearest, own_signature, with_signature
from ..schema.signature import refuse_async_and_stars
from ..types.content import Annotations, Icon
from ..types.tool import ToolAnnotations
from .feature import OptionSpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..features.executors import ExecutorOption

F = TypeVar("F", bound=Callable[..., Any])

# The completions of an argument: the values, or a function of the text typed so far.
Given = Union[Sequence[str], Callable[..., Any]]


class _CommonOptions(TypedDict, total=False):
    name: Optional[str]
    title: Optional[str]
    description: Optional[str]
    icons: Optional[Sequence[Icon]]
    meta: Optional[Mapping[str, Json]]
    requires: Union[str, Sequence[str]]
    replace: bool


class PromptOptions(_CommonOptions, total=False):
    """The options of `Server.prompt`, which explains them."""

    scopes: Union[Sequence[str], Callable[..., Sequence[str]]]
    visible: Optional[Callable[[Any], bool]]
    complete: Optional[Mapping[str, Given]]


class ResourceOptions(PromptOptions, total=False):
    """The options of `Server.resource`, which explains them."""

    mime_type: Optional[str]
    size: Optional[int]
    annotations: Optional[Union[Annotations, Mapping[str, Json]]]
    ttl: float
    cache_scope: str


class AppOptions(_CommonOptions, total=False):
    """The options of `Server.app`, which explains them."""

    csp: Optional[Mapping[str, Sequence[str]]]
    permissions: Sequence[str]
    border: Optional[bool]
    domain: Optional[str]
    ttl: float
    cache_scope: str


class ToolOptions(_CommonOptions, total=False):
    """The options of `Server.tool`, which explains them."""

    annotations: Optional[Union[ToolAnnotations, Mapping[str, Json]]]
    input_schema: Optional[Mapping[str, Json]]
    output_schema: Optional[Mapping[str, Json]]
    structured: Optional[bool]
    timeout: Optional[float]
    executor: ExecutorOption
    headers: Optional[Mapping[str, str]]
    scopes: Union[Sequence[str], Callable[..., Sequence[str]]]
    visible: Optional[Callable[[Any], bool]]
    heartbeat: Optional[float]
    max_result: Optional[int]
    task: Optional[str]
    ui: Optional[str]
    visibility: Union[str, Sequence[str], None]


# The defaults of options, where they are not None.
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("requires", "scopes", "permissions"), ()),
    "replace": False,
    "ttl": 0,
    "cache_scope": "private",
}


def with_option_signature(kind: str) -> Callable[[F], F]:
    """Make `help` show the options of a function that passes them on, with types and defaults.

    The options are declared once, in the classes above. Type checkers read them there.
    """

    def decorate(function: F) -> F:
        return with_signature(function, partial(_with_options, function, kind))

    return decorate


def _with_options(function: Callable[..., Any], kind: str) -> Any:
    from inspect import Parameter, Signature

    own = own_signature(function).parameters.values()
    own = [each for each in own if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    if not {"uri", "function"}.intersection(each.name for each in own):
        own.append(Parameter("function", Parameter.POSITIONAL_OR_KEYWORD, default=None))
    for name, given in annotations_of(OPTIONS[kind]).items():
        annotation = getattr(given, "__forward_arg__", given)
        default = _DEFAULTS.get(name)
        own.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return Signature(own)


Options = Union[ToolOptions, ResourceOptions, PromptOptions, AppOptions]
OPTIONS: Mapping[str, Any] = {
    "tool": ToolOptions,
    "resource": ResourceOptions,
    "prompt": PromptOptions,
    "app": AppOptions,
}


def source_location(function: Any) -> str:
    """Return the name, file and line of a function, for messages."""
    if isinstance(function, partial):
        return f"a partial of {source_location(function.func)}"
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    owner = getattr(function, "__self__", None)
    if code is not None and owner is not None and not isinstance(owner, type):
        name = f"{type(owner).__qualname__}.{function.__name__}"
    if code is None:
        return str(name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


# ------------------------------------------------------------ checks


def handler_name(function: Any, name: Any, kind: str) -> str:
    """Return the given name, or the function's own name.

    Raises:
        TypeError: The function has no name.
        ValueError: The given name is empty.
    """
    if name == "":
        raise ValueError(f"the name of a {kind} must not be empty")
    found: str = getattr(function, "__name__", "") if name is None else name
    if found in ("", "<lambda>"):
        what = "a lambda" if found else f"a {type(function).__name__}"
        raise TypeError(f"{what} has no name: give the {kind} a name=...")
    return found


def check_names(
    given: Iterable[Any],
    known: Iterable[str],
    problem: str,
    shape: str = "{!r}",
    error: type[Exception] = TypeError,
) -> None:
    """Reject unknown names.

    Args:
        given: The names.
        known: The known names.
        problem: The beginning of the message: "tool 'x': no annotation is called".
        shape: The format of a name in the message.
        error: The class of the exception.

    Raises:
        Exception: A name is unknown. The message suggests a similar name, or lists all known names.
    """
    names = list(known)
    for name in given:
        if name in names:
            continue
        near = nearest(str(name), names)
        hint = f"expected one of {', '.join(names)}" if names else "there are none"
        if near:
            hint = f"did you mean {shape.format(near)}?"
        raise error(f"{problem} {shape.format(name)}: {hint}")


NONE = type(None)

FLAG = OptionSpec((bool,), "True or False")
OPTIONAL_FLAG = OptionSpec((bool, NONE), "True, False or None")
OPTIONAL_TEXT = OptionSpec((str, NONE), "text or None")


def _check_scope(label: str, value: Any) -> None:
    if value not in ("private", "public"):
        raise ValueError(f'{label} must be "private" or "public", not {value!r}')


def _check_lists(label: str, value: Any) -> None:
    if value not in ("all", "usable"):
        raise ValueError(f'{label} must be "all" or "usable", not {value!r:.60}')


def _check_store(label: str, value: Any) -> None:
    if value is None:
        return
    from ..stores.base import Store  # not at the top: a server without a store does not need it

    if not isinstance(value, Store):
        stores = "a MemoryStore(), a SqliteStore(path), a RedisStore(url) or None"
        raise TypeError(f"{label} must be {stores}, not {repr(value):.60}")


TTL = OptionSpec(check=partial(check_number, whole=False, optional=False))
CACHE_SCOPE = OptionSpec(check=_check_scope)

# The options of all decorators that register a function. The wire objects check the options that
# have no check here.
COMMON_OPTIONS: Mapping[str, OptionSpec] = {
    "name": OptionSpec(),
    "title": OptionSpec(),
    "description": OptionSpec(),
    "icons": OptionSpec(),
    "meta": OptionSpec(),
    "requires": OptionSpec((Iterable,), "the name of a capability, or a list of names"),
    "replace": FLAG,
}

# The options of `Server` that are checked here and not where they are used.
SERVER_OPTIONS: Mapping[str, OptionSpec] = {
    "instructions": OPTIONAL_TEXT,
    "capabilities": OptionSpec((Iterable, NONE), "a list of kinds, a mapping or None"),
    "extensions": OptionSpec(
        (Mapping, list, tuple, NONE), "a list of extensions, a mapping or None"
    ),
    "revisions": OptionSpec((list, tuple, set, frozenset, str, NONE), "a list of names or None"),
    "strict_version": FLAG,
    "strict_arguments": FLAG,
    "strict_schemas": FLAG,
    "accept_batches": FLAG,
    "page_size": OptionSpec(check=partial(check_number, least=1)),
    "list_ttl": TTL,
    "list_cache_scope": CACHE_SCOPE,
    "mask_errors": FLAG,
    "logging": FLAG,
    "check_replay": FLAG,
    "state_keys": OptionSpec((list, tuple, str, bytes, NONE), "a list of keys or None"),
    "store": OptionSpec(check=_check_store),
    "ping_interval": OptionSpec(check=check_interval),
    "lists": OptionSpec(check=_check_lists),
    "limits": OptionSpec((Limits, NONE), "a Limits(...) or None"),
}


def check_options(
    options: Mapping[str, Any], specs: Mapping[str, OptionSpec], owner: str = ""
) -> None:
    """Reject the first option whose value is not accepted.

    Args:
        options: The values by name. Names that are not in `specs` are ignored.
        specs: The known options.
        owner: The beginning of messages: "tool 'forecast': ".

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    for name, value in options.items():
        spec = specs.get(name)
        if spec is None:
            continue
        label = f"{owner}{name}"
        if not isinstance(value, spec.types):
            raise TypeError(f"{label} must be {spec.what}, not {repr(value):.60}")
        if spec.check is not None:
            spec.check(label, value)


# The capabilities that clients of any revision may declare, by dotted names.
CAPABILITIES = sorted(
    {
        name
        for revision in REVISIONS
        for whole, parts in revision.client_capabilities.items()
        for name in (whole, *(f"{whole}.{part}" for part in parts))
    }
)

# Capabilities with members of any name, such as ``experimental.x``.
OPEN_CAPABILITIES = ("tasks", "experimental")


def required(options: Mapping[str, Any], owner: str) -> tuple[str, ...]:
    """Return the client capabilities that ``requires=`` names. It may be one name or a list.

    Raises:
        TypeError: A name is not a str.
        ValueError: Clients cannot declare the capability, or the text after ``ext:`` is not the
            identifier of an extension.
    """
    given = options.get("requires", ())
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"{owner}: requires must contain names of capabilities, not {name!r:.60}"
            )
        if name.startswith("ext:"):
            from ..types.meta import check_identifier

            check_identifier(name[4:], owner)
        elif name.partition(".")[0] not in OPEN_CAPABILITIES or "" in name.split("."):
            members = [f"{each}.<name>" for each in OPEN_CAPABILITIES]
            known = (*CAPABILITIES, *OPEN_CAPABILITIES, *members, "ext:<identifier>")
            check_names([name], known, f"{owner}: clients cannot declare", error=ValueError)
    return names


def count_positional(function: Any, owner: str, names: Sequence[str], *, least: int) -> int:
    """Return how many positional arguments a function accepts.

    Args:
        function: The author's function.
        owner: The name of the option, for messages.
        names: The arguments that the library can pass, in order.
        least: How many of them the function must accept.

    Raises:
        TypeError: The function is async, a generator, not a Python function, or needs other
            arguments.
    """
    called = function
    if not hasattr(function, "__code__") and not hasattr(function, "__func__"):
        called = type(function).__call__
    import inspect

    refuse_async_and_stars(called, owner)
    if not inspect.isfunction(inspect.unwrap(getattr(called, "__func__", called))):
        raise TypeError(
            f"{owner} must be a Python function, not {function!r}: write a def that calls it"
        )
    signature = inspect.signature(function, follow_wrapped=False)
    if any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
        signature = inspect.signature(function)  # of the function that a wrapper calls
    for count in range(len(names), least - 1, -1):
        with suppress(TypeError):
            signature.bind(*names[:count])
            return count
    ways = " or ".join(f"({', '.join(names[:count])})" for count in range(least, len(names) + 1))
    raise TypeError(f"{owner}, {source_location(function)}, must take {ways}")


A = TypeVar("A", Annotations, ToolAnnotations)


def annotated(
    given: Union[A, Mapping[str, Json], None], cls: type[A], example: str, owner: str
) -> Optional[A]:
    """Return the annotations that an author gave, as an object or a mapping of its arguments.

    Args:
        given: The value of ``annotations=``.
        cls: The class of the annotations.
        example: A valid mapping, for messages.
        owner: The name of the annotated entry, for messages.

    Raises:
        TypeError: The value or an annotation has the wrong type, or a name is unknown.
    """
    if given is None or isinstance(given, cls):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{owner}: annotations must be a mapping such as {example}, not {given!r:.60}"
        )
    from inspect import signature

    check_names(given, signature(cls).parameters, f"{owner}: there is no annotation")
    return cls(**given)


# ------------------------------------------------------------ marks

# The attribute; it holds a tuple, because one function may be a tool and a resource.
MARKS = "__minimcp_marks__"


class Mark(NamedTuple):
    """The arguments of one decorator on a method, and its kind ("tool", "resource", "method",
    ...)."""

    kind: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


def decorated(
    register: Callable[..., Any], decorator: str, given: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Apply a decorator that may be written with or without arguments.

    Args:
        register: Receives the function and the options.
        decorator: The decorator as the author writes it, for messages: "server.tool".
        given: The positional arguments: the function, or nothing if options are given first.
        options: The keyword arguments.
    """
    if not given:
        return lambda function: decorated(register, decorator, (function,), options)
    function, *others = given
    for name in [function] if isinstance(function, str) else others:
        raise TypeError(f"{decorator}({name!r:.60}): did you mean name={name!r:.60}?")
    register(function, **options)
    return function


# The first argument of the other decorators, with an example.
_FIRST = {
    "resource": ("URI", "notes://all"),
    "app": ("URI", "ui://sales/chart"),
    "method": ("name", "vendor/thing"),
    "notification": ("name", "notifications/vendor/thing"),
}


def named(
    name: str,
    first: str,
    register: Callable[..., Any],
    given: Sequence[Any] = (),
    options: Optional[Mapping[str, Any]] = None,
) -> Callable[[F], F]:
    """Return a decorator whose first argument is a URI or a name. See `decorated` for the
    arguments.

    Raises:
        TypeError: The first argument is not a str.
    """
    what, example = _FIRST[name.partition(".")[2]]
    if not isinstance(first, str):
        raise TypeError(f'the {what} comes first: @{name}("{example}")')
    decorator: Callable[[F], F] = decorated(register, name, given, options or {})
    return decorator


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
@with_option_signature("tool")
def tool(*given: Any, **options: Any) -> Any:
    """Mark a method as a tool: ``@minimcp.tool`` or ``@minimcp.tool(name="add", ...)``.

    Args:
        function: The method. It is returned unchanged.
        options: The options of `Server.tool`. They are checked when an object is added to a server.

    Raises:
        TypeError: The argument is not a function.
    """
    return decorated(partial(_mark, "tool", ()), "minimcp.tool", given, options)


@with_option_signature("resource")
def resource(uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a method as a resource or a template: ``@minimcp.resource("notes://{number}")``.

    Args:
        uri: The URI or URI template.
        options: The options of `Server.resource`. They are checked when an object is added to a
            server.

    Raises:
        TypeError: The URI is missing.
    """
    return named("minimcp.resource", uri, partial(_mark, "resource", (uri,)), options=options)


@with_option_signature("app")
def app(uri: str, **options: Unpack[AppOptions]) -> Callable[[F], F]:
    """Mark a method as an HTML page: ``@minimcp.app("ui://sales/chart")``.

    Define it above the tools that show the page.

    Args:
        uri: The URI of the page.
        options: The options of `Server.app`. They are checked when an object is added to a server.

    Raises:
        TypeError: The URI is missing.
    """
    return named("minimcp.app", uri, partial(_mark, "app", (uri,)), options=options)


@overload
def prompt(function: F, /) -> F: ...
@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
@with_option_signature("prompt")
def prompt(*given: Any, **options: Any) -> Any:
    """Mark a method as a prompt: ``@minimcp.prompt`` or ``@minimcp.prompt(name="plan", ...)``.

    Args:
        function: The method. It is returned unchanged.
        options: The options of `Server.prompt`. They are checked when an object is added to a
            server.

    Raises:
        TypeError: The argument is not a function.
    """
    return decorated(partial(_mark, "prompt", ()), "minimcp.prompt", given, options)


def method(name: str) -> Callable[[F], F]:
    """Mark a method of an `Extension` or of a plain class as a custom method: "vendor/thing".

    Args:
        name: The method's name in requests, as for `Server.method`.

    Raises:
        TypeError: The name is not a str.
    """
    return named("minimcp.method", name, partial(_mark, "method", (name,)))


def notification(name: str) -> Callable[[F], F]:
    """Mark a method of an `Extension` as the handler of a notification:
    "notifications/vendor/thing".

    Args:
        name: The method's name in notifications.

    Raises:
        TypeError: The name is not a str.
        ValueError: The name belongs to the specification.
    """
    if name in OWN_NOTIFICATIONS:
        raise ValueError(
            f"{name!r} belongs to the protocol: write a name like 'notifications/vendor/thing'"
        )
    return named("minimcp.notification", name, partial(_mark, "notification", (name,)))


# The notifications that the library handles itself.
OWN_NOTIFICATIONS = frozenset(
    f"notifications/{name}"
    for name in (
        "initialized",
        "cancelled",
        "progress",
        "message",
        "elicitation/complete",
        "subscriptions/acknowledged",
        "resources/updated",
        "roots/list_changed",
        *(f"{kind}/list_changed" for kind in LISTS),
    )
)


def _mark(kind: str, arguments: tuple[str, ...], function: Any, /, **options: Any) -> None:
    target = _plain(function)
    if not callable(target) or isinstance(target, type):
        raise TypeError(
            f"minimcp.{kind} must mark a function or a method, not {type(function).__name__}"
        )
    setattr(target, MARKS, (*getattr(target, MARKS, ()), Mark(kind, arguments, options)))


def _plain(member: Any) -> Any:
    """Return the function in a static or class method, or any other object unchanged."""
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def has_marks(kind: type) -> bool:
    """Return whether any method of a class or of its bases is marked."""
    return any(
        MARKS in getattr(_plain(each), "__dict__", ())
        for one in kind.__mro__
        for each in vars(one).values()
    )


def marked(handlers: Any) -> Iterator[tuple[Callable[..., Any], Mark]]:
    """Return the marked methods of an object, see `marks_of`.

    Raises:
        TypeError: The object is a class.
        ValueError: The object has no marked methods.
    """
    if isinstance(handlers, type):
        raise TypeError(
            f"{handlers.__name__} is a class: pass an instance of it, {handlers.__name__}()"
        )
    if hasattr(handlers, "__code__") or hasattr(handlers, "__func__"):
        raise TypeError(
            f"{handlers.__qualname__} is a function, not an object with marked methods: use "
            "server.tool"
        )
    found = marks_of(handlers)
    if not found:
        raise ValueError(
            f"no method of {type(handlers).__name__} is marked: write @minimcp.tool, "
            "@minimcp.resource(...) or @minimcp.prompt above the methods that clients may call"
        )
    yield from found


def marks_of(handlers: Any) -> list[tuple[Callable[..., Any], Mark]]:
    """Return the marked methods of an object in the order of definition, base classes first.

    Marks are read from the class, so no property is evaluated. A method that overrides a marked one
    has its marks, unless it has its own.
    """
    marks: dict[str, Sequence[Mark]] = {}
    for kind in reversed(type(handlers).__mro__):
        for name, member in vars(kind).items():
            own = None
            if not isinstance(member, property):
                own = getattr(_plain(member), MARKS, None)
            if own is not None:
                marks[name] = own
            elif name in marks and not callable(_plain(member)):
                del marks[name]  # the subclass has replaced the method with a value
    return [(getattr(handlers, name), mark) for name, each in marks.items() for mark in each]
