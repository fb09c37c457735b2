"""Does a fault in the library fail a test? ``python -m tests.mutation --count 150 --seed 1`` breaks it and looks.

Each mutant is one small change (a comparison, a condition, a constant, an operator, a statement left out) of a line of
code in protocol/, engine/ or server/, made in a copy of the repository; the fast tests must fail on it. Those that
survive are printed, with their lines: each is either a test that is missing or a change that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Iterator, List, NamedTuple, Tuple

from .support import ROOT

FOLDERS = ("protocol", "engine", "server")
TESTS = ("tests/unit", "tests/interaction", "tests/wire")
SECONDS = 300  # a mutant that hangs is found too
SWAPPED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """One change: of which file, what it says, and the changed text."""

    path: str
    says: str
    text: str


def changed(node: ast.AST) -> Iterator[Tuple[ast.AST, str]]:
    """What may stand in the place of a node."""
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
        yield type(node)(**{**{name: getattr(node, name) for name in node._fields}, "test": test}), "condition"
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        yield ast.Constant(value), "constant"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass(), "call left out"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None)), "returns None"


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of a file that this knows, type annotations and logging left out."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        row = getattr(node, "lineno", 0)
        if not row or "log." in lines[row - 1] or "TYPE_CHECKING" in lines[row - 1]:
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


def killed(mutant: Mutant, folder: Path, tests: List[str]) -> bool:
    """Whether the tests fail on a mutant, in a copy of the repository that is put right again afterwards."""
    file = folder / mutant.path
    file.write_text(mutant.text, encoding="utf-8")
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", *tests]
    silent, env = subprocess.DEVNULL, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # no mutant's bytecode is left
    try:
        done = subprocess.run(command, cwd=folder, env=env, stdout=silent, stderr=silent, timeout=SECONDS)
        return done.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        shutil.copy(ROOT / mutant.path, file)


def main() -> int:
    """Draw mutants, try them, print those that survive and the share that was killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="copies of the repository that are tried at once")
    parser.add_argument("--folder", action="append", help="of the library; may be repeated")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="what must fail")
    options = parser.parse_args()
    folders = options.folder or FOLDERS
    files = [path for folder in folders for path in sorted((ROOT / "minimcp" / folder).rglob("*.py"))]
    everything = [mutant for path in files for mutant in mutants(path)]
    drawn = random.Random(options.seed).sample(everything, min(options.count, len(everything)))
    with tempfile.TemporaryDirectory() as top:
        copies: "SimpleQueue[Path]" = SimpleQueue()
        for number in range(options.jobs):
            copy = Path(top) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__"))
            copies.put(copy)

        def attempt(mutant: Mutant) -> bool:
            copy = copies.get()
            try:
                return killed(mutant, copy, options.tests)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(attempt, drawn))
    for mutant, dead in zip(drawn, outcomes):
        if not dead:
            print(f"survived: {mutant.says}")
    share = 100 * sum(outcomes) / len(outcomes)
    print(f"{sum(outcomes)} of {len(outcomes)} mutants killed: {share:.1f} %, seed {options.seed}")
    return 0 if share >= 95 else 1


if __name__ == "__main__":
    sys.exit(main())
