"""The modules that a copy of this package needs: the import closure of a role and its features.

A role is a server or a client over stdio. Everything else is a feature with a name in `FEATURES`.
The sources are parsed with `ast` and never executed.
"""

from __future__ import annotations

import ast
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..server.feature import LATE

ROLES = ("server", "client")
"""The roles. Each is also the name of a folder."""

MORE: Mapping[str, Sequence[str]] = {
    "subscriptions": ("client/subscriptions.py",),
    "questions": ("client/questions.py", "client/returns.py", "types/questions.py"),
    "rates": ("engine/shares.py",),
    "http": ("engine/shares.py", "http/client.py", "http/client_sse.py"),
    "auth": (
        "auth/bearer.py",
        "auth/verifiers.py",
        "auth/grants.py",
        "auth/signin.py",
        "auth/store.py",
        "extensions/cards.py",
    ),
    "tasks": ("extensions/host_tasks.py", "extensions/client_tasks.py"),
    "skills": ("extensions/skills.py", "extensions/client_skills.py"),
    "events": (
        "engine/shares.py",
        "extensions/events.py",
        "extensions/webhook_delivery.py",
        "extensions/client_events.py",
        "extensions/event_inbox.py",
    ),
    "stores": ("stores/base.py", "stores/redis.py", "stores/sqlite.py"),
}
"""Modules that belong to a feature in addition to those in `LATE`."""

LOADED = {f"{module.replace('.', '/')}.py": feature for module, feature in LATE.items()}
"""The paths of the modules that `minimcp.server.feature.load` imports, each with its feature."""

FEATURES: Mapping[str, Sequence[str]] = {
    name: (*(path for path in LOADED if LOADED[path] == name), *MORE.get(name, ()))
    for name in (
        "prompts",
        "resources",
        "completion",
        "logging",
        "subscriptions",
        "questions",
        "executors",
        "mount",
        "methods",
        "rates",
        "http",
        "auth",
        "tasks",
        "skills",
        "apps",
        "events",
        "stores",
    )
}
"""For each feature of ``--with``, the modules whose imports it needs, in both roles."""

NEEDS_MORE = frozenset({"http", "auth", "tasks", "skills", "apps", "events", "stores"})
"""The features that are copied only if ``--with`` names them."""

OPTIONAL = frozenset(
    {"auth", "cli", "client", "extensions", "features", "http", "server", "stores", "testing"}
)
"""The folders of features, tools and roles. A late import into one of them is followed only if its
target is wanted."""

OF_SERVERS = frozenset({
    "auth/bearer.py", "auth/verifiers.py", "extensions/apps.py",
    "extensions/events.py", "extensions/skills.py", "extensions/webhook_delivery.py",
    "http/endpoint.py", "http/legacy_sse.py", "http/options.py", "http/server.py", "http/wsgi.py",
    "stores/base.py", "stores/processes.py", "stores/redis.py", "stores/sessions.py",
    "stores/sqlite.py",
})  # fmt: skip
"""Modules of features that only a server uses, in addition to those in features/."""

OF_CLIENTS = frozenset({
    "auth/grants.py", "auth/signin.py", "auth/store.py", "extensions/client_events.py",
    "extensions/client_skills.py", "extensions/client_tasks.py", "extensions/event_inbox.py",
    "extensions/host_tasks.py", "http/client.py", "http/client_sse.py",
})  # fmt: skip
"""Modules of features that only a client uses, in addition to those in client/."""


class Import(NamedTuple):
    """An import of a module of the package."""

    target: str
    """The path of the imported module, relative to the package."""

    late: bool
    """Whether the import is inside a function."""


class Package:
    """The sources of a package and their imports.

    Args:
        sources: The source of each module, by its path relative to the package.
    """

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self.sources = sources
        self._known: dict[str, Sequence[Import]] = {}
        # For each package that imports names on first use, the module of each name.
        self._lazy = {
            path: dict(_lazy_names(path, ast.parse(text)))
            for path, text in sources.items()
            if path.split("/")[-1] == "__init__.py"
        }

    def needed(self, role: str, features: Iterable[str]) -> set[str]:
        """Return the modules that a role with these features needs."""
        wanted = {path for name in features for path in self.modules_of(name, role)}
        found = {"__init__.py"}
        waiting = [*self.public_modules(role), *wanted]
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found.add(path)
            folder = path.rpartition("/")[0]
            if folder:
                waiting.append(f"{folder}/__init__.py")
            for target, late in self.imports(path):
                is_optional = target.split("/")[0] in OPTIONAL - {role} or _feature_of(target)
                if not late or not is_optional or target in wanted:
                    waiting.append(target)
        return found

    def public_modules(self, role: str) -> list[str]:
        """Return the modules of the public names that a role has without features.

        A server needs only the types that its modules import.
        """
        modules = {*self._lazy["__init__.py"].values()}
        folders = [role, "engine"]
        if role == "client":
            modules.update(self._lazy["types/__init__.py"].values())
            folders.append("types")
        return [path for path in modules if path.split("/")[0] in folders and not _feature_of(path)]

    def modules_of(self, feature: str, role: str) -> list[str]:
        """Return the modules of a feature that belong to a role."""
        folders = {"server": ("client/",), "client": ("server/", "features/")}[role]
        others = OF_CLIENTS if role == "server" else OF_SERVERS
        return [
            path
            for path in FEATURES[feature]
            if path in self.sources and path not in others and not path.startswith(folders)
        ]

    def left_out(self, role: str, files: set[str]) -> dict[str, str]:
        """Return the modules that a copy lacks but that its user may try to import.

        `minimcp.server.feature.load` reports the other missing modules itself.

        If a folder is missing altogether and its modules belong to one feature, the result has the
        folder's ``__init__.py`` instead of the modules.

        Args:
            role: The role of the copy.
            files: The modules of the copy.

        Returns:
            For the path of each module, a hint how to get it, for the message of its ImportError.
        """
        found = {}
        for folder in sorted({path.split("/")[0] for path in self.sources if "/" in path}):
            if f"{folder}/__init__.py" in files or folder not in OPTIONAL:
                continue
            names = {
                name
                for name in FEATURES
                for path in self.modules_of(name, role)
                if path.startswith(f"{folder}/")
            }
            if len(names) < 2:
                found[f"{folder}/__init__.py"] = _hint(names)
        public = set(self._lazy["__init__.py"].values())
        missing: dict[str, str] = {}
        for name in FEATURES:
            for path in self.modules_of(name, role):
                if path not in files and (path in public or path not in LOADED):
                    missing.setdefault(path, _hint([name]))
        possible = {target for path in files for target, _ in self.imports(path)}
        for path in possible.union(self._lazy["types/__init__.py"].values()) - files:
            feature = _feature_of(path)  # None: a module of the other role
            missing.setdefault(path, _hint([] if feature is None else [feature]))
        for path, hint in missing.items():
            if f"{path.split('/')[0]}/__init__.py" not in found:
                found[path] = hint
        return found

    def imports(self, path: str) -> Sequence[Import]:
        """Return the imports of a module, except those for type checkers."""
        if path not in self._known:
            tree = ast.parse(self.sources[path])
            self._known[path] = tuple(dict.fromkeys(self._imports_of(path, tree)))
        return self._known[path]

    def _imports_of(self, path: str, tree: ast.Module) -> Iterator[Import]:
        packages = {
            alias.asname or alias.name: f"{alias.name}/__init__.py"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level and not node.module
            for alias in node.names
            if f"{alias.name}/__init__.py" in self._lazy
        }
        yield from self._imports(path, tree, packages, late=False)

    def _imports(
        self, path: str, node: ast.AST, packages: Mapping[str, str], *, late: bool
    ) -> Iterator[Import]:
        if isinstance(node, ast.ImportFrom) and node.level:
            for target in self._targets(path, node):
                yield Import(target, late)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = self._lazy.get(packages.get(node.value.id, ""), {})
            if node.attr in names:
                yield Import(names[node.attr], late)
        for child in _evaluated(node):
            inside = late or isinstance(node, (ast.FunctionDef, ast.Lambda))
            yield from self._imports(path, child, packages, late=inside)

    def _targets(self, path: str, node: ast.ImportFrom) -> Iterator[str]:
        folder = path.split("/")[:-1]
        base = folder[: len(folder) - node.level + 1]
        base += node.module.split(".") if node.module else []
        for alias in node.names:
            target = self._file([*base, alias.name]) or self._file(base)
            if target is None:
                continue
            yield target
            if alias.name in self._lazy.get(target, {}):
                yield self._lazy[target][alias.name]

    def _file(self, parts: Sequence[str]) -> Optional[str]:
        for path in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
            if path in self.sources:
                return path
        return None


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that are evaluated at run time. Annotations are not."""
    skipped: list[object] = []
    if isinstance(node, ast.FunctionDef):
        skipped = [node.returns]
    elif isinstance(node, ast.arg):
        return
    elif isinstance(node, ast.AnnAssign):
        skipped = [node.annotation]
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        yield from node.orelse
        return
    for child in ast.iter_child_nodes(node):
        if child not in skipped:
            yield child


def _lazy_names(path: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a package imports on first use, each with the path of its module.

    They are in the package's table ``_MODULES``, which maps each relative module to its names.
    """
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.dump(node.targets[0]).startswith(
            "Name(id='_MODULES'"
        ):
            for module, names in ast.literal_eval(node.value).items():
                dots = len(module) - len(module.lstrip("."))
                folder = path.split("/")[:-1]
                parts = [*folder[: len(folder) - dots + 1], *module[dots:].split(".")]
                for name in names.split():
                    yield name, "/".join(parts) + ".py"


def _feature_of(path: str) -> Optional[str]:
    return next((name for name, paths in FEATURES.items() if path in paths), None)


def _hint(names: Iterable[str]) -> str:
    features = sorted(names)
    return f"vendor it with --with {features[0]}" if features else "vendor it without --only"
