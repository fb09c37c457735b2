"""`python -m tests.prose`: find phrases that hide who does what in docstrings, comments and pages.

A hit is a hint, and not every hit is a mistake. `REASONS` lists hits that may stay, and `ALLOWED`
the number of other hits that each folder may have. Lower a number when hits are gone; never raise
one. The exit code is 1 if a folder has more hits than allowed.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

from .support import ROOT

ALLOWED: Dict[str, int] = {
    "minimcp/cli": 2,  # texts that the demo prints
}
"""The number of hits that each folder may have; 0 for all others. Lower them."""


REASONS: Dict[Tuple[str, str], str] = {
    ("examples/00_pictures.rst", "who is"): "a heading that asks: who is who",
    ("examples/lesson.rst", "who decides"): "a question for the class",
    ("examples/lesson.rst", "who is"): "a heading that asks: who is who",
}
"""Hits that may stay, by file and matching text in lower case, each with its reason."""

OPENING = "docstring opening"

ADVICE: Dict[str, Tuple[str, str]] = {
    OPENING: (
        r"\A(?:who(?:m|se)?|what|that|those|some|of|told|as)\b",
        "begin with a verb (functions) or the noun (classes, attributes)",
    ),
    "negated noun": (
        r"(?<!\bthere )\b(?:is|are|was|were|be|being) no (?!more\b|longer\b|one\b)\w+",
        "write 'is not a ...' or 'is not ...'",
    ),
    "pronoun as a noun": (
        r"(?<![.?] )\b(?:those|they|others?|he|all|somebody|everybody) (?:who|that|whom)\b",
        "name the thing: the caller, the peer, the messages",
    ),
    "who without a noun": (
        r"(?<!person )(?<!user )(?<!caller )(?<!author )\bwho (?:has|is|\w+s)\b(?! (?:this|that)\b)",
        "name the actor: the caller, the thread that ...",
    ),
    "telling": (
        r"\b(?:is|are|was|were) told\b"
        r"|\b(?:tells?|hears?) (?:of|about|who|whom|what|whether|apart)\b",
        "write notify, report, receive or determine",
    ),
    "what without a noun": (
        r"\bwhat (?:(?:was|is) (?:sent|asked|read|left|kept)"
        r"|comes?|came|waits?|runs?|stands?|begins?|belongs?|follows?|goes)\b",
        "name the thing: the queued messages, the rest",
    ),
    "everyday verb": (
        r"\blets? go\b|\b(?:goes|go|went) on\b|\bmend(?:s|ed)?\b"
        r"|\bstands?\b(?! (?:for|alone|out)\b)",
        "write release, close, continue, fix or is",
    ),
    "connector": (
        r"\b(?:all the same|nowhere|of none of|thereof|wherein|meanwhile|anew|any more|than may)\b"
        r"|\bthat there (?:is|are)\b|\bin (?:its place|the place of)\b",
        "write again, no longer, instead, existing, or leave it out",
    ),
    "entry without a noun": (
        r"(?m)^ *\w+: (?:Of|That|Where to|How it)\b",
        "begin the description with the noun",
    ),
}
"""Patterns, and what to write instead."""

PATTERNS = {
    name: re.compile(pattern, 0 if name == "entry without a noun" else re.IGNORECASE)
    for name, (pattern, _) in ADVICE.items()
}


class Hit(NamedTuple):
    path: str
    line: int
    name: str
    text: str


def folder_of(path: str) -> str:
    """Return the key of `ALLOWED` for a path: two parts in the package, one elsewhere."""
    parts = path.split("/")
    if parts[0] != "minimcp":
        return parts[0]
    return "/".join(parts[:2]) if len(parts) > 2 else "minimcp"


def _pieces(path: Path) -> Iterator[Tuple[int, str, bool]]:
    """Yield each piece of prose of a file, with its line and whether it is a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rst":
        code = re.compile(r"(?m)^(?:\.\. code-block::.*|::|.*[^:]::)\n((?:(?:    .*)?\n)+)")
        blank = code.sub(lambda found: "\n" * found.group().count("\n"), text)
        line = 1
        for paragraph in re.split(r"(\n\n+)", blank):
            yield line, re.sub("``[^`]*``", "``code``", paragraph), False
            line += paragraph.count("\n")
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            found = ast.get_docstring(node)
            if found:
                yield node.body[0].lineno, found, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def hits(path: Path) -> List[Hit]:
    """Return the hits of one file."""
    name = path.relative_to(ROOT).as_posix()
    found = []
    for line, piece, is_docstring in _pieces(path):
        for kind, pattern in PATTERNS.items():
            if kind == OPENING and not is_docstring:
                continue
            match = pattern.search(piece)
            if match and (name, match.group().lower()) not in REASONS:
                at = line + piece.count("\n", 0, match.start())
                found.append(Hit(name, at, kind, match.group().strip()))
    return found


def files() -> List[Path]:
    """Return the Python files of the package, the tests and the examples, and the pages."""
    python = [
        path for top in ("minimcp", "tests", "examples") for path in ROOT.glob(f"{top}/**/*.py")
    ]
    pages = [*ROOT.glob("*.rst"), *ROOT.glob("examples/*.rst")]
    generated = ROOT / "examples" / "reference.rst"
    return sorted(path for path in (*python, *pages) if path not in (generated, Path(__file__)))


def main() -> int:
    """Print the hits of each folder that has more than allowed; with -v, all hits."""
    by_folder: Dict[str, List[Hit]] = {}
    for path in files():
        for hit in hits(path):
            by_folder.setdefault(folder_of(hit.path), []).append(hit)
    failed = False
    for folder in sorted({*by_folder, *ALLOWED}):
        found = by_folder.get(folder, [])
        most = ALLOWED.get(folder, 0)
        print(f"{folder}: {len(found)} of {most} hits")
        if len(found) > most or "-v" in sys.argv:
            failed = failed or len(found) > most
            for hit in found:
                print(f"  {hit.path}:{hit.line}: {hit.text!r}: {ADVICE[hit.name][1]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
