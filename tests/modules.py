"""The package as text: the imports, names and definitions of each module, read by `ast` and never
run."""

from __future__ import annotations

import ast
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from .support import ROOT

PACKAGE = ROOT / "minimcp"

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class Import(NamedTuple):
    line: int
    target: str
    """A path relative to minimcp/ for a module of the package, otherwise a dotted name."""
    ours: bool
    late: bool
    """Inside a function."""
    typing_only: bool
    """Only below ``if TYPE_CHECKING``."""


class Module:
    """One file of the package.

    Args:
        path: Relative to minimcp/.
        known: All such paths, to distinguish a sub-module from a name.
    """

    def __init__(self, path: str, known: List[str]) -> None:
        self.path, self._known = path, set(known)
        self.text = (PACKAGE / path).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text, path)
        self.docstring = ast.get_docstring(self.tree) or ""
        self.imports: Tuple[Import, ...] = tuple(
            dict.fromkeys(self._imports(self.tree, late=False, typing_only=False))
        )

    def _imports(self, node: ast.AST, *, late: bool, typing_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, False, late, typing_only)
        elif isinstance(node, ast.ImportFrom):
            for target, ours in self._targets(node):
                yield Import(node.lineno, target, ours, late, typing_only)
        else:
            late = late or isinstance(node, FUNCTIONS)
            guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.stmt, ast.excepthandler)):
                    inside = guarded and isinstance(node, ast.If) and child in node.body
                    yield from self._imports(child, late=late, typing_only=typing_only or inside)

    def _targets(self, node: ast.ImportFrom) -> Iterator[Tuple[str, bool]]:
        if not node.level:
            yield node.module or "", False
            return
        folder = self.path.split("/")[:-1]
        base = folder[: len(folder) - node.level + 1] + (
            node.module.split(".") if node.module else []
        )
        for alias in node.names:
            yield (
                self._file([*base, alias.name])
                or self._file(base)
                or "/".join([*base, alias.name]),
                True,
            )

    def _file(self, parts: List[str]) -> Optional[str]:
        for candidate in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
            if candidate in self._known:
                return candidate
        return None

    def definitions(self) -> Iterator[Tuple[str, ast.AST, Tuple[ast.ClassDef, ...]]]:
        """Every class, function and method that is not inside a function: dotted name, node,
        enclosing classes."""
        yield from self._definitions(self.tree, ())

    def _definitions(
        self, node: ast.AST, inside: Tuple[ast.ClassDef, ...]
    ) -> Iterator[Tuple[str, ast.AST, Tuple[ast.ClassDef, ...]]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINITIONS):
                yield ".".join([*(each.name for each in inside), child.name]), child, inside
            if isinstance(child, ast.ClassDef):
                yield from self._definitions(child, (*inside, child))
            elif not isinstance(child, FUNCTIONS):
                yield from self._definitions(child, inside)

    def strings(self) -> Iterator[Tuple[int, str]]:
        """Return the string constants of the code with their lines, without docstrings."""
        alone = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in alone
            ):
                yield node.lineno, node.value

    def identifiers(self) -> Iterator[Tuple[int, str]]:
        """Names that the code uses or defines, with their lines.

        Left out are signatures, classes of options (a `TypedDict`), imports for type checkers, and
        strings.
        """
        yield from self._identifiers(self.tree)

    def _identifiers(self, node: ast.AST) -> Iterator[Tuple[int, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.arguments) or (
                isinstance(node, FUNCTIONS) and child is node.returns
            ):
                continue
            if isinstance(child, ast.ClassDef) and child.name.endswith("Options"):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            for field in ("id", "attr", "name", "arg", "asname"):
                found = getattr(child, field, None)
                if isinstance(found, str):
                    yield getattr(child, "lineno", 0), found
            yield from self._identifiers(child)


def sources() -> List[str]:
    """Every module of the package, relative to minimcp/."""
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def read_package() -> Dict[str, Module]:
    """Every module, by its path relative to minimcp/."""
    paths = sources()
    return {path: Module(path, paths) for path in paths}
