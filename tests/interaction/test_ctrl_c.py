"""Ctrl-C in a thread that waits: the call ends, on the wire too, and the connection stays usable."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from minimcp.engine.timer import Deadline

from ..scripted import Task, open_channel, result
from ..support import WAIT, eventually


def ctrl_c_when(condition: Any) -> Task:
    """Have Ctrl-C strike this thread as soon as a condition holds."""
    main = threading.main_thread().ident

    def strike() -> None:
        assert eventually(condition)
        signal.pthread_kill(main, signal.SIGINT)

    return Task(strike)


@pytest.mark.parametrize("method", ["work", "initialize"])
def test_a_call_that_waits_is_cancelled_on_the_wire(method: str) -> None:
    with open_channel() as (connection, pipe, _):
        # Interrupt when the call waits: before that it is unknown which code is interrupted.
        deadline = Deadline(WAIT)
        striking = ctrl_c_when(
            lambda: [call.deadline for call in connection.calls.pending()] == [deadline]
        )
        with pytest.raises(KeyboardInterrupt):
            connection.calls.wait(connection.calls.send(method, lambda id: {}), deadline)
        striking.result()
        assert len(connection.calls) == 0
        told = [] if method == "initialize" else ["notifications/cancelled"]
        assert [line["method"] for line in pipe.lines(1 + len(told))] == [method, *told]
        call = connection.calls.send("work", lambda id: {})
        pipe.give(result(call.id, fine=1))
        assert connection.calls.wait(call, Deadline(WAIT)) == {"fine": 1}
