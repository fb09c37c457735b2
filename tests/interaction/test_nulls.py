"""Null in place of an optional member of a message, which counts as absent in every revision."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import pytest

import minimcp
from minimcp import Context, Server
from minimcp.extensions.tasks import Tasks
from minimcp.testing import ScriptedClient, ScriptedServer

from ..answering import R4, R5, REVISIONS
from ..support import WAIT
from ..wire.messages import CLIENT_KEY, LEVEL_KEY, hello, modern
from .raw_client import RawClient

# A request, and its optional members that are sent as null, each by its path.
REQUESTS: List[Tuple[str, Dict[str, Any], List[str]]] = [
    ("ping", {}, ["_meta", "_meta.progressToken"]),
    ("tools/list", {}, ["cursor", "_meta.progressToken", "_meta.traceparent"]),
    ("prompts/list", {}, ["cursor", "_meta"]),
    ("resources/list", {}, ["cursor", "_meta"]),
    ("resources/templates/list", {}, ["cursor", "_meta"]),
    ("tools/call", {"name": "add"}, ["arguments", "task", "inputResponses", "requestState", "_meta.progressToken"]),
    ("prompts/get", {"name": "hello"}, ["arguments", "inputResponses", "requestState", "_meta"]),
    ("resources/read", {"uri": "notes://all"}, ["inputResponses", "requestState", "_meta"]),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "hello", "title": None},
     "argument": {"name": "name", "value": "A"}}, ["context", "_meta"]),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "hello"},
     "argument": {"name": "name", "value": "A"}, "context": {}}, ["context.arguments"]),
    ("tasks/list", {}, ["cursor", "_meta"]),
    ("server/discover", {}, [f"_meta.{LEVEL_KEY}", f"_meta.{CLIENT_KEY}", "_meta.progressToken"]),
]  # fmt: skip


def served() -> Server:
    tasks = Tasks()
    tasks.lists_for_all = True
    server = Server("nulls", version="1", extensions=[tasks])

    @server.tool
    def add(a: int = 1, b: int = 2) -> int:
        """Add."""
        return a + b

    @server.prompt(complete={"name": ["Ada", "Bo"]})
    def hello(name: str = "Ada") -> str:
        """Greet."""
        return f"Hello {name}"

    @server.resource("notes://all", name="all")
    def notes() -> str:
        """Read."""
        return "none"

    return server


def with_null(params: Dict[str, Any], path: str) -> Dict[str, Any]:
    first, _, rest = path.partition(".")
    return {**params, first: with_null(params.get(first, {}), rest) if rest else None}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_member_of_a_request_that_is_null_counts_as_absent(revision: str) -> None:
    with RawClient(served(), revision, {}) as client:

        def answer(params: Any, method: str) -> Dict[str, Any]:
            client.ids += 1
            message = {"jsonrpc": "2.0", "id": client.ids, "method": method, "params": params}
            client.peer.send(message)
            found = client.answer(client.ids)
            return {name: value for name, value in found.items() if name != "id"}

        for method, params, paths in REQUESTS:
            whole = modern(params) if revision == R5 else params
            expected = answer(whole, method)
            for path in paths:
                if revision != R5 or path != "_meta":  # which that revision requires
                    assert answer(with_null(whole, path), method) == expected, (method, path)
            if revision != R5 and not params:
                assert answer(None, method) == expected, method


def test_notifications_and_the_first_request_may_have_nulls() -> None:
    entered: List[Any] = []

    def seen(ctx: Context) -> bool:
        """See."""
        entered.append(ctx.client.supports("elicitation.form"))
        return ctx.client.supports("roots")

    server = Server("nulls")
    server.add_tool(seen)
    opening = hello(R4, roots=None, experimental=None, elicitation={"form": None, "url": None})
    opening["clientInfo"].update(title=None, icons=None, websiteUrl=None)
    with ScriptedClient(server, timeout=WAIT) as peer:
        peer.send(
            {
                "jsonrpc": "2.0",
                "id": 0,
                "method": "initialize",
                "params": {**opening, "_meta": None},
            }
        )
        assert "result" in peer.expect()
        for params in (None, {"_meta": None}):
            peer.send({"jsonrpc": "2.0", "method": "notifications/initialized", "params": params})
        for method in ("cancelled", "progress", "roots/list_changed"):
            peer.send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": None})
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "seen"}})
        assert peer.expect()["result"]["structuredContent"] == {"result": False}
        assert entered == [True]


def test_a_stream_may_be_opened_with_nulls() -> None:
    server = served()
    nulls = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourceSubscriptions"))
    with ScriptedClient(server, timeout=WAIT) as peer:
        params = modern({"notifications": {**nulls, "resourcesListChanged": True}})
        peer.send({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params})
        assert peer.expect()["params"]["notifications"] == {"resourcesListChanged": True}


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_client_takes_questions_without_params(revision: str) -> None:
    """A server may ask for roots with ``params`` null, in a message and in a result."""
    answers: List[Dict[str, Any]] = []

    def script(peer: Any) -> None:
        call = peer.expect("tools/call")
        result: Dict[str, Any] = {"content": []}
        if revision == R4:
            peer.send({"jsonrpc": "2.0", "id": 7, "method": "roots/list", "params": None})
            answers.append(peer.expect()["result"])
        else:
            questions = {"a": {"method": "roots/list", "params": None}}
            asking = {
                "resultType": "input_required",
                "inputRequests": questions,
                "requestState": "x",
            }
            peer.send({"jsonrpc": "2.0", "id": call["id"], "result": asking})
            call = peer.expect("tools/call")
            answers.append(call["params"]["inputResponses"]["a"])
            result["resultType"] = "complete"
        peer.send({"jsonrpc": "2.0", "id": call["id"], "result": result})

    server = ScriptedServer(script)
    with minimcp.connect(server, revision=revision, roots=["file:///notes"]) as client:
        client.call_tool("t")
    assert [each["uri"] for each in answers[0]["roots"]] == ["file:///notes"]
