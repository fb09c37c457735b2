"""Prompts as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import logging
from typing import Any, Dict

import pytest

from minimcp import CapabilityNotSupported, InternalError, InvalidParams, RpcError

from ..answering import R2, R3, R4
from .links import Link, Open, link_to
from .resources_server import PICTURE

link = link_to("resources_server")


def words(text: str, role: str = "user") -> Dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


@pytest.mark.requirement("PRM-01", "PRM-02", "PRM-03", "M:PRM-1", "SEED-24", "SEED-28")
def test_the_listed_prompts(link: Link) -> None:
    assert link.client.capabilities["prompts"] == {"listChanged": True}
    first, typed, *others = link.result("prompts/list")["prompts"]
    arguments = first.pop("arguments")
    assert arguments[:3] == [
        {"name": "city", "description": "Name of the city.", "required": True},
        {"name": "tone", "description": "The tone of the text.", "required": False},
        {"name": "street", "required": False},
    ]
    wanted: Dict[str, Any] = {"name": "briefing", "description": "Brief somebody."}
    if link.since(R3):
        wanted.update({"title": "Briefing", "_meta": {"example.com/p": 1}})
    if link.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert first == wanted
    assert [each["name"] for each in typed["arguments"]] == ["count", "ratio", "tags"], (
        "the context is none"
    )
    listed = link.client.list_prompts()
    assert [each.name for each in listed[1:]] == ["typed"] + [each["name"] for each in others]
    assert listed[0].arguments and listed[0].arguments[0].required and others[0]["arguments"] == []
    assert ("ttlMs" in link.result("prompts/list")) is not link.handshake


@pytest.mark.requirement("PRM-05", "PRM-14", "PRM-16", "M:PRM-5", "M:PRM-8")
def test_arguments_are_converted_to_the_parameter_types(link: Link) -> None:
    for name, arguments, said in (
        ("briefing", {"city": "Oslo"}, "Oslo plain RED"),
        (
            "briefing",
            {"city": "Oslo", "tone": "formal", "shout": True, "colour": "green"},
            "OSLO FORMAL GREEN",
        ),
        ("briefing", {"city": "{city} {0} %s ${x} {{"}, "{city} {0} %s ${x} {{ plain RED"),
        ("briefing", {"city": ""}, " plain RED"),
        ("briefing", {"city": 5}, "5 plain RED"),
        ("typed", {"count": 3, "ratio": 2}, "3 2.0 None prompts/get"),
        (
            "typed",
            {"count": "-3", "ratio": "1e3", "tags": '["a", "5"]'},
            "-3 1000.0 ['a', '5'] prompts/get",
        ),
    ):
        result = link.client.get_prompt(name, arguments)  # type: ignore[arg-type]
        assert [message.content.text for message in result.messages] == [said]  # type: ignore[union-attr]
    assert link.result("prompts/get", name="briefing", arguments={"city": "Oslo"}) == {
        "description": "Brief somebody.",
        "messages": [words("Oslo plain RED")],
    }


@pytest.mark.requirement(
    "PRM-04", "PRM-11", "PRM-12", "PRM-14", "M:PRM-2", "M:PRM-3", "M:PRM-8", "SEED-04"
)
def test_arguments_that_do_not_fit(link: Link) -> None:
    for name, arguments, said in (
        ("briefing", {}, "city"),
        ("briefing", {"city": "Oslo", "tone": "loud"}, "tone"),
        ("briefing", {"city": "Oslo", "shout": "maybe"}, "shout"),
        ("briefing", {"city": "Oslo", "citty": "x"}, "citty"),
        ("briefing", {"city": 5}, "city: expected a string, got the number 5"),
        ("typed", {"count": "three"}, "count: expected an integer, got the string 'three'"),
        ("typed", {"count": "03"}, "count"),
        ("typed", {"count": "9" * 5000}, "count"),
        ("typed", {"count": "3", "tags": "[" * 100_000 + "]"}, "tags"),
        ("nope", {}, "Unknown prompt: nope"),
        ("a\nb", {}, r"Unknown prompt: a\\nb"),
        (None, {}, "name must be a string"),
        ("briefing", "city=Oslo", "arguments must be an object"),
    ):
        params = {"name": name, **({} if arguments is None else {"arguments": arguments})}
        with pytest.raises(InvalidParams, match=said) as caught:
            link.client.request("prompts/get", params)
        assert caught.value.code == -32602


@pytest.mark.requirement("PRM-05", "PRM-06", "PRM-07", "PRM-08", "PRM-09", "M:PRM-4", "X-20")
def test_results_of_a_prompt(link: Link) -> None:
    picture = {"type": "image", "data": "iVBORwD/", "mimeType": "image/png"}
    assert link.result("prompts/get", name="talk")["messages"] == [
        words("question"),
        words("answer", "assistant"),
        {"role": "user", "content": picture},
    ]
    assert link.client.get_prompt("talk").messages[2].content.data == PICTURE  # type: ignore[union-attr]
    blocks = [each["content"] for each in link.result("prompts/get", name="blocks")["messages"]]
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    in_a_resource = {"uri": "audio:inline", "mimeType": "audio/wav", "blob": "UklGRg=="}
    link_block = {"type": "resource_link", "uri": "notes://all", "name": "notes"}
    assert blocks == [
        sound if link.since(R2) else {"type": "resource", "resource": in_a_resource},
        link_block if link.since(R3) else {"type": "text", "text": "notes: notes://all"},
        {
            "type": "resource",
            "resource": {"uri": "notes://all", "mimeType": "text/plain", "text": "inside"},
        },
        {
            "type": "resource",
            "resource": {
                "uri": "bin://data",
                "mimeType": "application/octet-stream",
                "blob": "eA==",
            },
        },
    ]
    assert link.result("prompts/get", name="whole") == {
        "description": "described here",
        "messages": [words("all")],
        "_meta": {"example.com/g": 1},
    }


@pytest.mark.requirement("PRM-13", "M:PRM-2")
def test_errors(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minimcp")
    for name in ("broken", "wrong"):
        with pytest.raises(
            InternalError, match=r"^Internal error \(reference [0-9a-f]{8}\)"
        ) as caught:
            link.client.get_prompt(name)
        assert "secret" not in str(caught.value)
    with pytest.raises(RpcError, match="seven") as own:
        link.client.get_prompt("own")
    assert own.value.code == 7
    with pytest.raises(CapabilityNotSupported, match="needs a client with sampling"):
        link.client.get_prompt("needs")


@pytest.mark.requirement("PRM-15", "M:PRM-8", "M:PAG-1")
def test_pages(link: Link, opened: Open) -> None:
    client = opened({"page_size": 2})
    assert len(client.request("prompts/list")["prompts"]) == 2
    assert client.list_prompts() == link.client.list_prompts()
