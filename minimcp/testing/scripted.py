"""`ScriptedServer` and `ScriptedClient`: peers that follow a test's script, and may violate the
protocol.

Their messages are dicts in wire form, and a test can send any bytes. For example, a test can check
how a client handles a server that responds twice, stops within a line or exits.
https://modelcontextprotocol.io/specification/2025-11-25/basic (the messages)
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
"""How long the other side may read nothing."""

Message = dict[str, Any]


class ScriptedPeer:
    """One end of a connection, controlled by a test. A context manager, for one thread.

    Args:
        pipe: The connection; this object closes it.
        timeout: Seconds to wait for a message; None means until the connection ends.
        server: Answers messages that `expect` does not return; if None, they stay unanswered.
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
        self._received.put(self.pipe.loss("the peer closed the connection"))

    def _take(self, frame: Any) -> None:
        try:
            message = json.loads(frame)
        except (ValueError, TypeError, RecursionError):
            message = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else str(frame)
        self._received.put(message if isinstance(message, dict) else {"noise": message})

    def expect(self, *names: str) -> Message:
        """Wait for a message with one of these methods, or for a "result" or an "error"; without
        names for any message.

        A line that is not a JSON object is returned as ``{"noise": ...}``. Other messages that
        arrive before go to the server behind a `ScriptedServer`; a `ScriptedClient` keeps them for
        later calls. To ignore all further messages, end a script with
        ``while True: peer.expect()``. It ends when the client disconnects.

        Raises:
            ConnectionLost: The other side has closed the connection.
            AssertionError: No such message arrived in time.
        """
        __tracebackhide__ = True
        what = " or ".join(names) or "message"
        return self._find(what, lambda each: not names or {each.get("method"), *each} & {*names})

    def answer_to(self, request: Mapping[str, Any]) -> Message:
        """Wait for the response to a request, with ``result`` or ``error``. Exceptions are those of
        `expect`."""
        __tracebackhide__ = True
        what = f"response to {request.get('method')} #{request['id']}"
        sought = (request["id"], False)
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
                    f"{self.pipe.name}: no {what} within {self.timeout:g} s{meanwhile}"
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
        """Write bytes, such as half a line. Raise ConnectionLost if the other side has disconnected
        or does not read."""
        with self._writing:
            while data:
                taken = self.pipe.send(data, self.stuck_seconds)
                data = data[taken:]
                if not taken:
                    raise self.pipe.loss("the peer does not read")

    def send(self, message: Any) -> None:
        """Write a message, or any other value, as a line of JSON; a str is the line itself.

        Exceptions are those of `write`.
        """
        self.write((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")

    def request(self, method: str, params: Optional[Mapping[str, Json]] = None) -> Message:
        """Send a request with a new id, and return it."""
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
        """Respond to a request. Exceptions are those of `write`.

        Args:
            request: The request as received.
            result: The result without ``resultType``, which 2026-07-28 requires and which is added;
                omitted if None.
            error: The error, such as ``{"code": -32603, "message": "no"}``; omitted if None.
            id: An id that differs from that of the request.
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
    """A connection to the server behind a script. Its messages are forwarded to the script's
    client."""

    def __init__(self, pipe: Transport, front: ScriptedPeer) -> None:
        self._front = front
        super().__init__(pipe)

    def _take(self, frame: Any) -> None:
        with suppress(ConnectionLost):
            self._front.write(frame + b"\n")


class ScriptedClient(ScriptedPeer):
    """A client that sends plain messages: ``with ScriptedClient(server, "2025-11-25") as client``.

    Args:
        target: The server, as for `connect`: a `Server`, or a child process.
        revision: The revision. A revision with a handshake is negotiated at once. A stateless
            revision is named in every request. If it is None, the test itself sends `initialize`.
        capabilities: The capabilities to declare; None means none.
        timeout: Seconds to wait for a message.

    Raises:
        TypeError: The target is a URL.
        AssertionError: The handshake was refused.
        ConnectionFailed: The server cannot be started.
    """

    def __init__(
        self,
        target: Any,
        revision: Optional[str] = None,
        *,
        capabilities: Optional[Mapping[str, Json]] = None,
        timeout: float = 10.0,
    ) -> None:
        found = read_target(target)
        info = {"name": "scripted", "version": "0"}
        declared = capabilities or {}
        if found.is_web:
            raise TypeError(f"a ScriptedClient needs a Server or a child process, not {found.what}")
        is_here = hasattr(found.object, "open_pipe")
        super().__init__(
            found.object.open_pipe() if is_here else ChildTransport(found.object, limit=None),
            timeout,
        )
        used = None if revision is None else choose([revision])[0]
        if used is not None and not used.handshake:
            self._envelope = {"_meta": PerRequest.envelope_for(used, info, declared)}
        elif used is not None:
            answer = self.answer_to(
                self.request("initialize", Handshake.opening(used, info, declared))
            )
            if "result" not in answer:
                self.close()
                raise AssertionError(f"the response to initialize is {answer}")
            self.notify("notifications/initialized")


class ScriptedServer:
    """A server that follows a script, to test a client in memory:
    ``connect(ScriptedServer(script))``.

    For a child process, write a program that calls `run`. Each connection runs the script again::

        def crash(peer):
            peer.expect("tools/call")
            peer.write(b'{"jsonrpc": "2.0", "id": ')
            sys.exit(3)

    Args:
        script: Called with a `ScriptedPeer`. The connection ends when it returns or raises;
            ``sys.exit(code)`` sets the exit code of a child process.
        server: A `Server` that answers messages that the script does not expect, such as the
            handshake; if None, an empty one is created.
    """

    def __init__(
        self, script: Callable[[ScriptedPeer], object], server: Optional[Server] = None
    ) -> None:
        self._script = script
        self._server = server or Server("scripted", capabilities=("tools", "resources", "prompts"))

    def open_pipe(self) -> Transport:
        """Return the client's end of a new connection in memory. A new thread runs the script at
        the other end."""
        ours, theirs = memory_pair(None)

        def follow() -> None:
            with suppress(SystemExit):
                self._follow(ours)

        threading.Thread(target=follow, name="minimcp-scripted", daemon=True).start()
        return theirs

    def run(self) -> None:
        """Run the script over this process's stdin and stdout."""
        self._follow(StreamTransport("stdio", os.dup(0), os.dup(1), None, shared=True))

    def _follow(self, pipe: Transport) -> None:
        # The client may disconnect at any time.
        with suppress(ConnectionLost), ScriptedPeer(pipe, server=self._server) as peer:
            self._script(peer)
