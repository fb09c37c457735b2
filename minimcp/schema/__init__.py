"""JSON Schema: from Python annotations, for checking values, as forms for users.

`read_signature` reads a function, `kind_of` a type; `write_any` writes a value of any type;
`compile_check` makes a check of a schema, and `compile_peer_check` of one that a peer sent. What
they return is thread-safe.
"""

from __future__ import annotations

from .annotations import Limits as Limits, kind_of as kind_of, write_any as write_any
from .checker import compile_check as compile_check, compile_peer_check as compile_peer_check
from .kinds import Kind as Kind
from .mismatch import Mismatch as Mismatch
from .signature import Signature as Signature, read_signature as read_signature
