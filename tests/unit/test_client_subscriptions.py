"""Subscriptions of a client: how streams begin, which changes they yield, how they end, and their
limits."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import (
    Cancelled,
    CancelToken,
    CapabilityNotSupported,
    ConnectionLost,
    InternalError,
    MethodNotFound,
    ProtocolViolation,
    RequestTimeout,
)
from minimcp.client import subscriptions as module
from minimcp.client.subscriptions import Changes, Filter

from ..answering import R4, Answer, error, result, silence
from ..inside import close_clients_at_exit, session_of, waits_on
from ..listening import ACKNOWLEDGED, LISTEN, PROMPTS, TOOLS, UPDATED, Host, about, agree
from ..scripted import Task, cancelled, no_threads, notice, result as ended, wait_for
from ..support import WAIT, around, eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test can wait for, and time for a server that answers."""
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "BACKGROUND_SECONDS", WAIT)


@contextmanager
def opened(host: Host, **keywords: Any) -> Iterator[Any]:
    with minimcp.connect(host, timeout=WAIT, **keywords) as client:
        yield client


FAULTS: Dict[str, Any] = {
    "silence": (
        lambda id: [notice("notifications/other")],
        RequestTimeout,
        "subscriptions/listen: no acknowledgement within 0.1 s",
    ),
    "unknown": (
        lambda id: [failed(id, -32601, "Method not found")],
        MethodNotFound,
        "Method not found",
    ),
    "full": (lambda id: [failed(id, -32603, "too many")], InternalError, "too many"),
    "over": (lambda id: [ended(id)], ConnectionLost, "ended the stream before it began"),
    "cancelled": (lambda id: [cancelled(id)], ConnectionLost, "the server ended the stream"),
    "early": (
        lambda id: [about(id, TOOLS), agree(id)],
        ProtocolViolation,
        "a stream must begin with",
    ),
    "other-id": (lambda id: [agree(str(id))], RequestTimeout, "no acknowledgement"),
    "no-id": (
        lambda id: [notice(ACKNOWLEDGED, notifications={})],
        RequestTimeout,
        "no acknowledgement",
    ),
    "nonsense": (lambda id: [{"jsonrpc": "2.0", "id": id}], ProtocolViolation, "result"),
}
"""The server's answer to a listen, and the resulting exception."""


def failed(id: Any, code: int, text: str) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


@pytest.mark.requirement("M:SUB-2", "M:SUB-16", "M:STD-6")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_stream_that_does_not_begin_leaves_nothing(fault: str) -> None:
    make, kind, said = FAULTS[fault]
    host = Host()
    host.answers[LISTEN] = [host.gives(make), host.agree]
    with opened(host) as client:
        with pytest.raises(kind, match=said) as caught:
            client.listen(tools_list_changed=True, timeout=0.1 if kind is RequestTimeout else WAIT)
        assert type(caught.value) is kind
        assert not session_of(client).streams and "0 outgoing" in repr(client)
        told_of = fault in ("silence", "early", "other-id", "no-id")
        assert (
            host.closed() == host.listens()
            if told_of
            else not host.calls("notifications/cancelled")
        )
        with client.listen(tools_list_changed=True) as changes:
            host.pipe.give(about(host.listens()[1], TOOLS))
            assert changes.next(WAIT).kind == "tools_list_changed"


@pytest.mark.parametrize("session", [True, False])
def test_a_stream_that_is_given_up_before_it_begins(session: bool) -> None:
    host = Host(silence, session=session, **{"resources/subscribe": silence} if session else {})
    with opened(host, revision=R4 if session else "auto") as client:
        token = CancelToken()
        task = Task(lambda: client.listen(resource_subscriptions=["a://1", "a://2"], cancel=token))
        method = "resources/subscribe" if session else LISTEN
        assert eventually(lambda: host.calls(method))
        token.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            task.result()
        assert host.closed() == [host.calls(method)[0]["id"]]
        with pytest.raises(Cancelled, match="enough"):
            client.listen(tools_list_changed=True, cancel=token)
        assert len(host.calls(method)) == 1 and not session_of(client).listeners


@pytest.mark.parametrize("session", [True, False])
def test_wrong_arguments_fail_before_anything_is_sent(session: bool) -> None:
    host = Host(session=session)
    with opened(host, revision=R4 if session else "auto") as client:
        before = len(host.pipe.messages)
        for wrong in (
            {"resource_subscriptions": "a://1"},
            {"resource_subscriptions": [5]},
            {"resource_subscriptions": [b"a"]},
            {"cancel": True},
            {"timeout": "soon"},
        ):
            with pytest.raises(TypeError):
                client.listen(**wrong)
        for ask in (client.subscribe, client.unsubscribe):
            with pytest.raises(TypeError, match="a str, not the int 5"):
                ask(5)
            with pytest.raises(TypeError, match="CancelToken"):
                ask("a://1", cancel=5)
        assert len(host.pipe.messages) == before


@pytest.mark.requirement("RES-13", "M:SUB-24", "M:SUB-12")
def listened(client: Any) -> Any:
    """The resources that streams of a session listen to."""
    return session_of(client).subscriptions.listened


def test_streams_of_a_session_share_subscriptions() -> None:
    host = Host(session=True)
    with opened(host, revision=R4) as client:
        client.subscribe("a://1")
        with client.listen(resource_subscriptions=["a://1", "a://2", "a://2"]) as first:
            assert first.honored == Filter(resource_subscriptions=("a://1", "a://2", "a://2"))
            with client.listen(resource_subscriptions=["a://2"]):
                client.unsubscribe("a://1")
            assert ("unsubscribe", "a://2") not in host.subscriptions()
            assert ("unsubscribe", "a://1") not in host.subscriptions(), "a stream listens to it"
        assert host.subscriptions()[-2:] == [("unsubscribe", "a://1"), ("unsubscribe", "a://2")]
        client.subscribe("a://3")
        with client.listen(resource_subscriptions=["a://3"]):
            pass
        assert host.subscriptions()[-1] == ("subscribe", "a://3")
        client.unsubscribe("a://3")
        assert host.subscriptions()[-1] == ("unsubscribe", "a://3")
        assert not listened(client) and not session_of(client).subscriptions.uris


def test_a_failed_unsubscribe_does_not_keep_other_subscriptions() -> None:
    host = Host(session=True, **{"resources/unsubscribe": [error(-32603), result(), result()]})
    with opened(host, revision=R4) as client:
        with client.listen(resource_subscriptions=["a://1", "a://2", "a://3"]):
            pass
        assert host.subscriptions()[3:] == [
            ("unsubscribe", f"a://{number}") for number in (1, 2, 3)
        ]
        assert not host.calls("notifications/cancelled") and not listened(client)


def test_a_call_that_waits_for_an_earlier_one_may_be_given_up() -> None:
    host = Host(session=True, **{"resources/subscribe": silence})
    with opened(host, revision=R4) as client:
        first, second = CancelToken(), CancelToken()
        slow = Task(lambda: client.subscribe("a://1", cancel=first))
        assert eventually(lambda: host.subscriptions())
        with pytest.raises(RequestTimeout, match="an earlier change to the subscriptions"):
            client.subscribe("a://2", timeout=0.02)
        waiting = Task(lambda: client.unsubscribe("a://1", cancel=second))
        assert eventually(lambda: waits_on(session_of(client).subscriptions))
        for token, task in ((second, waiting), (first, slow)):
            token.cancel()
            with pytest.raises(Cancelled):
                task.result()
        assert host.subscriptions() == [("subscribe", "a://1")]


class Heard:
    """Callbacks that remember."""

    def __init__(self) -> None:
        self.news: "SimpleQueue[Any]" = SimpleQueue()
        self.callbacks: Dict[str, Callable[..., Any]] = {
            "on_tools_changed": lambda: self.news.put("tools"),
            "on_prompts_changed": lambda: self.news.put("prompts"),
            "on_resources_changed": lambda: self.news.put("resources"),
            "on_resource_updated": self.news.put,
        }

    def next(self, count: int) -> List[Any]:
        return [self.news.get(timeout=WAIT) for _ in range(count)]


def asked(host: Host, count: int) -> List[Any]:
    """Wait for this many listens, and return their filters."""
    host.listens(count)
    return [message["params"]["notifications"] for message in host.calls(LISTEN)]


LISTED = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@pytest.mark.requirement("M:SUB-24")
def test_a_subscription_replaces_the_stream() -> None:
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        for step in (
            lambda: client.subscribe("a://1"),
            lambda: client.subscribe("a://1"),
            lambda: client.subscribe("a://2"),
            lambda: client.unsubscribe("a://1"),
            lambda: client.unsubscribe("a://1"),
        ):
            step()
        assert asked(host, 4) == [
            LISTED,
            {**LISTED, "resourceSubscriptions": ["a://1"]},
            {**LISTED, "resourceSubscriptions": ["a://1", "a://2"]},
            {**LISTED, "resourceSubscriptions": ["a://2"]},
        ]
        *old, newest = host.listens(4)
        assert host.closed(3) == old
        order = [message["method"] for message in host.calls(LISTEN, "notifications/cancelled")]
        assert order[:2] == [LISTEN, LISTEN], "the old one is closed when the new one is there"
        host.pipe.give(*(about(id, UPDATED, uri=f"a://{id}") for id in (*old, newest)))
        assert heard.next(1) == [f"a://{newest}"]
        assert len(session_of(client).streams) == 1


@pytest.mark.requirement("M:SUB-12")
def test_a_subscription_that_is_not_honoured_leaves_the_old_stream() -> None:
    host, heard = Host(), Heard()
    host.answers[LISTEN] = [
        host.agree,
        host.gives(lambda id: [agree(id, **LISTED)]),
        error(-32603, "full"),
        host.agree,
    ]
    with opened(host, **heard.callbacks) as client:
        with pytest.raises(CapabilityNotSupported, match="does not report changes of .a://1.$"):
            client.subscribe("a://1")
        first, second = host.listens(2)
        host.pipe.give(about(second, TOOLS), about(first, PROMPTS))
        assert heard.next(1) == ["prompts"] and host.closed() == [second]
        with pytest.raises(InternalError, match="full"):
            client.subscribe("a://2")
        host.pipe.give(about(first, TOOLS))
        assert heard.next(1) == ["tools"]
        client.subscribe("a://3")
        assert asked(host, 4)[-1]["resourceSubscriptions"] == ["a://3"]


@pytest.mark.requirement("M:SUB-11")
def test_a_stream_that_the_server_ends_is_reopened_and_the_gap_is_reported() -> None:
    host, heard = Host(), Heard()
    host.answers[LISTEN] = [
        host.agree,
        host.agree,
        error(-32603, "busy"),
        host.gives(lambda id: [cancelled(id)]),
        host.agree,
    ]
    with opened(host, **heard.callbacks) as client:
        client.subscribe("a://1")
        host.pipe.give(cancelled(host.listens(2)[1]))
        newest = host.listens(5)[4]
        assert heard.next(4) == ["tools", "prompts", "resources", "a://1"], (
            "once, when it is there again"
        )
        host.pipe.give(about(newest, TOOLS))
        assert heard.next(1) == ["tools"] and heard.news.empty()
        assert asked(host, 5)[4] == {**LISTED, "resourceSubscriptions": ["a://1"]}


@pytest.mark.requirement("M:SUB-9")
def test_a_stream_ended_by_its_server_is_over_even_if_the_connection_is_lost_just_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, wait_until = threading.Event(), module.wait_until

    def seldom_runs(end_with: Any, stream: Any, ending: Any) -> None:
        looked.wait(WAIT)
        end_with(stream, ending)

    def look(*args: Any, **keywords: Any) -> bool:
        try:
            return wait_until(*args, **keywords)
        finally:
            looked.set()

    server = minimcp.Server("one")
    with (
        minimcp.connect(server, timeout=WAIT) as client,
        client.listen(tools_list_changed=True) as changes,
    ):
        around(monkeypatch, module.Changes, "_end_with", seldom_runs)
        monkeypatch.setattr(module, "wait_until", look)
        server.close()
        assert list(changes) == []


def test_the_pause_grows_and_is_reset_after_a_long_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAUSE_SECONDS", 0.02)
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        listening = session_of(client).subscriptions
        for number, (begin, steady, then) in enumerate(
            [(0.001, 60, 0.002), (0.015, 60, 0.02), (0.015, -1.0, 0.02)]
        ):
            listening.pause_seconds = begin
            monkeypatch.setattr(module, "STEADY_SECONDS", steady)
            host.pipe.give(ended(host.listens(number + 1)[number]))
            heard.next(3)
            assert listening.pause_seconds == then
    assert module.FIRST_PAUSE_SECONDS == 0.01, "which doubled is what came last"


@pytest.mark.parametrize("end", ["close", "loss"])
def test_the_end_of_the_connection_ends_the_pause(
    end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 60.0)
    host = Host()
    with opened(host, on_tools_changed=print) as client:
        host.pipe.give(ended(host.listens()[0]))
        assert eventually(lambda: "0 outgoing" in repr(client))
        if end == "loss":
            host.pipe.end()
        else:
            client.close()
        assert eventually(
            lambda: not any(thread.name.endswith("-stream") for thread in threading.enumerate())
        )
    assert "cannot be opened" not in caplog.text


def test_a_callback_may_subscribe_and_unsubscribe_and_close() -> None:
    host, done = Host(), threading.Event()

    def changed() -> None:
        client.subscribe("a://1")
        client.unsubscribe("a://1")
        with client.listen(tools_list_changed=True):
            client.ping()
        client.close()
        done.set()

    with opened(host, on_tools_changed=changed) as client:
        host.pipe.give(about(host.listens()[0], TOOLS))
        wait_for(done)
    assert len(host.calls(LISTEN)) == 4


@pytest.mark.parametrize(
    "answer", [error(-32601, "none"), error(-32603, "full"), result(), silence]
)
def test_a_server_without_streams_can_still_be_connected(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "BACKGROUND_SECONDS", 0.05)
    host = Host(answer)
    with opened(host, on_tools_changed=print) as client:
        assert client.ping() >= 0
    assert "no stream of changes" in caplog.text


def test_a_client_that_only_listens_is_closed_at_exit() -> None:
    idle, busy = Host(), Host()
    first, second = (minimcp.connect(host, on_tools_changed=print) for host in (idle, busy))
    changes = second.listen(tools_list_changed=True)
    close_clients_at_exit()
    assert idle.pipe.closed and not busy.pipe.closed
    assert idle.closed() == idle.listens()
    changes.close()
    second.close()
    first.close()


ALL: Dict[str, Any] = {
    "tools_list_changed": True,
    "prompts_list_changed": True,
    "resources_list_changed": True,
    "resource_subscriptions": ["a://1"],
}


def told(changes: Changes, count: int) -> List[Any]:
    """Return this many changes, as kind and URI."""
    return [(change.kind, change.uri) for change in (changes.next(WAIT) for _ in range(count))]


@pytest.mark.requirement("M:SUB-12")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"resourceSubscriptions": "a://1"}},
        {"notifications": {"resourceSubscriptions": [5]}},
    ],
)
def test_an_invalid_filter_honors_nothing(params: Any) -> None:
    assert Filter.from_wire(params) == Filter()


@pytest.mark.requirement("M:SUB-17", "M:SUB-7", "M:STD-6", "M:SUB-18", "M:SUB-12")
def test_two_streams_on_one_connection_are_distinguished() -> None:
    host = Host(None)
    host.answers[LISTEN] = [
        # The acknowledgement and the first changes arrive in one piece.
        host.gives(
            lambda id: [
                agree(id, toolsListChanged=True, resourceSubscriptions=["a://1"]),
                about(id, TOOLS),
            ]
        ),
        host.agree,
    ]
    with minimcp.connect(host) as client:
        with client.listen(**ALL) as first, client.listen(prompts_list_changed=True) as second:
            assert first.honored == Filter(
                tools_list_changed=True, resource_subscriptions=("a://1",)
            )
            assert second.honored == Filter(prompts_list_changed=True)
            one, two = host.listens(2)
            asked = host.calls(LISTEN)[0]["params"]["notifications"]
            assert asked == {
                "toolsListChanged": True,
                "promptsListChanged": True,
                "resourcesListChanged": True,
                "resourceSubscriptions": ["a://1"],
            }
            host.pipe.give(
                about(two, PROMPTS),
                about(one, UPDATED, uri="a://1/part"),
                about(str(one), PROMPTS),
                about(99, PROMPTS),
                about(True, PROMPTS),
                about(float(one), PROMPTS),
                about([one], PROMPTS),
                about(one, UPDATED, uri="a://1"),
            )
            assert told(first, 3) == [
                ("tools_list_changed", None),
                ("resource_updated", "a://1/part"),
                ("resource_updated", "a://1"),
            ]
            assert told(second, 1) == [("prompts_list_changed", None)]
            assert repr(second).startswith("<Changes open Filter(")
        assert host.closed(2) == [two, one] and repr(second).startswith("<Changes ended")
        host.pipe.give(about(one, TOOLS))
        assert client.ping() >= 0


def test_messages_that_do_not_belong_on_a_stream_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    host = Host()
    with minimcp.connect(host) as client, client.listen(**ALL) as changes:
        (id,) = host.listens()
        host.pipe.give(
            notice("notifications/progress", progressToken=id, progress=1),
            agree(id, toolsListChanged=True),
            about(id, "notifications/message", level="info", data="x"),
            about(id, UPDATED),
            about(id, UPDATED, uri=5),
            about(id, PROMPTS),
        )
        assert (
            told(changes, 1) == [("prompts_list_changed", None)]
            and changes.honored.resource_subscriptions
        )
    assert caplog.text.count("not a notification of a change") == 4


ENDINGS: Dict[str, Any] = {
    "result": (lambda id: [ended(id)], None),
    "cancelled": (lambda id: [cancelled(id, "full")], "the server ended the stream: full"),
    "result-then-cancelled": (lambda id: [ended(id), cancelled(id)], None),
    "error": (
        lambda id: [failed(id, -32603, "broken")],
        r"the server ended the stream: broken \(-32603\)",
    ),
    "nonsense": (lambda id: [{"jsonrpc": "2.0", "id": id}], "the stream has ended: "),
    "loss": (None, "the peer closed the connection"),
}


@pytest.mark.requirement("M:SUB-9", "M:SUB-11", "M:SUB-10")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_stream_that_the_server_ends(ending: str) -> None:
    host, (make, said) = Host(), ENDINGS[ending]
    with minimcp.connect(host) as client, client.listen(**ALL) as changes:
        (id,) = host.listens()
        host.pipe.give(about(id, TOOLS))
        host.pipe.give(*make(id)) if make else host.pipe.end()
        seen: List[str] = []
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=said) if said else nullcontext():
                seen.extend(change.kind for change in changes)
        assert seen == ["tools_list_changed"], "what came before the end comes out"
        for _ in range(2):
            with pytest.raises(ConnectionLost, match=said or "the stream has ended"):
                changes.next(WAIT)
        assert eventually(lambda: not session_of(client).streams), "nothing is kept of it"
    with pytest.raises(ConnectionLost, match="closed"):
        changes.next()


@pytest.mark.requirement("M:SUB-14")
@pytest.mark.parametrize("session", [True, False])
def test_a_flood_at_a_slow_reader_keeps_little(
    session: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_CHANGES", 100)
    caplog.set_level(logging.DEBUG, "minimcp.client")
    host = Host(session=session)
    with minimcp.connect(host, revision=R4 if session else "auto") as client:
        with client.listen(
            tools_list_changed=True, resource_subscriptions=["a://dir", "a://x"]
        ) as changes:
            id = None if session else host.listens()[0]
            say = notice if session else (lambda *method, **params: about(id, *method, **params))
            for start in (0, 250):
                host.pipe.give(
                    *(say(UPDATED, uri=f"a://dir/{start + number}") for number in range(250))
                )
            host.pipe.give(
                say(UPDATED, uri="a://x"),
                say(UPDATED, uri="b://1"),
                say(TOOLS),
                say(UPDATED, uri="a://x"),
            )
            client.ping()
            kept = told(changes, 103)
            assert kept[:100] == [
                ("resource_updated", f"a://dir/{number}") for number in range(100)
            ]
            assert kept[100:] == [
                ("resource_updated", "a://dir"),
                ("resource_updated", "a://x"),
                ("tools_list_changed", None),
            ]
            with pytest.raises(RequestTimeout):
                changes.next(0)
    assert ("'b://1': it is not subscribed to" in caplog.text) is not session


@pytest.mark.parametrize("fault", ["params", "thread"])
def test_a_stream_that_cannot_be_opened_leaves_nothing(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host()
    with opened(host) as client:
        session = session_of(client)
        if fault == "params":
            with pytest.raises(TypeError):
                client.listen(tools_list_changed=True, filters={"x": object()})
        else:
            with (
                no_threads(monkeypatch, "-stream"),
                pytest.raises(RuntimeError, match="new thread"),
            ):
                client.listen(tools_list_changed=True)
        assert not session.streams and not session.calls.pending()


def test_a_stream_that_another_call_keeps_from_unsubscribing_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNSUBSCRIBE_SECONDS", 0.02)
    host = Host(session=True, **{"resources/subscribe": [result(), silence]})
    with opened(host, revision=R4) as client:
        changes, token = client.listen(resource_subscriptions=["a://1"]), CancelToken()
        slow = Task(lambda: client.subscribe("a://2", cancel=token))
        assert eventually(lambda: len(host.subscriptions()) == 2)
        changes.close()
        token.cancel()
        assert isinstance(slow.ended(), Cancelled)
        client.unsubscribe("a://1")
        assert host.subscriptions()[-1] == ("unsubscribe", "a://1")


def test_a_subscription_that_may_have_succeeded_is_cancelled() -> None:
    host = Host(session=True, **{"resources/subscribe": silence})
    with opened(host, revision=R4) as client:
        with pytest.raises(RequestTimeout):
            client.listen(resource_subscriptions=["a://1"], timeout=0.05)
        assert host.subscriptions() == [("subscribe", "a://1"), ("unsubscribe", "a://1")]
