"""`subscriptions/listen` and the notices of a session, as raw bytes between processes."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import MODERN, modern, request

ID = "io.modelcontextprotocol/subscriptionId"


def listen(server: RawServer, id: Any, **wanted: Any) -> Any:
    """Open a stream; what the server says first."""
    server.write(request(id, "subscriptions/listen", modern({"notifications": wanted})))
    return server.message()


def notice(message: Any) -> Any:
    """Method and stream of a notification."""
    return message["method"].partition("/")[2], message["params"]["_meta"][ID]


@pytest.mark.requirement("M:SUB-2", "M:SUB-4", "M:SUB-7", "M:SUB-8", "M:SUB-10", "M:SUB-6", "M:CAN-6", "M:TOOL-18")
def test_streams_are_told_apart_and_end_one_by_one(serve: Serve) -> None:
    server = serve(MODERN)
    first = listen(server, 7, toolsListChanged=True)
    assert notice(first) == ("subscriptions/acknowledged", 7)
    assert first["params"]["notifications"] == {"toolsListChanged": True}
    assert notice(listen(server, "seven", toolsListChanged=True)) == ("subscriptions/acknowledged", "seven")
    server.call("grow", {"name": "a"})
    told = [notice(message) for message in server.fence()]
    assert sorted(told, key=str) == [("tools/list_changed", "seven"), ("tools/list_changed", 7)]
    server.notify("notifications/cancelled", {"requestId": 7})
    server.fence()
    server.call("grow", {"name": "b"})
    assert [notice(message) for message in server.fence()] == [("tools/list_changed", "seven")]
    server.close_input()
    ended = server.rest()
    assert [message.get("id", message.get("method")) for message in ended] == ["seven", "notifications/cancelled"]
    assert ended[0]["result"]["_meta"][ID] == "seven" and ended[1]["params"]["requestId"] == "seven"
    assert server.exit() == 0


@pytest.mark.requirement("M:SUB-1", "M:SUB-25")
def test_streams_keep_no_worker_and_bad_ones_are_refused(serve: Serve) -> None:
    server = serve(MODERN, limits={"workers": 1})
    for number in range(100):
        assert notice(listen(server, f"s{number}"))[0] == "subscriptions/acknowledged"
    assert server.text("echo", {"text": "x"}) == "x"
    for wrong in ({}, {"notifications": []}):
        server.write(request("bad", "subscriptions/listen", modern(wrong)))
        assert server.answer("bad")["error"]["code"] == -32602
    assert len(server.finish()) == 2 * 100, "each stream ends with its answer, and a word that it was cancelled"
