"""From annotations to JSON Schema and back, and from any JSON Schema to a compiled check.

Five doors: `read_signature` for a function, `kind_of` for a type, `write_any` for a value, `compile_check` for a
schema, `compile_peer_check` for one that a peer sent. What they hand back is quick and thread-safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.late import late_names

_LATE = {
    "check": "compile_check",
    "kind": "Kind",
    "kinds": "kind_of write_any",
    "limits": "Limits",
    "mismatch": "Mismatch",
    "peers": "EndlessPattern compile_peer_check",
    "signature": "Parameter Signature read_signature",
}

if TYPE_CHECKING:
    from .check import compile_check
    from .kind import Kind
    from .kinds import kind_of, write_any
    from .limits import Limits
    from .mismatch import Mismatch
    from .peers import EndlessPattern, compile_peer_check
    from .signature import Parameter, Signature, read_signature
else:
    __getattr__, __dir__ = late_names(__name__, _LATE)

__all__ = [
    "EndlessPattern",
    "Kind",
    "Limits",
    "Mismatch",
    "Parameter",
    "Signature",
    "compile_check",
    "compile_peer_check",
    "kind_of",
    "read_signature",
    "write_any",
]
