"""Exceptions of signal handlers in the middle of a write: no frame suffers, and nobody has to write again."""

from __future__ import annotations

from contextlib import closing
from typing import Any, List

import pytest

from minimcp.engine.connection import Connection
from minimcp.engine.transport import MemoryPipe

from ..scripted import ScriptedPipe, ScriptedRole, Task
from ..striking import struck_at
from ..support import WAIT, run_python


class InterruptedPipe(ScriptedPipe):
    """Takes half of the first thing that is sent, and then Ctrl-C strikes."""

    __slots__ = ("struck",)

    def __init__(self) -> None:
        super().__init__()
        self.struck = False

    def send_counted(self, data: bytes, seconds: float, counts: List[int]) -> None:
        if self.struck:
            super().send_counted(data, seconds, counts)
            return
        self.struck = True
        self.sent += data[: len(data) // 2]
        counts.append(len(data) // 2)
        raise KeyboardInterrupt


@pytest.mark.parametrize("act", ["write", "post"])
def test_the_rest_of_a_torn_frame_follows_though_nobody_writes_again(act: str) -> None:
    pipe = InterruptedPipe()
    with closing(Connection(pipe, ScriptedRole(), name="test").open()) as channel:
        with pytest.raises(KeyboardInterrupt):
            getattr(channel, act)(b'{"first": 1}\n')
        assert pipe.lines(1) == [{"first": 1}]


@pytest.mark.parametrize("method", ["work", "initialize"])
def test_a_call_that_is_struck_while_it_is_sent_is_cancelled_on_the_wire(method: str) -> None:
    pipe = InterruptedPipe()
    with closing(Connection(pipe, ScriptedRole(), name="test").open()) as channel:
        with pytest.raises(KeyboardInterrupt):
            channel.calls.call(method, lambda id: {})
        assert len(channel.calls.table) == 0
        told = [] if method == "initialize" else ["notifications/cancelled"]
        assert [line["method"] for line in pipe.lines(1 + len(told))] == [method, *told]


def test_a_notification_struck_at_any_point_leaves_the_connection_usable() -> None:
    number = 0
    while True:
        ours, theirs = MemoryPipe.pair()
        with closing(Connection(ours, ScriptedRole(), name="test").open()) as channel, closing(theirs):
            struck = struck_at(number, lambda: channel.write(b'{"first":1}\n'))  # noqa: B023
            Task(channel.write, b'{"last":1}\n').result()
            frames: List[Any] = []
            while b'{"last":1}' not in frames:
                frames += theirs.receive()
            assert frames in ([b'{"first":1}', b'{"last":1}'], [b'{"last":1}']), number
        if not struck:
            break
        number += 1
    assert number > 20


@pytest.mark.parametrize("what", ["many_writes", "calls_while_others_call"])
def test_a_timer_strikes_the_main_thread_anywhere(what: str) -> None:
    """In a process of its own: a tool that traces these tests has locks that could not bear it."""
    done = run_python(["-m", "tests.interaction.struck", what], seconds=3 * WAIT)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr.decode()
