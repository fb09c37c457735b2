"""C23 and C37 of the fault catalogue: only messages reach the wire, and no child process gets hold of it."""

from __future__ import annotations

import os

import pytest

from .conftest import Serve
from .messages import MODERN

WAYS = ["print", "os.write", "sys.__stdout__", "buffer", "child", "system"]


@pytest.mark.requirement("STDIO-04", "STDIO-06", "M:STD-2", "M:STD-4")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c23_stray_output_goes_to_stderr(serve: Serve, revision: str) -> None:
    server = serve(revision)
    for way in WAYS:
        assert server.text("prints", {"kind": way}) == "printed", way
    server.lives()
    assert server.finish() == []


@pytest.mark.requirement("STDIO-04", "STDIO-06")
def test_c23_stray_output_is_not_lost(serve: Serve) -> None:
    server = serve("2025-06-18")
    for way in WAYS:
        server.text("prints", {"kind": way})
    server.close_input()
    server.rest()
    server.exit()
    assert [way for way in WAYS if f"stray {way}" not in server.stderr()] == []


@pytest.mark.requirement("STDIO-04")
def test_c23_a_tool_reads_no_input(serve: Serve) -> None:
    server = serve("2025-06-18")
    assert server.text("prints", {"kind": "input"}) == "''"
    server.lives()


@pytest.mark.requirement("STDIO-04", "M:STD-2")
def test_c23_stray_output_among_many_calls(serve: Serve) -> None:
    server = serve("2025-06-18")
    ids = [server.begin_call("prints", {"kind": "print"}) for _ in range(200)]
    for id in ids:
        assert server.answer(id)["result"]["content"][0]["text"] == "printed"
    server.lives()


@pytest.mark.requirement("STDIO-04")
def test_c37_a_child_process_inherits_no_wire(serve: Serve) -> None:
    server = serve("2025-06-18")
    found = dict(line.split(" ", 1) for line in server.text("child_descriptors").splitlines())
    assert server.process.stdin is not None
    assert server.process.stdout is not None
    assert sorted(found) == ["0", "1", "2"], found
    wire = {os.readlink(f"/proc/self/fd/{stream.fileno()}") for stream in (server.process.stdin, server.process.stdout)}
    assert not wire & set(found.values()), found
