"""A second `initialize` in a session: what bridges send that open one session for several clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minimcp import Context, HttpRequest, Server


def make() -> Server:
    server = Server("bridged")

    @server.tool
    def about(ctx: Context) -> str:
        """Say what is known of the session."""
        assert ctx.session is not None
        ctx.session["calls"] = ctx.session.get("calls", 0) + 1
        return f"{ctx.revision} {ctx.client.supports('sampling')} {ctx.session['calls']}"

    return server


def post(server: Server, session: str, method: str, **params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
    headers = {"Host": "localhost", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if session:
        headers.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"})
    response = server.handle_http(HttpRequest("POST", "/mcp", headers, json.dumps(message).encode()))
    found = {name.lower(): value for name, value in response.headers}.get("mcp-session-id", session)
    assert response.status == 200
    return json.loads(response.body)["result"], found


def hello(version: str, **capabilities: Any) -> Any:
    info = {"name": "x", "version": "1"}
    return {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}


@pytest.mark.requirement("LIFE-31")
def test_over_http_it_opens_the_session_anew() -> None:
    server = make()
    try:
        result, session = post(server, "", "initialize", **hello("2025-11-25"))
        for calls in (1, 2):
            result, _ = post(server, session, "tools/call", name="about")
            assert result["content"][0]["text"] == f"2025-11-25 False {calls}"
        result, same = post(server, session, "initialize", **hello("2025-06-18", sampling={}))
        assert (result["protocolVersion"], same) == ("2025-06-18", session)
        result, _ = post(server, session, "tools/call", name="about")
        assert result["content"][0]["text"] == "2025-06-18 True 1"
    finally:
        server.close()
