# ruff: noqa: E501
"""Docstrings in three styles."""

from __future__ import annotations

from typing import Dict, Optional

from minimcp.schema.docstrings import read_docstring

from ..rows import for_each

GOOGLE = """Do it.

    More about it.

    Args:
        a: First.
        b (int, optional): Second
            goes on.

            And on: here.
        **c: Third.

    Returns:
        d: Nothing.

    Note:
        Not kept.

    Last words.
    """

NUMPY = """Do it.

    Parameters
    ----------
    a : int
        First.
    b, c : str
        Both.
    d

    Returns
    -------
    e : int
        Result.

    Notes
    -----
    Nothing.
    """

SPHINX = """Do it.

    :param a: First
        goes on.
    :param int b: Second.
    :type a: int
    :returns: what
    :param:
    """


@for_each(
    ("text", "description", "parameters"),
    [
        (None, "", {}),
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("One line.\nNo indent.", "One line.\nNo indent.", {}),
        (
            GOOGLE,
            "Do it.\n\nMore about it.\n\nLast words.",
            {"a": "First.", "b": "Second goes on. And on: here.", "c": "Third."},
        ),
        (NUMPY, "Do it.", {"a": "First.", "b": "Both.", "c": "Both."}),
        (SPHINX, "Do it.", {"a": "First goes on.", "b": "Second."}),
        ("Args:", "", {}),
        ("Do.\n\n    Args:\n        a line that is none\n        a: b", "Do.", {"a": "b"}),
        ("Returns\nnothing special", "Returns\nnothing special", {}),
    ],
)
def test_each_style(text: Optional[str], description: str, parameters: Dict[str, str]) -> None:
    assert read_docstring(text) == (description, parameters)
