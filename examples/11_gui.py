"""A program with a main loop runs tools on the thread of that loop.

You will see two tools that ran on the main thread, and one that did not.

Toolkits require that one thread, the one with the main loop, does all drawing. A tool with
`executor="main"` waits until that thread calls `server.pump()`. `on_pump_needed` is called, on
another thread, when calls are waiting. Here it puts `pump` into the queue of the loop, like any
other event. With the argument "tk" the program opens a window, otherwise it runs a plain loop.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools (the protocol does not say
where a tool runs)
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import Callable

import minimcp

main_thread = threading.get_ident()
events: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
server: minimcp.Server = minimcp.Server("paint", on_pump_needed=lambda: events.put(server.pump))
ended = threading.Event()
drawn: list[str] = []


@server.tool(executor="main")
def draw(shape: str) -> str:
    """Draw a shape."""
    drawn.append(shape)
    return f"{shape} drawn on the main thread: {threading.get_ident() == main_thread}"


@server.tool
def area(width: float, height: float) -> str:
    """Compute an area."""
    return f"{width * height} computed on the main thread: {threading.get_ident() == main_thread}"


def somebody() -> None:
    """Use the program. For a host, call threading.Thread(target=server.run).start() instead."""
    try:
        with minimcp.connect(server) as client:
            for result in client.call_tools(
                [("draw", {"shape": "circle"}), ("draw", {"shape": "square"})]
            ):
                print(result.text)
            print(client.call_tool("area", {"width": 2, "height": 3}).text)
    finally:
        events.put(ended.set)


def plain_loop() -> None:
    while not ended.is_set():
        events.get()()


def tk_loop() -> None:
    import tkinter

    window = tkinter.Tk()

    def tick() -> None:
        while not events.empty():
            events.get()()
        window.title(", ".join(drawn))
        window.destroy() if ended.is_set() else window.after(20, tick)

    window.after(0, tick)
    window.mainloop()


if __name__ == "__main__":
    threading.Thread(target=somebody).start()
    tk_loop() if sys.argv[1:] == ["tk"] else plain_loop()
    print("drawn:", sorted(drawn))

# Exercise: add a tool `clear() -> int` that empties `drawn` on the main thread and returns how many
# shapes were there. Check it with  python3 examples/check.py 11
