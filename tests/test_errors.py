"""Exceptions: one flat tree, whose codes are the protocol's, and which survive every way of being handed on."""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any, Dict, List, Optional, Tuple, Type

import pytest

import minimcp
from minimcp import errors
from minimcp.errors import (
    OLD_TOOL_CODES,
    RESERVED_CODES,
    AuthorizationError,
    Cancelled,
    CapabilityNotSupported,
    ConnectionFailed,
    ConnectionLost,
    Declined,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    ParseError,
    ProtocolViolation,
    Refused,
    RequestStateRejected,
    RequestTimeout,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
    UnsupportedRevision,
    UrlElicitationRequired,
    error_from_peer,
)
from minimcp.protocol.eras import Peer
from minimcp.protocol.failures import Busy, wire_failure
from minimcp.protocol.versions import REVISIONS

from .rows import for_each

CODES: Dict[Type[Any], int] = {
    ParseError: -32700,
    InvalidRequest: -32600,
    MethodNotFound: -32601,
    InvalidParams: -32602,
    RequestStateRejected: -32602,
    InternalError: -32603,
    ResourceNotFound: -32002,
    ResourceAccessDenied: -32002,
    HeaderMismatch: -32020,
    CapabilityNotSupported: -32021,
    UnsupportedRevision: -32022,
    UrlElicitationRequired: -32042,
}

DATA = {"elicitations": [{"mode": "url", "message": "m", "url": "https://x.y", "elicitationId": "e", "more": 1}]}

BY_CODE = {code: kind for kind, code in CODES.items() if kind not in (RequestStateRejected, ResourceAccessDenied)}

TREE: List[Tuple[type, Tuple[type, ...]]] = [
    (RpcError, (McpError,)),
    *((kind, (McpError, RpcError)) for kind in CODES),
    (RequestStateRejected, (InvalidParams,)),
    (ToolError, (McpError,)),
    (ProtocolViolation, (McpError,)),
    (ConnectionFailed, (McpError, ConnectionError)),
    (ConnectionLost, (McpError, ConnectionError)),
    (RequestTimeout, (McpError, TimeoutError)),
    (Cancelled, (McpError,)),
    (Refused, (McpError,)),
    (Declined, (McpError, Refused)),
    (AuthorizationError, (McpError,)),
]


def test_the_tree() -> None:
    for kind, bases in TREE:
        assert all(issubclass(kind, base) for base in bases), kind
        assert getattr(minimcp, kind.__name__, kind) is kind


def test_a_loss_is_no_failure_to_connect_and_a_tool_error_no_answer_of_the_protocol() -> None:
    assert not issubclass(ConnectionLost, ConnectionFailed)
    assert not issubclass(ConnectionFailed, ConnectionLost)
    assert not issubclass(ToolError, RpcError)


@pytest.mark.requirement("BASE-14", "M:ERR-1", "LIFE-23")
def test_each_kind_has_its_code() -> None:
    for kind, code in CODES.items():
        error = kind("what happened", DATA)
        assert (error.code, error.message, error.data, error.from_peer) == (code, "what happened", DATA, False)
        assert str(error) == "what happened"
        assert kind("x").data is None


# ---------------------------------------------------------------- codes of one's own


@pytest.mark.requirement("M:ERR-2", "M:ERR-3", "M:ERR-6", "X-27")
def test_a_reserved_code_that_stands_for_nothing_is_refused() -> None:
    assert (min(RESERVED_CODES), max(RESERVED_CODES)) == (-32768, -32000)
    for code in range(-32768, -31999):
        if code in BY_CODE or code in OLD_TOOL_CODES:
            assert RpcError(code, "x").code == code
        else:
            with pytest.raises(ValueError, match=f"^{code} is reserved by the protocol"):
                RpcError(code, "x")


@pytest.mark.requirement("SEED-03", "M:ERR-3")
def test_an_application_may_use_the_old_codes_for_tools_where_there_are_sessions() -> None:
    for revision in REVISIONS:
        for code in OLD_TOOL_CODES:
            found = wire_failure(1, RpcError(code, "failed", [1]), Peer(revision), "prompts/get")
            assert (found.code, found.message, found.data) == (code if revision.handshake else -32603, "failed", [1])


@pytest.mark.requirement("M:ERR-3", "X-27")
def test_no_code_of_ours_lies_in_the_old_server_range_but_the_one_that_means_something_there() -> None:
    ours = {value for name, value in vars(errors).items() if name.isupper() and isinstance(value, int)}
    assert ours == {*CODES.values(), errors.USER_REJECTED}
    assert {code for code in ours if -32019 <= code <= -32000} == {-32002}


@pytest.mark.requirement("M:ERR-2", "M:ERR-3")
@for_each("code", [-32000, -32001, -32050, -32099, -32601, 5])
def test_a_peers_error_is_not_passed_on_with_its_code(code: int) -> None:
    for revision in REVISIONS:
        found = wire_failure(1, error_from_peer(code, "secret"), Peer(revision), "tools/call")
        assert found.code == -32603
        assert "secret" not in found.message


@pytest.mark.requirement("M:ERR-6")
def test_any_other_code_is_the_applications() -> None:
    for code in (-32769, -31999, -1, 0, 1, 404, 10**12):
        error = RpcError(code, "mine", [1])
        assert (error.code, error.message, error.data) == (code, "mine", [1])


def test_a_member_of_an_enum_is_its_number() -> None:
    class Own(enum.IntEnum):
        BUSY = 7

    error = RpcError(Own.BUSY, "busy")
    assert type(error.code) is int
    assert wire_failure(1, error, Peer(REVISIONS[0]), "tools/call").code == 7


@for_each(
    ("code", "message", "said"),
    [
        (True, "x", "code must be an int, not bool"),
        (1.0, "x", "code must be an int, not float"),
        ("1", "x", "code must be an int, not str"),
        (1, None, "message must be a str, not NoneType"),
        (1, b"x", "message must be a str, not bytes"),
    ],
)
def test_what_is_no_code_or_no_message_is_refused(code: Any, message: Any, said: str) -> None:
    with pytest.raises(TypeError, match=f"^{said}$"):
        RpcError(code, message)


# ---------------------------------------------------------------- a peer's errors


@pytest.mark.requirement("M:ERR-1", "M:ERR-5", "LIFE-23")
def test_a_peers_error_has_the_kind_of_its_code() -> None:
    for code, kind in BY_CODE.items():
        error = error_from_peer(code, "no", {"a": 1})
        assert type(error) is kind
        assert (error.code, error.message, error.data, error.from_peer) == (code, "no", {"a": 1}, True)
        assert str(error) == f"no ({code})"
        assert error.args == ("no",)


@for_each("code", [-32001, -32050, -32768, 0, 7])
def test_a_code_that_means_nothing_here_is_kept_as_it_came(code: int) -> None:
    error = error_from_peer(code, "odd")
    assert (type(error), error.code, error.data, error.from_peer) == (RpcError, code, None, True)


def test_a_state_that_was_refused_has_a_kind_of_its_own() -> None:
    refused = error_from_peer(-32602, "no", {"reason": "invalid_request_state"})
    assert type(refused) is RequestStateRejected and refused.from_peer
    for code, data in ((-32602, {"reason": "x"}), (-32602, ["invalid_request_state"]), (-32602, None)):
        assert type(error_from_peer(code, "no", data)) is InvalidParams
    assert type(error_from_peer(-32603, "no", {"reason": "invalid_request_state"})) is InternalError


def test_the_caller_may_know_the_kind_better_than_the_code() -> None:
    error = error_from_peer(-32602, "old words", kind=UnsupportedRevision)
    assert (type(error), error.code, error.from_peer) == (UnsupportedRevision, -32602, True)


@pytest.mark.requirement("M:ERR-7")
@for_each("kind", [ConnectionFailed, ConnectionLost, RequestTimeout, Cancelled, ProtocolViolation])
def test_our_own_failures_have_no_code_of_a_peer(kind: Any) -> None:
    error = kind("it went wrong")
    assert not hasattr(error, "code")
    assert not hasattr(error, "from_peer")
    assert str(error) == "it went wrong"


# ---------------------------------------------------------------- fields


def test_a_tool_error_keeps_its_own_list_of_content() -> None:
    blocks = ["block"]
    error = ToolError("failed", content=blocks)
    blocks.append("more")
    assert (str(error), error.content, error.result) == ("failed", ["block"], None)
    assert (str(ToolError()), ToolError().content) == ("", None)
    assert ToolError(content=()).content == []


@pytest.mark.parametrize("kind", [ConnectionFailed, ConnectionLost])
def test_a_connections_end_says_how_the_process_ended(kind: Any) -> None:
    error = kind("gone", exit_code=3, signal=9, stderr_tail="last words")
    assert (str(error), error.exit_code, error.signal, error.stderr_tail) == ("gone", 3, 9, "last words")
    bare = kind("gone")
    assert (bare.exit_code, bare.signal, bare.stderr_tail) == (None, None, "")
    assert bare.errno is None


def test_a_violation_names_the_rule_and_keeps_what_came() -> None:
    error = ProtocolViolation("a rule", {"odd": 1})
    assert (str(error), error.rule, error.peer_message) == ("a rule", "a rule", {"odd": 1})
    assert ProtocolViolation("a rule").peer_message is None


@pytest.mark.parametrize("kind", [Refused, Declined])
def test_a_refusal_has_a_reason_or_none(kind: Any) -> None:
    assert (kind("not now").reason, str(kind("not now"))) == ("not now", "not now")
    assert (kind().reason, str(kind())) == ("", "")


# ---------------------------------------------------------------- handed on


def _with_result(result: Optional[Any]) -> ToolError:
    error = ToolError("failed", content=[1])
    error.result = result
    return error


EVERY = [
    McpError("root"),
    RpcError(7, "own", {"a": [1]}),
    *(kind("kind", DATA) for kind in CODES),
    error_from_peer(-32050, "theirs", [1]),
    error_from_peer(-32602, "theirs", {"c": 3}, kind=UnsupportedRevision),
    ConnectionFailed("failed", exit_code=1, signal=None, stderr_tail="tail"),
    ConnectionLost("lost", exit_code=None, signal=15, stderr_tail="tail"),
    ProtocolViolation("rule", {"odd": True}),
    _with_result({"isError": True}),
    RequestTimeout("late"),
    Cancelled("cancelled"),
    Refused("no"),
    Declined("never"),
    AuthorizationError("who"),
]


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_and_a_pickle_keep_every_field(twin_of: Any) -> None:
    for error in EVERY:
        twin = twin_of(error)
        assert twin is not error
        assert type(twin) is type(error)
        assert (twin.args, vars(twin), str(twin)) == (error.args, vars(error), str(error))


@pytest.mark.parametrize("twin_of", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_busy_server_is_waited_for_as_long_whoever_gets_the_exception(twin_of: Any) -> None:
    twin = twin_of(Busy("HTTP 429", 7))
    assert isinstance(twin, ConnectionLost) and (str(twin), twin.seconds) == ("HTTP 429", 7)


def test_a_copy_is_an_exception_of_its_own() -> None:
    error = ConnectionLost("lost", exit_code=1)
    twin = copy.copy(error)
    twin.exit_code, twin.args = 2, ("other",)
    assert (error.exit_code, str(error), str(twin)) == (1, "lost", "other")


def test_a_subclass_of_an_authors_own_is_copied_though_its_arguments_are_others() -> None:
    twin = copy.copy(TooBusy(3))
    assert (type(twin), twin.code, twin.message, twin.seconds) == (TooBusy, 1, "busy for 3 s", 3)


class TooBusy(RpcError):
    def __init__(self, seconds: int) -> None:
        super().__init__(1, f"busy for {seconds} s")
        self.seconds = seconds


@pytest.mark.requirement("ELIC-33", "ELIC-31")
@pytest.mark.parametrize("missing", ["mode", "message", "url", "elicitationId"])
def test_the_error_that_asks_for_urls_names_them(missing: str) -> None:
    entry = DATA["elicitations"][0]
    bad = [{"why": 1}, [], {"elicitations": {}}, {"elicitations": ["https://x.y"]}]
    values = (None, 5, "form" if missing == "mode" else 6)
    bad += [{"elicitations": [entry, {**entry, missing: value}]} for value in values]
    for data in bad:
        with pytest.raises(ValueError, match="elicitations"):
            UrlElicitationRequired("m", data)
    assert UrlElicitationRequired("m").data is None
