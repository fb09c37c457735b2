"""A server whose tools ask their client every kind of question; the same file for every transport.

Run as a module it takes one argument: a JSON object of keywords for `build`.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import minimcp
from minimcp import Context, Elicit, SamplingMessage, Server

PAY = "https://pay.example/1"
PICKS = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
        },
        "pattern": {"type": "string", "pattern": "^a", "default": "ab"},
    },
    "required": ["size"],
}
LISTS = {
    "type": "object",
    "properties": {"picks": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}},
}

entered: Dict[str, threading.Event] = {}
ended: Dict[str, List[str]] = {}


@dataclass
class Booking:
    """A booking.

    Args:
        day: Which day.
        seats: How many.
    """

    day: str
    seats: int = 2


def book(city: str, ctx: Context) -> str:
    """Ask for a day and a number of seats."""
    booking = ctx.elicit(f"When to {city}?", Booking).require()
    return f"{city} on {booking.day} for {booking.seats}"


def decide(ctx: Context) -> str:
    """Ask, and return the user's answer."""
    answer = ctx.elicit("Sure?", {"sure": bool})
    return f"{answer.action} {answer.content}"


def pick(ctx: Context, lists: bool = False) -> Dict[str, Any]:
    """Ask for choices."""
    found: Dict[str, Any] = ctx.elicit("Which?", LISTS if lists else PICKS).require()
    return found


def summarise(text: str, ctx: Context) -> str:
    """Ask the model."""
    options: Dict[str, Any] = {"model_preferences": "small", "include_context": "allServers"}
    result = ctx.sample(f"Sum up: {text}", 50, system="Be short.", **options)
    return f"{result.text} ({result.model}, {result.stop_reason}, {len(result.content)})"


def talk(ctx: Context) -> str:
    """Let the model call a tool, in two questions."""
    tool = minimcp.Tool("add", {"type": "object"})
    asked = ctx.sample("1+1?", tools=[tool], key="first")
    use = asked.content[0]
    result = SamplingMessage("user", minimcp.ToolResult(use.id, [minimcp.Text("2")]))
    said: List[Any] = ["1+1?", SamplingMessage("assistant", [use]), result]
    return ctx.sample(said, tools=[tool], tool_choice="none", key="second").text


def look(ctx: Context) -> str:
    """Ask for the roots."""
    return ", ".join(f"{root.name}={root.path}" for root in ctx.list_roots())


def pay(ctx: Context) -> str:
    """Ask to open a URL."""
    answer = ctx.elicit_url("Pay, please", PAY, elicitation_id="pay-1")
    if answer:
        ctx.complete_elicitation("pay-1")
    return answer.action


def must_pay(ctx: Context, stubborn: bool = False) -> str:
    """Refuse until a URL was opened, or for ever."""
    data = {"elicitations": [{"mode": "url", "message": "Pay", "url": PAY, "elicitationId": "e1"}]}
    if ctx.round < 2 or stubborn:
        raise minimcp.UrlElicitationRequired("pay first", data)
    return f"paid in round {ctx.round}"


def everything(ctx: Context) -> Dict[str, Any]:
    """Ask four things at once."""
    found = ctx.ask_all(
        {
            "name": Elicit("Name?", {"name": str}),
            "poem": minimcp.Sample("A poem"),
            "roots": minimcp.ListRoots(),
            "url": minimcp.ElicitUrl("Open", PAY),
        }
    )
    return {
        "name": found["name"].content,
        "poem": found["poem"].text,
        "roots": [root.uri for root in found["roots"]],
        "url": found["url"].action,
    }


def careful(ctx: Context) -> str:
    """Say why a question was not answered."""
    try:
        return ctx.sample("hi").text
    except minimcp.Refused as refused:
        return f"refused: {refused.reason}"


def effects(path: str, ctx: Context) -> str:
    """Three questions and two steps, whose effects are lines of a file."""

    def note(line: str) -> int:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        return len(line)

    first = ctx.elicit("One?", {"n": int}, key="one").content["n"]
    made = ctx.step("begin", lambda: note(f"begin {first}"))
    second = ctx.elicit("Two?", {"n": int}, key="two").content["n"]
    made += ctx.step("end", lambda: note(f"end {second}"))
    third = ctx.elicit("Three?", {"n": int}, key="three").content["n"]
    note(ctx.call_id)
    return f"{first} {second} {third} {made}"


def wait(ctx: Context, name: str = "wait") -> str:
    """Ask, and remember how that ended."""
    entered.setdefault(name, threading.Event()).set()
    try:
        return ctx.elicit("Sure?", {"sure": bool}).action
    except Exception as error:
        ended.setdefault(name, []).append(type(error).__name__)
        raise


HURRY = 60.0
"""Seconds of running that `hurried` has."""


def hurried(ctx: Context, after: float = 0.0) -> str:
    """Ask within a short time of running; `after` seconds of running follow."""
    action = ctx.elicit("Sure?", {"sure": bool}).action
    if after:
        ctx.sleep(after)
    return action


def needs(ctx: Context) -> str:
    """Not even begun without sampling."""
    return ctx.sample("hi").text


def build(*, state_keys: Optional[List[str]] = None, **options: Any) -> Server:
    """The server; keys are given in hexadecimal digits."""
    keys = None if state_keys is None else [bytes.fromhex(key) for key in state_keys]
    server = Server("questions", version="1", state_keys=keys, **options)
    for tool in (
        book,
        decide,
        pick,
        summarise,
        talk,
        look,
        pay,
        must_pay,
        everything,
        careful,
        effects,
        wait,
    ):
        server.add_tool(tool)
    server.add_tool(hurried, timeout=HURRY)
    server.add_tool(hurried, name="late", timeout=0.05)
    server.add_tool(needs, requires="sampling")
    return server


if __name__ == "__main__":
    build(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")).run()
