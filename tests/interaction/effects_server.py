"""A server whose tool acts before it asks, and records its actions in a file.

Run as a module it takes one argument: a JSON object of keywords for `build`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Optional

from minimcp import Context, Limits, RequestTimeout, Server


def act(ledger: str, name: str, ctx: Context, questions: int = 1) -> str:
    """Write a line, then ask."""
    write(ledger, name)
    forms = ctx.client.supports("elicitation.form")
    try:
        return " ".join(
            ctx.elicit(f"{number}?", {"n": int}).action if forms else ctx.sample(f"{number}?").text
            for number in range(questions)
        )
    except RequestTimeout:
        write(ledger, "timeout")
        raise


def write(ledger: str, line: str) -> None:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\n".encode())  # in one write, next to those of other calls
    os.close(file)


def build(*, ask_timeout: Optional[float] = 600, waiting_handlers: Optional[int] = 16) -> Server:
    limits = Limits(ask_timeout=ask_timeout, waiting_handlers=waiting_handlers)
    server = Server("effects", limits=limits)
    server.add_tool(act)
    return server


if __name__ == "__main__":
    build(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")).run()
