"""Types in, types out, and the four ways in which a call fails.

Arguments are checked before the function is called and arrive as what the annotations say: a dataclass, not a dict.
What it returns is sent twice, as text for a model and as a value for programs. A failure is either a *result* that the
model reads and may react to, or a JSON-RPC *error*, which says that the request itself was wrong.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools (Error Handling)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal, Optional

import minimcp

server = minimcp.Server("pizzeria")
PRICES = {"small": 7.5, "large": 11.0}


@dataclass
class Address:
    street: str
    floor: Optional[int] = None


@dataclass
class Receipt:
    total: float
    where: str


@server.tool
def order(size: Literal["small", "large"], where: Address, count: int = 1, coupon: Optional[str] = None) -> Receipt:
    """Order pizzas.

    Args:
        size: Of all of them.
        where: Where they are brought.
        count: How many.
        coupon: A code for a free pizza.
    """
    if count > 20:
        raise minimcp.ToolError("We bake at most 20 pizzas in one order. Order twice.")  # words that a model can use
    if coupon is not None and coupon != "FREE1":
        raise minimcp.InvalidParams("unknown coupon", {"coupon": coupon})  # an error, for the program that asks
    floor = "" if where.floor is None else f", floor {where.floor}"
    return Receipt(PRICES[size] * (count - (coupon is not None)), where.street + floor)


@server.tool
def oven() -> float:
    """How hot the oven is."""
    return float("hot")  # a bug: a ValueError that nobody expected


def attempt(client: minimcp.Client, tool: str, arguments: dict[str, Any]) -> None:
    try:
        print("value:", client.call_tool(tool, arguments).value)
    except minimcp.ToolError as error:
        print("the tool failed:", error)
    except minimcp.RpcError as error:
        print(f"error {error.code}:", error.message, error.data)


if __name__ == "__main__":
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)  # the log has the traceback of the bug; not shown here
    home = {"street": "12 High Street", "floor": 3}
    with minimcp.connect(server) as client:
        attempt(client, "order", {"size": "large", "where": home, "count": 2, "coupon": "FREE1"})
        attempt(client, "order", {"size": "huge", "where": home})  # wrong arguments: a result, the model can correct it
        attempt(client, "order", {"size": "small", "where": {"floor": 3}})
        attempt(client, "order", {"size": "small", "where": home, "count": 21})
        attempt(client, "order", {"size": "small", "where": home, "coupon": "X"})
        attempt(client, "oven", {})

# Exercise: make a second Server with mask_errors=True and the tool `oven`. What does the client see now, and what does
# the log say? Then give Address a field `door: Literal["front", "back"] = "front"` and send a wrong one.
