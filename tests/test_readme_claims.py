"""The claims of README.rst and the pages in tables and lists, compared with the code."""

from __future__ import annotations

import inspect
import re
import threading
from concurrent.futures import CancelledError, Future
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Set,
    Tuple,
    TypedDict,
    Union,
)
from unittest.mock import create_autospec
from uuid import UUID

import pytest

import minimcp
from minimcp import Client, Context, Image, McpError, ResourceNotFound, Server, ToolError, connect
from minimcp.engine.limits import Limits
from minimcp.protocol.lifecycle import lacks
from minimcp.protocol.versions import BY_NAME, REVISIONS, Revision
from minimcp.schema import kind_of
from minimcp.schema.checker import DIALECTS
from minimcp.server.options import OPTIONS

from .conformance.suite import ENVIRONMENT, PACKAGE
from .interop.roster import PEERS, Asked
from .readme import PAGES, TEXT, blocks, rows, section, table
from .support import ROOT, WAIT, eventually

TYPES: Dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "None": None,
    "Any": Any,
    "list": List[int],
    "tuple": Tuple[int, str],
    "set": Set[int],
    "dict": Dict[str, int],
    "Optional": Optional[int],
    "Union": Union[int, str],
    "Literal": Literal["a"],
    "Enum": Enum("Colour", "red"),
    "TypedDict": TypedDict("TypedDict", {"a": int}),
    "NamedTuple": NamedTuple("NamedTuple", [("a", int)]),
    "NewType": NewType("NewType", int),
    "UUID": UUID,
    "Decimal": Decimal,
    "Path": Path,
}
"""The types of a parameter that examples/tools.rst names, and one type for each name."""


def test_the_listed_types_are_accepted() -> None:
    named = TEXT.split("You can use ", 1)[1].split(". Your function receives", 1)[0]
    assert re.findall("``(.+?)``", named) == list(TYPES)
    for annotation in TYPES.values():
        assert kind_of(annotation)
    with pytest.raises(TypeError, match="bytes have no JSON form"):
        kind_of(bytes)


def test_the_tree_of_errors_is_the_tree() -> None:
    shown: List[str] = []
    for line in blocks("tree")["errors"].splitlines():
        name, about = line.strip().partition(" ")[::2]
        depth = (len(line) - len(line.lstrip())) // 2
        kind = getattr(minimcp, name)
        parents = [each for each in kind.__mro__[1:] if each.__name__ in minimcp.__all__]
        assert [each.__name__ for each in parents] == shown[:depth][::-1], name
        shown[depth:] = [name]
        code = getattr(kind, "CODE", None)
        assert str(code) in about if code else "-32" not in about, name
        for builtin in (ConnectionError, TimeoutError):
            assert (builtin.__name__ in about) >= issubclass(kind, builtin), name
    listed = re.findall(r"^ *(\w+)", blocks("tree")["errors"], re.M)
    errors = [name for name in minimcp.__all__ if isinstance(getattr(minimcp, name), type)]
    assert sorted(listed) == [
        name for name in sorted(errors) if issubclass(getattr(minimcp, name), McpError)
    ]


RAISED: List[Tuple[Any, str, str]] = [
    (ToolError("words"), "ToolError: words", "InternalError: reference"),
    (minimcp.RpcError(7, "words"), "RpcError: words", "RpcError: words"),
    (ResourceNotFound("words"), "ToolError: words", "ResourceNotFound: words"),
    (ValueError("words"), "ToolError: words", "InternalError: reference"),
    (lacks("sampling", "words", REVISIONS[3]), "ToolError: words", "CapabilityNotSupported: words"),
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("raised", "tool", "other"), RAISED, ids=lambda row: getattr(type(row), "__name__", None)
)
def test_errors_are_seen_as_the_table_says(
    raised: Exception, tool: str, other: str, masked: bool
) -> None:
    server = Server("errors", mask_errors=masked)

    @server.tool
    @server.resource("a://b")
    @server.prompt
    def fail() -> str:
        """Fail."""
        raise raised

    @server.method("vendor/fail")
    def method(params: Dict[str, Any]) -> Dict[str, Any]:
        raise raised

    def seen(call: Callable[[], Any]) -> str:
        with pytest.raises(McpError) as error:
            call()
        words = (
            "reference" if "(reference " in str(error.value) else str(error.value).partition(" ")[0]
        )
        return f"{type(error.value).__name__}: {words}"

    with connect(server, revision="2025-11-25") as client:
        hidden = masked and isinstance(raised, ValueError)
        assert seen(lambda: client.call_tool("fail")) == (
            "ToolError: reference" if hidden else tool
        )
        assert seen(lambda: client.read_resource("a://b")) == other
        assert seen(lambda: client.get_prompt("fail")) == other
        assert seen(lambda: client.request("vendor/fail", {})) == other
        assert seen(lambda: client.call_tool("fail", {"param": 1})).startswith("ToolError: unknown")
        assert seen(lambda: client.get_prompt("fail", {"param": "1"})).startswith("InvalidParams: ")
    if isinstance(raised, minimcp.CapabilityNotSupported):
        with connect(server, revision="2026-07-28") as client:
            assert seen(lambda: client.call_tool("fail")) == other


def test_a_future_that_is_cancelled_raises_the_error_of_futures() -> None:
    server, begun = Server("slow"), threading.Event()

    @server.tool
    def slow(ctx: Context) -> None:
        """Wait."""
        begun.set()
        ctx.sleep(600)

    with connect(server) as client:
        future = client.submit(client.call_tool, "slow")
        assert begun.wait(WAIT) and future.cancel()
        with pytest.raises(CancelledError):
            future.result(WAIT)
    assert not issubclass(CancelledError, McpError)
    assert "``concurrent.futures.CancelledError``" in PAGES["examples/clients.rst"]


def test_the_documented_names_exist() -> None:
    owners: Dict[str, Any] = {
        "server": Server,
        "client": Client,
        "ctx": Context,
        "answer": minimcp.Answer("accept"),
    }
    owners.update(
        result=minimcp.CallToolResult(), token=minimcp.CancelToken, future=Future, Image=Image
    )
    functions: List[Any] = [
        connect,
        Server,
        minimcp.StdioServer,
        Client.call_tool,
        Server.mount,
        Client.complete,
    ]
    keywords = {name for function in functions for name in inspect.signature(function).parameters}
    keywords.update(connect.__kwdefaults__)
    keywords.update(name for options in OPTIONS.values() for name in options.__annotations__)
    seen = 0
    for side in ("server", "client"):
        for cell in (row[2] for row in table(TEXT.split(f"\n.. here: {side}\n", 1)[1])):
            for written in re.findall("``(.+?)``", re.sub('"[^"]*"', '""', cell)):
                for owner, name in re.findall(r"\b([a-z]+|Image)\.(\w+)", written):
                    if owner in owners:
                        assert hasattr(owners[owner], name), written
                        seen += 1
                for keyword in re.findall(r"\b(\w+)=", written):
                    assert keyword in keywords, written
                    seen += 1
                for name in re.findall(
                    r"(?<![\w.\"])([A-Z]\w+|connect\w*|current_context)(?=\(|$)", written
                ):
                    assert name in minimcp.__all__ or name in ("Field",), written
                    seen += 1
    assert seen > 60


def test_the_documented_http_options_are_accepted() -> None:
    """Run each line, with a server and a `connect` that accept only the parameters of the real
    ones."""
    names = {
        "server": create_autospec(Server),
        "connect": create_autospec(connect),
        "HttpServer": minimcp.HttpServer,
    }
    names.update(
        {name: getattr(minimcp, name) for name in ("SignIn", "ClientCredentials")},
        id="x",
        secret="y",
    )
    names.update(
        request=minimcp.HttpRequest("GET", "/mcp", {}),
        url="http://localhost/mcp",
        proxy="http://localhost:3128",
        issuer="https://login.example.com",
    )
    lines = [
        cells[0]
        for here in ("serving", "connecting")
        for cells in table(TEXT.split(f"here: {here}\n", 1)[1])
    ]
    assert len(lines) == 14
    for line in lines:
        eval(line.strip("`"), names)


def test_documented_exceptions_are_exceptions() -> None:
    named = table(TEXT.split("change only the exceptions that it raises:\n", 1)[1])
    kinds = re.findall("``(.+?)``", " ".join(cells[1] for cells in named))
    assert len(kinds) == 5 and all(issubclass(getattr(minimcp, kind), McpError) for kind in kinds)


def test_a_refusal_has_the_words_that_are_explained() -> None:
    files = [*ROOT.glob("minimcp/auth/*.py"), ROOT / "minimcp" / "http" / "client.py"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    explained = [cells[0] for cells in table(TEXT.split("No message contains a token.\n", 1)[1])]
    words = [
        part.strip()
        for cell in explained
        for said in re.findall("``(.+?)``", cell)
        for part in said.split("...")
    ]
    words = [each for each in words if each and each not in ("HTTP 401", "HTTP 403", "auth")]
    assert len(words) == 11 and not [each for each in words if each not in source]


def test_arguments_are_json_and_the_oldest_revisions_have_texts_alone() -> None:
    colour, server = Enum("colour", {"RED": "red"}), Server("paint")

    def mix(one: colour, day: date) -> Dict[str, str]:
        return {"one": one.name, "day": day.isoformat()}

    mix.__annotations__.update(one=colour, day=date)
    server.add_tool(mix)
    given = {"one": "red", "day": "2026-07-28"}
    for revision in REVISIONS:
        with connect(server, revision=revision.name) as client:
            result = client.call_tool("mix", given)
            with pytest.raises(TypeError):
                client.call_tool("mix", {**given, "day": date(2026, 7, 28)})
        assert result.text == '{"one":"RED","day":"2026-07-28"}'
        assert result.has_structured_content is (revision.structured != "none")
        assert (result.value == result.text) is not result.has_structured_content
    only = [revision.name for revision in REVISIONS if revision.structured == "none"]
    assert f"In revisions {' and '.join(only)}, tools return no structured content" in " ".join(
        TEXT.split()
    )


def test_the_suite_is_the_one_that_is_run() -> None:
    (version,) = re.findall(r"version ([\w.-]+),", section("Conformance"))
    assert ENVIRONMENT.packages == [f"{PACKAGE}@{version}"]
    assert all(
        cells[1] in BY_NAME and cells[0] in ("server", "client") for cells in rows("Conformance")
    )


def test_the_other_software_is_that_of_the_roster() -> None:
    def told(*sides: Tuple[Asked, ...]) -> str:
        return str(len({each.agreed for side in sides for each in side}) or "-")

    assert rows("Other software") == [
        [
            peer.name,
            peer.version,
            told(peer.serves),
            told(*peer.serves_at.values()),
            told(peer.speaks),
            told(*peer.speaks_at.values()),
        ]
        for peer in PEERS
    ]


def _amount(text: str) -> Any:
    number, _, unit = text.partition(" ")
    value = float(number)
    return value * (1 << 20) if unit == "MiB" else value


def test_every_limit_is_in_the_table_with_its_default() -> None:
    """The table has all fields of `Limits`, and the numbers of `HttpOptions` and `connect`."""
    of_connect = connect.__kwdefaults__
    numbers = [
        (name, amount, of)
        for of, given in (
            ("", vars(Limits())),
            ("HttpOptions", vars(minimcp.HttpOptions())),
            ("connect", of_connect),
        )
        for name, amount in given.items()
        if type(amount) in (int, float)
    ]
    told = [
        (name.strip("`"), _amount(amount), of)
        for name, amount, of, _ in rows("All limits")
        if amount != "off"
    ]
    sides = ("both", "server", "client")
    assert sorted(
        (name, amount, "" if of in sides else of.strip("`")) for name, amount, of in told
    ) == sorted(numbers)
    off = {name.strip("`") for name, amount, _, _ in rows("All limits") if amount == "off"}
    assert off == {
        "ping_interval",
        *(name for name, amount in vars(Limits()).items() if amount is None),
    }
    kept = {
        name
        for name, given in inspect.signature(Server).parameters.items()
        if type(given.default) in (int, float)
    }
    assert kept == {"list_ttl"}


FACTS: Dict[str, Callable[[Revision], str]] = {
    "Opening": lambda its: "handshake" if its.handshake else "none",
    "Batches": lambda its: _yes(its.batches),
    "Messages with progress": lambda its: _yes(its.progress_message),
    "Audio": lambda its: _yes("audio" in its.content_kinds),
    "Tool annotations": lambda its: _yes("annotations" in its.tool_members),
    "Completion as a capability": lambda its: _yes(its.completions_capability),
    "Completion sees other arguments": lambda its: _yes(its.completion_context),
    "Titles, links to resources": lambda its: _yes(
        {"title"} <= its.tool_members, "resource_link" in its.content_kinds
    ),
    "Structured results": lambda its: {"none": "text only", "object": "objects", "any": "any JSON"}[
        its.structured
    ],
    "Icons": lambda its: _yes("icons" in its.tool_members),
    "Forms for the user": lambda its: _yes(its.has("elicitation.form")),
    "URLs for the user": lambda its: _yes(its.has("elicitation.url")),
    "Questions to the model": lambda its: "with tools" if its.sampling_tools else "yes",
    "How a tool asks": lambda its: "a request" if its.requests_to_client else "its result",
    "Cache hints": lambda its: _yes(its.cache_hints),
}


def _yes(*facts: bool) -> str:
    assert len(set(facts)) == 1, "a row tells of facts that came together"
    return "yes" if facts[0] else "no"


def test_the_revisions_are_the_facts() -> None:
    head = section("What each revision has").split("===\n", 1)[1].splitlines()[0]
    assert re.split("  +", head)[1:] == [revision.name for revision in REVISIONS]
    assert rows("What each revision has") == [
        [what, *map(fact, REVISIONS)] for what, fact in FACTS.items()
    ]


@pytest.mark.requirement("JSCH-03", "M:SCH-3")
def test_the_dialects_of_schemas_are_named() -> None:
    named = TEXT.split("(dialects ", 1)[1].split(")", 1)[0]
    for uri in DIALECTS:
        version = uri.split("/draft")[1].strip("/-").split("/")[0].lstrip("0")
        assert version in named, uri


def test_functions_run_where_the_table_says() -> None:
    ran: Dict[str, List[threading.Thread]] = {}
    cancelled = threading.Event()

    def here(name: str) -> None:
        ran.setdefault(name, []).append(threading.current_thread())

    server = Server("threads", on_pump_needed=lambda: here("on_pump_needed"))

    @server.middleware
    def watch(ctx: Context, call_next: Callable[[], Any]) -> Any:
        here("middleware")
        return call_next()

    @server.tool
    def work(ctx: Context) -> str:
        """Work."""
        here("tool")
        ctx.step("once", lambda: here("step"))
        ctx.info("text")
        ctx.progress(1)
        return str(ctx.elicit("?", {"n": int}).content)

    @server.tool
    def wait(ctx: Context) -> None:
        """Wait."""
        ctx.on_cancel(lambda: (here("ctx.on_cancel"), cancelled.set()))
        here("waiting")
        ctx.progress(1)
        ctx.sleep(WAIT)

    @server.tool(executor="main")
    def main() -> None:
        """Run where it is pumped."""
        here("main")

    def elicit(request: Any) -> Dict[str, int]:
        here("elicit")
        return {"n": 1}

    def stop(report: Any) -> None:
        here("on_progress")
        token.cancel()

    changed = threading.Event()
    token = minimcp.CancelToken()
    token.on_cancel(lambda: here("token.on_cancel"))
    with connect(
        server,
        revision="2025-11-25",
        elicit=elicit,
        on_log=lambda message: here("on_log"),
        on_tools_changed=lambda: (here("on_tools_changed"), changed.set()),
    ) as client:
        client.call_tool("work", on_progress=lambda report: here("on_progress"))
        server.remove_tool("work")
        assert changed.wait(WAIT)
        with pytest.raises(minimcp.Cancelled):
            client.call_tool("wait", cancel=token, on_progress=stop)
        assert cancelled.wait(WAIT)
        pumped = client.submit(client.call_tool, "main", on_progress=lambda report: None)
        assert server.pump(WAIT) == 1
        pumped.result(WAIT)
        assert eventually(lambda: "on_pump_needed" in ran)
    mine = threading.current_thread()
    (tool,), (dispatcher,) = ran["tool"], set(ran["on_log"] + ran["on_tools_changed"])
    assert ran["middleware"][0] is tool is ran["step"][0]
    assert mine is ran["main"][0]
    assert set(ran["on_progress"]) == {mine} == set(ran["token.on_cancel"])
    others = [tool, dispatcher, *ran["elicit"], *ran["ctx.on_cancel"], *ran["on_pump_needed"]]
    assert mine not in others and len({tool, dispatcher, *ran["elicit"]}) == 3
    assert ran["ctx.on_cancel"][0] is not ran["waiting"][0]
    yours = rows("Where your functions run")
    named = {name for cells in yours for name in re.findall(r"[\w.]+", cells[0])}
    told = {
        "server.middleware",
        "ctx.step",
        "ctx.on_cancel",
        "elicit",
        "on_log",
        "on_progress",
        "on_pump_needed",
    }
    assert told - named == set()
