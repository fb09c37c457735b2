"""Limits of the size of results: ``@server.tool(max_result=40_000)``.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from ..engine.incoming import IncomingRequest
from ..engine.limits import check_number
from ..protocol.messages import Json, to_json
from ..server.feature import Feature, OptionSpec, RegisteredEntry
from ..server.tools import error_result

if TYPE_CHECKING:
    from ..server.registry import Registry

# Parameters with which a caller asks for another part of a result.
_PAGING = ("offset", "page", "cursor", "start", "skip", "limit", "count", "max_rows")


class MaxResult(Feature):
    """Truncates the text of results, and rejects structured results that are too large.

    Args:
        registry: The server's registry.
    """

    options = {"max_result": OptionSpec(check=partial(check_number, least=1))}

    def __init__(self, registry: Registry) -> None:
        self._config = registry.config

    def around_call(
        self, entry: RegisteredEntry, request: IncomingRequest, call_next: Callable[[], Any]
    ) -> Any:
        """Run a call, and limit its result."""
        result = call_next()
        most = entry.options["max_result"]
        if isinstance(result, str):
            if len(result) <= most:  # JSON is never shorter than the text in it
                return result
            result = json.loads(result)
        if not isinstance(result, dict) or not isinstance(result.get("content"), list):
            return result  # a question, or the handle of a task
        advice = _advice(entry)
        if "structuredContent" in result:
            size = len(to_json(result["structuredContent"]))
            if size > most:
                text = f"the result has {size:,} characters of JSON, more than {most:,}: {advice}"
                return error_result(text, request.peer.revision, self._config)
        content, left_out = _truncated(result["content"], most)
        if left_out:
            text = f"[{left_out:,} more characters are not shown: to see them, {advice}.]"
            content.append({"type": "text", "text": text})
        return {**result, "content": content}


def _advice(entry: RegisteredEntry) -> str:
    """Return what to do for another part of a result."""
    known = entry.definition.input_schema.get("properties", ())
    names = [f"{name!r}" for name in _PAGING if name in known]
    if not names:
        return f"call {entry.key} with arguments that select less"
    return f"call {entry.key} again with {' or '.join(names)}"


def _truncated(content: list[Json], most: int) -> tuple[list[Json], int]:
    """Return content blocks with at most this many characters of text, and the number of characters
    that are left out."""
    kept: list[Json] = []
    left_out = 0
    for block in content:
        if block.get("type") != "text":
            kept.append(block)
            continue
        text = block["text"]
        if most or not text:
            kept.append({**block, "text": text[:most]})
        left_out += max(0, len(text) - most)
        most = max(0, most - len(text))
    return kept, left_out
