"""The soak (tests/soak) itself: its rule sees what grows, its chart is a picture, its command fails when it should."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, List
from xml.etree import ElementTree

import pytest

from ..transports.http_peer import Peer
from . import __main__ as command
from .chart import svg
from .samples import FEWEST, KEPT, KINDS, Series, children_of, judge
from .web import VANISHING, WAYS
from .work import DEEDS, Work

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
        ([90.0] * 30 + [30.0] * 30, False),
        ([200 + n * 0.2 for n in range(60)], True),
        ([500 + n * 0.2 for n in range(60)], False),  # 1.2 % of it
    ],
)
def test_memory_that_grows_is_told_from_memory_that_is_used(values: List[float], has_grown: bool) -> None:
    noise = random.Random(1)
    assert judge(MEMORY, [value + noise.uniform(-0.3, 0.3) for value in values]).has_grown is has_grown


def test_one_descriptor_more_is_growth() -> None:
    assert not judge(DESCRIPTORS, [8] * 60).has_grown
    verdict = judge(DESCRIPTORS, [8] * 30 + [9] * 30)
    assert verdict.has_grown and verdict.line().endswith("GROWN")


def test_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        judge(MEMORY, [1.0] * (FEWEST - 1))
    assert not judge(MEMORY, [1.0] * FEWEST).has_grown


def test_this_process_can_be_sampled() -> None:
    series = Series(os.getpid(), "server")
    series.sample(5000)
    threads, descriptors, children, memory, blocks = (values[0] for values in series.values)
    assert threads >= threading.active_count() and descriptors > 2 and children == 0 and memory > 5
    assert blocks == 5.0
    assert [kind.name for kind in series.kinds][0] == "server threads"


def test_a_thread_that_ends_meanwhile_disturbs_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    listdir, listings = os.listdir, [["no such thread"]]
    monkeypatch.setattr(os, "listdir", lambda path: listings.pop() if listings else listdir(path))
    assert children_of(os.getpid()) == 0 and not listings
    with pytest.raises(FileNotFoundError):
        children_of(2**30)


def test_a_process_over_http_may_keep_more_connections() -> None:
    kinds = Series(1, kept=KEPT).kinds
    few, many = (judge(kinds[1], [8] * 30 + [8 + more] * 30) for more in (KEPT, KEPT + 1))
    assert (few.has_grown, many.has_grown) == (False, True)
    assert [kind.allowed for kind in kinds if kind.name != "descriptors"] == [
        kind.allowed for kind in KINDS if kind.name != "descriptors"
    ]


def test_every_deed_can_be_done() -> None:
    work = Work(1)
    try:
        assert len(set(work.pids.values())) == 3
        for _, deed, _ in DEEDS:
            deed(work, random.Random(5))
        for way in WAYS:
            for seed in range(4):
                peers: List[Peer] = []
                VANISHING[way](work._web, random.Random(seed), peers)
                for peer in peers:
                    peer.close()
        assert set(work.settle()) == set(work.pids)
    finally:
        work.close()
    assert not work.faults


def test_the_chart_is_a_picture() -> None:
    root = ElementTree.fromstring(svg("<title> & more", [("flat", [1.0, 1.0]), ("zero", [0.0] * 5), ("one", [3.0])]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len((line.get("points") or "").split()) for line in lines] == [2, 5, 1]


class Leaking:
    """In the place of the work: it does nothing, but for what is planted in each round."""

    plant: Callable[[], Any] = staticmethod(lambda: None)
    blocks: Callable[[], int] = staticmethod(lambda: 5000)
    fault = ""

    def __init__(self, seed: int) -> None:
        self.done, self.faults = Counter({"nothing": 1}), [self.fault] if self.fault else []
        self.pids = {"": os.getpid(), "server": os.getpid()}

    def round(self, threads: int, seconds: float) -> bool:
        return self.plant() is not False

    def settle(self) -> Dict[str, int]:
        blocks = self.blocks()
        return dict.fromkeys(self.pids, blocks)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("leak", "said"),
    [
        ("nothing", "chart: "),
        ("descriptors", "LEFT: descriptor on"),
        ("threads", "LEFT: thread planted"),
        ("threads", "LEFT: threads of idle connections"),
        ("memory", "GROWN"),
        ("blocks", "GROWN"),
        ("fault", "call: AssertionError()"),
        ("hang", "round 1 hangs"),
    ],
)
def test_the_command_fails_when_something_grows(
    leak: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    over, kept, threads = threading.Event(), [], []  # type: ignore[var-annotated]

    def thread() -> None:
        threads.append(threading.Thread(target=over.wait, name="planted", daemon=True))
        threads[-1].start()

    def memory() -> None:
        """New pages, and many: what a busy process has freed before is no growth, nor are two per cent of it."""
        kept.append(mmap.mmap(-1, 8 << 20))
        kept[-1].write(b"x" * (8 << 20))

    planted = {
        "descriptors": lambda: kept.append(os.open(os.devnull, os.O_RDONLY)),
        "threads": thread,
        "memory": memory,
        "hang": lambda: False,
    }
    monkeypatch.setattr(Leaking, "plant", staticmethod(planted.get(leak, lambda: None)))
    if leak == "blocks":
        monkeypatch.setattr(Leaking, "blocks", staticmethod(itertools.count(5000, 1000).__next__))
    monkeypatch.setattr(command, "with_one_heap", lambda: None)
    monkeypatch.setattr(Leaking, "fault", "call: AssertionError()" if leak == "fault" else "")
    monkeypatch.setattr(command, "Work", Leaking)
    monkeypatch.setattr(command, "WAIT", 0.05)
    monkeypatch.setattr(command, "IDLE", 0.05)
    monkeypatch.setattr(command, "ROUNDS", 16)
    monkeypatch.setattr(command.faulthandler, "dump_traceback", lambda: None)
    try:
        code = command.main(["--minutes", "0", "--chart", str(tmp_path / "chart.svg")])
    finally:
        over.set()
        for each in threads:
            each.join()
        for number in kept if leak == "descriptors" else ():
            os.close(number)
    assert code == (0 if leak == "nothing" else 1)
    assert said in capsys.readouterr().out
