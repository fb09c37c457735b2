"""The terminal: JSON to read, colour, a progress bar, a server's questions put to the user, and
words that he writes.

Those are ``key=value``, made into what a schema asks for; and schemas are shown in a few words.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys
import threading
import time
from typing import Any, Callable, Mapping, Sequence

from .. import Answer, ElicitRequest, Progress
from ..schema.checker import compile_peer_check
from ..text import json_printable
from . import UsageError, clean, one_line, tell

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}

# What a word stands for where a schema takes no text.
WORDS = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
    "": None,
}

# What ``--answer`` answers of a form without fields, which asks for yes or no.
AGREEMENT: Mapping[str, Any] = {"properties": {"agree": {"type": "boolean"}}, "required": ["agree"]}

# Formats that are shown in place of the type "string".
FORMATS = {"date": "date", "time": "time", "date-time": "date and time"}

# How many ``$ref`` in a row are followed before a schema counts as circular.
MOST_REFERENCES = 20

# How many forms of a value are shown, of those that it may have.
MOST_FORMS = 8

# Length of the progress bar, and seconds between two lines of it that are no terminal's.
CELLS, BETWEEN_LINES = 20, 1.0

STDIN = "-"

WIDTH = 79


def as_json(value: Any) -> str:
    """JSON for a person: only what the terminal would obey or cannot show is escaped.

    Args:
        value: What `json.dumps` takes.
    """
    has_all = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not has_all)
    return json_printable(text)


def wants_colour(stream: Any) -> bool:
    """Whether to print in colour: on a terminal that has it, unless NO_COLOR says otherwise."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, colour: bool) -> str:
    """The text in a style of `STYLES`, or as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if colour else text


class ProgressBar:
    """Given to a call as ``on_progress``: redrawn on a terminal, at most a line a second elsewhere.
    For one thread."""

    def __init__(self) -> None:
        self._redraws = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = self._shown = ""
        self._shown_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        drawn = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            drawn = f"{progress.progress:g} {drawn}"
        else:
            share = min(1.0, max(0.0, progress.progress / progress.total))
            drawn = f"[{('#' * int(share * CELLS)).ljust(CELLS, '.')}] {share:4.0%} {drawn}"
        drawn = drawn.rstrip()[:WIDTH]
        if self._redraws:
            sys.stderr.write("\r" + drawn.ljust(len(self._drawn)))
            sys.stderr.flush()
        self._drawn = drawn
        if not self._redraws and time.monotonic() - self._shown_at >= BETWEEN_LINES:
            self._show()

    def _show(self) -> None:
        if self._drawn != self._shown:
            tell(self._drawn)
        self._shown = self._drawn
        self._shown_at = time.monotonic()

    def end(self) -> None:
        """Leave the line that was redrawn, or print the last one that was not. Idempotent."""
        if not self._redraws:
            self._show()
        elif self._drawn:
            tell("")
            self._drawn = ""


class FormPrompter:
    """Given to `connect` as ``elicit=``: asks for the fields of a form one by one, and one question
    at a time.

    What it says goes to stderr, because stdout is for the result. Where stdin is no terminal, it
    declines what ``answers`` do not answer.

    Thread safety: any thread may call it.

    Args:
        before: Called first: leaves a line that is being redrawn.
        answers: Words ``key=value`` for fields, which are not asked for then.

    Attributes:
        unused: The names of those answers for which nobody has asked.
    """

    def __init__(self, before: Callable[[], object] = int, answers: Sequence[str] = ()) -> None:
        self._before = before
        self._answers = answers
        self.unused = {split_pair(answer)[0].rstrip(":"): None for answer in answers}
        self._terminal_lock = threading.Lock()

    def __call__(self, request: ElicitRequest) -> Answer:
        with self._terminal_lock:
            self._before()
            name = request.server.name if request.server is not None else "the server"
            tell(f"{one_line(name)} asks: {clean(request.message)}".replace("\n", "\n  "))
            form = (
                request.schema
                if request.mode != "form" or properties(request.schema)
                else AGREEMENT
            )
            try:
                given = self._given(form)
                if form is AGREEMENT and given:
                    return Answer("accept", {}) if given["agree"] else Answer("decline")
                needed = [
                    name for name in required(form) if name not in {**request.defaults, **given}
                ]
                if given and not needed:
                    return Answer("accept", {**request.defaults, **given})
                if sys.stdin is None or not sys.stdin.isatty():
                    lacking = f", and there is no --answer {needed[0]}=..." if needed else ""
                    tell(f"declined: stdin is no terminal at which to ask{one_line(lacking)}")
                    return Answer("decline")
                return _ask(request, given)
            except UsageError as error:
                tell(f"declined: --answer: {one_line(str(error))}")
                return Answer("decline")
            except EOFError:
                tell("\ncancelled")
                return Answer("cancel")

    def _given(self, form: Any) -> dict[str, Any]:
        """The answers to fields of a form. Raises UsageError: one does not fit it."""
        fields = properties(form)
        for name in fields:
            self.unused.pop(name, None)
        known = [answer for answer in self._answers if split_pair(answer)[0].rstrip(":") in fields]
        return read_pairs(known, form or {})


def _ask(request: ElicitRequest, answered: Mapping[str, Any]) -> Answer:
    if request.mode == "url":
        is_odd = request.host is not None and request.looks_odd
        odd = " (a name with letters beyond ASCII: it may look like another one)" if is_odd else ""
        tell(
            "Open this yourself, if you trust "
            f"{one_line(request.host or 'it')}{odd}:\n{one_line(request.url or '')}"
        )
    fields = properties(request.schema) if request.mode == "form" else {}
    if not fields:
        agreed = WORDS.get(read_line("Agree? [y/N] ").lower())
        return Answer("accept", {}) if agreed else Answer("decline")
    tell("(Enter takes what stands in brackets, Ctrl-D cancels)")
    given = {
        name: answered[name] if name in answered else _ask_field(name, request.schema or {})
        for name in fields
    }
    return Answer("accept", {name: value for name, value in given.items() if value is not None})


def _ask_field(name: str, form: Mapping[str, Any]) -> Any:
    """What the user gives for one field of a form; None for an optional one that is left out."""
    field = properties(form)[name]
    schema: Mapping[str, Any] = field if isinstance(field, Mapping) else {}
    if isinstance(schema.get("description"), str):
        tell(f"  {one_line(schema['description'])}")
    title, default, needed = schema.get("title"), schema.get("default"), name in required(form)
    shown = one_line(f"{title if isinstance(title, str) else name} ({kind(schema)})")
    in_brackets = (
        f" [{one_line(_shown(default))}]" if default is not None else "" if needed else " []"
    )
    while True:
        text = read_line(f"  {shown}{in_brackets}: ")
        if not text and (default is not None or not needed):
            return default
        is_list = schema.get("type") == "array" and not text.startswith("[")
        try:
            return _value(
                name, [part.strip() for part in text.split(",")] if is_list else [text], form
            )
        except UsageError as error:
            tell(f"  {one_line(str(error))}")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_line(prompt: str) -> str:
    """One line that the user types.

    It is read from the descriptor: a thread that waits in ``sys.stdin`` would keep the interpreter
    from ending after Ctrl-C.

    Raises:
        EOFError: The user has closed the input: Ctrl-D.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(
            sys.stdin.fileno(), 1
        )  # one at a time: what follows belongs to the next question
        if not more:
            raise EOFError
        line += more
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()


# ------------------------------------------------------------ words of a command line


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that words give: ``key=value``, ``key:=JSON``, ``key=@FILE``.

    Args:
        pairs: The words. A key that comes several times makes a list; of JSON and files the last
            one counts.
        schema: The tool's input schema. What it does not describe is read as JSON if it is JSON,
            else as text. The content of a file is text, or base64 of its bytes where the schema
            says so; ``@-`` is stdin.

    Raises:
        UsageError: A word has no "=", its value is not what the schema asks for, a file cannot be
            read.
    """
    texts: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for pair in pairs:
        if isinstance(_json_or_text(pair), dict):
            raise UsageError(
                f"{pair!r} is JSON, and no key=value: write --json {shlex.quote(pair)}"
            )
        name, text = split_pair(pair)
        if name.endswith(":"):
            name, text = split_pair(f"{name[:-1]}={text}")
            values[name] = _json(name, text)
        elif text.startswith("@"):
            values[name] = _from_file(name, text[1:], schema)
        else:
            texts.setdefault(name, []).append(text)
    return {**{name: _value(name, given, schema) for name, given in texts.items()}, **values}


def _json(name: str, text: str) -> Any:
    try:
        return _loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name}:={text} is no JSON: {error}") from None


def _from_file(name: str, path: str, schema: Mapping[str, Any]) -> Any:
    """What a file says, as the value of one member."""
    try:
        with open(
            0 if path == STDIN else os.path.expanduser(path), "rb", closefd=path != STDIN
        ) as file:
            data = file.read()
    except OSError as error:
        literal = shlex.quote(f'{name}:="@{path}"')
        raise UsageError(
            f"{name}=@{path}: {error.strerror} (the text itself is written {literal})"
        ) from None
    field = _resolved(properties(schema).get(name), schema)
    if field.get("contentEncoding") == "base64" or field.get("format") in ("byte", "base64"):
        return base64.b64encode(data).decode()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(
            f"{name}=@{path}: it is no text in UTF-8, and {name} is no base64"
        ) from None
    return text if field.get("type") in ("string", None) else _value(name, [text], schema)


def split_pair(pair: str) -> tuple[str, str]:
    """``key=value`` as key and value.

    Raises:
        UsageError: It is something else.
    """
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{pair!r} is not key=value, such as name=Ada")
    return name, text


def _value(name: str, texts: Sequence[str], schema: Mapping[str, Any]) -> Any:
    """What these texts stand for, as the value of one member: the first reading that the schema
    takes.

    Raises:
        UsageError: It takes none.
    """
    read = [_json_or_text(text) for text in texts]
    words = [WORDS[text.lower()] for text in texts if text.lower() in WORDS]
    readings: list[Any] = [read, list(texts), words]
    if len(texts) == 1:
        readings = [read[0], texts[0], *words, *readings]
    root = {word: schema[word] for word in ("$schema", "$defs", "definitions") if word in schema}
    try:
        field = {name: properties(schema).get(name, True)}
        check = compile_peer_check({**root, "properties": field}, where="the schema")
    except (ValueError, ImportError):  # only the server can tell what it takes
        return readings[0]
    for value in readings:
        if check({name: value}) is None:
            return value
    raise UsageError(str(check({name: readings[0]})))


def _json_or_text(text: str) -> Any:
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        return text


def _loads(text: str) -> Any:
    value = json.loads(text)
    json.dumps(value, allow_nan=False)  # NaN and Infinity are no JSON
    return value


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
        raise UsageError(f'{origin}: no JSON, such as {{"name": 1}}: {error}') from None
    if not isinstance(value, dict):
        raise UsageError(f'{origin}: a JSON object was expected, such as {{"name": 1}}')
    return value


# ------------------------------------------------------------ a schema in a few words


def properties(schema: Any) -> Mapping[str, Any]:
    """The schemas of an object's fields, by name."""
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def required(schema: Any) -> list[str]:
    """The names of the fields that an object must have."""
    value = schema.get("required") if isinstance(schema, Mapping) else None
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def parameters(schema: Any, root: Mapping[str, Any], deep: bool = True, most: int = 8) -> str:
    """The fields of an object as Python would declare them: ``bread: string, loaves: integer = 1,
    [note: string]``.

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
    """A schema in a few words: "string", "integer or null", "one of 1, 2", '"s" = Small or "l" =
    Large'; "any" when it says nothing simple.

    Args as `parameters`.
    """
    schema = _resolved(schema, root) if most else {}
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(
            json.dumps(each, ensure_ascii=False) for each in schema["enum"]
        )
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False) + (
            f" = {schema['title']}" if "title" in schema else ""
        )
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            forms = [
                kind(each, root, deep, max(most - 3, 0)) for each in schema[word][:MOST_FORMS]
            ]  # each may be all
            return " or ".join([*forms, *["..."] * (len(schema[word]) > MOST_FORMS)]) or "any"
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


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """A schema behind its local references; an empty one when there is none or it cannot be
    found."""
    for _ in range(MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            schema = (
                schema.get(part.replace("~1", "/").replace("~0", "~"))
                if isinstance(schema, Mapping)
                else None
            )
    return {}
