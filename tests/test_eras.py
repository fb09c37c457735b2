"""The two ways to agree on what is spoken, without a connection."""

from __future__ import annotations

import copy
import json
from typing import Any, Dict, List, Optional

import pytest
from minimcp.server.facts import Facts

from minimcp.engine.alarm import Alarm
from minimcp.engine.exchange import Exchange, Outlet
from minimcp.errors import InvalidParams, InvalidRequest, ProtocolViolation, UnsupportedRevision
from minimcp.protocol.eras import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    SERVER_KEY,
    VERSION_KEY,
    HandshakeEra,
    Peer,
    PerRequestEra,
    log_rank,
    refusal_before_session,
)
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision
from minimcp.server.tools import Tools

from .rows import for_each

MODERN = BY_NAME["2026-07-28"]
HANDSHAKES = [revision for revision in REVISIONS if revision.handshake]
INFO = {"name": "someone", "version": "1"}

ODD: List[Any] = [..., None, 5, []]
"""In the place of a text or an object; `...` leaves the member out."""


def names(revisions: Any) -> List[str]:
    return [revision.name for revision in revisions]


# ---------------------------------------------------------------- the peer


def test_a_peer_that_says_nothing() -> None:
    peer = Peer(MODERN)
    assert (peer.revision, peer.info, peer.capabilities, peer.log_rank) == (MODERN, {}, {}, None)
    assert repr(peer) == "<Peer 'unnamed' 2026-07-28>"
    assert repr(Peer(MODERN, info=INFO)) == "<Peer 'someone' 2026-07-28>"


@pytest.mark.requirement("M:BASE-14")
def test_only_a_handshake_has_a_session_to_keep_things_in() -> None:
    assert Peer(MODERN).session is None
    for revision in HANDSHAKES:
        one, other = Peer(revision), Peer(revision)
        assert one.session == {}
        assert one.session is not other.session


CAPABILITIES: Dict[str, Any] = {
    "tools": {},
    "logging": {"x": 1},
    "resources": {"listChanged": True, "subscribe": False, "odd": "yes", "list": []},
    "elicitation": {"url": {}, "form": None},
    "tasks": {"requests": {"tools": {"call": {}}}},
    "sampling": True,
    "roots": [],
    "prompts": None,
    "completions": "yes",
    "extensions": {"com.example/x": {}, "io.example/y": {"a": 1}},
}


SUPPORTED = {
    "tools": True,
    "logging": True,
    "tools.listChanged": False,
    "resources.listChanged": True,
    "resources.subscribe": False,
    "resources.odd": False,
    "resources.list": False,
    "resources.listChanged.more": False,
    "elicitation.url": True,
    "elicitation.form": False,
    "tasks.requests.tools.call": True,
    "tasks.requests.tools.other": False,
    "tasks.none.tools.call": False,
    "sampling": False,
    "sampling.tools": False,
    "roots": False,
    "prompts": False,
    "completions": False,
    "completions.x": False,
    "experimental": False,
    "": False,
    "ext:com.example/x": True,
    "ext:io.example/y": True,
    "ext:com.example/z": False,
    "ext:": False,
}


@pytest.mark.requirement("LIFE-14", "LIFE-15", "M:META-17")
def test_what_is_declared_is_an_object_or_a_part_that_is_true() -> None:
    peer = Peer(NEWEST_HANDSHAKE, capabilities=CAPABILITIES)
    assert {name: peer.supports(name) for name in SUPPORTED} == SUPPORTED
    assert not any(Peer(NEWEST_HANDSHAKE).supports(name) for name in SUPPORTED)


@pytest.mark.requirement("ELIC-02")
@pytest.mark.parametrize(
    ("declared", "supported"),
    [({}, True), ({"form": {}}, True), ({"url": {}}, False), ({"url": {}, "form": {}}, True), ({"form": True}, True),
     ({"url": {}, "form": True}, False), (None, False), (True, False), ([], False)],
)
def test_elicitation_without_a_mode_is_elicitation_by_forms(declared: Any, supported: bool) -> None:
    peer = Peer(NEWEST_HANDSHAKE, capabilities={"elicitation": declared})
    assert peer.supports("elicitation.form") is supported
    assert not Peer(NEWEST_HANDSHAKE).supports("elicitation.form")


def test_extensions_that_are_no_object_declare_nothing() -> None:
    for odd in (None, [], ["com.example/x"], "com.example/x", True):
        assert not Peer(MODERN, capabilities={"extensions": odd}).supports("ext:com.example/x")


# ---------------------------------------------------------------- levels


def test_levels_rise_in_the_order_of_the_specification() -> None:
    levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    assert list(LOG_LEVELS) == levels
    assert [log_rank(level) for level in levels] == list(range(8))
    assert log_rank("warn") == log_rank("warning")


def test_any_other_level_is_refused() -> None:
    odd: List[Any] = ["", "WARNING", "fatal", "trace", None, 3, True, [], {}]
    for level in odd:
        with pytest.raises(InvalidParams, match="^level is one of debug, info, "):
            log_rank(level)


# ---------------------------------------------------------------- the handshake, a server's half


def opening(**changes: Any) -> Dict[str, Any]:
    params = {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": INFO, **changes}
    return {name: value for name, value in params.items() if value is not ...}


@pytest.mark.requirement("LIFE-08", "LIFE-12")
@pytest.mark.parametrize("strict", [True, False])
def test_a_revision_that_is_served_is_agreed_on(strict: bool) -> None:
    for revision in HANDSHAKES:
        era = HandshakeEra.opened_by(opening(protocolVersion=revision.name), REVISIONS, strict=strict)
        assert era.revision is era.peer.revision is revision
        assert (era.peer.info, era.peer.capabilities) == (INFO, {"roots": {}})
        assert era.peer.log_rank == LOG_LEVELS["info"]
        assert not era.initialized
        assert era.instructions is None


@pytest.mark.requirement("LIFE-09", "LIFE-10", "M:VER-S13")
@for_each("wanted", ["1999-01-01", "2099-01-01", "2026-07-28", "", "2025-03-26"])
def test_any_other_gets_the_newest_that_has_a_handshake(wanted: str) -> None:
    served = [BY_NAME["2024-11-05"], BY_NAME["2025-06-18"], MODERN]
    era = HandshakeEra.opened_by(opening(protocolVersion=wanted), served, strict=False)
    assert era.revision.name == "2025-06-18"


@pytest.mark.requirement("LIFE-24")
@pytest.mark.parametrize("wanted", ["1999-01-01", "2026-07-28"])
def test_a_strict_server_refuses_it_and_names_what_it_speaks(wanted: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        HandshakeEra.opened_by(opening(protocolVersion=wanted), REVISIONS, strict=True)
    assert caught.value.data == {"supported": names(reversed(REVISIONS)), "requested": wanted}


@pytest.mark.requirement("LIFE-01", "LIFE-32")
@pytest.mark.parametrize("member", ["protocolVersion", "capabilities", "clientInfo"])
def test_what_must_be_there_is_named(member: str) -> None:
    for value in ODD:
        with pytest.raises(InvalidParams, match=f"^{member} is "):
            HandshakeEra.opened_by(opening(**{member: value}), REVISIONS, strict=False)


@pytest.mark.requirement("M:VER-S12")
@for_each("wanted", ["2025-06-18", "2026-07-28", None, 5])
def test_a_server_without_a_handshake_always_names_what_it_speaks(wanted: Any) -> None:
    with pytest.raises(UnsupportedRevision, match="2026-07-28") as caught:
        HandshakeEra.opened_by(opening(protocolVersion=wanted), [MODERN], strict=False)
    assert caught.value.data == {"supported": ["2026-07-28"], "requested": wanted}


# ---------------------------------------------------------------- the handshake, a client's half


@pytest.mark.requirement("LIFE-01")
def test_a_client_opens_with_what_a_handshake_knows() -> None:
    capabilities: Dict[str, Any] = {"roots": {}}
    params = HandshakeEra.opening(NEWEST_HANDSHAKE, {**INFO, "title": "T", "future": 1}, capabilities)
    assert params == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {**INFO, "title": "T"},
    }
    assert params["capabilities"] is not capabilities


def opened(**changes: Any) -> Dict[str, Any]:
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO, **changes}
    return {name: value for name, value in result.items() if value is not ...}


@pytest.mark.requirement("LIFE-02", "LIFE-29")
def test_a_result_opens_the_session() -> None:
    era = HandshakeEra.from_result(opened(instructions="Read me."), REVISIONS)
    assert era.revision is era.peer.revision is BY_NAME["2025-06-18"]
    assert (era.peer.info, era.peer.capabilities) == (INFO, {"tools": {}})
    assert (era.instructions, era.peer.log_rank) == ("Read me.", None)
    for odd in (..., None, 5, ["x"]):
        assert HandshakeEra.from_result(opened(instructions=odd), REVISIONS).instructions is None


@pytest.mark.requirement("LIFE-02")
@pytest.mark.parametrize("member", ["protocolVersion", "capabilities", "serverInfo"])
def test_a_result_that_lacks_what_it_must_have_is_no_answer(member: str) -> None:
    for value in ODD:
        result = opened(**{member: value})
        with pytest.raises(ProtocolViolation) as caught:
            HandshakeEra.from_result(result, REVISIONS)
        assert caught.value.peer_message is result


@pytest.mark.requirement("LIFE-06", "LIFE-11", "LIFE-23")
@for_each("name", ["2099-01-01", "2026-07-28", "2024-11-05", "forged\nline"])
def test_an_answer_in_a_revision_that_is_not_wanted_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedRevision) as caught:
        HandshakeEra.from_result(opened(protocolVersion=name), [BY_NAME["2025-06-18"], MODERN])
    assert not caught.value.from_peer
    assert caught.value.data == {"supported": [name], "requested": ["2025-06-18", "2026-07-28"]}
    assert "\n" not in str(caught.value)


def test_a_handshake_dresses_a_call_in_nothing_of_its_own() -> None:
    era = HandshakeEra(NEWEST_HANDSHAKE, Peer(NEWEST_HANDSHAKE))
    params = {"name": "x", "_meta": {"own": 1}}
    before = copy.deepcopy(params)
    assert era.dress(params, {}) == params
    assert era.dress({}, {}) == {}
    assert era.dress(params, {"progressToken": 7}) == {"name": "x", "_meta": {"own": 1, "progressToken": 7}}
    assert era.dress({}, {"progressToken": 7}) == {"_meta": {"progressToken": 7}}
    assert params == before
    assert era.dress(params, {}) is not params


def test_a_handshake_takes_every_result_as_it_is() -> None:
    era = HandshakeEra(NEWEST_HANDSHAKE, Peer(NEWEST_HANDSHAKE), "Read me.")
    result = {"resultType": "banana"}
    assert era.undress("tools/call", result) is result
    assert era.instructions == "Read me."


# ---------------------------------------------------------------- requests that stand alone, a server's half


def alone(method: str = "tools/call", **changes: Any) -> Request:
    meta = {VERSION_KEY: MODERN.name, CAPABILITIES_KEY: {"roots": {}}, CLIENT_KEY: INFO, **changes}
    return Request(1, method, {"_meta": {name: value for name, value in meta.items() if value is not ...}})


@pytest.mark.requirement("M:VER-S8")
@for_each(
    ("params", "enveloped"),
    [
        ({}, False),
        ({"_meta": {}}, False),
        ({"_meta": {"progressToken": 1}}, False),
        ({"_meta": {CAPABILITIES_KEY: {}}}, False),
        ({"_meta": [VERSION_KEY]}, False),
        ({"_meta": VERSION_KEY}, False),
        ({"_meta": None}, False),
        ({VERSION_KEY: MODERN.name}, False),
        ({"_meta": {VERSION_KEY: MODERN.name}}, True),
        ({"_meta": {VERSION_KEY: 5}}, True),
        ({"_meta": {VERSION_KEY: None}}, True),
    ],
)
def test_only_the_key_of_the_version_makes_an_envelope(params: Dict[str, Any], enveloped: bool) -> None:
    assert PerRequestEra.is_enveloped(Request(1, "tools/call", params)) is enveloped


@pytest.mark.requirement("M:META-1", "M:META-2")
def test_a_request_says_by_itself_who_sends_it() -> None:
    peer = PerRequestEra.admit(alone(), {MODERN.name: MODERN})
    assert (peer.revision, peer.info, peer.capabilities) == (MODERN, INFO, {"roots": {}})
    assert (peer.log_rank, peer.session) == (None, None)


@pytest.mark.requirement("M:META-5", "M:META-9", "M:META-10")
@for_each("info", [..., None, 5, [], "me"])
def test_who_the_client_is_need_not_be_said_nor_make_sense(info: Any) -> None:
    assert PerRequestEra.admit(alone(**{CLIENT_KEY: info}), {MODERN.name: MODERN}).info == {}


@pytest.mark.requirement("M:META-4", "M:META-6")
@for_each(
    ("changes", "said"),
    [
        ({VERSION_KEY: ...}, f"every request carries {VERSION_KEY} in params._meta"),
        ({CAPABILITIES_KEY: ...}, f"every request carries {CAPABILITIES_KEY} in params._meta"),
        (
            {VERSION_KEY: ..., CAPABILITIES_KEY: ...},
            f"every request carries {VERSION_KEY} and {CAPABILITIES_KEY} in params._meta",
        ),
        ({VERSION_KEY: 5}, f"{VERSION_KEY} is a string"),
        ({VERSION_KEY: None}, f"{VERSION_KEY} is a string"),
        ({VERSION_KEY: [MODERN.name]}, f"{VERSION_KEY} is a string"),
        ({CAPABILITIES_KEY: []}, f"{CAPABILITIES_KEY} is an object"),
        ({CAPABILITIES_KEY: None}, f"{CAPABILITIES_KEY} is an object"),
        ({VERSION_KEY: "2099", CAPABILITIES_KEY: ...}, f"every request carries {CAPABILITIES_KEY} in params._meta"),
    ],
)
def test_what_a_request_lacks_is_named(changes: Dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        PerRequestEra.admit(alone(**changes), {MODERN.name: MODERN})
    assert str(caught.value) == said


@pytest.mark.requirement("M:META-4")
@for_each("params", [{}, {"_meta": None}, {"_meta": [VERSION_KEY, CAPABILITIES_KEY]}, {"_meta": "x"}])
def test_without_an_object_as_meta_both_are_missing(params: Dict[str, Any]) -> None:
    request = Request(1, "tools/list", params)
    with pytest.raises(InvalidParams, match=f"^every request carries {VERSION_KEY} and {CAPABILITIES_KEY} "):
        PerRequestEra.admit(request, {MODERN.name: MODERN})
    refusal = refusal_before_session(request, per_request_served=True)
    assert type(refusal) is InvalidParams
    assert str(refusal).startswith(f"every request carries {VERSION_KEY} and {CAPABILITIES_KEY} ")


@pytest.mark.requirement("LIFE-30")
def test_where_only_handshakes_are_served_a_request_is_too_early() -> None:
    refusal = refusal_before_session(Request(1, "tools/list"), per_request_served=False)
    assert type(refusal) is InvalidRequest
    assert str(refusal) == "tools/list before initialize"


@pytest.mark.requirement("M:VER-S1", "M:VER-S2")
@for_each("version", ["2099-01-01", "2025-11-25", "", "x" * 1000])
def test_a_revision_that_is_not_served_is_refused_by_its_name(version: str) -> None:
    with pytest.raises(UnsupportedRevision) as caught:
        PerRequestEra.admit(alone(**{VERSION_KEY: version}), {MODERN.name: MODERN})
    assert caught.value.data == {"requested": version}
    assert len(str(caught.value)) < 100


@pytest.mark.requirement("M:LOG-1", "M:LOG-2")
def test_a_request_brings_its_level_along() -> None:
    assert PerRequestEra.admit(alone(**{LOG_LEVEL_KEY: "error"}), {MODERN.name: MODERN}).log_rank == 4
    for odd in ("fatal", *ODD[1:]):
        with pytest.raises(InvalidParams, match="^level is one of"):
            PerRequestEra.admit(alone(**{LOG_LEVEL_KEY: odd}), {MODERN.name: MODERN})


class Here(Outlet):
    """An outlet that hands the answer to whoever runs the exchange."""

    def begin(self, exchange: Exchange) -> None:
        return None

    def answer(self, exchange: Exchange, line: bytes) -> bytes:
        return line


@pytest.mark.requirement("M:META-16")
@for_each("revision", [REVISIONS[0], NEWEST_HANDSHAKE, MODERN])
@for_each(
    ("needed", "required"),
    [
        ("elicitation.url", {"elicitation": {"url": {}}}),
        ("sampling", {"sampling": {}}),
        ("ext:com.example/x", {"extensions": {"com.example/x": {}}}),
    ],
)
def test_what_the_client_lacks_is_named_as_the_capabilities_it_should_declare(
    revision: Revision, needed: str, required: Dict[str, Any]
) -> None:
    ran: List[str] = []
    tools = Tools(Facts(INFO), Alarm("test"))
    tools.add(lambda: ran.append("ran"), name="asks", description="Asks.", requires=[needed])

    def call(capabilities: Dict[str, Any]) -> Dict[str, Any]:
        request = Request(1, "tools/call", {"name": "asks"})
        peer = Peer(revision, capabilities=capabilities)
        line: Optional[bytes] = Exchange(request, peer, tools.route_of_call(request), Here()).run()
        assert line is not None
        found: Dict[str, Any] = json.loads(line)
        return found

    refused = call({"roots": {}})
    if revision.handshake:  # older clients do not know the code: their model is told in words
        assert refused["result"]["isError"] and needed in refused["result"]["content"][0]["text"]
    else:
        assert refused["error"]["code"] == -32021
        assert refused["error"]["data"] == {"requiredCapabilities": required}
    assert ran == []
    assert "result" in call(required)
    assert ran == ["ran"]


# ---------------------------------------------------------------- requests that stand alone, a client's half


def an_era(**envelope: Any) -> PerRequestEra:
    return PerRequestEra(MODERN, Peer(MODERN), envelope={VERSION_KEY: MODERN.name, CAPABILITIES_KEY: {}, **envelope})


@pytest.mark.requirement("M:META-1", "M:META-2", "M:META-3")
def test_the_envelope_says_what_every_request_must() -> None:
    capabilities: Dict[str, Any] = {"sampling": {}}
    assert PerRequestEra.envelope_for(MODERN, None, capabilities) == {
        VERSION_KEY: "2026-07-28",
        CAPABILITIES_KEY: {"sampling": {}},
    }
    envelope = PerRequestEra.envelope_for(MODERN, INFO, {})
    assert envelope == {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: INFO}
    assert envelope[CLIENT_KEY] is not INFO


def test_a_request_is_dressed_in_the_envelope_which_nobody_can_forge() -> None:
    era = an_era()
    own = {"own": 1, VERSION_KEY: "forged", "progressToken": "forged"}
    params = {"name": "x", "_meta": own}
    before = copy.deepcopy(params)
    assert era.dress(params, {"progressToken": 7}) == {
        "name": "x",
        "_meta": {"own": 1, "progressToken": 7, VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}},
    }
    assert params == before
    assert era.dress({}, {}) == {"_meta": era.envelope}
    assert era.dress({}, {})["_meta"] is not era.envelope


def test_an_era_without_an_envelope_is_a_servers() -> None:
    era = PerRequestEra(MODERN, Peer(MODERN), instructions="Read me.")
    assert (era.revision, era.envelope, era.instructions) == (MODERN, {}, "Read me.")


@pytest.mark.requirement("M:BASE-16")
@pytest.mark.parametrize("result", [{}, {"resultType": "complete"}, {"resultType": "complete", "x": 1}])
def test_a_complete_result_is_taken_as_it_is(result: Dict[str, Any]) -> None:
    assert an_era().undress("tools/call", result) is result


@pytest.mark.requirement("M:BASE-17", "M:BASE-18")
def test_any_other_kind_of_result_is_a_violation() -> None:
    kinds: List[Any] = ["banana", "inputRequired", "task", "", "Complete", None, 5, True, [], {}, ["complete"]]
    for kind in kinds:
        result: Dict[str, Any] = {"resultType": kind}
        with pytest.raises(ProtocolViolation, match="^a result of tools/call is complete, not ") as caught:
            an_era().undress("tools/call", result)
        assert caught.value.peer_message is result


def test_three_methods_may_ask_and_a_handshake_knows_no_such_result() -> None:
    asking: Dict[str, Any] = {"resultType": "input_required"}
    for method in ("tools/call", "prompts/get", "resources/read"):
        assert an_era().undress(method, asking) is asking
    for method in ("tools/list", "completion/complete", "server/discover", "x"):
        with pytest.raises(ProtocolViolation, match="is complete, not input_required"):
            an_era().undress(method, asking)
    assert an_era().is_asking(asking) and not an_era().is_asking({"resultType": "complete"})
    assert not an_era().is_asking({}) and not HandshakeEra(NEWEST_HANDSHAKE, Peer(NEWEST_HANDSHAKE)).is_asking(asking)


@pytest.mark.requirement("M:VER-C1")
@for_each(
    ("data", "adopted"),
    [
        ({"supported": ["2026-07-28"], "requested": "2026-07-28"}, True),
        ({"supported": ["2099-01-01", "2026-07-28", "2025-11-25"]}, True),
        ({"supported": [["2026-07-28"], 5, None, "2026-07-28"]}, True),
        ({"supported": ["2025-11-25"]}, False),
        ({"supported": ["2099-01-01"]}, False),
        ({"supported": []}, False),
        ({"supported": "2026-07-28"}, False),
        ({"supported": None}, False),
        ({}, False),
        (["2026-07-28"], False),
        (None, False),
    ],
)
def test_a_refused_revision_is_tried_once_more_where_the_server_names_one_of_ours(data: Any, adopted: bool) -> None:
    era = an_era(**{LOG_LEVEL_KEY: "info"})
    era.revision, era.envelope[VERSION_KEY] = NEWEST_HANDSHAKE, "draft"
    before = dict(era.envelope)
    assert era.adopt(UnsupportedRevision("no", data)) is adopted
    assert era.revision is (MODERN if adopted else NEWEST_HANDSHAKE)
    assert era.envelope == {**before, VERSION_KEY: "2026-07-28" if adopted else "draft"}


@pytest.mark.requirement("M:META-8")
def test_what_a_handler_says_about_the_server_wins_and_is_not_changed() -> None:
    facts = Facts(INFO)
    shared = {"_meta": {"own": 1}, "content": []}
    before = copy.deepcopy(shared)
    for _ in range(2):
        assert facts.closed(shared, MODERN)["_meta"] == {"own": 1, SERVER_KEY: INFO}
        assert shared == before
    named = {"_meta": {SERVER_KEY: {"name": "other"}}}
    assert facts.closed(named, MODERN)["_meta"] == {SERVER_KEY: {"name": "other"}}
    assert facts.closed({}, MODERN)["_meta"] == {SERVER_KEY: INFO}
    assert facts.closed(shared, NEWEST_HANDSHAKE) == before
