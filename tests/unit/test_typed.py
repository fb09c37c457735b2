"""The typed calls with answers that only a script can give, and the requests that they send."""

from __future__ import annotations

from typing import Any

import pytest

import minimcp
from minimcp import CapabilityNotSupported, Completion, ProtocolViolation, Text, ToolError
from minimcp.types import UnknownContent

from ..answering import R1, R3, R4, R5, Answering, discovered, error, initialized, result
from ..scripted import notice

ALL = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}


def scripted(revision: str = R4, **answers: Any) -> Any:
    """A client of a script; ``__`` in a name stands for the slash."""
    begin = {"initialize": initialized(revision, **ALL), "server/discover": discovered()}
    if revision == R5:
        begin["server/discover"] = result(supportedVersions=[R5], capabilities=ALL)
    server = Answering(
        {**begin, **{name.replace("__", "/"): answer for name, answer in answers.items()}}
    )
    return server, minimcp.connect(server, revision=revision)


def sent(server: Any) -> Any:
    params = dict(server.pipe.messages[-1]["params"])
    params.pop("_meta", None)
    return params


@pytest.mark.requirement("RES-03", "SEED-12", "SEED-28", "BASE-16", "RES-10")
def test_lists() -> None:
    resources = [
        result(resources=[{"uri": "a:b", "name": "n", "new": 1}], nextCursor=""),
        result(
            resources=[
                {
                    "uri": "db://users/{userId}",
                    "name": "u",
                    "icons": [{"src": "x:y", "sizes": "1x1 2x2"}],
                }
            ]
        ),
    ]
    server, client = scripted(
        resources__list=resources,
        resources__templates__list=result(
            resourceTemplates=[{"uriTemplate": "a:{b}", "name": "n"}]
        ),
        prompts__list=result(prompts=[{"name": "p", "arguments": [{"name": "a"}]}]),
    )
    with client:
        first, second = client.list_resources()
        assert (first.uri, first.extra, second.uri) == ("a:b", {"new": 1}, "db://users/{userId}")
        assert second.icons[0].sizes == ["1x1", "2x2"]
        assert [each.uri_template for each in client.list_resource_templates()] == ["a:{b}"]
        assert client.list_prompts()[0].arguments[0].required is False
    server, client = scripted(
        resources__list=result(resources=[{"uri": "a:b"}]),
        prompts__list=result(prompts=[5]),
        resources__templates__list=result(resources=[]),
    )
    with client:  # malformed items are left out: tests/unit/test_tolerance.py
        for ask in (client.list_resources, client.list_resource_templates, client.list_prompts):
            assert ask() == []
    server, client = scripted(resources__list=result(resources={"uri": "a:b"}))
    with client, pytest.raises(ProtocolViolation, match="a result of"):
        client.list_resources()


@pytest.mark.requirement("RES-23", "SEED-25", "SEED-11")
def test_reading_and_getting() -> None:
    odd = "A:%7e%c3%A9/../?b#c d"
    server, client = scripted(
        resources__read=[
            result(contents=[{"uri": odd, "text": "t"}], other=1),
            result(contents=[{"uri": "a:b"}]),
        ],
        prompts__get=[
            result(messages=[{"role": "assistant", "content": {"type": "resource", "uri": "a:b"}}]),
            result(messages=[{"role": "system", "content": {"type": "text", "text": "t"}}]),
            result(messages=[{"role": "user", "content": [{"type": "text", "text": "t"}]}]),
        ],
    )
    with client:
        read = client.read_resource(odd)
        assert (read.text, read.contents[0].mime_type, read.extra) == ("t", None, {"other": 1})
        assert sent(server) == {"uri": odd}, "as it was given"
        assert client.read_resource("a:b").extra == {"contents": [{"uri": "a:b"}]}
        got = client.get_prompt("p", {"a": "x", "b": 5, "c": True, "d": 2.5, "e": 1e30})
        assert sent(server) == {
            "name": "p",
            "arguments": {"a": "x", "b": "5", "c": "true", "d": "2.5", "e": "1e+30"},
        }
        assert got.messages[0].content == minimcp.ResourceLink("a:b", "a:b")
        assert client.get_prompt("p").messages == []
        block = {"type": "text", "text": "t"}
        assert client.get_prompt("p").messages[0].content == UnknownContent.keep([block])
        assert sent(server) == {"name": "p"}


@pytest.mark.requirement("COMP-02", "COMP-03", "COMP-04", "COMP-10", "COMP-12")
def test_completing() -> None:
    for revision in (R1, R3, R5):
        server, client = scripted(
            revision, completion__complete=result(completion={"values": ["a"]})
        )
        with client:
            assert client.complete("city", "O", prompt="p", arguments={"x": 5}) == Completion(["a"])
            context = {} if revision == R1 else {"context": {"arguments": {"x": "5"}}}
            argument = {"name": "city", "value": "O"}
            assert sent(server) == {
                "ref": {"type": "ref/prompt", "name": "p"},
                "argument": argument,
                **context,
            }
            client.complete("city", "O", template="a:{b}")
            assert sent(server) == {
                "ref": {"type": "ref/resource", "uri": "a:{b}"},
                "argument": argument,
            }
    server, client = scripted(completion__complete=result(completion={"values": "a"}))
    with client:
        assert client.complete("a", "b", prompt="p").extra == {"values": "a"}
    bare = Answering({"initialize": initialized(R1), "completion/complete": error(-32601)})
    with minimcp.connect(bare, revision=R1) as old, pytest.raises(CapabilityNotSupported):
        old.complete("a", "b", prompt="p")
    assert bare.pipe.methods()[-1] == "completion/complete", "nobody could know beforehand"


@pytest.mark.requirement("LIFE-13")
def test_calls_that_fail_before_anything_is_sent() -> None:
    server, client = scripted()
    with client:
        before = len(server.pipe.messages)
        wrong: Any = (
            lambda: client.read_resource(5),
            lambda: client.read_resource(None),
            lambda: client.get_prompt(5),
            lambda: client.get_prompt("p", {"a": ["x"]}),
            lambda: client.get_prompt("p", {"a": b"x"}),
            lambda: client.complete("a", "b"),
            lambda: client.complete("a", "b", prompt="p", template="t"),
            lambda: client.complete("a", 5, prompt="p"),
            lambda: client.complete(5, "b", prompt="p"),
            lambda: client.complete("a", "b", prompt=5),
            lambda: client.complete("a", "b", template=5),
            lambda: client.complete("a", "b", prompt="p", arguments={"x": None}),
        )
        for ask in wrong:
            with pytest.raises(TypeError):
                ask()
        with pytest.raises(ValueError):
            client.get_prompt("p", {"a": float("nan")})
        assert len(server.pipe.messages) == before
    with minimcp.connect(Answering(), revision=R4) as bare:
        for ask in (
            bare.list_resources,
            bare.list_resource_templates,
            lambda: bare.read_resource("a:b"),
            bare.list_prompts,
            lambda: bare.get_prompt("p"),
            lambda: bare.complete("a", "b", prompt="p"),
        ):
            with pytest.raises(CapabilityNotSupported):
                ask()


@pytest.mark.requirement("SEED-03")
def test_an_old_servers_code_for_a_tool_that_failed() -> None:
    server, client = scripted(R1, tools__call=error(-32003, "why"))
    with client:
        with pytest.raises(ToolError, match="why") as caught:
            client.call_tool("t")
        assert caught.value.result.text == "why"
        said = client.call_tool("t", raise_on_error=False)
        assert said.is_error and said.content == [Text("why")]
        (outcome,) = client.call_tools([("t", None)], return_exceptions=True)
        assert isinstance(outcome, ToolError)

    def fail(_: Any) -> None:
        raise ToolError("of the caller")

    def progress(message: Any) -> None:
        token = message["params"]["_meta"]["progressToken"]
        server.pipe.give(notice("notifications/progress", progressToken=token, progress=1))

    server, client = scripted(R1, tools__call=progress)
    with client, pytest.raises(ToolError, match="of the caller"):
        client.call_tool("t", on_progress=fail, raise_on_error=False)
