"""The client tolerates malformed input: it keeps malformed parts raw and logs them, and loses
nothing else."""

from __future__ import annotations

import logging
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import types
from minimcp.types import UnknownContent
from minimcp.types.base import MAX_FAULTS

from ..answering import R4, R5, REVISIONS, Answering, error, initialized, result

ALL = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
SKILLS = "io.modelcontextprotocol/skills"


def connected(revision: str = R4, **answers: Any) -> Any:
    """A client of a script; ``__`` in a name stands for the slash."""
    capabilities = {**ALL, "extensions": {SKILLS: {}}, "tasks": {"list": {}}}
    script = {
        "initialize": initialized(revision, **capabilities),
        "server/discover": result(supportedVersions=[R5], capabilities=capabilities),
        **{name.replace("__", "/"): answer for name, answer in answers.items()},
    }
    return minimcp.connect(Answering(script), revision=revision)


def warnings(caplog: pytest.LogCaptureFixture) -> List[str]:
    found = [each for each in caplog.records if each.levelno >= logging.WARNING]
    return [each.getMessage() for each in found]


# ------------------------------------------------------------ lists: each broken item


SHAPE = {"type": "object"}
SKILL = {
    "uri": "skill://x/SKILL.md",
    "frontmatter": {"name": "x", "description": "d"},
    "resources": "dynamic",
}
LISTS: Dict[str, Any] = {
    "tools": ("tools/list", "list_tools", {"name": "good", "inputSchema": SHAPE}),
    "resources": ("resources/list", "list_resources", {"uri": "a:good", "name": "good"}),
    "resourceTemplates": (
        "resources/templates/list",
        "list_resource_templates",
        {"uriTemplate": "a:{good}", "name": "good"},
    ),
    "prompts": ("prompts/list", "list_prompts", {"name": "good"}),
    "skills": ("skills/list", "list_skills", SKILL),
}
BROKEN: Dict[str, Any] = {
    "null": None, "text": "x", "number": 5, "list": [1], "empty": {}, "no name": {"title": "x"},
    "name null": {"name": None}, "name number": {"name": 5, "uri": "a:b", "uriTemplate": "a:b"},
}  # fmt: skip
OPTIONAL: Dict[str, Any] = {
    "title": 5, "description": ["x"], "annotations": "x", "icons": "x", "_meta": "x",
}  # fmt: skip


def listing(revision: str, kind: str, *items: Any) -> Any:
    """Return a list of this kind, and the names in it."""
    method, call, good = LISTS[kind]
    with connected(revision, **{method: result(**{kind: [good, *items, good]})}) as client:
        return getattr(client, call)()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_item_is_left_out_of_its_list(
    revision: str, kind: str, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = listing(revision, kind, BROKEN[case])
    assert len(found) == 2, found
    (line,) = warnings(caplog)
    assert f"{kind}[1]" in line and "is left out: " in line and LISTS[kind][0] in line


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "kind, member",
    [
        (kind, member)
        for kind in ("tools", "resources", "resourceTemplates", "prompts")
        for member in OPTIONAL
        if (kind, member) != ("prompts", "annotations")  # they have none
    ],
)
def test_a_broken_optional_member_is_kept_raw(
    revision: str, kind: str, member: str, caplog: pytest.LogCaptureFixture
) -> None:
    good, value = LISTS[kind][2], OPTIONAL[member]
    found = listing(revision, kind, {**good, "name": "odd", member: value})
    assert [each.name for each in found] == ["good", "odd", "good"]
    assert found[1].extra == {member: value} and not getattr(found[1], member.strip("_"))
    assert member not in found[1].to_wire(), "what is malformed is not sent on"
    (line,) = warnings(caplog)
    assert f"{kind}[1] ('odd').{member}" in line


@pytest.mark.parametrize("schema", [{}, {"inputSchema": None}, {"inputSchema": []}])
def test_a_tool_without_a_schema_takes_any_arguments(
    schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, odd, _ = listing(R4, "tools", {"name": "odd", **schema})
    assert (odd.name, odd.input_schema, odd.extra) == ("odd", SHAPE, {})
    assert "tools[1] ('odd').inputSchema" in warnings(caplog)[0]


@pytest.mark.parametrize("schema", [True, 5, "x", ["x"]])
def test_a_schema_of_another_type_is_not_guessed(schema: Any) -> None:
    assert len(listing(R4, "tools", {"name": "odd", "inputSchema": schema})) == 2


def test_nested_lists_lose_only_their_broken_items(caplog: pytest.LogCaptureFixture) -> None:
    icons = [{"src": "a:b", "sizes": "1x1 2x2"}, {"src": 5}, {"src": "c:d", "theme": 1}]
    _, odd, _ = listing(R4, "tools", {"name": "odd", "inputSchema": SHAPE, "icons": icons})
    assert [each.src for each in odd.icons] == ["a:b", "c:d"] and odd.icons[1].extra == {"theme": 1}
    assert odd.extra == {"icons": [{"src": 5}]}
    assert [line.rpartition("odd')")[2].split(":")[0] for line in warnings(caplog)] == [
        ".icons[1]",
        ".icons[2].theme",
    ]
    arguments = [{"name": "a"}, {"required": True}, {"name": "b", "required": "yes"}]
    _, odd, _ = listing(R4, "prompts", {"name": "odd", "arguments": arguments})
    assert [(each.name, each.required) for each in odd.arguments] == [("a", False), ("b", False)]


@pytest.mark.requirement("RES-10")
def test_a_template_in_uri_is_read_as_uri_template() -> None:
    _, odd, _ = listing(R4, "resourceTemplates", {"uri": "a:{b}", "name": "odd"})
    assert (odd.uri_template, odd.extra, odd.to_wire()) == (
        "a:{b}",
        {},
        {"uriTemplate": "a:{b}", "name": "odd"},
    )


def test_an_empty_list_of_php_counts_as_an_empty_object() -> None:
    wire = {"name": "odd", "inputSchema": SHAPE, "annotations": [], "_meta": [], "execution": []}
    _, odd, _ = listing(R4, "tools", wire)
    assert (odd.annotations, odd.meta, odd.execution) == (types.ToolAnnotations(), {}, {})


def test_a_fault_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with connected(tools__list=result(tools=[{"name": 5}])) as client:
        assert client.list_tools() == client.list_tools() == []
    assert len(warnings(caplog)) == 1


def test_a_list_of_nonsense_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with connected(tools__list=result(tools=list(range(10_000)))) as client:
        assert client.list_tools() == []
    assert len(warnings(caplog)) == MAX_FAULTS + 1


@pytest.mark.parametrize("wire", [{}, {"tools": None}])
def test_a_page_without_its_list_is_empty(wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    pages = [result(tools=[LISTS["tools"][2]], nextCursor="2"), result(**wire)]
    with connected(tools__list=pages) as client:
        assert [each.name for each in client.list_tools()] == ["good"]
    assert "tools is missing" in warnings(caplog)[0]


def test_a_later_page_that_is_not_a_list_does_not_lose_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pages = [result(tools=[LISTS["tools"][2]], nextCursor="2"), result(tools="x", nextCursor="3")]
    with connected(tools__list=pages) as client:
        assert [each.name for each in client.list_tools()] == ["good"]
    assert "may be incomplete" in warnings(caplog)[0]
    with connected(tools__list=result(tools="x")) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="a list of tools"):
            client.list_tools()


def test_roots_are_read_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    question = minimcp.ListRoots()
    found = question.read({"roots": [{"uri": "file:///a"}, {"uri": 5}, None, {"name": "x"}]})
    assert [root.uri for root in found] == ["file:///a"]
    assert len(warnings(caplog)) == 3 and "roots[1]" in warnings(caplog)[0]


# ------------------------------------------------------------ cursors


def cursors(revision: str, kind: str, pages: Dict[Any, Any]) -> Any:
    """Return the names in a list whose pages are given by cursor."""
    method, call, good = LISTS[kind]

    def page(message: Dict[str, Any]) -> Any:
        name, following = pages.get(message.get("params", {}).get("cursor"), pages[None])
        if name is None:
            return {"error": {"code": following, "message": "no such cursor"}}
        more = {} if following is ... else {"nextCursor": following}
        item = dict(good, uri="a:" + name) if kind != "skills" else good
        return {"result": {kind: [{**item, "name": name, "title": name}], **more}}

    with connected(revision, **{method: page}) as client:
        return [getattr(each, "title", each.name) for each in getattr(client, call)()]


HANDSHAKES = [each for each in REVISIONS if each != R5]


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("kind", [each for each in LISTS if each != "skills"])
def test_an_empty_cursor_that_leads_nowhere_is_the_end(revision: str, kind: str) -> None:
    # The cursor is ignored, refused in three ways, or leads to an empty cursor again.
    assert cursors(revision, kind, {None: ("a", "")}) == ["a"]
    for code in (-32602, -32603, -32000):
        assert cursors(revision, kind, {None: ("a", ""), "": (None, code)}) == ["a"]
    assert cursors(revision, kind, {None: ("a", "2"), "2": ("b", "")}) == ["a", "b"]
    assert cursors(revision, kind, {None: ("a", ""), "": ("b", "")}) == ["a", "b"]
    # It is a cursor like any other where it leads somewhere.
    assert cursors(revision, kind, {None: ("a", ""), "": ("b", ...)}) == ["a", "b"]
    assert cursors(revision, kind, {None: ("a", ""), "": ("b", "3"), "3": ("c", None)}) == list(
        "abc"
    )


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("kind", [each for each in LISTS if each != "skills"])
def test_invalid_cursors(revision: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    assert cursors(revision, kind, {None: ("a", None)}) == ["a"] and not warnings(caplog)
    for odd in (2, 0, 1.5, True, [], {"a": 1}):
        caplog.clear()
        assert cursors(revision, kind, {None: ("a", "2"), "2": ("b", odd)}) == ["a", "b"]
        assert "nextCursor must be a string" in warnings(caplog)[0]
    with pytest.raises(minimcp.ProtocolViolation, match="repeated"):
        cursors(revision, kind, {None: ("a", "2"), "2": ("b", "2")})


def test_an_empty_cursor_is_a_cursor_since_2026() -> None:
    assert cursors(R5, "tools", {None: ("a", ""), "": ("b", ...)}) == ["a", "b"]
    with pytest.raises(minimcp.ProtocolViolation, match="repeated"):
        cursors(R5, "tools", {None: ("a", "")})


# ------------------------------------------------------------ results: each broken part


PIXEL = "AAEC"
BLOCKS: Dict[str, Any] = {
    "text": {"type": "text", "text": "t"},
    "image": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    "resource_link": {"type": "resource_link", "uri": "a:b", "name": "n"},
    "resource text": {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
    "resource blob": {"type": "resource", "resource": {"uri": "a:b", "blob": PIXEL}},
}
WRONG: List[Any] = [None, True, 5, "\u00e9", [1], {"x": 1}]
GOOD = {"type": "text", "text": "good"}


def broken_blocks(kind: str) -> Any:
    """Yield blocks of this type with one member missing, null, or of another type."""
    block = BLOCKS[kind]
    for member in block:
        yield {name: value for name, value in block.items() if name != member}
        for wrong in WRONG:
            if type(wrong) is not type(block[member]):
                yield {**block, member: wrong}
    for member in block.get("resource", ()):
        inside = dict(block["resource"])
        del inside[member]
        yield {**block, "resource": inside}
        for wrong in (5, [1], {"x": 1}):
            yield {**block, "resource": {**block["resource"], member: wrong}}
    if "data" in block:
        yield {**block, "data": "no base64!"}


NO_BLOCKS: List[Any] = [None, True, 5, "x", [], [GOOD]]


@pytest.mark.requirement("TOOL-17")
@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize("kind", [*BLOCKS, "none"])
def test_content_that_cannot_be_read_is_kept_raw(
    revision: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = NO_BLOCKS if kind == "none" else list(broken_blocks(kind))
    read = result(content=[*odd, GOOD], structuredContent={"a": 1})
    with connected(revision, tools__call=read, tools__list=result(tools=[])) as client:
        found = client.call_tool("t")
    assert found.value == {"a": 1} and found.content[-1] == types.Text("good")
    assert len(found.content) == len(odd) + 1
    unknown = {
        at: each for at, each in enumerate(found.content) if isinstance(each, UnknownContent)
    }
    assert all(each.raw == odd[at] for at, each in unknown.items())
    assert len(unknown) >= len(odd) - 1, "a blob beside a broken text is the one exception"
    logged = [line for line in warnings(caplog) if "content[" in line]
    assert len(logged) == min(len(odd), MAX_FAULTS + 1, len(logged)) and "content[0]" in logged[0]


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("member, value", [("annotations", "x"), ("_meta", 5)])
def test_a_broken_optional_member_of_a_block_harms_no_other(
    kind: str, member: str, value: Any
) -> None:
    wire = {**BLOCKS[kind], member: value}
    with connected(tools__call=result(content=[wire])) as client:
        (block,) = client.call_tool("t").content
    assert not isinstance(block, UnknownContent) and block.extra == {member: value}
    assert block.to_wire() == BLOCKS[kind]


def test_annotations_are_read_as_far_as_possible() -> None:
    odd = {"audience": ["user", 5], "priority": "high", "lastModified": "2026"}
    with connected(tools__call=result(content=[{**GOOD, "annotations": odd}])) as client:
        (block,) = client.call_tool("t").content
    assert block.text == "good" and block.annotations.audience == ["user"]
    assert (block.annotations.priority, block.annotations.last_modified) == (None, "2026")
    assert block.annotations.extra == {"audience": [5], "priority": "high"}


RESULTS: Dict[str, Any] = {
    "content": [..., None, 5, "x", True, {"x": 1}, []],
    "isError": [None, "true", 0, 1, [], {}],
    "_meta": [None, 5, "x", True, []],
    "resultType": [..., None],
    "task": [None],
}


@pytest.mark.requirement("TOOL-17")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("member", RESULTS)
def test_a_finished_call_is_never_lost(revision: str, member: str) -> None:
    for value in RESULTS[member]:
        whole = {"content": [GOOD], "structuredContent": {"a": 1}, member: value}
        wire = {name: each for name, each in whole.items() if each is not ...}
        with connected(
            revision, tools__call=result(**wire), tools__list=result(tools=[])
        ) as client:
            found = client.call_tool("t")
        assert found.value == {"a": 1} and not found.is_error
        assert found.text == ("" if member == "content" else "good")


def test_a_single_block_is_read_though_it_is_not_in_a_list() -> None:
    with connected(tools__call=result(content=GOOD)) as client:
        assert client.call_tool("t").text == "good"


@pytest.mark.parametrize("value", [{}, {"content": None}, {"content": 5, "isError": []}])
def test_a_result_without_anything_is_a_result(value: Any) -> None:
    with connected(tools__call=result(**value)) as client:
        found = client.call_tool("t")
    assert found.value is None and not found.has_structured_content


def test_a_tool_that_failed_has_failed_whatever_its_content_is() -> None:
    with connected(tools__call=result(content=5, isError=True)) as client:
        with pytest.raises(minimcp.ToolError) as caught:
            client.call_tool("t")
    assert caught.value.result is not None
    assert caught.value.result.content == [UnknownContent.keep(5)]


@pytest.mark.requirement("RES-05")
@pytest.mark.parametrize("revision", REVISIONS)
def test_contents_that_cannot_be_read_are_left_out(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = {"uri": "a:b", "text": "t"}
    odd = [None, "x", {}, {"uri": "a:b"}, {"text": "t"}, {"uri": 5, "blob": PIXEL}]
    odd += [{"uri": "a:b", "blob": "no base64!"}, {"uri": "a:b", "text": 5}]
    read = result(contents=[*odd, good], ttlMs="long", cacheScope=5, _meta=[1])
    with connected(revision, resources__read=read) as client:
        found = client.read_resource("a:b")
    assert (found.text, found.contents) == ("t", [types.TextResourceContents("a:b", "t")])
    assert found.extra == {"contents": odd, "ttlMs": "long", "cacheScope": 5, "_meta": [1]}
    assert len(warnings(caplog)) == len(odd) + 3
    for nothing in ({}, {"contents": None}, {"contents": 5}):
        with connected(revision, resources__read=result(**nothing)) as client:
            assert client.read_resource("a:b").contents == []


@pytest.mark.requirement("PRM-05")
@pytest.mark.parametrize("revision", REVISIONS)
def test_messages_that_cannot_be_read_are_left_out(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = [None, "x", {}, {"role": "system", "content": GOOD}, {"content": GOOD}, {"role": "user"}]
    kept = [{"role": "user", "content": each} for each in ("x", [GOOD], {"type": "text"})]
    got = result(messages=[*odd, *kept, {"role": "assistant", "content": GOOD}], description=5)
    with connected(revision, prompts__get=got) as client:
        found = client.get_prompt("p")
    assert [each.role for each in found.messages] == ["user", "user", "user", "assistant"]
    assert [each.content.raw for each in found.messages[:3]] == [each["content"] for each in kept]
    assert found.messages[3].text == "good" and found.description is None
    assert found.extra == {"messages": odd, "description": 5}
    assert len(warnings(caplog)) == len(odd) + len(kept) + 1


@pytest.mark.requirement("COMP-05")
@pytest.mark.parametrize("revision", REVISIONS)
def test_suggestions_that_cannot_be_read_are_left_out(revision: str) -> None:
    about = {"values": ["a", 5, None, "b"], "total": "many", "hasMore": 1}
    with connected(revision, completion__complete=result(completion=about)) as client:
        found = client.complete("a", "b", prompt="p")
    assert (found.values, found.total, found.has_more) == (["a", "b"], None, None)
    for nothing in ({}, {"completion": None}, {"completion": 5}, {"completion": {"values": 5}}):
        with connected(revision, completion__complete=result(**nothing)) as client:
            assert client.complete("a", "b", prompt="p").values == []


@pytest.mark.parametrize("raw", [None, 5, {}, {"type": 5}, {"type": "image", "data": 5}])
def test_a_malformed_block_is_not_sent_on(raw: Any) -> None:
    block = UnknownContent.keep(raw)
    kind = "image" if isinstance(raw, dict) and raw.get("type") == "image" else ""
    assert (block.type, block.meta, block.annotations, block.raw) == (kind, None, None, raw)
    assert block.to_wire() == raw, "to look at it"
    server = minimcp.Server("proxy")

    @server.tool
    def forward() -> minimcp.CallToolResult:
        """Return what another server sent."""
        return minimcp.CallToolResult([block])

    @server.prompt
    def ask() -> minimcp.GetPromptResult:
        """Return what another server sent."""
        return minimcp.GetPromptResult([minimcp.PromptMessage("user", block)])

    with minimcp.connect(server) as client:
        found = client.call_tool("forward", raise_on_error=False)
        assert found.is_error and "malformed content block cannot be sent" in found.text
        with pytest.raises(minimcp.InternalError):
            client.get_prompt("ask")


def test_a_malformed_member_is_not_sent_on() -> None:
    wire = {"content": [GOOD], "isError": "no", "_meta": [1], "x-vendor": 1}
    with connected(tools__call=result(**wire)) as client:
        found = client.call_tool("t")
    server = minimcp.Server("proxy")
    server.add_tool(lambda: found, name="forward", description="x")
    with minimcp.connect(server) as client:
        sent = client.request("tools/call", {"name": "forward", "arguments": {}})
    assert sent["content"] == [GOOD] and sent["x-vendor"] == 1
    assert "isError" not in sent and sent.get("_meta") != [1]


# ------------------------------------------------------------ mutations of whole results


WHOLE: Dict[str, Any] = {
    "content": [GOOD, BLOCKS["image"], BLOCKS["resource text"], BLOCKS["resource_link"]],
    "structuredContent": {"a": [1, {"b": None}]},
    "isError": False,
    "_meta": {"com.example/x": 1},
}


def mutated(value: Any) -> Any:
    """This value with one part missing or of another type, in every place."""
    steps: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in list(steps):
        copies = [dict(value) if isinstance(value, dict) else list(value) for _ in range(7)]
        for copy, wrong in zip(copies, WRONG):
            copy[step] = wrong
            yield copy
        del copies[6][step]
        yield copies[6]
        if isinstance(inner, (dict, list)):
            for each in mutated(inner):
                copy = dict(value) if isinstance(value, dict) else list(value)
                copy[step] = each
                yield copy


@pytest.mark.parametrize("revision", REVISIONS)
def test_one_intact_part_of_a_result_is_enough(revision: str) -> None:
    wires = list(mutated(WHOLE))
    answers = iter(wires)
    with connected(
        revision,
        tools__call=lambda message: {"result": next(answers)},
        tools__list=result(tools=[]),
    ) as client:
        for wire in wires:
            found = client.call_tool("t", raise_on_error=False)
            if "structuredContent" in wire:
                assert found.structured_content == wire["structuredContent"]
            blocks = wire.get("content")
            for block in WHOLE["content"] if isinstance(blocks, list) else ():
                if block in blocks:
                    assert block in [each.to_wire() for each in found.content if each.type]
    assert len(wires) > 150


ICONS = [{"src": "https://a/b", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}]
RESULTS_OF: Dict[str, Any] = {
    # A result with every member, and the call that gets it.
    "tools/list": ({"tools": [{
        "name": "t", "title": "T", "description": "d", "icons": ICONS, "execution": {"taskSupport": "optional"},
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}},
        "outputSchema": {"type": "object"}, "annotations": {"title": "x", "readOnlyHint": True}, "_meta": {},
    }], "nextCursor": "2"}, lambda client: client.list_tools()),
    "tools/call": (WHOLE, lambda client: client.call_tool("t")),
    "resources/list": ({"resources": [{"uri": "a:b", "name": "n", "size": 5, "icons": ICONS}], "ttlMs": 5},
                       lambda client: client.list_resources()),
    "resources/templates/list": ({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "n"}]},
                                 lambda client: client.list_resource_templates()),
    "resources/read": ({"contents": [{"uri": "a:b", "text": "t"}, {"uri": "a:b", "blob": PIXEL}], "cacheScope": "public"},
                       lambda client: client.read_resource("a:b")),
    "prompts/list": ({"prompts": [{"name": "p", "arguments": [{"name": "a", "required": True}]}]},
                     lambda client: client.list_prompts()),
    "prompts/get": ({"description": "d", "messages": [{"role": "user", "content": GOOD}]},
                    lambda client: client.get_prompt("p")),
    "completion/complete": ({"completion": {"values": ["a"], "total": 1, "hasMore": False}},
                            lambda client: client.complete("a", "b", prompt="p")),
    "skills/list": ({"skills": [{**SKILL, "resources": [{"uri": SKILL["uri"], "digest": "sha256:" + "0" * 64, "size": 5}]}]},
                    lambda client: client.list_skills()),
    "tasks/list": ({"tasks": [{"taskId": "1", "status": "working", "ttl": 5, "pollInterval": 5, "statusMessage": "x"}]},
                   lambda client: client.list_tasks()),
}  # fmt: skip


@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize("method", RESULTS_OF)
def test_only_documented_errors_escape(revision: str, method: str) -> None:
    """A typed call returns or raises `McpError`, whatever value is anywhere in a result."""
    whole, call = RESULTS_OF[method]
    wires = [*WRONG, *mutated({**whole, "resultType": "complete"})]
    current: List[Any] = []
    with connected(revision, **{method: lambda message: {"result": current[-1]}}) as client:
        for wire in wires:
            current.append(wire)
            try:
                call(client)
            except minimcp.McpError:
                pass
    with connected(**{method: error(-32603)}) as client, pytest.raises(minimcp.McpError):
        call(client)
