"""The attributes and methods of Context in a handler, without a connection."""

from __future__ import annotations

from typing import Any, List

import pytest

from minimcp import Cancelled, Context, ResourceNotFound, testing
from minimcp.types import Implementation

from ..answering import R4, R5
from .requests import config, exchange, registry


def context(**options: Any) -> "tuple[Context, Any]":
    made = exchange(**options)
    return Context(made), made


def test_attributes_of_the_request() -> None:
    owner = object()
    ctx, made = context(
        params={"name": "x", "_meta": {"a": 1}},
        of=config(owner=owner),
        info={"name": "c", "version": "2"},
        capabilities={"sampling": {}},
    )
    assert (ctx.revision, ctx.request_id, ctx.method, ctx.server) == (R4, 1, "tools/call", owner)
    assert (
        ctx.params is made.request.params
        and ctx.meta == {"a": 1}
        and ctx.session == {}
        and ctx.headers == {}
    )
    assert ctx.client.info == Implementation("c", "2") and ctx.client.capabilities == {
        "sampling": {}
    }
    assert ctx.client.supports("sampling") and not ctx.client.supports("roots")
    assert repr(ctx) == "<Context of <IncomingRequest tools/call 1 queued>>" and "'c'" in repr(
        ctx.client
    )
    for meta in ({}, {"_meta": 5}):
        other, _ = context(params=meta, revision=R5)
        assert other.meta == {} and other.session is None and other.client.info is None


def test_reading_a_resource_of_the_same_server() -> None:
    seen: List[Any] = []

    def note(number: int, ctx: Context) -> str:
        seen.append(ctx)
        return f"note {number}"

    resources = registry()
    resources.add("resource", note, {}, "notes://{number}")
    of = resources.config
    ctx, made = context(of=of)
    result = ctx.read_resource("notes://5")
    assert (result.text, result.contents[0].uri) == ("note 5", "notes://5")
    assert seen[0] is not ctx and seen[0].request_id == ctx.request_id
    with pytest.raises(ResourceNotFound):
        ctx.read_resource("notes://five")
    wrong: Any
    for wrong in (lambda: ctx.read_resource(5), lambda: ctx.on_cancel(5), lambda: ctx.ask_all([])):  # type: ignore
        with pytest.raises(
            TypeError, match="can only concatenate|takes a function|must be a mapping"
        ):
            wrong()
    made.token.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        ctx.read_resource("notes://5")
    assert len(seen) == 1


def test_a_stream_is_closed_only_if_a_client_can_resume_it() -> None:
    ctx = testing.context()
    assert ctx.close_stream() is False
    ctx.cancel()
    with pytest.raises(Cancelled):
        ctx.close_stream()


def test_a_name_that_a_context_lacks() -> None:
    with pytest.raises(AttributeError, match=r"ctx has no 'zzz': see help\(minimcp.Context\)"):
        assert testing.context().zzz  # type: ignore[attr-defined]
