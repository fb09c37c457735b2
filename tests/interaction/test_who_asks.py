"""Two users of one server over HTTP: the access that middleware grants to each, and the caches that
clients keep apart."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterator, List

import pytest

import minimcp
from minimcp import Completion, Context, Refused, Server
from minimcp.testing import Transcript

from ..inside import forget_servers
from ..support import WAIT

REVISIONS = ["2026-07-28", "handshake"]

ANN, BOB = "ann's", "bob's"
"""Accepts bearer tokens; only Ann has every permission."""


@pytest.fixture
def asked() -> "Counter[str]":
    """Count the requests by method."""
    return Counter()


@pytest.fixture
def url(asked: "Counter[str]") -> Iterator[str]:
    forget_servers()
    server = Server("both", version="1", list_ttl=3600)

    @server.middleware
    def guard(ctx: Context, call_next: Callable[[], Any]) -> Any:
        """Count requests, limit their rate, and allow only Ann to read secrets."""
        asked[ctx.method] += 1
        is_ann = ctx.headers.get("Authorization") == f"Bearer {ANN}"
        reference = ctx.params.get("ref") or ctx.params
        if asked[ctx.method] > 3:
            raise Refused("too many")
        if "secret" in (reference.get("name"), reference.get("uri")) and not is_ann:
            return Completion([]) if ctx.method == "completion/complete" else _refuse()
        return call_next()

    @server.tool
    def secret(number: int) -> int:
        """Do what not everybody may."""
        asked["ran"] += 1
        return number

    @server.prompt(name="secret", complete={"word": ["alpha", "beta"]})
    def hidden(word: str) -> str:
        """Return data that only some users may read."""
        return word

    with server.start_http(port=0) as running:
        yield running.url
    server.close()


def _refuse() -> Any:
    raise minimcp.InvalidParams("this is not for you")


def connect(url: str, revision: str, token: str, **options: Any) -> minimcp.Client:
    return minimcp.connect(
        url, revision=revision, auth=token, timeout=WAIT, connect_timeout=WAIT, **options
    )


@pytest.mark.requirement("COMP-11", "M:CMP-8")
@pytest.mark.parametrize("revision", REVISIONS)
def test_completions_are_checked_guarded_and_limited_by_middleware(url: str, revision: str) -> None:
    def complete(client: minimcp.Client, value: Any) -> List[str]:
        return list(client.complete("word", value, prompt="secret").values)

    with connect(url, revision, ANN) as ann, connect(url, revision, BOB) as bob:
        assert complete(ann, "a") == ["alpha"] and complete(bob, "a") == []
        with pytest.raises(minimcp.InvalidParams):
            reference = {"type": "ref/prompt", "name": "secret"}
            ann.request("completion/complete", {"ref": reference, "argument": {"name": 5}})
        assert complete(ann, "") == ["alpha", "beta"]
        with pytest.raises(minimcp.RpcError):
            complete(ann, "")


@pytest.mark.parametrize("revision", REVISIONS)
def test_calls_are_checked_guarded_and_limited_by_middleware(
    url: str, revision: str, asked: "Counter[str]"
) -> None:
    with connect(url, revision, ANN) as ann, connect(url, revision, BOB) as bob:
        assert ann.call_tool("secret", {"number": 5}).value == 5
        with pytest.raises(minimcp.InvalidParams, match="not for you"):
            bob.call_tool("secret", {"number": 5})
        with pytest.raises(minimcp.ToolError, match="number"):
            ann.call_tool("secret", {"number": "five"})
        with pytest.raises(minimcp.ToolError, match="too many"):
            ann.call_tool("secret", {"number": 5})
    assert asked["ran"] == 1


def test_cached_results_of_one_user_are_not_returned_to_another(url: str) -> None:
    heard: List[Transcript] = []
    for token in (ANN, BOB, ANN):
        heard.append(Transcript())
        with connect(url, "2026-07-28", token, trace=heard[-1]) as client:
            for _ in range(2):
                assert [tool.name for tool in client.list_tools()] == ["secret"]
    lists = [[entry for entry in each if entry.names == ("tools/list",)] for each in heard]
    assert [len(each) for each in lists] == [1, 1, 1]  # fresh for an hour, for one client
