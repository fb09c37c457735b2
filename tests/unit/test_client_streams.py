"""Streams of change notices as a program sees them: what comes out, how they end, what they may cost."""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp.client import subscriptions as module
from minimcp.client.subscriptions import Changes, Filter
from minimcp.errors import ConnectionLost, RequestTimeout

from ..answering import R4
from ..listening import LISTEN, PROMPTS, TOOLS, UPDATED, Host, about, agree
from ..scripted import notice
from ..support import WAIT, eventually

ALL: Dict[str, Any] = {
    "tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True,
    "resource_subscriptions": ["a://1"],
}


def told(changes: Changes, count: int) -> List[Any]:
    """So many changes, as kind and URI."""
    return [(change.kind, change.uri) for change in (changes.next(WAIT) for _ in range(count))]


@pytest.mark.requirement("M:SUB-12")
@pytest.mark.parametrize("params", [
    {}, {"notifications": None}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}},
    {"notifications": {"resourceSubscriptions": "a://1", "junk": True}},
    {"notifications": {"resourceSubscriptions": [5]}},
])
def test_what_is_not_understood_is_not_honoured(params: Any) -> None:
    assert Filter.from_wire(params) == Filter()


@pytest.mark.requirement("M:SUB-17", "M:SUB-7", "M:STD-6", "M:SUB-18", "M:SUB-12")
def test_two_streams_on_one_connection_are_told_apart() -> None:
    host = Host(None)
    host.answers[LISTEN] = [
        # The acknowledgement and the first changes arrive in one piece.
        host.gives(lambda id: [agree(id, toolsListChanged=True, resourceSubscriptions=["a://1"]), about(id, TOOLS)]),
        host.agree,
    ]
    with minimcp.connect(host) as client:
        with client.listen(**ALL) as first, client.listen(prompts_list_changed=True) as second:
            assert first.honored == Filter(tools_list_changed=True, resource_subscriptions=("a://1",))
            assert second.honored == Filter(prompts_list_changed=True)
            one, two = host.listens(2)
            asked = host.calls(LISTEN)[0]["params"]["notifications"]
            assert asked == {
                "toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True,
                "resourceSubscriptions": ["a://1"],
            }
            host.pipe.give(
                about(two, PROMPTS), about(one, UPDATED, uri="a://1/part"), about(str(one), PROMPTS),
                about(99, PROMPTS), about(True, PROMPTS), about(float(one), PROMPTS), about([one], PROMPTS),
                about(one, UPDATED, uri="a://1"),
            )
            assert told(first, 3) == [
                ("tools_list_changed", None), ("resource_updated", "a://1/part"), ("resource_updated", "a://1")
            ]
            assert told(second, 1) == [("prompts_list_changed", None)]
            assert repr(second).startswith("<Changes open Filter(")
        assert host.closed(2) == [two, one] and repr(second).startswith("<Changes ended")
        host.pipe.give(about(one, TOOLS))
        assert client.ping() >= 0


def test_what_has_no_place_on_a_stream_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    host = Host()
    with minimcp.connect(host) as client, client.listen(**ALL) as changes:
        (id,) = host.listens()
        host.pipe.give(
            notice("notifications/progress", progressToken=id, progress=1), agree(id, toolsListChanged=True),
            about(id, "notifications/message", level="info", data="x"), about(id, UPDATED), about(id, UPDATED, uri=5),
            about(id, PROMPTS),
        )
        assert told(changes, 1) == [("prompts_list_changed", None)] and changes.honored.resource_subscriptions
    assert caplog.text.count("a notification that tells of no change") == 4


ENDINGS: List[Any] = [
    ("result", lambda host, id: host.pipe.give({"jsonrpc": "2.0", "id": id, "result": {}}), None),
    ("cancelled", lambda host, id: host.pipe.give(
        notice("notifications/cancelled", requestId=id, reason="full")
    ), "the server ended the stream: full"),
    ("result-then-cancelled", lambda host, id: host.pipe.give(
        {"jsonrpc": "2.0", "id": id, "result": {}}, notice("notifications/cancelled", requestId=id)
    ), None),
    ("error", lambda host, id: host.pipe.give(
        {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "broken"}}
    ), r"the server ended the stream: broken \(-32603\)"),
    ("nonsense", lambda host, id: host.pipe.give({"jsonrpc": "2.0", "id": id}), "the stream has ended: "),
    ("loss", lambda host, id: host.pipe.end(), "the peer closed the connection"),
]


@pytest.mark.requirement("M:SUB-9", "M:SUB-11", "M:SUB-10")
@pytest.mark.parametrize("end,said", [each[1:] for each in ENDINGS], ids=[each[0] for each in ENDINGS])
def test_a_stream_that_the_server_ends(end: Callable[[Any, Any], None], said: Any) -> None:
    host = Host()
    with minimcp.connect(host) as client, client.listen(**ALL) as changes:
        (id,) = host.listens()
        host.pipe.give(about(id, TOOLS))
        end(host, id)
        seen = []

        def iterate() -> None:
            for change in changes:
                seen.append(change.kind)

        if said is None:
            iterate()
            iterate()
        else:
            for _ in range(2):
                with pytest.raises(ConnectionLost, match=said):
                    iterate()
        assert seen == ["tools_list_changed"], "what came before the end comes out"
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=said or "the stream has ended"):
                changes.next(WAIT)
        assert eventually(lambda: not client._sessions.newest.session.streams), "nothing is kept of it"
    with pytest.raises(ConnectionLost, match="closed"):
        changes.next()


@pytest.mark.requirement("M:SUB-14")
@pytest.mark.parametrize("session", [True, False])
def test_a_flood_at_a_slow_reader_keeps_little(
    session: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 1000)
    caplog.set_level(logging.DEBUG, "minimcp.client")
    host = Host(session=session)
    with minimcp.connect(host, revision=R4 if session else "auto") as client:
        with client.listen(tools_list_changed=True, resource_subscriptions=["a://dir", "a://x"]) as changes:
            id = None if session else host.listens()[0]
            say = notice if session else (lambda *method, **params: about(id, *method, **params))
            for start in range(0, 20_000, 5000):
                host.pipe.give(*(say(UPDATED, uri=f"a://dir/{start + number}") for number in range(5000)))
            host.pipe.give(say(UPDATED, uri="a://x"), say(UPDATED, uri="b://1"), say(TOOLS), say(UPDATED, uri="a://x"))
            client.ping()
            kept = told(changes, 1003)
            assert kept[:1000] == [("resource_updated", f"a://dir/{number}") for number in range(1000)]
            assert kept[1000:] == [("resource_updated", "a://dir"), ("resource_updated", "a://x"),
                                   ("tools_list_changed", None)]
            with pytest.raises(RequestTimeout):
                changes.next(0)
    assert ("'b://1' is not subscribed to" in caplog.text) is not session
