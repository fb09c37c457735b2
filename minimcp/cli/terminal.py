"""Terminal input and output: JSON, color, a progress bar, forms for a server's questions, and
arguments written as ``key=value``.

`read_pairs` converts ``key=value`` arguments as a schema says, and `kind` summarizes a schema.
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
from . import UsageError, clean, one_line, print_stderr

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}

# Words that stand for a value, if the schema does not allow a string.
WORDS = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
    "": None,
}

# The form that ``--answer`` fills in for a question without fields, which asks for yes or no.
AGREEMENT: Mapping[str, Any] = {"properties": {"agree": {"type": "boolean"}}, "required": ["agree"]}

# Names of "string" with a format.
# The members of a number's schema that bound it, and the words for them.
BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "up to",
    "exclusiveMaximum": "below",
}

FORMATS = {"date": "date", "time": "time", "date-time": "date and time"}

# Maximum number of consecutive ``$ref``; beyond it a schema counts as circular.
MAX_REFERENCES = 20

# Maximum number of alternatives of an ``anyOf`` or ``oneOf`` that are shown.
MAX_ALTERNATIVES = 8

# Characters inside the brackets of the progress bar.
BAR_WIDTH = 20

# Minimum interval between two progress lines if stderr is not a terminal.
PROGRESS_SECONDS = 1.0

STDIN = "-"

# Maximum characters of a progress line.
WIDTH = 79


def as_json(value: Any) -> str:
    """Return indented JSON for a terminal.

    Control characters are escaped, and so is what the encoding of stdout cannot represent.
    """
    has_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not has_unicode)
    return json_printable(text)


def wants_color(stream: Any) -> bool:
    """Return whether to print in color: on a color terminal, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, color: bool) -> str:
    """Return the text in a style of `STYLES`, or unchanged without color."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if color else text


class ProgressBar:
    """A callback for ``on_progress`` that prints to stderr.

    On a terminal it redraws one line; elsewhere it prints at most one line per second. Not
    thread-safe.
    """

    def __init__(self) -> None:
        self._redraws = sys.stderr is not None and sys.stderr.isatty()
        self._drawn = ""
        self._shown = ""
        self._shown_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        message = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            drawn = f"{progress.progress:g} {message}"
        else:
            fraction = min(1.0, max(0.0, progress.progress / progress.total))
            bar = ("#" * int(fraction * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
            drawn = f"[{bar}] {fraction:4.0%} {message}"
        drawn = drawn.rstrip()[:WIDTH]
        if self._redraws:
            sys.stderr.write("\r" + drawn.ljust(len(self._drawn)))
            sys.stderr.flush()
        self._drawn = drawn
        if not self._redraws and time.monotonic() - self._shown_at >= PROGRESS_SECONDS:
            self._show()

    def _show(self) -> None:
        if self._drawn != self._shown:
            print_stderr(self._drawn)
        self._shown = self._drawn
        self._shown_at = time.monotonic()

    def end(self) -> None:
        """End the redrawn line, or print the last line if it was held back. Idempotent."""
        if not self._redraws:
            self._show()
        elif self._drawn:
            print_stderr("")
            self._drawn = ""


class FormPrompter:
    """A callback for ``elicit=`` of `connect` that asks the user for each field of a form.

    Prompts go to stderr, because stdout is for the command's result. If stdin is not a terminal,
    the prompter declines every question that ``answers`` do not answer.

    Thread-safe: concurrent questions are asked one after the other.

    Args:
        before: Called before each question, to end a line that is being redrawn.
        answers: ``key=value`` arguments for fields; the user is not asked for these fields.

    Attributes:
        unused: The names of the answers that no question has asked for.
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
            print_stderr(f"{one_line(name)} asks: {clean(request.message)}".replace("\n", "\n  "))
            form: Any = request.schema
            if request.mode == "form" and not properties(form):
                form = AGREEMENT
            try:
                given = self._given(form)
                if form is AGREEMENT and given:
                    return Answer("accept", {}) if given["agree"] else Answer("decline")
                filled = {**request.defaults, **given}
                missing = [name for name in required(form) if name not in filled]
                if given and not missing:
                    return Answer("accept", filled)
                if sys.stdin is None or not sys.stdin.isatty():
                    hint = f", and there is no --answer {missing[0]}=..." if missing else ""
                    print_stderr(f"declined: stdin is not a terminal{one_line(hint)}")
                    return Answer("decline")
                return _ask(request, given)
            except UsageError as error:
                print_stderr(f"declined: --answer: {one_line(str(error))}")
                return Answer("decline")
            except EOFError:
                print_stderr("\ncancelled")
                return Answer("cancel")

    def _given(self, form: Any) -> dict[str, Any]:
        """Return the values that ``answers`` have for fields of a form.

        Raises:
            UsageError: A value does not match the form's schema.
        """
        fields = properties(form)
        for name in fields:
            self.unused.pop(name, None)
        known = [answer for answer in self._answers if split_pair(answer)[0].rstrip(":") in fields]
        return read_pairs(known, form or {})


def _ask(request: ElicitRequest, answered: Mapping[str, Any]) -> Answer:
    if request.mode == "url":
        host = one_line(request.host or "it")
        if request.host is not None and request.looks_odd:
            host += " (this name has non-ASCII letters and may imitate another)"
        print_stderr(f"Open this page if you trust {host}:\n{one_line(request.url or '')}")
    fields = properties(request.schema) if request.mode == "form" else {}
    if not fields:
        agreed = WORDS.get(read_line("Agree? [y/N] ").lower())
        return Answer("accept", {}) if agreed else Answer("decline")
    print_stderr("(press Enter for the value in brackets, Ctrl-D to cancel)")
    given = {
        name: answered[name] if name in answered else _ask_field(name, request.schema or {})
        for name in fields
    }
    return Answer("accept", {name: value for name, value in given.items() if value is not None})


def _ask_field(name: str, form: Mapping[str, Any]) -> Any:
    """Ask the user for one field of a form; return None if an optional field is left out."""
    field = properties(form)[name]
    schema: Mapping[str, Any] = field if isinstance(field, Mapping) else {}
    if isinstance(schema.get("description"), str):
        print_stderr(f"  {one_line(schema['description'])}")
    title = schema.get("title")
    default = schema.get("default")
    is_required = name in required(form)
    prompt = one_line(f"{title if isinstance(title, str) else name} ({kind(schema)})")
    if default is not None:
        prompt += f" [{one_line(_as_text(default))}]"
    elif not is_required:
        prompt += " []"
    while True:
        text = read_line(f"  {prompt}: ")
        if not text and (default is not None or not is_required):
            return default
        texts = [text]
        if schema.get("type") == "array" and not text.startswith("["):
            texts = [item.strip() for item in text.split(",")]
        try:
            return _value(name, texts, form)
        except UsageError as error:
            print_stderr(f"  {one_line(str(error))}")


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_as_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_line(prompt: str) -> str:
    """Print a prompt on stderr and return the line that the user types.

    It reads from the descriptor, because a thread that waits in ``sys.stdin`` would prevent the
    interpreter from exiting after Ctrl-C.

    Raises:
        EOFError: The user has closed the input with Ctrl-D.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\n"):
        # One byte at a time: the next line belongs to the next question.
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            raise EOFError
        line += byte
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()


# ------------------------------------------------------------ arguments on a command line


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that ``key=value``, ``key:=JSON`` and ``key=@FILE`` stand for.

    Args:
        pairs: The arguments as typed. A key with several texts becomes a list; for JSON and files
            the last one counts.
        schema: The tool's input schema. A value that it does not describe is parsed as JSON if
            possible, and otherwise is a string. A file's content is text, or base64 of its bytes
            if the schema says so; ``@-`` is stdin.

    Raises:
        UsageError: An argument has no "=", a value does not match the schema, or a file cannot
            be read.
    """
    texts: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for pair in pairs:
        if isinstance(_json_or_text(pair), dict):
            raise UsageError(f"{pair!r} is JSON, not key=value: write --json {shlex.quote(pair)}")
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
        raise UsageError(f"{name}:={text} is not valid JSON: {error}") from None


def _from_file(name: str, path: str, schema: Mapping[str, Any]) -> Any:
    """Return the content of a file as the value of one argument."""
    try:
        source = 0 if path == STDIN else os.path.expanduser(path)
        with open(source, "rb", closefd=path != STDIN) as file:
            data = file.read()
    except OSError as error:
        literal = shlex.quote(f'{name}:="@{path}"')
        raise UsageError(
            f"{name}=@{path}: {error.strerror} (for the text itself write {literal})"
        ) from None
    field = _resolved(properties(schema).get(name), schema)
    if field.get("contentEncoding") == "base64" or field.get("format") in ("byte", "base64"):
        return base64.b64encode(data).decode()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(
            f"{name}=@{path}: the file is not UTF-8, and the schema of {name} is not base64"
        ) from None
    return text if field.get("type") in ("string", None) else _value(name, [text], schema)


def split_pair(pair: str) -> tuple[str, str]:
    """Split ``key=value``.

    Raises:
        UsageError: There is no "=", or the key is empty.
    """
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{pair!r} is not key=value, as in name=Ada")
    return name, text


def _value(name: str, texts: Sequence[str], schema: Mapping[str, Any]) -> Any:
    """Return the first interpretation of the texts that the schema accepts for this argument.

    Raises:
        UsageError: The schema accepts none.
    """
    decoded = [_json_or_text(text) for text in texts]
    words = [WORDS[text.lower()] for text in texts if text.lower() in WORDS]
    readings: list[Any] = [decoded, list(texts), words]
    if len(texts) == 1:
        readings = [decoded[0], texts[0], *words, *readings]
    root = {word: schema[word] for word in ("$schema", "$defs", "definitions") if word in schema}
    try:
        field = {name: properties(schema).get(name, True)}
        check = compile_peer_check({**root, "properties": field}, where="the schema")
    except (ValueError, ImportError):  # only the server can check the value
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
    json.dumps(value, allow_nan=False)  # NaN and Infinity are not valid JSON
    return value


def read_object(text: str, origin: str) -> dict[str, Any]:
    """Parse arguments that are written as one JSON object.

    Args:
        text: The JSON.
        origin: The source of the text, for the error message.

    Raises:
        UsageError: The text is not a JSON object.
    """
    try:
        value = _loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{origin}: not valid JSON, as in {{"name": 1}}: {error}') from None
    if not isinstance(value, dict):
        raise UsageError(f'{origin}: not a JSON object, as in {{"name": 1}}')
    return value


# ------------------------------------------------------------ summaries of a schema


def properties(schema: Any) -> Mapping[str, Any]:
    """Return the schemas of an object's fields, by name."""
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def required(schema: Any) -> list[str]:
    """Return the names of an object's required fields."""
    value = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def parameters(schema: Any, root: Mapping[str, Any], deep: bool = True, max_depth: int = 8) -> str:
    """Return the fields of an object in Python's syntax: ``bread: string, loaves: integer = 1,
    [note: string]``.

    Args:
        schema: The schema of the object.
        root: The schema that references point into.
        deep: Whether to show the fields of nested objects.
        max_depth: Maximum number of levels, because a schema may be circular.
    """
    fields = []
    for name, field in properties(schema).items():
        text = f"{name}: {kind(field, root, deep, max_depth)}{_bounds(_resolved(field, root))}"
        if isinstance(field, Mapping) and "default" in field:
            text += f" = {json.dumps(field['default'], ensure_ascii=False)}"
        elif name not in required(schema):
            text = f"[{text}]"
        fields.append(text)
    return ", ".join(fields)


def kind(schema: Any, root: Mapping[str, Any] = {}, deep: bool = True, max_depth: int = 8) -> str:
    """Summarize a schema: "string", "integer or null", "one of 1, 2", '"s" = Small or "l" = Large'.

    Return "any" if there is no short summary. See `parameters` for the arguments.
    """
    schema = _resolved(schema, root) if max_depth else {}
    if isinstance(schema.get("enum"), list):
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        return f"one of {values}"
    if "const" in schema:
        title = f" = {schema['title']}" if "title" in schema else ""
        return json.dumps(schema["const"], ensure_ascii=False) + title
    for word in ("anyOf", "oneOf"):
        alternatives = schema.get(word)
        if isinstance(alternatives, list):
            # Three levels less, because each alternative may be the whole schema again.
            names = [
                kind(each, root, deep, max(max_depth - 3, 0))
                for each in alternatives[:MAX_ALTERNATIVES]
            ]
            if len(alternatives) > MAX_ALTERNATIVES:
                names.append("...")
            return " or ".join(names) or "any"
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    if named == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {kind(schema['items'], root, deep, max_depth - 1)}"
    if deep and properties(schema):
        return f"object ({parameters(schema, root, False, max_depth - 1)})"
    if named == "string":
        return FORMATS.get(str(schema.get("format")), "string")
    return named if isinstance(named, str) else "any"


def _bounds(schema: Mapping[str, Any]) -> str:
    """Return the bounds of a number: " 1 to 9", " from 1", " below 5"; "" if it has none."""
    found = {
        word: json.dumps(schema[member])
        for member, word in BOUNDS.items()
        if type(schema.get(member)) in (int, float)
    }
    if list(found) == ["from", "up to"]:
        return f" {found['from']} to {found['up to']}"
    return "".join(f" {word} {bound}" for word, bound in found.items())


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """Follow a schema's local references; return {} if there is no schema at their end."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}
