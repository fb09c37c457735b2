# ruff: noqa: E501
"""Messages for an author who registers something wrong, and for a model that sends a wrong call:
one line that helps."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Literal, NamedTuple, Optional, Tuple

import pytest

import minimcp
from minimcp import Context, Server

from ..answering import R5
from ..rows import for_each


def forecast(city: str, days: int = 3) -> str:
    """Forecast."""
    return f"{city} {days}"


async def coroutine(city: str) -> str:
    return city


def generator() -> Any:
    yield 1


def stars(*cities: str) -> None: ...


def double_stars(**cities: str) -> None: ...


def bare(city) -> None: ...  # type: ignore[no-untyped-def]


def unresolved(city: Town) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def listed(cities: [str]) -> None: ...  # type: ignore[valid-type]


def anything(data: any) -> None: ...  # type: ignore[valid-type]


def two_contexts(one: Context, two: Context) -> None: ...


class Notes:
    def add(self, text: str) -> None: ...

    @minimcp.tool
    async def later(self) -> None: ...


class Mistyped:
    @minimcp.tool(titel="x")
    def add(self, text: str) -> None: ...


class Called:
    def __call__(self, text: str) -> None: ...


Wrong = Callable[[Any], Any]

REGISTRATIONS: List[Tuple[Wrong, type, str]] = [
    (lambda s: s.tool("forecast"), TypeError, "server.tool('forecast'): did you mean name='forecast'?"),
    (lambda s: s.prompt("forecast"), TypeError, "server.prompt('forecast'): did you mean name='forecast'?"),
    (lambda s: minimcp.tool("forecast"), TypeError, "minimcp.tool('forecast'): did you mean name='forecast'?"),  # type: ignore[call-overload]
    (lambda s: s.tool(forecast, "weather"), TypeError, "server.tool('weather'): did you mean name='weather'?"),
    (lambda s: s.prompt(forecast, "weather"), TypeError, "server.prompt('weather'): did you mean name='weather'?"),
    (lambda s: s.resource("a://b", "weather"), TypeError, "server.resource('weather'): did you mean name='weather'?"),
    (lambda s: s.resource(forecast), TypeError, 'the URI comes first: @server.resource("notes://all")'),
    (lambda s: s.tool(coroutine), TypeError, " is async: write a plain def; it runs on a thread and may block"),
    (lambda s: s.tool(generator), TypeError, " is a generator: return a list, and report progress with ctx.progress"),
    (lambda s: s.tool(stars), TypeError, " takes *cities: name each parameter, or take one list: cities: list[str]"),
    (lambda s: s.tool(double_stars), TypeError, " takes **cities: name each parameter, or take one dict: cities: dict[str, str]"),
    (lambda s: s.tool(bare), TypeError, ": parameter 'city' has no annotation: give it a type, such as city: str"),
    (lambda s: s.tool(unresolved), TypeError, ": parameter 'city': the annotation 'Town' cannot be resolved: NameError: name 'Town' is not defined (names imported under TYPE_CHECKING do not exist at run time: import them always)"),
    (lambda s: s.tool(listed), TypeError, ": parameter 'cities': [<class 'str'>] is not a type with a JSON form: write list[str]"),
    (lambda s: s.tool(anything), TypeError, ": parameter 'data': <built-in function any> is not a type with a JSON form: write typing.Any"),
    (lambda s: s.tool(two_contexts), TypeError, ": two parameters take the context, 'one' and 'two': keep one"),
    (lambda s: s.tool(Notes), TypeError, "Notes is a class: pass a function, or a method of an instance"),
    (lambda s: s.tool(Notes.add), TypeError, " takes self, so it is a method and needs an object: mark it with @minimcp.tool (or resource, or prompt) and add an object of its class, or register the method of an object"),
    (lambda s: s.tool(Called()), TypeError, "a Called has no name: give the tool a name=..."),
    (lambda s: s.tool(functools.partial(forecast, "Oslo")), TypeError, "a partial has no name: give the tool a name=..."),
    (lambda s: s.tool(print), TypeError, "print is not a Python function: write a def that calls it"),
    (lambda s: s.tool(lambda: 1), TypeError, "a lambda has no name: give the tool a name=..."),
    (lambda s: s.add(Notes), TypeError, "Notes is a class: pass an instance of it, Notes()"),
    (lambda s: s.add(Notes()), TypeError, " is async: write a plain def; it runs on a thread and may block"),
    (lambda s: s.add(5), ValueError, "no method of int is marked: write @minimcp.tool, @minimcp.resource(...) or @minimcp.prompt above the methods that clients may call"),
    (lambda s: s.add(forecast), TypeError, "forecast is a function, not an object with marked methods: use server.tool"),
    (lambda s: s.add(Notes().add), TypeError, "Notes.add is a function, not an object with marked methods: use server.tool"),
    (lambda s: s.add(Server("other")), ValueError, "no method of Server is marked: write @minimcp.tool, @minimcp.resource(...) or @minimcp.prompt above the methods that clients may call"),
    (lambda s: Server("s", Notes), TypeError, "Notes is a class: pass an instance of it, Notes()"),
    (lambda s: Server.of(Notes), TypeError, "Notes is a class: pass an instance of it, Notes()"),
    (lambda s: Server(5), TypeError, "a server's name must be a str, not 5"),  # type: ignore[arg-type]
    (lambda s: s.tool(nmae="x")(forecast), TypeError, ": a tool has no option nmae=: did you mean name=?"),
    (lambda s: s.add(Mistyped()), TypeError, ": a tool has no option titel=: did you mean title=?"),
    (lambda s: s.prompt(colour="x")(forecast), TypeError, ": a prompt has no option colour=: expected one of name, title, description, icons, meta, requires, replace, scopes, visible, complete"),
    (lambda s: s.resource("a://{city}/{days}", mimetype="x")(forecast), TypeError, ": a resource has no option mimetype=: did you mean mime_type=?"),
    (lambda s: s.tool(name=5)(forecast), TypeError, "tool 5: Tool: name must be a string, not int"),
    (lambda s: s.tool(name="")(forecast), ValueError, "the name of a tool must not be empty"),
    (lambda s: s.tool(title=5)(forecast), TypeError, "tool 'forecast': Tool: title must be a string, not int"),
    (lambda s: s.tool(annotations="safe")(forecast), TypeError, "tool 'forecast': annotations must be a mapping such as {\"read_only_hint\": True}, not 'safe'"),
    (lambda s: s.tool(annotations={"readOnlyHint": True})(forecast), TypeError, "tool 'forecast': there is no annotation 'readOnlyHint': did you mean 'read_only_hint'?"),
    (lambda s: s.tool(annotations={"safe": True})(forecast), TypeError, "tool 'forecast': there is no annotation 'safe': expected one of title, read_only_hint, destructive_hint, idempotent_hint, open_world_hint"),
    (lambda s: s.resource("a://{city}/{days}", annotations={"Audience": ["user"]})(forecast), TypeError, "resource template 'a://{city}/{days}': there is no annotation 'Audience': did you mean 'audience'?"),
    (lambda s: s.tool(input_schema="x")(forecast), TypeError, "tool 'forecast': input_schema must be a JSON Schema, which is a dict, or None, not 'x'"),
    (lambda s: s.tool(input_schema={"type": "array"})(forecast), ValueError, "tool 'forecast': input_schema does not accept an object, but arguments are always an object: write \"type\": \"object\""),
    (lambda s: s.tool(output_schema=[1])(forecast), TypeError, "tool 'forecast': output_schema must be a JSON Schema, which is a dict, or None, not [1]"),
    (lambda s: s.tool(meta="x")(forecast), TypeError, "tool 'forecast': Tool: meta must be an object, not str"),
    (lambda s: s.tool(icons="x.png")(forecast), TypeError, "tool 'forecast': Tool: icons must be a list (Icon), not str"),
    (lambda s: s.tool(structured="yes")(forecast), TypeError, "tool 'forecast': structured must be True, False or None, not 'yes'"),
    (lambda s: s.tool(replace="yes")(forecast), TypeError, "tool 'forecast': replace must be True or False, not 'yes'"),
    (lambda s: s.tool(timeout="5")(forecast), TypeError, "tool 'forecast': timeout must be a number of seconds or None, not '5'"),
    (lambda s: s.tool(timeout=0)(forecast), ValueError, "tool 'forecast': timeout must be more than 0, not 0"),
    (lambda s: s.tool(executor="thread")(forecast), ValueError, "executor must be None, 'main', an object with submit(), such as a Serial(), or a callable, not 'thread'"),
    (lambda s: s.tool(requires="samplin")(forecast), ValueError, "tool 'forecast': clients cannot declare 'samplin': did you mean 'sampling'?"),
    (lambda s: s.tool(requires=5)(forecast), TypeError, "tool 'forecast': requires must be the name of a capability, or a list of names, not 5"),
    (lambda s: s.prompt(complete="Oslo")(forecast), TypeError, "prompt 'forecast': complete must be a mapping such as {\"city\": [\"Oslo\"]} or None, not 'Oslo'"),
    (lambda s: s.prompt(complete={"City": ["Oslo"]})(forecast), ValueError, "prompt 'forecast': no argument to complete is called 'City': did you mean 'city'?"),
    (lambda s: s.prompt(complete={"where": ["Oslo"]})(forecast), ValueError, "prompt 'forecast': no argument to complete is called 'where': expected one of city, days"),
    (lambda s: s.resource("a://{city}/{days}", ttl="1")(forecast), TypeError, "resource template 'a://{city}/{days}': ttl must be a number of seconds, not '1'"),
    (lambda s: s.resource("a://{city}/{days}", ttl=-1)(forecast), ValueError, "resource template 'a://{city}/{days}': ttl must be at least 0, not -1"),
    (lambda s: s.resource("a://{city}")(forecast), TypeError, "resource template 'a://{city}' has no variable for the parameter 'days': add {days} to it"),
    (lambda s: (s.tool(forecast), s.tool(forecast)), ValueError, ". Rename one of them, or write replace=True"),
    (lambda s: s.remove_tool("forecast"), KeyError, "'Unknown tool: forecast'"),
    (lambda s: (s.tool(forecast), s.remove_tool("Forecast")), KeyError, "'Unknown tool: Forecast, did you mean forecast?'"),
    (lambda s: s.mount(5, prefix="x"), TypeError, 'mount takes a server and a prefix: server.mount(other, prefix="x")'),
    (lambda s: s.run("carrier-pigeon"), ValueError, "unknown transport 'carrier-pigeon': write 'stdio', 'http' or 'sse'"),
]  # fmt: skip


@for_each(("wrong", "kind", "message"), REGISTRATIONS)
def test_a_wrong_registration_says_what_to_write_instead(
    wrong: Wrong, kind: type, message: str
) -> None:
    with pytest.raises(kind) as caught:
        wrong(Server("s"))
    said = str(caught.value)
    assert said.endswith(message) and "\n" not in said, said
    if message.startswith((" ", ":")):
        assert "test_messages.py:" in said or "object at" in said or "functools" in said, (
            "it names the place"
        )


NUMBER, FLAG = "a number of seconds or None", "True or False"


@for_each(
    ("name", "what", "wrong"),
    [
        ("restart", FLAG, "yes"),
        ("cache", FLAG, None),
        ("send_shutdown", FLAG, 1),
        ("extensions", "a list of extensions, a mapping or None", "x"),
        ("client_info", "an Implementation, a mapping or None", "x"),
        *((name, NUMBER, "x") for name in ("timeout", "probe_timeout", "connect_timeout")),
    ],
)
def test_a_wrong_option_of_a_client_is_refused_by_name(name: str, what: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        minimcp.connect(Server("s"), **{name: wrong})
    assert str(caught.value).startswith(f"{name} must be {what}, not ") and repr(wrong) in str(
        caught.value
    )


# ------------------------------------------------------------ calls


class Unit(enum.Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclass
class Place:
    name: str
    latitude: float


class Stay(NamedTuple):
    place: Place
    nights: int = 1


def book(
    stays: List[Stay],
    unit: Unit = Unit.METRIC,
    mode: Literal["fast", "cheap"] = "fast",
    tags: Optional[Dict[str, int]] = None,
) -> str:
    """Book."""
    return "booked"


def broken(what: str) -> Place:
    """Return something else."""
    returned: Dict[str, Any] = {
        "none": None,
        "dict": {"name": "Oslo", "latitude": 1},
        "name": Place(5, 1.0),
        "nan": Place("x", float("nan")),
    }  # type: ignore[arg-type]
    return returned[what]  # type: ignore[no-any-return]


OSLO = {"name": "Oslo", "latitude": 59.9}

CALLS: List[Tuple[str, Any, str]] = [
    ("book", {}, "stays is missing: expected a list, got nothing"),
    ("book", {"stay": []}, "unknown field 'stay', did you mean 'stays'?"),
    ("book", {"Stays": []}, "unknown field 'Stays', did you mean 'stays'?"),
    ("book", {"stays": [], "units": "metric"}, "unknown field 'units', did you mean 'unit'?"),
    ("book", {"stays": [], "currency": "NOK"}, "unknown field 'currency': the fields are stays, unit, mode and tags"),
    ("book", {"stays": None}, "stays: expected a list, got null"),
    ("book", {"stays": {"place": OSLO}}, "stays: expected a list, got an object with place"),
    ("book", {"stays": [{"place": OSLO}, {"place": "Oslo"}]}, "stays[1].place: expected an object with name and latitude, got the string 'Oslo'"),
    ("book", {"stays": [{"place": {"name": "Oslo", "lattitude": 1}}]}, "stays[0].place: unknown field 'lattitude', did you mean 'latitude'?"),
    ("book", {"stays": [{"place": {"name": "Oslo", "latitude": "59.9"}}]}, "stays[0].place.latitude: expected a number, got the string '59.9'"),
    ("book", {"stays": [{"place": OSLO, "nights": 1.5}]}, "stays[0].nights: expected an integer, got the number 1.5"),
    ("book", {"stays": [], "unit": "Metric"}, "unit: expected one of 'metric' or 'imperial' (did you mean 'metric'?), got the string 'Metric'"),
    ("book", {"stays": [], "unit": "imprial"}, "unit: expected one of 'metric' or 'imperial' (did you mean 'imperial'?), got the string 'imprial'"),
    ("book", {"stays": [], "unit": "miles"}, "unit: expected one of 'metric' or 'imperial', got the string 'miles'"),
    ("book", {"stays": [], "mode": "FAST"}, "mode: expected one of 'fast' or 'cheap' (did you mean 'fast'?), got the string 'FAST'"),
    ("book", {"stays": [], "tags": {"a b": "x"}}, "tags['a b']: expected an integer, got the string 'x'"),
    ("book", {"stays": [], "tags": []}, "tags: expected an object or null, got an empty list"),
    ("book", {"stays": "x\ny" * 99}, "stays: expected a list, got the string 'x\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\nyx\\ny...'"),
    ("broken", {"what": "none"}, "broken returned an invalid value: expected a Place, got null. The return annotation is Place. "
                                 "(None: is a return missing in a branch?)"),
    ("broken", {"what": "dict"}, "broken returned an invalid value: expected a Place, got an object with name, latitude. The return annotation is Place."),
    ("broken", {"what": "name"}, "broken returned an invalid value: name: expected a string, got the number 5. The return annotation is Place."),
    ("broken", {"what": "nan"}, "broken returned an invalid value: latitude: expected a number, got nan, which JSON does not have: use None. The return annotation is Place."),
]  # fmt: skip

NAMES: List[Tuple[str, str]] = [
    ("boook", "Unknown tool: boook, did you mean book?"),
    ("Book", "Unknown tool: Book, did you mean book?"),
    ("borken", "Unknown tool: borken, did you mean broken?"),
    ("pay", "Unknown tool: pay"),
    ("books\n", "Unknown tool: books\\n, did you mean book?"),
    ("b" * 1000, f"Unknown tool: {'b' * 200}..."),
    ("", "Unknown tool: "),
]

METHODS: List[Tuple[str, str]] = [
    ("tools/cal", ", did you mean tools/call?"),
    ("tool/list", ", did you mean tools/list?"),
    ("Tools.Call", ", did you mean tools/call?"),
    ("shop/orderz", ", did you mean shop/orders?"),
    ("tasks/list", ""),
    ("resources/subscribe", ""),
    ("skills/list", ""),
    ("x" * 1000, "..."),
]


@pytest.mark.parametrize(("method", "end"), METHODS, ids=lambda value: value[:12])
def test_the_error_for_an_unknown_method_names_the_one_that_is_meant(method: str, end: str) -> None:
    server = Server("travel")
    server.tool(book)
    server.method("shop/orders")(lambda params, ctx: {})
    with minimcp.connect(server) as client, pytest.raises(minimcp.MethodNotFound) as caught:
        client.request(method)
    assert caught.value.message == f"Method not found: {method[:200]}{end}"


@pytest.mark.requirement("BASE-08")
def test_the_error_for_a_wrong_call_names_the_place_the_expected_type_and_the_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("travel", instructions="Travel.")
    for function in (book, broken):
        server.tool(function)
    server.prompt(forecast)
    with minimcp.connect(server, revision=R5) as client:

        @for_each(("tool", "arguments", "message"), CALLS)
        def calls(tool: str, arguments: Any, message: str) -> None:
            result = client.call_tool(tool, arguments, raise_on_error=False)
            assert (result.is_error, result.text) == (True, message)

        @for_each(("name", "message"), NAMES)
        def names(name: str, message: str) -> None:
            with pytest.raises(minimcp.InvalidParams) as caught:
                client.call_tool(name)
            assert (caught.value.code, caught.value.message) == (-32602, message)

        calls()
        names()
        whole = Server("whole", capabilities={"tools"})
        whole.mount(server, prefix="far")
        with (
            minimcp.connect(whole) as other,
            pytest.raises(minimcp.InvalidParams, match="did you mean far__book?"),
        ):
            other.call_tool("far_book")
        for method, params, message in (
            ("prompts/get", {"name": "forcast"}, "Unknown prompt: forcast, did you mean forecast?"),
            (
                "prompts/get",
                {"name": "forecast", "arguments": []},
                "arguments must be an object, not an empty list",
            ),
            (
                "prompts/get",
                {"name": "forecast", "arguments": {"ctiy": "x"}},
                "forecast: unknown field 'ctiy', did you mean 'city'?",
            ),
            (
                "tools/call",
                {"name": "book", "arguments": [5]},
                "arguments must be an object, not a list of 1",
            ),
        ):
            with pytest.raises(minimcp.InvalidParams) as caught:
                client.request(method, params)
            assert caught.value.message == message
