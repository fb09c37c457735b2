"""check: the rules about events, and the rule "cache" about two callers."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Set

import pytest

from minimcp import Bearer, Context, Server

from ..events.tickets import tickets
from ..web import DISCOVERED, Heard, Peer, Wire
from .conftest import Done

ID = "io.modelcontextprotocol/events"
KEY = "io.modelcontextprotocol/subscriptionId"
ROWS = [
    "EV-1",
    "EV-8",
    "EV-9",
    "EV-10",
    "EV-11",
    "EV-39",
    "EV-55",
    "EV-56",
    "EV-57",
    "EV-61",
    "EV-62",
    "EV-64",
]
TYPE: Dict[str, Any] = {
    "name": "t",
    "description": "A thing.",
    "delivery": ["poll", "push"],
    "inputSchema": {"type": "object"},
    "payloadSchema": {"type": "object"},
}
POLLED = {
    "events": [],
    "cursor": "a",
    "truncated": False,
    "hasMore": False,
    "nextPollMs": 5000,
}


class Odd:
    """A server with events over HTTP that follows the rules, except for one fault.

    Args:
        type: Members of its event type that are changed; None removes one.
        stream: Messages of a stream: methods with params. None as a method ends the stream.
        more: Other faults.
    """

    def __init__(
        self, type: Any = None, stream: Any = None, polled: Any = None, **more: Any
    ) -> None:
        changed = {**TYPE, **(type or {})}
        self.types = [{name: each for name, each in changed.items() if each is not None}]
        self.stream = stream or [
            ("active", {"cursor": "a", "truncated": False}),
            ("heartbeat", {"cursor": "a"}),
        ]
        self.polled = {**POLLED, **(polled or {})}
        self.more = more

    def answers(self) -> Dict[str, Callable[[Heard, Wire], Any]]:
        declared = {"tools": {}, "extensions": {ID: self.more.get("settings", {})}}
        if self.more.get("is_silent_about_events"):
            declared = {"tools": {}}
        listed = {"resultType": "complete", "events": self.types, **self.more.get("listed", {})}
        return {
            "server/discover": lambda heard, wire: wire.result(
                {**DISCOVERED, "capabilities": declared}
            ),
            "events/list": lambda heard, wire: wire.result(listed),
            "events/poll": lambda heard, wire: wire.result(self.polled),
            "events/stream": self._open,
        }

    def _open(self, heard: Heard, wire: Wire) -> None:
        if "refused" in self.more:
            wire.error(self.more["refused"])
            return
        wire.stream()
        meta = {"_meta": {KEY: self.more.get("id", wire.id)}}
        for method, params in self.stream:
            if method == "comment":
                wire.chunk(params)
            elif method is None:
                wire.answer({"resultType": "complete", **meta})
                wire.end()
            else:
                name = method if "/" in method else f"notifications/events/{method}"
                wire.event({"method": name, "params": {**params, **meta}})


ACTIVE = ("active", {"cursor": "a", "truncated": False})
BEAT = ("heartbeat", {"cursor": "a"})

FAULTS = [
    (Odd(), set()),
    (Odd(type={"delivery": ["webhook"]}), set()),
    (Odd(type={"inputSchema": {"type": "object", "required": ["a"]}}), set()),
    (Odd(refused=-32012), set()),
    (Odd(refused=-32024), set()),
    (Odd(stream=[ACTIVE, ("event", {"eventId": "1", "cursor": "b"}), BEAT]), set()),
    (Odd(stream=[ACTIVE, (None, {})]), set()),
    (Odd(stream=[("active", {"truncated": False}), ("heartbeat", {"cursor": None})]), set()),
    (Odd(is_silent_about_events=True), {"EV-1"}),
    (Odd(settings={"listChanged": "yes"}), {"EV-1"}),
    (Odd(listed={"nextCursor": 7}), {"EV-8"}),
    (Odd(type={"description": None}), {"EV-9"}),
    (Odd(type={"delivery": ["poll", "pigeon"]}), {"EV-10"}),
    (Odd(type={"delivery": []}), {"EV-10"}),
    (Odd(type={"payloadSchema": None}), {"EV-11"}),
    (Odd(type={"inputSchema": {"type": "array"}}), {"EV-11"}),
    (Odd(type={"_meta": [1]}), {"EV-11"}),
    (Odd(polled={"events": [{"eventId": "1"}]}), {"EV-39"}),
    (Odd(polled={"cursor": 7}), {"EV-39"}),
    (Odd(polled={"nextPollMs": "5"}), {"EV-39"}),
    (Odd(polled={"truncated": True}), {"EV-39"}),
    (Odd(refused=-32603), {"EV-55", "EV-56", "EV-57", "EV-61", "EV-62", "EV-64"}),
    (Odd(stream=[BEAT]), {"EV-55"}),
    (Odd(stream=[("active", {"cursor": 5}), BEAT]), {"EV-55"}),
    (Odd(stream=[ACTIVE, BEAT], id="other"), {"EV-56"}),
    (Odd(stream=[ACTIVE, ("notifications/progress", {}), BEAT]), {"EV-57"}),
    (Odd(stream=[ACTIVE]), {"EV-61"}),
    (Odd(stream=[ACTIVE, ("heartbeat", {})]), {"EV-62"}),
    (Odd(stream=[ACTIVE, ("comment", b": alive\n\n"), BEAT]), {"EV-64"}),
]


def outcomes(done: Done) -> Dict[str, str]:
    return {each["row"]: each["outcome"] for each in json.loads(done.out)}


def only(rows: List[str]) -> List[str]:
    return [word for row in rows for word in ("--only", row)]


@pytest.mark.parametrize(("odd", "rows"), FAULTS)
def test_each_breach_is_found_and_none_invented(
    odd: Odd, rows: Set[str], minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.cli.checks.MAX_SILENCE_SECONDS", 0.5)
    options = ["--revision", "2026-07-28", "--output", "json", *only(ROWS)]
    with Peer(odd.answers()) as peer:
        done = minimcp("check", peer.url, *options)
    found = outcomes(done)
    assert {row for row, outcome in found.items() if outcome in ("fail", "warn")} == rows, done
    assert set(found) == set(ROWS)
    assert "timeout" not in found.values()
    fails = {"EV-1", "EV-9", "EV-10", "EV-11", "EV-61"}
    assert done.code == int(bool(rows & fails))


def test_our_server_passes(minimcp: Callable[..., Done]) -> None:
    options = ["--revision", "2026-07-28", "--output", "json", *only(ROWS)]
    events = tickets(heartbeat=0.2)
    with events.server.start_http(port=0) as running:
        found = outcomes(minimcp("check", running.url, *options))
    assert found == dict.fromkeys(ROWS, "pass")


def test_our_server_passes_over_stdio(
    minimcp: Callable[..., Done], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ..support import ROOT
    from .test_events import PROGRAM

    text = PROGRAM.format(root=str(ROOT)).replace(
        "events = tickets(", "events = tickets(heartbeat=0.2, "
    )
    (tmp_path / "desk.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = minimcp("check", "desk.py", "--revision", "2026-07-28", "--output", "json", *only(ROWS))
    found = outcomes(done)
    assert found == {**dict.fromkeys(set(ROWS) - {"EV-57", "EV-64"}, "pass")}, done


# ---------------------------------------------------------------- two callers


def two_callers(**options: Any) -> Server:
    """A server whose lists and resources differ between the callers "a" and "b"."""
    tokens = {"a": {"sub": "ada", "scope": ""}, "b": {"sub": "bob", "scope": ""}}
    server = Server("s", auth=Bearer.static(tokens), **options)

    def is_ada(ctx: Context) -> bool:
        return ctx.auth is not None and ctx.auth.subject == "ada"

    @server.tool(visible=is_ada)
    def payroll() -> str:
        """Only for Ada."""
        return "x"

    @server.tool
    def clock() -> str:
        """For all."""
        return "x"

    @server.resource("mine://inbox")
    def inbox(ctx: Context) -> str:
        """The inbox of the caller."""
        return str(ctx.auth and ctx.auth.subject)

    return server


CACHE = ["--output", "json", "--only", "cache", "--revision", "2026-07-28"]


def test_what_differs_between_two_callers_is_private(minimcp: Callable[..., Done]) -> None:
    with two_callers().start_http(port=0) as running:
        done = minimcp("check", running.url, *CACHE, "--token", "a", "--token", "b")
        [found] = json.loads(done.out)
        assert (done.code, found["outcome"]) == (0, "pass"), done
        assert (
            found["evidence"] == "tools/list, resources/read mine://inbox differ, and are private"
        )
        done = minimcp("check", running.url, *CACHE, "--token", "a", "--token", "a")
        assert json.loads(done.out)[0]["evidence"] == "no result differs"
        done = minimcp("check", running.url, *CACHE, "--token", "a")
        [found] = json.loads(done.out)
        assert (found["outcome"], found["evidence"]) == ("n/a", "--token was not given twice")
        done = minimcp("check", running.url, *CACHE, "--token", "a", "--token", "wrong")
        assert done.code == 3, done


@pytest.mark.parametrize(
    ("method", "refuses"), [("tools/list", False), ("tools/list", True), ("server/discover", False)]
)
def test_a_public_result_that_differs_is_found(
    method: str, refuses: bool, minimcp: Callable[..., Done]
) -> None:
    def answer(heard: Heard, wire: Wire) -> None:
        is_first = heard.headers["authorization"] == "Bearer a"
        if refuses and not is_first:
            wire.error(-32600, status=403)
            return
        names = ["payroll", "clock"] if is_first else ["clock"]
        tools = [{"name": each, "inputSchema": {"type": "object"}} for each in names]
        more = {"tools": tools} if method == "tools/list" else {"instructions": names[0]}
        wire.result({**DISCOVERED, "cacheScope": "public", **more})

    with Peer({"tools/list": answer if method == "tools/list" else same, method: answer}) as peer:
        done = minimcp("check", peer.url, *CACHE, "--token", "a", "--token", "b")
    [found] = json.loads(done.out)
    assert (done.code, found["outcome"]) == (1, "fail"), done
    assert found["evidence"].startswith(f"{method} has the cacheScope 'public', but the callers")
    assert "payroll" in found["evidence"]


def test_later_pages_are_compared(minimcp: Callable[..., Done]) -> None:
    def answer(heard: Heard, wire: Wire) -> None:
        is_second = "cursor" in heard.message["params"]
        is_first_caller = heard.headers["authorization"] == "Bearer a"
        names = ["payroll"] if is_second and is_first_caller else ["clock"]
        tools = [{"name": each, "inputSchema": {"type": "object"}} for each in names]
        more = {} if is_second else {"nextCursor": "2"}
        wire.result({**DISCOVERED, "cacheScope": "public", "tools": tools, **more})

    with Peer({"tools/list": answer}) as peer:
        done = minimcp("check", peer.url, *CACHE, "--token", "a", "--token", "b")
    [found] = json.loads(done.out)
    assert (done.code, found["outcome"]) == (1, "fail"), done
    assert "payroll" in found["evidence"]


def same(heard: Heard, wire: Wire) -> None:
    wire.result({**DISCOVERED, "cacheScope": "public", "tools": []})


def test_what_changes_by_itself_is_not_a_finding(minimcp: Callable[..., Done]) -> None:
    count = [0]

    def answer(heard: Heard, wire: Wire) -> None:
        count[0] += 1
        tool = {"name": f"tool{count[0]}", "inputSchema": {"type": "object"}}
        wire.result({**DISCOVERED, "cacheScope": "public", "tools": [tool]})

    with Peer({"tools/list": answer}) as peer:
        done = minimcp("check", peer.url, *CACHE, "--token", "a", "--token", "b")
    assert json.loads(done.out)[0]["evidence"] == "no result differs", done
