"""`ScriptedServer` and `ScriptedClient`: peers that do what a test says, also what no peer should
do.

Their messages are dicts as they are on the wire, and their bytes are the test's: to show how a
client bears a server that answers twice, stops within a line or exits, and how a server bears such
a client. https://modelcontextprotocol.io/specification/2025-11-25/basic (the messages)
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Callable, Mapping, Optional, Union

from ..client.connect import read_target
from ..engine.transport import StreamTransport, Transport, memory_pair
from ..errors import ConnectionLost
from ..protocol.lifecycle import VERSION_KEY, Handshake, PerRequest
from ..protocol.messages import Json
from ..protocol.versions import choose
from ..server.server import Server
from ..stdio.child import ChildTransport

STUCK_SECONDS = 60.0
"""How long the other side may take nothing of what is written."""

Message = dict[str, Any]


class ScriptedPeer:
    """One end of a connection, in a test's hands. A context manager; for one thread.

    Args:
        pipe: The connection; owned from now on.
        timeout: Seconds to wait for a message; None waits until the connection ends.
        server: Gets what `expect` does not, and answers it; None leaves that unanswered.
    """

    stuck_seconds = STUCK_SECONDS

    def __init__(
        self, pipe: Transport, timeout: Optional[float] = None, server: Optional[Server] = None
    ) -> None:
        self.pipe = pipe
        self.timeout = timeout
        self._received: SimpleQueue[Union[Message, ConnectionLost]] = SimpleQueue()
        self._aside: list[Message] = []
        self._sent = 0
        self._envelope = Message()
        self._writing = threading.Lock()
        self._server = server
        self._behind: Optional[ScriptedPeer] = None
        threading.Thread(target=self._read, name="minimcp-scripted-reader", daemon=True).start()

    def _read(self) -> None:
        for frames in iter(self.pipe.receive, []):
            for frame in frames:
                self._take(frame)
        self._received.put(self.pipe.lost("the peer closed the connection"))

    def _take(self, frame: Any) -> None:
        try:
            message = json.loads(frame)
        except (ValueError, TypeError, RecursionError):
            message = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else str(frame)
        self._received.put(message if isinstance(message, dict) else {"noise": message})

    def expect(self, *names: str) -> Message:
        """Wait for a message of one of these methods, or for a "result" or an "error"; without
        names for any.

        A line that is no object, such as an array, or what is no JSON at all, is ``{"noise":
        ...}``.

        What comes before is for the server behind a `ScriptedServer`; a `ScriptedClient` keeps it
        for later. A script that answers nothing any more ends in ``while True: peer.expect()``,
        until the client goes.

        Raises:
            ConnectionLost: The other side has gone.
            AssertionError: It did not come in time.
        """
        __tracebackhide__ = True
        what = " or ".join(names) or "message"
        return self._find(what, lambda each: not names or {each.get("method"), *each} & {*names})

    def answer_to(self, request: Mapping[str, Any]) -> Message:
        """Wait for the answer to a request, with ``result`` or ``error``. The rest as `expect`."""
        __tracebackhide__ = True
        what, sought = f"answer to {request.get('method')} #{request['id']}", (request["id"], False)
        return self._find(what, lambda each: (each.get("id"), "method" in each) == sought)

    def _find(self, what: str, fits: Callable[[Message], object]) -> Message:
        __tracebackhide__ = True
        for index, kept in enumerate(self._aside):
            if fits(kept):
                return self._aside.pop(index)
        while True:
            try:
                message = self._received.get(timeout=self.timeout)
            except Empty:
                meanwhile = f", but {self._aside[-1]!r:.300}" if self._aside else ""
                raise AssertionError(
                    f"{self.pipe.name}: no {what} in {self.timeout:g} s{meanwhile}"
                ) from None
            if isinstance(message, ConnectionLost):
                self._received.put(message)
                raise message
            if fits(message):
                return message
            if self._server is None:
                self._aside.append(message)
                continue
            self._behind = self._behind or _Behind(self._server.open_pipe(), self)
            self._behind.send(message.get("noise", message))

    def write(self, data: bytes) -> None:
        """Write bytes as they are, such as half a line. Raises ConnectionLost: the other side has
        gone, or is stuck."""
        with self._writing:
            while data:
                taken = self.pipe.send(data, self.stuck_seconds)
                data = data[taken:]
                if not taken:
                    raise self.pipe.lost("the peer takes nothing")

    def send(self, message: Any) -> None:
        """Write a message, or anything else, as a line of JSON; a str is the line itself. Errors as
        `write`."""
        self.write((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")

    def request(self, method: str, params: Optional[Mapping[str, Json]] = None) -> Message:
        """Send a request with an id of its own, and return it."""
        self._sent += 1
        message = {
            "jsonrpc": "2.0",
            "id": self._sent,
            "method": method,
            "params": {**self._envelope, **(params or {})},
        }
        self.send(message)
        return message

    def notify(self, method: str, params: Optional[Mapping[str, Json]] = None) -> None:
        """Send a notification."""
        self.send(
            {"jsonrpc": "2.0", "method": method, "params": {**self._envelope, **(params or {})}}
        )

    def answer(
        self,
        request: Mapping[str, Any],
        result: Optional[Mapping[str, Json]] = None,
        *,
        error: Optional[Mapping[str, Json]] = None,
        id: Any = ...,
    ) -> None:
        """Answer a request. Errors as `write`.

        Args:
            request: As it came.
            result: Without the ``resultType`` that a complete one has in 2026-07-28, which is
                added; None for none.
            error: ``{"code": -32603, "message": "no"}``, for example; None for none.
            id: Of another request, or of none; without it that of the request.
        """
        answer: Message = {"jsonrpc": "2.0", "id": request["id"] if id is ... else id}
        if result is not None:
            has_type = VERSION_KEY in (request.get("params") or {}).get("_meta", {})
            answer["result"] = {**({"resultType": "complete"} if has_type else {}), **result}
        self.send({**answer, "error": error} if error else answer)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.pipe.close()
        if self._behind is not None:
            self._behind.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Behind(ScriptedPeer):
    """A connection to the server behind a script; what it says goes to the script's client."""

    def __init__(self, pipe: Transport, front: ScriptedPeer) -> None:
        self._front = front
        super().__init__(pipe)

    def _take(self, frame: Any) -> None:
        with suppress(ConnectionLost):
            self._front.write(frame + b"\n")


class ScriptedClient(ScriptedPeer):
    """A client of plain messages: ``with ScriptedClient(server, "2025-11-25") as client``.

    Args:
        target: The server, as `connect` takes it: a `Server`, or what is started as a child
            process.
        revision: With a handshake: is agreed on at once. Without: every request names it. None:
            neither.
        capabilities: What it declares; None declares nothing.
        timeout: Seconds to wait for a message.

    Raises:
        TypeError: The target is a URL.
        AssertionError: The handshake was refused. Others as `expect`, and as `connect` of what
            cannot be started.
    """

    def __init__(
        self,
        target: Any,
        revision: Optional[str] = None,
        *,
        capabilities: Optional[Mapping[str, Json]] = None,
        timeout: float = 10.0,
    ) -> None:
        found, info, declared = (
            read_target(target),
            {"name": "scripted", "version": "0"},
            capabilities or {},
        )
        if found.is_web:
            raise TypeError(
                f"a scripted client speaks to a Server or to a child process, not to {found.what}"
            )
        is_here = hasattr(found.object, "open_pipe")
        super().__init__(
            found.object.open_pipe() if is_here else ChildTransport(found.object, limit=None),
            timeout,
        )
        spoken = None if revision is None else choose([revision])[0]
        if spoken is not None and not spoken.handshake:
            self._envelope = {"_meta": PerRequest.envelope_for(spoken, info, declared)}
        elif spoken is not None:
            answer = self.answer_to(
                self.request("initialize", Handshake.opening(spoken, info, declared))
            )
            if "result" not in answer:
                self.close()
                raise AssertionError(f"initialize was answered by {answer}")
            self.notify("notifications/initialized")


class ScriptedServer:
    """A server that follows a script, for the test of a client:
    ``connect(ScriptedServer(script))``, in memory.

    As a child process it is a program of its own, which ends in `run`. Each connection begins the
    script anew::

        def crash(peer):
            peer.expect("tools/call")
            peer.write(b'{"jsonrpc": "2.0", "id": ')
            sys.exit(3)

    Args:
        script: Called with a `ScriptedPeer`; the connection ends when it returns or raises.
            ``sys.exit(code)`` is the exit code of a child process.
        server: A `Server` behind it, which answers what the script does not expect, such as the
            opening; None makes one that has nothing.
    """

    def __init__(
        self, script: Callable[[ScriptedPeer], object], server: Optional[Server] = None
    ) -> None:
        self._script = script
        self._server = server or Server("scripted", capabilities=("tools", "resources", "prompts"))

    def open_pipe(self) -> Transport:
        """A client's end of a new connection in memory, whose other end follows the script on a
        thread of its own."""
        ours, theirs = memory_pair(None)

        def follow() -> None:
            with suppress(SystemExit):
                self._follow(ours)

        threading.Thread(target=follow, name="minimcp-scripted", daemon=True).start()
        return theirs

    def run(self) -> None:
        """Follow the script over this process's stdin and stdout, in a program of its own."""
        self._follow(StreamTransport("stdio", os.dup(0), os.dup(1), None, shared=True))

    def _follow(self, pipe: Transport) -> None:
        with (
            suppress(ConnectionLost),
            ScriptedPeer(pipe, server=self._server) as peer,
        ):  # the client may go at any time
            self._script(peer)
