"""How the scripted server says what it speaks, and what tools it has. Part of peer.py. Stdlib only."""

from __future__ import annotations

import select

from peer_process import leave, nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .peer import Peer

    Json = Dict[str, Any]


MODERN = "2026-07-28"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SERVER_INFO = {"name": "scripted", "version": "0"}


def discovered(peer: Peer, versions: List[str]) -> Json:
    """A discover result."""
    found = {
        "supportedVersions": versions,
        "capabilities": peer.script.get("capabilities", {"tools": {}, "logging": {}}),
        "ttlMs": 0,
        "cacheScope": "private",
        **({"instructions": peer.script["instructions"]} if "instructions" in peer.script else {}),
    }
    return {**found, **peer.script.get("more", {})}


def discover_modern(peer: Peer, request: Json) -> None:
    """A server of both eras."""
    peer.result(request, discovered(peer, [MODERN, *reversed(HANDSHAKE_VERSIONS)]))


def discover_older(peer: Peer, request: Json) -> None:
    """A server that knows the method and speaks older revisions only."""
    peer.result(request, discovered(peer, ["2025-06-18", "2025-03-26"]))


def discover_future(peer: Peer, request: Json) -> None:
    """A server that speaks a revision which is not written yet, and ours."""
    peer.result(request, discovered(peer, ["2099-01-01", MODERN]))


def discover_stranger(peer: Peer, request: Json) -> None:
    """A server that speaks nothing we know."""
    peer.result(request, discovered(peer, ["2099-01-01", "2098-01-01"]))


def discover_late(peer: Peer, request: Json) -> None:
    """Answer only when something else has been asked."""
    peer.late.append(request)


def discover_slow(peer: Peer, request: Json) -> None:
    """Take a fifth of a second for it."""
    select.select([], [], [], 0.2)
    discover_modern(peer, request)


def tell_late(peer: Peer) -> None:
    """Give the answers that are overdue."""
    for request in peer.late:
        discover_modern(peer, request)
    peer.late.clear()


DISCOVERS: Dict[str, Callable[[Peer, Json], None]] = {
    "modern": discover_modern,
    "older": discover_older,
    "future": discover_future,
    "stranger": discover_stranger,
    "late": discover_late,
    "slow": discover_slow,
    "silent": nothing,
    "exit": leave(1),
}


def shake(peer: Peer, request: Json, version: str) -> None:
    """The answer of `initialize`."""
    tell_late(peer)
    found = {
        "protocolVersion": version,
        "capabilities": peer.script.get("capabilities", {"tools": {}, "logging": {}}),
        "serverInfo": SERVER_INFO,
        **({"instructions": peer.script["instructions"]} if "instructions" in peer.script else {}),
    }
    peer.result(request, {**found, **peer.script.get("more", {})})


def agree(peer: Peer, request: Json) -> None:
    """Agree to what was offered, or counter with the newest."""
    asked = request["params"]["protocolVersion"]
    shake(peer, request, asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1])


def ping_first(peer: Peer, request: Json) -> None:
    """Ask for a sign of life, and for what nobody has, before the handshake is answered."""
    peer.send({"jsonrpc": "2.0", "id": request["id"], "method": "ping"})
    peer.send({"jsonrpc": "2.0", "id": "odd", "method": "sampling/createMessage", "params": {}})
    agree(peer, request)


def locked(peer: Peer, request: Json) -> None:
    """Refuse the handshake: the pipe was locked to the new era by the probe."""
    tell_late(peer)
    peer.error(request, -32022, {"supported": [MODERN], "requested": request["params"]["protocolVersion"]})


HANDSHAKES: Dict[str, Callable[[Peer, Json], None]] = {
    "agree": agree,
    "ping-first": ping_first,
    "locked": locked,
    "silent": nothing,
    "exit": leave(4),
    **{name: (lambda peer, request, name=name: shake(peer, request, name)) for name in HANDSHAKE_VERSIONS},
    **{
        name: (lambda peer, request, name=name: shake(peer, request, name)) for name in ("2099-01-01", MODERN)
    },
}


# ---------------------------------------------------------------- tools/list


def tool(name: str, **more: Any) -> Json:
    """A tool as it is listed."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def pages(cursors: List[str], sizes: List[int], last: Optional[Json] = None) -> Callable[[Peer, Json], None]:
    """A list in pages; `cursors[i]` asks for page i + 1."""

    def page(peer: Peer, request: Json) -> None:
        params = request.get("params", {})
        number = cursors.index(params["cursor"]) + 1 if "cursor" in params else 0
        found: Json = {"tools": [tool(f"t{number}-{index}") for index in range(sizes[number])]}
        found.update({"nextCursor": cursors[number]} if number < len(cursors) else last or {})
        peer.result(request, found)

    return page


def endless(peer: Peer, request: Json) -> None:
    """Another page after every page."""
    number = int(request.get("params", {}).get("cursor", "0"))
    peer.result(request, {"tools": [tool(f"t{number}")], "nextCursor": str(number + 1)})


def circle(peer: Peer, request: Json) -> None:
    """Pages that lead back to the first of them."""
    asked = request.get("params", {}).get("cursor")
    peer.result(request, {"tools": [], "nextCursor": {"a": "b", "b": "c"}.get(asked, "a")})


def slow_pages(peer: Peer, request: Json) -> None:
    """As `endless`, a twentieth of a second for each page."""
    select.select([], [], [], 0.05)
    endless(peer, request)


def raw_list(**result: Any) -> Callable[[Peer, Json], None]:
    """One fixed result."""
    return lambda peer, request: peer.result(request, dict(result))


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

LISTS: Dict[str, Callable[[Peer, Json], None]] = {
    "one": raw_list(tools=[tool("echo", description="says it again", **{"x-extra": [1]})], **{"x-more": 2}),
    "pages": pages(["next ", "", "\u00fc=&/?\u2028"], [2, 0, 5, 1]),
    "null-cursor": pages(["a"], [1, 1], {"nextCursor": None}),
    "same-cursor": raw_list(tools=[], nextCursor="again"),
    "circle": circle,
    "endless-pages": endless,
    "slow-pages": slow_pages,
    "silent": nothing,
    "schemas": raw_list(tools=[tool(name, outputSchema=SCHEMA) for name in ("structured", "echo", "fails")]),
    "no-list": raw_list(tools={"name": "x"}),
    "no-name": raw_list(tools=[{"inputSchema": {"type": "object"}}]),
    "odd-cursor": raw_list(tools=[], nextCursor=7),
    "banana": raw_list(tools=[], resultType="banana"),
    "input-required": raw_list(tools=[], resultType="input_required", inputRequests={}),
    "task": raw_list(tools=[], resultType="task"),
    "untyped": lambda peer, request: peer.send(
        {"jsonrpc": "2.0", "id": request["id"], "result": {"tools": []}}
    ),
    "refused": lambda peer, request: peer.error(request, -32601, message="Method not found"),
    "thousand": raw_list(tools=[tool(f"t{number}") for number in range(1000)]),
    "ten-thousand": lambda peer, request: peer.result(request, {"tools": [tool(f"t{n}") for n in range(10_000)]}),
}
