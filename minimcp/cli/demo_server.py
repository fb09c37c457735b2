"""The server of ``minimcp demo``: a bakery. It is an example too; run it like any other."""

from __future__ import annotations

import threading

from .. import Context, Server, ToolError

PRICES = {"rye": 4.5, "wheat": 3.2, "corn": 3.8}

server = Server("bakery", version="1.0", instructions="Bakes bread and tells what it costs.")

shelf = {"rye": 6, "wheat": 0, "corn": 1}
# Handlers run on several threads at once: what they share needs a lock.
shelf_lock = threading.Lock()


def put(bread: str, loaves: int) -> int:
    """Put loaves on the shelf (or take them, below zero), tell who wants to know, and return how
    many are there."""
    with shelf_lock:
        if shelf[bread] + loaves < 0:
            raise ToolError(f"We have {shelf[bread]} loaves of {bread} only.")
        shelf[bread] += loaves
        left = shelf[bread]
    server.resource_updated("bakery://shelf")
    return left


@server.tool
def price(bread: str, loaves: int = 1) -> float:
    """Tell what some loaves of bread cost.

    Args:
        bread: Its kind.
        loaves: How many.
    """
    if bread not in PRICES:
        raise ToolError(f"We have no {bread} bread. There is {', '.join(PRICES)}.")
    return PRICES[bread] * loaves


@server.tool
def bake(loaves: int, ctx: Context, seconds_each: float = 0.05) -> str:
    """Bake loaves of wheat bread, one after the other.

    Args:
        loaves: How many.
        seconds_each: How long one of them takes.
    """
    for done in range(1, loaves + 1):
        ctx.progress(done, loaves, f"loaf {done} is in the oven")
        ctx.sleep(seconds_each)
    put("wheat", loaves)
    return f"{loaves} loaves are ready."


@server.tool
def order(bread: str, ctx: Context) -> str:
    """Order bread; the user is asked how many loaves.

    Args:
        bread: Its kind.
    """
    answer = ctx.elicit(f"How many loaves of {bread} bread?", {"loaves": int})
    if not answer:
        return "Nothing was ordered."
    loaves = answer.require()["loaves"]
    put(bread, -loaves)  # ask first, act last: over HTTP a handler runs again up to its question
    return f"{loaves} loaves of {bread} bread are yours."


@server.resource("bakery://shelf", mime_type="application/json")
def on_the_shelf() -> dict[str, int]:
    """How many loaves there are of each kind."""
    with shelf_lock:
        return dict(shelf)


@server.prompt(complete={"bread": list(PRICES)})
def advertise(bread: str) -> str:
    """Have a slogan written.

    Args:
        bread: Its kind.
    """
    return f"Write one line that makes people want {bread} bread."


if __name__ == "__main__":
    server.run()
