"""Decorated functions keep their signatures, whether the decorator has options or none."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

from typing_extensions import assert_type

from minimcp import (
    Context,
    FinishedRequest,
    HttpOptions,
    Image,
    Limits,
    Message,
    Server,
    Text,
    ToolError,
)

server = Server("typed", version="1", limits=Limits(workers=2), http=HttpOptions(sessions=False))


@dataclass
class Day:
    number: int
    degrees: float


@dataclass
class Form:
    days: int = 14


@server.tool
def forecast(city: str, ctx: Context, days: int = 3) -> List[Day]:
    ctx.progress(1, days, "day 1")
    ctx.progress("one")  # wrong: a number
    assert_type(ctx.cancelled, bool)
    assert_type(ctx.revision, str)
    assert_type(ctx.trace_context, Dict[str, str])
    if not city:
        raise ToolError("which city?")
    return [Day(1, 2.5)]


@server.tool(title="Look", timeout=5, annotations={"read_only_hint": True})
def look(what: str) -> "list[Text | Image]":
    return [Text(what), Image(b"", "image/png")]


@server.resource("notes://{number}", mime_type="text/plain", ttl=60)
def note(number: int) -> str:
    return str(number)


@server.prompt(complete={"tone": ["plain"]})
def review(title: str, tone: str = "plain") -> List[Message]:
    return [Message("user", f"{title} {tone}")]


@server.middleware
def timed(ctx: Context, call_next: Callable[[], Any]) -> Any:
    return call_next()


@server.method("vendor/thing")
def thing(params: Dict[str, Any], ctx: Context) -> Dict[str, Any]:
    return {}


def ended(done: FinishedRequest) -> None:
    assert_type(done.seconds, float)
    assert_type(done.name, Optional[str])
    assert_type(done.outcome, str)


watched = Server("watched", on_request=ended)


def check(ctx: Context) -> None:
    assert_type(forecast("Oslo", ctx), List[Day])
    assert_type(note(3), str)
    assert_type(review("x"), List[Message])
    forecast(5, ctx)  # wrong: a city is text
    forecast("Oslo")  # wrong: without ctx
    look(what=5)  # wrong: a what is text
    note("3")  # wrong: a number
    review("x", tone=5)  # wrong: a tone is text
    answer = ctx.elicit("How long?", Form)
    assert_type(bool(answer), bool)
    assert_type(ctx.confirm("Sure?"), bool)
    assert_type(ctx.sample("x").text, str)


server.tool(titel="x")  # wrong: no such option
Server("x", limits=5)  # wrong: a Limits
Server("x", on_request=lambda: None)  # wrong: takes what has ended


def late(one: int, two: int) -> None: ...


Server("x", on_request=late)  # wrong: takes one argument
server.run("stdio")
assert_type(server.start_http().url, str)
