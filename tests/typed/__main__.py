"""``python -m tests.typed WHEEL``: check programs of users with ``mypy --strict`` and pyright in
strict mode.

They are checked against the wheel, in an environment of their own. A line that ends in ``# wrong:
...`` must have an error in both, and no other line may have one. ``assert_type`` asserts a type.
The exit code is 1 if a check fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, Dict, Set, Tuple

PROGRAMS = Path(__file__).resolve().parent / "programs"
TOOLS = ["mypy>=1.15,<2", "pyright==1.1.414", "typing_extensions", "types-requests"]
SECONDS = 300

Lines = Set[Tuple[str, int]]

# Strict, except for rules that do not apply to programs that export nothing.
PYRIGHT: Dict[str, Any] = {
    "typeCheckingMode": "strict",
    "reportUnusedFunction": False,
    "reportMissingTypeStubs": False,
}


def expected() -> Lines:
    """The lines that are to have an error."""
    return {
        (path.name, number)
        for path in PROGRAMS.glob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "  # wrong: " in line
    }


def run(*command: str, cwd: Path) -> str:
    """Return the output of a program."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )
    return done.stdout.decode("utf-8", "replace")


def by_mypy(python: str, folder: Path) -> Dict[Tuple[str, int], str]:
    """The errors of ``mypy --strict``, by line."""
    printed = run(
        python,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--python-version",
        "3.12",
        ".",
        cwd=folder,
    )
    found = re.findall(r"^(?:\./)?(\w+\.py):(\d+): error: (.*)$", printed, re.M)
    if not found:
        raise SystemExit(printed)
    return {(name, int(number)): text for name, number, text in found}


def by_pyright(python: str, folder: Path) -> Dict[Tuple[str, int], str]:
    """The errors of pyright, by line."""
    config = {
        "include": ["."],
        "venvPath": str(folder.parent),
        "venv": "env",
        "pythonVersion": "3.12",
        **PYRIGHT,
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config), "utf-8")
    printed = run(python, "-m", "pyright", "--outputjson", cwd=folder)
    answer = json.loads(printed[printed.index("{") :])
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in answer["generalDiagnostics"]
        if each["severity"] == "error"
    }


def main(wheel: str) -> int:
    """Install, check, compare; the exit code."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        venv.create(top / "env", with_pip=True)
        python = str(top / "env" / "bin" / "python")
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", wheel, *TOOLS], check=True, timeout=SECONDS
        )
        folder = top / "programs"
        folder.mkdir()
        for path in PROGRAMS.glob("*.py"):
            (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
        wanted = expected()
        for checker, check in (("mypy --strict", by_mypy), ("pyright", by_pyright)):
            found = check(python, folder)
            for at in sorted(set(found) - wanted):
                print(f"{checker}: {at[0]}:{at[1]}: {found[at]}")
            for at in sorted(wanted - set(found)):
                print(f"{checker}: {at[0]}:{at[1]}: no error")
            wrong = len(set(found) ^ wanted)
            print(f"{checker}: {len(wanted)} errors expected, {wrong} lines otherwise", flush=True)
            failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(str(Path(sys.argv[1]).resolve())))
