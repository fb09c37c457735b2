"""What every transport of a client does with a request and with its answer."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from minimcp import ProtocolViolation
from minimcp.client.host import Host
from minimcp.client.session import ClientSession
from minimcp.protocol.lifecycle import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    VERSION_KEY,
    Handshake,
    Peer,
    PerRequest,
)
from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE

from ..answering import R5

INFO = {"name": "client", "version": "1"}
MODERN = PerRequest.envelope_for(BY_NAME[R5], None, {})
ASKING: "dict[str, Any]" = {"resultType": "input_required"}


def speaking(era: Any) -> ClientSession:
    session = ClientSession("test", Host())
    session.era = era
    return session


def test_before_and_after_a_handshake_only_the_token_of_progress_is_added() -> None:
    params = {"name": "x", "_meta": {"own": 1}}
    before = copy.deepcopy(params)
    for session in (speaking(None), speaking(Handshake(NEWEST_HANDSHAKE, Peer(NEWEST_HANDSHAKE)))):
        assert session.add_envelope(params, 7) == params and session.add_envelope(params, 7) is not params
        assert session.add_envelope({}, 7) == {} and session.result_of("tools/list", ASKING) is ASKING
    assert session.add_envelope(params, 7, print) == {"name": "x", "_meta": {"own": 1, "progressToken": 7}}
    assert session.add_envelope({}, 7, print) == {"_meta": {"progressToken": 7}} and params == before


@pytest.mark.requirement("M:META-1", "M:META-2", "M:META-3")
def test_every_request_gets_the_envelope_which_no_call_can_forge() -> None:
    assert PerRequest.envelope_for(BY_NAME[R5], INFO, {"a": {}}) == {
        VERSION_KEY: R5, CAPABILITIES_KEY: {"a": {}}, CLIENT_KEY: INFO,
    }
    session = speaking(PerRequest(BY_NAME[R5], Peer(BY_NAME[R5]), envelope=MODERN))
    params = {"name": "x", "_meta": {"own": 1, VERSION_KEY: "forged", "progressToken": "forged"}}
    before = copy.deepcopy(params)
    meta = {"own": 1, "progressToken": 7, VERSION_KEY: R5, CAPABILITIES_KEY: {}}
    assert session.add_envelope(params, 7, print) == {"name": "x", "_meta": meta} and params == before
    assert session.add_envelope({}, 7) == {"_meta": MODERN} and session.add_envelope({}, 7)["_meta"] is not MODERN


@pytest.mark.requirement("M:BASE-16", "M:BASE-17", "M:BASE-18")
def test_a_result_is_complete_or_asks_where_it_may() -> None:
    session = speaking(PerRequest(BY_NAME[R5], Peer(BY_NAME[R5])))
    complete: "list[dict[str, Any]]" = [{}, {"resultType": "complete", "x": 1}]
    for result in complete:
        assert session.result_of("tools/call", result) is result
    for method in ("tools/call", "prompts/get", "resources/read"):
        assert session.result_of(method, ASKING) is ASKING
    odd: "list[Any]" = ["banana", "inputRequired", "task", "", "Complete", None, 5, True, [], {}, ["complete"]]
    wrong = [("tools/call", {"resultType": kind}) for kind in odd]
    for method, result in (*wrong, *((method, ASKING) for method in ("tools/list", "server/discover", "x"))):
        with pytest.raises(ProtocolViolation, match=f"^a result of {method} is complete, not ") as caught:
            session.result_of(method, result)
        assert caught.value.peer_message is result
