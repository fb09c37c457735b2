"""The peers, as data: what to install, which scripts play which role, which revisions they speak.

To add a peer, add an entry. A script below `peers/` prints or serves as the shared ones do; a
third-party server with its own tools names its set of checks in `our_client.CHECKS`.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from .environments import Environment, NodeEnvironment, PythonEnvironment

R1, R2, R3, R4, R5 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
HANDSHAKE = (R1, R2, R3, R4)
ALL = (*HANDSHAKE, R5)


class Asked(NamedTuple):
    """The revision that a client is configured to request, and the revision that must result."""

    revision: str
    agreed: str


def exactly(*revisions: str) -> tuple[Asked, ...]:
    return tuple(Asked(revision, revision) for revision in revisions)


# How messages go: over stdio, Streamable HTTP, the HTTP+SSE of 2024-11-05; or over one of the first
# two to `minimcp bridge`, and over the other one to our server.
WAYS = ("stdio", "http", "sse", "bridge", "to URL")


class Fault(NamedTuple):
    """A check that a peer fails in some revisions, because the peer is wrong; it has to fail, or
    this has to go."""

    role: str  # the peer's: "server" or "client"
    check: str  # the name of the check
    reason: str  # what the peer does, what the specification says, and the place in the peer's code
    since: str = R1  # the first revision; and the last one
    until: str = R5
    ways: tuple[str, ...] = WAYS  # where it shows
    always: bool = True  # false for a race, in which the check passes often


class Peer(NamedTuple):
    """One piece of foreign software.

    `server` and `client` are scripts: a path below `peers/`, or, for a server that is used
    unchanged, a path inside node_modules or the name of a module. An empty one means that the peer
    does not have that role. Revisions over HTTP have their own fields, because fewer revisions work
    there. A server gets "http" or "sse" as its argument then, or the name in `way_names`, and its
    port in the variable PORT.
    """

    name: str
    version: str
    environment: Environment
    server: str = ""
    server_arguments: tuple[str, ...] = ()
    serves: tuple[Asked, ...] = ()
    tools: str = "shared"
    client: str = ""
    speaks: tuple[Asked, ...] = ()
    faults: tuple[Fault, ...] = ()
    serves_at: Mapping[str, tuple[Asked, ...]] = {}
    speaks_at: Mapping[str, tuple[Asked, ...]] = {}
    way_names: Mapping[str, str] = {}


ONE_ERA = (*exactly(R2, R4), Asked("auto", R4))
BRIDGED = {"bridge": exactly(R4, R5), "to URL": exactly(R4, R5)}
BOTH_ERAS = (*exactly(R2, R4, R5), Asked("auto", R5))
ZOD = "zod@4.6.7"
REFERENCE = [
    "mcp-server-time==2026.10.19",
    "mcp-server-git==2026.10.19",
    "mcp-server-fetch==2026.10.24",
    "mcp==2.3.0",
]


def of_node(name: str, *arguments: str) -> Peer:
    """An unchanged third-party server, with the checks of its name."""
    environment = NodeEnvironment(name, [f"@modelcontextprotocol/{name}@2026.8.31"])
    return Peer(
        name,
        "2026.8.31",
        environment,
        f"@modelcontextprotocol/{name}/dist/index.js",
        arguments,
        (*exactly(*HANDSHAKE), Asked("auto", R4)),
        name.partition("-")[2],
    )


def of_python(name: str, version: str, *arguments: str) -> Peer:
    """The same for one of `REFERENCE`."""
    return Peer(
        f"mcp-server-{name}",
        version,
        PythonEnvironment("reference", REFERENCE),
        f"mcp_server_{name}",
        arguments,
        (*exactly(*ALL), Asked("auto", R5)),
        name,
    )


PEERS = (
    Peer(
        "python-sdk-1",
        "1.30.0",
        PythonEnvironment("python-sdk-1", ["mcp==1.30.0"]),
        server="python_server.py",
        serves=(*exactly(*HANDSHAKE), Asked("handshake", R4), Asked("auto", R4)),
        serves_at={"http": ONE_ERA, "sse": (*exactly(R2), Asked("auto", R4))},
        client="python_client.py",
        speaks=exactly(*HANDSHAKE),
        speaks_at={"http": exactly(R2, R4), "sse": exactly(R4)},
        faults=(
            Fault(
                "server",
                "no resource",
                'As "code of no resource": neither the code nor data says that there is no such resource.',
            ),
            Fault(
                "server",
                "code of no resource",
                "A resource that does not exist should be answered by the error -32002 (server/resources, error "
                "handling). FastMCP.read_resource raises ValueError or ResourceError, which the low-level server "
                "answers with the code 0, a code of nobody.",
            ),
            Fault(
                "server",
                "cancel asking",
                "The receiver of a cancellation that comes when the request is done ignores it (basic/utilities/"
                "cancellation). When it comes while the low-level Server._handle_request awaits message.respond(), "
                "outside the try that expects it, RequestResponder.__exit__ does not return what its cancel scope "
                "returns: CancelledError leaves the task, and the whole session ends. Over HTTP the cancellation "
                "and the answer to the question are two POSTs, which may overtake one another.",
                ways=("http", "sse"),
                always=False,
            ),
        ),
    ),
    Peer(
        "python-sdk-2",
        "2.3.0",
        PythonEnvironment("python-sdk-2", ["mcp==2.3.0"]),
        server="python_server.py",
        serves=(*exactly(*ALL), Asked("handshake", R4), Asked("auto", R5)),
        serves_at={"http": BOTH_ERAS},
        client="python_client.py",
        speaks=(*exactly(*ALL), Asked("auto", R5)),
        speaks_at={"http": BOTH_ERAS, "sse": exactly(R4), **BRIDGED},
        faults=(
            Fault(
                "server",
                "code of no resource",
                "Before 2026-07-28 a resource that does not exist should be answered by the error -32002 "
                "(server/resources, error handling). MCPServer._handle_read_resource says -32602 in every "
                "revision, which is right in 2026-07-28 alone.",
                until=R4,
            ),
            Fault(
                "client",
                "large",
                "sse_client sets no bound of its own, so the one of httpx2 holds: 1 MiB for an event. A longer "
                "message is no error of its call: the connection is lost.",
                ways=("sse",),
            ),
            Fault(
                "client",
                "close",
                'As "large": the error comes out of sse_client once more.',
                ways=("sse",),
            ),
        ),
    ),
    Peer(
        "typescript-sdk-1",
        "1.32.2",
        NodeEnvironment("typescript-sdk-1", ["@modelcontextprotocol/sdk@1.32.2", ZOD]),
        server="typescript_server.mjs",
        serves=(*exactly(*HANDSHAKE), Asked("handshake", R4), Asked("auto", R4)),
        serves_at={"http": ONE_ERA, "sse": (*exactly(R2), Asked("auto", R4))},
        client="typescript_client.mjs",
        speaks=exactly(*HANDSHAKE),
        speaks_at={"http": exactly(R2, R4), "sse": exactly(R4)},
        faults=(
            Fault(
                "server",
                "no resource",
                'As "code of no resource": neither the code nor data says that there is no such resource.',
            ),
            Fault(
                "server",
                "code of no resource",
                "A resource that does not exist should be answered by the error -32002 (server/resources, error "
                "handling). The handler of resources/read in server/mcp.js throws ErrorCode.InvalidParams, -32602.",
            ),
            Fault(
                "server",
                "icons",
                "Tools may have icons since 2025-11-25. McpServer.registerTool of 1.x does not know them, and drops "
                "what it is given.",
                since=R4,
            ),
        ),
    ),
    Peer(
        "typescript-sdk-2",
        "2.4.0",
        NodeEnvironment(
            "typescript-sdk-2",
            [
                "@modelcontextprotocol/server@2.4.0",
                "@modelcontextprotocol/client@2.4.0",
                ZOD,
            ],
        ),
        server="typescript_server.mjs",
        serves=(*exactly(*ALL), Asked("handshake", R4), Asked("auto", R5)),
        serves_at={"http": BOTH_ERAS},
        client="typescript_client.mjs",
        speaks=(*exactly(*ALL), Asked("auto", R5)),
        speaks_at={"http": BOTH_ERAS, "sse": exactly(R4), **BRIDGED},
        faults=(
            Fault(
                "server",
                "code of no resource",
                "Before 2026-07-28 a resource that does not exist should be answered by the error -32002 "
                "(server/resources, error handling). McpServer throws ResourceNotFoundError, whose code is -32602 "
                "in every revision, which is right in 2026-07-28 alone.",
                until=R4,
            ),
            Fault(
                "client",
                "unknown method",
                "In 2026-07-28 an unknown method is answered by HTTP 404 with the error -32601 in the body "
                "(basic/transports). StreamableHTTPClientTransport._send hands on the body of a 400 alone; of a 404 "
                "it makes an SdkHttpError, CLIENT_HTTP_NOT_IMPLEMENTED.",
                since=R5,
                ways=("http", "bridge"),
            ),
        ),
    ),
    Peer(
        "server-everything",
        "2026.8.31",
        NodeEnvironment("server-everything", ["@modelcontextprotocol/server-everything@2026.8.31"]),
        server="@modelcontextprotocol/server-everything/dist/index.js",
        server_arguments=("stdio",),
        serves=(*exactly(*HANDSHAKE), Asked("handshake", R4), Asked("auto", R4)),
        tools="everything",
        serves_at={"http": ONE_ERA, "sse": (*exactly(R2), Asked("auto", R4))},
        way_names={"http": "streamableHttp"},
        faults=(
            Fault(
                "server",
                "task only",
                "A call of a tool that runs only as a task has to be answered by the error -32601 (2025-11-25, "
                "basic/utilities/tasks, tool-level negotiation). The SDK that the server stands on throws that "
                "error inside its handler of tools/call and turns it into a result with isError.",
                since=R4,
            ),
        ),
    ),
    of_node("server-filesystem", "."),
    of_node("server-memory"),
    of_python("time", "2026.10.19", "--local-timezone", "UTC"),
    of_python("git", "2026.10.19"),
    of_python("fetch", "2026.10.24", "--ignore-robots-txt", "--allow-private-ips"),
    Peer(
        "mcp-server-sqlite",
        "2025.4.25",
        PythonEnvironment("sqlite", ["mcp-server-sqlite==2025.4.25", "mcp==1.30.0"]),
        server="sqlite_server.py",
        server_arguments=("--db-path", "notes.db"),
        serves=(*exactly(*HANDSHAKE), Asked("auto", R4)),
        tools="sqlite",
    ),
    Peer(
        "python-sdk-2024",
        "1.1.2",
        PythonEnvironment("python-sdk-2024", ["mcp==1.1.2"]),
        server="python_2024_server.py",
        serves=(*exactly(R1), Asked("auto", R1)),
        tools="plain",
        client="python_2024_client.py",
        speaks=exactly(R1),
        faults=(
            Fault(
                "server",
                "resources",
                "The contents of a resource have its own MIME type (2024-11-05, server/resources). The low-level "
                "server of 1.1.2 says application/octet-stream of all bytes, and text/plain of all text.",
            ),
        ),
    ),
    Peer(
        "fastmcp",
        "4.1.2",
        PythonEnvironment("fastmcp", ["fastmcp==4.1.2"]),
        server="fastmcp_server.py",
        serves=(*exactly(*ALL), Asked("handshake", R4), Asked("auto", R5)),
        tools="fastmcp",
        serves_at={"http": BOTH_ERAS},
        client="fastmcp_client.py",
        speaks=(Asked("legacy", R4), Asked("auto", R5)),
        speaks_at={"http": (Asked("legacy", R4), Asked("auto", R5))},
    ),
    Peer(
        "inspector",
        "2.12.0",
        NodeEnvironment("inspector", ["@modelcontextprotocol/inspector@2.12.0"]),
        client="inspector_client.mjs",
        speaks=exactly(R4),
        speaks_at={"http": exactly(R4)},
    ),
)
