"""Breaches of the specification in an exchange: each breach is found, and none in a correct
exchange."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Tuple

import pytest

from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS
from minimcp.testing import Transcript, breaches

from ..requirements import REQUIREMENTS
from ..rows import for_each
from ..support import texts_kept_by

OLDEST, BATCHING, NEWEST = REVISIONS[0].name, REVISIONS[1].name, REVISIONS[-1].name
NOW = NEWEST_HANDSHAKE.name
META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTEN, STREAM = "subscriptions/listen", {"io.modelcontextprotocol/subscriptionId": 7}
DONE = {"resultType": "complete"}
TOOL = {"name": "x", "inputSchema": {"type": "object"}}

Line = Tuple[str, Any]


def ask(id: Any, method: str, /, **params: Any) -> Line:
    """A request of the client."""
    return "-->", {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def tell(method: str, /, **params: Any) -> Line:
    return "-->", {"jsonrpc": "2.0", "method": method, "params": params}


def answer(id: Any, /, **result: Any) -> Line:
    """A result of the server."""
    return "<--", {"jsonrpc": "2.0", "id": id, "result": result}


def back(line: Line) -> Line:
    """The same from the other side."""
    return "<--" if line[0] == "-->" else "-->", line[1]


def alone(id: Any, method: str, /, **params: Any) -> Line:
    """A stateless request of the client."""
    return ask(id, method, **params, _meta={**META, **params.pop("_meta", {})})


def session(
    revision: str = NOW, server: Any = None, client: Any = None, *, open: bool = True
) -> List[Line]:
    """The handshake."""
    everything = {"tools": {}, "logging": {}, "prompts": {}, "resources": {}, "completions": {}}
    declared = everything if server is None else server
    about = {"name": "x", "version": "1"}
    lines = [
        ask(0, "initialize", protocolVersion=revision, capabilities=client or {}, clientInfo=about),
        answer(0, protocolVersion=revision, capabilities=declared, serverInfo=about),
    ]
    return [*lines, tell("notifications/initialized")] if open else lines


def found(*lines: Line) -> List[str]:
    """The rows that are broken."""
    transcript = Transcript(judge=True)
    for arrow, message in lines:
        transcript(arrow, message if isinstance(message, str) else json.dumps(message))
    return [breach.row for _, breach in transcript.breaches()]


stateless = [
    alone(1, "server/discover"),
    answer(1, **DONE, supportedVersions=[NEWEST], capabilities={}, ttlMs=0, cacheScope="private"),
]
call = ask(1, "tools/call", name="x", _meta={"progressToken": "t"})
text = {"content": [{"type": "text", "text": "x"}]}


def progress(value: float, token: Any = "t") -> Line:
    return back(tell("notifications/progress", progressToken=token, progress=value))


BROKEN: Dict[str, Tuple[List[Line], List[str]]] = {
    "prints": ([*session(), ("<--", "Loading the model ...")], ["STDIO-04"]),
    "prints a number": ([*session(), ("<--", "5")], ["STDIO-04"]),
    "host prints": ([*session(), ("-->", "hello")], ["STDIO-05"]),
    "prints without a session": ([*stateless, ("<--", "x"), ("-->", "y")], ["M:STD-2", "M:STD-3"]),
    "jsonrpc": ([*session(), ("-->", {"id": 1, "method": "ping"})], ["BASE-01"]),
    "id": ([*session(), ask(1.5, "ping"), ask(None, "ping")], ["BASE-02", "BASE-02"]),
    "both": (
        [*session(), call, ("<--", {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}})],
        ["BASE-06"],
    ),
    "error": (
        [*session(), call, ("<--", {"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}})],
        ["BASE-07"],
    ),
    "result": ([*session(), call, ("<--", {"jsonrpc": "2.0", "id": 1, "result": []})], ["BASE-11"]),
    "params": (
        [*session(), ("-->", {"jsonrpc": "2.0", "method": "x/y", "params": []})],
        ["BASE-12"],
    ),
    "array": ([*session(), ("-->", [ask(1, "ping")[1]])], ["BATCH-15"]),
    "empty array": ([*session(BATCHING), ("-->", [])], ["STDIO-05"]),
    "array, stateless": ([*stateless, ("-->", [alone(2, "tools/list")[1]])], ["M:BASE-21"]),
    "id again": ([*session(), ask(1, "ping"), answer(1), ask(1, "ping")], ["BASE-04"]),
    "id again, stateless": (
        [*stateless, alone(2, "tools/list"), alone(2, "tools/list")],
        ["M:BASE-4"],
    ),
    "strange answer": (
        [*session(), ask(1, "ping"), answer("1"), answer(1), answer(1)],
        ["BASE-05", "BASE-05"],
    ),
    "early": ([ask(1, "tools/list")], ["LIFE-04"]),
    "too early": ([session()[0], ask(1, "tools/list")], ["LIFE-04"]),
    "not initialized": ([*session(open=False), ask(1, "tools/list")], ["LIFE-03"]),
    "server, early": (
        [*session(client={"roots": {}}, open=False), back(ask(1, "roots/list"))],
        ["LIFE-05"],
    ),
    "no clientInfo": ([ask(0, "initialize", protocolVersion=NOW, capabilities={})], ["LIFE-01"]),
    "no serverInfo": ([session()[0], answer(0, protocolVersion=NOW)], ["LIFE-02"]),
    "direction": (
        [*session(), ask(1, "sampling/createMessage"), back(ask(2, "tools/list"))],
        ["BASE-18"] * 2,
    ),
    "notice": (
        [*session(), back(tell("notifications/initialized")), tell("notifications/message")],
        ["BASE-18"] * 2,
    ),
    "a method that is gone": ([*stateless, alone(2, "ping")], ["M:ERR-8"]),
    "a server that asks": (
        [*stateless, back(ask(2, "ping")), back(answer(2))],
        ["M:BASE-9", "M:BASE-10"],
    ),
    "undeclared, asked": ([*session(server={}), ask(1, "prompts/list")], ["LIFE-13"]),
    "undeclared, subscribed": ([*session(), ask(1, "resources/subscribe", uri="a:b")], ["LIFE-13"]),
    "undeclared, asking": ([*session(), back(ask(1, "roots/list"))], ["LIFE-13"]),
    "undeclared, by URL": (
        [
            *session(client={"elicitation": {}}),
            back(ask(1, "elicitation/create", mode="url", message="", url="https://x")),
        ],
        ["LIFE-13"],
    ),
    "odd question": (
        [*session(client={"sampling": {}}), back(ask(1, "sampling/createMessage"))],
        ["SAMP-02"],
    ),
    "undeclared, told": (
        [
            *session(server={"tools": {}, "resources": {}}),
            *(
                back(tell(f"notifications/{name}"))
                for name in (
                    "tools/list_changed",
                    "message",
                    "resources/updated",
                )
            ),
        ],
        ["LIFE-15", "LOG-01", "RES-14"],
    ),
    "undeclared roots": (
        [*session(client={"roots": {}}), tell("notifications/roots/list_changed")],
        ["LIFE-15"],
    ),
    "no stream": ([*stateless, back(tell("notifications/tools/list_changed"))], ["M:SUB-4"]),
    "progress shrinks": (
        [*session(), call, progress(1), progress(1), progress(0.5)],
        ["PROG-04", "PROG-04"],
    ),
    "progress, unknown": ([*session(), call, progress(1, "u")], ["PROG-07"]),
    "progress, after": (
        [*session(), call, progress(1), answer(1, **text), progress(2)],
        ["PROG-11"],
    ),
    "progress, odd": (
        [*session(), call, back(tell("notifications/progress", progressToken="t"))],
        ["PROG-03"],
    ),
    "token": ([*session(), ask(1, "ping", _meta={"progressToken": 1.5})], ["PROG-01"]),
    "cancels what?": ([*session(), tell("notifications/cancelled", requestId=9)], ["CANC-02"]),
    "cancels nothing": ([*session(OLDEST), tell("notifications/cancelled")], ["CANC-01"]),
    "cancels the handshake": (
        [session()[0], tell("notifications/cancelled", requestId=0)],
        ["CANC-03"],
    ),
    "server cancels, stateless": (
        [*stateless, back(tell("notifications/cancelled", requestId=9))],
        ["M:CAN-2"],
    ),
    "no tools": ([*session(), ask(1, "tools/list"), answer(1)], ["TOOL-03"]),
    "no content": ([*session(), call, answer(1, isError=False)], ["TOOL-17"]),
    "no resultType": (
        [*stateless, alone(2, "tools/call", name="x"), answer(2, **text)],
        ["M:BASE-6"],
    ),
    "asks in a list": (
        [*stateless, alone(2, "tools/list"), answer(2, resultType="input_required")],
        ["M:MRTR-S1"],
    ),
    "no _meta": ([*stateless, ask(2, "tools/list")], ["M:META-1"]),
    "no capabilities": (
        [*stateless, ask(2, "tools/list", _meta={list(META)[0]: NEWEST})],
        ["M:META-2"],
    ),
}


@for_each("name", list(BROKEN))
def test_a_breach_is_found(name: str) -> None:
    lines, rows = BROKEN[name]
    assert found(*lines) == rows
    assert found(*map(back, lines)) == rows, "whichever side has the transcript"


SOUND: Dict[str, List[Line]] = {
    "nothing": [],
    "a session": [
        *session(client={"elicitation": {}, "roots": {"listChanged": True}}),
        call,
        progress(0),
        progress(1),
        answer(1, **text),
        back(
            ask(
                1,
                "elicitation/create",
                message="?",
                requestedSchema={"type": "object", "properties": {}},
            )
        ),
        back(answer(1, action="decline")),
        ask("1", "tools/list"),
        answer("1", tools=[TOOL]),
        tell("notifications/roots/list_changed"),
        tell("vendor/thing"),
        ask(2, "vendor/ask"),
        answer(2),
    ],
    "cancel and answer cross": [
        *session(),
        call,
        tell("notifications/cancelled", requestId=1),
        progress(1),
        answer(1, **text),
        tell("notifications/cancelled", requestId=1),
    ],
    "arrays where there are some": [
        *session(BATCHING),
        ("-->", [ask(1, "ping")[1], ask(2, "ping")[1]]),
        ("<--", [answer(2)[1], answer(1)[1]]),
    ],
    "arrays where nothing is said of them": [*session(OLDEST), ("-->", [ask(1, "ping")[1]])],
    "a probe that an old server refuses": [
        alone(1, "server/discover"),
        ("<--", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "?"}}),
        *session(),
        ask(1, "tools/list"),
        answer(1, tools=[]),
    ],
    "a probe that an old server misunderstands": [
        alone(1, "server/discover"),
        answer(1),
        *session(),
    ],
    "ping before all": [
        ask(1, "ping"),
        answer(1),
        *session(open=False),
        back(ask(1, "ping")),
        back(answer(1)),
    ],
    "a handshake that is refused": [
        session()[0],
        ("<--", {"jsonrpc": "2.0", "id": 0, "error": {"code": -32602, "message": "?"}}),
        *session(),
    ],
    "a revision that is not known here": [
        *session("2099-01-01"),
        ask(1, "x"),
        ask(1, "x"),
        answer(7),
        ("<--", "x"),
    ],
    "a task": [
        *session(),
        ask(1, "tools/call", name="x", task={}, _meta={"progressToken": 1}),
        answer(1, task={}),
        progress(1, 1),
    ],
    "without a session": [
        *stateless,
        alone(7, LISTEN, notifications={}),
        back(tell("notifications/subscriptions/acknowledged", _meta=STREAM)),
        back(tell("notifications/tools/list_changed", _meta=STREAM)),
        answer(7, **DONE, _meta=STREAM),
        back(tell("notifications/cancelled", requestId=7)),
        alone(8, "tools/call", name="x"),
        answer(8, resultType="input_required", requestState="s"),
    ],
    "an old client asks for completions": [
        *session(OLDEST, {}),
        ask(1, "completion/complete"),
        answer(1, completion={"values": []}),
    ],
    "an id that was cancelled": [
        *stateless,
        alone(2, "tools/list"),
        tell("notifications/cancelled", requestId=2),
        alone(2, "tools/list"),
    ],
    "limits of ours": [
        *session(),
        ("-->", '{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}'),
        answer(1),
        ("-->", "[" * 50 + "]" * 50),
        ask(2, "x", deep=json.loads("[" * 300 + "]" * 300)),
    ],
}
SOUND["limits of ours"].pop(-2)


@for_each("name", list(SOUND))
def test_a_correct_exchange_has_no_breach(name: str) -> None:
    assert found(*SOUND[name]) == []
    assert found(*map(back, SOUND[name])) == []


def test_unread_messages_are_not_breaches() -> None:
    transcript = Transcript(judge=True)
    for arrow, message in session():
        transcript(arrow, json.dumps(message))
    transcript.note("a line was too long", 0.0, lost=True)
    for arrow, message in (
        answer(5),
        progress(1),
        tell("notifications/cancelled", requestId=9),
        ("<--", 5),
    ):
        transcript(arrow, json.dumps(message))
    assert [breach.row for _, breach in transcript.breaches()] == ["STDIO-04"], (
        "what needs no history is told"
    )
    transcript = Transcript(judge=True)
    transcript.note("half of the handshake is lost", 0.0, lost=True)
    transcript("<--", "noise")
    transcript("-->", json.dumps(ask(1, "tools/list")[1]))
    assert transcript.breaches() == []


def test_every_row_is_one_of_the_manifest() -> None:
    with open(breaches.__file__, encoding="utf-8") as file:
        source = file.read()
    rows = re.findall(r"(?:M:)?[A-Z]+-[A-Z]?\d+", source.partition('"""\n\nfrom')[2])
    assert len(rows) > 60 and sorted(set(rows) - set(REQUIREMENTS)) == []
    for row in set(rows):
        assert (REQUIREMENTS[row].since == NEWEST) == row.startswith("M:")


def test_a_flood_of_requests_is_forgotten_and_nothing_wrong_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("minimcp.testing.breaches.MAX_REQUESTS", 10)
    transcript = Transcript(judge=True, entries=20)
    for number in range(100):
        ping = {"jsonrpc": "2.0", "id": f"flood-{number}", "method": "ping"}
        transcript("<--", json.dumps(ping))
    for number in range(100):
        response = {"jsonrpc": "2.0", "id": f"flood-{number}", "result": {}}
        transcript("-->", json.dumps(response))
    assert 0 < len(texts_kept_by(transcript, "flood-")) <= 20 + 11, "of entries, and of the judge"
    assert not [breach for _, breach in transcript.breaches() if "never asked" in breach.sentence]
