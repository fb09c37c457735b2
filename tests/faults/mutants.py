"""C20: messages with a few changes, each of which has its own right answer. How they are drawn and
judged: `lines`."""

from __future__ import annotations

from ..mutants.drawing import culprits
from ..mutants.lines import SILENT, Lines
from .raw import shown
from .trial import Trial, case


@case("C20")
def mutants(t: Trial) -> None:
    lines = Lines(t.server, t.eras(), t.options.patience)
    [first, *_] = lines.servers.values()
    base, threads, named = lines.memory(), first.status("Threads"), 0
    names = [f"lines:{t.options.seed}:{number}" for number in range(t.options.mutations)]
    for start in range(0, len(names), lines.batch):
        batch = names[start : start + lines.batch]
        why = lines.judge(batch)
        for group in culprits(batch, lines.judge, 5 - named) if why and named < 5 else ():
            why, named = lines.judge(group) or why or "", named + 1
            worst = t.warn if SILENT in why else t.fail
            worst(
                f"mutant {group[0]}{'' if len(group) == 1 else '...'} ({shown(lines.make(group[0]), 120)}): {why}"
            )
    t.note("mutants", t.options.mutations, "")
    t.note("seed", t.options.seed, "")
    if not named:
        t.below("growth", lines.memory() - base, 60, "MB")
        t.below("more threads", first.status("Threads") - threads, 12, "")
    for server in lines.servers.values():
        server.aside.clear()
        server.alive(t.options.slack)
