"""Check whether a fault in the library fails a test: ``python -m tests.mutation --count 150 --seed
1`` adds faults and runs the tests.

Each mutant is one small change (a comparison, a condition, a constant, an operator, a statement
left out) of a line of code in protocol/, engine/ or server/, made in a copy of the repository; the
fast tests must fail on it, those of the module first. The outcome of each is printed at once, with
its number and the failed test. A mutant survives if a test is missing or the change has no effect.
``--from 40`` resumes a run that was stopped, ``--only 17`` tries one mutant again. Both need the
same code, because the mutants are drawn from it.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Iterator, List, NamedTuple, Optional, Tuple

from .support import ROOT

FOLDERS = ("protocol", "engine", "server")
TESTS = ("tests/unit", "tests/interaction", "tests/wire")
SECONDS = 900  # that one folder of tests may take: a mutant that hangs is found too
SWAPPED = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """One change: its file, its description, and the changed text."""

    path: str
    says: str
    text: str


def changed(node: ast.AST) -> Iterator[Tuple[ast.AST, str]]:
    """Yield the replacements of a node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPPED:
        yield ast.Compare(node.left, [SWAPPED[type(node.ops[0])]()], node.comparators), "comparison"
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPPED[type(node.op)](), node.values), "and/or"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right), "operator"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand, "not left out"
    elif isinstance(node, (ast.If, ast.IfExp)):
        test = ast.UnaryOp(ast.Not(), node.test)
        yield (
            type(node)(**{**{name: getattr(node, name) for name in node._fields}, "test": test}),
            "condition",
        )
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield ast.Constant(value), "constant"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass(), "call left out"
    elif (
        isinstance(node, ast.Return)
        and node.value is not None
        and not isinstance(node.value, ast.Constant)
    ):
        yield ast.Return(ast.Constant(None)), "returns None"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file that this knows, type annotations and logging left out."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        row = getattr(node, "lineno", 0)
        if not row or any(
            word in lines[row - 1] for word in ("log.", "TYPE_CHECKING", "TypedDict")
        ):
            continue
        for new, kind in changed(node):
            new_text = ast.unparse(ast.fix_missing_locations(new)).splitlines()
            first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
            start, end = node.col_offset, node.end_col_offset or 0  # type: ignore[attr-defined]
            before = lines[first - 1].encode()[:start].decode()
            after = lines[last - 1].encode()[end:].decode()
            body = f"\n{' ' * start}".join(new_text)
            if isinstance(new, ast.expr):
                body = f"({body})"
            text = "".join(lines[: first - 1]) + before + body + after + "".join(lines[last:])
            try:
                ast.parse(text)
            except SyntaxError:
                continue
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, f"{name}:{row} {kind}: {lines[row - 1].strip()[:90]}", text)


def stages(mutant: Mutant, tests: List[str]) -> Iterator[List[str]]:
    """Yield the arguments of pytest, run by run: the unit tests of the module, then each folder."""
    own = [
        p.relative_to(ROOT).as_posix()
        for p in sorted(ROOT.glob(f"tests/unit/test_*{Path(mutant.path).stem}*.py"))
    ]
    for name in tests:
        if name == "tests/unit" and own:
            yield own
            yield [name, *(f"--ignore={file}" for file in own)]
        else:
            yield [name]


def failure(folder: Path, tests: List[str]) -> Optional[str]:
    """The first test that fails in a copy of the repository; None where all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", *tests]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**env, "MINIMCP_LONGEST": "100"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = -1
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        failed = (line for line in output if line.startswith(("FAILED ", "ERROR ")))
        return (
            None if status == 0 else next(failed, f"no test, but the run: status {status}").strip()
        )


def judged(number: int, mutant: Mutant, folder: Path, tests: List[str]) -> bool:
    """Return whether the tests fail on a mutant, and print the outcome. The mutant is removed from
    the copy afterwards."""
    file, began = folder / mutant.path, time.monotonic()
    right = file.read_text(encoding="utf-8")
    try:
        file.write_text(mutant.text, encoding="utf-8")
        os.utime(
            file, (number + 1, number + 1)
        )  # bytecode of this mutant only, because bytecode is cached by time and size
        found = next(
            filter(None, (failure(folder, stage) for stage in stages(mutant, tests))), None
        )
    finally:
        file.write_text(right, encoding="utf-8")
        os.utime(file, (0, 0))
    print(
        f"{number} {mutant.says}\n    {found or 'SURVIVED'} ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    return found is not None


def main() -> int:
    """Draw mutants, try them, print what became of each and the share that was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--from", type=int, default=0, dest="first", help="number of the mutant to begin with"
    )
    parser.add_argument(
        "--only", type=int, action="append", help="number of a mutant to try; may be repeated"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="copies of the repository that are tried at once"
    )
    parser.add_argument("--folder", action="append", help="of the library; may be repeated")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="what must fail")
    options = parser.parse_args()
    if hasattr(os, "nice"):
        os.nice(10)
    folders = options.folder or FOLDERS
    files = [
        path for folder in folders for path in sorted((ROOT / "minimcp" / folder).rglob("*.py"))
    ]
    everything = [mutant for path in files for mutant in mutants(path)]
    drawn = random.Random(options.seed).sample(everything, min(options.count, len(everything)))
    numbers = options.only or range(options.first, len(drawn))
    with tempfile.TemporaryDirectory() as top:
        copies: "SimpleQueue[Path]" = SimpleQueue()
        for name in range(options.jobs):
            copy = Path(top) / str(name)
            shutil.copytree(
                ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".cache", "__pycache__")
            )
            copies.put(copy)

        def attempt(number: int) -> bool:
            copy = copies.get()
            try:
                return judged(number, drawn[number], copy, options.tests)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(attempt, numbers))
    share = 100 * sum(outcomes) / len(outcomes)
    print(f"{sum(outcomes)} of {len(outcomes)} mutants killed: {share:.1f} %, seed {options.seed}")
    return 0 if share >= 95 else 1


if __name__ == "__main__":
    sys.exit(main())
