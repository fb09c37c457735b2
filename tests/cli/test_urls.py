"""Commands on URLs."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from minimcp.http import recognition

from ..web import DISCOVERED, DONE, Peer
from .conftest import Done

TOOLS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [
    {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]}
READ = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": [{"uri": "a://b", "text": "read"}]}
MESSAGES = {"resultType": "complete", "messages": [{"role": "user", "content": {"type": "text", "text": "asked"}}]}
PROMPTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "prompts": [{"name": "greet"}]}

SAID: Any = {
    "server/discover": lambda heard, wire: wire.result(
        {**DISCOVERED, "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
    ),
    "tools/list": lambda heard, wire: wire.result(TOOLS),
    "tools/call": lambda heard, wire: wire.result(DONE),
    "resources/list": lambda heard, wire: wire.result({**READ, "resources": []}),
    "resources/templates/list": lambda heard, wire: wire.result({**READ, "resourceTemplates": []}),
    "resources/read": lambda heard, wire: wire.result(READ),
    "prompts/list": lambda heard, wire: wire.result(PROMPTS),
    "prompts/get": lambda heard, wire: wire.result(MESSAGES),
}


@pytest.mark.parametrize(("command", "more", "printed"), [
    ("call", ["echo", "text=x"], "done"), ("read", ["a://b"], "read"), ("prompt", ["greet"], "asked"),
    ("ping", [], "revision 2026-07-28"), ("list", [], "echo([text: string])"),
])
def test_each_command(command: str, more: Any, printed: str, minimcp: Callable[..., Done]) -> None:
    recognition._known.clear()
    with Peer(SAID) as peer:
        done = minimcp(command, peer.url, *more)
        assert done.code == 0 and printed in done.out, done


def test_nobody_is_there(minimcp: Callable[..., Done]) -> None:
    with Peer() as peer:
        url = peer.url
    done = minimcp("ping", url)
    assert done.code == 3 and "no connection" in done.err and done.err.count("\n") == 1
