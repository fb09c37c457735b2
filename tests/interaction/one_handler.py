"""One handler that uses every feature of a handler, for every revision and transport. It asks first
and acts last."""

from __future__ import annotations

from typing import Any, Dict, List

from minimcp import Context, Message, Server

server = Server("travels", version="1")


@server.resource("trip://{city}")
def trip(city: str, ctx: Context) -> Dict[str, Any]:
    """How far a city is."""
    return {"city": city, "hours": len(city), "by": ctx.method}


@server.tool
def plan(city: str, ledger: str, ctx: Context) -> Dict[str, Any]:
    """Plan a trip: ask the user, the host and the model, then book it, and say how that goes."""
    seats = 1
    if ctx.client.supports("elicitation.form"):
        answer = ctx.elicit(f"Who goes to {city}?", {"seats": int})
        if not answer:
            return {"booked": False}
        seats = answer.require()["seats"]
    folders = [root.name for root in ctx.list_roots()]
    verse = ctx.sample(f"A verse about {city}", 20).text
    number = ctx.step("book", lambda: book(ledger, f"{city} for {seats}"))
    hours = ctx.read_resource(f"trip://{city}").contents[0]
    for leg in range(1, 4):
        ctx.progress(leg, 3, f"leg {leg}")
    ctx.info({"booked": number})
    server.resource_updated("ledger://")
    return {
        "seats": seats,
        "folders": folders,
        "verse": verse,
        "number": number,
        "trip": hours.text,
    }


def book(ledger: str, line: str) -> int:
    """An effect that must not happen twice; the number of the booking."""
    with open(ledger, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    with open(ledger, encoding="utf-8") as file:
        return len(file.readlines())


@server.tool
def wander(ctx: Context) -> str:
    """Begin, and never arrive."""
    ctx.progress(1)
    ctx.sleep(600)
    return "arrived"


@server.resource("ledger://")
def bookings() -> str:
    """List the bookings."""
    return "see the file"


@server.prompt(complete={"city": ["Bergen", "Berlin", "Oslo"]})
def praise(city: str, ctx: Context) -> List[Message]:
    """Praise a city with words of the model."""
    said = ctx.sample(f"Praise {city}").text
    return [Message("user", f"What of {city}?"), Message("assistant", said)]


def build() -> Server:
    return server


if __name__ == "__main__":
    server.run()
