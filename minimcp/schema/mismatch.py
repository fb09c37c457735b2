"""`Mismatch`: the error for a value that does not match a type or a schema; and parts of messages.

The messages say what to write instead of a value that JSON does not have, an option that does not
exist, or a type without JSON form.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property, wraps
from io import IOBase
from itertools import islice
from types import FunctionType
from typing import Any, NoReturn, Optional, TypeVar, Union

from ..text import printable
from ..types.base import ABSENT, Wire

# How many characters of a wrong value a message repeats.
MAX_SHOWN_LENGTH = 60

# Maximum number of names to compare with a misspelled one. Each comparison takes up to 1 ms.
MAX_KNOWN = 500

# Minimum length of an abbreviation of a known name.
MIN_PREFIX_LENGTH = 3

Key = Union[str, int]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


# Stands for the value of a field that was not sent, and for the default of a parameter without one.
NOTHING: Any = ABSENT

# The flags of code objects of coroutines, of functions that return awaitables, and of asynchronous
# generators.
ASYNC_FLAGS = 0x80 | 0x100 | 0x200


def cut(text: str, limit: int = MAX_SHOWN_LENGTH) -> str:
    """Return `text`, or its beginning and "..." if it is longer than `limit` characters."""
    return text if len(text) <= limit else text[:limit] + "..."


def join_words(names: Iterable[str], last: str = "or") -> str:
    """Return names as an enumeration: ``a``, ``a or b``, ``a, b or c``."""
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"


def described(value: Any) -> str:
    """Return a short description of a value: ``the string 'x'``, ``a list of 3``, ``null``."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the string {cut(value)!r}"
    if isinstance(value, int) and value.bit_length() > 1024:
        return "the number (over 300 digits)"  # Python refuses to print very large numbers
    if hasattr(value, "as_integer_ratio"):  # also a Decimal
        text = cut(str(value))
        if text in ("nan", "inf", "-inf"):
            return f"{text}, which JSON does not have: use None"
        return f"the number {text}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        names = ", ".join(cut(str(name)) for name in islice(value, MAX_SHOWN_LENGTH))
        return f"an object with {cut(names)}" if value else "an empty object"
    return "nothing" if value is NOTHING else f"a value of type {type(value).__name__}"


def shown_choice(value: Any) -> str:
    """Return one of the permitted values for a message: ``'x'``, ``3``, ``null``."""
    if isinstance(value, str):
        return cut(repr(value[:MAX_SHOWN_LENGTH]))
    return described(value) if isinstance(value, (list, dict)) else described(value).split()[-1]


def one_of(values: Sequence[Any]) -> str:
    """Return a description of the only permitted values: ``one of 'a' or null``."""
    shown = join_words(map(shown_choice, values[:300]) if values else ["nothing"])
    return cut(f"one of {shown}" if len(values) > 1 else shown, 300)


def shown_path(path: Iterable[Key]) -> str:
    """Return a place in a value: ``days[2].city``; empty for the value itself."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier():
            text += f".{cut(key)}" if text else cut(key)
        else:
            text += f"[{cut(key)!r}]"
    return text


class Mismatch(ValueError):
    """A value does not match its type or schema. The message is built on demand.

    Args:
        expected: A description of what would match, as it reads after the word "expected".
        value: The value; `NOTHING` if it is missing.
        instead: A sentence in place of "expected ..., got ..."; None means that one.
        choices: The strings that a misspelled string may have been meant for, each with its value.

    `path` is the place of the value. Containers through which the error passes extend it at the
    front (`inside`).
    """

    def __init__(
        self,
        expected: str,
        value: Any = NOTHING,
        *,
        instead: Optional[str] = None,
        choices: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(expected, value)
        self.expected = expected
        self.value = value
        self.instead = instead
        self.choices = choices
        self.path: list[Key] = []

    def inside(self, key: Key) -> Mismatch:
        """Prepend the key of the value in its container, and return this error."""
        self.path = [key, *self.path]  # a new list, because copies of this error may share it
        return self

    @property
    def hint(self) -> str:
        """A suggestion, `` (did you mean 'x'?)``, or an empty string."""
        if not self.choices or not isinstance(self.value, str):
            return ""
        near = nearest(self.value, self.choices)
        return "" if near is None else f" (did you mean {shown_choice(self.choices[near])}?)"

    def __str__(self) -> str:
        where = shown_path(self.path)
        problem = self.instead
        if where and self.value is NOTHING:
            where += " is missing"
        if problem is None:
            problem = f"expected {self.expected}{self.hint}, got {described(self.value)}"
        # It may repeat a peer's text.
        return printable(f"{where}: {problem}" if where else problem)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.65) -> Optional[str]:
    """Return the known name that `name` probably means, or None.

    Case and separators are ignored. Very long names never match, which limits the search.

    Args:
        name: The name as written.
        known: The names that may be meant.
        cutoff: The minimum similarity, between 0 and 1, unless the known name begins with `name`.
    """
    from difflib import get_close_matches

    if len(name) > MAX_SHOWN_LENGTH:
        return None
    plain = {
        _plain(each): each
        for each in reversed(list(islice(known, MAX_KNOWN)))
        if len(each) <= 2 * MAX_SHOWN_LENGTH
    }
    found = get_close_matches(_plain(name), plain, n=1, cutoff=cutoff)
    if not found and len(_plain(name)) >= MIN_PREFIX_LENGTH:
        found = [each for each in plain if each.startswith(_plain(name))]
    return plain[found[0]] if len(found) == 1 else None


def unknown_field(
    value: Any, name: str, known: Collection[str], missing: Sequence[str] = ()
) -> Mismatch:
    """Return the error for an object with an unknown field.

    Args:
        value: The object.
        name: The name of the unknown field.
        known: The names of the permitted fields.
        missing: The required fields that are missing, which are the likeliest to be meant.
    """
    near = nearest(name, missing or known)
    names = join_words(map(cut, islice(known, 50)), "and") if known else ""
    hint = f": the fields are {cut(names, 200)}" if known else ": there are no fields"
    hint += f"; missing: {cut(join_words(map(cut, missing), 'and'))}" if missing else ""
    hint = hint if near is None else f", did you mean {near!r}?"
    return Mismatch("", value, instead=f"unknown field {cut(name)!r}{hint}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


# ------------------------------------------------------------ values that JSON does not have

# Bits of the largest integer that Python converts to text.
MAX_BITS = 13_000

# Maximum depth to which a value is searched. Deeper nesting is an error of its own.
MAX_SEARCH_LEVELS = 100

_VALUES: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda value: value is None, "leave it out"),
    (lambda value: isinstance(value, Enum), "pass its .value"),
    (lambda value: isinstance(value, type), "pass a value, not a class"),
    (lambda value: hasattr(value, "isoformat"), "write .isoformat()"),
    (lambda value: hasattr(value, "model_dump"), 'write .model_dump(mode="json")'),
    (lambda value: hasattr(value, "__dataclass_fields__"), "write dataclasses.asdict(...)"),
    (lambda value: isinstance(value, (set, frozenset, range, Iterator)), "write list(...)"),
    (
        lambda value: isinstance(value, (bytes, bytearray)),
        "write .decode(), or base64.b64encode(...).decode()",
    ),
    (
        lambda value: (
            isinstance(value, os.PathLike) or type(value).__module__ in ("decimal", "uuid")
        ),
        "write str(...)",
    ),
    (lambda value: isinstance(value, float), "JSON has no such number: pass None or leave it out"),
    (lambda value: True, "pass a str, a number, True, False, None, a list or a dict"),
)


def json_hint(value: Any) -> str:
    """Return what to write instead of a value."""
    return next(hint for fits, hint in _VALUES if fits(value))


def shown(value: Any) -> str:
    """Return a wrong value for a message: "a date, datetime.date(2026, 1, 1)"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}, {repr(value):.60}"


def unwritable(value: Any, path: str = "", levels: int = MAX_SEARCH_LEVELS) -> Optional[str]:
    """Find a part of a value that JSON does not have. Return its place, the part and what to write
    instead, or None.

    Args:
        value: The value that could not be encoded.
        path: The name of the value: "todos". Empty for the whole value, whose members are then
            named.
        levels: Maximum depth of the search.
    """
    if (
        value is None
        or isinstance(value, (str, int))
        or (isinstance(value, float) and value - value == 0.0)
    ):
        return None
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, (str, int, float)) and name is not None:
                return f"a key of {path or 'this'} is {shown(name)}: keys must be str"
        parts = [(each, f"{path}.{name}" if path else str(name)) for name, each in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(each, f"{path}[{place}]") for place, each in enumerate(value)]
    else:
        return f"{path or 'this'} is {shown(value)}: {json_hint(value)}"
    found = (unwritable(each, place, levels - 1) for each, place in parts if levels)
    return next(filter(None, found), None)


# Maximum nesting of an author's value, so that a message that contains it has at most 256 levels.
MAX_LEVELS = 200


def plain_json(value: Any, path: str, levels: int = MAX_LEVELS) -> Any:
    """Return a copy of an author's value that consists of dict, list, str, int, float, bool and
    None.

    A tuple becomes a list, as in `json.dumps`, and a member of an `IntEnum` becomes its number.

    Args:
        value: The value, such as a JSON Schema.
        path: Its name in messages: "input_schema".
        levels: Maximum nesting.

    Raises:
        TypeError: A part has no JSON form; the message names the place and the value.
        ValueError: A number or string cannot be encoded, or the value is nested too deeply or
            contains itself.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii() and not text.isprintable() and re.search("[\ud800-\udfff]", text):
            raise ValueError(f"{path} is {text!r:.60}, which has half a surrogate pair")
        return text
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"{path} is a number of more than 4,000 digits: write it as text")
        return int(value)
    if isinstance(value, float) and value - value == 0.0:
        return float(value)
    if levels == 0:
        raise ValueError(
            f"{path:.100} is nested deeper than {MAX_LEVELS} levels, or contains itself"
        )
    if isinstance(value, (dict, Mapping)):  # the check of `Mapping` alone is slow
        made = {}
        for name, part in value.items():
            if not isinstance(name, str):
                raise TypeError(f"a key of {path} is {shown(name)}: keys must be str")
            key = name
            if type(name) is not str or not name.isascii():
                key = plain_json(name, f"a key of {path}")
            # Most parts are words, for which no path is made.
            if type(part) is not str or not part.isascii():
                part = plain_json(part, f"{path}.{cut(key)}", levels - 1)
            made[key] = part
        return made
    if isinstance(value, (list, tuple)):
        return [plain_json(part, f"{path}[{at}]", levels - 1) for at, part in enumerate(value)]
    kind = ValueError if isinstance(value, float) else TypeError
    raise kind(f"{path} is {shown(value)}: {json_hint(value)}")


def explained(method: str, params: Any, error: Exception) -> Exception:
    """Return the error of encoding a request with a message that says what to write instead, or the
    same error if there is nothing to add.

    Args:
        method: The method of the request.
        params: The params, which may be the cause.
        error: The exception that was raised.
    """
    problem = unwritable(params)
    if problem is None:
        return error
    name = params.get("name") if method in ("tools/call", "prompts/get") else None
    if name is None:
        return type(error)(f"the params of {method}: {problem}")
    return type(error)(f"the arguments of {name!r:.60}: {problem.replace('arguments.', '', 1)}")


# ------------------------------------------------------------ options

# Options of other libraries, and what to write here.
PORTED = {
    "lifespan": "write code before and after server.run(), or use attributes of a plain class",
    "middleware": "write @server.middleware above each function",
    "tools": "write server.add_tool(function) for each, or pass a plain object: "
             "Server(name, Tools())",
    "stateless_http": "did you mean sessions=False?",
    "args": "pass a list: connect([sys.executable, \"server.py\", \"argument\"])",
    **dict.fromkeys(("host", "port", "path", "transport"), "pass it to server.run(...)"),
    **dict.fromkeys(("log_handler", "logging_callback"), "did you mean on_log=?"),
    **dict.fromkeys(("elicitation_handler", "elicitation_callback"), "did you mean elicit=?"),
    **dict.fromkeys(("sampling_handler", "sampling_callback"), "did you mean sample=?"),
    **dict.fromkeys(("progress_handler", "progress_callback"), "did you mean on_progress=?"),
    **dict.fromkeys(("command", "url"), "pass it first, without a name"),
}  # fmt: skip


def keywords_shown(function: F, of: Optional[Callable[..., Any]] = None) -> F:
    """Make `help` hide a ``**`` parameter that only serves to reject misspelled options.

    Args:
        function: The function; only its signature is changed.
        of: The function to which all other keywords are passed: its own options are shown instead.
            None if there is none.
    """

    def make() -> Any:
        signature = own_signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        if of is not None:
            names = {each.name for each in own}
            for each in own_signature(of).parameters.values():
                if each.kind is each.KEYWORD_ONLY and each.name not in names:
                    own.append(each)
        return signature.replace(parameters=own)

    return with_signature(function, make)


class _LazySignature:
    """A signature that is made when it is first used, so that `inspect` is not imported before.

    `inspect.signature` accepts it, because its ``__class__`` is that of a signature.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Any:
        return self._make()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        from inspect import Signature

        return Signature

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def __str__(self) -> str:
        return str(self._made)


def own_signature(function: Any) -> Any:
    """Return the `inspect.Signature` of a function as it is written, whatever its ``__signature__``
    is."""
    from inspect import signature

    plain = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    plain.__kwdefaults__ = function.__kwdefaults__
    plain.__annotations__ = function.__annotations__
    return signature(plain)


def with_signature(function: F, make: Callable[[], Any]) -> F:
    """Set the signature that `inspect.signature` and `help` show. `make` returns it."""
    function.__dict__["__signature__"] = _LazySignature(make)
    return function


def refuse_options(owner: str, given: Iterable[str], function: Any) -> NoReturn:
    """Raise TypeError for an option that does not exist, and suggest another one.

    Args:
        owner: The call as it is written: "Server(...)".
        given: Unknown names; the first one is reported.
        function: The function whose keyword-only parameters are the options, or a `Record`.

    Raises:
        TypeError: Always.
    """
    name = next(iter(given))
    known = getattr(function, "__match_args__", None) or function.__kwdefaults__
    near = nearest(name, known)
    hint = f"did you mean {near}=?" if near else f"the options are {', '.join(known)}"
    raise TypeError(f"{owner} has no option {name}=: {PORTED.get(name) or hint}")


def options_checked(cls: type[T]) -> type[T]:
    """Decorate a `Record` of options so that misspelled ones are rejected as by
    `refuse_options`."""
    make: Any = cls.__init__
    known: Any = vars(cls)["__match_args__"]

    @wraps(make)
    def init(self: T, *given: Any, **named: Any) -> None:
        unknown = [name for name in named if name not in known]
        if unknown:
            refuse_options(f"{cls.__name__}(...)", unknown, cls)
        make(self, *given, **named)

    cls.__init__ = init  # type: ignore[method-assign,assignment]
    return cls


def refuse_async(function: Any, owner: str) -> None:
    """Raise TypeError for a function that returns an awaitable instead of running when it is
    called.

    The message says what to write instead.
    """
    plain = getattr(function, "__func__", function)
    flags = getattr(getattr(plain, "__code__", None), "co_flags", 0)
    if flags & ASYNC_FLAGS:
        raise TypeError(f"{owner} is async: write a plain def; it runs on a thread and may block")


def refuse_as_arguments(name: Any, given: Mapping[str, Any], function: Any) -> NoReturn:
    """Raise TypeError for keywords of a tool call: the tool's arguments or misspelled options.

    Args:
        name: The tool's name.
        given: The values by keyword.
        function: The function whose keyword-only parameters are the options.

    Raises:
        TypeError: Always.
    """
    first = next(iter(given))
    if first in PORTED or nearest(first, function.__kwdefaults__):
        refuse_options("call_tool(...)", given, function)
    raise TypeError(
        f"pass the arguments of a tool as a dict: call_tool({name!r:.60}, {dict(given)!r:.200})"
    )


# ------------------------------------------------------------ types


def no_class(cls: type) -> str:
    """Return the message for a class that has no JSON form."""
    if cls in (bytes, bytearray, memoryview):
        return (
            "bytes have no JSON form: take a str (text, or base64 that you decode), "
            "and return Image(data, mime_type), Audio or EmbeddedResource"
        )
    if issubclass(cls, Wire):
        return (
            f"{cls.__qualname__} is a part of a message, not of a value: return it alone, or in "
            "a list with other values"
        )
    if issubclass(cls, type):
        return 'a class has no JSON form: use its name, as in Literal["int", "str"]'
    if hasattr(cls, "savefig"):
        return f"{cls.__qualname__} has no JSON form: return Image.from_figure(figure)"
    if issubclass(cls, IOBase):
        return (
            f"an open file ({cls.__qualname__}) has no JSON form: return its content, "
            "file.read(), or its path"
        )
    return (
        f"{cls.__qualname__} has no JSON form: write list[...], dict[...] or str, or make it "
        "a dataclass"
    )


def no_type(annotation: Any) -> str:
    """Return the message for an annotation that is not a type."""
    instead = ""
    if isinstance(annotation, (list, tuple)):
        names = ", ".join(str(getattr(part, "__name__", part)) for part in annotation)
        if isinstance(annotation, tuple):
            instead = f"tuple[{names}], or Union[{names}] for one of them"
        else:
            instead = f"list[{names if len(annotation) == 1 else '...'}]"
    elif isinstance(annotation, dict):
        instead = "a TypedDict with these fields, or dict[str, ...]"
    elif isinstance(annotation, (str, int, Enum)):
        instead = f"Literal[{annotation if isinstance(annotation, Enum) else repr(annotation)}]"
    elif annotation is any:
        instead = "typing.Any"
    hint = f": write {instead}" if instead else ""
    return f"{cut(repr(annotation), 80)} is not a type with a JSON form{hint}"
