"""The server of ``minimcp demo``: a bakery with two tools. It is an example too; run it like any other. Floor 8."""

from __future__ import annotations

from .. import Context, Server, ToolError

PRICES = {"rye": 4.5, "wheat": 3.2, "corn": 3.8}

server = Server("bakery", version="1.0", instructions="Bakes bread and tells what it costs.")


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
    """Bake loaves of bread, one after the other.

    Args:
        loaves: How many.
        seconds_each: How long one of them takes.
    """
    for done in range(1, loaves + 1):
        ctx.progress(done, loaves, f"loaf {done} is in the oven")
        ctx.sleep(seconds_each)
    return f"{loaves} loaves are ready."


if __name__ == "__main__":
    server.run()
