"""The terminal: JSON to read, colour, a progress bar, a server's questions put to the user, and words that he writes.

Those are ``key=value``, made into what a schema asks for; and schemas are shown in a few words.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import Any, Callable, Mapping, Optional, Sequence

from .. import Answer, ElicitRequest, Progress
from ..schema.checker import compile_check
from . import UsageError, clean, one_line, tell

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}

TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}

IMPLIED = {"properties": "object", "items": "array", "prefixItems": "array"}
"""Keywords of schemas that leave out the type."""

FORMATS = {"date": "date", "time": "time", "date-time": "date and time"}
"""Formats that are shown in place of the type "string"."""

MOST_REFERENCES = 20
"""How many ``$ref`` in a row are followed before a schema counts as circular."""


CELLS = 20
"""Length of the progress bar."""

WIDTH = 79


def as_json(value: Any, indent: Optional[int] = 2) -> str:
    """JSON for a person: only what the terminal would obey or cannot show is escaped.

    Args:
        value: What `json.dumps` takes.
        indent: As of `json.dumps`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = "".join([c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text])
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def wants_colour(stream: Any) -> bool:
    """Whether to print in colour: on a terminal that has it, unless NO_COLOR says otherwise."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, colour: bool) -> str:
    """The text in a style of `STYLES`, or as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if colour else text


class ProgressBar:
    """Given to a call as ``on_progress``: redrawn on a terminal, a line per step elsewhere. For one thread.

    Args:
        quiet: True draws nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None
        self._redraws = not self._quiet and sys.stderr.isatty()
        self._drawn = ""

    def __call__(self, progress: Progress) -> None:
        drawn = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            drawn = f"{progress.progress:g} {drawn}"
        else:
            share = min(1.0, max(0.0, progress.progress / progress.total))
            drawn = f"[{('#' * int(share * CELLS)).ljust(CELLS, '.')}] {share:4.0%} {drawn}"
        drawn = drawn.rstrip()[:WIDTH]
        if self._quiet or drawn == self._drawn:
            return
        if self._redraws:
            sys.stderr.write("\r" + drawn.ljust(len(self._drawn)))
            sys.stderr.flush()
        else:
            tell(drawn)
        self._drawn = drawn

    def end(self) -> None:
        """Leave the line that was redrawn. Idempotent."""
        if self._redraws and self._drawn:
            tell("")
            self._drawn = ""


class Asker:
    """Given to `connect` as ``elicit=``: asks for the fields of a form one by one, and one question at a time.

    What it says goes to stderr, because stdout is for the result. Where stdin is no terminal, it declines.

    Thread safety: any thread may call it.

    Args:
        before: Called first: leaves a line that is being redrawn.
    """

    def __init__(self, before: Callable[[], object] = int) -> None:
        self._before = before
        self._terminal_lock = threading.Lock()

    def __call__(self, request: ElicitRequest) -> Answer:
        with self._terminal_lock:
            self._before()
            name = request.server.name if request.server is not None else "the server"
            tell(f"{one_line(name)} asks: {clean(request.message)}")
            if sys.stdin is None or not sys.stdin.isatty():
                tell("declined: stdin is no terminal at which to ask")
                return Answer("decline")
            try:
                return _ask(request)
            except EOFError:
                tell("\ncancelled")
                return Answer("cancel")


def _ask(request: ElicitRequest) -> Answer:
    if request.mode == "url":
        tell(f"Open this yourself, if you trust {one_line(request.host or 'it')}:\n{one_line(request.url or '')}")
    fields = properties(request.schema) if request.mode == "form" else {}
    if not fields:
        agreed = _read_line("Agree? [y/N] ").lower() in ("y", "yes")
        return Answer("accept", {}) if agreed else Answer("decline")
    tell("(Enter takes what stands in brackets, Ctrl-D cancels)")
    needed = required(request.schema)
    given = {name: _ask_field(name, field, name in needed) for name, field in fields.items()}
    return Answer("accept", {name: value for name, value in given.items() if value is not None})


def _ask_field(name: str, given: Any, needed: bool) -> Any:
    """What the user gives for one field; None for an optional one that is left out."""
    schema: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    if isinstance(schema.get("description"), str):
        tell(f"  {one_line(schema['description'])}")
    title = schema.get("title")
    default = schema.get("default")
    shown = one_line(f"{title if isinstance(title, str) else name} ({_choices(schema) or kind(schema)})")
    in_brackets = f" [{one_line(_shown(default))}]" if default is not None else "" if needed else " []"
    while True:
        text = _read_line(f"  {shown}{in_brackets}: ")
        if not text and (default is not None or not needed):
            return default
        texts = [text]
        if schema.get("type") == "boolean":
            texts = [{"y": "yes", "n": "no"}.get(text.lower(), text)]
        elif schema.get("type") == "array" and not text.startswith("["):
            texts = [part.strip() for part in text.split(",")]
        try:
            value = read_texts(name, texts, schema, {})
            misfit = compile_check(dict(schema), where="the form")(value)
            problem = None if misfit is None else str(misfit)
        except UsageError as error:
            problem = str(error)
        except (ValueError, ImportError):  # of the schema: only the server can tell whether the value fits
            return value
        if problem is None:
            return value
        tell(f"  {one_line(problem)}")


def _choices(schema: Mapping[str, Any]) -> str:
    """Titled choices in words; empty when there are none."""
    listed = [each for word in ("anyOf", "oneOf") for each in schema.get(word) or () if isinstance(each, Mapping)]
    named = [f"{_shown(each['const'])} = {each.get('title', '?')}" for each in listed if "const" in each]
    within = _choices(schema["items"]) if isinstance(schema.get("items"), Mapping) else ""
    return ", ".join(named) or (f"some of {within}" if within else "")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_line(prompt: str) -> str:
    """One line that the user types.

    It is read from the descriptor: a thread that waits in ``sys.stdin`` would keep the interpreter from ending after
    Ctrl-C.

    Raises:
        EOFError: The user has closed the input: Ctrl-D.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(sys.stdin.fileno(), 1)  # one at a time: what follows belongs to the next question
        if not more:
            raise EOFError
        line += more
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()


# ------------------------------------------------------------ words of a command line


class _Unfit(ValueError):
    """The text is none of this type."""


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that ``key=value`` words give; a key that comes several times makes a list.

    Args:
        pairs: The words.
        schema: The tool's input schema. What it does not describe is read as JSON if it is JSON, else as text.

    Raises:
        UsageError: A word has no "=", or its value is not what the schema asks for.
    """
    texts: dict[str, list[str]] = {}
    for name, text in map(split_pair, pairs):
        texts.setdefault(name, []).append(text)
    known = properties(schema)
    return {name: read_texts(name, given, known.get(name), schema) for name, given in texts.items()}


def split_pair(pair: str) -> tuple[str, str]:
    """``key=value`` as key and value.

    Raises:
        UsageError: It is something else.
    """
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{pair!r} is not key=value")
    return name, text


def read_texts(name: str, texts: Sequence[str], schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that one text stands for, or the list that several are.

    Args:
        name: Of the value, for the message.
        texts: At least one.
        schema: What the value should be.
        root: Where references in it point to.

    Raises:
        UsageError: It is something else.
    """
    try:
        if len(texts) == 1:
            return _coerced(texts[0], schema, root)
        wanted = resolved(schema, root)
        lists = [each for each in _branches(wanted, root) or [wanted] if "array" in (_types(each) or ["array"])]
        if not lists:
            raise _Unfit("one value")
        return [_coerced(text, lists[0].get("items"), root) for text in texts]
    except _Unfit as error:
        raise UsageError(f"{name}: expected {error}, got {', '.join(map(repr, texts))}") from None
    except RecursionError:
        return _json_or_text(texts[0])  # a circular schema says nothing


def read_object(text: str, origin: str) -> dict[str, Any]:
    """Arguments given as one JSON object.

    Args:
        text: The JSON.
        origin: Where it comes from, for the message.

    Raises:
        UsageError: It is no JSON object.
    """
    try:
        value = _loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{origin}: no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{origin}: a JSON object was expected, such as {{\"name\": 1}}")
    return value


def resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """A schema behind its local references; an empty one when there is none or it cannot be found."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            schema = schema.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(schema, Mapping) else None
    return {}


def properties(schema: Any) -> Mapping[str, Any]:
    """The schemas of an object's fields, by name."""
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def required(schema: Any) -> list[str]:
    """The names of the fields that an object must have."""
    value = schema.get("required") if isinstance(schema, Mapping) else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _branches(schema: Mapping[str, Any], root: Any) -> list[Mapping[str, Any]]:
    """The schemas of ``anyOf`` or ``oneOf``."""
    found = [schema[word] for word in ("anyOf", "oneOf") if isinstance(schema.get(word), list)]
    return [resolved(each, root) for each in (found[0] if found else [])]


def _types(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("type", [name for word, name in IMPLIED.items() if word in schema])
    return [named] if isinstance(named, str) else [str(each) for each in named] if isinstance(named, list) else []


# ------------------------------------------------------------ from text to a value


def _coerced(text: str, schema: Any, root: Mapping[str, Any]) -> Any:
    """The value that a text stands for.

    Raises:
        _Unfit: It stands for nothing of that kind; the message says what was expected.
    """
    schema = resolved(schema, root)
    branches = _branches(schema, root)
    if branches:
        failures = []
        for branch in sorted(branches, key=lambda each: "string" in _types(each) and "enum" not in each):
            try:
                return _coerced(text, branch, root)
            except _Unfit as error:
                failures.append(str(error))
        raise _Unfit(" or ".join(failures))
    if isinstance(schema.get("allOf"), list):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged.update(resolved(part, root))
        return _coerced(text, {**merged, **{word: schema[word] for word in schema if word != "allOf"}}, root)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(listed, list):
        shown = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in listed]
        if text not in shown:
            raise _Unfit(shown[0] if len(shown) == 1 else "one of " + ", ".join(shown))
        return listed[shown.index(text)]
    types = _types(schema)
    for name in sorted(types, key="string".__eq__):
        with suppress(ValueError, KeyError):  # it is none of this type
            value = READERS.get(name, _json_or_text)(text)
            if name == "array" and not isinstance(value, list):
                return [_coerced(text, schema.get("items"), root)]
            if name != "object" or isinstance(value, dict):
                return value
    if types:
        raise _Unfit(" or ".join(types))
    return _json_or_text(text)


def _number(text: str) -> float:
    with suppress(ValueError):
        return int(text)
    return float(json.dumps(float(text), allow_nan=False))


def _json_or_text(text: str) -> Any:
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        return text


def _loads(text: str) -> Any:
    value = json.loads(text)
    json.dumps(value, allow_nan=False)  # NaN and Infinity are no JSON
    return value


READERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "integer": int,
    "number": _number,
    "boolean": lambda text: TRUTH[text.lower()],
    "null": lambda text: {"": None, "null": None}[text],
}
"""How a text becomes a value, by the type that the schema names; ValueError or KeyError when it is none."""


# ------------------------------------------------------------ a schema in a few words


def parameters(schema: Any, root: Mapping[str, Any], deep: bool = True, most: int = 8) -> str:
    """The fields of an object as Python would declare them: ``bread: string, loaves: integer = 1, [note: string]``.

    Args:
        schema: Of the object.
        root: Where references in it point to.
        deep: Whether the fields of objects in it are named.
        most: Levels that are shown; a schema may be circular.
    """
    shown = []
    for name, field in properties(schema).items():
        words = f"{name}: {kind(field, root, deep, most)}"
        if isinstance(field, Mapping) and "default" in field:
            words += f" = {json.dumps(field['default'], ensure_ascii=False)}"
        elif name not in required(schema):
            words = f"[{words}]"
        shown.append(words)
    return ", ".join(shown)


def kind(schema: Any, root: Mapping[str, Any] = {}, deep: bool = True, most: int = 8) -> str:
    """A schema in a few words: "string", "integer or null", "one of 1, 2"; "any" when it says nothing simple.

    Args as `parameters`.
    """
    schema = resolved(schema, root) if most else {}
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    branches = _branches(schema, root)
    if branches:
        return " or ".join(kind(each, root, deep, most - 1) for each in branches)
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    if named == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {kind(schema['items'], root, deep, most - 1)}"
    if deep and properties(schema):
        return f"object ({parameters(schema, root, False, most - 1)})"
    if named == "string":
        return FORMATS.get(str(schema.get("format")), "string")
    return named if isinstance(named, str) else "any"
