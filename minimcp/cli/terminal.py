"""Terminal input and output of the commands: color, ``--answer``, and arguments in JSON.

What hosts in a terminal need too is in `minimcp.terminal`.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Sequence

from .. import Answer, ElicitRequest, terminal
from . import UsageError, one_line, print_stderr

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}

# The form that ``--answer`` fills in for a question without fields, which asks for yes or no.
AGREEMENT: Mapping[str, Any] = {"properties": {"agree": {"type": "boolean"}}, "required": ["agree"]}


def wants_color(stream: Any) -> bool:
    """Return whether to print in color: on a color terminal, unless NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, color: bool) -> str:
    """Return the text in a style of `STYLES`, or unchanged without color."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if color else text


class FormPrompter:
    """A callback for ``elicit=`` of `connect`: `minimcp.terminal.ask`, with answers given before.

    If stdin is not a terminal, it declines every question that ``answers`` do not answer.
    Thread-safe.

    Args:
        answers: ``key=value`` arguments for fields; the user is not asked for these fields.

    Attributes:
        unused: The names of the answers that no question has asked for.
    """

    def __init__(self, answers: Sequence[str] = ()) -> None:
        self._answers = answers
        self.unused = {split_pair(answer)[0].rstrip(":"): None for answer in answers}

    def __call__(self, request: ElicitRequest) -> Answer:
        form: Any = request.schema
        if request.mode == "form" and not terminal.properties(form):
            form = AGREEMENT
        given: dict[str, Any] = {}
        problem = ""
        try:
            given = self._given(form)
        except UsageError as error:
            problem = f"--answer: {error}"
        filled = {**request.defaults, **given}
        missing = [name for name in terminal.required(form) if name not in filled]
        is_complete = bool(given) and not missing
        if not problem and not is_complete:
            if sys.stdin is not None and sys.stdin.isatty():
                return terminal.fill(request, given)
            problem = "stdin is not a terminal"
            if missing:
                problem += f", and there is no --answer {missing[0]}=..."
        print_stderr(terminal.question_of(request))
        if problem:
            print_stderr(f"declined: {one_line(problem)}")
            return Answer("decline")
        if form is AGREEMENT:
            return Answer("accept", {}) if given["agree"] else Answer("decline")
        return Answer("accept", filled)

    def _given(self, form: Any) -> dict[str, Any]:
        """Return the values that ``answers`` have for fields of a form.

        Raises:
            UsageError: A value does not match the form's schema.
        """
        fields = terminal.properties(form)
        for name in fields:
            self.unused.pop(name, None)
        known = [answer for answer in self._answers if split_pair(answer)[0].rstrip(":") in fields]
        return read_pairs(known, form or {})


@contextmanager
def _usage() -> Iterator[None]:
    """Raise a ValueError as a UsageError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_pairs(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that words stand for; see `minimcp.terminal.read_arguments`. Raise
    UsageError."""
    with _usage():
        return terminal.read_arguments(pairs, schema)


def split_pair(pair: str) -> tuple[str, str]:
    """Split ``key=value``. Raise UsageError."""
    with _usage():
        return terminal.split_pair(pair)


def read_object(text: str, origin: str) -> dict[str, Any]:
    """Parse arguments that are written as one JSON object.

    Args:
        text: The JSON.
        origin: The source of the text, for the error message.

    Raises:
        UsageError: The text is not a JSON object.
    """
    try:
        value = terminal.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{origin}: not valid JSON, as in {{"name": 1}}: {error}') from None
    if not isinstance(value, dict):
        raise UsageError(f'{origin}: not a JSON object, as in {{"name": 1}}')
    return value
