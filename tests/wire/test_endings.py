"""C68 of the fault catalogue, where it takes a process of its own: interpreters that end with a client open."""

from __future__ import annotations

import pytest

from ..support import run_python
from .harness import PLAIN, WAIT

HEAD = f"""
import gc, os, sys, threading
import minimcp
from minimcp import ConnectionLost, Limits, Server
begun = threading.Event()
def memory():
    server = Server("m", version="1", limits=Limits(drain_grace=0.2))
    for tool in (echo, hold, wait_for):
        server.tool(tool)
    return server
def echo(text: str) -> str:
    "Give the text back."
    return text
def hold(name: str) -> str:
    "Never return."
    begun.set()
    threading.Event().wait()
def wait_for(name: str, what: str) -> str:
    "Return when hold has begun."
    return "begun" if begun.wait({WAIT}) else "it has not"
def stdio():
    return [sys.executable, "-S", {str(PLAIN)!r}, '{{"limits": {{"drain_grace": 0.2}}}}']
TARGET = {{"memory": memory, "stdio": stdio}}[sys.argv[1]]()
client = minimcp.connect(TARGET)
assert client.call_tool("echo", {{"text": "x"}}).text == "x"
"""

ENDINGS = {
    "left open": "",
    "closed at exit": "import atexit; atexit.register(client.close)",
    "closed twice at exit": "import atexit; atexit.register(client.close); client.close()",
    "collected": "del client; gc.collect()",
    "waiting in a thread": (
        "threading.Thread(target=lambda: client.call_tool('hold', {'name': 'x'}), daemon=True).start()\n"
        "client.call_tool('wait_for', {'name': 'x', 'what': 'begin'})"  # a call that begins later is told of the end
    ),
    "sys.exit": "sys.exit(0)",
    "in a cycle": (
        "class Knot: pass\nknot = Knot(); knot.me, knot.client = knot, client; del client, knot; gc.collect()"
    ),
}

FORK = """
pid = os.fork()
if not pid:
    try:
        client.call_tool("echo", {"text": "x"})
        code = 1
    except ConnectionLost:
        client.close()
        code = 7
    os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert client.call_tool("echo", {"text": "after"}).text == "after"
client.close()
"""


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_c68_the_interpreter_ends(where: str, ending: str) -> None:
    done = run_python(["-S", "-W", "ignore", "-c", HEAD + ENDINGS[ending], where], seconds=WAIT)
    assert done.returncode == 0, done.stderr.decode()
    for sign in (b"Fatal Python error", b"Exception in thread"):
        assert sign not in done.stderr, done.stderr.decode()


@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_c68_a_client_collected_while_open_warns(where: str) -> None:
    done = run_python(["-S", "-W", "always", "-c", HEAD + "del client; gc.collect(); print('on')", where], seconds=WAIT)
    assert done.returncode == 0, done.stderr.decode()
    assert b"ResourceWarning" in done.stderr


@pytest.mark.parametrize("where", ["memory", "stdio"])
def test_c68_after_a_fork_the_child_has_no_client(where: str) -> None:
    done = run_python(["-S", "-W", "ignore", "-c", HEAD + FORK, where], seconds=WAIT)
    assert done.returncode == 0, done.stderr.decode()
