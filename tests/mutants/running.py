"""Judging the mutants of a kind, in a process that may end or hang."""

from __future__ import annotations

import gc
import mmap
import multiprocessing
import os
import resource
import time
import traceback
from contextlib import closing
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

from ..support import status_of, usual_signals
from .drawing import culprits, draw
from .inside import KINDS, Reading

GROWTH = 64.0  # MB that a process may grow by, from a tenth of its mutants on to the last
PEAK = 64.0  # MB that it may grow by for one mutant


class Options(NamedTuple):
    seed: int = 1
    seconds: float = 1.0  # of processor time, for a mutant of at most some kilobytes
    patience: float = 30.0  # seconds without an outcome, after which it hangs
    most: int = 5  # mutants that are named, of a kind


class Judge:
    """The interface of the judges of all kinds: it judges mutants by their names, `batch` of them
    at once."""

    batch = 1

    def __init__(self, kind: str, options: Options) -> None:
        self.reading = Reading()
        self.kind, self.seconds = KINDS[kind], options.seconds

    def make(self, name: str) -> bytes:
        return draw(name, self.kind.corpus)

    def judge(self, names: Sequence[str]) -> Optional[str]:
        """Return what is wrong with the handling of the mutants."""
        [name] = names
        data, begun, peak = (
            self.make(name),
            time.thread_time(),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        )
        try:
            self.kind.judge(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error!s:.300} ({place.filename.rpartition('/')[2]}:{place.lineno})"
        took, grown = (
            time.thread_time() - begun,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak,
        )
        if took > self.seconds or grown > PEAK * 1024:
            return f"{took:.2f} s, {grown / 1024:.0f} MB"
        return next(iter(self.reading.taken()), None)

    def memory(self) -> float:
        """Return the memory of the tested process in MB."""
        gc.collect()
        return status_of(os.getpid(), "VmRSS") / 1024

    def close(self) -> None:
        """End the started processes."""


def judge_of(kind: str, options: Options) -> Any:
    if kind == "lines":
        from ..faults.__main__ import OUR_SERVER
        from ..faults.raw import Server
        from .lines import CORPORA, Lines

        patience = options.patience / 3
        return Lines(
            lambda revision: Server(OUR_SERVER, revision, patience), list(CORPORA), patience
        )
    if kind == "requests":
        from .requests import Requests

        return Requests(options.patience / 3)
    if kind == "answers":
        from .answers import Answers

        return Answers()
    return Judge(kind, options)


def work(kind: str, options: Options, first: int, last: int, at: Any, pipe: Any) -> None:
    """Judge the mutants with these numbers; each that is wrong goes into the pipe, and then the
    growth."""
    usual_signals()
    if kind in KINDS:
        resource.setrlimit(
            resource.RLIMIT_AS, (4 << 30, 4 << 30)
        )  # a MemoryError here, and not the end of others
    with closing(judge_of(kind, options)) as judge:
        named, warm = 0, None
        for start in range(first, last, judge.batch):
            at[:] = start.to_bytes(8, "big")
            if warm is None and start - first >= (last - first) // 10:
                warm = judge.memory()
            names = [
                f"{kind}:{options.seed}:{number}"
                for number in range(start, min(start + judge.batch, last))
            ]
            why = judge.judge(names)
            if why:
                groups = (
                    culprits(names, judge.judge, options.most) if named < options.most else [names]
                )
                for group in groups:
                    named += 1
                    pipe.send((group, (len(names) > 1 and judge.judge(group)) or why))
        pipe.send(judge.memory() - (warm or 0.0))


class Found(NamedTuple):
    names: List[str]
    why: str


def run(kind: str, options: Options, count: int) -> Iterator[Any]:
    """Yield the findings of a kind as `Found`, and last the growth in MB. A process that ends or
    hangs is started again."""
    context = multiprocessing.get_context("fork")  # the child need not import modules again
    first, restarts = 0, 0
    while restarts < options.most:
        receiving, sending = context.Pipe(duplex=False)
        at, since = (
            mmap.mmap(-1, 8),
            time.monotonic(),
        )  # shared with the process: the mutant that it is judging
        seen = at[:]
        process = context.Process(target=work, args=(kind, options, first, count, at, sending))
        process.start()
        sending.close()
        why = ""
        try:
            while not why:
                if receiving.poll(1.0):
                    since, said = time.monotonic(), receiving.recv()
                    if isinstance(said, float):
                        process.join()
                        yield said
                        return
                    yield Found(*said)
                elif at[:] != seen:
                    seen, since = at[:], time.monotonic()
                elif time.monotonic() - since > options.patience:
                    why = f"no outcome within {options.patience:g} s"
        except EOFError:
            process.join()
            why = f"the process ended: {process.exitcode}"
        finally:
            process.kill()
            process.join()
            receiving.close()
        first, restarts = int.from_bytes(at[:], "big"), restarts + 1
        yield Found([f"{kind}:{options.seed}:{first}"], why)
        first += 1
