"""A server can be part of a web application, mounted beside its pages.

You will see a page of a site, and then its tools at /mcp: in both eras, and with a question to the
user in the newer one.

`server.wsgi()` is a WSGI application (PEP 3333) in the same process as the pages, so both see the
same objects. Here the standard library's wsgiref serves them, which is good enough for a first try
only. With several processes, use the same `state_keys` in each of them, and
`HttpOptions(sessions=False)` unless a client always reaches the same process. deployment.rst has
Flask and Django.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (Streamable HTTP)
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import minimcp
from minimcp import Context, HttpOptions

KEY = secrets.token_bytes(32)  # on a real site, a setting: the same in all processes
server = minimcp.Server("site", state_keys=[KEY], http=HttpOptions(sessions=False))
visits: list[str] = []
tools = server.wsgi("/mcp")


@server.tool
def count_visits() -> int:
    """Count the visits to the site: a tool sees the objects of the application."""
    return len(visits)


@server.tool
def forget_visits(ctx: Context) -> str:
    """Forget the visits, if the user agrees."""
    if not ctx.confirm(f"Forget {len(visits)} visits?"):
        return "kept"
    visits.clear()
    return "forgotten"


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Serve the site: its pages, and the tools beside them."""
    if environ["PATH_INFO"] == "/mcp":
        return tools(environ, start_response)
    visits.append(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"Welcome.\n"]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Do not print a line for each request."""


class Host(ThreadingMixIn, WSGIServer):
    daemon_threads = True


if __name__ == "__main__":
    with Host(("127.0.0.1", 0), Quiet) as host:
        host.set_app(application)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{host.server_port}"
        print(urlopen(f"{site}/about").read().decode().strip())
        with minimcp.connect(f"{site}/mcp", elicit=lambda request: {}) as client:
            print(
                client.revision,
                client.call_tool("count_visits").value,
                client.call_tool("forget_visits").text,
            )
        with minimcp.connect(f"{site}/mcp", revision="handshake") as client:
            print(client.revision, client.call_tool("count_visits").value)
        host.shutdown()
    server.close()

# Exercise: make forget_visits ask in the older era, too. One option of this server prevents that; a
# server in one process does not need this option.
# Check it with  python3 examples/check.py 14
