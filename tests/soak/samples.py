"""Samples of resources, and the rule for growth.

The first quarter is warm-up: caches fill, pools of threads reach their size, the allocator takes
its arenas. Then the median of the second quarter is compared with that of the last one: medians,
because single samples jump, and quarters, because a leak continues, while normal use settles. A
resource has grown if the difference is more than allowed. The allowance is small compared with the
leak of half a run.
"""

from __future__ import annotations

import os
from statistics import median
from typing import Callable, Dict, List, Mapping, NamedTuple, Sequence

from ..support import children_of, status_of

FEWEST = 12  # with fewer samples, quarters have no meaning


class Kind(NamedTuple):
    name: str
    unit: str
    allowed: float  # how much more the last quarter may have than the second
    share: float  # the same as a fraction of the second quarter; the larger of the two counts


class Verdict(NamedTuple):
    kind: Kind
    first: float
    second: float
    last: float

    @property
    def allowed(self) -> float:
        return max(self.kind.allowed, self.kind.share * self.second)

    @property
    def has_grown(self) -> bool:
        return self.last - self.second > self.allowed

    def line(self) -> str:
        word = "GROWN" if self.has_grown else "flat"
        return (
            f"{self.kind.name:<24}{self.first:>10.1f}{self.second:>12.1f}{self.last:>12.1f}"
            f"{self.last - self.second:>+10.1f}{self.allowed:>10.1f}  {self.kind.unit:<4} {word}"
        )


HEADING = f"{'':<24}{'first':>10}{'2nd quarter':>12}{'4th quarter':>12}{'more':>10}{'allowed':>10}"


def judge(kind: Kind, values: Sequence[float]) -> Verdict:
    """Whether a series has grown."""
    if len(values) < FEWEST:
        raise ValueError(f"{len(values)} samples of {kind.name} are too few: let it run longer")
    quarter = len(values) // 4
    return Verdict(
        kind, values[0], median(values[quarter : 2 * quarter]), median(values[-quarter:])
    )


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


READERS: Dict[str, Callable[[int], float]] = {
    "threads": lambda pid: status_of(pid, "Threads"),
    "descriptors": descriptors_of,
    "children": lambda pid: len(children_of(pid)),
}

KINDS = (  # the samples of each process
    Kind(
        "threads", "", 32, 0
    ),  # as many workers as there were concurrent calls remain for 10 s: see `has_come_to_rest`
    Kind("descriptors", "", 0, 0),
    Kind("children", "", 0, 0),
    Kind("memory", "MiB", 1.5, 0.02),
    Kind("blocks", "k", 2.5, 0),  # of Python: leaked objects, however small
)

KEPT = 64
"""Additional descriptors of a process over HTTP: it keeps a connection for each concurrent call. A
leaking action would leave hundreds."""

RESTING = 2
"""Threads, or descriptors, more than at the beginning that a process may have when nothing has
happened for a while."""


def has_come_to_rest(pids: Dict[int, float]) -> bool:
    """Whether these processes have about as many threads again as they had."""
    return all(status_of(pid, "Threads") <= threads + RESTING for pid, threads in pids.items())


class Series:
    """The samples of one process."""

    def __init__(self, pid: int, name: str = "", kept: int = 0) -> None:
        self._pid, self.name = pid, name
        more = {"descriptors": kept}
        self.kinds = [
            kind._replace(
                name=f"{name} {kind.name}".strip(), allowed=more.get(kind.name, kind.allowed)
            )
            for kind in KINDS
        ]
        self.values: List[List[float]] = [[] for _ in self.kinds]

    def sample(self, held: Mapping[str, float]) -> None:
        """Add one of each kind.

        Args:
            held: The process's own report of its memory, from `settle`.
        """
        for kind, values in zip(KINDS, self.values):
            values.append(
                READERS[kind.name](self._pid) if kind.name in READERS else held[kind.name]
            )

    def verdicts(self) -> List[Verdict]:
        return [judge(kind, values) for kind, values in zip(self.kinds, self.values)]
