# ruff: noqa: E501
"""Every type of the table as parameter and as result of a tool, on this Python, annotations as
values and as strings."""

from __future__ import annotations
import __future__

import json
import sys
from typing import Any, Dict, Iterator, List

import jsonschema
import pytest

import minimcp
from minimcp import Server
from minimcp.schema import Mismatch, compile_check, kind_of
from minimcp.schema.introspection import Scope
from minimcp.server.tools import wrapped_schema

from ..answering import R4, R5
from ..rows import for_each
from .types_table import ROWS, Row, complete, load

SPACES = {"values": load(as_strings=False), "strings": load(as_strings=True)}


def written_out(text: str) -> str:
    """Return an annotation as source that can be evaluated: before 3.10, types have no ``|``
    operator."""
    return repr(text) if sys.version_info < (3, 10) and "|" in text.split("'")[0] else text


def functions(space: str) -> Dict[str, Any]:
    """Two functions for each row, ``take7`` and ``give7``, from a module with or without the
    __future__ import."""
    source = [
        f"def take{number}(value: {written_out(row.text)}) -> None:\n"
        f"    'Take it.'\n"
        f"    taken.append(value)\n"
        f"def give{number}() -> {written_out(row.text)}:\n"
        f"    'Give it.'\n"
        f"    return given[0]\n"
        for number, row in enumerate(ROWS)
    ]
    flags = __future__.annotations.compiler_flag if space == "strings" else 0
    found = {**SPACES[space], "taken": [], "given": [None]}
    exec(compile("".join(source), "<table>", "exec", flags=flags, dont_inherit=True), found)
    return found


def ordered(value: Any) -> Any:
    """JSON in which the items of every list are sorted: a set has no order."""
    if isinstance(value, dict):
        return {name: ordered(part) for name, part in value.items()}
    return sorted(map(ordered, value), key=repr) if isinstance(value, list) else value


@pytest.mark.requirement("TOOL-04", "TOOL-06", "M:TOOL-5", "JSCH-01")
@pytest.mark.parametrize(("space", "revision"), [("values", R5), ("strings", R4)])
def test_every_type_is_a_parameter_and_a_result(space: str, revision: str) -> None:
    found = functions(space)
    server = Server("types")
    for number, _ in enumerate(ROWS):
        server.tool(found[f"take{number}"])
        server.add_tool(found[f"give{number}"], structured=True)
    assert len(ROWS) > 120
    with minimcp.connect(server, revision=revision) as client:
        tools = {tool.name: tool for tool in client.list_tools()}

        @for_each(("number", "row"), list(enumerate(ROWS)))
        def each(number: int, row: Row) -> None:
            schema, definitions = complete(row, leaving=False)
            assert tools[f"take{number}"].input_schema == {
                "type": "object",
                "properties": {"value": schema},
                "required": ["value"],
                **({"$defs": definitions} if definitions else {}),
            }
            schema, definitions = complete(row, leaving=True)
            whole = {**schema, "$defs": definitions} if definitions else schema
            if revision == R4:
                whole = wrapped_schema(whole) if whole else whole
            assert tools[f"give{number}"].output_schema == (whole or None)
            for value, source, *leaves in row.fits:
                expected = eval(source, found)
                client.call_tool(f"take{number}", {"value": value})
                got = found["taken"].pop()
                assert (got, type(got)) == (expected, type(expected))
                found["given"][0] = got
                result = client.call_tool(f"give{number}")
                written = leaves[0] if leaves else value
                wrapped = (
                    revision == R4 and not whole
                )  # no schema says that this value is not an object
                assert ordered(result.value) == ordered({"result": written} if wrapped else written)
                said = result.text if isinstance(written, str) else json.loads(result.text)
                assert ordered(said) == ordered(written)
            for value, message in row.refused:
                result = client.call_tool(f"take{number}", {"value": value}, raise_on_error=False)
                assert (result.is_error, result.text) == (True, f"value{message}")
                assert not found["taken"]

        each()


def fits(schema: Dict[str, Any], value: Any) -> bool:
    validator = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(value))


@for_each("row", ROWS)
def test_a_sent_value_fits_its_schema_and_is_read_back_equal(row: Row) -> None:
    scope = Scope(SPACES["values"])
    inward, outward = kind_of(row.text, scope=scope), kind_of(row.text, scope=scope, writing=True)
    for _, source, *_ in row.fits:
        value = eval(source, dict(SPACES["values"]))
        written = json.loads(json.dumps(outward.write(value), allow_nan=False))
        assert fits(outward.schema, written)
        if row.text not in ("Attrs", "Below"):  # they write a field that they do not take
            assert inward.read(written) == value


ODD: List[Any] = [
    None,
    True,
    1,
    -2,
    0.5,
    1e15,
    "",
    "x",
    "7",
    [],
    [1, 1.0],
    {},
    {"a": 1},
    {"x": {"y": None}},
]


def near_misses(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced by each odd one, taken away, or followed by one
    more."""
    yield from ODD
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {other: value[other] for other in value if other != key}
            yield from ({**value, key: odd} for odd in near_misses(inner))
        yield {**value, "extra": 1}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], odd, *value[place + 1 :]] for odd in near_misses(inner))
        yield [*value, *value[:1]]


@for_each("row", ROWS)
def test_the_schema_and_the_reader_agree(row: Row) -> None:
    kind = kind_of(row.text, scope=Scope(SPACES["values"]))
    jsonschema.Draft202012Validator.check_schema(kind.schema)
    valid = jsonschema.Draft202012Validator(kind.schema).is_valid
    check = compile_check(kind.schema, where="test")
    # the only schema that excludes other members
    strict = kind_of(row.text, scope=Scope(SPACES["values"]), strict=True).schema
    closed = jsonschema.Draft202012Validator(strict).is_valid
    described = row.looser or "format" in json.dumps(
        kind.schema
    )  # a keyword that only the reader checks
    refused = [value for value, _ in row.refused]
    assert row.looser or not any(map(closed, refused))
    samples = [value for value, *_ in row.fits] + refused
    for text in {
        json.dumps(odd): None for value in samples for odd in (value, *near_misses(value))
    }:
        value = json.loads(text)
        agreed = valid(value)
        assert (check(value) is None) == agreed, text
        try:
            kind.read(value)
        except Mismatch:
            assert not closed(value) or described, text
        else:
            assert agreed, text


NEW_SYNTAX = """
type Tangle = None | int | list[Tangle]
type Pair[T] = tuple[T, T]
@dataclass
class Case[T]:
    content: T
    more: "list[Case[T]]" = field(default_factory=list)
class Held[T](NamedTuple):
    held: T
    note: T | None = None
def tangle(value: Tangle) -> Tangle: return value
def pair(value: Pair[int]) -> Pair[int]: return value
def case(value: Case[Pair[int]]) -> Case[Pair[int]]: return value
def held(value: Held[str]) -> "Held[str]": return value
def bound[T: int](value: T) -> list[T]: return [value]
"""


@for_each(
    ("name", "value", "returned"),
    [
        ("tangle", [1, [None]], [1, [None]]),
        ("tangle", ["x"], "value[0]: expected null, an integer or a list, got the string 'x'"),
        ("pair", [1, 2], [1, 2]),
        ("pair", [1, "x"], "value[1]: expected an integer, got the string 'x'"),
        ("case", {"content": [1, 2]}, {"content": [1, 2], "more": []}),
        (
            "case",
            {"content": [1, 2], "more": [{"content": [1]}]},
            "value.more[0].content: expected a list of 2 (an integer and an integer), got a list of 1",
        ),
        ("held", {"held": "x"}, {"held": "x", "note": None}),
        ("held", {"held": 1}, "value.held: expected a string, got the number 1"),
        ("bound", 1, [1]),
        ("bound", "x", "value: expected an integer, got the string 'x'"),
    ],
)
def test_type_statements_and_type_parameters(name: str, value: Any, returned: Any) -> None:
    if sys.version_info < (3, 12):
        with pytest.raises(SyntaxError):
            compile(NEW_SYNTAX, "<new>", "exec")
        return
    found = dict(SPACES["values"])
    exec(compile(NEW_SYNTAX, "<new>", "exec", dont_inherit=True), found)
    server = Server("new")
    server.add_tool(found[name], description="New.")
    with minimcp.connect(server, revision=R5) as client:
        result = client.call_tool(name, {"value": value}, raise_on_error=False)
        assert returned == (result.text if result.is_error else result.structured_content)
