"""The subject, client side: one `minimcp.Client` for all. Arguments: the command of the server, or
its URL."""

from __future__ import annotations

import sys
from typing import Callable

from client_loop import obey

import minimcp

if __name__ == "__main__":
    target = sys.argv[1] if sys.argv[1].startswith("http://") else sys.argv[1:]
    with minimcp.connect(target, revision="2025-06-18") as client:

        def call(text: str) -> str:
            return str(client.call_tool("echo", {"text": text}).text)

        def count(reports: int, on_progress: Callable[[float], None]) -> None:
            client.call_tool(
                "count", {"n": reports}, on_progress=lambda report: on_progress(report.progress)
            )

        obey(call, call, count)
