"""What a client listens to: how streams are opened, replaced, opened again and given up, against a scripted server."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
import weakref
from contextlib import contextmanager
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
    client as client_module,
    listening as module,
)
from minimcp.client.streams import Filter, Stream
from minimcp.engine.timer import Deadline

from .answering import R4, Answer, error, result, silence
from .listening import ACKNOWLEDGED, LISTEN, PROMPTS, RESOURCES, TOOLS, UPDATED, Host, about, agree
from .scripted import Task, cancelled, no_threads, notice, wait_for
from .support import WAIT, MovedTime, eventually, let_go


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test can wait for, and time for a server that answers."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "PATIENCE", WAIT)


@contextmanager
def opened(host: Host, **keywords: Any) -> Iterator[Any]:
    with minimcp.connect(host, timeout=WAIT, **keywords) as client:
        yield client


def in_fork(check: Callable[[], object]) -> str:
    """What `check` returns in a forked process, as text, or how it failed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons dislike a fork beside threads
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(int(WAIT))
            try:
                text = str(check())
            except BaseException as failed:
                text = f"{type(failed).__name__}: {failed}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(pid, 0)
    return text


# ---------------------------------------------------------------- how a stream begins

Make = Callable[[Any], List[Any]]

FAULTS: Dict[str, Any] = {
    "silence": (
        lambda id: [notice("notifications/other")], RequestTimeout,
        "subscriptions/listen: no acknowledgement within 0.1 s",
    ),
    "unknown": (lambda id: [failed(id, -32601, "Method not found")], MethodNotFound, "Method not found"),
    "full": (lambda id: [failed(id, -32603, "too many")], InternalError, "too many"),
    "over": (lambda id: [ended(id)], ConnectionLost, "ended the stream before it began"),
    "cancelled": (lambda id: [cancelled(id)], ConnectionLost, "the server ended the stream"),
    "early": (lambda id: [about(id, TOOLS), agree(id)], ProtocolViolation, "a stream begins with"),
    "other-id": (lambda id: [agree(str(id))], RequestTimeout, "no acknowledgement"),
    "no-id": (lambda id: [notice(ACKNOWLEDGED, notifications={})], RequestTimeout, "no acknowledgement"),
    "nonsense": (lambda id: [{"jsonrpc": "2.0", "id": id}], ProtocolViolation, "result"),
}
"""What a server does about a listen, and what comes of it."""


def ended(id: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {}}


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
        assert not client._listening._streams.requests and not len(client._channel.calls.table)
        told_of = fault in ("silence", "early", "other-id", "no-id")
        assert host.closed() == host.listens() if told_of else not host.calls("notifications/cancelled")
        with client.listen(tools_list_changed=True) as changes:
            host.pipe.give(about(host.listens()[1], TOOLS))
            assert changes.next(WAIT).kind == "tools_list_changed"


@pytest.mark.requirement("M:SUB-16")
def test_a_stream_may_be_silent_for_longer_than_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    moved = MovedTime()
    for where in ("minimcp.deadline", "minimcp.clock"):
        monkeypatch.setattr(where + ".time", moved)
    with minimcp.connect(host, timeout=WAIT) as client, client.listen(tools_list_changed=True) as changes:
        moved.ahead += 2 * WAIT
        with pytest.raises(RequestTimeout):
            changes.next(0.01)
        host.pipe.give(about(host.listens()[0], TOOLS))
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
        assert len(host.calls(method)) == 1 and not client._listening._streams.filters


def test_a_cancel_that_comes_with_the_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    token, host = CancelToken(), Host()
    begin = Stream.begin

    def late(self: Stream, deadline: Any) -> Any:
        first = begin(self, deadline)
        token.cancel("too late")
        return first

    monkeypatch.setattr(Stream, "begin", late)
    with opened(host) as client:
        with pytest.raises(Cancelled, match="too late"):
            client.listen(tools_list_changed=True, cancel=token)
        assert host.closed() == host.listens() and not client._listening._streams.requests


@pytest.mark.parametrize("session", [True, False])
def test_wrong_arguments_are_told_before_anything_is_sent(session: bool) -> None:
    host = Host(session=session)
    with opened(host, revision=R4 if session else "auto") as client:
        before = len(host.pipe.messages)
        for wrong in (
            {"resource_subscriptions": "a://1"}, {"resource_subscriptions": [5]}, {"resource_subscriptions": [b"a"]},
            {"cancel": True}, {"timeout": "soon"},
        ):
            with pytest.raises(TypeError):
                client.listen(**wrong)
        for ask in (client.subscribe, client.unsubscribe):
            with pytest.raises(TypeError, match="a str, not the int 5"):
                ask(5)
            with pytest.raises(TypeError, match="CancelToken"):
                ask("a://1", cancel=5)
        assert len(host.pipe.messages) == before


def test_a_connection_that_is_lost_while_a_stream_begins() -> None:
    host = Host(silence)
    with opened(host) as client:
        task = Task(lambda: client.listen(tools_list_changed=True))
        host.listens()
        host.pipe.end()
        with pytest.raises(ConnectionLost, match="the peer closed"):
            task.result()
        for ask in (lambda: client.listen(tools_list_changed=True), lambda: client.subscribe("a://1")):
            with pytest.raises(ConnectionLost, match="the peer closed"):
                ask()
        assert not client._listening._streams.requests


# ---------------------------------------------------------------- sessions


@pytest.mark.requirement("RES-13", "M:SUB-24", "M:SUB-12")
def test_what_a_session_subscribes_to_is_shared() -> None:
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
        assert not client._listening._listened and not client._listening._uris


@pytest.mark.requirement("M:SUB-24", "M:SUB-12")
def test_what_a_session_does_not_offer_is_not_honoured() -> None:
    host = Host(session=True, capabilities={"tools": {}, "resources": {"listChanged": True}})
    with opened(host, revision=R4) as client:
        with client.listen(True, True, True, ["a://1"]) as changes:
            assert changes.honored == Filter(resources_list_changed=True)
        assert not host.subscriptions()
        for ask in (client.subscribe, client.unsubscribe):
            with pytest.raises(CapabilityNotSupported, match=r"resources\.subscribe"):
                ask("a://1")


def test_a_subscription_of_a_session_that_fails_takes_the_others_back() -> None:
    host = Host(session=True, **{"resources/subscribe": [result(), error(-32602, "no such"), result()]})
    with opened(host, revision=R4) as client:
        with pytest.raises(minimcp.InvalidParams, match="no such"):
            client.listen(resource_subscriptions=["a://1", "a://2", "a://3"])
        assert host.subscriptions() == [("subscribe", "a://1"), ("subscribe", "a://2"), ("unsubscribe", "a://1")]
        assert not client._listening._streams.filters


@pytest.mark.parametrize("answer", [silence, error(-32603, "no")])
def test_a_server_that_does_not_let_go_keeps_nobody_long(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FAREWELL", 0.2)
    host = Host(session=True, **{"resources/unsubscribe": answer})
    with opened(host, revision=R4) as client:
        changes = client.listen(resource_subscriptions=[f"a://{number}" for number in range(100)])
        Task(changes.close).result()
        assert client.ping() >= 0 and list(changes) == []
        client.subscribe("a://1")


def test_a_call_that_waits_for_its_turn_may_be_given_up() -> None:
    host = Host(session=True, **{"resources/subscribe": silence})
    with opened(host, revision=R4) as client:
        first, second = CancelToken(), CancelToken()
        slow = Task(lambda: client.subscribe("a://1", cancel=first))
        assert eventually(lambda: host.subscriptions())
        with pytest.raises(RequestTimeout, match="an earlier call about subscriptions"):
            client.subscribe("a://2", timeout=0.02)
        waiting = Task(lambda: client.unsubscribe("a://1", cancel=second))
        assert eventually(lambda: "2 in line" in repr(client._listening._turn))
        for token, task in ((second, waiting), (first, slow)):
            token.cancel()
            with pytest.raises(Cancelled):
                task.result()
        assert host.subscriptions() == [("subscribe", "a://1")]


def test_a_session_that_is_lost_while_a_stream_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(session=True)
    with opened(host, revision=R4) as client:
        host.pipe.end()
        assert client._sessions.newest.session.wait_until_ended(WAIT)
        with pytest.raises(ConnectionLost):
            client.listen(tools_list_changed=True)
        assert not client._listening._streams.filters


# ---------------------------------------------------------------- the client's own stream


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
    """The filters that were asked for, once there are so many."""
    host.listens(count)
    return [message["params"]["notifications"] for message in host.calls(LISTEN)]


LISTED = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@pytest.mark.requirement("M:SUB-19", "M:PRM-7")
def test_connect_opens_a_stream_for_the_callbacks() -> None:
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks):
        assert asked(host, 1) == [LISTED]
        (id,) = host.listens()
        host.pipe.give(about(id, TOOLS), about(id, PROMPTS), about(id, RESOURCES), about(id, UPDATED, uri="a://1"))
        assert heard.next(4) == ["tools", "prompts", "resources", "a://1"]
    assert host.closed() == [id]


@pytest.mark.parametrize("capabilities", [{"tools": {}}, {"tools": {"listChanged": False}}, {}])
def test_no_stream_is_opened_for_what_the_server_never_tells(capabilities: Any) -> None:
    host, heard = Host(capabilities=capabilities), Heard()
    with opened(host, **heard.callbacks), opened(Host(), on_resource_updated=print):
        assert not host.calls(LISTEN)


@pytest.mark.requirement("M:SUB-24")
def test_a_subscription_replaces_the_stream() -> None:
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        for step in (
            lambda: client.subscribe("a://1"), lambda: client.subscribe("a://1"), lambda: client.subscribe("a://2"),
            lambda: client.unsubscribe("a://1"), lambda: client.unsubscribe("a://1"),
        ):
            step()
        assert asked(host, 4) == [
            LISTED, {**LISTED, "resourceSubscriptions": ["a://1"]},
            {**LISTED, "resourceSubscriptions": ["a://1", "a://2"]}, {**LISTED, "resourceSubscriptions": ["a://2"]},
        ]
        *old, newest = host.listens(4)
        assert host.closed(3) == old
        order = [message["method"] for message in host.calls(LISTEN, "notifications/cancelled")]
        assert order[:2] == [LISTEN, LISTEN], "the old one is closed when the new one is there"
        host.pipe.give(*(about(id, UPDATED, uri=f"a://{id}") for id in (*old, newest)))
        assert heard.next(1) == [f"a://{newest}"]
        assert len(client._listening._streams.requests) == 1


def test_while_a_stream_is_replaced_every_change_is_told_once() -> None:
    host, heard, gate = Host(None, silence), Heard(), threading.Event()
    with opened(host, **heard.callbacks) as client:
        task = Task(client.subscribe, "a://1")
        first, second = host.listens(2)
        host.pipe.give(about(first, TOOLS))
        assert heard.next(1) == ["tools"], "the old one counts until the new one is acknowledged"
        assert not host.calls("notifications/cancelled")
        host.pipe.give(
            about(first, PROMPTS), agree(second, **LISTED, resourceSubscriptions=["a://1"]), about(second, RESOURCES),
            about(first, RESOURCES),
        )
        task.result()
        host.pipe.give(about(second, UPDATED, uri="a://1"))
        assert heard.next(3) == ["prompts", "resources", "a://1"]
        assert host.closed() == [first] and not gate.is_set()


@pytest.mark.requirement("M:SUB-12")
def test_a_subscription_that_is_not_honoured_leaves_the_old_stream() -> None:
    host, heard = Host(), Heard()
    host.answers[LISTEN] = [host.agree, host.gives(lambda id: [agree(id, **LISTED)]), error(-32603, "full"), host.agree]
    with opened(host, **heard.callbacks) as client:
        with pytest.raises(CapabilityNotSupported, match="does not tell of changes of a://1"):
            client.subscribe("a://1")
        assert heard.next(3) == ["tools", "prompts", "resources"], "something may have been lost in between"
        first, second = host.listens(2)
        host.pipe.give(about(second, TOOLS), about(first, PROMPTS))
        assert heard.next(1) == ["prompts"] and host.closed() == [second]
        with pytest.raises(InternalError, match="full"):
            client.subscribe("a://2")
        host.pipe.give(about(first, TOOLS))
        assert heard.next(1) == ["tools"]
        client.subscribe("a://3")
        assert asked(host, 4)[-1]["resourceSubscriptions"] == ["a://3"]


def test_a_stream_for_nothing_is_closed_and_its_thread_ends() -> None:
    host = Host()
    before = set(threading.enumerate())
    with opened(host) as client:
        idle = set(threading.enumerate())
        for number in range(3):
            client.subscribe("a://1")
            keeper = client._listening._keeper
            client.unsubscribe("a://1")
            assert host.closed(number + 1) == host.listens()
            keeper.join(WAIT)
            assert not keeper.is_alive() and client._listening._background is None
        assert eventually(lambda: not set(threading.enumerate()) - idle)
    assert eventually(lambda: not set(threading.enumerate()) - before)


@pytest.mark.requirement("M:SUB-11")
def test_a_stream_that_the_server_ends_is_opened_again_and_the_gap_is_told() -> None:
    host, heard = Host(), Heard()
    host.answers[LISTEN] = [
        host.agree, host.agree, error(-32603, "busy"), host.gives(lambda id: [cancelled(id)]), host.agree
    ]
    with opened(host, **heard.callbacks) as client:
        client.subscribe("a://1")
        host.pipe.give(cancelled(host.listens(2)[1]))
        newest = host.listens(5)[4]
        assert heard.next(4) == ["tools", "prompts", "resources", "a://1"], "once, when it is there again"
        host.pipe.give(about(newest, TOOLS))
        assert heard.next(1) == ["tools"] and heard.news.empty()
        assert asked(host, 5)[4] == {**LISTED, "resourceSubscriptions": ["a://1"]}


def test_a_stream_that_somebody_replaces_after_its_end_tells_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 60.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 60.0)
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        client.subscribe("a://1")
        keeper = client._listening._keeper
        host.pipe.give(ended(host.listens(2)[1]))
        assert eventually(lambda: client._channel.calls.table.ids() and client._listening._background.call.ended)
        client.subscribe("a://2")
        assert heard.next(4) == ["tools", "prompts", "resources", "a://1"]
        assert client._listening._keeper is not keeper
    keeper.join(WAIT)
    assert not keeper.is_alive()


def test_a_stream_that_is_replaced_while_it_waits_to_be_opened_again() -> None:
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        keeper, turn = client._listening._keeper, client._listening._turn
        with turn.taken(Deadline(WAIT)):
            task = Task(client.subscribe, "a://1")
            assert eventually(lambda: "2 in line" in repr(turn))
            host.pipe.give(ended(host.listens()[0]))
            assert eventually(lambda: "3 in line" in repr(turn))
        task.result()
        keeper.join(WAIT)
        assert not keeper.is_alive() and len(host.listens(2)) == 2
        assert heard.next(3) == ["tools", "prompts", "resources"]


def test_a_gap_is_told_to_those_who_are_there() -> None:
    host, heard = Host(), Heard()
    everything = {**LISTED, "resourceSubscriptions": ["a://1"]}
    host.answers[LISTEN] = host.gives(lambda id: [agree(id, **everything)])
    with opened(host, on_tools_changed=heard.callbacks["on_tools_changed"]) as client:
        client.subscribe("a://1")
        host.pipe.give(ended(host.listens(2)[1]))
        assert heard.next(1) == ["tools"]
        host.pipe.give(about(host.listens(3)[2], TOOLS))
        assert heard.next(1) == ["tools"] and heard.news.empty()


def test_the_pause_grows_and_begins_anew_after_a_long_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.02)
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        listening = client._listening
        for number, (begin, steady, then) in enumerate([(0.001, 60, 0.002), (0.015, 60, 0.02), (0.015, -1.0, 0.02)]):
            listening._pause = begin
            monkeypatch.setattr(module, "STEADY", steady)
            host.pipe.give(ended(host.listens(number + 1)[number]))
            heard.next(3)
            assert listening._pause == then
    assert module.FIRST_PAUSE == 0.01, "which doubled is what came last"


@pytest.mark.parametrize("end", ["close", "loss"])
def test_the_end_of_the_connection_ends_the_pause(
    end: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 60.0)
    host = Host()
    with opened(host, on_tools_changed=print) as client:
        keeper, table = client._listening._keeper, client._channel.calls.table
        (id,) = host.listens()
        host.pipe.give(ended(id))
        assert eventually(lambda: table.ids() and table.ids() != [id])
        if end == "loss":
            host.pipe.end()
        else:
            client.close()
        keeper.join(WAIT)
        assert not keeper.is_alive()
    assert "cannot be opened" not in caplog.text


def test_a_connection_that_is_lost_while_a_stream_is_opened_again(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(None, silence)
    with opened(host, on_tools_changed=print) as client:
        keeper = client._listening._keeper
        host.pipe.give(ended(host.listens()[0]))
        host.listens(2)
        host.pipe.end()
        keeper.join(WAIT)
        assert not keeper.is_alive()
        client.close()
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


def test_many_threads_subscribe_at_once() -> None:
    host, heard = Host(), Heard()
    with opened(host, **heard.callbacks) as client:
        def work(number: int) -> None:
            for _ in range(5):
                client.subscribe(f"a://{number}")
                client.unsubscribe(f"a://{number}")
            client.subscribe(f"a://{number}")

        for task in [Task(work, number) for number in range(4)]:
            task.result()
        assert asked(host, 1)[-1]["resourceSubscriptions"] == [f"a://{number}" for number in range(4)]
        assert len(client._listening._streams.requests) == 1
        host.pipe.give(about(host.listens()[-1], TOOLS))
        assert heard.next(1) == ["tools"]


@pytest.mark.parametrize("answer", [error(-32601, "none"), error(-32603, "full"), result(), silence])
def test_a_server_that_gives_no_stream_is_connected_all_the_same(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    host = Host(answer)
    with opened(host, on_tools_changed=print) as client:
        assert client.ping() >= 0 and client._listening._keeper is None
    assert "no stream of changes" in caplog.text


def test_a_server_that_dies_of_a_listen_is_not_connected() -> None:
    host = Host()
    host.answers[LISTEN] = lambda message: host.pipe.end()
    with pytest.raises(minimcp.ConnectionFailed):
        opened(host, on_tools_changed=print).__enter__()


def test_no_thread_for_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    with opened(host) as client:
        with no_threads(monkeypatch, "listening"), pytest.raises(RuntimeError, match="can't start new thread"):
            client.subscribe("a://1")
        assert host.closed() == host.listens() and client._listening._background is None
        client.subscribe("a://1")
    with no_threads(monkeypatch, "listening"), pytest.raises(minimcp.ConnectionFailed, match="can't start new thread"):
        opened(Host(), on_tools_changed=print).__enter__()


# ---------------------------------------------------------------- clients that go


def test_a_client_that_listens_is_collected() -> None:
    host = Host()
    held: List[Any] = [minimcp.connect(host, on_tools_changed=print)]
    keeper, client = held[0]._listening._keeper, weakref.ref(held[0])

    assert let_go(held, "unclosed <Client")
    assert eventually(lambda: gc.collect() >= 0 and client() is None) and eventually(lambda: host.pipe.closed)
    keeper.join(WAIT)
    assert not keeper.is_alive()


def test_a_client_that_only_listens_is_closed_at_exit() -> None:
    idle, busy = Host(), Host()
    first, second = (minimcp.connect(host, on_tools_changed=print) for host in (idle, busy))
    changes = second.listen(tools_list_changed=True)
    client_module._close_all()
    assert idle.pipe.closed and not busy.pipe.closed
    assert idle.closed() == idle.listens()
    changes.close()
    second.close()
    first.close()


@pytest.mark.parametrize("session", [True, False])
def test_a_fork_has_no_stream(session: bool) -> None:
    host = Host(session=session)
    with opened(host, revision=R4 if session else "auto", on_tools_changed=print) as client:
        client.subscribe("a://0")
        with client.listen(tools_list_changed=True, resource_subscriptions=["a://1"]) as changes:

            def look() -> str:
                found = []
                for ask in (
                    lambda: changes.next(), lambda: list(changes), lambda: client.subscribe("a://1"),
                    lambda: client.unsubscribe("a://1"), lambda: client.listen(tools_list_changed=True),
                ):
                    try:
                        ask()
                    except ConnectionLost as lost:
                        found.append("fork" in str(lost))
                changes.close()
                client.close()
                return f"{found} {list(changes)}"

            if not session:
                assert host.closed() == host.listens()[:1]  # the stream that gave way: nothing is under way any more
            with client._listening._turn.taken(Deadline(None)):  # as another thread may have it
                before = len(host.pipe.messages)
                assert in_fork(look) == f"{[True] * 5} []"
            assert len(host.pipe.messages) == before
            say = notice(TOOLS) if session else about(host.listens(3)[-1], TOOLS)
            host.pipe.give(say)
            assert changes.next(WAIT).kind == "tools_list_changed"
