"""What minimcp/pipe.py promises, over every kind of pipe."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from typing import Callable, List

import pytest

from minimcp.engine.transport import Frame, TooLong, Transport
from minimcp.errors import ConnectionLost

from ..support import WAIT, eventually
from .ends import Connector, Task, receive_all, receive_some

BIG = 20 * 1024 * 1024


def send_all(pipe: Transport, data: bytes) -> None:
    """Hand over everything, however little goes at once."""
    view = memoryview(data)
    while view:
        taken = pipe.send(bytes(view), WAIT)
        assert taken, "the peer takes nothing"
        view = view[taken:]


@pytest.mark.requirement("STDIO-03", "M:STD-1")
def test_lines_arrive_in_order_both_ways(connect: Connector) -> None:
    ours, peer = connect()
    lines = [b"%d" % number for number in range(2000)]
    data = b"".join([line + b"\n" for line in lines])
    for one, other in ((ours, peer), (peer, ours)):
        sending = Task(send_all, one, data)
        assert receive_some(other, len(lines)) == lines
        sending.result()


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_twenty_megabytes_both_ways_at_once(connect: Connector) -> None:
    ours, peer = connect()
    there, back = b"a" * BIG, b"b" * BIG
    sending = [Task(send_all, ours, there + b"\n"), Task(send_all, peer, back + b"\n")]
    arriving = [Task(receive_some, peer, 1), Task(receive_some, ours, 1)]
    for each in sending:
        each.result()
    assert arriving[0].result() == [there]
    assert arriving[1].result() == [back]


def test_lines_of_every_length(connect: Connector) -> None:
    ours, peer = connect()
    lines = [b"x" * length or b"0" for length in range(0, 200_001, 1000)]
    sending = Task(send_all, peer, b"\n".join(lines) + b"\n")
    assert receive_some(ours, len(lines)) == lines
    sending.result()


def test_a_line_sent_byte_by_byte(connect: Connector) -> None:
    ours, peer = connect()
    arriving = Task(receive_some, ours, 2)
    for byte in b"\xef\xbb\xbfone\r\n\ntwo\n":
        assert peer.send(bytes([byte]), WAIT) == 1
    assert arriving.result() == [b"one", b"two"]


@pytest.mark.requirement("STDIO-03")
def test_only_a_line_feed_ends_a_line(connect: Connector) -> None:
    ours, peer = connect()
    odd = ["\0", "\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "a\rb", "\x1c"]
    lines = [text.encode() for text in odd]
    send_all(peer, b"\n".join(lines) + b"\n")
    assert receive_some(ours, len(lines)) == lines


@pytest.mark.parametrize("over", [0, 1, 2, 1_000_000])
def test_a_line_over_the_limit_is_skipped(connect: Connector, over: int) -> None:
    ours, peer = connect(1000)
    sending = Task(send_all, peer, b"before\n" + b"x" * (1000 + over) + b"\nafter\n")
    before, long, after = receive_some(ours, 3)
    sending.result()
    assert (before, after) == (b"before", b"after")
    if over:
        assert isinstance(long, TooLong)
        assert long.limit == 1000
    else:
        assert long == b"x" * 1000


def test_the_peers_end_of_stream(connect: Connector) -> None:
    ours, peer = connect()
    send_all(peer, b"whole\nhalf")
    peer.close()
    assert receive_all(ours) == [b"whole", b"half"]
    assert ours.receive() == []


def test_sending_to_a_peer_that_is_gone(connect: Connector) -> None:
    ours, peer = connect()
    peer.close()

    def fails() -> bool:
        try:
            ours.send(b"x\n", WAIT)
        except ConnectionLost as error:
            return ours.name in str(error)
        return False

    assert eventually(fails)


def test_close_wakes_a_thread_that_receives(connect: Connector) -> None:
    ours, peer = connect()
    waiting = Task(receive_all, ours)
    send_all(peer, b"first\n")
    ours.close()
    assert waiting.result() in ([], [b"first"])
    assert ours.receive() == []


def test_close_wakes_a_thread_that_sends(connect: Connector) -> None:
    ours, _ = connect()
    waiting = Task(send_all, ours, b"x" * BIG)
    # The peer reads nothing: once the pipe is full, the other thread waits.
    ours.close()
    with pytest.raises(ConnectionLost):
        waiting.result()
    with pytest.raises(ConnectionLost):
        ours.send(b"x\n", WAIT)


def test_close_from_many_threads_at_once(connect: Connector) -> None:
    ours, _ = connect()
    reading = Task(receive_all, ours)
    gate = threading.Barrier(4)

    def close() -> None:
        gate.wait(WAIT)
        ours.close()

    for each in [Task(close) for _ in range(4)]:
        each.result()
    assert reading.result() == []
    ours.close()
    ours.finish()


def test_send_tells_how_much_a_peer_took_that_stopped_reading(connect: Connector) -> None:
    ours, peer = connect()
    data = b"y" * 5_000_000 + b"\n"
    first = ours.send(data, 0.05)
    assert 0 < first < len(data)
    assert ours.send(data[first:], 0) == 0
    arriving = Task(receive_some, peer, 1)
    send_all(ours, data[first:])
    assert arriving.result() == [data[:-1]]
    assert ours.send(b"", WAIT) == 0


@pytest.mark.requirement("STDIO-11")
def test_finish_ends_our_stream_and_goes_on_receiving(connect: Connector) -> None:
    ours, peer = connect()
    send_all(ours, b"last\n")
    ours.finish()
    ours.finish()
    assert receive_all(peer) == [b"last"]
    send_all(peer, b"answer\n")
    assert receive_some(ours, 1) == [b"answer"]
    with pytest.raises(ConnectionLost):
        ours.send(b"more\n", WAIT)


def test_finish_lets_a_running_send_end(connect: Connector) -> None:
    ours, peer = connect()
    line = b"z" * 2_000_000
    sending = Task(ours.send, line + b"\n", WAIT)
    begun: List[Frame] = []
    ended = Task(lambda: begun.extend(receive_some(peer, 1)))
    ended.result()
    ours.finish()
    assert sending.result() == len(line) + 1
    assert begun == [line]
    assert receive_all(peer) == []


def test_lost_names_the_pipe(connect: Connector) -> None:
    ours, peer = connect()
    peer.close()
    assert receive_all(ours) == []
    error = ours.lost("the peer closed the connection")
    assert isinstance(error, ConnectionLost)
    assert str(error).startswith(f"{ours.name}: the peer closed the connection")


def in_fork(look: Callable[[], bool]) -> int:
    """Run `look` in a forked process; 0 when it returned true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Other threads run: that is the point.
        pid = os.fork()
    if pid == 0:
        signal.alarm(int(WAIT))
        code = 2
        try:
            code = 0 if look() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def test_a_fork_has_no_connection_and_harms_none(connect: Connector) -> None:
    ours, peer = connect()
    waiting = Task(receive_some, ours, 1)

    def look() -> bool:
        try:
            ours.send(b"from the fork\n", 1)
        except ConnectionLost as error:
            refused = "fork" in str(error)
        nothing = ours.receive() == []
        said = "fork" in str(ours.lost("from the fork"))
        ours.finish()
        ours.close()
        ours.close()
        return refused and nothing and said

    assert in_fork(look) == 0
    send_all(ours, b"there\n")
    assert receive_some(peer, 1) == [b"there"]
    send_all(peer, b"back\n")
    assert waiting.result() == [b"back"]


def test_a_fork_closes_its_copies(connect: Connector) -> None:
    before = set(os.listdir("/proc/self/fd"))
    ours, peer = connect()

    def look() -> bool:
        ours.close()
        peer.close()
        left = len(set(os.listdir("/proc/self/fd")) - before)
        # The test's own: two saved streams, or the sockets that the child's were lent through.
        return left <= {"standard": 2, "standard_sockets": 2, "child": 2}.get(connect.kind, 0)

    assert in_fork(look) == 0
