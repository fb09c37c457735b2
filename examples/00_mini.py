"""A small model of the library: a server and a client in one file, over stdin and stdout.

``python3 examples/00_mini.py`` starts the server as a child process, calls its tools, and prints
each message: the client sends ``-->``, and the server sends ``<--``. Two threads send the last two
responses, so their order can vary. ``python3 examples/00_mini.py server`` runs only the server.

Like the library, each side has a reader thread, a table of open calls by id, and worker threads for
requests. There is only one revision, one transport, and no limit. The table at the end names the
file of the library for each part, and says what the library adds, and why.

https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

import inspect
import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import IO, Any, Callable

REVISION = "2025-11-25"
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
Message = dict[str, Any]
Method = Callable[[Message], Message]
Trace = Callable[[str, bytes], None]


class RpcError(Exception):
    """A JSON-RPC error. A method raises it, `respond` sends it, and `wait` raises it again."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


# 1. Messages: one JSON object per line.


def encode(message: Message) -> bytes:
    """Return a message as one line: json.dumps writes a newline in a text as the characters \\n."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


# 2. A connection: the same class on both sides, because both sides can send requests.


class Connection:
    """One side of a conversation.

    Args:
        incoming: The stream from which we read the lines of the peer.
        outgoing: The stream to which we write our lines.
        methods: The function for each JSON-RPC method that we answer.
        trace: Called with "-->" or "<--" and each line.
    """

    def __init__(
        self,
        incoming: IO[bytes],
        outgoing: IO[bytes],
        methods: dict[str, Method],
        trace: Trace = lambda arrow, line: None,
    ) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.methods = methods
        self.trace = trace
        self.ids = itertools.count(1)
        # Calls that wait for a response. Each operation on a dict is atomic, so there is no lock.
        self.calls: dict[int, Queue[Message]] = {}
        self.write_lock = threading.Lock()  # held during a write, so that lines do not mix
        self.workers = ThreadPoolExecutor(8)
        self.reader = threading.Thread(target=self.read, name="reader", daemon=True)

    # 3. Our calls.

    def start_call(self, method: str, params: Message) -> Queue[Message]:
        """Send a request. Returns the queue that will receive its response."""
        id = next(self.ids)
        response: Queue[Message] = Queue()
        self.calls[id] = response  # before sending, because the response may arrive at once
        self.send({"id": id, "method": method, "params": params})
        return response

    def wait(self, response: Queue[Message]) -> Message:
        """Wait for the response of a call. Raises RpcError, or queue.Empty after a minute."""
        message = response.get(timeout=60)
        if "error" in message:
            raise RpcError(message["error"]["code"], message["error"]["message"])
        return dict(message["result"])

    def call(self, method: str, params: Message) -> Message:
        """Send a request and wait for its result."""
        return self.wait(self.start_call(method, params))

    def send(self, message: Message) -> None:
        """Write one line."""
        line = encode(message)
        with self.write_lock:
            self.trace("-->", line)
            self.outgoing.write(line)
            self.outgoing.flush()

    # 4. The reader thread only sorts messages. If the reader ran the tools, a slow tool would delay
    #    all later messages, including a response for which the tool itself may wait.

    def read(self) -> None:
        """Read messages until the peer closes the connection."""
        for line in self.incoming:
            self.trace("<--", line)
            message: Message = json.loads(line)
            if "method" not in message:
                self.calls.pop(message["id"]).put(message)  # a response wakes its caller
            elif "id" in message:
                self.workers.submit(self.respond, message)  # a request goes to a worker
        for response in list(self.calls.values()):
            response.put({"error": {"code": INTERNAL_ERROR, "message": "the connection was lost"}})

    # 5. The peer's requests, on worker threads.

    def respond(self, message: Message) -> None:
        """Answer a request: with a result or an error, and exactly once."""
        method = self.methods.get(message["method"])
        try:
            if method is None:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message['method']}")
            answer = {"result": method(message.get("params", {}))}
        except RpcError as error:
            answer = {"error": {"code": error.code, "message": str(error)}}
        except Exception as error:
            answer = {"error": {"code": INTERNAL_ERROR, "message": repr(error)}}
        self.send({"id": message["id"], **answer})


# 6. A server: a table of tools, and the methods that clients call.

JSON_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class Server:
    """A server whose tools are functions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tools: dict[str, Callable[..., object]] = {}

    def tool(self, function: Callable[..., object]) -> Callable[..., object]:
        """Register a function as a tool: a decorator."""
        self.tools[function.__name__] = function
        return function

    def initialize(self, params: Message) -> Message:
        """Agree on a revision, and say what this server offers."""
        return {
            "protocolVersion": REVISION,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": self.name, "version": "0"},
        }

    def list_tools(self, params: Message) -> Message:
        """Describe the tools for a model."""
        return {"tools": [self.describe(function) for function in self.tools.values()]}

    def describe(self, function: Callable[..., object]) -> Message:
        """Make a JSON Schema from the parameters, and a description from the docstring."""
        parameters = inspect.signature(function).parameters
        properties = {name: {"type": JSON_TYPES[p.annotation]} for name, p in parameters.items()}
        required = [name for name, p in parameters.items() if p.default is p.empty]
        schema = {"type": "object", "properties": properties, "required": required}
        description = inspect.getdoc(function)
        return {"name": function.__name__, "description": description, "inputSchema": schema}

    def call_tool(self, params: Message) -> Message:
        """Run a tool. A failure is a result too, because the model should read why it failed."""
        function = self.tools.get(params["name"])
        if function is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {params['name']}")
        try:
            text = str(function(**params.get("arguments", {})))
            return {"content": [{"type": "text", "text": text}]}
        except Exception as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}

    def run(self) -> None:
        """Serve stdin and stdout until the client closes stdin."""
        outgoing = sys.stdout.buffer
        sys.stdout = sys.stderr  # print() in a tool must not write into the protocol
        methods: dict[str, Method] = {
            "initialize": self.initialize,
            "ping": lambda params: {},
            "tools/list": self.list_tools,
            "tools/call": self.call_tool,
        }
        connection = Connection(sys.stdin.buffer, outgoing, methods)
        connection.reader.start()
        connection.reader.join()
        connection.workers.shutdown()


# 7. A client, which starts a server as a child process.


class Client:
    """The client of one server; for a ``with`` block."""

    def __init__(self, command: list[str], trace: Trace) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.stdin = self.process.stdin
        methods: dict[str, Method] = {"ping": lambda params: {}}  # the server may send a ping, too
        self.connection = Connection(self.process.stdout, self.stdin, methods, trace)
        self.connection.reader.start()
        info = {"name": "mini", "version": "0"}
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info}
        self.connection.call("initialize", hello)
        self.connection.send({"method": "notifications/initialized"})  # no id, so no response

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()  # the server sees the end of its input, and exits
        self.process.wait(timeout=10)

    def call_tool(self, name: str, **arguments: object) -> Message:
        """Call a tool and return its result."""
        return self.connection.call("tools/call", {"name": name, "arguments": arguments})


# 8. A server with three tools, and a program that calls them.

server = Server("mini")
bell = threading.Event()


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def wait() -> str:
    """Wait until the bell rings."""
    bell.wait(timeout=60)
    return "The bell has rung."


@server.tool
def ring() -> str:
    """Ring the bell."""
    bell.set()
    return "Ding."


def main() -> None:
    def show(arrow: str, line: bytes) -> None:
        sys.stdout.write(f"{arrow} {line.decode()}")

    with Client([sys.executable, __file__, "server"], show) as client:
        client.connection.call("tools/list", {})
        waiting = client.connection.start_call("tools/call", {"name": "wait"})
        client.call_tool("add", a=2, b=3)  # answered although the call before it is still running
        client.call_tool("add", a=2)  # a result that says what is missing
        client.call_tool("ring")
        client.connection.wait(waiting)


if __name__ == "__main__":
    server.run() if sys.argv[1:] == ["server"] else main()

WHAT_THE_LIBRARY_ADDS = """
====================== ==================================== ========================================
Part and library file  What the library adds                Why
====================== ==================================== ========================================
1. Messages            checks of every member; an error     a peer may send invalid JSON, or an id
   messages.py         for a line that cannot be read       that is a list; the reader must survive
2. Connection          limits for everything that a peer    a peer could use all memory or threads
   connection.py       sends
3. Our calls           deadlines, cancellation, progress;   a call must end exactly once, even if it
   calls.py            a lost connection fails all calls    times out while its response arrives
   send                a queue and a writer thread          a peer that does not read would block
   connection.py                                            every thread that sends
4. Reader: dispatch.py batches, sessions, five revisions    some peers are old, and some are new
5. Their requests      states, cancellation, questions      a client may cancel a request, or
   incoming.py         that a handler waits for             disconnect, while the handler runs
6. Server: tools.py    schemas from all types, validated    models send wrong arguments, and read
   registry.py         arguments, structured results,       the messages; a server can offer more
                       resources, prompts, middleware       than tools
   run: run.py         signals; an end within 1.2 seconds   hosts kill a server that does not exit
7. Client: client.py   HTTP, sign-in, restart, groups       servers can be remote, and can fail
====================== ==================================== ========================================
"""
