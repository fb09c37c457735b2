"""The server of ``minimcp demo``: a bakery. It is also an example; run it like any other server."""

from __future__ import annotations

import threading

from .. import Context, Server, ToolError

PRICES = {"rye": 4.5, "wheat": 3.2, "corn": 3.8}

server = Server("bakery", version="1.0", instructions="Bakes and sells bread.")

shelf = {"rye": 6, "wheat": 0, "corn": 1}
# Handlers run on several threads at once, so shared data needs a lock.
shelf_lock = threading.Lock()


def put(bread: str, loaves: int) -> int:
    """Put loaves on the shelf and return how many are there. A negative number takes loaves away.

    Clients that have subscribed to the shelf are notified.
    """
    with shelf_lock:
        if shelf[bread] + loaves < 0:
            raise ToolError(f"We have only {shelf[bread]} loaves of {bread}.")
        shelf[bread] += loaves
        left = shelf[bread]
    server.resource_updated("bakery://shelf")
    return left


@server.tool
def price(bread: str, loaves: int = 1) -> float:
    """Return the price of loaves of bread.

    Args:
        bread: The kind of bread.
        loaves: The number of loaves.
    """
    if bread not in PRICES:
        raise ToolError(f"We have no {bread} bread. We have {', '.join(PRICES)}.")
    return PRICES[bread] * loaves


@server.tool
def bake(loaves: int, ctx: Context, seconds_each: float = 0.05) -> str:
    """Bake loaves of wheat bread, one after the other.

    Args:
        loaves: The number of loaves.
        seconds_each: The seconds that each loaf takes.
    """
    for done in range(1, loaves + 1):
        ctx.progress(done, loaves, f"loaf {done} is in the oven")
        ctx.sleep(seconds_each)
    put("wheat", loaves)
    return f"{loaves} loaves are ready."


@server.tool
def order(bread: str, ctx: Context) -> str:
    """Order bread. The user is asked for the number of loaves.

    Args:
        bread: The kind of bread.
    """
    answer = ctx.elicit(f"How many loaves of {bread} bread?", {"loaves": int})
    if not answer:
        return "Nothing was ordered."
    loaves = answer.require()["loaves"]
    # Ask first, act last: over HTTP a handler runs again from its first line to its question.
    put(bread, -loaves)
    return f"{loaves} loaves of {bread} bread are yours."


@server.resource("bakery://shelf", mime_type="application/json")
def on_the_shelf() -> dict[str, int]:
    """The number of loaves of each kind."""
    with shelf_lock:
        return dict(shelf)


@server.prompt(complete={"bread": list(PRICES)})
def advertise(bread: str) -> str:
    """Ask for a slogan.

    Args:
        bread: The kind of bread.
    """
    return f"Write one line that makes people want {bread} bread."


if __name__ == "__main__":
    server.run()
