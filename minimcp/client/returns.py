"""The conversion of results to a type: ``client.call_tool(name, arguments, returns=list[Day])``.

Imported with the first such call.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import Any, Callable

from ..errors import ProtocolViolation
from ..schema.annotations import kind_of
from ..schema.kinds import Kind
from ..schema.mismatch import Mismatch
from ..types import CallToolResult


@lru_cache(maxsize=128)
def _kind(returns: Any, text: str) -> Kind:
    """Return the kind of a type. `text` distinguishes unions whose members have a different
    order."""
    return kind_of(returns)


def converter(returns: Any) -> Callable[[str, CallToolResult], None]:
    """Return a function that converts the ``value`` of a tool's result to a type.

    The function gets the tool's name and the result. It raises ProtocolViolation, whose ``result``
    is the result, if the value does not fit.

    Raises:
        TypeError: The type has no JSON form.
    """
    try:
        kind = _kind(returns, repr(returns))
    except TypeError:
        try:
            kind = kind_of(returns)  # an annotation that has no hash
        except TypeError as error:
            raise TypeError(f"returns: {error}") from error

    def convert(name: str, result: CallToolResult) -> None:
        value = result.value
        if type(value) is str and str not in kind.accepts and not result.has_structured_content:
            with suppress(ValueError):  # older revisions and servers send a value as JSON text
                value = json.loads(value)
        try:
            result.value = kind.read(value)
        except Mismatch as error:
            text = f"the result of {name} is not {kind.label}: {error}"
            violation = ProtocolViolation(text, result.value)
            violation.result = result
            raise violation from None

    return convert
