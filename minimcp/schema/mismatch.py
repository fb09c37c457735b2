"""`Mismatch`: the error for a value that does not fit a type or a schema; and what messages are
made of.

Among them what to write instead of a value that JSON does not have, an option that does not exist,
a type without JSON form.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import wraps
from io import IOBase
from itertools import islice
from typing import Any, NoReturn, Optional, TypeVar, Union

from ..text import printable
from ..types.base import ABSENT, Wire

# Characters of a wrong value that a message repeats.
LONGEST_VALUE = 60

# Names among which a misspelt one is looked for: comparing costs up to a millisecond for each.
MOST_KNOWN = 500

# Characters of what may stand for a longer name that begins with it.
SHORTEST_BEGINNING = 3

Key = Union[str, int]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


# The value of a field that was not sent, and the default of a parameter without one.
NOTHING: Any = ABSENT


def cut(text: str, limit: int = LONGEST_VALUE) -> str:
    """`text`, or its beginning and three dots when it is longer than `limit` characters."""
    return text if len(text) <= limit else text[:limit] + "..."


def listed(names: Iterable[str], last: str = "or") -> str:
    """Names in a sentence: ``a``, ``a or b``, ``a, b or c``."""
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"


def described(value: Any) -> str:
    """A value in a few words: ``the string 'x'``, ``a list of 3``, ``null``."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the string {cut(value)!r}"
    if isinstance(value, int) and value.bit_length() > 1024:
        return "the number (over 300 digits)"  # Python refuses to print the largest
    if hasattr(value, "as_integer_ratio"):  # also a Decimal
        return f"the number {cut(str(value))}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        names = ", ".join(cut(str(name)) for name in islice(value, LONGEST_VALUE))
        return f"an object with {cut(names)}" if value else "an empty object"
    return "nothing" if value is NOTHING else f"a value of type {type(value).__name__}"


def shown_choice(value: Any) -> str:
    """One of the values that are allowed: ``'x'``, ``3``, ``null``."""
    if isinstance(value, str):
        return cut(repr(value[:LONGEST_VALUE]))
    return described(value) if isinstance(value, (list, dict)) else described(value).split()[-1]


def one_of(values: Sequence[Any]) -> str:
    """What is expected where only these values fit: ``one of 'a' or null``."""
    shown = listed(map(shown_choice, values[:300]) if values else ["nothing"])
    return cut(f"one of {shown}" if len(values) > 1 else shown, 300)


def shown_path(path: Iterable[Key]) -> str:
    """A place in a value: ``days[2].city``; empty for the value itself."""
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
    """A value does not fit its type or schema. The message is made when it is read.

    Args:
        expected: What would have fitted, as it reads after the word "expected".
        value: The value; `NOTHING` when it is missing.
        instead: A whole sentence in place of "expected ..., got ..."; None makes that one.
        choices: The texts that a misspelt string may have been meant for, each with the value that
            it stands for.

    `path` leads to the value; containers that the error passes through extend it at its front
    (`inside`).
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
        """This error, seen from the container that holds the value under `key`."""
        self.path = [key, *self.path]  # a copy of this error may share the list
        return self

    @property
    def hint(self) -> str:
        """`` (did you mean 'x'?)``, or nothing."""
        near = (
            nearest(self.value, self.choices)
            if self.choices and isinstance(self.value, str)
            else None
        )
        return (
            f" (did you mean {shown_choice(self.choices[near])}?)"
            if self.choices and near is not None
            else ""
        )

    def __str__(self) -> str:
        where, problem = shown_path(self.path), self.instead
        if where and self.value is NOTHING:
            where += " is missing"
        if problem is None:
            problem = f"expected {self.expected}{self.hint}, got {described(self.value)}"
        return printable(f"{where}: {problem}" if where else problem)  # a peer's text stands in it


def nearest(name: str, known: Iterable[str], cutoff: float = 0.65) -> Optional[str]:
    """The known name that `name` was probably meant to be; None when none is near.

    Case and separators do not count. Names that are very long are never near, so that the search is
    bounded.

    Args:
        name: What was written.
        known: What could be meant.
        cutoff: How like it a name has to be, between 0 and 1, if it does not begin with what was
            written.
    """
    from difflib import get_close_matches

    if len(name) > LONGEST_VALUE:
        return None
    plain = {
        _plain(each): each
        for each in reversed(list(islice(known, MOST_KNOWN)))
        if len(each) <= 2 * LONGEST_VALUE
    }
    found = get_close_matches(_plain(name), plain, n=1, cutoff=cutoff)
    if not found and len(_plain(name)) >= SHORTEST_BEGINNING:
        found = [each for each in plain if each.startswith(_plain(name))]
    return plain[found[0]] if len(found) == 1 else None


def unknown_field(
    value: Any, name: str, known: Collection[str], missing: Sequence[str] = ()
) -> Mismatch:
    """The error of an object with a field too many.

    Args:
        value: The object.
        name: Of that field.
        known: Those that it may have.
        missing: Those of them that it has to have and has not: the likeliest to be meant.
    """
    near = nearest(name, missing or known)
    names = listed(map(cut, islice(known, 50)), "and") if known else ""
    hint = f": the fields are {cut(names, 200)}" if known else ": there are no fields"
    hint += f"; missing: {cut(listed(map(cut, missing), 'and'))}" if missing else ""
    hint = hint if near is None else f", did you mean {near!r}?"
    return Mismatch("", value, instead=f"unknown field {cut(name)!r}{hint}")


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


# ------------------------------------------------------------ values that JSON does not have

# Bits of the largest number that Python writes as text.
MAX_BITS = 13_000

# How deep a value is searched; what nests deeper has an error of its own.
MOST_LEVELS = 100

_VALUES: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda value: value is None, "leave it out"),
    (lambda value: isinstance(value, Enum), "give its .value"),
    (lambda value: isinstance(value, type), "give a value, not a class"),
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
    (lambda value: isinstance(value, float), "JSON has no such number: give None, or leave it out"),
    (lambda value: True, "give text, a number, True, False, None, a list or a dict"),
)


def json_hint(value: Any) -> str:
    """What to write instead of a value."""
    return next(hint for fits, hint in _VALUES if fits(value))


def shown(value: Any) -> str:
    """A wrong value, for a message: "a date, datetime.date(2026, 1, 1)"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}, {repr(value):.60}"


def unwritable(value: Any, path: str = "", levels: int = MOST_LEVELS) -> Optional[str]:
    """Where in a value something stands that JSON does not have, what it is and what to write; None
    if nowhere.

    Args:
        value: What could not be written.
        path: What the value is called: "todos"; empty at the top, whose members stand for
            themselves.
        levels: How many more are searched.
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
                return f"a key of {path or 'this'} is {shown(name)}: keys are text"
        parts = [(each, f"{path}.{name}" if path else str(name)) for name, each in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(each, f"{path}[{place}]") for place, each in enumerate(value)]
    else:
        return f"{path or 'this'} is {shown(value)}: {json_hint(value)}"
    found = (unwritable(each, place, levels - 1) for each, place in parts if levels)
    return next(filter(None, found), None)


# How deep a dict of an author may nest, so that the list that it becomes a part of is within the
# 256 levels that a message may have.
MAX_LEVELS = 200


def plain_json(value: Any, path: str, levels: int = MAX_LEVELS) -> Any:
    """Return a copy of an author's value that consists of dict, list, str, int, float, bool and
    None.

    A tuple becomes a list, as `json.dumps` writes it, and a member of an `IntEnum` its number.

    Args:
        value: The value, such as a JSON Schema.
        path: What messages call it: "input_schema".
        levels: How many levels it may nest.

    Raises:
        TypeError: A part of it has no JSON form; the message names the place and the value.
        ValueError: A number or text that JSON does not have, or it nests too deep or contains
            itself.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        if not text.isascii() and not text.isprintable() and re.search("[\ud800-\udfff]", text):
            raise ValueError(f"{path} is {text!r:.60}, which has half of a surrogate pair")
        return text
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"{path} is a number of more than 4,000 digits: write it as text")
        return int(value)
    if isinstance(value, float) and value - value == 0.0:
        return float(value)
    if levels == 0:
        raise ValueError(f"{path:.100} nests deeper than {MAX_LEVELS} levels, or contains itself")
    if isinstance(value, Mapping):
        made = {}
        for name, part in value.items():
            if not isinstance(name, str):
                raise TypeError(f"a key of {path} is {shown(name)}: keys are text")
            key = plain_json(name, f"a key of {path}")
            made[key] = plain_json(part, f"{path}.{cut(key)}", levels - 1)
        return made
    if isinstance(value, (list, tuple)):
        return [plain_json(part, f"{path}[{at}]", levels - 1) for at, part in enumerate(value)]
    kind = ValueError if isinstance(value, float) else TypeError
    raise kind(f"{path} is {shown(value)}: {json_hint(value)}")


def explained(method: str, params: Any, error: Exception) -> Exception:
    """An error of writing a request, in words that say what to write instead; the same one if there
    is nothing to say.

    Args:
        method: Of the request.
        params: What could not be written, perhaps.
        error: What was raised.
    """
    problem = unwritable(params)
    if problem is None:
        return error
    name = params.get("name") if method in ("tools/call", "prompts/get") else None
    what = f"the params of {method}" if name is None else f"the arguments of {name!r:.60}"
    return type(error)(
        f"{what}: {problem if name is None else problem.replace('arguments.', '', 1)}"
    )


# ------------------------------------------------------------ options

# Options of other libraries: what to write here.
PORTED = {
    "lifespan": "there is none: what is before and after server.run(), or attributes of a plain "
                "class, do it",
    "middleware": "write @server.middleware above each function",
    "tools": "write server.add_tool(function) for each, or hand over a plain object: "
             "Server(name, Tools())",
    "stateless_http": "did you mean sessions=False?",
    "args": "give a list: connect([sys.executable, \"server.py\", \"argument\"])",
    **dict.fromkeys(("host", "port", "path", "transport"), "say it to server.run(...)"),
    **dict.fromkeys(("log_handler", "logging_callback"), "did you mean on_log=?"),
    **dict.fromkeys(("elicitation_handler", "elicitation_callback"), "did you mean elicit=?"),
    **dict.fromkeys(("sampling_handler", "sampling_callback"), "did you mean sample=?"),
    **dict.fromkeys(("progress_handler", "progress_callback"), "did you mean on_progress=?"),
    **dict.fromkeys(("command", "url"), "give it first, without a name"),
}  # fmt: skip


def keywords_shown(function: F, of: Optional[Callable[..., Any]] = None) -> F:
    """Have `help` leave out what takes any keyword, which is there to refuse misspelt ones.

    Args:
        function: Its signature is changed, and nothing else.
        of: What all other keywords are handed to: its own are shown instead. None for a function
            that hands on none.
    """
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    if of is not None:
        names = {each.name for each in own}
        more = inspect.signature(of).parameters.values()
        own += [each for each in more if each.kind is each.KEYWORD_ONLY and each.name not in names]
    function.__dict__["__signature__"] = signature.replace(parameters=own)
    return function


def refuse_options(owner: str, given: Iterable[str], function: Any) -> NoReturn:
    """Refuse an option that does not exist, and say which was meant.

    Args:
        owner: What takes options, as it is written: "Server(...)".
        given: Names that it does not have; the first counts.
        function: What takes the options, each by keyword only; or a dataclass.

    Raises:
        TypeError: Always.
    """
    name, known = (
        next(iter(given)),
        getattr(function, "__dataclass_fields__", None) or function.__kwdefaults__,
    )
    near = nearest(name, known)
    hint = PORTED.get(name) or (
        f"did you mean {near}=?" if near else f"there is {', '.join(known)}"
    )
    raise TypeError(f"{owner} has no option {name}=: {hint}")


def options_checked(cls: type[T]) -> type[T]:
    """A dataclass of options that refuses a misspelt one as `refuse_options` does."""
    make: Any = cls.__init__

    @wraps(make)
    def init(self: T, *given: Any, **named: Any) -> None:
        unknown = [name for name in named if name not in cls.__dict__["__dataclass_fields__"]]
        if unknown:
            refuse_options(f"{cls.__name__}(...)", unknown, cls)
        make(self, *given, **named)

    cls.__init__ = init  # type: ignore[method-assign,assignment]
    return cls


def refuse_async(function: Any, owner: str) -> None:
    """Reject a function that returns an awaitable instead of running when it is called.

    Raises:
        TypeError: It is async; the message says what to write instead.
    """
    plain = getattr(function, "__func__", function)
    flags = getattr(getattr(plain, "__code__", None), "co_flags", 0)
    if flags & (inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise TypeError(f"{owner} is async: write a plain def; it runs on a thread and may block")


def refuse_as_arguments(name: Any, given: Mapping[str, Any], function: Any) -> NoReturn:
    """Refuse what was given to a call of a tool by keyword: it is an argument of the tool, or a
    misspelt option.

    Args:
        name: Of the tool.
        given: By keyword.
        function: What takes the options, each by keyword only.

    Raises:
        TypeError: Always.
    """
    first = next(iter(given))
    if first in PORTED or nearest(first, function.__kwdefaults__):
        refuse_options("call_tool(...)", given, function)
    raise TypeError(
        f"the arguments of a tool go into a dict: call_tool({name!r:.60}, {dict(given)!r:.200})"
    )


# ------------------------------------------------------------ types


def no_class(cls: type) -> str:
    """The message about a class that has no JSON form."""
    if cls in (bytes, bytearray, memoryview):
        return (
            "bytes have no JSON form: take a str (text, or base64 that you decode), "
            "and return Image(data, mime_type), Audio or EmbeddedResource"
        )
    if issubclass(cls, Wire):
        return (
            f"{cls.__qualname__} is a part of a message and cannot stand inside of a value: "
            "return it alone, or in a list beside other values"
        )
    if issubclass(cls, type):
        return 'a class has no JSON form: use its name, as in Literal["int", "str"]'
    if issubclass(cls, IOBase):
        return (
            f"an open file ({cls.__qualname__}) has no JSON form: return what is in it, "
            "file.read(), or its path"
        )
    return (
        f"{cls.__qualname__} has no JSON form: write list[...], dict[...] or str, or make it "
        "a dataclass"
    )


def no_type(annotation: Any) -> str:
    """The message about an annotation that is no type."""
    instead = ""
    if isinstance(annotation, (list, tuple)):
        names = ", ".join(str(getattr(part, "__name__", part)) for part in annotation)
        both = f"tuple[{names}], or Union[{names}] for one of them"
        instead = (
            both
            if isinstance(annotation, tuple)
            else f"list[{names if len(annotation) == 1 else '...'}]"
        )
    elif isinstance(annotation, dict):
        instead = "a TypedDict with these fields, or dict[str, ...]"
    elif isinstance(annotation, (str, int, Enum)):
        instead = f"Literal[{annotation if isinstance(annotation, Enum) else repr(annotation)}]"
    elif annotation is any:
        instead = "typing.Any"
    return f"{cut(repr(annotation), 80)} is not a type with a JSON form" + (
        f": write {instead}" if instead else ""
    )
