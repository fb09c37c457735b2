"""How a client finds out which revision to speak: every path through the opening, with a script as the server."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import minimcp
from minimcp.client.connect import wanted_revisions

from ..answering import R1, R3, R4, REVISIONS, Answering, error, initialized, result, silence
from ..support import WAIT


def agreed(answers: Dict[str, Any], **options: Any) -> "tuple[str, List[str]]":
    """The revision that was agreed on, and the methods that were sent."""
    server = Answering(answers)
    with minimcp.connect(server, **{"connect_timeout": WAIT, **options}) as client:
        return client.revision, server.pipe.methods()


def test_what_is_wanted() -> None:
    assert [each.name for each in wanted_revisions("auto")] == list(REVISIONS)
    assert [each.name for each in wanted_revisions("handshake")] == list(REVISIONS[:-1])
    assert [each.name for each in wanted_revisions(R3)] == [R3]
    with pytest.raises(ValueError, match="2099-01-01"):
        wanted_revisions("2099-01-01")


def test_no_second_probe_when_the_revision_is_wrong_by_our_own_count() -> None:
    answers = {"server/discover": silence, "initialize": initialized("1999-01-01")}
    with pytest.raises(minimcp.UnsupportedRevision, match="1999-01-01"):
        agreed(answers, probe_timeout=0.02)


def test_initialize_is_refused() -> None:
    with pytest.raises(minimcp.UnsupportedRevision) as caught:
        agreed({"initialize": error(-32602, "Unsupported protocol version", {"supported": [R1]})}, revision=R3)
    assert R1 in str(caught.value) and caught.value.code == -32602 and caught.value.from_peer
    for data in ({"other": 1}, None):
        with pytest.raises(minimcp.ConnectionFailed, match="refused initialize"):
            agreed({"initialize": error(-32603, "not today", data)}, revision=R3)
    with pytest.raises(minimcp.ProtocolViolation):
        agreed({"initialize": result()}, revision=R3)


def test_the_name_is_told_in_the_words_of_the_handshake() -> None:
    server = Answering({"server/discover": error(-32601)})
    with minimcp.connect(server, client_info={"name": "me", "version": "1", "title": "I"}):
        opening = server.pipe.messages[1]["params"]
    assert opening["clientInfo"] == {"name": "me", "version": "1", "title": "I"} and opening["protocolVersion"] == R4
