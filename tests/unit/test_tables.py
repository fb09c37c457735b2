"""Values of NumPy, pandas and sqlite3 as results of tools; figures as images."""

from __future__ import annotations

import sqlite3
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Callable, Dict, List, Optional, Tuple, TypedDict

import pytest

import minimcp
from minimcp import Image, Server, connect

from ..answering import REVISIONS

if sys.version_info < (3, 15):
    import numpy as np
    import pandas as pd
else:
    np = pytest.importorskip("numpy", reason="has no release for Python 3.15 yet")
    pd = pytest.importorskip("pandas", reason="has no release for Python 3.15 yet")

NAN = float("nan")


def rows() -> List[sqlite3.Row]:
    db = sqlite3.connect(":memory:")
    db.row_factory = sqlite3.Row
    found = db.execute("select 1 as id, 'rye' as name union select 2, null order by id").fetchall()
    db.close()
    return found


RECORDS = [{"id": 1, "name": "rye"}, {"id": 2, "name": None}]


def frame() -> Any:
    return pd.DataFrame(
        {
            "id": pd.array([1, None], dtype="Int64"),
            "price": [1.5, NAN],
            "day": pd.to_datetime(["2026-01-02", None]),
            "name": pd.array(["a|b", "two\nlines"], dtype="string"),
        }
    )


FRAME = [
    {"id": 1, "price": 1.5, "day": "2026-01-02T00:00:00", "name": "a|b"},
    {"id": None, "price": None, "day": None, "name": "two\nlines"},
]
MARKDOWN = """\
| id | price | day | name |
| --- | --- | --- | --- |
| 1 | 1.5 | 2026-01-02T00:00:00 | a\\|b |
|  |  |  | two lines |"""

VALUES: List[Tuple[str, Callable[[], Any], Any]] = [
    ("an integer", lambda: np.int64(3), 3),
    ("a float", lambda: np.float32(1.5), 1.5),
    ("a boolean", lambda: np.bool_(True), True),
    ("a string", lambda: np.str_("x"), "x"),
    ("a matrix", lambda: np.array([[1, NAN], [2, 3]]), [[1.0, None], [2.0, 3.0]]),
    ("no dimension", lambda: np.array(5), 5),
    ("objects", lambda: np.array([NAN, "x", None], dtype=object), [None, "x", None]),
    ("structures", lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), [[1, 2.0]]),
    (
        "days",
        lambda: np.array(["2026-01-02", "NaT"], dtype="M8[ns]"),
        ["2026-01-02T00:00:00", None],
    ),
    ("a timestamp", lambda: pd.Timestamp("2026-01-02 03:04"), "2026-01-02T03:04:00"),
    ("no time", lambda: pd.NaT, None),
    ("nothing", lambda: pd.NA, None),
    ("a series", lambda: pd.Series([1.0, NAN]), [1.0, None]),
    ("categories", lambda: pd.Categorical(["u", None]), ["u", None]),
    ("an index", lambda: pd.Index([1, 2]), [1, 2]),
    ("a frame", frame, FRAME),
    ("an empty frame", lambda: pd.DataFrame({"a": []}), []),
    (
        "groups",
        lambda: pd.DataFrame({"a": [1, 2], "b": [3, 4]}).groupby("a").sum(),
        [{"a": 1, "b": 3}, {"a": 2, "b": 4}],
    ),
    ("two levels", lambda: pd.DataFrame([[1]], columns=[["a"], ["x"]]), [{"a x": 1}]),
    ("a row", lambda: rows()[0], RECORDS[0]),
    ("rows", rows, RECORDS),
    ("a decimal", lambda: Decimal("1.10"), "1.10"),
    (
        "nested",
        lambda: {"top": frame().head(1), "n": np.int64(1), "list": [pd.NA, (np.array([1]),)]},
        {"top": FRAME[:1], "n": 1, "list": [None, [[1]]]},
    ),
]


def result_of(make: Callable[[], Any], annotation: Any = None, **options: Any) -> Any:
    def give() -> Any:
        return make()

    give.__annotations__ = {} if annotation is None else {"return": annotation}
    server = Server("values")
    server.add_tool(give, **options)
    with connect(server) as client:
        (tool,) = client.list_tools()
        result = client.call_tool("give", raise_on_error=False)
    return tool.output_schema, result


@pytest.mark.parametrize("name, make, value", VALUES, ids=[name for name, *_ in VALUES])
def test_a_value_has_its_json_form(name: str, make: Callable[[], Any], value: Any) -> None:
    schema, result = result_of(make)
    assert schema is None and not result.is_error, result.text
    assert result.structured_content == value
    assert type(result.structured_content) is type(value)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_frame_is_a_markdown_table_as_text(revision: str) -> None:
    server = Server("frames")
    server.add_tool(frame, name="plain")
    server.add_tool(lambda: [Image(b"", "image/png"), frame(), "the end"], name="beside")
    with connect(server, revision=revision) as client:
        client.list_tools()
        plain = client.call_tool("plain")
        assert plain.text == MARKDOWN
        if revision >= "2025-06-18":
            assert plain.structured_content in (FRAME, {"result": FRAME})
        beside = client.call_tool("beside")
    assert [block.type for block in beside.content] == ["image", "text", "text"]
    assert beside.content[1].text == MARKDOWN


def test_columns_of_an_empty_frame_are_shown() -> None:
    _, result = result_of(lambda: pd.DataFrame({"a": [], "b": []}))
    assert result.text == "| a | b |\n| --- | --- |"


class Bread(TypedDict):
    id: int
    name: Optional[str]


ANY_OBJECTS = {"type": "array", "items": {"type": "object"}}


@pytest.mark.parametrize(
    "annotation, schema, make, value",
    [
        (pd.DataFrame, ANY_OBJECTS, frame, FRAME),
        (pd.Series, {"type": "array"}, lambda: pd.Series([1, NAN]), [1.0, None]),
        (np.ndarray, {"type": "array"}, lambda: np.eye(2), [[1.0, 0.0], [0.0, 1.0]]),
        (Optional[pd.DataFrame], {"anyOf": [ANY_OBJECTS, {"type": "null"}]}, frame, FRAME),
        (List[Dict[str, Any]], ANY_OBJECTS, frame, FRAME),
        (List[Dict[str, Any]], ANY_OBJECTS, rows, RECORDS),
        (List[Bread], None, rows, RECORDS),
        (Dict[str, Any], {"type": "object"}, lambda: rows()[0], RECORDS[0]),
        (List[float], None, lambda: np.array([1, 2]), [1.0, 2.0]),
        (List[List[int]], None, lambda: np.array([[1], [2]]), [[1], [2]]),
        (List[Optional[float]], None, lambda: pd.Series([1, NAN]), [1.0, None]),
        (List[str], None, lambda: rows()[0], None),
    ],
)
def test_annotations_of_results(
    annotation: Any, schema: Any, make: Callable[[], Any], value: Any
) -> None:
    published, result = result_of(make, annotation)
    assert schema is None or published == schema
    assert result.is_error == (value is None)
    assert result.structured_content == value


def test_a_frame_in_a_dataclass() -> None:
    @dataclass
    class Report:
        title: str
        table: Any

    Report.__annotations__["table"] = pd.DataFrame
    _, result = result_of(lambda: Report("x", frame()), Report)
    assert result.value == {"title": "x", "table": FRAME}


def test_a_frame_is_no_argument() -> None:
    def total(table: Any) -> int:
        return 1

    total.__annotations__["table"] = pd.DataFrame
    with pytest.raises(TypeError, match="DataFrame has no JSON form"):
        Server("arguments").add_tool(total)


@pytest.mark.parametrize(
    "make, annotation, text",
    [
        (lambda: NAN, None, "got nan, which JSON does not have: use None"),
        (lambda: NAN, float, "got nan, which JSON does not have: use None"),
        (lambda: NAN, Optional[float], "got nan, which JSON does not have: use None"),
        (lambda: np.float64(NAN), None, "got nan, which JSON does not have: use None"),
        (lambda: {"v": [1, -float("inf")]}, None, "v[1]: expected a number, got -inf, which JSON"),
        (lambda: np.array([1, np.inf]), None, "[1]: expected a number, got inf, which JSON"),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "two columns"),
        (lambda: Figure(), Image, "Figure has no JSON form: return Image.from_figure(figure)"),
    ],
)
def test_advice_is_about_the_value(make: Callable[[], Any], annotation: Any, text: str) -> None:
    _, result = result_of(make, annotation)
    assert result.is_error and text in result.text


# ------------------------------------------------------------ figures


class Figure:
    """A figure of matplotlib, of which only `savefig` is used."""

    def savefig(self, file: Any, *, format: str, **options: Any) -> None:
        file.write(f"{format} {options}".encode())


@pytest.mark.parametrize(
    "options, data, mime_type",
    [
        ({}, b"png {}", "image/png"),
        ({"format": "jpg", "dpi": 50}, b"jpg {'dpi': 50}", "image/jpeg"),
        ({"format": "svg"}, b"svg {}", "image/svg+xml"),
    ],
)
def test_a_figure_is_an_image(options: Dict[str, Any], data: bytes, mime_type: str) -> None:
    made = Image.from_figure(Figure(), **options)
    assert type(made) is Image and (made.data, made.mime_type) == (data, mime_type)


def test_what_is_not_a_figure_or_not_an_image() -> None:
    with pytest.raises(TypeError, match="takes a figure with the method savefig, not object"):
        minimcp.Image.from_figure(object())
    for format in ("pdf", "mp3", "odd"):
        with pytest.raises(ValueError, match=f"format must be .+ not '{format}'"):
            Image.from_figure(Figure(), format)


def test_no_package_is_imported() -> None:
    from ..support import run_python

    code = (
        "import sys, minimcp\n"
        "s = minimcp.Server('x')\n"
        "s.add_tool(lambda: {'a': [1.5]}, name='a')\n"
        "with minimcp.connect(s) as c: c.call_tool('a')\n"
        "print({'numpy', 'pandas', 'sqlite3', 'minimcp.schema.tables'} & set(sys.modules))"
    )
    assert run_python(["-c", code]).stdout.decode().strip() == "set()"
