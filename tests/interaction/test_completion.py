"""Completion as its users see it, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import minimcp
from minimcp import (
    CapabilityNotSupported,
    Completion,
    InternalError,
    InvalidParams,
    RpcError,
    Server,
)

from ..answering import R2, R3
from .links import Link, link_to

WEATHER = "weather://{city}/{days}"

link = link_to("resources_server")


@pytest.mark.requirement("COMP-01", "COMP-12", "M:CMP-1", "SEED-21")
def test_the_declared_capability(link: Link) -> None:
    assert link.client.capabilities.get("completions") == ({} if link.since(R2) else None)

    def plain(city: str) -> str:
        """Nothing completes it."""
        return city

    bare = Server("bare")
    bare.add_prompt(plain)
    bare.add_resource_template(lambda_of, "x://{x}")
    with minimcp.connect(bare, revision=link.revision) as client:
        assert "completions" not in client.capabilities
        with pytest.raises(CapabilityNotSupported):
            client.complete("city", "", prompt="plain")
        with pytest.raises(RpcError) as caught:
            client.request("completion/complete", {})
        assert caught.value.code == -32601


def lambda_of(x: str) -> str:
    """A template that nothing completes."""
    return x


@pytest.mark.requirement("COMP-02", "COMP-03", "COMP-06", "COMP-10", "M:CMP-3")
def test_suggestions(link: Link) -> None:
    for argument, value, where, values in (
        ("city", "o", {"prompt": "briefing"}, ["Oslo", "Odense"]),
        ("city", "", {"prompt": "briefing"}, ["Oslo", "Odense", "Ålesund"]),
        ("city", "x", {"prompt": "briefing"}, []),
        ("tone", "", {"prompt": "briefing"}, ["plain", "formal"]),
        ("tone", "f", {"prompt": "briefing"}, ["formal"]),
        ("shout", "", {"prompt": "briefing"}, ["true", "false"]),
        ("colour", "g", {"prompt": "briefing"}, ["green"]),
        ("free", "x", {"prompt": "briefing"}, []),
        ("count", "1", {"prompt": "typed"}, []),
        ("city", "O", {"template": WEATHER}, ["Oslo", "Odense"]),
        ("city", "O", {"template": "weather://Oslo/3"}, ["Oslo", "Odense"]),
        ("days", "1", {"template": WEATHER}, []),
        ("colour", "", {"template": "db://rows{?limit,colour,deep}"}, ["red", "green"]),
        ("deep", "t", {"template": "db://rows{?limit,colour,deep}"}, ["true"]),
    ):
        found = link.client.complete(argument, value, **where)  # type: ignore[arg-type]
        assert found == Completion(values, len(values), False), (argument, where)
    assert link.client.complete("part", "x", prompt="briefing") == Completion(
        ["xa", "xb"], 900, True
    )
    ref = {"type": "ref/prompt", "name": "briefing", "title": "whatever"}
    asked = {"ref": ref, "argument": {"name": "tone", "value": "p"}}
    assert link.result("completion/complete", **asked) == {
        "completion": {"values": ["plain"], "total": 1, "hasMore": False}
    }


@pytest.mark.requirement("COMP-04", "COMP-05", "M:CMP-2", "M:CMP-4")
def test_the_arguments_chosen_already_and_at_most_a_hundred(link: Link) -> None:
    found = link.client.complete("street", "", prompt="briefing", arguments={"city": "Oslo"})
    city = "Oslo" if link.since(R3) else "nowhere"
    assert found == Completion([f"{city} {number}" for number in range(100)], 150, True)
    params = {
        "ref": {"type": "ref/prompt", "name": "briefing"},
        "argument": {"name": "street", "value": ""},
        "context": {"arguments": {"city": "Bergen"}},
    }
    assert link.result("completion/complete", **params)["completion"]["values"][0] == "Bergen 0", (
        "taken when it comes"
    )


@pytest.mark.requirement("COMP-07", "COMP-08", "M:CMP-5")
def test_errors(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minimcp")
    prompt = {"type": "ref/prompt", "name": "briefing"}
    city = {"name": "city", "value": ""}
    wrong: Any = (
        ({"type": "ref/prompt", "name": "nope"}, city, {}, "Unknown (prompt|resource): nope"),
        (
            {"type": "ref/resource", "uri": "nope://"},
            city,
            {},
            "Unknown (prompt|resource): nope://",
        ),
        ({"type": "ref/tool", "name": "read"}, city, {}, "type of ref"),
        (prompt, {"name": "nope", "value": ""}, {}, "Unknown argument: nope"),
        (prompt, {"name": "city", "value": 5}, {}, "value must be a string"),
        (prompt, city, {"context": 5}, "context must be an object"),
        (prompt, city, {"context": {"arguments": {"x": 5}}}, "an object of strings"),
    )
    for ref, argument, more, said in wrong:
        with pytest.raises(InvalidParams, match=said):
            link.client.request("completion/complete", {"ref": ref, "argument": argument, **more})
    for context in ({}, None, {"arguments": None}):
        params = {"ref": prompt, "argument": city, "context": context}
        assert link.result("completion/complete", **params)["completion"]["total"] == 3
    for name in ("broken", "wrong"):
        with pytest.raises(InternalError, match="reference") as caught:
            link.client.complete(name, "", prompt="briefing")
        assert "secret" not in str(caught.value)
    with pytest.raises(RpcError, match="nine") as own:
        link.client.complete("own", "", prompt="briefing")
    assert own.value.code == 9
