"""What to write instead of an annotation that has no JSON form."""

from __future__ import annotations

import builtins
from enum import Enum
from types import ModuleType
from typing import Any, Dict, Tuple

from .mismatch import cut, nearest

_INSTEAD: Dict[Tuple[str, str], str] = {
    ("collections", "deque"): "list[...]",
    ("collections", "OrderedDict"): "dict[...]",
    ("collections", "defaultdict"): "dict[...]",
    ("collections", "Counter"): "dict[str, int]",
    ("collections.abc", "Iterator"): "list[...]",
    ("collections.abc", "Generator"): "list[...]",
    ("collections.abc", "AsyncIterator"): "list[...]",
    ("collections.abc", "AsyncIterable"): "list[...]",
    ("collections.abc", "AsyncGenerator"): "list[...]",
    ("collections.abc", "Container"): "list[...]",
    ("collections.abc", "Reversible"): "list[...]",
    ("collections.abc", "Awaitable"): "the type of what it waits for",
    ("collections.abc", "Coroutine"): "the type of what it waits for",
    ("builtins", "range"): "list[int]",
    ("fractions", "Fraction"): "Decimal, or a str",
    ("ipaddress", "IPv4Address"): "str",
    ("ipaddress", "IPv6Address"): "str",
    ("re", "Pattern"): "str",
}


def no_class(cls: type) -> str:
    """The message about a class that has no JSON form."""
    instead = _INSTEAD.get((cls.__module__, cls.__qualname__))
    advice = f"write {instead}" if instead else "make it a dataclass, a TypedDict or a NamedTuple"
    return f"{cls.__qualname__} has no JSON form: {advice}"


def no_type(annotation: Any) -> str:
    """The message about an annotation that is no type."""
    instead = _meant(annotation)
    if isinstance(annotation, ModuleType):
        shown = f"the module {annotation.__name__}"
    else:
        shown = cut(repr(annotation), 80)
    return f"{shown} is not a type with a JSON form" + (f": write {instead}" if instead else "")


def _meant(annotation: Any) -> str:
    if isinstance(annotation, list):
        return f"list[{_name(annotation[0]) if len(annotation) == 1 else '...'}]"
    if isinstance(annotation, tuple):
        names = ", ".join(map(_name, annotation))
        return f"tuple[{names}], or Union[{names}] for one of them"
    if isinstance(annotation, dict):
        return "a TypedDict with these fields, or dict[str, ...]"
    if isinstance(annotation, ModuleType):
        near = nearest(annotation.__name__, [name for name, part in vars(annotation).items() if isinstance(part, type)])
        return f"{annotation.__name__}.{near}" if near else ""
    if isinstance(annotation, Enum):
        return f"Literal[{annotation}]"
    if isinstance(annotation, (str, int)):
        return f"Literal[{annotation!r}]"
    if annotation is builtins.any:
        return "typing.Any"
    if hasattr(annotation, "min_length") or hasattr(annotation, "ge"):
        return f"Annotated[int, {cut(repr(annotation))}]"
    return ""


def _name(part: Any) -> str:
    return str(getattr(part, "__name__", part))
