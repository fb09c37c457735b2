"""Questions of a server: at a terminal the user is asked, otherwise they are declined; and the text
that a user types."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp as library
from minimcp import ElicitRequest
from minimcp.cli import UsageError
from minimcp.cli.terminal import FormPrompter, read_object, read_pairs
from minimcp.terminal import kind, parameters
from minimcp.types import Implementation

from ..answering import R4, R5
from ..support import WAIT
from .conftest import Done, served

CURIOUS = """
from minimcp import Context, Server

server = Server("curious")
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As on the ticket.", "minLength": 2},
        "seats": {"type": "integer", "minimum": 1, "default": 2},
        "window": {"type": "boolean", "default": False},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["tea", "cake", "jam"]}},
        "note": {"type": "string"},
    },
    "required": ["name", "size"],
}

@server.tool
def book(ctx: Context) -> dict:
    "Ask for everything."
    ctx.progress(1, 2)
    answer = ctx.elicit("Who\\x1b[31m travels?", FORM)
    return {"action": answer.action, "content": answer.content}

@server.tool
def pay(ctx: Context) -> str:
    "Ask to open a URL."
    return ctx.elicit_url("Pay, please", "https://pay.example/1").action

@server.tool
def pay_odd(ctx: Context) -> str:
    return ctx.elicit_url("Pay", "https://xn--pple-43d.example/1").action

@server.resource("ask://me")
def me(ctx: Context) -> str:
    "Ask when read."
    return ctx.elicit("Name?", {"name": str}).require()["name"]

@server.prompt
def greet(ctx: Context) -> str:
    "Ask for a prompt."
    return "Hello, " + ctx.elicit("Name?", {"name": str}).require()["name"]
"""


@pytest.fixture(scope="module")
def curious() -> Iterator[str]:
    """Where a server that asks is to be had."""
    with served(CURIOUS) as url:
        yield url


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], object]]:
    """Make a terminal of stdin, and return a function that types at it."""
    keys, screen = os.openpty()
    with open(screen, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda text: os.write(keys, text.encode())
    os.close(keys)


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_form_is_filled_in_field_by_field(
    curious: str, revision: str, minimcp: Callable[..., Done], types: Callable[[str], object]
) -> None:
    types("\nA\nAda\nmany\n3\nY\nm\nlarge\n1, jam\n\nx\n\n")
    done = minimcp("call", curious, "book", "--revision", revision, "--quiet")
    assert done.code == 0, done.err
    content = {"name": "Ada", "seats": 3, "window": True, "size": "l", "extras": ["tea", "jam"]}
    assert json.loads(done.out) == {"action": "accept", "content": content}
    field = "  size (1 to 2): "
    assert done.err == (
        "curious asks: Who\\x1b[31m travels?\n"
        "(press Enter for the value in brackets, Ctrl-D to cancel)\n"
        "  As on the ticket.\n"
        "  Your name (string):   Your name: expected at least 2 characters, got 0\n"
        "  Your name (string):   Your name: expected at least 2 characters, got 1\n"
        "  Your name (string): "
        "  seats (integer from 1) [2]:   seats: expected an integer, got the string 'many'\n"
        "  seats (integer from 1) [2]:   window (yes or no) [no]: "
        "    1. Small (s)\n    2. Large (l)\n"
        f"{field}  'm' is not a choice: type a number from 1 to 2\n"
        f"{field}    1. tea\n    2. cake\n    3. jam\n"
        "  extras (1 to 3, several with commas) []:   note (string) []: "
        "  Your name: Ada\n  seats: 3\n  window: yes\n  size: Large\n  extras: tea, jam\n"
        f"{SEND}{SEND}"
    )


SEND = "Send this? [Y/n/e] (n declines, e edits) "


@pytest.mark.parametrize(
    ("typed", "words", "printed", "shown"),
    [
        (
            "y\n",
            ["call", "pay"],
            "accept\n",
            "if you trust pay.example:\nhttps://pay.example/1\nAgree? [y/N] ",
        ),
        (
            "y\n",
            ["call", "pay_odd"],
            "accept\n",
            "if you trust xn--pple-43d.example (this name has non-ASCII letters and may imitate another):\nhttps://xn--",
        ),
        ("\n", ["call", "pay"], "decline\n", ""),
        ("\x04", ["call", "pay"], "cancel\n", "\ncancelled\n"),
        ("Ada\n\n", ["read", "ask://me"], "Ada\n", "  name: Ada\nSend this?"),
        ("Ada\nY\n", ["prompt", "greet"], "user: Hello, Ada\n", ""),
        ("Ada\n\x04", ["call", "book"], '{"action":"cancel","content":null}\n', ""),
    ],
)
def test_yes_no_and_the_end_of_input(
    typed: str,
    words: Any,
    printed: str,
    shown: str,
    curious: str,
    minimcp: Callable[..., Done],
    types: Callable[[str], object],
) -> None:
    types(typed)
    done = minimcp(words[0], curious, words[1])
    assert (done.code, done.out) == (0, printed) and shown in done.err


@pytest.mark.parametrize(
    ("answer", "action", "unused"),
    [
        ("agree=yes", "accept", []),
        ("agree=no", "decline", []),
        ("agree:=true", "accept", []),
        ("agree=maybe", "decline", []),
        ("other=yes", "decline", ["other"]),
    ],
)
def test_a_form_without_fields_is_answered_beforehand(
    answer: str, action: str, unused: List[str]
) -> None:
    server = library.Server("x")

    @server.tool
    def clear(ctx: library.Context) -> str:
        """Clear."""
        return str(ctx.elicit("Clear all?", {}).action)

    asker = FormPrompter(answers=[answer])
    with library.connect(server, elicit=asker) as client:
        assert client.call_tool("clear").text == action
    assert list(asker.unused) == unused


def test_without_a_terminal_everything_is_declined(
    curious: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("call", curious, "book", "--quiet")
    assert (done.code, json.loads(done.out)) == (0, {"action": "decline", "content": None})
    assert done.err == (
        "curious asks: Who\\x1b[31m travels?\ndeclined: stdin is not a terminal, "
        "and there is no --answer name=...\n"
    )
    assert minimcp("read", curious, "ask://me").code == 3


@pytest.mark.parametrize(
    ("answers", "content", "said"),
    [
        (
            ["name=Ada", "size=l", "extras=tea", "extras=jam"],
            {"name": "Ada", "size": "l", "extras": ["tea", "jam"], "seats": 2, "window": False},
            "",
        ),
        (
            ['name:="Ada"', "size=s", "seats=4"],
            {"name": "Ada", "size": "s", "seats": 4, "window": False},
            "",
        ),
        (["name=Ada"], None, "and there is no --answer size=..."),
        (["name=A", "size=l"], None, "declined: --answer: name: expected at least 2 characters"),
        (["nmae=Ada", "size=l"], None, "--answer was not used: the server did not ask for nmae"),
        (["name=Ada", "size=l", "name=@no file"], None, "--answer: name=@no file: No such file"),
    ],
)
def test_answers_are_given_beforehand(
    answers: List[str], content: Any, said: str, curious: str, minimcp: Callable[..., Done]
) -> None:
    words = [word for answer in answers for word in ("--answer", answer)]
    done = minimcp("call", curious, "book", "--quiet", *words)
    action = "decline" if content is None else "accept"
    assert (done.code, json.loads(done.out)) == (
        0,
        {"action": action, "content": content},
    ) and said in done.err


def test_prepared_answers_are_not_asked(
    curious: str, minimcp: Callable[..., Done], types: Callable[[str], object]
) -> None:
    types("\n\nl\n\n\n\n")
    done = minimcp("call", curious, "book", "--quiet", "--answer", "name=Ada")
    assert json.loads(done.out)["content"] == {
        "name": "Ada",
        "seats": 2,
        "window": False,
        "size": "l",
    }
    assert (
        "As on the ticket" not in done.err
        and minimcp("call", curious, "book", "--answer", "name").code == 2
    )


def test_a_slow_pattern_is_not_run_on_typed_text(
    types: Callable[[str], object],
) -> None:
    types("a" * 40 + "!\n\n")
    slow = {"type": "string", "pattern": "^(a+)+$"}
    answer = FormPrompter()(
        ElicitRequest("?", {"type": "object", "properties": {"a": slow}, "required": ["a"]})
    )
    assert answer.content == {"a": "a" * 40 + "!"}


def test_forms_that_are_odd(types: Callable[[str], object], capfd: Any) -> None:
    types("y\n5\n[6]\nx\n\nn\n")
    assert FormPrompter()(ElicitRequest("?", {"type": "object"})).content == {}, (
        "without fields it asks yes or no"
    )
    odd = {
        "a": True,
        "b": {"type": "array", "items": {"type": "integer"}},
        "c": {"$schema": "x:y", "type": "string"},
    }
    answer = FormPrompter()(
        ElicitRequest("?", {"type": "object", "properties": odd, "required": "a"})
    )
    assert answer.content == {"a": 5, "b": [6], "c": "x"}, "what we cannot check the server does"
    request = ElicitRequest("?", mode="url", url="nonsense")
    request.server = Implementation("a\nb", "1")
    assert FormPrompter()(request).action == "decline"
    assert "a | b asks: ?\nOpen this page if you trust it:\nnonsense\n" in capfd.readouterr().err


def test_questions_are_asked_one_at_a_time(types: Callable[[str], object], capfd: Any) -> None:
    asker, answers = FormPrompter(), []  # type: ignore[var-annotated]
    form = {"type": "object", "properties": {"x": {"type": "integer"}}}
    threads = [
        threading.Thread(
            target=lambda: answers.append(asker(ElicitRequest("?", form)).content["x"])
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    types("1\n\n2\n\n")
    for thread in threads:
        thread.join(WAIT)
    assert sorted(answers) == [1, 2]
    start = "the server asks: ?\n(press Enter for the value in brackets, Ctrl-D to cancel)\n  x (integer) []: "
    assert capfd.readouterr().err == "".join(f"{start}  x: {x}\n{SEND}" for x in (1, 2))


# ------------------------------------------------------------ words, and schemas in a few words

SCHEMAS: Dict[str, Any] = {
    "$defs": {
        "Colour": {"enum": ["red", 3, None]},
        "Round": {"$ref": "#/$defs/Round"},
        "a/b": {"type": "integer"},
    }
}
ANY_OF = {"anyOf": [{"type": "string"}, {"type": "number"}]}
MAYBE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "1", "1"),
        ({"type": "string"}, "a=b", "a=b"),
        ({"type": "string"}, "", ""),
        ({"type": "integer"}, "-12", -12),
        ({"type": "number"}, "12", 12),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "null"}, "null", None),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "5", [5]),
        ({"type": "array", "items": {"type": "string"}}, "x", ["x"]),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "7", 7),
        ({"type": ["string", "integer"]}, "seven", "seven"),
        (ANY_OF, "2.5", 2.5),
        (ANY_OF, "two", "two"),
        ({"oneOf": [{"$ref": "#/$defs/Colour"}, {"type": "boolean"}]}, "yes", True),
        ({"$ref": "#/$defs/Colour"}, "red", "red"),
        ({"$ref": "#/$defs/Colour"}, "3", 3),
        ({"$ref": "#/$defs/Colour"}, "null", None),
        ({"$ref": "#/$defs/a~1b"}, "3", 3),
        ({"const": 5}, "5", 5),
        ({"type": "strange"}, "5", 5),
        ({}, "5", 5),
        ({}, "five", "five"),
        ({}, "NaN", "NaN"),
        ({}, "[" * 100_000, "[" * 100_000),
        (True, "[]", []),
        ({"$ref": "#/$defs/Missing/deeper"}, "5", 5),
        ({"type": "boolean"}, "1", True),
        ({"type": "null"}, "", None),
        ({"$ref": "https://example.org/schema"}, "5", 5),
        ({"allOf": [{"$ref": "#/$defs/a~1b"}, {"minimum": 1}]}, "3", 3),
        ({"properties": {"a": {}}}, '{"a": 1}', {"a": 1}),
        ({"oneOf": [{"const": 1}, {"const": "b"}]}, "1", 1),
    ],
)
def test_a_value_is_read_by_its_schema(schema: Any, text: str, value: Any) -> None:
    read = read_pairs([f"x={text}"], {**SCHEMAS, "properties": {"x": schema}})
    assert read == {"x": value} and type(read["x"]) is type(value)


@pytest.mark.parametrize(
    ("schema", "words", "said"),
    [
        ({"type": "integer"}, ["x=1.5"], "x: expected an integer, got the number 1.5"),
        ({"type": "number"}, ["x=inf"], "x: expected a number, got the string 'inf'"),
        ({"type": "boolean"}, ["x=2"], "x: expected true or false, got the number 2"),
        ({"type": "object"}, ["x=[]"], "x: expected an object, got an empty list"),
        (MAYBE, ["x=a"], "x: expected an integer or null, got the string 'a'"),
        ({"enum": ["京", 1]}, ["x=b"], "x: expected one of '京' or 1, got the string 'b'"),
        ({"type": "integer"}, ["x=1", "x=2"], "x: expected an integer, got a list of 2"),
        (
            {"type": "string", "pattern": "^a+$"},
            ["x=A"],
            "x: expected a string that matches ^a+$, got the string 'A'",
        ),
        (
            {"$ref": "#/$defs/Round"},
            ["x=5"],
            "x is missing: the schema refers to itself endlessly",
        ),
        ({}, ["x"], "'x' is not key=value, as in name=Ada"),
        ({}, ["=x"], "'=x' is not key=value, as in name=Ada"),
    ],
)
def test_a_value_that_does_not_fit_is_wrong_usage(schema: Any, words: List[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pairs(words, {**SCHEMAS, "properties": {"x": schema}})
    assert str(caught.value) == said


def test_a_file_and_json_as_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {
        "text": {"type": "string"},
        "data": {"$ref": "#/$defs/bytes"},
        "list": {"type": "array"},
    }
    schema = {
        "properties": fields,
        "$defs": {"bytes": {"type": "string", "contentEncoding": "base64"}},
    }
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf[1, 2]\n")
    (tmp_path / "bytes").write_bytes(b"\xff\x00")
    monkeypatch.chdir(tmp_path)
    for word, value in {
        "text=@a.json": "[1, 2]\n",
        "list=@a.json": [1, 2],
        "data=@bytes": "/wA=",
        "other=@a.json": "[1, 2]\n",
        'text:="@a.json"': "@a.json",
        'text:={"a": [null]}': {"a": [None]},
        "a.b=@a.json": "[1, 2]\n",
    }.items():
        name = word.partition("=")[0].rstrip(":")
        assert read_pairs([word], schema) == {name: value}, word
    for word, said in {
        "text=@bytes": "the file is not UTF-8, and the schema of text does not ask for base64",
        "text=@": "No such file",
        "text=@none": "No such file or directory (for the text itself write 'text:=\"@none\"')",
        "text:={": "text:={ is not valid JSON",
        "list=@bytes": "the file is not UTF-8",
        ":=1": "is not key=value",
    }.items():
        with pytest.raises(UsageError) as caught:
            read_pairs([word], schema)
        assert said in str(caught.value), word


def test_a_repeated_key_makes_a_list() -> None:
    schema = {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    assert read_pairs(["x=1", "x=2", "y=a", "y=b"], schema) == {"x": [1, 2], "y": ["a", "b"]}
    maybe = {
        "properties": {
            "x": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}
        }
    }
    assert read_pairs(["x=1", "x=2"], maybe) == {"x": ["1", "2"]}
    assert read_pairs(["x=1"], {}) == {"x": 1}


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_not_objects(text: str) -> None:
    with pytest.raises(UsageError, match="--json: "):
        read_object(text, "--json")


def test_circular_and_odd_schemas_are_shown() -> None:
    root = {
        "$defs": {
            "A": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/A"}}]}
        }
    }
    assert kind({"$ref": "#/$defs/A"}, root).startswith("integer or array of integer or array of ")
    assert [
        kind(each)
        for each in ({"type": "string", "format": ["date"]}, True, {"type": 5}, {"enum": ["京"]})
    ] == [
        "string",
        "any",
        "any",
        'one of "京"',
    ]


def test_a_schema_of_forms_within_forms_is_shown_in_few_words() -> None:
    """The schema has 100 ** 8 forms, and no user would read a thousand."""
    root = {"anyOf": [{"type": "integer"}, *[{"$ref": "#/anyOf"}, {"$ref": "#/$defs/a"}] * 50]}
    root["$defs"] = {"a": {"oneOf": [root, root]}}
    shown = kind(root, root)
    assert (
        shown.startswith("integer or any or ") and shown.endswith(" or ...") and len(shown) < 10_000
    )
    assert (
        kind({"anyOf": [{"const": number} for number in range(9)]})
        == "0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or ..."
    )


def test_members_of_objects_are_shown() -> None:
    due = {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}
    where = {"type": "object", "properties": {"room": {"type": "string"}}}
    fields = {"due": due, "done": {"default": False}, "where": where}
    root = {"$defs": {"Todo": {"type": "object", "required": ["due"], "properties": fields}}}
    todos, at = (
        {"type": "array", "items": {"$ref": "#/$defs/Todo"}},
        {"type": "string", "format": "date-time"},
    )
    words = "array of object (due: date or null, done: any = false, [where: object])"
    schema = {"properties": {"all": todos, "at": at}, "required": ["at"]}
    assert parameters(schema, root) == f"[all: {words}], at: date and time"


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"minimum": 1, "maximum": 1000}, "integer 1 to 1000"),
        ({"minimum": 1}, "integer from 1"),
        ({"maximum": 0.5, "type": "number"}, "number up to 0.5"),
        ({"exclusiveMinimum": 0, "type": "number"}, "number above 0"),
        ({"exclusiveMinimum": 0, "maximum": 9}, "integer above 0 up to 9"),
        ({"minimum": 0, "exclusiveMaximum": 1, "type": "number"}, "number from 0 below 1"),
        ({"minimum": "1", "maximum": None, "exclusiveMinimum": True}, "integer"),
        ({"minimum": 1_234_567}, "integer from 1234567"),
    ],
)
def test_a_number_has_its_bounds(schema: Any, shown: str) -> None:
    field = {"type": "integer", **schema}
    root = {"$defs": {"N": field}, "required": ["n"], "properties": {"n": {"$ref": "#/$defs/N"}}}
    assert parameters(root, root) == f"n: {shown}"


def test_a_signature_has_the_bounds_and_the_default() -> None:
    limit = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    root = {"type": "object", "properties": {"limit": limit}}
    assert parameters(root, root) == "limit: integer 1 to 1000 = 100"
