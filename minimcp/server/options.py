"""What an author says of a tool, a resource or a prompt: the options, how they are checked, and
marks on methods.

A mark is an attribute on a function and nothing else: no base class, no registry at import. It says
what the decorators of the same names on a `Server` say, and is acted on when an object of the class
is added to one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypedDict, TypeVar, Union, overload

from ..engine.limits import Limits, check_interval, check_number
from ..protocol.messages import Json
from ..protocol.versions import LISTS, REVISIONS
from ..schema.introspection import annotations_of
from ..schema.mismatch import nearest
from ..schema.signature import refuse_async_and_stars
from ..types.content import Annotations, Icon
from ..types.meta import check_identifier
from ..types.tool import ToolAnnotations
from .feature import OptionSpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..features.executors import ExecutorOption

F = TypeVar("F", bound=Callable[..., Any])

# What an author says completes an argument: the values, or a function of the text typed so far.
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
    """Options of `Server.prompt`, which explains them."""

    complete: Optional[Mapping[str, Given]]


class ResourceOptions(PromptOptions, total=False):
    """Options of `Server.resource`, which explains them."""

    mime_type: Optional[str]
    size: Optional[int]
    annotations: Optional[Union[Annotations, Mapping[str, Json]]]
    ttl: float
    cache_scope: str


class AppOptions(_CommonOptions, total=False):
    """Options of `Server.app`, which explains them."""

    csp: Optional[Mapping[str, Sequence[str]]]
    permissions: Sequence[str]
    border: Optional[bool]
    domain: Optional[str]
    ttl: float
    cache_scope: str


class ToolOptions(_CommonOptions, total=False):
    """Options of `Server.tool`, which explains them."""

    annotations: Optional[Union[ToolAnnotations, Mapping[str, Json]]]
    input_schema: Optional[Mapping[str, Json]]
    output_schema: Optional[Mapping[str, Json]]
    structured: Optional[bool]
    timeout: Optional[float]
    executor: ExecutorOption
    headers: Optional[Mapping[str, str]]
    scopes: Sequence[str]
    task: Optional[str]
    ui: Optional[str]
    visibility: Union[str, Sequence[str], None]


# What an option is when it is left out, where that is not None.
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("requires", "scopes", "permissions"), ()),
    "replace": False,
    "ttl": 0,
    "cache_scope": "private",
}
_BY_NAME = inspect.Parameter.KEYWORD_ONLY


def with_option_signature(kind: str) -> Callable[[F], F]:
    """Have `help` show the options of a function that passes them on, each with its type and
    default.

    They are written once, in the classes above: type checkers read them there, and people here.
    """

    def decorate(function: F) -> F:
        own = list(inspect.signature(function).parameters.values())
        own = [each for each in own if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        if not {"uri", "function"}.intersection(each.name for each in own):
            own.append(
                inspect.Parameter("function", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            )
        for name, said in annotations_of(OPTIONS[kind]).items():
            said = getattr(said, "__forward_arg__", said)
            own.append(
                inspect.Parameter(name, _BY_NAME, default=_DEFAULTS.get(name), annotation=said)
            )
        function.__dict__["__signature__"] = inspect.Signature(own)
        return function

    return decorate


Options = Union[ToolOptions, ResourceOptions, PromptOptions, AppOptions]
OPTIONS: Mapping[str, Any] = {
    "tool": ToolOptions,
    "resource": ResourceOptions,
    "prompt": PromptOptions,
    "app": AppOptions,
}


def source_location(function: Any) -> str:
    """Where a function stands, for messages: its name (a method's with the class of its object),
    file and line."""
    if isinstance(function, partial):
        return f"a partial of {source_location(function.func)}"
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    owner = getattr(function, "__self__", None)
    if code is not None and owner is not None and not isinstance(owner, type):
        name = f"{type(owner).__qualname__}.{function.__name__}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else str(name)


# ------------------------------------------------------------ checks


def handler_name(function: Any, name: Any, kind: str) -> str:
    """The name that was given, or the function's own.

    Raises:
        TypeError: There is none.
        ValueError: It is empty.
    """
    if name == "":
        raise ValueError(f"the name of a {kind} is not empty")
    found: str = getattr(function, "__name__", "") if name is None else name
    if found in ("", "<lambda>"):
        what = "a lambda" if found else f"a {type(function).__name__}"
        raise TypeError(f"{what} has no name: say name=... of the {kind}")
    return found


def check_names(
    given: Iterable[Any],
    known: Iterable[str],
    problem: str,
    shape: str = "{!r}",
    error: type[Exception] = TypeError,
) -> None:
    """Refuse a name that is unknown.

    Args:
        given: The names.
        known: Those that there are.
        problem: The beginning of the message: "tool 'x': no annotation is called".
        shape: How a name is written in it.
        error: What is raised.

    Raises:
        Exception: One of them is unknown; the message says which was probably meant, or which there
            are.
    """
    names = list(known)
    for name in given:
        if name not in names:
            near = nearest(str(name), names)
            meant = (
                f"did you mean {shape.format(near)}?"
                if near
                else f"there is {', '.join(names) or 'none'}"
            )
            raise error(f"{problem} {shape.format(name)}: {meant}")


NONE = type(None)

FLAG = OptionSpec((bool,), "True or False")
OPTIONAL_FLAG = OptionSpec((bool, NONE), "True, False or None")
OPTIONAL_TEXT = OptionSpec((str, NONE), "text or None")


def _check_scope(label: str, value: Any) -> None:
    if value not in ("private", "public"):
        raise ValueError(f'{label} is "private" or "public", not {value!r}')


def _check_store(label: str, value: Any) -> None:
    if value is None:
        return
    from ..stores.base import Store  # nothing else of a server without a store needs it

    if not isinstance(value, Store):
        what = "a MemoryStore(), a SqliteStore(path), a RedisStore(url) or None"
        raise TypeError(f"{label} is {what}, not {repr(value):.60}")


TTL = OptionSpec(check=partial(check_number, whole=False, optional=False))
CACHE_SCOPE = OptionSpec(check=_check_scope)

# The options of all decorators that register a function. The objects of the wire check those that
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

# The options of `Server` that nothing else checks.
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
        TypeError: A value has another type.
        ValueError: A value is out of range.
    """
    for name, value in options.items():
        spec = specs.get(name)
        if spec is None:
            continue
        label = f"{owner}{name}"
        if not isinstance(value, spec.types):
            raise TypeError(f"{label} is {spec.what}, not {repr(value):.60}")
        if spec.check is not None:
            spec.check(label, value)


# What a client may declare, in whatever revision, by dotted names.
CAPABILITIES = sorted(
    {
        name
        for revision in REVISIONS
        for whole, parts in revision.client_capabilities.items()
        for name in (whole, *(f"{whole}.{part}" for part in parts))
    }
)

# Capabilities whose parts anybody may name, as in ``experimental.x``.
OPEN = ("tasks", "experimental")


def required(options: Mapping[str, Any], owner: str) -> tuple[str, ...]:
    """The client capabilities that ``requires=`` names; one may stand alone.

    Raises:
        TypeError: A name is no text.
        ValueError: No client can declare such a thing, or what stands behind ``ext:`` is no
            identifier of an extension.
    """
    given = options.get("requires", ())
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{owner}: requires names capabilities by text, not {name!r:.60}")
        if name.startswith("ext:"):
            check_identifier(name[4:], owner)
        elif name.partition(".")[0] not in OPEN or "" in name.split("."):
            known = (*CAPABILITIES, *OPEN, *(f"{each}.<name>" for each in OPEN), "ext:<identifier>")
            check_names([name], known, f"{owner}: no client declares", error=ValueError)
    return names


def count_positional(function: Any, owner: str, names: Sequence[str], *, least: int) -> int:
    """How many arguments a function takes by position, where some may be left out.

    Args:
        function: What an author gave.
        owner: What messages call it.
        names: What it may be given, in order.
        least: How many of them it must take.

    Raises:
        TypeError: It is async, a generator, no Python function, or takes other arguments.
    """
    called = (
        function
        if hasattr(function, "__code__") or hasattr(function, "__func__")
        else type(function).__call__
    )
    refuse_async_and_stars(called, owner)
    if not inspect.isfunction(inspect.unwrap(getattr(called, "__func__", called))):
        raise TypeError(
            f"{owner} is {function!r}, which is no Python function: write a def that calls it"
        )
    signature = inspect.signature(function, follow_wrapped=False)
    if any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values()):
        signature = inspect.signature(function)  # what a wrapper passes everything on to
    for count in range(len(names), least - 1, -1):
        with suppress(TypeError):
            signature.bind(*names[:count])
            return count
    ways = " or ".join(f"({', '.join(names[:count])})" for count in range(least, len(names) + 1))
    raise TypeError(f"{owner}, {source_location(function)}, takes {ways}")


A = TypeVar("A", Annotations, ToolAnnotations)


def annotated(
    given: Union[A, Mapping[str, Json], None], cls: type[A], example: str, owner: str
) -> Optional[A]:
    """Annotations as an author gives them: our own object, or its arguments in a mapping.

    Args:
        given: What stands behind ``annotations=``.
        cls: Of the object.
        example: A mapping that would do.
        owner: What messages call that which is annotated.

    Raises:
        TypeError: It is neither, a name is none, or a value is of another type.
    """
    if given is None or isinstance(given, cls):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"{owner}: annotations is a mapping such as {example}, not {given!r:.60}")
    check_names(given, inspect.signature(cls).parameters, f"{owner}: no annotation is called")
    return cls(**given)


# ------------------------------------------------------------ marks

# The attribute; it holds a tuple, because one function may be a tool and a resource.
MARKS = "__minimcp_marks__"


class Mark(NamedTuple):
    """What one decorator said: which one it was ("tool", "resource", "method" ...), and its
    arguments."""

    kind: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


def decorated(
    register: Callable[..., Any], way: str, given: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """What a decorator does that is written with and without arguments.

    Args:
        register: Given the function and the options.
        way: The decorator as it is written, for messages: "server.tool".
        given: What was given by position: the function, where no arguments come first.
        options: What was given by keyword.
    """
    if not given:
        return lambda function: decorated(register, way, (function,), options)
    function, *others = given
    for name in [function] if isinstance(function, str) else others:
        raise TypeError(f"{way}({name!r:.60}): did you mean name={name!r:.60}?")
    register(function, **options)
    return function


# What comes first in the other decorators, as in this example.
_FIRST = {
    "resource": ("URI", "notes://all"),
    "app": ("URI", "ui://sales/chart"),
    "method": ("name", "vendor/thing"),
    "notification": ("name", "notifications/vendor/thing"),
}


def named(
    way: str,
    first: str,
    register: Callable[..., Any],
    given: Sequence[Any] = (),
    options: Optional[Mapping[str, Any]] = None,
) -> Callable[[F], F]:
    """A decorator whose URI or name comes first; arguments as `decorated`.

    Raises:
        TypeError: What comes first is no text.
    """
    what, example = _FIRST[way.partition(".")[2]]
    if not isinstance(first, str):
        raise TypeError(f'the {what} comes first: @{way}("{example}")')
    decorator: Callable[[F], F] = decorated(register, way, given, options or {})
    return decorator


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
@with_option_signature("tool")
def tool(*given: Any, **options: Any) -> Any:
    """Mark a method as a tool: ``@minimcp.tool`` or ``@minimcp.tool(name="add", ...)``.

    Args:
        function: The method; it is returned as it is.
        options: Those of `Server.tool`; they are checked when an object is added to a server.

    Raises:
        TypeError: This is no function.
    """
    return decorated(partial(_mark, "tool", ()), "minimcp.tool", given, options)


@with_option_signature("resource")
def resource(uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Mark a method as a resource, or as a template of them:
    ``@minimcp.resource("notes://{number}")``.

    Args:
        uri: The URI, or the template.
        options: Those of `Server.resource`; they are checked when an object is added to a server.

    Raises:
        TypeError: The URI is missing.
    """
    return named("minimcp.resource", uri, partial(_mark, "resource", (uri,)), options=options)


@with_option_signature("app")
def app(uri: str, **options: Unpack[AppOptions]) -> Callable[[F], F]:
    """Mark a method as a page of HTML, above the tools that show it:
    ``@minimcp.app("ui://sales/chart")``.

    Args:
        uri: Of the page.
        options: Those of `Server.app`; they are checked when an object is added to a server.

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
    """Mark a method as a prompt. Arguments and errors as `tool`, with the options of
    `Server.prompt`."""
    return decorated(partial(_mark, "prompt", ()), "minimcp.prompt", given, options)


def method(name: str) -> Callable[[F], F]:
    """Mark a method of an `Extension`, or of another plain class, as what serves a request:
    "vendor/thing".

    Args:
        name: The method of the requests, as `Server.method` takes it.

    Raises:
        TypeError: It is no text.
    """
    return named("minimcp.method", name, partial(_mark, "method", (name,)))


def notification(name: str) -> Callable[[F], F]:
    """Mark a method of an `Extension` as what hears a notification of the other side:
    "notifications/vendor/thing".

    Args:
        name: The method of the notification.

    Raises:
        TypeError: It is no text.
        ValueError: It is one of the specification's own.
    """
    if name in OWN_NOTIFICATIONS:
        raise ValueError(
            f"{name!r} belongs to the protocol: write a name like 'notifications/vendor/thing'"
        )
    return named("minimcp.notification", name, partial(_mark, "notification", (name,)))


# What the library hears itself.
OWN_NOTIFICATIONS = frozenset(
    f"notifications/{name}"
    for name in (
        *(
            "initialized",
            "cancelled",
            "progress",
            "message",
            "elicitation/complete",
            "subscriptions/acknowledged",
        ),
        *("resources/updated", "roots/list_changed", *(f"{kind}/list_changed" for kind in LISTS)),
    )
)


def _mark(kind: str, arguments: tuple[str, ...], function: Any, /, **options: Any) -> None:
    target = _plain(function)
    if not callable(target) or isinstance(target, type):
        raise TypeError(
            f"minimcp.{kind} marks a function or a method, not {type(function).__name__}"
        )
    setattr(target, MARKS, (*getattr(target, MARKS, ()), Mark(kind, arguments, options)))


def _plain(member: Any) -> Any:
    """The function in a static or class method; anything else is returned as it is."""
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def has_marks(kind: type) -> bool:
    """Whether any method of a class, or of one below it, was marked."""
    return any(
        MARKS in getattr(_plain(each), "__dict__", ())
        for one in kind.__mro__
        for each in vars(one).values()
    )


def marked(handlers: Any) -> Iterator[tuple[Callable[..., Any], Mark]]:
    """The marked methods of an object, as `marks_of` finds them.

    Raises:
        TypeError: It is a class.
        ValueError: None of its methods is marked.
    """
    if isinstance(handlers, type):
        raise TypeError(
            f"{handlers.__name__} is a class: give an instance of it, {handlers.__name__}()"
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
            "@minimcp.resource(...) or "
            "@minimcp.prompt above those that clients may call"
        )
    yield from found


def marks_of(handlers: Any) -> list[tuple[Callable[..., Any], Mark]]:
    """The marked methods of an object, in the order in which its classes define them, the base
    classes first.

    They are found on the class, so no property is evaluated; a method that overrides a marked one
    has its marks, unless it has its own.
    """
    marks: dict[str, Sequence[Mark]] = {}
    for kind in reversed(type(handlers).__mro__):
        for name, member in vars(kind).items():
            own = getattr(_plain(member), MARKS, None) if not isinstance(member, property) else None
            if own is not None:
                marks[name] = own
            elif name in marks and not callable(_plain(member)):
                del marks[name]  # the subclass has put something else into its place
    return [(getattr(handlers, name), mark) for name, each in marks.items() for mark in each]
