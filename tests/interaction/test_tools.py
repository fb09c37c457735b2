"""Tools as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import json
import logging
import re
from queue import SimpleQueue
from typing import Any, Dict

import pytest

import minimcp
from minimcp import Audio, Client, EmbeddedResource, Image, ResourceLink, Server, Text

from ..answering import R1, R2, R3, R4, R5
from ..support import WAIT
from .links import Link, Open, link_to, stripped
from .tools_server import NAMES, PICTURE, SOUND

STRUCTURED = {R1: "none", R2: "none", R3: "object", R4: "object", R5: "any"}


link = link_to("tools_server")


@pytest.fixture
def client(link: Link) -> Client:
    return link.client


def raw(client: Client, name: str, **arguments: Any) -> Dict[str, Any]:
    """Return the result of a call as it arrived, without the common members of every result."""
    return stripped(client, client.request("tools/call", {"name": name, "arguments": arguments}))


def words(text: str) -> Dict[str, Any]:
    return {"type": "text", "text": text}


# ---------------------------------------------------------------- results

VALUES = [
    ("forced", "forced", "forced"),
    ("day", '{"name":"Monday","degrees":1.5}', {"name": "Monday", "degrees": 1.5}),
    ("typed", '{"count":3}', {"count": 3}),
    ("pair", '{"left":1,"right":"x"}', {"left": 1, "right": "x"}),
    ("mapping", '{"deep":[1,{"x":null}]}', {"deep": [1, {"x": None}]}),
    ("numbers", "[1,2]", [1, 2]),
    ("number", "2.5", 2.5),
    ("flag", "false", False),
    ("nothing", "null", None),
    ("colour", "blue", "blue"),
    ("date", "2026-07-28", "2026-07-28"),
    ("path", "/a/b", "/a/b"),
]


@pytest.mark.requirement("TOOL-17", "M:TOOL-7", "M:TOOL-8", "M:VER-S14", "TOOL-25", "TOOL-26")
@pytest.mark.parametrize(("name", "text", "value"), VALUES)
def test_a_value_is_text_and_structured_content(
    client: Client, name: str, text: str, value: Any
) -> None:
    result = raw(client, name)
    way = STRUCTURED[client.revision]
    assert result["content"] == [words(text)]
    assert ("structuredContent" in result) == (way != "none")
    if way != "none":
        wrapped = way == "object" and not isinstance(value, dict)
        assert result["structuredContent"] == ({"result": value} if wrapped else value)
    assert set(result) <= {"content", "structuredContent"}


@pytest.mark.requirement("M:TOOL-7", "TOOL-29")
def test_the_client_takes_the_wrapping_off_and_knows_the_schema(client: Client) -> None:
    schemas = {tool.name: tool.output_schema for tool in client.list_tools()}
    way = STRUCTURED[client.revision]
    for name, text, value in VALUES:
        result = client.call_tool(name)
        assert result.text == text
        assert result.value == (text if way == "none" else value), name
        schema = schemas[name]
        if way == "none":
            assert schema is None
        elif way == "object":
            assert schema is not None and schema["type"] == "object"
            for mark in (
                "x-minimcp-wrapped",
                "x-fastmcp-wrap-result",
            ):  # FastMCP's client knows the second
                assert schema.get(mark, False) is not isinstance(value, dict), name
        else:
            assert schema is not None and "x-minimcp-wrapped" not in schema
    by_hand = schemas["by_hand"]
    if way == "object":
        assert by_hand is not None and "even" in by_hand["definitions"], (
            "where the reference from inside looks"
        )
    assert client.call_tool("by_hand").value == (
        client.call_tool("by_hand").text if way == "none" else {"even": 2}
    )
    assert all(
        schemas[name] is None for name in ("text", "annotated", "picture", "loose", "anything")
    )


@pytest.mark.requirement("TOOL-32", "TOOL-39", "TOOL-30", "TOOL-31", "M:TOOL-20")
def test_blocks_travel_as_far_as_the_revision_knows_them(client: Client) -> None:
    audio, links = client.revision != R1, client.revision not in (R1, R2)
    assert raw(client, "block") == {
        "content": [{**words("in a block"), "annotations": {"priority": 1}}]
    }
    picture, sound = (client.call_tool(name).content[0] for name in ("picture", "sound"))
    assert isinstance(picture, Image) and (picture.data, picture.mime_type) == (
        PICTURE,
        "image/png",
    )
    assert isinstance(sound, Audio if audio else EmbeddedResource)
    assert sound.data == SOUND and sound.mime_type == "audio/wav" and sound.annotations is not None
    link = client.call_tool("link").content[0]
    assert link.type == ("resource_link" if links else "text")
    if isinstance(link, ResourceLink):
        assert (link.name, link.uri) == ("notes", "file:///notes.txt")
    else:
        assert isinstance(link, Text) and link.text == "notes: file:///notes.txt"
    inside = client.call_tool("embedded").content[0]
    assert isinstance(inside, EmbeddedResource) and (inside.uri, inside.text) == (
        "file:///a.txt",
        "inside",
    )


@pytest.mark.requirement("TOOL-27", "M:TOOL-6", "TOOL-38")
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("liar", "an integer"),
        ("blocks_for_a_list", "[0]: expected an integer"),
        ("raw", "Image(data, mime_type)"),
    ],
)
def test_results_that_a_tool_must_not_return(client: Client, name: str, advice: str) -> None:
    result = raw(client, name)
    assert result["isError"] is True and advice in result["content"][0]["text"]
    assert "structuredContent" not in result


@pytest.mark.parametrize("revision", [R4, R5])
def test_text_is_utf_8_and_json_for_a_model_shows_it(revision: str) -> None:
    """Nothing is escaped or blown up on the wire, but for what some clients take for the end of a
    line."""
    server, lines = Server("text"), []

    @server.tool
    def take(city: str) -> Dict[str, str]:
        """Give it back."""
        return {"city": city}

    with minimcp.connect(
        server, revision=revision, trace=lambda *told: lines.append(told[-1])
    ) as client:
        long = "\u6f22" * 100_000
        assert client.call_tool("take", {"city": long}).text == f'{{"city":"{long}"}}'
        for odd, back in (("a\u0085b\u2028c\u2029d\r\ne", None), ("\ud800 half", "\ufffd half")):
            result = client.call_tool("take", {"city": odd})
            assert result.structured_content == json.loads(result.text) == {"city": back or odd}
    assert 300_000 < max(len(line.encode()) for line in lines) < 601_000, (
        "once as text, once as structured content"
    )
    assert all(len(line.splitlines()) == 1 for line in lines)


# ---------------------------------------------------------------- errors


def failure(client: Client, how: str) -> Any:
    try:
        return raw(client, "fail", how=how)
    except minimcp.RpcError as error:
        return type(error), error.code, error.message, error.data


@pytest.mark.requirement("TOOL-19", "M:TOOL-11", "SEED-19")
def test_errors_that_are_results(client: Client) -> None:
    expected = {
        "tool": "told you",
        "peer": "the other server says no (-32602)",
        "lost": "the other server is gone",
        "value": "secret words",
        "empty": "KeyError",
        "odd": "Odd",
        "exit": "SystemExit: 3",
        "surrogate": "half \ufffd",
    }
    for how, text in expected.items():
        assert failure(client, how) == {"content": [words(text)], "isError": True}, how
    wrong = failure(client, "content-wrong")
    assert wrong["isError"] and "ToolError" in wrong["content"][0]["text"]
    with pytest.raises(minimcp.ToolError) as caught:
        client.call_tool("fail", {"how": "content"})
    kinds = ["text", "image", "text" if client.revision in (R1, R2) else "resource_link"]
    assert (
        caught.value.result.is_error
        and [block.type for block in caught.value.content or ()] == kinds
    )
    assert client.call_tool("fail", {"how": "tool"}, raise_on_error=False).is_error


@pytest.mark.requirement("BASE-07", "SEED-19", "SEED-03")
def test_errors_of_ones_own_are_errors_of_the_protocol(client: Client) -> None:
    assert failure(client, "params") == (
        minimcp.InvalidParams,
        -32602,
        "not this",
        {"field": "how"},
    )
    assert failure(client, "own") == (minimcp.RpcError, 7, "seven", [1])
    kind, code = (
        (minimcp.InternalError, -32603) if client.revision == R5 else (minimcp.RpcError, -32050)
    )
    assert failure(client, "quota") == (kind, code, "quota exceeded", {"left": 0}), (
        "2026-07-28 has no such codes"
    )
    if client.revision == R5:
        assert failure(client, "old") == {"content": [words("it failed")], "isError": True}, (
            "no code of this revision"
        )
    else:
        with pytest.raises(minimcp.ToolError, match="it failed") as caught:
            raw(client, "fail", how="old")
        cause = caught.value.__cause__
        assert isinstance(cause, minimcp.RpcError) and (cause.code, cause.data) == (-32003, [2])
    assert failure(client, "unfit") == (minimcp.RpcError, 8, "eight", None), "its data is no JSON"
    url = failure(client, "url")
    if client.revision == R4:
        assert url == (minimcp.UrlElicitationRequired, -32042, "open it", {"elicitations": []})
    else:
        assert url == {"content": [words("open it")], "isError": True}, (
            "the code is no other revision's"
        )


@pytest.mark.requirement("M:ERR-10")
def test_masked_errors_keep_their_words(
    opened: Open, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened({"mask_errors": True})
    caplog.set_level(logging.ERROR, "minimcp")
    for name, arguments in (("fail", {"how": "value"}), ("liar", {})):
        result = raw(client, name, **arguments)
        text = result["content"][0]["text"]
        found = re.fullmatch(r"Internal error \(reference ([0-9a-f]{8})\)", text)
        assert result["isError"] and found is not None, text
        if link.transport == "memory":
            assert found.group(1) in caplog.text
    caplog.clear()
    ours = {
        "tool": "told you",
        "declined": "not now",
        **({"old": "it failed"} if link.revision == R5 else {}),
    }
    for how, text in ours.items():
        assert failure(client, how) == {"content": [words(text)], "isError": True}
    assert not caplog.records, "none of these is a fault"


# ---------------------------------------------------------------- arguments


@pytest.mark.requirement("TOOL-16", "TOOL-18", "TOOL-22", "M:TOOL-10")
def test_invalid_calls(client: Client) -> None:
    for params in (
        {"name": "nobody"},
        {"name": 5},
        {},
        {"name": "text", "arguments": [1]},
        {"name": "a\nb"},
    ):
        with pytest.raises(minimcp.InvalidParams) as caught:
            client.request("tools/call", params)
        assert "\n" not in caught.value.message
    with pytest.raises(TypeError):
        client.call_tool(5)  # type: ignore[arg-type]
    with pytest.raises(minimcp.MethodNotFound):
        client.request("tools/nothing")


WRONG = [
    ("forecast", {}, "city"),
    ("forecast", {"city": 5}, "city"),
    ("forecast", {"city": "Oslo", "days": "many"}, "days"),
    ("forecast", {"city": "Oslo", "ctx": {}}, "ctx"),
    ("by_schema", {"size": 0}, "size"),
    ("by_schema", {}, "size"),
]


@pytest.mark.requirement("TOOL-20", "TOOL-21")
def test_wrong_arguments_are_a_result(client: Client) -> None:
    for name, arguments, field in WRONG:
        result = raw(client, name, **arguments)
        assert result["isError"] is True and field in result["content"][0]["text"], (
            name,
            arguments,
        )
    assert client.call_tool("by_schema", {"size": 2, "word": "x"}).text == "2 'x'"


@pytest.mark.requirement("TOOL-20", "TOOL-21")
def test_wrong_arguments_are_an_error_where_that_is_wanted_and_allowed(
    opened: Open, link: Link
) -> None:
    client = opened({"strict_arguments": True})
    if link.revision in (R1, R2, R3):
        for name, arguments, field in WRONG:
            with pytest.raises(minimcp.InvalidParams, match=field):
                client.call_tool(name, arguments)
    else:
        assert raw(client, "forecast")["isError"] is True


# ---------------------------------------------------------------- options of tools


@pytest.mark.requirement("TOOL-03", "TOOL-11", "TOOL-12", "TOOL-34", "SEED-22", "X-14")
def test_fields_of_a_tool_in_each_revision(client: Client) -> None:
    listed = client.request("tools/list")["tools"]
    tools = {tool["name"]: tool for tool in listed}
    assert [tool["name"] for tool in listed] == NAMES, "in the order of registering"
    schema = {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }  # some clients need the properties
    hinted: Dict[str, Any] = {"name": "hinted", "description": "Described", "inputSchema": schema}
    if client.revision == R2:
        hinted["annotations"] = {"title": "A title", "readOnlyHint": True}
    elif client.revision != R1:
        hinted.update(
            title="A title", annotations={"readOnlyHint": True}, _meta={"example.com/m": 1}
        )
    if client.revision in (R4, R5):
        hinted["icons"] = [{"src": "https://example.com/i.png"}]
    assert tools["hinted"] == hinted
    inner = tools["annotated_title"].get("annotations")
    assert inner == (None if client.revision == R1 else {"title": "Inner"})
    assert client.list_tools()[NAMES.index("hinted")].display_name == (
        "hinted" if client.revision == R1 else "A title"
    )


@pytest.mark.requirement("M:ERR-1")
def test_capabilities_that_a_tool_requires(client: Client, opened: Open, link: Link) -> None:
    lacking = {
        "needs": {"sampling": {"tools": {}}},
        "needs_extension": {"extensions": {"com.example/x": {}}},
    }
    for name, missing in lacking.items():
        if link.handshake:
            result = client.call_tool(name, raise_on_error=False)
            assert result.is_error and "needs a client with" in result.text
        else:
            with pytest.raises(minimcp.CapabilityNotSupported) as caught:
                client.call_tool(name)
            assert (caught.value.code, caught.value.data) == (
                -32021,
                {"requiredCapabilities": missing},
            )
    able = opened(extensions={"com.example/x": {}})
    assert able.call_tool("needs_extension").text == "extended"


def test_a_tool_that_takes_too_long(client: Client) -> None:
    for name in ("endless", "careless"):
        result = client.call_tool(name, raise_on_error=False)
        assert result.is_error and result.text == f"{name} did not finish within 0.05 s"
    assert client.call_tool("quick").text == "in time"


# ---------------------------------------------------------------- the view of a handler


def test_a_session_keeps_its_dict(client: Client, opened: Open, link: Link) -> None:
    other = opened()
    numbers = [json.loads(each.call_tool("count").text) for each in (client, client, other)]
    assert numbers == ([1, 2, 1] if link.handshake else [0, 0, 0])


# ---------------------------------------------------------------- lists


def test_tools_are_added_and_removed_while_connected(opened: Open, link: Link) -> None:
    changed: "SimpleQueue[None]" = SimpleQueue()
    client = opened(on_tools_changed=lambda: changed.put(None))
    assert client.capabilities["tools"] == {"listChanged": True}
    assert [tool.name for tool in client.list_tools()] == NAMES
    for act, names in (("grow", [*NAMES, "added"]), ("shrink", NAMES)):
        client.call_tool(act)
        changed.get(timeout=WAIT)
        assert [tool.name for tool in client.list_tools()] == names
        assert (
            client.call_tool("added", raise_on_error=False).text == "added"
            if act == "grow"
            else True
        )
    with pytest.raises(minimcp.InvalidParams, match="Unknown tool"):
        client.call_tool("added")
    assert changed.empty()
