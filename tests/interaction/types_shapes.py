# type: ignore
# ruff: noqa: F401, PIE796
"""Classes for the tests of types. This file runs twice: unchanged, and with annotations as strings."""

import datetime as dt
import enum
import uuid
from collections.abc import (
    Collection,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import (
    AbstractSet,
    Annotated,
    Any,
    ClassVar,
    Dict,
    FrozenSet,
    Generic,
    List,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Set,
    Text,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)

import annotated_types as at
import attr
import attrs
import pydantic
import typing_extensions as te

from minimcp.schema import Limits

T = TypeVar("T")
N = TypeVar("N", int, str)
B = TypeVar("B", bound=float)


@dataclass
class Point:
    """A place.

    Args:
        x: To the right.
    """

    x: float
    y: float = field(metadata={"description": "Upwards."})


@dataclass
class Options:
    depth: int = 3
    names: List[str] = field(default_factory=list)
    colour: Optional[str] = None
    when: Optional[dt.date] = dt.date(1999, 1, 2)
    shared: ClassVar[int] = 1
    extra: InitVar[int] = 0


@dataclass
class Tree:
    value: int
    children: List["Tree"] = field(default_factory=list)


@dataclass
class Chain:
    next: Optional["Chain"] = None


@dataclass
class Even:
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


@dataclass(frozen=True)
class Frozen:
    a: int


@dataclass
class Box(Generic[T]):
    content: T
    more: "List[T]" = field(default_factory=list)


@dataclass
class IntBox(Box[int]):
    label: str = ""


@dataclass
class Pair(Generic[T]):
    left: Box[T]
    right: "Box[List[T]]"


@dataclass
class Left:
    child: "Union[Left, Right, None]"
    x: int


@dataclass
class Right:
    child: "Union[Left, Right, None]"
    x: str


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclass
class Square:
    kind: Literal["square"]
    side: float


@dataclass
class Empty:
    pass


@dataclass
class Words:
    """Fields with the names of variables in the generated readers."""

    value: int
    extra: str = "e"
    at: str = "a"
    make: str = "m"
    v0: int = 0


@dataclass
class Person:
    """Someone.

    Parameters
    ----------
    name : str
        In full.
    """

    name: str
    colour: "Colour" = None
    born: Optional[dt.date] = None


@dataclass
class Employee(Person):
    boss: Optional["Employee"] = None
    skills: FrozenSet[str] = frozenset()


@dataclass
class Team:
    lead: Employee
    members: Dict[str, Employee]
    places: Tuple[Point, Point]
    budget: "Annotated[Decimal, 'in euros']"


class Movie(TypedDict):
    """A film.

    Attributes:
        title: What it is called.
    """

    title: str
    year: int


class Partial(TypedDict, total=False):
    a: int
    b: str


class Mixed(te.TypedDict):
    must: int
    may: te.NotRequired[str]
    frozen: te.ReadOnly[te.NotRequired[int]]


class Loose(te.TypedDict, total=False):
    must: te.Required[int]
    noted: Annotated[te.Required[int], "noted"]
    may: str


class Span(NamedTuple):
    start: int
    end: Optional[int] = None


class Folder(TypedDict):
    name: str
    folders: List["Folder"]


class Shelf(te.TypedDict, Generic[T]):
    books: List[T]
    first: te.NotRequired[T]


Odder = TypedDict("Odder", {"from": int, "a-b": "Optional[str]", "$x": Dict[str, int]}, total=False)


class Step(NamedTuple):
    """One step.

    Attributes:
        then: The next one.
    """

    name: str
    then: Optional["Step"] = None


class Cell(te.NamedTuple, Generic[T]):
    held: T
    note: str = ""


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"
    ROUGE = "red"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.Enum):
    ONE = (1, 2)
    TWO = object()


class Single(enum.Enum):
    ONLY = "only"


class Mood(str, enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Truth(enum.Enum):
    YES = True
    ONE = 1
    UNKNOWN = None


class Half(enum.Enum):
    HALF = 0.5
    WHOLE = 1.0


@attrs.define
class Attrs:
    a: int
    _b: str = "x"
    c: List[int] = attrs.field(factory=list)
    d: int = attrs.field(init=False, default=7)


@attrs.frozen(kw_only=True)
class Keyed:
    """By keyword.

    Args:
        unit: In which.
    """

    amount: Decimal
    unit: str = attrs.field(default="kg", alias="unitName")


@attrs.define
class Below(Attrs):
    e: "Optional[Below]" = None


@attr.s
class OldAttrs:
    a = attr.ib(type=int)
    b = attr.ib(default=None)


class Model(pydantic.BaseModel):
    a: int
    b: List[str] = []
    when: Optional[dt.date] = None


class Inner(pydantic.BaseModel):
    x: int


class Outer(pydantic.BaseModel):
    inner: Inner
    others: List[Inner] = []


class Family(pydantic.BaseModel):
    name: str
    children: "List[Family]" = []


class Picky(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def even(cls, n):
        if n % 2:
            raise ValueError("odd")
        return n


class Renamed(pydantic.BaseModel):
    kind: Literal["renamed"] = "renamed"
    size: int = pydantic.Field(alias="theSize", ge=1)


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Owner(pydantic.BaseModel):
    pet: Union[Cat, Renamed] = pydantic.Field(discriminator="kind")


class Numbers(pydantic.RootModel[List[int]]):
    pass


class Strict(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    n: int


class Crate(pydantic.BaseModel, Generic[T]):
    inside: T


@pydantic.dataclasses.dataclass
class Checked:
    a: int


UserId = NewType("UserId", int)
Serial = NewType("Serial", UserId)
Short = Annotated[str, Limits(max_length=3)]
Code = NewType("Code", Short)
Json = Union[None, bool, int, float, str, List["Json"], Dict[str, "Json"]]
Alias = te.TypeAliasType("Alias", "Union[int, List[Alias]]")
Wrapped = te.TypeAliasType("Wrapped", List[T], type_params=(T,))
