"""Tables of what is registered, and those of mounted servers in them."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import List, Optional

import pytest
from minimcp.server.tables import Registered, Table

from ..support import WAIT
from .support import facts

OURS, THEIRS = facts(), facts()


class Thing(Registered):
    """Something with a name and a place."""

    def __init__(self, place: str, name: str = "") -> None:
        super().__init__(THEIRS)
        self.place, self.shown = place, SimpleNamespace(name=name)


def table(**places: str) -> Table[Thing]:
    made: Table[Thing] = Table("thing", lambda thing: thing.place)
    for name, place in places.items():
        made.add(name, Thing(place, name), replace=False)
    return made


def mounted(over: Table[Thing], under: Table[Thing], prefix: Optional[str] = "x__") -> None:
    mount = over.mounting(under, prefix, OURS)
    over.check_mount(mount)
    over.mount(mount)


def test_a_table() -> None:
    made, first, second = table(), Thing("here"), Thing("there")
    made.add("a", first, replace=False)
    with pytest.raises(ValueError, match="the thing 'a' exists: here; now there"):
        made.add("a", second, replace=False)
    assert made.get("a") is first and made.get("b") is None and made.get(["a"]) is None and made.get(None) is None
    made.add("b", second, replace=True)
    made.add("a", second, replace=True)
    assert made.all() == [second, second] and len(made) == 2 and "a" in made and "c" not in made
    made.remove("a")
    with pytest.raises(KeyError):
        made.remove("a")
    assert made.all() == [second]


def test_a_name_is_taken_once_whoever_comes() -> None:
    made = table()
    gate, outcomes, refused = threading.Barrier(8), [], []

    def add(number: int) -> None:
        gate.wait(WAIT)
        for name in range(50):
            try:
                made.add(str(name), Thing(f"of {number}"), replace=False)
                outcomes.append(name)
            except ValueError as error:
                refused.append(str(error))
            made.all()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(outcomes) == list(range(50)) and len(made) == 50
    assert len(refused) == 350 and all("; now of " in each for each in refused)


def test_a_mounted_table_is_seen_live() -> None:
    over, under = table(own="o"), table(a="u")
    mounted(over, under)
    thing = over.get("x__a")
    assert thing is not None and thing.place == "u" and thing.shown.name == "x__a"
    assert thing.layers == (OURS.middleware, THEIRS.middleware)
    original = under.get("a")
    assert original is not None and original.shown.name == "a" and original.layers == (THEIRS.middleware,)
    assert over.get("x__a") is thing and over.all()[1] is thing, "one copy, until the thing is replaced"
    assert "a" not in over and "x__" not in over and len(over) == 2
    under.add("b", Thing("later", "b"), replace=False)
    assert list(over.named()) == ["own", "x__a", "x__b"]
    under.add("a", Thing("new", "a"), replace=True)
    assert [each.place for each in over.all()] == ["o", "new", "later"]
    under.remove("a")
    over.refresh()
    assert list(over.named()) == ["own", "x__b"] and over.get("x__a") is None
    with pytest.raises(KeyError):
        over.remove("x__b")


def test_names_may_stay_and_prefixes_add_up() -> None:
    top, middle, low = table(), table(), table(a="l")
    mounted(middle, low)
    mounted(top, middle, None)
    mounted(top, middle, "y__")
    assert list(top.named()) == ["x__a", "y__x__a"]
    thing = top.get("y__x__a")
    assert thing is not None and thing.shown.name == "y__x__a" and len(thing.layers) == 3
    assert top.get("x__a").shown.name == "x__a"  # type: ignore[union-attr]


def test_a_clash_is_refused_or_the_earlier_stays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    over, under, last = table(x__a="mine", z="mine"), table(a="theirs"), table(b="last")
    with pytest.raises(ValueError, match="the thing 'x__a' exists: mine; mounted would be theirs"):
        mounted(over, under)
    assert len(over) == 2
    over.remove("x__a")
    mounted(over, under)
    mounted(over, last)
    with pytest.raises(ValueError, match="the thing 'x__a' exists: theirs; now mine"):
        over.add("x__a", Thing("mine"), replace=False)
    over.add("x__a", Thing("mine"), replace=True)
    under.add("b", Thing("hidden no more"), replace=False)
    for _ in range(2):
        over.refresh()
    assert [each.place for each in over.all()] == ["mine", "mine", "hidden no more"]
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "two things x__a: mine stays, theirs is hidden",
        "two things x__b: hidden no more stays, last is hidden",
    ], "each is told once"
    over.remove("x__a")
    over.refresh()
    assert over.get("x__a").place == "theirs"  # type: ignore[union-attr]
    over.add("x__a", Thing("again"), replace=True)
    over.refresh()
    assert len(caplog.records) == 3


def test_the_same_thing_on_two_ways_is_no_clash(caplog: pytest.LogCaptureFixture) -> None:
    over, left, right, low = table(), table(), table(), table(a="low")
    for side in (left, right):
        mounted(side, low, None)
        mounted(over, side, None)
    over.refresh()
    assert [each.place for each in over.all()] == ["low"] and not caplog.records


def test_a_mounted_table_may_change_while_it_is_read() -> None:
    over, under = table(), table(stays="here")
    mounted(over, under)
    gate, wrong = threading.Barrier(4), []  # type: ignore[var-annotated]

    def change(number: int) -> None:
        gate.wait(WAIT)
        for _ in range(200):
            under.add(f"t{number}", Thing("new"), replace=False)
            over.refresh()
            under.remove(f"t{number}")

    def look() -> None:
        gate.wait(WAIT)
        for _ in range(200):
            names: List[str] = list(over.named())
            thing = over.get("x__stays")
            if names[0] != "x__stays" or thing is None or thing.place != "here":
                wrong.append(names)

    threads = [threading.Thread(target=change, args=(1,)), threading.Thread(target=change, args=(2,))]
    threads += [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not wrong and list(over.named()) == ["x__stays"]
