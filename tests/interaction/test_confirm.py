"""A yes or no from the user, and answers that must not be read as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

import pytest

from minimcp import Answer, CapabilityNotSupported, Context, Limits, Server, ToolError, connect
from minimcp.testing import context

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


@dataclass
class Deletion:
    table: str
    sure: bool = False


def shop(**options: Any) -> Server:
    server = Server("shop", **options)

    @server.tool
    def delete(ctx: Context) -> str:
        return "deleted" if ctx.confirm("Delete 3 rows?") else "kept"

    @server.tool
    def trap(ctx: Context) -> str:
        return "deleted" if ctx.elicit("Delete?", {"sure": bool}) else "kept"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("waiting", [16, 0])
@pytest.mark.parametrize(
    "answer, result",
    [({}, "deleted"), (Answer("accept"), "deleted"), (None, "kept"), (Answer("cancel"), "kept")],
)
def test_only_a_user_who_accepts_confirms(
    revision: str, waiting: int, answer: Any, result: str
) -> None:
    asked = []

    def elicit(request: Any) -> Any:
        asked.append((request.message, request.schema["properties"]))
        return answer

    server = shop(limits=Limits(waiting_handlers=waiting))
    with connect(server, revision=revision, elicit=elicit) as client:
        assert client.call_tool("delete").text == result
    assert asked == [("Delete 3 rows?", {})]


@pytest.mark.parametrize("revision", ["2024-11-05", *REVISIONS])
def test_without_anybody_to_ask_nothing_is_confirmed(revision: str) -> None:
    kind = CapabilityNotSupported if revision == REVISIONS[-1] else ToolError
    with connect(shop(), revision=revision) as client:
        with pytest.raises(kind, match="elicitation"):
            client.call_tool("delete")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_form_with_a_boolean_has_no_truth_value(revision: str) -> None:
    for answer in ({"sure": False}, {"sure": True}, None):
        with connect(shop(), revision=revision, elicit=lambda _, a=answer: a) as client:
            with pytest.raises(
                ToolError, match=r"write ctx\.confirm.*answer\.action == \"accept\""
            ):
                client.call_tool("trap")


@pytest.mark.parametrize(
    "form, is_refused",
    [
        ({"sure": bool}, True),
        ({"name": str, "sure": bool}, True),
        ({"sure": Optional[bool]}, True),
        (Deletion, True),
        ({"type": "object", "properties": {"sure": {"type": "boolean"}}}, True),
        ({"name": str}, False),
        ({}, False),
    ],
)
def test_which_answers_have_a_truth_value(form: Any, is_refused: bool) -> None:
    content = {"name": "Ada", "table": "rows", "sure": False}

    def asked(answer: Callable[[Any], Any]) -> Any:
        with context(answers={"elicit": answer}) as ctx:
            return ctx.elicit("Delete?", form)

    accepted = asked(lambda one: {key: content[key] for key in one.request.schema["properties"]})
    declined = asked(lambda _: None)
    assert (accepted.action, declined.action) == ("accept", "decline")
    for answer in (accepted, declined):
        if is_refused:
            with pytest.raises(TypeError, match="ctx.confirm"):
                bool(answer)
        else:
            assert bool(answer) is (answer is accepted)
    assert accepted.require() == accepted.content


def test_a_unit_test_answers_by_key() -> None:
    ctx = context(answers={"rows": {}, "all": None})
    assert ctx.confirm("Delete 3 rows?", key="rows") is True
    assert ctx.confirm("Delete everything?", key="all") is False
