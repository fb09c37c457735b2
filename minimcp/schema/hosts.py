"""Names and schemas of tools that some hosts drop or change without a message.

Measured with Claude Code, Codex and Gemini CLI. Imported with the first name that is not plain.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Iterable, Optional

# Hosts prepend "mcp__server__" to a name, and models accept at most 64 characters.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,45}")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def host_problems(
    name: str, input_schema: Any, output_schema: Any, names: Iterable[str]
) -> Optional[str]:
    """Return what hosts do to a tool because of its names or schemas, or None.

    Args:
        name: The tool's name.
        input_schema: The input schema that is listed.
        output_schema: The output schema that is listed; None if there is none, or if any schema is
            accepted.
        names: The names of all tools of the server.
    """
    found = []
    if not _NAME.fullmatch(name):
        found.append(
            "has a name that some hosts truncate or drop: use 1 to 45 characters from "
            "A-Z a-z 0-9 _ -"
        )
    plain = _replaced(name)
    twin = next((each for each in names if each != name and _replaced(each) == plain), None)
    if twin is not None:
        found.append(f"is called {plain!r:.80} by some hosts, as is {twin!r:.80}: rename one")
    properties = input_schema.get("properties") if isinstance(input_schema, dict) else None
    odd = [each for each in properties or () if not _PARAMETER.fullmatch(each)]
    if odd:
        found.append(
            f"has the parameter {odd[0]!r:.80}, and some hosts drop a tool with such a name: use "
            "A-Z a-z 0-9 _ -"
        )
    if not _is_object(input_schema):
        found.append(
            "has an input schema whose root is not an object, and hosts drop all tools of its "
            'server: write "type": "object"'
        )
    if output_schema is not None and not _is_object(output_schema):
        found.append(
            "has an output schema whose root is not an object, and some hosts drop all tools of "
            "its server: return an object"
        )
    return "; it ".join(found) or None


def listed_size(tool: Any) -> tuple[int, int]:
    """Return the bytes of a tool in a list, and an estimate of its tokens: characters / 4."""
    text = json.dumps(tool, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace")), -(-len(text) // 4)


@lru_cache(maxsize=4096)
def _replaced(name: str) -> str:
    """Return a name as written by hosts that replace other characters."""
    return re.sub("[^A-Za-z0-9_-]", "_", name)


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"
