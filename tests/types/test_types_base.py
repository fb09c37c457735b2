"""What all wire objects have in common: reading, writing, extras, equality, repr, pickle, base64."""

from __future__ import annotations

import copy
import json
import pickle
import re
from typing import Any

import pytest

from minimcp import types
from minimcp.types import ABSENT, Wire, base, kinds

from ..rows import for_each

META = {"example.com/a": 1}
ICON = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
NOTE = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
TEXT = {"type": "text", "text": "hello", "annotations": NOTE, "_meta": META}
LINK = {
    "type": "resource_link",
    "uri": "file:///a/b.rs",
    "name": "b.rs",
    "title": "B",
    "description": "entry",
    "mimeType": "text/x-rust",
    "size": 12,
    "annotations": NOTE,
    "icons": [ICON],
    "_meta": META,
}
TEXT_CONTENTS = {"uri": "a://t", "mimeType": "text/plain", "text": "t", "_meta": META}
BLOB_CONTENTS = {"uri": "a://b", "mimeType": "image/png", "blob": "AAEC", "_meta": META}
TOOL_USE = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}, "_meta": META}
TOOL_RESULT = {
    "type": "tool_result",
    "toolUseId": "u1",
    "content": [TEXT],
    "structuredContent": {"n": 1},
    "isError": True,
    "_meta": META,
}

FULL: list[tuple[type[Wire], dict[str, Any]]] = [
    (types.Text, TEXT),
    (
        types.Image,
        {"type": "image", "data": "AAEC", "mimeType": "image/png", "annotations": NOTE, "_meta": META},
    ),
    (
        types.Audio,
        {"type": "audio", "data": "AAEC", "mimeType": "audio/wav", "annotations": NOTE, "_meta": META},
    ),
    (types.ResourceLink, LINK),
    (
        types.EmbeddedResource,
        {"type": "resource", "resource": TEXT_CONTENTS, "annotations": NOTE, "_meta": META},
    ),
    (types.UnknownContent, {"type": "hologram", "beam": [1], "_meta": META}),
    (types.ToolUse, TOOL_USE),
    (types.ToolResult, TOOL_RESULT),
    (types.TextResourceContents, TEXT_CONTENTS),
    (types.BlobResourceContents, BLOB_CONTENTS),
    (types.Annotations, NOTE),
    (types.Icon, ICON),
    (
        types.Implementation,
        {
            "name": "n",
            "version": "1",
            "title": "N",
            "description": "d",
            "websiteUrl": "https://example.com",
            "icons": [ICON],
        },
    ),
    (types.Resource, {name: value for name, value in LINK.items() if name != "type"}),
    (
        types.ResourceTemplate,
        {
            "uriTemplate": "a://{b}",
            "name": "n",
            "title": "N",
            "description": "d",
            "mimeType": "text/plain",
            "annotations": NOTE,
            "icons": [ICON],
            "_meta": META,
        },
    ),
    (
        types.ReadResourceResult,
        {"contents": [TEXT_CONTENTS, BLOB_CONTENTS], "ttlMs": 5, "cacheScope": "public", "_meta": META},
    ),
    (
        types.ToolAnnotations,
        {
            "title": "T",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    ),
    (types.ToolExecution, {"taskSupport": "optional"}),
    (
        types.Tool,
        {
            "name": "t",
            "title": "T",
            "description": "d",
            "inputSchema": {"type": "object", "properties": {"camelCase": {"type": "string"}}},
            "outputSchema": {"type": "object"},
            "annotations": {"title": "A"},
            "icons": [ICON],
            "execution": {"taskSupport": "required"},
            "_meta": META,
        },
    ),
    (
        types.CallToolResult,
        {"content": [TEXT], "structuredContent": [1, None], "isError": True, "_meta": META},
    ),
    (types.PromptArgument, {"name": "a", "title": "A", "description": "d", "required": True}),
    (
        types.Prompt,
        {
            "name": "p",
            "title": "P",
            "description": "d",
            "arguments": [{"name": "a", "required": False}],
            "icons": [ICON],
            "_meta": META,
        },
    ),
    (types.PromptMessage, {"role": "user", "content": TEXT, "_meta": META}),
    (
        types.GetPromptResult,
        {"description": "d", "messages": [{"role": "assistant", "content": LINK}], "_meta": META},
    ),
    (types.Completion, {"completion": {"values": ["a", "b"], "total": 5, "hasMore": True}, "_meta": META}),
    (types.SamplingMessage, {"role": "user", "content": [TOOL_USE, TOOL_RESULT], "_meta": META}),
    (
        types.SampleResult,
        {"role": "assistant", "content": TEXT, "model": "m", "stopReason": "endTurn", "_meta": META},
    ),
    (types.ModelHint, {"name": "son"}),
    (
        types.ModelPreferences,
        {
            "hints": [{"name": "son"}, {}],
            "costPriority": 0,
            "speedPriority": 0.25,
            "intelligencePriority": 1,
        },
    ),
    (
        types.SampleRequest,
        {
            "messages": [{"role": "user", "content": TEXT}],
            "modelPreferences": {"hints": [{"name": "son"}]},
            "systemPrompt": "p",
            "includeContext": "thisServer",
            "temperature": 0.5,
            "maxTokens": 5,
            "stopSequences": ["."],
            "metadata": {"a": 1},
            "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
            "toolChoice": {"mode": "none"},
            "_meta": META,
        },
    ),
    (types.ToolChoice, {"mode": "required"}),
    (
        types.ElicitRequest,
        {
            "mode": "url",
            "message": "?",
            "requestedSchema": {"type": "object"},
            "url": "https://example.com/",
            "elicitationId": "e",
            "_meta": META,
        },
    ),
    (types.Root, {"uri": "file:///home", "name": "home", "_meta": META}),
    (
        types.Progress,
        {"progressToken": "t", "progress": 1, "total": 2.5, "message": "half", "_meta": META},
    ),
    (types.LogMessage, {"level": "info", "logger": "l", "data": {"a": None}, "_meta": META}),
]
IDS = [kind.__name__ for kind, _ in FULL]

# These two do not read their table from the top of the object; their own files show what they refuse.
PLAIN = [pair for pair in FULL if pair[0] not in (types.UnknownContent, types.Completion)]
PLAIN_IDS = [kind.__name__ for kind, _ in PLAIN]


@pytest.mark.requirement("META-02", "TOOL-12", "RES-03")
@pytest.mark.requirement("PRM-03", "ICON-01", "ICON-02")
@for_each(("kind", "wire"), FULL)
def test_everything_set_goes_round(kind: type[Wire], wire: dict[str, Any]) -> None:
    made = kind.from_wire(wire)
    assert made.to_wire() == wire
    assert made.extra == {}
    assert all(getattr(made, name) is not None for name in kind.FIELDS)
    json.dumps(made.to_wire())


@for_each(("kind", "wire"), FULL)
def test_pickle_and_copies_are_equal(kind: type[Wire], wire: dict[str, Any]) -> None:
    made = kind.from_wire(wire)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(made, protocol))
        assert again == made
        assert again.to_wire() == wire
    assert copy.copy(made) == made
    assert copy.deepcopy(made) == made
    assert repr(made) == repr(again)


@pytest.mark.requirement("BASE-16")
@for_each(("kind", "wire"), FULL)
def test_unknown_members_are_kept_and_written_back(kind: type[Wire], wire: dict[str, Any]) -> None:
    odd: dict[str, Any] = {"x-extra": [1, {"a": None}], "nothing": None}
    if kind is types.Completion:
        wire = {**wire, "completion": {**wire["completion"], **odd}}
    else:
        wire = {**wire, **odd}
    made = kind.from_wire(wire)
    assert made.to_wire() == wire
    if kind is not types.UnknownContent:
        assert made.extra == odd
        assert "extra=" in repr(made)
        assert made != kind.from_wire({name: value for name, value in wire.items() if name not in odd}) or (
            kind is types.Completion
        )


@for_each(("kind", "wire"), PLAIN)
def test_a_missing_or_wrongly_typed_member_is_named_in_one_line(kind: type[Wire], wire: dict[str, Any]) -> None:
    for name, rule in kind.FIELDS.items():
        member = types.member_name(name)
        if rule.needed:
            without = {key: value for key, value in wire.items() if key != member}
            with pytest.raises(ValueError, match=f"^{kind.__name__}: {member} is missing$"):
                kind.from_wire(without)
        if not rule.nullable:
            # An object that is wanted is given a boolean, and so on: nothing takes both.
            wrong: Any = {"a": 1} if bool in rule.wire else True
            with pytest.raises(ValueError) as caught:
                kind.from_wire({**wire, member: wrong})
            assert re.match(f"^{kind.__name__}: {member} must be .*, not (a boolean|an object)$", str(caught.value))


@for_each(("kind", "wire"), PLAIN)
def test_an_optional_member_may_be_left_out_or_null(kind: type[Wire], wire: dict[str, Any]) -> None:
    least = {key: value for key, value in wire.items() if key == "type"}
    least.update(
        {types.member_name(name): wire[types.member_name(name)] for name in kind.FIELDS if kind.FIELDS[name].needed}
    )
    nulls = {
        types.member_name(name): None for name, rule in kind.FIELDS.items() if not rule.needed and not rule.nullable
    }
    made = kind.from_wire({**least, **nulls})
    assert made == kind.from_wire(least)
    assert made.extra == {}
    assert made.to_wire() == ({**least, "required": False} if kind is types.PromptArgument else least)


@for_each(("value", "words"), [([], "an array"), ("x", "a string"), (None, "null"), (1.5, "a number")])
def test_something_else_than_an_object_is_refused(value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^Tool: must be an object, not {words}$"):
        types.Tool.from_wire(value)


def test_an_inner_mistake_names_the_way_to_it() -> None:
    with pytest.raises(ValueError, match="^CallToolResult: content: Text: text is missing$"):
        types.CallToolResult.from_wire({"content": [{"type": "text"}]})


@pytest.mark.requirement("META-09", "M:META-14")
def test_nothing_is_assumed_about_reserved_meta_keys() -> None:
    odd = {"io.modelcontextprotocol/serverInfo": 5, "dev.mcp/x": None, "mcp.dev/": [1], "progressToken": {}}
    assert types.CallToolResult.from_wire({"content": [], "_meta": odd}).meta == odd


def test_names() -> None:
    assert [types.member_name(name) for name in ("meta", "uri", "mime_type", "structured_content_")] == [
        "_meta", "uri", "mimeType", "structuredContent",
    ]  # fmt: skip


def test_equality_needs_the_same_class() -> None:
    image = types.Image(b"x", "image/png")
    assert image != types.Audio(b"x", "image/png")
    assert image != "image"
    assert types.Text("a") == types.Text("a") != types.Text("b")
    with pytest.raises(TypeError):
        hash(image)


def test_repr_shows_what_is_set_and_not_too_much() -> None:
    assert repr(types.Text("x")) == "Text(text='x')"
    assert repr(types.Image(b"12345", "image/png")) == "Image(data=<5 bytes>, mime_type='image/png')"
    assert len(repr(types.Text("x" * 5000))) < 300
    assert repr(types.CallToolResult(structured_content=1)) == "CallToolResult(content=[], structured_content=1)"


def test_absent_is_one_false_object() -> None:
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT
    assert copy.deepcopy(ABSENT) is ABSENT


@pytest.mark.requirement("RES-21", "PRM-08")
@for_each("data", [b"", b"a", b"ab", b"abc", b"abcd", bytes(range(256))])
def test_base64_goes_round(data: bytes) -> None:
    text = kinds.encode_base64(data)
    assert "\n" not in text
    assert kinds.decode_base64(text) == data


def test_the_alphabet_for_urls_is_read_and_never_written() -> None:
    assert kinds.decode_base64("-_8=") == kinds.decode_base64("+/8=") == b"\xfb\xff"
    assert kinds.encode_base64(b"\xfb\xff") == "+/8="


@pytest.mark.requirement("RES-21", "PRM-08")
@for_each(
    "text",
    ["YQ", "YQ=", "YQ===", "Y", "====", "=", "YWJj=", "YW Jj", "YWJj\n", "YW-/", "+_==", "YQ==YQ==", "YWJ\u00e9",
     "A===", "AB=\n CD=", "!!!!YWJj", "YQ==YWJj", "AA==A==="],
)  # fmt: skip
def test_what_is_not_strict_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        kinds.decode_base64(text)
    with pytest.raises(ValueError, match="^Image: data: "):
        types.Image.from_wire({"type": "image", "mimeType": "image/png", "data": text})


@pytest.mark.requirement("X-05")
def test_a_whole_number_may_arrive_as_a_fraction() -> None:
    size = types.Resource.from_wire({"uri": "a:b", "name": "n", "size": 12.0}).size
    assert (size, type(size)) == (12, int)
    for odd in (1.5, float("inf")):
        assert types.Resource.from_wire({"uri": "a:b", "name": "n", "size": odd}).size == odd


def test_true_is_no_number_and_bytes_are_no_text() -> None:
    for wrong in (True, "1"):
        with pytest.raises(TypeError, match="^Resource: size must be a whole number, not (bool|str)$"):
            types.Resource("a:b", "n", size=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^Text: text must be a string, not bytes$"):
        types.Text(b"x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^LogMessage: data must be a JSON value, not bytes$"):
        types.LogMessage("info", b"x")


def test_a_needed_member_is_no_none() -> None:
    with pytest.raises(TypeError, match="^Tool: input_schema must be an object, not NoneType$"):
        types.Tool("t", None)  # type: ignore[arg-type]


def test_lists_are_copied_and_single_things_refused() -> None:
    blocks = (types.Text("a"), types.Text("b"))
    assert types.CallToolResult(blocks).content == list(blocks)
    for wrong in ("abc", types.Text("a"), b"abc", {"type": "text"}, 5, None):
        with pytest.raises(TypeError, match="^CallToolResult: content must be a list .*, not "):
            types.CallToolResult(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^CallToolResult: content must be a list .*, not list holding str$"):
        types.CallToolResult(["abc"])  # type: ignore[list-item]


def test_every_exported_name_is_there() -> None:
    assert sorted(types.__all__) == sorted(set(types.__all__))
    for name in types.__all__:
        assert getattr(types, name) is not None
    covered = {kind for kind, _ in FULL} | {Wire, types.Change}
    public = [getattr(types, name) for name in types.__all__]
    assert {kind for kind in public if isinstance(kind, type) and issubclass(kind, Wire)} == covered
    assert base.Wire is Wire


@for_each(
    ("said", "name", "version"),
    [
        ({"name": "a", "version": "1", "title": "A"}, "a", "1"),
        ({"name": "a", "version": 1}, "a", ""),
        ({"name": "a", "version": "1", "title": 5}, "a", "1"),
        ({"name": "a"}, "a", ""),
    ],
)
def test_what_a_peer_says_about_itself_is_taken_as_far_as_it_goes(said: Any, name: str, version: str) -> None:
    found = types.Implementation.of_peer(said)
    assert found is not None
    assert (found.name, found.version) == (name, version)


@for_each("said", [{"name": 1}, {}, None, [], "a"])
def test_a_peer_without_a_name_says_nothing(said: Any) -> None:
    assert types.Implementation.of_peer(said) is None
