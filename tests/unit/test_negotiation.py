"""How a client finds out which revision to speak: every path through the opening, with a script as the server."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import minimcp
from minimcp.client.connect import MOST_PROBES, Plan, wanted_revisions
from minimcp.engine import timer

from ..answering import R1, R3, R4, R5, REVISIONS, Answering, discovered, error, initialized, result, silence
from ..support import WAIT, MovedTime


def agreed(answers: Dict[str, Any], **options: Any) -> "tuple[str, List[str]]":
    """The revision that was agreed on, and the methods that were sent."""
    server = Answering(answers)
    with minimcp.connect(server, **{"connect_timeout": WAIT, **options}) as client:
        return client.revision, server.pipe.methods()


OPENING = ["initialize", "notifications/initialized"]


def test_what_is_wanted() -> None:
    assert [each.name for each in wanted_revisions("auto")] == list(REVISIONS)
    assert [each.name for each in wanted_revisions("handshake")] == list(REVISIONS[:-1])
    assert [each.name for each in wanted_revisions(R3)] == [R3]
    with pytest.raises(ValueError, match="2099-01-01"):
        wanted_revisions("2099-01-01")
    plan = Plan(wanted_revisions("auto"), {}, {}, {}, 1)
    assert plan.per_request is not None and plan.per_request.name == R5
    assert plan.handshake is not None and plan.handshake.name == R4
    assert plan.without_probe().per_request is None
    assert Plan(wanted_revisions(R5), {}, {}, {}, 1).handshake is None


@pytest.mark.requirement("M:VER-C4")
def test_a_server_that_takes_the_probe() -> None:
    assert agreed({"server/discover": discovered(instructions="Read me.")}) == (R5, ["server/discover"])
    server = Answering({"server/discover": discovered(instructions=5)})
    with minimcp.connect(server) as client:
        assert client.instructions is None and client.server_info is None


@pytest.mark.requirement("M:VER-C5", "M:VER-C7", "M:VER-C8", "M:VER-C9")
@pytest.mark.parametrize(
    "answer", [error(-32601), error(-32600), discovered(R4, R3), error(-32022, data={"supported": [R3]}), result()]
)
def test_a_server_that_wants_the_handshake(answer: Any) -> None:
    assert agreed({"server/discover": answer}) == (R4, ["server/discover", *OPENING])


@pytest.mark.requirement("M:VER-C23")
def test_without_a_probe() -> None:
    assert agreed({}, revision="handshake") == (R4, OPENING)
    assert agreed({"initialize": initialized(R1)}, revision=R1) == (R1, OPENING)
    assert agreed({"initialize": initialized(R3)}, revision="handshake") == (R3, OPENING)


@pytest.mark.requirement("M:VER-C5", "M:VER-C24")
def test_a_silent_server_gets_the_handshake() -> None:
    assert agreed({"server/discover": silence}, probe_timeout=0.02) == (R4, ["server/discover", *OPENING])


@pytest.mark.requirement("M:VER-C12")
def test_a_slow_server_that_has_taken_the_probe_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = MovedTime()
    monkeypatch.setattr(timer, "time", moved)

    def slow(message: Dict[str, Any]) -> None:
        moved.ahead += 2 * WAIT

    answers = {
        "server/discover": [slow, discovered()], "initialize": error(-32022, data={"supported": [R5]}),
    }
    revision, methods = agreed(answers, probe_timeout=WAIT, connect_timeout=6 * WAIT)
    assert revision == R5 and methods == ["server/discover", "initialize", "server/discover"]


def test_no_second_probe_when_the_revision_is_wrong_by_our_own_count() -> None:
    answers = {"server/discover": silence, "initialize": initialized("1999-01-01")}
    with pytest.raises(minimcp.UnsupportedRevision, match="1999-01-01"):
        agreed(answers, probe_timeout=0.02)


def test_a_server_that_refuses_what_it_names() -> None:
    server = Answering({"server/discover": error(-32022, data={"supported": [R5]})})
    with pytest.raises(minimcp.UnsupportedRevision, match="itself"):
        minimcp.connect(server, connect_timeout=WAIT)
    assert server.pipe.methods() == ["server/discover"] * MOST_PROBES


@pytest.mark.parametrize("answer", [error(-32601), discovered(R4), error(-32022, data={"supported": ["1999-01-01"]})])
def test_nothing_in_common(answer: Any) -> None:
    with pytest.raises(minimcp.UnsupportedRevision):
        agreed({"server/discover": answer}, revision=R5)


def test_initialize_is_refused() -> None:
    with pytest.raises(minimcp.UnsupportedRevision) as caught:
        agreed({"initialize": error(-32602, "Unsupported protocol version", {"supported": [R1]})}, revision=R3)
    assert R1 in str(caught.value) and caught.value.code == -32602 and caught.value.from_peer
    for data in ({"other": 1}, None):
        with pytest.raises(minimcp.ConnectionFailed, match="refused initialize"):
            agreed({"initialize": error(-32603, "not today", data)}, revision=R3)
    with pytest.raises(minimcp.ProtocolViolation):
        agreed({"initialize": result()}, revision=R3)


@pytest.mark.requirement("M:VER-C11")
def test_an_answer_of_initialize_that_never_comes_is_not_cancelled() -> None:
    server = Answering({"initialize": silence})
    with pytest.raises(minimcp.RequestTimeout):
        minimcp.connect(server, revision="handshake", connect_timeout=0.02)
    assert server.pipe.methods() == ["initialize"]


def test_the_name_is_told_in_the_words_of_the_handshake() -> None:
    server = Answering({"server/discover": error(-32601)})
    with minimcp.connect(server, client_info={"name": "me", "version": "1", "title": "I"}):
        opening = server.pipe.messages[1]["params"]
    assert opening["clientInfo"] == {"name": "me", "version": "1", "title": "I"} and opening["protocolVersion"] == R4
