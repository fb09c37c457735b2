"""Arguments and results have types; a call that fails says so in a result or in an error.

You will see an order that works, and five that fail: four as a result, one as an error.

Arguments are checked before the function is called and arrive as what the annotations say: a
dataclass, not a dict. A failed *result* is read by the model, which may try again; an *error* of
JSON-RPC says that the request was wrong.

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
        where: Where they are brought.
        count: How many.
        coupon: A code for a free pizza.
    """
    if count > 20:
        raise minimcp.ToolError(
            "We bake at most 20 pizzas in one order. Order twice."
        )  # words that a model can use
    if coupon is not None and coupon != "FREE1":
        raise minimcp.InvalidParams(
            "unknown coupon", {"coupon": coupon}
        )  # an error, for the program that asks
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
    logging.getLogger("minimcp").setLevel(
        logging.CRITICAL
    )  # the log has the traceback of the bug; not shown here
    home = {"street": "12 High Street", "floor": 3}
    with minimcp.connect(server) as client:
        attempt(client, "order", {"size": "large", "where": home, "count": 2, "coupon": "FREE1"})
        attempt(
            client, "order", {"size": "huge", "where": home}
        )  # wrong arguments: a result, the model can correct it
        attempt(client, "order", {"size": "small", "where": {"floor": 3}})
        attempt(client, "order", {"size": "small", "where": home, "count": 21})
        attempt(client, "order", {"size": "small", "where": home, "coupon": "X"})
        attempt(client, "oven", {})

# Exercise: give `Address` a field `door` that is "front" or "back", and "front" where nothing is
# said.
# Check it with  python3 examples/check.py 4
