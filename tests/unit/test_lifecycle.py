"""The two eras without a connection: the admission by a server, and the requests of a client after
the first response."""

from __future__ import annotations

import sys
from typing import Any, Optional

import pytest

from minimcp import (
    ConnectionLost,
    InvalidParams,
    InvalidRequest,
    ProtocolViolation,
    RpcError,
    UnsupportedRevision,
)
from minimcp.errors import error_from_peer
from minimcp.protocol.lifecycle import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    LISTEN,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    SERVER_KEY,
    VERSION_KEY,
    Handshake,
    Negotiation,
    Peer,
    PerRequest,
    SupportedRevisions,
    judge_probe,
    lacks,
    log_rank,
    server_info,
)
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS, choose

from ..rows import for_each

R1, R2, R3, R4, R5 = REVISIONS
ALL, NEW, OLD = REVISIONS, (R5,), REVISIONS[:4]
MODERN, HANDSHAKES = R5.name, [revision.name for revision in OLD]
INFO = {"name": "someone", "version": "1"}

ODD: list[Any] = [..., None, 5, []]
"""Values instead of a string or an object; `...` leaves the member out."""


def without_gaps(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not ...}


# ---------------------------------------------------------------- the peer

CAPABILITIES: dict[str, Any] = {
    "tools": {}, "logging": {"x": 1}, "resources": {"listChanged": True, "subscribe": False, "odd": "yes", "list": []},
    "tasks": {"requests": {"tools": {"call": {}}}}, "sampling": True, "roots": [], "prompts": None,
    "completions": "yes", "extensions": {"com.example/x": {}, "io.example/y": True},
}  # fmt: skip
SUPPORTED = {
    "tools",
    "logging",
    "resources.listChanged",
    "tasks.requests.tools.call",
    "ext:com.example/x",
}
UNSUPPORTED = {
    "tools.listChanged", "resources.subscribe", "resources.odd", "resources.list", "resources.listChanged.more",
    "tasks.requests.tools.other", "tasks.none.tools.call", "sampling", "sampling.tools", "roots", "prompts",
    "completions", "completions.x", "experimental", "", "ext:io.example/y", "ext:com.example/z", "ext:",
    "elicitation.form",
}  # fmt: skip


@pytest.mark.requirement("LIFE-14", "LIFE-15", "M:META-17", "M:BASE-14", "M:EXT-10")
def test_a_capability_is_an_object_or_a_part_that_is_true() -> None:
    peer = Peer(R4, capabilities=CAPABILITIES)
    assert {name for name in SUPPORTED | UNSUPPORTED if peer.supports(name)} == SUPPORTED
    assert not any(Peer(R4).supports(name) for name in SUPPORTED)
    assert not any(
        Peer(R5, capabilities={"extensions": odd}).supports("ext:x")
        for odd in (None, ["x"], "x", True)
    )
    assert repr(Peer(R5)) == "<Peer 'unnamed' 2026-07-28>" and repr(Peer(R4, info=INFO)).startswith(
        "<Peer 'someone'"
    )
    assert (
        Peer(R5).session_data is None
        and Peer(R4).session_data == {}
        and Peer(R4).session_data is not peer.session_data
    )


@pytest.mark.requirement("ELIC-02")
@for_each(
    ("declared", "supported"),
    [
        ({}, True),
        ({"form": {}}, True),
        ({"url": {}}, False),
        ({"url": {}, "form": {}}, True),
        ({"form": True}, True),
        ({"url": {}, "form": True}, False),
        (None, False),
        (True, False),
        ([], False),
    ],
)
def test_elicitation_without_a_mode_is_elicitation_by_forms(declared: Any, supported: bool) -> None:
    assert (
        Peer(R4, capabilities={"elicitation": declared}).supports("elicitation.form") is supported
    )


@pytest.mark.requirement("M:META-16")
def test_a_missing_capability_is_named_as_it_would_be_declared() -> None:
    for name, required, told in (
        ("sampling", {"sampling": {}}, "sampling, such as connect(..., sample=f)"),
        (
            "elicitation.url",
            {"elicitation": {"url": {}}},
            "elicitation.url, such as connect(..., elicit=f)",
        ),
        (
            "ext:com.example/x",
            {"extensions": {"com.example/x": {}}},
            "the extension com.example/x, such as connect(..., extensions=[...])",
        ),
    ):
        error = lacks(name, "the tool", R5)
        assert (error.code, error.data) == (-32021, {"requiredCapabilities": required})
        without = f"; if the server can work without it, test ctx.client.supports({name!r}) first"
        assert str(error) == f"the tool needs a client with {told}{without}"
    told = "the tool needs a client with elicitation: 2024-11-05 does not have it; these revisions do: 2025-06-18, 2025-11-25, 2026-07-28"
    assert str(lacks("elicitation", "the tool", R1)) == told


@pytest.mark.requirement("SEED-08")
def test_log_levels_have_a_rank() -> None:
    levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    assert list(LOG_LEVELS) == levels and [log_rank(level) for level in levels] == list(range(8))
    assert log_rank("warn") == log_rank("warning")
    for level in ("", "WARNING", "fatal", None, 3, True, [], {}):
        with pytest.raises(InvalidParams, match="^level must be one of debug, info, "):
            log_rank(level)


# ---------------------------------------------------------------- a server's session


def session(names: Optional[list[str]] = None, **options: Any) -> Negotiation:
    return Negotiation(SupportedRevisions(choose(names), **options))


def initialize(protocolVersion: Any = "2025-06-18", **changes: Any) -> Request:
    params = {
        "protocolVersion": protocolVersion,
        "capabilities": {"roots": {}},
        "clientInfo": INFO,
        **changes,
    }
    return Request(1, "initialize", without_gaps(params))


def enveloped(method: str = "tools/list", **changes: Any) -> Request:
    meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {"roots": {}}, CLIENT_KEY: INFO, **changes}
    return Request(2, method, {"_meta": without_gaps(meta)})


def bare(method: str = "tools/list") -> Request:
    return Request(3, method, {"_meta": {"progressToken": 3}})


def weight(value: Any) -> int:
    inside = (
        [*value, *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    )
    return sys.getsizeof(value) + sum(map(weight, inside))


@for_each(
    "junk",
    [{}, [], "x" * 50, "\U0001f600" * 9, {"a": 1}, [[[]]], 10**200, 1.5, {"b": ["c", {"d": None}]}],
)
def test_data_of_a_client_is_bounded_in_memory(junk: Any) -> None:
    many = {str(number): junk for number in range(1000)}
    described = {**many, "icons": [junk] * 1000, **INFO, "description": "x" * 9000}
    declared = {
        **many,
        "experimental": {"y": many},
        "extensions": {"a/b": [junk] * 1000},
        "roots": {},
    }
    peers = [
        session().admit(initialize(clientInfo=described, capabilities=declared)),
        session([MODERN]).admit(
            enveloped(LISTEN, **{CLIENT_KEY: described, CAPABILITIES_KEY: declared})
        ),
    ]
    for peer in peers:
        assert weight(peer.info) < 40_000 and weight(peer.capabilities) < 40_000
        assert (
            peer.info["name"] == INFO["name"]
            and peer.supports("roots")
            and not peer.supports("ext:a/b")
        )


@pytest.mark.requirement("LIFE-09", "LIFE-10", "LIFE-24", "M:VER-S13")
@for_each("wanted", ["1999-01-01", "2099-01-01", MODERN, "", "2025-03-26"])
def test_an_unknown_revision_is_answered_with_the_newest_or_refused(wanted: str) -> None:
    names = [R1.name, R3.name, MODERN]
    assert session(names).admit(initialize(wanted)).revision is R3
    assert session(names, strict_version=True).admit(initialize(R1.name)).revision is R1
    with pytest.raises(InvalidParams) as caught:
        session(names, strict_version=True).admit(initialize(wanted))
    assert caught.value.data == {"supported": [MODERN, R3.name, R1.name], "requested": wanted}


@pytest.mark.requirement("LIFE-32")
@for_each(
    ("member", "value"),
    [
        (member, value)
        for member in ("protocolVersion", "clientInfo", "capabilities")
        for value in ODD
        if (member, value) != ("capabilities", [])  # an empty object, as PHP writes it
    ],
)
def test_initialize_names_the_member_that_is_wrong(member: str, value: Any) -> None:
    served = session()
    with pytest.raises(InvalidParams, match=f"^{member} must be "):
        served.admit(initialize(**{member: value}))
    assert served.era is None


@pytest.mark.requirement("M:VER-S12")
@for_each("version", ["2025-06-18", MODERN, None, 5])
def test_a_server_without_a_handshake_answers_initialize_with_its_revisions(version: Any) -> None:
    with pytest.raises(UnsupportedRevision, match=MODERN) as caught:
        session([MODERN]).admit(initialize(version))
    assert caught.value.data == {"supported": [MODERN], "requested": version}
    assert session([MODERN]).admit(enveloped("initialize")).revision is R5, (
        "which has no such method"
    )


@pytest.mark.requirement(
    "M:VER-S4", "M:VER-S5", "M:VER-S6", "M:VER-S7", "M:BASE-11", "M:META-1", "M:META-2"
)
def test_both_eras_are_served_on_one_connection() -> None:
    served = session()
    first, old, second = (
        served.admit(enveloped()),
        served.admit(initialize(capabilities={})),
        served.admit(enveloped()),
    )
    assert first is not second and (first.revision, second.revision) == (R5, R5)
    assert (first.info, first.capabilities, first.log_rank) == (INFO, {"roots": {}}, None)
    assert (old.revision, old.capabilities, old.log_rank) == (R3, {}, LOG_LEVELS["info"])
    assert served.admit(bare()) is old
    assert session().admit(initialize(_meta=enveloped().params["_meta"])).revision is R3


@pytest.mark.requirement("LIFE-30", "M:VER-S9", "M:META-4")
@for_each(
    ("names", "method", "kind", "message"),
    [
        (None, "tools/list", InvalidParams, VERSION_KEY),
        (None, "server/discover", InvalidParams, CAPABILITIES_KEY),
        ([MODERN], "ping", InvalidParams, VERSION_KEY),
        (HANDSHAKES, "tools/list", InvalidRequest, "^tools/list before initialize$"),
        (HANDSHAKES, "server/discover", InvalidRequest, "before initialize"),
    ],
)
def test_a_request_before_initialize_is_refused(
    names: Any, method: str, kind: Any, message: str
) -> None:
    served = session(names)
    with pytest.raises(kind, match=message):
        served.admit(bare(method))
    if names != [MODERN]:
        assert served.admit(Request(1, "ping")).revision.handshake and served.era is None


@pytest.mark.requirement("M:META-4", "M:META-6")
@for_each(
    ("changes", "message"),
    [
        (
            {VERSION_KEY: "2099", CAPABILITIES_KEY: ...},
            f"every request must have {CAPABILITIES_KEY} in params._meta, or come after initialize",
        ),
        *(({VERSION_KEY: odd}, f"{VERSION_KEY} must be a string") for odd in (5, None, [MODERN])),
        *(
            ({CAPABILITIES_KEY: odd}, f"{CAPABILITIES_KEY} must be an object")
            for odd in ("x", None)
        ),
        *(
            ({LOG_LEVEL_KEY: odd}, f"level must be one of {', '.join(LOG_LEVELS)}")
            for odd in ("fatal", 5)
        ),
    ],
)
def test_the_error_for_an_envelope_names_the_wrong_member(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        session().admit(enveloped(**changes))
    assert str(caught.value) == message


@pytest.mark.requirement("M:VER-S8", "M:META-4")
@for_each(
    "params",
    [{}, *({"_meta": odd} for odd in ({}, None, "x", [VERSION_KEY], {CAPABILITIES_KEY: {}}))],
)
def test_the_key_of_the_version_makes_an_envelope(params: dict[str, Any]) -> None:
    request = Request(1, "tools/list", params)
    assert not PerRequest.carries_metadata(request) and PerRequest.carries_metadata(
        enveloped(**{VERSION_KEY: None})
    )
    with pytest.raises(
        InvalidParams, match=f"^every request must have {VERSION_KEY} (and {CAPABILITIES_KEY} )?in "
    ):
        session().admit(request)


@pytest.mark.requirement("M:META-5", "M:META-9", "M:META-10", "M:LOG-1", "M:LOG-2")
def test_an_envelope_may_have_client_info_and_a_log_level() -> None:
    for info in (*ODD, "me"):
        assert session().admit(enveloped(**{CLIENT_KEY: info})).info == {}
    assert session().admit(enveloped(**{LOG_LEVEL_KEY: "error"})).log_rank == 4


@pytest.mark.requirement("M:VER-S1", "M:VER-S2")
@for_each(
    ("names", "requested", "supported"),
    [
        (None, "2099-01-01", [MODERN, *reversed(HANDSHAKES)]),
        (None, "2025-11-25", [MODERN, "2025-06-18", "2025-03-26", "2024-11-05"]),
        ([MODERN], "x" * 1000, [MODERN]),
        (HANDSHAKES, MODERN, [*reversed(HANDSHAKES)]),
    ],
)
def test_a_revision_that_is_not_served_is_refused(
    names: Any, requested: str, supported: Any
) -> None:
    for served in (session(names), session(names)):
        with pytest.raises(UnsupportedRevision) as caught:
            served.admit(enveloped(**{VERSION_KEY: requested}))
        assert caught.value.data == {"supported": supported, "requested": requested}
        assert len(str(caught.value)) < 100


@pytest.mark.requirement("BATCH-15", "BATCH-16", "BASE-20")
def test_arrays_and_errors_without_an_id_are_as_the_session_has_them() -> None:
    assert not session().error_without_id and session([MODERN]).error_without_id
    assert not session().takes_batches and session(accept_batches=True).takes_batches
    for revision in OLD:
        served = session()
        served.admit(initialize(revision.name))
        assert served.takes_batches is (revision in (R1, R2))
        assert served.error_without_id is (revision is R4)


# ---------------------------------------------------------------- a client's handshake


def opened(**changes: Any) -> dict[str, Any]:
    return without_gaps(
        {"protocolVersion": R3.name, "capabilities": {"tools": {}}, "serverInfo": INFO, **changes}
    )


@pytest.mark.requirement("LIFE-02", "LIFE-29")
def test_the_result_of_initialize_opens_the_session() -> None:
    era = Handshake.from_result(opened(instructions="Read me."), ALL)
    assert era.revision is era.peer.revision is R3
    assert (era.peer.info, era.peer.capabilities, era.peer.log_rank) == (INFO, {"tools": {}}, None)
    assert era.instructions == "Read me."
    for odd in ODD:
        assert Handshake.from_result(opened(instructions=odd), ALL).instructions is None
        assert Handshake.from_result(opened(serverInfo=odd), ALL).peer.info == {}
        for member in ("protocolVersion", "capabilities"):
            if (member, odd) == ("capabilities", []):
                continue  # an empty object, as PHP writes it
            result = opened(**{member: odd})
            with pytest.raises(ProtocolViolation) as caught:
                Handshake.from_result(result, ALL)
            assert caught.value.peer_message is result


DECLARED: list[Any] = [
    # as declared, as read
    ([], {}),
    (True, {}),
    ({"tools": [], "logging": True}, {"tools": {}, "logging": {}}),
    ({"tools": {"listChanged": True}}, {"tools": {"listChanged": True}}),
    ({"elicitation": {"form": [], "url": True}}, {"elicitation": {"form": {}, "url": True}}),
    ({"extensions": []}, {"extensions": {}}),
    ({"extensions": {"a.b/c": [], "a.b/d": True}}, {"extensions": {"a.b/c": {}, "a.b/d": {}}}),
    ({"tools": None, "prompts": False}, {"tools": None, "prompts": False}),
    ({"tools": "yes", "prompts": 1}, {"tools": "yes", "prompts": 1}),
]


@for_each(("declared", "read"), DECLARED)
def test_an_empty_object_may_be_written_in_three_ways(declared: Any, read: Any) -> None:
    peers = [
        Handshake.from_result(opened(capabilities=declared), ALL).peer,
        session().admit(initialize(capabilities=declared)),
        session().admit(enveloped(**{CAPABILITIES_KEY: declared})),
    ]
    for peer in peers:
        assert peer.capabilities == read
        for name, value in read.items():
            assert peer.supports(name) is isinstance(value, dict)


@pytest.mark.requirement("LIFE-06", "LIFE-11", "LIFE-23")
@for_each("name", ["2099-01-01", MODERN, "2024-11-05", "forged\nline"])
def test_a_result_in_a_revision_that_is_not_wanted_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedRevision) as caught:
        Handshake.from_result(opened(protocolVersion=name), [R3, R5])
    assert not caught.value.from_peer and "\n" not in str(caught.value)
    assert caught.value.data == {"supported": [name], "requested": ["2025-06-18", MODERN]}


# ---------------------------------------------------------------- stateless requests of a client


def modern(**envelope: Any) -> PerRequest:
    return PerRequest(
        R5, Peer(R5), envelope={VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, **envelope}
    )


def test_an_envelope_has_client_info_only_if_given() -> None:
    envelope = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {"roots": {}}}
    assert PerRequest.envelope_for(R5, None, {"roots": {}}) == envelope
    assert PerRequest.envelope_for(R5, INFO, {"roots": {}}) == {**envelope, CLIENT_KEY: INFO}


@pytest.mark.requirement("M:VER-C1")
@for_each(
    ("data", "adopted"),
    [
        *(
            ({"supported": names}, True)
            for names in ([MODERN], ["2099-01-01", MODERN, R4.name], [[MODERN], 5, MODERN])
        ),
        *(
            ({"supported": names}, False)
            for names in (["2025-11-25"], ["2099-01-01"], [], MODERN, None)
        ),
        ({}, False),
        ([MODERN], False),
        (None, False),
    ],
)
def test_a_revision_that_the_server_names_is_adopted(data: Any, adopted: bool) -> None:
    era = modern(**{LOG_LEVEL_KEY: "info"})
    era.revision, era.envelope[VERSION_KEY] = NEWEST_HANDSHAKE, "draft"
    before = dict(era.envelope)
    assert era.adopt(UnsupportedRevision("no", data)) is adopted
    assert era.revision is (R5 if adopted else NEWEST_HANDSHAKE)
    assert era.envelope == {**before, VERSION_KEY: MODERN if adopted else "draft"}


# ---------------------------------------------------------------- a client's probe


def discovered(*versions: Any, **changes: Any) -> dict[str, Any]:
    return {"supportedVersions": list(versions), "capabilities": {}, **changes}


def refused(*supported: Any, code: int = -32022) -> RpcError:
    return error_from_peer(code, "no", {"supported": list(supported), "requested": MODERN})


VERDICTS: list[Any] = [
    # answer, wanted, verdict, revision
    (discovered(MODERN), ALL, "per-request", R5),
    (discovered("2025-11-25", MODERN, "2099-01-01"), ALL, "per-request", R5),
    (discovered(MODERN, ttlMs=-1), NEW, "per-request", R5),
    (discovered(MODERN, 5, None), ALL, "per-request", R5),
    (discovered(MODERN, capabilities=[]), ALL, "per-request", R5),
    (discovered(MODERN, capabilities=True), ALL, "per-request", R5),
    (discovered("2025-11-25"), ALL, "handshake", None),
    (discovered("2025-11-25"), NEW, "fail", None),
    (discovered("2099-01-01"), ALL, "fail", None),
    (discovered("2025-11-25"), (R1, R5), "fail", None),
    *(
        (odd, ALL, "handshake", None)
        for odd in (
            {},
            discovered(),
            discovered([MODERN]),
            discovered(MODERN, capabilities=None),
            discovered(MODERN, capabilities="x"),
            discovered(supportedVersions=MODERN),
        )
    ),
    ({}, NEW, "fail", None),
    (refused(MODERN), ALL, "again", R5),
    (refused("2025-11-25", MODERN), NEW, "again", R5),
    (refused("2025-11-25"), ALL, "handshake", None),
    (refused("2025-11-25"), NEW, "fail", None),
    *((refused(*names), ALL, "fail", None) for names in (["2099-01-01"], [], [[], None, 5])),
    *(
        (error_from_peer(-32022, "no", data), ALL, "fail", None)
        for data in (None, "text", {"supported": MODERN})
    ),
    *(
        (error_from_peer(code, "no"), ALL, "handshake", None)
        for code in (-32601, -32602, -32600, -32000, 0, 7)
    ),
    (refused(MODERN, code=-32601), ALL, "handshake", None),
    (error_from_peer(-32601, "no"), NEW, "fail", None),
    (None, ALL, "handshake", None),
    (None, NEW, "fail", None),
    (ProtocolViolation("rule"), ALL, "handshake", None),
    (ConnectionLost("gone"), NEW, "fail", None),
]


@pytest.mark.requirement(
    "M:VER-C1", "M:VER-C5", "M:VER-C6", "M:VER-C7", "M:VER-C8", "M:VER-C9", "M:VER-C22"
)
@for_each(("answer", "wanted", "verdict", "revision"), VERDICTS)
def test_the_table_of_verdicts(answer: Any, wanted: Any, verdict: str, revision: Any) -> None:
    found = judge_probe(answer, wanted)
    assert (found.next, found.revision, found.error is not None) == (
        verdict,
        revision,
        verdict == "fail",
    )


@pytest.mark.requirement("LIFE-23", "M:VER-C6", "M:VER-C22")
@for_each(
    ("answer", "message"),
    [
        (None, "the server does not seem to support 2026-07-28: it did not answer server/discover"),
        (
            {},
            "the server does not seem to support 2026-07-28: its answer to server/discover is invalid",
        ),
        (error_from_peer(-32601, "what?"), "it answered server/discover with: what? (-32601)"),
        (
            discovered("2025-11-25", "a\nb"),
            "the server supports 2025-11-25, a\\nb; this client supports 2026-07-28",
        ),
        (refused(), "the server supports unknown revisions; this client supports 2026-07-28"),
    ],
)
def test_the_error_for_a_failed_probe_names_both_sides_revisions(answer: Any, message: str) -> None:
    error: Any = judge_probe(answer, NEW).error
    assert type(error) is UnsupportedRevision and not error.from_peer and message in str(error)
    if "this client" in message:
        assert error.data["requested"] == [MODERN]
    for code in (-32020, -32021):
        told = refused(MODERN, code=code)
        assert judge_probe(told, ALL).error is told, (
            "an error of the new era is handed on as it came"
        )


@pytest.mark.requirement("M:META-10")
def test_a_result_names_its_server_in_one_place() -> None:
    assert server_info({"_meta": {SERVER_KEY: {"name": "s", "version": "1"}}}) == {
        "name": "s",
        "version": "1",
    }
    odd: list[Any] = [{SERVER_KEY: info} for info in ({"name": 5}, {}, 5, None)]
    for meta in (*odd, {}, [SERVER_KEY], None):
        assert server_info({"_meta": meta}) is None
    assert server_info({"serverInfo": INFO}) is None
