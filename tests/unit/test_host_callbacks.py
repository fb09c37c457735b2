"""A host's own functions: how they are gathered, on which thread they run, what a client answers."""

from __future__ import annotations

import logging
import threading
from typing import Any, List

import pytest

import minimcp
from minimcp.client import host as module
from minimcp.client.host import Dispatcher

from ..answering import R4, Answering
from ..scripted import notice, wait_for
from ..support import eventually


def test_callbacks_run_in_order_on_one_thread_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher, seen, done = Dispatcher(), [], threading.Event()  # type: ignore[var-annotated]

    def fail() -> None:
        raise SystemExit(3)

    dispatcher.put(fail)
    for number in range(100):
        dispatcher.put(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    dispatcher.put(done.set)
    wait_for(done)
    assert seen == [(number, "minimcp-callbacks") for number in range(100)]
    assert "a callback failed: SystemExit: 3" in caplog.text
    dispatcher.close()
    dispatcher.put(fail)
    dispatcher.close()
    assert eventually(lambda: not any(each.name == "minimcp-callbacks" for each in threading.enumerate()))
    assert caplog.text.count("a callback failed") == 1


def test_what_waits_is_run_after_close() -> None:
    dispatcher, gate, seen = Dispatcher(), threading.Event(), []  # type: ignore[var-annotated]
    dispatcher.put(lambda: wait_for(gate))
    dispatcher.put(lambda: seen.append(1))
    dispatcher.close()
    gate.set()
    assert eventually(lambda: seen == [1])


def test_a_slow_callback_loses_the_oldest(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "MOST_NOTIFICATIONS", 3)
    dispatcher, begun, gate, seen = Dispatcher(), threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def slow() -> None:
        begun.set()
        wait_for(gate)

    dispatcher.put(slow)
    wait_for(begun)
    for number in range(6):
        dispatcher.put(lambda number=number: seen.append(number))  # type: ignore[misc]
    gate.set()
    dispatcher.close()
    assert eventually(lambda: seen == [3, 4, 5])
    assert caplog.text.count("the oldest are dropped") == 1


def test_notices_reach_their_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    heard: List[Any] = []
    changed, server = threading.Event(), Answering()
    with minimcp.connect(server, on_log=heard.append, on_tools_changed=changed.set, revision=R4):
        server.pipe.give(
            notice("notifications/message", level=5, data="x"),
            notice("notifications/message", level="info", data={"a": 1}),
            notice("notifications/tools/list_changed"),
            notice("notifications/prompts/list_changed"),
        )
        wait_for(changed)
        assert [(message.level, message.data) for message in heard] == [("info", {"a": 1})]
        assert eventually(lambda: "prompts/list_changed: nobody listens" in caplog.text)
    assert "a notifications/message that makes no sense" in caplog.text
