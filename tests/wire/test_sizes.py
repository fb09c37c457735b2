"""C12 to C14 of the fault catalogue: messages of every size, and lines that are too long."""

from __future__ import annotations

import pytest

from ..support import eventually
from .conftest import Serve
from .harness import WAIT
from .messages import REQUEST, encode, request

MEGABYTE = 1 << 20


def call(id: object, size: int, tool: str = "length") -> bytes:
    """A call with a text of this many characters."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": {"text": "x" * size}}))


GIVES_BACK = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_ARENA_MAX": "1"}
"""Have the C library hand every larger block back when it is freed, so that a process is as big as what it holds."""


def test_c12_fifty_megabytes_in_linear_time_and_bounded_memory(serve: Serve) -> None:
    server = serve("2025-06-18", env=GIVES_BACK)
    server.call("length", {"text": ""})
    base, spent = server.status("VmRSS"), {}
    for size in (12_500_000, 50_000_000) * 2:  # the quicker one counts: others use the machine too
        before = server.cpu()
        server.send(call(size, size))
        assert server.answer(size)["result"]["content"][0]["text"] == str(size)
        spent[size] = min(server.cpu() - before, spent.get(size, WAIT))
    assert spent[50_000_000] < 12 * max(spent[12_500_000], 0.02), spent  # 4 would be exact, 16 quadratic
    assert (server.status("VmHWM") - base) * 1024 < 4 * 50_000_000
    server.lives()


def test_c12_nothing_of_a_large_message_is_kept(serve: Serve) -> None:
    """A connection that waits for the next message has let go of the last one, in the reader and in the workers."""
    server = serve("2025-06-18", env=GIVES_BACK)
    server.call("length", {"text": ""})
    base = server.status("VmRSS")
    server.send(call(1, 10 * MEGABYTE))
    assert server.answer(1)["result"]["content"][0]["text"] == str(10 * MEGABYTE)
    assert eventually(lambda: (server.status("VmRSS") - base) * 1024 < MEGABYTE)


def test_c13_fifty_megabytes_without_a_line_feed(serve: Serve) -> None:
    limit = 4 * MEGABYTE
    server = serve("2025-06-18", limits={"message_bytes": limit})
    server.send(call(0, limit - 1000))
    assert "result" in server.answer(0)
    base = server.status("VmHWM")
    for _ in range(2):
        for _ in range(50):
            server.send(b"x" * 1_000_000)
        assert server.error(b"") == REQUEST  # one answer, whenever it comes
        server.lives()
    assert (server.status("VmHWM") - base) * 1024 < limit + 8 * MEGABYTE


def test_c13_the_limit_is_met_exactly(serve: Serve) -> None:
    limit = 10_000
    server = serve("2025-06-18", limits={"message_bytes": limit})
    empty = len(call(1, 0)) - 1  # the line feed is not part of the message
    for size, served in ((limit - 1, True), (limit, True), (limit + 1, False), (2 * limit, False)):
        server.send(call(1, size - empty))
        message = server.message()
        assert ("result" in message) == served, (size, message)
        if not served:
            assert message["error"]["code"] == REQUEST
            assert message["id"] == 1
    server.lives()


def test_c13_a_line_that_is_too_long_and_never_ends(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"message_bytes": 10_000})
    server.send(b"x" * 50_000)
    server.close_input()
    left = server.rest()
    assert [message["error"]["code"] for message in left] == [REQUEST]
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12")
def test_c14_every_size_up_to_two_hundred_kilobytes(shared: Serve) -> None:
    server = shared("2025-06-18")
    for size in range(0, 201 * 1024, 1024):
        server.send(call(size, size, "echo"))
    for size in range(0, 201 * 1024, 1024):
        assert len(server.answer(size)["result"]["content"][0]["text"]) == size
    server.lives()


def test_c14_around_the_size_of_a_pipe(shared: Serve) -> None:
    server = shared("2025-06-18")
    for size in (4095, 4096, 4097, 65535, 65536, 65537, 131072):
        server.send(call(size, size, "echo"))
        assert len(server.answer(size)["result"]["content"][0]["text"]) == size


def test_c14_one_byte_at_a_time(shared: Serve) -> None:
    server = shared("2025-06-18")
    line = call("slowly", 40, "echo")
    for index in range(len(line)):
        server.send(line[index : index + 1])
    assert server.answer("slowly")["result"]["content"][0]["text"] == "x" * 40
    server.lives()


def test_c14_a_thousand_in_one_write(shared: Serve) -> None:
    server = shared("2025-06-18")
    server.send(b"".join(call(n, n % 50, "echo") for n in range(1000)))
    for n in range(1000):
        assert len(server.answer(n)["result"]["content"][0]["text"]) == n % 50
    server.lives()


def test_c14_a_last_line_without_a_line_feed_is_served(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.send(call("last", 3, "echo").rstrip(b"\n"))
    server.close_input()
    assert [message["id"] for message in server.rest()] == ["last"]
    assert server.exit() == 0


def test_c14_half_a_line_at_the_end_is_answered_as_what_it_is(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.send(call("last", 3, "echo")[:30])
    server.close_input()
    assert [message["error"]["code"] for message in server.rest()] in ([], [-32700])
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_both_directions_flow_at_once(serve: Serve) -> None:
    """Twenty megabytes each way, with nothing read before all is written."""
    server = serve("2025-06-18")
    server.send(b"".join(call(n, MEGABYTE, "echo") for n in range(20)), reading=True)
    for n in range(20):
        assert server.answer(n)["result"]["content"][0]["text"] == "x" * MEGABYTE
    server.lives()
