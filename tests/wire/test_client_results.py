"""What a client makes of answers (errors, tools that fail, output schemas), and what it refuses to send."""

from __future__ import annotations

import pickle
from typing import Any, Dict, List

import pytest

import minimcp

from .clients import ERAS, Script, make_scripted  # noqa: F401
from .conftest import Talking
from .messages import MODERN

NEVER = 60.0
"""Seconds: a timeout that a test must not reach."""

# ---------------------------------------------------------------- errors


@pytest.mark.requirement("BASE-07", "BASE-14", "M:BASE-7", "M:ERR-1", "M:ERR-5", "LIFE-23", "TOOL-24", "M:TOOL-26")
@pytest.mark.parametrize(
    "code, kind",
    [
        (-32600, minimcp.InvalidRequest),
        (-32601, minimcp.MethodNotFound),
        (-32602, minimcp.InvalidParams),
        (-32603, minimcp.InternalError),
        (-32002, minimcp.ResourceNotFound),
        (-32021, minimcp.CapabilityNotSupported),
        (-32022, minimcp.UnsupportedRevision),
        (-32042, minimcp.UrlElicitationRequired),
        (-32000, minimcp.RpcError),
        (-32099, minimcp.RpcError),
        (7, minimcp.RpcError),
        (0, minimcp.RpcError),
        (-1, minimcp.RpcError),
    ],
)
def test_an_error_of_the_server_is_raised_as_its_kind(talking: Talking, code: int, kind: Any) -> None:
    _, client = talking("handshake")
    with pytest.raises(minimcp.RpcError) as caught:
        client.call_tool("code", {"code": code, "data": {"why": [1]}}, timeout=NEVER)
    error = caught.value
    assert type(error) is kind and error.from_peer
    assert (error.code, error.message, error.data) == (code, "as you wished", {"why": [1]})
    assert "as you wished" in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind and copy.from_peer
    assert (copy.code, copy.message, copy.data) == (error.code, error.message, error.data)


@pytest.mark.requirement("M:ERR-1", "M:BASE-7", "BASE-07")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("data", [None, 0, "text", [1], False])
def test_the_data_of_an_error_is_of_any_type(talking: Talking, revision: str, data: Any) -> None:
    _, client = talking(revision)
    with pytest.raises(minimcp.InvalidParams) as caught:
        client.call_tool("code", {"code": -32602, "data": data})
    assert caught.value.data == data and type(caught.value.data) is type(data)


@pytest.mark.requirement("M:VER-C1", "M:VER-C2", "M:VER-C3")
def test_a_call_refused_by_version_is_tried_once_more(scripted: Script) -> None:
    server = scripted(
        tool_errors=[{"error": -32022, "data": {"supported": [MODERN], "requested": MODERN}}, None]
    )
    with server.connect() as client:
        assert client.call_tool("echo", {"text": "twice"}).text == "twice"
    assert server.methods() == ["server/discover", "tools/call", "tools/call"]


@pytest.mark.requirement("M:VER-C2")
def test_a_call_refused_by_version_again_is_an_error(scripted: Script) -> None:
    server = scripted(tool_errors={"error": -32022, "data": {"supported": [MODERN], "requested": MODERN}})
    with server.connect() as client:
        with pytest.raises(minimcp.UnsupportedRevision):
            client.call_tool("echo")
    assert server.methods() == ["server/discover", "tools/call", "tools/call"]


# ---------------------------------------------------------------- tools that fail


@pytest.mark.requirement("TOOL-23", "M:TOOL-12", "SEED-19")
@pytest.mark.parametrize("revision", ERAS)
def test_a_tool_that_fails_raises_with_its_result(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    with pytest.raises(minimcp.ToolError, match="it") as caught:
        client.call_tool("fails")
    with pytest.raises(minimcp.ToolError):
        client.call_tool("fails-empty")
    result = client.call_tool("fails", raise_on_error=False)
    assert not isinstance(caught.value, minimcp.RpcError)
    for found in (caught.value.result, result):
        assert found.is_error and "it " in found.text and "broke" in found.text
        assert [block.type for block in found.content] == ["text", "text"]


@pytest.mark.requirement("BASE-11", "BASE-16", "M:BASE-19")
@pytest.mark.parametrize("revision", ERAS)
def test_a_kind_of_content_that_nobody_knows_is_handed_over(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    result = client.call_tool("unknown-content")
    assert result.text == "flat" and len(result.content) == 2
    assert result.content[0].type == "hologram"


# ---------------------------------------------------------------- output schemas


@pytest.mark.requirement("TOOL-28", "TOOL-38", "M:TOOL-9")
@pytest.mark.parametrize("revision", ["2025-06-18", *ERAS])
def test_structured_content_is_checked_against_the_listed_schema(scripted: Script, revision: str) -> None:
    server = scripted(list="schemas")
    with server.connect(revision) as client:
        client.list_tools()
        good = client.call_tool("structured", {"structuredContent": {"n": 1, "more": True}})
        assert good.structured_content == good.value == {"n": 1, "more": True}
        for wrong in ({"n": "1"}, {}, {"n": 1.5}):
            with pytest.raises(minimcp.ProtocolViolation, match="structured"):
                client.call_tool("structured", {"structuredContent": wrong}, timeout=NEVER)
        with pytest.raises(minimcp.ProtocolViolation):
            client.call_tool("structured", {}, timeout=NEVER)
        with pytest.raises(minimcp.ToolError):
            client.call_tool("fails")  # a failure needs no structured content
        assert client.call_tool("structured", {"structuredContent": {"n": 2}}).value == {"n": 2}


@pytest.mark.parametrize("revision", ERAS)
def test_without_a_listed_schema_structured_content_is_handed_over(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    client.list_tools()
    result = client.call_tool("structured", {"structuredContent": {"n": "any"}})
    assert result.structured_content == {"n": "any"}


# ---------------------------------------------------------------- what is not sent


@pytest.mark.requirement("LIFE-13", "LIFE-16", "LIFE-23")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_what_the_server_did_not_declare_is_refused_before_anything_is_sent(
    scripted: Script, mode: str
) -> None:
    server = scripted(capabilities={"prompts": {}})
    with server.connect(mode) as client:
        client.ping()
        before = server.methods()
        for call in (
            client.list_tools,
            lambda: client.call_tool("echo"),
            lambda: client.call_tools([("echo", {})]),
            lambda: client.set_log_level("info"),
        ):
            with pytest.raises(minimcp.CapabilityNotSupported) as caught:
                call()
            assert not caught.value.from_peer
        client.ping()
    assert [name for name in server.methods()[len(before) :] if name not in ("ping", "server/discover")] == []


@pytest.mark.requirement("LIFE-14", "LIFE-15", "M:META-17")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_odd_values_of_capabilities_do_no_harm(scripted: Script, mode: str) -> None:
    server = scripted(
        capabilities={"tools": {"listChanged": "yes", "x": 1}, "logging": None, "experimental": 5}
    )
    with server.connect(mode) as client:
        assert client.list_tools()


def bad_arguments() -> Dict[str, Any]:
    """Arguments that no JSON object can hold."""
    circle: List[Any] = []
    circle.append(circle)
    return {
        "nan": {"x": float("nan")},
        "infinity": {"x": [float("inf")]},
        "bytes": {"x": b"y"},
        "set": {"x": {1}},
        "circle": {"x": circle},
        "list": ["x"],
        "text": "x",
        "number key": {1: 2},
    }


@pytest.mark.requirement("STDIO-05", "M:STD-3", "BASE-12")
@pytest.mark.parametrize("kind", ["nan", "infinity", "bytes", "set", "circle", "list", "text"])
@pytest.mark.parametrize("revision", ERAS)
def test_arguments_that_are_no_json_are_the_callers_mistake(
    talking: Talking, kind: str, revision: str
) -> None:
    server, client = talking(revision)
    client.ping()
    before = server.methods()
    with pytest.raises((TypeError, ValueError)):
        client.call_tool("echo", bad_arguments()[kind], timeout=NEVER)
    assert client.call_tool("echo").text == "well"
    assert server.methods() == [*before, "tools/call"]


@pytest.mark.requirement("STDIO-03", "M:STD-1", "BASE-13")
@pytest.mark.parametrize("revision", ERAS)
def test_half_a_character_in_an_argument_breaks_no_line(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    try:
        client.call_tool("echo", {"text": "\ud800 half"})
    except ValueError:
        pass
    assert client.call_tool("echo", {"text": "whole"}).text == "whole"


@pytest.mark.requirement("LIFE-01", "M:META-3")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_a_client_says_who_it_is_as_it_is_told(scripted: Script, mode: str) -> None:
    info = {"name": "mine", "version": "9"}
    server = scripted()
    with server.connect(mode, client_info=info) as client:
        client.call_tool("echo")
    first = server.messages()[0]["params"]
    sent = (
        first["clientInfo"] if mode == "handshake" else first["_meta"]["io.modelcontextprotocol/clientInfo"]
    )
    assert sent["name"] == "mine" and sent["version"] == "9"


def test_unknown_options_are_the_callers_mistake(scripted: Script) -> None:
    server = scripted()
    for options in ({"verify": False}, {"headers": {}}, {"auth": "x"}, {"nonsense": 1}):
        with pytest.raises(TypeError):
            server.connect(**options)
    assert server.journal() == []
