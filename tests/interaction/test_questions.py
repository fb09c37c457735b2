"""Handlers that ask and hosts that answer, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp import Answer, CancelToken, Client, Refused

from ..answering import R1, R2, R4, R5, REVISIONS
from ..scripted import Task, wait_for
from ..support import WAIT, eventually
from .links import LINKS, served
from .questions_server import PAY


class Host:
    """Answers as a test says; what it was asked stays here."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Be friendly again, and asked nothing yet."""
        self.asked: List[Any] = []
        self.elicited: Callable[[Any], Any] = self.fill_in
        self.sampled: Callable[[Any], Any] = lambda request: f"short {request.text}"

    def fill_in(self, request: Any) -> Any:
        """What a friendly user does."""
        if request.mode == "url":
            return {}
        values = {"string": "ab", "integer": 3, "boolean": True, "array": ["x"]}
        fields = request.schema["properties"]
        chosen = {name: field.get("enum", [values[field["type"]]])[0] for name, field in fields.items()}
        return {**chosen, **{name: field["oneOf"][0]["const"] for name, field in fields.items() if "oneOf" in field}}

    def elicit(self, request: Any) -> Any:
        self.asked.append(request)
        return self.elicited(request)

    def sample(self, request: Any) -> Any:
        self.asked.append(request)
        return self.sampled(request)


class Link:
    """One way to a server: a transport and a revision, and the host at its other end."""

    def __init__(self, transport: str, revision: str) -> None:
        self.revision = revision
        self.host = Host()
        target = served(transport, "questions_server")
        options: Dict[str, Any] = {"handlers": self.host, "roots": ["file:///a/b", "/c"], "sampling": ("tools",)}
        self.client: Client = minimcp.connect(target, revision=revision, timeout=WAIT, **options)

    @property
    def has_forms(self) -> bool:
        return self.revision not in (R1, R2)

    @property
    def has_urls(self) -> bool:
        return self.revision in (R4, R5)

    def call(self, name: str, **arguments: Any) -> Any:
        """What a tool says, or what went wrong."""
        try:
            return self.client.call_tool(name, arguments).text
        except (minimcp.ToolError, minimcp.CapabilityNotSupported) as error:
            return type(error)
        except Refused as refused:
            return f"refused: {refused.reason}"


def the_same_answers_give_the_same_results(link: Link) -> None:
    lacking = minimcp.CapabilityNotSupported if link.revision == R5 else minimcp.ToolError
    forms = {
        "book": "Oslo on ab for 3", "decide": "accept {'sure': True} True", "pick": '{"size":"s","pattern":"ab"}',
    }
    for name, said in forms.items():
        arguments = {"city": "Oslo"} if name == "book" else {}
        assert link.call(name, **arguments) == (said if link.has_forms else lacking)
    assert link.call("summarise", text="x") == "short Sum up: x (unknown, endTurn, 1)"
    assert link.call("look") == "None=/a/b, None=/c"
    assert link.call("pay") == ("accept" if link.has_urls else lacking)
    whole = '{"name":{"name":"ab"},"poem":"short A poem","roots":["file:///a/b","file:///c"],"url":"accept"}'
    assert link.call("everything") == (whole if link.has_urls else lacking)
    assert link.call("careful") == "short hi"
    assert {request.server.name for request in link.host.asked} == {"questions"}


def what_the_user_does_reaches_the_handler(link: Link) -> None:
    if not link.has_forms:
        return
    for returned, said in ((None, "decline None False"), (Answer("cancel"), "cancel None False")):
        link.host.elicited = lambda request, returned=returned: returned  # type: ignore[misc]
        assert link.call("decide") == said
    link.host.elicited = lambda request: {"sure": "maybe"}
    outcome = link.call("decide")
    assert "failed" in outcome if link.revision == R5 else outcome is minimcp.ToolError


def a_refusal_reaches_who_can_know_of_it(link: Link) -> None:
    def refuse(request: Any) -> Any:
        raise Refused("not today")

    link.host.sampled = refuse
    assert link.call("careful") == "refused: not today"


def a_url_is_opened_by_the_host(link: Link) -> None:
    if link.has_urls:
        link.call("pay")
        (request,) = link.host.asked
        assert (request.mode, request.url, request.host, request.schema) == ("url", PAY, "pay.example", None)
        assert request.elicitation_id == ("pay-1" if link.revision == R4 else None)


def a_call_is_cancelled_while_its_user_thinks(link: Link) -> None:
    if not link.has_forms:
        return
    begun, gate, token = threading.Event(), threading.Event(), CancelToken()

    def slow(request: Any) -> Any:
        begun.set()
        wait_for(gate)
        return {"sure": True}

    link.host.elicited = slow
    task = Task(lambda: link.client.call_tool("decide", {}, cancel=token))
    wait_for(begun)
    token.cancel()
    with pytest.raises(minimcp.Cancelled):
        task.result()
    assert eventually(lambda: link.host.asked[0].cancelled), "the host may take its dialogue away"
    gate.set()
    link.host.elicited = link.host.fill_in
    assert link.call("decide") == "accept {'sure': True} True"


def many_at_once_do_not_mix(link: Link) -> None:
    calls: List[Any] = [("summarise", {"text": str(number)}) for number in range(40)]
    found = [each.text for each in link.client.call_tools(calls)]
    assert found == [f"short Sum up: {number} (unknown, endTurn, 1)" for number in range(40)]


VISITS = (
    the_same_answers_give_the_same_results,
    what_the_user_does_reaches_the_handler,
    a_refusal_reaches_who_can_know_of_it,
    a_url_is_opened_by_the_host,
    a_call_is_cancelled_while_its_user_thinks,
    many_at_once_do_not_mix,
)


@pytest.mark.parametrize("transport, revision", LINKS)
def test_a_visit(transport: str, revision: str) -> None:
    """All of the above over one connection: a process takes long to start."""
    link = Link(transport, revision)
    with link.client:
        for visit in VISITS:
            link.host.forget()
            visit(link)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_conversation_with_a_model_may_be_dicts_in_their_form_on_the_wire(revision: str) -> None:
    said = {"role": "assistant", "content": {"type": "text", "text": "ho"}}
    given: List[Any] = [said, [said], ["hi", said, minimcp.SamplingMessage("user", "hey")], {**said, "content": "ho"}]
    server, asked = minimcp.Server("talker"), []

    @server.tool
    def talk(number: int, ctx: minimcp.Context) -> str:
        """Talk."""
        return ctx.sample(given[number]).text

    def sample(request: Any) -> str:
        asked.append([(message.role, message.text) for message in request.messages])
        return "fine"

    with minimcp.connect(server, revision=revision, sample=sample) as client:
        assert [client.call_tool("talk", {"number": number}).text for number in range(3)] == ["fine"] * 3
        refused = client.call_tool("talk", {"number": 3}, raise_on_error=False)
    assert asked == [[("assistant", "ho")]] * 2 + [[("user", "hi"), ("assistant", "ho"), ("user", "hey")]]
    assert refused.is_error and "SamplingMessage: content must be content blocks, not a string" in refused.text
