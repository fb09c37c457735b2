"""Misuse: values that JSON does not have, options that there are not; what to write instead.

Only imported when somebody has to be told.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import Any, Callable, Iterable, Iterator, Mapping, NoReturn, Optional

from .mismatch import nearest

MOST_LEVELS = 100
"""How deep a value is searched; what nests deeper has an error of its own."""

_REMEDIES: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (lambda value: value is None, "leave it out"),
    (lambda value: isinstance(value, Enum), "give its .value"),
    (lambda value: isinstance(value, type), "give a value, not a class"),
    (lambda value: hasattr(value, "isoformat"), "write .isoformat()"),
    (lambda value: hasattr(value, "model_dump"), 'write .model_dump(mode="json")'),
    (lambda value: hasattr(value, "to_wire"), "write .to_wire()"),
    (lambda value: hasattr(value, "__dataclass_fields__"), "write dataclasses.asdict(...)"),
    (lambda value: isinstance(value, (set, frozenset, range, Iterator)), "write list(...)"),
    (lambda value: isinstance(value, (bytes, bytearray)), "write .decode(), or base64.b64encode(...).decode()"),
    (lambda value: isinstance(value, os.PathLike), "write str(...)"),
    (lambda value: type(value).__name__ in ("Decimal", "UUID", "Fraction"), "write str(...)"),
    (lambda value: isinstance(value, float), "JSON has no such number: give None, or leave it out"),
)


def remedy(value: Any) -> str:
    """What to write instead of a value, in words."""
    found = next((words for fits, words in _REMEDIES if fits(value)), "")
    return found or "give text, a number, True, False, None, a list or a dict"


def shown(value: Any) -> str:
    """A wrong value, for a message: "a date, datetime.date(2026, 1, 1)"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}, {repr(value):.60}"


def unwritable(value: Any, path: str = "", levels: int = MOST_LEVELS) -> Optional[str]:
    """Where in a value something stands that JSON does not have, what it is and what to write; None if nowhere.

    Args:
        value: What could not be written.
        path: What the value is called: "todos"; empty at the top, whose members stand for themselves.
        levels: How many more are searched.
    """
    if value is None or isinstance(value, (str, int)):
        return None
    if isinstance(value, dict):
        return _unwritable_key(value, path) or _first(_members(value, path), levels)
    if isinstance(value, (list, tuple)):
        return _first(((each, f"{path}[{place}]") for place, each in enumerate(value)), levels)
    if isinstance(value, float) and value - value == 0.0:
        return None
    return f"{path or 'this'} is {shown(value)}: {remedy(value)}"


def _members(value: Any, path: str) -> Iterator[tuple[Any, str]]:
    for name, each in value.items():
        yield each, f"{path}.{name}" if path else str(name)


def _first(parts: Iterator[tuple[Any, str]], levels: int) -> Optional[str]:
    if not levels:
        return None
    return next(filter(None, (unwritable(each, path, levels - 1) for each, path in parts)), None)


def _unwritable_key(value: Any, path: str) -> Optional[str]:
    for name in value:
        if not isinstance(name, (str, int, float)) and name is not None:
            return f"a key of {path or 'this'} is {shown(name)}: keys are text"
    return None


def explained(method: str, params: Any, error: Exception) -> Exception:
    """An error of writing a request, in words that say what to write instead; the same one if there is nothing to say.

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
    return type(error)(f"{what}: {problem if name is None else problem.replace('arguments.', '', 1)}")


PORTED = {
    "lifespan": "there is none: what is before and after server.run(), or attributes of a plain class, do it",
    "middleware": "write @server.middleware above each function",
    "tools": "write server.add_tool(function) for each, or hand over a plain object: Server(name, Tools())",
    "host": "say it to server.run(...)", "port": "say it to server.run(...)", "path": "say it to server.run(...)",
    "transport": "say it to server.run(...)", "stateless_http": "did you mean sessions=False?",
    "log_level": "use the logging module: logging.getLogger(\"minimcp\")", "debug": "use the logging module",
    "on_duplicate_tools": "a name that is taken is refused, unless replace=True is said of the new one",
    "log_handler": "did you mean on_log=?", "logging_callback": "did you mean on_log=?",
    "elicitation_handler": "did you mean elicit=?", "elicitation_callback": "did you mean elicit=?",
    "sampling_handler": "did you mean sample=?", "sampling_callback": "did you mean sample=?",
    "list_roots_callback": "did you mean list_roots=?", "message_handler": "say on_tools_changed= or the like",
    "progress_handler": "did you mean on_progress= of call_tool?", "mode": "did you mean revision=?",
    "progress_callback": "did you mean on_progress=?", "read_timeout_seconds": "did you mean timeout=?",
    "args": "give a list: connect([sys.executable, \"server.py\", \"argument\"])",
    "command": "give it first, without a name", "url": "give it first, without a name",
}  # fmt: skip
"""Options of other libraries: what to write here."""


def refuse_options(owner: str, given: Iterable[str], function: Any) -> NoReturn:
    """Refuse an option that there is not, and say which was meant.

    Args:
        owner: What takes options, as it is written: "Server(...)".
        given: Names that it does not have; the first counts.
        function: What takes the options, each by keyword only.

    Raises:
        TypeError: Always.
    """
    name, known = next(iter(given)), function.__kwdefaults__
    near = nearest(name, known)
    hint = f"did you mean {near}=?" if near else PORTED.get(name) or f"there is {', '.join(known)}"
    raise TypeError(f"{owner} has no option {name}=: {hint}")


def refuse_as_arguments(name: Any, given: Mapping[str, Any], function: Any) -> NoReturn:
    """Refuse what was given to a call of a tool by keyword: it is an argument of the tool, or a misspelt option.

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
    raise TypeError(f"the arguments of a tool go into a dict: call_tool({name!r:.60}, {dict(given)!r:.200})")
