"""A response that is written by one thread while another one waits for its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from minimcp.http.streams import EventStream

from ..support import WAIT


class SlowWriter:
    """Takes the last bytes of a response only when it is let go on."""

    def __init__(self) -> None:
        self.reached, self.go_on, self.complete = threading.Event(), threading.Event(), False

    def begin(self, *_: Any) -> None:
        pass

    write = begin

    def send(self, *_: Any) -> None:
        self.reached.set()
        assert self.go_on.wait(WAIT)
        self.complete = True

    end = send


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_wait_for_a_response_ends_when_all_of_it_is_written(is_stream: bool) -> None:
    writer: Any = SlowWriter()
    stream = EventStream(writer)
    if is_stream:
        stream.begin()
    seen = []
    serving = threading.Thread(target=lambda: (stream.serve(), seen.append(writer.complete)))
    ending = threading.Thread(target=stream.finish, args=(b"{}\n",))
    ending.start()
    assert writer.reached.wait(WAIT)
    assert not stream.done
    serving.start()
    writer.go_on.set()
    for thread in (ending, serving):
        thread.join(WAIT)
    assert seen == [True]
