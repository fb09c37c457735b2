"""A role that says nothing of its own: what a channel may count on."""

from __future__ import annotations

import pytest

from minimcp.engine.connection import ConnectionHandler
from minimcp.errors import ConnectionLost
from minimcp.protocol.messages import Notification, Request


def test_by_default_it_is_a_quiet_peer() -> None:
    role = ConnectionHandler()
    assert not (role.hot)
    assert not (role.answers_rubbish)
    assert not (role.takes_batches)
    assert role.takes_requests
    assert role.error_without_id
    assert role.facts is None


def test_notices_and_the_end_may_be_ignored_and_requests_may_not() -> None:
    role = ConnectionHandler()
    role.notified(Notification("notifications/anything"))
    role.lost(ConnectionLost("over"))
    with pytest.raises(NotImplementedError):
        role.admit(Request(1, "ping"))
