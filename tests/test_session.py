"""What a server admits on one connection, and what a client makes of the first answer, as tables."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Type

import pytest

from minimcp.errors import (
    ConnectionLost,
    InvalidParams,
    InvalidRequest,
    ProtocolViolation,
    RpcError,
    UnsupportedRevision,
    error_from_peer,
)
from minimcp.protocol.eras import CAPABILITIES_KEY, SERVER_KEY, VERSION_KEY
from minimcp.protocol.messages import Request
from minimcp.protocol.session import Offer, ServerSession, Verdict, judge_probe, server_info
from minimcp.protocol.versions import BY_NAME, REVISIONS, choose

from .rows import for_each

R1, R2, R3, R4, R5 = REVISIONS
MODERN = R5.name
HANDSHAKES = [R1.name, R2.name, R3.name, R4.name]


def session(names: Optional[List[str]] = None, **options: Any) -> ServerSession:
    return ServerSession(Offer(choose(names), **options))


def initialize(version: Any = "2025-06-18", **more: Any) -> Request:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}, **more}
    return Request(1, "initialize", params)


def enveloped(method: str = "tools/list", version: Any = MODERN) -> Request:
    return Request(2, method, {"_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {"roots": {}}}})


def bare(method: str = "tools/list") -> Request:
    return Request(3, method, {"_meta": {"progressToken": 3}})


# ---------------------------------------------------------------- the offer


def test_an_offer_is_read_in_the_ways_in_which_it_is_asked() -> None:
    offer = Offer(choose([R5.name, R2.name, R4.name]))
    assert offer.revisions == (R2, R4, R5)
    assert offer.names == [R5.name, R4.name, R2.name]
    assert offer.per_request == {R5.name: R5}
    assert offer.has_handshake
    assert not Offer([R5]).has_handshake
    assert Offer([R4]).per_request == {}
    assert (offer.strict_version, offer.accept_batches) == (False, False)


# ---------------------------------------------------------------- admitting


@pytest.mark.requirement("LIFE-08", "LIFE-12", "M:VER-S5")
@for_each("name", HANDSHAKES)
def test_initialize_opens_a_session_for_all_that_follows(name: str) -> None:
    served = session()
    peer = served.admit(initialize(name))
    assert peer.revision is BY_NAME[name]
    assert served.admit(bare()) is served.admit(bare("no/such")) is peer
    assert served.era is not None
    assert served.era.peer is peer


@pytest.mark.requirement("LIFE-31")
def test_a_session_is_opened_once() -> None:
    served = session()
    peer = served.admit(initialize())
    with pytest.raises(InvalidRequest, match="^this session is initialized already$"):
        served.admit(initialize("2025-11-25"))
    assert served.admit(bare()) is peer


def test_a_refused_initialize_opens_nothing() -> None:
    served = session()
    with pytest.raises(InvalidParams):
        served.admit(initialize(5))
    assert served.era is None
    assert served.admit(initialize()).revision is R3


@pytest.mark.requirement("LIFE-24")
def test_a_strict_server_refuses_what_it_does_not_speak() -> None:
    assert session().admit(initialize("1999-01-01")).revision is R4
    served = session(strict_version=True)
    with pytest.raises(InvalidParams) as caught:
        served.admit(initialize("1999-01-01"))
    assert caught.value.data["supported"] == [MODERN, *reversed(HANDSHAKES)]


@pytest.mark.requirement("M:VER-S4", "M:VER-S6", "M:VER-S7", "M:BASE-11")
def test_both_eras_are_served_side_by_side_and_learn_nothing_of_each_other() -> None:
    served = session()
    first = served.admit(enveloped())
    old = served.admit(initialize())
    second = served.admit(enveloped())
    assert first is not second
    assert first.revision is second.revision is R5
    assert first.capabilities == {"roots": {}}
    assert old.revision is R3
    assert old.capabilities == {}
    assert served.admit(bare()) is old


@pytest.mark.requirement("M:VER-S7")
def test_an_initialize_in_an_envelope_is_the_handshake_all_the_same() -> None:
    meta = enveloped().params["_meta"]
    assert session().admit(initialize(_meta=meta)).revision is R3


@pytest.mark.requirement("LIFE-30")
@for_each("names", [None, HANDSHAKES, [R4.name], [R4.name, MODERN]])
def test_a_ping_needs_no_session(names: Optional[List[str]]) -> None:
    served = session(names)
    assert served.admit(Request(1, "ping")).revision.handshake
    assert served.era is None


@pytest.mark.requirement("LIFE-30", "M:VER-S9", "M:META-4")
@for_each(
    ("names", "method", "kind", "said"),
    [
        (None, "tools/list", InvalidParams, VERSION_KEY),
        (None, "server/discover", InvalidParams, CAPABILITIES_KEY),
        ([MODERN], "tools/list", InvalidParams, VERSION_KEY),
        ([MODERN], "ping", InvalidParams, VERSION_KEY),
        (HANDSHAKES, "tools/list", InvalidRequest, "tools/list before initialize"),
        (HANDSHAKES, "server/discover", InvalidRequest, "before initialize"),
    ],
)
def test_a_request_that_belongs_to_no_era_is_refused(
    names: Optional[List[str]], method: str, kind: Type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        session(names).admit(bare(method))


@pytest.mark.requirement("M:VER-S12")
@pytest.mark.parametrize("version", ["2025-06-18", MODERN, None])
def test_a_server_without_a_handshake_answers_initialize_with_its_names(version: Any) -> None:
    with pytest.raises(UnsupportedRevision, match=MODERN) as caught:
        session([MODERN]).admit(initialize(version))
    assert caught.value.data == {"supported": [MODERN], "requested": version}


@pytest.mark.requirement("M:VER-S1", "M:VER-S2")
@for_each(
    ("names", "requested", "supported"),
    [
        (None, "2099-01-01", [MODERN, *reversed(HANDSHAKES)]),
        (None, "2025-11-25", [MODERN, "2025-06-18", "2025-03-26", "2024-11-05"]),
        ([MODERN], "2099-01-01", [MODERN]),
        (HANDSHAKES, MODERN, [*reversed(HANDSHAKES)]),
        (HANDSHAKES, "2025-11-25", ["2025-06-18", "2025-03-26", "2024-11-05"]),
    ],
)
def test_an_envelope_that_is_not_served_hears_what_is(
    names: Optional[List[str]], requested: str, supported: List[str]
) -> None:
    fresh, opened = session(names), session(names)
    if opened.offer.has_handshake:
        opened.admit(initialize())
    for served in (fresh, opened):
        with pytest.raises(UnsupportedRevision) as caught:
            served.admit(enveloped(version=requested))
        assert caught.value.data == {"supported": supported, "requested": requested}


# ---------------------------------------------------------------- arrays and errors without an id


@pytest.mark.requirement("BATCH-15", "BATCH-16")
def test_arrays_are_taken_in_sessions_that_have_them() -> None:
    for revision in (R1, R2, R3, R4):
        served = session()
        assert not served.takes_batches
        served.admit(initialize(revision.name))
        assert served.takes_batches is revision.batches is (revision in (R1, R2))
        assert session(accept_batches=True).takes_batches


@pytest.mark.requirement("BASE-20")
def test_an_error_names_no_id_as_the_session_does_it() -> None:
    assert not session().error_without_id
    assert not session(HANDSHAKES).error_without_id
    assert session([MODERN]).error_without_id
    for revision in (R1, R2, R3, R4):
        served = session()
        served.admit(initialize(revision.name))
        assert served.error_without_id is (revision is R4)


# ---------------------------------------------------------------- the client's verdict


def discovered(*versions: Any, **changes: Any) -> Dict[str, Any]:
    return {"supportedVersions": list(versions), "capabilities": {}, **changes}


def refused(*supported: Any, code: int = -32022) -> RpcError:
    return error_from_peer(code, "no", {"supported": list(supported), "requested": MODERN})


ALL, NEW, OLD = REVISIONS, (R5,), (R1, R2, R3, R4)

VERDICTS: List[Any] = [
    # answer, wanted, verdict, revision
    (discovered(MODERN), ALL, "per-request", R5),
    (discovered("2025-11-25", MODERN, "2099-01-01"), ALL, "per-request", R5),
    (discovered(MODERN), NEW, "per-request", R5),
    (discovered(MODERN, ttlMs=-1), ALL, "per-request", R5),
    (discovered("2025-11-25"), ALL, "handshake", None),
    (discovered("2025-11-25"), NEW, "fail", None),
    (discovered("2099-01-01"), ALL, "fail", None),
    (discovered("2025-11-25"), (R1, R5), "fail", None),
    *((odd, ALL, "handshake", None) for odd in ({}, discovered(), discovered(MODERN, 5), discovered([MODERN]))),
    (discovered(MODERN, capabilities=[]), ALL, "handshake", None),
    (discovered(MODERN, capabilities=None), ALL, "handshake", None),
    ({"supportedVersions": MODERN, "capabilities": {}}, ALL, "handshake", None),
    ({}, NEW, "fail", None),
    (refused(MODERN), ALL, "again", R5),
    (refused("2025-11-25", MODERN), NEW, "again", R5),
    (refused("2025-11-25"), ALL, "handshake", None),
    (refused("2025-11-25"), NEW, "fail", None),
    (refused("2099-01-01"), ALL, "fail", None),
    (refused(), ALL, "fail", None),
    (refused([], None, 5), ALL, "fail", None),
    (error_from_peer(-32022, "no"), ALL, "fail", None),
    (error_from_peer(-32022, "no", "text"), ALL, "fail", None),
    (error_from_peer(-32022, "no", {"supported": MODERN}), ALL, "fail", None),
    (refused(MODERN, code=-32020), ALL, "fail", None),
    (refused("2025-11-25", code=-32021), ALL, "fail", None),
    *((error_from_peer(code, "no"), ALL, "handshake", None) for code in (-32601, -32602, -32600, -32000, 0, 7)),
    (refused(MODERN, code=-32601), ALL, "handshake", None),
    (error_from_peer(-32601, "no"), NEW, "fail", None),
    (None, ALL, "handshake", None),
    (None, NEW, "fail", None),
    (ProtocolViolation("rule"), ALL, "handshake", None),
    (ConnectionLost("gone"), NEW, "fail", None),
]


@pytest.mark.requirement("M:VER-C1", "M:VER-C5", "M:VER-C6", "M:VER-C7", "M:VER-C8", "M:VER-C9", "M:VER-C22")
@for_each(("answer", "wanted", "verdict", "revision"), VERDICTS)
def test_the_table_of_verdicts(answer: Any, wanted: Any, verdict: str, revision: Any) -> None:
    found = judge_probe(answer, R5, wanted)
    assert type(found) is Verdict
    assert (found.next, found.revision) == (verdict, revision)
    assert (found.error is not None) is (verdict == "fail")


@pytest.mark.requirement("M:VER-C6")
@pytest.mark.parametrize("code", [-32020, -32021])
def test_an_error_of_the_new_era_is_handed_on_as_it_came(code: int) -> None:
    error = refused(code=code)
    assert judge_probe(error, R5, ALL).error is error


@pytest.mark.requirement("LIFE-23", "M:VER-C22")
@for_each(
    ("answer", "said"),
    [
        (None, "the server does not seem to speak 2026-07-28: it did not answer server/discover"),
        ({}, "the server does not seem to speak 2026-07-28: its answer to server/discover makes no sense"),
        (error_from_peer(-32601, "what?"), "it answered server/discover with: what? (-32601)"),
        (discovered("2025-11-25", "a\nb"), "the server speaks 2025-11-25, a\\nb; this client 2026-07-28"),
        (refused(), "the server speaks nothing that it would name; this client 2026-07-28"),
    ],
)
def test_a_failure_says_who_speaks_what(answer: Any, said: str) -> None:
    error = judge_probe(answer, R5, NEW).error
    assert type(error) is UnsupportedRevision
    assert not error.from_peer
    assert said in str(error)


def test_a_failure_has_both_sides_as_data() -> None:
    error: Any = judge_probe(discovered("2099-01-01"), R5, (R4, R5)).error
    assert error.data == {"supported": ["2099-01-01"], "requested": ["2025-11-25", "2026-07-28"]}


@pytest.mark.requirement("M:META-10")
def test_who_made_a_result_is_said_in_one_shape_or_not_at_all() -> None:
    table: List[Any] = [
        ({"_meta": {SERVER_KEY: {"name": "s", "version": "1"}}}, {"name": "s", "version": "1"}),
        ({"_meta": {SERVER_KEY: {"name": "s"}}}, {"name": "s"}),
        ({"_meta": {SERVER_KEY: {"name": 5}}}, None),
        ({"_meta": {SERVER_KEY: {}}}, None),
        ({"_meta": {SERVER_KEY: 5}}, None),
        ({"_meta": {SERVER_KEY: None}}, None),
        ({"_meta": {}}, None),
        ({"_meta": [SERVER_KEY]}, None),
        ({"_meta": None}, None),
        ({"serverInfo": {"name": "s"}}, None),
        ({}, None),
    ]
    assert [server_info(result) for result, _ in table] == [info for _, info in table]
