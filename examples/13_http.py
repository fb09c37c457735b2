"""Over HTTP one server at one URL serves many clients, of every revision.

You will see one client for each of the five revisions, what a tool knows about the request, and two
clients at the same time.

Over stdio each client starts its own server. Over HTTP one server runs all the time. The tools stay
the same. In the older revisions a client begins with a handshake and receives a session, which its
later requests name. In 2026-07-28 each request contains everything that the server needs, so any
process behind the URL can serve it. `connect` finds out which of them the server supports. The next
chapter shows the messages.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports (Streamable HTTP)
"""

from __future__ import annotations

import threading

import minimcp
from minimcp import Context

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
server = minimcp.Server("forge")
anvil = threading.Barrier(2)


@server.tool
def forge(what: str, ctx: Context) -> str:
    """Forge an item."""
    ctx.progress(1, 2, "the iron is hot")
    return f"one {what}"


@server.tool
def session(ctx: Context) -> str:
    """Say whether the request names a session: ctx.headers has its headers."""
    return "a session" if "Mcp-Session-Id" in ctx.headers else "no session"


@server.tool
def strike() -> str:
    """Wait at the anvil for a second client: all clients share this process and its objects."""
    anvil.wait(timeout=10)
    return "struck"


def main() -> None:
    with server.start_http(port=0) as running:  # server.run("http", port=8000) serves until Ctrl-C
        for revision in REVISIONS:
            with minimcp.connect(running.url, revision=revision) as client:
                reports: list[minimcp.Progress] = []
                result = client.call_tool("forge", {"what": "nail"}, on_progress=reports.append)
                print(
                    revision, len(reports), result.text, client.call_tool("session").text, sep=", "
                )

        with minimcp.connect(running.url) as one, minimcp.connect(running.url) as other:
            print("found out:", one.revision)
            future = one.submit(one.call_tool, "strike")
            print("two clients:", other.call_tool("strike").text, future.result(timeout=10).text)
    server.close()


if __name__ == "__main__":
    main()

# Exercise: clients can send their own headers: connect(url, headers={"X-Team": "red"}). Add a tool
# `team(ctx: Context) -> str` that returns that header, or "nobody" without it.
# Check it with  python3 examples/check.py 13
