"""JSON Schema: made from Python annotations, used to check values, and shown as forms.

`read_signature` reads a function and `kind_of` a type. `write_any` writes a value of any type.
`compile_check` compiles a schema to a check, and `compile_peer_check` does so for a schema from a
peer. Their results are thread-safe. Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; `__getattr__` does the same at run time
    from .annotations import kind_of as kind_of, write_any as write_any
    from .bounds import Bounds as Bounds
    from .checker import compile_check as compile_check, compile_peer_check as compile_peer_check
    from .kinds import Kind as Kind
    from .mismatch import Mismatch as Mismatch
    from .signature import Signature as Signature, read_signature as read_signature

    Limits = Bounds

_MODULES = {
    ".annotations": "kind_of write_any",
    ".bounds": "Bounds",
    ".checker": "compile_check compile_peer_check",
    ".kinds": "Kind",
    ".mismatch": "Mismatch",
    ".signature": "Signature read_signature",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        target = "Bounds" if name == "Limits" else name  # an alias of `Bounds`
        if target not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[target], __name__), target)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULE_OF, "Limits"})
