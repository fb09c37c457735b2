"""A tool can ask the user while it runs, in both eras of the protocol.

You will see one booking three times: in two revisions, and as it runs over HTTP in the newer
revision. Then you will see two refusals.

In 2025-06-18 and 2025-11-25, the question is a request of the server. Since 2026-07-28, the
question is the *result* of the call, and the client sends the call again with the answer. In memory
and over stdio, the answer usually reaches the handler that waits. Over HTTP, the answer can reach
another process. There the handler runs again from the top, and a question that has been answered
returns its answer at once. So ask first and act last. If code must run only once, put it below the
last question, or into `ctx.step`, which stores its result.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation and
.../basic/patterns/mrtr
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import minimcp
from minimcp import Context

server = minimcp.Server("hotel")
as_over_http = minimcp.Server("hotel", check_replay=True)


@dataclass
class Stay:
    """The form that the host shows to the user.

    Args:
        city: City of the hotel.
        nights: Number of nights.
    """

    city: str
    nights: int = 2


def hold_a_room(city: str) -> int:
    print(f"    a room in {city} is held")
    return 12


@as_over_http.tool
@server.tool
def book(ctx: Context) -> str:
    """Book a room. The user says where, and agrees to the price."""
    print("    the handler begins")
    # if the user declines, require() raises Declined, and the model reads that
    stay = ctx.elicit("Where do you want to stay?", Stay).require()
    room = ctx.step("hold", lambda: hold_a_room(stay.city))
    if not ctx.confirm(f"{stay.nights} nights cost {90 * stay.nights}. Agreed?"):
        return "Nothing was booked."
    print("    paid")  # below the last question: once
    return f"Room {room} in {stay.city} is yours for {stay.nights} nights."


def user(request: minimcp.ElicitRequest) -> dict[str, Any]:
    """Answer for the user. A real host shows request.message and a form from request.schema."""
    print("  asked:", request.message)
    if "Where" in request.message:
        return {"city": "Oslo"}  # nights has a default in the form
    return {}  # a form without fields: the user agrees


if __name__ == "__main__":
    for hotel, revision in (
        (server, "2025-11-25"),
        (server, "2026-07-28"),
        (as_over_http, "2026-07-28"),
    ):
        print(revision, "as over HTTP" if hotel is as_over_http else "in memory")
        with minimcp.connect(hotel, revision=revision, elicit=user) as client:
            print(" ", client.call_tool("book").text)

    print("A user who declines, and a host that cannot ask:")
    for elicit in (lambda request: None, None):
        with minimcp.connect(server, elicit=elicit) as client:
            try:
                client.call_tool("book")
            except minimcp.McpError as error:
                print(f"  {type(error).__name__}: {error}")

# Exercise: define `taxis = []`, and add a tool `taxi(ctx: Context) -> str` to both servers. It asks
# two questions: for how many people, with the form {"people": int}, and whether the taxi should
# come now, with {"now": bool}. `ctx.elicit(question, form).require()["people"]` is an answer. Then it
# appends the number of people to `taxis`. One call must append once, on each server.
# Check it with  python3 examples/check.py 8
