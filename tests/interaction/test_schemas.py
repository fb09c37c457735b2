"""Schemas of an author's own: kept word for word, checked by their dialect, alike in every
revision."""

from __future__ import annotations

from typing import Any, Dict

import pytest

import minimcp
from minimcp import Server

from ..answering import REVISIONS

PAIR: Dict[str, Any] = {
    "type": "object",
    "properties": {
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}], "x-vendor": {"a": [1]}}
    },
    "$defs": {"unused": {"$comment": "kept"}},
    "dependentRequired": {"pair": ["why"]},
}
OLD_PAIR: Dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"pair": {"type": "array", "items": [{"type": "integer"}]}},
}
"""In 2020-12 such an ``items`` is not a schema, and in draft-07 ``prefixItems`` has no meaning."""

ODD = "größe und/oder Gewicht"


def take(pair: list, why: str = "") -> str:
    """Take a pair."""
    return f"{pair} {why}"


@pytest.mark.requirement(
    "JSCH-01", "JSCH-02", "JSCH-04", "JSCH-07", "M:SCH-1", "M:SCH-3", "M:SCH-8", "M:TOOL-4"
)
@pytest.mark.requirement("M:TOOL-14")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_schema_means_the_same_in_every_revision(revision: str) -> None:
    server = Server("schemas")
    for name, schema in (("new", PAIR), ("old", OLD_PAIR)):
        server.add_tool(take, name=name, input_schema=schema)
    server.add_tool(take, name=ODD)
    with minimcp.connect(server, revision=revision) as client:
        listed = {tool.name: tool.input_schema for tool in client.list_tools()}
        assert (listed["new"], listed["old"]) == (PAIR, OLD_PAIR), "word for word"
        for name, arguments, said in (
            ("new", {"pair": [1, "x"], "why": "so"}, "[1, 'x'] so"),
            ("new", {"pair": [1]}, None),
            ("new", {"pair": ["x"], "why": "so"}, None),
            ("old", {"pair": [1, "x"]}, "[1, 'x'] "),
            ("old", {"pair": ["x"]}, None),
            (ODD, {"pair": [None]}, "[None] "),
        ):
            result = client.call_tool(name, arguments, raise_on_error=False)
            assert (None if result.is_error else result.text) == said, (name, arguments)


@pytest.mark.requirement("SEED-20")
def test_only_the_standard_transports_are_offered() -> None:
    assert not [
        name for name in minimcp.__all__ if "pipe" in name.lower() or "transport" in name.lower()
    ]
    with pytest.raises(ValueError, match="unknown transport 'carrier-pigeon'"):
        Server("x").run("carrier-pigeon")
