"""HTTP: one server at one URL for clients of every revision, and what a call looks like on the way.

Each message of a client is the body of a POST; the answer is the body of the response: JSON, or a stream of events if
something has to be said before the answer. In the older era a client shakes hands first and is given a session, which
every later request names. In the newer one each request says all that there is to know, and headers repeat the method
and the name, so that what stands before the server can see them without reading the body.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports (Streamable HTTP)
"""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

import minimcp
from minimcp import Context

server = minimcp.Server("forge")
ABOUT = "io.modelcontextprotocol/"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@server.tool
def forge(what: str, ctx: Context) -> str:
    """Forge something."""
    ctx.progress(1, 2, "the iron is hot")
    return f"one {what}"


def post(port: int, message: dict[str, Any], headers: dict[str, str]) -> str:
    """Send one message by hand, and print what comes back; the session that it names."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), {**JSON, **headers})
    response = connection.getresponse()
    print(f"{message['method']}: {response.status} {response.getheader('Content-Type')}")
    for line in response.read().decode().splitlines():
        if line.startswith(("data: {", "{")):
            print("  " + line)
    connection.close()
    return response.getheader("Mcp-Session-Id") or ""


def by_hand(port: int) -> None:
    """The same call in both eras."""
    call: dict[str, Any] = {"id": 2, "method": "tools/call", "params": {"name": "forge", "arguments": {"what": "nail"}}}
    about = {ABOUT + "protocolVersion": "2026-07-28", ABOUT + "clientCapabilities": {}}
    asked = {**call, "params": {**call["params"], "_meta": {**about, "progressToken": 1}}}
    post(port, asked, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "forge"})

    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "hand", "version": "0"}}
    session = post(port, {"id": 1, "method": "initialize", "params": hello}, {})
    named = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session}
    post(port, {"method": "notifications/initialized"}, named)
    post(port, call, named)
    post(port, call, {"MCP-Protocol-Version": "2025-11-25"})  # whose call is this?


def main() -> None:
    with server.start_http(port=0) as running:  # server.run("http") serves until Ctrl-C
        for revision in ("auto", "2025-11-25"):
            with minimcp.connect(running.url, revision=revision) as client:
                reports: list[minimcp.Progress] = []
                result = client.call_tool("forge", {"what": "nail"}, on_progress=reports.append)
                print(client.revision, [report.message for report in reports], result.text)
        by_hand(running.port)
    server.close()


if __name__ == "__main__":
    main()

# Exercise: leave the header Mcp-Name away, or let it say another name than the body. Then serve this file with
# `python3 -m minimcp run examples/13_http.py --http 8000`, and look at it with `python3 -m minimcp list` and the URL.
