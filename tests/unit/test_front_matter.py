"""Front matter: the accepted YAML, errors with their line, and bounded work for any text."""

from __future__ import annotations

import time
from typing import Any, Callable

import pytest

from minimcp.extensions.front_matter import MAX_CHARACTERS, check_front_matter, read_front_matter

READ = [
    # plain texts
    ("a: x", {"a": "x"}),
    ("a: x y  z # not this", {"a": "x y  z"}),
    ("a: http://x.y/?q#fragment", {"a": "http://x.y/?q#fragment"}),
    ("a: -x, ?y, :z and it's", {"a": "-x, ?y, :z and it's"}),
    ("a: one\n  two\n\n  three\n", {"a": "one two\nthree"}),
    ("a:\n  on the next\n  line", {"a": "on the next line"}),
    ("a: # a comment\n  x", {"a": "x"}),
    # what texts mean
    ("a: 1\nb: -2.50\nc: 1e3\nd: 012", {"a": 1, "b": -2.5, "c": 1e3, "d": 12}),
    ("a: 0x1F\nb: 0o17\nc: .5", {"a": 31, "b": 15, "c": 0.5}),
    ("a: true\nb: False\nc: null\nd: ~\ne:\nf: yes", {
        "a": True, "b": False, "c": None, "d": None, "e": None, "f": "yes",
    }),
    ("a: 2026-07-28\nb: 1.2.3\nc: '1'\nd: \"true\"", {"a": "2026-07-28", "b": "1.2.3", "c": "1", "d": "true"}),
    # quotes
    ("a: 'it''s: # here'", {"a": "it's: # here"}),
    ('a: "\\"\\u00e9\\t\\\\: # here"', {"a": '"\u00e9\t\\: # here'}),
    ("a: 'one\n  two\n\n  three'", {"a": "one two\nthree"}),
    ("'a b': x\n\"c: d\": y", {"a b": "x", "c: d": "y"}),
    # texts of several lines
    ("a: |\n  x\n   y # z\n\n  : -\nb: 1", {"a": "x\n y # z\n\n: -\n", "b": 1}),
    ("a: |-\n  x\n\nb: |+\n  y\n\nc: |\n  z", {"a": "x", "b": "y\n\n", "c": "z\n"}),
    ("a: > # folded\n  x\n  y\n\n  z\n", {"a": "x y\nz\n"}),
    ("a: >-\nb: |\n\nc: |+\n\n    \nd: |+\ne: |\n    ", {"a": "", "b": "", "c": "\n\n", "d": "", "e": ""}),
    # mappings and lists
    ("a:\n  b:\n    c: 1\n  d: 2\ne: 3", {"a": {"b": {"c": 1}, "d": 2}, "e": 3}),
    ("a:\n- x\n- y\nb:\n  - z", {"a": ["x", "y"], "b": ["z"]}),
    ("a:\n  - b: 1\n    c: 2\n  - - x\n    - y\n  -\n  -\n    d: 3", {
        "a": [{"b": 1, "c": 2}, ["x", "y"], None, {"d": 3}],
    }),
    ("# first\na: [x, 'y z', [1, true], {b: c, 'd':1}, ] # last\n  # and this\nb: {}\nc: []", {
        "a": ["x", "y z", [1, True], {"b": "c", "d": 1}], "b": {}, "c": [],
    }),
    ("a: [x,\n  # between\n  y\n  ]", {"a": ["x", "y"]}),
    ("  a: 1\n  b: 2", {"a": 1, "b": 2}),
    ("", {}),
    ("# nothing", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "found"), READ, ids=[str(number) for number in range(len(READ))])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_accepted_front_matter(text: str, found: Any, end: str) -> None:
    whole = f"---\n{text}\n---\n# body\n---\n"
    got = read_front_matter(whole.replace("\n", end))
    assert got == found
    assert repr(got) == repr(found)  # 1 is not True


def test_a_byte_order_mark_and_blanks_after_the_lines() -> None:
    assert read_front_matter("\ufeff--- \na: 1\n---\t") == {"a": 1}


REFUSED = [
    ("a: &x 1", "line 2", "anchors"),
    ("b: 1\na: *x", "line 3", "anchors"),
    ("a: !!str x", "line 2", "tags"),
    ("<<: {a: 1}", "line 2", "key: value"),
    ("%YAML 1.2", "line 2", "key: value"),
    ("? a\n: b", "line 2", "key: value"),
    ("just words", "line 2", "key: value"),
    ("- a", "line 3", "key: value"),
    ("a: b: c", "line 2", "quotes"),
    ("a: x # c\n  y", "line 2", "quotes"),
    ("a: 'x' y", "line 2", "quotes"),
    ("a: 'x", "line 2", "quotes"),
    ("a: - x", "line 2", "quotes"),
    ("a: @x", "line 2", "quotes"),
    ('a: "\\x41"', "line 2", "escapes"),
    ('a: "\\ud800"', "line 2", "escapes"),
    ("a: 1\nb: 2\na: 3", "line 4", "unique"),
    ("1: x", "line 2", "a key must be text"),
    ("a: {1: x}", "line 2", "braces"),
    ("a: {b}", "line 2", "braces"),
    ("a: {b: 1, b: 2}", "line 2", "braces"),
    ("a: [1, 2", "line 2", "bracket"),
    ("a: [1 2: 3]", "line 2", "bracket"),
    ("a: [1}", "line 2", "quotes"),
    ("a:\n\tb: 1", "line 3", "tab"),
    ("a:\n  b: 1\n c: 2", "line 4", "equal indentation"),
    ("a: 1\n- b", "line 3", "key: value"),
    ("a: |2\n  x", "line 2", "quotes"),
    ("a: |\n    x\n  y", "line 4", "equal indentation"),
    ("a: |\n\n  x", "line 3", "the first must not be blank"),
    ("a: >\n  x\n    y", "line 4", "equal indentation"),
    ("a: .inf", "line 2", "number"),
    ("a: .NaN", "line 2", "number"),
    ("a: 9007199254740993", "line 2", "number"),
    ("a: " + "1" * 60_000, "line 2", "number"),
    ("a: 1\nb: \x07", "line 3", "control"),
    ("a: 1\rb: 2", "line 2", "control"),
    ("a: " + "[" * 60_000, "line 2", "deep"),
    ("a: " + "{a: " * 10_000, "line 2", "deep"),
    ("\n".join(" " * depth + "a:" for depth in range(20)), "line 18", "deep"),
    ("a:\n" + "- " * 20 + "x", "line 3", "deep"),
]


@pytest.mark.parametrize(
    ("text", "line", "why"), REFUSED, ids=[str(number) for number in range(len(REFUSED))]
)
def test_rejected_front_matter(text: str, line: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}: .*{why}"):
        read_front_matter(f"---\n{text}\n---\n")


@pytest.mark.parametrize("text", [
    "", "# no front matter", " ---\na: 1\n---", "---\na: 1", "---\n" + "a" * MAX_CHARACTERS + "\n---",
])  # fmt: skip
def test_files_without_front_matter(text: str) -> None:
    with pytest.raises(ValueError, match="^line 1: front matter"):
        read_front_matter(text)


FILLED = MAX_CHARACTERS - 100

BOMBS = [
    "a: " + " " * FILLED + "x", " " * FILLED + "#", "a" * FILLED, "'" * FILLED, "- " * (FILLED // 2),
    "a: " + "x " * (FILLED // 2), "a: '" + "''" * (FILLED // 3), 'a: "' + "\\" * FILLED, "a: " + ": " * 30_000,
    "a: x" + "\n" * FILLED + "#", "a: x #" + " #" * (FILLED // 3), "a: " + ("x" * 50 + "\n\n\n  ") * 1000,
    "a: [" + "a," * (FILLED // 2) + "]", "a: {" + ",".join(f"k{each}: v" for each in range(6000)),
    "\n".join(["- -"] * 15_000), "a:\n" + "  x\n" * (FILLED // 4), "a: |\n" + "  x\n" * (FILLED // 4),
    "a: >\n" + "\n" * FILLED + "  x", "\n".join(f"a{each}: &a [*a, *a]" for each in range(4000)),
]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS, ids=[str(number) for number in range(len(BOMBS))])
def test_no_text_is_expensive(bomb: str) -> None:
    """Each takes some milliseconds. A parser that reads everything again for each character takes
    minutes."""
    begun = time.process_time()
    try:
        read_front_matter(f"---\n{bomb}\n---\n")
    except ValueError:
        pass
    assert time.process_time() - begun < 5


def test_required_fields_of_a_skill() -> None:
    check_front_matter({"name": "a-2", "description": "x", "more": [1]}, "a-2")


@pytest.mark.parametrize(("name", "folder", "why"), [
    ("a", "b", "the name of the folder"), (None, "a", "the name of the folder"), (1, "a", "the name of the folder"),
    ("A", "A", "a-z"), ("", "", "a-z"), ("a--b", "a--b", "a-z"), ("-a", "-a", "a-z"), ("a\n", "a\n", "a-z"),
    ("a" * 65, "a" * 65, "64"),
])  # fmt: skip
def test_invalid_names(name: Any, folder: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_front_matter({"name": name, "description": "x"}, folder)


@pytest.mark.parametrize("description", [None, "", " \n", 1, ["x"]])
def test_invalid_descriptions(description: Any) -> None:
    with pytest.raises(ValueError, match="description"):
        check_front_matter({"name": "a", "description": description}, "a")


@pytest.mark.parametrize(
    ("nested", "most"),
    [
        (lambda deep: "a: " + "[" * deep + "]" * deep, 15),
        (lambda deep: "a:\n- " + "[" * deep + "]" * deep, 14),
        (lambda deep: "a:\n" + "- " * deep + "x", 15),
        (lambda deep: "\n".join(" " * each + "a:" for each in range(deep + 1)), 15),
    ],
)
def test_values_nest_as_deep_as_may_be_and_no_deeper(
    nested: Callable[[int], str], most: int
) -> None:
    read_front_matter(f"---\n{nested(most)}\n---\n")
    with pytest.raises(ValueError, match="16 levels deep"):
        read_front_matter(f"---\n{nested(most + 1)}\n---\n")
