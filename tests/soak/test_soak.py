"""The soak itself: its rule sees what grows, and its command fails when it should."""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections import Counter
from typing import Any, Callable, Dict, List

import pytest

from ..support import children_of
from . import __main__ as command
from .samples import FEWEST, KEPT, KINDS, Series, judge
from .server import settle

pytestmark = pytest.mark.limit(280, "it watches processes for a while")

DESCRIPTORS, MEMORY = KINDS[1], KINDS[3]


@pytest.mark.parametrize(
    ("values", "has_grown"),
    [
        ([30.0] * 60, False),
        ([20 + min(n, 14) for n in range(60)], False),  # warm-up
        ([30 + n * 0.1 for n in range(60)], True),
        ([30 + n * 0.04 for n in range(60)], False),  # 1.2 MiB in half of the run
        ([30.0] * 45 + [33.0] * 15, True),
        ([30.0] * 55 + [90.0] * 5, False),  # single jumps
        ([200 + n * 0.2 for n in range(60)], True),
        ([500 + n * 0.2 for n in range(60)], False),  # 1.2 % of it
    ],
)
def test_growing_memory_is_distinguished_from_used_memory(
    values: List[float], has_grown: bool
) -> None:
    noise = random.Random(1)
    assert (
        judge(MEMORY, [value + noise.uniform(-0.3, 0.3) for value in values]).has_grown is has_grown
    )


def test_one_descriptor_more_is_growth_where_no_connection_is_kept() -> None:
    assert (
        judge(DESCRIPTORS, [8] * 30 + [9] * 30).has_grown
        and not judge(DESCRIPTORS, [8] * FEWEST).has_grown
    )
    over_http = Series(1, kept=KEPT).kinds[1]
    assert [
        judge(over_http, [8] * 30 + [8 + more] * 30).has_grown for more in (KEPT, KEPT + 1)
    ] == [False, True]
    with pytest.raises(ValueError, match="too few"):
        judge(MEMORY, [1.0] * (FEWEST - 1))


def test_a_thread_that_ends_during_a_count_does_not_disturb_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listdir, listings = os.listdir, [["no such thread"]]
    monkeypatch.setattr(os, "listdir", lambda path: listings.pop() if listings else listdir(path))
    assert children_of(os.getpid()) == frozenset() and not listings
    with pytest.raises(FileNotFoundError):
        children_of(2**30)


class Leaking:
    """Replaces the work: it does nothing except for the planted fault in each round."""

    plant: Callable[[], Any] = staticmethod(lambda: None)
    blocks: Callable[[], float] = staticmethod(lambda: 5.0)
    fault = ""

    def __init__(self, seed: int) -> None:
        self.done, self.faults = Counter({"nothing": 1}), [self.fault] if self.fault else []
        self.pids = {"": os.getpid(), "server": os.getpid()}

    def round(self, threads: int, seconds: float) -> bool:
        return self.plant() is not False

    def settle(self) -> Dict[str, Dict[str, float]]:
        return dict.fromkeys(self.pids, {**settle(), "blocks": self.blocks()})

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        ("nothing", "flat"),
        ("descriptors", "LEFT: descriptor on"),
        ("threads", "LEFT: thread planted"),
        ("memory", "GROWN"),
        ("blocks", "GROWN"),
        ("fault", "call: AssertionError()"),
        ("hang", "round 1 hangs"),
    ],
)
def test_the_command_fails_when_something_grows(
    leak: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over, kept, threads = threading.Event(), [], []  # type: ignore[var-annotated]

    def thread() -> None:
        threads.append(threading.Thread(target=over.wait, name="planted", daemon=True))
        threads[-1].start()

    def memory() -> None:
        """Allocate more than two per cent of the memory of a busy process."""
        kept.append(bytes(8 << 20))

    planted = {
        "descriptors": lambda: kept.append(os.open(os.devnull, os.O_RDONLY)),
        "threads": thread,
        "memory": memory,
        "hang": lambda: False,
    }
    monkeypatch.setattr(Leaking, "plant", staticmethod(planted.get(leak, lambda: None)))
    if leak == "blocks":
        monkeypatch.setattr(Leaking, "blocks", staticmethod(itertools.count(5.0, 1.0).__next__))
    monkeypatch.setattr(Leaking, "fault", "call: AssertionError()" if leak == "fault" else "")
    replaced = {"Work": Leaking, "WAIT": 0.05, "IDLE": 0.05, "ROUNDS": 16}
    for name, value in replaced.items():
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr(command.faulthandler, "dump_traceback", lambda: None)
    try:
        code = command.main(["--minutes", "0"])
    finally:
        over.set()
        for each in threads:
            each.join()
        for number in kept if leak == "descriptors" else ():
            os.close(number)
    assert code == (0 if leak == "nothing" else 1)
    assert said in capsys.readouterr().out
