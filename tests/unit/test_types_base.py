"""The common behavior of all wire objects: reading, writing, unknown members, checks, equality,
repr, pickle."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import re
import subprocess
import sys
from typing import Any, Dict, List, Tuple, Type
from unittest.mock import ANY

import pytest

from minimcp import types
from minimcp.record import MISSING
from minimcp.types import ABSENT, Wire, base

from ..support import ROOT

META = {"example.com/a": 1}
ICON = {
    "src": "https://example.com/i.png",
    "mimeType": "image/png",
    "sizes": ["48x48"],
    "theme": "dark",
}
NOTE = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"}
NAMED = {"name": "n", "title": "T", "description": "d", "icons": [ICON]}
BLOCK = {"annotations": NOTE, "_meta": META}
TEXT = {"type": "text", "text": "hello", **BLOCK}
RESOURCE = {"uri": "file:///a/b.rs", "mimeType": "text/x-rust", "size": 12, **NAMED, **BLOCK}
TEXT_CONTENTS = {"uri": "a://t", "mimeType": "text/plain", "text": "t", "_meta": META}
BLOB_CONTENTS = {"uri": "a://b", "mimeType": "image/png", "blob": "AAEC", "_meta": META}
TOOL_USE = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}, "_meta": META}
RESULT = {"content": [TEXT], "structuredContent": [1, None], "isError": True, "_meta": META}
HINTS = {
    "title": "T",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
TOOL = {
    "inputSchema": {"properties": {"camelCase": {}}},
    "outputSchema": {"type": "object"},
    "annotations": HINTS,
}
PREFERENCES = {
    "hints": [{"name": "son"}, {}],
    "costPriority": 0,
    "speedPriority": 0.25,
    "intelligencePriority": 1,
}

FULL: List[Tuple[Type[Wire], Dict[str, Any]]] = [
    (types.Text, TEXT),
    (types.Image, {"type": "image", "data": "AAEC", "mimeType": "image/png", **BLOCK}),
    (types.Audio, {"type": "audio", "data": "AAEC", "mimeType": "audio/wav", **BLOCK}),
    (types.ResourceLink, {"type": "resource_link", **RESOURCE}),
    (types.EmbeddedResource, {"type": "resource", "resource": TEXT_CONTENTS, **BLOCK}),
    (types.UnknownContent, {"type": "hologram", "beam": [1], "_meta": META}),
    (types.ToolUse, TOOL_USE),
    (types.ToolResult, {"type": "tool_result", "toolUseId": "u1", **RESULT}),
    (types.TextResourceContents, TEXT_CONTENTS),
    (types.BlobResourceContents, BLOB_CONTENTS),
    (types.Annotations, NOTE),
    (types.Icon, ICON),
    (types.Implementation, {"version": "1", "websiteUrl": "https://example.com", **NAMED}),
    (types.Resource, RESOURCE),
    (types.ResourceTemplate, {"uriTemplate": "a://{b}", "mimeType": "text/plain", **NAMED, **BLOCK}),
    (types.ReadResourceResult, {"contents": [TEXT_CONTENTS, BLOB_CONTENTS], "ttlMs": 5, "cacheScope": "public"}),
    (types.ToolAnnotations, HINTS),
    (types.Tool, {**NAMED, **TOOL, "_meta": META}),
    (types.CallToolResult, RESULT),
    (types.PromptArgument, {"name": "a", "title": "A", "description": "d", "required": True}),
    (types.Prompt, {**NAMED, "arguments": [{"name": "a", "required": False}], "_meta": META}),
    (types.PromptMessage, {"role": "user", "content": TEXT, "_meta": META}),
    (types.GetPromptResult, {"description": "d", "messages": [{"role": "assistant", "content": TEXT}], "_meta": META}),
    (types.Completion, {"completion": {"values": ["a", "b"], "total": 5, "hasMore": True}, "_meta": META}),
    (types.SamplingMessage, {"role": "user", "content": [TEXT, TOOL_USE], "_meta": META}),
    (types.SampleResult, {"role": "assistant", "content": TEXT, "model": "m", "stopReason": "endTurn", "_meta": META}),
    (types.ModelHint, {"name": "son"}),
    (types.ModelPreferences, PREFERENCES),
    (
        types.SampleRequest,
        {"messages": [{"role": "user", "content": TEXT}], "modelPreferences": PREFERENCES, "systemPrompt": "p",
         "includeContext": "thisServer", "temperature": 0.5, "maxTokens": 5, "stopSequences": ["."], "metadata": META,
         "tools": [{"name": "t", "inputSchema": {}}], "toolChoice": {"mode": "none"}, "_meta": META},
    ),
    (types.ToolChoice, {"mode": "required"}),
    (
        types.ElicitRequest,
        {"mode": "url", "message": "?", "requestedSchema": {}, "url": "a:b", "elicitationId": "e", "_meta": META},
    ),
    (types.Root, {"uri": "file:///home", "name": "home", "_meta": META}),
    (types.Progress, {"progressToken": "t", "progress": 1, "total": 2.5, "message": "half", "_meta": META}),
    (types.LogMessage, {"level": "info", "logger": "l", "data": {"a": None}, "_meta": META}),
]  # fmt: skip
every = pytest.mark.parametrize(("cls", "wire"), FULL, ids=[cls.__name__ for cls, _ in FULL])

# These two do not read their members from the top of the object. Their own tests show their errors.
PLAIN = [pair for pair in FULL if pair[0] not in (types.UnknownContent, types.Completion)]
every_plain = pytest.mark.parametrize(
    ("cls", "wire"), PLAIN, ids=[cls.__name__ for cls, _ in PLAIN]
)


@pytest.mark.requirement("META-02", "TOOL-12", "RES-03", "PRM-03", "ICON-01", "ICON-02")
@every
def test_everything_set_goes_round(cls: Type[Wire], wire: Dict[str, Any]) -> None:
    made = cls.from_wire(wire)
    assert made.to_wire() == wire
    assert made.extra == {}
    json.dumps(made.to_wire())
    again = cls(**{name: getattr(made, name) for name in inspect.signature(cls).parameters})
    assert again == made and again.to_wire() == wire
    for twin in (pickle.loads(pickle.dumps(made, 2)), copy.copy(made), copy.deepcopy(made)):
        assert twin == made and repr(twin) == repr(made) and twin.to_wire() == wire


@pytest.mark.requirement("BASE-16")
@every
def test_unknown_members_are_kept_and_written_back(cls: Type[Wire], wire: Dict[str, Any]) -> None:
    odd: Dict[str, Any] = {"x-extra": [1, {"a": None}], "nothing": None}
    more = (
        {"completion": {**wire["completion"], **odd}, "_meta": META}
        if cls is types.Completion
        else {**wire, **odd}
    )
    made = cls.from_wire(more)
    assert made.to_wire() == more
    assert made != cls.from_wire(wire)
    if cls is not types.UnknownContent:
        assert made.extra == odd and "extra={'x-extra'" in repr(made)
        assert "resultType" not in cls.from_wire({**more, "resultType": "complete"}).to_wire()


@every_plain
def test_a_missing_or_wrongly_typed_member_is_named_in_one_line(
    cls: Type[Wire], wire: Dict[str, Any]
) -> None:
    required = {member for _, member, _, default in cls._plan if default is MISSING}
    for member in required:
        with pytest.raises(ValueError, match=f"^{cls.__name__}: {member} is missing$"):
            cls.from_wire({key: value for key, value in wire.items() if key != member})
    for _, member, kind, _ in cls._plan:
        if type(None) not in kind.wire:
            # An object if another type is expected, otherwise a boolean: no member accepts both.
            wrong: Any = {"a": 1} if bool in kind.wire else True
            with pytest.raises(ValueError) as caught:
                cls.from_wire({**wire, member: wrong})
            assert re.match(
                f"^{cls.__name__}: {member} must be .*, not (a boolean|an object)$",
                str(caught.value),
            )


@every_plain
def test_an_optional_member_may_be_left_out_or_null(cls: Type[Wire], wire: Dict[str, Any]) -> None:
    least = {key: value for key, value in wire.items() if key == "type"}
    least.update(
        {member: wire[member] for _, member, _, default in cls._plan if default is MISSING}
    )
    optional = [(member, kind) for _, member, kind, default in cls._plan if default is not MISSING]
    made = cls.from_wire(
        {**least, **{member: None for member, kind in optional if type(None) not in kind.wire}}
    )
    assert made == cls.from_wire(least) and made.extra == {}
    assert made.to_wire() == (
        {**least, "required": False} if cls is types.PromptArgument else least
    )


def test_required_members() -> None:
    required = {
        cls.__name__: [name for name, _, _, default in cls._plan if default is MISSING]
        for cls, _ in FULL
    }
    assert {name: " ".join(fields) for name, fields in required.items() if fields} == {
        "Text": "text", "Image": "data mime_type", "Audio": "data mime_type", "ResourceLink": "uri name",
        "EmbeddedResource": "resource", "UnknownContent": "raw", "ToolUse": "id name input",
        "ToolResult": "tool_use_id content", "TextResourceContents": "uri text", "BlobResourceContents": "uri data",
        "Icon": "src", "Implementation": "name version", "Resource": "uri name",
        "ResourceTemplate": "uri_template name", "ReadResourceResult": "contents", "Tool": "name input_schema",
        "CallToolResult": "content", "PromptArgument": "name", "Prompt": "name", "PromptMessage": "role content",
        "GetPromptResult": "messages", "Completion": "values", "SamplingMessage": "role content",
        "SampleResult": "content model role", "SampleRequest": "messages max_tokens", "ElicitRequest": "message",
        "Root": "uri", "Progress": "progress", "LogMessage": "level data",
    }  # fmt: skip


def test_equality_needs_the_same_class_and_repr_shows_set_members() -> None:
    image = types.Image(b"x", "image/png")
    assert image != types.Audio(b"x", "image/png") and image != "image" and image == ANY
    with pytest.raises(TypeError):
        hash(image)
    assert repr(types.Text("x")) == "Text(text='x')"
    assert (
        repr(types.Image(b"12345", "image/png")) == "Image(data=<5 bytes>, mime_type='image/png')"
    )
    assert len(repr(types.Text("x" * 5000))) < 300 and repr(types.Text("x" * 5000)).endswith("...)")
    assert (
        repr(types.CallToolResult(structured_content=1))
        == "CallToolResult(content=[], structured_content=1)"
    )
    assert not ABSENT and repr(ABSENT) == "ABSENT"
    assert pickle.loads(pickle.dumps(ABSENT)) is ABSENT is copy.deepcopy(ABSENT)


@pytest.mark.requirement("RES-21", "PRM-08")
def test_base64_goes_round_and_the_alphabet_for_urls_is_read() -> None:
    for data in (b"", b"a", b"ab", b"abc", bytes(range(256)), bytes(100)):
        text = base.encode_base64(data)
        assert "\n" not in text and base.decode_base64(text) == data
    assert base.decode_base64("-_8=") == base.decode_base64("+/8=") == b"\xfb\xff"
    assert base.encode_base64(b"\xfb\xff") == "+/8="


@pytest.mark.requirement("RES-21", "PRM-08")
@pytest.mark.parametrize(
    "text",
    ["YQ", "YQ=", "YQ===", "Y", "====", "=", "YWJj=", "YW Jj", "YWJj\n", "YW-/", "+_==", "YQ==YQ==", "YWJ\u00e9",
     "A===", "AB=\n CD=", "!!!!YWJj", "YQ==YWJj", "AA==A==="],
)  # fmt: skip
def test_values_that_are_not_strict_base64_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="^Image: data: "):
        types.Image.from_wire({"type": "image", "mimeType": "image/png", "data": text})


@pytest.mark.requirement("X-05")
def test_a_whole_number_may_arrive_as_a_fraction() -> None:
    size = types.Resource.from_wire({"uri": "a:b", "name": "n", "size": 12.0}).size
    assert (size, type(size)) == (12, int)
    for odd in (1.5, float("inf")):
        assert types.Resource.from_wire({"uri": "a:b", "name": "n", "size": odd}).size == odd


def test_a_number_too_large_for_a_float_is_rejected() -> None:
    for member in ("progress", "total"):
        wire = {"progress": 1, "total": 2, member: 10**400}
        with pytest.raises(ValueError, match=f"^Progress: {member}: is too large"):
            types.Progress.from_wire(wire)


def test_the_error_for_a_wrong_type_names_it() -> None:
    cases: List[Any] = [
        (lambda: types.Resource("a:b", "n", size=True), "Resource: size must be a whole number, not bool"),
        (lambda: types.Resource("a:b", "n", size="1"), "Resource: size must be a whole number, not str"),
        (lambda: types.Text(b"x"), "Text: text must be a string, not bytes"),
        (lambda: types.LogMessage(["info"], 0), "LogMessage: level must be a string, not list"),
        (lambda: types.LogMessage("info", b"x"), "LogMessage: data must be a JSON value, not bytes"),
        (lambda: types.Tool("t", None), "Tool: input_schema must be an object, not NoneType"),
        (lambda: types.Progress(True), "Progress: progress must be a number, not bool"),
        (lambda: types.Progress(1, progress_token=1.5), "Progress: progress_token must be a string or a whole number, "
                                                        "not float"),
        (lambda: types.PromptArgument("a", required=1), "PromptArgument: required must be true or false, not int"),
        (lambda: types.Annotations("user"), "Annotations: audience must be a list of strings, not str"),
        (lambda: types.Completion([1]), "Completion: values must be a list of strings, not list holding int"),
        (lambda: types.EmbeddedResource("x"), "EmbeddedResource: resource must be an object (TextResourceContents or "
                                              "BlobResourceContents), not str"),
        (lambda: types.BlobResourceContents("a:b", "AAEC"), "BlobResourceContents: data must be bytes, not str"),
        (lambda: types.Tool("t", {}, icons=[5]), "Tool: icons must be a list (Icon), not list holding int"),
    ]  # fmt: skip
    for make, words in cases:
        with pytest.raises(TypeError, match=f"^{re.escape(words)}$"):
            make()


@pytest.mark.parametrize("args, given, message", [
    ((), {}, "Tool: missing a required argument: 'name'"),
    (("a",), {"inputschema": {}}, "Tool: missing a required argument: 'input_schema'"),
    (("a", {}), {"name": "b"}, "Tool: multiple values for argument 'name'"),
    (("a", {}), {"titel": "b"}, "Tool: got an unexpected keyword argument 'titel'"),
    (("a", {}, *"cdefghij"), {}, "Tool: too many positional arguments"),
])  # fmt: skip
def test_wrong_arguments_are_named(
    args: tuple[Any, ...], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        types.Tool(*args, **given)


FIRST_USES = """
import sys, threading
from minimcp import types
sys.setswitchinterval(1e-6)
together, done = threading.Barrier(8), []
def use():
    together.wait()
    types.ResourceLink("file:///a", "a", title="b").to_wire()
    types.Tool.from_wire({"name": "a", "inputSchema": {}})
    done.append(types.CallToolResult([types.Text("a"), types.Image(b"x", "image/png")]).to_wire())
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(done))
"""


def test_threads_that_use_a_class_for_the_first_time_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USES], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert (done.stdout, done.stderr) == ("8\n", "")


def test_the_signature_and_fields_equal_the_annotations() -> None:
    shown = "(uri: 'str', name: 'Optional[str]' = None, meta: 'Optional[Json]' = None)"
    assert str(inspect.signature(types.Root)) == shown
    assert dataclasses.replace(types.Text("a"), text="b") == types.Text("b")


FORK = """
import os, threading
from minimcp import types
import minimcp.types.base
prepare, forked = types.base.member_type_of, threading.Event()
def wait_for_the_fork(annotation):
    begun.set()
    forked.wait()
    return prepare(annotation)
begun, types.base.member_type_of = threading.Event(), wait_for_the_fork
threading.Thread(target=types.Tool, args=("a", {})).start()
begun.wait()
child = os.fork()
if child == 0:
    types.base.member_type_of = prepare
    os._exit(types.Tool.from_wire({"name": "b", "inputSchema": {}}).title is not None)
print(os.waitpid(child, 0)[1])
forked.set()
"""


def test_a_fork_while_another_thread_uses_a_class_for_the_first_time() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")
