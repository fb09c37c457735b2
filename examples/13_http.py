"""Over HTTP one server at one URL serves many clients, of every revision.

You will see one client for each of the five revisions, what a tool knows of the request, and two
clients at once.

Over stdio each client starts a server of its own; over HTTP one server runs all the time. The tools
stay the same. In the older revisions a client shakes hands first and is given a session, which its
later requests name. In 2026-07-28 each request says all that there is to know, so that any process
behind the URL can answer it. `connect` finds out which of them the server speaks; what goes over
the wire then is shown by the next chapter.

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
    """Forge something."""
    ctx.progress(1, 2, "the iron is hot")
    return f"one {what}"


@server.tool
def session(ctx: Context) -> str:
    """Say what the request says of a session: its headers are in ctx.headers."""
    return "a session" if "Mcp-Session-Id" in ctx.headers else "no session"


@server.tool
def strike() -> str:
    """Wait at the anvil until there are two: all clients share this process and what is in it."""
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

# Exercise: clients may send headers of their own: connect(url, headers={"X-Team": "red"}). Add a
# tool `team(ctx: Context) -> str` that returns that header, and "nobody" where there is none.
# Check it with  python3 examples/check.py 13
