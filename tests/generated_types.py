"""Types for tests: every kind of type, and every wrapper that makes a type of another type."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import enum
import sys
import uuid
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Generic,
    List,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types as at
import attr
import pydantic
import typing_extensions as te
from typing_extensions import Annotated

from minimcp.schema import Limits

T = TypeVar("T")

UTC = dt.timezone.utc
BERLIN = dt.timezone(dt.timedelta(minutes=53, seconds=28))


class Sample(NamedTuple):
    """A type, with values of it.

    Args:
        name: The name in reports.
        annotation: The type.
        values: Values of the type, at least one.
        is_key: Whether it is written as a string, so that it can be a key of a dict.
        in_set: Whether a set can hold it.
        is_flat: Whether a form can ask for it.
        is_text: Whether any text is a value of the type, and stays text.
    """

    name: str
    annotation: Any
    values: List[Any]
    is_key: bool = False
    in_set: bool = True
    is_flat: bool = False
    is_text: bool = False


# ------------------------------------------------------------ classes


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, enum.Enum):
    YES = "yes"
    NO = "no"


class Ratio(float, enum.Enum):
    HALF = 0.5
    ALL = 1.0


class Endless(enum.Enum):
    FOREVER = float("inf")
    NEVER = 0.0


class Shape(enum.Enum):
    POINT = (0, 0)
    LINE = (0, 1)


class Moment(dt.datetime):
    """A subclass, as that of pandas and of pendulum are."""


class Day(dt.date):
    pass


class Amount(Decimal):
    pass


class Folder(PurePosixPath):
    pass


class Identity(uuid.UUID):
    pass


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    y: int = 0


@dataclasses.dataclass
class Tree:
    value: int
    children: List[Tree] = dataclasses.field(default_factory=list)


class Movie(te.TypedDict):
    title: str
    year: int


class Book(TypedDict):
    title: str


class Partial(te.TypedDict, total=False):
    a: int
    b: Optional[str]


class Span(NamedTuple):
    start: dt.date
    end: Optional[dt.date] = None


@attr.s(auto_attribs=True, frozen=True)
class Attrs:
    a: int
    _b: str = "b"


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)

    a: int
    at: dt.datetime
    until: Optional[dt.time] = None
    span: dt.timedelta = dt.timedelta(seconds=1.5)
    color: Color = Color.RED


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: dt.date
    moment: pydantic.AwareDatetime
    clock: dt.time
    span: dt.timedelta
    color: Color
    level: Level
    pair: Tuple[int, str]
    tags: Set[str]
    frozen: FrozenSet[int]
    id: uuid.UUID
    data: bytes
    amount: Decimal
    path: Path
    point: Point


class Encoded(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    data: Annotated[bytes, pydantic.Field(min_length=1, max_length=3)]
    text: Annotated[bytes, pydantic.Field(min_length=2)] = b"ab"


class Measured(pydantic.BaseModel):
    step: Annotated[float, pydantic.Field(multiple_of=0.1)]
    whole: Annotated[float, pydantic.Field(multiple_of=0.25)]
    url: pydantic.HttpUrl


class Family(pydantic.BaseModel):
    name: str
    children: List[Family] = []


@pydantic.dataclasses.dataclass(frozen=True)
class Checked:
    a: Annotated[int, pydantic.Field(ge=1)]
    at: dt.datetime = dt.datetime(2023, 3, 7)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: Optional[T] = None


Json = Union[None, bool, int, str, List["Json"], Dict[str, "Json"]]  # type: ignore[misc]


URL = "http://a.org/|[b]?{c}^"
ID = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
NAIVE = dt.datetime(2023, 3, 7, 9, 30)
MOMENTS = [
    NAIVE,
    dt.datetime(1, 1, 1),
    dt.datetime.max,
    dt.datetime(2023, 3, 7, 9, 30, 1, 5, UTC),
]
SPANS = [dt.timedelta(0), dt.timedelta(seconds=-1.5), dt.timedelta.min]
STRICT = Strict(
    day=dt.date(2023, 3, 7),
    moment=dt.datetime(2023, 3, 7, tzinfo=UTC),
    clock=dt.time(9, 30),
    span=dt.timedelta(seconds=-0.5),
    color=Color.RED,
    level=Level.LOW,
    pair=(1, "a"),
    tags={"a"},
    frozen=frozenset([1]),
    id=ID,
    data="\xe9".encode(),
    amount=Decimal("1E+2"),
    path=Path("a"),
    point=Point(1.0),
)

KINDS = [
    Sample("str", str, ["a", "", "\xe9\n\U0001f600", "null", "5"], True, is_flat=True, is_text=True),
    Sample("int", int, [0, -(10**30), 7], is_flat=True),
    Sample("float", float, [0.1, -2.0, 1e300, 5e-324], is_flat=True),
    Sample("bool", bool, [True, False], is_flat=True),
    Sample("None", None, [None]),
    Sample("date", dt.date, [dt.date.min, dt.date(2024, 2, 29)], True, is_flat=True),
    Sample("datetime", dt.datetime, MOMENTS, True, is_flat=True),
    Sample("datetime of 1890", dt.datetime, [dt.datetime(1890, 1, 1, tzinfo=BERLIN)], True, is_flat=True),
    Sample("Moment", Moment, [Moment(2023, 3, 7), Moment(9999, 12, 31)], True, is_flat=True),
    Sample("Day", Day, [Day(2023, 3, 7)], True, is_flat=True),
    Sample("time", dt.time, [dt.time(9, 30), dt.time(9, 30, 1, 5, UTC)], True, is_flat=True),
    Sample("timedelta", dt.timedelta, SPANS, is_flat=True),
    Sample("UUID", uuid.UUID, [ID], True),
    Sample("Identity", Identity, [Identity(int=ID.int)], True),
    Sample("Decimal", Decimal, [Decimal("1.50"), Decimal("-1E-7"), Decimal("1E+2")]),
    Sample("Amount", Amount, [Amount("1.5")]),
    Sample("Path", Path, [Path("a/b"), Path("\xe9")], True, is_flat=True),
    Sample("Folder", Folder, [Folder("a/b")], True, is_flat=True),
    Sample("Literal of text", Literal["a", "b"], ["a", "b"], True, is_flat=True),
    Sample("Literal of one", Literal["a"], ["a"], True, is_flat=True),
    Sample("Literal mixed", Literal["a", 1, None, True], ["a", 1, None, True]),
    Sample("Enum", Color, list(Color), True, is_flat=True),
    Sample("IntEnum", Level, list(Level)),
    Sample("str Enum", Word, list(Word), True, is_flat=True),
    Sample("float Enum", Ratio, list(Ratio)),
    Sample("Enum by names", Shape, list(Shape), True, is_flat=True),
    Sample("Enum with infinity", Endless, list(Endless), True, is_flat=True),
    Sample("Any", Any, [1, "a", None, [1.5], {"a": {}}], in_set=False),
    Sample("object", object, ["a", [{}]], in_set=False),
    Sample("list", list, [[], [1, "a", None]], in_set=False),
    Sample("tuple", tuple, [(), (1, "a")], in_set=False),
    Sample("dict", dict, [{}, {"a": [1]}], in_set=False),
    Sample("dataclass", Point, [Point(1.5), Point(-0.5, 2)]),
    Sample("recursive dataclass", Tree, [Tree(1), Tree(1, [Tree(2, [Tree(3)])])], in_set=False),
    Sample("TypedDict", Movie, [{"title": "M", "year": 1931}], in_set=False),
    Sample("typing.TypedDict", Book, [{"title": "B"}], in_set=False),
    Sample("partial TypedDict", Partial, [{}, {"a": 1, "b": None}], in_set=False),
    Sample("NamedTuple", Span, [Span(dt.date.min), Span(dt.date.min, dt.date.max)]),
    Sample("attrs", Attrs, [Attrs(1), Attrs(2, "c")]),
    Sample("pydantic model", Model, [Model(a=1, at=NAIVE), Model(a=1, at=MOMENTS[3])]),
    Sample("strict model", Strict, [STRICT], in_set=False),
    Sample("encoded model", Encoded, [Encoded(data=b"\xff")], in_set=False),
    Sample("measured model", Measured, [Measured(step=0.3, whole=0.5, url=URL)], in_set=False),
    Sample("recursive model", Family, [Family(name="a", children=[Family(name="b")])], in_set=False),
    Sample("pydantic dataclass", Checked, [Checked(1), Checked(2, MOMENTS[3])]),
    Sample("AwareDatetime", pydantic.AwareDatetime, [MOMENTS[3]], True),
    Sample("NaiveDatetime", pydantic.NaiveDatetime, [NAIVE], True),
    Sample("HttpUrl", pydantic.HttpUrl, [pydantic.HttpUrl(URL)], True),
    Sample("PositiveInt", pydantic.PositiveInt, [1], is_flat=False),
    Sample("recursive alias", Json, [None, 1, "a", [[]], {"a": [None, {"b": True}]}], in_set=False),
]  # fmt: skip

if sys.version_info >= (3, 12):
    exec("type Nested = int | list[Nested]\ntype Names = dict[str, str]")
    KINDS += [
        Sample("type statement", Names, [{"a": "b"}], in_set=False),  # noqa: F821
        Sample("recursive type statement", Nested, [1, [1, [2]]], in_set=False),  # noqa: F821
    ]


# ------------------------------------------------------------ wrappers


class Wrapper(NamedTuple):
    """Makes a type of another type.

    Args:
        name: The name in reports, with {} for the other type.
        make: Makes the sample. Its name and flags are those of the other one by default.
        fits: Whether a type can be wrapped so; registration refuses the others.
    """

    name: str
    make: Callable[[Sample], Sample]
    fits: Callable[[Sample], bool] = lambda sample: True


def plain(annotation: Any, values: List[Any], **flags: bool) -> Sample:
    return Sample("", annotation, values, **{"in_set": False, **flags})


def hashed(sample: Sample, make: Callable[[List[Any]], Any]) -> List[Any]:
    """Return the result of `make` for the values, or nothing if they have no hash."""
    try:
        return [make(sample.values)]
    except TypeError:
        return []


def dataclass_of(sample: Sample) -> Sample:
    cls: Any = dataclasses.make_dataclass(
        "Held",
        [("held", sample.annotation), ("label", str, "x")],
        eq=True,
    )
    cls.__module__ = __name__  # where the names of its annotations are known
    return plain(cls, [cls(value) for value in sample.values])


def dataclass_with_default(sample: Sample) -> Sample:
    field: Any = dataclasses.field(default_factory=lambda: sample.values[0])
    cls: Any = dataclasses.make_dataclass("Kept", [("kept", sample.annotation, field)])
    cls.__module__ = __name__
    return plain(cls, [cls(), *map(cls, sample.values)])


def typed_dict_of(sample: Sample) -> Sample:
    make: Any = te.TypedDict
    fields = {"held": te.Required[sample.annotation], "more": te.NotRequired[sample.annotation]}
    values: List[Any] = [{"held": value} for value in sample.values]
    cls = make("Dict", fields)
    cls.__module__ = __name__
    return plain(cls, [*values, {**values[0], "more": sample.values[0]}])


def named_tuple_of(sample: Sample) -> Sample:
    cls: Any = NamedTuple(
        "Tuple", [("held", sample.annotation), ("more", Optional[sample.annotation])]
    )  # type: ignore[misc]
    cls.__module__ = __name__
    return plain(cls, [cls(value, None) for value in sample.values])


def attrs_of(sample: Sample) -> Sample:
    held: Any = attr.ib(type=sample.annotation)
    cls: Any = attr.make_class("Attr", {"held": held, "_other": attr.ib(type=int, default=1)})
    cls.__module__ = __name__
    return plain(cls, [cls(value) for value in sample.values])


def model_of(sample: Sample) -> Sample:
    make: Any = pydantic.create_model
    cls = make("Wrapped", held=(sample.annotation, ...), other=(int, 1))
    return plain(cls, [cls(held=value) for value in sample.values])


def strict_model_of(sample: Sample) -> Sample:
    make: Any = pydantic.create_model
    strict = pydantic.ConfigDict(strict=True)
    cls = make("WrappedStrictly", held=(sample.annotation, ...), __config__=strict)
    return plain(cls, [cls.model_construct(held=value) for value in sample.values])


def new_type_of(sample: Sample) -> Sample:
    make: Any = NewType
    return sample._replace(annotation=make("Renamed", sample.annotation))


def annotated(*metadata: Any) -> Callable[[Sample], Sample]:
    return lambda sample: sample._replace(annotation=Annotated[(sample.annotation, *metadata)])


def bounded(*metadata: Any) -> Callable[[Sample], Sample]:
    """Metadata that every value of the type satisfies."""
    return lambda sample: sample._replace(annotation=Annotated[(sample.annotation, *metadata)])


def only(*names: str) -> Callable[[Sample], bool]:
    return lambda sample: sample.name in names


def in_models(sample: Sample) -> bool:
    """Return whether pydantic reads its own output for a type, and that output fits its own schema."""
    return sample.name not in _NOT_IN_MODELS


def in_strict_models(sample: Sample) -> bool:
    """In strict mode, a URL has no brackets."""
    return in_models(sample) and sample.name not in ("HttpUrl", "measured model")


_NOT_IN_MODELS = {
    "attrs",  # pydantic does not know attrs
    "typing.TypedDict",  # before Python 3.12, it only knows that of typing_extensions
    "recursive alias",  # nor the names in an alias
    "Enum by names",  # a tuple comes back as a list
    "datetime of 1890",  # the seconds of its offset are lost
    "Enum with infinity",  # Infinity is not JSON
    "Moment", "Day", "Amount", "Identity", "Folder",  # nor subclasses of these classes
    "float Enum",
}  # fmt: skip

WRAPPERS = [
    Wrapper("{}", lambda sample: sample),
    Wrapper("Optional[{}]", lambda s: s._replace(
        annotation=Optional[s.annotation], values=[*s.values, None], is_key=False,
        is_flat=s.is_flat and s.name != "None")),
    Wrapper("List[{}]", lambda s: plain(List[s.annotation], [[], s.values])),
    Wrapper("list[{}]", lambda s: plain(list[s.annotation], [s.values])),  # type: ignore[name-defined]
    Wrapper("Sequence[{}]", lambda s: plain(Sequence[s.annotation], [s.values])),  # type: ignore[name-defined]
    Wrapper("abc.Iterable[{}]", lambda s: plain(collections.abc.Iterable[s.annotation], [s.values])),  # type: ignore[name-defined]
    Wrapper("Set[{}]", lambda s: plain(Set[s.annotation], hashed(s, set)), lambda s: s.in_set),
    Wrapper("FrozenSet[{}]", lambda s: plain(
        FrozenSet[s.annotation], hashed(s, frozenset), in_set=True), lambda s: s.in_set),
    Wrapper("Tuple[{}, ...]", lambda s: plain(
        Tuple[s.annotation, ...], [tuple(s.values)], in_set=s.in_set)),
    Wrapper("Tuple[int, {}]", lambda s: plain(
        Tuple[int, s.annotation], [(1, value) for value in s.values], in_set=s.in_set)),  # type: ignore[name-defined]
    Wrapper("Dict[str, {}]", lambda s: plain(
        Dict[str, s.annotation], [{}, {str(i): value for i, value in enumerate(s.values)}])),  # type: ignore[name-defined]
    Wrapper("Dict[{}, int]", lambda s: plain(
        Dict[s.annotation, int], hashed(s, lambda each: dict.fromkeys(each, 1))), lambda s: s.is_key or s.name == "int"),  # type: ignore[name-defined]
    Wrapper("Union[{}, List[int]]", lambda s: plain(
        Union[s.annotation, List[int]], [*s.values, [1]], is_text=s.is_text),
        lambda s: s.name != "tuple"),
    Wrapper("Union[Point, {}]", lambda s: plain(
        Union[Point, s.annotation], [Point(1.5), *s.values], is_text=s.is_text, in_set=s.in_set)),
    Wrapper("NewType({})", new_type_of),
    Wrapper("Annotated[{}, text]", annotated("What it is.")),
    Wrapper("Annotated[{}, Doc]", annotated(te.Doc("What it is."))),
    Wrapper("Annotated[{}, Field]", annotated(pydantic.Field(description="What it is.", title="It"))),
    Wrapper("Annotated[{}, Limits()]", annotated(Limits())),
    Wrapper("Annotated[{}, lengths]", bounded(Limits(max_length=40)), only("str", "list", "dict")),
    Wrapper("Annotated[{}, Len]", bounded(at.Len(0, 40)), only("str", "list", "tuple", "dict")),
    Wrapper("Annotated[{}, pattern]", bounded(Limits(pattern="^[^\\x00]*$")), only("str")),
    Wrapper("Annotated[{}, bounds]", bounded(Limits(ge=-1e31, le=1e301)), only("int", "float")),
    Wrapper("Annotated[{}, Interval]", lambda s: s._replace(
        annotation=Annotated[s.annotation, at.Interval(gt=-1e31, lt=1e301)], is_flat=False), only("int", "float")),
    Wrapper("Annotated[{}, Ge(Decimal)]", bounded(at.Ge(Decimal("-0.0000001"))), only("Decimal")),
    Wrapper("Annotated[{}, multiple]", lambda s: Sample(
        "", Annotated[s.annotation, at.MultipleOf(0.1)], [0.3, 1.0]), only("float")),  # type: ignore[name-defined]
    Wrapper("Annotated[{}, exact multiple]", lambda s: Sample(
        "", Annotated[s.annotation, at.MultipleOf(0.25)], [0.5, 1.0]), only("float")),  # type: ignore[name-defined]
    Wrapper("Box[{}]", lambda s: plain(
        Box[s.annotation], [Box(value, s.values[0]) for value in s.values])),  # type: ignore[name-defined]
    Wrapper("dataclass of {}", dataclass_of),
    Wrapper("dataclass with the default {}", dataclass_with_default),
    Wrapper("TypedDict of {}", typed_dict_of),
    Wrapper("NamedTuple of {}", named_tuple_of),
    Wrapper("attrs of {}", attrs_of),
    Wrapper("model of {}", model_of, in_models),
    Wrapper("strict model of {}", strict_model_of, in_strict_models),
]  # fmt: skip


def wrapped(wrapper: Wrapper, sample: Sample) -> Sample:
    made = wrapper.make(sample)
    return made._replace(name=wrapper.name.format(sample.name))
