"""Prompts and resources that ask, alone and called by a tool."""

from __future__ import annotations

from typing import Any, Dict, Iterator

import pytest

from minimcp import Context, Server

from ..answering import REVISIONS
from .raw_client import RawClient


def build(**options: Any) -> Server:
    server = Server("carriers", **options)

    @server.prompt
    def greet(ctx: Context, tone: str = "kind") -> str:
        """Greet whoever the client's user says."""
        return f"{tone}: {ctx.sample('who?', key='who').text}"

    @server.resource("note://{name}")
    def note(name: str, ctx: Context) -> str:
        """A note that the model writes."""
        return f"{name}={ctx.sample(f'a note on {name}').text} {ctx.list_roots(key='roots')[0].uri}"

    @server.resource("fixed://one")
    def fixed(ctx: Context) -> str:
        """A resource of one URI."""
        return ctx.sample("one").text

    @server.prompt(complete={"city": lambda value, arguments: [value]})
    def trip(city: str) -> str:
        """Completes by itself."""
        return city

    return server


def said(question: Dict[str, Any]) -> Dict[str, Any]:
    text = question["params"]["messages"][0]["content"]["text"]
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": f"<{text}>"}}


REPLIES: Dict[str, Any] = {
    "sampling/createMessage": said, "roots/list": {"roots": [{"uri": "file:///r"}]},
    "elicitation/create": {"action": "accept"},
}


@pytest.fixture(params=[(revision, check) for revision in REVISIONS for check in (False, True)], ids=str)
def client(request: pytest.FixtureRequest) -> Iterator[RawClient]:
    revision, check = request.param
    server = build(check_replay=check)
    with RawClient(server, revision, REPLIES) as opened:
        yield opened
    server.close()


@pytest.mark.requirement("M:MRTR-S15", "M:PRM-6")
def test_prompts_and_resources_ask_too(client: RawClient) -> None:
    result = client.result("prompts/get", name="greet", arguments={"tone": "dry"})
    assert result["messages"][0]["content"]["text"] == "dry: <who?>"
    assert client.result("resources/read", uri="note://x")["contents"][0]["text"] == "x=<a note on x> file:///r"
    assert client.result("resources/read", uri="fixed://one")["contents"][0]["text"] == "<one>"
    assert [question["method"] for question in client.asked] == [
        "sampling/createMessage", "sampling/createMessage", "roots/list", "sampling/createMessage",
    ]


@pytest.mark.requirement("M:CMP-6", "M:MRTR-S1")
def test_completions_are_no_place_for_questions(client: RawClient) -> None:
    result = client.result(
        "completion/complete", ref={"type": "ref/prompt", "name": "trip"}, argument={"name": "city", "value": "Os"},
        inputResponses=None, requestState="forged",
    )
    assert result["completion"]["values"] == ["Os"] and result.get("resultType", "complete") == "complete"
    assert client.asked == []
