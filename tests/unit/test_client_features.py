"""Asking the client, as a handler sees it."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from minimcp import Context, ListRoots
from minimcp.server.input_rounds import asker_of

from ..answering import R3, R4, R5
from .requests import AnsweringSink, exchange, sent

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "ho"}}


def answer(request: Dict[str, Any]) -> Dict[str, Any]:
    if request["method"] == "elicitation/create":
        return {"action": "accept", "content": {"n": 1}}
    return SAID if request["method"] == "sampling/createMessage" else {"roots": [{"uri": "file:///a"}]}


def context(revision: str = R4, of: Any = Context) -> Any:
    made = exchange(params={"name": "t"}, revision=revision, capabilities=ALL, sink=AnsweringSink(answer))
    return of(made), made.sink


def test_a_handler_that_another_one_calls_has_keys_of_its_own() -> None:
    outer, outlet = context()
    first, second = (Context(outer._incoming, asker_of(outer._incoming).inner("inner")) for _ in range(2))
    for ctx in (outer, first, second):
        ctx.elicit("m", {"n": int}, key="k")
        assert list(ctx.ask_all({"l": ListRoots()})) == ["l"]
        ctx.step("s", int)
        ctx.list_roots()
    used: List[str] = sorted(outer._incoming.asker._used)
    assert used == [
        "inner#1/k", "inner#1/l", "inner#1/roots-2", "inner#2/k", "inner#2/l", "inner#2/roots-3", "k", "l", "roots-1"
    ]


@pytest.mark.requirement("ELIC-26", "ELIC-27", "M:ELI-11")
def test_a_url_that_is_done_is_told_to_the_client_that_was_asked() -> None:
    for revision, count in ((R3, 0), (R4, 1), (R5, 0)):
        ctx, _ = context(revision)
        ctx.complete_elicitation("e1")
        notices = sent(ctx._incoming)
        assert [each["method"] for each in notices] == ["notifications/elicitation/complete"] * count
        assert all(each["params"] == {"elicitationId": "e1"} for each in notices)
