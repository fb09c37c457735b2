"""A host's own functions: what it answers a server's questions with, and what it wants to hear."""

from __future__ import annotations

import logging
import os
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from ..errors import one_line
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..schema.mismatch import nearest
from ..schema.signature import refuse_async
from ..types import Root

log = logging.getLogger("minimcp.client")

NAMES = (
    "sample", "elicit", "list_roots", "on_log", "on_tools_changed", "on_resources_changed", "on_prompts_changed",
    "on_resource_updated",
)

CAPABILITIES = {"sample": "sampling", "elicit": "elicitation", "list_roots": "roots"}
"""Handler to the capability that having it means."""

Rootlike = Union[str, "os.PathLike[str]", Root]
"""What a host may name a root by: a path, a ``file://`` URI or a `Root`."""


class Roots:
    """Roots that are kept in a list, which may be replaced. Thread-safe.

    Args:
        roots: Paths, URIs or `Root` objects.

    Raises:
        TypeError, ValueError: One of them is no root.
    """

    def __init__(self, roots: Iterable[Rootlike]) -> None:
        self.replace(roots)

    def replace(self, roots: Iterable[Rootlike]) -> None:
        """Take these instead. Errors as when it is made."""
        self._roots = as_roots(roots)

    def __call__(self) -> list[Root]:
        return self._roots


class Handlers:
    """What a host has given, by name.

    Args:
        functions: By name, each one of `NAMES`.
        sampling: Parts of sampling that `sample` can do: "tools", "context".
        elicitation: Parts of elicitation that `elicit` can do: "form", "url".

    Raises:
        TypeError: This is one name, not a sequence of them.
        ValueError: There is no such part, or `elicit` can do nothing.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        sampling: Sequence[str] = (),
        elicitation: Sequence[str] = ("form", "url"),
    ) -> None:
        self.functions = dict(functions)
        self._parts: dict[str, tuple[str, ...]] = {
            "sampling": _parts("sampling", sampling, ("tools", "context")),
            "elicitation": _parts("elicitation", elicitation, ("form", "url")),
            "roots": ("listChanged",),
        }
        if not elicitation:
            raise ValueError('elicitation names "form", "url" or both')

    @classmethod
    def gather(
        cls,
        handlers: Any,
        *,
        roots: Optional[Iterable[Rootlike]] = None,
        sampling: Sequence[str] = (),
        elicitation: Sequence[str] = ("form", "url"),
        **keywords: Optional[Callable[..., Any]],
    ) -> Handlers:
        """Those of an object and those given as keywords.

        Args:
            handlers: An object with any of `NAMES`; None has none.
            roots: Stands for a `list_roots` that returns them; None gives none.
            sampling: As for `Handlers`.
            elicitation: As for `Handlers`.
            keywords: By name; None gives none.

        Raises:
            TypeError: One is given both ways, is async or cannot be called, the object is a class or a mapping, has
                none of them, or has one under a misspelt name, or a root is none.
            ValueError: A root is none, or a part does not exist.
        """
        if isinstance(handlers, type):
            raise TypeError(f"handlers={handlers.__name__} is a class: give an instance of it")
        if isinstance(handlers, Mapping):
            raise TypeError("handlers is an object with methods, and this is a mapping: say **handlers")
        functions: dict[str, Callable[..., Any]] = {}
        for name in NAMES:
            function = _one_of(name, getattr(handlers, name, None), keywords.get(name))
            if function is not None:
                functions[name] = function
        _refuse_misspelt(handlers)
        if handlers is not None and not any(hasattr(handlers, name) for name in NAMES):
            raise TypeError(f"handlers has none of {', '.join(NAMES)}: it is {handlers!r:.60}")
        if roots is not None:
            if "list_roots" in functions:
                raise TypeError("roots and list_roots are two ways to say the same: give one of them")
            functions["list_roots"] = Roots(roots)
        if sampling and "sample" not in functions:
            raise TypeError("sampling says what else sample can do, and there is no sample")
        return cls(functions, sampling=sampling, elicitation=elicitation)

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What they let this client declare in a revision."""
        declared: dict[str, Json] = {}
        for handler, capability in CAPABILITIES.items():
            known = revision.client_capabilities.get(capability)
            if handler not in self.functions or known is None:
                continue
            parts = [part for part in known if part in self._parts[capability]]
            if capability == "elicitation" and not known and "form" not in self._parts[capability]:
                continue  # forms are all that this revision has
            declared[capability] = {part: True if part == "listChanged" else {} for part in parts}
        return declared


def _one_of(name: str, own: Any, given: Any) -> Optional[Callable[..., Any]]:
    if own is not None and given is not None:
        raise TypeError(f"{name} is given twice: by handlers and as a keyword")
    function = own if given is None else given
    if function is not None and not callable(function):
        raise TypeError(f"{name} is called, and {type(function).__name__} cannot be")
    refuse_async(function, name)
    return function  # type: ignore[no-any-return]


def _refuse_misspelt(handlers: Any) -> None:
    """Refuse an object with a method that was meant to be one of `NAMES`; another called ``on_...`` is only logged."""
    for name in dir(handlers):
        if name.startswith("on_") and name not in NAMES:
            near = nearest(name, NAMES)
            if near is not None:
                raise TypeError(f"handlers has {name}, which nothing calls: did you mean {near}?")
            log.info("handlers has %s, which nothing calls: there is %s", one_line(name), ", ".join(NAMES))


def _parts(name: str, given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    if callable(given):
        handler = next(each for each, capability in CAPABILITIES.items() if capability == name)
        raise TypeError(f"{name} says what {handler} can do, by names: did you mean {handler}=?")
    if isinstance(given, str):
        raise TypeError(f"{name} is a sequence of names: did you mean ({given!r},)?")
    for part in given:
        if part not in known:
            raise ValueError(f"{name} has the parts {' and '.join(known)}, not {part!r}")
    return tuple(given)


def as_roots(roots: Any) -> list[Root]:
    """Roots from what a host names them by.

    Raises:
        TypeError: This is no sequence of paths, URIs and `Root` objects.
        ValueError: A URI is no ``file://`` URI, or goes up by "..".
    """
    if isinstance(roots, (str, os.PathLike, Root, Mapping)) or not isinstance(roots, Iterable):
        raise TypeError(f"roots are a list of paths, URIs or Root objects, not {type(roots).__name__}")
    return [_root(root) for root in roots]


def _root(given: Rootlike) -> Root:
    if isinstance(given, Root):
        root = given
    elif isinstance(given, str) and "://" in given:
        root = Root(given)
    elif isinstance(given, (str, os.PathLike)):
        root = Root.from_path(given)
    else:
        raise TypeError(f"a root is a path, a URI or a Root, not {type(given).__name__}")
    if not root.uri.startswith("file://") or (root.path is not None and ".." in root.path.parts):
        raise ValueError(f"a root is a file:// URI that does not go up, unlike {root.uri!r}")
    return root
