"""`python -m tests.reference`: write examples/reference.rst from the signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any, Dict, ForwardRef, Iterator, List, Optional, Tuple

import minimcp
from minimcp import schema, terminal, testing

from .support import ROOT

PAGE = ROOT / "examples" / "reference.rst"

INTRODUCTION = """\
Reference
=========

Every public class and function, with its signature and its docstring, as ``help(minimcp.Server)`` shows them too.
Parameters below ``*`` are given by name. A program writes this page: ``python3 -m tests.reference``.
"""

PARTS: Tuple[Tuple[str, str, Any, Tuple[str, ...]], ...] = (
    (
        "Servers and clients",
        "minimcp",
        minimcp,
        ("Server", "serve", "Context", "connect", "Client", "connect_all"),
    ),
    ("Everything else, by name", "minimcp", minimcp, ()),
    ("For hosts in a terminal", "minimcp.terminal", terminal, terminal.__all__),
    ("For tests of servers", "minimcp.testing", testing, tuple(testing.__all__)),
    ("Bounds of numbers and lengths", "minimcp.schema", schema, ("Bounds",)),
)
"""Headings, modules, and their names to list; none means all names that were not listed before."""


def annotation(given: Any) -> str:
    if isinstance(given, ForwardRef):
        return given.__forward_arg__
    return given if isinstance(given, str) else inspect.formatannotation(given)


def signature(name: str, function: Any, method: bool) -> List[str]:
    """One line, or a line for each parameter."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return [name]
    parameters = list(found.parameters.values())[1 if method else 0 :]
    shown: List[str] = []
    star = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        text = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
        if each.annotation is not each.empty:
            text += f": {annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {'...' if each.default is ... else repr(each.default)}"
        shown.append(text)
    end = ")"
    if not isinstance(function, type) and found.return_annotation is not found.empty:
        end = f") -> {annotation(found.return_annotation)}"
    line = f"{name}({', '.join(shown)}{end}"
    return [line] if len(line) <= 100 else [f"{name}(", *(f"    {each}," for each in shown), end]


def docstring(thing: Any, name: str) -> Optional[str]:
    found = inspect.getdoc(thing)
    return None if not found or found.startswith((f"{name}(", "Alias for field number")) else found


def entry(name: str, thing: Any, indent: str, method: bool = False) -> Iterator[str]:
    shown = signature(name, thing, method) if callable(thing) else [name]
    for line in [
        *shown,
        *(f"    {line}".rstrip() for line in (docstring(thing, name) or "").splitlines()),
    ]:
        yield f"{indent}{line}".rstrip()
    yield ""


def members(cls: type) -> Iterator[Tuple[str, Any, bool]]:
    """The public methods and properties of a class and of its bases in this library, with whether
    `self` is taken."""
    seen: Dict[str, Any] = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == minimcp.__name__:
            for name, value in vars(base).items():
                seen.setdefault(name, value)
    for name, value in seen.items():
        if not name.startswith("_"):
            if isinstance(value, (classmethod, staticmethod)):
                yield name, getattr(cls, name), False
            elif inspect.isfunction(value):
                yield name, value, True
            elif isinstance(value, property) and value.__doc__:
                yield name, value, False


def written() -> str:
    """The page as it should be."""
    lines = INTRODUCTION.splitlines()
    done = set()
    for heading, module, owner, names in PARTS:
        lines += ["", heading, "-" * len(heading)]
        for name in names or sorted(
            set(owner.__all__) - done - {"__version__"}, key=lambda name: (name.lower(), name)
        ):
            done.add(name)
            thing = getattr(owner, name)
            title = f"{module}.{name}"
            lines += ["", title, "~" * len(title), "", "::", ""]
            lines += entry(name, thing, "    ")
            if isinstance(thing, type):
                for member, value, method in members(thing):
                    if docstring(value, member):
                        lines += entry(member, value, "        ", method)
            while not lines[-1]:
                lines.pop()
    return re.sub(r" at 0x[0-9a-f]+", "", "\n".join(lines)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
    sys.exit(0)
