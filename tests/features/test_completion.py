"""The feature of completion: when it is offered, and what is declared; the rest stands in tests/interaction."""

from __future__ import annotations

from typing import Any

from minimcp.protocol.versions import BY_NAME
from minimcp.server.completion import Completions
from minimcp.server.prompts import Prompts
from minimcp.server.resources import Resources

from ..answering import R1, R2, R5
from .support import exchange, facts, read


def plain(city: str) -> str:
    """Nothing completes it."""
    return city


def flagged(city: str, shout: bool = False) -> str:
    """A bool completes by itself."""
    return city


def test_it_is_offered_as_soon_as_anything_completes() -> None:
    of = facts()
    prompts, resources = Prompts(of), Resources(of)
    made = Completions(of, prompts, resources)
    prompts.add(plain)
    resources.add(plain, "a:{city}")
    assert not made.offered
    resources.add(flagged, "b:{city}{?shout}")
    assert made.offered
    resources.remove("b:{city}{?shout}")
    assert made.offered, "what was declared stays so"
    announced = Completions(of, Prompts(of), Resources(of))
    announced.offered = True
    assert announced.offered
    declared = [made.declared(BY_NAME[revision]) for revision in (R1, R2, R5)]
    assert declared == [None, {}, {}]


def test_a_result() -> None:
    of = facts()
    prompts = Prompts(of)
    made = Completions(of, prompts, Resources(of))
    prompts.add(flagged)
    params = {"ref": {"type": "ref/prompt", "name": "flagged"}, "argument": {"name": "shout", "value": "t"}}
    find: Any = made.routes()["completion/complete"]
    request = exchange("completion/complete", params, revision=R5)
    result = read(find(request.request).handle(request))
    assert result["completion"] == {"values": ["true"], "total": 1, "hasMore": False}
    assert result["resultType"] == "complete" and "ttlMs" not in result
