"""Random types, nested: what the schema of a tool accepts is converted, what it refuses is refused, and results fit.

The oracle is `jsonschema`, with the schemas that the tool lists. One thing is allowed to differ, because JSON Schema
2020-12 says that ``format`` describes and does not check, while a date has to be one to become a `datetime.date`:

- a string that is no date, time or UUID fits the schema and is refused; the message then shows what would fit.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from dataclasses import field, make_dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Annotated, Any, Callable, Dict, FrozenSet, List, Literal, NamedTuple, Optional, Set, Tuple, Union

import jsonschema
from hypothesis import given, strategies as st
from typing_extensions import NotRequired, TypedDict

import minimcp
from minimcp import Server
from minimcp.schema import Limits

from ..drawn import drawn


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


HASHABLE: List[Any] = [
    str, int, float, bool, None, Colour, Level, dt.date, uuid.UUID, Decimal, PurePosixPath, Literal["a", "b"],
    Literal[1, True, None], Optional[int], Union[int, str], Tuple[int, str], FrozenSet[int], Union[dt.date, str],
    Annotated[int, Limits(ge=0, le=2)], Annotated[str, Limits(min_length=1, max_length=3)],
]  # fmt: skip
LEAVES: List[Any] = [
    *HASHABLE, Any, list, dict, set, dt.datetime, dt.time, dt.timedelta, Dict[int, bool], Dict[Colour, int],
    Annotated[str, Limits(pattern="^[ab]+$")], Annotated[float, Limits(gt=-1, lt=1)],
    Annotated[int, Limits(multiple_of=2)], "int", Literal[0.5, "x"],
]  # fmt: skip
NAMES = st.sampled_from(["a", "b", "from", "value", "x_y"])
SOME = st.lists(NAMES, unique=True, max_size=3)


def records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Classes of every form, fields of random types, some with a default or not required."""
    fields = st.dictionaries(NAMES.filter(lambda name: name != "from"), st.tuples(inner, st.booleans()), max_size=3)
    return st.one_of(fields.map(data_class), fields.map(named_tuple), fields.map(typed_dict))


def data_class(fields: Dict[str, Any]) -> Any:
    ordered = sorted(fields.items(), key=lambda item: item[1][1])
    with_default = [
        (name, Optional[kind], field(default=None)) if default else (name, kind)
        for name, (kind, default) in ordered
    ]
    return make_dataclass("Data", with_default, frozen=True, eq=True)


def named_tuple(fields: Dict[str, Any]) -> Any:
    return NamedTuple("Tupled", [(name, kind) for name, (kind, _) in fields.items()])  # type: ignore[misc]


def typed_dict(fields: Dict[str, Any]) -> Any:
    members = {name: NotRequired[kind] if optional else kind for name, (kind, optional) in fields.items()}
    return TypedDict("Typed", {**members, "from": int})  # type: ignore[operator]


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    wrap: List[Callable[[Any], Any]] = [
        lambda kind: List[kind],  # type: ignore[valid-type]
        lambda kind: Dict[str, kind],  # type: ignore[valid-type]
        lambda kind: Tuple[kind, ...],  # type: ignore[valid-type]
        lambda kind: Optional[kind],
        lambda kind: Annotated[List[kind], Limits(min_length=1, max_length=2)],  # type: ignore[valid-type]
        lambda kind: Annotated[kind, "described"],
    ]
    join: List[Callable[[Any, Any], Any]] = [lambda one, two: Tuple[one, two], lambda one, two: Union[one, two]]
    return st.one_of(
        st.builds(lambda make, kind: make(kind), st.sampled_from(wrap), inner),
        st.builds(lambda make, one, two: make(one, two), st.sampled_from(join), inner, inner),
        st.sampled_from(HASHABLE).map(lambda kind: Set[kind]),  # type: ignore[valid-type]
        records(inner),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), wider, max_leaves=5)

ODD = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, 1.0, 0.5, 1e300, 10**20, "", "a", "abcd", "red", "Red", "1", "-0", "null", [],
     [1, 1], [1, True], ["a", None], {}, {"a": 1}, {"1": True}, {"from": 1}, "1999-12-31", "1999-12-31T23:59:58Z",
     "12:30", str(uuid.UUID(int=7)), "1.50", "1e5", ".5"]
)  # fmt: skip
NEAR: Dict[str, List[Any]] = {
    "integer": [0.5, 2.5, True, "1", 2.0, -3, 10**20], "number": ["1", True, 10**20, -1e300, "1.5"],
    "string": [1, None, "", "abcd", "rod", "Red", "a", ["a"]], "boolean": [0, 1, "true", None], "null": [0, "", False],
    "array": [{}, "", None, [None]], "object": [[], {"more": 1}, {}, None, ""],
}  # fmt: skip
"""What a value is often mistaken for."""

TEXTS = {
    "date": "1999-12-31", "date-time": "1999-12-31T23:59:58Z", "time": "12:30:00", "uuid": str(uuid.UUID(int=7)),
}  # fmt: skip


def value_for(draw: Callable[[Any], Any], schema: Any, root: Any, *, wrong: float) -> Any:
    """A value that fits a schema, but for some parts, which are something else."""
    if schema is True or draw(st.floats(0, 1)) < wrong:
        near = NEAR.get(schema.get("type", "")) if isinstance(schema, dict) else None
        return draw(ODD if near is None else st.sampled_from(near) | ODD)

    def part(inner: Any) -> Any:
        return value_for(draw, inner, root, wrong=wrong)

    if "$ref" in schema:
        return part(root["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return part(draw(st.sampled_from(schema["anyOf"])))
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from(schema.get("enum", [schema.get("const")])))
    return _MAKERS.get(schema.get("type", ""), lambda *_: draw(ODD))(draw, schema, part)


def _text(draw: Any, schema: Any, part: Any) -> Any:
    if "format" in schema:
        return TEXTS[schema["format"]]
    return draw(st.text("ab1-.", min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 3)))


def _number(draw: Any, schema: Any, part: Any) -> Any:
    return draw(st.integers(-2, 4) | st.sampled_from([0.5, -0.5, 1.0, 2.5]))


def _array(draw: Any, schema: Any, part: Any) -> Any:
    found = [part(each) for each in schema.get("prefixItems", [])]
    count = 0 if "prefixItems" in schema else draw(st.integers(schema.get("minItems", 0), schema.get("maxItems", 2)))
    found += [part(schema.get("items", {})) for _ in range(count)]
    return found + draw(st.sampled_from([[]] * 7 + [found[:1]]))


def _object(draw: Any, schema: Any, part: Any) -> Any:
    needed = schema.get("required", [])
    found = {
        name: part(each)
        for name, each in schema.get("properties", {}).items()
        if draw(st.integers(0, 9)) > (0 if name in needed else 5)
    }
    if schema.get("additionalProperties", {}) is not False:
        names = schema.get("propertyNames", {}).get("enum", ["a", "7", "-1", "07", ""])
        chosen = draw(st.sets(st.sampled_from(names)))
        found.update({name: part(schema.get("additionalProperties", {})) for name in chosen})
    return {**found, **draw(st.sampled_from([{}] * 5 + [{"more": 1}]))}


_MAKERS: Dict[str, Callable[[Any, Any, Any], Any]] = {
    "string": _text, "number": _number, "integer": lambda draw, schema, part: draw(st.integers(-2, 4)),
    "boolean": lambda draw, schema, part: draw(st.booleans()), "null": lambda draw, schema, part: None,
    "array": _array, "object": _object,
}  # fmt: skip


def test_schema_and_conversion_agree_for_every_type() -> None:
    """Refused or converted as the schemas say, and what was converted may be given back."""
    server = Server("properties", capabilities={"tools"})
    held: List[Any] = []
    seen = {"fits": 0, "refused": 0}

    @drawn(150)
    @given(kind=TYPES, data=st.data())
    def agree(kind: Any, data: st.DataObject) -> None:
        def take(value: Any) -> None:
            """Take it."""
            held.append(value)

        def give() -> Any:
            """Give it."""
            return held[-1]

        take.__annotations__, give.__annotations__ = {"value": kind, "return": None}, {"return": kind}
        server.add_tool(take, replace=True)
        server.add_tool(give, replace=True, structured=True)
        tools = {tool.name: tool for tool in client.list_tools()}
        schema = tools["take"].input_schema
        fits = jsonschema.Draft202012Validator(schema).is_valid
        leaves = jsonschema.Draft202012Validator(tools["give"].output_schema or {}).is_valid
        for wrong in (0.0, 0.0, 0.05, 0.1, 0.2, 0.3):
            value = value_for(data.draw, schema["properties"]["value"], schema, wrong=wrong)
            value = json.loads(json.dumps(value))
            taken = client.call_tool("take", {"value": value}, raise_on_error=False)
            if not fits({"value": value}):
                seen["refused"] += 1
                assert taken.is_error, (kind, value)
            elif taken.is_error:
                assert "such as" in taken.text and "format" in json.dumps(schema), (kind, value, taken.text)
            else:
                seen["fits"] += 1
                given_back = client.call_tool("give", raise_on_error=False)
                assert not given_back.is_error, (kind, value, given_back.text)
                assert leaves(given_back.structured_content), (kind, value, given_back.structured_content)
            assert not taken.is_error or ("value" in taken.text and "\n" not in taken.text)

    with minimcp.connect(server) as client:
        agree()
    assert min(seen.values()) > 100, f"the values say little: {seen}"
