"""`ScriptedServer` and `ScriptedClient`: the messages that a test's script receives and sends, in
memory and in a child process."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, Dict

import pytest

from minimcp import ConnectionLost, InvalidParams, RequestTimeout, Server, connect
from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS
from minimcp.testing import ScriptedClient, ScriptedPeer, ScriptedServer, Transcript

from ..support import WAIT

for_revisions = pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE.name, REVISIONS[-1].name])


def text(words: str) -> Dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def greeter() -> Server:
    server = Server("greeter")

    @server.tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"

    return server


def twice(peer: ScriptedPeer) -> None:
    call = peer.expect("tools/call")
    peer.notify("notifications/message", {"level": "info", "data": "now"})
    peer.answer(call, text("not yours"), id=999)
    peer.answer(call, text("first"))
    peer.answer(call, text("second"))
    peer.answer(peer.expect("tools/call"), error={"code": -32602, "message": "no"})
    peer.expect("tools/call")
    while True:
        peer.expect()


def crash(peer: ScriptedPeer) -> None:
    peer.expect("tools/call")
    peer.send("Traceback: out of luck")
    peer.write(b'{"jsonrpc": "2.0", "id": ')
    sys.exit(3)


@for_revisions
def test_a_script_can_send_anything_that_a_server_should_not(revision: str) -> None:
    with connect(ScriptedServer(twice), revision=revision, timeout=WAIT) as client:
        assert client.call_tool("greet").text == "first"
        with pytest.raises(InvalidParams, match="^no"):
            client.call_tool("greet")
        with pytest.raises(RequestTimeout):
            client.call_tool("greet", timeout=0.05)


def test_in_memory_it_closes_the_connection() -> None:
    with (
        connect(ScriptedServer(crash)) as client,
        pytest.raises(ConnectionLost, match="a line that is not a message"),
    ):
        client.call_tool("greet")


def test_a_program_may_follow_a_script(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(
        "from minimcp import Server\nfrom minimcp.testing import ScriptedServer\n"
        "def end(peer):\n    peer.expect('tools/call')\n    raise SystemExit(3)\n"
        "server = Server('behind', instructions='Be brief.', capabilities=['tools'])\n"
        "if __name__ == '__main__':\n    ScriptedServer(end, server).run()\n"
    )
    with connect(str(file)) as client:
        assert client.instructions == "Be brief."
        with pytest.raises(ConnectionLost, match="exited with code 3"):
            client.call_tool("greet")


@for_revisions
def test_unexpected_requests_go_to_the_server_behind_the_script(revision: str) -> None:
    ends = threading.Event()

    def second_fails(peer: ScriptedPeer) -> None:
        peer.expect("prompts/list")
        peer.answer(peer.expect("tools/call"), text("from the script"))
        try:
            peer.expect("never")
        except ConnectionLost:
            ends.set()
            raise

    server = greeter()
    server.prompt(lambda: "", name="brief")
    with connect(ScriptedServer(second_fails, server), revision=revision) as client:
        assert [tool.name for tool in client.list_tools()] == ["greet"]
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
        with pytest.raises(RequestTimeout):
            client.list_prompts(timeout=0.05)
        assert client.call_tool("greet", {"name": "Ada"}).text == "from the script"
        assert client.call_tool("greet", {"name": "Ada"}).text == "Hello, Ada!"
    assert ends.wait(WAIT)


def test_a_script_may_ask(tmp_path: Path) -> None:
    def asks(peer: ScriptedPeer) -> None:
        call = peer.expect("tools/call")
        roots = peer.answer_to(peer.request("roots/list"))["result"]["roots"]
        peer.answer(call, text(roots[0]["uri"]))

    with connect(ScriptedServer(asks), revision=NEWEST_HANDSHAKE.name, roots=[tmp_path]) as client:
        assert client.call_tool("look").text == tmp_path.as_uri()


@for_revisions
def test_a_scripted_client_can_send_anything_that_a_client_should_not(revision: str) -> None:
    transcript = Transcript()
    server = Server("strict", trace=transcript, capabilities={"tools"})
    with ScriptedClient(server, revision, timeout=WAIT) as client:
        first = client.request("tools/list")
        client.send("rubbish")
        assert client.expect("error")["error"]["code"] == -32700
        client.send({**first, "id": None})
        client.write(b'{"jsonrpc": "2.0", "id": "half", ')
        client.write(b'"method": "nope"}\n')
        assert "result" in client.answer_to(first), "it was kept"
        assert client.answer_to({"id": "half"})["error"]["code"] in (-32601, -32602)
    assert "tools/list" in transcript.methods()


def test_a_client_without_a_revision_says_nothing_by_itself() -> None:
    with ScriptedClient(greeter()) as client:
        assert "error" in client.answer_to(client.request("tools/call", {"name": "greet"}))
        client.timeout = 0.01
        with pytest.raises(AssertionError, match=r"^memory: no message within 0\.01 s$"):
            client.expect()
        client.request("server/discover")
        with pytest.raises(AssertionError, match=r"^memory: no result within 0\.01 s(, but .*)?$"):
            client.expect("result")
    with pytest.raises(ConnectionLost):
        client.expect("never")


def test_a_client_of_a_process(tmp_path: Path) -> None:
    file = tmp_path / "server.py"
    file.write_text("from minimcp import Server\nServer('child').run()\n")
    with ScriptedClient(str(file), REVISIONS[-1].name, timeout=WAIT) as client:
        assert client.answer_to(client.request("server/discover"))["result"]["supportedVersions"]
    file.write_text("raise SystemExit(4)\n")
    with (
        ScriptedClient(str(file), timeout=WAIT) as client,
        pytest.raises(ConnectionLost, match="exited with code 4"),
    ):
        client.expect()


def test_a_handshake_may_be_refused() -> None:
    def refuse(peer: ScriptedPeer) -> None:
        peer.answer(peer.expect("initialize"), error={"code": -32603, "message": "not today"})

    with pytest.raises(AssertionError, match="the response to initialize is .*not today"):
        ScriptedClient(ScriptedServer(refuse), NEWEST_HANDSHAKE.name)
    with pytest.raises(TypeError, match="not a URL"):
        ScriptedClient("http://127.0.0.1:1/mcp")


def test_a_peer_that_reads_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from minimcp.testing import scripted

    monkeypatch.setattr(scripted.ScriptedPeer, "stuck_seconds", 0.01)

    class Deaf:
        def open_pipe(self) -> Any:
            from minimcp.engine.transport import memory_pair

            self.kept, theirs = memory_pair(None)
            return theirs

    deaf = Deaf()
    with ScriptedClient(deaf) as client, pytest.raises(ConnectionLost, match="does not read"):
        client.write(b"x" * 10_000_000)
    deaf.kept.close()
