"""Ctrl-C in a thread that waits: the call ends, on the wire too, and the connection stays usable."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from minimcp.engine.timer import Deadline

from ..scripted import Task, open_channel, result
from ..support import WAIT, eventually, run_python


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


SENDERS = """
import random, signal, threading, time
from minimcp import Server, connect

client = connect(Server("s")).__enter__()
done = threading.Event()
counts = [0, 0, 0, 0]

def send(number):
    while not done.is_set():
        client.notify("notifications/x")
        counts[number] += 1

threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
for each in threads:
    each.start()
armed = False

def interrupt(*_):
    if armed:
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
for _ in range(100):
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0003, 0.003))
        while True:
            client.notify("notifications/x")
    except KeyboardInterrupt:
        armed = False
before = list(counts)
end = time.monotonic() + 20
while time.monotonic() < end and not all(now > then for now, then in zip(counts, before)):
    time.sleep(0.01)
print(all(now > then for now, then in zip(counts, before)))
done.set()
for each in threads:
    each.join(20)
client.close()
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_thread_that_is_interrupted_while_it_sends_does_not_stop_the_others() -> None:
    done = run_python(["-c", SENDERS])
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"True", b"")
