"""A long call reports its progress, and can be cancelled.

You will see two reports before a result, a call that is cancelled, and handlers that run side by
side.

A handler is a plain function on a thread. It reports progress through `ctx`. After a cancellation,
every method of `ctx` that sends or waits raises `Cancelled`, so a loop that reports progress can be
stopped. Other requests are served on other threads.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress and
.../cancellation
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import minimcp
from minimcp import Context

server = minimcp.Server("kitchen")
stopped = threading.Event()
table = threading.Barrier(2)


@server.tool
def cook(dishes: int, ctx: Context, seconds_each: float = 0.0) -> str:
    """Cook some dishes, one after the other."""
    try:
        for number in range(1, dishes + 1):
            ctx.progress(number, dishes, f"dish {number}")
            # like time.sleep, but a cancellation ends it, and the worker can serve other requests
            # during the wait
            ctx.sleep(seconds_each)
    except minimcp.Cancelled:
        stopped.set()  # the place to clean up
        raise
    return f"{dishes} dishes"


@server.tool
def eat(who: str) -> str:
    """Wait at the table until two people are there."""
    table.wait(timeout=10)
    return f"{who} has eaten"


@server.tool
def wash(plates: list[str], ctx: Context) -> list[str]:
    """Wash plates, two at a time. Your own threads do not know the request, so pass them ctx."""

    def wash_one(plate: str) -> str:
        ctx.check()  # raises Cancelled
        return f"clean {plate}"

    with ThreadPoolExecutor(2) as sinks:
        return list(sinks.map(wash_one, plates))


def main() -> None:
    with minimcp.connect(server) as client:
        print(
            client.call_tool(
                "cook", {"dishes": 2}, on_progress=lambda report: print(report.message)
            ).text
        )

        token = minimcp.CancelToken()  # any thread can cancel it
        try:
            arguments = {"dishes": 2, "seconds_each": 600}
            client.call_tool(
                "cook",
                arguments,
                cancel=token,
                on_progress=lambda report: token.cancel("not hungry"),
            )
        except minimcp.Cancelled as error:
            print("cancelled:", error)
        print("the cook has stopped:", stopped.wait(timeout=10))

        for eaten in client.call_tools([("eat", {"who": "Ada"}), ("eat", {"who": "Bob"})]):
            print(eaten.text)
        print(client.call_tool("wash", {"plates": ["cup", "bowl"]}).value)


if __name__ == "__main__":
    server.run() if sys.argv[1:] == ["serve"] else main()

# Exercise: add a tool `bake(loaves: int, ctx: Context) -> str`. Each loaf takes 0.01 s and is
# reported; a cancellation ends the tool. Check it with  python3 examples/check.py 7
