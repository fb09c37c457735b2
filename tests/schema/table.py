# ruff: noqa: E501
"""The types that tools can take and return, as a table: what fits, what comes of it, what does not fit."""

from __future__ import annotations
import __future__

from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

SOURCE = Path(__file__).with_name("shapes.py")


@lru_cache(maxsize=None)
def load(*, as_strings: bool) -> Dict[str, Any]:
    """The names of shapes.py, its annotations evaluated or left as strings."""
    import sys
    from types import ModuleType

    flags = __future__.annotations.compiler_flag if as_strings else 0
    module = ModuleType(f"shapes_{'strings' if as_strings else 'values'}")
    module.__file__ = str(SOURCE)
    sys.modules[module.__name__] = module
    exec(compile(SOURCE.read_text("utf-8"), str(SOURCE), "exec", flags=flags, dont_inherit=True), vars(module))
    return vars(module)


class Row(NamedTuple):
    """One type: its text, pairs of JSON and the source of the Python value, and JSON that does not fit."""

    text: str
    fits: List[Tuple[Any, str]]
    refused: List[Any]
    words_only: bool = False
    """Whether the type refuses strings that the schema's ``format`` only describes."""


ID = "123e4567-e89b-12d3-a456-426614174000"
POINT = {"x": 1.5, "y": 2}

ROWS: List[Row] = [
    Row("str", [("a", "'a'"), ("", "''")], [1, None, [], {}, True, 1.5]),
    Row("int", [(1, "1"), (1.0, "1"), (-5, "-5"), (10**30, "10**30")], [1.5, True, "1", None, [], {}]),
    Row("float", [(1.5, "1.5"), (1, "1.0"), (10**400, "10**400")], [True, "1.5", None]),
    Row("bool", [(True, "True"), (False, "False")], [0, 1, "true", None]),
    Row("None", [(None, "None")], [0, False, "", []]),
    Row("Any", [(1, "1"), ([{"a": None}], "[{'a': None}]")], []),
    Row("object", [("x", "'x'")], []),
    Row("list", [([1, "a"], "[1, 'a']")], [{}, "a", None]),
    Row("List", [([], "[]")], [{}]),
    Row("list[int]", [([1, 2.0], "[1, 2]"), ([], "[]")], [[1, "2"], [True], [None], {}, "12"]),
    Row("List[float]", [([1, 2.5], "[1.0, 2.5]"), ([0.5], "[0.5]")], [["1"], [True]]),
    Row("List[str]", [(["a"], "['a']")], [[1], "a"]),
    Row("list[list[int]]", [([[1], []], "[[1], []]")], [[1], [["a"]]]),
    Row("Sequence[str]", [(["a"], "['a']")], ["a"]),
    Row("Iterable[int]", [([1], "[1]")], [{}]),
    Row("tuple", [([1, "a"], "(1, 'a')")], [{}]),
    Row("Tuple", [([], "()")], ["x"]),
    Row("tuple[int, ...]", [([1, 2], "(1, 2)"), ([], "()")], [["a"], 1]),
    Row("Tuple[int, str]", [([1, "a"], "(1, 'a')")], [[1], [1, "a", 2], ["a", 1], {}, []]),
    Row("tuple[()]", [([], "()")], [[1], {}]),
    Row("Tuple[()]", [([], "()")], [[1]]),
    Row("set[int]", [([1, 2], "{1, 2}"), ([], "set()")], [[1, 1], [1, 1.0], ["a"], {}]),
    Row("Set[str]", [(["a", "b"], "{'a', 'b'}")], [["a", "a"], "ab"]),
    Row("set", [([1, "a", None], "{1, 'a', None}")], [[[]], [{}], [1, 1]]),
    Row("set[Any]", [([1], "{1}")], [[[]]]),
    Row("FrozenSet[bool]", [([True], "frozenset({True})")], [[1]]),
    Row("set[Tuple[int, str]]", [([[1, "a"]], "{(1, 'a')}")], [[[1, "a"], [1, "a"]]]),
    Row("set[Frozen]", [([{"a": 1}], "{Frozen(1)}")], [[{"a": 1}, {"a": 1.0}]]),
    Row("dict", [({"a": 1}, "{'a': 1}")], [[], "a", None]),
    Row("Dict[str, int]", [({"a": 1, "b": 2.0}, "{'a': 1, 'b': 2}"), ({}, "{}")], [{"a": "1"}, {"a": None}, []]),
    Row("dict[int, str]", [({"7": "a", "-1": "b"}, "{7: 'a', -1: 'b'}")], [{"a": "a"}, {"07": "a"}, {"1.0": ""}]),
    Row("dict[Colour, int]", [({"red": 1}, "{Colour.RED: 1}")], [{"blue": 1}]),
    Row("dict[Any, Any]", [({"a": 1}, "{'a': 1}")], [[]]),
    Row("Mapping[str, Point]", [({"p": POINT}, "{'p': Point(1.5, 2.0)}")], [{"p": {}}]),
    Row("Optional[int]", [(1, "1"), (None, "None")], ["a", 1.5, True]),
    Row("Optional[str]", [("a", "'a'"), (None, "None")], [1]),
    Row("Union[int, str]", [(1, "1"), ("a", "'a'")], [None, 1.5, True, []]),
    Row("Union[int, float]", [(1, "1"), (1.5, "1.5")], ["1", True]),
    Row("Union[float, int]", [(1, "1"), (2.0, "2.0")], [None]),
    Row("Union[bool, int]", [(True, "True"), (1, "1")], ["x"]),
    Row("int | None", [(1, "1"), (None, "None")], ["a"]),
    Row("list[int] | str | None", [([1], "[1]"), ("a", "'a'"), (None, "None")], [1, ["a"]]),
    Row("List['int | None']", [([1, None], "[1, None]")], [["a"]]),
    Row("Union[Circle, Square]", [({"kind": "square", "side": 2}, "Square('square', 2.0)")], [{"kind": "square", "radius": 1}, {}]),
    Row("Union[List[int], List[str]]", [(["a"], "['a']"), ([], "[]")], [[1, "a"], [None]]),
    Row("Union[dt.date, str]", [("1999-12-31", "dt.date(1999, 12, 31)"), ("soon", "'soon'")], [1]),
    Row("Union[int, int]", [(1, "1")], ["a"]),
    Row("Literal['a', 'b']", [("a", "'a'")], ["c", 1, None, ["a"]]),
    Row("Literal[1, True, None]", [(1.0, "1"), (True, "True"), (None, "None")], [0, False, "1"]),
    Row("te.Literal['x']", [("x", "'x'")], ["y", {}]),
    Row("Literal[Colour.RED]", [("red", "Colour.RED")], ["green", "RED"]),
    Row("Optional[Literal['a']]", [("a", "'a'"), (None, "None")], ["b"]),
    Row("Colour", [("red", "Colour.RED"), ("green", "Colour.GREEN")], ["RED", "blue", 1, None, []]),
    Row("Level", [(1, "Level.LOW"), (2.0, "Level.HIGH")], [3, "LOW", True]),
    Row("Odd", [("ONE", "Odd.ONE")], [1, "one"]),
    Row("Single", [("only", "Single.ONLY")], ["other"]),
    Row("Point", [(POINT, "Point(1.5, 2.0)")], [{}, {"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": "1", "y": 2}, [], None]),
    Row("Record", [({"id": 1, "name": "n", "tags": [], "position": POINT}, "Record(1, 'n', [], Point(1.5, 2.0))")],
        [{"id": 1, "name": "n", "tags": [1], "position": POINT}, {"id": 1, "name": "n", "tags": "t", "position": POINT}]),
    Row("Options", [({}, "Options()"), ({"depth": 1, "names": ["a"]}, "Options(1, ['a'])"), ({"when": "1999-12-31"},
        "Options(when=dt.date(1999, 12, 31))")], [{"depth": None}, {"shared": 1}, {"extra": 1}, {"names": [1]}]),
    Row("Empty", [({}, "Empty()")], [{"a": 1}, None]),
    Row("Tree", [({"value": 1, "children": [{"value": 2, "children": []}]}, "Tree(1, [Tree(2)])")], [{"value": 1, "children": [{}]}]),
    Row("List[Tree]", [([{"value": 1}], "[Tree(1)]")], [[{"value": "1"}]]),
    Row("Chain", [({"next": {"next": None}}, "Chain(Chain(None))")], [{"next": {"next": 1}}]),
    Row("Box[int]", [({"content": 1, "more": [2]}, "Box(1, [2])")], [{"content": "a"}, {"content": 1, "more": ["a"]}]),
    Row("Box[str]", [({"content": "a"}, "Box('a')")], [{"content": 1}]),
    Row("Box", [({"content": None}, "Box(None)")], [{}]),
    Row("IntBox", [({"content": 1, "label": "x"}, "IntBox(1, [], 'x')")], [{"content": "a"}]),
    Row("Pair[int]", [({"left": {"content": 1}, "right": {"content": [1]}}, "Pair(Box(1), Box([1]))")],
        [{"left": {"content": 1}, "right": {"content": 1}}, {"left": {"content": "1"}, "right": {"content": []}}]),
    Row("Left", [({"child": {"child": None, "x": "s"}, "x": 1}, "Left(Right(None, 's'), 1)")], [{"child": {"child": None, "x": None}, "x": 1}]),
    Row("Movie", [({"title": "M", "year": 1931}, "{'title': 'M', 'year': 1931}")], [{"title": "M"}, {"title": 1, "year": 2}]),
    Row("Partial", [({}, "{}"), ({"b": "x"}, "{'b': 'x'}")], [{"a": "x"}, {"c": 1}]),
    Row("Wider", [({"c": True}, "{'c': True}")], [{"a": 1}]),
    Row("Mixed", [({"must": 1}, "{'must': 1}"), ({"must": 1, "may": "x", "frozen": 2}, "{'must': 1, 'may': 'x', 'frozen': 2}")], [{"may": "x"}]),
    Row("Loose", [({"must": 1, "noted": 2}, "{'must': 1, 'noted': 2}")], [{"must": 1}, {"noted": 2}]),
    Row("Span", [({"start": 1}, "Span(1)"), ({"start": 1, "end": 2}, "Span(1, 2)")], [[1, 2], {"end": 1}, {"start": "1"}]),
    Row("UserId", [(7, "7")], ["7"]),
    Row("Named", [(POINT, "Point(1.5, 2.0)")], [{}]),
    Row("Json", [({"a": [1, None, "x"]}, "{'a': [1, None, 'x']}")], []),
    Row("Alias", [([1, [2, []]], "[1, [2, []]]"), (1, "1")], ["a", [["a"]]]),
    Row("Wrapped[int]", [([1], "[1]")], [["a"]]),
    Row("T", [(1, "1")], []),
    Row("N", [(1, "1"), ("a", "'a'")], [None]),
    Row("B", [(1.5, "1.5")], ["a"]),
    Row("dt.date", [("1999-12-31", "dt.date(1999, 12, 31)")], [1, "1999-12-31T00:00:00", "1999-13-01", "x", None], True),
    Row("dt.datetime", [("1999-12-31T23:59:58Z", "dt.datetime(1999, 12, 31, 23, 59, 58, tzinfo=dt.timezone.utc)"),
        ("1999-12-31 23:59", "dt.datetime(1999, 12, 31, 23, 59)"),
        ("1999-12-31t23:59:58.1234567-01:30", "dt.datetime(1999, 12, 31, 23, 59, 58, 123456, dt.timezone(-dt.timedelta(minutes=90)))")],
        [1, "1999-12-31", "1999-12-31T25:00:00Z", "1999-12-31T23:59:00+25:00"], True),
    Row("dt.time", [("09:30", "dt.time(9, 30)"), ("09:30:01.5+02:00", "dt.time(9, 30, 1, 500000, dt.timezone(dt.timedelta(hours=2)))")],
        [1, "24:00", "9:30", "noon"], True),
    Row("dt.timedelta", [(90, "dt.timedelta(seconds=90)"), (0.5, "dt.timedelta(milliseconds=500)"), (-1, "dt.timedelta(-1, 86399)")],
        ["PT1H", True, None, 1e300, -1e300]),
    Row("uuid.UUID", [(ID, f"uuid.UUID('{ID}')")], ["x", ID.replace("-", ""), 1], True),
    Row("Decimal", [("1.50", "Decimal('1.50')"), (1.1, "Decimal('1.1')"), (3, "Decimal(3)"), ("1E+2", "Decimal(100)")],
        ["x", "", "1e99999", "Infinity", None, True]),
    Row("Path", [("/a/b", "Path('/a/b')")], [1, None]),
    Row("PurePosixPath", [("a", "PurePosixPath('a')")], [{}]),
    Row("Annotated[int, 'how many']", [(1, "1")], ["a"]),
    Row("Annotated[int, Limits(ge=1, le=10)]", [(1, "1"), (10, "10")], [0, 11, "5"]),
    Row("Annotated[float, Limits(gt=0, lt=1)]", [(0.5, "0.5")], [0, 1]),
    Row("Annotated[int, Limits(multiple_of=5)]", [(10, "10")], [11]),
    Row("Annotated[str, Limits(min_length=1, max_length=3, pattern='^a')]", [("ab", "'ab'")], ["", "abcd", "b"]),
    Row("Annotated[List[int], Limits(min_length=1)]", [([1], "[1]")], [[], ["a"]]),
    Row("Annotated[Dict[str, int], Limits(max_length=1)]", [({"a": 1}, "{'a': 1}")], [{"a": 1, "b": 2}]),
    Row("Annotated[int, at.Ge(1), at.Lt(5)]", [(1, "1")], [0, 5]),
    Row("Annotated[int, at.Interval(ge=1, le=3)]", [(3, "3")], [4]),
    Row("Annotated[List[int], at.Len(1, 2)]", [([1], "[1]")], [[], [1, 2, 3]]),
    Row("Annotated[str, at.MaxLen(2)]", [("ab", "'ab'")], ["abc"]),
    Row("Annotated[int, pydantic.Field(ge=2, description='two')]", [(2, "2")], [1]),
    Row("Annotated[int, te.Doc('what')]", [(2, "2")], ["1"]),
    Row("List[Annotated[int, Limits(ge=0)]]", [([0], "[0]")], [[-1]]),
    Row("Optional[Annotated[str, Limits(min_length=1)]]", [("a", "'a'"), (None, "None")], [""]),
    Row("Attrs", [({"a": 1, "b": "y"}, "Attrs(1, 'y')"), ({"a": 1, "c": [2]}, "Attrs(1, c=[2])")], [{}, {"a": 1, "_b": "y"}, {"a": 1, "d": 1}]),
    Row("OldAttrs", [({"a": 1, "b": [1]}, "OldAttrs(1, [1])")], [{"b": 1}]),
    Row("Model", [({"a": 1, "b": ["x"], "when": "1999-12-31"}, "Model(a=1, b=['x'], when=dt.date(1999, 12, 31))")],
        [{}, {"a": "1"}, {"a": 1, "b": [1]}]),
    Row("Outer", [({"inner": {"x": 1}, "others": [{"x": 2}]}, "Outer(inner=Inner(x=1), others=[Inner(x=2)])")], [{"inner": {}}]),
    Row("List[Family]", [([{"name": "a", "children": [{"name": "b", "children": []}]}], "[Family(name='a', children=[Family(name='b')])]")],
        [[{"name": "a", "children": [{}]}]]),
    Row("Family", [({"name": "a"}, "Family(name='a')")], [{}]),
    Row("Checked", [({"a": 1}, "Checked(1)")], [{}, {"a": "x"}]),
]  # fmt: skip
