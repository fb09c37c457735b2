"""The shared tools and features on a server of the official Python SDK, 1.x or 2.x.

Usage: python_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT; without, over stdio.
"""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server
from python_features import OPTIONS, Features
from python_tools import ENCODED, PIXEL, Server, add_tools, way_and_port

try:
    from python_questions_2 import add_questions
except ImportError:
    from python_questions_1 import add_questions

server = Server("interop", instructions="Tools of the interop grid.", **OPTIONS)
features = Features(server, PIXEL, ENCODED)
add_questions(server)
add_tools(server)


async def serve() -> None:
    async with stdio_server() as (reading, writing):
        await features.low.run(reading, writing, features.initialization())


def serve_web(way: str, port: int) -> None:
    import uvicorn

    # Its transports over HTTP ask the low-level server what to declare.
    declared = features.initialization()
    features.low.create_initialization_options = lambda *args, **options: declared
    app = server.sse_app() if way == "sse" else server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    way, port = way_and_port()
    anyio.run(serve) if way == "stdio" else serve_web(way, port)
