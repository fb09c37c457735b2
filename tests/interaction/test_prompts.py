"""Prompts as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import logging
from queue import SimpleQueue
from typing import Any, Dict

import pytest

import minimcp
from minimcp import CapabilityNotSupported, InternalError, InvalidParams, MethodNotFound, RpcError, Server

from ..answering import R2, R3, R4, R5
from ..support import WAIT
from .resources_server import PICTURE
from .shelf import Link, Open


def words(text: str, role: str = "user") -> Dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


@pytest.mark.requirement("PRM-01", "PRM-02", "PRM-03", "M:PRM-1", "SEED-24", "SEED-28")
def test_what_is_listed(shelf: Link) -> None:
    assert shelf.client.capabilities["prompts"] == {"listChanged": True}
    first, typed, *others = shelf.result("prompts/list")["prompts"]
    arguments = first.pop("arguments")
    assert arguments[:3] == [
        {"name": "city", "description": "Name of the city.", "required": True},
        {"name": "tone", "description": "How it sounds.", "required": False},
        {"name": "street", "required": False},
    ]
    wanted: Dict[str, Any] = {"name": "briefing", "description": "Brief somebody."}
    if shelf.since(R3):
        wanted.update({"title": "Briefing", "_meta": {"example.com/p": 1}})
    if shelf.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert first == wanted
    assert [each["name"] for each in typed["arguments"]] == ["count", "ratio", "tags"], "the context is none"
    listed = shelf.client.list_prompts()
    assert [each.name for each in listed[1:]] == ["typed"] + [each["name"] for each in others]
    assert listed[0].arguments and listed[0].arguments[0].required and others[0]["arguments"] == []
    assert ("ttlMs" in shelf.result("prompts/list")) is not shelf.handshake


@pytest.mark.requirement("PRM-05", "PRM-14", "PRM-16", "M:PRM-5", "M:PRM-8")
def test_arguments_become_what_the_function_wants(shelf: Link) -> None:
    for name, arguments, said in (
        ("briefing", {"city": "Oslo"}, "Oslo plain RED"),
        ("briefing", {"city": "Oslo", "tone": "formal", "shout": True, "colour": "green"}, "OSLO FORMAL GREEN"),
        ("briefing", {"city": "{city} {0} %s ${x} {{"}, "{city} {0} %s ${x} {{ plain RED"),
        ("briefing", {"city": ""}, " plain RED"),
        ("briefing", {"city": 5}, "5 plain RED"),
        ("typed", {"count": 3, "ratio": 2}, "3 2.0 None prompts/get"),
        ("typed", {"count": "-3", "ratio": "1e3", "tags": '["a", "5"]'}, "-3 1000.0 ['a', '5'] prompts/get"),
        ("typed", {"count": "3", "tags": ""}, "3 0.5 None prompts/get"),
    ):
        result = shelf.client.get_prompt(name, arguments)  # type: ignore[arg-type]
        assert [message.content.text for message in result.messages] == [said]  # type: ignore[union-attr]
    assert shelf.result("prompts/get", name="briefing", arguments={"city": "Oslo"}) == {
        "description": "Brief somebody.", "messages": [words("Oslo plain RED")],
    }


@pytest.mark.requirement("PRM-04", "PRM-11", "PRM-12", "PRM-14", "M:PRM-2", "M:PRM-3", "M:PRM-8", "SEED-04")
def test_arguments_that_do_not_fit(shelf: Link) -> None:
    for name, arguments, said in (
        ("briefing", None, "city"),
        ("briefing", {}, "city"),
        ("briefing", {"city": "Oslo", "tone": "loud"}, "tone"),
        ("briefing", {"city": "Oslo", "shout": "maybe"}, "shout"),
        ("briefing", {"city": "Oslo", "colour": "RED"}, "colour"),
        ("briefing", {"city": "Oslo", "citty": "x"}, "citty"),
        ("briefing", {"city": 5}, "city: expected a string, got the number 5"),
        ("briefing", {"city": None}, "city"),
        ("briefing", {"city": ["Oslo"]}, "city"),
        ("typed", {"count": "three"}, "count: expected an integer, got the string 'three'"),
        ("typed", {"count": "3.5"}, "count"),
        ("typed", {"count": " 3"}, "count"),
        ("typed", {"count": "03"}, "count"),
        ("typed", {"count": ""}, "count"),
        ("typed", {"count": "9" * 5000}, "count"),
        ("typed", {"count": "3", "tags": "a"}, "tags"),
        ("typed", {"count": "3", "tags": "[" * 100_000 + "]"}, "tags"),
        ("nope", {}, "Unknown prompt: nope"),
        ("a\nb", {}, r"Unknown prompt: a\\nb"),
        (None, {}, "name is a string"),
        ("briefing", "city=Oslo", "arguments is an object"),
        ("briefing", ["Oslo"], "arguments is an object"),
    ):
        params = {"name": name, **({} if arguments is None else {"arguments": arguments})}
        with pytest.raises(InvalidParams, match=said) as caught:
            shelf.client.request("prompts/get", params)
        assert caught.value.code == -32602


@pytest.mark.requirement("PRM-05", "PRM-06", "PRM-07", "PRM-08", "PRM-09", "M:PRM-4", "X-20")
def test_what_a_prompt_returns(shelf: Link) -> None:
    picture = {"type": "image", "data": "iVBORwD/", "mimeType": "image/png"}
    assert shelf.result("prompts/get", name="talk")["messages"] == [
        words("question"), words("answer", "assistant"), {"role": "user", "content": picture},
    ]
    assert shelf.client.get_prompt("talk").messages[2].content.data == PICTURE  # type: ignore[union-attr]
    blocks = [each["content"] for each in shelf.result("prompts/get", name="blocks")["messages"]]
    sound = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    in_a_resource = {"uri": "audio:inline", "mimeType": "audio/wav", "blob": "UklGRg=="}
    link_block = {"type": "resource_link", "uri": "notes://all", "name": "notes"}
    assert blocks == [
        sound if shelf.since(R2) else {"type": "resource", "resource": in_a_resource},
        link_block if shelf.since(R3) else {"type": "text", "text": "notes: notes://all"},
        {"type": "resource", "resource": {"uri": "notes://all", "mimeType": "text/plain", "text": "inside"}},
        {
            "type": "resource",
            "resource": {"uri": "bin://data", "mimeType": "application/octet-stream", "blob": "eA=="},
        },
    ]
    assert shelf.result("prompts/get", name="whole") == {
        "description": "described here", "messages": [words("all")], "_meta": {"example.com/g": 1},
    }


@pytest.mark.requirement("PRM-13", "M:PRM-2")
def test_what_goes_wrong(shelf: Link, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minimcp")
    for name in ("broken", "wrong"):
        with pytest.raises(InternalError, match=r"^Internal error \(reference [0-9a-f]{8}\)") as caught:
            shelf.client.get_prompt(name)
        assert "secret" not in str(caught.value)
    with pytest.raises(RpcError, match="seven") as own:
        shelf.client.get_prompt("own")
    assert own.value.code == 7
    with pytest.raises(CapabilityNotSupported, match="needs a client with sampling"):
        shelf.client.get_prompt("needs")


@pytest.mark.requirement("PRM-15", "M:PRM-8", "M:PAG-1")
def test_pages(shelf: Link, opened_shelf: Open) -> None:
    client = opened_shelf({"page_size": 2})
    assert len(client.request("prompts/list")["prompts"]) == 2
    assert client.list_prompts() == shelf.client.list_prompts()


@pytest.mark.requirement("PRM-10")
def test_a_change_is_told(shelf: Link, opened_shelf: Open) -> None:
    told: "SimpleQueue[None]" = SimpleQueue()
    client = opened_shelf(on_prompts_changed=lambda: told.put(None))
    client.call_tool("grow", {"kind": "prompt"})
    told.get(timeout=WAIT)
    assert client.get_prompt("added").messages[0].content.text == "added"  # type: ignore[union-attr]
    client.call_tool("shrink", {"kind": "prompt"})
    with pytest.raises(InvalidParams, match="Unknown prompt"):
        client.get_prompt("added")
    told.get(timeout=WAIT)


@pytest.mark.requirement("PRM-01", "SEED-21")
def test_a_server_without_prompts() -> None:
    for revision in (R4, R5):
        with minimcp.connect(Server("bare"), revision=revision) as client:
            for ask in (client.list_prompts, lambda: client.get_prompt("x")):
                with pytest.raises(CapabilityNotSupported):
                    ask()
            with pytest.raises(MethodNotFound):
                client.request("prompts/list")
        with minimcp.connect(Server("soon", capabilities=["prompts"]), revision=revision) as client:
            assert client.list_prompts() == []
