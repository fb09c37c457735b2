"""A test of a server, as pytest runs it."""

from typing import List

from typing_extensions import assert_type

import minimcp
from minimcp import Context, Progress, Server, testing

server = Server("tested")


@server.tool
def count(n: int, ctx: Context) -> int:
    ctx.progress(n)
    return n


def test_in_memory() -> None:
    transcript = testing.Transcript()
    with minimcp.connect(server, trace=transcript) as client:
        assert client.call_tool("count", {"n": 3}).value == 3
    transcript.assert_flow("--> tools/call", "<-- result")


def test_alone() -> None:
    with testing.context(answers={"elicit": {"days": 7}}) as ctx:
        assert_type(count(3, ctx), int)
        assert_type(ctx.reports, List[Progress])
    count(3, "ctx")  # wrong: a Context
    testing.context(answer={})  # wrong: no such argument
