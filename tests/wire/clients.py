"""Helpers for the tests of the client: a scripted server to connect to, and its journal of the
client's messages."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

import minimcp

from ..support import WAIT, eventually
from .messages import CAPABILITIES_KEY, HANDSHAKES, MODERN, VERSION_KEY, check, decode

PEER = Path(__file__).resolve().parent / "peer.py"

HANDSHAKE = HANDSHAKES[-1]
ERAS = (HANDSHAKE, MODERN)
"""One revision of each era, for what must hold in both."""

NEVER = 60.0
"""Seconds: a timeout that a test must not reach. Faults that are reported at once are reported long
before it."""


class ScriptedServer:
    """One script of `peer.py` and its journal.

    Args:
        directory: Where the journal goes.
        script: As `peer.py` describes it.
    """

    def __init__(self, directory: Path, **script: Any) -> None:
        self.path = directory / f"journal-{len(list(directory.iterdir()))}"
        self.path.touch()
        self._since = 0
        self.command = [sys.executable, "-E", "-S", str(PEER), str(self.path), json.dumps(script)]

    def connect(self, revision: str = "auto", **options: Any) -> minimcp.Client:
        """Connect to a new process of this server. By default its stderr is dropped."""
        options.setdefault("stderr", lambda line: None)
        return minimcp.connect(self.command, revision=revision, **options)

    def journal(self, event: Optional[str] = None) -> List[Dict[str, Any]]:
        """Return the journal of the server: all events, or the events of one kind."""
        records = [json.loads(line) for line in self.path.read_text("utf-8").split("\n")[:-1]]
        return [record for record in records[self._since :] if event in (None, record["event"])]

    def begin(self, *, whole: bool = False) -> None:
        """Start the journal here, for the next test that shares this server, or show the whole
        journal again."""
        self._since = 0
        self._since = 0 if whole else len(self.journal())

    def lines(self) -> List[bytes]:
        """The lines that the client wrote, to all processes, in order; long ones are cut."""
        return [record["text"].encode("latin-1") for record in self.journal("line")]

    def messages(self, method: Optional[str] = None) -> List[Dict[str, Any]]:
        """The same as messages, each checked: all, those of a method, or (for "answer") those
        without one."""
        found = []
        for record in self.journal("line"):
            if record["length"] == len(record["text"]):
                found.append(check(decode(record["text"].encode("latin-1"))))
        if method == "answer":
            return [message for message in found if "method" not in message]
        return [message for message in found if method in (None, message.get("method"))]

    def methods(self) -> List[str]:
        """Return the methods of those messages."""
        return [message.get("method", "answer") for message in self.messages()]

    def heard(self, method: str, count: int = 1) -> List[Dict[str, Any]]:
        """Wait until the server has received this many messages of a method, and return them."""
        assert eventually(lambda: len(self.messages(method)) >= count), (method, self.methods())
        return self.messages(method)

    def happened(self, event: str, count: int = 1) -> List[Dict[str, Any]]:
        """Wait for events of a kind, and return them."""
        assert eventually(lambda: len(self.journal(event)) >= count), (event, self.journal())
        return self.journal(event)

    def check(self) -> None:
        """Insist on what must hold for every line that a client ever writes."""
        requests: Dict[int, List[Any]] = {}
        for record in self.journal("line"):
            if record["length"] != len(record["text"]):
                continue
            text = record["text"]
            message = check(decode(text.encode("latin-1")))
            assert isinstance(message, dict), f"a client sends no batches: {text}"
            assert len(text.encode("latin-1").decode().splitlines()) == 1 and "\r" not in text, text
            if "method" in message and "id" in message:
                seen = requests.setdefault(record["pid"], [])
                identity = (type(message["id"]), message["id"])
                assert type(message["id"]) in (int, str) and identity not in seen, (
                    f"id used twice: {text}"
                )
                seen.append(identity)
                meta = message.get("params", {}).get("_meta", {})
                assert (VERSION_KEY in meta) == (CAPABILITIES_KEY in meta), text

    def end(self) -> None:
        """End the processes that the journal names and that have not exited."""
        for record in self.journal("grandchild"):
            try:
                os.kill(record["child"], signal.SIGKILL)
            except ProcessLookupError:
                pass


Script = Callable[..., ScriptedServer]
Both = Tuple[ScriptedServer, minimcp.Client]


@pytest.fixture(name="scripted")
def make_scripted(tmp_path: Path, patient: None) -> Iterator[Script]:
    """Make scripted servers; after the test every line that they received is checked."""
    made: List[ScriptedServer] = []

    def make(**script: Any) -> ScriptedServer:
        made.append(ScriptedServer(tmp_path, **script))
        return made[-1]

    yield make
    for server in made:
        server.end()
    for server in made:
        server.check()


def lives(client: minimcp.Client) -> None:
    """Show end to end that the connection still works."""
    assert client.call_tool("echo", {"text": "alive"}, timeout=WAIT).text == "alive"


PATIENCE = (0.1, 0.5, 2.0, 8.0)
"""Timeouts, tried in order until something has started within one, so that a slow machine gets more
time."""
