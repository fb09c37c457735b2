"""Advice for common mistakes in tools, which follows the message of an exception."""

from __future__ import annotations

from ..errors import describe

# The name of the exception's class, words in its message, and the advice.
_ADVICE = (
    (
        "EOFError",
        "EOF",
        ": a tool cannot read the terminal with input(): ask the user with ctx.elicit(...)",
    ),
    (
        "ProgrammingError",
        "SQLite objects created in a thread",
        " Tools run on several threads: connect in the tool, "
        "or with check_same_thread=False and a lock, or write executor=Serial() and connect in "
        "a tool that runs on it",
    ),
    (
        "AuthorizationError",
        "",
        ": middleware cannot protect a server, because lists are served without it. "
        "Server(..., auth=minimcp.Bearer(...)) rejects a wrong token with HTTP 401",
    ),
)


def describe_with_advice(error: BaseException) -> str:
    """Return the text of an exception for the model, with advice if the cause is well known."""
    name = type(error).__name__
    text = describe(error)
    for kind, words, advice in _ADVICE:
        if kind == name and words in text:
            return text + advice
    return text
