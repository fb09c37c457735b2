"""How much work a value of a recursive union costs, counted in records that are read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple, Union

import pytest

from minimcp.schema import kinds
from minimcp.schema.mismatch import Mismatch
from minimcp.schema.signature import read_signature
from minimcp.server.registered import CONTEXT


@dataclass
class And:
    left: "Filter"
    right: "Filter"


@dataclass
class Or:
    left: "Filter"
    right: "Filter"


@dataclass
class All:
    all: "List[Filter]"


@dataclass
class Named:
    named: "Dict[str, Filter]"


@dataclass
class Not:
    inner: "Filter"


@dataclass
class Is:
    field: str
    value: int


Filter = Union[And, Or, All, Named, Not, Is]

LEAF = {"field": "b", "value": 2}

WAYS: Dict[str, Callable[[Any], Any]] = {
    "left": lambda inner: {"left": inner, "right": LEAF},
    "right": lambda inner: {"left": LEAF, "right": inner},
    "in a list": lambda inner: {"all": [LEAF, inner, LEAF]},
    "in a dict": lambda inner: {"named": {"a": LEAF, "b": inner}},
    "alone": lambda inner: {"inner": inner},
    "with one too many": lambda inner: {"left": inner, "right": LEAF, "odd": 1},
    "several": lambda inner: {"left": {"inner": inner}, "right": {"all": [LEAF]}},
}


def one(where: Filter) -> None:
    """Take one."""


def several(where: List[Filter], other: "Union[Filter, List[Filter]]" = ()) -> None:  # type: ignore[assignment]
    """Take several."""


def nested(way: str, depth: int, leaf: Any) -> Any:
    for _ in range(depth):
        leaf = WAYS[way](leaf)
    return leaf


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """One number: how many records were read."""
    count = [0]
    make = kinds.record_reader

    def counting(fields: Any, cls: Any) -> Any:
        read = make(fields, cls)

        def convert(value: Any) -> Any:
            count[0] += 1
            return read(value)

        return convert

    monkeypatch.setattr(kinds, "record_reader", counting)
    return count


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("leaf", ["right", "wrong"])
@pytest.mark.parametrize("taker", ["one", "several"])
def test_the_work_grows_linearly(way: str, leaf: str, taker: str, reads: List[int]) -> None:
    function = one if taker == "one" else several
    signature = read_signature(function, context_type=CONTEXT, owner="tool 'find'")
    counts = []
    for depth in (20, 40, 60):
        value = nested(way, depth, {"field": "a", "value": 1 if leaf == "right" else "x"})
        reads[0] = 0
        with suppress(Mismatch):
            signature.read_arguments({"where": value if taker == "one" else [value]})
        counts.append(reads[0])
    assert counts[2] - counts[1] == counts[1] - counts[0]
    assert counts[2] <= 60 * 60  # at most ten unions try six members on each object


def test_a_refusal_reads_as_it_did() -> None:
    signature = read_signature(one, context_type=CONTEXT, owner="tool 'find'")
    found: List[Tuple[int, str]] = []
    for depth in (1, 2, 60, 120, 180):
        with pytest.raises(Mismatch) as error:
            signature.read_arguments(
                {"where": nested("alone", depth, {"field": "a", "value": "x"})}
            )
        found.append((depth, str(error.value)))
    texts = dict(found)
    assert texts[60] == texts[120] == texts[180]
    for text in texts.values():
        assert text.startswith(
            "where: fits none of 6 forms (as an object with left and right: unknown field 'inner': "
            "the fields are left and right; missing: left and right; as an object with left and right: "
        )


def test_results_are_not_shared_between_reads() -> None:
    signature = read_signature(several, context_type=CONTEXT, owner="tool 'find'")
    for _ in range(2000):  # values of the same ids, one after the other
        first = signature.read_arguments({"where": [{"inner": {"field": "a", "value": 1}}]})
        second = signature.read_arguments({"where": [{"inner": {"field": "b", "value": 2}}]})
        assert (first["where"][0].inner.field, second["where"][0].inner.field) == ("a", "b")
