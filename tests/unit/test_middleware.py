"""Middleware around a handler: what it may return and raise, and which objects it may be. Its order
is tested in test_mounting.py."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

import pytest

import minimcp
from minimcp import (
    CallToolResult,
    Completion,
    Context,
    InvalidParams,
    ResourceNotFound,
    Server,
    ToolError,
)

from ..answering import R3, R5


class Layer:
    def __call__(self, ctx: Context, call_next: Callable[[], Any]) -> Any:
        return call_next()

    def method(self, ctx: Context, call_next: Callable[[], Any], *, more: int = 1) -> Any:
        return call_next()


def test_valid_and_invalid_middleware() -> None:
    def plain(ctx: Context, call_next: Callable[[], Any], more: int = 0) -> Any: ...

    @functools.wraps(plain)
    def wrapped(*arguments: Any, **keywords: Any) -> Any: ...

    async def waits(ctx: Context, call_next: Callable[[], Any]) -> Any: ...

    def yields(ctx: Context, call_next: Callable[[], Any]) -> Any:
        yield call_next()

    def one(ctx: Context) -> Any: ...

    def three(ctx: Context, call_next: Callable[[], Any], more: int) -> Any: ...

    def keyword(ctx: Context, call_next: Callable[[], Any], *, more: int) -> Any: ...

    server = Server("x")
    for function in (plain, wrapped, Layer(), Layer().method, Layer().__call__):
        assert server.middleware(function) is function
    for function, said in (
        (waits, "is async"),
        (yields, "is a generator"),
        (one, r"must take \(ctx, call_next\)$"),
        (three, "must take"),
        (keyword, "must take"),
        (print, "must be a Python function"),
        (functools.partial(plain), "must be a Python function"),
        (5, "must be a Python function"),
    ):
        with pytest.raises(TypeError, match=f"middleware.*{said}"):
            server.middleware(function)


def served() -> Server:
    """A server with one feature of each kind, and middleware that follows the call's ``_meta``."""
    server = Server("served", mask_errors=False)

    @server.middleware
    def layer(ctx: Context, call_next: Callable[[], Any]) -> Any:
        return SAYINGS[ctx.meta.get("example.com/do", "pass")](ctx, call_next)

    @server.tool
    def double(number: int) -> int:
        return 2 * number

    @server.prompt(complete={"word": ["one", "two"]})
    def brief(word: str) -> str:
        return word

    server.add_resource(lambda: "text", "a:b", name="fixed", description="Fixed.")
    server.add_resource(
        brief, "a:c/{word}", name="family", complete={"word": lambda value: ["three"]}
    )
    server.method("vendor/echo")(lambda params: {"got": params["x"]})
    return server


def caught(ctx: Context, call_next: Callable[[], Any]) -> Any:
    try:
        return call_next()
    except Exception as error:
        ctx.server.seen.append(error)
        raise


def noted(ctx: Context, call_next: Callable[[], Any]) -> Any:
    result = call_next()
    ctx.server.seen.append((ctx.method, result))
    return result


def raises(error: Exception) -> Callable[..., Any]:
    def layer(ctx: Context, call_next: Callable[[], Any]) -> Any:
        raise error

    return layer


SAYINGS: Dict[str, Callable[..., Any]] = {
    "pass": lambda ctx, call_next: call_next(),
    "own": lambda ctx, call_next: "own",
    "result": lambda ctx, call_next: CallToolResult([minimcp.Text("whole")]),
    "twice": lambda ctx, call_next: call_next() + call_next(),
    "empty": lambda ctx, call_next: {"empty": True},
    "list": lambda ctx, call_next: ["x", "y"],
    "completion": lambda ctx, call_next: Completion(["z"], 9, True),
    "number": lambda ctx, call_next: 5,
    "caught": caught,
    "noted": noted,
    "tool": raises(ToolError("told")),
    "params": raises(InvalidParams("not so")),
    "missing": raises(ResourceNotFound("nowhere")),
    "fault": raises(KeyError("secret")),
}

CALLS = {
    "tool": ("tools/call", {"name": "double", "arguments": {"number": 4}}),
    "prompt": ("prompts/get", {"name": "brief", "arguments": {"word": "w"}}),
    "fixed": ("resources/read", {"uri": "a:b"}),
    "family": ("resources/read", {"uri": "a:c/w"}),
    "completion": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "brief"},
            "argument": {"name": "word", "value": "t"},
        },
    ),
    "variable": (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "a:c/{word}"},
            "argument": {"name": "word", "value": "t"},
        },
    ),
    "method": ("vendor/echo", {"x": 1}),
}


def said(client: minimcp.Client, what: str, do: str, **change: Any) -> Any:
    """Return the essence of a call's result, or the code and the message of its error."""
    method, params = CALLS[what]
    try:
        result = client.request(method, {**params, **change, "_meta": {"example.com/do": do}})
    except minimcp.RpcError as error:
        return error.code, error.message
    if "content" in result:
        text = result["content"][0]["text"]
        return ["failed", text] if result.get("isError") else text
    if "messages" in result:
        return result["messages"][0]["content"]["text"]
    if "contents" in result:
        return result["contents"][0]["text"]
    return result.get("completion") or {
        key: each for key, each in result.items() if key in ("got", "empty")
    }


@pytest.mark.parametrize("revision", [R3, R5])
def test_it_can_replace_the_result_of_every_kind_of_handler(revision: str) -> None:
    server: Any = served()
    server.seen = []
    usual = {
        "tool": "8",
        "prompt": "w",
        "fixed": "text",
        "family": "w",
        "completion": {"values": ["two"], "total": 1, "hasMore": False},
        "variable": {"values": ["three"], "total": 1, "hasMore": False},
        "method": {"got": 1},
    }
    with minimcp.connect(server, revision=revision) as client:
        assert {what: said(client, what, "pass") for what in CALLS} == usual
        assert [said(client, what, "noted") for what in CALLS] == list(usual.values())
        values = [result for method, result in server.seen]
        assert values[:4] == [8, "w", "text", "w"] and values[6] == {"got": 1}, (
            "as the handlers returned it"
        )
        assert [each.values for each in values[4:6]] == [["two"], ["three"]]
        assert [method for method, result in server.seen] == [
            method for method, params in CALLS.values()
        ]
        assert [said(client, what, "own") for what in ("prompt", "fixed", "family")] == ["own"] * 3
        assert said(client, "tool", "own")[0] == "failed", (
            "it does not fit the tool's output schema"
        )
        assert said(client, "tool", "result") == "whole" and said(client, "tool", "twice") == "16"
        assert said(client, "method", "empty") == {"empty": True}
        assert said(client, "completion", "list")["values"] == ["x", "y"]
        assert said(client, "variable", "completion") == {
            "values": ["z"],
            "total": 9,
            "hasMore": True,
        }
        assert {what: said(client, what, "params") for what in CALLS} == dict.fromkeys(
            CALLS, (-32602, "not so")
        )
        assert said(client, "tool", "tool") == ["failed", "told"]
        assert said(client, "tool", "fault") == ["failed", "KeyError: 'secret'"]
        for what in set(CALLS) - {"tool"}:
            code, message = said(client, what, "fault")
            assert code == -32603 and "secret" not in message
        assert (
            said(client, "completion", "number")[0] == said(client, "method", "number")[0] == -32603
        )
        with pytest.raises(ResourceNotFound) as missing:
            client.request("resources/read", {"uri": "a:b", "_meta": {"example.com/do": "missing"}})
        assert missing.value.data == {"uri": "a:b"}, "as if the resource had raised it"
