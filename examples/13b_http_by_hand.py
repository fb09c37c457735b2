"""Over HTTP each message is a POST, and a response can be a stream of events.

You will see one call in both eras as it is on the wire: status and type of each response, and the
events in it.

`requests` sends, and `sseclient-py` reads the streams (``pip install sseclient-py``); minimcp is
only the server. A response is JSON, or a stream of events (SSE) if other messages come before the
result, such as progress. In the older era `initialize` opens a session, which every later request
names in a header. In the newer era each request has all facts in `_meta`, and the headers
`Mcp-Method` and `Mcp-Name` repeat the method and the name, which the server checks. So a proxy does
not need to read the body.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports (Streamable HTTP)
"""

from __future__ import annotations

from typing import Any

import requests
import sseclient

import minimcp
from minimcp import Context

server = minimcp.Server("forge")
ABOUT = "io.modelcontextprotocol/"
TAKES = {"Accept": "application/json, text/event-stream"}
CALL: dict[str, Any] = {
    "name": "forge",
    "arguments": {"what": "nail"},
    "_meta": {"progressToken": 1},
}


@server.tool
def forge(what: str, ctx: Context) -> str:
    """Forge an item."""
    ctx.progress(1, 2, "the iron is hot")
    return f"one {what}"


def post(url: str, message: dict[str, Any], headers: dict[str, str]) -> requests.Response:
    """Send one message, and print the response."""
    with requests.post(
        url, json={"jsonrpc": "2.0", **message}, headers={**TAKES, **headers}, stream=True
    ) as response:
        kind = response.headers.get("Content-Type")
        print(f"POST {message['method']}: {response.status_code} {kind}")
        if kind == "text/event-stream":
            for event in sseclient.SSEClient(response).events():  # each one as soon as it arrives
                print("  event:", event.data or "no message, only an id to resume after")
        elif kind:
            print(" ", response.text.strip())
        return response


def newer(url: str) -> None:
    """Make the call in 2026-07-28: with one request."""
    about = {ABOUT + "protocolVersion": "2026-07-28", ABOUT + "clientCapabilities": {}}
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "forge",
    }
    params = {**CALL, "_meta": {**CALL["_meta"], **about}}
    post(url, {"id": 1, "method": "tools/call", "params": params}, headers)


def older(url: str) -> None:
    """Make the call up to 2025-11-25: handshake, call in the session, end of the session."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "hand", "version": "0"},
    }
    opened = post(url, {"id": 1, "method": "initialize", "params": hello}, {})
    named = {
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
    }
    post(url, {"method": "notifications/initialized"}, named)
    post(url, {"id": 2, "method": "tools/call", "params": CALL}, named)
    print("DELETE:", requests.delete(url, headers=named).status_code)
    post(url, {"id": 3, "method": "tools/call", "params": CALL}, named)  # the session has ended


if __name__ == "__main__":
    with server.start_http(port=0) as running:
        newer(running.url)
        older(running.url)
    server.close()

# Exercise: write `names(url: str) -> list[str]`, which returns the names of the tools of any server,
# with tools/list in 2026-07-28. Check it with  python3 examples/check.py 13b
