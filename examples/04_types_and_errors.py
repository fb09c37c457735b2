"""Arguments and results have types; a call that fails says so in a result or in an error.

You will see an order that works, and five that fail: four with a result, one with an error.

Arguments are validated before the function is called, and arrive as the annotated types: a
dataclass, not a dict. The model reads a failed *result* and can try again. A JSON-RPC *error* says
that the request was wrong.

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
def order(
    size: Literal["small", "large"], where: Address, count: int = 1, coupon: Optional[str] = None
) -> Receipt:
    """Order pizzas, all of one size.

    Args:
        where: Delivery address.
        count: Number of pizzas.
        coupon: A code for a free pizza.
    """
    if count > 20:
        # text that helps the model
        raise minimcp.ToolError("We bake at most 20 pizzas in one order. Order twice.")
    if coupon is not None and coupon != "FREE1":
        # an error, for the program that makes the call
        raise minimcp.InvalidParams("unknown coupon", {"coupon": coupon})
    floor = "" if where.floor is None else f", floor {where.floor}"
    return Receipt(PRICES[size] * (count - (coupon is not None)), where.street + floor)


@server.tool
def oven() -> float:
    """Measure the temperature of the oven."""
    return float("hot")  # a bug: an unexpected ValueError


def attempt(client: minimcp.Client, tool: str, arguments: dict[str, Any]) -> None:
    try:
        print("value:", client.call_tool(tool, arguments).value)
    except minimcp.ToolError as error:
        print("the tool failed:", error)
    except minimcp.RpcError as error:
        print(f"error {error.code}:", error.message, error.data)


if __name__ == "__main__":
    # hides the traceback of the bug, which is logged
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)
    home = {"street": "12 High Street", "floor": 3}
    with minimcp.connect(server) as client:
        attempt(client, "order", {"size": "large", "where": home, "count": 2, "coupon": "FREE1"})
        # wrong arguments: a result, so that the model can correct them
        attempt(client, "order", {"size": "huge", "where": home})
        attempt(client, "order", {"size": "small", "where": {"floor": 3}})
        attempt(client, "order", {"size": "small", "where": home, "count": 21})
        attempt(client, "order", {"size": "small", "where": home, "coupon": "X"})
        attempt(client, "oven", {})

# Exercise: add a field `door` to `Address` that is "front" or "back", and "front" by default.
# Check it with  python3 examples/check.py 4
