# ruff: noqa: E501
"""Docstrings in three styles, and odd ones."""

from __future__ import annotations

import time
from typing import Dict, Optional

from minimcp.schema.introspection import read_docstring

from ..rows import for_each

DOCSTRINGS = [
    ('nothing', None, '', {}),
    ('one line', 'One line.\nNo indent.', 'One line.\nNo indent.', {}),
    ('no entry', 'Args:', '', {}),
    ('no section', 'Returns\nnothing special', 'Returns\nnothing special', {}),
    ('a line that is no entry', 'Do.\n\n    Args:\n        a line that is none\n        a: b', 'Do.', {'a': 'b'}),
    ('google', 'Do it.\n\n    More about it.\n\n    Args:\n        a: First.\n        b (int, optional): Second\n            goes on.\n\n            And on: here.\n        **c: Third.\n\n    Returns:\n        d: Nothing.\n\n    Note:\n        Not kept.\n\n    Last words.\n    ',
     'Do it.\n\nMore about it.\n\nLast words.', {'a': 'First.', 'b': 'Second goes on. And on: here.', 'c': 'Third.'}),
    ('numpy, two names', 'Do it.\n\n    Parameters\n    ----------\n    b, c : str\n        Both.\n    d\n\n    Notes\n    -----\n    Nothing.\n', 'Do it.', {'b': 'Both.', 'c': 'Both.'}),
    ('sphinx, no name', 'Do it.\n\n    :param a: First\n        goes on.\n    :type a: int\n    :param:\n', 'Do it.', {'a': 'First goes on.'}),
    ('crlf', 'Do it.\r\n\r\n    Args:\r\n        a: First.\r\n            more.\r\n        b: Second.\r\n    ',
     'Do it.', {'a': 'First. more.', 'b': 'Second.'}),
    ('returns inline', 'Do it.\n\n    Args:\n        a: First.\n\n    Returns: the thing\n    ',
     'Do it.\n\nReturns: the thing', {'a': 'First.'}),
    ('flush args', 'Do it.\n\n    Args:\n    a: First.\n    b: Second.\n\n    Returns:\n    x\n    ',
     'Do it.\n\nReturns:\nx', {'a': 'First.', 'b': 'Second.'}),
    ('parameters colon', 'Do it.\n\n    Parameters:\n        a (str): First.\n        b (Optional[List[int]], optional): Second: with colon.\n',
     'Do it.', {'a': 'First.', 'b': 'Second: with colon.'}),
    ('paramtype paren', 'Do it.\n\n    Args:\n        a (Dict[str, Tuple[int, ...]]): First.\n        cb (Callable[[int], str]): Call (or not).\n        u (Union[str, int] (opt)): z\n',
     'Do it.', {'a': 'First.', 'cb': 'Call (or not).', 'u': 'z'}),
    ('dash google', 'Do it.\n\n    Args:\n        a - First.\n        b -- Second.\n        `c`: Third.\n        *d: Fourth\n        - e: Fifth.\n        * f: Sixth\n',
     'Do it.', {'a': 'First.', 'b': 'Second.', 'c': 'Third.', 'd': 'Fourth', 'e': 'Fifth.', 'f': 'Sixth'}),
    ('md args', 'Do it.\n\n    **Args:**\n        a: First.\n\n    ## Parameters\n    - b: Second.\n    - `c` (int): third\n',
     'Do it.', {'a': 'First.', 'b': 'Second.', 'c': 'third'}),
    ('numpy', "Do it.\n\n    Parameters\n    ----------\n    a : int, optional\n        First.\n\n        Second para: with colon\n\n          indented code\n    b : {'x', 'y'}, default 'x'\n        Choice.\n    *args\n        Rest.\n    c: str\n        No space.\n    d : int\n\n    Returns\n    -------\n    str\n        r\n\n    See Also\n    --------\n    other : x\n",
     'Do it.', {'a': 'First. Second para: with colon indented code', 'b': 'Choice.', 'args': 'Rest.', 'c': 'No space.'}),
    ('numpy unknown section', 'Do it.\n\n    Parameters\n    ----------\n    a : int\n        First.\n\n    Custom\n    ------\n    x : y\n        z\n',
     'Do it.\n\nCustom\n------\nx : y\n    z', {'a': 'First.'}),
    ('sphinx', 'Do it.\n\n    :param a: First.\n    :type a: int\n    :param str b: Second\n        more.\n    :param c:\n        Third on next line.\n    :param Optional[Dict[str, int]] d: Fourth: colon.\n    :parameter e: Fifth\n    :arg f: Sixth.\n    :key g: Seventh\n    :keyword h: Eighth\n    :raises ValueError: if bad\n    :return: x\n    :rtype: int\n    Trailing text.\n    ',
     'Do it.\n\nTrailing text.', {'a': 'First.', 'b': 'Second more.', 'c': 'Third on next line.', 'd': 'Fourth: colon.', 'e': 'Fifth', 'f': 'Sixth.', 'g': 'Seventh', 'h': 'Eighth'}),
    ('sphinx blank', 'Do it.\n\n    :param a: First.\n\n        Second paragraph.\n\n    :param b: B.\n\n    More text.\n    ',
     'Do it.\n\nMore text.', {'a': 'First. Second paragraph.', 'b': 'B.'}),
    ('sphinx role', 'Use :class:`Foo` and :meth:`bar`: fine.\n\n    :mod:`x`: a module\n    :note: Something.\n    ',
     'Use :class:`Foo` and :meth:`bar`: fine.\n\n:mod:`x`: a module\n:note: Something.', {}),
    ('arg words', 'Do it.\n\n    Arguments:\n        a: First.\n\n    Keyword Arguments:\n        b: Second.\n\n    Other Parameters:\n        c: Third.\n\n    Params:\n        d: 4\n\n    Inputs:\n        e: 5\n\n    Parameter:\n        f: 6\n\n    Arg:\n        g: 7\n\n    Required Args:\n       h: 8\n',
     'Do it.', {'a': 'First.', 'b': 'Second.', 'c': 'Third.', 'd': '4', 'e': '5', 'f': '6', 'g': '7', 'h': '8'}),
    ('continuation same indent', 'Do it.\n\n    Args:\n        a: First line\n        goes on here.\n        b: Second.\n',
     'Do it.', {'a': 'First line goes on here.', 'b': 'Second.'}),
    ('continuation colon', 'Do it.\n\n    Args:\n        a: First line, which\n        default: 3 is used.\n        b: Second.\n',
     'Do it.', {'a': 'First line, which', 'default': '3 is used.', 'b': 'Second.'}),
    ('unicode', 'Mach\u2028es.\n\n    Args:\n        größe: Wie groß.\n        b\xa0: x\n',
     'Mach\u2028es.', {'größe': 'Wie groß.', 'b': 'x'}),
    ('heading', '# Title\n\n    Some *markdown*.\n\n    ### Args\n\n    - **a**: First.\n    - **b** (`int`): Second.\n\n    ### Returns\n\n    x\n',
     '# Title\n\nSome *markdown*.\n\n### Returns\n\nx', {'a': 'First.', 'b': 'Second.'}),
]  # fmt: skip


@for_each(("what", "text", "description", "parameters"), DOCSTRINGS)
def test_docstrings_are_read_as_they_were_meant(
    what: str, text: Optional[str], description: str, parameters: Dict[str, str]
) -> None:
    assert read_docstring(text) == (description, parameters), what


@for_each(
    "text",
    [
        "Args:\n" + "    a: b\n" * 5000,
        ":param " * 20_000,
        "Parameters\n----------\n" * 2000,
        " " * 50_000 + ":" * 50_000,
        "Args:\n    " + "a" * 50_000 + " " + "(" * 50_000,
        "Args:\n    a (" + " " * 50_000 + "x",
        "```\n" * 2001,
        "Parameters\n---\n" + ", ".join(["a"] * 20_000) + " !",
        "Args:\n" + "a: b\n" * 5000,
        "**" * 20_000,
        "# " * 20_000,
    ],
)
def test_no_docstring_takes_long(text: str) -> None:
    began = time.process_time()
    read_docstring(text)
    assert time.process_time() - began < 5


SECTIONS = [
    "Returns", "Return", "Raises", "Yields", "Note", "Notes", "Warning", "Warnings", "Example", "Examples",
    "See Also", "Todo", "References", "Args", "Parameters",
]  # fmt: skip
HEADERS = ["{}:", "**{}**", "**{}:**", "## {}", "### {}:"]
BODIES = [
    "- first: what stands below it\n- second: more", "* first", "first, as prose.\nAnd more.", "1. first\n   more",
    "```python\nfirst(1)\n```", "\nfirst, after a blank line", "first\n\nafter it", "`first` is it", "    first",
    "    - first: indented\n    - second", "    first\n\n    second\n\nLast words.",
]  # fmt: skip


@for_each(
    ("section", "header", "body"),
    [(section, header, body) for section in SECTIONS for header in HEADERS for body in BODIES],
)
def test_a_section_is_kept_or_dropped_as_a_whole(section: str, header: str, body: str) -> None:
    head = header.format(section)
    description, parameters = read_docstring(f"Do it.\n\n{head}\n{body}\n")
    assert description.startswith("Do it.")
    assert (head in description) == ("first" in description)
    assert (head in description) or "first" not in description
    if section not in ("Args", "Parameters"):
        assert not parameters
        assert (head in description) == (not body.startswith("    "))


@for_each(
    ("text", "description"),
    [
        ("Do it.\n\n:returns: the first\nof two lines\n\nMore.", "Do it.\n\nMore."),
        ("Do it.\n\n:raises OSError: if there is\nnone\n:rtype: int\nMore.", "Do it.\n\nMore."),
        ("Do it.\n\n:param a: the first\nof two lines\n", "Do it."),
        ("Do it.\n\n```\nReturns:\n    a: 1\n```\n", "Do it.\n\n```\nReturns:\n    a: 1\n```"),
        ("Do it.\n\n.. note::\n    Kept.\n", "Do it.\n\n.. note::\n    Kept."),
        ("Do it.\n\nReturns\n-------\nint\n    The sum.\n", "Do it."),
        ("Do it.\n\nArgs:\n    a: First.\n\nReturns:\n- b: c\n", "Do it.\n\nReturns:\n- b: c"),
        ("Do it.\n\nArgs:\n- b: c\n\nReturns:\n- d: e\n", "Do it.\n\nReturns:\n- d: e"),
    ],
)
def test_lines_of_a_section(text: str, description: str) -> None:
    assert read_docstring(text)[0] == description


def test_a_docstring_that_is_not_a_string_is_ignored() -> None:
    for other in (property.__dict__["__doc__"], 5, b"Text.", ["Text."]):
        assert read_docstring(other) == ("", {})
