"""Keys of _meta and identifiers of extensions: the grammar, and reserved names."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import pytest

from minimcp.types import CallToolResult, Root, Text, Tool
from minimcp.types.meta import check_extensions, check_identifier, check_meta, is_reserved

GOOD = (
    "a",
    "A9",
    "a.b_c-d",
    "",
    "ui",
    "progressToken",
    "com.example/x",
    "com.example/",
    "x/y",
    "a-b.c-9/d",
    "ui/resourceUri",
    "com.example.mcp/x",
    "mcp/x",
    "modelcontextprotocol/x",
    "com.example.tools.mcp/x",
    "mcpx.dev/y",
)
BROKEN = (
    "-a",
    "a-",
    ".",
    "_x",
    "a b",
    "ä",
    "/x",
    "9a/x",
    "a./x",
    ".a/x",
    "a..b/x",
    "-a/x",
    "a-/x",
    "a_b/x",
    "a/b/c",
    "a/-",
    "a\n",
    "a/x\n",
    "com.example/x y",
)
RESERVED = (
    "dev.mcp/x",
    "com.mcp.tools/x",
    "api.modelcontextprotocol.org/y",
    "io.modelcontextprotocol/unknown",
    "mcp.dev/x",
    "tools.mcp.com/x",
    "modelcontextprotocol.io/x",
    "a.b.mcp.c/x",
    "DEV.MCP/x",
)


def outcome(key: Any, value: Any = 1) -> str:
    try:
        check_meta({key: value}, "it")
    except (ValueError, TypeError) as error:
        return str(error) if str(error).startswith("it: ") else ""
    return ""


@pytest.mark.requirement(
    "META-04", "META-05", "META-06", "META-07", "SEED-29", "M:META-11", "M:META-12"
)
def test_keys_that_an_author_may_write() -> None:
    assert [key for key in GOOD if outcome(key)] == []
    assert [key for key in BROKEN if "is invalid" not in outcome(key)] == []
    assert [key for key in RESERVED if "reserved" not in outcome(key)] == []
    assert outcome("io.modelcontextprotocol/serverInfo") == "", (
        "its meaning is known, and a handler's own wins"
    )
    assert "must be str, not int" in outcome(5)
    assert (
        not is_reserved("")
        and not is_reserved("mcp")
        and is_reserved("mcp.x")
        and is_reserved("x.mcp")
    )


@pytest.mark.requirement("M:TRC-1")
def test_trace_context_is_checked_where_it_is_written() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for key, value in (("traceparent", parent), ("tracestate", "vendor=1"), ("baggage", "a=b")):
        assert not outcome(key, value)
    nobody = f"00-{'0' * 32}-b7ad6b7169203331-01"
    for odd in ("", parent.upper(), parent + "-x", "ff" + parent[2:], nobody, parent + "\n"):
        assert "traceparent must be" in outcome("traceparent", odd)
    assert "must be a str" in outcome("tracestate", 5) and "must be a str" in outcome(
        "traceparent", None
    )


@pytest.mark.requirement("SEED-29", "M:TRC-3", "META-09", "M:META-14")
def test_authors_are_checked_and_peers_are_not() -> None:
    odd: Dict[str, Any] = {"dev.mcp/x": 1, "-": [None], "traceparent": 7}
    for make in (
        lambda: Text("x", meta=odd),
        lambda: Tool("x", {}, meta=odd),
        lambda: CallToolResult([], meta=odd),
    ):
        with pytest.raises(ValueError, match="dev.mcp/x"):
            make()
    read = Root.from_wire({"uri": "file:///a", "_meta": odd})
    assert read.meta == odd and read.to_wire()["_meta"] == odd, (
        "and what was read goes on as it came"
    )
    own = Text("x")
    own.meta = odd  # the way round the check
    assert own.to_wire()["_meta"] == odd


@pytest.mark.requirement("M:EXT-2")
def test_identifiers_of_extensions() -> None:
    good = ("com.example/x", "io.modelcontextprotocol/ui", "a/b.c_d-e")
    bad = ("x", "", "/x", "com.example/", "a b/x", "com.example/x/y", "9/x", "com.example/-")
    for identifier in good:
        check_identifier(identifier, "it")
    for identifier in bad:
        with pytest.raises(ValueError, match="is not an extension identifier"):
            check_identifier(identifier, "it")
    wrong: Tuple[Any, ...] = ({5: {}}, {"com.example/x": True}, {"com.example/x": None})
    for extensions in wrong:
        with pytest.raises(
            TypeError, match="must be a str, not int|settings of 'com.example/x' must be a mapping"
        ):
            check_extensions(extensions)
    given = {"com.example/x": {"a": 1}}
    found = check_extensions(given)
    assert (
        found == given
        and found["com.example/x"] is not given["com.example/x"]
        and check_extensions(None) == {}
    )
