"""A tool can ask the user while it runs, in every revision.

You will see one booking three times: in two revisions, and as it runs over HTTP in the newer one;
then two refusals.

Up to 2025-11-25 the question is a request of the server. Since 2026-07-28 the question *is* the
result, and the client sends the call again with the answer. In memory and over stdio that reaches
the handler that waits. Over HTTP it may reach another process: there the handler runs again from
the top, and questions that have an answer return at once. So ask first, act last: what must happen
once stands below the last question, or in `ctx.step`, which keeps its result.

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
    """What the user is asked; the host makes a form of it.

    Args:
        city: Where.
        nights: How many.
    """

    city: str
    nights: int = 2


def hold_a_room(city: str) -> int:
    print(f"    a room in {city} is held")
    return 12


@as_over_http.tool
@server.tool
def book(ctx: Context) -> str:
    """Book a room; the user says where, and agrees to the price."""
    print("    the handler begins")
    stay = ctx.elicit(
        "Where do you want to stay?", Stay
    ).require()  # declined: the tool fails and says so
    room = ctx.step("hold", lambda: hold_a_room(stay.city))
    answer = ctx.elicit(f"{stay.nights} nights cost {90 * stay.nights}. Agreed?", {"agreed": bool})
    if not answer or not answer.content["agreed"]:
        return "Nothing was booked."
    print("    paid")  # below the last question: once
    return f"Room {room} in {stay.city} is yours for {stay.nights} nights."


def user(request: minimcp.ElicitRequest) -> dict[str, Any]:
    """The host's side. A real one shows request.message and a form made from request.schema."""
    print("  asked:", request.message)
    return (
        {"city": "Oslo"} if "Where" in request.message else {"agreed": True}
    )  # nights: the form's default


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

# Exercise: add a tool `taxi(ctx: Context) -> str` to both servers. It asks how many people
# ({"people": int}), then whether now ({"now": bool}), and orders one taxi, however it is served:
# `taxis.append(people)`. Define `taxis = []`. Check it with  python3 examples/check.py 8
