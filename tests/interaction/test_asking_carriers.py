"""Prompts and resources that ask, alone and called by a tool; and handlers that cannot ask."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import pytest

from minimcp import Context, Server, UrlElicitationRequired

from ..answering import R1, R3, R4, R5, REVISIONS
from .raw_client import RawClient

PAY = {"mode": "url", "message": "Pay", "url": "https://pay.example/1", "elicitationId": "e1"}


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

    @server.prompt
    def paid() -> str:
        """Refused until somebody pays."""
        raise UrlElicitationRequired("pay first", {"elicitations": [PAY]})

    @server.tool
    def gather(ctx: Context) -> List[str]:
        """Read notes, two of them the same, and ask between."""
        roots = ctx.list_roots(key="roots")
        texts = [ctx.read_resource(f"note://{name}").text or "" for name in ("a", "b", "a")]
        return [*texts, roots[0].uri, ctx.sample("end").text]

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


@pytest.mark.requirement("M:MRTR-S14")
def test_a_resource_that_asks_says_nothing_of_keeping(client: RawClient) -> None:
    if client.revision == R5:
        asked = client.once("resources/read", uri="fixed://one")["result"]
        assert set(asked) == {"resultType", "inputRequests", "requestState", "_meta"}
        message = client.once(
            "resources/read", uri="note://x", requestState=asked["requestState"], inputResponses={},
        )
        assert message["error"]["data"] == {"reason": "invalid_request_state"}


def test_a_tool_that_reads_resources_which_ask(client: RawClient) -> None:
    assert client.call("gather") == (
        '["a=<a note on a> file:///r","b=<a note on b> file:///r","a=<a note on a> file:///r","file:///r","<end>"]'
    )
    assert len(client.asked) == 8


@pytest.mark.requirement("M:ERR-4")
def test_a_prompt_that_wants_a_url_opened_first(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    message = client.whole("prompts/get", name="paid")
    assert message["error"]["code"] == (-32042 if client.revision == R4 else -32603)
    assert len(client.asked) == (8 if client.revision == R5 else 0)


def test_a_prompt_for_a_client_that_cannot_answer() -> None:
    for revision, code in ((R1, -32601), (R3, -32601), (R5, -32021)):
        server = build()
        with RawClient(server, revision, REPLIES, {}) as client:
            assert client.once("prompts/get", name="greet")["error"]["code"] == code
        server.close()


@pytest.mark.requirement("M:CMP-6", "M:MRTR-S1")
def test_completions_are_no_place_for_questions(client: RawClient) -> None:
    result = client.result(
        "completion/complete", ref={"type": "ref/prompt", "name": "trip"}, argument={"name": "city", "value": "Os"},
        inputResponses=None, requestState="forged",
    )
    assert result["completion"]["values"] == ["Os"] and result.get("resultType", "complete") == "complete"
    assert client.asked == []
